"""Kafka values in Protobuf, with a schema registry's header and message indexes."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from google.protobuf import json_format, text_format, timestamp_pb2, wrappers_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given
from hypothesis import strategies as st

from streaml1.sources import SourceError
from streaml1.sources.kafka.record_formats import record_parser
from streaml1.sources.kafka.wire_format import SCHEMA_ID
from streaml1.sources.readers.flat_json import JsonRoles
from streaml1.sources.readers.protobuf import ProtobufSchema
from tests.registry import Registry, running_registry
from tests.test_wire_format import Found, header

FILE = text_format.Parse(
    """
    name: "click.proto" package: "ads" syntax: "proto3"
    dependency: "google/protobuf/timestamp.proto"
    dependency: "google/protobuf/wrappers.proto"
    message_type {
      name: "Unused" field { name: "n" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
      nested_type {
        name: "Inner" field { name: "clicked" number: 1 type: TYPE_BOOL label: LABEL_OPTIONAL }
      }
    }
    message_type {
      name: "Click"
      field { name: "clicked" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
      field { name: "site" number: 2 type: TYPE_STRING label: LABEL_OPTIONAL }
      field { name: "user_id" number: 3 type: TYPE_INT64 label: LABEL_OPTIONAL }
      field { name: "device" number: 4 type: TYPE_ENUM type_name: ".ads.Device"
              label: LABEL_OPTIONAL }
      field { name: "tags" number: 5 type: TYPE_STRING label: LABEL_REPEATED }
      field { name: "user" number: 6 type: TYPE_MESSAGE type_name: ".ads.User"
              label: LABEL_OPTIONAL }
      field { name: "prices" number: 7 type: TYPE_MESSAGE type_name: ".ads.Click.PricesEntry"
              label: LABEL_REPEATED }
      field { name: "at" number: 8 type: TYPE_MESSAGE type_name: ".google.protobuf.Timestamp"
              label: LABEL_OPTIONAL }
      field { name: "score" number: 9 type: TYPE_MESSAGE
              type_name: ".google.protobuf.DoubleValue" label: LABEL_OPTIONAL }
      field { name: "raw" number: 10 type: TYPE_BYTES label: LABEL_OPTIONAL }
      field { name: "maybe" number: 11 type: TYPE_INT32 label: LABEL_OPTIONAL oneof_index: 0
              proto3_optional: true }
      nested_type {
        name: "PricesEntry" options { map_entry: true }
        field { name: "key" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
        field { name: "value" number: 2 type: TYPE_DOUBLE label: LABEL_OPTIONAL }
      }
      oneof_decl { name: "_maybe" }
    }
    message_type {
      name: "User" field { name: "age" number: 1 type: TYPE_INT32 label: LABEL_OPTIONAL }
    }
    enum_type {
      name: "Device" value { name: "PHONE" number: 0 } value { name: "TABLET" number: 1 }
    }
    """,
    FileDescriptorProto(),
)
ROLES = JsonRoles("clicked", id="user_id", categorical=frozenset(["raw"]))
CLICK = b"\x02\x02"
"""The list of indexes that selects `Click`: one index, 1."""


def message_class() -> Any:
    pool = DescriptorPool()
    for module in (timestamp_pb2, wrappers_pb2):
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    pool.Add(FILE)
    return GetMessageClass(pool.FindMessageTypeByName("ads.Click"))


NEW = message_class()


def click(**fields: Any) -> bytes:
    found: bytes = json_format.ParseDict(fields, NEW()).SerializeToString()
    return found


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.setenv("no_proxy", "*")
    with running_registry() as running:
        add(running, 7, FILE)
        yield running


def add(registry: Registry, id: int | UUID, file: Any, **more: Any) -> None:
    """Register a file, whose text is in another answer than its descriptor."""
    registry.add(id, "syntax = ...", "PROTOBUF", **more)
    serialized = base64.b64encode(file.SerializeToString()).decode()
    path = [*registry.answers][-1]
    registry.answers[f"{path}?format=serialized"] = {"schema": serialized}


def read(*values: bytes, **options: Any) -> Found:
    format = options.pop("format", "protobuf")
    headers = options.pop("headers", ())
    return Found(record_parser(format, True, roles=ROLES, **options), *values, headers=headers)


@pytest.mark.parametrize("format", ["protobuf", "auto"])
def test_messages_are_read_as_objects(registry: Registry, format: str) -> None:
    full = click(
        clicked=1, site="news", user_id=2**62, device="TABLET", tags=["a", "b", "a"],
        user={"age": 3}, prices={7: 0.5}, at="1970-01-01T00:00:02.500Z", score=0.25, maybe=0,
        raw=base64.b64encode(b"\xe9").decode(),
    )  # fmt: skip
    empty = click(site="x")
    found = read(
        header(7) + CLICK + full, header(7) + CLICK + empty, format=format, registry=registry.url
    )
    assert not found.rejected and found.y == [1, 0]
    assert found.x[0] == {
        "site": "news", "device": "TABLET", "tags=a": 2.0, "tags=b": 1.0, "user.age": 3,
        "prices.7": 0.5, "at": 2500.0, "score": 0.25, "maybe": 0, "raw": "é",
    }  # fmt: skip
    assert found.x[1] == {"site": "x", "device": "PHONE"}
    assert registry.requests == ["/schemas/ids/7", "/schemas/ids/7?format=serialized"]


def test_the_id_of_the_schema_in_a_header(registry: Registry, tmp_path: Path) -> None:
    """The indexes follow it there."""
    guid = UUID("3385d593-eefe-1667-0f6c-82bb0e303ad1")
    add(registry, guid, FILE)
    headers = [(SCHEMA_ID, b"\1" + guid.bytes + CLICK)]
    values = click(clicked=1, site="news"), click(clicked=0, score=0.5)
    found = read(*values, headers=headers, registry=registry.url)
    assert found.y == [1, 0] and not found.rejected
    assert [x.get("site") for x in found.x] == ["news", None] and found.x[1]["score"] == 0.5
    requested = f"/schemas/guids/{guid}"
    assert registry.requests == [requested, f"{requested}?format=serialized"]
    path = tmp_path / "clicks.desc"
    path.write_bytes(FileDescriptorSet(file=[FILE]).SerializeToString())
    assert read(*values, headers=headers, schema=path).x == found.x


def test_indexes_select_the_message(registry: Registry) -> None:
    inner = b"\x08\x01"
    values = [header(7) + indexes + inner for indexes in (b"\x04\x00\x00", b"\x02\x06", b"\x01")]
    values += [header(7) + indexes for indexes in (b"", b"\x80", b"\xff" * 6, b"\x02\x01")]
    found = read(*values, registry=registry.url)
    assert found.y == [True] and found.x == [{}]
    reasons = [reason for _, reason in found.rejected]
    assert reasons[0] == "the record selects message 3, which its schema lacks"
    assert "a list of -1 message indexes" in reasons[1]
    assert ["cut short" in reason for reason in reasons[2:]] == [True, True, False, False]
    assert "message indexes of the record are invalid" in reasons[4]
    assert "selects message -1" in reasons[5]


def test_schemas_evolve(registry: Registry) -> None:
    later = FileDescriptorProto()
    later.CopyFrom(FILE)
    later.message_type[1].field[1].name = "page"
    add(registry, 8, later)
    value = CLICK + click(clicked=1, site="news")
    found = read(header(7) + value, header(8) + value, registry=registry.url)
    assert [set(x) for x in found.x] == [{"site", "device"}, {"page", "device"}]


def test_references(registry: Registry) -> None:
    user, main = FileDescriptorProto(), FileDescriptorProto()
    main.CopyFrom(FILE)
    user.name, user.package, user.syntax = "user.proto", "ads", "proto3"
    user.message_type.add().CopyFrom(main.message_type.pop())
    main.dependency.append("user.proto")
    references = [{"name": "user.proto", "subject": "user", "version": 1}]
    add(registry, 9, main, references=references)
    serialized = base64.b64encode(user.SerializeToString()).decode()
    path = "/subjects/user/versions/1?format=serialized"
    registry.answers[path] = {"schema": serialized}
    value = header(9) + CLICK + click(clicked=1, user={"age": 3})
    assert read(value, registry=registry.url).x[0]["user.age"] == 3
    add(registry, 10, main)
    found = read(header(10) + value[5:], registry=registry.url)
    assert "the file 'user.proto', which it imports, is missing" in found.rejected[0][1]


def test_a_schema_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "click.desc"
    value = header(7) + CLICK + click(clicked=1, site="news")
    for content in (FILE, FileDescriptorSet(file=[FILE])):
        path.write_bytes(content.SerializeToString())
        assert read(value, schema=path).x == [{"site": "news", "device": "PHONE"}]
    for content in (b'syntax = "proto3";', b"", b"\n\0"):
        path.write_bytes(content)
        with pytest.raises(SourceError, match="is not a Protobuf schema: it must be what protoc"):
            read(schema=path)


def test_records_without_a_header(tmp_path: Path) -> None:
    path = tmp_path / "click.desc"
    plain = click(clicked=1, site="mail")
    file = FileDescriptorProto()
    file.CopyFrom(FILE)
    path.write_bytes(file.SerializeToString())
    assert [reason for _, reason in read(plain, schema=path).rejected] == [
        "the record has no header that selects one of the messages Unused, Click: keep one of "
        "them in the schema"
    ]
    del file.message_type[0]
    path.write_bytes(file.SerializeToString())
    value = header(7) + b"\0" + click(clicked=0, site="news")
    found = read(plain, value, b"1 1:2.5 3:1", plain + b"\xf8\x06\x01", schema=path)
    assert [x["site"] for x in found.x] == ["mail", "news"] and found.y == [1, 0]
    assert [reason for _, reason in found.rejected] == [
        "the record is not Protobuf of its schema, or is cut short",
        "the record has fields that its Protobuf schema lacks",
    ]


def test_invalid_records(registry: Registry) -> None:
    registry.add(8, "x", "PROTOBUF")
    registry.answers["/schemas/ids/8?format=serialized"] = {"schema": "syntax = ..."}
    registry.add(9, {"type": "object"}, "JSON")
    value = CLICK + click(clicked=1, site="news", user={"age": 3})
    found = read(
        header(7) + value[:-1], header(7) + CLICK + b"\x12\x01\xff", header(8) + value,
        header(9) + value, value, registry=registry.url,
    )  # fmt: skip
    reasons = [reason for _, reason in found.rejected]
    assert reasons == [
        "the record is not Protobuf of its schema, or is cut short",
        "the record is not Protobuf of its schema, or is cut short",
        "schema 8 has a Protobuf schema that is not a serialized descriptor: the registry must "
        "support ?format=serialized",
        "schema 9 of the record is JSON, not Protobuf",
        "the record begins with the byte 0x02, not with the 0 before the id of a schema; records "
        'without it need schema="FILE"',
    ]


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_rejected(record: bytes) -> None:
    schema = ProtobufSchema([FILE], "schema 7")
    for prefix in (b"", CLICK):
        try:
            assert schema.decode(prefix + record).startswith(b"{")
        except ValueError as error:
            assert "\n" not in str(error)


def test_the_package_is_needed(monkeypatch: pytest.MonkeyPatch, registry: Registry) -> None:
    monkeypatch.setitem(sys.modules, "google.protobuf.descriptor_pb2", None)
    message = r"needs protobuf: install it with pip install 'streaml1\[protobuf\]'"
    with pytest.raises(SourceError, match=f'format="protobuf" {message}'):
        read(registry=registry.url)
    with pytest.raises(SourceError, match=f"schema 7 {message}"):
        read(header(7), format="auto", registry=registry.url)
