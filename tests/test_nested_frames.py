"""Nested columns of frames, files and DuckDB, held to a plain reading of their values."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather, parquet

import streaml1
from streaml1 import BadExample, ElasticNetClassifier
from streaml1.core.rows import numeric_features
from streaml1.features import arrow_frames
from streaml1.features.arrow_frames import frame_rows, has_nested
from streaml1.features.batch import is_frame, to_narwhals
from streaml1.sources import SourceError, SourceOptions, open_source
from streaml1.sources.arrow import tables
from streaml1.text.parsed_rows import NamedRows
from streaml1.training import evaluate, predictions
from streaml1.training.example_sources import open_examples
from tests.command import error_of, run


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read tables without kernels."""
    for module in (arrow_frames, tables):
        monkeypatch.setattr(module, "COMPILED", False)


# The slow twin


def flat(row: dict[str, Any], categorical: tuple[str, ...] = ()) -> dict[str, float]:
    """Return the features of a row."""
    x: dict[str, float] = {}
    for name, value in row.items():
        for feature, v in flat_value(name, value, name in categorical):
            x[feature] = x.get(feature, 0.0) + v
    return {feature: v for feature, v in x.items() if v}


def flat_value(name: str, value: Any, as_text: bool) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, v in value.items():
            yield from flat_value(f"{name}.{key}", v, as_text)
    elif isinstance(value, list):
        for index, v in enumerate(value):
            is_text = isinstance(v, str) or (as_text and not isinstance(v, dict | list))
            yield from flat_value(name if is_text else f"{name}.{index}", v, as_text)
    elif isinstance(value, str) or (as_text and value is not None):
        yield f"{name}={value}", 1.0
    elif value is not None and not math.isnan(value):
        yield name, float(value)


def features_of(rows: Any) -> list[dict[str, float]]:
    """Return the features that a frame or a source was converted to."""
    if is_frame(rows):  # without nested columns, and without kernels
        rows = to_narwhals(rows).rows(named=True)
    if not isinstance(rows, NamedRows):
        return [numeric_features(x) for x in rows]  # type: ignore[misc]
    hashes, values, indptr = rows.csr()
    names = rows.feature_names(slice(None))
    assert len(names) == len(hashes)
    found = []
    for lo, hi in zip(indptr[:-1], indptr[1:], strict=True):
        x: dict[str, float] = {}
        for name, value in zip(names[lo:hi], values[lo:hi].tolist(), strict=True):
            x[name] = x.get(name, 0.0) + value
        found.append(x)
    dicts: list[Any] = [numeric_features(x) for x in rows]
    assert dicts == found  # rows in errors equal those of the kernel
    return found


# Random tables

texts = st.text("abé=.", max_size=14)
LEAVES: list[tuple[Any, Any]] = [
    (pa.int64(), st.integers(-(2**53), 2**53)),
    (pa.float64(), st.floats(-1e49, 1e49) | st.just(math.nan)),
    (pa.float32(), st.floats(-(2.0**90), 2.0**90, width=32)),
    (pa.bool_(), st.booleans()),
    (pa.string(), texts),
    (pa.large_string(), texts),
    (pa.string_view(), texts),
    (pa.dictionary(pa.int32(), pa.string()), texts),
    (pa.null(), st.none()),
]


@st.composite
def kinds(draw: Any, depth: int = 3) -> tuple[Any, Any]:
    """Draw a type, and a strategy of its values."""
    choice = draw(st.integers(0, 7 if depth else 2))
    if choice < 3:
        kind, values = draw(st.sampled_from(LEAVES))
        return kind, st.none() | values
    if choice == 3:
        members = {name: draw(kinds(depth - 1)) for name in draw(st.sets(st.sampled_from("abc")))}
        members |= {} if members else {"d": draw(kinds(0))}
        kind = pa.struct([(name, member[0]) for name, member in members.items()])
        values = st.fixed_dictionaries({name: member[1] for name, member in members.items()})
        return kind, st.none() | values
    kind, values = draw(kinds(depth - 1))
    if choice == 4 and not (pa.types.is_dictionary(kind)):
        items = st.dictionaries(st.text("kl", min_size=1, max_size=2), values, max_size=3)
        return pa.map_(pa.string(), kind), st.none() | items
    if choice == 5 and not pa.types.is_null(kind):
        return pa.list_(kind, 2), st.none() | st.lists(values, min_size=2, max_size=2)
    list_of = draw(st.sampled_from([pa.list_, pa.large_list]))
    return list_of(kind), st.none() | st.lists(values, max_size=3)


