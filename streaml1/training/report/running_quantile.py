"""A quantile of a stream without storing it, for the baseline of the quantile loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.types import Floats

__all__ = ["RunningQuantile"]

MARKERS = 5


class RunningQuantile:
    """An estimate of a quantile by five markers: the P2 algorithm.

    Markers are the smallest and the largest number, and estimates of the quantiles tau / 2, tau and
    (1 + tau) / 2. Each number moves the three inner markers by at most one rank, along a parabola
    through three markers. The first five numbers are kept, and their quantile is exact.

    Parameters
    ----------
    tau
        The quantile, above 0 and below 1.

    Attributes
    ----------
    state : ndarray of float64
        Number of numbers, five markers, and their ranks from 0.

    References
    ----------
    [^1]: Jain, R. and Chlamtac, I., 1985. The P2 algorithm for dynamic calculation of quantiles and
          histograms without storing observations. Communications of the ACM 28(10).

    Examples
    --------
    >>> import numpy as np
    >>> median = RunningQuantile(0.5)
    >>> median.add(np.array([3.0, 1.0, 2.0, 9.0]), np.ones(4))
    array([0., 3., 1., 2.])
    """

    def __init__(self, tau: float) -> None:
        self.tau = tau
        self.state = np.zeros(1 + 2 * MARKERS)

    def add(self, y: Floats, w: Floats) -> Floats:
        """Add numbers; return the estimate before each of them, 0 before the first.

        Parameters
        ----------
        y
            The numbers, shape (n,).
        w
            Their weights. A number without weight is not counted; otherwise all count alike.
        """
        before = np.empty(len(y))
        _add(self.state, self.tau, y, w, before)
        return before


@kernel
def _add(state: Any, tau: float, y: Any, w: Any, before: Any) -> None:
    for i in range(np.uint64(len(y))):
        before[i] = _estimate(state, tau)
        if w[i] > 0.0:
            if state[0] < MARKERS:
                _insert(state, y[i])
            else:
                _update(state, tau, y[i])
            state[0] += 1.0


@inlined
def _estimate(state: Any, tau: float) -> float:
    n = state[0]
    if n == 0.0:
        return 0.0
    if n > MARKERS:
        return float(state[1 + MARKERS // 2])
    # The smallest number that at least the share tau does not exceed.
    rank = 0
    while rank + 1.0 < tau * n:
        rank += 1
    return float(state[1 + rank])


@inlined
def _insert(state: Any, y: float) -> None:
    """Keep one of the first numbers, in order."""
    k = int(state[0])
    state[1 + MARKERS + k] = k
    while k > 0 and state[k] > y:
        state[1 + k] = state[k]
        k -= 1
    state[1 + k] = y


@inlined
def _update(state: Any, tau: float, y: float) -> None:
    """Count a number, and move the inner markers towards their desired ranks."""
    q, rank = state[1 : 1 + MARKERS], state[1 + MARKERS :]
    q[0] = min(q[0], y)
    q[4] = max(q[4], y)
    for k in range(1, MARKERS):
        if k == 4 or y < q[k]:
            rank[k] += 1.0
    last = state[0]  # rank of the largest number, this one included
    for k in range(1, MARKERS - 1):
        desired = last * (0.5 * tau * k if k < 3 else 0.5 * (1.0 + tau))
        above, below = rank[k + 1] - rank[k], rank[k] - rank[k - 1]
        if (desired - rank[k] >= 1.0 and above > 1.0) or (rank[k] - desired >= 1.0 and below > 1.0):
            d = 1.0 if desired > rank[k] else -1.0
            up, down = (q[k + 1] - q[k]) / above, (q[k] - q[k - 1]) / below
            parabola = q[k] + d * ((below + d) * up + (above - d) * down) / (above + below)
            if q[k - 1] < parabola < q[k + 1]:
                q[k] = parabola
            else:
                q[k] += d * (up if d > 0.0 else down)
            rank[k] += d
