r"""The kernels of coordinate descent, for `scd` and `detcd`.

A problem has a matrix A in CSC form, and for each coordinate two strengths, two bounds and a
linear term. The kernels minimize

$$\frac 1n \sum_i L(z_i) + \sum_j \bigl(c_j w_j + l_{1j} |w_j| + \tfrac12 l_{2j} w_j^2\bigr), \qquad
lo_j \le w_j \le hi_j, \qquad z = A w$$

For the logistic loss, each row of A is multiplied by its label, so that all labels are 1. Its
second derivative then follows from the first: $L''(z) = -r(1 + r)$ with $r = L'(z)$.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, kernel, u64
from streaml1.core.simd import prefetch, stack_buffer
from streaml1.core.types import Floats, Ids
from streaml1.core.vecmath import exp_pair
from streaml1.optim.losses import SQUARED
from streaml1.solvers.sampling import axpy, dot

__all__ = [
    "EpochResult",
    "Problem",
    "bound_epoch",
    "curvatures",
    "gradient",
    "greedy_steps",
    "loss_derivatives",
    "matvec",
    "max_dual_scale",
    "model_epoch",
    "separable_infimum",
    "transpose",
]

BUFFER = u64(128)  # floats in a `stack_buffer`
ONE_SIDED = np.int64(4000)  # argument of `exp_pair` if only its first result is used
PREFETCH_DISTANCE = u64(24)  # entries


class Problem(NamedTuple):
    """A problem of k coordinates; see the docstring of this module.

    Parameters
    ----------
    ids, values, indptr
        The columns of A: row numbers, values, and where each column begins and ends.
    l1, l2
        Strengths, shape (k,).
    c
        Linear term, shape (k,).
    lo, hi
        Bounds, shape (k,).
    """

    ids: Ids
    values: Floats
    indptr: Any  # uint64
    l1: Floats
    l2: Floats
    c: Floats
    lo: Floats
    hi: Floats


class EpochResult(NamedTuple):
    """What the epoch kernels return, in this order: numba returns a plain tuple."""

    n_active: Any
    """Coordinates that remain active; they are in `active`."""
    max_slope: float
    """Largest derivative that a step removed."""
    gap: float
    """Sum of the coordinates' shares of the gap, each before its step."""
    max_excess: float
    """Largest amount by which a derivative exceeds what the dual allows."""
    n_read: Any
    """Entries of the matrix read."""


@inlined
def _minimize(p: Any, j: Any, w: float, g: float, beta: float) -> float:
    """Return argmin over w' of g (w' - w) + beta/2 (w' - w)^2 + l1 |w'| within the bounds."""
    if not beta > 0.0:  # a column of zeros: only the linear term counts
        best = 0.0
        if abs(g) > p.l1[j]:
            best = p.lo[j] if g > 0.0 else p.hi[j]
        return float(min(p.hi[j], max(p.lo[j], best)))
    v = w - g / beta
    v = math.copysign(max(0.0, abs(v) - p.l1[j] / beta), v)
    return float(min(p.hi[j], max(p.lo[j], v)))


@inlined
def _coordinate_gap(p: Any, j: Any, w: float, v: float) -> tuple[float, float]:
    """Return a coordinate's share of the gap.

    v is the derivative of the loss and the linear term.

    Returns
    -------
    tuple of float
        The share; and by how much v exceeds what the dual allows, if the coordinate is unbounded.
    """
    l1, l2 = p.l1[j], p.l2[j]
    excess = 0.0
    beyond = math.copysign(max(0.0, abs(v) - l1), v)
    if l2 > 0.0:
        best = -beyond / l2
    else:
        best = 0.0 if beyond == 0.0 else (p.lo[j] if beyond > 0.0 else p.hi[j])
        if math.isinf(best):
            best, excess, v = 0.0, abs(beyond), v - beyond
    best = min(p.hi[j], max(p.lo[j], best))
    gap = v * (w - best) + l1 * (abs(w) - abs(best)) + 0.5 * l2 * (w - best) * (w + best)
    return max(0.0, gap), excess


@inlined
def _is_resting(p: Any, j: Any, w: float, v: float, threshold: float) -> bool:
    """Return whether a coordinate is at zero or a bound, pushed there by more than `threshold`."""
    l1 = p.l1[j]
    # The forces that push the weight up and down; l1 pushes towards zero.
    up, down = -v - p.l2[j] * w, v + p.l2[j] * w
    up -= l1 if w >= 0.0 else -l1
    down -= l1 if w <= 0.0 else -l1
    fixed_up = w == p.hi[j] or up < -threshold
    fixed_down = w == p.lo[j] or down < -threshold
    at_bound = (w == p.hi[j] and up > threshold) or (w == p.lo[j] and down > threshold)
    return bool((w == 0.0 and fixed_up and fixed_down) or at_bound)


