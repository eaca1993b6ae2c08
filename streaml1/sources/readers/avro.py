"""Avro: schemas, single records, and container files as JSON lines.

fastavro decodes records. A schema is checked before: fastavro follows recursive types without a
limit, and arrays of items without bytes as far as their length says, so that a damaged record of a
few bytes could crash the process or fill its memory.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO, cast

from streaml1.sources.extras import first_line, importing
from streaml1.sources.readers.decoded_records import json_line
from streaml1.sources.source import SourceError

__all__ = ["AVRO", "AvroSchema", "avro_lines", "is_avro", "require_fastavro"]

AVRO = "avro"

MAGIC = b"Obj\x01"

MAX_DEPTH = 64
"""Types inside each other."""

BATCH = 2**16
"""Bytes of lines that are decoded at a time."""

_FIXED_SIZES = {"null": 0, "float": 4, "double": 8}
"""Bytes of primitive types that have more or less than one at least."""


def require_fastavro(name: str) -> Any:
    """Import fastavro; raise SourceError if it is not installed."""
    with importing("fastavro", "avro", name):
        import fastavro
    return fastavro


def is_avro(path: str | Path) -> bool:
    """Return whether a file is an Avro container file, by its first bytes."""
    try:
        if not os.path.isfile(path):  # reading from a pipe would take its bytes away
            return False
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


# Schemas and single records


class AvroSchema:
    """A schema that decodes records.

    Times and dates are read as the number that is stored. Decimals are numbers.

    Parameters
    ----------
    schema
        The schema as decoded JSON.
    name
        What has the schema, for errors.
    references
        Schemas of named types that it uses, each before those that need it.

    Raises
    ------
    SourceError
        If fastavro is not installed, or the schema is invalid or not supported.

    Examples
    --------
    >>> from streaml1.sources.readers.avro import AvroSchema
    >>> fields = [{"name": "site", "type": "string"}, {"name": "hour", "type": "int"}]
    >>> schema = AvroSchema({"type": "record", "name": "Click", "fields": fields}, "clicks")
    >>> schema.decode(bytes([8, *b"news", 18]))
    {'site': 'news', 'hour': 9}
    """

    def __init__(self, schema: Any, name: str, references: Iterable[Any] = ()) -> None:
        fastavro = require_fastavro(name)
        names: dict[str, Any] = {}
        try:
            for other in references:
                fastavro.parse_schema(_without_logical_types(other), names)
            self._schema = fastavro.parse_schema(_without_logical_types(schema), names)
            smallest = _min_size(self._schema, names, (), 0)
        except _Unsupported as error:
            raise SourceError(f"{name} has an Avro schema that is not supported: {error}") from None
        except Exception as error:
            raise SourceError(f"{name} has an invalid Avro schema: {first_line(error)}") from None
        if not smallest:
            raise SourceError(f"{name} has an Avro schema without fields: it holds no examples")
        self._read = fastavro.schemaless_reader

    def read(self, file: BytesIO) -> Any:
        """Read a record from a file; many exceptions say that it is damaged."""
        return self._read(file, self._schema)

    def decode(self, value: bytes) -> Any:
        """Decode a record; raise ValueError if the bytes are not exactly one record."""
        file = BytesIO(value)
        try:
            record = self.read(file)
        except (EOFError, IndexError):  # an IndexError is about a branch of a union or an enum
            raise ValueError("the Avro record is cut short, or has another schema") from None
        except Exception as error:
            raise ValueError(f"the record is not Avro of its schema: {first_line(error)}") from None
        if remaining := len(value) - file.tell():
            raise ValueError(
                f"the Avro record ends {remaining} bytes before its value does: it has another "
                "schema"
            )
        return record


class _Unsupported(ValueError):
    """A valid schema that is not supported."""


def _without_logical_types(schema: Any) -> Any:
    """Return a schema without logical types other than decimals.

    fastavro would convert times to objects, and fail for those that have none: a time after the
    year 9999 would make the whole record unreadable.
    """
    if isinstance(schema, dict):
        return {
            name: _without_logical_types(value)
            for name, value in schema.items()
            if name != "logicalType" or value == "decimal"
        }
    if isinstance(schema, list):
        return [_without_logical_types(value) for value in schema]
    return schema


def _min_size(schema: Any, names: dict[str, Any], above: tuple[str, ...], depth: int) -> int:
    """Return the size of the smallest value of a parsed schema in bytes.

    Raises
    ------
    _Unsupported
        If the schema is recursive or too deep, or has an array of values without bytes.
    """
    if depth > MAX_DEPTH:
        raise _Unsupported(f"types are nested more than {MAX_DEPTH} levels deep")
    if isinstance(schema, list):
        sizes = [_min_size(branch, names, above, depth + 1) for branch in schema]
        return 1 + min(sizes)
    if isinstance(schema, str):
        if schema in names:
            return _min_size(names[schema], names, above, depth + 1)
        return _FIXED_SIZES.get(schema, 1)
    kind = schema["type"]
    if kind in ("record", "error"):
        name = str(schema["name"])
        if name in above:
            raise _Unsupported(f"the record {name} contains itself")
        inside = (*above, name)
        return sum(_min_size(f["type"], names, inside, depth + 1) for f in schema["fields"])
    if kind == "fixed":
        return int(schema["size"])
    if kind == "array":
        if not _min_size(schema["items"], names, above, depth + 1):
            raise _Unsupported("the items of an array have no bytes")
        return 1
    if kind == "map":
        _min_size(schema["values"], names, above, depth + 1)
        return 1
    return 1 if kind == "enum" else _min_size(kind, names, above, depth + 1)


# Container files


def avro_lines(file: BinaryIO, name: str) -> BinaryIO:
    """Return a file of the records of an Avro container file, as JSON lines.

    It raises `SourceError` if the header of the file is invalid, and OSError or EOFError if a block
    is damaged; the records before it are read first.
    """
    return cast(BinaryIO, _Lines(_read_batches(_Input(file), name, require_fastavro(name))))


class _Input:
    """A file from which fastavro reads: `read` is short only at the end, `tell` needs no seek."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._position = 0

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer at the end of the file."""
        parts = []
        while size > 0 and (part := self._read(min(size, 2**20))):
            parts.append(part)
            size -= len(part)
            self._position += len(part)
        return b"".join(parts)

    def _read(self, size: int) -> bytes:
        if hasattr(self._file, "read"):
            return self._file.read(size)
        space = bytearray(size)
        file: Any = self._file
        return bytes(space[: file.readinto1(space)])

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._position


class _Lines:
    """A file that consists of batches of bytes."""

    def __init__(self, batches: Iterator[bytes]) -> None:
        self._batches = batches
        self._rest = memoryview(b"")

    def seekable(self) -> bool:
        """Return False."""
        return False

    def readinto1(self, destination: memoryview | bytearray) -> int:
        """Read bytes into memory and return how many; 0 at the end of the file."""
        while not self._rest:
            batch = next(self._batches, None)
            if batch is None:
                return 0
            self._rest = memoryview(batch)
        n = min(len(destination), len(self._rest))
        destination[:n] = self._rest[:n]
        self._rest = self._rest[n:]
        return n


def _read_batches(file: _Input, name: str, fastavro: Any) -> Generator[bytes, None, None]:
    try:
        blocks = fastavro.block_reader(file)
        schema_text = blocks.metadata["avro.schema"]
    except EOFError:
        raise SourceError(f"{name} ends within its header: it was cut short") from None
    except Exception as error:
        raise SourceError(f"{name} is not a valid Avro file: {first_line(error)}") from None
    schema, codec = AvroSchema(json.loads(schema_text), name), blocks.codec
    end = file.tell()
    while True:
        try:
            block = next(blocks, None)
        except Exception as error:
            _reject_codec(error, name, codec)
            raise _damage(error) from None
        if block is None:
            break
        yield from _block_batches(block, schema)
        end = block.offset + block.size
    if file.tell() != end:
        raise EOFError("the Avro file was cut short")


def _block_batches(block: Any, schema: AvroSchema) -> Generator[bytes, None, None]:
    lines: list[bytes] = []
    size, damage = 0, None
    for _ in range(block.num_records):
        try:
            lines.append(json_line(schema.read(block.bytes_)))
        except Exception as error:
            damage = _damage(error)
            break
        size += len(lines[-1])
        if size >= BATCH:
            yield b"\n".join([*lines, b""])
            lines, size = [], 0
    if lines:
        yield b"\n".join([*lines, b""])
    if damage is None and block.bytes_.read(1):
        damage = OSError("a block of the Avro file is longer than its records")
    if damage is not None:
        raise damage


def _damage(error: Exception) -> Exception:
    if isinstance(error, EOFError):
        return EOFError("the Avro file was cut short")
    return OSError(f"a block of the Avro file is damaged: {first_line(error)}")


def _reject_codec(error: Exception, name: str, codec: str) -> None:
    """Raise `SourceError` if a block cannot be decompressed because of its codec."""
    text = str(error)
    if "Unrecognized codec" in text:
        raise SourceError(
            f"{name} is compressed by the unknown codec {codec!r}; write it with deflate or snappy"
        ) from None
    if "you need to install" in text:
        package = text.rpartition(" ")[2]
        raise SourceError(
            f"{name} is compressed by {codec}, which needs the package {package}: install it with "
            f"pip install {package}"
        ) from None
