"""SMIDAS and EG on rows in memory, as penalty, norm, dimension and time grow."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_kit import (
    CONSOLE,
    SEED,
    bare_run,
    in_turn,
    table,
    w1,
)
from scipy.sparse import csr_matrix

import streaml1


def smidas(eta: float, **options: Any) -> streaml1.SMIDASClassifier:
    return streaml1.SMIDASClassifier(lr=eta, schedule="constant", **options)


def eg(eta: float, **options: Any) -> streaml1.EGClassifier:
    return streaml1.EGClassifier(lr=eta, schedule="constant", n_features=2**24, **options)


def bench_mirror() -> None:
    """SMIDAS and EG on rows in memory, as penalty, norm, dimension and time grow."""
    mirror_options()
    mirror_dimension()
    mirror_time()


def mirror_options() -> None:
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
    seconds = in_turn(runs, 5)
    made = table("a progressive pass over W1", "model", "ns/nnz", "x bare SGD")
    for name, times in seconds.items():
        ratio = np.median(times / seconds["bare SGD"])
        made.add_row(name, f"{np.median(times) / X.nnz * 1e9:.1f}", f"{ratio:.1f}")
    CONSOLE.print(made)


def mirror_dimension() -> None:
    made = table(
        "40 non-zeros a row, drawn evenly",
        *("d", "bare ns/row", "SMIDAS ns/row", "ratio", "EG+- ns/row", "ratio"),
    )
    for d in (10**4, 10**5, 10**6, 10**7):
        rng = np.random.default_rng(SEED)
        ids = np.sort(rng.integers(0, d, (20_000, 40)), axis=1)
        X = csr_matrix((np.ones(ids.size), ids.ravel(), np.arange(20_001) * 40), (20_000, d))
        X.sum_duplicates()
        y = rng.random(20_000) < 0.5
        runs = {"bare": bare_run(X, y, 0.02)}
        for name, kept in (("SMIDAS", smidas(0.02, l1=1e-6)), ("EG", eg(0.02))):
            kept.progressive_many(X, y)
            runs[name] = lambda kept=kept, X=X, y=y: kept.progressive_many(X, y)  # type: ignore
        seconds = in_turn(runs, 7)
        told = [f"{np.median(seconds['bare']) / 20_000 * 1e9:.0f}"]
        for name in ("SMIDAS", "EG"):
            told += [f"{np.median(seconds[name]) / 20_000 * 1e9:.0f}"]
            told += [f"{np.median(seconds[name] / seconds['bare']):.1f}"]
        made.add_row(f"{d:,}", *told)
    CONSOLE.print(made)


def mirror_time() -> None:
    X, y = w1(1000)
    for name, kept in (("SMIDAS", smidas(0.3, l1=1e-5)), ("EG+-", eg(0.3))):
        made = table(f"one {name}, the same 1,000 rows again and again", "t", "ns/row")
        t = 0
        for reach in (10**3, 10**4, 10**5, 10**6, 10**7):
            times = []
            while t < reach:
                begin = time.thread_time()
                kept.progressive_many(X, y)
                times.append((time.thread_time() - begin) / 1000)
                t += 1000
            made.add_row(f"{t:,}", f"{np.median(times[-100:]) * 1e9:.0f}")
        CONSOLE.print(made)
