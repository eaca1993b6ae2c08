r"""Projected gradient in an l1 ball, and exponentiated gradient.

Duchi, Shalev-Shwartz, Singer & Chandra (2008), Eq. (2) and Sections 6 and 7, in the paper's
symbols:

$$w^{(t+1)} = \Pi_X(w^{(t)} - \eta_t \nabla^{(t)})$$

$\nabla^{(t)}$ is the gradient of the mean loss of all rows, or of a random batch. The step size is
$\eta_t = \eta_0 / \sqrt t$, $\eta_0 / t$ or $\eta_0$, or with all rows it is found by a line
search. Exponentiated gradient (Eq. 13) multiplies weights that sum to z by $\exp(-\eta_t
\nabla_i)$; weights of both signs are the difference of two such vectors, $w = w^+ - w^-$.

The line search halves $\eta$ until $f(w') \le f(w) + \langle\nabla, w' - w\rangle + D(w', w) /
\eta$, where D is half the squared distance or the relative entropy. Each step starts at twice the
previous $\eta$.

With a line search or an automatic $\eta_0$, the step size of the intercept is $\eta$ times the
curvature of the squared loss along the weights, so that the scale of X does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streaml1.core.rows import shown
from streaml1.models.parameter_checks import Number, boolean
from streaml1.solvers.data import (
    Data,
    MatrixLike,
    check_choice,
    check_run,
    check_strength,
    unsupported,
)
from streaml1.solvers.geometries import Entropy, Euclidean, Geometry, State
from streaml1.solvers.loss_terms import LossTerm, dual_bound, make_loss_term
from streaml1.solvers.parameter_docs import share_parameter_docs
from streaml1.solvers.penalties import Penalty, make_penalty
from streaml1.solvers.solution import Callback, Intercept, Solution, Trace, Weights

__all__ = ["projected_gradient"]

LOSSES = ("logistic", "hinge", "smoothed_hinge", "squared", "absolute", "softmax")
SOLVER = "projected_gradient"
POWERS = {"invsqrt": 0.5, "inverse": 1.0, "constant": 0.0}
"""Step size schedule -> the power of 1 / t."""

Rows = NDArray[np.intp] | None
"""The rows of a batch; None: all rows."""


@share_parameter_docs
def projected_gradient(
    X: MatrixLike,
    y: ArrayLike,
    *,
    loss: str = "logistic",
    l1: float = 0.0,
    l2: float = 0.0,
    radius: float = 10.0,
    nonnegative: bool = False,
    batch: str | float = "full",
    step: str = "line",
    lr: float | None = None,
    geometry: str = "euclidean",
    gamma: float = 1.0,
    fit_intercept: bool = False,
    tol: float = 1e-6,
    max_epochs: int = 1_000,
    seed: int = 0,
    callback: Callback | None = None,
) -> Solution:
    """Minimize the mean loss in the l1 ball of a radius; for "softmax" in one for each class.

    Parameters
    ----------
    {X}
    y
        Labels of a classifier, numbers for a regression loss, any labels for "softmax".
    loss
        "logistic", "hinge", "smoothed_hinge", "squared", "absolute" or "softmax".
    l1, l2
        Must be 0: the ball replaces the penalty.
    radius
        Radius of the ball.
    nonnegative
        Whether the weights must be >= 0. With the geometry "eg" they then sum to the radius.
    batch
        Rows per step: "full", a share such as 0.25, or an integer.
    step
        Step size: "line" searches for it, with batch="full" and a smooth loss; "invsqrt" is
        lr / sqrt(t), "inverse" lr / t, "constant" lr.
    lr
        The first step size, not used with "line". None: from the radius and the size of X, with
        one of its own for the intercept.
    geometry
        "euclidean", or "eg" for exponentiated gradient.
    {gamma}
    {fit_intercept}
    {tol}
    {max_epochs}
    {order_seed}
    {callback}

    Returns
    -------
    {solution}

    References
    ----------
    Duchi, J., Shalev-Shwartz, S., Singer, Y. and Chandra, T., 2008. Efficient projections onto the
    l1-ball for learning in high dimensions. ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from streaml1.solvers import projected_gradient
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), [True, False, True]
    >>> projected_gradient(X, y, radius=2.0).weights.round(3)
    array([ 1.83, -0.17])
    """
    check_choice(SOLVER, "loss", loss, LOSSES)
    check_choice(SOLVER, "step", step, ("line", *POWERS))
    check_choice(SOLVER, "geometry", geometry, ("euclidean", "eg"))
    for name, strength in (("l1", l1), ("l2", l2)):
        if check_strength(name, strength):
            raise unsupported(SOLVER, f"{name}={strength}", "use a radius, or fista")
    tol, max_epochs, seed = check_run(tol, max_epochs, seed)
    nonnegative = boolean("nonnegative", nonnegative)
    fit_intercept = boolean("fit_intercept", fit_intercept)
    trace = Trace(SOLVER, tol, max_epochs, callback)
    data = Data(X, y, loss)
    if geometry == "eg" and data.d == 0:
        raise unsupported(SOLVER, 'geometry="eg" with no columns', "add a column")
    size = _batch_size(batch, data.n)
    f = make_loss_term(data, loss, check_strength("gamma", gamma, above_zero=True))
    if step == "line" and (size < data.n or not math.isfinite(f.curvature)):
        what = f"batch={batch}" if size < data.n else f'loss="{loss}"'
        raise unsupported(SOLVER, f'step="line" with {what}', 'use step="invsqrt"')
    radius = check_strength("radius", radius, above_zero=True)
    penalty = "simplex" if geometry == "eg" and nonnegative else "ball"
    ball = make_penalty(
        SOLVER, penalty, radius=radius, nonnegative=nonnegative and penalty == "ball"
    )
    mirror = Entropy if geometry == "eg" else Euclidean
    run = _Run(f, ball, mirror(radius, nonnegative), data, fit_intercept)
    if fit_intercept and (lr is None or step == "line"):
        run.geometry.scale_intercept(data, seed)
    if lr is None:
        run.eta_0 = run.geometry.first_step_size(data, run.theta, loss == "squared", fit_intercept)
    else:
        run.eta_0 = float(Number(0.0, 1e10, above=True)("lr", lr))
    run.power = POWERS.get(step, 0.0)
    random = np.random.default_rng(seed)
    epoch = 0
    while not trace.record(epoch, run.objective, run.dual(), run.accesses, run.w):
        if step == "line":
            run.line_search_step()
        else:
            run.epoch(_batches(random, data.n, size))
        epoch += 1
    b = run.b if len(f.shape) > 1 else float(run.b)
    return trace.solution(run.w, b, data.classes)


def _batch_size(batch: str | float, n: int) -> int:
    """Return the number of rows in a batch."""
    if isinstance(batch, str) and batch == "full":
        return n
    if isinstance(batch, int | np.integer) and not isinstance(batch, bool) and batch >= 1:
        return min(int(batch), n)
    if isinstance(batch, float | np.floating) and 0.0 < batch <= 1.0:
        return math.ceil(batch * n)
    raise unsupported(
        SOLVER, f"batch={shown(batch)}", 'use "full", a share up to 1.0, or an integer >= 1'
    )


def _batches(random: np.random.Generator, n: int, size: int) -> Iterator[Rows]:
    """Yield random batches that partition the rows."""
    if size == n:
        yield None
        return
    order = random.permutation(n)
    for first in range(0, n, size):
        yield order[first : first + size]


class _Run:
    """The state between two epochs."""

    eta_0: float
    power: float

    def __init__(
        self, f: LossTerm, ball: Penalty, geometry: Geometry, data: Data, fit_intercept: bool
    ) -> None:
        self.f, self.ball, self.geometry, self.data = f, ball, geometry, data
        self.fit_intercept = fit_intercept
        self.state = geometry.start(f.shape)
        self.b: Intercept = np.zeros(f.shape[:-1]) if len(f.shape) > 1 else 0.0
        self.t, self.eta, self.accesses = 1, 1.0, 0
        self.sum_eta = 0.0
        self.mean_theta: float | NDArray[np.float64] = 0.0
        self.mean_gradient: float | Weights = 0.0
        self._update(f.margins(geometry.weights(self.state), self.b), 0.0)

    def _update(self, a: NDArray[np.float64], eta: float) -> None:
        """Compute objective, derivatives and gradient of all rows at margins `a`.

        Derivatives and gradients are also averaged, weighted by `eta`.
        """
        self.w, self.a = self.geometry.weights(self.state), a
        self.objective = self.f.mean(a)
        self.theta = self.f.derivatives(a)
        self.gradient = self.f.gradient(self.theta)
        if eta > 0.0:
            self.sum_eta += eta
            share = eta / self.sum_eta
            self.mean_theta = self.mean_theta + share * (self.theta - self.mean_theta)
            self.mean_gradient = self.mean_gradient + share * (self.gradient - self.mean_gradient)

    def dual(self) -> float:
        """Return the larger of the lower bounds from the last and from the mean derivatives.

        For losses with kinks only the mean converges to the dual optimum.
        """
        bounds = [dual_bound(self.f, self.ball, self.theta, self.gradient, self.fit_intercept)]
        if self.sum_eta > 0.0:
            theta, gradient = np.asarray(self.mean_theta), np.asarray(self.mean_gradient)
            bounds.append(dual_bound(self.f, self.ball, theta, gradient, self.fit_intercept))
        return max(bounds)

    def _step(self, gradient: Weights, slope_b: Intercept, eta: float) -> tuple[State, Intercept]:
        b = self.b - eta * self.geometry.intercept_scale * slope_b
        return self.geometry.step(self.state, gradient, eta), b

    def epoch(self, batches: Iterator[Rows]) -> None:
        """Take a step for each batch."""
        for rows in batches:
            eta = self.eta_0 / self.t**self.power
            theta, gradient = self.theta, self.gradient
            if rows is not None:
                f = self.f.subset(rows)
                theta = f.derivatives(f.margins(self.geometry.weights(self.state), self.b))
                gradient = f.gradient(theta)
            slope_b = theta.mean(axis=0) if self.fit_intercept else 0.0
            self.state, self.b = self._step(gradient, slope_b, eta)
            self.t += 1
        self.accesses += 2 * self.data.nnz
        self._update(self.f.margins(self.geometry.weights(self.state), self.b), eta)

    def line_search_step(self) -> None:
        """Take one step on all rows, with backtracking on eta."""
        slope_b = self.theta.mean(axis=0) if self.fit_intercept else 0.0
        self.eta *= 2.0
        while True:
            state, b = self._step(self.gradient, slope_b, self.eta)
            w = self.geometry.weights(state)
            a = self.f.margins(w, b)
            self.accesses += self.data.nnz
            dw, db = w - self.w, b - self.b
            distance = self.geometry.distance(state, self.state)
            distance += 0.5 * float(np.sum(db * db)) / self.geometry.intercept_scale
            # Accept by an upper bound from the curvature, which rounding does not disturb, or by
            # the loss itself.
            bound = 0.5 * self.f.curvature * float(np.sum((a - self.a) ** 2)) / self.data.n
            tangent = self.objective + float(np.vdot(self.gradient, dw) + np.sum(slope_b * db))
            if bound * self.eta <= distance or (self.f.mean(a) - tangent) * self.eta <= distance:
                break
            self.eta *= 0.5
            if self.eta < 1e-300:
                break
        self.state, self.b = state, b
        self.accesses += self.data.nnz
        self._update(a, 0.0)
