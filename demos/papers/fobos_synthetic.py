"""The synthetic data of Duchi & Singer (2009), Section 6: Figures 1 and 2."""

from __future__ import annotations

from typing import Any

import numpy as np

M, N = 1000, 400
"""Numbers of rows and columns."""


def synthetic_data(seed: int) -> tuple[Any, Any]:
    """Draw M x N normal rows and labels -1 and 1, a tenth of them flipped; half of w is zero."""
    random = np.random.default_rng(seed)
    w = random.normal(size=N) * random.permutation(np.arange(N) % 2)
    X = random.normal(size=(M, N))
    y = np.sign(X @ w)
    y[random.permutation(M)[: M // 10]] *= -1.0
    return X, y
