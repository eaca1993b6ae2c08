"""The meaning of CSV files: records, and columns with a label, weight, categories or numbers.

`Records` and `Columns.example` define the format in plain Python. The kernel
`streaml1.text.csv.parse_records` gives the same results for regular records.
"""

from __future__ import annotations

import csv as plain_csv
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaml1.core.hashing import name_hashes
from streaml1.core.named_options import named_option, named_options
from streaml1.sources.readers.csv_cells import CellRules, number_marks
from streaml1.sources.readers.csv_header import Roles, listing
from streaml1.sources.readers.csv_header_checks import is_rule
from streaml1.sources.readers.parsed_lines import decode_line
from streaml1.sources.source import SourceError, shown
from streaml1.text import csv, csv_cells

__all__ = [
    "BlankRecord", "Columns", "Footer", "IncompleteRecord", "Records", "RepeatedHeader",
    "SeparatorLine", "SkippedRecord", "TextLines", "delimiter_of", "is_blank", "is_footer",
    "separator_line", "wrong_width",
]  # fmt: skip


class IncompleteRecord(Exception):
    """Raised if a record continues after the available text."""


class TextLines:
    """The lines of a text from an offset on, each with its number.

    Attributes
    ----------
    offset, number : int
        How many bytes and lines were read.
    """

    def __init__(self, text: bytes, offset: int = 0, number: int = 0, at_end: bool = True) -> None:
        self._text = text
        self.offset = offset
        self.number = number
        self._at_end = at_end

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        while self.offset < len(self._text):
            begin = self.offset
            self.offset = self._text.find(b"\n", begin) + 1 or len(self._text)
            self.number += 1
            yield self.number, self._text[begin : self.offset]
        if not self._at_end:
            raise IncompleteRecord


_PLAIN_QUOTES = "if quotes are plain text in this file, remove them, as with tr -d '\"'"


class Records:
    """The records of a CSV file, each with the line where it starts.

    An invalid record is yielded as the ValueError that explains it. The next record starts on the
    next line.
    """

    def __init__(self, lines: TextLines, delimiter: str = ",") -> None:
        self._lines = lines
        self._delimiter = delimiter
        self._reader = plain_csv.reader(self._decoded(), strict=True, delimiter=delimiter)
        self._first = self._last = 0
        self._text = ""  # of the last line
        self._decoding_errors: list[ValueError] = []

    def _decoded(self) -> Iterator[str]:
        for number, line in self._lines:
            is_first = not self._first
            self._first = self._first or number
            self._last = number
            try:
                text = decode_line(line)
            except ValueError as error:
                # Dropping the line could turn two halves into one valid record.
                self._decoding_errors.append(error)
                text = line.decode(errors="replace")
            if is_first:  # files that were joined have marks at their beginnings
                text = text.removeprefix("\ufeff")
            self._text = text
            yield text

    def __iter__(self) -> Iterator[tuple[int, list[str] | ValueError]]:
        while True:
            self._first, self._decoding_errors = 0, []
            try:
                record = next(self._reader)
            except StopIteration:
                return
            except plain_csv.Error as error:
                # The rest of this message is about opening files in Python.
                reason = f"not CSV: {error}".partition(" - do you need to open")[0]
                if "field limit" in reason:
                    reason = (
                        f"a cell has more than {plain_csv.field_size_limit():,} characters: write "
                        "longer texts as JSON lines"
                    )
                elif "new-line" in reason:
                    reason += r"; if lines end in CR only, convert them, as with tr '\r' '\n'"
                elif r"\"" in self._text:
                    reason += r'; if \" stands for a quote, export the file with "" instead'
                elif '" ' in self._text and self._delimiter not in self._text:
                    option = named_option("delimiter", " ")
                    reason += f"; if blanks separate the cells, use {option}"
                elif self._last == self._first and "expected after" in reason:
                    reason += f"; {_PLAIN_QUOTES}"
                yield self._first, ValueError(f"{reason}{self._extent()}")
                continue
            if self._decoding_errors:
                yield self._first, self._decoding_errors[0]
            elif len(record) > 1 or "".join(record).strip():
                yield self._first, record

    def _extent(self) -> str:
        if self._last == self._first:
            return ""
        return f" (the record extends to line {self._last}: is a quote not closed? {_PLAIN_QUOTES})"


