"""Progressive loss of partitions that mix one model against that of one consumer of everything."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_kit import CONSOLE, new_table
from scipy.sparse import csr_matrix

import streaml1
from streaml1.datasets import RCV1
from streaml1.distributed.mixing.simulation import simulate
from streaml1.training.model_adapter import batch_learner, loss_of
from streaml1.training.report import Report

ROWS = 20_000
MEMBERS, EVERY = (4, 16), (20, 100)
LEARNERS: dict[str, Callable[[], Any]] = {
    "FTRL": streaml1.FTRLClassifier,
    "elastic net": streaml1.ElasticNetClassifier,
}


def rcv1_matrix(n: int) -> tuple[Any, Any]:
    """Return the first rows of RCV1 and whether they are about CCAT."""
    columns: dict[Any, int] = {}
    indices: list[int] = []
    values: list[float] = []
    indptr, y = [0], []
    for x, label in itertools.islice(RCV1(), n):
        by_column = sorted((columns.setdefault(name, len(columns)), v) for name, v in x.items())
        indices += [column for column, _ in by_column]
        values += [value for _, value in by_column]
        indptr.append(len(indices))
        y.append(bool(label))
    return csr_matrix((values, indices, indptr), (len(y), len(columns))), np.array(y)


def bench_mixing() -> None:
    """Deal RCV1 to 4 and 16 partitions that mix after every 20 and 100 examples."""
    X, y = rcv1_matrix(ROWS)
    for name, make in LEARNERS.items():
        show(f"{name} on {len(y):,} rows of RCV1: log-loss of the last quarter", make(), X, y)


def show(title: str, model: Any, X: Any, y: Any) -> None:
    """Print a table of one learner."""
    alone = last_quarter(model, X, y)
    table = new_table(title, *("members", "mixed every", "merges", "log-loss", "against one"))
    table.add_row("1", "", "", f"{alone:.4f}", "")
    for members, every in itertools.product(MEMBERS, EVERY):
        done = simulate(model, X, y, members=members, every=every, delay=every // 5)
        table.add_row(
            str(members), str(every), f"{done.rounds:,}", f"{done.loss:.4f}",
            f"{done.loss / alone - 1.0:+.1%}",
        )  # fmt: skip
    separate = [last_quarter(model, X[k::4], y[k::4]) for k in range(4)]
    mean = sum(separate) / len(separate)
    table.add_row("4", "never", "0", f"{mean:.4f}", f"{mean / alone - 1.0:+.1%}")
    CONSOLE.print(table)


def last_quarter(model: Any, X: Any, y: Any) -> float:
    """Return the mean progressive loss of one learner over the last quarter of a stream."""
    learner = model.clone()
    first = 3 * len(y) // 4
    act = batch_learner(learner, loss_of(learner)).act
    act(X[:first], y[:first], None)
    report = Report(loss_of(learner))
    report.add(act(X[first:], y[first:], None), y[first:], None)
    weight, loss, _ = report.sums
    return float(loss / weight)
