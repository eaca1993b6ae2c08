"""`.rows` files: reading returns what was converted; damage is detected."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import streaml1
from streaml1 import BadExample
from streaml1.cli import cli
from streaml1.sources import SourceError, open_source
from streaml1.sources.row_cache import row_file as rows_file
from streaml1.sources.row_cache.layout import HEADER, VERSION, checksum
from streaml1.sources.source import Block, Lost
from streaml1.training import convert, predictions, progressive
from streaml1.training.checkpoint import CheckpointError

VW = """1 | cheap:0.5 now:2 cheap:0.25
-1 2.5 'tag |a new |b new:-1e-3
1 |
-1 | é:1 long%20name:3 now:0
"""
SVM = """+1 3:0.5 17:1 4294967295:2
-1 qid:7 1:1e-5 # none

-1
1 5:0.125 5:0.25 2:1
"""
WIDE = "1 3:0.5 9223372036854775807:1\n-1 3:1\n"
JSON = """{"x": {"age": 31, "site": "news", "new": true}, "y": 1, "id": "v7"}
{"x": {"age": 0.5, "none": null}, "y": false, "w": 0.25}
{"x": {"site=news": 1, "site": "news"}, "y": "1", "id": 9}
{"x": {}, "y": -1}
"""
CSV = "clicked,site,price,w\n1,news,1.5,1\n0,,0,2\n1,mail,2,1\n"


def read_reference(path: Path) -> Iterator[tuple[str, dict[Any, float], Any, float, Any]]:
    """Yield place, features, label, weight and id of each example.

    An independent reader of the format, written from its specification.
    """
    raw = path.read_bytes()
    magic, version, reserved, data_start, data_size, digest = struct.unpack("<8sIIQQ32s", raw[:64])
    assert (magic, version, reserved) == (b"\x89rows1\r\n", 1, 0)
    assert hashlib.sha256(raw[data_start : data_start + data_size]).digest() == digest
    (length,) = struct.unpack_from("<Q", raw, data_start)
    metadata = json.loads(raw[data_start + 8 : data_start + 8 + length])
    parts_start = data_start + 8 + (length + 7) // 8 * 8
    parts = [
        struct.unpack_from("<4Q", raw, k) for k in range(parts_start, data_start + data_size, 32)
    ]
    (ends_at, ends_size), (text_at, _) = parts[-2][:2], parts[-1][:2]
    ends = [0, *struct.unpack_from(f"<{ends_size // 8}Q", raw, ends_at)]
    spans = zip(ends[:-1], ends[1:], strict=True)
    names = [raw[text_at + a : text_at + b].decode() for a, b in spans]
    for block_start, _, n_rows, _ in parts[:-3]:
        header = struct.unpack_from("<9Q", raw, block_start)
        count, k, kind, valued, weighted, _, line, labels, extra = header
        assert count == n_rows
        pos = block_start + 72

        def take(code: str, m: int) -> Any:
            nonlocal pos
            items = struct.unpack_from(f"<{m}{code}", raw, pos)
            pos += (struct.calcsize(f"<{m}{code}") + 7) // 8 * 8
            return list(items)

        y = json.loads(bytes(take("B", labels))) if labels else take("d", count)
        w = take("d", count) if weighted else [1.0] * count
        pointers = take("q", count + 1)
        lines = list(range(line, line + count)) if line else take("q", count)
        values = take("d", k) if valued else [1.0] * k
        ids = take("q" if kind == 1 else "I", k)
        extras = json.loads(bytes(take("B", extra))) if extra else {}
        places = extras.get("places") or [
            f"{metadata['source']}:{line_number}" for line_number in lines
        ]
        example_ids = extras.get("ids") or [None] * count
        for row in range(count):
            x: dict[Any, float] = {}
            for j in range(pointers[row], pointers[row + 1]):
                name = names[ids[j]] if kind == 2 else ids[j]
                x[name] = x.get(name, 0.0) + values[j]
            yield places[row], x, y[row], w[row], example_ids[row]


def examples(spec: Any, **options: Any) -> list[tuple[Any, ...]]:
    """Return the same fields for any source, read through its own reader."""
    rows = []
    for block in open_source(spec, **options).blocks(3, fail):
        for row in range(len(block)):
            w = 1.0 if block.w is None else block.w[row]
            example_id = None if block.ids is None else block.ids[row]
            rows.append((block.place(row), dict(block.x[row]), block.y[row], w, example_id))
    return rows


def fail(place: str, reason: str, *_: Any) -> None:
    raise AssertionError(f"{place}: {reason}")


def model_features(x: dict[Any, Any]) -> dict[Any, float]:
    """Return the features as models see them: strings expanded, duplicates summed."""
    features: dict[Any, float] = {}
    for name, v in x.items():
        if v is not None:
            name, v = (f"{name}={v}", 1.0) if isinstance(v, str) else (name, float(v))
            features[name] = features.get(name, 0.0) + v
    return {name: v for name, v in features.items() if v}


FILES = {
    "a.vw": (VW, {}),
    "a.svm": (SVM, {}),
    "wide.svm": (WIDE, {}),
    "a.jsonl": (JSON, {}),
    "a.csv": (CSV, {"target": "clicked", "categorical": ["site"], "weight": "w"}),
}


def state(model: Any) -> Any:
    return model.weights, list(model.weights), model.intercept, model.n_features_seen


def make_model(**options: Any) -> streaml1.ElasticNetClassifier:
    return streaml1.ElasticNetClassifier(l1=1e-3, l2=1e-3, lr=0.3, **options)


@pytest.mark.parametrize("name", FILES)
def test_round_trip_of_each_format(tmp_path: Path, name: str) -> None:
    text, options = FILES[name]
    path = tmp_path / name
    path.write_text(text)
    result = convert(path, tmp_path / "a.rows", **options)
    expected = [
        (place, model_features(x), y, w, id_) for place, x, y, w, id_ in examples(path, **options)
    ]
    for rows in (read_reference(tmp_path / "a.rows"), iter(examples(tmp_path / "a.rows"))):
        assert [(place, model_features(x), y, w, id_) for place, x, y, w, id_ in rows] == expected
    about = open_source(tmp_path / "a.rows").about
    format = {"vw": "vw", "svm": "svmlight", "jsonl": "jsonl", "csv": "csv"}[name.split(".")[1]]
    assert about["format"] == format and about["source"] == str(path)
    assert result.rows == len(expected) == about["rows"] and result.rejected == 0
    assert result.size == (tmp_path / "a.rows").stat().st_size
    names = {name for _, x, *_ in expected for name in x if isinstance(name, str)}
    assert names <= set(_file_names(tmp_path / "a.rows")) and result.names - len(names) in (0, 1)
    for options in ({}, {"hash_bits": 3}, {"lr": "auto"}) if name != "wide.svm" else ({},):
        models = [streaml1.ElasticNetClassifier(l1=1e-3, **options) for _ in range(2)]
        reports = [
            progressive(model, spec, passes=3, every=2, **(FILES[name][1] if spec == path else {}))
            for model, spec in zip(models, (path, tmp_path / "a.rows"), strict=True)
        ]
        assert state(models[0]) == state(models[1])
        losses = [[(line.loss, line.recent_loss) for line in report.lines] for report in reports]
        assert losses[0] == losses[1]


def _file_names(path: Path) -> list[str]:
    source = open_source(path)
    return source._file_names().lookup(np.arange(source.about["names"]))  # type: ignore[attr-defined]


int_names = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9)
feature_values = st.floats(-9, 9) | st.integers(-3, 3) | st.none() | st.booleans()
feature_dicts = (
    st.dictionaries(int_names, feature_values, max_size=4)
    | st.dictionaries(st.text(max_size=3), feature_values | st.text(max_size=2), max_size=5)
    | st.just({})
)
labels = st.sampled_from([0, 1, True, False, -1.0, 1.0, "1", "-1"])
weights = st.just(1.0) | st.floats(0, 5)


@given(
    rows=st.lists(st.tuples(feature_dicts, labels, weights), min_size=1, max_size=12),
    size=st.integers(1, 5),
)
def test_round_trip_of_any_examples(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], size: int
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.rows"
    convert([(x, y, {"w": w}) for x, y, w in rows], path)
    read = list(read_reference(path))
    assert [x for _, x, *_ in read] == [model_features(x) for x, _, _ in rows]
    assert [(y, w) for _, _, y, w, _ in read] == [(y, w) for _, y, w in rows]
    assert [place for place, *_ in read] == [f"examples:{k + 1}" for k in range(len(rows))]
    source, n = open_source(path), 0
    for block in source.blocks(size, fail):
        assert len(block) <= size and block.after(len(block)) == {"example": n + len(block)}
        for row in range(len(block)):
            place, x, y, w, _ = read[n + row]
            fields = (block.place(row), block.x[row], block.y[row])
            assert fields == (place, x, y) and w == (1.0 if block.w is None else block.w[row])
        n += len(block)
    assert n == len(rows)


@given(st.lists(st.tuples(feature_dicts, st.booleans()), min_size=1, max_size=20))
def test_model_trains_the_same_from_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("same") / "a.rows"
    convert(rows, path)
    from_file, from_memory = make_model(), make_model()
    progressive(from_file, path)
    progressive(from_memory, rows)
    assert from_file.weights == from_memory.weights and from_file.intercept == from_memory.intercept


text_dicts = st.dictionaries(st.text("ab=^ x", max_size=4), feature_values, max_size=5)


@given(st.lists(st.tuples(text_dicts, st.booleans()), min_size=1, max_size=20))
def test_interactions_are_the_same_from_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any]
) -> None:
    path = tmp_path_factory.mktemp("same") / "a.rows"
    crossed = [({**x, "site": f"s{i % 3}", "ad": f"a{i % 4}"}, y) for i, (x, y) in enumerate(rows)]
    convert(crossed, path)
    from_file, from_memory = (make_model(cross=[("site", "ad")]) for _ in range(2))
    progressive(from_file, path)
    progressive(from_memory, crossed)
    assert from_file.weights == from_memory.weights
    assert len(rows) < 12 or "site=s2 x ad=a3" in from_file._state.vocabulary.names()


@pytest.mark.parametrize("kind", ["csr", "dense", "dicts", "pandas", "polars"])
def test_convert_matrices_and_frames(tmp_path: Path, kind: str) -> None:
    """`convert` takes everything that `progressive` takes, such as matrices and frames."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(9_000, 4)) * (rng.random((9_000, 4)) < 0.7)
    y, w = rng.random(9_000) < 0.4, rng.random(9_000)
    columns = {f"c{j}": X[:, j] for j in range(4)} | {"site": np.where(X[:, 0] > 0, "a", "b")}
    x: Any = {
        "csr": lambda: csr_matrix(X),
        "dense": lambda: X,
        "dicts": lambda: [{f"c{j}": v for j, v in enumerate(row)} for row in X.tolist()],
        "pandas": lambda: pd.DataFrame(columns),
        "polars": lambda: pl.DataFrame(columns),
    }[kind]()
    from_memory, from_file = (streaml1.ElasticNetClassifier(l1=1e-3) for _ in range(2))
    report = streaml1.progressive(from_memory, (x, y, w))
    assert convert((x, y, w), tmp_path / "x.rows").rows == 9_000
    file_report = streaml1.progressive(from_file, str(tmp_path / "x.rows"))
    assert from_file.weights == from_memory.weights and file_report.loss == report.loss


