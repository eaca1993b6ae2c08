"""States of `lane_mixture.py` in model files: checked before they are used, upgraded if older."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import LANES
from streaml1.core.rows import ensure
from streaml1.core.types import Floats
from streaml1.optim.rule_state import MAX_STEPS
from streaml1.optim.structures.feature_origins import ORIGIN_ROWS, ORIGIN_WIDTH
from streaml1.optim.structures.lane_clock import AVERAGES, CLOCK, MIXTURE, SLOW_LANE
from streaml1.optim.structures.lane_slots import SLOW_NET, WIDTH
from streaml1.optim.structures.lane_steps import MIN_P
from streaml1.optim.structures.lane_table import (
    AVERAGE_BIAS,
    BIAS_WEALTH,
    COEFFICIENT,
    INTERCEPT,
    LARGEST,
    ROWS,
    SHARE,
    SLOW,
    STALE_BIAS,
    STALE_COEFFICIENT,
    A,
    P,
)
from streaml1.optim.structures.record_layouts import copied_to, dtype_without

__all__ = ["check_lanes", "upgraded"]

SUMS = (
    *("sample_weights", "norms", "scaled_norms", "deviations", "squares"),
    *("risk", "average_risk", "stale_risk", "slow_risk", "lane_risk"),
)

OF_SNAPSHOTS = {"stale_risk", "slow_risk", "lane_risk", "snapshot", "published"}
"""Fields of the clock that came with the snapshots."""

OF_ORIGINS = {"ceiling", "origin_rows", "with_origin"}
"""Fields of the clock that came with the origins of features and the ceiling of values, later."""

OF_NEWTON = {"by_shares", "by_coefficients", "by_both", "newton", "lead"}
"""Fields of the clock that came with Newton steps of the mixture, and its covariance, last."""

CLOCK_WITHOUT_NEWTON = dtype_without(CLOCK, OF_NEWTON)
CLOCK_WITHOUT_ORIGINS = dtype_without(CLOCK, OF_NEWTON | OF_ORIGINS)
CLOCK_WITHOUT_SNAPSHOTS = dtype_without(CLOCK, OF_NEWTON | OF_ORIGINS | OF_SNAPSHOTS)
ROWS_WITHOUT_NEWTON = ROWS - LANES
ROWS_WITHOUT_SNAPSHOTS = ROWS_WITHOUT_NEWTON - 2
NO_LIMIT = 1e300
"""Of how far lane 0 may be beyond the others."""

FIRST_ROW_OF_SNAPSHOTS = int(AVERAGE_BIAS) // LANES + 1


def check_lanes(slots: Floats, origins: Floats, table: Floats, clock: Any) -> None:
    """Reject a state that no stream leads to.

    Raises
    ------
    AssertionError
        If a number is not finite or out of its range.
    """
    slots, table = slots.reshape(-1, WIDTH), table.reshape(ROWS, LANES)
    ensure(np.all(np.isfinite(table)) and np.all(np.isfinite(slots)), "a number is not finite")
    ensure(np.all(np.isfinite(origins)), "an origin is not finite")
    _check_clock(clock)
    rows = {row: table[int(row) // LANES] for row in (P, A, SHARE, LARGEST, BIAS_WEALTH)}
    ensure(np.all((rows[P] >= MIN_P) & (rows[P] <= 1.0)), "P is out of range")
    ensure(np.all(rows[A] >= 0.0), "A is out of range")
    ensure(np.all(rows[SHARE] > 0.0) and abs(rows[SHARE].sum() - 1.0) < 1e-9, "not shares")
    ensure(np.all(rows[LARGEST] >= 0.0), "a largest derivative is negative")
    ensure(np.all(slots[:, [0, 1, 2]] >= 0.0), "a count or size is negative")
    ensure(np.all(slots[:, 4:8] >= 0.0), "a sum of |u| is negative")
    ensure(np.all(slots[:, 20:] >= 0.0), "a wealth is negative")
    ensure(np.all(slots[slots[:, 0] > 0.0, 1] > 0.0), "a seen feature has no size")
    ensure(not np.any(slots[slots[:, 0] == 0.0]), "a slot without a value holds something")


def _check_clock(c: Any) -> None:
    ensure(
        0 <= c.n < MAX_STEPS and c.sgd in (0, 1),
        "the number of steps or a flag is out of range",
    )
    for name in CLOCK.names or ():
        ensure(math.isfinite(c[name]), f"{name} is not finite")
    for name in SUMS:
        ensure(0.0 <= c[name] < math.inf, f"the sum of {name} is out of range")
    ensure(0.0 <= c.l1 < math.inf and 0.0 <= c.l2 < math.inf, "l1 or l2 is out of range")
    opinions = [float(c[name]) for name in ("by_shares", "by_coefficients", "by_both")]
    ensure(min(opinions) >= 0.0 and abs(sum(opinions) - 1.0) < 1e-9, "not weights of opinions")
    ensure(c.lead >= 0.0, "the limit of lane 0 is negative")
    ensure(c.newton in (0, 1), "the kind of steps of the mixture is out of range")
    ensure(0 <= c.snapshot <= c.n + 1, "the snapshot is out of range")
    ensure(c.published in (AVERAGES, MIXTURE, SLOW_LANE), "no such model is published")
    ensure(c.low <= c.high and c.smallest <= c.largest, "a range is empty")
    ensure(
        c.fresh >= 0 and c.retained >= 0 and c.with_origin >= 0,
        "a number of features is negative",
    )
    ensure(c.ceiling == 0.0 or c.ceiling > 1.0, "the ceiling of scaled values is out of range")
    ensure(c.origin_rows in (0, ORIGIN_ROWS), "the number of first rows is out of range")


def upgraded(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays of a saved rule in today's layout; unchanged unless they are older.

    The oldest rules have no snapshots, by which the published model is chosen. Now one is taken,
    and averages are published until what is learnt says otherwise. Older rules have no origins and
    no ceiling: they continue to read values as they did. Others have no covariance: they continue
    to mix lanes as they did.
    """
    clock, table = (np.atleast_1d(arrays.get(name, 0)) for name in ("clock", "table"))
    if len(clock) != 1 or clock.dtype not in (
        CLOCK_WITHOUT_NEWTON, CLOCK_WITHOUT_ORIGINS, CLOCK_WITHOUT_SNAPSHOTS,
    ):  # fmt: skip
        return arrays
    rows = ROWS_WITHOUT_NEWTON
    if clock.dtype == CLOCK_WITHOUT_SNAPSHOTS:
        rows = ROWS_WITHOUT_SNAPSHOTS
    if table.shape != (rows * LANES,):
        return arrays
    arrays = {**arrays, "clock": copied_to(CLOCK, clock)}
    arrays["clock"]["by_both"], arrays["clock"]["lead"] = 1.0, NO_LIMIT
    if clock.dtype == CLOCK_WITHOUT_SNAPSHOTS:
        table = _with_snapshots(arrays["clock"], table.reshape(-1, LANES))
    arrays["table"] = np.append(table, np.zeros(LANES * LANES))
    if clock.dtype != CLOCK_WITHOUT_NEWTON:
        n_slots = len(arrays["slots"]) if np.ndim(arrays.get("slots", 0)) else 0
        arrays["origins"] = np.zeros((n_slots, ORIGIN_WIDTH))
    return arrays


def _with_snapshots(clock: Any, rows: Any) -> Floats:
    """Return the table after a snapshot is taken now, and note it in the clock."""
    clock["average_risk"] = 0.0  # the others are 0, too
    clock["snapshot"] = clock["n"]
    table: Floats = np.insert(rows, [FIRST_ROW_OF_SNAPSHOTS] * 2, 0.0, axis=0)
    mixture = (rows[int(SHARE) // LANES] + rows[int(COEFFICIENT) // LANES]) / 2.0
    table[int(STALE_COEFFICIENT) // LANES] = mixture
    table[int(STALE_BIAS) // LANES] = rows[int(INTERCEPT) // LANES]
    table[int(SLOW) // LANES] = np.arange(LANES) == SLOW_NET
    return table.ravel()
