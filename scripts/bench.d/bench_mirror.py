"""SMIDAS and EG on rows in memory, as penalty, norm, dimension and number of examples grow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from bench_kit import CONSOLE, bare_run, interleave, new_table, repeat_until, uniform_rows, w1

import streaml1


def smidas(eta: float, **options: Any) -> streaml1.SMIDASClassifier:
    return streaml1.SMIDASClassifier(lr=eta, schedule="constant", **options)


def eg(eta: float, **options: Any) -> streaml1.EGClassifier:
    return streaml1.EGClassifier(lr=eta, schedule="constant", n_features=2**24, **options)


def bench_mirror() -> None:
    """Measure SMIDAS and EG as penalty, norm, dimension and number of examples grow."""
    bench_options()
    bench_dimension()
    bench_time()


def bench_options() -> None:
    X, y = w1()
    makes: dict[str, Callable[[], Any]] = {}
    for l1 in (1e-6, 1e-5, 1e-4):
        makes[f"SMIDAS, l1 = {l1:g}"] = lambda l1=l1: smidas(0.3, l1=l1)  # type: ignore
    for p in (2, 2.3, 3, 4, 10, 100):
        makes[f"SMIDAS, l1 = 1e-5, p = {p}"] = lambda p=p: smidas(0.3, l1=1e-5, p=p)  # type: ignore
    makes["EG+-"] = lambda: eg(0.3)
    makes["EG"] = lambda: eg(0.3, nonnegative=True)
    runs: dict[str, Callable[[], Any]] = {"bare SGD": bare_run(X, y, 0.3)}
    for name, make in makes.items():
        runs[name] = lambda make=make: make().progressive_many(X, y)  # type: ignore
    seconds = interleave(runs, 5)
    results = new_table("a progressive pass over W1", "model", "ns/nnz", "x bare SGD")
    for name, times in seconds.items():
        ratio = np.median(times / seconds["bare SGD"])
        results.add_row(name, f"{np.median(times) / X.nnz * 1e9:.1f}", f"{ratio:.1f}")
    CONSOLE.print(results)


def bench_dimension() -> None:
    results = new_table(
        "40 non-zeros a row, drawn uniformly",
        *("d", "bare ns/row", "SMIDAS ns/row", "ratio", "EG+- ns/row", "ratio"),
    )
    for d in (10**4, 10**5, 10**6, 10**7):
        X, y = uniform_rows(d)
        runs = {"bare": bare_run(X, y, 0.02)}
        for name, learner in (("SMIDAS", smidas(0.02, l1=1e-6)), ("EG", eg(0.02))):
            learner.progressive_many(X, y)
            runs[name] = lambda learner=learner, X=X, y=y: learner.progressive_many(X, y)  # type: ignore
        seconds = interleave(runs, 7)
        cells = [f"{np.median(seconds['bare']) / 20_000 * 1e9:.0f}"]
        for name in ("SMIDAS", "EG"):
            cells += [f"{np.median(seconds[name]) / 20_000 * 1e9:.0f}"]
            cells += [f"{np.median(seconds[name] / seconds['bare']):.1f}"]
        results.add_row(f"{d:,}", *cells)
    CONSOLE.print(results)


def bench_time() -> None:
    X, y = w1(1000)
    for name, learner in (("SMIDAS", smidas(0.3, l1=1e-5)), ("EG+-", eg(0.3))):
        results = new_table(f"one {name}, the same 1,000 rows repeatedly", "t", "ns/row")
        run = partial(learner.progressive_many, X, y)
        for start, end in pairwise((0, 10**3, 10**4, 10**5, 10**6, 10**7)):
            [seconds] = repeat_until([run], start, end)
            results.add_row(f"{end:,}", f"{seconds * 1e9:.0f}")
        CONSOLE.print(results)
