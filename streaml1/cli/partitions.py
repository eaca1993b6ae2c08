"""``learn --per-partition`` and ``streaml1 partitions``: one model per partition of a topic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from streaml1.cli.live_table import table_width
from streaml1.cli.messages import logged, report_problem
from streaml1.cli.option_checks import require_needed, require_prefixes, require_text
from streaml1.cli.options import Finite, NonEmptyPath, is_topic, reading_options
from streaml1.cli.program import CommandError, cli
from streaml1.cli.run_options import signal_before_broker, watching
from streaml1.cli.signals import Signals
from streaml1.cli.sink_options import require_decaying_rates, require_sinks, sink_observers
from streaml1.cli.starting_model import ModelChoice
from streaml1.cli.termination import watchdog
from streaml1.core import exit_codes as exits

if TYPE_CHECKING:
    from streaml1.training import RunConfig
    from streaml1.training.report import Line, Report

__all__ = [
    "given_single_model_options",
    "group_options",
    "group_setup",
    "learn_group",
    "partitions",
    "require_one_model",
    "require_topic",
    "show_reports",
]

SINGLE_MODEL_DEFAULTS = {
    "limit": None, "passes": 1, "holdout": None, "save": None, "load": None, "report": None,
    "plot": None, "partitions": None, "until_end": False, "watch": 0, "cumulative": False,
    "table": None, "publish": None, "label_within": None, "regret": False, "page": (),
    "top": 10, "seed": None,
}  # fmt: skip
"""Options that require a single model, with their defaults."""


def group_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `learn` for consumer groups."""
    for option in (
        click.option("--session-timeout", type=Finite(min=1), default=45.0,
                     show_default=True, metavar="SECONDS", help="Kafka: time after which the "
                     "partitions of an unresponsive process are reassigned."),
        click.option("--per-partition", is_flag=True,
                     help="Kafka: join the consumer group --group and keep one model per assigned "
                     "partition. All processes share --checkpoint, through which models move."),
    ):  # fmt: skip
        command = option(command)
    return command


def learn_group(choice: ModelChoice, options: dict[str, Any]) -> NoReturn:
    """Learn as a member of a consumer group until a signal, then print a summary and exit."""
    from streaml1.sources.source import Unavailable
    from streaml1.training.checkpoint.ownership import list_files
    from streaml1.training.consumer_group import Group
    from streaml1.training.run import Unfinished

    checkpoint: Path | None = options["checkpoint"]
    for option in given_single_model_options(options):
        raise CommandError(f"{option} cannot be combined with --per-partition")
    if options["group"] is None or checkpoint is None:
        raise CommandError("--per-partition requires --group and --checkpoint")
    require_topic("--per-partition", choice.source)
    if checkpoint.is_dir() and list_files(checkpoint):
        raise CommandError(
            f"{checkpoint} holds the checkpoints of a single model: omit --per-partition or use "
            "another directory"
        )
    with group_setup(choice, options) as setup:
        require_decaying_rates(options["on_drift"], setup.learner)
        setup.compile()
        group = Group(
            setup.learner, setup.source, setup.config, directory=checkpoint,
            seconds=options["checkpoint_every"], session=options["session_timeout"],
            on_line=setup.show, observers=setup.observers,
        )  # fmt: skip
        missed: Unfinished | None = None
        try:
            group.run(setup.is_stopped)
        except Unfinished as error:
            missed = error
        except Unavailable as error:
            if group.reports:  # mid-run: nothing was saved, even if a signal arrived
                raise CommandError(str(error), error.exit_code) from None
            raise
        reports = group.reports
    show_reports(group.topic.name, reports)
    if missed is not None:
        report_problem(f"interrupted; {missed}", "interrupted", signal=setup.signals.number)
        raise click.exceptions.Exit(missed.exit_code)
    report_problem(f"interrupted; {checkpoint} was written")
    raise click.exceptions.Exit(128 + setup.signals.number)


def given_single_model_options(options: dict[str, Any]) -> list[str]:
    """Return the options that were given and require a single model."""
    return [
        f"--{name.replace('_', '-')}"
        for name, default in SINGLE_MODEL_DEFAULTS.items()
        if options[name] != default
    ]


def require_topic(option: str, source: str | list[str]) -> None:
    """Raise CommandError unless the source is one Kafka topic, which an option requires."""
    if not isinstance(source, str) or not is_topic(source):
        shown = source if isinstance(source, str) else " ".join(source)
        raise CommandError(f"{option} requires a Kafka source, got {shown}")


class GroupSetup(NamedTuple):
    """What `learn` prepares for a process of a consumer group."""

    source: str
    learner: Any
    config: RunConfig
    signals: Signals
    show: Callable[[int, Report, Line], None]
    """Prints a line of the report of a partition."""
    observers: Callable[[int], Any]
    """Makes the observers of the run over a partition."""

    def compile(self) -> None:
        """Compile before the group waits for this process."""
        from streaml1.training import prepare

        with self.signals.compiling():
            prepare(self.learner)
        watchdog.stand_down()

    def is_stopped(self) -> bool:
        """Return whether a signal has arrived."""
        return self.signals.number != 0


@contextmanager
def group_setup(choice: ModelChoice, options: dict[str, Any]) -> Iterator[GroupSetup]:
    """Handle signals, serve metrics, and yield what a group needs."""
    from streaml1.sources.kafka.topic import Topic
    from streaml1.training import RunConfig

    source, bad = choice.source, options["bad"]
    require_needed()
    require_text(options, resumes=False)
    require_prefixes(source, options["format"], options["cross"])
    assert isinstance(source, str)
    signals = Signals()
    with (
        logged(),
        signals.handled(),
        watching(options["metrics"], options["stalled"]) as (_, watchers, _),
        signal_before_broker(signals),
    ):
        learner = choice.new()
        config = RunConfig(
            every=options["every"], bad="skip" if bad == "dead-letter" else bad,
            on_drift=options["on_drift"], source_options=reading_options(options),
        )  # fmt: skip
        place = SimpleNamespace(name=source, topic=Topic(source, options["kafka"]))
        require_sinks(place, bad, options)  # before the group waits for this process
        observers = partial(group_sinks, watchers, place, bad, options)
        yield GroupSetup(source, learner, config, signals, GroupLines().show, observers)


