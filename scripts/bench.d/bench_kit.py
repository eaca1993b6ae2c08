"""What timings share: rows to learn, a bare kernel to compare with, runs in turn, tables.

What is compared runs in turn, round after round, in one process; a ratio is formed within each
round, and its median over the rounds is printed. Times are those of the thread, not of the wall.
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.sparse import csr_matrix

import streaml1
from streaml1.core.aligned import aligned_zeros

CONSOLE = Console(width=110)
SEED = 2015


class Kept(Table):
    """A table that can be written again as Markdown."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.name = title
        self.cells: list[tuple[str, ...]] = []

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row."""
        self.cells.append(tuple(map(str, cells)))
        super().add_row(*cells, **options)


TABLES: list[Kept] = []
"""All that were made, for the page."""


@numba.njit(error_model="numpy", nogil=True)
def bare_sgd(w, ids, values, indptr, y, eta, p):  # type: ignore[no-untyped-def]
    """Logistic SGD with no penalty and no intercept: what the rows themselves cost."""
    one = np.uint64(1)
    for i in range(np.uint64(len(y))):
        a = 0.0
        for k in range(indptr[i], indptr[i + one]):
            a += w[ids[k]] * values[k]
        p[i] = 1.0 / (1.0 + math.exp(-a))
        step = eta * (p[i] - y[i])
        for k in range(indptr[i], indptr[i + one]):
            w[ids[k]] -= step * values[k]


def zipf(n: int, d: int, rng: Any, s: float = 1.1) -> Any:
    """Draw n ranks below d with probability proportional to 1 / rank**s."""
    cumulative = np.cumsum(np.arange(1, d + 1) ** -s)
    return np.searchsorted(cumulative / cumulative[-1], rng.random(n))


def labels(X: Any, scale: float, shift: float, rng: Any) -> Any:
    """Labels of a logistic model with 1,000 weights on frequent features."""
    counts = np.bincount(X.indices, minlength=X.shape[1])
    chosen = rng.choice(np.argsort(-counts)[:5000], 1000, replace=False)
    true = np.zeros(X.shape[1])
    true[chosen] = rng.normal(0.0, scale, 1000)
    return rng.random(X.shape[0]) < 1.0 / (1.0 + np.exp(-(X @ true + shift)))


def w1(n: int = 100_000, d: int = 260_941) -> tuple[Any, Any]:
    """Abstracts: n rows of about 88.5 distinct non-zeros, Zipf over d, l2-normalised."""
    rng = np.random.default_rng(SEED)
    drawn = np.clip(rng.gamma(3.0, 44.0, n).astype(int), 5, 600)
    ids = rng.permutation(d)[zipf(int(drawn.sum()), d, rng)]
    X = csr_matrix((np.ones(len(ids)), (np.repeat(np.arange(n), drawn), ids)), shape=(n, d))
    X.sum_duplicates()
    X.data = 1.0 + np.log(X.data)
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(norms, np.diff(X.indptr))
    return X, labels(X, 12.0, 0.0, rng)


def clicks(n: int) -> tuple[Any, Any]:
    """Draw the values of 39 categories, of cardinalities 10 to 10**6, and labels."""
    rng = np.random.default_rng(SEED)
    sizes = np.geomspace(10, 1e6, 39).astype(int)
    return np.stack([zipf(n, d, rng) for d in sizes], axis=1), rng.random(n) < 0.05


def w2(n: int = 200_000) -> tuple[Any, Any]:
    """Clicks: n rows of 39 categories as the ids of those met."""
    rows, _ = clicks(n)
    starts = np.concatenate([[0], np.cumsum(rows.max(axis=0) + 1)])[:-1]
    _, ids = np.unique(rows + starts, return_inverse=True)
    ids = np.sort(ids.reshape(n, 39), axis=1)
    X = csr_matrix(
        (np.ones(n * 39), ids.ravel(), np.arange(n + 1) * 39), shape=(n, int(ids.max()) + 1)
    )
    return X, labels(X, 0.5, -3.5, np.random.default_rng(SEED))


def in_turn(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, Any]:
    """Seconds of each run in each round, the first round (compilation, cold caches) left out."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            begin = time.thread_time()
            run()
            seconds[name].append(time.thread_time() - begin)
    return {name: np.array(times[1:]) for name, times in seconds.items()}


def table(title: str, *columns: str) -> Kept:
    CONSOLE.print(f"\n{title}")
    made = Kept(title)
    TABLES.append(made)
    for k, column in enumerate(columns):
        made.add_column(column, justify="left" if k == 0 else "right")
    return made


@contextmanager
def one_core() -> Iterator[None]:
    """Have this process, and those it starts, run on one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def bare_run(X: Any, y: Any, eta: float) -> Callable[[], Any]:
    """Bare SGD on weights in the same kind of memory as those of a model."""
    ids, indptr = X.indices.view(np.uint32), X.indptr.astype(np.uint64)
    p, target = np.empty(X.shape[0]), y.astype(float)
    return lambda: bare_sgd(
        aligned_zeros(X.shape[1], np.float64), ids, X.data, indptr, target, eta, p
    )


def model(eta: float, **options: Any) -> streaml1.ElasticNetClassifier:
    settings: dict[str, Any] = {"l1": 1e-6, "l2": 1e-6, "schedule": "constant"} | options
    return streaml1.ElasticNetClassifier(lr=eta, **settings)


def in_ball(radius: float, eta: float) -> streaml1.L1BallClassifier:
    return streaml1.L1BallClassifier(radius=radius, lr=eta, schedule="constant")


def processor() -> str:
    with open("/proc/cpuinfo") as file:
        text = file.read()
    names = [line.split(":")[1].strip() for line in text.splitlines() if "model name" in line]
    wide = "with" if "avx512f" in text else "without"
    return f"{len(names)} x {names[0]}, {wide} AVX-512" if names else platform.machine()
