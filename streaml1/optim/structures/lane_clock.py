"""The scalars that the lanes of `lane_mixture.py` share, and how examples are counted in them.

Sums that are called robust count one number for at most ten times the mean of those before it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.optim import losses

__all__ = [
    "CLOCK",
    "AVERAGES",
    "MAX_MARGIN",
    "MIXTURE",
    "MIN_EXPOSURE",
    "SLOW_LANE",
    "best_published",
    "count_label",
    "count_norms",
    "count_target",
    "count_poisson_target",
    "counted",
    "is_snapshot_due",
    "lead_of_plain_lane",
    "mixture_temperature",
    "rate_scale",
    "rate_unit",
    "relative_weight",
]

CLOCK = np.dtype(
    [
        ("l1", "f8"),
        ("l2", "f8"),
        ("sgd", "i8"),
        ("loss", "i8"),
        # Added to each lane: the initial intercept, then the mean target; Poisson loss: its log.
        ("centre", "f8"),
        ("n", "i8"),  # examples learnt
        ("sample_weights", "f8"),  # robust sum of the sample weights
        ("norms", "f8"),  # robust sum of |x|
        ("scaled_norms", "f8"),  # robust sum of |z|
        ("targets", "i8"),  # targets counted: those of examples with a sample weight
        # Sum of the relative sample weights of positive examples; Poisson loss: sum of
        # exp(offset) - 1 over the targets.
        ("positives", "f8"),
        ("negatives", "f8"),
        ("deviations", "f8"),  # robust sum of |y - centre|; Poisson loss: of y
        ("risk", "f8"),  # sum of the losses of the mixture
        # Sums of the losses of what may be published, each times the number of its step: of
        # averaged weights; of the mixture and of the slow lane as of the snapshot; of the slow lane
        # as it is.
        ("average_risk", "f8"),
        ("stale_risk", "f8"),
        ("slow_risk", "f8"),
        ("lane_risk", "f8"),
        ("snapshot", "i8"),  # examples learnt before the snapshot
        ("published", "i8"),  # `AVERAGES`, `MIXTURE` or `SLOW_LANE`
        # Weights of what the mixtures say: that by shares, that by coefficients, and their mean.
        ("by_shares", "f8"),
        ("by_coefficients", "f8"),
        ("by_both", "f8"),
        ("newton", "i8"),  # whether coefficients take Newton steps; earlier versions: 0
        ("squares", "f8"),  # else the sum of the squares of the clipped margins
        ("low", "f8"),  # range that margins are clipped to
        ("high", "f8"),
        ("lead", "f8"),  # how far lane 0 may be beyond the others in mixtures
        ("smallest", "f8"),  # range of the targets; Poisson loss: of the logarithms of those > 0
        ("largest", "f8"),
        ("fresh", "i8"),  # features touched for the first time since the last forgetting
        ("retained", "i8"),  # features left then
        # How values are read; both 0 in models of versions that clipped them and had no origins.
        ("ceiling", "f8"),  # of scaled values; 0: they are clipped
        ("origin_rows", "i8"),  # first rows, which decide about origins
        ("with_origin", "i8"),  # features that were given an origin
        ("serving", "i8"),  # whether it only predicts
        # Of the current row.
        ("square", "f8"),  # |x|^2
        ("scaled_square", "f8"),  # |z|^2
        ("slope", "f8"),  # rate of the intercepts of elastic nets, over their rates
        ("unit", "f8"),  # of margins over that of derivatives, see `rate_unit`
    ],
    align=True,
)

MAX_MARGIN, MAX_LIFT, MAX_CONFIDENCE = 5.0, 2.0, 3.0
MAX_LEAD = 0.5  # of the margin of lane 0, in units of the margins
MAX_JUMP = 10.0  # of norms, weights and derivatives, relative to their mean
MAX_SQUARE = 16.0  # of a row, relative to that of the mean, before it lowers the rate
MAX_SCALE = 1e100  # of the rates: values may be so small that squares underflow
MIN_EXPOSURE = 1e-100  # where rounding has left none
AVERAGES, MIXTURE, SLOW_LANE = range(3)  # candidates for the published model


@inlined
def counted(x: float, n: int, total: float) -> float:
    """Return what x >= 0 adds to a robust sum `total` of `n` numbers."""
    return min(x, MAX_JUMP * (total / n)) if n > 0 and total > 0.0 else x


@inlined
def relative_weight(c: Any, w: float) -> float:
    """Count an example and its sample weight; return the weight relative to the mean."""
    size = counted(w, c.n, c.sample_weights)
    c.n += 1
    c.sample_weights += size
    mean = c.sample_weights / c.n
    return size / mean if mean > 0.0 else 0.0


@inlined
def is_snapshot_due(c: Any) -> bool:
    """Return whether a fifth of the stream or more has come since the snapshot."""
    return bool(c.n >= c.snapshot + max(1, c.snapshot // 4))


@inlined
def best_published(c: Any) -> int:
    """Return which candidate would have predicted best, had it been frozen at each snapshot.

    How much worse averages become by their age is taken from the slow lane. The mixture of earlier
    versions scales the centre, so it is left out if the intercept is a constant.
    """
    age = c.slow_risk / c.lane_risk if c.slow_risk > c.lane_risk > 0.0 else 1.0
    average_risk = c.average_risk * age
    may_scale = c.newton == 1 or c.slope > 0.0 or c.centre == 0.0
    if may_scale and c.stale_risk < average_risk and c.stale_risk <= c.slow_risk:
        return MIXTURE
    return SLOW_LANE if c.slow_risk < average_risk else AVERAGES


@inlined
def count_label(c: Any, y: float, w: float) -> None:
    """Count a label; set the range of margins.

    It reaches `MAX_LIFT` beyond the log-odds of the labels. On both sides it reaches `MAX_MARGIN`,
    and `MAX_CONFIDENCE` beyond log(1 / mean loss): where labels are easy to predict, confidence
    pays.
    """
    if y > 0.0:
        c.positives += w
    else:
        c.negatives += w
    odds = math.log((c.positives + 0.5) / (c.negatives + 0.5))
    margin = max(math.log((c.n + 1.0) / (c.risk + 1.0)) + MAX_CONFIDENCE, MAX_MARGIN)
    c.low = min(odds - MAX_LIFT, -margin)
    c.high = max(odds + MAX_LIFT, margin)


@inlined
def count_target(c: Any, y: float, a: float, intercept_lr: float) -> float:
    """Count a target; return it, clipped to ten mean deviations beyond the mean and `a`.

    The margin `a` is the prediction: large targets that are expected do not count as outliers.
    The first target becomes the centre, unless the intercept is a constant.
    """
    if c.targets == 0 and intercept_lr > 0.0:
        c.centre = c.smallest = c.largest = y
    deviation = abs(y - c.centre)
    if c.targets > 0 and c.deviations > 0.0:
        limit = MAX_JUMP * (c.deviations / c.targets)
        y = min(max(y, min(c.centre, a) - limit), max(c.centre, a) + limit)
        deviation = min(deviation, limit)
    c.targets += 1
    c.deviations += deviation
    c.smallest = min(c.smallest, y)
    c.largest = max(c.largest, y)
    margin = 0.5 * (c.largest - c.smallest)
    c.low = c.smallest - margin
    c.high = c.largest + margin
    if intercept_lr > 0.0:
        c.centre += (y - c.centre) / c.targets
    return y


@inlined
def count_poisson_target(c: Any, y: float, a: float, offset: float, intercept_lr: float) -> float:
    """Count a target of the Poisson loss; return it, clipped to ten times the usual size.

    The usual size is the largest of the mean target, the mean predicted by the margin `a` and the
    offset, and 1.
    """
    if c.targets > 0:
        mean = c.deviations / c.targets
        y = min(y, MAX_JUMP * max(mean, losses.poisson_mean(a + offset), 1.0))
    c.targets += 1
    c.deviations += y
    c.positives += losses.poisson_mean(offset) - 1.0
    # Half an event at least: the logarithm of the mean is finite.
    exposure = max(c.targets + c.positives, MIN_EXPOSURE)
    centre = math.log(max(c.deviations, 0.5) / exposure)
    if y > 0.0:
        c.smallest = min(c.smallest, math.log(y) - offset)
        c.largest = max(c.largest, math.log(y) - offset)
    c.low = min(centre - MAX_MARGIN, c.smallest - MAX_LIFT)
    c.high = max(centre, c.largest) + MAX_LIFT
    if intercept_lr > 0.0:
        c.centre = centre
    return y


@inlined
def rate_unit(c: Any, parameter: float) -> float:
    """Return the unit of margins over that of derivatives: rates are multiplied by it.

    Margins have the unit of the targets, measured by their mean deviation. Those of the Poisson
    loss are logarithms, and its derivatives have the unit of the targets. So the absolute, Huber
    and quantile losses take the same steps at small residuals if tau = 1/2, and Huber's are those
    of the squared loss if delta is more than the deviation. The derivatives of the squared hinge
    are twice those of the hinge.
    """
    if c.loss == losses.SQUARED_HINGE:
        return 0.5
    deviation = c.deviations / max(c.targets, 1)
    if c.loss == losses.ABSOLUTE:
        return deviation
    if c.loss == losses.HUBER:  # like the absolute loss where delta is less than the deviation
        return max(1.0, deviation / parameter)
    if c.loss == losses.QUANTILE:
        return deviation / max(parameter, 1.0 - parameter)
    # Rare events are not: a single one would be a large step.
    return 1.0 / max(deviation, 1.0) if c.loss == losses.POISSON else 1.0


@inlined
def lead_of_plain_lane(c: Any) -> float:
    """Return how far the margin of lane 0 may be beyond those of the others in mixtures.

    It is the only lane whose values are unbounded: a single one would be its margin.
    """
    if losses.is_regression(c.loss) and c.loss != losses.POISSON:
        return MAX_LEAD * float(c.deviations / max(c.targets, 1))
    return MAX_LEAD


@inlined
def mixture_temperature(c: Any) -> float:
    """Return the loss by which a learner must be behind for its share to fall to 1/e.

    For regression it is twice the mean loss, that is twice the variance or dispersion of the noise.
    """
    if losses.is_regression(c.loss):
        return 2.0 * c.risk / c.n
    return 2.0 if c.loss == losses.SQUARED_HINGE else 1.0


@inlined
def rate_scale(norm: float, square: float) -> float:
    """Return the factor of a rate, given the mean norm of rows and the square of the current."""
    q = max(norm * norm, square / MAX_SQUARE)
    return min(1.0 / q, MAX_SCALE) if q > 0.0 else 1.0


@inlined
def count_norms(c: Any) -> None:
    """Count the norms of the current row; that of rows before features had origins is forgotten."""
    if c.with_origin > 0 and c.n == c.origin_rows + 1:
        c.norms = (c.n - 1) * math.sqrt(c.square)
    c.norms += counted(math.sqrt(c.square), c.n - 1, c.norms)
    c.scaled_norms += counted(math.sqrt(c.scaled_square), c.n - 1, c.scaled_norms)
