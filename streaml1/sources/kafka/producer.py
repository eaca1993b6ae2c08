"""Writing to topics: `TopicWriter.flush` returns once every record is in the topic."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from streaml1.sources.kafka.broker_connection import error_text
from streaml1.sources.kafka.confluent.producer import ConfluentProducer
from streaml1.sources.kafka.output_topics import create_topic
from streaml1.sources.kafka.security import CONFLUENT
from streaml1.sources.kafka.stop_deadline import STOP_SECONDS, StopDeadline
from streaml1.sources.kafka.topic import STOPPED_SECONDS, Topic
from streaml1.sources.source import Lost, SourceError, Unavailable

if TYPE_CHECKING:
    from kafka.producer.future import FutureRecordMetadata

__all__ = [
    "Header",
    "TooLarge",
    "TopicWriter",
    "as_topic",
    "require_compaction",
    "topic_exists",
    "write_error",
]

Header = tuple[str, bytes]

LINGER_MS = 50
BATCH_BYTES = 262_144
"""A batch is sent when it is this old or this large. By default, `send` costs twice as much."""

MAX_RECORD_BYTES = 2**26
"""Client-side limit of a record; the limit that counts is the topic's max.message.bytes."""

MAX_IN_FLIGHT, MAX_IN_FLIGHT_BYTES = 20_000, 2**25
"""Limit of records that are sent and not acknowledged; kafka-python itself has none."""

DELIVERY_SECONDS, REQUEST_SECONDS = 120.0, 30.0
"""Timeout of a record, and of one request: transient faults of the brokers are waited out."""

STOP_CHECK_SECONDS = 0.1
"""Interval of checks for a stop while waiting for records."""

CLOSE_SECONDS = 5.0

REFRESH_SECONDS = 2.0
"""Timeout of the metadata refresh that shows whether the topic still exists."""


class _Pending(NamedTuple):
    """A record that is sent and not acknowledged yet."""

    future: FutureRecordMetadata
    key: str
    size: int


