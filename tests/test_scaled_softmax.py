"""Softmax regression on scaled features, the default, compared with its dense twin."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import datasets

import streaml1
from streaml1 import SoftmaxClassifier
from streaml1.optim.scaled_softmax import ScaledSoftmax
from streaml1.optim.softmax import Softmax
from streaml1.optim.softmax_ball import SoftmaxBall
from tests import reference
from tests.kit import CUTS
from tests.learner_data import as_dict
from tests.test_softmax import NAMES, D, data_of, run_beside

SETTINGS: dict[str, dict[str, Any]] = {
    "l1": {"strength": 0.05},
    "l1/l2": {"strength": 0.1, "penalty": "l1/l2", "l2": 1e-3},
    "l1/linf": {"strength": 0.15, "penalty": "l1/linf", "l2": 0.01},
    "l1, l2": {"strength": 0.02, "l2": 0.05},
    "no penalty": {"strength": 0.0, "clip_gradient": 0.5, "intercept_lr": 0.0},
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_equals_the_dense_twin(setting: str) -> None:
    params, k = SETTINGS[setting], 2 + len(setting) // 2
    X, y, w = data_of(k)
    X *= np.logspace(-3, 3, D)  # a column of size 1000 must not decide the tolerance of the others
    model = SoftmaxClassifier(**params)
    twin = reference.ScaledSoftmax(D, **params)
    run_beside(model, twin, (X, y, w), NAMES, CUTS)
    if params["strength"] > 0.0:
        assert 0 < model.n_nonzero_rows < D


def test_declared_classes_and_late_ones() -> None:
    names = NAMES[:5]
    model = SoftmaxClassifier(classes=names, strength=1e-3)
    twin = reference.ScaledSoftmax(D, 5, strength=1e-3)
    run_beside(model, twin, data_of(5, 600), names, [0, 1, 30, 500, 530, 600])


def columns_of(k: int, n: int = 3_000) -> tuple[Any, Any, Any]:
    """Return `data_of` with three columns that are far from 0 in nearly all rows."""
    X, y, w = data_of(k, n)
    random = np.random.default_rng(k + 1)
    X[:, :4] = 0.0
    X[:, 0] = 2000 + random.integers(25, size=n) + y
    X[:, 1] = random.normal(15.0 - 3.0 * y, 8.0)
    X[:, 2] = 7.0  # its values do not differ
    X[:, 3] = random.integers(1, 9, size=n)
    X[20::30, 3] = 0.0
    return X, y, w


@pytest.mark.parametrize("setting", SETTINGS)
def test_features_in_every_row_have_origins(setting: str) -> None:
    k = 4
    X, y, w = columns_of(k)
    model, twin = (
        SoftmaxClassifier(**SETTINGS[setting]),
        reference.ScaledSoftmax(D, **SETTINGS[setting]),
    )
    run_beside(model, twin, (X, y, w), NAMES[:k], [0, 1, 9, 15, 16, 17, 40, 1_000, 1_030, 3_000])
    has = twin.origin != 0.0
    assert has[[0, 1, 3]].all() and not has[2] and model._state.rule.rates[0].with_origin >= 3


def test_origins_survive_files_in_the_first_rows(tmp_path: Path) -> None:
    X, y, _ = columns_of(3, 60)
    whole = SoftmaxClassifier(strength=0.05)
    resumed = SoftmaxClassifier(strength=0.05)
    for i, x in enumerate(X):
        resumed.save(tmp_path / "m")
        resumed = streaml1.load(tmp_path / "m")
        assert resumed.predict_proba_one(as_dict(x)) == whole.predict_proba_one(as_dict(x)), i
        for model in (whole, resumed):
            model.learn_one(as_dict(x), NAMES[y[i]])
    assert whole._state.rule.rates[0].with_origin >= 3
    assert resumed.freeze().intercept == whole.intercept


def test_intercepts_belong_to_values_and_contributions_to_distances() -> None:
    """So that weights and intercepts give the margins of a row with all of these features."""
    X, y, _ = columns_of(3, 500)
    model = SoftmaxClassifier()
    for x, label in zip(X, y.tolist(), strict=True):
        model.learn_one(as_dict(x), NAMES[label])
    x = {0: 2014.0, 1: 12.0, 2: 7.0, 3: 4.0}  # not so far away that they are saturated
    explained = model.explain_one(x)
    for label, explanation in explained.items():
        weights = {name: row.get(label, 0.0) for name, row in model.weights.items()}
        a = model.intercept[label] + sum(weights.get(name, 0.0) * v for name, v in x.items())
        assert a == pytest.approx(explanation.margin, rel=0.01)  # scales count the current row
        assert math.fsum([*explanation.contributions, *explanation.remainder]) == explanation.margin
    margins = np.array([e.margin for e in explained.values()])
    p = np.exp(margins - margins.max())
    np.testing.assert_allclose(list(model.predict_proba_one(x).values()), p / p.sum(), rtol=1e-12)


def test_columns_far_from_zero_are_learnt_as_well_as_centred_ones() -> None:
    rows = list(datasets.ImageSegments())
    shifted = [({name: v + 1000.0 for name, v in x.items()}, label) for x, label in rows]
    assert mean_loss(shifted, [1.0] * len(rows)) < 0.6  # 2.1 without origins


@given(st.lists(st.integers(-140, 140), min_size=4, max_size=4), st.integers(0, 10**6))
def test_powers_of_two_in_a_column_change_no_prediction(powers: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    plain, scaled = SoftmaxClassifier(strength=0.01), SoftmaxClassifier(strength=0.01)
    for _ in range(30):
        x = {j: float(v) for j, v in enumerate(random.normal(size=4)) if random.random() < 0.7}
        z = {j: math.ldexp(v, powers[j]) for j, v in x.items()}
        assert plain.predict_proba_one(x) == scaled.predict_proba_one(z)
        label = "abc"[random.integers(3)]
        plain.learn_one(x, label)
        scaled.learn_one(z, label)


def mean_loss(rows: list[tuple[dict[str, float], str]], weights: list[float]) -> float:
    model, total = SoftmaxClassifier(), 0.0
    for (x, label), w in zip(rows, weights, strict=True):
        total -= math.log(max(model.predict_proba_one(x).get(label, 0.0), 1e-3))
        model.learn_one(x, label, w)
    return total / len(rows)


def test_scales_outliers_and_weights_do_not_decide() -> None:
    random = np.random.default_rng(1)
    rows = list(datasets.ImageSegments())
    scales = dict(zip(rows[0][0], 10.0 ** random.uniform(-6, 6, len(rows[0][0])), strict=True))
    ones = [1.0] * len(rows)
    usual = mean_loss(rows, ones)
    assert usual < 0.6  # 3.2 with lr=0.1
    scaled = [({name: v * scales[name] for name, v in x.items()}, label) for x, label in rows]
    assert mean_loss(scaled, ones) == pytest.approx(usual, rel=0.001)
    assert mean_loss(rows, [1e6] * len(rows)) == pytest.approx(usual, rel=1e-9)
    rows[700] = ({name: v * 1e12 for name, v in rows[700][0].items()}, rows[700][1])
    assert mean_loss(rows, ones) < 1.01 * usual
    assert mean_loss(rows, [*ones[:900], 1e6, *ones[901:]]) < 1.01 * usual


def test_memory_follows_the_rows_that_are_not_zero() -> None:
    model = SoftmaxClassifier(strength=0.03)
    sizes = []
    for t in range(30_000):
        model.learn_one({f"new{t}": 1.0, "old": 1.0}, "ab"[t % 2])
        if t >= 5_000:
            sizes.append(model._raw_memory_usage)
    assert sizes[-1] <= max(sizes[:5_000])
    assert model.n_nonzero_rows < 2_000


def test_a_huge_l2_makes_rows_zero() -> None:
    """The exponential of the flow must not overflow, which raises where kernels are interpreted."""
    model = SoftmaxClassifier(l2=1e6, strength=0.1)
    for k in range(20):
        model.learn_one({"a": 1.0, "b": 2.0}, "xyz"[k % 3])
    assert model.n_nonzero == 0
    model._state.check()


def test_scaling_belongs_to_the_automatic_rate() -> None:
    assert isinstance(SoftmaxClassifier()._state.rule, ScaledSoftmax)
    assert isinstance(SoftmaxClassifier(lr=0.1)._state.rule, Softmax)
    ball = SoftmaxClassifier(penalty="ball")
    assert isinstance(ball._state.rule, SoftmaxBall)
    assert ball.lr == 0.1
    for model, lr in ((SoftmaxClassifier(), 0.1), (SoftmaxClassifier(lr=0.1), "auto")):
        with pytest.raises(ValueError, match=r'lr can(not change to or from "auto"; clone|not )'):
            model.lr = lr


def test_parameter_changes_apply_from_the_next_step() -> None:
    model, twin = SoftmaxClassifier(), reference.ScaledSoftmax(D)
    X, y, w = data_of(3, 400)
    cuts = [0, 100, 200, 300, 400]
    for change, lo in zip(
        ({}, {"strength": 0.01}, {"l2": 0.1}, {"strength": 0.0}), cuts[:-1], strict=True
    ):
        for name, value in change.items():
            setattr(model, name, value)
            setattr(twin, name, value)
        run_beside(model, twin, tuple(a[lo : lo + 100] for a in (X, y, w)), NAMES, [0, 50, 100])


def test_rates_restart() -> None:
    model, twin = SoftmaxClassifier(strength=0.01, l2=0.01), reference.ScaledSoftmax(D)
    twin.strength = twin.l2 = 0.01
    X, y, w = data_of(3, 400)
    run_beside(model, twin, (X[:200], y[:200], w[:200]), NAMES, [0, 100, 200])
    assert model.has_decaying_rates
    model.reset_rates()
    twin.squares[:], twin.intercept_squares = 0.0, 0.0
    run_beside(model, twin, (X[200:], y[200:], w[200:]), NAMES, [0, 100, 200])


def test_explanations_add_up_where_values_are_clipped() -> None:
    for params in ({}, {"hash_bits": 1}):
        model = SoftmaxClassifier(strength=0.0, **params)
        for k in range(20):
            model.learn_one({"a": 1.0, "b": -2.0, "c": 0.5 + k % 3}, "xyz"[k % 3])
        x = {"a": 50.0, "b": -2.0, "c": 1.5, "new": 4.0}
        p = model.predict_proba_one(x)
        explanations = model.explain_one(x)
        margins = np.array([explanation.margin for explanation in explanations.values()])
        expected = np.exp(margins - margins.max())
        np.testing.assert_allclose(list(p.values()), expected / expected.sum(), rtol=1e-12)
        for explanation in explanations.values():
            assert not explanation.exceeds_rounding
            parts = [*explanation.contributions, *explanation.remainder]
            assert math.fsum(parts) == explanation.margin


def test_crafted_state_is_rejected() -> None:
    model = SoftmaxClassifier(strength=1e-3)
    X, y, w = data_of(3, 200)
    for x, label, weight in zip(X, y.tolist(), w.tolist(), strict=True):
        model.learn_one(as_dict(x), label, weight)
    slots, arrays = model._state.rule.state_dict()

    def check_forged_state(**changes: Any) -> None:
        ScaledSoftmax.from_state_dict(100, slots, {**arrays, **changes}).check()

    check_forged_state()
    rates = arrays["rates"].copy()
    rates["norms"] = 0.0
    for changes in (
        {"rates": rates},
        {"rates": arrays["rates"][:0]},
        {"total": arrays["total"] * 0.0},
        {"total": arrays["total"] * np.nan},
        {"count": arrays["count"] + 1e6},
        {"count": arrays["count"][1:]},
        {"squares": -arrays["squares"]},
        {"squares": arrays["squares"] * np.nan},
        {"rate": arrays["rate"] * 2.0},
        {"origins": arrays["origins"] * np.nan},
        {"origins": np.tile([5.0, 1.0, -1.0], (len(slots), 1))},
        {"more": arrays["count"]},
    ):
        with pytest.raises(AssertionError):
            check_forged_state(**changes)
