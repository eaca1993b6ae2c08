"""The largest free weights, in buckets by size, for `optim/fobos_linf.py`, which owns the arrays.

A bucket queue (Dial 1969), kept only for sizes that the falling level may reach soon. Symbols: the *size*
of a weight is its absolute value; a *free* weight is in no block; the *level* is the largest size.

Structure:

- Buckets of equal width divide the sizes from `floor` on; the last has no upper end. Each bucket is a
  doubly linked chain through its slots (`heads`, `links`). Free weights below the floor are nowhere.
- Buckets from `open` on are empty: their weights are in the *pool*, an unordered array of sizes (`keys`) and
  slots (`ids`), from index 1 on. A fall of the level scans all sizes of the pool, which is fast because
  they are adjacent, and sorts those within reach (`top_k.py`).
- `places[j]` is 0 for a slot that is nowhere, 1 + its bucket, or minus its index in the pool.

Invariants: every free weight from the floor on has a place; a weight in a chain is in its bucket or a
higher one. So a weight that shrinks or joins a block stays in its chain, and is moved when the bucket is
opened. In the pool `keys` is the current size, or `NONE` for a member of a block, which so needs no move
when it becomes free again.

Cost: O(1) for `enter`; each weight is moved at most once for each bucket that it falls through.

When the level reaches the next bucket, `come_down` opens it; when it reaches the floor, `linf_floor.py`
lowers the floor.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, u64
from streaml1.core.rows import ensure
from streaml1.optim.structures.weight_blocks import MEMBER

__all__ = [
    "BUCKETS",
    "CELLS_PER_FLOOR",
    "MIN_FLOOR",
    "LINK",
    "LOWER",
    "MARK",
    "NONE",
    "MAX_POOL",
    "READY",
    "START",
    "bucket_of",
    "check",
    "come_down",
    "enter",
    "link",
    "set_floor",
    "shrink_pool",
]

# Slots of the neighbours in a chain. `after` of the last is -1, `before` of the first -1 - bucket.
LINK = np.dtype([("after", "i4"), ("before", "i4")])
MARK = -0.0  # the u of a touched slot with a zero weight
NONE = -1.0  # the key of a member of a block
BUCKETS = 8192
CELLS_PER_FLOOR = 2048.0  # floor / width of a bucket
MAX_POOL = 256
BATCH = 16  # `come_down` opens buckets until it has brought this number of weights into the pool
READY, OPENED, LOWER = 0, 1, 2  # results of `come_down`
MIN_FLOOR = 1e-200
START = 0.75  # floor / level, at first


@inlined
def bucket_of(c: Any, size: float) -> Any:
    """Return the bucket of a size; it is negative if the size is below the floor."""
    return np.int64(min((size - c.floor) * c.scale, BUCKETS - 1.0))


@inlined
def link(rule: Any, j: Any, b: Any) -> None:
    """Insert a slot at the front of the chain of a bucket."""
    after = rule.heads[b]
    rule.links[j].after = after
    rule.links[j].before = np.int32(-1 - b)
    if after >= 0:
        rule.links[np.uint64(after)].before = np.int32(j)
    rule.heads[b] = np.int32(j)
    rule.places[j] = np.int32(1 + b)


@inlined
def _unlink(rule: Any, j: Any) -> None:
    """Remove a slot from its chain."""
    neighbours = rule.links[j]
    if neighbours.before >= 0:
        rule.links[np.uint64(neighbours.before)].after = neighbours.after
    else:
        rule.heads[-1 - neighbours.before] = neighbours.after
    if neighbours.after >= 0:
        rule.links[np.uint64(neighbours.after)].before = neighbours.before
    rule.places[j] = 0


@inlined
def _put(rule: Any, j: Any, size: float) -> None:
    """Add a slot to the pool."""
    c = rule.clock[0]
    c.entries += 1
    pos = np.uint64(c.entries)
    rule.keys[pos] = size
    rule.ids[pos] = np.int32(j)
    rule.places[j] = np.int32(-c.entries)


@inlined
def enter(rule: Any, size: float, key: float, j: Any) -> None:
    """Place a free weight in the bucket of its size or higher; if it moves, in that of `key`."""
    c = rule.clock[0]
    place = np.int64(rule.places[j])
    if place < 0:
        rule.keys[np.uint64(-place)] = size
        return
    b = bucket_of(c, size)
    if size < c.floor or place > b:
        return
    if place > 0:
        _unlink(rule, j)
    if b >= c.open:
        _put(rule, j, size)
    else:
        link(rule, j, min(bucket_of(c, key), c.open - 1))


@inlined
def come_down(rule: Any, size: float) -> Any:
    """Open the next buckets, until all weights of this size and above are in the pool.

    Return READY when they are, OPENED if buckets were opened, or LOWER if the size is below the
    floor.
    """
    c = rule.clock[0]
    lowest_bucket = bucket_of(c, size) if size >= c.floor else np.int64(0)
    if c.open <= lowest_bucket:
        return READY if size >= c.floor else LOWER
    before = c.entries
    while c.open > lowest_bucket and c.entries - before < BATCH:
        c.open -= 1
        next_slot = np.int64(rule.heads[c.open])
        rule.heads[c.open] = -1
        while next_slot >= 0:
            j = np.uint64(next_slot)
            next_slot = np.int64(rule.links[j].after)
            size = abs(rule.u[j])
            rule.places[j] = 0
            if c.floor <= size < MEMBER:
                b = bucket_of(c, size)
                if b == c.open:
                    _put(rule, j, size)
                else:
                    link(rule, j, b)
    return OPENED


@inlined
def set_floor(c: Any, floor: float, cells_per_floor: float) -> None:
    """Set the floor, and the width of the buckets to floor / `cells_per_floor`."""
    c.floor = floor if floor >= MIN_FLOOR else 0.0
    c.scale = cells_per_floor / c.floor if c.floor > 0.0 else 0.0
    c.lowest = c.level


@inlined
def shrink_pool(rule: Any) -> None:
    """Move weights far below the level from the pool to buckets, if the pool exceeds its limit.

    `open` rises towards the level until the pool is at most half full.
    """
    c = rule.clock[0]
    if c.entries <= c.most:
        return
    if c.floor == 0.0 and c.lowered == 0:  # the first time there are no chains
        set_floor(c, START * c.level, CELLS_PER_FLOOR)
        c.open = bucket_of(c, c.level)
    near = bucket_of(c, c.level) if c.level >= c.floor else np.int64(0)
    while True:
        n, c.entries = c.entries, np.int64(0)
        for pos in range(u64(1), np.uint64(n + 1)):
            j = np.uint64(rule.ids[pos])
            size = rule.keys[pos]
            rule.places[j] = 0
            if size >= c.floor:
                b = bucket_of(c, size)
                if b >= c.open:
                    _put(rule, j, size)
                else:
                    link(rule, j, b)
        if c.entries + c.entries <= c.most or c.open >= near:
            break
        c.open = (c.open + near + 1) >> 1
    c.most = max(np.int64(MAX_POOL), 2 * c.entries)


def check(rule: Any) -> None:
    """Raise AssertionError if an invariant is broken."""
    c = rule.clock[0]
    ensure(0.0 <= c.floor < math.inf, "the floor is out of range")
    ensure(0 <= c.entries <= len(rule.u), f"entries={c.entries} is out of range")
    ensure(0 <= c.open <= BUCKETS, f"open={c.open} is out of range")
    size, place = np.abs(rule.u), np.array(rule.places, np.int64)
    key, id = rule.keys[1 : 1 + c.entries], rule.ids[1 : 1 + c.entries]
    ensure(np.array_equal(np.flatnonzero(place < 0), np.sort(id)), "places and the pool disagree")
    ensure(
        np.all(place[id] == -1 - np.arange(len(id))), "a slot points at another index of the pool"
    )
    known = np.where(size[id] < MEMBER, size[id], NONE)
    ensure(
        np.all((key == known) | ((key < c.floor) & (known < c.floor))), "a key of the pool is wrong"
    )
    bucket = np.minimum((size - c.floor) * c.scale, BUCKETS - 1.0)
    must_have = (c.floor <= size) & (size < MEMBER) & (size > 0.0)
    ensure(np.all(place[must_have] != 0), "a free weight above the floor has no place")
    linked = place > 0
    ensure(
        np.all(place[must_have & linked] > bucket[must_have & linked].astype(int)),
        "a weight is above its bucket",
    )
    seen = 0
    for b in np.flatnonzero(rule.heads >= 0).tolist():
        before, j = -1 - b, int(rule.heads[b])
        ensure(b < c.open, "an open bucket is not empty")
        while j >= 0:
            ensure(place[j] == 1 + b and rule.links[j].before == before, "a chain is broken")
            before, j = j, int(rule.links[j].after)
            seen += 1
            ensure(seen <= len(size), "a chain is a cycle")
    ensure(seen == np.count_nonzero(linked), "a slot has a bucket, but is in no chain")
