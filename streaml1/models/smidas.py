"""SMIDAS: stochastic mirror descent made sparse (Shalev-Shwartz & Tewari 2009)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.comparator import ComparatorSpec, elastic_net_weights
from streaml1.models.hyperparameters import SMIDASParameters
from streaml1.optim.smidas import SMIDAS

__all__ = ["SMIDASClassifier", "SMIDASRegressor"]


class _SMIDAS(SMIDASParameters, OnlineModel):
    @property
    def _power(self) -> float:
        if self.p is not None:
            return float(self.p)
        return max(2.0, 2.0 * math.log(float(self.n_features)))

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        rule = self._state.rule
        rule.clock[0].l1 = float(self.l1)
        if rule.norm[0].p != self._power:  # a clone that adopts state made with another p
            rule.set_p(self._power)

    def _rule(self) -> Any:
        return SMIDAS.start(0, float(self.l1), self._power)

    def _comparator(self) -> ComparatorSpec:
        return elastic_net_weights(self.l1, 0.0)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"l1": 1e-3, "p": 2, "n_features": 20, "lr": 0.3}
        yield {"l1": 1e-3, "p": 40.5, "loss": cls._other_loss}


class SMIDASClassifier(_SMIDAS, OnlineClassifier):
    """Online logistic regression or linear SVM by sparse mirror descent.

    Each step is a step of stochastic gradient descent with soft thresholding on dual weights theta.
    The weights are the image of theta under the p-norm link. A large p favours few large weights:
    the regret grows with the logarithm of the number of features. p = 2 is the truncated gradient.

    Notes
    -----
    `n_nonzero` and `weights` count a weight as non-zero if its theta is non-zero, even if the
    weight itself underflows to 0.0.

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


class SMIDASRegressor(_SMIDAS, OnlineRegressor):
    """Online linear regression by sparse mirror descent.

    Scale the features first: the squared loss diverges on large values, and more easily for a large
    p.

    Notes
    -----
    `n_nonzero` and `weights` count a weight as non-zero if its theta is non-zero, even if the
    weight itself underflows to 0.0.

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
