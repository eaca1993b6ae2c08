"""A producer whose records are sent by librdkafka."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from streaml1.sources.kafka.confluent.errors import as_kafka_python_error
from streaml1.sources.kafka.confluent.metadata import follow_topics, logger

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message
    from kafka import KafkaConsumer

__all__ = ["ConfluentProducer", "Failure"]

FULL_QUEUE_SECONDS = 0.1
"""Wait for space in the queue of records."""

SENDS_PER_POLL = 50
"""Number of records between two calls that deliver acknowledgements."""


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
        """Send records, dicts of value, key and partition; the first to fail becomes `failure`."""
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