def as_pairs(value: Any, kind: Any) -> Any:
    """Return a value with maps as lists of pairs, as pyarrow takes them."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return [(key, as_pairs(v, kind.item_type)) for key, v in value.items()]
    if pa.types.is_struct(kind):
        return {field.name: as_pairs(value[field.name], field.type) for field in kind}
    if isinstance(value, list):
        return [as_pairs(v, kind.value_type) for v in value]
    return value


@st.composite
def nested_tables(draw: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Draw a table and its rows; its last column is text."""
    names = draw(st.lists(st.sampled_from(["u", "v é", "w.x"]), min_size=1, unique=True))
    columns = {name: draw(kinds()) for name in names} | {"text": (pa.string(), texts)}
    rows = draw(st.lists(st.fixed_dictionaries({n: c[1] for n, c in columns.items()}), max_size=7))
    schema = pa.schema([(name, column[0]) for name, column in columns.items()])
    arrays = [
        pa.array([as_pairs(row[name], kind) for row in rows], kind)
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=schema), rows


def holds(kind: Any, test: Callable[[Any], bool]) -> bool:
    """Return whether a type or a type inside of it passes a test."""
    inside = [kind.field(k).type for k in range(kind.num_fields)]
    return bool(test(kind)) or any(holds(k, test) for k in inside)


@given(nested_tables(), st.data())
def test_tables_equal_plain_reading(drawn: Any, data: Any) -> None:
    table, rows = drawn
    expected = [flat(row) for row in rows]
    assert features_of(frame_rows(table)) == expected
    lo = data.draw(st.integers(0, len(rows)))
    hi = data.draw(st.integers(lo, len(rows)))
    assert features_of(frame_rows(table.slice(lo, hi - lo))) == expected[lo:hi]
    chunked = pa.concat_tables([table.slice(0, lo), table.slice(lo, 0), table.slice(lo)])
    assert features_of(frame_rows(chunked)) == expected
    labelled = chunked.append_column("y", pa.array([1] * len(rows), pa.int64()))
    found = []
    source: Any = open_examples(labelled, SourceOptions(target="y"))
    for block in source.blocks(3, None):
        found += features_of(block.x)
    assert found == expected


@given(nested_tables())
def test_frames_of_other_libraries(drawn: Any) -> None:
    table, rows = drawn
    if any(holds(kind, pa.types.is_map) for kind in table.schema.types):
        return
    expected = [flat(row) for row in rows]
    assert features_of(frame_rows(pl.DataFrame(table))) == expected
    frame = pd.DataFrame(rows, columns=table.column_names)
    if has_nested(frame):  # none if all values are missing
        assert features_of(frame_rows(frame)) == expected


# The same rows as JSON lines


NOBODY = {
    "age": None, "os": None, "is_new": None, "geo": {"zip": None, "w": 1.0, "langs": None}
}  # fmt: skip


def examples(n: int = 120) -> list[dict[str, Any]]:
    """Return rows in which values of all kinds may be missing."""
    return [
        {
            "clicked": k * 7 % 3 % 2,
            "user": None if k % 7 == 0 else {
                "age": k % 50, "os": ["mac", "win", None][k % 3], "is_new": bool(k % 2),
                "geo": {"zip": 10 + k % 5, "w": 1.0 + k % 3, "langs": [f"l{k % 4}", "en"]},
            },
            "site": ["news", "mail"][k % 2],
            "tags": [None, [], ["a", "b", "a"], ["c", None]][k % 4],
            "emb": [0.5 * k, None, -1.25][: k % 4],
            "items": [{"price": 1.5 * k, "n": "x"}, None, {"price": None, "n": "yy"}][: k % 4],
            "grid": [[k % 3, 2], [], [1]],
        }
        for k in range(n)
    ]  # fmt: skip


