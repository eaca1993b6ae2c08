"""The exponentiated gradient: EG+- and EG."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from streaml1.batches import Batch, batch_of, checked, is_frame, is_matrix
from streaml1.frozen import Frozen
from streaml1.losses import sigmoid
from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.parameters import Parameter, number
from streaml1.rows import BadExample, plain_items, row_of, shown
from streaml1.rules.eg import EG

__all__ = ["EGClassifier", "EGRegressor"]


def _count(name: str, value: Any) -> Any:
    number(1.0, 2.0**32)(name, value)
    if value != int(value):
        raise ValueError(f"{name}={shown(value)} is no count; give a whole number from 1 to 2**32")
    return value


def _flag(name: str, value: Any) -> Any:
    if not isinstance(value, bool):
        raise ValueError(f"{name}={shown(value)} is not known; give True or False")
    return value


class _FrozenEG(Frozen):
    """A frozen EG: features that it does not know have a weight too."""

    __slots__ = ("_unseen",)

    _unseen: float

    def __init__(
        self, weights: dict[Hashable, float], intercept: float, binary: bool, unseen: float
    ) -> None:
        super().__init__(weights, intercept, binary)
        object.__setattr__(self, "_unseen", unseen)

    def __reduce__(self) -> tuple[Any, ...]:
        return _FrozenEG, (self._weights, self._intercept, self._binary, self._unseen)

    def margin(self, x: Mapping[Hashable, Any]) -> float:
        known = super().margin(x)
        return known + self._unseen * sum(
            v for name, v in plain_items(x).items() if name not in self._weights
        )


class _EG(OnlineModel):
    radius = Parameter(number(0.0, 1e30, above=True))
    n_features = Parameter(_count, fixed=True)
    nonnegative = Parameter(_flag, fixed=True)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"radius"}

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        if self._engine is not None:
            self._engine.rule.clock[0].R = float(self.radius)

    def _rule(self) -> Any:
        return EG.start(0, float(self.radius), int(self.n_features), self.nonnegative)

    # No more features than n_features

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
            Weight of the example: multiplies its gradient.

        Raises
        ------
        BadExample
            Where x, y or w is refused, or x has more new features than `n_features` leaves; nothing
            has been learnt then.
        """
        if isinstance(x, Mapping) and self._room < len(x):
            names = list(plain_items(x))
            if np.count_nonzero(self._are_new(names)) > self._room:
                raise self._full(0)
        super().learn_one(x, y, w)

    def progressive_many(self, X: Any, y: Any, w: Any = None) -> Any:
        """Predict each row just before it is learnt.

        Returns
        -------
        numpy.ndarray
            Shape (n,): the probability of True for the logistic loss, the margin for the hinges,
            the value for regressors.
        """
        if self._room < _most_features(X):
            self._require_room(checked(batch_of(X)))
        return super().progressive_many(X, y, w)

    @property
    def _room(self) -> int:
        clock = self._state.rule.clock.view(np.ndarray)  # a field of a record takes microseconds
        return int(clock["d"][0]) - int(clock["touched"][0])

    def _are_new(self, names: list[Hashable]) -> Any:
        slots = self._state.names.find_all(names).astype(np.int64)
        touched = np.append(self._state.rule.touched(), False)
        return ~touched[np.minimum(slots, len(touched) - 1)]

    def _require_room(self, batch: Batch) -> None:
        """Refuse the first row that has a feature too many."""
        ids, first = np.unique(batch.rows.ids, return_index=True)
        names = ids.tolist() if batch.names is None else [batch.names[j] for j in ids.tolist()]
        entries = np.sort(first[self._are_new(names)])
        if len(entries) > self._room:
            raise self._full(row_of(batch.rows, int(entries[self._room])))

    def _full(self, row: int) -> BadExample:
        return BadExample(
            f"a new feature comes after n_features={self.n_features} others; make the model "
            "with a larger n_features",
            row,
        )

    # EG: a feature that no example has had weighs radius / Z

    def _margin(self, x: Mapping[Hashable, Any], proba: bool = False) -> float:
        if not self.nonnegative:
            return super()._margin(x, proba)
        plain = plain_items(x) if isinstance(x, Mapping) else {}
        slots = self._state.names.find_all(list(plain)).astype(np.int64)
        unknown = slots >= self._state.rule.size
        a = super()._margin(x) + self._state.rule.unseen * float(
            np.array(list(plain.values()))[unknown].sum()
        )
        return sigmoid(a) if proba else a

    def _margins(self, X: Any, proba: bool = False) -> Any:
        if not self.nonnegative:
            return super()._margins(X, proba)
        a = super()._margins(X)
        batch = checked(batch_of(X))
        if batch.names is None:
            ids, places = np.unique(batch.rows.ids, return_inverse=True)
            names = ids.tolist()
        else:
            names, places = batch.names, batch.rows.ids
        slots = self._state.names.find_all(names).astype(np.int64)[places]
        unknown = np.where(slots >= self._state.rule.size, batch.rows.values, 0.0)
        before = np.append(0.0, np.cumsum(unknown))
        ends = batch.rows.indptr.astype(np.int64)
        a += self._state.rule.unseen * np.diff(before[ends])
        return np.array([sigmoid(one) for one in a.tolist()]) if proba else a

    def freeze(self) -> Frozen:
        """A small immutable predictor of what is known now, safe from any thread."""
        if not self.nonnegative:
            return super().freeze()
        binary = isinstance(self, OnlineClassifier)
        return _FrozenEG(self.weights, self.intercept, binary, self._state.rule.unseen)


