"""What the papers prove, on little data, and what is printed wrongly in them."""

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


def little(n: int = 40, d: int = 6, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, d))
    return X, np.where(X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=n) > 0.0, 1.0, -1.0)


def of(model: Any, d: int) -> Any:
    w = np.zeros(d)
    for j, v in model.weights.items():
        w[j] = v
    return w


# Shalev-Shwartz & Tewari (2009)


def test_halves_are_subtracted_the_other_way_round() -> None:
    """With [x, -x] the weights are v_j - v_(d+j), where the paper has v_(d+j) - v_j."""
    X, y = little()
    both = scd(np.hstack([X, -X]), y, l1=0.02, lower=0.0, tol=1e-10)
    v, u = both.weights[:6], both.weights[6:]
    best = scd(X, y, l1=0.02, tol=1e-10)
    assert logistic(X, y, v - u, 0.02) == pytest.approx(best.objective, abs=1e-9)
    assert logistic(X, y, u - v, 0.02) > best.objective + 0.2


def algorithm1(X: Any, y: Any, l1: float, beta: float, T: int, rng: Any) -> list[float]:
    """The objective before each of T steps, and after them."""
    d = X.shape[1]
    w, both, told = np.zeros(2 * d), np.hstack([X, -X]), []
    for _ in range(T):
        told.append(logistic(X, y, w[:d] - w[d:], l1))
        j = rng.integers(2 * d)
        g = np.mean(-y / (1.0 + np.exp(y * (both @ w))) * both[:, j]) + l1
        w[j] += max(-w[j], -g / beta)
    return [*told, logistic(X, y, w[:d] - w[d:], l1)]


def test_theorem1_bound() -> None:
    """It holds as printed, though its d should be the 2 d that a step draws from."""
    X, y = little()
    best = scd(X, y, l1=0.02, tol=1e-10)
    rng = np.random.default_rng(1)
    runs = np.array([algorithm1(X, y, 0.02, 0.25, 60, rng) for _ in range(40)])
    assert (np.diff(runs) <= 1e-15).all()  # it never rises, which the proof stands on
    excess = runs.mean(axis=0) - best.objective
    for T in (1, 5, 20, 60):
        bound = 6 * (0.25 * best.weights @ best.weights + 2.0 * math.log(2.0)) / (2 * T)
        assert excess[T] <= bound
    # The proof's first line: a step gains 1/(2 d) of <w - w*, gradient>, where 1/d is printed.
    gains = np.array([_gain(X, y, 0.02, 0.25, best.weights, seed) for seed in range(20)])
    assert (gains[:, 0] >= gains[:, 1] / 12 - 1e-12).all()
    assert (gains[:, 0] < gains[:, 1] / 6).any()


def _gain(X: Any, y: Any, l1: float, beta: float, best: Any, seed: int) -> tuple[float, float]:
    """The exact mean fall of the double potential in a step from some w, and <w - w*, gradient>."""
    rng = np.random.default_rng(seed)
    both, d = np.hstack([X, -X]), X.shape[1]
    star = np.concatenate([np.maximum(best, 0.0), np.maximum(-best, 0.0)])
    w = star + rng.uniform(0.0, 0.5, 2 * d)

    def potential(v: Any) -> float:
        return 0.5 * beta * float(np.sum((v - star) ** 2)) + _sum(both, y, v, l1)

    g = both.T @ (-y / (1.0 + np.exp(y * (both @ w)))) / len(y) + l1
    falls = []
    for j in range(2 * d):
        after = w.copy()
        after[j] += max(-w[j], -g[j] / beta)
        falls.append(potential(w) - potential(after))
    return float(np.mean(falls)), float(g @ (w - star))


def _sum(both: Any, y: Any, v: Any, l1: float) -> float:
    return float(np.logaddexp(0.0, -y * (both @ v)).mean() + l1 * v.sum())


def test_theorem2_bound() -> None:
    """The mean of P(w_t) comes as near as the proof says, with rho = 1 of Eq. (13)."""
    X, y = little(d=20)
    l1, T, d = 0.02, 2000, 20
    best = scd(X, y, l1=l1, tol=1e-10)
    p, norm = 2.0 * math.log(d), float(np.abs(best.weights).sum())
    eta = norm / math.sqrt((p - 1.0) * math.e * T)
    model = streaml1.SMIDASClassifier(l1=l1, n_features=d, lr=eta, **CONSTANT)
    told = []
    for i in np.random.default_rng(2).integers(0, len(y), T):
        told.append(logistic(X, y, of(model, d), l1))
        model.learn_many(X[i : i + 1], y[i : i + 1] > 0.0)
    bound = norm * math.sqrt((p - 1.0) * math.e / T)
    assert 0.0 <= np.mean(told) - best.objective <= bound


