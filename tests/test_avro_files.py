"""Avro container files as sources: the same as the JSON lines of their records."""

from __future__ import annotations

import gzip
import io
import json
import math
import shlex
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import ElasticNetClassifier
from streaml1.core import exit_codes as exits
from streaml1.sources import SourceError, open_source
from streaml1.sources.readers.avro import AvroSchema
from streaml1.sources.readers.decoded_records import json_line
from streaml1.sources.readers.flat_json import JsonRoles, parse_flat
from streaml1.sources.source import Lost
from streaml1.training import predictions
from tests.command import run

FIELDS: dict[str, Any] = {
    "clicked": "int",
    "site": "string",
    "zip": "long",
    "price": ["null", "double"],
    "user": {"type": "record", "name": "User", "fields": [
        {"name": "age", "type": "int"}, {"name": "member", "type": "boolean"},
    ]},
    "tags": {"type": "array", "items": "string"},
    "scores": {"type": "map", "values": "double"},
    "device": {"type": "enum", "name": "Device", "symbols": ["PHONE", "TABLET"]},
    "request": "string",
    "w": "double",
}  # fmt: skip
ROLES: dict[str, Any] = {
    "target": "clicked", "weight": "w", "id": "request", "ignore": ["user.member"],
    "categorical": ["zip"],
}  # fmt: skip


def schema_of(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Click",
        "fields": [{"name": name, "type": kind} for name, kind in fields.items()],
    }


def rows(n: int = 60) -> list[dict[str, Any]]:
    return [
        {
            "clicked": k * k % 3 % 2,
            "site": ["news", 'a "longer"\nname', "é"][k % 3],
            "zip": 94110 + k % 4,
            "price": [None, 0.1 * k, 0.0][k % 3],
            "user": {"age": k % 7, "member": k % 2 == 0},
            "tags": ["a", "b", "a"][: k % 4],
            "scores": {"x": k / 3, "y.z": -1.5},
            "device": ["PHONE", "TABLET"][k % 2],
            "request": f"r{k}",
            "w": [1.0, 0.5][k % 2],
        }
        for k in range(n)
    ]


def write(path: Path, records: list[Any], schema: Any = None, codec: str = "deflate") -> Path:
    with path.open("wb") as file:
        parsed = fastavro.parse_schema(schema or schema_of(FIELDS))
        fastavro.writer(file, parsed, records, codec, sync_interval=200)
    return path


