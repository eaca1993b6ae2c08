"""Streams of the demos: examples of any source, progressive losses, runs of Vowpal Wabbit."""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import tempfile
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

import streaml1.datasets  # noqa: F401 (stdlib is one of them)
from streaml1.sources import SourceError, binary_label, open_source

Examples = list[dict[Any, Any]]

DEFAULT_SOURCES = ["stdlib", "river:Phishing", "river:Bananas"]

# Learn the first n lines and predict the rest; print the prediction of each line, made before it
# was learnt, and the number of non-zero weights.
VW = """
import json, sys, tempfile
import vowpalwabbit
lines, options, n_learnt = json.load(open(sys.argv[1]))
with tempfile.NamedTemporaryFile() as readable:
    vw = vowpalwabbit.Workspace(
        "--loss_function logistic --link logistic -b 24 --quiet --readable_model "
        + readable.name + " " + options
    )
    p = []
    for k, line in enumerate(lines):
        example = vw.parse(line)
        if k < n_learnt:
            vw.learn(example)
        else:
            vw.predict(example)
        p.append(example.get_simplelabel_prediction())
        vw.finish_example(example)
    vw.finish()
    lines = [line.partition(":") for line in open(readable.name)]
n = sum(1 for slot, _, rest in lines if slot.isdigit() and float(rest.split()[0]) != 0.0)
print(json.dumps([p, n]))
"""


class Outcome(NamedTuple):
    """Progressive loss of a stream, and the non-zero weights at its end."""

    loss: float
    n_nonzero: int


def load_examples(source: str) -> tuple[Examples, list[bool]]:
    """Return the examples and binary labels of a source.

    It is a file whose format marks the label (svmlight, .vw, JSON lines, .rows), a named source
    such as data:sms-spam, or an .npz file with the arrays data, indices, indptr, shape and y.
    """
    if source.endswith(".npz"):
        return _load_matrix(source)

    def reject(position: str, reason: str, *_: Any) -> None:
        raise SystemExit(f"{position}: {reason}")

    xs: Examples = []
    ys: list[bool] = []
    try:
        for block in open_source(source).blocks(1000, reject):
            xs += list(block.x)
            ys += [binary_label(y) for y in block.y]
    except SourceError as error:
        raise SystemExit(str(error)) from None
    return xs, ys


def _load_matrix(path: str) -> tuple[Examples, list[bool]]:
    with np.load(path) as file:
        ids, values, indptr = (file[name].tolist() for name in ("indices", "data", "indptr"))
        labels = [bool(y) for y in file["y"]]
    xs: Examples = [
        dict(zip(ids[lo:hi], values[lo:hi], strict=True)) for lo, hi in itertools.pairwise(indptr)
    ]
    return xs, labels


def to_csr(xs: Examples) -> Any:
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
    """Return the mean log-loss of probabilities."""
    p = np.clip(np.asarray(p, float), 1e-15, 1.0 - 1e-15)
    return float(-np.mean(np.where(y, np.log(p), np.log1p(-p))))


def progressive_outcome(model: Any, X: Any, ys: Any) -> Outcome:
    """Return the outcome of one pass, in which each row is predicted before it is learnt."""
    loss = log_loss(model.progressive_many(X, ys), ys)
    return Outcome(loss, model.n_nonzero)


def vw_outcome(
    xs: Examples, ys: list[bool], options: str = "", n_learnt: int | None = None
) -> Outcome | None:
    """Return the outcome of Vowpal Wabbit; None unless `VW_PYTHON` names an interpreter with it.

    With `n_learnt`, only this many examples are learnt, the first ones, and the loss is that of the
    rest.
    """
    python = os.environ.get("VW_PYTHON")
    if not python:
        return None
    lines = [f"{1 if y else -1} | {' '.join(_vw_features(x))}" for x, y in zip(xs, ys, strict=True)]
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump([lines, options, len(ys) if n_learnt is None else n_learnt], file)
        file.flush()
        process = subprocess.run([python, "-c", VW, file.name], stdout=subprocess.PIPE, check=True)
    p, n_nonzero = json.loads(process.stdout)
    return Outcome(log_loss(p[n_learnt or 0 :], ys[n_learnt or 0 :]), n_nonzero)


def rivals(xs: Examples, ys: list[bool], n_learnt: int | None = None) -> list[Outcome]:
    """Return the outcomes of Vowpal Wabbit, with its defaults and with --coin, if there is one."""
    found = [vw_outcome(xs, ys, options, n_learnt) for options in ("", "--coin")]
    return [outcome for outcome in found if outcome is not None]


def rival_cells(outcomes: list[Outcome]) -> list[str]:
    """Return the losses of `rivals` as cells of a table."""
    return [f"{outcome.loss:.4f}" for outcome in outcomes] or ["-", "-"]


def ratio_line(ratios: list[float]) -> str:
    """Return a line with the mean and the maximum of auto's loss over that of the better rival."""
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"auto / the better of VW's two: mean {mean:.3f}, maximum {max(ratios):.3f}"


def _vw_features(x: dict[Any, Any]) -> list[str]:
    """Format the features of an example as Vowpal Wabbit text."""
    pairs = [
        (f"{name}={v}", 1.0) if isinstance(v, str) else (name, float(v)) for name, v in x.items()
    ]
    vw_names = [("".join("_" if c in " :|\n" else c for c in str(name)), v) for name, v in pairs]
    return [f"f{name}:{v!r}" for name, v in vw_names if v]
