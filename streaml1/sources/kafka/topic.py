"""A Kafka topic: its consumers, its offsets, and whether it is still the same."""

from __future__ import annotations

import copy
import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from streaml1.core.named_options import named_option
from streaml1.sources.kafka.broker_connection import (
    CONNECT_SECONDS,
    BrokerConnection,
    StopCheck,
)
from streaml1.sources.kafka.confluent.consumer import ConfluentConsumer
from streaml1.sources.kafka.partition_merge import POLL_MS
from streaml1.sources.kafka.security import (
    CONFLUENT,
    SecurityOptions,
    parse_brokers,
    resolve_security,
)
from streaml1.sources.kafka.topic_ids import is_missing, known_topic_id, refresh_metadata
from streaml1.sources.source import Lost, SourceError, shown

if TYPE_CHECKING:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import KafkaAdminClient

__all__ = ["Offsets", "Topic", "is_topic_name", "require_group_name"]

logger = logging.getLogger("streaml1")

Offsets = dict[int, int]
"""An offset for each partition."""


MAX_POLL_RECORDS = 1000


STOPPED_SECONDS = 0.5
"""Timeout of requests after the run has been stopped."""


METADATA_SECONDS = 10.0
"""Interval at which a consumer refreshes its metadata in the background."""

FETCH_WAIT_SECONDS = 0.1
"""Longest time for which a broker may hold back an empty fetch response. The consumer's next
request waits behind it, such as the metadata request before each checkpoint."""

REFRESH_SECONDS = 1.0
"""Timeout of a metadata refresh, and the shortest interval between two."""

MISSING_SECONDS = 10.0
"""A topic counts as deleted once all metadata have been without it for this long."""


