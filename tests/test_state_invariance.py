"""State invariance: operations that do not learn change no float of what is learnt later.

Grow, release zero slots, convert ints to names and back, compact, predict, reject, pickle, copy and
save at any row, in any capacity, compiled or interpreted. The result is bit-identical to one long
run that has capacity for everything. The tests cover the simplest rule (an array and a ledger) and
the most complex ones (the balls: timers in chunks of a pool that runs out, and a tree).
"""

from __future__ import annotations

import copy
import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import streaml1
from streaml1 import (
    AdaptiveElasticNetClassifier,
    AdaptiveElasticNetRegressor,
    CoinBettingClassifier,
    CoinBettingRegressor,
    EGRegressor,
    ElasticNetClassifier,
    ElasticNetRegressor,
    FOBOSClassifier,
    FOBOSRegressor,
    FTRLRegressor,
    L1BallClassifier,
    L1BallRegressor,
    PegasosClassifier,
    SMIDASRegressor,
    SoftmaxClassifier,
    TruncatedGradientClassifier,
    TruncatedGradientRegressor,
)
from streaml1.core import jit
from streaml1.core.rows import BadExample
from streaml1.features import dict_reader
from streaml1.features.vocabulary import (
    HashedVocabulary,
    InternedVocabulary,
    IntVocabulary,
    restore,
)
from streaml1.models.state import capacity, predictor
from streaml1.optim.l1_ball import L1Ball
from streaml1.optim.l1_ball_tree import L1BallTree
from streaml1.optim.tasks import RESPONSES

