"""Kafka values in the wire format of schema registries, as JSON.

A value begins with the byte 0 and the id of its schema in four bytes; or a header of its record,
`SCHEMA_ID`, has the byte 1 and the GUID of the schema, which is its id in all registries. Each
value is decoded with the schema that it was written with, so a schema may change: the names of
fields decide. If the schema is in a file, values may lack the id.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from uuid import UUID

from streaml1.core.named_options import named_option
from streaml1.sources.kafka.schema_registry import RegisteredSchema, SchemaRegistry
from streaml1.sources.readers.avro import AvroSchema, require_fastavro
from streaml1.sources.readers.decoded_records import json_line
from streaml1.sources.readers.protobuf import (
    ProtobufSchema,
    read_descriptors,
    require_protobuf,
)
from streaml1.sources.source import SourceError, shown

__all__ = [
    "CONTAINER", "CONTAINER_REASON", "HEADER", "SCHEMA_FORMATS", "SCHEMA_ID", "SINGLE_OBJECT",
    "WireFormat", "schema_id_of", "wire_format",
]  # fmt: skip

HEADER = 5
"""Bytes before the record: 0, and the id of the schema."""

SCHEMA_ID = "__value_schema_id"
"""The header of a record where serializers may put the id of the schema, not before the value."""

GUID_START, GUID_HEADER = b"\x01", 17
"""The byte before the GUID of a schema, and the size of both. For Protobuf, indexes follow."""

ID_SIZES = {b"\0": HEADER, GUID_START: GUID_HEADER}
"""Size of an id or a GUID, with the byte before it, by that byte."""

SINGLE_OBJECT, SINGLE_OBJECT_HEADER = b"\xc3\x01", 10
"""How Avro's single-object encoding begins, and its bytes before the record."""

CONTAINER = b"Obj\x01"
"""How a container file of Avro begins."""

CONTAINER_REASON = "the record is a container file of Avro: write the records one by one"

MAX_SCHEMAS = 1000
"""Schemas that are cached."""

KINDS = {"jsonl": "JSON", "avro": "AVRO", "protobuf": "PROTOBUF"}
"""Name of each format in registries."""

SCHEMA_FORMATS = ("avro", "protobuf")
"""Formats that cannot be read without a schema."""

NAMES = {"JSON": "JSON", "AVRO": "Avro", "PROTOBUF": "Protobuf"}

Decoder = Callable[[bytes], bytes]
"""Returns a record as JSON. Raises ValueError with one sentence if it is invalid."""


class WireFormat:
    """Decodes values.

    Parameters
    ----------
    format
        ``avro``, ``protobuf`` or ``jsonl``; None for any, also for values without a header.
    schema
        File of the schema of all records.
    registry
        Registry of the schemas, if there is no file.
    """

    def __init__(
        self, format: str | None, schema: str | Path | None, registry: SchemaRegistry | None
    ) -> None:
        self._kind = None if format is None else KINDS[format]
        self._registry = registry
        self._decoders: dict[int | UUID, Decoder | str] = {}  # a decoder, or why there is none
        if format == "avro":
            require_fastavro(named_option("format", format))
        if format == "protobuf":
            require_protobuf(named_option("format", format))
        self._of_file = None if schema is None else _file_decoder(str(format), str(schema))

    def decode(self, value: bytes, schema_id: bytes = b"") -> bytes | None:
        """Return a value as JSON; None if it has no header, and needs none.

        Parameters
        ----------
        value
            The bytes of the record.
        schema_id
            What `schema_id_of` finds in its headers.

        Raises
        ------
        ValueError
            If the value is invalid, or its schema unknown; the text is one sentence.
        SourceError
            If the registry does not answer.
        """
        if schema_id:
            _check_schema_id(schema_id)
        value = schema_id + value
        if self._of_file is not None:
            return self._of_file(value)
        if schema_id.startswith(GUID_START):
            guid = UUID(bytes=schema_id[len(GUID_START) : GUID_HEADER])
            return self._decoder(guid)(value[GUID_HEADER:])
        if not value.startswith(b"\0"):
            if self._kind is None:
                return None
            raise ValueError(
                f"the record begins with the byte 0x{value[0]:02x}, not with the 0 before the id "
                f"of a schema; records without it need {named_option('schema', 'FILE')}"
            )
        if len(value) < HEADER:
            raise ValueError(
                f"the record has {len(value)} bytes, fewer than the {HEADER} of a schema registry "
                "header"
            )
        return self._decoder(int.from_bytes(value[1:HEADER], "big"))(value[HEADER:])

    def _decoder(self, id: int | UUID) -> Decoder:
        found = self._decoders.get(id)
        if found is None:
            assert self._registry is not None
            found = self._new_decoder(id, self._registry.schema(id))
            if len(self._decoders) >= MAX_SCHEMAS:
                del self._decoders[next(iter(self._decoders))]
            self._decoders[id] = found
        if isinstance(found, str):
            raise ValueError(found)
        return found

    def _new_decoder(self, id: int | UUID, schema: RegisteredSchema) -> Decoder | str:
        if self._kind is not None and schema.kind != self._kind:
            return (
                f"schema {id} of the record is {NAMES.get(schema.kind, shown(schema.kind))}, not "
                f"{NAMES[self._kind]}"
            )
        name = f"schema {id}"
        if schema.kind == "JSON":
            return bytes
        if schema.kind == "AVRO":
            require_fastavro(name)
            try:
                return _avro_decoder(schema.text, name, schema.references)
            except SourceError as error:  # a record cannot be read, but others may be
                return str(error)
        if schema.kind == "PROTOBUF":
            require_protobuf(name)
            try:
                files = [*schema.references.values(), schema.text]
                return _protobuf_decoder(files, name)
            except SourceError as error:
                return str(error)
        return f"{name} of the record has the type {shown(schema.kind)}, which is not supported"


