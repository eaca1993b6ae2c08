"""CSV files by a kernel, and by Python what is out of the ordinary."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import COMPILED
from streaml1.sources.readers.csv_schema import (
    Columns,
    More,
    Records,
    TextLines,
    check_roles,
    header_of,
    listed,
)
from streaml1.sources.readers.label_texts import LabelTexts
from streaml1.sources.readers.named_lines import coding_of, plain
from streaml1.sources.readers.parsed_lines import Parsed, padded
from streaml1.sources.source import SourceError
from streaml1.text import csv
from streaml1.text.byte_names import UNKNOWN
from streaml1.text.numbers import TABLE
from streaml1.text.parsed_rows import NamedRows
from streaml1.text.patch_rows import mended
from streaml1.text.structural_index import PAD, SPARE

__all__ = ["CsvParser"]

FEW = 256
"""Labels of so many kinds, short ones, are told apart by the kernel."""

OPEN_MOST = 2**18
"""So many bytes of a record that may be open are read with care: it may end in an error."""


class _Room(NamedTuple):
    """Memory for what some bytes may hold."""

    text: Any  # and, from the names on, those of columns and categories
    positions: Any
    kinds: Any
    hashes: Any
    values: Any
    spans: Any
    labels: Any
    w: Any
    indptr: Any
    lines: Any
    begins: Any
    ends: Any
    after: Any


def _room(letters: float, columns: int, n: int) -> _Room:
    most = n // 2 + 2
    text = np.empty(int((2 + letters) * n) + columns + 4 * PAD + 256, np.uint8)
    positions, kinds = np.empty(n + SPARE, np.uint32), np.empty(n + SPARE, np.uint8)
    hashes, values, spans = np.empty(most, np.uint64), np.empty(most), np.empty(most, np.uint64)
    labels, w = np.empty((most, 2), np.int64), np.empty(most)
    counts = (np.empty(most, np.int64) for _ in range(5))
    return _Room(text, positions, kinds, hashes, values, spans, labels, w, *counts)


class CsvParser:
    """Reads CSV files: a header, then records, by a kernel; what is out of the ordinary by Python.

    Parameters
    ----------
    name
        The file, for a sentence about it.
    target
        The column of the labels.
    categorical
        The columns whose cells are text; all others hold numbers. An empty cell is None.
    weight
        The column of the sample weights; without one each weight is 1.
    require_label
        Whether a label that is missing, the column or a cell, is an error; else it is None.
    ignore
        The columns that are left alone.
    delimiter
        What stands between cells.
    text
        Columns of text too, which a model makes words of.
    """

    quick = COMPILED

    def __init__(
        self,
        name: str,
        target: str | None = None,
        categorical: Iterable[str] = (),
        weight: str | None = None,
        require_label: bool = True,
        ignore: Iterable[str] = (),
        delimiter: str = ",",
        text: Iterable[str] = (),
    ) -> None:
        self._name = name
        self._target, self._weight = target, weight
        self._words = tuple(dict.fromkeys(text))
        self._text = list(dict.fromkeys([*categorical, *self._words]))
        self.texts: tuple[str, ...] | None = tuple(self._text)
        self._require_label = require_label
        self._ignored = list(dict.fromkeys(ignore))
        self._delimiter = delimiter
        self.mark = np.uint64(ord(delimiter))
        self.roles: Mapping[str, Any] = {
            "target": target, "weight": weight, "categorical": sorted(self._text),
            "ignore": sorted(self._ignored), "delimiter": delimiter,
        }  # fmt: skip
        self.begin()

    def begin(self) -> None:
        """Have what is read next be the beginning of the file."""
        self._columns: Columns | None = None
        self._left = b""  # of a record that goes on
        self._number = 0  # lines before it

    def skip(self, text: Any) -> None:
        """Go past lines; the header may be among them."""
        if self._columns is None:
            self._left += text.tobytes()
            lines = self._header(self._left, at_end=False)
            if lines is None:
                return
            self._number += self._left.count(b"\n")
            self._left = b""
        else:
            self._number += int(np.count_nonzero(text == 10))

    def read(self, text: bytes) -> Parsed:
        """Read a whole file."""
        self.begin()
        buffer, lo, hi, _ = padded(text)
        return self._read(buffer[lo:hi], at_end=True)

    def read_at(self, buffer: Any, lo: int, hi: int, free: int) -> Parsed:
        """Read lines within a buffer, and before them what was left of those before."""
        return self._read(buffer[lo:hi], at_end=False)

    def finish(self) -> Parsed | None:
        """Read what was left at the end of the file."""
        if self._columns is not None and not self._left:
            return None
        return self._read(np.empty(0, np.uint8), at_end=True)

    def one(self, record: bytes) -> tuple[dict[Any, Any], str | None, float]:
        """Read a record: features, label and weight."""
        assert self._columns is not None
        for _, cells in self.records(TextLines(record)):
            return self._columns.example(cells)
        raise AssertionError("no record")

    def records(self, lines: TextLines) -> Records:
        """The records of some lines."""
        return Records(lines, self._delimiter)

    def _read(self, new: Any, at_end: bool) -> Parsed:
        begun = None
        if self._columns is None:
            whole = self._left + new.tobytes()
            begun = self._header(whole, at_end)
            if begun is None:
                self._left = whole
                return Parsed([], [], None, NONE, NONE, [], 0, text=new[:0])
        columns = self._columns
        assert columns is not None
        n = len(self._left) + len(new)
        if not COMPILED or columns.has_twins or n >= 2**29 or not n:
            text = self._left + new.tobytes()
            reading: _Slow | _Fast = _Slow(self, columns, text, self._number, at_end)
        else:
            reading = _Fast(self, columns, new, at_end)
        if begun is not None:
            reading.at, reading.line = begun.at, begun.number
        parsed = reading.parsed()
        self._left = reading.rest()
        self._number += parsed.n_lines
        return parsed

    def _header(self, text: bytes, at_end: bool) -> TextLines | None:
        """Read the header, if it is whole; the lines of it are read then."""
        lines = TextLines(text, at_end=at_end)
        try:
            header = header_of(self.records(lines), self._name)
        except More:
            return None
        if self._target is None and self._require_label:
            raise SourceError(
                f"{self._name}: which column is the label? Say --target COLUMN; {listed(header)}"
            )
        check_roles(header, list(self._asked()), self._name)
        self._columns = Columns(
            header, self._target, self._weight, frozenset(self._text), self._require_label,
            frozenset(self._ignored),
        )  # fmt: skip
        return lines

    def _asked(self) -> Iterator[tuple[str, str]]:
        """What columns are asked for as, each with its column; of text it may be both."""
        alone = ("target", self._target), ("weight", self._weight)
        yield from ((role, column) for role, column in alone if column is not None)
        for column in self._text:
            yield "text" if column in self._words else "categorical", column
        yield from (("ignored", column) for column in self._ignored)


NONE = np.zeros(0, np.int64)


class _Slow:
    """A reading of a text by Python alone, up to a record that goes on."""

    def __init__(
        self, parser: CsvParser, columns: Columns, text: bytes, number: int, at_end: bool
    ) -> None:
        self.at = self.line = 0
        self._parser, self._columns = parser, columns
        self._text = text
        self._number = number
        self._at_end = at_end

    def rest(self) -> bytes:
        """What is not read."""
        return self._text[self.at :]

    def parsed(self) -> Parsed:
        """The examples."""
        rows: list[tuple[Any, ...]] = []
        faults: list[tuple[int, str]] = []
        places: list[tuple[int, int, int]] = []
        lines = TextLines(self._text, self.at, self._number + self.line, self._at_end)
        try:
            for first, record in self._parser.records(lines):
                first -= self._number + 1
                try:
                    rows.append(self._columns.example(record))
                    places.append((first, lines.at, lines.number - self._number))
                except ValueError as error:
                    faults.append((first, str(error)))
                self.at, self.line = lines.at, lines.number - self._number
        except More:
            pass
        else:
            self.at, self.line = lines.at, lines.number - self._number
        x, y, w = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
        weights = None if all(one == 1.0 for one in w) else np.array(w)
        first_lines, ends, after = np.array(places, np.int64).reshape(-1, 3).T
        text = np.frombuffer(self._text[: self.at], np.uint8)
        return Parsed(x, y, weights, first_lines, ends, faults, self.line, None, text, after)


class _Fast:
    """A reading by the kernel, and where it ends by Python."""

    def __init__(self, parser: CsvParser, columns: Columns, new: Any, at_end: bool) -> None:
        left = np.frombuffer(parser._left, np.uint8)
        self.at = self.line = 0
        self._parser, self._columns = parser, columns
        self._at_end = at_end
        self._n = n = len(left) + len(new)
        self._room = room = _room(columns.letters, len(columns.names), n)
        self._text = text = room.text[PAD : PAD + n]
        text[: len(left)] = left
        text[len(left) :] = new
        names = columns.names
        self._names = n + PAD  # where those of categories begin
        room.text[PAD + self._names :][: len(names)] = names
        self._raw: bytes | None = None  # the text, once it is asked for

    def rest(self) -> bytes:
        """What is not read."""
        return bytes(self._text[self.at :].tobytes())

    def parsed(self) -> Parsed:
        """The examples."""
        state = np.zeros(csv.STATE, np.int64)
        state[csv.AT], state[csv.LINE] = self.at, self.line
        found: list[tuple[int, list[str], list[float]]] = []
        labels: dict[int, str | None] = {}
        faults: list[tuple[int, str]] = []
        coding = UNKNOWN
        while True:
            status = self._go_on(state, coding)
            if status == csv.UNREAD:
                coding = coding_of(self._text)
                continue
            few = self._n - state[csv.AT] < OPEN_MOST
            if status == csv.DONE or (status == csv.OPEN and few and not self._at_end):
                break
            if not self._one(state, found, labels, faults):
                break
        self.at, self.line = int(state[csv.AT]), int(state[csv.LINE])
        return self._told(state, found, labels, faults)

    def _go_on(self, state: Any, coding: Any) -> int:
        room, text = self._room, self._room.text
        start = text.ctypes.data + PAD
        first = self._names + len(self._columns.names)
        status = csv.rows(
            np.uint64(start), np.uint64(start + self._n), self._parser.mark, TABLE,
            self._parser._require_label, coding, self._columns.told(self._names), room.positions,
            room.kinds, room.hashes, room.values, np.uint64(start + first),
            np.uint64(start + len(text) - PAD), room.spans, room.labels, room.w, room.indptr,
            room.lines, room.begins, room.ends, room.after, state,
        )  # fmt: skip
        return int(status)

    def _one(
        self, state: Any, found: list[Any], labels: dict[int, Any], faults: list[tuple[int, str]]
    ) -> bool:
        """Read one record by Python; whether there was a whole one."""
        if self._raw is None:
            self._raw = self._text.tobytes()
        before, begin, row = self._parser._number, int(state[csv.AT]), int(state[csv.ROW])
        lines = TextLines(self._raw, begin, before + int(state[csv.LINE]), self._at_end)
        try:
            for first, record in self._parser.records(lines):
                line = first - before - 1
                try:
                    x, y, w = self._columns.example(record)
                except ValueError as error:
                    faults.append((line, str(error)))
                else:
                    room = self._room
                    room.lines[row], room.begins[row], room.ends[row] = line, begin, lines.at
                    room.after[row], room.w[row] = lines.number - before, w
                    room.labels[row] = 0
                    room.indptr[row + 1] = room.indptr[row]
                    found.append((row, *plain(x)))
                    labels[row] = y
                    state[csv.ROW] += 1
                break
        except More:
            return False
        state[csv.AT], state[csv.LINE] = lines.at, lines.number - before
        return lines.at < self._n

    def _told(
        self, state: Any, found: list[Any], labels: dict[int, Any], faults: list[tuple[int, str]]
    ) -> Parsed:
        room, n = self._room, int(state[csv.ROW])
        k = int(room.indptr[n])
        lines, ends, w, after = (a[:n] for a in (room.lines, room.ends, room.w, room.after))
        x = NamedRows(
            room.hashes[:k], room.values[:k], room.indptr[: n + 1], room.text[PAD:],
            room.spans[:k], self._text, room.begins[:n], ends, self._parser.one,
            self._columns.header, valued=not state[csv.LARGE], apart=self._columns.are_apart,
        )  # fmt: skip
        if found:
            x = mended(x, found, np.ones(n, bool))
        y = _labels(room.text[PAD:], room.labels[:n])
        if labels:
            y = _others(y, labels)
        weights = None if (w == 1.0).all() else w
        text = self._text[: self.at]
        return Parsed(x, y, weights, lines, ends, faults, self.line, None, text, after)


def _others(y: LabelTexts, labels: dict[int, str | None]) -> LabelTexts:
    """Labels, some of which are others, by their rows."""
    which = y.which.astype(np.int64)
    which[list(labels)] = len(y.texts) + np.arange(len(labels))
    return LabelTexts(which, [*y.texts, *labels.values()])


def _labels(text: Any, bounds: Any) -> LabelTexts:
    """The labels that stand between some bytes; None where that is nothing."""
    words, which = np.empty(FEW, np.uint64), np.empty(len(bounds), np.uint8)
    n = int(csv.few_texts(np.uint64(text.ctypes.data), bounds, words, which))
    if n <= FEW:
        raw = (int(word).to_bytes(8, "little").rstrip(b"\0") for word in words[:n])
        return LabelTexts(which, [one.decode() or None for one in raw])
    texts = [text[lo:hi].tobytes().decode() or None for lo, hi in bounds.tolist()]
    places = {one: k for k, one in enumerate(dict.fromkeys(texts))}
    return LabelTexts(np.array([places[one] for one in texts], np.int64), [*places])
