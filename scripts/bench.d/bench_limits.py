"""Limits of other packages, each measured."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench_kit import CONSOLE, new_table
from bench_rivals import Rivals

import streaml1


def bench_limits() -> None:
    """Show what each rival cannot do, by trying it."""
    with tempfile.TemporaryDirectory() as directory:
        rivals = Rivals(Path(directory))
        results = new_table(
            "l1 = 1e-3: examples of a new feature until its weight is non-zero",
            *("after unrelated examples", "streaml1", "river", "Vowpal Wabbit"),
        )
        for unrelated in (0, 1_000, 20_000):
            rivals_counts = [
                rivals.ask("examples_until_nonzero", which, unrelated) for which in ("river", "vw")
            ]
            results.add_row(
                f"{unrelated:,}", str(examples_until_nonzero(unrelated)), *map(cell, rivals_counts)
            )
        CONSOLE.print(results)
        results = new_table("l1 and squared l2 together", "", "outcome")
        results.add_row("streaml1", "accepted: exact, on every weight at every example")
        results.add_row("river", cell(rivals.ask("both_penalties", "river")))
        CONSOLE.print(results)
        results = new_table(
            "l1 = 1e-3, rate 0.1: a weight before and after 1,000 calls without its feature",
            *("", "before", "after", "shrunk by"),
        )
        ours = weight_without_feature()
        theirs = rivals.ask("across_calls", "x")
        for package, weights in (("streaml1", ours), ("scikit-learn", theirs)):
            if weights is not None:
                before, after = weights
                results.add_row(package, f"{before:.4f}", f"{after:.4f}", f"{before - after:.4f}")
        CONSOLE.print(results)
        rivals.close()


def cell(answer: Any) -> str:
    return "" if answer is None else str(answer)


def elastic_net() -> streaml1.ElasticNetClassifier:
    return streaml1.ElasticNetClassifier(l1=1e-3, lr=0.1, schedule="constant", intercept_lr=0.0)


def examples_until_nonzero(unrelated: int) -> int:
    model = elastic_net()
    for t in range(unrelated):
        model.learn_one({f"old {t % 7}": 1.0}, t % 2 == 0)
    n = 0
    while "new" not in model.weights:
        model.learn_one({"new": 1.0}, True)
        n += 1
    return n


def weight_without_feature() -> tuple[float, float]:
    model = elastic_net()
    for _ in range(5):
        model.learn_many([{"seldom": 5.0}], [True])
    before = model.weights["seldom"]
    for t in range(1000):
        model.learn_many([{"often": 1.0}], [t % 2 == 1])
    return before, model.weights["seldom"]
