r"""Stochastic coordinate descent (SCD), and the deterministic DETCD.

Shalev-Shwartz & Tewari (2009), Section 2: Algorithm 1 and, with the margins $z_i$ kept up to date,
Algorithm 2. A step at the coordinate j, with $\beta$ a bound on the loss's second derivative
(Eq. 9: 1 for the squared loss, 1/4 for the logistic), is

$$g_j = \frac 1m \sum_i L'(z_i, y_i)\, x_{ij}, \qquad
w_j \leftarrow \arg\min_v \; g_j (v - w_j) + \frac{\beta_j}2 (v - w_j)^2 + \lambda_1 |v|
+ \frac{\lambda_2}2 v^2$$

Differences from the paper: a) Its step 1/beta needs $|x_{ij}| \le 1$; here each coordinate has its own,
$\beta_j = \frac\beta m \sum_i x_{ij}^2$ (and l2 beside it), with which the objective never rises. b) The
two halves $v_j$ and $v_{d+j}$ of a weight, of which it draws one, are one signed weight; with its
$\hat x = [x; -x]$ that is $w_j = v_j - v_{d+j}$ (the paper has the sign the other way round). c) An epoch goes
through a permutation (`order="random"` draws, as the paper does). d) `step="newton"`: of the
logistic loss, the steps of some epochs are taken on its quadratic model, whose curvature is the
loss's own instead of 1/4, and a line search keeps the objective from rising. The squared loss is its
model. e) Weights at zero or at a bound that are pushed there are left out, until the gap is looked
at: then all are seen. f) With `step="newton"` and no bounds, where the support has settled, Newton
steps on it are tried, and go on while they pay (`support`): the gap's bound wants slopes that are
exact, which a step at one weight after the other makes slowly. g) The gap is that of the dual at
$\theta_i = L'(z_i)$, scaled where it must be.

DETCD is prose in the paper (Section 4): "the coordinate ... is chosen in a deterministic manner to
maximize a lower bound on the guaranteed decrease", which here is the decrease of the bound above.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.models.parameters import Integer, boolean
from streaml1.solvers.active_set_newton import FASTER, SLACK, Watch
from streaml1.solvers.coordinate_kernels import (
    bound_epoch,
    curvatures,
    greedy,
    model_epoch,
    products,
    slopes,
)
from streaml1.solvers.coordinate_problem import Run, bounds_of
from streaml1.solvers.data import Data, check_run, check_strength, choose, unable
from streaml1.solvers.sampling import ORDERS, RANDOM, arrange, generator
from streaml1.solvers.solution import Callback, Solution, Trace

__all__ = ["detcd", "scd"]

LOSSES = ("logistic", "squared")
STEPS = ("newton", "bound")

# Most epochs between two looks at all coordinates, and what part of the gap they are to leave.
EPOCHS = 10
PART = 0.1
SMALLER = 0.25  # where one epoch alone left less than that
HALVINGS = 60
DECREASE = 0.01  # of what the slope promises, as line searches have it
ROUNDING = 5e-16  # of the objective


def _setup(
    solver: str, X: Any, y: Any, loss: str, l1: Any, l2: Any, bounds: Any, fit_intercept: bool
) -> Run:
    choose(solver, "loss", loss, LOSSES)
    l1, l2 = check_strength("l1", l1), check_strength("l2", l2)
    data = Data(X, y, loss)
    linear, lower, upper = bounds_of(solver, data.d, *bounds)
    if not (l1 or l2 or np.isfinite(lower).all() and np.isfinite(upper).all()):
        raise unable(
            solver,
            "l1=0 beside l2=0",
            "without a penalty or bounds no gap is known; give a small l2, or use fista",
        )
    return Run(data, loss, l1, l2, linear, lower, upper, boolean("fit_intercept", fit_intercept))


def _line_search(run: Run, w: Any, z: Any, objective: float) -> None:
    """From w and its margins z towards the run's weights, as far as the objective falls."""
    p, d = run.problem, run.w - w
    run.accesses += int(products(p, run.w, run.z))
    dz = run.z - z
    slope = float(run.r @ dz) / run.n + float((p.c + p.l2 * w) @ d)
    slope += float(p.l1 @ (np.abs(run.w) - np.abs(w)))
    s, most = 1.0, objective + ROUNDING * abs(objective)
    for _ in range(HALVINGS):
        if run.objective() <= most + DECREASE * s * min(slope, 0.0):
            break
        s *= 0.5
        run.w[:], run.z[:] = w + s * d, z + s * dz
    else:
        run.w[:], run.z[:] = w, z
    slopes(run.loss, run.z, run.y, run.r)


