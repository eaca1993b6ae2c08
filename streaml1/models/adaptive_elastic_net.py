"""Elastic net with AdaGrad's learning rates (Duchi, Hazan & Singer 2011)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.comparator import ComparatorSpec, elastic_net_weights
from streaml1.models.hyperparameters import AdaptiveElasticNetParameters
from streaml1.optim.adaptive_elastic_net import AdaptiveElasticNet

__all__ = ["AdaptiveElasticNetClassifier", "AdaptiveElasticNetRegressor"]


class _AdaptiveElasticNet(AdaptiveElasticNetParameters, OnlineModel):
    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        clock = self._state.rule.clock[0]
        clock.lr, clock.delta = float(self.lr), float(self.delta)
        clock.l1, clock.l2 = float(self.l1), float(self.l2)

    def _rule(self) -> Any:
        return AdaptiveElasticNet.start(
            0, float(self.lr), float(self.delta), float(self.l1), float(self.l2)
        )

    def _comparator(self) -> ComparatorSpec:
        return elastic_net_weights(self.l1, self.l2)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"lr": 1.0, "l1": 1e-3, "l2": 1e-2}
        yield {"delta": 1e-3, "l1": 0.1, "loss": cls._other_loss}


class AdaptiveElasticNetClassifier(_AdaptiveElasticNet, OnlineClassifier):
    """Online logistic regression or linear SVM with AdaGrad's learning rates and an elastic net.

    Each feature has its own learning rate, `lr / (delta + sqrt(sum of squared gradients))`. Every
    step applies the l1 and l2 penalties to all weights, each at its own rate.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> import streaml1
    >>> model = preprocessing.StandardScaler() | streaml1.AdaptiveElasticNetClassifier(l1=1e-3)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.265808

    References
    ----------
    [^1]: Duchi, J., Hazan, E. and Singer, Y., 2011. Adaptive subgradient methods for online
          learning and stochastic optimization. Journal of Machine Learning Research 12.
    """


class AdaptiveElasticNetRegressor(_AdaptiveElasticNet, OnlineRegressor):
    """Online linear regression with AdaGrad's learning rates and an elastic net.

    Each feature has its own learning rate, `lr / (delta + sqrt(sum of squared gradients))`. Every
    step applies the l1 and l2 penalties to all weights, each at its own rate.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> import streaml1
    >>> model = preprocessing.StandardScaler() | streaml1.AdaptiveElasticNetRegressor(
    ...     lr=1.0, intercept_lr=0.1
    ... )
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.991135

    References
    ----------
    [^1]: Duchi, J., Hazan, E. and Singer, Y., 2011. Adaptive subgradient methods for online
          learning and stochastic optimization. Journal of Machine Learning Research 12.
    """
