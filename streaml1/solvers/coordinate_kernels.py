r"""One coordinate after the other: the kernels of `scd` and `detcd`.

A problem is columns, and for each coordinate its strengths, bounds and linear term. It is to
minimise

$$\frac 1n \sum_i L(z_i) + \sum_j \bigl(c_j w_j + l_{1j} |w_j| + \tfrac12 l_{2j} w_j^2\bigr), \qquad
lo_j \le w_j \le hi_j, \qquad z = A w$$

Of the logistic loss, each row of A has been multiplied by its label: all labels are then 1, and
$L'(z) = r$ says all, as $L''(z) = -r(1 + r)$.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.simd import prefetch, stack_buffer
from streaml1.core.vecmath import exponentials
from streaml1.optim.losses import SQUARED
from streaml1.solvers.sampling import ONE, add, dot

__all__ = [
    "Problem",
    "allowed",
    "bound_epoch",
    "curvatures",
    "gradient",
    "greedy",
    "least",
    "model_epoch",
    "products",
    "slopes",
    "turn",
]

WIDE = np.uint64(128)  # floats of a kernel's own
FAR = np.int64(4000)
AHEAD = np.uint64(24)


class Problem(NamedTuple):
    """Columns of A, and of each coordinate what the docstring above names."""

    ids: Any
    values: Any
    indptr: Any
    l1: Any
    l2: Any
    c: Any
    lo: Any
    hi: Any


@inlined
def _best(p: Any, j: Any, w: float, g: float, beta: float) -> float:
    """Minimise g (w' - w) + beta/2 (w' - w)^2 + l1 |w'| within the bounds."""
    if not beta > 0.0:  # a column of zeros: only its linear term counts
        best = 0.0
        if abs(g) > p.l1[j]:
            best = p.lo[j] if g > 0.0 else p.hi[j]
        return float(min(p.hi[j], max(p.lo[j], best)))
    v = w - g / beta
    v = math.copysign(max(0.0, abs(v) - p.l1[j] / beta), v)
    return float(min(p.hi[j], max(p.lo[j], v)))


@inlined
def _part(p: Any, j: Any, w: float, v: float) -> tuple[float, float]:
    """A coordinate's part of the gap, where the rest of the objective has the slope v.

    Returns
    -------
    tuple of float
        That part; and by how much v is beyond what the dual allows.
    """
    l1, l2 = p.l1[j], p.l2[j]
    over = 0.0
    beyond = math.copysign(max(0.0, abs(v) - l1), v)
    if l2 > 0.0:
        best = -beyond / l2
    else:
        best = 0.0 if beyond == 0.0 else (p.lo[j] if beyond > 0.0 else p.hi[j])
        if math.isinf(best):
            best, over, v = 0.0, abs(beyond), v - beyond
    best = min(p.hi[j], max(p.lo[j], best))
    gap = v * (w - best) + l1 * (abs(w) - abs(best)) + 0.5 * l2 * (w - best) * (w + best)
    return max(0.0, gap), over


@inlined
def _rests(p: Any, j: Any, w: float, v: float, far: float) -> bool:
    """Whether a coordinate is at zero or at a bound, and pushed there by more than `far`."""
    l1 = p.l1[j]
    up, down = -v - p.l2[j] * w, v + p.l2[j] * w  # how hard it is pushed
    up -= l1 if w >= 0.0 else -l1
    down -= l1 if w <= 0.0 else -l1
    fixed_up = w == p.hi[j] or up < -far
    fixed_down = w == p.lo[j] or down < -far
    at_bound = (w == p.hi[j] and up > far) or (w == p.lo[j] and down > far)
    return bool((w == 0.0 and fixed_up and fixed_down) or at_bound)


@kernel
def turn(ids: Any, values: Any, indptr: Any, signs: Any, ends: Any, rows: Any, turned: Any) -> None:
    """Put the columns of a matrix of rows into `rows`, `turned` and `ends`, times the signs.

    `ends` begins with zeros, one more than there are columns.
    """
    nnz = np.uint64(len(ids))
    for k in range(nnz):
        ends[ids[k] + ONE] += ONE
    d = np.uint64(len(ends)) - ONE
    for j in range(d):
        ends[j + ONE] += ends[j]
    for i in range(np.uint64(len(signs))):
        for k in range(indptr[i], indptr[i + ONE]):
            far = ends[ids[min(k + AHEAD, nnz - ONE)]]  # each entry goes to a page of its own
            prefetch(turned, far)
            prefetch(rows, far)
            at = ends[ids[k]]
            rows[at] = i
            turned[at] = values[k] * signs[i]
            ends[ids[k]] = at + ONE
    for back in range(d):  # each has come to where the next one begins
        ends[d - back] = ends[d - back - ONE]
    ends[0] = np.uint64(0)


