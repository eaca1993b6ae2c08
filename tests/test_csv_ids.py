"""The column of the id of CSV files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import ElasticNetClassifier
from streaml1.cli import cli
from streaml1.sources import SourceError, open_source
from streaml1.sources.readers import csv as csv_reader
from streaml1.sources.readers.csv import CsvParser
from streaml1.training import predictions

TEXT = (
    'request,n,clicked\n'
    'r1,1,1\n'
    '"r,2",2,0\n'
    '\n'
    '"r\n""3",3,1\n'
    ',4,0\n'
    'r5,"5",1\n'
    '"r6", 6,0\n'
    'r7,NaN,1\n'
)  # fmt: skip
IDS = ["r1", "r,2", 'r\n"3', None, "r5", "r6", "r7"]


@pytest.mark.parametrize("compiled", [True, False])
def test_ids_are_the_cells(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_reader, "COMPILED", compiled and csv_reader.COMPILED)
    parser = CsvParser("a.csv", "clicked", id="request")
    parsed = parser.read(TEXT.encode())
    assert parsed.ids == IDS and not parsed.faults
    assert [x.get("n") for x in parsed.x] == [1, 2, 3, 4, 5, 6, None]
    assert all("request" not in x for x in parsed.x)
    assert parser.roles["id"] == "request"
    assert CsvParser("a.csv", "clicked", ignore=["request"]).read(TEXT.encode()).ids is None


@given(st.lists(st.text('ab,"\n é', max_size=4), min_size=1, max_size=9))
def test_any_id_is_read_back(ids: list[str]) -> None:
    cells = ['"' + id.replace('"', '""') + '"' for id in ids]
    text = "y,id,n\n" + "".join(f"1,{cell},2\n" for cell in cells)
    parsed = CsvParser("a.csv", "y", id="id").read(text.encode())
    assert parsed.ids == [id if id.strip() else None for id in ids]


def test_ids_come_back_with_predictions(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TEXT)
    roles: dict[str, Any] = {"target": "clicked", "id": "request"}
    model, twin = ElasticNetClassifier(), ElasticNetClassifier()
    streaml1.progressive(model, path, **roles)
    streaml1.progressive(twin, path, target="clicked", ignore=["request"])
    assert model.weights == twin.weights and model.weights
    assert [one.id for one in predictions(model, path, **roles)] == IDS
    model.save(tmp_path / "m")
    command = ["predict", str(tmp_path / "m"), str(path), "--json", "--target", "clicked"]
    result = CliRunner().invoke(cli, [*command, "--id", "0"])
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == 0 and [line.get("id") for line in lines] == IDS
    command.remove("--json")
    result = CliRunner().invoke(cli, [*command, "--id", "0"])
    assert "lines of text have no ids; use --json" in result.stderr


def test_rejected_ids(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TEXT)
    with pytest.raises(SourceError, match="has no column 'visit'"):
        next(open_source(path, target="clicked", id="visit").blocks(9, pytest.fail))
    with pytest.raises(SourceError, match="'request' can have only one role, got id and cat"):
        options: Any = {"target": "clicked", "id": "request", "categorical": ["request"]}
        next(open_source(path, **options).blocks(9, pytest.fail))
    (tmp_path / "a.svm").write_text("1 1:1\n")
    with pytest.raises(SourceError, match="apply to CSV and JSON lines only"):
        open_source(tmp_path / "a.svm", id="a")
