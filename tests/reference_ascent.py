"""Slow reference implementations of the coordinate solvers, in dense numpy.

They share no code with the package. A dual step is found by bisection, from the derivative of the
loss alone. Functions visit the examples in order for `epochs` passes, and return weights of shape
(d,), or (k, d) for k classes.
"""

from __future__ import annotations

import math

import numpy as np

from tests.reference_solvers import Matrix, Rows, Vector, loss, simplex


def dual_step(name: str, a: float, alpha: float, y: float, q: float, gamma: float) -> float:
    """Return the alpha' for which -alpha' is the slope at the margin a + q (alpha' - alpha)."""
    low, high = a - q * (abs(alpha) + 1e9), a + q * (abs(alpha) + 1e9)
    for _ in range(300):
        z = 0.5 * (low + high)
        rising = loss(name, z, y, gamma)[1] + (z - a) / q + alpha > 0.0
        low, high = (low, z) if rising else (z, high)
    return alpha + (0.5 * (low + high) - a) / q


def soft(v: Vector, t: float) -> Vector:
    """Soft-threshold v by t."""
    return np.sign(v) * np.maximum(np.abs(v) - t, 0.0)


def sdca(
    name: str, X: Matrix, y: Vector, l2: float, gamma: float, epochs: int
) -> tuple[Vector, Vector]:
    """Return the weights and the dual variables of SDCA."""
    n, d = X.shape
    alpha, w = np.zeros(n), np.zeros(d)
    for _ in range(epochs):
        for i in range(n):
            q = float(X[i] @ X[i]) / (l2 * n)
            before = alpha[i]
            alpha[i] = dual_step(name, float(w @ X[i]), before, y[i], q, gamma)
            w = w + (alpha[i] - before) * X[i] / (l2 * n)
    return w, alpha


def multiclass(X: Matrix, y: Vector, cost: Matrix, l2: float, epochs: int) -> Matrix:
    """Return the weights of multiclass SDCA with the hinge loss of `cost`, one row per class."""
    n, k = len(X), len(cost)
    p = np.eye(k)[y]
    W = np.zeros((k, X.shape[1]))
    for _ in range(epochs):
        for i in range(n):
            q = float(X[i] @ X[i]) / (l2 * n)
            p[i] = simplex(p[i] + (cost[y[i]] + W @ X[i]) / q, 1.0)
            W = (np.eye(k)[y] - p).T @ X / (l2 * n)
    return W


def multiclass_objective(X: Matrix, y: Vector, cost: Matrix, l2: float, W: Matrix) -> float:
    """Return the mean multiclass hinge loss plus l2/2 |W|^2."""
    v = X @ W.T
    own = v[np.arange(len(X)), y]
    return float((cost[y] + v - own[:, None]).max(axis=1).mean() + 0.5 * l2 * (W**2).sum())


def prox_sdca(
    name: str,
    X: Matrix,
    y: Vector,
    l1: float,
    strength: float,
    norm: str,
    gamma: float,
    epochs: int,
) -> Vector:
    """Return the weights of proximal SDCA; the norm "q" is the dual of the p-norm of the rows."""
    n, d = X.shape
    p = max(2.0, math.log(d)) if norm == "q" else 2.0
    c = 3.0 * p if norm == "q" else 1.0
    alpha = np.zeros(n)

    def weights() -> Vector:
        u = soft(X.T @ alpha / (strength * n), l1 / strength)
        size = (np.abs(u) ** p).sum() ** (1 / p)
        return np.sign(u) * np.abs(u) ** (p - 1) / size ** (p - 2) / c if size else u

    for _ in range(epochs):
        for i in range(n):
            q = (np.abs(X[i]) ** p).sum() ** (2 / p) * (p - 1) / c / (strength * n)
            alpha[i] = dual_step(name, float(weights() @ X[i]), alpha[i], y[i], q, gamma)
    return weights()


def accelerated(
    name: str,
    X: Matrix,
    y: Vector,
    l2: float,
    gamma: float,
    smooth: float,
    batches: list[Rows],
    m: int,
) -> Vector:
    """Return the weights of accelerated SDCA after these batches; the loss is 1/smooth-smooth."""
    n, d = X.shape
    g = smooth * l2 * n / (X**2).sum(axis=1).max()
    theta = 0.25 * min(1.0, math.sqrt(g / m), g, g ** (2 / 3) / m ** (1 / 3))
    alpha, w = np.zeros(n), np.zeros(d)
    for rows in batches:
        u = (1 - theta) * w + theta * (X.T @ alpha / (l2 * n))
        for i in rows:
            slope = loss(name, float(u @ X[i]), y[i], gamma)[1]
            alpha[i] = (1 - theta) * alpha[i] - theta * slope
        w = (1 - theta) * w + theta * (X.T @ alpha / (l2 * n))
    return w


def scd(
    name: str,
    X: Matrix,
    y: Vector,
    l1: float,
    l2: float,
    lo: float,
    hi: float,
    c: float,
    steps: list[int],
) -> Vector:
    """Return the weights after steps at these coordinates; -1 selects the best coordinate."""
    n, d = X.shape
    bound = 0.25 if name == "logistic" else 1.0
    beta = bound * (X**2).mean(axis=0) + l2
    w = np.zeros(d)
    for j in steps:
        slopes = np.array([loss(name, float(a), t)[1] for a, t in zip(X @ w, y, strict=True)])
        g = X.T @ slopes / n + l2 * w + c
        v = np.clip(np.sign(w - g / beta) * np.maximum(np.abs(w - g / beta) - l1 / beta, 0), lo, hi)
        if j < 0:
            after = g * (v - w) + beta / 2 * (v - w) ** 2 + l1 * (np.abs(v) - np.abs(w))
            j = int(np.argmin(after))
        w[j] = v[j]
    return w


def cocoa(
    name: str,
    X: Matrix,
    y: Vector,
    l1: float,
    l2: float,
    gamma: float,
    bounds: list[int],
    rounds: int,
) -> tuple[Vector, Vector]:
    """Return the weights and dual variables of CoCoA+ with one pass per shard and round."""
    n, d = X.shape
    K = len(bounds) - 1
    alpha = np.zeros(n)
    for _ in range(rounds):
        start = X.T @ alpha / n
        new = alpha.copy()
        for lo, hi in zip(bounds[:-1], bounds[1:], strict=True):
            seen = start.copy()
            for i in range(lo, hi):
                w = soft(seen, l1) / l2
                q = K * float(X[i] @ X[i]) / (l2 * n)
                new[i] = dual_step(name, float(w @ X[i]), alpha[i], y[i], q, gamma)
                seen = seen + K * (new[i] - alpha[i]) * X[i] / n
        alpha = new
    return soft(X.T @ alpha / n, l1) / l2, alpha
