"""The exponentiated gradient: EG+- and EG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.parameters import Parameter, flag, number, whole
from streaml1.optim.eg import EG

__all__ = ["EGClassifier", "EGRegressor"]


class _EG(OnlineModel):
    radius = Parameter(number(0.0, 1e30, above=True))
    n_features = Parameter(whole(1, 2**32), fixed=True)
    nonnegative = Parameter(flag, fixed=True)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"radius"}

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        self._engine.rule.clock[0].R = float(self.radius)

    def _rule(self) -> Any:
        return EG.start(0, float(self.radius), int(self.n_features), self.nonnegative)


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
    cross
        Pairs and triples of prefixes of names, such as `[("site", "ad")]`, whose features are
        multiplied with one another; the products are features too. None: nothing is crossed.
    text
        Names of features whose strings are text: its words count, in place of the whole.
    ngrams
        Of text so many neighbouring words at most are features too, from 1 to 10.

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
        cross: Iterable[Sequence[str]] | None = None,
        text: Sequence[str] | None = None,
        ngrams: int = 1,
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
        self.cross = cross
        self.text = text
        self.ngrams = ngrams
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"radius": 3, "n_features": 500, "lr": 0.3, "schedule": "constant"}
        yield {"n_features": 100, "nonnegative": True, "loss": "smoothed_hinge"}


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
    cross
        Pairs and triples of prefixes of names, such as `[("site", "ad")]`, whose features are
        multiplied with one another; the products are features too. None: nothing is crossed.
    text
        Names of features whose strings are text: its words count, in place of the whole.
    ngrams
        Of text so many neighbouring words at most are features too, from 1 to 10.

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
        cross: Iterable[Sequence[str]] | None = None,
        text: Sequence[str] | None = None,
        ngrams: int = 1,
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
        self.cross = cross
        self.text = text
        self.ngrams = ngrams
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"radius": 3, "n_features": 500, "lr": 0.03, "schedule": "constant"}
        yield {"n_features": 100, "nonnegative": True, "loss": "absolute"}
