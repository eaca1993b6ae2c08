"""The estimators of `streaml1.sklearn`: scikit-learn's own checks and tools."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import streaml1
from streaml1.sklearn import StreamClassifier, StreamRegressor

WEIGHTS = "a weight multiplies the gradient of one step; a repeated row is several steps"


def expected_failures(estimator: Any) -> dict[str, str]:
    return {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
    }


@parametrize_with_checks(
    [StreamClassifier(), StreamRegressor()], expected_failed_checks=expected_failures
)
def test_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_tools_of_scikit_learn() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    search = GridSearchCV(StreamClassifier(random_state=0), {"l1": [1e-4, 1e-2]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.9
    calibrated = CalibratedClassifierCV(StreamClassifier(random_state=0), cv=3).fit(X, y)
    assert calibrated.score(X, y) > 0.9
    scaled = make_pipeline(StandardScaler(), StreamClassifier(epochs=10, random_state=0))
    assert cross_val_score(scaled, *load_iris(return_X_y=True)).mean() > 0.8


def test_pickles_learn_on_bit_identically() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = StreamClassifier(random_state=0).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    for each in (model, copy):
        each.partial_fit(X[:50], y[:50])
    assert np.array_equal(model.predict_proba(X), copy.predict_proba(X))


def test_fit_is_learn_many() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    fitted = StreamClassifier(streaml1.FTRLClassifier(), l1=0.5, shuffle=False).fit(X, y)
    model = streaml1.FTRLClassifier(l1=0.5)
    model.learn_many(X, y)
    assert fitted.model_.weights == model.weights
    with pytest.raises(ValueError, match="EGClassifier has no parameter l1"):
        StreamClassifier(streaml1.EGClassifier(), l1=0.5).fit(X, y)


@pytest.mark.parametrize(
    "model",
    [streaml1.ElasticNetClassifier(lr=0.1), streaml1.FTRLClassifier(alpha=0.1, hash_bits=8)],
)
def test_coefficients_of_two_classes_yield_the_decision_function(model: Any) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    fitted = StreamClassifier(model, random_state=0).fit(X, y)
    assert fitted.coef_.shape == (1, 30)
    margins = X @ fitted.coef_[0] + fitted.intercept_[0]
    assert margins == pytest.approx(fitted.decision_function(X))


@pytest.mark.parametrize("k", [2, 3])
def test_coefficients_of_softmax_yield_the_decision_function(k: int) -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[y < k], y[y < k]
    fitted = StreamClassifier(streaml1.SoftmaxClassifier(), random_state=0).fit(X, y)
    assert fitted.coef_.shape == ((1, 4) if k == 2 else (3, 4))
    margins = X @ fitted.coef_.T + fitted.intercept_
    assert (margins[:, 0] if k == 2 else margins) == pytest.approx(fitted.decision_function(X))


def test_coefficients_of_a_regressor_yield_the_predictions() -> None:
    X, y = load_iris(return_X_y=True)
    fitted = StreamRegressor(streaml1.ElasticNetRegressor(lr=0.01), random_state=0).fit(X, y)
    assert fitted.coef_.shape == (4,)
    assert X @ fitted.coef_ + fitted.intercept_ == pytest.approx(fitted.predict(X))