@kernel
def allowed(p: Any, v: Any, d: Any) -> float:
    """The largest scale up to 1 of v with which weights without bounds have a least value."""
    most = 1.0
    for j in range(np.uint64(d)):
        size = 0.0
        if v[j] < 0.0 and p.hi[j] == math.inf:
            size = p.l1[j] + p.c[j]
        elif v[j] > 0.0 and p.lo[j] == -math.inf:
            size = p.l1[j] - p.c[j]
        else:
            continue
        if size < most * abs(v[j]):
            most = size / abs(v[j])
    return max(most, 0.0)


@kernel
def least(p: Any, v: Any, scale: float, rounding: float) -> float:
    """The sum over weights of the least of (s v + c) w + l1 |w| + l2/2 w^2 within the bounds."""
    total = 0.0
    for j in range(np.uint64(len(v))):
        slope = scale * v[j] + p.c[j]
        beyond = max(abs(slope) - p.l1[j], 0.0)
        w = 0.0
        if beyond > rounding * abs(slope):
            w = (
                -math.copysign(beyond / p.l2[j], slope)
                if p.l2[j] > 0.0
                else (-math.copysign(math.inf, slope))
            )
        w = min(p.hi[j], max(p.lo[j], w))
        if abs(w) == math.inf:
            return -math.inf
        total += slope * w + p.l1[j] * abs(w) + 0.5 * p.l2[j] * w * w
    return total


@kernel
def slopes(loss: int, z: Any, y: Any, r: Any) -> None:
    """Put the derivative of the loss into r."""
    for i in range(np.uint64(len(z))):
        if loss == SQUARED:
            r[i] = z[i] - y[i]
        else:
            e, _ = exponentials(-abs(z[i]), 0.0, FAR)
            r[i] = -(e if z[i] >= 0.0 else 1.0) / (1.0 + e)


@kernel
def products(p: Any, w: Any, z: Any) -> Any:
    """Put A w into z; returns how many entries were read."""
    read = np.uint64(0)
    for i in range(np.uint64(len(z))):
        z[i] = 0.0
    for j in range(np.uint64(len(w))):
        if w[j] != 0.0:
            lo, hi = p.indptr[j], p.indptr[j + ONE]
            add(p.ids, p.values, lo, hi, w[j], z)
            read += hi - lo
    return read


@kernel
def gradient(p: Any, r: Any, v: Any) -> None:
    """Put A^T r / n into v."""
    for j in range(np.uint64(len(v))):
        v[j] = dot(p.ids, p.values, p.indptr[j], p.indptr[j + ONE], r) / len(r)


@kernel
def curvatures(p: Any, pool: Any, h: Any, H: Any) -> Any:
    """Put sum_i h_i a_ij^2 / n into H_j, for j in the pool; returns how many entries were read."""
    read = np.uint64(0)
    for t in range(np.uint64(len(pool))):
        j = np.uint64(pool[t])
        lo, hi = p.indptr[j], p.indptr[j + ONE]
        total = 0.0
        for k in range(lo, hi):
            total += h[p.ids[k]] * p.values[k] * p.values[k]
        H[j] = total / len(h)
        read += hi - lo
    return read


@kernel
def model_epoch(
    p: Any, order: Any, m: Any, far: float, pool: Any, h: Any, H: Any, t: Any, w: Any
) -> Any:
    """Take steps on the quadratic model of curvatures h, exact for the squared loss (h = 1).

    `t` is the model's derivative for each row. Returns how many coordinates stay, put into `pool`;
    the furthest that a slope was off; the sums of `_part`; how many entries were read.
    """
    kept, m, read = np.uint64(0), np.uint64(m), np.uint64(0)
    most, gap, over = 0.0, 0.0, 0.0
    for s in range(m):
        j = np.uint64(order[s])
        lo, hi = p.indptr[j], p.indptr[j + ONE]
        before = w[j]
        v = dot(p.ids, p.values, lo, hi, t) / len(t) + p.c[j]
        read += hi - lo
        if _rests(p, j, before, v, far):
            continue
        pool[kept] = j
        kept += ONE
        part, beyond = _part(p, j, before, v)
        gap += part
        over = max(over, beyond)
        beta = H[j] + p.l2[j]
        after = _best(p, j, before, v + p.l2[j] * before, beta)
        eta = after - before
        if eta != 0.0:
            most = max(most, abs(eta) * beta)
            w[j] = after
            for k in range(lo, hi):
                t[p.ids[k]] += eta * p.values[k] * h[p.ids[k]]
            read += hi - lo
    return kept, most, gap, over, read


