"""Ids of examples come back with predictions: tags of Vowpal Wabbit, columns of Arrow and Avro."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet

import streaml1
from streaml1 import ElasticNetClassifier
from streaml1.cli import cli
from streaml1.sources import SourceError, open_source
from streaml1.sources.lazy_ids import LazyIds
from streaml1.sources.readers.vw import VwParser, parse_vw
from streaml1.training import evaluate, predictions

VW = "1 'first|a b\n-1 2 second|a c\n1 | d\n\n0 ' |a b\n1 ''x |a b:0\n0 1 'ü |a e\n"
TAGS = ["first", "second", None, None, "'x", "ü"]

heads = st.sampled_from(
    ["1", "1 2", "", "1 'a", "1 b'", "0 1 'c d", "1 'e ", "1 'f", "x", "1 ü", "'"]
)
tails = st.sampled_from(["|a b", " |a b", " |a b:0 c", "| ü", "|a:2 b |", ""])


@given(st.lists(st.tuples(heads, tails), min_size=1, max_size=8), st.booleans())
def test_tags_as_the_parser_of_lines_reads_them(
    parts: list[tuple[str, str]], require_label: bool
) -> None:
    lines = [head + tail for head, tail in parts]
    expected = []
    for line in lines:
        try:
            parsed = parse_vw(line, require_label)
        except ValueError:
            continue
        if parsed is not None:
            expected.append(parsed[3] if len(parsed) > 3 else None)
    ids = VwParser(require_label).read("\n".join(lines).encode()).ids
    assert (list(ids) if ids is not None else [None] * len(expected)) == expected


def test_no_tags_are_no_ids() -> None:
    parser = VwParser()
    assert parser.read(b"1 'a |b c\n").ids is not None
    assert parser.read(b"1 |b c\n").ids is None


def test_tags_come_back_with_predictions(tmp_path: Path) -> None:
    path = tmp_path / "a.vw"
    path.write_text(VW)
    model = ElasticNetClassifier()
    streaml1.progressive(model, path)
    model.save(tmp_path / "m")
    assert [one.id for one in predictions(model, path)] == TAGS
    result = CliRunner().invoke(cli, ["predict", str(tmp_path / "m"), str(path), "--json"])
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0 and [line.get("id") for line in lines] == TAGS


COLUMNS = {
    "request": ["r1", None, "r3", "é"], "number": [7, 8, 9, 10], "n": [1.0, 2.0, None, 4.0],
    "y": [1, 0, 1, 0],
}  # fmt: skip


@pytest.mark.parametrize("column", ["request", "number"])
def test_columns_of_tables(column: str, tmp_path: Path) -> None:
    table = pa.table(COLUMNS)
    parquet.write_table(table, tmp_path / "a.parquet")
    feather.write_feather(table, str(tmp_path / "a.arrow"))
    other = {"request", "number"} - {column}
    roles: dict[str, Any] = {"target": "y", "id": column, "ignore": list(other)}
    model, twin = ElasticNetClassifier(), ElasticNetClassifier()
    streaml1.progressive(twin, pl.DataFrame(COLUMNS), target="y", ignore=["request", "number"])
    streaml1.progressive(model, tmp_path / "a.parquet", **roles)
    assert model.weights == twin.weights and list(model.weights) == ["n"]
    rows = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
    sources = (
        tmp_path / "a.parquet", tmp_path / "a.arrow", table, pd.DataFrame(COLUMNS), rows,
        iter([pl.DataFrame(COLUMNS)]),
    )  # fmt: skip
    for source in sources:
        assert [one.id for one in predictions(model, source, **roles)] == COLUMNS[column]
    assert evaluate(model, tmp_path / "a.parquet", **roles).examples == 4


@pytest.mark.parametrize("compiled", [True, False])
def test_ids_of_other_types_are_texts(compiled: bool, tmp_path: Path, monkeypatch: Any) -> None:
    if not compiled:
        monkeypatch.setattr("streaml1.sources.readers.named_lines.COMPILED", False)
        monkeypatch.setattr("streaml1.sources.arrow.tables.COMPILED", False)
    table = pa.table({"y": [1, 0, 1], "id": [1.0, 2.5, None]})
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    other = tmp_path / "x.jsonl"
    other.write_text("".join(json.dumps({"x": {}} | row) + "\n" for row in table.to_pylist()))
    for source in (table, table.to_pandas(), table.to_pylist(), path, other):
        target = None if source is other else "y"
        found = predictions(ElasticNetClassifier(), source, target=target, id="id")
        assert [one.id for one in found] == ["1", "2.5", None]


@pytest.mark.parametrize("value", [UUID(int=5), date(2026, 1, 31), Decimal("7.0"), Decimal(2**70)])
def test_ids_of_databases_are_texts(value: Any) -> None:
    rows = [{"y": 1, "id": value}, {"y": 0, "id": None}]
    for source in (rows, pd.DataFrame(rows), pl.DataFrame(rows), pa.Table.from_pylist(rows)):
        found = predictions(ElasticNetClassifier(), source, target="y", id="id")
        assert [one.id for one in found] == [str(value), None]


def test_ids_of_avro(tmp_path: Path) -> None:
    fastavro = pytest.importorskip("fastavro")
    fields = [{"name": name, "type": ["null", "string"]} for name in ("request", "site")]
    schema = {"type": "record", "name": "r", "fields": [*fields, {"name": "y", "type": "int"}]}
    path = tmp_path / "a.avro"
    with path.open("wb") as file:
        rows = [{"request": name, "site": "s", "y": 1} for name in ("a", None, "b")]
        fastavro.writer(file, schema, rows)
    found = predictions(ElasticNetClassifier(), path, target="y", id="request")
    assert [one.id for one in found] == ["a", None, "b"]


def test_rejected_ids(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table(COLUMNS), path)
    with pytest.raises(SourceError, match="has no column 'visit'"):
        open_source(path, target="y", id="visit")
    with pytest.raises(SourceError, match="'y' can have only one role, got target and id"):
        open_source(path, target="y", id="y")
    first, second = (open_source(path, target="y", id=id) for id in ("request", "number"))
    assert first.identity() != second.identity()  # type: ignore[attr-defined]


def test_ids_are_read_once() -> None:
    calls = []

    def read(lo: int, hi: int) -> list[int | str | None]:
        calls.append((lo, hi))
        return list(range(lo, hi))

    ids = LazyIds(read, 0, 9)[2:8]
    assert len(ids) == 6 and not calls
    assert [ids[0], ids[-1], *ids[1:3]] == [2, 7, 3, 4] and list(ids) == [2, 3, 4, 5, 6, 7]
    assert calls == [(2, 8)]
    assert list(LazyIds(read, 0, 4)[3:1]) == [] and list(LazyIds(read, 0, 4)[::2]) == [0, 2]
