"""Interrupts, threads and memory errors leave a consistent model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from streaml1 import BadExample, ElasticNetClassifier
from streaml1.features import dict_reader
from streaml1.features.dict_reader import context_fields as fields
from streaml1.features.vocabulary import InternedVocabulary
from streaml1.features.vocabulary.byte_interning import HashIndex
from streaml1.features.vocabulary.crossed_table import CrossedTable
from streaml1.features.vocabulary.name_arena import NameArena
from streaml1.optim.elastic_net import ElasticNet
from streaml1.sources.readers.vw import VwParser
from tests.conftest import ROOT, WARM


def is_current(engine: Any) -> bool:
    """Return whether the addresses stored for kernels match the model's arrays."""
    context = engine._context
    if context is None:
        return True
    fresh = dict_reader.make_context(
        engine.vocabulary, engine.rule, engine.online, context.length, context.learns
    )
    old, new = (source._retained[0][fields.RECORD :] for source in (context, fresh))
    return context.is_open and old.tolist() == new.tolist()


INTERRUPTED = """
import signal
signal.signal(signal.SIGALRM, signal.default_int_handler)
import faulthandler, json, pickle, random, sys, time, traceback
from streaml1 import ElasticNetClassifier
from streaml1.sources.readers.vw import VwParser
from tests.test_interruption import is_current

faulthandler.enable()


class Dict(dict):
    pass


def learn_dicts(m, k):
    for i in range(200):
        m.learn_one({f"n{k}-{i * 7 + j}": 1.0 for j in range(40)}, i % 2 == 0)
        m.predict_one({f"n{k}-{i + j}": 1.0 for j in range(40)})


def learn_others(m, k):
    for i in range(150):
        m.learn_one(Dict({(k, i * 7 + j): 1.0 for j in range(20)} | {f"s{k} {i}": 1}), True)


def learn_ints(m, k):
    for i in range(1000):
        m.learn_one({i * 50 + j: 1.0 for j in range(5)}, True)
    m.learn_one({f"the end of ints {k}": 1.0}, True)


def learn_rows(m, k):
    for i in range(4):
        rows = [{f"r{k}-{i}-{q * 9 + j}": 1.0 for j in range(30)} for q in range(100)]
        m.learn_many(rows, [True] * 100)


def copies(m, k):
    for i in range(20):
        m.learn_one({f"c{k}-{i * 99 + j}": 1.0 for j in range(150)}, True)
        pickle.dumps(m)


def learn_texts(m, k):
    for i in range(4):
        rows = (" ".join(f"x{k}-{i}-{q * 19 + j}" for j in range(30)) for q in range(100))
        text = "".join(f"1 |a {row} |b y\\n" for row in rows).encode()
        m.learn_many(VwParser().read(text).x, [True] * 100)
        m.learn_one({f"n{k}-{i}": 1.0}, False)


learns = learn_dicts, learn_others, learn_ints, learn_rows, learn_texts, copies
kinds = {f.__name__: f for f in learns}


def count_interrupts(operation, times, crosses):
    faulthandler.dump_traceback_later(100, exit=True)
    work, chance = kinds[operation], random.Random(operation)
    work(ElasticNetClassifier(lr=0.1, **crosses), 0)  # compiles this work and the growth
    m = ElasticNetClassifier(lr=0.1, **crosses)
    m.learn_one({"a": 1.0}, True)
    m._state._release_zeros(m._state.rule.live_mask(), 1024)
    took = 1.0
    for k in range(3):
        begin, m = time.perf_counter(), ElasticNetClassifier(lr=0.1, l1=1e-4, **crosses)
        work(m, k)
        work(m, -k)
        took = min(took, time.perf_counter() - begin)
    interrupted = 0
    for k in range(times):
        m = ElasticNetClassifier(lr=0.1, l1=1e-4, **crosses)
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.random() ** 2 * took + 1e-5)
            work(m, k)
            work(m, -k)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except (KeyboardInterrupt, SystemError) as error:
            # numpy's record arrays turn an interrupt within `__reduce__` into a SystemError.
            assert isinstance(error.__cause__ or error, KeyboardInterrupt), repr(error)
            interrupted += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        m._state.check()
        t = m.n_iterations
        m.learn_one({"after": 1.0}, True)
        m.learn_one({f"after {j}": 1.0 for j in range(500)}, True)
        m.learn_many([{f"rows {j}": 1.0 for j in range(500)}, {"after": 1.0}], [True, True])
        m.learn_one({5: 1.0, ("t",): 1.0}, True)
        assert m.n_iterations == t + 5
        assert m.predict_one({"after": 1.0, "after 7": 1.0}) is True
        m._state.check()
        assert pickle.loads(pickle.dumps(m)).weights == m.weights
        m.predict_one({"after": 1.0})
        assert crosses or is_current(m._state)  # each context has its own buffers for crosses
    return interrupted


for case, times in json.loads(sys.argv[1]):
    operation, *crossed = case.split()
    try:
        result = count_interrupts(operation, times, {"cross": [("a", "b")]} if crossed else {})
    except BaseException:
        result = traceback.format_exc()
    print(json.dumps([case, result]), flush=True)
"""

