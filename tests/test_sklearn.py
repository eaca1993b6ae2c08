"""The estimators of `streaml1.sklearn`: scikit-learn's own checks and tools."""

from __future__ import annotations

import importlib
import pickle
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_iris,
    load_wine,
    make_classification,
)
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import (
    check_classifiers_train,
    check_regressors_train,
    parametrize_with_checks,
)

import streaml1
from streaml1 import solvers
from streaml1.sklearn import StreamClassifier, StreamRegressor

WEIGHTS = "a weight multiplies the gradient of one step; a repeated row is several steps"
FRAMES = [pd.DataFrame, pl.DataFrame]


def expected_failures(estimator: Any) -> dict[str, str]:
    return {
        "check_sample_weight_equivalence_on_dense_data": WEIGHTS,
        "check_sample_weight_equivalence_on_sparse_data": WEIGHTS,
    }


@pytest.fixture(scope="module")
def cancer() -> tuple[Any, Any]:
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@parametrize_with_checks(
    [StreamClassifier(), StreamRegressor(), StreamClassifier(streaml1.SoftmaxClassifier())],
    expected_failed_checks=expected_failures,
)
def test_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_exponentiated_gradient_fails_two_checks_with_its_default_parameters() -> None:
    """As the table of docs/from-scikit-learn.md says."""
    with pytest.raises(AssertionError):
        check_classifiers_train("EG", StreamClassifier(streaml1.EGClassifier()))
    with pytest.raises(AssertionError):
        check_regressors_train("EG", StreamRegressor(streaml1.EGRegressor()))
    model = streaml1.EGClassifier(radius=30.0, lr=0.5)
    check_classifiers_train("EG", StreamClassifier(model, epochs=5))


# Tools of scikit-learn


def test_pipeline() -> None:
    X, y = load_wine(return_X_y=True)
    scaled = make_pipeline(StandardScaler(), StreamClassifier(epochs=5, random_state=0))
    assert scaled.fit(X, y).score(X, y) > 0.95


def test_cross_val_score() -> None:
    X, y = load_wine(return_X_y=True)
    model = StreamClassifier(epochs=5, random_state=0)
    assert cross_val_score(model, X, y, cv=3).mean() > 0.85


def test_calibrated_classifier(cancer: tuple[Any, Any]) -> None:
    X, y = cancer
    calibrated = CalibratedClassifierCV(StreamClassifier(random_state=0), cv=3).fit(X, y)
    assert calibrated.score(X, y) > 0.9


def test_grid_search_over_parameters_of_the_model(cancer: tuple[Any, Any]) -> None:
    X, y = cancer
    model = streaml1.ElasticNetClassifier(lr=0.1)
    search = GridSearchCV(
        StreamClassifier(model, random_state=0), {"model__l1": [10.0, 1e-4], "lr": [0.2]}, cv=3
    ).fit(X, y)
    assert search.best_params_ == {"model__l1": 1e-4, "lr": 0.2}
    assert (search.best_estimator_.model_.l1, search.best_estimator_.model_.lr) == (1e-4, 0.2)
    assert search.best_score_ > 0.9
    assert model.l1 == 0.0 and not model.weights


def test_grid_search_over_a_pipeline_of_words() -> None:
    """The learner's parameters are reached through two levels, with sparse matrices of words."""
    texts = ["cheap pills now", "lunch at noon", "win a prize now", "see you at home"] * 15
    y = ["spam", "ham"] * 30
    words = make_pipeline(CountVectorizer(), StreamClassifier(streaml1.FTRLClassifier()))
    grid = {"streamclassifier__model__l1": [0.0, 1e6], "countvectorizer__binary": [True]}
    search = GridSearchCV(words, grid, cv=2, scoring="neg_log_loss").fit(texts, y)
    assert search.best_params_["streamclassifier__model__l1"] == 0.0
    assert search.best_estimator_[-1].model_.weights
    # With l1 = 1e6 all weights are zero: half of the texts are spam.
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(-np.log(2), abs=0.05)
    assert search.predict(["a prize", "at home"]).tolist() == ["spam", "ham"]


