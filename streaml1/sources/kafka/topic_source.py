"""Kafka topics as sources of examples, read by assignment.

Positions are kept in checkpoints. Offsets are committed for monitoring tools only.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from streaml1.core.logging import event
from streaml1.core.named_options import by_caller, named_option
from streaml1.sources.kafka.broker_connection import StopCheck
from streaml1.sources.kafka.csv_records import CsvRecords
from streaml1.sources.kafka.partition_merge import merge_partitions
from streaml1.sources.kafka.record_formats import event_parser, record_parser
from streaml1.sources.kafka.records import PartitionKey, Position, RecordReader
from streaml1.sources.kafka.security import SecurityOptions
from streaml1.sources.kafka.topic import REFRESH_SECONDS, Offsets, Topic, require_group_name
from streaml1.sources.readers.flat_json import NO_ROLES, JsonRoles
from streaml1.sources.source import Block, Reject, SourceError, shown

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.consumer.fetcher import ConsumerRecord

__all__ = ["KafkaSource", "parse_start"]

logger = logging.getLogger("streaml1")

COMMIT_SECONDS = 5.0
"""Interval between two commits."""

QUIET_SECONDS = 15.0
"""After this long without records the brokers are checked: a consumer does not report that none
answers."""

MAX_TIMESTAMP = 2**63 - 1
"""Largest timestamp of Kafka, in milliseconds since 1970."""

MIN_MILLISECONDS = 10**11
"""A smaller number than this, March 1973, is probably in seconds."""

RECENT = 10**12, 4 * 10**12
"""Milliseconds since 1970 from 2001 to 2096."""

STARTS = ("earliest", "latest", "checkpoint")

LABELS = "labels/"
"""Prefix of the keys of the labels' partitions."""

KeyedOffsets = dict[PartitionKey, int]
"""Offsets of the examples' partitions, and of the labels' with the prefix `LABELS`."""


class Bounds(NamedTuple):
    """The first offset to read of each partition, and the end offset."""

    starts: KeyedOffsets
    ends: KeyedOffsets


