"""Files of rows: what is read from them is what was converted; torn ones are told."""

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


def plain_rows(path: Path) -> Iterator[tuple[str, dict[Any, float], Any, float, Any]]:
    """The place, features, label, weight and id of each example: the form read byte by byte."""
    raw = path.read_bytes()
    mark, version, zero, at, n, digest = struct.unpack("<8sIIQQ32s", raw[:64])
    assert (mark, version, zero) == (b"\x89rows1\r\n", 1, 0)
    assert hashlib.sha256(raw[at : at + n]).digest() == digest
    (length,) = struct.unpack_from("<Q", raw, at)
    about = json.loads(raw[at + 8 : at + 8 + length])
    table = at + 8 + (length + 7) // 8 * 8
    parts = [struct.unpack_from("<4Q", raw, k) for k in range(table, at + n, 32)]
    (ends_at, ends_n), (text_at, _) = parts[-2][:2], parts[-1][:2]
    ends = [0, *struct.unpack_from(f"<{ends_n // 8}Q", raw, ends_at)]
    spans = zip(ends[:-1], ends[1:], strict=True)
    names = [raw[text_at + a : text_at + b].decode() for a, b in spans]
    for place, _, rows, _ in parts[:-3]:
        head = struct.unpack_from("<9Q", raw, place)
        count, k, kind, valued, weighted, _, line, labels, extra = head
        assert count == rows
        here = place + 72

        def take(code: str, m: int) -> Any:
            nonlocal here
            got = struct.unpack_from(f"<{m}{code}", raw, here)
            here += (struct.calcsize(f"<{m}{code}") + 7) // 8 * 8
            return list(got)

        y = json.loads(bytes(take("B", labels))) if labels else take("d", count)
        w = take("d", count) if weighted else [1.0] * count
        pointers = take("q", count + 1)
        lines = list(range(line, line + count)) if line else take("q", count)
        values = take("d", k) if valued else [1.0] * k
        ids = take("q" if kind == 1 else "I", k)
        told = json.loads(bytes(take("B", extra))) if extra else {}
        places = told.get("places") or [f"{about['source']}:{one}" for one in lines]
        known = told.get("ids") or [None] * count
        for row in range(count):
            x: dict[Any, float] = {}
            for j in range(pointers[row], pointers[row + 1]):
                name = names[ids[j]] if kind == 2 else ids[j]
                x[name] = x.get(name, 0.0) + values[j]
            yield places[row], x, y[row], w[row], known[row]


def examples(spec: Any, **options: Any) -> list[tuple[Any, ...]]:
    """The same of any source, by its own reader."""
    found = []
    for block in open_source(spec, **options).blocks(3, fail):
        for row in range(len(block)):
            w = 1.0 if block.w is None else block.w[row]
            known = None if block.ids is None else block.ids[row]
            found.append((block.place(row), dict(block.x[row]), block.y[row], w, known))
    return found


def fail(place: str, reason: str, *_: Any) -> None:
    raise AssertionError(f"{place}: {reason}")


def joined(x: dict[Any, Any]) -> dict[Any, float]:
    """Features as models take them."""
    plain: dict[Any, float] = {}
    for name, v in x.items():
        if v is not None:
            name, v = (f"{name}={v}", 1.0) if isinstance(v, str) else (name, float(v))
            plain[name] = plain.get(name, 0.0) + v
    return {name: v for name, v in plain.items() if v}


FILES = {
    "a.vw": (VW, {}),
    "a.svm": (SVM, {}),
    "wide.svm": (WIDE, {}),
    "a.jsonl": (JSON, {}),
    "a.csv": (CSV, {"target": "clicked", "categorical": ["site"], "weight": "w"}),
}


def state(model: Any) -> Any:
    return model.weights, list(model.weights), model.intercept, model.n_features_seen


