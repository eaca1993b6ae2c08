r"""The objective, its losses and its dual.

$$P(w, b) = \frac 1n \sum_i \phi_i(a_i) + \lambda_1 |w|_1 + \frac{\lambda_2}{2} |w|^2,
\qquad a_i = \langle w, x_i\rangle + b$$

$$D(\theta) = -\frac 1n \sum_i \phi_i^*(\theta_i) - g^*\Big(-\frac 1n \sum_i \theta_i x_i\Big)
\le \min P, \qquad \textstyle\sum_i \theta_i = 0 \text{ with an intercept}$$

$\phi_i^*(\theta) = \sup_a \theta a - \phi_i(a)$ and $g^*$ are the conjugates of the loss and of the
penalty $g$. The optimal dual variables are $\theta_i = \phi_i'(a_i)$ at the optimum. The $\alpha$
of SDCA is $-\theta$. With $s = -y\theta$ the conjugates are

| loss | conjugate | where |
|---|---|---|
| logistic | $s \log s + (1 - s) \log (1 - s)$ | $0 \le s \le 1$ |
| hinge | $-s$ | $0 \le s \le 1$ |
| smoothed hinge | $-s + \gamma s^2 / 2$ | $0 \le s \le 1$ |
| squared | $\theta^2 / 2 + y \theta$ | |
| absolute | $y \theta$ | $-1 \le \theta \le 1$ |

and infinite elsewhere. $\gamma$ is the width of the smoothed hinge.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel, u64
from streaml1.core.types import Floats
from streaml1.optim import losses
from streaml1.optim.losses import ABSOLUTE, HINGE, LOGISTIC, SMOOTHED_HINGE, SQUARED

__all__ = [
    "balance_dual",
    "second_derivatives",
    "conjugate",
    "mean_conjugate",
    "curvature_bound",
    "derivative",
    "derivatives",
    "elastic_net",
    "elastic_net_dual",
    "margins",
    "mean_loss",
    "weighted_row_sum",
    "value",
]

CURVATURE_BOUNDS = {"logistic": 0.25, "smoothed_hinge": 1.0, "squared": 1.0}
"""Upper bound on the second derivative of each smooth loss; of the smoothed hinge at width 1."""


def curvature_bound(loss: str, gamma: float = 1.0) -> float:
    """Return the upper bound on the second derivative of a loss; infinite if it has kinks."""
    bound = CURVATURE_BOUNDS.get(loss, math.inf)
    return bound / gamma if loss == "smoothed_hinge" else bound


# The smoothed hinge of width gamma at z = 1 - y a is gamma times that of width 1 at z / gamma.


@inlined
def _at_width_one(loss: int, a: float, y: float, gamma: float) -> float:
    """Return the margin at which the loss of width 1 is evaluated."""
    return y - (y - a) / gamma if loss == SMOOTHED_HINGE else a


@inlined
def value(loss: int, a: float, y: float, gamma: float) -> float:
    """Return the loss of the margin `a` for the label `y`; `loss` is a value of `CODES`."""
    v = losses.value(loss, _at_width_one(loss, a, y, gamma), y)
    return gamma * v if loss == SMOOTHED_HINGE else v


@inlined
def derivative(loss: int, a: float, y: float, gamma: float) -> float:
    """Return the derivative of `value` with respect to `a`."""
    return losses.derivative(loss, _at_width_one(loss, a, y, gamma), y)


@inlined
def conjugate(loss: int, theta: float, y: float, gamma: float) -> float:
    """Return the conjugate of a loss at `theta`; infinite outside its domain."""
    if loss == SQUARED:
        return 0.5 * theta * theta + y * theta
    if loss == ABSOLUTE:
        return y * theta if abs(theta) <= 1.0 else math.inf
    s = -y * theta
    if not 0.0 <= s <= 1.0:
        return math.inf
    if loss == LOGISTIC:
        entropy = s * math.log(s) if s > 0.0 else 0.0
        return entropy + (1.0 - s) * math.log1p(-s) if s < 1.0 else entropy
    if loss == HINGE:
        return -s
    return -s + 0.5 * gamma * s * s


@kernel
def margins(ids: Any, values: Any, indptr: Any, w: Any, b: float, a: Any) -> None:
    """Write the margins <w, x_i> + b to `a`."""
    for i in range(np.uint64(len(a))):
        total = 0.0
        for k in range(indptr[i], indptr[i + u64(1)]):
            total += w[ids[k]] * values[k]
        a[i] = total + b


@kernel
def weighted_row_sum(ids: Any, values: Any, indptr: Any, theta: Any, scale: float, v: Any) -> None:
    """Write scale * sum_i theta_i x_i to `v`."""
    for j in range(np.uint64(len(v))):
        v[j] = 0.0
    for i in range(np.uint64(len(theta))):
        t = scale * theta[i]
        if t != 0.0:
            for k in range(indptr[i], indptr[i + u64(1)]):
                v[ids[k]] += t * values[k]


@kernel
def mean_loss(loss: int, a: Any, y: Any, gamma: float) -> float:
    """Return the mean loss of the margins `a`."""
    total = 0.0
    for i in range(np.uint64(len(a))):
        total += value(loss, a[i], y[i], gamma)
    return total / len(a)


@kernel
def derivatives(loss: int, a: Any, y: Any, gamma: float, theta: Any) -> None:
    """Write the derivative of each example's loss to `theta`."""
    for i in range(np.uint64(len(a))):
        theta[i] = derivative(loss, a[i], y[i], gamma)


