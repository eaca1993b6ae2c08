"""Truncated gradient (Langford, Li & Zhang 2009)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.comparator import ComparatorSpec, elastic_net_weights
from streaml1.models.hyperparameters import TruncatedGradientParameters
from streaml1.optim.averaged_truncated_gradient import AveragedTruncatedGradient
from streaml1.optim.truncated_gradient import TruncatedGradient

__all__ = ["TruncatedGradientClassifier", "TruncatedGradientRegressor"]


class _TruncatedGradient(TruncatedGradientParameters, OnlineModel):
    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        clock = self._state.rule.clock[0]
        clock.gravity, clock.period = float(self.gravity), int(self.period)
        clock.threshold = float(self.threshold)

    def _rule(self) -> Any:
        kind = AveragedTruncatedGradient if self.average else TruncatedGradient
        return kind.start(0, float(self.gravity), int(self.period), float(self.threshold))

    def _comparator(self) -> ComparatorSpec:
        if self.threshold < math.inf:
            raise ValueError(
                "the regret of a truncated gradient requires threshold=inf, got "
                f"{self.threshold:g}: the penalty is not convex"
            )
        return elastic_net_weights(self.gravity, 0.0)


class TruncatedGradientClassifier(_TruncatedGradient, OnlineClassifier):
    """Online logistic regression or linear SVM with truncated gradient.

    Every `period` steps, all weights with an absolute value of at most `threshold` move towards
    zero by `period * rate * gravity`, but not past it. Larger weights stay as they are.

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

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"gravity": 1e-3, "threshold": 0.3, "schedule": "constant", "loss": "hinge"}
        yield {"gravity": 1e-2, "period": 3, "threshold": 0.2, "average": True}


class TruncatedGradientRegressor(_TruncatedGradient, OnlineRegressor):
    """Online linear regression with truncated gradient.

    Every `period` steps, all weights with an absolute value of at most `threshold` move towards
    zero by `period * rate * gravity`, but not past it. Larger weights stay as they are.

    Scale the features first: the squared loss at a learning rate of 0.1 diverges on values in the
    thousands.

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

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"gravity": 1e-3, "threshold": 0.3, "schedule": "constant", "lr": 0.01}
        yield {"gravity": 1e-2, "period": 3, "threshold": 0.2, "average": True}
