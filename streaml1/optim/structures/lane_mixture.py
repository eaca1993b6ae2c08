"""The rows of eight floats of `elastic_net_lanes.py`, and how eight predictions are combined.

`lanes` is a matrix of `ROWS` rows of eight floats, stored row by row; the constants `P` to `MARGIN`
are the offsets of its rows. In this file the *leader* is the lane with the least loss, and p, q are
the probabilities of True and False.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import LANES, inlined
from streaml1.core.simd import (
    add,
    div,
    hsum,
    lane_max,
    load_f64x8,
    mul,
    neg,
    select_negative,
    splat,
    stack_buffer,
    store_f64x8,
    sub,
)
from streaml1.core.simd.math import exp_neg, log1p
from streaml1.optim import losses

__all__ = [
    "A",
    "A_LOW",
    "B",
    "LOSS",
    "MARGIN",
    "P",
    "RATE",
    "ROWS",
    "STEP",
    "abs_f64x8",
    "combined_margin",
    "combined_probability",
    "load_row",
    "losses_and_derivatives",
    "store_row",
]

# Offsets of the rows of `lanes`.
P, A, A_LOW, RATE, B, LOSS, STEP, MARGIN = (np.uint64(LANES * row) for row in range(8))
ROWS = 8

LANE = np.uint64(LANES)
# A net whose loss exceeds the least by more than this has no part in the mixture: e^-40 < 2^-53.
MAX_REGRET = 40.0


@inlined
def load_row(lanes: Any, row: Any) -> Any:
    """Return a row of `lanes` as f64x8."""
    return load_f64x8(np.uint64(lanes.ctypes.data) + np.uint64(8) * row)


@inlined
def store_row(lanes: Any, row: Any, values: Any) -> None:
    """Write a row of `lanes`."""
    store_f64x8(np.uint64(lanes.ctypes.data) + np.uint64(8) * row, values)


@inlined
def abs_f64x8(a: Any) -> Any:
    """Return |a|."""
    return lane_max(a, neg(a))


@inlined
def _sigmoids(margins: Any, e: Any) -> tuple[Any, Any]:
    """Return the sigmoids of eight margins and of their negatives, given exp(-|margin|)."""
    larger = div(splat(1.0), add(splat(1.0), e))
    smaller = mul(e, larger)
    return select_negative(margins, smaller, larger), select_negative(margins, larger, smaller)


@inlined
def _mixture(lanes: Any, clock: Any, p: Any, q: Any) -> tuple[float, float, bool]:
    """Return the total shares of True and False, and whether they come from more than one net."""
    regret = sub(load_row(lanes, LOSS), splat(lanes[LOSS + np.uint64(clock.leader)]))
    if clock.heaviest > 0.0 and clock.heaviest != 1.0:  # it is 1 for most streams
        regret = div(regret, splat(clock.heaviest))
    near = sub(regret, splat(MAX_REGRET))
    share = select_negative(near, exp_neg(regret), splat(0.0))
    true, false = hsum(mul(share, p)), hsum(mul(share, q))
    alone = hsum(select_negative(near, splat(1.0), splat(0.0))) == 1.0
    return true, false, not alone and true != 0.0 and false != 0.0


@inlined
def _of_leader(clock: Any, eight: Any) -> float:
    """Return the element of an f64x8 that belongs to the leader."""
    lanes = stack_buffer()
    store_f64x8(np.uint64(lanes.ctypes.data), eight)
    return float(lanes[np.uint64(clock.leader)])


@inlined
def combined_probability(lanes: Any, margins: Any, clock: Any, e: Any) -> float:
    """Return the sigmoid of `combined_margin` for the logistic loss, given exp(-|margin|)."""
    p, q = _sigmoids(margins, e)
    true, false, several = _mixture(lanes, clock, p, q)
    return true / (true + false) if several else _of_leader(clock, p)


@inlined
def combined_margin(lanes: Any, margins: Any, clock: Any, loss: int) -> float:
    """Return the margin of the mixture, or of the leader if the loss is not logistic."""
    if loss == losses.LOGISTIC:
        true, false, several = _mixture(
            lanes, clock, *_sigmoids(margins, exp_neg(abs_f64x8(margins)))
        )
        if several:
            return math.log(true / false)
    return _of_leader(clock, margins)


@inlined
def losses_and_derivatives(margins: Any, y: float, loss: int, e: Any) -> tuple[Any, Any]:
    """Return the losses of eight margins and their derivatives, given exp(-|margin|)."""
    if loss == losses.LOGISTIC:
        z = mul(margins, splat(y))
        _, q = _sigmoids(z, e)
        value = add(lane_max(neg(z), splat(0.0)), log1p(e))
        return value, mul(q, splat(-y))
    a, value, g = stack_buffer(), stack_buffer(), stack_buffer()
    store_f64x8(np.uint64(a.ctypes.data), margins)
    for k in range(LANE):
        value[k], g[k] = losses.value_and_derivative(loss, a[k], y)
    return load_f64x8(np.uint64(value.ctypes.data)), load_f64x8(np.uint64(g.ctypes.data))
