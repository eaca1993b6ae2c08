"""A classifier and a regressor of scikit-learn around any learner."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from streaml1.core.rows import shown
from streaml1.models.elastic_net import ElasticNetClassifier, ElasticNetRegressor
from streaml1.models.output_buffer import predict_output_rows
from streaml1.models.parameters import Integer
from streaml1.models.softmax import SoftmaxClassifier

__all__ = ["StreamClassifier", "StreamRegressor"]

EPOCHS = Integer(1, 2**31)


class _StreamEstimator(BaseEstimator):  # type: ignore[misc]
    def __init__(
        self,
        model: Any = None,
        *,
        l1: float | None = None,
        l2: float | None = None,
        epochs: int = 1,
        shuffle: bool = True,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.l1 = l1
        self.l2 = l2
        self.epochs = epochs
        self.shuffle = shuffle
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _checked(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Any, Any, Any]:
        numeric = isinstance(self, RegressorMixin)
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=np.float64, reset=reset, y_numeric=numeric
        )
        w = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        return X, y, w

    def _matrix(self, X: Any) -> Any:
        check_is_fitted(self, "model_")
        return validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)

    def _new_model(self, default: Any) -> Any:
        """Return an untrained learner with the parameters of this estimator."""
        model = default if self.model is None else self.model
        names = {"l1": "strength"} if isinstance(model, SoftmaxClassifier) else {}
        given = {"l1": self.l1, "l2": self.l2}
        params = {
            names.get(name, name): value for name, value in given.items() if value is not None
        }
        for name in params:
            if name not in model._parameters():
                raise ValueError(f"{type(model).__name__} has no parameter {name}; leave it None")
        return model.clone(params or None)

    def _weights(self) -> tuple[Any, Any]:
        """Return the weights of the columns and the intercepts: shapes (k, d) and (k,)."""
        check_is_fitted(self, "model_")
        model, d = self.model_, self.n_features_in_
        slots = [*(range(d) if model.hash_bits is None else map(model.slot, range(d)))]
        weights = model.weights
        if not isinstance(model, SoftmaxClassifier):
            row = np.array([weights.get(slot, 0.0) for slot in slots])
            return row[None], np.array([model.intercept])
        labels = model.classes_met
        rows = [[weights.get(slot, {}).get(label, 0.0) for slot in slots] for label in labels]
        return np.array(rows), np.array([*model.intercept.values()])

    def _learn_epochs(self, X: Any, y: Any, w: Any) -> None:
        epochs, n = EPOCHS("epochs", self.epochs), X.shape[0]
        rng = check_random_state(self.random_state)
        for _ in range(epochs):
            order = rng.permutation(n) if self.shuffle else np.arange(n)
            self.model_.learn_many(X[order], y[order], w[order])
        self.n_iter_ = epochs


class StreamClassifier(ClassifierMixin, _StreamEstimator):  # type: ignore[misc]
    """A classifier of scikit-learn that learns online.

    Parameters
    ----------
    model
        A classifier of streaml1, whose parameters are used; it is never trained itself. None means
        `ElasticNetClassifier()` for two classes and `SoftmaxClassifier(strength=0)` for more.
    l1, l2
        Strength of the penalties; None leaves those of the model.
    epochs
        Number of passes of `fit`.
    shuffle
        Whether `fit` shuffles the rows before each pass. `partial_fit` keeps their order.
    random_state
        Seed of the shuffling.

    Attributes
    ----------
    model_
        The trained learner.
    classes_
        The labels, sorted.
    n_iter_
        Number of passes.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from streaml1.sklearn import StreamClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> StreamClassifier(epochs=5, random_state=0).fit(X, y).score(X, y) > 0.9
    True
    """

    def _start(self, classes: Any) -> None:
        if len(classes) < 2:
            raise ValueError(f"y must have at least 2 classes, got 1 class: {classes[0]!r}")
        many = len(classes) > 2
        model = self._new_model(SoftmaxClassifier(strength=0.0) if many else ElasticNetClassifier())
        if isinstance(model, SoftmaxClassifier):
            model = model.clone({"classes": range(len(classes))})
        elif many:
            raise ValueError(
                f"{type(model).__name__} supports 2 classes, got {len(classes)}; use "
                "model=SoftmaxClassifier()"
            )
        self.model_ = model

    def _positions(self, y: Any) -> Any:
        known = np.isin(y, self.classes_)
        if not known.all():
            raise ValueError(f"y has the label {shown(y[~known][0])}, which is not in classes")
        return np.searchsorted(self.classes_, y)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn a matrix from scratch."""
        X, y, w = self._checked(X, y, sample_weight, True)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        self._start(self.classes_)
        self._learn_epochs(X, self._positions(y), w)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows, in their order; the first call needs the list of all classes."""
        first = not hasattr(self, "model_")
        X, y, w = self._checked(X, y, sample_weight, first)
        check_classification_targets(y)
        if _check_partial_fit_first_call(self, classes):
            self._start(self.classes_)
        self.model_.learn_many(X, self._positions(y), w)
        self.n_iter_ = 1
        return self

    @property
    def coef_(self) -> Any:
        """The weights of the columns, shape (1, d) for two classes and (k, d) for more.

        With `lr="auto"`, the default for two classes, they are those of the published model, which
        only approximate `decision_function`: the margins that are mixed there are clipped.
        """
        coef = self._weights()[0]
        return coef[1:] - coef[:1] if len(coef) == 2 else coef

    @property
    def intercept_(self) -> Any:
        """The intercepts, shape (1,) for two classes and (k,) for more."""
        intercept = self._weights()[1]
        return intercept[1:] - intercept[:1] if len(intercept) == 2 else intercept

    def decision_function(self, X: Any) -> Any:
        """Return margins, shape (n,) for two classes and (n, k) for more."""
        X = self._matrix(X)
        if not isinstance(self.model_, SoftmaxClassifier):
            return self.model_._margins(X)
        state = self.model_._state
        with state.exclusive():
            margins = predict_output_rows(state, state.batch(X), margins=True)[1]
        return margins[:, 1] - margins[:, 0] if len(self.classes_) == 2 else margins

    def predict(self, X: Any) -> Any:
        """Return the label of each row."""
        margins = self.decision_function(X)
        best = (margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)
        return self.classes_[best]

    def _is_logistic(self) -> bool:
        model = getattr(self, "model_", self.model)
        if model is not None and model.loss != "logistic":
            raise AttributeError("probabilities require the logistic loss")
        return True

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, shape (n, k)."""
        X = self._matrix(X)
        return self.model_.predict_proba_many(X)


