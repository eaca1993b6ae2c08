"""Data for the solvers' tests: made here, or real where `STREAML1_DATA` names a folder of it."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix


def toy(loss: str, n: int = 60, d: int = 8, seed: int = 0) -> tuple[Any, Any]:
    """Rows with zeros among them, and noisy labels of a linear model."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * (random.random((n, d)) < 0.6)
    a = X @ random.normal(size=d) + 0.5 * random.normal(size=n)
    if loss == "softmax":
        return X, np.argmax(X[:, :3] + random.normal(size=(n, 3)), axis=1)
    return X, a if loss in ("squared", "absolute") else np.where(a > 0.0, 1.0, -1.0)


def poor(case: str, loss: str) -> tuple[Any, Any]:
    """Data that something is the matter with."""
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


POOR = [
    *("separable", "constant", "duplicate column", "all zero", "no columns", "one row"),
    *("one label", "large"),
]


def real(name: str) -> tuple[Any, Any]:
    """The data set of that name, all of it; skips the test where the folder is missing."""
    folder = os.environ.get("STREAML1_DATA")
    if folder is None or not Path(folder).is_dir():
        pytest.skip("STREAML1_DATA names no folder with real data sets")
    return {"magic04": _magic04, "arcene": _arcene, "rcv1": _rcv1}[name](Path(folder) / name)


def _magic04(folder: Path) -> tuple[Any, Any]:
    lines = (folder / "magic04.data").read_text().split()
    cells = [line.split(",") for line in lines]
    X = np.array([row[:-1] for row in cells], float)
    return (X - X.mean(axis=0)) / X.std(axis=0), np.array([row[-1] == "g" for row in cells])


def _arcene(folder: Path) -> tuple[Any, Any]:
    with gzip.open(folder / "arcene_train.data.gz", "rt") as file:
        X = np.array([line.split() for line in file if line.strip()], float)
    return X / 1000.0, np.loadtxt(folder / "arcene_train.labels")


def _rcv1(folder: Path) -> tuple[Any, Any]:
    with np.load(folder / "rcv1_27613.npz") as kept:
        X = csr_matrix((kept["data"], kept["indices"], kept["indptr"]), kept["shape"])
        of = csr_matrix(
            (np.ones(len(kept["yindices"])), kept["yindices"], kept["yindptr"]), kept["yshape"]
        )
        topic = list(kept["topics"]).index("CCAT")
    return X[:4000], of[:4000, [topic]].toarray().ravel() > 0.0
