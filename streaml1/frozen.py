"""A model that only predicts."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any

from streaml1.rows import BadExample, plain_items

__all__ = ["Frozen"]


class Frozen:
    """An immutable predictor: a dict of weights and an intercept.

    It shares nothing with the model it came from and writes nothing when it predicts, so that any
    number of threads may use it; it pickles small. Made by a model's `freeze()`.

    Examples
    --------
    >>> import streaml1
    >>> model = streaml1.ElasticNetClassifier(l1=1e-3)
    >>> model.learn_one({"cheap": 1, "pills": 1}, True)
    >>> frozen = model.freeze()
    >>> frozen.predict_one({"cheap": 1, "pills": 1})
    True
    """

    __slots__ = ("_binary", "_intercept", "_weights")

    _binary: bool
    _intercept: float
    _weights: dict[Hashable, float]

    def __init__(self, weights: dict[Hashable, float], intercept: float, binary: bool) -> None:
        object.__setattr__(self, "_weights", weights)
        object.__setattr__(self, "_intercept", intercept)
        object.__setattr__(self, "_binary", binary)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a frozen model cannot change; {name} belongs to the model itself")

    def __delattr__(self, name: str) -> None:
        self.__setattr__(name, None)

    def __reduce__(self) -> tuple[Any, ...]:
        return Frozen, (self._weights, self._intercept, self._binary)

    def __repr__(self) -> str:
        return f"Frozen({len(self._weights)} weights)"

    @property
    def weights(self) -> Mapping[Hashable, float]:
        """The weights that are not zero."""
        return MappingProxyType(self._weights)

    @property
    def intercept(self) -> float:
        """The intercept."""
        return self._intercept

    def margin(self, x: Mapping[Hashable, Any]) -> float:
        """Margin of an example.

        Raises
        ------
        BadExample
            Where a value is refused.
        """
        if not isinstance(x, Mapping):
            raise BadExample(f"an example is a dict of features, not a {type(x).__name__}")
        a = 0.0
        for name, v in plain_items(x).items():
            a += self._weights.get(name, 0.0) * v
        return a + self._intercept

    def predict_one(self, x: Mapping[Hashable, Any]) -> bool | float:
        """The label: whether the margin is above zero, or for a regressor the margin."""
        a = self.margin(x)
        return a > 0.0 if self._binary else a

    def predict_proba_one(self, x: Mapping[Hashable, Any]) -> dict[bool, float]:
        """Probability of False and of True; classifiers only."""
        if not self._binary:
            raise AttributeError("a regressor has no probabilities; call predict_one")
        a = self.margin(x)
        e = math.exp(-abs(a))
        r = 1.0 / (1.0 + e)
        p = r if a >= 0.0 else e * r
        return {False: 1.0 - p, True: p}
