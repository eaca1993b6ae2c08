"""SMIDAS compared with its dense reference; its moments and its p-norm link function."""

from __future__ import annotations

import itertools
import pickle
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy.sparse import csr_matrix

from streaml1 import ElasticNetClassifier, SMIDASClassifier, SMIDASRegressor, load
from streaml1.cli import cli
from streaml1.core.vecmath import power
from streaml1.optim import smidas
from streaml1.optim.losses import CODES
from tests import kit, reference
from tests.learner_data import (
    BINARY,
    SCHEDULES,
    D,
    as_dict,
    dense,
    labels_of,
    rows_of,
)

MODELS = [SMIDASClassifier, SMIDASRegressor]


def make_model(loss: str, **params: Any) -> Any:
    return (SMIDASClassifier if loss in BINARY else SMIDASRegressor)(loss=loss, **params)


def assert_equal_twins(model: Any, twin: Any) -> None:
    """Assert equal weights to 1e-8 of the largest, and equal support above that."""
    w = dense(model, len(twin.w))
    largest = max(np.abs(twin.w).max(), 1e-300)
    np.testing.assert_allclose(w, twin.w, rtol=0.0, atol=1e-8 * largest)
    large = np.maximum(np.abs(w), np.abs(twin.w)) > 1e-9
    np.testing.assert_array_equal(np.sign(w[large]), np.sign(twin.w[large]))
    assert model.intercept == pytest.approx(twin.b, abs=1e-9)
    rule = model._state.rule
    theta = np.copysign(np.maximum(np.abs(rule.u) - rule.clock[0].A, 0.0), rule.u)
    theta = np.resize(np.append(theta, np.zeros(len(twin.w))), len(twin.w))
    scale = max(np.abs(twin.theta).max(), 1e-300)
    np.testing.assert_allclose(theta, twin.theta, rtol=0.0, atol=1e-8 * scale)
    clear = np.maximum(np.abs(theta), np.abs(twin.theta)) > 1e-9 * scale
    np.testing.assert_array_equal(np.sign(theta[clear]), np.sign(twin.theta[clear]))
    assert model.n_nonzero == len(model.weights) == np.count_nonzero(theta)


POWERS = [
    {"p": 2.0, "l1": 3e-3},
    {"p": 2.3, "l1": 1e-3},
    {"p": 4.0, "l1": 3e-3},
    {"p": 7.9, "l1": 0.03},
    {"p": 11.4, "l1": 1e-3},
    {"p": 25.0, "l1": 1e-2},
    {"p": 60.5, "l1": 0.0},
    {"p": 100.0, "l1": 1e-2},
]


@pytest.mark.slow
@pytest.mark.parametrize("loss", CODES)
def test_equals_the_dense_twin(loss: str) -> None:
    """Compare 2,000 steps for every schedule and many powers, in blocks and one by one."""
    X, y, signed, w = kit.data_of(loss)
    for k, schedule in enumerate([*SCHEDULES, *SCHEDULES]):
        params = {**SCHEDULES[schedule], **POWERS[(k + 2 * list(CODES).index(loss)) % len(POWERS)]}
        if loss == "squared" or k % 3 == 0:
            params |= {"clip_gradient": 0.2, "intercept_lr": 0.05, "intercept_init": -0.3}
        model, twin = make_model(loss, **params), reference.SMIDAS(D, loss=loss, **params)
        for rows, one_by_one in kit.blocks():
            expected = twin.progressive(X[rows], signed[rows], w[rows])
            got = kit.progressive(model, X[rows], y[rows], w[rows], one_by_one)
            scale = max(1.0, np.abs(twin.w).max())
            np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-8 * scale, err_msg=params)
            assert_equal_twins(model, twin)
            model._state.check()


