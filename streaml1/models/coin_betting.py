"""Coin betting (Orabona & Tommasi 2017)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.comparator import ComparatorSpec, elastic_net_weights
from streaml1.models.hyperparameters import CoinBettingParameters
from streaml1.optim.coin_betting import CoinBetting
from streaml1.optim.losses import CODES

__all__ = ["CoinBettingClassifier", "CoinBettingRegressor"]


class _CoinBetting(CoinBettingParameters, OnlineModel):
    @property
    def _is_scaled(self) -> bool:
        return True

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        clock = self._state.rule.clock[0]
        clock.wealth, clock.l1 = float(self.wealth), float(self.l1)
        if clock.l1 < clock.l1_now:  # weights within the old threshold may exceed the new one
            self._state.recount()

    def _rule(self) -> Any:
        return CoinBetting.start(0, float(self.wealth), float(self.l1), CODES[self.loss])

    def _comparator(self) -> ComparatorSpec:
        return elastic_net_weights(0.0, 0.0)  # l1 is a threshold of gradients, not of weights

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"wealth": 2.0, "l1": 0.3}
        yield {"loss": cls._other_loss, "intercept_lr": 0.0}


class CoinBettingClassifier(_CoinBetting, OnlineClassifier):
    """Online logistic regression or linear SVM by coin betting, without a learning rate.

    Each weight is a bet on the next gradient, and grows with the bets that it wins. Each feature is
    scaled by the mean size of its values, and values beyond three times that mean are clipped: no
    scaler is needed. A weight is zero as long as the sum of its gradients is at most `l1` in
    absolute value.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streaml1
    >>> model = streaml1.CoinBettingClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.370816

    References
    ----------
    [^1]: Orabona, F. and Tommasi, T., 2017. Training deep networks without learning rates through
          coin betting. Advances in Neural Information Processing Systems 30.
    """


class CoinBettingRegressor(_CoinBetting, OnlineRegressor):
    """Online linear regression by coin betting, without a learning rate.

    Each weight is a bet on the next gradient, and grows with the bets that it wins. Each feature is
    scaled by the mean size of its values, and values beyond three times that mean are clipped; the
    wealth is scaled by the mean size of the labels: no scaler is needed for either. A weight is
    zero as long as the sum of its gradients is at most `l1` in absolute value.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streaml1
    >>> model = streaml1.CoinBettingRegressor()
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.320645

    References
    ----------
    [^1]: Orabona, F. and Tommasi, T., 2017. Training deep networks without learning rates through
          coin betting. Advances in Neural Information Processing Systems 30.
    """
