"""Sources of examples: parsing of each format and error messages of invalid input."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1.datasets  # noqa: F401  (registers `stdlib` and `data:...`)
from streaml1.sources import SOURCES, Block, SourceError, binary_label, number_label, open_source
from streaml1.sources.readers import opening
from streaml1.sources.readers import text_file as text
from streaml1.sources.readers.svmlight import _read_features, _read_features_fast

ICONV = ", as with iconv -f WINDOWS-1252 -t UTF-8 if Excel wrote it"

Rows = list[tuple[dict[Any, Any], Any, float]]


class Stop(Exception):
    """Raised by a test's `reject` to stop reading."""


def stop(place: str, reason: str) -> None:
    raise Stop(f"{place}: {reason}")


class Rejections(list[tuple[str, str]]):
    """A `reject` callback that records rejected lines and continues."""

    def __call__(self, place: str, reason: str) -> None:
        self.append((place, reason))


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that writes a file to the working directory; `.gz` names are compressed."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, content: str | bytes) -> str:
        raw = content.encode() if isinstance(content, str) else content
        Path(name).write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return name

    return write


@pytest.fixture
def pipe_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[str | bytes], None]:
    """Return a function that makes the given content the standard input."""

    def pipe_in(content: str | bytes) -> None:
        raw = content.encode() if isinstance(content, str) else content
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(raw)))

    return pipe_in


def rows_of(source: Any, size: int = 100, reject: Any = stop) -> Rows:
    """Read every example of a source."""
    rows: Rows = []
    for block in source.blocks(size, reject):
        assert 0 < len(block) <= size
        assert len(block.x) == len(block.y) == len(block.lines)
        y = block.y.tolist() if isinstance(block.y, np.ndarray) else block.y
        rows += zip(block.x, y, block.w or [1.0] * len(block), strict=True)
    return rows


def lines_of(source: Any, reject: Any = stop) -> list[int]:
    return [line for block in source.blocks(2, reject) for line in block.lines]


def single_rejection(name: str, **options: Any) -> tuple[str, str]:
    """Return place and reason of the only line that a source rejects."""
    rejected = Rejections()
    rows_of(open_source(name, **options), reject=rejected)
    assert len(rejected) == 1, rejected
    return rejected[0]


# Each format encodes two examples.

SVM = "1 3:0.5 7:-2e3\n-1 0:1\n"
JSONL = '{"x": {"age": 31, "country": "fr"}, "y": 1, "w": 2.5}\n{"x": {"up": true}, "y": false}\n'
VW = "1 2.5 'tag|a b c:0.5 | d\n-1 | e:3\n"
CSV = "age,country,bought,cost\n31,fr,yes,2.5\n,,no,1\n"
COLUMNS = {"target": "bought", "categorical": ["country"], "weight": "cost"}

SVM_ROWS: Rows = [({3: 0.5, 7: -2000.0}, 1.0, 1.0), ({0: 1.0}, -1.0, 1.0)]
JSONL_ROWS: Rows = [({"age": 31, "country": "fr"}, 1.0, 2.5), ({"up": True}, False, 1.0)]
VW_ROWS: Rows = [({"a^b": 1.0, "a^c": 0.5, "d": 1.0}, 1.0, 2.5), ({"e": 3.0}, -1.0, 1.0)]
CSV_ROWS: Rows = [
    ({"age": 31.0, "country": "fr"}, "yes", 2.5),
    ({"age": None, "country": None}, "no", 1.0),
]

FORMATS = [
    ("svm", SVM, SVM_ROWS, {}),
    ("svmlight", SVM, SVM_ROWS, {}),
    ("vw", VW, VW_ROWS, {}),
    ("jsonl", JSONL, JSONL_ROWS, {}),
    ("csv", CSV, CSV_ROWS, COLUMNS),
]


@pytest.mark.parametrize("gz", ["", ".gz"])
@pytest.mark.parametrize(("ending", "content", "expected", "options"), FORMATS)
def test_format_is_inferred_from_the_extension(write, ending, content, expected, options, gz):
    source = open_source(write(f"day.{ending}{gz}", content), **options)
    assert source.name == f"day.{ending}{gz}"
    assert repr(rows_of(source)) == repr(expected), "types are preserved"
    assert rows_of(source) == expected, "a second call restarts from the beginning"


@pytest.mark.parametrize(("ending", "content", "expected", "options"), FORMATS)
def test_explicit_format(write, pipe_in, ending, content, expected, options):
    assert rows_of(open_source(write("day.txt", content), format=ending, **options)) == expected
    assert rows_of(open_source(write("day.gz", content), format=ending, **options)) == expected
    pipe_in(content)
    assert rows_of(open_source("-", format=ending, **options)) == expected
    pipe_in(gzip.compress(content.encode()))
    assert rows_of(open_source("-", format=f"{ending}.gz", **options)) == expected


@pytest.mark.parametrize(("ending", "content", "expected", "options"), FORMATS)
def test_crlf_bom_and_missing_final_newline(write, ending, content, expected, options):
    crlf = b"\xef\xbb\xbf" + content.replace("\n", "\r\n").encode()
    assert rows_of(open_source(write(f"a.{ending}", crlf), **options)) == expected
    assert rows_of(open_source(write(f"b.{ending}", content.rstrip("\n")), **options)) == expected


@pytest.mark.parametrize(("ending", "content", "expected", "options"), FORMATS)
def test_blank_lines_are_skipped_but_counted(write, ending, content, expected, options):
    first, *remaining = content.splitlines()
    with_blanks = "\n".join(["", first, "", "  \t", *remaining, "", ""])
    source = open_source(write(f"a.{ending}", with_blanks), **options)
    assert rows_of(source) == expected
    assert lines_of(source) == ([5, 6] if ending == "csv" else [2, 5])


@pytest.mark.parametrize(("ending", "content", "options"), [(f[0], f[1], f[3]) for f in FORMATS])
def test_undecodable_lines_are_rejected_and_reading_continues(write, ending, content, options):
    *head, last = content.encode().splitlines(keepends=True)
    source = open_source(write(f"a.{ending}", b"".join([*head, b"1 \xff\n", last])), **options)
    rejected = Rejections()
    bad_line = len(head) + 1
    assert (
        lines_of(source, rejected)
        == [line for line in range(1, bad_line + 2) if line != bad_line][ending == "csv" :]
    )
    assert rejected == [
        (
            f"a.{ending}:{bad_line}",
            "byte 0xff at column 3 is not UTF-8: convert the file to UTF-8" + ICONV,
        )
    ]


def test_path_objects_are_accepted(write):
    assert rows_of(open_source(Path(write("a.svm", SVM)))) == SVM_ROWS


def test_registered_source_names_take_precedence_over_files(write, monkeypatch):
    opened = []
    monkeypatch.setitem(SOURCES, "word", lambda spec, seed: opened.append((spec, seed)))
    open_source("word", seed=7)
    open_source("word:more")
    assert opened == [("word", 7), ("word:more", 0)]
    write("word", SVM)
    assert rows_of(open_source(Path("word"), format="svm")) == SVM_ROWS
    assert rows_of(open_source("./word", format="svm")) == SVM_ROWS
    with pytest.raises(SourceError, match="apply to files only, not to word:more"):
        open_source("word:more", format="svm")
    with pytest.raises(SourceError, match="apply to files only, not to word"):
        open_source("word", target="y")


# Blocks


def test_blocks_have_places_and_optional_weights(write):
    name = write(
        "a.jsonl",
        '{"x": {}, "y": 1}\n\n{"x": {}, "y": 0}\n'
        '{"x": {}, "y": 0, "w": 1}\n{"x": {}, "y": 1, "w": 0}\n',
    )
    first, second = open_source(name).blocks(2, stop)
    assert (list(first.y), first.w, first.lines) == ([1.0, 0.0], None, [1, 3])
    assert (list(second.y), second.w, list(second.lines)) == ([0.0, 1.0], [1.0, 0.0], [4, 5])
    assert [second.place(0), second.place(1)] == ["a.jsonl:4", "a.jsonl:5"]


