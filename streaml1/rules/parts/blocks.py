"""Blocks of equal weights, for `rules/fobos_linf.py`, which owns the arrays.

What a fall of the level has cut stands in one block until the level comes down to it again or its last
member leaves. So the blocks are a staircase: later ones are higher, and only the highest grows.
The u of a member is no weight but the time at which it was cut, in units of MEMBER and with the sign of the
weight; its block is the last that began by then.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.jit import inlined
from streaml1.rows import ensure

__all__ = [
    "BLOCK",
    "MEMBER",
    "add_block",
    "blocks_of",
    "check",
    "current",
    "join",
    "leave",
    "top_block",
]

BLOCK = np.dtype([("value", "f8"), ("n", "i8"), ("first", "f8")], align=True)
MEMBER = 2.0**600  # above all weights, and its multiples are exact for long enough


@inlined
def _block_of(rule: Any, joined: float) -> Any:
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
def current(rule: Any, u: float) -> float:
    """The weight of a slot with this u."""
    if abs(u) < MEMBER:
        return u
    return math.copysign(rule.blocks[_block_of(rule, abs(u))].value, u)


@inlined
def leave(rule: Any, u: float) -> float:
    """Let a member with this u go; returns its weight."""
    block = rule.blocks[_block_of(rule, abs(u))]
    block.n -= 1
    return math.copysign(block.value, u)


@inlined
def join(rule: Any, j: Any) -> None:
    """Let a slot be a member from now on; `add_block` counts it."""
    rule.u[j] = math.copysign(rule.clock[0].now, rule.u[j])


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
    return np.searchsorted(first, np.abs(rule.u[members]), side="right") - 1


def check(rule: Any) -> None:
    """Raise AssertionError where an invariant is broken."""
    c = rule.clock[0]
    ensure(0 <= c.blocks <= len(rule.blocks), "the blocks are miscounted")
    size = np.abs(rule.u)
    members = np.flatnonzero(size >= MEMBER)
    ensure(np.all(size[members] < c.now), "a member has joined in the future")
    ensure(np.all(size[members] % MEMBER == 0.0), "a member has joined between two steps")
    ensure(np.all(size[size < MEMBER] <= c.level), "a weight is above the level")
    blocks = rule.blocks[: c.blocks]
    value = blocks["value"]
    ensure(np.all(np.diff(blocks["first"]) > 0.0), "the blocks are in no order of time")
    ensure(np.all(np.diff(value) > 0.0), "the blocks are no staircase")
    ensure(np.all((value >= 0.0) & (value <= c.level)), "a value is out of range")
    number = blocks_of(rule, members)
    ensure(np.all(number >= 0), "a member is in no block")
    n = np.bincount(number, minlength=c.blocks)
    ensure(np.array_equal(n, blocks["n"]), "members are miscounted")
