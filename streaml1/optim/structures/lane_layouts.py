"""States of `lane_mixture.py` that earlier versions have saved, in today's layout."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import LANES
from streaml1.optim.structures.feature_origins import ORIGIN_WIDTH
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
from streaml1.optim.structures.record_layouts import copied_to, dtype_without

__all__ = ["upgraded"]

OF_SNAPSHOTS = {"stale_risk", "slow_risk", "lane_risk", "snapshot", "published"}
"""Fields of the clock that came with the snapshots."""

OF_ORIGINS = {"ceiling", "origin_rows", "with_origin"}
"""Fields of the clock that came with the origins of features and the ceiling of values, later."""

CLOCK_WITHOUT_ORIGINS = dtype_without(CLOCK, OF_ORIGINS)
CLOCK_WITHOUT_SNAPSHOTS = dtype_without(CLOCK, OF_ORIGINS | OF_SNAPSHOTS)
ROWS_WITHOUT_SNAPSHOTS = ROWS - 2
FIRST_ROW_OF_SNAPSHOTS = int(AVERAGE_BIAS) // LANES + 1


def upgraded(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays of a saved rule in today's layout; unchanged unless they are older.

    The oldest rules have no snapshots, by which the published model is chosen. Now one is taken,
    and averages are published until what is learnt says otherwise. Older rules have no origins and
    no ceiling: they continue to read values as they did.
    """
    clock, table = (np.atleast_1d(arrays.get(name, 0)) for name in ("clock", "table"))
    if clock.dtype == CLOCK_WITHOUT_SNAPSHOTS and len(clock) == 1:
        if table.shape != (ROWS_WITHOUT_SNAPSHOTS * LANES,):
            return arrays
        arrays = {**arrays, **_with_snapshots(clock, table.reshape(-1, LANES))}
    elif clock.dtype == CLOCK_WITHOUT_ORIGINS and len(clock) == 1:
        arrays = {**arrays, "clock": copied_to(CLOCK, clock)}
    else:
        return arrays
    n_slots = len(arrays["slots"]) if np.ndim(arrays.get("slots", 0)) else 0
    return {**arrays, "origins": np.zeros((n_slots, ORIGIN_WIDTH))}


def _with_snapshots(clock: Any, rows: Any) -> dict[str, Any]:
    """Return the clock and the table after a snapshot is taken now."""
    new_clock = copied_to(CLOCK, clock)
    new_clock["average_risk"] = 0.0  # the others start from 0, too
    new_clock["snapshot"] = clock["n"]
    new_table = np.insert(rows, [FIRST_ROW_OF_SNAPSHOTS] * 2, 0.0, axis=0)
    mixture = (rows[int(SHARE) // LANES] + rows[int(COEFFICIENT) // LANES]) / 2.0
    new_table[int(STALE_COEFFICIENT) // LANES] = mixture
    new_table[int(STALE_BIAS) // LANES] = rows[int(INTERCEPT) // LANES]
    new_table[int(SLOW) // LANES] = np.arange(LANES) == SLOW_NET
    return {"clock": new_clock, "table": new_table.ravel()}
