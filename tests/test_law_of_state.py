"""The law of state: what is not learning changes no float of what is learnt later.

Growing, giving ints up for names, sweeping, predicting, refusing, pickling, copying and saving at
any row, in any capacity, compiled or interpreted, end in the same bits as one long run. It is
tried on the easiest rule (one array and a ledger) and on the hardest (`tests/wheel.py`: queues in
chunks from a pool that runs out).
"""

from __future__ import annotations

import copy
import hashlib
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import streaml1
from streaml1 import (
    EGRegressor,
    ElasticNetClassifier,
    ElasticNetRegressor,
    SMIDASRegressor,
    engine,
    jit,
    models,
    online,
    walk,
)
from streaml1.batches import batch_of
from streaml1.losses import CODES
from streaml1.models.base import OnlineRegressor
from streaml1.names import RowBuffer
from streaml1.parameters import Parameter, number
from streaml1.rows import BadExample
from tests import reference
from tests.wheel import BUCKETS, CHUNK, Wheel

N, D = 400, 40


class Ball(OnlineRegressor):
    """The wheel in the shell of the models."""

    radius = Parameter(number(0.0, 1e3, above=True))

    def __init__(
        self,
        *,
        radius: float = 2.0,
        chunks: int = BUCKETS + 2,
        loss: str = "squared",
        lr: Any = 0.1,
        schedule: str = "invsqrt",
        intercept_lr: float = 0.01,
        intercept_init: float = 0.0,
        clip_gradient: float = 1e12,
    ) -> None:
        self.radius, self.chunks = radius, chunks
        self.loss, self.lr, self.schedule = loss, lr, schedule
        self.intercept_lr, self.intercept_init = intercept_lr, intercept_init
        self.clip_gradient = clip_gradient
        self._begin()

    def _rule(self) -> Any:
        return Wheel.start(0, float(self.radius), self.chunks)


@pytest.fixture(scope="module", autouse=True)
def wheel_is_not_cached() -> Iterator[None]:
    """Machine code for a rule outside the package must not stay: no digest knows its text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(models.MODELS, "Ball", Ball)
        if jit.COMPILED:
            from numba import njit
            from numba.core.caching import NullCache

            kernels = [online.learn, online.learn_plain, online.margin, online.margins, online.step]
            for kernel in kernels:
                patch.setattr(kernel, "_cache", NullCache())
            with pytest.MonkeyPatch.context() as build:
                build.setattr(jit, "_compile", lambda fn, **o: njit(error_model="numpy", **o)(fn))
                engine._row_kernels(Wheel)
        yield


# Each is made so that what is rare comes often: P underflows and A passes its limit many times in
# 400 steps; the pool of chunks runs out every few rows and Theta is started anew.
LEARNERS: dict[str, Callable[[], Any]] = {
    "fobos": lambda: ElasticNetRegressor(l1=1.0, l2=1e-3, lr=0.4, schedule="constant"),
    "ridge": lambda: ElasticNetRegressor(l1=0.02, l2=7.0, lr=0.4, schedule="constant"),
    "sgd": lambda: ElasticNetRegressor(
        l1=0.05, l2=2.2, lr=0.4, schedule="constant", update="sgd", clip_gradient=30.0
    ),
    "classifier": lambda: ElasticNetClassifier(l1=1e-3, l2=1e-2, lr=0.5, intercept_lr=0.1),
    "eg": lambda: EGRegressor(radius=30.0, n_features=D, lr=90.0, schedule="constant"),
    "smidas": lambda: SMIDASRegressor(
        l1=0.03, p=8.5, lr=0.2, schedule="constant", clip_gradient=3.0
    ),
    "smidas of many terms": lambda: SMIDASRegressor(
        l1=0.03, p=40, lr=0.2, schedule="constant", clip_gradient=3.0
    ),
    "ball": lambda: Ball(radius=15.0, lr=0.3, schedule="constant", clip_gradient=10.0),
}


class Stream(NamedTuple):
    X: Any
    y: Any
    w: Any

    def dicts(self, lo: int, hi: int) -> list[dict[int, float]]:
        part = self.X[lo:hi]
        ends = part.indptr.tolist()
        ids, values = part.indices.tolist(), part.data.tolist()
        return [
            dict(zip(ids[a:b], values[a:b], strict=True))
            for a, b in zip(ends[:-1], ends[1:], strict=True)
        ]


def stream(binary: bool) -> Stream:
    """Rows of up to 12 of 40 features with gaps between their numbers; scales far apart."""
    random = np.random.default_rng(8)
    numbers = np.sort(random.choice(900, D, replace=False)).astype(np.int32)
    rows = [
        np.sort(random.choice(D if i > 150 else D // 2, random.integers(0, 13), replace=False))
        for i in range(N)
    ]
    ends = np.cumsum([0] + [len(row) for row in rows]).astype(np.int32)
    data = random.normal(size=ends[-1]) * 0.4
    X = csr_matrix((data, numbers[np.concatenate(rows)], ends), (N, 900))
    noisy = X @ random.normal(size=900) * 20.0 + random.normal(size=N)
    return Stream(X, noisy > 0.0 if binary else noisy, random.choice([0.0, 1.0, 2.5], size=N))


STREAMS = {False: stream(False), True: stream(True)}


class Bits(NamedTuple):
    """All that is learnt and was predicted, to the bit."""

    predictions: bytes
    weights: dict[Any, float]
    intercept: float


def bits_of(model: Any, predictions: Any) -> Bits:
    return Bits(np.asarray(predictions).tobytes(), model.weights, model.intercept)


def stream_of(learner: str) -> Stream:
    return STREAMS[learner == "classifier"]


def one_long_run(learner: str) -> Bits:
    """All rows in one batch, slots and chunks enough from the start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "LEAST_SIZE", 5_000)
        model = LEARNERS[learner]()
        if learner == "ball":
            model = model.clone({"chunks": 5_000})
        X, y, w = stream_of(learner)
        return bits_of(model, model.progressive_many(X, y, w))


