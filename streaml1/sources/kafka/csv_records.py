"""CSV lines without a header as the values of Kafka records.

A line is one CSV record: a quote that is open at its end would make the next line, even that of
another Kafka record, a part of its last cell. Such a line is rejected by itself.
"""

from __future__ import annotations

from typing import Any

from streaml1.sources.kafka.record_formats import RecordParser
from streaml1.sources.readers.csv import CsvParser
from streaml1.sources.readers.csv_schema import SkippedRecord, TextLines
from streaml1.sources.readers.parsed_lines import BytesLineParser, ParsedChunk

__all__ = ["CsvRecords"]

QUOTE = b'"'


class CsvRecords:
    r"""Parses lines by the parser of files, and one by one if a quote extends over lines.

    Parameters
    ----------
    parser
        The parser, with the names of all columns.

    Attributes
    ----------
    parser : RecordParser
        The parser of the values of records.
    identity : dict
        What identifies the reading: positions are valid only if it is unchanged.
    texts : tuple of str
        The columns of raw text.

    Examples
    --------
    >>> from streaml1.sources.kafka.csv_records import CsvRecords
    >>> from streaml1.sources.readers.csv import CsvParser
    >>> parser = CsvParser("clicks", "y", ["site"], column_names=["y", "site"])
    >>> parsed = CsvRecords(parser).read(b'1,"news\n0,mail\n')
    >>> list(parsed.x), parsed.faults
    ([{'site': 'mail'}], [(0, 'not CSV: unexpected end of data')])
    """

    def __init__(self, parser: CsvParser) -> None:
        self._parser = parser
        self._columns = parser.require_columns()
        self._each = BytesLineParser(self._parse_line)
        self.texts = parser.texts
        self.identity = {**parser.roles, "format": "csv"}
        self.parser = RecordParser(self.read, False)

    def read(self, text: bytes) -> ParsedChunk:
        """Parse lines separated by newlines."""
        if QUOTE not in text:
            return self._parser.read_records(text)
        if all(line.count(QUOTE) % 2 == 0 for line in text.split(b"\n")):
            parsed = self._parser.read_records(text)
            n_lines = sum(1 for line in text.split(b"\n") if line.strip())
            # Fewer records than lines: a cell with a literal quote may precede an open one.
            if len(parsed) + len(parsed.faults) == n_lines:
                return parsed
        return self._each.read(text)

    def _parse_line(self, line: bytes) -> Any:
        for _, cells in self._parser.records(TextLines(line)):
            try:
                example = self._columns.example(cells)
            except SkippedRecord:
                return None
            id = None
            if self._columns.id is not None and isinstance(cells, list):
                id = self._columns.id_of(cells)
            return example if id is None else (*example, id)
        return None
