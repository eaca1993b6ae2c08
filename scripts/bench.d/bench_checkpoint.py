"""How long a checkpoint of 10^6 non-zero weights stalls a run."""

from __future__ import annotations

import tempfile
import time
from typing import Any

import numpy as np
from bench_kit import CONSOLE, new_table
from scipy.sparse import csr_matrix

import streaml1
from streaml1.training.checkpoint import Checkpoints
from streaml1.training.report import WINDOW, Report

N = 1_000_000
ROUNDS = 5


def int_features() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = csr_matrix((rng.normal(size=N), np.arange(N), np.arange(0, N + 1, 100)))
    model = streaml1.ElasticNetClassifier()
    model.learn_many(X, rng.random(X.shape[0]) < 0.5)
    return model, X[:100]


def string_features() -> tuple[Any, Any]:
    model = streaml1.ElasticNetClassifier()
    for lo in range(0, N, 100_000):
        rows = [
            {f"site=news {k}": 1.0 for k in range(lo + i, lo + i + 100)}
            for i in range(0, 100_000, 100)
        ]
        model.learn_many(rows, [bool(i % 2) for i in range(1000)])
    return model, [{"site=news 7": 1.0, f"site=news {k}": 1.0} for k in range(100)]


def bench_checkpoint() -> None:
    """Print the stall, and the slowest batch of 100 rows while the checkpoint is written."""
    table = new_table(
        f"A checkpoint of 10^6 weights and the last 2^{WINDOW.bit_length() - 1} predictions, "
        f"medians of {ROUNDS}; the first two columns are CPU times of the learning thread",
        "features", "synchronous", "stall", "stall, wall time", "100 rows alone",
        "slowest 100 rows during it",
    )  # fmt: skip
    for name, make in (("ints", int_features), ("strings", string_features)):
        model, rows = make()
        assert model.n_nonzero == N, model.n_nonzero
        report = Report("logistic", "bench", None, 0)
        report.start()
        p = np.random.default_rng(1).random(WINDOW)
        report.add(p, p > 0.5)
        times = np.median([one_round(model, report, rows) for _ in range(1 + ROUNDS)][1:], axis=0)
        table.add_row(name, *(f"{1000 * seconds:,.1f} ms" for seconds in times))
    CONSOLE.print(table)


def one_round(model: Any, report: Report, rows: Any) -> list[float]:
    """Return the seconds of each column of the table."""

    def learn() -> float:
        began = time.perf_counter()
        model.learn_many(rows, [True] * 100)
        return time.perf_counter() - began

    alone = float(np.median([learn() for _ in range(20)]))
    with tempfile.TemporaryDirectory() as directory, Checkpoints(directory) as checkpoints:
        began = time.thread_time()
        checkpoints.save(model, report, {}, None)
        synchronous = time.thread_time() - began
        began, wall = time.thread_time(), time.perf_counter()
        checkpoints.save_in_background(model, report, {}, None)
        stall, wall = time.thread_time() - began, time.perf_counter() - wall
        concurrent = [learn()]
        while not checkpoints.settled():
            concurrent.append(learn())
    return [synchronous, stall, wall, alone, max(concurrent)]
