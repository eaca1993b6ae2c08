"""Losses of progressive predictions, and the predictions of the baseline."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streaml1.core.types import Floats
from streaml1.optim.tasks import CLASSIFICATION, REGRESSION

__all__ = [
    "MARGINS",
    "MIN_PROBABILITY",
    "NAMES",
    "baseline_predictions",
    "losses",
    "sampled_probabilities",
]

NAMES = {
    "logistic": "log-loss",
    "hinge": "hinge loss",
    "smoothed_hinge": "smoothed hinge loss",
    "squared_hinge": "squared hinge loss",
    "squared": "squared loss",
    "absolute": "absolute loss",
    "huber": "Huber loss",
    "quantile": "quantile loss",
    "poisson": "Poisson loss",
    "softmax": "log-loss",
}
MARGINS = tuple(name for name in CLASSIFICATION if name != "logistic")
"""Losses whose predictions are reported as margins."""

MIN_PROBABILITY = 1e-15
"""As in river: an example that a model gets wrong with certainty costs at most 34.5."""


MIN_MEAN = 1e-300
"""Smallest mean of the Poisson loss, whose logarithm is finite."""


def losses(
    loss: str, p: NDArray[np.float64], y: NDArray[Any] | bool, parameter: float = 0.0
) -> NDArray[np.float64]:
    """Return the loss of each progressive prediction.

    Parameters
    ----------
    loss
        One of the losses of the models, or `"softmax"`.
    p
        Predictions: probabilities of True for `"logistic"`, margins for the hinges, values for
        regressors, shape (..., n); for `"softmax"` the probabilities of all labels, shape (n, k).
    y
        Labels: bool, or numbers for the losses of regressors; for `"softmax"` the columns of the
        labels in `p`.
    parameter
        The parameter of the loss, see `optim.losses`.

    Returns
    -------
    ndarray of float64
        Losses, shape (..., n).

    Examples
    --------
    >>> import numpy as np
    >>> losses("hinge", np.array([2.0, 0.5, -1.0]), np.array([True, True, True]))
    array([0. , 0.5, 2. ])
    """
    if loss == "softmax":
        y = np.asarray(y)
        # Subtract from 0.0: the negative of a loss of 0.0 would print as -0.0000.
        cost: NDArray[np.float64] = 0.0 - np.log(
            np.maximum(p[np.arange(len(y)), y], MIN_PROBABILITY)
        )
        return cost
    if loss == "logistic":
        p = np.minimum(np.maximum(p, MIN_PROBABILITY), 1.0 - MIN_PROBABILITY)
        of_label: NDArray[np.float64] = np.where(y, p, 1.0 - p)
        cost = -np.log(of_label)
        return cost
    if loss in MARGINS:
        slack = np.maximum(0.0, 1.0 - np.where(y, p, -p))
        if loss == "hinge":
            return slack
        if loss == "squared_hinge":
            with np.errstate(over="ignore"):  # as below
                return slack**2
        return np.where(slack >= 1.0, slack - 0.5, 0.5 * np.minimum(slack, 1.0) ** 2)
    with np.errstate(over="ignore"):  # a model that has diverged has an infinite loss
        error: NDArray[np.float64] = p - y
        if loss == "quantile":
            return np.where(error < 0.0, -parameter * error, (1.0 - parameter) * error)
        if loss == "poisson":
            cost = p - y * np.log(np.maximum(p, MIN_MEAN))
            return cost
        size = np.abs(error)
        if loss == "huber":
            inner = np.minimum(size, parameter)
            cost = inner * (size - 0.5 * inner)
            return cost
        return size if loss == "absolute" else 0.5 * error**2


def baseline_predictions(loss: str, n: Floats, total: Floats) -> Floats:
    """Return what the baseline predicts after examples of total weight `n`.

    Parameters
    ----------
    loss
        One of the losses of the models.
    n
        Weight of the examples so far.
    total
        Weight of those labelled True; for regressors the weighted sum of the values.

    Returns
    -------
    ndarray of float64
        The constant with the smallest mean loss on those examples; the mean for regressors. Half
        an example of each label is added for classifiers, half an event for the Poisson loss. For
        the quantile loss see `running_quantile.py`.
    """
    if loss == "poisson":
        return (total + 0.5) / (n + 1.0)
    if loss in REGRESSION:
        return np.divide(total, n, out=np.zeros(len(n)), where=n > 0.0)
    rate = (total + 0.5) / (n + 1.0)
    if loss == "logistic":
        return rate
    if loss == "hinge":
        return np.sign(2.0 * rate - 1.0)
    if loss == "squared_hinge":
        return 2.0 * rate - 1.0
    return np.where(rate >= 0.5, 2.0 - 1.0 / rate, 1.0 / (1.0 - rate) - 2.0)


def sampled_probabilities(p: Floats, negative_rate: float) -> Floats:
    """Return probabilities of True in a stream that kept a share of its negative examples.

    Parameters
    ----------
    p
        Probabilities of True in the full stream.
    negative_rate
        The share.

    Examples
    --------
    >>> import numpy as np
    >>> sampled_probabilities(np.array([0.01, 0.5]), 0.01)
    array([0.50251256, 0.99009901])
    """
    if negative_rate == 1.0:
        return p
    sampled: Floats = p / (p + negative_rate * (1.0 - p))
    return sampled
