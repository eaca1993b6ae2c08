r"""Proximal stochastic dual coordinate ascent (Prox-SDCA): l1 with or without l2.

Shalev-Shwartz & Zhang (2013), the slides "Proximal version", "l1 regularization, instances of low
l2 norm" and "l1 regularization, instances of low l-infinity norm":

$$P(w) = \frac 1n \sum_i \phi_i(w^\top x_i) + \lambda g(w), \qquad
D(\alpha) = \frac 1n \sum_i -\phi_i^*(-\alpha_i) - \lambda g^*(v), \qquad
v = \frac{1}{\lambda n} \sum_i \alpha_i x_i$$

$$g(w) = h(w) + \frac\sigma\lambda |w|_1, \qquad
w = \nabla g^*(v) = \nabla h^*\Bigl(\mathrm{sign}(v) \bigl[|v| - \tfrac\sigma\lambda\bigr]_+\Bigr)$$

with $h(w) = |w|_2^2/2$, or with `norm="q"` $h(w) = \frac c2 |w|_q^2$, where 1/q + 1/p = 1, p = log
d, c = 3 log d, and $\nabla_j h^*(u) = \mathrm{sign}(u_j)\, |u_j|^{p-1} / (c\, |u|_p^{p-2})$. A step
is that of `sdca`, with $a = w^\top x_i$ and $|x_i|_p^2 (p - 1)/c$ in place of $|x_i|^2$. As g* is
smooth, the dual never decreases.

Here $\sigma$ is l1. If l2 is large enough, $\lambda$ is l2. Otherwise the objective is not strongly
convex enough, and with l2 = 0 not at all. Then a run has stages, as in the proximal point method.
Each adds $\lambda (h(w) - \langle \nabla h(w_0), w \rangle)$ to the objective, around the weights
$w_0$ of the previous stage, so that $\lambda$ + l2 is the strength of h. $\lambda$ is first `inner`
(None: the mean of $|x_i|_p^2 (p - 1)/c$, over n); with an l2 of at least that there are no stages.
It is halved after a stage of at most 3 epochs and doubled after one of more than 30. A stage after
which the gap has more than doubled is repeated around the same $w_0$, with $\lambda$ doubled. The
reported objective and gap are those of the original problem. Its dual is taken at l2 and also at 0,
with the dual variables scaled until $|\sum_i \alpha_i x_i|_\infty / n \le \sigma$; the larger value
counts.

Differences from the paper:

a) It has a single stage around zero, and leaves the choice of $\lambda$ to an analysis.
b) p is at least 2, so that h is defined for d < 8. The talk chooses c = 3 log d to make h strongly
   convex for the l1 norm. With p = log d it is so by less than 1, which (p - 1)/c and
   $|x|_p \le e |x|_\infty$ show; therefore the norm $|x_i|_p$ of each row is used.
c) Orders, the times when the gap is computed, and dropped examples are as in `sdca`.
d) A stage drops columns whose weights are zero and whose derivatives are far from
   $\sigma$, until the gap is computed.
e) In stages and with a smooth loss, once the support has settled, Newton steps on it are tried
   (`active_set_newton`), and the next stage starts from the dual variables there. Steps that did
   not halve the gap are undone.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streaml1.core.rows import Rows
from streaml1.core.types import Floats, Ids
from streaml1.optim.losses import CODES, LOGISTIC, SMOOTHED_HINGE, SQUARED
from streaml1.solvers.active_examples import ActiveSet, ascend
from streaml1.solvers.active_set_newton import (
    MAX_GAP_RATIO,
    SLOPE_SHARE,
    Face,
    SupportMonitor,
    face_signs,
    polish,
    slope_tolerance,
)
from streaml1.solvers.coordinate_kernels import transpose
from streaml1.solvers.data import (
    ALTERNATIVES,
    Data,
    MatrixLike,
    check_choice,
    check_run,
    check_strength,
    column_of_ones,
    reject_intercept,
    unsupported,
)
from streaml1.solvers.objective import (
    derivatives,
    elastic_net,
    elastic_net_dual,
    margins,
    mean_loss,
    weighted_row_sum,
)
from streaml1.solvers.parameter_docs import share_parameter_docs
from streaml1.solvers.prox_steps import SquaredNorm, prox_epoch, restrict_columns
from streaml1.solvers.sampling import ORDERS, rng_state
from streaml1.solvers.sharded_ascent import (
    TaskRunner,
    ascend_shards,
    check_shards,
    equal_shards,
)
from streaml1.solvers.solution import Callback, Solution, Trace

__all__ = ["prox_sdca"]

LOSSES = ("logistic", "hinge", "smoothed_hinge", "squared", "absolute")
NORMS = ("l2", "q")

# A stage ends when its gap is at most this many times its distance from the previous stage.
GAP_RATIO = 5.0
# Epochs of a stage: few, so that lambda is halved; many, so that it is doubled; the maximum.
FEW_EPOCHS, MANY_EPOCHS, MAX_EPOCHS = 3, 30, 100
# A stage is repeated if it multiplied the gap of the original problem by more than this.
MAX_GAP_GROWTH = 2.0
# Columns with a derivative below the first share of l1 are dropped from a stage, if less than the
# second share of the columns remains.
MIN_SLOPE, MAX_KEPT = 0.8, 0.5
# Minimum of lambda. Dividing by a denormal, such as the square of 1e-160, gives infinity.
MIN_LAMBDA = 1e-306


@share_parameter_docs
def prox_sdca(
    X: MatrixLike,
    y: ArrayLike,
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
    shards: int = 1,
    executor: TaskRunner | None = None,
) -> Solution:
    """Minimize mean loss + l1 |w|_1 + l2/2 |w|^2 by proximal dual coordinate ascent.

    Parameters
    ----------
    {X}
    y
        Labels of a classifier, or numbers for a regression loss.
    loss
        "logistic", "hinge", "smoothed_hinge", "squared" or "absolute".
    l1, l2
        Strengths of the penalties; not both 0.
    norm
        With l2 = 0, the norm of the term that each stage adds: "l2", or "q" for dense features of
        small values with sparse weights.
    inner
        Strength of the term that the first stage adds; None: derived from the data. With an l2 of
        at least this there are no stages.
    {gamma}
    {order}
    {no_intercept}
    {tol}
    {max_epochs}
    {order_seed}
    callback
        Called as `callback(record, weights)` after each epoch, or in stages after each stage. A
        true result stops the run without a warning.
    {shards}

    Returns
    -------
    {solution}

    References
    ----------
    Shalev-Shwartz, S. and Zhang, T., 2013. Stochastic dual coordinate ascent methods for
    regularized loss minimization. The talk "Optimization and Big Data", Edinburgh.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> prox_sdca(X, [3.0, 0.1], loss="squared", l1=0.5, tol=1e-9).weights.round(4)
    array([1.25, 0.  ])
    """
    check_choice("prox_sdca", "loss", loss, LOSSES)
    check_choice("prox_sdca", "norm", norm, NORMS)
    order_kind = ORDERS[check_choice("prox_sdca", "order", order, tuple(ORDERS))]
    tol, max_epochs, seed = check_run(tol, max_epochs, seed)
    l1, l2 = check_strength("l1", l1), check_strength("l2", l2)
    gamma = check_strength("gamma", gamma, above_zero=True)
    if not l1 and not l2:
        others = ", or fista" if loss in ALTERNATIVES else ""
        raise unsupported("prox_sdca", "l1=0 with l2=0", f"use one of them{others}")
    if l2 and norm == "q":
        raise unsupported("prox_sdca", f'norm="q" with l2={l2:g}', 'use norm="l2", or l2=0')
    reject_intercept("prox_sdca", fit_intercept, column_of_ones(loss))
    if inner is not None:
        inner = check_strength("inner", inner, above_zero=True)
    trace = Trace("prox_sdca", tol, max_epochs, callback)
    data = Data(X, y, loss)
    if check_shards("prox_sdca", shards, l2, executor) > 1:
        return ascend_shards(
            data, CODES[loss], gamma, l1, l2, equal_shards(data, shards), order_kind, seed, trace,
            executor,
        )  # fmt: skip
    active = ActiveSet(order_kind, data.n, rng_state(seed))
    run = _Run(data, CODES[loss], gamma, l1, l2, norm, inner, active, trace)
    if run.inner:
        _run_stages(run)
    else:
        ascend(active, trace, run.epoch, run.record)
    return trace.solution(run.w)


class _Run:
    """The state of a run.

    Attributes
    ----------
    inner : float
        lambda of the current stage; 0 without stages.
    alpha : ndarray
        Dual variables, shape (n,).
    v : ndarray
        sum_i alpha_i x_i / n as of the last record, shape (d,).
    center : ndarray
        Gradient of h at the weights that the stage is centred on, shape (d,).
    theta : ndarray
        See `current_theta`; kept up to date by the steps. In a stage with dropped columns, of the
        other columns only.
    """

    def __init__(
        self,
        data: Data,
        loss: int,
        gamma: float,
        l1: float,
        l2: float,
        norm: str,
        inner: float | None,
        active: ActiveSet,
        trace: Trace,
    ) -> None:
        n, d = data.n, data.d
        self.data, self.loss, self.gamma, self.l1, self.l2 = data, loss, gamma, l1, l2
        self.active, self.trace = active, trace
        p = max(2.0, math.log(max(d, 1)))
        self.h = SquaredNorm(p, 3.0 * p) if norm == "q" else SquaredNorm(2.0, 1.0)
        self.rows, self.sensitivities = data.rows, self.h.sensitivities(data.rows)
        inner = max(inner or float(self.sensitivities.mean()) / n or 1.0, MIN_LAMBDA)
        self.inner = inner if l2 < inner else 0.0
        self.alpha, self.v = np.zeros(n), np.zeros(d)
        self.center, self.theta = np.zeros(d), np.zeros(d)
        self.is_smooth = loss in (LOGISTIC, SMOOTHED_HINGE, SQUARED)
        self.w, self.a, self._norm = np.zeros(d), np.zeros(n), np.ones(2)

    @property
    def strength(self) -> float:
        """Strength of h in the objective of the current stage."""
        return self.inner + self.l2

    def current_theta(self) -> Floats:
        """Return a vector whose soft-thresholding is the gradient of h at the weights.

        That is (lambda `center` + `v`) / (lambda + l2), with lambda the strength of the stage.
        """
        # Divided first: with l2 = 0 the factor of `center` is exactly 1.
        return self.inner / self.strength * self.center + self.v / self.strength

    def soft_threshold(self, theta: Floats) -> Floats:
        """Return the gradient of h at the weights."""
        return np.sign(theta) * np.maximum(np.abs(theta) - self.l1 / self.strength, 0.0)

    def epoch(self) -> float:
        """Run an epoch over the active examples; return an estimate of the gap."""
        data, h, n = self.data, self.h, self.data.n
        if h.p != 2.0:
            u = np.abs(self.soft_threshold(self.theta))
            self._norm[1] = max(u.max(initial=0.0), self.l1 / self.strength)
            self._norm[0] = ((u / self._norm[1]) ** h.p).sum()
        scale = 1.0 / (self.strength * n)
        n_active, max_move, gap, n_read = prox_epoch(
            *(self.loss, self.gamma, *self.rows, data.y, self.sensitivities * scale, scale),
            *(self.l1 / self.strength, h.p, h.c, *self.active.plan_epoch()),
            *(self._norm, self.alpha, self.theta),
        )
        self.active.shrink(n_active, max_move, n_read)
        return float(gap) / n

    @cached_property
    def _row_buffer(self) -> Rows:
        """Arrays for the rows of a stage with dropped columns."""
        size = self.data.nnz + 1
        indptr = np.zeros(self.data.n + 1, np.uint64)
        return Rows(np.empty(size, np.uint32), np.empty(size), indptr)

    def stage(self, max_epochs: int) -> int:
        """Run epochs until the stage is solved accurately enough; return how many.

        Zero weights whose derivatives are far from l1 stay zero: their columns are not read.
        """
        data, center, max_epochs = self.data, self.center, min(max_epochs, MAX_EPOCHS)
        self.theta = self.current_theta()
        kept = np.flatnonzero(
            (np.abs(self.theta) > MIN_SLOPE * self.l1 / self.strength) | (center != 0.0)
        )
        if len(kept) < MAX_KEPT * data.d and self.v.any():
            self.rows = restrict_columns(data.rows, data.d, kept, self._row_buffer)
            self.theta, center = self.theta[kept], center[kept]
        else:
            self.rows = data.rows
        self.sensitivities = self.h.sensitivities(self.rows)
        self.active.reset()
        for taken in range(1, max_epochs + 1):
            gap = self.epoch()
            distance = self.h.distance(self.soft_threshold(self.theta), center)
            target = max(GAP_RATIO * self.inner * distance, 0.1 * self.trace.target_gap)
            if gap <= target or not self.active.m:
                return taken
        return max_epochs

    @cached_property
    def _csc(self) -> tuple[Ids, Floats, Any]:
        """The matrix in CSC form."""
        nnz, indptr = self.data.nnz, np.zeros(self.data.d + 1, np.uint64)
        ids, values = np.empty(nnz, np.uint32), np.empty(nnz)
        transpose(*self.data.rows, np.ones(self.data.n), indptr, ids, values)
        return ids, values, indptr

    def polish(self, gap: float, max_passes: int) -> int:
        """Take Newton steps on the support, and set the dual variables to those there.

        Parameters
        ----------
        gap
            The duality gap to aim for.
        max_passes
            Maximum number of passes over the support.

        Returns
        -------
        int
            Passes taken.
        """
        data, h = self.data, self.h
        m = np.flatnonzero((self.w != 0.0) | (np.abs(self.v) > self.l1)).astype(np.uint32)
        w = self.w[m]
        zero = np.zeros(len(m))
        sign = face_signs(w, np.sign(self.v[m]))
        face = Face(*self._csc, m, zero + self.l1, zero + self.l2, zero, sign)
        polished = polish(
            face, data.y, self.loss, self.gamma, w, slope_tolerance(gap, w), max_passes
        )
        self.active.accesses += polished.accesses
        if polished.passes:
            self.w[m] = polished.w
            margins(*data.rows, self.w, 0.0, self.a)
            derivatives(self.loss, self.a, data.y, self.gamma, self.alpha)
            np.negative(self.alpha, out=self.alpha)
            weighted_row_sum(*data.rows, self.alpha, 1.0 / data.n, self.v)
            self.center = h.gradient(self.w)
        return polished.passes

    def record(self, epoch: int) -> bool:
        """Recompute v and the weights from alpha, and record the objective and the dual."""
        data = self.data
        weighted_row_sum(*data.rows, self.alpha, 1.0 / data.n, self.v)
        self.w = self.h.weights(self.soft_threshold(self.current_theta()))
        margins(*data.rows, self.w, 0.0, self.a)
        return self.record_current(epoch)

    def record_current(self, epoch: int) -> bool:
        """Record the objective and the dual of the current weights, margins and v."""
        data = self.data
        objective = mean_loss(self.loss, self.a, data.y, self.gamma)
        objective += elastic_net(self.w, self.l1, self.l2)
        dual = self._dual(self.l2)
        if self.inner and self.l2:
            # The dual with l2 = 0 is a lower bound, too, and a better one while the error of v is
            # large compared with l2.
            dual = max(dual, self._dual(0.0))
        return self.trace.record(epoch, objective, dual, self.active.accesses, self.w)

    def _dual(self, l2: float) -> float:
        theta, y = -self.alpha, self.data.y
        return elastic_net_dual(self.loss, theta, self.v, y, self.gamma, self.l1, l2)


def _polish_rounds(run: _Run, epoch: int, monitor: SupportMonitor) -> tuple[int, bool]:
    """Take rounds of Newton steps while the gap falls fast; undo them if none paid off.

    Returns
    -------
    tuple
        The epoch afterwards, and whether the run ends.
    """
    trace, paid_off = run.trace, False
    before = run.alpha.copy(), run.v.copy(), run.center
    while True:
        passes = run.polish(SLOPE_SHARE * trace.target_gap, trace.max_epochs - epoch)
        epoch += passes
        done = bool(passes) and run.record_current(epoch)
        gaps = [record.gap for record in trace.records[-2:]]
        if done or not passes or gaps[1] > MAX_GAP_RATIO * gaps[0]:
            break
        paid_off = True
    monitor.report(paid_off)
    if not paid_off and not done:
        run.alpha, run.v, run.center = before
    return epoch, done


def _run_stages(run: _Run) -> None:
    """Run stages until the trace ends."""
    trace, first_inner, monitor = run.trace, run.inner, SupportMonitor()
    epoch, done = 0, run.record(0)
    center_gap = trace.records[-1].gap
    while not done:
        taken = run.stage(trace.max_epochs - epoch)
        epoch += taken
        done = run.record(epoch)
        if trace.records[-1].gap > MAX_GAP_GROWTH * center_gap:
            # The estimate of the stage's gap was wrong. Continued from here, the weights diverge.
            run.inner *= 2.0
            continue
        center_gap = trace.records[-1].gap
        run.center = run.soft_threshold(run.current_theta())
        run.inner *= 0.5 if taken <= FEW_EPOCHS else 2.0 if taken > MANY_EPOCHS else 1.0
        run.inner = max(run.inner, MIN_LAMBDA)
        if not done and run.is_smooth and monitor.is_settled(run.w):
            epoch, done = _polish_rounds(run, epoch, monitor)
            if monitor.backoff == 0:
                # Weights outside the support may have inexact derivatives. With a small lambda
                # they would make long steps.
                run.inner = max(run.inner, first_inner)