INTERRUPTS = {
    "learn_dicts": 40,
    "learn_others": 40,
    "learn_ints": 30,
    "learn_rows": 40,
    "learn_texts": 30,
    "learn_texts crosses": 20,
    "copies": 40,
}
"""How many times each operation is started, to be interrupted at a random moment."""


@pytest.fixture(scope="module")
def interrupts() -> dict[str, int | str]:
    """Return how many times each operation was interrupted, or the traceback of its failure."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, json.dumps([*INTERRUPTS.items()])],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=900.0,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.parametrize("work", INTERRUPTS)
def test_interrupts_leave_a_consistent_model(work: str, interrupts: dict[str, int | str]) -> None:
    interrupted = interrupts[work]
    assert isinstance(interrupted, int), interrupted
    assert interrupted > INTERRUPTS[work] // 3


THREADS = """
import faulthandler, pickle, random, sys, threading, traceback
from streaml1 import ElasticNetClassifier

faulthandler.enable()
faulthandler.dump_traceback_later(100, exit=True)
sys.setswitchinterval(1e-5)
m = ElasticNetClassifier(l1=1e-4)
m.learn_one({"a": 1.0}, True)
m.predict_proba_one({"a": 1.0})
m.learn_many([{"a": 1.0}], [True])
learners, rows, stop, wrong = 3, 1500, threading.Event(), []


def learn(q):
    chance = random.Random(q)
    try:
        for i in range(rows):
            x = {f"n{q}-{i * 7 + j}": 1.0 for j in range(30)}
            if i % 50 == 0:
                m.learn_many([x, x], [True, False])
            elif i % 7 == 0:
                m.learn_one({("t", q, i): 1.0, **x}, chance.random() < 0.5)
            else:
                m.learn_one(x, chance.random() < 0.5)
    except BaseException:
        wrong.append(traceback.format_exc())


def read(q):
    k = 0
    try:
        while not stop.is_set():
            k += 1
            x = {f"n{q}-{j}": 1.0 for j in range(k % 3000, k % 3000 + 20 + 20 * (k % 20))}
            p = m.predict_proba_one(x)[True]
            assert 0.0 <= p <= 1.0
            if k % 40 == 0:
                copy = pickle.loads(pickle.dumps(m))
                copy._state.check()
                assert len(copy.weights) <= copy.n_features_seen
                m.predict_many([x])
    except BaseException:
        wrong.append(traceback.format_exc())


teachers = [threading.Thread(target=learn, args=(q,)) for q in range(learners)]
readers = [threading.Thread(target=read, args=(q,), daemon=True) for q in range(2)]
for thread in readers + teachers:
    thread.start()
for thread in teachers:
    thread.join()
stop.set()
for thread in readers:
    thread.join()
