"""The mixture of lr="auto" against its dense twin, and what it promises about data."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import streaml1
from streaml1 import ElasticNetClassifier, ElasticNetRegressor
from streaml1.models.elastic_net import RATES
from streaml1.optim.losses import CODES
from streaml1.optim.structures.lane_table import COVARIANCE
from streaml1.optim.tasks import REGRESSION, RESPONSES
from tests import kit, reference
from tests.learner_data import LOSS_PARAMETERS, D

LOSSES = list(CODES)


def make(loss: str, **params: Any) -> Any:
    """Return a new model with lr="auto"."""
    kind = ElasticNetRegressor if loss in REGRESSION else ElasticNetClassifier
    params = {**LOSS_PARAMETERS.get(loss, {}), "clip_gradient": 30.0, **params}
    return kind(loss=loss, lr="auto", **params)


def twin_of(loss: str, d: int = D, **params: Any) -> reference.LaneMixture:
    """Return the dense twin of `make`."""
    rates = RATES["regression" if loss in REGRESSION else "classification"]
    params = {**LOSS_PARAMETERS.get(loss, {}), "clip_gradient": 30.0, **params}
    return reference.LaneMixture(d, rates=rates, loss=loss, **params)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("update", ["fobos", "sgd"])
def test_equals_eight_dense_learners(loss: str, update: str) -> None:
    params: Any = {"l1": 1e-3, "l2": 1e-2, "update": update, "intercept_init": 0.3}
    # At the highest rate a loss of curvature 1 or 2 amplifies rounding errors from step to step.
    smooth = ("smoothed_hinge", "squared", "huber", "poisson")
    cuts = [0, 1, 40, 700] if loss in smooth else kit.CUTS
    cuts = [0, 1, 40, 500] if loss in ("squared_hinge", "smoothed_hinge") else cuts
    data = tuple(part[: cuts[-1]] for part in kit.data_of(loss))
    kit.assert_matches_twin(make(loss, **params), twin_of(loss, **params), data, cuts)


def test_regression_over_margins_starts_anew_where_rounding_has_ruined_it() -> None:
    X, y, _, w = (part[:200] for part in kit.data_of("logistic"))
    model = make("logistic")
    model.learn_many(csr_matrix(X), y, w)
    covariance = model._state.rule.table[int(COVARIANCE) :][:64].reshape(8, 8)
    assert np.array_equal(covariance, covariance.T)
    assert np.linalg.eigvalsh(covariance)[0] > 0.0
    covariance *= -1.0
    model.learn_one({0: 1.0}, True)
    assert np.array_equal(covariance, 0.05 * np.eye(8))


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_steps_that_reset_all_weights_to_zero(loss: str) -> None:
    """At the higher rates eta l2 exceeds 1."""
    params: Any = {"l2": 3.0, "update": "sgd"}
    data = tuple(part[:600] for part in kit.data_of(loss))
    kit.assert_matches_twin(make(loss, **params), twin_of(loss, **params), data, [0, 1, 40, 600])


@pytest.mark.parametrize(
    "source",
    ["rcv1?topic=CCAT", "rcv1?topic=ECAT", "magic04", "sms-spam", "talkingdata"],
)
def test_best_fixed_rate_is_at_most_2_percent_better(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not Path(os.environ.get("STREAML1_DATA", "nowhere")).is_dir():
        pytest.skip("STREAML1_DATA names no folder with real data sets")
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "demos"))
    import no_rate_to_tune
    import streams

    xs, y = streams.load_examples(f"data:{source}")
    X = streams.to_csr(xs)
    best, _ = no_rate_to_tune.best_rate(X, y)
    assert streams.progressive_outcome(ElasticNetClassifier(), X, y).loss < 1.02 * best


@pytest.mark.parametrize("loss", LOSSES)
def test_progressive_equals_predict_then_learn(loss: str) -> None:
    X, y, _, w = kit.data_of(loss, 600)
    by_batch, by_row = make(loss, l1=1e-3), make(loss, l1=1e-3)
    p = by_batch.progressive_many(csr_matrix(X), y, w)
    for i, row in enumerate(X):
        x = {j: v for j, v in enumerate(row.tolist()) if v}
        assert by_row._margin(x, loss in RESPONSES) == p[i]
        by_row.learn_one(x, y[i], float(w[i]))
    assert by_row.weights == by_batch.weights and by_row.intercept == by_batch.intercept


def test_saved_model_resumes_with_all_rates(tmp_path: Path) -> None:
    X, y, _, w = kit.data_of("logistic", 2_000)
    model = make("logistic", l1=1e-2)
    model.progressive_many(csr_matrix(X[:900]), y[:900], w[:900])
    model.save(tmp_path / "m")
    loaded = streaml1.load(tmp_path / "m")
    rest = csr_matrix(X[900:]), y[900:], w[900:]
    assert np.array_equal(model.progressive_many(*rest), loaded.progressive_many(*rest))
    assert model.weights == loaded.weights and repr(model) == repr(loaded)
    x = {0: 1.0, 3: -2.0}
    frozen = [m.freeze().predict_proba_one(x) for m in (model, loaded)]
    assert frozen[0] == frozen[1]


def test_max_features_bounds_the_weights_on_a_changing_stream() -> None:
    rng = np.random.default_rng(5)
    model = make("logistic", max_features=20)
    for i in range(3_000):
        noise = 8.0 if i > 1_500 else 0.05
        x = {int(j): 1.0 for j in rng.integers(0, 60, 5)}
        y = bool(sum(j < 30 for j in x) + noise * rng.normal() > 2.5)
        model.learn_one(x, y)
        assert model.n_nonzero <= 20
        if i % 100 == 0:
            model._state.check()
    assert model.n_cut > 0


@pytest.mark.parametrize("loss", LOSSES)
def test_predictions_do_not_depend_on_the_scale(loss: str) -> None:
    """Features or sample weights that are a thousand times larger give the same predictions."""
    X, y, _, _ = kit.data_of(loss, 2_000)
    outputs = [
        make(loss).progressive_many(csr_matrix(X * scale), y, np.full(len(y), weight))
        for scale, weight in ((1.0, 1.0), (1024.0, 1.0), (2.0**-10, 1.0), (1.0, 1024.0))
    ]
    for scaled in outputs[1:]:
        np.testing.assert_allclose(scaled, outputs[0], rtol=1e-9, atol=1e-9)


def linear_stream(loss: str, n: int = 8_000) -> tuple[Any, Any]:
    """Ten features of about 1, and labels of a linear model with noise."""
    rng = np.random.default_rng(1)
    X, weights = rng.normal(size=(n, 10)), rng.normal(size=10)
    if loss == "poisson":
        return X, rng.poisson(np.exp(0.3 * X @ weights + 1.0)).astype(float)
    if loss in REGRESSION:
        return X, X @ weights + 0.5 * rng.normal(size=n)
    return X, rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * X @ weights))


def progressive_losses(loss: str, X: Any, y: Any) -> Any:
    """Return the loss of each prediction of one pass."""
    model = make(loss)
    p = model.progressive_many(csr_matrix(X), y)
    if loss == "logistic":
        return -np.log(np.maximum(np.where(y, p, 1.0 - p), 1e-15))
    if loss == "poisson":  # half the deviance
        return p - y + y * np.log(np.maximum(y, 1.0) / p)
    signs = y if loss in REGRESSION else np.where(y, 1.0, -1.0)
    value = reference.loss_functions(model)[0]
    return np.array([value(a, b) for a, b in zip(p, signs, strict=True)])


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [1e-1, 1e-3, 1e-5])
def test_recovers_from_a_small_first_row(loss: str, scale: float) -> None:
    X, y = linear_stream(loss)
    baseline = progressive_losses(loss, X, y)[2:].mean()
    X[0] *= scale
    assert progressive_losses(loss, X, y)[2:].mean() < 1.15 * baseline + 0.02


@pytest.mark.parametrize(
    ("scale_of", "max_ratio"),
    [
        (lambda n: np.geomspace(1e-3, 1.0, n), 1.25),
        (lambda n: np.where(np.arange(n) < n // 2, 1.0, 100.0), 1.6),
        (lambda n: np.where(np.arange(n) == n // 2, 1000.0, 1.0), 1.05),
        (lambda n: np.where(np.arange(n) == 0, 1000.0, 1.0), 1.15),
    ],
    ids=["growing rows", "new unit half-way", "one large row", "large first row"],
)
def test_loss_under_changing_row_norms(scale_of: Callable[[int], Any], max_ratio: float) -> None:
    X, y = linear_stream("logistic", 20_000)
    baseline = progressive_losses("logistic", X, y).mean()
    assert (
        progressive_losses("logistic", X * scale_of(len(X))[:, None], y).mean()
        < max_ratio * baseline
    )


@pytest.mark.parametrize(
    ("loss", "max_error"),
    [("squared", 4.0), ("absolute", 2.0), ("huber", 2.0), ("quantile", 3.0)],
)
def test_intercept_adapts_to_labels_far_from_zero(loss: str, max_error: float) -> None:
    """No rate needs to be set for the intercept."""
    X, y = linear_stream(loss)
    p = make(loss, quantile=0.5).progressive_many(csr_matrix(X), y + 100.0)
    errors = np.abs(p - y - 100.0)
    assert errors[-4_000:].mean() < 1.2 * np.abs(y - y.mean()).mean() / 2.0
    assert errors.mean() < max_error


@pytest.mark.parametrize("loss", LOSSES)
def test_columns_scaled_by_powers_of_two_give_the_same_scaled_lanes(loss: str) -> None:
    X, y, _, w = kit.data_of(loss, 1_500)
    scales = 2.0 ** np.random.default_rng(1).integers(-30, 31, X.shape[1])
    models = [make(loss), make(loss)]
    for model, Z in zip(models, (X, X * scales), strict=True):
        model.learn_many(csr_matrix(Z), y, w)
    slots = [model._state.rule.slots.reshape(-1, 24) for model in models]
    columns = [0, 2, *range(4, 8), *range(9, 18), *range(20, 24)]  # all that are not in units of x
    assert np.array_equal(slots[0][:, columns], slots[1][:, columns])


@pytest.mark.parametrize("seed", range(3))
def test_columns_scaled_at_random_change_the_loss_by_at_most_3_percent(seed: int) -> None:
    X, y = linear_stream("logistic")
    scales = 10.0 ** np.random.default_rng(seed).uniform(-6.0, 6.0, X.shape[1])
    expected = progressive_losses("logistic", X, y).mean()
    assert progressive_losses("logistic", X * scales, y).mean() < 1.03 * expected


def test_order_of_features_does_not_matter() -> None:
    X, y = linear_stream("logistic", 2_000)
    order = np.random.default_rng(2).permutation(X.shape[1])
    p = [make("logistic").progressive_many(csr_matrix(Z), y) for Z in (X, X[:, order])]
    np.testing.assert_allclose(p[0], p[1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("factor", [1e3, 1e6, 1e12])
def test_one_huge_row_changes_the_loss_by_at_most_1_percent(factor: float) -> None:
    X, y = linear_stream("logistic")
    expected = progressive_losses("logistic", X, y).mean()
    X[800] *= factor
    assert progressive_losses("logistic", X, y).mean() < 1.01 * expected


def test_one_huge_sample_weight_changes_the_loss_by_at_most_1_percent() -> None:
    X, y = linear_stream("logistic")
    expected = progressive_losses("logistic", X, y).mean()
    w = np.ones(len(y))
    w[800] = 1e6
    p = make("logistic").progressive_many(csr_matrix(X), y, w)
    assert -np.log(np.where(y, p, 1.0 - p)).mean() < 1.01 * expected


def test_sentinels_change_the_loss_by_at_most_1_percent() -> None:
    X, y = linear_stream("logistic")
    expected = progressive_losses("logistic", X, y).mean()
    X[np.random.default_rng(3).random(len(y)) < 0.002, 0] = 99_999_999.0
    assert progressive_losses("logistic", X, y).mean() < 1.01 * expected


def test_constant_column_of_a_year_changes_the_loss_by_at_most_3_percent() -> None:
    X, y = linear_stream("logistic")
    with_year = np.c_[X, np.full(len(y), 2026.0)]
    losses = [progressive_losses("logistic", Z, y).mean() for Z in (X, with_year)]
    assert losses[1] < min(1.03 * losses[0], 0.3)


@pytest.mark.parametrize(
    ("loss", "max_share"),
    [(loss, 0.5 if loss == "poisson" else 0.4) for loss in REGRESSION],  # counts have more noise
)
def test_outlier_among_targets_is_bounded(loss: str, max_share: float) -> None:
    X, y = linear_stream(loss)
    y[800] = 1e9
    p = make(loss, quantile=0.5).progressive_many(csr_matrix(X), y)
    deviation = np.abs(y[1_000:] - y[1_000:].mean()).mean()
    assert np.abs(p - y)[1_000:].mean() < max_share * deviation


@pytest.mark.parametrize("loss", ["squared", "absolute", "huber"])
def test_large_targets_that_can_be_predicted_are_learnt(loss: str) -> None:
    """Targets of 1,000 among targets of about 1 are no outliers if a feature goes with them."""
    noise = np.random.default_rng(1).normal(size=4_000)
    xs = [{"large" if i % 20 == 19 else "small": 1.0} for i in range(4_000)]
    model = ElasticNetRegressor(loss=loss)
    model.learn_many(xs, [1_000.0 * ("large" in x) + e for x, e in zip(xs, noise, strict=True)])
    assert 600.0 < model.predict_one({"large": 1.0}) < 1_400.0
    assert abs(model.predict_one({"small": 1.0})) < 10.0


def test_squared_hinge_is_as_good_as_the_best_fixed_rate_on_clicks() -> None:
    """Its derivatives are twice those of other losses, so their rates would be twice too high."""
    rng, n = np.random.default_rng(1), 20_000
    columns = [np.minimum(rng.zipf(1.3, n), 300), 301 + rng.integers(0, 100, n)]
    X = csr_matrix((np.ones(2 * n), np.stack(columns, 1).ravel(), np.arange(n + 1) * 2))
    logits = X @ rng.normal(size=X.shape[1])
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-logits))

    def loss_of(lr: Any) -> float:
        margins = ElasticNetClassifier(lr=lr, loss="squared_hinge").progressive_many(X, y)
        return float(np.mean(np.maximum(0.0, 1.0 - np.where(y, 1.0, -1.0) * margins) ** 2))

    assert loss_of("auto") < 1.005 * min(map(loss_of, (0.01, 0.03, 0.1, 0.3)))


def test_recovers_from_a_change_of_the_labels() -> None:
    X, y = linear_stream("logistic")
    y[4_000:] = ~y[4_000:]
    losses = progressive_losses("logistic", X, y)
    assert losses[5_000:].mean() < 1.25 * losses[1_000:4_000].mean()


def test_confidence_grows_where_labels_are_easy_to_predict() -> None:
    """A fixed bound of the margins of 5 is a loss of 0.0067 at least."""
    xs, y = [{"yes": 1.0}, {"no": 1.0}] * 5_000, np.tile([True, False], 5_000)
    p = make("logistic").progressive_many(xs, y)
    losses = -np.log(np.where(y, p, 1.0 - p))
    assert losses[-1_000:].mean() < 5e-4


@pytest.mark.parametrize("choice", ["averages", "mixture", "slow"])
def test_frozen_model_equals_the_published_twin(choice: str) -> None:
    X, y, signed, w = kit.data_of("logistic", 1_500)
    if choice == "slow":  # labels that repeat, whatever the features
        y = np.arange(1_500) // 150 % 2 == 0
    elif choice == "mixture":  # labels without noise
        y = X @ np.arange(X.shape[1]) > 0.0
    signed = np.where(y, 1.0, -1.0)
    model, twin = make("logistic", l1=1e-3), twin_of("logistic", l1=1e-3)
    model.learn_many(csr_matrix(X), y, w)
    for x_i, y_i, w_i in zip(X, signed, w, strict=True):
        twin.learn(x_i, y_i, w_i)
    assert twin.choice == choice
    frozen = model.freeze()
    for x_i in X[:50]:
        x = {j: v for j, v in enumerate(x_i.tolist()) if v}
        assert frozen.margin(x) == pytest.approx(twin.published(x_i), abs=1e-9)
    assert dict(frozen.weights) == model.weights and frozen.intercept == model.intercept


def test_forgets_features_without_support_and_learns_them_anew() -> None:
    """72,000 features that come once, among features that matter."""
    rng = np.random.default_rng(7)
    n, common, new = 90, 10, 800  # few long rows, because the twin steps through all features
    d = common + n * new
    model = make("logistic", l1=0.05)
    twin = twin_of("logistic", d=d, l1=0.05)
    for i in range(n):
        ids = np.r_[np.flatnonzero(rng.random(common) < 0.5), common + i * new + np.arange(new)]
        y = bool(np.sum(ids < 3) > 1)
        x = np.zeros(d)
        x[ids] = 1.0
        model.learn_one({int(j): 1.0 for j in ids}, y)
        twin.learn(x, 1.0 if y else -1.0, 1.0)
    assert 0 < twin.retained < common  # the others came again later
    assert model._state.rule.clock[0].retained == twin.retained
    weights = model.weights
    np.testing.assert_allclose([weights.get(j, 0.0) for j in range(d)], twin.w, atol=1e-9)
    assert model.n_features_seen == pytest.approx(d, rel=0.05)


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: make("hinge").mutate({"lr": 0.1}), "lr cannot change"),
        (
            lambda: ElasticNetClassifier(lr=0.2).mutate({"lr": "auto"}),
            'lr cannot change to or from "auto"',
        ),
        (
            lambda: ElasticNetClassifier(lr="best"),
            'lr must be a number, a scheduler of river.optim.schedulers or "auto", got',
        ),
        (
            lambda: streaml1.L1BallClassifier(lr="auto"),
            'lr="auto" is only supported by the elastic net and softmax',
        ),
        (lambda: setattr(make("hinge"), "lr", 0.1), 'lr cannot change to or from "auto"'),
    ],
)
def test_conflicting_parameters_are_rejected(action: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        action()
    assert message in str(error.value)


@pytest.mark.parametrize("params", [{"average": True}, {"stamps": "explicit"}])
def test_auto_is_a_number_where_a_single_net_is_needed(params: dict[str, Any]) -> None:
    assert make("hinge", **params).lr == 0.1


def test_rejected_change_keeps_the_rate() -> None:
    model = ElasticNetClassifier(lr=0.2)
    with pytest.raises(ValueError, match="lr cannot change to or from"):
        model.lr = "auto"
    assert model.lr == 0.2
    model.learn_one({"a": 1.0}, True)


@pytest.mark.parametrize("value", [1e-155, 1e-161, 1e-170, 1e-60])
@pytest.mark.parametrize("loss", LOSSES)
def test_values_whose_squares_underflow_keep_the_model_valid(
    loss: str, value: float, tmp_path: Path
) -> None:
    model = make(loss)
    for _ in range(4):
        model.learn_one({"a": value}, 1)
    model.learn_one({"a": 1.0, "b": 0.5}, 0)
    model._state.check()
    assert all(math.isfinite(w) for w in model.weights.values()) and math.isfinite(model.intercept)
    model.save(tmp_path / "model")
    assert streaml1.load(tmp_path / "model").weights == model.weights


@pytest.mark.parametrize("label", [1.0, 1e49])
@pytest.mark.parametrize("penalty", [{"l1": 1e30}, {"l1": 1e-3, "l2": 1e30}, {"l2": 1e30}])
@pytest.mark.parametrize("update", ["fobos", "sgd"])
def test_tiny_values_and_sample_weights_keep_the_model_valid(
    label: float, penalty: dict[str, float], update: str
) -> None:
    """The product of the two factors of a rate has an upper bound."""
    model = make("absolute", update=update, **penalty)
    model.learn_one({}, label, 1e-300)
    for value in (1e-155, 1e-155, 1.0):
        model.learn_one({"a": value}, label, 5e-324)
        model._state.check()
        assert math.isfinite(model.predict_one({"a": 1.0, "b": 2.0}))


def test_loss_cannot_change() -> None:
    model = make("logistic")
    with pytest.raises(ValueError, match='loss cannot change with lr="auto"'):
        model.loss = "hinge"
    assert model.loss == "logistic"
    model.learn_one({"a": 1.0}, True)
