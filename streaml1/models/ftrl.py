"""FTRL-Proximal (McMahan et al. 2013)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streaml1.core.named_options import by_caller, named_option
from streaml1.models.base import OnlineClassifier, OnlineModel, OnlineRegressor
from streaml1.models.comparator import ComparatorSpec, elastic_net_weights
from streaml1.models.hyperparameters import FTRLParameters
from streaml1.models.parameter_checks import AUTO
from streaml1.optim.ftrl import FTRL
from streaml1.optim.losses import CODES
from streaml1.optim.scaled_ftrl import ScaledFTRL

__all__ = ["FTRLClassifier", "FTRLRegressor"]


class _FTRL(FTRLParameters, OnlineModel):
    @property
    def _is_scaled(self) -> bool:
        """Whether features are scaled."""
        return self.alpha == AUTO if self.scaled is None else self.scaled

    def _rate(self) -> float:
        """Return alpha as the rule takes it."""
        if self.alpha == AUTO and not self._is_scaled:
            raise ValueError(
                f"{named_option('alpha', 'auto')} requires scaled features; leave "
                f"{by_caller('--no-scaled', 'scaled')} out"
            )
        return 0.0 if self.alpha == AUTO else float(self.alpha)

    def _parameter_changed(self) -> None:
        super()._parameter_changed()
        alpha = self._rate()
        if self._is_scaled != isinstance(self._state.rule, ScaledFTRL):
            raise ValueError(
                'alpha cannot change to or from "auto" unless scaled=True; clone the model instead'
            )
        clock = self._state.rule.clock[0]
        clock.alpha, clock.beta = alpha, float(self.beta)
        clock.l1, clock.l2 = float(self.l1), float(self.l2)
        if clock.l1 < clock.l1_now:  # weights within the old threshold may exceed the new one
            self._state.recount()

    def _rule(self) -> Any:
        parameters = self._rate(), float(self.beta), float(self.l1), float(self.l2)
        if self._is_scaled:
            return ScaledFTRL.start(0, *parameters, CODES[self.loss])
        return FTRL.start(0, *parameters)

    def _comparator(self) -> ComparatorSpec:
        if self._is_scaled:  # l1 and l2 apply to weights of scaled values
            return elastic_net_weights(0.0, 0.0)
        description = f"all weights, with l1 = {self.l1:g} and l2 = {self.l2:g} once"
        return ComparatorSpec(description, {"l1": self.l1, "l2": self.l2}, "once")

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"alpha": 0.5, "l1": 0.1, "l2": 0.5}
        yield {"alpha": 0.5, "scaled": True}
        yield {"l1": 0.0, "loss": cls._other_loss}


class FTRLClassifier(_FTRL, OnlineClassifier):
    """Online logistic regression or linear SVM by FTRL-Proximal.

    Each feature has its own learning rate, about `alpha / (beta + sqrt(sum of squared gradients))`.
    By default features are scaled by the mean size of their values and `alpha` is computed. With a
    number as `alpha` features are not scaled, as in the paper, unless `scaled` is true. A weight is
    zero as long as the sum of its gradients, corrected for the moves of the weight, is
    at most `l1` in absolute value.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streaml1
    >>> model = streaml1.FTRLClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.LogLoss())
    LogLoss: 0.295711

    References
    ----------
    [^1]: McMahan, H.B. et al., 2013. Ad click prediction: a view from the trenches. Proceedings
          of the 19th ACM SIGKDD conference: Algorithm 1.
    """


class FTRLRegressor(_FTRL, OnlineRegressor):
    """Online linear regression by FTRL-Proximal.

    Each feature has its own learning rate, about `alpha / (beta + sqrt(sum of squared gradients))`.
    By default features are scaled by the mean size of their values and `alpha` is computed. With a
    number as `alpha` features are not scaled, as in the paper, unless `scaled` is true. A weight is
    zero as long as the sum of its gradients, corrected for the moves of the weight, is
    at most `l1` in absolute value.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> import streaml1
    >>> model = streaml1.FTRLRegressor()
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), model, metrics.MAE())
    MAE: 0.238848

    References
    ----------
    [^1]: McMahan, H.B. et al., 2013. Ad click prediction: a view from the trenches. Proceedings
          of the 19th ACM SIGKDD conference: Algorithm 1.
    """
