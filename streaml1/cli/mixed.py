"""``learn --mixed``: one model of all members of a consumer group."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import click

from streaml1.cli.messages import report_problem
from streaml1.cli.option_checks import is_given
from streaml1.cli.options import Finite, positive, together
from streaml1.cli.partitions import (
    given_single_model_options,
    group_setup,
    require_topic,
    show_reports,
)
from streaml1.cli.program import CommandError
from streaml1.cli.starting_model import ModelChoice

if TYPE_CHECKING:
    from streaml1.training.mixed_models.messages import Base

__all__ = ["is_mixed", "learn_mixed", "mix_options"]

MIX_OPTION_NAMES = ("mixed", "mix_every", "mix_wait")

mix_options = together(
    click.option(
        "--mixed", metavar="TOPIC",
        help="Kafka: join the consumer group --group and learn one model together with its other "
        "members. TOPIC is compacted; through it their models are merged all the time.",
    ),
    click.option(
        "--mix-every", type=positive, metavar="N",
        help="Number of examples of a partition after which they are merged.  [default: 100]",
    ),
    click.option(
        "--mix-wait", type=Finite(min=0, max=3600, max_open=True), metavar="SECONDS",
        help="Time that a merge waits for slow members.  [default: 1]",
    ),
)  # fmt: skip
"""Add the options of `learn` for a mixed model."""


def is_mixed(options: dict[str, Any]) -> bool:
    """Return whether the options ask for a mixed model; reject its other options without it."""
    for name in MIX_OPTION_NAMES[1:]:
        if options["mixed"] is None and options[name] is not None:
            raise CommandError(f"--{name.replace('_', '-')} requires --mixed")
    return options["mixed"] is not None


def learn_mixed(choice: ModelChoice, options: dict[str, Any]) -> NoReturn:
    """Learn as a member of a group that mixes until a signal, then print a summary and exit."""
    from streaml1.distributed.mixing.group import MixedGroup
    from streaml1.models.merging import require_mergeable

    _require_consistent(choice.source, options)
    with group_setup(choice, options) as setup:
        try:
            require_mergeable([setup.learner])
        except ValueError as error:
            raise CommandError(f"--mixed: {error}") from None
        setup.compile()
        group = MixedGroup(
            setup.learner, setup.source, setup.config, mixed=options["mixed"],
            mix_every=options["mix_every"] or 100,
            wait=1.0 if options["mix_wait"] is None else options["mix_wait"],
            session=options["session_timeout"], on_line=setup.show, observers=setup.observers,
        )  # fmt: skip
        reports = group.run(setup.is_stopped)
    show_reports(group.topic.name, reports, weights=False)
    click.echo(_of_base(group.base, group.mix_topic.url))
    report_problem("interrupted; examples that are not merged yet are learnt again")
    raise click.exceptions.Exit(128 + setup.signals.number)


def _require_consistent(source: str | list[str], options: dict[str, Any]) -> None:
    conflicts = {
        "--per-partition": options["per_partition"],
        "--checkpoint": options["checkpoint"] is not None,
        "--checkpoint-every": is_given("checkpoint_every"),
        "--on-drift reset-rates": options["on_drift"] == "reset-rates",
    }
    given = [option for option, is_given in conflicts.items() if is_given]
    for option in [*given, *given_single_model_options(options)]:
        raise CommandError(f"{option} cannot be combined with --mixed")
    if options["group"] is None:
        raise CommandError("--mixed requires --group")
    require_topic("--mixed", source)


def _of_base(base: Base | None, url: str) -> str:
    """Return one line about the newest base."""
    if base is None:
        return f"{url}: no model yet"
    of = f"of {len(base.frontier)} partitions, {base.round:,} merges"
    return f"{url}: {base.examples:,} examples {of}"