N, D = 400, 40
EXAMPLES = max(3, settings.default.max_examples // 3)  # each example is a complete run


# The parameters make rare events frequent: within 400 steps P underflows and A passes its limit
# many times, and the pool of chunks or leaves runs out.
LABELS = [2, 0, 3, 1]
LEARNERS: dict[str, Callable[[], Any]] = {
    "fobos": lambda: ElasticNetRegressor(l1=1.0, l2=1e-3, lr=0.4, schedule="constant"),
    "ridge": lambda: ElasticNetRegressor(l1=0.02, l2=7.0, lr=0.4, schedule="constant"),
    "sgd": lambda: ElasticNetRegressor(
        l1=0.05, l2=2.2, lr=0.4, schedule="constant", update="sgd", clip_gradient=30.0
    ),
    "classifier": lambda: ElasticNetClassifier(l1=1e-3, l2=1e-2, lr=0.5, intercept_lr=0.1),
    "stamps": lambda: ElasticNetRegressor(l1=0.3, l2=0.3, lr=2.0, stamps="explicit", budget=70),
    "even": lambda: ElasticNetRegressor(
        l1=0.05, l2=0.1, lr=0.3, schedule="constant", stamps="explicit", budget=90
    ),
    "truncated": lambda: TruncatedGradientRegressor(
        gravity=0.9, threshold=0.7, lr=0.4, schedule="constant"
    ),
    "seldom": lambda: TruncatedGradientClassifier(gravity=0.02, period=7, threshold=0.1, lr=0.5),
    "ftrl": lambda: FTRLRegressor(alpha=0.5, l1=8.0, l2=0.1, clip_gradient=30.0),
    "scaled ftrl": lambda: FTRLRegressor(clip_gradient=30.0),
    "adaptive": lambda: AdaptiveElasticNetRegressor(
        lr=3.0, delta=1.0, l1=0.3, l2=0.05, clip_gradient=30.0
    ),
    "adaptive classifier": lambda: AdaptiveElasticNetClassifier(l1=0.01),
    "coin": lambda: CoinBettingRegressor(l1=3.0, clip_gradient=30.0),
    "coin classifier": lambda: CoinBettingClassifier(l1=0.2),
    "pegasos": lambda: PegasosClassifier(l2=1e-8),
    "mean fobos": lambda: ElasticNetRegressor(
        l1=1.0, l2=1e-3, lr=0.4, schedule="constant", average=True, budget=70
    ),
    "mean sgd": lambda: ElasticNetRegressor(
        **{"l1": 0.05, "l2": 2.2, "lr": 0.4, "schedule": "constant", "update": "sgd"},
        **{"clip_gradient": 30.0, "average": True},
    ),
    "mean truncated": lambda: TruncatedGradientRegressor(
        gravity=0.9, threshold=0.7, lr=0.4, schedule="constant", average=True
    ),
    "mean pegasos": lambda: PegasosClassifier(l2=1e-8, average=True),
    "lanes": lambda: ElasticNetRegressor(l1=1.0, l2=1e-3, lr="auto", clip_gradient=30.0),
    "mixed lanes": lambda: ElasticNetClassifier(l1=1e-3, l2=1e-2, lr="auto", intercept_lr=0.1),
    "l2 norm": lambda: FOBOSRegressor(strength=40.0, lr=0.4, schedule="constant"),
    "l2, often zero": lambda: FOBOSClassifier(strength=0.5, lr=0.5, schedule="constant"),
    "linf norm": lambda: FOBOSRegressor(norm="linf", strength=40.0, lr=0.4, schedule="constant"),
    "linf, often zero": lambda: FOBOSClassifier(
        norm="linf", strength=1.0, lr=0.5, schedule="constant"
    ),
    "rows": lambda: SoftmaxClassifier(
        penalty="l1/l2", strength=1e-3, l2=7.0, lr=0.4, schedule="constant", classes=LABELS
    ),
    "balls": lambda: SoftmaxClassifier(
        penalty="ball", radius=0.7, lr=1.0, schedule="constant", classes=LABELS
    ),
    "scaled rows": lambda: SoftmaxClassifier(
        penalty="l1/l2", strength=0.02, l2=0.3, classes=LABELS
    ),
    "sharp rows": lambda: SoftmaxClassifier(
        penalty="l1/linf", strength=0.01, lr=40.0, schedule="constant", classes=LABELS
    ),
    "ball": lambda: L1BallRegressor(radius=15.0, lr=0.3, schedule="constant", clip_gradient=10.0),
    "tree": lambda: L1BallRegressor(
        radius=15.0, lr=0.3, schedule="constant", clip_gradient=10.0, index="tree"
    ),
    "simplex": lambda: L1BallRegressor(radius=7.0, lr=0.3, clip_gradient=9.0, nonnegative=True),
    "small ball": lambda: L1BallClassifier(radius=0.5, lr=1.0),
    "smidas": lambda: SMIDASRegressor(
        l1=0.03, p=8.5, lr=0.2, schedule="constant", clip_gradient=3.0
    ),
    "smidas of many terms": lambda: SMIDASRegressor(
        l1=0.03, p=40, lr=0.2, schedule="constant", clip_gradient=3.0
    ),
    "capped smidas": lambda: SMIDASRegressor(
        l1=0.01, p=6.5, lr=0.2, clip_gradient=3.0, max_features=9
    ),
    "eg": lambda: EGRegressor(radius=30.0, n_features=3 * D, lr=90.0, schedule="constant"),
    "nonnegative eg": lambda: EGRegressor(
        radius=30.0, n_features=3 * D, lr=90.0, schedule="constant", nonnegative=True
    ),
    "capped eg": lambda: EGRegressor(radius=30.0, n_features=3 * D, lr=9.0, max_features=9),
    "capped": lambda: ElasticNetRegressor(l1=0.01, lr=0.1, max_features=9),
    "capped adaptive": lambda: AdaptiveElasticNetRegressor(lr=3.0, l2=0.01, max_features=9),
    "capped coin": lambda: CoinBettingRegressor(max_features=9),
    "capped mean": lambda: ElasticNetRegressor(l1=0.01, lr=0.1, max_features=9, average=True),
    "capped linf": lambda: FOBOSRegressor(
        norm="linf", strength=10.0, lr=0.4, schedule="constant", max_features=9
    ),
    "capped l2": lambda: FOBOSRegressor(strength=10.0, lr=0.1, max_features=9),
    "capped ball": lambda: L1BallRegressor(radius=9.0, lr=0.3, clip_gradient=10.0, max_features=10),
    "capped tree": lambda: L1BallRegressor(
        radius=9.0, lr=0.3, clip_gradient=10.0, max_features=10, index="tree"
    ),
    "capped rows": lambda: SoftmaxClassifier(strength=1e-3, classes=LABELS, max_features=9),
    "hashed": lambda: ElasticNetRegressor(l1=0.01, lr=0.1, hash_bits=11),
    "crowded": lambda: ElasticNetRegressor(l1=0.01, lr=0.1, hash_bits=5, max_features=20),
}


# These learners depend on feature names: ties at max_features, and hashes.
CAPPED = (
    *("capped", "capped mean", "capped linf", "capped l2", "capped ball", "capped tree"),
    *("capped adaptive", "capped coin", "capped rows", "capped smidas", "capped eg", "hashed"),
    "crowded",
)
BINARY = (
    *("classifier", "seldom", "pegasos", "mean pegasos", "small ball"),
    *("l2, often zero", "linf, often zero", "mixed lanes"),
    *("adaptive classifier", "coin classifier"),
)
BALLS = ("ball", "tree", "simplex", "small ball", "capped ball", "capped tree")
MULTICLASS = ("rows", "balls", "sharp rows", "scaled rows", "capped rows")
# The clock field that decreases when a rule renormalizes its ledger.
LEDGER = {
    **dict.fromkeys(("stamps", "even"), "now"),
    **dict.fromkeys(("pegasos", "mean pegasos"), "drift"),
    **dict.fromkeys(("l2 norm", "l2, often zero", "capped l2"), "drift"),
    **dict.fromkeys(("ftrl", "scaled ftrl"), "alpha"),
    **dict.fromkeys(("adaptive", "adaptive classifier", "capped adaptive"), "lr"),
    **dict.fromkeys(("coin", "coin classifier", "capped coin"), "wealth"),
    **dict.fromkeys(("eg", "nonnegative eg", "capped eg"), "M"),
    **dict.fromkeys(("linf norm", "linf, often zero", "capped linf"), "strength"),
    **dict.fromkeys(BALLS, "Theta"),
    "balls": "radius",
}
NEVER_RENORMALIZED = (
    *("balls", "ftrl", "scaled ftrl", "classifier", "seldom", "linf norm", "linf, often zero"),
    *("scaled rows", "lanes", "mixed lanes", "adaptive", "adaptive classifier"),
    *("coin", "coin classifier"),
)
MIXTURES = ("lanes", "mixed lanes")


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


def stream(kind: str) -> Stream:
    """Return rows of up to 12 of 40 features with gaps between ids and widely different scales."""
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
    y = {"values": noisy, "binary": noisy > 0.0, "many": np.digitize(noisy, [-15.0, 0.0, 15.0])}
    return Stream(X, y[kind], random.choice([0.0, 1.0, 2.5], size=N))


STREAMS = {kind: stream(kind) for kind in ("values", "binary", "many")}


class Bits(NamedTuple):
    """All bits of what was learnt and predicted."""

    predictions: bytes
    weights: dict[Any, float]
    intercept: float


def bits_of(model: Any, predictions: Any) -> Bits:
    return Bits(np.asarray(predictions).tobytes(), model.weights, model.intercept)


def stream_of(learner: str) -> Stream:
    return STREAMS["binary" if learner in BINARY else "many" if learner in MULTICLASS else "values"]


def reference_run(learner: str, mutations: dict[int, int]) -> Bits:
    """Learn all rows in one batch, with enough slots and chunks from the start."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predictor, "MIN_SLOTS", 5_000)
        model, s = LEARNERS[learner](), stream_of(learner)
        with model._state.exclusive():
            model._state._set_rule(model._state.rule.reserve(5_000))
        predictions: list[float] = []
        rows = [0, *sorted(mutations), N]
        for lo, hi in zip(rows[:-1], rows[1:], strict=True):
            if lo in mutations:
                mutate(model, mutations[lo])
            predictions += list(learn_matrix(model, s, lo, hi))
        assert model._state.forgotten is None
        return bits_of(model, predictions)


MUTATIONS: list[dict[str, Any]] = [
    {"lr": 0.05},
    {"clip_gradient": 2.0},
    {"intercept_lr": 0.1, "lr": 0.2},
    {"max_features": 7},
    {"max_features": None},
    {"radius": 3.0, "l1": 0.02},
]


def mutate(model: Any, k: int) -> None:
    model.mutate({n: v for n, v in MUTATIONS[k].items() if n in model._mutable_attributes})


EXPECTED: dict[Any, Bits] = {}


def expected_bits(learner: str, mutations: dict[int, int] | None = None) -> Bits:
    mutations = mutations or {}
    key = learner, *sorted(mutations.items())
    if key not in EXPECTED:
        EXPECTED[key] = reference_run(learner, mutations)
    return EXPECTED[key]


# Operations between two rows. Each takes a model and returns the model to continue with.


def read(model: Any, folder: Path) -> Any:
    for x in ({}, {3: 1.0, 10**9: 2.0, "new": "x"}, {j: 0.1 for j in range(300)}):
        model.predict_one(x)
    model.predict_many([{1: 1.0, "other": 1.0}])
    model.predict_many(csr_matrix(np.eye(7)))
    assert len(model.weights) == model._state.n_nonzero
    assert model.top_weights(3) and model.n_features_seen or not model.weights
    model._state.check()
    return model


def reject(model: Any, folder: Path) -> Any:
    bad: list[Any] = [
        ({1: 1.0, "unheard": 1.0, 5: float("inf")}, 1),
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
    state = model._state
    if not isinstance(state.vocabulary, HashedVocabulary):
        with state.exclusive():
            state._set_rule(state.rule.grow(state.rule.size + 5))
    return model


def enlarge_context(model: Any, folder: Path) -> Any:
    if dict_reader.AVAILABLE:
        with model._state.exclusive():
            model._state._new_context(300, learns=True)
    return model


def switch_to_names(model: Any, folder: Path) -> Any:
    """Move ints to the vocabulary of names, which moves every weight."""
    if isinstance(model._state.vocabulary, IntVocabulary):
        with model._state.exclusive():
            model._state._switch_to_names()
    return model


def release_zeros(model: Any, folder: Path) -> Any:
    """Release the slots of zeros and compact the others."""
    state = model._state
    if not isinstance(state.vocabulary, HashedVocabulary):
        with state.exclusive():
            switch_to_names(model, folder)
            state._release_zeros(state.rule.live_mask(), state.rule.size)
        if isinstance(state.vocabulary, InternedVocabulary):
            assert state.rule.live_mask()[: len(state.vocabulary)].all()
    return model


def reserve_capacity(model: Any, folder: Path) -> Any:
    with model._state.exclusive():
        model._state._set_rule(model._state.rule.reserve(3))
    return model


def save(model: Any, folder: Path) -> Any:
    model.save(folder / "model")
    return streaml1.load(folder / "model")


def pickled(model: Any, folder: Path) -> Any:
    return pickle.loads(pickle.dumps(model))


FREQUENT: list[Callable[[Any, Path], Any]] = [
    read,
    reject,
    grow,
    switch_to_names,
    release_zeros,
    reserve_capacity,
    save,
    pickled,
]
OPERATIONS = [
    *FREQUENT,
    enlarge_context,
    lambda model, folder: copy.deepcopy(model),
    lambda model, folder: model.clone(include_attributes=True),
]
"""Those that are not frequent do to a rule what others do, or nothing; random plans have them."""

# Ways to learn rows. Each returns the predictions.


def predict(model: Any, x: Any) -> Any:
    if isinstance(model, SoftmaxClassifier):
        return list(model.predict_proba_one(x).values())
    return model._margin(x, model.loss in RESPONSES)


def learn_one(model: Any, s: Stream, lo: int, hi: int) -> list[float]:
    p = []
    for x, y, w in zip(s.dicts(lo, hi), s.y[lo:hi].tolist(), s.w[lo:hi].tolist(), strict=True):
        p.append(predict(model, x))
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


LEARN_PATHS: list[Callable[..., Any]] = [learn_one, learn_dicts, learn_matrix, learn_long_matrix]

Plan = list[tuple[int, int, list[int]]]
plans = st.lists(
    st.tuples(
        st.integers(0, len(LEARN_PATHS) - 1),
        st.integers(1, 120),
        st.lists(st.integers(0, len(OPERATIONS) - 1), max_size=3),
    ),
    min_size=1,
    max_size=8,
)
mutations_at = st.dictionaries(
    st.integers(1, N - 1), st.integers(0, len(MUTATIONS) - 1), max_size=2
)

# When ints are direct slots: nearly always, as soon as possible, as late as possible.
SLOT_POLICIES = {"usual": (2**14, 16, 2**22), "eager": (0, 10**4, 2**22), "lazy": (0, 2, 0)}


def set_slot_policy(patch: pytest.MonkeyPatch, slot_policy: str, min_slots: int) -> None:
    copy_slots, sparse, slots = SLOT_POLICIES[slot_policy]
    for module in (capacity, restore):
        patch.setattr(module, "COPY_SLOTS", copy_slots)
        patch.setattr(module, "SPARSE", sparse)
    patch.setattr(capacity, "INT_SLOTS", slots)
    patch.setattr(predictor, "MIN_SLOTS", min_slots)


def run_plan(
    learner: str,
    plan: Plan,
    min_slots: int,
    folder: Path,
    slot_policy: str = "usual",
    mutations: dict[int, int] | None = None,
) -> Bits:
    s = stream_of(learner)
    predictions: list[float] = []
    mutations = mutations or {}
    with pytest.MonkeyPatch.context() as patch:
        set_slot_policy(patch, slot_policy, min_slots)
        model, lo, k = LEARNERS[learner](), 0, 0
        while lo < N:
            path_index, n_rows, operations = plan[k % len(plan)]
            hi = min([N, lo + n_rows, *(row for row in mutations if row > lo)])
            if lo in mutations:
                mutate(model, mutations[lo])
            predictions += list(LEARN_PATHS[path_index](model, s, lo, hi))
            for operation in operations:
                model = OPERATIONS[operation](model, folder)
            lo, k = hi, k + 1
        model._state.check()
        return bits_of(model, predictions)


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS)
@settings(max_examples=EXAMPLES)
@given(
    plan=plans,
    min_slots=st.sampled_from([1, 7, 1_024, 3_000]),
    slot_policy=st.sampled_from(list(SLOT_POLICIES)),
    mutations=mutations_at,
)
def test_any_plan_equals_one_long_run(
    learner: str,
    plan: Plan,
    min_slots: int,
    slot_policy: str,
    mutations: dict[int, int],
    tmp_path: Path,
) -> None:
    bits = run_plan(learner, plan, min_slots, tmp_path, slot_policy, mutations)
    assert bits == expected_bits(learner, mutations)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("operation", range(len(FREQUENT)))
def test_frequent_operations_equal_one_long_run(
    learner: str, operation: int, tmp_path: Path
) -> None:
    """Repeat one operation after a few rows, with each way of learning."""
    # All combinations of operations and paths would take four times as long.
    path_index = (operation + list(LEARNERS).index(learner)) % len(LEARN_PATHS)
    # Saving is slow, and so is learning hundreds of rows that are rolled back.
    steps = {save: 40, reject: 40, read: 28, pickled: 28}
    step = steps.get(OPERATIONS[operation], 6 if path_index == 0 else 14)
    assert run_plan(learner, [(path_index, step, [operation])], 1, tmp_path) == expected_bits(
        learner
    )


# Dicts with string names: read by the kernel, by the Python fallback and in batches; categories as
# one name or as name and value.


class Dict(dict):  # type: ignore[type-arg]
    """A dict subclass, which the dict kernel does not read."""


def with_string_names(x: dict[int, float], i: int) -> dict[str, Any]:
    return {f"f{j}": v for j, v in x.items()} | {"c": f"{i % 11}", "d=e": f"{i * i % 50}"}


def with_joined_categories(x: dict[str, Any]) -> dict[str, float]:
    return {f"{n}={v}" if isinstance(v, str) else n: 1.0 if isinstance(v, str) else v
            for n, v in x.items()}  # fmt: skip


FORMS: list[Callable[[dict[str, Any]], Any]] = [
    dict,
    Dict,
    with_joined_categories,
    lambda x: Dict(with_joined_categories(x)),
]


def learn_strings(model: Any, s: Stream, lo: int, hi: int, form: int, singly: bool) -> list[float]:
    xs = [FORMS[form](with_string_names(x, lo + i)) for i, x in enumerate(s.dicts(lo, hi))]
    if not singly:
        return list(model.progressive_many(xs, s.y[lo:hi], s.w[lo:hi]))
    p = []
    for x, y, w in zip(xs, s.y[lo:hi].tolist(), s.w[lo:hi].tolist(), strict=True):
        p.append(predict(model, x))
        model.learn_one(x, y, w)
    return p


EXPECTED_OF_STRINGS: dict[str, Bits] = {}


def expected_bits_of_strings(learner: str) -> Bits:
    if learner not in EXPECTED_OF_STRINGS:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(predictor, "MIN_SLOTS", 5_000)
            model = LEARNERS[learner]()
            p = learn_strings(model, stream_of(learner), 0, N, 3, False)
            EXPECTED_OF_STRINGS[learner] = bits_of(model, p)
    return EXPECTED_OF_STRINGS[learner]


@pytest.mark.slow
@pytest.mark.parametrize("learner", LEARNERS)
@settings(max_examples=EXAMPLES)
@given(
    plan=st.lists(
        st.tuples(
            st.integers(0, len(FORMS) - 1),
            st.booleans(),
            st.integers(1, 120),
            st.lists(st.integers(0, len(OPERATIONS) - 1), max_size=3),
        ),
        min_size=1,
        max_size=8,
    ),
    min_slots=st.sampled_from([1, 7, 1_024]),
)
def test_any_plan_with_string_names_equals_one_long_run(
    learner: str, plan: Any, min_slots: int, tmp_path: Path
) -> None:
    s, lo, k = stream_of(learner), 0, 0
    predictions: list[float] = []
    expected = expected_bits_of_strings(learner)
    with pytest.MonkeyPatch.context() as patch:
        set_slot_policy(patch, "usual", min_slots)
        model = LEARNERS[learner]()
        while lo < N:
            form, singly, n_rows, operations = plan[k % len(plan)]
            hi = min(N, lo + n_rows)
            predictions += learn_strings(model, s, lo, hi, form, singly)
            for operation in operations:
                model = OPERATIONS[operation](model, tmp_path)
            lo, k = hi, k + 1
        model._state.check()
    assert bits_of(model, predictions) == expected


@pytest.mark.parametrize("learner", LEARNERS)
def test_rare_events_are_frequent_in_the_streams(learner: str) -> None:
    """Check that the streams above trigger the rare events they are designed to trigger."""
    model, s = LEARNERS[learner](), stream_of(learner)
    renormalized, projected, n_reserves, last, alive = 0, 0, 0, 0.0, []
    reserve = {kind: kind.reserve for kind in (L1Ball, L1BallTree)}

    def counting_reserve(rule: Any, nnz: int) -> Any:
        nonlocal n_reserves
        n_reserves += 1
        return reserve[type(rule)](rule, nnz)

    with pytest.MonkeyPatch.context() as patch:
        for kind in reserve:
            patch.setattr(kind, "reserve", counting_reserve)
        patch.setattr(predictor, "MIN_SLOTS", 1)
        model = LEARNERS[learner]()
        for i in range(N):
            learn_one(model, s, i, i + 1)
            rule = model._state.rule
            # Of the mixture's lanes, take A of the one with the highest rate.
            clock = {"A": rule.table[11]} if learner in MIXTURES else rule.clock[0]
            value = float(clock[LEDGER.get(learner, "A")])
            renormalized += value < last
            projected += learner in BALLS and value > last
            last = value
            alive.append(len(model.weights))
    state = model._state
    assert state.rule.size > 512 or learner == "crowded"  # has grown from one slot
    assert np.mean(alive) > 3.0 and min(alive[20:]) < D
    assert learner in (*CAPPED, *BALLS) or (renormalized > 0) == (learner not in NEVER_RENORMALIZED)
    assert learner not in BALLS or projected > 50
    assert n_reserves > 2 or not isinstance(state.rule, L1Ball)
    assert n_reserves > 0 or not isinstance(state.rule, L1BallTree)
    assert (model.n_cut > 20) == (model.max_features is not None)
    assert max(alive) <= (model.max_features or D)


@pytest.mark.parametrize("learner", [name for name in LEARNERS if name not in CAPPED])
def test_feature_names_do_not_affect_learning(learner: str) -> None:
    """Strings read by a kernel and other names learn the same floats as ints."""
    s = stream_of(learner)
    new_names: list[Callable[[int], Any]] = [
        lambda j: f"f{j}",
        lambda j: (j, "f"),
        lambda j: -1 - j,
        lambda j: f"f{j}" if j % 2 else j,
    ]
    for new_name in new_names:
        model = LEARNERS[learner]()
        p = []
        for x, y, w in zip(s.dicts(0, N), s.y.tolist(), s.w.tolist(), strict=True):
            x = {new_name(j): v for j, v in x.items()}
            p.append(predict(model, x))
            model.learn_one(x, y, w)
        expected = expected_bits(learner)
        assert np.asarray(p).tobytes() == expected.predictions
        assert model.weights == {new_name(j): w for j, w in expected.weights.items()}
        assert model.intercept == expected.intercept
        model._state.check()


def arrays_of(model: Any) -> dict[str, bytes]:
    """Return all arrays of the rule except the scratch that `margin` passes to `apply_gradient`."""
    fields = model._state.rule._asdict()
    return {name: array.tobytes() for name, array in fields.items() if name != "scratch"}


def test_reading_modifies_no_array() -> None:
    for learner, make_learner in LEARNERS.items():
        model = make_learner()
        learn_matrix(model, stream_of(learner), 0, 200)
        before = pickle.dumps(model)
        arrays = arrays_of(model)
        read(model, Path())
        assert pickle.dumps(model) == before
        assert arrays_of(model) == arrays


@pytest.mark.parametrize("learner", LEARNERS)
def test_live_weights_equal_weights(learner: str) -> None:
    """A kernel that visits slot by slot returns the same floats as the vectorized one."""
    model, s = LEARNERS[learner](), stream_of(learner)
    for lo in range(0, N, 50):
        learn_matrix(model, s, lo, lo + 50)
        slots, w = model._state.live_weights()
        weights = model._state.rule.weights()
        assert slots.tolist() == np.flatnonzero(weights).tolist()
        assert w.tobytes() == weights[slots].tobytes()


def test_copies_share_no_state() -> None:
    for learner, make_learner in LEARNERS.items():
        model, s = make_learner(), stream_of(learner)
        learn_one(model, s, 0, 100)
        copies = [copy.deepcopy(model), model.clone(include_attributes=True)]
        before = bits_of(model, [])
        for duplicate in copies:
            learn_one(duplicate, s, 100, 300)
        assert bits_of(model, []) == before
        learn_one(model, s, 100, 300)
        for duplicate in copies:
            assert bits_of(duplicate, []) == bits_of(model, [])
        assert model.clone().weights == {} and model.clone().n_iterations == 0


def test_underflowing_weights_are_retained() -> None:
    """A weight may underflow while its stored number does not; a large value reveals it."""
    model = ElasticNetRegressor(l2=1.0, lr=1.0, schedule="constant", intercept_lr=0.0)
    model.learn_one({1: 1.0}, 1.0)
    for _ in range(1_100):
        model.learn_one({2: 1.0}, 0.0)
    unpickled = pickle.loads(pickle.dumps(model))
    x = {1: 1e49}
    assert model.predict_one(x) == unpickled.predict_one(x)


# Compiled and interpreted runs


def trace() -> str:
    """Return a digest of all bits of one run of each learner, in batches and row by row."""
    digest = hashlib.sha256()
    for learner, make_learner in LEARNERS.items():
        model, s = make_learner(), stream_of(learner)
        p = [*learn_matrix(model, s, 0, 30), *learn_one(model, s, 30, 40)]
        switch_to_names(model, Path())
        p += [*learn_dicts(model, s, 40, 50), *learn_one(model, s, 50, 60)]
        model = pickle.loads(pickle.dumps(model))
        p += [*learn_matrix(model, s, 60, 75)]
        digest.update(np.array(p).tobytes())
        digest.update(repr((model.weights, model.intercept)).encode())
        digest.update(np.asarray(model.predict_many(s.X[200:220])).tobytes())
        named = make_learner()
        for x, y in zip(s.dicts(0, 20), s.y.tolist(), strict=False):
            named.learn_one({f"f{j}": v for j, v in x.items()}, y)
        digest.update(repr((named.weights, named.intercept)).encode())
    return digest.hexdigest()


def test_interpreted_and_compiled_are_bit_identical(python: Any) -> None:
    script = "from tests import test_state_invariance as t; print(t.trace(), t.jit.COMPILED)"
    interpreted, compiled = python("-c", script, NUMBA_DISABLE_JIT="1").split()
    assert compiled == "False"
    assert interpreted == trace()


def test_saved_model_resumes_in_another_process(python: Any, tmp_path: Path) -> None:
    """Resume in a process with another hash seed, interpreted."""
    s = stream_of("fobos")
    model = LEARNERS["fobos"]()
    for x, y in zip(s.dicts(0, 150), s.y.tolist(), strict=False):
        model.learn_one({f"f{j}": v for j, v in x.items()}, y)
    model.save(tmp_path / "model")
    script = (
        "import sys, streaml1; from tests.test_state_invariance import stream_of\n"
        "s, model = stream_of('fobos'), streaml1.load(sys.argv[1])\n"
        "for x, y in zip(s.dicts(150, 200), s.y[150:200].tolist(), strict=True):\n"
        "    model.learn_one({f'f{j}': v for j, v in x.items()}, y)\n"
        "print((model.weights, model.intercept))"
    )
    output = python("-c", script, str(tmp_path / "model"), NUMBA_DISABLE_JIT="1")
    for x, y in zip(s.dicts(150, 200), s.y[150:200].tolist(), strict=True):
        model.learn_one({f"f{j}": v for j, v in x.items()}, y)
    assert output.strip() == repr((model.weights, model.intercept))


@pytest.mark.slow
@pytest.mark.skipif(not jit.COMPILED, reason="this run is interpreted already")
def test_state_invariance_interpreted(python: Any) -> None:
    # Rules are compared above for each learner; this run covers the engine's input paths.
    selection = "(any_plan or feature_names) and [pegasos"
    python(
        *("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__, "-k", selection),
        NUMBA_DISABLE_JIT="1",
        STREAML1_EXAMPLES="3",
        timeout=400.0,
    )


def test_dict_kernels_are_available_if_compiled() -> None:
    assert dict_reader.AVAILABLE == jit.COMPILED
