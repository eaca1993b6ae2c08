"""States of `lane_mixture.py` that earlier versions have saved, in today's layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import LANES
from streaml1.optim.structures.lane_clock import CLOCK
from streaml1.optim.structures.lane_slots import SLOW_NET
from streaml1.optim.structures.lane_table import (
    AVERAGE_BIAS,
    COEFFICIENT,
    INTERCEPT,
    ROWS,
    SHARE,
    SLOW,
    STALE_BIAS,
    STALE_COEFFICIENT,
)

__all__ = ["upgraded"]

OF_SNAPSHOTS = {"stale_risk", "slow_risk", "lane_risk", "snapshot", "published"}
"""Fields of the clock that came with the snapshots."""

OLD_CLOCK = np.dtype(
    [(name, CLOCK[name]) for name in CLOCK.names or () if name not in OF_SNAPSHOTS], align=True
)
OLD_ROWS = ROWS - 2
FIRST_NEW_ROW = int(AVERAGE_BIAS) // LANES + 1


def upgraded(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays of a saved rule in today's layout; unchanged unless they are older.

    An older rule has no snapshots, by which the published model is chosen. Now it takes one, and
    publishes averages until what it learns says otherwise.
    """
    clock, table = (np.atleast_1d(arrays.get(name, 0)) for name in ("clock", "table"))
    if clock.dtype != OLD_CLOCK or len(clock) != 1 or table.shape != (OLD_ROWS * LANES,):
        return arrays
    new_clock, rows = np.zeros(1, CLOCK), table.reshape(OLD_ROWS, LANES)
    for name in OLD_CLOCK.names or ():
        new_clock[name] = clock[name]
    new_clock["average_risk"] = 0.0  # the others start from 0, too
    new_clock["snapshot"] = clock["n"]
    new_table = np.insert(rows, [FIRST_NEW_ROW] * 2, 0.0, axis=0)
    mixture = (rows[int(SHARE) // LANES] + rows[int(COEFFICIENT) // LANES]) / 2.0
    new_table[int(STALE_COEFFICIENT) // LANES] = mixture
    new_table[int(STALE_BIAS) // LANES] = rows[int(INTERCEPT) // LANES]
    new_table[int(SLOW) // LANES] = np.arange(LANES) == SLOW_NET
    return {**arrays, "clock": new_clock, "table": new_table.ravel()}