def test_p_of_two_equals_the_elastic_net() -> None:
    """SMIDAS with p = 2 is FoBoS with an l1 penalty."""
    random = np.random.default_rng(1)
    X = rows_of(random, 3_000)
    y = X @ random.normal(size=D) > 0.0
    for schedule, l1 in itertools.product(SCHEDULES, (0.0, 1e-3, 0.1)):
        params = {**SCHEDULES[schedule], "l1": l1}
        smidas_model, elastic_net = SMIDASClassifier(p=2, **params), ElasticNetClassifier(**params)
        got, expected = (m.progressive_many(csr_matrix(X), y) for m in (smidas_model, elastic_net))
        np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-12)
        np.testing.assert_allclose(dense(smidas_model), dense(elastic_net), rtol=0.0, atol=1e-12)
        smidas_model._state.check()


def test_result_is_continuous_at_p_of_two() -> None:
    random = np.random.default_rng(2)
    X = rows_of(random, 2_000)
    y = X @ random.normal(size=D) > 0.0
    weights = []
    for p in (2, 2 + 1e-9, 2 + 1e-6):
        model = SMIDASClassifier(p=p, l1=3e-3, lr=0.5)
        model.learn_many(csr_matrix(X), y)
        model._state.check()
        weights.append(dense(model))
    np.testing.assert_allclose(weights[1], weights[0], rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(weights[2], weights[0], rtol=0.0, atol=1e-4)


@njit(error_model="numpy")
def _dense_loop(theta, ids, x, y, eta, l1, p):  # type: ignore[no-untyped-def]
    """Learn rows of one non-zero eagerly, squared loss clipped at 1; return the predictions."""
    predictions = np.empty(len(y))
    for i in range(len(y)):
        j = ids[i]
        largest = np.max(np.abs(theta))
        a = 0.0
        if largest > 0.0:
            s = 0.0
            for k in range(len(theta)):
                s += (abs(theta[k]) / largest) ** p
            a = theta[j] * (abs(theta[j]) / (largest * s ** (1.0 / p))) ** (p - 2.0) * x[i]
        predictions[i] = a
        theta[j] -= eta * min(1.0, max(-1.0, a - y[i])) * x[i]
        for k in range(len(theta)):
            theta[k] = np.sign(theta[k]) * max(0.0, abs(theta[k]) - eta * l1)
    return predictions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "eta", "l1", "p"),
    [
        (10_000_000, 0.1, 0.01, 5.0),
        (2_000_000, 0.1, 1e-4, 27.7),
        (1_000_000, 0.1, 0.3, 12.0),  # l1 keeps almost all weights at zero
        (1_000_000, 0.5, 0.02, 2.5),
        (1_000_000, 0.01, 1e-3, 100.0),
    ],
)
def test_millions_of_steps(steps: int, eta: float, l1: float, p: float) -> None:
    random = np.random.default_rng(1)
    d, block = 6, 500_000
    truth = np.array([2.0, -1.0, 0.5, 0.02, 0.0, -4.0])
    chance = np.array([0.5, 0.3, 0.15, 0.05, 1e-4, 1e-5])
    model = SMIDASRegressor(
        l1=l1, p=p, lr=eta, schedule="constant", intercept_lr=0.0, clip_gradient=1.0
    )
    theta = np.zeros(d)
    for _ in range(steps // block):
        ids = random.choice(d, size=block, p=chance / chance.sum()).astype(np.int32)
        x = random.choice([0.5, 1.0, -1.0, 1.25], size=block)
        y = truth[ids] * x + random.normal(size=block) * 0.1
        expected = _dense_loop(theta, ids, x, y, eta, l1, p)
        got = model.progressive_many(csr_matrix((x, ids, np.arange(block + 1)), (block, d)), y)
        np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-8)
        twin = reference.SMIDAS(d, l1=l1, p=p)
        twin.theta = theta.copy()
        twin.w = twin._penalty(twin.w, 0.0)
        assert_equal_twins(model, twin)
        model._state.check()


@pytest.mark.parametrize("p", [2.0, 2.2, 3.0, 7.5, 30.0, 100.0])
@pytest.mark.parametrize("l1", [0.0, 1e-6, 0.05, 0.2, 1.0, 1e3])
def test_steps_near_zero_weights(p: float, l1: float) -> None:
    """No weight, one weight, weights that die and return, all weights dying at once."""
    random = np.random.default_rng(7)
    X = rows_of(random, 200) * 3.0
    y, signed = labels_of(random, X, "hinge")
    params = {"l1": l1, "p": p, "lr": 0.3, "schedule": "constant", "intercept_lr": 0.0}
    model, twin = SMIDASClassifier(**params), reference.SMIDAS(D, **params)
    for i in range(200):
        x = as_dict(X[i])
        assert model._margin(x) == pytest.approx(twin.margin(X[i]), abs=1e-8)
        model.learn_one(x, bool(y[i]))
        twin.learn(X[i], signed[i])
        assert_equal_twins(model, twin)
        model._state.check()


