"""The lazy elastic net (Lipton & Elkan 2015; Duchi & Singer 2009)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.comparator import ComparatorSpec, elastic_net_weights
from streaml1.models.hyperparameters import ElasticNetParameters
from streaml1.models.parameter_checks import AUTO
from streaml1.optim.averaged_elastic_net import AveragedElasticNet
from streaml1.optim.elastic_net import ElasticNet
from streaml1.optim.elastic_net_stamps import ElasticNetStamps
from streaml1.optim.lane_mixture import LaneMixture
from streaml1.optim.losses import CODES
from streaml1.optim.tasks import CLASSIFICATION

__all__ = ["ElasticNetClassifier", "ElasticNetRegressor"]

RATE_OF_ONE_NET = 0.1
"""What lr="auto" is where `average` or explicit stamps require a single net."""

# The rates of the elastic nets of lr="auto", in units of 1 / (mean squared norm of the examples).
RATES = {"classification": (10.0, 0.5, 3.0, 30.0), "regression": (0.3, 0.03, 0.3, 2.0)}


class _ElasticNet(ElasticNetParameters, OnlineModel):
    @property
    def _mutable_attributes(self) -> set[str]:
        mutable = super()._mutable_attributes
        return mutable - {"lr", "loss"} if self.lr == AUTO else mutable

    def _begin(self) -> None:
        if self.lr == AUTO and (self.average or self.stamps == "explicit"):
            self.__dict__["lr"] = RATE_OF_ONE_NET
        super()._begin()

    @property
    def _is_scaled(self) -> bool:
        return isinstance(self._state.rule, LaneMixture)

    def _parameter_changed(self) -> None:
        auto = isinstance(self._state.rule, LaneMixture)
        if auto and self._state.online[0].loss != CODES[self.loss]:
            raise ValueError('loss cannot change with lr="auto"; clone the model instead')
        super()._parameter_changed()
        if auto != (self.lr == AUTO):
            raise ValueError('lr cannot change to or from "auto"; clone the model instead')
        clock = self._state.rule.clock[0]
        clock.l1, clock.l2 = float(self.l1), float(self.l2)
        clock.sgd = self.update == "sgd"
        if self.average:
            self._state.rule.mean[0].budget = int(self.budget)
        elif self.stamps == "explicit":
            clock.budget = int(self.budget)

    def _rule(self) -> Any:
        l1, l2, sgd = float(self.l1), float(self.l2), self.update == "sgd"
        if self.lr == AUTO:
            task = "classification" if self.loss in CLASSIFICATION else "regression"
            b = float(self.intercept_init)
            return LaneMixture.start(0, l1, l2, sgd, RATES[task], CODES[self.loss], b)
        if self.average:
            return AveragedElasticNet.start(0, l1, l2, sgd, int(self.budget))
        if self.stamps == "explicit":
            return ElasticNetStamps.start(0, l1, l2, sgd, int(self.budget))
        return ElasticNet.start(0, l1, l2, sgd)

    def _comparator(self) -> ComparatorSpec:
        return elastic_net_weights(self.l1, self.l2)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"l1": 1e-3, "l2": 1e-2, "update": "sgd", "schedule": "constant", "lr": 0.01}
        yield {"l1": 1e-4, "loss": cls._other_loss}
        yield {"l1": 1e-3, "l2": 1e-2, "stamps": "explicit", "budget": 50}
        yield {"l1": 1e-3, "l2": 1e-2, "average": True}
        yield {"l1": 1e-3, "lr": 0.1}


class ElasticNetClassifier(_ElasticNet, OnlineClassifier):
    """Online logistic regression or linear SVM with an elastic net penalty.

    After each example, all weights equal those of the dense update. A step nevertheless costs time
    in the number of non-zeros of the example only, because the effect of the penalty on all other
    weights is folded into two scalars.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streaml1
    >>> model = streaml1.ElasticNetClassifier(l1=1e-4)
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.323008

    References
    ----------
    [^1]: Lipton, Z.C. and Elkan, C., 2015. Efficient elastic net regularization for sparse linear
          models: Algorithm 1, Eq. (2), Eq. (3), Theorem 2.
    [^2]: Duchi, J. and Singer, Y., 2009. Efficient learning using forward-backward splitting.
          Advances in Neural Information Processing Systems 22.
    """


class ElasticNetRegressor(_ElasticNet, OnlineRegressor):
    """Online linear regression with an elastic net penalty.

    With a numeric `lr`, scale the features first: the squared loss at a learning rate of 0.1
    diverges on values in the thousands.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streaml1
    >>> model = streaml1.ElasticNetRegressor(l1=1e-4)
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.237570

    References
    ----------
    [^1]: Lipton, Z.C. and Elkan, C., 2015. Efficient elastic net regularization for sparse linear
          models: Algorithm 1, Eq. (2), Eq. (3), Theorem 2.
    [^2]: Duchi, J. and Singer, Y., 2009. Efficient learning using forward-backward splitting.
          Advances in Neural Information Processing Systems 22.
    """
