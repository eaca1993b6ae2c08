"""What CSV means here: records, columns with a label, with text and, all the rest, with numbers."""

from __future__ import annotations

import csv as plain_csv
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from streaml1.core.hashing import name_hashes
from streaml1.sources.readers.parsed_lines import decode
from streaml1.sources.source import SourceError, read_number, read_weight, shown
from streaml1.text import csv

__all__ = [
    "Columns", "More", "Records", "TextLines", "check_roles", "delimiter_of", "header_of", "listed",
]  # fmt: skip

DELIMITERS = {"\t": "tab", ";": "';'", "|": "'|'"}
"""What stands between cells, too, and how it is said."""


class More(Exception):
    """Raised where a record goes on behind what there is."""


class TextLines:
    """The lines of a text from a byte on, each with its number.

    Attributes
    ----------
    at, number : int
        Bytes and lines that were read.
    """

    def __init__(self, text: bytes, at: int = 0, number: int = 0, at_end: bool = True) -> None:
        self._text = text
        self.at = at
        self.number = number
        self._at_end = at_end

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        while self.at < len(self._text):
            begin = self.at
            self.at = self._text.find(b"\n", begin) + 1 or len(self._text)
            self.number += 1
            yield self.number, self._text[begin : self.at]
        if not self._at_end:
            raise More


class Records:
    """The records of a CSV file, each with the line it starts at.

    A record that cannot be read comes as the ValueError that says why, and the next line starts
    the next record.

    """

    def __init__(self, lines: TextLines, delimiter: str = ",") -> None:
        self._lines = lines
        self._reader = plain_csv.reader(self._decoded(), strict=True, delimiter=delimiter)
        self._first = self._last = 0
        self._undecodable: list[ValueError] = []

    def _decoded(self) -> Iterator[str]:
        for number, line in self._lines:
            self._first = self._first or number
            self._last = number
            try:
                text = decode(line)
            except ValueError as error:
                # Left out, the line could make one good record of two halves.
                self._undecodable.append(error)
                text = line.decode(errors="replace")
            yield text

    def __iter__(self) -> Iterator[tuple[int, list[str] | ValueError]]:
        while True:
            self._first, self._undecodable = 0, []
            try:
                record = next(self._reader)
            except StopIteration:
                return
            except plain_csv.Error as error:
                # What follows there is of Python's files.
                told = f"not CSV: {error}".partition(" - do you need to open")[0]
                if "field limit" in told:
                    told = f"a cell has more than {plain_csv.field_size_limit():,} characters"
                yield self._first, ValueError(f"{told}{self._extent()}")
                continue
            if self._undecodable:
                yield self._first, self._undecodable[0]
            elif len(record) > 1 or "".join(record).strip():
                yield self._first, record

    def _extent(self) -> str:
        if self._last == self._first:
            return ""
        return f" (the record goes on to line {self._last}: is a quote not closed?)"


def delimiter_of(said: str) -> str:
    """The character that is meant by a word; SourceError where it cannot stand between cells."""
    mark = "\t" if said in ("tab", "\\t") else said
    if len(mark) != 1 or not mark.isascii() or mark.isalnum() or mark in '"+-.\r\n\0':
        raise SourceError(
            f"delimiter {said!r} cannot stand between cells: it must be one character, none of "
            'letters, digits and "+-., or the word tab'
        )
    return mark


def header_of(records: Records, name: str) -> list[str]:
    """Read the names of the columns; SourceError where there are none."""
    for line, header in records:
        if isinstance(header, ValueError):
            raise SourceError(f"{name}:{line}: the header cannot be read: {header}")
        if "" in header:
            raise SourceError(
                f"{name}:{line}: column {header.index('') + 1} has no name: is it a row number? "
                "Name it or leave it out"
            )
        return header
    raise SourceError(f"{name} is empty: a CSV file begins with the names of its columns")


def check_roles(header: list[str], roles: Sequence[tuple[str, str]], name: str) -> None:
    """Raise SourceError where a column that has a role is missing, or not alone.

    `roles` are pairs of a role and a column.
    """
    for _, column in roles:
        if column not in header:
            raise SourceError(f"{name} has no column {column!r}; {listed(header)}")
        if header.count(column) > 1:
            raise SourceError(f"{name} has several columns {column!r}: give each a name")
        both = [role for role, other in roles if other == column]
        if len(both) > 1:
            raise SourceError(
                f"column {column!r} can be only one of what it is asked for: {' and '.join(both)}"
            )


