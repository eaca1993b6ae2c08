"""Data in memory as solvers take them, or refused in one sentence."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from streaml1.core.rows import Rows, shown
from streaml1.features.batch import batch_of, checked, is_matrix
from streaml1.features.labels import binaries, column_of, equals_itself, values
from streaml1.models.parameters import Integer, Number, boolean
from streaml1.optim.tasks import REGRESSION

__all__ = [
    "Data",
    "check_ridge",
    "check_run",
    "check_strength",
    "choose",
    "floats",
    "no_intercept",
    "unable",
]

MULTICLASS = ("softmax", "multiclass_hinge")


class Data:
    """Rows and labels, checked: no NaN, no zeros, each column once in a row.

    Parameters
    ----------
    X
        A scipy.sparse or numpy matrix.
    y
        Labels: of classifiers bool, 0 and 1, or -1 and 1; of regressors numbers; of multiclass
        losses whatever `np.unique` can sort.
    loss
        The name of the loss, which tells what the labels are.

    Attributes
    ----------
    rows : Rows
        The rows, as kernels take them: ids uint32, values float64, indptr uint64.
    y : ndarray
        -1.0 and 1.0; floats; or, of a multiclass loss, the place in `classes`, an int64.
    classes : tuple
        The labels of a multiclass loss, sorted; else empty.
    n, d : int
        Rows and columns.
    """

    def __init__(self, X: Any, y: Any, loss: str) -> None:
        if not is_matrix(X):
            raise TypeError(f"X is a {type(X).__name__}; give a scipy.sparse or a numpy matrix")
        batch = batch_of(X)
        if batch.width is None:
            raise ValueError(f"X has {X.shape[1]:,} columns; solvers take less than 2**32")
        self.rows: Rows = checked(batch).rows
        self.n, self.d = self.rows.n, batch.width
        if self.n == 0:
            raise ValueError("X has no rows; a solver needs one at least")
        self.classes: tuple[Any, ...] = ()
        if loss in MULTICLASS:
            self.classes, self.y = _classes(y, self.n)
        elif loss in REGRESSION:
            self.y = values(y, self.n)
        else:
            self.y = _signs(y, self.n)

    @property
    def nnz(self) -> int:
        """How many entries are not zero."""
        return len(self.rows.values)

    @cached_property
    def matrix(self) -> Any:
        """The rows as a scipy.sparse CSR array."""
        from scipy.sparse import csr_array

        kind = np.int32 if max(self.nnz, self.d) < 2**31 else np.int64
        ids, indptr = self.rows.ids.astype(kind), self.rows.indptr.astype(kind)
        return csr_array((self.rows.values, ids, indptr), shape=(self.n, self.d))

    @cached_property
    def row_squares(self) -> Any:
        """The sum of x_ij^2 of each row."""
        at = np.repeat(np.arange(self.n), np.diff(self.rows.indptr.astype(np.int64)))
        return np.bincount(at, self.rows.values**2, self.n)

    @cached_property
    def column_squares(self) -> Any:
        """The sum of x_ij^2 of each column."""
        return np.bincount(self.rows.ids, self.rows.values**2, self.d)


def _classes(y: Any, n: int) -> tuple[tuple[Any, ...], Any]:
    column = column_of("labels", y, n)
    try:
        labels, places = np.unique(column, return_inverse=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in column})
        raise ValueError(f"labels are {' and '.join(kinds)}; give labels of one type") from None
    classes = tuple(labels.tolist())
    if not all(map(equals_itself, classes)):
        raise ValueError("a label is NaN; leave its row out")
    return classes, places


def _signs(y: Any, n: int) -> Any:
    labels = column_of("labels", y, n)
    if labels.dtype.kind in "if" and np.all(np.abs(labels) == 1):
        return labels.astype(np.float64)
    if labels.dtype.kind in "iuf":
        stray = labels[(labels != 0) & (labels != 1)]
        if len(stray):
            raise ValueError(
                f"{shown(stray[0].item())} is not a label of a classifier beside these others; "
                "labels are False and True, 0 and 1, or -1 and 1"
            )
    return binaries(labels, n)


def unable(solver: str, what: str, remedy: str) -> ValueError:
    """The refusal of what a solver cannot do, by name: raise it.

    Examples
    --------
    >>> raise unable("sdca", "l1=0.1", "use prox_sdca")
    Traceback (most recent call last):
    ValueError: sdca cannot do l1=0.1; use prox_sdca
    """
    return ValueError(f"{solver} cannot do {what}; {remedy}")


def choose(solver: str, name: str, value: Any, known: tuple[str, ...]) -> str:
    """`value` if it is among those that a solver knows, else it is refused by name."""
    if not isinstance(value, str) or value not in known:
        listed = ", ".join(f'"{one}"' for one in known)
        raise unable(solver, f"{name}={shown(value)}", f"give one of {listed}")
    return value


def floats(solver: str, name: str, value: Any, remedy: str) -> Any:
    """`value` as a new array of floats, else it is refused by name."""
    try:
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise unable(solver, f"{name}={shown(value)}", remedy) from None


def check_strength(name: str, value: Any, *, above_zero: bool = False) -> float:
    """A strength, radius or width as a float: finite, and not below 0."""
    return float(Number(0.0, 1e100, above=above_zero)(name, value))


def check_ridge(solver: str, l1: Any, l2: Any) -> float:
    """`l2` of a solver that steps in a dual which l1 has none of: above 0, and l1 is 0."""
    if check_strength("l1", l1):
        raise unable(solver, f"l1={l1:g}", "use prox_sdca")
    strength = check_strength("l2", l2)
    if not strength:
        raise unable(solver, "l2=0", "give an l2 above 0, or use fista or scd")
    return strength


def no_intercept(solver: str, fit_intercept: Any) -> None:
    """Refuse an intercept: without a penalty it ties the dual variables to one another."""
    if boolean("fit_intercept", fit_intercept):
        raise unable(solver, "fit_intercept=True", "add a column of ones, or use fista or scd")


def check_run(tol: Any, max_epochs: Any, seed: Any = 0) -> tuple[float, int, int]:
    """`tol`, `max_epochs` and `seed`, which all solvers have."""
    return (
        float(Number(0.0, math.inf)("tol", tol)),
        int(Integer(0, 2**62)("max_epochs", max_epochs)),
        int(Integer(0, 2**32 - 1)("seed", seed)),
    )
