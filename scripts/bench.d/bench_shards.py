"""Held-out loss of models learnt in shards, against that of one pass over the same rows."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_kit import CONSOLE, new_table, w1

import streaml1
from streaml1.distributed import train
from streaml1.distributed.rounds import MIN_SHARD_ROWS
from streaml1.training import convert, evaluate

SHARDS = (1, 2, 4, 8, 16)
ROUNDS = 16
ROWS, HELD_OUT = 40_000, 10_000

LEARNERS: dict[str, Callable[[], Any]] = {
    "FTRL": streaml1.FTRLClassifier,
    "elastic net": streaml1.ElasticNetClassifier,
    # Their default rates are too small to learn from so few rows.
    "SMIDAS": lambda: streaml1.SMIDASClassifier(lr=3.0),
    "EG": lambda: streaml1.EGClassifier(lr=10.0, radius=100.0),
}


def bench_shards(rows: int = ROWS, model: str | None = None) -> None:
    """Learn rows of W1 in 1 to 16 shards, as many as that number of rows allows."""
    if model is not None and model not in LEARNERS:
        sys.exit(f"bench: unknown model {model!r}; use any of {', '.join(LEARNERS)}")
    if rows < MIN_SHARD_ROWS:
        sys.exit(f"bench: --rows must be >= {MIN_SHARD_ROWS}, got {rows}")
    X, y = w1(rows + HELD_OUT)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "w1.rows"
        convert((X[:rows], y[:rows]), path)
        for name in LEARNERS if model is None else [model]:
            show(f"W1, {name}: {rows:,} rows", LEARNERS[name], path, (X[rows:], y[rows:]), rows)


def show(title: str, make: Callable[[], Any], path: Path, held_out: Any, rows: int) -> None:
    """Print a table of one learner; each line is logged as soon as it is known."""
    columns = ("shards", "log-loss", "x one pass", "non-zeros", "x one pass", "seconds", "chosen")
    table = new_table(f"{title}, {ROUNDS} rounds, {HELD_OUT:,} held out", *columns)
    first: tuple[float, int] | None = None
    for shards in (K for K in SHARDS if rows >= K * MIN_SHARD_ROWS):
        started = time.perf_counter()
        trained = train(make(), path, shards=shards, rounds=ROUNDS)
        seconds = time.perf_counter() - started
        loss = evaluate(trained.model, held_out).lines[-1].loss
        assert loss is not None
        n = trained.model.n_nonzero
        first = first or (loss, n)
        chosen = [line.chosen.split()[0] for line in trained.rounds if line.chosen]
        counts = {name: chosen.count(name) for name in sorted(set(chosen))}
        cells = (
            f"{shards}", f"{loss:.4f}", f"{loss / first[0]:.3f}", f"{n:,}", f"{n / first[1]:.2f}",
            f"{seconds:.0f}", ", ".join(f"{name} {k}" for name, k in counts.items()),
        )  # fmt: skip
        print(title, *cells, sep="  ", file=sys.stderr, flush=True)
        table.add_row(*cells)
    CONSOLE.print(table)
