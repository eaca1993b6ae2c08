r"""SDCA for the multiclass hinge loss with costs.

Shalev-Shwartz & Zhang (2013), the slide "Structured Output Learning", where $\psi(x, j)$ is x at
the position of class j, so that the margins are $v_j = w_j^\top x$:

$$\phi_i(v) = \max_j \bigl(\delta(j, y_i) - v_{y_i} + v_j\bigr)$$

The dual variables of an example form a distribution over the classes, $p = e_{y_i} - \alpha_i$, and

$$D = \frac 1n \sum_i \sum_j \delta(j, y_i)\, p_{ij} - \frac\lambda2 \sum_j |w_j|^2, \qquad
w_j = \frac{1}{\lambda n} \sum_i \bigl([y_i = j] - p_{ij}\bigr)\, x_i$$

For fixed other examples, the optimal p is the Euclidean projection of $p + (\delta + v)/q$ onto the
simplex, with $q = |x_i|^2/(\lambda n)$: a step updates all k variables of an example.

Differences from the paper:

a) It leaves the step open, and mentions the Frank-Wolfe step of Lacoste-Julien et al.; here it is
   the exact maximum.
b) An example whose p is a single class, with a distance to the others of more than the largest
   change of a margin in the previous epoch, is dropped until the others are solved.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streaml1.core.jit import inlined, kernel, u64
from streaml1.solvers.active_examples import ActiveSet, ascend
from streaml1.solvers.data import Data, floats, unsupported
from streaml1.solvers.sampling import row_squared_norms
from streaml1.solvers.solution import Solution, Trace

__all__ = ["multiclass_sdca"]

TINY = 1e-200  # sensitivity of a row that moves no margin


@inlined
def _margins(ids: Any, values: Any, lo: Any, hi: Any, W: Any, v: Any) -> None:
    """Write the margins of a row to `v`. W is (d, k), so that the classes of a feature adjoin."""
    k = np.uint64(len(v))
    for j in range(k):
        v[j] = 0.0
    for pos in range(lo, hi):
        feature, x = np.uint64(ids[pos]), values[pos]
        for j in range(k):
            v[j] += W[feature, j] * x


@inlined
def _argmax(u: Any) -> Any:
    best: Any = u64(0)
    for j in range(np.uint64(len(u))):
        if u[j] > u[best]:
            best = j
    return best


@inlined
def _project(u: Any) -> None:
    """Project `u` onto the simplex, in place.

    Invariant: the threshold is a lower bound on the solution. It rises until it is that of the
    entries above it.
    """
    k = np.uint64(len(u))
    shift = u[_argmax(u)]  # else the 1 below would be lost next to large entries
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
    threshold: float,
    still_active: Any,
    p: Any,
    W: Any,
    v: Any,
) -> Any:
    """Take a step at each of the first m examples of `order`; see `_epoch` of `sdca`.

    `v` is a buffer for the margins.
    """
    n_active: Any = u64(0)
    n_read: Any = u64(0)
    m, k = np.uint64(m), np.uint64(len(v))
    max_move, gap = 0.0, 0.0
    for t in range(m):
        i = np.uint64(order[t])
        lo, hi = indptr[i], indptr[i + u64(1)]
        _margins(ids, values, lo, hi, W, v)
        n_read += hi - lo
        mean = 0.0
        for j in range(k):
            v[j] += cost[y[i], j]
            mean += p[i, j] * v[j]
        top = _argmax(v)
        gap += v[top] - mean
        if p[i, top] == 1.0:
            second = -math.inf
            for j in range(k):
                if j != top:
                    second = max(second, v[j])
            if second < v[top] - threshold:
                continue
        still_active[n_active] = i
        n_active += u64(1)
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
            max_move = max(max_move, moved * q[i] / scale)
            for pos in range(lo, hi):
                feature, x = np.uint64(ids[pos]), values[pos]
                for j in range(k):
                    W[feature, j] += v[j] * x
            n_read += hi - lo
    return n_active, max_move, gap, n_read


@kernel
def _objective_sums(
    cost: Any, ids: Any, values: Any, indptr: Any, y: Any, p: Any, scale: float, W: Any, v: Any
) -> Any:
    """Recompute W from p; return the sums of the losses and of the expected costs under p."""
    k = np.uint64(len(v))
    n = np.uint64(len(y))
    for row in range(np.uint64(len(W))):
        for j in range(k):
            W[row, j] = 0.0
    for i in range(n):
        for j in range(k):
            v[j] = ((1.0 if j == np.uint64(y[i]) else 0.0) - p[i, j]) * scale
        for pos in range(indptr[i], indptr[i + u64(1)]):
            feature, x = np.uint64(ids[pos]), values[pos]
            for j in range(k):
                W[feature, j] += v[j] * x
    primal, dual = 0.0, 0.0
    for i in range(n):
        _margins(ids, values, indptr[i], indptr[i + u64(1)], W, v)
        of_label = v[np.uint64(y[i])]
        for j in range(k):
            v[j] += cost[y[i], j]
            dual += cost[y[i], j] * p[i, j]
        primal += v[_argmax(v)] - of_label
    return primal, dual


def _check_cost(cost: ArrayLike | None, k: int) -> NDArray[np.float64]:
    if cost is None:
        return 1.0 - np.eye(k)
    costs = floats("sdca", "cost", cost, f"use a {k} by {k} matrix of numbers")
    if costs.shape != (k, k):
        raise unsupported("sdca", f"cost= of shape {costs.shape}", f"use {(k, k)} for {k} labels")
    if not (np.isfinite(costs).all() and (costs >= 0.0).all() and not costs.diagonal().any()):
        raise unsupported("sdca", "these costs", "use finite costs >= 0, with a zero diagonal")
    return costs


def multiclass_sdca(
    data: Data, l2: float, cost: ArrayLike | None, active: ActiveSet, trace: Trace
) -> Solution:
    """Minimize the mean multiclass hinge loss + l2/2 |W|^2 by dual coordinate ascent.

    Parameters
    ----------
    data
        Rows and labels.
    l2
        Strength of the penalty, > 0.
    cost
        Cost matrix, shape (k, k); see `sdca`.
    active, trace
        The active set and the trace of the run.
    """
    rows, n, k, scale = data.rows, data.n, len(data.classes), 1.0 / (l2 * data.n)
    costs = _check_cost(cost, k)
    q, v = np.empty(n), np.empty(k)
    row_squared_norms(rows.values, rows.indptr, q)
    q *= scale
    p = np.zeros((n, k))
    p[np.arange(n), data.y] = 1.0
    W, exact = np.zeros((data.d, k)), np.zeros((data.d, k))

    def run_epoch() -> float:
        plan = active.plan_epoch()
        n_active, max_move, gap, n_read = _epoch(costs, *rows, data.y, q, scale, *plan, p, W, v)
        active.shrink(n_active, max_move, n_read)
        return float(gap) / n

    def record(epoch: int) -> bool:
        primal, dual = _objective_sums(costs, *rows, data.y, p, scale, exact, v)
        norm = 0.5 * l2 * float(np.vdot(exact, exact))
        return trace.record(epoch, primal / n + norm, dual / n - norm, active.accesses, exact.T)

    ascend(active, trace, run_epoch, record)
    return trace.solution(np.ascontiguousarray(exact.T), np.zeros(k), data.classes)
