"""CSV files: a header, then records with a label, categories and numbers.

Regular records are parsed by the kernel `streaml1.text.csv.parse_records`, all others by Python's
csv module: see `csv_schema`, which defines the format. Records may span chunks, so `CsvParser`
retains an incomplete record and puts it in front of the next chunk.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streaml1.core.jit import COMPILED
from streaml1.core.types import Bytes, Floats, Hashes, Indptr, Ints, Values
from streaml1.features.label_texts import LabelTexts
from streaml1.sources.readers.csv_cells import CellRules
from streaml1.sources.readers.csv_header import (
    RequestedRoles,
    check_is_header,
    check_width,
    find_row_numbers,
)
from streaml1.sources.readers.csv_schema import (
    Columns,
    IncompleteRecord,
    Records,
    RepeatedHeader,
    SkippedRecord,
    TextLines,
    is_blank,
    separator_line,
)
from streaml1.sources.readers.parsed_lines import (
    MAX_CHUNK,
    NEWLINE,
    Chunk,
    ParsedChunk,
    flatten_features,
    pad_text,
    utf8_state,
)
from streaml1.sources.source import SourceError
from streaml1.text import csv
from streaml1.text.byte_names import UTF8_UNKNOWN
from streaml1.text.numbers import POWERS
from streaml1.text.parsed_rows import NamedRows, RowFeatures, Spans, insert_features
from streaml1.text.structural_index import PAD, SPARE

__all__ = ["CsvParser"]

MAX_CODES = 256
"""Up to this many distinct short labels are encoded by the kernel."""

MAX_RETAINED = 2**18
"""Bytes of an incomplete record that are retained. A longer one is read by Python, which reports an
error if its quote is never closed."""

MAX_ROWS_BELOW = 100
"""Records that tell whether the first one is a header."""

logger = logging.getLogger("streaml1")

_NONE: Ints = np.zeros(0, np.int64)


class CsvParser:
    """Parse CSV files.

    Parameters
    ----------
    name
        The file, for errors.
    target
        The column of the labels.
    categorical
        The columns whose cells are text; all others hold numbers. An empty cell is None.
    weight
        The column of the sample weights. Without one, each weight is 1.
    require_label
        Whether a missing label, the column or a cell, is an error. Otherwise the label is None.
    ignore
        The columns to ignore.
    delimiter
        The character between cells.
    text
        Further columns of text, from which a model makes n-grams.
    rules
        How the text of a cell is understood.
    header
        Whether the first record holds the names of the columns. None is yes, unless it looks like
        data, which is an error.
    column_names
        The names of the columns of a file without a header. By default their numbers from 0.
    id
        The column of the id, which is not a feature. An empty cell is None.
    numeric
        Columns that hold numbers. All columns without a role do; these must exist.
    """

    compiled = COMPILED

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
        rules: CellRules | None = None,
        header: bool | None = None,
        column_names: Iterable[str] | None = None,
        id: str | None = None,
        numeric: Iterable[str] = (),
    ) -> None:
        self.name = name
        self._rules = rules or CellRules()
        ngrams, categorical = tuple(dict.fromkeys(text)), tuple(dict.fromkeys(categorical))
        ignored = tuple(dict.fromkeys(ignore))
        self._requested = RequestedRoles(
            target, weight, categorical, ngrams, ignored, id, tuple(numeric)
        )
        self.texts: tuple[str, ...] | None = tuple(dict.fromkeys([*categorical, *ngrams]))
        self.require_label = require_label
        self._given_names = None if column_names is None else list(column_names)
        self._has_header = header if self._given_names is None else False
        self._warned: set[str] = set()
        self.delimiter = delimiter
        self.roles: Mapping[str, Any] = {
            "target": target, "weight": weight, "categorical": sorted(self.texts),
            "ignore": sorted(ignored), "delimiter": delimiter, **self._rules.roles,
            **({} if self._has_header in (None, True) else {"header": False}),
            **({} if self._given_names is None else {"columns": self._given_names}),
            **({} if id is None else {"id": id}),
        }  # fmt: skip
        self.on_header: Callable[[list[str]], None] | None = None  # gets the header of each file
        self.reset()

    def reset(self) -> None:
        """Expect the beginning of a file next."""
        self._columns: Columns | None = None
        self._retained = b""  # an incomplete record, or all text while the columns are unknown
        self._n_skipped = 0  # bytes of it that were skipped
        self._number = 0  # lines before it
        self._n_repeated = 0  # headers that were skipped

    def skip(self, text: Bytes) -> None:
        """Skip lines that were read before; the header may be among them."""
        if self._columns is None:
            self._retained += text.tobytes()
            self._n_skipped = len(self._retained)
        else:
            self._number += int(np.count_nonzero(text == NEWLINE))

    def read(self, text: bytes) -> ParsedChunk:
        """Parse a whole file."""
        self.reset()
        return self._parse(pad_text(text), at_end=True)

    def require_columns(self) -> Columns:
        """Set the columns to those whose names were given, and return them.

        Raises
        ------
        SourceError
            If none were given, or a role does not fit.
        """
        if self._given_names is None:
            raise SourceError(
                f"{self.name}: CSV records have no header: name their columns by --columns"
            )
        self._set_columns(self._given_names, None)
        assert self._columns is not None
        return self._columns

    def read_records(self, text: bytes) -> ParsedChunk:
        """Parse whole records; `require_columns` was called before."""
        self._retained, self._number = b"", 0
        return self._parse(pad_text(text), at_end=True)

    def parse_chunk(self, chunk: Chunk) -> ParsedChunk:
        """Parse the lines of a chunk, after what was retained of the chunk before it."""
        return self._parse(chunk, at_end=False)

    def finish(self) -> ParsedChunk | None:
        """Parse what was retained at the end of the file."""
        if self._columns is not None and not self._retained:
            self._report_repeated()
            return None
        parsed = self._parse(pad_text(b""), at_end=True)
        self._report_repeated()
        return parsed

    def records(self, lines: TextLines) -> Records:
        """Return the records of some lines."""
        return Records(lines, self.delimiter)

    def _parse(self, chunk: Chunk, at_end: bool) -> ParsedChunk:
        begin, new = (0, 0), chunk.text
        if self._columns is None:
            whole = self._retained + new.tobytes()
            found = self._read_columns(whole, at_end)
            if found is None:
                self._retained = whole
                return ParsedChunk([], [], None, _NONE, _NONE, [], 0, text=new[:0])
            n_skipped = self._retained[: self._n_skipped].count(b"\n")
            begin = (max(0, found.offset - self._n_skipped), max(0, found.line - n_skipped))
            self._retained = self._retained[self._n_skipped :]
            self._number, self._n_skipped = n_skipped, 0
        columns = self._columns
        assert columns is not None
        n = len(self._retained) + len(new)
        reading: _Reading
        if not COMPILED or n >= MAX_CHUNK or not n:
            text = self._retained + new.tobytes()
            reading = _PythonReading(columns, self._on_skipped, text, self._number, at_end)
        else:
            reading = _KernelReading(
                columns, self._on_skipped, self._retained, chunk, self._number, at_end
            )
        reading.offset, reading.line = begin
        parsed = reading.parse()
        self._retained = reading.rest()
        self._number += parsed.n_lines
        return parsed

    def _read_columns(self, text: bytes, at_end: bool) -> _Begin | None:
        """Read the header; return where the records begin, or None if more text is needed."""
        first = separator_line(text)
        if first is not None and first.delimiter != self.delimiter:
            raise SourceError(
                f"{self.name}:1: the line says that {first.delimiter!r} separates the cells: use "
                f"--delimiter {shlex.quote(first.delimiter)}"
            )
        start = _Begin(0, 0) if first is None else _Begin(first.size, 1)
        lines = TextLines(text, start.offset, start.line, at_end)
        records = iter(self.records(lines))
        try:
            line, header = next((line, record) for line, record in records if not is_blank(record))
            begin = _Begin(lines.offset, lines.number)
        except IncompleteRecord:
            return None
        except StopIteration:
            raise SourceError(
                f"{self.name} is empty: a CSV file begins with the names of its columns"
            ) from None
        place = f"{self.name}:{line}"
        if isinstance(header, ValueError):
            what = "header" if self._has_header is not False else "first record"
            raise SourceError(f"{place}: invalid {what}: {header}")
        if self._has_header is False:
            names = self._given_names or [str(k) for k in range(len(header))]
            if len(names) != len(header):
                raise SourceError(
                    f"{place}: the file has {len(header)} columns, --columns has {len(names)} names"
                )
            self._set_columns(names, None)
            return start
        rows = self._rows_below(records, at_end)
        if rows is None:
            return None
        check_width(header, rows, place, self.delimiter)
        if self._has_header is None:
            check_is_header(header, rows, self._requested.target, place)
        row_numbers = find_row_numbers(header, rows, self._requested.ignored, place)
        if row_numbers is not None:
            self._warn("nameless", f"{place}: the first column has no name and numbers the rows: "
                                   "it is ignored, as with --ignore ''")  # fmt: skip
        self._set_columns(header, row_numbers)
        return begin

    def _rows_below(self, records: Iterator[Any], at_end: bool) -> list[list[str]] | None:
        """Return the valid records that are available, None if there are none yet."""
        rows: list[list[str]] = []
        try:
            for _, row in islice(records, MAX_ROWS_BELOW):
                rows += [] if isinstance(row, ValueError) else [row]
        except IncompleteRecord:
            return rows or None
        return rows

    def _set_columns(self, names: list[str], row_numbers: int | None) -> None:
        requested = self._requested
        if row_numbers is not None:
            requested = requested._replace(ignored=[*requested.ignored, ""])
        roles = requested.resolve(names, self.name, self.require_label)
        if self.on_header is not None:
            self.on_header(names)
        skips_header = self._has_header is not False or self._given_names is not None
        self._columns = Columns(
            names, roles, self.require_label, self._rules, skips_header, self.delimiter
        )

    def _on_skipped(self, line: int, skipped: SkippedRecord) -> None:
        """Warn of the first header that is skipped, and count them; `line` is its line."""
        if not isinstance(skipped, RepeatedHeader):
            return
        self._n_repeated += 1
        self._warn("header", f"{self.name}:{line}: skipped a line that repeats the names of the "
                             "columns")  # fmt: skip

    def _report_repeated(self) -> None:
        if self._n_repeated > 1:
            self._warn("headers", f"{self.name}: skipped {self._n_repeated:,} lines that repeat "
                                  "the names of the columns")  # fmt: skip

    def _warn(self, kind: str, sentence: str) -> None:
        """Log a warning, but not again in later passes."""
        if kind not in self._warned:
            self._warned.add(kind)
            logger.warning("%s", sentence)


OnSkipped = Callable[[int, SkippedRecord], None]
"""Gets the line of a record that is neither an example nor invalid, and what it is."""


class _Begin(NamedTuple):
    """Where the records of a file begin."""

    offset: int
    line: int


class _Reading(Protocol):
    """The parsing of one chunk."""

    offset: int
    """How many bytes are read."""
    line: int
    """How many lines are read."""

    def parse(self) -> ParsedChunk:
        """Parse the records up to an incomplete one."""

    def rest(self) -> bytes:
        """Return the bytes that are not read."""


class _PythonReading:
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


class _Arrays(NamedTuple):
    """The memory of a kernel call."""

    buffer: Bytes
    """The text, then the names of the columns, then space for the names of categories."""
    positions: Any
    kinds: Any
    hashes: Hashes
    values: Values
    spans: Spans
    labels: Ints
    w: Floats
    indptr: Indptr
    lines: Ints
    begins: Ints
    ends: Ints
    lines_after: Ints


def _allocate(columns: Columns, n: int, n_lines: int) -> _Arrays:
    """Allocate memory for n bytes of text with `n_lines` newlines."""
    size = n // 2 + 2  # a cell has at least two bytes, but for the last one
    name_bytes = int((2 + columns.bytes_per_column) * n) + len(columns.name_bytes)
    buffer = np.empty(name_bytes + 4 * PAD + 256, np.uint8)
    positions, kinds = np.empty(n + SPARE, np.uint32), np.empty(n + SPARE, np.uint8)
    hashes, values, spans = np.empty(size, np.uint64), np.empty(size), np.empty(size, np.uint64)
    # There are no more records than lines; the last line may lack its newline.
    labels, w = np.empty((n_lines + 2, 2), np.int64), np.empty(n_lines + 2)
    integers = (np.empty(n_lines + 2, np.int64) for _ in range(5))
    return _Arrays(buffer, positions, kinds, hashes, values, spans, labels, w, *integers)


class _PythonRecords(NamedTuple):
    """What Python has read of the irregular records in a chunk."""

    features: list[RowFeatures]
    labels: dict[int, str | None]
    faults: list[tuple[int, str]]


class _KernelReading:
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
        self._arrays = arrays = _allocate(columns, n, n_lines)
        self._text = text = arrays.buffer[PAD : PAD + n]
        text[: len(retained)] = np.frombuffer(retained, np.uint8)
        text[len(retained) :] = new
        self._names_offset = n + PAD
        arrays.buffer[PAD + self._names_offset :][: len(columns.name_bytes)] = columns.name_bytes
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
        a = self._arrays
        start = a.buffer.ctypes.data + PAD
        first_name = self._names_offset + len(self._columns.name_bytes)
        status = csv.parse_records(
            np.uint64(start), np.uint64(start + self._n), np.uint64(ord(self._columns.delimiter)),
            POWERS, self._columns.require_label, utf8,
            self._columns.kernel_columns(self._names_offset), self._columns.words, a.positions,
            a.kinds, a.hashes, a.values, np.uint64(start + first_name),
            np.uint64(start + len(a.buffer) - PAD), a.spans, a.labels, a.w, a.indptr, a.lines,
            a.begins, a.ends, a.lines_after, state,
        )  # fmt: skip
        return int(status)

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
            a.hashes[:k], a.values[:k], a.indptr[: n + 1], a.buffer[PAD:], a.spans[:k], self._text,
            a.begins[:n], ends, self._columns.parse_line, self._columns.header,
            values_checked=not state[csv.STATE_HAS_LARGE],
            distinct_names=self._columns.distinct_names,
        )  # fmt: skip
        if irregular.features:
            x = insert_features(x, irregular.features, np.ones(n, bool))
        y = _encode_labels(a.buffer[PAD:], a.labels[:n], self._columns.labels)
        if irregular.labels:
            y = _replace_labels(y, irregular.labels)
        weights = None if (w == 1.0).all() else w
        text = self._text[: self.offset]
        return ParsedChunk(
            x, y, weights, lines, ends, irregular.faults, self.line, self._ids(a.begins[:n], ends),
            text, lines_after,
        )  # fmt: skip

    def _ids(self, begins: Ints, ends: Ints) -> list[int | str | None] | None:
        """Return the ids of the records between pairs of offsets, which the kernel skips."""
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
