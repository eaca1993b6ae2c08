"""Cost of a row for every online learner, which should not grow with examples or dimension."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from bench_kit import CONSOLE, SEED, bare_sgd, interleave, new_table, thread_seconds, w1
from scipy.sparse import csr_matrix

import streaml1
from streaml1.core.aligned import aligned_zeros

MILESTONES = tuple(10**n for n in range(3, 8))
DIMENSIONS = tuple(10**n for n in range(4, 8))
BLOCK, STREAM_ROWS, LAST_PASSES = 1000, 100_000, 50
EG_FEATURES = 2**24


def learners(eta: float) -> dict[str, Callable[[], Any]]:
    """Return constructors of all learners, at a constant rate where they have one."""
    constant: dict[str, Any] = {"lr": eta, "schedule": "constant"}
    mirror: dict[str, Any] = {"lr": 0.1 * eta, "schedule": "constant"}
    net, truncated = streaml1.ElasticNetClassifier, streaml1.TruncatedGradientClassifier
    ball, fobos = streaml1.L1BallClassifier, streaml1.FOBOSClassifier
    smidas, pegasos = streaml1.SMIDASClassifier, streaml1.PegasosClassifier
    both = {"l1": 1e-5, "l2": 1e-5}
    return {
        "elastic net": lambda: net(**both, **constant),
        "  averaged (elastic net)": lambda: net(**both, **constant, average=True),
        '  lr="auto"': lambda: net(**both, lr="auto"),
        "  explicit stamps": lambda: net(**both, lr=eta, stamps="explicit"),
        "truncated gradient": lambda: truncated(gravity=1e-5, **constant),
        "  averaged (truncated)": lambda: truncated(gravity=1e-5, **constant, average=True),
        "FTRL-Proximal": lambda: streaml1.FTRLClassifier(alpha=eta, l1=0.1),
        "l1 ball": lambda: ball(radius=100.0, **constant),
        "  tree index": lambda: ball(radius=100.0, index="tree", **constant),
        "Pegasos": lambda: pegasos(l2=1e-4),
        "  averaged (Pegasos)": lambda: pegasos(l2=1e-4, average=True),
        "FoBoS, l2 norm": lambda: fobos(strength=0.01, **constant),
        "  l-infinity, 1e-4": lambda: fobos(norm="linf", **constant),
        "  l-infinity, 0.01": lambda: fobos(norm="linf", strength=0.01, **constant),
        "  l-infinity, 0.1": lambda: fobos(norm="linf", strength=0.1, **constant),
        "  l-infinity, 1": lambda: fobos(norm="linf", strength=1.0, **constant),
        "SMIDAS": lambda: smidas(l1=1e-5, **mirror),
        "  p = 3": lambda: smidas(l1=1e-5, p=3, **mirror),
        "EG+-": lambda: streaml1.EGClassifier(n_features=EG_FEATURES, **mirror),
        "softmax, 2 classes": lambda: streaml1.SoftmaxClassifier(strength=1e-5, **constant),
    }


def resumed_bare_run(X: Any, y: Any, eta: float) -> Callable[[], Any]:
    """Return a pass of bare SGD that keeps its weights: allocating them would take O(d)."""
    ids, indptr = X.indices.view(np.uint32), X.indptr.astype(np.uint64)
    w = aligned_zeros(X.shape[1], np.float64)
    p, target = np.empty(X.shape[0]), y.astype(float)
    w[:] = 0.0
    return lambda: bare_sgd(w, ids, X.data, indptr, target, eta, p)


def model_with_all_features(make: Callable[[], Any], X: Any) -> Any:
    """Make a model that has a slot for each feature but has learnt nothing (weight 0)."""
    model, d = make(), X.shape[1]
    for label in (False, True):
        row = csr_matrix((np.ones(d), np.arange(d), [0, d]), (1, d))
        model.learn_many(row, [label], [0.0])
    return model


def bench_flatness() -> None:
    """Measure every learner from t = 10^3 to 10^7 and from d = 10^4 to 10^7."""
    bench_time()
    bench_fitting_rows()
    bench_dimension()


def max_over_min(ratios: list[float]) -> str:
    return f"{max(ratios) / min(ratios):.2f}"


def bench_time() -> None:
    """Repeat a stream that no weights fit, so that the weights settle while t grows."""
    X, y = w1(STREAM_ROWS, 10**4)
    cuts = range(0, STREAM_ROWS, BLOCK)
    blocks = [(X[k : k + BLOCK], y[k : k + BLOCK]) for k in cuts]
    print_growth(
        f"{STREAM_ROWS:,} rows of 10,000 features, repeatedly: ns per row, and ratios to bare SGD",
        *(blocks, learners(3.0), MILESTONES),
    )


def bench_fitting_rows() -> None:
    """Repeat rows that weights fit: ever more weights reach the level of the l-infinity norm."""
    X, y = w1(BLOCK)
    X = X[:, np.unique(X.indices)]
    of_linf = {name: make for name, make in learners(3.0).items() if "l-infinity" in name}
    print_growth(
        f"the same {BLOCK:,} rows of {X.shape[1]:,} features: ns per row, and ratios to bare SGD",
        *([(X, y)], of_linf, MILESTONES[:-1]),
    )


def print_growth(
    title: str, blocks: list[Any], makers: dict[str, Callable[[], Any]], milestones: Sequence[int]
) -> None:
    bare_runs = [resumed_bare_run(X, y, 3.0) for X, y in blocks]
    columns = [f"t = {milestone:,}" for milestone in milestones]
    results = new_table(title, *("model", *columns, "last / first", "max / min"))
    (X, y), bare = blocks[0], bare_runs[0]
    for name, make in makers.items():
        model_with_all_features(make, X).progressive_many(X, y)
        # The first milestone has a single pass, so seven new models make it.
        first = [seconds_with_bare(model_with_all_features(make, X), bare, X, y) for _ in range(7)]
        model, t, cells, ratios = model_with_all_features(make, X), 0, [], []
        for milestone in milestones:
            seconds: list[tuple[float, float]] = first if milestone <= BLOCK else []
            while t < milestone:
                k = t // BLOCK % len(blocks)
                if milestone > BLOCK and milestone - t <= LAST_PASSES * BLOCK:
                    seconds.append(seconds_with_bare(model, bare_runs[k], *blocks[k]))
                else:
                    model.progressive_many(*blocks[k])
                t += BLOCK
            ours, base = np.array(seconds).T
            cells.append(f"{np.median(ours) * 1e9:.0f}")
            ratios.append(float(np.median(ours / base)))
        results.add_row(name, *cells, f"{ratios[-1] / ratios[0]:.2f}", max_over_min(ratios))
    CONSOLE.print(results)


def seconds_with_bare(model: Any, bare: Callable[[], Any], X: Any, y: Any) -> tuple[float, float]:
    """Return the seconds per row of another pass of a model, and of bare SGD."""
    ours = thread_seconds(partial(model.progressive_many, X, y))
    return ours / BLOCK, thread_seconds(bare) / BLOCK


def bench_dimension() -> None:
    """Repeat rows of the same 10,000 features, spread over d occupied slots."""
    results = new_table(
        "the same 10,000 features, 40 a row, over d slots: ratio to bare SGD on the same rows",
        *("model", *(f"d = {d:,}" for d in DIMENSIONS), "last / first", "max / min"),
    )
    rng = np.random.default_rng(SEED)
    n = 10 * BLOCK
    ids = np.sort(np.stack([rng.choice(10**4, 40, replace=False) for _ in range(n)]), axis=1)
    y = rng.random(n) < 0.5
    for name, make in learners(0.3).items():
        ratios = []
        for d in DIMENSIONS:
            spread_ids = (ids * (d // 10**4)).ravel()
            X = csr_matrix(
                (np.full(spread_ids.size, 40**-0.5), spread_ids, np.arange(n + 1) * 40), (n, d)
            )
            model = model_with_all_features(make, X)
            model.progressive_many(X, y)
            runs: dict[str, Callable[[], Any]] = {"bare": resumed_bare_run(X, y, 0.3)}
            runs["model"] = partial(model.progressive_many, X, y)
            seconds = interleave(runs, 5)
            ratios.append(float(np.median(seconds["model"] / seconds["bare"])))
        cells = (f"{ratio:.2f}" for ratio in ratios)
        results.add_row(name, *cells, f"{ratios[-1] / ratios[0]:.2f}", max_over_min(ratios))
    CONSOLE.print(results)
