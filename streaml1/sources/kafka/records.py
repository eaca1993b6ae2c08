"""Kafka records as blocks of examples, and the position after each example.

The value of a record is one example, or several: lines, or the elements of a JSON array. Positions
count these pieces, so that a run can resume in the middle of a record. `record_formats` decides
what the pieces of a value are.

The size of a record, the number of its lines and the number of rejected lines are limited, so that
no record occupies the learner for minutes. A record beyond a limit is rejected as a whole.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streaml1.core.types import Ints
from streaml1.sources.kafka.record_formats import MAX_PIECES, Piece, RecordParser
from streaml1.sources.kafka.wire_format import schema_id_of
from streaml1.sources.readers.parsed_lines import ParsedChunk
from streaml1.sources.source import Block, Reject

if TYPE_CHECKING:
    from kafka.consumer.fetcher import ConsumerRecord

__all__ = [
    "Coordinates",
    "KafkaBlock",
    "Origin",
    "PartitionKey",
    "Position",
    "RecordLines",
    "RecordReader",
]

PartitionKey = int | str
"""A partition in a position: its number, or ``labels/0`` for one of the topic of labels."""

MAX_RECORD = 2**26
"""Bytes of a record that is parsed, after decompression: as many as of a line in a file."""

MAX_REJECTED_LINES = 1_000
"""If more lines of a record are rejected, it is rejected as a whole."""

SHOWN_BYTES = 2**19
"""Bytes of a record beyond a limit that are handed on: a dead letter must fit into a record."""

Position = dict[Any, tuple[int, int]]
"""For each partition the offset of the next record, and how many of its lines are done."""

Coordinates = tuple[str, int, int, int]
"""Topic, partition, offset and line of an example, as in `Origin`."""

KeyFunction = Callable[[Any], PartitionKey]
"""Returns the key of a record's partition in positions."""


class Origin(NamedTuple):
    """Coordinates and bytes of an example in a topic.

    Parameters
    ----------
    topic, partition, offset
        Coordinates of its record.
    time
        Timestamp of the record in milliseconds since 1970.
    line
        Line in the record, or element of its array, from 1; 0 if the record is one example.
    key
        Key of the record, or None.
    value
        Bytes of the example.
    schema_id
        What `schema_id_of` finds in the headers of its record.
    """

    topic: str
    partition: int
    offset: int
    time: int
    line: int
    key: bytes | None
    value: bytes
    schema_id: bytes = b""

    @property
    def place(self) -> str:
        """The coordinates as text: ``clicks/0@7``, or ``clicks/0@7:2`` for line 2 of a record."""
        line = f":{self.line}" if self.line else ""
        return f"{self.topic}/{self.partition}@{self.offset}{line}"

    @classmethod
    def from_place(cls, place: str, value: bytes) -> Origin | None:
        """Parse a `place`; return None if it is not of a topic. Time and key are lost."""
        match = re.fullmatch(r"(.+)/(\d+)@(\d+)(?::(\d+))?", place)
        if match is None:
            return None
        partition, offset, line = (int(number or 0) for number in match.groups()[1:])
        return cls(match[1], partition, offset, 0, line, None, value)


class _Pieces(NamedTuple):
    """The pieces of some records, in three columns."""

    records: list[int]
    """The index of the record of each piece."""
    numbers: list[int]
    """The number of the piece in its record from 1; 0 if it is the only one."""
    pieces: list[bytes | Piece]