def net(**options: Any) -> streaml1.ElasticNetClassifier:
    return streaml1.ElasticNetClassifier(l1=1e-3, l2=1e-3, lr=0.3, **options)


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_each_format(tmp_path: Path, name: str) -> None:
    text, options = FILES[name]
    path = tmp_path / name
    path.write_text(text)
    done = convert(path, tmp_path / "a.rows", **options)
    expected = [(p, joined(x), y, w, i) for p, x, y, w, i in examples(path, **options)]
    for found in (plain_rows(tmp_path / "a.rows"), iter(examples(tmp_path / "a.rows"))):
        assert [(p, joined(x), y, w, i) for p, x, y, w, i in found] == expected
    about = open_source(tmp_path / "a.rows").about
    kind = {"vw": "vw", "svm": "svmlight", "jsonl": "jsonl", "csv": "csv"}[name.split(".")[1]]
    assert about["format"] == kind and about["source"] == str(path)
    assert done.rows == len(expected) == about["rows"] and done.rejected == 0
    assert done.size == (tmp_path / "a.rows").stat().st_size
    names = {name for _, x, *_ in expected for name in x if isinstance(name, str)}
    assert names <= set(_names(tmp_path / "a.rows")) and done.names - len(names) in (0, 1)
    for options in ({}, {"hash_bits": 3}, {"lr": "auto"}) if name != "wide.svm" else ({},):
        models = [streaml1.ElasticNetClassifier(l1=1e-3, **options) for _ in range(2)]
        reports = [
            progressive(one, spec, passes=3, every=2, **(FILES[name][1] if spec == path else {}))
            for one, spec in zip(models, (path, tmp_path / "a.rows"), strict=True)
        ]
        assert state(models[0]) == state(models[1])
        told = [[(line.loss, line.recent_loss) for line in report.lines] for report in reports]
        assert told[0] == told[1]


def _names(path: Path) -> list[str]:
    source = open_source(path)
    return source._file_names().lookup(np.arange(source.about["names"]))  # type: ignore[attr-defined]


ints = st.integers(-(2**63), 2**63 - 1) | st.integers(0, 9)
values = st.floats(-9, 9) | st.integers(-3, 3) | st.none() | st.booleans()
dicts = (
    st.dictionaries(ints, values, max_size=4)
    | st.dictionaries(st.text(max_size=3), values | st.text(max_size=2), max_size=5)
    | st.just({})
)
labels = st.sampled_from([0, 1, True, False, -1.0, 1.0, "1", "-1"])
weights = st.just(1.0) | st.floats(0, 5)


@given(
    rows=st.lists(st.tuples(dicts, labels, weights), min_size=1, max_size=12),
    size=st.integers(1, 5),
)
def test_any_examples_come_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], size: int
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.rows"
    convert([(x, y, {"w": w}) for x, y, w in rows], path)
    found = list(plain_rows(path))
    assert [x for _, x, *_ in found] == [joined(x) for x, _, _ in rows]
    assert [(y, w) for _, _, y, w, _ in found] == [(y, w) for _, y, w in rows]
    assert [place for place, *_ in found] == [f"examples:{k + 1}" for k in range(len(rows))]
    source, n = open_source(path), 0
    for block in source.blocks(size, fail):
        assert len(block) <= size and block.after(len(block)) == {"example": n + len(block)}
        for row in range(len(block)):
            place, x, y, w, _ = found[n + row]
            told = (block.place(row), block.x[row], block.y[row])
            assert told == (place, x, y) and w == (1.0 if block.w is None else block.w[row])
        n += len(block)
    assert n == len(rows)


