"""The largest elements of an unordered array, for `optim/fobos_linf.py`, which owns the arrays.

The sizes of the pool (`keys`, from index 1 on) are adjacent in memory. They are compared with a
lower bound, 64 at a time. Those that are not below it are copied to `found`; the bound is raised
while it excludes some of them; then they are sorted, by insertion if they are few, else by
heapsort. The slots of the pool are not read.

Cost: O(pool / 64 + m log m) for m results.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined, u64
from streaml1.core.simd import ctz, mask_ge

__all__ = ["FOUND", "WIDE", "find"]

FOUND = np.dtype([("key", "f8"), ("at", "i8")], align=True)  # a size, and its index in the pool
WIDE = u64(64)  # sizes that are compared at once; `keys` must be longer by this number
FEW = u64(32)  # at most this number is sorted by insertion


@inlined
def find(rule: Any, bound: float, level: float, n: Any, left: float) -> tuple[Any, float]:
    """Find the sizes of the pool from `bound` on that the level may reach, in falling order.

    Parameters
    ----------
    bound
        Lower bound of the sizes.
    level, n, left
        The level, the number of weights at it, and what the penalty may still take.

    Returns
    -------
    m : int
        Number of elements of `found`.
    bound : float
        All sizes from this bound on were found.
    """
    c = rule.clock[0]
    found = rule.found
    m = u64(0)
    end = np.uint64(c.entries) + u64(1)
    for first in range(u64(1), end, WIDE):
        bits = mask_ge(rule.keys, first, bound)
        if end - first < WIDE:
            bits &= (u64(1) << (end - first)) - u64(1)
        while bits != u64(0):
            at = first + ctz(bits)
            bits &= bits - u64(1)
            found[m].key = rule.keys[at]
            found[m].at = np.int64(at)
            m += u64(1)
    while m > FEW:
        # The level at which all of them would lose `left`: it does not fall below that.
        total = n * level - left
        largest = 0.0
        for k in range(m):
            total += found[k].key
            largest = max(largest, found[k].key)
        bound = max(bound, min(largest, total / (float(n) + float(m))))
        n_retained = u64(0)
        for k in range(m):
            key = found[k].key
            found[n_retained].key = key
            found[n_retained].at = found[k].at
            n_retained += np.uint64(key >= bound)
        if n_retained == m:
            break
        m = n_retained
    if m <= FEW:
        _insert_all(found, m)
    else:
        _sort(found, m)
    return m, bound


@inlined
def _insert_all(found: Any, m: Any) -> None:
    """Sort by insertion, in falling order."""
    for k in range(u64(1), m):
        key, at, pos = found[k].key, found[k].at, np.uint64(k)
        while pos > u64(0) and found[pos - u64(1)].key < key:
            found[pos].key = found[pos - u64(1)].key
            found[pos].at = found[pos - u64(1)].at
            pos = pos - u64(1)
        found[pos].key = key
        found[pos].at = at


@inlined
def _sort(found: Any, m: Any) -> None:
    """Sort by a heap with the smallest on top, in falling order."""
    for k in range(m >> u64(1)):
        first = (m >> u64(1)) - u64(1) - k
        _sift(found, m, first, found[first].key, found[first].at)
    while m > u64(1):
        m -= u64(1)
        key, at = found[m].key, found[m].at
        found[m].key = found[0].key
        found[m].at = found[0].at
        _sift(found, m, u64(0), key, at)


@inlined
def _sift(found: Any, n: Any, k: Any, key: float, at: Any) -> None:
    """Sift an element down from position k."""
    while True:
        child = k + k + u64(1)
        if child >= n:
            break
        if child + u64(1) < n:
            child += np.uint64(found[child + u64(1)].key < found[child].key)
        if found[child].key >= key:
            break
        found[k].key = found[child].key
        found[k].at = found[child].at
        k = child
    found[k].key = key
    found[k].at = at
