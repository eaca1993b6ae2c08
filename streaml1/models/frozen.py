"""Immutable predictors."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from streaml1.core.types import RowsLike
from streaml1.features.labels import require_mapping
from streaml1.models.class_labels import Classes
from streaml1.models.explain import (
    explain_label_rows,
    explain_labels,
    explain_row,
    explain_rows,
)
from streaml1.models.explanation import Explanation
from streaml1.models.output_buffer import predict_outputs, predict_outputs_of
from streaml1.models.state.dict_predictions import margins_of
from streaml1.models.state.predictor import Predictor
from streaml1.optim.losses import POISSON

__all__ = ["Frozen", "FrozenClasses"]


class Frozen:
    """An immutable predictor whose predictions are bit-identical to those of the model.

    A model's `freeze()` creates it. It shares nothing with the model, and any number of threads may
    use it without a lock. Its size, in memory and pickled, is proportional to the number of
    non-zero weights.

    Examples
    --------
    >>> import streaml1
    >>> model = streaml1.ElasticNetClassifier(l1=1e-3)
    >>> model.learn_one({"cheap": 1, "pills": 1}, True)
    >>> frozen = model.freeze()
    >>> frozen.predict_one({"cheap": 1, "pills": 1})
    True
    """

    __slots__ = ("_binary", "_is_poisson", "_reader")

    _binary: bool
    _is_poisson: bool
    _reader: Predictor

    def __init__(self, reader: Predictor, binary: bool) -> None:
        object.__setattr__(self, "_reader", reader)
        object.__setattr__(self, "_binary", binary)
        object.__setattr__(self, "_is_poisson", bool(reader.online[0].loss == POISSON))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a frozen model is immutable; set {name} on the model itself")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __reduce__(self) -> tuple[Any, ...]:
        return Frozen, (self._reader, self._binary)

    def __repr__(self) -> str:
        return f"Frozen({len(self.weights)} weights)"

    @property
    def weights(self) -> Mapping[Hashable, float]:
        """The non-zero weights by feature name."""
        w = self._reader.rule.weights()
        slots = np.flatnonzero(w)
        names = self._reader.vocabulary.names_at(slots)
        return MappingProxyType(dict(zip(names, w[slots].tolist(), strict=True)))

    @property
    def intercept(self) -> float:
        """The intercept."""
        return self._reader.intercept

    @property
    def _kernels(self) -> Hashable:
        """A value that is equal for predictors that run the same compiled kernels."""
        reader = self._reader
        parts = (reader.interactions, reader.ngrams, reader.offset)
        return type(reader.rule), type(reader.vocabulary), *(part is not None for part in parts)

    def margin(self, x: Mapping[Hashable, Any]) -> float:
        """Return the margin of an example.

        Raises
        ------
        BadExample
            If a value is invalid.
        """
        return self._margin(x, False)

    def _margin(self, x: Mapping[Hashable, Any], proba: bool) -> float:
        try:
            return self._reader.margin(x, proba)
        except (AttributeError, TypeError):
            require_mapping(x)
            raise

    def predict_one(self, x: Mapping[Hashable, Any]) -> bool | float:
        """Return whether the margin is above zero, or the predicted value of a regressor.

        Raises
        ------
        BadExample
            If a value is invalid.
        """
        a = self._margin(x, self._is_poisson)
        return a > 0.0 if self._binary else a

    def predict_proba_one(self, x: Mapping[Hashable, Any]) -> dict[bool, float]:
        """Return the probabilities of False and True; classifiers only.

        Raises
        ------
        BadExample
            If a value is invalid.
        AttributeError
            If the model is a regressor.
        """
        self._require_classifier()
        p = self._margin(x, True)
        return {False: 1.0 - p, True: p}

    def predict_many(self, X: RowsLike) -> Any:
        """Return `predict_one` of each row of a matrix, frame or list of dicts, shape (n,).

        Raises
        ------
        BadExample
            If a row is invalid. `row` is the first such row.
        """
        a = margins_of(self._reader, X, self._is_poisson)
        return a > 0.0 if self._binary else a

    def predict_proba_many(self, X: RowsLike) -> Any:
        """Return the probabilities of False and True of each row, shape (n, 2); classifiers only.

        Raises
        ------
        BadExample
            If a row is invalid. `row` is the first such row.
        AttributeError
            If the model is a regressor.
        """
        self._require_classifier()
        p = margins_of(self._reader, X, True)
        both = np.empty((len(p), 2))
        both[:, 0], both[:, 1] = 1.0 - p, p
        return both

    def explain_one(self, x: Mapping[Hashable, Any]) -> Any:
        """Return what each feature contributes to the margin of an example, an `Explanation`.

        Features whose weight is zero are unknown to a frozen model.

        Raises
        ------
        BadExample
            If a value is invalid.
        """
        return explain_row(self._reader, x)

    def explain_many(self, X: RowsLike) -> list[Any]:
        """Return `explain_one` of each row of a matrix, frame or list of dicts.

        Raises
        ------
        BadExample
            If a row is invalid. `row` is the first such row.
        """
        return list(explain_rows(self._reader, X))

    def _require_classifier(self) -> None:
        if not self._binary:
            raise AttributeError("a regressor has no probabilities; use predict_one")


class FrozenClasses(Frozen):
    """An immutable predictor of a multiclass model; otherwise like `Frozen`.

    Examples
    --------
    >>> import streaml1
    >>> model = streaml1.SoftmaxClassifier(classes=["ham", "spam", "news"])
    >>> model.learn_one({"cheap": 1, "pills": 1}, "spam")
    >>> model.freeze().predict_one({"cheap": 1})
    'spam'
    """

    __slots__ = ("_classes",)

    _classes: Classes

    def __init__(self, reader: Predictor, labels: list[Hashable]) -> None:
        super().__init__(reader, True)
        object.__setattr__(self, "_classes", Classes(labels))

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenClasses, (self._reader, self._classes.labels)

    @property
    def weights(self) -> Mapping[Hashable, Any]:
        """The non-zero weights by feature and label."""
        rule, labels = self._reader.rule, self._classes.labels
        slots = np.flatnonzero(rule.weights())
        names = self._reader.vocabulary.names_at(slots)
        return MappingProxyType(
            {
                name: MappingProxyType(
                    {label: w for label, w in zip(labels, row, strict=True) if w != 0.0}
                )
                for name, row in zip(names, rule.rows(slots).tolist(), strict=True)
            }
        )

    @property
    def intercept(self) -> Any:
        """The intercept of each label."""
        b = self._reader.rule.intercepts().tolist()
        return MappingProxyType(dict(zip(self._classes.labels, b, strict=False)))

    def margin(self, x: Mapping[Hashable, Any]) -> float:
        """Raise AttributeError: there is one margin per label."""
        raise AttributeError("a multiclass model has no single margin; use predict_proba_one")

    def _outputs(self, x: Mapping[Hashable, Any]) -> tuple[int, Any]:
        try:
            return predict_outputs(self._reader, x)
        except (AttributeError, TypeError):
            require_mapping(x)
            raise

    def predict_one(self, x: Mapping[Hashable, Any]) -> Any:
        """Return the most probable label; None if the model has none.

        Raises
        ------
        BadExample
            If a value is invalid.
        """
        best = self._outputs(x)[0]
        return self._classes.labels[best] if best >= 0 else None

    def predict_proba_one(self, x: Mapping[Hashable, Any]) -> dict[Any, float]:
        """Return the probability of each label.

        Raises
        ------
        BadExample
            If a value is invalid.
        """
        return dict(zip(self._classes.labels, self._outputs(x)[1], strict=False))

    def predict_many(self, X: RowsLike) -> Any:
        """Return `predict_one` of each row of a matrix, frame or list of dicts, shape (n,)."""
        return self._classes.array(predict_outputs_of(self._reader, X)[0])

    def predict_proba_many(self, X: RowsLike) -> Any:
        """Return the probability of each label in each row, shape (n, k)."""
        return predict_outputs_of(self._reader, X)[1]

    def explain_one(self, x: Mapping[Hashable, Any]) -> dict[Hashable, Explanation]:
        """Return what each feature contributes to the margin of each label, by label.

        Raises
        ------
        BadExample
            If a value is invalid.
        """
        return explain_labels(self._reader, self._classes.labels, x)

    def explain_many(self, X: RowsLike) -> list[dict[Hashable, Explanation]]:
        """Return `explain_one` of each row of a matrix, frame or list of dicts."""
        return explain_label_rows(self._reader, self._classes.labels, X)
