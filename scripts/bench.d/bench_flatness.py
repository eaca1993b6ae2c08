"""Every online learner as time passes and as the dimension grows: a row should cost the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from bench_kit import CONSOLE, SEED, bare_sgd, in_turn, table, w1
from scipy.sparse import csr_matrix

import streaml1
from streaml1.core.aligned import aligned_zeros

REACHES = tuple(10**n for n in range(3, 8))
DIMENSIONS = tuple(10**n for n in range(4, 8))
ROWS, STREAM, LATEST = 1000, 100_000, 50
MOST_FOR_EG = 2**24


def learners(eta: float) -> dict[str, Callable[[], Any]]:
    """One of each kind, at a constant rate where it has one."""
    steady: dict[str, Any] = {"lr": eta, "schedule": "constant"}
    mirror: dict[str, Any] = {"lr": 0.1 * eta, "schedule": "constant"}
    net, truncated = streaml1.ElasticNetClassifier, streaml1.TruncatedGradientClassifier
    ball, fobos = streaml1.L1BallClassifier, streaml1.FOBOSClassifier
    smidas, pegasos = streaml1.SMIDASClassifier, streaml1.PegasosClassifier
    both = {"l1": 1e-5, "l2": 1e-5}
    return {
        "elastic net": lambda: net(**both, **steady),
        "  averaged (elastic net)": lambda: net(**both, **steady, average=True),
        '  lr="auto"': lambda: net(**both, lr="auto"),
        "  explicit stamps": lambda: net(**both, lr=eta, stamps="explicit"),
        "truncated gradient": lambda: truncated(gravity=1e-5, **steady),
        "  averaged (truncated)": lambda: truncated(gravity=1e-5, **steady, average=True),
        "FTRL-Proximal": lambda: streaml1.FTRLClassifier(alpha=eta, l1=0.1),
        "l1 ball": lambda: ball(radius=100.0, **steady),
        "  by the tree": lambda: ball(radius=100.0, index="tree", **steady),
        "Pegasos": lambda: pegasos(l2=1e-4),
        "  averaged (Pegasos)": lambda: pegasos(l2=1e-4, average=True),
        "FoBoS, l2 norm": lambda: fobos(strength=0.01, **steady),
        "  l-infinity, 1e-4": lambda: fobos(norm="linf", **steady),
        "  l-infinity, 0.01": lambda: fobos(norm="linf", strength=0.01, **steady),
        "  l-infinity, 0.1": lambda: fobos(norm="linf", strength=0.1, **steady),
        "  l-infinity, 1": lambda: fobos(norm="linf", strength=1.0, **steady),
        "SMIDAS": lambda: smidas(l1=1e-5, **mirror),
        "  p = 3": lambda: smidas(l1=1e-5, p=3, **mirror),
        "EG+-": lambda: streaml1.EGClassifier(n_features=MOST_FOR_EG, **mirror),
        "softmax, 2 classes": lambda: streaml1.SoftmaxClassifier(strength=1e-5, **steady),
    }


def bare_run(X: Any, y: Any, eta: float) -> Callable[[], Any]:
    """Bare SGD that goes on with its weights: no time for new ones, which grows with d."""
    ids, indptr = X.indices.view(np.uint32), X.indptr.astype(np.uint64)
    w = aligned_zeros(X.shape[1], np.float64)
    p, target = np.empty(X.shape[0]), y.astype(float)
    w[:] = 0.0
    return lambda: bare_sgd(w, ids, X.data, indptr, target, eta, p)


def opened(make: Callable[[], Any], X: Any) -> Any:
    """Make a model that has given a slot to each feature, and learnt nothing."""
    kept, d = make(), X.shape[1]
    for label in (False, True):
        every = csr_matrix((np.ones(d), np.arange(d), [0, d]), (1, d))
        kept.learn_many(every, [label], [0.0])
    return kept


def bench_flatness() -> None:
    """Every learner from t = 10^3 to 10^7, and from d = 10^4 to 10^7."""
    over_time()
    over_one_thousand()
    over_dimension()


def spread(ratios: list[float]) -> str:
    return f"{max(ratios) / min(ratios):.2f}"


def over_time() -> None:
    """A stream that no weights fit, so that these come to rest while t grows."""
    X, y = w1(STREAM, 10**4)
    cuts = range(0, STREAM, ROWS)
    parts = [(X[k : k + ROWS], y[k : k + ROWS]) for k in cuts]
    _over(
        f"{STREAM:,} rows of 10,000 features, again and again: ns a row; and as ratios to bare SGD",
        *(parts, learners(3.0), REACHES),
    )


def over_one_thousand() -> None:
    """Rows that weights fit: more and more of these come to the level of the l-infinity norm."""
    X, y = w1(ROWS)
    X = X[:, np.unique(X.indices)]
    of_linf = {name: make for name, make in learners(3.0).items() if "l-infinity" in name}
    _over(
        f"the same {ROWS:,} rows of {X.shape[1]:,} features: ns a row; and as ratios to bare SGD",
        *([(X, y)], of_linf, REACHES[:-1]),
    )


def _over(
    title: str, parts: list[Any], every: dict[str, Callable[[], Any]], reaches: Sequence[int]
) -> None:
    bares = [bare_run(X, y, 3.0) for X, y in parts]
    names = [f"t = {reach:,}" for reach in reaches]
    made = table(title, *("model", *names, "last / first", "most / least"))
    (X, y), bare = parts[0], bares[0]
    for name, make in every.items():
        opened(make, X).progressive_many(X, y)
        # Of the first rows there are only so many: several models learn them.
        young = [_beside(opened(make, X), bare, X, y) for _ in range(7)]
        kept, t, told, ratios = opened(make, X), 0, [], []
        for reach in reaches:
            took: list[tuple[float, float]] = young if reach <= ROWS else []
            while t < reach:
                k = t // ROWS % len(parts)
                if reach > ROWS and reach - t <= LATEST * ROWS:
                    took.append(_beside(kept, bares[k], *parts[k]))
                else:
                    kept.progressive_many(*parts[k])
                t += ROWS
            its, others = np.array(took).T
            told.append(f"{np.median(its) * 1e9:.0f}")
            ratios.append(float(np.median(its / others)))
        made.add_row(name, *told, f"{ratios[-1] / ratios[0]:.2f}", spread(ratios))
    CONSOLE.print(made)


def _beside(kept: Any, bare: Callable[[], Any], X: Any, y: Any) -> tuple[float, float]:
    """Seconds a row of one more pass, and of bare SGD."""
    seconds = []
    for run in (partial(kept.progressive_many, X, y), bare):
        begin = time.thread_time()
        run()
        seconds.append((time.thread_time() - begin) / ROWS)
    return seconds[0], seconds[1]


def over_dimension() -> None:
    """Rows of the same 10,000 features, spread over d slots that are all in use."""
    made = table(
        "the same 10,000 features, 40 a row, over d slots: ratio to bare SGD on the same rows",
        *("model", *(f"d = {d:,}" for d in DIMENSIONS), "last / first", "most / least"),
    )
    rng = np.random.default_rng(SEED)
    n = 10 * ROWS
    ids = np.sort(np.stack([rng.choice(10**4, 40, replace=False) for _ in range(n)]), axis=1)
    y = rng.random(n) < 0.5
    for name, make in learners(0.3).items():
        ratios = []
        for d in DIMENSIONS:
            at = (ids * (d // 10**4)).ravel()
            X = csr_matrix((np.full(at.size, 40**-0.5), at, np.arange(n + 1) * 40), (n, d))
            kept = opened(make, X)
            kept.progressive_many(X, y)
            runs: dict[str, Callable[[], Any]] = {"bare": bare_run(X, y, 0.3)}
            runs["it"] = partial(kept.progressive_many, X, y)
            seconds = in_turn(runs, 5)
            ratios.append(float(np.median(seconds["it"] / seconds["bare"])))
        told = (f"{ratio:.2f}" for ratio in ratios)
        made.add_row(name, *told, f"{ratios[-1] / ratios[0]:.2f}", spread(ratios))
    CONSOLE.print(made)
