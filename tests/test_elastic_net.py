"""The lazy elastic net against its dense twin, and properties of both."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from river.optim import schedulers
from scipy.sparse import csr_matrix

from streaml1 import ElasticNetClassifier, ElasticNetRegressor
from streaml1.core.jit import COMPILED, kernel
from streaml1.optim.elastic_net import A_START, ElasticNet
from streaml1.optim.losses import CODES
from streaml1.optim.update_rule import apply_penalty
from tests import kit, reference
from tests.learner_data import (
    BINARY,
    LOSS_PARAMETERS,
    SCHEDULES,
    D,
    as_dict,
    assert_equal_twins,
    dense,
    is_run,
    labels_of,
    rows_of,
)

PENALTIES = {
    "none": {},
    "l1": {"l1": 0.01},
    "l2": {"l2": 0.05},
    "both": {"l1": 0.004, "l2": 0.02},
}


def model_of(loss: str, **params: Any) -> Any:
    """Return a new classifier or regressor for the loss."""
    kind = ElasticNetClassifier if loss in BINARY else ElasticNetRegressor
    return kind(loss=loss, **params)


@pytest.mark.slow
@pytest.mark.parametrize("loss", CODES)
def test_both_forms_equal_the_dense_twin(loss: str) -> None:
    """Two thousand steps of every schedule, update and penalty, in blocks and one by one."""
    X, y, signed, w = kit.data_of(loss)
    for k, (schedule, update, penalty) in enumerate(
        itertools.product(SCHEDULES, ("fobos", "sgd"), PENALTIES)
    ):
        if not is_run(loss, k):
            continue
        params = {**SCHEDULES[schedule], **PENALTIES[penalty], "update": update}
        params |= LOSS_PARAMETERS.get(loss, {})
        if k % 3 == 0:
            params |= {"clip_gradient": 0.2, "intercept_lr": 0.05, "intercept_init": -0.3}
        budget = (2**20, 777, 5)[k % 3]
        explicit = model_of(loss, **params, stamps="explicit", budget=budget)
        folded, twin = model_of(loss, **params), reference.ElasticNet(D, loss=loss, **params)
        for rows, one_by_one in kit.blocks():
            expected = twin.progressive(X[rows], signed[rows], w[rows])
            for model in (explicit, folded):
                got = kit.progressive(model, X[rows], y[rows], w[rows], one_by_one)
                np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-9, err_msg=str(params))
                assert_equal_twins(model, twin)
                assert model.n_nonzero == len(model.weights)
                model._state.check()
            np.testing.assert_allclose(dense(explicit), dense(folded), rtol=1e-9, atol=1e-11)
        clock = explicit._state.rule.clock[0]
        has_equal_steps = schedule == "constant" or penalty == "none"
        assert budget == 5 or clock.even == has_equal_steps
        assert clock.now <= budget


@pytest.mark.parametrize("stamps", ["folded", "explicit"])
def test_rows_of_every_length_equal_the_dense_twin(stamps: str) -> None:
    """Kernels process eight entries at once: test remainders of every length."""
    random = np.random.default_rng(17)
    lengths = np.repeat(np.arange(41), 8)
    random.shuffle(lengths)
    X = np.zeros((len(lengths), D))
    for i, n in enumerate(lengths):
        X[i, random.choice(D, n, replace=False)] = random.normal(size=n)
    y, signed = labels_of(random, X, "logistic")
    params: dict[str, Any] = {"lr": 0.2, "l1": 0.004, "l2": 0.02}
    twin = reference.ElasticNet(D, **params)
    expected = twin.progressive(X, signed, np.ones(len(y)))
    by_matrix, by_dict = (ElasticNetClassifier(stamps=stamps, **params) for _ in range(2))
    got = by_matrix.progressive_many(csr_matrix(X), y)
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-9)
    for i in range(len(y)):
        assert by_dict.predict_proba_one(as_dict(X[i]))[True] == got[i]
        by_dict.learn_one(as_dict(X[i]), bool(y[i]))
    assert_equal_twins(by_matrix, twin)
    assert by_dict.weights == by_matrix.weights


@pytest.mark.parametrize("schedule", ["constant", "invsqrt"])
@pytest.mark.parametrize("l2", [1.0, 1.5, 30.0])
def test_sgd_with_eta_l2_above_one_restarts(l2: float, schedule: str) -> None:
    """If eta l2 >= 1 every weight is 0 after the step, and later steps learn from zero weights."""
    random = np.random.default_rng(5)
    X = rows_of(random, 600)
    y, signed = labels_of(random, X, "logistic")
    params: dict[str, Any] = {"lr": 1.0, "l1": 1e-3, "l2": l2, "update": "sgd"}
    params["schedule"] = schedule
    twin = reference.ElasticNet(D, **params)
    folded, explicit = (ElasticNetClassifier(**params, stamps=s) for s in ("folded", "explicit"))
    n_zero_steps = 0
    for i in range(600):
        x, output = as_dict(X[i]), twin.output(X[i])
        twin.learn(X[i], signed[i])
        is_zero_step = (1.0 if schedule == "constant" else 1.0 / np.sqrt(i + 1.0)) * l2 >= 1.0
        n_zero_steps += is_zero_step
        for model in (folded, explicit):
            assert model.predict_proba_one(x)[True] == pytest.approx(output, abs=1e-9)
            model.learn_one(x, bool(y[i]))
            assert not is_zero_step or (model.weights == {} and model.n_nonzero == 0)
            model._state.check()
            assert_equal_twins(model, twin)
        assert not is_zero_step or folded._state.rule.clock[0].P == 1.0
    assert n_zero_steps == (600 if schedule == "constant" else min(600, int(l2**2)))
    assert explicit.n_features_seen == np.count_nonzero(X.any(axis=0))


@njit(error_model="numpy")
def _dense_loop(w, ids, x, y, eta, l1, l2, sgd):  # type: ignore[no-untyped-def]
    """Learn rows of one non-zero eagerly with the squared loss; return the predictions."""
    p = np.empty(len(y))
    for i in range(len(y)):
        j = ids[i]
        p[i] = w[j] * x[i]
        w[j] -= eta * (p[i] - y[i]) * x[i]
        for k in range(len(w)):
            if sgd:
                shrunk = (1.0 - eta * l2) * abs(w[k]) - eta * l1
            else:
                shrunk = (abs(w[k]) - eta * l1) / (1.0 + eta * l2)
            w[k] = np.sign(w[k]) * max(0.0, shrunk)
    return p


@pytest.mark.slow
@pytest.mark.parametrize("update", ["fobos", "sgd"])
@pytest.mark.parametrize(
    ("steps", "eta", "l1", "l2"),
    [
        (1_000_000, 0.5, 0.0, 0.8),  # P underflows every 1,000 steps
        (1_000_000, 0.5, 1e-3, 0.8),  # the same, with weights that become zero
        (10_000_000, 0.1, 0.01, 0.0),  # A exceeds its limit every 64,000 steps
        (3_000_000, 0.1, 0.003, 0.02),
    ],
    ids=["ridge", "both", "l1", "mild"],
)
def test_many_renormalizations(update: str, steps: int, eta: float, l1: float, l2: float) -> None:
    random = np.random.default_rng(1)
    d, block = 6, 500_000
    truth = np.array([2.0, -1.0, 0.5, 0.02, 0.0, -4.0])
    chance = np.array([0.5, 0.3, 0.15, 0.05, 1e-4, 1e-5])
    model = ElasticNetRegressor(
        l1=l1, l2=l2, update=update, lr=eta, schedule="constant", intercept_lr=0.0
    )
    w, rebased, P, A = np.zeros(d), 0, 1.0, 0.0
    for _ in range(steps // block):
        ids = random.choice(d, size=block, p=chance / chance.sum()).astype(np.int32)
        x = random.choice([0.5, 1.0, -1.0, 1.25], size=block)
        y = truth[ids] * x + random.normal(size=block) * 0.1
        expected = _dense_loop(w, ids, x, y, eta, l1, l2, update == "sgd")
        got = model.progressive_many(csr_matrix((x, ids, np.arange(block + 1)), (block, d)), y)
        np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-9)
        twin = reference.ElasticNet(d)
        twin.w = w
        assert_equal_twins(model, twin)
        model._state.check()
        clock = model._state.rule.clock[0]
        rebased += bool(clock.P > P or clock.A < A)
        P, A = clock.P, clock.A
    assert rebased > 0


@pytest.mark.parametrize("update", ["fobos", "sgd"])
@pytest.mark.parametrize("before", [0, 1_000, 20_000])
def test_new_features_owe_no_past_penalties(update: str, before: int) -> None:
    model = ElasticNetClassifier(
        l1=0.2, l2=0.1, update=update, lr=0.1, schedule="constant", intercept_lr=0.0
    )
    past = csr_matrix((np.ones(before), np.zeros(before, int), np.arange(before + 1)), (before, 1))
    if before:
        model.learn_many(past, np.arange(before) % 2)
    model.learn_one({"new": 1.0}, True)
    expected = 0.99 * 0.05 - 0.02 if update == "sgd" else (0.05 - 0.02) / 1.01
    assert model.weights["new"] == pytest.approx(expected, abs=1e-14)


def test_without_penalties_equals_plain_sgd() -> None:
    random = np.random.default_rng(3)
    X = rows_of(random, 2_000)
    y = X @ random.normal(size=D)
    models = [ElasticNetRegressor(update=update, lr=0.2) for update in ("fobos", "sgd")]
    w, b = np.zeros(D), 0.0
    for i in range(len(X)):
        for model in models:
            model.learn_one(as_dict(X[i]), float(y[i]))
        g = w @ X[i] + b - y[i]
        w -= 0.2 / np.sqrt(i + 1.0) * g * X[i]
        b -= 0.01 * g
    for model in models:
        np.testing.assert_allclose(dense(model), w, rtol=0.0, atol=1e-12)
    assert models[0].weights == models[1].weights


def test_penalties_do_not_change_the_intercept() -> None:
    """An intercept far from zero stays at the mean of the labels even under strong penalties."""
    model = ElasticNetRegressor(lr=0.1, l1=10.0, l2=10.0, intercept_lr=0.1, intercept_init=7.0)
    model.learn_one({"x": 1.0}, 7.0)
    assert model.intercept == 7.0
    for _ in range(500):
        model.learn_one({"x": 1.0}, 40.0)
    assert model.intercept == pytest.approx(40.0) and model.weights == {}
    frozen = ElasticNetRegressor(intercept_lr=0.0, intercept_init=7.0)
    frozen.learn_many([{"x": 1.0}] * 50, [3.0] * 50)
    assert frozen.intercept == 7.0


@pytest.mark.parametrize(
    ("lr", "change"),
    [
        (0.5, {"l1": 0.9, "max_features": 1, "lr": "auto"}),
        (0.5, {"l1": 0.9, "lr": {"rate": 0.2}}),
        (0.5, {"l1": 0.9, "l2": -1.0}),
        (schedulers.Constant(0.5), {"l1": 0.9, "lr": {"rate": 0.2}}),
        ("auto", {"l1": 0.9, "loss": "hinge"}),
    ],
)
def test_changes_are_applied_together_or_not_at_all(lr: Any, change: dict[str, Any]) -> None:
    model, untouched = (ElasticNetClassifier(l1=0.01, lr=lr) for _ in range(2))
    xs = [({f"f{k % 7}": 1.0, "g": k * 0.1}, k % 3 == 0) for k in range(60)]
    for x, y in xs[:30]:
        model.learn_one(x, y)
        untouched.learn_one(x, y)
    with pytest.raises(ValueError):
        model.mutate(change)
    assert model.l1 == 0.01 and model.max_features is None and model.loss == "logistic"
    for x, y in xs[30:]:
        model.learn_one(x, y)
        untouched.learn_one(x, y)
    assert model.weights == untouched.weights and model.intercept == untouched.intercept


def test_scheduler_class_is_rejected() -> None:
    with pytest.raises(
        ValueError, match="^lr must be a scheduler instance, got the class InverseScaling"
    ):
        ElasticNetClassifier(lr=schedulers.InverseScaling)


def test_top_weights_rejects_negative_k() -> None:
    model = ElasticNetClassifier()
    model.learn_one({"a": 1.0, "b": 2.0}, True)
    assert len(model.top_weights(0)) == 0 and len(model.top_weights(1)) == 1
    with pytest.raises(ValueError, match="k must be >= 0, got -1"):
        model.top_weights(-1)
    with pytest.raises(ValueError, match="k must be an integer >= 0, got 2.5"):
        model.top_weights(2.5)  # type: ignore[arg-type]


@given(st.lists(st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]), max_size=12))
def test_top_weights_are_sorted_by_size_with_stable_ties(values: list[float]) -> None:
    model = ElasticNetClassifier(lr=1.0, intercept_lr=0.0)
    model.learn_one({f"w{k}": v for k, v in enumerate(values)}, True)
    ranked = [
        sorted(
            ((name, w) for name, w in model.weights.items() if w * sign >= 0.0),
            key=lambda item: -abs(item[1]),
        )
        for sign in (0, 1, -1)
    ]
    for k in range(len(values) + 2):
        assert model._farthest(k, 0, 1, -1) == [items[:k] for items in ranked]
        assert model.top_weights(k) == ranked[0][:k]


@pytest.mark.parametrize("update", ["fobos", "sgd"])
@pytest.mark.parametrize(
    ("stamps", "schedule"),
    [("folded", "invsqrt"), ("explicit", "invsqrt"), ("explicit", "constant")],
)
def test_changed_parameters_act_from_the_next_step(stamps: str, schedule: str, update: str) -> None:
    changes: list[dict[str, Any]] = [
        {"l1": 2e-3},
        {"l2": 0.3},
        {"budget": 20},
        {"l1": 0.0, "lr": schedulers.Constant(0.4), "budget": 2**25},
        {"l1": 1e-3, "l2": 0.0, "schedule": "constant", "lr": 0.05},
        {"update": "sgd" if update == "fobos" else "fobos", "l2": 0.1},
        {"clip_gradient": 0.1, "intercept_lr": 0.2},
    ]
    params: dict[str, Any] = {"update": update, "lr": 0.2, "schedule": schedule}
    model, twin = ElasticNetClassifier(**params, stamps=stamps), reference.ElasticNet(D, **params)
    kit.assert_changes_match_twin(model, twin, changes, "logistic")


def test_custom_scheduler_receives_python_ints() -> None:
    class Inverse:
        def get(self, t: int) -> float:
            return 0.1 * (t + 1) ** -1

    by_row, by_batch = ElasticNetClassifier(lr=Inverse()), ElasticNetClassifier(lr=Inverse())
    xs = [{i % 4: 1.0} for i in range(20)]
    by_batch.learn_many(xs, [i % 2 for i in range(20)])
    for i, x in enumerate(xs):
        by_row.learn_one(x, i % 2)
    assert by_row.weights == by_batch.weights


@pytest.mark.parametrize("average", [False, True])
def test_rows_longer_than_the_scratch_array_are_predicted(average: bool) -> None:
    """The margin of a row that exceeds the scratch array is correct."""
    random = np.random.default_rng(3)
    d = 3_000
    short_rows = rows_of(random, 400, d, 30)
    long_rows = random.normal(size=(3, d))
    y = random.random(400) < 0.5
    params: dict[str, Any] = {"lr": 0.1, "l1": 1e-4, "l2": 1e-3, "average": average}
    model, row_learner = ElasticNetClassifier(**params), ElasticNetClassifier(**params)
    for rows in (slice(0, 200), slice(200, 400)):
        for learner in (model, row_learner):
            learner.learn_many(csr_matrix(short_rows[rows]), y[rows])
        margins = long_rows @ dense(model, d) + model.intercept
        expected = 1.0 / (1.0 + np.exp(-margins))
        got = model.predict_proba_many(csr_matrix(long_rows))[:, 1]
        np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-12)
        by_row = [model.predict_proba_one(as_dict(x))[True] for x in long_rows]
        np.testing.assert_allclose(by_row, expected, rtol=0.0, atol=1e-12)
    assert model.weights == row_learner.weights
    model.learn_many(csr_matrix(long_rows), y[:3])
    for x, label in zip(long_rows, y[:3], strict=True):
        row_learner.learn_one(as_dict(x), bool(label))
    assert model.weights == row_learner.weights


def test_scalar_and_array_weights_and_rates_are_equal() -> None:
    random = np.random.default_rng(4)
    X = csr_matrix(rows_of(random, 200))
    y = random.random(200) < 0.5
    rates: list[Any] = [0.3, schedulers.Constant(0.3)]
    weights: list[Any] = [2.0, np.full(200, 2.0), np.broadcast_to(2.0, 200), [2.0] * 200]
    results = []
    for lr, w in itertools.product(rates, weights):
        model = ElasticNetClassifier(l1=1e-3, lr=lr, schedule="constant")
        results.append((model.progressive_many(X, y, w).tolist(), model.weights))
    assert all(result == results[0] for result in results)


N_STEPS = 10_000_000 if COMPILED else 100_000


@kernel
def many_steps(rule: Any, eta: float, l1: float, n: int) -> float:
    """Apply the penalty of n steps to the rule; return A by plain summation."""
    A = A_START
    for _ in range(n):
        apply_penalty(rule, eta)
        A += eta * l1
    return A


def test_ten_million_steps_have_the_error_of_one_rounding() -> None:
    """A is a Kahan sum. Plain summation of the same steps misses the bound by a factor of 1,000."""
    eta, l1, initial_weight = 0.1, 62.9 / N_STEPS / 0.1, 63.0
    rule = ElasticNet.start(1, l1, 0.0, False)
    rule.u[0] = initial_weight
    plain_sum = many_steps(rule, eta, l1, N_STEPS)
    exact = Fraction(A_START) + N_STEPS * Fraction(eta * l1)
    bound = 2 * Fraction(np.spacing(initial_weight))  # 1.4e-14
    assert rule.clock[0].P == 1.0 and 62.0 < rule.clock[0].A < initial_weight  # no renormalization
    assert abs(Fraction(float(rule.clock[0].A)) - exact) <= bound
    assert abs(Fraction(float(rule.weights()[0])) - (Fraction(initial_weight) - exact)) <= bound
    assert abs(Fraction(plain_sum) - exact) > (1_000 if COMPILED else 10) * bound
