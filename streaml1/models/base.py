"""Base classes of the learners: river's estimator interface around a model's state."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike
from river import base

from streaml1.core.named_options import option_name
from streaml1.core.rows import VALUE_LIMIT, shown
from streaml1.core.types import Floats, RowsLike
from streaml1.features.batch import is_frame
from streaml1.features.interactions import interactions_of
from streaml1.features.labels import (
    WEIGHT_LIMIT,
    require_mapping,
    to_number,
    to_numbers,
    to_sign,
    to_signs,
    to_weight,
    to_weights,
)
from streaml1.features.ngrams import NGrams
from streaml1.features.raw_labels import binary_label, number_label
from streaml1.models import serialization
from streaml1.models.comparator import ComparatorSpec
from streaml1.models.frame_outputs import frame_like, series_like
from streaml1.models.frozen import Frozen
from streaml1.models.hyperparameters import (
    ClassifierParameters,
    RegressorParameters,
    SharedParameters,
)
from streaml1.models.inspection import InspectableModel
from streaml1.models.parameter_checks import AUTO
from streaml1.models.parameters import constructor, documented, parameters_of
from streaml1.models.schedules import rate_of_step, rates_of_steps
from streaml1.models.state import ModelState
from streaml1.models.state.dict_predictions import margins_of
from streaml1.models.state.predictor import RATES_FROM
from streaml1.models.targets import LabelledRows, ReadLabel, TargetOptions, labelled_rows
from streaml1.optim.losses import CODES
from streaml1.optim.tasks import PARAMETERS, REGRESSION, loss_parameter

__all__ = ["ModelType", "OnlineClassifier", "OnlineModel", "OnlineRegressor"]

OF_SCIKIT_LEARN = {
    "fit": "learn_many", "partial_fit": "learn_many", "predict": "predict_many",
    "predict_proba": "predict_proba_many", "decision_function": "explain_one",
    "score": "streaml1.progressive", "coef_": "weights", "intercept_": "intercept",
}  # fmt: skip
"""Methods and attributes of scikit-learn's estimators, and what does the same here."""


class _MissingAttribute:
    """An attribute that models do not have; the error names what to use instead.

    There is one for each name in `OF_SCIKIT_LEARN`, because `__getattr__` would make every other
    attribute slow: CPython does not specialize access to instances of a class that defines it.
    That was an eighth of `learn_one`.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> NoReturn:
        wrapper = "StreamRegressor" if issubclass(owner, OnlineRegressor) else "StreamClassifier"
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}: use "
            f"{OF_SCIKIT_LEARN[self._name]}, or streaml1.sklearn.{wrapper} for an estimator of "
            "scikit-learn"
        )


if TYPE_CHECKING:
    from river.base.estimator import EstimatorMeta
else:
    EstimatorMeta = type(base.Estimator)  # whatever the installed version of river calls it


class ModelType(EstimatorMeta):
    """River's type of estimators, but `dir` of a class leaves out missing attributes."""

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if name not in OF_SCIKIT_LEARN]


