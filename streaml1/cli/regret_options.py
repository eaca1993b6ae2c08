"""The option that has a run told beside the best fixed weights in hindsight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.program import Refusal

if TYPE_CHECKING:
    from streaml1.training.regret import Hindsight

__all__ = ["hindsight", "regret_option", "require_alone"]

regret_option = click.option(
    "--regret", is_flag=True,
    help="At the end report the regret, the loss less that of the best fixed weights; all "
    "rows are kept in memory, and examples are learnt one by one where there is a penalty.",
)  # fmt: skip
"""For `learn`."""


def require_alone(asked: bool, others: dict[str, bool]) -> None:
    """Refuse what does not go with the regret, if it is asked for: those of `others` that hold."""
    for name, given in others.items():
        if asked and given:
            raise Refusal(f"--regret is of one pass that begins anew: leave out {name}")


def hindsight(asked: bool, learner: Any) -> Hindsight | None:
    """Who keeps what the regret takes, if it is asked for."""
    if not asked:
        return None
    from streaml1.training.regret import Hindsight

    return Hindsight(learner)
