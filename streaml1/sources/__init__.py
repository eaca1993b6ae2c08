"""Where examples come from: files, standard input, river's data sets, Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from streaml1.sources.kafka.topic_source import KafkaSource
from streaml1.sources.readers.csv import CsvParser
from streaml1.sources.readers.csv_schema import delimiter_of
from streaml1.sources.readers.formats import line_parser
from streaml1.sources.readers.text_file import TextSource, require_readable
from streaml1.sources.river_datasets import RiverSet
from streaml1.sources.row_cache.row_file import RowsFile
from streaml1.sources.source import (
    SOURCES,
    Block,
    Refuse,
    Source,
    SourceError,
    binary_label,
    class_label,
    number_label,
)

__all__ = [
    "SOURCES",
    "Block",
    "Refuse",
    "Source",
    "SourceError",
    "binary_label",
    "class_label",
    "format_of",
    "number_label",
    "open_source",
]

SOURCES["river"] = lambda spec, seed: RiverSet(spec)
SOURCES["kafka"] = lambda spec, seed: KafkaSource(spec)

ENDINGS = {
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".vw": "vw",
    ".jsonl": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".rows": "rows",
}


def open_source(
    spec: str | Path,
    *,
    format: str | None = None,
    target: str | None = None,
    categorical: Iterable[str] = (),
    weight: str | None = None,
    ignore: Iterable[str] = (),
    delimiter: str | None = None,
    seed: int | None = None,
    start: str | None = None,
    until_end: bool = False,
    partitions: Sequence[int] | None = None,
    group: str | None = None,
    require_label: bool = True,
    kafka: Any = None,
    events: bool = False,
    labels: str | None = None,
    text: Iterable[str] | None = None,
) -> Source:
    """Open a source of examples by what the user calls it.

    Parameters
    ----------
    spec
        The path of a file (``.svm``, ``.svmlight``, ``.vw``, ``.jsonl``, ``.csv``, ``.tsv``, each
        also ``.gz``; ``.rows``, which `streaml1.training.convert` writes), ``-`` for standard
        input, or one of `SOURCES`, such as ``river:Phishing`` or ``kafka://host:port/topic``.
    format
        svmlight, vw, jsonl, csv or tsv (with ``.gz`` if it is packed), where the name does not end
        in it.
        Of a topic svmlight, vw or jsonl, where its records do not tell.
    target, categorical, weight, ignore
        The columns of a CSV file: the label, those that hold text, the sample weight, those that
        are left alone. All others hold numbers.
    delimiter
        What stands between the cells of a CSV file: one character, or the word tab. By default a
        comma, and a tab where the format is tsv.
    seed
        For sources that draw their order at random, 0 by default; others refuse it.
    start, until_end, partitions, group
        Of a topic: where to start, whether to end, what to read, and who to commit for, as for
        `KafkaSource`.
    require_label
        Whether an example without a label is refused, as learning needs; predicting does not, and
        gets the label None.
    kafka
        How to connect to the brokers of a topic: the path of a properties file, or settings by
        their names, such as ``{"user": "ann", ...}``. By default as the environment says.
    events
        Whether labels come later than their examples: the examples are `Event`s then.
    labels
        The topic of the labels, where it is another.
    text
        What a model reads as raw text: of a CSV file columns, which hold text as those in
        `categorical` do, and of vw namespaces.

    Raises
    ------
    SourceError
        One sentence, if there is no such source.

    """
    name = str(spec)
    strings, ignored = (
        [one] if isinstance(one, str) else list(one) for one in (categorical, ignore)
    )
    columns = [column for column in (target, weight, *strings, *ignored) if column is not None]
    tabular = bool(columns) or delimiter is not None
    such = f" such as {columns[0]!r}" if columns else ", and something between them"
    texts = tuple(text or ())
    opener = SOURCES.get(name.partition(":")[0]) if isinstance(spec, str) else None
    if seed is not None and (opener is None or name.startswith(("river:", "kafka:"))):
        raise SourceError(
            f"{name} has an order of its own: a seed is for what draws one, such as stdlib and "
            "data:...; leave it out"
        )
    if name.startswith("kafka:"):
        topic = KafkaSource(
            name, format=format, start=start, until_end=until_end, partitions=partitions,
            group=group, require_label=require_label, kafka=kafka, events=events, labels=labels,
            text=texts,
        )  # fmt: skip
        if tabular:
            raise SourceError(f"{name} has no columns{such}: only a CSV file has")
        return topic
    if until_end or any(one is not None for one in (start, partitions, group, labels, kafka)):
        raise SourceError(
            f"{name} is no topic: only kafka://... has partitions, a start, an end and brokers"
        )
    if opener is not None and events:
        raise SourceError(f"{name} has no late labels: only JSON lines and topics have")
    if opener is not None:
        if format is not None or tabular:
            raise SourceError(f"{name} is no file: it takes no format and no columns")
        return opener(name, seed or 0)
    if name != "-":
        require_readable(name)
    kind, gz = _format(name, format)
    if tabular and kind != "csv":
        raise SourceError(f"{name} is {kind}: only a CSV file has columns{such}")
    if events and kind != "jsonl":
        raise SourceError(f"{name} is {kind}: only JSON lines have labels that come late")
    if texts and kind not in ("csv", "jsonl", "vw"):
        remedy = ": give the file that it was made of" if kind == "rows" else ""
        raise SourceError(
            f"{name} is {kind}: only CSV, JSON lines and vw have text to make words of{remedy}"
        )
    if kind == "rows":
        if name == "-" or gz:
            what = "standard input" if name == "-" else name
            raise SourceError(f"{what}: a file of rows is read from a disk, and not unpacked")
        return RowsFile(name)
    if kind == "csv":
        mark = _delimiter(name, format, delimiter)
        csv = CsvParser(name, target, strings, weight, require_label, ignored, mark, texts)
        return TextSource(name, csv, gz)
    parser = line_parser("events" if events else kind, require_label, texts=texts)
    return TextSource(name, parser, gz)


def format_of(name: str, format: str | None = None) -> str:
    """The format of a source in a word: that of a file, or else what stands before the colon."""
    word = name.partition(":")[0]
    return word if word in SOURCES else _format(name, format)[0]


def _delimiter(name: str, format: str | None, said: str | None) -> str:
    """What stands between the cells of a CSV file."""
    if said is not None:
        return delimiter_of(said)
    plain = (name if format is None else format).lower().removesuffix(".gz")
    return "\t" if plain.endswith("tsv") else ","


def _format(name: str, format: str | None) -> tuple[str, bool]:
    """Which format a file has, and whether it is packed by gzip."""
    whole = (name if format is None else f".{format}").lower()
    plain = whole.removesuffix(".gz")
    kind = ENDINGS.get(plain[plain.rfind(".") :])
    if kind is not None:
        return kind, plain != whole or name.lower().endswith(".gz")
    remedy = "say --format svmlight, vw, jsonl, csv or tsv"
    if format is not None:
        raise SourceError(f"format {format!r} is none that can be read: {remedy}")
    if name == "-":
        raise SourceError(f"standard input has no name that tells its format: {remedy}")
    raise SourceError(f"{name}: its name does not tell its format: {remedy}")