def show_reports(topic: str, reports: dict[int, Report], weights: bool = True) -> None:
    """Print the summary of each partition and of all; with `weights`, of those of all models."""
    for partition, report in sorted(reports.items()):
        click.echo(f"{topic}/{partition}: {report.summary()}")
    click.echo(f"{len(reports)} partitions: {summed_up(list(reports.values()), weights)}")


def require_one_model(directory: Path) -> None:
    """Raise CommandError if a directory holds the models of a consumer group."""
    from streaml1.training.checkpoint import load_latest

    for path in directory.iterdir() if directory.is_dir() else ():
        # Named TOPIC-PARTITION; other directories are not read.
        if path.name.rpartition("-")[2].isdecimal() and path.is_dir():
            found = load_latest(path)
            if found is not None and "partition" in found.identity:
                raise CommandError(
                    f"{directory} holds models per partition, such as {path.name}: use "
                    "--per-partition or another directory"
                )


@contextmanager
def group_sinks(
    watchers: list[Any], place: Any, bad: str, options: dict[str, Any], partition: int
) -> Iterator[list[Any]]:
    """Yield the observers of the run over a partition."""
    from streaml1.training.run_log import RunLog

    with sink_observers(place, bad, options) as sinks:
        metrics = [watcher for watcher in watchers if hasattr(watcher, "add_partition")]
        try:
            yield [RunLog(), *(server.add_partition(partition) for server in metrics), *sinks]
        finally:
            for server in metrics:
                server.drop_partition(partition)


class GroupLines:
    """The report lines of all partitions in one table, each prefixed by its partition."""

    def __init__(self) -> None:
        self._columns: list[str] = []

    def show(self, partition: int, report: Report, line: Line) -> None:
        """Print a line, and the heads of the columns before the first one."""
        if not self._columns:
            width = table_width() - len("partition ")
            self._columns = report.column_names(rejected=report.skips, width=width)
            heads = report.header(columns=self._columns).split("\n")
            click.echo(
                "\n".join(f"{'partition' * (head is heads[-1]):>9} {head}" for head in heads)
            )
        click.echo(f"{partition:>9} {report.row(line, columns=self._columns)}")


def summed_up(reports: list[Report], weights: bool = True) -> str:
    """Return one line about several reports; with `weights`, those of all models together."""
    lines = [report.lines[-1] for report in reports if report.lines]
    if not lines:
        return "no examples"
    examples = sum(line.examples for line in lines)
    loss = sum((line.loss or 0.0) * line.examples for line in lines) / max(1, examples)
    non_zeros = sum(line.n_nonzero or 0 for line in lines)
    rejected = sum(line.refused for line in lines)
    text = f"{examples:,} examples: {lines[0].loss_name} {loss:.4f}"
    text += f"; {non_zeros:,} non-zero weights" if weights else ""
    return text + (f"; {rejected:,} rejected" if rejected else "")


@cli.command(epilog="Example: streaml1 partitions kept")
@click.argument("directory", type=NonEmptyPath(file_okay=False, path_type=Path))
def partitions(directory: Path) -> None:
    """Show the models that learn --per-partition keeps in DIRECTORY.

    Each line has a partition with its examples, loss, non-zero weights, rejected examples, next
    offset and last owner process. The directory of each partition can be given to commands that
    take a model, such as show, predict and learn --load.
    """
    from streaml1.cli.weight_tables import text_table
    from streaml1.training.checkpoint import load_latest
    from streaml1.training.checkpoint.ownership import read_owner

    rows: list[tuple[str, ...]] = []
    unreadable: list[str] = []
    examples = non_zeros = 0
    paths = directory.iterdir() if directory.is_dir() else iter(())
    for path in sorted(paths, key=lambda path: (len(path.name), path.name)):
        reasons: list[str] = []
        found = load_latest(path, reasons.append) if path.is_dir() else None
        if found is None and reasons:
            unreadable.append(f"{path} holds no readable checkpoint: {reasons[0]}")
        elif reasons:
            report_problem(f"{reasons[0]}; using the previous checkpoint")
        if found is None or "partition" not in found.identity:
            continue
        facts = found.report[0]
        sums, owner = facts["all"], read_owner(path)
        ((offset, _),) = found.position.values()
        loss = sums["loss"] / sums["weight"] if sums["weight"] else None
        rows.append((
            path.name, f"{facts['examples']:,}", "-" if loss is None else f"{loss:.4f}",
            f"{found.model.n_nonzero:,}", f"{facts['refused']:,}", f"{offset:,}",
            f"{owner.get('pid', '?')} on {owner.get('host', '?')}",
        ))  # fmt: skip
        examples, non_zeros = examples + facts["examples"], non_zeros + found.model.n_nonzero
    if not rows and not unreadable:
        raise CommandError(
            f"{directory} holds no models per partition; learn --per-partition creates them"
        )
    for reason in unreadable:
        report_problem(reason)
    if not rows:
        raise click.exceptions.Exit(exits.DATA_ERROR)
    heads = ("partition", "examples", "loss", "non-zeros", "rejected", "next offset", "last owner")
    click.echo(text_table(heads, rows))
    click.echo(f"{len(rows)} partitions, {examples:,} examples, {non_zeros:,} non-zero weights")