class KafkaSource:
    """Examples in the records of a topic.

    The value of a record is one example, or several: lines, or an array of JSON objects; a record
    without a value has none. Records of a partition come in order. With `until_end`, records of
    several partitions are merged by timestamp, and the order depends on the topic alone. Without
    it, they come as they arrive.

    Parameters
    ----------
    spec
        ``kafka://host:port/topic``; separate several brokers with commas. For a broker that does
        not report its version, append for example ``?api_version=2.3``.
    format
        ``jsonl``, ``svmlight``, ``vw``, ``avro`` or ``protobuf``; by default, or with ``auto``,
        values that start like JSON are JSON, others are svmlight.
    start
        ``earliest``, ``latest``, ``checkpoint``, or a time: records from that time on. A time is
        ISO 8601, in UTC if it has no zone, or milliseconds since 1970.
    until_end
        Whether to stop at the offsets where the topic ended when reading started.
    partitions
        Partitions to read; by default all.
    group
        Consumer group for which positions in checkpoints are also committed, so that monitoring
        tools show the lag. The committed offsets are not used.
    require_label
        Whether examples without a label are rejected.
    kafka
        Connection settings, see `resolve_security`; by default from the environment.
    events
        Whether labels are delayed: each record is an `Event`.
    labels
        Topic of the labels, if it is another one; all its partitions are read. Positions name them
        ``labels/0`` and so on.
    text
        VW namespaces that are raw text.
    roles
        Roles of the members of flat JSON.
    schema, registry
        File of the schema of the records, or URL of a schema registry; see `wire_format`.
    csv
        Parser of the lines, if they are CSV.

    Raises
    ------
    SourceError
        If an argument is invalid.

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
        kafka: SecurityOptions = None,
        events: bool = False,
        labels: str | None = None,
        text: Sequence[str] | None = None,
        roles: JsonRoles = NO_ROLES,
        schema: str | Path | None = None,
        registry: str | None = None,
        csv: CsvRecords | None = None,
    ) -> None:
        self._topic = Topic(spec, kafka)
        self.name = spec
        self.texts = tuple(text or ()) if (format or "").lower() == "vw" else None
        self._labels = _labels_topic(self._topic, labels)
        self._roles: Mapping[str, Any] = roles.identity
        if csv is not None:
            self.texts, self._roles, self._parser = csv.texts, csv.identity, csv.parser
        elif events:
            self._parser = event_parser(format, roles, schema, registry)
        else:
            self._parser = record_parser(format, require_label, text or (), roles, schema, registry)
        self._reader = self._new_reader()
        self._start = parse_start(start)
        self._until_end = until_end
        self._partitions = partitions
        self._group = None if group is None else require_group_name(group)
        self._committed_at = time.monotonic()
        self._bounds: Bounds | None = None
        self._was_read = False
        self._resumable = False  # whether checkpoints hold the position
        self._stopped: StopCheck = lambda: False
        self._consumer: Any = None
        self._broker_away = False
        self._last_record_at = 0.0
        self._highwater: KeyedOffsets = {}
        self._skipped_to: KeyedOffsets = {}  # offsets before these hold no unread record

    @property
    def topic(self) -> Topic:
        """The topic, to write to other topics of its brokers."""
        return self._topic

    def set_stop(self, stopped: StopCheck, wait: Any = None) -> None:
        """End the reading soon after `stopped` returns true; `wait` is ignored: no wait is long."""
        self._stopped = stopped

    def blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        """Read from the start in blocks of at most `size` examples.

        Raises
        ------
        SourceError
            If the topic cannot be read, or cannot be read twice.
        """
        if self._was_read and not self._until_end:
            raise SourceError(
                f"{self.name} cannot be read twice: it has no end; add "
                f"{named_option('until_end', True)}"
            )
        if self._was_read and self._resumable:
            raise SourceError(
                f"{self.name} cannot be read twice with checkpoints: use "
                f"{named_option('passes', 1)}, or leave {by_caller('--checkpoint', 'checkpoint')} "
                "out"
            )
        self._was_read = True
        return self._blocks(size, reject)

    def _blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        if not self._resumable:
            self._reader = self._new_reader()
        with closing(self._records()) as batches:
            self._last_record_at = time.monotonic()
            for records in batches:
                self._update_status(bool(records))
                yield from self._reader.blocks(records, size, reject)

    def _new_reader(self) -> RecordReader:
        if self._labels is None:
            return RecordReader(self._topic.name, self._parser)
        return RecordReader(self._topic.name, self._parser, self._key)

    def _key(self, partition: TopicPartition | ConsumerRecord) -> PartitionKey:
        number: int = partition.partition
        return number if partition.topic == self._topic.name else f"{LABELS}{number}"

    def _records(self) -> Generator[list[ConsumerRecord], None, None]:
        consumer = self._topic.consumer(self._stopped)
        if consumer is None:
            return
        with closing(consumer):
            self._bounds = starts, ends = self._bounds or self._find_bounds(consumer, {})
            self._consumer, self._highwater = consumer, dict(ends)
            limits = self._by_topic_partition(ends) if self._until_end else None
            merged = merge_partitions(
                consumer, self._by_topic_partition(starts), limits, self._stopped
            )
            try:
                for records in merged:
                    if records:
                        self._topic.note_records()
                    self._require_same_topics()
                    yield records
                self.require_same()
            except SourceError:
                raise
            except MemoryError:
                raise self._too_large_error() from None
            except Exception as error:
                self._require_same_topics(REFRESH_SECONDS)  # a deletion explains most errors
                raise self._topic.read_error(error) from None

    def _too_large_error(self) -> SourceError:
        places = (
            f"{tp.topic}/{tp.partition}@{self._consumer.position(tp) or 0}"
            for tp in self._consumer.assignment()
        )
        return SourceError(
            f"{self.name}: records do not fit into memory after decompression; they are among the "
            f"next ones of {', '.join(sorted(places))}: read from a time after them "
            f"({named_option('start')})"
        )

    # Positions

    def identity(self) -> dict[str, Any]:
        """Return what identifies the source: positions are valid only if it is unchanged."""
        identity = {
            "source": "kafka", **self._topic.identity(self._stopped), **self._roles
        }  # fmt: skip
        if self._labels is None:
            return identity
        labels = self._labels.identity(self._stopped)
        return identity | {"labels": labels["topic"], "labels id": labels["topic id"]}

    def begin(self, at: Any) -> Any:
        """Set where the next reading starts (None: at the start of the source), and return it."""
        done: Position = {_parse_key(key): tuple(place) for key, place in (at or {}).items()}
        self._reader.position = done
        consumer = self._topic.consumer(self._stopped)
        if consumer is None:
            return at
        with closing(consumer):
            offsets = {key: offset for key, (offset, _) in done.items()}
            self._bounds = self._find_bounds(consumer, offsets)
        self._resumable = True
        starts: Position = {key: (offset, 0) for key, offset in self._bounds.starts.items()}
        self._reader.position = starts | done
        return self.position()

    def require_same(self) -> None:
        """Raise if what was read last may be of a recreated topic of the same name."""
        if self._consumer is not None:
            self._topic.refresh_and_require_same(self._consumer, self._stopped)
            self._require_same_topics()

    def _require_same_topics(self, timeout: float = 0.0) -> None:
        self._topic.require_same(self._consumer, timeout)
        if self._labels is not None:
            self._labels.require_same(self._consumer)

    def position(self) -> Any:
        """Return the next offset of each partition, and the number of its lines that are done."""
        return dict(self._reader.position)

    def on_saved(self, at: Any, last: bool) -> None:
        """Handle that a checkpoint holds position `at`; `last` if it is the last of the run."""
        due = last or time.monotonic() - self._committed_at >= COMMIT_SECONDS
        if self._group is not None and at and due:
            self._committed_at = time.monotonic()
            examples, labels = _split_offsets({key: offset for key, (offset, _) in at.items()})
            self._topic.commit(self._group, examples, self._stopped)
            if self._labels is not None:
                self._labels.commit(self._group, labels, self._stopped)

    def _find_bounds(self, consumer: KafkaConsumer, resume_at: KeyedOffsets) -> Bounds:
        if self._start == "checkpoint" and not resume_at:
            raise SourceError(
                f"{self.name}: there is no checkpoint to start from; use "
                f"{named_option('start', 'earliest')} or {named_option('start', 'latest')}"
            )
        examples, labels = _split_offsets(resume_at)
        starts, ends = self._topic.bounds(consumer, self._start, self._partitions, examples)
        if self._labels is None:
            return Bounds(_join_offsets(starts, {}), _join_offsets(ends, {}))
        label_starts, label_ends = self._labels.bounds(consumer, self._start, None, labels)
        return Bounds(_join_offsets(starts, label_starts), _join_offsets(ends, label_ends))

    def _by_topic_partition(self, offsets: KeyedOffsets) -> dict[TopicPartition, int]:
        """Return offsets by `TopicPartition`, those of the labels last."""
        examples, labels = _split_offsets(offsets)
        of_labels = {} if self._labels is None else self._labels.by_topic_partition(labels)
        return {**self._topic.by_topic_partition(examples), **of_labels}

    # Status, read by other threads

    def _update_status(self, has_records: bool) -> None:
        """Update end offsets; check the brokers if there were no records for a while."""
        if has_records:
            self._last_record_at = time.monotonic()
        elif time.monotonic() - self._last_record_at >= QUIET_SECONDS:
            self._set_outage(self._find_outage())
            self._last_record_at = time.monotonic()
        if has_records and self._broker_away:
            self._set_outage(None)
        for tp in self._consumer.assignment():
            highwater = self._consumer.highwater(tp)
            if highwater is not None:
                self._highwater[self._key(tp)] = highwater
            if not has_records and not self._until_end:
                # No record is buffered: the consumer's position has only skipped control records.
                self._skipped_to[self._key(tp)] = self._consumer.position(tp) or 0

    def _find_outage(self) -> str | None:
        try:
            reachable = self._topic.is_reachable(self._stopped) or self._stopped()
            return None if reachable else f"{self.name}: no broker answers"
        except SourceError as error:
            return str(error)

    def _set_outage(self, reason: str | None) -> None:
        """Log the start of an outage once, and its end once."""
        if reason is not None and not self._broker_away:
            logger.warning("%s: waiting for it", reason, extra=event("broker_away", reason=reason))
        if reason is None and self._broker_away:
            logger.warning("%s: a broker answers again", self.name, extra=event("broker_back"))
        self._broker_away = reason is not None

    def lag(self) -> dict[PartitionKey, int]:
        """Return the number of unread offsets of each partition, as of the last fetch."""
        read_to = {key: offset for key, (offset, _) in self._reader.position.items()}
        starts = self._bounds.starts if self._bounds is not None else {}
        lags = {}
        for key, end in list(self._highwater.items()):
            offset = read_to.get(key, starts.get(key, end))
            lags[key] = max(0, end - max(offset, self._skipped_to.get(key, 0)))
        return lags

    def is_reachable(self) -> bool:
        """Return whether a broker accepts the client."""
        return self._topic.is_reachable()


def _labels_topic(topic: Topic, labels: str | None) -> Topic | None:
    if labels is None or labels == topic.name:
        return None
    if not labels or "/" in labels:
        raise SourceError(
            f"labels must be the name of a topic without brokers, as in clicks, got {shown(labels)}"
        )
    return topic.sibling(labels)


def _parse_key(key: PartitionKey) -> PartitionKey:
    """Return the key of a partition; JSON has made a string of a number."""
    return key if isinstance(key, str) and key.startswith(LABELS) else int(key)


def _split_offsets(offsets: Mapping[PartitionKey, int]) -> tuple[Offsets, Offsets]:
    """Return the offsets of the examples, and those of the labels."""
    examples = {key: offset for key, offset in offsets.items() if isinstance(key, int)}
    labels = {
        int(key.removeprefix(LABELS)): offset
        for key, offset in offsets.items()
        if isinstance(key, str)
    }
    return examples, labels


def _join_offsets(examples: Offsets, labels: Offsets) -> KeyedOffsets:
    joined: KeyedOffsets = {key: offset for key, offset in examples.items()}
    return joined | {f"{LABELS}{key}": offset for key, offset in labels.items()}


def parse_start(start: str | None) -> str | int:
    """Parse where to start: one of `STARTS`, or a time as milliseconds since 1970."""
    if start is None or start in STARTS:
        return start or STARTS[0]
    if start.isdecimal():
        if len(start) > len(str(MAX_TIMESTAMP)) or int(start) > MAX_TIMESTAMP:
            raise SourceError(
                f"{_start()} must be between 0 and {MAX_TIMESTAMP} milliseconds since 1970, got "
                f"{shown(start)}; use earliest, latest, or a time as in 2026-01-31T06:00Z"
            )
        _require_milliseconds(int(start))
        return int(start)
    try:
        moment = datetime.fromisoformat(start)
    except ValueError:
        raise SourceError(
            f"{_start()} must be earliest, latest, checkpoint, or a time as in 2026-01-31T06:00Z, "
            f"got {shown(start)}"
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * 1000))


def _require_milliseconds(start: int) -> None:
    """Reject a time in seconds, microseconds or nanoseconds, and a date without its hyphens."""
    if 0 < start < MIN_MILLISECONDS:
        meant = str(1000 * start)
        if len(str(start)) == len("20260131"):
            with contextlib.suppress(ValueError):
                meant = f"{datetime.strptime(str(start), '%Y%m%d'):%Y-%m-%d}"
        day = f"{datetime.fromtimestamp(start / 1000, UTC):%Y-%m-%d}"
        raise SourceError(f"{_start()} {start} is {day}; did you mean {meant}?")
    for unit in (1000, 1_000_000):
        if RECENT[0] <= start // unit < RECENT[1]:
            raise SourceError(
                f"{_start()} {start} is after the year 9999; did you mean {start // unit}?"
            )


def _start() -> str:
    return by_caller("--from", "start")
