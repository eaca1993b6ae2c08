"""The problem and the state of `scd` and `detcd`, and their dual bound."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from streaml1.core.jit import u64
from streaml1.core.rows import Rows
from streaml1.core.types import Floats, Ids
from streaml1.optim.losses import CODES, LOGISTIC, SQUARED
from streaml1.solvers.active_set_newton import Face, face_signs, polish, slope_tolerance
from streaml1.solvers.coordinate_kernels import (
    Problem,
    gradient,
    loss_derivatives,
    matvec,
    max_dual_scale,
    separable_infimum,
    transpose,
)
from streaml1.solvers.data import Data, floats, unsupported
from streaml1.solvers.objective import balance_dual, curvature_bound, mean_conjugate, mean_loss

__all__ = ["Constraints", "CoordinateState", "check_constraints"]

# Relative excess over the bound of the dual that scaling leaves by rounding.
ROUNDING = 1e-13


class Constraints(NamedTuple):
    """The linear term and the bounds of the weights, shape (d,) each."""

    linear: Floats
    lower: Floats
    upper: Floats


def check_constraints(
    solver: str, d: int, linear: ArrayLike, lower: ArrayLike, upper: ArrayLike
) -> Constraints:
    """Validate the linear term and the bounds, and broadcast them to d weights."""
    arrays = []
    for name, value in (("linear", linear), ("lower", lower), ("upper", upper)):
        remedy = f"use a number, or {d} of them"
        array = floats(solver, name, value, remedy)
        if array.shape not in ((), (d,)):
            raise unsupported(solver, f"{name}= of shape {array.shape}", remedy)
        arrays.append(np.broadcast_to(array, (d,)))
    found = Constraints(*arrays)
    if not np.isfinite(found.linear).all():
        raise unsupported(solver, "a linear term that is not finite", "use finite numbers")
    is_valid = (found.lower <= found.upper) & (found.lower < math.inf) & (found.upper > -math.inf)
    if not is_valid.all():
        raise unsupported(solver, "these bounds", "each lower bound must be <= its upper bound")
    return found


class CoordinateState:
    """The state of a run of coordinate descent.

    With an intercept, it is the last of the k coordinates: a column of ones without penalty and
    bounds.

    Attributes
    ----------
    w : ndarray
        Weights of all coordinates, shape (k,).
    z : ndarray
        Margins, shape (n,).
    r : ndarray
        Derivatives of the losses at the margins, shape (n,).
    v : ndarray
        A^T theta / n of the dual variables of the last bound, shape (k,).
    accesses : int
        Entries of the matrix read by the steps, counted by the caller.
    """

    def __init__(
        self,
        data: Data,
        loss: str,
        l1: float,
        l2: float,
        constraints: Constraints,
        fit_intercept: bool,
    ) -> None:
        n, d = data.n, data.d
        self.n, self.d, self.k = n, d, d + fit_intercept
        self.loss, self.beta = CODES[loss], curvature_bound(loss)
        self.is_quadratic = self.loss == SQUARED
        self.rows = data.rows
        is_signed = self.loss == LOGISTIC
        self.signs = data.y if is_signed else np.ones(n)
        self.y = np.ones(n) if is_signed else data.y
        self.problem = self._make_problem(data, l1, l2, constraints, fit_intercept)
        self.w = np.clip(np.zeros(self.k), self.problem.lo, self.problem.hi)
        self.z, self.r, self.v = np.empty(n), np.empty(n), np.empty(self.k)
        self.accesses = 0
        self.refresh()

    def _make_problem(
        self, data: Data, l1: float, l2: float, constraints: Constraints, fit_intercept: bool
    ) -> Problem:
        n, d = data.n, data.d
        ids, values = np.empty(data.nnz, np.uint32), np.empty(data.nnz)
        indptr = np.zeros(d + 1, np.uint64)
        transpose(*data.rows, self.signs, indptr, ids, values)
        if fit_intercept:
            ids = np.append(ids, np.arange(n, dtype=np.uint32))
            values = np.append(values, self.signs)
            indptr = np.append(indptr, np.uint64(len(ids)))
        linear, lower, upper = constraints
        # Each with its value for the intercept.
        terms: list[tuple[float | Floats, float]] = [
            (l1, 0.0),
            (l2, 0.0),
            (linear, 0.0),
            (lower, -math.inf),
            (upper, math.inf),
        ]
        arrays = [
            np.append(np.broadcast_to(values, (d,)), [of_intercept] * fit_intercept)
            for values, of_intercept in terms
        ]
        return Problem(ids, values, indptr, *arrays)

    @property
    def weights(self) -> Floats:
        """The weights without the intercept, shape (d,)."""
        return self.w[: self.d]

    @property
    def intercept(self) -> float:
        """The intercept, 0.0 without one."""
        return float(self.w[self.d]) if self.k > self.d else 0.0

    def refresh(self) -> None:
        """Recompute margins and derivatives, against rounding; it does not count as access."""
        matvec(self.problem, self.w, self.z)
        loss_derivatives(self.loss, self.z, self.y, self.r)

    def signed_rows(self) -> Rows:
        """Return the matrix of the problem in CSR form."""
        ids, values, indptr = self.rows
        counts = np.diff(indptr.astype(np.int64))
        if self.k > self.d:
            ends = indptr[1:].astype(np.int64)
            ids = np.insert(ids, ends, np.uint32(self.d))
            values, counts = np.insert(values, ends, 1.0), counts + 1
            indptr = np.append(u64(0), np.cumsum(counts).astype(np.uint64))
        return Rows(ids, values * np.repeat(self.signs, counts), indptr)

    def pull_back(self, theta: Floats, v: Floats) -> None:
        """Write A^T theta / n to `v`; it does not count as access, for the gap needs it too."""
        gradient(self.problem, theta, v)

    def active(self) -> Ids:
        """Return the coordinates that are non-zero, or that the penalty does not hold at zero."""
        p = self.problem
        is_active = (self.w != 0.0) | (np.abs(self.v + p.c) > p.l1)
        is_active[self.d :] = True
        return np.flatnonzero(is_active).astype(np.uint32)

    def polish(self, gap: float, max_passes: int) -> int:
        """Take Newton steps on the active coordinates.

        Parameters
        ----------
        gap
            The duality gap to aim for.
        max_passes
            Maximum number of passes over the active columns.

        Returns
        -------
        int
            Passes taken.
        """
        p, m = self.problem, self.active()
        w = self.w[m]
        sign = face_signs(w, -np.sign(self.v[m] + p.c[m]))
        face = Face(p.ids, p.values, p.indptr, m, p.l1[m], p.l2[m], p.c[m], sign)
        polished = polish(face, self.y, self.loss, 1.0, w, slope_tolerance(gap, w), max_passes)
        self.w[m] = polished.w
        self.accesses += polished.accesses
        if polished.passes:
            self.refresh()
        return polished.passes

    def objective(self) -> float:
        """Return the objective of the weights."""
        p, w = self.problem, self.w
        penalty = p.c @ w + p.l1 @ np.abs(w) + 0.5 * (p.l2 @ (w * w))
        return float(mean_loss(self.loss, self.z, self.y, 1.0) + penalty)

    def dual(self) -> float:
        """Return a lower bound on the optimum from the derivatives r, and update v."""
        theta = self.r
        if self.k > self.d:
            theta = self.signs * balance_dual(self.loss, self.signs * theta)
        self.pull_back(theta, self.v)
        p, bounds = self.problem, []
        for scale in {1.0, float(max_dual_scale(p, self.v, self.d))}:
            bound = float(separable_infimum(p, self.v[: self.d], scale, ROUNDING))
            if bound > -math.inf:
                bound -= mean_conjugate(self.loss, theta, self.y, 1.0, scale)
            bounds.append(bound)
        return max(bounds)
