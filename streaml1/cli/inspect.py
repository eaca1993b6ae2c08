"""``streaml1 inspect``: show what the columns of a source hold, and how to learn from it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.kafka_options import kafka_options
from streaml1.cli.options import (
    csv_options,
    is_topic,
    opened,
    reading_options,
    schema_options,
    start_options,
)
from streaml1.cli.program import CommandError, cli
from streaml1.cli.suggested_command import (
    command_for_csv,
    command_for_members,
    describe_label,
    rejection_options,
    task_options,
)
from streaml1.core.text_table import TableColumn, printable, render_table

if TYPE_CHECKING:
    from streaml1.sources.arrow.samples import ArrowSample
    from streaml1.sources.json_samples import JsonSample
    from streaml1.sources.readers.csv_cells import CellRules
    from streaml1.sources.readers.csv_kinds import ColumnSummary
    from streaml1.sources.samples import CsvSample

__all__ = ["inspect"]

N_EXAMPLES, N_LABELS = 3, 5


@cli.command(
    basics=(
        *("format", "target", "at", "delimiter", "missing", "header", "column_names", "positive"),
        *("decimal", "thousands", "schema_registry", "schema", "start"),
    ),
    epilog="Example: streaml1 inspect clicks.csv",
)
@click.argument("source")
@csv_options
@schema_options
@start_options
@kafka_options
def inspect(source: str, **options: Any) -> None:
    """Show the columns of SOURCE and a command that learns from it.

    SOURCE is a file of CSV, TSV, flat JSON lines, Avro, Parquet or Arrow, a table of DuckDB, or a
    Kafka topic, of which the first 1,000 examples are read; of a directory or a pattern, those of
    the first file. Other formats have no columns: their features and labels are counted.
    """
    from streaml1.sources import format_of, reject_topic_options
    from streaml1.sources.arrow.files import ARROW, PARQUET
    from streaml1.sources.readers.avro import AVRO

    kind, at = format_of(source, options["format"]), options["at"]
    if kind == "duckdb":
        return _inspect_duckdb(source, options)
    if kind == "kafka":
        return _inspect_topic(source, options)
    reject_topic_options(source, reading_options(options))
    file = _first_file(source)
    if kind == "csv":
        _inspect_csv(source, file, options)
    elif kind in (PARQUET, ARROW) and file != "-":
        _inspect_arrow(source, file, kind, options)
    elif kind in ("jsonl", AVRO) and file != "-" and (found := _sample_json(file, kind, at)):
        _show_json(source, file, options, found, partial(_sample_json, file, kind))
    else:
        _inspect_examples(source, options)


def _first_file(source: str) -> str:
    """Return the source, or the first file with content of a directory or a pattern."""
    from streaml1.sources import is_many, list_files
    from streaml1.sources.readers.file_lists import first_with_bytes

    return first_with_bytes(list_files(source)) if is_many(source) else source


def _keys(source: str, options: dict[str, Any], n_columns: int) -> list[ColumnSummary]:
    """Return the columns whose values are in names of directories, after those of the files."""
    from streaml1.sources import is_many, key_columns, list_files

    files = list_files(source) if is_many(source) else [source]
    reading = replace(reading_options(options), target=None, weight=None, id=None, positive=None)
    keys = key_columns(files, reading)
    return [] if keys is None else keys.summaries(n_columns)


def _inspect_csv(source: str, file: str, options: dict[str, Any]) -> None:
    from streaml1.sources import cell_rules, csv_delimiter
    from streaml1.sources.readers.csv_kinds import (
        describe_marks,
        describe_other_marks,
        describe_units,
        guess_marks,
    )
    from streaml1.sources.readers.opening import require_readable
    from streaml1.sources.samples import guess_delimiter, sample_csv, sample_text

    reading = reading_options(options)
    if file != "-":
        require_readable(file)
    text, is_whole = sample_text(file)
    usual = csv_delimiter(file, reading)
    delimiter = usual
    if reading.delimiter is None and (guess := guess_delimiter(text)) != usual:
        first = text.partition(b"\n")[0]
        delimiter = guess if usual.encode() not in first else usual

    def sampled(rules: CellRules) -> CsvSample:
        return sample_csv(
            file, text, is_whole, delimiter, rules, reading.header,
            None if reading.column_names is None else list(reading.column_names), reading.target,
        )  # fmt: skip

    sample = sampled(cell_rules(reading))
    if sample.fault is not None and not sample.n_rows:
        raise CommandError(f"no record can be read: {sample.fault}")
    if sample.title:
        raise CommandError(sample.title)
    shown = {"delimiter": delimiter} if delimiter != usual else {}
    hint = ""
    if reading.decimal is None and reading.thousands is None:
        marks = guess_marks(sample.columns, delimiter)
        localized = replace(reading, decimal=marks.get("decimal"), thousands=marks.get("thousands"))
        other = sampled(cell_rules(localized)) if marks else sample
        if _n_numbers(other) > _n_numbers(sample):
            sample, shown = other, shown | marks
        else:
            hint = describe_marks(sample.columns, delimiter)
    else:
        hint = describe_other_marks(sample.columns, cell_rules(reading), delimiter)
    hint = hint or describe_units(sample.columns)
    options |= shown
    _show_csv(source, options, sample, hint, _keys(source, options, len(sample.columns)))


def _show_csv(
    source: str,
    options: dict[str, Any],
    sample: CsvSample,
    hint: str = "",
    keys: Sequence[ColumnSummary] = (),
) -> None:
    from streaml1.features.number_texts import MISSING_WORDS

    columns = sample.columns
    by_name = {str(column.position): column for column in columns}
    by_name |= {column.name: column for column in (*columns, *keys)}
    if (name := options["target"]) is None:
        target = _guess(columns, keys)
    elif (target := by_name.get(name)) is None:
        raise CommandError(f"{source} has no column {name!r}")
    columns = [*columns, *keys]
    sample = sample._replace(columns=columns)
    click.echo(_table(columns, target))
    click.echo(f"\n{_summary(sample)}\n" + (f"{hint}\n" if hint else ""))
    given = MISSING_WORDS if options.get("missing") is None else options["missing"]
    _echo_hints(columns, target, options, f"use --missing {shlex.quote(','.join(given))},{{}}")
    _echo_no_label(source, target, "column")
    click.echo(command_for_csv(source, options, sample, target))


def _echo_no_label(source: str, target: ColumnSummary | None, what: str) -> None:
    """Print what to do if no column is clearly the label."""
    if target is None:
        command = f"streaml1 inspect {shlex.quote(source)} --target {what.upper()}"
        click.echo(f"no {what} is clearly the label: name it, as in {command}\n")


def _n_numbers(sample: CsvSample) -> int:
    """Return how many columns hold numbers."""
    return sum(column.kind == "number" for column in sample.columns)


def _inspect_arrow(source: str, file: str, kind: str, options: dict[str, Any]) -> None:
    from streaml1.sources.arrow.samples import sample_arrow
    from streaml1.sources.readers.opening import require_readable

    require_readable(file)
    sample = sample_arrow(file, kind)
    _show_table(source, options, sample, _keys(source, options, len(sample.columns)))


def _inspect_duckdb(source: str, options: dict[str, Any]) -> None:
    from streaml1.sources.arrow.samples import sample_duckdb

    _show_table(source, options, sample_duckdb(source))


def _show_table(
    source: str, options: dict[str, Any], sample: ArrowSample, keys: Sequence[ColumnSummary] = ()
) -> None:
    from streaml1.sources.arrow.samples import NESTED

    target = _target_of(source, options, sample.columns, "column", keys)
    sample = sample._replace(columns=[*sample.columns, *keys])
    click.echo(_table(sample.columns, target))
    click.echo(f"\nfirst {_n_examples(sample.n_rows)}, {len(sample.columns)} columns")
    _echo_quoted(sample.columns, target)
    _echo_hints(sample.columns, target, options, "write null instead")
    _echo_no_label(source, target, "column")
    ignored = ("id-like", "time-like", NESTED)
    click.echo(command_for_members(source, options, sample.columns, target, ignored, "COLUMN"))


def _sample_json(source: str, kind: str, at: str | None) -> JsonSample | None:
    """Return the members of a file of JSON or Avro; None if the features are in an object ``x``."""
    from streaml1.sources.json_samples import sample_json
    from streaml1.sources.readers.avro import AVRO, avro_lines
    from streaml1.sources.readers.json_documents import json_lines
    from streaml1.sources.readers.jsonl import require_lines
    from streaml1.sources.readers.opening import require_readable
    from streaml1.sources.samples import N_SAMPLED, sample_text

    require_readable(source)
    to_lines = partial(avro_lines, name=source) if kind == AVRO else partial(json_lines, at=at)
    text = sample_text(source, N_SAMPLED, to_lines)[0]
    require_lines(text, source)
    return sample_json(text, at)


def _inspect_topic(source: str, options: dict[str, Any]) -> None:
    from streaml1.sources import cell_rules, csv_delimiter, open_source
    from streaml1.sources.json_samples import sample_json
    from streaml1.sources.kafka.topic_samples import sample_topic
    from streaml1.sources.kafka.topic_source import KafkaSource
    from streaml1.sources.samples import N_SAMPLED, sample_csv

    options["until_end"] = True
    reading = replace(reading_options(options), require_label=False)
    topic = open_source(source, reading)
    assert isinstance(topic, KafkaSource)
    faults: list[str] = []
    lines = sample_topic(
        topic, N_SAMPLED, lambda place, reason, *_: faults.append(f"{place}: {reason}")
    )
    if not lines and faults:
        raise CommandError(f"{source} has no example: {faults[0]}")
    if not lines:
        raise CommandError(f"{source} has no records with a value")
    text = b"\n".join([*lines, b""])
    if (options["format"] or "").lower() in ("csv", "tsv"):
        names = list(reading.column_names or ())
        sample = sample_csv(
            source, text, len(lines) < N_SAMPLED, csv_delimiter(source, reading),
            cell_rules(reading), False, names, reading.target,
        )  # fmt: skip
        _show_csv(source, options, sample)
    elif lines[0].lstrip().startswith((b"{", b'"{')) and (
        found := sample_json(text, options["at"])
    ):
        _show_json(source, source, options, found, partial(sample_json, text))
    else:
        _inspect_examples(source, options)


def _show_json(
    source: str,
    file: str,
    options: dict[str, Any],
    sample: JsonSample,
    sampled: Callable[[str], JsonSample | None],
) -> None:
    """Show the members of JSON objects.

    Parameters
    ----------
    source, file, options
        The argument SOURCE, the file of it that is looked at, and the options.
    sample, sampled
        The members of the objects, and what returns those at a path inside.
    """
    from streaml1.sources.json_samples import envelope_of, texts_of_objects

    hint = ""
    is_chosen = options["at"] is not None or options["target"] in [c.name for c in sample.columns]
    envelope = None if is_chosen else envelope_of(sample.columns)
    if envelope is not None and (inner := sampled(envelope.at)) is not None and inner.n_rows:
        sample, options = inner, options | {"at": envelope.at}
        hint = (
            f"the objects are envelopes of {envelope.program}: --at {envelope.at} reads the "
            "examples inside"
        )
    if not sample.n_rows:
        fault = "" if sample.fault is None else f": {sample.fault}"
        raise CommandError(f"{file} has no JSON object in its first lines{fault}")
    keys = [] if is_topic(source) else _keys(source, options, len(sample.columns))
    target = _target_of(source, options, sample.columns, "member", keys)
    if target is None and sample.array is not None:
        at = sample.array if options.get("at") is None else f"{options['at']}.{sample.array}"
        raise CommandError(
            f"{file} is one object, whose array {sample.array!r} holds objects: use --at "
            f"{shlex.quote(at)} to read each of them as an example"
        )
    if target is None and sample.n_objects:
        raise CommandError(
            f"{file} is one object of {sample.n_objects:,} objects: if each of them is an example, "
            "write a line for each, as with jq -c '.[]'"
        )
    sample = sample._replace(columns=[*sample.columns, *keys])
    click.echo(_table(sample.columns, target, "member"))
    invalid = _invalid(sample.n_invalid, sample.fault)
    click.echo(f"\nfirst {_n_examples(sample.n_rows)}, {len(sample.columns)} members{invalid}")
    _echo_quoted(sample.columns, target)
    texts = texts_of_objects([c for c in sample.columns if c is not target])
    for sentence in filter(None, (hint, texts)):
        click.echo(f"{sentence}\n")
    _echo_hints(sample.columns, target, options, "write null instead")
    _echo_no_label(source, target, "member")
    click.echo(command_for_members(source, options, sample.columns, target))


def _target_of(
    source: str,
    options: dict[str, Any],
    columns: list[ColumnSummary],
    what: str,
    keys: Sequence[ColumnSummary],
) -> ColumnSummary | None:
    """Return the column of the label: the one that is given, or the most likely one."""
    from streaml1.sources.arrow.samples import NESTED
    from streaml1.sources.json_samples import ARRAY

    given = options.get("target")
    if given is None:
        return _guess([column for column in columns if column.kind not in (ARRAY, NESTED)], keys)
    for column in (*columns, *keys):
        if column.name == given:
            return column
    raise CommandError(f"{source} has no {what} {given!r}")


def _guess(columns: Sequence[ColumnSummary], keys: Sequence[ColumnSummary]) -> ColumnSummary | None:
    """Return the most likely label; a column of directories is one by its name only."""
    from streaml1.sources.readers.csv_kinds import TARGETS, guess_target

    by_name = {column.name.strip().lower(): column for column in reversed([*columns, *keys])}
    named = (by_name[name] for name in TARGETS if name in by_name)
    return next(named, None) or guess_target(columns)


def _invalid(n: int, fault: str | None) -> str:
    """Return how a summary mentions invalid examples, with an example."""
    return f", {n:,} invalid\ninvalid: {fault}" if n else ""


def _echo_quoted(columns: list[ColumnSummary], target: ColumnSummary | None) -> None:
    """Print which columns hold numbers as text, or next to words, and an empty line."""
    from streaml1.sources.json_samples import mixed_members, quoted_numbers

    features = [column for column in columns if column is not target]
    sentences = filter(None, (quoted_numbers(features), mixed_members(features)))
    click.echo("".join(f"{sentence}\n" for sentence in sentences))


def _echo_hints(
    columns: list[ColumnSummary],
    target: ColumnSummary | None,
    options: dict[str, Any],
    remedy: str,
) -> None:
    """Print what values may mean, with an empty line after it.

    Parameters
    ----------
    columns, target, options
        The columns, the one of the label, and what was given.
    remedy
        How to read a number as missing; ``{}`` is the number.
    """
    from streaml1.sources.readers.column_hints import describe_durations, describe_sentinels

    features = [column for column in columns if column is not target]
    hints = [*describe_sentinels(features, remedy), describe_durations(features)]
    if target is not None and options.get("positive") is None:
        hints.append(describe_label(target, options))
    if hints := [hint for hint in hints if hint]:
        click.echo("\n".join(hints) + "\n")


def _n_examples(n: int) -> str:
    return f"{n:,} example{'s' * (n != 1)}"


def _table(columns: list[ColumnSummary], target: ColumnSummary | None, head: str = "column") -> str:
    rows = []
    for column in columns:
        kind = f"{column.kind} (label)" if column is target else column.kind
        examples = [*column.words, *(value for value in column.values if value not in column.words)]
        values = ", ".join(_short(value) for value in examples[:N_EXAMPLES])
        more = len(column.values) - N_EXAMPLES
        rows.append((
            str(column.position), printable(column.name), kind,
            f"{column.missing:.1%}" if column.missing else "",
            values + (f" and {more:,} more" if more > 0 else ""),
        ))  # fmt: skip
    table = [
        TableColumn("number", "right"), TableColumn(head, "left", max_width=30),
        TableColumn("kind", "left"), TableColumn("missing", "right"), TableColumn("values", "left"),
    ]  # fmt: skip
    return render_table(table, rows, gap=2)


def _short(value: str) -> str:
    text = str(printable(value))
    return text if len(text) <= 16 else f"{text[:13]}..."


def _summary(sample: CsvSample) -> str:
    what = "all" if sample.is_whole else "first"
    invalid = _invalid(sample.n_invalid, sample.fault)
    header = "" if sample.has_header else "; no header"
    if header and all(column.name == str(column.position) for column in sample.columns):
        header += ": columns are selected by number"
    return f"{what} {_n_examples(sample.n_rows)}, {len(sample.columns)} columns{header}{invalid}"


def _inspect_examples(source: str, options: dict[str, Any]) -> None:
    from streaml1.sources.samples import N_SAMPLED

    examples, invalid, values, first = 0, 0, 0, ""
    labels: Counter[Any] = Counter()
    features: set[Any] = set()

    def reject(place: str, reason: str, *_: Any) -> None:
        nonlocal invalid, first
        invalid += 1
        first = first or f"{place}: {reason}"

    for block in opened(source, options, require_label=False).blocks(N_SAMPLED, reject):
        for x, y in zip(block.x, block.y, strict=True):
            features.update(x)
            values += len(x)
            labels[y] += 1
        examples += len(block)
        if examples >= N_SAMPLED:
            break
    if not examples:
        reason = f": {first}" if first else ""
        raise CommandError(f"{source} has no example ({invalid:,} rejected){reason}")
    shown = [f"{'none' if y is None else y} ({n:,})" for y, n in labels.most_common(N_LABELS)]
    more = f" and {len(labels) - N_LABELS:,} more" if len(labels) > N_LABELS else ""
    rejected = f", {invalid:,} invalid" if invalid else ""
    click.echo(
        f"first {examples:,} examples{rejected}: {len(features):,} features, "
        f"{values / examples:,.1f} in an example; labels: {', '.join(shown)}{more}"
        + (f"\ninvalid: {first}" if first else "")
    )
    given = [] if options["format"] is None else ["--format", options["format"]]
    needed = [*task_options(labels), *rejection_options(labels[None] / examples)]
    command = ["streaml1", "learn", source, *given, *needed]
    click.echo(f"\n{shlex.join(command)}")
