"""Validation of the arguments of a solver: matrix, labels and parameters."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streaml1.core.rows import BadExample, Rows, shown, shown_type
from streaml1.core.types import Floats
from streaml1.features.batch import batch_of, checked, is_matrix
from streaml1.features.labels import column_of, equals_itself, to_numbers
from streaml1.models.parameter_checks import Integer, Number, boolean
from streaml1.optim.losses import CODES
from streaml1.optim.tasks import REGRESSION

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "ALTERNATIVES",
    "Data",
    "MatrixLike",
    "check_choice",
    "check_ridge",
    "check_run",
    "check_strength",
    "column_of_ones",
    "floats",
    "reject_intercept",
    "unsupported",
]

MULTICLASS = ("softmax", "multiclass_hinge")
POWER_ITERATIONS = 20
ALTERNATIVES = {"logistic": "fista or scd", "squared": "fista or scd", "smoothed_hinge": "fista"}
"""Loss -> the solvers that fit an intercept. `fista` needs no penalty, either."""


class MatrixLike(Protocol):
    """A scipy.sparse or numpy matrix."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and columns."""


class Data:
    """Validated rows and labels: no NaN, no explicit zeros, each column once in a row.

    Parameters
    ----------
    X
        A scipy.sparse or numpy matrix, shape (n, d).
    y
        Labels, length n. For classification losses bool, 0 and 1, or -1 and 1; for regression
        losses numbers; for multiclass losses anything that `np.unique` can sort.
    loss
        The name of the loss.

    Attributes
    ----------
    rows : Rows
        The rows in CSR form: ids uint32, values float64, indptr uint64.
    y : ndarray
        -1.0 and 1.0 for classification; float64 for regression; for multiclass losses the index
        into `classes`, int64.
    classes : tuple
        The sorted labels of a multiclass loss; else empty.
    n, d : int
        Number of rows and columns.

    Raises
    ------
    TypeError
        If `X` is not a matrix.
    ValueError
        If a value or label is invalid, or if there are no rows.
    """

    def __init__(self, X: MatrixLike, y: ArrayLike, loss: str) -> None:
        if not is_matrix(X):
            remedy = "X.to_numpy()" if hasattr(X, "to_numpy") else "np.array(X)"
            raise TypeError(
                f"X must be a scipy.sparse or numpy matrix, got {shown_type(X)}; use {remedy}"
            )
        batch = batch_of(X)
        if batch.width is None:
            raise ValueError(f"X must have less than 2**32 columns, got {X.shape[1]:,}")
        self.rows: Rows = checked(batch).rows
        self.n, self.d = self.rows.n, batch.width
        if self.n == 0:
            raise ValueError("X must have at least one row, got none")
        self.classes: tuple[Any, ...] = ()
        self.y: NDArray[Any]
        if loss in MULTICLASS:
            self.classes, self.y = _encode_classes(y, self.n)
        elif loss in REGRESSION:
            self.y = to_numbers(y, self.n)
        else:
            self.y = _signs(y, self.n)

    @property
    def nnz(self) -> int:
        """Number of non-zero entries."""
        return len(self.rows.values)

    @cached_property
    def matrix(self) -> csr_array:
        """The rows as a scipy.sparse CSR array."""
        from scipy.sparse import csr_array

        dtype = np.int32 if max(self.nnz, self.d) < 2**31 else np.int64
        ids, indptr = self.rows.ids.astype(dtype), self.rows.indptr.astype(dtype)
        return csr_array((self.rows.values, ids, indptr), shape=(self.n, self.d))

    @cached_property
    def row_squares(self) -> Floats:
        """The squared l2 norm of each row, shape (n,)."""
        row = np.repeat(np.arange(self.n), np.diff(self.rows.indptr.astype(np.int64)))
        return np.bincount(row, self.rows.values**2, self.n).astype(np.float64, copy=False)

    @cached_property
    def column_squares(self) -> Floats:
        """The squared l2 norm of each column, shape (d,)."""
        squares = np.bincount(self.rows.ids, self.rows.values**2, self.d)
        return squares.astype(np.float64, copy=False)

    def largest_eigenvalue(self, seed: int) -> float:
        """Return an estimate of the largest eigenvalue of X'X / n; 0 if X has no non-zeros.

        It comes from a few steps of power iteration, and is hardly too large.

        Parameters
        ----------
        seed
            Seed of the vector to start from.
        """
        x = np.random.default_rng(seed).normal(size=self.d)
        s = 0.0
        for _ in range(POWER_ITERATIONS):
            norm = float(np.linalg.norm(x))
            if norm == 0.0:
                break
            x = self.matrix.T @ (self.matrix @ (x / norm)) / self.n
            s = float(np.linalg.norm(x))
        return s