@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 8])
def test_block_size_does_not_change_the_rows(write, size):
    source = open_source(write("a.svm", "".join(f"1 {i}:1\n" for i in range(7))))
    sizes = [len(block) for block in source.blocks(size, stop)]
    assert sizes == [size] * (7 // size) + [7 % size] * (7 % size > 0)
    assert [list(x) for x, _, _ in rows_of(source, size)] == [[i] for i in range(7)]


def test_block_size_below_one_is_rejected(write):
    with pytest.raises(ValueError, match="size must be >= 1, got 0"):
        list(open_source(write("a.svm", SVM)).blocks(0, stop))


def test_empty_file_has_no_blocks(write):
    assert list(open_source(write("a.svm", "")).blocks(5, stop)) == []
    assert list(open_source(write("a.jsonl.gz", "")).blocks(5, stop)) == []


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_raising_reject_stops_after_the_previous_rows(write, size):
    source = open_source(write("a.svm", "1 1:1\n1 2:1\n1 3:1\n1 x\n1 5:1\n"))
    seen: list[int] = []
    with pytest.raises(Stop, match=r"a\.svm:4: 'x' is not a feature"):
        for block in source.blocks(size, stop):
            seen += block.lines
    assert seen == [1, 2, 3]


def test_returning_reject_skips_only_the_bad_line(write):
    source = open_source(write("a.svm", "1 x\n1 2:1\n\n? 1:1\n1 5:1\n1 6:nan\n"))
    rejected = Rejections()
    assert lines_of(source, rejected) == [2, 5]
    assert [place for place, _ in rejected] == ["a.svm:1", "a.svm:4", "a.svm:6"]


# Standard input


def test_standard_input_needs_a_format(pipe_in):
    pipe_in(SVM)
    with pytest.raises(
        SourceError,
        match='standard input .* use format="svmlight", "vw", "jsonl", "csv", "tsv" or "avro"',
    ):
        open_source("-")


def test_standard_input_is_read_once(pipe_in):
    pipe_in(SVM)
    source = open_source("-", format="svmlight")
    (block,) = source.blocks(5, stop)
    assert (block.name, block.place(1)) == ("-", "-:2")
    with pytest.raises(SourceError, match="standard input cannot be read twice: write it to a"):
        source.blocks(5, stop)
    assert not sys.stdin.buffer.closed


@pytest.fixture
def stdin_pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Make a pipe the standard input and yield its write end."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield write_end
        os.close(write_end)


def test_full_block_is_yielded_before_the_end(stdin_pipe):
    os.write(stdin_pipe, b"1 1:1\n1 2:1\n1 3:1\n")
    blocks = open_source("-", format="svmlight").blocks(2, stop)
    assert next(blocks).lines == range(1, 3)


def test_slow_input_yields_partial_blocks(stdin_pipe, monkeypatch):
    monkeypatch.setattr(text, "PATIENCE", 0.02)
    blocks = open_source("-", format="svmlight").blocks(1000, lambda *_: time.sleep(0.03))
    os.write(stdin_pipe, b"1 1:1\nslow\n1 3:1\n1 4:1\n")
    assert next(blocks).lines == [1, 3]


def test_pause_of_the_input_yields_all_complete_examples(stdin_pipe):
    """A block that is not full must not wait for the next example."""
    source = open_source("-", format="svmlight")
    blocks = source.blocks(4096, stop)
    lines = b"".join(b"%d %d:1\n" % (k % 2, k + 1) for k in range(412))
    os.write(stdin_pipe, lines + b"1 2:1\n1 3:")  # blocks forever if it waits for the last line
    assert next(blocks).lines == range(1, 414)
    os.write(stdin_pipe, b"0.5\n")
    block = next(blocks)
    assert (block.lines, dict(block.x[0]), block.y[0]) == (range(414, 415), {3: 0.5}, 1.0)
    assert source.line == 414


def test_end_of_the_input_is_no_pause(monkeypatch):
    monkeypatch.setattr(opening, "PAUSE", 1000.0)
    read_end, write_end = os.pipe()
    os.write(write_end, b"1 1:1\n")
    os.close(write_end)
    with os.fdopen(read_end) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert [len(block) for block in open_source("-", format="svmlight").blocks(5, stop)] == [1]


def test_only_plain_bytes_of_streams_are_polled(pipe_in, write, monkeypatch):
    """Decompressed bytes may wait although the pipe is empty, and files need no polling."""
    monkeypatch.setattr(text, "input_poll", lambda file: lambda: pytest.fail("polled"))
    pipe_in(gzip.compress(SVM.encode()))
    assert len(rows_of(open_source("-", format="svmlight"))) == 2
    assert len(rows_of(open_source(write("a.svm", SVM)))) == 2
    pipe_in(SVM)
    with pytest.raises(pytest.fail.Exception, match="polled"):
        rows_of(open_source("-", format="svmlight"))


def test_files_yield_full_blocks(write, monkeypatch):
    monkeypatch.setattr(text, "PATIENCE", 0.0)
    assert [len(block) for block in open_source(write("a.svm", SVM)).blocks(5, stop)] == [2]


def test_named_pipe_is_read_once(tmp_path):
    path = tmp_path / "pipe.svm"
    os.mkfifo(path)
    # A pipe opened for reading and writing does not block.
    descriptor = os.open(path, os.O_RDWR)
    os.write(descriptor, SVM.encode())
    source = open_source(path)
    assert next(source.blocks(2, stop)).lines == range(1, 3)
    with pytest.raises(SourceError, match=r"pipe\.svm cannot be read twice"):
        source.blocks(2, stop)
    os.close(descriptor)


# svmlight


def read_svmlight_line(write: Any, line: str, **options: Any) -> tuple[dict[int, float], Any]:
    (row,) = rows_of(open_source(write("a.svm", line), **options))
    return row[0], row[1]


@pytest.mark.parametrize(
    ("line", "x", "y"),
    [
        ("1", {}, 1.0),
        ("+1\t2:1  3:2 ", {2: 1.0, 3: 2.0}, 1.0),
        ("-1 3:1 1:2", {3: 1.0, 1: 2.0}, -1.0),
        ("0.25 1:1e-3 2:+.5 3:-0", {1: 0.001, 2: 0.5, 3: 0.0}, 0.25),
        ("1 qid:17 4:1", {4: 1.0}, 1.0),
        ("1 qid:17", {}, 1.0),
        ("1 4:1 # 5:1 naïve_comment", {4: 1.0}, 1.0),
        ("1 4:1#5:1", {4: 1.0}, 1.0),
        (f"1 {2**63 - 1}:1 0:1", {2**63 - 1: 1.0, 0: 1.0}, 1.0),
        ("1 007:1", {7: 1.0}, 1.0),
        ("1 5:1 6:1 5:0.5", {5: 1.5, 6: 1.0}, 1.0),
        ("1 5:1 5:-1", {5: 0.0}, 1.0),
        (f"1 5:1 +5:1 {'0' * 30}5:1", {5: 3.0}, 1.0),
        ("1 1:1e308 2:1e308", {1: 1e308, 2: 1e308}, 1.0),
    ],
)
def test_svmlight_lines(write, line, x, y):
    assert read_svmlight_line(write, line) == (x, y)


def test_svmlight_comment_lines_are_skipped(write):
    assert lines_of(open_source(write("a.svm", "# head\n1 1:1\n  # more\n1 1:1"))) == [2, 4]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("one 1:1", "label: 'one' is not a number: words are labels in Vowpal Wabbit text, CSV"),
        ("1_0 1:1", "label: '1_0' is not a number"),
        ("nan 1:1", "label: 'nan' is not finite"),
        ("1:1 2:1", "the line has no label: it begins with '1:1'"),
        ("1 5", "'5' is not a feature: it must be id:value"),
        ("1 age:5", "id 'age' is not an integer: features with string names need .jsonl or"),
        ("1 1.5:5", "id '1.5' is not an integer"),
        ("1 1_0:5", "id '1_0' is not an integer"),
        ("1 ٣:5", "id '٣' is not an integer"),
        ("1 :5", "id '' is not an integer"),
        ("1 4:1 qid:3", "id 'qid' is not an integer"),
        ("1 -2:5", "id '-2' is out of range: it must be from 0 to 2**63 - 1"),
        (f"1 {2**63}:5", "id '9223372036854775808' is out of range"),
        (f"1 {'9' * 5000}:5", "is out of range: it must be from 0"),
        ("1 3:", "feature 3: '' is not a number"),
        ("1 3:a", "feature 3: 'a' is not a number"),
        ("1 3:1:2", "feature 3: '1:2' is not a number"),
        ("1 3:1_0", "feature 3: '1_0' is not a number"),
        ("1 3:٣", "feature 3: '٣' is not a number"),
        ("1 3:0x1p3", "feature 3: '0x1p3' is not a number"),
        ("1 3:nan", "feature 3: 'nan' is not finite: leave the feature out if its value is"),
        ("1 3:-Infinity", "feature 3: '-Infinity' is not finite"),
        ("1 3:1e999", "feature 3: '1e999' is not finite"),
        ("1 3:1e308 3:1e308", "the values of feature 3 sum to infinity"),
    ],
)
def test_invalid_svmlight_lines(write, line, reason):
    place, message = single_rejection(write("a.svm", f"1 1:1\n{line}\n1 1:1\n"))
    assert place == "a.svm:2"
    assert reason in message
    assert len(message) < 150


