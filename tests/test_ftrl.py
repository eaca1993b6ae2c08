"""FTRL-Proximal against its dense twin: exact zeros and no delayed gradient."""

from __future__ import annotations

import math
import pickle
import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import linear_model, optim

from streaml1 import CoinBettingClassifier, FTRLClassifier, FTRLRegressor, load
from streaml1.optim.losses import CODES
from tests import kit, reference
from tests.conftest import ROOT
from tests.learner_data import D, as_dict, assert_equal_twins

SETTINGS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "no penalty": {"l1": 0.0},
    "both": {"alpha": 0.5, "l1": 0.3, "l2": 2.0},
    "adagrad": {"alpha": 0.3, "beta": 1e-6, "l1": 0.0, "l2": 1e-3},
    "strong": {"alpha": 1.0, "beta": 0.1, "l1": 8.0},
}


def make_model(loss: str = "logistic", *, alpha: float = 0.1, **params: Any) -> Any:
    kind = FTRLClassifier if kit.is_binary(loss) else FTRLRegressor
    return kind(loss=loss, alpha=alpha, **params)


@pytest.mark.slow
@pytest.mark.parametrize("loss", CODES)
def test_equals_the_dense_twin(loss: str) -> None:
    data = kit.data_of(loss)
    for k, params in enumerate(SETTINGS.values()):
        if k % 2 == 0:
            params = params | {"clip_gradient": 0.2, "intercept_lr": 0.05, "intercept_init": -0.3}
        kit.assert_matches_twin(
            make_model(loss, **params), reference.FTRL(D, loss=loss, **params), data
        )


def test_small_gradients_leave_exact_zeros() -> None:
    model = FTRLRegressor(alpha=0.1, beta=1.0, l1=0.5, intercept_lr=0.0)
    model.learn_one({"a": 1.0, "b": 0.25}, 2.0)  # g = -2: z = -2 and -0.5
    assert model.weights == {"a": pytest.approx((2.0 - 0.5) / ((1.0 + 2.0) / 0.1), abs=1e-16)}
    assert model.n_nonzero == 1 and model.n_features_seen == 2
    assert model.predict_one({"a": 2.0, "b": 5.0}) == 2.0 * model.weights["a"]
    z = model._state.rule.slots["z"][:2].tolist()
    n = model._state.rule.slots["n"][:2].tolist()
    assert z == [-2.0, -0.5] and n == [4.0, 0.25]


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-3.0, 3.0)), max_size=60))
def test_weight_is_a_function_of_z_and_n(values: list[tuple[int, float]]) -> None:
    model = FTRLRegressor(alpha=0.4, l1=0.7, l2=0.1, loss="absolute")
    for j, v in values:
        model.learn_one({j: v}, 0.3)
    slots = model._state.rule.slots
    for j in range(6):
        z, n = float(slots["z"][j]), float(slots["n"][j])
        expected = 0.0
        if abs(z) > 0.7:
            expected = -(z - math.copysign(0.7, z)) / ((1.0 + math.sqrt(n)) / 0.4 + 0.1)
        assert model.weights.get(j, 0.0) == pytest.approx(expected, abs=1e-15)
        assert (j in model.weights) == (abs(z) > 0.7)


def test_river_ftrl_has_the_two_documented_faults() -> None:
    """If river fixes them, update docs/ftrl.md and its demo."""
    theirs = linear_model.LogisticRegression(
        optim.FTRLProximal(alpha=0.1, beta=1.0, l1=1.0, l2=0.0), intercept_lr=0.0
    )
    ours = FTRLClassifier(alpha=0.1, intercept_lr=0.0)
    for model in (theirs, ours):
        model.learn_one({"x": 10.0}, True)
    assert ours.weights["x"] > 0.0
    assert dict(theirs.weights).get("x", 0.0) == 0.0  # river applies the gradient one step late
    for model in (theirs, ours):
        for _ in range(3):
            model.learn_one({"x": 10.0}, True)
        for _ in range(200):
            model.learn_one({"x": 1.0}, False)
            if abs(theirs.optimizer.z["x"]) <= 0.5:
                break
    assert theirs.weights["x"] != 0.0  # although |z| <= l1


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_parameter_changes_apply_from_the_next_step(loss: str) -> None:
    changes: list[dict[str, Any]] = [
        {"l1": 0.1},
        {"alpha": 0.5},
        {"beta": 3.0, "l2": 0.5},
        {"l1": 4.0},
        {"l1": 0.0, "alpha": 0.05},
        {"clip_gradient": 0.1, "intercept_lr": 0.2},
    ]
    kit.assert_changes_match_twin(make_model(loss), reference.FTRL(D, loss=loss), changes, loss)