def _most_features(X: Any) -> float:
    """At most so many features a batch has, as far as is told at a glance."""
    if isinstance(X, list):
        return sum(len(x) for x in X if isinstance(x, Mapping))
    if is_frame(X):  # a column of text has a feature for each of its values
        return float(X.shape[0]) * float(X.shape[1])
    return float(X.shape[1]) if is_matrix(X) and len(X.shape) == 2 else float("inf")


class EGClassifier(_EG, OnlineClassifier):
    """Logistic regression or linear SVM by the exponentiated gradient, learnt online.

    The sum of the weights' sizes never passes `radius`: the rival of the projection on the l1 ball
    that multiplies instead of adding. No weight of a feature that was seen is ever zero again.

    Parameters
    ----------
    radius
        The sum of all weights, the pairs of EG+- counted singly; above 0.
    n_features
        How many features there are. One more is refused.
    nonnegative
        False: EG+-, a pair of weights a feature. True: EG, no weight is below 0, and a feature
        that no example has had weighs something as well.
    loss
        `"logistic"`, `"hinge"` or `"smoothed_hinge"` (of width 1).
    lr
        The rate: a number, or a scheduler of `river.optim.schedulers`, asked `get(t)` for the
        t-th example, from 0.
    schedule
        Rate of the t-th example, where `lr` is a number: `"invsqrt"` (`lr / sqrt(t + 1)`),
        `"constant"` or `"inverse"` (`lr / (t + 1)`).
    intercept_lr
        The intercept's own constant rate; 0 freezes it.
    intercept_init
        Where the intercept starts.
    clip_gradient
        The most that the derivative of the loss counts for.
    max_features
        At most so many weights are not zero: before there would be more, those nearest to zero
        go, until seven eighths are left.
    hash_bits
        Names are not kept, but hashed to `2**hash_bits` slots, from 1 to 30: names that share a
        slot share a weight. The hash is the same on every machine.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> import streaml1
    >>> model = preprocessing.StandardScaler() | streaml1.EGClassifier(n_features=9)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.334680

    References
    ----------
    [^1]: Kivinen, J. and Warmuth, M.K., 1997. Exponentiated gradient versus gradient descent for
          linear predictors. Information and Computation 132.
    """

    def __init__(
        self,
        *,
        radius: float = 10.0,
        n_features: int = 2**18,
        nonnegative: bool = False,
        loss: str = "logistic",
        lr: Any = 0.1,
        schedule: str = "invsqrt",
        intercept_lr: float = 0.01,
        intercept_init: float = 0.0,
        clip_gradient: float = 1e12,
        max_features: int | None = None,
        hash_bits: int | None = None,
    ) -> None:
        self.radius = radius
        self.n_features = n_features
        self.nonnegative = nonnegative
        self.loss = loss
        self.lr = lr
        self.schedule = schedule
        self.intercept_lr = intercept_lr
        self.intercept_init = intercept_init
        self.clip_gradient = clip_gradient
        self.max_features = max_features
        self.hash_bits = hash_bits
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"radius": 3, "n_features": 500, "lr": 0.3, "schedule": "constant"}
        yield {"n_features": 100, "nonnegative": True}
        yield {"n_features": 1000, "loss": "smoothed_hinge"}


