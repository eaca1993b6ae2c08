"""The options of labels that come late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.options import Finite, positive, together
from streaml1.cli.program import Refusal

if TYPE_CHECKING:
    from streaml1.training.delayed_labels import LateLabels

__all__ = ["late_labels", "late_options"]

late_options = together(
    click.option("--label-within", type=Finite(min=0, min_open=True), metavar="SECONDS",
                 help="Labels come later than their examples, by an id: wait so long for each."),
    click.option("--labels", metavar="TOPIC",
                 help="Kafka: the topic of the labels.  [default: that of the examples]"),
    click.option("--waiting", type=positive, metavar="N",
                 help="At most so many examples and labels wait; the oldest go.  "
                 "[default: 1000000]"),
    click.option("--unanswered", type=click.Choice(["drop", "negative"]),
                 help="An example without a label by then is dropped, or learnt as False until "
                 "its label comes after all.  [default: drop]"),
)  # fmt: skip
"""For `learn`."""


def late_labels(options: dict[str, Any]) -> LateLabels | None:
    """How labels are waited for, if at all; takes what it needs from the options."""
    within, waiting = options.pop("label_within"), options.pop("waiting")
    unanswered = options.pop("unanswered")
    if within is None:
        given = {"labels": options["labels"], "waiting": waiting, "unanswered": unanswered}
        for name, value in given.items():
            if value is not None:
                raise Refusal(f"--{name} is for labels that come late: give --label-within too")
        return None
    from streaml1.training.delayed_labels import LateLabels

    return LateLabels(within, waiting or 1_000_000, unanswered or "drop")