def written(path: Path) -> tuple[Path, list[Path]]:
    """Write the rows as JSON lines, and as Parquet and Arrow in small groups."""
    rows = examples()
    (path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table = pa.Table.from_pylist(rows)
    parquet.write_table(table, path / "a.parquet", row_group_size=31)
    feather.write_feather(table, str(path / "a.arrow"), chunksize=31)
    return path / "a.jsonl", [path / "a.parquet", path / "a.arrow"]


ROLES: list[dict[str, Any]] = [
    {},
    {"ignore": ["user"]},
    {"ignore": ["user.geo", "items.0.price", "emb"]},
    {"categorical": ["user.geo.zip", "user.age", "grid", "emb.1"]},
    {"categorical": ["tags"], "weight": "items.0.price", "ignore": ["site"]},
    {"target": "user.is_new", "weight": "user.geo.w", "id": "user.age"},
    {"target": "grid.0.1", "positive": "2", "id": "tags.0"},
    {"target": "user.is_new", "ignore": ["user"], "categorical": ["user.age"]},
    {"categorical": ["user"], "numeric": ["user.age"], "ignore": ["user.geo.w"]},
]


@pytest.mark.parametrize("roles", ROLES, ids=str)
def test_files_learn_the_same_as_json(tmp_path: Path, roles: dict[str, Any]) -> None:
    roles = {"target": "clicked", **roles}
    if "emb.1" in roles.get("categorical", ()):  # JSON knows how -1.25 is spelled
        roles["ignore"] = ["emb.0"]
    lines, files = written(tmp_path)
    twin = ElasticNetClassifier(l1=1e-4)
    report = streaml1.progressive(twin, lines, bad="skip", **roles)
    for path in files:
        model = ElasticNetClassifier(l1=1e-4)
        found = streaml1.progressive(model, path, bad="skip", **roles)
        assert model.weights == twin.weights and len(model.weights) > 8
        assert (found.examples, found.rejected) == (report.examples, report.rejected)
        pairs = zip(
            predictions(model, path, bad="skip", **roles),
            predictions(twin, lines, bad="skip", **roles), strict=True,
        )  # fmt: skip
        assert all((a.p, a.id) == (b.p, b.id) for a, b in pairs)
    if "id" not in roles:
        rows = [row for row in examples() if row["user"] and (row["items"] or len(roles) < 3)]
        model, whole = ElasticNetClassifier(l1=1e-4), ElasticNetClassifier(l1=1e-4)
        rows = [row for row in rows if "weight" not in roles or row["items"][0]["price"]]
        whole.learn_many(rows, **roles)
        model.learn_many(pa.Table.from_pylist(rows), **roles)
        assert model.weights == whole.weights


@pytest.mark.usefixtures("interpreted")
def test_files_without_kernels(tmp_path: Path) -> None:
    lines, files = written(tmp_path)
    twin, model = ElasticNetClassifier(), ElasticNetClassifier()
    streaml1.progressive(twin, lines, target="clicked", ignore=["user.age"])
    streaml1.progressive(model, files[0], target="clicked", ignore=["user.age"])
    assert model.weights == twin.weights


def frames_of(rows: list[dict[str, Any]]) -> dict[str, Callable[[], Any]]:
    """Return what makes frames and streams of rows."""
    table = pa.Table.from_pylist(rows)
    found: dict[str, Callable[[], Any]] = {
        "pandas": lambda: pd.DataFrame(rows),
        "pandas of Arrow": lambda: table.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": lambda: pl.DataFrame(rows),
        "lazy": lambda: pl.LazyFrame(rows),
        "pyarrow": lambda: table,
        "reader": table.to_reader,
        "batch": lambda: table.to_batches()[0],
        "generator": lambda: (table.slice(lo, 17) for lo in range(0, len(table), 17)),
        "datasets": lambda: Dataset(table),
    }
    return found


class Dataset:
    """What this package needs of a data set of the package datasets."""

    __module__ = "datasets.arrow_dataset"

    def __init__(self, table: Any) -> None:
        self.table = table

    def with_format(self, kind: str) -> Dataset:
        assert kind == "arrow"
        return self

    def iter(self, batch_size: int) -> Any:
        yield from (self.table.slice(lo, 17) for lo in range(0, len(self.table), 17))


@pytest.mark.parametrize("kind", [*frames_of([{"a": 1}]), "duckdb"])
def test_frames_learn_the_same_as_dicts(kind: str) -> None:
    rows = [row | {"user": row["user"] or NOBODY} for row in examples()]
    if kind == "duckdb":
        duckdb = pytest.importorskip("duckdb")

        def frame() -> Any:
            return duckdb.connect().from_arrow(pa.Table.from_pylist(rows))
    else:
        frame = frames_of(rows)[kind]
    roles: dict[str, Any] = {
        "target": "clicked", "weight": "user.geo.w", "ignore": ["user.age", "grid"],
        "categorical": ["user.geo.zip", "emb"],
    }  # fmt: skip
    twin, model, whole = (ElasticNetClassifier(l1=1e-4) for _ in range(3))
    streaml1.progressive(twin, rows, **roles)
    streaml1.progressive(model, frame(), **roles)
    whole.learn_many(frame(), **roles)
    assert model.weights == whole.weights == twin.weights and len(twin.weights) > 20
    assert evaluate(model, frame(), **roles).examples == len(rows)


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "pyarrow"])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"hash_bits": 12},
        {"text": ["user.os"], "ngrams": 2},
        {"cross": [("user.os", "tags"), ("site", "emb.0")]},
    ],
    ids=str,
)
def test_frames_of_features(kind: str, params: dict[str, Any]) -> None:
    rows = examples()
    y = [row.pop("clicked") for row in rows]
    expected = [flat(row) for row in rows]
    if "text" in params:
        rows = [row | {"user": {"os": "a mac" if k % 2 else None}} for k, row in enumerate(rows)]
        expected = [flat({**row, "user": None}) for row in rows]
        for k, row in enumerate(rows):
            expected[k] |= {"user.os": row["user"]["os"]} if row["user"]["os"] else {}
    frame = frames_of(rows)[kind]()
    model, twin = (ElasticNetClassifier(l1=1e-4, **params) for _ in range(2))
    model.learn_many(frame, y)
    twin.learn_many(expected, y)
    assert model.weights == pytest.approx(twin.weights, abs=1e-12) and len(model.weights) > 12
    p = model.predict_proba_many(frame)
    values = p if kind == "lazy" else (p.to_pandas() if kind == "pyarrow" else p).to_numpy()
    assert values[:, 1].tolist() == pytest.approx(model.predict_proba_many(expected)[:, 1])
    assert len(model.explain_many(frame)) == len(rows)
    source = (frame, y)
    other = ElasticNetClassifier(l1=1e-4, **params)
    streaml1.progressive(other, source)
    assert other.weights == model.weights


