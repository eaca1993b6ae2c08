"""A consumer whose records are fetched by librdkafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from streaml1.sources.kafka.confluent.errors import as_kafka_python_error, is_transient
from streaml1.sources.kafka.confluent.metadata import follow_topics, logger

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message
    from kafka import KafkaConsumer, TopicPartition

__all__ = ["ConfluentConsumer"]

READ_AHEAD_KILOBYTES = 32_768
"""Limit of the records that librdkafka fetches ahead."""

READ_AHEAD_BACKOFF_MS = 10
"""Interval at which librdkafka checks whether it may fetch again after it has reached the limit.
Its default of a second leaves a fast reader without records."""


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
        self.topics = metadata_client.topics
        self.partitions_for_topic = metadata_client.partitions_for_topic
        self.beginning_offsets = metadata_client.beginning_offsets
        self.end_offsets = metadata_client.end_offsets
        self.offsets_for_times = metadata_client.offsets_for_times
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
        elif not is_transient(error):
            self._failed = self._failed or as_kafka_python_error(error, tp, self._positions.get(tp))

    def _on_error(self, error: KafkaError) -> None:
        """Note an error that concerns no partition, called while polling."""
        from confluent_kafka import KafkaError

        if error.fatal() or error.code() == KafkaError._AUTHENTICATION:
            self._failed = self._failed or as_kafka_python_error(error)
