"""confluent-kafka in the place of kafka-python, to read and write records.

`ConfluentConsumer` and `ConfluentProducer` offer the methods of kafka-python's clients that this
package uses. Only records go through librdkafka. Metadata, topic ids and offset requests stay with
a client of kafka-python, so that starts, ends and recreated topics are treated alike; and errors
are converted to kafka-python's, so that there is one explanation for each.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message
    from kafka import KafkaConsumer, TopicPartition

__all__ = ["ConfluentConsumer", "ConfluentProducer", "Delivery", "as_kafka_python_error"]

logger = logging.getLogger("kafka.librdkafka")  # a child of kafka-python's logger

READ_AHEAD_KILOBYTES = 32_768
"""Limit of the records that librdkafka fetches ahead."""

READ_AHEAD_BACKOFF_MS = 10
"""Interval at which librdkafka checks whether it may fetch again after it has reached the limit.
Its default of a second leaves a fast reader without records."""

FULL_QUEUE_SECONDS = 0.1
"""Wait for space in the queue of records."""

SENDS_PER_POLL = 50
"""Number of records between two calls that deliver acknowledgements."""


class Record(NamedTuple):
    """A record, with the attributes of kafka-python's `ConsumerRecord` that are used here."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes]] | None


class ConfluentConsumer:
    """A consumer by assignment; it joins no group and commits nothing.

    Parameters
    ----------
    metadata_client
        A consumer of kafka-python with the same brokers. It fetches no records, and is closed with
        this consumer.
    options
        librdkafka's settings for connections.
    max_records
        Limit of records per poll.
    metadata_seconds
        Interval of metadata refreshes.
    fetch_wait_seconds
        Longest time for which a broker may hold back an empty response.
    """

    def __init__(
        self,
        metadata_client: KafkaConsumer,
        options: Mapping[str, Any],
        max_records: int,
        metadata_seconds: float,
        fetch_wait_seconds: float,
    ) -> None:
        import confluent_kafka

        self.metadata_client = metadata_client
        self._max_records = max_records
        self._failed: Exception | None = None
        self._positions: dict[TopicPartition, int] = {}
        self._must_assign = False
        # librdkafka requires a group id, and uses it only to look up the group's coordinator.
        self._consumer = confluent_kafka.Consumer(
            {
                **options,
                "group.id": "streaml1",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "check.crcs": True,
                "allow.auto.create.topics": False,
                "topic.metadata.refresh.interval.ms": round(1000 * metadata_seconds),
                "fetch.wait.max.ms": round(1000 * fetch_wait_seconds),
                "fetch.queue.backoff.ms": READ_AHEAD_BACKOFF_MS,
                "queued.max.messages.kbytes": READ_AHEAD_KILOBYTES,
                # The end of a partition shows that control records before it were skipped.
                "enable.partition.eof": True,
                "error_cb": self._on_error,
            },
            logger=logger,
        )

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()
        self.metadata_client.close()

    # Requests of the metadata client

    def partitions_for_topic(self, name: str) -> set[int] | None:
        """Return the partitions of a topic; None if it does not exist."""
        partitions: set[int] | None = self.metadata_client.partitions_for_topic(name)
        return partitions

    def topics(self) -> set[str]:
        """Return the names of all topics."""
        names: set[str] = self.metadata_client.topics()
        return names

    def beginning_offsets(self, *args: Any, **settings: Any) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        offsets: dict[TopicPartition, int] = self.metadata_client.beginning_offsets(
            *args, **settings
        )
        return offsets

    def end_offsets(self, *args: Any, **settings: Any) -> dict[TopicPartition, int]:
        """Return the end offset of each partition."""
        offsets: dict[TopicPartition, int] = self.metadata_client.end_offsets(*args, **settings)
        return offsets

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, Any]:
        """Return for each partition the first offset from a time on."""
        offsets: dict[TopicPartition, Any] = self.metadata_client.offsets_for_times(times)
        return offsets

    # Records

    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions."""
        return set(self._positions)

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Read these partitions from now on; call `seek` for each of them."""
        follow_topics(self.metadata_client, partitions)
        self._positions = {tp: self._positions.get(tp, 0) for tp in partitions}
        self._must_assign = True

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Set the next offset of a partition."""
        self._positions[tp] = offset
        self._must_assign = True

    def position(self, tp: TopicPartition) -> int:
        """Return the next offset of a partition."""
        return self._positions[tp]

    def highwater(self, tp: TopicPartition) -> int | None:
        """Return the end offset as of the last fetch; None if nothing was fetched."""
        from confluent_kafka import TopicPartition

        _, high = self._consumer.get_watermark_offsets(
            TopicPartition(tp.topic, tp.partition), cached=True
        )
        return high if high >= 0 else None

    def poll(self, timeout_ms: int) -> dict[TopicPartition, list[Record]]:
        """Return the records that have arrived; wait for the first one at most this long.

        Raises
        ------
        kafka.errors.KafkaError
            If records cannot be read. Those before the error were returned by earlier polls.
        """
        if self._must_assign:
            self._assign()
        self._raise_failure()
        messages = self._consumer.consume(self._max_records, 0)
        if not messages:
            first = self._consumer.poll(timeout_ms / 1000)
            if first is None:
                return {}
            messages = [first, *self._consumer.consume(self._max_records - 1, 0)]
        polled = self._sort(messages)
        if not polled:
            self._raise_failure()
        return polled

    def _raise_failure(self) -> None:
        if self._failed is not None:
            raise self._failed

    def _assign(self) -> None:
        from confluent_kafka import TopicPartition

        self._consumer.assign(
            [TopicPartition(tp.topic, tp.partition, at) for tp, at in self._positions.items()]
        )
        self._must_assign = False

    def _sort(self, messages: list[Any]) -> dict[TopicPartition, list[Record]]:
        """Return the records by partition, update the positions, and note an error."""
        from kafka import TopicPartition

        polled: dict[Any, list[Record]] = {}
        for message in messages:
            if message.error() is not None:
                self._on_failed_message(message)
                continue
            topic, partition = message.topic(), message.partition()
            record = Record(
                topic, partition, message.offset(), message.timestamp()[1], message.key(),
                message.value(), message.headers(),
            )  # fmt: skip
            # A tuple equals the `TopicPartition`, and costs less.
            records = polled.get((topic, partition))
            if records is None:
                records = polled[TopicPartition(topic, partition)] = []
            records.append(record)
        for tp, records in polled.items():
            self._positions[tp] = max(self._positions[tp], records[-1].offset + 1)
        return polled

    def _on_failed_message(self, message: Message) -> None:
        from confluent_kafka import KafkaError
        from kafka import TopicPartition

        error = message.error()
        assert error is not None
        tp = TopicPartition(message.topic(), message.partition())
        if error.code() == KafkaError._PARTITION_EOF:
            self._positions[tp] = max(self._positions[tp], message.offset() or 0)
        elif not _is_transient(error):
            self._failed = self._failed or as_kafka_python_error(error, tp, self._positions.get(tp))

    def _on_error(self, error: KafkaError) -> None:
        """Note an error that concerns no partition, called while polling."""
        from confluent_kafka import KafkaError

        if error.fatal() or error.code() == KafkaError._AUTHENTICATION:
            self._failed = self._failed or as_kafka_python_error(error)


class Delivered(NamedTuple):
    """Where a record is."""

    partition: int
    offset: int


class Delivery:
    """The acknowledgement of a record, like kafka-python's `FutureRecordMetadata`."""

    __slots__ = ("_error", "_message", "_producer")

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._message: Message | None = None
        self._error: KafkaError | None = None

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """Handle that the record was acknowledged, or has failed."""
        self._error, self._message = error, message

    @property
    def is_done(self) -> bool:
        """Whether the record was acknowledged, or has failed."""
        return self._message is not None

    def succeeded(self) -> bool:
        """Return whether the record is in the topic."""
        return self.is_done and self._error is None

    @property
    def exception(self) -> Exception | None:
        """The error, as one of kafka-python."""
        return None if self._error is None else as_kafka_python_error(self._error)

    @property
    def value(self) -> Delivered | None:
        """Where the record is; None if it is not in the topic."""
        if self._message is None or self._error is not None:
            return None
        return Delivered(self._message.partition() or 0, self._message.offset() or 0)

    def get(self, timeout: float) -> Delivered | None:
        """Wait for the acknowledgement at most this many seconds, and return `value`."""
        deadline = time.monotonic() + timeout
        while not self.is_done and (left := deadline - time.monotonic()) > 0:
            self._producer.poll(left)
        return self.value