def test_only_needed_columns_are_read(tmp_path: Path) -> None:
    _, (path, _) = written(tmp_path)
    source: Any = open_source(
        path, target="clicked", ignore=["user.os", "user.geo", "items", "grid", "site"]
    )
    assert source._reader.paths == ["clicked", "user.age", "user.is_new", "tags", "emb"]
    [table, *_] = source._parquet_batches(parquet.ParquetFile(path), 50, 0)
    assert table.schema.field("user").type.names == ["age", "is_new"]
    assert table.schema.names == ["clicked", "user", "tags", "emb"]


def test_columns_selected_by_number(tmp_path: Path) -> None:
    """Members of structs count as columns."""
    _, (path, _) = written(tmp_path)
    named, numbered = (
        [x for block in open_source(path, **roles).blocks(50, None) for x in features_of(block.x)]  # type: ignore[arg-type]
        for roles in (
            {"target": "clicked", "ignore": ["user.os", "grid"], "categorical": ["emb"]},
            {"target": "0", "ignore": ["2", "11"], "categorical": ["9"]},
        )
    )
    assert named == numbered and "emb=-1.25" in named[3]


def test_maps(tmp_path: Path) -> None:
    kind = pa.map_(pa.string(), pa.float64())
    attrs = [[("a", 1.0), ("b", None)], None, [("c.d", 2.0), ("y", 1.0)], [("a", 3.0), ("a", 4.0)]]
    table = pa.table({"y": [1, 0, 1, 1], "attrs": pa.array(attrs, kind)})
    parquet.write_table(table, tmp_path / "a.parquet")
    refused: list[Any] = []
    source: Any = open_source(tmp_path / "a.parquet", target="y", ignore=["attrs.b"])
    [block] = source.blocks(9, lambda *fault: refused.append(fault[:2]))
    assert features_of(block.x) == [{"attrs.a": 1.0}, {}, {"attrs.c.d": 2.0, "attrs.y": 1.0}]
    reason = "the name 'a' occurs twice in an object: it must occur once"
    assert refused == [(f"{tmp_path / 'a.parquet'}:4", reason)]
    with pytest.raises(BadExample, match=reason) as error:
        ElasticNetClassifier().learn_many(table, target="y")
    assert error.value.row == 3
    source = open_source(tmp_path / "a.parquet", target="attrs.y", categorical=["attrs.c.d"])
    [block] = source.blocks(9, lambda *fault: None)
    assert list(block.y) == [None, None, 1.0]
    assert features_of(block.x)[2] == {"y": 1.0, "attrs.c.d=2": 1.0}


