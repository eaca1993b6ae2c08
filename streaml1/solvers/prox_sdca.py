r"""Proximal stochastic dual coordinate ascent (Prox-SDCA): l1 beside l2, or alone.

Shalev-Shwartz & Zhang (2013), the slides "Proximal version", "l1 regularization, instances of low l2
norm" and "... of low l-infinity norm":

$$P(w) = \frac 1n \sum_i \phi_i(w^\top x_i) + \lambda g(w), \qquad
D(\alpha) = \frac 1n \sum_i -\phi_i^*(-\alpha_i) - \lambda g^*(v), \qquad
v = \frac{1}{\lambda n} \sum_i \alpha_i x_i$$

$$g(w) = h(w) + \frac\sigma\lambda |w|_1, \qquad w = \nabla g^*(v) = \nabla h^*\Bigl(\mathrm{sign}(v)
\bigl[|v| - \tfrac\sigma\lambda\bigr]_+\Bigr)$$

with h(w) = |w|_2^2/2, or `norm="q"`: h(w) = c/2 |w|_q^2, where 1/q + 1/p = 1, p = log d, c = 3 log d, and
$\nabla_j h^*(u) = \mathrm{sign}(u_j)\, |u_j|^{p-1} / (c\, |u|_p^{p-2})$. A step is that of `sdca`, with
$a = w^\top x_i$ and $|x_i|_p^2 (p - 1)/c$ in place of $|x_i|^2$: by the smoothness of g* the dual never falls.

With l2 > 0, $\lambda$ is l2 and $\sigma$ is l1. With l2 = 0 the true objective has no strongly convex part. Then
a run has stages, each with $\lambda (h(w) - \langle \nabla h(w_0), w \rangle)$ inside, around the weights $w_0$ of the
stage before: $\lambda$ begins at `inner` (None: the mean of those squares over n), is halved after a
stage of at most three epochs, and doubled after one of more than thirty. What is reported, and ends the run, is the true
objective, without that part, and its gap, with the dual variables scaled until
$|\sum_i \alpha_i x_i|_\infty / n \le \sigma$.

Differences from the paper: a) It has one stage, around zero, and leaves $\lambda$ to an analysis; the
stages are the proximal point method with Prox-SDCA inside, begun where the last stage ended.
b) p is at least 2, so that d below 8 has an h. The talk takes c = 3 log d to make h strongly convex
for the l1 norm; by its own p it is so by less than 1 ((p - 1)/c and $|x|_p \le e |x|_\infty$ tell), so that
the rows' own $|x_i|_p$ is used. c) Orders, looks at the gap and what is left out are as in `sdca`. d) With l2 = 0, a
stage leaves out columns whose weights are at zero and whose slopes are far from $\sigma$, until the gap
is looked at. e) With l2 = 0 and a loss without kinks, where the support has settled, Newton steps
on it are tried (`support`), and the next stage goes on from the dual variables there; where they
have not halved the gap they are taken back.
"""  # noqa: E501

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np

from streaml1.core.rows import Rows
from streaml1.optim.losses import CODES, LOGISTIC, SMOOTHED_HINGE, SQUARED
from streaml1.optim.tasks import CLASSIFICATION, REGRESSION
from streaml1.solvers.active_examples import Pool, ascend
from streaml1.solvers.active_set_newton import FASTER, SLACK, Face, Watch, polish
from streaml1.solvers.coordinate_kernels import turn
from streaml1.solvers.data import Data, check_run, check_strength, choose, no_intercept, unable
from streaml1.solvers.objective import (
    derivatives,
    elastic_net,
    elastic_net_dual,
    margins,
    mean_loss,
    pulled_back,
)
from streaml1.solvers.prox_steps import Norm, prox_epoch, restricted
from streaml1.solvers.sampling import ORDERS, generator
from streaml1.solvers.solution import Callback, Solution, Trace

__all__ = ["prox_sdca"]

LOSSES = (*CLASSIFICATION, *REGRESSION)
NORMS = ("l2", "q")

# A stage ends when its gap is no more than so many times its distance from the stage before.
PART = 5.0
FEW, MANY, MOST = 3, 30, 100  # epochs of a stage
# How near to l1 a slope is that may come to it in a stage; when to leave the others out.
NEAR, FEWER = 0.8, 0.5
# The least that is inside: what is divided by a denormal, as squares of 1e-160 are, is infinite.
LEAST = 1e-306


