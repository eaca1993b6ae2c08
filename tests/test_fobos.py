"""FoBoS with whole-vector norms against its dense twin."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from streaml1 import FOBOSClassifier, FOBOSRegressor
from streaml1.optim.losses import CODES
from tests import kit, reference
from tests.learner_data import SCHEDULES, D, as_dict, assert_equal_twins, is_run

NORMS = ("l2", "linf")
STRENGTHS = {"none": 0.0, "default": 1e-4, "mild": 1e-2, "strong": 0.3, "often zero": 3.0}


def make_model(loss: str = "logistic", **params: Any) -> Any:
    kind = FOBOSClassifier if kit.is_binary(loss) else FOBOSRegressor
    return kind(loss=loss, **params)


@pytest.mark.slow
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", CODES)
def test_equals_the_dense_twin(loss: str, norm: str) -> None:
    data = kit.data_of(loss)
    for k, (schedule, strength) in enumerate(itertools.product(SCHEDULES, STRENGTHS.values())):
        if not is_run(loss, k):
            continue
        params = {**SCHEDULES[schedule], "strength": strength, "norm": norm}
        if k % 3 == 0:
            params |= {"clip_gradient": 0.2, "intercept_lr": 0.05, "intercept_init": -0.3}
        kit.assert_matches_twin(
            make_model(loss, **params), reference.FOBOS(D, loss=loss, **params), data
        )


STEADY: dict[str, Any] = {"lr": 1.0, "schedule": "constant", "intercept_lr": 0.0}


def test_first_steps_of_l2_by_hand() -> None:
    model = FOBOSRegressor(strength=1.0, **STEADY)
    model.learn_one({"x": 3.0, "y": 4.0}, 1.0)  # v = (3, 4), of norm 5
    assert model.weights == pytest.approx({"x": 2.4, "y": 3.2}, abs=1e-15)
    model.learn_one({}, 0.0)
    model.learn_one({}, 0.0)
    model.learn_one({}, 0.0)  # the norm falls by 1 a step
    assert model.weights == pytest.approx({"x": 0.6, "y": 0.8}, abs=1e-15)
    model.learn_one({}, 0.0)
    assert max(model.weights.values()) < 1e-15
    model.learn_one({}, 0.0)
    assert model.weights == {}
    assert model.n_features_seen == 2
    model.learn_one({"y": 2.0}, 2.0)
    assert model.weights == pytest.approx({"y": 3.0}, abs=1e-15)


@given(
    norm=st.sampled_from(NORMS),
    strength=st.sampled_from([0.0, 1e-300, 1e-3, 0.05, 0.5, 2.0]),
    rows=st.lists(
        st.tuples(
            st.dictionaries(
                st.integers(0, 7),
                st.sampled_from([1.0, -1.0, 0.5, 1e-160, 1e-310, 5e-324]) | st.floats(-2.0, 2.0),
                max_size=6,
            ),
            st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e-170]) | st.floats(-3.0, 3.0),
        ),
        max_size=60,
    ),
)
def test_random_rows_equal_the_twin(
    norm: str, strength: float, rows: list[tuple[dict[int, float], float]]
) -> None:
    """Rows include ties, equal values, denormals and zero gradients."""
    params: dict[str, Any] = {"norm": norm, "strength": strength, "lr": 0.3}
    model, twin = FOBOSRegressor(**params), reference.FOBOS(8, loss="squared", **params)
    for row, y in rows:
        x = np.zeros(8)
        x[list(row)] = list(row.values())
        model.learn_one(as_dict(x), y)
        twin.learn(x, y)
        assert_equal_twins(model, twin)
        model._state.check()


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_parameter_changes_apply_from_the_next_step(loss: str, norm: str) -> None:
    params: dict[str, Any] = {"lr": 0.3, "schedule": "constant", "norm": norm}
    twin = reference.FOBOS(D, loss=loss, **params)
    changes: list[dict[str, Any]] = [
        {"strength": 1e-2},
        {"strength": 0.3, "lr": 0.2},
        {"strength": 0.0},
        {"strength": 1e-3},
        {"strength": 5.0},
        {"strength": 0.02, "clip_gradient": 0.1, "intercept_lr": 0.2, "schedule": "invsqrt"},
    ]
    kit.assert_changes_match_twin(make_model(loss, **params), twin, changes, loss)


def test_norm_cannot_change() -> None:
    with pytest.raises(ValueError, match="norm cannot change; FOBOSClassifier can"):
        FOBOSClassifier().mutate({"norm": "linf"})


def test_parameters_out_of_range_are_rejected() -> None:
    kit.assert_rejects(
        FOBOSClassifier,
        [
            ({"strength": -1.0}, "strength must be a number from 0 to 1e+30, got -1.0"),
            ({"strength": math.inf}, "strength must be a number from 0 to 1e+30, got inf"),
            ({"strength": None}, "strength must be a number from 0 to 1e+30, got None"),
            ({"norm": "l1"}, 'norm must be one of "l2", "linf", got \'l1\''),
            ({"norm": 2}, 'norm must be one of "l2", "linf", got 2'),
            ({"loss": "squared"}, "\"squared_hinge\", got 'squared'"),
        ],
    )


def test_norms_shape_the_weights() -> None:
    """l2 keeps the ratios of the weights; l-infinity makes the largest ones equal."""
    random = np.random.default_rng(0)
    X = random.normal(size=(4_000, 12))
    y = X @ np.array([3.0, -2.0, 2.0, 1.5, *[0.3] * 8])
    sizes = {}
    for norm in NORMS:
        model = FOBOSRegressor(norm=norm, strength=2.0, lr=0.02, schedule="constant")
        model.learn_many(csr_matrix(X), y)
        sizes[norm] = np.sort(np.abs(model._state.rule.weights()[:12]))[::-1]
    assert len(set(sizes["l2"].tolist())) == 12
    assert np.count_nonzero(sizes["linf"] == sizes["linf"][0]) >= 2
    for norm, order in (("l2", 2), ("linf", np.inf)):
        assert np.linalg.norm(sizes[norm], order) < np.linalg.norm([3.0, 2.0, 2.0, 1.5], order)