def test_duckdb(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect(str(tmp_path / "a.duckdb"))
    connection.execute(
        "create table t as select i % 2 as y, {'age': i, 'os': 'mac'} as user, ['a', 'b'] as tags, "
        "[i::double, 0.5]::double[2] as emb, map {'k': i} as attrs from range(9) r(i)"
    )
    connection.close()
    source: Any = open_source(f"duckdb:{tmp_path}/a.duckdb", target="y", ignore=["user.os"])
    [block] = source.blocks(9, None)
    assert features_of(block.x)[3] == {
        "user.age": 3.0, "tags=a": 1.0, "tags=b": 1.0, "emb.0": 3.0, "emb.1": 0.5, "attrs.k": 3.0,
    }  # fmt: skip


def test_categories_inside_lists() -> None:
    """Entries of dictionaries, times and decimals, also where a dictionary is larger."""
    words = pa.array([f"w{k}" for k in range(3000)])
    codes = pa.DictionaryArray.from_arrays(pa.array([2999, 1, 2999]), words)
    numbers = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array([7, 15706]))
    days = pa.array([datetime.date(2026, 1, k) for k in (1, 2, 3)])
    ends = pa.array([0, 2, 3])
    table = pa.table({
        "y": [0, 1],
        "w": pa.LargeListArray.from_arrays(ends, codes),
        "n": pa.LargeListArray.from_arrays(ends, numbers),
        "day": pa.LargeListArray.from_arrays(ends, days),
        "price": pa.LargeListArray.from_arrays(ends, pa.array([1, 2, 3]).cast(pa.decimal128(19))),
    })  # fmt: skip
    source: Any = open_examples(table, SourceOptions(target="y", categorical=["day"]))
    [block] = source.blocks(9, None)
    assert features_of(block.x) == [
        {"w=w2999": 1, "w=w1": 1, "n=7": 1, "n=15706": 1, "day=2026-01-01": 1, "day=2026-01-02": 1,
         "price.0": 1, "price.1": 2},
        {"w=w2999": 1, "n=7": 1, "day=2026-01-03": 1, "price.0": 3},
    ]  # fmt: skip
    with pytest.raises(
        SourceError, match=r"'day' holds values .*date32.* or categorical=\[.day.\] if"
    ):
        streaml1.progressive(ElasticNetClassifier(), table, target="y")


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_files_of_categories_that_are_numbers(tmp_path: Path, suffix: str) -> None:
    """Parquet keeps only in its metadata that numbers are entries of a dictionary."""
    codes = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), pa.array([7, 15706]))
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), codes)
    inside = pa.StructArray.from_arrays([lists, codes[:2]], names=["v", "c"])
    path = tmp_path / f"a.{suffix}"
    table = pa.table({"y": [0, 1], "u": inside})
    if suffix == "parquet":
        parquet.write_table(table, path)
    else:
        feather.write_feather(table, str(path))
    source: Any = open_source(path, target="y")
    [block] = source.blocks(9, None)
    assert features_of(block.x) == [
        {"u.v=7": 1, "u.v=15706": 1, "u.c=7": 1}, {"u.v=7": 1, "u.c=15706": 1}
    ]  # fmt: skip


