"""Tables written by pandas, polars, DuckDB, scikit-learn and as Spark does are read unchanged."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streaml1.sources import open_source

pandas = pytest.importorskip("pandas")

N = 50
SITES = ["news", 'a "quoted" one', "with, comma", "two\nlines", "ünïcödé", "it's", "007", " padded"]
ROWS: list[dict[str, Any]] = [
    {
        "site": None if k % 11 == 5 else SITES[k % len(SITES)],
        "price": None if k % 7 == 3 else (k - 20) * 0.37,
        "n": k % 5,
        "is_new": k % 3 == 0,
        "click": k % 2,
    }
    for k in range(N)
]
EXPECTED = [
    ({name: float(v) if isinstance(v, bool | int) else v for name, v in row.items()
      if name != "click" and v}, float(row["click"]))
    for row in ROWS
]  # fmt: skip


pytestmark = pytest.mark.usefixtures("cwd")


def examples(source: Any, **options: Any) -> list[tuple[dict[Any, Any], Any]]:
    """Return the examples of a source, without absent values."""

    def reject(*fault: Any) -> None:
        raise AssertionError(fault)

    found = []
    for block in open_source(source, **options).blocks(16, reject):
        for x, y in zip(block.x, block.y, strict=True):
            present = {
                name: v if isinstance(v, str) else float(v) for name, v in x.items() if v
            }  # fmt: skip
            found.append((present, float(y)))
    return found


def options_of(name: str) -> dict[str, Any]:
    is_csv = ".csv" in name or ".tsv" in name
    return {"target": "click", **({"categorical": ["site"]} if is_csv else {})}


def frame() -> Any:
    return pandas.DataFrame(ROWS).astype({"click": "int64"})


PANDAS: dict[str, Callable[[Any, str], None]] = {
    "plain.csv": lambda f, name: f.to_csv(name, index=False),
    "index.csv": lambda f, name: f.to_csv(name),
    "quoted.csv": lambda f, name: f.to_csv(name, index=False, quoting=1),
    "words.csv": lambda f, name: f.to_csv(name, index=False, quoting=2),
    "mark.csv": lambda f, name: f.to_csv(name, index=False, encoding="utf-8-sig"),
    "missing.csv": lambda f, name: f.to_csv(name, index=False, na_rep="NULL"),
    "windows.csv": lambda f, name: f.to_csv(name, index=False, lineterminator="\r\n"),
    "packed.csv.gz": lambda f, name: f.to_csv(name, index=False),
    "tabs.tsv": lambda f, name: f.to_csv(name, index=False, sep="\t"),
    "lines.jsonl": lambda f, name: f.to_json(name, orient="records", lines=True),
    "unicode.jsonl": lambda f, name: f.to_json(
        name, orient="records", lines=True, force_ascii=False, double_precision=15
    ),
    "table.parquet": lambda f, name: f.to_parquet(name),
    "gaps.parquet": lambda f, name: f.set_index(f.index * 2 + 1).to_parquet(name),
    "table.feather": lambda f, name: f.to_feather(name),
    "nullable.parquet": lambda f, name: f.convert_dtypes().to_parquet(name),
    "nullable.csv": lambda f, name: f.convert_dtypes().to_csv(name, index=False),
    "categories.parquet": lambda f, name: f.astype({"site": "category"}).to_parquet(name),
}  # fmt: skip


@pytest.mark.parametrize("name", PANDAS)
def test_pandas(name: str) -> None:
    if ".parquet" in name or ".feather" in name:
        pytest.importorskip("pyarrow")
    PANDAS[name](frame(), name)
    _assert_expected(examples(name, **options_of(name)))


def _assert_expected(found: list[tuple[dict[Any, Any], Any]]) -> None:
    assert [y for _, y in found] == [y for _, y in EXPECTED]
    for (x, _), (expected, _) in zip(found, EXPECTED, strict=True):
        # to_json writes ten decimal places.
        assert x == {
            name: v if isinstance(v, str) else pytest.approx(v, abs=1e-9)
            for name, v in expected.items()
        }  # fmt: skip


@pytest.mark.parametrize("decimal", [".", ","])
def test_numbers_of_other_countries(decimal: str) -> None:
    frame().to_csv("a.csv", index=False, sep=";", decimal=decimal)
    _assert_expected(examples("a.csv", delimiter=";", decimal=decimal, **options_of("a.csv")))


@pytest.mark.parametrize(
    "name", ["a.csv", "quoted.csv", "a.ndjson", "a.parquet", "a.arrow", "lz4.arrow", "enum.parquet"]
)
def test_polars(name: str) -> None:
    polars = pytest.importorskip("polars")
    table = polars.DataFrame(ROWS)
    if name.endswith(".csv"):
        table.write_csv(name, quote_style="always" if name == "quoted.csv" else "necessary")
    elif name.endswith(".ndjson"):
        table.write_ndjson(name)
    else:
        pytest.importorskip("pyarrow")
        kind = polars.Enum(SITES) if name.startswith("enum") else polars.Categorical
        if name.startswith("enum"):
            table = table.with_columns(polars.col("site").cast(kind))
        if name.endswith(".parquet"):
            table.write_parquet(name, row_group_size=20)
        else:
            compression = "lz4" if name.startswith("lz4") else "uncompressed"
            table.write_ipc(name, compression=compression)
    _assert_expected(examples(name, **options_of(name)))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a.csv", "header"),
        ("pipe.csv", "header, delimiter '|'"),
        ("quoted.csv", "header, force_quote *"),
        ("null.csv", "header, nullstr 'NULL'"),
        ("packed.csv.gz", "header, compression gzip"),
        ("a.json", "format json"),
        ("a.parquet", "format parquet"),
        ("zstd.parquet", "format parquet, compression zstd, row_group_size 20"),
    ],
)
def test_duckdb(name: str, options: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    connection = duckdb.connect()
    connection.register("rows", frame())
    connection.execute(f"copy (select * from rows) to '{name}' ({options})")
    delimiter = {"delimiter": "|"} if name == "pipe.csv" else {}
    _assert_expected(examples(name, **options_of(name), **delimiter))


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "json", "json.gz", "snappy.parquet"])
def test_part_files_as_spark_writes_them(suffix: str) -> None:
    if "parquet" in suffix:
        pytest.importorskip("pyarrow")
    folder = Path("clicks")
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    (folder / "._SUCCESS.crc").write_bytes(b"crc\0\0\0\0\0")
    for k, lo in enumerate((0, 20, 20, 40)):
        rows = frame().iloc[lo : (20, 20, 40, N)[k]]  # the second part has no rows
        name = f"part-0000{k}-6a3c7b5e-c000.{suffix}"
        if "parquet" in suffix:
            rows.to_parquet(folder / name, compression="snappy")
        else:
            text = (
                rows.to_csv(index=False, lineterminator="\n")
                if "csv" in suffix
                else rows.to_json(orient="records", lines=True).strip() + "\n"
            ).encode()
            (folder / name).write_bytes(gzip.compress(text) if suffix.endswith("gz") else text)
        (folder / f".{name}.crc").write_bytes(b"crc\0\0\0\0\0")
    _assert_expected(examples("clicks", **options_of(f"a.{suffix}")))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"zero_based": False},
        {"comment": "written by a test\nin two lines"},
        {"query_id": [k // 3 for k in range(N)]},
    ],
)
@pytest.mark.parametrize("labels", [(0, 1), (-1, 1)])
def test_dump_svmlight_file(options: dict[str, Any], labels: tuple[int, int]) -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    random = np.random.default_rng(0)
    X = random.random((N, 6)) * (random.random((N, 6)) < 0.5)
    y = np.array(labels)[np.arange(N) % 2]
    datasets.dump_svmlight_file(X, y, "a.svm", **options)
    first = 0 if options.get("zero_based", True) else 1
    expected = [{j + first: v for j, v in enumerate(row) if v} for row in X.tolist()]
    found = examples("a.svm")
    assert [label for _, label in found] == y.tolist()
    for (x, _), row in zip(found, expected, strict=True):
        assert x == pytest.approx(row, rel=1e-15)


def test_dump_svmlight_file_of_numbers_and_of_many_labels() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    X, y = np.eye(4), np.array([2.5, -1.0, 0.0, 1e6])
    datasets.dump_svmlight_file(X, y, "a.svm")
    assert [label for _, label in examples("a.svm")] == y.tolist()
    datasets.dump_svmlight_file(X, np.eye(4), "b.svm", multilabel=True)
    assert len(examples("b.svm")) == 4  # one label each