TRUTH: dict[str, Bits] = {}


def truth(learner: str) -> Bits:
    if learner not in TRUTH:
        TRUTH[learner] = one_long_run(learner)
    return TRUTH[learner]


# What may come between two rows. Each takes a model and returns the one to go on with.


def read(model: Any, folder: Path) -> Any:
    for x in ({}, {3: 1.0, 10**9: 2.0, "new": "x"}, {j: 0.1 for j in range(300)}):
        model.predict_one(x)
    model.predict_many([{1: 1.0, "other": 1.0}])
    model.predict_many(csr_matrix(np.eye(7)))
    assert len(model.weights) == model.n_nonzero
    assert model.top_weights(3) and model.n_features_seen or not model.weights
    model._engine.check()
    return model


def refuse(model: Any, folder: Path) -> Any:
    bad: list[Any] = [
        ({1: 1.0, "unheard": 1.0, 5: float("nan")}, 1),
        ({"unheard of": float("inf")}, 0),
        ({1: 1.0, "unheard": object()}, 1),
        ({1: 1.0, "unheard": 1.0}, "no label"),
    ]
    for x, y in bad:
        with pytest.raises(BadExample):
            model.learn_one(x, y)
        with pytest.raises(BadExample):
            model.learn_many([{2: 1.0}, {"u": "v"}, x], [0, 1, y])
    rows = csr_matrix(np.tile([1.0, 2.0, 0.0, 3.0], (600, 1)))
    rows.data[-1] = np.nan
    with pytest.raises(BadExample):
        model.progressive_many(rows, np.zeros(600, int))
    return model


def grow(model: Any, folder: Path) -> Any:
    state = model._engine
    state.rule, state._frame = state.rule.grow(state.rule.size + 5), None
    return model


def widen(model: Any, folder: Path) -> Any:
    state = model._engine
    state.buffer, state._frame = RowBuffer(len(state.buffer) + 1), None
    return model


def name(model: Any, folder: Path) -> Any:
    """Ints give up their slots: every weight moves."""
    if model._engine.names.table is None:
        model._engine._name_all()
    return model


