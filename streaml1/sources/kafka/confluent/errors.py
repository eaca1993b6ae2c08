"""Errors of librdkafka as those of kafka-python."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from kafka import TopicPartition

__all__ = ["as_kafka_python_error", "is_transient"]


def is_transient(error: KafkaError) -> bool:
    """Return whether librdkafka recovers by itself, or a missing topic explains the error."""
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
    """Convert an error of librdkafka to that of kafka-python; `tp` and `offset` are its place."""
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
