"""Parquet and Arrow IPC files as sources."""

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from pyarrow import feather, parquet

import streaml1
from streaml1 import BadExample, ElasticNetClassifier, SoftmaxClassifier
from streaml1.sources import SourceError, format_of, open_source
from streaml1.training import predictions
from tests.command import run


def table(n: int = 50) -> Any:
    random = np.random.default_rng(0)
    return pa.table({
        "site": pa.array(random.choice(["news", "a longer name", "x"], n)),
        "ad": pa.array(random.choice(["p", "q"], n)).dictionary_encode(),
        "day": pa.array(random.integers(1, 4, n)),
        "price": pa.array(random.choice([0.0, 1.5, math.nan, -2.0], n)),
        "weight": pa.array(random.choice([1.0, 0.5], n)),
        "click": pa.array(random.integers(0, 2, n)),
        "id": pa.array(np.arange(n) + 10**12),
    })  # fmt: skip


ROLES: dict[str, Any] = {
    "target": "click", "weight": "weight", "ignore": ["id"], "categorical": ["site", "ad", "day"],
}  # fmt: skip


def write(path: Path, rows: Any, size: int = 7) -> Path:
    """Write a table with small groups."""
    if path.suffix == ".parquet":
        parquet.write_table(rows, path, row_group_size=size)
    elif path.suffix == ".csv":
        k = rows.column_names.index("price")
        price = pa.array(rows["price"].to_pylist(), from_pandas=True)
        plain = rows.set_column(k, "price", price)
        pyarrow.csv.write_csv(plain.set_column(1, "ad", plain["ad"].cast("string")), path)
    else:
        feather.write_feather(rows, str(path), chunksize=size, compression="uncompressed")
    return path


