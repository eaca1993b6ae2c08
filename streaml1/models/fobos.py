"""FoBoS with a norm of the whole vector."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.parameters import Parameter, choice, number
from streaml1.optim.fobos_l2 import FobosL2
from streaml1.optim.fobos_linf import FobosLinf

__all__ = ["FOBOSClassifier", "FOBOSRegressor"]


class _FOBOS(OnlineModel):
    strength = Parameter(number(0.0, 1e30))
    norm = Parameter(choice("l2", "linf"), fixed=True)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"strength"}

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        self._engine.rule.clock[0].strength = float(self.strength)

    def _rule(self) -> Any:
        rule: Any = FobosL2 if self.norm == "l2" else FobosLinf
        return rule.start(0, float(self.strength))


class FOBOSClassifier(_FOBOS, OnlineClassifier):
    """Logistic regression or linear SVM with FoBoS and a norm of all weights, learnt online.

    After each example comes the proximal step of a norm of the whole weight vector: with `"l2"` all
    weights shrink by the same factor, and are zero once their norm is small; with `"linf"` the
    largest are cut to a common level.

    Parameters
    ----------
    strength
        Strength of the norm (not squared), from 0.
    norm
        `"l2"` (the root of the sum of squares) or `"linf"` (the largest).
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
    >>> model = preprocessing.StandardScaler() | streaml1.FOBOSClassifier(
    ...     strength=1e-2, norm="linf"
    ... )
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.343758

    References
    ----------
    [^1]: Duchi, J. and Singer, Y., 2009. Efficient learning using forward-backward splitting.
          Advances in Neural Information Processing Systems 22, Section 4.
    """

    def __init__(
        self,
        *,
        strength: float = 1e-4,
        norm: str = "l2",
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
        self.strength = strength
        self.norm = norm
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
        yield {"strength": 1e-2, "norm": "linf", "schedule": "constant", "loss": "hinge"}


class FOBOSRegressor(_FOBOS, OnlineRegressor):
    """Linear regression with FoBoS and a norm of all weights, learnt online.

    After each example comes the proximal step of a norm of the whole weight vector: with `"l2"` all
    weights shrink by the same factor, and are zero once their norm is small; with `"linf"` the
    largest are cut to a common level. Scale the features
    first: the squared loss at a rate of 0.1 diverges on values in the thousands.

    Parameters
    ----------
    strength
        Strength of the norm (not squared), from 0.
    norm
        `"l2"` (the root of the sum of squares) or `"linf"` (the largest).
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
    >>> model = preprocessing.StandardScaler() | streaml1.FOBOSRegressor(
    ...     strength=1e-3, intercept_lr=0.1
    ... )
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 1.464302

    References
    ----------
    [^1]: Duchi, J. and Singer, Y., 2009. Efficient learning using forward-backward splitting.
          Advances in Neural Information Processing Systems 22, Section 4.
    """

    def __init__(
        self,
        *,
        strength: float = 1e-4,
        norm: str = "l2",
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
        self.strength = strength
        self.norm = norm
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
        yield {"strength": 1e-2, "norm": "linf", "schedule": "constant", "lr": 0.01}
