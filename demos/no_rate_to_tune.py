"""Compare lr="auto" with the best learning rate in hindsight: progressive loss of whole streams.

    python demos/no_rate_to_tune.py [SOURCE ...]

SOURCE is a file whose format marks the label (svmlight, .vw, JSON lines, .rows), a named source
such as data:sms-spam, or an .npz file with the arrays data, indices, indptr, shape and y. Labels
are binary. The default is the stream stdlib and two data sets of river.

The table also has the best of 20 rates in hindsight, over two schedules and three intercept rates;
FTRL with its defaults; and Vowpal Wabbit with its defaults and with --coin, if `VW_PYTHON` names an
interpreter that has it. The last line has the geometric mean and the maximum of auto over the
better of these two.
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


def load_examples(source: str) -> tuple[list[dict[Any, Any]], list[bool]]:
    if source.endswith(".npz"):
        return load_matrix(source)

    def reject(position: str, reason: str, *_: Any) -> None:
        raise SystemExit(f"{position}: {reason}")

    xs: list[dict[Any, Any]] = []
    ys: list[bool] = []
    try:
        for block in open_source(source).blocks(1000, reject):
            xs += list(block.x)
            ys += [binary_label(y) for y in block.y]
    except SourceError as error:
        raise SystemExit(str(error)) from None
    return xs, ys


def load_matrix(path: str) -> tuple[list[dict[Any, Any]], list[bool]]:
    with np.load(path) as file:
        ids, values, indptr = (file[name].tolist() for name in ("indices", "data", "indptr"))
        labels = [bool(y) for y in file["y"]]
    xs: list[dict[Any, Any]] = [
        dict(zip(ids[lo:hi], values[lo:hi], strict=True)) for lo, hi in itertools.pairwise(indptr)
    ]
    return xs, labels


def to_csr(xs: list[dict[Any, Any]]) -> Any:
    """Convert the examples to CSR, with a column for each numeric feature and each category."""
    columns: dict[Any, int] = {}
    rows, column_ids, values = [], [], []
    for i, x in enumerate(xs):
        for name, v in x.items():
            key, value = ((name, v), 1.0) if isinstance(v, str) else (name, float(v))
            rows.append(i)
            column_ids.append(columns.setdefault(key, len(columns)))
            values.append(value)
    return csr_matrix((values, (rows, column_ids)), shape=(len(xs), len(columns)))


def log_loss(p: Any, y: Any) -> float:
    p = np.clip(np.asarray(p, float), 1e-15, 1.0 - 1e-15)
    return float(-np.mean(np.where(y, np.log(p), np.log1p(-p))))


def progressive_loss(model: Any, X: Any, ys: Any) -> float:
    return log_loss(model.progressive_many(X, ys), ys)


def best_rate(X: Any, ys: Any) -> tuple[float, str]:
    """Return the minimum loss over all rates and schedules, and the setting that has it."""
    candidates = []
    for schedule, intercept_lr in itertools.product(("constant", "invsqrt"), INTERCEPT_RATES):
        for rate in RATES:
            model = streaml1.ElasticNetClassifier(
                lr=float(rate), schedule=schedule, intercept_lr=intercept_lr
            )
            candidates.append(
                (progressive_loss(model, X, ys), f"{rate:.2g} {schedule}, {intercept_lr:g}")
            )
    return min(candidates)


def vw_loss(xs: list[dict[Any, Any]], ys: list[bool], options: str) -> float:
    python = os.environ.get("VW_PYTHON")
    if not python:
        return math.nan
    lines = [f"{1 if y else -1} | {' '.join(vw_features(x))}" for x, y in zip(xs, ys, strict=True)]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([lines, options], file)
        file.flush()
        process = subprocess.run([python, "-c", VW, file.name], stdout=subprocess.PIPE, check=True)
    return log_loss(json.loads(process.stdout), ys)


def vw_features(x: dict[Any, Any]) -> list[str]:
    """Format the features of an example as Vowpal Wabbit text."""
    pairs = [
        (f"{name}={v}", 1.0) if isinstance(v, str) else (name, float(v)) for name, v in x.items()
    ]
    vw_names = [("".join("_" if c in " :|\n" else c for c in str(name)), v) for name, v in pairs]
    return [f"f{name}:{v!r}" for name, v in vw_names if v]


def main() -> None:
    table = Table()
    for k, column in enumerate(
        ("stream", "examples", "auto", "best of 20 rates", "auto / best", "FTRL", "VW", "VW --coin")
    ):
        table.add_column(column, justify="left" if k == 0 else "right")
    ratios = []
    for source in sys.argv[1:] or SOURCES:
        xs, ys = load_examples(source)
        X = to_csr(xs)
        auto = progressive_loss(streaml1.ElasticNetClassifier(lr="auto"), X, ys)
        best, best_setting = best_rate(X, ys)
        rival_losses = [progressive_loss(streaml1.FTRLClassifier(), X, ys), vw_loss(xs, ys, ""),
                  vw_loss(xs, ys, "--coin")]  # fmt: skip
        cells = ["-" if math.isnan(loss) else f"{loss:.4f}" for loss in rival_losses]
        ratios.append(auto / min(rival_losses[1:]))
        name = Path(source).name
        table.add_row(name, f"{len(ys):,}", f"{auto:.4f}", f"{best:.4f} ({best_setting})",
                      f"{auto / best:.3f}", *cells)  # fmt: skip
    console = Console(width=120)
    console.print(table)
    if not any(map(math.isnan, ratios)):
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        console.print(f"auto / the better of VW's two: mean {mean:.3f}, maximum {max(ratios):.3f}")


if __name__ == "__main__":
    main()