def test_calibrated_margins_of_many_classes() -> None:
    """The hinge loss has no probabilities: calibration makes some of `decision_function`."""
    X, y = load_iris(return_X_y=True)
    hinge = StreamClassifier(loss="hinge", epochs=5, random_state=0)
    calibrated = CalibratedClassifierCV(hinge, cv=3).fit(X, y)
    p = calibrated.predict_proba(X)
    assert p.shape == (150, 3) and p.sum(axis=1) == pytest.approx(1.0)
    assert log_loss(y, p) < 0.5 < log_loss(y, np.full((150, 3), 1 / 3))


def test_cross_val_score_of_a_regressor_on_a_frame_with_strings() -> None:
    X, y = visits(pd.DataFrame)
    model = StreamRegressor(epochs=5, random_state=0)
    scores = cross_val_score(model, X, y.astype(float), cv=3, scoring="r2", error_score="raise")
    assert scores.min() > 0.9


# Parameters


def test_nested_parameters() -> None:
    model = streaml1.ElasticNetClassifier(l1=0.1)
    estimator = StreamClassifier(model)
    assert estimator.get_params()["model__l1"] == 0.1
    assert "model__l1" not in estimator.get_params(deep=False)
    estimator.set_params(model__l1=0.2, epochs=2)
    assert (estimator.model.l1, model.l1, estimator.epochs) == (0.2, 0.1, 2)
    assert clone(estimator).model.l1 == 0.2
    with pytest.raises(ValueError, match="ElasticNetClassifier has no parameter radius"):
        estimator.set_params(model__radius=1.0)
    with pytest.raises(ValueError, match="model__l1 is unknown: set l1 instead, or pass model="):
        StreamClassifier().set_params(model__l1=0.2)
    with pytest.raises(ValueError, match="schedule is unknown: pass model=ElasticNetRegressor"):
        StreamRegressor().set_params(model__schedule="constant")
    assert StreamClassifier().set_params(model=model, model__l1=0.2).model.l1 == 0.2
    with pytest.raises(ValueError, match="model must be a learner of streaml1, got LogisticReg"):
        StreamClassifier(LogisticRegression()).fit(np.eye(2), [0, 1])


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (StreamClassifier(streaml1.ElasticNetRegressor()), "a classifier of .* got ElasticNetReg"),
        (StreamRegressor(streaml1.SoftmaxClassifier()), "a regressor of .* got SoftmaxClassifier"),
        (StreamRegressor(shuffle="yes"), "shuffle must be a bool, got 'yes'"),
    ],
)
def test_parameters_that_do_not_fit(estimator: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimator.fit(np.eye(2), [0, 1])


def test_first_batch_after_a_rejected_parameter() -> None:
    model = StreamClassifier(loss="hinges")
    with pytest.raises(ValueError, match="loss must be one of"):
        model.partial_fit(np.eye(2), [0, 1], classes=[0, 1])
    model.set_params(loss="hinge").partial_fit(np.eye(2), [0, 1], classes=[0, 1])
    assert model.model_.n_iterations == 2


def test_parameters_replace_those_of_the_model() -> None:
    given = StreamClassifier(loss="hinge", lr=0.3, l1=0.1, l2=0.2).fit(np.eye(2), [0, 1]).model_
    assert (given.loss, given.lr, given.l1, given.l2) == ("hinge", 0.3, 0.1, 0.2)
    softmax = StreamClassifier(streaml1.SoftmaxClassifier(), l1=0.1).fit(np.eye(2), [0, 1])
    assert softmax.model_.strength == 0.1
    with pytest.raises(ValueError, match="EGClassifier has no parameter l1"):
        StreamClassifier(streaml1.EGClassifier(), l1=0.5).fit(np.eye(2), [0, 1])


@pytest.mark.parametrize(
    ("kind", "args", "params", "message"),
    [
        (StreamClassifier, (), {"alpha": 1}, "'alpha': .* pass model=FTRLClassifier.alpha=...."),
        (StreamRegressor, (), {"gravity": 1}, "pass model=TruncatedGradientRegressor.gravity=...."),
        (StreamRegressor, (), {"project": 1}, "'project'; expected one of: epochs, l1, .* shuffle"),
        (StreamClassifier, (), {"epoch": 1}, "'epoch'; did you mean 'epochs'."),
        (StreamClassifier, (None, 0.1), {}, "takes one positional argument, model, got 2; give"),
        (StreamClassifier, (), {"penalty": "l1"}, "'penalty': set l1=alpha .* and l2=alpha .*"),
        (StreamRegressor, (), {"alpha": 1}, "'alpha': set l1=.*rate of FTRL, .*FTRLRegressor."),
        (StreamClassifier, (), {"C": 1.0}, "'C': set l2=1 / .C . n. for n examples"),
        (StreamClassifier, (), {"class_weight": "balanced"}, "sample_weight=.*compute_sample_w"),
        (StreamClassifier, (), {"max_iter": 9}, "'max_iter': set epochs"),
        (StreamRegressor, (), {"fit_intercept": False}, "ElasticNetRegressor.intercept_lr=0."),
        (StreamClassifier, (), {"warm_start": True}, "'warm_start': call partial_fit"),
        (StreamClassifier, (), {"solver": "saga"}, "'solver': leave it out"),
    ],
)
def test_errors_name_the_class(
    kind: Any, args: tuple[Any, ...], params: dict[str, Any], message: str
) -> None:
    for named in (kind, type("Derived", (kind,), {})):
        with pytest.raises(TypeError, match=rf"^{named.__name__}\(\) .*{message}"):
            named(*args, **params)


def test_probabilities_require_the_logistic_loss() -> None:
    assert not hasattr(StreamClassifier(loss="hinge"), "predict_proba")
    assert not hasattr(StreamClassifier(loss="hinge").fit(np.eye(2), [0, 1]), "predict_proba")
    assert not hasattr(StreamClassifier(loss="hinge"), "predict_log_proba")


def test_logarithms_of_probabilities_are_finite() -> None:
    X, y = load_wine(return_X_y=True)
    for labels in (y, y == 1):
        fitted = StreamClassifier().fit(X, labels)
        assert np.allclose(np.exp(fitted.predict_log_proba(X)), fitted.predict_proba(X))
    certain = StreamClassifier(lr=0.1, shuffle=False).fit(1e5 * np.eye(2), [0, 1])
    assert (certain.predict_proba(1e5 * np.eye(2)) == 0.0).any()
    assert np.isfinite(certain.predict_log_proba(1e5 * np.eye(2))).all()


def test_probabilities_that_all_underflow_are_equal() -> None:
    X, y = load_iris(return_X_y=True)
    model = StreamClassifier(lr=1.0, random_state=0).fit(1e6 * X, y)
    p = model.predict_proba(1e6 * np.concatenate([X, -X]))
    assert (p == 1.0 / 3.0).all(axis=1).any()
    assert np.allclose(p.sum(axis=1), 1.0)


def test_parameters_of_scikit_learn_have_a_remedy() -> None:
    """Those of its linear models, whose names learners may have with another meaning."""
    here = StreamClassifier().get_params(deep=False)
    for kind in (LogisticRegression, SGDClassifier, SGDRegressor):
        for name in set(kind().get_params()) - set(here) - {"average"}:  # learners have it, too
            with pytest.raises(TypeError, match=rf"argument '{name}': [a-z].+"):
                StreamClassifier(**{name: 1})


def test_classes_of_learners_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"got its class; give model=FTRLClassifier\(\)"):
        StreamClassifier(streaml1.FTRLClassifier).fit(np.eye(2), [0, 1])


