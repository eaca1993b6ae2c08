"""How labels are waited for."""

from __future__ import annotations

from typing import Any, NamedTuple

from streaml1.optim.tasks import REGRESSION
from streaml1.training.model_adapter import learner_of, loss_of

__all__ = ["LateLabels", "require_late"]


class LateLabels(NamedTuple):
    """How labels are waited for.

    Parameters
    ----------
    within
        For how many seconds of stream time.
    most
        How many examples and labels may wait at once.
    unanswered
        `"drop"` an example whose label has not come by then, or learn it as a `"negative"`.
    """

    within: float
    most: int = 1_000_000
    unanswered: str = "drop"


def require_late(late: LateLabels, model: Any) -> None:
    """Refuse settings that make no sense, or not for a model."""
    if not 0.0 < late.within < float("inf"):
        raise ValueError(f"label_within={late.within!r} is out of range; give seconds above 0")
    if late.most < 1:
        raise ValueError(f"waiting={late.most!r} is out of range; give 1 or more")
    if late.unanswered not in ("drop", "negative"):
        raise ValueError(
            f'unanswered={late.unanswered!r} is not known; give one of "drop", "negative"'
        )
    if late.unanswered == "negative" and loss_of(learner_of(model)) in (*REGRESSION, "softmax"):
        raise ValueError(
            "unanswered examples can be negatives only where labels are True and False: "
            "for a classifier of two labels"
        )