def write_lines(path: Path, records: list[Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def read(path: Path | str, **options: Any) -> list[Any]:
    """Return features, labels, weights and ids of all examples."""
    found: list[Any] = []
    for block in open_source(path, **options).blocks(7, _never):
        w = [1.0] * len(block) if block.w is None else list(block.w)
        ids = block.ids or [None] * len(block)
        found += zip(block.x, list(block.y), w, ids, block.lines, strict=True)
    return found


def _never(place: str, reason: str, *rest: Any) -> None:
    raise AssertionError(f"{place}: {reason}")


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2"])
def test_records_equal_json_lines(codec: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.avro", rows(), codec=codec)
    lines = write_lines(tmp_path / "a.jsonl", rows())
    found = read(path, **ROLES)
    assert found == read(lines, **ROLES)
    assert len(found) == 60 and found[7][3] == "r7"


def test_models_and_predictions_equal_those_of_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "clicks", rows())  # the first bytes decide, not the name
    lines = write_lines(tmp_path / "a.jsonl", rows())
    model, twin = ElasticNetClassifier(l1=1e-4), ElasticNetClassifier(l1=1e-4)
    report = streaml1.progressive(model, path, **ROLES)
    expected = streaml1.progressive(twin, lines, **ROLES)
    assert report.lines[-1].loss == expected.lines[-1].loss
    assert model.weights == twin.weights and len(model.weights) > 10
    found, wanted = (list(predictions(model, source, **ROLES)) for source in (path, lines))
    assert [(one.p, one.id) for one in found] == [(one.p, one.id) for one in wanted]
    assert found[8].place == f"{path}:9"


def test_an_object_x_and_an_envelope(tmp_path: Path) -> None:
    x = {"type": "map", "values": ["double", "string"]}
    schema = schema_of({"x": x, "y": "int", "id": "long"})
    path = write(tmp_path / "a.avro", [{"x": {"a": 1.5, "b": "c"}, "y": 1, "id": 7}], schema)
    assert read(path) == [({"a": 1.5, "b": "c"}, 1.0, 1.0, 7, 1)]
    after = schema_of({"clicked": "int", "age": "int"})
    schema = {"type": "record", "name": "Envelope", "fields": [
        {"name": "after", "type": ["null", after]}, {"name": "op", "type": "string"},
    ]}  # fmt: skip
    records = [{"after": {"clicked": 1, "age": 3}, "op": "u"}, {"after": None, "op": "d"}]
    path = write(tmp_path / "b.avro", records, schema)
    assert read(path, target="clicked", at="after") == [({"age": 3.0}, 1.0, 1.0, None, 1)]


def test_files_in_a_directory_compressed_and_on_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [row[:4] for row in read(write_lines(tmp_path / "a.jsonl", rows()), **ROLES)]
    parts = tmp_path / "parts"
    parts.mkdir()
    write(parts / "1.avro", rows()[:20])
    write(parts / "2.avro", rows()[20:])
    assert [row[:4] for row in read(parts, **ROLES)] == expected  # type: ignore[arg-type]
    packed = tmp_path / "a.avro.gz"
    packed.write_bytes(gzip.compress(write(tmp_path / "a.avro", rows()).read_bytes()))
    assert [row[:4] for row in read(packed, **ROLES)] == expected

    class Pipe:
        buffer = io.BufferedReader(io.FileIO(tmp_path / "a.avro"))

    monkeypatch.setattr(sys, "stdin", Pipe)
    assert [row[:4] for row in read("-", format="avro", **ROLES)] == expected
    Pipe.buffer.close()


def test_positions_resume(tmp_path: Path) -> None:
    path = write(tmp_path / "a.avro", rows())
    source: Any = open_source(path, **ROLES)
    source.begin(None)
    blocks = source.blocks(25, _never)
    at = next(blocks).after(25)
    blocks.close()
    source.begin(at)
    numbers = [line for block in source.blocks(25, _never) for line in block.lines]
    assert numbers == list(range(26, 61))
    write(path, [rows()[0] | {"site": "another"}, *rows()[1:]])
    with pytest.raises(SourceError, match="does not match the checkpoint"):
        source.begin(at)
        list(source.blocks(25, _never))


def test_values_that_json_lacks(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "y": "int",
        "nan": "double",
        "raw": "bytes",
        "amount": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        "time": {"type": "long", "logicalType": "timestamp-millis"},
        "day": {"type": "int", "logicalType": "date"},
    }
    record = {
        "y": 1, "nan": math.nan, "raw": b"\xe9", "amount": Decimal("12.50"), "time": 2**62,
        "day": -(2**31),
    }  # fmt: skip
    plain = {name: kind if name == "amount" else _storage(kind) for name, kind in fields.items()}
    path = write(tmp_path / "a.avro", [record], schema_of(plain))
    [(x, *_)] = read(path, target="y")
    assert x == {"raw": "é", "amount": 12.5, "time": 2.0**62, "day": -(2.0**31)}
    schema = AvroSchema(schema_of(fields), "a")
    file = io.BytesIO()
    fastavro.schemaless_writer(file, fastavro.parse_schema(schema_of(plain)), record)
    assert schema.decode(file.getvalue()) == pytest.approx(record, nan_ok=True)


def _storage(kind: Any) -> Any:
    return kind["type"] if isinstance(kind, dict) else kind


def test_invalid_records_are_rejected_one_by_one(tmp_path: Path) -> None:
    records = [{"y": 1, "a": 0.5}, {"y": 1, "a": -math.inf}, {"y": None, "a": 2.0}]
    schema = schema_of({"y": ["null", "int"], "a": "double"})
    path = write(tmp_path / "a.avro", records, schema)
    rejected: list[Any] = []
    source = open_source(path, target="y")
    blocks = list(source.blocks(9, lambda place, reason: rejected.append((place, reason))))
    assert [row for block in blocks for row in block.lines] == [1]
    assert [place for place, _ in rejected] == [f"{path}:2", f"{path}:3"]
    assert "'a': -inf is too large" in rejected[0][1]
    assert "the label 'y' is null" in rejected[1][1]


def test_a_file_that_was_cut_short_is_read_up_to_there(tmp_path: Path) -> None:
    raw = write(tmp_path / "whole.avro", rows(), codec="null").read_bytes()
    path = tmp_path / "a.avro"
    for cut in (len(raw) - 3, len(raw) - 20, len(raw) // 2):
        path.write_bytes(raw[:cut])
        found: list[int] = []
        with pytest.raises(Lost, match=r"a\.avro:\d+: the file cannot be read from here on: "):
            for block in open_source(path, **ROLES).blocks(7, _never):
                found += block.lines
        assert found == list(range(1, len(found) + 1)) and 10 < len(found) < 60
    for cut in (4, 30, 100):
        path.write_bytes(raw[:cut])
        with pytest.raises(SourceError, match=r"a\.avro is not a valid Avro file: |ends within"):
            read(path, **ROLES)


@given(st.data())
def test_damage_is_an_error_of_one_sentence(data: Any) -> None:
    """Whatever the bytes, reading ends, and every error is a SourceError or a rejected record."""
    from streaml1.sources.readers.avro import avro_lines

    file = io.BytesIO()
    parsed = fastavro.parse_schema(schema_of({"y": "int", "a": "string", "b": ["null", "double"]}))
    records = [{"y": k % 2, "a": "x" * k, "b": None} for k in range(9)]
    fastavro.writer(file, parsed, records, "null", sync_interval=30)
    raw = bytearray(file.getvalue())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(4, len(raw) - 1))] = data.draw(st.integers(0, 255))
    space = bytearray(2**16)
    try:
        lines: Any = avro_lines(io.BytesIO(raw), "a.avro")
        while lines.readinto1(space):
            pass
    except (SourceError, OSError, EOFError) as error:
        assert "\n" not in str(error) and str(error)


def _replaced(raw: bytes, old: bytes, new: bytes) -> bytes:
    assert raw.count(old) == 1 and len(old) == len(new)
    return raw.replace(old, new)


def test_codecs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "a.avro", rows())
    path.write_bytes(_replaced(path.read_bytes(), b"deflate", b"deflat9"))
    with pytest.raises(SourceError, match=r"a\.avro is compressed by the unknown codec 'deflat9'"):
        read(path, **ROLES)
    message = "zstandard codec is supported but you need to install backports.zstd"

    def no_codec(*args: Any) -> Any:
        raise ValueError(message)

    monkeypatch.setattr(fastavro.block_reader, "__next__", no_codec)
    with pytest.raises(SourceError, match=r"by deflat9, which needs the package backports\.zstd"):
        read(path, **ROLES)


