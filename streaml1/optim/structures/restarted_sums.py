"""The sum of gradients of FTRL-Proximal that gives a weight at another learning rate."""

from __future__ import annotations

import numpy as np

from streaml1.core.types import Floats

__all__ = ["restarted_sums"]


def restarted_sums(z: Floats, w: Floats, l1: float, denominator: float, mark: float) -> Floats:
    """Return the sums that have the weights `w` with another denominator.

    Parameters
    ----------
    z
        The sums, whose weight is -(z - sgn(z) l1) / d where |z| > l1. Each has a d of its own.
    w
        Their weights.
    l1
        The threshold.
    denominator
        The common d of the result.
    mark
        What is stored in place of a sum that rounds to 0.

    Examples
    --------
    >>> restarted_sums(np.array([3.0, 0.5]), np.array([-1.0, 0.0]), 1.0, 4.0, -0.0)
    array([5. , 0.5])
    """
    sums = np.where(w == 0.0, z, np.copysign(l1, z) - w * denominator)
    return np.where((sums == 0.0) & (z != 0.0), mark, sums)
