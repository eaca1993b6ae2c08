"""Kafka values with the header of a schema registry."""

from __future__ import annotations

import io
import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1.core import exit_codes as exits
from streaml1.sources import SourceError, SourceOptions, open_source
from streaml1.sources.kafka import schema_registry, wire_format
from streaml1.sources.kafka.record_formats import event_parser, record_parser
from streaml1.sources.kafka.records import RecordReader
from streaml1.sources.kafka.schema_registry import SchemaRegistry
from streaml1.sources.readers.avro import AvroSchema
from streaml1.sources.readers.flat_json import JsonRoles
from streaml1.sources.source import Unavailable
from tests.registry import Registry, running_registry
from tests.test_records import Record

CLICK: dict[str, Any] = {"type": "record", "name": "Click", "fields": [
    {"name": "clicked", "type": "int"}, {"name": "site", "type": "string"},
]}  # fmt: skip
CLICK_2: dict[str, Any] = {"type": "record", "name": "Click", "fields": [
    {"name": "site", "type": ["null", "string"]}, {"name": "price", "type": "double"},
    {"name": "clicked", "type": "boolean"},
]}  # fmt: skip
ROLES = JsonRoles("clicked")


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    monkeypatch.delenv(schema_registry.USER, raising=False)
    monkeypatch.delenv(schema_registry.PASSWORD, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    with running_registry() as running:
        running.add(7, CLICK)
        running.add(10, CLICK_2)  # its header holds a newline
        yield running


def header(id: int) -> bytes:
    return b"\0" + id.to_bytes(4, "big")


def avro(schema: Any, record: Any, id: int) -> bytes:
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema), record)
    return header(id) + file.getvalue()


def click(**changes: Any) -> bytes:
    return avro(CLICK, {"clicked": 1, "site": "news"} | changes, 7)


class Found:
    """The examples in some values, and the rejected ones."""

    def __init__(self, parser: Any, *values: bytes | None, headers: Any = ()) -> None:
        records = [Record(0, k, value, headers=headers) for k, value in enumerate(values)]
        reader = RecordReader("t", parser)
        self.x, self.y, self.rejected = [], [], []  # type: ignore[var-annotated]
        self.origins: list[Any] = []

        def reject(place: str, reason: str, number: int, origin: Any) -> None:
            self.rejected.append((place, reason))
            assert origin.value == values[origin.offset]

        for block in reader.blocks(records, 100, reject):
            self.x += list(block.x)
            self.y += list(block.y)
            self.origins += [block.origin(row) for row in range(len(block))]
        self.position = reader.position


def read(
    *values: bytes | None, format: str | None = "avro", headers: Any = (), **options: Any
) -> Found:
    options = {"roles": ROLES} | options
    return Found(record_parser(format, True, **options), *values, headers=headers)


@pytest.mark.parametrize("format", ["avro", "AUTO", None])
def test_each_record_is_read_with_its_schema(registry: Registry, format: str | None) -> None:
    """The schema has changed twice: a field came, one may be null, and the order is another."""
    later = avro(CLICK_2, {"clicked": True, "site": None, "price": 2.5}, 10)
    values = click(), later, None, click(clicked=0, site="a\nb"), later
    found = read(*values, format=format, registry=registry.url)
    assert found.x == [{"site": "news"}, {"price": 2.5}, {"site": "a\nb"}, {"price": 2.5}]
    assert found.y == [1, True, 0, True] and not found.rejected
    assert [origin.place for origin in found.origins] == ["t/0@0", "t/0@1", "t/0@3", "t/0@4"]
    assert found.origins[1].value == later and found.position == {0: (5, 0)}
    assert registry.requests == ["/schemas/ids/7", "/schemas/ids/10"]  # each once


def test_json_schema_records(registry: Registry) -> None:
    registry.add(3, {"type": "object"}, "JSON")
    text = b'{"clicked": 1, "site": "mail"}'
    for options in ({"registry": registry.url}, {}):  # JSON can be read without its schema
        for format in ("json", "auto"):
            values = header(3) + text, header(10) + json.dumps(json.loads(text), indent=1).encode()
            values = values if not options else values[:1]
            found = read(*values, format=format, **options)
            assert found.x == [{"site": "mail"}] * len(values) and not found.rejected
    found = read(click(), header(3) + b'{"a', format="json", registry=registry.url)
    assert [reason for _, reason in found.rejected][0] == "schema 7 of the record is Avro, not JSON"
    assert "not JSON: " in found.rejected[1][1] and not found.x
    found = read(header(3) + text, registry=registry.url)
    assert found.rejected == [("t/0@0", "schema 3 of the record is JSON, not Avro")]


