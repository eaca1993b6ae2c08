r"""Stochastic coordinate descent (SCD) and the deterministic DETCD.

Shalev-Shwartz & Tewari (2009), Section 2: Algorithm 1, and Algorithm 2 which keeps the margins
$z_i$ up to date. With $\beta$ an upper bound on the second derivative of the loss (Eq. 9: 1 for the
squared loss, 1/4 for the logistic loss), a step at coordinate j is

$$g_j = \frac 1m \sum_i L'(z_i, y_i)\, x_{ij}, \qquad
w_j \leftarrow \arg\min_v \; g_j (v - w_j) + \frac{\beta_j}2 (v - w_j)^2 + \lambda_1 |v|
+ \frac{\lambda_2}2 v^2$$

Differences from the paper:

a) Its step size $1/\beta$ needs $|x_{ij}| \le 1$. Here each coordinate has its own,
   $\beta_j = \frac\beta m \sum_i x_{ij}^2$ plus l2, with which the objective never rises.
b) It draws one of two halves $v_j$ and $v_{d+j}$ of a weight; here a weight is signed. With its
   $\hat x = [x; -x]$ this is $w_j = v_j - v_{d+j}$ (the paper has the opposite sign).
c) An epoch visits a permutation of the coordinates; `order="random"` draws them, as the paper does.
d) `step="newton"`: for the logistic loss, some epochs minimize its quadratic model, whose curvature
   is that of the loss instead of 1/4; a line search keeps the objective from rising. The squared
   loss equals its model.
e) Coordinates at zero or at a bound that are pushed there are dropped until the gap is computed,
   which looks at all of them (shrinking).
f) With `step="newton"` and no bounds, once the support has settled, Newton steps on it are tried
   and continue as long as they pay off (`active_set_newton`). The gap needs exact gradients, which
   coordinate steps reach slowly.
g) The gap uses the dual at $\theta_i = L'(z_i)$, scaled into its domain if necessary.

The paper describes DETCD in prose (Section 4): "the coordinate ... is chosen in a deterministic
manner to maximize a lower bound on the guaranteed decrease". Here this is the decrease of the upper
bound above.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streaml1.core.types import Floats, Hashes
from streaml1.models.parameter_checks import Integer, boolean
from streaml1.solvers.active_set_newton import MAX_GAP_RATIO, SLOPE_SHARE, SupportMonitor
from streaml1.solvers.coordinate_kernels import (
    EpochResult,
    bound_epoch,
    curvatures,
    greedy_steps,
    loss_derivatives,
    matvec,
    model_epoch,
)
from streaml1.solvers.coordinate_problem import Constraints, CoordinateState, check_constraints
from streaml1.solvers.data import (
    Data,
    MatrixLike,
    check_choice,
    check_run,
    check_strength,
    unsupported,
)
from streaml1.solvers.parameter_docs import share_parameter_docs
from streaml1.solvers.sampling import ORDERS, RANDOM, fill_order, rng_state
from streaml1.solvers.solution import Callback, Solution, Trace

__all__ = ["detcd", "scd"]

LOSSES = ("logistic", "squared")
STEPS = ("newton", "bound")

# Epochs between two looks at all coordinates, at most, and the share of the gap to leave.
MAX_EPOCHS = 10
GAP_SHARE = 0.1
SHARE_DECAY = 0.25  # of GAP_SHARE, after a single epoch left less than that
HALVINGS = 60
SUFFICIENT_DECREASE = 0.01  # of the decrease that the gradient predicts (Armijo)
ROUNDING = 5e-16  # relative rounding error of the objective

Kernel = Callable[..., tuple[Any, ...]]


def _make_state(
    solver: str,
    X: MatrixLike,
    y: ArrayLike,
    loss: str,
    l1: float,
    l2: float,
    constraints: tuple[ArrayLike, ArrayLike, ArrayLike],
    fit_intercept: bool,
) -> CoordinateState:
    check_choice(solver, "loss", loss, LOSSES)
    l1, l2 = check_strength("l1", l1), check_strength("l2", l2)
    data = Data(X, y, loss)
    checked: Constraints = check_constraints(solver, data.d, *constraints)
    is_bounded = bool(np.isfinite(checked.lower).all() and np.isfinite(checked.upper).all())
    if not (l1 or l2 or is_bounded):
        raise unsupported(
            solver,
            "l1=0 with l2=0",
            "no gap is known without a penalty or bounds, so use a small l2, or fista",
        )
    return CoordinateState(data, loss, l1, l2, checked, boolean("fit_intercept", fit_intercept))


def _line_search(state: CoordinateState, w: Floats, z: Floats, objective: float) -> None:
    """Search from w with margins z towards the state's weights, until the objective decreases."""
    p, d = state.problem, state.w - w
    state.accesses += int(matvec(p, state.w, state.z))
    dz = state.z - z
    slope = float(state.r @ dz) / state.n + float((p.c + p.l2 * w) @ d)
    slope += float(p.l1 @ (np.abs(state.w) - np.abs(w)))
    s, bound = 1.0, objective + ROUNDING * abs(objective)
    for _ in range(HALVINGS):
        if state.objective() <= bound + SUFFICIENT_DECREASE * s * min(slope, 0.0):
            break
        s *= 0.5
        state.w[:], state.z[:] = w + s * d, z + s * dz
    else:
        state.w[:], state.z[:] = w, z
    loss_derivatives(state.loss, state.z, state.y, state.r)


