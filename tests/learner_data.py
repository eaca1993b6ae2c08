"""Data for the tests of the linear learners, and comparisons with their dense twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from river.optim import losses as river_losses
from river.optim import schedulers

from streaml1.optim.losses import CODES
from tests import reference

BINARY = tuple(name for name in reference.LOSSES if name not in reference.REGRESSION)
LOSS_PARAMETERS: dict[str, dict[str, Any]] = {
    "huber": {"huber_delta": 0.4},
    "quantile": {"quantile": 0.8},
    "poisson": {"clip_gradient": 1.0},
}
D = 60
"""Number of features."""
LATE = 50
"""Features from this id on first appear after 70 % of the rows."""

SCHEDULES: dict[str, dict[str, Any]] = {
    "invsqrt": {"lr": 0.5},
    "constant": {"lr": 0.1, "schedule": "constant"},
    "inverse": {"lr": 2.0, "schedule": "inverse"},
    "InverseScaling": {"lr": schedulers.InverseScaling(0.3, 0.3)},
    "Optimal": {"lr": schedulers.Optimal(river_losses.Log(), 0.05)},
}


def rows_of(random: Any, n: int, d: int = D, k: int = 6) -> Any:
    """Return a dense matrix of sparse rows; feature j occurs with a frequency of about k / j."""
    chance = k * (1.0 / np.arange(1, d + 1)) / np.sum(1.0 / np.arange(1, d + 1))
    X = random.normal(size=(n, d)) * 0.35
    X[random.random((n, d)) > chance] = 0.0
    return X


def labels_of(random: Any, X: Any, loss: str) -> tuple[Any, Any]:
    """Return labels of a sparse linear model: as models accept them, and as -1/+1 or numbers."""
    truth = random.normal(size=X.shape[1]) * (np.arange(X.shape[1]) % 3 == 0)
    noisy = X @ truth + random.normal(size=len(X)) * 0.3
    if loss in BINARY:
        return noisy > 0.0, np.where(noisy > 0.0, 1.0, -1.0)
    if loss == "poisson":
        noisy = np.floor(np.exp(np.clip(noisy, -3.0, 3.0)))
    return noisy, noisy


def dense(model: Any, d: int = D) -> Any:
    """Return the weights of a model with int names as a vector of shape (d,)."""
    w = np.zeros(d)
    for j, w_j in model.weights.items():
        w[j] = w_j
    return w


def assert_equal_twins(model: Any, twin: Any) -> None:
    """Assert equal weights to 1e-9, equal support above that, and equal intercepts."""
    w = dense(model, len(twin.w))
    np.testing.assert_allclose(w, twin.w, rtol=0.0, atol=1e-9)
    large = np.maximum(np.abs(w), np.abs(twin.w)) > 1e-9
    np.testing.assert_array_equal(np.sign(w[large]), np.sign(twin.w[large]))
    assert model.intercept == pytest.approx(twin.b, abs=1e-9)


def as_dict(x: Any) -> dict[int, float]:
    """Return the non-zeros of a dense row."""
    return {int(j): float(x[j]) for j in np.flatnonzero(x)}


def n_rows(loss: str) -> int:
    """Return the number of rows of a comparison with the twin.

    They are fewer for some losses, because a method uses only the value and the derivative. Long
    runs are tests of their own.
    """
    return 1_000 if loss in LOSS_PARAMETERS else 2_000


def is_run(loss: str, k: int) -> bool:
    """Return whether to test a loss with setting k: all settings for logistic, a third for others.

    A method uses only the value and the derivative of a loss, so that not all combinations need a
    test.
    """
    return loss == "logistic" or (k + k // 3 + list(CODES).index(loss)) % 3 == 0
