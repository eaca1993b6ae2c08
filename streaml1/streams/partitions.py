"""The records of some partitions of a topic as one stream."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["POLL_MS", "merged"]

POLL_MS = 250
"""The longest a poll waits, and so a signal for it."""

HELD = 5000
"""Records that a partition which is ahead in time may hold in memory before it has to wait."""


def merged(
    consumer: Any,
    topic: str,
    starts: dict[int, int],
    ends: dict[int, int] | None,
    stopped: Callable[[], bool],
) -> Iterator[Any]:
    """Read partitions, each in order; yields None where there is no record now.

    Records of several partitions are merged by timestamp, the lower partition first where two are
    equal. Where the ends are known, a record waits until the first one of every other partition is
    there to be compared, so that the order depends on nothing but the topic. A partition that is
    far ahead meanwhile is left out of what is fetched. (It is not paused: kafka-python 3.0 may
    never come back to a partition that was paused while some of its records were fetched.)

    Parameters
    ----------
    consumer
        A consumer of kafka-python that commits nothing and resets no offset.
    topic
        Its name.
    starts
        The first offset of each partition.
    ends
        The offset before which each is to end; None: read on and on.
    stopped
        Asked before each poll whether to end.

    """
    reading = _Reading(consumer, topic, starts, ends)
    while not stopped():
        yield from reading.ready()
        wanted = reading.wanted()
        if not wanted:
            return
        if not reading.poll(wanted):
            yield None


class _Reading:
    """What has been fetched and not yet handed on."""

    def __init__(
        self,
        consumer: Any,
        topic: str,
        starts: dict[int, int],
        ends: dict[int, int] | None,
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._next = dict(starts)  # the next offset to be fetched
        self._ends = ends
        self._held: dict[int, deque[Any]] = {one: deque() for one in starts}
        self._heads: list[tuple[int, int]] = []  # a heap: timestamp and partition of first records
        self._fetched: list[int] = []

    def _is_over(self, partition: int) -> bool:
        return self._ends is not None and self._next[partition] >= self._ends[partition]

    def wanted(self) -> list[int]:
        """The partitions to be fetched: no change unless one is over, too far ahead, or missed."""
        open_ones = [one for one in self._next if not self._is_over(one)]
        fetched = [one for one in self._fetched if one in open_ones]
        missed = [one for one in open_ones if not self._held[one] and one not in fetched]
        ahead = [one for one in fetched if len(self._held[one]) > HELD]
        if missed or ahead or not fetched:
            return [one for one in open_ones if len(self._held[one]) <= HELD]
        return fetched

    def poll(self, wanted: list[int]) -> bool:
        """Fetch some records; False where none came."""
        from kafka import TopicPartition

        parts = [TopicPartition(self._topic, one) for one in wanted]
        if wanted != self._fetched:
            self._consumer.assign(parts)
            for part in parts:
                self._consumer.seek(part, self._next[part.partition])
            self._fetched = wanted
        polled = self._consumer.poll(timeout_ms=POLL_MS)
        for part in parts:
            records = polled.get(part)
            if records:
                self._hold(part.partition, records)
            else:  # it may have stepped over what is no record, such as the end of a transaction
                position = self._consumer.position(part)
                self._next[part.partition] = max(self._next[part.partition], position or 0)
        return bool(polled)

    def _hold(self, partition: int, records: list[Any]) -> None:
        self._next[partition] = records[-1].offset + 1
        if self._ends is not None and self._next[partition] > self._ends[partition]:
            end = self._ends[partition]
            records = [record for record in records if record.offset < end]
        held = self._held[partition]
        if not held and records:
            heapq.heappush(self._heads, (records[0].timestamp or 0, partition))
        held.extend(records)

    def ready(self) -> Iterator[Any]:
        """The records that are next, as far as that can be told."""
        heads = self._heads
        waiting = self._ends is not None and len(self._held) > 1
        if waiting and any(not held and not self._is_over(one) for one, held in self._held.items()):
            return
        while heads:
            _, partition = heads[0]
            held = self._held[partition]
            yield held.popleft()
            if held:
                heapq.heapreplace(heads, (held[0].timestamp or 0, partition))
                continue
            heapq.heappop(heads)
            if waiting and not self._is_over(partition):
                return