@kernel
def transpose(
    ids: Any, values: Any, indptr: Any, signs: Any, ends: Any, rows: Any, signed_values: Any
) -> None:
    """Convert a matrix from CSR to CSC form, and multiply each row by its sign.

    Parameters
    ----------
    ids, values, indptr
        The rows.
    signs
        A factor for each row.
    ends
        Output: where each column begins and ends. On entry zeros, one more than there are columns.
    rows, signed_values
        Output: the row numbers and values of the columns.
    """
    nnz = np.uint64(len(ids))
    for k in range(nnz):
        ends[ids[k] + u64(1)] += u64(1)
    d = np.uint64(len(ends)) - u64(1)
    for j in range(d):
        ends[j + u64(1)] += ends[j]
    # Invariant: ends[j] is the next free entry of column j.
    for i in range(np.uint64(len(signs))):
        for k in range(indptr[i], indptr[i + u64(1)]):
            ahead = ends[
                ids[min(k + PREFETCH_DISTANCE, nnz - u64(1))]
            ]  # entries go to distant pages
            prefetch(signed_values, ahead)
            prefetch(rows, ahead)
            pos = ends[ids[k]]
            rows[pos] = i
            signed_values[pos] = values[k] * signs[i]
            ends[ids[k]] = pos + u64(1)
    for back in range(d):  # each entry is now the begin of the next column
        ends[d - back] = ends[d - back - u64(1)]
    ends[0] = u64(0)


@kernel
def max_dual_scale(p: Any, v: Any, d: Any) -> float:
    """Return the largest s <= 1 for which `separable_infimum` at s v is finite, >= 0."""
    scale = 1.0
    for j in range(np.uint64(d)):
        size = 0.0
        if v[j] < 0.0 and p.hi[j] == math.inf:
            size = p.l1[j] + p.c[j]
        elif v[j] > 0.0 and p.lo[j] == -math.inf:
            size = p.l1[j] - p.c[j]
        else:
            continue
        if size < scale * abs(v[j]):
            scale = size / abs(v[j])
    return max(scale, 0.0)


@kernel
def separable_infimum(p: Any, v: Any, scale: float, rounding: float) -> float:
    """Return the sum over weights of min_w (s v + c) w + l1 |w| + l2/2 w^2 within the bounds.

    It is minus the conjugate of the penalty, and -inf if a weight has no minimum. An excess over
    l1 of at most `rounding` times the slope counts as zero.
    """
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
def loss_derivatives(loss: int, z: Any, y: Any, r: Any) -> None:
    """Write the derivative of each loss to `r`."""
    for i in range(np.uint64(len(z))):
        if loss == SQUARED:
            r[i] = z[i] - y[i]
        else:
            e, _ = exp_pair(-abs(z[i]), 0.0, ONE_SIDED)
            r[i] = -(e if z[i] >= 0.0 else 1.0) / (1.0 + e)


@kernel
def matvec(p: Any, w: Any, z: Any) -> Any:
    """Write A w to `z`; return the number of entries read."""
    n_read = u64(0)
    for i in range(np.uint64(len(z))):
        z[i] = 0.0
    for j in range(np.uint64(len(w))):
        if w[j] != 0.0:
            lo, hi = p.indptr[j], p.indptr[j + u64(1)]
            axpy(p.ids, p.values, lo, hi, w[j], z)
            n_read += hi - lo
    return n_read


@kernel
def gradient(p: Any, r: Any, v: Any) -> None:
    """Write A^T r / n to `v`."""
    for j in range(np.uint64(len(v))):
        v[j] = dot(p.ids, p.values, p.indptr[j], p.indptr[j + u64(1)], r) / len(r)


@kernel
def curvatures(p: Any, active: Any, h: Any, H: Any) -> Any:
    """Write sum_i h_i a_ij^2 / n to H_j for each active j; return the number of entries read."""
    n_read = u64(0)
    for t in range(np.uint64(len(active))):
        j = np.uint64(active[t])
        lo, hi = p.indptr[j], p.indptr[j + u64(1)]
        total = 0.0
        for k in range(lo, hi):
            total += h[p.ids[k]] * p.values[k] * p.values[k]
        H[j] = total / len(h)
        n_read += hi - lo
    return n_read


@kernel
def model_epoch(
    p: Any, order: Any, m: Any, threshold: float, active: Any, h: Any, H: Any, t: Any, w: Any
) -> Any:
    """Take steps on a quadratic model of the loss, exact for the squared loss.

    Parameters
    ----------
    p
        The problem.
    order, m
        The coordinates to visit: the first m of `order`.
    threshold
        A coordinate is dropped if it is pushed against its bound by more than this.
    active
        Output: the coordinates that remain active.
    h
        Second derivative of the model for each row; 1 for the squared loss.
    H
        Curvature of each coordinate, sum_i h_i a_ij^2 / n.
    t
        Derivative of the model for each row; kept up to date.
    w
        Weights; kept up to date.

    Returns
    -------
    EpochResult
    """
    n_active, m, n_read = u64(0), np.uint64(m), u64(0)
    max_slope, gap, max_excess = 0.0, 0.0, 0.0
    for s in range(m):
        j = np.uint64(order[s])
        lo, hi = p.indptr[j], p.indptr[j + u64(1)]
        before = w[j]
        v = dot(p.ids, p.values, lo, hi, t) / len(t) + p.c[j]
        n_read += hi - lo
        if _is_resting(p, j, before, v, threshold):
            continue
        active[n_active] = j
        n_active += u64(1)
        share, excess = _coordinate_gap(p, j, before, v)
        gap += share
        max_excess = max(max_excess, excess)
        beta = H[j] + p.l2[j]
        after = _minimize(p, j, before, v + p.l2[j] * before, beta)
        eta = after - before
        if eta != 0.0:
            max_slope = max(max_slope, abs(eta) * beta)
            w[j] = after
            for k in range(lo, hi):
                t[p.ids[k]] += eta * p.values[k] * h[p.ids[k]]
            n_read += hi - lo
    return n_active, max_slope, gap, max_excess, n_read


