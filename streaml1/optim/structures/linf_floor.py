"""The floor of `linf_candidates.py`: weights below it have no place.

When the level reaches the floor, `lower` lowers the floor and scans all slots. To raise it again,
only the weights with a place are scanned; blocks that are then below the floor remain. The floor is
raised after at least one non-zero for each weight with a place, and only while the next scans of
all slots are paid for by non-zeros. So the scans cost O(1) for each non-zero, amortized.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel, u64
from streaml1.optim.structures.linf_candidates import (
    BUCKETS,
    CELLS_PER_FLOOR,
    MARK,
    MAX_POOL,
    MIN_FLOOR,
    START,
    bucket_of,
    link,
    set_floor,
)
from streaml1.optim.structures.weight_blocks import MEMBER, current, id_of, leave

__all__ = ["lower", "maybe_raise_floor", "rebuild"]

LOW = 0.4  # floor / level below which the floor is raised
# Beyond MANY weights in the pool, buckets are finer: floor / width.
FINER_CELLS_PER_FLOOR, MANY = 16384.0, 1024
MAX_SCANS, SLOTS_PAID = 8, 4  # scans that may be owed; slots of a scan that a non-zero pays for
# The k-th lowering since the floor was raised multiplies it by FACTORS[k].
FACTORS = (0.7, 0.25, 0.00390625, 0.0)


@inlined
def _clear(c: Any, floor: float, cells_per_floor: float) -> None:
    """Initialize empty buckets and an empty pool."""
    set_floor(c, floor, cells_per_floor)
    c.entries = 0
    c.open = np.int64(0)
    c.most = np.int64(MAX_POOL)
    c.held = 0


@inlined
def _add_to_bucket(rule: Any, j: Any, size: float) -> None:
    """Add a weight above the floor to its bucket, while the pool is empty."""
    c = rule.clock[0]
    b = bucket_of(c, size)
    c.open = max(c.open, b + 1)
    c.held += 1
    link(rule, j, b)


@inlined
def maybe_raise_floor(rule: Any) -> None:
    """Raise the floor if it is low for the recent levels and paid for; refine crowded buckets."""
    c = rule.clock[0]
    if c.touches < c.held + 4 * BUCKETS:
        return
    c.owed = max(c.owed - SLOTS_PAID * c.touches, 0)
    c.touches = 0
    floor = START * c.lowest
    low = c.floor < LOW * c.lowest and c.owed <= MAX_SCANS * len(rule.u)
    crowded = c.most > MANY and c.scale * c.floor < 0.5 * FINER_CELLS_PER_FLOOR
    if floor >= MIN_FLOOR and (low or crowded):
        c.lowered = np.int64(0) if low else c.lowered
        _raise_floor(rule, max(floor, c.floor), CELLS_PER_FLOOR if low else FINER_CELLS_PER_FLOOR)
    c.lowest = c.level


@kernel
def _raise_floor(rule: Any, floor: float, cells_per_floor: float) -> None:
    """Raise the floor; weights below it lose their place."""
    next_slot = _remove_all(rule, floor)
    _clear(rule.clock[0], floor, cells_per_floor)
    while next_slot >= 0:
        j = np.uint64(next_slot)
        next_slot = np.int64(rule.links[j].after)
        _add_to_bucket(rule, j, abs(rule.u[j]))


@inlined
def _remove_all(rule: Any, floor: float) -> Any:
    """Remove all places; return the first of a chain of the free weights above the floor, or -1."""
    c = rule.clock[0]
    chain = np.int64(-1)
    for pos in range(u64(1), np.uint64(c.entries + 1)):
        chain = _chained(rule, np.uint64(rule.ids[pos]), floor, chain)
    for b in range(np.uint64(c.open)):
        next_slot = np.int64(rule.heads[b])
        rule.heads[b] = -1
        while next_slot >= 0:
            j = np.uint64(next_slot)
            next_slot = np.int64(rule.links[j].after)
            chain = _chained(rule, j, floor, chain)
    return chain


@inlined
def _chained(rule: Any, j: Any, floor: float, chain: Any) -> Any:
    """Remove the place of slot j; return the chain, with j in front if it is above the floor."""
    rule.places[j] = 0
    size = abs(rule.u[j])
    if not floor <= size < MEMBER or size == 0.0:
        return chain
    rule.links[j].after = np.int32(chain)
    return np.int64(j)


@kernel
def rebuild(rule: Any, floor: float, cells_per_floor: float) -> None:
    """Fill the buckets with all free weights above `floor`; dissolve the blocks below it."""
    c = rule.clock[0]
    _remove_all(rule, math.inf)
    _clear(c, floor, cells_per_floor)
    c.touches = 0
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
        _add_to_bucket(rule, j, size)


@kernel
def lower(rule: Any) -> None:
    """Lower the floor, each time by more, so that a few times are enough."""
    c = rule.clock[0]
    factor = FACTORS[min(c.lowered, np.int64(len(FACTORS) - 1))]
    c.lowered += 1
    c.owed += len(rule.u)
    rebuild(rule, c.floor * factor, CELLS_PER_FLOOR)
