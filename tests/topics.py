"""Read the records of Kafka topics in tests."""

from __future__ import annotations

from typing import Any

import kafka

from tests.broker import Broker

__all__ = ["records_of"]


def records_of(broker: Broker, topic: str) -> list[Any]:
    """Return all records of a topic, sorted by partition and offset."""
    consumer = kafka.KafkaConsumer(**broker.settings, enable_auto_commit=False)
    try:
        partitions = [kafka.TopicPartition(topic, p) for p in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(partitions)
        records: list[Any] = []
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for polled in consumer.poll(timeout_ms=200).values():
                records += polled
    finally:
        consumer.close()
    return sorted(records, key=lambda record: (record.partition, record.offset))
