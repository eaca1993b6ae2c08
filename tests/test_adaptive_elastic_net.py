"""The adaptive elastic net against its dense twin, and its closed form against single steps."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from streaml1 import (
    AdaptiveElasticNetClassifier,
    AdaptiveElasticNetRegressor,
    ElasticNetRegressor,
    FTRLRegressor,
)
from streaml1.optim.adaptive_elastic_net import _shrunk
from streaml1.optim.losses import CODES
from tests import kit, reference
from tests.learner_data import D, as_dict, assert_equal_twins, labels_of, rows_of

SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "l1": {"l1": 0.01},
    "l2": {"l2": 0.05, "lr": 1.0},
    "both": {"l1": 0.004, "l2": 0.02, "delta": 1e-3},
    "strong": {"l1": 0.5, "l2": 3.0, "lr": 2.0, "delta": 1.0},
}


def make_model(loss: str = "logistic", **params: Any) -> Any:
    kind = AdaptiveElasticNetClassifier if kit.is_binary(loss) else AdaptiveElasticNetRegressor
    return kind(loss=loss, **params)


def after_steps(v: float, k: int, eta: float, l1: float, l2: float) -> float:
    """Take k proximal steps one by one."""
    for _ in range(k):
        v = math.copysign(max(abs(v) - eta * l1, 0.0) / (1.0 + eta * l2), v)
    return v


@pytest.mark.slow
@pytest.mark.parametrize("loss", CODES)
def test_equals_the_dense_twin(loss: str) -> None:
    data = kit.data_of(loss)
    for k, params in enumerate(SETTINGS.values()):
        if k % 2 == 0:
            params = params | {"clip_gradient": 0.2, "intercept_lr": 0.05, "intercept_init": -0.3}
        twin = reference.AdaptiveElasticNet(D, loss=loss, **params)
        kit.assert_matches_twin(make_model(loss, **params), twin, data)


# The closed form

STRENGTHS = st.one_of(st.just(0.0), st.floats(1e-12, 1e3))


@settings(deadline=None)
@given(st.floats(-1e3, 1e3), st.integers(0, 300), st.floats(1e-9, 1e3), STRENGTHS, STRENGTHS)
def test_closed_form_equals_single_steps(
    v: float, k: int, eta: float, l1: float, l2: float
) -> None:
    expected = after_steps(v, k, eta, l1, l2)
    got = _shrunk(v, k, eta, l1, l2)
    assert got == pytest.approx(expected, rel=1e-9, abs=1e-12 * max(1.0, abs(v)))
    assert got * v >= 0.0


@settings(deadline=None)
@given(
    st.floats(-1e3, 1e3),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.floats(1e-9, 1e3),
    STRENGTHS,
    STRENGTHS,
)
def test_pending_steps_add_up(v: float, j: int, k: int, eta: float, l1: float, l2: float) -> None:
    at_once = _shrunk(v, j + k, eta, l1, l2)
    in_two = _shrunk(_shrunk(v, j, eta, l1, l2), k, eta, l1, l2)
    assert in_two == pytest.approx(at_once, rel=1e-6, abs=1e-9 * max(1.0, abs(v)))


@pytest.mark.parametrize("l2", [0.0, 1e-300, 1e-120, 1e-14, 1e-8])
def test_a_vanishing_l2_is_no_l2(l2: float) -> None:
    assert _shrunk(5.0, 1000, 0.5, 0.002, l2) == pytest.approx(4.0, abs=1e-4 if l2 > 1e-9 else 1e-9)


def test_numbers_of_any_size_stay_finite() -> None:
    numbers = (0.0, 1e-300, 1e-30, 1.0, 1e30)
    for v, k, eta, l1, l2 in itertools.product(
        (-1e100, 0.0, 1e-300, 1e100), (0, 1, 10**15), (0.0, 1e-110, 1.0, 1e110), numbers, numbers
    ):
        w = _shrunk(v, k, eta, l1, l2)
        assert math.isfinite(w) and abs(w) <= abs(v)


def test_absent_features_shrink_at_their_own_rate() -> None:
    model = AdaptiveElasticNetRegressor(lr=0.5, delta=1.0, l1=0.01, l2=0.1, intercept_lr=0.0)
    model.learn_one({"often": 1.0, "once": 3.0}, 2.0)  # g = -2
    expected = {}
    for name, G in (("often", 2.0), ("once", 6.0)):
        eta = 0.5 / (1.0 + G)
        expected[name] = after_steps(eta * G, 8, eta, 0.01, 0.1)
    for _ in range(7):
        model.learn_one({}, 0.0)
    assert model.weights == pytest.approx(expected, rel=1e-12)


# Relatives


def test_without_a_penalty_it_is_ftrl_without_one() -> None:
    random = np.random.default_rng(0)
    X = rows_of(random, 500)
    y, _ = labels_of(random, X, "squared")
    ftrl = FTRLRegressor(alpha=0.4, beta=0.2, l1=0.0)
    model = AdaptiveElasticNetRegressor(lr=0.4, delta=0.2)
    p = model.progressive_many(csr_matrix(X), y)
    np.testing.assert_allclose(ftrl.progressive_many(csr_matrix(X), y), p, rtol=0.0, atol=1e-10)


def test_a_large_delta_makes_all_rates_equal() -> None:
    random = np.random.default_rng(0)
    X = rows_of(random, 500)
    y, _ = labels_of(random, X, "squared")
    net = ElasticNetRegressor(lr=0.1, schedule="constant", l1=0.02, l2=0.1)
    model = AdaptiveElasticNetRegressor(lr=1e9, delta=1e10, l1=0.02, l2=0.1)
    p = model.progressive_many(csr_matrix(X), y)
    np.testing.assert_allclose(net.progressive_many(csr_matrix(X), y), p, rtol=0.0, atol=1e-6)


@settings(deadline=None)
@given(st.permutations(range(8)))
def test_order_of_columns_changes_only_the_rounding(order: list[int]) -> None:
    random = np.random.default_rng(0)
    X = rows_of(random, 100, 8, 4)
    y, _ = labels_of(random, X, "logistic")
    params = {"l1": 0.01, "l2": 0.1}
    expected = make_model(**params).progressive_many(csr_matrix(X), y)
    got = make_model(**params).progressive_many(csr_matrix(X[:, order]), y)
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-12)


# State


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_parameter_changes_apply_from_the_next_step(loss: str) -> None:
    changes: list[dict[str, Any]] = [
        {"l1": 0.02},
        {"lr": 0.7},
        {"delta": 2.0, "l2": 0.1},
        {"l1": 0.3},
        {"l1": 0.0, "l2": 0.0, "lr": 0.05},
        {"lr": 0.0},
        {"clip_gradient": 0.1, "intercept_lr": 0.2, "lr": 0.4},
    ]
    twin = reference.AdaptiveElasticNet(D, loss=loss)
    kit.assert_changes_match_twin(make_model(loss), twin, changes, loss)


def test_squared_gradients_of_a_zero_weight_are_retained() -> None:
    model = AdaptiveElasticNetRegressor(lr=1.0, l1=3.0, intercept_lr=0.0)
    model.learn_one({"x": 1.0}, 2.0)
    model.learn_one({"never": 1.0}, 0.0)  # a zero gradient leaves no state
    assert model.weights == {} and model.n_features_seen == 2
    rule = model._state.rule
    assert rule.seen_mask().sum() == 2 and rule.live_mask().sum() == 1
    assert rule.slots["n"].max() == 4.0
    rule.drop(np.flatnonzero(rule.live_mask()))
    assert rule.seen_mask().sum() == 2 and rule.slots["n"].max() == 4.0


def test_schedules_do_not_exist() -> None:
    with pytest.raises(TypeError):
        AdaptiveElasticNetClassifier(schedule="inverse")
    with pytest.raises(ValueError, match="schedule cannot change; AdaptiveElasticNetClassifier"):
        AdaptiveElasticNetClassifier().mutate({"schedule": "inverse"})
    assert "schedule" not in AdaptiveElasticNetClassifier()._get_params()


def test_parameters_out_of_range_are_rejected() -> None:
    kit.assert_rejects(
        AdaptiveElasticNetClassifier,
        [
            ({"lr": -1.0}, "lr must be a number from 0 to 1e+10, got -1.0"),
            ({"lr": "auto"}, "lr must be a number from 0 to 1e+10, got 'auto'"),
            ({"delta": 0.0}, "delta must be a number from 1e-100 to 1e+10, got 0.0"),
            ({"l1": -1.0}, "l1 must be a number from 0 to 1e+30, got -1.0"),
            ({"l2": math.nan}, "l2 must be a number from 0 to 1e+30, got nan"),
            ({"loss": "absolute"}, "\"squared_hinge\", got 'absolute'"),
        ],
    )


def test_crafted_state_is_rejected() -> None:
    kit.assert_rejects_states(
        make_model(l1=0.01),
        lambda a: [{"clock": {"delta_now": 0.0}}, {"n": -a["n"]}, {"t": a["t"] + 1000}],
    )


def test_two_steps_by_hand() -> None:
    """Two examples of one feature, computed by hand."""
    params: dict[str, Any] = {"lr": 0.5, "delta": 1.0, "l1": 0.1, "l2": 0.2, "intercept_lr": 0.0}
    twin = reference.AdaptiveElasticNet(1, loss="squared", **params)
    model = make_model("squared", **params)
    twin.learn(np.ones(1), 1.0)
    w = (0.25 - 0.25 * 0.1) / (1.0 + 0.25 * 0.2)  # g = -1, n = 1, eta = 1/4
    assert twin.w[0] == pytest.approx(w)
    twin.learn(np.ones(1), 1.0)
    eta = 0.5 / (1.0 + math.sqrt(1.0 + (1.0 - w) ** 2))
    assert twin.w[0] == pytest.approx((w + eta * (1.0 - w) - eta * 0.1) / (1.0 + eta * 0.2))
    for _ in range(2):
        model.learn_one(as_dict(np.ones(1)), 1.0)
    assert_equal_twins(model, twin)
