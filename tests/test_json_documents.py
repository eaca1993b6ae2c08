"""JSON files in any layout become the same lines, however their bytes arrive."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from streaml1.sources.readers.json_documents import json_lines

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=4), min_size=2, max_size=6)
LAYOUTS: dict[str, Any] = {
    "lines": lambda xs: "\n".join(map(json.dumps, xs)),
    "array": json.dumps,
    "indented array": lambda xs: json.dumps(xs, indent=2),
    "array of a line each": lambda xs: "[\n" + ",\n".join(map(json.dumps, xs)) + "\n]\n",
    "indented objects": lambda xs: "\n".join(json.dumps(x, indent=1) for x in xs),
    "joined objects": lambda xs: "".join(map(json.dumps, xs)),
    "commas at the ends of lines": lambda xs: ",\n".join(map(json.dumps, xs)),
    "record separators": lambda xs: "".join("\x1e" + json.dumps(x) + "\n" for x in xs),
}


class Pieces:
    """A file whose reads return few bytes at a time."""

    def __init__(self, text: bytes, size: int) -> None:
        self._text, self._size = text, size

    def readinto1(self, destination: Any) -> int:
        n = min(self._size, len(destination), len(self._text))
        destination[:n], self._text = self._text[:n], self._text[n:]
        return n


def lines_of(text: bytes, size: int, at: str | None = None) -> list[Any]:
    """Return the objects of all lines."""
    file: Any = json_lines(Pieces(text, size), at)  # type: ignore[arg-type]
    space, read = bytearray(64), b""
    while n := file.readinto1(space):
        read += space[:n]
    return [json.loads(line) for line in read.split(b"\n") if line]


@pytest.mark.parametrize("layout", LAYOUTS)
@given(xs=OBJECTS, size=st.integers(1, 200))
def test_layouts_have_the_same_objects(layout: str, xs: list[Any], size: int) -> None:
    assume(xs[0])  # an empty first object has one line in all layouts
    text = LAYOUTS[layout](xs)
    assert lines_of(text.encode(), size) == xs


@given(xs=OBJECTS, size=st.integers(1, 200), indent=st.none() | st.just(2))
def test_elements_of_an_inner_array_keep_their_path(
    xs: list[Any], size: int, indent: int | None
) -> None:
    text = json.dumps({"took": 3, "hits": {"total": [1], "hits": xs}, "after": [{}]}, indent=indent)
    assert lines_of(text.encode(), size, "hits.hits") == [{"hits": {"hits": x}} for x in xs]
