r"""Newton steps on the support, to finish a run once the signs of the weights are known.

As long as the signs $s_j$ of the weights stay, the objective has no kinks:

$$F(w) = \frac 1n \sum_i \phi_i(a_i) + \sum_j \bigl(c_j w_j + l_{1j} s_j w_j
+ \tfrac12 l_{2j} w_j^2\bigr), \qquad a = Aw$$

A step d solves $(A^\top \mathrm{diag}(\phi'')\, A / n + l_2)\, d = -\nabla F$ by conjugate
gradients. A weight that would change its sign stops at zero, and the step is halved until the
objective has decreased sufficiently: no step raises it.

If the support is that of the optimum, a few steps make the gradient almost exactly zero. The dual
bound needs this: its error is of first order in the gradient, that of the objective of second
order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import kernel, u64
from streaml1.core.types import Bools, Floats, Ids
from streaml1.solvers.objective import derivatives, mean_loss, second_derivatives
from streaml1.solvers.sampling import axpy, dot

__all__ = [
    "MAX_GAP_RATIO",
    "SLOPE_SHARE",
    "Face",
    "Polished",
    "SupportMonitor",
    "face_signs",
    "polish",
    "slope_tolerance",
]

# Newton steps start once at most this share of the support has changed between two looks.
MAX_CHANGED = 0.1
# They continue as long as each round multiplies the gap by at most this.
MAX_GAP_RATIO = 0.5
# Share of the gap to reach that an inexact gradient may cost.
SLOPE_SHARE = 0.5

MAX_STEPS = 2
MAX_PASSES = 100  # over the columns, for one step
LOOSE, TIGHT = 0.3, 0.1  # relative residual of a step, in the norm of the inverse diagonal
HALVINGS = 4
SUFFICIENT_DECREASE = 0.01  # of the decrease that the gradient predicts (Armijo)
ROUNDING = 5e-16  # relative rounding error of the objective
MIN_CURVATURE = 1e-30


class SupportMonitor:
    """Decide when Newton steps are worth a try: once the support has settled.

    After steps that did not pay off, the next try waits for 1, 3, 7, ... looks.
    """

    def __init__(self) -> None:
        self._support: Bools | None = None
        self._wait, self.backoff = 0, 0

    def is_settled(self, w: Floats) -> bool:
        """Return whether the support of `w` has hardly changed since the last call."""
        before, self._support = self._support, w != 0.0
        self._wait -= 1
        if before is None or self._wait >= 0:
            return False
        n_changed = np.count_nonzero(self._support != before)
        return bool(n_changed <= MAX_CHANGED * np.count_nonzero(self._support))

    def report(self, paid_off: bool) -> None:
        """Record whether the last Newton steps paid off."""
        self.backoff = 0 if paid_off else 2 * self.backoff + 1
        self._wait = self.backoff


class Face(NamedTuple):
    """The columns of a support, and the penalty of their weights, which is smooth there.

    Parameters
    ----------
    ids, values, indptr
        All columns of the matrix, in CSC form.
    columns
        The columns of the support, shape (k,). All arrays below belong to these.
    l1, l2, c
        Strengths, and the linear term.
    sign
        The sign of each weight; for a weight at zero, of the direction it is pushed to.
    """

    ids: Ids
    values: Floats
    indptr: Any  # uint64
    columns: Ids
    l1: Floats
    l2: Floats
    c: Floats
    sign: Floats

    def penalty(self, w: Floats) -> float:
        """Return the penalty of the weights."""
        return float(self.c @ w + self.l1 @ np.abs(w) + 0.5 * (self.l2 @ (w * w)))

    def project(self, w: Floats) -> Floats:
        """Set weights to zero that have left the face: those with the wrong sign."""
        return np.where((self.l1 > 0.0) & (w * self.sign < 0.0), 0.0, w)


class Polished(NamedTuple):
    """The result of `polish`."""

    w: Floats
    passes: int
    """Passes over the columns of the face."""
    accesses: int
    """Entries of the matrix read."""


def face_signs(w: Floats, direction: Floats) -> Floats:
    """Return the signs of the weights, and for those at zero the sign they are pushed to."""
    return np.where(w != 0.0, np.sign(w), direction)


def slope_tolerance(gap: float, w: Floats) -> float:
    """Return the error of the gradient that costs the dual bound at most about `gap`.

    An error costs about its share of l1 |w|_1.
    """
    return gap / max(float(np.abs(w).sum()), 1e-300)


@kernel
def _margins(f: Any, w: Any, a: Any) -> None:
    """Write A w to `a`."""
    for i in range(np.uint64(len(a))):
        a[i] = 0.0
    for t in range(np.uint64(len(w))):
        if w[t] != 0.0:
            j = np.uint64(f.columns[t])
            axpy(f.ids, f.values, f.indptr[j], f.indptr[j + u64(1)], w[t], a)


@kernel
def _gradient(f: Any, theta: Any, out: Any) -> None:
    """Write A^T theta / n to `out`."""
    for t in range(np.uint64(len(out))):
        j = np.uint64(f.columns[t])
        out[t] = dot(f.ids, f.values, f.indptr[j], f.indptr[j + u64(1)], theta) / len(theta)


@kernel
def _diagonal(f: Any, h: Any, out: Any) -> Any:
    """Write sum_i h_i a_ij^2 / n to `out`; return the number of entries of the columns."""
    n_read = u64(0)
    for t in range(np.uint64(len(out))):
        j = np.uint64(f.columns[t])
        total = 0.0
        for k in range(f.indptr[j], f.indptr[j + u64(1)]):
            total += h[f.ids[k]] * f.values[k] * f.values[k]
        out[t] = total / len(h)
        n_read += f.indptr[j + u64(1)] - f.indptr[j]
    return n_read


def _newton_step(
    f: Face, h: Floats, g: Floats, free: Bools, diag: Floats, residual: float, max_passes: int
) -> tuple[Floats, int]:
    """Solve for the Newton step by conjugate gradients with a diagonal preconditioner.

    Parameters
    ----------
    f
        The columns.
    h
        Second derivatives of the losses.
    g
        Gradient of the objective.
    free
        The weights that may change; the others get a step of 0.
    diag
        Diagonal of the loss's part of the Hessian.
    residual
        Stop once the residual is at most this share of the first one.
    max_passes
        Maximum number of passes over the columns.

    Returns
    -------
    tuple
        The step, and the number of passes.
    """
    a, q, d = np.empty(len(h)), np.empty(len(g)), np.zeros(len(g))
    free = free & (diag + f.l2 > MIN_CURVATURE)
    inverse = np.where(free, 1.0 / np.maximum(diag + f.l2, MIN_CURVATURE), 0.0)
    r = np.where(free, -g, 0.0)
    p = inverse * r
    size = float(r @ p)
    target = residual * residual * size
    # Invariant: r = -g - H d on the free weights, and size = r' diag(inverse) r.
    for n_passes in range(1, max_passes + 1):
        _margins(f, p, a)
        a *= h
        _gradient(f, a, q)
        q += f.l2 * p
        curvature = float(p @ q)
        if not curvature > MIN_CURVATURE * size:  # flat, up to rounding
            return d, n_passes
        d += (size / curvature) * p
        r -= (size / curvature) * np.where(free, q, 0.0)
        z = inverse * r
        before, size = size, float(r @ z)
        if size <= target:
            return d, n_passes
        p = z + (size / before) * p
    return d, max_passes


def polish(
    f: Face, y: Floats, loss: int, gamma: float, w: Floats, slope_tol: float, max_passes: int
) -> Polished:
    """Take Newton steps until the gradient is at most `slope_tol`.

    Parameters
    ----------
    f
        The columns, and the penalty of their weights.
    y
        Labels, shape (n,).
    loss, gamma
        A value of `CODES`, and the width of the smoothed hinge.
    w
        The current weights of the columns, shape (k,).
    slope_tol
        Largest absolute entry of the gradient that is as good as zero.
    max_passes
        Maximum number of passes over the columns.

    Returns
    -------
    Polished
        The objective of the new weights is at most that of `w`, up to rounding.
    """
    n, passes, nnz = len(y), 0, 0
    a, theta, h = np.empty(n), np.empty(n), np.empty(n)
    g, diag = np.empty(len(w)), np.empty(len(w))

    def objective(w: Floats) -> float:
        _margins(f, w, a)
        return float(mean_loss(loss, a, y, gamma)) + f.penalty(w)

    best, size, residual = objective(w), 0.0, LOOSE
    for _ in range(MAX_STEPS):
        derivatives(loss, a, y, gamma, theta)
        second_derivatives(loss, a, y, gamma, h)
        _gradient(f, theta, g)
        g += f.c + f.l2 * w + f.l1 * f.sign
        # A weight that has reached zero stays there, unless it is pushed in its own direction.
        free = (f.l1 == 0.0) | (w != 0.0) | (g * f.sign < 0.0)
        if passes + 2 > max_passes or not np.abs(g[free]).max(initial=0.0) > slope_tol:
            break
        nnz = int(_diagonal(f, h, diag))
        before, size = size, float(np.abs(g[free]).max())
        residual = min(LOOSE, max(TIGHT, size / before)) if before else LOOSE
        n_cg = min(MAX_PASSES, max_passes - passes - 1)
        d, taken = _newton_step(f, h, g, free, diag, residual, n_cg)
        passes += taken + 1
        bound, s = best + ROUNDING * abs(best), 1.0
        for _ in range(HALVINGS):
            candidate = f.project(w + s * d)
            value = objective(candidate)
            predicted = min(float(g @ (candidate - w)), 0.0)
            if value <= bound + SUFFICIENT_DECREASE * predicted:
                break
            s *= 0.5
        else:
            break
        w, best = candidate, value
    return Polished(w, passes, 2 * nnz * passes)
