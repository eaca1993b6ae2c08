"""Options that say how a source is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from streaml1.core.named_options import by_caller, flag_of
from streaml1.core.option_fields import (
    document_options,
    option,
    option_names,
    parameter_entries,
    unexpected_option,
    validate_options,
)
from streaml1.features.positive_label import require_text

__all__ = ["CSV_OPTIONS", "SOURCE_PARAMETERS", "SourceOptions", "source_options"]


CSV_OPTIONS = ("delimiter", "missing", "header", "column_names", "decimal", "thousands")
"""Options of CSV files alone, which are None unless they are given."""


def _column_names(given: str | Iterable[str]) -> tuple[str, ...]:
    """Return a tuple of names; a single name may be given without a list."""
    return (given,) if isinstance(given, str) else tuple(given)


def _names_or_none(given: Iterable[str]) -> tuple[str, ...] | None:
    return tuple(given) or None


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """How to read a source: format, columns, order, and the part of a topic.

    Each option applies to some kinds of sources only. `open_source` rejects an option that does
    not apply to the source.

    Parameters
    ----------
    {options}
    """

    format: str | None = option(
        None,
        "Format if the file name does not end in it: svmlight, vw, jsonl, csv, tsv or avro. "
        "For topics svmlight, vw, jsonl, csv, tsv, avro or protobuf; by default (auto) detected "
        "for each record.",
    )
    target: str | None = option(
        None,
        "Column (CSV) or member (JSON) of the label. Columns are selected by name, or by number "
        'from 0; a member of a nested object is named by its path: "user.clicked".',
    )
    categorical: Iterable[str] = option(
        (),
        "CSV: columns that hold text; all other columns hold numbers. JSON: members whose numbers "
        "are categories, as strings always are.",
        convert=_column_names,
    )
    numeric: Iterable[str] = option(
        (),
        "JSON, Avro, tables: members or columns whose text is a number, as exports write large "
        "integers and decimals. CSV: columns of numbers, whatever words the first rows hold.",
        convert=_column_names,
    )
    weight: str | None = option(None, "Column (CSV) or member (JSON) of the sample weight.")
    ignore: Iterable[str] = option(
        (), "Columns (CSV) or members (JSON) to skip.", convert=_column_names
    )
    id: str | None = option(
        None,
        "Column (CSV, Parquet, Arrow, frames) or member (JSON, Avro, dicts) of the id of "
        "predictions.",
    )
    at: str | None = option(
        None,
        'JSON: path of the object that holds the example, such as "payload.after". An example '
        "whose object is null is skipped.",
    )
    delimiter: str | None = option(
        None, 'CSV: one character, or "tab". By default a comma, or a tab for tsv.'
    )
    missing: Iterable[str] | None = option(
        None,
        "CSV: words that stand for a missing value, in addition to the empty cell. By default "
        r"NaN, nan, NULL, null, None, N/A, NA, \\N and ?.",
        convert=_column_names,
    )
    header: bool | None = option(
        None,
        "CSV: whether the first line holds the names of the columns. Without names, columns are "
        "named by their numbers, from 0. By default it does, and a line that looks like data is "
        "an error.",
    )
    column_names: Iterable[str] | None = option(
        None,
        "CSV: names of the columns of a file or topic without a header.",
        convert=_column_names,
    )
    positive: str | None = option(
        None,
        "The label that is 1, such as Yes, or several: Yes,yes; others are then 0.",
        check=require_text,
    )
    decimal: str | None = option(
        None, "CSV: decimal mark of numbers, a point (the default) or a comma."
    )
    thousands: str | None = option(
        None, "CSV: character between groups of digits, such as the comma in 1,234.5."
    )
    schema: str | Path | None = option(
        None,
        "Topics: file of the schema of all records. Format avro: the schema as JSON (.avsc). "
        "Format protobuf: what protoc --include_imports --descriptor_set_out writes.",
    )
    schema_registry: str | None = option(
        None,
        "Topics: URL of the schema registry of records with a header. Credentials come from the "
        "environment variables STREAML1_REGISTRY_USER and STREAML1_REGISTRY_PASSWORD.",
    )
    seed: int | None = option(
        None, "Seed of the order of the examples, for sources that shuffle: stdlib and data:..."
    )
    start: str | None = option(
        None,
        "Topics: where to start without a checkpoint: earliest (the default), latest, checkpoint, "
        "or a time (ISO 8601, or milliseconds since 1970).",
    )
    until_end: bool = option(
        False, "Topics: stop at the offsets that were the end of the topic when reading started."
    )
    partitions: Sequence[int] | None = option(
        None, "Topics: partitions to read. By default all of them."
    )
    group: str | None = option(
        None,
        "Topics: consumer group under which the offsets of checkpoints are committed, for tools "
        "that show the lag.",
    )
    labels: str | None = option(
        None, "Topics: topic of the delayed labels, if it is not that of the examples."
    )
    kafka: Any = option(
        None,
        "Topics: how to connect to the brokers: the path of a properties file, or a dict of "
        'settings such as `{"user": "ann"}`. By default read from environment variables.',
    )
    require_label: bool = option(
        True,
        "Reject an example without a label. If False, its label is None.",
        internal=True,
    )
    events: bool = option(
        False,
        "Read events for delayed labels instead of labelled examples.",
        internal=True,
    )
    text: Iterable[str] | None = option(
        None,
        "Names that the model reads as raw text: CSV columns or VW namespaces.",
        convert=_names_or_none,
        internal=True,
    )
    elsewhere: Iterable[str] = option(
        (),
        "Columns that the files lack, since the names of their directories hold them. Errors list "
        "them.",
        convert=_column_names,
        internal=True,
    )

    def __post_init__(self) -> None:
        validate_options(self)

    @property
    def csv_only(self) -> dict[str, Any]:
        """The options that were given and apply to CSV files alone, by name."""
        given = {name: getattr(self, name) for name in CSV_OPTIONS}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def csv_only_text(self) -> str:
        """How an error names `csv_only`, with the first one; "" if none was given."""
        if not self.csv_only:
            return ""
        name = next(iter(self.csv_only))
        return f"column options (such as {by_caller(flag_of(name), name)})"

    @property
    def columns(self) -> list[str]:
        """Names of all columns or members that the options mention."""
        lists = (*self.categorical, *self.numeric, *self.ignore)
        listed = (self.target, self.weight, self.id, *lists, self.at)
        return [name for name in listed if name is not None]


SOURCE_PARAMETERS = parameter_entries(SourceOptions)
"""Entries of the options that users give, for the Parameters section of a docstring."""

document_options(parameter_entries(SourceOptions, option_names(SourceOptions, internal=True)))(
    SourceOptions
)


def source_options(
    caller: str, options: SourceOptions | None, keywords: dict[str, Any]
) -> SourceOptions:
    """Merge keyword arguments of a function into its options.

    Parameters
    ----------
    caller
        Name of the function, for errors.
    options
        Options that the keywords override. None means the defaults.
    keywords
        Fields of `SourceOptions` by name.

    Raises
    ------
    TypeError
        If a keyword is not a field; the message names the closest field.
    """
    known = option_names(SourceOptions, internal=True)
    for name in keywords:
        if name not in known:
            raise unexpected_option(caller, name, known)
    return replace(options or SourceOptions(), **keywords)
