"""The pass over rows: predict, then learn. One loop for every rule and every loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import gil_kernel, inlined, kernel
from streaml1.core.rows import is_plain_row
from streaml1.core.simd import borrowed
from streaml1.optim.update_rule import (
    accepts,
    apply_gradient,
    apply_penalty,
    has_capacity,
    is_zero_block,
    margin,
    output_and_gradient,
    predict,
    prefetch_next,
    weight,
)

__all__ = [
    "CROWDED",
    "DONE",
    "NO_ROOM",
    "ONLINE",
    "OVER",
    "alive",
    "learn",
    "learn_plain",
    "predict_row",
    "predict_rows",
    "step",
]

NO_ROOM = -2
CROWDED = -4  # more distinct features than the rule may see
DONE, NOT_PLAIN = 0, 1
_EIGHT = np.uint64(8)
OVER = -16  # and below: learnt, and there may be more weights than the model may have

# What every online learner has beside its rule.
ONLINE = np.dtype(
    [
        ("t", "i8"),  # examples learnt
        ("b", "f8"),  # intercept
        ("intercept_lr", "f8"),
        ("clip_gradient", "f8"),
        ("loss", "i8"),
        ("most", "i8"),  # weights that may be non-zero; 0: any number
        ("held", "i8"),  # with `most` set: no more than so many are
        ("cut", "i8"),  # weights that were given up for others
    ],
    align=True,
)


@inlined
def step(
    rule: Any,
    online: Any,
    ids: Any,
    values: Any,
    lo: Any,
    hi: Any,
    a: float,
    y: float,
    w: float,
    eta: float,
    out: Any,
) -> float:
    """Learn one row that was gathered; returns what a report is made of, as it was before."""
    o = online[0]
    before = _alive(rule, ids, lo, hi) if o.most else 0
    p, g = output_and_gradient(rule, online, a, y, w, out)
    apply_gradient(rule, ids, values, lo, hi, eta * g)
    apply_penalty(rule, eta)
    o.t += 1
    if o.most:
        o.held += _alive(rule, ids, lo, hi) - before
    return float(p)


@gil_kernel
def _alive(rule: Any, ids: Any, lo: Any, hi: Any) -> int:
    """How many weights of a row are not zero."""
    n = 0
    for k in range(lo, hi):
        n += weight(rule, np.uint64(ids[k])) != 0.0
    return n


@kernel
def learn(
    rule: Any,
    online: Any,
    ids: Any,
    values: Any,
    indptr: Any,
    y: Any,
    w: Any,
    eta: Any,
    p: Any,
    start: Any,
    d: Any,
) -> Any:
    """Predict into `p` and learn the rows from `start`.

    Where `d` is not 0, each row is looked at first: memory brings it but once.
    There is one of `w` and of `eta` for all rows, or one for each.
    A rule may have k outputs: then `p` is k times as long as `y`, or as long, for the first alone.

    Returns
    -------
    tuple of int
        (DONE, n); or why it stopped and the row that is next: NO_ROOM, CROWDED or NOT_PLAIN (see
        `rows.is_plain_row`) for it; OVER, with the row before learnt.
    """
    rule, online = borrowed(rule), borrowed(online)
    ids, values, indptr = borrowed(ids), borrowed(values), borrowed(indptr)
    n = np.uint64(len(y))
    start, d = np.uint64(start), np.uint64(d)
    k_out = np.uint64(len(p)) // max(n, np.uint64(1))
    outputs = np.uint64(p.ctypes.data)
    capped = online[0].most != 0
    w_each, eta_each = np.uint64(len(w) == n), np.uint64(len(eta) == n)
    one = np.uint64(1)
    plain = not d or start >= n or is_plain_row(ids, values, indptr[start], indptr[start + one], d)
    for i in range(start, n):
        lo = indptr[i]
        hi = indptr[i + one]
        if not plain:
            return NOT_PLAIN, np.int64(i)
        if not has_capacity(rule, hi - lo):
            return NO_ROOM, np.int64(i)
        if not accepts(rule, ids, lo, hi):
            return CROWDED, np.int64(i)
        prefetch_next(rule, ids, values, lo, hi)
        first = k_out * i
        out = outputs + np.uint64(8) * first if k_out > np.uint64(1) else np.uint64(0)
        a = margin(rule, ids, values, lo, hi)
        if d and i + one < n:  # the next row is looked at while the margin of this one is awaited
            plain = is_plain_row(ids, values, hi, indptr[i + one + one], d)
        w_i, eta_i = w[i * w_each], eta[i * eta_each]
        p[first] = step(rule, online, ids, values, lo, hi, a, y[i], w_i, eta_i, out)
        if capped and online[0].held > online[0].most:
            return OVER, np.int64(i + one)
    return DONE, np.int64(n)


@kernel
def alive(rule: Any, slots: Any, weights: Any) -> int:
    """Write down the slots whose weights are not zero, in order, and these; returns how many."""
    rule = borrowed(rule)
    n, size = np.uint64(0), np.uint64(len(slots))
    for first in range(np.uint64(0), size, _EIGHT):
        end = min(first + _EIGHT, size)
        if end - first == _EIGHT and is_zero_block(rule, first):  # most are, where names are hashed
            continue
        for j in range(first, end):
            w = weight(rule, j)
            slots[n] = j  # whether it stays cannot be foretold
            weights[n] = w
            n += np.uint64(w != 0.0)
    return int(n)


@inlined
def predict_row(rule: Any, online: Any, ids: Any, values: Any, n: Any, out: Any) -> float:
    """What `rules.predict` tells of the first `n` entries."""
    return predict(rule, online, ids, values, np.uint64(0), np.uint64(n), np.uint64(out))


@inlined
def learn_plain(
    rule: Any, online: Any, ids: Any, values: Any, n: Any, y: float, w: float, eta: float
) -> int:
    """Learn the first `n` entries; returns the new t, OVER - t, NO_ROOM or CROWDED."""
    if not has_capacity(rule, np.uint64(n)):
        return NO_ROOM
    if not accepts(rule, ids, np.uint64(0), np.uint64(n)):
        return CROWDED
    lo, hi = np.uint64(0), np.uint64(n)
    a = margin(rule, ids, values, lo, hi)
    step(rule, online, ids, values, lo, hi, a, y, w, eta, np.uint64(0))
    o = online[0]
    return int(OVER - o.t if o.held > o.most else o.t)


@kernel
def predict_rows(
    rule: Any, online: Any, ids: Any, values: Any, indptr: Any, a: Any, out: Any, stride: Any
) -> None:
    """What `rules.predict` tells of rows into `a`; of row i with the address `out + stride i`."""
    rule, online = borrowed(rule), borrowed(online)
    ids, values, indptr = borrowed(ids), borrowed(values), borrowed(indptr)
    out, stride = np.uint64(out), np.uint64(stride)
    for i in range(np.uint64(len(a))):
        lo, hi = indptr[i], indptr[i + np.uint64(1)]
        a[i] = predict(rule, online, ids, values, lo, hi, out + stride * i)