@given(st.lists(st.tuples(dicts, st.booleans()), min_size=1, max_size=20))
def test_a_model_learns_the_same(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    path = tmp_path_factory.mktemp("same") / "a.rows"
    convert(rows, path)
    kept, given_ = net(), net()
    progressive(kept, path)
    progressive(given_, rows)
    assert kept.weights == given_.weights and kept.intercept == given_.intercept


words = st.dictionaries(st.text("ab=^ x", max_size=4), values, max_size=5)


@given(st.lists(st.tuples(words, st.booleans()), min_size=1, max_size=20))
def test_crosses_are_the_same(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    path = tmp_path_factory.mktemp("same") / "a.rows"
    sites = [({**x, "site": f"s{i % 3}", "ad": f"a{i % 4}"}, y) for i, (x, y) in enumerate(rows)]
    convert(sites, path)
    kept, given_ = (net(cross=[("site", "ad")]) for _ in range(2))
    progressive(kept, path)
    progressive(given_, sites)
    assert kept.weights == given_.weights
    assert len(rows) < 12 or "site=s2 x ad=a3" in kept._engine.vocabulary.names()


@pytest.mark.parametrize("kind", ["csr", "dense", "dicts", "pandas", "polars"])
def test_rows_beside_labels(tmp_path: Path, kind: str) -> None:
    """What `progressive` takes, such as matrices and frames, `convert` takes too."""
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
    given, kept = (streaml1.ElasticNetClassifier(l1=1e-3) for _ in range(2))
    report = streaml1.progressive(given, (x, y, w))
    assert convert((x, y, w), tmp_path / "x.rows").rows == 9_000
    again = streaml1.progressive(kept, str(tmp_path / "x.rows"))
    assert kept.weights == given.weights and again.loss == report.loss


def test_a_row_of_a_matrix_that_is_refused(tmp_path: Path) -> None:
    X = np.ones((5, 2))
    X[3, 1] = np.nan
    with pytest.raises(BadExample, match="rows:4"):
        convert((X, [0, 1, 0, 1, 1]), tmp_path / "x.rows")
    told = convert((X, [0, 1, 0, 1, 1]), tmp_path / "x.rows", bad="skip")
    assert (told.rows, told.rejected) == (4, 1)


def test_names_that_are_too_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaml1.sources.row_cache.writer.MAX_NAME_BYTES", 40)
    with pytest.raises(SourceError, match="less than 4 GiB of names; convert the source in p"):
        convert([({f"a name {j}": 1.0 for j in range(9)}, True)], tmp_path / "a.rows")
    assert not (tmp_path / "a.rows").exists()


def many(n: int = 60) -> list[Any]:
    rng = np.random.default_rng(5)
    words = [f"w{j}" for j in range(30)]
    return [
        ({words[j]: float(v) for j, v in zip(rng.integers(0, 30, 4), rng.random(4), strict=True)},
         bool(rng.random() < 0.4))
        for _ in range(n)
    ]  # fmt: skip


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few rows, as large files have many of."""
    monkeypatch.setattr("streaml1.sources.row_cache.block.MAX_FEATURES", 30)


def test_blocks_are_cut_where_they_are_large(tmp_path: Path, small_blocks: None) -> None:
    long = ({f"x{k}": 1.0 for k in range(100)}, True)
    rows = [*many(20), long, *many(5)]
    convert(rows, tmp_path / "a.rows")
    sizes = [len(one) for one in open_source(tmp_path / "a.rows").blocks(1000, fail)]
    assert sum(sizes) == 26 and 1 in sizes and max(sizes) < 12
    assert [x for _, x, *_ in plain_rows(tmp_path / "a.rows")] == [joined(x) for x, _ in rows]


@pytest.mark.parametrize("size", [1, 3, 7])
@pytest.mark.parametrize("name", FILES)
def test_small_blocks_are_gathered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: int
) -> None:
    """Whatever a source gives at a time, with weights, ids and labels of text in some."""
    content, options = FILES[name]
    head, lines = ("", content) if not name.endswith(".csv") else content.split("\n", 1)
    (tmp_path / name).write_text((f"{head}\n" if head else "") + 12 * lines)
    # The function of the same name hides the module in the package.
    monkeypatch.setattr(import_module("streaml1.training.convert"), "BLOCK_ROWS", size)
    convert(tmp_path / name, tmp_path / "a.rows", **options)
    read = examples(tmp_path / name, **options)
    expected = [(place, joined(x), y, w, known) for place, x, y, w, known in read]
    assert list(plain_rows(tmp_path / "a.rows")) == expected
    blocks = len([*open_source(tmp_path / "a.rows").blocks(10**6, fail)])
    assert blocks == 1


@pytest.mark.parametrize("n", [0, 1, 7, 30, 59, 60])
def test_the_reading_begins_anywhere(tmp_path: Path, small_blocks: None, n: int) -> None:
    convert(many(), tmp_path / "a.rows")
    source = open_source(tmp_path / "a.rows")
    expected = examples(tmp_path / "a.rows")
    source.begin({"example": n})  # type: ignore[attr-defined]
    places = [b.place(k) for b in source.blocks(4, fail) for k in range(len(b))]
    assert places == [one[0] for one in expected[n:]]
    again = [b.place(k) for b in source.blocks(4, fail) for k in range(len(b))]
    assert again == [one[0] for one in expected]


def test_a_run_goes_on_from_a_checkpoint(tmp_path: Path, small_blocks: None) -> None:
    path = tmp_path / "a.rows"
    convert(many(), path)
    whole, one = net(), net()
    progressive(whole, path, passes=2)
    for limit in (13, 41, None):
        passes = 2 if limit is None else 1
        progressive(one, path, passes=passes, limit=limit, checkpoint=tmp_path / "kept")
        if limit is not None:
            assert one.weights != whole.weights
    assert (one.weights, one.intercept) == (whole.weights, whole.intercept)
    convert(many(61), path)
    with pytest.raises(CheckpointError, match="belongs to another source: its sha256 is"):
        progressive(net(), path, checkpoint=tmp_path / "kept")


def test_predicting_needs_no_labels(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("1 1:2\n2:1\n")
    with pytest.raises(BadExample, match="a.svm:2: the line has no label"):
        convert(tmp_path / "a.svm", tmp_path / "a.rows")
    assert not (tmp_path / "a.rows").exists()
    convert(tmp_path / "a.svm", tmp_path / "a.rows", require_label=False)
    model = net()
    model.learn_one({2: 1.0}, True)
    found = list(predictions(model, tmp_path / "a.rows"))
    expected = list(predictions(model, tmp_path / "a.svm"))
    assert found == expected and [one.line for one in found] == [1, 2]
    with pytest.raises(BadExample, match="a.svm:2: the label is missing"):
        progressive(net(), tmp_path / "a.rows")


def test_what_is_refused_is_left_out(tmp_path: Path) -> None:
    rows = [({"a": 1.0}, True), ({"a": float("nan")}, True), ({"a": 1.0, 2: 1.0}, False),
            ({"b": 1.0}, [1]), ({"b": 2.0}, False)]  # fmt: skip
    for stop in (2, 3, 4):
        with pytest.raises(BadExample, match=f"examples:{stop}: "):
            convert([rows[0], *[({}, 1)] * (stop - 2), rows[stop - 1]], tmp_path / "a.rows")
    assert list(tmp_path.iterdir()) == []
    done = convert(rows, tmp_path / "a.rows", bad="skip")
    assert (done.rows, done.rejected) == (2, 3)
    assert [place for place, *_ in plain_rows(tmp_path / "a.rows")] == ["examples:1", "examples:5"]
    again = convert(tmp_path / "a.rows", tmp_path / "b.rows")
    assert again.rows == 2
    first, second = (plain_rows(tmp_path / name) for name in ("a.rows", "b.rows"))
    assert [one[1:] for one in first] == [one[1:] for one in second]
    (tmp_path / "a.vw").write_text("1 | a\n1 | b:x\n-1 | c\n1 | d\n")
    done = convert(tmp_path / "a.vw", tmp_path / "c.rows", bad="skip", limit=2)
    assert (done.rows, done.rejected) == (2, 1)
    progressive(net(), tmp_path / "c.rows")


@pytest.mark.parametrize("limit", [1, 3, 4])
def test_a_limit_is_of_examples_written(tmp_path: Path, limit: int) -> None:
    rows = [({"a": k + 1.0} if k % 3 else {"a": float("inf")}, True) for k in range(9)]
    done = convert(rows, tmp_path / "a.rows", bad="skip", limit=limit)
    assert done.rows == limit == len(list(plain_rows(tmp_path / "a.rows")))


def test_a_large_value_is_refused_where_the_text_is(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("1 1:2\n-1 2:1e60\n")
    convert(tmp_path / "a.svm", tmp_path / "a.rows")
    for path in (tmp_path / "a.svm", tmp_path / "a.rows"):
        with pytest.raises(BadExample, match=r"a\.svm:2: .*1e\+60"):
            progressive(net(), path)


class Placed(Block):
    """A block whose lines do not tell where its examples were, as those of topics."""

    def place(self, row: int) -> str:
        return f"clicks/0@{self.lines[row] + 6}"


def test_places_that_no_line_tells(tmp_path: Path) -> None:
    class Topic:
        name = "river:clicks"

        def blocks(self, size: int, refuse: Any) -> Iterator[Block]:
            yield Placed(
                [{"a": 1.0}, {"b": 1e60}, {"c": 1.0}], [1, 0, 2], None, "clicks", [1, 2, 4]
            )

    done = convert(Topic(), tmp_path / "a.rows", bad="skip")
    assert (done.rows, done.rejected) == (2, 1)
    expected = ["clicks/0@7", "clicks/0@10"]
    for path in (tmp_path / "a.rows", tmp_path / "b.rows"):
        assert (
            [one[0] for one in plain_rows(path)] == [one[0] for one in examples(path)] == expected
        )
        with pytest.raises(BadExample, match="clicks/0@10: invalid label 2"):
            progressive(net(), path)
        convert(path, tmp_path / "b.rows")


def test_labels_that_are_texts(tmp_path: Path) -> None:
    (tmp_path / "a.vw").write_text("news | a b\nmail | b\n3 | c\nnews | a\n")
    convert(tmp_path / "a.vw", tmp_path / "a.rows")
    models = [streaml1.SoftmaxClassifier() for _ in range(2)]
    for one, name in zip(models, ("a.vw", "a.rows"), strict=True):
        progressive(one, tmp_path / name, passes=2)
    assert models[0].classes_met == models[1].classes_met == ["news", "mail", 3]
    assert models[0].weights == models[1].weights


# Torn and foreign files


@pytest.fixture
def kept(tmp_path: Path, small_blocks: None) -> tuple[Path, list[tuple[int, int]]]:
    """A file of several blocks, with weights and ids, and its regions."""
    path = tmp_path / "a.rows"
    (tmp_path / "a.jsonl").write_text(JSON * 12)
    convert(tmp_path / "a.jsonl", path)
    source = open_source(path)
    raw = path.read_bytes()
    regions = [(0, 8), (8, 12), (12, 16), (16, 24), (24, 32), (32, 64)]
    regions += [(at, at + n) for at, n, *_ in source._parts.tolist() if n]  # type: ignore[attr-defined]
    regions += [(regions[-1][1], len(raw))]
    assert len(regions) >= 11 and [a for a, _ in regions[1:]] == [b for _, b in regions[:-1]]
    return path, regions


def read_all(path: Path) -> None:
    source = open_source(path)
    for block in source.blocks(1000, fail):
        list(block.x)
    source._file_names().lookup(np.zeros(1, np.int64))  # type: ignore[attr-defined]


def test_a_file_cut_short_anywhere(kept: Any) -> None:
    path, regions = kept
    raw = path.read_bytes()
    for lo, hi in regions:
        for n in {lo, lo + 1, (lo + hi) // 2, hi - 1}:
            path.write_bytes(raw[:n])
            with pytest.raises(SourceError) as error:
                read_all(path)
            assert ("is truncated" if n else "is not a .rows file") in str(error.value)
            assert str(error.value).startswith(str(path))


def test_a_byte_that_is_another_is_told(kept: Any) -> None:
    path, regions = kept
    raw = path.read_bytes()
    read_all(path)
    for lo, hi in regions:
        for at in {lo, (lo + hi) // 2, hi - 1}:
            for bit in (1, 128):
                torn = bytearray(raw)
                torn[at] ^= bit
                path.write_bytes(torn)
                with pytest.raises(SourceError, match="streaml1 convert"):
                    read_all(path)


def test_sums_are_looked_at_once_and_when_the_file_has_changed(
    kept: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, regions = kept
    looks: list[int] = []
    monkeypatch.setattr(rows_file, "checksum", lambda raw: looks.append(1) or checksum(raw))
    source = open_source(path)
    list(source.blocks(1000, fail))
    n = len(looks)
    assert n == len(source._parts) - 2  # all but the text of the names
    list(source.blocks(1000, fail))
    assert len(looks) == n
    lo, hi = regions[6]  # a block
    with open(path, "r+b") as file:
        file.seek((lo + hi) // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(0, 0))  # whatever the clock of the file system
    with pytest.raises(Lost, match="is damaged"):
        list(source.blocks(1000, fail))


def test_a_file_that_shrinks_while_it_is_read(kept: Any) -> None:
    path, regions = kept
    blocks = open_source(path).blocks(1000, fail)
    next(blocks)
    with open(path, "r+b") as file:
        file.truncate(regions[7][0])
    with pytest.raises(Lost, match="is truncated: it has"):
        list(blocks)


def test_a_file_replaced_between_passes(tmp_path: Path) -> None:
    convert(many(5), tmp_path / "a.rows")
    source = open_source(tmp_path / "a.rows")
    convert(many(6), tmp_path / "a.rows")
    with pytest.raises(Lost, match="was replaced"):
        next(source.blocks(10, fail))


def test_sums_that_are_right_do_not_make_rows_right(kept: Any) -> None:
    """Kernels are never handed what leads out of their arrays."""
    path, _ = kept
    source: Any = open_source(path)
    for field, word in ((1, 2), (0, 5), (2, 1)):
        raw = source._read_part(0).copy()
        raw.view(np.uint64)[field] += word
        with pytest.raises(Lost, match="is damaged"):
            source._decode_block(raw, 0, 0)
    (path.parent / "a.vw").write_text("1 | a b\n-1 | c\n")
    convert(path.parent / "a.vw", path)
    source = open_source(path)
    # After nine numbers of the head and two labels: three pointers, then three numbers of names.
    for place, wrong in ((11, 1), (12, -1), (12, 4), (13, 2**40), (14, 2**40 + 1)):
        raw = source._read_part(0).copy()
        raw.view(np.int64)[place] = wrong
        with pytest.raises(Lost, match="rows or names are inconsistent"):
            source._decode_block(raw, 0, 0)


def test_files_of_others(tmp_path: Path) -> None:
    (tmp_path / "a.rows").write_text(VW)
    with pytest.raises(SourceError, match="is not a .rows file; create it again"):
        open_source(tmp_path / "a.rows")
    convert(many(3), tmp_path / "b.rows")
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


def test_nothing_is_there_until_all_is(tmp_path: Path) -> None:
    (tmp_path / "a.rows").write_text("old")

    def stream() -> Iterator[Any]:
        yield {"a": 1.0}, True
        assert [path.name for path in tmp_path.iterdir()] != ["a.rows"]
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        convert(stream(), tmp_path / "a.rows")
    assert [path.name for path in tmp_path.iterdir()] == ["a.rows"]
    assert (tmp_path / "a.rows").read_text() == "old"


def test_a_source_without_an_example_leaves_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of `zcat missing.gz | streaml1 convert - day.rows`, whose pipe is empty, too."""
    monkeypatch.chdir(tmp_path)
    Path("day.rows").write_bytes(b"old")
    Path("bad.vw").write_text("spam\n")
    for source, options, text, said in (
        ("-", ["--format", "vw"], "", "- has no example to convert; day.rows is not written"),
        ("bad.vw", ["--bad", "skip"], None, "bad.vw has no example to convert (1 rejected); day."),
    ):
        done = CliRunner().invoke(cli, ["convert", source, "day.rows", *options], input=text)
        assert done.exit_code == 2 and f"streaml1: {said}" in done.stderr
    with pytest.raises(SourceError, match="examples has no example to convert"):
        convert([], "day.rows")
    assert {p.name for p in Path().iterdir()} == {"day.rows", "bad.vw"}
    assert Path("day.rows").read_bytes() == b"old"


# The command


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.vw").write_text(VW)
    run = CliRunner().invoke
    done = run(cli, ["convert", "a.vw", "a.rows"])
    assert done.exit_code == 0
    assert done.output.splitlines()[0].startswith("4 examples, 7 non-zeros, 6 names, 0.0 MB")
    same = run(cli, ["convert", "-", "b.rows", "--format", "vw"], input=VW)
    assert same.exit_code == 0
    first = [replace_name(one) for one in plain_rows(Path("a.rows"))]
    assert first == [replace_name(one) for one in plain_rows(Path("b.rows"))]
    learnt = [run(cli, ["learn", name, "--passes", "2", "--save", f"{name}.m"]).output
              for name in ("a.vw", "a.rows")]  # fmt: skip
    assert Path("a.vw.m").read_bytes() == Path("a.rows.m").read_bytes()
    assert learnt[0].splitlines()[-2] == learnt[1].splitlines()[-2]
    told = [run(cli, ["predict", "a.vw.m", name, "--json"]).output for name in ("a.vw", "a.rows")]
    assert told[0] == told[1] and '"line": 1' in told[0]
    for arguments, sentence in (
        (["a.vw", "a.txt"], "the output file must end in .rows, got a.txt"),
        (["a.rows", "a.rows"], "is also SOURCE"),
        (["a.vw", "none/a.rows"], "there is no such directory"),
        (["a.vw", "a.rows", "--bad", "dead-letter"], "is not one of 'fail', 'skip'"),
        (["none.vw", "a.rows"], "there is no such file"),
    ):
        refused = run(cli, ["convert", *arguments])
        assert refused.exit_code == 2 and sentence in refused.stderr
    assert "Example: " in run(cli, ["convert", "--help"]).output


def replace_name(example: tuple[Any, ...]) -> tuple[Any, ...]:
    return (example[0].rpartition(":")[2], *example[1:])


def test_the_docs_name_every_option() -> None:
    page = (Path(__file__).parent.parent / "docs" / "convert.md").read_text()
    for one in cli.commands["convert"].params:
        for option in (one for one in one.opts if one.startswith("--")):
            assert f"`{option}" in page or option.startswith("--kafka"), option


def test_a_model_of_raw_text_takes_no_rows(tmp_path: Path) -> None:
    text = tmp_path / "a.jsonl"
    text.write_text('{"x": {"m": "a b"}, "y": 1}\n{"x": {"m": "c"}, "y": 0}\n' * 9)
    rows, saved = tmp_path / "a.rows", tmp_path / "model"
    for args in (
        ("learn", str(text), "--text", "m", "--save", str(saved)),
        ("convert", str(text), str(rows)),
    ):
        assert CliRunner().invoke(cli, args).exit_code == 0
    said = "text features need CSV, JSON lines or VW, got"
    for args in (
        ("learn", str(rows), "--load", str(saved)),
        ("learn", str(rows), "--text", "m"),
        ("predict", str(saved), str(rows)),
    ):
        done = CliRunner().invoke(cli, args)
        assert done.exit_code == 2 and said in done.stderr