_SEPARATOR_LINE = re.compile(rb'"?sep=([^\r\n])"?\r?\n')


class SeparatorLine(NamedTuple):
    """A first line such as ``sep=;``, which Excel writes and reads."""

    delimiter: str
    size: int
    """Its bytes."""


def separator_line(text: bytes) -> SeparatorLine | None:
    r"""Return the line with which a text begins if it only names the delimiter.

    Examples
    --------
    >>> from streaml1.sources.readers.csv_schema import separator_line
    >>> separator_line(b"sep=;\r\na;b")
    SeparatorLine(delimiter=';', size=7)
    """
    found = _SEPARATOR_LINE.match(text)
    return None if found is None else SeparatorLine(found[1].decode("latin-1"), found.end())


_DELIMITER_NAMES = {"tab": "\t", r"\t": "\t", r"\x01": "\x01", r"\001": "\x01"}
"""Delimiters that are hard to type; the last one separates the cells of Hive."""


def delimiter_of(given: str) -> str:
    """Return the delimiter for the value of an option: one character, or ``tab``."""
    delimiter = _DELIMITER_NAMES.get(given, given)
    allowed = len(delimiter) == 1 and delimiter.isascii() and not delimiter.isalnum()
    if not allowed or delimiter in '"+-.\r\n\0':
        raise SourceError(
            'delimiter must be one ASCII character other than letters, digits and "+-., or the '
            f"word tab, got {given!r}"
        )
    return delimiter


class SkippedRecord(Exception):
    """Raised if a record is neither an example nor invalid."""


class RepeatedHeader(SkippedRecord):
    """Raised if a record is the header again, as where files were joined."""


class Footer(SkippedRecord):
    """Raised if a record is what a database writes below a table, such as ``(1234 rows)``."""


class BlankRecord(SkippedRecord):
    """Raised if all cells are blank, as in the rows that spreadsheets write below a table."""


class _Feature(NamedTuple):
    """A column of features."""

    position: int
    name: str
    is_text: bool