@given(
    st.lists(
        st.tuples(st.integers(-1, 2**63), st.floats() | st.sampled_from(["", "a", "1:1"])),
        max_size=6,
    )
)
def test_fast_svmlight_path_equals_the_careful_one(pairs):
    cells = [f"{name}:{value}" for name, value in pairs]
    try:
        expected = _read_features(cells)
    except ValueError:
        assert _read_features_fast(cells) is None
    else:
        assert _read_features_fast(cells) in (None, expected)
        if len(expected) == len(cells) and math.isfinite(sum(expected.values())):
            assert _read_features_fast(cells) == expected


# JSON lines


def read_json_line(write: Any, line: str, **options: Any) -> tuple[dict[Any, Any], Any, float]:
    (row,) = rows_of(open_source(write("a.jsonl", line), **options))
    return row


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ('{"x": {}, "y": 1}', ({}, 1.0, 1.0)),
        ('{"y": "spam", "x": {"a": null}}', ({"a": None}, "spam", 1.0)),
        ('{"x": {"a": "b"}, "y": true, "w": 0}', ({"a": "b"}, True, 0.0)),
        ('{"x": {"a": 1, "a": 2.5, "b": 0}, "y": 1}', ({"a": 3.5, "b": 0}, 1.0, 1.0)),
        ('{"x": {"a": true, "a": true}, "y": 1}', ({"a": 2}, 1.0, 1.0)),
        ('{"x": {"a": null, "a": 2}, "y": 1}', ({"a": 2}, 1.0, 1.0)),
        ('{"x": {"é\\u00e9\\ud83d\\ude00": 1}, "y": 1}', ({"éé😀": 1}, 1.0, 1.0)),
        ('{"x": {"a": 1}, "y": 1, "id": {"k": [1, {}]}, "when": null}', ({"a": 1}, 1.0, 1.0)),
        (f'{{"x": {{"a": {10**300}}}, "y": 1}}', ({"a": 10**300}, 1.0, 1.0)),
        ('{"x": {"a": 1e308, "b": 1e308}, "y": 1}', ({"a": 1e308, "b": 1e308}, 1.0, 1.0)),
    ],
)
def test_json_lines(write, line, row):
    assert read_json_line(write, line) == row


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"x": {"a": 1}, "y": 1', "not JSON: Expecting ',' delimiter at column 23"),
        ('{"x": {}, "y": 1} {}', "not JSON: Extra data at column 19"),
        ("[1, 2]", "[1, 2] is not an example: write {"),
        ('{"y": 1}', 'the line has no object "x" of features: use target="NAME"'),
        ('{"x": {"a": 1}}', 'the example has no "y": its label; its members are: x'),
        ('{"x": {"a": 1}, "y": null}', 'the example has no "y"'),
        ('{"x": [1, 2], "y": 1}', '"x" must be an object, {"name": value, ...}, got [1, 2]'),
        (
            '{"x": {"a": {"b": 1}}, "y": 1}',
            "feature 'a' is nested: a value must be a number, a string, true, false or null; "
            "write its members as 'a.b'",
        ),
        ('{"x": {"a": {"b": 1, "b": 1}}, "y": 1}', "feature 'a' is nested"),
        ('{"x": {"s": "t", "a": [1]}, "y": 1}', "feature 'a' is nested"),
        ('{"x": {"a": NaN}, "y": 1}', "NaN is not JSON: write null for a missing value"),
        ('{"x": {"a": -Infinity}, "y": 1}', "-Infinity is not JSON"),
        ('{"x": {"a": 1e999}, "y": 1}', "feature 'a': inf is too large for a float"),
        ('{"x": {"s": "t", "a": 1e999}, "y": 1}', "feature 'a': inf is too large"),
        (f'{{"x": {{"a": {10**400}}}, "y": 1}}', "feature 'a': 1000"),
        (f'{{"x": {{"a": {"1" * 5000}}}, "y": 1}}', "feature 'a': inf is too large"),
        (f'{{"x": {{}}, "y": 1, "w": {"1" * 5000}}}', "weight must be a number >= 0, got inf"),
        ('{"x": {"a": 1e308, "a": 1e308}, "y": 1}', "feature 'a': inf is too large"),
        ('{"x": {"a": "b", "a": "b"}, "y": 1}', "feature 'a' occurs twice: only numbers can be"),
        ('{"x": {"a": 1, "a": "b"}, "y": 1}', "feature 'a' occurs twice"),
        ('{"x": {"a": "b", "a": 1}, "y": 1}', "feature 'a' occurs twice"),
        ('{"x": {"a": 1, "a": [1]}, "y": 1}', "feature 'a' is nested"),
        ('{"x": {}, "y": 1, "y": 0}', "occurs twice: it may occur only once"),
        ('{"x": {"\\ud83d": 1}, "y": 1}', "'\\ud83d' is half of a surrogate pair"),
        ('{"x": {"a": "\\ude00"}, "y": 1}', "'\\ude00' is half of a surrogate pair"),
        ('{"x": {}, "y": [1]}', "label [1] is not a number, a string, true or false"),
        (f'{{"x": {{}}, "y": {10**400}}}', "is not a number, a string, true or false"),
        ('{"x": {}, "y": 1, "w": -1}', "weight must be a number >= 0, got -1"),
        ('{"x": {}, "y": 1, "w": 1e999}', "weight must be a number >= 0, got inf"),
        (f'{{"x": {{}}, "y": 1, "w": {10**400}}}', "weight must be a number >= 0, got 1000"),
        ('{"x": {}, "y": 1, "w": true}', "weight must be a number >= 0, got True"),
        ('{"x": {}, "y": 1, "w": null}', "weight must be a number >= 0, got None"),
        ("[" * 100_000, "not an example: its values are nested too deeply"),
    ],
)
def test_invalid_json_lines(write, line, reason):
    good = '{"x": {}, "y": 1}'
    place, message = single_rejection(write("a.jsonl", f"{good}\n{line}\n{good}\n"))
    assert place == "a.jsonl:2"
    assert reason in message
    assert len(message) < 150


