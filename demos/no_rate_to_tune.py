"""Compare lr="auto" with the best learning rate in hindsight: progressive loss of whole streams.

    python demos/no_rate_to_tune.py [SOURCE ...]

SOURCE is a file whose format marks the label (svmlight, .vw, JSON lines, .rows), a named source
such as data:sms-spam, or an .npz file with the arrays data, indices, indptr, shape and y. Labels
are binary. The default is the stream stdlib and two data sets of river.

The table also has the best rate in hindsight, of two schedules and of 20 learning rates for each of
four rates of the intercept, grids that are extended until the best is inside; FTRL with its
defaults; and Vowpal Wabbit with its defaults and with --coin, if `VW_PYTHON` names an
interpreter that has it. The last line has the geometric mean and the maximum of auto over the
better of these two.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from papers.grid import Found, search
from rich.console import Console
from rich.table import Table
from streams import (
    DEFAULT_SOURCES,
    load_examples,
    progressive_outcome,
    ratio_line,
    rival_cells,
    rivals,
    to_csr,
)

import streaml1

RATES = np.geomspace(1e-6, 1e3, 20)
INTERCEPT_RATES = (0.0, 0.01, 0.1, 1.0)


def best_rate(X: Any, ys: Any) -> tuple[float, str]:
    """Return the minimum loss over all rates and schedules, and the setting that has it."""
    return min(best_of_schedule(X, ys, schedule) for schedule in ("constant", "invsqrt"))


def best_of_schedule(X: Any, ys: Any, schedule: str) -> tuple[float, str]:
    """Return the minimum loss over both rates, and the setting that has it."""

    def search_rates(intercept_lr: float) -> Found:
        def loss(rate: float) -> float:
            model = streaml1.ElasticNetClassifier(
                lr=rate, schedule=schedule, intercept_lr=intercept_lr
            )
            return progressive_outcome(model, X, ys).loss

        return search(loss, RATES.tolist(), lambda loss: loss, name="learning rate")

    best = search(
        search_rates, INTERCEPT_RATES, lambda found: found.result, name="rate of the intercept"
    )
    rate: Found = best.result
    return rate.result, f"{rate.value:.2g} {schedule}, {best.value:g}{rate.note or best.note}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("sources", nargs="*", metavar="SOURCE")
    table = Table()
    for k, column in enumerate(
        ("stream", "examples", "auto", "best rate", "auto / best", "FTRL", "VW", "VW --coin")
    ):
        table.add_column(column, justify="left" if k == 0 else "right")
    ratios = []
    for source in parser.parse_args().sources or DEFAULT_SOURCES:
        xs, ys = load_examples(source)
        X = to_csr(xs)
        auto = progressive_outcome(streaml1.ElasticNetClassifier(), X, ys).loss
        best, best_setting = best_rate(X, ys)
        ftrl = progressive_outcome(streaml1.FTRLClassifier(), X, ys)
        theirs = rivals(xs, ys)
        if theirs:
            ratios.append(auto / min(theirs).loss)
        name = Path(source).name
        table.add_row(name, f"{len(ys):,}", f"{auto:.4f}", f"{best:.4f} ({best_setting})",
                      f"{auto / best:.3f}", f"{ftrl.loss:.4f}", *rival_cells(theirs))  # fmt: skip
    console = Console(width=120)
    console.print(table)
    if ratios:
        console.print(ratio_line(ratios))


if __name__ == "__main__":
    main()