def schema_id_of(headers: Iterable[tuple[str, bytes | None]] | None) -> bytes:
    """Return what the headers of a record have in `SCHEMA_ID`; b"" if they lack it."""
    return next((value for name, value in headers or () if name == SCHEMA_ID and value), b"")


def _check_schema_id(schema_id: bytes) -> None:
    """Raise ValueError if the header `SCHEMA_ID` does not begin with an id or a GUID."""
    size = ID_SIZES.get(schema_id[:1])
    if size is None or len(schema_id) < size:
        raise ValueError(
            f"the header {SCHEMA_ID} of the record has {len(schema_id)} bytes and begins with "
            f"0x{schema_id[0]:02x}: it must be the byte 0 and an id, or the byte 1 and a GUID"
        )


def _avro_decoder(text: str, name: str, references: Mapping[str, str]) -> Decoder:
    try:
        schema = json.loads(text)
        others = [json.loads(other) for other in references.values()]
    except (ValueError, RecursionError):
        raise SourceError(f"{name} is not an Avro schema: it is not JSON") from None
    decode = AvroSchema(schema, name, others).decode
    return lambda record: json_line(decode(record))


def _protobuf_decoder(files: Sequence[str], name: str) -> Decoder:
    """Return the decoder with descriptors of files in base64; the last has the messages."""
    descriptors = []
    for file in files:
        try:
            content = base64.b64decode(file, validate=True)
        except ValueError:
            raise SourceError(
                f"{name} has a Protobuf schema that is not a serialized descriptor: the registry "
                "must support ?format=serialized"
            ) from None
        descriptors += read_descriptors(content, name)
    return ProtobufSchema(descriptors, name).decode


def _file_decoder(format: str, name: str) -> Decoder:
    """Return the decoder of values, with and without a header, with the schema in a file."""
    try:
        content = Path(name).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SourceError(f"the schema {name} cannot be read: {reason}") from None
    if format == "protobuf":
        return _protobuf_values(ProtobufSchema(read_descriptors(content, name), name))
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise SourceError(f"{name} is not an Avro schema: it is not JSON") from None
    return _avro_values(_avro_decoder(text, name, {}))


def _protobuf_values(schema: ProtobufSchema) -> Decoder:
    def decode(value: bytes) -> bytes:
        size = ID_SIZES.get(value[:1])  # no message begins with one of these bytes
        return schema.decode_plain(value) if size is None else schema.decode(value[size:])

    return decode


def _avro_values(decode_record: Decoder) -> Decoder:
    headers = {**ID_SIZES, SINGLE_OBJECT: SINGLE_OBJECT_HEADER}

    def decode(value: bytes) -> bytes:
        size = next((headers[start] for start in headers if value.startswith(start)), 0)
        try:
            return decode_record(value[size:])
        except ValueError:
            if value.startswith(CONTAINER):
                raise ValueError(CONTAINER_REASON) from None
            # A first field may look like a header; both ways hardly ever fit the schema.
            return decode_record(value)

    return decode


def wire_format(
    format: str | None, schema: str | Path | None, registry: str | None
) -> WireFormat | None:
    """Return what decodes values with a header; None if they need no schema.

    Raises
    ------
    SourceError
        If the options do not fit together, or the schema is invalid.
    """
    needs_schema = format in SCHEMA_FORMATS
    if schema is not None and registry is not None:
        raise SourceError(
            f"{named_option('schema')} cannot be combined with {named_option('schema_registry')}: "
            "give one of them"
        )
    if schema is not None and not needs_schema:
        raise SourceError(
            f"{named_option('schema')} needs {named_option('format', *SCHEMA_FORMATS)}"
        )
    if registry is not None:
        if format is not None and format not in KINDS:
            raise SourceError(
                f"{named_option('schema_registry')} cannot be combined with "
                f"{named_option('format', format)}"
            )
        return WireFormat(format, None, SchemaRegistry(registry))
    if schema is not None:
        return WireFormat(format, schema, None)
    if needs_schema:
        raise SourceError(
            f"{named_option('format', format)} needs the schema: give "
            f"{named_option('schema_registry', 'URL')} or {named_option('schema', 'FILE')}"
        )
    return None