@pytest.mark.parametrize("depth", range(100, 1200, 50))
def test_deeply_nested_json_is_rejected(write, depth):
    name = write("a.jsonl", f'{{"x": {"[" * depth}{"]" * depth}, "y": 1}}')
    place, reason = single_rejection(name)
    assert place == "a.jsonl:1"
    assert "must be an object" in reason or "too deeply" in reason


# CSV


def test_csv_columns_keep_their_order_and_types(write):
    name = write("a.csv", 'b,y,a,c\n1,-1, 2.5 ,"x, ""y"""\n,1,-3e2,\n  , 0,1," "\n')
    assert rows_of(open_source(name, target="y", categorical="c")) == [
        ({"b": 1.0, "a": 2.5, "c": 'x, "y"'}, "-1", 1.0),
        ({"b": None, "a": -300.0, "c": None}, "1", 1.0),
        ({"b": None, "a": 1.0, "c": None}, "0", 1.0),
    ]


def test_columns_of_one_name(write):
    """Two columns of one name are rejected, unless all but one are ignored."""
    name = write("a.csv", "a,y,b,a,b\n1,1,2,3,4\n")
    message = (
        r"a.csv has several columns 'a', 'b' \(such as columns 0, 3, counted from 0\): rename all "
        r"but one, or use ignore=\[.3.\]; the columns are: a, y, b, a, b"
    )
    with pytest.raises(SourceError, match=message):
        rows_of(open_source(name, target="y"))
    for ignore, x in [("a,b", {}), ("a,4", {"b": 2.0}), ("0,2", {"a": 3.0, "b": 4.0})]:
        assert rows_of(open_source(name, target="y", ignore=ignore.split(","))) == [(x, "1", 1.0)]


HEADER_AGAIN = 'site,y\nnews,1\nmail,0\nsite,y\nnews,1\n\ufeff"site","y"\n"site",y\nsite,0\n'


@pytest.mark.parametrize("target", ["y", None])
def test_repeated_headers_are_skipped(write, target, caplog):
    """A header in the middle of a file is no example; the first one and their number are logged."""
    columns = {"target": target, "categorical": ["site", *(["y"] if target is None else [])]}
    source = open_source(write("a.csv", HEADER_AGAIN), require_label=target is not None, **columns)
    for _ in range(2):  # a second pass does not warn again
        rows = [(x["site"], y if target else x["y"]) for x, y, _ in rows_of(source)]
        assert rows == [("news", "1"), ("mail", "0"), ("news", "1"), ("site", "0")]
    assert lines_of(source) == [2, 3, 5, 8]
    assert [record.getMessage() for record in caplog.records] == [
        "a.csv:4: skipped a line that repeats the names of the columns",
        "a.csv: skipped 3 lines that repeat the names of the columns",
    ]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "svm", "vw"])
def test_files_that_were_joined_with_their_marks(write, suffix):
    """A byte order mark at the start of a line is dropped, and the rest of the line is read."""
    lines = {
        "csv": ["news,1", "news,0", '"new\ns",1'],
        "jsonl": ['{"x": {"a": 1}, "y": 1}', '{"x": {"a": 2}, "y": 0}', '{"x": {}, "y": 1}'],
        "svm": ["1 1:2", "0 3:4", "1 5:6"],
        "vw": ["1 |a b", "-1 |a c", "1 |a d"],
    }[suffix]
    options = {"header": False, "target": "1", "categorical": ["0"]} if suffix == "csv" else {}
    plain, joined = ("\n".join(mark + line for line in lines) for mark in ("", "\ufeff"))
    expected = rows_of(open_source(write(f"a.{suffix}", plain), **options))
    assert len(expected) == 3
    assert rows_of(open_source(write(f"b.{suffix}", joined), **options)) == expected


def test_the_index_of_a_data_frame_is_ignored(write, caplog):
    content = ",site,n,y\n0,news,1.5,1\n1,mail,2,0\n"
    expected = [({"site": "news", "n": 1.5}, "1", 1.0), ({"site": "mail", "n": 2.0}, "0", 1.0)]
    columns = {"target": "y", "categorical": "site"}
    assert rows_of(open_source(write("a.csv", content), **columns)) == expected
    (record,) = caplog.records
    assert "a.csv:1: the first column has no name and numbers the rows" in record.getMessage()
    for ignore in ("", "0"):
        assert rows_of(open_source("a.csv", ignore=ignore, **columns)) == expected
    assert len(caplog.records) == 1


CRITEO = "0\t1\t1\t5\t1382\tab\n1\t2\t0\t44\t102\tcd\n0\t2\t\t1\t767\t\n"
CRITEO_ROWS = [
    ({"1": 1.0, "2": 1.0, "3": 5.0, "4": 1382.0, "5": "ab"}, "0", 1.0),
    ({"1": 2.0, "2": 0.0, "3": 44.0, "4": 102.0, "5": "cd"}, "1", 1.0),
    ({"1": 2.0, "2": None, "3": 1.0, "4": 767.0, "5": None}, "0", 1.0),
]


def test_files_without_a_header(write):
    name = write("a.tsv", CRITEO)
    options = {"target": "0", "categorical": "5", "header": False}
    assert rows_of(open_source(name, **options)) == CRITEO_ROWS
    names = ["y", "a", "b", "c", "d", "site"]
    renamed = dict(zip("012345", names, strict=True))
    expected = [({renamed[k]: v for k, v in x.items()}, y, w) for x, y, w in CRITEO_ROWS]
    for target, site in (("y", "site"), ("0", "5")):
        options = {"target": target, "categorical": site, "column_names": names}
        assert rows_of(open_source(name, **options)) == expected
        again = write("b.tsv", "\t".join(names) + "\n" + CRITEO)
        assert rows_of(open_source(again, **options)) == expected
    with pytest.raises(SourceError, match="the file has 6 columns, column_names= has 2 names"):
        rows_of(open_source(name, target="0", column_names=["a", "b"]))
    with pytest.raises(SourceError, match="column_names= is for files without a header"):
        open_source(name, target="0", column_names=["a", "b"], header=True)


@pytest.mark.parametrize(
    ("content", "target"),
    [
        (CRITEO.replace("\t", ","), "0"),
        ("0,1,2,5,9\n1,2,0,44,1\n", "0"),
        ("1,0.5,news\n0,0.25,mail\n", "0"),
        ("news,1,mail\nsport,0,fin\n", "1"),
        ("yes,news\nno,mail\nyes,fin\n", "0"),
        ("1,-3,news\n0,2,mail\n", None),
    ],
)
def test_a_first_line_of_data_is_rejected(write, content, target):
    source = open_source(write("a.csv", content), target=target, require_label=target is not None)
    with pytest.raises(
        SourceError, match="a.csv:1: the line looks like data, .*: use header=False or "
    ):
        rows_of(source)
    options = {"header": True, "ignore": "1"} if content.startswith("0,1,1") else {"header": True}
    rejected = Rejections()
    rows_of(open_source("a.csv", target=target, require_label=False, **options), reject=rejected)


@pytest.mark.parametrize(
    ("content", "target", "names"),
    [
        ("0,1,2\n0.5,1,7\n", "2", ["0", "1"]),
        ("a,2019,2020\nx,1,2\n", "a", ["2019", "2020"]),
        ("label,0.5,0.9\n1,2,3\n", "label", ["0.5", "0.9"]),
        ("label,n,m\n1,2,3\n", "0", ["n", "m"]),
        ("5,1,y\n1,2,3\n", "y", ["5", "1"]),
    ],
)
def test_headers_with_numbers(write, content, target, names):
    ((x, _, _),) = rows_of(open_source(write("a.csv", content), target=target))
    assert list(x) == names


