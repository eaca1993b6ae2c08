"""Projection onto the l1 ball (Duchi et al. 2008)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.comparator import ComparatorSpec, weights_in_l1_ball
from streaml1.models.hyperparameters import L1BallParameters
from streaml1.optim.l1_ball import L1Ball
from streaml1.optim.l1_ball_tree import L1BallTree

__all__ = ["L1BallClassifier", "L1BallRegressor"]

INDEXES: dict[str, Any] = {"wheel": L1Ball, "tree": L1BallTree}


class _L1Ball(L1BallParameters, OnlineModel):
    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        self._state.rule.set_radius(float(self.radius))

    def _rule(self) -> Any:
        return INDEXES[self.index].start(0, float(self.radius), self.nonnegative)

    def _comparator(self) -> ComparatorSpec:
        return weights_in_l1_ball(self.radius, self.nonnegative)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"radius": 0.5, "index": "tree"}
        yield {"radius": 1.0, "nonnegative": True, "loss": cls._other_loss}


class L1BallClassifier(_L1Ball, OnlineClassifier):
    """Online logistic regression or linear SVM with weights in an l1 ball.

    After the gradient step of each example the weights are projected onto the ball, exactly. A
    step costs amortized time in the number of non-zeros of the example only. The smaller the
    radius, the fewer weights are non-zero.

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


class L1BallRegressor(_L1Ball, OnlineRegressor):
    """Online linear regression with weights in an l1 ball.

    Scale the features first: the squared loss at a learning rate of 0.1 diverges on values in the
    thousands.

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