def sweep(model: Any, folder: Path) -> Any:
    model._engine._make_way(online.NO_ROOM, 3)
    return model


def save(model: Any, folder: Path) -> Any:
    model.save(folder / "model")
    return streaml1.load(folder / "model")


BETWEEN: list[Callable[[Any, Path], Any]] = [
    read,
    refuse,
    grow,
    widen,
    name,
    sweep,
    save,
    lambda model, folder: pickle.loads(pickle.dumps(model)),
    lambda model, folder: copy.deepcopy(model),
    lambda model, folder: model.clone(include_attributes=True),
]

# How rows may be learnt. Each returns the predictions.


def learn_one(model: Any, s: Stream, lo: int, hi: int) -> list[float]:
    p = []
    for x, y, w in zip(s.dicts(lo, hi), s.y[lo:hi].tolist(), s.w[lo:hi].tolist(), strict=True):
        p.append(model._margin(x, model.loss == "logistic"))
        model.learn_one(x, y, w)
    return p


def learn_dicts(model: Any, s: Stream, lo: int, hi: int) -> Any:
    return model.progressive_many(s.dicts(lo, hi), s.y[lo:hi], s.w[lo:hi])


def learn_matrix(model: Any, s: Stream, lo: int, hi: int) -> Any:
    return model.progressive_many(s.X[lo:hi], s.y[lo:hi], s.w[lo:hi])


def learn_long_matrix(model: Any, s: Stream, lo: int, hi: int) -> Any:
    X = s.X[lo:hi]
    X.indices = X.indices.astype(np.int64)
    return model.progressive_many(X, s.y[lo:hi], s.w[lo:hi])


LEARN: list[Callable[..., Any]] = [learn_one, learn_dicts, learn_matrix, learn_long_matrix]

Plan = list[tuple[int, int, list[int]]]
plans = st.lists(
    st.tuples(
        st.integers(0, len(LEARN) - 1),
        st.integers(1, 120),
        st.lists(st.integers(0, len(BETWEEN) - 1), max_size=3),
    ),
    min_size=1,
    max_size=8,
)


def by_plan(learner: str, plan: Plan, least_size: int, folder: Path) -> Bits:
    s = stream_of(learner)
    predictions: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "LEAST_SIZE", least_size)
        model, lo, k = LEARNERS[learner](), 0, 0
        while lo < N:
            way, length, between = plan[k % len(plan)]
            hi = min(N, lo + length)
            predictions += list(LEARN[way](model, s, lo, hi))
            for event in between:
                model = BETWEEN[event](model, folder)
            lo, k = hi, k + 1
        model._engine.check()
        return bits_of(model, predictions)


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS)
@given(plan=plans, least_size=st.sampled_from([1, 7, 1_024, 3_000]))
def test_the_law(learner: str, plan: Plan, least_size: int, tmp_path: Path) -> None:
    assert by_plan(learner, plan, least_size, tmp_path) == truth(learner)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("event", range(len(BETWEEN)))
def test_the_law_at_every_row(learner: str, event: int, tmp_path: Path) -> None:
    """The same event after each of the rows, once learnt singly and once in blocks of a few."""
    for way in range(len(LEARN)):
        step = 1 if way == 0 and BETWEEN[event] is not save else 7  # the disk is slow
        assert by_plan(learner, [(way, step, [event])], 1, tmp_path) == truth(learner)


@pytest.mark.parametrize("learner", LEARNERS)
def test_rare_things_come_often(learner: str) -> None:
    """The streams above do what they are there for."""
    model, s = LEARNERS[learner](), stream_of(learner)
    rebased, roomless, last, alive = 0, 0, 0.0, []
    make_room = Wheel.make_room

    def counted(rule: Wheel, nnz: int) -> Wheel:
        nonlocal roomless
        roomless += 1
        return make_room(rule, nnz)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Wheel, "make_room", counted)
        patch.setattr(engine, "LEAST_SIZE", 1)
        model = LEARNERS[learner]()
        for i in range(N):
            learn_one(model, s, i, i + 1)
            clock = model._engine.rule.clock[0]
            now = float(clock[{"ball": "Theta", "eg": "M"}.get(learner, "A")])
            rebased += now < last
            last = now
            alive.append(model.n_nonzero)
    assert model._engine.rule.size > 512  # has grown from one slot
    assert np.mean(alive) > 3.0 and min(alive[20:]) < D
    assert learner == "classifier" or rebased
    assert learner != "ball" or roomless > 5


