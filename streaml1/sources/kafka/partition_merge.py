"""The records of some partitions as one stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["POLL_MS", "merged"]

POLL_MS = 250
"""The longest a poll waits, and so a signal for it."""

HELD = 5000
"""Records that a partition which is ahead in time may hold in memory before it has to wait."""


def merged(
    consumer: Any,
    starts: Mapping[Any, int],
    ends: Mapping[Any, int] | None,
    stopped: Callable[[], bool],
) -> Iterator[list[Any]]:
    """Read partitions, each in order; yields some records, or an empty list: there is none now.

    Records of several partitions are merged by timestamp, the partition that stands first in
    `starts` first where two are equal. Where the ends are known, a record waits until the first one
    of every other partition is there to be compared, so that the order depends on nothing but the
    topic. A partition that is far ahead meanwhile is left out of what is fetched. (It is not
    paused: kafka-python 3.0 may never come back to a partition that was paused while some of its
    records were fetched.)

    Parameters
    ----------
    consumer
        A consumer of kafka-python that commits nothing and resets no offset.
    starts
        The first offset of each partition, by its `TopicPartition`.
    ends
        The offset before which each is to end; None: read on and on.
    stopped
        Asked before each poll whether to end.

    """
    reading = _Reading(consumer, starts, ends)
    while not stopped():
        if records := reading.ready():
            yield records
        wanted = reading.wanted()
        if not wanted:
            return
        if not reading.poll(wanted):
            yield []


class _Held:
    """Records of a partition that wait, with what they are merged by."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        # The largest timestamp up to each record: a merge that takes the earliest first record,
        # again and again, takes them in this order.
        self.times = np.empty(0, np.int64)

    def add(self, records: list[Any]) -> None:
        times = np.array([record.timestamp or 0 for record in records], np.int64)
        times = np.concatenate([self.times, times]) if self.records else times
        self.times = np.maximum.accumulate(times)
        self.records = self.records + records if self.records else records

    def take(self, n: int) -> tuple[list[Any], Any]:
        """The first `n`, which go, and their times."""
        taken = self.records[:n], self.times[:n]
        self.records, self.times = self.records[n:], self.times[n:]
        return taken


class _Reading:
    """What has been fetched and not yet handed on."""

    def __init__(
        self, consumer: Any, starts: Mapping[Any, int], ends: Mapping[Any, int] | None
    ) -> None:
        self._consumer = consumer
        self._parts = list(starts)
        self._next = dict(starts)  # the next offset to be fetched
        self._ends = ends
        self._held = {part: _Held() for part in starts}
        self._fetched: list[Any] = []

    def _is_over(self, part: Any) -> bool:
        return self._ends is not None and self._next[part] >= self._ends[part]

    def wanted(self) -> list[Any]:
        """The partitions to be fetched: no change unless one is over, too far ahead, or missed."""
        open_ones = [part for part in self._parts if not self._is_over(part)]
        fetched = [part for part in self._fetched if part in open_ones]
        missed = [
            part for part in open_ones if not self._held[part].records and part not in fetched
        ]
        ahead = [part for part in fetched if len(self._held[part].records) > HELD]
        if missed or ahead or not fetched:
            return [part for part in open_ones if len(self._held[part].records) <= HELD]
        return fetched

    def poll(self, wanted: list[Any]) -> bool:
        """Fetch some records; False where none came."""
        if wanted != self._fetched:
            self._consumer.assign(wanted)
            for part in wanted:
                self._consumer.seek(part, self._next[part])
            self._fetched = wanted
        polled = self._consumer.poll(timeout_ms=POLL_MS)
        for part in wanted:
            records = polled.get(part)
            if records:
                self._hold(part, records)
            else:  # it may have stepped over what is no record, such as the end of a transaction
                position = self._consumer.position(part)
                self._next[part] = max(self._next[part], position or 0)
        return bool(polled)

    def _hold(self, part: Any, records: list[Any]) -> None:
        self._next[part] = records[-1].offset + 1
        if self._ends is not None and self._next[part] > self._ends[part]:
            end = self._ends[part]
            records = [record for record in records if record.offset < end]
        self._held[part].add(records)

    def ready(self) -> list[Any]:
        """The records that are next, as far as that can be told."""
        taken = [
            self._held[part].take(n) for part, n in zip(self._parts, self._safe(), strict=True)
        ]
        taken = [one for one in taken if one[0]]
        if len(taken) < 2:
            return taken[0][0] if taken else []
        return _by_time(taken)

    def _safe(self) -> list[int]:
        """How many records of each partition come before any that is not here yet."""
        held = [self._held[part] for part in self._parts]
        waiting = [] if self._ends is None or len(held) < 2 else [
            place for place, part in enumerate(self._parts) if not self._is_over(part)
        ]  # fmt: skip
        if not waiting:
            return [len(one.records) for one in held]
        if not all(held[place].records for place in waiting):
            return [0] * len(held)
        last, place = min((int(held[place].times[-1]), place) for place in waiting)
        return [
            int(np.searchsorted(one.times, last, "right" if k <= place else "left"))
            for k, one in enumerate(held)
        ]


def _by_time(taken: Sequence[tuple[list[Any], Any]]) -> list[Any]:
    records = [record for some, _ in taken for record in some]
    order = np.argsort(np.concatenate([times for _, times in taken]), kind="stable")
    return [records[one] for one in order.tolist()]