def test_invalid_row_of_a_matrix_is_rejected(tmp_path: Path) -> None:
    X = np.ones((5, 2))
    X[3, 1] = np.nan
    with pytest.raises(BadExample, match="rows:4"):
        convert((X, [0, 1, 0, 1, 1]), tmp_path / "x.rows")
    result = convert((X, [0, 1, 0, 1, 1]), tmp_path / "x.rows", bad="skip")
    assert (result.rows, result.rejected) == (4, 1)


def test_too_many_bytes_of_names_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaml1.sources.row_cache.writer.MAX_NAME_BYTES", 40)
    with pytest.raises(SourceError, match="less than 4 GiB of names; convert the source in p"):
        convert([({f"a name {j}": 1.0 for j in range(9)}, True)], tmp_path / "a.rows")
    assert not (tmp_path / "a.rows").exists()


def random_examples(n: int = 60) -> list[Any]:
    rng = np.random.default_rng(5)
    names = [f"w{j}" for j in range(30)]
    return [
        ({names[j]: float(v) for j, v in zip(rng.integers(0, 30, 4), rng.random(4), strict=True)},
         bool(rng.random() < 0.4))
        for _ in range(n)
    ]  # fmt: skip


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make blocks small, so that a small file has many of them."""
    monkeypatch.setattr("streaml1.sources.row_cache.block.MAX_FEATURES", 30)


def test_large_blocks_are_split(tmp_path: Path, small_blocks: None) -> None:
    long_example = ({f"x{k}": 1.0 for k in range(100)}, True)
    rows = [*random_examples(20), long_example, *random_examples(5)]
    convert(rows, tmp_path / "a.rows")
    sizes = [len(block) for block in open_source(tmp_path / "a.rows").blocks(1000, fail)]
    assert sum(sizes) == 26 and 1 in sizes and max(sizes) < 12
    assert [x for _, x, *_ in read_reference(tmp_path / "a.rows")] == [
        model_features(x) for x, _ in rows
    ]


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("name", FILES)
def test_small_blocks_are_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: int
) -> None:
    """The size of the source's blocks does not matter; some have weights, ids and text labels."""
    content, options = FILES[name]
    header, lines = ("", content) if not name.endswith(".csv") else content.split("\n", 1)
    (tmp_path / name).write_text((f"{header}\n" if header else "") + 12 * lines)
    # The package attribute `convert` is the function, so import the module by name.
    monkeypatch.setattr(import_module("streaml1.training.conversion"), "BLOCK_ROWS", size)
    convert(tmp_path / name, tmp_path / "a.rows", **options)
    rows = examples(tmp_path / name, **options)
    expected = [(place, model_features(x), y, w, example_id) for place, x, y, w, example_id in rows]
    assert list(read_reference(tmp_path / "a.rows")) == expected
    blocks = len([*open_source(tmp_path / "a.rows").blocks(10**6, fail)])
    assert blocks == 1


