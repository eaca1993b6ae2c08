"""The rows that text parsers return: CSR arrays that also behave as sequences of dicts.

Models learn the arrays and never build a dict. `IntRows` holds features named by integers
(svmlight), `NamedRows` features named by strings, which are identified by their hashes. Indexing
with an integer builds the dict of one row; slicing copies nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from streaml1.core.hashing import name_hashes
from streaml1.core.jit import kernel, u64
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.spans import LENGTH_MASK, OFFSET_BITS
from streaml1.core.types import Bools, Bytes, Hashes, Indptr, Ints, Values
from streaml1.text.keyed_names import keyed_hashes

__all__ = [
    "IntRows",
    "LineCounts",
    "NamedRows",
    "RowFeatures",
    "Spans",
    "entries_of_rows",
    "insert_features",
    "with_constants",
]

AnyIds: TypeAlias = "NDArray[np.uint32] | NDArray[np.int64]"
"""Integer names: uint32, or int64 if a name needs more than 32 bits."""

Spans: TypeAlias = "NDArray[np.uint64]"
"""Where names are in a byte array: ``first byte << 32 | length`` each."""

RowFeatures = tuple[int, list[str], list[float]]
"""A row number with the names and values of its features."""


class LineCounts(NamedTuple):
    """What a kernel reports after it has parsed the lines of a chunk."""

    rows: Any
    """How many rows it wrote."""
    irregular: Any
    """How many of them are empty rows of irregular lines, which Python must parse."""
    lines: Any
    """How many lines it read; 0 if it stopped at a non-ASCII byte, see `UTF8_UNKNOWN`."""
    values_checked: Any
    """Whether all values are accepted by models, and none is zero."""
    distinct_names: Any
    """Whether no row has the same name twice."""


@kernel
def _extent(spans: Any) -> tuple[int, int]:
    """Return where the first of the spans begins and where the last one ends."""
    first, last = LENGTH_MASK, u64(0)
    for span in spans:
        first = min(first, span >> OFFSET_BITS)
        last = max(last, (span >> OFFSET_BITS) + (span & LENGTH_MASK))
    return int(first), int(last)


class IntRows(Sequence[dict[Hashable, Any]]):
    """Examples whose features are named by integers.

    Parameters
    ----------
    ids
        The feature names, uint32 or int64, shape (nnz,). A name that occurs twice in a row counts
        with the sum of its values.
    values
        The feature values, float64, shape (nnz,).
    indptr
        Row i is the slice `indptr[i]:indptr[i + 1]`, int64, shape (rows + 1,).
    plain
        True if no row has a duplicate name, a zero or a rejected value.
    id_bound
        An upper bound: every id is smaller. None if unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from streaml1.text.parsed_rows import IntRows
    >>> ids = np.array([3, 7, 3], np.uint32)
    >>> rows = IntRows(ids, np.array([0.5, 1.0, 2.0]), np.array([0, 2, 3]))
    >>> len(rows), rows[0], list(rows[1:])
    (2, {3: 0.5, 7: 1.0}, [{3: 2.0}])
    """

    __slots__ = ("id_bound", "ids", "indptr", "plain", "values")

    def __init__(
        self,
        ids: AnyIds,
        values: Values,
        indptr: Indptr,
        plain: bool = False,
        id_bound: int | None = None,
    ) -> None:
        self.plain = plain
        self.id_bound = id_bound
        self.ids = ids
        self.values = values
        self.indptr = indptr

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @overload
    def __getitem__(self, k: int) -> dict[Hashable, Any]: ...

    @overload
    def __getitem__(self, k: slice) -> IntRows: ...

    def __getitem__(self, k: int | slice) -> dict[Hashable, Any] | IntRows:
        if isinstance(k, slice):
            lo, hi = _row_range(k, len(self))
            return IntRows(
                self.ids, self.values, self.indptr[lo : hi + 1], self.plain, self.id_bound
            )
        row = range(len(self))[k]
        lo, hi = int(self.indptr[row]), int(self.indptr[row + 1])
        names, values = self.ids[lo:hi].tolist(), self.values[lo:hi].tolist()
        x: dict[Hashable, Any] = dict(zip(names, values, strict=True))
        if len(x) < len(names):
            x = {}
            for name, value in zip(names, values, strict=True):
                x[name] = x.get(name, -0.0) + value
        return x

    def __iter__(self) -> Iterator[dict[Hashable, Any]]:
        return map(self.__getitem__, range(len(self)))

    def csr(self) -> tuple[AnyIds, Values, Indptr]:
        """Return `ids`, `values` and `indptr` restricted to these rows; `indptr` starts at 0."""
        lo, hi = int(self.indptr[0]), int(self.indptr[-1])
        return self.ids[lo:hi], self.values[lo:hi], self.indptr - lo

    def take(self, rows: Ints) -> IntRows:
        """Return some rows, in ascending order."""
        entries, indptr = entries_of_rows(self.indptr, rows)
        return IntRows(self.ids[entries], self.values[entries], indptr, self.plain, self.id_bound)

    @staticmethod
    def concatenate(pieces: Sequence[IntRows]) -> IntRows:
        """Return the rows of all pieces in order."""
        if len(pieces) == 1:
            return pieces[0]
        ids, values, pointers = zip(*(piece.csr() for piece in pieces), strict=True)
        counts = [np.diff(indptr) for indptr in pointers]
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        plain = all(piece.plain for piece in pieces)
        return IntRows(np.concatenate(ids), np.concatenate(values), indptr, plain)


class NamedRows(Sequence[dict[Hashable, Any]]):
    """Examples whose features are named by strings, which are identified by their hashes.

    The dict of a row is parsed from its line when it is requested.

    Parameters
    ----------
    hashes
        The hashes of the feature names, as `streaml1.core.hashing.name_hash` computes them,
        uint64, shape (nnz,). A name may occur twice in a row.
    values
        The feature values, float64, shape (nnz,).
    indptr
        Row i is the slice `indptr[i]:indptr[i + 1]`, int64, shape (rows + 1,).
    names
        A byte array that contains the names in UTF-8.
    spans
        Where in `names` the name of each feature is: ``first byte << 32 | length``, uint64.
    text
        A byte array that contains the lines of the rows.
    begins, ends
        Where in `text` the line of each row begins and ends, with or without its newline, int64.
    parse_line
        Parses a line; the first item of its result is the dict of features.
    header
        The names of all columns, if features may stem from a name and a string value; empty if each
        line names its own features; None if no feature stems from a string value.
    values_checked
        True if all values are known to be accepted by models, and none of them is zero.
    distinct_names
        True if no row has the same name twice.
    """

    __slots__ = (
        *("begins", "distinct_names", "ends", "hashes", "header", "indptr", "names"),
        *("parse_line", "spans", "text", "values", "values_checked"),
    )

    def __init__(
        self,
        hashes: Hashes,
        values: Values,
        indptr: Indptr,
        names: Bytes,
        spans: Spans,
        text: Bytes,
        begins: Ints,
        ends: Ints,
        parse_line: Callable[[bytes], Any],
        header: Sequence[str] | None = None,
        values_checked: bool = False,
        distinct_names: bool = False,
    ) -> None:
        self.values_checked = values_checked
        self.distinct_names = distinct_names
        self.header = header
        self.hashes = hashes
        self.values = values
        self.indptr = indptr
        self.names = names
        self.spans = spans
        self.text = text
        self.begins = begins
        self.ends = ends
        self.parse_line = parse_line

    def __len__(self) -> int:
        return len(self.begins)

    @overload
    def __getitem__(self, k: int) -> dict[Hashable, Any]: ...

    @overload
    def __getitem__(self, k: slice) -> NamedRows: ...

    def __getitem__(self, k: int | slice) -> dict[Hashable, Any] | NamedRows:
        if isinstance(k, slice):
            lo, hi = _row_range(k, len(self))
            return NamedRows(
                self.hashes, self.values, self.indptr[lo : hi + 1], self.names, self.spans,
                self.text, self.begins[lo:hi], self.ends[lo:hi], self.parse_line, self.header,
                self.values_checked, self.distinct_names,
            )  # fmt: skip
        x: dict[Hashable, Any] = self.parse_line(self.line(range(len(self))[k]))[0]
        return x

    def __iter__(self) -> Iterator[dict[Hashable, Any]]:
        return map(self.__getitem__, range(len(self)))

    @property
    def plain(self) -> bool:
        """True if no row has a duplicate name, a zero or a rejected value."""
        return self.distinct_names and self.values_checked

    def csr(self) -> tuple[Hashes, Values, Indptr]:
        """Return `hashes`, `values` and `indptr` restricted to these rows; `indptr` starts at 0."""
        lo, hi = int(self.indptr[0]), int(self.indptr[-1])
        return self.hashes[lo:hi], self.values[lo:hi], self.indptr - lo if lo else self.indptr

    def line(self, row: int) -> bytes:
        """Return the line of a row without its newline."""
        line: bytes = self.text[self.begins[row] : self.ends[row]].tobytes()
        return line.removesuffix(b"\n")

    def name_spans(self) -> Spans:
        """Return `spans` restricted to these rows."""
        return self.spans[int(self.indptr[0]) : int(self.indptr[-1])]

    def keyed_hashes(self) -> Hashes:
        """Return the keyed hash of the name of each feature."""
        return keyed_hashes(self.csr()[0], self.names, self.name_spans())

    def may_contain(self, text: str) -> bool:
        """Return whether a name may contain `text`: whether the bytes of the names do."""
        pattern = np.frombuffer(text.encode(), np.uint8)
        raw, _ = self._name_bytes()
        last = len(raw) - len(pattern) + 1
        found = raw[: max(0, last)] == pattern[0]
        for k in range(1, len(pattern)):
            if not found.any():  # usually after the first byte
                return False
            found &= raw[k : k + last] == pattern[k]
        return bool(found.any())

    def _name_bytes(self) -> tuple[Bytes, int]:
        """Return the range of `names` that these rows refer to, and its offset."""
        spans = self.name_spans()
        if not len(spans):
            return self.names[:0], 0
        first, last = _extent(spans)
        return self.names[first:last], first

    def select_features(self, positions: Any, values: Values, indptr: Indptr) -> NamedRows:
        """Return the same number of rows with only the features at `positions`.

        Parameters
        ----------
        positions
            Which features, as positions among those of these rows.
        values
            The new values of these features.
        indptr
            The new row boundaries.
        """
        return NamedRows(
            self.csr()[0][positions], values, indptr, self.names, self.name_spans()[positions],
            self.text, self.begins, self.ends, self.parse_line, self.header,
        )  # fmt: skip

    def take(self, rows: Ints) -> NamedRows:
        """Return some rows, in ascending order."""
        entries, indptr = entries_of_rows(self.indptr, rows)
        return NamedRows(
            self.hashes[entries], self.values[entries], indptr, self.names, self.spans[entries],
            self.text, self.begins[rows], self.ends[rows], self.parse_line, self.header,
            self.values_checked, self.distinct_names,
        )  # fmt: skip

    def feature_names(self, positions: Any) -> list[str]:
        """Return the names of the features at `positions` among those of these rows."""
        spans = self.name_spans()[positions]
        raw, first = self._name_bytes()
        begins, sizes = spans >> OFFSET_BITS, spans & LENGTH_MASK
        begins -= np.uint64(first)
        return _slices(raw.tobytes(), begins, begins + sizes)

    @staticmethod
    def concatenate(pieces: Sequence[NamedRows]) -> NamedRows:
        """Return the rows of all pieces in order."""
        if len(pieces) == 1:
            return pieces[0]
        trimmed = [piece._trimmed() for piece in pieces]
        hashes, values, pointers, names, spans, texts, begins, ends = zip(*trimmed, strict=True)
        features = np.cumsum([0, *map(len, hashes)])
        name_offsets = np.cumsum([0, *map(len, names)]).astype(np.uint64) << OFFSET_BITS
        text_offsets = np.cumsum([0, *map(len, texts)])
        indptr = [own[:-1] + offset for own, offset in zip(pointers, features, strict=False)]
        return NamedRows(
            np.concatenate(hashes), np.concatenate(values),
            np.concatenate([*indptr, features[-1:]]), np.concatenate(names),
            _shifted(spans, name_offsets), np.concatenate(texts),
            _shifted(begins, text_offsets), _shifted(ends, text_offsets),
            pieces[0].parse_line, pieces[0].header, all(piece.values_checked for piece in pieces),
            all(piece.distinct_names for piece in pieces),
        )  # fmt: skip

    def _trimmed(self) -> _Trimmed:
        """Return the arrays without the data of rows that a slice left out."""
        hashes, values, indptr = self.csr()
        names, first = self._name_bytes()
        spans = self.name_spans() - (np.uint64(first) << OFFSET_BITS)
        text, begins, ends = self.text[:0], self.begins, self.ends
        if len(begins):
            first = int(begins[0])
            text, begins, ends = self.text[first : int(ends[-1])], begins - first, ends - first
        return _Trimmed(hashes, values, indptr, names, spans, text, begins, ends)


class _Trimmed(NamedTuple):
    """The arrays of `NamedRows` that hold only what its rows refer to."""

    hashes: Hashes
    values: Values
    indptr: Indptr
    names: Bytes
    spans: Spans
    text: Bytes
    begins: Ints
    ends: Ints


def insert_features(x: NamedRows, found: Sequence[RowFeatures], retained: Bools) -> NamedRows:
    """Return the retained rows of `x` with more features appended to some of them.

    Kernels leave irregular lines as empty rows. Python parses these lines, and this function puts
    their features into the rows.

    Parameters
    ----------
    x
        The rows.
    found
        The features to append, in the order of the rows.
    retained
        A flag for each row of `x`; rows without it are dropped.
    """
    counts = np.diff(x.indptr)
    for row, names, _ in found:
        counts[row] += len(names)
    indptr = np.concatenate([[0], np.cumsum(counts[retained])])
    hashes, values, spans, name_bytes = x.hashes, x.values, x.spans, x.names
    new = [name for _, names, _ in found for name in names]
    if new:
        row_ends = [np.full(len(names), x.indptr[row + 1]) for row, names, _ in found]
        positions = np.concatenate(row_ends)
        raw = [name.encode() for name in new]
        sizes = np.array([len(name) for name in raw], np.uint64)
        used = int(((spans >> OFFSET_BITS) + (spans & LENGTH_MASK)).max(initial=0))
        name_bytes = name_bytes[:used]
        begins = np.cumsum(sizes, dtype=np.uint64) - sizes + np.uint64(used)
        name_bytes = np.concatenate([name_bytes, np.frombuffer(b"".join(raw), np.uint8)])
        hashes = np.insert(hashes, positions, name_hashes(new))
        spans = np.insert(spans, positions, begins << OFFSET_BITS | sizes)
        values = np.insert(values, positions, [v for _, _, vs in found for v in vs])
    return NamedRows(
        hashes, values, indptr, name_bytes, spans, x.text, x.begins[retained], x.ends[retained],
        x.parse_line, x.header,
    )  # fmt: skip


def with_constants(x: NamedRows, constants: Mapping[str, Any]) -> NamedRows:
    """Return the rows with further features that are the same in each, after its own ones.

    Parameters
    ----------
    x
        The rows.
    constants
        The features as in a dict: numbers, texts, which are categories, and None.

    Raises
    ------
    ValueError
        If a row has one of these features already; the text is the name of the feature.
    """
    pairs = [
        (f"{name}={value}", 1.0) if isinstance(value, str) else (name, float(value))
        for name, value in constants.items()
        if value is not None
    ]
    pairs = [(name, value) for name, value in pairs if value]
    names, new_values = [name for name, _ in pairs], np.array([v for _, v in pairs], np.float64)
    new_hashes = name_hashes(names) if names else np.zeros(0, np.uint64)
    hashes, values, indptr = x.csr()
    old, first = x._name_bytes()
    raw = [name.encode() for name in names]
    sizes = np.array([len(name) for name in raw], np.uint64)
    begins = np.cumsum(sizes, dtype=np.uint64) - sizes + np.uint64(len(old))
    new = new_hashes, new_values, begins << OFFSET_BITS | sizes
    n = len(hashes) + len(x) * len(names)
    out = np.empty(n, np.uint64), np.empty(n), np.empty(n, np.uint64)
    own_spans = x.name_spans() - (np.uint64(first) << OFFSET_BITS)
    repeated = _append_to_each(hashes, values, own_spans, indptr, *new, *out)
    if repeated >= 0:
        raise ValueError(names[repeated])

    def parse_line(line: bytes) -> tuple[dict[Hashable, Any]]:
        return ({**x.parse_line(line)[0], **constants},)

    return NamedRows(
        out[0], out[1], indptr + len(names) * np.arange(len(indptr)),
        np.concatenate([old, np.frombuffer(b"".join(raw), np.uint8)]), out[2], x.text, x.begins,
        x.ends, parse_line, [*x.header, *constants] if x.header else x.header,
        x.values_checked and bool((np.abs(new_values) < VALUE_LIMIT).all()), x.distinct_names,
    )  # fmt: skip


@kernel
def _append_to_each(
    hashes: Any, values: Any, spans: Any, indptr: Any, new_hashes: Any, new_values: Any,
    new_spans: Any, out_hashes: Any, out_values: Any, out_spans: Any,
) -> int:  # fmt: skip
    """Append the same entries to each row; return which of them a row has already, or -1."""
    pos, repeated = 0, -1
    for row in range(len(indptr) - 1):
        for k in range(indptr[row], indptr[row + 1]):
            out_hashes[pos], out_values[pos], out_spans[pos] = hashes[k], values[k], spans[k]
            for j in range(len(new_hashes)):
                if hashes[k] == new_hashes[j]:
                    repeated = j
            pos += 1
        for j in range(len(new_hashes)):
            out_hashes[pos], out_values[pos] = new_hashes[j], new_values[j]
            out_spans[pos] = new_spans[j]
            pos += 1
    return repeated


def entries_of_rows(indptr: Indptr, rows: Ints) -> tuple[Ints, Indptr]:
    """Return the positions of the entries of some rows, and the boundaries of these rows.

    Examples
    --------
    >>> entries, indptr = entries_of_rows(np.array([0, 2, 3, 6]), np.array([0, 2]))
    >>> entries.tolist(), indptr.tolist()
    ([0, 1, 3, 4, 5], [0, 2, 5])
    """
    starts, counts = indptr[rows], indptr[rows + 1] - indptr[rows]
    bounds = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    offsets = np.repeat(starts.astype(np.int64) - bounds[:-1], counts)
    return np.arange(bounds[-1]) + offsets, bounds


def _row_range(k: slice, n: int) -> tuple[int, int]:
    """Return the first row of a slice and the row after its last one."""
    lo, hi, step = k.indices(n)
    if step != 1:
        raise ValueError(f"the step of a slice of rows must be 1, got {step}")
    return lo, max(lo, hi)


def _slices(raw: bytes, begins: Any, ends: Any) -> list[str]:
    """Decode the byte ranges `begins[i]:ends[i]`; one decoding is enough if all is ASCII."""
    pairs = zip(begins.tolist(), ends.tolist(), strict=True)
    if raw.isascii():
        text = raw.decode()
        return [text[lo:hi] for lo, hi in pairs]
    return [raw[lo:hi].decode() for lo, hi in pairs]


def _shifted(arrays: Sequence[Any], offsets: Any) -> Any:
    """Concatenate arrays of positions, each moved by its offset."""
    return np.concatenate([own + by for own, by in zip(arrays, offsets, strict=False)])
