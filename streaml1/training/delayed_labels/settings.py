"""Settings of delayed labels."""

from __future__ import annotations

from typing import NamedTuple

from streaml1.core.types import Model
from streaml1.optim.tasks import REGRESSION
from streaml1.training.model_adapter import learner_of, loss_of

__all__ = ["DelayedLabels", "require_valid"]


class DelayedLabels(NamedTuple):
    """How long examples wait for their labels, and what happens without one.

    Parameters
    ----------
    within
        Seconds of stream time for which an example or label stays pending.
    max_pending
        Maximum number of pending examples and labels.
    unanswered
        ``"drop"`` drops examples whose label does not arrive in time; ``"negative"`` learns them as
        False.
    """

    within: float
    max_pending: int = 1_000_000
    unanswered: str = "drop"


def require_valid(settings: DelayedLabels, model: Model) -> None:
    """Raise ValueError if the settings do not fit a model. `RunConfig` checks their ranges."""
    if settings.unanswered == "negative" and loss_of(learner_of(model)) in (*REGRESSION, "softmax"):
        raise ValueError(
            'unanswered="negative" needs a binary classifier: labels must be True and False'
        )
