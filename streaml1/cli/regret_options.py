"""The option --regret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from streaml1.cli.program import CommandError

if TYPE_CHECKING:
    from streaml1.models.base import OnlineModel
    from streaml1.training.regret import RegretObserver

__all__ = ["regret_observer", "regret_option", "require_no_conflict"]

regret_option = click.option(
    "--regret", is_flag=True,
    help="Report the regret at the end: the loss minus that of the best fixed weights. Keeps all "
    "rows in memory; with a penalty, examples are learnt one by one.",
)  # fmt: skip
"""For `learn`."""


def require_no_conflict(regret: bool, conflicts: dict[str, bool]) -> None:
    """Reject --regret with any of the options in `conflicts` that are given."""
    for name, given in conflicts.items():
        if regret and given:
            raise CommandError(
                f"--regret cannot be combined with {name}: it covers one pass of a new run"
            )


def regret_observer(regret: bool, learner: OnlineModel) -> RegretObserver | None:
    """Return the observer that computes the regret, or None without --regret."""
    if not regret:
        return None
    from streaml1.training.regret import RegretObserver

    return RegretObserver(learner)
