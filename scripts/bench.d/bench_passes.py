"""Passes over rows in memory, as ratios to a bare SGD kernel without a penalty."""

from __future__ import annotations

import math
import runpy
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from bench_kit import (
    CONSOLE,
    SEED,
    ball_model,
    bare_run,
    elastic_net,
    interleave,
    new_table,
    repeat_until,
    uniform_rows,
    w1,
    w2,
)
from scipy.sparse import csr_matrix

import streaml1


def dense_step_seconds(X: Any, y: Any, eta: float, n: int = 200) -> float:
    """Return the seconds per row of the dense FoBoS update, in-place numpy."""
    w, size = np.zeros(X.shape[1]), np.empty(X.shape[1])
    begin = time.thread_time()
    for i in range(n):
        lo, hi = X.indptr[i], X.indptr[i + 1]
        ids, values = X.indices[lo:hi], X.data[lo:hi]
        step = eta * (1.0 / (1.0 + math.exp(-(w[ids] @ values))) - y[i])
        w[ids] -= step * values
        np.abs(w, out=size)
        size -= eta * 1e-6
        np.maximum(size, 0.0, out=size)
        size /= 1.0 + eta * 1e-6
        np.copysign(size, w, out=w)
    return (time.thread_time() - begin) / n


def bench_csr() -> None:
    """Measure a progressive pass over CSR rows."""
    results = new_table(
        "a progressive pass over CSR rows, l1 = l2 = 1e-6",
        *("workload", "rows", "non-zeros", "bare SGD ns/nnz", "elastic net ns/nnz", "ratio"),
        *("dense numpy / elastic net",),
    )
    for name, (X, y), eta in (("W1", w1(), 3.0), ("W2", w2(), 0.02)):
        runs = {
            "bare": bare_run(X, y, eta),
            "net": lambda X=X, y=y, eta=eta: elastic_net(eta).progressive_many(X, y),  # type: ignore
        }
        seconds = interleave(runs, 15)
        ratio = np.median(seconds["net"] / seconds["bare"])
        dense = dense_step_seconds(X, y, eta)
        row = np.median(seconds["net"]) / X.shape[0]
        results.add_row(
            *(name, f"{X.shape[0]:,}", f"{X.nnz / X.shape[0]:.1f}"),
            f"{np.median(seconds['bare']) / X.nnz * 1e9:.2f}",
            f"{np.median(seconds['net']) / X.nnz * 1e9:.2f}",
            *(f"{ratio:.2f}", f"{dense / row:,.0f}"),
        )
    CONSOLE.print(results)


def bench_models() -> None:
    """Measure a progressive pass of each model over the rows of W1, as a ratio to bare SGD."""
    X, y = w1()
    net, truncated = streaml1.ElasticNetClassifier, streaml1.TruncatedGradientClassifier
    fobos = streaml1.FOBOSClassifier
    ball = streaml1.L1BallClassifier
    both, constant = {"l1": 1e-6, "l2": 1e-6, "lr": 3.0}, {"schedule": "constant"}
    learners: dict[str, Callable[[], Any]] = {
        "elastic net": lambda: net(**both, **constant),
        "  averaged": lambda: net(**both, **constant, average=True),
        '  lr="auto"': lambda: net(l1=1e-6, l2=1e-6, lr="auto"),
        "  explicit stamps, constant rate": lambda: net(**both, **constant, stamps="explicit"),
        "  explicit stamps, falling rate": lambda: net(**both, stamps="explicit"),
        "truncated gradient": lambda: truncated(gravity=1e-6, lr=3.0, **constant),
        "  with a threshold": lambda: truncated(gravity=1e-6, lr=3.0, threshold=1.0, **constant),
        "  averaged, no threshold": lambda: truncated(
            gravity=1e-6, lr=3.0, **constant, average=True
        ),
        "FTRL-Proximal": lambda: streaml1.FTRLClassifier(alpha=3.0, l1=0.1),
        "l1 ball, radius 1,000": lambda: ball(radius=1e3, lr=3.0, **constant),
        "  tree index": lambda: ball(radius=1e3, lr=3.0, index="tree", **constant),
        "Pegasos": lambda: streaml1.PegasosClassifier(l2=1e-4),
        "  without its projection": lambda: streaml1.PegasosClassifier(l2=1e-4, project=False),
        "  averaged, projected": lambda: streaml1.PegasosClassifier(l2=1e-4, average=True),
        "FoBoS, l2 norm of all weights": lambda: fobos(lr=3.0, **constant),
        "  l-infinity norm": lambda: fobos(norm="linf", lr=3.0, **constant),
        "  l-infinity norm, 0.1": lambda: fobos(norm="linf", strength=0.1, lr=3.0, **constant),
        "SMIDAS": lambda: streaml1.SMIDASClassifier(l1=1e-5, lr=0.3, **constant),
        "  with p = 4": lambda: streaml1.SMIDASClassifier(l1=1e-5, p=4, lr=0.3, **constant),
        "EG+-": lambda: streaml1.EGClassifier(lr=0.3, **constant),
        "EG": lambda: streaml1.EGClassifier(lr=0.3, nonnegative=True, **constant),
    }
    runs = {"bare": bare_run(X, y, 3.0)}
    for name, make in learners.items():
        runs[name] = lambda make=make: make().progressive_many(X, y)  # type: ignore
    seconds = interleave(runs, 15)
    results = new_table(f"W1: {X.shape[0]:,} rows, {X.nnz:,} non-zeros", "model", "ns/nnz", "ratio")
    for name, times in seconds.items():
        ratio = np.median(times / seconds["bare"])
        results.add_row(name, f"{np.median(times) / X.nnz * 1e9:.2f}", f"{ratio:.2f}")
    CONSOLE.print(results)