def _sweep(
    state: CoordinateState,
    kernel: Kernel,
    arguments: tuple[Any, ...],
    order_kind: int,
    rng: Hashes,
    target: float,
    max_epochs: int,
) -> int:
    """Run epochs over the active coordinates.

    Parameters
    ----------
    state
        The run.
    kernel, arguments
        `model_epoch` or `bound_epoch`, and its arguments after `active` and before the weights.
    order_kind, rng
        A value of `ORDERS`, and the state of the generator.
    target
        The gap of the active coordinates to stop at.
    max_epochs
        Maximum number of epochs.

    Returns
    -------
    int
        Epochs taken.
    """
    active, still_active = np.empty(state.k, np.uint32), np.empty(state.k, np.uint32)
    order, threshold = np.empty(state.k, np.uint32), math.inf
    start = state.active()
    m = len(start)
    active[:m] = start
    for epoch in range(1, max_epochs + 1):
        fill_order(order_kind, active, m, rng, order)
        result = EpochResult(
            *kernel(state.problem, order, m, threshold, still_active, *arguments, state.w)
        )
        state.accesses += int(result.n_read)
        if order_kind != RANDOM:
            active, still_active = still_active, active
            m, threshold = int(result.n_active), result.max_slope or math.inf
        gap = result.gap + result.max_excess * float(np.abs(state.weights).sum())
        if gap <= target or not result.max_slope:
            return epoch
    return max_epochs


class _Descent:
    """The loop of `scd`: epochs over the active coordinates between looks at all of them."""

    def __init__(
        self,
        state: CoordinateState,
        step: str,
        order_kind: int,
        trace: Trace,
        rng: Hashes,
        every: int | None,
    ) -> None:
        self.state, self.step, self.trace, self.every = state, step, trace, every
        self.order = order_kind, rng
        self.h, self.H = np.ones(state.n), np.zeros(state.k)
        if state.is_quadratic or step == "bound":
            curvatures(state.problem, np.arange(state.k, dtype=np.uint32), self.h, self.H)
        self.beta = state.beta * self.H + state.problem.l2

    def run(self) -> None:
        """Run until the trace ends."""
        state, trace, every = self.state, self.trace, self.every
        p = state.problem
        epoch, gap_share, n_looks, monitor = 0, GAP_SHARE, 0, SupportMonitor()
        is_bounded = np.isfinite(p.lo).any() or np.isfinite(p.hi).any()
        use_newton = self.step == "newton" and every is None and not is_bounded
        is_settled = False
        while not trace.record(
            epoch, state.objective(), state.dual(), state.accesses, state.weights
        ):
            gap = trace.records[-1].gap
            state.accesses += len(p.values)  # the dual bound has found the active coordinates
            if is_settled:
                is_settled = gap <= MAX_GAP_RATIO * trace.records[-2].gap
                monitor.report(is_settled)
                passes = 0
                if is_settled:
                    target = SLOPE_SHARE * trace.target_gap
                    passes = state.polish(target, trace.max_epochs - epoch)
                epoch += passes
                if passes:
                    continue
            n_looks += 1
            # Early models soon become inaccurate: take one epoch first, then two, ...
            longest = MAX_EPOCHS if state.is_quadratic else min(MAX_EPOCHS, n_looks)
            n_epochs = min(longest, every or MAX_EPOCHS, trace.max_epochs - epoch)
            taken = self._epochs(max(gap_share * gap, 0.3 * trace.target_gap), n_epochs)
            epoch += taken
            if taken == 1 < n_epochs:
                gap_share *= SHARE_DECAY
            is_settled = use_newton and monitor.is_settled(state.w)

    def _epochs(self, target: float, max_epochs: int) -> int:
        """Run epochs until the gap of the active coordinates is `target`; return how many."""
        state, limits = self.state, (*self.order, target, max_epochs)
        if state.is_quadratic:
            taken = _sweep(state, model_epoch, (self.h, self.H, state.r), *limits)
            state.refresh()
        elif self.step == "bound":
            taken = _sweep(state, bound_epoch, (self.beta, state.z, state.r), *limits)
            state.refresh()
        else:
            objective = self.trace.records[-1].objective
            w, z, t = state.w.copy(), state.z.copy(), state.r.copy()
            np.multiply(-t, 1.0 + t, out=self.h)
            state.accesses += int(curvatures(state.problem, state.active(), self.h, self.H))
            taken = _sweep(state, model_epoch, (self.h, self.H, t), *limits)
            _line_search(state, w, z, objective)
        return taken


