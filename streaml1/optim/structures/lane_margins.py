"""Margins of the eight lanes of `lane_mixture.py`, of the published model, and as of the snapshot.

`c` is the clock (see `lane_clock`) and `table` the table of the lanes (see `lane_table`).

The mixture predicts the next example. The published model, which `weights` describes, predicts
those of the next day. It is one of three:

- the mean of lanes 2 and 6 with weights averaged over about a quarter of the steps, which removes
  the noise of the last ones;
- the mixture as it is, where it still improves and averages lag (in models of earlier versions
  unless the intercept is a constant other than 0);
- lane 1, which has the smallest rate, where the stream drifts and the others follow the last
  examples.

The loss of the next example cannot tell the last two apart, since drift favours what follows it. So
the mixture and lane 1 are judged by their weights at a snapshot: what they would have predicted,
had they been published then. It is renewed when a quarter more examples have been learnt, and
copies nothing: a weight is noted when it first changes afterwards. Averages are judged by their
weights now, and their loss is multiplied by that of lane 1 as of the snapshot over that of lane 1
now, if that is more. A loss counts in proportion to the number of its example; the smallest sum
decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import LANES, inlined, u64
from streaml1.core.simd import (
    add,
    hsum,
    lane_max,
    lane_min,
    load_f64x8,
    mul,
    splat,
    stack_buffer,
    store_f64x8,
    sub,
)
from streaml1.optim import losses
from streaml1.optim.structures.lane_clock import AVERAGES, MIXTURE
from streaml1.optim.structures.lane_mixing import combine, mixture_centre, mixture_weights
from streaml1.optim.structures.lane_slots import SLOW_NET
from streaml1.optim.structures.lane_table import (
    AVERAGE_BIAS,
    AVERAGE_MARGIN,
    AVERAGED,
    INTERCEPT,
    SLOW,
    STALE_BIAS,
    STALE_COEFFICIENT,
    P,
    load_row,
    losses_of,
    store_row,
)

__all__ = [
    "bounded_margins",
    "candidate_margins",
    "clip",
    "complete",
    "count_risks",
    "published_margin",
    "take_snapshot",
]


@inlined
def clip(a: Any, low: float, high: float) -> Any:
    """Return the lanes of `a`, clipped."""
    return lane_min(lane_max(a, splat(low)), splat(high))


@inlined
def bounded_margins(c: Any, margins: Any) -> Any:
    """Return the margins of all lanes as they count in mixtures.

    They are clipped, and lane 0 to `c.lead` beyond the others.
    """
    lanes = stack_buffer()
    address = np.uint64(lanes.ctypes.data)
    store_f64x8(address, clip(margins, c.low, c.high))
    low = high = lanes[1]
    for k in range(u64(2), u64(LANES)):
        low, high = min(low, lanes[k]), max(high, lanes[k])
    lanes[0] = min(max(lanes[0], low - c.lead), high + c.lead)
    return load_f64x8(address)


@inlined
def complete(c: Any, table: Any, margins: Any) -> Any:
    """Return the margins of all lanes, given those over P without the intercepts."""
    intercepts = add(load_row(table, INTERCEPT), splat(c.centre))
    return add(mul(margins, load_row(table, P)), intercepts)


@inlined
def _averaged_margin(c: Any, table: Any, averages: Any) -> float:
    """Return the margin by averaged weights, given that of each lane without its intercept."""
    margins = add(averages, add(load_row(table, AVERAGE_BIAS), splat(c.centre)))
    margins = clip(margins, c.low, c.high)
    return hsum(mul(margins, load_row(table, AVERAGED)))


@inlined
def published_margin(c: Any, table: Any, margins: Any, averages: Any) -> float:
    """Return the margin of the published model, given those of all lanes and of the averages."""
    if c.published == AVERAGES:
        return _averaged_margin(c, table, averages)
    if c.published == MIXTURE:
        return combine(table, c, bounded_margins(c, margins))
    margins = clip(margins, c.low, c.high)
    return hsum(mul(margins, load_row(table, SLOW)))


@inlined
def take_snapshot(c: Any, table: Any) -> None:
    """Store the weights of the lanes in the mixture and their intercepts."""
    store_row(table, STALE_COEFFICIENT, mixture_weights(table, c))
    store_row(table, STALE_BIAS, load_row(table, INTERCEPT))
    c.snapshot = c.n


@inlined
def candidate_margins(c: Any, table: Any, margins: Any) -> tuple[float, float, float, float]:
    """Return the margins of the models that may be published, given those of all lanes, clipped.

    They are those of averaged weights, of the mixture and of the slow lane as of the snapshot, and
    of the slow lane as it is.
    """
    average = _averaged_margin(c, table, load_row(table, AVERAGE_MARGIN))
    centre = mixture_centre(c)
    bias = add(load_row(table, STALE_BIAS), splat(c.centre - centre))
    mixture = hsum(mul(bias, load_row(table, STALE_COEFFICIENT))) + centre + table[AVERAGE_MARGIN]
    slow = table[AVERAGE_MARGIN + SLOW_NET] + table[STALE_BIAS + SLOW_NET] + c.centre
    mixture, slow = min(max(mixture, c.low), c.high), min(max(slow, c.low), c.high)
    return average, mixture, slow, hsum(mul(margins, load_row(table, SLOW)))


@inlined
def count_risks(
    c: Any,
    a: float,
    candidates: tuple[float, float, float, float],
    offset: float,
    y: float,
    w: float,
    parameter: float,
) -> None:
    """Count the losses at the margin `a` of the mixture and at those of `candidate_margins`.

    For the Poisson loss, only the excess over the smallest possible loss at the target y counts.
    """
    lanes = stack_buffer()
    address = np.uint64(lanes.ctypes.data)
    average, stale, slow, lane = candidates
    lanes[0], lanes[1], lanes[2], lanes[3], lanes[4] = a, average, stale, slow, lane
    lanes[5] = lanes[6] = lanes[7] = a
    margins = add(load_f64x8(address), splat(offset))
    minimum = losses.poisson_minimum(y) if c.loss == losses.POISSON else 0.0
    # The logistic loss takes less time for eight margins than the C library needs for one.
    store_f64x8(address, sub(losses_of(margins, y, c.loss, parameter), splat(minimum)))
    later = w * c.n
    c.risk += lanes[0] * w
    c.average_risk += lanes[1] * later
    c.stale_risk += lanes[2] * later
    c.slow_risk += lanes[3] * later
    c.lane_risk += lanes[4] * later