def test_weights_are_zero_only_if_theta_is() -> None:
    """A weight that is nearly zero counts as non-zero and can grow again."""
    model = SMIDASRegressor(l1=0.0, p=100, lr=1.0, schedule="constant", intercept_lr=0.0)
    model.learn_one({"small": 1e-5}, 1.0)
    model.learn_one({"large": 1.0}, 1.0)
    assert list(model.weights) == ["small", "large"]
    assert 0.0 < model.weights["small"] < 1e-290  # 1e-495
    assert model.n_nonzero == 2
    assert model.weights["large"] == 1.0
    copied = pickle.loads(pickle.dumps(model))
    for m in (model, copied):
        m.l1 = 0.5
        m.learn_one({}, 1.0)
        assert m.n_nonzero == 1
        m.learn_one({"small": 2.0}, 1.0)
    assert copied.weights == model.weights
    assert model.weights["small"] == pytest.approx(model.top_weights(1)[0][1])


def test_single_weight_equals_theta() -> None:
    for p in (2, 2.5, 11, 100):
        model = SMIDASRegressor(p=p, l1=0.1, lr=0.5, schedule="constant", intercept_lr=0.0)
        model.learn_one({"a": 1.0}, 1.0)
        assert model.weights["a"] == pytest.approx(0.5 - 0.05, rel=1e-12)


@pytest.mark.parametrize("n_before", [0, 1_000, 20_000])
def test_late_features_are_not_penalized_for_the_past(n_before: int) -> None:
    model = SMIDASClassifier(l1=0.2, p=5, lr=0.1, schedule="constant", intercept_lr=0.0)
    past = csr_matrix(
        (np.ones(n_before), np.zeros(n_before, int), np.arange(n_before + 1)), (n_before, 1)
    )
    if n_before:
        model.learn_many(past, np.arange(n_before) % 2)
        model.learn_many([{}] * 10, [True] * 10)  # drives all weights to zero
    assert model.weights == {}
    model.learn_one({"new": 1.0}, True)
    assert model.weights["new"] == pytest.approx(0.05 - 0.02, abs=1e-14)


# Parameters


def test_n_features_only_sets_p() -> None:
    random = np.random.default_rng(0)
    X = rows_of(random, 500)
    y = X @ random.normal(size=D) > 0.0
    weights = []
    for params in ({"n_features": 1000}, {"p": 2.0 * np.log(1000.0), "n_features": 3}):
        model = SMIDASClassifier(l1=1e-3, **params)
        model.learn_many(csr_matrix(X), y)
        weights.append(model.weights)
    assert weights[0] == weights[1]
    assert len(weights[0]) > 3
    for n, p in ((1, 2.0), (2, 2.0), (2**20, 2.0 * np.log(2.0**20))):
        assert SMIDASClassifier(n_features=n)._state.rule.norm[0].p == p


def test_parameters_out_of_range_are_rejected() -> None:
    nan, inf = float("nan"), float("inf")
    n_features = "n_features must be a number from 1 to 1.84467e+19"
    kit.assert_rejects(
        SMIDASClassifier,
        [
            *(
                ({"l1": v}, "l1 must be a number from 0 to 1e+30")
                for v in (-1e-9, nan, 1.1e30, "3")
            ),
            *(({"p": v}, "p must be None or a number from 2 to 100") for v in (1.9, 101, nan, inf)),
            *(
                ({"n_features": v}, f"{n_features}, got {v!r}")
                for v in (0, -1, 0.5, nan, 1e30, True)
            ),
        ],
    )


