r"""The regression of `lane_mixing.py` of several models that have learnt parts of a stream.

A regression knows its examples by two sums, the precision $P = C^{-1}$ and $P\beta$. What a part has added to those of
the base, which it has forgotten all but the share $\gamma_k$ of, adds to what the base keeps over the examples of all parts:

$$P = \gamma P_0 + \sum_k (P_k - \gamma_k P_0), \qquad
P\beta = \gamma P_0\beta_0 + \sum_k (P_k\beta_k - \gamma_k P_0\beta_0)$$

A mean in proportion to the examples would be as sure as one part, after the examples of all.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from streaml1.core.types import Floats
from streaml1.optim.structures.lane_mixing import MAX_TRACE, MAX_WINDOW, MIN_WINDOW, WINDOW

__all__ = ["Regression", "joined_regression"]

MIN_VARIANCE = 1e-12


class Regression(NamedTuple):
    """Coefficients, their covariance, and the number of examples learnt."""

    coefficients: Floats
    covariance: Floats
    n: float


def joined_regression(base: Regression, parts: Sequence[Regression]) -> Regression:
    """Return the regression that has learnt what all parts have added to the base.

    Examples
    --------
    >>> import numpy as np
    >>> from streaml1.optim.structures.joined_mixtures import Regression, joined_regression
    >>> base = Regression(np.zeros(1), np.eye(1) / 2, 1e9)
    >>> parts = [Regression(np.ones(1) * b, np.eye(1) / 4, 1e9 + 1) for b in (3.0, 5.0)]
    >>> b, C, n = joined_regression(base, parts)
    >>> round(float(b[0]), 2), round(float(1 / C[0, 0]), 2)
    (5.33, 6.0)
    """
    added = [part for part in parts if part.n > base.n]
    if len(added) < 2:
        return added[0] if added else base
    n = base.n + sum(part.n - base.n for part in added)
    P0 = _precision(base.covariance)
    kept = _share_kept(base.n, n) - sum(_share_kept(base.n, part.n) for part in added)
    P, v = kept * P0, kept * P0 @ base.coefficients
    for part in added:
        Pk = _precision(part.covariance)
        P, v = P + Pk, v + Pk @ part.coefficients
    eigenvalues, Q = np.linalg.eigh((P + P.T) / 2.0)
    # A part forgets nothing while its C is large, so the difference may not be positive definite.
    variances = np.minimum(1.0 / np.maximum(eigenvalues, 1.0 / MAX_TRACE), MAX_TRACE)
    covariance = (Q * variances) @ Q.T
    return Regression(covariance @ v, covariance, n)


def _precision(C: Floats) -> Floats:
    eigenvalues, Q = np.linalg.eigh((C + C.T) / 2.0)
    P: Floats = (Q / np.maximum(eigenvalues, MIN_VARIANCE)) @ Q.T
    return P


def _share_kept(start: float, end: float) -> float:
    """Return which share of the precision after `start` examples is kept after `end` examples.

    It is the product of 1 - 1 / window over these examples. A window that grows with the number of
    examples makes it a ratio of gamma functions.
    """
    fixed = (MAX_WINDOW - MIN_WINDOW) / WINDOW  # examples from which the window stays the same
    split = min(max(start, fixed), end)
    before, after = (
        math.lgamma(shift / WINDOW + split + 1.0) - math.lgamma(shift / WINDOW + start + 1.0)
        for shift in (MIN_WINDOW - 1.0, MIN_WINDOW)
    )
    return math.exp(before - after + (end - split) * math.log1p(-1.0 / MAX_WINDOW))
