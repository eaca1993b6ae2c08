"""Pegasos compared with its dense reference, and its incrementally maintained norm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from streaml1 import PegasosClassifier
from streaml1.optim.pegasos import _sum_of_squares
from streaml1.solvers import fista
from tests import kit, reference
from tests.learner_data import D, assert_equal_twins

SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "strong": {"l2": 0.3},
    "mild": {"l2": 1e-2, "intercept_lr": 0.1},
    "unprojected": {"l2": 1e-2, "project": False},
    "logistic": {"l2": 1e-2, "loss": "logistic"},
    "strong logistic": {"l2": 3.0, "loss": "logistic"},
    "unprojected logistic": {"l2": 0.3, "loss": "logistic", "project": False},
    "clipped": {"l2": 1e-3, "clip_gradient": 0.25, "intercept_init": -0.3},
}


def make_model(**params: Any) -> Any:
    return PegasosClassifier(**params)


@pytest.mark.parametrize("setting", SETTINGS)
def test_equals_the_dense_twin(setting: str) -> None:
    params = SETTINGS[setting]
    kit.assert_matches_twin(
        make_model(**params), reference.Pegasos(D, **params), kit.data_of("hinge")
    )


def test_logistic_ball_holds_the_optimum() -> None:
    """And the projection acts: without it the first steps leave the ball."""
    model = PegasosClassifier(l2=0.5, loss="logistic", intercept_lr=0.0)
    model.learn_one({"x": 30.0, "y": 40.0}, True)  # v = x has norm 50
    radius = math.sqrt(2.0 * math.log(2.0) / 0.5)
    assert model.weights == pytest.approx({"x": 0.6 * radius, "y": 0.8 * radius}, rel=1e-12)
    X, y = np.random.default_rng(0).normal(size=(300, 5)), np.arange(300) % 3 > 0
    for l2 in (1e-3, 0.1, 10.0):
        best = fista(X, y, l2=l2, tol=1e-9).weights
        assert np.linalg.norm(best) <= math.sqrt(2.0 * math.log(2.0) / l2)


def test_probabilities_of_the_logistic_loss_approach_the_optimum() -> None:
    random = np.random.default_rng(1)
    X = random.normal(size=(2_000, 6))
    y = random.random(2_000) < 1.0 / (1.0 + np.exp(-(X @ random.normal(size=6))))
    model = PegasosClassifier(l2=0.05, loss="logistic", intercept_lr=0.0)
    for _ in range(20):
        model.learn_many(csr_matrix(X), y)
    best = fista(X, y, l2=0.05, tol=1e-9).weights
    weights = np.array([model.weights[k] for k in range(6)])
    np.testing.assert_allclose(weights, best, atol=0.02)
    probability = model.predict_proba_one(dict(enumerate(X[0])))[True]
    assert probability == pytest.approx(1.0 / (1.0 + math.exp(-float(X[0] @ weights))), abs=1e-12)


def test_first_steps_by_hand() -> None:
    model = PegasosClassifier(l2=0.25, intercept_lr=0.0)
    model.learn_one({"x": 3.0, "y": 4.0}, True)  # v = 4 x has norm 20, projected to radius 2
    assert model.weights == pytest.approx({"x": 1.2, "y": 1.6}, abs=1e-15)
    model.learn_one({"x": 1.0}, True)  # margin 1.2: decay only
    assert model.weights == pytest.approx({"x": 0.6, "y": 0.8}, abs=1e-15)
    model.learn_one({"z": 0.75}, False)
    assert model.weights == pytest.approx({"x": 0.4, "y": 1.6 / 3, "z": -1.0}, abs=1e-15)
    unprojected = PegasosClassifier(l2=0.25, intercept_lr=0.0, project=False)
    unprojected.learn_one({"x": 3.0, "y": 4.0}, True)
    assert unprojected.weights == pytest.approx({"x": 12.0, "y": 16.0}, abs=1e-14)


@given(
    rows=st.lists(
        st.tuples(st.dictionaries(st.integers(0, 5), st.floats(-50.0, 50.0)), st.booleans()),
        max_size=50,
    ),
    l2=st.sampled_from([1e-3, 0.1, 1.0, 30.0]),
)
def test_weights_stay_inside_the_ball(rows: list[tuple[dict[int, float], bool]], l2: float) -> None:
    model, dense = PegasosClassifier(l2=l2), reference.Pegasos(6, l2=l2)
    for x, y in rows:
        assert model._margin(x) == pytest.approx(dense.margin(dense_row(x)), abs=1e-9, rel=1e-9)
        if abs(abs(dense.margin(dense_row(x))) - 1.0) < 1e-9:
            return  # at the kink of the loss, rounding decides the subgradient
        model.learn_one(x, y)
        dense.learn(dense_row(x), 1.0 if y else -1.0)
        model._state.check()
        assert sum(w * w for w in model.weights.values()) <= (1.0 + 1e-10) / l2
        assert_equal_twins(model, dense)


def dense_row(x: dict[int, float]) -> Any:
    row = np.zeros(6)
    for j, v in x.items():
        row[j] = v
    return row


@given(
    st.lists(st.floats(-1e70, 1e70) | st.floats(-1.0, 1.0), max_size=200),
    st.randoms(use_true_random=False),
)
def test_sum_of_squares_is_independent_of_order(values: list[float], random: Any) -> None:
    u = np.array(values)
    expected = math.fsum(v * v for v in values)
    total = _sum_of_squares(u)
    assert total == pytest.approx(expected, rel=1e-15 * (1 + len(values)), abs=1e-300)
    random.shuffle(values)
    assert _sum_of_squares(np.array(values)) == total
    assert _sum_of_squares(np.concatenate([values, np.zeros(7)])) == total


def test_norm_does_not_drift() -> None:
    """Large projection factors make s and the norm be recomputed many times."""
    random = np.random.default_rng(3)
    n, d = 20_000, 40
    model, n_restarts, drift = PegasosClassifier(l2=1e-6), 0, 0.0
    for _ in range(n // 50):
        X = random.normal(size=(50, d)) * (random.random((50, d)) < 0.2) * 30.0
        model.learn_many(csr_matrix(X), random.random(50) < 0.5)
        c = model._state.rule.clock[0]
        n_restarts += bool(c.drift < drift)
        drift = float(c.drift)
        w = np.array(list(model.weights.values()))
        norm = math.fsum((w * w).tolist())
        assert c.N * c.s * c.s == pytest.approx(norm, abs=1e-5)  # 1e-11 of the squared radius
        assert norm <= 1e6 * (1.0 + 1e-11)
        model._state.check()
    assert n_restarts > 5


@pytest.mark.slow
def test_a_million_steps() -> None:
    """Compare a million steps with the dense update, with rows of one or two features."""
    random = np.random.default_rng(5)
    n, d, l2 = 1_000_000, 8, 1e-3
    ids = random.integers(0, d, (n, 2))
    x = random.choice([0.5, 1.0, -1.0, 3.0], (n, 2)) * 0.97
    y = np.sign(x[:, 0] * (ids[:, 0] - 3.2) + random.normal(size=n))
    model = PegasosClassifier(l2=l2, intercept_lr=0.0)
    indptr = np.arange(n + 1) * 2
    got = model.progressive_many(csr_matrix((x.ravel(), ids.ravel(), indptr), (n, d)), y > 0.0)
    w, radius, expected = np.zeros(d), 1.0 / math.sqrt(l2), np.empty(n)
    rows = zip(ids.tolist(), x.tolist(), y.tolist(), strict=True)
    for t, ((i, j), (p, q), label) in enumerate(rows):
        a = expected[t] = w[i] * p + w[j] * q
        w *= 1.0 - 1.0 / (t + 1.0)
        if label * a < 1.0:
            w[i] += label * p / (l2 * (t + 1.0))
            w[j] += label * q / (l2 * (t + 1.0))
        norm = math.sqrt(w @ w)
        if norm > radius:
            w *= radius / norm
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-9)
    np.testing.assert_allclose(model._state.rule.weights()[:d], w, rtol=0.0, atol=1e-9)


def test_changed_parameters_act_from_the_next_step() -> None:
    changes: list[dict[str, Any]] = [
        {"l2": 1e-2},
        {"project": False},
        {"l2": 1e-3},
        {"project": True},
        {"loss": "logistic"},
        {"l2": 0.5},
        {"loss": "hinge"},
        {"l2": 0.02, "clip_gradient": 0.1, "intercept_lr": 0.2},
    ]
    kit.assert_changes_match_twin(make_model(), reference.Pegasos(D), changes, "hinge")


def test_learning_rate_and_schedule_are_not_parameters() -> None:
    for name in ("lr", "schedule"):
        with pytest.raises(TypeError):
            PegasosClassifier(**{name: 0.1})
        with pytest.raises(ValueError, match=f"{name} cannot change; PegasosClassifier can"):
            PegasosClassifier().mutate({name: 0.1})
        with pytest.raises(ValueError, match=f"{name} cannot be set: this model computes its own"):
            setattr(PegasosClassifier(), name, 0.1)
        assert name not in PegasosClassifier()._get_params()


def test_feature_with_zero_weight_counts_as_seen() -> None:
    model = PegasosClassifier(l2=1.0)
    model.learn_one({"a": 1.0}, True, 0.0)
    assert model.weights == {} and model.n_features_seen == 1
    model.learn_one({"a": 1.0, "b": 1.0}, True)
    assert model.n_features_seen == 2 == model.n_nonzero
    rule = model._state.rule
    rule.drop(np.array([0]))
    assert list(model.weights) == ["b"] and model.n_features_seen == 2
    model._state.check()
    for _ in range(3):
        model.learn_one({"b": 1.0}, False)
        model._state.check()


def test_parameters_out_of_range_are_rejected() -> None:
    kit.assert_rejects(
        PegasosClassifier,
        [
            ({"l2": 0.0}, "l2 must be a number from 1e-10 to 1e+10, got 0.0"),
            ({"l2": math.inf}, "l2 must be a number from 1e-10 to 1e+10, got inf"),
            ({"project": 1}, "project must be a bool, got 1"),
            ({"project": None}, "project must be a bool, got None"),
            ({"loss": "squared"}, 'loss must be one of "hinge", "logistic", got \'squared\''),
        ],
    )


def test_crafted_state_is_rejected() -> None:
    kit.assert_rejects_states(
        make_model(),
        lambda a: [{"clock": {"s": 1e-30}}, {"clock": {"N": 1.0}}, {"u": a["u"] * 2.0}],
    )
