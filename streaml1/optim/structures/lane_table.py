"""The shared numbers of the eight lanes of `lane_mixture.py`, and losses at their margins.

The table is a matrix of `ROWS` rows of eight floats, stored row by row; the constants `P` to
`COVARIANCE` are the offsets of its rows. Lanes 0 to 3 are elastic nets, lanes 4 to 7 bet coins.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import LANES, inlined, u64
from streaml1.core.simd import (
    add,
    div,
    lane_max,
    load_f64x8,
    mul,
    neg,
    select_negative,
    splat,
    stack_buffer,
    store_f64x8,
)
from streaml1.core.simd.math import exp_neg, log1p
from streaml1.optim import losses

__all__ = [
    "A",
    "AVERAGED",
    "AVERAGE_BIAS",
    "AVERAGE_MARGIN",
    "A_LOW",
    "BETS",
    "BIAS",
    "BIAS_GRADIENTS",
    "BIAS_WEALTH",
    "COEFFICIENT",
    "COIN",
    "COVARIANCE",
    "DENOMINATOR",
    "GRADIENT",
    "INTERCEPT",
    "LARGEST",
    "MARGIN",
    "OVER_LARGEST",
    "P",
    "RATE",
    "RAW",
    "ROWS",
    "SCALE",
    "SCALED",
    "SHARE",
    "SLOW",
    "STALE_BIAS",
    "STALE_COEFFICIENT",
    "UNIT",
    "WEALTH",
    "abs_f64x8",
    "damped",
    "derivatives",
    "load_row",
    "lowest_of",
    "store_row",
    "losses_of",
]

# Offsets of the rows of the table. The first twelve are state, the others follow from them or live
# for one step.
(
    P,  # elastic nets: the product of all shrinkages by l2
    A,  # soft threshold of what a slot stores
    A_LOW,  # its Kahan compensation
    RATE,  # elastic nets: rate in units of 1 / (squared norm)
    WEALTH,  # coins: the initial wealth
    SHARE,  # weights of the fixed share, which sum to 1
    COEFFICIENT,  # weights of the regression over the margins
    BIAS,  # what the intercept stores: b of an elastic net, Z of a coin
    BIAS_GRADIENTS,  # coins: G of the intercept
    BIAS_WEALTH,  # coins: R of the intercept
    LARGEST,  # coins: the largest |g| so far; elastic nets: 1
    UNIT,  # initial wealth in units of the margin
    DENOMINATOR,  # what G is added to
    OVER_LARGEST,  # 1 / LARGEST: products are cheaper than quotients
    INTERCEPT,  # the intercept of each lane
    MARGIN,  # margins of the current row, over P and without the intercept
    GRADIENT,  # derivatives of the loss of the current row
    SCALE,  # factor of the rates of this step
    AVERAGE_BIAS,  # the averaged intercept of each lane
    STALE_COEFFICIENT,  # the weights of the lanes in the mixture as of the snapshot
    STALE_BIAS,  # the intercept of each lane as of the snapshot
    # Margins of the current row without the intercept: by averaged weights in the lanes that have
    # them; of the mixture and of the slow lane as of the snapshot in lanes 0 and 1.
    AVERAGE_MARGIN,
    SLOW,  # constant: 1 for the slow lane, else 0
    AVERAGED,  # constant: the weight of each lane in the model of averaged weights
    RAW,  # constant: 1 where a lane sees values as they are, else 0
    SCALED,  # constant: 1 where an elastic net sees scaled values, else 0
    BETS,  # constant: 1 where a lane bets coins, else 0
    COIN,  # constant: -1 where a lane bets coins, else 1, for `select_negative`
    COVARIANCE,  # first of eight rows: the matrix C of `lane_mixing`
) = (np.uint64(LANES * row) for row in range(29))
ROWS = 28 + LANES

LANE = u64(LANES)


@inlined
def load_row(table: Any, row: Any) -> Any:
    """Return a row of the table as f64x8."""
    return load_f64x8(np.uint64(table.ctypes.data) + u64(8) * row)


@inlined
def store_row(table: Any, row: Any, values: Any) -> None:
    """Write a row of the table."""
    store_f64x8(np.uint64(table.ctypes.data) + u64(8) * row, values)


@inlined
def abs_f64x8(a: Any) -> Any:
    """Return |a|."""
    return lane_max(a, neg(a))


@inlined
def lowest_of(a: Any) -> float:
    """Return the smallest lane."""
    lanes = stack_buffer()
    store_f64x8(np.uint64(lanes.ctypes.data), a)
    lowest = lanes[0]
    for k in range(u64(1), LANE):
        lowest = min(lowest, lanes[k])
    return float(lowest)


@inlined
def derivatives(margins: Any, clock: Any, y: float, parameter: float) -> Any:
    """Return the derivatives of the loss at eight margins."""
    loss = clock.loss
    if loss == losses.LOGISTIC:
        z = mul(margins, splat(y))
        e = exp_neg(abs_f64x8(z))
        larger = div(splat(1.0), add(splat(1.0), e))
        # sigmoid(-z): e / (1 + e) where z >= 0
        return mul(select_negative(z, larger, mul(e, larger)), splat(-y))
    a, g = stack_buffer(), stack_buffer()
    store_f64x8(np.uint64(a.ctypes.data), margins)
    for k in range(LANE):
        g[k] = damped(clock, a[k], losses.derivative(loss, a[k], y, parameter))
    return load_f64x8(np.uint64(g.ctypes.data))


@inlined
def damped(clock: Any, a: float, g: float) -> float:
    """Return a derivative at `a`; that of the Poisson loss divided by how far exp(a) exceeds usual.

    The curvature of this loss, exp(a), would make any fixed rate diverge on rows with large means.
    Divided, it is at most that at the mean target. The expected step at the true mean remains 0.
    """
    if clock.loss == losses.POISSON:
        g /= max(1.0, clock.unit * losses.poisson_mean(a))
    return g


@inlined
def losses_of(margins: Any, y: float, loss: int, parameter: float) -> Any:
    """Return the losses of eight margins."""
    if loss == losses.LOGISTIC:
        z = mul(margins, splat(y))
        return add(lane_max(neg(z), splat(0.0)), log1p(exp_neg(abs_f64x8(z))))
    a, value = stack_buffer(), stack_buffer()
    store_f64x8(np.uint64(a.ctypes.data), margins)
    for k in range(LANE):
        value[k] = losses.value(loss, a[k], y, parameter)
    return load_f64x8(np.uint64(value.ctypes.data))
