"""Free weights in the order of their sizes, for `rules/fobos_linf.py`, which owns the arrays.

Only what the level may meet soon is kept in order. From `floor` on there are buckets, each a chain through its
slots, of a width that is a small part of the floor; the last has no upper end. The buckets from `open` on are
empty: what belongs there stands in a heap. When the level comes down to a bucket, that is opened; when it comes
down to the floor, the floor is lowered and all slots are looked at. It is raised again no sooner than after so
many non-zeros that looking at all slots costs little beside them.

A weight that falls or becomes a member stays where it is: that it stands too high is seen when it comes to the
top of the heap, or its bucket is opened.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.jit import inlined, kernel
from streaml1.rows import ensure
from streaml1.rules.parts.blocks import MEMBER, current, leave

__all__ = [
    "BUCKETS",
    "ENTRY",
    "HEAP_MOST",
    "LINK",
    "LOWER",
    "MARK",
    "READY",
    "check",
    "come_down",
    "enter",
    "fill",
    "lower",
    "settle",
    "take",
]

# A place is 0 for none, 1 + the bucket, or -1 - the index in the heap.
ENTRY = np.dtype([("key", "f8"), ("id", "i8")], align=True)
LINK = np.dtype(
    [("after", "i8"), ("before", "i8")], align=True
)  # slots; -1 at the end, -1 - bucket
MARK = -0.0  # the u of a slot that an example has touched and that has no weight
BUCKETS = 2048
FINE = 256.0  # buckets as wide as the floor is high
HEAP_MOST = 64
READY, OPENED, LOWER = 0, 1, 2
# What the floor is multiplied by when it is lowered for the k-th time since it was raised.
FACTORS = (0.7, 0.25, 0.00390625, 0.0)
FLOOR_LEAST = 1e-200


@inlined
def bucket_of(rule: Any, size: float) -> Any:
    """The bucket of a size that is not below the floor."""
    c = rule.clock[0]
    return np.int64(min((size - c.floor) * c.scale, BUCKETS - 1.0))


@inlined
def _link(rule: Any, j: Any, b: Any) -> None:
    after = rule.heads[b]
    rule.links[j].after = after
    rule.links[j].before = -1 - b
    if after >= 0:
        rule.links[after].before = j
    rule.heads[b] = j
    rule.places[j] = 1 + b


@inlined
def _unlink(rule: Any, j: Any) -> None:
    one = rule.links[j]
    if one.before >= 0:
        rule.links[one.before].after = one.after
    else:
        rule.heads[-1 - one.before] = one.after
    if one.after >= 0:
        rule.links[one.after].before = one.before
    rule.places[j] = 0


# The heap


@inlined
def _put(rule: Any, k: Any, key: float, id: Any) -> None:
    rule.heap[k].key = key
    rule.heap[k].id = id
    rule.places[id] = -1 - k


@inlined
def _sift_up(rule: Any, k: Any, key: float, id: Any) -> None:
    """Put an entry at place k or above, where it belongs."""
    heap = rule.heap
    while k > 0:
        above = (k - 1) >> 1
        if heap[above].key >= key:
            break
        _put(rule, k, heap[above].key, heap[above].id)
        k = above
    _put(rule, k, key, id)


@inlined
def _sift_down(rule: Any, key: float, id: Any) -> None:
    """Put an entry at the top or below, where it belongs."""
    heap, n, k = rule.heap, rule.clock[0].entries, np.int64(0)
    while True:
        below = 2 * k + 1
        if below >= n:
            break
        if below + 1 < n:
            below += np.int64(heap[below + 1].key > heap[below].key)
        if heap[below].key <= key:
            break
        _put(rule, k, heap[below].key, heap[below].id)
        k = below
    _put(rule, k, key, id)


@inlined
def _push(rule: Any, key: float, id: Any) -> None:
    c = rule.clock[0]
    c.entries += 1
    _sift_up(rule, c.entries - 1, key, id)


@inlined
def take(rule: Any) -> Any:
    """Take the first entry off, if its key is true; else -1: it is gone or set right."""
    c = rule.clock[0]
    key, id = rule.heap[0].key, rule.heap[0].id
    size = abs(rule.u[id])
    kept = c.floor <= size < MEMBER
    b = bucket_of(rule, size) if kept else np.int64(0)
    if kept and b >= c.open and size < key:
        _sift_down(rule, size, id)
        return np.int64(-1)
    rule.places[id] = 0
    c.entries -= 1
    if c.entries > 0:
        last = rule.heap[c.entries]
        _sift_down(rule, last.key, last.id)
    if kept and b < c.open:
        _link(rule, id, b)
    return id if kept and size == key else np.int64(-1)


# All of them


@inlined
def enter(rule: Any, size: float, key: float, j: Any) -> None:
    """Let a free weight stand where its size belongs or higher; if it must move, at `key`."""
    c = rule.clock[0]
    place = rule.places[j]
    b = bucket_of(rule, size)
    if b >= c.open:
        if place > 0:
            _unlink(rule, j)
        if place >= 0:
            _push(rule, size, j)
        elif rule.heap[-1 - place].key < size:
            _sift_up(rule, -1 - place, size, j)
    elif 0 <= place <= b:
        if place > 0:
            _unlink(rule, j)
        _link(rule, j, min(bucket_of(rule, key), c.open - 1))


@inlined
def come_down(rule: Any, size: float) -> Any:
    """Open the next bucket, until all weights of this size and above are in the heap.

    Returns READY when they are, OPENED, or LOWER where the floor is in the way.
    """
    c = rule.clock[0]
    least = bucket_of(rule, size) if size >= c.floor else np.int64(0)
    if c.open <= least:
        return READY if size >= c.floor else LOWER
    while c.open > least and rule.heads[c.open - 1] < 0:
        c.open -= 1
    if c.open > least:
        c.open -= 1
        j = rule.heads[c.open]
        rule.heads[c.open] = -1
        while j >= 0:
            after = rule.links[j].after
            size = abs(rule.u[j])
            rule.places[j] = 0
            if c.floor <= size < MEMBER:
                b = bucket_of(rule, size)
                if b == c.open:
                    _push(rule, size, j)
                else:
                    _link(rule, j, b)
            j = after
    return OPENED


@inlined
def settle(rule: Any) -> None:
    """Where the heap has grown, close the buckets below the level."""
    c = rule.clock[0]
    if c.entries <= c.most:
        return
    c.open = max(c.open, bucket_of(rule, c.level)) if c.level >= c.floor else c.open
    n = c.entries
    c.entries = 0
    for k in range(n):
        id = rule.heap[k].id
        size = abs(rule.u[id])
        rule.places[id] = 0
        if c.floor <= size < MEMBER:
            b = bucket_of(rule, size)
            if b >= c.open:
                _push(rule, size, id)
            else:
                _link(rule, id, b)
    c.most = max(np.int64(HEAP_MOST), 2 * c.entries)


@kernel
def fill(rule: Any, floor: float) -> None:
    """Link all free weights from `floor` on; blocks below it are taken apart."""
    c = rule.clock[0]
    for k in range(np.uint64(c.entries)):
        rule.places[rule.heap[k].id] = 0
    for b in range(np.uint64(len(rule.heads))):
        j = rule.heads[b]
        while j >= 0:
            rule.places[j] = 0
            j = rule.links[j].after
        rule.heads[b] = -1
    if floor < FLOOR_LEAST:
        floor = 0.0
    c.floor = floor
    c.scale = FINE / floor if floor > 0.0 else 0.0
    c.touches = 0
    c.entries = 0
    c.open = np.int64(BUCKETS)
    c.most = np.int64(HEAP_MOST)
    c.lowest = c.level
    for j in range(np.uint64(len(rule.u))):
        size = abs(rule.u[j])
        if size < floor or size == 0.0:
            continue
        if size >= MEMBER:
            w = current(rule, rule.u[j])
            if abs(w) < floor:
                leave(rule, rule.u[j])
                rule.u[j] = w if w != 0.0 else MARK
            continue
        _link(rule, np.int64(j), bucket_of(rule, size))


@kernel
def lower(rule: Any) -> None:
    """Lower the floor: the more often, the further, so that a few times are enough."""
    c = rule.clock[0]
    factor = FACTORS[min(c.lowered, np.int64(len(FACTORS) - 1))]
    c.lowered += 1
    fill(rule, c.floor * factor)


def check(rule: Any) -> None:
    """Raise AssertionError where an invariant is broken."""
    c = rule.clock[0]
    ensure(0.0 <= c.floor < math.inf, "the floor is out of range")
    ensure(0 <= c.entries <= len(rule.heap), "the entries are miscounted")
    ensure(0 <= c.open <= BUCKETS, "no such bucket")
    size, place = np.abs(rule.u), rule.places
    entries = rule.heap[: c.entries]
    key, id = entries["key"], entries["id"]
    k = np.arange(len(key))
    ensure(np.all(key[(k[1:] - 1) // 2] >= key[1:]), "the heap is in no order")
    ensure(np.array_equal(np.flatnonzero(place < 0), np.sort(id)), "an entry is of no slot")
    ensure(np.all(place[id] == -1 - k), "an entry is elsewhere")
    bucket = np.minimum((size - c.floor) * c.scale, BUCKETS - 1.0)
    asked = (c.floor <= size) & (size < MEMBER) & (size > 0.0)
    ensure(np.all(place[asked] != 0), "a weight has no place")
    heaped = id[asked[id]]
    ensure(np.all(key[asked[id]] >= size[heaped]), "a weight is above its key")
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
