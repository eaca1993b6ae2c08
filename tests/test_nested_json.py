"""Nested JSON lines parsed by a kernel, held to the plain reader of one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1 import ElasticNetClassifier
from streaml1.core.jit import COMPILED
from streaml1.sources.readers.flat_json import JsonRoles, parse_flat
from streaml1.sources.readers.flat_json_parser import FlatJsonParser
from streaml1.sources.readers.named_lines import flatten_features
from streaml1.sources.readers.parsed_lines import ParsedChunk, pad_text
from streaml1.text.json_members import MAX_LEVELS
from streaml1.text.parsed_rows import NamedRows
from streaml1.training import progressive

pytestmark = pytest.mark.skipif(not COMPILED, reason="kernels are not compiled")

Found = list[tuple[int, Any]]
"""Line and example, or line and error."""


def by_line(text: bytes, roles: JsonRoles, require_label: bool) -> Found:
    """Return what `parse_flat` makes of each line."""
    found: Found = []
    for number, line in enumerate(text.split(b"\n")):
        try:
            example = parse_flat(line.decode(), roles, require_label)
        except UnicodeDecodeError:
            found.append((number, "not UTF-8"))
        except ValueError as error:
            found.append((number, str(error)))
        else:
            if example is not None:
                x, y, w, *ids = example
                found.append((number, (_sums(zip(*flatten_features(x), strict=True)), y, w, *ids)))
    return found


def by_chunk(parsed: ParsedChunk) -> Found:
    """Return what the kernels have made of each line."""
    found: Found = [(line, e if "UTF-8" not in e else "not UTF-8") for line, e in parsed.faults]
    assert isinstance(parsed.x, NamedRows)
    _, values, indptr = parsed.x.csr()
    names = parsed.x.feature_names(slice(None))
    for row, (lo, hi) in enumerate(zip(indptr[:-1], indptr[1:], strict=True)):
        x = _sums(zip(names[lo:hi], values[lo:hi].tolist(), strict=True))
        w = 1.0 if parsed.w is None else parsed.w[row]
        id = None if parsed.ids is None else parsed.ids[row]
        found.append((int(parsed.lines[row]), (x, parsed.y[row], w, *([] if id is None else [id]))))
    return sorted(found, key=lambda pair: pair[0])


def _sums(pairs: Iterator[tuple[str, float]]) -> dict[str, float]:
    x: dict[str, float] = {}
    for name, value in pairs:
        x[name] = x.get(name, 0.0) + value
    return x


def assert_equal(text: bytes, roles: JsonRoles, require_label: bool = True) -> ParsedChunk:
    parser = FlatJsonParser(roles, require_label)
    parser._nested = True  # as after a chunk with nested lines
    parsed = parser.read(text)
    assert by_chunk(parsed) == by_line(text, roles, require_label)
    lines = text.split(b"\n")
    for row, line in enumerate(parsed.lines.tolist()):
        assert parsed.ends[row] == sum(len(before) + 1 for before in lines[: line + 1])
        assert parsed.x.line(row).rstrip() == lines[line].rstrip()
    return parsed


def kernel_rows(line: bytes, roles: JsonRoles | None = None) -> dict[str, float] | None:
    """Return the features that the kernel finds in a line; None if it leaves the line to Python."""

    def leave(text: str, require_label: bool) -> Any:
        raise ValueError("left to Python")

    parser = FlatJsonParser(roles or JsonRoles("y"), require_label=False)
    parser._nested = True
    parser.parse_line = lambda _: leave("", False)
    parsed = parser.read(line)
    if parsed.faults:
        return None
    assert isinstance(parsed.x, NamedRows)
    _, values, _ = parsed.x.csr()
    return dict(zip(parsed.x.feature_names(slice(None)), values.tolist(), strict=True))


def lines_of(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


names = st.sampled_from(["a", "b", "y", "x", "id", "a.b", "0", "", "é", "long_name_of_a_member"])
scalars = st.one_of(
    st.sampled_from([None, True, False, 0, 1, -1.5, 1e300, 2**70]),
    st.sampled_from(["", "s", "a=b", "é", 'q"\\', ",}", "12", "0", "-1.5", "3%", "NULL", "1e300"]),
    st.integers(-1000, 1000), st.floats(-1e6, 1e6), st.text(max_size=12),
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(names, values, max_size=5)
paths = st.sampled_from(["a", "b", "y", "a.b", "a.a.b", "x.y", "b.0", "a=s", "é", "id"])


@st.composite
def lines(draw: Any) -> bytes:
    spaces = draw(st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]))
    is_ascii = draw(st.booleans())
    text = json.dumps({"y": 1} | draw(objects), separators=spaces, ensure_ascii=is_ascii)
    if draw(st.integers(0, 5)) == 0:  # damage it
        cut = draw(st.integers(0, len(text)))
        text = (
            text[:cut]
            + draw(st.sampled_from(["", ",", "}", "]", '"', " ", "{", "\t"]))
            + text[cut:]
        )
    return text.encode().replace(b"\n", b" ") + draw(st.sampled_from([b"", b"", b"\r", b" "]))


@st.composite
def roles(draw: Any) -> JsonRoles:
    free = [*draw(st.permutations(["a", "b", "y", "a.b", "a.a.b", "b.0", "a=s", "é", "id"]))]
    target = "y" if draw(st.booleans()) else free[0]
    rest = [name for name in free if name != target]
    weight = rest.pop() if draw(st.integers(0, 7)) == 0 else None
    id = rest.pop() if draw(st.integers(0, 3)) == 0 else None
    sizes = [draw(st.integers(0, 2)) for _ in range(3)]
    ignore, categorical, numeric = (
        frozenset(rest[sum(sizes[:k]) : sum(sizes[: k + 1])]) for k in range(3)
    )
    return JsonRoles(target, weight, id, ignore, categorical, numeric=numeric)


@given(st.lists(lines(), min_size=1, max_size=8), roles(), st.booleans())
def test_kernels_equal_reading_line_by_line(
    found: list[bytes], roles: JsonRoles, require_label: bool
) -> None:
    assert_equal(b"\n".join(found) + b"\n", roles, require_label)


@given(st.lists(lines(), min_size=1, max_size=4))
def test_lines_without_a_target(found: list[bytes]) -> None:
    # A line with an object x is an example of another form.
    text = b'{"a": {"b": 1}}\n' + b"\n".join(found) + b"\n"
    assert_equal(text, JsonRoles(), False)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"y":1,"a":{"b":2}}', {"a.b": 2}),
        ('{"a" : { "b" : 2 , "c" : { "d" : "e" } } }', {"a.b": 2, "a.c.d=e": 1}),
        ('{"a":["x","y"],"b":"x"}', {"a=x": 1, "a=y": 1, "b=x": 1}),
        ('{"a":[1,null,true,-2.5]}', {"a.0": 1, "a.2": 1, "a.3": -2.5}),
        ('{"a":[{"b":1},{"b":"x"}]}', {"a.0.b": 1, "a.1.b=x": 1}),
        ('{"a":[[1],["x"],[]]}', {"a.0.0": 1, "a.1=x": 1}),
        ('{"a":{},"b":[],"c":{"":{"d":1}}}', {"c..d": 1}),
        ('{"a":{"b":null,"c":0,"d":false}}', {}),
        ("{}", {}),
        ('{{"a":[{}]}}'.format(",".join("7" * 101)), {f"a.{k}": 7 for k in range(101)}),
        ('{"a":[0' + ",0,7" * 800 + "]}", {f"a.{k}": 7 for k in range(2, 1601, 2)}),
    ],
)
def test_the_kernel_finds_all_features(line: str, expected: dict[str, float]) -> None:
    assert kernel_rows(line.encode()) == expected


@pytest.mark.parametrize(
    "line",
    [
        b"[1]", b"1", b'{"a":{"b":1}}x', b'{"a":{"b":1},}', b'{"a":[1,]}', b'{"a":[1}',
        b'{"a":{"b":1]', b'{"a":{"b"}}', b'{"a":{"b":}}', b'{"a":{b:1}}', b'{"a":[1 2]}',
        b'{"a":{"\\u0062":1}}', b'{"a":["\\n"]}', b'{"a":\t{"b":1}}', b'{"a":[', b'{"a":[1"2"]}',
        b'{"a":{"b":"c', b'{"y":{"a":1}}', b"{", b'{"a":[nul]}', b'{,"a":1}', b'{"a":1,,"b":2}',
        b'{"a":{"b":1}}}', b'{"a":[[1]}', b'{"a":[1]]}', b'{"a":{"b":1 "c":2}}', b'{"a":["b" "c"]}',
        b'{"a":' + b"[" * 40 + b"]" * 40 + b"}", b'{"a":' + b"[" * 31, b'{"a":[1\\2,3]}',
    ],
)  # fmt: skip
def test_other_lines_are_left_to_python(line: bytes) -> None:
    assert kernel_rows(line) is None
    assert_equal(line + b"\n", JsonRoles("y"))


def test_names_that_occur_twice_are_rejected_as_by_python() -> None:
    text = b"".join(line + b"\n" for line in (
        b'{"y":1,"a":{"b":1},"a":{"c":1}}', b'{"y":1,"a":1,"a":{"b":1}}', b'{"y":1,"a":[],"a":{}}',
        b'{"y":1,"a":{"b":1,"b":2}}', b'{"y":1,"a.b":1,"a":{"b":2}}', b'{"y":1,"y":{"b":1}}',
        b'{"y":1,"a":[{"b":1,"b":2}]}', b'{"y":1,"a":null,"a":{"b":1}}',
    ))  # fmt: skip
    parsed = assert_equal(text, JsonRoles("y"))
    assert len(parsed.faults) == 8
    # Names inside what is ignored are not looked at.
    parsed = assert_equal(b'{"y":1,"a":{"b":1,"b":2}}\n', JsonRoles("y", ignore=frozenset("a")))
    assert not parsed.faults


@pytest.mark.parametrize("inside", [b"nul", b"01", b'"\xff"', b'"a', b"[1", b'{"b":}', b"1e999"])
def test_what_is_ignored_must_be_valid(inside: bytes) -> None:
    ignored = JsonRoles("y", ignore=frozenset(["a"]))
    assert_equal(b'{"y":1,"b":2,"a":{"c":%b}}\n' % inside, ignored)
    assert kernel_rows(b'{"y":1,"a":{"c":[1,"x",{"d":null}]},"b":2}', ignored) == {"b": 2}


def test_many_strings_and_many_paths() -> None:
    """Eight strings at a time are found around objects; names and paths have a common limit."""
    strings = {f"s{k}": "v" for k in range(20)}
    rows = [{"y": 1, **strings, "a": {"b": k}, **{f"t{k}": "w" for k in range(9)}} for k in (1, 2)]
    rows += [{"y": 1, "a": {}, **strings, "b": {"c": 1}}, {"y": 0, "a": [[]] * 30, **strings}]
    rows += [{"y": 0, "a": [[]] * n, **{f"s{k}": "v" for k in range(1500)}} for n in (500, 600)]
    assert not assert_equal(lines_of(rows), JsonRoles("y")).faults
    # The same names in another role: a path, then a feature.
    rows = [{"y": 1, "b": 2, "a": {"c": 1}}, {"y": 1, "b": 2, "a.c": 3, "a": 4}]
    for roles in (JsonRoles("y", ignore=frozenset("a")), JsonRoles("y")):
        assert_equal(lines_of(rows), roles)


def test_levels_paths_and_room() -> None:
    deep: Any = 1
    for _ in range(MAX_LEVELS - 1):
        deep = {"a": deep}
    line = json.dumps({"y": 1, "b": deep}).encode() + b"\n"
    assert_equal(line + line.replace(b'{"a": 1}', b'{"a": {"c": 1}}'), JsonRoles("y"))
    # Lines whose paths need more room than there is are left to Python.
    name = "n" * 500
    rows = [{"y": k % 2, name: {f"{name}{j}": j for j in range(20)}} for k in range(9)]
    rows += [{"y": 1, name: [0] * 50}, {"y": 1, "a": {"b": 1}}]
    parsed = assert_equal(lines_of(rows), JsonRoles("y"))
    assert not parsed.faults and len(parsed) == 11


def test_roles_inside_of_what_is_ignored_are_read() -> None:
    text = b'{"a": {"b": 1, "c": 2, "id": "r"}, "d": 3}\n'
    for roles in (
        JsonRoles("a.b", ignore=frozenset("a")),
        JsonRoles(id="a.id", ignore=frozenset("a")),
    ):
        assert_equal(text, roles, require_label=False)


def test_chunks_find_out_that_lines_are_nested() -> None:
    flat, nested = b'{"y": 1, "u": null}\n', b'{"y": 0, "u": {"a": 2}}\n'
    parser = FlatJsonParser(JsonRoles("y"))
    parser.read(flat * 100)
    parser.parse_chunk(pad_text(flat + nested * 20))  # by Python
    parser.parse_line = lambda line: pytest.fail(f"{line!r} was left to Python")
    assert len(parser.parse_chunk(pad_text(flat + nested * 20))) == 21
    parser.reset()  # at the beginning of a file the first line tells
    assert len(parser.parse_chunk(pad_text(nested + flat))) == 2


@pytest.mark.parametrize("make", [b"", b"\r"])
@pytest.mark.parametrize("line", [b'{"y": 1, "a": 2}', b'{"y": 1, "u": {"a": 2}}'])
def test_empty_lines_are_skipped(line: bytes, make: bytes) -> None:
    text = (make + b"\n").join([b"", b"", line, b"", line, b"", b""]) + b"\n"
    parsed = assert_equal(text, JsonRoles("y"))
    assert parsed.lines.tolist() == [2, 4] and parsed.n_lines == 7


NULLS = {"y": 1, "tags": ["a", None], "v": [1, None, 3], "w": [None, {"k": None, "l": [None]}]}


def test_null_elements_are_absent_in_every_source(tmp_path: Path) -> None:
    """A null element has no category; the numbers after it keep their index."""
    path, array = tmp_path / "a.jsonl", tmp_path / "a.json"
    path.write_bytes(lines_of([NULLS] * 2))
    array.write_text(json.dumps([NULLS] * 2))
    sources: list[Any] = [
        path,
        array,
        [NULLS] * 2,
        iter([NULLS] * 2),
        pa.Table.from_pylist([NULLS]),
    ]
    for source in sources:
        model = ElasticNetClassifier(lr=0.1)
        progressive(model, source, target="y")
        assert sorted(map(str, model.weights)) == ["tags=a", "v.0", "v.2"]


@pytest.mark.parametrize("paragraphs", [["Free prize", "win now"], ["Free prize"], []])
def test_lists_in_the_place_of_raw_text_are_categories(
    paragraphs: list[str], tmp_path: Path
) -> None:
    """Kernels took an element for the text of the row, and left out all others."""
    rows = [
        {"body": paragraphs, "mail": {"body": paragraphs}, "note": "So it goes", "y": 1},
        {"body": ["lunch"], "mail": {"body": ["see you"]}, "note": "so it ends", "y": 0},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    sources: list[Any] = [path, rows, pl.DataFrame(rows), pd.DataFrame(rows)]
    models = [ElasticNetClassifier(lr=0.5, text=["body", "mail.body", "note"]) for _ in sources]
    for model, source in zip(models, sources, strict=True):
        progressive(model, source, target="y")
    assert {"body=lunch", "mail.body=see you", "note=goes"} <= set(models[0].weights)
    assert {f"body={text}" for text in paragraphs} <= set(models[0].weights)
    for model in models[1:]:
        assert model.weights == models[0].weights