def test_a_name_wins_over_a_number(write):
    name = write("a.csv", "1,0,2\n5,6,7\n")
    assert rows_of(open_source(name, target="0", header=True)) == [({"1": 5.0, "2": 7.0}, "6", 1.0)]


@pytest.mark.parametrize("ignored", ["a", ["a", "id"]])
def test_ignored_csv_columns(write, ignored):
    """Ignored columns may have any content."""
    name = write("a.csv", 'id,b,a,y,c\nx9,1,"no\n, ""number""",1,fr\n,2,nan,0,de\n7,3,,1,it\n')
    options = {"target": "y", "categorical": ["c"] if "id" in ignored else ["c", "id"]}
    rows = rows_of(open_source(name, ignore=ignored, **options))
    xs = [{"b": 1.0, "c": "fr"}, {"b": 2.0, "c": "de"}, {"b": 3.0, "c": "it"}]
    if "id" not in ignored:
        xs = [{"id": id_} | x for id_, x in zip(["x9", None, "7"], xs, strict=True)]
    assert [(x, y) for x, y, _ in rows] == list(zip(xs, "101", strict=True))


@pytest.mark.parametrize(
    ("name", "options", "delimiter"),
    [
        ("a.tsv", {}, "\t"),
        ("a.TSV", {}, "\t"),
        ("a.csv", {"format": "tsv"}, "\t"),
        ("a.tsv", {"delimiter": ","}, ","),
        ("a.csv", {"delimiter": "tab"}, "\t"),
        ("a.csv", {"delimiter": "\\t"}, "\t"),
        ("a.csv", {"delimiter": "\t"}, "\t"),
        ("a.csv", {"delimiter": ";"}, ";"),
        ("a.txt", {"format": "csv", "delimiter": "\x01"}, "\x01"),
        ("a.csv", {"delimiter": "|"}, "|"),
    ],
)
def test_csv_delimiters(write, name, options, delimiter):
    rows = [["t", "a", "y"], ["x, y", "1", "1"], [f'"u{delimiter}v"', " 2 ", "0"], ["", "", "1"]]
    if delimiter == ",":
        rows[1][0] = '"x, y"'
    path = write(name, "\n".join(delimiter.join(row) for row in rows))
    parsed = rows_of(open_source(path, target="y", categorical="t", **options))
    xs = [{"t": "x, y", "a": 1.0}, {"t": f"u{delimiter}v", "a": 2.0}, {"t": None, "a": None}]
    assert [(x, y) for x, y, _ in parsed] == list(zip(xs, "101", strict=True))


@pytest.mark.parametrize(
    "delimiter", ["", ",,", "a", "1", '"', "+", "-", ".", "\n", "\r", "\0", "é"]
)
def test_invalid_csv_delimiters(write, delimiter):
    with pytest.raises(SourceError) as error:
        open_source(write("a.csv", "a,y\n1,1\n"), target="y", delimiter=delimiter)
    assert str(error.value).startswith("delimiter must be one ASCII character")
    assert str(error.value).endswith(f", got {delimiter!r}")


@pytest.mark.parametrize("source", ["a.svm", "river:Phishing", "kafka://localhost:1/clicks"])
@pytest.mark.parametrize("options", [{"delimiter": "tab"}, {"missing": "-"}], ids=str)
def test_csv_options_are_rejected_for_other_formats(write, source, options):
    write("a.svm", "1 1:1\n")
    with pytest.raises(SourceError, match="column options"):
        open_source(source, **options)


MISSING_ROWS = """t,n,y
NaN,NULL,1
NA," ? ",1
\\N,None,1
Nancy,nan,N/A
unknown,-999,1
-,true,FALSE
null,,-999
,False,?
"""


@pytest.mark.parametrize(
    ("missing", "expected"),
    [
        (
            {},
            [(None, None, "1"), (None, None, "1"), (None, None, "1"), ("Nancy", None, None),
             ("unknown", -999.0, "1"), ("-", 1.0, "FALSE"), (None, None, "-999"),
             (None, 0.0, None)],
        ),
        (
            {"missing": ["unknown", "-999", "-", "a word of more than eight bytes"]},
            [(None, None, "1"), (None, 1.0, "FALSE"), ("null", None, None), (None, 0.0, "?")],
        ),
        (
            {"missing": ""},
            [("unknown", -999.0, "1"), ("-", 1.0, "FALSE"), ("null", None, "-999"),
             (None, 0.0, "?")],
        ),
    ],
    ids=["default", "list", "none"],
)  # fmt: skip
def test_missing_words(write, missing, expected):
    """Missing words are absent features, and missing labels; booleans are numbers."""
    name = write("a.csv", MISSING_ROWS)
    options = {"target": "y", "categorical": "t", "require_label": False, **missing}
    rejected = Rejections()
    rows = rows_of(open_source(name, **options), reject=rejected)
    assert [(x["t"], x["n"], y) for x, y, _ in rows] == expected
    assert len(rejected) == 8 - len(expected)


NUMBERS = "n;w;y\n1.234.567,5;1,5;Yes\n-12,5;2;no\n 1.000 ;0,25;NULL\n12;1;yes\n"


def test_decimal_comma_and_positive_label(write):
    name = write("a.csv", NUMBERS)
    options = {"target": "y", "weight": "w", "delimiter": ";", "decimal": ",", "thousands": "."}
    rejected = Rejections()
    rows = rows_of(open_source(name, positive="Yes", **options), reject=rejected)
    assert rows == [({"n": 1234567.5}, "1", 1.5), ({"n": -12.5}, "0", 2.0), ({"n": 12.0}, "0", 1.0)]
    assert rejected == [("a.csv:4", "the label is missing: column 'y' is 'NULL'")]


@pytest.mark.parametrize(
    ("cell", "label"), [("1 234,5", "1234.5"), ("1,5", "1.5"), ("1.5", "1.5"), ("a,b", "a,b")]
)
def test_labels_with_a_decimal_comma(write, cell, label):
    name = write("a.tsv", f"n\ty\n1\t{cell}\n")
    rows = rows_of(open_source(name, target="y", decimal=",", thousands=" "))
    assert rows == [({"n": 1.0}, label, 1.0)]


@pytest.mark.parametrize(
    "cell", ["1.5", "1 23", "1234 567", "1 234 5", "1,5,5", "1,5 000", "1  234"]
)
def test_invalid_numbers_with_a_decimal_comma(write, cell):
    name = write("a.tsv", f"n\ty\n{cell}\t1\n")
    place, reason = single_rejection(name, target="y", decimal=",", thousands=" ")
    assert (place, f"column 'n': '{cell}' is not a number" in reason) == ("a.tsv:2", True)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"decimal": ";"}, "decimal must be a point or a comma, got ';'"),
        ({"thousands": "''"}, "thousands must be one character other than"),
        ({"decimal": ",", "thousands": ","}, "thousands and decimal must differ, got ',' for both"),
        ({"positive": "NULL"}, "positive must not be a missing word, got 'NULL'"),
    ],
)
def test_invalid_rules_for_cells(write, options, reason):
    with pytest.raises(SourceError, match=reason):
        open_source(write("a.csv", NUMBERS), target="y", **options)


@pytest.mark.parametrize("word", ['say "no"', "two\nlines"])
def test_missing_words_without_quotes(write, word):
    name = write("a.csv", MISSING_ROWS)
    with pytest.raises(SourceError, match="a missing word must not contain quotes or line breaks"):
        open_source(name, target="y", missing=["-", word])


