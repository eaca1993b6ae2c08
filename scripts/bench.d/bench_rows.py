"""Rows in memory and in a file of rows, beside the rivals' fastest roads over the same rows.

All take a pass with l1 and squared l2 of 1e-6, where they can: Vowpal Wabbit by `--sgd` from its
own cache file, scikit-learn by an epoch of `SGDClassifier.fit`, which sees all rows at once. They
take turns; times are those of the processor, on one core.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bench_kit import CONSOLE, bare_run, model, one_core, table, w1, w2
from bench_rivals import Rivals

import streaml1
from streaml1.sources import open_source
from streaml1.sources.source import Block
from streaml1.text.parsed_rows import IntRows
from streaml1.training import convert

ROUNDS = 5
HUGE = 10**9


class Memory:
    """Rows in memory as a source, to be converted."""

    name = "memory"

    def __init__(self, X: Any, y: Any) -> None:
        self._rows = IntRows(X.indices.astype(np.uint32), X.data, X.indptr.astype(np.int64))
        self._y = np.where(y, 1.0, -1.0)

    def blocks(self, size: int, refuse: Any) -> Any:
        """Read from the start."""
        n = len(self._rows)
        for lo in range(0, n, size):
            hi = min(n, lo + size)
            lines: Any = range(lo + 1, hi + 1)
            y: Any = self._y[lo:hi]
            x: Any = self._rows[lo:hi]
            yield Block(x, y, None, self.name, lines)


def eight_rates() -> streaml1.ElasticNetClassifier:
    return streaml1.ElasticNetClassifier(l1=1e-6, l2=1e-6, lr="auto")


def refuse(place: str, reason: str, *_: Any) -> None:
    raise AssertionError(f"{place}: {reason}")


def learn(source: Any, one: Any) -> None:
    """A model over the blocks of a source, without a report."""
    for block in source.blocks(8192, refuse):
        one.progressive_many(block.x, np.asarray(block.y) > 0)
        del block  # as `streaml1 learn` does, so that its memory may be taken for the next


def vw_lines(X: Any, y: Any, path: Path) -> None:
    ends, ids, values = X.indptr.tolist(), X.indices.tolist(), X.data.tolist()
    with open(path, "w") as file:
        for i, label in enumerate(np.where(y, 1, -1).tolist()):
            lo, hi = ends[i], ends[i + 1]
            pairs = zip(ids[lo:hi], values[lo:hi], strict=True)
            file.write(f"{label} | " + " ".join(map("%d:%.6g".__mod__, pairs)) + "\n")


def processor_seconds(run: Callable[[], Any]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def bench_rows(rounds: int = ROUNDS) -> None:
    """W1 and W2: our roads and the rivals', round after round."""
    with one_core(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rivals = Rivals(folder)
        for workload, (X, y), eta, bits in (("W1", w1(), 3.0, 18), ("W2", w2(), 0.02, 19)):
            _one(folder, rivals, workload, X, y, eta, bits, rounds)
        rivals.close()


def _one(
    folder: Path, rivals: Rivals, name: str, X: Any, y: Any, eta: float, bits: int, rounds: int
) -> None:
    n, path = X.shape[0], folder / f"{name}.rows"
    np.savez(folder / f"{name}.npz", data=X.data, indices=X.indices, indptr=X.indptr,
             shape=X.shape, y=y)  # fmt: skip
    vw_lines(X, y, folder / f"{name}.vw")
    convert(Memory(X, y), path, format="svmlight")
    again: Any = open_source(path)
    ours: dict[str, Callable[[], Any]] = {
        "bare SGD, no penalty": bare_run(X, y, eta),
        "elastic net, matrix": lambda: model(eta).progressive_many(X, y),
        "elastic net, matrix, lr=auto": lambda: eight_rates().progressive_many(X, y),
        "elastic net, .rows, first pass": lambda: learn(open_source(path), model(eta)),
        "elastic net, .rows, later passes": lambda: learn(again, model(eta)),
        "... with its report": lambda: streaml1.progressive(model(eta), path, every=HUGE),
        "... eight rates, lr=auto": lambda: learn(again, eight_rates()),
    }
    theirs: dict[str, Callable[[], float]] = {
        "Vowpal Wabbit, from its cache": lambda: rivals.seconds("vw_cached", name, bits),
        "scikit-learn, fit, one epoch": lambda: rivals.seconds("sklearn_fit", name),
        "scikit-learn, partial_fit of 1,000": lambda: rivals.seconds("sklearn_parts", name),
        "river, l1 alone": lambda: rivals.seconds("river_rows", name, 2000, 1e-6),
    }
    took: dict[str, list[float]] = {}
    for _ in range(rounds + 1):
        for what, run in ours.items():
            took.setdefault(what, []).append(processor_seconds(run))
        for what, told in theirs.items():
            took.setdefault(what, []).append(told())
    times = {what: np.array(all_of[1:]) for what, all_of in took.items()}
    made = table(
        f"{name}: a pass over {n:,} rows of {X.nnz / n:.1f} non-zeros, l1 = l2 = 1e-6",
        *("", "us/row", "x bare SGD", "x matrix", "x .rows, later passes"),
    )
    beside = ("bare SGD, no penalty", "elastic net, matrix", "elastic net, .rows, later passes")
    for what, each in times.items():
        if not np.isnan(each).any():
            made.add_row(
                what, f"{np.median(each) / n * 1e6:.3f}",
                *(f"{np.median(each / times[other]):.2f}" for other in beside),
            )  # fmt: skip
    CONSOLE.print(made)
    size = {kind: (folder / f"{name}{kind}").stat().st_size for kind in (".rows", ".vw")}
    cache = folder / f"{name}.cache"
    told = f", Vowpal Wabbit's cache {cache.stat().st_size / n:,.0f}" if cache.exists() else ""
    CONSOLE.print(f"bytes a row: .rows {size['.rows'] / n:,.0f}, text {size['.vw'] / n:,.0f}{told}")