@pytest.mark.parametrize(
    "model",
    [
        FTRLClassifier(l1=5.0, max_features=8, alpha=1.0),
        CoinBettingClassifier(l1=5.0, max_features=8),
    ],
    ids=["ftrl", "coin betting"],
)
def test_weights_revived_by_a_smaller_l1_count_towards_max_features(
    model: Any, tmp_path: Path
) -> None:
    for j in range(200):
        model.learn_one({f"f{j % 40}": 1.0}, j % 3 == 0)
    assert model.n_nonzero == 0
    model.l1 = 0.01
    copies = [pickle.loads(pickle.dumps(model)), model.clone(include_attributes=True)]
    model.save(tmp_path / "before")
    copies.append(load(tmp_path / "before"))
    for instance in (model, *copies):
        instance.learn_one({}, True)
        assert 0 < instance.n_nonzero <= 8
        assert instance.n_cut == 32 + 8 - instance.n_nonzero
        assert instance.weights == model.weights
    model.save(tmp_path / "after")
    assert load(tmp_path / "after").weights == model.weights


def test_learning_rate_and_schedule_do_not_exist() -> None:
    for name in ("lr", "schedule"):
        with pytest.raises(TypeError):
            FTRLClassifier(**{name: 0.1})
        with pytest.raises(ValueError, match=f"{name} cannot change; FTRLClassifier can"):
            FTRLClassifier().mutate({name: 0.1})
        with pytest.raises(ValueError, match=f"{name} cannot be set: this model computes its own"):
            setattr(FTRLClassifier(), name, 0.1)
        assert name not in FTRLClassifier()._get_params()


def test_state_of_a_zero_weight_is_retained() -> None:
    """z and n persist: unlike in other rules, releasing such a slot would change later steps."""
    model = FTRLRegressor(l1=3.0, alpha=1.0, intercept_lr=0.0)
    model.learn_one({"x": 1.0}, 2.0)
    model.learn_one({"never": 1.0}, 0.0)  # a zero gradient leaves no state
    assert model.weights == {} and model.n_features_seen == 2
    rule = model._state.rule
    assert rule.seen_mask().sum() == 2 and rule.live_mask().sum() == 1
    duplicate = model.clone(include_attributes=True)
    for m in (model, duplicate):
        m.learn_one({"x": 1.0}, 2.0)
    assert duplicate.weights == model.weights != {}
    rule.drop(np.flatnonzero(rule.live_mask()))
    assert model.weights == {} and rule.seen_mask().sum() == 2 and not rule.live_mask().any()


def test_parameters_out_of_range_are_rejected() -> None:
    kit.assert_rejects(
        FTRLClassifier,
        [
            ({"alpha": 0.0}, 'alpha must be "auto" or a number from 1e-100 to 1e+10, got 0.0'),
            ({"beta": 0.0}, "beta must be a number from 1e-100 to 1e+10, got 0.0"),
            ({"l1": -1.0}, "l1 must be a number from 0 to 1e+30, got -1.0"),
            ({"l2": math.nan}, "l2 must be a number from 0 to 1e+30, got nan"),
            ({"l2": "much"}, "l2 must be a number from 0 to 1e+30, got 'much'"),
            ({"loss": "absolute"}, "\"squared_hinge\", got 'absolute'"),
        ],
    )


def test_crafted_state_is_rejected() -> None:
    kit.assert_rejects_states(
        make_model(l1=0.01), lambda a: [{"clock": {"beta_now": 0.0}}, {"n": -a["n"]}]
    )


def test_two_steps_by_hand() -> None:
    """Two examples of one feature, computed by hand."""
    twin = reference.FTRL(1, alpha=0.5, beta=1.0, l1=0.1, l2=0.2, loss="squared", intercept_lr=0.0)
    twin.learn(np.ones(1), 1.0)
    w = 0.9 / ((1.0 + 1.0) / 0.5 + 0.2)
    assert twin.w[0] == pytest.approx(w)
    twin.learn(np.ones(1), 1.0)
    G = w - 1.0
    z = -1.0 + G - (math.sqrt(1.0 + G * G) - 1.0) / 0.5 * w
    n = 1.0 + G * G
    assert twin.w[0] == pytest.approx(-(z + 0.1) / ((1.0 + math.sqrt(n)) / 0.5 + 0.2))
    model = make_model("squared", alpha=0.5, l1=0.1, l2=0.2, intercept_lr=0.0)
    for _ in range(2):
        model.learn_one(as_dict(np.ones(1)), 1.0)
    assert_equal_twins(model, twin)


def test_demo_prints_the_table_of_the_docs(capsys: pytest.CaptureFixture[str]) -> None:
    demo = runpy.run_path(str(ROOT / "demos" / "compare_ftrl_with_river.py"))
    demo["one_feature"]()
    demo["many_features"]()
    text = (ROOT / "docs" / "ftrl.md").read_text()
    rows = [re.findall(r"[-\w.,]+", line) for line in capsys.readouterr().out.splitlines()]
    rows = [row for row in rows if row and row[0] in {*"12345678", "streaml1", "river"}]
    assert len(rows) == 10
    for row in rows:
        assert "| " + " | ".join(row) + " |" in text
