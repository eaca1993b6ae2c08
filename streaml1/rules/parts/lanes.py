"""What eight nets side by side keep in rows of eight, and what they tell together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1 import losses
from streaml1.eights import decay, log_one_and
from streaml1.jit import (
    LANES,
    chosen,
    eight_at,
    eight_of,
    greater,
    inlined,
    minus,
    negative,
    over,
    plus,
    put_eight,
    scratch,
    times,
    total,
)

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
    "is_any",
    "row_of",
    "set_row",
    "sizes",
    "predicted",
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
    return eight_at(np.uint64(lanes.ctypes.data) + np.uint64(8) * row)


@inlined
def set_row(lanes: Any, row: Any, values: Any) -> None:
    """Write a row of `lanes`."""
    put_eight(np.uint64(lanes.ctypes.data) + np.uint64(8) * row, values)


@inlined
def sizes(a: Any) -> Any:
    """Without their signs."""
    return greater(a, negative(a))


@inlined
def _sigmoids(margins: Any, e: Any) -> tuple[Any, Any]:
    """The sigmoids of eight margins, and of their opposites, given exp(-|margin|)."""
    larger = over(eight_of(1.0), plus(eight_of(1.0), e))
    smaller = times(e, larger)
    return chosen(margins, smaller, larger), chosen(margins, larger, smaller)


@inlined
def _mixture(lanes: Any, own: float, clock: Any, margins: Any, e: Any) -> float:
    """The margin of the mixture of eight, of which the leader has its own."""
    behind = minus(row_of(lanes, LOSS), eight_of(lanes[LOSS + np.uint64(clock.leader)]))
    if clock.heaviest > 0.0:
        behind = over(behind, eight_of(clock.heaviest))
    near = minus(behind, eight_of(LOST))
    share = chosen(near, decay(behind), eight_of(0.0))
    p, q = _sigmoids(margins, e)
    true, false = total(times(share, p)), total(times(share, q))
    alone = total(chosen(near, eight_of(1.0), eight_of(0.0))) == 1.0
    if alone or true == 0.0 or false == 0.0:
        return own
    return math.log(true / false)


@inlined
def predicted(lanes: Any, margins: Any, clock: Any, loss: int, e: Any) -> float:
    """The margin that is told, of eight."""
    a = scratch()
    put_eight(np.uint64(a.ctypes.data), margins)
    own = float(a[np.uint64(clock.leader)])
    return _mixture(lanes, own, clock, margins, e) if loss == losses.LOGISTIC else own


@inlined
def answers(margins: Any, y: float, loss: int, e: Any) -> tuple[Any, Any]:
    """Losses of eight margins and their derivatives; of the logistic given exp(-|margin|)."""
    if loss == losses.LOGISTIC:
        z = times(margins, eight_of(y))
        _, q = _sigmoids(z, e)
        value = plus(greater(negative(z), eight_of(0.0)), log_one_and(e))
        return value, times(q, eight_of(-y))
    a, value, g = scratch(), scratch(), scratch()
    put_eight(np.uint64(a.ctypes.data), margins)
    for k in range(LANE):
        value[k], g[k] = losses.value_and_derivative(loss, a[k], y)
    return eight_at(np.uint64(value.ctypes.data)), eight_at(np.uint64(g.ctypes.data))


@inlined
def is_any(a: Any) -> bool:
    """Whether any of eight is below 0."""
    return bool(total(chosen(a, eight_of(1.0), eight_of(0.0))) > 0.0)
