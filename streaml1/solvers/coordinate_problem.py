"""What `scd` and `detcd` share: the problem they make of data, and its gap."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.rows import Rows
from streaml1.optim.losses import CODES, LOGISTIC, SQUARED
from streaml1.solvers.active_set_newton import Face, polish
from streaml1.solvers.coordinate_kernels import (
    Problem,
    allowed,
    gradient,
    least,
    products,
    slopes,
    turn,
)
from streaml1.solvers.data import Data, floats, unable
from streaml1.solvers.objective import balanced, conjugates, curvature, mean_loss

__all__ = ["Run", "bounds_of"]

# What scaling to the bound leaves beyond it, by rounding.
ROUNDING = 1e-13


def bounds_of(solver: str, d: int, *given: Any) -> list[Any]:
    """The linear term and the bounds, a float a weight each."""
    arrays = []
    for name, value in zip(("linear", "lower", "upper"), given, strict=True):
        remedy = f"give a number, or {d} of them"
        whole = floats(solver, name, value, remedy)
        if whole.shape not in ((), (d,)):
            raise unable(solver, f"{name}= of the shape {whole.shape}", remedy)
        arrays.append(np.broadcast_to(whole, (d,)))
    linear, lower, upper = arrays
    if not np.isfinite(linear).all():
        raise unable(solver, "a linear term that is not finite", "give finite numbers")
    if not ((lower <= upper) & (lower < math.inf) & (upper > -math.inf)).all():
        raise unable(solver, "these bounds", "each lower one must be at most the upper one")
    return arrays


class Run:
    """The state of a run: weights `w`, margins `z`, slopes `r` of the losses at them.

    With an intercept, it is the last of the `k` coordinates: a column of ones without a penalty.
    """

    def __init__(
        self,
        data: Data,
        loss: str,
        l1: float,
        l2: float,
        linear: Any,
        lower: Any,
        upper: Any,
        fit_intercept: bool,
    ) -> None:
        n, d = data.n, data.d
        self.n, self.d, self.k = n, d, d + fit_intercept
        self.loss, self.beta = CODES[loss], curvature(loss)
        self.exact = self.loss == SQUARED
        self.rows = data.rows
        signed = self.loss == LOGISTIC
        self.signs = data.y if signed else np.ones(n)
        self.y = np.ones(n) if signed else data.y
        ids, values = np.empty(data.nnz, np.uint32), np.empty(data.nnz)
        indptr = np.zeros(d + 1, np.uint64)
        turn(*data.rows, self.signs, indptr, ids, values)
        if fit_intercept:
            ids = np.append(ids, np.arange(n, dtype=np.uint32))
            values = np.append(values, self.signs)
            indptr = np.append(indptr, np.uint64(len(ids)))
        parts = [(l1, 0.0), (l2, 0.0), (linear, 0.0), (lower, -math.inf), (upper, math.inf)]
        ends = [np.append(np.broadcast_to(one, (d,)), [end] * fit_intercept) for one, end in parts]
        self.problem = Problem(ids, values, indptr, *ends)
        self.w = np.clip(np.zeros(self.k), self.problem.lo, self.problem.hi)
        self.z, self.r, self.v = np.empty(n), np.empty(n), np.empty(self.k)
        self.accesses = 0  # of the steps, by whoever takes them
        self.refresh()

    @property
    def weights(self) -> Any:
        """The weights, without the intercept."""
        return self.w[: self.d]

    @property
    def intercept(self) -> float:
        """The intercept, 0.0 if there is none."""
        return float(self.w[self.d]) if self.k > self.d else 0.0

    def refresh(self) -> None:
        """Sum margins and slopes anew; not counted, for steps keep both."""
        products(self.problem, self.w, self.z)
        slopes(self.loss, self.z, self.y, self.r)

    def signed_rows(self) -> Rows:
        """The rows of the problem's matrix."""
        ids, values, indptr = self.rows
        counts = np.diff(indptr.astype(np.int64))
        if self.k > self.d:
            ends = indptr[1:].astype(np.int64)
            ids = np.insert(ids, ends, np.uint32(self.d))
            values, counts = np.insert(values, ends, 1.0), counts + 1
            indptr = np.append(np.uint64(0), np.cumsum(counts).astype(np.uint64))
        return Rows(ids, values * np.repeat(self.signs, counts), indptr)

    def pull(self, theta: Any, v: Any) -> None:
        """Put A^T theta / n into v; not counted, for the gap takes it too."""
        gradient(self.problem, theta, v)

    def movable(self) -> Any:
        """The coordinates that are not zero, or are not held there."""
        p = self.problem
        chosen = (self.w != 0.0) | (np.abs(self.v + p.c) > p.l1)
        chosen[self.d :] = True
        return np.flatnonzero(chosen).astype(np.uint32)

    def polish(self, goal: float, most: int) -> int:
        """Newton steps at what is movable, for a gap of `goal`; how often it was gone over."""
        p, m = self.problem, self.movable()
        w = self.w[m]
        sign = np.where(w != 0.0, np.sign(w), -np.sign(self.v[m] + p.c[m]))
        face = Face(p.ids, p.values, p.indptr, m, p.l1[m], p.l2[m], p.c[m], sign)
        # A slope that is off costs the dual about its part of l1 |w|_1.
        slope = goal / max(float(np.abs(w).sum()), 1e-300)
        self.w[m], passes, read = polish(face, self.y, self.loss, 1.0, w, slope, most)
        self.accesses += read
        if passes:
            self.refresh()
        return passes

    def objective(self) -> float:
        """The objective of the weights."""
        p, w = self.problem, self.w
        penalty = p.c @ w + p.l1 @ np.abs(w) + 0.5 * (p.l2 @ (w * w))
        return float(mean_loss(self.loss, self.z, self.y, 1.0) + penalty)

    def dual(self) -> float:
        """A lower bound of the optimum, from the slopes; `v` becomes A^T theta / n of its theta."""
        theta = self.r
        if self.k > self.d:
            theta = self.signs * balanced(self.loss, self.signs * theta)
        self.pull(theta, self.v)
        p, bounds = self.problem, []
        for scale in {1.0, float(allowed(p, self.v, self.d))}:
            below = float(least(p, self.v[: self.d], scale, ROUNDING))
            if below > -math.inf:
                below -= conjugates(self.loss, theta, self.y, 1.0, scale)
            bounds.append(below)
        return max(bounds)