@pytest.mark.parametrize("n", [0, 1, 7, 30, 59, 60])
def test_reading_starts_at_any_example(tmp_path: Path, small_blocks: None, n: int) -> None:
    convert(random_examples(), tmp_path / "a.rows")
    source = open_source(tmp_path / "a.rows")
    expected = examples(tmp_path / "a.rows")
    source.begin({"example": n})  # type: ignore[attr-defined]
    places = [b.place(k) for b in source.blocks(4, fail) for k in range(len(b))]
    assert places == [row[0] for row in expected[n:]]
    second_pass = [b.place(k) for b in source.blocks(4, fail) for k in range(len(b))]
    assert second_pass == [row[0] for row in expected]


def test_run_resumes_from_a_checkpoint(tmp_path: Path, small_blocks: None) -> None:
    path = tmp_path / "a.rows"
    convert(random_examples(), path)
    uninterrupted, resumed = make_model(), make_model()
    progressive(uninterrupted, path, passes=2, holdout=0)
    for limit in (13, 41, None):
        passes = 2 if limit is None else 1
        progressive(resumed, path, passes=passes, limit=limit, checkpoint=tmp_path / "checkpoints")
        if limit is not None:
            assert resumed.weights != uninterrupted.weights
    assert (resumed.weights, resumed.intercept) == (uninterrupted.weights, uninterrupted.intercept)
    convert(random_examples(61), path)
    with pytest.raises(CheckpointError, match="belongs to another source: its sha256 is"):
        progressive(make_model(), path, checkpoint=tmp_path / "checkpoints")