def test_numbers_as_text_inside() -> None:
    rows: list[Any] = [
        {"y": 1, "user": {"age": "31"}, "v": ["1.5", None, "2"]},
        {"y": 0, "user": {"age": "x"}, "v": []},
        {"y": 0, "user": None, "v": ["q"]},
    ]
    refused: list[str] = []
    frame = pa.Table.from_pylist(rows)
    source: Any = open_examples(frame, SourceOptions(target="y", numeric=["user", "v"]))
    found = [x for b in source.blocks(9, lambda *f: refused.append(f[1])) for x in b.x]
    assert list(map(numeric_features, found)) == [{"user.age": 31, "v.0": 1.5, "v.2": 2}]
    assert refused == [
        "feature 'user.age': 'x' is not a number; leave it out of numeric=",
        "feature 'v.0': 'q' is not a number; leave it out of numeric=",
    ]
    for X in (frame, pd.DataFrame(rows)):
        with pytest.raises(BadExample, match="feature 'user.age': 'x' is not a number") as error:
            ElasticNetClassifier().learn_many(X, target="y", numeric=["user", "v"])
        assert error.value.row == 1


# What is rejected

INTS = pa.map_(pa.int64(), pa.int64())


@pytest.mark.parametrize(
    ("columns", "roles", "reason"),
    [
        (
            {"u": [{"raw": b"x"}]},
            {},
            r"'u.raw' holds values of the type binary: use ignore=\[.u.raw.\]$",
        ),
        ({"u": [[{"raw": b"x"}]]}, {}, r"'u' holds .*struct<raw: binary>>: use ignore=\[.u.\]$"),
        (
            {"u": [{"at": datetime.date.today()}]},
            {},
            r"use ignore=\[.u.at.\], or categorical=\[.u.at",
        ),
        (
            {"u": pa.array([[(1, 2)]], INTS)},
            {},
            r"'u' holds values of the type map<.*: use ignore=\[.u.\]",
        ),
        (
            {"u": [{"a": 1}], "u.a": [1]},
            {},
            r"has several columns 'u.a' \(from 'u' and 'u.a'\): rename one",
        ),
        ({"u": [{"a": 1}]}, {"target": "u"}, "'u' is a struct, but a target is one value; use tar"),
        ({"u": [[1]]}, {"weight": "u"}, "'u' holds values of .*list<.*, but a weight is one value"),
        ({"u": [{"a": 1}]}, {"ignore": ["u.b"]}, "has no column 'u.b'"),
        ({"u": [["a"]]}, {"ignore": ["u.b"]}, "has no column 'u.b'"),
        (
            {"u": [{"a": 1}]},
            {"ignore": ["u.a"], "id": "u.a"},
            "'u.a' can have only one role, got id and ignored: an id is not a feature, so omit it",
        ),
        ({"u": [{"a": 1}]}, {"ignore": ["u"], "categorical": ["u"]}, "'u' can have only one role"),
    ],
)
def test_rejected_columns(
    tmp_path: Path, columns: dict[str, Any], roles: dict[str, Any], reason: str
) -> None:
    table = pa.table({"y": [1], **columns})
    feather.write_feather(table, str(tmp_path / "a.arrow"), compression="uncompressed")
    with pytest.raises(SourceError, match=reason) as error:
        open_source(tmp_path / "a.arrow", **{"target": "y", **roles})
    assert "\n" not in str(error.value)