def test_multiline_csv_records_have_the_place_of_their_first_line(write):
    name = write("a.csv", 'a,t,y\n1,"two\r\nlines\n",1\n2,x,0\n3,"bad\nline",1,1\n4,x,0\n')
    source = open_source(name, target="y", categorical=["t"])
    rejected = Rejections()
    assert lines_of(source, rejected) == [2, 5, 8]
    assert rows_of(source, reject=rejected)[0][0]["t"] == "two\r\nlines\n"
    reason = "the line has 4 cells, the header has 3: quote cells that contain the delimiter"
    assert rejected[0] == ("a.csv:6", reason)


def test_undecodable_line_in_a_csv_cell_rejects_the_record(write):
    name = write("a.csv", b'a,t,y\n1,"two\n\xfflines\nthree",1\n2,x,0\n')
    source = open_source(name, target="y", categorical=["t"])
    rejected = Rejections()
    assert lines_of(source, rejected) == [5]
    assert rejected == [
        ("a.csv:2", "byte 0xff at column 1 is not UTF-8: convert the file to UTF-8" + ICONV)
    ]


def test_unclosed_csv_quote(write):
    name = write("a.csv", 'a,t,y\n1,x,1\n1,"x,1\n1,x,1\n')
    place, reason = single_rejection(name, target="y", categorical=["t"])
    assert place == "a.csv:3"
    assert "not CSV" in reason
    assert "the record extends to line 4: is a quote not closed?" in reason


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1,x,1", "the line has 3 cells, the header has 4: write the delimiters of empty cells"),
        (
            "1",
            "the line has 1 cell ('1'), the header has 4: remove it if it is a comment",
        ),
        ("1,x,1,1,1", "the line has 5 cells, the header has 4"),
        ('1,"x"y,1,1', "not CSV: ',' expected after '\"'"),
        ('1,"x" y,1,1', "expected after '\"'; if quotes are plain text in this file, remove them"),
        ("red,x,1,1", "column 'a': 'red' is not a number"),
        ("red,x,1,1", 'use categorical=["t", "a"] for text, or ignore=["a"]'),
        ("inf,x,1,1", "column 'a': 'inf' is not finite: leave missing values empty"),
        ("tRue,x,1,1", "column 'a': 'tRue' is not a number"),
        ("1_0,x,1,1", "column 'a': '1_0' is not a number"),
        ("1,x,,1", "the label is missing: column 'y' is empty"),
        ("1,x,NULL,1", "the label is missing: column 'y' is 'NULL'"),
        ("1,x,1,NaN", "column 'w': weight must be a number >= 0, got 'NaN'"),
        ("1,x,1,", "weight must be a number >= 0, got ''"),
        ("1,x,1,-2", "weight must be a number >= 0, got '-2'"),
        ("1,x,1,inf", "weight must be a number >= 0, got 'inf'"),
        pytest.param(
            f"1,{'x' * 131_073},1,1",
            "a cell has more than 131,072 characters: write longer texts as JSON lines",
            id="long",
        ),
    ],
)
def test_invalid_csv_lines(write, line, reason):
    name = write("a.csv", f"a,t,y,w\n1,x,1,1\n{line}\n1,x,1,1\n")
    place, message = single_rejection(name, target="y", categorical=["t"], weight="w")
    assert place == "a.csv:3"
    assert reason in message


@pytest.mark.parametrize(
    ("content", "options", "reason"),
    [
        ("", {"target": "y"}, "a.csv is empty: a CSV file begins with the names of its columns"),
        (
            "a,y\n1,1",
            {},
            'a.csv: use target="COLUMN" to name the label column; the columns are: a, y',
        ),
        ("a,y\n1,1", {"target": "z"}, "a.csv has no column 'z'; the columns are: a, y"),
        (
            "id,Churned?\n1,1",
            {"target": "churned"},
            "no column 'churned' (did you mean 'Churned?'?); the columns are: id, Churned?",
        ),
        ("a,y\n1,1", {"target": "y", "categorical": ["c"]}, "no column 'c'; the columns are: a, y"),
        ("a,y\n1,1", {"target": "y", "weight": "w"}, "no column 'w'; the columns are: a, y"),
        (
            "a;y\n1;1",
            {"target": "y"},
            "a.csv: ';' seems to separate the cells: use "
            'delimiter=";" (the columns are then: '
            "a, y)",
        ),
        (
            "a\ty;z\tz\n1\t1\t1",
            {},
            'tab seems to separate the cells: use delimiter="tab" (the columns are then: a, y;z, '
            "z)",
        ),
        (
            "a,y\n1,1",
            {"target": "y", "delimiter": "tab"},
            "',' seems to separate the cells: use delimiter=\",\" (the columns are then: a, y)",
        ),
        (",".join(map(str, range(30))), {"target": "y"}, ", 18, 19 and 10 more"),
        (
            "a,,y\n0,1,1",
            {"target": "y"},
            'a.csv:1: column 2 has no name: name it, or ignore it with ignore=""',
        ),
        (",a,y\nx,1,1", {"target": "y"}, "a.csv:1: column 1 has no name"),
        (
            '"a, b",y\n0,1',
            {"target": "y", "ignore": ["a", " b"]},
            "a.csv has no columns 'a', ' b' (did you mean 'a, b'?); the columns are: a, b, y",
        ),
        (
            "a,y,b,b\n0,1,1,1",
            {"target": "z", "categorical": ["c", "a"], "weight": "a"},
            "a.csv has no columns 'z', 'c'; has several columns 'b' (such as columns 2, 3, counted "
            'from 0): rename all but one, or use ignore=["3"]; '
            "column 'a' can have only one role, got weight and categorical; the columns are: a, y, "
            "b, b",
        ),
        ("y,a,y\n0,1,1", {"target": "y"}, "a.csv has several columns 'y'"),
        ("a,y\n1,1", {"target": "y", "weight": "y"}, "only one role, got target and weight"),
        (
            "a,y\n1,1",
            {"target": "y", "categorical": "y"},
            "only one role, got target and categorical",
        ),
        ("a,y\n1,1", {"target": "y", "ignore": "y"}, "'y' can have only one role"),
        (
            "a,y\n1,1",
            {"target": "y", "text": "a", "ignore": "a"},
            "only one role, got text and ignored",
        ),
        (
            "a,y\n1,1",
            {"target": "y", "id": "a", "ignore": "a"},
            "an id is not a feature, so omit it from ignore=; the columns are: a, y",
        ),
        ("a,y\n1,1", {"target": "y", "ignore": "b"}, "a.csv has no column 'b'; the columns are: a"),
        ('a,"y\n1,1', {"target": "y"}, "a.csv:1: invalid header: not CSV"),
        (
            b"\xff,y\n1,1",
            {"target": "y"},
            "a.csv:1: invalid header: byte 0xff at column 1",
        ),
    ],
)
def test_invalid_csv_headers(write, content, options, reason):
    source = open_source(write("a.csv", content), **options)
    with pytest.raises(SourceError) as error:
        list(source.blocks(5, stop))
    assert reason in str(error.value)


def test_text_columns_may_be_listed_twice(write):
    """Columns may be listed twice, and text columns may also be categorical."""
    name = write("a.csv", "a,y\nx,1\n")
    for roles in ({"categorical": ["a", "a"]}, {"categorical": ["a"], "text": ["a", "a"]}):
        assert rows_of(open_source(name, target="y", **roles)) == [({"a": "x"}, "1", 1.0)]


# Prediction does not need labels.