class RecordLines:
    """The lines that a parser reads of some records, without those that are done.

    At first each record counts as one line; `split_records` gives several lines to records with
    several pieces. Most topics have one example per record, and never need it.

    Parameters
    ----------
    records
        Consecutive records, in the order in which they are learnt.
    start
        Position before them.
    key
        Returns the key of a record's partition in positions.

    Attributes
    ----------
    text
        The lines, each with a newline after it.
    n_lines
        Their number.
    """

    def __init__(
        self,
        records: Sequence[ConsumerRecord],
        start: Position,
        key: KeyFunction = attrgetter("partition"),
    ) -> None:
        self.records = records
        self.start = start
        self._key = key
        values = [record.value or b"" for record in records]
        self._rejected = {k: reason for k, v in enumerate(values) if (reason := _excess(v))}
        for k in self._rejected:
            values[k] = b""
        self.text = b"\n".join([*values, b""])
        self.n_lines = len(values)
        self._split: _Pieces | None = None

    def split_records(self, parser: RecordParser, broken: Collection[int] = ()) -> None:
        """Split the records into their pieces.

        Parameters
        ----------
        parser
            Decides what the pieces are.
        broken
            Indices of the records with lines that are not complete JSON objects.
        """
        self._split = split = self._pieces(parser, broken)
        lines = (piece if isinstance(piece, bytes) else piece.line for piece in split.pieces)
        self.text = b"\n".join([*lines, b""])
        self.n_lines = len(split.pieces)

    def _pieces(self, parser: RecordParser, broken: Collection[int]) -> _Pieces:
        started = {key: position for key, position in self.start.items() if position[1]}
        records: list[int] = []
        numbers: list[int] = []
        pieces: list[bytes | Piece] = []
        for k, record in enumerate(self.records):
            value = record.value or b""
            found: Sequence[bytes | Piece]
            if k in self._rejected:
                found = [Piece(b"", value[:SHOWN_BYTES], self._rejected[k])]
            else:
                found = parser.split(value, k in broken, schema_id_of(record.headers))
            if len(found) == 1:
                records.append(k)
                numbers.append(0)
                pieces += found
                continue
            offset, done = started.get(self._key(record), (-1, 0))
            skipped = min(done, len(found)) if offset == record.offset else 0
            records += [k] * (len(found) - skipped)
            numbers += range(skipped + 1, len(found) + 1)
            pieces += found[skipped:]
        return _Pieces(records, numbers, pieces)

    def broken_records(self, parser: RecordParser, faults: Sequence[tuple[int, str]]) -> set[int]:
        """Return the records that were split into lines, not all of them complete JSON objects."""
        assert self._split is not None
        records, numbers, pieces = self._split
        return {
            records[k]
            for k, _ in faults
            if numbers[k] and isinstance(line := pieces[k], bytes) and not parser.is_whole(line)
        }

    def reject_faulty_records(self, faults: Sequence[tuple[int, str]]) -> bool:
        """Reject each record with too many rejected lines; return whether there is one.

        The records must be split again, then.
        """
        if self._split is None or len(faults) <= MAX_REJECTED_LINES:
            return False
        counts = Counter(self._split.records[line] for line, _ in faults)
        first = {self._split.records[line]: reason for line, reason in reversed(faults)}
        faulty = {
            k: f"{n:,} lines of the record are rejected, more than {MAX_REJECTED_LINES:,}; the "
            f"first one: {first[k]}"
            for k, n in counts.items()
            if n > MAX_REJECTED_LINES
        }
        self._rejected |= faulty
        return bool(faulty)

    def faults(self) -> list[tuple[int, str]]:
        """Return the pieces that are rejected without being parsed: line, reason."""
        if self._split is None:
            return list(self._rejected.items())
        pieces = enumerate(self._split.pieces)
        return [
            (k, piece.reason) for k, piece in pieces if isinstance(piece, Piece) and piece.reason
        ]

    def origin(self, line: int) -> Origin:
        """Return coordinates and bytes of a line, numbered from 0."""
        k, number, value = line, 0, None
        if self._split is not None:
            k, number = self._split.records[line], self._split.numbers[line]
            piece = self._split.pieces[line]
            value = piece if isinstance(piece, bytes) else piece.value
        record = self.records[k]
        if value is None:
            value = record.value[:SHOWN_BYTES] if k in self._rejected else record.value
        return Origin(
            record.topic, record.partition, record.offset, record.timestamp or 0, number,
            record.key, value, schema_id_of(record.headers),
        )  # fmt: skip

    def coordinates(self, lines: Sequence[int]) -> list[Coordinates]:
        """Return the coordinates of some lines, numbered from 0."""
        records, numbers = lines, [0] * len(lines)
        if self._split is not None:
            records = [self._split.records[line] for line in lines]
            numbers = [self._split.numbers[line] for line in lines]
        return [
            (r.topic, r.partition, r.offset, number)
            for r, number in zip(map(self.records.__getitem__, records), numbers, strict=True)
        ]

    def position(self, n_done: int) -> Position:
        """Return the position after the first `n_done` lines."""
        n_records, number = len(self.records), 0
        if n_done < self.n_lines:
            n_records = n_done
            if self._split is not None:  # the next piece
                n_records, number = self._split.records[n_done], self._split.numbers[n_done]
        position = dict(self.start)
        key = self._key
        position.update(
            {key(record): (record.offset + 1, 0) for record in self.records[:n_records]}
        )
        if number > 1:
            record = self.records[n_records]
            position[key(record)] = (record.offset, number - 1)
        return position


@dataclass(frozen=True, slots=True)
class KafkaBlock(Block):
    """Consecutive examples of a topic; `name` is the topic.

    Parameters
    ----------
    source
        Lines that contain the examples.
    line_indices
        Index of each example's line, from 0.
    """

    source: RecordLines | None = None
    line_indices: Sequence[int] | Ints = ()

    def after(self, rows: int) -> Position:
        """Return the position after the first `rows` examples."""
        if rows == len(self):
            end: Position = self.end
            return end
        assert self.source is not None
        return self.source.position(self.line_indices[rows - 1] + 1 if rows else 0)

    def place(self, row: int) -> str:
        """Return the coordinates of an example as text."""
        return self.origin(row).place

    def coordinates(self, lo: int, hi: int) -> list[Coordinates]:
        """Return the coordinates of consecutive examples, which cost less than their origins."""
        assert self.source is not None
        lines = self.line_indices[lo:hi]
        return self.source.coordinates(lines.tolist() if isinstance(lines, np.ndarray) else lines)

    def origin(self, row: int) -> Origin:
        """Return coordinates and bytes of an example."""
        assert self.source is not None
        return self.source.origin(self.line_indices[row])


