"""A model that only predicts."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from streaml1.features.labels import require_mapping
from streaml1.models.class_labels import Classes
from streaml1.models.output_buffer import outputs_of, table_of
from streaml1.models.state.predictor import Predictor

__all__ = ["Frozen", "FrozenClasses"]


class Frozen:
    """An immutable predictor; its predictions are those of the model, to the bit.

    It shares nothing with the model it came from. Any number of threads may use it, without a
    lock; it is as small as the weights that are not zero, also pickled. Made by a model's
    `freeze()`.

    Examples
    --------
    >>> import streaml1
    >>> model = streaml1.ElasticNetClassifier(l1=1e-3)
    >>> model.learn_one({"cheap": 1, "pills": 1}, True)
    >>> frozen = model.freeze()
    >>> frozen.predict_one({"cheap": 1, "pills": 1})
    True
    """

    __slots__ = ("_binary", "_reader")

    _binary: bool
    _reader: Predictor

    def __init__(self, reader: Predictor, binary: bool) -> None:
        object.__setattr__(self, "_reader", reader)
        object.__setattr__(self, "_binary", binary)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a frozen model cannot change; {name} belongs to the model itself")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __reduce__(self) -> tuple[Any, ...]:
        return Frozen, (self._reader, self._binary)

    def __repr__(self) -> str:
        return f"Frozen({len(self.weights)} weights)"

    @property
    def weights(self) -> Mapping[Hashable, float]:
        """The weights that are not zero."""
        w = self._reader.rule.weights()
        slots = np.flatnonzero(w)
        names = self._reader.vocabulary.names_at(slots)
        return MappingProxyType(dict(zip(names, w[slots].tolist(), strict=True)))

    @property
    def intercept(self) -> float:
        """The intercept."""
        return self._reader.intercept

    def margin(self, x: Mapping[Hashable, Any]) -> float:
        """Margin of an example.

        Raises
        ------
        BadExample
            Where a value is refused.
        """
        return self._margin(x, False)

    def _margin(self, x: Mapping[Hashable, Any], proba: bool) -> float:
        try:
            return self._reader.margin(x, proba)
        except (AttributeError, TypeError):
            require_mapping(x)
            raise

    def predict_one(self, x: Mapping[Hashable, Any]) -> bool | float:
        """The label: whether the margin is above zero, or for a regressor the margin.

        Raises
        ------
        BadExample
            Where a value is refused.
        """
        a = self._margin(x, False)
        return a > 0.0 if self._binary else a

    def predict_proba_one(self, x: Mapping[Hashable, Any]) -> dict[bool, float]:
        """Probability of False and of True; classifiers only.

        Raises
        ------
        BadExample
            Where a value is refused.
        AttributeError
            Where it predicts a number.
        """
        self._require_classifier()
        p = self._margin(x, True)
        return {False: 1.0 - p, True: p}

    def predict_many(self, X: Any) -> Any:
        """What `predict_one` says of each row of a matrix, frame or list of dicts, shape (n,).

        Raises
        ------
        BadExample
            At the first value that is refused, with its row.
        """
        a = self._reader.margins(self._reader.batch(X), False)
        return a > 0.0 if self._binary else a

    def predict_proba_many(self, X: Any) -> Any:
        """Probabilities of False and of True of each row, shape (n, 2); classifiers only.

        Raises
        ------
        BadExample
            At the first value that is refused, with its row.
        AttributeError
            Where it predicts a number.
        """
        self._require_classifier()
        p = self._reader.margins(self._reader.batch(X), True)
        return np.stack([1.0 - p, p], axis=1)

    def _require_classifier(self) -> None:
        if not self._binary:
            raise AttributeError("a regressor has no probabilities; call predict_one")


class FrozenClasses(Frozen):
    """An immutable predictor of many labels; as `Frozen` otherwise.

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
        return FrozenClasses, (self._reader, self._classes.names)

    @property
    def weights(self) -> Mapping[Hashable, Any]:
        """The weights that are not zero, by feature and label."""
        rule, labels = self._reader.rule, self._classes.names
        slots = np.flatnonzero(rule.weights())
        rows = zip(self._reader.vocabulary.names_at(slots), rule.rows(slots).tolist(), strict=True)
        return MappingProxyType(
            {
                name: MappingProxyType(
                    {label: w for label, w in zip(labels, row, strict=True) if w != 0.0}
                )
                for name, row in rows
            }
        )

    @property
    def intercept(self) -> Any:
        """The intercept of each label."""
        b = self._reader.rule.b.tolist()
        return MappingProxyType(dict(zip(self._classes.names, b, strict=False)))

    def margin(self, x: Mapping[Hashable, Any]) -> float:
        """There is none: each label has its own."""
        raise AttributeError("a model of many labels has no margin; call predict_proba_one")

    def _outputs(self, x: Mapping[Hashable, Any]) -> tuple[int, Any]:
        try:
            return outputs_of(self._reader, x)
        except (AttributeError, TypeError):
            require_mapping(x)
            raise

    def predict_one(self, x: Mapping[Hashable, Any]) -> Any:
        """The most probable label; None where there is none.

        Raises
        ------
        BadExample
            Where a value is refused.
        """
        best = self._outputs(x)[0]
        return self._classes.names[best] if best >= 0 else None

    def predict_proba_one(self, x: Mapping[Hashable, Any]) -> dict[Any, float]:
        """Probability of each label.

        Raises
        ------
        BadExample
            Where a value is refused.
        """
        return dict(zip(self._classes.names, self._outputs(x)[1], strict=False))

    def predict_many(self, X: Any) -> Any:
        """What `predict_one` says of each row of a matrix, frame or list of dicts, shape (n,)."""
        return self._classes.array(table_of(self._reader, self._reader.batch(X))[0])

    def predict_proba_many(self, X: Any) -> Any:
        """Probabilities of each row, shape (n, k)."""
        return table_of(self._reader, self._reader.batch(X))[1]
