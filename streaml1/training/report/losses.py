"""Losses of progressive outputs, and what the constant predictor says."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.optim.tasks import REGRESSION

__all__ = ["LEAST_PROBABILITY", "MARGINS", "NAMES", "constants", "losses"]

NAMES = {
    "logistic": "log-loss",
    "hinge": "hinge loss",
    "smoothed_hinge": "smoothed hinge loss",
    "squared": "squared loss",
    "absolute": "absolute loss",
    "softmax": "log-loss",
}
MARGINS = ("hinge", "smoothed_hinge")

# As in river: an example on which a model was sure and wrong costs at most 34.5.
LEAST_PROBABILITY = 1e-15


def losses(loss: str, p: Any, y: Any) -> Any:
    """Losses of progressive outputs, one an example.

    Parameters
    ----------
    loss
        One of the five losses of the models, or `"softmax"`.
    p
        Probabilities of True for `"logistic"`, margins for the hinges, else values; for
        `"softmax"` a row of probabilities for each example.
    y
        Labels: bool, or numbers for `"squared"` and `"absolute"`; for `"softmax"` the places of
        the labels in a row.

    Examples
    --------
    >>> import numpy as np
    >>> losses("hinge", np.array([2.0, 0.5, -1.0]), np.array([True, True, True]))
    array([0. , 0.5, 2. ])
    """
    if loss == "softmax":
        # Subtracted, for the negative of nothing would be told as -0.0000.
        return 0.0 - np.log(np.maximum(p[np.arange(len(y)), y], LEAST_PROBABILITY))
    if loss == "logistic":
        p = np.minimum(np.maximum(p, LEAST_PROBABILITY), 1.0 - LEAST_PROBABILITY)
        return -np.log(np.where(y, p, 1.0 - p))
    if loss in MARGINS:
        short = np.maximum(0.0, 1.0 - np.where(y, p, -p))
        if loss == "hinge":
            return short
        return np.where(short >= 1.0, short - 0.5, 0.5 * np.minimum(short, 1.0) ** 2)
    with np.errstate(over="ignore"):  # a model that has diverged has an infinite loss
        return np.abs(p - y) if loss == "absolute" else 0.5 * (p - y) ** 2


def constants(loss: str, n: Any, total: Any) -> Any:
    """What the progressive constant predictor says, after examples of weight `n`.

    `total` is the weight of the examples labelled True, or the weighted sum of the values.
    """
    if loss in REGRESSION:
        return np.divide(total, n, out=np.zeros(len(n)), where=n > 0.0)
    rate = (total + 0.5) / (n + 1.0)
    if loss == "logistic":
        return rate
    if loss == "hinge":  # of all constant margins, the one with the least mean loss at this rate
        return np.sign(2.0 * rate - 1.0)
    return np.where(rate >= 0.5, 2.0 - 1.0 / rate, 1.0 / (1.0 - rate) - 2.0)