def _sweep(
    run: Run, kernel: Any, state: tuple[Any, ...], how: int, dice: Any, target: float, most: int
) -> int:
    """Take up to `most` epochs over what may move, until the gap of it is small; how many."""
    pool, rest = np.empty(run.k, np.uint32), np.empty(run.k, np.uint32)
    order, far = np.empty(run.k, np.uint32), math.inf
    movable = run.movable()
    m = len(movable)
    pool[:m] = movable
    for epoch in range(1, most + 1):
        arrange(how, pool, m, dice, order)
        kept, moved, gap, over, read = kernel(run.problem, order, m, far, rest, *state, run.w)
        run.accesses += int(read)
        if how != RANDOM:
            pool, rest, m, far = rest, pool, int(kept), moved or math.inf
        if gap + over * float(np.abs(run.weights).sum()) <= target or not moved:
            return epoch
    return most


def _descend(run: Run, step: str, how: int, trace: Trace, dice: Any, every: int | None) -> None:
    h, H = np.ones(run.n), np.zeros(run.k)
    if run.exact or step == "bound":
        curvatures(run.problem, np.arange(run.k, dtype=np.uint32), h, H)
    beta = run.beta * H + run.problem.l2
    epoch, part, looks, watch = 0, PART, 0, Watch()
    bounded = np.isfinite(run.problem.lo).any() or np.isfinite(run.problem.hi).any()
    free = step == "newton" and every is None and not bounded
    settled = False
    while not trace.record(epoch, run.objective(), run.dual(), run.accesses, run.weights):
        objective, gap = trace.records[-1].objective, trace.records[-1].gap
        run.accesses += len(run.problem.values)  # the slopes tell who may move
        if settled:
            settled = gap <= FASTER * trace.records[-2].gap
            watch.told(settled)
            passes = run.polish(SLACK * trace.goal, trace.max_epochs - epoch) if settled else 0
            epoch += passes
            if passes:
                continue
        looks += 1
        # Early models are soon wrong: first one epoch, then two, ...
        longest = EPOCHS if run.exact else min(EPOCHS, looks)
        most = min(longest, every or EPOCHS, trace.max_epochs - epoch)
        rest = (how, dice, max(part * gap, 0.3 * trace.goal), most)
        if run.exact:
            taken = _sweep(run, model_epoch, (h, H, run.r), *rest)
            run.refresh()
        elif step == "bound":
            taken = _sweep(run, bound_epoch, (beta, run.z, run.r), *rest)
            run.refresh()
        else:
            w, z, t = run.w.copy(), run.z.copy(), run.r.copy()
            np.multiply(-t, 1.0 + t, out=h)
            run.accesses += int(curvatures(run.problem, run.movable(), h, H))
            taken = _sweep(run, model_epoch, (h, H, t), *rest)
            _line_search(run, w, z, objective)
        epoch += taken
        if taken == 1 < most:
            part *= SMALLER
        settled = free and watch.settled(run.w)


