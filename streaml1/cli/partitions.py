"""``learn --per-partition`` and ``partitions``: the models of a consumer group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import click

from streaml1.cli.messages import complain, logged
from streaml1.cli.model_factory import new_learner
from streaml1.cli.option_checks import require_prefixes
from streaml1.cli.options import Finite, NonEmptyPath
from streaml1.cli.program import Refusal, cli
from streaml1.cli.run_options import excused, watching
from streaml1.cli.signals import Signals
from streaml1.cli.sink_options import outs_of

if TYPE_CHECKING:
    from streaml1.training.report import Line, Report

__all__ = ["GROUPING", "group_options", "learn_group", "partitions", "require_one_model"]

GROUPING = ("per_partition", "session_timeout")

ALONE = {
    "limit": None, "passes": 1, "save": None, "load": None, "report": None, "plot": None,
    "partitions": None, "until_end": False, "watch": 0, "publish": None,
    "label_within": None, "regret": False,
}  # fmt: skip
"""What goes with one model for all, and its value where it is not given."""


def group_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of `learn` for consumer groups."""
    for option in (
        click.option("--session-timeout", type=Finite(min=1), default=45.0,
                     show_default=True, metavar="SECONDS", help="Kafka: with --per-partition, "
                     "when the partitions of a silent process go to others."),
        click.option("--per-partition", is_flag=True,
                     help="Kafka: join --group; each partition that it gives to this process has "
                     "a model of its own, which moves with it. --checkpoint is the same for all."),
    ):  # fmt: skip
        command = option(command)
    return command


def learn_group(
    source: str, model: str | None, task: str | None, given: dict[str, Any], *,
    checkpoint: Path | None, checkpoint_every: float, every: int | None, bad: str,
    alone: dict[str, Any], metrics: str | None, stalled: float, options: dict[str, Any],
) -> NoReturn:  # fmt: skip
    """Learn as a process of a group until a signal comes, and say what was learnt."""
    from streaml1.sources.kafka.topic import Topic
    from streaml1.sources.source import Unavailable
    from streaml1.training.checkpoint.ownership import names_in
    from streaml1.training.consumer_group import Group
    from streaml1.training.run import Unfinished

    for name, value in alone.items():
        if value != ALONE[name]:
            option = f"--{name.replace('_', '-')}"
            raise Refusal(f"{option} is for one model, not for one per partition: leave it out")
    if options["group"] is None or checkpoint is None:
        raise Refusal("--per-partition is for a group whose models are kept: give --group and "
                      "--checkpoint too")  # fmt: skip
    if not source.startswith("kafka:"):
        raise Refusal(f"{source} is no topic, and only a topic has partitions: leave out "
                      "--per-partition")  # fmt: skip
    if checkpoint.is_dir() and names_in(checkpoint):
        raise Refusal(f"{checkpoint} holds the checkpoints of one model, not of one per partition: "
                      "leave out --per-partition, or take another folder")  # fmt: skip
    require_prefixes(source, options["format"], options["cross"])
    signals, lines = Signals(), _Lines()
    with (
        logged(),
        signals.handled(),
        watching(metrics, stalled) as (_, watchers),
        excused(signals),
    ):
        place = SimpleNamespace(name=source, topic=Topic(source, options["kafka"]))
        group = Group(
            new_learner(source, model, task, given), source, group=options["group"],
            folder=checkpoint, every=every, bad="skip" if bad == "dead-letter" else bad,
            outs=partial(_outs_of, watchers, place, bad, options), seconds=checkpoint_every,
            format=options["format"], start=options["start"], session=options["session_timeout"],
            on_line=lines.show, kafka=options["kafka"],
        )  # fmt: skip
        missed: Unfinished | None = None
        try:
            group.run(lambda: signals.number != 0)
        except Unfinished as error:
            missed = error
        except Unavailable as error:
            if group.reports:  # in the middle: nothing is saved, whatever signal has come
                raise Refusal(str(error), error.exit_code) from None
            raise
        reports = group.reports
    for partition, report in sorted(reports.items()):
        click.echo(f"{group.topic.name}/{partition}: {report.summary()}")
    click.echo(f"{len(reports)} partitions: {together(list(reports.values()))}")
    if missed is not None:
        complain(f"interrupted; {missed}", "interrupted", signal=signals.number)
        raise click.exceptions.Exit(missed.exit_code)
    complain(f"interrupted; {checkpoint} was written")
    raise click.exceptions.Exit(128 + signals.number)