class StreamRegressor(RegressorMixin, _StreamEstimator):  # type: ignore[misc]
    """A regressor of scikit-learn that learns online.

    Parameters
    ----------
    model
        A regressor of streaml1, whose parameters are used; it is never trained itself. None means
        `ElasticNetRegressor()`.
    l1, l2, epochs, shuffle, random_state
        See `StreamClassifier`.

    Attributes
    ----------
    model_
        The trained learner.
    n_iter_
        Number of passes.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn a matrix from scratch."""
        X, y, w = self._checked(X, y, sample_weight, True)
        self.model_ = self._new_model(ElasticNetRegressor())
        self._learn_epochs(X, y, w)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn more rows, in their order."""
        first = not hasattr(self, "model_")
        X, y, w = self._checked(X, y, sample_weight, first)
        if first:
            self.model_ = self._new_model(ElasticNetRegressor())
        self.model_.learn_many(X, y, w)
        self.n_iter_ = 1
        return self

    def predict(self, X: Any) -> Any:
        """Return the predicted value of each row."""
        X = self._matrix(X)
        return self.model_.predict_many(X)

    @property
    def coef_(self) -> Any:
        """The weights of the columns, shape (d,); see `StreamClassifier.coef_`."""
        return self._weights()[0][0]

    @property
    def intercept_(self) -> Any:
        """The intercept, shape (1,)."""
        return self._weights()[1]
