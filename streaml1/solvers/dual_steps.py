r"""The best step of one dual coordinate, for each loss.

$$\arg\max_{\alpha'} \; -\phi^*(-\alpha') - a\,(\alpha' - \alpha) - \frac q2 (\alpha' - \alpha)^2$$

where a is the margin and q says how much the margin answers, $|x_i|^2/(\lambda n)$ in SDCA. With
$b = y\alpha$ the answers are

| loss | $b'$, or $\alpha'$ |
|---|---|
| hinge | $b + (1 - ya)/q$, clipped to [0, 1] |
| smoothed hinge | $b + (1 - ya - \gamma b)/(q + \gamma)$, clipped to [0, 1] |
| squared | $\alpha + (y - a - \alpha)/(q + 1)$ |
| absolute | $\alpha + (y - a)/q$, clipped to [-1, 1] |
| logistic | $\sigma(u)$ with $u + q\,\sigma(u) = qb - ya$, by Newton steps kept between known bounds |

The hinge's is that of the slide "SDCA vs. SGD: update rule, example" of Shalev-Shwartz & Zhang (2013).
"""  # noqa: E501

from __future__ import annotations

import math

import numpy as np

from streaml1.core.jit import inlined
from streaml1.optim.losses import ABSOLUTE, LOGISTIC, SMOOTHED_HINGE, SQUARED, sigmoid
from streaml1.solvers.objective import conjugate, value

__all__ = ["best", "gap_of", "logit_of", "rests", "step"]

STEPS = np.uint64(60)
# How exactly the logistic equation is solved: less than a tenth of the dual's rise is left.
PART = 0.2
LEAST = 1e-15


@inlined
def logit_of(loss: int, alpha: float, y: float) -> float:
    """The logit of y alpha for the logistic loss, infinite at the bounds; 0 for others."""
    if loss != LOGISTIC:
        return 0.0
    b = y * alpha
    return math.log(b / (1.0 - b)) if b > 0.0 else -math.inf


@inlined
def _logistic(ya: float, b: float, logit: float, q: float) -> float:
    """A b' near the one whose logit u solves F(u) = u + q sigmoid(u) + ya - q b = 0.

    As a function of b' the dual is concave by at least q + 4 and has the slope -F: where |F| is at
    most PART (q + 4) |b' - b|, PART below 1/2, it has risen, and at most F^2 / 2(q + 4) is left.
    """
    c = ya - q * b
    low, high = -c - q, -c
    p, u = b, 0.5 * (low + high)
    if 0.0 < b < 1.0:
        u = logit
        if not low <= u <= high:
            u = min(max(u, low), high)
            p = sigmoid(u)
    else:
        p = sigmoid(u)
    F = u + q * p + c
    least = LEAST * (1.0 + abs(c) + q)
    for _ in range(STEPS):
        if abs(F) <= least:
            break
        if F > 0.0:
            high = u
        else:
            low = u
        bend = q * p * (1.0 - p)
        rise = 1.0 + bend
        u -= 2.0 * F * rise / (2.0 * rise * rise - F * bend * (1.0 - 2.0 * p))  # Halley
        if not low <= u <= high:
            u = 0.5 * (low + high)
        p = sigmoid(u)
        F = u + q * p + c
        if abs(F) <= PART * (q + 4.0) * abs(p - b):
            break
    return p


@inlined
def best(
    loss: int, a: float, alpha: float, logit: float, y: float, q: float, gamma: float
) -> float:
    """The best alpha' of a coordinate, `logit` that of `logit_of`; `alpha` where it is that."""
    if loss == SQUARED:
        return alpha + (y - a - alpha) / (1.0 + q)
    if loss == ABSOLUTE:
        # With q = 0, an infinite step goes to the bound; none, 0 / 0, stays.
        step = (y - a) / q if y != a else 0.0
        return min(1.0, max(-1.0, alpha + step))
    b = y * alpha
    if loss == LOGISTIC:
        return y * _logistic(y * a, b, logit, q)
    slope = 1.0 - y * a
    if loss == SMOOTHED_HINGE:
        slope -= gamma * b
        q += gamma
    step = slope / q if slope != 0.0 else 0.0
    return y * min(1.0, max(0.0, b + step))


@inlined
def gap_of(loss: int, a: float, alpha: float, logit: float, y: float, gamma: float) -> float:
    """phi(a) + phi*(-alpha) + alpha a: an example's part of the gap, never below 0.

    Within the bounds of the logistic loss without an exponential, and right near the optimum alone:
    it tells when to look.
    """
    b = y * alpha
    if loss == LOGISTIC and 0.0 < b < 1.0:
        F = logit + y * a
        return 0.5 * F * F * b * (1.0 - b)
    return value(loss, a, y, gamma) + conjugate(loss, -alpha, y, gamma) + alpha * a


@inlined
def rests(loss: int, a: float, alpha: float, y: float, gamma: float, far: float) -> bool:
    """Whether alpha is at a bound, and the margin pushes it there by more than `far`."""
    if loss in (LOGISTIC, SQUARED):
        return False
    if loss == ABSOLUTE:
        return abs(alpha) == 1.0 and (y - a) * alpha > far
    b = y * alpha
    slope = 1.0 - y * a
    if loss == SMOOTHED_HINGE:
        slope -= gamma * b
    return (b == 0.0 and slope < -far) or (b == 1.0 and slope > far)


@inlined
def step(
    loss: int, a: float, alpha: float, y: float, q: float, gamma: float, far: float
) -> tuple[bool, float, float]:
    """Whether alpha rests; if not, the best alpha', and the example's part of the gap at alpha."""
    if rests(loss, a, alpha, y, gamma, far):
        return True, alpha, 0.0
    logit = logit_of(loss, alpha, y)
    part = gap_of(loss, a, alpha, logit, y, gamma)
    return False, best(loss, a, alpha, logit, y, q, gamma), part
