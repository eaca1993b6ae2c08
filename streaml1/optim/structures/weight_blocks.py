"""Blocks of equal weights, for `optim/fobos_linf.py`, which owns the arrays.

A disjoint-set structure (union by size, with a direct pointer to the representative) whose sets are
ordered by value. Weights that the level has clamped form a block until the level falls to it again, or
its last member leaves. So the blocks are a *staircase*: later ones are higher, and only the highest falls.

Structure:

- The u of a member is not its weight, but `MEMBER` times an id, with the sign of the weight. Larger than any
  weight, it distinguishes members from free weights.
- `blocks` has a record for each id. Each id points to the one that leads its block (`lead`), which has the
  value, the number of members, and its neighbours on the staircase (`lower`, `higher`). So a weight is found
  by two loads.
- The ids of a block form a ring (`after`, `before`); free ids form a chain from `blocks[0].after`.
- Id 0 is carried by all free weights, so that they need no special case. It is both ends of the staircase.

Invariants: values rise along the staircase; n of a block is the sum of `carried` over its ring; every id
except the leading one is carried by a member.

Cost: O(1) for everything except `merged`, which redirects the ids of the block with fewer members: O(log n)
for each member, amortized, because its block at least doubles.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel, u64
from streaml1.core.rows import ensure
from streaml1.optim.structures.slot_arrays import records

__all__ = [
    "BLOCK",
    "MEMBER",
    "add",
    "check",
    "current",
    "has_room",
    "id_of",
    "ids_of",
    "join",
    "leave",
    "leave_all",
    "merged",
    "new_block",
    "no_blocks",
    "with_room",
]

BLOCK = np.dtype(
    [
        ("lead", "i8"),  # the id that leads its block; -1 if the id is free
        ("carried", "i8"),  # number of members that carry the id
        ("after", "i8"),
        ("before", "i8"),
        # For an id that leads:
        ("value", "f8"),
        ("n", "i8"),  # number of members
        ("lower", "i8"),
        ("higher", "i8"),
    ],
    align=True,
)
MEMBER = 2.0**600  # above any weight
ONE_ID = 2.0**-600
MIN_IDS = 64
ALWAYS = np.int64(2**62)  # `carried` of id 0: never falls to 0


def no_blocks(n: int = MIN_IDS) -> Any:
    """Return records of `n` ids, all free."""
    blocks = records(n, BLOCK)
    blocks["carried"][0] = ALWAYS
    return _freed(blocks, 1)


def _freed(blocks: Any, first: int) -> Any:
    """Put the ids from `first` on in front of the chain of free ids."""
    n = len(blocks)
    blocks["lead"][first:] = -1
    blocks["after"][first:] = np.arange(first + 1, n + 1)
    blocks["after"][-1] = blocks["after"][0]
    blocks["after"][0] = first
    return blocks


def with_room(blocks: Any) -> Any:
    """Return the same records, and as many new ones."""
    larger = records(2 * len(blocks), BLOCK)
    larger[: len(blocks)] = blocks
    return _freed(larger, len(blocks))


@inlined
def has_room(rule: Any) -> bool:
    """Return whether there is a free id; a step takes at most one."""
    return bool(rule.blocks[0].after != 0)


@inlined
def id_of(u: float) -> Any:
    """Return the id in u; 0 for a free weight."""
    return np.uint64(np.int64(abs(u) * ONE_ID))


@inlined
def current(rule: Any, u: float) -> float:
    """Return the weight of a slot that stores u."""
    id = id_of(u)
    size = rule.blocks[np.uint64(rule.blocks[id].lead)].value
    return math.copysign(size, u) if id > u64(0) else u


@inlined
def leave(rule: Any, id: Any) -> None:
    """Remove a member that carries this id; no-op for id 0."""
    record = rule.blocks[id]
    record.carried -= 1
    rule.blocks[np.uint64(record.lead)].n -= 1
    if record.carried == 0:
        _free_unused(rule, id)


@inlined
def _free_unused(rule: Any, id: Any) -> None:
    """Free an id without members, unless it leads others; free the leading id of an empty block."""
    blocks = rule.blocks
    lead = np.uint64(blocks[id].lead)
    if id != lead:
        _unring(blocks, id)
    if blocks[lead].n == 0:
        _unstair(blocks, lead)
        _free(blocks, lead)


@inlined
def _unring(blocks: Any, id: Any) -> None:
    """Remove an id from its ring and free it."""
    before, after = blocks[id].before, blocks[id].after
    blocks[np.uint64(before)].after = after
    blocks[np.uint64(after)].before = before
    _free(blocks, id)


@inlined
def _unstair(blocks: Any, id: Any) -> None:
    """Remove a block from the staircase."""
    lower, higher = blocks[id].lower, blocks[id].higher
    blocks[np.uint64(lower)].higher = higher
    blocks[np.uint64(higher)].lower = lower


@inlined
def _free(blocks: Any, id: Any) -> None:
    """Put an id in front of the chain of free ids."""
    blocks[id].lead = -1
    blocks[id].after = blocks[0].after
    blocks[0].after = np.int64(id)


@inlined
def new_block(rule: Any, value: float) -> Any:
    """Create a block above all others, without members; return its id."""
    blocks = rule.blocks
    id = np.uint64(blocks[0].after)
    top = blocks[0].lower
    record = blocks[id]
    blocks[0].after = record.after
    record.lead = record.after = record.before = np.int64(id)
    record.carried = record.n = 0
    record.value = value
    record.lower = top
    record.higher = 0
    blocks[np.uint64(top)].higher = np.int64(id)
    blocks[0].lower = np.int64(id)
    return id


@inlined
def join(rule: Any, j: Any, id: Any) -> None:
    """Let a slot carry this id; the caller counts it with `add`."""
    rule.u[j] = math.copysign(MEMBER * float(id), rule.u[j])


@inlined
def add(rule: Any, id: Any, n: Any) -> None:
    """Count n members that have joined the block of a leading id."""
    rule.blocks[id].carried += n
    rule.blocks[id].n += n


@inlined
def merged(rule: Any, a: Any, b: Any) -> Any:
    """Merge two adjacent blocks of the staircase; return the id that leads the result.

    If one of them is 0, the result is the other.
    """
    blocks = rule.blocks
    if a == u64(0) or b == u64(0):
        return a | b
    if blocks[a].n < blocks[b].n:
        a, b = b, a
    _unstair(blocks, b)
    blocks[a].n += blocks[b].n
    id = b
    while True:
        blocks[id].lead = np.int64(a)
        id = np.uint64(blocks[id].after)
        if id == b:
            break
    next_a, next_b = blocks[a].after, blocks[b].after
    blocks[a].after, blocks[b].after = next_b, next_a
    blocks[np.uint64(next_b)].before, blocks[np.uint64(next_a)].before = np.int64(a), np.int64(b)
    if blocks[b].carried == 0:
        _unring(blocks, b)
    return a


@kernel
def leave_all(rule: Any, slots: Any) -> None:
    """Remove slots from their blocks; the caller sets their u."""
    for k in range(np.uint64(len(slots))):
        leave(rule, id_of(rule.u[slots[k]]))


def ids_of(u: Any) -> Any:
    """Return the ids in an array of u."""
    return (np.abs(u) * ONE_ID).astype(np.int64)


def check(rule: Any) -> None:
    """Raise AssertionError if an invariant is broken."""
    blocks, d = rule.blocks, len(rule.blocks)
    size = np.abs(rule.u)
    carried = size[size >= MEMBER] * ONE_ID
    ensure(np.all(carried < d), "an id is out of range")
    ensure(np.all(carried % 1.0 == 0.0), "an id is not an integer")
    carried = np.bincount(carried.astype(np.int64), minlength=d)
    for name in ("after", "before", "lower", "higher"):
        ensure(np.all((blocks[name] >= 0) & (blocks[name] < d)), f"{name} is not an id")
    alive, value, id = np.zeros(d, bool), np.inf, int(blocks["lower"][0])
    while id != 0:
        ensure(not alive[id], "the staircase is a cycle")
        ensure(blocks["higher"][blocks["lower"][id]] == id, "the staircase is broken")
        ensure(0.0 <= blocks["value"][id] < value, "the values do not rise")
        ensure(blocks["value"][id] <= rule.clock[0].level, "a value is above the level")
        value, ring, next_id = blocks["value"][id], [id], int(blocks["after"][id])
        while next_id != id:
            ensure(len(ring) < d, "a ring is not closed")
            ring.append(next_id)
            next_id = int(blocks["after"][next_id])
        ensure(np.all(blocks["after"][blocks["before"][ring]] == ring), "a ring is broken")
        ensure(np.all(blocks["lead"][ring] == id), "an id points to another block")
        ensure(np.all(carried[ring[1:]] > 0), "an id has no members")
        ensure(blocks["n"][id] == np.sum(carried[ring]) > 0, "a number of members is wrong")
        alive[ring] = True
        id = int(blocks["lower"][id])
    ensure(np.all(alive[carried > 0]), "a member is in no block")
    ensure(np.array_equal(blocks["carried"][alive], carried[alive]), "a number of members is wrong")
    ensure(blocks["lead"][0] == 0 and blocks["carried"][0] > 0, "id 0 is damaged")
    free, id = 0, int(blocks["after"][0])
    while id != 0:
        ensure(free < d and blocks["lead"][id] == -1, "an id is not free")
        free, id = free + 1, int(blocks["after"][id])
    ensure(free + np.count_nonzero(alive) + 1 == d, "an id is lost")
