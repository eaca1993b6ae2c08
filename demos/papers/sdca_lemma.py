"""Check two formulas of the talk on dual coordinate ascent on synthetic rows, in dense arithmetic.

    python demos/papers/sdca_lemma.py

The main lemma of the slide "Proof Idea" with exact expectations, for the hinge and the smoothed
hinge; and the SGD update of the slide "SDCA vs. SGD - update rule - Example" as printed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LAMBDA = 0.05


def synthetic(n: int, d: int, seed: int) -> tuple[Any, Any]:
    """Draw rows, and labels -1 and 1 that a hyperplane mostly separates."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0.0, 1.0, -1.0)


def primal_objective(X: Any, y: Any, w: Any, gamma: float, l2: float) -> float:
    """Return the mean (smoothed) hinge loss plus the penalty."""
    z = 1.0 - y * (X @ w)
    phi = np.maximum(0.0, z)
    if gamma:
        phi = np.where(z > gamma, z - 0.5 * gamma, phi**2 / (2.0 * gamma))
    return float(phi.mean() + 0.5 * l2 * (w @ w))


def dual_objective(X: Any, y: Any, alpha: Any, gamma: float, l2: float) -> float:
    """Return the dual objective, -phi*(-alpha) = y alpha - gamma/2 alpha^2, y alpha in [0, 1]."""
    w = X.T @ alpha / (l2 * len(y))
    return float(np.mean(y * alpha - 0.5 * gamma * alpha**2) - 0.5 * l2 * (w @ w))


def sdca_steps(X: Any, y: Any, alpha: Any, gamma: float, l2: float) -> Any:
    """Return Delta_i of the slide's SDCA update for all i; gamma > 0 gives its smoothed form."""
    n = len(y)
    w = X.T @ alpha / (l2 * n)
    q = np.sum(X * X, axis=1) / (l2 * n)
    best = (1.0 - y * (X @ w) - gamma * y * alpha) / (q + gamma) + y * alpha
    return y * np.clip(best, 0.0, 1.0) - alpha


def negative_derivatives(X: Any, y: Any, w: Any, gamma: float) -> Any:
    """Return -phi'(w x_i)."""
    z = 1.0 - y * (X @ w)
    return y * (np.clip(z / gamma, 0.0, 1.0) if gamma else (z > 0.0))


def check_lemma() -> tuple[int, int, float]:
    """Return the number of cases of the lemma, the number of failures, and the minimum slack."""
    tried, failed, min_slack = 0, 0, np.inf
    for seed in range(4):
        X, y = synthetic(40, 10, seed)
        n = len(y)
        squares = np.sum(X * X, axis=1)
        for gamma in (0.0, 0.1, 1.0):
            rng, alpha = np.random.default_rng(seed), np.zeros(n)
            for _ in range(60):
                delta = sdca_steps(X, y, alpha, gamma, LAMBDA)
                before = dual_objective(X, y, alpha, gamma, LAMBDA)
                after = [
                    dual_objective(X, y, alpha + delta[i] * np.eye(n)[i], gamma, LAMBDA)
                    for i in range(n)
                ]
                w = X.T @ alpha / (LAMBDA * n)
                gap = primal_objective(X, y, w, gamma, LAMBDA) - before
                u = negative_derivatives(X, y, w, gamma)
                for s in (0.01, 0.1, 0.5, 1.0):
                    part = squares - gamma * (1.0 - s) * LAMBDA * n / s
                    G = float(np.mean(part * (u - alpha) ** 2))
                    right = s / n * gap - (s / n) ** 2 * G / (2.0 * LAMBDA)
                    slack = float(np.mean(after)) - before - right
                    tried += 1
                    failed += slack < -1e-12
                    min_slack = min(min_slack, slack)
                i = rng.integers(n)
                alpha[i] += delta[i]
    return tried, failed, float(min_slack)


def sgd_as_printed(passes: int = 20) -> tuple[float, float]:
    """Return P after SGD as the slide prints it, and with corrected sign and label."""
    X, y = synthetic(200, 10, 0)
    objectives = []
    for sign in (-np.ones(len(y)), y):
        w, t = np.zeros(X.shape[1]), 0
        for _ in range(passes):
            for i in range(len(y)):
                t += 1
                active = y[i] * (X[i] @ w) < 1.0
                w = (1.0 - 1.0 / t) * w + active * sign[i] / (LAMBDA * t) * X[i]
        objectives.append(primal_objective(X, y, w, 0.0, LAMBDA))
    return objectives[0], objectives[1]


def main() -> None:
    tried, failed, min_slack = check_lemma()
    print(f"the main lemma: {tried:,} states and s, {failed} fail, minimum slack {min_slack:.1e}")
    printed, right = sgd_as_printed()
    print(f"P after 20 passes of SGD: as printed {printed:.3g}, with + y_i {right:.3g}; P(0) = 1")


if __name__ == "__main__":
    main()
