"""FTRL-Proximal here and in river: two faults of river's, shown on few and on many features.

Prints two tables: one feature, example by example, beside the formula of the paper; and a stream
with many features that say nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from river import linear_model, metrics, optim

import streaml1

CONSOLE = Console(width=100)
PARAMS = {"alpha": 0.1, "beta": 1.0, "l1": 1.0, "l2": 0.0}


def theirs() -> Any:
    return linear_model.LogisticRegression(optim.FTRLProximal(**PARAMS), intercept_lr=0.0)


def ours() -> Any:
    return streaml1.FTRLClassifier(**PARAMS, intercept_lr=0.0)


def one_feature() -> None:
    """Five examples that are True, then some that are False, until |z| <= l1 again."""
    made = Table()
    for column in ("example", "label", "streaml1: weight", "river: weight", "river: |z|"):
        made.add_column(column, justify="right")
    here, there = ours(), theirs()
    for k, (x, y) in enumerate([({"x": 2.0}, True)] * 4 + [({"x": 2.0}, False)] * 4, 1):
        for model in (here, there):
            model.learn_one(x, y)
        w, z = dict(there.weights).get("x", 0.0), abs(there.optimizer.z["x"])
        made.add_row(f"{k}", f"{y}", f"{here.weights.get('x', 0.0):.4f}", f"{w:.4f}", f"{z:.3f}")
    CONSOLE.print("\none feature: a weight is to be 0 exactly where |z| <= l1 = 1")
    CONSOLE.print(made)


def clicks(n: int) -> Iterator[tuple[dict[str, float], bool]]:
    """Five features that tell and 20 of 2,000 that do not."""
    draw = random.Random(7)
    for _ in range(n):
        x = {f"tells {k}": draw.choice((-1.0, 1.0)) for k in range(5)}
        y = sum(x.values()) + draw.gauss(0.0, 1.0) > 0.0
        yield x | {f"says nothing {draw.randrange(2_000)}": 1.0 for _ in range(20)}, y


def many_features() -> None:
    made = Table()
    for column in ("", "log-loss", "non-zero weights", "of these, |z| <= l1"):
        made.add_column(column, justify="left" if not column else "right")
    for name, model in (("streaml1", ours()), ("river", theirs())):
        loss = metrics.LogLoss()
        for x, y in clicks(20_000):
            loss.update(y, model.predict_proba_one(x))
            model.learn_one(x, y)
        alive = [k for k, w in dict(model.weights).items() if w != 0.0]
        wrong = 0
        if name == "river":
            wrong = sum(abs(model.optimizer.z[k]) <= PARAMS["l1"] for k in alive)
        made.add_row(name, f"{loss.get():.4f}", f"{len(alive):,}", f"{wrong:,}")
    CONSOLE.print("\n20,000 examples of 5 features that tell, and 20 of 2,000 that do not")
    CONSOLE.print(made)


if __name__ == "__main__":
    one_feature()
    many_features()