def test_rho_of_the_losses() -> None:
    """Eq. (13) and (14) as the text has them; of the squared loss 2 is enough, where it says 4."""
    a = np.linspace(-30.0, 30.0, 20001)
    slope, value = 1.0 / (1.0 + np.exp(a)), np.logaddexp(0.0, -a)
    assert slope.max() <= 1.0  # logistic, (13) with 1
    assert 0.4 < (slope**2 / value).max() <= 0.5  # and (14) with 1/2
    assert np.allclose(a**2, 2.0 * (0.5 * a**2))  # squared, (14) with 2


def test_a_zero_stays_where_the_slope_is_small() -> None:
    """Section 3.1: where |x| <= 1 and |L'| <= lambda no weight is born."""
    model = streaml1.SMIDASClassifier(l1=0.05, n_features=6, lr=0.5, p=4.0, **CONSTANT)
    for _ in range(200):  # features 0 to 2 alone, until the margin is wide
        model.learn_many(np.array([[1.0, -1.0, 1.0, 0.0, 0.0, 0.0]]), [True])
    row = np.array([[1.0, -1.0, 1.0, 1.0, -1.0, 1.0]])
    model.l1 = 0.3
    assert 1.0 - model.progressive_many(row, [True])[0] < 0.3  # the slope; and it is learnt
    assert set(model.weights) == {0, 1, 2}
    assert model.progressive_many(row, [False])[0] > 0.7  # the slope for this label
    assert set(model.weights) == set(range(6))


def test_the_norm_is_not_kept_by_the_row_alone() -> None:
    """Section 3.1 updates rho_1 on the row; the truncation moves the other theta_j too."""
    rng = np.random.default_rng(3)
    p, eta, l1 = 4.0, 0.1, 0.3
    theta = rng.normal(size=10)
    total = float(np.sum(np.abs(theta) ** p))
    row, v = np.arange(3), rng.normal(size=3)
    before = np.abs(theta[row]) ** p
    moved = theta.copy()
    moved[row] -= eta * v
    moved = np.copysign(np.maximum(np.abs(moved) - eta * l1, 0.0), moved)
    as_printed = total + float(np.sum(np.abs(moved[row]) ** p - before))
    assert as_printed > 1.02 * float(np.sum(np.abs(moved) ** p))


# Langford, Li & Zhang (2009)


@pytest.mark.parametrize("theta", [math.inf, 0.3])
def test_regret_of_truncated_gradient(theta: float) -> None:
    """The theorem of sparse online regret, for the squared loss: |L'|^2 <= A L + B."""
    rng = np.random.default_rng(4)
    n, d, eta, g = 400, 5, 0.05, 0.02
    X = rng.uniform(-1.0, 1.0, (n, d))
    y = X @ np.array([1.0, -0.5, 0.0, 0.0, 0.0]) + 0.1 * rng.normal(size=n)
    A = 2.0 * float((X**2).sum(axis=1).max())  # of (a - y)^2 / 2, with B = 0
    model = streaml1.TruncatedGradientRegressor(
        gravity=g, threshold=theta, lr=eta, loss="squared", **CONSTANT
    )
    told, pulls, within = [], [], []
    for i in range(n):
        told.append(0.5 * float(X[i] @ of(model, d) - y[i]) ** 2)
        model.learn_many(X[i : i + 1], y[i : i + 1])
        w = of(model, d)
        within.append(np.abs(w) <= theta)
        pulls.append(float(np.abs(w[within[-1]]).sum()))
    left = (1.0 - 0.5 * A * eta) * np.mean(told) + g * np.mean(pulls)
    for _ in range(50):
        rival = rng.normal(size=d) * rng.uniform(0.0, 2.0)
        losses = 0.5 * (X @ rival - y) ** 2
        pulled = [float(np.abs(rival[kept]).sum()) for kept in within]
        right = rival @ rival / (2 * eta * n) + np.mean(losses) + g * np.mean(pulled)
        assert left <= right
