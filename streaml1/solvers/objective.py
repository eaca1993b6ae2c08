r"""The objective, its parts and its dual: what the solvers share.

$$P(w, b) = \frac 1n \sum_i \phi_i(a_i) + \lambda_1 |w|_1 + \frac{\lambda_2}{2} |w|^2,
\qquad a_i = \langle w, x_i\rangle + b$$

$$D(\theta) = -\frac 1n \sum_i \phi_i^*(\theta_i) - g^*\Big(-\frac 1n \sum_i \theta_i x_i\Big)
\le \min P, \qquad \textstyle\sum_i \theta_i = 0 \text{ where there is an intercept}$$

$\phi_i^*(\theta) = \sup_a \theta a - \phi_i(a)$ and $g^*$ are the conjugates of the loss and of the
penalty. The best $\theta$ is $\theta_i = \phi_i'(a_i)$ at the optimum; SDCA's $\alpha$ is
$-\theta$. With $s = -y\theta$ the conjugates are

| loss | conjugate | where |
|---|---|---|
| logistic | $s \log s + (1 - s) \log (1 - s)$ | $0 \le s \le 1$ |
| hinge | $-s$ | $0 \le s \le 1$ |
| smoothed hinge | $-s + \gamma s^2 / 2$ | $0 \le s \le 1$ |
| squared | $\theta^2 / 2 + y \theta$ | |
| absolute | $y \theta$ | $-1 \le \theta \le 1$ |

and infinite elsewhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.optim import losses
from streaml1.optim.losses import ABSOLUTE, HINGE, LOGISTIC, SMOOTHED_HINGE, SQUARED

__all__ = [
    "balanced",
    "bends",
    "conjugate",
    "conjugates",
    "curvature",
    "derivative",
    "derivatives",
    "elastic_net",
    "elastic_net_dual",
    "margins",
    "mean_loss",
    "pulled_back",
    "value",
]

CURVATURE = {"logistic": 0.25, "smoothed_hinge": 1.0, "squared": 1.0}
"""Most of the second derivative of a loss; the smoothed hinge's is divided by its width."""


def curvature(loss: str, gamma: float = 1.0) -> float:
    """Most of the second derivative of a loss of that name; infinite where it has kinks."""
    bound = CURVATURE.get(loss, math.inf)
    return bound / gamma if loss == "smoothed_hinge" else bound


# The smoothed hinge of width gamma is gamma times that of width 1 at z / gamma, z = 1 - y a.


@inlined
def _narrowed(loss: int, a: float, y: float, gamma: float) -> float:
    return y - (y - a) / gamma if loss == SMOOTHED_HINGE else a


@inlined
def value(loss: int, a: float, y: float, gamma: float) -> float:
    """Loss of the margin `a` for the label `y`, by the loss's code."""
    v = losses.value(loss, _narrowed(loss, a, y, gamma), y)
    return gamma * v if loss == SMOOTHED_HINGE else v


@inlined
def derivative(loss: int, a: float, y: float, gamma: float) -> float:
    """Derivative of `value` in `a`."""
    return losses.derivative(loss, _narrowed(loss, a, y, gamma), y)


@inlined
def conjugate(loss: int, theta: float, y: float, gamma: float) -> float:
    """The conjugate of a loss at the slope `theta`; infinite where no margin has that slope."""
    if loss == SQUARED:
        return 0.5 * theta * theta + y * theta
    if loss == ABSOLUTE:
        return y * theta if abs(theta) <= 1.0 else math.inf
    s = -y * theta
    if not 0.0 <= s <= 1.0:
        return math.inf
    if loss == LOGISTIC:
        down = s * math.log(s) if s > 0.0 else 0.0
        return down + (1.0 - s) * math.log1p(-s) if s < 1.0 else down
    if loss == HINGE:
        return -s
    return -s + 0.5 * gamma * s * s


