"""Options for delayed labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.options import Finite, positive, together
from streaml1.cli.program import CommandError

if TYPE_CHECKING:
    from streaml1.training.delayed_labels import DelayedLabels

__all__ = ["late_labels", "late_options"]

late_options = together(
    click.option("--label-within", type=Finite(min=0, min_open=True), metavar="SECONDS",
                 help="Labels arrive later than their examples and are joined by id: wait this "
                 "long."),
    click.option("--labels", metavar="TOPIC",
                 help="Kafka: topic of the labels.  [default: that of the examples]"),
    click.option("--waiting", type=positive, metavar="N",
                 help="Hold at most N waiting examples and labels, dropping the oldest.  "
                 "[default: 1000000]"),
    click.option("--unanswered", type=click.Choice(["drop", "negative"]),
                 help="What to do with an example whose label has not arrived in time: drop it, "
                 "or learn it as False and correct it if the label arrives.  [default: drop]"),
)  # fmt: skip
"""For `learn`."""


def late_labels(options: dict[str, Any]) -> DelayedLabels | None:
    """Return the settings of delayed labels, or None.

    Raises
    ------
    CommandError
        If an option requires --label-within.
    """
    within, waiting = options["label_within"], options["waiting"]
    unanswered = options["unanswered"]
    if within is None:
        given = {"labels": options["labels"], "waiting": waiting, "unanswered": unanswered}
        for name, value in given.items():
            if value is not None:
                raise CommandError(f"--{name} requires --label-within")
        return None
    from streaml1.training.delayed_labels import DelayedLabels

    return DelayedLabels(within, waiting or 1_000_000, unanswered or "drop")
