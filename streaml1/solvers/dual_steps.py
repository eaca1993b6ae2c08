r"""The optimal step of one dual coordinate, for each loss.

$$\arg\max_{\alpha'} \; -\phi^*(-\alpha') - a\,(\alpha' - \alpha) - \frac q2 (\alpha' - \alpha)^2$$

Here a is the margin and q its sensitivity: a grows by q times the change of $\alpha$, with
$q = |x_i|^2/(\lambda n)$ in SDCA. With $b = y\alpha$ the solutions are

| loss | $b'$, or $\alpha'$ |
|---|---|
| hinge | $b + (1 - ya)/q$, clipped to [0, 1] |
| smoothed hinge | $b + (1 - ya - \gamma b)/(q + \gamma)$, clipped to [0, 1] |
| squared | $\alpha + (y - a - \alpha)/(q + 1)$ |
| absolute | $\alpha + (y - a)/q$, clipped to [-1, 1] |
| logistic | $\sigma(u)$ with $u + q\,\sigma(u) = qb - ya$, by Halley steps between bounds |

The step of the hinge is on the slide "SDCA vs. SGD - update rule - Example" of Shalev-Shwartz &
Zhang (2013).
"""

from __future__ import annotations

import math

from streaml1.core.jit import inlined, u64
from streaml1.optim.losses import ABSOLUTE, LOGISTIC, SMOOTHED_HINGE, SQUARED, sigmoid
from streaml1.solvers.objective import conjugate, value

__all__ = ["dual_step", "example_gap", "is_at_bound", "label_logit", "optimal_alpha"]

MAX_STEPS = u64(60)
# Accuracy of the logistic step: it leaves less than a tenth of the possible rise of the dual.
ACCURACY = 0.2
ROUNDING = 1e-15


@inlined
def label_logit(loss: int, alpha: float, y: float) -> float:
    """Return the logit of y alpha for the logistic loss, infinite at its bounds; else 0."""
    if loss != LOGISTIC:
        return 0.0
    b = y * alpha
    return math.log(b / (1.0 - b)) if b > 0.0 else -math.inf


@inlined
def _logistic_step(ya: float, b: float, logit: float, q: float) -> float:
    """Return a b' close to the one whose logit u solves F(u) = u + q sigmoid(u) + ya - q b = 0.

    As a function of b' the dual is (q + 4)-strongly concave and has the derivative -F. If |F| <=
    ACCURACY (q + 4) |b' - b| with ACCURACY < 1/2, the dual has risen, and it can rise further by
    at most F^2 / 2(q + 4).

    Invariant of the loop: the root lies between `low` and `high`. A Halley step that leaves the
    interval is replaced by bisection.
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
    tiny = ROUNDING * (1.0 + abs(c) + q)
    for _ in range(MAX_STEPS):
        if abs(F) <= tiny:
            break
        if F > 0.0:
            high = u
        else:
            low = u
        curvature = q * p * (1.0 - p)
        slope = 1.0 + curvature
        u -= 2.0 * F * slope / (2.0 * slope * slope - F * curvature * (1.0 - 2.0 * p))  # Halley
        if not low <= u <= high:
            u = 0.5 * (low + high)
        p = sigmoid(u)
        F = u + q * p + c
        if abs(F) <= ACCURACY * (q + 4.0) * abs(p - b):
            break
    return p


@inlined
def optimal_alpha(
    loss: int, a: float, alpha: float, logit: float, y: float, q: float, gamma: float
) -> float:
    """Return the optimal alpha' of an example; `logit` comes from `label_logit`."""
    if loss == SQUARED:
        return alpha + (y - a - alpha) / (1.0 + q)
    if loss == ABSOLUTE:
        # With q = 0 the step is infinite and ends at the bound; 0 / 0 must not move.
        step = (y - a) / q if y != a else 0.0
        return min(1.0, max(-1.0, alpha + step))
    b = y * alpha
    if loss == LOGISTIC:
        return y * _logistic_step(y * a, b, logit, q)
    slope = 1.0 - y * a
    if loss == SMOOTHED_HINGE:
        slope -= gamma * b
        q += gamma
    step = slope / q if slope != 0.0 else 0.0
    return y * min(1.0, max(0.0, b + step))


@inlined
def example_gap(loss: int, a: float, alpha: float, logit: float, y: float, gamma: float) -> float:
    """Return an example's share of the gap, phi(a) + phi*(-alpha) + alpha a >= 0.

    For the logistic loss it is a second-order approximation without an exponential, accurate only
    near the optimum: its sum decides when to compute the exact gap.
    """
    b = y * alpha
    if loss == LOGISTIC and 0.0 < b < 1.0:
        F = logit + y * a
        return 0.5 * F * F * b * (1.0 - b)
    return value(loss, a, y, gamma) + conjugate(loss, -alpha, y, gamma) + alpha * a


@inlined
def is_at_bound(
    loss: int, a: float, alpha: float, y: float, gamma: float, threshold: float
) -> bool:
    """Return whether alpha is at a bound, and pushed against it by more than `threshold`."""
    if loss in (LOGISTIC, SQUARED):
        return False
    if loss == ABSOLUTE:
        return abs(alpha) == 1.0 and (y - a) * alpha > threshold
    b = y * alpha
    slope = 1.0 - y * a
    if loss == SMOOTHED_HINGE:
        slope -= gamma * b
    return (b == 0.0 and slope < -threshold) or (b == 1.0 and slope > threshold)


@inlined
def dual_step(
    loss: int, a: float, alpha: float, y: float, q: float, gamma: float, threshold: float
) -> tuple[bool, float, float]:
    """Compute the step of an example.

    Returns
    -------
    tuple
        Whether alpha is at a bound, so that the example can be dropped; the optimal alpha'; the
        example's share of the gap at alpha.
    """
    if is_at_bound(loss, a, alpha, y, gamma, threshold):
        return True, alpha, 0.0
    logit = label_logit(loss, alpha, y)
    gap = example_gap(loss, a, alpha, logit, y, gamma)
    return False, optimal_alpha(loss, a, alpha, logit, y, q, gamma), gap
