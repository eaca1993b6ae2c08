"""Membership in a consumer group: assigned partitions and their records."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Protocol

from streaml1.sources.kafka.broker_connection import StopCheck
from streaml1.sources.kafka.partition_merge import POLL_MS
from streaml1.sources.kafka.records import Position
from streaml1.sources.kafka.topic import REFRESH_SECONDS, Offsets, Topic

if TYPE_CHECKING:
    from kafka import ConsumerRebalanceListener, TopicPartition
    from kafka.consumer.fetcher import ConsumerRecord

__all__ = ["GroupMember", "RebalanceHandler"]

logger = logging.getLogger("streaml1")

COMMIT_SECONDS = 5.0
"""Interval between two commits."""

CLOSE_SECONDS = 5.0

JOIN_MS = 500
"""Timeout of a poll while the member joins the group."""


class RebalanceHandler(Protocol):
    """Handler of partitions that the group takes away.

    kafka-python calls it from its own thread, while `GroupMember.poll` or `close` waits.
    """

    def on_revoked(self, partitions: list[int]) -> None:
        """Save these partitions: other members may own them as soon as this returns."""

    def on_lost(self, partitions: list[int]) -> None:
        """Drop these partitions without saving: other members may own them already."""


class GroupMember:
    """A member of a consumer group.

    If a handler raises, kafka-python raises a `KafkaError` from `poll`, and `poll` raises the
    handler's own exception instead. After any error of `poll` the member must be closed: another
    poll would return records from a default position.

    Parameters
    ----------
    topic
        Topic to read.
    group
        Name of the group.
    handler
        Handler of partitions that are taken away.
    session_seconds
        Seconds without a heartbeat after which the brokers give the partitions to other members.
    stopped
        Checked while waiting for a broker.
    protocol
        Name of the protocol by which the members share the partitions. Brokers reject a member
        with another one than the members before it.

    Attributes
    ----------
    consumer : KafkaConsumer or None
        None if the run was stopped before a broker answered.
    failure : BaseException or None
        First exception of a rebalance handler.
    """

    def __init__(
        self,
        topic: Topic,
        group: str,
        handler: RebalanceHandler,
        session_seconds: float,
        stopped: StopCheck,
        protocol: str = "cooperative-sticky",
    ) -> None:
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

        assignor = CooperativeStickyAssignor()
        assignor.name = protocol
        self.topic, self._handler = topic, handler
        self.failure: BaseException | None = None
        self.is_closed = False
        self._new_partitions: list[int] = []
        self._uncommitted: Offsets = {}
        self._committed_at = time.monotonic()
        self._stopped, self._thread = stopped, threading.current_thread()
        milliseconds = round(1000 * session_seconds)
        self.consumer: Any = topic.consumer(
            stopped,
            group,
            session_timeout_ms=milliseconds,
            heartbeat_interval_ms=min(3000, milliseconds // 4),
            partition_assignment_strategy=(assignor,),
        )
        if self.consumer is not None:
            self.consumer.subscribe([topic.name], listener=_rebalance_listener(self))

    def poll(self, timeout_ms: int = POLL_MS) -> dict[int, list[ConsumerRecord]]:
        """Return some records by partition, of partitions that were started."""
        try:
            polled = self._poll(timeout_ms)
        except Exception as error:
            if self.failure is not None:
                raise self.failure from None
            # A deleted topic explains most errors.
            self.topic.require_same(self.consumer, REFRESH_SECONDS)
            raise self.topic.read_error(error) from None
        if polled:
            self.topic.note_records()
        self.topic.require_same(self.consumer)
        return {tp.partition: records for tp, records in polled.items()}

    def _poll(self, timeout_ms: int) -> dict[TopicPartition, list[ConsumerRecord]]:
        # kafka-python 3.0 parks fetched records of a paused partition. After `resume` it takes them
        # up again only where this is None, but it leaves a drained object there, so that the
        # partition would not be read any more.
        fetcher = self.consumer._fetcher
        if not fetcher._next_partition_records:
            fetcher._next_partition_records = None
        polled: dict[TopicPartition, list[ConsumerRecord]] = self.consumer.poll(timeout_ms)
        # kafka-python 3.0 drops a join that outlasts a poll. If it ends before the next poll, it is
        # repeated, without end if all polls are short. If a change of the metadata has caused it,
        # it is forgotten: the member would have neither partitions nor heartbeats.
        coordinator = self.consumer._coordinator
        if coordinator.rejoining:
            coordinator.request_rejoin()
            polled = polled or self.consumer.poll(JOIN_MS)
        return polled

    def require_same(self) -> None:
        """Raise `Lost` if polled records may be of a recreated topic of the same name.

        In a rebalance handler this uses the metadata that the consumer has: the handler's thread is
        the one that would receive newer metadata.
        """
        if threading.current_thread() is self._thread:
            self.topic.refresh_and_require_same(self.consumer, self._stopped)
        else:
            self.topic.require_same(self.consumer)

    def take_new_partitions(self) -> list[int]:
        """Return the partitions assigned since the last call; `start_partition` each."""
        new, self._new_partitions = self._new_partitions, []
        return new

    def start_partition(self, partition: int, offset: int) -> None:
        """Start fetching a partition at an offset."""
        [tp] = self.topic.by_topic_partition({partition: offset})
        self.consumer.seek(tp, offset)
        self.consumer.resume(tp)

    def set_paused(self, partition: int, paused: bool) -> None:
        """Stop or resume fetching a partition."""
        [tp] = self.topic.by_topic_partition({partition: 0})
        if paused != (tp in self.consumer.paused()):
            (self.consumer.pause if paused else self.consumer.resume)(tp)

    def lag(self, partition: int, position: Position) -> int:
        """Return the number of offsets after a position, as of the last fetch."""
        [tp] = self.topic.by_topic_partition({partition: 0})
        offset, _ = position[partition]
        try:
            end = self.consumer.highwater(tp)
        except Exception:  # the partition is no longer assigned
            end = None
        return 0 if end is None else max(0, end - offset)

    def commit_sometimes(self, partition: int, offset: int, now: bool) -> None:
        """Commit an offset, at most every `COMMIT_SECONDS` unless `now`; for monitoring only."""
        self._uncommitted[partition] = offset
        if not now and time.monotonic() - self._committed_at < COMMIT_SECONDS:
            return
        from kafka.structs import OffsetAndMetadata

        self._committed_at = time.monotonic()
        offsets, self._uncommitted = self._uncommitted, {}
        try:
            self.consumer.commit_async(
                {
                    tp: OffsetAndMetadata(offset, "", -1)
                    for tp, offset in self.topic.by_topic_partition(offsets).items()
                }
            )
        except Exception as error:
            logger.info("committing offsets of %s failed: %s", self.topic.name, error)

    def close(self) -> None:
        """Leave the group. Handlers are not called: save before."""
        if not self.is_closed and self.consumer is not None:
            self.is_closed = True
            self.consumer.close(autocommit=False, timeout_ms=round(1000 * CLOSE_SECONDS))

    # Called from kafka-python's thread

    def _on_assigned(self, partitions: list[int]) -> None:
        """Pause new partitions, until `start_partition` in the polling thread."""
        for tp in self.topic.by_topic_partition(dict.fromkeys(partitions, 0)):
            # Without a seek, kafka-python would look up a committed offset and fail: none is used.
            self.consumer.seek(tp, 0)
            self.consumer.pause(tp)
        self._new_partitions += partitions

    def _on_taken(self, partitions: list[int], handle: Callable[[list[int]], None]) -> None:
        self._new_partitions = [p for p in self._new_partitions if p not in partitions]
        for partition in partitions:
            self._uncommitted.pop(partition, None)
        if not self.is_closed:
            handle(partitions)


def _rebalance_listener(member: GroupMember) -> ConsumerRebalanceListener:
    from kafka import ConsumerRebalanceListener

    def call(method: Callable[..., None], tps: Collection[TopicPartition], *args: Any) -> None:
        try:
            method(sorted(tp.partition for tp in tps), *args)
        except BaseException as error:
            member.failure = member.failure or error
            raise

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Collection[TopicPartition]) -> None:
            call(member._on_assigned, assigned)

        def on_partitions_revoked(self, revoked: Collection[TopicPartition]) -> None:
            call(member._on_taken, revoked, member._handler.on_revoked)

        # The default calls on_partitions_revoked, which would save over the new owner.
        def on_partitions_lost(self, lost: Collection[TopicPartition]) -> None:
            call(member._on_taken, lost, member._handler.on_lost)

    return Listener()
