"""How the level of `optim/fobos_linf.py` rises and falls; it owns the arrays.

`left` is what the penalty may still take: eta * strength, minus what it has taken. A block of n
weights that falls from `level` by h takes n h.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, u64
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

__all__ = ["fall", "place_row", "rise"]

# A weight that must move goes to the bucket of SLACK times its size, at most NEAR times the level:
# so a growing weight does not move each time.
SLACK, NEAR = 1.25, 0.9


@inlined
def place_row(rule: Any, n: Any) -> None:
    """Remove the first n slots of the scratch array from their blocks, and place them again.

    Which of the cases applies to a slot is unpredictable, so the first loop has no branch.
    """
    c, scratch = rule.clock[0], rule.scratch
    floor, level = c.floor, c.level
    risen, more, excess = u64(0), u64(0), 0.0
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
    """Find the new level among the weights that rose to the old one or above; nothing else moves.

    Newton's method: each iteration takes the level at which the weights above the last one lose
    `left` in all. Invariant: the level is at most the solution.
    """
    c, scratch = rule.clock[0], rule.scratch
    old, level = c.level, c.level
    n, excess = c.risen, c.excess
    if left == 0.0:  # no penalty: the level is the largest weight
        for k in range(np.uint64(n)):
            level = max(level, abs(rule.u[np.uint64(scratch[k].risen)]))
        n = np.int64(0)
    while n > 0:
        level = old + (excess - left) / n
        above, excess = np.int64(0), 0.0
        for k in range(np.uint64(c.risen)):
            size = abs(rule.u[np.uint64(scratch[k].risen)])
            over = size >= level
            above += np.int64(over)
            excess += (size - old) * over
        unchanged = above >= n  # rounding may add one
        n = above
        if unchanged:
            break
    block = _block_at(rule, level) if n > 0 else u64(0)
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
def _block_at(rule: Any, level: float) -> Any:
    """Return the highest block if it is at the level, or else a new one."""
    top = np.uint64(rule.blocks[0].lower)
    return top if top > u64(0) and rule.blocks[top].value == level else new_block(rule, level)


@inlined
def fall(rule: Any, left: float) -> None:
    """Let the level fall until `left` is used up, with all weights that it reaches.

    Invariants at the top of the loop: n weights are at `level`, in `block` if it is not 0; every
    weight above `known` has been found; every free weight from `reach` on is in the pool; the first
    `n_joined` of the `n_found` candidates have joined.
    """
    c = rule.clock[0]
    level, n = c.level, np.int64(0)
    block = u64(0)  # the block that falls, if there is one yet: the highest
    if c.risen > 0:
        block = _block_at(rule, level)
        for k in range(np.uint64(c.risen)):
            join(rule, np.uint64(rule.scratch[k].risen), block)
        add(rule, block, c.risen)
        n = rule.blocks[block].n
    n_found, n_joined = u64(0), u64(0)  # candidates, and those that the level has reached
    known = reach = math.inf
    while True:
        below = np.uint64(rule.blocks[block].lower)
        top = rule.blocks[below].value if below > u64(0) else -1.0
        fallen = level - left / n if n > 0 else 0.0
        if n_joined == n_found and max(fallen, top, 0.0) < known:
            n_found, known = find(rule, max(fallen, top, 0.0), level, n, left)
            n_joined = u64(0)
            if known >= c.floor and bucket_of(c, known) >= c.open:
                reach = min(reach, known)
        key = rule.found[n_joined].key if n_joined < n_found else 0.0
        following = max(top, key)
        if max(fallen, following) < reach:
            reach = max(fallen, following)
            ready = come_down(rule, reach)
            if ready == LOWER:
                _land(rule, block, level)
                n, block = np.int64(0), u64(0)
                lower(rule)
            if ready != READY:
                n_found, n_joined = u64(0), u64(0)
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
        if block == u64(0):
            block = new_block(rule, key)
        n_before = n
        while n_joined < n_found:  # candidates, until a block or a lower bucket comes first
            key = rule.found[n_joined].key
            if key <= top or key < reach or (n > 0 and level - left / n > key):
                break
            entry = np.uint64(rule.found[n_joined].at)
            left = max(left - n * (level - key), 0.0)
            level = key
            n += 1
            rule.keys[entry] = NONE
            join(rule, np.uint64(rule.ids[entry]), block)
            n_joined += u64(1)
        add(rule, block, n - n_before)
    _land(rule, block, level)
    c.level = level


@inlined
def _land(rule: Any, block: Any, level: float) -> None:
    """Set the value of the block that has fallen; merge it with a block at the same level."""
    below = np.uint64(rule.blocks[block].lower)
    if below > u64(0) and rule.blocks[below].value == level:
        block = merged(rule, block, below)
    if block > u64(0):
        rule.blocks[block].value = level