def test_errors_show_labels_without_their_type() -> None:
    with pytest.raises(ValueError, match=r"got 1 class: 3$"):
        StreamClassifier().fit(np.eye(2), [3, 3])
    with pytest.raises(ValueError, match=r"^classes must have at least 2 .* got 1 class: 3$"):
        StreamClassifier().partial_fit(np.eye(2), [3, 3], classes=[3])
    model = StreamClassifier().fit(np.eye(2), [0, 1])
    with pytest.raises(ValueError, match=r"y has the label 6, which is not in classes"):
        model.partial_fit(np.eye(2), [0, 6])


def test_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("streaml1.sklearn", "streaml1.sklearn.estimators"):
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(ImportError, match="pip install 'streaml1\\[sklearn\\]'"):
        importlib.import_module("streaml1.sklearn")


# Learning


def test_fit_is_learn_many(cancer: tuple[Any, Any]) -> None:
    X, y = cancer
    fitted = StreamClassifier(streaml1.FTRLClassifier(), l1=0.5, shuffle=False).fit(X, y)
    model = streaml1.FTRLClassifier(l1=0.5)
    model.learn_many(X, y)
    assert fitted.model_.weights == model.weights


@pytest.mark.parametrize("model", [None, streaml1.SoftmaxClassifier(), streaml1.FTRLClassifier()])
def test_predicts_as_the_saved_model(model: Any, tmp_path: Path) -> None:
    X, y = make_classification(400, 50, n_informative=5, flip_y=0.2, random_state=1)
    fitted = StreamClassifier(model, shuffle=False).fit(X, y)
    fitted.model_.save(tmp_path / "m")
    expected = streaml1.load(tmp_path / "m").freeze().predict_proba_many(X)
    assert np.array_equal(fitted.predict_proba(X), expected)
    if model is None:  # while it learns, it predicts with a mixture
        assert not np.array_equal(fitted.model_.predict_proba_many(X), expected)