def test_labels_are_optional(write):
    options = {"require_label": False}
    assert read_svmlight_line(write, "1:1 2:3", **options) == ({1: 1.0, 2: 3.0}, None)
    assert read_svmlight_line(write, "-1 1:1", **options) == ({1: 1.0}, -1.0)
    assert read_json_line(write, '{"x": {"a": 1}}', **options) == ({"a": 1}, None, 1.0)
    assert read_json_line(write, '{"x": {"a": 1}, "y": 0}', **options) == ({"a": 1}, 0.0, 1.0)
    name = write("a.csv", "a,y\n1,\n2,5\n")
    assert rows_of(open_source(name, **options)) == [
        ({"a": 1.0, "y": None}, None, 1.0),
        ({"a": 2.0, "y": 5.0}, None, 1.0),
    ]
    assert rows_of(open_source(name, target="y", **options)) == [
        ({"a": 1.0}, None, 1.0),
        ({"a": 2.0}, "5", 1.0),
    ]
    with pytest.raises(SourceError, match="has no column 'z'"):
        rows_of(open_source(name, target="z", **options))


# Files that cannot be read


def test_missing_files_are_rejected(write, tmp_path):
    write("a.txt", SVM)
    Path("empty").mkdir()
    for name, reason in [
        (
            "b.svm",
            r"b\.svm: there is no such file; a source is a file, or one of - .*river:Phishing",
        ),
        ("Phishing", "Phishing: there is no such file; .*river"),
        ("RCV1", r"RCV1: there is no such file \(did you mean data:rcv1\?\); a source is"),
        ("stdlb", r"there is no such file \(did you mean stdlib\?\)"),
        (".", r"\. contains the directory empty: use a pattern such as"),
        ("empty", "empty is a directory without a file to read"),
        (
            "a.txt",
            r"cannot infer the format of a\.txt from its name; use format=.svmlight., .vw.,",
        ),
        ("a.txt/b.svm", r"a\.txt/b\.svm cannot be read: Not a directory"),
        ("a\0.svm", "is not a valid file name: .*embedded null"),
        ("a" * 300 + ".svm", "cannot be read: File name too long"),
    ]:
        with pytest.raises(SourceError, match=reason):
            open_source(name)
    with pytest.raises(SourceError, match="unknown format 'xml'; use format="):
        open_source("a.txt", format="xml")
    with pytest.raises(SourceError, match="apply to CSV and JSON lines only, not to a.txt"):
        open_source("a.txt", format="svm", target="y")


def test_unreadable_files_are_rejected(write, monkeypatch):
    name = write("a.svm", SVM)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(SourceError, match=r"a\.svm cannot be read: permission denied"):
        open_source(name)


def test_files_deleted_before_reading(write):
    source = open_source(write("a.svm", SVM))
    os.remove("a.svm")
    with pytest.raises(SourceError, match=r"a\.svm: there is no such file"):
        list(source.blocks(5, stop))


def test_read_errors_are_reported(write, monkeypatch):
    class Broken(io.BytesIO):
        def readinto1(self, buffer: Any) -> int:
            if self.tell():
                raise OSError(5, "Input/output error")
            line = self.readline()
            buffer[: len(line)] = line
            return len(line)

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Broken(SVM.encode())))
    blocks = open_source("-", format="svm").blocks(5, stop)
    assert next(blocks).lines == range(1, 2)
    with pytest.raises(
        SourceError, match=r"-:2: the file cannot be read from here on: .*Input/output"
    ):
        next(blocks)


def read_damaged_gzip(write: Any, damage: Callable[[bytes], bytes]) -> tuple[list[int], str]:
    """Read a damaged file of 5,000 lines; return the line numbers read and the error."""
    numbers = np.random.default_rng(0).random(5_000)
    compressed = gzip.compress("".join(f"1 1:{number}\n" for number in numbers).encode())
    write("a.svm", b"")
    Path("a.svm.gz").write_bytes(damage(compressed))
    lines: list[int] = []
    with pytest.raises(SourceError) as error:
        for block in open_source("a.svm.gz").blocks(1000, stop):
            lines += block.lines
    return lines, str(error.value)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda packed: packed[:-20_000], "Compressed file ended before the end"),
        (lambda packed: packed[:-4], "Compressed file ended before the end"),
        (lambda packed: packed + packed[:10] + b"\xff" * 20, "Error -3"),
        (lambda packed: packed[:-8] + b"\0" * 8, "CRC check failed"),
        (lambda packed: packed + b"more", "Not a gzipped file"),
    ],
)
def test_damaged_gzip_is_reported(write, damage, reason):
    lines, error = read_damaged_gzip(write, damage)
    assert lines == list(range(1, len(lines) + 1))
    assert 1000 < len(lines) <= 5000
    assert error.startswith(
        f"a.svm.gz:{len(lines) + 1}: the file cannot be read from here on: {reason}"
    )


def test_uncompressed_file_named_gz(write):
    lines, error = read_damaged_gzip(write, lambda packed: SVM.encode())
    assert lines == []
    assert error.startswith("a.svm.gz is not compressed by gzip; remove .gz from its name")
    lines, error = read_damaged_gzip(write, lambda packed: b"")
    assert lines == []
    assert error.startswith("a.svm.gz is empty")
    with pytest.raises(SourceError, match="remove .gz from its format if it is plain text"):
        list(open_source(write("a.svm", SVM), format="svm.gz").blocks(5, stop))


def test_doubly_compressed_gzip(write):
    lines, error = read_damaged_gzip(write, gzip.compress)
    assert (lines, error) == ([], "a.svm.gz is compressed by gzip twice; decompress it once")


def test_line_length_is_limited(write, monkeypatch):
    monkeypatch.setattr(text, "MAX_LINE", 20)
    blocks = open_source(write("a.svm", "1 1:1\n1 " + "2:1 " * 100)).blocks(5, stop)
    assert next(blocks).lines == range(1, 2)
    with pytest.raises(
        SourceError, match=r"a\.svm:2: the line has more than 20 bytes: is the file text"
    ):
        next(blocks)
    if Path("/dev/zero").exists():
        with pytest.raises(SourceError, match="/dev/zero:1: the line has more than 20 bytes"):
            list(open_source("/dev/zero", format="svm").blocks(5, stop))


# Labels


@pytest.mark.parametrize(
    ("y", "label"),
    [
        *[
            (y, False)
            for y in (False, 0, -1, 0.0, -1.0, "0", "-1", "-1.0", " 0 ", "false", "FALSE")
        ],
        *[(y, True) for y in (True, 1, 1.0, "1", "+1", "1.0", "1e0", "true", "True", "tRuE")],
        *[(np.bool_(True), True), (np.int64(-1), False), (np.float32(1), True)],
    ],
)
def test_binary_labels(y, label):
    assert binary_label(y) is label


@pytest.mark.parametrize(
    ("y", "reason"),
    [
        (
            2.0,
            '^invalid label 2: recode labels 1/2 to 0/1 or -1/1, or use positive="2" '
            r"\(CSV, JSON, frames and dicts\), a regressor for numbers, or "
            "SoftmaxClassifier for more than two labels$",
        ),
        (
            "2",
            "^invalid label '2': recode labels 1/2 to 0/1 or -1/1, or use positive=.2. "
            r"\(CSV, JSON, frames and dicts\), a regressor for numbers, or "
            "SoftmaxClassifier for more than two labels$",
        ),
        (
            0.5,
            "^invalid label 0.5: it must be 0 or 1, -1 or 1, or true or false; use a regressor for",
        ),
        ("path", "^invalid label 'path': it must be 0 or 1"),
        ("yes", "^invalid label 'yes'"),
        ("", "^invalid label ''"),
        (math.nan, "^the label is missing$"),
        (math.inf, "^invalid label inf"),
        ([1], r"^invalid label \[1\]"),
        (None, "^the label is missing$"),
        ("x" * 1000, "^invalid label 'x{55}..."),
    ],
)
def test_invalid_binary_labels(y, reason):
    with pytest.raises(ValueError, match=reason):
        binary_label(y)


