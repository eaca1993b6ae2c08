r"""FISTA, the accelerated proximal gradient method of Beck & Teboulle (2009): the reference solver.

It minimizes $f + g$, where f is the mean of a smooth loss and g any penalty or constraint of the
learners:

$$w_k = \mathrm{prox}_{g/L}(y_k - \nabla f(y_k) / L), \qquad
t_{k+1} = \frac{1 + \sqrt{1 + 4 t_k^2}}{2}, \qquad
y_{k+1} = w_k + \frac{t_k - 1}{t_{k+1}} (w_k - w_{k-1})$$

Differences from the paper:

- If g has $l_2 > 0$, the momentum uses its strong convexity, as in Chambolle & Pock (2016).
- The momentum restarts when it points uphill: the gradient scheme of O'Donoghue & Candes (2015).
- L is found by backtracking, and decreases slightly at each step. A step is accepted by the test of
  the paper, or by an upper bound from the curvature of the loss, which rounding does not disturb.
- Lengths are measured by $\sum_j s_j w_j^2$. For a penalty that is a sum over features, s is the
  mean square of each column, else the same number for all. The intercept has s = 1.
- Each step gives a lower bound on the optimum by the dual, from a gradient that it needs anyway.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streaml1.core.types import Floats
from streaml1.models.parameter_checks import boolean
from streaml1.solvers.data import (
    Data,
    MatrixLike,
    check_choice,
    check_run,
    check_strength,
    unsupported,
)
from streaml1.solvers.loss_terms import LossTerm, dual_bound, make_loss_term
from streaml1.solvers.parameter_docs import share_parameter_docs
from streaml1.solvers.penalties import Penalty, make_penalty
from streaml1.solvers.solution import Callback, Intercept, Solution, Trace, Weights

__all__ = ["LOSSES", "fista"]

LOSSES = ("logistic", "smoothed_hinge", "squared", "softmax")
MAX_START = 1e100  # absolute value of an initial weight
GROWTH, DECAY = 2.0, 0.97  # of L
ROUNDING = 1e-15  # relative rounding error of the mean loss

Start = tuple[ArrayLike, ArrayLike]
"""Weights and intercept to start from."""


@share_parameter_docs
def fista(
    X: MatrixLike,
    y: ArrayLike,
    *,
    loss: str = "logistic",
    l1: float = 0.0,
    l2: float = 0.0,
    penalty: str = "elastic-net",
    strength: float | None = None,
    radius: float | None = None,
    nonnegative: bool = False,
    gamma: float = 1.0,
    fit_intercept: bool = False,
    tol: float = 1e-6,
    max_epochs: int = 10_000,
    seed: int = 0,
    start: Start | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Minimize the mean loss with any penalty or constraint of the learners.

    Parameters
    ----------
    {X}
    y
        Labels: for "logistic" and "smoothed_hinge" bool, 0 and 1, or -1 and 1; for "squared"
        numbers; for "softmax" anything that can be sorted.
    loss
        "logistic", "smoothed_hinge", "squared" or "softmax".
    l1, l2
        Strengths of the elastic net. `l2` may be added to any other penalty.
    penalty
        "elastic-net"; a norm of all weights, "l1", "l2" (not squared) or "linf"; for "softmax" a
        norm of each feature's weights, "l1/l2" or "l1/linf"; or a constraint, "ball" (l1, for each
        class), "simplex" or "l2-ball".
    strength
        Strength of a norm.
    radius
        Radius of a ball; the sum of the weights in a simplex.
    nonnegative
        Whether the weights in an l1 ball must be >= 0.
    {gamma}
    {fit_intercept}
    {tol}
    max_epochs
        Maximum number of steps. A step reads X twice, and once more with an intercept.
    seed
        Seed of the power iteration that estimates the largest eigenvalue of X'X.
    start
        Weights and intercept to start from, such as the solution for similar data; None: zeros.
    {callback}

    Returns
    -------
    {solution}

    References
    ----------
    Beck, A. and Teboulle, M., 2009. A fast iterative shrinkage-thresholding algorithm for linear
    inverse problems. SIAM Journal on Imaging Sciences 2.

    Examples
    --------
    >>> import numpy as np
    >>> from streaml1.solvers import fista
    >>> X, y = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [True, False, True]
    >>> solution = fista(np.array(X), y, l1=0.05, tol=1e-9)
    >>> solution.weights.round(4), round(solution.objective, 4), solution.converged
    (array([ 3.1522, -1.0512]), 0.3625, True)
    """
    check_choice("fista", "loss", loss, LOSSES)
    tol, max_epochs, seed = check_run(tol, max_epochs, seed)
    if penalty in ("l1/l2", "l1/linf") and loss != "softmax":
        raise unsupported("fista", f'penalty="{penalty}" with loss="{loss}"', 'use loss="softmax"')
    g = make_penalty(
        "fista",
        penalty,
        l1=l1,
        l2=l2,
        strength=strength,
        radius=radius,
        nonnegative=boolean("nonnegative", nonnegative),
    )
    gamma = check_strength("gamma", gamma, above_zero=True)
    trace = Trace("fista", tol, max_epochs, callback)
    data = Data(X, y, loss)
    if penalty == "simplex" and data.d == 0:
        raise unsupported("fista", 'penalty="simplex" with no columns', "add a column")
    f = make_loss_term(data, loss, gamma)
    run = _Run(f, g, data, boolean("fit_intercept", fit_intercept), seed, start)
    while not trace.record(run.steps, run.objective, run.dual(), run.accesses, run.point.w):
        run.step()
    return trace.solution(run.point.w, run.intercept(), data.classes)