@pytest.mark.parametrize("loss", ["squared", "poisson", "quantile"])
def test_regressor_predicts_as_the_frozen_model(loss: str) -> None:
    X, y = load_diabetes(return_X_y=True)
    fitted = StreamRegressor(streaml1.ElasticNetRegressor(loss=loss), random_state=0).fit(X, y)
    assert np.array_equal(fitted.predict(X), fitted.model_.freeze().predict_many(X))


def test_one_learner_per_class() -> None:
    X, y = load_wine(return_X_y=True)
    fitted = StreamClassifier(shuffle=False).fit(X, y)
    rest = [streaml1.ElasticNetClassifier() for _ in range(3)]
    for label, model in enumerate(rest):
        model.learn_many(X, y == label)
    p = np.stack([model.freeze().predict_proba_many(X)[:, 1] for model in rest], axis=1)
    assert fitted.predict_proba(X) == pytest.approx(p / p.sum(axis=1)[:, None])
    assert np.array_equal(fitted.predict(X), p.argmax(axis=1))
    assert np.array_equal(fitted.decision_function(csr_array(X)), fitted.decision_function(X))
    with pytest.raises(AttributeError, match="use models_"):
        fitted.model_  # noqa: B018


@pytest.mark.parametrize("through", ["pickle", "joblib"])
def test_copies_learn_bit_identically(through: str, tmp_path: Path) -> None:
    X, y = load_wine(return_X_y=True)
    model = StreamClassifier(random_state=0).fit(X, y)
    if through == "pickle":
        copy = pickle.loads(pickle.dumps(model))
    else:
        joblib.dump(model, tmp_path / "model")
        copy = joblib.load(tmp_path / "model")
    for each in (model, copy):
        each.partial_fit(X[:50], y[:50])
    assert np.array_equal(model.predict_proba(X), copy.predict_proba(X))


# Data frames