class TopicWriter:
    """Idempotent producer for one topic; a context manager.

    Parameters
    ----------
    topic
        The topic; created with the defaults of the brokers if it does not exist.
    in_batches
        Whether records are sent by `send_many` alone. With confluent-kafka no object is then kept
        for a record that waits for its acknowledgement.

    Attributes
    ----------
    stop_deadline : StopDeadline
        Limits the waits after a stop.
    partitions : int
        Number of partitions of the topic.

    Raises
    ------
    SourceError
        If no broker answers, or the topic cannot be created.
    """

    def __init__(self, topic: Topic, in_batches: bool = False) -> None:
        self.topic = topic
        if not topic_exists(topic):
            create_topic(topic, {})
        try:
            self._producer = _connect(topic, in_batches)
        except Exception as error:
            raise write_error(topic, error) from None
        self._pending: deque[_Pending] = deque()
        self._pending_bytes = 0
        self._queues = in_batches and isinstance(self._producer, ConfluentProducer)
        self._queued_bytes = 0  # since the last time that all records were acknowledged
        self.stop_deadline = StopDeadline()
        self._given_up: Unavailable | None = None
        self._failed: SourceError | None = None  # permanent: every later `flush` raises it
        try:
            self.partitions = len(self._producer.partitions_for(topic.name))
            topic.require_same(self._producer)
        except Exception as error:
            self.close()
            raise write_error(topic, error) from None

    def __enter__(self) -> TopicWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def require_same(self) -> None:
        """Raise `Unavailable` if the topic was deleted; a restart creates it again."""
        try:
            timeout = STOPPED_SECONDS if self.stop_deadline.is_stopping else REFRESH_SECONDS
            self.topic.require_same(self._producer, timeout, must_exist=True)
        except Lost:
            raise Unavailable(
                f"{self.topic.url} was deleted during the run; start again, which creates it if it "
                "does not exist"
            ) from None

    def send(
        self,
        key: str,
        value: bytes | None,
        headers: list[Header] | None = None,
        partition: int | None = None,
    ) -> FutureRecordMetadata:
        """Send a record without waiting for its acknowledgement; it may still fail.

        Parameters
        ----------
        key, value, headers
            Of the record.
        partition
            Records with the same number keep their order. By default those with the same key do.

        Returns
        -------
        FutureRecordMetadata
            The future of kafka-python; `flush` waits for it.

        Raises
        ------
        SourceError
            If this or an earlier record has failed.
        """
        size = 0 if value is None else len(value)
        self.raise_failures()
        full = (
            len(self._pending) >= MAX_IN_FLIGHT or self._pending_bytes + size > MAX_IN_FLIGHT_BYTES
        )
        if full and self._given_up is None:
            # The current block is learnt to its end; the next `flush` raises this error again.
            with contextlib.suppress(_GivenUp):
                self.flush()
        data = key.encode()
        index = (crc32(data) if partition is None else partition) % self.partitions
        try:
            future = self._producer.send(self.topic.name, value, data, headers, index)
        except Exception as error:
            raise self._explain(error, key) from None
        self._pending.append(_Pending(future, key, size))
        self._pending_bytes += size
        return future

    def raise_failures(self) -> None:
        """Raise the SourceError of a record of `send` that has failed; do not wait for others."""
        while self._pending and self._pending[0].future.is_done:
            self._settle()

    def send_many(self, records: Sequence[tuple[str, bytes, int | None]]) -> None:
        """Send records without waiting for their acknowledgement; they may still fail.

        Parameters
        ----------
        records
            Key, value and partition of each record, as for `send`.

        Raises
        ------
        SourceError
            If one of these or an earlier record has failed.
        """
        if not self._queues:
            for key, value, partition in records:
                self.send(key, value, None, partition)
            return
        self._raise_failure()
        size = sum(len(value) for _, value, _ in records)
        full = (
            self._producer.n_queued + len(records) > MAX_IN_FLIGHT
            or self._queued_bytes + size > MAX_IN_FLIGHT_BYTES
        )
        if full and self._given_up is None:
            with contextlib.suppress(_GivenUp):
                self.flush()
        n_partitions = self.partitions
        messages = []
        for key, value, partition in records:
            data = key.encode()
            index = (crc32(data) if partition is None else partition) % n_partitions
            messages.append({"value": value, "key": data, "partition": index})
        try:
            self._producer.send_many(self.topic.name, messages)
        except Exception as error:
            raise self._explain(error, records[0][0]) from None
        self._queued_bytes += size

    def _raise_failure(self) -> None:
        """Raise the error of the first record that failed; every later call raises it again."""
        if self._queues and self._failed is None and self._producer.failure is not None:
            self._failed = self._explain(*self._producer.failure)
        if self._failed is not None:
            raise self._failed

    def _flush_queue(self, deadline: float) -> None:
        """Wait until the client's queue is empty."""
        from kafka.errors import KafkaTimeoutError

        n_queued = self._producer.n_queued
        while n_queued:
            self._producer.flush(STOP_CHECK_SECONDS)
            self._raise_failure()
            left = self._producer.n_queued
            if left < n_queued:
                self.stop_deadline.on_progress()
            elif self.stop_deadline.is_exhausted():
                raise self._give_up()
            elif time.monotonic() > deadline:
                self._failed = write_error(self.topic, KafkaTimeoutError())
                raise self._failed
            n_queued = left
        self._raise_failure()
        self._queued_bytes = 0

    def flush(self) -> None:
        """Wait until all records are in the topic.

        Raises
        ------
        SourceError
            If a record failed permanently; or, after a stop, if no broker takes the records.
        """
        from kafka.errors import KafkaTimeoutError, UnknownError

        if self._failed is not None:
            raise self._failed
        deadline = time.monotonic() + 2 * DELIVERY_SECONDS
        self.stop_deadline.start_wait()
        if self._queues:
            self._flush_queue(deadline)
        while self._pending:
            # kafka-python's flush loses track of a batch that was too large and is split. So the
            # future of each record is checked below.
            with contextlib.suppress(KafkaTimeoutError, UnknownError):
                self._producer.flush(STOP_CHECK_SECONDS)
            oldest = self._pending[0].future
            with contextlib.suppress(Exception):  # `_settle` raises the error
                oldest.get(STOP_CHECK_SECONDS)
            if oldest.is_done:
                self.stop_deadline.on_progress()
                while self._pending and self._pending[0].future.is_done:
                    self._settle()
            elif self.stop_deadline.is_exhausted():
                raise self._give_up()
            elif time.monotonic() > deadline:
                self._settle()

    def close(self) -> None:
        """Send what can be sent within `CLOSE_SECONDS`, and disconnect."""
        try:
            give_up = self._given_up is not None or self.stop_deadline.is_exhausted()
            self._producer.close(timeout=0.0 if give_up else CLOSE_SECONDS)
        except Exception:
            # kafka-python's close raises, and leaves its threads, if records cannot be sent;
            # that of confluent-kafka does not raise.
            self._producer._sender.force_close()
            self._producer._sender.join(CLOSE_SECONDS)
            with contextlib.suppress(Exception):
                self._producer.close(timeout=CLOSE_SECONDS)

    def _settle(self) -> None:
        """Remove the oldest pending record; raise if it is not in the topic."""
        from kafka.errors import KafkaTimeoutError

        future, key, size = self._pending.popleft()
        self._pending_bytes -= size
        if not future.succeeded():
            self._failed = self._explain(future.exception or KafkaTimeoutError(), key)
            raise self._failed

    def _explain(self, error: Exception, key: str) -> SourceError:
        """Explain why a record is not in the topic; for a deleted topic, kafka-python times out."""
        from kafka.errors import KafkaTimeoutError, UnknownTopicOrPartitionError

        if isinstance(error, KafkaTimeoutError | UnknownTopicOrPartitionError):
            try:
                self.require_same()
            except SourceError as deleted:
                return deleted
        return write_error(self.topic, error, key)

    def _give_up(self) -> Unavailable:
        """Return the error about the pending records, the same one until it is reported."""
        if self._given_up is None:
            n = self._producer.n_queued if self._queues else len(self._pending)
            self._given_up = _GivenUp(
                f"{self.topic.url}: {n:,} {'record was' if n == 1 else 'records were'} not "
                f"written, as no broker accepted any for {STOP_SECONDS:g} seconds"
            )
        return self._given_up


