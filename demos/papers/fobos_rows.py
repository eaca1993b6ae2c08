"""What the demos of FOBOS's mixed norms share: the data as the paper has it, the loss, the steps.

What the paper does not tell: Landsat's products are standardised here, since without that no method
comes far; MNIST's z is sqrt(2/25) times the pixels from 0 to 1, that is the kernel
exp(-|x - y|^2 / 25) of the l1-ball paper. With z from 0 to 1 the kernel of two digits is 1e-23:
each row knows itself alone, all come into the model at once, and no sparsity is left to look at.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from streaml1.datasets import MNIST, Landsat

SCALE = math.sqrt(2.0 / 25.0)


class Set(NamedTuple):
    """Training and test rows, labels as numbers from 0."""

    X: Any
    y: Any
    tests: Any
    wanted: Any

    @property
    def k(self) -> int:
        """How many classes."""
        return int(self.y.max()) + 1


def prox(v: Any, c: float, penalty: str) -> Any:
    """Section 4, "Mixed norms": on each row of v the proximal step of c times its norm."""
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
    """X W; by the columns alone whose rows of W are not zero, where a copy of these pays."""
    on = np.flatnonzero(W.any(axis=1))
    return np.take(X, on, axis=1) @ W[on] if 5 * len(on) < len(W) else X @ W


def gradient(X: Any, y: Any, W: Any) -> Any:
    """Of the mean multiclass logistic loss."""
    p = scores(X, W)
    p = np.exp(p - p.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(y)), y] -= 1.0
    return (p.T @ X).T / len(y)  # reads X in its own order, where X.T @ p does not


def norm(W: Any, penalty: str) -> float:
    if penalty == "l1":
        return float(np.abs(W).sum())
    rows = np.sqrt((W * W).sum(axis=1)) if penalty == "l1/l2" else np.abs(W).max(axis=1)
    return float(rows.sum())


def objective(X: Any, y: Any, W: Any, penalty: str, strength: float) -> float:
    a = scores(X, W)
    most = a.max(axis=1)
    logs = np.log(np.exp(a - most[:, None]).sum(axis=1)) + most
    return float((logs - a[np.arange(len(y)), y]).mean()) + strength * norm(W, penalty)


def empty(data: Set, penalty: str) -> float:
    """The least strength that leaves no weight."""
    G = gradient(data.X, data.y, np.zeros((data.X.shape[1], data.k)))
    if penalty == "l1":
        return float(np.abs(G).max())
    rows = np.sqrt((G * G).sum(axis=1)) if penalty == "l1/l2" else np.abs(G).sum(axis=1)
    return float(rows.max())


def curvature(X: Any) -> float:
    """An upper bound of the second derivative, by power iteration."""
    v = np.ones(X.shape[1])
    for _ in range(50):
        v = X.T @ (X @ v)
        v /= np.linalg.norm(v)
    return 0.55 * float(np.linalg.norm(X @ v)) ** 2 / len(X)


def error(data: Set, W: Any) -> float:
    return float(np.mean(scores(data.tests, W).argmax(axis=1) != data.wanted))


def as_array(X: Any) -> Any:
    return X.toarray() if hasattr(X, "toarray") else np.asarray(X, float)


def landsat(examples: int, seed: int) -> Set:
    """So many training rows, drawn; all test rows."""
    (X, y), (T, wanted) = (Landsat(part=part, products=True).matrix() for part in ("train", "test"))
    X, T = as_array(X), as_array(T)
    some = np.random.default_rng(seed).permutation(len(y))[:examples]
    mean, deviation = X.mean(axis=0), X.std(axis=0)
    kinds, places = np.unique(np.concatenate([y, wanted]), return_inverse=True)
    X, T = (X[some] - mean) / deviation, (T - mean) / deviation
    return Set(X, places[: len(y)][some], T, places[len(y) :])


def kernels(a: Any, b: Any) -> Any:
    """exp(-|a_i - b_j|^2 / 2) of all rows."""
    squares = (a * a).sum(axis=1)[:, None] + (b * b).sum(axis=1) - 2.0 * (a @ b.T)
    return np.exp(-0.5 * np.maximum(squares, 0.0))


def mnist(examples: int, seed: int, scale: float = SCALE) -> Set:
    """So many training rows, drawn, whose kernels are the columns; 2,000 test rows."""
    random = np.random.default_rng(seed)
    parts = []
    for part, n in (("train", examples), ("test", 2000)):
        X, y = MNIST(part).matrix()
        some = random.permutation(len(y))[:n]
        parts.append((as_array(X[some]) * (scale / 255.0), np.asarray(y)[some]))
    (z, y), (t, wanted) = parts
    return Set(kernels(z, z), y, kernels(t, z), wanted)


def made(seed: int, n: int = 300, d: int = 200, telling: int = 20, k: int = 6) -> Set:
    """Rows drawn; a tenth of the columns tells something of all classes, the others nothing."""
    truth = np.random.default_rng(0).normal(size=(telling, k)) * 1.5
    random = np.random.default_rng(seed + 1)
    X = random.normal(size=(2 * n, d))
    y = (X[:, :telling] @ truth + random.gumbel(size=(2 * n, k))).argmax(axis=1)
    return Set(X[:n], y[:n], X[n:], y[n:])