class EGRegressor(_EG, OnlineRegressor):
    """Linear regression by the exponentiated gradient, learnt online.

    The sum of the weights' sizes never passes `radius`: the rival of the projection on the l1 ball
    that multiplies instead of adding. No weight of a feature that was seen is ever zero again.

    Parameters
    ----------
    radius
        The sum of all weights, the pairs of EG+- counted singly; above 0.
    n_features
        How many features there are. One more is refused.
    nonnegative
        False: EG+-, a pair of weights a feature. True: EG, no weight is below 0, and a feature
        that no example has had weighs something as well.
    loss
        `"squared"` (half the squared error) or `"absolute"`.
    lr
        The rate: a number, or a scheduler of `river.optim.schedulers`, asked `get(t)` for the
        t-th example, from 0.
    schedule
        Rate of the t-th example, where `lr` is a number: `"invsqrt"` (`lr / sqrt(t + 1)`),
        `"constant"` or `"inverse"` (`lr / (t + 1)`).
    intercept_lr
        The intercept's own constant rate; 0 freezes it.
    intercept_init
        Where the intercept starts.
    clip_gradient
        The most that the derivative of the loss counts for.
    max_features
        At most so many weights are not zero: before there would be more, those nearest to zero
        go, until seven eighths are left.
    hash_bits
        Names are not kept, but hashed to `2**hash_bits` slots, from 1 to 30: names that share a
        slot share a weight. The hash is the same on every machine.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> import streaml1
    >>> model = preprocessing.StandardScaler() | streaml1.EGRegressor(
    ...     n_features=6, lr=0.01, intercept_lr=0.1
    ... )
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.938419

    References
    ----------
    [^1]: Kivinen, J. and Warmuth, M.K., 1997. Exponentiated gradient versus gradient descent for
          linear predictors. Information and Computation 132.
    """

    def __init__(
        self,
        *,
        radius: float = 10.0,
        n_features: int = 2**18,
        nonnegative: bool = False,
        loss: str = "squared",
        lr: Any = 0.1,
        schedule: str = "invsqrt",
        intercept_lr: float = 0.01,
        intercept_init: float = 0.0,
        clip_gradient: float = 1e12,
        max_features: int | None = None,
        hash_bits: int | None = None,
    ) -> None:
        self.radius = radius
        self.n_features = n_features
        self.nonnegative = nonnegative
        self.loss = loss
        self.lr = lr
        self.schedule = schedule
        self.intercept_lr = intercept_lr
        self.intercept_init = intercept_init
        self.clip_gradient = clip_gradient
        self.max_features = max_features
        self.hash_bits = hash_bits
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"radius": 3, "n_features": 500, "lr": 0.03, "schedule": "constant"}
        yield {"n_features": 100, "nonnegative": True}
        yield {"n_features": 1000, "loss": "absolute"}
