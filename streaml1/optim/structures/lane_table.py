"""The shared numbers of the eight lanes of `lane_mixture.py`, and how their margins are combined.

The table is a matrix of `ROWS` rows of eight floats, stored row by row; the constants `P` to
`COIN` are the offsets of its rows. Lanes 0 to 3 are elastic nets, lanes 4 to 7 bet coins.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import LANES, inlined, u64
from streaml1.core.simd import (
    add,
    div,
    hsum,
    lane_max,
    lane_min,
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
    "bounded",
    "combine",
    "damped",
    "derivatives",
    "learn_coefficients",
    "learn_shares",
    "load_row",
    "lowest_of",
    "mixture_weights",
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
    COEFFICIENT,  # weights of the logistic mixing
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
) = (np.uint64(LANES * row) for row in range(28))
ROWS = 28

LANE = u64(LANES)
FIXED_SHARE = 1e-3
COEFFICIENT_RATE = 0.05
MAX_SQUARE = 16.0  # of the margins of a row, relative to the mean, before it lowers the rate
MAX_EXCESS = 50.0  # of a loss over the minimum, in units of the temperature


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
def mixture_weights(table: Any) -> Any:
    """Return the weights of the lanes in the mean of both mixtures."""
    return mul(add(load_row(table, SHARE), load_row(table, COEFFICIENT)), splat(0.5))


@inlined
def combine(table: Any, clock: Any, margins: Any) -> float:
    """Return the mean of both mixtures of the clipped margins."""
    weights = add(load_row(table, SHARE), load_row(table, COEFFICIENT))
    return bounded(clock, 0.5 * hsum(mul(margins, weights)))


@inlined
def bounded(clock: Any, a: float) -> float:
    """Return a combined margin; clipped like those of the lanes where its exponential counts."""
    return min(max(a, clock.low), clock.high) if clock.loss == losses.POISSON else a


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


@inlined
def learn_shares(table: Any, lane_losses: Any, factor: float) -> None:
    """Multiply each share by exp(-loss), normalize, and mix in the uniform distribution.

    Herbster & Warmuth (1998), *Tracking the best expert*: fixed share. `factor` multiplies the
    losses: it is the sample weight over the temperature.
    """
    excess = mul(sub(lane_losses, splat(lowest_of(lane_losses))), splat(factor))
    share = mul(load_row(table, SHARE), exp_neg(lane_min(excess, splat(MAX_EXCESS))))
    share = mul(share, splat((1.0 - FIXED_SHARE) / hsum(share)))
    store_row(table, SHARE, add(share, splat(FIXED_SHARE / LANES)))


@inlined
def learn_coefficients(
    table: Any, clock: Any, margins: Any, offset: float, y: float, w: float, parameter: float
) -> None:
    """Take a normalized gradient step on the coefficients of the second mixture.

    Mattern (2013), *Linear and geometric mixtures*: an online regression over the margins.
    """
    coefficients = load_row(table, COEFFICIENT)
    a = bounded(clock, hsum(mul(margins, coefficients)))
    square = hsum(mul(margins, margins))
    clock.squares += square
    q = max(clock.squares / clock.n, square / MAX_SQUARE)
    if q > 0.0:
        a += offset
        g = damped(clock, a, losses.derivative(clock.loss, a, y, parameter))
        rate = COEFFICIENT_RATE * clock.unit * w * g / q
        store_row(table, COEFFICIENT, sub(coefficients, mul(margins, splat(rate))))
