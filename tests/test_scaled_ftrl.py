"""FTRL-Proximal on scaled features against its dense twin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1 import FTRLClassifier, FTRLRegressor
from streaml1.optim.ftrl import FTRL
from streaml1.optim.losses import CODES
from streaml1.optim.scaled_ftrl import ScaledFTRL
from tests import kit, reference
from tests.learner_data import D

SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "no penalty": {"l1": 0.0},
    "both": {"l1": 0.3, "l2": 2.0, "beta": 0.1},
    "fixed rate": {"alpha": 0.5, "scaled": True, "l1": 0.3},
}


def make_model(loss: str = "logistic", **params: Any) -> Any:
    kind = FTRLClassifier if kit.is_binary(loss) else FTRLRegressor
    return kind(loss=loss, **params)


def make_twin(d: int, loss: str = "logistic", **params: Any) -> reference.ScaledFTRL:
    return reference.ScaledFTRL(d, loss=loss, **{k: v for k, v in params.items() if k != "scaled"})


@pytest.mark.parametrize("loss", CODES)
def test_equals_the_dense_twin(loss: str) -> None:
    data = kit.data_of(loss)
    for k, params in enumerate(SETTINGS.values()):
        if k % 2:
            params = params | {"clip_gradient": 1.0, "intercept_lr": 0.0, "intercept_init": -0.3}
        kit.assert_matches_twin(make_model(loss, **params), make_twin(D, loss, **params), data)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_parameter_changes_apply_from_the_next_step(loss: str) -> None:
    changes: list[dict[str, Any]] = [
        {"l1": 0.1},
        {"beta": 3.0, "l2": 0.5},
        {"l1": 4.0},
        {"clip_gradient": 0.1, "l1": 0.0},
    ]
    kit.assert_changes_match_twin(make_model(loss), make_twin(D, loss), changes, loss)


@given(st.lists(st.integers(-150, 150), min_size=4, max_size=4), st.integers(0, 10**6))
def test_powers_of_two_in_a_column_change_no_prediction(powers: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    plain, scaled = FTRLClassifier(l1=0.1), FTRLClassifier(l1=0.1)
    for _ in range(30):
        x = {j: float(v) for j, v in enumerate(rng.normal(size=4)) if rng.random() < 0.7}
        z = {j: math.ldexp(v, powers[j]) for j, v in x.items()}
        assert plain.predict_proba_one(x) == scaled.predict_proba_one(z)
        y = bool(rng.random() < 0.4)
        plain.learn_one(x, y)
        scaled.learn_one(z, y)


def test_no_rate_to_choose_for_labels_of_any_size() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(2000, 3)) * [1.0, 1e4, 1e-3]
    y = X @ [3.0, 2e-4, 1e3]
    for size in (1e-6, 1.0, 1e6):
        model = FTRLRegressor(l1=0.0)
        p = model.progressive_many(X, y * size)
        assert np.mean((p - y * size)[1000:] ** 2) < 0.05 * np.var(y * size)


def test_scaling_belongs_to_the_computed_rate() -> None:
    assert isinstance(FTRLClassifier()._state.rule, ScaledFTRL)
    assert isinstance(FTRLClassifier(alpha=0.1)._state.rule, FTRL)
    assert isinstance(FTRLClassifier(alpha=0.1, scaled=True)._state.rule, ScaledFTRL)
    with pytest.raises(ValueError, match='alpha="auto" requires scaled features; leave scaled out'):
        FTRLClassifier(scaled=False)
    model = FTRLClassifier()
    with pytest.raises(ValueError, match='alpha cannot change to or from "auto" unless'):
        model.alpha = 0.5
    assert model.alpha == "auto"
    changing = FTRLClassifier(scaled=True)
    changing.alpha = 0.5
    changing.learn_one({"a": 1.0}, True)
    assert changing._state.rule.clock[0].over_alpha == 2.0


def test_crafted_state_is_rejected() -> None:
    kit.assert_rejects_states(
        make_model(l1=0.01),
        lambda a: [
            {"clock": {"over_alpha": 0.0}},
            {"n": -a["n"] - 1.0},
            {"total": a["total"] * 0.0},
            {"count": a["count"] + 1e6},
            *kit.broken_usual_values(a),
        ],
    )
