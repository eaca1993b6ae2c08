"""Records of Kafka to blocks of examples, and the position after each example."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from streaml1.streams.jsonl import parse_json
from streaml1.streams.source import Block, Refuse, SourceError
from streaml1.streams.svmlight import parse_svmlight
from streaml1.streams.text import decode

__all__ = [
    "KafkaBlock",
    "Origin",
    "Parse",
    "Parsed",
    "Position",
    "RecordLines",
    "RecordReader",
    "each_text",
    "record_parser",
]

FORMATS = ("jsonl", "svmlight")

Position = dict[int, tuple[int, int]]
"""By partition, the offset of the next record and how many of its lines are done with."""


class Parsed(NamedTuple):
    """The examples in some lines.

    Parameters
    ----------
    x, y, w
        Features, labels and weights, as in a `Block`.
    lines
        The line of each, from 0.
    faults
        Lines that hold no example though they should, and one sentence for each.
    ids
        The id of each, or None; None where none has one.
    """

    x: Any
    y: Any
    w: Any
    lines: Sequence[int]
    faults: Sequence[tuple[int, str]]
    ids: Sequence[int | str | None] | None = None


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


class RecordLines:
    """The lines in the values of some records, those done with before left out.

    Parameters
    ----------
    records
        As kafka-python hands them over, in the order in which they are to be learnt.
    began
        The position before them.

    """

    def __init__(self, records: Sequence[Any], began: Position) -> None:
        self.records = records
        self.began = began
        values = [record.value or b"" for record in records]
        self.text = b"\n".join(values)
        self.n = len(values)
        # Where a record has several lines: the record of each line, its number in it, and it.
        self._several: list[tuple[int, int, bytes]] | None = None
        if self.text.count(b"\n") > self.n - 1:
            self._several = list(self._each(values))
            self.text = b"\n".join(text for _, _, text in self._several)
            self.n = len(self._several)

    def _each(self, values: list[bytes]) -> Iterator[tuple[int, int, bytes]]:
        begun = {one: there for one, there in self.began.items() if there[1]}
        for place, (record, value) in enumerate(zip(self.records, values, strict=True)):
            texts = value.removesuffix(b"\n").split(b"\n")
            if len(texts) == 1:
                yield place, 0, texts[0]
                continue
            offset, done = begun.get(record.partition, (-1, 0))
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
        position.update({one.partition: (one.offset + 1, 0) for one in self.records[:whole]})
        if begun > 1:
            record = self.records[whole]
            position[record.partition] = (record.offset, begun - 1)
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

    Attributes
    ----------
    position
        What all blocks handed over so far, and what was refused between them, leave behind.

    """

    def __init__(self, topic: str, parse: Parse) -> None:
        self.topic = topic
        self._parse = parse
        self.position: Position = {}
        self._number = 0

    def blocks(self, records: Sequence[Any], size: int, refuse: Refuse) -> Iterator[KafkaBlock]:
        """The examples of some records, at most `size` at a time.

        The last block may be empty: it tells that the position has moved on. What stands before an
        example whose refusal raises is delivered first.

        """
        for lo in range(0, len(records) or 1, size):
            yield from self._blocks(
                RecordLines(records[lo : lo + size], self.position), size, refuse
            )

    def _blocks(self, lines: RecordLines, size: int, refuse: Refuse) -> Iterator[KafkaBlock]:
        parsed = self._parse(lines.text)
        numbers, faults = self._numbered(parsed)
        n, self.position = len(parsed.lines), lines.position(lines.n)
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
            end = self.position if hi == n else lines.position(after)
            yield self._block(lines, parsed, numbers, lo, hi, end)

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
        return KafkaBlock(
            parsed.x[lo:hi], parsed.y[lo:hi], None if parsed.w is None else parsed.w[lo:hi],
            self.topic, list(numbers[lo:hi]), end,
            None if parsed.ids is None else parsed.ids[lo:hi], lines, parsed.lines[lo:hi],
        )  # fmt: skip


# What reads lines


def record_parser(format: str | None, require_label: bool) -> Parse:
    """What reads the values of records of a format; None: JSON or svmlight, as each begins.

    Raises
    ------
    SourceError
        One sentence, where records cannot have it.

    """
    json = partial(parse_json, require_label=require_label)
    svmlight = partial(parse_svmlight, require_label=require_label)
    parse: dict[str, Callable[[str], Any]] = {"jsonl": json, "svmlight": svmlight}
    if format is None:
        return each_text(
            lambda text: (json if text.lstrip()[:1] in ("{", "[", '"') else svmlight)(text)
        )
    name = {"svm": "svmlight"}.get(format.lower(), format.lower())
    if name not in parse:
        raise SourceError(f"format {format!r} is none of a topic: say {' or '.join(FORMATS)}")
    return each_text(parse[name])


def each_text(parse: Callable[[str], Any]) -> Parse:
    """Read lines one by one.

    Parameters
    ----------
    parse
        Gives features, label and weight, and the id if there is one; None for a line without an
        example; ValueError, with one sentence, refuses the line.

    """

    def read(text: bytes) -> Parsed:
        examples: list[tuple[Any, ...]] = []
        lines, faults = [], []
        ids: dict[int, Any] = {}
        for number, line in enumerate(text.split(b"\n")):
            if not line:
                continue
            try:
                example = parse(decode(line, "record"))
            except ValueError as error:
                faults.append((number, str(error)))
                continue
            if example is None:
                continue
            if len(example) == 4:
                ids[len(examples)] = example[3]
                example = example[:3]
            examples.append(example)
            lines.append(number)
        x, y, w = map(list, zip(*examples, strict=True)) if examples else ([], [], [])
        named = [ids.get(one) for one in range(len(examples))] if ids else None
        return Parsed(x, y, None if all(one == 1.0 for one in w) else w, lines, faults, named)

    return read
