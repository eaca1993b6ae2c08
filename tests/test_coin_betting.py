"""Coin betting against its dense twin: no scale matters, and no outlier ruins a model."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import datasets
from scipy.sparse import csr_matrix

from streaml1 import CoinBettingClassifier, CoinBettingRegressor, ElasticNetRegressor, regret
from streaml1.cli.messages import advise
from streaml1.optim.losses import CODES
from streaml1.optim.structures.feature_scales import MAX_SCALED, add_size, scaled
from tests import kit, reference
from tests.learner_data import D, as_dict, assert_equal_twins

SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "l1": {"l1": 0.5},
    "rich": {"wealth": 20.0, "l1": 3.0},
    "poor": {"wealth": 1e-3},
}


def make_model(loss: str = "logistic", **params: Any) -> Any:
    kind = CoinBettingClassifier if kit.is_binary(loss) else CoinBettingRegressor
    return kind(loss=loss, **params)


def linear_stream(n: int, d: int = 8, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return rows, noisy linear targets, and their signs."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * (random.random((n, d)) < 0.7)
    y = X @ random.normal(size=d) + 0.3 * random.normal(size=n)
    return X, y, y > 0.0


def log_loss(p: Any, y: Any) -> float:
    return float(-np.mean(np.log(np.clip(np.where(y, p, 1.0 - p), 1e-15, 1.0))))


def rmse(p: Any, y: Any) -> float:
    return float(np.sqrt(np.mean((p - y) ** 2)))


def running_means(y: Any) -> Any:
    """Return the mean of the targets before each."""
    return np.append(0.0, np.cumsum(y)[:-1]) / np.maximum(1, np.arange(len(y)))


@pytest.mark.slow
@pytest.mark.parametrize("loss", CODES)
def test_equals_the_dense_twin(loss: str) -> None:
    # In the first 1,000 rows a Poisson mean of 13,000 occurs, which is rounded by more than 1e-9.
    data = kit.data_of(loss, 2_000)
    for k, params in enumerate(SETTINGS.values()):
        if k % 2:
            params = params | {"clip_gradient": 0.2, "intercept_init": -0.3}
        if k == 3:
            params = params | {"intercept_lr": 0.0}
        kit.assert_matches_twin(
            make_model(loss, **params), reference.CoinBetting(D, loss=loss, **params), data
        )


# Scales of features


def test_add_size_limits_a_size_to_ten_means() -> None:
    assert add_size(0.0, 0.0, 7.0) == 7.0
    assert add_size(2.0, 6.0, 29.0) == 35.0
    assert add_size(2.0, 6.0, 1e9) == 6.0 + 30.0
    assert add_size(5.0, 0.0, 3.0) == 3.0  # sizes of 0 set no limit


def test_scaled_values_are_clipped() -> None:
    assert [scaled(x, 2.0) for x in (1.0, -3.0, 7.0, -1e50)] == [0.5, -1.5, 3.0, -3.0]
    assert scaled(0.0, 0.0) == 0.0
    assert scaled(1e50, 1e-300) == MAX_SCALED


@given(
    st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=40),
    st.floats(1e3, 1e50),
    st.integers(-60, 60),
)
def test_mean_size_resists_an_outlier_and_follows_the_unit(
    sizes: list[float], outlier: float, power: int
) -> None:
    total = scaled_total = 0.0
    for n, size in enumerate(sizes):
        total = add_size(n, total, size)
        scaled_total = add_size(n, scaled_total, math.ldexp(size, power))
    n = len(sizes)
    assert total <= math.fsum(sizes) * (1.0 + 1e-12)
    assert scaled_total == math.ldexp(total, power)
    with_outlier = add_size(n, total, outlier)
    assert with_outlier <= total * (1.0 + 10.0 / n) * (1.0 + 1e-12)
    mean = with_outlier / (n + 1)
    assert scaled(outlier, mean) == scaled(math.ldexp(outlier, power), math.ldexp(mean, power))


@pytest.mark.parametrize("loss", CODES)
def test_units_of_features_change_no_bit(loss: str) -> None:
    X, values, signs = linear_stream(400)
    y = signs if kit.is_binary(loss) else np.abs(values)
    w = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], size=len(y))
    units = 2.0 ** np.array([0, 1, -1, 20, -20, 60, -60, 9])
    plain, rescaled = make_model(loss, l1=0.5), make_model(loss, l1=0.5)
    expected = plain.progressive_many(csr_matrix(X), y, w)
    assert np.array_equal(rescaled.progressive_many(csr_matrix(X * units), y, w), expected)
    assert rescaled.weights == {j: v / units[j] for j, v in plain.weights.items()}
    assert rescaled.intercept == plain.intercept


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_predictions_scale_with_the_labels(loss: str) -> None:
    X, y, _ = linear_stream(400)
    expected = make_model(loss).progressive_many(csr_matrix(X), y)
    for power in (-40, 1, 30):  # below the default of `clip_gradient`
        model = make_model(loss)
        got = model.progressive_many(csr_matrix(X), np.ldexp(y, power))
        assert np.array_equal(got, np.ldexp(expected, power))


@pytest.mark.parametrize("loss", CODES)
def test_unit_of_sample_weights_changes_no_bit(loss: str) -> None:
    X, values, signs = linear_stream(400)
    y = signs if kit.is_binary(loss) else np.abs(values)
    w = np.random.default_rng(1).choice([0.0, 0.5, 1.0, 2.0], size=len(y))
    expected = make_model(loss).progressive_many(csr_matrix(X), y, w)
    for power in (-20, 20):
        got = make_model(loss).progressive_many(csr_matrix(X), y, np.ldexp(w, power))
        assert np.array_equal(got, expected)


def test_a_constant_column_and_raw_units_do_no_harm() -> None:
    X, _, y = linear_stream(3000)
    expected = log_loss(make_model().progressive_many(csr_matrix(X), y), y)
    raw = np.c_[X * [1e6, 1e-4, 1.0, 30.0, 1e3, 1.0, 1e-9, 7.0], np.full(len(X), 2026.0)]
    assert log_loss(make_model().progressive_many(csr_matrix(raw), y), y) < expected * 1.02
    assert expected < 0.35


def test_weights_are_per_unit_of_x() -> None:
    """A model of constant features predicts the dot product with `weights`."""
    model = CoinBettingRegressor()
    random = np.random.default_rng(3)
    sizes = [0.01, 1.0, 500.0]
    for k in range(200):  # each feature is absent once: it gets no origin
        x = {j: random.choice([-1.0, 1.0]) * size for j, size in enumerate(sizes) if j != k}
        model.learn_one(x, sum(x.values()) + 2.0)
    x = {0: 0.01, 1: -1.0, 2: 500.0}
    expected = sum(model.weights[j] * v for j, v in x.items()) + model.intercept
    assert model.predict_one(x) == pytest.approx(expected, rel=1e-12)


def test_predictions_equal_reported_ones_and_frozen_ones() -> None:
    """A prediction scales a value as the step does that learns it, also beyond the clip."""
    X, _, y = linear_stream(300)
    X[::7] *= 100.0
    model = make_model(l1=0.2)
    for i, x in enumerate(X):
        before = model.predict_proba_many(csr_matrix(x))[0, 1]
        assert model.freeze().predict_proba_one(as_dict(x))[True] == before
        assert model.predict_proba_one(as_dict(x))[True] == before
        assert model.progressive_many(csr_matrix(x), y[i : i + 1])[0] == before


# Outliers


@pytest.mark.parametrize("row", [20, 1000])
@pytest.mark.parametrize("size", [1e6, 1e50])
def test_an_outlying_value_does_little_harm(row: int, size: float) -> None:
    X, _, y = linear_stream(4000)
    expected = log_loss(make_model().progressive_many(csr_matrix(X), y)[2000:], y[2000:])
    X[row, 0] = size / 1.0001
    got = log_loss(make_model().progressive_many(csr_matrix(X), y)[2000:], y[2000:])
    assert got < expected * 1.1


@pytest.mark.parametrize("loss", CODES)
def test_a_heavy_sample_counts_little_more_than_the_heaviest_before(loss: str) -> None:
    X, values, signs = linear_stream(2000)
    y = signs if kit.is_binary(loss) else np.abs(values)
    w = np.ones(len(y))
    got = {}
    for weight in (1.0, 1e6, 1e15):
        w[1000] = weight
        p = make_model(loss).progressive_many(csr_matrix(X), y, w)[1001:]
        got[weight] = log_loss(p, y[1001:]) if loss == "logistic" else rmse(p, values[1001:])
    assert got[1e6] < got[1.0] * 1.1 and got[1e15] < got[1.0] * 1.1


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_an_outlying_label_does_little_harm(loss: str) -> None:
    X, y, _ = linear_stream(3000)
    outlying = y.copy()
    outlying[1000] = 1e9
    expected = rmse(make_model(loss).progressive_many(csr_matrix(X), y)[1500:], y[1500:])
    got = rmse(make_model(loss).progressive_many(csr_matrix(X), outlying)[1500:], y[1500:])
    assert got < expected * 1.2


def test_importance_weights_are_not_clipped_in_the_long_run() -> None:
    """Rare positive rows of weight 200: the weighted rate is learnt, not a clipped one."""
    random = np.random.default_rng(0)
    y = random.random(20_000) < 0.01
    model = make_model()
    model.learn_many(csr_matrix((len(y), 1)), y, np.where(y, 200.0, 1.0))
    weighted_rate = 200.0 * y.sum() / (200.0 * y.sum() + (~y).sum())
    assert model.predict_proba_one({})[True] == pytest.approx(weighted_rate, abs=0.05)


# Regression


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e6])
def test_regression_needs_no_scaling_of_labels(unit: float) -> None:
    X, y, _ = linear_stream(3000)
    y = y * unit
    error = rmse(make_model("squared").progressive_many(csr_matrix(X), y), y)
    assert error < 0.35 * rmse(running_means(y), y)
    net = ElasticNetRegressor(lr="auto")
    assert error < 1.25 * rmse(net.progressive_many(csr_matrix(X), y), y)


def test_regression_on_raw_features() -> None:
    """TrumpApproval has a column of dates of about 736,000, and targets of about 40."""
    rows, labels = zip(*datasets.TrumpApproval(), strict=True)
    y = np.array(labels)
    p = CoinBettingRegressor().progressive_many(list(rows), y)
    base = running_means(y)
    assert np.mean(np.abs(p - y)[100:]) < 0.3 * np.mean(np.abs(base - y)[100:])


# State


@pytest.mark.parametrize("loss", ["logistic", "squared", "absolute"])
def test_parameter_changes_apply_from_the_next_step(loss: str) -> None:
    changes: list[dict[str, Any]] = [
        {"l1": 0.3},
        {"wealth": 3.0},
        {"l1": 4.0, "wealth": 0.1},
        {"l1": 0.0},
        {"clip_gradient": 0.1, "intercept_lr": 0.0},
    ]
    twin = reference.CoinBetting(D, loss=loss)
    kit.assert_changes_match_twin(make_model(loss), twin, changes, loss)


def test_dropped_features_start_again_with_their_scale() -> None:
    model = CoinBettingClassifier(intercept_lr=0.0)
    for i in range(50):
        a = {"a": 1000.0 + i} if i != 1 else {}  # absent once: it has no origin
        model.learn_one({**a, "b": 1.0}, i % 4 > 0)
    rule = model._state.rule
    before = rule.slots[:2].copy()
    rule.drop(np.array([0]))
    model._state.check()
    assert list(model.weights) == ["b"]
    assert rule.seen_mask().sum() == 2
    for name in ("n", "total", "s"):
        assert rule.slots[name][0] == before[name][0]
    model.learn_one({"a": 1000.0}, True)
    assert 0.0 < model.weights["a"] < 1e-3


def test_weights_are_counted_once_labels_are_not_zero() -> None:
    """All labels were 0, and yet there are gradients: the intercept starts at 1."""
    model = CoinBettingRegressor(intercept_init=1.0, max_features=4)
    for j in range(20):
        model.learn_one({j: 1.0}, 0.0)
        model._state.check()
    for j in range(20):
        model.learn_one({j: 1.0}, 5.0)
        model._state.check()
        assert model.n_nonzero <= 4


def test_intercept_learns_unless_frozen() -> None:
    X, _, y = linear_stream(500)
    y = y | (np.random.default_rng(0).random(500) < 0.5)
    free, frozen = make_model(), make_model(intercept_lr=0.0, intercept_init=0.25)
    other = make_model(intercept_lr=100.0)
    for model in (free, frozen, other):
        model.learn_many(csr_matrix(X), y)
    assert free.intercept == other.intercept != 0.0
    assert frozen.intercept == 0.25
    assert free.predict_proba_one({})[True] == pytest.approx(1 / (1 + math.exp(-free.intercept)))


def test_learning_rate_and_schedule_do_not_exist() -> None:
    for name in ("lr", "schedule"):
        with pytest.raises(TypeError):
            CoinBettingClassifier(**{name: 0.1})
        with pytest.raises(ValueError, match=f"{name} cannot be set: this model computes its own"):
            setattr(CoinBettingClassifier(), name, 0.1)


@settings(deadline=None)
@given(st.permutations(range(8)))
def test_order_of_columns_changes_only_the_rounding(order: list[int]) -> None:
    X, _, y = linear_stream(120)
    expected = make_model().progressive_many(csr_matrix(X), y)
    got = make_model().progressive_many(csr_matrix(X[:, order]), y)
    np.testing.assert_allclose(got, expected, rtol=0.0, atol=1e-12)


def test_parameters_out_of_range_are_rejected() -> None:
    kit.assert_rejects(
        CoinBettingClassifier,
        [
            ({"wealth": 0.0}, "wealth must be a number from 1e-30 to 1e+10, got 0.0"),
            ({"wealth": "much"}, "wealth must be a number from 1e-30 to 1e+10, got 'much'"),
            ({"l1": -1.0}, "l1 must be a number from 0 to 1e+30, got -1.0"),
            ({"loss": "absolute"}, "\"squared_hinge\", got 'absolute'"),
        ],
    )


def test_crafted_state_is_rejected() -> None:
    kit.assert_rejects_states(
        make_model(l1=0.01),
        lambda a: [
            {"clock": {"wealth_now": 0.0}},
            {"theta": a["G"] * 2.0},
            {"G": -a["G"]},
            {"R": a["R"] - 1.0},
            {"n": a["n"] * 0.0},
            {"s": a["s"] * 4.0},
            *kit.broken_usual_values(a),
        ],
    )


def test_two_steps_by_hand() -> None:
    """Two examples of one feature of value 4, computed by hand: z = s = 1."""
    twin = reference.CoinBetting(1, wealth=0.5, intercept_lr=0.0)
    model = CoinBettingClassifier(wealth=0.5, intercept_lr=0.0)
    for m, y in ((twin, 1.0), (model, True)):
        m.learn(np.full(1, 4.0), y) if m is twin else m.learn_one({0: 4.0}, y)
    w = 0.5 / (1.0 + 0.5) * 0.5  # the gradient was -1/2, nothing was bet
    assert twin.w[0] == pytest.approx(w / 4.0)
    assert_equal_twins(model, twin)
    u = 1.0 / (1.0 + math.exp(w))
    twin.learn(np.full(1, 4.0), 1.0)
    model.learn_one({0: 4.0}, True)
    assert twin.w[0] == pytest.approx((0.5 + u) / (1.5 + u) * (0.5 + w * u) / 4.0)
    assert_equal_twins(model, twin)


def test_regret_compares_with_all_weights() -> None:
    X, _, y = linear_stream(200)
    result = regret(make_model(l1=0.5), (csr_matrix(X), y), first=200)
    p = make_model(l1=0.5).progressive_many(csr_matrix(X), y)
    assert result.points[-1].cumulative == pytest.approx(200 * log_loss(p, y), rel=1e-9)
    assert result.points[-1].regret > 0.0


def test_advice_does_not_ask_to_scale_features(capsys: pytest.CaptureFixture[str]) -> None:
    line: Any = SimpleNamespace(examples=100, loss=9.0, constant_loss=0.6)
    advise(line, CoinBettingClassifier())
    message = capsys.readouterr().err
    assert "lower --wealth" in message and "scale the features" not in message
