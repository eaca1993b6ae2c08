"""Draw lazy updates: one weight, stored and current; the time of a step by the number of features.

    python demos/lazy_updates.py

Left, the weight of a feature that occurs in a few of 300 examples, with the penalty at every step
(dense) and as it is stored (lazy). Right, the time of a step of 20 non-zeros: of this package, and
of a loop of numpy over all weights. Writes out/lazy_updates.png.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from scipy.sparse import csr_matrix

import streaml1

matplotlib.use("agg")
import matplotlib.pyplot as plt

L1, L2, LR = 2e-3, 2e-2, 0.3
STEPS, OCCURRENCES = 300, (0, 20, 35, 120, 135, 290)
NONZEROS = 20
ROUNDS = 5
SIZES = (1_000, 10_000, 100_000, 1_000_000)


def dense_step(w: Any, x: Any, label: bool, eta: float, l1: float, l2: float) -> Any:
    """Return all weights after a gradient step and the proximal step of the elastic net."""
    g = 1.0 / (1.0 + np.exp(-(x @ w))) - label
    v = w - eta * g * x
    return np.sign(v) * np.maximum(np.abs(v) - eta * l1, 0.0) / (1.0 + eta * l2)


def one_weight() -> tuple[list[float], list[float]]:
    """Return a weight after each step, and the value that is stored for it."""
    w = np.zeros(1)
    current: list[float] = []
    stored: list[float] = []
    for t in range(STEPS):
        occurs = t in OCCURRENCES
        w = dense_step(w, np.array([2.0 * occurs]), True, LR, L1, L2)
        current.append(float(w[0]))
        stored.append(current[-1] if occurs else stored[-1])
    return current, stored


def rows(n: int, d: int) -> tuple[Any, Any]:
    """Return n random rows of 20 of d features, and labels."""
    rng = np.random.default_rng(0)
    ids = rng.integers(0, d, n * NONZEROS)
    indptr = NONZEROS * np.arange(n + 1)
    return csr_matrix((np.ones(ids.size), ids, indptr), (n, d)), rng.random(n) < 0.5


def lazy_seconds(d: int, n: int) -> float:
    """Return the time of a step of this package, with d features."""
    X, y = rows(n, d)
    model = streaml1.ElasticNetClassifier(lr=LR, l1=1e-6, l2=1e-6, schedule="constant")
    seconds = []
    for _ in range(ROUNDS):  # the first one allocates the weights
        started = time.perf_counter()
        model.learn_many(X, y)
        seconds.append(time.perf_counter() - started)
    return min(seconds) / n


def dense_seconds(d: int, n: int) -> float:
    """Return the time of a step of the loop over all weights."""
    X, y = rows(n, d)
    dense, w = X.toarray(), np.full(d, 0.1)
    started = time.perf_counter()
    for x, label in zip(dense, y, strict=True):
        w = dense_step(w, x, label, LR, 1e-6, 1e-6)
    return (time.perf_counter() - started) / n


def draw(lazy: list[float], dense: list[float], sizes: tuple[int, ...]) -> Path:
    """Draw both panels; return the path."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 3.6), layout="constrained")
    current, stored = one_weight()
    left.plot(current, "C0", label="current: dense, or the closed form")
    left.plot(stored, "0.6", ls="--", drawstyle="steps-post", label="stored: lazy")
    left.plot(
        OCCURRENCES, [current[t] for t in OCCURRENCES], "C1o", ms=4, label="the feature occurs"
    )
    left.set(xlabel="step", ylabel="weight", ylim=(0.0, None))
    right.loglog(sizes, [1e6 * s for s in dense], "C3o-", label="all weights, numpy")
    right.loglog(sizes, [1e6 * s for s in lazy], "C0o-", label="lazy, streaml1")
    right.set(xlabel="features", ylabel="microseconds per step of 20 non-zeros")
    for axes in (left, right):
        axes.legend(frameon=False, fontsize="small")
        axes.spines[["top", "right"]].set_visible(False)
    path = Path("out") / "lazy_updates.png"
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=90)
    plt.close(figure)
    return path


def main(sizes: tuple[int, ...] = SIZES, n: int = 20_000) -> None:
    """Time the steps, print them and draw the picture."""
    lazy = [lazy_seconds(d, n) for d in sizes]
    dense = [dense_seconds(d, min(n, max(2, 1_000_000 // d))) for d in sizes]
    print(f"{'features':>10}{'lazy, us':>12}{'all weights, us':>18}")
    for d, of_lazy, of_dense in zip(sizes, lazy, dense, strict=True):
        print(f"{d:10,}{1e6 * of_lazy:12.2f}{1e6 * of_dense:18,.1f}")
    print(draw(lazy, dense, sizes))


if __name__ == "__main__":
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    main()
