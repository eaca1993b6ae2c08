"""The parts of `prox_sdca`: the inner norm, an epoch, and rows restricted to some columns."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, kernel, u64
from streaml1.core.rows import Rows
from streaml1.core.types import Floats, Ints
from streaml1.core.vecmath import power
from streaml1.solvers.dual_steps import dual_step
from streaml1.solvers.sampling import axpy, prefetch_next_row, row_squared_norms

__all__ = ["SquaredNorm", "prox_epoch", "restrict_columns"]

DROPPED = np.uint32(2**32 - 1)


class SquaredNorm(NamedTuple):
    """The strongly convex term h(w) = c/2 |w|_q^2, given by p with 1/p + 1/q = 1."""

    p: float
    c: float

    def dual_norm(self, u: Floats) -> float:
        """Return |u|_p, scaled by its largest entry against overflow."""
        largest = float(np.abs(u).max(initial=0.0))
        if not largest:
            return 0.0
        total = float(((np.abs(u) / largest) ** self.p).sum())
        return float(largest * total ** (1 / self.p))

    def weights(self, u: Floats) -> Floats:
        """Return the gradient of h* at u."""
        size = self.dual_norm(u)
        if not size or self.p == 2.0:
            return u / self.c
        return np.sign(u) * (np.abs(u) / size) ** (self.p - 1.0) * (size / self.c)

    def gradient(self, w: Floats) -> Floats:
        """Return the gradient of h at w, the inverse of `weights`."""
        if self.p == 2.0:
            return self.c * w
        q = self.p / (self.p - 1.0)
        largest = float(np.abs(w).max(initial=0.0))
        if not largest:
            return np.zeros(len(w))
        relative = np.abs(w) / largest
        size = float((relative**q).sum()) ** (1.0 / q)
        gradient: Floats = (
            np.sign(w) * relative ** (q - 1.0) * (self.c * largest * size ** (2.0 - q))
        )
        return gradient

    def distance(self, u: Floats, center: Floats) -> float:
        """Return the Bregman divergence h(w) - h(w0) - <grad h(w0), w - w0>.

        `u` and `center` are the gradients of h at w and at w0.
        """
        if self.p == 2.0:
            return float(0.5 * np.vdot(u - center, u - center) / self.c)
        conjugates = (self.dual_norm(center) ** 2 - self.dual_norm(u) ** 2) / (2.0 * self.c)
        return max(0.0, conjugates - float(self.weights(u) @ (center - u)))

    def sensitivities(self, rows: Rows) -> Floats:
        """Return by how much each margin reacts to its own step, |x_i|_p^2 (p - 1)/c."""
        out = np.empty(rows.n)
        if self.p == 2.0:
            row_squared_norms(rows.values, rows.indptr, out)
            return out / self.c
        _row_norms(rows.values, rows.indptr, self.p, out)
        return out * out * ((self.p - 1.0) / self.c)


@kernel
def _row_norms(values: Any, indptr: Any, p: float, out: Any) -> None:
    """Write |x_i|_p to `out`, scaled by the largest entry of each row against overflow."""
    for i in range(np.uint64(len(out))):
        largest, total = 0.0, 0.0
        for k in range(indptr[i], indptr[i + u64(1)]):
            largest = max(largest, abs(values[k]))
        for k in range(indptr[i], indptr[i + u64(1)]):
            total += (abs(values[k]) / largest) ** p
        out[i] = largest * total ** (1.0 / p)


@inlined
def _soft(v: float, t: float) -> float:
    """Soft-threshold `v` by `t`."""
    return math.copysign(max(0.0, abs(v) - t), v)


@inlined
def _margin(ids: Any, values: Any, lo: Any, hi: Any, theta: Any, t: float) -> float:
    """Return the sum of soft(theta, t) x over a row, in four parallel sums as in `dot`."""
    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
    end = lo + ((hi - lo) & ~u64(3))
    for k in range(lo, end, u64(4)):
        a0 += _soft(theta[ids[k]], t) * values[k]
        a1 += _soft(theta[ids[k + u64(1)]], t) * values[k + u64(1)]
        a2 += _soft(theta[ids[k + u64(2)]], t) * values[k + u64(2)]
        a3 += _soft(theta[ids[k + u64(3)]], t) * values[k + u64(3)]
    for k in range(end, hi):
        a0 += _soft(theta[ids[k]], t) * values[k]
    return (a0 + a1) + (a2 + a3)


@inlined
def _margin_q(
    ids: Any, values: Any, lo: Any, hi: Any, theta: Any, t: float, norm: Any, p: float
) -> float:
    """Return the sum of sign(u) (|u| / norm[1])^(p-1) x over a row; u = soft(theta, t)."""
    a = 0.0
    for k in range(lo, hi):
        u = _soft(theta[ids[k]], t)
        if u != 0.0:
            a += math.copysign(power(abs(u) / norm[1], p - 1.0), u) * values[k]
    return a


@inlined
def _axpy_q(
    ids: Any, values: Any, lo: Any, hi: Any, step: float, theta: Any, t: float, norm: Any, p: float
) -> None:
    """Add `step` times a row to theta, and update norm[0], the sum of (|u| / norm[1])^p."""
    total = norm[0]
    for k in range(lo, hi):
        before = abs(_soft(theta[ids[k]], t))
        theta[ids[k]] += step * values[k]
        after = abs(_soft(theta[ids[k]], t))
        if before != 0.0:
            total -= power(before / norm[1], p)
        if after != 0.0:
            total += power(after / norm[1], p)
    norm[0] = max(0.0, total)


@kernel
def prox_epoch(
    loss: int,
    gamma: float,
    ids: Any,
    values: Any,
    indptr: Any,
    y: Any,
    q: Any,
    scale: float,
    t: float,
    p: float,
    c: float,
    order: Any,
    m: Any,
    threshold: float,
    still_active: Any,
    norm: Any,
    alpha: Any,
    theta: Any,
) -> Any:
    """Take a step at each of the first m examples of `order`.

    Parameters
    ----------
    loss, gamma
        A value of `CODES`, and the width of the smoothed hinge.
    ids, values, indptr, y
        Rows and labels.
    q
        Sensitivity of each margin to its own step.
    scale
        1 / (lambda n).
    t
        Threshold of theta: the gradient of h at the weights is u = soft(theta, t).
    p, c
        The norm of h, see `SquaredNorm`.
    order, m, threshold, still_active
        See `EpochPlan`.
    norm
        If p is not 2: the sum of (|u_j| / reference)^p, kept up to date, and the reference.
    alpha, theta
        Dual variables and theta; kept consistent.

    Returns
    -------
    tuple
        As `_epoch` of `sdca`.
    """
    n_active, m = u64(0), np.uint64(m)
    max_move, gap, n_read = 0.0, 0.0, u64(0)
    for s in range(m):
        i = np.uint64(order[s])
        lo, hi = indptr[i], indptr[i + u64(1)]
        prefetch_next_row(ids, values, indptr, order, s, m)
        if p == 2.0:
            a = _margin(ids, values, lo, hi, theta, t)
        else:
            a = _margin_q(ids, values, lo, hi, theta, t, norm, p)
            if norm[0] > 0.0:
                a *= norm[1] * power(norm[0], 2.0 / p - 1.0)
        a /= c
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
            if p == 2.0:
                axpy(ids, values, lo, hi, (after - before) * scale, theta)
            else:
                _axpy_q(ids, values, lo, hi, (after - before) * scale, theta, t, norm, p)
            n_read += hi - lo
    return n_active, max_move, gap, n_read


@kernel
def _restrict_columns(rows: Any, new_column: Any, ids: Any, values: Any, indptr: Any) -> None:
    out_pos = u64(0)
    for i in range(np.uint64(len(indptr)) - u64(1)):
        for k in range(rows.indptr[i], rows.indptr[i + u64(1)]):
            # Branch-free: always write, and advance only past entries that are kept.
            j = new_column[rows.ids[k]]
            ids[out_pos] = j
            values[out_pos] = rows.values[k]
            out_pos += np.uint64(j != DROPPED)
        indptr[i + u64(1)] = out_pos


def restrict_columns(rows: Rows, d: int, columns: Ints, buffer: Rows) -> Rows:
    """Copy the rows restricted to some columns, which are renumbered from 0.

    Parameters
    ----------
    rows
        The rows.
    d
        Number of columns.
    columns
        The columns to keep.
    buffer
        Output: arrays for the result, with room for one entry more than `rows`.

    Returns
    -------
    Rows
        `buffer`.
    """
    new_column = np.full(d, DROPPED)
    new_column[columns] = np.arange(len(columns), dtype=np.uint32)
    _restrict_columns(rows, new_column, *buffer)
    return buffer
