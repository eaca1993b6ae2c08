"""The l1 ball."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.parameters import Parameter, choice, flag, number
from streaml1.optim.l1_ball import L1Ball
from streaml1.optim.l1_ball_tree import L1BallTree

__all__ = ["L1BallClassifier", "L1BallRegressor"]

INDEXES: dict[str, Any] = {"wheel": L1Ball, "tree": L1BallTree}


class _L1Ball(OnlineModel):
    radius = Parameter(number(1e-30, 1e30))
    nonnegative = Parameter(flag, fixed=True)
    index = Parameter(choice(*INDEXES), fixed=True)

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"radius"}

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        self._engine.rule.set_radius(float(self.radius))

    def _rule(self) -> Any:
        return INDEXES[self.index].start(0, float(self.radius), self.nonnegative)


class L1BallClassifier(_L1Ball, OnlineClassifier):
    """Logistic regression or linear SVM in an l1 ball, learnt online.

    After the gradient step of each example the weights are projected on the ball, exactly. A step
    costs time in the non-zeros of the example alone, amortised. The smaller the radius, the fewer
    weights there are.

    Parameters
    ----------
    radius
        The most that the distances of the weights from zero may add up to, from 1e-30 to 1e30.
        When it shrinks, the next step projects.
    nonnegative
        Whether no weight may be below zero: those that a step takes there become zero, and then
        the others are projected.
    index
        How the weights that become zero are found: `"wheel"` (a timing wheel) or `"tree"` (the
        paper's balanced tree). Both learn the same, to the bit; the wheel is faster.
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
    >>> model = preprocessing.StandardScaler() | streaml1.L1BallClassifier(radius=2.0)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.373532
    >>> sum(map(abs, model["L1BallClassifier"].weights.values())) <= 2.0
    True

    References
    ----------
    [^1]: Duchi, J., Shalev-Shwartz, S., Singer, Y. and Chandra, T., 2008. Efficient projections
          onto the l1-ball for learning in high dimensions. ICML: section 6, Figure 3.
    """

    def __init__(
        self,
        *,
        radius: float = 10.0,
        nonnegative: bool = False,
        index: str = "wheel",
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
        self.nonnegative = nonnegative
        self.index = index
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
        yield {"radius": 0.5, "index": "tree"}
        yield {"radius": 1.0, "nonnegative": True, "loss": "smoothed_hinge"}


class L1BallRegressor(_L1Ball, OnlineRegressor):
    """Linear regression in an l1 ball, learnt online.

    Scale the features first: the squared loss at a rate of 0.1 diverges on values in the
    thousands.

    Parameters
    ----------
    radius
        The most that the distances of the weights from zero may add up to, from 1e-30 to 1e30.
        When it shrinks, the next step projects.
    nonnegative
        Whether no weight may be below zero: those that a step takes there become zero, and then
        the others are projected.
    index
        How the weights that become zero are found: `"wheel"` (a timing wheel) or `"tree"` (the
        paper's balanced tree). Both learn the same, to the bit; the wheel is faster.
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
    >>> model = preprocessing.StandardScaler() | streaml1.L1BallRegressor(
    ...     radius=5.0, intercept_lr=0.1
    ... )
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.613394

    References
    ----------
    [^1]: Duchi, J., Shalev-Shwartz, S., Singer, Y. and Chandra, T., 2008. Efficient projections
          onto the l1-ball for learning in high dimensions. ICML: section 6, Figure 3.
    """

    def __init__(
        self,
        *,
        radius: float = 10.0,
        nonnegative: bool = False,
        index: str = "wheel",
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
        self.nonnegative = nonnegative
        self.index = index
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
        yield {"radius": 0.5, "index": "tree"}
        yield {"radius": 1.0, "nonnegative": True, "loss": "absolute"}