def scd(
    X: Any,
    y: Any,
    loss: str = "logistic",
    l1: float = 0.0,
    l2: float = 0.0,
    *,
    order: str = "permutation",
    step: str = "newton",
    linear: Any = 0.0,
    lower: Any = -math.inf,
    upper: Any = math.inf,
    fit_intercept: bool = False,
    tol: float = 1e-6,
    max_epochs: int = 1000,
    seed: int = 0,
    every: int | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Minimise the mean loss + l1 |w|_1 + l2/2 |w|^2, one weight after the other.

    Parameters
    ----------
    X
        A scipy.sparse or numpy matrix, a row an example.
    y
        Labels of the logistic loss, numbers of the squared loss.
    loss
        "logistic" or "squared".
    l1, l2
        The strengths of the penalties; not both 0, unless all weights have bounds.
    order
        "permutation": a new one each epoch; "random": drawn with replacement; "cyclic".
    step
        Of the logistic loss: "newton", on its quadratic model, with a line search; or "bound", by
        a bound on its curvature, as the paper has it.
    linear
        c of a term <c, w> beside the others, a number or one a weight.
    lower, upper
        Bounds of the weights, a number or one a weight.
    fit_intercept
        Whether there is an intercept, without penalty or bounds.
    tol
        The gap to reach.
    max_epochs
        The epochs to end after: passes over the weights that may move, of the columns they have.
    seed
        Of the order.
    every
        The most epochs between two looks at all coordinates, up to 10, and no Newton steps between
        them; None: as many as pay.
    callback
        Called with a record and the weights when all coordinates have been looked at; what is true
        ends the run.

    Returns
    -------
    Solution
        The weights, and the gap they were found with.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> scd(X, [3.0, 0.1], loss="squared", l1=0.5).weights
    array([1.25, 0.  ])

    With bounds and a linear term it solves the dual of the hinge loss, whose weights are sums of
    rows:

    >>> n, d, l2 = 2, 2, 0.5
    >>> A = (X * [[1], [-1]]).T
    >>> dual = scd(A * (d / l2) ** 0.5 / n, [0, 0], "squared", linear=-1 / n, lower=0, upper=1)
    >>> A @ dual.weights / (l2 * n)
    array([ 0.5, -1. ])
    """
    how = ORDERS[choose("scd", "order", order, tuple(ORDERS))]
    choose("scd", "step", step, STEPS)
    tol, max_epochs, seed = check_run(tol, max_epochs, seed)
    trace = Trace("scd", tol, max_epochs, callback)
    run = _setup("scd", X, y, loss, l1, l2, (linear, lower, upper), fit_intercept)
    every = every if every is None else Integer(1, EPOCHS)("every", every)
    _descend(run, step, how, trace, generator(seed), every)
    return trace.solution(run.weights.copy(), run.intercept)


def detcd(
    X: Any,
    y: Any,
    loss: str = "logistic",
    l1: float = 0.0,
    l2: float = 0.0,
    *,
    linear: Any = 0.0,
    lower: Any = -math.inf,
    upper: Any = math.inf,
    fit_intercept: bool = False,
    tol: float = 1e-6,
    max_epochs: int = 1000,
    seed: int = 0,
    every: int | None = None,
    callback: Callback | None = None,
) -> Solution:
    """Minimise as `scd` does, each step at the coordinate of the largest guaranteed decrease.

    A step looks at all weights, and changes the slopes of all that share an example with the one
    that moves: for wide data `scd` is faster by far. An epoch is a step for each weight there is.

    Parameters
    ----------
    X, y, loss, l1, l2, linear, lower, upper, fit_intercept, tol, callback
        As of `scd`.
    max_epochs
        The epochs to end after.
    seed
        Changes nothing: nothing is drawn.
    every
        How many steps there are between two records; None: one for each weight.

    Returns
    -------
    Solution
        The weights, and the gap they were found with.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[2.0, 0.0], [0.0, 1.0]])
    >>> detcd(X, [3.0, 0.1], loss="squared", l1=0.5).weights
    array([1.25, 0.  ])
    """
    tol, max_epochs, _ = check_run(tol, max_epochs, seed)
    trace = Trace("detcd", tol, max_epochs, callback)
    run = _setup("detcd", X, y, loss, l1, l2, (linear, lower, upper), fit_intercept)
    p, rows, H = run.problem, run.signed_rows(), np.zeros(run.k)
    curvatures(p, np.arange(run.k, dtype=np.uint32), np.ones(run.n), H)
    beta = run.beta * H + p.l2
    v, epoch, steps = np.empty(run.k), 0, 0
    every = run.k if every is None else Integer(1, 2**31 - 1)("every", every)
    while not trace.record(epoch, run.objective(), run.dual(), run.accesses, run.weights):
        # The slopes of the weights themselves, not those of the dual that the gap was told by.
        run.pull(run.r, v)
        if len(trace.records) == 1:
            run.accesses += len(p.values)  # steps keep them
        done, read = greedy(run.loss, p, *rows, every, beta, run.z, v, run.w)
        run.accesses += int(read)
        steps += int(done)
        epoch = steps // run.k if done else max_epochs
        run.refresh()
    return trace.solution(run.weights.copy(), run.intercept)
