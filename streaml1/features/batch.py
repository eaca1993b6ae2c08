"""Convert lists of dicts, data frames, and sparse or dense matrices to rows."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain, compress, islice
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.rows import (
    MAX_IDS,
    NUMBER_TYPES,
    PLAIN_TYPES,
    BadExample,
    Rows,
    are_valid_values,
    is_missing,
    max_id,
    numeric_features,
    shown,
    shown_type,
    to_value,
)
from streaml1.core.types import Floats, Ints
from streaml1.features.dedup import plain_rows
from streaml1.features.matrices import csr_of, out_of_range_column, own
from streaml1.text.parsed_rows import IntRows, NamedRows

__all__ = [
    "Batch",
    "batch_of",
    "category_text",
    "checked",
    "require_distinct",
    "to_narwhals",
    "is_frame",
    "is_matrix",
    "plain_name",
    "out_of_range_column",
    "column_values",
]


BLOCK_ROWS = 4096
"""Dicts that are converted at once: the names of their categories are in memory together."""


class Batch(NamedTuple):
    """Rows whose ids are positions in `names`, or int names if `names` is None.

    The rows are canonical, with two exceptions:

    - Rows of a matrix are checked while they are learnt. `width` is set, and ids must be below it.
    - Rows of `texts` have no ids yet. Their names are given by hash and may repeat within a row.

    If names are column numbers, all are less than `below`, unless `below` is None.
    """

    rows: Rows
    names: list[Hashable] | None
    width: int | None = None
    texts: NamedRows | None = None
    below: int | None = None

    @property
    def n(self) -> int:
        """Number of rows."""
        return self.rows.n


def is_matrix(X: Any) -> bool:
    """Return whether X is a scipy sparse matrix or a numpy array."""
    return isinstance(X, np.ndarray) or hasattr(type(X), "tocsr")


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame that holds its rows."""
    # Look at the type: reading `columns` of a polars LazyFrame emits a performance warning.
    kind = type(X)
    if not hasattr(kind, "columns") or is_matrix(X) or hasattr(kind, "collect"):
        return False
    # A batch of Arrow and a relation of DuckDB have columns, too, but are not frames of narwhals.
    return kind.__name__ != "RecordBatch" and "duckdb" not in kind.__module__


def batch_of(X: Any) -> Batch:
    """Convert X to rows: a data frame, a matrix, parsed rows of text, or a list of dicts.

    Raises
    ------
    BadExample
        If a value is invalid. `row` is the first such row.
    TypeError
        If X has another type, is not a matrix of real numbers, or is malformed.
    """
    if isinstance(X, IntRows):
        return _from_ints(X)
    if isinstance(X, NamedRows):
        return _from_texts(X)
    if is_matrix(X):
        return _from_matrix(X)
    if is_frame(X):
        return _from_frame(X)
    if isinstance(X, Sequence) and not isinstance(X, str | bytes):
        return _from_dicts(X)
    raise TypeError(
        f"X is {shown_type(X)}; give a data frame, a scipy.sparse matrix or a list of dicts"
    )


def _from_matrix(X: Any) -> Batch:
    data, indices, indptr, (_, width) = csr_of(X)
    end = int(indptr[-1])
    indices, data = indices[:end], own(data[:end], np.float64)
    rows_of = own(indptr, np.uint64)
    if indices.dtype == np.int32:  # negative indices become too large as uint32
        return Batch(Rows(own(indices, np.int32).view(np.uint32), data, rows_of), None, width)
    if end and not (indices.min() >= 0 and indices.max() < width):
        raise TypeError(out_of_range_column(width))
    if width < MAX_IDS:
        return Batch(Rows(indices.astype(np.uint32), data, rows_of), None, width)
    return _named(indices, data, rows_of)


def _named(ids: Any, data: Any, rows_of: Any) -> Batch:
    """Return a batch for ids that exceed the range of slots: they become names."""
    columns, positions = np.unique(ids, return_inverse=True)
    names = columns.tolist()
    rows = Rows(positions.astype(np.uint32), data, rows_of)
    return Batch(plain_rows(rows, names.__getitem__), names, below=names[-1] + 1 if names else 0)


def _from_ints(X: IntRows) -> Batch:
    ids, values, indptr = X.csr()
    rows_of = own(indptr, np.uint64)
    below = X.id_bound
    if below is None:
        below = max_id(ids) + 1 if len(ids) and ids.dtype == np.uint32 else 0
    if ids.dtype != np.uint32 or below >= MAX_IDS:
        return _named(ids, own(values, np.float64), rows_of)
    rows = Rows(own(ids, np.uint32), own(values, np.float64), rows_of)
    return Batch(rows, None, below=below) if X.plain else Batch(rows, None, below)


def _from_texts(X: NamedRows) -> Batch:
    _, values, indptr = X.csr()
    if not (X.plain or X.values_checked or are_valid_values(values)):
        return _from_dicts(X)
    rows_of = indptr.view(np.uint64)  # int64, never negative
    return Batch(Rows(np.empty(0, np.uint32), own(values, np.float64), rows_of), None, None, X)


