"""Theorems of the papers checked on small data, and their misprints."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import streaml1
from streaml1.solvers import scd

CONSTANT: dict[str, Any] = {"schedule": "constant", "intercept_lr": 0.0}


def logistic(X: Any, y: Any, w: Any, l1: float) -> float:
    return float(np.logaddexp(0.0, -y * (X @ w)).mean() + l1 * np.abs(w).sum())


def small_data(n: int = 40, d: int = 6, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d))
    return X, np.where(X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=n) > 0.0, 1.0, -1.0)


def dense_weights(model: Any, d: int) -> Any:
    w = np.zeros(d)
    for j, v in model.weights.items():
        w[j] = v
    return w


# Shalev-Shwartz & Tewari (2009)


def test_sign_of_the_doubled_weights_is_misprinted() -> None:
    """With [x, -x] the weights are v_j - v_(d+j), where the paper has v_(d+j) - v_j."""
    X, y = small_data()
    doubled = scd(np.hstack([X, -X]), y, l1=0.02, lower=0.0, tol=1e-10)
    v, u = doubled.weights[:6], doubled.weights[6:]
    best = scd(X, y, l1=0.02, tol=1e-10)
    assert logistic(X, y, v - u, 0.02) == pytest.approx(best.objective, abs=1e-9)
    assert logistic(X, y, u - v, 0.02) > best.objective + 0.2


def algorithm1(X: Any, y: Any, l1: float, beta: float, T: int, rng: Any) -> list[float]:
    """Return the objective before each of T steps and after the last."""
    d = X.shape[1]
    w, doubled, objectives = np.zeros(2 * d), np.hstack([X, -X]), []
    for _ in range(T):
        objectives.append(logistic(X, y, w[:d] - w[d:], l1))
        j = rng.integers(2 * d)
        g = np.mean(-y / (1.0 + np.exp(y * (doubled @ w))) * doubled[:, j]) + l1
        w[j] += max(-w[j], -g / beta)
    return [*objectives, logistic(X, y, w[:d] - w[d:], l1)]


def test_theorem1_bound() -> None:
    """The bound holds as printed, although its d should be 2 d, the number of coordinates."""
    X, y = small_data()
    best = scd(X, y, l1=0.02, tol=1e-10)
    rng = np.random.default_rng(1)
    runs = np.array([algorithm1(X, y, 0.02, 0.25, 60, rng) for _ in range(40)])
    assert (np.diff(runs) <= 1e-15).all()  # the proof relies on a decreasing objective
    excess = runs.mean(axis=0) - best.objective
    for T in (1, 5, 20, 60):
        bound = 6 * (0.25 * best.weights @ best.weights + 2.0 * math.log(2.0)) / (2 * T)
        assert excess[T] <= bound
    # Misprint in the proof: a step gains 1/(2 d), not 1/d, of <w - w*, gradient>.
    gains = np.array([expected_gain(X, y, 0.02, 0.25, best.weights, seed) for seed in range(20)])
    assert (gains[:, 0] >= gains[:, 1] / 12 - 1e-12).all()
    assert (gains[:, 0] < gains[:, 1] / 6).any()


def expected_gain(
    X: Any, y: Any, l1: float, beta: float, best: Any, seed: int
) -> tuple[float, float]:
    """Return the expected decrease of the double potential in a step, and <w - w*, gradient>."""
    rng = np.random.default_rng(seed)
    doubled, d = np.hstack([X, -X]), X.shape[1]
    star = np.concatenate([np.maximum(best, 0.0), np.maximum(-best, 0.0)])
    w = star + rng.uniform(0.0, 0.5, 2 * d)

    def potential(v: Any) -> float:
        return 0.5 * beta * float(np.sum((v - star) ** 2)) + double_objective(doubled, y, v, l1)

    g = doubled.T @ (-y / (1.0 + np.exp(y * (doubled @ w)))) / len(y) + l1
    decreases = []
    for j in range(2 * d):
        after = w.copy()
        after[j] += max(-w[j], -g[j] / beta)
        decreases.append(potential(w) - potential(after))
    return float(np.mean(decreases)), float(g @ (w - star))


def double_objective(doubled: Any, y: Any, v: Any, l1: float) -> float:
    return float(np.logaddexp(0.0, -y * (doubled @ v)).mean() + l1 * v.sum())


def test_theorem2_bound() -> None:
    """The mean of P(w_t) satisfies the bound with rho = 1 of Eq. (13)."""
    X, y = small_data(d=20)
    l1, T, d = 0.02, 2000, 20
    best = scd(X, y, l1=l1, tol=1e-10)
    p, norm = 2.0 * math.log(d), float(np.abs(best.weights).sum())
    eta = norm / math.sqrt((p - 1.0) * math.e * T)
    model = streaml1.SMIDASClassifier(l1=l1, n_features=d, lr=eta, **CONSTANT)
    objectives = []
    for i in np.random.default_rng(2).integers(0, len(y), T):
        objectives.append(logistic(X, y, dense_weights(model, d), l1))
        model.learn_many(X[i : i + 1], y[i : i + 1] > 0.0)
    bound = norm * math.sqrt((p - 1.0) * math.e / T)
    assert 0.0 <= np.mean(objectives) - best.objective <= bound


def test_rho_of_the_losses() -> None:
    """Check Eq. (13) and (14); for the squared loss rho = 2 suffices instead of the printed 4."""
    a = np.linspace(-30.0, 30.0, 20001)
    slope, value = 1.0 / (1.0 + np.exp(a)), np.logaddexp(0.0, -a)
    assert slope.max() <= 1.0  # logistic, (13) with 1
    assert 0.4 < (slope**2 / value).max() <= 0.5  # and (14) with 1/2
    assert np.allclose(a**2, 2.0 * (0.5 * a**2))  # squared, (14) with 2


def test_zero_weights_stay_zero_for_small_slopes() -> None:
    """Section 3.1: with |x| <= 1 and |L'| <= lambda, zero weights stay zero."""
    model = streaml1.SMIDASClassifier(l1=0.05, n_features=6, lr=0.5, p=4.0, **CONSTANT)
    for _ in range(200):  # only features 0 to 2, until the margin is large
        model.learn_many(np.array([[1.0, -1.0, 1.0, 0.0, 0.0, 0.0]]), [True])
    row = np.array([[1.0, -1.0, 1.0, 1.0, -1.0, 1.0]])
    model.l1 = 0.3
    assert 1.0 - model.progressive_many(row, [True])[0] < 0.3  # the slope; the row is learnt too
    assert set(model.weights) == {0, 1, 2}
    assert model.progressive_many(row, [False])[0] > 0.7  # the slope for this label
    assert set(model.weights) == set(range(6))


