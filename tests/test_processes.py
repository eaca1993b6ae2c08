"""Models across forks and spawned processes, and readers concurrent with a learning thread."""

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


def word_features(i: int) -> dict[str, float]:
    return {f"w{(i * 7 + j) % 3000}": 1.0 for j in range(30)}


def random_csr(n: int = 3000, d: int = 200_000) -> Any:
    rng = np.random.default_rng(0)
    ids = np.sort(rng.integers(0, d, (n, 60)), axis=1)
    X = csr_matrix((np.ones(ids.size), ids.ravel(), np.arange(n + 1) * 60), (n, d))
    X.sum_duplicates()
    return X


def learn_dicts(model: Any, i: int) -> None:
    model.learn_one(word_features(i), i % 2 == 0)


def learn_names(model: Any, i: int) -> None:
    model.learn_one({f"new {i * 20 + j}": 1.0 for j in range(20)}, i % 2 == 0)


X = random_csr()


def learn_rows(model: Any, i: int) -> None:
    model.learn_many(X, np.arange(X.shape[0]) % 2)


LEARN_STEPS: dict[str, Callable[[Any, int], None]] = {
    "dicts": learn_dicts,
    "names": learn_names,
    "rows": learn_rows,
}


@contextmanager
def learning_in_thread(model: Any, learn_step: Callable[[Any, int], None]) -> Iterator[None]:
    """Learn in a second thread while the block runs."""
    stop, errors = threading.Event(), []

    def run() -> None:
        i = 0
        try:
            while not stop.is_set():
                learn_step(model, i)
                i += 1
        except BaseException as error:
            errors.append(error)
            raise

    thread = threading.Thread(target=run)
    old_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60.0)
        sys.setswitchinterval(old_interval)
    assert not errors and not thread.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork is unavailable")
@pytest.mark.parametrize("step_name", LEARN_STEPS)
def test_fork_during_learning_gets_a_consistent_model(step_name: str) -> None:
    model = ElasticNetClassifier(l1=1e-3)
    LEARN_STEPS[step_name](model, 0)
    model.predict_one({"w1": 1.0})
    with learning_in_thread(model, LEARN_STEPS[step_name]), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking a multi-threaded process
        for _ in range(6):
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    model._state.check()
                    n_before = model.n_iterations
                    model.learn_one({"a": 1.0, "w1": 2.0}, True)
                    model.predict_proba_one(word_features(5))
                    status = 0 if model.n_iterations == n_before + 1 else 2
                finally:
                    os._exit(status)
            deadline = time.monotonic() + 30.0
            while (exited := os.waitpid(child, os.WNOHANG))[0] == 0:
                assert time.monotonic() < deadline, "the child hangs"
                time.sleep(0.001)
            assert os.waitstatus_to_exitcode(exited[1]) == 0
    model._state.check()


def predict_and_learn(model: Any, xs: list[Any]) -> list[float]:
    """Predict, then learn, and return the predictions and weights; runs in a spawned process."""
    p = [model.predict_proba_one(x)[True] for x in xs]
    for i, x in enumerate(xs):
        model.learn_one(x, i % 2 == 0)
    return [*p, *model.weights.values()]


def test_spawned_process_continues_training() -> None:
    model = ElasticNetClassifier(l1=1e-3)
    for i in range(50):
        learn_dicts(model, i)
    xs = [word_features(i) | {"c": f"{i}"} for i in range(20)]
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        remote = pool.apply(predict_and_learn, (model, xs))
    assert remote == predict_and_learn(model, xs)


@pytest.mark.parametrize("step_name", LEARN_STEPS)
def test_readers_concurrent_with_a_writer(step_name: str) -> None:
    """Every read is consistent with a state between two steps."""
    model = ElasticNetClassifier(l1=1e-3, intercept_lr=0.0)
    LEARN_STEPS[step_name](model, 0)
    frozen = model.freeze()
    margins = [frozen.margin(word_features(i)) for i in range(5)]
    with learning_in_thread(model, LEARN_STEPS[step_name]):
        deadline = time.monotonic() + 1.0
        while time.monotonic() < deadline:
            p = model.predict_proba_one(word_features(1))
            assert 0.0 < p[True] < 1.0
            snapshot = model.freeze()
            assert snapshot.margin(word_features(2)) == snapshot.margin(word_features(2))
            assert 0 <= model.n_nonzero <= 10**6
            assert model.predict_many([word_features(3), {5: 1.0}]).tolist()
            assert [frozen.margin(word_features(i)) for i in range(5)] == margins
    model._state.check()
