r"""How the margins of the eight lanes of `lane_mixture.py` become one.

| mixture | weights of the lanes | reference |
|---|---|---|
| 1 | shares, which sum to 1: $\pi_k \propto e^{-\text{loss}}$ with a fixed share | Herbster & Warmuth (1998), *Tracking the best expert* |
| 2 | coefficients, of any sign: an online regression over the margins m | Hazan, Agarwal & Kale (2007), *Logarithmic regret algorithms for online convex optimization* |
| 3 | the mean of both | |

Three opinions, one of each mixture, are combined by a second fixed share. The result is linear in the margins. Lanes are learners of
the same data, so their margins are close to one another; what one of them adds to the others shows only where the margins are decorrelated, as
the regression does.

**The regression** takes an online Newton step. With the derivative g of the loss at its prediction, over the temperature, and the relative weight v
of the example,

$$\beta \leftarrow \beta - \frac{v g\,C m}{1 + v g^2\, m^\top C m}, \qquad
C \leftarrow \frac{1}{\gamma}\Bigl(C - \frac{v g^2\, C m\, m^\top C}{1 + v g^2\, m^\top C m}\Bigr)$$

So C is the inverse of $C_0^{-1} + \sum v g^2 m m^\top$ if nothing is forgotten ($\gamma = 1$). Old examples are forgotten with $1 - \gamma = 1 / (4 + t / 4)$, at least
$10^{-4}$, while the trace of C is below 0.8 of that of $C_0 = 0.05 I$. An example moves its own prediction by at most 1 / g, so that outliers move it little.
Margins are relative to the centre.

The coefficients of models that earlier versions began (`c.newton == 0`) take gradient steps, on margins relative to 0 (Mattern 2013, *Linear
and geometric mixtures*), and predict by mixture 3 alone.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import LANES, inlined, u64
from streaml1.core.simd import (
    add,
    hsum,
    lane_min,
    load_f64x8,
    mul,
    splat,
    stack_buffer,
    store_f64x8,
    sub,
)
from streaml1.core.simd.math import exp_neg
from streaml1.optim import losses
from streaml1.optim.structures.lane_table import (
    COEFFICIENT,
    COVARIANCE,
    SHARE,
    damped,
    load_row,
    losses_of,
    lowest_of,
    store_row,
)

__all__ = [
    "PRIOR_VARIANCE",
    "combine",
    "learn_mixtures",
    "mixture_centre",
    "mixture_weights",
    "opinions_of",
    "share_of_coefficients",
]

LANE = u64(LANES)
FIXED_SHARE = 1e-3
MAX_EXCESS = 50.0  # of a loss over the minimum, in units of the temperature
PRIOR_VARIANCE = 0.05  # of a coefficient
MAX_TRACE = 0.8 * LANES * PRIOR_VARIANCE  # of C, from which nothing is forgotten
WINDOW, MIN_WINDOW, MAX_WINDOW = 0.25, 4.0, 1e4  # examples that the regression remembers
COEFFICIENT_RATE = 0.05
MAX_SQUARE = 16.0  # of the margins of a row, relative to the mean, before it lowers the rate


@inlined
def share_of_coefficients(c: Any) -> float:
    """Return the weight of the coefficients in the prediction; the rest is that of the shares."""
    return float(c.by_coefficients + 0.5 * c.by_both)


@inlined
def mixture_weights(table: Any, c: Any) -> Any:
    """Return the weights of the lanes in the prediction."""
    of_coefficients = share_of_coefficients(c)
    shares = mul(load_row(table, SHARE), splat(1.0 - of_coefficients))
    return add(shares, mul(load_row(table, COEFFICIENT), splat(of_coefficients)))


@inlined
def mixture_centre(c: Any) -> float:
    """Return what margins are relative to in mixtures."""
    return float(c.centre) if c.newton else 0.0


@inlined
def start_covariance(table: Any) -> None:
    """Set C to that of a regression that has seen nothing."""
    for k in range(u64(LANES * LANES)):
        table[COVARIANCE + k] = 0.0
    for k in range(LANE):
        table[COVARIANCE + k * (LANE + u64(1))] = PRIOR_VARIANCE


@inlined
def opinions_of(table: Any, c: Any, margins: Any) -> tuple[float, float]:
    """Return the predictions by shares and by coefficients for the clipped margins."""
    by_shares = _combined(c, margins, load_row(table, SHARE))
    return by_shares, _combined(c, margins, load_row(table, COEFFICIENT))


@inlined
def combine(table: Any, c: Any, margins: Any) -> float:
    """Return the prediction for the clipped margins."""
    return _combined(c, margins, mixture_weights(table, c))


@inlined
def _combined(c: Any, margins: Any, weights: Any) -> float:
    """Return a combination of margins; clipped like them where its exponential counts."""
    centre = mixture_centre(c)
    a = centre + hsum(mul(sub(margins, splat(centre)), weights))
    return min(max(a, c.low), c.high) if c.loss == losses.POISSON else a


@inlined
def learn_mixtures(
    table: Any,
    c: Any,
    margins: Any,
    opinions: tuple[float, float],
    centre: float,
    offset: float,
    y: float,
    w: float,
    parameter: float,
    temperature: float,
) -> None:
    """Learn from the label of a row how to combine its clipped margins.

    Parameters
    ----------
    table, c
        The table of the lanes, and the clock.
    margins
        The clipped margins of the lanes.
    opinions
        The predictions by shares and by coefficients before this step.
    centre
        What margins were relative to then.
    offset, y, w, parameter
        The offset, the label and the relative weight of the row, and the parameter of the loss.
    temperature
        The loss by which a learner must be behind for its share to fall to 1/e.
    """
    if temperature > 0.0:
        factor = w / temperature
        lane_losses = losses_of(add(margins, splat(offset)), y, c.loss, parameter)
        _learn_shares(table, lane_losses, factor)
        if c.newton:
            _learn_opinions(c, opinions, offset, y, parameter, factor)
            a = opinions[1] + offset
            g = damped(c, a, losses.derivative(c.loss, a, y, parameter)) / temperature
            _newton_step(table, c, sub(margins, splat(centre)), g, w)
    if not c.newton:
        _gradient_step(table, c, margins, offset, y, w, parameter)


@inlined
def _learn_shares(table: Any, lane_losses: Any, factor: float) -> None:
    """Multiply each share by exp(-loss), normalize, and mix in the uniform distribution.

    `factor` multiplies the losses: it is the sample weight over the temperature.
    """
    excess = mul(sub(lane_losses, splat(lowest_of(lane_losses))), splat(factor))
    share = mul(load_row(table, SHARE), exp_neg(lane_min(excess, splat(MAX_EXCESS))))
    share = mul(share, splat((1.0 - FIXED_SHARE) / hsum(share)))
    store_row(table, SHARE, add(share, splat(FIXED_SHARE / LANES)))


@inlined
def _learn_opinions(
    c: Any, opinions: tuple[float, float], offset: float, y: float, parameter: float, factor: float
) -> None:
    """Learn the weights of the three mixtures."""
    by_shares, by_coefficients = opinions
    both = 0.5 * (by_shares + by_coefficients)
    lanes = stack_buffer()
    for k in range(LANE):
        lanes[k] = both + offset
    lanes[0], lanes[1] = by_shares + offset, by_coefficients + offset
    values = losses_of(load_f64x8(np.uint64(lanes.ctypes.data)), y, c.loss, parameter)
    excess = mul(sub(values, splat(lowest_of(values))), splat(factor))
    store_f64x8(np.uint64(lanes.ctypes.data), exp_neg(lane_min(excess, splat(MAX_EXCESS))))
    first = c.by_shares * lanes[0]
    second = c.by_coefficients * lanes[1]
    third = c.by_both * lanes[2]
    kept = (1.0 - FIXED_SHARE) / (first + second + third)
    c.by_shares = first * kept + FIXED_SHARE / 3.0
    c.by_coefficients = second * kept + FIXED_SHARE / 3.0
    c.by_both = third * kept + FIXED_SHARE / 3.0


@inlined
def _newton_step(table: Any, c: Any, m: Any, g: float, w: float) -> None:
    """Take an online Newton step on the coefficients; see the module.

    `m` are the margins over the centre. If rounding has made C indefinite, or a product is out of
    range, C starts anew instead.
    """
    gradient = mul(m, splat(g))
    lanes = stack_buffer()
    store_f64x8(np.uint64(lanes.ctypes.data), gradient)
    step, trace = splat(0.0), 0.0
    for k in range(LANE):
        step = add(step, mul(load_row(table, COVARIANCE + k * LANE), splat(lanes[k])))
        trace += table[COVARIANCE + k * (LANE + u64(1))]
    denominator = 1.0 + w * hsum(mul(gradient, step))
    if not 1.0 <= denominator < math.inf:
        start_covariance(table)
        return
    coefficients = sub(load_row(table, COEFFICIENT), mul(step, splat(w / denominator)))
    store_row(table, COEFFICIENT, coefficients)
    step = mul(step, splat(math.sqrt(w / denominator)))
    store_f64x8(np.uint64(lanes.ctypes.data), step)
    window = min(MIN_WINDOW + WINDOW * c.n, MAX_WINDOW)
    growth = splat(window / (window - 1.0) if trace < MAX_TRACE else 1.0)
    for k in range(LANE):
        row = sub(load_row(table, COVARIANCE + k * LANE), mul(step, splat(lanes[k])))
        store_row(table, COVARIANCE + k * LANE, mul(row, growth))


@inlined
def _gradient_step(
    table: Any, c: Any, margins: Any, offset: float, y: float, w: float, parameter: float
) -> None:
    """Take a normalized gradient step on the coefficients, as earlier versions do."""
    coefficients = load_row(table, COEFFICIENT)
    a = _combined(c, margins, coefficients)
    square = hsum(mul(margins, margins))
    c.squares += square
    q = max(c.squares / c.n, square / MAX_SQUARE)
    if q > 0.0:
        a += offset
        g = damped(c, a, losses.derivative(c.loss, a, y, parameter))
        rate = COEFFICIENT_RATE * c.unit * w * g / q
        store_row(table, COEFFICIENT, sub(coefficients, mul(margins, splat(rate))))
