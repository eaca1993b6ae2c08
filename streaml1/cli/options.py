"""Options that several commands share."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from streaml1.sources import Source, SourceOptions

__all__ = [
    "MAX_BAD_SHARE",
    "Finite",
    "Holdout",
    "NonEmptyPath",
    "csv_options",
    "every_option",
    "is_topic",
    "model_path",
    "opened",
    "output",
    "positive",
    "reading_of",
    "reading_options",
    "report_options",
    "schema_options",
    "source_argument",
    "source_options",
    "split_names",
    "start_options",
    "together",
]

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def together(*options: Decorator) -> Decorator:
    """Combine options into one decorator."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def split_names(ctx: click.Context, param: click.Parameter, lists: tuple[str, ...]) -> list[str]:
    """Return the names in comma-separated lists, as a callback of an option.

    As in CSV, a name with a comma is quoted: ``"a,b",c``.
    """
    return [name for names in lists for name in _split(ctx, param, names)]


def _split(ctx: click.Context, param: click.Parameter, names: str) -> list[str]:
    if '"' not in names:
        return names.split(",")
    try:
        (record,) = csv.reader([names], strict=True)
    except (csv.Error, ValueError):
        raise click.BadParameter(
            'must be a list such as a,b or "a,b",c, with any quote in a name doubled and the '
            f"name in quotes, got {names!r}", ctx, param,
        ) from None  # fmt: skip
    return record


def _names_or_none(
    ctx: click.Context, param: click.Parameter, lists: tuple[str, ...]
) -> list[str] | None:
    return split_names(ctx, param, lists) if lists else None


def _numbers(ctx: click.Context, param: click.Parameter, text: str | None) -> list[int] | None:
    if text is None:
        return None
    numbers = text.split(",")
    if not all(number.strip().isdecimal() for number in numbers):
        raise click.BadParameter(f"must be a list of numbers such as 0,2, got {text!r}", ctx, param)
    return [int(number) for number in numbers]


positive = click.IntRange(min=1)

PREFIXES = ("river:", "data:", "stdlib", "kafka://", "duckdb:")
"""Sources that are not files, or how their names begin."""

MAX_BAD_SHARE = 0.05
"""Share of rejected examples that --bad skip and dead-letter accept by default."""


class Finite(click.FloatRange):
    """A finite number in a range; `click.FloatRange` accepts `nan`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert and validate the value."""
        number = super().convert(value, param, ctx)
        if not isfinite(number):
            self.fail(f"must be a finite number, got {value}", param, ctx)
        return number


class Holdout(click.ParamType):  # type: ignore[type-arg]
    """Which lines are held out: N for every N-th, or their share, 1 / N."""

    name = "holdout"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return N, 0 if no line is held out."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"must be a share such as 0.1, or a whole number, got {value!r}", param, ctx)
        every = max(2, round(1.0 / number)) if 0.0 < number < 1.0 else number
        if 0.0 < number < 1.0 and abs(every * number - 1.0) > 0.01:
            self.fail(
                f"must be a share that is one N-th, such as {1.0 / every:.4g}, got {value}",
                param,
                ctx,
            )
        if every < 0 or every != every // 1:
            self.fail(f"must be a share such as 0.1, or a whole number, got {value!r}", param, ctx)
        return int(every)


class NonEmptyPath(click.Path):
    """A path that is not empty; an empty one would mean the current directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert and validate the value."""
        if str(value) == "":
            self.fail("the path is empty; give one or omit the option", param, ctx)
        return super().convert(value, param, ctx)


