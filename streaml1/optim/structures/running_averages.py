r"""Running means of the weights and of the intercept: constants and arithmetic.

The averaged rules predict with the means after t steps,

$$\bar w_t = \frac{1}{t} \sum_{s=1}^{t} w_s, \qquad \bar b_t = \frac{1}{t} \sum_{s=1}^{t} b_s$$

See `streaml1.optim.averaged` for how they are kept lazily.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.types import Floats

__all__ = [
    "MAX_RATIO",
    "MAX_SUM",
    "MEAN",
    "MIN_NONZERO",
    "MIN_ROOM",
    "mean_margin",
    "mean_of",
    "means_of",
    "row_sums_for",
]

MEAN = [("t", "i8"), ("b_sum", "f8")]  # the first fields of the record `mean` of each rule

# Upper bound of (running sum of a scalar) / (t times its last value). With it the mean of a weight
# is known to 4e-15 of the weight for each touch; beyond it the difference of two sums cancels.
MAX_RATIO = 16.0
# Reported where a mean is 0 but the weight itself is not: weights are counted by their means, and
# this mean will be non-zero after the next step.
MIN_NONZERO = 5e-324
MAX_SUM = 1e180
MIN_ROOM = 256


@inlined
def mean_margin(mean: Any, online: Any, total: float) -> float:
    """Return the margin of the mean, given the sum of all steps' margins without intercept."""
    m = mean[0]
    if m.t == 0:
        return total + online[0].b
    return total / m.t + m.b_sum / m.t


@inlined
def mean_of(total: float, weight: float, t: int) -> float:
    """Return the mean of a weight, given its sum over t steps and its value."""
    w = total / max(t, 1)
    if w == 0.0:
        sign = total if total != 0.0 else weight
        return math.copysign(MIN_NONZERO, sign) if sign != 0.0 else 0.0
    return w


def means_of(totals: Floats, weights: Floats, t: int) -> Floats:
    """Return `mean_of` of many weights, the same floats."""
    w = totals / max(t, 1)
    sign = np.where(totals != 0.0, totals, weights)
    hidden = (w == 0.0) & (sign != 0.0)
    w[hidden] = np.copysign(MIN_NONZERO, sign[hidden])
    w[w == 0.0] = 0.0
    return w


def row_sums_for(nnz: int, row_sums: Floats) -> Floats:
    """Return a scratch array for the sums of a row of `nnz` non-zeros, and one number more."""
    if nnz < len(row_sums):
        return row_sums
    return np.zeros(max(nnz + 1, 2 * len(row_sums)))
