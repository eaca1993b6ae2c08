r"""Projected gradient steps in an l1 ball, and exponentiated gradient, their rival.

Duchi, Shalev-Shwartz, Singer & Chandra (2008), Eq. (2) and Sections 6 and 7, in the paper's symbols:

$$w^{(t+1)} = \Pi_X(w^{(t)} - \eta_t \nabla^{(t)})$$

$\nabla^{(t)}$ is the gradient of the mean loss of all rows, or of a part drawn from them;
$\eta_t = \eta_0 / \sqrt t$, $\eta_0 / t$ or $\eta_0$, or found by a line search where all rows are looked at. Exponentiated
gradient (Eq. 13) multiplies weights that sum to z by $\exp(-\eta_t \nabla_i)$; for weights of both
signs there are two vectors, $w = w^+ - w^-$.

The line search halves $\eta$ until $f(w') \le f(w) + \langle\nabla, w' - w\rangle + D(w', w) / \eta$,
D half the squared distance, or the relative entropy; each step tries twice the last one's first.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from streaml1.core.rows import shown
from streaml1.models.parameters import Number, boolean
from streaml1.solvers.data import Data, check_run, check_strength, choose, unable
from streaml1.solvers.geometries import Entropy, Euclidean, Geometry
from streaml1.solvers.loss_terms import Term, dual_bound, term_of
from streaml1.solvers.penalties import Penalty, penalty_of
from streaml1.solvers.solution import Callback, Solution, Trace

__all__ = ["projected_gradient"]

LOSSES = ("logistic", "hinge", "smoothed_hinge", "squared", "absolute", "softmax")
ME = "projected_gradient"
POWERS = {"invsqrt": 0.5, "inverse": 1.0, "constant": 0.0}  # of 1 / t


def projected_gradient(
    X: Any,
    y: Any,
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
    """Minimise the mean loss in the ball sum |w| <= radius, for "softmax" in one for each class.

    Parameters
    ----------
    X, y
        A scipy.sparse or numpy matrix, and labels.
    loss
        "logistic", "hinge", "smoothed_hinge", "squared", "absolute" or "softmax".
    l1, l2
        Refused unless 0: the ball takes their place.
    radius
        Of the ball.
    nonnegative
        Whether the weights are all from 0; with the geometry "eg" they then sum to the radius.
    batch
        How many rows a step looks at: "full", a share such as 0.25, or a whole number.
    step
        "line", for batch="full" and a loss without kinks; or "invsqrt", lr / sqrt(t); "inverse",
        lr / t; "constant", lr.
    lr
        The first step, but of "line" (None: from the radius and the size of X).
    geometry
        "euclidean" or "eg".
    gamma
        The width of the smoothed hinge.
    fit_intercept
        Whether there is an intercept, which is in no ball.
    tol
        The gap to stop at, absolute; relative to the objective where that is above 1.
    max_epochs
        Passes at most over the rows.
    seed
        Of the order of the rows.
    callback
        Called as `callback(record, weights)` after each pass; what is true ends the run.

    Returns
    -------
    Solution

    Examples
    --------
    >>> import numpy as np
    >>> from streaml1.solvers import projected_gradient
    >>> X, y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), [True, False, True]
    >>> projected_gradient(X, y, radius=2.0).weights.round(3)
    array([ 1.83, -0.17])
    """
    choose(ME, "loss", loss, LOSSES)
    choose(ME, "step", step, ("line", *POWERS))
    choose(ME, "geometry", geometry, ("euclidean", "eg"))
    for name, strength in (("l1", l1), ("l2", l2)):
        if check_strength(name, strength):
            raise unable(ME, f"{name}={strength}", "give a radius, or use fista")
    tol, max_epochs, seed = check_run(tol, max_epochs, seed)
    nonnegative, fit_intercept = (
        boolean("nonnegative", nonnegative),
        boolean("fit_intercept", fit_intercept),
    )
    trace = Trace(ME, tol, max_epochs, callback)
    data = Data(X, y, loss)
    if geometry == "eg" and data.d == 0:
        raise unable(ME, 'geometry="eg" with no columns', "give one at least")
    size = _batch_size(batch, data.n)
    f = term_of(data, loss, check_strength("gamma", gamma, above_zero=True))
    if step == "line" and (size < data.n or not math.isfinite(f.curvature)):
        what = f"batch={batch}" if size < data.n else f'loss="{loss}"'
        raise unable(ME, f'step="line" with {what}', 'give step="invsqrt"')
    radius = check_strength("radius", radius, above_zero=True)
    penalty = "simplex" if geometry == "eg" and nonnegative else "ball"
    ball = penalty_of(ME, penalty, radius=radius, nonnegative=nonnegative and penalty == "ball")
    kind = Entropy if geometry == "eg" else Euclidean
    run = _Run(f, ball, kind(radius, nonnegative), data, fit_intercept)
    if lr is None:
        run.eta_0 = run.geometry.first_step(data, run.theta, loss == "squared")
    else:
        run.eta_0 = float(Number(0.0, 1e10, above=True)("lr", lr))
    run.power = POWERS.get(step, 0.0)
    random = np.random.default_rng(seed)
    epoch = 0
    while not trace.record(epoch, run.objective, run.dual(), run.accesses, run.w):
        if step == "line":
            run.line()
        else:
            run.epoch(_parts(random, data.n, size))
        epoch += 1
    b = run.b if len(f.shape) > 1 else float(run.b)
    return trace.solution(run.w, b, data.classes)


def _batch_size(batch: Any, n: int) -> int:
    if isinstance(batch, str) and batch == "full":
        return n
    if isinstance(batch, int | np.integer) and not isinstance(batch, bool) and batch >= 1:
        return min(int(batch), n)
    if isinstance(batch, float | np.floating) and 0.0 < batch <= 1.0:
        return math.ceil(batch * n)
    raise unable(
        ME, f"batch={shown(batch)}", 'give "full", a share up to 1.0, or a whole number from 1'
    )


def _parts(random: Any, n: int, size: int) -> Iterator[Any]:
    """The rows in parts, drawn anew; one part of all rows is None."""
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
        self, f: Term, ball: Penalty, geometry: Geometry, data: Data, fit_intercept: bool
    ) -> None:
        self.f, self.ball, self.geometry, self.data = f, ball, geometry, data
        self.fit_intercept = fit_intercept
        self.state = geometry.start(f.shape)
        self.b = np.zeros(f.shape[:-1]) if len(f.shape) > 1 else 0.0
        self.t, self.eta, self.accesses = 1, 1.0, 0
        self.sum_eta, self.mean_theta, self.mean_gradient = 0.0, 0.0, 0.0
        self._look(f.margins(geometry.weights(self.state), self.b), 0.0)

    def _look(self, a: Any, eta: float) -> None:
        """Objective, slopes and gradient of all rows."""
        self.w, self.a = self.geometry.weights(self.state), a
        self.objective = self.f.mean(a)
        self.theta = self.f.slopes(a)
        self.gradient = self.f.gradient(self.theta)
        if eta > 0.0:
            self.sum_eta += eta
            share = eta / self.sum_eta
            self.mean_theta = self.mean_theta + share * (self.theta - self.mean_theta)
            self.mean_gradient = self.mean_gradient + share * (self.gradient - self.mean_gradient)

    def dual(self) -> float:
        """The better lower bound of the last slopes and of their mean, which hinges need."""
        bounds = [dual_bound(self.f, self.ball, self.theta, self.gradient, self.fit_intercept)]
        if self.sum_eta > 0.0:
            theta, gradient = self.mean_theta, self.mean_gradient
            bounds.append(dual_bound(self.f, self.ball, theta, gradient, self.fit_intercept))
        return max(bounds)

    def _moved(self, gradient: Any, slope_b: Any, eta: float) -> tuple[Any, Any]:
        b = self.b - eta * self.geometry.intercept_scale * slope_b
        return self.geometry.moved(self.state, gradient, eta), b

    def epoch(self, parts: Iterator[Any]) -> None:
        """A step for each part of the rows."""
        for rows in parts:
            eta = self.eta_0 / self.t**self.power
            theta, gradient = self.theta, self.gradient
            if rows is not None:
                part = self.f.part(rows)
                theta = part.slopes(part.margins(self.geometry.weights(self.state), self.b))
                gradient = part.gradient(theta)
            slope_b = theta.mean(axis=0) if self.fit_intercept else 0.0
            self.state, self.b = self._moved(gradient, slope_b, eta)
            self.t += 1
        self.accesses += 2 * self.data.nnz
        self._look(self.f.margins(self.geometry.weights(self.state), self.b), eta)

    def line(self) -> None:
        """One step of all rows, as long as it keeps its promise."""
        slope_b = self.theta.mean(axis=0) if self.fit_intercept else 0.0
        self.eta *= 2.0
        while True:
            state, b = self._moved(self.gradient, slope_b, self.eta)
            w = self.geometry.weights(state)
            a = self.f.margins(w, b)
            self.accesses += self.data.nnz
            dw, db = w - self.w, b - self.b
            room = self.geometry.distance(state, self.state)
            room += 0.5 * float(np.sum(db * db)) / self.geometry.intercept_scale
            bound = 0.5 * self.f.curvature * float(np.sum((a - self.a) ** 2)) / self.data.n
            tangent = self.objective + float(np.vdot(self.gradient, dw) + np.sum(slope_b * db))
            if bound * self.eta <= room or (self.f.mean(a) - tangent) * self.eta <= room:
                break
            self.eta *= 0.5
            if self.eta < 1e-300:
                break
        self.state, self.b = state, b
        self.accesses += self.data.nnz
        self._look(a, 0.0)
