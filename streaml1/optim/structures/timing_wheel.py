"""A lazy timing wheel: which weights of a raw vector become zero as Theta grows.

A timer ends when Theta reaches its key, the |v| of a slot. Timers stand in a ring of `mask + 1`
buckets, where the bucket b has the keys from b * 2**shift; those beyond the ring stand in its last
bucket. A timer whose key has risen stays where it is: that it is too early is seen when its bucket
is opened, and put right. One whose key has fallen is entered anew; `place` tells which entry
counts, and the other is passed over.

The slots of a row wait in `todo` until the step's projection is over: what that ends need not be
entered. Until the first projection the timers sleep: there are no entries at all.

In what order entries stand depends on growth, tuning and restoring. Looking at one changes nothing
but S and n, and those are sums of whole numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.optim.structures.fixed_point_vector import (
    LEDGER,
    coarser_unit,
    is_short,
    move_row,
    project_row,
    rescale,
)

__all__ = [
    "BUCKETS_LEAST",
    "CHUNK",
    "CLOCK",
    "EMPTY",
    "ITEMS",
    "NEVER",
    "SLOT",
    "WEIGHTS_A_BUCKET",
    "enter",
    "mark",
    "move_far",
    "project",
    "to_unit",
    "tune",
]

SLOT = np.dtype(
    [
        ("v", "i8"),
        ("place", "i8"),  # 1 + the bucket with the entry that counts, or 0
    ],
    align=True,
)
CLOCK = np.dtype(
    [
        *LEDGER,
        ("awake", "i8"),  # whether there are entries
        ("now", "i8"),  # the bucket that Theta is in
        ("shift", "i8"),
        ("mask", "i8"),
        ("low", "i8"),  # no key in that bucket is lower
        ("entries", "i8"),  # with those that are passed over
        ("room", "i8"),  # how many there may be
        ("free", "i8"),  # first chunk of the free ones
        ("pending", "i8"),  # how many slots wait in `todo`
        ("steps", "i8"),  # projections since the wheel was tuned,
        ("way", "f8"),  # and by how much they have moved Theta
        ("patience", "i8"),  # work that is borne until the wheel is tuned again
    ],
    align=True,
)

# Chunk c is the part of `pool` from 16 c: first the next chunk of its chain (0: none), then up to
# 15 slots. `ends` holds where the next entry of a bucket goes. A multiple of 16 is the end of a
# full chunk, where another begins; chunk 0, which does not exist, is full.
CHUNK = 16
ITEMS = CHUNK - 1
EMPTY = CHUNK
NEVER = 2**62
BUCKETS_LEAST = 16
WEIGHTS_A_BUCKET = 16
WIDTH = 4.0  # of a bucket, in what a projection moves Theta by

# What a projection may cost before the width of the buckets is in doubt: entries looked at and
# buckets passed, at all and for each weight that ends. What is above it must add up to some passes
# over all timers.
BORNE = 32
BORNE_A_WEIGHT = 4
PATIENCE = 8


@inlined
def mark(slots: Any, todo: Any, clock: Any, ids: Any, lo: Any, hi: Any) -> None:
    """Write down those slots of a row whose key is before the bucket they stand in, or in none."""
    c = clock[0]
    shift, low = c.shift, c.low
    m = np.uint64(0)
    for k in range(lo, hi):
        j = ids[k]
        key = abs(slots[j].v)
        place = slots[j].place
        low = min(low, key)
        # No place, less 1 and without a sign, is later than any.
        due = np.int64(np.uint64(key >> shift) < np.uint64(place - 1))
        slots[j].place = place & (due - 1)
        todo[m] = j
        m += np.uint64(due)
    c.low = low
    c.pending = np.int64(m)


@inlined
def enter(slots: Any, ends: Any, pool: Any, clock: Any, ids: Any, lo: Any, hi: Any) -> None:
    """Enter timers where they belong, or as far out as there are buckets."""
    c = clock[0]
    shift, now, mask = c.shift, c.now, c.mask
    far = now + mask
    low = c.low
    for k in range(np.uint64(lo), np.uint64(hi)):
        j = ids[k]
        key = abs(slots[j].v)
        low = min(low, key)
        b = max(min(key >> shift, far), now)
        ring = np.uint64(b & mask)
        end = np.int64(ends[ring])
        if end & (CHUNK - 1) == 0:
            chunk = c.free
            c.free = np.int64(pool[np.uint64(CHUNK * chunk)])
            pool[np.uint64(CHUNK * chunk)] = end // CHUNK - 1
            end = CHUNK * chunk + 1
        pool[np.uint64(end)] = j
        ends[ring] = end + 1
        slots[j].place = b + 1
    c.low = low
    c.entries += np.int64(hi) - np.int64(lo)


@inlined
def _open(slots: Any, ends: Any, pool: Any, clock: Any, T: Any) -> None:
    """Empty the bucket that Theta is in: end what ends by T, enter the rest anew."""
    c = clock[0]
    Theta = c.Theta
    here = c.now + 1
    ring = np.uint64(c.now & c.mask)
    end = np.int64(ends[ring])
    ends[ring] = EMPTY
    chunk = (end - 1) // CHUNK
    S, n, seen = np.int64(0), np.int64(0), np.int64(0)
    c.low = NEVER
    while chunk != 0:
        after = np.int64(pool[np.uint64(CHUNK * chunk)])
        first = CHUNK * chunk + 1
        seen += end - first
        kept = np.uint64(first)
        for i in range(np.uint64(first), np.uint64(end)):
            j = pool[i]
            place = slots[j].place
            key = abs(slots[j].v)
            counts = np.int64(place == here)
            over = counts & np.int64(key <= T)
            left = key - Theta
            left &= ~(left >> 63)
            S += left & -over
            n += np.int64(left != 0) & over
            slots[j].place = place & (counts - 1)
            pool[kept] = j
            kept += np.uint64(counts - over)
        enter(slots, ends, pool, clock, pool, first, kept)
        pool[np.uint64(CHUNK * chunk)] = c.free
        c.free = chunk
        chunk = after
        end = CHUNK * (chunk + 1)
    c.S -= S
    c.n -= n
    c.entries -= seen
    c.patience -= seen


@inlined
def _end_pending(slots: Any, todo: Any, clock: Any, T: Any) -> None:
    """End what ends by T of the slots that wait."""
    c = clock[0]
    Theta = c.Theta
    S, n, m = np.int64(0), np.int64(0), np.uint64(0)
    for k in range(np.uint64(c.pending)):
        j = todo[k]
        key = abs(slots[j].v)
        over = np.int64(key <= T)
        left = key - Theta
        left &= ~(left >> 63)
        S += left & -over
        n += np.int64(left != 0) & over
        todo[m] = j
        m += np.uint64(1 - over)
    c.S -= S
    c.n -= n
    c.pending = np.int64(m)


@kernel
def _end(slots: Any, ends: Any, pool: Any, clock: Any, T: Any) -> None:
    """End the weights in the wheel that are zero once Theta is T."""
    c = clock[0]
    last = T >> c.shift
    if last - c.now > c.mask:
        tune(slots, ends, pool, clock, T)
        return
    c.patience -= last - c.now
    while c.now < last:
        if ends[np.uint64(c.now & c.mask)] != EMPTY:
            _open(slots, ends, pool, clock, T)
        c.now += 1
        c.low = 0
    if c.low <= T:
        _open(slots, ends, pool, clock, T)


@kernel
def _lift(slots: Any, ends: Any, pool: Any, clock: Any, T: Any) -> Any:
    """Take all entries out, end what ends by T; returns a chain of the other timers, and n.

    In place: the chunks are chained as they come, and what is kept is written into the first of
    them, behind what is being read.
    """
    c = clock[0]
    first, tail, into = np.int64(0), np.int64(0), np.int64(0)
    kept, count = np.int64(0), np.int64(0)
    for ring in range(c.mask + 1):
        end = np.int64(ends[ring])
        ends[ring] = EMPTY
        chunk = (end - 1) // CHUNK
        while chunk != 0:
            after = np.int64(pool[CHUNK * chunk])
            if first == 0:
                first, into, kept = chunk, chunk, CHUNK * chunk + 1
            else:
                pool[CHUNK * tail] = chunk
            tail = chunk
            pool[CHUNK * tail] = 0
            for i in range(CHUNK * chunk + 1, end):
                j = pool[i]
                place = slots[j].place
                if place == 0 or (place - 1) & c.mask != ring:
                    continue
                slots[j].place = 0
                key = abs(slots[j].v)
                if key <= T:
                    left = max(key - c.Theta, 0)
                    c.S -= left
                    c.n -= np.int64(left != 0)
                    continue
                if kept == CHUNK * (into + 1):
                    into = np.int64(pool[CHUNK * into])
                    kept = CHUNK * into + 1
                pool[kept] = j
                kept += 1
                count += 1
            chunk = after
            end = CHUNK * (chunk + 1)
    if first != 0:  # the chunks after those that are kept are free
        pool[CHUNK * tail] = c.free
        c.free = np.int64(pool[CHUNK * into])
        pool[CHUNK * into] = 0
    c.entries = 0
    return first, count


@inlined
def _set_up(ends: Any, clock: Any, count: Any, T: Any) -> None:
    """Number and width of the buckets for `count` timers; the wheel is empty."""
    c = clock[0]
    size = np.int64(len(ends))
    while size > BUCKETS_LEAST and size * WEIGHTS_A_BUCKET > count:
        size >>= 1
    width = WIDTH * float(c.S) / float((c.n + 1) * size)
    if c.steps > 0:
        width = WIDTH * c.way / c.steps
    c.mask = size - 1
    c.shift = max(0, math.frexp(width)[1] - 1)
    c.now = T >> c.shift
    c.low = 0
    c.way, c.steps = 0.0, 0
    c.patience = PATIENCE * (count + size)


@kernel
def tune(slots: Any, ends: Any, pool: Any, clock: Any, T: Any) -> None:
    """Enter all timers anew, in buckets as wide as is best now; end what ends by T."""
    c = clock[0]
    chunk, count = _lift(slots, ends, pool, clock, T)
    _set_up(ends, clock, count, T)
    while chunk != 0:
        after = np.int64(pool[CHUNK * chunk])
        first = CHUNK * chunk + 1
        enter(slots, ends, pool, clock, pool, first, first + min(ITEMS, count))
        count -= min(ITEMS, count)
        pool[CHUNK * chunk] = c.free
        c.free = chunk
        chunk = after


@kernel
def _wake(slots: Any, ends: Any, pool: Any, todo: Any, clock: Any) -> None:
    """Enter the timers of all weights."""
    c = clock[0]
    _set_up(ends, clock, c.n, c.Theta)
    for j in range(np.uint64(len(slots))):
        if abs(slots[j].v) > c.Theta:
            todo[0] = j
            enter(slots, ends, pool, clock, todo, 0, 1)
    c.awake = 1
    c.pending = 0


@kernel
def project(slots: Any, ends: Any, pool: Any, todo: Any, clock: Any) -> None:
    """Move all weights to where S is at most z."""
    c = clock[0]
    if c.awake == 0:
        _wake(slots, ends, pool, todo, clock)
    z, n = c.z - c.n, c.n  # so much less that rounding q down leaves S within z
    T = c.Theta
    while True:
        q = (c.S - z) // c.n
        T = c.Theta + q
        before = c.n
        _end(slots, ends, pool, clock, T)
        _end_pending(slots, todo, clock, T)
        if c.n == before:
            break
    c.Theta = T
    c.S -= c.n * q
    c.way += q
    c.steps += 1
    borne = BORNE + BORNE_A_WEIGHT * (n - c.n)
    c.patience = min(c.patience + borne, PATIENCE * (c.n + c.mask))


@kernel
def to_unit(slots: Any, ends: Any, pool: Any, clock: Any, unit: float) -> None:
    """Write all down anew, in another unit; the timers sleep."""
    c = clock[0]
    if c.awake != 0:
        for j in range(np.uint64(len(slots))):
            slots[j].place = 0
        for ring in range(np.uint64(len(ends))):
            ends[ring] = EMPTY
        last = len(pool) // CHUNK - 1
        for chunk in range(1, last):
            pool[CHUNK * chunk] = chunk + 1
        pool[CHUNK * last] = 0
        c.free, c.entries, c.pending, c.awake = 1, 0, 0, 0
    c.way *= c.unit / unit
    rescale(slots, clock, unit)


@kernel
def move_far(
    slots: Any, ends: Any, pool: Any, todo: Any, clock: Any,
    ids: Any, values: Any, lo: Any, hi: Any, step: float,
) -> None:  # fmt: skip
    """Move a row by a step that may be too long for the unit."""
    c = clock[0]
    unit = coarser_unit(clock, values, lo, hi, step)
    if unit > c.unit:
        to_unit(slots, ends, pool, clock, unit)
    if is_short(clock, values, lo, hi, step):
        move_row(slots, clock, ids, values, lo, hi, step)
        return
    if c.awake == 0:
        _wake(slots, ends, pool, todo, clock)
    q, S, n = project_row(slots, clock, ids, values, lo, hi, step)
    _end(slots, ends, pool, clock, c.Theta + q)
    c.Theta += q
    c.S += S - c.n * q
    c.n += n
