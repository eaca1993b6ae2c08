"""How the level rises and falls, for `optim/fobos_linf.py`, which owns the arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.optim.structures.linf_candidates import (
    LOWER,
    NONE,
    READY,
    bucket_of,
    come_down,
    enter,
)
from streaml1.optim.structures.linf_floor import lower
from streaml1.optim.structures.top_k import find
from streaml1.optim.structures.weight_blocks import add, id_of, join, leave, merged, new_block

__all__ = ["fall", "place_all", "rise"]

SLACK = 1.25  # so that a weight that grows does not need another place each time,
NEAR = 0.9  # up to this share of the level
ZERO = np.uint64(0)


@inlined
def place_all(rule: Any, n: Any) -> None:
    """Have the first n of the scratch leave their blocks, and stand where they belong now.

    What is asked of each is not foreseen, so it is asked without a branch.
    """
    c, scratch = rule.clock[0], rule.scratch
    floor, level = c.floor, c.level
    risen, more, excess = ZERO, ZERO, 0.0
    for k in range(n):
        leave(rule, id_of(scratch[k].u))
        j = np.uint64(scratch[k].slot)
        size = abs(rule.u[j])
        place = np.int64(rule.places[j])
        above = size >= level
        rule.keys[np.uint64(max(-place, np.int64(0)))] = NONE if above else size
        excess += size - level if above else 0.0
        scratch[risen].risen = np.int64(j)
        risen += np.uint64(above & (size > 0.0))
        scratch[more].moved = np.int64(j)
        free = (size >= floor) & (size > 0.0) & (not above)
        more += np.uint64(free & (place >= 0) & (place <= bucket_of(c, size)))
    for k in range(more):
        j = np.uint64(scratch[k].moved)
        size = abs(rule.u[j])
        enter(rule, size, max(size, min(SLACK * size, NEAR * level)), j)
    c.risen = np.int64(risen)
    c.excess = excess


@inlined
def rise(rule: Any, left: float) -> None:
    """Find the new level among what has risen to the old one or above: all else stays."""
    c, scratch = rule.clock[0], rule.scratch
    old, level = c.level, c.level
    n, excess = c.risen, c.excess
    if left == 0.0:  # nothing is cut
        for k in range(np.uint64(n)):
            level = max(level, abs(rule.u[np.uint64(scratch[k].risen)]))
        n = np.int64(0)
    while n > 0:  # the level of those above it, until they are the same
        level = old + (excess - left) / n
        above, excess = np.int64(0), 0.0
        for k in range(np.uint64(c.risen)):
            size = abs(rule.u[np.uint64(scratch[k].risen)])
            over = size >= level
            above += np.int64(over)
            excess += (size - old) * over
        same = above >= n  # more only by rounding
        n = above
        if same:
            break
    block = _at(rule, level) if n > 0 else ZERO
    for k in range(np.uint64(c.risen)):
        j = np.uint64(scratch[k].risen)
        size = abs(rule.u[j])
        if n > 0 and size >= level:
            join(rule, j, block)
        else:
            enter(rule, size, size, j)
    add(rule, block, n)
    c.level = level


@inlined
def _at(rule: Any, level: float) -> Any:
    """The highest block, if it is at the level; or one that is made."""
    top = np.uint64(rule.blocks[0].lower)
    return top if top > ZERO and rule.blocks[top].value == level else new_block(rule, level)


@inlined
def fall(rule: Any, left: float) -> None:
    """Let all that has risen, and what is met on the way, fall until nothing is left."""
    c = rule.clock[0]
    level, n = c.level, np.int64(0)
    block = ZERO  # what falls, if it is a block yet; the highest
    if c.risen > 0:
        block = _at(rule, level)
        for k in range(np.uint64(c.risen)):
            join(rule, np.uint64(rule.scratch[k].risen), block)
        add(rule, block, c.risen)
        n = rule.blocks[block].n
    m, at = ZERO, ZERO  # found in the pool, and met
    known = reach = math.inf  # all sizes from here on: have been found; are in the pool
    while True:
        below = np.uint64(rule.blocks[block].lower)
        top = rule.blocks[below].value if below > ZERO else -1.0
        fallen = level - left / n if n > 0 else 0.0
        if at == m and max(fallen, top, 0.0) < known:
            m, known = find(rule, max(fallen, top, 0.0), level, n, left)
            at = ZERO
            if known >= c.floor and bucket_of(c, known) >= c.open:
                reach = min(reach, known)
        key = rule.found[at].key if at < m else 0.0
        following = max(top, key)
        if max(fallen, following) < reach:
            reach = max(fallen, following)
            ready = come_down(rule, reach)
            if ready == LOWER:
                _land(rule, block, level)
                n, block = np.int64(0), ZERO
                lower(rule)
            if ready != READY:
                m, at = ZERO, ZERO
                known = reach = math.inf
                continue
        if n > 0 and fallen > following:
            level = fallen
            break
        if following == 0.0:
            level = 0.0
            break
        if top >= key:
            left = max(left - n * (level - top), 0.0)
            level = top
            n += rule.blocks[below].n
            block = merged(rule, block, below)
            continue
        if block == ZERO:
            block = new_block(rule, key)
        before = n
        while at < m:  # those found, as long as nothing else comes first
            key = rule.found[at].key
            if key <= top or key < reach or (n > 0 and level - left / n > key):
                break
            entry = np.uint64(rule.found[at].at)
            left = max(left - n * (level - key), 0.0)
            level = key
            n += 1
            rule.keys[entry] = NONE
            join(rule, np.uint64(rule.ids[entry]), block)
            at += np.uint64(1)
        add(rule, block, n - before)
    _land(rule, block, level)
    c.level = level


@inlined
def _land(rule: Any, block: Any, level: float) -> None:
    """Let the block that has fallen stand at the level."""
    below = np.uint64(rule.blocks[block].lower)
    if below > ZERO and rule.blocks[below].value == level:
        block = merged(rule, block, below)
    if block > ZERO:
        rule.blocks[block].value = level
