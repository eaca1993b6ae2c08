"""Kafka topics: ``kafka://host:port/topic``, read by assignment; nothing is committed."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from streaml1.core.logging import event
from streaml1.sources.kafka.partition_merge import merged
from streaml1.sources.kafka.records import Position, RecordReader, event_parser, record_parser
from streaml1.sources.kafka.topic import ASK_SECONDS, Topic
from streaml1.sources.source import Block, Refuse, SourceError, shown

__all__ = ["KafkaSource", "start_of"]

logger = logging.getLogger("streaml1")

COMMIT_SECONDS = 5.0

QUIET_SECONDS = 15.0
"""After so long without a record a broker is asked whether it is there: a client only waits."""

LAST_TIME = 2**63 - 1
"""The last time, in milliseconds since 1970, that Kafka knows."""

STARTS = ("earliest", "latest", "checkpoint")


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
        ``jsonl``, ``svmlight`` or ``vw``; by default a value that begins as JSON does is JSON, and
        any other svmlight.
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
        How to connect to the brokers, as `security_of` takes it; by default as the environment
        says.
    events
        Whether labels come later than their examples, so that each record is an `Event`.
    labels
        The topic of the labels, where it is another; of its partitions all are read. A position
        calls them ``labels/0``.
    text
        Namespaces of vw that are raw text.

    Raises
    ------
    SourceError
        One sentence, where any of these is none.

    Examples
    --------
    >>> from streaml1.sources.kafka.topic_source import KafkaSource
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
        events: bool = False,
        labels: str | None = None,
        text: Sequence[str] | None = None,
    ) -> None:
        self._topic = Topic(spec, kafka)
        self.name = spec
        self.texts = tuple(text or ()) if (format or "").lower() == "vw" else None
        self._labels = _labels_beside(self._topic, labels)
        if events:
            self._parse = event_parser(format)
        else:
            self._parse = record_parser(format, require_label, text or ())
        self._reader = self._new_reader()
        self._start = start_of(start)
        self._until_end = until_end
        self._partitions = partitions
        self._group = group
        self._committed = time.monotonic()
        self._bounds: tuple[Offsets, Offsets] | None = None
        self._read_before = False
        self._is_kept = False
        self._stopped: Callable[[], bool] = lambda: False
        self._consumer: Any = None
        self._away = False
        self._heard = 0.0
        self._highwater: Offsets = {}
        self._passed: Offsets = {}

    @property
    def topic(self) -> Topic:
        """The topic, to write to others of its brokers."""
        return self._topic

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
        if self._read_before and self._is_kept:
            raise SourceError(f"{self.name} can be read only once where checkpoints are kept")
        self._read_before = True
        return self._blocks(size, refuse)

    def _blocks(self, size: int, refuse: Refuse) -> Iterator[Block]:
        if not self._is_kept:
            self._reader = self._new_reader()
        with closing(self._records()) as batches:
            self._heard = time.monotonic()
            for records in batches:
                self._look(bool(records))
                yield from self._reader.blocks(records, size, refuse)

    def _new_reader(self) -> RecordReader:
        if self._labels is None:
            return RecordReader(self._topic.name, self._parse)
        return RecordReader(self._topic.name, self._parse, self._key)

    def _key(self, record: Any) -> int | str:
        partition: int = record.partition
        return partition if record.topic == self._topic.name else f"{LABELS}{partition}"

    # Positions

    def identity(self) -> dict[str, Any]:
        """What must be the same, by name, for a position to mean the same."""
        own = {"source": "kafka", **self._topic.identity(self._stopped)}
        if self._labels is None:
            return own
        labels = self._labels.identity(self._stopped)
        return own | {"labels": labels["topic"], "labels id": labels["topic id"]}

    def begin(self, at: Any) -> Any:
        """Have the next reading begin at a position, or at its start: None; returns where."""
        done: Position = {_read_key(one): tuple(there) for one, there in (at or {}).items()}
        self._reader.position = done
        consumer = self._topic.consumer(self._stopped)
        if consumer is None:
            return at
        with closing(consumer):
            self._bounds = self._found_bounds(
                consumer, {one: there[0] for one, there in done.items()}
            )
        self._is_kept = True
        self._reader.position = {one: (at, 0) for one, at in self._bounds[0].items()} | done
        return self.position()

    def require_same(self) -> None:
        """Refuse to go on where what was read lately may be of another topic of the same name.

        Raises
        ------
        Lost
            One sentence.

        """
        if self._consumer is not None:
            self._topic.ask_whether_same(self._consumer, self._stopped)
            self._heed_ids()

    def _heed_ids(self, seconds: float = 0.0) -> None:
        self._topic.require_same(self._consumer, seconds)
        if self._labels is not None:
            self._labels.require_same(self._consumer)

    def position(self) -> Any:
        """Where the reading is, all that was read being behind it."""
        return dict(self._reader.position)

    def kept(self, at: Any, last: bool) -> None:
        """Hear that a checkpoint holds a position, which may be the last of the run."""
        due = last or time.monotonic() - self._committed >= COMMIT_SECONDS
        if self._group is not None and at and due:
            self._committed = time.monotonic()
            own, labels = _apart({one: offset for one, (offset, _) in at.items()})
            self._topic.commit(self._group, own, self._stopped)
            if self._labels is not None:
                self._labels.commit(self._group, labels, self._stopped)

    # What is watched from other threads

    def _look(self, came: bool) -> None:
        """Note how far the partitions go by now; where nothing came for long, ask for a broker."""
        if came:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard >= QUIET_SECONDS:
            self._note(self._why_silent())
            self._heard = time.monotonic()
        if came and self._away:
            self._note(None)
        for part in self._consumer.assignment():
            highwater = self._consumer.highwater(part)
            if highwater is not None:
                self._highwater[self._key(part)] = highwater
            if not came and not self._until_end:
                # Nothing is held back: what it has stepped over was no record to be read.
                self._passed[self._key(part)] = self._consumer.position(part) or 0

    def _why_silent(self) -> str | None:
        try:
            there = self._topic.is_reachable(self._stopped) or self._stopped()
            return None if there else f"{self.name}: no broker answers"
        except SourceError as error:
            return str(error)

    def _note(self, why: str | None) -> None:
        """Log once that a broker is away, and once that it is back."""
        if why is not None and not self._away:
            logger.warning("%s: waiting for it", why, extra=event("broker_away", reason=why))
        if why is None and self._away:
            logger.warning("%s: a broker answers again", self.name, extra=event("broker_back"))
        self._away = why is not None

    def lag(self) -> dict[int | str, int]:
        """By partition, how many offsets are left to be read, as far as is known."""
        at = {one: offset for one, (offset, _) in self._reader.position.items()}
        starts = self._bounds[0] if self._bounds is not None else {}
        return {
            one: max(0, end - max(at.get(one, starts.get(one, end)), self._passed.get(one, 0)))
            for one, end in list(self._highwater.items())
        }

    def is_reachable(self) -> bool:
        """Whether a broker answers and lets us in."""
        return self._topic.is_reachable()

    def _found_bounds(self, consumer: Any, at: Offsets) -> tuple[Offsets, Offsets]:
        if self._start == "checkpoint" and not at:
            raise SourceError(f"{self.name}: there is no checkpoint to start from")
        own, labels = _apart(at)
        starts, ends = self._topic.bounds(consumer, self._start, self._partitions, own)
        beside: tuple[dict[int, int], dict[int, int]] = {}, {}
        if self._labels is not None:
            beside = self._labels.bounds(consumer, self._start, None, labels)
        return _together(starts, beside[0]), _together(ends, beside[1])

    def _parts(self, offsets: Offsets) -> dict[Any, int]:
        """Offsets as kafka-python names partitions, the labels last."""
        own, labels = _apart(offsets)
        beside = {} if self._labels is None else self._labels.parts(labels)
        return {**self._topic.parts(own), **beside}

    def _records(self) -> Generator[list[Any], None, None]:
        consumer = self._topic.consumer(self._stopped)
        if consumer is None:
            return
        with closing(consumer):
            self._bounds = starts, ends = self._bounds or self._found_bounds(consumer, {})
            self._consumer, self._highwater = consumer, dict(ends)
            limits = self._parts(ends) if self._until_end else None
            try:
                for records in merged(consumer, self._parts(starts), limits, self._stopped):
                    self._heed_ids()
                    yield records
                self.require_same()
            except SourceError:
                raise
            except Exception as error:
                self._heed_ids(ASK_SECONDS)  # which explains most of them
                raise self._topic.unreadable(error) from None


# Two topics

LABELS = "labels/"

Offsets = dict[int | str, int]
"""By partition of the examples, and of the labels behind `LABELS`."""


def _labels_beside(topic: Topic, labels: str | None) -> Topic | None:
    if labels in (None, topic.name):
        return None
    if not labels or "/" in labels:
        raise SourceError(f"{shown(labels)} is no topic: write its name alone, as in clicks")
    return topic.beside(labels)


def _read_key(key: str | int) -> int | str:
    return key if isinstance(key, str) and key.startswith(LABELS) else int(key)


def _apart(offsets: Mapping[int | str, int]) -> tuple[dict[int, int], dict[int, int]]:
    """Of the examples, and of the labels."""
    own = {one: offset for one, offset in offsets.items() if isinstance(one, int)}
    labels = {
        int(one.removeprefix(LABELS)): offset
        for one, offset in offsets.items()
        if isinstance(one, str)
    }
    return own, labels


def _together(own: dict[int, int], labels: dict[int, int]) -> Offsets:
    together: Offsets = {one: offset for one, offset in own.items()}
    return together | {f"{LABELS}{one}": offset for one, offset in labels.items()}


# What the user writes


def start_of(start: str | None) -> str | int:
    """Where to start: a word, or milliseconds since 1970."""
    if start is None or start in STARTS:
        return start or STARTS[0]
    if start.isdecimal():
        if len(start) > len(str(LAST_TIME)) or int(start) > LAST_TIME:
            raise SourceError(
                f"{shown(start)} is no time to start from: milliseconds since 1970 go from 0 to "
                f"{LAST_TIME}; say earliest, latest, or a time as in 2026-01-31T06:00Z"
            )
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