@pytest.mark.parametrize("frame", FRAMES)
def test_frames_of_numbers_are_matrices(frame: Any) -> None:
    X, y = load_iris(return_X_y=True)
    names = ["a", "b", "c", "d"]
    fitted = StreamClassifier(random_state=0).fit(frame(dict(zip(names, X.T, strict=True))), y)
    assert fitted.feature_names_in_.tolist() == names
    assert np.array_equal(fitted.coef_, StreamClassifier(random_state=0).fit(X, y).coef_)


def visits(frame: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    site = rng.choice(["news", "mail", "chat"], 300)
    X = frame({"site": site, "price": rng.random(300)})
    return X, site == "news"


@pytest.mark.parametrize("frame", FRAMES)
def test_missing_numbers_in_frames_are_absent(frame: Any) -> None:
    full = {"age": [31.0, 0.0, 54.0, 40.0] * 20, "visits": [0, 3, 1, 2] * 20}
    holes = {"age": [31.0, None, 54.0, 40.0] * 20, "visits": [None, 3, 1, 2] * 20}
    y = [0, 1, 0, 1] * 20
    known = StreamClassifier(random_state=0).fit(frame(full), y)
    model = StreamClassifier(random_state=0).fit(frame(holes), y)
    X = frame(holes)
    assert (model.predict_proba(X) == known.predict_proba(frame(full))).all()
    with pytest.raises(ValueError, match="infinity"):
        model.predict(frame({"age": [np.inf], "visits": [1]}))
    with pytest.raises(ValueError, match="contains NaN"):  # arrays follow scikit-learn
        StreamClassifier().fit(np.array([[np.nan], [1.0]]), [0, 1])


@pytest.mark.parametrize("frame", FRAMES)
def test_strings_in_frames_are_categories(frame: Any) -> None:
    X, y = visits(frame)
    fitted = StreamClassifier(shuffle=False).fit(X, y)
    model = streaml1.ElasticNetClassifier()
    model.learn_many(X, y)
    assert fitted.model_.weights == model.weights and "site=news" in model.weights
    assert (fitted.n_features_in_, fitted.feature_names_in_.tolist()) == (2, ["site", "price"])
    assert fitted.predict_proba(X)[:, 1].tolist() == [
        *np.asarray(model.predict_proba_many(X))[:, 1]
    ]
    assert StreamClassifier(random_state=0).fit(X, y).score(X, y) == 1.0
    fitted.partial_fit(X, y)
    assert fitted.model_.n_iterations == 600


def test_streams_are_frames() -> None:
    frame = pl.DataFrame({"site": ["news", "mail"] * 10, "price": range(20)})
    y = [0, 1, 1, 0] * 5
    expected = StreamClassifier(random_state=0).fit(frame, y).decision_function(frame)
    for X in (frame.lazy(), frame.to_arrow().to_batches()[0]):
        model = StreamClassifier(random_state=0).fit(X, y)
        assert np.array_equal(model.decision_function(X), expected)
        assert [*model.feature_names_in_] == ["site", "price"]


def test_text_in_matrices_is_rejected_with_a_remedy() -> None:
    texts = ["cheap pills", "see you"]
    for X in (texts, pd.Series(texts), np.array(texts)[:, None]):
        with pytest.raises(ValueError, match="string to float: .*; give a data frame, whose col"):
            StreamClassifier().fit(X, [0, 1])


@pytest.mark.parametrize("frame", FRAMES)
def test_columns_that_were_numbers_in_fit(frame: Any) -> None:
    """A later batch may hold text, or times, which numpy would make numbers of."""
    model = StreamClassifier().fit(frame({"a": [1, 2], "b": [1.5, 2.5]}), [0, 1])
    text = frame({"a": [1, 2], "b": ["x", "y"]})
    with pytest.raises(ValueError, match="float: 'x'; column 'b' of X was a number in fit: conv"):
        model.predict(text)
    with pytest.raises(ValueError, match="column 'b' of X was a number in fit: convert it"):
        model.partial_fit(text, [0, 1])
    with pytest.raises(ValueError, match="string to float: 'x'; X was a matrix of numbers in fit"):
        StreamClassifier().fit(np.eye(1, 2).T, [0, 1]).predict([["x"]])
    days = [datetime(2026, 1, 31), datetime(2026, 2, 1)]
    times = StreamClassifier().fit(frame({"at": [1, 2]}), [0, 1])
    with pytest.raises(ValueError, match="column 'at' of X is of type Datetime.* convert it"):
        times.predict(frame({"at": days}))


def test_types_that_are_neither_numbers_nor_text_are_named() -> None:
    X = pd.DataFrame({"at": pd.period_range("2026-01-31", periods=2)})
    with pytest.raises(ValueError, match="of 'at' is a Period; values are numbers, strings"):
        StreamClassifier().fit(X, [0, 1])


def test_sparse_columns_next_to_text() -> None:
    X = pd.DataFrame({"clicks": pd.arrays.SparseArray([0.0, 1.0]), "site": ["news", "mail"]})
    fitted = StreamClassifier(shuffle=False).fit(X, [0, 1])
    assert sorted(fitted.model_.weights) == ["clicks", "site=mail", "site=news"]


def test_frames_without_rows_are_rejected() -> None:
    frame = pl.DataFrame({"site": ["news", "mail"]})
    with pytest.raises(ValueError, match="X must have at least one row"):
        StreamClassifier().fit(frame[:0], [])
    with pytest.raises(ValueError, match="X must have at least one row"):
        StreamClassifier().fit(frame, [0, 1]).predict(frame[:0])


def test_categories_and_text_of_a_regressor_and_many_classes() -> None:
    X, y = visits(pd.DataFrame)
    X["site"] = X["site"].astype("category")
    regressor = StreamRegressor(epochs=5, random_state=0).fit(X, y.astype(float))
    assert regressor.score(X, y) > 0.9
    sites = StreamClassifier(random_state=0).fit(X, X["site"].astype(str))
    assert sites.score(X, X["site"].astype(str)) == 1.0


def test_crosses_learn_frames_of_numbers_by_name() -> None:
    X = pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, 3.0]})
    model = streaml1.ElasticNetClassifier(lr=0.1, cross=[("a", "b")])
    fitted = StreamClassifier(model, shuffle=False).fit(X, [0, 1])
    assert len(fitted.model_.weights) == 3