NODE = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
BAD_SCHEMAS = {
    "the record N contains itself": NODE,
    "the items of an array have no bytes": schema_of({"a": {"type": "array", "items": "null"}}),
    "without fields: it holds no examples": schema_of({}),
    "invalid Avro schema": {"type": "nothing"},
    "more than 64 levels deep": schema_of(
        {"a": json.loads('{"type":"array","items":' * 80 + '"int"' + "}" * 80)}
    ),
}


@pytest.mark.parametrize(("reason", "schema"), BAD_SCHEMAS.items())
def test_schemas_that_cannot_be_read(reason: str, schema: Any) -> None:
    """fastavro would crash on some records of such a schema, or fill the memory."""
    with pytest.raises(SourceError, match=f"^clicks has an .*{reason}"):
        AvroSchema(schema, "clicks")


def test_files_that_are_not_avro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.avro"
    path.write_text('{"x": {}, "y": 1}\n')
    with pytest.raises(SourceError, match=r"a\.avro is not a valid Avro file"):
        read(path)
    write(path, rows())
    with pytest.raises(SourceError, match='is an Avro file, not text; read it with format="avro"'):
        read(path, format="jsonl")
    with pytest.raises(SourceError, match="--delimiter|delimiter"):
        open_source(path, delimiter=";", **ROLES)
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(SourceError, match=r"needs fastavro: .*pip install 'streaml1\[avro\]'"):
        read(path, **ROLES)
    assert SourceError.exit_code == exits.USAGE_ERROR and Lost.exit_code == exits.DATA_ERROR


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**80), 2**80) | st.floats() | st.text(max_size=5)
    | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4))
def test_any_record_is_one_line(record: dict[str, Any]) -> None:
    line = json_line(record)
    assert b"\n" not in line
    try:
        example = parse_flat(line.decode(), JsonRoles(), require_label=False)
    except ValueError as error:
        assert "not JSON" not in str(error)
    else:
        assert example is not None and all(
            math.isfinite(value) for value in example[0].values() if isinstance(value, int | float)
        )


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_inspect_shows_members(suffix: str, tmp_path: Path) -> None:
    """The command that it prints learns the file; features were counted as if there were an `x`."""
    path = write(tmp_path / "a.avro", rows())
    if suffix:
        path = tmp_path / "a.avro.gz"
        path.write_bytes(gzip.compress((tmp_path / "a.avro").read_bytes()))
    out = run("inspect", str(path)).stdout
    assert "user.age     number" in out and "clicked      boolean (label)" in out
    program, *command = shlex.split(out.splitlines()[-1])
    assert program == "streaml1" and command[:4] == ["learn", str(path), "--target", "clicked"]
    assert "examples          60" in run(*command).stdout
    inner = run("inspect", str(path), "--at", "user", "--target", "member").stdout
    assert "first 60 examples, 2 members" in inner


def test_a_branch_that_the_schema_does_not_have() -> None:
    schema = AvroSchema(schema_of({"price": ["null", "double"]}), "a.avsc")
    for record in (b"\x08", b"\x02\0"):
        with pytest.raises(ValueError, match=r"^the Avro record is cut short, or has another sch"):
            schema.decode(record)
