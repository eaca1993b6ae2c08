"""Kafka topics: ``kafka://host:port/topic``, read by assignment; nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from streaml1.streams.jsonl import parse_json
from streaml1.streams.partitions import merged
from streaml1.streams.source import Block, Example, Refuse, SourceError, blocks_of, shown
from streaml1.streams.svmlight import parse_svmlight
from streaml1.streams.text import PATIENCE, decode
from streaml1.streams.topic import Topic

__all__ = ["Coordinates", "KafkaBlock", "KafkaSource"]

COMMIT_SECONDS = 5.0

FORMATS = ("jsonl", "svmlight")
STARTS = ("earliest", "latest", "checkpoint")


Position = dict[int, tuple[int, int]]
"""By partition, the offset of the next record and how many of its lines are done with."""


class Coordinates(NamedTuple):
    """Where an example stands in a topic.

    Parameters
    ----------
    number
        Of the example in this reading, from 1; the refused count.
    partition, offset
        Of its record.
    line
        In the record, from 1; 0 where the record has only one.
    """

    number: int
    partition: int
    offset: int
    line: int


@dataclass(frozen=True, slots=True)
class KafkaBlock(Block):
    """Consecutive examples of a topic; `name` is the topic.

    Parameters
    ----------
    at
        Where each stands in it.
    began
        The position before the block.

    """

    at: list[Coordinates] = field(default_factory=list)
    began: Position = field(default_factory=dict)

    def after(self, rows: int) -> Any:
        """The position after so many examples, to `begin` at."""
        if rows == len(self):
            return self.end
        done = dict(self.began)
        for _, partition, offset, line in self.at[:rows]:
            done[partition] = (offset, line) if line else (offset + 1, 0)
        return done

    def place(self, row: int) -> str:
        """Where an example of the block was read."""
        _, partition, offset, line = self.at[row]
        return f"{self.name}/{partition}@{offset}{f':{line}' if line else ''}"


class KafkaSource:
    """The examples in the records of a topic.

    A record's value is one example, or several with newlines between; a record without a value has
    none. Of each partition the records come in order. With `until_end` those of several partitions
    are merged by their timestamps, which depends on nothing but the topic; without it as they come.

    Parameters
    ----------
    spec
        ``kafka://host:port/topic``; several brokers with commas between. After ``?`` may stand
        ``api_version=2.3``, for a broker that does not tell its version.
    format
        ``jsonl`` or ``svmlight``; by default a value that begins as JSON does is JSON, and any
        other svmlight.
    start
        ``earliest``, ``latest``, or a time: records from then on. A time is ISO 8601, in UTC where
        it has no zone, or milliseconds since 1970.
    until_end
        Whether reading ends where the topic ended when it began.
    partitions
        Which to read; all by default.
    group
        The consumer group under which positions that are kept are also committed, for tools that
        show how far behind it is. Nothing reads them here.
    require_label
        Whether an example without a label is refused.
    kafka
        How to come in to the brokers, as `security_of` takes it; by default as the environment
        says.

    Raises
    ------
    SourceError
        One sentence, where any of these is none.

    Examples
    --------
    >>> from streaml1.streams.kafka import KafkaSource
    >>> KafkaSource("kafka://localhost:9092/clicks", start="2026-01-31T06:00Z").name
    'kafka://localhost:9092/clicks'

    """

    def __init__(
        self,
        spec: str,
        *,
        format: str | None = None,
        start: str | None = None,
        until_end: bool = False,
        partitions: Sequence[int] | None = None,
        group: str | None = None,
        require_label: bool = True,
        kafka: Any = None,
    ) -> None:
        self._topic = Topic(spec, kafka)
        self.name = spec
        self._parse = _parser(format, require_label)
        self._start = _start(start)
        self._until_end = until_end
        self._partitions = partitions
        self._group = group
        self._committed = time.monotonic()
        self._bounds: tuple[dict[int, int], dict[int, int]] | None = None
        self._position: Position = {}
        self._began: Position = {}
        self._skips: Position = {}
        self._read_before = False
        self._stopped: Callable[[], bool] = lambda: False

    def heed(self, stopped: Callable[[], bool], wait: Any = None) -> None:
        """End the reading soon after `stopped` has become true; no wait is long."""
        self._stopped = stopped

    def blocks(self, size: int, refuse: Refuse) -> Iterator[Block]:
        """Read from the start, at most `size` examples at a time.

        Raises
        ------
        SourceError
            If the topic cannot be read, or cannot be read twice.

        """
        if self._read_before and not self._until_end:
            raise SourceError(f"{self.name} cannot be read twice: it has no end; add --until-end")
        if self._read_before and self._position:
            raise SourceError(f"{self.name} can be read only once where checkpoints are kept")
        self._read_before = True
        self._began = dict(self._position)
        return blocks_of(self._examples(refuse), self._topic.name, size, PATIENCE, self._block)

    def _block(self, rows: list[Example], name: str) -> KafkaBlock:
        at, x, y, w = map(list, zip(*rows, strict=True))
        weights = None if all(one == 1.0 for one in w) else w
        began, self._began = self._began, dict(self._position)
        return KafkaBlock(
            x, y, weights, name, [one.number for one in at], self._began, at, began
        )  # fmt: skip

    def _examples(self, refuse: Refuse) -> Iterator[Example | None]:
        number = 0
        skips, self._skips = self._skips, {}
        for record in self._records():
            if record is None:
                yield None
                continue
            partition, offset, value = record.partition, record.offset, record.value
            begun = skips.pop(partition, None) if skips else None
            skipped = begun[1] if begun is not None and begun[0] == offset else 0
            after = (offset + 1, 0)
            lines = _lines(value)
            for line, text in lines[skipped:]:
                self._position[partition] = after if line in (0, len(lines)) else (offset, line)
                try:
                    example = self._parse(decode(text, "record"))
                except ValueError as error:
                    number += 1
                    refuse(self._topic.place(partition, offset, line), str(error), number)
                    continue
                if example is not None:
                    number += 1
                    yield Coordinates(number, partition, offset, line), *example
            self._position[partition] = after

    # Positions

    def identity(self) -> dict[str, Any]:
        """What must be the same, by name, for a position to mean the same."""
        return {"source": "kafka", **self._topic.identity()}

    def begin(self, at: Any) -> Any:
        """Have the next reading begin at a position, or at its start: None; returns where."""
        done = {int(one): tuple(there) for one, there in (at or {}).items()}
        consumer = self._topic.consumer(self._stopped)
        if consumer is None:
            return at
        with closing(consumer):
            self._bounds = self._found_bounds(
                consumer, {one: there[0] for one, there in done.items()}
            )
        self._position = {one: (offset, 0) for one, offset in self._bounds[0].items()} | done
        self._skips = done
        return self.position()

    def position(self) -> Any:
        """Where the reading is, all that was read being behind it."""
        return dict(self._position)

    def kept(self, at: Any, last: bool) -> None:
        """Hear that a checkpoint holds a position, which may be the last of the run."""
        due = last or time.monotonic() - self._committed >= COMMIT_SECONDS
        if self._group is not None and at and due:
            self._committed = time.monotonic()
            offsets = {one: offset for one, (offset, _) in at.items()}
            self._topic.commit(self._group, offsets, self._stopped)

    def _found_bounds(
        self, consumer: Any, at: dict[int, int]
    ) -> tuple[dict[int, int], dict[int, int]]:
        if self._start == "checkpoint" and not at:
            raise SourceError(f"{self.name}: there is no checkpoint to start from")
        return self._topic.bounds(consumer, self._start, self._partitions, at)

    def _records(self) -> Iterator[Any]:
        consumer = self._topic.consumer(self._stopped)
        if consumer is None:
            return
        with closing(consumer):
            self._bounds = starts, ends = self._bounds or self._found_bounds(consumer, {})
            limits = ends if self._until_end else None
            try:
                yield from merged(consumer, self._topic.name, starts, limits, self._stopped)
            except Exception as error:
                raise self._topic.unreadable(error) from None


def _lines(value: bytes | None) -> list[tuple[int, bytes]]:
    """The lines of a record with their numbers; 0 for the only one."""
    if not value:
        return []
    if b"\n" not in value:
        return [(0, value)]
    lines = value.removesuffix(b"\n").split(b"\n")
    return list(enumerate(lines, start=1)) if len(lines) > 1 else [(0, lines[0])]


# What the user writes


def _start(start: str | None) -> str | int:
    """Where to start: a word, or milliseconds since 1970."""
    if start is None or start in STARTS:
        return start or STARTS[0]
    if start.isdecimal():
        return int(start)
    try:
        moment = datetime.fromisoformat(start)
    except ValueError:
        raise SourceError(
            f"{shown(start)} is no place to start: say earliest, latest, or a time as in "
            "2026-01-31T06:00Z"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * 1000))


def _parser(format: str | None, require_label: bool) -> Callable[[str], Any]:
    parse: dict[str, Callable[[str], Any]] = {
        "jsonl": partial(parse_json, require_label=require_label),
        "svmlight": partial(parse_svmlight, require_label=require_label),
    }
    if format is None:
        json, svmlight = parse["jsonl"], parse["svmlight"]
        return lambda text: (json if text.lstrip()[:1] in ("{", "[", '"') else svmlight)(text)
    name = {"svm": "svmlight"}.get(format.lower(), format.lower())
    if name not in parse:
        raise SourceError(f"format {format!r} is none of a topic: say {' or '.join(FORMATS)}")
    return parse[name]
