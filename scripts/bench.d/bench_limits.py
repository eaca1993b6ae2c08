"""What each rival cannot do, tried."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench_kit import CONSOLE, table
from bench_rivals import Rivals

import streaml1


def bench_limits() -> None:
    """What each rival cannot do, tried."""
    with tempfile.TemporaryDirectory() as name:
        rivals = Rivals(Path(name))
        made = table(
            "l1 = 1e-3: examples of a new feature until its weight is not zero",
            *("after unrelated examples", "streaml1", "river", "Vowpal Wabbit"),
        )
        for unrelated in (0, 1_000, 20_000):
            told = [rivals.ask("late", which, unrelated) for which in ("river", "vw")]
            made.add_row(f"{unrelated:,}", str(_late(unrelated)), *map(_shown, told))
        CONSOLE.print(made)
        made = table("l1 and squared l2 together", "", "what comes of it")
        made.add_row("streaml1", "taken: exact, on every weight at every example")
        made.add_row("river", _shown(rivals.ask("both", "river")))
        CONSOLE.print(made)
        made = table(
            "l1 = 1e-3, rate 0.1: a weight, and after 1,000 calls that do not have its feature",
            *("", "before", "after", "shrunk by"),
        )
        ours = _away()
        for who, pair in (("streaml1", ours), ("scikit-learn", rivals.ask("across_calls", "x"))):
            if pair is not None:
                before, after = pair
                made.add_row(who, f"{before:.4f}", f"{after:.4f}", f"{before - after:.4f}")
        CONSOLE.print(made)
        rivals.close()


def _shown(told: Any) -> str:
    return "" if told is None else str(told)


def _plain() -> streaml1.ElasticNetClassifier:
    return streaml1.ElasticNetClassifier(l1=1e-3, lr=0.1, schedule="constant", intercept_lr=0.0)


def _late(unrelated: int) -> int:
    one = _plain()
    for t in range(unrelated):
        one.learn_one({f"old {t % 7}": 1.0}, t % 2 == 0)
    n = 0
    while "new" not in one.weights:
        one.learn_one({"new": 1.0}, True)
        n += 1
    return n


def _away() -> tuple[float, float]:
    one = _plain()
    for _ in range(5):
        one.learn_many([{"seldom": 5.0}], [True])
    before = one.weights["seldom"]
    for t in range(1000):
        one.learn_many([{"often": 1.0}], [t % 2 == 1])
    return before, one.weights["seldom"]
