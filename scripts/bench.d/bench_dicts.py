"""Learn dicts one by one, compared with river; predict from several threads."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from bench_kit import CONSOLE, SEED, clicks, csr_dicts, elastic_net, new_table, random_words, w1
from river import linear_model, optim

import streaml1
from streaml1.features import dict_reader

Dicts = list[dict[str, Any]]
BLOCK = 500  # examples that a learner takes before the next one has its turn


class PlainDict(dict):  # type: ignore[type-arg]
    """A dict subclass. The compiled dict readers accept exact dicts only, so it is copied.

    Every call of a subclass may run foreign code, from which the kernels cannot protect themselves.
    """


class Contender(NamedTuple):
    """A learner and the dicts that it learns."""

    learner: Any
    xs: Dicts


OURS = "streaml1, l1 = l2 = 1e-6"
AUTO = 'streaml1, lr="auto"'
SUBCLASS = "streaml1, dict subclass: copied to a dict"
FALLBACK = "streaml1, no dict kernels: pure-Python fallback"
RIVER = "river, no penalty"


def bench_dict() -> None:
    """Compare predict_proba_one + learn_one on dicts with river's linear models."""
    X, y = w1(20_000)
    words = random_words(X.shape[1])
    # New strings for each row, as a parser makes them: their hashes are not cached yet.
    xs = [{"".join(name): v for name, v in x.items()} for x in csr_dicts(X, words)]
    compare_with_river("dicts of W1: 88 words", xs, xs, y.tolist(), 3.0)

    categories, clicked = clicks(20_000)
    texts: Dicts = [{f"C{k}": f"{v:x}" for k, v in enumerate(row)} for row in categories.tolist()]
    joined: Dicts = [{f"{name}={v}": 1.0 for name, v in x.items()} for x in texts]
    compare_with_river(
        "dicts of W2: 39 categories (strings; name=value joined beforehand for river)",
        *(texts, joined, clicked.tolist(), 0.02),
    )


def compare_with_river(title: str, ours: Dicts, theirs: Dicts, ys: list[bool], eta: float) -> None:
    """Print a table: streaml1 on some dicts, river on the same or equivalent ones."""
    subclassed: Dicts = [PlainDict(x) for x in ours]
    contenders = {
        OURS: Contender(elastic_net(eta), ours),
        AUTO: Contender(streaml1.ElasticNetClassifier(l1=1e-6, l2=1e-6), ours),
        SUBCLASS: Contender(elastic_net(eta), subclassed),
        FALLBACK: Contender(elastic_net(eta), ours),
        RIVER: Contender(linear_model.LogisticRegression(optim.SGD(eta)), theirs),
        "river, l1 = 1e-6": Contender(
            linear_model.LogisticRegression(optim.SGD(eta), l1=1e-6), theirs
        ),
    }
    available = dict_reader.AVAILABLE
    for name in (OURS, AUTO, SUBCLASS, FALLBACK):  # compile
        learner, xs = contenders[name].learner.clone(), contenders[name].xs
        dict_reader.AVAILABLE = available and name != FALLBACK
        for _ in range(2):
            learner.predict_proba_one(xs[0])
            learner.learn_one(xs[0], True)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for lo in range(0, len(ours), BLOCK):
        for name, (learner, xs) in contenders.items():
            dict_reader.AVAILABLE = available and name != FALLBACK
            begin = time.perf_counter()
            for x, label in zip(xs[lo : lo + BLOCK], ys[lo : lo + BLOCK], strict=True):
                learner.predict_proba_one(x)
                learner.learn_one(x, label)
            seconds[name].append((time.perf_counter() - begin) / BLOCK)
    dict_reader.AVAILABLE = available
    table = new_table(
        f"predict_proba_one + learn_one, {title}",
        *("model", "us/example", "x streaml1", f"x {RIVER}"),
    )
    for name, times in seconds.items():
        ratios = (np.median(np.array(times) / np.array(seconds[base])) for base in (OURS, RIVER))
        table.add_row(name, f"{np.median(times) * 1e6:.1f}", *(f"{ratio:.2f}" for ratio in ratios))
    CONSOLE.print(table)


def bench_threads(seconds: float = 1.0) -> None:
    """Measure predictions per second of one and two threads, of a model and of a frozen one."""
    X, y = w1(4000)
    words = [f"{k:x}" for k in np.random.default_rng(SEED).permutation(X.shape[1])]
    xs = csr_dicts(X, words)
    learner, columns = elastic_net(3.0), elastic_net(3.0)
    learner.learn_many(xs, y)
    columns.progressive_many(X, y)

    def one_by_one(predict: Callable[[Any], Any]) -> Callable[[], int]:
        def run() -> int:
            for x in xs:
                predict(x)
            return len(xs)

        return run

    def batch(predict: Callable[[Any], Any]) -> Callable[[], int]:
        return lambda: len(predict(X))

    frozen = learner.freeze()
    predictors: dict[str, Callable[[], int]] = {
        "model, dicts": one_by_one(learner.predict_proba_one),
        "frozen, dicts": one_by_one(frozen.predict_proba_one),
        "model, matrix": batch(columns.predict_proba_many),
        "frozen, matrix": batch(columns.freeze().predict_proba_many),
    }
    table = new_table(
        "predictions per second, 87 non-zeros",
        *("predictor", "one thread", "two threads", "two / one"),
    )
    for name, run in predictors.items():
        run()
        rates = [predictions_per_second(run, n, seconds) for _ in range(3) for n in (1, 2)]
        one, two = np.median(rates[::2]), np.median(rates[1::2])
        table.add_row(name, f"{one:,.0f}", f"{two:,.0f}", f"{two / one:.2f}")
    CONSOLE.print(table)
    print_lock_cost(learner, frozen)


def predictions_per_second(run: Callable[[], int], threads: int, seconds: float) -> float:
    counts = [0] * threads
    end = time.perf_counter() + seconds

    def work(k: int) -> None:
        while time.perf_counter() < end:
            counts[k] += run()

    begin = time.perf_counter()
    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / (time.perf_counter() - begin)


def print_lock_cost(learner: Any, frozen: Any) -> None:
    """Print the time of a prediction of a model, which takes a lock, and of its frozen copy."""
    x = {"a": 1.0}
    calls = {"model": learner.predict_proba_one, "frozen": frozen.predict_proba_one}
    best = {name: math.inf for name in calls}
    for _ in range(50):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(5000):
                call(x)
            best[name] = min(best[name], (time.perf_counter() - begin) / 5000 * 1e9)
    times = ", ".join(f"{name} {ns:.0f} ns" for name, ns in best.items())
    CONSOLE.print(f"a prediction with one feature: {times}")
