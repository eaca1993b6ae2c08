"""JSON files that have not one object per line, as JSON lines.

| file | lines |
|---|---|
| an array of objects | its objects |
| objects over several lines, one after the other, or with commas between | the objects |
| a bulk request of Elasticsearch | its documents, without the actions between them |
| objects whose array `--at` names, such as ``{"hits": {"hits": [...]}}`` | one for each element |

A scanner finds where objects begin and end; it decodes nothing, so that numbers keep their spelling
and invalid objects are rejected one by one. Of JSON lines, nothing but the beginning is looked at.
"""

from __future__ import annotations

import re
from json import JSONDecoder
from typing import Any, BinaryIO, NamedTuple, cast

import orjson

__all__ = ["json_lines"]

HEAD = 2**16
"""Bytes in which the first object must end; otherwise a line break shows that it has several
lines."""

READ_SIZE = 2**18

MAX_OBJECT = 2**26
"""Bytes of the largest object: a file that is not JSON must not fill the memory."""

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_TOKEN = re.compile(_STRING + rb'|["{}\[\]]', re.DOTALL)
"""What structure consists of; a quote alone begins a string whose end is missing."""

_decode = JSONDecoder().raw_decode

_BREAK = re.compile(rb"[ \t\r]*\n[ \t\r\n]*")

_ACTION = re.compile(rb'\{\s*"(index|create|update|delete)"\s*:\s*\{[^{}]*\}\s*\}')
"""An action of Elasticsearch, before its document."""

_NULLS = re.compile(rb"^(null\s*,\s*)+")
"""Elements before the first object of an array; Firebase writes a null for each unused number."""

BETWEEN = b" \t\r\n,\x1e\xef\xbb\xbf"
"""What may be between objects: also a record separator, and a byte order mark."""


def json_lines(file: BinaryIO, at: str | None = None) -> BinaryIO:
    r"""Return a file with one object per line, however `file` is laid out.

    Parameters
    ----------
    file
        The file at its beginning.
    at
        Path of the object that holds the example. If an array is there, or on the way, each of its
        elements is a line, inside of the objects that the path names.

    Examples
    --------
    >>> from io import BufferedReader, BytesIO
    >>> from streaml1.sources.readers.json_documents import json_lines
    >>> def lines_of(text, at=None):
    ...     file = json_lines(BufferedReader(BytesIO(text)), at)
    ...     space = bytearray(100)
    ...     return bytes(space[: file.readinto1(space)])
    >>> lines_of(b'[\n  {\n    "a": 1.50\n  },\n  {"a": 2}\n]')
    b'{ "a": 1.50 }\n{"a": 2}\n'
    >>> lines_of(b'{"n": 2, "hits": [{"a": 1}, {"a": 2}]}', at="hits")
    b'{"hits":{"a": 1}}\n{"hits":{"a": 2}}\n'
    """
    return cast(BinaryIO, _LineFile(file, at))


class _LineFile:
    """A file of JSON lines; the first read decides whether they are made from objects."""

    def __init__(self, file: Any, at: str | None) -> None:
        self._file, self._at = file, at
        self._is_decided = self._at_end = False
        self._objects: _Objects | None = None
        self._pending = memoryview(b"")

    def seekable(self) -> bool:
        """Return False."""
        return False

    def readinto1(self, destination: memoryview | bytearray) -> int:
        """Read bytes into memory and return how many; 0 at the end of the file."""
        if not self._is_decided:
            self._pending = memoryview(self._begin())
        while not self._pending:
            if self._objects is None:
                n: int = self._file.readinto1(destination)
                return n
            if self._at_end:
                return 0
            self._pending = memoryview(self._objects.lines(self._read(), self._at_end))
        n = min(len(destination), len(self._pending))
        destination[:n] = self._pending[:n]
        self._pending = self._pending[n:]
        return n

    def _read(self) -> bytes:
        space = bytearray(READ_SIZE)
        n = self._file.readinto1(space)
        self._at_end = n == 0
        return bytes(space[:n])

    def _begin(self) -> bytes:
        """Decide, and return the first bytes."""
        head, form = b"", None
        while form is None:
            head += self._read()
            form = _form_of(head, self._at, self._at_end)
        self._is_decided = True
        if not form.is_split:
            return head
        self._objects = _Objects(self._at, form.is_bulk)
        return self._objects.lines(head, self._at_end)


class _Form(NamedTuple):
    """How objects are written."""

    is_split: bool
    """Whether lines are to be made of them."""
    is_bulk: bool = False
    """Whether actions of Elasticsearch are between them."""


def _form_of(head: bytes, at: str | None, at_end: bool) -> _Form | None:
    """Return how a file is written, given its first bytes; None if more of them are needed."""
    text = head.lstrip(b" \t\r\n\xef\xbb\xbf")
    is_all = at_end or len(head) >= HEAD
    if text.startswith(b"\x1e"):
        return _Form(True)
    if text.startswith(b"["):
        inside = text[1:].lstrip()
        first = _NULLS.sub(b"", inside, count=1)
        return _Form(first[:1] in (b"{", b"]")) if first or is_all else None
    if not text.startswith(b"{"):
        return _Form(False) if text or is_all else None
    end = _object_end(text)
    if end is None:
        if b"\n" in text.rstrip():
            return _Form(True)
        return _Form(len(text) > 1) if is_all else None
    behind, newline, below = text[end:].partition(b"\n")
    if b"\n" in text[:end] or behind.lstrip(b", \t\r").startswith(b"{"):
        return _Form(True)
    if not newline and not is_all:
        return None
    if behind.strip() == b",":
        return _Form(True)
    if _ACTION.fullmatch(text[:end]):
        return _Form(True, is_bulk=True) if below.strip() or is_all else None
    return _Form(at is not None and _has_array(text[:end], at))


