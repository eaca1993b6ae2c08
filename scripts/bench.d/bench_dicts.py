"""Dicts one by one, beside river's own models, and predictions by several threads."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from bench_kit import (
    CONSOLE,
    SEED,
    clicks,
    model,
    table,
    w1,
)
from river import linear_model, optim


def bench_dict() -> None:
    """predict_proba_one + learn_one on dicts, beside river's own."""
    X, y = w1(20_000)
    rng = np.random.default_rng(SEED)
    letters = rng.integers(97, 123, (X.shape[1], 6), dtype=np.uint8)
    words = [f"{bytes(row).decode()}{k % 97}" for k, row in enumerate(letters)]
    xs = []
    for i in range(X.shape[0]):
        lo, hi = X.indptr[i], X.indptr[i + 1]
        names = ["".join(words[j]) for j in X.indices[lo:hi]]
        xs.append(dict(zip(names, X.data[lo:hi].tolist(), strict=True)))
    beside_river("dicts of W1: 88 words", xs, xs, y.tolist(), 3.0)

    rows, clicked = clicks(20_000)
    texts = [{f"C{k}": f"{v:x}" for k, v in enumerate(row)} for row in rows.tolist()]
    joined = [{f"{name}={v}": 1.0 for name, v in x.items()} for x in texts]
    beside_river(
        "dicts of W2: 39 categories (strings; for river names joined beforehand)",
        *(texts, joined, clicked.tolist(), 0.02),
    )


def beside_river(
    title: str, ours: list[Any], theirs: list[Any], ys: list[bool], eta: float
) -> None:
    """A table of streaml1 on some dicts, and river on the same or others."""
    learners: dict[str, Any] = {
        "streaml1, l1 = l2 = 1e-6": model(eta),
        "river, no penalty": linear_model.LogisticRegression(optim.SGD(eta)),
        "river, l1 = 1e-6": linear_model.LogisticRegression(optim.SGD(eta), l1=1e-6),
    }
    compiled = model(eta)
    for _ in range(2):
        compiled.predict_proba_one(ours[0])
        compiled.learn_one(ours[0], True)
    seconds: dict[str, list[float]] = {name: [] for name in learners}
    for lo in range(0, len(ours), 500):
        for name, one in learners.items():
            xs = ours if name.startswith("streaml1") else theirs
            begin = time.perf_counter()
            for x, label in zip(xs[lo : lo + 500], ys[lo : lo + 500], strict=True):
                one.predict_proba_one(x)
                one.learn_one(x, label)
            seconds[name].append((time.perf_counter() - begin) / 500)
    made = table(f"predict_proba_one + learn_one, {title}", "model", "us/example", "x streaml1")
    base = np.array(seconds["streaml1, l1 = l2 = 1e-6"])
    for name, times in seconds.items():
        ratio = np.median(np.array(times) / base)
        made.add_row(name, f"{np.median(times) * 1e6:.1f}", f"{ratio:.2f}")
    CONSOLE.print(made)


def bench_threads(seconds: float = 1.0) -> None:
    """Predictions a second by one thread and by two, of a model and of a frozen one."""
    X, y = w1(4000)
    rng = np.random.default_rng(SEED)
    words = [f"{k:x}" for k in rng.permutation(X.shape[1])]
    ends, ids, values = X.indptr.tolist(), X.indices.tolist(), X.data.tolist()
    xs = [
        {words[j]: v for j, v in zip(ids[a:b], values[a:b], strict=True)}
        for a, b in zip(ends[:-1], ends[1:], strict=True)
    ]
    learner, columns = model(3.0), model(3.0)
    learner.learn_many(xs, y)
    columns.progressive_many(X, y)
    predictors: dict[str, Callable[[], int]] = {}

    def one_by_one(predict: Callable[[Any], Any]) -> Callable[[], int]:
        def run() -> int:
            for x in xs:
                predict(x)
            return len(xs)

        return run

    def together(predict: Callable[[Any], Any]) -> Callable[[], int]:
        return lambda: len(predict(X))

    frozen = learner.freeze()
    predictors["model, dicts"] = one_by_one(learner.predict_proba_one)
    predictors["frozen, dicts"] = one_by_one(frozen.predict_proba_one)
    predictors["model, matrix"] = together(columns.predict_proba_many)
    predictors["frozen, matrix"] = together(columns.freeze().predict_proba_many)
    made = table("predictions a second, 87 non-zeros", "what", "one thread", "two threads", "ratio")
    for name, run in predictors.items():
        run()
        rates = [per_second(run, threads, seconds) for _ in range(3) for threads in (1, 2)]
        one, two = np.median(rates[::2]), np.median(rates[1::2])
        made.add_row(name, f"{one:,.0f}", f"{two:,.0f}", f"{two / one:.2f}")
    CONSOLE.print(made)
    lock_cost(learner, frozen)


def per_second(run: Callable[[], int], threads: int, seconds: float) -> float:
    done = [0] * threads
    end = time.perf_counter() + seconds

    def work(k: int) -> None:
        while time.perf_counter() < end:
            done[k] += run()

    begin = time.perf_counter()
    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(done) / (time.perf_counter() - begin)


def lock_cost(learner: Any, frozen: Any) -> None:
    """What being safe for threads costs one prediction: the model's less the frozen one's."""
    x = {"a": 1.0}
    calls = {"model": learner.predict_proba_one, "frozen": frozen.predict_proba_one}
    best = {name: math.inf for name in calls}
    for _ in range(50):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(5000):
                call(x)
            best[name] = min(best[name], (time.perf_counter() - begin) / 5000 * 1e9)
    told = ", ".join(f"{name} {ns:.0f} ns" for name, ns in best.items())
    CONSOLE.print(f"a prediction of one feature: {told}")
