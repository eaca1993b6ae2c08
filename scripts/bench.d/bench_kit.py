"""Shared parts of the benchmarks: workloads, a baseline kernel, interleaved runs, tables.

The runs to compare are interleaved in one process, round after round. A ratio is formed within each
round and its median over the rounds is printed. Times are CPU times of the thread, not wall times.
"""

from __future__ import annotations

import itertools
import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
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


class RecordedTable(Table):
    """A table that keeps its cells, so that it can also be written as Markdown."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.name = title
        self.cells: list[tuple[str, ...]] = []

    def add_row(self, *cells: Any, **options: Any) -> None:
        """Add a row."""
        self.cells.append(tuple(map(str, cells)))
        super().add_row(*cells, **options)


RECORDED_TABLES: list[RecordedTable] = []
"""All tables of this process, in order, for the benchmark page."""


@numba.njit(error_model="numpy", nogil=True)
def bare_sgd(w, ids, values, indptr, y, eta, p):  # type: ignore[no-untyped-def]
    """Run logistic SGD without penalty or intercept, the lower bound for a pass over the rows."""
    one = np.uint64(1)  # unsigned indices: numba omits the check for negative ones
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
    """Draw labels from a logistic model with 1,000 non-zero weights on frequent features."""
    counts = np.bincount(X.indices, minlength=X.shape[1])
    support = rng.choice(np.argsort(-counts)[:5000], 1000, replace=False)
    true = np.zeros(X.shape[1])
    true[support] = rng.normal(0.0, scale, 1000)
    return rng.random(X.shape[0]) < 1.0 / (1.0 + np.exp(-(X @ true + shift)))


def w1(n: int = 100_000, d: int = 260_941) -> tuple[Any, Any]:
    """Make workload W1, abstracts: n rows of about 88.5 non-zeros, Zipf over d, l2-normalized."""
    rng = np.random.default_rng(SEED)
    lengths = np.clip(rng.gamma(3.0, 44.0, n).astype(int), 5, 600)
    ids = rng.permutation(d)[zipf(int(lengths.sum()), d, rng)]
    X = csr_matrix((np.ones(len(ids)), (np.repeat(np.arange(n), lengths), ids)), shape=(n, d))
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
    """Make workload W2, clicks: n rows of 39 categories, numbered among those that occur."""
    categories, _ = clicks(n)
    starts = np.concatenate([[0], np.cumsum(categories.max(axis=0) + 1)])[:-1]
    _, ids = np.unique(categories + starts, return_inverse=True)
    ids = np.sort(ids.reshape(n, 39), axis=1)
    X = csr_matrix(
        (np.ones(n * 39), ids.ravel(), np.arange(n + 1) * 39), shape=(n, int(ids.max()) + 1)
    )
    return X, labels(X, 0.5, -3.5, np.random.default_rng(SEED))


def uniform_rows(d: int, n: int = 20_000, k: int = 40) -> tuple[Any, Any]:
    """Make n rows of k ones in columns drawn uniformly from d, and random labels."""
    rng = np.random.default_rng(SEED)
    ids = np.sort(rng.integers(0, d, (n, k)), axis=1)
    X = csr_matrix((np.ones(ids.size), ids.ravel(), np.arange(n + 1) * k), (n, d))
    X.sum_duplicates()
    return X, rng.random(n) < 0.5


def random_words(n: int, seed: int = SEED) -> list[str]:
    """Make n distinct words of six letters and a number."""
    letters = np.random.default_rng(seed).integers(97, 123, (n, 6), dtype=np.uint8)
    return [f"{bytes(row).decode()}{k % 97}" for k, row in enumerate(letters)]


def csr_dicts(X: Any, names: Sequence[Any] | None = None) -> list[dict[Any, float]]:
    """Convert the rows of a CSR matrix to dicts; `names` are those of the columns."""
    ends, ids, values = X.indptr.tolist(), X.indices.tolist(), X.data.tolist()
    keys = ids if names is None else [names[j] for j in ids]
    return [dict(zip(keys[a:b], values[a:b], strict=True)) for a, b in itertools.pairwise(ends)]


def process_seconds(run: Callable[[], Any]) -> float:
    """Return the CPU time of a call, of all threads of the process."""
    begin = time.process_time()
    run()
    return time.process_time() - begin


def thread_seconds(run: Callable[[], Any]) -> float:
    """Return the CPU time of a call, of this thread."""
    begin = time.thread_time()
    run()
    return time.thread_time() - begin


def interleave(
    runs: dict[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[Callable[[], Any]], float] = thread_seconds,
) -> dict[str, Any]:
    """Return the seconds of each run in each round, without the first round.

    The first round has compilation and cold caches.
    """
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            seconds[name].append(clock(run))
    return {name: np.array(times[1:]) for name, times in seconds.items()}


def repeat_until(runs: Sequence[Callable[[], Any]], start: int, end: int) -> list[float]:
    """Run passes over 1,000 rows from `start` to `end` examples; return each run's seconds a row.

    The seconds are the median of the last 100 passes.
    """
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(start, end, 1000):
        for run, times in zip(runs, seconds, strict=True):
            times.append(thread_seconds(run) / 1000)
    return [float(np.median(times[-100:])) for times in seconds]


def new_table(title: str, *columns: str) -> RecordedTable:
    CONSOLE.print(f"\n{title}")
    table = RecordedTable(title)
    RECORDED_TABLES.append(table)
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right")
    return table


@contextmanager
def single_core() -> Iterator[None]:
    """Pin this process, and those it starts, to one core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def bare_run(X: Any, y: Any, eta: float) -> Callable[[], Any]:
    """Return a pass of bare SGD on new weights, allocated in the same way as those of a model."""
    ids, indptr = X.indices.view(np.uint32), X.indptr.astype(np.uint64)
    p, target = np.empty(X.shape[0]), y.astype(float)
    return lambda: bare_sgd(
        aligned_zeros(X.shape[1], np.float64), ids, X.data, indptr, target, eta, p
    )


def elastic_net(eta: float, **options: Any) -> streaml1.ElasticNetClassifier:
    settings: dict[str, Any] = {"l1": 1e-6, "l2": 1e-6, "schedule": "constant"} | options
    return streaml1.ElasticNetClassifier(lr=eta, **settings)


def ball_model(radius: float, eta: float) -> streaml1.L1BallClassifier:
    return streaml1.L1BallClassifier(radius=radius, lr=eta, schedule="constant")


def cpu_description() -> str:
    with open("/proc/cpuinfo") as file:
        text = file.read()
    cores = [line.split(":")[1].strip() for line in text.splitlines() if "model name" in line]
    avx512 = "with" if "avx512f" in text else "without"
    return f"{len(cores)} x {cores[0]}, {avx512} AVX-512" if cores else platform.machine()
