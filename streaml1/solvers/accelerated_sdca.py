r"""Accelerated stochastic dual coordinate ascent with mini-batches (ASDCA).

The slides "Interpolating between accelerated gradient and SDCA" of Shalev-Shwartz & Zhang (2013) give
its rates, but not the algorithm. It is that of their paper "Accelerated mini-batch stochastic dual
coordinate ascent" (NIPS 2013). With $\bar\alpha = \frac{1}{\lambda n} \sum_i \alpha_i x_i$, losses that are
$(1/\gamma)$-smooth and rows of at most unit l2 norm, an iteration over a batch I of m examples is

$$u = (1 - \theta)\,w + \theta\bar\alpha, \qquad
\alpha_i \leftarrow (1 - \theta)\,\alpha_i - \theta\,\phi_i'(u^\top x_i) \text{ for } i \in I, \qquad
w \leftarrow (1 - \theta)\,w + \theta\bar\alpha$$

$$\theta = \tfrac14 \min\Bigl\{1,\ \sqrt{\gamma\lambda n/m},\ \gamma\lambda n,\ (\gamma\lambda n)^{2/3}/m^{1/3}\Bigr\}$$

Differences from it:

a) Rows may have any norm: $\gamma$ is divided by the largest $|x_i|^2$.
b) The batches of an epoch partition a permutation of the examples.
c) Dense vectors are updated by sparse steps. Stored are $\bar\alpha$ and z with $w = \bar\alpha + s z$. Then
   $u = \bar\alpha + (1 - \theta) s z$, a change $\delta$ of $\bar\alpha$ changes z by $-\delta/s$, and s becomes
   $(1 - \theta) s$.
d) Neither P(w) nor D is monotone. The gap between them, which ends the run, is a valid bound anyway.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streaml1.core.jit import kernel, u64
from streaml1.core.types import Hashes
from streaml1.models.parameter_checks import Integer
from streaml1.optim.losses import CODES
from streaml1.solvers.data import (
    Data,
    MatrixLike,
    check_choice,
    check_ridge,
    check_run,
    check_strength,
    column_of_ones,
    reject_intercept,
)
from streaml1.solvers.dual_steps import example_gap, label_logit
from streaml1.solvers.objective import (
    curvature_bound,
    derivative,
    margins,
    mean_conjugate,
    mean_loss,
    weighted_row_sum,
)
from streaml1.solvers.parameter_docs import share_parameter_docs
from streaml1.solvers.sampling import (
    PERMUTATION,
    fill_order,
    prefetch_next_row,
    rng_state,
    row_squared_norms,
)
from streaml1.solvers.solution import Callback, Solution, Trace

__all__ = ["accelerated_sdca"]

LOSSES = ("logistic", "smoothed_hinge", "squared")
MIN_S = 1e-60  # z is rescaled below it, so that 1/s does not overflow
ALPHA, Z = u64(0), u64(1)  # columns of `pair`


@kernel
def _epoch(
    loss: int,
    gamma: float,
    ids: Any,
    values: Any,
    indptr: Any,
    y: Any,
    scale: float,
    theta: float,
    order: Any,
    s: float,
    alpha: Any,
    pair: Any,
    a: Any,
) -> Any:
    """Take a step at each batch of `order`.

    Parameters
    ----------
    loss, gamma
        A value of `CODES`, and the width of the smoothed hinge.
    ids, values, indptr, y
        Rows and labels.
    scale
        1 / (lambda n).
    theta
        Momentum parameter.
    order
        All examples, in the order of the batches.
    s
        Scale of z.
    alpha
        Dual variables; kept consistent with `pair`.
    pair
        The mean of the alpha_i x_i and z, next to each other for each feature, shape (d, 2).
    a
        A buffer for the margins; its length is the batch size.

    Returns
    -------
    tuple
        The new s, and the sum of the examples' shares of the gap, each before its step.
    """
    n: Any = np.uint64(len(order))
    m: Any = np.uint64(len(a))
    gap = 0.0
    for number in range(np.uint64((n + m - u64(1)) // m)):
        first = np.uint64(number) * m
        size = min(m, n - first)
        next_s = (1.0 - theta) * s
        for t in range(size):
            i = np.uint64(order[first + t])
            prefetch_next_row(ids, values, indptr, order, first + t, n)
            on_alpha, on_z = 0.0, 0.0
            for k in range(indptr[i], indptr[i + u64(1)]):
                j = np.uint64(ids[k])
                on_alpha += pair[j, ALPHA] * values[k]
                on_z += pair[j, Z] * values[k]
            a[t] = on_alpha + next_s * on_z
        for t in range(size):
            i = np.uint64(order[first + t])
            logit = label_logit(loss, alpha[i], y[i])
            gap += example_gap(loss, a[t], alpha[i], logit, y[i], gamma)
            change = -theta * (derivative(loss, a[t], y[i], gamma) + alpha[i])
            alpha[i] += change
            change *= scale
            z_change = change / s
            for k in range(indptr[i], indptr[i + u64(1)]):
                j = np.uint64(ids[k])
                pair[j, ALPHA] += change * values[k]
                pair[j, Z] -= z_change * values[k]
        s = next_s
        if s < MIN_S:
            for feature in range(np.uint64(len(pair))):
                pair[feature, Z] *= s
            s = 1.0
    return s, gap


@share_parameter_docs
def accelerated_sdca(
    X: MatrixLike,
    y: ArrayLike,
    loss: str = "logistic",
    l1: float = 0.0,
    l2: float = 1e-4,
    *,
    batch: int = 16,
    gamma: float = 1.0,
    fit_intercept: bool = False,
    tol: float = 1e-6,
    max_epochs: int = 1000,
    seed: int = 0,
    callback: Callback | None = None,
) -> Solution:
    """Minimize mean loss + l2/2 |w|^2 by accelerated mini-batch dual coordinate ascent.

    Parameters
    ----------
    {X}
    y
        Labels of a classifier, or numbers for the squared loss.
    loss
        "logistic", "smoothed_hinge" or "squared".
    {l1_must_be_zero}
    {l2_positive}
    batch
        Examples per step.
    {gamma}
    {no_intercept}
    {tol}
    {max_epochs}
    {order_seed}
    {callback}

    Returns
    -------
    {solution}

    References
    ----------
    Shalev-Shwartz, S. and Zhang, T., 2013. Accelerated mini-batch stochastic dual coordinate
    ascent. NIPS.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> accelerated_sdca(X, [2.0, 1.0, 3.0], loss="squared", l2=1.0, batch=2).weights.round(3)
    array([0.875, 0.625])
    """
    solver = "accelerated_sdca"
    check_choice(solver, "loss", loss, LOSSES)
    tol, max_epochs, seed = check_run(tol, max_epochs, seed)
    l2 = check_ridge(solver, l1, l2, loss)
    reject_intercept(solver, fit_intercept, column_of_ones(loss))
    gamma = check_strength("gamma", gamma, above_zero=True)
    m = Integer(1, 2**31 - 1)("batch", batch)
    trace = Trace(solver, tol, max_epochs, callback)
    return _solve(Data(X, y, loss), loss, l2, gamma, m, trace, rng_state(seed))


def _momentum(smoothness: float, n: int, m: int) -> float:
    """Return theta for gamma lambda = `smoothness`, n examples and batches of m."""
    g = smoothness * n
    return 0.25 * min(1.0, math.sqrt(g / m), g, float(g ** (2 / 3) / m ** (1 / 3)))


def _solve(
    data: Data, loss: str, l2: float, gamma: float, batch: int, trace: Trace, rng: Hashes
) -> Solution:
    rows, n, code, scale = data.rows, data.n, CODES[loss], 1.0 / (l2 * data.n)
    norms = np.empty(n)
    row_squared_norms(rows.values, rows.indptr, norms)
    largest = float(norms.max())
    m = min(batch, n)
    theta = _momentum(l2 / (curvature_bound(loss, gamma) * largest), n, m) if largest else 0.25
    alpha, pair, s = np.zeros(n), np.zeros((data.d, 2)), 1.0
    mean, w, a = np.zeros(data.d), np.zeros(data.d), np.empty(n)
    examples = np.arange(n, dtype=np.uint32)
    order = examples.copy()

    def record(epoch: int) -> bool:
        weighted_row_sum(*rows, alpha, scale, mean)
        w[:] = mean + s * pair[:, 1]
        margins(*rows, w, 0.0, a)
        primal = mean_loss(code, a, data.y, gamma) + 0.5 * l2 * float(np.vdot(w, w))
        conjugate = mean_conjugate(code, -alpha, data.y, gamma, 1.0)
        dual = -conjugate - 0.5 * l2 * float(np.vdot(mean, mean))
        return trace.record(epoch, primal, dual, 2 * epoch * data.nnz, w)

    epoch, done = 0, record(0)
    while not done:
        fill_order(PERMUTATION, examples, n, rng, order)
        s, gap = _epoch(
            *(code, gamma, *rows, data.y, scale, theta, order, s, alpha, pair, np.empty(m)),
        )
        epoch += 1
        if gap / n <= trace.target_gap or trace.is_due(epoch):
            done = record(epoch)
    return trace.solution(w)
