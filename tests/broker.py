"""Access to the Kafka broker that scripts/test has started."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import kafka
import pytest
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError

NO_BROKER = "no broker; scripts/test starts one, unless called with --no-kafka"


class Broker:
    """A real broker or librdkafka's mock cluster, on which each test creates its own topics."""

    def __init__(self, address: str, kind: str) -> None:
        self.address = address
        self.is_real = kind == "real"
        # kafka-python cannot infer the version of the mock cluster.
        self.settings: dict[str, Any] = {"bootstrap_servers": address}
        if not self.is_real:
            self.settings["api_version"] = (2, 3)
        self.producer = kafka.KafkaProducer(**self.settings, linger_ms=20)

    def require_real(self) -> None:
        """Skip the test on the mock cluster."""
        if not self.is_real:
            pytest.skip("the mock cluster supports no topic configs, timestamps or transactions")

    def topic(self, partitions: int = 1, name: str | None = None, **configs: str) -> str:
        """Create a topic and return its name; the mock cluster creates it with the first record."""
        name = name or f"t-{uuid.uuid4().hex[:12]}"
        if self.is_real:
            admin = KafkaAdminClient(bootstrap_servers=self.address)
            try:
                # It exists if the broker was slow and the client has repeated its request.
                with suppress(TopicAlreadyExistsError):
                    new = NewTopic(name, partitions, 1, topic_configs=configs or None)
                    admin.create_topics([new])
                while name not in admin.list_topics():
                    time.sleep(0.01)
            finally:
                admin.close()
        return name

    def add_partitions(self, topic: str, n: int) -> None:
        """Let a topic have n partitions, and wait until the producer knows them."""
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            admin.create_partitions({topic: n})
        finally:
            admin.close()
        while len(self.producer.partitions_for(topic)) < n:
            self.producer._metadata.request_update()
            time.sleep(0.1)

    def delete(self, topic: str) -> None:
        """Delete a topic and wait until the broker no longer lists it."""
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            admin.delete_topics([topic])
            while topic in admin.list_topics():
                time.sleep(0.05)
        finally:
            admin.close()

    def has(self, topic: str) -> bool:
        """Return whether the topic exists."""
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            return topic in admin.list_topics()
        finally:
            admin.close()

    def url(self, topic: str) -> str:
        """Return the URL of a topic as the command line accepts it."""
        return f"kafka://{self.address}/{topic}" + ("" if self.is_real else "?api_version=2.3")

    def send(
        self,
        topic: str,
        values: Iterable[str | bytes | None],
        partitions: Sequence[int] = (0,),
        first: int = 1_700_000_000_000,
    ) -> None:
        """Send records round-robin; timestamps start at `first` and are one millisecond apart."""
        futures = []
        for number, value in enumerate(values):
            data = value.encode() if isinstance(value, str) else value
            partition = partitions[number % len(partitions)]
            timestamp = first + number
            futures.append(
                self.producer.send(
                    topic, data, key=b"key", partition=partition, timestamp_ms=timestamp
                )
            )
        self.producer.flush(30)
        for future in futures:
            future.get(30)

    def close(self) -> None:
        """Close the producer."""
        self.producer.close(timeout=5)


def connect_or_skip() -> Broker:
    """Return the broker of the test run; skip the test if there is none."""
    address, kind = os.environ.get("STREAML1_KAFKA"), os.environ.get("STREAML1_KAFKA_KIND")
    if not address or kind not in ("real", "mock"):
        pytest.skip(NO_BROKER)
    return Broker(address, kind)
