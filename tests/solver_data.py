"""Data for the tests of the solvers: synthetic, and real if `STREAML1_DATA` names their folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaml1.datasets import MAGIC04, RCV1, Arcene


def toy(loss: str, n: int = 60, d: int = 8, seed: int = 0) -> tuple[Any, Any]:
    """Return sparse rows of shape (n, d) and noisy labels of a linear model."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * (random.random((n, d)) < 0.6)
    a = X @ random.normal(size=d) + 0.5 * random.normal(size=n)
    if loss == "softmax":
        return X, np.argmax(X[:, :3] + random.normal(size=(n, 3)), axis=1)
    return X, a if loss in ("squared", "absolute") else np.where(a > 0.0, 1.0, -1.0)


def degenerate(case: str, loss: str) -> tuple[Any, Any]:
    """Return one of the data sets listed in `DEGENERATE`."""
    X, y = toy(loss)
    if case == "separable":
        X = X + 3.0 * np.outer(np.sign(y), np.ones(X.shape[1]))
    if case == "constant":
        X[:, 0] = 1.0
    if case == "duplicate column":
        X[:, 1] = X[:, 0]
    if case == "all zero":
        X = np.zeros_like(X)
    if case == "no columns":
        X = np.zeros((len(X), 0))
    if case == "one row":
        X, y = X[:1], y[:1]
    if case == "one label":
        y = np.ones_like(y)
    if case == "large":
        X = X * 1e6
    return X, y


DEGENERATE = [
    *("separable", "constant", "duplicate column", "all zero", "no columns", "one row"),
    *("one label", "large"),
]


def real(name: str) -> tuple[Any, Any]:
    """Return a real data set; skip the test if the folder is missing."""
    folder = os.environ.get("STREAML1_DATA")
    if folder is None or not Path(folder).is_dir():
        pytest.skip("STREAML1_DATA names no folder with real data sets")
    if name == "magic04":
        X, y = MAGIC04().matrix()
        X = X.toarray()
        return (X - X.mean(axis=0)) / X.std(axis=0), y
    if name == "arcene":
        X, y = Arcene().matrix()
        return X.toarray() / 1000.0, np.where(y, 1.0, -1.0)
    X, y = RCV1().matrix()
    return X[:4000], y[:4000]
