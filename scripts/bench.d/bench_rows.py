"""Rows in memory and in `.rows` files, compared with the rivals' fastest input of the same rows.

All make one pass with l1 and squared l2 of 1e-6 if they support both: Vowpal Wabbit with `--sgd`
from its own cache file, scikit-learn with one epoch of `SGDClassifier.fit`, which gets all rows at
once. Runs are interleaved; times are CPU times on one core.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench_kit import (
    CONSOLE,
    bare_run,
    elastic_net,
    new_table,
    process_seconds,
    single_core,
    w1,
    w2,
)
from bench_rivals import Rivals

import streaml1
from streaml1.sources import open_source
from streaml1.sources.source import Block
from streaml1.text.parsed_rows import IntRows
from streaml1.training import convert

ROUNDS = 5
ONE_REPORT = 10**9


class MatrixSource:
    """A source of rows in memory, for `convert`."""

    name = "memory"

    def __init__(self, X: Any, y: Any) -> None:
        self._rows = IntRows(X.indices.astype(np.uint32), X.data, X.indptr.astype(np.int64))
        self._y = np.where(y, 1.0, -1.0)

    def blocks(self, size: int, reject: Any) -> Any:
        """Yield the rows in blocks of `size`, from the start."""
        n = len(self._rows)
        for lo in range(0, n, size):
            hi = min(n, lo + size)
            lines: Any = range(lo + 1, hi + 1)
            y: Any = self._y[lo:hi]
            x: Any = self._rows[lo:hi]
            yield Block(x, y, None, self.name, lines)


def default_model() -> streaml1.ElasticNetClassifier:
    return streaml1.ElasticNetClassifier(l1=1e-6, l2=1e-6, lr="auto")


def reject(position: str, reason: str, *_: Any) -> None:
    raise AssertionError(f"{position}: {reason}")


def learn(source: Any, learner: Any) -> None:
    """Run a model over the blocks of a source, without a report."""
    for block in source.blocks(8192, reject):
        learner.progressive_many(block.x, np.asarray(block.y) > 0)
        del block  # as `streaml1 learn` does, so that the next block can reuse its memory


def write_vw(X: Any, y: Any, path: Path) -> None:
    ends, ids, values = X.indptr.tolist(), X.indices.tolist(), X.data.tolist()
    with open(path, "w") as file:
        for i, label in enumerate(np.where(y, 1, -1).tolist()):
            lo, hi = ends[i], ends[i + 1]
            pairs = zip(ids[lo:hi], values[lo:hi], strict=True)
            file.write(f"{label} | " + " ".join(map("%d:%.6g".__mod__, pairs)) + "\n")


def bench_rows(rounds: int = ROUNDS) -> None:
    """Compare passes over W1 and W2 with those of the rivals."""
    with single_core(), tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        rivals = Rivals(directory)
        for workload, (X, y), eta, bits in (("W1", w1(), 3.0, 18), ("W2", w2(), 0.02, 19)):
            bench_workload(directory, rivals, workload, X, y, eta, bits, rounds)
        rivals.close()


def bench_workload(
    directory: Path, rivals: Rivals, name: str, X: Any, y: Any, eta: float, bits: int, rounds: int
) -> None:
    n, path = X.shape[0], directory / f"{name}.rows"
    np.savez(directory / f"{name}.npz", data=X.data, indices=X.indices, indptr=X.indptr,
             shape=X.shape, y=y)  # fmt: skip
    write_vw(X, y, directory / f"{name}.vw")
    convert(MatrixSource(X, y), path, format="svmlight")
    cached_source: Any = open_source(path)
    ours: dict[str, Callable[[], Any]] = {
        "bare SGD, no penalty": bare_run(X, y, eta),
        "elastic net, matrix": lambda: elastic_net(eta).progressive_many(X, y),
        "elastic net, matrix, lr=auto": lambda: default_model().progressive_many(X, y),
        "elastic net, .rows, first pass": lambda: learn(open_source(path), elastic_net(eta)),
        "elastic net, .rows, later passes": lambda: learn(cached_source, elastic_net(eta)),
        "... with a report": lambda: streaml1.progressive(elastic_net(eta), path, every=ONE_REPORT),
        "... eight learners, lr=auto": lambda: learn(cached_source, default_model()),
    }
    theirs: dict[str, Callable[[], float]] = {
        "Vowpal Wabbit, from its cache": lambda: rivals.seconds("vw_cached", name, bits),
        "scikit-learn, fit, one epoch": lambda: rivals.seconds("sklearn_fit", name),
        "scikit-learn, partial_fit of 1,000": lambda: rivals.seconds("sklearn_parts", name),
        "river, l1 only": lambda: rivals.seconds("river_rows", name, 2000, 1e-6),
    }
    seconds: dict[str, list[float]] = {}
    for _ in range(rounds + 1):
        for what, run in ours.items():
            seconds.setdefault(what, []).append(process_seconds(run))
        for what, measure in theirs.items():
            seconds.setdefault(what, []).append(measure())
    times = {what: np.array(rounds[1:]) for what, rounds in seconds.items()}
    results = new_table(
        f"{name}: a pass over {n:,} rows of {X.nnz / n:.1f} non-zeros, l1 = l2 = 1e-6",
        *("", "us/row", "x bare SGD", "x matrix", "x .rows, later passes"),
    )
    bases = ("bare SGD, no penalty", "elastic net, matrix", "elastic net, .rows, later passes")
    for what, run_times in times.items():
        if not np.isnan(run_times).any():
            results.add_row(
                what, f"{np.median(run_times) / n * 1e6:.3f}",
                *(f"{np.median(run_times / times[base]):.2f}" for base in bases),
            )  # fmt: skip
    CONSOLE.print(results)
    size = {kind: (directory / f"{name}{kind}").stat().st_size for kind in (".rows", ".vw")}
    cache = directory / f"{name}.cache"
    cache_bytes = (
        f", Vowpal Wabbit's cache {cache.stat().st_size / n:,.0f}" if cache.exists() else ""
    )
    CONSOLE.print(
        f"bytes a row: .rows {size['.rows'] / n:,.0f}, text {size['.vw'] / n:,.0f}{cache_bytes}"
    )
