"""Names of the losses for classification and for regression, and what depends on the name alone.

Importing this module does not load numpy: the command line starts with it.
"""

from __future__ import annotations

import math

from streaml1.core.named_options import named_option, option_name
from streaml1.optim.losses import LOSSES

__all__ = ["CLASSIFICATION", "PARAMETERS", "REGRESSION", "RESPONSES", "loss_parameter"]

CLASSIFICATION = tuple(loss.name for loss in LOSSES if loss.task == "classification")
REGRESSION = tuple(loss.name for loss in LOSSES if loss.task == "regression")

RESPONSES = ("logistic", "poisson")
"""Losses of which the prediction is not the margin, see `losses.output`."""

PARAMETERS = {loss.name: loss.parameter for loss in LOSSES if loss.parameter}
"""Losses with a parameter, and the hyperparameter of the learners that it is."""


def loss_parameter(learner: object, loss: str) -> float:
    """Return the parameter of the loss of a learner; 0 if the loss has none.

    Raises
    ------
    ValueError
        If the learner has a `negative_rate` that its loss cannot take into account.
    """
    negative_rate = getattr(learner, "negative_rate", 1.0)
    if loss == "logistic":
        return math.log(negative_rate)
    if negative_rate != 1.0:
        raise ValueError(
            f"{option_name('negative_rate')} requires {named_option('loss', 'logistic')}, got "
            f"{loss!r}"
        )
    name = PARAMETERS.get(loss)
    return 0.0 if name is None else float(getattr(learner, name))
