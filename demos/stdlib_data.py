"""Size of the data set `stdlib`, and the progressive loss of simple predictors on it.

Prints the figures of docs/stdlib-data.md for the running Python. Takes half a minute.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from river import dummy, evaluate, linear_model, metrics, optim

import streaml1
from streaml1.datasets import stdlib

SEEDS = (0, 1, 2)

PREDICTORS: dict[str, Callable[[], Any]] = {
    "baseline (share of docstrings so far)": dummy.PriorClassifier,
    "river, SGD, rate 0.1": lambda: linear_model.LogisticRegression(optim.SGD(0.1)),
    "river, SGD, rate 0.03": lambda: linear_model.LogisticRegression(optim.SGD(0.03)),
    "river, AdaGrad, rate 0.1": lambda: linear_model.LogisticRegression(optim.AdaGrad(0.1)),
    "streaml1, defaults": streaml1.ElasticNetClassifier,
    "streaml1, constant rate 0.03": lambda: constant_rate_net(0.0),
    "streaml1, constant rate 0.03, l1 = 5e-4": lambda: constant_rate_net(5e-4),
}


def constant_rate_net(l1: float) -> streaml1.ElasticNetClassifier:
    return streaml1.ElasticNetClassifier(l1=l1, lr=0.03, schedule="constant")


def progressive(model: Any, data: Iterable[Any]) -> tuple[float, float]:
    """Return the mean log-loss and the error of one pass."""
    log_loss_and_accuracy: Any = metrics.LogLoss() + metrics.Accuracy()
    loss, accuracy = evaluate.progressive_val_score(data, model, log_loss_and_accuracy).get()
    return float(loss), 1.0 - float(accuracy)


def main() -> None:
    data = {seed: stdlib(seed=seed) for seed in SEEDS}
    examples = [x for x, _ in data[0]]
    sizes = np.array([len(x) for x in examples])
    documented = np.mean([y for _, y in data[0]])
    features = len({name for x in examples for name in x})
    print(
        f"Python {platform.python_version()}: {len(examples):,} examples, {documented:.1%} with a "
        f"docstring, {features:,} distinct features;\nfeatures per example: mean "
        f"{sizes.mean():.1f}, median {np.median(sizes):.0f}, {sizes.min()} to {sizes.max()}\n"
    )
    table = Table()
    table.add_column("predictor, one pass, mean of three seeds")
    table.add_column("log-loss", justify="right")
    table.add_column("error", justify="right")
    for name, make in PREDICTORS.items():
        scores = [progressive(make(), data[seed]) for seed in SEEDS]
        loss, error = np.mean(scores, axis=0)
        table.add_row(name, f"{loss:.3f}", f"{error:.1%}")
    Console(width=100).print(table)


if __name__ == "__main__":
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    main()
