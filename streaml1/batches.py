"""Many examples at once, as rows: lists of dicts, data frames, sparse and dense matrices."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streaml1.rows import MOST_IDS, BadExample, Rows, largest, number, plain_items, plain_rows

__all__ = ["Batch", "batch_of", "checked", "is_frame", "is_matrix", "stray"]


class Batch(NamedTuple):
    """Rows whose ids are places in `names`, or int names themselves where that is None.

    They are plain, but for those of a matrix, which is looked at while it is learnt: there
    `width` is above zero, and every id must be below it.
    """

    rows: Rows
    names: list[Hashable] | None
    width: int = 0

    @property
    def n(self) -> int:
        """How many rows."""
        return self.rows.n


def is_matrix(X: Any) -> bool:
    """Whether X is a scipy sparse or a numpy matrix."""
    return isinstance(X, np.ndarray) or (hasattr(X, "tocsr") and hasattr(X, "nnz"))


def is_frame(X: Any) -> bool:
    """Whether X is a data frame."""
    return hasattr(X, "columns") and not is_matrix(X)


def batch_of(X: Any) -> Batch:
    """The rows of X.

    Raises
    ------
    BadExample
        At the first value that is refused, with its row.
    TypeError
        Where X is none of the kinds above.
    """
    if is_matrix(X):
        return _from_matrix(X)
    if is_frame(X):
        return _from_frame(X)
    if isinstance(X, Sequence) and not isinstance(X, str | bytes):
        return _from_dicts(X)
    raise TypeError(
        f"X is a {type(X).__name__}; give a data frame, a scipy.sparse matrix or a list of dicts"
    )


def _from_matrix(X: Any) -> Batch:
    if X.ndim != 2:
        raise TypeError(f"X has {X.ndim} dimension(s); rows of examples have 2")
    if isinstance(X, np.ndarray):
        from scipy.sparse import csr_array

        X = csr_array(X)
    X = X.tocsr()
    if X.dtype.kind not in "fiub":
        raise TypeError(f"X has values of type {X.dtype}; they must be real numbers")
    indptr, indices = X.indptr, X.indices
    if indptr[0] != 0 or np.any(np.diff(indptr) < 0) or indptr[-1] > min(len(indices), len(X.data)):
        raise TypeError("the index pointers of X are out of order; X.check_format() tells more")
    end = int(indptr[-1])
    indices, data = indices[:end], _own(X.data[:end], np.float64)
    rows_of = _own(indptr, np.uint64)
    if indices.dtype == np.int32:  # below 0 turns out too large
        rows = Rows(_own(indices, np.int32).view(np.uint32), data, rows_of)
        return Batch(rows, None, X.shape[1])
    if end and not (indices.min() >= 0 and indices.max() < X.shape[1]):
        raise TypeError(stray(X.shape[1]))
    if X.shape[1] < MOST_IDS:
        return Batch(Rows(indices.astype(np.uint32), data, rows_of), None, X.shape[1])
    columns, places = np.unique(indices, return_inverse=True)
    names = columns.tolist()
    rows = Rows(places.astype(np.uint32), data, rows_of)
    return Batch(plain_rows(rows, names.__getitem__), names)


def checked(batch: Batch) -> Batch:
    """The batch with plain rows.

    Raises
    ------
    BadExample
        At the first value that is refused, with its row.
    """
    if not batch.width:
        return batch
    if len(batch.rows.ids) and largest(batch.rows.ids) >= batch.width:
        raise TypeError(stray(batch.width))
    return Batch(plain_rows(batch.rows), batch.names)


def stray(width: int) -> str:
    """Say that a matrix is broken."""
    return f"X has an entry outside its {width} columns; X.check_format() tells more"


def _own(values: Any, dtype: Any) -> Any:
    """`values` as kernels take them; copied only where they are not."""
    return np.require(values, dtype, ["C", "A", "W"])


def _from_dicts(xs: Sequence[Mapping[Hashable, Any]]) -> Batch:
    places: dict[Hashable, int] = {}
    ids, values, ends = array("I"), array("d"), array("Q", [0])
    for i, x in enumerate(xs):
        if not isinstance(x, Mapping):
            raise BadExample(f"an example is a dict of features, not a {type(x).__name__}", i)
        try:
            new = array("d", x.values()) if all(x.values()) else None
        except Exception:  # strings, None, an object's own error: named below
            new = None
        if new is None:
            try:
                x = plain_items(x)
            except BadExample as bad:
                raise BadExample(bad.reason, i) from None
            new = array("d", x.values())
        ids.extend([places.setdefault(name, len(places)) for name in x])
        values.extend(new)
        ends.append(len(ids))
    names = list(places)
    rows = Rows(np.array(ids, np.uint32), np.array(values, np.float64), np.array(ends, np.uint64))
    return Batch(plain_rows(rows, names.__getitem__), names)


def _from_frame(X: Any) -> Batch:
    names: list[Hashable]
    if _is_sparse(X):
        names = list(X.columns)
        return _renamed(checked(_from_matrix(X.sparse.to_coo())), names)
    import narwhals as nw

    frame = nw.from_native(X, eager_only=True)
    places: dict[Hashable, int] = {}
    n = len(frame)
    columns = [_column(series, places, n) for series in frame.iter_columns()]
    names = list(places)
    if not columns or not n:
        empty = Rows(np.zeros(0, np.uint32), np.zeros(0), np.zeros(n + 1, np.uint64))
        return Batch(empty, names)
    ids = np.stack([c[0] for c in columns], axis=1)
    values = np.stack([c[1] for c in columns], axis=1)
    # What is absent is a zero until here; `plain_rows` drops both.
    indptr = np.arange(n + 1, dtype=np.uint64) * np.uint64(len(columns))
    rows = Rows(ids.reshape(-1), values.reshape(-1), indptr)
    return Batch(plain_rows(rows, names.__getitem__), names)


def _is_sparse(X: Any) -> bool:
    return hasattr(X, "sparse") and hasattr(X, "dtypes") and _all_sparse(X)


def _all_sparse(X: Any) -> bool:
    dtypes = list(X.dtypes)
    return bool(dtypes) and all(getattr(t, "fill_value", None) == 0 for t in dtypes)


def _renamed(batch: Batch, names: list[Hashable]) -> Batch:
    """A batch of column numbers as one of column names; two columns may share a name."""
    places: dict[Hashable, int] = {}
    place = np.array([places.setdefault(name, len(places)) for name in names], np.uint32)
    if len(places) == len(names):
        return Batch(batch.rows, names)
    rows = batch.rows._replace(ids=place[batch.rows.ids])
    return Batch(plain_rows(rows), list(places))


def _column(series: Any, places: dict[Hashable, int], n: int) -> tuple[Any, Any]:
    """(ids, values) of one column of a frame; places of new names are added."""
    name = series.name
    native = getattr(series.to_native(), "dtype", None)
    if isinstance(native, np.dtype) and native.kind in "fiub":
        numbers = series.to_numpy().astype(np.float64)
    elif series.dtype.is_numeric() or str(series.dtype) == "Boolean":
        absent = series.is_null().to_numpy()
        numbers = np.zeros(n)
        numbers[~absent] = series.filter(~series.is_null()).to_numpy().astype(np.float64)
    else:
        return _objects(name, series.to_list(), series.is_null().to_list(), places)
    place = places.setdefault(name, len(places))
    return np.full(n, place, np.uint32), numbers


def _objects(
    name: Hashable, values: list[Any], null: list[bool], places: dict[Hashable, int]
) -> tuple[Any, Any]:
    ids, numbers = np.zeros(len(values), np.uint32), np.zeros(len(values))
    for i, value in enumerate(values):
        if value is None or (null[i] and not isinstance(value, float)):
            continue
        if isinstance(value, str):
            feature: Hashable = f"{name}={value}"
            numbers[i] = 1.0
        else:
            feature = name
            try:
                numbers[i] = number(name, value)
            except BadExample as bad:
                raise BadExample(bad.reason, i) from None
        ids[i] = places.setdefault(feature, len(places))
    return ids, numbers