class _Point(NamedTuple):
    w: Weights
    b: Intercept
    a: NDArray[np.float64]
    """The margins."""


class _Run:
    """The state between two steps, in the paper's symbols."""

    def __init__(
        self,
        f: LossTerm,
        g: Penalty,
        data: Data,
        fit_intercept: bool,
        seed: int,
        start: Start | None,
    ) -> None:
        self.f, self.g, self.data, self.fit_intercept = f, g, data, fit_intercept
        self.s = _metric(data, g, seed)
        self.mu = g.l2 / float(np.max(self.s, initial=1e-300))
        self.L = max(f.curvature, 1e-300)
        w = g.prox(np.zeros(f.shape), 1.0)
        b: Intercept = np.zeros(f.shape[:-1]) if len(f.shape) > 1 else 0.0
        if start is not None:
            w, b = _check_start(start, w, b, g, fit_intercept)
        self.point = self.y = _Point(w, b, f.margins(w, b))
        self.t, self.steps, self.accesses = 1.0, 0, data.nnz
        self.objective = f.mean(self.point.a) + g.value(w)
        self._update_gradient()

    def _update_gradient(self) -> None:
        """Compute the derivatives of the losses and the gradient at y."""
        self.theta = self.f.derivatives(self.y.a)
        self.gradient = self.f.gradient(self.theta)
        self.accesses += self.data.nnz

    def dual(self) -> float:
        """Return the lower bound on the optimum from the derivatives at y."""
        return dual_bound(self.f, self.g, self.theta, self.gradient, self.fit_intercept)

    def intercept(self) -> Intercept:
        return self.point.b if len(self.f.shape) > 1 else float(self.point.b)

    def step(self) -> None:
        """Take a step, with backtracking on L."""
        before, L = self.point, self.L
        slope_b = self.theta.mean(axis=0) if self.fit_intercept else 0.0
        value = self.f.mean(self.y.a)
        while True:
            w = self.g.prox(self.y.w - self.gradient / (L * self.s), 1.0 / (L * self.s))
            b = self.y.b - slope_b / L
            a = self.f.margins(w, b)
            self.accesses += self.data.nnz
            dw, db = w - self.y.w, b - self.y.b
            length = float(np.sum(self.s * dw * dw) + np.sum(db * db))
            bound = self.f.curvature * float(np.sum((a - self.y.a) ** 2)) / self.data.n
            if bound <= L * length:
                break
            tangent = value + float(np.vdot(self.gradient, dw) + np.sum(slope_b * db))
            if self.f.mean(a) <= tangent + 0.5 * L * length + ROUNDING * abs(value):
                break
            if length == 0.0:  # a zero step is rejected by rounding alone
                L = self.L
                break
            L *= GROWTH
        self.point = _Point(w, b, a)
        self.objective = self.f.mean(a) + self.g.value(w)
        self._extrapolate(before, L)
        self.L = L * DECAY
        self.steps += 1

    def _extrapolate(self, before: _Point, L: float) -> None:
        """Set y for the next step, and restart the momentum if it points uphill."""
        now, t = self.point, self.t
        uphill = np.sum(self.s * (self.y.w - now.w) * (now.w - before.w))
        uphill += np.sum((self.y.b - now.b) * (now.b - before.b))
        if uphill > 0.0:
            self.t, self.y = 1.0, now
        else:
            # q, the inverse condition number; with mu = 0 this is the paper's t and momentum.
            ratio = self.mu / L
            q = ratio / (1.0 + ratio)
            u = 1.0 - q * t * t
            self.t = 0.5 * (u + math.sqrt(u * u + 4.0 * t * t))
            beta = (t - 1.0) / self.t * (1.0 + ratio * (1.0 - self.t))
            # Margins are linear in (w, b), so they are extrapolated without reading X.
            self.y = _Point(
                now.w + beta * (now.w - before.w),
                now.b + beta * (now.b - before.b),
                now.a + beta * (now.a - before.a),
            )
        self._update_gradient()


def _check_start(
    start: Start, w: Weights, b: Intercept, g: Penalty, fit_intercept: bool
) -> tuple[Weights, Intercept]:
    """Validate the initial weights and intercept, and project the weights onto the set, if any.

    `w` and `b` have the expected shapes.
    """
    try:
        weights, intercept = (np.asarray(part, np.float64) for part in start)
    except (TypeError, ValueError):
        raise ValueError(
            "start must be weights and an intercept, such as (solution.weights, solution.intercept)"
        ) from None
    if weights.shape != np.shape(w) or intercept.shape != np.shape(b):
        raise ValueError(
            f"start must have weights of shape {np.shape(w)} and an intercept of shape "
            f"{np.shape(b)}, got {weights.shape} and {intercept.shape}"
        )
    # Backtracking from a NaN would never end.
    if not (np.all(np.abs(weights) <= MAX_START) and np.all(np.abs(intercept) <= MAX_START)):
        raise ValueError(f"start must have finite numbers of at most {MAX_START:g}")
    weights = weights if g.is_norm else g.prox(weights, 1.0)
    return weights, (intercept if fit_intercept else b)


def _metric(data: Data, g: Penalty, seed: int) -> float | Floats:
    """Return s: the mean square of each column, or an eigenvalue of X'X / n for all."""
    if g.separable:
        squares = data.column_squares / data.n
        return np.where(squares > 0.0, squares, 1.0)
    return data.largest_eigenvalue(seed) or 1.0
