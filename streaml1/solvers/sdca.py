r"""Stochastic dual coordinate ascent (SDCA).

Shalev-Shwartz & Zhang (2013), the slides "Dual Coordinate Ascent (DCA)" and "SDCA vs. SGD - update
rule". With $\lambda$ the l2 strength,

$$P(w) = \frac 1n \sum_i \phi_i(w^\top x_i) + \frac\lambda2 |w|^2, \qquad
D(\alpha) = \frac 1n \sum_i -\phi_i^*(-\alpha_i)
- \frac\lambda2 \Big|\frac{1}{\lambda n} \sum_i \alpha_i x_i\Big|^2$$

$$\Delta_i = \arg\max_\Delta D(\alpha + \Delta e_i), \qquad \alpha_i \mathrel{+}= \Delta_i, \qquad
w \mathrel{+}= \frac{\Delta_i}{\lambda n} x_i$$

D never falls, and P(w) - D, never negative, bounds how far P(w) is above the optimum: it is what
the run ends by.

Differences from the paper: a) An epoch is n steps, by default through a new permutation of the
examples; `order="random"` draws with replacement, as the paper does. b) The logistic loss has no
closed form: Newton steps between bounds, ended once the dual has surely risen. c) Examples that
are pushed against a bound of their dual variable, harder than any other was moved in the epoch
before, are left out until the rest is solved; then all come back (not with `order="random"`).
d) The gap takes a pass over the data, so its parts are added up as the examples come by; it is
looked at when these say that it may be small enough, and after 8, 16, 32, ... epochs. For that w
is summed anew. e) No intercept: without a penalty it would tie the dual variables,
$\sum_i \alpha_i = 0$, and no single one could move. f) The squared loss is halved.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import kernel
from streaml1.optim.losses import CODES
from streaml1.optim.tasks import CLASSIFICATION, REGRESSION
from streaml1.solvers.active_examples import Pool, ascend
from streaml1.solvers.data import (
    Data,
    check_ridge,
    check_run,
    check_strength,
    choose,
    no_intercept,
    unable,
)
from streaml1.solvers.dual_steps import step
from streaml1.solvers.multiclass_sdca import multiclass_sdca
from streaml1.solvers.objective import conjugate, pulled_back, value
from streaml1.solvers.sampling import ONE, ORDERS, add, dot, fetch_next, generator, squares
from streaml1.solvers.solution import Callback, Solution, Trace

__all__ = ["sdca"]

LOSSES = (*CLASSIFICATION, *REGRESSION, "multiclass_hinge")


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
    order: Any,
    m: Any,
    far: float,
    rest: Any,
    alpha: Any,
    w: Any,
) -> Any:
    """Take the first `m` steps of `order`; q_i is scale |x_i|^2, `scale` 1 / (lambda n).

    Returns
    -------
    tuple
        How many examples stay, put into `rest`; the furthest that a margin was moved by its own
        step; the sum of the parts of the gap; how many entries were read.
    """
    kept, m = np.uint64(0), np.uint64(m)
    most, gap, read = 0.0, 0.0, np.uint64(0)
    for t in range(m):
        i = np.uint64(order[t])
        lo, hi = indptr[i], indptr[i + ONE]
        fetch_next(ids, values, indptr, order, t, m)
        a = dot(ids, values, lo, hi, w)
        before = alpha[i]
        read += hi - lo
        resting, after, part = step(loss, a, before, y[i], q[i], gamma, far)
        if resting:
            continue
        rest[kept] = i
        kept += ONE
        gap += part
        if after != before:
            most = max(most, abs(after - before) * q[i])
            alpha[i] = after
            add(ids, values, lo, hi, (after - before) * scale, w)
            read += hi - lo
    return kept, most, gap, read


@kernel
def _bounds(
    loss: int, gamma: float, ids: Any, values: Any, indptr: Any, y: Any, alpha: Any, w: Any
) -> Any:
    """The sums of phi(w x) and of phi*(-alpha)."""
    primal, dual = 0.0, 0.0
    for i in range(np.uint64(len(y))):
        a = dot(ids, values, indptr[i], indptr[i + ONE], w)
        primal += value(loss, a, y[i], gamma)
        dual += conjugate(loss, -alpha[i], y[i], gamma)
    return primal, dual


def sdca(
    X: Any,
    y: Any,
    loss: str = "logistic",
    l1: float = 0.0,
    l2: float = 1e-4,
    *,
    gamma: float = 1.0,
    order: str = "permutation",
    cost: Any = None,
    fit_intercept: bool = False,
    tol: float = 1e-6,
    max_epochs: int = 1000,
    seed: int = 0,
    callback: Callback | None = None,
) -> Solution:
    """Minimise the mean loss + l2/2 |w|^2, one dual variable after the other.

    Parameters
    ----------
    X
        A scipy.sparse or numpy matrix, a row an example.
    y
        Labels of classifiers, numbers of regressors, any labels of "multiclass_hinge".
    loss
        "logistic", "hinge", "smoothed_hinge", "squared", "absolute" or "multiclass_hinge".
    l1
        Must be 0: `prox_sdca` takes it.
    l2
        The strength of the penalty, above 0.
    gamma
        The width of the smoothed hinge.
    order
        "permutation": a new one each epoch; "random": drawn with replacement; "cyclic".
    cost
        Of "multiclass_hinge": `cost[i, j]` is what the answer j costs where the label is i, of
        labels sorted; 0 on the diagonal. None: 1 for any wrong answer.
    fit_intercept
        Must be False: add a column of ones, whose weight is then penalised as others are.
    tol
        The gap to reach.
    max_epochs
        The passes over the data to end after.
    seed
        Of the order.
    callback
        Called after each epoch, with a record and the weights; what is true ends the run.

    Returns
    -------
    Solution
        Weights (of "multiclass_hinge" a row a class), and the gap they were found with.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> solution = sdca(X, [1, 0, 1], loss="hinge", l2=0.1)
    >>> solution.weights.round(3), solution.converged
    (array([ 2., -1.]), True)
    """
    choose("sdca", "loss", loss, LOSSES)
    how = ORDERS[choose("sdca", "order", order, tuple(ORDERS))]
    tol, max_epochs, seed = check_run(tol, max_epochs, seed)
    l2 = check_ridge("sdca", l1, l2)
    no_intercept("sdca", fit_intercept)
    gamma = check_strength("gamma", gamma, above_zero=True)
    trace = Trace("sdca", tol, max_epochs, callback)
    data = Data(X, y, loss)
    if loss == "multiclass_hinge":
        return multiclass_sdca(data, l2, cost, Pool(how, data.n, generator(seed)), trace)
    if cost is not None:
        raise unable("sdca", f"cost= with loss={loss!r}", 'it is for loss="multiclass_hinge"')
    return _solve(data, CODES[loss], l2, gamma, Pool(how, data.n, generator(seed)), trace)


def _solve(data: Data, loss: int, l2: float, gamma: float, pool: Pool, trace: Trace) -> Solution:
    rows, n, scale = data.rows, data.n, 1.0 / (l2 * data.n)
    q, alpha = np.empty(n), np.zeros(n)
    squares(rows.values, rows.indptr, q)
    q *= scale
    w, exact = np.zeros(data.d), np.zeros(data.d)

    def epoch() -> float:
        kept, most, gap, read = _epoch(loss, gamma, *rows, data.y, q, scale, *pool.turn(), alpha, w)
        pool.taken(kept, most, read)
        return float(gap) / n

    def look(number: int) -> bool:
        pulled_back(*rows, alpha, scale, exact)
        primal, dual = _bounds(loss, gamma, *rows, data.y, alpha, exact)
        norm = 0.5 * l2 * float(np.vdot(exact, exact))
        return trace.record(number, primal / n + norm, -dual / n - norm, pool.accesses, exact)

    ascend(pool, trace, epoch, look)
    return trace.solution(exact)
