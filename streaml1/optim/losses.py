r"""The losses of one margin $a = \langle w, x \rangle + b$ and one label $y$.

| code | loss | value | derivative at the kink |
|---|---|---|---|
| LOGISTIC | $\log(1 + e^{-ya})$ | | none |
| HINGE | $\max(0, 1 - ya)$ | | 0 at $ya = 1$ |
| SMOOTHED_HINGE | 0 if $ya > 1$; $1 - ya - \gamma/2$ if $ya < 1 - \gamma$; else $(1 - ya)^2 / 2\gamma$ | $\gamma = 1$ | none |
| SQUARED | $(a - y)^2 / 2$ | | none |
| ABSOLUTE | $|a - y|$ | | 0 at $a = y$ |

The smoothed hinge is that of the slide "Smoothing the hinge-loss" of Shalev-Shwartz & Zhang (2013).
In the first three $y$ is -1 or +1. A loss is a small code and an if-chain: as fast as a kernel for
each loss, and one compilation serves all.
"""  # noqa: E501

from __future__ import annotations

import math

from streaml1.core.jit import inlined
from streaml1.optim.tasks import LOSSES

__all__ = [
    "CODES",
    "derivative",
    "output",
    "output_and_derivative",
    "sigmoid",
    "value",
    "value_and_derivative",
]

CODES = {loss.name: loss.code for loss in LOSSES}
LOGISTIC, HINGE, SMOOTHED_HINGE, SQUARED, ABSOLUTE = CODES.values()


@inlined
def sigmoid(a: float) -> float:
    """1 / (1 + exp(-a)); the exponential never overflows."""
    e = math.exp(-abs(a))
    r = 1.0 / (1.0 + e)
    return r if a >= 0.0 else e * r


@inlined
def value(loss: int, a: float, y: float) -> float:
    """Loss of the margin `a` for the label `y`."""
    if loss == LOGISTIC:
        return max(0.0, -y * a) + math.log1p(math.exp(-abs(a)))
    if loss == HINGE:
        return max(0.0, 1.0 - y * a)
    if loss == SMOOTHED_HINGE:
        z = 1.0 - y * a
        if z >= 1.0:
            return z - 0.5
        z = max(0.0, z)
        return 0.5 * z * z
    if loss == SQUARED:
        return 0.5 * (a - y) * (a - y)
    return abs(a - y)


@inlined
def derivative(loss: int, a: float, y: float) -> float:
    """Derivative of `value` in `a`."""
    if loss == LOGISTIC:
        return -y * sigmoid(-y * a)
    if loss == HINGE:
        return -y if y * a < 1.0 else 0.0
    if loss == SMOOTHED_HINGE:
        return -y * min(1.0, max(0.0, 1.0 - y * a))
    if loss == SQUARED:
        return a - y
    if a > y:
        return 1.0
    return -1.0 if a < y else 0.0


@inlined
def output(loss: int, a: float) -> float:
    """What a report is made of: the probability of True if logistic, else the margin."""
    return sigmoid(a) if loss == LOGISTIC else a


@inlined
def value_and_derivative(loss: int, a: float, y: float) -> tuple[float, float]:
    """`value` and `derivative`, the same floats, for one exponential instead of two."""
    if loss == LOGISTIC:
        e = math.exp(-abs(a))
        r = 1.0 / (1.0 + e)
        return max(0.0, -y * a) + math.log1p(e), -y * (e * r if y * a >= 0.0 else r)
    return value(loss, a, y), derivative(loss, a, y)


@inlined
def output_and_derivative(loss: int, a: float, y: float) -> tuple[float, float]:
    """`output` and `derivative`, the same floats, for one exponential instead of two."""
    if loss == LOGISTIC:
        e = math.exp(-abs(a))
        r = 1.0 / (1.0 + e)
        p = r if a >= 0.0 else e * r
        return p, -y * (e * r if y * a >= 0.0 else r)
    return a, derivative(loss, a, y)