m._state.check()
assert not wrong, wrong[0]
assert m.n_iterations == 2 + learners * (rows + rows // 50), m.n_iterations
assert m.predict_one({}) in (True, False)
"""


def test_threads_share_a_model(python: Callable[..., str]) -> None:
    python("-c", THREADS, **WARM)


def test_separate_models_in_threads() -> None:
    rows = [({f"n{(i * 7 + j) % 500}": 1.0 for j in range(20)}, i % 3 == 0) for i in range(500)]

    def run(results: list[Any]) -> None:
        model = ElasticNetClassifier(lr=0.1, l1=1e-3)
        for x, y in rows:
            model.learn_one(x, y)
            model.predict_one(x)
        results.append(model.weights)

    results: list[Any] = []
    threads = [threading.Thread(target=run, args=(results,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    expected: list[Any] = []
    run(expected)
    assert results == expected * 4


def test_concurrent_reader_does_not_store_stale_addresses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A reader runs after the old addresses are dropped and before the new arrays exist."""
    model = ElasticNetClassifier(lr=0.1)
    model.learn_one({5: 1.0}, True)
    original = ElasticNet.__new__

    def read_concurrently(cls: Any, *fields: Any) -> Any:
        reader = threading.Thread(target=lambda: model.n_iterations)
        reader.start()
        reader.join(0.5)
        return original(cls, *fields)

    X = csr_matrix(np.ones((2000, 10)))
    X.data[-1] = np.nan
    with monkeypatch.context() as patch:
        patch.setattr(ElasticNet, "__new__", read_concurrently)
        with pytest.raises(BadExample):
            model.learn_many(X, [True] * 2000)
    assert is_current(model._state)


# Out of memory


class Dict(dict):  # type: ignore[type-arg]
    """A dict subclass, which the dict kernel does not read."""


def raise_memory_error(*args: Any, **kwargs: Any) -> Any:
    raise MemoryError


def fail_after(owner: Any, name: str) -> Any:
    """Return the method wrapped to raise MemoryError after it has done its work."""
    method = getattr(owner, name)
    return lambda *args, **kwargs: raise_memory_error(method(*args, **kwargs))


def _text(n: int, name: bytes = b"b") -> Any:
    return VwParser().read(b"".join(b"1 | %s%d\n" % (name, k) for k in range(n))).x


WORK: dict[str, Callable[[Any], Any]] = {
    "dict": lambda m: m.learn_one({f"b{k}": 1.0 for k in range(1500)}, True),
    "fallback": lambda m: m.learn_one(Dict({f"b{k}": 1.0 for k in range(1500)}), True),
    "other names": lambda m: m.learn_one({("b", k): 1.0 for k in range(1500)}, True),
    "ints": lambda m: m.learn_one({5000 + k: 1.0 for k in range(1500)}, True),
    "rows": lambda m: m.learn_many([{f"b{k}": 1.0} for k in range(1500)], [True] * 1500),
    "int rows": lambda m: m.learn_many([{5000 + k: 1.0} for k in range(1500)], [True] * 1500),
    "text": lambda m: m.learn_many(_text(1500), [True] * 1500),
    "enlarge": lambda m: m.predict_one({f"b{k}": 1.0 for k in range(5000)}),
}
FAILURES: dict[str, tuple[Any, str]] = {
    "grow": (ElasticNet, "grow"),
    "remap": (ElasticNet, "remap"),
    "reserve": (InternedVocabulary, "reserve"),
    "rewrite": (InternedVocabulary, "_rewrite"),
    "context": (dict_reader.KernelContext, "__init__"),
    "table": (InternedVocabulary, "__init__"),
    "retain": (InternedVocabulary, "retain"),
    "intern": (HashIndex, "intern"),
    "arena": (NameArena, "reserve"),
    "strings": (NameArena, "names"),
}


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("failure", [*FAILURES, "intern late", "cross late"])
@pytest.mark.parametrize("initial", ["str", "int", "text"])
def test_memory_errors_leave_a_consistent_model(
    work: str, failure: str, initial: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if failure == "cross late" and work not in ("text", "rows"):
        pytest.skip("this operation computes no crosses")
    cross = [("b", "c")] if failure == "cross late" else ()
    model, twin = (ElasticNetClassifier(lr=0.1, l1=1e-4, cross=cross) for _ in range(2))
    for m in (model, twin):
        if initial == "text":
            m.learn_many(_text(900, b"a"), [True] * 900)
        for k in range(0 if initial == "text" else 900):
            m.learn_one({f"a{k}" if initial == "str" else k: 1.0}, True)
    with monkeypatch.context() as patch:
        if failure == "intern late":
            patch.setattr(HashIndex, "intern", fail_after(HashIndex, "intern"))
        elif failure == "cross late":
            patch.setattr(CrossedTable, "intern", fail_after(CrossedTable, "intern"))
        else:
            patch.setattr(*FAILURES[failure], raise_memory_error)
        try:
            WORK[work](model)
        except MemoryError:
            failed = True
        else:
            failed = False
    model._state.check()
    if not failed:
        return
    assert model.weights == twin.weights
    assert model.n_iterations == 900
    for m in (model, twin):
        m.learn_one({"at once": 1.0, "c": 1.0}, False)
    model._state.check()
    assert is_current(model._state)
    for m in (model, twin):
        WORK[work](m)
        m.learn_one({"after": 1.0, 7: 1.0}, True)
    model._state.check()
    assert model.weights == twin.weights
    assert model.intercept == twin.intercept
    assert model.predict_one({"after": 1.0}) is True
    assert is_current(model._state)