class Columns:
    """The roles of the columns of a file.

    Parameters
    ----------
    header
        The names of the columns.
    roles
        The positions of the columns with a role. No two columns of features have the same name.
    require_label
        Whether a missing label is an error. Otherwise it is None.
    rules
        How the text of a cell is understood.
    skips_header
        Whether a record that equals the header is skipped.
    delimiter
        The character between cells.

    Attributes
    ----------
    delimiter, require_label
        As given.
    distinct_names : bool
        Whether no record can have the same feature name twice.
    name_bytes : ndarray
        The names for the kernel, one after the other, uint8.
    bytes_per_column : float
        Their mean length.
    words : ndarray
        Argument of the kernel: the missing words.
    id : int or None
        The position of the column of the id.
    """

    def __init__(
        self,
        header: list[str],
        roles: Roles,
        require_label: bool = True,
        rules: CellRules | None = None,
        skips_header: bool = True,
        delimiter: str = ",",
    ) -> None:
        self.delimiter = delimiter
        self._rules = rules or CellRules()
        self._width = len(header)
        self._target, self._weight = roles.target, roles.weight
        self.id = roles.id
        special = {roles.target, roles.weight, roles.id, *roles.ignored}
        self._features = [
            _Feature(position, column, position in roles.text)
            for position, column in enumerate(header)
            if position not in special
        ]
        self._ignored = [
            header[position] if header.count(header[position]) == 1 else str(position)
            for position in sorted(roles.ignored)
        ]
        self.require_label = require_label
        self._skips_header = skips_header
        self.header = header
        # A column of numbers "a=b" has the name of the category b in the column "a".
        self.distinct_names = not any("=" in feature.name for feature in self._features)
        self._describe_for_kernel()

    def _describe_for_kernel(self) -> None:
        kinds: list[Any] = [csv.IGNORED] * len(self.header)
        for position, kind in ((self._target, csv.LABEL), (self._weight, csv.WEIGHT)):
            if position is not None:
                kinds[position] = kind
        for feature in self._features:
            kinds[feature.position] = csv.CATEGORY if feature.is_text else 0
        names = [
            f"{column}=" if kind == csv.CATEGORY else column
            for column, kind in zip(self.header, kinds, strict=True)
        ]
        raw = [name.encode() for name in names]
        self.name_bytes = np.frombuffer(b"".join(raw), np.uint8)
        self.bytes_per_column = len(self.name_bytes) / len(self.header)
        sizes = np.array([len(name) for name in raw], np.uint64)
        begins = np.cumsum(sizes, dtype=np.uint64) - sizes
        heads = [int.from_bytes(name[:8], "little") for name in raw]
        self._kernel_columns = np.array(
            [kinds, begins, sizes, name_hashes(names), heads, _category_runs(kinds, sizes)],
            np.uint64,
        )
        self.words = self._rules.kernel_words()
        starts = [b"\xef"]  # the first byte of a byte order mark
        if self._skips_header:  # that of the name, and of its opening quote
            starts += [self.header[0].encode()[:1] or self.delimiter.encode(), b'"']
        self.words[csv_cells.WORDS_HEADER], _ = csv_cells.word_filter(starts)

    def kernel_columns(self, names_offset: int) -> NDArray[np.uint64]:
        """Return the argument `columns` of `streaml1.text.csv.parse_records`.

        Parameters
        ----------
        names_offset
            The offset of `name_bytes` from the beginning of the chunk.
        """
        columns = self._kernel_columns.copy()
        columns[1] += np.uint64(names_offset)
        return columns

    def records(self, lines: TextLines) -> Records:
        """Return the records of some lines."""
        return Records(lines, self.delimiter)

    def parse_line(self, text: bytes) -> tuple[dict[Any, Any], str | None, float]:
        """Return features, label and weight of the text of one valid record."""
        for _, record in self.records(TextLines(text)):
            return self.example(record)
        raise AssertionError("no record")

    def example(self, record: list[str] | ValueError) -> tuple[dict[Any, Any], str | None, float]:
        """Return features, label and weight of a record.

        Raises
        ------
        ValueError
            If the record is invalid; the text is one sentence.
        SkippedRecord
            If the record is the header, a footer, or if it is blank and a label is required.
        """
        if isinstance(record, ValueError):
            raise record
        if self._skips_header and record == self.header:
            raise RepeatedHeader
        if self.require_label and is_blank(record):
            raise BlankRecord
        if len(record) != self._width:
            if is_footer(record):
                raise Footer
            raise ValueError(wrong_width(record, self._width, self.delimiter))
        x: dict[Any, Any] = {}
        for position, column, is_text in self._features:
            cell = record[position]
            if is_text:
                value: Any = None if self._rules.is_missing(cell) else cell
            else:
                value = self._number(cell, column, record)
            x[column] = value
        w = 1.0 if self._weight is None else self._sample_weight(record[self._weight])
        return x, self._label(record), w

    def _sample_weight(self, cell: str) -> float:
        assert self._weight is not None
        try:
            return self._rules.weight(cell)
        except ValueError as error:
            column = self.header[self._weight]
            raise ValueError(f"column {column!r}: {error}{self._marks_remedy(cell)}") from None

    def _marks_remedy(self, cell: str) -> str:
        """Return a clause for a number that is written in another way; "" for any other cell."""
        marks = number_marks(cell, self.delimiter)
        if self._rules.is_localized:
            is_number = marks is not None or CellRules().is_number(cell)
            given = named_options(self._rules.marks)
            return f"; if it is a number, write it with the marks of {given}" if is_number else ""
        return f"; if it is a number, use {named_options(marks)}" if marks else ""

    def _number(self, cell: str, column: str, record: list[str]) -> float | None:
        try:
            return self._rules.number(cell)
        except ValueError as error:
            if reason := _rule(record):
                raise ValueError(reason) from None
            # The options replace what was given or found before.
            categories = [feature.name for feature in self._features if feature.is_text]
            words = self._columns_of_words(record)
            others = f", nor are the cells of {listing(words[1:])}" if len(words) > 1 else ""
            raise ValueError(
                f"column {column!r}: {shown(cell)} {error}{others}: leave missing values empty or "
                f"list their words with {named_option('missing')}, or use "
                f"{named_option('categorical', _listed(categories, words))} for text, or "
                f"{named_option('ignore', _listed(self._ignored, words))}"
                + self._marks_remedy(cell)
                + self._description(record)
            ) from None

    def _columns_of_words(self, record: list[str]) -> list[str]:
        """Return the columns of numbers in which a record has words."""
        numbers = [(column, record[at]) for at, column, is_text in self._features if not is_text]
        return [column for column, cell in numbers if not self._rules.is_number(cell)]

    def _description(self, record: list[str]) -> str:
        """Return a clause for a record without numbers in several columns of numbers."""
        cells = [record[position] for position, _, is_text in self._features if not is_text]
        if len(cells) < 2 or any(map(self._rules.is_number, cells)):
            return ""
        return "; if the line only describes the columns, remove it"

    def _label(self, record: list[str]) -> str | None:
        if self._target is None:
            return None
        cell = record[self._target]
        y = self._rules.label(cell)
        if y is None and self.require_label:
            column = self.header[self._target]
            found = f"is {shown(cell.strip())}" if cell.strip() else "is empty"
            raise ValueError(f"the label is missing: column {column!r} {found}")
        return y

    def id_of(self, record: list[str]) -> str | None:
        """Return the id of a valid record; None if it is missing."""
        assert self.id is not None
        cell = record[self.id]
        return None if self._rules.is_missing(cell) else cell

    def labels(self, cells: list[str]) -> Sequence[str | None]:
        """Return the labels of distinct cells that the kernel accepts; None if one is missing."""
        return self._rules.labels(cells)


