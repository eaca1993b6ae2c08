"""CSV files: columns with a label, with text and, all the rest, with numbers."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from typing import Any

from streaml1.streams.parsed import decode
from streaml1.streams.source import (
    Example,
    Refuse,
    SourceError,
    read_number,
    read_weight,
    shown,
)
from streaml1.streams.text import Lines, Reader

__all__ = ["csv_reader"]


def csv_reader(
    target: str | None = None,
    categorical: Iterable[str] = (),
    weight: str | None = None,
    require_label: bool = True,
) -> Reader:
    """Make the reader of CSV files with these columns.

    Parameters
    ----------
    target
        The column of the labels.
    categorical
        The columns whose cells are text; all others hold numbers. An empty cell is None.
    weight
        The column of the sample weights; without one each weight is 1.
    require_label
        Whether a label that is missing, the column or a cell, is an error; else it is None.

    """
    text = list(categorical)

    def read(lines: Lines, name: str, refuse: Refuse) -> Iterator[Example]:
        records = _Records(lines)
        header = _header(records, name)
        if target is None and require_label:
            raise SourceError(
                f"{name}: which column is the label? Say --target COLUMN; {_listed(header)}"
            )
        _check_roles(header, [role for role in (target, weight, *text) if role is not None], name)
        columns = _Columns(header, target, weight, frozenset(text), require_label)
        for line, record in records:
            try:
                x, y, w = columns.example(record)
            except ValueError as error:
                refuse(f"{name}:{line}", str(error))
                continue
            yield line, x, y, w

    return read


class _Records:
    """The records of a CSV file, each with the line it starts at.

    A record that cannot be read comes as the ValueError that says why, and the next line starts
    the next record.

    """

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._reader = csv.reader(self._decoded(), strict=True)
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
            except csv.Error as error:
                yield self._first, ValueError(f"not CSV: {error}{self._extent()}")
                continue
            if self._undecodable:
                yield self._first, self._undecodable[0]
            elif len(record) > 1 or "".join(record).strip():
                yield self._first, record

    def _extent(self) -> str:
        if self._last == self._first:
            return ""
        return f" (the record goes on to line {self._last}: is a quote not closed?)"


def _header(records: _Records, name: str) -> list[str]:
    for line, header in records:
        if isinstance(header, ValueError):
            raise SourceError(f"{name}:{line}: the header is {header}")
        if "" in header:
            raise SourceError(
                f"{name}:{line}: column {header.index('') + 1} has no name: is it a row number? "
                "Name it or leave it out"
            )
        return header
    raise SourceError(f"{name} is empty: a CSV file begins with the names of its columns")


def _check_roles(header: list[str], roles: list[str], name: str) -> None:
    for column in roles:
        if column not in header:
            raise SourceError(f"{name} has no column {column!r}; {_listed(header)}")
        if header.count(column) > 1:
            raise SourceError(f"{name} has several columns {column!r}: give each a name")
        if roles.count(column) > 1:
            raise SourceError(f"column {column!r} can be target, weight or categorical: only one")


def _listed(header: list[str]) -> str:
    names = ", ".join(header[:20])
    return f"the columns are: {names}" + (f" and {len(header) - 20} more" if header[20:] else "")


class _Columns:
    """What each column of a file is, and with it a record's features, label and weight."""

    def __init__(
        self,
        header: list[str],
        target: str | None,
        weight: str | None,
        text: frozenset[str],
        require_label: bool,
    ) -> None:
        self._width = len(header)
        self._target = None if target is None else header.index(target)
        self._weight = None if weight is None else header.index(weight)
        self._features = [
            (place, column, column in text)
            for place, column in enumerate(header)
            if column not in (target, weight)
        ]
        self._require_label = require_label
        self._header = header

    def example(self, record: list[str] | ValueError) -> tuple[dict[Any, Any], str | None, float]:
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
            column = self._header[self._target]
            raise ValueError(f"the label is missing: column {column!r} is empty")
        return y or None


def _cells(count: int) -> str:
    return f"{count} cell" if count == 1 else f"{count} cells"


def _number(cell: str, column: str) -> float:
    try:
        return read_number(cell)
    except ValueError as error:
        raise ValueError(
            f"column {column!r}: {shown(cell)} {error}: "
            f"leave a missing value empty, or say --categorical {column} for text"
        ) from None
