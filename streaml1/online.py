"""The pass over rows: predict, then learn. One loop for every rule and every loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1 import losses
from streaml1.jit import array_at, borrowed, gil_kernel, inlined, kernel, prefetch, rule_at
from streaml1.rows import compact, is_plain
from streaml1.rules import gather, room, scatter, tick

__all__ = [
    "BAD_VALUE",
    "BLOCK",
    "LEARNT",
    "NO_ROOM",
    "ONLINE",
    "learn",
    "learn_plain",
    "learn_row",
    "margin",
    "margins",
    "predict_row",
    "step",
]

BAD_VALUE, NO_ROOM, LEARNT = -1, -2, 0

BLOCK = np.uint64(64)  # rows looked at together: they fit the cache beside the weights
FAR = np.uint64(8192)  # entries ahead that memory is asked for: the next blocks

# What every online learner has beside its rule.
ONLINE = np.dtype(
    [
        ("t", "i8"),  # examples learnt
        ("b", "f8"),  # intercept
        ("intercept_lr", "f8"),
        ("clip_gradient", "f8"),
        ("loss", "i8"),
    ],
    align=True,
)


@inlined
def step(
    rule: Any, online: Any, ids: Any, values: Any, lo: Any, hi: Any, y: float, w: float, eta: float
) -> float:
    """Learn one row; returns what a report is made of, as it was before."""
    o = online[0]
    a = gather(rule, ids, values, lo, hi) + o.b
    p, g = losses.output_and_derivative(o.loss, a, y)
    g = max(-o.clip_gradient, min(o.clip_gradient, g)) * w
    scatter(rule, ids, values, lo, hi, eta * g)
    tick(rule, eta)
    o.b -= o.intercept_lr * g
    o.t += 1
    return float(p)


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

    Where `d` is not 0, the rows are looked at by the block first: memory brings them but once.

    Returns
    -------
    int
        n; or i, where row i has no room; or -1 - i, where the block that begins with row i is
        not plain (see `rows.is_plain`).
    """
    rule = borrowed(rule)
    n = np.uint64(len(y))
    d = np.uint64(d)
    checked = np.uint64(start) if d else n
    for i in range(np.uint64(start), n):
        if i == checked:
            checked = min(i + BLOCK, n)
            if not is_plain(ids, values, indptr, i, checked, d):
                return -1 - np.int64(i)
        lo = indptr[i]
        hi = indptr[i + np.uint64(1)]
        if not room(rule, hi - lo):
            return np.int64(i)
        for k in range(lo + FAR, hi + FAR, np.uint64(8)):  # one of each 64 bytes
            prefetch(values, k)
        for k in range(lo + FAR, hi + FAR, np.uint64(16)):
            prefetch(ids, k)
        p[i] = step(rule, online, ids, values, lo, hi, y[i], w[i], eta[i])
    return np.int64(n)


@gil_kernel
def margin(rule: Any, online: Any, ids: Any, values: Any, n: Any, proba: bool) -> float:
    """Margin of the first `n` entries, or its sigmoid."""
    a = gather(rule, ids, values, np.uint64(0), np.uint64(n)) + online[0].b
    return losses.sigmoid(a) if proba else a


@gil_kernel
def learn_plain(
    rule: Any, online: Any, ids: Any, values: Any, n: Any, y: float, w: float, eta: float
) -> int:
    """Learn the first `n` entries; returns LEARNT or NO_ROOM."""
    if not room(rule, np.uint64(n)):
        return NO_ROOM
    step(rule, online, ids, values, np.uint64(0), np.uint64(n), y, w, eta)
    return LEARNT


@kernel
def margins(
    rule: Any, online: Any, ids: Any, values: Any, indptr: Any, a: Any, proba: bool
) -> None:
    """Margins of rows into `a`, or their sigmoids."""
    for i in range(np.uint64(len(a))):
        after = i + np.uint64(1)
        margin_i = gather(rule, ids, values, indptr[i], indptr[after]) + online[0].b
        a[i] = losses.sigmoid(margin_i) if proba else margin_i


# One example by addresses. A frame holds the addresses of the buffer's arrays, their length, the
# address of the online record, the rule's size, what walk.py wants, and the rule's arrays.
(
    RAW_IDS,
    RAW_VALUES,
    IDS,
    VALUES,
    KEYS,
    TEXTS,
    HASHES,
    ALIASES,
    SCRATCH,
    LENGTH,
    RECORD,
    SIZE,
    ENTRIES,
    N_ENTRIES,
    USED,
    KNOWN,
    TYPES,
) = range(17)
N_TYPES = 8
FRAME_HEAD = TYPES + N_TYPES

Rule: Any = None  # bound by row_kernel


def predict_row(frame: Any, n: int, proba: bool) -> float:
    """Margin of the example in the buffer, or its sigmoid; NaN where a value is refused."""
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    values = array_at(frame[VALUES], length, np.float64)
    raw_ids = array_at(frame[RAW_IDS], length, np.uint32)
    raw_values = array_at(frame[RAW_VALUES], length, np.float64)
    m, _ = compact(raw_ids, raw_values, n, frame[SIZE], ids, values)
    if m < 0:
        return np.nan
    online = array_at(frame[RECORD], 1, ONLINE)
    return margin(rule_at(Rule, frame, FRAME_HEAD), online, ids, values, m, proba)


def learn_row(frame: Any, n: int, y: float, w: float, eta: float) -> Any:
    """Learn the example in the buffer.

    Returns LEARNT, BAD_VALUE, NO_ROOM, or how many slots the rule must have first.
    """
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    values = array_at(frame[VALUES], length, np.float64)
    raw_ids = array_at(frame[RAW_IDS], length, np.uint32)
    raw_values = array_at(frame[RAW_VALUES], length, np.float64)
    m, needed = compact(raw_ids, raw_values, n, frame[SIZE], ids, values)
    if m < 0:
        return BAD_VALUE
    if needed > frame[SIZE]:
        return np.int64(needed)
    online = array_at(frame[RECORD], 1, ONLINE)
    return learn_plain(rule_at(Rule, frame, FRAME_HEAD), online, ids, values, m, y, w, eta)
