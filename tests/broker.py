"""The broker that scripts/test has started, as tests use it."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Sequence
from typing import Any

import kafka
import pytest
from kafka.admin import KafkaAdminClient, NewTopic

WITHOUT = "no broker: scripts/test starts one, unless it is given --no-kafka"


class Broker:
    """Topics of its own for each test, on a real broker or on librdkafka's mock cluster."""

    def __init__(self, address: str, kind: str) -> None:
        self.address = address
        self.is_real = kind == "real"
        # The mock cluster does not tell its version in a way that kafka-python reads.
        self.settings: dict[str, Any] = {"bootstrap_servers": address}
        if not self.is_real:
            self.settings["api_version"] = (2, 3)
        self.producer = kafka.KafkaProducer(**self.settings, linger_ms=20)

    def require_real(self) -> None:
        if not self.is_real:
            pytest.skip("the mock cluster has no topics to order, times or transactions")

    def topic(self, partitions: int = 1, name: str | None = None, **configs: str) -> str:
        """A new topic that the broker knows; on the mock cluster it comes with its records."""
        name = name or f"t-{uuid.uuid4().hex[:12]}"
        if self.is_real:
            admin = KafkaAdminClient(bootstrap_servers=self.address)
            try:
                admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs or None)])
                while name not in admin.list_topics():
                    time.sleep(0.01)
            finally:
                admin.close()
        return name

    def delete(self, topic: str) -> None:
        """Return when the topic is gone."""
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            admin.delete_topics([topic])
            while topic in admin.list_topics():
                time.sleep(0.05)
        finally:
            admin.close()

    def has(self, topic: str) -> bool:
        admin = KafkaAdminClient(bootstrap_servers=self.address)
        try:
            return topic in admin.list_topics()
        finally:
            admin.close()

    def url(self, topic: str) -> str:
        return f"kafka://{self.address}/{topic}" + ("" if self.is_real else "?api_version=2.3")

    def send(
        self,
        topic: str,
        values: Iterable[str | bytes | None],
        partitions: Sequence[int] = (0,),
        first: int = 1_700_000_000_000,
    ) -> None:
        """Send records to the partitions in turn, a millisecond between any two."""
        sent = []
        for number, value in enumerate(values):
            data = value.encode() if isinstance(value, str) else value
            part = partitions[number % len(partitions)]
            sent.append(
                self.producer.send(
                    topic, data, key=b"key", partition=part, timestamp_ms=first + number
                )
            )
        self.producer.flush(30)
        for one in sent:
            one.get(30)

    def close(self) -> None:
        self.producer.close(timeout=5)


def given() -> Broker:
    address, kind = os.environ.get("STREAML1_KAFKA"), os.environ.get("STREAML1_KAFKA_KIND")
    if not address or kind not in ("real", "mock"):
        pytest.skip(WITHOUT)
    return Broker(address, kind)
