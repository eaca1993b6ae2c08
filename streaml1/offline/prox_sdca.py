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
the rows' own $|x_i|_p$ is used. c) Orders, looks at the gap and what is left out are as in `sdca`.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streaml1.jit import inlined, kernel
from streaml1.losses import CODES
from streaml1.offline.data import (
    CLASSIFIERS,
    REGRESSORS,
    Data,
    check_run,
    check_strength,
    choose,
    no_intercept,
    unable,
)
from streaml1.offline.dual_steps import best, gap_of, logit_of, rests
from streaml1.offline.objective import (
    elastic_net,
    elastic_net_dual,
    margins,
    mean_loss,
    pulled_back,
)
from streaml1.offline.order import ONE, ORDERS, add, fetch_next, generator
from streaml1.offline.pool import Pool, ascend
from streaml1.offline.solution import Callback, Solution, Trace
from streaml1.vectors import power

__all__ = ["prox_sdca"]

LOSSES = (*CLASSIFIERS, *REGRESSORS)
NORMS = ("l2", "q")

# A stage ends when its gap is no more than so many times its distance from the stage before.
PART = 5.0
FEW, MANY, MOST = 3, 30, 100  # epochs of a stage


class Norm(NamedTuple):
    """h(w) = c/2 |w|_q^2, by the p with 1/p + 1/q = 1."""

    p: float
    c: float

    def size(self, u: Any) -> float:
        """|u|_p."""
        most = float(np.abs(u).max(initial=0.0))
        return most * float(((np.abs(u) / most) ** self.p).sum()) ** (1 / self.p) if most else 0.0

    def weights(self, u: Any) -> Any:
        """The gradient of h* at u."""
        size = self.size(u)
        if not size or self.p == 2.0:
            return u / self.c
        return np.sign(u) * (np.abs(u) / size) ** (self.p - 1.0) * (size / self.c)

    def distance(self, u: Any, center: Any) -> float:
        """H(w) - h(w0) - <grad h(w0), w - w0>, by the gradients u and `center` of h at w and w0."""
        if self.p == 2.0:
            return float(0.5 * np.vdot(u - center, u - center) / self.c)
        conjugates = (self.size(center) ** 2 - self.size(u) ** 2) / (2.0 * self.c)
        return max(0.0, conjugates - float(self.weights(u) @ (center - u)))

    def squares(self, data: Data) -> Any:
        """By how much a margin answers to its own step: |x_i|_p^2 (p - 1)/c."""
        out = np.empty(data.n)
        _sizes(data.rows.values, data.rows.indptr, self.p, out)
        return out * out * ((self.p - 1.0) / self.c)


@kernel
def _sizes(values: Any, indptr: Any, p: float, out: Any) -> None:
    """Put |x_i|_p into out."""
    for i in range(np.uint64(len(out))):
        most, total = 0.0, 0.0
        for k in range(indptr[i], indptr[i + ONE]):
            most = max(most, abs(values[k]))
        for k in range(indptr[i], indptr[i + ONE]):
            total += (abs(values[k]) / most) ** p
        out[i] = most * total ** (1.0 / p)


@inlined
def _soft(v: float, t: float) -> float:
    return math.copysign(max(0.0, abs(v) - t), v)


@inlined
def _margin(ids: Any, values: Any, lo: Any, hi: Any, theta: Any, t: float) -> float:
    a = 0.0
    for k in range(lo, hi):
        a += _soft(theta[ids[k]], t) * values[k]
    return a


@inlined
def _margin_q(
    ids: Any, values: Any, lo: Any, hi: Any, theta: Any, t: float, at: Any, p: float
) -> float:
    """The sum of sign(u) (|u| / at[1])^(p-1) x; u = soft(theta, t)."""
    a = 0.0
    for k in range(lo, hi):
        u = _soft(theta[ids[k]], t)
        if u != 0.0:
            a += math.copysign(power(abs(u) / at[1], p - 1.0), u) * values[k]
    return a