def _category_runs(kinds: list[Any], sizes: NDArray[np.uint64]) -> list[int]:
    """Return how many columns from each one on are categories with names of up to 7 bytes."""
    runs = [0]
    for kind, size in zip(reversed(kinds), reversed(sizes.tolist()), strict=True):
        is_short = kind == csv.CATEGORY and size <= 8  # with the equals sign
        runs.append(runs[-1] + 1 if is_short else 0)
    return runs[:0:-1]


def is_blank(record: Sequence[str] | ValueError) -> bool:
    """Return whether all cells of a record are blank."""
    if isinstance(record, ValueError):
        return False
    return not any(cell and not cell.isspace() for cell in record)


MAX_NAMES = 20
"""Columns that an error lists."""

_FOOTER = re.compile(r"\(?[0-9,]+ (rows?|records?)( affected| selected)?\)?\.?|\\\.|\x1a", re.I)


def is_footer(record: Sequence[str]) -> bool:
    r"""Return whether a record is a footer of a database, or the end of data of PostgreSQL.

    Examples
    --------
    >>> from streaml1.sources.readers.csv_schema import is_footer
    >>> is_footer(["(1234 rows)"]), is_footer(["2 rows selected."]), is_footer(["\\."])
    (True, True, True)
    >>> is_footer(["Total"])
    False
    """
    return len(record) == 1 and _FOOTER.fullmatch(record[0].strip()) is not None


def wrong_width(record: Sequence[str], width: int, delimiter: str = ",") -> str:
    """Return the error for a record that has more or fewer cells than the header."""
    found, remedy = _cells(len(record)), ""
    if len(record) == 1 < width:
        found += f" ({shown(record[0])})"
        remedy = ": remove it if it is a comment or a footer"
        if record[0].count(delimiter) == width - 1:
            remedy = ": remove the quotes around the whole line"
    elif len(record) > width:
        remedy = ": quote cells that contain the delimiter"
    else:
        remedy = ": write the delimiters of empty cells at its end, too"
    return _rule(record) or f"the line has {found}, the header has {width}{remedy}"


def _rule(record: Sequence[str]) -> str:
    """Return the error for a record that is a line drawn by characters; "" for any other."""
    return "" if not is_rule(record) else (
        f"the line is a rule of a printed table ({shown(record[0])}): remove it, or export the "
        "table as CSV"
    )  # fmt: skip


def _listed(names: Sequence[str], further: Sequence[str]) -> list[Any]:
    """Return names and further ones for `named_option`; of many, only the first further ones."""
    listed = [*names, *further]
    return listed if len(listed) <= MAX_NAMES else [..., *further[:MAX_NAMES]]


def _cells(count: int) -> str:
    return f"{count} cell" if count == 1 else f"{count} cells"
