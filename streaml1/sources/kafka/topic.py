"""A topic of Kafka and its brokers: connecting, offsets, and what goes wrong."""

from __future__ import annotations

import copy
import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

from streaml1.sources.kafka.broker_diagnostics import Silent, has_address, probe
from streaml1.sources.kafka.partition_merge import POLL_MS
from streaml1.sources.kafka.security import brokers_of, security_of
from streaml1.sources.kafka.topic_ids import ask, id_of, is_missing
from streaml1.sources.source import Lost, SourceError, Unavailable, shown

__all__ = ["Topic", "reason_of"]

logger = logging.getLogger("streaml1")

POLLED = 1000
"""The most records that one poll hands over."""

CONNECT_SECONDS = 5.0

LAST_SECONDS = 0.5
"""How long a last word to the brokers may take."""

PROBE_SECONDS = 2.0
"""How long a broker may take to say its first word."""

METADATA_SECONDS = 10.0
"""How often a consumer asks, aside, whether the topic is still the same."""

FETCH_SECONDS = 0.1
"""How long a broker may hold back an answer that has no records: it answers what else a consumer
asks after that, and whether the topic is the same is asked before each checkpoint."""

ASK_SECONDS = 1.0
"""How long a broker may take to tell whether a topic is the same; none is asked more often."""

MISSED_SECONDS = 10.0
"""So long every answer has to be that a topic is not there, for that to be believed."""

LISTED = 8
"""How many topics are named where the one that is asked for is not there."""


