"""Models across forks and spawned processes, and readers beside a thread that learns."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from streaml1 import ElasticNetClassifier


def words(i: int) -> dict[str, float]:
    return {f"w{(i * 7 + j) % 3000}": 1.0 for j in range(30)}


def rows(n: int = 3000, d: int = 200_000) -> Any:
    rng = np.random.default_rng(0)
    ids = np.sort(rng.integers(0, d, (n, 60)), axis=1)
    X = csr_matrix((np.ones(ids.size), ids.ravel(), np.arange(n + 1) * 60), (n, d))
    X.sum_duplicates()
    return X


def learn_dicts(model: Any, i: int) -> None:
    model.learn_one(words(i), i % 2 == 0)


def learn_names(model: Any, i: int) -> None:
    model.learn_one({f"new {i * 20 + j}": 1.0 for j in range(20)}, i % 2 == 0)


X = rows()


def learn_rows(model: Any, i: int) -> None:
    model.learn_many(X, np.arange(X.shape[0]) % 2)


WORK: dict[str, Callable[[Any, int], None]] = {
    "dicts": learn_dicts,
    "names": learn_names,
    "rows": learn_rows,
}


@contextmanager
def learning(model: Any, work: Callable[[Any, int], None]) -> Iterator[None]:
    """Another thread learns all the while."""
    stop, failed = threading.Event(), []

    def run() -> None:
        i = 0
        try:
            while not stop.is_set():
                work(model, i)
                i += 1
        except BaseException as error:
            failed.append(error)
            raise

    thread = threading.Thread(target=run)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60.0)
        sys.setswitchinterval(before)
    assert not failed and not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("work", WORK)
def test_a_fork_while_a_thread_learns_has_a_whole_model(work: str) -> None:
    model = ElasticNetClassifier(l1=1e-3)
    WORK[work](model, 0)
    model.predict_one({"w1": 1.0})
    with learning(model, WORK[work]), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
        for _ in range(12):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    model._engine.check()
                    t = model.n_iterations
                    model.learn_one({"a": 1.0, "w1": 2.0}, True)
                    model.predict_proba_one(words(5))
                    status = 0 if model.n_iterations == t + 1 else 2
                finally:
                    os._exit(status)
            deadline = time.monotonic() + 30.0
            while (done := os.waitpid(child, os.WNOHANG))[0] == 0:
                assert time.monotonic() < deadline, "the child hangs"
                time.sleep(0.001)
            assert os.waitstatus_to_exitcode(done[1]) == 0
    model._engine.check()


def predicted(model: Any, xs: list[Any]) -> list[float]:
    """In another process: what a model that came there predicts, and goes on to learn."""
    p = [model.predict_proba_one(x)[True] for x in xs]
    for i, x in enumerate(xs):
        model.learn_one(x, i % 2 == 0)
    return [*p, *model.weights.values()]


def test_a_spawned_process_goes_on_with_a_model() -> None:
    model = ElasticNetClassifier(l1=1e-3)
    for i in range(50):
        learn_dicts(model, i)
    xs = [words(i) | {"c": f"{i}"} for i in range(20)]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply(predicted, (model, xs))
    assert there == predicted(model, xs)


@pytest.mark.parametrize("work", WORK)
def test_readers_beside_a_writer(work: str) -> None:
    """Whatever a reader is told was so at some moment between two steps."""
    model = ElasticNetClassifier(l1=1e-3, intercept_lr=0.0)
    WORK[work](model, 0)
    frozen = model.freeze()
    before = [frozen.margin(words(i)) for i in range(5)]
    with learning(model, WORK[work]):
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            p = model.predict_proba_one(words(1))
            assert 0.0 < p[True] < 1.0
            copied = model.freeze()
            assert copied.margin(words(2)) == copied.margin(words(2))
            assert 0 <= model.n_nonzero <= 10**6
            assert model.predict_many([words(3), {5: 1.0}]).tolist()
            assert [frozen.margin(words(i)) for i in range(5)] == before
    model._engine.check()
