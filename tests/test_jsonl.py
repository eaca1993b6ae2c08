"""JSON lines: the fast parser against the strict one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1.sources.readers import jsonl
from streaml1.sources.readers.jsonl import parse_json


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
