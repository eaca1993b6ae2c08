"""FoBoS with a norm of the whole weight vector (Duchi & Singer 2009, Section 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.comparator import ComparatorSpec
from streaml1.models.hyperparameters import FOBOSParameters
from streaml1.optim.fobos_l2 import FobosL2
from streaml1.optim.fobos_linf import FobosLinf

__all__ = ["FOBOSClassifier", "FOBOSRegressor"]


class _FOBOS(FOBOSParameters, OnlineModel):
    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        self._state.rule.clock[0].strength = float(self.strength)

    def _rule(self) -> Any:
        rule: Any = FobosL2 if self.norm == "l2" else FobosLinf
        return rule.start(0, float(self.strength))

    def _comparator(self) -> ComparatorSpec:
        return ComparatorSpec(
            f"all weights, with {self.strength:g} times their {self.norm} norm in each step",
            {"penalty": self.norm, "strength": self.strength},
            "each step" if self.strength > 0.0 else "never",
        )


class FOBOSClassifier(_FOBOS, OnlineClassifier):
    """Online logistic regression or linear SVM with FoBoS and a norm of the weight vector.

    Each example is followed by the proximal step of a norm of the whole weight vector. With
    `norm="l2"` all weights shrink by the same factor, and become zero once their norm is small.
    With `norm="linf"` the largest weights are cut to a common level.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> import streaml1
    >>> model = preprocessing.StandardScaler() | streaml1.FOBOSClassifier(
    ...     strength=1e-2, norm="linf"
    ... )
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.343758

    References
    ----------
    [^1]: Duchi, J. and Singer, Y., 2009. Efficient learning using forward-backward splitting.
          Advances in Neural Information Processing Systems 22, Section 4.
    """

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"strength": 1e-2, "norm": "linf", "schedule": "constant", "loss": "hinge"}


class FOBOSRegressor(_FOBOS, OnlineRegressor):
    """Online linear regression with FoBoS and a norm of the weight vector.

    Each example is followed by the proximal step of a norm of the whole weight vector. With
    `norm="l2"` all weights shrink by the same factor, and become zero once their norm is small.
    With `norm="linf"` the largest weights are cut to a common level.

    Scale the features first: the squared loss at a learning rate of 0.1 diverges on values in the
    thousands.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> import streaml1
    >>> model = preprocessing.StandardScaler() | streaml1.FOBOSRegressor(
    ...     strength=1e-3, intercept_lr=0.1
    ... )
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 1.464302

    References
    ----------
    [^1]: Duchi, J. and Singer, Y., 2009. Efficient learning using forward-backward splitting.
          Advances in Neural Information Processing Systems 22, Section 4.
    """

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"strength": 1e-2, "norm": "linf", "schedule": "constant", "lr": 0.01}
