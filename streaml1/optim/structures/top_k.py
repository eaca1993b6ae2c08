"""The largest of many sizes that stand in no order, for `optim/fobos_linf.py`, which owns the arrays.

The sizes are neighbours in memory, from 1 on, and are compared with a bound 64 at a time; what is not below it is
sorted. The slots that they belong to are not looked at.
"""  # noqa: E501

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.simd import ctz, mask_ge

__all__ = ["FOUND", "WIDE", "find"]

FOUND = np.dtype([("key", "f8"), ("at", "i8")], align=True)
WIDE = np.uint64(64)  # sizes are looked at together; the array is so much longer
FEW = np.uint64(32)  # are sorted in the simplest way


@inlined
def find(rule: Any, bound: float, level: float, n: Any, left: float) -> tuple[Any, float]:
    """Find sizes in the pool, from `bound` on, the largest first; how many, and from where on.

    Not those that n weights at the level, with the others, would not come down to.
    """
    c = rule.clock[0]
    found = rule.found
    one, m = np.uint64(1), np.uint64(0)
    end = np.uint64(c.entries) + one
    for first in range(one, end, WIDE):
        bits = mask_ge(rule.keys, first, bound)
        if end - first < WIDE:
            bits &= (one << (end - first)) - one
        while bits != np.uint64(0):
            at = first + ctz(bits)
            bits &= bits - one
            found[m].key = rule.keys[at]
            found[m].at = np.int64(at)
            m += one
    while m > FEW:
        # Where all of them would be, if no others were met: the level is no lower.
        total = n * level - left
        most = 0.0
        for k in range(m):
            total += found[k].key
            most = max(most, found[k].key)
        bound = max(bound, min(most, total / (float(n) + float(m))))
        kept = np.uint64(0)
        for k in range(m):
            key = found[k].key
            found[kept].key = key
            found[kept].at = found[k].at
            kept += np.uint64(key >= bound)
        if kept == m:
            break
        m = kept
    if m <= FEW:
        _insert_all(found, m)
    else:
        _sort(found, m)
    return m, bound


@inlined
def _insert_all(found: Any, m: Any) -> None:
    """Sort a few."""
    one = np.uint64(1)
    for k in range(one, m):
        key, at, place = found[k].key, found[k].at, np.uint64(k)
        while place > np.uint64(0) and found[place - one].key < key:
            found[place].key = found[place - one].key
            found[place].at = found[place - one].at
            place = place - one
        found[place].key = key
        found[place].at = at


@inlined
def _sort(found: Any, m: Any) -> None:
    """Sort by a heap, the least on its top."""
    for k in range(m >> np.uint64(1)):
        first = (m >> np.uint64(1)) - np.uint64(1) - k
        _sift(found, m, first, found[first].key, found[first].at)
    while m > np.uint64(1):
        m -= np.uint64(1)
        key, at = found[m].key, found[m].at
        found[m].key = found[0].key
        found[m].at = found[0].at
        _sift(found, m, np.uint64(0), key, at)


@inlined
def _sift(found: Any, n: Any, k: Any, key: float, at: Any) -> None:
    """Put an entry at place k or below, where it belongs."""
    one = np.uint64(1)
    while True:
        below = k + k + one
        if below >= n:
            break
        if below + one < n:
            below += np.uint64(found[below + one].key < found[below].key)
        if found[below].key >= key:
            break
        found[k].key = found[below].key
        found[k].at = found[below].at
        k = below
    found[k].key = key
    found[k].at = at
