"""What readers and parsers take, from the options of a source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from streaml1.core.named_options import named_option
from streaml1.features.number_texts import MISSING_WORDS
from streaml1.sources.kafka.csv_records import CsvRecords
from streaml1.sources.kafka.record_formats import RecordParser, record_parser
from streaml1.sources.options import SourceOptions
from streaml1.sources.readers.csv import CsvParser
from streaml1.sources.readers.csv_cells import CellRules
from streaml1.sources.readers.csv_schema import delimiter_of
from streaml1.sources.readers.flat_json import JsonRoles
from streaml1.sources.readers.remote import path_of
from streaml1.sources.readers.signatures import split_suffix
from streaml1.sources.source import SourceError

__all__ = [
    "TopicRecords",
    "cell_rules",
    "csv_delimiter",
    "csv_parser",
    "csv_records",
    "json_roles",
    "table_roles",
    "topic_records",
]

CSV_RECORDS = ("csv", "tsv")
"""Formats of records that are lines of CSV."""


def json_roles(options: SourceOptions) -> JsonRoles:
    """Return the roles of the members of flat JSON lines."""
    return JsonRoles(
        options.target, options.weight, options.id, frozenset(options.ignore),
        frozenset(options.categorical), options.at, options.positive, frozenset(options.numeric),
        tuple(options.elsewhere),
    )  # fmt: skip


def table_roles(options: SourceOptions) -> dict[str, Any]:
    """Return the options of `TableReader`."""
    names = ("target", "categorical", "weight", "require_label", "ignore", "positive", "id",
             "numeric", "elsewhere")  # fmt: skip
    return {name: getattr(options, name) for name in names}


def csv_parser(name: str, texts: tuple[str, ...], options: SourceOptions) -> CsvParser:
    """Return the parser of a CSV file or of records that are lines of CSV."""
    if options.header and options.column_names is not None:
        raise SourceError(
            f"{named_option('column_names')} is for files without a header: leave "
            f"{named_option('header')} out"
        )
    return CsvParser(
        name, options.target, list(options.categorical), options.weight, options.require_label,
        list(options.ignore), csv_delimiter(name, options), texts, cell_rules(options),
        options.header, options.column_names, options.id, list(options.numeric),
        options.elsewhere,
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


def csv_records(name: str, options: SourceOptions) -> CsvRecords | None:
    """Return the parser of records that are lines of CSV; None for other formats."""
    if (options.format or "").lower() not in CSV_RECORDS:
        if options.csv_only:
            raise SourceError(
                f"{options.csv_only_text} apply to CSV files only, and to topics with "
                f"{named_option('format', 'csv')}, not to {name}"
            )
        return None
    for option in ("at", "schema", "labels", "schema_registry"):
        if getattr(options, option) is not None:
            raise SourceError(f"{named_option(option)} does not apply to CSV records, got {name}")
    if options.events:
        raise SourceError(f"delayed labels need format jsonl, got {options.format!r}")
    return CsvRecords(csv_parser(name, tuple(options.text or ()), options))


class TopicRecords(NamedTuple):
    """How the values of a topic are read."""

    parser: RecordParser
    identity: Mapping[str, Any]
    """What identifies the reading: positions are valid only if it is unchanged."""


def topic_records(name: str, options: SourceOptions) -> TopicRecords:
    """Return how the members of a consumer group read a topic."""
    csv = csv_records(name, options)
    if csv is not None:
        return TopicRecords(csv.parser, csv.identity)
    roles = json_roles(options)
    parser = record_parser(
        options.format, options.require_label, tuple(options.text or ()), roles, options.schema,
        options.schema_registry,
    )  # fmt: skip
    return TopicRecords(parser, roles.identity)
