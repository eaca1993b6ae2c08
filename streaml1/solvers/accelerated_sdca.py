r"""Accelerated stochastic dual coordinate ascent with mini-batches (ASDCA).

Shalev-Shwartz & Zhang (2013), the slides "Interpolating between accelerated gradient and SDCA", give
its rates and not the algorithm. It is that of their paper on accelerated mini-batch SDCA (also of
2013): with $\bar\alpha = \frac{1}{\lambda n} \sum_i \alpha_i x_i$, losses that are $(1/\gamma)$-smooth and rows of at most
length 1, an iteration over a batch I of m examples is

$$u = (1 - \theta)\,w + \theta\bar\alpha, \qquad
\alpha_i \leftarrow (1 - \theta)\,\alpha_i - \theta\,\phi_i'(u^\top x_i) \text{ for } i \in I, \qquad
w \leftarrow (1 - \theta)\,w + \theta\bar\alpha$$

$$\theta = \tfrac14 \min\Bigl\{1,\ \sqrt{\gamma\lambda n/m},\ \gamma\lambda n,\ (\gamma\lambda n)^{2/3}/m^{1/3}\Bigr\}$$

Differences from it: a) Rows of any length: $\gamma$ is divided by the largest $|x_i|^2$. b) The batches of an
epoch are a permutation of the examples, cut into pieces. c) The dense vectors move by sparse steps:
stored are $\bar\alpha$ and z with $w = \bar\alpha + s z$; then $u = \bar\alpha + (1 - \theta) s z$, a change $\delta$ of
$\bar\alpha$ changes z by $-\delta/s$, and s becomes $(1 - \theta) s$. d) Neither P(w) nor D falls or rises at every step;
the gap between them, which ends the run, bounds both all the same.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import kernel
from streaml1.models.parameters import Integer
from streaml1.optim.losses import CODES
from streaml1.solvers.data import Data, check_ridge, check_run, check_strength, choose, no_intercept
from streaml1.solvers.dual_steps import gap_of, logit_of
from streaml1.solvers.objective import (
    conjugates,
    curvature,
    derivative,
    margins,
    mean_loss,
    pulled_back,
)
from streaml1.solvers.sampling import ONE, PERMUTATION, arrange, fetch_next, generator, squares
from streaml1.solvers.solution import Callback, Solution, Trace

__all__ = ["accelerated_sdca"]

LOSSES = ("logistic", "smoothed_hinge", "squared")
S_LEAST = 1e-60
ALPHA, Z = np.uint64(0), np.uint64(1)


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
    """Go through the batches of `order`, as long as `a` each; `pair` holds the mean and z.

    Returns the new s, and the sum of the parts of the gap as they were met.
    """
    n: Any = np.uint64(len(order))
    m: Any = np.uint64(len(a))
    gap = 0.0
    for number in range(np.uint64((n + m - ONE) // m)):
        first = np.uint64(number) * m
        size = min(m, n - first)
        part = (1.0 - theta) * s
        for t in range(size):
            i = np.uint64(order[first + t])
            fetch_next(ids, values, indptr, order, first + t, n)
            one, other = 0.0, 0.0
            for k in range(indptr[i], indptr[i + ONE]):
                j = np.uint64(ids[k])
                one += pair[j, ALPHA] * values[k]
                other += pair[j, Z] * values[k]
            a[t] = one + part * other
        for t in range(size):
            i = np.uint64(order[first + t])
            logit = logit_of(loss, alpha[i], y[i])
            gap += gap_of(loss, a[t], alpha[i], logit, y[i], gamma)
            change = -theta * (derivative(loss, a[t], y[i], gamma) + alpha[i])
            alpha[i] += change
            change *= scale
            back = change / s
            for k in range(indptr[i], indptr[i + ONE]):
                j = np.uint64(ids[k])
                pair[j, ALPHA] += change * values[k]
                pair[j, Z] -= back * values[k]
        s = part
        if s < S_LEAST:
            for feature in range(np.uint64(len(pair))):
                pair[feature, Z] *= s
            s = 1.0
    return s, gap


def accelerated_sdca(
    X: Any,
    y: Any,
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
    """Minimise the mean loss + l2/2 |w|^2, a batch of dual variables after the other.

    Parameters
    ----------
    X
        A scipy.sparse or numpy matrix, a row an example.
    y
        Labels of classifiers, numbers of the squared loss.
    loss
        "logistic", "smoothed_hinge" or "squared".
    l1
        Must be 0: `prox_sdca` takes it.
    l2
        The strength of the penalty, above 0.
    batch
        How many examples are looked at before the weights move.
    gamma
        The width of the smoothed hinge.
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
        The weights, and the gap they were found with.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> accelerated_sdca(X, [2.0, 1.0, 3.0], loss="squared", l2=1.0, batch=2).weights.round(3)
    array([0.875, 0.625])
    """
    solver = "accelerated_sdca"
    choose(solver, "loss", loss, LOSSES)
    tol, max_epochs, seed = check_run(tol, max_epochs, seed)
    l2 = check_ridge(solver, l1, l2)
    no_intercept(solver, fit_intercept)
    gamma = check_strength("gamma", gamma, above_zero=True)
    m = Integer(1, 2**31 - 1)("batch", batch)
    trace = Trace(solver, tol, max_epochs, callback)
    return _solve(Data(X, y, loss), loss, l2, gamma, m, trace, generator(seed))


def _rate(smooth: float, n: int, m: int) -> float:
    """The theta of gamma lambda, n and m."""
    g = smooth * n
    return 0.25 * min(1.0, math.sqrt(g / m), g, float(g ** (2 / 3) / m ** (1 / 3)))


def _solve(
    data: Data, loss: str, l2: float, gamma: float, batch: int, trace: Trace, dice: Any
) -> Solution:
    rows, n, code, scale = data.rows, data.n, CODES[loss], 1.0 / (l2 * data.n)
    length = np.empty(n)
    squares(rows.values, rows.indptr, length)
    longest = float(length.max())
    m = min(batch, n)
    theta = _rate(l2 / (curvature(loss, gamma) * longest), n, m) if longest else 0.25
    alpha, pair, s = np.zeros(n), np.zeros((data.d, 2)), 1.0
    mean, w, a = np.zeros(data.d), np.zeros(data.d), np.empty(n)
    every = np.arange(n, dtype=np.uint32)
    order = every.copy()

    def look(epoch: int) -> bool:
        pulled_back(*rows, alpha, scale, mean)
        w[:] = mean + s * pair[:, 1]
        margins(*rows, w, 0.0, a)
        primal = mean_loss(code, a, data.y, gamma) + 0.5 * l2 * float(np.vdot(w, w))
        dual = -conjugates(code, -alpha, data.y, gamma, 1.0) - 0.5 * l2 * float(np.vdot(mean, mean))
        return trace.record(epoch, primal, dual, 2 * epoch * data.nnz, w)

    epoch, done = 0, look(0)
    while not done:
        arrange(PERMUTATION, every, n, dice, order)
        s, gap = _epoch(
            *(code, gamma, *rows, data.y, scale, theta, order, s, alpha, pair, np.empty(m)),
        )
        epoch += 1
        if gap / n <= trace.goal or trace.due(epoch):
            done = look(epoch)
    return trace.solution(w)