class OnlineModel(SharedParameters, InspectableModel, base.Base):
    """Base class of all learners.

    A subclass inherits a declaration of its hyperparameters (see `hyperparameters.py`), from which
    its constructor and the `Parameters` section of its docstring are generated. It implements
    `_rule`, `_parameter_changed` and `_comparator`.
    """

    _other_loss: ClassVar[str]
    """A loss that is not the default, for river's checks."""

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name not in OF_SCIKIT_LEARN]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" not in vars(cls):
            cls.__init__ = constructor(cls)  # type: ignore[method-assign]
        if cls.__doc__ and not cls.__name__.startswith("_"):
            cls.__doc__ = documented(cls, cls.__doc__)

    def _begin(self) -> None:
        """Create the state, with no weight set; the constructor calls it last."""
        offset: Hashable = getattr(self, "offset", None)
        if offset is not None and offset in (self.text or ()):
            raise ValueError(
                f"{option_name('offset')} must not be a text feature, got {shown(offset)}"
            )
        # Bypass the descriptor, which would push the parameters into the state a second time.
        self.__dict__["_state"] = ModelState(
            self._rule(),
            CODES[self.loss],
            loss_parameter(self, self.loss),
            float(getattr(self, "positive_weight", 1.0)),
            float(self.intercept_init),
            float(self.intercept_lr),
            float(self.clip_gradient),
            None if self.hash_bits is None else int(self.hash_bits),
            None if self.cross is None else interactions_of(tuple(self.cross)),
            None if self.text is None else NGrams(self.text, int(self.ngrams)),
            offset,
        )
        if self.max_features:
            self._state.set_max_nonzero(int(self.max_features))
        self._y_name: Hashable | None = None

    def _unused_parameters(self) -> Iterator[tuple[str, str]]:
        for loss, name in PARAMETERS.items():
            if hasattr(type(self), name) and self.loss != loss:
                yield name, f'loss="{loss}"'
        if "schedule" in parameters_of(type(self)) and self.lr == AUTO:
            yield "schedule", "a number for lr"
        if self.text is None:
            yield "ngrams", 'text=["NAME", ...], the features that hold raw text'

    @property
    def _mutable_attributes(self) -> set[str]:
        params = parameters_of(type(self)).values()
        return {param.name for param in params if not param.fixed}

    def _parameter_changed(self) -> None:
        o = self._state.online[0]
        o.intercept_lr = float(self.intercept_lr)
        o.clip_gradient = float(self.clip_gradient)
        o.loss = CODES[self.loss]
        o.loss_parameter = loss_parameter(self, self.loss)
        o.positive_weight = float(getattr(self, "positive_weight", 1.0))
        self._state.set_max_nonzero(int(self.max_features or 0))

    def mutate(self, new_attrs: dict[str, Any]) -> None:
        """Change parameters, effective from the next step; either all of them or none.

        Raises
        ------
        ValueError
            If a parameter cannot change, or a new value is invalid.
        """
        fixed = sorted(set(new_attrs) - self._mutable_attributes)
        if fixed:
            raise ValueError(
                f"{fixed[0]} cannot change; {type(self).__name__} can change "
                f"{', '.join(sorted(self._mutable_attributes))}"
            )
        nested = {  # attributes of a parameter, such as those of a scheduler in `lr`
            name: new
            for name, new in new_attrs.items()
            if isinstance(new, dict) and hasattr(getattr(self, name), "mutate")
        }
        direct = {
            name: getattr(type(self), name).check(name, new)
            for name, new in new_attrs.items()
            if name not in nested
        }
        nested_attrs = [vars(getattr(self, name)) for name in nested]
        nested_before = [dict(attrs) for attrs in nested_attrs]
        before = {name: self.__dict__[name] for name in direct}
        self.__dict__.update(direct)
        try:
            self._parameter_changed()
            super().mutate(nested)
        except Exception:  # incompatible values, or an unknown attribute of a nested object
            self.__dict__.update(before)
            for attrs, old in zip(nested_attrs, nested_before, strict=True):
                attrs.clear()
                attrs.update(old)
            self._parameter_changed()
            raise

    # One example

    def learn_one(self, x: dict[Hashable, Any], y: object, w: float = 1.0) -> None:
        """Learn one example.

        Parameters
        ----------
        x
            Features by name. Values are numbers; a string value `v` of the name `n` is the feature
            `n=v` with value 1; None and NaN mean absent.
        y
            The label: False, True, 0 or 1 for a classifier, a number for a regressor.
        w
            Sample weight: multiplies the gradient, not the penalty.

        Raises
        ------
        BadExample
            If x, y or w is invalid. The model is unchanged.
        """
        label = self._label(y)
        if w.__class__ is not float or not 0.0 <= w <= WEIGHT_LIMIT:
            w = to_weight(w)
        attributes = self.__dict__  # bypasses the descriptors, which are slower
        state: ModelState = attributes["_state"]
        try:
            clock = state.clock
            step = clock[0] - clock[RATES_FROM]  # the property `rate_step` is slower
            eta = rate_of_step(attributes["lr"], attributes["schedule"], step)
            state.learn(x, label, w, eta)
        except (AttributeError, TypeError):
            require_mapping(x)
            raise

    def _margin(self, x: Mapping[Hashable, Any], proba: bool = False) -> float:
        try:
            return self._state.margin(x, proba)
        except (AttributeError, TypeError):
            require_mapping(x)
            raise

    # Many examples

    def learn_many(
        self,
        X: RowsLike | Iterable[Any],
        y: object = None,
        w: ArrayLike = 1.0,
        *,
        target: str | None = None,
        weight: str | None = None,
        ignore: Iterable[str] = (),
        categorical: Iterable[str] = (),
        positive: str | None = None,
        numeric: Iterable[str] = (),
    ) -> None:
        """Learn the rows of X in order; if one is invalid, learn none.

        Parameters
        ----------
        X
            A data frame (pandas, polars, pyarrow), a scipy.sparse matrix of shape (n, d) whose
            column j is the feature j, or a list of n dicts. With `target` a frame, or an iterable
            of dicts or of frames.
        y
            Labels, shape (n,). None with `target`.
        w
            Sample weights: one number, or shape (n,).
        target
            Column of X, or member of its dicts, that holds the labels. Dicts then mean what flat
            JSON lines mean: nested dicts are named by their paths, such as ``user.age``, and each
            string in a list is a feature.
        weight
            Column or member of the sample weights.
        ignore
            Columns or members that are not features.
        categorical
            Columns or members whose numbers are categories, as strings always are. To predict such
            rows, use `streaml1.training.predictions`, which takes the same option.
        positive
            The label that is 1, such as ``"yes"``, or several, such as ``"yes,Yes"``; any other
            label is then 0.
        numeric
            Columns or members whose texts are numbers, such as ``"12.50"``.

        Raises
        ------
        BadExample
            If a row is invalid. `row` is the first such row; the model is unchanged.
        TypeError
            If X has an unsupported type, or the arguments do not fit each other.
        ValueError
            If there are no labels, a frame has no such column, or a column has two roles.

        Examples
        --------
        >>> import streaml1
        >>> model = streaml1.ElasticNetClassifier()
        >>> rows = [{"site": "news", "click": "yes"}, {"site": "mail", "click": "no"}]
        >>> model.learn_many(rows, target="click", positive="yes")
        >>> sorted(model.weights)
        ['site=mail', 'site=news']
        """
        options = TargetOptions(target, weight, ignore, categorical, positive, numeric)
        rows = labelled_rows(X, y, w, options, self._read_label)
        self._learn_rows(rows)
        self._y_name = getattr(y, "name", None) if target is None else target

    @property
    def _read_label(self) -> ReadLabel | None:
        """Reads a label of data, such as a text; None if labels are learnt as they are."""
        return number_label if self.loss in REGRESSION else binary_label

    def _learn_rows(self, rows: LabelledRows) -> None:
        self.progressive_many(rows.X, rows.y, rows.w)

    def progressive_many(self, X: RowsLike, y: object, w: ArrayLike | None = None) -> Any:
        """Predict each row just before learning it.

        Returns
        -------
        numpy.ndarray
            Shape (n,), float64: the probability of True for the logistic loss, the margin for the
            hinge losses, the predicted value for regressors.

        Raises
        ------
        BadExample
            If a row is invalid. `row` is the first such row; the model is unchanged.
        """
        batch = self._state.batch(X, learns=True)
        n = batch.n
        labels = self._labels(y, n)
        state = self._state
        eta = rates_of_steps(self.lr, self.schedule, state.rate_step, n)
        return state.progressive(batch, labels, to_weights(w, n), eta)

    def reset_rates(self) -> None:
        """Restart the learning rates, as at the first example; weights stay.

        For use when the stream has changed: rates that have decayed follow it slowly.

        Raises
        ------
        ValueError
            If the rates of the model do not decay.

        Examples
        --------
        >>> from streaml1 import ElasticNetClassifier
        >>> model = ElasticNetClassifier(lr=0.5)
        >>> for _ in range(10_000):
        ...     model.learn_one({"a": 1}, True)
        >>> model.learn_one({"b": 1}, True)
        >>> model.reset_rates()
        >>> model.learn_one({"c": 1}, True)
        >>> model.weights["c"] > 50 * model.weights["b"] > 0
        True
        """
        state = self._state
        with state.exclusive():
            if hasattr(state.rule, "reset_rates"):
                state.rule.reset_rates()
            elif self.has_decaying_rates:
                state.online[0].rates_from = state.t
            else:
                raise ValueError(f"{self!r} has no learning rate that decays, so none to reset")

    @property
    def has_decaying_rates(self) -> bool:
        """Whether `reset_rates` has an effect: whether the model learns ever more slowly."""
        if hasattr(self._state.rule, "reset_rates"):
            return True
        if "lr" not in self._parameters():  # the rule has rates of its own
            return False
        return self.schedule != "constant" or not isinstance(self.lr, int | float)

    def _margins(self, X: RowsLike, proba: bool = False) -> Any:
        return margins_of(self._state, X, proba)

    # Copies and files

    def freeze(self) -> Frozen:
        """Return a small immutable predictor with the current weights, safe for any thread.

        With ``lr="auto"`` it predicts as the published model does, not as this one does while it
        learns.
        """
        return Frozen(self._state.frozen(), isinstance(self, base.Classifier))

    def save(self, path: str | Path) -> None:
        """Write the model to one file, from which `streaml1.load` resumes bit-identically.

        The file is written next to `path` and then renamed, so that an existing model is replaced
        atomically.

        Raises
        ------
        ModelFileError
            If the file cannot be written, or a name or parameter has a type that a model file
            cannot hold.
        """
        serialization.write(Path(path), self._encode())

    def _encode(self, packed: bool = True) -> bytes:
        """Return the bytes that `save` writes."""
        return self._snapshot(packed)()

    def _snapshot(self, packed: bool = True, steps: Any = None) -> Callable[[], bytes]:
        """Return a function that encodes the current state at any later time, in any thread.

        `steps` is the JSON of the pipeline that ends in the model.
        """
        name, params, state = type(self).__name__, self._parameters(), self._file_state()
        return lambda: serialization.encode(
            serialization.ModelFile(name, params, state(), steps), packed
        )

    def _parameters(self) -> dict[str, Any]:
        # river's `_get_params` decomposes a scheduler into its class and its parameters.
        return {name: getattr(self, name) for name in self._get_params()}

    def _file_state(self) -> Callable[[], dict[str, Any]]:
        state = self._state.snapshot()
        return lambda: {name: item for name, item in state().items() if name != "rule"}

    @classmethod
    def _from_file(cls, params: dict[str, Any], state: dict[str, Any]) -> Self:
        model = cls(**params)
        begun = model._state
        begun.restore({"rule": type(begun.rule), **state}, getattr(model, "hash_bits", None))
        model._parameter_changed()
        begun.check_restored()
        return model

    def __repr__(self) -> str:
        """Return the class and the parameters that differ from the defaults."""
        defaults = inspect.signature(type(self)).parameters
        params = [
            f"{name}={value!r}"
            for name, value in self._parameters().items()
            if value != defaults[name].default
        ]
        return f"{type(self).__name__}({', '.join(params)})"

    @property
    def _raw_memory_usage(self) -> int:
        return self._state.nbytes + 2000

    @property
    def _is_scaled(self) -> bool:
        """Whether margins are those of scaled values, so that `weights` only approximate them."""
        return False

    # Implemented by subclasses

    def _rule(self) -> Any:
        """Return a new update rule, in which no weight is set."""
        raise NotImplementedError

    def _comparator(self) -> ComparatorSpec:
        """Return the class of fixed weights that the regret compares the learner with.

        Raises
        ------
        ValueError
            If the regret of a learner with these parameters is undefined.
        """
        raise NotImplementedError

    def _label(self, y: Any) -> float:
        """Convert a label to the float that kernels expect; raise BadExample if it is invalid."""
        raise NotImplementedError

    def _labels(self, y: object, n: int) -> Floats:
        """Convert `n` labels to the floats that kernels expect."""
        raise NotImplementedError