def bench_ball() -> None:
    """Measure a row of W1 in an l1 ball with about 100,000 non-zero weights.

    `demos/ball_sizes.py` measures other sizes.
    """
    demo = runpy.run_path(str(Path(__file__).parent.parent.parent / "demos" / "ball_sizes.py"))
    X, y = w1()
    size = demo["measure"](100_000, X, y.astype(float))
    bare, linear, lean = (size.us[name] for name in ("no ball", "linear", "lean linear"))
    results = new_table(
        f"W1 in the l1 ball: {size.active:,} non-zero weights",
        *("", "us/row", "x bare SGD", "linear-time projection /", "lean projection /"),
    )
    for name, us in size.us.items():
        results.add_row(
            *(name, f"{us:,.2f}", f"{us / bare:,.1f}", f"{linear / us:,.1f}", f"{lean / us:,.1f}")
        )
    CONSOLE.print(results)


def compare_with_bare(learner: Any, X: Any, y: Any) -> tuple[float, float, float]:
    """Return the ns per row of bare SGD and of a model that keeps learning, and their ratio."""
    learner.progressive_many(X, y)
    runs = {"bare": bare_run(X, y, 0.02), "model": lambda: learner.progressive_many(X, y)}
    seconds = interleave(runs, 7)
    bare, model = (float(np.median(times)) / X.shape[0] * 1e9 for times in seconds.values())
    return bare, model, float(np.median(seconds["model"] / seconds["bare"]))


def bench_flat() -> None:
    """Measure the cost of a row as the dimension and the number of examples grow."""
    flat_elastic_net()
    flat_ball()
    flat_time()


def flat_elastic_net() -> None:
    results = new_table(
        "40 non-zeros a row, drawn uniformly", "d", "bare ns/row", "net ns/row", "ratio"
    )
    for d in (10**4, 10**5, 10**6, 10**7):
        X, y = uniform_rows(d)
        bare, net, ratio = compare_with_bare(elastic_net(0.02), X, y)
        results.add_row(f"{d:,}", f"{bare:.0f}", f"{net:.0f}", f"{ratio:.2f}")
    CONSOLE.print(results)


def flat_ball() -> None:
    # The active set depends on the rows, so the rows are the same for each d.
    title = "l1 ball of radius 30: the same 10,000 features, spread evenly over d occupied slots"
    results = new_table(title, "d", "bare ns/row", "ball ns/row", "ratio", "non-zeros")
    rng = np.random.default_rng(SEED)
    ids = np.sort(np.stack([rng.choice(10**4, 40, replace=False) for _ in range(20_000)]), axis=1)
    y = rng.random(20_000) < 0.5
    for d in (10**4, 10**5, 10**6, 10**7):
        spread = (ids * (d // 10**4)).ravel()
        X = csr_matrix((np.ones(ids.size), spread, np.arange(20_001) * 40), (20_000, d))
        learner = ball_model(30.0, 0.02)
        learner.learn_many(csr_matrix((np.full(d, 1e-9), np.arange(d), [0, d]), (1, d)), [True])
        bare, ball, ratio = compare_with_bare(learner, X, y)
        results.add_row(
            f"{d:,}", f"{bare:.0f}", f"{ball:.0f}", f"{ratio:.2f}", f"{learner.n_nonzero:,}"
        )
    CONSOLE.print(results)


def flat_time() -> None:
    columns = "t", "net ns/row", "ball ns/row", "l-infinity ns/row"
    results = new_table("the same 1,000 rows repeatedly", *columns)
    X, y = w1(1000)
    linf = streaml1.FOBOSClassifier(norm="linf", lr=3.0, schedule="constant")
    models: tuple[Any, ...] = (elastic_net(3.0, l1=1e-4, l2=1e-4), ball_model(1e2, 3.0), linf)
    runs = [partial(model.progressive_many, X, y) for model in models]
    for start, end in pairwise((0, 10**3, 10**4, 10**5, 10**6, 10**7)):
        seconds = repeat_until(runs, start, end)
        results.add_row(f"{end:,}", *(f"{row * 1e9:.0f}" for row in seconds))
    CONSOLE.print(results)
