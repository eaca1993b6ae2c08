"""Formats of files: which format a file has, and which options apply to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streaml1.core.named_options import by_caller, named_option, named_options
from streaml1.sources.arrow.files import ARROW, PARQUET, arrow_format
from streaml1.sources.options import SourceOptions
from streaml1.sources.readers.avro import AVRO, is_avro
from streaml1.sources.readers.decompression import head_of
from streaml1.sources.readers.remote import path_of
from streaml1.sources.readers.signatures import foreign_type, likely_format, split_suffix
from streaml1.sources.source import SourceError

__all__ = [
    "FORMATS",
    "JSON_FORMATS",
    "ROLE_FORMATS",
    "TEXT_FORMATS",
    "FileFormat",
    "check_format",
    "column_options_text",
    "file_format",
]

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

MAIL_SUFFIXES = (".mbox", ".eml")
"""Suffixes of files of mails, which are not read."""

TEXT_FORMATS = ("csv", "jsonl", "vw", PARQUET, ARROW, AVRO)
"""Formats that can hold raw text."""

ROLE_FORMATS = ("csv", "jsonl", PARQUET, ARROW, AVRO)
"""Formats whose columns or members have the roles that options give to them."""

JSON_FORMATS = ("jsonl", AVRO)
"""Formats whose examples are read as JSON objects."""


class FileFormat(NamedTuple):
    """The format of a file, and how the file is compressed."""

    name: str
    codec: str | None
    """The program that has compressed the file, by its suffix."""


def file_format(name: str, format: str | None) -> FileFormat:
    """Return the format of a file and the program that its suffix says has compressed it."""
    if format is None and (found := arrow_format(name)) is not None:
        return FileFormat(found, None)
    if format is None and is_avro(name):
        return FileFormat(AVRO, None)
    path = path_of(name)
    uncompressed, codec = split_suffix(path if format is None else f".{format}")
    kind = FORMATS.get(uncompressed[uncompressed.rfind(".") :])
    if kind is not None:
        return FileFormat(kind, codec or split_suffix(path)[1])
    option = named_option("format", "svmlight", "vw", "jsonl", "csv", "tsv", "avro")
    remedy = f"use {option}"
    if format is not None:
        raise SourceError(f"unknown format {format!r}; {remedy}")
    if name == "-":
        raise SourceError(f"standard input has no file name to infer the format from; {remedy}")
    head = head_of(path)
    if (foreign := foreign_type(head.text)) is not None:
        raise SourceError(foreign.sentence(name, head.codec))
    likely = likely_format(head.text)
    if uncompressed.endswith(MAIL_SUFFIXES):
        raise SourceError(
            f"{name} holds mails; write them as JSON lines first, one object with the text and the "
            "label per mail, as in the guide to spam in raw text"
        )
    looks = f" (its first line looks like {named_options(likely)})" if likely else ""
    error = SourceError(f"cannot infer the format of {name} from its name; {remedy}{looks}")
    error.missing_options = likely
    raise error


def check_format(name: str, kind: str, texts: Sequence[str], options: SourceOptions) -> None:
    """Raise SourceError if an option does not apply to a file of this format."""
    given = column_options_text(options)
    convert = by_caller("streaml1 convert", "streaml1.training.convert")
    if options.columns and kind not in ROLE_FORMATS:
        lines = "its lines begin with the label"
        if options.ignore:
            lines += "; remove features to ignore from the file"
        why = f"give them to {convert}" if kind == "rows" else lines
        raise SourceError(
            f"{given} apply to CSV and JSON lines only, not to {name} ({kind}): {why}"
        )
    if options.csv_only and kind != "csv":
        raise SourceError(
            f"{options.csv_only_text} apply to CSV files only, not to {name} ({kind})"
        )
    if options.positive is not None and kind not in ROLE_FORMATS:
        remedy = f": give it to {convert}" if kind == "rows" else ""
        raise SourceError(
            f"{named_option('positive')} applies to CSV and JSON lines only, not to {name} ({kind})"
            + remedy
        )
    if options.at is not None and kind not in JSON_FORMATS:
        raise SourceError(
            f"{named_option('at')} applies to JSON lines and Avro only, not to {name} ({kind})"
        )
    if given is not None and options.events:
        raise SourceError(
            f"{given} cannot be combined with delayed labels: an event has the members id, x and y"
        )
    if options.events and kind not in JSON_FORMATS:
        raise SourceError(f"delayed labels need JSON lines, Avro or a topic, got {name} ({kind})")
    if texts and kind not in TEXT_FORMATS:
        remedy = "; use the file it was converted from" if kind == "rows" else ""
        raise SourceError(f"text features need CSV, JSON lines or VW, got {name} ({kind}){remedy}")


def column_options_text(options: SourceOptions) -> str | None:
    """Return how an error names the column options that were given; None if there are none."""
    if options.columns:
        return f"options that name columns (here {options.columns[0]!r})"
    if options.positive is not None:
        return f"{named_option('positive')} and column options"
    return options.csv_only_text or None
