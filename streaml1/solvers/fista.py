r"""FISTA: the accelerated proximal gradient method of Beck & Teboulle (2009), the referee.

It minimises $f + g$, f the mean of a smooth loss, g any penalty or ball of the learners:

$$w_k = \mathrm{prox}_{g/L}(y_k - \nabla f(y_k) / L), \qquad
t_{k+1} = \frac{1 + \sqrt{1 + 4 t_k^2}}{2}, \qquad
y_{k+1} = w_k + \frac{t_k - 1}{t_{k+1}} (w_k - w_{k-1})$$

What is beside it here:

- Where g has $l_2 > 0$ its strong convexity is in the momentum, as in Chambolle & Pock (2016).
- The momentum restarts when it points uphill, O'Donoghue & Candes' (2015) gradient scheme.
- L is found by backtracking, and falls a little at each step. The test is that of the paper, or a
  bound by the loss's curvature that no rounding disturbs.
- Lengths are measured by $\sum_j s_j w_j^2$: where the penalty is a sum over features, s is the
  mean square of each column, else one number for all. The intercept has its own.
- Each step gives a lower bound of the optimum by the dual, from a gradient that is there anyway.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streaml1.models.parameters import boolean
from streaml1.solvers.data import Data, check_run, check_strength, choose, unable
from streaml1.solvers.loss_terms import Term, dual_bound, term_of
from streaml1.solvers.penalties import Penalty, penalty_of
from streaml1.solvers.solution import Callback, Solution, Trace

__all__ = ["LOSSES", "fista"]

LOSSES = ("logistic", "smoothed_hinge", "squared", "softmax")
START_MOST = 1e100  # of a weight that is given
GROWTH, DECAY = 2.0, 0.97
ROUNDING = 1e-15  # of a loss: so much may be wrong with the sum of all


def fista(
    X: Any,
    y: Any,
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
    start: tuple[Any, Any] | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Minimise the mean loss with any penalty or ball of the learners.

    Parameters
    ----------
    X, y
        A scipy.sparse or numpy matrix, and labels: of "logistic" and "smoothed_hinge" bool, 0 and
        1, or -1 and 1; of "squared" numbers; of "softmax" anything that can be sorted.
    loss
        "logistic", "smoothed_hinge", "squared" or "softmax".
    l1, l2
        Strengths of the elastic net. Any other penalty may have l2 beside it, too.
    penalty
        "elastic-net"; a norm of all weights, "l1", "l2" (not squared) or "linf"; for "softmax" a
        norm of each feature's weights, "l1/l2" or "l1/linf"; "ball" (l1, of each class),
        "simplex" or "l2-ball".
    strength
        Of a norm.
    radius
        Of a ball; what the weights sum to in a simplex.
    nonnegative
        Whether the weights in an l1 ball are all from 0.
    gamma
        The width of the smoothed hinge.
    fit_intercept
        Whether there is an intercept, which is in no penalty.
    tol
        The gap to stop at, absolute; relative to the objective where that is above 1.
    max_epochs
        Steps at most; each reads X twice, and the dual of an intercept once more.
    seed
        Of the start of the power iteration that measures X.
    start
        Weights and intercept to start from, such as those of nearly the same data; None: zeros.
    callback
        Called as `callback(record, weights)` after each step; what is true ends the run.

    Returns
    -------
    Solution

    Examples
    --------
    >>> import numpy as np
    >>> from streaml1.solvers import fista
    >>> X, y = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], [True, False, True]
    >>> solution = fista(np.array(X), y, l1=0.05, tol=1e-9)
    >>> solution.weights.round(4), round(solution.objective, 4), solution.converged
    (array([ 3.1522, -1.0512]), 0.3625, True)
    """
    choose("fista", "loss", loss, LOSSES)
    tol, max_epochs, seed = check_run(tol, max_epochs, seed)
    if penalty in ("l1/l2", "l1/linf") and loss != "softmax":
        raise unable("fista", f'penalty="{penalty}" with loss="{loss}"', 'give loss="softmax"')
    g = penalty_of(
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
        raise unable("fista", 'penalty="simplex" with no columns', "give one at least")
    run = _Run(
        term_of(data, loss, gamma), g, data, boolean("fit_intercept", fit_intercept), seed, start
    )
    while not trace.record(run.steps, run.objective, run.dual(), run.accesses, run.at.w):
        run.step()
    return trace.solution(run.at.w, run.intercept(), data.classes)


class _Point(NamedTuple):
    w: Any
    b: Any
    a: Any
    """The margins there."""


class _Run:
    """The state between two steps; symbols as in the paper."""

    def __init__(
        self, f: Term, g: Penalty, data: Data, fit_intercept: bool, seed: int, start: Any
    ) -> None:
        self.f, self.g, self.data, self.fit_intercept = f, g, data, fit_intercept
        self.s = _metric(data, g, seed)
        self.mu = g.l2 / float(np.max(self.s, initial=1e-300))
        self.L = max(f.curvature, 1e-300)
        w = g.prox(np.zeros(f.shape), 1.0)
        b = np.zeros(f.shape[:-1]) if len(f.shape) > 1 else 0.0
        if start is not None:
            w, b = _started(start, w, b, g, fit_intercept)
        self.at = self.y = _Point(w, b, f.margins(w, b))
        self.t, self.steps, self.accesses = 1.0, 0, data.nnz
        self.objective = f.mean(self.at.a) + g.value(w)
        self._look()

    def _look(self) -> None:
        """Slopes and gradient at y."""
        self.theta = self.f.slopes(self.y.a)
        self.gradient = self.f.gradient(self.theta)
        self.accesses += self.data.nnz

    def dual(self) -> float:
        """The lower bound that the slopes at y give."""
        return dual_bound(self.f, self.g, self.theta, self.gradient, self.fit_intercept)

    def intercept(self) -> Any:
        return self.at.b if len(self.f.shape) > 1 else float(self.at.b)

    def step(self) -> None:
        before, L = self.at, self.L
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
            if length == 0.0:  # rounding alone speaks against a step of nothing
                L = self.L
                break
            L *= GROWTH
        self.at = _Point(w, b, a)
        self.objective = self.f.mean(a) + self.g.value(w)
        self._extrapolate(before, L)
        self.L = L * DECAY
        self.steps += 1

    def _extrapolate(self, before: _Point, L: float) -> None:
        now, t = self.at, self.t
        uphill = np.sum(self.s * (self.y.w - now.w) * (now.w - before.w))
        uphill += np.sum((self.y.b - now.b) * (now.b - before.b))
        if uphill > 0.0:
            self.t, self.y = 1.0, now
        else:
            ratio = self.mu / L  # tau mu_g
            q = ratio / (1.0 + ratio)
            u = 1.0 - q * t * t
            self.t = 0.5 * (u + math.sqrt(u * u + 4.0 * t * t))
            beta = (t - 1.0) / self.t * (1.0 + ratio * (1.0 - self.t))
            self.y = _Point(*(p + beta * (p - o) for p, o in zip(now, before, strict=True)))
        self._look()


def _started(start: Any, w: Any, b: Any, g: Penalty, fit_intercept: bool) -> tuple[Any, Any]:
    """The weights and the intercept that are given, within the set if there is one."""
    try:
        given, intercept = (np.asarray(part, np.float64) for part in start)
    except (TypeError, ValueError):
        raise ValueError(
            "start is not weights and an intercept; give (solution.weights, solution.intercept)"
        ) from None
    if given.shape != np.shape(w) or intercept.shape != np.shape(b):
        raise ValueError(
            f"start has weights of shape {given.shape} and an intercept of {intercept.shape}; "
            f"here they are {np.shape(w)} and {np.shape(b)}"
        )
    # From a NaN no step is ever short enough.
    if not (np.all(np.abs(given) <= START_MOST) and np.all(np.abs(intercept) <= START_MOST)):
        raise ValueError(f"start has a number beyond {START_MOST:g}, or a NaN; give smaller ones")
    inside = given if g.is_norm else g.prox(given, 1.0)
    return inside, (intercept if fit_intercept else b)


def _metric(data: Data, g: Penalty, seed: int) -> Any:
    """Lengths of the features: a number for each, or one for all."""
    if g.separable:
        s = data.column_squares / data.n
        return np.where(s > 0.0, s, 1.0)
    x = np.random.default_rng(seed).normal(size=data.d)
    s = 0.0
    for _ in range(20):
        norm = float(np.linalg.norm(x))
        if norm == 0.0:
            break
        x = data.matrix.T @ (data.matrix @ (x / norm)) / data.n
        s = float(np.linalg.norm(x))
    return s if s > 0.0 else 1.0