def test_frames_that_are_rejected() -> None:
    model = ElasticNetClassifier()
    kind = pa.int64()
    for _ in range(63):
        kind = pa.list_(kind)
    deep = pa.table({"y": [1], "u": pa.array([None], kind), "s": [{"a": 1}]})
    model.learn_many(deep, target="y")
    deep = deep.set_column(1, "u", pa.array([None], pa.list_(kind)))
    for learn in (model.learn_many, partial(streaml1.progressive, model)):
        with pytest.raises(ValueError, match="column 'u' is nested more than 64 levels deep"):
            learn(deep, target="y")
    twice = pa.table({"u": [{"a": 1}], "u.a": [1], "y": [1]})
    for roles in ({"target": "y"}, {"y": [1]}):
        with pytest.raises(
            TypeError, match=r"several columns 'u.a' \(from 'u' and 'u.a'\): rename one"
        ):
            model.learn_many(twice, **roles)
        with pytest.raises(BadExample, match="b'x' of 'u.raw' is a bytes"):
            model.learn_many(pd.DataFrame({"u": [{"raw": b"x"}], "y": [1]}), **roles)
        with pytest.raises(BadExample, match="feature 'u.0': a value must be .*, got b'x'"):
            model.learn_many(pl.DataFrame({"u": [[b"x"]], "y": [1]}), **roles)
        with pytest.raises(BadExample, match="'v' is too large") as error:
            model.learn_many(
                pl.DataFrame({"v": [1.0, 1e60, 1], "u": [[], [], [b"x"]], "y": [1, 0, 1]}),
                **roles | {"y": [1, 0, 1]} if "y" in roles else roles,
            )
        assert error.value.row == 1
    with pytest.raises(ValueError, match="is a struct, but a target is one value"):
        model.learn_many(twice.select(["u"]), target="u")
    with pytest.raises(ValueError, match="no column 'u.c'"):
        model.learn_many(twice.select(["u", "y"]), target="u.c")
    assert model.n_iterations == 1


TEXTS = pa.map_(pa.string(), pa.string())


def fail(*fault: object) -> None:
    raise AssertionError(fault)


@pytest.mark.parametrize(
    ("columns", "both"),
    [
        ({"emb.1": [5.0], "emb": [[1.0]]}, "'emb.1' (from 'emb' and 'emb.1')"),
        ({"a.0": [[2.0]], "a": [[[2.0]]]}, "'a.0' (from 'a' and 'a.0')"),
        ({"u": pa.array([[("os", "x")]], TEXTS), "u.os": ["x"]}, "'u.os' (from 'u' and 'u.os')"),
        ({"u": pa.array([[("a.b", "x")]], TEXTS), "u.a.b": ["x"]}, "'u.a.b' (from 'u' and"),
        ({"i": [[{"p": 1.0}]], "i.7.p": [2.0]}, "'i.7.p' (from 'i' and 'i.7.p')"),
        ({"s": [{"v": [1.0]}], "s.v.0": [2.0]}, "'s.v.0' (from 's.v' and 's.v.0')"),
        ({"tags": [["a"]], "tags=a": [2.0]}, "'tags=a' (from 'tags' and 'tags=a')"),
    ],
)
def test_a_name_that_is_also_a_path(columns: dict[str, Any], both: str) -> None:
    """The schema decides, whatever the rows hold: no feature is the sum of two columns."""
    schema = pa.table(columns).schema
    nulls = pa.table([pa.nulls(1, kind) for kind in schema.types], schema=schema)
    for table in (pa.table(columns), nulls):
        table = table.append_column("y", pa.array([1]))
        with pytest.raises(SourceError, match=re.escape(f"rows has several columns {both}")):
            list(open_examples(table, SourceOptions(target="y")).blocks(9, fail))
    with pytest.raises(TypeError, match=re.escape(f"the frame has several columns {both}")):
        ElasticNetClassifier().learn_many(pa.table(columns), [1])