def prox_sdca(
    X: Any,
    y: Any,
    loss: str = "logistic",
    l1: float = 1e-4,
    l2: float = 0.0,
    *,
    norm: str = "l2",
    inner: float | None = None,
    gamma: float = 1.0,
    order: str = "permutation",
    fit_intercept: bool = False,
    tol: float = 1e-6,
    max_epochs: int = 1000,
    seed: int = 0,
    callback: Callback | None = None,
) -> Solution:
    """Minimise the mean loss + l1 |w|_1 + l2/2 |w|^2, one dual variable after the other.

    Parameters
    ----------
    X
        A scipy.sparse or numpy matrix, a row an example.
    y
        Labels of classifiers, numbers of regressors.
    loss
        "logistic", "hinge", "smoothed_hinge", "squared" or "absolute".
    l1, l2
        The strengths of the penalties; not both 0.
    norm
        With l2 = 0, what is inside: "l2", or "q", for features of small values and sparse weights.
    inner
        With l2 = 0, the strength of it in the first stage; None: by the data.
    gamma
        The width of the smoothed hinge.
    order
        "permutation": a new one each epoch; "random": drawn with replacement; "cyclic".
    fit_intercept
        Must be False: add a column of ones, whose weight is then penalised as others are.
    tol
        The gap to reach.
    max_epochs
        The passes over the data to end after.
    seed
        Of the order.
    callback
        Called with a record and the weights, after each epoch, or with l2 = 0 after each stage;
        what is true ends the run.

    Returns
    -------
    Solution
        The weights, and the gap they were found with.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> prox_sdca(X, [3.0, 0.1], loss="squared", l1=0.5, tol=1e-9).weights.round(4)
    array([1.25, 0.  ])
    """
    choose("prox_sdca", "loss", loss, LOSSES)
    choose("prox_sdca", "norm", norm, NORMS)
    how = ORDERS[choose("prox_sdca", "order", order, tuple(ORDERS))]
    tol, max_epochs, seed = check_run(tol, max_epochs, seed)
    l1, l2 = check_strength("l1", l1), check_strength("l2", l2)
    gamma = check_strength("gamma", gamma, above_zero=True)
    if not l1 and not l2:
        raise unable("prox_sdca", "l1=0 beside l2=0", "give one of them, or use fista")
    if l2 and norm == "q":
        raise unable("prox_sdca", f'norm="q" with l2={l2:g}', 'give norm="l2", or l2=0')
    if l2 and inner is not None:
        raise unable("prox_sdca", f"inner= with l2={l2:g}", "it is for l2=0")
    no_intercept("prox_sdca", fit_intercept)
    if inner is not None:
        inner = check_strength("inner", inner, above_zero=True)
    trace = Trace("prox_sdca", tol, max_epochs, callback)
    data = Data(X, y, loss)
    pool = Pool(how, data.n, generator(seed))
    run = _Run(data, CODES[loss], gamma, l1, l2, norm, inner, pool, trace)
    if l2:
        ascend(pool, trace, run.epoch, run.look)
    else:
        _stages(run)
    return trace.solution(run.w)


