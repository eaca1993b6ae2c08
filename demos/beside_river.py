"""What is exact here and approximate in river's linear models, shown on streams of a few features.

Prints three small tables: what a late feature pays for the past, what an absent feature's weight
is worth when predicting, and what the squared l2 penalty does to a feature that stays away.
"""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from river import linear_model, optim

import streaml1

CONSOLE = Console(width=100)


def theirs(**penalty: Any) -> Any:
    return linear_model.LogisticRegression(optim.SGD(0.1), intercept_lr=0.0, **penalty)


def ours(**penalty: Any) -> Any:
    return streaml1.ElasticNetClassifier(
        lr=0.1, schedule="constant", intercept_lr=0.0, loss="logistic", **penalty
    )


def examples_until_alive(model: Any, unrelated: int) -> int:
    """Examples of a new feature until its weight leaves zero, after `unrelated` others."""
    for t in range(unrelated):
        model.learn_one({f"old {t % 7}": 1.0}, t % 2 == 0)
    for n in range(1, 1000):
        model.learn_one({"new": 1.0}, True)
        if dict(model.weights).get("new", 0.0) != 0.0:
            return n
    return 1000


def absent(model: Any, steps: int) -> tuple[float, float]:
    """Weight of a feature after five examples of it, and after `steps` others without it."""
    for _ in range(5):
        model.learn_one({"seldom": 5.0}, True)
    before = dict(model.weights)["seldom"]
    for t in range(steps):
        model.learn_one({"often": 1.0}, t % 2 == 0)
    return before, dict(model.weights).get("seldom", 0.0)


def table(title: str, *columns: str) -> Table:
    CONSOLE.print(f"\n{title}")
    made = Table()
    for k, column in enumerate(columns):
        made.add_column(column, justify="left" if k == 0 else "right")
    return made


def main() -> None:
    late = table(
        "l1 = 1e-3: examples of a new feature until its weight is not zero",
        *("after unrelated examples", "streaml1", "river"),
    )
    for unrelated in (0, 1_000, 20_000):
        counts = [examples_until_alive(make(l1=1e-3), unrelated) for make in (ours, theirs)]
        late.add_row(f"{unrelated:,}", *(str(n) for n in counts))
    CONSOLE.print(late)

    for title, penalty in (
        ("l1 = 1e-3: weight of a feature that stays away for 1,000 examples", {"l1": 1e-3}),
        ("l2 = 1e-1: the same with the squared l2 penalty", {"l2": 0.1}),
    ):
        shrunk = table(title, "", "before", "after")
        for name, make in (("streaml1", ours), ("river", theirs)):
            before, after = absent(make(**penalty), 1_000)
            shrunk.add_row(name, f"{before:.4f}", f"{after:.4f}")
        CONSOLE.print(shrunk)


if __name__ == "__main__":
    main()