def test_prediction_without_labels(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("1 1:2\n2:1\n")
    with pytest.raises(BadExample, match="a.svm:2: the line has no label"):
        convert(tmp_path / "a.svm", tmp_path / "a.rows")
    assert not (tmp_path / "a.rows").exists()
    convert(tmp_path / "a.svm", tmp_path / "a.rows", require_label=False)
    model = make_model()
    model.learn_one({2: 1.0}, True)
    predicted = list(predictions(model, tmp_path / "a.rows"))
    expected = list(predictions(model, tmp_path / "a.svm"))
    assert predicted == expected and [prediction.line for prediction in predicted] == [1, 2]
    with pytest.raises(BadExample, match="a.svm:2: the label is missing"):
        progressive(make_model(), tmp_path / "a.rows")


def test_rejected_examples_are_left_out(tmp_path: Path) -> None:
    rows = [({"a": 1.0}, True), ({"a": float("inf")}, True), ({"a": 1.0, 2: 1.0}, False),
            ({"b": 1.0}, [1]), ({"b": 2.0}, False)]  # fmt: skip
    for stop in (2, 3, 4):
        with pytest.raises(BadExample, match=f"examples:{stop}: "):
            convert([rows[0], *[({}, 1)] * (stop - 2), rows[stop - 1]], tmp_path / "a.rows")
    assert list(tmp_path.iterdir()) == []
    result = convert(rows, tmp_path / "a.rows", bad="skip")
    assert (result.rows, result.rejected) == (2, 3)
    assert [place for place, *_ in read_reference(tmp_path / "a.rows")] == [
        "examples:1",
        "examples:5",
    ]
    copied = convert(tmp_path / "a.rows", tmp_path / "b.rows")
    assert copied.rows == 2
    original, copy = (read_reference(tmp_path / name) for name in ("a.rows", "b.rows"))
    assert [row[1:] for row in original] == [row[1:] for row in copy]
    (tmp_path / "a.vw").write_text("1 | a\n1 | b:0x\n-1 | c\n1 | d\n")
    result = convert(tmp_path / "a.vw", tmp_path / "c.rows", bad="skip", limit=2)
    assert (result.rows, result.rejected) == (2, 1)
    progressive(make_model(), tmp_path / "c.rows")


@pytest.mark.parametrize("limit", [1, 3, 4])
def test_limit_counts_written_examples(tmp_path: Path, limit: int) -> None:
    rows = [({"a": k + 1.0} if k % 3 else {"a": float("inf")}, True) for k in range(9)]
    result = convert(rows, tmp_path / "a.rows", bad="skip", limit=limit)
    assert result.rows == limit == len(list(read_reference(tmp_path / "a.rows")))


def test_large_value_is_reported_at_its_text_line(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("1 1:2\n-1 2:1e60\n")
    convert(tmp_path / "a.svm", tmp_path / "a.rows")
    for path in (tmp_path / "a.svm", tmp_path / "a.rows"):
        with pytest.raises(BadExample, match=r"a\.svm:2: .*1e\+60"):
            progressive(make_model(), path)


class Placed(Block):
    """A block whose places do not follow from its line numbers, as for Kafka topics."""

    def place(self, row: int) -> str:
        return f"clicks/0@{self.lines[row] + 6}"


def test_places_without_line_numbers(tmp_path: Path) -> None:
    class Topic:
        name = "river:clicks"

        def blocks(self, size: int, reject: Any) -> Iterator[Block]:
            yield Placed(
                [{"a": 1.0}, {"b": 1e60}, {"c": 1.0}], [1, 0, 2], None, "clicks", [1, 2, 4]
            )

    result = convert(Topic(), tmp_path / "a.rows", bad="skip")
    assert (result.rows, result.rejected) == (2, 1)
    expected = ["clicks/0@7", "clicks/0@10"]
    for path in (tmp_path / "a.rows", tmp_path / "b.rows"):
        assert (
            [row[0] for row in read_reference(path)]
            == [row[0] for row in examples(path)]
            == expected
        )
        with pytest.raises(BadExample, match="clicks/0@10: invalid label 2"):
            progressive(make_model(), path)
        convert(path, tmp_path / "b.rows")


def test_text_labels(tmp_path: Path) -> None:
    (tmp_path / "a.vw").write_text("news | a b\nmail | b\n3 | c\nnews | a\n")
    convert(tmp_path / "a.vw", tmp_path / "a.rows")
    models = [streaml1.SoftmaxClassifier() for _ in range(2)]
    for model, name in zip(models, ("a.vw", "a.rows"), strict=True):
        progressive(model, tmp_path / name, passes=2)
    assert models[0].classes_met == models[1].classes_met == ["news", "mail", 3]
    assert models[0].weights == models[1].weights


# Damaged and foreign files


@pytest.fixture
def rows_file_regions(tmp_path: Path, small_blocks: None) -> tuple[Path, list[tuple[int, int]]]:
    """Return a file of several blocks with weights and ids, and the byte ranges of its regions."""
    path = tmp_path / "a.rows"
    (tmp_path / "a.jsonl").write_text(JSON * 12)
    convert(tmp_path / "a.jsonl", path)
    source = open_source(path)
    raw = path.read_bytes()
    regions = [(0, 8), (8, 12), (12, 16), (16, 24), (24, 32), (32, 64)]
    regions += [(start, start + n) for start, n, *_ in source._parts.tolist() if n]  # type: ignore[attr-defined]
    regions += [(regions[-1][1], len(raw))]
    assert len(regions) >= 11 and [a for a, _ in regions[1:]] == [b for _, b in regions[:-1]]
    return path, regions


def read_all(path: Path) -> None:
    source = open_source(path)
    for block in source.blocks(1000, fail):
        list(block.x)
    source._file_names().lookup(np.zeros(1, np.int64))  # type: ignore[attr-defined]


def test_truncated_files_are_rejected(rows_file_regions: Any) -> None:
    path, regions = rows_file_regions
    raw = path.read_bytes()
    for lo, hi in regions:
        for n in {lo, lo + 1, (lo + hi) // 2, hi - 1}:
            path.write_bytes(raw[:n])
            with pytest.raises(SourceError) as error:
                read_all(path)
            assert ("is truncated" if n else "is not a .rows file") in str(error.value)
            assert str(error.value).startswith(str(path))


def test_flipped_bits_are_detected(rows_file_regions: Any) -> None:
    path, regions = rows_file_regions
    raw = path.read_bytes()
    read_all(path)
    for lo, hi in regions:
        for pos in {lo, (lo + hi) // 2, hi - 1}:
            for mask in (1, 128):
                damaged = bytearray(raw)
                damaged[pos] ^= mask
                path.write_bytes(damaged)
                with pytest.raises(SourceError, match=r"streaml1\.training\.convert"):
                    read_all(path)


def test_checksums_are_verified_once_per_file_version(
    rows_file_regions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, regions = rows_file_regions
    checks: list[int] = []
    monkeypatch.setattr(rows_file, "checksum", lambda raw: checks.append(1) or checksum(raw))
    source = open_source(path)
    list(source.blocks(1000, fail))
    n = len(checks)
    assert n == len(source._parts) - 2  # all but the text of the names
    list(source.blocks(1000, fail))
    assert len(checks) == n
    lo, hi = regions[6]  # a block
    with open(path, "r+b") as file:
        file.seek((lo + hi) // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(0, 0))  # regardless of the file system's clock
    with pytest.raises(Lost, match="is damaged"):
        list(source.blocks(1000, fail))


def test_file_truncated_during_reading(rows_file_regions: Any) -> None:
    path, regions = rows_file_regions
    blocks = open_source(path).blocks(1000, fail)
    next(blocks)
    with open(path, "r+b") as file:
        file.truncate(regions[7][0])
    with pytest.raises(Lost, match="is truncated: it has"):
        list(blocks)


def test_file_replaced_between_passes(tmp_path: Path) -> None:
    convert(random_examples(5), tmp_path / "a.rows")
    source = open_source(tmp_path / "a.rows")
    convert(random_examples(6), tmp_path / "a.rows")
    with pytest.raises(Lost, match="was replaced"):
        next(source.blocks(10, fail))


def test_inconsistent_fields_with_valid_checksums_are_rejected(rows_file_regions: Any) -> None:
    """Fields are validated even if the checksum is right: kernels must not read out of bounds."""
    path, _ = rows_file_regions
    source: Any = open_source(path)
    for field, delta in ((1, 2), (0, 5), (2, 1)):
        raw = source._read_part(0).copy()
        raw.view(np.uint64)[field] += delta
        with pytest.raises(Lost, match="is damaged"):
            source._decode_block(raw, 0, 0)
    (path.parent / "a.vw").write_text("1 | a b\n-1 | c\n")
    convert(path.parent / "a.vw", path)
    source = open_source(path)
    # Nine header fields and two labels precede three row pointers and three name ids.
    for field_index, invalid in ((11, 1), (12, -1), (12, 4), (13, 2**40), (14, 2**40 + 1)):
        raw = source._read_part(0).copy()
        raw.view(np.int64)[field_index] = invalid
        with pytest.raises(Lost, match="rows or names are inconsistent"):
            source._decode_block(raw, 0, 0)


def test_foreign_files_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "a.rows").write_text(VW)
    with pytest.raises(SourceError, match="is not a .rows file; create it again"):
        open_source(tmp_path / "a.rows")
    convert(random_examples(3), tmp_path / "b.rows")
    raw = bytearray((tmp_path / "b.rows").read_bytes())
    raw[8:12] = (VERSION + 1).to_bytes(4, "little")
    (tmp_path / "b.rows").write_bytes(raw)
    with pytest.raises(
        SourceError, match="has version 2 of the .rows format, and this streaml1 reads"
    ):
        open_source(tmp_path / "b.rows")
    with pytest.raises(SourceError, match="must be an uncompressed file on a disk"):
        open_source("-", format="rows")
    (tmp_path / "c.rows.gz").write_bytes(b"")
    with pytest.raises(SourceError, match="uncompressed file on a disk"):
        open_source(tmp_path / "c.rows.gz")
    assert HEADER.size == 64


def test_output_appears_atomically(tmp_path: Path) -> None:
    (tmp_path / "a.rows").write_text("old")

    def stream() -> Iterator[Any]:
        yield {"a": 1.0}, True
        assert [path.name for path in tmp_path.iterdir()] != ["a.rows"]
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        convert(stream(), tmp_path / "a.rows")
    assert [path.name for path in tmp_path.iterdir()] == ["a.rows"]
    assert (tmp_path / "a.rows").read_text() == "old"


def test_source_without_examples_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Includes `zcat missing.gz | streaml1 convert - day.rows`, whose input is empty."""
    monkeypatch.chdir(tmp_path)
    Path("day.rows").write_bytes(b"old")
    Path("bad.vw").write_text("spam\n")
    for source, options, text, message in (
        ("-", ["--format", "vw"], "", "- has no example to convert; day.rows is not written"),
        ("bad.vw", ["--bad", "skip"], None, "bad.vw has no example to convert (1 rejected); day."),
    ):
        result = CliRunner().invoke(cli, ["convert", source, "day.rows", *options], input=text)
        assert result.exit_code == 2 and f"streaml1: {message}" in result.stderr
    with pytest.raises(SourceError, match="examples has no example to convert"):
        convert([], "day.rows")
    assert {p.name for p in Path().iterdir()} == {"day.rows", "bad.vw"}
    assert Path("day.rows").read_bytes() == b"old"


# Command line


def test_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.vw").write_text(VW)
    run = CliRunner().invoke
    result = run(cli, ["convert", "a.vw", "a.rows"])
    assert result.exit_code == 0
    assert result.output.splitlines()[0].startswith("4 examples, 7 non-zeros, 6 names, 0.0 MB")
    from_stdin = run(cli, ["convert", "-", "b.rows", "--format", "vw"], input=VW)
    assert from_stdin.exit_code == 0
    first = [replace_name(example) for example in read_reference(Path("a.rows"))]
    assert first == [replace_name(example) for example in read_reference(Path("b.rows"))]
    outputs = [run(cli, ["learn", name, "--passes", "2", "--save", f"{name}.m"]).output
              for name in ("a.vw", "a.rows")]  # fmt: skip
    assert Path("a.vw.m").read_bytes() == Path("a.rows.m").read_bytes()
    closing = [text[text.index("\nexamples  ") : text.index("\nmodel: ")] for text in outputs]
    assert closing[0] == closing[1]
    predicted = [
        run(cli, ["predict", "a.vw.m", name, "--json"]).output for name in ("a.vw", "a.rows")
    ]
    assert predicted[0] == predicted[1] and '"line": 1' in predicted[0]
    for arguments, sentence in (
        (["a.vw", "a.txt"], "the output file must end in .rows, got a.txt"),
        (["a.rows", "a.rows"], "is also SOURCE"),
        (["a.vw", "none/a.rows"], "there is no such directory"),
        (["a.vw", "a.rows", "--bad", "dead-letter"], "is not one of 'fail', 'skip'"),
        (["none.vw", "a.rows"], "there is no such file"),
    ):
        rejected = run(cli, ["convert", *arguments])
        assert rejected.exit_code == 2 and sentence in rejected.stderr
    assert "Example: " in run(cli, ["convert", "--help"]).output


def replace_name(example: tuple[Any, ...]) -> tuple[Any, ...]:
    return (example[0].rpartition(":")[2], *example[1:])


def test_docs_describe_every_option() -> None:
    page = (Path(__file__).parent.parent / "docs" / "convert.md").read_text()
    for parameter in cli.commands["convert"].params:
        for option in (name for name in parameter.opts if name.startswith("--")):
            assert f"`{option}" in page or option.startswith("--kafka"), option


def test_models_with_raw_text_reject_rows(tmp_path: Path) -> None:
    text = tmp_path / "a.jsonl"
    text.write_text('{"x": {"m": "a b"}, "y": 1}\n{"x": {"m": "c"}, "y": 0}\n' * 9)
    rows, saved = tmp_path / "a.rows", tmp_path / "model"
    for args in (
        ("learn", str(text), "--text", "m", "--save", str(saved)),
        ("convert", str(text), str(rows)),
    ):
        assert CliRunner().invoke(cli, args).exit_code == 0
    message = "text features need CSV, JSON lines or VW, got"
    for args in (
        ("learn", str(rows), "--load", str(saved)),
        ("learn", str(rows), "--text", "m"),
        ("predict", str(saved), str(rows)),
    ):
        result = CliRunner().invoke(cli, args)
        assert result.exit_code == 2 and message in result.stderr