_columns = together(
    click.option("--format", metavar="FORMAT", help="svmlight, vw, jsonl, csv, tsv or avro. "
                 "Required for standard input and for file names without such a suffix. "
                 "Kafka: json, svmlight, vw, csv, tsv, avro, protobuf or auto.  [Kafka: auto]"),
    click.option("--target", metavar="NAME",
                 help="Label: a column of CSV, by name or by number from 0, or a member of flat "
                 "JSON lines, such as clicked or user.clicked."),
    click.option("--categorical", metavar="NAME,...", multiple=True, callback=split_names,
                 help="Columns or members to read as categories.  [default: CSV columns with "
                 "words]"),
    click.option("--numeric", metavar="NAME,...", multiple=True, callback=split_names,
                 help="Columns or members whose text is a number."),
    click.option("--weight", metavar="NAME", help="Column or member of sample weights."),
    click.option("--ignore", metavar="NAME,...", multiple=True, callback=split_names,
                 help="Columns or members to ignore."),
    click.option("--id", metavar="NAME",
                 help="Column or member of the id, which is written with predictions. It is not a "
                 "feature."),
    click.option("--at", metavar="PATH",
                 help="JSON: the object that holds the example, such as payload.after. An example "
                 "whose object is null is skipped."),
    click.option("--delimiter", metavar="CHARACTER|tab",
                 help="CSV: column separator.  [default: a comma; tab for tsv]"),
    click.option("--missing", metavar="WORD,...", multiple=True, callback=_names_or_none,
                 help="CSV: words for a missing value, besides the empty cell; '' for none.  "
                 r"[default: NaN,nan,NULL,null,None,N/A,NA,\N,?]"),
    click.option("--header/--no-header", default=None,
                 help="CSV: whether the first line names the columns; without names they are "
                 "numbered from 0.  [default: it does; a line of data is an error]"),
    click.option("--columns", "column_names", metavar="NAME,...", multiple=True,
                 callback=_names_or_none, help="CSV: names of the columns of a file without a "
                 "header."),
    click.option("--positive", metavar="LABEL",
                 help="The label that is 1, such as Yes, or several: Yes,yes; others are then 0."),
    click.option("--decimal", metavar="CHARACTER",
                 help="CSV: decimal mark of numbers, . or ,  [default: .]"),
    click.option("--thousands", metavar="CHARACTER",
                 help="CSV: character between groups of digits, such as the comma in 1,234.5."),
)  # fmt: skip
schema_options = together(
    click.option("--schema-registry", metavar="URL",
                 help="Kafka: registry of the schemas of records that begin with a schema id: "
                 "Avro, Protobuf or JSON. Credentials come from STREAML1_REGISTRY_USER and "
                 "STREAML1_REGISTRY_PASSWORD."),
    click.option("--schema", type=click.Path(dir_okay=False), metavar="FILE",
                 help="Kafka: schema of all records, instead of a registry: .avsc for --format "
                 "avro, the output of protoc --descriptor_set_out for --format protobuf."),
)  # fmt: skip
start_options = together(
    click.option("--from", "start", metavar="WHERE",
                 help="Kafka: where to start: earliest, latest, a time such as "
                 "2026-01-31T06:00Z, or checkpoint. An existing checkpoint takes precedence.  "
                 "[default: earliest]"),
    click.option("--partitions", metavar="N,...", callback=_numbers,
                 help="Kafka: read these partitions only."),
)  # fmt: skip


def _one_or_many(
    ctx: click.Context, param: click.Parameter, names: tuple[str, ...]
) -> str | list[str]:
    return names[0] if len(names) == 1 else list(names)


class _Sources(click.Argument):
    """The argument SOURCE..., which errors call SOURCE."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """Return the name of the argument."""
        return "'SOURCE'"


def _complete_source(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Complete a SOURCE: a file, which the shell completes, or a prefix of other sources."""
    from glob import escape, iglob

    from click.shell_completion import CompletionItem

    prefixes = [name for name in PREFIXES if name.startswith(incomplete)] if incomplete else []
    # bash completes either files or the values it is given.
    if prefixes and next(iglob(f"{escape(incomplete)}*"), None) is None:
        return [CompletionItem(name) for name in prefixes]
    return [CompletionItem(incomplete, type="file")]


source_argument = click.argument(
    "source",
    cls=_Sources,
    nargs=-1,
    required=True,
    callback=_one_or_many,
    shell_complete=_complete_source,
)
"""SOURCE...: a name, or a list of names if several are given."""
csv_options = _columns
"""The options that describe a file and its columns."""


def source_options(passes: bool = False, dead_letters: bool = False) -> Decorator:
    """Return the options that describe a source.

    Parameters
    ----------
    passes
        Whether the command can read the source several times.
    dead_letters
        Whether the command can write rejected records to a dead-letter topic.
    """
    bad = ["fail", "skip", *(["dead-letter"] if dead_letters else [])]
    redirect = ", or write it to another topic (Kafka)" if dead_letters else ""
    return together(
        _columns,
        click.option("--limit", type=positive, metavar="N",
                     help=f"Read at most N examples{' (of each pass)' if passes else ''}."),
        click.option("--bad", type=click.Choice(bad), default="fail", show_default=True,
                     help="What to do with an invalid example: end the run, count and skip it"
                     f"{redirect}."),
        click.option("--most-bad", type=Finite(0, 1), metavar="SHARE",
                     help="End the run if more than this share of the last 1,000 examples is "
                     f"rejected.  [default: {MAX_BAD_SHARE}]"),
        schema_options,
        click.option("--seed", type=int,
                     help="Seed of the order of examples in stdlib and data:...  [default: 0]"),
        start_options,
        click.option("--until-end", is_flag=True,
                     help="Kafka: stop at the current end of the topic instead of waiting for "
                     "more."),
    )  # fmt: skip