@pytest.mark.parametrize("learner", LEARNERS)
def test_names_are_only_names(learner: str) -> None:
    """Strings from the start, walked in a kernel, and other names learn what ints do."""
    s = stream_of(learner)
    rename: list[Callable[[int], Any]] = [
        lambda j: f"f{j}",
        lambda j: (j, "f"),
        lambda j: -1 - j,
        lambda j: f"f{j}" if j % 2 else j,
    ]
    for to in rename:
        model = LEARNERS[learner]()
        p = []
        for x, y, w in zip(s.dicts(0, N), s.y.tolist(), s.w.tolist(), strict=True):
            x = {to(j): v for j, v in x.items()}
            p.append(model._margin(x, model.loss == "logistic"))
            model.learn_one(x, y, w)
        expected = truth(learner)
        assert np.asarray(p).tobytes() == expected.predictions
        assert model.weights == {to(j): w for j, w in expected.weights.items()}
        assert model.intercept == expected.intercept
        model._engine.check()


def test_reading_writes_nothing() -> None:
    for learner, begin in LEARNERS.items():
        model = begin()
        learn_matrix(model, stream_of(learner), 0, 200)
        before = pickle.dumps(model)
        arrays = [a.tobytes() for a in model._engine.rule]
        read(model, Path())
        assert pickle.dumps(model) == before
        assert [a.tobytes() for a in model._engine.rule] == arrays


def test_a_copy_is_its_own() -> None:
    for learner, begin in LEARNERS.items():
        model, s = begin(), stream_of(learner)
        learn_one(model, s, 0, 100)
        copies = [copy.deepcopy(model), model.clone(include_attributes=True)]
        before = bits_of(model, [])
        for other in copies:
            learn_one(other, s, 100, 300)
        assert bits_of(model, []) == before
        learn_one(model, s, 100, 300)
        for other in copies:
            assert bits_of(other, []) == bits_of(model, [])
        assert model.clone().weights == {} and model.clone().n_iterations == 0


def test_weights_too_small_for_a_float_are_kept() -> None:
    """A weight may underflow while its entry does not; a large value still brings it out."""
    model = ElasticNetRegressor(l2=1.0, lr=1.0, schedule="constant", intercept_lr=0.0)
    model.learn_one({1: 1.0}, 1.0)
    for _ in range(1_100):
        model.learn_one({2: 1.0}, 0.0)
    copied = pickle.loads(pickle.dumps(model))
    x = {1: 1e49}
    assert model.predict_one(x) == copied.predict_one(x)


# Compiled and interpreted


def trace() -> str:
    """A digest of all bits of one run of each learner, in blocks and one by one."""
    digest = hashlib.sha256()
    for learner, begin in LEARNERS.items():
        model, s = begin(), stream_of(learner)
        p = [*learn_matrix(model, s, 0, 150), *learn_one(model, s, 150, 250)]
        name(model, Path())
        p += [*learn_dicts(model, s, 250, 300), *learn_one(model, s, 300, 340)]
        model = pickle.loads(pickle.dumps(model))
        p += [*learn_matrix(model, s, 340, N)]
        digest.update(np.array(p).tobytes())
        digest.update(repr((model.weights, model.intercept)).encode())
        digest.update(np.asarray(model.predict_many(s.X)).tobytes())
        named = begin()
        for x, y in zip(s.dicts(0, 200), s.y.tolist(), strict=False):
            named.learn_one({f"f{j}": v for j, v in x.items()}, y)
        digest.update(repr((named.weights, named.intercept)).encode())
    return digest.hexdigest()


def test_interpreted_is_compiled_bit_for_bit(python: Any) -> None:
    script = "from tests import test_law_of_state as t; print(t.trace(), t.jit.COMPILED)"
    interpreted, compiled = python("-c", script, NUMBA_DISABLE_JIT="1").split()
    assert compiled == "False"
    assert interpreted == trace()


