"""Vectors of Spark ML in JSON lines, Arrow tables and dicts, held to a plain reading of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from streaml1 import ElasticNetClassifier
from streaml1.sources import SourceOptions, open_source
from streaml1.sources.readers.flat_json import JsonRoles, flatten_members
from streaml1.training import progressive
from tests.command import error_of, run
from tests.test_nested_json import assert_equal

VECTOR = pa.struct(
    [
        ("type", pa.int8()),
        ("size", pa.int32()),
        ("indices", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float64())),
    ]
)


def sparse(elements: dict[int, float], size: int = 99) -> dict[str, Any]:
    return {"type": 0, "size": size, "indices": [*elements], "values": [*elements.values()]}


def dense(values: list[float]) -> dict[str, Any]:
    return {"type": 1, "size": None, "indices": None, "values": values}


FLOATS = st.sampled_from([0.0, 0.5, -3.0, 1e-7])
SPARSE = st.dictionaries(st.integers(0, 98), FLOATS, max_size=5).map(
    lambda elements: sparse(dict(sorted(elements.items())))
)
VECTORS = st.one_of(st.none(), SPARSE, st.lists(FLOATS, max_size=4).map(dense))
NEAR_VECTORS = st.fixed_dictionaries(
    {"type": st.sampled_from([0, 1, 2, 10, 0.5, "0", "sum", True, None])},
    optional={
        "size": st.just(9),
        "indices": st.sampled_from([[], [1], [1, 1], [2, 1], ["1"], [-1], [1.0], 7, None]),
        "values": st.sampled_from([[], [0.5], [0.5, 2], ["a"], [None], 7, "a", None]),
        "more": st.just(1),
    },
)


def features(vector: dict[str, Any] | None) -> dict[str, float]:
    """Return the features of a vector named v."""
    if vector is None:
        return {}
    indices = range(len(vector["values"])) if vector["type"] else vector["indices"]
    pairs = zip(indices, vector["values"], strict=True)
    return {f"v.{index}": value for index, value in pairs if value}


def read(path: Path) -> list[dict[str, float]]:
    """Return the features of a file, by name."""
    found: list[dict[str, float]] = []
    for block in open_source(str(path), SourceOptions(target="y")).blocks(100, pytest.fail):
        _, values, indptr = block.x.csr()
        names = block.x.feature_names(slice(None))
        for lo, hi in zip(indptr[:-1], indptr[1:], strict=True):
            pairs = zip(names[lo:hi], values[lo:hi].tolist(), strict=True)
            found.append({name: value for name, value in pairs if value})
    return found


@given(st.lists(VECTORS, min_size=1, max_size=8), st.booleans())
def test_every_source_reads_the_elements(
    tmp_path_factory: pytest.TempPathFactory, vectors: list[Any], compact: bool
) -> None:
    folder = tmp_path_factory.mktemp("vectors")
    expected = [features(vector) for vector in vectors]
    rows = [{"y": k % 2, "v": vector} for k, vector in enumerate(vectors)]
    separators = (",", ":") if compact else (", ", ": ")
    lines = "".join(json.dumps(row, separators=separators) + "\n" for row in rows)
    (folder / "v.jsonl").write_text(lines)
    table = pa.table({"y": [row["y"] for row in rows], "v": pa.array(vectors, VECTOR)})
    parquet.write_table(table, folder / "v.parquet")
    for name in ("v.jsonl", "v.parquet"):
        assert read(folder / name) == expected, name
    assert [flatten_members({"v": v}) for v in vectors if v] == [
        {f"v.{k}": value for k, value in elements_of(v)} for v in vectors if v
    ]


def elements_of(vector: dict[str, Any]) -> list[tuple[int, float]]:
    """Return the elements of a vector, zeros too."""
    indices = range(len(vector["values"])) if vector["type"] else vector["indices"]
    return list(zip(indices, vector["values"], strict=True))


@given(st.lists(st.one_of(NEAR_VECTORS, VECTORS), min_size=1, max_size=6), st.booleans())
def test_kernels_leave_to_python_what_may_be_a_vector(vectors: list[Any], as_text: bool) -> None:
    roles = JsonRoles(target="y", categorical=frozenset({"other"} if as_text else ()))
    lines = [json.dumps({"y": 1, "v": v, "other": 3}) for v in vectors]
    assert_equal("\n".join(lines).encode(), roles)


def test_frames_and_dicts_learn_the_same_weights() -> None:
    vectors = [sparse({3: 1.0, 70: 2.0}), dense([0.5, 0.0, 4.0]), None, sparse({70: 1.0})]
    labels = [1, 0, 1, 1]
    table = pa.table({"y": labels, "v": pa.array(vectors, VECTOR)})
    rows = [{"y": y, "v": v} for y, v in zip(labels, vectors, strict=True)]
    models = [ElasticNetClassifier(), ElasticNetClassifier(), ElasticNetClassifier()]
    models[0].learn_many(table.select(["v"]), labels)
    progressive(models[1], rows, target="y")
    for vector, y in zip(vectors, labels, strict=True):
        models[2].learn_one(features(vector), bool(y))
    assert set(models[0].weights) == {"v.0", "v.2", "v.3", "v.70"}
    assert models[0].weights == models[1].weights == models[2].weights


@pytest.mark.parametrize(
    ("vector", "message"),
    [
        (sparse({1: 0.5}) | {"values": [0.5, 2.0]}, "vector 'v' has 1 indices and 2 values"),
        (sparse({-1: 0.5}), "vector 'v' has the index -1: it must be a non-negative integer"),
        (
            sparse({}) | {"indices": [4, 4], "values": [1.0, 2.0]},
            "the name 'v.4' occurs twice",
        ),
    ],
)
def test_damaged_vectors_are_rejected_in_every_source(
    tmp_path: Path, vector: dict[str, Any], message: str
) -> None:
    vectors = [vector, sparse({1: 1.0})]
    json_file, parquet_file = tmp_path / "v.jsonl", tmp_path / "v.parquet"
    json_file.write_text("".join(json.dumps({"y": 1, "v": v}) + "\n" for v in vectors))
    parquet.write_table(pa.table({"y": [1, 0], "v": pa.array(vectors, VECTOR)}), parquet_file)
    for path in (json_file, parquet_file):
        command = ["learn", str(path), "--target", "y"]
        for options in ([], ["--ignore", "v.1"]):
            assert message in error_of(*command, *options, code=65)
        skipped = run(*command, "--ignore", "v.1", "--bad", "skip", "--most-bad", "1").output
        assert "rejected" in skipped and message in skipped


def test_an_index_out_of_order_is_no_error(tmp_path: Path) -> None:
    vectors = [sparse({7: 1.0, 2: 3.0})]
    path = tmp_path / "v.parquet"
    parquet.write_table(pa.table({"y": [1], "v": pa.array(vectors, VECTOR)}), path)
    assert read(path) == [{"v.7": 1.0, "v.2": 3.0}]


def test_options_and_inspect(tmp_path: Path) -> None:
    vectors = [sparse({1: 1.0, 2: 1.0}), sparse({2: 5.0, 40: 1.0})] * 20
    rows = [{"y": k % 2, "v": v, "site": "news"} for k, v in enumerate(vectors)]
    table = pa.table(
        {"y": [r["y"] for r in rows], "v": pa.array(vectors, VECTOR), "site": ["news"] * 40}
    )
    parquet.write_table(table, tmp_path / "v.parquet")
    (tmp_path / "v.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("v.parquet", "v.jsonl"):
        path = str(tmp_path / name)
        assert "  v       array" in run("inspect", path, "--target", "y").output
        out = run("learn", path, "--target", "y", "--ignore", "v.2").output
        assert "3 of 3 features seen" in out and "v.40" in out and "none of" not in out
        assert "1 of 1 feature seen" in run("learn", path, "--target", "y", "--ignore", "v").output
        # An element that is the label is not a feature.
        out = run("learn", path, "--target", "v.2", "--task", "regression").output
        assert "4 features seen" in out and "v.1" in out and "v.2" not in out
