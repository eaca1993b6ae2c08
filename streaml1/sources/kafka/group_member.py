"""A member of a consumer group: which partitions of a topic are ours, and their records."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from streaml1.sources.kafka.partition_merge import POLL_MS
from streaml1.sources.kafka.topic import ASK_SECONDS, Topic

__all__ = ["Member", "Partitions"]

logger = logging.getLogger("streaml1")

COMMIT_SECONDS = 5.0

CLOSE_SECONDS = 5.0


class Partitions(Protocol):
    """Who has to do with the partitions."""

    def given_up(self, partitions: list[int]) -> None:
        """These are to be another's on return. Called by a thread of kafka-python, in a poll."""

    def lost(self, partitions: list[int]) -> None:
        """These may be another's already. Called as `given_up` is."""


class Member:
    """A member of a group.

    Listeners of kafka-python are called by its own thread while `poll` waits, and what they raise
    comes out of `poll` as something else: `failed` keeps it. After any error of `poll` the member
    has to be closed, for the next poll would go on from another place.

    Parameters
    ----------
    topic, group
        What is read, and the group.
    partitions
        Who has to do with them.
    session
        Seconds after which the brokers give the partitions of a silent member to others.
    stopped
        Asked whether not to wait for a broker.
    """

    def __init__(
        self,
        topic: Topic,
        group: str,
        partitions: Partitions,
        session: float,
        stopped: Callable[[], bool],
    ) -> None:
        from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor

        self.topic, self._partitions = topic, partitions
        self.failed: BaseException | None = None
        self.is_closed = False
        self._new: list[int] = []
        self._offsets: dict[int, int] = {}
        self._committed = time.monotonic()
        self._stopped, self._thread = stopped, threading.current_thread()
        milliseconds = round(1000 * session)
        # None where we were stopped before any broker answered.
        self.consumer = topic.consumer(
            stopped,
            group,
            session_timeout_ms=milliseconds,
            heartbeat_interval_ms=min(3000, milliseconds // 4),
            partition_assignment_strategy=(CooperativeStickyAssignor(),),
        )
        if self.consumer is not None:
            self.consumer.subscribe([topic.name], listener=_listener(self))

    def poll(self) -> dict[int, list[Any]]:
        """Some records by partition, of partitions that have begun."""
        try:
            polled = self.consumer.poll(timeout_ms=POLL_MS)
        except Exception as error:
            if self.failed is not None:
                raise self.failed from None
            self.topic.require_same(self.consumer, ASK_SECONDS)  # which explains most of them
            raise self.topic.unreadable(error) from None
        self.topic.require_same(self.consumer)
        return {part.partition: records for part, records in polled.items()}

    def require_same(self) -> None:
        """Refuse to go on where what was polled lately may be of another topic of the same name.

        In a listener, whose thread is the one that hears of it, what was heard has to suffice.
        """
        if threading.current_thread() is self._thread:
            self.topic.ask_whether_same(self.consumer, self._stopped)
        else:
            self.topic.require_same(self.consumer)

    def new(self) -> list[int]:
        """The partitions that have become ours since the last call: `begin` each."""
        new, self._new = self._new, []
        return new

    def begin(self, partition: int, offset: int) -> None:
        """Have the records from an offset on come."""
        [part] = self.topic.parts({partition: offset})
        self.consumer.seek(part, offset)
        self.consumer.resume(part)

    def left(self, partition: int, position: dict[int, tuple[int, int]]) -> int:
        """How many offsets after a position there were when records last came."""
        [part] = self.topic.parts({partition: 0})
        offset, _ = position[partition]
        try:
            end = self.consumer.highwater(part)
        except Exception:  # not ours any more
            end = None
        return 0 if end is None else max(0, end - offset)

    def done(self, partition: int, offset: int, now: bool) -> None:
        """Tell the brokers now and then how far we are, for tools to see; nothing reads it."""
        self._offsets[partition] = offset
        if not now and time.monotonic() - self._committed < COMMIT_SECONDS:
            return
        from kafka.structs import OffsetAndMetadata

        self._committed = time.monotonic()
        offsets, self._offsets = self._offsets, {}
        parts = self.topic.parts(offsets)
        try:
            self.consumer.commit_async(
                {part: OffsetAndMetadata(offset, "", -1) for part, offset in parts.items()}
            )
        except Exception as error:
            logger.info("offsets of %s were not committed: %s", self.topic.name, error)

    def close(self) -> None:
        """Leave the group. What has not been given up by then is not saved."""
        if not self.is_closed and self.consumer is not None:
            self.is_closed = True
            self.consumer.close(autocommit=False, timeout_ms=round(1000 * CLOSE_SECONDS))

    # Heard by the thread of kafka-python

    def _assigned(self, partitions: list[int]) -> None:
        """Nothing is fetched until a partition begins: by `begin`, in the thread that polls."""
        for part in self.topic.parts(dict.fromkeys(partitions, 0)):
            self.consumer.seek(part, 0)  # or the place would be looked up, and is not there
            self.consumer.pause(part)
        self._new += partitions

    def _taken(self, partitions: list[int], heard: Callable[[list[int]], None]) -> None:
        self._new = [one for one in self._new if one not in partitions]
        for one in partitions:
            self._offsets.pop(one, None)
        if not self.is_closed:
            heard(partitions)


def _listener(member: Member) -> Any:
    from kafka import ConsumerRebalanceListener

    def heard(call: Callable[..., None], parts: Any, *more: Any) -> None:
        try:
            call(sorted(part.partition for part in parts), *more)
        except BaseException as error:
            member.failed = member.failed or error
            raise

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            heard(member._assigned, assigned)

        def on_partitions_revoked(self, revoked: Any) -> None:
            heard(member._taken, revoked, member._partitions.given_up)

        def on_partitions_lost(self, lost: Any) -> None:
            heard(member._taken, lost, member._partitions.lost)

    return Listener()
