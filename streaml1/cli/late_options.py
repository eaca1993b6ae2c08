"""Options for delayed labels."""

from __future__ import annotations

from typing import Any

import click

from streaml1.cli.options import Finite, positive, together
from streaml1.cli.program import CommandError

__all__ = ["late_options", "require_label_within"]

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


def require_label_within(options: dict[str, Any]) -> None:
    """Reject the other options for delayed labels without --label-within."""
    for name in ("labels", "waiting", "unanswered"):
        if options["label_within"] is None and options[name] is not None:
            raise CommandError(f"--{name} requires --label-within")
