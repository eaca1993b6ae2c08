"""The lazy elastic net."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.parameters import AUTO, Parameter, choice, flag, number, rate_or_auto, whole
from streaml1.optim.averaged_elastic_net import AveragedElasticNet
from streaml1.optim.elastic_net import ElasticNet
from streaml1.optim.elastic_net_lanes import ElasticNetLanes
from streaml1.optim.elastic_net_stamps import ElasticNetStamps
from streaml1.optim.losses import CODES

__all__ = ["ElasticNetClassifier", "ElasticNetRegressor"]

# The rates of lr="auto", over the squared mean norm of the examples. The squared loss diverges
# where a rate is beyond 2.
_FOR_LABELS = tuple(0.3 * 2.3**k for k in range(8))
_FOR_VALUES = tuple(0.02 * 2.5**k for k in range(8))
RATES = {
    "logistic": _FOR_LABELS,
    "hinge": _FOR_LABELS,
    "smoothed_hinge": _FOR_LABELS,
    "squared": _FOR_VALUES,
    "absolute": _FOR_VALUES,
}


class _ElasticNet(OnlineModel):
    lr = Parameter(rate_or_auto)
    l1 = Parameter(number(0.0, 1e30))
    l2 = Parameter(number(0.0, 1e30))
    update = Parameter(choice("fobos", "sgd"))
    stamps = Parameter(choice("folded", "explicit"), fixed=True)
    budget = Parameter(whole(1, 2**30))
    average = Parameter(flag, fixed=True)

    @property
    def _mutable_attributes(self) -> set[str]:
        own = super()._mutable_attributes | {"l1", "l2", "update", "budget"}
        return own - {"lr", "loss"} if self.lr == AUTO else own

    def _begin(self) -> None:
        if self.lr == AUTO and (self.average or self.stamps == "explicit"):
            other = "average=True" if self.average else 'stamps="explicit"'
            raise ValueError(f'lr="auto" does not go with {other}; give a number')
        super()._begin()

    def _parameter_changed(self) -> None:
        auto = isinstance(self._engine.rule, ElasticNetLanes)
        if auto and self._engine.online[0].loss != CODES[self.loss]:
            raise ValueError('loss cannot change where lr="auto"; clone the model instead')
        super()._parameter_changed()
        if auto != (self.lr == AUTO):
            raise ValueError('lr cannot become "auto", or cease to be; clone the model instead')
        clock = self._engine.rule.clock[0]
        clock.l1, clock.l2 = float(self.l1), float(self.l2)
        clock.sgd = self.update == "sgd"
        if self.average:
            self._engine.rule.mean[0].budget = int(self.budget)
        elif self.stamps == "explicit":
            clock.budget = int(self.budget)

    def _rule(self) -> Any:
        l1, l2, sgd = float(self.l1), float(self.l2), self.update == "sgd"
        if self.lr == AUTO:
            rates = RATES[self.loss]
            return ElasticNetLanes.start(0, l1, l2, sgd, rates, float(self.intercept_init))
        if self.average:
            return AveragedElasticNet.start(0, l1, l2, sgd, int(self.budget))
        if self.stamps == "explicit":
            return ElasticNetStamps.start(0, l1, l2, sgd, int(self.budget))
        return ElasticNet.start(0, l1, l2, sgd)


class ElasticNetClassifier(_ElasticNet, OnlineClassifier):
    """Logistic regression or linear SVM with an elastic net, learnt online.

    After each example the weights, all of them, are those of the dense update; a step costs time
    in the non-zeros of the example alone, because what the penalty does to the others is folded
    into two scalars.

    Parameters
    ----------
    l1
        Strength of the l1 penalty, from 0.
    l2
        Strength of the squared l2 penalty (half the squared norm), from 0.
    update
        `"fobos"` (the proximal step) or `"sgd"` (the clipped gradient step of the penalty).
    stamps
        How the lazy weights are kept: `"folded"` (one number a weight) or `"explicit"` (as the
        paper has it: the time of the last touch beside each weight, and tables of the steps
        since). The weights are the same; folded is faster and smaller.
    budget
        How many steps the tables of explicit stamps, or of `average`, hold before all weights are
        brought current.
    loss
        `"logistic"`, `"hinge"` or `"smoothed_hinge"` (of width 1).
    lr
        The rate: a number; a scheduler of `river.optim.schedulers`, asked `get(t)` for the
        t-th example, from 0; or `"auto"`: eight rates learn side by side, over the squared mean
        norm and the mean weight of the examples so far, and falling as `(t + 1) ** -0.25`.
        Predictions are then their mixture (logistic; its loss exceeds that of the best rate by at
        most `log(8)` times the largest sample weight, anew where rows have grown) or those of the
        rate with the least loss so far, whose `weights` are told.
    schedule
        Rate of the t-th example, where `lr` is a number: `"invsqrt"` (`lr / sqrt(t + 1)`),
        `"constant"` or `"inverse"` (`lr / (t + 1)`).
    intercept_lr
        The intercept's own constant rate; 0 freezes it. With `lr="auto"` each of the eight has a
        rate that falls as its weights' does, and is in proportion to this one.
    intercept_init
        Where the intercept starts.
    clip_gradient
        The most that the derivative of the loss counts for.
    average
        Tell the mean of the weights after each step so far, and of the intercept, in place of the
        last ones: in predictions, `weights` and all counts. What is learnt is the same. A weight
        that was ever other than zero stays in the mean. `stamps` then makes no difference.
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
    >>> model = preprocessing.StandardScaler() | streaml1.ElasticNetClassifier(l1=1e-4)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.342159

    References
    ----------
    [^1]: Lipton, Z.C. and Elkan, C., 2015. Efficient elastic net regularization for sparse linear
          models: Algorithm 1, Eq. (2), Eq. (3), Theorem 2.
    [^2]: Duchi, J. and Singer, Y., 2009. Efficient learning using forward-backward splitting.
          Advances in Neural Information Processing Systems 22.
    """

    def __init__(
        self,
        *,
        l1: float = 0.0,
        l2: float = 0.0,
        update: str = "fobos",
        stamps: str = "folded",
        budget: int = 2**20,
        loss: str = "logistic",
        lr: Any = 0.1,
        schedule: str = "invsqrt",
        intercept_lr: float = 0.01,
        intercept_init: float = 0.0,
        clip_gradient: float = 1e12,
        average: bool = False,
        max_features: int | None = None,
        hash_bits: int | None = None,
        cross: Iterable[Sequence[str]] | None = None,
        text: Sequence[str] | None = None,
        ngrams: int = 1,
    ) -> None:
        self.l1 = l1
        self.l2 = l2
        self.update = update
        self.stamps = stamps
        self.budget = budget
        self.loss = loss
        self.lr = lr
        self.schedule = schedule
        self.intercept_lr = intercept_lr
        self.intercept_init = intercept_init
        self.clip_gradient = clip_gradient
        self.average = average
        self.max_features = max_features
        self.hash_bits = hash_bits
        self.cross = cross
        self.text = text
        self.ngrams = ngrams
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"l1": 1e-3, "l2": 1e-2, "update": "sgd", "schedule": "constant", "lr": 0.01}
        yield {"l1": 1e-4, "loss": "smoothed_hinge"}
        yield {"l1": 1e-3, "l2": 1e-2, "stamps": "explicit", "budget": 50}
        yield {"l1": 1e-3, "l2": 1e-2, "average": True}
        yield {"l1": 1e-3, "lr": "auto"}


class ElasticNetRegressor(_ElasticNet, OnlineRegressor):
    """Linear regression with an elastic net, learnt online.

    Scale the features first: the squared loss at a rate of 0.1 diverges on values in the
    thousands.

    Parameters
    ----------
    l1
        Strength of the l1 penalty, from 0.
    l2
        Strength of the squared l2 penalty (half the squared norm), from 0.
    update
        `"fobos"` (the proximal step) or `"sgd"` (the clipped gradient step of the penalty).
    stamps
        How the lazy weights are kept: `"folded"` (one number a weight) or `"explicit"` (as the
        paper has it: the time of the last touch beside each weight, and tables of the steps
        since). The weights are the same; folded is faster and smaller.
    budget
        How many steps the tables of explicit stamps, or of `average`, hold before all weights are
        brought current.
    loss
        `"squared"` (half the squared error) or `"absolute"`.
    lr
        The rate: a number; a scheduler of `river.optim.schedulers`, asked `get(t)` for the
        t-th example, from 0; or `"auto"`: eight rates learn side by side, over the squared mean
        norm and the mean weight of the examples so far, and falling as `(t + 1) ** -0.25`.
        Predictions are then those of the rate with the least loss so far, whose `weights` are told.
    schedule
        Rate of the t-th example, where `lr` is a number: `"invsqrt"` (`lr / sqrt(t + 1)`),
        `"constant"` or `"inverse"` (`lr / (t + 1)`).
    intercept_lr
        The intercept's own constant rate; 0 freezes it. With `lr="auto"` each of the eight has a
        rate that falls as its weights' does, and is in proportion to this one.
    intercept_init
        Where the intercept starts.
    clip_gradient
        The most that the derivative of the loss counts for.
    average
        Tell the mean of the weights after each step so far, and of the intercept, in place of the
        last ones: in predictions, `weights` and all counts. What is learnt is the same. A weight
        that was ever other than zero stays in the mean. `stamps` then makes no difference.
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
    >>> model = preprocessing.StandardScaler() | streaml1.ElasticNetRegressor(
    ...     l1=1e-3, intercept_lr=0.1
    ... )
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 1.462813

    References
    ----------
    [^1]: Lipton, Z.C. and Elkan, C., 2015. Efficient elastic net regularization for sparse linear
          models: Algorithm 1, Eq. (2), Eq. (3), Theorem 2.
    [^2]: Duchi, J. and Singer, Y., 2009. Efficient learning using forward-backward splitting.
          Advances in Neural Information Processing Systems 22.
    """

    def __init__(
        self,
        *,
        l1: float = 0.0,
        l2: float = 0.0,
        update: str = "fobos",
        stamps: str = "folded",
        budget: int = 2**20,
        loss: str = "squared",
        lr: Any = 0.1,
        schedule: str = "invsqrt",
        intercept_lr: float = 0.01,
        intercept_init: float = 0.0,
        clip_gradient: float = 1e12,
        average: bool = False,
        max_features: int | None = None,
        hash_bits: int | None = None,
        cross: Iterable[Sequence[str]] | None = None,
        text: Sequence[str] | None = None,
        ngrams: int = 1,
    ) -> None:
        self.l1 = l1
        self.l2 = l2
        self.update = update
        self.stamps = stamps
        self.budget = budget
        self.loss = loss
        self.lr = lr
        self.schedule = schedule
        self.intercept_lr = intercept_lr
        self.intercept_init = intercept_init
        self.clip_gradient = clip_gradient
        self.average = average
        self.max_features = max_features
        self.hash_bits = hash_bits
        self.cross = cross
        self.text = text
        self.ngrams = ngrams
        self._begin()

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"l1": 1e-3, "l2": 1e-2, "update": "sgd", "schedule": "constant", "lr": 0.01}
        yield {"l1": 1e-4, "loss": "absolute"}
        yield {"l1": 1e-3, "l2": 1e-2, "stamps": "explicit", "budget": 50}
        yield {"l1": 1e-3, "l2": 1e-2, "average": True}
        yield {"l1": 1e-3, "lr": "auto"}
