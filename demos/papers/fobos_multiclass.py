"""Multiclass problems of Duchi & Singer (2009), Section 6: data, loss and proximal steps.

The paper leaves two scalings open. Here Landsat's products are standardized, because without it no
method makes progress. MNIST's z is sqrt(2/25) times the pixels from 0 to 1, which gives the kernel
exp(-|x - y|^2 / 25) of the l1-ball paper. With z from 0 to 1 the kernel of two digits is 1e-23, so
that each row is similar only to itself, all rows enter the model at once, and no sparsity remains.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streaml1.datasets import MNIST, Landsat

SCALE = math.sqrt(2.0 / 25.0)


class MulticlassData(NamedTuple):
    """Training and test rows, with labels numbered from 0."""

    X: Any
    y: Any
    X_test: Any
    y_test: Any

    @property
    def k(self) -> int:
        """Number of classes."""
        return int(self.y.max()) + 1


def prox(v: Any, c: float, penalty: str) -> Any:
    """Apply the proximal step of c times the norm to each row of v (Section 4, "Mixed norms")."""
    if penalty == "l1":
        return np.sign(v) * np.maximum(np.abs(v) - c, 0.0)
    if penalty == "l1/l2":
        norms = np.sqrt((v * v).sum(axis=1, keepdims=True))
        return v * (np.maximum(norms - c, 0.0) / np.maximum(norms, 1e-300))
    sizes = -np.sort(-np.abs(v), axis=1)
    levels = (np.cumsum(sizes, axis=1) - c) / np.arange(1, v.shape[1] + 1)
    theta = np.maximum(levels.max(axis=1, keepdims=True), 0.0)
    return np.clip(v, -theta, theta)


def scores(X: Any, W: Any) -> Any:
    """Return X W, computed from the columns with non-zero rows of W if copying these pays off."""
    nonzero_rows = np.flatnonzero(W.any(axis=1))
    return (
        np.take(X, nonzero_rows, axis=1) @ W[nonzero_rows]
        if 5 * len(nonzero_rows) < len(W)
        else X @ W
    )


def gradient(X: Any, y: Any, W: Any) -> Any:
    """Return the gradient of the mean multiclass logistic loss."""
    p = scores(X, W)
    p = np.exp(p - p.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1.0
    return (p.T @ X).T / len(y)  # p.T @ X reads X in memory order, unlike X.T @ p


def norm(W: Any, penalty: str) -> float:
    if penalty == "l1":
        return float(np.abs(W).sum())
    rows = np.sqrt((W * W).sum(axis=1)) if penalty == "l1/l2" else np.abs(W).max(axis=1)
    return float(rows.sum())


def objective(X: Any, y: Any, W: Any, penalty: str, strength: float) -> float:
    a = scores(X, W)
    row_max = a.max(axis=1)
    logs = np.log(np.exp(a - row_max[:, None]).sum(axis=1)) + row_max
    return float((logs - a[np.arange(len(y)), y]).mean()) + strength * norm(W, penalty)


def max_strength(data: MulticlassData, penalty: str) -> float:
    """Return the smallest strength at which all weights are zero."""
    G = gradient(data.X, data.y, np.zeros((data.X.shape[1], data.k)))
    if penalty == "l1":
        return float(np.abs(G).max())
    rows = np.sqrt((G * G).sum(axis=1)) if penalty == "l1/l2" else np.abs(G).sum(axis=1)
    return float(rows.max())


def curvature(X: Any) -> float:
    """Estimate an upper bound of the second derivative by power iteration."""
    v = np.ones(X.shape[1])
    for _ in range(50):
        v = X.T @ (X @ v)
        v /= np.linalg.norm(v)
    return 0.55 * float(np.linalg.norm(X @ v)) ** 2 / len(X)


def error(data: MulticlassData, W: Any) -> float:
    return float(np.mean(scores(data.X_test, W).argmax(axis=1) != data.y_test))


def to_dense(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X, float)


def landsat(examples: int, seed: int) -> MulticlassData:
    """Draw `examples` training rows of Landsat; use all test rows."""
    (X, y), (X_test, y_test) = (
        Landsat(part=part, products=True).matrix() for part in ("train", "test")
    )
    X, X_test = to_dense(X), to_dense(X_test)
    chosen = np.random.default_rng(seed).permutation(len(y))[:examples]
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    labels, classes = np.unique(np.concatenate([y, y_test]), return_inverse=True)
    X, X_test = (X[chosen] - mean) / deviation, (X_test - mean) / deviation
    return MulticlassData(X, classes[: len(y)][chosen], X_test, classes[len(y) :])


def gaussian_kernels(a: Any, b: Any) -> Any:
    """Return exp(-|a_i - b_j|^2 / 2) for all pairs of rows."""
    squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2.0 * (a @ b.T)
    return np.exp(-0.5 * np.maximum(squares, 0.0))


def mnist(examples: int, seed: int, scale: float = SCALE) -> MulticlassData:
    """Draw `examples` training rows of MNIST (their kernels are the columns), 2,000 test rows."""
    rng = np.random.default_rng(seed)
    splits = []
    for part, n in (("train", examples), ("test", 2000)):
        X, y = MNIST(part).matrix()
        chosen = rng.permutation(len(y))[:n]
        splits.append((to_dense(X[chosen]) * (scale / 255.0), np.asarray(y)[chosen]))
    (z, y), (t, y_test) = splits
    return MulticlassData(gaussian_kernels(z, z), y, gaussian_kernels(t, z), y_test)


def synthetic(
    seed: int, n: int = 300, d: int = 200, n_informative: int = 20, k: int = 6
) -> MulticlassData:
    """Draw normal rows; a tenth of the columns is informative, the rest is noise."""
    truth = np.random.default_rng(0).normal(size=(n_informative, k)) * 1.5
    rng = np.random.default_rng(seed + 1)
    X = rng.normal(size=(2 * n, d))
    y = (X[:, :n_informative] @ truth + rng.gumbel(size=(2 * n, k))).argmax(axis=1)
    return MulticlassData(X[:n], y[:n], X[n:], y[n:])
