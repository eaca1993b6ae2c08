"""A slow reader of many partitions, one of them far fuller than the others: all of them move."""

from __future__ import annotations

import threading
import time

import pytest

from streaml1.sources.kafka.topic_source import KafkaSource
from tests.broker import Broker

pytestmark = pytest.mark.kafka

FULL = 15_000
FETCHED = 2_000
"""More than a fetch has of a partition (a megabyte): then it is the turn of others."""
QUIET = range(1, 12)


@pytest.fixture(scope="session")
def broker(broker: Broker) -> Broker:
    broker.require_real()
    return broker


def test_no_partition_starves_behind_a_full_one(broker: Broker) -> None:
    topic = broker.topic(1 + len(QUIET))
    record = "1 " + " ".join(f"{k}:1" for k in range(1, 120))
    broker.send(topic, [record] * FULL, (0,))
    broker.send(topic, [record] * (20 * len(QUIET)), tuple(QUIET))
    source = KafkaSource(broker.url(topic))
    over = threading.Event()
    source.set_stop(over.is_set)
    first: dict[int, int] = {}  # where the full partition was when another came, first and again
    again: dict[int, int] = {}
    full = since = 0
    for block in source.blocks(1000, pytest.fail):
        for row in range(len(block)):
            origin = block.origin(row)
            if origin.partition == 0:
                full = origin.offset
            else:
                first.setdefault(origin.partition, full)
                if origin.offset >= 20:
                    again.setdefault(origin.partition, full)
        if not since and full > 3 * FETCHED:
            assert set(first) == set(QUIET)
            broker.send(topic, [record] * (20 * len(QUIET)), tuple(QUIET))
            since = full
        if set(again) == set(QUIET) or full >= FULL - 10:
            over.set()
        time.sleep(0.01)  # it learns
    assert set(again) == set(QUIET), "they waited for the end of the full one"
    assert max(again.values()) - since < 3 * FETCHED
