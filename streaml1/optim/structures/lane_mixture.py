"""What eight nets side by side keep in rows of eight, and what they tell together."""

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
from streaml1.core.simd.math import decay, log_one_and
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
    "answers",
    "probability",
    "row_of",
    "set_row",
    "sizes",
    "told",
]

# The rows of `lanes`, eight floats each.
P, A, A_LOW, RATE, B, LOSS, STEP, MARGIN = (np.uint64(LANES * row) for row in range(8))
ROWS = 8

LANE = np.uint64(LANES)
# Nets that have lost so much more than the best have no say.
LOST = 40.0


@inlined
def row_of(lanes: Any, row: Any) -> Any:
    """A row of `lanes`."""
    return load_f64x8(np.uint64(lanes.ctypes.data) + np.uint64(8) * row)


@inlined
def set_row(lanes: Any, row: Any, values: Any) -> None:
    """Write a row of `lanes`."""
    store_f64x8(np.uint64(lanes.ctypes.data) + np.uint64(8) * row, values)


@inlined
def sizes(a: Any) -> Any:
    """Without their signs."""
    return lane_max(a, neg(a))


@inlined
def _sigmoids(margins: Any, e: Any) -> tuple[Any, Any]:
    """The sigmoids of eight margins, and of their opposites, given exp(-|margin|)."""
    larger = div(splat(1.0), add(splat(1.0), e))
    smaller = mul(e, larger)
    return select_negative(margins, smaller, larger), select_negative(margins, larger, smaller)


@inlined
def _mixture(lanes: Any, clock: Any, p: Any, q: Any) -> tuple[float, float, bool]:
    """How much eight say, together, for True and for False; and whether it is more than one."""
    behind = sub(row_of(lanes, LOSS), splat(lanes[LOSS + np.uint64(clock.leader)]))
    if clock.heaviest > 0.0 and clock.heaviest != 1.0:  # most often it is 1
        behind = div(behind, splat(clock.heaviest))
    near = sub(behind, splat(LOST))
    share = select_negative(near, decay(behind), splat(0.0))
    true, false = hsum(mul(share, p)), hsum(mul(share, q))
    alone = hsum(select_negative(near, splat(1.0), splat(0.0))) == 1.0
    return true, false, not alone and true != 0.0 and false != 0.0


@inlined
def _of_leader(clock: Any, eight: Any) -> float:
    lanes = stack_buffer()
    store_f64x8(np.uint64(lanes.ctypes.data), eight)
    return float(lanes[np.uint64(clock.leader)])


@inlined
def probability(lanes: Any, margins: Any, clock: Any, e: Any) -> float:
    """The sigmoid of what `told` tells of the logistic loss, given exp(-|margin|)."""
    p, q = _sigmoids(margins, e)
    true, false, several = _mixture(lanes, clock, p, q)
    return true / (true + false) if several else _of_leader(clock, p)


@inlined
def told(lanes: Any, margins: Any, clock: Any, loss: int) -> float:
    """The margin that is told, of eight."""
    if loss == losses.LOGISTIC:
        true, false, several = _mixture(lanes, clock, *_sigmoids(margins, decay(sizes(margins))))
        if several:
            return math.log(true / false)
    return _of_leader(clock, margins)


@inlined
def answers(margins: Any, y: float, loss: int, e: Any) -> tuple[Any, Any]:
    """Losses of eight margins and their derivatives; of the logistic given exp(-|margin|)."""
    if loss == losses.LOGISTIC:
        z = mul(margins, splat(y))
        _, q = _sigmoids(z, e)
        value = add(lane_max(neg(z), splat(0.0)), log_one_and(e))
        return value, mul(q, splat(-y))
    a, value, g = stack_buffer(), stack_buffer(), stack_buffer()
    store_f64x8(np.uint64(a.ctypes.data), margins)
    for k in range(LANE):
        value[k], g[k] = losses.value_and_derivative(loss, a[k], y)
    return load_f64x8(np.uint64(value.ctypes.data)), load_f64x8(np.uint64(g.ctypes.data))