def require_one_model(folder: Path) -> None:
    """Refuse a folder that holds the models of a group."""
    from streaml1.training.checkpoint import look

    for place in folder.iterdir() if folder.is_dir() else ():
        # A topic's name and the number of a partition: of others no checkpoint is read.
        if place.name.rpartition("-")[2].isdecimal() and place.is_dir():
            found = look(place)
            if found is not None and "partition" in found.identity:
                raise Refusal(f"{folder} holds models of partitions, as {place.name}: give "
                              "--per-partition too, or take another folder")  # fmt: skip


@contextmanager
def _outs_of(
    watchers: list[Any], place: Any, bad: str, options: dict[str, Any], partition: int
) -> Iterator[list[Any]]:
    """Who hears of the run over a partition."""
    from streaml1.training.run_log import RunLog

    with outs_of(place, bad, options) as outs:
        several = [one for one in watchers if hasattr(one, "part")]
        try:
            yield [RunLog(), *(one.part(partition) for one in several), *outs]
        finally:
            for one in several:
                one.drop(partition)


class _Lines:
    """The lines of all partitions in one table, with the partition before each."""

    def __init__(self) -> None:
        self._begun = False

    def show(self, partition: int, report: Report, line: Line) -> None:
        shape = {"refused": report.skips, "skewed": False}
        if not self._begun:
            self._begun = True
            heads = report.header(**shape).split("\n")
            click.echo(
                "\n".join(f"{'partition' * (head is heads[-1]):>9} {head}" for head in heads)
            )
        click.echo(f"{partition:>9} {report.row(line, **shape)}")


def together(reports: list[Report]) -> str:
    """The sum of some reports, in words."""
    lines = [report.lines[-1] for report in reports if report.lines]
    if not lines:
        return "no examples"
    examples = sum(line.examples for line in lines)
    loss = sum((line.loss or 0.0) * line.examples for line in lines) / max(1, examples)
    non_zeros = sum(line.n_nonzero or 0 for line in lines)
    refused = sum(line.refused for line in lines)
    told = f"{examples:,} examples: {lines[0].loss_name} {loss:.4f}; {non_zeros:,} non-zero weights"
    return told + (f"; {refused:,} refused" if refused else "")


@cli.command(epilog="Example: streaml1 partitions kept")
@click.argument("folder", type=NonEmptyPath(file_okay=False, path_type=Path))
def partitions(folder: Path) -> None:
    """Show the models in FOLDER, which learn --per-partition keeps.

    Each partition with its examples, loss, weights that are not zero, next offset, and the process
    that had it last. Any model is also a folder of checkpoints by itself.
    """
    from streaml1.cli.text_tables import text_table
    from streaml1.training.checkpoint import look
    from streaml1.training.checkpoint.ownership import owner_of

    rows: list[tuple[str, ...]] = []
    examples = non_zeros = 0
    places = folder.iterdir() if folder.is_dir() else iter(())
    for place in sorted(places, key=lambda one: (len(one.name), one.name)):
        found = look(place) if place.is_dir() else None
        if found is None or "partition" not in found.identity:
            continue
        facts = found.report[0]
        sums, owner = facts["all"], owner_of(place)
        ((offset, _),) = found.position.values()
        loss = sums["loss"] / sums["weight"] if sums["weight"] else None
        rows.append((
            place.name, f"{facts['examples']:,}", "-" if loss is None else f"{loss:.4f}",
            f"{found.model.n_nonzero:,}", f"{facts['refused']:,}", f"{offset:,}",
            f"{owner.get('pid', '?')} on {owner.get('host', '?')}",
        ))  # fmt: skip
        examples, non_zeros = examples + facts["examples"], non_zeros + found.model.n_nonzero
    if not rows:
        raise Refusal(f"{folder} holds no models of partitions: learn --per-partition keeps them")
    heads = ("partition", "examples", "loss", "non-zeros", "refused", "next offset", "last owner")
    click.echo(text_table(heads, rows))
    click.echo(f"{len(rows)} partitions, {examples:,} examples, {non_zeros:,} non-zero weights")
