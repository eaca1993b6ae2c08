"""One step of what the eight lanes of `lane_mixture.py` share: intercepts, rates and penalties.

`c` is the clock (see `lane_clock`) and `table` the table of the lanes (see `lane_table`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import LANES, inlined, u64
from streaml1.core.simd import (
    add,
    any_negative,
    div,
    lane_max,
    load_f64x8,
    mul,
    neg,
    select_negative,
    splat,
    stack_buffer,
    sub,
)
from streaml1.optim import losses
from streaml1.optim.structures.lane_clock import best_published, count_norms, rate_scale
from streaml1.optim.structures.lane_slots import window
from streaml1.optim.structures.lane_table import (
    A_LOW,
    AVERAGE_BIAS,
    BETS,
    BIAS,
    BIAS_GRADIENTS,
    BIAS_WEALTH,
    COIN,
    DENOMINATOR,
    GRADIENT,
    INTERCEPT,
    LARGEST,
    OVER_LARGEST,
    RATE,
    SCALE,
    UNIT,
    WEALTH,
    A,
    P,
    abs_f64x8,
    load_row,
    store_row,
)

__all__ = [
    "MIN_P",
    "average_intercepts",
    "refresh",
    "step_intercepts",
    "step_penalties",
    "update_scales",
]

MIN_P = 1e-150
MAX_SHRINKAGE, MIN_STEPS = 64.0, 256.0  # see `elastic_net`
LABEL_RATE, VALUE_RATE = 7.0, 30.0  # of an intercept, in units of `intercept_lr`
TINY = 5e-324
LANE = u64(LANES)


@inlined
def average_intercepts(table: Any, t: float) -> None:
    """Count the intercepts of step t in their averages."""
    share = 1.0 / (1.0 + min(t, window(t)))
    before = load_row(table, AVERAGE_BIAS)
    change = mul(sub(load_row(table, INTERCEPT), before), splat(share))
    store_row(table, AVERAGE_BIAS, add(before, change))


@inlined
def _intercepts(table: Any) -> Any:
    """Return the intercept of each lane, over the centre."""
    stake = add(
        load_row(table, UNIT), mul(load_row(table, BIAS_WEALTH), load_row(table, OVER_LARGEST))
    )
    denominator = add(load_row(table, LARGEST), load_row(table, BIAS_GRADIENTS))
    return mul(load_row(table, BIAS), div(stake, denominator))


@inlined
def step_intercepts(c: Any, table: Any, step: float) -> None:
    """Move the intercepts: those of coins bet on the value 1."""
    g, coin, bets = load_row(table, GRADIENT), load_row(table, COIN), load_row(table, BETS)
    betting = splat(1.0 if c.slope > 0.0 else 0.0)
    move = mul(g, select_negative(coin, betting, mul(load_row(table, RATE), splat(step * c.slope))))
    w = load_row(table, INTERCEPT)
    store_row(table, BIAS, sub(load_row(table, BIAS), move))
    wealth = sub(load_row(table, BIAS_WEALTH), mul(mul(w, move), bets))
    store_row(table, BIAS_WEALTH, lane_max(wealth, splat(0.0)))
    gradients = add(load_row(table, BIAS_GRADIENTS), mul(abs_f64x8(move), bets))
    store_row(table, BIAS_GRADIENTS, gradients)


@inlined
def update_scales(c: Any, table: Any, intercept_lr: float) -> None:
    """Count the norms of the row, and set the rates of this step."""
    count_norms(c)
    unit = c.unit
    c.slope = intercept_lr * (VALUE_RATE if losses.is_regression(c.loss) else LABEL_RATE) * unit
    scales = stack_buffer()
    plain = rate_scale(c.norms / c.n, c.square) * unit
    scaled = rate_scale(c.scaled_norms / c.n, c.scaled_square) * unit
    scales[0] = plain
    scales[1] = scales[2] = scales[3] = scaled
    for k in range(u64(4), LANE):
        scales[k] = 0.0
    store_row(table, SCALE, load_f64x8(np.uint64(scales.ctypes.data)))


@inlined
def _compensated_add(a: Any, low: Any, b: Any) -> tuple[Any, Any]:
    """Return the Kahan sum of `a` (with its compensation `low`) and `b`, and its compensation."""
    increase = sub(b, low)
    total = add(a, increase)
    return total, sub(sub(total, a), increase)


@inlined
def step_penalties(c: Any, table: Any, eta: float) -> bool:
    """Advance the ledgers of the elastic nets by one step; return whether `renormalize` is due."""
    rate = mul(splat(eta), mul(load_row(table, SCALE), load_row(table, RATE)))
    l1_step, l2_step = mul(rate, splat(c.l1)), mul(rate, splat(c.l2))
    before, threshold = load_row(table, P), load_row(table, A)
    if c.sgd:
        factor = sub(splat(1.0), l2_step)
        vanishes = sub(factor, splat(TINY))  # negative where factor <= 0: all weights become 0
        after = select_negative(vanishes, before, mul(before, factor))
        risen, low = _compensated_add(threshold, load_row(table, A_LOW), div(l1_step, after))
        risen = select_negative(vanishes, splat(math.inf), risen)
    else:
        after = div(before, add(splat(1.0), l2_step))
        risen, low = _compensated_add(threshold, load_row(table, A_LOW), div(l1_step, before))
    coin = load_row(table, COIN)
    store_row(table, P, after)
    store_row(table, A, select_negative(coin, splat(c.l1 * c.n), risen))
    store_row(table, A_LOW, select_negative(coin, splat(0.0), low))
    limit = lane_max(splat(MAX_SHRINKAGE), mul(splat(MIN_STEPS), l1_step))
    excess = lane_max(sub(splat(MIN_P), after), sub(mul(risen, after), limit))
    return bool(any_negative(neg(select_negative(coin, splat(-1.0), excess))))


@inlined
def refresh(c: Any, table: Any) -> None:
    """Recompute the rows of the table that follow from others."""
    coin, bets = load_row(table, COIN), load_row(table, BETS)
    unit = splat(1.0 if c.loss == losses.POISSON else c.unit)
    if c.loss == losses.SQUARED or c.loss == losses.HUBER or c.loss == losses.QUANTILE:
        unit = mul(load_row(table, LARGEST), unit)
    store_row(table, UNIT, select_negative(coin, mul(load_row(table, WEALTH), unit), splat(1.0)))
    l2 = mul(splat(c.l2 * c.n), bets)
    largest = load_row(table, LARGEST)
    store_row(table, DENOMINATOR, add(largest, l2))
    store_row(table, OVER_LARGEST, div(splat(1.0), largest))
    store_row(table, INTERCEPT, _intercepts(table))
    c.published = best_published(c)