for _name in OF_SCIKIT_LEARN:
    setattr(OnlineModel, _name, _MissingAttribute(_name))


class OnlineClassifier(
    ClassifierParameters, OnlineModel, base.MiniBatchClassifier, metaclass=ModelType
):
    """Base class of binary classifiers."""

    _other_loss = "smoothed_hinge"

    def _label(self, y: Any) -> float:
        if y is True:
            return 1.0
        if y is False:
            return -1.0
        return to_sign(y)

    def _labels(self, y: object, n: int) -> Floats:
        labels: Floats = to_signs(y, n)
        return labels

    def predict_proba_one(  # type: ignore[override]
        self, x: dict[Hashable, Any]
    ) -> dict[bool, float]:
        """Return the probabilities of False and True: the sigmoid of the margin, for every loss."""
        try:
            p = self._state.margin(x, True)
        except (AttributeError, TypeError):
            require_mapping(x)
            raise
        return {False: 1.0 - p, True: p}

    def predict_one(self, x: dict[Hashable, Any]) -> bool:  # type: ignore[override]
        """Return whether the margin is above zero."""
        return self._margin(x) > 0.0

    def predict_proba_many(self, X: RowsLike) -> Any:
        """Return the probabilities of False and True.

        Returns
        -------
        A frame of the library of X with the columns False and True, or an array of shape (n, 2) if
        X is not a frame.
        """
        p = self._margins(X, True)
        if not is_frame(X):
            return np.stack([1.0 - p, p], axis=1)
        return frame_like(X, {False: 1.0 - p, True: p})

    def predict_many(self, X: RowsLike) -> Any:
        """Return whether the margin of each row is above zero.

        Returns
        -------
        A series of the library of X, or an array of shape (n,) if X is not a frame.
        """
        return series_like(X, self._margins(X) > 0.0, self._y_name)


class OnlineRegressor(
    RegressorParameters, OnlineModel, base.MiniBatchRegressor, metaclass=ModelType
):
    """Base class of regressors."""

    _other_loss = "absolute"

    def _label(self, y: Any) -> float:
        if y.__class__ is float and 0.0 <= y < VALUE_LIMIT:
            return float(y)
        return to_number(y, self.loss == "poisson")

    def _labels(self, y: object, n: int) -> Floats:
        labels: Floats = to_numbers(y, n, self.loss == "poisson")
        return labels

    def predict_one(self, x: dict[Hashable, Any]) -> float:
        """Return the predicted value: the margin, or its exponential for the Poisson loss."""
        return self._margin(x, self.__dict__["loss"] == "poisson")

    def predict_many(self, X: RowsLike) -> Any:
        """Return the predicted value of each row.

        Returns
        -------
        A series of the library of X, or an array of shape (n,) if X is not a frame.
        """
        return series_like(X, self._margins(X, self.loss == "poisson"), self._y_name)