class Topic:
    """A topic by its URL, ``kafka://host:port/topic``.

    Parameters
    ----------
    url
        Several brokers have commas between; those of `security` are taken where it names none.
    security
        How to come in, as `security_of` takes it.

    Raises
    ------
    SourceError
        One sentence, where it is none. It repeats no password.

    """

    def __init__(self, url: str, security: Any = None) -> None:
        if "@" in url:
            raise SourceError(
                "a URL of Kafka holds no user and no password: say --kafka-user, and set "
                "STREAML1_KAFKA_PASSWORD"
            )
        address, _, query = url.partition("?")
        hosts, _, topic = address.removeprefix("kafka:").removeprefix("//").partition("/")
        self.security = security_of(security)
        brokers = brokers_of(hosts) or ([] if hosts else list(self.security.brokers))
        if not (url.startswith("kafka://") and brokers and topic and "/" not in topic):
            raise SourceError(f"{address} is no topic: write kafka://host:port/topic")
        self.url, self.brokers, self.name = url, brokers, topic
        self.settings = _settings(address, query)
        self._up = brokers  # those that answered when last asked
        self._id: str | None = None  # the topic's, as it was first heard
        self._missed: float | None = None  # since when it is not there
        self._asked = 0.0  # when a broker last told that it is the same

    def beside(self, name: str) -> Topic:
        """Another topic of the same brokers, reached in the same way."""
        other = copy.copy(self)
        hosts, _, query = self.url.partition("?")
        other.url = hosts.removesuffix(self.name) + name + ("?" + query if query else "")
        other.name, other._id, other._missed, other._asked = name, None, None, 0.0
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
                metadata_max_age_ms=round(1000 * METADATA_SECONDS),
                allow_auto_create_topics=False,
                isolation_level="read_committed",
                fetch_max_wait_ms=round(1000 * FETCH_SECONDS),
                max_poll_records=POLLED,
                **settings,
            )
            consumer.bootstrap(timeout_ms=round(1000 * CONNECT_SECONDS))
        except Exception as error:
            raise self.unreadable(error) from None
        return consumer

    def identity(self, stopped: Callable[[], bool]) -> dict[str, Any]:
        """What tells the topic from another of its name: of the mock cluster not all is known."""
        from kafka.admin import KafkaAdminClient

        if not self._answers(stopped):
            raise self._silent()
        try:
            with closing(KafkaAdminClient(**self._common())) as admin:
                cluster = admin.describe_cluster()["cluster_id"]
                [about] = admin.describe_topics([self.name])
        except Exception as error:
            raise self.unreadable(error) from None
        self._id = about.get("topic_id")
        return {"cluster": cluster, "topic": self.name, "topic id": self._id}

    def require_same(self, client: Any, seconds: float = 0.0, there: bool = False) -> None:
        """Refuse to go on with another topic of the name, made after this one was deleted.

        Parameters
        ----------
        client
            A consumer or producer of kafka-python.
        seconds
            How long a broker may take to tell; 0: what the client has heard suffices.
        there
            Whether to refuse at once where there is no topic of the name, and not after a while.

        Raises
        ------
        Lost
            One sentence.

        """
        if seconds:
            ask(client, self.name, seconds)
        told = id_of(client, self.name)
        self._id = self._id or told
        if told is not None and told != self._id:
            raise Lost(
                f"{self.url} was deleted and made anew: its id is {told}, it was {self._id}; begin "
                "again, and with another folder where checkpoints are kept"
            )
        if self._id is None or not is_missing(client, self.name):
            self._missed = None
            return
        now = time.monotonic()
        self._missed = self._missed or now
        if there or now - self._missed >= MISSED_SECONDS:
            raise Lost(
                f"{self.url} was deleted: make it again, and begin again, with another folder "
                "where checkpoints are kept"
            )

    def ask_whether_same(self, client: Any, stopped: Callable[[], bool]) -> None:
        """As `require_same`, by what a broker tells now, or told a moment ago."""
        if time.monotonic() - self._asked < ASK_SECONDS:
            self.require_same(client)
            return
        self.require_same(client, LAST_SECONDS if stopped() else ASK_SECONDS)
        self._asked = time.monotonic()

    def commit(self, group: str, offsets: dict[int, int], stopped: Callable[[], bool]) -> None:
        """Tell the brokers how far a reader is, for others to see; errors are not worth a word."""
        from kafka import TopicPartition
        from kafka.structs import OffsetAndMetadata

        seconds = LAST_SECONDS if stopped() else CONNECT_SECONDS
        limit = time.monotonic() + seconds
        try:
            with closing(self.consumer(lambda: time.monotonic() > limit, group)) as consumer:
                told = {TopicPartition(self.name, one): OffsetAndMetadata(offset, "", -1)
                        for one, offset in offsets.items()}  # fmt: skip
                consumer.commit(told, timeout_ms=round(1000 * seconds))
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
            self.require_same(consumer)
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
        from kafka import errors

        if isinstance(error, SourceError):
            return error
        if isinstance(error, errors.OffsetOutOfRangeError) and isinstance(error.args[0], dict):
            ((tp, offset), *_) = error.args[0].items()
            return Lost(
                f"{tp.topic}/{tp.partition}@{offset} is gone: the topic keeps its records no "
                "longer, or has lost them, so start at another place"
            )
        if isinstance(error, errors.KafkaTimeoutError):
            return self._silent()
        if isinstance(error, errors.SaslAuthenticationFailedError):
            user = shown(self.security.user)
            return SourceError(f"{self.url}: the broker refuses user {user} with that password")
        if isinstance(error, errors.AuthorizationError):
            what = type(error).__name__.partition("Authorization")[0].lower()
            return SourceError(
                f"{self.url}: user {shown(self.security.user)} may not use this {what}: have an "
                "ACL made for it"
            )
        if isinstance(error, errors.LogTruncationError):
            ((tp, at), *_) = error.divergent_offsets.items()
            back = "" if at is None else f" to offset {at.offset}"
            return Lost(
                f"{tp.topic}/{tp.partition} has lost records that were read: its log was cut "
                f"back{back}, so begin again, with another folder where checkpoints are kept"
            )
        codec = re.search(r"for (\w+) compression codec", str(error))
        if isinstance(error, errors.UnsupportedCodecError) and codec:
            return SourceError(
                f"{self.url} is packed by {codec[1]}, which needs a library: pip install "
                "'streaml1[codecs]'"
            )
        kind = Unavailable if getattr(error, "retriable", False) else SourceError
        if isinstance(error, errors.CorruptRecordError):
            kind = Lost
        return kind(f"{self.url} cannot be read on: {reason_of(error)}")

    def _common(self) -> dict[str, Any]:
        timeout = round(1000 * CONNECT_SECONDS)
        common = {"bootstrap_servers": self._up, "client_id": "streaml1"}
        return {
            **common,
            **self.security.arguments(),
            "bootstrap_timeout_ms": timeout,
            "kafka_client": _client,
            **self.settings,
        }

    def _answers(self, stopped: Callable[[], bool]) -> bool:
        """Wait for a broker: a client of kafka-python that finds none leaves sockets open.

        It would also wait for one that does not answer, though another of the list does.
        """
        limit = time.monotonic() + CONNECT_SECONDS
        while not self.is_reachable(stopped):
            if stopped():
                return False
            if time.monotonic() > limit:
                raise self._silent()
            time.sleep(POLL_MS / 1000)
        return True

    def is_reachable(self, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Whether a broker answers now; SourceError, where those that do let nobody in."""
        found: dict[str, Exception | None] = {}

        def ask(broker: str) -> None:
            try:
                probe(broker, self.security, PROBE_SECONDS)
                found[broker] = None
            except (Silent, SourceError) as error:
                found[broker] = error

        for broker in self.brokers:  # not waited for at the end: one may be silent
            threading.Thread(target=ask, args=(broker,), daemon=True).start()
        limit = time.monotonic() + PROBE_SECONDS + 1.0
        while len(found) < len(self.brokers) and None not in list(found.values()):
            if stopped() or time.monotonic() > limit:
                return False
            time.sleep(0.002)
        up = [one for one, error in list(found.items()) if error is None]
        self._up = up or self._up
        refused = [one for one in found.values() if isinstance(one, SourceError)]
        if refused and not up:
            raise SourceError(f"{self.url}: {refused[0]}")
        return bool(up)

    def _silent(self) -> SourceError:
        brokers = ", ".join(self.brokers)
        ask = "is one running?"
        if not any(map(has_address, self.brokers)):
            ask = "no address is known of what is named there; is it spelt right?"
        return Unavailable(f"{self.url}: no broker answers at {brokers}: {ask}")

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
        for one in parts:
            if at.get(one.partition, 0) > ends[one]:
                raise Lost(
                    f"{self.url}: the checkpoint is at offset {at[one.partition]} of partition "
                    f"{one.partition}, beyond the end of the log, {ends[one]}: the topic has lost "
                    "records, and new ones take their places; begin again, with another folder"
                )
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


def reason_of(error: Exception) -> str:
    """What an error of kafka-python says, on one line, and nothing of it left out."""
    return repr(" ".join(str(error).split()) or type(error).__name__)[1:-1]


def _client(**settings: Any) -> Any:
    """What consumers, producers and admins speak to the brokers through: it makes no topic."""
    from kafka import KafkaConsumer

    client = KafkaConsumer.DEFAULT_CONFIG["kafka_client"](**settings)
    # kafka-python 3.0 loses the option of this name on its way: a topic that is deleted while it
    # is in use would come back at once, empty, and as the brokers make topics.
    config = getattr(getattr(client, "cluster", None), "config", {})
    if "allow_auto_create_topics" in config:
        config["allow_auto_create_topics"] = False
    return client


def _settings(url: str, query: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for one in filter(None, query.split("&")):
        name, equals, value = one.partition("=")
        numbers = value.split(".")
        if name != "api_version" or not all(number.isdecimal() for number in numbers):
            # The value may be a password, and what is no name too: they are not repeated.
            known = name if re.fullmatch(r"[a-z]+([._][a-z]+)*=", f"{name}{equals}") else "..."
            raise SourceError(f"{url}: {known}=... is no setting; there is one, as api_version=2.3")
        settings[name] = tuple(map(int, numbers))
    return settings
