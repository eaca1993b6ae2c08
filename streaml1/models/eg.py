"""The exponentiated gradient: EG+- and EG (Kivinen & Warmuth 1997)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.comparator import ComparatorSpec, weights_in_l1_ball
from streaml1.models.hyperparameters import EGParameters
from streaml1.optim.eg import EG

__all__ = ["EGClassifier", "EGRegressor"]


class _EG(EGParameters, OnlineModel):
    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        self._state.rule.clock[0].R = float(self.radius)

    def _rule(self) -> Any:
        return EG.start(0, float(self.radius), int(self.n_features), self.nonnegative)

    def _comparator(self) -> ComparatorSpec:
        return weights_in_l1_ball(self.radius, self.nonnegative)


class EGClassifier(_EG, OnlineClassifier):
    """Online logistic regression or linear SVM by the exponentiated gradient.

    The l1 norm of the weights never exceeds `radius`, as with projection onto the l1 ball, but
    updates multiply the weights instead of adding to them. The weight of a feature that was seen
    never becomes exactly zero.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> import streaml1
    >>> model = preprocessing.StandardScaler() | streaml1.EGClassifier(n_features=9)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.334680

    References
    ----------
    [^1]: Kivinen, J. and Warmuth, M.K., 1997. Exponentiated gradient versus gradient descent for
          linear predictors. Information and Computation 132.
    """

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"radius": 3, "n_features": 500, "lr": 0.3, "schedule": "constant"}
        yield {"n_features": 100, "nonnegative": True, "loss": "smoothed_hinge"}


class EGRegressor(_EG, OnlineRegressor):
    """Online linear regression by the exponentiated gradient.

    The l1 norm of the weights never exceeds `radius`, as with projection onto the l1 ball, but
    updates multiply the weights instead of adding to them. The weight of a feature that was seen
    never becomes exactly zero.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> import streaml1
    >>> model = preprocessing.StandardScaler() | streaml1.EGRegressor(
    ...     n_features=6, lr=0.01, intercept_lr=0.1
    ... )
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.938419

    References
    ----------
    [^1]: Kivinen, J. and Warmuth, M.K., 1997. Exponentiated gradient versus gradient descent for
          linear predictors. Information and Computation 132.
    """

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"radius": 3, "n_features": 500, "lr": 0.03, "schedule": "constant"}
        yield {"n_features": 100, "nonnegative": True, "loss": "absolute"}