def _encode_classes(y: ArrayLike, n: int) -> tuple[tuple[Any, ...], NDArray[np.intp]]:
    """Return the sorted distinct labels, and the index of each row's label."""
    column = column_of("labels", y, n)
    try:
        labels, codes = np.unique(column, return_inverse=True)
    except TypeError:
        for row, label in enumerate(column):
            if label is None or not equals_itself(label):
                raise BadExample(
                    f"the label {shown(label)} is missing; drop its row", row
                ) from None
        kinds = sorted({type(label).__name__ for label in column})
        raise ValueError(f"labels must be of one type, got {' and '.join(kinds)}") from None
    classes = tuple(labels.tolist())
    if not all(map(equals_itself, classes)):
        raise ValueError("a label is NaN; drop its row")
    return classes, codes


def _signs(y: ArrayLike, n: int) -> Floats:
    """Return -1.0 or 1.0 for each label."""
    labels = column_of("labels", y, n)
    try:
        numbers: Floats = to_numbers(labels, n)
    except BadExample as error:
        raise BadExample(
            f"{shown(labels[error.row])} is not a label of a classifier; labels are False and "
            "True, 0 and 1, or -1 and 1; drop its row, or use fista with "
            'loss="softmax" for other labels',
            error.row,
        ) from None
    if np.all(np.abs(numbers) == 1.0):
        return numbers
    stray = np.flatnonzero((numbers != 0.0) & (numbers != 1.0))
    if len(stray):
        raise ValueError(
            "labels of a classifier must be False and True, 0 and 1, or -1 and 1, "
            f'got {shown(labels[stray[0]])}; use loss="squared" for numbers'
        )
    return 2.0 * numbers - 1.0


def unsupported(solver: str, what: str, remedy: str) -> ValueError:
    """Make the error for an argument that a solver does not support.

    Examples
    --------
    >>> raise unsupported("sdca", "l1=0.1", "use prox_sdca")
    Traceback (most recent call last):
    ValueError: sdca does not support l1=0.1; use prox_sdca
    """
    return ValueError(f"{solver} does not support {what}; {remedy}")


def check_choice(solver: str, name: str, value: object, allowed: tuple[str, ...]) -> str:
    """Return `value` if it is one of the strings `allowed`, else raise a ValueError."""
    if not isinstance(value, str) or value not in allowed:
        listed = ", ".join(f'"{choice}"' for choice in allowed)
        raise unsupported(solver, f"{name}={shown(value)}", f"use one of {listed}")
    return value


def floats(solver: str, name: str, value: ArrayLike, remedy: str) -> NDArray[np.float64]:
    """Return `value` as a new array of float64, or raise a ValueError."""
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise unsupported(solver, f"{name}={shown(value)}", remedy) from None


def check_strength(name: str, value: object, *, above_zero: bool = False) -> float:
    """Return a strength, radius or width as a float; it must be finite and >= 0 (or > 0)."""
    return float(Number(0.0, 1e100, above=above_zero)(name, value))


def check_ridge(solver: str, l1: float, l2: float, loss: str) -> float:
    """Return `l2` for a solver whose dual needs l2 > 0 and l1 = 0, or raise a ValueError."""
    if check_strength("l1", l1):
        raise unsupported(solver, f"l1={l1:g}", "use prox_sdca" if loss in CODES else "use l1=0")
    strength = check_strength("l2", l2)
    if not strength:
        others = ", or fista" if loss in ALTERNATIVES else ""
        raise unsupported(solver, "l2=0", f"use l2 > 0{others}")
    return strength


def reject_intercept(solver: str, fit_intercept: bool, remedy: str) -> None:
    """Raise a ValueError if `fit_intercept` is set.

    An unpenalized intercept couples all dual variables: no single one could change alone.
    """
    if boolean("fit_intercept", fit_intercept):
        raise unsupported(solver, "fit_intercept=True", remedy)


def column_of_ones(loss: str) -> str:
    """Return the remedy for `fit_intercept` of a dual solver."""
    others = ALTERNATIVES.get(loss)
    return "add a column of ones" + (f", or use {others}" if others else "")


def check_run(tol: object, max_epochs: object, seed: object = 0) -> tuple[float, int, int]:
    """Validate the parameters that all solvers have: tol, max_epochs and seed."""
    return (
        float(Number(0.0, math.inf)("tol", tol)),
        int(Integer(0, 2**62)("max_epochs", max_epochs)),
        int(Integer(0, 2**32 - 1)("seed", seed)),
    )
