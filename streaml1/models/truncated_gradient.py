"""Truncated gradient."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.parameters import Parameter, flag, number, whole
from streaml1.optim.averaged_truncated_gradient import AveragedTruncatedGradient
from streaml1.optim.truncated_gradient import TruncatedGradient

__all__ = ["TruncatedGradientClassifier", "TruncatedGradientRegressor"]


class _TruncatedGradient(OnlineModel):
    gravity = Parameter(number(0.0, 1e30))
    period = Parameter(whole(1, 2**31))
    threshold = Parameter(number(0.0, math.inf))
    average = Parameter(flag, fixed=True)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"gravity", "period", "threshold"}

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        clock = self._engine.rule.clock[0]
        clock.gravity, clock.period = float(self.gravity), int(self.period)
        clock.threshold = float(self.threshold)

    def _rule(self) -> Any:
        kind = AveragedTruncatedGradient if self.average else TruncatedGradient
        return kind.start(0, float(self.gravity), int(self.period), float(self.threshold))


class TruncatedGradientClassifier(_TruncatedGradient, OnlineClassifier):
    """Logistic regression or linear SVM with truncated gradient, learnt online.

    In every `period`-th step all weights of a size up to `threshold` move by
    `period * rate * gravity` towards zero, and not past it. Large weights are left alone.

    Parameters
    ----------
    gravity
        How strongly weights are pulled to zero, from 0.
    period
        In which steps: those whose number, from 1, is a multiple of it.
    threshold
        Weights farther from zero than this are not pulled.
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
    average
        Tell the mean of the weights after each step so far, and of the intercept, in place of the
        last ones: in predictions, `weights` and all counts. What is learnt is the same. A weight
        that was ever other than zero stays in the mean.
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
    >>> model = preprocessing.StandardScaler() | streaml1.TruncatedGradientClassifier(
    ...     gravity=1e-3, period=10, threshold=0.5
    ... )
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.342524

    References
    ----------
    [^1]: Langford, J., Li, L. and Zhang, T., 2009. Sparse online learning via truncated gradient.
          Journal of Machine Learning Research 10.
    """

    def __init__(
        self,
        *,
        gravity: float = 1e-4,
        period: int = 1,
        threshold: float = math.inf,
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
        self.gravity = gravity
        self.period = period
        self.threshold = threshold
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
        yield {"gravity": 1e-3, "threshold": 0.3, "schedule": "constant", "loss": "hinge"}
        yield {"gravity": 1e-2, "period": 3, "threshold": 0.2, "average": True}


class TruncatedGradientRegressor(_TruncatedGradient, OnlineRegressor):
    """Linear regression with truncated gradient, learnt online.

    In every `period`-th step all weights of a size up to `threshold` move by
    `period * rate * gravity` towards zero, and not past it. Large weights are left alone. Scale
    the features first: the squared loss at a rate of 0.1 diverges on values in the thousands.

    Parameters
    ----------
    gravity
        How strongly weights are pulled to zero, from 0.
    period
        In which steps: those whose number, from 1, is a multiple of it.
    threshold
        Weights farther from zero than this are not pulled.
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
    average
        Tell the mean of the weights after each step so far, and of the intercept, in place of the
        last ones: in predictions, `weights` and all counts. What is learnt is the same. A weight
        that was ever other than zero stays in the mean.
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
    >>> model = preprocessing.StandardScaler() | streaml1.TruncatedGradientRegressor(
    ...     gravity=1e-3, intercept_lr=0.1
    ... )
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 1.462813

    References
    ----------
    [^1]: Langford, J., Li, L. and Zhang, T., 2009. Sparse online learning via truncated gradient.
          Journal of Machine Learning Research 10.
    """

    def __init__(
        self,
        *,
        gravity: float = 1e-4,
        period: int = 1,
        threshold: float = math.inf,
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
        self.gravity = gravity
        self.period = period
        self.threshold = threshold
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
        yield {"gravity": 1e-3, "threshold": 0.3, "schedule": "constant", "lr": 0.01}
        yield {"gravity": 1e-2, "period": 3, "threshold": 0.2, "average": True}
