"""Blocks of equal weights, for `optim/fobos_linf.py`, which owns the arrays.

What a fall of the level has cut stands in one block until the level comes down to it again or its last
member leaves. So the blocks are a staircase: later ones are higher, and only the highest falls.

The u of a member is no weight but MEMBER times an id, with the sign of the weight. Each id tells the one that
leads its block, which has the value: a weight is found by two loads, and no branch. Where two blocks become one,
the ids of the one with fewer members are told the other's: a member pays for as many of these as its block has
doubled. An id is free again when no member carries it, unless it leads.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
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

# The record of an id. That of 0, which no member carries, stands for all free weights, so that none
# need be told apart; it is both ends of the staircase, and its `after` is the first free id.
BLOCK = np.dtype(
    [
        ("lead", "i8"),  # its block's; of a free id -1
        ("carried", "i8"),  # by so many members
        ("after", "i8"),  # the ids of a block are a ring; free ones a chain
        ("before", "i8"),
        # Of the id that leads:
        ("value", "f8"),
        ("n", "i8"),  # members
        ("lower", "i8"),  # the next blocks of the staircase
        ("higher", "i8"),
    ],
    align=True,
)  # fmt: skip
MEMBER = 2.0**600  # above all weights
ONE_ID = 2.0**-600
LEAST = 64
ALWAYS = np.int64(2**62)  # members that carry 0


def no_blocks(n: int = LEAST) -> Any:
    """Records of `n` ids, all free."""
    blocks = records(n, BLOCK)
    blocks["carried"][0] = ALWAYS
    return _freed(blocks, 1)


def _freed(blocks: Any, first: int) -> Any:
    """Chain the ids from `first` on in front of those that are free."""
    n = len(blocks)
    blocks["lead"][first:] = -1
    blocks["after"][first:] = np.arange(first + 1, n + 1)
    blocks["after"][-1] = blocks["after"][0]
    blocks["after"][0] = first
    return blocks


def with_room(blocks: Any) -> Any:
    """The same records, and as many more."""
    larger = records(2 * len(blocks), BLOCK)
    larger[: len(blocks)] = blocks
    return _freed(larger, len(blocks))


@inlined
def has_room(rule: Any) -> bool:
    """Whether there is an id for a new block: a step takes no more than one."""
    return bool(rule.blocks[0].after != 0)


@inlined
def id_of(u: float) -> Any:
    """The id that a member with this u carries; 0 of a free weight."""
    return np.uint64(np.int64(abs(u) * ONE_ID))


@inlined
def current(rule: Any, u: float) -> float:
    """The weight of a slot with this u."""
    id = id_of(u)
    size = rule.blocks[np.uint64(rule.blocks[id].lead)].value
    return math.copysign(size, u) if id > np.uint64(0) else u


@inlined
def leave(rule: Any, id: Any) -> None:
    """Let a member that carries this id go; 0 is none."""
    one = rule.blocks[id]
    one.carried -= 1
    rule.blocks[np.uint64(one.lead)].n -= 1
    if one.carried == 0:
        _let_go(rule, id)


@inlined
def _let_go(rule: Any, id: Any) -> None:
    """Nobody carries it: it is free, unless it leads others; so is one that leads nobody."""
    blocks = rule.blocks
    lead = np.uint64(blocks[id].lead)
    if id != lead:
        _unring(blocks, id)
    if blocks[lead].n == 0:
        _unstair(blocks, lead)
        _free(blocks, lead)


@inlined
def _unring(blocks: Any, id: Any) -> None:
    before, after = blocks[id].before, blocks[id].after
    blocks[np.uint64(before)].after = after
    blocks[np.uint64(after)].before = before
    _free(blocks, id)


@inlined
def _unstair(blocks: Any, id: Any) -> None:
    lower, higher = blocks[id].lower, blocks[id].higher
    blocks[np.uint64(lower)].higher = higher
    blocks[np.uint64(higher)].lower = lower


@inlined
def _free(blocks: Any, id: Any) -> None:
    blocks[id].lead = -1
    blocks[id].after = blocks[0].after
    blocks[0].after = np.int64(id)


@inlined
def new_block(rule: Any, value: float) -> Any:
    """Begin a block above all others; returns its id."""
    blocks = rule.blocks
    id = np.uint64(blocks[0].after)
    top = blocks[0].lower
    one = blocks[id]
    blocks[0].after = one.after
    one.lead = one.after = one.before = np.int64(id)
    one.carried = one.n = 0
    one.value = value
    one.lower = top
    one.higher = 0
    blocks[np.uint64(top)].higher = np.int64(id)
    blocks[0].lower = np.int64(id)
    return id


@inlined
def join(rule: Any, j: Any, id: Any) -> None:
    """Let a slot carry this id; `add` counts it."""
    rule.u[j] = math.copysign(MEMBER * float(id), rule.u[j])


@inlined
def add(rule: Any, id: Any, n: Any) -> None:
    """Count n members that have joined, with an id that leads."""
    rule.blocks[id].carried += n
    rule.blocks[id].n += n


@inlined
def merged(rule: Any, a: Any, b: Any) -> Any:
    """Make one of two blocks, neighbours on the staircase; returns the id that leads it.

    Where 0 is one of them, the other it is.
    """
    blocks = rule.blocks
    if a == np.uint64(0) or b == np.uint64(0):
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
    """Let these slots leave their blocks; what their u is then is left to the caller."""
    for k in range(np.uint64(len(slots))):
        leave(rule, id_of(rule.u[slots[k]]))


def ids_of(u: Any) -> Any:
    """The id that each of some members carries."""
    return (np.abs(u) * ONE_ID).astype(np.int64)


def check(rule: Any) -> None:
    """Raise AssertionError where an invariant is broken."""
    blocks, d = rule.blocks, len(rule.blocks)
    size = np.abs(rule.u)
    carried = size[size >= MEMBER] * ONE_ID
    ensure(np.all(carried < d), "an id is out of range")
    ensure(np.all(carried % 1.0 == 0.0), "an id is no whole number")
    carried = np.bincount(carried.astype(np.int64), minlength=d)
    for name in ("after", "before", "lower", "higher"):
        ensure(np.all((blocks[name] >= 0) & (blocks[name] < d)), f"{name} is no id")
    alive, value, id = np.zeros(d, bool), np.inf, int(blocks["lower"][0])
    while id != 0:
        ensure(not alive[id], "the staircase has no end")
        ensure(blocks["higher"][blocks["lower"][id]] == id, "the staircase is broken")
        ensure(0.0 <= blocks["value"][id] < value, "the blocks are no staircase")
        ensure(blocks["value"][id] <= rule.clock[0].level, "a value is out of range")
        value, ring, next_id = blocks["value"][id], [id], int(blocks["after"][id])
        while next_id != id:
            ensure(len(ring) < d, "a ring does not come back")
            ring.append(next_id)
            next_id = int(blocks["after"][next_id])
        ensure(np.all(blocks["after"][blocks["before"][ring]] == ring), "a ring is broken")
        ensure(np.all(blocks["lead"][ring] == id), "an id is led by another")
        ensure(np.all(carried[ring[1:]] > 0), "an id is carried by nobody")
        ensure(blocks["n"][id] == np.sum(carried[ring]) > 0, "members are miscounted")
        alive[ring] = True
        id = int(blocks["lower"][id])
    ensure(np.all(alive[carried > 0]), "a member is in no block")
    ensure(np.array_equal(blocks["carried"][alive], carried[alive]), "members are miscounted")
    ensure(blocks["lead"][0] == 0 and blocks["carried"][0] > 0, "free weights have a block")
    free, id = 0, int(blocks["after"][0])
    while id != 0:
        ensure(free < d and blocks["lead"][id] == -1, "an id is not free")
        free, id = free + 1, int(blocks["after"][id])
    ensure(free + np.count_nonzero(alive) + 1 == d, "an id is lost")
