"""Free weights in the order of their sizes, for `rules/fobos_linf.py`, which owns the arrays.

Only what the level may meet soon is at hand. From `floor` on there are buckets, each a chain through its
slots, of a width that is a small part of the floor; the last has no upper end. The buckets from `open` on are
empty: what belongs there stands in a pool, in no order, with its size. A fall of the level looks through all sizes of
the pool, which is quick as they are neighbours in memory, and sorts those it may meet. When the level comes down to a
bucket, that is opened; when it comes down to the floor, the floor is lowered and all slots are looked at. It is raised
again no sooner than after so many non-zeros that looking at all slots costs little beside them.

A weight in a chain that falls or becomes a member stays where it is: that it stands too high is seen when its bucket is
opened. One in the pool stays there as well, with the size it has now, or as a member with none; so nothing
moves when it becomes free again.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.jit import inlined, kernel
from streaml1.rows import ensure
from streaml1.rules.parts.blocks import MEMBER, current, id_of, leave

__all__ = [
    "BUCKETS",
    "FINE",
    "FINER",
    "LINK",
    "LOWER",
    "MARK",
    "NONE",
    "POOL_MOST",
    "READY",
    "bucket_of",
    "check",
    "come_down",
    "crowded",
    "enter",
    "fill",
    "lower",
    "settle",
]

# A place is 0 for none, 1 + the bucket, or minus the index in the pool, which begins with 1.
LINK = np.dtype([("after", "i4"), ("before", "i4")])  # slots; -1 at the end, -1 - bucket
MARK = -0.0  # the u of a slot that an example has touched and that has no weight
NONE = -1.0  # the size of a member
BUCKETS = 8192
FINE, FINER = 2048.0, 16384.0  # buckets as wide as the floor is high
POOL_MOST, POOL_MANY = 256, 1024
AT_ONCE = 16  # weights that are brought into the pool, and the rest of a bucket
READY, OPENED, LOWER = 0, 1, 2
# What the floor is multiplied by when it is lowered for the k-th time since it was raised.
FACTORS = (0.7, 0.25, 0.00390625, 0.0)
FLOOR_LEAST = 1e-200
START = 0.75  # of the level: the first floor


@inlined
def bucket_of(c: Any, size: float) -> Any:
    """The bucket of a size; below 0 only if that is below the floor."""
    return np.int64(min((size - c.floor) * c.scale, BUCKETS - 1.0))


@inlined
def _link(rule: Any, j: Any, b: Any) -> None:
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
        _link(rule, j, min(bucket_of(c, key), c.open - 1))


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
                    _link(rule, at, b)
    return OPENED


@inlined
def crowded(c: Any) -> bool:
    """Whether so much is near the level that finer buckets help."""
    return bool((c.most > POOL_MANY) & (c.scale * c.floor < 0.5 * FINER))


@inlined
def _set_floor(c: Any, floor: float, fine: float) -> None:
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
        _set_floor(c, START * c.level, FINE)
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
                    _link(rule, j, b)
        if c.entries + c.entries <= c.most or c.open >= near:
            break
        c.open = (c.open + near + 1) >> 1
    c.most = max(np.int64(POOL_MOST), 2 * c.entries)


# All of them


@kernel
def fill(rule: Any, floor: float, fine: float) -> None:
    """Link all free weights from `floor` on; blocks below it are taken apart."""
    c = rule.clock[0]
    for at in range(np.uint64(1), np.uint64(c.entries + 1)):
        rule.places[np.uint64(rule.ids[at])] = 0
    for b in range(np.uint64(c.open)):
        one = np.int64(rule.heads[b])
        while one >= 0:
            rule.places[np.uint64(one)] = 0
            one = np.int64(rule.links[np.uint64(one)].after)
        rule.heads[b] = -1
    _set_floor(c, floor, fine)
    c.touches = 0
    c.entries = 0
    c.open = np.int64(0)
    c.most = np.int64(POOL_MOST)
    for j in range(np.uint64(len(rule.u))):
        size = abs(rule.u[j])
        if size < c.floor or size == 0.0:
            continue
        if size >= MEMBER:
            w = current(rule, rule.u[j])
            if abs(w) < c.floor:
                leave(rule, id_of(rule.u[j]))
                rule.u[j] = w if w != 0.0 else MARK
            continue
        b = bucket_of(c, size)
        c.open = max(c.open, b + 1)
        _link(rule, j, b)


@kernel
def lower(rule: Any) -> None:
    """Lower the floor: the more often, the further, so that a few times are enough."""
    c = rule.clock[0]
    factor = FACTORS[min(c.lowered, np.int64(len(FACTORS) - 1))]
    c.lowered += 1
    fill(rule, c.floor * factor, FINE)


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