def test_plain_json_and_records_with_schemas_in_one_topic(registry: Registry) -> None:
    plain = b'{"clicked": 0, "site": "old"}'
    found = read(plain, click(), plain + b"\n" + plain, format=None, registry=registry.url)
    assert [x["site"] for x in found.x] == ["old", "news", "old", "old"]


GUID = UUID("b5926622-d7e3-42ec-0012-652f31a09dc1")


@pytest.mark.parametrize("format", ["avro", None])
@pytest.mark.parametrize("id", [7, GUID])
def test_the_id_of_the_schema_in_a_header(
    registry: Registry, format: str | None, id: int | UUID, tmp_path: Path
) -> None:
    registry.add(GUID, CLICK)
    schema_id = b"\1" + id.bytes if isinstance(id, UUID) else header(id)
    headers = [("source", None), (wire_format.SCHEMA_ID, schema_id), ("id", b"5")]
    values = click()[5:], None, click(clicked=0, site="a\nb")[5:]
    found = read(*values, format=format, headers=headers, registry=registry.url)
    assert found.x == [{"site": "news"}, {"site": "a\nb"}] and found.y == [1, 0]
    assert {origin.schema_id for origin in found.origins} == {schema_id}
    path = tmp_path / "click.avsc"
    path.write_text(json.dumps(CLICK))
    assert read(*values, headers=headers, schema=path).x == found.x
    text = b'{"clicked": 1, "site": "news"}'  # JSON has the same header
    registry.add(GUID, {"type": "object"}, "JSON")
    headers = [(wire_format.SCHEMA_ID, b"\1" + GUID.bytes)]
    for options in ({"format": "auto", "registry": registry.url}, {"format": "json"}):
        assert read(text, headers=headers, **options).x == [{"site": "news"}]


def test_invalid_headers_with_the_id_of_a_schema(registry: Registry) -> None:
    def reason(schema_id: bytes, **options: Any) -> str:
        headers = [(wire_format.SCHEMA_ID, schema_id)]
        [(_, reason)] = read(click()[5:], headers=headers, **options).rejected
        return reason

    for schema_id in (b"\0\0\0", b"\1" + GUID.bytes[:-1], b"\2" + GUID.bytes):
        assert reason(schema_id, registry=registry.url) == (
            f"the header __value_schema_id of the record has {len(schema_id)} bytes and begins "
            f"with 0x{schema_id[0]:02x}: it must be the byte 0 and an id, or the byte 1 and a GUID"
        )
    unknown = reason(b"\1" + GUID.bytes, registry=registry.url)
    assert unknown == f"the schema registry {registry.url} has no schema with the id {GUID}"
    assert reason(b"\1" + GUID.bytes, format="json") == (
        "the header __value_schema_id of the record has the id of its schema: use "
        'schema_registry="URL"'
    )


def test_labels_that_arrive_late(registry: Registry) -> None:
    fields = [{"name": "id", "type": "string"},
              {"name": "x", "type": {"type": "map", "values": "double"}}]  # fmt: skip
    schema = {"type": "record", "name": "Event", "fields": fields}
    registry.add(8, schema)
    value = avro(schema, {"id": "a", "x": {"f": 1.5}}, 8)
    found = Found(event_parser("avro", registry=registry.url), value)
    plain = Found(event_parser("json"), b'{"id":"a","x":{"f":1.5}}')
    assert found.x == plain.x and len(found.x) == 1 and not found.rejected


