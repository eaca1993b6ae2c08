"""SMIDAS: mirror descent made sparse."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.parameters import Parameter, number
from streaml1.optim.smidas import SMIDAS

__all__ = ["SMIDASClassifier", "SMIDASRegressor"]

_POWER = number(2.0, 100.0)


def _power(name: str, value: Any) -> Any:
    return None if value is None else _POWER(name, value)


class _SMIDAS(OnlineModel):
    l1 = Parameter(number(0.0, 1e30))
    p = Parameter(_power, fixed=True)
    n_features = Parameter(number(1.0, 2.0**64), fixed=True)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"l1"}

    @property
    def _power(self) -> float:
        if self.p is not None:
            return float(self.p)
        return max(2.0, 2.0 * math.log(float(self.n_features)))

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        rule = self._engine.rule
        rule.clock[0].l1 = float(self.l1)
        if rule.norm[0].p != self._power:  # a clone with its state and another p
            rule.set_p(self._power)

    def _rule(self) -> Any:
        return SMIDAS.start(0, float(self.l1), self._power)


class SMIDASClassifier(_SMIDAS, OnlineClassifier):
    """Logistic regression or linear SVM by mirror descent made sparse, learnt online.

    A step is one of stochastic gradient descent with soft thresholding on dual weights theta; the
    weights are their image under the p-norm link. A large p favours few large weights: its regret
    grows with the logarithm of the number of features. p = 2 is the truncated gradient.

    Parameters
    ----------
    l1
        Strength of the l1 penalty, from 0.
    p
        The norm, from 2 to 100; None is `max(2, 2 * log(n_features))`.
    n_features
        How many features there may be: sets p where that is None, and nothing else.
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

    Notes
    -----
    `n_nonzero` and `weights` go by theta: a weight whose theta is not zero is not zero, even where
    its power is too small for a float.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> import streaml1
    >>> model = preprocessing.StandardScaler() | streaml1.SMIDASClassifier(p=4)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.406440

    References
    ----------
    [^1]: Shalev-Shwartz, S. and Tewari, A., 2009. Stochastic methods for l1 regularized loss
          minimization. Proceedings of the 26th International Conference on Machine Learning:
          Algorithm 3.
    """

    def __init__(
        self,
        *,
        l1: float = 1e-4,
        p: float | None = None,
        n_features: float = 2**20,
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
        self.l1 = l1
        self.p = p
        self.n_features = n_features
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
        yield {"l1": 1e-3, "p": 2, "n_features": 20, "lr": 0.3}
        yield {"l1": 1e-3, "p": 40.5, "loss": "smoothed_hinge"}


class SMIDASRegressor(_SMIDAS, OnlineRegressor):
    """Linear regression by mirror descent made sparse, learnt online.

    Scale the features first: the squared loss diverges on large values, the sooner the larger p.

    Parameters
    ----------
    l1
        Strength of the l1 penalty, from 0.
    p
        The norm, from 2 to 100; None is `max(2, 2 * log(n_features))`.
    n_features
        How many features there may be: sets p where that is None, and nothing else.
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

    Notes
    -----
    `n_nonzero` and `weights` go by theta: a weight whose theta is not zero is not zero, even where
    its power is too small for a float.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> import streaml1
    >>> model = preprocessing.StandardScaler() | streaml1.SMIDASRegressor(
    ...     p=3, lr=0.03, intercept_lr=0.1
    ... )
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.881281

    References
    ----------
    [^1]: Shalev-Shwartz, S. and Tewari, A., 2009. Stochastic methods for l1 regularized loss
          minimization. Proceedings of the 26th International Conference on Machine Learning:
          Algorithm 3.
    """

    def __init__(
        self,
        *,
        l1: float = 1e-4,
        p: float | None = None,
        n_features: float = 2**20,
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
        self.l1 = l1
        self.p = p
        self.n_features = n_features
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
        yield {"l1": 1e-3, "p": 2, "n_features": 20, "lr": 0.3}
        yield {"l1": 1e-3, "p": 40.5, "loss": "absolute"}
