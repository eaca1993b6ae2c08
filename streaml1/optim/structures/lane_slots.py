r"""The slots of `lane_mixture.py`: what eight lanes store of a feature, and its weights.

A slot is three lines of eight floats:

| line | 0 | 1 | 2 | 3 | 4 to 7 |
|---|---|---|---|---|---|
| 0 | n, rows that had the feature | sum of its sizes | s, the largest \|z\| | step of the last touch | G of four coins |
| 1 | u of the elastic nets 0 to 3 | | | | Z of four coins |
| 2 | averaged weight of lane 2 | that of lane 6 | weight of the mixture as of the snapshot | that of lane 1 | R of four coins |

The two weights as of the snapshot are weights of x. They are valid only if the feature was touched since; otherwise the current weights are those of the snapshot.
"""  # noqa: E501

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import LANES, inlined, u64
from streaml1.core.simd import (
    add,
    concat_upper_lower,
    div,
    hsum,
    load_f64x8,
    mul,
    splat,
    stack_buffer,
)
from streaml1.optim.structures.lane_table import (
    DENOMINATOR,
    OVER_LARGEST,
    RAW,
    SCALED,
    STALE_COEFFICIENT,
    UNIT,
    A,
    P,
    load_row,
)
from streaml1.optim.structures.soft_threshold import soft_threshold

__all__ = [
    "AVERAGE_COIN",
    "AVERAGED_NET",
    "AVERAGE_NET",
    "LARGEST_SIZE",
    "LINE",
    "MIN_WINDOW",
    "SLOT_BYTES",
    "SLOW_NET",
    "STALE_MIXTURE",
    "STALE_SLOW",
    "STAMP",
    "STRIDE",
    "SUPPORT",
    "SUPPORT_LANE",
    "TOTAL",
    "WIDTH",
    "WINDOW",
    "averaged_weight",
    "lane_values",
    "lane_weight",
    "lanes_of",
    "slot_weights",
    "stale_weight",
    "window",
]

LANE = u64(LANES)
WIDTH = 24  # floats of a slot
STRIDE = u64(WIDTH)
SLOT_BYTES, LINE = u64(8 * WIDTH), u64(64)
TOTAL, LARGEST_SIZE, STAMP = u64(1), u64(2), u64(3)  # of a slot, after n
SUPPORT = u64(14)  # of a slot: the Z of lane 6
SUPPORT_LANE, AVERAGED_NET, SLOW_NET = u64(6), u64(2), u64(1)
AVERAGE_NET, AVERAGE_COIN = u64(16), u64(17)  # of a slot: those of lanes 2 and 6
STALE_MIXTURE, STALE_SLOW = u64(18), u64(19)  # of a slot, as of the snapshot
WINDOW, MIN_WINDOW = 0.25, 1.0  # steps of averages: relative to those so far; and at least


@inlined
def window(t: float) -> float:
    """Return how many of the last of t steps an average covers."""
    return max(MIN_WINDOW, WINDOW * t)


@inlined
def lane_values(table: Any, x: float, z: float, bet: float) -> Any:
    """Return the values of a non-zero in all lanes: (x, z, z, z, bet, bet, bet, bet)."""
    # Products with ones and zeros: a vector read from a buffer would wait for its stores.
    elastic = add(mul(splat(x), load_row(table, RAW)), mul(splat(z), load_row(table, SCALED)))
    return concat_upper_lower(splat(bet), elastic)


@inlined
def lanes_of(zeroth: float, first: float, second: float, sixth: float) -> Any:
    """Return an f64x8 of lanes 0, 1, 2 and 6, the other lanes being 0."""
    lanes = stack_buffer()
    for k in range(LANE):
        lanes[k] = 0.0
    lanes[0] = zeroth
    lanes[1] = first
    lanes[AVERAGED_NET] = second
    lanes[SUPPORT_LANE] = sixth
    return load_f64x8(np.uint64(lanes.ctypes.data))


@inlined
def slot_weights(table: Any, address: Any) -> Any:
    """Return the weights of a slot in all lanes: over P, and of z / s for coins."""
    raw = soft_threshold(load_f64x8(address + LINE), load_row(table, A))
    wealth = load_f64x8(address + u64(2) * LINE)
    stake = add(load_row(table, UNIT), mul(wealth, load_row(table, OVER_LARGEST)))
    of_coins = mul(raw, div(stake, add(load_row(table, DENOMINATOR), load_f64x8(address))))
    return concat_upper_lower(of_coins, raw)


@inlined
def lane_weight(table: Any, slots: Any, i: Any, k: Any) -> float:
    """Return the weight of the slot at `i` in lane k: of x, of z, or of z / s for coins."""
    raw = soft_threshold(slots[i + LANE + k], table[A + k])
    if k < u64(4):
        return float(raw * table[P + k])
    stake = table[UNIT + k] + slots[i + u64(2) * LANE + k] * table[OVER_LARGEST + k]
    return float(raw * (stake / (table[DENOMINATOR + k] + slots[i + k])))


@inlined
def stale_weight(table: Any, w: Any, unit: float, bet: float) -> float:
    """Return the weight of x in the mixture as of the snapshot; w are those over P of all lanes.

    A value x is unit x in elastic nets but lane 0, and bet x in coins.
    """
    of_lanes = mul(mul(w, load_row(table, P)), lane_values(table, 1.0, unit, bet))
    return float(hsum(mul(of_lanes, load_row(table, STALE_COEFFICIENT))))


@inlined
def averaged_weight(slots: Any, i: Any, position: Any, w: float, t: float) -> float:
    """Return an averaged weight of the slot at `i` as of step t; w is the weight now.

    Between two touches a weight is constant: it counts for the elapsed steps.
    """
    elapsed = t - slots[i + STAMP]
    share = elapsed / (elapsed + window(t))
    before = slots[i + position]
    return float(before + (w - before) * share)
