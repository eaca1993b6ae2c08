"""How long a checkpoint of 10^6 weights that are not zero keeps a run from learning."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

import streaml1
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.report import WINDOW, Report

N = 1_000_000
ROUNDS = 5


def by_ints() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = csr_matrix((rng.normal(size=N), np.arange(N), np.arange(0, N + 1, 100)))
    model = streaml1.ElasticNetClassifier()
    model.learn_many(X, rng.random(X.shape[0]) < 0.5)
    return model, X[:100]


def by_names() -> tuple[Any, Any]:
    model = streaml1.ElasticNetClassifier()
    for lo in range(0, N, 100_000):
        rows = [
            {f"site=news {k}": 1.0 for k in range(lo + i, lo + i + 100)}
            for i in range(0, 100_000, 100)
        ]
        model.learn_many(rows, [bool(i % 2) for i in range(1000)])
    return model, [{"site=news 7": 1.0, f"site=news {k}": 1.0} for k in range(100)]


def bench(table: Callable[..., Any], show: Callable[[Any], Any]) -> None:
    """Print the stall, and the longest 100 rows beside the thread that writes."""
    made = table(
        f"A checkpoint of 10^6 weights and the last 2^{WINDOW.bit_length() - 1} predictions, "
        f"medians of {ROUNDS}; the first two columns are times of the thread",
        "names", "all of it", "stall", "by the clock", "100 rows: alone", "longest beside it",
    )  # fmt: skip
    for name, make in (("ints", by_ints), ("strings", by_names)):
        model, rows = make()
        assert model.n_nonzero == N, model.n_nonzero
        report = Report("logistic", "bench", None, 0)
        report.start()
        p = np.random.default_rng(1).random(WINDOW)
        report.add(p, p > 0.5)
        times = np.median([_round(model, report, rows) for _ in range(1 + ROUNDS)][1:], axis=0)
        made.add_row(name, *(f"{1000 * one:,.1f} ms" for one in times))
    show(made)


def _round(model: Any, report: Report, rows: Any) -> list[float]:
    def learn() -> float:
        began = time.perf_counter()
        model.learn_many(rows, [True] * 100)
        return time.perf_counter() - began

    alone = float(np.median([learn() for _ in range(20)]))
    with tempfile.TemporaryDirectory() as folder, Checkpoints(folder) as store:
        began = time.thread_time()
        store.save(model, report, {}, None)
        whole = time.thread_time() - began
        began, clock = time.thread_time(), time.perf_counter()
        store.save_in_background(model, report, {}, None)
        stall, clock = time.thread_time() - began, time.perf_counter() - clock
        beside = [learn()]
        while not store.settled():
            beside.append(learn())
    return [whole, stall, clock, alone, max(beside)]
