"""Merge of several partitions into one stream of records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streaml1.core.types import Ints

if TYPE_CHECKING:
    from kafka import KafkaConsumer, TopicPartition
    from kafka.consumer.fetcher import ConsumerRecord

    PartitionOffsets = Mapping[TopicPartition, int]

__all__ = ["MAX_BUFFERED", "POLL_MS", "merge_partitions"]

POLL_MS = 250
"""Longest wait of a poll, and so the longest delay of a signal."""

MAX_BUFFERED = 5000
"""Buffered records at which a partition that is ahead in time is no longer fetched."""


def merge_partitions(
    consumer: KafkaConsumer,
    starts: PartitionOffsets,
    ends: PartitionOffsets | None,
    stopped: Callable[[], bool],
) -> Iterator[list[ConsumerRecord]]:
    """Read partitions, each in order; yield lists of records, empty if there are none now.

    Records of several partitions are merged by timestamp; ties go to the partition that comes
    first in `starts`. With `ends`, a record waits until every unfinished partition has a record to
    compare, so that the order depends on the topic alone. A partition that is far ahead meanwhile
    is left out of the assignment. It is not paused: kafka-python 3.0 may never return to a
    partition that was paused while some of its records were fetched.

    Parameters
    ----------
    consumer
        A consumer that commits nothing and resets no offset.
    starts
        First offset to read of each partition.
    ends
        Offset at which each partition ends, exclusive; None reads without end.
    stopped
        Checked before each poll.
    """
    merge = _Merge(consumer, starts, ends)
    while not stopped():
        if records := merge.take_ready():
            yield records
        partitions = merge.partitions_to_fetch()
        if not partitions:
            return
        if not merge.poll(partitions):
            yield []


class _Taken(NamedTuple):
    records: list[ConsumerRecord]
    times: Ints


class _PartitionBuffer:
    """Fetched records of a partition, and the times by which they are merged.

    The merge time of a record is the maximum timestamp up to it, so that times never decrease. A
    merge that repeatedly takes the earliest first record takes records in exactly this order.
    """

    def __init__(self) -> None:
        self.records: list[ConsumerRecord] = []
        self.times: Ints = np.empty(0, np.int64)

    def add(self, records: list[ConsumerRecord]) -> None:
        times = np.array([record.timestamp or 0 for record in records], np.int64)
        times = np.concatenate([self.times, times]) if self.records else times
        self.times = np.maximum.accumulate(times)
        self.records = self.records + records if self.records else records

    def take(self, n: int) -> _Taken:
        """Remove and return the first `n` records."""
        taken = _Taken(self.records[:n], self.times[:n])
        self.records, self.times = self.records[n:], self.times[n:]
        return taken


class _Merge:
    """Records that are fetched and not yet yielded."""

    def __init__(
        self, consumer: KafkaConsumer, starts: PartitionOffsets, ends: PartitionOffsets | None
    ) -> None:
        self._consumer = consumer
        self._partitions = list(starts)
        self._next_offset = dict(starts)  # to fetch
        self._ends = ends
        self._buffers = {partition: _PartitionBuffer() for partition in starts}
        self._assigned: list[TopicPartition] = []

    def _is_finished(self, partition: TopicPartition) -> bool:
        return self._ends is not None and self._next_offset[partition] >= self._ends[partition]

    def partitions_to_fetch(self) -> list[TopicPartition]:
        """Return the partitions to assign.

        Each change drops what the consumer has fetched ahead. So the assignment stays the same
        unless a partition is finished, too far ahead, or needed and not assigned.
        """
        unfinished = [p for p in self._partitions if not self._is_finished(p)]
        assigned = [p for p in self._assigned if p in unfinished]
        needed = [p for p in unfinished if not self._buffers[p].records and p not in assigned]
        too_far = [p for p in assigned if len(self._buffers[p].records) > MAX_BUFFERED]
        if needed or too_far or not assigned:
            return [p for p in unfinished if len(self._buffers[p].records) <= MAX_BUFFERED]
        return assigned

    def poll(self, partitions: list[TopicPartition]) -> bool:
        """Fetch some records of these partitions; return whether any arrived."""
        if partitions != self._assigned:
            self._consumer.assign(partitions)
            for partition in partitions:
                self._consumer.seek(partition, self._next_offset[partition])
            self._assigned = partitions
        polled = self._consumer.poll(timeout_ms=POLL_MS)
        for partition in partitions:
            records = polled.get(partition)
            if records:
                self._buffer(partition, records)
            else:  # the consumer may have skipped control records, such as the end of a transaction
                position = self._consumer.position(partition) or 0
                self._next_offset[partition] = max(self._next_offset[partition], position)
        return bool(polled)

    def _buffer(self, partition: TopicPartition, records: list[ConsumerRecord]) -> None:
        self._next_offset[partition] = records[-1].offset + 1
        if self._ends is not None and self._next_offset[partition] > self._ends[partition]:
            end = self._ends[partition]
            records = [record for record in records if record.offset < end]
        self._buffers[partition].add(records)

    def take_ready(self) -> list[ConsumerRecord]:
        """Remove and return the records whose place in the order is certain."""
        taken = [
            self._buffers[partition].take(n)
            for partition, n in zip(self._partitions, self._count_ready(), strict=True)
        ]
        taken = [part for part in taken if part.records]
        if len(taken) < 2:
            return taken[0].records if taken else []
        return _merge_by_time(taken)

    def _count_ready(self) -> list[int]:
        """Return for each partition how many records precede all that are not fetched yet."""
        buffers = [self._buffers[partition] for partition in self._partitions]
        unfinished = [] if self._ends is None or len(buffers) < 2 else [
            k for k, partition in enumerate(self._partitions) if not self._is_finished(partition)
        ]  # fmt: skip
        if not unfinished:
            return [len(buffer.records) for buffer in buffers]
        if not all(buffers[k].records for k in unfinished):
            return [0] * len(buffers)
        # The next record of partition k is at least as late as its last buffered one. The earliest
        # such bound, ties to the first partition, limits what may be taken from all.
        time, first = min((int(buffers[k].times[-1]), k) for k in unfinished)
        return [
            int(np.searchsorted(buffer.times, time, "right" if k <= first else "left"))
            for k, buffer in enumerate(buffers)
        ]


def _merge_by_time(taken: Sequence[_Taken]) -> list[ConsumerRecord]:
    records = [record for part in taken for record in part.records]
    order = np.argsort(np.concatenate([part.times for part in taken]), kind="stable")
    return [records[k] for k in order.tolist()]