SUFFIXES = [".parquet", ".arrow", ".feather"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_equal_csv(tmp_path: Path, suffix: str) -> None:
    path, csv = write(tmp_path / f"a{suffix}", table()), write(tmp_path / "a.csv", table())
    model, twin = ElasticNetClassifier(l1=1e-4), ElasticNetClassifier(l1=1e-4)
    report = streaml1.progressive(model, path, **ROLES)
    assert report.examples == 50
    expected = streaml1.progressive(twin, csv, **ROLES)
    assert report.lines[-1].loss == expected.lines[-1].loss
    assert model.weights == twin.weights and len(model.weights) > 5
    found, wanted = (list(predictions(model, source, **ROLES)) for source in (path, csv))
    assert [prediction.p for prediction in found] == [prediction.p for prediction in wanted]
    assert found[8].place == f"{path}:9"


def test_dicts_of_rows(tmp_path: Path) -> None:
    """Errors, and interpreters without kernels, read the rows as dicts."""
    path = write(tmp_path / "a.parquet", table())
    blocks = list(open_source(path, **ROLES).blocks(20, None))  # type: ignore[arg-type]
    assert [len(block) for block in blocks] == [20, 20, 10]
    rows = table().to_pylist()
    assert blocks[1].x[3] | {"price": None} == {
        "site": rows[23]["site"], "ad": rows[23]["ad"], "day": str(rows[23]["day"]), "price": None,
    }  # fmt: skip
    assert blocks[1].place(3) == f"{path}:24" and blocks[1].after(3) == {"line": 23}


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_resuming_at_every_row(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path / f"a{suffix}", table(30))
    source: Any = open_source(path, **ROLES)

    def read(at: Any) -> list[Any]:
        source.begin(at)
        blocks = list(source.blocks(4, None))
        assert all(block.after(len(block)) == {"line": block.lines[-1]} for block in blocks)
        return [(line, *x.items()) for block in blocks
                for line, x in zip(block.lines, block.x, strict=True)]  # fmt: skip

    whole = read(None)
    assert [line for line, *_ in whole] == list(range(1, 31))
    for row in range(31):
        assert str(read({"line": row})) == str(whole[row:])


def test_checkpoints(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", table())
    model, twin = ElasticNetClassifier(), ElasticNetClassifier()
    streaml1.progressive(model, path, limit=23, checkpoint=tmp_path / "c", **ROLES)
    model = ElasticNetClassifier()
    assert streaml1.progressive(model, path, checkpoint=tmp_path / "c", **ROLES).examples == 50
    streaml1.progressive(twin, path, **ROLES)
    assert model.weights == twin.weights
    write(path, table().slice(1))
    with pytest.raises(ValueError, match="sha256"):
        streaml1.progressive(ElasticNetClassifier(), path, checkpoint=tmp_path / "c", **ROLES)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_categories_that_are_numbers(tmp_path: Path, suffix: str) -> None:
    codes = pa.array([0, 1, None, 1] * 5, pa.int8())
    ads = pa.DictionaryArray.from_arrays(codes, pa.array([15706, 15707]))
    path = write(tmp_path / f"a{suffix}", pa.table({"click": [0, 1, 1, 0] * 5, "ad": ads}))
    model = ElasticNetClassifier()
    streaml1.progressive(model, path, target="click")
    assert set(model.weights) == {"ad=15706", "ad=15707"}
    assert re.search(r" ad +category +25\.0%", run("inspect", str(path)).stdout)


def test_columns_of_the_same_name(tmp_path: Path) -> None:
    columns = [pa.array([0, 1])] * 3
    path = write(tmp_path / "a.parquet", pa.Table.from_arrays(columns, names=["click", "a", "a"]))
    for ignore in ([], ["2"], ["a"]):
        with pytest.raises(SourceError, match="has several columns 'a': rename all but one"):
            open_source(path, target="click", ignore=ignore)


def test_formats_are_detected_by_first_bytes(tmp_path: Path) -> None:
    for suffix, format in ((".parquet", "parquet"), (".arrow", "arrow")):
        path = write(tmp_path / f"a{suffix}", table())
        path = path.rename(tmp_path / f"part-0{suffix.replace('.', '-')}")
        assert format_of(str(path)) == format
        assert streaml1.progressive(ElasticNetClassifier(), path, **ROLES).examples == 50
    broken = tmp_path / "b.parquet"
    broken.write_bytes(b"PAR1 and no more")
    with pytest.raises(SourceError, match="b.parquet is not a valid Parquet file: "):
        open_source(broken, target="click")


def test_labels_weights_and_missing_values(tmp_path: Path) -> None:
    rows = pa.table({
        "y": pa.array(["7", "7.0", None, "news", "NaN"]),
        "w": pa.array([1.0, 2.0, 1.0, -1.0, 1.0]),
        "s": pa.array(["a", None, "b", "c", "d"]),
        "price": pa.array([Decimal("1.50"), None, None, None, None]),
        "__index_level_0__": pa.array(range(5)),
    })  # fmt: skip
    path = tmp_path / "a.parquet"
    parquet.write_table(rows, path)
    model = SoftmaxClassifier()
    report = streaml1.progressive(model, path, target="y", weight="w", bad="skip")
    assert (report.examples, report.rejected) == (2, 3)
    assert model.classes_met == [7]
    with pytest.raises(BadExample, match="a.parquet:3: the label is missing"):
        streaml1.progressive(SoftmaxClassifier(), path, target="y", weight="w")
    binary = pa.table({"y": pa.array([1, None, 0]), "s": ["a", "b", "c"]})
    parquet.write_table(binary, path)
    with pytest.raises(BadExample, match="a.parquet:2: the label is missing"):
        streaml1.progressive(ElasticNetClassifier(), path, target="y")


@pytest.mark.parametrize(
    ("roles", "reason"),
    [
        ({}, 'use target="COLUMN" to name the label column; the columns are: site, at, list'),
        ({"target": "y"}, "has no column 'y'"),
        (
            {"target": "site"},
            r"""'at' holds values of the type timestamp.*: use ignore=\["at"\], or categorical=""",
        ),
        ({"target": "site", "categorical": ["at"]}, "'list' holds values of the type list.*: use"),
        ({"target": "site", "delimiter": ";"}, "apply to CSV files only"),
    ],
)
def test_unreadable_columns_are_rejected(
    tmp_path: Path, roles: dict[str, Any], reason: str
) -> None:
    times = pa.array([datetime.datetime(2026, 1, 1)])
    rows = pa.table({"site": ["a"], "at": times, "list": pa.array([[b"1"]])})
    parquet.write_table(rows, tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=reason):
        open_source(tmp_path / "a.parquet", **roles)


def test_numbers_in_text_columns(tmp_path: Path) -> None:
    texts = ["12", "-0.5", None, "NULL", "3%", "word", " 1e3"]
    rows = pa.table({"y": [1.0] * 7, "n": texts, "c": pa.array(texts).dictionary_encode(),
                     "d": pa.array([1.5] * 7), "s": texts})  # fmt: skip
    parquet.write_table(rows, tmp_path / "a.parquet")
    roles: Any = {"target": "y", "numeric": ["n", "c", "d"]}
    source, refused = open_source(tmp_path / "a.parquet", **roles), []
    found = [
        {name: v for name, v in x.items() if v is not None}
        for block in source.blocks(3, lambda *fault: refused.append(fault[:2]))
        for x in block.x
    ]
    assert [(x.get("n"), x.get("c")) for x in found] == [
        (12, 12), (-0.5, -0.5), (None, None), (None, None), (3, 3), (1000, 1000)
    ]  # fmt: skip
    assert all(x["d"] == 1.5 for x in found) and "s" in found[0] or "s=12" in found[0]
    place = f"{tmp_path / 'a.parquet'}:6"
    assert refused == [(place, "feature 'n': 'word' is not a number; leave it out of numeric=")]
    assert source.identity()["numeric"] == ["c", "d", "n"]
    model = ElasticNetClassifier(lr=0.1)
    streaml1.progressive(model, rows.to_pandas()[:5], **roles)  # a frame
    assert {"n", "c", "d", "s=12"} <= model.weights.keys()
    with pytest.raises(SourceError, match="no column 'm'"):
        open_source(tmp_path / "a.parquet", target="y", numeric=["m"])


def test_text_columns(tmp_path: Path) -> None:
    rows = pa.table({"m": ["cheap pills", "hello there", None], "y": [1, 0, 1]})
    parquet.write_table(rows, tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("m,y\ncheap pills,1\nhello there,0\n,1\n")
    model, twin = (ElasticNetClassifier(text=["m"], ngrams=2) for _ in range(2))
    streaml1.progressive(model, tmp_path / "a.parquet", target="y")
    streaml1.progressive(twin, tmp_path / "a.csv", target="y")
    assert model.weights == twin.weights and "m=cheap pills" in model.weights


def test_row_caches_of_parquet(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", table())
    streaml1.training.convert(path, tmp_path / "a.rows", **ROLES)
    model, twin = ElasticNetClassifier(), ElasticNetClassifier()
    streaml1.progressive(model, tmp_path / "a.rows")
    streaml1.progressive(twin, path, **ROLES)
    assert model.weights == twin.weights


def everything(source: Any, size: int = 4) -> list[tuple[str, str]]:
    """Return features, label and weight of all rows, as text since NaN differs from itself."""
    rows = []
    for block in source.blocks(size, lambda *fault: None):
        weights = [1.0] * len(block) if block.w is None else block.w
        for row in range(len(block)):
            values = f"{block.x[row]} {block.y[row]} {weights[row]}"
            rows.append((values, block.place(row)))
    return rows


@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_directory_of_files_resumes_at_every_row(tmp_path: Path, suffix: str) -> None:
    whole, folder = table(), tmp_path / "parts"
    folder.mkdir()
    for k, (lo, hi) in enumerate([(0, 11), (11, 11), (11, 30), (30, 50)]):
        write(folder / f"part-{k}{suffix}", whole.slice(lo, hi - lo))
    (folder / "_SUCCESS").touch()
    rows = everything(open_source(folder, **ROLES))
    alone = everything(open_source(write(tmp_path / f"a{suffix}", whole), **ROLES))
    assert [row[0] for row in rows] == [row[0] for row in alone]
    assert rows[11][1] == f"{folder}/part-2{suffix}:1"
    for cut in range(0, 50, 7):
        source: Any = open_source(folder, **ROLES)
        at, n = source.begin(None), 0
        for block in source.blocks(4, lambda *fault: None):
            if n + len(block) >= cut:
                at = block.after(cut - n) if cut > n else at
                break
            n, at = n + len(block), block.after(len(block))
        resumed: Any = open_source(folder, **ROLES)
        resumed.begin(at)
        assert everything(resumed) == rows[cut:]
    write(folder / f"part-4{suffix}", whole.drop_columns(["site"]))
    with pytest.raises(SourceError, match="lacks 'site'|no column 'site'"):
        everything(open_source(folder, **ROLES))
