r"""The losses of one margin $a = \langle w, x \rangle + b$ and one label $y$.

| loss | value | derivative at a kink |
|---|---|---|
| logistic | $\log(1 + e^{-ya})$ | |
| hinge | $\max(0, 1 - ya)$ | 0 at $ya = 1$ |
| smoothed_hinge | 0 if $ya > 1$; $1 - ya - \gamma/2$ if $ya < 1 - \gamma$; else $(1 - ya)^2 / 2\gamma$; $\gamma = 1$ | |
| squared_hinge | $\max(0, 1 - ya)^2$ | |
| squared | $(a - y)^2 / 2$ | |
| absolute | $|a - y|$ | 0 at $a = y$ |

The smoothed hinge is that of Shalev-Shwartz & Zhang (2013), slide "Smoothing the hinge-loss". Labels of
classification are -1 and +1.

`LOSSES` is the one table of losses. To add one: write its value and its derivative, add a code and an entry
of `LOSSES`, and a branch to `value` and `derivative`. `CODES` and the lists of names in `tasks.py` follow.
Kernels take the code of a loss as an integer and branch on it. That is as fast as a kernel for each loss, and
takes one compilation for all.

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
    "LOGISTIC",
    "LOSSES",
    "SMOOTHED_HINGE",
    "SQUARED",
    "SQUARED_HINGE",
    "Loss",
    "derivative",
    "is_regression",
    "output",
    "output_and_derivative",
    "sigmoid",
    "value",
    "value_and_derivative",
]

LOGISTIC, HINGE, SMOOTHED_HINGE, SQUARED, ABSOLUTE = range(5)
# Model files store codes, so codes never change. Those of regression are the ones >= SQUARED.
SQUARED_HINGE = -1


class Loss(NamedTuple):
    """A loss function of a margin and a label."""

    name: str
    code: int
    task: Literal["classification", "regression"]
    value: Callable[[float, float], float]
    derivative: Callable[[float, float], float]


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
)
CODES = {loss.name: loss.code for loss in LOSSES}


@inlined
def is_regression(loss: int) -> bool:
    """Return whether labels are targets of regression; `loss` is a code."""
    return loss >= SQUARED


@inlined
def value(loss: int, a: float, y: float) -> float:
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
    return absolute_value(a, y)


@inlined
def derivative(loss: int, a: float, y: float) -> float:
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
    return absolute_derivative(a, y)


@inlined
def output(loss: int, a: float) -> float:
    """Return what is reported of a margin: the probability of True if logistic, else the margin."""
    return sigmoid(a) if loss == LOGISTIC else a


@inlined
def value_and_derivative(loss: int, a: float, y: float) -> tuple[float, float]:
    """Return `value` and `derivative`, the same floats, with one exponential instead of two."""
    if loss == LOGISTIC:
        e = math.exp(-abs(a))
        r = 1.0 / (1.0 + e)
        return max(0.0, -y * a) + math.log1p(e), -y * (e * r if y * a >= 0.0 else r)
    return value(loss, a, y), derivative(loss, a, y)


@inlined
def output_and_derivative(loss: int, a: float, y: float) -> tuple[float, float]:
    """Return `output` and `derivative`, the same floats, with one exponential instead of two."""
    if loss == LOGISTIC:
        e = math.exp(-abs(a))
        r = 1.0 / (1.0 + e)
        p = r if a >= 0.0 else e * r
        return p, -y * (e * r if y * a >= 0.0 else r)
    return a, derivative(loss, a, y)
