"""Truncated gradient compared with its dense reference and with l1 FoBoS."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from streaml1 import (
    ElasticNetClassifier,
    ElasticNetRegressor,
    TruncatedGradientClassifier,
    TruncatedGradientRegressor,
)
from streaml1.optim.losses import CODES
from tests import kit, reference
from tests.learner_data import SCHEDULES, D, as_dict, assert_equal_twins, is_run

SETTINGS: dict[str, dict[str, Any]] = {
    "always": {"gravity": 0.01},
    "periodic": {"gravity": 0.02, "period": 13},
    "small weights": {"gravity": 0.02, "threshold": 0.2},
    "small weights, periodic": {"gravity": 0.05, "period": 5, "threshold": 0.1},
    "none": {"gravity": 0.0, "threshold": 0.1},
    "zero": {"gravity": 0.1, "threshold": 0.0},
}


def make_model(loss: str = "logistic", **params: Any) -> Any:
    model_class = TruncatedGradientClassifier if kit.is_binary(loss) else TruncatedGradientRegressor
    return model_class(loss=loss, **params)


@pytest.mark.slow
@pytest.mark.parametrize("loss", CODES)
def test_equals_the_dense_twin(loss: str) -> None:
    data = kit.data_of(loss)
    for k, (schedule, setting) in enumerate(itertools.product(SCHEDULES, SETTINGS)):
        if not is_run(loss, k):
            continue
        params = {**SCHEDULES[schedule], **SETTINGS[setting]}
        if k % 3 == 0:
            params |= {"clip_gradient": 0.2, "intercept_lr": 0.05, "intercept_init": -0.3}
        dense = reference.TruncatedGradient(D, loss=loss, **params)
        kit.assert_matches_twin(make_model(loss, **params), dense, data)


@pytest.mark.parametrize("loss", CODES)
def test_period_one_without_threshold_equals_l1_fobos(loss: str) -> None:
    X, y, _, w = kit.data_of(loss, 4_000)
    fobos_class = ElasticNetClassifier if kit.is_binary(loss) else ElasticNetRegressor
    for l1, schedule in itertools.product((0.0, 1e-3, 0.05), SCHEDULES.values()):
        fobos = fobos_class(loss=loss, l1=l1, **schedule)
        truncated = make_model(loss, gravity=l1, **schedule)
        a = fobos.progressive_many(csr_matrix(X), y, w)
        b = truncated.progressive_many(csr_matrix(X), y, w)
        np.testing.assert_allclose(a, b, rtol=0.0, atol=1e-12)
        assert set(fobos.weights) == set(truncated.weights)
        assert truncated.weights == pytest.approx(fobos.weights, rel=0.0, abs=1e-12)


def test_weight_beyond_the_threshold_is_not_truncated() -> None:
    params: dict[str, Any] = {"lr": 1.0, "schedule": "constant", "intercept_lr": 0.0}
    model = TruncatedGradientRegressor(gravity=0.01, threshold=0.5, **params)
    model.learn_one({"large": 1.0, "small": 0.5}, 1.0)  # 1.0 and 0.5, exactly at the threshold
    assert model.weights == {"large": 1.0, "small": 0.49}
    for t in range(20):
        model.learn_one({}, 0.0)
        assert model.weights["large"] == 1.0
        assert model.weights["small"] == pytest.approx(0.48 - 0.01 * t, abs=1e-15)
    model.learn_one({"large": 1.0}, 0.5)  # below the threshold from now on
    assert model.weights["large"] == pytest.approx(0.49, abs=1e-15)
    for _ in range(60):
        model.learn_one({}, 0.0)
    assert model.weights == {}
    assert model.n_features_seen == 2


@given(
    period=st.integers(1, 9),
    threshold=st.sampled_from([0.0, 0.05, 0.3, math.inf]),
    values=st.lists(st.tuples(st.integers(0, 5), st.floats(-2.0, 2.0)), max_size=60),
)
def test_truncations_happen_at_the_right_steps(
    period: int, threshold: float, values: list[tuple[int, float]]
) -> None:
    params: dict[str, Any] = {"gravity": 0.05, "period": period, "threshold": threshold, "lr": 0.3}
    model, dense = TruncatedGradientClassifier(**params), reference.TruncatedGradient(6, **params)
    for j, v in values:
        x = np.zeros(6)
        x[j] = v
        model.learn_one(as_dict(x), v > 0.5)
        dense.learn(x, 1.0 if v > 0.5 else -1.0)
        assert_equal_twins(model, dense)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_changed_parameters_act_from_the_next_step(loss: str) -> None:
    params: dict[str, Any] = {"lr": 0.3, "schedule": "constant"}
    dense = reference.TruncatedGradient(D, loss=loss, **params)
    changes: list[dict[str, Any]] = [
        {"gravity": 1e-2},
        {"threshold": 0.11},
        {"period": 3, "lr": 0.2},
        {"threshold": 0.31, "gravity": 2e-3},
        {"threshold": 0.017, "period": 2},
        {"gravity": 0.0},
        {"gravity": 1e-2, "threshold": math.inf},
        {"clip_gradient": 0.1, "intercept_lr": 0.2, "schedule": "invsqrt"},
    ]
    kit.assert_changes_match_twin(make_model(loss, **params), dense, changes, loss)


@pytest.mark.slow
@pytest.mark.parametrize("threshold", [0.8, math.inf])
def test_many_renormalizations(threshold: float) -> None:
    """The accumulated penalty A exceeds its limit every 64,000 steps."""
    params: dict[str, Any] = {
        **{"gravity": 0.01, "threshold": threshold, "lr": 0.1, "schedule": "constant"},
        **{"intercept_lr": 0.0, "loss": "squared"},
    }
    random = np.random.default_rng(1)
    model, dense = TruncatedGradientRegressor(**params), reference.TruncatedGradient(6, **params)
    truth = np.array([2.0, -1.0, 0.5, 0.02, 0.0, -4.0])
    rates = np.array([0.5, 0.3, 0.15, 0.05, 1e-3, 1e-4])
    A, n_restarts = 0.0, 0
    for _ in range(14):
        X = (random.random((10_000, 6)) < rates) * random.choice([0.5, 1.0, -1.0], (10_000, 6))
        y = X @ truth + random.normal(size=10_000) * 0.1
        got = model.progressive_many(csr_matrix(X), y)
        np.testing.assert_allclose(got, dense.progressive(X, y, np.ones(10_000)), atol=1e-9, rtol=0)
        assert_equal_twins(model, dense)
        model._state.check()
        n_restarts += bool(model._state.rule.clock[0].A < A)
        A = model._state.rule.clock[0].A
    assert n_restarts >= 2


def test_parameters_out_of_range_are_rejected() -> None:
    kit.assert_rejects(
        TruncatedGradientClassifier,
        [
            ({"gravity": -1.0}, "gravity must be a number from 0 to 1e+30, got -1.0"),
            ({"gravity": math.inf}, "gravity must be a number from 0 to 1e+30"),
            ({"period": 0}, "period must be an integer from 1 to 2,147,483,648, got 0"),
            ({"period": 1.5}, "period must be an integer from 1 to 2,147,483,648, got 1.5"),
            ({"threshold": -0.1}, "threshold must be a number from 0 to inf, got -0.1"),
            ({"threshold": math.nan}, "threshold must be a number from 0 to inf, got nan"),
            ({"threshold": None}, "threshold must be a number from 0 to inf, got None"),
            ({"loss": "squared"}, "\"squared_hinge\", got 'squared'"),
        ],
    )


def test_crafted_state_is_rejected() -> None:
    model = make_model(gravity=0.01, threshold=0.1, lr=0.5)
    kit.assert_rejects_states(
        model,
        lambda arrays: [
            {"clock": {"theta": 0.3}},
            {"clock": {"period": 0}},
            *({"a": np.full(len(arrays["a"]), a)} for a in (1.0, np.inf)),
        ],
    )
    a = model._state.rule.slots["a"]
    assert np.isposinf(a).any() and not np.isposinf(a).all()
