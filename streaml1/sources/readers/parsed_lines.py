"""Parsers of formats with one example per line, and what parsers return.

`NamedLineParser.parse_chunk` is the path of `.vw` files and JSON lines from bytes to rows: allocate
arrays, call the kernel of the format, parse the irregular lines in Python. Its subclasses name the
kernel and the Python parser of a line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from streaml1.core.jit import COMPILED
from streaml1.core.types import Bools, Bytes, Floats, Hashes, Indptr, Ints, Values
from streaml1.text.byte_names import UTF8_INVALID, UTF8_UNKNOWN, UTF8_VALID
from streaml1.text.numbers import POWERS
from streaml1.text.parsed_rows import (
    LineCounts,
    NamedRows,
    RowFeatures,
    Spans,
    insert_features,
)
from streaml1.text.structural_index import PAD, SPARE, count_newlines

__all__ = [
    "BytesLineParser",
    "Chunk",
    "LineParser",
    "NamedLineParser",
    "ParsedChunk",
    "Parser",
    "decode_line",
    "flatten_features",
    "pad_text",
    "text_buffer",
    "utf8_state",
]

Example = tuple[Any, ...]
"""Features, label and sample weight, and the id if the line has one."""

NEWLINE = 10

MAX_CHUNK = 2**29
"""Bytes of a chunk that kernels accept: names take up to three times as many, and offsets have 32
bits. Python parses larger chunks."""


class Chunk(NamedTuple):
    """Whole lines inside a buffer.

    Parameters
    ----------
    buffer
        The memory, with `PAD` readable bytes before and after the lines.
    lo, hi
        The lines are `buffer[lo:hi]`. The last byte is a newline.
    free
        Kernels may write names to `buffer[free:]`.
    """

    buffer: Bytes
    lo: int
    hi: int
    free: int

    @property
    def text(self) -> Bytes:
        """The lines."""
        return self.buffer[self.lo : self.hi]

    def count_lines(self) -> int:
        """Return the number of lines."""
        if not COMPILED:
            return int(np.count_nonzero(self.text == NEWLINE))
        start = self.buffer.ctypes.data
        return int(count_newlines(np.uint64(start + self.lo), np.uint64(start + self.hi)))


@dataclass(frozen=True, slots=True)
class ParsedChunk:
    """The examples in a chunk of text.

    Parameters
    ----------
    x
        Their features: dicts, or rows such as `streaml1.text.parsed_rows.IntRows`.
    y
        Their labels as written: floats, or a list if any label is something else.
    w
        The sample weights, or None if all of them are 1.
    lines
        The line of each example, from 0.
    ends
        The offset of the end of each example's line.
    faults
        The rejected lines: line, reason.
    n_lines
        The number of lines.
    ids
        The id of each example, or None; None if no example has one.
    text
        The lines, if they differ from those that were passed to the parser.
    lines_after
        How many lines are read once each example is; None if it is the line of the example alone.
    """

    x: Any
    y: Any
    w: Floats | None
    lines: Ints
    ends: Ints
    faults: list[tuple[int, str]]
    n_lines: int
    ids: Sequence[int | str | None] | None = None
    text: Bytes | None = None
    lines_after: Ints | None = None

    def __len__(self) -> int:
        return len(self.x)

    def lines_read(self, row: int) -> int:
        """Return how many lines are read once a row is."""
        return int(self.lines[row]) + 1 if self.lines_after is None else int(self.lines_after[row])


class Parser(Protocol):
    """The parser of a format."""

    compiled: bool
    """Whether most of the work happens in kernels, without the interpreter lock."""

    roles: Mapping[str, Any]
    """The roles of columns, by name. A checkpoint resumes only with the same roles."""

    texts: tuple[str, ...] | None
    """The fields that are read as text; None if every string is."""

    def reset(self) -> None:
        """Expect the beginning of a file next."""

    def skip(self, text: Bytes) -> None:
        """Skip lines that were read before."""

    def finish(self) -> ParsedChunk | None:
        """Parse what is left at the end of a file."""

    def read(self, text: bytes) -> ParsedChunk:
        """Parse lines that are separated by newlines."""

    def parse_chunk(self, chunk: Chunk) -> ParsedChunk:
        """Parse the lines of a chunk. The result may refer to its buffer."""


def text_buffer(n: int) -> Bytes:
    """Allocate memory for n bytes of text, padding, and four times as many bytes of names.

    Names of elements of arrays are longer than the elements. Memory is used where it is written.
    """
    return np.empty(5 * n + 4 * PAD + 256, np.uint8)


def pad_text(text: bytes, buffer: Bytes | None = None) -> Chunk:
    """Copy lines into a buffer, a new one by default, with a newline at the end.

    The size of the buffer must be at least that of `text_buffer`.
    """
    n = len(text)
    buffer = text_buffer(n) if buffer is None else buffer
    buffer[PAD : PAD + n] = np.frombuffer(text, np.uint8)
    if n and not text.endswith(b"\n"):
        buffer[PAD + n] = NEWLINE
        n += 1
    return Chunk(buffer, PAD, PAD + n, PAD + n + PAD)


def decode_line(line: bytes, what: str = "file") -> str:
    """Decode a line as UTF-8.

    Parameters
    ----------
    line
        The bytes of the line.
    what
        What contains the line, for the error: a file, or a record.

    Raises
    ------
    ValueError
        If the line is not UTF-8.
    """
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        byte = f"byte 0x{line[error.start]:02x} at column {error.start + 1}"
        command = ", as with iconv -f WINDOWS-1252 -t UTF-8 if Excel wrote it"
        raise ValueError(
            f"{byte} is not UTF-8: convert the {what} to UTF-8{command * (what == 'file')}"
        ) from None


class BytesLineParser:
    """A parser that calls a Python function for each line.

    Parameters
    ----------
    parse_line
        Returns features, label and weight of a line, and its id if it has one; None if the line has
        no example. Raises ValueError with one sentence if the line is invalid.
    """

    compiled = False
    roles: Mapping[str, Any] = MappingProxyType({})
    texts: tuple[str, ...] | None = None

    def __init__(self, parse_line: Callable[[bytes], Example | None]) -> None:
        self.parse_line = parse_line

    def reset(self) -> None:
        """Do nothing: lines are independent."""

    def skip(self, text: Bytes) -> None:
        """Do nothing: lines are independent."""

    def finish(self) -> ParsedChunk | None:
        """Return None: nothing is left."""
        return None

    def read(self, text: bytes) -> ParsedChunk:
        """Parse lines that are separated by newlines."""
        return self.parse_chunk(pad_text(text))

    def read_features(self, text: bytes) -> Any:
        """Return the features of lines; None if one is rejected, or there is none."""
        parsed = self.read(text)
        return None if parsed.faults or not len(parsed) else parsed.x

    def parse_chunk(self, chunk: Chunk) -> ParsedChunk:
        """Parse the lines of a chunk."""
        examples: list[Example] = []
        lines: list[int] = []
        ends: list[int] = []
        faults: list[tuple[int, str]] = []
        ids: dict[int, Any] = {}
        end = 0
        texts = chunk.text.tobytes().split(b"\n")[:-1]
        for number, line in enumerate(texts):
            end += len(line) + 1
            try:
                example = self.parse_line(line)
            except ValueError as error:
                faults.append((number, str(error)))
                continue
            if example is None:
                continue
            if len(example) > 3:
                ids[len(examples)] = example[3]
            examples.append(example[:3])
            lines.append(number)
            ends.append(end)
        x, y, w = map(list, zip(*examples, strict=True)) if examples else ([], [], [])
        return ParsedChunk(
            x, y, None if all(weight == 1.0 for weight in w) else np.array(w),
            np.array(lines, int), np.array(ends, int), faults, len(texts),
            [ids.get(row) for row in range(len(examples))] if ids else None,
        )  # fmt: skip


class LineParser(BytesLineParser):
    """A parser that calls a Python function for each line, decoded as UTF-8.

    Parameters
    ----------
    parse
        Parses the text of a line, as `BytesLineParser` requires it.
    what
        What contains the lines, for errors: a file, or a record.
    """

    def __init__(self, parse: Callable[[str], Example | None], what: str = "file") -> None:
        super().__init__(lambda line: parse(decode_line(line, what)))


# Lines of named features, parsed by kernels


class _RowArrays(NamedTuple):
    """What a kernel writes and rows keep, with space for all that the lines may hold."""

    hashes: Hashes
    values: Values
    spans: Spans
    y: Floats
    w: Floats
    indptr: Indptr
    lines: Ints
    begins: Ints
    ends: Ints


def _row_arrays(n_bytes: int, n_lines: int) -> _RowArrays:
    """Allocate arrays for some lines.

    numpy asks for huge pages for large arrays, and the kernel of the system clears a huge page as
    a whole. So arrays with few used entries, those of one entry per row, must not be large.
    """
    size = n_bytes // 2 + 2  # a feature has at least two bytes
    hashes, values, spans = np.empty(size, np.uint64), np.empty(size), np.empty(size, np.uint64)
    y, w = np.empty(n_lines + 1), np.empty(n_lines + 1)
    positions = (np.empty(n_lines + 1, np.int64) for _ in range(4))
    return _RowArrays(hashes, values, spans, y, w, *positions)


class _Scratch(NamedTuple):
    """Scratch memory of a kernel.

    Rows do not refer to it, so a parser uses it for all chunks: fresh memory would cost a page
    fault for every 4 KiB that the kernel touches.
    """

    size: int
    """The bytes of lines that it suffices for."""

    positions: Any
    kinds: Any
    value_spans: Any
    irregular: Any


def _scratch(n: int) -> _Scratch:
    """Allocate scratch memory for n bytes of lines."""
    positions, kinds = np.empty(n + SPARE, np.uint32), np.empty(n + SPARE, np.uint8)
    value_spans, irregular = np.empty(n // 2 + 2, np.uint64), np.empty(n + 1, np.int64)
    return _Scratch(n, positions, kinds, value_spans, irregular)


class _FeatureMemory(NamedTuple):
    """The memory of `NamedLineParser.read_features`, which it uses for all texts."""

    n_bytes: int
    """The bytes of text that it suffices for."""

    n_lines: int
    """The lines that it suffices for."""

    buffer: Bytes
    rows: _RowArrays


class NamedLineParser(LineParser):
    """The base of parsers whose kernel parses lines of named features.

    A subclass sets `kernel`. One thread at a time may use a parser.

    Parameters
    ----------
    parse
        Parses an irregular line.
    require_label
        Whether lines without a label are rejected. Otherwise their label is None.
    what
        What contains the lines, for errors: a file, or a record.
    """

    kernel: Callable[..., tuple[Any, Any, Any, Any, Any]]
    """Such as `streaml1.text.vw.parse_lines`."""

    header: Sequence[str] | None = None  # see NamedRows

    compiled = COMPILED

    def __init__(
        self, parse: Callable[..., Example | None], require_label: bool = True, what: str = "file"
    ) -> None:
        super().__init__(partial(parse, require_label=require_label), what)
        self._require_label = require_label
        self._scratch = _scratch(0)
        self._extra = self._extra_arguments(0)
        self._feature_memory = _FeatureMemory(0, 0, text_buffer(0), _row_arrays(0, 0))

    def parse_chunk(self, chunk: Chunk) -> ParsedChunk:
        """Parse the lines of a chunk: by the kernel, and irregular lines by Python."""
        if not self._uses_kernel(chunk):
            return super().parse_chunk(chunk)
        rows = _row_arrays(chunk.hi - chunk.lo, chunk.count_lines())
        x, counts = self._parse_rows(chunk, rows)
        irregular = self._scratch.irregular[: counts.irregular].tolist()
        return self._complete(x, rows, irregular, int(counts.lines))

    def read_features(self, text: bytes) -> Any:
        """Return the features of lines; None if one is rejected, or there is none.

        The rows hold until the next call: they refer to memory of this parser. Labels are ignored.
        """
        size = len(text) + 1  # a newline may be missing at the end
        chunk = pad_text(text, self._memory_for(size).buffer)
        if not self._uses_kernel(chunk):
            return super().read_features(text)
        memory = self._memory_for(size, chunk.count_lines())
        x, counts = self._parse_rows(chunk, memory.rows)
        return super().read_features(text) if counts.irregular or not len(x) else x

    def _memory_for(self, n_bytes: int, n_lines: int = 0) -> _FeatureMemory:
        """Return the memory of this parser, replaced if it does not suffice."""
        memory = self._feature_memory
        if n_bytes > memory.n_bytes or n_lines > memory.n_lines:
            n_bytes, n_lines = max(n_bytes, memory.n_bytes), max(n_lines, memory.n_lines)
            buffer = memory.buffer if n_bytes == memory.n_bytes else text_buffer(n_bytes)
            memory = _FeatureMemory(n_bytes, n_lines, buffer, _row_arrays(n_bytes, n_lines))
            self._feature_memory = memory
        return memory

    def _parse_rows(self, chunk: Chunk, rows: _RowArrays) -> tuple[NamedRows, LineCounts]:
        """Call the kernel; return what it wrote to `rows`, where irregular lines are empty."""
        size = chunk.hi - chunk.lo
        if size > self._scratch.size:
            self._scratch, self._extra = _scratch(size), self._extra_arguments(size)
        counts = self._call_kernel(rows, chunk, UTF8_UNKNOWN)
        if not counts.lines:
            counts = self._call_kernel(rows, chunk, utf8_state(chunk.text))
        n, k = int(counts.rows), int(rows.indptr[int(counts.rows)])
        x = NamedRows(
            rows.hashes[:k], rows.values[:k], rows.indptr[: n + 1], chunk.buffer[chunk.lo :],
            rows.spans[:k], chunk.text, rows.begins[:n], rows.ends[:n], self.parse_line,
            self.header, bool(counts.values_checked), bool(counts.distinct_names),
        )  # fmt: skip
        return x, counts

    def _uses_kernel(self, chunk: Chunk) -> bool:
        """Return whether the kernel parses a chunk."""
        return COMPILED and 0 < chunk.hi - chunk.lo < MAX_CHUNK

    def _call_kernel(self, rows: _RowArrays, chunk: Chunk, utf8: Any) -> LineCounts:
        buffer_at, scratch = chunk.buffer.ctypes.data, self._scratch
        counts = self.kernel(
            np.uint64(buffer_at + chunk.lo), np.uint64(buffer_at + chunk.hi), POWERS,
            self._require_label, utf8, scratch.positions, scratch.kinds, rows.hashes, rows.values,
            np.uint64(buffer_at + chunk.free), np.uint64(buffer_at + len(chunk.buffer)),
            rows.spans, rows.y, rows.w, rows.indptr, rows.lines, rows.begins, rows.ends,
            scratch.irregular, scratch.value_spans, *self._extra,
        )  # fmt: skip
        return LineCounts(*counts)

    def _extra_arguments(self, n: int) -> tuple[Any, ...]:
        """Return the last arguments of the kernel: scratch memory for n bytes of lines."""
        return ()

    def _labels_and_ids(self, x: NamedRows) -> tuple[dict[int, Any], dict[int, Any]]:
        """Return by row the labels that are not floats, and the ids."""
        return {}, {}

    def _row_ids(self, x: NamedRows, ids: list[int | str | None] | None) -> Any:
        """Return the ids of the rows, given those that `_labels_and_ids` and Python found."""
        return ids

    def _convert_labels(self, y: Floats, labels: dict[int, Any]) -> dict[int, Any]:
        """Return the labels that are not floats as they are learnt; change the floats in `y`."""
        return labels

    def _complete(
        self, x: NamedRows, rows: _RowArrays, irregular: list[int], n_lines: int
    ) -> ParsedChunk:
        """Parse the irregular lines, whose rows are empty, and put all columns together."""
        n = len(x)
        y, w = rows.y[:n], rows.w[:n]
        lines, ends = rows.lines[:n], rows.ends[:n]
        labels, ids = self._labels_and_ids(x)
        labels = self._convert_labels(y, labels)
        faults: list[tuple[int, str]] = []
        found: list[RowFeatures] = []
        retained = np.ones(n, bool) if irregular else _NONE
        for row in irregular:
            try:
                example = self.parse_line(x.line(row))
            except ValueError as error:
                example = None
                faults.append((int(lines[row]), str(error)))
            if example is None:
                retained[row] = False
                continue
            features, labels[row], w[row] = example[:3]
            if len(example) > 3:
                ids[row] = example[3]
            found.append((row, *flatten_features(features)))
        if irregular:
            x = insert_features(x, found, retained)
        row_ids = None
        if ids:
            remaining = np.flatnonzero(retained).tolist() if irregular else range(n)
            row_ids = [ids.get(row) for row in remaining]
            row_ids = None if all(id is None for id in row_ids) else row_ids
        row_ids = self._row_ids(x, row_ids)
        column: Any = y
        if labels or not self._require_label:
            column = [None if label != label else label for label in y.tolist()]
            for row, label in labels.items():
                column[row] = label
        if irregular:
            w, lines, ends = w[retained], lines[retained], ends[retained]
            as_list = isinstance(column, list)
            column = list(compress(column, retained)) if as_list else column[retained]
        weights = None if (w == 1.0).all() else w
        return ParsedChunk(x, column, weights, lines, ends, faults, n_lines, row_ids)


_NONE: Bools = np.zeros(0, bool)


def utf8_state(text: Bytes) -> Any:
    """Return UTF8_VALID or UTF8_INVALID."""
    try:
        text.tobytes().decode()
    except UnicodeDecodeError:
        return UTF8_INVALID
    return UTF8_VALID


def flatten_features(x: Mapping[str, Any]) -> tuple[list[str], list[float]]:
    """Return the names and values of an example's features, without zeros and None.

    A string is the feature `name=string` with value 1.

    Examples
    --------
    >>> from streaml1.sources.readers.parsed_lines import flatten_features
    >>> flatten_features({"age": 31, "site": "news", "visits": 0})
    (['age', 'site=news'], [31.0, 1.0])
    """
    pairs = [
        (f"{name}={value}", 1.0) if isinstance(value, str) else (name, float(value))
        for name, value in x.items()
        if value is not None
    ]
    return [name for name, v in pairs if v], [v for _, v in pairs if v]