def _connect(topic: Topic, in_batches: bool = False) -> Any:
    """Connect a producer of kafka-python or of confluent-kafka."""
    import kafka

    timeouts = round(1000 * DELIVERY_SECONDS), round(1000 * REQUEST_SECONDS)
    if topic.security.client == CONFLUENT:
        batch_bytes = min(BATCH_BYTES, _topic_limit(topic))
        client = kafka.KafkaConsumer(**topic.client_options(), group_id=None)
        return ConfluentProducer(
            client,
            topic.name,
            {
                **topic.librdkafka_options(),
                "acks": "all",
                "linger.ms": LINGER_MS,
                "batch.size": batch_bytes,
                "message.max.bytes": MAX_RECORD_BYTES,
                "delivery.timeout.ms": timeouts[0],
                "request.timeout.ms": timeouts[1],
            },
            in_batches,
        )
    return kafka.KafkaProducer(
        **topic.client_options(),
        acks="all",
        enable_idempotence=True,
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        max_request_size=MAX_RECORD_BYTES,
        delivery_timeout_ms=timeouts[0],
        request_timeout_ms=timeouts[1],
        allow_auto_create_topics=False,
    )


def _topic_limit(topic: Topic) -> int:
    """Return the topic's max.message.bytes: librdkafka does not split a batch that is too large."""
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

    name = "max.message.bytes"
    try:
        with closing(KafkaAdminClient(**topic.client_options())) as admin:
            resource = ConfigResource(ConfigResourceType.TOPIC, topic.name, {name: None})
            configs = admin.describe_configs([resource], config_filter="all")
        return int(configs["topic"][topic.name][name]["value"])
    except Exception:  # no permission to read it: most topics accept a batch of the usual size
        return BATCH_BYTES


class TooLarge(SourceError):
    """A record that is larger than the topic accepts."""


class _GivenUp(Unavailable):
    """Records that were not written before a stopped run ended."""


def as_topic(topic: str | Topic) -> Topic:
    """Return a topic, given as such or by its URL."""
    return Topic(topic) if isinstance(topic, str) else topic


def topic_exists(topic: Topic) -> bool:
    """Return whether a topic exists; raise SourceError if no broker lets the client in."""
    from kafka.admin import KafkaAdminClient

    topic.wait_until_reachable(lambda: False)
    try:
        with closing(KafkaAdminClient(**topic.client_options())) as admin:
            return topic.name in admin.list_topics()
    except Exception as error:
        raise write_error(topic, error) from None


def require_compaction(topic: Topic) -> None:
    """Reject a topic that would delete models after a while, or keep all of them."""
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

    try:
        with closing(KafkaAdminClient(**topic.client_options())) as admin:
            resource = ConfigResource(
                ConfigResourceType.TOPIC, topic.name, {"cleanup.policy": None}
            )
            configs = admin.describe_configs([resource], config_filter="all")
        policy = configs["topic"][topic.name]["cleanup.policy"]["value"]
    except Exception as error:
        raise write_error(topic, error) from None
    if policy != "compact":
        raise SourceError(
            f"{topic.url} would not retain models: its cleanup.policy must be compact, got "
            f"{policy}; change it, or use another topic"
        )


def write_error(topic: Topic, error: Exception, key: str | None = None) -> SourceError:
    """Convert an error of kafka-python while writing to a sentence, about a record if known."""
    from kafka import errors

    what = "records" if key is None else f"the record {key}".rstrip()
    if isinstance(error, errors.MessageSizeTooLargeError | errors.RecordListTooLargeError):
        return TooLarge(
            f"{topic.url} does not accept {what}: too large; raise the topic's max.message.bytes"
        )
    if isinstance(error, errors.AuthorizationError):
        return SourceError(f"{topic.url}: this user may not write to the topic; add an ACL")
    if isinstance(error, errors.KafkaTimeoutError):
        return Unavailable(f"{topic.url}: no broker accepted {what}: is one running?")
    kind = Unavailable if getattr(error, "retriable", False) else SourceError
    return kind(f"{topic.url} did not accept {what}: {error_text(error)}")
