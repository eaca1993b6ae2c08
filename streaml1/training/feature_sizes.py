"""Typical sizes of features, from a sample of the rows of a run.

A sample costs next to nothing, whatever the number of features: at most 128 pieces of about 1,024
entries each, spread evenly over the run.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaml1.core.hashing import name_hash
from streaml1.core.rows import is_missing
from streaml1.core.types import Floats
from streaml1.features.batch import is_frame, is_matrix, to_narwhals
from streaml1.sources.readers.events import Event

__all__ = ["FeatureSizes", "largest_size", "numbers_of", "sampled_entries"]

MAX_PIECES = 128
"""Pieces of the sample. Beyond it every second one is dropped, and half as many are taken."""

PIECE_ENTRIES = 1024
"""Entries of a piece, about; a piece of longer rows has one row."""

FIRST_PIECE = 8
"""How many times as large the first piece is: typical sizes are compared early in a run."""

DICT_SHARE = 4
"""How many times smaller pieces of dicts are, which a loop in Python reads."""

Key = int | tuple[Hashable]
"""What identifies a feature: an integer name, the hash of a string, or its name in a tuple."""


class Entries(NamedTuple):
    """Features of some rows: a key and the absolute value for each."""

    keys: Any
    sizes: Floats


class FeatureSizes:
    """A sample of features and their absolute values.

    Examples
    --------
    >>> sizes = FeatureSizes()
    >>> sizes.add([{"a": 2.0, "b": 1.0}, {"a": -4.0}], 0, 2)
    >>> sizes.mean_sizes(["a", "b"])
    [3.0, 1.0]
    """

    def __init__(self) -> None:
        self._pieces: list[Entries] = []
        self._codes: dict[Hashable, int] = {}  # of features that dicts and frames name
        self._is_coded = False
        self._stride = 1
        self._n_offered = self._n_changes = 0
        self._usual: float | None = None
        self._n_usual = 0
        self._sorted: Entries | None = None  # all entries, by key and size
        self._n_sorted = 0

    def add(self, x: Any, lo: int, hi: int) -> None:
        """Offer consecutive rows; at intervals, some of them join the sample."""
        self._n_offered += 1
        if (self._n_offered - 1) % self._stride or hi <= lo:
            return
        entries = sampled_entries(x, lo, hi, PIECE_ENTRIES * (1 if self._pieces else FIRST_PIECE))
        if not len(entries.sizes):
            return
        if isinstance(entries.keys, list):
            self._is_coded = True
            codes = [self._codes.setdefault(name, len(self._codes)) for name in entries.keys]
            entries = Entries(np.array(codes, np.int64), entries.sizes)
        self._pieces.append(entries)
        if len(self._pieces) > MAX_PIECES:
            del self._pieces[1::2]
            self._stride *= 2
        self._n_changes += 1

    @property
    def usual(self) -> float | None:
        """Median of all sizes in the sample; None without any."""
        # The median moves little until the sample has grown by a half.
        n = len(self._pieces)
        if self._usual is None or n >= 1.5 * self._n_usual:
            if not n:
                return None
            sizes = np.concatenate([piece.sizes for piece in self._pieces])
            self._usual, self._n_usual = float(np.median(sizes)), n
        return self._usual

    def median_size(self, key: Key, min_entries: int) -> float | None:
        """Return the median size of a feature; None if it occurs less often in the sample."""
        code = self._codes.get(key[0], -1) if isinstance(key, tuple) else key
        sizes = self._sizes_of(code)
        if len(sizes) < min_entries and self._n_sorted != self._n_changes:
            self._sort()
            sizes = self._sizes_of(code)
        return float(sizes[len(sizes) // 2]) if len(sizes) >= min_entries else None

    def _sizes_of(self, code: int) -> Floats:
        """Return the sizes of a feature, ascending, as of the last sort."""
        if self._sorted is None:
            return np.empty(0)
        keys, sizes = self._sorted
        code = keys.dtype.type(code)  # numpy compares an int with uint64 as floats
        return sizes[np.searchsorted(keys, code, "left") : np.searchsorted(keys, code, "right")]

    def _sort(self) -> None:
        keys = np.concatenate([piece.keys for piece in self._pieces])
        sizes = np.concatenate([piece.sizes for piece in self._pieces])
        order = np.lexsort((sizes, keys))
        self._sorted, self._n_sorted = Entries(keys[order], sizes[order]), self._n_changes

    def grouped(self) -> tuple[Any, Any, Floats]:
        """Return the keys in the sample, ascending, with their entries and mean sizes."""
        if not self._pieces:
            return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
        keys = np.concatenate([piece.keys for piece in self._pieces])
        sizes = np.concatenate([piece.sizes for piece in self._pieces])
        distinct, group = np.unique(keys, return_inverse=True)
        counts = np.bincount(group)
        return distinct, counts, np.bincount(group, weights=sizes) / counts

    def name_of(self, key: int) -> Hashable | None:
        """Return the name of a key, if names are kept; otherwise only the source knows it."""
        if self._is_coded:
            return next((name for name, code in self._codes.items() if code == key), None)
        return key if self._pieces and self._pieces[0].keys.dtype != np.uint64 else None

    def mean_sizes(self, names: Iterable[Hashable]) -> list[float]:
        """Return the mean size of each feature; that of all entries for those not in the sample."""
        keys, counts, means = self.grouped()
        if not len(keys):
            return [1.0 for _ in names]
        rest = float(counts @ means) / float(counts.sum())
        size_of = dict(zip(keys.tolist(), means.tolist(), strict=True))
        return [size_of.get(self._key(name), rest) for name in names]

    def _key(self, name: Hashable) -> int | None:
        if self._is_coded:
            return self._codes.get(name)
        if isinstance(name, str):
            return name_hash(name)
        return name if isinstance(name, int) else None


def sampled_entries(x: Any, lo: int, hi: int, size: int) -> Entries:
    """Return about `size` entries: those of the first of some rows, at least one row.

    The keys are an array of integers, of which hashes are uint64, or a list of names.
    """
    if hasattr(x, "csr"):  # parsed rows
        last = _last_row(x.indptr, lo, hi, size)
        keys, values, _ = x[lo:last].csr()
        # A copy: a view would keep the arrays of a whole chunk.
        kind = np.uint64 if keys.dtype == np.uint64 else np.int64
        return Entries(keys.astype(kind, copy=True), np.abs(values))
    if isinstance(x, np.ndarray):
        last = min(hi, lo + max(1, size // max(1, x.shape[1])))
        part = np.asarray(x[lo:last], np.float64)
        rows, columns = np.nonzero(part)
        return Entries(columns.astype(np.int64), np.abs(part[rows, columns]))
    if is_matrix(x):
        last = _last_row(x.indptr, lo, hi, size)
        begin, end = int(x.indptr[lo]), int(x.indptr[last])
        sizes = np.abs(np.asarray(x.data[begin:end], np.float64))
        return Entries(x.indices[begin:end].astype(np.int64), sizes)
    if is_frame(x):
        last = min(hi, lo + max(1, size // max(1, len(to_narwhals(x).columns))))
        return _of_pairs(
            [(name, v) for name, column in numbers_of(x, lo, last) for v in column.tolist() if v]
        )
    pairs: list[tuple[Hashable, float]] = []
    for row in x[lo:hi]:
        pairs += _numbers(row)
        if len(pairs) >= size // DICT_SHARE:
            break
    return _of_pairs(pairs)


def _last_row(indptr: Any, lo: int, hi: int, size: int) -> int:
    """Return the end of a piece that starts with row `lo`."""
    last = int(np.searchsorted(indptr, indptr[lo] + size, "right")) - 1
    return min(hi, max(lo + 1, last))


def _of_pairs(pairs: Sequence[tuple[Hashable, float]]) -> Entries:
    sizes = np.abs(np.array([value for _, value in pairs], np.float64))
    return Entries([name for name, _ in pairs], sizes)


def _features_of(row: Any) -> Iterable[tuple[Hashable, Any]]:
    """Return the items of a dict or an event; none of a text, which pipelines take."""
    x: Any = row.x if isinstance(row, Event) else row
    return x.items() if hasattr(type(x), "items") else ()


def _numbers(row: Any) -> list[tuple[Hashable, float]]:
    """Return the features of a dict with their values; a text is a feature of value 1."""
    pairs: list[tuple[Hashable, float]] = []
    for name, value in _features_of(row):
        if isinstance(value, str):
            pairs.append((f"{name}={value}", 1.0))
        elif not is_missing(value) and value:
            pairs.append((name, float(value)))
    return pairs


def numbers_of(x: Any, lo: int, hi: int) -> list[tuple[str, Floats]]:
    """Return the numeric columns of consecutive rows of a frame."""
    return [
        (column.name, np.nan_to_num(column.to_numpy().astype(np.float64), posinf=0.0, neginf=0.0))
        for column in to_narwhals(x)[lo:hi].iter_columns()  # `frame[name]` means rows if it is 1
        if column.dtype.is_numeric()
    ]


class LargeValue(NamedTuple):
    """A value: its row, and the name and key of its feature."""

    row: int
    name: Hashable
    key: Key
    size: float


def largest_size(x: Any, lo: int, hi: int, limit: float) -> list[LargeValue]:
    """Return values of consecutive rows whose size exceeds a limit: the largest of each feature.

    Without such values, which is usual, it reads arrays once and returns nothing.
    """
    if hasattr(x, "csr"):
        return _large_in_parsed_rows(x, lo, hi, limit)
    if isinstance(x, np.ndarray):
        return _large_in_array(np.asarray(x[lo:hi], np.float64), lo, limit)
    if is_matrix(x):
        return _large_in_sparse(x, lo, hi, limit)
    if is_frame(x):
        return _large_in_frame(x, lo, hi, limit)
    return _large_in_dicts(x[lo:hi], lo, limit)


def _large_in_parsed_rows(x: Any, lo: int, hi: int, limit: float) -> list[LargeValue]:
    begin, end = int(x.indptr[lo]), int(x.indptr[hi])
    positions = _beyond(x.values[begin:end], limit)
    if not len(positions):
        return []
    part = x[lo:hi]
    keys, values, indptr = part.csr()
    positions = positions[_largest_of_each(keys[positions], np.abs(values[positions]))]
    names = keys[positions].tolist()
    if hasattr(part, "feature_names"):
        names = part.feature_names(positions)
    return _located(lo, indptr, positions, names, keys[positions], values[positions])


def _large_in_array(x: NDArray[np.float64], lo: int, limit: float) -> list[LargeValue]:
    values = x.ravel()
    positions = _beyond(values, limit)
    if not len(positions):
        return []
    columns = positions % x.shape[1]
    chosen = _largest_of_each(columns, np.abs(values[positions]))
    positions, columns = positions[chosen], columns[chosen]
    indptr = np.arange(len(x) + 1) * x.shape[1]
    return _located(lo, indptr, positions, columns.tolist(), columns, values[positions])


def _large_in_sparse(x: Any, lo: int, hi: int, limit: float) -> list[LargeValue]:
    begin, end = int(x.indptr[lo]), int(x.indptr[hi])
    values, columns = x.data[begin:end], x.indices[begin:end]
    positions = _beyond(values, limit)
    if not len(positions):
        return []
    positions = positions[_largest_of_each(columns[positions], np.abs(values[positions]))]
    indptr, keys = x.indptr[lo : hi + 1] - begin, columns[positions]
    return _located(lo, indptr, positions, keys.tolist(), keys, values[positions])


def _large_in_frame(x: Any, lo: int, hi: int, limit: float) -> list[LargeValue]:
    found = []
    for name, column in numbers_of(x, lo, hi):
        positions = _beyond(column, limit)
        if len(positions):
            row = int(positions[np.argmax(np.abs(column[positions]))])
            found.append(LargeValue(lo + row, name, (name,), abs(float(column[row]))))
    return found


def _beyond(values: Any, limit: float) -> Any:
    """Return the positions of sizes above a limit."""
    if not len(values) or (values.max() <= limit and values.min() >= -limit):
        return np.empty(0, np.intp)
    return np.flatnonzero(np.abs(values) > limit)


def _largest_of_each(keys: Any, sizes: Floats) -> Any:
    """Return the position of the largest size of each key, the first of equal ones."""
    order = np.lexsort((-np.arange(len(keys)), sizes, keys))
    last = np.append(keys[order][1:] != keys[order][:-1], True)
    return order[last]


def _located(
    lo: int, indptr: Any, positions: Any, names: Sequence[Hashable], keys: Any, values: Any
) -> list[LargeValue]:
    rows = lo + np.searchsorted(indptr, positions, "right") - 1
    parts = zip(rows.tolist(), names, keys.tolist(), np.abs(values).tolist(), strict=True)
    return [LargeValue(*part) for part in parts]


def _large_in_dicts(rows: Sequence[Any], lo: int, limit: float) -> list[LargeValue]:
    found: dict[Hashable, LargeValue] = {}
    for row in _suspects(rows, limit):
        for name, value in _features_of(rows[row]):
            if isinstance(value, str) or is_missing(value) or -limit <= value <= limit:
                continue
            size = abs(float(value))
            if name not in found or size > found[name].size:
                found[name] = LargeValue(lo + row, name, (name,), size)
    return list(found.values())


_TEXTS = frozenset({str, type(None)})


def _suspects(rows: Sequence[Any], limit: float) -> Sequence[int]:
    """Return the dicts that may have a large value; all of them unless all values are numbers.

    A sum in C costs a tenth of a loop over the values. It exceeds the limit if a value does,
    unless two large values happen to cancel.
    """
    try:
        sums = [*map(sum, map(dict.values, rows))]
    except TypeError:  # events, other mappings, texts as values or instead of dicts
        kinds = ({type(value) for _, value in _features_of(x)} for x in rows)
        return [row for row, found in enumerate(kinds) if found - _TEXTS]
    return [row for row, total in enumerate(sums) if not -limit <= total <= limit]