def test_frames_with_strings_have_no_coefficients_and_stay_frames() -> None:
    X, y = visits(pd.DataFrame)
    fitted = StreamClassifier().fit(X, y)
    with pytest.raises(AttributeError, match="coef_ requires numeric columns"):
        fitted.coef_  # noqa: B018
    with pytest.raises(ValueError, match="X must be a data frame, as in fit, got an ndarray"):
        fitted.predict(np.eye(2))
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(X.rename(columns={"site": "page"}))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fitted.fit(X, y[1:])


# Coefficients


@pytest.mark.parametrize(
    "model",
    [streaml1.ElasticNetClassifier(lr=0.1), streaml1.FTRLClassifier(alpha=0.1, hash_bits=8)],
)
def test_coefficients_of_two_classes_yield_the_decision_function(
    model: Any, cancer: tuple[Any, Any]
) -> None:
    X, y = cancer
    fitted = StreamClassifier(model, random_state=0).fit(X, y)
    assert fitted.coef_.shape == (1, 30)
    margins = X @ fitted.coef_[0] + fitted.intercept_[0]
    assert margins == pytest.approx(fitted.decision_function(X))


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize(
    "model", [streaml1.SoftmaxClassifier(lr=0.1), streaml1.ElasticNetClassifier(lr=0.1)]
)
def test_coefficients_of_many_classes_yield_the_decision_function(model: Any, k: int) -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[y < k], y[y < k]
    fitted = StreamClassifier(model, random_state=0).fit(X, y)
    assert fitted.coef_.shape == ((1, 4) if k == 2 else (3, 4))
    margins = X @ fitted.coef_.T + fitted.intercept_
    assert (margins[:, 0] if k == 2 else margins) == pytest.approx(fitted.decision_function(X))