def test_norm_update_of_section_3_1_is_incomplete() -> None:
    """Section 3.1 updates rho_1 only on the row, but truncation changes all other theta_j."""
    rng = np.random.default_rng(3)
    p, eta, l1 = 4.0, 0.1, 0.3
    theta = rng.normal(size=10)
    total = float(np.sum(np.abs(theta) ** p))
    row, v = np.arange(3), rng.normal(size=3)
    powers_before = np.abs(theta[row]) ** p
    updated = theta.copy()
    updated[row] -= eta * v
    updated = np.copysign(np.maximum(np.abs(updated) - eta * l1, 0.0), updated)
    as_printed = total + float(np.sum(np.abs(updated[row]) ** p - powers_before))
    assert as_printed > 1.02 * float(np.sum(np.abs(updated) ** p))


# Langford, Li & Zhang (2009)


@pytest.mark.parametrize("theta", [math.inf, 0.3])
def test_regret_of_truncated_gradient(theta: float) -> None:
    """Sparse online regret theorem for the squared loss, for which |L'|^2 <= A L + B."""
    rng = np.random.default_rng(4)
    n, d, eta, g = 400, 5, 0.05, 0.02
    X = rng.uniform(-1.0, 1.0, (n, d))
    y = X @ np.array([1.0, -0.5, 0.0, 0.0, 0.0]) + 0.1 * rng.normal(size=n)
    A = 2.0 * float((X**2).sum(axis=1).max())  # of (a - y)^2 / 2, with B = 0
    model = streaml1.TruncatedGradientRegressor(
        gravity=g, threshold=theta, lr=eta, loss="squared", **CONSTANT
    )
    losses, penalties, masks = [], [], []
    for i in range(n):
        losses.append(0.5 * float(X[i] @ dense_weights(model, d) - y[i]) ** 2)
        model.learn_many(X[i : i + 1], y[i : i + 1])
        w = dense_weights(model, d)
        masks.append(np.abs(w) <= theta)
        penalties.append(float(np.abs(w[masks[-1]]).sum()))
    lhs = (1.0 - 0.5 * A * eta) * np.mean(losses) + g * np.mean(penalties)
    for _ in range(50):
        competitor = rng.normal(size=d) * rng.uniform(0.0, 2.0)
        competitor_losses = 0.5 * (X @ competitor - y) ** 2
        competitor_penalties = [float(np.abs(competitor[mask]).sum()) for mask in masks]
        rhs = (
            competitor @ competitor / (2 * eta * n)
            + np.mean(competitor_losses)
            + g * np.mean(competitor_penalties)
        )
        assert lhs <= rhs
