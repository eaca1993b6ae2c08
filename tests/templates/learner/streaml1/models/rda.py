"""Regularized dual averaging (Xiao 2010)."""

from __future__ import annotations

from typing import Any

from streaml1.models.base import OnlineClassifier
from streaml1.models.comparator import ComparatorSpec, elastic_net_weights
from streaml1.models.hyperparameters import RDAParameters
from streaml1.optim.rda import RDA
from streaml1.optim.rule_state import new_state

__all__ = ["RDAClassifier"]


class RDAClassifier(RDAParameters, OnlineClassifier):
    """Online logistic regression or linear SVM by regularized dual averaging.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> import streaml1
    >>> model = preprocessing.StandardScaler() | streaml1.RDAClassifier(l1=1e-3)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.342786

    References
    ----------
    [^1]: Xiao, L., 2010. Dual averaging methods for regularized stochastic learning and online
          optimization. Journal of Machine Learning Research 11.
    """

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        self._state.rule.clock[0].l1 = float(self.l1)

    def _rule(self) -> Any:
        rule = new_state(RDA, 0)
        rule.clock[0].l1 = float(self.l1)
        return rule

    def _comparator(self) -> ComparatorSpec:
        return elastic_net_weights(self.l1, 0.0)
