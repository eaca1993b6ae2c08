"""What `prox_sdca` is made of: the norms inside, an epoch, and rows without what rests."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.rows import Rows
from streaml1.core.vecmath import power
from streaml1.solvers.dual_steps import step
from streaml1.solvers.sampling import FOUR, ONE, THREE, TWO, add, fetch_next, squares

__all__ = ["Norm", "prox_epoch", "restricted"]

NOT_CHOSEN = np.uint32(2**32 - 1)


class Norm(NamedTuple):
    """h(w) = c/2 |w|_q^2, by the p with 1/p + 1/q = 1."""

    p: float
    c: float

    def size(self, u: Any) -> float:
        """|u|_p."""
        most = float(np.abs(u).max(initial=0.0))
        return most * float(((np.abs(u) / most) ** self.p).sum()) ** (1 / self.p) if most else 0.0

    def weights(self, u: Any) -> Any:
        """The gradient of h* at u."""
        size = self.size(u)
        if not size or self.p == 2.0:
            return u / self.c
        return np.sign(u) * (np.abs(u) / size) ** (self.p - 1.0) * (size / self.c)

    def gradient(self, w: Any) -> Any:
        """The gradient of h at w, of which `weights` is the inverse."""
        if self.p == 2.0:
            return self.c * w
        q = self.p / (self.p - 1.0)
        most = float(np.abs(w).max(initial=0.0))
        if not most:
            return np.zeros(len(w))
        part = np.abs(w) / most
        size = float((part**q).sum()) ** (1.0 / q)
        return np.sign(w) * part ** (q - 1.0) * (self.c * most * size ** (2.0 - q))

    def distance(self, u: Any, center: Any) -> float:
        """H(w) - h(w0) - <grad h(w0), w - w0>, by the gradients u and `center` of h at w and w0."""
        if self.p == 2.0:
            return float(0.5 * np.vdot(u - center, u - center) / self.c)
        conjugates = (self.size(center) ** 2 - self.size(u) ** 2) / (2.0 * self.c)
        return max(0.0, conjugates - float(self.weights(u) @ (center - u)))

    def squares(self, rows: Rows) -> Any:
        """By how much a margin answers to its own step: |x_i|_p^2 (p - 1)/c."""
        out = np.empty(rows.n)
        if self.p == 2.0:
            squares(rows.values, rows.indptr, out)
            return out / self.c
        _sizes(rows.values, rows.indptr, self.p, out)
        return out * out * ((self.p - 1.0) / self.c)


@kernel
def _sizes(values: Any, indptr: Any, p: float, out: Any) -> None:
    """Put |x_i|_p into out."""
    for i in range(np.uint64(len(out))):
        most, total = 0.0, 0.0
        for k in range(indptr[i], indptr[i + ONE]):
            most = max(most, abs(values[k]))
        for k in range(indptr[i], indptr[i + ONE]):
            total += (abs(values[k]) / most) ** p
        out[i] = most * total ** (1.0 / p)


@inlined
def _soft(v: float, t: float) -> float:
    return math.copysign(max(0.0, abs(v) - t), v)


@inlined
def _margin(ids: Any, values: Any, lo: Any, hi: Any, theta: Any, t: float) -> float:
    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
    end = lo + ((hi - lo) & ~THREE)
    for k in range(lo, end, FOUR):
        a0 += _soft(theta[ids[k]], t) * values[k]
        a1 += _soft(theta[ids[k + ONE]], t) * values[k + ONE]
        a2 += _soft(theta[ids[k + TWO]], t) * values[k + TWO]
        a3 += _soft(theta[ids[k + THREE]], t) * values[k + THREE]
    for k in range(end, hi):
        a0 += _soft(theta[ids[k]], t) * values[k]
    return (a0 + a1) + (a2 + a3)


@inlined
def _margin_q(
    ids: Any, values: Any, lo: Any, hi: Any, theta: Any, t: float, at: Any, p: float
) -> float:
    """The sum of sign(u) (|u| / at[1])^(p-1) x; u = soft(theta, t)."""
    a = 0.0
    for k in range(lo, hi):
        u = _soft(theta[ids[k]], t)
        if u != 0.0:
            a += math.copysign(power(abs(u) / at[1], p - 1.0), u) * values[k]
    return a


@inlined
def _add_q(
    ids: Any, values: Any, lo: Any, hi: Any, step: float, theta: Any, t: float, at: Any, p: float
) -> None:
    """Add step times a row to theta, and what follows to at[0], the sum of (|u| / at[1])^p."""
    total = at[0]
    for k in range(lo, hi):
        before = abs(_soft(theta[ids[k]], t))
        theta[ids[k]] += step * values[k]
        after = abs(_soft(theta[ids[k]], t))
        if before != 0.0:
            total -= power(before / at[1], p)
        if after != 0.0:
            total += power(after / at[1], p)
    at[0] = max(0.0, total)


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
    far: float,
    rest: Any,
    at: Any,
    alpha: Any,
    theta: Any,
) -> Any:
    """Take the first `m` steps of `order`, as `sdca` does, with u = soft(theta, t).

    Where p is not 2, `at` holds the sum of (|u_j| / ref)^p, and ref.
    """
    kept, m = np.uint64(0), np.uint64(m)
    most, gap, read = 0.0, 0.0, np.uint64(0)
    for s in range(m):
        i = np.uint64(order[s])
        lo, hi = indptr[i], indptr[i + ONE]
        fetch_next(ids, values, indptr, order, s, m)
        if p == 2.0:
            a = _margin(ids, values, lo, hi, theta, t)
        else:
            a = _margin_q(ids, values, lo, hi, theta, t, at, p)
            if at[0] > 0.0:
                a *= at[1] * power(at[0], 2.0 / p - 1.0)
        a /= c
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
            if p == 2.0:
                add(ids, values, lo, hi, (after - before) * scale, theta)
            else:
                _add_q(ids, values, lo, hi, (after - before) * scale, theta, t, at, p)
            read += hi - lo
    return kept, most, gap, read


@kernel
def _restrict(rows: Any, place: Any, ids: Any, values: Any, indptr: Any) -> None:
    at = np.uint64(0)
    for i in range(np.uint64(len(indptr)) - ONE):
        for k in range(rows.indptr[i], rows.indptr[i + ONE]):
            j = place[rows.ids[k]]
            ids[at] = j  # written over where it is not chosen
            values[at] = rows.values[k]
            at += np.uint64(j != NOT_CHOSEN)
        indptr[i + ONE] = at


def restricted(rows: Rows, width: int, chosen: Any, room: Rows) -> Rows:
    """Rows of the chosen columns alone, numbered anew, in `room`: one entry more than `rows`."""
    place = np.full(width, NOT_CHOSEN)
    place[chosen] = np.arange(len(chosen), dtype=np.uint32)
    _restrict(rows, place, *room)
    return room