class _Run:
    """The state: alpha, and theta = grad h(w0) + v, whose soft threshold is grad h(w)."""

    def __init__(
        self,
        data: Data,
        loss: int,
        gamma: float,
        l1: float,
        l2: float,
        norm: str,
        inner: float | None,
        pool: Pool,
        trace: Trace,
    ) -> None:
        n, d = data.n, data.d
        self.data, self.loss, self.gamma, self.l1, self.l2 = data, loss, gamma, l1, l2
        self.pool, self.trace = pool, trace
        p = max(2.0, math.log(max(d, 1)))
        self.h = Norm(p, 3.0 * p) if norm == "q" else Norm(2.0, 1.0)
        self.rows, self.squares = data.rows, self.h.squares(data.rows)
        self.strength = l2 or max(inner or float(self.squares.mean()) / n or 1.0, LEAST)
        self.alpha, self.v = np.zeros(n), np.zeros(d)
        self.center, self.theta = np.zeros(d), np.zeros(d)
        self.smooth = loss in (LOGISTIC, SMOOTHED_HINGE, SQUARED)
        self.w, self.a, self.at = np.zeros(d), np.zeros(n), np.ones(2)

    def thresholded(self, theta: Any) -> Any:
        """The gradient of h at the weights."""
        return np.sign(theta) * np.maximum(np.abs(theta) - self.l1 / self.strength, 0.0)

    def epoch(self) -> float:
        """Go through what is in the pool; returns the gap as its parts were met."""
        data, h, n = self.data, self.h, self.data.n
        if h.p != 2.0:
            u = np.abs(self.thresholded(self.theta))
            self.at[1] = max(u.max(initial=0.0), self.l1 / self.strength)
            self.at[0] = ((u / self.at[1]) ** h.p).sum()
        scale = 1.0 / (self.strength * n)
        kept, most, gap, read = prox_epoch(
            *(self.loss, self.gamma, *self.rows, data.y, self.squares * scale, scale),
            *(self.l1 / self.strength, h.p, h.c, *self.pool.turn()),
            *(self.at, self.alpha, self.theta),
        )
        self.pool.taken(kept, most, read)
        return float(gap) / n

    @cached_property
    def room(self) -> Rows:
        """Where the rows of a stage are put."""
        most = self.data.nnz + 1
        indptr = np.zeros(self.data.n + 1, np.uint64)
        return Rows(np.empty(most, np.uint32), np.empty(most), indptr)

    def stage(self, most: int) -> int:
        """Take epochs until the stage is solved as well as it is worth; how many.

        Weights at zero whose slopes are far from `l1` stay there: their columns are not read.
        """
        data, center, most = self.data, self.center, min(most, MOST)
        self.theta = self.center + self.v / self.strength
        inside = np.flatnonzero(
            (np.abs(self.theta) > NEAR * self.l1 / self.strength) | (center != 0.0)
        )
        if len(inside) < FEWER * data.d and self.v.any():
            self.rows = restricted(data.rows, data.d, inside, self.room)
            self.theta, center = self.theta[inside], center[inside]
        else:
            self.rows = data.rows
        self.squares = self.h.squares(self.rows)
        self.pool.begin()
        for taken in range(1, most + 1):
            gap = self.epoch()
            moved = self.h.distance(self.thresholded(self.theta), center)
            if gap <= max(PART * self.strength * moved, 0.1 * self.trace.goal) or not self.pool.m:
                return taken
        return most

    @cached_property
    def columns(self) -> tuple[Any, Any, Any]:
        """The matrix by columns."""
        nnz, ends = self.data.nnz, np.zeros(self.data.d + 1, np.uint64)
        ids, values = np.empty(nnz, np.uint32), np.empty(nnz)
        turn(*self.data.rows, np.ones(self.data.n), ends, ids, values)
        return ids, values, ends

    def polish(self, goal: float, most: int) -> int:
        """Take Newton steps on the support, for a gap of `goal`, and go on from the dual there.

        Returns how often the support was gone over.
        """
        data, h = self.data, self.h
        m = np.flatnonzero((self.w != 0.0) | (np.abs(self.v) > self.l1)).astype(np.uint32)
        w = self.w[m]
        sign = np.where(w != 0.0, np.sign(w), np.sign(self.v[m]))
        zero = np.zeros(len(m))
        face = Face(*self.columns, m, zero + self.l1, zero, zero, sign)
        slope = goal / max(float(np.abs(w).sum()), 1e-300)
        w, passes, read = polish(face, data.y, self.loss, self.gamma, w, slope, most)
        self.pool.accesses += read
        if passes:
            self.w[m] = w
            margins(*data.rows, self.w, 0.0, self.a)
            derivatives(self.loss, self.a, data.y, self.gamma, self.alpha)
            np.negative(self.alpha, out=self.alpha)
            pulled_back(*data.rows, self.alpha, 1.0 / data.n, self.v)
            self.center = h.gradient(self.w)
        return passes

    def look(self, epoch: int) -> bool:
        """Sum v anew, and tell what it makes of the weights."""
        data = self.data
        pulled_back(*data.rows, self.alpha, 1.0 / data.n, self.v)
        theta = self.center + self.v / self.strength
        self.w = self.h.weights(self.thresholded(theta))
        margins(*data.rows, self.w, 0.0, self.a)
        return self.tell(epoch)

    def tell(self, epoch: int) -> bool:
        """Tell objective and dual, by weights, margins and v."""
        data = self.data
        objective = mean_loss(self.loss, self.a, data.y, self.gamma)
        objective += elastic_net(self.w, self.l1, self.l2)
        dual = elastic_net_dual(
            self.loss, -self.alpha, self.v, data.y, self.gamma, self.l1, self.l2
        )
        return self.trace.record(epoch, objective, dual, self.pool.accesses, self.w)


def _newton(run: _Run, epoch: int, watch: Watch) -> tuple[int, bool]:
    """Take Newton steps while the gap falls fast; the epoch then, and whether the run ends."""
    trace, paid = run.trace, False
    before = run.alpha.copy(), run.v.copy(), run.center
    while True:
        passes = run.polish(SLACK * trace.goal, trace.max_epochs - epoch)
        epoch += passes
        done = bool(passes) and run.tell(epoch)
        if done or not passes or trace.records[-1].gap > FASTER * trace.records[-2].gap:
            break
        paid = True
    watch.told(paid)
    if not paid and not done:
        run.alpha, run.v, run.center = before
    return epoch, done


def _stages(run: _Run) -> None:
    trace, first, watch = run.trace, run.strength, Watch()
    epoch, done = 0, run.look(0)
    while not done:
        taken = run.stage(trace.max_epochs - epoch)
        epoch += taken
        done = run.look(epoch)
        run.center = run.thresholded(run.center + run.v / run.strength)
        run.strength *= 0.5 if taken <= FEW else 2.0 if taken > MANY else 1.0
        run.strength = max(run.strength, LEAST)
        if not done and run.smooth and watch.settled(run.w):
            epoch, done = _newton(run, epoch, watch)
            if watch.pause == 0:
                # Slopes may be off at weights that were left out: a small strength lets these leap.
                run.strength = max(run.strength, first)
