"""Free weights in the order of their sizes, for `optim/fobos_linf.py`, which owns the arrays.

Only what the level may meet soon is at hand. From `floor` on there are buckets, each a chain through its
slots, of a width that is a small part of the floor; the last has no upper end. The buckets from `open` on are
empty: what belongs there stands in a pool, in no order, with its size. A fall of the level looks through all sizes of
the pool, which is quick as they are neighbours in memory, and sorts those it may meet. When the level comes down to a
bucket, that is opened; when it comes down to the floor, that is lowered (`parts/floor.py`).

A weight in a chain that falls or becomes a member stays where it is: that it stands too high is seen when its bucket is
opened. One in the pool stays there as well, with the size it has now, or as a member with none; so nothing
moves when it becomes free again.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.rows import ensure
from streaml1.optim.structures.weight_blocks import MEMBER

__all__ = [
    "BUCKETS",
    "FINE",
    "FLOOR_LEAST",
    "LINK",
    "LOWER",
    "MARK",
    "NONE",
    "POOL_MOST",
    "READY",
    "START",
    "bucket_of",
    "check",
    "come_down",
    "enter",
    "link",
    "set_floor",
    "settle",
]

# A place is 0 for none, 1 + the bucket, or minus the index in the pool, which begins with 1.
LINK = np.dtype([("after", "i4"), ("before", "i4")])  # slots; -1 at the end, -1 - bucket
MARK = -0.0  # the u of a slot that an example has touched and that has no weight
NONE = -1.0  # the size of a member
BUCKETS = 8192
FINE = 2048.0  # buckets as wide as the floor is high
POOL_MOST = 256
AT_ONCE = 16  # weights that are brought into the pool, and the rest of a bucket
READY, OPENED, LOWER = 0, 1, 2
FLOOR_LEAST = 1e-200
START = 0.75  # of the level: the floor


@inlined
def bucket_of(c: Any, size: float) -> Any:
    """The bucket of a size; below 0 only if that is below the floor."""
    return np.int64(min((size - c.floor) * c.scale, BUCKETS - 1.0))


@inlined
def link(rule: Any, j: Any, b: Any) -> None:
    """Put a slot before those of a bucket."""
    after = rule.heads[b]
    rule.links[j].after = after
    rule.links[j].before = np.int32(-1 - b)
    if after >= 0:
        rule.links[np.uint64(after)].before = np.int32(j)
    rule.heads[b] = np.int32(j)
    rule.places[j] = np.int32(1 + b)


@inlined
def _unlink(rule: Any, j: Any) -> None:
    one = rule.links[j]
    if one.before >= 0:
        rule.links[np.uint64(one.before)].after = one.after
    else:
        rule.heads[-1 - one.before] = one.after
    if one.after >= 0:
        rule.links[np.uint64(one.after)].before = one.before
    rule.places[j] = 0


@inlined
def _put(rule: Any, j: Any, size: float) -> None:
    """Put a slot into the pool."""
    c = rule.clock[0]
    c.entries += 1
    at = np.uint64(c.entries)
    rule.keys[at] = size
    rule.ids[at] = np.int32(j)
    rule.places[j] = np.int32(-c.entries)


@inlined
def enter(rule: Any, size: float, key: float, j: Any) -> None:
    """Let a free weight stand where its size belongs or higher; if it must move, at `key`."""
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

    Returns READY when they are, OPENED, or LOWER where the floor is in the way.
    """
    c = rule.clock[0]
    least = bucket_of(c, size) if size >= c.floor else np.int64(0)
    if c.open <= least:
        return READY if size >= c.floor else LOWER
    before = c.entries
    while c.open > least and c.entries - before < AT_ONCE:
        c.open -= 1
        j = np.int64(rule.heads[c.open])
        rule.heads[c.open] = -1
        while j >= 0:
            at = np.uint64(j)
            j = np.int64(rule.links[at].after)
            size = abs(rule.u[at])
            rule.places[at] = 0
            if c.floor <= size < MEMBER:
                b = bucket_of(c, size)
                if b == c.open:
                    _put(rule, at, size)
                else:
                    link(rule, at, b)
    return OPENED


@inlined
def set_floor(c: Any, floor: float, fine: float) -> None:
    """Let buckets begin with a floor: so many are as wide as it is high."""
    c.floor = floor if floor >= FLOOR_LEAST else 0.0
    c.scale = fine / c.floor if c.floor > 0.0 else 0.0
    c.lowest = c.level


@inlined
def settle(rule: Any) -> None:
    """Where the pool has grown, take out what is not near; then close buckets below the level."""
    c = rule.clock[0]
    if c.entries <= c.most:
        return
    if c.floor == 0.0 and c.lowered == 0:  # at the start: there are no chains yet
        set_floor(c, START * c.level, FINE)
        c.open = bucket_of(c, c.level)
    near = bucket_of(c, c.level) if c.level >= c.floor else np.int64(0)
    while True:
        n, c.entries = c.entries, np.int64(0)
        for at in range(np.uint64(1), np.uint64(n + 1)):
            j = np.uint64(rule.ids[at])
            size = rule.keys[at]
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
    c.most = max(np.int64(POOL_MOST), 2 * c.entries)


def check(rule: Any) -> None:
    """Raise AssertionError where an invariant is broken."""
    c = rule.clock[0]
    ensure(0.0 <= c.floor < math.inf, "the floor is out of range")
    ensure(0 <= c.entries <= len(rule.u), "the entries are miscounted")
    ensure(0 <= c.open <= BUCKETS, "no such bucket")
    size, place = np.abs(rule.u), np.array(rule.places, np.int64)
    key, id = rule.keys[1 : 1 + c.entries], rule.ids[1 : 1 + c.entries]
    ensure(np.array_equal(np.flatnonzero(place < 0), np.sort(id)), "an entry is of no slot")
    ensure(np.all(place[id] == -1 - np.arange(len(id))), "an entry is elsewhere")
    known = np.where(size[id] < MEMBER, size[id], NONE)
    ensure(np.all((key == known) | ((key < c.floor) & (known < c.floor))), "a size is another")
    bucket = np.minimum((size - c.floor) * c.scale, BUCKETS - 1.0)
    asked = (c.floor <= size) & (size < MEMBER) & (size > 0.0)
    ensure(np.all(place[asked] != 0), "a weight has no place")
    linked = place > 0
    ensure(np.all(place[asked & linked] > bucket[asked & linked].astype(int)), "above its bucket")
    seen = 0
    for b in np.flatnonzero(rule.heads >= 0).tolist():
        before, j = -1 - b, int(rule.heads[b])
        ensure(b < c.open, "a bucket is open, and not empty")
        while j >= 0:
            ensure(place[j] == 1 + b and rule.links[j].before == before, "a chain is broken")
            before, j = j, int(rule.links[j].after)
            seen += 1
            ensure(seen <= len(size), "a chain has no end")
    ensure(seen == np.count_nonzero(linked), "a slot is in no chain")
