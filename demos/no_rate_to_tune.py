"""lr="auto" beside every rate one might have chosen: progressive loss on whole streams.

    python demos/no_rate_to_tune.py [SOURCE ...]

SOURCE is a file that says itself which column is the label (svmlight, .vw, JSON lines, .rows), or a
named one as data:sms-spam, with two labels; without one the stream stdlib and two data sets of
river. Beside lr="auto" it prints the best of 20 rates, found in hindsight, for both schedules and
three rates of the intercept; FTRL with its defaults; and Vowpal Wabbit with its defaults and with
--coin, where `VW_PYTHON` names a Python that has it.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.sparse import csr_matrix

import streaml1
import streaml1.datasets  # stdlib is one of them
from streaml1.sources import SourceError, binary_label, open_source

SOURCES = ["stdlib", "river:Phishing", "river:Bananas"]
RATES = np.geomspace(1e-6, 1e3, 20)
INTERCEPT_RATES = (0.01, 0.1, 1.0)

VW = """
import json, sys
import vowpalwabbit
lines, options = json.load(open(sys.argv[1]))
vw = vowpalwabbit.Workspace("--loss_function logistic --link logistic -b 24 --quiet " + options)
p = []
for line in lines:
    example = vw.parse(line)
    vw.learn(example)
    p.append(example.get_simplelabel_prediction())
    vw.finish_example(example)
print(json.dumps(p))
"""


def examples(source: str) -> tuple[list[dict[Any, Any]], list[bool]]:
    def refuse(place: str, reason: str, *rest: Any) -> None:
        raise SystemExit(f"{place}: {reason}")

    xs: list[dict[Any, Any]] = []
    ys: list[bool] = []
    try:
        for block in open_source(source).blocks(1000, refuse):
            xs += list(block.x)
            ys += [binary_label(y) for y in block.y]
    except SourceError as error:
        raise SystemExit(str(error)) from None
    return xs, ys


def matrix(xs: list[dict[Any, Any]]) -> Any:
    """The examples as rows, a column for each number's name and each category."""
    columns: dict[Any, int] = {}
    rows, places, values = [], [], []
    for i, x in enumerate(xs):
        for name, v in x.items():
            key, value = ((name, v), 1.0) if isinstance(v, str) else (name, float(v))
            rows.append(i)
            places.append(columns.setdefault(key, len(columns)))
            values.append(value)
    return csr_matrix((values, (rows, places)), shape=(len(xs), len(columns)))


def log_loss(p: Any, y: Any) -> float:
    p = np.clip(np.asarray(p, float), 1e-15, 1.0 - 1e-15)
    return float(-np.mean(np.where(y, np.log(p), np.log1p(-p))))


def passed(model: Any, X: Any, ys: Any) -> float:
    return log_loss(model.progressive_many(X, ys), ys)


def best_rate(X: Any, ys: Any) -> tuple[float, str]:
    """The least loss of all rates and schedules, and which they are."""
    found = []
    for schedule, of_intercept in itertools.product(("constant", "invsqrt"), INTERCEPT_RATES):
        for rate in RATES:
            model = streaml1.ElasticNetClassifier(
                lr=float(rate), schedule=schedule, intercept_lr=of_intercept
            )
            found.append((passed(model, X, ys), f"{rate:.2g} {schedule}, {of_intercept:g}"))
    return min(found)


def in_vw(xs: list[dict[Any, Any]], ys: list[bool], options: str) -> float:
    python = os.environ.get("VW_PYTHON")
    if not python:
        return math.nan
    lines = [f"{1 if y else -1} | {' '.join(features(x))}" for x, y in zip(xs, ys, strict=True)]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([lines, options], file)
        file.flush()
        done = subprocess.run([python, "-c", VW, file.name], stdout=subprocess.PIPE, check=True)
    return log_loss(json.loads(done.stdout), ys)


def features(x: dict[Any, Any]) -> list[str]:
    """The features of an example as Vowpal Wabbit reads them."""
    pairs = [
        (f"{name}={v}", 1.0) if isinstance(v, str) else (name, float(v)) for name, v in x.items()
    ]
    plain = [("".join("_" if c in " :|\n" else c for c in str(name)), v) for name, v in pairs]
    return [f"f{name}:{v!r}" for name, v in plain if v]


def main() -> None:
    shown = Table()
    for k, column in enumerate(
        ("stream", "examples", "auto", "best of 20 rates", "auto / best", "FTRL", "VW", "VW --coin")
    ):
        shown.add_column(column, justify="left" if k == 0 else "right")
    for source in sys.argv[1:] or SOURCES:
        xs, ys = examples(source)
        X = matrix(xs)
        auto = passed(streaml1.ElasticNetClassifier(lr="auto"), X, ys)
        best, which = best_rate(X, ys)
        others = [passed(streaml1.FTRLClassifier(), X, ys), in_vw(xs, ys, ""),
                  in_vw(xs, ys, "--coin")]  # fmt: skip
        told = ["-" if math.isnan(loss) else f"{loss:.4f}" for loss in others]
        name = Path(source).name
        shown.add_row(name, f"{len(ys):,}", f"{auto:.4f}", f"{best:.4f} ({which})",
                      f"{auto / best:.3f}", *told)  # fmt: skip
    Console(width=120).print(shown)


if __name__ == "__main__":
    main()
