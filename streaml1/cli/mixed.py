"""``learn --mixed``: one model of all members of a consumer group."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from streaml1.cli.messages import report_problem
from streaml1.cli.options import Finite, positive, together
from streaml1.cli.partitions import (
    SINGLE_MODEL_DEFAULTS,
    group_setup,
    require_topic,
    show_reports,
)
from streaml1.cli.program import CommandError

if TYPE_CHECKING:
    from streaml1.training.mixed_models.messages import Base

__all__ = ["MIX_OPTION_NAMES", "is_mixed", "learn_mixed", "mix_options"]

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
    """Return whether the options ask for a mixed model.

    Raises
    ------
    CommandError
        If an option of mixed models is given without --mixed.
    """
    for name in MIX_OPTION_NAMES[1:]:
        if options["mixed"] is None and options[name] is not None:
            raise CommandError(f"--{name.replace('_', '-')} requires --mixed")
    return options["mixed"] is not None


def learn_mixed(
    source: str | list[str], model: str | None, task: str | None, given: dict[str, Any], *,
    checkpoint: Path | None, every: int | None, bad: str, alone: dict[str, Any],
    metrics: str | None, stalled: float, options: dict[str, Any],
) -> NoReturn:  # fmt: skip
    """Learn as a member of a group that mixes until a signal, then print a summary and exit."""
    from streaml1.distributed.mixing.group import MixedGroup
    from streaml1.models.merging import require_mergeable

    _require_consistent(source, checkpoint, alone, options)
    with group_setup(
        source, model, task, given, every=every, bad=bad, metrics=metrics, stalled=stalled,
        options=options,
    ) as setup:  # fmt: skip
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


def _require_consistent(
    source: str | list[str], checkpoint: Path | None, alone: dict[str, Any],
    options: dict[str, Any],
) -> None:  # fmt: skip
    given = {
        "--per-partition": options["per_partition"],
        "--checkpoint": checkpoint is not None,
        "--on-drift reset-rates": options["on_drift"] == "reset-rates",
    }
    for name, default in SINGLE_MODEL_DEFAULTS.items():
        given[f"--{name.replace('_', '-')}"] = alone[name] != default
    for option, is_given in given.items():
        if is_given:
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
