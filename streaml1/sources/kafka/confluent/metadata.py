"""What consumer and producer share: the client of kafka-python for metadata, and the logger."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition

__all__ = ["follow_topics", "logger"]

logger = logging.getLogger("kafka.librdkafka")  # a child of kafka-python's logger


def follow_topics(metadata_client: KafkaConsumer, partitions: Sequence[TopicPartition]) -> None:
    """Have the metadata client refresh the metadata of these topics; it fetches no records."""
    if {tp.topic for tp in metadata_client.assignment()} != {tp.topic for tp in partitions}:
        metadata_client.assign(partitions)
        metadata_client.pause(*partitions)
