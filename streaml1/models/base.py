"""What all models share: river's estimators around an engine; no numerics."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np
from river import base

from streaml1.core.rows import LIMIT
from streaml1.features.batch import is_frame
from streaml1.features.interactions import check_cross, interactions_of
from streaml1.features.labels import (
    WEIGHT_LIMIT,
    binaries,
    binary,
    require_mapping,
    value,
    values,
    weight,
    weights,
)
from streaml1.features.ngrams import NGrams, check_text
from streaml1.features.vocabulary import HashedVocabulary
from streaml1.features.vocabulary.crossed_name import cross_hash
from streaml1.models import serialization
from streaml1.models.frozen import Frozen
from streaml1.models.parameters import EngineSlot, Parameter, choice, number, rate, whole
from streaml1.models.schedules import SCHEDULES
from streaml1.models.schedules import rate as rate_of_step
from streaml1.models.schedules import rates as rates_of_steps
from streaml1.models.state import ModelState
from streaml1.models.state.change_tracking import ChangeTracker
from streaml1.optim.losses import CODES
from streaml1.optim.tasks import CLASSIFICATION, REGRESSION

__all__ = ["OnlineClassifier", "OnlineModel", "OnlineRegressor", "require_count", "series_like"]


class OnlineModel(base.Base):
    """What all online learners share."""

    lr = Parameter(rate)
    schedule = Parameter(choice(*SCHEDULES))
    intercept_lr = Parameter(number(0.0, 1e10))
    intercept_init = Parameter(number(-LIMIT, LIMIT), fixed=True)
    clip_gradient = Parameter(number(0.0, 1e30, above=True))

    max_features = Parameter(whole(1, 2**31, or_none=True))
    hash_bits = Parameter(whole(1, 30, or_none=True), fixed=True)
    cross = Parameter(check_cross, fixed=True)
    text = Parameter(check_text, fixed=True)
    ngrams = Parameter(whole(1, 10), fixed=True)

    loss: Any
    _engine = EngineSlot()
    _y_name: Any = None

    def _begin(self) -> None:
        """Start with no weight set; call it last in `__init__`."""
        # Not as one that is put there later: this one is made of the parameters.
        engine = self.__dict__["_engine"] = ModelState(
            self._rule(),
            CODES[self.loss],
            float(self.intercept_init),
            float(self.intercept_lr),
            float(self.clip_gradient),
            None if self.hash_bits is None else int(self.hash_bits),
            None if self.cross is None else interactions_of(tuple(self.cross)),
            None if self.text is None else NGrams(self.text, int(self.ngrams)),
        )
        if self.max_features:
            engine.set_max_nonzero(int(self.max_features))
        self._y_name = None

    @property
    def _state(self) -> ModelState:
        engine: ModelState = self.__dict__["_engine"]
        return engine

    @property
    def _mutable_attributes(self) -> set[str]:
        return {"loss", "lr", "schedule", "intercept_lr", "clip_gradient", "max_features"}

    def _parameter_changed(self) -> None:
        o = self._engine.online[0]
        o.intercept_lr = float(self.intercept_lr)
        o.clip_gradient = float(self.clip_gradient)
        o.loss = CODES[self.loss]
        self._engine.set_max_nonzero(int(self.max_features or 0))

    def mutate(self, new_attrs: dict[str, Any]) -> None:
        """Change parameters, from the next step on; none if one of them is refused."""
        fixed = sorted(set(new_attrs) - self._mutable_attributes)
        if fixed:
            raise ValueError(
                f"{fixed[0]} cannot change; {type(self).__name__} can change "
                f"{', '.join(sorted(self._mutable_attributes))}"
            )
        within = {
            name: new
            for name, new in new_attrs.items()
            if isinstance(new, dict) and hasattr(getattr(self, name), "mutate")
        }
        plain = {
            name: getattr(type(self), name).check(name, new)
            for name, new in new_attrs.items()
            if name not in within
        }
        parts = [vars(getattr(self, name)) for name in within]
        kept = [dict(part) for part in parts]
        before = {name: self.__dict__[name] for name in plain}
        self.__dict__.update(plain)
        try:
            self._parameter_changed()
            super().mutate(within)
        except Exception:  # they do not go together, or a part has no such attribute
            self.__dict__.update(before)
            for part, was in zip(parts, kept, strict=True):
                part.clear()
                part.update(was)
            self._parameter_changed()
            raise

    # One example

    def learn_one(self, x: dict[Hashable, Any], y: Any, w: float = 1.0) -> None:
        """Learn one example.

        Parameters
        ----------
        x
            The features by name. Values are numbers; a string `v` of the name `n` is the feature
            `n=v` with value 1; None is absent.
        y
            The label: False, True, 0 or 1 for a classifier, a number for a regressor.
        w
            Weight of the example: multiplies its gradient, not the penalty.

        Raises
        ------
        BadExample
            Where x, y or w is refused; nothing has been learnt then.
        """
        label = self._label(y)
        if w.__class__ is not float or not 0.0 <= w <= WEIGHT_LIMIT:
            w = weight(w)
        own = self.__dict__  # faster than the descriptors
        engine: ModelState = own["_engine"]
        try:
            eta = rate_of_step(own["lr"], own["schedule"], engine.clock[0])
            engine.learn(x, label, w, eta)
        except (AttributeError, TypeError):
            require_mapping(x)
            raise

    def _margin(self, x: Mapping[Hashable, Any], proba: bool = False) -> float:
        engine: ModelState = self.__dict__["_engine"]
        try:
            return engine.margin(x, proba)
        except (AttributeError, TypeError):
            require_mapping(x)
            raise

    # Many examples

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learn the rows of X one after the other, or none of them if one is refused.

        Parameters
        ----------
        X
            A data frame (pandas, polars, pyarrow), a scipy.sparse matrix of shape (n, d) whose
            column j is the feature j, or a list of dicts.
        y
            n labels.
        w
            One weight for all, or n.
        """
        self.progressive_many(X, y, w)
        self._y_name = getattr(y, "name", None)

    def progressive_many(self, X: Any, y: Any, w: Any = None) -> Any:
        """Predict each row just before it is learnt.

        Returns
        -------
        numpy.ndarray
            Shape (n,): the probability of True for the logistic loss, the margin for the hinges,
            the value for regressors.
        """
        batch = self._state.batch(X, learns=True)
        n = batch.n
        labels = self._labels(y, n)
        w = weights(w, n)
        engine = self._state
        eta = rates_of_steps(self.lr, self.schedule, engine.t, n)
        return engine.progressive(batch, labels, w, eta)

    def _margins(self, X: Any, proba: bool = False) -> Any:
        return self._state.margins(self._state.batch(X), proba)

    # What has been learnt

    @property
    def weights(self) -> dict[Hashable, float]:
        """The weights that are not zero, all pending shrinkage included."""
        names, w = self._state.weights()
        return dict(zip(names, w.tolist(), strict=True))

    @property
    def intercept(self) -> float:
        """The intercept, which no penalty touches."""
        return self._state.intercept

    @property
    def n_nonzero(self) -> int:
        """How many weights are not zero, all pending shrinkage included."""
        return self._state.n_nonzero

    @property
    def n_nonzero_rows(self) -> int:
        """How many features have a weight that is not zero: as many as weights, of one label."""
        return self.n_nonzero

    @property
    def n_features_seen(self) -> int:
        """How many features examples have had.

        Exact until zero weights have been given back (for room, or by saving and loading); then
        an estimate with a standard error of 1.6%. With `hash_bits` an estimate from how many slots
        have been met, which says little once nearly all have.
        """
        return self._state.n_features_seen

    @property
    def n_cut(self) -> int:
        """How many weights have been given up because of `max_features`."""
        return int(self._state.online[0].cut)

    @property
    def n_iterations(self) -> int:
        """How many examples have been learnt."""
        return self._state.t

    def top_weights(self, k: int = 10) -> list[tuple[Hashable, float]]:
        """The `k` weights farthest from zero, with their names, the farthest first.

        Raises
        ------
        ValueError
            Where `k` is below 0.
        """
        require_count(k)
        return self._farthest(k, 0)[0]

    def _farthest(self, k: int, *signs: int) -> list[list[tuple[Hashable, float]]]:
        """As `top_weights`, for each sign of the weights that have it: 1 or -1; 0: of all."""
        return self._state.top_weights(k, *signs)

    def watch(self) -> ChangeTracker:
        """What tells which features enter and leave the model from now on, by name."""
        return self._state.watch()

    def slot(self, name: Hashable) -> int:
        """The slot, from 0, that `hash_bits` gives a name, that of a crossed feature too.

        Raises
        ------
        AttributeError
            Where the model has `hash_bits=None`: no two of its names share a weight.
        BadExample
            Where the name is of a kind that cannot be hashed the same in every process.
        """
        names = self._state.vocabulary
        if not isinstance(names, HashedVocabulary):
            raise AttributeError("hash_bits is None: every name has a weight of its own")
        crosses = self._state.interactions
        parts = None if crosses is None else crosses.factors_of(name)
        return names.slot(name) if parts is None else cross_hash(parts) & names.mask

    def collisions(self, name: Hashable, among: Iterable[Hashable]) -> list[Hashable]:
        """Those of some names that share the weight of a name, itself left out.

        Examples
        --------
        >>> import streaml1
        >>> model = streaml1.ElasticNetClassifier(hash_bits=8)
        >>> model.collisions("site=news", (f"ad={k}" for k in range(1000)))
        ['ad=16', 'ad=238', 'ad=374', 'ad=842', 'ad=900']
        """
        slot = self.slot(name)
        return [other for other in among if other != name and self.slot(other) == slot]

    # Copies

    def freeze(self) -> Frozen:
        """A small immutable predictor of what is known now, safe from any thread."""
        return Frozen(self._state.frozen(), isinstance(self, base.Classifier))

    def save(self, path: str | Path) -> None:
        """Write the model to one file that `streaml1.load` resumes from, bit for bit.

        The file is written beside `path` first and then takes its place, so that a model that was
        there before is never lost half-way.
        """
        serialization.write(
            Path(path), type(self).__name__, self._parameters(), self._file_state()()
        )

    def _encode(self, packed: bool = True) -> bytes:
        """What `save` writes."""
        return self._snapshot(packed)()

    def _snapshot(self, packed: bool = True) -> Callable[[], bytes]:
        """What `save` writes, as of now, to be made at any time, by any thread."""
        name, params, state = type(self).__name__, self._parameters(), self._file_state()
        return lambda: serialization.encode(name, params, state(), packed)

    def _parameters(self) -> dict[str, Any]:
        # river's own list of them takes a scheduler apart.
        return {name: getattr(self, name) for name in self._get_params()}

    def _file_state(self) -> Callable[[], dict[str, Any]]:
        state = self._state.snapshot()
        return lambda: {name: part for name, part in state().items() if name != "rule"}

    @classmethod
    def _from_file(cls, params: dict[str, Any], state: dict[str, Any]) -> Self:
        model = cls(**params)
        engine = model._state
        engine.__setstate__({"rule": type(engine.rule), **state})
        model._parameter_changed()
        engine.check()
        return model

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self._parameters().items())
        return f"{type(self).__name__}({params})"

    @property
    def _raw_memory_usage(self) -> int:
        return self._state.nbytes + 2000

    # To be filled in

    def _rule(self) -> Any:
        raise NotImplementedError

    def _label(self, y: Any) -> float:
        raise NotImplementedError

    def _labels(self, y: Any, n: int) -> Any:
        raise NotImplementedError


