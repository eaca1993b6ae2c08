"""Held-out loss of merged models against that of one model that learns the whole stream."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_kit import CONSOLE, new_table
from scipy.sparse import csr_matrix

import streaml1
from streaml1.datasets import stdlib
from streaml1.training import evaluate
from streaml1.training.merge import compare

PARTS = (2, 4, 8)
WARM = 0.05
"""Share of the training rows that the base learns."""
PROBE, HELD_OUT = 1_000, 1_500

LEARNERS: dict[str, Callable[[], Any]] = {
    "FTRL": streaml1.FTRLClassifier,
    "FTRL, alpha=0.1": lambda: streaml1.FTRLClassifier(alpha=0.1),
}


def stdlib_matrix() -> tuple[Any, Any]:
    """Return the rows and labels of the stream `stdlib`."""
    columns: dict[str, int] = {}
    indices: list[int] = []
    indptr, y = [0], []
    for x, label in stdlib(seed=0):
        indices += sorted(columns.setdefault(name, len(columns)) for name in x)
        indptr.append(len(indices))
        y.append(label)
    shape = (len(y), len(columns))
    return csr_matrix((np.ones(len(indices)), indices, indptr), shape), np.array(y)


def bench_merge() -> None:
    """Merge 2, 4 and 8 models, with and without a common base."""
    X, y = stdlib_matrix()
    for name, make in LEARNERS.items():
        show(f"stdlib, {name}", make, X, y)


def show(title: str, make: Callable[[], Any], X: Any, y: Any) -> None:
    """Print the losses of one learner on one stream."""
    n = X.shape[0] - PROBE - HELD_OUT
    probe = X[n : n + PROBE], y[n : n + PROBE]
    held_out = X[n + PROBE :], y[n + PROBE :]
    table = new_table(
        f"{title}: {n:,} rows, {HELD_OUT:,} held out",
        *("models", "base", "chosen", "log-loss", "non-zeros", "best part"),
    )

    def add(k: int, base: str, chosen: str, model: Any, best: str) -> None:
        loss = evaluate(model, held_out).lines[-1].loss
        table.add_row(str(k), base, chosen, f"{loss:.4f}", f"{model.n_nonzero:,}", best)

    model = make()
    model.learn_many(X[:n], y[:n])
    add(1, "", "", model, "")
    for first, label in ((0, "none"), (int(WARM * n), f"{WARM:.0%}")):
        for k in PARTS:
            base = make()
            base.learn_many(X[:first], y[:first])
            parts = [copy.deepcopy(base) for _ in range(k)]
            cuts = np.linspace(first, n, k + 1).astype(int)
            for part, lo, hi in zip(parts, cuts[:-1], cuts[1:], strict=True):
                part.learn_many(X[lo:hi], y[lo:hi])
            merged = compare(parts, base if first else None, probe=probe)
            best = min(evaluate(part, held_out).lines[-1].loss or np.inf for part in parts)
            add(k, label, merged.chosen, merged.model, f"{best:.4f}")
    CONSOLE.print(table)
