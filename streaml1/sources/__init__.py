"""Sources of examples: files, standard input, river's data sets, Kafka topics."""

from __future__ import annotations

from streaml1.sources.dispatch import format_of, key_columns, open_source, reject_topic_options
from streaml1.sources.options import SourceOptions, source_options
from streaml1.sources.reader_options import cell_rules, csv_delimiter, json_roles, topic_records
from streaml1.sources.readers.file_lists import is_many, list_files
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
    "key_columns",
    "list_files",
    "nonnegative_label",
    "number_label",
    "open_source",
    "reject_topic_options",
    "source_options",
    "topic_records",
]