def checked(batch: Batch, name_of: Callable[[int], Hashable] = int) -> Batch:
    """Return the batch with canonical rows; `name_of` maps an id to the name in an error.

    Raises
    ------
    BadExample
        If a value is invalid. `row` is the first such row.
    """
    if batch.width is None:
        return batch
    if len(batch.rows.ids) and max_id(batch.rows.ids) >= batch.width:
        raise TypeError(out_of_range_column(batch.width))
    return Batch(plain_rows(batch.rows, name_of), batch.names)


def _from_dicts(xs: Sequence[Mapping[Hashable, Any]]) -> Batch:
    ids_by_name: dict[Hashable, int] = {}
    ids, values, ends = array("I"), array("d"), array("Q", [0])

    def batch() -> Batch:
        names = list(ids_by_name)
        numbers = np.array(values, np.float64)
        numbers[np.isnan(numbers)] = 0.0  # NaN means absent; `plain_rows` drops zeros
        rows = Rows(np.array(ids, np.uint32), numbers, np.array(ends, np.uint64))
        return Batch(plain_rows(rows, names.__getitem__), names)

    items = iter(xs)
    while block := list(islice(items, BLOCK_ROWS)):
        if (plain := _plain_items(block)) is not None:
            names, numbers, counts = plain
            for name in dict.fromkeys(names):
                ids_by_name.setdefault(name, len(ids_by_name))
            ids.extend(map(ids_by_name.__getitem__, names))
            values.frombytes(numbers.tobytes())
            ends.extend((ends[-1] + np.cumsum(counts)).tolist())
            continue
        for x in block:
            try:
                row_names, new = _items(x)
            except BadExample as bad:
                batch()  # an earlier row with a bad value comes first
                raise BadExample(bad.reason, len(ends) - 1) from None
            ids.extend([ids_by_name.setdefault(name, len(ids_by_name)) for name in row_names])
            values.extend(new)
            ends.append(len(ids))
    return batch()


def _plain_items(xs: list[Any]) -> tuple[list[Hashable], Floats, Ints] | None:
    """Return what `_items` returns, for all rows of a block at once, and the counts of each row.

    None if a row is not a dict of plain numbers, strings and None; then `_items` reads each.
    """
    if set(map(type, xs)) != {dict}:
        return None
    values: list[Any] = list(chain.from_iterable(map(dict.values, xs)))
    kinds = set(map(type, values))
    if not kinds <= PLAIN_TYPES:
        return None
    names: list[Hashable] = list(chain.from_iterable(xs))
    if str in kinds:
        pairs = zip(names, values, strict=True)
        names = [f"{name}={value}" if value.__class__ is str else name for name, value in pairs]
        values = [1.0 if value.__class__ is str else value for value in values]
    try:
        numbers = np.array(values, np.float64)  # None becomes NaN
    except OverflowError:  # `numeric_features` names the value
        return None
    present = (numbers != 0.0) & ~np.isnan(numbers)
    ends = np.cumsum([0, *map(len, xs)])
    if not present.all():
        names, numbers = list(compress(names, present.tolist())), numbers[present]
        ends = np.concatenate([[0], np.cumsum(present)])[ends]
    return names, numbers, np.diff(ends)


def _items(x: Mapping[Hashable, Any]) -> tuple[Iterable[Hashable], Any]:
    """Return names and values; numbers are passed on unchecked, the rows are checked later."""
    if not hasattr(type(x), "items"):
        remedy = """; give {"text": ...} to a model with text=["text"]""" * isinstance(x, str)
        raise BadExample(f"an example is a dict of features, not {shown_type(x)}{remedy}")
    try:
        if type(x) is dict and NUMBER_TYPES.issuperset(map(type, x.values())) and all(x.values()):
            return x, array("d", x.values())
    except OverflowError:  # `numeric_features` names the value
        pass
    plain = numeric_features(x)
    return plain, array("d", plain.values())


def _from_frame(X: Any) -> Batch:
    names: list[Hashable]
    if _is_sparse(X):
        names = list(X.columns)
        require_distinct(names)
        matrix = X.sparse.to_coo()
        if matrix.dtype.kind == "f":
            matrix.data = np.nan_to_num(matrix.data, nan=0.0, posinf=math.inf, neginf=-math.inf)
        return checked(_from_matrix(matrix), names.__getitem__)._replace(names=names)
    frame = to_narwhals(X)
    ids_by_name: dict[Hashable, int] = {}
    n = len(frame)
    bad: list[BadExample] = []
    columns = [_column(series, ids_by_name, n, bad) for series in frame.iter_columns()]
    names = list(ids_by_name)
    if not columns or not n:
        empty = Rows(np.zeros(0, np.uint32), np.zeros(0), np.zeros(n + 1, np.uint64))
        return Batch(empty, names)
    ids = np.stack([c[0] for c in columns], axis=1)
    values = np.stack([c[1] for c in columns], axis=1)
    # Absent values are zeros so far; `plain_rows` drops both.
    indptr = np.arange(n + 1, dtype=np.uint64) * np.uint64(len(columns))
    rows = Rows(ids.reshape(-1), values.reshape(-1), indptr)
    if bad:
        first = min(bad, key=lambda error: error.row)
        plain_rows(_head(rows, first.row), names.__getitem__)  # an earlier bad value comes first
        raise first
    return Batch(plain_rows(rows, names.__getitem__), names)


