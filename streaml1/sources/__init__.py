"""Sources of examples: files, standard input, river's data sets, Kafka topics."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from streaml1.core.option_fields import document_options, option_names, parameter_entries
from streaml1.features.number_texts import MISSING_WORDS
from streaml1.sources.arrow.databases import DuckdbRows
from streaml1.sources.arrow.files import ARROW, PARQUET, ArrowFile, arrow_format
from streaml1.sources.kafka.csv_records import CsvRecords
from streaml1.sources.kafka.record_formats import RecordParser, record_parser
from streaml1.sources.kafka.topic_source import KafkaSource
from streaml1.sources.options import SourceOptions, source_options
from streaml1.sources.readers.avro import AVRO, is_avro
from streaml1.sources.readers.csv import CsvParser
from streaml1.sources.readers.csv_cells import CellRules
from streaml1.sources.readers.csv_schema import delimiter_of
from streaml1.sources.readers.file_lists import is_many, list_files
from streaml1.sources.readers.flat_json import NO_ROLES, JsonRoles
from streaml1.sources.readers.formats import line_parser
from streaml1.sources.readers.json_documents import json_lines
from streaml1.sources.readers.many_files import ManyFiles, Part
from streaml1.sources.readers.opening import require_readable
from streaml1.sources.readers.remote import path_of
from streaml1.sources.readers.signatures import foreign_file, likely_format, split_suffix
from streaml1.sources.readers.text_file import TextSource
from streaml1.sources.river_datasets import RiverSet
from streaml1.sources.row_cache.row_file import RowsFile
from streaml1.sources.source import (
    SOURCES,
    Block,
    Reject,
    Source,
    SourceError,
    binary_label,
    class_label,
    nonnegative_label,
    number_label,
)

__all__ = [
    "SOURCES",
    "Block",
    "Reject",
    "Source",
    "SourceError",
    "SourceOptions",
    "binary_label",
    "cell_rules",
    "class_label",
    "csv_delimiter",
    "format_of",
    "is_many",
    "json_roles",
    "list_files",
    "nonnegative_label",
    "number_label",
    "open_source",
    "source_options",
    "topic_records",
]

SOURCES["river"] = lambda spec, seed: RiverSet(spec)
SOURCES["kafka"] = lambda spec, seed: KafkaSource(spec)
SOURCES["duckdb"] = lambda spec, seed: DuckdbRows(spec)

FORMATS = {
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".vw": "vw",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".rows": "rows",
    ".parquet": PARQUET,
    ".arrow": ARROW,
    ".feather": ARROW,
    ".avro": AVRO,
}
"""Format of a file by the suffix of its name."""

TEXT_FORMATS = ("csv", "jsonl", "vw", PARQUET, ARROW, AVRO)
"""Formats that can hold raw text."""

ROLE_FORMATS = ("csv", "jsonl", PARQUET, ARROW, AVRO)
"""Formats whose columns or members have the roles that options give to them."""

CSV_RECORDS = ("csv", "tsv")
"""Formats of records that are lines of CSV."""

JSON_FORMATS = ("jsonl", AVRO)
"""Formats whose examples are read as JSON objects."""


@document_options(parameter_entries(SourceOptions, option_names(SourceOptions, internal=True)))
def open_source(
    spec: str | Path | Sequence[str | Path],
    options: SourceOptions | None = None,
    **keywords: Any,
) -> Source:
    """Open a source of examples by its name.

    Parameters
    ----------
    spec : str, Path or list of them
        Path of a file (``.svm``, ``.svmlight``, ``.vw``, ``.jsonl``, ``.csv``, ``.tsv``, each
        also compressed by gzip, zstd, bzip2 or xz; ``.parquet``, ``.arrow``, ``.feather``,
        ``.avro``; or ``.rows``, written by `streaml1.training.convert`), a URL of a file, such as
        ``s3://bucket/day.csv.gz`` (extra ``remote``), ``-`` for standard input,
        or a name with one of the prefixes in `SOURCES`, such as ``river:Phishing``,
        ``kafka://host:port/topic`` or ``duckdb:FILE?table=NAME``.
        A list of files, a directory or a pattern such as ``part-*.csv`` is read as one source; the
        files of a directory and of a pattern are sorted by name.
    options : SourceOptions, optional
        How to read it.
    {options}

    Returns
    -------
    Source
        Yields blocks of examples.

    Raises
    ------
    SourceError
        If the source does not exist, or an option does not apply to it.
    TypeError
        If a keyword is not an option.

    Examples
    --------
    >>> from streaml1.sources import SourceOptions, open_source
    >>> open_source("river:Phishing", SourceOptions()).name
    'river:Phishing'
    """
    options = source_options("open_source", options, keywords)
    if isinstance(spec, list | tuple) and len(spec) == 1:
        [spec] = spec
    if is_many(spec):
        return _open_files(spec, options)
    if not isinstance(spec, str | Path):
        raise SourceError(f"a source must be a name or a list of names, got {spec!r}")
    name = str(spec)
    prefix = name.partition(":")[0] if isinstance(spec, str) else ""
    _check_seed(name, prefix, options)
    if name.startswith("kafka:"):
        return _open_topic(name, options)
    reject_topic_options(name, options)
    if prefix == "duckdb":
        return _open_duckdb(name, options)
    if prefix in SOURCES:
        return _open_registered(name, prefix, options)
    return _open_file(name, options)


def format_of(spec: str | Sequence[str], format: str | None = None) -> str:
    """Return the format of one or several files, or the prefix of a source that is not a file."""
    name = str(list_files(spec)[0] if is_many(spec) else spec)
    prefix = name.partition(":")[0]
    return prefix if prefix in SOURCES else _file_format(name, format).name


def _check_seed(name: str, prefix: str, options: SourceOptions) -> None:
    if options.seed is not None and prefix not in SOURCES.keys() - {"river", "kafka", "duckdb"}:
        raise SourceError(
            f"--seed applies to sources that shuffle (stdlib, data:...), not to {name}; leave it "
            "out"
        )


def reject_topic_options(name: str, options: SourceOptions) -> None:
    """Raise SourceError if options are given that apply to topics only."""
    given = (options.start, options.partitions, options.group, options.labels, options.kafka)
    if options.schema is not None or options.schema_registry is not None:
        raise SourceError(
            "--schema and --schema-registry apply to the records of kafka://... only, not to "
            f"{name}"
        )
    if options.until_end or any(option is not None for option in given):
        raise SourceError(
            f"start, end, partition, group and broker options apply to kafka://... only, not to "
            f"{name}"
        )


def _column_options_text(options: SourceOptions) -> str | None:
    """Return how an error names the column options that were given; None if there are none."""
    if options.columns:
        return f"options that name columns (here {options.columns[0]!r})"
    if options.positive is not None:
        return "--positive and column options"
    given = options.csv_only
    return f"column options (such as {next(iter(given))})" if given else None


def _open_topic(name: str, options: SourceOptions) -> Source:
    csv = _csv_records(name, options)
    return KafkaSource(
        name, format=options.format, start=options.start, until_end=options.until_end,
        partitions=options.partitions, group=options.group, require_label=options.require_label,
        kafka=options.kafka, events=options.events, labels=options.labels,
        text=tuple(options.text or ()), roles=NO_ROLES if csv else json_roles(options),
        schema=options.schema, registry=options.schema_registry, csv=csv,
    )  # fmt: skip


class TopicRecords(NamedTuple):
    """How the values of a topic are read."""

    parser: RecordParser
    identity: Mapping[str, Any]
    """What identifies the reading: positions are valid only if it is unchanged."""


def topic_records(name: str, options: SourceOptions) -> TopicRecords:
    """Return how the members of a consumer group read a topic.

    Raises
    ------
    SourceError
        If an option does not apply to records of the format.
    """
    csv = _csv_records(name, options)
    if csv is not None:
        return TopicRecords(csv.parser, csv.identity)
    roles = json_roles(options)
    parser = record_parser(
        options.format, options.require_label, tuple(options.text or ()), roles, options.schema,
        options.schema_registry,
    )  # fmt: skip
    return TopicRecords(parser, roles.identity)


def _csv_records(name: str, options: SourceOptions) -> CsvRecords | None:
    """Return the parser of records that are lines of CSV; None for other formats."""
    if (options.format or "").lower() not in CSV_RECORDS:
        if options.csv_only:
            option = next(iter(options.csv_only))
            raise SourceError(
                f"column options (such as {option}) apply to CSV files only, and to topics with "
                f"--format csv, not to {name}"
            )
        return None
    given = {
        "--at": options.at, "--schema": options.schema, "--labels": options.labels,
        "--schema-registry": options.schema_registry,
    }  # fmt: skip
    for option, value in given.items():
        if value is not None:
            raise SourceError(f"{option} does not apply to CSV records, got {name}")
    if options.events:
        raise SourceError(f"delayed labels need format jsonl, got {options.format!r}")
    return CsvRecords(_csv_parser(name, tuple(options.text or ()), options))


def json_roles(options: SourceOptions) -> JsonRoles:
    """Return the roles of the members of flat JSON lines."""
    return JsonRoles(
        options.target, options.weight, options.id, frozenset(options.ignore),
        frozenset(options.categorical), options.at, options.positive, frozenset(options.numeric),
    )  # fmt: skip


def _open_registered(name: str, prefix: str, options: SourceOptions) -> Source:
    """Open a source of `SOURCES`, which is neither a file nor a topic."""
    if options.events:
        raise SourceError(f"delayed labels need JSON lines or a topic, got {name}")
    if options.format is not None or _column_options_text(options) is not None:
        raise SourceError(f"--format and column options apply to files only, not to {name}")
    return SOURCES[prefix](name, options.seed or 0)


def _open_files(spec: str | Path | Sequence[str | Path], options: SourceOptions) -> Source:
    """Open several files as one source."""
    files = list_files(spec)
    is_list = isinstance(spec, list | tuple)
    name = f"{files[0]} and {len(files) - 1:,} more" if is_list else str(spec)
    _check_seed(name, "", options)
    reject_topic_options(name, options)
    kinds = {file: _file_format(file, options.format).name for file in files}
    for file, kind in kinds.items():
        if kind == "rows":
            raise SourceError(
                f"{file} is a row cache, which cannot be read with other files; read it alone"
            )
        if kind != kinds[files[0]]:
            raise SourceError(
                f"{file} is {kind}, but {files[0]} is {kinds[files[0]]}: all files must have the "
                "same format; use a pattern for some of them, or --format"
            )
    return ManyFiles(name, files, lambda file: _open_part(file, options))


def _open_part(name: str, options: SourceOptions) -> Part:
    source = _open_file(name, options)
    assert isinstance(source, TextSource | ArrowFile)
    return source


def _open_file(name: str, options: SourceOptions) -> Source:
    if name != "-":
        require_readable(name)
    kind, codec = _file_format(name, options.format)
    texts = tuple(options.text or ())
    _check_format(name, kind, texts, options)
    if kind == "rows":
        if name == "-" or codec is not None:
            shown = "standard input" if name == "-" else name
            raise SourceError(f"a .rows file must be an uncompressed file on a disk, got {shown}")
        return RowsFile(name)
    if kind in (PARQUET, ARROW):
        return _open_arrow(name, kind, codec is not None, texts, options)
    if kind == "csv":
        parser: Any = _csv_parser(name, texts, options)
    else:
        parser = line_parser(
            "events" if options.events else "jsonl" if kind == AVRO else kind,
            options.require_label, texts=texts, roles=json_roles(options), name=name,
        )  # fmt: skip
    to_lines = partial(json_lines, at=options.at) if kind == "jsonl" else None
    return TextSource(name, parser, codec, kind == AVRO, to_lines)


def _check_format(name: str, kind: str, texts: Sequence[str], options: SourceOptions) -> None:
    given = _column_options_text(options)
    if options.columns and kind not in ROLE_FORMATS:
        lines = "its lines begin with the label; remove features to ignore from the file"
        why = "give them to streaml1 convert" if kind == "rows" else lines
        raise SourceError(
            f"{given} apply to CSV and JSON lines only, not to {name} ({kind}): {why}"
        )
    if options.csv_only and kind != "csv":
        option = next(iter(options.csv_only))
        raise SourceError(
            f"column options (such as {option}) apply to CSV files only, not to {name} ({kind})"
        )
    if options.positive is not None and kind not in ROLE_FORMATS:
        remedy = ": give it to streaml1 convert" if kind == "rows" else ""
        raise SourceError(
            f"--positive applies to CSV and JSON lines only, not to {name} ({kind}){remedy}"
        )
    if options.at is not None and kind not in JSON_FORMATS:
        raise SourceError(f"--at applies to JSON lines and Avro only, not to {name} ({kind})")
    if given is not None and options.events:
        raise SourceError(
            f"{given} cannot be combined with delayed labels: an event has the members id, x and y"
        )
    if options.events and kind not in JSON_FORMATS:
        raise SourceError(f"delayed labels need JSON lines, Avro or a topic, got {name} ({kind})")
    if texts and kind not in TEXT_FORMATS:
        remedy = "; use the file it was converted from" if kind == "rows" else ""
        raise SourceError(f"text features need CSV, JSON lines or VW, got {name} ({kind}){remedy}")


def _open_arrow(
    name: str, kind: str, compressed: bool, texts: tuple[str, ...], options: SourceOptions
) -> ArrowFile:
    if name == "-" or compressed:
        shown = "standard input" if name == "-" else name
        raise SourceError(f"a {kind} file must be an uncompressed file on a disk, got {shown}")
    return ArrowFile(name, kind, text=texts, **_table_roles(options))


def _open_duckdb(name: str, options: SourceOptions) -> DuckdbRows:
    if options.events:
        raise SourceError(f"delayed labels need JSON lines or a topic, got {name}")
    given = {"--format": options.format, "--at": options.at, **options.csv_only}
    for option, value in given.items():
        if value is not None:
            raise SourceError(f"{option} does not apply to tables of DuckDB, got {name}")
    return DuckdbRows(name, text=tuple(options.text or ()), **_table_roles(options))


def _table_roles(options: SourceOptions) -> dict[str, Any]:
    """Return the options of `TableReader`."""
    names = ("target", "categorical", "weight", "require_label", "ignore", "positive", "id",
             "numeric")  # fmt: skip
    return {name: getattr(options, name) for name in names}


def _csv_parser(name: str, texts: tuple[str, ...], options: SourceOptions) -> CsvParser:
    if options.header and options.column_names is not None:
        raise SourceError("--columns is for files without a header: leave --header out")
    return CsvParser(
        name, options.target, list(options.categorical), options.weight, options.require_label,
        list(options.ignore), csv_delimiter(name, options), texts, cell_rules(options),
        options.header, options.column_names, options.id, list(options.numeric),
    )  # fmt: skip


def cell_rules(options: SourceOptions) -> CellRules:
    """Return how the cells of a CSV file are understood."""
    missing = MISSING_WORDS if options.missing is None else options.missing
    decimal = "." if options.decimal is None else options.decimal
    return CellRules(missing, options.positive, decimal, options.thousands)


def csv_delimiter(name: str, options: SourceOptions) -> str:
    """Return the character between the cells of a CSV file."""
    if options.delimiter is not None:
        return delimiter_of(options.delimiter)
    suffix, _ = split_suffix(options.format or path_of(name))
    return "\t" if suffix.endswith("tsv") else ","


class _FileFormat(NamedTuple):
    name: str
    codec: str | None
    """The program that has compressed the file, by its suffix."""


def _file_format(name: str, format: str | None) -> _FileFormat:
    """Return the format of a file and the program that its suffix says has compressed it."""
    if format is None and (found := arrow_format(name)) is not None:
        return _FileFormat(found, None)
    if format is None and is_avro(name):
        return _FileFormat(AVRO, None)
    path = path_of(name)
    uncompressed, codec = split_suffix(path if format is None else f".{format}")
    kind = FORMATS.get(uncompressed[uncompressed.rfind(".") :])
    if kind is not None:
        return _FileFormat(kind, codec or split_suffix(path)[1])
    remedy = "use --format svmlight, vw, jsonl, csv, tsv or avro"
    if format is not None:
        raise SourceError(f"unknown format {format!r}; {remedy}")
    if name == "-":
        raise SourceError(f"standard input has no file name to infer the format from; {remedy}")
    if (foreign := foreign_file(name)) is not None:
        raise SourceError(f"{name} is {foreign.what}, not {foreign.expected}; {foreign.remedy}")
    likely = likely_format(path)
    looks = f" (its first line looks like {shlex.join(likely)})" if likely else ""
    error = SourceError(f"cannot infer the format of {name} from its name; {remedy}{looks}")
    error.missing_options = likely
    raise error