def test_number_labels():
    labels = [3, -2.5, "4", " 1e3 ", True, np.float64(0.5)]
    parsed = [number_label(y) for y in labels]
    assert parsed == [3.0, -2.5, 4.0, 1000.0, 1.0, 0.5]
    assert all(type(y) is float for y in parsed)


@pytest.mark.parametrize("y", [math.inf, "nan", "path", "1_0", "", [1], 10**400])
def test_invalid_number_labels(y):
    with pytest.raises(ValueError, match="invalid label .*: it must be a finite number"):
        number_label(y)
    with pytest.raises(ValueError, match="the label is missing"):
        number_label(None)
    with pytest.raises(ValueError, match="^the label is missing$"):
        number_label(math.nan)


# river


@pytest.mark.parametrize(
    ("name", "count", "parse_label"),
    [
        ("Phishing", 1250, binary_label),
        ("Bananas", 5300, binary_label),
        ("TrumpApproval", 1001, number_label),
        ("ChickWeights", 578, number_label),
        ("SP500Stocks", 1257, number_label),
    ],
)
def test_river_datasets_equal_river(name, count, parse_label):
    from river import datasets

    source = open_source(f"river:{name}")
    assert source.name == f"river:{name}"
    rows = rows_of(source, size=1000)
    expected = list(getattr(datasets, name)())
    assert [(x, y) for x, y, _ in rows] == expected
    assert len(rows) == count
    assert {type(y) for _, y, _ in rows} == {type(y) for _, y in expected}
    assert [parse_label(y) for _, y, _ in rows] == [float(y) for _, y in expected]
    assert lines_of(source) == list(range(1, count + 1))


def test_multiclass_river_datasets_fail_at_the_label():
    block = next(open_source("river:ImageSegments").blocks(1, stop))
    with pytest.raises(ValueError, match="invalid label 'path'"):
        binary_label(block.y[0])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("phishing", "not one of river's data sets .did you mean river:Phishing[?].: binary: Ban"),
        ("base", "river:base is not one of river's data sets"),
        ("", "river: is not one of river's data sets"),
        ("Elec2", r"river:Elec2 must be downloaded first, with .*Elec2\(\).download\(\)"),
        ("Yeast", "river:Yeast has several labels per example"),
        ("SolarFlare", "river:SolarFlare has several labels per example"),
        ("Music", "river:Music has several labels per example"),
        ("WaterFlow", "river:WaterFlow has the feature 'Time' of type datetime"),
    ],
)
def test_unsupported_river_datasets_are_rejected(name, reason, monkeypatch, tmp_path):
    monkeypatch.setenv("RIVER_DATA", str(tmp_path))
    with pytest.raises(SourceError, match=reason) as error:
        open_source(f"river:{name}")
    assert str(error.value).endswith(
        ": binary: Bananas, Phishing, Shuttle; "
        "regression: ChickWeights, SP500Stocks, TrumpApproval; multiclass: ImageSegments"
    )


def test_river_datasets_without_a_writable_directory(write, monkeypatch):
    monkeypatch.setenv("RIVER_DATA", f"{write('file', '')}/folder")
    with pytest.raises(SourceError, match="river:SMTP must be downloaded first"):
        open_source("river:SMTP")


def test_downloaded_river_datasets_are_read(monkeypatch):
    from river import datasets

    monkeypatch.setattr(datasets.Elec2, "is_downloaded", True)
    monkeypatch.setattr(datasets.Elec2, "_iter", lambda self: iter([({"day": 1}, True)]))
    assert rows_of(open_source("river:Elec2")) == [({"day": 1}, True, 1.0)]


# Round trips

finite_floats = st.floats(allow_nan=False, allow_infinity=False)
# Surrogates are excluded: they cannot be encoded as UTF-8.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def round_trip(path: Path, content: str, **options: Any) -> Rows:
    path.write_bytes(content.encode())
    compressed_path = path.with_name(f"{path.name}.gz")
    compressed_path.write_bytes(gzip.compress(content.encode()))
    rows = rows_of(open_source(path, **options), size=3)
    assert rows_of(open_source(compressed_path, **options), size=2) == rows
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("streams")


@given(
    rows=st.lists(
        st.tuples(
            st.dictionaries(st.integers(0, 2**63 - 1), finite_floats, max_size=6), finite_floats
        ),
        max_size=8,
    )
)
def test_svmlight_round_trip(folder, rows):
    content = "".join(
        f"{y} " + " ".join(f"{name}:{value}" for name, value in x.items()) + "\n" for x, y in rows
    )
    assert round_trip(folder / "a.svm", content) == [(x, y, 1.0) for x, y in rows]


@given(
    rows=st.lists(
        st.tuples(
            st.dictionaries(
                texts,
                finite_floats | st.integers(-(2**70), 2**70) | st.booleans() | st.none() | texts,
                max_size=6,
            ),
            finite_floats | st.booleans() | texts,
            st.floats(0, 1e300),
        ),
        max_size=8,
    ),
    ascii=st.booleans(),
)
def test_json_lines_round_trip(folder, rows, ascii):
    content = "".join(
        json.dumps({"x": x, "y": y, "w": w}, ensure_ascii=ascii) + "\n" for x, y, w in rows
    )
    assert round_trip(folder / "a.jsonl", content) == rows


cells = texts.filter(lambda cell: cell.strip())


@given(
    names=st.lists(cells, min_size=4, max_size=6, unique=True),
    rows=st.lists(
        st.tuples(
            st.lists(finite_floats | st.none(), min_size=2, max_size=2), cells, cells, finite_floats
        ),
        max_size=8,
    ),
)
def test_csv_round_trip(folder, names, rows):
    label, country, first_name, second_name = names[:4]
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    writer.writerow([first_name, country, label, second_name])
    for (first, second), text_cell, y, _ in rows:
        writer.writerow([first, text_cell, y, second])
    options = {"target": label, "categorical": [country], "missing": [], "header": True}
    parsed = round_trip(folder / "a.csv", out.getvalue(), **options)
    assert parsed == [
        ({first_name: first, country: text_cell, second_name: second}, y.strip(), 1.0)
        for (first, second), text_cell, y, _ in rows
    ]


@given(
    st.lists(
        st.sampled_from([*b'0123456789.-+e:,#{}[]"\\ \t\r\n\n\n', 0xFF, 0xC3, 0xA9, 0])
        | st.sampled_from(
            [b"1 1:1\n", b'{"x": {', b'"y": 1}', b"a,y\n", b"true", b"NaN", b"\\ud8"]
        ),
        max_size=60,
    )
)
def test_any_content_is_read_or_rejected(folder, fragments):
    content = b"".join(
        bytes([fragment]) if isinstance(fragment, int) else fragment for fragment in fragments
    )
    path = folder / "any"
    path.write_bytes(b"a,y\n" + content)
    lines = content.count(b"\n") + 2
    for format, options in [("svm", {}), ("vw", {}), ("jsonl", {}), ("csv", {"target": "y"})]:
        rejected = Rejections()
        read = lines_of(open_source(path, format=format, **options), rejected)
        places = [int(place.rpartition(":")[2]) for place, _ in rejected]
        assert len({*read, *places}) == len(read) + len(places), "no line is both read and rejected"
        assert all(1 <= line <= lines for line in [*read, *places])


def test_blocks_compare_by_value():
    block = Block([{}], [1.0], None, "a.svm", [3])
    assert block == Block([{}], [1.0], None, "a.svm", [3])
    with pytest.raises(AttributeError):
        block.name = "b.svm"  # type: ignore[misc]


def test_ids_of_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"x": {}, "y": 1}\n{"x": {}, "y": 1, "id": "é"}\n{"x": {}, "y": 0}\n')
    blocks = list(open_source(path).blocks(2, pytest.fail))
    assert [block.ids for block in blocks] == [[None, "é"], None]