def test_saved_here_it_goes_on_elsewhere(python: Any, tmp_path: Path) -> None:
    """In a process where strings have other hashes, and interpreted."""
    s = stream_of("fobos")
    model = LEARNERS["fobos"]()
    for x, y in zip(s.dicts(0, 150), s.y.tolist(), strict=False):
        model.learn_one({f"f{j}": v for j, v in x.items()}, y)
    model.save(tmp_path / "model")
    script = (
        "import sys, streaml1; from tests.test_law_of_state import stream_of\n"
        "s, model = stream_of('fobos'), streaml1.load(sys.argv[1])\n"
        "for x, y in zip(s.dicts(150, 200), s.y[150:200].tolist(), strict=True):\n"
        "    model.learn_one({f'f{j}': v for j, v in x.items()}, y)\n"
        "print((model.weights, model.intercept))"
    )
    there = python("-c", script, str(tmp_path / "model"), NUMBA_DISABLE_JIT="1")
    for x, y in zip(s.dicts(150, 200), s.y[150:200].tolist(), strict=True):
        model.learn_one({f"f{j}": v for j, v in x.items()}, y)
    assert there.strip() == repr((model.weights, model.intercept))


@pytest.mark.slow
@pytest.mark.skipif(not jit.COMPILED, reason="this is that run")
def test_the_law_holds_interpreted(python: Any) -> None:
    python(
        *("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__),
        *("-k", "test_the_law and not every_row or names_are or writes or its_own or squared-18"),
        NUMBA_DISABLE_JIT="1",
        STREAML1_EXAMPLES="4",
        timeout=400.0,
    )


def test_dicts_are_walked_where_compiled() -> None:
    assert walk.AVAILABLE == jit.COMPILED


# The wheel itself


@pytest.mark.parametrize("chunks", [BUCKETS + 2, 3_000])
@pytest.mark.parametrize("loss", ["squared", "absolute", "logistic"])
def test_the_wheel_projects_exactly(loss: str, chunks: int) -> None:
    """Against the projection by sorting, through the engine alone, in blocks and singly."""
    random = np.random.default_rng(13)
    n, d = 2_400, 60
    X = random.normal(size=(n, d)) * 0.5
    X[random.random((n, d)) > 0.1] = 0.0
    X[: n // 2, d // 2 :] = 0.0
    X[::3] = np.sign(X[::3])  # binary rows: ties
    y = X @ random.normal(size=d)
    y = np.where(y > 0.0, 1.0, -1.0) if loss == "logistic" else y
    twin = reference.L1Ball(d, radius=3.0, loss=loss, lr=0.4)
    shell = engine.Engine(Wheel.start(0, 3.0, chunks), CODES[loss], 0.0, 0.01, 1e12)
    for lo in range(0, n, 40):
        part, eta = slice(lo, lo + 40), 0.4 / np.sqrt(np.arange(lo, lo + 40) + 1.0)
        expected = twin.progressive(X[part], y[part], np.ones(40))
        if lo // 40 % 2:
            got = shell.progressive(batch_of(csr_matrix(X[part])), y[part], np.ones(40), eta)
        else:
            got = np.empty(40)
            for i in range(40):
                x = {int(j): float(X[lo + i, j]) for j in np.flatnonzero(X[lo + i])}
                got[i] = shell.margin(x, loss == "logistic")
                shell.learn(x, float(y[lo + i]), 1.0, float(eta[i]))
        np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-9)
        w = np.zeros(d)
        w[: shell.rule.size] = shell.rule.weights()[:d]
        np.testing.assert_allclose(w, twin.w, rtol=0.0, atol=1e-9)
        large = np.maximum(np.abs(w), np.abs(twin.w)) > 1e-9
        np.testing.assert_array_equal(np.sign(w[large]), np.sign(twin.w[large]))
        shell.check()
    if chunks < 3_000:
        assert shell.rule.clock[0].entries <= CHUNK * len(shell.rule.after)
