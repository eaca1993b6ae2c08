"""Protobuf messages as JSON.

Fields keep the names that they have in the schema. 64-bit integers are numbers, enums are strings,
bytes are strings with a character for each byte. A field without a value is absent. If the schema
does not distinguish that from the default, numbers, bools and enums have their default, which a
label may be, and empty strings are absent. Timestamps and durations are milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from streaml1.sources.extras import importing
from streaml1.sources.readers.decoded_records import json_line
from streaml1.sources.source import SourceError, shown

__all__ = ["ProtobufSchema", "read_descriptors", "require_protobuf"]

MAX_INDEXES = 32
"""Levels of the list that selects a message of a schema."""


def require_protobuf(name: str) -> None:
    """Import protobuf; raise SourceError if it is not installed."""
    with importing("protobuf", "protobuf", name):
        import google.protobuf.descriptor_pb2  # noqa: F401


def read_descriptors(content: bytes, name: str) -> list[Any]:
    """Return the files in a serialized FileDescriptorSet or FileDescriptorProto.

    Parameters
    ----------
    content
        What ``protoc --descriptor_set_out`` writes, or the descriptor of one file.
    name
        What has the bytes, for errors.

    Raises
    ------
    SourceError
        If they are neither of these.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
    from google.protobuf.message import DecodeError

    try:
        files = list(FileDescriptorSet.FromString(content).file)
        # The name of a single file is where a set has its first file.
        if files and all(file.name and (file.message_type or file.enum_type) for file in files):
            return files
    except DecodeError:
        pass
    try:
        file = FileDescriptorProto.FromString(content)
        if file.name and file.message_type:
            return [file]
    except DecodeError:
        pass
    raise SourceError(
        f"{name} is not a Protobuf schema: it must be what protoc --include_imports "
        "--descriptor_set_out writes"
    )


class ProtobufSchema:
    """A schema that decodes messages.

    Parameters
    ----------
    files
        Descriptors of files; the last one has the messages of records. Files of Google's standard
        types may be left out.
    name
        What has the schema, for errors.

    Raises
    ------
    SourceError
        If the schema is invalid.
    """

    def __init__(self, files: Sequence[Any], name: str) -> None:
        from google.protobuf.descriptor_pool import DescriptorPool

        pool = DescriptorPool()
        try:
            for file in _with_standard_files(files):
                pool.Add(file)
            self._messages = list(
                pool.FindFileByName(files[-1].name).message_types_by_name.values()
            )
        except Exception as error:
            reason = str(error).strip().partition("\n")[0].rstrip(".")
            raise SourceError(f"{name} has an invalid Protobuf schema: {reason}") from None
        # Messages in the order of the file, as indexes count them.
        order = [message.name for message in files[-1].message_type]
        self._messages.sort(key=lambda message: order.index(message.name))
        self._classes: dict[tuple[int, ...], Any] = {}
        self._readers: dict[str, _MessageReader] = {}

    def decode(self, record: bytes) -> bytes:
        """Return as JSON a record that begins with the indexes of its message.

        Raises
        ------
        ValueError
            If the record is invalid; the text is one sentence.
        """
        indexes, start = _read_indexes(record)
        return json_line(self._plain(self._parse(indexes, record[start:])))

    def decode_plain(self, record: bytes) -> bytes:
        """Return as JSON a record that is a message alone, all of whose fields are known.

        It is the only message of the file that is not a field of another one. A record with
        unknown fields is more likely no such message at all.

        Raises
        ------
        ValueError
            If the record is invalid; the text is one sentence.
        """
        from google.protobuf.unknown_fields import UnknownFieldSet

        if len(self._outer) != 1:
            names = ", ".join(self._messages[index].name for index in self._outer)
            raise ValueError(
                f"the record has no header that selects one of the messages {names}: keep one of "
                "them in the schema"
            )
        message = self._parse((self._outer[0],), record)
        if len(UnknownFieldSet(message)):
            raise ValueError("the record has fields that its Protobuf schema lacks")
        return json_line(self._plain(message))

    @cached_property
    def _outer(self) -> list[int]:
        """The indexes of the messages that are not fields of another one."""
        used, stack = set(), list(self._messages)
        while stack:
            message = stack.pop()
            stack += message.nested_types
            inside = {field.message_type for field in message.fields} - {None, message}
            used |= {found.full_name for found in inside}
        return [k for k, message in enumerate(self._messages) if message.full_name not in used]

    def _parse(self, indexes: tuple[int, ...], record: bytes) -> Any:
        from google.protobuf.message import DecodeError

        try:
            message = self._class(indexes)()
            message.ParseFromString(record)
        except DecodeError:
            raise ValueError("the record is not Protobuf of its schema, or is cut short") from None
        return message

    def _class(self, indexes: tuple[int, ...]) -> Any:
        found = self._classes.get(indexes)
        if found is None:
            from google.protobuf.message_factory import GetMessageClass

            messages, selected = self._messages, None
            for index in indexes:
                if not 0 <= index < len(messages):
                    raise ValueError(
                        f"the record selects message {'.'.join(map(str, indexes))}, which its "
                        "schema lacks"
                    )
                selected = messages[index]
                messages = list(selected.nested_types)
            found = self._classes[indexes] = GetMessageClass(selected)
        return found

    def _plain(self, message: Any) -> Any:
        name = message.DESCRIPTOR.full_name
        reader = self._readers.get(name)
        if reader is None:
            reader = self._readers[name] = _MessageReader(message.DESCRIPTOR, self._plain)
        return reader(message)