@kernel
def second_derivatives(loss: int, a: Any, y: Any, gamma: float, h: Any) -> None:
    """Write the second derivative of each example's loss to `h`, 0 where it is undefined."""
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
def mean_conjugate(loss: int, theta: Any, y: Any, gamma: float, scale: float) -> float:
    """Return the mean of the conjugates at scale * theta_i; infinite if one is."""
    total = 0.0
    for i in range(np.uint64(len(theta))):
        total += conjugate(loss, scale * theta[i], y[i], gamma)
    return total / len(theta)


def elastic_net(w: Floats, l1: float, l2: float) -> float:
    """Return the penalty l1 |w|_1 + l2/2 |w|^2."""
    return float(l1 * np.abs(w).sum() + 0.5 * l2 * np.vdot(w, w))


def balance_dual(loss: int, theta: Floats) -> Floats:
    """Return dual variables close to `theta` that sum to zero, as an intercept requires.

    The squared loss allows any theta: subtract the mean. The domains of the others are convex and
    contain zero: scale down the positive or the negative part, whichever is larger.
    """
    if loss == SQUARED:
        centred: Floats = theta - theta.mean()
        return centred
    positive, negative = np.maximum(theta, 0.0), np.minimum(theta, 0.0)
    up, down = positive.sum(), -negative.sum()
    if up > down:
        positive *= down / up
    elif down > 0.0:
        negative *= up / down
    else:
        return theta
    return positive + negative


def elastic_net_dual(
    loss: int, theta: Floats, v: Floats, y: Floats, gamma: float, l1: float, l2: float
) -> float:
    """Return the dual objective D(theta) of the elastic net, a lower bound on the optimum.

    Parameters
    ----------
    loss
        A value of `CODES`.
    theta
        Dual variables, shape (n,).
    v
        -1/n sum_i theta_i x_i, shape (d,).
    y
        Labels, shape (n,).
    gamma
        Width of the smoothed hinge.
    l1, l2
        Strengths. With l2 = 0 the dual requires |v_j| <= l1 for all j: theta is scaled down to
        satisfy it.
    """
    if l2 > 0.0:
        beyond = np.maximum(np.abs(v) - l1, 0.0)
        return float(
            -mean_conjugate(loss, theta, y, gamma, 1.0) - np.vdot(beyond, beyond) / (2.0 * l2)
        )
    largest = float(np.abs(v).max(initial=0.0))
    scale = 1.0 if largest <= l1 else l1 / largest
    return float(-mean_conjugate(loss, theta, y, gamma, scale))