output = NonEmptyPath(dir_okay=False, readable=False, path_type=Path)


def _table_columns(
    ctx: click.Context, param: click.Parameter, listed: str | None
) -> list[str] | None:
    """Return the names of columns of the table of a report, or None for those that fit."""
    if listed is None:
        return None
    from streaml1.training.report.columns import COLUMN_NAMES

    names = [name.strip() for name in listed.split(",")]
    if names == ["all"]:
        return list(COLUMN_NAMES)
    for name in names:
        if name not in COLUMN_NAMES:
            close = get_close_matches(name, COLUMN_NAMES, 1)
            hint = f"did you mean {close[0]}?" if close else f"use {', '.join(COLUMN_NAMES)} or all"
            raise click.BadParameter(f"{name!r} is not a column of the table; {hint}", ctx, param)
    return names


every_option = click.option(
    "--every", type=positive, metavar="N",
    help="Report every N examples."
    "  [default: 1000 up to 10,000 examples, 10,000 up to 100,000, and so on]",
)  # fmt: skip
report_options = together(
    click.option("--table", metavar="COLUMN,...", callback=_table_columns,
                 help="Columns of the table, such as examples,loss,non-zeros, or all.  [default: "
                 "those that fit the terminal, or 80 characters]"),
    click.option("--cumulative", is_flag=True,
                 help="Add a column with the cumulative loss: the sum, not the mean."),
    click.option("--report", type=output, metavar="FILE.jsonl",
                 help="Write the lines of the report as JSON."),
    click.option("--plot", type=output, metavar="FILE.png",
                 help="Plot the loss (mean and cumulative), the calibration and the number of "
                 "non-zero weights."),
)  # fmt: skip


class _ModelPath(NonEmptyPath):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and value.startswith("kafka:"):
            return value
        return super().convert(value, param, ctx)


model_path = _ModelPath(readable=False, path_type=Path)
"""The path of a model file or a checkpoint directory, or the URL of a model topic."""


def opened(
    source: str | list[str],
    options: dict[str, Any],
    require_label: bool = True,
    events: bool = False,
    text: Sequence[str] | None = None,
    model: Any = None,
) -> Source:
    """Return the source of a name, opened with the options; parameters as for `reading_of`."""
    import streaml1.datasets  # noqa: F401  (registers the source `stdlib`)
    from streaml1.sources import open_source

    return open_source(source, reading_of(source, options, require_label, events, text, model))


def reading_of(
    source: str | list[str],
    options: dict[str, Any],
    require_label: bool = True,
    events: bool = False,
    text: Sequence[str] | None = None,
    model: Any = None,
) -> SourceOptions:
    """Return how a source is read.

    Parameters
    ----------
    source
        The argument SOURCE, a name or a list of names.
    options
        The options of the command by name.
    require_label
        Whether to reject examples without a label.
    events
        Whether to read examples and labels as separate events, joined by id.
    text
        Names of the features that the model reads as raw text.
    model
        The model that predicts the examples, if there is one.
    """
    from streaml1.cli.column_kinds import with_categories

    reading = replace(
        reading_options(options), require_label=require_label, events=events, text=text
    )
    if not is_topic(source) and _connects_elsewhere():
        reading = replace(reading, kafka=None)  # the Kafka options belong to that other topic
    return with_categories(source, reading, model)


def is_topic(source: str | list[str]) -> bool:
    """Return whether a source is a Kafka topic."""
    return isinstance(source, str) and source.startswith("kafka:")


def reading_options(options: dict[str, Any]) -> SourceOptions:
    """Return those options of a command that describe how a source is read.

    Each has the name of a field of `SourceOptions`; one that was not given keeps its default.
    """
    from streaml1.core.option_fields import option_names
    from streaml1.sources import SourceOptions

    given = {name: options.get(name) for name in option_names(SourceOptions)}
    return SourceOptions(**{name: value for name, value in given.items() if value is not None})


def _connects_elsewhere() -> bool:
    """Return whether an option, such as a model or --predictions, is the URL of a topic."""
    values = click.get_current_context().params.values()
    return any(isinstance(value, str) and value.startswith("kafka:") for value in values)
