"""Compare the penalties of streaml1, which are exact, with those of river's linear models.

Prints three small tables: the penalty charged to a feature that appears late, and the shrinkage of
the weight of an absent feature by the l1 and the squared l2 penalty.
"""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console
from rich.table import Table
from river import linear_model, optim

import streaml1

CONSOLE = Console(width=100)


def river_model(**penalty: Any) -> Any:
    return linear_model.LogisticRegression(optim.SGD(0.1), intercept_lr=0.0, **penalty)


def streaml1_model(**penalty: Any) -> Any:
    return streaml1.ElasticNetClassifier(
        lr=0.1, schedule="constant", intercept_lr=0.0, loss="logistic", **penalty
    )


def examples_until_nonzero(model: Any, unrelated: int) -> int:
    """Count the examples of a new feature until its weight is non-zero, after unrelated ones."""
    for t in range(unrelated):
        model.learn_one({f"old {t % 7}": 1.0}, t % 2 == 0)
    for n in range(1, 1000):
        model.learn_one({"new": 1.0}, True)
        if dict(model.weights).get("new", 0.0) != 0.0:
            return n
    return 1000


def weight_without_feature(model: Any, steps: int) -> tuple[float, float]:
    """Return a feature's weight after five examples of it, and after `steps` without it."""
    for _ in range(5):
        model.learn_one({"seldom": 5.0}, True)
    before = dict(model.weights)["seldom"]
    for t in range(steps):
        model.learn_one({"often": 1.0}, t % 2 == 0)
    return before, dict(model.weights).get("seldom", 0.0)


def new_table(title: str, *columns: str) -> Table:
    CONSOLE.print(f"\n{title}")
    table = Table()
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right")
    return table


def main() -> None:
    late_table = new_table(
        "l1 = 1e-3: examples of a new feature until its weight is non-zero",
        *("after unrelated examples", "streaml1", "river"),
    )
    for unrelated in (0, 1_000, 20_000):
        counts = [
            examples_until_nonzero(make(l1=1e-3), unrelated)
            for make in (streaml1_model, river_model)
        ]
        late_table.add_row(f"{unrelated:,}", *(str(n) for n in counts))
    CONSOLE.print(late_table)

    for title, penalty in (
        ("l1 = 1e-3: weight of a feature absent from 1,000 examples", {"l1": 1e-3}),
        ("squared l2 = 1e-1: weight of a feature absent from 1,000 examples", {"l2": 0.1}),
    ):
        shrinkage_table = new_table(title, "", "before", "after")
        for name, make in (("streaml1", streaml1_model), ("river", river_model)):
            before, after = weight_without_feature(make(**penalty), 1_000)
            shrinkage_table.add_row(name, f"{before:.4f}", f"{after:.4f}")
        CONSOLE.print(shrinkage_table)


if __name__ == "__main__":
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    main()
