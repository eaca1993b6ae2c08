"""FTRL-Proximal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineRegressor
from streaml1.models.own_rates import OwnRates
from streaml1.models.parameters import Parameter, number
from streaml1.optim.ftrl import FTRL

__all__ = ["FTRLClassifier", "FTRLRegressor"]


class _FTRL(OwnRates):
    alpha = Parameter(number(1e-100, 1e10))
    beta = Parameter(number(1e-100, 1e10))
    l1 = Parameter(number(0.0, 1e30))
    l2 = Parameter(number(0.0, 1e30))

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"alpha", "beta", "l1", "l2"}

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        clock = self._engine.rule.clock[0]
        clock.alpha, clock.beta = float(self.alpha), float(self.beta)
        clock.l1, clock.l2 = float(self.l1), float(self.l2)
        if clock.l1 < clock.l1_now:  # what was within l1 may be beyond the new one
            self._engine.recount()

    def _rule(self) -> Any:
        return FTRL.start(0, float(self.alpha), float(self.beta), float(self.l1), float(self.l2))


class FTRLClassifier(_FTRL, OnlineClassifier):
    """Logistic regression or linear SVM by FTRL-Proximal, learnt online.

    Each feature has a rate of its own, about `alpha / (beta + sqrt(sum of squared gradients))`. A
    weight is zero where the sum of its gradients, less what it has moved for, is at most `l1`.

    Parameters
    ----------
    alpha
        How large the rates are.
    beta
        How slowly they fall at first.
    l1
        Strength of the l1 penalty, from 0: of a sum over all examples, not of each.
    l2
        Strength of the squared l2 penalty, from 0: of a sum over all examples, not of each.
    loss
        `"logistic"`, `"hinge"` or `"smoothed_hinge"` (of width 1).
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
    >>> model = preprocessing.StandardScaler() | streaml1.FTRLClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.297079

    References
    ----------
    [^1]: McMahan, H.B. et al., 2013. Ad click prediction: a view from the trenches. Proceedings
          of the 19th ACM SIGKDD conference: Algorithm 1.
    """

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        beta: float = 1.0,
        l1: float = 1.0,
        l2: float = 0.0,
        loss: str = "logistic",
        intercept_lr: float = 0.01,
        intercept_init: float = 0.0,
        clip_gradient: float = 1e12,
        max_features: int | None = None,
        hash_bits: int | None = None,
        cross: Iterable[Sequence[str]] | None = None,
        text: Sequence[str] | None = None,
        ngrams: int = 1,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.l1 = l1
        self.l2 = l2
        self.loss = loss
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
        yield {"alpha": 0.5, "l1": 0.1, "l2": 0.5}
        yield {"l1": 0.0, "loss": "smoothed_hinge"}


class FTRLRegressor(_FTRL, OnlineRegressor):
    """Linear regression by FTRL-Proximal, learnt online.

    Each feature has a rate of its own, about `alpha / (beta + sqrt(sum of squared gradients))`. A
    weight is zero where the sum of its gradients, less what it has moved for, is at most `l1`.

    Parameters
    ----------
    alpha
        How large the rates are.
    beta
        How slowly they fall at first.
    l1
        Strength of the l1 penalty, from 0: of a sum over all examples, not of each.
    l2
        Strength of the squared l2 penalty, from 0: of a sum over all examples, not of each.
    loss
        `"squared"` (half the squared error) or `"absolute"`.
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
    >>> model = preprocessing.StandardScaler() | streaml1.FTRLRegressor(
    ...     alpha=1.0, intercept_lr=0.1
    ... )
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.981984

    References
    ----------
    [^1]: McMahan, H.B. et al., 2013. Ad click prediction: a view from the trenches. Proceedings
          of the 19th ACM SIGKDD conference: Algorithm 1.
    """

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        beta: float = 1.0,
        l1: float = 1.0,
        l2: float = 0.0,
        loss: str = "squared",
        intercept_lr: float = 0.01,
        intercept_init: float = 0.0,
        clip_gradient: float = 1e12,
        max_features: int | None = None,
        hash_bits: int | None = None,
        cross: Iterable[Sequence[str]] | None = None,
        text: Sequence[str] | None = None,
        ngrams: int = 1,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.l1 = l1
        self.l2 = l2
        self.loss = loss
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
        yield {"alpha": 0.5, "l1": 0.1, "l2": 0.5}
        yield {"l1": 0.0, "loss": "absolute"}