def test_coefficients_of_a_regressor_yield_the_predictions() -> None:
    X, y = load_iris(return_X_y=True)
    fitted = StreamRegressor(streaml1.ElasticNetRegressor(lr=0.01), random_state=0).fit(X, y)
    assert fitted.coef_.shape == (4,)
    assert X @ fitted.coef_ + fitted.intercept_ == pytest.approx(fitted.predict(X))


# The table of docs/from-scikit-learn.md

ALPHA, ETA = 0.1, 1e-3
RATES = [
    ({"learning_rate": "constant"}, "constant"),
    ({"learning_rate": "invscaling", "power_t": 0.5}, "invsqrt"),
]
SAME_ORDER = {"eta0": ETA, "fit_intercept": False, "shuffle": False, "max_iter": 1, "tol": None}


@pytest.mark.parametrize(("rate", "schedule"), RATES)
@pytest.mark.parametrize(("loss", "theirs"), [("logistic", "log_loss"), ("hinge", "hinge")])
def test_parameters_of_sgd_classifier(
    rate: dict[str, Any], schedule: str, loss: str, theirs: str, cancer: tuple[Any, Any]
) -> None:
    X, y = cancer
    sgd = SGDClassifier(loss=theirs, alpha=ALPHA, **rate, **SAME_ORDER).fit(X, y)
    model = streaml1.ElasticNetClassifier(lr=ETA, schedule=schedule, intercept_lr=0.0)
    here = StreamClassifier(model, loss=loss, l2=ALPHA, shuffle=False).fit(X, y)
    assert here.coef_ == pytest.approx(sgd.coef_, rel=1e-2, abs=1e-4)


def test_parameters_of_sgd_regressor(cancer: tuple[Any, Any]) -> None:
    X, y = cancer
    sgd = SGDRegressor(alpha=ALPHA, learning_rate="constant", **SAME_ORDER).fit(X, y)
    model = streaml1.ElasticNetRegressor(lr=ETA, schedule="constant", intercept_lr=0.0)
    here = StreamRegressor(model, l2=ALPHA, shuffle=False).fit(X, y)
    assert here.coef_ == pytest.approx(sgd.coef_, rel=1e-2, abs=1e-4)


def test_elastic_net_of_sgd_classifier(cancer: tuple[Any, Any]) -> None:
    X, y = cancer
    sgd = SGDClassifier(
        loss="log_loss", penalty="elasticnet", alpha=ALPHA, l1_ratio=0.3,
        learning_rate="constant", **SAME_ORDER,
    ).fit(X, y)  # fmt: skip
    model = streaml1.ElasticNetClassifier(lr=ETA, schedule="constant", intercept_lr=0.0)
    here = StreamClassifier(model, l1=ALPHA * 0.3, l2=ALPHA * 0.7, shuffle=False).fit(X, y)
    # scikit-learn accumulates l1 (Tsuruoka et al. 2009), which holds small weights at zero longer.
    assert here.coef_ == pytest.approx(sgd.coef_, abs=1e-2)
    assert abs(sgd.coef_).max() > 0.1


def test_c_of_logistic_regression(cancer: tuple[Any, Any]) -> None:
    X, y = cancer
    C = 0.1
    theirs = LogisticRegression(C=C, fit_intercept=False, tol=1e-10).fit(X, y)
    ours = solvers.fista(X, np.where(y == 1, 1, -1), l2=1 / (C * len(y)), tol=1e-10)
    assert ours.weights == pytest.approx(theirs.coef_[0], abs=1e-4)
