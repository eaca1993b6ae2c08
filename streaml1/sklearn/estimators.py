"""A classifier and a regressor of scikit-learn around any learner."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _check_partial_fit_first_call, check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from streaml1.core.option_fields import unexpected_option
from streaml1.core.rows import shown, shown_type
from streaml1.features.arrow_frames import as_frame
from streaml1.features.batch import is_frame, to_narwhals
from streaml1.features.matrices import as_csr
from streaml1.models.base import OnlineModel, OnlineRegressor
from streaml1.models.elastic_net import ElasticNetClassifier, ElasticNetRegressor
from streaml1.models.output_buffer import predict_output_rows
from streaml1.models.parameter_checks import Boolean, Integer
from streaml1.models.parameters import parameters_of
from streaml1.models.registry import LEARNERS
from streaml1.models.softmax import SoftmaxClassifier
from streaml1.models.state.dict_predictions import margins_of
from streaml1.models.state.locking import published

__all__ = ["StreamClassifier", "StreamRegressor"]

EPOCHS, SHUFFLE = Integer(1, 2**31), Boolean()
NESTED = "model__"
TINY = np.finfo(float).tiny

PENALTIES = "set l1=alpha * l1_ratio and l2=alpha * (1 - l1_ratio), the strengths of the penalties"
RATES = "set lr, or leave it out: the default needs no learning rate"
PASSES = "set epochs, the number of passes; early stopping is not supported"
NO_EFFECT = "leave it out: it has no counterpart"

REMEDIES = {
    "alpha": f"{PENALTIES}; for the rate of FTRL, pass model=FTRL{{task}}(alpha=...)",
    "penalty": f"{PENALTIES}; for that of softmax, pass model=SoftmaxClassifier(penalty=...)",
    "l1_ratio": PENALTIES,
    "C": "set l2=1 / (C * n) for n examples",
    "class_weight": (
        "give fit sample_weight=sklearn.utils.class_weight.compute_sample_weight(class_weight, y)"
    ),
    **dict.fromkeys(["learning_rate", "eta0", "power_t"], RATES),
    **dict.fromkeys(
        ["max_iter", "n_iter", "tol", "early_stopping", "n_iter_no_change", "validation_fraction"],
        PASSES,
    ),
    "fit_intercept": "to have none, pass model=ElasticNet{task}(intercept_lr=0)",
    "warm_start": "call partial_fit, which continues from what was learnt",
    "multi_class": "for one model of all classes, pass model=SoftmaxClassifier()",
    "epsilon": "pass model=ElasticNetRegressor(huber_delta=...)",
    **dict.fromkeys(["solver", "dual", "n_jobs", "verbose", "intercept_scaling"], NO_EFFECT),
}
"""What to do instead of giving a parameter of scikit-learn's linear models."""