def to_narwhals(X: Any) -> Any:
    """Wrap a data frame with narwhals.

    Raises
    ------
    TypeError
        If two columns share a name, or the frame is of an unsupported library.
    """
    import narwhals as nw
    from narwhals.exceptions import DuplicateError

    try:
        return nw.from_native(X, eager_only=True)
    except DuplicateError:
        # `columns` of a pyarrow table are arrays, not names.
        require_distinct(list(getattr(X, "column_names", X.columns)))
        raise
    except TypeError:  # a frame that is not in memory, or of a library that narwhals does not know
        kind = type(X)
        raise TypeError(
            f"X is a {kind.__name__} of {kind.__module__.partition('.')[0]}; convert it to a frame "
            "of pandas, polars or pyarrow, as with compute()"
        ) from None


def require_distinct(names: list[Hashable]) -> None:
    """Raise TypeError if two columns have the same name."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TypeError(f"the frame has two columns {shown(twice)}; rename one of them")


def column_values(series: Any) -> list[Any]:
    """Return the values of a column, with None for missing values and categories as text."""
    values: list[Any] = series.to_list()
    if _is_category(series):
        return [None if is_missing(value) else category_text(value) for value in values]
    return [None if is_missing(value) else value for value in values]


def category_text(value: Any) -> str:
    """Return a category as text: whole numbers without ``.0``.

    A column of ints has floats as soon as one of its values is missing.
    """
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _is_category(series: Any) -> bool:
    """Return whether a column holds categories, whatever their type."""
    return type(series.dtype).__name__ in ("Categorical", "Enum")


def _head(rows: Rows, n: int) -> Rows:
    end = int(rows.indptr[n])
    return Rows(rows.ids[:end], rows.values[:end], rows.indptr[: n + 1])


def _is_sparse(X: Any) -> bool:
    return hasattr(X, "sparse") and hasattr(X, "dtypes") and _all_sparse(X)


def _all_sparse(X: Any) -> bool:
    dtypes = list(X.dtypes)
    return bool(dtypes) and all(getattr(t, "fill_value", None) == 0 for t in dtypes)


def plain_name(name: Any) -> Any:
    """Return a column name as a dict key: numpy ints in a multi-level name become Python ints."""
    if not isinstance(name, tuple):
        return name
    return tuple(level.item() if isinstance(level, np.generic) else level for level in name)


def _column(
    series: Any, ids_by_name: dict[Hashable, int], n: int, bad: list[BadExample]
) -> tuple[Any, Any]:
    """Return (ids, values) of one column; add new names to `ids_by_name` and errors to `bad`."""
    name = plain_name(series.name)
    native: Any = getattr(series.to_native(), "dtype", None)
    if getattr(native, "fill_value", math.nan) == 0:  # a sparse column: absent values are zeros
        native = native.subtype
    if isinstance(native, np.dtype) and native.kind in "fiub":
        numbers = series.to_numpy().astype(np.float64)
    elif series.dtype.is_numeric() or str(series.dtype) == "Boolean":
        absent = series.is_null().to_numpy()
        numbers = np.zeros(n)
        there = series.filter(~series.is_null())
        if str(series.dtype) in ("Int128", "UInt128"):  # numpy has no 128-bit ints
            import narwhals as nw

            there = there.cast(nw.Float64)
        numbers[~absent] = there.to_numpy().astype(np.float64)
    else:
        return _objects(name, column_values(series), ids_by_name, bad)
    numbers[np.isnan(numbers)] = 0.0
    id_ = ids_by_name.setdefault(name, len(ids_by_name))
    return np.full(n, id_, np.uint32), numbers


def _objects(
    name: Hashable,
    values: list[Any],
    ids_by_name: dict[Hashable, int],
    bad: list[BadExample],
) -> tuple[Any, Any]:
    ids, numbers = np.zeros(len(values), np.uint32), np.zeros(len(values))
    for i, value in enumerate(values):
        if value is None:
            continue
        feature = name
        if isinstance(value, str):
            feature = f"{name}={str.__str__(value)}"  # the text, even of an Enum
            numbers[i] = 1.0
        else:
            try:
                numbers[i] = to_value(name, value)
            except BadExample as error:
                bad.append(BadExample(error.reason, i))
                break
        ids[i] = ids_by_name.setdefault(feature, len(ids_by_name))
    return ids, numbers
