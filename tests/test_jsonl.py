"""JSON lines: the fast parsers against the strict ones, and the features of flat lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1.sources import SourceError, open_source
from streaml1.sources.readers import flat_json, jsonl
from streaml1.sources.readers.flat_json import MISSING, JsonRoles, parse_flat
from streaml1.sources.readers.flat_json_parser import FlatJsonParser
from streaml1.sources.readers.jsonl import parse_json
from streaml1.training import predictions, progressive


def parse_strict(text: str) -> Any:
    """Return the result of the strict parser."""
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(jsonl, "_decode_fast", lambda text: None)
        return parse(text)


def parse(text: str) -> Any:
    try:
        return repr(parse_json(text))
    except ValueError as error:
        return f"rejected: {error}"


NAMES = st.sampled_from(["a", "b", "site:news", 'q"', "x", "y", "é", "\\", '":', "tab\t", "\ud800"])
NUMBERS = st.one_of(
    st.integers(-5, 5), st.integers(-(2**70), 2**70), st.floats(), st.sampled_from([1e400, -0.0])
)
VALUES = st.one_of(
    NUMBERS, st.booleans(), st.none(), st.sampled_from(["fr", '": ', "", 'a" :']),
    st.just([1]), st.just({"deep": 1}),
)  # fmt: skip
BLANKS = st.sampled_from(["", " ", "  ", "\t"])


@st.composite
def objects(draw: Any, names: Any, values: Any, max_pairs: int) -> str:
    """Draw an object as text, with repeated names and blanks in any position."""
    pairs = []
    for _ in range(draw(st.integers(0, max_pairs))):
        name, value = json.dumps(draw(names)), draw(values)
        text = value if isinstance(value, str) and value.startswith("{") else json.dumps(value)
        before, after = draw(BLANKS), draw(BLANKS)
        pairs.append(f"{name}{before}:{after}{text}")
    return "{" + ", ".join(pairs) + "}"


FEATURES = objects(NAMES, VALUES, 6)
LINES = st.one_of(
    objects(
        st.sampled_from(["x", "x", "y", "w", "id", "other"]),
        st.one_of(FEATURES, FEATURES, NUMBERS, st.sampled_from(["7", "v7"])), 5,
    ),
    st.builds(lambda x, y: f'{{"x": {x}, "y": {json.dumps(y)}}}', FEATURES, VALUES),
)  # fmt: skip


@given(LINES)
def test_fast_and_strict_parsers_agree(line: str) -> None:
    assert parse(line) == parse_strict(line)


@pytest.mark.parametrize(
    "line",
    [
        '{"x": {"a": 1, "a" :2}, "y": 1}',
        '{"x": {"a": 1, "a":\t2}, "y": 1}',
        '{"x": {"a": 1, "a"  :2}, "y": 1}',
        '{"x": {"a": 1, "b": "\\":"}, "y": 1}',
        '{"x": {"a": 1}, "x": {"b": 1}, "y": 1}',
        '{"x": {"a": 1}, "y": 1, "y" : 0}',
        '{"x": {"a": 18446744073709551616}, "y": 1, "id": 18446744073709551616}',
        '{"x": {"a": NaN}, "y": 1}',
        '{"x": {"a": 1e999}, "y": 1}',
        '{"x": {"a": "\\ud800"}, "y": 1}',
        "[1]",
        '{"x": {"a": 0.1, "b": 123456789012345678901234567890e-29}, "y": 0.30000000000000004}',
    ],
)
def test_irregular_lines(line: str) -> None:
    assert parse(line) == parse_strict(line)


def test_plain_lines_use_the_fast_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "_decode_strict", pytest.fail)
    line = json.dumps({"id": 7, "x": {"age": 31, "site": "a:b", "é": 0.5}, "y": True, "w": 2})
    assert parse_json(line) == ({"age": 31, "site": "a:b", "é": 0.5}, True, 2.0, 7)
    assert parse_json(line.replace(": ", ":").replace(", ", ",")) is not None


# Flat lines

EXAMPLE = {
    "clicked": 1, "site": "news", "age": 31, "new": True, "user": {"age": 3, "geo": {"zip": 94110}},
    "tags": ["a", "b", "a"], "vec": [0.1, 0, 2], "items": [{"price": 1.5}, {"price": None}],
    "mixed": [None, "p", False, [7, "q"], {}], "z": None, "segments": [12, 7, 12],
}  # fmt: skip


def test_features_of_flat_lines() -> None:
    roles = JsonRoles("clicked", categorical=frozenset({"segments", "user.geo", "age", "new"}))
    assert parse_flat(json.dumps(EXAMPLE), roles) == (
        {
            "site": "news", "age": "31", "new": "true", "user.age": 3, "user.geo.zip": "94110",
            "tags=a": 2.0, "tags=b": 1.0, "vec.0": 0.1, "vec.1": 0, "vec.2": 2,
            "items.0.price": 1.5, "mixed=p": 1.0, "mixed.2": False, "mixed.3.0": 7,
            "mixed.3=q": 1.0, "segments=12": 2.0, "segments=7": 1.0,
        }, 1.0, 1.0,
    )  # fmt: skip


FLAT = '{"y": 1, "w": 2, "user": {"y": 0, "id": "v7", "a": 5}, "b": [1, {"c": 3}]}'


@pytest.mark.parametrize(
    ("line", "roles", "parsed"),
    [
        (
            FLAT, JsonRoles("y", "w", "user.id", frozenset({"b", "user.y"})),
            ({"user.a": 5}, 1, 2, "v7"),
        ),
        (
            FLAT, JsonRoles("user.y", "y", "w", frozenset({"user"})),
            ({"b.0": 1, "b.1.c": 3}, 0, 1, 2),
        ),
        (FLAT, JsonRoles("b.1.c", ignore=frozenset({"user", "b.0"})), ({"y": 1, "w": 2}, 3, 1)),
        (
            '{"user.y": 1, "user": {"y": 0, "a": 5}}', JsonRoles("user.y"),
            ({"user.y": 0, "user.a": 5}, 1, 1),
        ),
        ('{"y": "spam", "id": 1.5, "w": 3}', JsonRoles("y", id="id"), ({"w": 3}, "spam", 1, "1.5")),
        ('{"y": true, "x": {"a": 1}}', JsonRoles("y"), ({"x.a": 1}, True, 1)),
        ('{"x": {"a": 1, "b": 2}, "y": 1, "n": 7}', JsonRoles(id="n"), ({"a": 1, "b": 2}, 1, 1, 7)),
        (
            '{"x": {"a": 1, "b": 2}, "y": 1}',
            JsonRoles(ignore=frozenset("a"), categorical=frozenset("b")), ({"b": "2"}, 1, 1),
        ),
        ('{"p": {"x": {"a": 1}, "y": 0}}', JsonRoles(at="p"), ({"a": 1}, 0, 1)),
        ('{"p": {"q": {"y": 0, "a": 1}}}', JsonRoles("y", at="p.q"), ({"a": 1}, 0, 1)),
        ('{"p.q": {"y": 0}, "p": {"q": {"y": 1}}}', JsonRoles("y", at="p.q"), ({}, 0, 1)),
        ('{"p": {"q": null}}', JsonRoles("y", at="p.q"), None),
        ('{"p": null}', JsonRoles("y", at="p.q"), None),
        (
            '{"y": 1, "a": 1.50, "b": -0, "c": 1e2}',
            JsonRoles("y", categorical=frozenset("abc")),
            ({"a": "1.50", "b": "-0", "c": "1e2"}, 1, 1),
        ),
        (
            '{"y": 1, "a": "12.50", "b": {"c": "7", "d": "e"}, "v": ["1", " 2%", "NULL", 3]}',
            JsonRoles("y", numeric=frozenset({"a", "b.c", "v"})),
            ({"a": 12.5, "b.c": 7, "b.d": "e", "v.0": 1, "v.1": 2, "v.3": 3}, 1, 1),
        ),
        (
            '{"y": 1, "a": 2.50, "b": true, "c": "", "d": "-$3", "e": null}',
            JsonRoles("y", numeric=frozenset("abcde")), ({"a": 2.5, "b": True, "d": -3}, 1, 1),
        ),
        (
            '{"x": {"a": "5", "b": "6", "c": "NA"}, "y": 1}',
            JsonRoles(numeric=frozenset("ac")), ({"a": 5, "b": "6", "c": None}, 1, 1),
        ),
        (f'{{"y": 1, "a": {10**20 + 1}}}', JsonRoles("y"), ({"a": 10**20 + 1}, 1, 1)),
        (" ", JsonRoles("y"), None),
    ],
)  # fmt: skip
def test_roles_of_members(line: str, roles: JsonRoles, parsed: Any) -> None:
    assert parse_flat(line, roles) == parsed


@pytest.mark.parametrize(
    ("line", "roles", "reason"),
    [
        ('{"y": 1, "a": 1, "a": 2}', JsonRoles("y"), "the name 'a' occurs twice in an object"),
        ('{"y": 1, "b": [{"a": 1, "a": 2}]}', JsonRoles("y"), "the name 'a' occurs twice in an"),
        ('{"y": 1, "a.b": 1, "a": {"b": 2}}', JsonRoles("y"), "'a.b' occurs twice, once as a path"),
        ('{"y": 1, "a=b": "c", "a": ["b"]}', JsonRoles("y"), "'a=b' occurs twice, once as a path"),
        ('{"y": 1, "a=b": 1, "a": ["b"]}', JsonRoles("y"), "'a=b' occurs twice, once as a path"),
        ('{"y": 1, "a": ["b", "b"], "a=b": 1}', JsonRoles("y"), "'a=b' occurs twice, once as a"),
        ('{"a": 1, "b": 2}', JsonRoles(), 'use target="NAME" to name the label of flat lines, or'),
        ('{"a": 1, "b": 2}', JsonRoles(), "; its members are: a, b"),
        ('{"a": 1, "b": 2}', JsonRoles("y"), "the label 'y' is missing: its members are: a, b"),
        ("{}", JsonRoles("y"), "the label 'y' is missing: it has no members"),
        (
            '{"p": {"q": {"y": 1}}}',
            JsonRoles("y"),
            '; use target="p.q.y", or at="p.q" if that object is the example',
        ),
        (
            '{"p": {"q": {"y": 1}}}',
            JsonRoles("y", at="p"),
            '; use target="q.y", or at="p.q" if that object is the example',
        ),
        ('{"y": null}', JsonRoles("y"), "the label 'y' is null"),
        ('{"y": [1.5]}', JsonRoles("y"), "label [1.5] is not a number, a string, true or false"),
        ('{"y": 1}', JsonRoles("y", "w"), "the weight 'w' is missing: its members are: y"),
        ('{"y": 1, "w": null}', JsonRoles("y", "w"), "weight must be a number >= 0, got None"),
        ('{"y": 1, "w": [2]}', JsonRoles("y", "w"), "weight must be a number >= 0, got [2]"),
        ('{"y": 1, "a": 1e999}', JsonRoles("y"), "feature 'a': inf is too large for a float"),
        ('{"y": 1, "a": NaN}', JsonRoles("y"), "NaN is not JSON: write null for a missing value"),
        ('{"y": 1, "a": ' + 64 * "[" + 64 * "]" + "}", JsonRoles("y"), "more than 64 levels deep"),
        ('{"y": ' + 9999 * "[" + 9999 * "]" + "}", JsonRoles("y"), "more than 64 levels deep"),
        (
            '{"y": 1, "a": {"b": "5 apples"}}',
            JsonRoles("y", numeric=frozenset("a")),
            "feature 'a.b': '5 apples' is not a number; leave it out of numeric=",
        ),
        ('{"y": 1}', JsonRoles("y", at="p.q"), "nothing at 'p.q': its members are: y"),
        ('{"p": [1]}', JsonRoles("y", at="p"), "[1] at 'p' is not an object of features"),
        ("[1]", JsonRoles("y"), "[1] is not an example: it must be an object of features"),
        ('{"y": 1, "a": "\\ud800"}', JsonRoles("y"), "is half of a surrogate pair"),
    ],
)
def test_invalid_flat_lines(line: str, roles: JsonRoles, reason: str) -> None:
    with pytest.raises(ValueError) as error:
        parse_flat(line, roles)
    assert reason in str(error.value)


def test_a_member_has_one_role() -> None:
    with pytest.raises(SourceError, match="'a' can have only one role, got target and ignored"):
        JsonRoles("a", ignore=frozenset("a"))
    with pytest.raises(SourceError, match="'a' can have only one role, got categorical and num"):
        JsonRoles("y", categorical=frozenset("a"), numeric=frozenset("a"))


def test_checkpoints_know_the_roles_that_are_given() -> None:
    assert "numeric" not in JsonRoles("y").identity
    assert JsonRoles("y", numeric=frozenset("ba")).identity["numeric"] == ["a", "b"]


def test_nesting_up_to_the_limit() -> None:
    line = '{"y": 1, "a": ' + 62 * "[" + "7" + 62 * "]" + "}"
    assert parse_flat(line, JsonRoles("y")) == ({"a" + 62 * ".0": 7}, 1.0, 1.0)


def parse_flat_text(text: str, roles: JsonRoles, require_label: bool) -> Any:
    try:
        return repr(parse_flat(text, roles, require_label))
    except ValueError as error:
        return f"rejected: {error}"


NESTED = st.recursive(
    VALUES, lambda values: st.lists(values, max_size=3) | st.dictionaries(NAMES, values, max_size=3)
)
ROLES = [
    JsonRoles(),
    JsonRoles("y", "b", "a", frozenset({"x.a", "é"})),
    JsonRoles("x.y", categorical=frozenset({"a", "x"})),
    JsonRoles("y", at="x"),
]


@given(
    st.one_of(objects(NAMES, NESTED, 5), st.dictionaries(NAMES, NESTED).map(json.dumps)),
    st.sampled_from(ROLES),
    st.booleans(),
)
def test_fast_and_strict_parsers_of_flat_lines_agree(
    line: str, roles: JsonRoles, require_label: bool
) -> None:
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(flat_json, "_parse_fast", lambda *arguments: MISSING)
        strict = parse_flat_text(line, roles, require_label)
    assert parse_flat_text(line, roles, require_label) == strict


def test_regular_flat_lines_use_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat_json, "_read_line", pytest.fail)
    roles = JsonRoles("clicked", "n", "id", frozenset({"t"}), frozenset({"zip", "new"}))
    lines = [
        '{"id": "v1", "clicked": true, "site": "news", "zip": 94110, "new": false, "n": 2, "t": 1}',
        '{"site": "mail", "zip": null, "age": 0, "clicked": "spam", "n": 1.5, "id": 7, "t": "x"}',
    ]
    parsed = FlatJsonParser(roles).read("\n".join(lines).encode())
    assert parsed.x.feature_names(slice(None)) == [
        "site=news",
        "zip=94110",
        "new=false",
        "site=mail",
    ]
    assert parsed.x.indptr.tolist() == [0, 3, 4] and parsed.w is not None
    assert (parsed.y, parsed.w.tolist(), parsed.ids) == ([True, "spam"], [2.0, 1.5], ["v1", 7])


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    def write(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def flat_lines(n: int) -> str:
    rows = (
        {"clicked": k % 2, "site": f"s{k % 3}", "user": {"n": k}, "id": f"v{k}"} for k in range(n)
    )
    return "".join(f"{json.dumps(row)}\n" for row in rows)


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.json"])
def test_flat_files(write: Callable[[str, str], str], name: str) -> None:
    path = write(name, flat_lines(9))
    [block] = open_source(path, target="clicked", id="id").blocks(100, pytest.fail)
    assert block.ids == [f"v{k}" for k in range(9)] and block.x[4] == {"site": "s1", "user.n": 4}
    model, reference = streaml1.ElasticNetClassifier(), streaml1.ElasticNetClassifier()
    progressive(model, path, target="clicked", ignore="id")
    for k, x in enumerate(block.x):
        reference.learn_one(x, bool(k % 2))
    assert model.weights == reference.weights
    predicted = predictions(model, path, ignore="clicked", id="id")
    assert [found.id for found in predicted] == [f"v{k}" for k in range(9)]
    assert [found.id for found in predictions(model, path, ignore=["id", "clicked"])] == [None] * 9


def test_flat_lines_without_target_can_only_be_predicted(write: Callable[[str, str], str]) -> None:
    path = write("a.jsonl", '{"a": 1}\n{"x": {"a": 1}}\n{"x": 1}\n')
    [block] = open_source(path, require_label=False).blocks(100, pytest.fail)
    assert list(block.x) == [{"a": 1}, {"a": 1}, {"x": 1}]
    rejected: list[str] = []
    assert not list(open_source(path).blocks(100, lambda place, why: rejected.append(why)))
    assert 'use target="NAME"' in rejected[0] and 'has no "y"' in rejected[1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[[1, 2], [3, 4]]", r"is one array of arrays, .*jq -r '\.\[\] \| @csv'"),
        ("[\n [1, 2]\n]", "is one array of arrays"),
        ('{"columns": ["a"],\n "index": [0], "data": [[1]]}', "is one table, .*to_json"),
    ],
)
def test_json_files_without_lines_are_rejected(
    write: Callable[[str, str], str], text: str, reason: str
) -> None:
    source = open_source(write("a.json", text), target="a")
    for _ in range(2):
        with pytest.raises(SourceError, match=rf"a\.json {reason}"):
            list(source.blocks(100, lambda *fault: None))
