"""The beginning of a text file, to look at before it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import BinaryIO, NamedTuple

import numpy as np

from streaml1.sources.readers.csv_cells import CellRules
from streaml1.sources.readers.csv_header import check_blanks
from streaml1.sources.readers.csv_header_checks import (
    check_is_header,
    check_width,
    describe_title,
    is_rule,
    require_table,
)
from streaml1.sources.readers.csv_kinds import (
    ColumnSummary,
    is_missing_number,
    summarize_columns,
)
from streaml1.sources.readers.csv_schema import (
    IncompleteRecord,
    Records,
    TextLines,
    is_blank,
    is_footer,
    separator_line,
    wrong_width,
)
from streaml1.sources.readers.parsed_lines import BytesLineParser, Chunk, ParsedChunk
from streaml1.sources.readers.text_file import TextSource
from streaml1.sources.source import Lost, SourceError

__all__ = [
    "N_SAMPLED",
    "CsvSample",
    "guess_delimiter",
    "sample_csv",
    "sample_header",
    "sample_text",
]

N_SAMPLED = 1000
"""Records that are looked at."""

DELIMITERS = ",\t;|\x01"


class _Enough(Exception):
    """Raised once enough lines were read."""


class _Lines(BytesLineParser):
    """A parser that only collects lines."""

    def __init__(self, n_lines: int) -> None:
        super().__init__(lambda line: None)
        self.text = b""
        self.is_whole = True
        self._n_lines = n_lines

    def reset(self) -> None:
        """Expect the beginning of a file next."""
        self.text = b""

    def parse_chunk(self, chunk: Chunk) -> ParsedChunk:
        """Collect the lines of a chunk."""
        self.text += chunk.text.tobytes()
        if self.text.count(b"\n") >= self._n_lines:
            self.is_whole = False
            raise _Enough
        none = np.zeros(0, np.int64)
        return ParsedChunk([], [], None, none, none, [], chunk.count_lines())


def sample_text(
    name: str,
    n_lines: int = 2 * N_SAMPLED,
    to_lines: Callable[[BinaryIO], BinaryIO] | None = None,
    may_be_damaged: bool = False,
) -> tuple[bytes, bool]:
    """Return the first lines of a file or of standard input, and whether there are no others.

    Parameters
    ----------
    name
        The path, or ``-`` for standard input.
    n_lines
        How many lines are wanted; there may be more.
    to_lines
        Returns a file with lines instead of one that may have none.
    may_be_damaged
        Whether the lines before damage are enough, if there are any.
    """
    lines = _Lines(n_lines)
    try:
        for _ in TextSource(name, lines, to_lines=to_lines).blocks(1, lambda *place: None):
            pass
    except _Enough:
        pass
    except Lost:
        if not may_be_damaged or not lines.text:
            raise
        lines.is_whole = False
    return lines.text, lines.is_whole


def sample_header(name: str, delimiter: str) -> list[str]:
    """Return the cells of the first record of a CSV file; nothing if it is invalid."""
    try:
        text, is_whole = sample_text(name, 1)
    except SourceError:  # the reader reports it
        return []
    separator = separator_line(text)
    start = (0, 0) if separator is None else (separator.size, 1)
    with suppress(IncompleteRecord):
        for _, record in Records(TextLines(text, *start, is_whole), delimiter):
            if not is_blank(record):
                return [] if isinstance(record, ValueError) else record
    return []


def guess_delimiter(text: bytes) -> str:
    """Return the character that separates the cells of the first line, or of the one below.

    The first line may be a title.
    """
    lines = text.lstrip().split(b"\n", 2)[:2]
    first, second = (line.decode(errors="replace") for line in (*lines, lines[0])[:2])
    delimiter, below = (max(DELIMITERS, key=line.count) for line in (first, second))
    return below if below in second and delimiter not in second else delimiter


class CsvSample(NamedTuple):
    """The columns of the first records of a CSV file.

    Parameters
    ----------
    columns
        The columns.
    n_rows
        How many records there are.
    n_invalid
        How many others are invalid, or have more or fewer cells.
    has_header
        Whether the first line holds the names of the columns.
    is_whole
        Whether these are all records.
    fault
        Where the first invalid record is, and why it is invalid; None if all are valid.
    title
        Where the first line is, and why it is a title above the names of the columns; "" if it is
        none.
    """

    columns: list[ColumnSummary]
    n_rows: int
    n_invalid: int
    has_header: bool
    is_whole: bool
    fault: str | None = None
    title: str = ""


def sample_csv(
    name: str,
    text: bytes,
    is_whole: bool,
    delimiter: str,
    rules: CellRules,
    header: bool | None = None,
    names: Sequence[str] | None = None,
    target: str | None = None,
) -> CsvSample:
    """Summarize the columns of the first records.

    Parameters
    ----------
    name
        The file, for errors.
    text
        Its first lines.
    is_whole
        Whether these are all lines.
    delimiter
        The character between cells.
    rules
        How the text of a cell is understood.
    header
        Whether the first line holds the names of the columns; None if it does unless it looks like
        data.
    names
        The names of the columns of a file without a header.
    target
        The column of the label, as an option names it.

    Raises
    ------
    SourceError
        If there is no header, or it is invalid.
    """
    if names is None and header is None:
        require_table(text, name)
    records: list[list[str]] = []
    places: list[int] = []
    faults: list[tuple[int, str]] = []
    separator = separator_line(text)
    start = (0, 0) if separator is None else (separator.size, 1)
    with suppress(IncompleteRecord):
        for line, record in Records(TextLines(text, *start, is_whole), delimiter):
            if isinstance(record, ValueError):
                if not records:
                    raise SourceError(f"{name}:{line}: invalid header: {record}")
                faults.append((line, str(record)))
            elif len(records) > N_SAMPLED:
                is_whole = False
                break
            elif not is_blank(record) and not (records and is_footer(record)):
                records.append(record)
                places.append(line)
    if not records:
        raise SourceError(f"{name} is empty: a CSV file begins with the names of its columns")
    first = records[0]
    rows = [row for row in records[1:] if row != first]
    faults += [
        (line, wrong_width(record, len(first), delimiter))
        for line, record in zip(places, records, strict=True)
        if len(record) != len(first) or is_rule(record)
    ]
    if names is None and header is not False:
        check_width(first, rows, f"{name}:{places[0]}", delimiter)
        if all(len(row) == 1 for row in rows):
            check_blanks(first, name)
    header = names is None and (_is_header(first, rows, target) if header is None else header)
    if not header:
        rows = [row for row in records if row != names]
        first = list(names or map(str, range(len(first))))
    whole = [row for row in rows if len(row) == len(first) and not is_rule(row)]
    columns = summarize_columns(first, whole, rules)
    n_with_words = sum(bool(column.words) for column in columns)
    odd = [row for row in whole if n_with_words > 1 and _has_words_alone(row, columns, rules)]
    if header and odd:
        reason = "the line has no numbers: remove it if it describes the columns"
        faults += [(places[records.index(row)], reason) for row in odd]
        whole = [row for row in whole if row not in odd]
        columns = summarize_columns(first, whole, rules)
    fault = "{}:{}: {}".format(name, *min(faults)) if faults else None
    title = describe_title(first, rows) if header else ""
    title = f"{name}:{places[0]}: {title}" if title else ""
    return CsvSample(columns, len(whole), len(faults), header, is_whole, fault, title)


def _is_header(first: Sequence[str], rows: Sequence[Sequence[str]], target: str | None) -> bool:
    """Return whether a first record holds the names of the columns."""
    if target is None and _has_name_below(first, rows):
        return False
    try:
        check_is_header(first, rows, target, "")
    except SourceError:
        return False
    return True


def _has_name_below(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether a name occurs below itself: then it is more likely a value."""
    pairs = zip(header, zip(*rows, strict=False), strict=False)
    return any(name in cells for name, cells in pairs if not CellRules().is_number(name))


def _has_words_alone(
    row: Sequence[str], columns: Sequence[ColumnSummary], rules: CellRules
) -> bool:
    """Return whether a row has words in columns of numbers, and no number.

    It describes the columns, or names them in another way.
    """
    found = []
    for column in columns:
        cell = row[column.position].strip()
        if cell in column.words:
            found.append(cell)
        elif column.kind in ("number", "boolean") and not rules.is_missing(cell):
            return False
    return len({word for word in found if not is_missing_number(word)}) > 1