@kernel
def margins(ids: Any, values: Any, indptr: Any, w: Any, b: float, a: Any) -> None:
    """Put <w, x_i> + b into a."""
    for i in range(np.uint64(len(a))):
        total = 0.0
        for k in range(indptr[i], indptr[i + np.uint64(1)]):
            total += w[ids[k]] * values[k]
        a[i] = total + b


@kernel
def pulled_back(ids: Any, values: Any, indptr: Any, theta: Any, scale: float, v: Any) -> None:
    """Put scale * sum_i theta_i x_i into v."""
    for j in range(np.uint64(len(v))):
        v[j] = 0.0
    for i in range(np.uint64(len(theta))):
        t = scale * theta[i]
        if t != 0.0:
            for k in range(indptr[i], indptr[i + np.uint64(1)]):
                v[ids[k]] += t * values[k]


@kernel
def mean_loss(loss: int, a: Any, y: Any, gamma: float) -> float:
    """The mean loss of the margins `a`."""
    total = 0.0
    for i in range(np.uint64(len(a))):
        total += value(loss, a[i], y[i], gamma)
    return total / len(a)


@kernel
def derivatives(loss: int, a: Any, y: Any, gamma: float, theta: Any) -> None:
    """Put the derivative of each example's loss into theta."""
    for i in range(np.uint64(len(a))):
        theta[i] = derivative(loss, a[i], y[i], gamma)


@kernel
def bends(loss: int, a: Any, y: Any, gamma: float, h: Any) -> None:
    """Put the second derivative of each example's loss into h, 0 where it has none."""
    for i in range(np.uint64(len(a))):
        if loss == LOGISTIC:
            e = math.exp(-abs(a[i]))
            h[i] = e / ((1.0 + e) * (1.0 + e))
        elif loss == SQUARED:
            h[i] = 1.0
        else:
            inside = loss == SMOOTHED_HINGE and 1.0 - gamma < y[i] * a[i] < 1.0
            h[i] = 1.0 / gamma if inside else 0.0


@kernel
def conjugates(loss: int, theta: Any, y: Any, gamma: float, scale: float) -> float:
    """The mean of the conjugates at scale * theta_i; infinite where one is."""
    total = 0.0
    for i in range(np.uint64(len(theta))):
        total += conjugate(loss, scale * theta[i], y[i], gamma)
    return total / len(theta)


def elastic_net(w: Any, l1: float, l2: float) -> float:
    """The penalty l1 |w|_1 + l2/2 |w|^2."""
    return float(l1 * np.abs(w).sum() + 0.5 * l2 * np.vdot(w, w))


def balanced(loss: int, theta: Any) -> Any:
    """`theta` moved so that its sum is zero, which the dual of an intercept wants.

    Of the squared loss any theta is allowed, and the mean is taken off; of the others each may
    move towards zero, so the side that weighs more is scaled down.
    """
    if loss == SQUARED:
        return theta - theta.mean()
    up, down = np.maximum(theta, 0.0), np.minimum(theta, 0.0)
    more, less = up.sum(), -down.sum()
    if more > less:
        return up * (less / more) + down
    return up + down * (more / less) if less > 0.0 else theta


def elastic_net_dual(
    loss: int, theta: Any, v: Any, y: Any, gamma: float, l1: float, l2: float
) -> float:
    """D of `theta`, with v = -1/n sum_i theta_i x_i: a lower bound of the optimum.

    Where l2 is zero, theta is scaled down until |v_j| <= l1 for all j, which the dual wants.
    """
    if l2 > 0.0:
        beyond = np.maximum(np.abs(v) - l1, 0.0)
        return float(-conjugates(loss, theta, y, gamma, 1.0) - np.vdot(beyond, beyond) / (2.0 * l2))
    most = float(np.abs(v).max(initial=0.0))
    scale = 1.0 if most <= l1 else l1 / most
    return float(-conjugates(loss, theta, y, gamma, scale))
