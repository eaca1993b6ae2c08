"""What tests read of topics."""

from __future__ import annotations

from typing import Any

import kafka

from tests.broker import Broker

__all__ = ["records_of"]


def records_of(broker: Broker, topic: str) -> list[Any]:
    """All records of a topic, by partition and offset."""
    consumer = kafka.KafkaConsumer(**broker.settings, enable_auto_commit=False)
    try:
        parts = [kafka.TopicPartition(topic, one) for one in consumer.partitions_for_topic(topic)]
        consumer.assign(parts)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(parts)
        records: list[Any] = []
        while any(consumer.position(part) < end for part, end in ends.items()):
            for polled in consumer.poll(timeout_ms=200).values():
                records += polled
    finally:
        consumer.close()
    return sorted(records, key=lambda record: (record.partition, record.offset))