def _excess(value: bytes) -> str:
    """Return why a value is not parsed; "" if it is within the limits."""
    if len(value) > MAX_RECORD:
        return f"the record has {len(value):,} bytes, more than {MAX_RECORD:,}"
    if len(value) > MAX_PIECES and (n := value.count(b"\n")) > MAX_PIECES:
        return f"the record has {n:,} lines, more than {MAX_PIECES:,}"
    return ""


class RecordReader:
    """Converts records to blocks and keeps the position.

    Parameters
    ----------
    topic
        Name of the topic.
    parser
        Parser of the format.
    key
        Returns the key of a record's partition in positions.

    Attributes
    ----------
    position
        Position after all blocks returned so far and all rejected examples between them.
    """

    def __init__(
        self, topic: str, parser: RecordParser, key: KeyFunction = attrgetter("partition")
    ) -> None:
        self.topic = topic
        self._parser = parser
        self._key = key
        self.position: Position = {}
        self._number = 0  # of the last example

    def blocks(
        self, records: Sequence[ConsumerRecord], size: int, reject: Reject
    ) -> Iterator[KafkaBlock]:
        """Convert records to blocks of at most `size` examples.

        The last block may be empty if only the position has changed. If `reject` raises, the
        examples before the rejected one are yielded first.
        """
        for part in _parts(records, size):
            lines = RecordLines(part, self.position, self._key)
            yield from self._blocks(lines, size, reject)

    def _blocks(self, lines: RecordLines, size: int, reject: Reject) -> Iterator[KafkaBlock]:
        parsed = self._parse(lines)
        numbers, faults = self._number_examples(parsed)
        n, end = len(parsed.lines), lines.position(lines.n_lines)
        for lo in range(0, n or 1, size):
            hi = min(n, lo + size)
            n_done = lines.n_lines if hi == n else parsed.lines[hi - 1] + 1
            # Report each fault with the block whose end passes it: a checkpoint between two
            # blocks then counts it exactly once, also after a resume.
            while faults and faults[0].line < n_done:
                fault = faults.popleft()
                origin = lines.origin(fault.line)
                try:
                    reject(origin.place, fault.reason, fault.number, origin)
                except Exception as error:
                    hi = bisect_left(parsed.lines, fault.line)
                    self.position = lines.position(fault.line)
                    yield self._block(lines, parsed, numbers, slice(lo, hi))
                    raise error from None
            self.position = end if hi == n else lines.position(n_done)
            yield self._block(lines, parsed, numbers, slice(lo, hi))

    def _parse(self, lines: RecordLines) -> ParsedChunk:
        """Parse records: first as one line each, the usual case."""
        parser = self._parser
        must_split = parser.has_headers(record.value for record in lines.records)
        if not must_split:
            parsed = parser(lines.text)
            must_split = parsed.n_lines > lines.n_lines or any(
                parser.must_split(lines.origin(k).value) for k, _ in parsed.faults
            )
        if must_split:
            lines.split_records(parser)
            parsed = parser(lines.text)
            broken = lines.broken_records(parser, parsed.faults)
            if lines.reject_faulty_records(parsed.faults) or broken:
                lines.split_records(parser, broken)
                parsed = parser(lines.text)
        parsed.faults.extend(lines.faults())
        return parsed

    def _number_examples(self, parsed: ParsedChunk) -> tuple[Sequence[int], deque[_Fault]]:
        """Return the numbers of the examples, and the faults with theirs."""
        first, n = self._number + 1, len(parsed.lines)
        self._number += n + len(parsed.faults)
        if not parsed.faults:
            return range(first, first + n), deque()
        ordered = sorted([*((line, "") for line in parsed.lines), *parsed.faults])
        numbered = [_Fault(line, reason, k) for k, (line, reason) in enumerate(ordered, first)]
        faults = deque(fault for fault in numbered if fault.reason)
        return [fault.number for fault in numbered if not fault.reason], faults

    def _block(
        self, lines: RecordLines, parsed: ParsedChunk, numbers: Sequence[int], rows: slice
    ) -> KafkaBlock:
        y = parsed.y[rows]
        y = y.tolist() if isinstance(y, np.ndarray) else y
        return KafkaBlock(
            parsed.x[rows], y, None if parsed.w is None else parsed.w[rows],
            self.topic, list(numbers[rows]), self.position,
            None if parsed.ids is None else parsed.ids[rows], lines, parsed.lines[rows],
        )  # fmt: skip


def _parts(records: Sequence[ConsumerRecord], size: int) -> Iterator[Sequence[ConsumerRecord]]:
    """Yield at most `size` records at a time, and not many more bytes than one record may have."""
    lo = n_bytes = 0
    for hi, record in enumerate(records):
        n_bytes += len(record.value or b"")
        if hi - lo == size or (n_bytes > MAX_RECORD and hi > lo):
            yield records[lo:hi]
            lo, n_bytes = hi, len(record.value or b"")
    yield records[lo:]


class _Fault(NamedTuple):
    """A line that is not an example; one without a reason is an example."""

    line: int
    reason: str
    number: int
