"""The records of a chunk of a CSV file, read by the kernel or by Python.

The kernel `streaml1.text.csv.parse_records` stops at each irregular record. Python's csv module
reads that one, and the kernel continues after it. Without compiled code, Python reads all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streaml1.core.types import Bytes, Ints
from streaml1.features.label_texts import LabelTexts
from streaml1.sources.readers.csv_schema import (
    Columns,
    IncompleteRecord,
    SkippedRecord,
    TextLines,
)
from streaml1.sources.readers.named_lines import flatten_features, utf8_state
from streaml1.sources.readers.parsed_lines import Chunk, ParsedChunk
from streaml1.text import csv
from streaml1.text.byte_names import UTF8_UNKNOWN
from streaml1.text.numbers import POWERS
from streaml1.text.parsed_rows import NamedRows, RowFeatures, insert_features
from streaml1.text.structural_index import PAD, SPARE

__all__ = ["KernelReading", "PythonReading", "Reading"]

MAX_CODES = 256
"""Up to this many distinct short labels are encoded by the kernel."""

MAX_RETAINED = 2**18
"""Bytes of an incomplete record that are retained. A longer one is read by Python, which reports an
error if its quote is never closed."""

OnSkipped = Callable[[int, SkippedRecord], None]
"""Gets the line of a record that is neither an example nor invalid, and what it is."""


class Reading(Protocol):
    """The parsing of one chunk."""

    offset: int
    """How many bytes are read."""
    line: int
    """How many lines are read."""

    def parse(self) -> ParsedChunk:
        """Parse the records up to an incomplete one."""

    def rest(self) -> bytes:
        """Return the bytes that are not read."""


class PythonReading:
    """Parse a chunk by Python alone, up to an incomplete record."""

    def __init__(
        self, columns: Columns, on_skipped: OnSkipped, text: bytes, number: int, at_end: bool
    ) -> None:
        self.offset = self.line = 0
        self._columns, self._on_skipped = columns, on_skipped
        self._text = text
        self._number = number
        self._at_end = at_end

    def rest(self) -> bytes:
        """Return the bytes that are not read."""
        return self._text[self.offset :]

    def parse(self) -> ParsedChunk:
        """Parse the records."""
        examples: list[tuple[Any, ...]] = []
        ids: list[int | str | None] = []
        faults: list[tuple[int, str]] = []
        positions: list[tuple[int, int, int]] = []
        lines = TextLines(self._text, self.offset, self._number + self.line, self._at_end)
        try:
            for number, record in self._columns.records(lines):
                first = number - self._number - 1
                try:
                    examples.append(self._columns.example(record))
                    if self._columns.id is not None and isinstance(record, list):
                        ids.append(self._columns.id_of(record))
                    positions.append((first, lines.offset, lines.number - self._number))
                except SkippedRecord as skipped:
                    self._on_skipped(number, skipped)
                except ValueError as error:
                    faults.append((first, str(error)))
                self.offset, self.line = lines.offset, lines.number - self._number
        except IncompleteRecord:
            pass
        else:
            self.offset, self.line = lines.offset, lines.number - self._number
        x, y, w = map(list, zip(*examples, strict=True)) if examples else ([], [], [])
        weights = None if all(weight == 1.0 for weight in w) else np.array(w)
        first_lines, ends, lines_after = np.array(positions, np.int64).reshape(-1, 3).T
        text = np.frombuffer(self._text[: self.offset], np.uint8)
        return ParsedChunk(
            x, y, weights, first_lines, ends, faults, self.line, ids or None, text, lines_after
        )


def _allocate(n: int, n_lines: int) -> csv.RecordArrays:
    """Allocate what the kernel writes for n bytes of text with `n_lines` newlines."""
    size = n // 2 + 2  # a cell has at least two bytes, but for the last one
    positions, kinds = np.empty(n + SPARE, np.uint32), np.empty(n + SPARE, np.uint8)
    hashes, values, spans = np.empty(size, np.uint64), np.empty(size), np.empty(size, np.uint64)
    # There are no more records than lines; the last line may lack its newline.
    labels, w = np.empty((n_lines + 2, 2), np.int64), np.empty(n_lines + 2)
    integers = (np.empty(n_lines + 2, np.int64) for _ in range(5))
    return csv.RecordArrays(positions, kinds, hashes, values, spans, labels, w, *integers)


class _PythonRecords(NamedTuple):
    """What Python has read of the irregular records in a chunk."""

    features: list[RowFeatures]
    labels: dict[int, str | None]
    faults: list[tuple[int, str]]


class KernelReading:
    """Parse a chunk by the kernel, which stops at irregular records for Python to read them."""

    def __init__(
        self, columns: Columns, on_skipped: OnSkipped, retained: bytes, chunk: Chunk, number: int,
        at_end: bool,
    ) -> None:  # fmt: skip
        self.offset = self.line = 0
        self._columns, self._on_skipped = columns, on_skipped
        self._number = number
        self._at_end = at_end
        new = chunk.text
        self._n = n = len(retained) + len(new)
        n_lines = retained.count(b"\n") + chunk.count_lines()
        self._arrays = _allocate(n, n_lines)
        # The text, then the names of the columns, then space for the names of categories.
        name_bytes = int((2 + columns.bytes_per_column) * n) + len(columns.name_bytes)
        self._buffer = np.empty(name_bytes + 4 * PAD + 256, np.uint8)
        self._text = text = self._buffer[PAD : PAD + n]
        text[: len(retained)] = np.frombuffer(retained, np.uint8)
        text[len(retained) :] = new
        self._names_offset = n + PAD
        own_names = self._buffer[PAD + self._names_offset :]
        own_names[: len(columns.name_bytes)] = columns.name_bytes
        self._raw: bytes | None = None  # the text, once Python needs it

    def rest(self) -> bytes:
        """Return the bytes that are not read."""
        return bytes(self._text[self.offset :].tobytes())

    def parse(self) -> ParsedChunk:
        """Parse the records."""
        state = np.zeros(csv.N_STATE, np.int64)
        state[csv.STATE_OFFSET], state[csv.STATE_LINE] = self.offset, self.line
        irregular = _PythonRecords([], {}, [])
        utf8 = UTF8_UNKNOWN
        while True:
            status = self._call_kernel(state, utf8)
            if status == csv.UTF8_NEEDED:
                utf8 = utf8_state(self._text)
                continue
            retainable = self._n - state[csv.STATE_OFFSET] < MAX_RETAINED and not self._at_end
            if status == csv.DONE or (status == csv.OPEN and retainable):
                break
            if not self._read_record(state, irregular):
                break
        self.offset, self.line = int(state[csv.STATE_OFFSET]), int(state[csv.STATE_LINE])
        return self._result(state, irregular)

    def _call_kernel(self, state: Ints, utf8: Any) -> int:
        columns, start = self._columns, self._buffer.ctypes.data + PAD
        first_name = start + self._names_offset + len(columns.name_bytes)
        table = csv.Table(
            np.uint64(start), np.uint64(start + self._n), np.uint64(first_name),
            np.uint64(start + len(self._buffer) - PAD), POWERS, columns.require_label, utf8,
            np.uint64(ord(columns.delimiter)), columns.kernel_columns(self._names_offset),
            columns.words,
        )  # fmt: skip
        return int(csv.parse_records(table, self._arrays, state))

    def _read_record(self, state: Ints, irregular: _PythonRecords) -> bool:
        """Read one record by Python; return whether it was complete and something follows."""
        if self._raw is None:
            self._raw = self._text.tobytes()
        begin, row = int(state[csv.STATE_OFFSET]), int(state[csv.STATE_ROW])
        first_number = self._number + int(state[csv.STATE_LINE])
        lines = TextLines(self._raw, begin, first_number, self._at_end)
        try:
            for number, record in self._columns.records(lines):
                line = number - self._number - 1
                try:
                    x, y, w = self._columns.example(record)
                except SkippedRecord as skipped:
                    self._on_skipped(number, skipped)
                except ValueError as error:
                    irregular.faults.append((line, str(error)))
                else:
                    self._add_empty_row(row, line, begin, lines, w)
                    irregular.features.append((row, *flatten_features(x)))
                    irregular.labels[row] = y
                    state[csv.STATE_ROW] += 1
                break
        except IncompleteRecord:
            return False
        state[csv.STATE_OFFSET], state[csv.STATE_LINE] = lines.offset, lines.number - self._number
        return lines.offset < self._n

    def _add_empty_row(self, row: int, line: int, begin: int, lines: TextLines, w: float) -> None:
        a = self._arrays
        a.lines[row], a.begins[row], a.ends[row] = line, begin, lines.offset
        a.lines_after[row], a.w[row] = lines.number - self._number, w
        a.labels[row] = 0
        a.indptr[row + 1] = a.indptr[row]

    def _result(self, state: Ints, irregular: _PythonRecords) -> ParsedChunk:
        a, n = self._arrays, int(state[csv.STATE_ROW])
        k = int(a.indptr[n])
        w, lines, ends, lines_after = a.w[:n], a.lines[:n], a.ends[:n], a.lines_after[:n]
        x = NamedRows(
            a.hashes[:k], a.values[:k], a.indptr[: n + 1], self._buffer[PAD:], a.spans[:k],
            self._text, a.begins[:n], ends, self._columns.parse_line, self._columns.header,
            values_checked=not state[csv.STATE_HAS_LARGE],
            distinct_names=self._columns.distinct_names,
        )  # fmt: skip
        if irregular.features:
            x = insert_features(x, irregular.features, np.ones(n, bool))
        y = _encode_labels(self._buffer[PAD:], a.labels[:n], self._columns.labels)
        if irregular.labels:
            y = _replace_labels(y, irregular.labels)
        weights = None if (w == 1.0).all() else w
        text = self._text[: self.offset]
        return ParsedChunk(
            x, y, weights, lines, ends, irregular.faults, self.line, self._ids(a.begins[:n], ends),
            text, lines_after,
        )  # fmt: skip

    def _ids(self, begins: Ints, ends: Ints) -> list[int | str | None] | None:
        """Return the ids of the records between pairs of offsets; the kernel skips ids."""
        if self._columns.id is None:
            return None
        raw = self._text.tobytes() if self._raw is None else self._raw
        ids: list[int | str | None] = []
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
            _, record = next(iter(self._columns.records(TextLines(raw[begin:end]))))
            assert isinstance(record, list)
            ids.append(self._columns.id_of(record))
        return ids


def _replace_labels(y: LabelTexts, labels: dict[int, str | None]) -> LabelTexts:
    """Return the labels with those of some rows replaced."""
    codes = y.codes.astype(np.int64)
    codes[list(labels)] = len(y.texts) + np.arange(len(labels))
    return LabelTexts(codes, [*y.texts, *labels.values()])


def _encode_labels(
    text: Bytes, bounds: Ints, read: Callable[[list[str]], Sequence[str | None]]
) -> LabelTexts:
    """Return the labels of the cells between pairs of offsets, shape (rows, 2).

    Parameters
    ----------
    read
        Returns the labels of distinct cells: `Columns.labels`.
    """
    distinct, codes = np.empty(MAX_CODES, np.uint64), np.empty(len(bounds), np.uint8)
    n = int(csv.encode_short_texts(np.uint64(text.ctypes.data), bounds, distinct, codes))
    if n <= MAX_CODES:
        raw = (int(word).to_bytes(8, "little").rstrip(b"\0") for word in distinct[:n])
        return _label_texts(codes, read([cell.decode() for cell in raw]))
    cells = [text[lo:hi].tobytes().decode() for lo, hi in bounds.tolist()]
    index = {cell: k for k, cell in enumerate(dict.fromkeys(cells))}
    return _label_texts(np.array([index[cell] for cell in cells], np.int64), read([*index]))


def _label_texts(codes: NDArray[Any], labels: Sequence[str | None]) -> LabelTexts:
    """Return labels whose texts are distinct, from labels that may be equal."""
    index = {label: k for k, label in enumerate(dict.fromkeys(labels))}
    if len(index) < len(labels):
        codes = np.array([index[label] for label in labels], codes.dtype)[codes]
    return LabelTexts(codes, [*index])
