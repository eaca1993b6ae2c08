r"""The losses of one margin $a = \langle w, x \rangle + b$ and one label $y$.

| loss | value | derivative at a kink |
|---|---|---|
| logistic | $\log(1 + e^{-ya})$ | |
| hinge | $\max(0, 1 - ya)$ | 0 at $ya = 1$ |
| smoothed_hinge | 0 if $ya > 1$; $1 - ya - \gamma/2$ if $ya < 1 - \gamma$; else $(1 - ya)^2 / 2\gamma$; $\gamma = 1$ | |
| squared_hinge | $\max(0, 1 - ya)^2$ | |
| squared | $(a - y)^2 / 2$ | |
| absolute | $|a - y|$ | 0 at $a = y$ |
| huber | $(a - y)^2 / 2$ if $|a - y| \le \delta$, else $\delta(|a - y| - \delta / 2)$ | |
| quantile | $\tau (y - a)$ if $a < y$, else $(1 - \tau)(a - y)$ | 0 at $a = y$ |
| poisson | $e^a - ya$, for $y \ge 0$ | |

The smoothed hinge is that of Shalev-Shwartz & Zhang (2013), slide "Smoothing the hinge-loss". Labels of
classification are -1 and +1. The Poisson loss is the negative log-likelihood of a count with the mean $e^a$,
without $\log y!$. To keep its derivative finite it is linear in a beyond `MAX_LOG_MEAN`, where the mean exceeds
every valid label.

`LOSSES` is the one table of losses. To add one: write its value and its derivative, add a code and an entry
of `LOSSES`, and a branch to `value` and `derivative`. `CODES` and the lists of names in `tasks.py` follow.
Kernels take the code of a loss as an integer and branch on it. That is as fast as a kernel for each loss, and
takes one compilation for all.

Delta and tau reach kernels as one float, `parameter`, which the other losses ignore. It is a field of the
online record next to the code, so that no update rule stores it; loading a model sets it, as it sets the code,
from the hyperparameter that `Loss.parameter` names.

**Sampled negatives.** If a stream kept only a share R of its negative examples, its odds are 1/R times those of
the full stream: the margin of the one is that of the other minus log R. Models learn the margin of the stream that
they see; predictions are for the full stream (`full_stream_margin`). As the intercept has no penalty, that equals
learning with the offset -log R, from another initial intercept. log R is the parameter of the logistic loss.

This module is imported before numpy is loaded: the command line lists the losses.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

from streaml1.core.jit import inlined

__all__ = [
    "ABSOLUTE",
    "CODES",
    "HINGE",
    "HUBER",
    "LOGISTIC",
    "LOSSES",
    "MAX_LOG_MEAN",
    "POISSON",
    "QUANTILE",
    "SMOOTHED_HINGE",
    "SQUARED",
    "SQUARED_HINGE",
    "Loss",
    "derivative",
    "full_stream_margin",
    "is_regression",
    "output",
    "output_and_derivative",
    "poisson_mean",
    "poisson_minimum",
    "response",
    "sigmoid",
    "target_size",
    "value",
]

LOGISTIC, HINGE, SMOOTHED_HINGE, SQUARED, ABSOLUTE, HUBER, QUANTILE, POISSON = range(8)
# Model files store codes, so codes never change. Those of regression are the ones >= SQUARED.
SQUARED_HINGE = -1

MAX_LOG_MEAN = 50.0 * math.log(10.0)
"""The logarithm of 1e50, the limit of labels (`core.rows.VALUE_LIMIT`)."""


class Loss(NamedTuple):
    """A loss function of a margin and a label, and of the hyperparameter `parameter`, if named."""

    name: str
    code: int
    task: Literal["classification", "regression"]
    value: Callable[..., float]
    derivative: Callable[..., float]
    parameter: str = ""


@inlined
def sigmoid(a: float) -> float:
    """Return 1 / (1 + exp(-a)). The exponential never overflows."""
    e = math.exp(-abs(a))
    r = 1.0 / (1.0 + e)
    return r if a >= 0.0 else e * r


@inlined
def logistic_value(a: float, y: float) -> float:
    """Return the logistic loss."""
    return max(0.0, -y * a) + math.log1p(math.exp(-abs(a)))


@inlined
def logistic_derivative(a: float, y: float) -> float:
    """Return the derivative of the logistic loss in `a`."""
    return -y * sigmoid(-y * a)


@inlined
def hinge_value(a: float, y: float) -> float:
    """Return the hinge loss."""
    return max(0.0, 1.0 - y * a)


@inlined
def hinge_derivative(a: float, y: float) -> float:
    """Return the derivative of the hinge loss in `a`."""
    return -y if y * a < 1.0 else 0.0


@inlined
def smoothed_hinge_value(a: float, y: float) -> float:
    """Return the smoothed hinge loss."""
    z = 1.0 - y * a
    if z >= 1.0:
        return z - 0.5
    z = max(0.0, z)
    return 0.5 * z * z


@inlined
def smoothed_hinge_derivative(a: float, y: float) -> float:
    """Return the derivative of the smoothed hinge loss in `a`."""
    return -y * min(1.0, max(0.0, 1.0 - y * a))


@inlined
def squared_hinge_value(a: float, y: float) -> float:
    """Return the squared hinge loss."""
    z = max(0.0, 1.0 - y * a)
    return z * z


@inlined
def squared_hinge_derivative(a: float, y: float) -> float:
    """Return the derivative of the squared hinge loss in `a`."""
    return -2.0 * y * max(0.0, 1.0 - y * a)


@inlined
def squared_value(a: float, y: float) -> float:
    """Return the squared loss."""
    return 0.5 * (a - y) * (a - y)


@inlined
def squared_derivative(a: float, y: float) -> float:
    """Return the derivative of the squared loss in `a`."""
    return a - y


@inlined
def absolute_value(a: float, y: float) -> float:
    """Return the absolute loss."""
    return abs(a - y)


@inlined
def absolute_derivative(a: float, y: float) -> float:
    """Return the derivative of the absolute loss in `a`."""
    if a > y:
        return 1.0
    return -1.0 if a < y else 0.0


@inlined
def huber_value(a: float, y: float, delta: float) -> float:
    """Return the Huber loss."""
    size = abs(a - y)
    return 0.5 * size * size if size <= delta else delta * (size - 0.5 * delta)


@inlined
def huber_derivative(a: float, y: float, delta: float) -> float:
    """Return the derivative of the Huber loss in `a`."""
    return max(-delta, min(delta, a - y))


@inlined
def quantile_value(a: float, y: float, tau: float) -> float:
    """Return the quantile loss, whose mean is smallest at the tau-quantile of the labels."""
    return tau * (y - a) if a < y else (1.0 - tau) * (a - y)


@inlined
def quantile_derivative(a: float, y: float, tau: float) -> float:
    """Return the derivative of the quantile loss in `a`."""
    if a > y:
        return 1.0 - tau
    return -tau if a < y else 0.0


@inlined
def poisson_mean(a: float) -> float:
    """Return exp(a), the mean of a count with the margin `a`; at most 1e50."""
    return math.exp(min(a, MAX_LOG_MEAN))


@inlined
def poisson_value(a: float, y: float) -> float:
    """Return the Poisson loss."""
    return poisson_mean(a) * (1.0 + max(0.0, a - MAX_LOG_MEAN)) - y * a


@inlined
def poisson_derivative(a: float, y: float) -> float:
    """Return the derivative of the Poisson loss in `a`."""
    return poisson_mean(a) - y


@inlined
def poisson_minimum(y: float) -> float:
    """Return the smallest Poisson loss of the label `y`, that of the margin log(y)."""
    return y - y * math.log(y) if y > 0.0 else 0.0


LOSSES = (
    Loss("logistic", LOGISTIC, "classification", logistic_value, logistic_derivative),
    Loss("hinge", HINGE, "classification", hinge_value, hinge_derivative),
    Loss(
        "smoothed_hinge",
        SMOOTHED_HINGE,
        "classification",
        smoothed_hinge_value,
        smoothed_hinge_derivative,
    ),
    Loss(
        "squared_hinge",
        SQUARED_HINGE,
        "classification",
        squared_hinge_value,
        squared_hinge_derivative,
    ),
    Loss("squared", SQUARED, "regression", squared_value, squared_derivative),
    Loss("absolute", ABSOLUTE, "regression", absolute_value, absolute_derivative),
    Loss("huber", HUBER, "regression", huber_value, huber_derivative, "huber_delta"),
    Loss("quantile", QUANTILE, "regression", quantile_value, quantile_derivative, "quantile"),
    Loss("poisson", POISSON, "regression", poisson_value, poisson_derivative),
)
CODES = {loss.name: loss.code for loss in LOSSES}


@inlined
def is_regression(loss: int) -> bool:
    """Return whether labels are targets of regression; `loss` is a code."""
    return loss >= SQUARED


@inlined
def value(loss: int, a: float, y: float, parameter: float = 0.0) -> float:
    """Return the loss of the margin `a` for the label `y`; `loss` is a code."""
    if loss == LOGISTIC:
        return logistic_value(a, y)
    if loss == HINGE:
        return hinge_value(a, y)
    if loss == SMOOTHED_HINGE:
        return smoothed_hinge_value(a, y)
    if loss == SQUARED_HINGE:
        return squared_hinge_value(a, y)
    if loss == SQUARED:
        return squared_value(a, y)
    if loss == HUBER:
        return huber_value(a, y, parameter)
    if loss == QUANTILE:
        return quantile_value(a, y, parameter)
    if loss == POISSON:
        return poisson_value(a, y)
    return absolute_value(a, y)


@inlined
def derivative(loss: int, a: float, y: float, parameter: float = 0.0) -> float:
    """Return the derivative of `value` in `a`."""
    if loss == LOGISTIC:
        return logistic_derivative(a, y)
    if loss == HINGE:
        return hinge_derivative(a, y)
    if loss == SMOOTHED_HINGE:
        return smoothed_hinge_derivative(a, y)
    if loss == SQUARED_HINGE:
        return squared_hinge_derivative(a, y)
    if loss == SQUARED:
        return squared_derivative(a, y)
    if loss == HUBER:
        return huber_derivative(a, y, parameter)
    if loss == QUANTILE:
        return quantile_derivative(a, y, parameter)
    if loss == POISSON:
        return poisson_derivative(a, y)
    return absolute_derivative(a, y)


@inlined
def full_stream_margin(loss: int, a: float, parameter: float) -> float:
    """Return the margin of a stream that lost no negatives, given that of the stream learnt."""
    return a + parameter if loss == LOGISTIC else a


@inlined
def output(loss: int, a: float, parameter: float = 0.0) -> float:
    """Return the prediction that is reported for a margin, for the full stream.

    It is the probability of True if the loss is logistic, the mean if it is that of Poisson, else
    the margin.
    """
    if loss == LOGISTIC:
        return sigmoid(full_stream_margin(loss, a, parameter))
    return poisson_mean(a) if loss == POISSON else a


@inlined
def response(loss: int, a: float) -> float:
    """Return what the model predicts on the scale of the labels.

    It is the mean if the loss is that of Poisson, else the sigmoid: the probability of True.
    """
    return poisson_mean(a) if loss == POISSON else sigmoid(a)


@inlined
def target_size(loss: int, y: float, offset: float) -> float:
    """Return the scale of the margins without offset: |y - offset| where they predict y, else 1."""
    return abs(y - offset) if is_regression(loss) and loss != POISSON else 1.0


@inlined
def output_and_derivative(
    loss: int, a: float, y: float, parameter: float = 0.0
) -> tuple[float, float]:
    """Return `output` and `derivative`, the same floats, mostly with one exponential."""
    if loss == LOGISTIC:
        e = math.exp(-abs(a))
        r = 1.0 / (1.0 + e)
        p = r if a >= 0.0 else e * r
        g = -y * (e * r if y * a >= 0.0 else r)
        if parameter != 0.0:
            p = sigmoid(full_stream_margin(loss, a, parameter))
        return p, g
    if loss == POISSON:
        mean = poisson_mean(a)
        return mean, mean - y
    return a, derivative(loss, a, y, parameter)
