"""A topic of Kafka and its brokers: connecting, offsets, and what goes wrong."""

from __future__ import annotations

import copy
import logging
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from streaml1.streams.partitions import POLL_MS
from streaml1.streams.source import SourceError, shown

__all__ = ["Topic"]

logger = logging.getLogger("streaml1")

POLLED = 1000
"""The most records that one poll hands over."""

CONNECT_SECONDS = 5.0

LISTED = 8
"""How many topics are named where the one that is asked for is not there."""


class Topic:
    """A topic by its URL, ``kafka://host:port/topic``.

    Raises
    ------
    SourceError
        One sentence, where it is none.

    """

    def __init__(self, url: str) -> None:
        rest, _, query = url.removeprefix("kafka:").removeprefix("//").partition("?")
        hosts, _, topic = rest.partition("/")
        brokers = [host if ":" in host else f"{host}:9092" for host in hosts.split(",") if host]
        right = all(broker.rpartition(":")[2].isdecimal() for broker in brokers)
        if not (url.startswith("kafka://") and brokers and right and topic and "/" not in topic):
            raise SourceError(f"{url} is no topic: write kafka://host:port/topic")
        self.url, self.brokers, self.name = url, brokers, topic
        self.settings = _settings(url, query)

    def beside(self, name: str) -> Topic:
        """Another topic of the same brokers, reached in the same way."""
        other = copy.copy(self)
        hosts, _, query = self.url.partition("?")
        other.url = hosts.removesuffix(self.name) + name + ("?" + query if query else "")
        other.name = name
        return other

    def parts(self, offsets: dict[int, int]) -> dict[Any, int]:
        """Offsets by partition as kafka-python names partitions."""
        from kafka import TopicPartition

        return {TopicPartition(self.name, one): offset for one, offset in offsets.items()}

    def consumer(
        self, stopped: Callable[[], bool], group: str | None = None, **settings: Any
    ) -> Any:
        """A consumer of kafka-python that knows the brokers; None where `stopped` says so before.

        It joins no group, commits nothing by itself, and steps over no offset that is gone. `group`
        is the name under which it may be told to commit, or to join.
        """
        import kafka

        if not self._answers(stopped):
            return None
        try:
            consumer = kafka.KafkaConsumer(
                **self._common(),
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="none",
                allow_auto_create_topics=False,
                isolation_level="read_committed",
                max_poll_records=POLLED,
                **settings,
            )
            consumer.bootstrap(timeout_ms=round(1000 * CONNECT_SECONDS))
        except Exception as error:
            raise self.unreadable(error) from None
        return consumer

    def identity(self) -> dict[str, Any]:
        """What tells the topic from another of its name: of the mock cluster not all is known."""
        from kafka.admin import KafkaAdminClient

        self._answers(lambda: False)
        try:
            with closing(KafkaAdminClient(**self._common())) as admin:
                cluster = admin.describe_cluster()["cluster_id"]
                [about] = admin.describe_topics([self.name])
        except Exception as error:
            raise self.unreadable(error) from None
        return {"cluster": cluster, "topic": self.name, "topic id": about.get("topic_id")}

    def commit(self, group: str, offsets: dict[int, int], stopped: Callable[[], bool]) -> None:
        """Tell the brokers how far a reader is, for others to see; errors are not worth a word."""
        from kafka import TopicPartition
        from kafka.structs import OffsetAndMetadata

        try:
            with closing(self.consumer(stopped, group)) as consumer:
                told = {TopicPartition(self.name, one): OffsetAndMetadata(offset, "", -1)
                        for one, offset in offsets.items()}  # fmt: skip
                consumer.commit(told, timeout_ms=round(1000 * CONNECT_SECONDS))
        except Exception as error:
            logger.info("the offsets of %s were not committed: %s", group, error)

    def bounds(
        self, consumer: Any, start: str | int, partitions: Sequence[int] | None, at: dict[int, int]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """The first offset to be read of each partition, and the one after the last now.

        Parameters
        ----------
        consumer
            Of this topic.
        start
            ``earliest``, ``latest`` or milliseconds since 1970.
        partitions
            Those wanted; None: all.
        at
            Where some go on instead; those that it leaves out are new then, and read from their
            start.

        """
        try:
            wanted = self._wanted(consumer, partitions)
            if not at.keys() <= set(wanted):
                listed = ", ".join(map(str, sorted(at)))
                raise SourceError(
                    f"{self.url}: the checkpoint has the partitions {listed}: read all of them"
                )
            return self._bounds(consumer, "earliest" if at else start, wanted, at)
        except SourceError:
            raise
        except Exception as error:
            raise self.unreadable(error) from None

    def unreadable(self, error: Exception) -> SourceError:
        """What an error of kafka-python says, in one sentence."""
        from kafka.errors import KafkaTimeoutError, OffsetOutOfRangeError

        if isinstance(error, OffsetOutOfRangeError) and isinstance(error.args[0], dict):
            ((tp, offset), *_) = error.args[0].items()
            return SourceError(
                f"{tp.topic}/{tp.partition}@{offset} is gone: the topic keeps its records no "
                "longer, so start at another place"
            )
        if isinstance(error, KafkaTimeoutError):
            return self._silent()
        reason = " ".join(str(error).split()) or type(error).__name__
        return SourceError(f"{self.url} cannot be read on: {shown(reason)[1:-1]}")

    def _common(self) -> dict[str, Any]:
        timeout = round(1000 * CONNECT_SECONDS)
        common = {"bootstrap_servers": self.brokers, "client_id": "streaml1"}
        return {**common, "bootstrap_timeout_ms": timeout, **self.settings}

    def _answers(self, stopped: Callable[[], bool]) -> bool:
        """Wait for a broker: a client of kafka-python that finds none leaves sockets open."""
        limit = time.monotonic() + CONNECT_SECONDS
        while not any(map(_is_listening, self.brokers)):
            if stopped():
                return False
            if time.monotonic() > limit:
                raise self._silent()
            time.sleep(POLL_MS / 1000)
        return True

    def _silent(self) -> SourceError:
        brokers = ", ".join(self.brokers)
        return SourceError(f"{self.url}: no broker answers at {brokers}: is one running?")

    def _wanted(self, consumer: Any, partitions: Sequence[int] | None) -> list[int]:
        there = consumer.partitions_for_topic(self.name)
        if not there:
            topics = sorted(topic for topic in consumer.topics() if not topic.startswith("__"))
            more = [f"and {len(topics) - LISTED} more"] if len(topics) > LISTED else []
            listed = ", ".join([*topics[:LISTED], *more]) or "none"
            raise SourceError(f"{self.url}: there is no topic {self.name}; there are: {listed}")
        wanted = sorted(there if partitions is None else set(partitions))
        for one in wanted:
            if one not in there:
                listed = ", ".join(map(str, sorted(there)))
                raise SourceError(f"{self.url} has no partition {one}; it has {listed}")
        return wanted

    def _bounds(
        self, consumer: Any, start: str | int, wanted: list[int], at: dict[int, int]
    ) -> tuple[dict[int, int], dict[int, int]]:
        from kafka import TopicPartition

        parts = [TopicPartition(self.name, one) for one in wanted]
        ends = consumer.end_offsets(parts)
        if start == "latest":
            starts = ends
        elif start == "earliest":
            starts = consumer.beginning_offsets(parts)
        else:
            found = consumer.offsets_for_times(dict.fromkeys(parts, start))
            starts = {one: ends[one] if there is None else there.offset
                      for one, there in found.items()}  # fmt: skip
        first = {one.partition: at.get(one.partition, starts[one]) for one in parts}
        return first, {one.partition: ends[one] for one in parts}


def _is_listening(broker: str) -> bool:
    host, _, port = broker.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=1.0):
            return True
    except OSError:
        return False


def _settings(url: str, query: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for one in filter(None, query.split("&")):
        name, _, value = one.partition("=")
        numbers = value.split(".")
        if name != "api_version" or not all(number.isdecimal() for number in numbers):
            raise SourceError(f"{url}: {one!r} is no setting; there is one, as api_version=2.3")
        settings[name] = tuple(map(int, numbers))
    return settings