def _object_end(text: bytes) -> int | None:
    """Return where the object ends with which a text begins; None if it does not."""
    depth = 0
    for token in _TOKEN.finditer(text):
        match token[0]:
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]":
                depth -= 1
                if not depth:
                    return token.end()
            case b'"':
                return None
    return None


def _has_array(line: bytes, at: str) -> bool:
    """Return whether an object has an array at a path, or on the way."""
    try:
        return _holds_array(orjson.loads(line), at.split("."))
    except ValueError:
        return False


def _holds_array(value: Any, names: list[str]) -> bool:
    for name in names:
        if not isinstance(value, dict):
            return False
        value = value.get(name)
        if isinstance(value, list):
            return True
    return False


class _Objects:
    """Finds the objects in pieces of a text.

    Invariant: `_text` begins where the current object does, if there is one, else where the last
    one ended; all before `_scanned` was looked at, and `_depth` objects and arrays are open there.
    Objects of interest begin at the depth `_base`.
    """

    def __init__(self, at: str | None, is_bulk: bool) -> None:
        self._names = [] if at is None else at.split(".")
        self._is_bulk = is_bulk
        self._text = b""
        self._scanned = self._depth = self._base = 0
        self._is_inside = False  # whether `_text` begins with an object of interest
        self._outer: int | None = None  # the base outside of the array that `at` names
        self._open: list[tuple[bytes, bytes]] = []  # open objects and arrays, with their names
        self._last = b""  # the last token: the name of the next value, if it is a string
        self._wrapping = (b"", b"")
        self._lines: list[bytes] = []

    def lines(self, text: bytes, at_end: bool) -> bytes:
        """Return the objects that end in a further piece of text, as lines."""
        self._text += text
        self._lines = []
        begin, scanned = 0, self._scanned
        characters = self._text.decode("latin-1")  # one for each byte
        while (token := _TOKEN.search(self._text, scanned)) is not None:
            kind = token[0]
            if kind == b'"':  # the end of the string is missing
                scanned = token.start()
                break
            scanned = token.end()
            if kind == b"{" and self._depth == self._base and not self._is_inside:
                end = self._end_of(characters, token.start())
                if end is not None:
                    self._add(self._text[begin : token.start()])
                    self._add(self._text[token.start() : end], b" ")
                    begin = scanned = end
                    continue
            if kind in (b"{", b"["):
                begin = self._on_open(kind, begin, token.start(), token.end())
            elif kind in (b"}", b"]"):
                begin = self._on_close(begin, token.end())
            self._last = kind
        else:
            scanned = len(self._text)
        is_outside = not self._is_inside and self._depth > self._base
        begin = scanned if is_outside else begin
        self._text, self._scanned = self._text[begin:], scanned - begin
        if at_end or len(self._text) > MAX_OBJECT:
            self._add(self._text)
            self._text, self._scanned = b"", 0
        return b"".join(self._lines)

    def _end_of(self, characters: str, start: int) -> int | None:
        """Return where an object ends; None if it is incomplete, invalid or holds the array.

        Decoding it takes a fifth of the time of looking at its structure.
        """
        try:
            value, end = _decode(characters, start)
        except (ValueError, StopIteration, RecursionError):
            return None
        return None if self._names and _holds_array(value, self._names) else end

    def _on_open(self, kind: bytes, begin: int, start: int, end: int) -> int:
        """Handle the beginning of an object or array; return where `_text` is to begin."""
        if self._depth == self._base and not self._is_inside:
            self._add(self._text[begin:start])
            begin = start
            if kind == b"[" and not self._depth:
                self._base, begin = 1, end
            else:
                self._is_inside = True
                self._open = []
        elif self._names:
            self._open.append((kind, self._last))
            if kind == b"[" and self._outer is None and self._is_at_path():
                self._outer, self._base = self._base, self._depth + 1
                self._is_inside, begin = False, end
        self._depth += 1
        return begin

    def _is_at_path(self) -> bool:
        names = [name[1:-1].decode(errors="replace") for _, name in self._open]
        are_objects = all(kind == b"{" for kind, _ in self._open[:-1])
        if not are_objects or names != self._names[: len(names)]:
            return False
        self._wrapping = b"".join(b"{%b:" % name for _, name in self._open), b"}" * len(names)
        return True

    def _on_close(self, begin: int, end: int) -> int:
        """Handle the end of an object or array; return where `_text` is to begin."""
        self._depth = max(0, self._depth - 1)
        if self._depth == self._base:
            if self._is_inside:
                self._add(self._text[begin:end])
            self._is_inside = False
            return end
        if self._depth < self._base:  # the array of the objects
            self._add(self._text[begin : end - 1])
            self._base = 0 if self._outer is None else self._outer
            self._outer = None
            return end
        if self._open:
            self._open.pop()
        return begin

    def _add(self, text: bytes, space: bytes = b"\r") -> None:
        """Add a line: an object, or text between two objects, which is rejected later.

        Parameters
        ----------
        text
            The text.
        space
            What replaces line breaks. Unless the text is known to be valid, it must keep a string
            with a line break invalid.
        """
        text = text.strip(BETWEEN)
        if not text or (self._is_bulk and _ACTION.fullmatch(text)):
            return
        if b"\n" in text:
            text = _BREAK.sub(space, text)
        if self._outer is not None:
            head, tail = self._wrapping
            text = b"%b%b%b" % (head, text, tail)
        self._lines.append(text + b"\n")