class OnlineClassifier(OnlineModel, base.MiniBatchClassifier):
    """What classifiers of two labels share."""

    loss = Parameter(choice(*CLASSIFICATION))

    def _label(self, y: Any) -> float:
        if y is True:
            return 1.0
        if y is False:
            return -1.0
        return binary(y)

    def _labels(self, y: Any, n: int) -> Any:
        return binaries(y, n)

    def predict_proba_one(  # type: ignore[override]
        self, x: dict[Hashable, Any]
    ) -> dict[bool, float]:
        """Probability of False and of True: the sigmoid of the margin, for every loss."""
        try:
            p = self.__dict__["_engine"].margin(x, True)
        except (AttributeError, TypeError):
            require_mapping(x)
            raise
        return {False: 1.0 - p, True: p}

    def predict_one(self, x: dict[Hashable, Any]) -> bool:  # type: ignore[override]
        """Whether the margin is above zero."""
        return self._margin(x) > 0.0

    def predict_proba_many(self, X: Any) -> Any:
        """Probabilities of False and of True, a frame like X; an (n, 2) array for matrices."""
        p = self._margins(X, True)
        if not is_frame(X):
            return np.stack([1.0 - p, p], axis=1)
        from river.utils import dataframe

        return dataframe.to_native_frame({False: 1.0 - p, True: p}, like=dataframe.into_frame(X))

    def predict_many(self, X: Any) -> Any:
        """Whether the margin of each row is above zero, a series like X; an array for matrices."""
        return series_like(X, self._margins(X) > 0.0, self._y_name)


class OnlineRegressor(OnlineModel, base.MiniBatchRegressor):
    """What regressors share."""

    loss = Parameter(choice(*REGRESSION))

    def _label(self, y: Any) -> float:
        if y.__class__ is float and abs(y) < LIMIT:
            return float(y)
        return value(y)

    def _labels(self, y: Any, n: int) -> Any:
        return values(y, n)

    def predict_one(self, x: dict[Hashable, Any]) -> float:
        """The margin: the predicted value."""
        return self._margin(x)

    def predict_many(self, X: Any) -> Any:
        """The predicted value of each row, a series like X; an array for matrices."""
        return series_like(X, self._margins(X), self._y_name)


def require_count(k: int) -> None:
    """Refuse to tell less than no weights."""
    if k < 0:
        raise ValueError(f"k={k} is no number of weights; give one from 0")


def series_like(X: Any, predictions: Any, name: Any) -> Any:
    """Predictions as a series of the kind of the frame X, or as the array they are."""
    if not is_frame(X):
        return predictions
    from river.utils import dataframe

    return dataframe.to_native_series(predictions, name=name, like=dataframe.into_frame(X))
