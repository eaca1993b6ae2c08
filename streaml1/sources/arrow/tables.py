"""The columns of a pyarrow.Table as features, labels and sample weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np

from streaml1.core.jit import COMPILED
from streaml1.core.named_options import named_option
from streaml1.core.rows import is_missing
from streaml1.core.types import Floats
from streaml1.features.arrow_frames import is_index, table_dicts, table_rows
from streaml1.features.arrow_nested import (
    feature_columns,
    holds_other_types,
    is_unusable,
    name_from_two,
)
from streaml1.features.arrow_structs import OpenedColumns
from streaml1.features.arrow_types import is_dictionary, is_list, is_nested, is_text
from streaml1.features.batch import category_text
from streaml1.features.flat_members import MemberRoles
from streaml1.features.label_texts import LabelTexts
from streaml1.features.number_texts import read_number_text
from streaml1.features.positive_label import positive_labels
from streaml1.sources.extras import importing
from streaml1.sources.lazy_ids import LazyIds
from streaml1.sources.readers.chunks import Wait
from streaml1.sources.readers.csv_header import RequestedRoles, is_number_of
from streaml1.sources.source import (
    Block,
    Numbered,
    Reject,
    SourceError,
    check_block_size,
    read_weight,
)

__all__ = ["TableReader", "TableSource", "open_columns", "require_pyarrow"]


def require_pyarrow(name: str) -> Any:
    """Import pyarrow; raise SourceError if it is not installed."""
    with importing("pyarrow", "arrow", name):
        import pyarrow
    return pyarrow


class TableReader:
    """Makes blocks of the rows of tables with the same columns.

    Strings and dictionaries are categories, numbers and booleans are numbers. Nested columns mean
    what flat JSON lines mean, and roles may name members inside. The index of a pandas frame is
    ignored.

    Parameters
    ----------
    name
        The source, for errors.
    schema
        The columns, a pyarrow.Schema.
    target, weight, categorical, ignore, text
        The roles of columns, as for `CsvParser`.
    require_label
        Whether the target is required. Otherwise labels are None.
    positive
        The label that is 1; any other label is then 0.
    id
        The column of the id.
    numeric
        The columns whose text is a number, see `streaml1.features.number_texts`.
    elsewhere
        Columns that names of directories hold, for errors.

    Raises
    ------
    SourceError
        If a role does not fit, or a column is neither a number nor a text.
    """

    def __init__(
        self,
        name: str,
        schema: Any,
        target: str | None = None,
        categorical: Iterable[str] = (),
        weight: str | None = None,
        require_label: bool = True,
        ignore: Iterable[str] = (),
        text: Iterable[str] = (),
        positive: str | None = None,
        id: str | None = None,
        numeric: Iterable[str] = (),
        elsewhere: Iterable[str] = (),
    ) -> None:
        self.name = name
        self._positive = positive
        self._require_label = require_label
        self._opened = opened = open_columns(name, schema)
        ignored = list(dict.fromkeys(ignore))
        categorical = list(dict.fromkeys([*categorical, *text]))
        numeric = list(dict.fromkeys(numeric))
        requested = RequestedRoles(
            target, weight, categorical, (), ignored, id, numeric, tuple(elsewhere)
        )
        if any(map(is_nested, schema.types)):
            requested = self._roles_of_columns(requested)
        header = opened.header
        roles = requested.resolve(header, name, require_label)
        self._target = None if roles.target is None else header[roles.target]
        self._weight = None if roles.weight is None else header[roles.weight]
        self._id = None if roles.id is None else header[roles.id]
        others = {roles.target, roles.weight, roles.id, *roles.ignored}
        self._features = [
            column
            for position, column in enumerate(header)
            if position not in others and not is_index(column)
        ]
        self._set_kinds(
            [header[position] for position in sorted(roles.text)],
            [header[position] for position in sorted(roles.numeric)],
        )
        used = {*self._features, self._target, self._weight, self._id}
        self._used = [column for column in header if column in used]
        self.columns = opened.roots(self._used)
        self.paths = opened.paths(self._used)
        self.roles = {
            "target": target, "weight": weight, "categorical": sorted(categorical),
            "ignore": sorted(ignored), **({} if positive is None else {"positive": positive}),
            **({} if id is None else {"id": id}),
            **({"numeric": sorted(numeric)} if numeric else {}),
        }  # fmt: skip

    def _set_kinds(self, categorical: list[str], numeric: list[str]) -> None:
        """Decide how each feature is read, given the columns requested as either kind."""
        from pyarrow import types

        kinds = {column: self._opened.kinds[column] for column in self._features}
        # Categories may be numbers, as those of pandas.
        self._categorical = categorical + [
            column
            for column, kind in kinds.items()
            if is_dictionary(kind) and column not in (*categorical, *numeric)
        ]
        self._nested = any(map(is_nested, kinds.values()))
        self._number_texts = [c for c in numeric if _holds_text(self._opened.kinds[c])]
        self._decimals = [  # as categories they keep all of their digits, which ids need
            column
            for column, kind in kinds.items()
            if _is_decimal(kind) and column not in self._categorical
        ]
        self._require_readable(kinds)
        if clash := name_from_two(kinds):
            raise SourceError(
                f"{self.name} has several columns {clash}: rename or ignore one of them"
            )
        self.kinds = {
            column: "text" if self._holds_words(column, kind) else "numbers"
            for column, kind in kinds.items()
            if not types.is_null(kind) and (is_list(kind) or not is_nested(kind))
        }

    @property
    def header(self) -> list[str]:
        """The names of all columns, with the members of structs in their place."""
        return list(self._opened.kinds)

    def _roles_of_columns(self, requested: RequestedRoles) -> RequestedRoles:
        """Return the roles of columns; members inside lists and maps keep theirs in `opened`."""
        header = list(self._opened.header)

        def named(columns: Iterable[str]) -> frozenset[str]:
            """Return the names of columns, which may be selected by number."""
            return frozenset(
                header[int(c)] if c not in header and is_number_of(c, header) else c
                for c in columns
            )

        try:
            single = [
                None if column is None else next(iter(named([column])))
                for column in (requested.target, requested.weight, requested.id)
            ]
            given = MemberRoles(
                single[0], single[1], single[2], named(requested.ignored),
                named(requested.categorical), numeric=named(requested.numeric),
            )  # fmt: skip
            roles = self._opened.split_roles(given)
            for role, column in zip(("target", "weight", "id"), single, strict=True):
                self._opened.require_value(column, role)
        except ValueError as error:
            raise SourceError(f"{self.name}: {error}") from None
        return RequestedRoles(
            roles.target, roles.weight, sorted(roles.categorical), (), sorted(roles.ignore),
            roles.id, sorted(roles.numeric), requested.elsewhere,
        )  # fmt: skip

    def _holds_words(self, column: str, kind: Any) -> bool:
        if is_list(kind):
            kind = kind.value_type
        return column in self._categorical or (is_text(kind) and column not in self._number_texts)

    def _require_readable(self, kinds: dict[str, Any]) -> None:
        """Raise SourceError for all columns that are neither numbers nor text, by their types."""
        unusable = [column for column, kind in kinds.items() if is_unusable(kind)]
        others = [
            column
            for column, kind in kinds.items()
            if column not in (*unusable, *self._categorical) and holds_other_types(kind)
        ]
        clauses = []
        for columns, may_be_categories in ((others, True), (unusable, False)):
            if columns:
                option = named_option("categorical", columns)
                remedy = f", or {option} if few of them are different"
                clauses.append(
                    f"{_types_of(columns, kinds)}: use {named_option('ignore', columns)}"
                    + remedy * may_be_categories
                )
        if clauses:
            raise SourceError(f"{self.name}: {'; '.join(clauses)}")

    def blocks(self, table: Any, first: int, reject: Reject) -> Iterator[Block]:
        """Yield the rows of a table: one block, unless some are invalid.

        Parameters
        ----------
        table
            Some rows, with the columns `columns` at least; of structs, with the `paths` at least.
        first
            How many rows of the source are before them.
        reject
            Called for each invalid row, once the rows before it are delivered.
        """
        n = len(table)
        table = self._opened.select(table, self._used)
        features = table.select(self._features)
        for column in self._decimals:
            k = self._features.index(column)
            features = features.set_column(k, column, table[column].cast("float64"))
        faults: dict[int, str] = {}
        for column in self._number_texts:
            numbers = _numbers(column, table[column], faults)
            features = features.set_column(self._features.index(column), column, numbers)
        if self._nested:
            features = feature_columns(features, self._opened.roles, faults)
        x: Any = table_rows(features, self._categorical) if COMPILED else None
        if x is None:
            x = table_dicts(features, self._categorical)
        y = [None] * n if self._target is None else self._labels(table)
        w: Floats | None = None
        if self._weight is not None:
            w, invalid = _weights(table[self._weight])
            faults |= invalid
        ids = None if self._id is None else _ids(table[self._id])
        lines = range(first + 1, first + n + 1)
        lo = 0
        for hi in (*sorted(faults), n):
            if hi > lo:
                own = None if w is None else w[lo:hi]
                named = None if ids is None else ids[lo:hi]
                yield Block(x[lo:hi], y[lo:hi], own, self.name, lines[lo:hi], ids=named)
            if hi in faults:
                reject(f"{self.name}:{lines[hi]}", faults[hi], lines[hi], None)
            lo = hi + 1

    def _labels(self, table: Any) -> Any:
        return positive_labels(_labels(table[self._target]), self._positive)


class TableSource(Numbered):
    """Base class of sources whose rows arrive as tables.

    A subclass sets `_reader`, and implements `_read`.
    """

    block = 8192
    _reader: TableReader

    def __init__(self, name: str, texts: tuple[str, ...]) -> None:
        self.name = name
        self.texts = texts
        self._stopped: Callable[[], bool] = lambda: False

    def set_stop(self, stopped: Callable[[], bool], wait: Wait | None = None) -> None:
        """Stop reading between two batches once `stopped()` is true."""
        self._stopped = stopped

    def blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        """Yield blocks of at most `size` rows, from the position that `begin` has set."""
        check_block_size(size)
        skipped, self._skipped = self._skipped, 0
        return self._read(size, skipped, reject)

    def _read(self, size: int, skipped: int, reject: Reject) -> Iterator[Block]:
        """Yield blocks of at most `size` rows, from those after the first `skipped` ones."""
        raise NotImplementedError


def reject_duplicates(name: str, header: list[str]) -> None:
    """Raise SourceError if columns have the same name: Arrow selects columns by name."""
    counts = Counter(header)
    if twice := [column for column, n in counts.items() if n > 1]:
        raise SourceError(
            f"{name} has several columns {twice[0]!r}: rename all but one, so that no two columns "
            "have the same name"
        )


def open_columns(name: str, schema: Any) -> OpenedColumns:
    """Return the columns of a table with structs opened.

    Raises
    ------
    SourceError
        If two have the same name, or values are nested too deeply.
    """
    reject_duplicates(name, list(schema.names))
    try:
        opened = OpenedColumns(schema)
    except ValueError as error:
        raise SourceError(f"{name}: {error}") from None
    if opened.name_from_two:
        raise SourceError(f"{name} has several columns {opened.name_from_two}: rename one of them")
    return opened


def _types_of(columns: list[str], kinds: dict[str, Any]) -> str:
    """Return a clause that says which types the values of columns have."""
    if len(columns) == 1:
        return f"column {columns[0]!r} holds values of the type {kinds[columns[0]]}"
    listed = ", ".join(f"{column!r} ({kinds[column]})" for column in columns)
    return f"columns {listed} hold values of other types than numbers and text"


def _ids(column: Any) -> LazyIds:
    """Return the values of a column as ids: integers and texts."""

    def read(lo: int, hi: int) -> list[int | str | None]:
        values = column.slice(lo, hi - lo).to_pylist()
        return [None if is_missing(value) else _id(value) for value in values]

    return LazyIds(read, 0, len(column))


def _id(value: Any) -> int | str:
    is_plain = isinstance(value, int | str) and not isinstance(value, bool)
    return value if is_plain else category_text(value)


def _weights(column: Any) -> tuple[Floats, dict[int, str]]:
    """Return the sample weights, and by row what is wrong with invalid ones."""
    weights = np.zeros(len(column))
    faults: dict[int, str] = {}
    for row, value in enumerate(column.to_pylist()):
        try:
            weights[row] = read_weight(value)
        except ValueError as error:
            faults[row] = str(error)
    return weights, faults


def _numbers(name: str, column: Any, faults: dict[int, str]) -> Any:
    """Return the numbers that a column of text spells; `faults` gets the rows of other texts."""
    import pyarrow

    numbers: list[float | None] = []
    for row, text in enumerate(column.to_pylist()):
        number = None
        try:
            number = None if text is None else read_number_text(text)
        except ValueError as error:
            option = named_option("numeric")
            faults.setdefault(row, f"feature {name!r}: {error}; leave it out of {option}")
        numbers.append(number)
    return pyarrow.array(numbers, pyarrow.float64())


def _holds_text(kind: Any) -> bool:
    """Return whether values of an Arrow type are text, or categories that are."""
    return is_text(kind.value_type if is_dictionary(kind) else kind)


def _is_decimal(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_decimal(kind))


def _labels(column: Any) -> Any:
    """Return labels: an array of numbers, `LabelTexts`, or a list if some are missing."""
    import pyarrow
    from pyarrow import types

    kind = column.type
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        column, kind = column.dictionary_encode(), None
    elif types.is_dictionary(kind):
        kind = None
    if kind is None:
        array = column.combine_chunks()
        array = array if isinstance(array, pyarrow.Array) else array.unify_dictionaries().chunk(0)
        texts = array.dictionary.to_pylist()
        if all(text is None or isinstance(text, str) for text in texts):
            codes = array.indices.cast("int64").fill_null(len(texts))
            return LabelTexts(codes.to_numpy(zero_copy_only=False), [*texts, None])
        return array.to_pylist()
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    if is_number and not column.null_count:
        return column.to_numpy()
    labels: list[Hashable | None] = column.to_pylist()
    return labels
