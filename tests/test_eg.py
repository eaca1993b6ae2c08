"""EG+- and EG against their dense twin, and their invariants."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from streaml1 import BadExample, EGClassifier, EGRegressor, load
from streaml1.core.vecmath import exp_pair
from streaml1.optim.eg import EG
from streaml1.optim.losses import CODES
from streaml1.optim.tasks import REGRESSION
from tests import kit, reference
from tests.learner_data import (
    BINARY,
    SCHEDULES,
    D,
    as_dict,
    is_run,
    labels_of,
    rows_of,
)

MODELS = [EGClassifier, EGRegressor]
KINDS: dict[str, dict[str, Any]] = {
    "pairs": {},
    "small radius": {"radius": 0.7},
    "large radius": {"radius": 300.0},
    "nonnegative": {"nonnegative": True},
}


def model_of(loss: str, **params: Any) -> Any:
    return (EGClassifier if loss in BINARY else EGRegressor)(loss=loss, **params)


def dense(model: Any, d: int = D) -> Any:
    """Return all weights, including those of unseen features."""
    c = model._state.rule.clock[0]
    w = np.full(d, 0.0 if c.two else c.scale * c.one)
    for j, w_j in model.weights.items():
        w[j] = w_j
    return w


def assert_equal_twins(model: Any, twin: Any) -> None:
    """Assert equal weights to 1e-9, or to rounding above 1, and equal support."""
    scale = max(1.0, model.radius)
    w = dense(model, len(twin.w))
    np.testing.assert_allclose(w, twin.w, rtol=0.0, atol=1e-9 * scale)
    large = np.maximum(np.abs(w), np.abs(twin.w)) > 1e-9 * scale
    np.testing.assert_array_equal(np.sign(w[large]), np.sign(twin.w[large]))
    assert model.intercept == pytest.approx(twin.b, abs=1e-9 * scale)
    assert model.n_nonzero == len(model.weights)


@pytest.mark.slow
@pytest.mark.parametrize("loss", CODES)
def test_equals_the_dense_twin(loss: str) -> None:
    """Two thousand steps of every schedule and kind, in blocks and one by one."""
    X, y, signed, w = kit.data_of(loss)
    for k, (schedule, kind) in enumerate(itertools.product(SCHEDULES, KINDS)):
        if not is_run(loss, k):
            continue
        params = {**SCHEDULES[schedule], **KINDS[kind]}
        if loss in REGRESSION or k % 3 == 0:
            params |= {"clip_gradient": 0.05, "intercept_lr": 0.05, "intercept_init": -0.3}
        model = model_of(loss, n_features=D, **params)
        twin = reference.EG(D, loss=loss, **params)
        for rows, one_by_one in kit.blocks():
            expected = twin.progressive(X[rows], signed[rows], w[rows])
            got = kit.progressive(model, X[rows], y[rows], w[rows], one_by_one)
            atol = 1e-9 * max(1.0, twin.radius)
            np.testing.assert_allclose(got, expected, rtol=0.0, atol=atol, err_msg=str(params))
            assert_equal_twins(model, twin)
            model._state.check()


def test_weights_stay_accurate_if_all_thetas_are_negative(tmp_path: Path) -> None:
    """The weights are not lost next to the share of unseen features, whose theta is 0."""
    params: dict[str, Any] = {"lr": 1.0, "schedule": "constant", "loss": "absolute"}
    model = EGRegressor(n_features=2, nonnegative=True, radius=1.0, intercept_lr=0.0, **params)
    for t in range(1, 701):
        model.learn_one({"a": 1.0, "b": 1.001}, -5.0)
        if t % 50 == 0:
            odds = np.exp(-0.001 * t)
            assert model.weights["a"] == pytest.approx(1.0 / (1.0 + odds), abs=1e-9)
            assert model.weights["b"] == pytest.approx(odds / (1.0 + odds), abs=1e-9)
            assert model.predict_one({"a": 1.0}) == pytest.approx(model.weights["a"])
            model._state.check()
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").weights == model.weights


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("lr", [5.0, 50.0, 500.0, 5e4])
def test_theta_in_the_thousands_does_not_overflow(lr: float, nonnegative: bool) -> None:
    """Theta grows to thousands, falls and returns; nearly all of the mass is in one weight.

    The derivative of the hinge loss has two values; with other losses such rates are chaotic.
    """
    random = np.random.default_rng(4)
    X = np.sign(rows_of(random, 3_000))
    y = np.where(np.arange(3_000) // 700 % 2, X[:, 0] > 0.0, X @ random.normal(size=D) > 0.0)
    params: dict[str, Any] = {"lr": lr, "schedule": "constant", "nonnegative": nonnegative}
    params |= {"loss": "hinge", "radius": 0.4}  # no margin exceeds 1: every step learns
    model, twin = EGClassifier(n_features=D, **params), reference.EG(D, **params)
    for lo in range(0, 3_000, 100):
        part = slice(lo, lo + 100)
        got = model.progressive_many(csr_matrix(X[part]), y[part])
        expected = twin.progressive(X[part], np.where(y[part], 1.0, -1.0), np.ones(100))
        np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-8)
        np.testing.assert_allclose(dense(model), twin.w, rtol=0.0, atol=1e-8)
        model._state.check()
    assert np.abs(model._state.rule.theta[::2]).max() > 10 * lr


@pytest.mark.parametrize("nonnegative", [False, True])
def test_all_weights_sum_to_the_radius(nonnegative: bool) -> None:
    random = np.random.default_rng(0)
    X = rows_of(random, 500)
    model = EGClassifier(n_features=100, radius=3.0, nonnegative=nonnegative, lr=5.0)
    model.learn_many(csr_matrix(X), X @ random.normal(size=D) > 0.0)
    w = dense(model, 100)
    if nonnegative:
        assert w.sum() == pytest.approx(3.0, abs=1e-12) and w.min() > 0.0
    else:
        assert 1.0 < np.abs(w).sum() < 3.0


@pytest.mark.parametrize("name_type", ["int", "str"])
def test_unseen_nonnegative_features_have_a_weight(name_type: str) -> None:
    """Dicts, matrices and frozen models predict as the twin does, for seen and unseen features."""
    random = np.random.default_rng(2)
    X = rows_of(random, 300)
    X[:, 40:] = 0.0
    y, signed = labels_of(random, X, "logistic")
    params: dict[str, Any] = {"lr": 2.0, "nonnegative": True}
    model, twin = EGClassifier(n_features=D, **params), reference.EG(D, **params)
    name_of: Callable[[int], Any] = {"int": lambda j: j * 50, "str": lambda j: f"w{j}"}[name_type]
    new_rows = rows_of(random, 40)
    expected = [twin.margin(x) for x in new_rows]
    for _ in range(2):
        dicts = [{name_of(j): v for j, v in as_dict(x).items()} for x in new_rows]
        frozen = pickle.loads(pickle.dumps(model.freeze()))
        np.testing.assert_allclose([model._margin(x) for x in dicts], expected, atol=1e-12)
        np.testing.assert_allclose(model._margins(dicts), expected, atol=1e-12)
        assert [frozen.margin(x) for x in dicts] == [model._margin(x) for x in dicts]
        assert frozen.predict_many(dicts).tolist() == model.predict_many(dicts).tolist()
        assert model._margins(dicts).tolist() == [model._margin(x) for x in dicts]
        if name_type == "int":
            wide = np.zeros((40, 50 * D))
            wide[:, ::50] = new_rows
            np.testing.assert_allclose(model._margins(csr_matrix(wide)), expected, atol=1e-12)
        p = [model.predict_proba_one(x)[True] for x in dicts]
        np.testing.assert_allclose(model.predict_proba_many(csr_matrix((40, 1)))[:, 1], 0.5, atol=1)
        np.testing.assert_allclose(p, 1.0 / (1.0 + np.exp(-np.array(expected))), atol=1e-12)
        for x, label in zip(X, y, strict=True):
            model.learn_one({name_of(j): v for j, v in as_dict(x).items()}, bool(label))
        twin.progressive(X, signed, np.ones(300))
        expected = [twin.margin(x) for x in new_rows]


# The limit n_features


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("name_of", [lambda j: j * 3, lambda j: f"w{j}"], ids=["int", "str"])
def test_feature_above_n_features_is_rejected(
    name_of: Callable[[int], Any], nonnegative: bool
) -> None:
    model = EGClassifier(n_features=10, nonnegative=nonnegative)
    for j in range(8):
        model.learn_one(
            {name_of(j): 1.0, name_of(j + 1): 0.5, name_of(99): 0.0, name_of(98): None}, j % 2
        )
    assert model.n_features_seen == 9
    before = pickle.dumps(model)
    three = {name_of(j): 1.0 for j in (3, 20, 21)}
    message = "a new feature comes after n_features=10 others; make the model with a larger"
    with pytest.raises(BadExample, match=message):
        model.learn_one(three, True)
    with pytest.raises(BadExample, match=message) as raised:
        model.learn_many(
            [{name_of(1): 1.0}, {name_of(20): 1.0}, {name_of(20): 2.0}, {name_of(30): 1.0}],
            [1, 0, 1, 0],
        )
    assert raised.value.row == 3
    assert pickle.dumps(model) == before
    model.predict_one(three)
    model.learn_one({name_of(20): 1.0, name_of(3): 1.0}, True)
    assert model.n_features_seen == 10
    for _ in range(3):
        model.learn_many([{name_of(j): 1.0 for j in (0, 20, 8)}], [True])
        model.learn_one({name_of(j): 1.0 for j in range(9)}, True)
    with pytest.raises(BadExample, match=message):
        model.learn_one({name_of(40): 1.0}, True)
    model._state.check()


def test_column_above_n_features_is_rejected() -> None:
    X = np.eye(12)
    model = EGRegressor(n_features=10)
    with pytest.raises(BadExample, match="n_features=10") as raised:
        model.learn_many(csr_matrix(X), np.ones(12))
    assert raised.value.row == 10
    assert model.n_iterations == 0 and model.weights == {}
    model.learn_many(csr_matrix(X[2:]), np.ones(10))  # twelve columns, ten features
    assert model.n_features_seen == 10
    model.learn_many(csr_matrix(X[2:]), np.ones(10))


@pytest.mark.parametrize("order", ["sorted", "repeated"])
def test_column_above_n_features_late_in_a_matrix_is_rejected(order: str) -> None:
    """Rows are learnt while they are validated; a rejection restores the model bit-identically."""
    ids = np.arange(8_000, dtype=np.int32).reshape(-1, 2) % 10
    ids[3_111] = (4, 10)
    if order == "repeated":
        ids[3_000:3_100, 1] = ids[3_000:3_100, 0]
    X = csr_matrix((np.ones(8_000), ids.ravel(), np.arange(4_001) * 2), (4_000, 11))
    model = EGClassifier(n_features=10)
    model.learn_many(X[:5], [True] * 5)
    before = pickle.dumps(model)
    with pytest.raises(BadExample, match="after n_features=10 others") as raised:
        model.learn_many(X, np.arange(4_000) % 2)
    assert raised.value.row == 3_111
    assert pickle.dumps(model) == before
    model.learn_many(X[:3_111], np.arange(3_111) % 2)
    assert model.n_features_seen == 10


def test_n_features_limits_slots_of_hashed_features() -> None:
    model = EGClassifier(n_features=3, hash_bits=4)
    slots = {name: model.slot(name) for name in "abcdefghijk"}
    distinct_slots = list(dict.fromkeys(slots.values()))
    for name, slot in slots.items():
        if slot in distinct_slots[:3]:
            model.learn_one({name: 1.0}, True)
        else:
            with pytest.raises(BadExample, match="after n_features=3 others"):
                model.learn_one({name: 1.0}, True)
            with pytest.raises(BadExample, match="after n_features=3 others") as raised:
                model.learn_many([{"a": 1.0}, {name: 1.0}], [True, False])
            assert raised.value.row == 1
    assert np.count_nonzero(model._state.rule.seen_mask()) == 3


@pytest.mark.parametrize("nonnegative", [False, True])
def test_max_features_keeps_the_largest_weights(nonnegative: bool) -> None:
    random = np.random.default_rng(6)
    X = rows_of(random, 2_000)
    model = EGClassifier(n_features=D, lr=1.0, nonnegative=nonnegative, max_features=20)
    for i in range(0, 2_000, 50):
        model.learn_many(csr_matrix(X[i : i + 50]), X[i : i + 50, 0] > 0.0)
        assert model.n_nonzero == len(model.weights) <= 20
        model._state.check()
    assert model.n_cut > 0 and model.n_features_seen == D
    assert model.top_weights(1)[0][0] == 0


def test_each_category_of_a_data_frame_counts_as_a_feature() -> None:
    frame = pd.DataFrame({"site": [f"s{k}" for k in range(12)]})
    model = EGClassifier(n_features=10)
    with pytest.raises(BadExample, match="n_features=10") as raised:
        model.learn_many(frame, [True] * 12)
    assert raised.value.row == 10 and model.n_iterations == 0
    model.learn_many(frame[:10], [True] * 10)
    model.learn_many(frame[:10], [True] * 10)
    assert model.n_features_seen == 10


# Data and parameters


@pytest.mark.parametrize("case", kit.DEGENERATE)
def test_degenerate_data_matches_the_nonnegative_twin(case: str) -> None:
    for loss in CODES:
        X, y, signed, w = kit.degenerate_data(loss, case)
        params: dict[str, Any] = {"lr": 0.02, "nonnegative": True, "radius": 2.0}
        model = model_of(loss, n_features=D, **params)
        twin = reference.EG(D, loss=loss, **params)
        got = model.progressive_many(csr_matrix(X), y, w)
        np.testing.assert_allclose(got, twin.progressive(X, signed, w), rtol=0.0, atol=1e-9)
        assert_equal_twins(model, twin)
        assert model.n_features_seen == np.count_nonzero(X.any(axis=0))


@pytest.mark.parametrize("nonnegative", [False, True])
def test_changed_parameters_act_from_the_next_step(nonnegative: bool) -> None:
    random = np.random.default_rng(11)
    X = rows_of(random, 2_500)
    y, signed = labels_of(random, X, "logistic")
    params: dict[str, Any] = {"lr": 0.5, "nonnegative": nonnegative}
    model, twin = EGClassifier(n_features=D, **params), reference.EG(D, **params)
    changes: list[dict[str, Any]] = [
        {"radius": 30.0},
        {"lr": 0.9, "radius": 0.5},
        {"schedule": "constant", "lr": 0.05},
        {"clip_gradient": 0.1, "intercept_lr": 0.2},
        {"loss": "hinge", "radius": 20},
    ]
    for k, change in enumerate(changes):
        before = model.weights
        model.mutate(change)
        for name, value in change.items():
            setattr(twin, name, value)
        assert model.weights == before
        lo, hi = 500 * k, 500 * (k + 1)
        got = model.progressive_many(csr_matrix(X[lo:hi]), y[lo:hi])
        expected = twin.progressive(X[lo:hi], signed[lo:hi], np.ones(500))
        np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-8)
        assert_equal_twins(model, twin)


def test_parameters_out_of_range_are_rejected() -> None:
    radius = "radius must be a number above 0 and at most 1e+30"
    n_features = "n_features must be an integer from 1 to 4,294,967,296"
    nan, inf = float("nan"), float("inf")
    kit.assert_rejects(
        EGClassifier,
        [
            *(({"radius": v}, f"{radius}, got {v!r}") for v in (0, -1.0, nan, inf, "3", None, 1j)),
            *(({"n_features": v}, f"{n_features}, got") for v in (0, -1, 2**33, 2.5, nan, 1e30)),
            *(({"n_features": v}, f"{n_features}, got") for v in ("3", None, [1], True)),
            *(({"nonnegative": v}, f"nonnegative must be a bool, got {v!r}") for v in (1, "yes")),
        ],
    )


def test_parameters_that_cannot_change() -> None:
    model = EGClassifier()
    for name, value in (("n_features", 7), ("nonnegative", True)):
        with pytest.raises(ValueError, match="cannot change"):
            setattr(model, name, value)
        with pytest.raises(ValueError, match="cannot change"):
            model.mutate({name: value})


# The sum of shares


@given(
    st.lists(st.floats(-400.0, 400.0).filter(bool), min_size=1, max_size=300),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_sum_of_shares_is_independent_of_slot_order(
    thetas: list[float], nonneg: bool, random: Random
) -> None:
    """The sum is the same float for any assignment of slots and any capacity."""
    results = []
    for size in (300, 500, 1_000):
        rule = EG.start(size, 10.0, 2_000, nonneg)
        slots = np.array(random.sample(range(size), len(thetas)))
        rule.theta[2 * slots] = thetas
        rule.clock[0].touched = len(thetas)
        rule.drop(np.array([], np.int64))
        rule.renormalize()
        results.append((float(rule.clock[0].Z), float(rule.clock[0].scale)))
        rule.check()
        assert rule.weights().sum() <= 10.0 * (1.0 + 1e-12)
    assert results[0] == results[1] == results[2]


@given(st.floats(-300.0, 300.0), st.integers(0, 400))
def test_exp_pair_matches_exp(x: float, M: int) -> None:
    growth, decay = exp_pair(x, float(M), np.int64(2 * M))
    assert growth == pytest.approx(np.exp(x) * 2.0**-M, rel=1e-12, abs=1e-290)
    assert decay == pytest.approx(np.exp(-x) * 2.0**-M, rel=1e-12, abs=1e-290)


def test_dropped_weights_return_to_their_initial_value() -> None:
    """Dropped weights are not listed in `weights`."""
    random = np.random.default_rng(3)
    X = rows_of(random, 500)
    for nonnegative in (False, True):
        model = EGClassifier(n_features=D, lr=2.0, nonnegative=nonnegative)
        model.learn_many(csr_matrix(X), X @ random.normal(size=D) > 0.0)
        rule = model._state.rule
        seen_mask, twin = rule.seen_mask(), reference.EG(D, nonnegative=nonnegative)
        twin.theta = rule.theta[: 2 * D : 2].copy()
        dropped = np.array([0, 3, 5, D - 1])
        rule.drop(dropped)
        twin.theta[dropped] = 0.0
        twin.w = twin._penalty(twin.w, 0.0)
        np.testing.assert_allclose(dense(model), twin.w, rtol=0.0, atol=1e-12)
        assert not set(model.weights) & set(dropped.tolist())
        np.testing.assert_array_equal(rule.seen_mask(), seen_mask)
        model._state.check()
