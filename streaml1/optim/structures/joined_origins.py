"""Models whose features have different origins, as models with common ones, before they are joined.

The origin of a feature is that of the first model in which it has one. Where a model has another
one, m' instead of m, its margins stay as they are: what its weight w adds by w (m - m') goes to
the intercept of each lane, or to the centre of the targets. Where it has none, its slot is cleared:
it has learnt x in other units.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from streaml1.core.jit import LANES
from streaml1.core.types import Bools, Floats
from streaml1.optim.structures.feature_origins import FORGOTTEN, ORIGIN_WIDTH, origins_of
from streaml1.optim.structures.lane_table import (
    BIAS,
    BIAS_GRADIENTS,
    BIAS_WEALTH,
    LARGEST,
    OVER_LARGEST,
    UNIT,
)

__all__ = ["common_origins", "moved_intercepts", "stored_origins", "with_common_origins"]

Rule = TypeVar("Rule", bound=Any)

COINS = slice(4, LANES)


def common_origins(rules: Sequence[Any]) -> tuple[Bools, Floats]:
    """Return which slots have an origin in any rule, and the origins; 0 for slots without."""
    has, origins = origins_of(rules[0].origins)
    has, origins = has.copy(), origins.copy()
    for rule in rules[1:]:
        more, others = origins_of(rule.origins)
        origins = np.where(more & ~has, others, origins)
        has |= more
    return has, origins


def stored_origins(has: Bools, origins: Floats) -> Floats:
    """Return the array of a rule with these origins."""
    stored = np.zeros((len(has), ORIGIN_WIDTH))
    stored[has, 0], stored[has, 1], stored[has, 2] = origins[has], 1.0, -1.0
    return stored.ravel()


def with_common_origins(rules: Sequence[Rule]) -> list[Rule]:
    """Return rules whose slots are records and whose clocks have a centre, with common origins."""
    has, origins = common_origins(rules)
    return [_moved(rule, has, origins) for rule in rules]


def _moved(rule: Rule, common: Bools, common_origins: Floats) -> Rule:
    has, origins = origins_of(rule.origins)
    gone, moves = common & ~has, np.where(has, common_origins - origins, 0.0)
    if not (np.any(gone) or np.any(moves)):
        return rule
    slots, clock = rule.slots.copy(), rule.clock.copy()
    slots[gone] = np.zeros((), slots.dtype)
    slots[slots.dtype.names[0]][gone & rule.seen_mask()] = FORGOTTEN
    clock["centre"] += rule.weights() @ moves
    clock["with_origin"] = np.count_nonzero(common)
    stored = stored_origins(common, common_origins)
    moved: Rule = rule._replace(slots=slots, origins=stored, clock=clock)
    return moved


def moved_intercepts(table: Floats, moves: Floats) -> Floats:
    """Return a table with the intercepts of its lanes moved.

    Parameters
    ----------
    table
        Shape (rows, lanes).
    moves
        The moves by lane.
    """
    moved = table.copy()
    bias, wealth, gradients = (
        moved[int(row) // LANES] for row in (BIAS, BIAS_WEALTH, BIAS_GRADIENTS)
    )
    unit, over, largest = (table[int(row) // LANES] for row in (UNIT, OVER_LARGEST, LARGEST))
    bias[:4] += moves[:4]
    # The intercept of a coin is its sum of outcomes times what it stakes on one.
    stake = (unit + wealth * over)[COINS] / (largest + gradients)[COINS]
    bias[COINS] += moves[COINS] / stake
    return moved