class Failure(NamedTuple):
    """A record that is not in the topic."""

    error: Exception
    key: str


class ConfluentProducer:
    """An idempotent producer for one topic.

    Parameters
    ----------
    metadata_client
        A consumer of kafka-python with the same brokers; closed with this producer.
    topic
        Name of the topic.
    options
        librdkafka's settings.
    in_batches
        Whether records are sent by `send_many` alone, which reports failures only.
    """

    def __init__(
        self,
        metadata_client: KafkaConsumer,
        topic: str,
        options: Mapping[str, Any],
        in_batches: bool = False,
    ) -> None:
        import confluent_kafka
        from kafka import TopicPartition

        self.failure: Failure | None = None

        self.metadata_client = metadata_client
        follow_topics(metadata_client, [TopicPartition(topic, 0)])
        self._n_sent = 0
        self._producer = confluent_kafka.Producer(
            {
                **options,
                "enable.idempotence": True,
                "allow.auto.create.topics": False,
                "delivery.report.only.error": in_batches,
            },
            logger=logger,
        )

    def partitions_for(self, name: str) -> set[int]:
        """Return the partitions of a topic."""
        return self.metadata_client.partitions_for_topic(name) or set()

    def send(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: list[tuple[str, bytes]] | None,
        partition: int,
    ) -> Delivery:
        """Send a record without waiting for its acknowledgement."""
        import confluent_kafka

        delivery = Delivery(self._producer)
        try:
            self._producer.produce(
                topic, value, key, partition, delivery.on_delivery, headers=[*(headers or ())]
            )
        except confluent_kafka.KafkaException as error:
            raise as_kafka_python_error(error.args[0]) from None
        self._n_sent += 1
        if self._n_sent % SENDS_PER_POLL == 0:
            self._producer.poll(0)
        return delivery

    def send_many(self, topic: str, messages: list[dict[str, Any]]) -> None:
        """Send records without waiting; the first one that fails becomes `failure`.

        Parameters
        ----------
        topic
            The topic.
        messages
            Key, value and partition of each record, by these names.
        """
        import confluent_kafka

        left = messages
        try:
            while left:
                left = self._produce(topic, left)
                if left:  # the queue is full
                    self._producer.poll(FULL_QUEUE_SECONDS)
        except confluent_kafka.KafkaException as error:
            raise as_kafka_python_error(error.args[0]) from None
        self._producer.poll(0)

    def _produce(self, topic: str, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Put records into the queue in order; return those for which it has no space."""
        left = messages
        if hasattr(self._producer, "produce_batch"):  # confluent-kafka 2.13 or later
            n = self._producer.produce_batch(topic, messages, on_delivery=self._on_failure)
            if n == len(messages):
                return []
            left = [message for message in messages if message.pop("_error", None) is not None]
        for k, message in enumerate(left):
            try:
                self._producer.produce(topic, on_delivery=self._on_failure, **message)
            except BufferError:
                return left[k:]
        return []

    def _on_failure(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self.failure is None:
            key = message.key() or b""
            key = key if isinstance(key, bytes) else str(key).encode()
            self.failure = Failure(as_kafka_python_error(error), key.decode())

    @property
    def n_queued(self) -> int:
        """Number of records that are not acknowledged yet."""
        return len(self._producer)

    def flush(self, timeout: float) -> None:
        """Wait at most this many seconds until all records are acknowledged."""
        self._producer.flush(timeout)

    def close(self, timeout: float) -> None:
        """Send what can be sent within this many seconds, and disconnect."""
        with contextlib.suppress(Exception):
            if self._producer.flush(timeout):
                self._producer.purge()
        self.metadata_client.close()


def follow_topics(metadata_client: KafkaConsumer, partitions: Sequence[TopicPartition]) -> None:
    """Have the metadata client refresh the metadata of these topics; it fetches no records."""
    if {tp.topic for tp in metadata_client.assignment()} != {tp.topic for tp in partitions}:
        metadata_client.assign(partitions)
        metadata_client.pause(*partitions)


def _is_transient(error: KafkaError) -> bool:
    """Return whether librdkafka goes on by itself, or a missing topic explains the error."""
    from confluent_kafka import KafkaError

    return error.retriable() or error.code() in (
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TRANSPORT,
        KafkaError._TIMED_OUT,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        # The group id of the consumer is not used: it needs no permission for it.
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
    )


def as_kafka_python_error(
    error: KafkaError, tp: TopicPartition | None = None, offset: int | None = None
) -> Exception:
    """Convert an error of librdkafka to the one that kafka-python raises.

    Parameters
    ----------
    error
        The error.
    tp, offset
        The place where it has occurred.
    """
    from confluent_kafka import KafkaError
    from kafka import errors

    code, text = error.code(), error.str()
    if code > 0:
        converted: Exception = errors.for_code(code)(text)
        return converted
    if code == KafkaError._AUTO_OFFSET_RESET:
        return errors.OffsetOutOfRangeError({tp: offset})  # type: ignore[no-any-return]
    if code == KafkaError._LOG_TRUNCATION:
        return errors.LogTruncationError({tp: None})  # type: ignore[no-any-return]
    kinds = {
        KafkaError._AUTHENTICATION: errors.SaslAuthenticationFailedError,
        KafkaError._BAD_COMPRESSION: errors.CorruptRecordError,
        KafkaError._BAD_MSG: errors.CorruptRecordError,
        KafkaError._MSG_TIMED_OUT: errors.KafkaTimeoutError,
        KafkaError._TIMED_OUT: errors.KafkaTimeoutError,
        KafkaError._ALL_BROKERS_DOWN: errors.KafkaTimeoutError,
        KafkaError._TRANSPORT: errors.KafkaTimeoutError,
        KafkaError._UNKNOWN_PARTITION: errors.UnknownTopicOrPartitionError,
        KafkaError._UNKNOWN_TOPIC: errors.UnknownTopicOrPartitionError,
    }
    kind = kinds.get(code, errors.KafkaError)
    converted = kind(text)
    return converted
