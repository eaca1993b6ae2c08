"""Open a source of examples by its name."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from streaml1.core.named_options import named_option
from streaml1.core.option_fields import document_options, option_names, parameter_entries
from streaml1.sources.arrow.databases import DuckdbRows
from streaml1.sources.arrow.files import ARROW, PARQUET, ArrowFile, first_rows
from streaml1.sources.file_formats import (
    ROLE_FORMATS,
    check_format,
    column_options_text,
    file_format,
)
from streaml1.sources.kafka.topic_source import KafkaSource
from streaml1.sources.key_columns import KeyColumns
from streaml1.sources.options import SourceOptions, source_options
from streaml1.sources.reader_options import (
    csv_delimiter,
    csv_parser,
    csv_records,
    json_roles,
    table_roles,
)
from streaml1.sources.readers.avro import AVRO
from streaml1.sources.readers.directory_keys import keys_of, keys_of_files
from streaml1.sources.readers.file_lists import (
    first_with_bytes,
    is_many,
    list_files,
)
from streaml1.sources.readers.flat_json import NO_ROLES
from streaml1.sources.readers.formats import line_parser
from streaml1.sources.readers.json_documents import json_lines
from streaml1.sources.readers.many_files import ManyFiles, Part
from streaml1.sources.readers.opening import require_readable
from streaml1.sources.readers.remote import is_remote
from streaml1.sources.readers.signatures import suffix_of
from streaml1.sources.readers.text_file import TextSource
from streaml1.sources.river_datasets import RiverSet
from streaml1.sources.row_cache.row_file import RowsFile
from streaml1.sources.samples import sample_header
from streaml1.sources.source import SOURCES, Source, SourceError

__all__ = ["format_of", "key_columns", "open_source", "reject_topic_options"]

SOURCES["river"] = lambda spec, seed: RiverSet(spec)
SOURCES["kafka"] = lambda spec, seed: KafkaSource(spec)
SOURCES["duckdb"] = lambda spec, seed: DuckdbRows(spec)


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
        files of a directory and of a pattern are sorted by path. Directories right above the files
        whose names are ``key=value`` are columns.
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
    if keys_of(name) and _has_columns(file_format(name, options.format).name, options):
        return _open_files(name, options)
    return _open_file(name, options)


def format_of(spec: str | Sequence[str], format: str | None = None) -> str:
    """Return the format of one or several files, or the prefix of a source that is not a file."""
    if is_many(spec):
        files = list_files(spec)
        return _formats(files, format)[files[0]]
    name = str(spec)
    prefix = name.partition(":")[0]
    return prefix if prefix in SOURCES else file_format(name, format).name


def _check_seed(name: str, prefix: str, options: SourceOptions) -> None:
    if options.seed is not None and prefix not in SOURCES.keys() - {"river", "kafka", "duckdb"}:
        raise SourceError(
            f"{named_option('seed')} applies to sources that shuffle (stdlib, data:...), not to "
            f"{name}; leave it out"
        )


def reject_topic_options(name: str, options: SourceOptions) -> None:
    """Raise SourceError if options are given that apply to topics only."""
    names = ("start", "until_end", "partitions", "group", "labels", "kafka")
    given = [name for name in names if getattr(options, name) not in (None, False)]
    if options.schema is not None or options.schema_registry is not None:
        raise SourceError(
            f"{named_option('schema')} and {named_option('schema_registry')} apply to the records "
            f"of kafka://... only, not to {name}"
        )
    if given:
        topics = ", ".join(
            "broker options" if one == "kafka" else named_option(one) for one in given
        )
        raise SourceError(f"options of topics ({topics}) apply to kafka://... only, not to {name}")


def _open_topic(name: str, options: SourceOptions) -> Source:
    csv = csv_records(name, options)
    return KafkaSource(
        name, format=options.format, start=options.start, until_end=options.until_end,
        partitions=options.partitions, group=options.group, require_label=options.require_label,
        kafka=options.kafka, events=options.events, labels=options.labels,
        text=tuple(options.text or ()), roles=NO_ROLES if csv else json_roles(options),
        schema=options.schema, registry=options.schema_registry, csv=csv,
    )  # fmt: skip


def _open_registered(name: str, prefix: str, options: SourceOptions) -> Source:
    """Open a source of `SOURCES`, which is neither a file nor a topic."""
    if options.events:
        raise SourceError(f"delayed labels need JSON lines or a topic, got {name}")
    try:
        if options.format is not None or column_options_text(options) is not None:
            raise SourceError(
                f"{named_option('format')} and column options apply to files only, not to {name}"
            )
        return SOURCES[prefix](name, options.seed or 0)
    except SourceError as error:
        if not os.path.exists(name):
            raise
        raise SourceError(f"{error}; to read the files of that name, use ./{name}") from None


def _open_files(spec: str | Path | Sequence[str | Path], options: SourceOptions) -> Source:
    """Open several files as one source."""
    files = list_files(spec)
    is_list = isinstance(spec, list | tuple)
    name = f"{files[0]} and {len(files) - 1:,} more" if is_list else str(spec)
    _check_seed(name, "", options)
    reject_topic_options(name, options)
    kinds = _formats(files, options.format)
    _require_one_format(kinds)
    keys = key_columns(files, options)
    has_columns = _has_columns(kinds[files[0]], options)
    own = options if keys is None else keys.options_of_files(options)
    return ManyFiles(name, files, lambda file: _open_part(file, own), keys, has_columns)


def key_columns(files: Sequence[str], options: SourceOptions) -> KeyColumns | None:
    """Return the columns whose values are in the names of the directories of files.

    Keys that are also columns of the files are left out: writers that keep both write the same
    values, and those in the files have a type.

    Returns
    -------
    None if there are no such columns, or the format has no columns.

    Raises
    ------
    SourceError
        If files have different keys, or a role does not fit.
    """
    if not any(map(keys_of, files)):
        return None
    first = first_with_bytes(files)
    kind = file_format(first, options.format).name
    if not _has_columns(kind, options):
        return None
    values = keys_of_files(files)
    columns = _columns_of(first, kind, options)
    values = {
        file: {key: value for key, value in keys.items() if key not in columns}
        for file, keys in values.items()
    }
    return KeyColumns(values, options, kind) if values[first] else None


def _has_columns(kind: str, options: SourceOptions) -> bool:
    """Return whether files of a format have columns, to which those of directories are added."""
    return kind in ROLE_FORMATS and not options.events


def _columns_of(name: str, kind: str, options: SourceOptions) -> set[str]:
    """Return the columns of a file by name; for JSON, the members of the first example."""
    if not is_remote(name) and Path(name).is_fifo():  # it can be read only once
        return set()
    if kind in (PARQUET, ARROW):
        return {*first_rows(name, kind, 1).column_names}
    if kind == "csv":
        given = options.column_names
        return {*(sample_header(name, csv_delimiter(name, options)) if given is None else given)}
    plain = SourceOptions(format=options.format, at=options.at, require_label=False)
    try:
        for block in _open_file(name, plain).blocks(1, lambda *_: None):
            return {str(column) for column in block.x[0]}
    except SourceError:  # the reader reports it
        pass
    return set()


def _formats(files: Sequence[str], format: str | None) -> dict[str, str]:
    """Return the format of each file; raise SourceError if one is unknown."""
    kinds: dict[str, str] = {}
    unknown: dict[str, SourceError] = {}
    for file in files:
        try:
            kinds[file] = file_format(file, format).name
        except SourceError as error:
            unknown[file] = error
    known = next(iter(kinds), None)
    for file, reason in unknown.items():
        if known is None:
            raise reason
        pattern = os.path.join(os.path.dirname(file), f"*{suffix_of(known)}")
        raise SourceError(
            f"the format of {file} is unknown, that of {known} is {kinds[known]}: to leave the "
            f"former out, use the pattern {pattern!r}, or list the files"
        )
    return kinds


def _require_one_format(kinds: Mapping[str, str]) -> None:
    """Raise SourceError unless files that are read one after another have one format of text."""
    known = next(iter(kinds))
    for file, kind in kinds.items():
        if kind == "rows":
            raise SourceError(
                f"{file} is a row cache, which cannot be read with other files; read it alone"
            )
        if kind != kinds[known]:
            raise SourceError(
                f"{file} is {kind}, but {known} is {kinds[known]}: all files must have the "
                f"same format; use a pattern for some of them, or {named_option('format')}"
            )


def _open_part(name: str, options: SourceOptions) -> Part:
    source = _open_file(name, options)
    assert isinstance(source, TextSource | ArrowFile)
    return source


def _open_file(name: str, options: SourceOptions) -> Source:
    if name != "-":
        require_readable(name)
    kind, codec = file_format(name, options.format)
    texts = tuple(options.text or ())
    check_format(name, kind, texts, options)
    if kind == "rows":
        if name == "-" or codec is not None:
            shown = "standard input" if name == "-" else name
            raise SourceError(f"a .rows file must be an uncompressed file on a disk, got {shown}")
        return RowsFile(name)
    if kind in (PARQUET, ARROW):
        return _open_arrow(name, kind, codec is not None, texts, options)
    if kind == "csv":
        parser: Any = csv_parser(name, texts, options)
    else:
        parser = line_parser(
            "events" if options.events else "jsonl" if kind == AVRO else kind,
            options.require_label, texts=texts, roles=json_roles(options), name=name,
        )  # fmt: skip
    to_lines = partial(json_lines, at=options.at) if kind == "jsonl" else None
    return TextSource(name, parser, codec, kind == AVRO, to_lines)


def _open_arrow(
    name: str, kind: str, compressed: bool, texts: tuple[str, ...], options: SourceOptions
) -> ArrowFile:
    if name == "-" or compressed:
        shown = "standard input" if name == "-" else name
        remedy = "; decompress it first" if compressed else ""
        raise SourceError(
            f"a {kind} file must be an uncompressed file on a disk, got {shown}{remedy}"
        )
    return ArrowFile(name, kind, text=texts, **table_roles(options))


def _open_duckdb(name: str, options: SourceOptions) -> DuckdbRows:
    if options.events:
        raise SourceError(f"delayed labels need JSON lines or a topic, got {name}")
    given = {
        named_option("format"): options.format, named_option("at"): options.at, **options.csv_only
    }  # fmt: skip
    for option, value in given.items():
        if value is not None:
            raise SourceError(f"{option} does not apply to tables of DuckDB, got {name}")
    return DuckdbRows(name, text=tuple(options.text or ()), **table_roles(options))
