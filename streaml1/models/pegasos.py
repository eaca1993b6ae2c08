"""Pegasos."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from streaml1.models.base import OnlineClassifier
from streaml1.models.own_rates import OwnRates, only
from streaml1.models.parameters import Parameter, choice, flag, number
from streaml1.optim.averaged_pegasos import AveragedPegasos
from streaml1.optim.pegasos import Pegasos

__all__ = ["PegasosClassifier"]


class PegasosClassifier(OwnRates, OnlineClassifier):
    """Linear SVM by Pegasos, learnt online.

    The plain baseline: its one parameter is the strength of the penalty, which sets the rate too,
    `1 / (l2 * t)` in the t-th step. No weight is ever put to zero.

    Parameters
    ----------
    l2
        Strength of the squared l2 penalty (half the squared norm), above 0.
    project
        Whether the weights are scaled into the ball of radius `1 / sqrt(l2)` after each step.
    loss
        `"hinge"`, the only one.
    intercept_lr
        The intercept's own constant rate; 0 freezes it.
    intercept_init
        Where the intercept starts.
    clip_gradient
        The most that the derivative of the loss counts for.
    average
        Tell the mean of the weights after each step so far, and of the intercept, in place of the
        last ones: in predictions, `weights` and all counts. What is learnt is the same.
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
    >>> model = preprocessing.StandardScaler() | streaml1.PegasosClassifier(l2=1e-2)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    Accuracy: 87.12%

    References
    ----------
    [^1]: Shalev-Shwartz, S., Singer, Y. and Srebro, N., 2007. Pegasos: primal estimated
          sub-gradient solver for SVM. Proceedings of the 24th ICML.
    """

    loss = Parameter(choice("hinge"))
    schedule = Parameter(only("inverse"))
    l2 = Parameter(number(1e-10, 1e10))
    project = Parameter(flag)
    average = Parameter(flag, fixed=True)

    _own_schedule = "inverse"

    def __init__(
        self,
        *,
        l2: float = 1e-4,
        project: bool = True,
        loss: str = "hinge",
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
        self.l2 = l2
        self.project = project
        self.loss = loss
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

    @property
    def _mutable_attributes(self) -> set[str]:
        return super()._mutable_attributes | {"l2", "project"}

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        clock = self._engine.rule.clock[0]
        clock.l2, clock.project = float(self.l2), bool(self.project)

    def _rule(self) -> Any:
        kind = AveragedPegasos if self.average else Pegasos
        return kind.start(0, float(self.l2), bool(self.project))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"l2": 1e-2, "project": False}
        yield {"l2": 1e-2, "average": True}