@inlined
def _update_margins(p: Any, lo: Any, hi: Any, eta: float, z: Any, r: Any, buffer: Any) -> None:
    """Update the margins of a column's rows, and the derivatives of the logistic loss there.

    The margins of a block are gathered into `buffer`, so that the exponentials are vectorized.
    """
    for base in range(lo, hi, BUFFER):
        n = min(BUFFER, hi - base)
        for k in range(n):
            a = z[p.ids[base + k]] + eta * p.values[base + k]
            z[p.ids[base + k]] = a
            buffer[k] = a
        for k in range(n):
            e, _ = exp_pair(-abs(buffer[k]), 0.0, ONE_SIDED)
            buffer[k] = -(e if buffer[k] >= 0.0 else 1.0) / (1.0 + e)
        for k in range(n):
            r[p.ids[base + k]] = buffer[k]


@kernel
def bound_epoch(
    p: Any, order: Any, m: Any, threshold: float, active: Any, beta: Any, z: Any, r: Any, w: Any
) -> Any:
    """Take steps of size 1/beta_j on the logistic loss itself.

    z holds the margins and r the derivatives of the losses; both are kept up to date. The other
    parameters and the result are those of `model_epoch`.
    """
    n_active, m, n_read = u64(0), np.uint64(m), u64(0)
    max_slope, gap, max_excess = 0.0, 0.0, 0.0
    buffer = stack_buffer()
    for s in range(m):
        j = np.uint64(order[s])
        lo, hi = p.indptr[j], p.indptr[j + u64(1)]
        before = w[j]
        v = dot(p.ids, p.values, lo, hi, r) / len(r) + p.c[j]
        n_read += hi - lo
        if _is_resting(p, j, before, v, threshold):
            continue
        active[n_active] = j
        n_active += u64(1)
        share, excess = _coordinate_gap(p, j, before, v)
        gap += share
        max_excess = max(max_excess, excess)
        after = _minimize(p, j, before, v + p.l2[j] * before, beta[j])
        eta = after - before
        if eta != 0.0:
            max_slope = max(max_slope, abs(eta) * beta[j])
            w[j] = after
            _update_margins(p, lo, hi, eta, z, r, buffer)
            n_read += hi - lo
    return n_active, max_slope, gap, max_excess, n_read


@kernel
def greedy_steps(
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
    """Take steps at the coordinate with the largest guaranteed decrease.

    Parameters
    ----------
    loss
        A value of `CODES`.
    p
        The problem.
    ids, values, indptr
        The rows of A, in CSR form.
    steps
        Maximum number of steps.
    beta
        Curvature bound of each coordinate.
    z, v, w
        Margins, v = A^T r / n and weights; all are kept up to date.

    Returns
    -------
    tuple
        Steps taken, fewer if no step decreases the objective; and entries read.
    """
    n_read: Any = u64(0)
    d: Any = np.uint64(len(w))
    for step in range(np.uint64(steps)):
        chosen = d
        max_drop, target = 0.0, 0.0
        for j in range(d):
            g = v[j] + p.c[j] + p.l2[j] * w[j]
            after = _minimize(p, j, w[j], g, beta[j])
            eta = after - w[j]
            drop = -eta * (g + 0.5 * beta[j] * eta) - p.l1[j] * (abs(after) - abs(w[j]))
            if drop > max_drop:
                chosen = j
                max_drop, target = drop, after
        if chosen == d:
            return step, n_read
        eta = target - w[chosen]
        w[chosen] = target
        for k in range(p.indptr[chosen], p.indptr[chosen + u64(1)]):
            i = np.uint64(p.ids[k])
            before = z[i]
            z[i] = before + eta * p.values[k]
            change = eta * p.values[k]
            if loss != SQUARED:
                change = _sigmoid(-before) - _sigmoid(-z[i])
            axpy(ids, values, indptr[i], indptr[i + u64(1)], change / len(z), v)
            n_read += indptr[i + u64(1)] - indptr[i]
    return np.uint64(steps), n_read


@inlined
def _sigmoid(a: float) -> float:
    e = math.exp(-abs(a))
    return (1.0 if a >= 0.0 else e) / (1.0 + e)
