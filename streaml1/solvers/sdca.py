r"""Stochastic dual coordinate ascent (SDCA).

Shalev-Shwartz & Zhang (2013), the slides "Dual Coordinate Ascent (DCA)" and "SDCA vs. SGD - update
rule". With $\lambda$ the strength of the l2 penalty,

$$P(w) = \frac 1n \sum_i \phi_i(w^\top x_i) + \frac\lambda2 |w|^2, \qquad
D(\alpha) = \frac 1n \sum_i -\phi_i^*(-\alpha_i)
- \frac\lambda2 \Big|\frac{1}{\lambda n} \sum_i \alpha_i x_i\Big|^2$$

$$\Delta_i = \arg\max_\Delta D(\alpha + \Delta e_i), \qquad \alpha_i \mathrel{+}= \Delta_i, \qquad
w \mathrel{+}= \frac{\Delta_i}{\lambda n} x_i$$

D never decreases. The gap P(w) - D >= 0 bounds the distance of P(w) from the optimum; a run ends
when it is small.

Differences from the paper:

a) An epoch is n steps, by default over a permutation of the examples; `order="random"` draws with
   replacement, as the paper does.
b) The logistic loss has no closed form: its step is found iteratively between bounds, and stops
   once the dual has certainly risen.
c) Examples that are pushed against a bound of their dual variable, by more than the largest change
   of a margin in the previous epoch, are dropped until the others are solved. Then all come back.
   `order="random"` drops none.
d) The exact gap takes a pass over the data. An estimate is summed up during the epoch; the exact
   gap is computed if the estimate is small, and after 8, 16, 32, ... epochs. It recomputes w
   against rounding.
e) There is no intercept: without a penalty it would couple the dual variables by
   $\sum_i \alpha_i = 0$, and no single one could change.
f) The squared loss is $(a - y)^2 / 2$.

`shards` divides the examples (CoCoA+, see `sharded_ascent`).

With an l2 far below the mean of $|x_i|^2 / n$ the steps become slow; `prox_sdca` with l1 = 0 solves
the same problem in stages.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streaml1.core.jit import kernel, u64
from streaml1.optim.losses import CODES
from streaml1.solvers.active_examples import ActiveSet, ascend
from streaml1.solvers.data import (
    Data,
    MatrixLike,
    check_choice,
    check_ridge,
    check_run,
    check_strength,
    column_of_ones,
    reject_intercept,
    unsupported,
)
from streaml1.solvers.dual_steps import dual_step
from streaml1.solvers.multiclass_sdca import multiclass_sdca
from streaml1.solvers.objective import conjugate, value, weighted_row_sum
from streaml1.solvers.parameter_docs import share_parameter_docs
from streaml1.solvers.sampling import (
    ORDERS,
    axpy,
    dot,
    prefetch_next_row,
    rng_state,
    row_squared_norms,
)
from streaml1.solvers.sharded_ascent import (
    TaskRunner,
    ascend_shards,
    check_shards,
    equal_shards,
)
from streaml1.solvers.solution import Callback, Solution, Trace

__all__ = ["sdca"]

LOSSES = ("logistic", "hinge", "smoothed_hinge", "squared", "absolute", "multiclass_hinge")


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
    threshold: float,
    still_active: Any,
    alpha: Any,
    w: Any,
) -> Any:
    """Take a step at each of the first m examples of `order`.

    Parameters
    ----------
    loss, gamma
        A value of `CODES`, and the width of the smoothed hinge.
    ids, values, indptr, y
        Rows and labels.
    q
        Sensitivity of each margin to its own step, scale |x_i|^2.
    scale
        1 / (lambda n).
    order, m, threshold, still_active
        See `EpochPlan`.
    alpha, w
        Dual variables and weights; kept consistent.

    Returns
    -------
    tuple
        Examples that remain active; the largest change of a margin by its own step; the sum of the
        examples' shares of the gap; entries read.
    """
    n_active, m = u64(0), np.uint64(m)
    max_move, gap, n_read = 0.0, 0.0, u64(0)
    for t in range(m):
        i = np.uint64(order[t])
        lo, hi = indptr[i], indptr[i + u64(1)]
        prefetch_next_row(ids, values, indptr, order, t, m)
        a = dot(ids, values, lo, hi, w)
        before = alpha[i]
        n_read += hi - lo
        is_resting, after, share = dual_step(loss, a, before, y[i], q[i], gamma, threshold)
        if is_resting:
            continue
        still_active[n_active] = i
        n_active += u64(1)
        gap += share
        if after != before:
            max_move = max(max_move, abs(after - before) * q[i])
            alpha[i] = after
            axpy(ids, values, lo, hi, (after - before) * scale, w)
            n_read += hi - lo
    return n_active, max_move, gap, n_read


@kernel
def _objective_sums(
    loss: int, gamma: float, ids: Any, values: Any, indptr: Any, y: Any, alpha: Any, w: Any
) -> Any:
    """Return the sums of phi(w' x_i) and of phi*(-alpha_i)."""
    primal, dual = 0.0, 0.0
    for i in range(np.uint64(len(y))):
        a = dot(ids, values, indptr[i], indptr[i + u64(1)], w)
        primal += value(loss, a, y[i], gamma)
        dual += conjugate(loss, -alpha[i], y[i], gamma)
    return primal, dual


@share_parameter_docs
def sdca(
    X: MatrixLike,
    y: ArrayLike,
    loss: str = "logistic",
    l1: float = 0.0,
    l2: float = 1e-4,
    *,
    gamma: float = 1.0,
    order: str = "permutation",
    cost: ArrayLike | None = None,
    fit_intercept: bool = False,
    tol: float = 1e-6,
    max_epochs: int = 1000,
    seed: int = 0,
    callback: Callback | None = None,
    shards: int = 1,
    executor: TaskRunner | None = None,
) -> Solution:
    """Minimize mean loss + l2/2 |w|^2 by dual coordinate ascent.

    Parameters
    ----------
    {X}
    y
        Labels of a classifier, numbers for a regression loss, any labels for "multiclass_hinge".
    loss
        "logistic", "hinge", "smoothed_hinge", "squared", "absolute" or "multiclass_hinge".
    {l1_must_be_zero}
    {l2_positive}
    {gamma}
    {order}
    cost
        For "multiclass_hinge": `cost[i, j]` is the cost of predicting j for label i, where labels
        are sorted, shape (k, k), with zeros on the diagonal. None: 1 for each wrong label.
    {no_intercept}
    {tol}
    {max_epochs}
    {order_seed}
    {callback}
    {shards}

    Returns
    -------
    {solution}

    References
    ----------
    Shalev-Shwartz, S. and Zhang, T., 2013. Stochastic dual coordinate ascent methods for
    regularized loss minimization. JMLR 14.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> solution = sdca(X, [1, 0, 1], loss="hinge", l2=0.1)
    >>> solution.weights.round(3), solution.converged
    (array([ 2., -1.]), True)
    """
    check_choice("sdca", "loss", loss, LOSSES)
    order_kind = ORDERS[check_choice("sdca", "order", order, tuple(ORDERS))]
    tol, max_epochs, seed = check_run(tol, max_epochs, seed)
    l2 = check_ridge("sdca", l1, l2, loss)
    reject_intercept("sdca", fit_intercept, column_of_ones(loss))
    gamma = check_strength("gamma", gamma, above_zero=True)
    trace = Trace("sdca", tol, max_epochs, callback)
    data = Data(X, y, loss)
    active = ActiveSet(order_kind, data.n, rng_state(seed))
    shards = check_shards("sdca", shards, l2, executor)
    if loss == "multiclass_hinge":
        if shards > 1:
            raise unsupported("sdca", f"shards={shards} with loss={loss!r}", "use shards=1")
        return multiclass_sdca(data, l2, cost, active, trace)
    if cost is not None:
        raise unsupported("sdca", f"cost= with loss={loss!r}", 'use loss="multiclass_hinge"')
    if shards > 1:
        return ascend_shards(
            data, CODES[loss], gamma, 0.0, l2, equal_shards(data, shards), order_kind, seed, trace,
            executor,
        )  # fmt: skip
    return _solve(data, CODES[loss], l2, gamma, active, trace)


def _solve(
    data: Data, loss: int, l2: float, gamma: float, active: ActiveSet, trace: Trace
) -> Solution:
    rows, n, scale = data.rows, data.n, 1.0 / (l2 * data.n)
    q, alpha = np.empty(n), np.zeros(n)
    row_squared_norms(rows.values, rows.indptr, q)
    q *= scale
    # The steps update w; the gap uses weights that are recomputed from alpha.
    w, exact = np.zeros(data.d), np.zeros(data.d)

    def run_epoch() -> float:
        plan = active.plan_epoch()
        n_active, max_move, gap, n_read = _epoch(
            loss, gamma, *rows, data.y, q, scale, *plan, alpha, w
        )
        active.shrink(n_active, max_move, n_read)
        return float(gap) / n

    def record(epoch: int) -> bool:
        weighted_row_sum(*rows, alpha, scale, exact)
        primal, dual = _objective_sums(loss, gamma, *rows, data.y, alpha, exact)
        norm = 0.5 * l2 * float(np.vdot(exact, exact))
        return trace.record(epoch, primal / n + norm, -dual / n - norm, active.accesses, exact)

    ascend(active, trace, run_epoch, record)
    return trace.solution(exact)
