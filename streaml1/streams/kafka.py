"""Kafka topics: ``kafka://host:port/topic``, read by assignment; nothing is committed."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from streaml1.streams.jsonl import parse_json
from streaml1.streams.partitions import POLL_MS, merged
from streaml1.streams.source import Block, Example, Refuse, SourceError, blocks_of, shown
from streaml1.streams.svmlight import parse_svmlight
from streaml1.streams.text import PATIENCE, decode

__all__ = ["Coordinates", "KafkaBlock", "KafkaSource"]

POLLED = 1000
"""The most records that one poll hands over."""

CONNECT_SECONDS = 5.0

LISTED = 8
"""How many topics are named where the one that is asked for is not there."""

FORMATS = ("jsonl", "svmlight")
STARTS = ("earliest", "latest")


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
    """Consecutive examples of a topic; `name` is the topic, `at` where each stands in it."""

    at: list[Coordinates]

    def place(self, row: int) -> str:
        """Where an example of the block was read."""
        return _place(self.name, *self.at[row][1:])


def _place(topic: str, partition: int, offset: int, line: int) -> str:
    return f"{topic}/{partition}@{offset}{f':{line}' if line else ''}"


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
    require_label
        Whether an example without a label is refused.

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
        require_label: bool = True,
    ) -> None:
        self.name = spec
        self._brokers, self.topic, self._settings = _taken_apart(spec)
        self._parse = _parser(format, require_label)
        self._start = _start(start)
        self._until_end = until_end
        self._partitions = partitions
        self._bounds: tuple[dict[int, int], dict[int, int]] | None = None
        self._read_before = False
        self._stopped: Callable[[], bool] = lambda: False

    def heed(self, stopped: Callable[[], bool]) -> None:
        """End the reading soon after `stopped` has become true."""
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
        self._read_before = True
        return blocks_of(self._examples(refuse), self.topic, size, PATIENCE, _block)

    def _examples(self, refuse: Refuse) -> Iterator[Example | None]:
        number = 0
        for record in self._records():
            if record is None:
                yield None
                continue
            partition, offset, value = record.partition, record.offset, record.value
            for line, text in _lines(value):
                try:
                    example = self._parse(decode(text, "record"))
                except ValueError as error:
                    number += 1
                    refuse(_place(self.topic, partition, offset, line), str(error), number)
                    continue
                if example is not None:
                    number += 1
                    yield Coordinates(number, partition, offset, line), *example

    def _records(self) -> Iterator[Any]:
        consumer = self._connected()
        if consumer is None:
            return
        with closing(consumer):
            try:
                starts, ends = self._bounds = self._bounds or self._found_bounds(consumer)
                limits = ends if self._until_end else None
                yield from merged(consumer, self.topic, starts, limits, self._stopped)
            except SourceError:
                raise
            except Exception as error:
                raise self._unreadable(error) from None

    # Connecting

    def _connected(self) -> Any:
        """A consumer that knows its brokers, or None where the reading is stopped before."""
        import kafka

        settings = {
            "bootstrap_servers": self._brokers,
            "client_id": "streaml1",
            "group_id": None,
            "enable_auto_commit": False,
            "auto_offset_reset": "none",  # an offset that is gone must not be stepped over
            "allow_auto_create_topics": False,
            "isolation_level": "read_committed",
            "max_poll_records": POLLED,
            "bootstrap_timeout_ms": round(1000 * CONNECT_SECONDS),
            **self._settings,
        }
        limit = time.monotonic() + CONNECT_SECONDS
        none = f"{self.name}: no broker answers at {', '.join(self._brokers)}: is one running?"
        # A client that finds no broker leaves sockets open.
        while not any(map(_is_listening, self._brokers)):
            if self._stopped():
                return None
            if time.monotonic() > limit:
                raise SourceError(none)
            time.sleep(POLL_MS / 1000)
        try:
            consumer = kafka.KafkaConsumer(**settings)
            consumer.bootstrap(timeout_ms=round(1000 * CONNECT_SECONDS))
        except kafka.errors.KafkaTimeoutError:
            raise SourceError(none) from None
        except Exception as error:
            raise self._unreadable(error) from None
        return consumer

    def _found_bounds(self, consumer: Any) -> tuple[dict[int, int], dict[int, int]]:
        """The first offset to be read of each partition, and the one after the last now."""
        from kafka import TopicPartition

        there = consumer.partitions_for_topic(self.topic)
        if not there:
            topics = sorted(topic for topic in consumer.topics() if not topic.startswith("__"))
            more = [f"and {len(topics) - LISTED} more"] if len(topics) > LISTED else []
            listed = ", ".join([*topics[:LISTED], *more]) or "none"
            raise SourceError(f"{self.name}: there is no topic {self.topic}; there are: {listed}")
        wanted = sorted(there if self._partitions is None else set(self._partitions))
        for one in wanted:
            if one not in there:
                listed = ", ".join(map(str, sorted(there)))
                raise SourceError(f"{self.name} has no partition {one}; it has {listed}")
        parts = [TopicPartition(self.topic, one) for one in wanted]
        ends = consumer.end_offsets(parts)
        if self._start == "latest":
            starts = ends
        elif self._start == "earliest":
            starts = consumer.beginning_offsets(parts)
        else:
            found = consumer.offsets_for_times(dict.fromkeys(parts, self._start))
            starts = {one: ends[one] if at is None else at.offset for one, at in found.items()}
        return tuple({one.partition: at[one] for one in parts} for at in (starts, ends))  # type: ignore[return-value]

    def _unreadable(self, error: Exception) -> SourceError:
        from kafka.errors import OffsetOutOfRangeError

        if isinstance(error, OffsetOutOfRangeError) and isinstance(error.args[0], dict):
            ((tp, offset), *_) = error.args[0].items()
            return SourceError(
                f"{_place(self.topic, tp.partition, offset, 0)} is gone: the topic keeps its "
                "records no longer, so start at another place"
            )
        reason = " ".join(str(error).split()) or type(error).__name__
        return SourceError(f"{self.name} cannot be read on: {shown(reason)[1:-1]}")


def _lines(value: bytes | None) -> Iterator[tuple[int, bytes]]:
    """The lines of a record with their numbers; 0 for the only one."""
    if not value:
        return
    if b"\n" not in value:
        yield 0, value
        return
    lines = value.removesuffix(b"\n").split(b"\n")
    yield from enumerate(lines, start=1) if len(lines) > 1 else [(0, lines[0])]


def _block(rows: list[Example], name: str) -> KafkaBlock:
    at, x, y, w = map(list, zip(*rows, strict=True))
    weights = None if all(one == 1.0 for one in w) else w
    return KafkaBlock(x, y, weights, name, [one.number for one in at], at)


def _is_listening(broker: str) -> bool:
    host, _, port = broker.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=1.0):
            return True
    except OSError:
        return False


# What the user writes


def _taken_apart(spec: str) -> tuple[list[str], str, dict[str, Any]]:
    """Brokers, topic and settings of a URL."""
    rest, _, query = spec.removeprefix("kafka:").removeprefix("//").partition("?")
    hosts, _, topic = rest.partition("/")
    brokers = [host if ":" in host else f"{host}:9092" for host in hosts.split(",") if host]
    right = all(port.isdecimal() for port in (broker.rpartition(":")[2] for broker in brokers))
    if not (spec.startswith("kafka://") and brokers and right and topic and "/" not in topic):
        raise SourceError(f"{spec} is no topic: write kafka://host:port/topic")
    return brokers, topic, _settings(spec, query)


def _settings(spec: str, query: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for one in filter(None, query.split("&")):
        name, _, value = one.partition("=")
        numbers = value.split(".")
        if name != "api_version" or not all(number.isdecimal() for number in numbers):
            raise SourceError(f"{spec}: {one!r} is no setting; there is one, as api_version=2.3")
        settings[name] = tuple(map(int, numbers))
    return settings


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
