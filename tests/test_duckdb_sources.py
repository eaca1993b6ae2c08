"""Tables and queries of DuckDB as sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import streaml1
from streaml1 import ElasticNetClassifier
from streaml1.sources import SourceError, format_of, open_source
from streaml1.sources.arrow.databases import parse_name
from streaml1.training import predictions
from tests.command import error_of, run

duckdb = pytest.importorskip("duckdb")

CLICKS = """
    SELECT 'c' || i AS id, ['news', 'mail', NULL][1 + i % 3] AS site,
        (i % 5)::DECIMAL(6, 2) AS price, i::INTEGER AS hour, i % 7 > 3 AS big, 1 + i % 2 AS weight,
        (i % 4 = 0)::INTEGER AS clicked
    FROM range(60) t(i)
"""
ROLES: dict[str, Any] = {"target": "clicked", "weight": "weight", "id": "id", "ignore": ["hour"]}
OPTIONS = ["--target", "clicked", "--weight", "weight", "--id", "id", "--ignore", "hour"]


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("a.duckdb") as connection:
        connection.execute(f"CREATE TABLE clicks AS {CLICKS}")
        connection.execute("COPY clicks TO 'a.parquet'")


PLACES = [
    "duckdb:a.duckdb?table=clicks", "duckdb:a.duckdb", "duckdb:a.duckdb?query=FROM clicks",
    "duckdb:SELECT * FROM 'a.parquet'", "duckdb: with c as (from 'a.parquet') select * from c",
]  # fmt: skip


@pytest.mark.parametrize("name", PLACES)
def test_rows_equal_those_of_parquet(name: str) -> None:
    assert format_of(name) == "duckdb"
    model, twin = ElasticNetClassifier(), ElasticNetClassifier()
    report = streaml1.progressive(model, name, **ROLES)
    expected = streaml1.progressive(twin, "a.parquet", **ROLES)
    assert report.examples == 60 and report.lines[-1].loss == expected.lines[-1].loss
    assert model.weights == twin.weights
    assert set(model.weights) == {"site=news", "site=mail", "price", "big"}
    found, wanted = (list(predictions(model, source, **ROLES)) for source in (name, "a.parquet"))
    assert [(p.id, p.p) for p in found] == [(p.id, p.p) for p in wanted]
    assert found[8].place == f"{name}:9" and found[8].id == "c8"


def test_commands() -> None:
    source = "duckdb:a.duckdb?table=clicks"
    run("learn", source, *OPTIONS, "--save", "m")
    assert "60" in run("evaluate", "m", source, *OPTIONS).stdout
    lines = run("predict", "m", source, *OPTIONS, "--json").stdout.splitlines()
    assert len(lines) == 60 and '"c59"' in lines[-1]
    text = run("inspect", source).stdout
    assert f"streaml1 learn '{source}' --target clicked --ignore id" in text
    assert "clicked  boolean (label)" in text and "33.3%  news" in text


def test_places() -> None:
    assert parse_name("duckdb:a?table=s.t") == ("a", "s.t", None)
    assert parse_name("duckdb:a?query=SELECT a = 1 FROM t") == ("a", None, "SELECT a = 1 FROM t")
    assert parse_name("duckdb:a b.duckdb?table=t").database == "a b.duckdb"
    Path("select x").touch()
    assert parse_name("duckdb:select x").database == "select x"


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("duckdb:", "duckdb: names no rows: use duckdb:FILE?table=NAME, "),
        ("duckdb:a.duckdb?", "duckdb:a.duckdb? names no rows"),
        ("duckdb:a.duckdb?tables=clicks", "names no rows"),
        ("duckdb:b.duckdb?table=clicks", "b.duckdb: there is no such file"),
        ("duckdb:a.duckdb?table=klicks", "a.duckdb has no table 'klicks', but the table clicks"),
        ("duckdb:a.parquet?table=clicks", "a.parquet is not a DuckDB database"),
        ("duckdb:SELECT * FROM 'b.parquet'", "No files found that match the pattern"),
        ("duckdb:SELEC * FROM 'a.parquet'", "syntax error at or near"),
        ("duckdb:a.duckdb?query=SELECT nope FROM clicks", "Referenced column"),
        ("duckdb:a.duckdb?query=DROP TABLE clicks", "one statement that only reads"),
        ("duckdb:COPY (SELECT 1 AS clicked) TO 'c.csv'", "one statement that only reads"),
        ("duckdb:SELECT 1 AS clicked; DROP TABLE x", "one statement that only reads"),
        ("duckdb:SELECT 1 AS clicked FROM roles", "Table with name roles does not exist"),
        ("duckdb:SELECT 1 AS clicked, 2 AS a, 3 AS a", "has several columns 'a': rename all but"),
        (
            "duckdb:SELECT 1 AS clicked, ['x'::BLOB] AS a",
            "column 'a' holds values of the type list",
        ),
        ("duckdb:a.duckdb?query=SELECT 1 AS a FROM clicks", "has no column 'clicked'"),
    ],
)
def test_what_cannot_be_read_is_one_sentence(source: str, error: str) -> None:
    roles = duckdb.sql("SELECT 1 AS a")  # a variable is no table
    with pytest.raises(SourceError) as caught:
        open_source(source, target="clicked")
    text = str(caught.value)
    assert error in text and "\n" not in text and not text.endswith(".")
    assert not Path("b.duckdb").exists() and not Path("c.csv").exists()
    assert roles is not None


def test_options_and_files_that_do_not_apply() -> None:
    table = "duckdb:a.duckdb?table=clicks"
    error = error_of("learn", table, "--target", "clicked", "--delimiter", "tab")
    assert f"delimiter does not apply to tables of DuckDB, got {table}" in error
    error = error_of("learn", table, "--target", "clicked", "--format", "csv")
    assert "--format does not apply to tables of DuckDB" in error
    error = error_of("learn", "a.duckdb", "--target", "clicked")
    assert "a.duckdb is a DuckDB database, not text; read it as duckdb:FILE?table=NAME" in error
    with duckdb.connect("a.duckdb") as connection:
        connection.execute("CREATE TABLE two AS SELECT 1 AS clicked")
    error = error_of("learn", "duckdb:a.duckdb", "--target", "clicked")
    assert (
        "a.duckdb has the tables clicks, two: name one, as in duckdb:a.duckdb?table=NAME" in error
    )


def test_errors_while_rows_are_read_keep_what_was_learnt() -> None:
    number = "CAST(if(i = 90000, 'x', '1') AS INTEGER)"
    query = f"SELECT i % 2 AS clicked, {number} AS a FROM range(99999) t(i)"
    model = ElasticNetClassifier()
    with pytest.raises(SourceError, match="Could not convert string 'x'") as caught:
        streaml1.progressive(model, f"duckdb:{query}", target="clicked")
    assert "\n" not in str(caught.value)


def test_checkpoints() -> None:
    table = "duckdb:a.duckdb?table=clicks"
    model, twin = ElasticNetClassifier(), ElasticNetClassifier()
    streaml1.progressive(model, table, limit=23, checkpoint="c", **ROLES)
    model = ElasticNetClassifier()
    assert streaml1.progressive(model, table, checkpoint="c", **ROLES).examples == 60
    streaml1.progressive(twin, table, **ROLES)
    assert model.weights == twin.weights
    with duckdb.connect("a.duckdb") as connection:
        connection.execute("UPDATE clicks SET hour = 2")
    with pytest.raises(ValueError, match="sha256"):
        streaml1.progressive(ElasticNetClassifier(), table, checkpoint="c", **ROLES)


def test_a_database_that_is_written_by_another_process() -> None:
    code = "import duckdb; c = duckdb.connect('a.duckdb'); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None and writer.stdin is not None
        assert writer.stdout.readline() == b"open\n"
        with pytest.raises(SourceError, match="is open in a process that writes to it") as caught:
            open_source("duckdb:a.duckdb", target="clicked")
        writer.communicate(b"\n")
    assert caught.value.exit_code == 75


def test_without_duckdb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(SourceError, match=r"needs DuckDB: install it with pip install"):
        open_source("duckdb:a.duckdb", target="clicked")