@inlined
def _move(p: Any, lo: Any, hi: Any, eta: float, z: Any, r: Any, part: Any) -> None:
    """Move the margins of a column, and what follows from them, for the logistic loss."""
    for base in range(lo, hi, WIDE):
        n = min(WIDE, hi - base)
        for k in range(n):
            a = z[p.ids[base + k]] + eta * p.values[base + k]
            z[p.ids[base + k]] = a
            part[k] = a
        for k in range(n):
            e, _ = exponentials(-abs(part[k]), 0.0, FAR)
            part[k] = -(e if part[k] >= 0.0 else 1.0) / (1.0 + e)
        for k in range(n):
            r[p.ids[base + k]] = part[k]


@kernel
def bound_epoch(
    p: Any, order: Any, m: Any, far: float, pool: Any, beta: Any, z: Any, r: Any, w: Any
) -> Any:
    """Take steps of 1/beta_j on the logistic loss itself; returns what `model_epoch` does."""
    kept, m, read = np.uint64(0), np.uint64(m), np.uint64(0)
    most, gap, over = 0.0, 0.0, 0.0
    part = stack_buffer()
    for s in range(m):
        j = np.uint64(order[s])
        lo, hi = p.indptr[j], p.indptr[j + ONE]
        before = w[j]
        v = dot(p.ids, p.values, lo, hi, r) / len(r) + p.c[j]
        read += hi - lo
        if _rests(p, j, before, v, far):
            continue
        pool[kept] = j
        kept += ONE
        own, beyond = _part(p, j, before, v)
        gap += own
        over = max(over, beyond)
        after = _best(p, j, before, v + p.l2[j] * before, beta[j])
        eta = after - before
        if eta != 0.0:
            most = max(most, abs(eta) * beta[j])
            w[j] = after
            _move(p, lo, hi, eta, z, r, part)
            read += hi - lo
    return kept, most, gap, over, read


@kernel
def greedy(
    loss: int,
    p: Any,
    ids: Any,
    values: Any,
    indptr: Any,
    steps: Any,
    beta: Any,
    z: Any,
    v: Any,
    w: Any,
) -> Any:
    """Take steps at the coordinate of the largest guaranteed decrease, v = A^T r / n kept true.

    `ids`, `values` and `indptr` are the rows of A. Returns the steps taken, fewer where no
    decrease is left, and how many entries were read.
    """
    read: Any = np.uint64(0)
    d: Any = np.uint64(len(w))
    for step in range(np.uint64(steps)):
        chosen = d
        most, target = 0.0, 0.0
        for j in range(d):
            g = v[j] + p.c[j] + p.l2[j] * w[j]
            after = _best(p, j, w[j], g, beta[j])
            eta = after - w[j]
            drop = -eta * (g + 0.5 * beta[j] * eta) - p.l1[j] * (abs(after) - abs(w[j]))
            if drop > most:
                chosen = j
                most, target = drop, after
        if chosen == d:
            return step, read
        eta = target - w[chosen]
        w[chosen] = target
        for k in range(p.indptr[chosen], p.indptr[chosen + ONE]):
            i = np.uint64(p.ids[k])
            before = z[i]
            z[i] = before + eta * p.values[k]
            change = eta * p.values[k]
            if loss != SQUARED:
                change = _sigmoid(-before) - _sigmoid(-z[i])
            add(ids, values, indptr[i], indptr[i + ONE], change / len(z), v)
            read += indptr[i + ONE] - indptr[i]
    return np.uint64(steps), read


@inlined
def _sigmoid(a: float) -> float:
    e = math.exp(-abs(a))
    return (1.0 if a >= 0.0 else e) / (1.0 + e)