def test_p_cannot_change_after_construction() -> None:
    model = SMIDASClassifier(p=5)
    for name in ("p", "n_features"):
        with pytest.raises(ValueError, match="cannot change"):
            setattr(model, name, 7)
        with pytest.raises(ValueError, match="cannot change"):
            model.mutate({name: 7})


def test_clone_with_state_may_change_p() -> None:
    """theta is the same, its image under the link function is not."""
    random = np.random.default_rng(5)
    X = rows_of(random, 300)
    y, signed = labels_of(random, X, "hinge")
    model, twin = SMIDASClassifier(p=5, l1=0.01), reference.SMIDAS(D, p=5, l1=0.01)
    model.learn_many(csr_matrix(X), y)
    twin.progressive(X, signed, np.ones(300))
    for p in (2.0, 30.0, 4.0):
        model = model.clone({"p": p}, include_attributes=True)
        twin.p = p
        twin.w = twin._penalty(twin.w, 0.0)
        assert_equal_twins(model, twin)
        model._state.check()
        model.learn_many(csr_matrix(X), y)
        twin.progressive(X, signed, np.ones(300))
        assert_equal_twins(model, twin)


def test_changed_parameters_act_from_the_next_step() -> None:
    changes: list[dict[str, Any]] = [
        {"l1": 2e-3},
        {"l1": 0.0, "lr": 0.9},
        {"l1": 1e-3, "schedule": "constant", "lr": 0.05},
        {"clip_gradient": 0.1, "intercept_lr": 0.2},
        {"l1": 0.03},
    ]
    model, twin = SMIDASClassifier(p=6, lr=0.5), reference.SMIDAS(D, p=6, l1=1e-4, lr=0.5)
    kit.assert_changes_match_twin(model, twin, changes, "logistic")


# Moments and powers


@given(
    st.lists(st.floats(1e-200, 1.0), min_size=1, max_size=600),
    st.floats(2.0, 100.0, exclude_min=True),
    st.randoms(use_true_random=False),
)
def test_moments_are_summed_exactly(thetas: list[float], p: float, random: Random) -> None:
    """Moments are identical for any order of the list and accurate up to rounding."""
    states = []
    for _ in range(3):
        rule = smidas.SMIDAS.start(1_000, 0.0, p)
        slots = random.sample(range(1_000), len(thetas))
        rule.u[slots] = thetas
        random.shuffle(slots)
        rule.listed[: len(slots)] = slots
        rule.clock[0].n = len(slots)
        rule.set_p(p)
        states.append((rule.M.tobytes(), rule.norm.tobytes()))
        rule.check()
    assert states[0] == states[1] == states[2]
    x = np.array(thetas) / max(thetas)
    c = rule.norm[0]
    expected = [np.sum(x[x >= c.B] ** (p - k)) for k in range(c.K + 2)]
    np.testing.assert_allclose(rule.M[: c.K + 2], expected, rtol=1e-10)
    assert np.sum(x[x < c.B] ** p) <= c.low * c.B_power <= c.tolerance * rule.M[0]


@given(st.floats(0.0, 1e15), st.floats(-22.0, 100.0))
def test_powers(x: float, q: float) -> None:
    x = x if q >= 0.0 else max(x, 1e-8)
    with np.errstate(over="ignore"):
        expected = np.float64(x) ** q
    if 1e-290 < expected < 1e290 and x > 1e-300:
        assert power(x, q) == pytest.approx(expected, rel=1e-12 * (1.0 + abs(q)))
    elif expected <= 1e-290:
        assert 0.0 <= power(x, q) < 1e-280


def test_powers_at_the_boundaries() -> None:
    assert power(1.0, 57.3) == 1.0
    assert power(0.0, 0.0) == 1.0
    assert 0.0 < power(0.0, 1.0) < 1e-280