@inlined
def _add_q(
    ids: Any, values: Any, lo: Any, hi: Any, step: float, theta: Any, t: float, at: Any, p: float
) -> None:
    """Add step times a row to theta, and what follows to at[0], the sum of (|u| / at[1])^p."""
    total = at[0]
    for k in range(lo, hi):
        before = abs(_soft(theta[ids[k]], t))
        theta[ids[k]] += step * values[k]
        after = abs(_soft(theta[ids[k]], t))
        if before != 0.0:
            total -= power(before / at[1], p)
        if after != 0.0:
            total += power(after / at[1], p)
    at[0] = max(0.0, total)


@kernel
def _epoch(
    loss: int,
    gamma: float,
    ids: Any,
    values: Any,
    indptr: Any,
    y: Any,
    q: Any,
    scale: float,
    t: float,
    p: float,
    c: float,
    order: Any,
    m: Any,
    far: float,
    rest: Any,
    at: Any,
    alpha: Any,
    theta: Any,
) -> Any:
    """Take the first `m` steps of `order`, as `sdca` does, with u = soft(theta, t).

    Where p is not 2, `at` holds the sum of (|u_j| / ref)^p, and ref.
    """
    kept, m = np.uint64(0), np.uint64(m)
    most, gap, read = 0.0, 0.0, np.uint64(0)
    for s in range(m):
        i = np.uint64(order[s])
        lo, hi = indptr[i], indptr[i + ONE]
        fetch_next(ids, values, indptr, order, s, m)
        if p == 2.0:
            a = _margin(ids, values, lo, hi, theta, t)
        else:
            a = _margin_q(ids, values, lo, hi, theta, t, at, p)
            if at[0] > 0.0:
                a *= at[1] * power(at[0], 2.0 / p - 1.0)
        a /= c
        before = alpha[i]
        read += hi - lo
        if rests(loss, a, before, y[i], gamma, far):
            continue
        rest[kept] = i
        kept += ONE
        logit = logit_of(loss, before, y[i])
        gap += gap_of(loss, a, before, logit, y[i], gamma)
        after = best(loss, a, before, logit, y[i], q[i], gamma)
        if after != before:
            most = max(most, abs(after - before) * q[i])
            alpha[i] = after
            if p == 2.0:
                add(ids, values, lo, hi, (after - before) * scale, theta)
            else:
                _add_q(ids, values, lo, hi, (after - before) * scale, theta, t, at, p)
            read += hi - lo
    return kept, most, gap, read


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
        self.squares = self.h.squares(data)
        self.strength = l2 or inner or float(self.squares.mean()) / n or 1.0
        self.alpha, self.v = np.zeros(n), np.zeros(d)
        self.center, self.theta = np.zeros(d), np.zeros(d)
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
        kept, most, gap, read = _epoch(
            *(self.loss, self.gamma, *data.rows, data.y, self.squares * scale, scale),
            *(self.l1 / self.strength, h.p, h.c, *self.pool.turn()),
            *(self.at, self.alpha, self.theta),
        )
        self.pool.taken(kept, most, read)
        return float(gap) / n

    def look(self, epoch: int) -> bool:
        """Sum v anew, and tell objective and dual of what it makes of the weights."""
        data = self.data
        pulled_back(*data.rows, self.alpha, 1.0 / data.n, self.v)
        theta = self.center + self.v / self.strength
        self.w = self.h.weights(self.thresholded(theta))
        margins(*data.rows, self.w, 0.0, self.a)
        objective = mean_loss(self.loss, self.a, data.y, self.gamma)
        objective += elastic_net(self.w, self.l1, self.l2)
        dual = elastic_net_dual(
            self.loss, -self.alpha, self.v, data.y, self.gamma, self.l1, self.l2
        )
        return self.trace.record(epoch, objective, dual, self.pool.accesses, self.w)


def _stages(run: _Run) -> None:
    trace, epoch, taken = run.trace, 0, 0
    while not run.look(epoch):
        run.center = run.thresholded(run.center + run.v / run.strength)
        if epoch:
            run.strength *= 0.5 if taken <= FEW else 2.0 if taken > MANY else 1.0
        run.theta = run.center + run.v / run.strength
        run.pool.begin()
        taken = 0
        while epoch < trace.max_epochs and taken < MOST:
            gap = run.epoch()
            epoch, taken = epoch + 1, taken + 1
            moved = run.h.distance(run.thresholded(run.theta), run.center)
            if gap <= max(PART * run.strength * moved, 0.1 * trace.goal) or not run.pool.m:
                break
