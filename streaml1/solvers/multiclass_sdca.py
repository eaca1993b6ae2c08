r"""SDCA for the multiclass hinge loss with costs.

Shalev-Shwartz & Zhang (2013), the slide "Structured Output Learning", with
$\psi(x, j)$ = x in the place of class j, so that the margins are $v_j = w_j^\top x$:

$$\phi_i(v) = \max_j \bigl(\delta(j, y_i) - v_{y_i} + v_j\bigr)$$

The dual variables of an example are a distribution over the classes, $p = e_{y_i} - \alpha_i$, and

$$D = \frac 1n \sum_i \sum_j \delta(j, y_i)\, p_{ij} - \frac\lambda2 \sum_j |w_j|^2, \qquad
w_j = \frac{1}{\lambda n} \sum_i \bigl([y_i = j] - p_{ij}\bigr)\, x_i$$

The best p of one example, the others as they are, is the Euclidean projection of
$p + (\delta + v)/q$, $q = |x_i|^2/(\lambda n)$, onto the simplex: all k variables in one step.

Differences from the paper: a) it leaves the step open, and names the Frank-Wolfe step of
Lacoste-Julien et al.; here it is the exact maximum. b) An example whose p is one class alone, and
stays so by more than any margin was moved in the epoch before, is left out until the rest is solved.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.solvers.active_examples import Pool, ascend
from streaml1.solvers.data import Data, floats, unable
from streaml1.solvers.sampling import ONE, squares
from streaml1.solvers.solution import Solution, Trace

__all__ = ["multiclass_sdca"]

TINY = 1e-200  # a row that moves no margin


@inlined
def _margins(ids: Any, values: Any, lo: Any, hi: Any, W: Any, v: Any) -> None:
    k = np.uint64(len(v))
    for j in range(k):
        v[j] = 0.0
    for at in range(lo, hi):
        row, x = np.uint64(ids[at]), values[at]
        for j in range(k):
            v[j] += W[row, j] * x


@inlined
def _top(u: Any) -> Any:
    best: Any = np.uint64(0)
    for j in range(np.uint64(len(u))):
        if u[j] > u[best]:
            best = j
    return best


@inlined
def _project(u: Any) -> None:
    """Project onto the simplex: the threshold rises until it takes in all that are above it."""
    k = np.uint64(len(u))
    shift = u[_top(u)]  # so that 1 beside it is not lost in rounding
    for j in range(k):
        u[j] -= shift
    threshold = -math.inf
    for _ in range(k):
        total, above = -1.0, 0
        for j in range(k):
            if u[j] > threshold:
                total += u[j]
                above += 1
        if total / above <= threshold:
            break
        threshold = total / above
    for j in range(k):
        u[j] = max(0.0, u[j] - threshold)


@kernel
def _epoch(
    cost: Any,
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
    p: Any,
    W: Any,
    v: Any,
) -> Any:
    """Take the first `m` steps of `order`; what is returned is as in `sdca`."""
    kept: Any = np.uint64(0)
    read: Any = np.uint64(0)
    m, k = np.uint64(m), np.uint64(len(v))
    most, gap = 0.0, 0.0
    for t in range(m):
        i = np.uint64(order[t])
        lo, hi = indptr[i], indptr[i + ONE]
        _margins(ids, values, lo, hi, W, v)
        read += hi - lo
        mean = 0.0
        for j in range(k):
            v[j] += cost[y[i], j]
            mean += p[i, j] * v[j]
        top = _top(v)
        gap += v[top] - mean
        if p[i, top] == 1.0:
            second = -math.inf
            for j in range(k):
                if j != top:
                    second = max(second, v[j])
            if second < v[top] - far:
                continue
        rest[kept] = i
        kept += ONE
        if q[i] > TINY:
            for j in range(k):
                v[j] = p[i, j] + (v[j] - mean) / q[i]
            _project(v)
        else:
            for j in range(k):
                v[j] = 1.0 if j == top else 0.0
        moved = 0.0
        for j in range(k):
            before = p[i, j]
            p[i, j] = v[j]
            v[j] = (before - v[j]) * scale
            moved = max(moved, abs(v[j]))
        if moved > 0.0:
            most = max(most, moved * q[i] / scale)
            for at in range(lo, hi):
                row, x = np.uint64(ids[at]), values[at]
                for j in range(k):
                    W[row, j] += v[j] * x
            read += hi - lo
    return kept, most, gap, read


@kernel
def _bounds(
    cost: Any, ids: Any, values: Any, indptr: Any, y: Any, p: Any, scale: float, W: Any, v: Any
) -> Any:
    """Sum W anew; returns the sums of the losses and of the costs under p."""
    k = np.uint64(len(v))
    n = np.uint64(len(y))
    for feature in range(np.uint64(len(W))):
        for j in range(k):
            W[feature, j] = 0.0
    for i in range(n):
        for j in range(k):
            v[j] = ((1.0 if j == np.uint64(y[i]) else 0.0) - p[i, j]) * scale
        for at in range(indptr[i], indptr[i + ONE]):
            row, x = np.uint64(ids[at]), values[at]
            for j in range(k):
                W[row, j] += v[j] * x
    primal, dual = 0.0, 0.0
    for i in range(n):
        _margins(ids, values, indptr[i], indptr[i + ONE], W, v)
        own = v[np.uint64(y[i])]
        for j in range(k):
            v[j] += cost[y[i], j]
            dual += cost[y[i], j] * p[i, j]
        primal += v[_top(v)] - own
    return primal, dual


def _checked_cost(cost: Any, k: int) -> Any:
    if cost is None:
        return 1.0 - np.eye(k)
    cost = floats("sdca", "cost", cost, f"give a {k} by {k} matrix of numbers")
    if cost.shape != (k, k):
        raise unable("sdca", f"cost= of the shape {cost.shape}", f"there are {k} labels")
    if not (np.isfinite(cost).all() and (cost >= 0.0).all() and not cost.diagonal().any()):
        raise unable("sdca", "these costs", "give finite ones from 0, and 0 on the diagonal")
    return cost


def multiclass_sdca(data: Data, l2: float, cost: Any, pool: Pool, trace: Trace) -> Solution:
    """Minimise the mean multiclass hinge loss + l2/2 |W|^2 by the dual."""
    rows, n, k, scale = data.rows, data.n, len(data.classes), 1.0 / (l2 * data.n)
    cost = _checked_cost(cost, k)
    q, v = np.empty(n), np.empty(k)
    squares(rows.values, rows.indptr, q)
    q *= scale
    p = np.zeros((n, k))
    p[np.arange(n), data.y] = 1.0
    W, exact = np.zeros((data.d, k)), np.zeros((data.d, k))

    def epoch() -> float:
        kept, most, gap, read = _epoch(cost, *rows, data.y, q, scale, *pool.turn(), p, W, v)
        pool.taken(kept, most, read)
        return float(gap) / n

    def look(number: int) -> bool:
        primal, dual = _bounds(cost, *rows, data.y, p, scale, exact, v)
        norm = 0.5 * l2 * float(np.vdot(exact, exact))
        return trace.record(number, primal / n + norm, dual / n - norm, pool.accesses, exact.T)

    ascend(pool, trace, epoch, look)
    return trace.solution(np.ascontiguousarray(exact.T), np.zeros(k), data.classes)
