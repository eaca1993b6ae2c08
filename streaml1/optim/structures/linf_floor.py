"""The floor below which no weight has a place, for `optim/fobos_linf.py`, which owns the arrays.

When the level comes down to it, it is lowered and all slots are looked at. To raise it again only those are looked at
that stand from the old one on; blocks that are below it then stay. That is done after as many non-zeros, and only
while the next times that all slots are looked at are as good as paid by non-zeros.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.optim.structures.linf_candidates import (
    BUCKETS,
    FINE,
    FLOOR_LEAST,
    MARK,
    POOL_MOST,
    START,
    bucket_of,
    link,
    set_floor,
)
from streaml1.optim.structures.weight_blocks import MEMBER, current, id_of, leave

__all__ = ["fill", "lift", "lower"]

LOW = 0.4  # of the level: a floor that is raised
FINER, MANY = 16384.0, 1024  # buckets as wide as the floor is high, where the pool has so many
SCANS, A_SCAN = 8, 4  # looks at all slots may be owed; a non-zero pays for so many slots of one
# What the floor is multiplied by when it is lowered for the k-th time since it was raised.
FACTORS = (0.7, 0.25, 0.00390625, 0.0)


@inlined
def _empty(c: Any, floor: float, fine: float) -> None:
    """No bucket has a weight, and the pool has none."""
    set_floor(c, floor, fine)
    c.entries = 0
    c.open = np.int64(0)
    c.most = np.int64(POOL_MOST)
    c.held = 0


@inlined
def _hold(rule: Any, j: Any, size: float) -> None:
    """Link a weight that is from the floor on, while the pool is empty."""
    c = rule.clock[0]
    b = bucket_of(c, size)
    c.open = max(c.open, b + 1)
    c.held += 1
    link(rule, j, b)


@inlined
def lift(rule: Any) -> None:
    """Raise the floor where it is low for what the level has been, and there is time for it."""
    c = rule.clock[0]
    if c.touches < c.held + 4 * BUCKETS:
        return
    c.owed = max(c.owed - A_SCAN * c.touches, 0)
    c.touches = 0
    floor = START * c.lowest
    low = c.floor < LOW * c.lowest and c.owed <= SCANS * len(rule.u)
    crowded = c.most > MANY and c.scale * c.floor < 0.5 * FINER
    if floor >= FLOOR_LEAST and (low or crowded):
        c.lowered = np.int64(0) if low else c.lowered
        keep(rule, max(floor, c.floor), FINE if low else FINER)
    c.lowest = c.level


@kernel
def keep(rule: Any, floor: float, fine: float) -> None:
    """Of the weights that have a place keep those from a floor on that is no lower than it was."""
    one = _taken_off(rule, floor)
    _empty(rule.clock[0], floor, fine)
    while one >= 0:
        j = np.uint64(one)
        one = np.int64(rule.links[j].after)
        _hold(rule, j, abs(rule.u[j]))


@inlined
def _taken_off(rule: Any, floor: float) -> Any:
    """Let no slot have a place; returns the first of the free weights from a floor on, a chain."""
    c = rule.clock[0]
    chain = np.int64(-1)
    for at in range(np.uint64(1), np.uint64(c.entries + 1)):
        chain = _chained(rule, np.uint64(rule.ids[at]), floor, chain)
    for b in range(np.uint64(c.open)):
        one = np.int64(rule.heads[b])
        rule.heads[b] = -1
        while one >= 0:
            j = np.uint64(one)
            one = np.int64(rule.links[j].after)
            chain = _chained(rule, j, floor, chain)
    return chain


@inlined
def _chained(rule: Any, j: Any, floor: float, chain: Any) -> Any:
    rule.places[j] = 0
    size = abs(rule.u[j])
    if not floor <= size < MEMBER or size == 0.0:
        return chain
    rule.links[j].after = np.int32(chain)
    return np.int64(j)


@kernel
def fill(rule: Any, floor: float, fine: float) -> None:
    """Link all free weights from `floor` on; blocks below it are taken apart."""
    c = rule.clock[0]
    _taken_off(rule, math.inf)
    _empty(c, floor, fine)
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
        _hold(rule, j, size)


@kernel
def lower(rule: Any) -> None:
    """Lower the floor: the more often, the further, so that a few times are enough."""
    c = rule.clock[0]
    factor = FACTORS[min(c.lowered, np.int64(len(FACTORS) - 1))]
    c.lowered += 1
    c.owed += len(rule.u)
    fill(rule, c.floor * factor, FINE)
