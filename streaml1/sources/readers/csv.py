"""CSV files: a header, then records with a label, categories and numbers.

`csv_schema` defines the format, `csv_chunks` reads the records of a chunk. Records may span chunks,
so `CsvParser` retains an incomplete record and puts it in front of the next chunk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import COMPILED
from streaml1.core.named_options import named_option
from streaml1.core.types import Bytes, Ints
from streaml1.sources.readers.csv_cells import CellRules
from streaml1.sources.readers.csv_chunks import KernelReading, PythonReading, Reading
from streaml1.sources.readers.csv_header import (
    OTHER_DELIMITERS,
    DelimiterError,
    RequestedRoles,
)
from streaml1.sources.readers.csv_header_checks import (
    check_delimiter,
    check_is_header,
    check_width,
    find_unnamed,
    require_table,
)
from streaml1.sources.readers.csv_schema import (
    Columns,
    Footer,
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
    pad_text,
)
from streaml1.sources.source import SourceError

__all__ = ["CsvParser"]

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
    elsewhere
        Columns that names of directories hold, for errors.
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
        elsewhere: Iterable[str] = (),
    ) -> None:
        self.name = name
        self._rules = rules or CellRules()
        ngrams, categorical = tuple(dict.fromkeys(text)), tuple(dict.fromkeys(categorical))
        ignored = tuple(dict.fromkeys(ignore))
        self._requested = RequestedRoles(
            target, weight, categorical, ngrams, ignored, id, tuple(numeric), tuple(elsewhere)
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
                f"{self.name}: CSV records have no header: name their columns by "
                f"{named_option('column_names')}"
            )
        self._set_columns(self._given_names, False)
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
        reading: Reading
        if not COMPILED or n >= MAX_CHUNK or not n:
            text = self._retained + new.tobytes()
            reading = PythonReading(columns, self._on_skipped, text, self._number, at_end)
        else:
            reading = KernelReading(
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
                f"{named_option('delimiter', first.delimiter)}"
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
        if self._has_header is None:
            require_table(text, self.name)
        place = f"{self.name}:{line}"
        if isinstance(header, ValueError):
            self._check_quoted(text, start)
            what = "header" if self._has_header is not False else "first record"
            raise SourceError(f"{place}: invalid {what}: {header}")
        if self._has_header is False:
            names = self._given_names or [str(k) for k in range(len(header))]
            if len(names) != len(header):
                raise SourceError(
                    f"{place}: the file has {len(header)} columns, {named_option('column_names')} "
                    f"has {len(names)} names"
                )
            self._set_columns(names, False)
            return start
        rows = self._rows_below(records, at_end)
        if rows is None:
            return None
        check_delimiter(header, rows, self.name, self.delimiter)
        check_width(header, rows, place, self.delimiter)
        if self._has_header is None:
            check_is_header(header, rows, self._requested.target, place)
        unnamed = find_unnamed(header, rows, self._requested.ignored, place)
        if unnamed is not None:
            option = named_option("ignore", "")
            self._warn("nameless", f"{place}: {unnamed}: ignored, as with {option}")
        self._set_columns(header, unnamed is not None)
        return begin

    def _check_quoted(self, text: bytes, start: _Begin) -> None:
        """Check that no other character separates the quoted cells of the first line."""
        for delimiter in (",", *OTHER_DELIMITERS):
            _, record = next(iter(Records(TextLines(text, *start), delimiter)))
            if not isinstance(record, ValueError) and len(record) > 1:
                raise DelimiterError(self.name, delimiter, delimiter.join(record))

    def _rows_below(self, records: Iterator[Any], at_end: bool) -> list[list[str]] | None:
        """Return the valid records that are available, None if there are none yet."""
        rows: list[list[str]] = []
        try:
            for _, row in islice(records, MAX_ROWS_BELOW):
                rows += [] if isinstance(row, ValueError) else [row]
        except IncompleteRecord:
            return rows or None
        return rows

    def _set_columns(self, names: list[str], ignores_unnamed: bool) -> None:
        requested = self._requested
        if ignores_unnamed:
            requested = requested._replace(ignored=[*requested.ignored, ""])
        try:
            roles = requested.resolve(names, self.name, self.require_label)
        except DelimiterError:
            raise
        except SourceError:
            if self.delimiter != "," and len(names) == 1 and "," in names[0]:
                raise DelimiterError(self.name, ",", names[0]) from None
            self._report_header(names)  # other columns than those of the first part say more
            raise
        self._report_header(names)
        skips_header = self._has_header is not False or self._given_names is not None
        self._columns = Columns(
            names, roles, self.require_label, self._rules, skips_header, self.delimiter
        )

    def _report_header(self, names: list[str]) -> None:
        if self.on_header is not None:
            self.on_header(names)

    def _on_skipped(self, line: int, skipped: SkippedRecord) -> None:
        """Warn of the first header that is skipped, and count them; `line` is its line."""
        if isinstance(skipped, Footer):
            self._warn("footer", f"{self.name}:{line}: skipped a line that ends a table")
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


class _Begin(NamedTuple):
    """Where the records of a file begin."""

    offset: int
    line: int
