"""Matrices as CSR arrays whose attributes were checked.

The attributes of a scipy matrix can be set to anything, and neither scipy's conversions nor kernels
check them: they would read or write other memory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = ["CSR", "as_csr", "csr_of", "out_of_range_column", "own", "require_two_dimensions"]

REMEDY = "X.check_format() explains"
BROKEN = f"the index pointers of X are out of order; {REMEDY}"


class CSR(NamedTuple):
    """A matrix; column indices may still be out of range."""

    data: Any
    indices: Any
    indptr: Any
    shape: tuple[int, int]


def out_of_range_column(width: int) -> str:
    """Return the error message for a matrix with an index out of range."""
    return f"X has an entry outside its {width} columns; {REMEDY}"


def own(values: Any, dtype: Any) -> Any:
    """Return `values` as an aligned, writable C array of `dtype`, copied only if necessary."""
    if type(values) is np.ndarray and values.dtype == dtype and values.flags.carray:
        return values
    return np.require(np.asarray(values), dtype, ["C", "A", "W"])


def csr_of(X: Any) -> CSR:
    """Convert a scipy or numpy matrix to CSR arrays.

    Row boundaries are in order and within the arrays. Column indices are integers.

    Raises
    ------
    TypeError
        If X is not a matrix of real numbers, or is malformed.
    """
    X = as_csr(X)
    return CSR(X.data, X.indices, X.indptr, X.shape)


def as_csr(X: Any) -> Any:
    """Convert a scipy or numpy matrix to a scipy matrix in CSR form, as `csr_of` describes it."""
    require_two_dimensions(X)
    if isinstance(X, np.ndarray):
        return _from_dense(X)
    if X.format not in _ARRAYS:
        return _converted(X)
    arrays = [_vector(X, name) for name in _ARRAYS[X.format]]
    _check_dtype(X.data.dtype)
    if X.format == "csr":
        _check_compressed(X.shape[0], *arrays)
        return X
    if X.format == "csc":
        _check_compressed(X.shape[1], *arrays)
    else:
        data, rows, columns = arrays
        if not len(data) == len(rows) == len(columns):
            raise TypeError(f"the data and coordinates of X differ in length; {REMEDY}")
        _check_range(columns, X.shape[1], "columns")
    # scipy writes to these positions when it converts X.
    _check_range(arrays[1], X.shape[0], "rows")
    return _converted(X)


def require_two_dimensions(X: Any) -> None:
    """Raise TypeError unless an array has two dimensions."""
    if getattr(getattr(X, "dtype", None), "names", None):
        raise TypeError(
            "X is a structured array, whose columns have names: give pandas.DataFrame(X)"
        )
    if X.ndim != 2:
        remedy = ": use X.reshape(-1, 1) if it is one feature" if X.ndim == 1 else ""
        raise TypeError(f"X has {X.ndim} dimension(s); rows of examples have 2{remedy}")


_ARRAYS = {
    "csr": ("data", "indices", "indptr"),
    "csc": ("data", "indices", "indptr"),
    "coo": ("data", "row", "col"),
}
"""The attributes of each format that has only vectors: the values, then integers."""


def _from_dense(X: Any) -> Any:
    from scipy.sparse import csr_array

    _check_dtype(X.dtype)
    if isinstance(X, np.ma.MaskedArray):
        X = X.filled(0)  # masked values are absent
    # scipy has no matrices of float16, nor of another byte order.
    is_supported = X.dtype.isnative and X.dtype != np.float16
    return csr_array(X if is_supported else X.astype(np.float64))


def _check_dtype(dtype: Any) -> None:
    if dtype.kind not in "fiub":
        raise TypeError(f"X has values of type {dtype}; they must be real numbers")


def _vector(X: Any, name: str) -> Any:
    """Return an attribute of a matrix that must be a vector: of integers, unless it is the data."""
    array = getattr(X, name, None)
    if not isinstance(array, np.ndarray) or array.ndim != 1:
        shape = getattr(array, "shape", None)
        got = type(array).__name__ if shape is None else f"the shape {shape}"
        raise TypeError(f"X.{name} must be a one-dimensional array, got {got}; {REMEDY}")
    if isinstance(array, np.ma.MaskedArray):  # whose comparisons leave masked elements out
        raise TypeError(f"X.{name} must not be a masked array; {REMEDY}")
    if name != "data" and array.dtype.kind not in "iu":
        raise TypeError(f"X.{name} must hold integers, got {array.dtype}; {REMEDY}")
    return array


def _check_compressed(n: int, data: Any, indices: Any, indptr: Any) -> None:
    if n < 0 or len(indptr) != n + 1 or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        raise TypeError(BROKEN)
    if int(indptr[-1]) > min(len(indices), len(data)):
        raise TypeError(BROKEN)


def _check_range(positions: Any, n: int, what: str) -> None:
    if len(positions) and not (positions.min() >= 0 and positions.max() < n):
        raise TypeError(f"X has an entry outside its {n} {what}; {REMEDY}")


def _converted(X: Any) -> Any:
    """Convert a scipy matrix of another format; sums of duplicates would overflow small ints."""
    try:
        _check_dtype(X.dtype)
        check = _CHECKS.get(X.format)
        if check is not None:
            check(X)
        csr = X.astype(np.float64).tocsr()
    except (ValueError, IndexError, AttributeError, OverflowError, KeyError):
        # An AttributeError means that one of its arrays was replaced by something else.
        raise TypeError(f"X is a malformed matrix in {X.format} format; create it again") from None
    arrays = [_vector(csr, name) for name in _ARRAYS["csr"]]
    _check_compressed(csr.shape[0], *arrays)
    return csr


def _check_lil(X: Any) -> None:
    if not X.rows.shape == X.data.shape == (X.shape[0],):
        raise ValueError("the number of rows is wrong")
    for columns, values in zip(X.rows, X.data, strict=True):
        if len(columns) != len(values):
            raise ValueError("a row has indices without values, or the reverse")
        _check_range(np.array(columns, np.int64), X.shape[1], "columns")


def _check_bsr(X: Any) -> None:
    indices, indptr = _vector(X, "indices"), _vector(X, "indptr")
    n_blocks, height, width = X.data.shape
    n, d = X.shape
    if n % height or d % width:
        raise ValueError("the blocks do not fit")
    _check_compressed(n // height, np.empty(n_blocks), indices, indptr)
    _check_range(indices, d // width, "columns")


def _check_dia(X: Any) -> None:
    if X.data.ndim != 2 or len(_vector(X, "offsets")) != len(X.data):
        raise ValueError("a diagonal has no offset")


_CHECKS: dict[str, Any] = {"lil": _check_lil, "bsr": _check_bsr, "dia": _check_dia}
"""What makes scipy's conversion read or write other memory, by format."""