def test_a_name_that_is_also_a_path_can_be_ignored() -> None:
    attrs = pa.array([[("os", "mac")]], TEXTS)
    table = pa.table({"u.os": ["x"], "u": attrs, "emb.1": [5.0], "emb": [[1, 2]], "y": [0]})
    for ignored, x in (
        (["u.os", "emb"], {"u.os=mac": 1, "emb.1": 5}),
        (["u", "emb.1"], {"u.os=x": 1, "emb.0": 1, "emb.1": 2}),
    ):
        source: Any = open_examples(table, SourceOptions(target="y", ignore=ignored))
        [block] = source.blocks(9, fail)
        assert features_of(block.x) == [x]


def test_features_with_the_names_of_columns() -> None:
    """No other column has a feature of the same name."""
    columns = {
        "emb": [[1, 2], [3]], "emb.x": [None, 5.0], "emb.": [1.0, None], "embed.1": [1.0, 2.0],
        "tags": [["a"], ["a", "b"]], "tags=b": ["x", "y"], "tags.0": [7.0, 8.0],
        "grid": [[[1]], []], "grid.0": [1.0, 2.0],
    }  # fmt: skip
    expected = [
        {"emb.0": 1, "emb.1": 2, "emb.": 1, "embed.1": 1, "tags=a": 1, "tags=b=x": 1, "tags.0": 7,
         "grid.0.0": 1, "grid.0": 1},
        {"emb.0": 3, "emb.x": 5, "embed.1": 2, "tags=a": 1, "tags=b": 1, "tags=b=y": 1,
         "tags.0": 8, "grid.0": 2},
    ]  # fmt: skip
    for names in (list(columns), list(columns)[::-1]):
        table = pa.table({name: columns[name] for name in names})
        assert features_of(frame_rows(table)) == expected


# The command line


def test_inspect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [
        row | {"user": (row["user"] or NOBODY) | {"raw": b"x"}, "attrs": {"k": k % 4}}
        for k, row in enumerate(examples())
    ]
    table = pa.Table.from_pylist(rows)
    attrs = pa.array([[*row["attrs"].items()] for row in rows], pa.map_(pa.string(), pa.int64()))
    parquet.write_table(
        table.set_column(table.column_names.index("attrs"), "attrs", attrs), "a.parquet"
    )
    out = run("inspect", "a.parquet").stdout
    kinds = [line[8:].split()[:2] for line in out.splitlines()[1:14]]
    assert kinds == [
        ["clicked", "boolean"], ["user.age", "number"], ["user.os", "category"],
        ["user.is_new", "boolean"], ["user.geo.zip", "number"], ["user.geo.w", "number"],
        ["user.geo.langs", "array"], ["user.raw", "nested"], ["site", "category"],
        ["tags", "array"], ["emb", "array"], ["items", "array"], ["grid", "array"],
    ]  # fmt: skip
    assert " attrs.k " in out
    command = out.splitlines()[-1]
    assert command == "streaml1 learn a.parquet --target clicked --ignore user.raw"
    assert re.search(r"examples +120\n", run(*command.split()[1:]).stdout)
    sentence = error_of("learn", "a.parquet", "--target", "clicked")
    assert sentence == (
        "a.parquet: column 'user.raw' holds values of the type binary: use --ignore user.raw"
    )