def _with_standard_files(files: Sequence[Any]) -> list[Any]:
    """Return files in an order in which a pool accepts them, with missing standard ones."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    given = {file.name: file for file in files}
    ordered: dict[str, Any] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in ordered:
            return
        if name in above:
            raise ValueError(f"the file {name} imports itself")
        file = given.get(name)
        if file is None:
            file = FileDescriptorProto()
            _standard_file(name).CopyToProto(file)
        for other in file.dependency:
            add(other, (*above, name))
        ordered[name] = file

    for file in files:
        add(file.name, ())
    return list(ordered.values())


def _standard_file(name: str) -> Any:
    """Return the descriptor of a file that is part of Protobuf."""
    from google.protobuf import (
        any_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    for module in (
        any_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2,
        timestamp_pb2, wrappers_pb2,
    ):  # fmt: skip
        if module.DESCRIPTOR.name == name:
            return module.DESCRIPTOR
    raise ValueError(f"the file {shown(name)}, which it imports, is missing")


def _read_indexes(record: bytes) -> tuple[tuple[int, ...], int]:
    """Return the indexes before a message, and where it begins."""
    n, position = _read_varint(record, 0)
    if n == 0:  # usual: the first message
        return (0,), position
    if not 0 < n <= MAX_INDEXES:
        raise ValueError(f"the record has a list of {n} message indexes: is it Protobuf?")
    indexes = []
    for _ in range(n):
        index, position = _read_varint(record, position)
        indexes.append(index)
    return tuple(indexes), position


def _read_varint(record: bytes, position: int) -> tuple[int, int]:
    """Return a zigzag varint of at most five bytes, and the position after it."""
    value = 0
    for k in range(5):
        if position >= len(record):
            raise ValueError("the record ends within its message indexes: it is cut short")
        byte = record[position]
        position += 1
        value |= (byte & 0x7F) << (7 * k)
        if byte < 0x80:
            return value >> 1 ^ -(value & 1), position
    raise ValueError("the message indexes of the record are invalid: is it Protobuf?")


# Messages to plain values

_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_TIMES = frozenset({"google.protobuf.Timestamp", "google.protobuf.Duration"})

Read = Callable[[Any], Any]


class _MessageReader:
    """Converts messages of one type to plain values."""

    def __init__(self, descriptor: Any, read_message: Read) -> None:
        self._special = _special_reader(descriptor.full_name, read_message)
        self._fields = [
            (field.name, _presence(field), _value_reader(field, read_message))
            for field in descriptor.fields
        ]

    def __call__(self, message: Any) -> Any:
        if self._special is not None:
            return self._special(message)
        return {
            name: read(getattr(message, name))
            for name, is_present, read in self._fields
            if is_present is None or is_present(message, name)
        }


def _special_reader(name: str, read_message: Read) -> Read | None:
    """Return how a standard type is read that is not an object; None for other types."""
    if name in _WRAPPERS:
        return lambda message: message.value
    if name in _TIMES:
        return lambda message: message.seconds * 1000 + message.nanos / 1e6
    if name == "google.protobuf.Struct":
        return lambda message: {key: read_message(v) for key, v in message.fields.items()}
    if name == "google.protobuf.ListValue":
        return lambda message: [read_message(value) for value in message.values]
    if name == "google.protobuf.Value":
        return lambda message: _read_any_value(message, read_message)
    return None


def _read_any_value(message: Any, read_message: Read) -> Any:
    kind = message.WhichOneof("kind")
    if kind is None or kind == "null_value":
        return None
    value = getattr(message, kind)
    return read_message(value) if kind in ("struct_value", "list_value") else value


def _presence(field: Any) -> Callable[[Any, str], bool] | None:
    """Return what decides whether a message has a field; None if it always has."""
    if _is_repeated(field):
        return None
    if field.has_presence:
        return lambda message, name: bool(message.HasField(name))
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES):
        return lambda message, name: bool(getattr(message, name))
    return None


def _is_repeated(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)
    return field.label == field.LABEL_REPEATED if repeated is None else bool(repeated)


def _value_reader(field: Any, read_message: Read) -> Read:
    """Return what converts the value of a field."""
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        read = _single_reader(field.message_type.fields_by_name["value"], read_message)
        return lambda entries: {_map_key(key): read(entries[key]) for key in entries}
    read_one = _single_reader(field, read_message)
    if _is_repeated(field):
        return lambda values: _read_all(values, read_one)
    return read_one


def _read_all(values: Iterable[Any], read: Read) -> list[Any]:
    return [read(value) for value in values]


def _map_key(key: Any) -> str:
    return ("true" if key else "false") if isinstance(key, bool) else str(key)


def _single_reader(field: Any, read_message: Read) -> Read:
    if field.message_type is not None:
        return read_message
    if field.enum_type is not None:
        names = {value.number: value.name for value in field.enum_type.values}
        return lambda number: names.get(number, str(number))
    return _itself


def _itself(value: Any) -> Any:
    return value