@pytest.mark.parametrize("p", [2.0, 3.0, 9.3, 40.0])
def test_dropped_weights_are_zero_and_seen(p: float) -> None:
    random = np.random.default_rng(3)
    X = rows_of(random, 500)
    model = SMIDASClassifier(p=p, l1=0.01, lr=0.3)
    model.learn_many(csr_matrix(X), X @ random.normal(size=D) > 0.0)
    rule = model._state.rule
    seen_mask = rule.seen_mask()
    twin = reference.SMIDAS(rule.size, p=p, l1=0.01)
    twin.theta = np.copysign(np.maximum(np.abs(rule.u) - rule.clock[0].A, 0.0), rule.u)
    dropped = np.array([0, 3, 5, D - 1])
    rule.drop(dropped)
    twin.theta[dropped] = 0.0
    twin.w = twin._penalty(twin.w, 0.0)
    np.testing.assert_allclose(rule.weights(), twin.w, rtol=0.0, atol=1e-10)
    assert not rule.weights()[dropped].any()
    np.testing.assert_array_equal(rule.seen_mask(), seen_mask)
    model._state.check()
    state_before = [a.tobytes() for a in rule]
    rule.drop(dropped)  # dropping again is a no-op
    assert [a.tobytes() for a in rule] == state_before


def test_renormalizations_visit_few_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound the entries visited per learnt non-zero, for wide and narrow streams."""
    random = np.random.default_rng(0)
    wide, narrow = 20_000, 300
    for d, l1, p, max_ratio in (
        *((wide, 1e-4, None, 1.0), (wide, 1e-2, None, 4.0), (narrow, 1e-3, None, 1.0)),
        *((wide, 1e-4, 4.0, 1.0), (wide, 1e-4, 3.0, 5.0), (wide, 1e-4, 2.3, 20.0)),
    ):
        model = SMIDASClassifier(l1=l1, lr=0.3, p=p)
        n_visited = 0
        ids = np.minimum((d * random.random((2_000, 20)) ** 3).astype(np.int32), d - 1)
        X = csr_matrix((np.ones(ids.size), ids.ravel(), np.arange(2_001) * 20), (2_000, d))
        X.sum_duplicates()
        y = random.random(2_000) < 0.5
        rule = model._state.rule
        for i in range(2_000):
            model.learn_many(X[i], y[i : i + 1])
            rule = model._state.rule
            if rule.norm[0].learnt == 0:  # this step renormalized
                n_visited += rule.norm[0].counted
        assert 0 < n_visited < max_ratio * X.nnz, (d, l1, p, n_visited / X.nnz)


@pytest.mark.parametrize("cls", MODELS)
def test_frozen_model_predicts_the_same(cls: Any) -> None:
    random = np.random.default_rng(0)
    X = rows_of(random, 300)
    model = cls(l1=1e-3, p=7)
    model.learn_many(csr_matrix(X), X.sum(axis=1) > 0.0)
    frozen = model.freeze()
    for x in X[:100]:
        assert frozen.margin(as_dict(x)) == model._margin(as_dict(x))


# Command line


@pytest.fixture
def data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    lines = []
    for _ in range(300):
        ids = np.sort(random.choice(40, 5, replace=False))
        label = "+1" if np.sum(ids % 2) > 2 else "-1"
        lines.append(f"{label} {' '.join(f'{j + 1}:1' for j in ids)}")
    Path("a.svm").write_text("\n".join(lines) + "\n")


def run(*args: str) -> Any:
    return CliRunner().invoke(cli, list(args))


@pytest.mark.usefixtures("data_directory")
def test_learn_and_continue() -> None:
    result = run("learn", "a.svm", "--model", "smidas", "--l1", "1e-3", "--p", "5", "--save", "m")
    assert result.exit_code == 0, result.output
    model = load("m")
    assert repr(model) == "SMIDASClassifier(l1=0.001, p=5.0)"
    assert model.n_iterations == 300 and model.n_nonzero > 10
    assert "  p                 5" in run("show", "m").output
    continue_args = ["learn", "a.svm", "--load", "m", "--save", "m"]
    assert run(*continue_args, "--l1", "0.5").exit_code == 0
    assert load("m").l1 == 0.5 and load("m").n_iterations == 600
    for options, message in (
        (["--p", "6"], "--p cannot change from 5.0 to 6.0 for m"),
        (["--l2", "6"], "--l2 is not an option of m; its options are --l1, --p,"),
        (["--model", "elastic-net"], "--model elastic-net does not match m, which holds smidas"),
    ):
        rejected = run(*continue_args, *options)
        assert rejected.exit_code == 2 and message in rejected.stderr
