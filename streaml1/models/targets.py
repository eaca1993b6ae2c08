"""Batches of dicts and of data frames that hold their labels, for `learn_many(..., target=...)`."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.rows import BadExample, shown, shown_type
from streaml1.features.arrow_frames import (
    as_frame,
    frame_table,
    has_nested,
    is_stream,
    nested_rows,
)
from streaml1.features.arrow_structs import OpenedColumns
from streaml1.features.batch import category_text, column_values, is_frame, is_matrix, to_narwhals
from streaml1.features.flat_members import MemberRoles
from streaml1.features.number_texts import read_number_text
from streaml1.features.positive_label import positive_labels, require_text
from streaml1.features.raw_labels import number_label, read_weight
from streaml1.features.records import read_record, require_dict

__all__ = ["LabelledRows", "ReadLabel", "TargetOptions", "labelled_rows"]

ReadLabel = Callable[[Any], Any]


class TargetOptions(NamedTuple):
    """Options of `learn_many` that name columns or members."""

    target: str | None = None
    weight: str | None = None
    ignore: Iterable[str] = ()
    categorical: Iterable[str] = ()
    positive: str | None = None
    numeric: Iterable[str] = ()

    def roles(self) -> MemberRoles:
        """Return the roles; a single name may be given without a list."""
        ignore, categorical, numeric = (
            frozenset([names] if isinstance(names, str) else names)
            for names in (self.ignore, self.categorical, self.numeric)
        )
        return MemberRoles(
            self.target, self.weight, None, ignore, categorical, None, self.positive, numeric
        )


class LabelledRows(NamedTuple):
    """Features, labels and sample weights of a batch; weights of None are 1."""

    X: Any
    y: Any
    w: Any


def labelled_rows(
    X: Any, y: Any, w: Any, options: TargetOptions, read_label: ReadLabel | None
) -> LabelledRows:
    """Return the arguments of `learn_many` with the labels and weights that X holds.

    Parameters
    ----------
    X, y, w
        What `learn_many` was given.
    options
        Its options.
    read_label
        Reads a label and raises ValueError if it is invalid; None to leave labels as they are.

    Raises
    ------
    BadExample
        If a row is invalid. `row` is the first such row.
    TypeError
        If the options do not fit the other arguments.
    ValueError
        If there are no labels, a frame has no such column, or a column has two roles.
    """
    if not isinstance(options.target, Hashable):
        raise TypeError(
            f"target must be the name of a column, got {shown_type(options.target)}; give "
            "labels as y"
        )
    if options.positive is not None:
        require_text("positive", options.positive)
    if options.target is None:
        _require_no_options(y, options)
        return LabelledRows(X, y, w)
    if y is not None:
        raise TypeError("learn_many() takes either y or target, got both")
    if options.weight is not None and not (np.isscalar(w) and w == 1.0):
        raise TypeError("learn_many() takes either w or weight, got both")
    roles = options.roles()
    found = _of_frames(X, roles) if is_frame(X) or is_stream(X) else _of_items(X, roles)
    labels = found.y if read_label is None else _labels_of(found.y, read_label)
    if roles.weight is None:
        return LabelledRows(found.X, labels, w)
    return LabelledRows(found.X, labels, _each(read_weight, found.w))


def _require_no_options(y: Any, options: TargetOptions) -> None:
    if y is None:
        raise ValueError("labels are missing: give y, or target, the column of X that holds them")
    given = [name for name, value in options._asdict().items() if value not in (None, ())]
    if given:
        raise TypeError(f"learn_many() takes {given[0]} only together with target")


def _labels_of(y: Any, read: ReadLabel) -> Any:
    """Return labels as `learn_many` takes them; texts of numbers are read, as those of files."""
    is_valid = isinstance(y, np.ndarray) and (read is number_label or np.isin(y, (0, 1)).all())
    return y if is_valid else _each(read, y)


def _each(read: Callable[[Any], Any], values: Sequence[Any]) -> list[Any]:
    found = []
    for row, value in enumerate(values):
        try:
            found.append(read(value))
        except ValueError as error:
            raise BadExample(str(error), row) from None
    return found


def _of_items(X: Any, roles: MemberRoles) -> LabelledRows:
    """Read dicts, or frames one after the other."""
    if is_matrix(X) or isinstance(X, str | bytes | Mapping) or not isinstance(X, Iterable):
        remedy = ": give pandas.DataFrame(X)" if isinstance(X, np.ndarray) and X.dtype.names else ""
        raise TypeError(f"target needs dicts or data frames, got {shown_type(X)}{remedy}")
    items = iter(X)
    for first in items:
        whole = itertools.chain([first], items)
        if is_frame(first) or is_stream(first):
            return _of_frames(_joined([as_frame(frame) for frame in whole]), roles)
        return _of_dicts(whole, roles)
    return LabelledRows([], [], [])


def _of_dicts(rows: Iterable[Any], roles: MemberRoles) -> LabelledRows:
    x, y, w = [], [], []
    for number, row in enumerate(rows):
        try:
            require_dict(row)
            record = read_record(row, roles)
        except ValueError as error:
            raise BadExample(str(error), number) from None
        assert record is not None  # since no role is that of an envelope
        x.append(record.x)
        y.append(record.y)
        w.append(record.w)
    return LabelledRows(x, y, w)


def _joined(frames: list[Any]) -> Any:
    """Return the rows of frames as one frame.

    Raises
    ------
    TypeError
        If their columns differ.
    """
    import narwhals as nw

    for frame in frames:
        if not is_frame(frame):
            raise TypeError(f"got {shown_type(frame)} after data frames; give frames only")
    try:
        joined = nw.concat([to_narwhals(frame) for frame in frames], how="vertical")
    except Exception as error:  # each library has its own
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise TypeError(f"the frames must have the same columns and types: {reason}") from None
    return joined.to_native()


def _of_frames(X: Any, roles: MemberRoles) -> LabelledRows:
    X = as_frame(X)
    table = frame_table(X) if has_nested(X) else None
    return _of_columns(X, roles) if table is None else _of_nested(table, roles)


def _of_nested(table: Any, roles: MemberRoles) -> LabelledRows:
    """Read a pyarrow.Table with nested columns."""
    opened = OpenedColumns(table.schema)
    opened.require_distinct()
    flat = opened.split_roles(roles)
    opened.require_value(roles.target, "target")
    opened.require_value(roles.weight, "weight")
    nested = frozenset(column for column in opened.kinds if opened.is_nested(column))
    found = _of_columns(opened.select(table, opened.header), flat, nested)
    return found._replace(X=nested_rows(found.X, opened.roles))


def _of_columns(X: Any, roles: MemberRoles, nested: frozenset[str] = frozenset()) -> LabelledRows:
    """Read a frame, except for the roles of its nested columns."""
    import narwhals as nw

    frame = to_narwhals(X)
    roles = _with_names_of(roles, frame.columns)
    named = (roles.target, roles.weight, *sorted({*roles.ignore, *roles.readings}, key=str))
    for name in named:
        if name is not None and name not in frame.columns:
            raise ValueError(_no_column(name, frame.columns))
    y = _labels(frame.get_column(roles.target), roles.positive)
    w = None if roles.weight is None else column_values(frame.get_column(roles.weight))
    taken = {roles.target, roles.weight, *roles.ignore}
    features = frame.drop([name for name in frame.columns if name in taken])
    for name in sorted(roles.categorical - nested, key=str):
        texts = [
            None if value is None else value if isinstance(value, str) else category_text(value)
            for value in column_values(frame.get_column(name))
        ]
        column = nw.new_series(name, texts, nw.String, backend=frame.implementation)
        features = features.with_columns(column)
    for name in sorted(roles.numeric - nested, key=str):
        numbers = _each(partial(_number, name), column_values(frame.get_column(name)))
        column = nw.new_series(name, numbers, nw.Float64, backend=frame.implementation)
        features = features.with_columns(column)
    return LabelledRows(features.to_native(), y, w)


def _with_names_of(roles: MemberRoles, columns: Sequence[Any]) -> MemberRoles:
    """Return roles with the names of columns that are not texts, such as 2 for ``"2"``."""
    others = {str(name): name for name in columns if not isinstance(name, str)}
    if not others or others.keys() & {*columns}:
        return roles

    def found(name: Any) -> Any:
        return others.get(name, name)

    return replace(
        roles, target=found(roles.target), weight=found(roles.weight),
        ignore=frozenset(map(found, roles.ignore)),
        categorical=frozenset(map(found, roles.categorical)),
        numeric=frozenset(map(found, roles.numeric)),
    )  # fmt: skip


def _number(name: str, value: Any) -> float | None:
    if not isinstance(value, str):
        return None if value is None else float(value)
    try:
        return read_number_text(value)
    except ValueError as error:
        raise ValueError(f"feature {name!r}: {error}; leave it out of numeric") from None


def _labels(column: Any, positive: str | None) -> Any:
    """Return labels as an array of numbers, or as a list of anything."""
    is_number = column.dtype.is_numeric() or str(column.dtype) == "Boolean"
    if is_number and not column.is_null().any():
        numbers = column.to_numpy()
        if numbers.dtype.kind in "biuf" and not np.isnan(numbers).any():
            return positive_labels(numbers, positive)
    return list(positive_labels(column_values(column), positive))


def _no_column(name: Hashable, columns: Sequence[str]) -> str:
    close = difflib.get_close_matches(str(name), map(str, columns), 1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    listed = ", ".join(map(str, columns))
    return f"the frame has no column {shown(name)}; {hint}its columns are: {listed}"
