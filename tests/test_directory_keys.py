"""Columns whose values are in names of directories, such as ``country=DE/hour=7/part-0.csv``."""

from __future__ import annotations

import gzip
import json
import logging
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import dataset

import streaml1
from streaml1 import ElasticNetClassifier, progressive
from streaml1.core import exit_codes as exits
from streaml1.core.rows import BadExample
from streaml1.sources import SourceError, list_files, open_source
from streaml1.sources.readers import jsonl, named_lines
from streaml1.sources.readers.csv import CsvParser
from streaml1.sources.source import Lost
from streaml1.text.parsed_rows import with_constants
from streaml1.training import convert, evaluate, predictions
from streaml1.training.checkpoint import CheckpointError
from tests.test_many_files import read, run

N = 120
FRAME = pd.DataFrame({
    "age": [0.5 * (k * 7 % 31) for k in range(N)],
    "site": [("news", "mail", "söng")[k % 3] for k in range(N)],
    "clicked": [k * k % 7 % 2 for k in range(N)],
    "country": [("DE", "a b/ü%=:", None, "FR")[k % 4] for k in range(N)],
    "hour": [(7, 10, 0)[k // 2 % 3] for k in range(N)],
})  # fmt: skip
"""The keys are the last columns, as they are if any of these programs reads the directory."""

KEYS = ["country", "hour"]


pytestmark = pytest.mark.usefixtures("cwd")


def state(model: Any) -> Any:
    return model.weights, model.intercept, model.n_iterations


def pandas_parquet(keys: list[str]) -> None:
    FRAME.to_parquet("hive", partition_cols=keys)


def arrow_csv(keys: list[str]) -> None:
    schema = pa.schema([(key, pa.Schema.from_pandas(FRAME).field(key).type) for key in keys])
    dataset.write_dataset(
        pa.Table.from_pandas(FRAME), "hive", format="csv",
        partitioning=dataset.partitioning(schema, flavor="hive"),
    )  # fmt: skip


def polars_parquet(keys: list[str], **options: Any) -> None:
    scheme = pl.PartitionBy("hive", key=keys, **options)
    pl.from_pandas(FRAME).lazy().sink_parquet(scheme, mkdir=True)


def polars_jsonl(keys: list[str]) -> None:
    scheme = pl.PartitionBy("hive", key=keys, include_key=False)
    pl.from_pandas(FRAME).lazy().sink_ndjson(scheme, mkdir=True)


def duckdb_copy(keys: list[str], format: str) -> None:
    connection = duckdb.connect()
    connection.register("frame", FRAME)
    connection.sql(
        f"copy frame to 'hive' (format {format}, partition_by ({', '.join(keys)})"
        + (", compression gzip)" if format == "csv" else ")")
    )


EXPORTS: dict[str, Callable[[list[str]], None]] = {
    "pandas": pandas_parquet,
    "pyarrow csv": arrow_csv,
    "polars": partial(polars_parquet, include_key=False),
    "polars with keys in files": polars_parquet,
    "polars jsonl": polars_jsonl,
    "duckdb": partial(duckdb_copy, format="parquet"),
    "duckdb csv.gz": partial(duckdb_copy, format="csv"),
    "duckdb json": partial(duckdb_copy, format="json"),
}


def text_of(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value


def flat_of(files: list[str], keys: list[str]) -> pd.DataFrame:
    """Return the rows in the order of their directories, and as they are in them."""
    places: dict[tuple[Any, ...], int] = {}
    for number, file in enumerate(files):
        texts = re.findall(r"[^/=]+=([^/]*)/", file)
        encoded = [None if t == "__HIVE_DEFAULT_PARTITION__" else t for t in texts]
        places.setdefault(tuple(t and unquote(t) for t in encoded), number)
    frame = FRAME[[c for c in FRAME if c not in keys] + keys]
    own = [
        places[tuple(None if pd.isna(v) else str(v) for v in row)]
        for row in frame[keys].itertuples(index=False)
    ]
    return frame.iloc[np.argsort(own, kind="stable")]


@pytest.mark.parametrize("name", EXPORTS)
@pytest.mark.parametrize("keys", [["country"], KEYS, ["hour", "country"]])
def test_exports_learn_the_same_as_one_file(name: str, keys: list[str]) -> None:
    EXPORTS[name](keys)
    files = list_files("hive")
    flat = flat_of(files, keys)
    if "keys in files" in name:
        flat = flat[[*FRAME]]
    if ".csv" in files[0]:
        flat.to_csv("flat.csv", index=False)
        categorical = ["site", "country"]
    elif ".json" in files[0]:
        rows = flat.astype({"country": object}).to_dict("records")
        lines = [json.dumps({k: text_of(v) for k, v in row.items()}) for row in rows]
        Path("flat.jsonl").write_text("\n".join(lines) + "\n")
        categorical = []
    else:
        flat.to_parquet("flat.parquet", index=False)
        categorical = []
    [whole] = Path().glob("flat.*")
    states = []
    for source in (str(whole), "hive", "hive/*/", re.sub("[^/]+", "*", files[0])):
        model = ElasticNetClassifier(l1=1e-3)
        report = progressive(model, source, target="clicked", categorical=categorical)
        states.append((state(model), report.examples))
    assert [*map(states.index, states)] == [0] * 4
    assert states[0][1] == N
    assert {"hour", "country=DE", "country=a b/ü%=:"} <= {*model.weights}


@pytest.mark.parametrize("name", ["pandas", "pyarrow csv", "polars jsonl"])
def test_roles_of_keys(name: str) -> None:
    EXPORTS[name](["clicked", "hour", "country"])
    text = {"categorical": ["site", "country"]} if "csv" in name else {}
    flat = flat_of(list_files("hive"), ["clicked", "hour", "country"])
    flat.to_parquet("flat.parquet", index=False)
    roles: list[dict[str, Any]] = [
        {"ignore": ["country"]},
        {"weight": "hour"},
        {"id": "country"},
        {"categorical": ["hour", "country"]},
        {"numeric": ["hour"]},
        {"positive": "0"},
        {"weight": "hour", "ignore": ["country"]},
    ]
    for role in roles:
        states = []
        for source, options in (("flat.parquet", {}), ("hive", text)):
            model = ElasticNetClassifier(l1=1e-3)
            merged = {**options, **role}
            if "categorical" in merged and options:
                merged["categorical"] = [*role.get("categorical", []), *options["categorical"]]
            if "country" in role.get("ignore", []) or role.get("id") == "country":
                merged["categorical"] = [c for c in merged.get("categorical", []) if c == "site"]
            progressive(model, source, target="clicked", **merged)
            ids = [p.id for p in predictions(model, source, **{"target": "clicked", **merged})]
            states.append((state(model), ids))
        assert states[0] == states[1], role
        assert (states[0][1][0] is None) == ("id" not in role or flat.country.iloc[0] is None)


def write(**files: str) -> None:
    for name, text in files.items():
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def features(spec: Any, **options: Any) -> list[Any]:
    return [x for _, _, x in read(open_source(spec, require_label=False, **options))]


def test_kinds_of_keys() -> None:
    write(**{
        "h/n=7/code=02139/b=true/d=2026-11-01/a.jsonl": '{"a":1}\n',
        "h/n=-1.5/code=10115/b=false/d=__HIVE_DEFAULT_PARTITION__/a.jsonl": '{"a":1}\n',
        "h/n=__HIVE_DEFAULT_PARTITION__/code=7/b=false/d=/a.jsonl": '{"a":1}\n',
    })  # fmt: skip
    # "-" precedes digits, and "_" follows them.
    assert features("h") == [
        {"a": 1, "n": -1.5, "code": "10115", "b": 0, "d": None},
        {"a": 1, "n": 7, "code": "02139", "b": 1, "d": "2026-11-01"},
        {"a": 1, "n": None, "code": "7", "b": 0, "d": ""},
    ]
    [x, *_] = features("h", numeric=["code"], categorical=["n", "b"], ignore=["d"])
    assert x == {"a": 1, "n": "-1.5", "code": 10115, "b": "false"}
    with pytest.raises(SourceError, match=r"'d' is '2026-11-01', not a number; leave it out of"):
        features("h", numeric=["d"])


def test_csv_values_are_read_as_cells() -> None:
    write(**{f"h/site={v}/n={n}/a.csv": "a,y\n1,1\n" for v, n in (("NA", "1,5"), ("-", "NULL"))})
    found = features("h", target="y", decimal=",", missing=["NULL", "-"])
    assert found == [{"a": 1, "site": None, "n": None}, {"a": 1, "site": "NA", "n": 1.5}]
    write(**{"j/site=NA/a.jsonl": '{"y":1}\n'})
    assert features("j", target="y") == [{"site": "NA"}]


def test_files_within_the_same_directories_are_read_in_order_of_path() -> None:
    write(**{
        name: "a\n1\n"
        for name in ("h/d=1/b.csv", "h/d=1/a.csv", "h/d=1-2/c.csv", "h/d=10/_x.csv", "h/d=10/z.csv",
                     "h/_tmp/d=3/a.csv", "h/.git/a.csv", "h/d=1/.a.csv.crc")
    })  # fmt: skip
    Path("h/d=5").mkdir()
    expected = ["h/d=1-2/c.csv", "h/d=1/a.csv", "h/d=1/b.csv", "h/d=10/z.csv"]
    assert list_files("h") == list_files("h/*") == list_files("h/*/*.csv") == expected
    write(**{"h/d=1/e/a.csv": "a\n1\n"})
    with pytest.raises(SourceError, match=r"h/d=1 contains the directory e: use a pattern"):
        open_source("h")


def test_only_directories_right_above_the_files_are_keys() -> None:
    write(**{"run=3/clicks/day=1/a.csv": "a,y\n1,1\n", "run=3/b.csv": "a,y\n1,1\n"})
    for spec in ("run=3/clicks", "run=3/clicks/day=1/", "run=3/clicks/day=1/a.csv",
                 ["run=3/clicks/day=1/a.csv"], Path("run=3/clicks/day=1/a.csv")):  # fmt: skip
        assert features(spec, target="y") == [{"a": 1, "day": 1}]
    os.chdir("run=3")
    assert features("b.csv", target="y") == [{"a": 1}]


def test_other_keys_are_rejected() -> None:
    write(**{"h/d=1/a.csv": "a,y\n1,1\n", "h/e=1/a.csv": "a,y\n1,1\n", "h/b.csv": "a,y\n1,1\n"})
    with pytest.raises(
        SourceError,
        match=r"of other columns for h/d=1/a.csv \('d'\) than for h/b.csv \(none\); use",
    ):
        open_source("h")
    with pytest.raises(SourceError, match=r"for h/e=1/a.csv \('e'\) than for h/d=1/a.csv \('d'\)"):
        open_source("h/*/*")
    write(**{"g/d=1/d=2/a.csv": "a,y\n1,1\n"})
    with pytest.raises(SourceError, match="two directories hold values of 'd'; rename one"):
        open_source("g")
    with pytest.raises(SourceError, match="'d' can have only one role, got target and ignored"):
        open_source("h/d=1", target="d", ignore=["d"])
    with pytest.raises(SourceError, match=r"h/d=1/a.csv has no column 'b'"):
        read(open_source("h/d=1", target="b"))
    with pytest.raises(SourceError, match=r"a.csv: weight must be a number >= 0, got '-1'"):
        write(**{"w/w=-1/a.csv": "a,y\n1,1\n"})
        open_source("w", target="y", weight="w")


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_columns_of_files_win(suffix: str) -> None:
    for d in (1, 2):
        Path(f"h/d={d}").mkdir(parents=True)
        frame = pd.DataFrame({"d": [d + 0.5, d], "y": [1, 0]})
        match suffix:
            case "csv":
                frame.to_csv(f"h/d={d}/a.csv", index=False)
            case "jsonl":
                frame.to_json(f"h/d={d}/a.jsonl", orient="records", lines=True)
            case _:
                frame.to_parquet(f"h/d={d}/a.parquet")
    found = [{"d": 1.5}, {"d": 1.0}, {"d": 2.5}, {"d": 2.0}]
    assert features("h", target="y") == found
    assert features("h", target="y", categorical=["d"])[1] in ({"d": "1"}, {"d": "1.0"})


@pytest.mark.parametrize("is_compiled", [True, False])
def test_members_of_some_lines_only_are_rejected(
    is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_compiled:
        monkeypatch.setattr(named_lines, "COMPILED", False)
    write(**{"h/d=1/a.jsonl": '{"y":1}\n{"y":0,"d":1}\n', "s/d=x/a.jsonl": '{"y":1}\n{"d":"x"}\n'})
    for directory in ("h", "s"):
        with pytest.raises(Lost, match=r"a.jsonl: examples have 'd(=x)?', as its directory does"):
            features(directory)
    for role in ({"ignore": ["d"]}, {"weight": "d"}, {"id": "d"}):
        assert features("h", target="y", **role) == [{}, {}]
    assert features("h", target="d") == [{"y": 1}, {"y": 0}]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_errors_list_the_columns_of_directories(suffix: str) -> None:
    directory = Path("h/day=1/country=DE")
    directory.mkdir(parents=True)
    frame = pd.DataFrame({"n": [1, 2], "y": [0, 1], "country": ["DE", "DE"]})
    if suffix == "csv":
        frame.to_csv(directory / "a.csv", index=False)
    else:
        frame.to_parquet(directory / "a.parquet")
    columns = "the columns are: n, y, country; those of directories: day$"
    for options, problem in (
        ({"target": "y", "ignore": ["days"]}, r"no column 'days' \(did you mean 'day'\?\); "),
        ({"target": "Y"}, r"no column 'Y' \(did you mean 'y'\?\); "),
        ({}, 'use target="COLUMN" to name the label column; '),
    ):
        with pytest.raises(SourceError, match=problem + columns):
            read(open_source("h", **options))


def test_errors_list_the_columns_of_directories_with_members() -> None:
    write(**{"h/day=1/a.jsonl": '{"n":1,"y":0}\n', "g/day=1/a.jsonl": '{"x":{"n":1},"y":0}\n'})
    for role in ("target", "weight"):
        reason = r"'z' is missing: its members are: n, y; those of directories: day$"
        with pytest.raises(BadExample, match=reason):
            progressive(ElasticNetClassifier(), "h", **{"target": "y", role: "z"})
    assert features("g") == [{"n": 1, "day": 1}]


def test_labels_that_are_missing_are_rejected() -> None:
    rows = "".join(f"{k}\n" for k in range(100))
    write(**{"h/y=1/a.csv": f"a\n{rows}", "h/y=__HIVE_DEFAULT_PARTITION__/a.csv": "a\n3\n"})
    report = progressive(ElasticNetClassifier(), "h", target="y", bad="skip")
    assert (report.examples, report.rejected) == (100, 1)
    with pytest.raises(ValueError, match=r"PARTITION__/a.csv:2: the label is missing"):
        progressive(ElasticNetClassifier(), "h", target="y")


def test_keys_are_crossed() -> None:
    write(**{f"h/s={s}/a.csv": "n,t,y\n1,u,1\n2,v,0\n" for s in "ab"})
    write(**{"flat.csv": "n,t,y,s\n1,u,1,a\n2,v,0,a\n1,u,1,b\n2,v,0,b\n"})
    weights = []
    for source in ("flat.csv", "h"):
        model = ElasticNetClassifier(cross=[("s", "t")])
        progressive(model, source, target="y", categorical=["s", "t"])
        weights.append(model.weights)
    assert weights[1].keys() == weights[0].keys() >= {"s=a", "t=u"}
    assert len(weights[0]) == 9
    # Slots of interactions are assigned block by block, so margins are summed in another order.
    assert [*weights[1].values()] == pytest.approx([weights[0][k] for k in weights[1]], rel=1e-12)


def test_texts_of_keys_are_split() -> None:
    write(**{f"h/words={w}/a.csv": "a,y\n1,1\n2,0\n" for w in ("good day", "bad day", "x%20")})
    write(**{"flat.csv": "a,y,words\n" + "".join(
        f"{k},{2 - k},{w}\n" for w in ("bad day", "good day", "x ") for k in (1, 2))})  # fmt: skip
    states = []
    for source in ("flat.csv", "h"):
        model = ElasticNetClassifier(text=["words"], ngrams=2)
        progressive(model, source, target="y")
        states.append(state(model))
    assert states[0] == states[1]
    assert len(model.weights) > 4


def test_places_errors_and_predictions() -> None:
    write(**{f"h/d={d}/a.csv": "a,y\n1,1\n2,0\n" for d in (1, 2)})
    write(**{"h/d=3/a.csv": "a,y\n1,1\nx,1\n"})
    model = ElasticNetClassifier()
    with pytest.raises(ValueError, match=r"^h/d=3/a.csv:3: column 'a'"):
        progressive(model, "h", target="y")
    Path("h/d=3/a.csv").write_text("a,y\n1,1\n")
    model = ElasticNetClassifier()
    progressive(model, "h", target="y")
    assert [p.place for p in predictions(model, "h", target="y")][1:3] == [
        "h/d=1/a.csv:3", "h/d=2/a.csv:2",
    ]  # fmt: skip
    assert convert("h", "all.rows", target="y").rows == 5
    again = ElasticNetClassifier()
    progressive(again, "all.rows")
    assert state(again) == state(model)
    report = evaluate(model, "h", target="y")
    assert report.examples == 5


def learn(source: Any, limit: int | None = None, **options: Any) -> Any:
    model = ElasticNetClassifier(l1=1e-3)
    progressive(model, source, target="y", checkpoint="kept", limit=limit, **options)
    return model


def csv(first: int, n: int) -> str:
    return "a,y\n" + "".join(f"{k},{k * k % 7 % 2}\n" for k in range(first, first + n))


def test_checkpoints_resume_in_the_right_part() -> None:
    write(**{f"h/d={d}/site={s}/part-0.csv": csv(40 * d + 20 * k, 20)
             for d in range(3) for k, s in enumerate(("a", "b"))})  # fmt: skip
    seen: Any = None

    def start(report: Any) -> None:
        nonlocal seen
        seen = report

    learn("h", stop=lambda: seen is not None and seen.examples >= 50, every=10, on_start=start)
    os.rename("h", "moved")
    model = learn("moved")
    expected = ElasticNetClassifier(l1=1e-3)
    progressive(expected, "moved", target="y")
    assert state(model) == state(expected)
    write(**{"moved/d=3/site=c/part-0.csv": csv(120, 5)})  # further files may be added
    model = learn("moved")
    expected = ElasticNetClassifier(l1=1e-3)
    progressive(expected, "moved", target="y")
    assert state(model) == state(expected)
    write(**{"moved/d=x/site=c/part-0.csv": csv(120, 5)})
    with pytest.raises(CheckpointError, match=r"its columns of directories is .*'number'"):
        learn("moved")
    os.remove("moved/d=x/site=c/part-0.csv")
    with pytest.raises(CheckpointError, match="its file 1 is 'd=0/site=a/part-0.csv', that of"):
        learn("moved/d=1")


def test_formats_without_columns_only_warn(caplog: pytest.LogCaptureFixture) -> None:
    write(**{f"h/d={d}/a.vw": "1 | a\n" for d in (1, 2)})
    with caplog.at_level(logging.WARNING, "streaml1"):
        assert features("h") == [{"a": 1}, {"a": 1}]
    assert caplog.messages == [
        "h: names of directories hold values of d, such as d=1, which are not read: they are "
        "features of files with columns only (CSV, JSON lines, Parquet, Arrow, Avro), without "
        "delayed labels"
    ]
    convert("h", "h/d=1/a.rows")
    with pytest.raises(SourceError, match=r"a.rows is a row cache, which cannot be read with"):
        open_source("h")
    assert features("h/d=1/a.rows") == [{"a": 1}, {"a": 1}]


def test_compressed_files_and_members_of_objects() -> None:
    for d in (1, 2):
        Path(f"h/d={d}").mkdir(parents=True)
        line = json.dumps({"v": {"x": {"a": d}, "y": 1}}) + "\n"
        Path(f"h/d={d}/a.jsonl.gz").write_bytes(gzip.compress(line.encode()))
    assert features("h", at="v") == [{"a": 1, "d": 1}, {"a": 2, "d": 2}]


def test_directories_of_object_stores() -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    try:
        for name in ("d=1/s=a/a.csv", "d=1/s=b/a.csv", "d=2/s=a/a.csv", "d=2/_x=1/a.csv"):
            memory.pipe(f"/hive/{name}", b"a,y\n1,1\n")
        found = read(open_source("memory://hive/", target="y"))
        assert [(place, x) for place, _, x in found] == [
            ("memory:///hive/d=1/s=a/a.csv:2", {"a": 1, "d": 1, "s": "a"}),
            ("memory:///hive/d=1/s=b/a.csv:2", {"a": 1, "d": 1, "s": "b"}),
            ("memory:///hive/d=2/s=a/a.csv:2", {"a": 1, "d": 2, "s": "a"}),
        ]
    finally:
        memory.rm("/hive", recursive=True)


@pytest.mark.parametrize("parser", [CsvParser("a.csv", "y", ["s"]), jsonl.JsonParser()])
def test_constants_are_added_as_to_dicts(parser: Any) -> None:
    text = b"s,n,y\nx,1,1\n,0,0\n\xc3\xbc,2.5,1\n"
    if not isinstance(parser, CsvParser):
        text = b'{"x":{"s":"x","n":1},"y":1}\n{"x":{},"y":1}\n{"x":{"n":2.5},"y":0}\n'
    rows = parser.read(text).x
    constants = {"k": "ü", "m": -2.5, "z": 0.0, "none": None, "t": True, "empty": ""}
    dicts = [{**row, **constants} for row in rows]
    for part in (slice(None), slice(1, 3), slice(2, 2)):
        x = with_constants(rows[part], constants)
        assert [*x] == dicts[part]
        states = []
        for batch in (x, dicts[part]):
            model = ElasticNetClassifier()
            model.learn_many(batch, [True] * len(dicts[part]))
            states.append(state(model))
        assert states[0] == states[1]
    assert x.distinct_names
    with pytest.raises(ValueError, match="^n$"):
        with_constants(rows, {"n": 1.0})
    with pytest.raises(BadExample, match="too large"):
        model.learn_many(with_constants(rows, {"k": 1e60}), [True] * 3)


# The command line


def test_commands() -> None:
    polars_parquet(["hour", "country"], include_key=False)
    out = run("inspect", "hive")
    assert re.search(r"^ +3 +hour +number +0, 10, 7$", out, re.M), out
    assert re.search(r"^ +4 +country +category +25.0% +DE, FR, a b/ü%=:$", out, re.M), out
    command = out.strip().splitlines()[-1].split()
    assert command == ["streaml1", "learn", "hive", "--target", "clicked"]
    out = run(*command[1:], "--save", "m")
    assert "columns" not in out
    assert re.search(rf"^examples +{N}$", out, re.M)
    assert re.search(rf"^examples +{N}$", run("evaluate", "m", "hive", "--target", "clicked"), re.M)
    part = next(file for file in list_files("hive") if "country=DE" in file)
    assert "country=DE" in streaml1.load("m").weights
    lines = run("predict", "m", part, "--json").splitlines()
    assert json.loads([line for line in lines if line.startswith("{")][0])["place"] == f"{part}:1"
    run("convert", "hive", "a.rows", "--target", "clicked")
    assert "has no column 'nix'" in run("learn", "hive", "--target", "nix", code=exits.USAGE_ERROR)


def test_inspect_shows_keys_of_csv_and_json() -> None:
    write(**{f"c/clicked={d}/day=2026-11-0{d + 1}/zip=0{d}/a.csv": "a,s\n1,x\n2,y\n3,x\n"
             for d in (0, 1)})  # fmt: skip
    out = run("inspect", "c")
    assert out.strip().splitlines()[-1] == (
        "streaml1 learn c --target clicked --categorical s,zip --ignore day"
    )
    run(*out.strip().splitlines()[-1].split()[1:])
    write(**{f"j/d={d}/a.jsonl": '{"clicked":1,"s":"x"}\n{"clicked":0,"s":"x"}\n' for d in (1, 2)})
    out = run("inspect", "j")
    assert re.search(r"^ +2 +d +number +1, 2$", out, re.M), out
    assert out.strip().splitlines()[-1] == "streaml1 learn j --target clicked"


def test_kinds_follow_the_model() -> None:
    write(**{f"h/zip={z}/v={v}/a.csv": "a,y\n1,1\n2,0\n" for z, v in (("02139", 1), ("10115", 2))})
    run("learn", "h", "--target", "y", "--save", "m")
    assert {"zip=02139", "zip=10115", "v"} <= {*streaml1.load("m").weights}
    out = run("predict", "m", "h/zip=10115", "--json", "--target", "y")
    assert "h/zip=10115 (names of directories): categories: zip; numbers: v" in out
    write(**{"o/zip=10115/v=x/a.csv": "a,y\n1,1\n"})
    assert "the model has learnt numbers from v, where this file has words" in run(
        "predict", "m", "o", "--target", "y"
    )
