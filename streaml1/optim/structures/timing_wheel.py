"""A lazy timing wheel: finds the weights of a raw vector that become zero as Theta grows.

After the hashed and hierarchical timing wheels of Varghese & Lauck (1987), with Theta as the time.
For `l1_ball.py` and each label of `softmax_ball.py`, which own the arrays. Symbols as in
`fixed_point_vector.py`.

A *timer* is a weight; its *key* is |v|, and it expires when Theta reaches the key.

Structure:

- A ring of `mask + 1` buckets. Bucket b has the keys from b * 2**shift on. It is at index b & mask
  of `ends`. `now` is the bucket that Theta is in. Keys beyond the ring are in its last bucket.
- Entries (slots) of a bucket are in a chain of chunks of `pool`. Chunk c begins at `pool[16 c]`:
  first the next chunk of its chain (0 if none), then up to 15 slots. `ends` holds the position
  after the last entry of each bucket. A multiple of 16 is the end of a full chunk. Chunk 0 does not
  exist; it counts as full, so an empty bucket has the end 16.
- `place` of a slot is 1 + the bucket that has its valid entry, or 0. Entries elsewhere are stale.
- `todo` holds slots of the current row. They are entered after the projection of the step: those
  that expire in it need no entry.

Invariants: a timer is never in a bucket later than its key, so none expires unnoticed. A timer
whose key has risen stays where it is, too early; that is corrected when its bucket is opened. A
timer whose key has fallen below its bucket is entered again, and its old entry becomes stale.

Until the first projection the wheel sleeps: there are no entries at all.

Cost: O(1) to enter a timer; each entry is looked at once for each time its bucket is opened. `tune`
sets the width of the buckets such that a projection passes few of them, and is called when the work
per projection exceeds what `patience` allows.

The order of the entries depends on growth, tuning and loading. It must not matter: looking at an
entry changes S and n alone, which are sums of integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel, u64
from streaml1.core.rows import ensure
from streaml1.core.simd.math import binary_exponent
from streaml1.optim.structures.fixed_point_vector import (
    LEDGER,
    coarser_unit,
    is_short,
    move_row,
    project_row,
    rescale,
)

__all__ = [
    "CHUNK",
    "CLOCK",
    "EMPTY",
    "ITEMS",
    "MIN_BUCKETS",
    "NEVER",
    "SLOT",
    "WEIGHTS_PER_BUCKET",
    "check",
    "enter",
    "find_early",
    "move_far",
    "project",
    "to_unit",
    "tune",
]

SLOT = np.dtype([("v", "i8"), ("place", "i8")], align=True)
CLOCK = np.dtype(
    [
        *LEDGER,
        ("awake", "i8"),  # whether there are entries
        ("now", "i8"),
        ("shift", "i8"),
        ("mask", "i8"),
        ("low", "i8"),  # lower bound of the keys in the bucket `now`
        ("entries", "i8"),  # with stale ones
        ("room", "i8"),  # upper bound of `entries`
        ("free", "i8"),  # first chunk of the free chain
        ("pending", "i8"),  # number of slots in `todo`
        ("steps", "i8"),  # projections since the wheel was tuned,
        ("way", "f8"),  # and by how much they have moved Theta
        ("patience", "i8"),  # work that is left until the wheel is tuned
    ],
    align=True,
)

CHUNK = 16
ITEMS = CHUNK - 1
EMPTY = CHUNK
NEVER = 2**62
MIN_BUCKETS = 16
WEIGHTS_PER_BUCKET = 16
WIDTH = 4.0  # of a bucket, in moves of Theta by one projection

# Work (entries looked at, buckets passed) that a projection may cost before it reduces `patience`:
# a constant, and some for each weight that expires. Patience lasts for some passes over all timers.
FREE_WORK = 32
FREE_WORK_PER_WEIGHT = 4
PATIENCE = 8


@inlined
def find_early(slots: Any, todo: Any, clock: Any, ids: Any, lo: Any, hi: Any) -> None:
    """Append to `todo` the slots of a row whose key is before their bucket, or that have none.

    Without a branch: whether a key has fallen is unpredictable.
    """
    c = clock[0]
    shift, low = c.shift, c.low
    m = u64(0)
    for k in range(lo, hi):
        j = ids[k]
        key = abs(slots[j].v)
        place = slots[j].place
        low = min(low, key)
        # place = 0, minus 1, is the largest unsigned number: later than any bucket.
        due = np.int64(np.uint64(key >> shift) < np.uint64(place - 1))
        slots[j].place = place & (due - 1)
        todo[m] = j
        m += np.uint64(due)
    c.low = low
    c.pending = np.int64(m)


@inlined
def enter(slots: Any, ends: Any, pool: Any, clock: Any, ids: Any, lo: Any, hi: Any) -> None:
    """Enter timers into their buckets, or into the last bucket of the ring."""
    c = clock[0]
    shift, now, mask = c.shift, c.now, c.mask
    last_bucket = now + mask
    low = c.low
    for k in range(np.uint64(lo), np.uint64(hi)):
        j = ids[k]
        key = abs(slots[j].v)
        low = min(low, key)
        b = max(min(key >> shift, last_bucket), now)
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
    """Empty the bucket `now`: end the timers with keys up to T, enter the others again.

    Entries are compacted in place: `n_kept` never passes i. The chunk is not free before its
    survivors are entered elsewhere.
    """
    c = clock[0]
    Theta = c.Theta
    place_now = c.now + 1
    ring = np.uint64(c.now & c.mask)
    end = np.int64(ends[ring])
    ends[ring] = EMPTY
    chunk = (end - 1) // CHUNK
    S, n, n_seen = np.int64(0), np.int64(0), np.int64(0)
    c.low = NEVER
    while chunk != 0:
        after = np.int64(pool[np.uint64(CHUNK * chunk)])
        first = CHUNK * chunk + 1
        n_seen += end - first
        n_kept = np.uint64(first)
        for i in range(np.uint64(first), np.uint64(end)):
            j = pool[i]
            place = slots[j].place
            key = abs(slots[j].v)
            counts = np.int64(place == place_now)
            ends_now = counts & np.int64(key <= T)
            remaining = key - Theta
            remaining &= ~(remaining >> 63)
            S += remaining & -ends_now
            n += np.int64(remaining != 0) & ends_now
            slots[j].place = place & (counts - 1)
            pool[n_kept] = j
            n_kept += np.uint64(counts - ends_now)
        enter(slots, ends, pool, clock, pool, first, n_kept)
        pool[np.uint64(CHUNK * chunk)] = c.free
        c.free = chunk
        chunk = after
        end = CHUNK * (chunk + 1)
    c.S -= S
    c.n -= n
    c.entries -= n_seen
    c.patience -= n_seen


@inlined
def _end_pending(slots: Any, todo: Any, clock: Any, T: Any) -> None:
    """End the timers in `todo` with keys up to T."""
    c = clock[0]
    Theta = c.Theta
    S, n, m = np.int64(0), np.int64(0), u64(0)
    for k in range(np.uint64(c.pending)):
        j = todo[k]
        key = abs(slots[j].v)
        ends_now = np.int64(key <= T)
        remaining = key - Theta
        remaining &= ~(remaining >> 63)
        S += remaining & -ends_now
        n += np.int64(remaining != 0) & ends_now
        todo[m] = j
        m += np.uint64(1 - ends_now)
    c.S -= S
    c.n -= n
    c.pending = np.int64(m)


@kernel
def _end(slots: Any, ends: Any, pool: Any, clock: Any, T: Any) -> None:
    """End the timers in the wheel with keys up to T."""
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
def _take_out_all(slots: Any, ends: Any, pool: Any, clock: Any, T: Any) -> Any:
    """Empty the wheel and end the timers with keys up to T; return a chain of the others, and n.

    In place: the chunks are chained in the order in which they are read, and survivors are written
    to the first of them. Invariant: the write position is at or behind the read position.
    """
    c = clock[0]
    first, tail, target = np.int64(0), np.int64(0), np.int64(0)
    n_kept, count = np.int64(0), np.int64(0)
    for ring in range(c.mask + 1):
        end = np.int64(ends[ring])
        ends[ring] = EMPTY
        chunk = (end - 1) // CHUNK
        while chunk != 0:
            after = np.int64(pool[CHUNK * chunk])
            if first == 0:
                first, target, n_kept = chunk, chunk, CHUNK * chunk + 1
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
                    remaining = max(key - c.Theta, 0)
                    c.S -= remaining
                    c.n -= np.int64(remaining != 0)
                    continue
                if n_kept == CHUNK * (target + 1):
                    target = np.int64(pool[CHUNK * target])
                    n_kept = CHUNK * target + 1
                pool[n_kept] = j
                n_kept += 1
                count += 1
            chunk = after
            end = CHUNK * (chunk + 1)
    if first != 0:  # the chunks behind the survivors are free
        pool[CHUNK * tail] = c.free
        c.free = np.int64(pool[CHUNK * target])
        pool[CHUNK * target] = 0
    c.entries = 0
    return first, count


@inlined
def _set_buckets(ends: Any, clock: Any, count: Any, T: Any) -> None:
    """Set number and width of the buckets for `count` timers; the wheel is empty."""
    c = clock[0]
    size = np.int64(len(ends))
    while size > MIN_BUCKETS and size * WEIGHTS_PER_BUCKET > count:
        size >>= 1
    width = WIDTH * float(c.S) / float((c.n + 1) * size)
    if c.steps > 0:
        width = WIDTH * c.way / c.steps
    c.mask = size - 1
    c.shift = max(0, binary_exponent(width) - 1)
    c.now = T >> c.shift
    c.low = 0
    c.way, c.steps = 0.0, 0
    c.patience = PATIENCE * (count + size)


@kernel
def tune(slots: Any, ends: Any, pool: Any, clock: Any, T: Any) -> None:
    """Enter all timers again, in buckets of a better width; end those with keys up to T."""
    c = clock[0]
    chunk, count = _take_out_all(slots, ends, pool, clock, T)
    _set_buckets(ends, clock, count, T)
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
    """Wake the wheel: enter the timers of all weights."""
    c = clock[0]
    _set_buckets(ends, clock, c.n, c.Theta)
    for j in range(np.uint64(len(slots))):
        if abs(slots[j].v) > c.Theta:
            todo[0] = j
            enter(slots, ends, pool, clock, todo, 0, 1)
    c.awake = 1
    c.pending = 0


@kernel
def project(slots: Any, ends: Any, pool: Any, todo: Any, clock: Any) -> None:
    """Project: increase Theta until S is at most z.

    Invariant of the loop: q is a lower bound of the solution, because n and S count weights that
    expire before it. It is the solution when no timer expires any more.
    """
    c = clock[0]
    if c.awake == 0:
        _wake(slots, ends, pool, todo, clock)
    z, n = c.z - c.n, c.n  # n less, so that S is within z although q is rounded down
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
    free_work = FREE_WORK + FREE_WORK_PER_WEIGHT * (n - c.n)
    c.patience = min(c.patience + free_work, PATIENCE * (c.n + c.mask))


@kernel
def to_unit(slots: Any, ends: Any, pool: Any, clock: Any, unit: float) -> None:
    """Rewrite all weights in another unit; the wheel sleeps."""
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
    """Move a row by a step that may be too long for the current unit."""
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


def check(slots: Any, ends: Any, pool: Any, clock: Any) -> None:
    """Raise AssertionError if an invariant of the wheel is broken."""
    c = clock[0]
    place = slots["place"]
    chains = [_chain(ends, pool, bucket) for bucket in range(len(ends))]
    used = sum((chunks for chunks, _ in chains), _free_chunks(pool, clock))
    chunks = len(pool) // CHUNK
    ensure(sorted(used) == list(range(1, chunks)), "a chunk is lost, or used twice")
    ensure(c.pending == 0, f"{c.pending} slots of a row are pending")
    n_entries = sum(len(entries) for _, entries in chains)
    ensure(c.entries == n_entries, f"entries={c.entries} should be {n_entries}")
    ensure(c.entries <= c.room, f"{c.entries} entries exceed room={c.room}")
    if not c.awake:
        ensure(c.entries == 0 and not place.any(), "the wheel sleeps, but has entries")
        return
    ensure(c.now == c.Theta >> c.shift, f"Theta is not in bucket {c.now}")
    is_mask = c.mask & (c.mask + 1) == 0 and c.mask < len(ends)
    ensure(is_mask, f"mask={c.mask} does not fit {len(ends)} buckets")
    _check_timers(slots, clock, [entries for _, entries in chains])


def _check_timers(slots: Any, clock: Any, buckets: list[list[int]]) -> None:
    c = clock[0]
    key, place = np.abs(slots["v"]), slots["place"]
    late = (key > c.Theta) & ((place == 0) | ((place - 1) << c.shift > key))
    ensure(not late.any(), f"the timer of slot {np.argmax(late)} is too late")
    placed = np.flatnonzero(place)
    bucket = place[placed] - 1
    ensure(np.all((c.now <= bucket) & (bucket <= c.now + c.mask)), "a bucket is out of the ring")
    entries = {(ring, j) for ring, members in enumerate(buckets) for j in members}
    valid = set(zip((bucket & c.mask).tolist(), placed.tolist(), strict=True))
    ensure(valid <= entries, "a valid entry is missing")
    now = c.now & c.mask
    keys = [key[j] for ring, j in valid if ring == now and key[j] > c.Theta]
    ensure(min(keys, default=NEVER) >= c.low, f"a timer of bucket {c.now} is below low={c.low}")


def _chain(ends: Any, pool: Any, bucket: int) -> tuple[list[int], list[int]]:
    """Return the chunks and the entries of a bucket."""
    end = int(ends[bucket])
    chunk = (end - 1) // CHUNK
    chunks: list[int] = []
    entries: list[int] = []
    while chunk and len(chunks) < len(pool):
        chunks.append(chunk)
        entries += pool[CHUNK * chunk + 1 : end].tolist()
        chunk = int(pool[CHUNK * chunk])
        end = CHUNK * (chunk + 1)
    return chunks, entries


def _free_chunks(pool: Any, clock: Any) -> list[int]:
    """Return the chunks of the free chain."""
    chunk = int(clock[0].free)
    chunks: list[int] = []
    while chunk and len(chunks) < len(pool):
        chunks.append(chunk)
        chunk = int(pool[CHUNK * chunk])
    return chunks
