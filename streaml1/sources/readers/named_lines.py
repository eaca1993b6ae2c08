"""Lines of named features, parsed by a kernel.

`NamedLineParser.parse_chunk` is the path of `.vw` files and JSON lines from bytes to rows: allocate
arrays, call the kernel of the format, parse the irregular lines in Python. Its subclasses name the
kernel and the Python parser of a line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import COMPILED
from streaml1.core.types import Bools, Bytes, Floats
from streaml1.sources.readers.parsed_lines import (
    MAX_CHUNK,
    Chunk,
    LineExample,
    LineParser,
    ParsedChunk,
    pad_text,
    text_buffer,
)
from streaml1.text.byte_names import UTF8_INVALID, UTF8_UNKNOWN, UTF8_VALID
from streaml1.text.line_arrays import Lines, RowArrays, Scratch
from streaml1.text.numbers import POWERS
from streaml1.text.parsed_rows import LineCounts, NamedRows, RowFeatures, insert_features
from streaml1.text.structural_index import SPARE

__all__ = ["NamedLineParser", "flatten_features", "utf8_state"]


def _row_arrays(n_bytes: int, n_lines: int) -> RowArrays:
    """Allocate arrays for some lines.

    numpy asks for huge pages for large arrays, and the kernel of the system clears a huge page as
    a whole. So arrays with few used entries, those of one entry per row, must not be large.
    """
    size = n_bytes // 2 + 2  # a feature has at least two bytes
    hashes, values, spans = np.empty(size, np.uint64), np.empty(size), np.empty(size, np.uint64)
    y, w = np.empty(n_lines + 1), np.empty(n_lines + 1)
    positions = (np.empty(n_lines + 1, np.int64) for _ in range(4))
    return RowArrays(hashes, values, spans, y, w, *positions)


def _scratch(n: int) -> Scratch:
    """Allocate scratch memory for n bytes of lines."""
    positions, kinds = np.empty(n + SPARE, np.uint32), np.empty(n + SPARE, np.uint8)
    value_spans, irregular = np.empty(n // 2 + 2, np.uint64), np.empty(n + 1, np.int64)
    return Scratch(positions, kinds, value_spans, irregular)


class _FeatureMemory(NamedTuple):
    """Memory that `NamedLineParser.read_features` uses again for each text."""

    n_bytes: int
    """The bytes of text that it suffices for."""

    n_lines: int
    """The lines that it suffices for."""

    buffer: Bytes
    rows: RowArrays


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
        self,
        parse: Callable[..., LineExample | None],
        require_label: bool = True,
        what: str = "file",
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

    def _parse_rows(self, chunk: Chunk, rows: RowArrays) -> tuple[NamedRows, LineCounts]:
        """Call the kernel; return what it wrote to `rows`, where irregular lines are empty."""
        size = chunk.hi - chunk.lo
        if size >= len(self._scratch.irregular):
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

    def _call_kernel(self, rows: RowArrays, chunk: Chunk, utf8: Any) -> LineCounts:
        buffer_at = chunk.buffer.ctypes.data
        lo, hi, free, end = (
            np.uint64(buffer_at + k) for k in (chunk.lo, chunk.hi, chunk.free, len(chunk.buffer))
        )
        lines = Lines(lo, hi, free, end, POWERS, self._require_label, utf8)
        return LineCounts(*self.kernel(lines, rows, self._scratch, *self._extra))

    def _extra_arguments(self, n: int) -> tuple[Any, ...]:
        """Return the last arguments of the kernel: scratch memory for n bytes of lines."""
        return ()

    def _labels_and_ids(self, x: NamedRows) -> tuple[dict[int, Any], dict[int, Any]]:
        """Return by row the labels that are not floats, and the ids."""
        return {}, {}

    def _row_ids(self, x: NamedRows, ids: list[int | str | None] | None) -> Any:
        """Return the ids of the rows; `ids` are those found by `_labels_and_ids` and in Python."""
        return ids

    def _convert_labels(self, y: Floats, labels: dict[int, Any]) -> dict[int, Any]:
        """Return the labels that are not floats as they are learnt; change the floats in `y`."""
        return labels

    def _complete(
        self, x: NamedRows, rows: RowArrays, irregular: list[int], n_lines: int
    ) -> ParsedChunk:
        """Parse the irregular lines, whose rows are empty, and put all columns together."""
        n = len(x)
        y, w = rows.y[:n], rows.w[:n]
        lines, ends = rows.lines[:n], rows.ends[:n]
        labels, ids = self._labels_and_ids(x)
        labels = self._convert_labels(y, labels)
        faults: list[tuple[int, str]] = []
        retained: Bools | None = None
        if irregular:
            retained = np.ones(n, bool)
            found = self._parse_irregular(x, rows, irregular, retained, labels, ids, faults)
            x = insert_features(x, found, retained)
        row_ids = self._row_ids(x, _column_of_ids(ids, n, retained))
        column: Any = y
        if labels or not self._require_label:
            column = [None if label != label else label for label in y.tolist()]
            for row, label in labels.items():
                column[row] = label
        if retained is not None:
            w, lines, ends = w[retained], lines[retained], ends[retained]
            as_list = isinstance(column, list)
            column = list(compress(column, retained)) if as_list else column[retained]
        weights = None if (w == 1.0).all() else w
        return ParsedChunk(x, column, weights, lines, ends, faults, n_lines, row_ids)

    def _parse_irregular(
        self, x: NamedRows, rows: RowArrays, irregular: list[int], retained: Bools,
        labels: dict[int, Any], ids: dict[int, Any], faults: list[tuple[int, str]],
    ) -> list[RowFeatures]:  # fmt: skip
        """Parse the irregular lines in Python; return their features.

        This adds their labels, ids and sample weights to `labels`, `ids` and `rows.w`. A line
        without an example is not retained; if it was rejected, the reason is added to `faults`.
        """
        found: list[RowFeatures] = []
        for row in irregular:
            try:
                example = self.parse_line(x.line(row))
            except ValueError as error:
                example = None
                faults.append((int(rows.lines[row]), str(error)))
            if example is None:
                retained[row] = False
                continue
            features, labels[row], rows.w[row] = example[:3]
            if len(example) > 3:
                ids[row] = example[3]
            found.append((row, *flatten_features(features)))
        return found


def _column_of_ids(
    ids: dict[int, Any], n: int, retained: Bools | None
) -> list[int | str | None] | None:
    """Return the ids of the retained ones of n rows, all if None; None if no row has an id."""
    if not ids:
        return None
    rows = range(n) if retained is None else np.flatnonzero(retained).tolist()
    column = [ids.get(row) for row in rows]
    return None if all(id is None for id in column) else column


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
    >>> from streaml1.sources.readers.named_lines import flatten_features
    >>> flatten_features({"age": 31, "site": "news", "visits": 0})
    (['age', 'site=news'], [31.0, 1.0])
    """
    pairs = [
        (f"{name}={value}", 1.0) if isinstance(value, str) else (name, float(value))
        for name, value in x.items()
        if value is not None
    ]
    return [name for name, v in pairs if v], [v for _, v in pairs if v]
