"""Compare FTRL-Proximal with river's implementation, and show two defects of the latter.

Prints two tables: the weight of one feature, example by example, and a stream with many noise
features.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.table import Table
from river import linear_model, metrics, optim

import streaml1

CONSOLE = Console(width=100)
PARAMS = {"alpha": 0.1, "beta": 1.0, "l1": 1.0, "l2": 0.0}


def river_model() -> Any:
    return linear_model.LogisticRegression(optim.FTRLProximal(**PARAMS), intercept_lr=0.0)


def streaml1_model() -> Any:
    return streaml1.FTRLClassifier(**PARAMS, intercept_lr=0.0)


def one_feature() -> None:
    """Show the weight over four True and four False examples, after which |z| <= l1 again."""
    table = Table()
    for column in ("example", "label", "streaml1: weight", "river: weight", "river: |z|"):
        table.add_column(column, justify="right")
    ours, river = streaml1_model(), river_model()
    for k, (x, y) in enumerate([({"x": 2.0}, True)] * 4 + [({"x": 2.0}, False)] * 4, 1):
        for model in (ours, river):
            model.learn_one(x, y)
        w, z = dict(river.weights).get("x", 0.0), abs(river.optimizer.z["x"])
        table.add_row(f"{k}", f"{y}", f"{ours.weights.get('x', 0.0):.4f}", f"{w:.4f}", f"{z:.3f}")
    CONSOLE.print("\none feature: the weight must be 0 exactly where |z| <= l1 = 1")
    CONSOLE.print(table)


def noisy_examples(n: int) -> Iterator[tuple[dict[str, float], bool]]:
    """Yield examples of five informative features and 20 of 2,000 noise features."""
    draw = random.Random(7)
    for _ in range(n):
        x = {f"signal {k}": draw.choice((-1.0, 1.0)) for k in range(5)}
        y = sum(x.values()) + draw.gauss(0.0, 1.0) > 0.0
        yield x | {f"noise {draw.randrange(2_000)}": 1.0 for _ in range(20)}, y


def many_features() -> None:
    table = Table()
    for column in ("", "log-loss", "non-zero weights", "of these, |z| <= l1"):
        table.add_column(column, justify="left" if not column else "right")
    for name, model in (("streaml1", streaml1_model()), ("river", river_model())):
        loss = metrics.LogLoss()
        for x, y in noisy_examples(20_000):
            loss.update(y, model.predict_proba_one(x))
            model.learn_one(x, y)
        nonzero = [k for k, w in dict(model.weights).items() if w != 0.0]
        violations = 0
        if name == "river":
            violations = sum(abs(model.optimizer.z[k]) <= PARAMS["l1"] for k in nonzero)
        table.add_row(name, f"{loss.get():.4f}", f"{len(nonzero):,}", f"{violations:,}")
    CONSOLE.print("\n20,000 examples of 5 informative features and 20 of 2,000 noise features")
    CONSOLE.print(table)


if __name__ == "__main__":
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    one_feature()
    many_features()
