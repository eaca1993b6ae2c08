"""A slow consumer of many partitions, one with a much larger backlog: all partitions progress."""

from __future__ import annotations

import threading
import time

import pytest

from streaml1.sources.kafka.topic_source import KafkaSource
from tests.broker import Broker

pytestmark = pytest.mark.kafka

FULL_SIZE = 15_000
MAX_FETCHED = 2_000
"""An upper bound of the records that one fetch returns of a partition (1 MiB)."""
QUIET = range(1, 12)


@pytest.fixture(scope="session")
def broker(broker: Broker) -> Broker:
    broker.require_real()
    return broker


def test_large_partition_does_not_starve_others(broker: Broker) -> None:
    topic = broker.topic(1 + len(QUIET))
    record = "1 " + " ".join(f"{k}:1" for k in range(1, 120))
    broker.send(topic, [record] * FULL_SIZE, (0,))
    broker.send(topic, [record] * (20 * len(QUIET)), tuple(QUIET))
    source = KafkaSource(broker.url(topic))
    done = threading.Event()
    source.set_stop(done.is_set)
    # Offset of the full partition when each quiet partition delivered its first and second batch.
    first_batch: dict[int, int] = {}
    second_batch: dict[int, int] = {}
    full_offset = refill_offset = 0
    for block in source.blocks(1000, pytest.fail):
        for row in range(len(block)):
            origin = block.origin(row)
            if origin.partition == 0:
                full_offset = origin.offset
            else:
                first_batch.setdefault(origin.partition, full_offset)
                if origin.offset >= 20:
                    second_batch.setdefault(origin.partition, full_offset)
        if not refill_offset and full_offset > 3 * MAX_FETCHED:
            assert set(first_batch) == set(QUIET)
            broker.send(topic, [record] * (20 * len(QUIET)), tuple(QUIET))
            refill_offset = full_offset
        if set(second_batch) == set(QUIET) or full_offset >= FULL_SIZE - 10:
            done.set()
        time.sleep(0.01)  # the time to learn a block
    assert set(second_batch) == set(QUIET), "quiet partitions waited for the full one to end"
    assert max(second_batch.values()) - refill_offset < 3 * MAX_FETCHED
