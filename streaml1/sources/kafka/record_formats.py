"""The formats of Kafka records: what the examples in a value are, and how they are parsed.

The format of a value is decided for the whole of it, so that no fragment of a value is ever learnt:

- JSON is one document, indented or not; an array of objects, each an example; or lines, each a
  whole object. A value that is none of these is rejected as a whole.
- svmlight and Vowpal Wabbit text has one example per line.
- Values in the wire format of schema registries are decoded to JSON; see `wire_format`.

Most records have one line. `RecordReader` parses these without a look at the single records, and
asks for the pieces of values only if there are more lines than records.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from streaml1.core.named_options import named_option, named_options
from streaml1.sources.kafka.wire_format import (
    CONTAINER,
    CONTAINER_REASON,
    HEADER,
    SCHEMA_FORMATS,
    SCHEMA_ID,
    SINGLE_OBJECT,
    WireFormat,
    wire_format,
)
from streaml1.sources.readers.flat_json import NO_ROLES, JsonRoles
from streaml1.sources.readers.formats import line_parser
from streaml1.sources.readers.jsonl import decode_strict
from streaml1.sources.readers.parsed_lines import BytesLineParser, ParsedChunk, decode_line
from streaml1.sources.readers.signatures import codec_of
from streaml1.sources.source import SourceError

__all__ = ["Parser", "Piece", "RecordParser", "event_parser", "record_parser"]

MAX_PIECES = 100_000
"""Lines of a value that is parsed, or elements of its array."""

FORMATS = ("jsonl", "svmlight", "vw", *SCHEMA_FORMATS)

ALIASES = {"svm": "svmlight", "json": "jsonl", "ndjson": "jsonl"}

JSON_STARTS = b"{", b"[", b'"'

NULL = b"null"
"""What JSON serializers write for a record without a value, such as a tombstone."""

Parser = Callable[[bytes], ParsedChunk]
"""Parses lines separated by newlines."""


class Piece(NamedTuple):
    """An example in the value of a record that is not simply a line of it."""

    line: bytes
    """The line that a parser reads, without a newline; empty if there is none to parse."""
    value: bytes
    """The bytes of the example in the value."""
    reason: str = ""
    """Why the piece is rejected without being parsed."""


class RecordParser:
    """The parser of a format of records.

    Parameters
    ----------
    parse
        Parses lines separated by newlines.
    is_json
        Whether values are JSON; None decides for each value.
    wire
        Decodes values to JSON, if they have schemas.
    """

    def __init__(self, parse: Parser, is_json: bool | None, wire: WireFormat | None = None) -> None:
        self._parse = parse
        self._is_json = is_json
        self._wire = wire

    def __call__(self, text: bytes) -> ParsedChunk:
        """Parse lines separated by newlines."""
        return self._parse(text)

    def has_headers(self, values: Iterable[bytes | None]) -> bool:
        """Return whether values have to be split: what to parse is only a part of them."""
        if self._wire is not None:
            return True
        return self._is_json is not False and any(v is not None and v[:1] == b"\0" for v in values)

    def must_split(self, value: bytes | None) -> bool:
        """Return whether an invalid value looks like a JSON array, or not like JSON at all."""
        if self._is_json is False or value is None:
            return False
        if value.lstrip().startswith(b"[") or value.strip() == NULL or _prefix_reason(value):
            return True
        return self._is_json is True and not value.lstrip().startswith(JSON_STARTS)

    def is_whole(self, line: bytes) -> bool:
        """Return whether a line of a value can be an example by itself."""
        return not self._starts_json(line) or isinstance(_decoded(line), dict)

    def split(self, value: bytes, broken: bool, schema_id: bytes = b"") -> Sequence[bytes | Piece]:
        """Return the pieces of a value; bytes are a line that the parser reads as it is.

        Parameters
        ----------
        value
            The bytes of the record.
        broken
            Whether some of its lines are not complete JSON objects.
        schema_id
            What `schema_id_of` finds in its headers.

        Raises
        ------
        SourceError
            If a schema registry does not answer.
        """
        try:
            json_value = self._without_header(value, schema_id)
        except SourceError:
            raise
        except ValueError as error:
            return [Piece(b"", value, str(error))]
        if json_value is not None:
            pieces = _split_json(json_value, broken)
            if len(pieces) > 1:
                return pieces
            [piece] = pieces
            if isinstance(piece, bytes):
                return [Piece(piece, value)]
            return [piece._replace(value=value)]
        if self._starts_json(value):
            return _split_json(value, broken)
        lines = value.removesuffix(b"\n").split(b"\n")
        if self._is_json is None and len(lines) > 1:
            return [
                Piece(b"", line, "the line is JSON, but the record starts as svmlight")
                if line.lstrip().startswith(JSON_STARTS)
                else line
                for line in lines
            ]
        return lines

    def _without_header(self, value: bytes, schema_id: bytes) -> bytes | None:
        """Return a value with the id of a schema as JSON; None if it has none."""
        if not value:
            return None
        if self._wire is not None:
            return self._wire.decode(value, schema_id)
        if self._is_json is False:
            return None
        if value[:1] == b"\0" and value[HEADER:].lstrip().startswith((b"{", b"[")):
            return value[HEADER:]
        if schema_id and not value.lstrip().startswith(JSON_STARTS):
            raise ValueError(
                f"the header {SCHEMA_ID} of the record has the id of its schema: use "
                f"{named_option('schema_registry', 'URL')}"
            )
        return None

    def _starts_json(self, value: bytes) -> bool:
        if self._is_json is not None:
            return self._is_json
        start = value.lstrip()
        return start.startswith((*JSON_STARTS, NULL)) or _prefix_reason(value) != ""


def _split_json(value: bytes, broken: bool) -> Sequence[bytes | Piece]:
    if reason := _prefix_reason(value):
        return [Piece(b"", value, reason)]
    text = value.strip()
    if text == NULL:
        return [Piece(b"", value)]
    if text.startswith(b"["):
        return _split_array(value)
    if text and not text.startswith(JSON_STARTS) and not _is_json(text):
        option = named_option("format", "csv", "tsv", "vw", "svmlight", "avro", "protobuf")
        reason = f"the record is not JSON: use {option} if it is one of these"
        return [Piece(b"", value, reason)]
    lines = text.split(b"\n")
    if len(lines) == 1:
        return [Piece(text, value)]
    if not broken and lines[0].rstrip().endswith(b"}"):
        if text.count(b"\n{") + 1 == len(lines):  # the usual case
            return lines
        if all(line.lstrip().startswith(b"{") for line in lines if line.strip()):
            return lines
    try:
        _decode(text)
    except ValueError as error:
        reason = str(error)
        if isinstance(_decoded(lines[0]), dict):
            wrong = next(
                number
                for number, line in enumerate(lines, start=1)
                if line.strip() and not isinstance(_decoded(line), dict)
            )
            reason = f"the lines of the record must be JSON objects, but line {wrong} is not"
        return [Piece(b"", value, reason)]
    return [Piece(_as_line(text), value)]


def _split_array(value: bytes) -> list[Piece]:
    try:
        text = decode_line(value, "record")
        decoded = _decode(value)
        if len(decoded) > MAX_PIECES:
            raise ValueError(f"the record has {len(decoded):,} elements, more than {MAX_PIECES:,}")
        if not all(isinstance(element, dict) for element in decoded):
            raise ValueError("the record is an array, but not all of its elements are objects")
    except ValueError as error:
        return [Piece(b"", value, str(error))]
    # Slices of the text keep the spelling of numbers, and names that occur twice.
    decode, elements = json.JSONDecoder().raw_decode, []
    pos = text.find("{")
    while pos >= 0:
        end = decode(text, pos)[1]
        elements.append(text[pos:end].encode())
        pos = text.find("{", end)
    if len(elements) < 2:
        return [Piece(_as_line(b"".join(elements)), value)]
    return [Piece(_as_line(element), element) for element in elements]


def _as_line(text: bytes) -> bytes:
    """Return valid JSON in one line: in strings a newline is escaped."""
    return text.replace(b"\n", b" ")


def _decode(text: bytes) -> Any:
    """Return the value of a text; raise ValueError with one sentence if it is not JSON."""
    try:
        return orjson.loads(text)
    except ValueError:
        pass
    try:
        return decode_strict(decode_line(text, "record"))
    except RecursionError:
        raise ValueError("not an example: its values are nested too deeply") from None


def _is_json(text: bytes) -> bool:
    try:
        _decode(text)
    except ValueError:
        return False
    return True


def _decoded(text: bytes) -> Any:
    """Return the value of a text; None if it is not JSON."""
    try:
        return _decode(text)
    except ValueError:
        return None


def record_parser(
    format: str | None,
    require_label: bool,
    texts: Collection[str] = (),
    roles: JsonRoles = NO_ROLES,
    schema: str | Path | None = None,
    registry: str | None = None,
) -> RecordParser:
    """Return the parser of a format; None detects JSON or svmlight for each record.

    Parameters
    ----------
    format
        ``jsonl``, ``svmlight``, ``vw``, ``avro`` or ``protobuf``; ``auto`` is None.
    require_label
        Whether examples without a label are rejected.
    texts
        VW namespaces that are raw text.
    roles
        Roles of the members of flat JSON; if there are any, all records are JSON.
    schema, registry
        File or registry of the schemas of records.

    Raises
    ------
    SourceError
        If records cannot have the format.
    """
    given = format_name(format)
    wire = wire_format(given, schema, registry)
    if given is None and roles == NO_ROLES:
        return RecordParser(_JsonOrSvmlight(require_label).read, None, wire)
    name = "jsonl" if given is None or given in SCHEMA_FORMATS else given
    if name != "jsonl" and roles != NO_ROLES:
        raise SourceError(
            f"options that name members {_member_options()} need JSON records, not {name}"
        )
    return RecordParser(
        line_parser(name, require_label, "record", texts, roles).read, name == "jsonl", wire
    )


def format_name(format: str | None) -> str | None:
    """Return the name of a format in `FORMATS`, None if it is detected, or raise SourceError."""
    if format is None or format.lower() == "auto":
        return None
    name = ALIASES.get(format.lower(), format.lower())
    if name not in FORMATS:
        raise SourceError(
            f"the format of a topic must be {', '.join(FORMATS)}, csv, tsv or auto, got {format!r}"
        )
    return name


def event_parser(
    format: str | None,
    roles: JsonRoles = NO_ROLES,
    schema: str | Path | None = None,
    registry: str | None = None,
) -> RecordParser:
    """Return the parser of events, whose labels are delayed; parameters as for `record_parser`.

    Raises
    ------
    SourceError
        If the format has no objects, or members have roles.
    """
    name = format_name(format)
    if name not in (None, "jsonl", *SCHEMA_FORMATS):
        raise SourceError(f"delayed labels need format jsonl, got {format!r}")
    if roles != NO_ROLES:
        raise SourceError(
            f"options that name members {_member_options()} cannot be combined with delayed "
            "labels: an event has the members id, x and y"
        )
    wire = wire_format(name, schema, registry)
    return RecordParser(line_parser("untimed events", what="record").read, True, wire)


def _member_options() -> str:
    return f"({named_option('target')}, {named_option('ignore')}, ...)"


class _JsonOrSvmlight:
    """Parser that reads a line as JSON if it starts like JSON, else as svmlight."""

    def __init__(self, require_label: bool) -> None:
        self._json = line_parser("jsonl", require_label, "record")
        self._svmlight = line_parser("svmlight", require_label, "record")
        self._each = BytesLineParser(self._parse_line)

    def read(self, text: bytes) -> ParsedChunk:
        # Fast path: every line starts with a brace.
        if text.startswith(b"{") and text.count(b"\n{") == text.count(b"\n", 0, -1):
            return self._json.read(text)
        if any(start in text for start in JSON_STARTS):
            return self._each.read(text)
        return self._svmlight.read(text)

    def _parse_line(self, line: bytes) -> Any:
        if reason := _prefix_reason(line):
            raise ValueError(reason)
        is_json = line.lstrip().startswith(JSON_STARTS)
        return (self._json if is_json else self._svmlight).parse_line(line)


def _prefix_reason(value: bytes) -> str:
    """Return why a value is rejected that starts with bytes that some producers add to JSON."""
    if value.startswith(b"\xef\xbb\xbf"):
        return "the record starts with a byte order mark; write it without one"
    if value.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "the record is text in UTF-16; write it in UTF-8"
    if (codec := codec_of(value)) is not None:
        return (
            f"the record is compressed by {codec}: write it as it is, and let the producer "
            "compress (compression.type)"
        )
    if value.startswith(CONTAINER):
        return CONTAINER_REASON
    if value.startswith(SINGLE_OBJECT):
        options = named_options({"format": "avro", "schema": "FILE"})
        return f"the record is Avro in its single-object encoding: use {options}"
    if value.startswith(b"\0"):
        return (
            "the record starts with the byte 0, as those of schema registries do: use "
            f"{named_option('schema_registry', 'URL')}"
        )
    return ""