class _StreamEstimator(BaseEstimator):  # type: ignore[misc]
    _default: type[OnlineModel]
    """The class of the learner that `model=None` means."""

    def __init__(
        self,
        model: Any = None,
        *,
        loss: str | None = None,
        lr: Any = None,
        l1: float | None = None,
        l2: float | None = None,
        epochs: int = 1,
        shuffle: bool = True,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.loss = loss
        self.lr = lr
        self.l1 = l1
        self.l2 = l2
        self.epochs = epochs
        self.shuffle = shuffle
        self.random_state = random_state

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" not in vars(cls):
            cls.__init__ = _named_constructor(cls)  # type: ignore[method-assign]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; with `deep`, those of the model too, as `model__l1`."""
        params: dict[str, Any] = super().get_params(deep)
        if deep and isinstance(self.model, OnlineModel):
            params |= {NESTED + name: value for name, value in self.model._parameters().items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; `model__l1=...` replaces the model by a copy with another `l1`."""
        nested = {
            name.removeprefix(NESTED): params.pop(name)
            for name in [*params]
            if name.startswith(NESTED)
        }
        super().set_params(**params)
        if nested and self.model is None:
            name, default = next(iter(nested)), type(self)._default.__name__
            own = f"set {name} instead, or pass" if name in super().get_params(False) else "pass"
            raise ValueError(
                f"model is None, so {NESTED}{name} is unknown: {own} model={default}()"
            )
        if nested:
            self.model = _with(self.model, nested, NESTED)
        return self

    def _new_model(self) -> Any:
        """Return an untrained learner with the parameters of this estimator."""
        model = self._default() if self.model is None else self.model
        is_regressor = isinstance(self, RegressorMixin)
        if isinstance(model, OnlineModel) and isinstance(model, OnlineRegressor) != is_regressor:
            kind = "regressor" if is_regressor else "classifier"
            raise ValueError(f"model must be a {kind} of streaml1, got {shown(model)}")
        l1 = "strength" if isinstance(model, SoftmaxClassifier) else "l1"
        given = {"loss": self.loss, "lr": self.lr, l1: self.l1, "l2": self.l2}
        return _with(model, {name: value for name, value in given.items() if value is not None})

    # Input: matrices, whose columns are the features, or frames that are learnt by column name

    def _checked(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Any, Any, Any]:
        numeric = isinstance(self, RegressorMixin)
        X = as_frame(X)
        if reset:
            self._reads_names = self._needs_names(X)
        if self._reads_names:
            X = self._frame(X, reset)
            y = _check_y(y, y_numeric=numeric, estimator=self)
            check_consistent_length(X, y)
        else:
            with _other_types_rejected(X, is_fitted=not reset):
                X, y = validate_data(
                    self, X, y, reset=reset, y_numeric=numeric, **_matrix_checks(X)
                )
            X = _without_missing(X)
        return X, y, _check_sample_weight(sample_weight, X, ensure_non_negative=True)

    def _input(self, X: Any) -> Any:
        check_is_fitted(self, "models_")
        X = as_frame(X)
        if self._reads_names:
            return self._frame(X, False)
        with _other_types_rejected(X, is_fitted=True):
            X = validate_data(self, X, reset=False, **_matrix_checks(X))
        return _without_missing(X)

    def _needs_names(self, X: Any) -> bool:
        if not is_frame(X):
            return False
        if getattr(self.model, "cross", None) or getattr(self.model, "text", None):
            return True
        return _other_column(X) is not None

    def _frame(self, X: Any, reset: bool) -> Any:
        if not is_frame(X):
            raise ValueError(f"X must be a data frame, as in fit, got {shown_type(X)}")
        if len(X) == 0:
            raise ValueError("X must have at least one row, got none")
        return validate_data(self, X, skip_check_array=True, reset=reset)

    # Learners

    @property
    def model_(self) -> Any:
        """The trained learner, if it is a single one."""
        check_is_fitted(self, "models_")
        if len(self.models_) > 1:
            raise AttributeError("there is one learner for each class; use models_")
        return self.models_[0]

    def _learn(self, X: Any, y: Any, w: Any) -> None:
        self.models_[0].learn_many(X, y, w)

    def _learn_epochs(self, X: Any, y: Any, w: Any) -> None:
        epochs, n = EPOCHS("epochs", self.epochs), len(y)
        shuffle = SHUFFLE("shuffle", self.shuffle)
        rng = check_random_state(self.random_state)
        rows = to_narwhals(X) if self._reads_names else X
        for _ in range(epochs):
            order = rng.permutation(n) if shuffle else np.arange(n)
            part = rows[order]
            self._learn(part.to_native() if self._reads_names else part, y[order], w[order])
        self.n_iter_ = epochs

    def _weights(self) -> tuple[Any, Any]:
        """Return the weights of the columns and the intercepts: shapes (k, d) and (k,)."""
        check_is_fitted(self, "models_")
        if self._reads_names:
            raise AttributeError("coef_ requires numeric columns; use model_.weights")
        first, columns = self.models_[0], range(self.n_features_in_)
        slots = [*(columns if first.hash_bits is None else map(first.slot, columns))]
        if isinstance(first, SoftmaxClassifier):
            rows = first.weights
            coef = [
                [rows.get(slot, {}).get(label, 0.0) for slot in slots]
                for label in first.classes_met
            ]
            return np.array(coef), np.array([*first.intercept.values()])
        weights = [model.weights for model in self.models_]
        coef = [[row.get(slot, 0.0) for slot in slots] for row in weights]
        return np.array(coef), np.array([model.intercept for model in self.models_])


def _named_constructor(kind: type[_StreamEstimator]) -> Callable[..., None]:
    """Return the inherited constructor of a class, whose errors name that class."""
    inherited = kind.__init__

    @functools.wraps(inherited)
    def __init__(self: Any, *args: Any, **arguments: Any) -> None:  # noqa: N807
        if len(args) > 1:
            raise TypeError(
                f"{kind.__name__}() takes one positional argument, model, got {len(args)}; give "
                "the others by name"
            )
        for name in arguments:
            if name not in kind._get_param_names():
                raise _unexpected_parameter(kind, name)
        inherited(self, *args, **arguments)

    __init__.__qualname__ = f"{kind.__qualname__}.__init__"
    __init__.__module__ = kind.__module__
    return __init__


def _unexpected_parameter(kind: type[_StreamEstimator], name: str) -> TypeError:
    """Return the error for an unknown parameter: of scikit-learn's models, or of a learner."""
    task = "regression" if issubclass(kind, RegressorMixin) else "classification"
    if name in REMEDIES:
        remedy = REMEDIES[name].format(task="Regressor" if task == "regression" else "Classifier")
        return TypeError(f"{kind.__name__}() got an unexpected keyword argument {name!r}: {remedy}")
    for learner in LEARNERS.values():
        if task in learner.classes and name in parameters_of(learner.parameters):
            return TypeError(
                f"{kind.__name__}() got an unexpected keyword argument {name!r}: it belongs to "
                f"learners; pass model={learner.classes[task]}({name}=...)"
            )
    return unexpected_option(kind.__name__, name, kind._get_param_names())


def _with(model: Any, params: dict[str, Any], prefix: str = "") -> Any:
    """Return an untrained copy of a learner with other parameters."""
    if not isinstance(model, OnlineModel):
        purpose = f" to set {prefix}{next(iter(params))}" if prefix else ""
        if isinstance(model, type) and issubclass(model, OnlineModel):
            raise ValueError(
                f"model must be a learner of streaml1{purpose}, got its class; give "
                f"model={model.__name__}()"
            )
        raise ValueError(f"model must be a learner of streaml1{purpose}, got {shown(model)}")
    for name in params:
        if name not in model._parameters():
            raise ValueError(f"{type(model).__name__} has no parameter {name}; leave it out")
    return model.clone(params or None)


def _matrix_checks(X: Any) -> dict[str, Any]:
    """Return the arguments of `validate_data` for a matrix; only a frame may lack values."""
    finite = "allow-nan" if is_frame(X) else True
    return {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": finite}


def _other_column(X: Any) -> tuple[str, Any] | None:
    """Return name and type of the first column of a frame that is not numeric, or None."""
    for series in to_narwhals(X).iter_columns():
        kind = series.dtype
        # Narwhals does not know the type of a sparse column of pandas.
        is_sparse = str(kind) == "Unknown" and hasattr(series.to_native(), "sparse")
        if not (kind.is_numeric() or str(kind) == "Boolean" or is_sparse):
            return shown(series.name), kind
    return None


@contextmanager
def _other_types_rejected(X: Any, *, is_fitted: bool) -> Iterator[None]:
    """Say what to do with text in a matrix, and with columns that were numbers in `fit`.

    numpy makes a number of a time, in a unit that depends on the library of the frame.
    """
    column = _other_column(X) if is_fitted and is_frame(X) else None
    if column is not None and column[1].is_temporal():
        raise ValueError(
            f"column {column[0]} of X is of type {column[1]}, but was a number in fit; convert it"
        )
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("could not convert string to float"):
            raise
        if column is not None:
            remedy = f"column {column[0]} of X was a number in fit: convert it"
        elif is_fitted:
            remedy = "X was a matrix of numbers in fit"
        else:
            remedy = "give a data frame, whose columns of text are categories, or raw text if the "
            remedy += "model has text=[...]"
        raise ValueError(f"{error}; {remedy}") from error


def _without_missing(X: Any) -> Any:
    """Return a numpy or CSR matrix whose missing values are absent, as they are in any frame."""
    if isinstance(X, np.ndarray):
        return np.where(np.isnan(X), 0.0, X)
    X = X.copy()
    X.data = np.where(np.isnan(X.data), 0.0, X.data)
    return X


def _outputs(model: Any, X: Any, response: bool) -> Any:
    """Return the margins or responses of the published model: (n,), or (n, k) for softmax.

    An estimator that is fitted is what `save` and `freeze` would keep.
    """
    with published(model._state) as predictor:
        if isinstance(model, SoftmaxClassifier):
            batch = predictor.batch(X)
            return predict_output_rows(predictor, batch, margins=not response)[1]
        return margins_of(predictor, X, response)


class StreamClassifier(ClassifierMixin, _StreamEstimator):  # type: ignore[misc]
    """A classifier of scikit-learn that learns online.

    For more than two classes, one learner per class separates it from the rest, unless the model is
    a `SoftmaxClassifier`. Missing values of a data frame are absent features; those of an array are
    rejected, as usual in scikit-learn.

    Parameters
    ----------
    model
        A classifier of streaml1, whose parameters are used; it is never trained itself. None means
        `ElasticNetClassifier()`.
    loss, lr, l1, l2
        Parameters of the model that replace its own unless None. `l1` is the `strength` of softmax.
        Any other is set as `model__name` by `set_params` and in grids.
    epochs
        Number of passes of `fit`.
    shuffle
        Whether `fit` shuffles the rows before each pass. `partial_fit` keeps their order.
    random_state
        Seed of the shuffling.

    Attributes
    ----------
    models_
        The trained learners: one, or one per class.
    classes_
        The labels, sorted.
    n_features_in_
        Number of columns.
    feature_names_in_
        Names of the columns, if X was a data frame.
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

    _default = ElasticNetClassifier

    def _start(self, classes: Any, source: str) -> None:
        k = len(classes)
        if k < 2:
            raise ValueError(
                f"{source} must have at least 2 classes, got 1 class: {shown(classes[0])}"
            )
        model = self._new_model()
        if isinstance(model, SoftmaxClassifier):
            self.models_ = [model.clone({"classes": range(k)})]
        else:
            self.models_ = [model.clone() for _ in range(k if k > 2 else 1)]

    def _positions(self, y: Any) -> Any:
        known = np.isin(y, self.classes_)
        if not known.all():
            raise ValueError(f"y has the label {shown(y[~known][0])}, which is not in classes")
        return np.searchsorted(self.classes_, y)

    def _learn(self, X: Any, y: Any, w: Any) -> None:
        if len(self.models_) == 1:
            return super()._learn(X, y, w)
        if not self._reads_names:
            X = as_csr(X)  # once for all learners
        for position, model in enumerate(self.models_):
            model.learn_many(X, y == position, w)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn a matrix or a data frame from scratch."""
        X, y, w = self._checked(X, y, sample_weight, True)
        check_classification_targets(y)
        self.classes_ = np.unique(y)
        self._start(self.classes_, "y")
        self._learn_epochs(X, self._positions(y), w)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows, in their order; the first call needs the list of all classes."""
        X, y, w = self._checked(X, y, sample_weight, not hasattr(self, "models_"))
        check_classification_targets(y)
        if _check_partial_fit_first_call(self, classes) or not hasattr(self, "models_"):
            self._start(self.classes_, "classes")
        self._learn(X, self._positions(y), w)
        self.n_iter_ = 1
        return self

    @property
    def coef_(self) -> Any:
        """The weights of the columns, shape (1, d) for two classes and (k, d) for more.

        With `lr="auto"`, the default, they only approximate `decision_function`, which bounds
        margins and values far from the usual.
        """
        coef = self._weights()[0]
        return coef[1:] - coef[:1] if len(coef) == 2 else coef

    @property
    def intercept_(self) -> Any:
        """The intercepts, shape (1,) for two classes and (k,) for more."""
        intercept = self._weights()[1]
        return intercept[1:] - intercept[:1] if len(intercept) == 2 else intercept

    def _class_outputs(self, X: Any, proba: bool) -> Any:
        """Return margins or probabilities that are not normalized: (n,) if there is one."""
        X = self._input(X)
        if len(self.models_) == 1:
            return _outputs(self.models_[0], X, proba)
        if not self._reads_names:
            X = as_csr(X)
        return np.stack([_outputs(model, X, proba) for model in self.models_], axis=1)

    def decision_function(self, X: Any) -> Any:
        """Return margins, shape (n,) for two classes and (n, k) for more."""
        margins = self._class_outputs(X, False)
        return margins[:, 1] - margins[:, 0] if margins.shape[1:] == (2,) else margins

    def predict(self, X: Any) -> Any:
        """Return the label of each row."""
        margins = self.decision_function(X)
        best = (margins > 0).astype(int) if margins.ndim == 1 else margins.argmax(axis=1)
        return self.classes_[best]

    def _is_logistic(self) -> bool:
        if hasattr(self, "models_"):
            loss: Any = self.models_[0].loss
        else:
            loss = self.loss or getattr(self.model, "loss", "logistic")
        if loss != "logistic":
            raise AttributeError("probabilities require the logistic loss")
        return True

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class, shape (n, k).

        Those of one learner per class are divided by their sum. If all of them have underflowed to
        0, the classes are equally probable.
        """
        p = self._class_outputs(X, True)
        if p.ndim == 1:
            return np.stack([1.0 - p, p], axis=1)
        if len(self.models_) == 1:
            return p
        total = p.sum(axis=1, keepdims=True)
        return np.divide(p, total, out=np.full_like(p, 1.0 / p.shape[1]), where=total > 0.0)

    @available_if(_is_logistic)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithm of the probability of each class, shape (n, k).

        A probability that has underflowed to 0 counts as the smallest normal float, 2.2e-308.
        """
        return np.log(np.maximum(self.predict_proba(X), TINY))


class StreamRegressor(RegressorMixin, _StreamEstimator):  # type: ignore[misc]
    """A regressor of scikit-learn that learns online.

    Parameters
    ----------
    model
        A regressor of streaml1, whose parameters are used; it is never trained itself. None means
        `ElasticNetRegressor()`.
    loss, lr, l1, l2, epochs, shuffle, random_state
        See `StreamClassifier`.

    Attributes
    ----------
    models_
        A list of the trained learner.
    n_features_in_, feature_names_in_, n_iter_
        See `StreamClassifier`.
    """

    _default = ElasticNetRegressor

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn a matrix or a data frame from scratch."""
        X, y, w = self._checked(X, y, sample_weight, True)
        self.models_ = [self._new_model()]
        self._learn_epochs(X, y, w)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn more rows, in their order."""
        first = not hasattr(self, "models_")
        X, y, w = self._checked(X, y, sample_weight, first)
        if first:
            self.models_ = [self._new_model()]
        self._learn(X, y, w)
        self.n_iter_ = 1
        return self

    def predict(self, X: Any) -> Any:
        """Return the predicted value of each row."""
        X = self._input(X)
        return _outputs(self.models_[0], X, self.models_[0].loss == "poisson")

    @property
    def coef_(self) -> Any:
        """The weights of the columns, shape (d,); see `StreamClassifier.coef_`."""
        return self._weights()[0][0]

    @property
    def intercept_(self) -> Any:
        """The intercept, shape (1,)."""
        return self._weights()[1]
