"""Pegasos (Shalev-Shwartz, Singer & Srebro 2007)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streaml1.models.base import OnlineClassifier
from streaml1.models.comparator import ComparatorSpec, elastic_net_weights
from streaml1.models.hyperparameters import PegasosParameters
from streaml1.optim.averaged_pegasos import AveragedPegasos
from streaml1.optim.pegasos import HINGE_BALL, LOGISTIC_BALL, NO_BALL, Pegasos

__all__ = ["PegasosClassifier"]


class PegasosClassifier(PegasosParameters, OnlineClassifier):
    """Online linear SVM, or logistic regression, by Pegasos.

    The dense baseline. Its only parameter is the strength of the penalty, which also determines the
    learning rate, `1 / (l2 * t)` in the t-th step. It sets no weight to zero.

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

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        clock = self._state.rule.clock[0]
        clock.l2, clock.project = float(self.l2), self._ball()

    def _rule(self) -> Any:
        kind = AveragedPegasos if self.average else Pegasos
        return kind.start(0, float(self.l2), self._ball())

    def _ball(self) -> int:
        if not self.project:
            return NO_BALL
        return HINGE_BALL if self.loss == "hinge" else LOGISTIC_BALL

    def _comparator(self) -> ComparatorSpec:
        return elastic_net_weights(0.0, self.l2)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"l2": 1e-2, "project": False}
        yield {"l2": 1e-2, "average": True}
        yield {"l2": 1e-2, "loss": "logistic"}