@share_parameter_docs
def scd(
    X: MatrixLike,
    y: ArrayLike,
    loss: str = "logistic",
    l1: float = 0.0,
    l2: float = 0.0,
    *,
    order: str = "permutation",
    step: str = "newton",
    linear: ArrayLike = 0.0,
    lower: ArrayLike = -math.inf,
    upper: ArrayLike = math.inf,
    fit_intercept: bool = False,
    tol: float = 1e-6,
    max_epochs: int = 1000,
    seed: int = 0,
    every: int | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Minimize mean loss + l1 |w|_1 + l2/2 |w|^2 by coordinate descent.

    Parameters
    ----------
    {X}
    y
        Labels for the logistic loss, numbers for the squared loss.
    loss
        "logistic" or "squared".
    l1, l2
        Strengths of the penalties; not both 0, unless all weights have bounds.
    {order}
    step
        For the logistic loss: "newton" takes steps on its quadratic model, with a line search;
        "bound" uses an upper bound on its curvature, as the paper does.
    linear
        c of a term <c, w> in the objective: a number, or one for each weight.
    lower, upper
        Bounds of the weights: a number, or one for each weight.
    {fit_intercept}
    {tol}
    max_epochs
        Maximum number of epochs. An epoch is a pass over the columns of the active weights.
    {order_seed}
    every
        Maximum number of epochs between two looks at all coordinates, 1 to 10; Newton steps are
        then disabled. None: choose it automatically.
    callback
        Called as `callback(record, weights)` after each look at all coordinates. A true result
        stops the run without a warning.

    Returns
    -------
    {solution}

    References
    ----------
    Shalev-Shwartz, S. and Tewari, A., 2009. Stochastic methods for l1 regularized loss
    minimization. ICML. Section 2.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> scd(X, [3.0, 0.1], loss="squared", l1=0.5).weights
    array([1.25, 0.  ])

    With bounds and a linear term it solves the dual of the hinge loss, which gives the weights as
    a sum of rows:

    >>> n, d, l2 = 2, 2, 0.5
    >>> A = (X * [[1], [-1]]).T
    >>> dual = scd(A * (d / l2) ** 0.5 / n, [0, 0], "squared", linear=-1 / n, lower=0, upper=1)
    >>> A @ dual.weights / (l2 * n)
    array([ 0.5, -1. ])
    """
    order_kind = ORDERS[check_choice("scd", "order", order, tuple(ORDERS))]
    check_choice("scd", "step", step, STEPS)
    tol, max_epochs, seed = check_run(tol, max_epochs, seed)
    trace = Trace("scd", tol, max_epochs, callback)
    state = _make_state("scd", X, y, loss, l1, l2, (linear, lower, upper), fit_intercept)
    every = every if every is None else Integer(1, MAX_EPOCHS)("every", every)
    _Descent(state, step, order_kind, trace, rng_state(seed), every).run()
    return trace.solution(state.weights.copy(), state.intercept)


@share_parameter_docs
def detcd(
    X: MatrixLike,
    y: ArrayLike,
    loss: str = "logistic",
    l1: float = 0.0,
    l2: float = 0.0,
    *,
    linear: ArrayLike = 0.0,
    lower: ArrayLike = -math.inf,
    upper: ArrayLike = math.inf,
    fit_intercept: bool = False,
    tol: float = 1e-6,
    max_epochs: int = 1000,
    seed: int = 0,
    every: int | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Minimize the objective of `scd` by steps at the coordinate of largest guaranteed decrease.

    A step looks at all weights, and updates the derivatives of all that share an example with the
    one that changes. For wide data `scd` is much faster. An epoch is d steps.

    Parameters
    ----------
    X, y, loss, l1, l2, linear, lower, upper, fit_intercept, tol
        As in `scd`.
    max_epochs
        Maximum number of epochs.
    seed
        Not used; accepted because all solvers have it.
    every
        Steps between two records; None: d.
    {callback}

    Returns
    -------
    {solution}

    References
    ----------
    Shalev-Shwartz, S. and Tewari, A., 2009. Stochastic methods for l1 regularized loss
    minimization. ICML. Section 4.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> detcd(X, [3.0, 0.1], loss="squared", l1=0.5).weights
    array([1.25, 0.  ])
    """
    tol, max_epochs, _ = check_run(tol, max_epochs, seed)
    trace = Trace("detcd", tol, max_epochs, callback)
    state = _make_state("detcd", X, y, loss, l1, l2, (linear, lower, upper), fit_intercept)
    p, rows, H = state.problem, state.signed_rows(), np.zeros(state.k)
    curvatures(p, np.arange(state.k, dtype=np.uint32), np.ones(state.n), H)
    beta = state.beta * H + p.l2
    v, epoch, steps = np.empty(state.k), 0, 0
    every = state.k if every is None else Integer(1, 2**31 - 1)("every", every)
    while not trace.record(epoch, state.objective(), state.dual(), state.accesses, state.weights):
        # The gradient at the weights; `state.v` is that of the scaled dual variables.
        state.pull_back(state.r, v)
        if len(trace.records) == 1:
            state.accesses += len(p.values)  # later gradients are updated by the steps
        done, n_read = greedy_steps(state.loss, p, *rows, every, beta, state.z, v, state.w)
        state.accesses += int(n_read)
        steps += int(done)
        epoch = steps // state.k if done else max_epochs
        state.refresh()
    return trace.solution(state.weights.copy(), state.intercept)