def listed(header: list[str]) -> str:
    """Name the columns, in a sentence."""
    names = ", ".join(header[:20]) + (f" and {len(header) - 20} more" if header[20:] else "")
    if len(header) == 1:
        for mark, told in DELIMITERS.items():
            if mark in names:
                names += f"; where {told} stands between cells, say --delimiter {told}"
                break
    return f"the columns are: {names}"


class Columns:
    """What each column of a file is, and with it a record's features, label and weight."""

    def __init__(
        self,
        header: list[str],
        target: str | None,
        weight: str | None,
        text: frozenset[str],
        require_label: bool,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        self._width = len(header)
        self._target = None if target is None else header.index(target)
        self._weight = None if weight is None else header.index(weight)
        self._features = [
            (place, column, column in text)
            for place, column in enumerate(header)
            if column not in (target, weight, *ignored)
        ]
        self._require_label = require_label
        self.header = header
        names = [column for _, column, _ in self._features]
        self.has_twins = len(set(names)) < len(names)
        # A column "a=b" of numbers has the name of the text b in the column "a".
        self.are_apart = not self.has_twins and not any("=" in name for name in names)
        kinds: list[Any] = [csv.IGNORED] * len(header)
        for place, kind in ((self._target, csv.LABEL), (self._weight, csv.WEIGHT)):
            if place is not None:
                kinds[place] = kind
        for place, _, is_text in self._features:
            kinds[place] = csv.TEXT if is_text else 0
        texts = [
            f"{column}=" if kind == csv.TEXT else column
            for column, kind in zip(header, kinds, strict=True)
        ]
        # As the kernel wants them: the names one after the other.
        raw = [one.encode() for one in texts]
        self.names = np.frombuffer(b"".join(raw), np.uint8)
        sizes = np.array([len(one) for one in raw], np.uint64)
        begins = np.cumsum(sizes, dtype=np.uint64) - sizes
        heads = [int.from_bytes(one[:8], "little") for one in raw]
        self._told = np.array(
            [kinds, begins, sizes, name_hashes(texts), heads, _runs(kinds, sizes)], np.uint64
        )
        self.letters = len(self.names) / len(header)

    def told(self, begin: int) -> Any:
        """What `streaml1.text.csv.rows` takes, the names beginning so far behind the text."""
        told = self._told.copy()
        told[1] += np.uint64(begin)
        return told

    def example(self, record: list[str] | ValueError) -> tuple[dict[Any, Any], str | None, float]:
        """Features, label and weight."""
        if isinstance(record, ValueError):
            raise record
        if len(record) != self._width:
            raise ValueError(f"the line has {_cells(len(record))}, the header has {self._width}")
        x: dict[Any, Any] = {}
        for place, column, is_text in self._features:
            cell = record[place]
            if not cell or cell.isspace():
                x.setdefault(column, None)
            elif is_text:
                x[column] = cell
            else:  # a name that comes twice counts with the sum
                x[column] = _number(cell, column) + (x.get(column) or 0.0)
        w = 1.0 if self._weight is None else read_weight(record[self._weight])
        return x, self._label(record), w

    def _label(self, record: list[str]) -> str | None:
        if self._target is None:
            return None
        y = record[self._target].strip()
        if not y and self._require_label:
            column = self.header[self._target]
            raise ValueError(f"the label is missing: column {column!r} is empty")
        return y or None


def _runs(kinds: list[Any], sizes: Any) -> list[int]:
    """How many columns from each on are of text, with names of up to seven bytes."""
    runs = [0]
    for kind, size in zip(reversed(kinds), reversed(sizes.tolist()), strict=True):
        short = kind == csv.TEXT and size <= 8  # with an equals sign
        runs.append(runs[-1] + 1 if short else 0)
    return runs[:0:-1]


def _cells(count: int) -> str:
    return f"{count} cell" if count == 1 else f"{count} cells"


def _number(cell: str, column: str) -> float:
    try:
        return read_number(cell)
    except ValueError as error:
        raise ValueError(
            f"column {column!r}: {shown(cell)} {error}: "
            f"leave a missing value empty, or say --categorical {column} for text, or "
            f"--ignore {column}"
        ) from None
