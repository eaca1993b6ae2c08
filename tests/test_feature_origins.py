"""Origins of features that are in every row, centres of targets, and saturated values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import streaml1
from streaml1 import (
    CoinBettingRegressor,
    ElasticNetClassifier,
    ElasticNetRegressor,
    FTRLClassifier,
    FTRLRegressor,
    SoftmaxClassifier,
)
from streaml1.core.jit import kernel
from streaml1.optim.centred_rule import USUAL_VALUES
from streaml1.optim.lane_mixture import _refresh_joined
from streaml1.optim.structures.feature_origins import ORIGIN_ROWS, origins_of
from streaml1.optim.structures.feature_scales import saturated
from streaml1.optim.structures.joined_lanes import _with_origins
from streaml1.optim.structures.joined_origins import stored_origins, with_common_origins
from streaml1.optim.structures.record_layouts import dtype_without
from tests import kit, reference
from tests.test_lane_mixture import make, twin_of

YEAR, TEMPERATURE, RARE_ZERO, WORD, LATE, CONSTANT = range(6)


def weather(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Return rows of five kinds of columns, and a number that depends on the first three."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, kit.D))
    X[:, YEAR] = 2000 + np.arange(n) % 25
    X[:, TEMPERATURE] = rng.normal(15.0, 8.0, n)
    X[:, RARE_ZERO] = rng.integers(1, 9, n)
    X[ORIGIN_ROWS + 4 :: 50, RARE_ZERO] = 0.0
    X[::3, WORD] = rng.integers(1, 4, len(X[::3]))
    X[4:, LATE] = rng.normal(100.0, 1.0, n - 4)
    X[:, CONSTANT] = 7.0
    a = 0.2 * (X[:, YEAR] - 2012) - 0.1 * (X[:, TEMPERATURE] - 15) + 0.3 * (X[:, RARE_ZERO] - 4)
    return X, a + rng.normal(0.0, 0.3, n)


def labels(loss: str, a: Any) -> Any:
    return a if loss in ("squared", "absolute") else a > 0.0


def origins(model: Any) -> dict[Any, float]:
    """Return the origins of a model by name."""
    has, values = origins_of(model._state.rule.origins)
    slots = np.flatnonzero(has)
    names = model._state.vocabulary.names_at(slots)
    return dict(zip(names, values[slots].tolist(), strict=True))


REGRESSORS = pytest.mark.parametrize(
    "kind", [ElasticNetRegressor, FTRLRegressor, CoinBettingRegressor]
)


@pytest.mark.parametrize("loss", ["logistic", "squared", "absolute"])
@pytest.mark.parametrize("name", ["FTRL", "CoinBetting"])
def test_single_learners_equal_their_twins(name: str, loss: str) -> None:
    X, a = weather(500)
    y = labels(loss, a + 2000.0)
    signed = y if loss in ("squared", "absolute") else np.where(y, 1.0, -1.0)
    kind = getattr(streaml1, name + ("Classifier" if loss == "logistic" else "Regressor"))
    model = kind(loss=loss, l1=0.1)
    twin = {"FTRL": reference.ScaledFTRL, "CoinBetting": reference.CoinBetting}[name]
    w = np.where(np.arange(500) % 7 == 0, 0.0, 1.0)
    data = (X, y, signed, w)
    kit.assert_matches_twin(model, twin(kit.D, loss=loss, l1=0.1), data, [0, 1, 10, 40, 60, 500])
    assert {*origins(model)} == {YEAR, TEMPERATURE, RARE_ZERO}


@pytest.mark.parametrize("kind", [FTRLRegressor, CoinBettingRegressor])
def test_constant_added_to_targets_is_added_to_predictions(kind: Any) -> None:
    X, a = weather(300)
    low, high = (kind().progressive_many(csr_matrix(X), a + c) for c in (0.0, 4096.0))
    np.testing.assert_allclose(high[1:] - 4096.0, low[1:], rtol=0.0, atol=1e-6)


@pytest.mark.parametrize("kind", [FTRLRegressor, CoinBettingRegressor])
@pytest.mark.parametrize("n", [0, 3])
def test_states_without_origins_are_read(kind: Any, n: int) -> None:
    model = kind()
    model.learn_many([{"a": 1.0}, {"b": 2.0}, {"a": -1.0}][:n], [1.0, 2.0, 3.0][:n])
    rule = model._state.rule
    slots, arrays = rule.state_dict()
    clock = rule.clock.dtype
    before = dtype_without(clock, {name for name, _ in USUAL_VALUES})
    arrays = {key: array for key, array in arrays.items() if key != "origins"}
    arrays["clock"] = np.array([tuple(arrays["clock"][0][name] for name in before.names)], before)
    restored = type(rule).from_state_dict(rule.size, slots, arrays)
    restored.check()
    c = restored.clock[0]
    assert (c.origin_rows, c.is_centred, c.centre) == (0, 0, 0.0)
    assert not restored.origins.any()


def test_frozen_intercept_keeps_targets_without_a_centre() -> None:
    for kind in (FTRLRegressor, CoinBettingRegressor):
        model = kind(intercept_lr=0.0, intercept_init=3.0)
        model.learn_many([{"a": 1.0}] * 40, [2000.0] * 40)
        assert model.predict_one({}) == model.intercept == 3.0


@pytest.mark.parametrize("loss", ["logistic", "absolute"])
@pytest.mark.parametrize("params", [{}, {"l1": 1e-3, "l2": 1e-3}], ids=["plain", "penalties"])
def test_equals_the_twin(loss: str, params: dict[str, float]) -> None:
    X, a = weather(500)
    y = labels(loss, a + (100.0 if loss == "absolute" else 0.0))
    signed = y if loss == "absolute" else np.where(y, 1.0, -1.0)
    model = make(loss, **params)
    cuts = [0, 1, 10, 40, 60, 500]
    twin = twin_of(loss, **params)
    kit.assert_matches_twin(model, twin, (X, y, signed, np.ones(500)), cuts)
    assert {*origins(model)} == {YEAR, TEMPERATURE, RARE_ZERO}
    for row in X[-20:]:
        x = {j: v for j, v in enumerate(row.tolist()) if v}
        assert model.freeze().margin(x) == pytest.approx(twin.published(row), abs=1e-9)


def test_origin_is_the_mean_without_the_smallest_and_the_largest_value() -> None:
    values = [1e9, *range(1, 15), -1e9]
    model = ElasticNetRegressor()
    for v in values:
        model.learn_one({"x": v, "one": 1.0}, 1.0)
    assert origins(model) == {"x": 7.5}


@REGRESSORS
@pytest.mark.parametrize("split", [10, ORIGIN_ROWS - 1, ORIGIN_ROWS, ORIGIN_ROWS + 1])
def test_saved_model_resumes_to_the_same_bits(kind: Any, split: int, tmp_path: Path) -> None:
    X, a = weather(200)
    whole, first = kind(l1=1e-4), kind(l1=1e-4)
    whole.learn_many(csr_matrix(X), a)
    first.learn_many(csr_matrix(X[:split]), a[:split])
    first.save(tmp_path / "m")
    loaded: Any = streaml1.load(tmp_path / "m")
    loaded.learn_many(csr_matrix(X[split:]), a[split:])
    assert loaded.weights == whole.weights and loaded.intercept == whole.intercept
    assert origins(loaded) == origins(whole)


def test_column_far_from_zero_is_learnt_like_one_around_zero() -> None:
    X, a = weather(4_000)
    X[:, [LATE, CONSTANT]] = 0.0
    moved = X.copy()
    moved[:, YEAR] += 1e6
    errors = [
        np.abs(ElasticNetRegressor().progressive_many(csr_matrix(Z), a) - a)[500:].mean()
        for Z in (X, moved)
    ]
    assert errors[1] == pytest.approx(errors[0], rel=1e-3)
    assert errors[0] < 0.4  # the noise alone has 0.24; the mean of all has 1.9


@REGRESSORS
def test_weights_and_intercept_belong_to_the_values_themselves(kind: Any) -> None:
    X, a = weather(2_000)
    model = kind()
    model.learn_many(csr_matrix(X), a)
    weights, frozen = model.weights, model.freeze()
    usual = {YEAR: 2013.0, TEMPERATURE: 16.0, RARE_ZERO: 4.5}
    linear = model.intercept + sum(weights[j] * v for j, v in usual.items())
    assert linear == pytest.approx(frozen.margin(usual), abs=0.05)
    assert frozen.margin(origins(model)) == pytest.approx(frozen.margin({}), abs=1e-12)


def test_explanation_starts_from_the_origins() -> None:
    X, a = weather(1_000)
    model = ElasticNetClassifier()
    model.learn_many(csr_matrix(X), a > 0.0)
    explanation = model.explain_one({YEAR: 2010.0, TEMPERATURE: 15.0})
    assert explanation[-1].contribution == pytest.approx(model.freeze().margin({}), abs=1e-12)
    assert explanation.margin == model.freeze().margin({YEAR: 2010.0, TEMPERATURE: 15.0})
    assert explanation.features[0].name == YEAR and explanation.features[0].contribution > 0.5
    assert not explanation.exceeds_rounding


@pytest.mark.parametrize(
    "kind",
    [
        ElasticNetClassifier,
        ElasticNetRegressor,
        SoftmaxClassifier,
        FTRLClassifier,
        CoinBettingRegressor,
    ],
)
def test_unknown_features_contribute_nothing(kind: Any) -> None:
    # They have no slot, so rows put them into slot 0: that of a feature with an origin here.
    model = kind()
    for k in range(64):
        model.learn_one({"age": 20.0 + k % 7, "plan": "ab"[k % 2]}, bool(k % 7 > 3))
    has_origin, _ = origins_of(model._state.rule.origins)
    assert has_origin[0]
    one = "predict_proba_one" if hasattr(model, "predict_proba_one") else "predict_one"
    many = one.replace("one", "many")
    for known in ({}, {"plan": "a"}, {"age": 23.0, "plan": "b"}):
        unknown = {**known, "city": "Rome", "height": 1.7}
        for predictor in (model, model.freeze()):
            assert getattr(predictor, one)(unknown) == getattr(predictor, one)(known)
        rows = getattr(model, many)([unknown, known])
        assert np.array_equal(np.asarray(rows)[0], np.asarray(rows)[1])


@pytest.mark.parametrize("params", [{"max_features": 2}, {"l1": 0.05}], ids=["cap", "l1"])
def test_features_that_are_learnt_anew_keep_their_origins(params: dict[str, Any]) -> None:
    X, a = weather(400)
    model = ElasticNetRegressor(l1=params.get("l1", 0.0))
    model.learn_many(csr_matrix(X[:50]), a[:50])
    before = origins(model)
    assert before
    model.mutate(params)
    for row, y in zip(X[50:], a[50:], strict=True):
        model.learn_one({j: v for j, v in enumerate(row.tolist()) if v}, y)
        assert model.n_nonzero <= params.get("max_features", kit.D)
    model._state.check()
    assert origins(model) == before
    assert model.n_cut > 0 or "l1" in params


def test_margins_stay_when_origins_are_moved_before_a_merge() -> None:
    X, a = weather(300)
    model = ElasticNetRegressor()
    model.learn_many(csr_matrix(X), a)
    xs = [{YEAR: 2011.0, TEMPERATURE: 14.0, CONSTANT: 7.0}, {RARE_ZERO: 4.0, LATE: 100.0}]
    expected = [model._margin(x) for x in xs]
    rule = model._state.rule
    has, values = origins_of(rule.origins)
    moved = values + has * np.linspace(0.01, 0.02, len(has))
    other = rule._replace(origins=stored_origins(has, moved))
    part = _with_origins(rule, has, moved)
    joined = other._replace(slots=part.slots.ravel(), table=part.table.ravel())
    _refresh_joined(joined)
    model._state.rule = joined
    # A scaled value beyond 1 is bent, so that a small step of it is not quite the same one.
    assert [model._margin(x) for x in xs] == pytest.approx(expected, abs=1e-2)


@pytest.mark.parametrize("name", ["FTRL", "CoinBetting"])
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_rules_keep_their_margins_when_origins_are_moved(name: str, kind: str) -> None:
    X, a = weather(300)
    model = getattr(streaml1, name + kind)()
    model.learn_many(csr_matrix(X), a if kind == "Regressor" else a > 0.0)
    rule = model._state.rule
    has, values = origins_of(rule.origins)
    other = rule._replace(origins=stored_origins(has, values + has * np.linspace(1, 2, len(has))))
    same, moved = with_common_origins([rule, other])
    assert same is rule
    assert np.array_equal(origins_of(moved.origins), origins_of(rule.origins))
    online, w = model._state.online, moved.weights()
    assert moved.intercept(online) == pytest.approx(other.intercept(online), abs=1e-9)
    assert np.array_equal(w, rule.weights())


@REGRESSORS
def test_models_with_origins_of_their_own_are_merged(kind: Any) -> None:
    models, data = [], [weather(3_000, seed) for seed in range(3)]
    for X, a in data[:2]:
        models.append(kind())
        models[-1].learn_many(csr_matrix(X), a)
    assert origins(models[0])[TEMPERATURE] != origins(models[1])[TEMPERATURE]
    X, a = data[2]
    merged = streaml1.merge(models, probe=(csr_matrix(X[:500]), a[:500]))
    rest, target = csr_matrix(X[500:]), a[500:]
    errors = [np.abs(m.freeze().predict_many(rest) - target).mean() for m in (*models, merged)]
    assert errors[2] < 1.05 * max(errors[:2])
    assert origins(merged) == origins(models[0])


@kernel
def bend(x: float, mean: float, ceiling: float) -> float:
    return saturated(x, mean, ceiling)


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=2),
    st.floats(1e-3, 1e3),
    st.floats(1.5, 20.0),
)
def test_saturation_is_odd_monotone_and_bounded(xs: list[float], mean: float, a: float) -> None:
    low, high = sorted(xs)
    bent = [bend(x, mean, a) for x in (low, high)]
    assert -a <= bent[0] <= bent[1] <= a
    assert bend(-low, mean, a) == -bent[0]
    for x, z in zip((low, high), bent, strict=True):
        if abs(x) <= mean:
            assert z == x / mean
        assert abs(z) <= abs(x / mean)
