"""Records of Kafka to blocks of examples, and the position after each example."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from streaml1.sources.readers.formats import line_parser
from streaml1.sources.readers.parsed_lines import EachLine, Parsed
from streaml1.sources.source import Block, Refuse, SourceError

__all__ = [
    "KafkaBlock",
    "Origin",
    "Parse",
    "Position",
    "RecordLines",
    "RecordReader",
    "event_parser",
    "record_parser",
]

FORMATS = ("jsonl", "svmlight", "vw")

Position = dict[Any, tuple[int, int]]
"""By partition, the offset of the next record and how many of its lines are done with."""

Key = Callable[[Any], Any]
"""What a position calls the partition of a record: its number, where there is one topic."""


Parse = Callable[[bytes], Parsed]
"""Reads lines with newlines between."""


class Origin(NamedTuple):
    """Where an example of a topic stands, and what was there.

    Parameters
    ----------
    topic, partition, offset, time
        Of its record; the time in milliseconds since 1970.
    line
        In the record, from 1; 0 where the record has only one.
    key
        Of its record, or None.
    value
        The bytes of the example.
    """

    topic: str
    partition: int
    offset: int
    time: int
    line: int
    key: bytes | None
    value: bytes

    @property
    def place(self) -> str:
        """In words, as ``clicks/0@7``, or ``clicks/0@7:2`` for the second line of a record."""
        line = f":{self.line}" if self.line else ""
        return f"{self.topic}/{self.partition}@{self.offset}{line}"

    @classmethod
    def at(cls, place: str, value: bytes) -> Origin | None:
        """What stood at a `place`, as far as that tells; None where it is of no topic."""
        found = re.fullmatch(r"(.+)/(\d+)@(\d+)(?::(\d+))?", place)
        if found is None:
            return None
        partition, offset, line = (int(one or 0) for one in found.groups()[1:])
        return cls(found[1], partition, offset, 0, line, None, value)


class RecordLines:
    """The lines in the values of some records, those done with before left out.

    Parameters
    ----------
    records
        As kafka-python hands them over, in the order in which they are to be learnt.
    began
        The position before them.
    key
        What it calls their partitions.

    """

    def __init__(
        self, records: Sequence[Any], began: Position, key: Key = attrgetter("partition")
    ) -> None:
        self.records = records
        self.began = began
        self._key = key
        values = [record.value or b"" for record in records]
        self.text = b"\n".join([*values, b""])
        self.n = len(values)
        # Where a record has several lines: the record of each line, its number in it, and it.
        self._several: list[tuple[int, int, bytes]] | None = None

    def apart(self) -> None:
        """Tell the lines of each record, as there are more of them than records."""
        self._several = list(self._each())
        self.text = b"\n".join([*(text for _, _, text in self._several), b""])
        self.n = len(self._several)

    def _each(self) -> Iterator[tuple[int, int, bytes]]:
        begun = {one: there for one, there in self.began.items() if there[1]}
        for place, record in enumerate(self.records):
            texts = (record.value or b"").removesuffix(b"\n").split(b"\n")
            if len(texts) == 1:
                yield place, 0, texts[0]
                continue
            offset, done = begun.get(self._key(record), (-1, 0))
            skipped = done if offset == record.offset else 0
            for number, text in enumerate(texts[skipped:], start=skipped + 1):
                yield place, number, text

    def origin(self, line: int) -> Origin:
        """Where a line stands, and what is there."""
        if self._several is None:
            place, number, text = line, 0, self.records[line].value
        else:
            place, number, text = self._several[line]
        record = self.records[place]
        return Origin(
            record.topic, record.partition, record.offset, record.timestamp or 0, number,
            record.key, text,
        )  # fmt: skip

    def position(self, done: int) -> Position:
        """The position once so many lines are done with."""
        whole, begun = len(self.records), 0
        if done < self.n:
            whole, begun = (done, 0) if self._several is None else self._several[done][:2]
        position = dict(self.began)
        key = self._key
        position.update({key(one): (one.offset + 1, 0) for one in self.records[:whole]})
        if begun > 1:
            record = self.records[whole]
            position[key(record)] = (record.offset, begun - 1)
        return position


@dataclass(frozen=True, slots=True)
class KafkaBlock(Block):
    """Consecutive examples of a topic; `name` is the topic.

    Parameters
    ----------
    source
        The lines that they are among.
    at
        Which line each is, from 0.

    """

    source: RecordLines | None = None
    at: Sequence[int] = ()

    def after(self, rows: int) -> Any:
        """The position after so many examples, to `begin` at."""
        if rows == len(self):
            return self.end
        assert self.source is not None
        return self.source.position(self.at[rows - 1] + 1 if rows else 0)

    def place(self, row: int) -> str:
        """Where an example of the block was read."""
        return self.origin(row).place

    def origin(self, row: int) -> Origin:
        """Where it stands, and what is there."""
        assert self.source is not None
        return self.source.origin(self.at[row])


class RecordReader:
    """Reads the records of a topic as they come, and knows how far it is.

    Parameters
    ----------
    topic
        Its name.
    parse
        Reads lines.
    key
        What positions call the partitions of records.

    Attributes
    ----------
    position
        What all blocks handed over so far, and what was refused between them, leave behind.

    """

    def __init__(self, topic: str, parse: Parse, key: Key = attrgetter("partition")) -> None:
        self.topic = topic
        self._parse = parse
        self._key = key
        self.position: Position = {}
        self._number = 0

    def blocks(self, records: Sequence[Any], size: int, refuse: Refuse) -> Iterator[KafkaBlock]:
        """The examples of some records, at most `size` at a time.

        The last block may be empty: it tells that the position has moved on. What stands before an
        example whose refusal raises is delivered first.

        """
        for lo in range(0, len(records) or 1, size):
            yield from self._blocks(
                RecordLines(records[lo : lo + size], self.position, self._key), size, refuse
            )

    def _blocks(self, lines: RecordLines, size: int, refuse: Refuse) -> Iterator[KafkaBlock]:
        parsed = self._parse(lines.text)
        if parsed.n_lines > lines.n:
            lines.apart()
            parsed = self._parse(lines.text)
        numbers, faults = self._numbered(parsed)
        n, last = len(parsed.lines), lines.position(lines.n)
        for lo in range(0, n or 1, size):
            hi = min(n, lo + size)
            after = lines.n if hi == n else parsed.lines[hi - 1] + 1
            # Each is refused with the block that passes it: what is saved between two blocks, and
            # gone on from, has to count it once.
            while faults and faults[0][0] < after:
                line, reason, number = faults.popleft()
                origin = lines.origin(line)
                try:
                    refuse(origin.place, reason, number, origin)
                except Exception as error:
                    hi, self.position = bisect_left(parsed.lines, line), lines.position(line)
                    yield self._block(lines, parsed, numbers, lo, hi, self.position)
                    raise error from None
            self.position = last if hi == n else lines.position(after)
            yield self._block(lines, parsed, numbers, lo, hi, self.position)

    def _numbered(self, parsed: Parsed) -> tuple[Sequence[int], deque[tuple[int, str, int]]]:
        """Numbers of the examples, and the faults with theirs."""
        first, n = self._number + 1, len(parsed.lines)
        self._number += n + len(parsed.faults)
        if not parsed.faults:
            return range(first, first + n), deque()
        at = sorted([*((line, "") for line in parsed.lines), *parsed.faults])
        numbered = [(line, reason, number) for number, (line, reason) in enumerate(at, first)]
        faults = deque(one for one in numbered if one[1])
        return [number for _, reason, number in numbered if not reason], faults

    def _block(
        self, lines: RecordLines, parsed: Parsed, numbers: Sequence[int], lo: int, hi: int,
        end: Position,
    ) -> KafkaBlock:  # fmt: skip
        y = parsed.y[lo:hi]
        y = y.tolist() if isinstance(y, np.ndarray) else y
        return KafkaBlock(
            parsed.x[lo:hi], y, None if parsed.w is None else parsed.w[lo:hi],
            self.topic, list(numbers[lo:hi]), end,
            None if parsed.ids is None else parsed.ids[lo:hi], lines, parsed.lines[lo:hi],
        )  # fmt: skip


# What reads lines


def record_parser(format: str | None, require_label: bool, texts: Collection[str] = ()) -> Parse:
    """What reads the values of records of a format; None: JSON or svmlight, as each begins.

    Raises
    ------
    SourceError
        One sentence, where records cannot have it.

    """
    if format is None:
        return _Either(require_label).read
    name = {"svm": "svmlight"}.get(format.lower(), format.lower())
    if name not in FORMATS:
        raise SourceError(
            f"format {format!r} is none of a topic: say {', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        )
    return line_parser(name, require_label, "record", texts).read


def event_parser(format: str | None) -> Parse:
    """What reads the values of records whose labels come late.

    Raises
    ------
    SourceError
        One sentence, where the format has no events.

    """
    if format not in (None, "jsonl"):
        raise SourceError(f"format {format!r} has no late labels: only JSON has")
    return line_parser("untimed events", what="record").read


JSON_BEGINS = b"{", b"[", b'"'


class _Either:
    """Reads lines of JSON and of svmlight, as each begins."""

    def __init__(self, require_label: bool) -> None:
        self._json = line_parser("jsonl", require_label, "record")
        self._svmlight = line_parser("svmlight", require_label, "record")
        self._each = EachLine(self._one)

    def read(self, text: bytes) -> Parsed:
        if text.startswith(b"{") and text.count(b"\n{") == text.count(b"\n", 0, -1):
            return self._json.read(text)
        if any(one in text for one in JSON_BEGINS):
            return self._each.read(text)
        return self._svmlight.read(text)

    def _one(self, line: bytes) -> Any:
        _refuse_prefix(line)
        return (self._json if line.lstrip().startswith(JSON_BEGINS) else self._svmlight).one(line)


def _refuse_prefix(line: bytes) -> None:
    """Refuse what some programs write before JSON."""
    if line.startswith(b"\xef\xbb\xbf"):
        raise ValueError("a byte order mark stands before the record: write it without")
    if line.startswith(b"\0") and line[5:].startswith(JSON_BEGINS):
        raise ValueError("five bytes of a schema registry stand before the JSON: write it without")
