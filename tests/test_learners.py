"""Tests of every learner of the registry, new ones included (see *Add a learner*, CONTRIBUTING.md).

What is special to a learner is tested in a file of its own.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import base, checks
from scipy.sparse import csr_matrix

import streaml1
from streaml1.models.parameters import SHARED_ORDER, parameters_of
from streaml1.models.registry import LEARNERS
from tests import reference
from tests.conftest import freeze_heap
from tests.learner_data import D, as_dict, labels_of, rows_of

CLASSES = [name for learner in LEARNERS.values() for name in learner.classes.values()]
LINEAR = [name for name in CLASSES if name != "SoftmaxClassifier"]  # it has k outputs
REQUIRED: dict[str, dict[str, Any]] = {
    "EG": {"n_features": D},
    "ElasticNet": {"lr": 0.1},  # "auto" has a twin of its own in test_lane_mixture.py
    "FTRL": {"alpha": 0.1},  # "auto" scales features: test_scaled_ftrl.py
    "SMIDAS": {"p": 3.0},
}
"""Parameters whose defaults depend on the number of features, or that choose another rule."""


def family_of(name: str) -> str:
    return name.removesuffix("Classifier").removesuffix("Regressor")


def model_of(name: str) -> Any:
    return getattr(streaml1, name)(**REQUIRED.get(family_of(name), {}))


def twin_of(model: Any) -> Any:
    """Return the class of `tests/reference.py` with the parameters of a model."""
    kind = getattr(reference, family_of(type(model).__name__))
    own = set(parameters_of(type(model))) - set(SHARED_ORDER)
    accepted = inspect.signature(kind).parameters
    params = {name: getattr(model, name) for name in own if name in accepted}
    return kind(D, loss=model.loss, **params)


def stream(loss: str, n: int = 600) -> tuple[Any, Any, Any, Any]:
    """Return rows, labels as models take them and as twins do, and weights."""
    random = np.random.default_rng(len(loss))
    X = rows_of(random, n)
    y, signed = labels_of(random, X, loss)
    return X, y, signed, random.choice([0.0, 0.5, 1.0, 2.0], size=n)


@pytest.mark.parametrize("name", CLASSES)
def test_river_checks(name: str) -> None:
    kind = getattr(streaml1, name)
    assert issubclass(kind, base.MiniBatchClassifier | base.MiniBatchRegressor)
    assert kind()._unit_test_skips() == set()
    names = {check.__name__ for check in checks.yield_checks(kind())}
    assert {"check_learn_many_matches_learn_one", "check_pickling"} <= names
    for params in kind._unit_test_params():
        freeze_heap()  # what was compiled, for river's checks of memory
        for check in checks.yield_checks(kind(**params)):
            check(kind(**params))


@pytest.mark.parametrize("name", LINEAR)
def test_equals_the_dense_twin(name: str) -> None:
    model = model_of(name)
    twin = twin_of(model)
    X, y, signed, w = stream(model.loss)
    p = model.progressive_many(csr_matrix(X), y, w)
    np.testing.assert_allclose(p, twin.progressive(X, signed, w), rtol=0.0, atol=1e-9)
    dense = np.array([model.weights.get(j, 0.0) for j in range(D)])
    np.testing.assert_allclose(dense, twin.w, rtol=0.0, atol=1e-9)
    large = np.maximum(np.abs(dense), np.abs(twin.w)) > 1e-9
    np.testing.assert_array_equal(dense[large] != 0.0, twin.w[large] != 0.0)
    assert model.intercept == pytest.approx(twin.b, abs=1e-9)


@pytest.mark.parametrize("name", LINEAR)
def test_a_saved_model_resumes_bit_identically(name: str, tmp_path: Path) -> None:
    model = model_of(name)
    X, y, _, w = stream(model.loss)
    model.learn_many(csr_matrix(X[:300]), y[:300], w[:300])
    model.save(tmp_path / "model")
    loaded = streaml1.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_many(csr_matrix(X)), model.predict_many(csr_matrix(X)))
    later = [m.progressive_many(csr_matrix(X[300:]), y[300:], w[300:]) for m in (model, loaded)]
    assert np.array_equal(*later)
    assert loaded.weights == model.weights
    loaded._state.check()


@pytest.mark.parametrize("name", LINEAR)
def test_giving_back_slots_changes_no_float(name: str) -> None:
    model, reclaimed = model_of(name), model_of(name)
    X, y, _, w = stream(model.loss)
    rows = [{f"n{j}": v for j, v in as_dict(x).items()} for x in X]
    for lo in range(0, len(X), 100):
        part = slice(lo, lo + 100)
        expected = model.progressive_many(rows[part], y[part], w[part])
        assert np.array_equal(reclaimed.progressive_many(rows[part], y[part], w[part]), expected)
        state = reclaimed._state
        with state.exclusive():
            state._release_zeros(state.rule.live_mask(), state.rule.size)
    assert reclaimed.weights == model.weights
    assert reclaimed.intercept == model.intercept
