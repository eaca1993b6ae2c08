"""Softmax regression, compared with river's one-vs-rest and Vowpal Wabbit's --oaa.

Vowpal Wabbit runs in the interpreter that `VW_PYTHON` names, if installed there. Its rows are
parsed beforehand and only its learning is timed.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from functools import partial
from typing import Any

import bench_rivals
import numpy as np
from bench_kit import CONSOLE, csr_dicts, interleave, new_table, repeat_until, w1
from river import linear_model, multiclass, optim
from scipy.sparse import csr_matrix

import streaml1

SEED, K = 2015, 100
PENALTIES = ("l1", "l1/l2", "l1/linf")

VW = """
import json, sys, time
import vowpalwabbit
lines, options = json.load(open(sys.argv[1]))
vw = vowpalwabbit.Workspace(options)
examples = [vw.parse(line) for line in lines]
begin = time.thread_time()
for example in examples:
    vw.learn(example)
print(time.thread_time() - begin)
"""


def labels(X: Any, k: int) -> Any:
    """Draw labels of k classes that depend on 1,000 of the frequent features."""
    rng = np.random.default_rng(SEED)
    counts = np.bincount(X.indices, minlength=X.shape[1])
    support = rng.choice(np.argsort(-counts)[:5000], 1000, replace=False)
    margins = X[:, support] @ rng.normal(0.0, 12.0, (1000, k)) + rng.gumbel(size=(X.shape[0], k))
    return np.asarray(margins).argmax(axis=1)


def model(**options: Any) -> Any:
    settings: dict[str, Any] = {"strength": 1e-5, "lr": 3.0, "schedule": "constant"}
    return streaml1.SoftmaxClassifier(**settings | options)


def vowpal_wabbit(X: Any, y: Any) -> float | None:
    """Return the seconds in which Vowpal Wabbit learns the rows; None if it is not installed."""
    lines = [
        f"{label + 1} | " + " ".join(f"f{j}:{v!r}" for j, v in x.items())
        for x, label in zip(csr_dicts(X), y.tolist(), strict=True)
    ]
    options = f"--oaa {K} --loss_function logistic --sgd --l1 1e-5 -b 25 --quiet"
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump((lines, options), file)
        file.flush()
        python = os.environ.get("VW_PYTHON", sys.executable)
        process = subprocess.run([python, "-c", VW, file.name], capture_output=True, text=True)
    return float(process.stdout) if process.returncode == 0 else None


def river_seconds(xs: list[dict[int, float]], y: list[int], n: int) -> float:
    """Return the seconds in which river learns the last n rows, after one example per label."""
    rival = multiclass.OneVsRestClassifier(linear_model.LogisticRegression(optim.SGD(0.1), l1=1e-5))
    for label in range(K):
        rival.learn_one(xs[label], label)
    begin = time.thread_time()
    for x, label in zip(xs[-n:], y[-n:], strict=True):
        rival.learn_one(x, label)
    return time.thread_time() - begin


def bench_softmax() -> None:
    """Compare learning with that of rivals; then measure it as classes, d and t grow."""
    bench_rivals.python()
    compare_with_rivals()
    bench_shapes()
    bench_time()


def compare_with_rivals() -> None:
    """Learn rows of W1 with 100 classes and an l1 penalty, round after round."""
    X, _ = w1(6_000)
    y = labels(X, K)
    xs = csr_dicts(X)
    ours, ours_dict, theirs, vw = [], [], [], []
    for turn in range(4):
        whole, single = model(classes=range(K)), model(classes=range(K))
        begin = time.thread_time()
        whole.learn_many(X, y)
        ours.append((time.thread_time() - begin) / len(xs))
        for x, label in zip(xs[:1000], y[:1000].tolist(), strict=True):
            single.learn_one(x, label)
        begin = time.thread_time()
        for x, label in zip(xs[1000:3000], y[1000:3000].tolist(), strict=True):
            single.learn_one(x, label)
        ours_dict.append((time.thread_time() - begin) / 2000)
        theirs.append(river_seconds(xs, y.tolist(), 40) / 40)
        seconds = vowpal_wabbit(X, y)
        vw.append(float("nan") if seconds is None else seconds / len(xs))
        if turn == 0:  # compilation, cold caches
            ours, ours_dict, theirs, vw = [], [], [], []
    results = new_table(
        f"W1, {K} classes, l1 = 1e-5: learning a row of {X.nnz / len(xs):.0f} non-zeros",
        *("", "us/row", "x softmax", "x softmax on dicts"),
    )
    for name, times in (
        ("softmax, a matrix", ours),
        ("softmax, dicts", ours_dict),
        ("river OneVsRest(LogisticRegression), dicts", theirs),
        (f"Vowpal Wabbit --oaa {K} --sgd, parsed beforehand", vw),
    ):
        ratios = (np.median(np.array(times) / base) for base in (ours, ours_dict))
        results.add_row(
            name, f"{np.median(times) * 1e6:,.1f}", *(f"{ratio:.2f}" for ratio in ratios)
        )
    CONSOLE.print(results)


def bench_shapes() -> None:
    """Measure the cost of a non-zero as the number of classes and the dimension grow."""
    results = new_table("50 non-zeros a row, ns per non-zero", "classes", "d", *PENALTIES)
    for k, d in ((3, 10**4), (10, 10**4), (10, 10**5), (10, 10**6), (100, 10**4), (100, 10**5)):
        rng = np.random.default_rng(SEED)
        ids = (d * rng.random((4_000, 50)) ** 4).astype(np.int32)
        X = csr_matrix((np.full(ids.size, 0.2), ids.ravel(), np.arange(4_001) * 50), (4_000, d))
        X.sum_duplicates()
        y = (k * rng.random(4_000) ** 2).astype(int)
        runs = {}
        for penalty in PENALTIES:
            learner = model(classes=range(k), penalty=penalty, lr=0.5)
            learner.learn_many(X, y)
            runs[penalty] = lambda learner=learner, X=X, y=y: learner.learn_many(X, y)
        seconds = interleave(runs, 5)
        cells = (f"{np.median(seconds[name]) / X.nnz * 1e9:.0f}" for name in PENALTIES)
        results.add_row(f"{k}", f"{d:,}", *cells)
    CONSOLE.print(results)


def bench_time() -> None:
    """Measure the cost of a row as the number of examples grows."""
    results = new_table("10 classes, l1/l2, the same 1,000 rows repeatedly", "t", "us/row")
    learner = model(classes=range(10), penalty="l1/l2", l2=1e-4, lr=0.5)
    rng = np.random.default_rng(SEED)
    ids = rng.integers(0, 10**5, (1_000, 50))
    X = csr_matrix((np.full(ids.size, 0.2), ids.ravel(), np.arange(1_001) * 50), (1_000, 10**5))
    X.sum_duplicates()
    y = rng.integers(0, 10, 1_000)
    run = partial(learner.learn_many, X, y)
    for start, end in itertools.pairwise((0, 10**3, 10**4, 10**5, 10**6)):
        [seconds] = repeat_until([run], start, end)
        results.add_row(f"{end:,}", f"{seconds * 1e6:.2f}")
    CONSOLE.print(results)