def test_invalid_records_are_rejected_whole(registry: Registry) -> None:
    whole = click()
    bad = {
        whole[:-1]: "cut short",
        whole + b"!": "ends 1 bytes before its value does",
        whole[:3]: "has 3 bytes, fewer than the 5",
        b"\1" + whole[1:]: "begins with the byte 0x01",
        b'{"clicked": 1}': "begins with the byte 0x7b",
        header(9) + whole[5:]: f"{registry.url} has no schema with the id 9",
        click(site="x") + b"\n" + click(): "bytes before its value does",
    }
    found = read(*bad, whole, registry=registry.url)
    assert found.x == [{"site": "news"}]
    assert [place for place, _ in found.rejected] == [f"t/0@{k}" for k in range(len(bad))]
    for (_, reason), expected in zip(found.rejected, bad.values(), strict=True):
        assert expected in reason and "\n" not in reason


@given(st.binary(max_size=30))
def test_any_bytes_are_read_or_rejected(record: bytes) -> None:
    schema = AvroSchema(CLICK_2, "schema 7")
    try:
        assert set(schema.decode(record)) == {"site", "price", "clicked"}
    except ValueError as error:
        assert "\n" not in str(error)


def test_unknown_ids_are_not_requested_for_every_record(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = SchemaRegistry(registry.url)
    for _ in range(3):
        with pytest.raises(schema_registry.UnknownSchema):
            client.schema(9)
    assert registry.requests == ["/schemas/ids/9"]
    registry.add(9, CLICK)
    client._unknown.clear()  # as after some time
    assert client.schema(9).kind == "AVRO"


def test_schemas_are_cached_up_to_a_limit(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire_format, "MAX_SCHEMAS", 2)
    for id in (1, 2, 3):
        registry.add(id, CLICK)
    values = [header(id) + click()[5:] for id in (1, 2, 1, 3, 2, 1)]
    assert len(read(*values, registry=registry.url).x) == 6
    assert [int(path[-1]) for path in registry.requests] == [1, 2, 3, 1]


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_registry_that_fails_is_a_temporary_error(registry: Registry, status: int) -> None:
    registry.status = status
    with pytest.raises(Unavailable, match=f"is unavailable: HTTP status {status}") as caught:
        read(click(), registry=registry.url)
    assert caught.value.exit_code == exits.TEMPORARY_FAILURE == 75


def test_a_registry_that_does_not_answer(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setattr(schema_registry, "TIMEOUT", 0.05)
        with pytest.raises(Unavailable, match=r"does not answer: .*timed out"):
            read(click(), registry=f"http://127.0.0.1:{port}")
    with pytest.raises(Unavailable, match="does not answer: Connection refused"):
        read(click(), registry=f"http://127.0.0.1:{port}")


def test_records_before_the_failure_are_not_lost(registry: Registry) -> None:
    """The position stays before the records that were not read."""
    reader = RecordReader("t", record_parser("avro", True, roles=ROLES, registry=registry.url))
    [block] = reader.blocks([Record(0, 0, click())], 10, pytest.fail)
    assert len(block) == 1
    registry.status = 503
    later = header(10) + click()[5:]
    with pytest.raises(Unavailable):
        list(reader.blocks([Record(0, 1, click()), Record(0, 2, later)], 10, pytest.fail))
    assert reader.position == {0: (1, 0)}


def test_basic_authentication(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.password = "ann", "s3cret:é"
    with pytest.raises(SourceError, match="denies access .*401.*: set STREAML1_REGISTRY_USER"):
        read(click(), registry=registry.url)
    monkeypatch.setenv(schema_registry.USER, "ann")
    with pytest.raises(SourceError, match="STREAML1_REGISTRY_PASSWORD is not: .* needs both"):
        SchemaRegistry(registry.url)
    monkeypatch.setenv(schema_registry.PASSWORD, "s3cret:é")
    assert len(read(click(), registry=registry.url).x) == 1
    registry.status = 302  # the password must not follow
    with pytest.raises(SourceError, match="HTTP status 302"):
        read(click(), registry=registry.url)
    registry.status = None
    monkeypatch.setenv(schema_registry.PASSWORD, "wrong")
    with pytest.raises(SourceError, match="check STREAML1_REGISTRY_USER") as caught:
        read(click(), registry=registry.url)
    assert caught.value.exit_code == exits.USAGE_ERROR


def test_urls(registry: Registry) -> None:
    with pytest.raises(SourceError, match="is not a schema registry: .* 404; check the path"):
        read(click(), registry=registry.url + "/apis")
    for url in ("registry:8081", "", "ftp://a", "http://[", "http://a:b/"):
        with pytest.raises(SourceError, match="must be a URL such as http://registry:8081"):
            read(registry=url)
    with pytest.raises(SourceError, match="has a user or a password: set"):
        read(registry="http://ann:x@registry")


def test_references(registry: Registry) -> None:
    user = {"type": "record", "name": "User", "fields": [{"name": "age", "type": "int"}]}
    fields = [*CLICK["fields"], {"name": "user", "type": "User"}]
    references = [{"name": "User", "subject": "a user", "version": 2}]
    registry.add(8, CLICK | {"fields": fields}, references=references)
    record = {"clicked": 1, "site": "news", "user": {"age": 3}}
    schema = CLICK | {"fields": [*CLICK["fields"], {"name": "user", "type": user}]}
    value = avro(schema, record, 8)
    found = read(value, registry=registry.url)
    assert "lacks version 2 of 'a user'" in found.rejected[0][1]
    registry.answers["/subjects/a%20user/versions/2"] = {"schema": json.dumps(user)}
    assert read(value, registry=registry.url).x == [{"site": "news", "user.age": 3}]


def test_schemas_that_are_not_supported_are_rejected(registry: Registry) -> None:
    registry.add(1, {"type": "record", "name": "N", "fields": [
        {"name": "n", "type": ["null", "N"]},
    ]})  # fmt: skip
    registry.add(2, "{")
    registry.add(3, "x", "THRIFT")
    found = read(*(header(id) + b"\0" for id in (1, 2, 3)), format=None, registry=registry.url)
    assert [reason for _, reason in found.rejected] == [
        "schema 1 has an Avro schema that is not supported: the record N contains itself",
        "schema 2 is not an Avro schema: it is not JSON",
        "schema 3 of the record has the type 'THRIFT', which is not supported",
    ]


def test_a_schema_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "click.avsc"
    path.write_text(json.dumps(CLICK))
    cut = click(clicked=0)[:-1]
    single = b"\xc3\x01fingerpr" + click(site="mail")[5:]
    found = read(click(), click(clicked=0)[5:], single, click()[5:], cut, b"{}", schema=path)
    assert [x["site"] for x in found.x] == ["news", "news", "mail", "news"]
    assert found.y == [1, 0, 1, 1]
    assert [place for place, _ in found.rejected] == ["t/0@4", "t/0@5"]
    assert "the record begins with the byte 0x" not in found.rejected[0][1]
    assert read(b"Obj\x01\x04", schema=path).rejected == [
        ("t/0@0", "the record is a container file of Avro: write the records one by one")
    ]
    with pytest.raises(SourceError, match="cannot be read: No such file"):
        read(schema=tmp_path / "no.avsc")
    path.write_bytes(b"\xff")
    with pytest.raises(SourceError, match="is not an Avro schema: it is not JSON"):
        read(schema=path)


def test_options(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"format": "avro"}, 'needs the schema: give schema_registry="URL" or schema="FILE"'),
        ({"format": "svm", "schema_registry": "http://a"}, 'cannot be combined with format="svm'),
        ({"schema": "a"}, 'schema= needs format="avro" or "protobuf"'),
        ({"format": "avro", "schema": "a", "schema_registry": "http://a"}, "give one of them"),
        (
            {"format": "parquet"},
            "must be jsonl, svmlight, vw, avro, protobuf, csv, tsv or auto, got 'parquet'",
        ),
    ]
    for options, message in cases:
        with pytest.raises(SourceError, match=message):
            open_source("kafka://localhost/clicks", SourceOptions(**options))
    path = tmp_path / "a.jsonl"
    path.write_text("{}")
    for options in ({"schema": "a"}, {"schema_registry": "http://a"}):
        with pytest.raises(SourceError, match="apply to the records of kafka://... only"):
            open_source(path, SourceOptions(**options))
    options = {"format": "avro", "schema_registry": "http://a", "target": "y"}
    assert open_source("kafka://localhost/clicks", SourceOptions(**options)).name
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(SourceError, match=r"format=.avro. needs fastavro: .*streaml1\[avro\]"):
        open_source("kafka://localhost/clicks", SourceOptions(**options))
