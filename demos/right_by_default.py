"""What the default withstands: columns of any scale, outliers, saved models on the next day.

    python demos/right_by_default.py [SOURCE ...]

Sources are those of `no_rate_to_tune.py`. The first table has the progressive log-loss of the
default, and by what factor it changes if all columns are scaled at random by 1e-6 to 1e6; if one
row is multiplied by 1e3, 1e6 or 1e12; if one sample weight is 1e6; and if 0.2 % of the values of
the most frequent feature are 99999999.

The second one has the loss of a model that is frozen before the last fifth of the stream, on that
fifth, next to those of Vowpal Wabbit with its defaults and with --coin, if `VW_PYTHON` names an
interpreter that has it. The last lines have the level of saved models on a simulated stream of
clicks: predicted clicks of the next day over observed ones, for models saved after every 1,000
examples.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.sparse import csr_matrix, hstack
from streams import (
    DEFAULT_SOURCES,
    load_examples,
    log_loss,
    ratio_line,
    rival_cells,
    rivals,
    to_csr,
)

import streaml1

ROW_FACTORS = (1e3, 1e6, 1e12)
LARGE_WEIGHT, SENTINEL, SENTINEL_SHARE = 1e6, 99999999.0, 0.002
CLICK_ROWS = 40_000


def loss_of(X: Any, y: Any, w: Any = 1.0) -> float:
    """Return the progressive log-loss of the default; sample weights affect learning only."""
    return log_loss(streaml1.ElasticNetClassifier().progressive_many(X, y, w), y)


def with_scaled_columns(X: Any, rng: np.random.Generator) -> Any:
    """Return a copy whose columns are scaled by factors from 1e-6 to 1e6."""
    scaled = X.copy()
    scaled.data *= (10.0 ** rng.uniform(-6.0, 6.0, X.shape[1]))[X.indices]
    return scaled


def with_scaled_row(X: Any, row: int, factor: float) -> Any:
    """Return a copy with one row multiplied by a factor."""
    scaled = X.copy()
    scaled.data[X.indptr[row] : X.indptr[row + 1]] *= factor
    return scaled


def with_sentinels(X: Any, rng: np.random.Generator) -> Any:
    """Return a copy in which some values of the most frequent column are a sentinel."""
    changed = X.copy()
    frequent = np.flatnonzero(X.indices == np.bincount(X.indices).argmax())
    changed.data[frequent[rng.random(len(frequent)) < SENTINEL_SHARE]] = SENTINEL
    return changed


def robustness(X: Any, y: Any) -> list[float]:
    """Return the loss, and the factors by which the changes of the docstring raise it."""
    rng, row = np.random.default_rng(0), len(y) // 10
    weights = np.ones(len(y))
    weights[row] = LARGE_WEIGHT
    loss = loss_of(X, y)
    changed = [
        loss_of(with_scaled_columns(X, rng), y),
        *(loss_of(with_scaled_row(X, row, factor), y) for factor in ROW_FACTORS),
        loss_of(X, y, weights),
        loss_of(with_sentinels(X, rng), y),
    ]
    return [loss, *(changed_loss / loss for changed_loss in changed)]


def frozen_loss(X: Any, y: Any) -> float:
    """Return the loss of the last fifth by a model frozen before it."""
    n = 4 * len(y) // 5
    model = streaml1.ElasticNetClassifier()
    model.learn_many(X[:n], y[:n])
    return log_loss(model.freeze().predict_proba_many(X[n:])[:, 1], y[n:])


def simulated_clicks(n: int, seed: int) -> tuple[Any, Any]:
    """Return a day of clicks: a site, an ad, a device, an hour, a user and two numbers each."""
    rng, effects = np.random.default_rng(seed), np.random.default_rng(0)
    sizes = {"site": 3000, "ad": 5000, "device": 3, "hour": 24, "user": 200_000}
    scales = {"site": 0.6, "ad": 0.5, "device": 0.5, "hour": 0.5, "user": 0.2}
    columns, margin = [], np.full(n, -3.2)
    for name, size in sizes.items():
        skew = 1.0 if name in ("device", "hour") else 3.0
        codes = (size * rng.random(n) ** skew).astype(np.int64)
        margin += effects.normal(scale=scales[name], size=size)[codes]
        columns.append(csr_matrix((np.ones(n), codes, np.arange(n + 1)), (n, size)))
    columns.append(csr_matrix(np.column_stack([rng.random(n), np.exp(rng.normal(1.0, 0.7, n))])))
    return hstack(columns, format="csr"), rng.random(n) < 1.0 / (1.0 + np.exp(-margin))


def levels() -> Any:
    """Return predicted over observed clicks of the next day, after every 1,000 examples."""
    (X, y), (X_next, y_next) = simulated_clicks(CLICK_ROWS, 1), simulated_clicks(CLICK_ROWS, 2)
    model, found = streaml1.ElasticNetClassifier(), []
    for lo in range(0, CLICK_ROWS, 1000):
        model.learn_many(X[lo : lo + 1000], y[lo : lo + 1000])
        found.append(model.freeze().predict_proba_many(X_next)[:, 1].sum() / y_next.sum())
    return np.array(found)


def table_of(title: str, *columns: str) -> Table:
    """Return an empty table with a left-aligned first column."""
    table = Table(title=title, title_justify="left")
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", nargs="*", metavar="SOURCE")
    rows = (f"row x {factor:g}" for factor in ROW_FACTORS)
    changes = table_of(
        "progressive log-loss, and its factor under changes of the data",
        *("stream", "log-loss", "scaled columns", *rows, "weight 1e6", "sentinels"),
    )
    frozen = table_of("last fifth, by a frozen model", "stream", "auto", "VW", "VW --coin", "ratio")
    ratios = []
    for source in parser.parse_args().sources or DEFAULT_SOURCES:
        xs, ys = load_examples(source)
        X, y, name = to_csr(xs), np.array(ys), Path(source).name
        changes.add_row(name, *(f"{v:.4f}" for v in robustness(X, y)))
        loss = frozen_loss(X, y)
        theirs = rivals(xs, ys, 4 * len(ys) // 5)
        ratios += [loss / min(theirs).loss] if theirs else []
        ratio = f"{ratios[-1]:.3f}" if theirs else "-"
        frozen.add_row(name, f"{loss:.4f}", *rival_cells(theirs), ratio)
    console = Console(width=110)
    console.print(changes)
    console.print(frozen)
    if ratios:
        console.print(ratio_line(ratios))
    level = levels()
    for first in (10_000, 20_000, 30_000):
        later = level[first // 1000 - 1 :]
        console.print(
            f"level of saved models from {first:,} examples on: {later.min():.3f} to "
            f"{later.max():.3f}, mean {later.mean():.3f}"
        )


if __name__ == "__main__":
    main()
