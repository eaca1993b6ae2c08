"""FTRL-Proximal (McMahan et al. 2013)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.comparator import ComparatorSpec
from streaml1.models.hyperparameters import FTRLParameters
from streaml1.optim.ftrl import FTRL

__all__ = ["FTRLClassifier", "FTRLRegressor"]


class _FTRL(FTRLParameters, OnlineModel):
    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        clock = self._engine.rule.clock[0]
        clock.alpha, clock.beta = float(self.alpha), float(self.beta)
        clock.l1, clock.l2 = float(self.l1), float(self.l2)
        if clock.l1 < clock.l1_now:  # weights within the old threshold may exceed the new one
            self._engine.recount()

    def _rule(self) -> Any:
        return FTRL.start(0, float(self.alpha), float(self.beta), float(self.l1), float(self.l2))

    def _comparator(self) -> ComparatorSpec:
        description = f"all weights, with l1 = {self.l1:g} and l2 = {self.l2:g} once"
        return ComparatorSpec(description, {"l1": self.l1, "l2": self.l2}, "once")


class FTRLClassifier(_FTRL, OnlineClassifier):
    """Online logistic regression or linear SVM by FTRL-Proximal.

    Each feature has its own learning rate, about `alpha / (beta + sqrt(sum of squared gradients))`.
    A weight is zero as long as the sum of its gradients, corrected for the moves of the weight, is
    at most `l1` in absolute value.

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

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"alpha": 0.5, "l1": 0.1, "l2": 0.5}
        yield {"l1": 0.0, "loss": "smoothed_hinge"}


class FTRLRegressor(_FTRL, OnlineRegressor):
    """Online linear regression by FTRL-Proximal.

    Each feature has its own learning rate, about `alpha / (beta + sqrt(sum of squared gradients))`.
    A weight is zero as long as the sum of its gradients, corrected for the moves of the weight, is
    at most `l1` in absolute value.

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

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"alpha": 0.5, "l1": 0.1, "l2": 0.5}
        yield {"l1": 0.0, "loss": "absolute"}