MAX_LISTED_TOPICS = 8
"""Number of existing topics in the error about a missing one."""

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Return whether a topic can have a name.

    Examples
    --------
    >>> from streaml1.sources.kafka.topic import is_topic_name
    >>> is_topic_name("clicks.v2"), is_topic_name("clicks-*"), is_topic_name("clicks,views")
    (True, False, False)
    """
    return _NAME.fullmatch(name) is not None and name not in (".", "..")


def require_group_name(group: str) -> str:
    """Return the name of a consumer group; reject an empty one, with which brokers assign nothing.

    Examples
    --------
    >>> from streaml1.sources.kafka.topic import require_group_name
    >>> require_group_name("clicks")
    'clicks'
    """
    if not group:
        raise SourceError(f"{named_option('group')} must not be empty; name a consumer group")
    return group


class Topic(BrokerConnection):
    """A topic, given as ``kafka://host:port/topic``.

    Parameters
    ----------
    url
        The URL. Separate several brokers with commas. A URL without brokers uses those of
        `security`.
    security
        How to connect, see `resolve_security`.

    Raises
    ------
    SourceError
        If the URL or a security setting is invalid. The message contains no password.
    """

    def __init__(self, url: str, security: SecurityOptions = None) -> None:
        if "@" in url:
            raise SourceError(
                "a Kafka URL must not contain a user or password; use "
                f"{named_option('kafka.user')} and set STREAML1_KAFKA_PASSWORD"
            )
        address, _, query = url.partition("?")
        hosts, _, topic = address.removeprefix("kafka:").removeprefix("//").partition("/")
        resolved = resolve_security(security)
        brokers = parse_brokers(hosts) or ([] if hosts else list(resolved.brokers))
        if not (url.startswith("kafka://") and brokers and topic and "/" not in topic):
            raise SourceError(f"{address} is not a topic URL; use kafka://host:port/topic")
        super().__init__(url, brokers, resolved, _parse_query(address, query))
        self.name = topic
        self._topic_id: str | None = None  # as first reported
        self._missing_since: float | None = None
        self._is_verified = False  # that the records read so far are of this topic

    def sibling(self, name: str) -> Topic:
        """Return another topic of the same brokers, with the same security."""
        topic = copy.copy(self)
        hosts, _, query = self.url.partition("?")
        topic.url = hosts.removesuffix(self.name) + name + ("?" + query if query else "")
        topic.name, topic._topic_id, topic._missing_since = name, None, None
        topic._is_verified = False
        return topic

    def by_topic_partition(self, offsets: Offsets) -> dict[TopicPartition, int]:
        """Return offsets with kafka-python's `TopicPartition` as keys."""
        from kafka import TopicPartition

        return {TopicPartition(self.name, p): offset for p, offset in offsets.items()}

    def consumer(
        self, stopped: StopCheck, group: str | None = None, **settings: Any
    ) -> KafkaConsumer | None:
        """Connect a consumer; return None if `stopped` becomes true first.

        The consumer joins no group, commits nothing by itself, and raises if an offset no longer
        exists. With a group it is one of kafka-python, whichever client the options name.

        Parameters
        ----------
        stopped
            Checked while waiting for a broker.
        group
            Consumer group for commits, and for `subscribe`.
        **settings
            More settings of `KafkaConsumer`.
        """
        import kafka

        if not self.wait_until_reachable(stopped):
            return None
        try:
            consumer = kafka.KafkaConsumer(
                **self.client_options(),
                group_id=group,
                enable_auto_commit=False,
                auto_offset_reset="none",
                metadata_max_age_ms=round(1000 * METADATA_SECONDS),
                allow_auto_create_topics=False,
                isolation_level="read_committed",
                fetch_max_wait_ms=round(1000 * FETCH_WAIT_SECONDS),
                max_poll_records=MAX_POLL_RECORDS,
                **settings,
            )
            consumer.bootstrap(timeout_ms=round(1000 * CONNECT_SECONDS))
        except Exception as error:
            raise self.read_error(error) from None
        if self.security.client == CONFLUENT and group is None:
            return ConfluentConsumer(
                consumer, self.librdkafka_options(), MAX_POLL_RECORDS, METADATA_SECONDS,
                FETCH_WAIT_SECONDS,
            )  # fmt: skip
        return consumer

    def identity(self, stopped: StopCheck) -> dict[str, Any]:
        """Return cluster id, name and topic id; librdkafka's mock cluster has no ids."""
        from kafka.admin import KafkaAdminClient

        if not self.wait_until_reachable(stopped):
            raise self._no_answer_error()
        try:
            with closing(KafkaAdminClient(**self.client_options())) as admin:
                cluster = admin.describe_cluster()["cluster_id"]
                self._topic_id = self._describe(admin)
        except Exception as error:
            raise self.read_error(error) from None
        return {"cluster": cluster, "topic": self.name, "topic id": self._topic_id}

    def _describe(self, admin: KafkaAdminClient) -> str | None:
        """Return the topic id. A new topic may be unknown to a broker for a moment."""
        from kafka import errors

        deadline = time.monotonic() + REFRESH_SECONDS
        while True:
            [description] = admin.describe_topics([self.name])
            topic_id: str | None = description.get("topic_id")
            code = description.get("error_code", 0)
            if topic_id is not None or not code:
                return topic_id
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_MS / 1000)
        if code == errors.UnknownTopicOrPartitionError.errno:
            raise self._missing_error(admin.list_topics())
        raise errors.for_code(code)(description)

    def _missing_error(self, existing: Iterable[str]) -> SourceError:
        topics = sorted(topic for topic in existing if not topic.startswith("__"))
        n_more = len(topics) - MAX_LISTED_TOPICS
        more = [f"and {n_more} more"] if n_more > 0 else []
        listed = ", ".join([*topics[:MAX_LISTED_TOPICS], *more]) or "none"
        reason = f"topic {self.name} does not exist"
        if not is_topic_name(self.name):
            reason = f"{shown(self.name)} is not the name of one topic; read one, without patterns"
        return SourceError(f"{self.url}: {reason}; existing topics: {listed}")

    # Deleted and recreated topics

    def require_same(
        self,
        client: KafkaConsumer | KafkaProducer,
        timeout: float = 0.0,
        must_exist: bool = False,
    ) -> None:
        """Raise if the topic was deleted, or deleted and recreated.

        Parameters
        ----------
        client
            A client of the topic.
        timeout
            Seconds that a metadata refresh may take; 0 uses the metadata that the client has.
        must_exist
            Raise at once if the topic is missing, instead of after `MISSING_SECONDS`.

        Raises
        ------
        Lost
            If the topic is not the one that was read so far.
        """
        if timeout:
            refresh_metadata(client, self.name, timeout)
        topic_id = known_topic_id(client, self.name)
        self._topic_id = self._topic_id or topic_id
        if topic_id is not None and topic_id != self._topic_id:
            raise Lost(
                f"{self.url} was deleted and recreated: its id is {topic_id}, it was "
                f"{self._topic_id}; {self.remedy}"
            )
        if self._topic_id is None or not is_missing(client, self.name):
            self._missing_since = None
            return
        now = time.monotonic()
        self._missing_since = self._missing_since or now
        if must_exist or now - self._missing_since >= MISSING_SECONDS:
            raise Lost(f"{self.url} was deleted; create it and {self.remedy}")

    def refresh_and_require_same(
        self, client: KafkaConsumer | KafkaProducer, stopped: StopCheck
    ) -> None:
        """Call `require_same` with metadata newer than all records read, if a broker answers."""
        if not self._is_verified:
            timeout = STOPPED_SECONDS if stopped() else REFRESH_SECONDS
            self._is_verified = refresh_metadata(client, self.name, timeout)
        self.require_same(client)

    def note_records(self) -> None:
        """Note that records were read; older metadata do not cover them."""
        self._is_verified = False

    # Offsets

    def commit(self, group: str, offsets: Offsets, stopped: StopCheck) -> None:
        """Commit offsets, for monitoring tools only: errors are logged and ignored."""
        from kafka import TopicPartition
        from kafka.structs import OffsetAndMetadata

        timeout = STOPPED_SECONDS if stopped() else CONNECT_SECONDS
        deadline = time.monotonic() + timeout
        try:
            # None after the deadline: closing it raises, which is logged as every error.
            consumer: Any = self.consumer(lambda: time.monotonic() > deadline, group)
            with closing(consumer):
                committed = {TopicPartition(self.name, p): OffsetAndMetadata(offset, "", -1)
                             for p, offset in offsets.items()}  # fmt: skip
                consumer.commit(committed, timeout_ms=round(1000 * timeout))
        except Exception as error:
            logger.info("committing the offsets of group %s failed: %s", group, error)

    def bounds(
        self,
        consumer: KafkaConsumer,
        start: str | int,
        partitions: Sequence[int] | None,
        resume_at: Offsets,
    ) -> tuple[Offsets, Offsets]:
        """Return for each partition the first offset to read, and the current end offset.

        Parameters
        ----------
        consumer
            A consumer of this topic.
        start
            ``earliest``, ``latest`` or milliseconds since 1970.
        partitions
            Partitions to read; None reads all.
        resume_at
            Offsets of a checkpoint. If there are any, partitions without one are new, and read
            from their start.

        Raises
        ------
        SourceError
            If a partition does not exist, or the checkpoint has one that is not to be read.
        Lost
            If an offset of the checkpoint is beyond the end of its partition.
        """
        try:
            selected = self._select_partitions(consumer, partitions)
            self.require_same(consumer)
            if not resume_at.keys() <= set(selected):
                listed = ", ".join(map(str, sorted(resume_at)))
                raise SourceError(
                    f"{self.url}: the checkpoint has partitions {listed}; read all of them"
                )
            return self._bounds(consumer, "earliest" if resume_at else start, selected, resume_at)
        except SourceError:
            raise
        except Exception as error:
            raise self.read_error(error) from None

    def _select_partitions(
        self, consumer: KafkaConsumer, partitions: Sequence[int] | None
    ) -> list[int]:
        existing = consumer.partitions_for_topic(self.name)
        if existing and not existing >= set(partitions or ()):
            # The leader of a group assigns added partitions that other members do not know yet.
            refresh_metadata(consumer, self.name, CONNECT_SECONDS)
            existing = consumer.partitions_for_topic(self.name)
        if not existing:
            raise self._missing_error(consumer.topics())
        selected = sorted(existing if partitions is None else set(partitions))
        for partition in selected:
            if partition not in existing:
                listed = ", ".join(map(str, sorted(existing)))
                raise SourceError(f"{self.url} has no partition {partition}; it has {listed}")
        return selected

    def _bounds(
        self, consumer: KafkaConsumer, start: str | int, selected: list[int], resume_at: Offsets
    ) -> tuple[Offsets, Offsets]:
        from kafka import TopicPartition

        topic_partitions = [TopicPartition(self.name, p) for p in selected]
        ends = consumer.end_offsets(topic_partitions)
        for tp in topic_partitions:
            if resume_at.get(tp.partition, 0) > ends[tp]:
                raise Lost(
                    f"{self.url}: the checkpoint is at offset {resume_at[tp.partition]} of "
                    f"partition {tp.partition}, beyond the end of the log at {ends[tp]}: the topic "
                    f"has lost records, and new ones take their offsets; {self.remedy}"
                )
        if start == "latest":
            starts = ends
        elif start == "earliest":
            starts = consumer.beginning_offsets(topic_partitions)
        else:
            found = consumer.offsets_for_times(dict.fromkeys(topic_partitions, start))
            starts = {tp: ends[tp] if first is None else first.offset
                      for tp, first in found.items()}  # fmt: skip
        return (
            {tp.partition: resume_at.get(tp.partition, starts[tp]) for tp in topic_partitions},
            {tp.partition: ends[tp] for tp in topic_partitions},
        )


def _parse_query(address: str, query: str) -> Mapping[str, Any]:
    settings: dict[str, Any] = {}
    for item in filter(None, query.split("&")):
        name, equals, value = item.partition("=")
        numbers = value.split(".")
        if name != "api_version" or not all(number.isdecimal() for number in numbers):
            # The value, or what is not a valid name, may be a password: the message omits both.
            is_name = re.fullmatch(r"[a-z]+([._][a-z]+)*=", f"{name}{equals}")
            raise SourceError(
                f"{address}: unknown setting {name if is_name else '...'}=...; the only one is "
                "api_version, as in api_version=2.3"
            )
        settings[name] = tuple(map(int, numbers))
    return settings
