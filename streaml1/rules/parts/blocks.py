"""Blocks of equal weights, for `rules/fobos_linf.py`, which owns the arrays.

What a fall of the level has cut stands in one block until the level comes down to it again or its last
member leaves. So the blocks are a staircase: later ones are higher, and only the highest grows.
A member has the time at which it was cut, and its block is the last that began by then.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.jit import inlined
from streaml1.rows import ensure

__all__ = ["BLOCK", "PLACE", "add_block", "blocks_of", "check", "cut", "leave", "top_block"]

# joined: when the slot became a member, 0 where it is free. place: see `parts/candidates.py`.
PLACE = np.dtype([("joined", "i8"), ("place", "i8")], align=True)
BLOCK = np.dtype([("value", "f8"), ("n", "i8"), ("first", "i8")], align=True)


@inlined
def _block_of(rule: Any, joined: Any) -> Any:
    """The last block that began by then."""
    lo, hi = np.int64(0), rule.clock[0].blocks - 1
    if rule.blocks[hi].first <= joined:
        return hi
    while hi - lo > 1:
        middle = (lo + hi) >> 1
        if rule.blocks[middle].first <= joined:
            lo = middle
        else:
            hi = middle
    return lo


@inlined
def cut(rule: Any, j: Any, u: float) -> float:
    """The weight of a slot with this u."""
    joined = rule.places[j].joined
    if joined == 0:
        return u
    return math.copysign(rule.blocks[_block_of(rule, joined)].value, u)


@inlined
def leave(rule: Any, j: Any, u: float) -> float:
    """Free a slot; returns its weight."""
    one = rule.places[j]
    if one.joined == 0:
        return u
    block = rule.blocks[_block_of(rule, one.joined)]
    block.n -= 1
    one.joined = 0
    return math.copysign(block.value, u)


@inlined
def top_block(rule: Any) -> float:
    """The value of the highest block with members; -1 where there is none."""
    c = rule.clock[0]
    while c.blocks > 0:
        block = rule.blocks[c.blocks - 1]
        if block.n > 0:
            return float(block.value)
        c.blocks -= 1
    return -1.0


@inlined
def add_block(rule: Any, value: float, n: Any, first: Any) -> None:
    """Let n members that have joined since `first` be the highest block."""
    c = rule.clock[0]
    if n == 0:
        return
    if top_block(rule) == value:
        rule.blocks[c.blocks - 1].n += n
        return
    block = rule.blocks[c.blocks]
    block.value = value
    block.n = n
    block.first = first
    c.blocks += 1


def blocks_of(rule: Any, members: Any) -> Any:
    """The number of the block that each of some slots is in."""
    first = rule.blocks["first"][: rule.clock[0].blocks]
    joined = rule.places["joined"][members]
    return np.searchsorted(first, joined, side="right") - 1


def check(rule: Any) -> None:
    """Raise AssertionError where an invariant is broken."""
    c = rule.clock[0]
    ensure(0 <= c.blocks <= len(rule.blocks), "the blocks are miscounted")
    size, joined = np.abs(rule.u), rule.places["joined"]
    ensure(np.all((joined >= 0) & (joined < c.now)), "a member has joined in the future")
    members = np.flatnonzero(joined)
    ensure(np.all(size[members] >= c.floor), "a member is below the floor")
    ensure(np.all(size[joined == 0] <= c.level), "a weight is above the level")
    blocks = rule.blocks[: c.blocks]
    value = blocks["value"]
    ensure(np.all(np.diff(blocks["first"]) > 0), "the blocks are in no order of time")
    ensure(np.all(np.diff(value) > 0.0), "the blocks are no staircase")
    ensure(np.all((value >= 0.0) & (value <= c.level)), "a value is out of range")
    number = blocks_of(rule, members)
    ensure(np.all(number >= 0), "a member is in no block")
    ensure(np.all(size[members] >= value[number]), "a member was never as large")
    n = np.bincount(number, minlength=c.blocks)
    ensure(np.array_equal(n, blocks["n"]), "members are miscounted")
