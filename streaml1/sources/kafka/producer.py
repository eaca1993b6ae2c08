"""What is written to a topic: each record is there at least once when `flush` returns."""

from __future__ import annotations

import contextlib
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any
from zlib import crc32

from streaml1.sources.kafka.topic import LAST_SECONDS, Topic, reason_of
from streaml1.sources.source import Lost, SourceError, Unavailable, shown

__all__ = [
    "Header",
    "Outbox",
    "Patience",
    "as_topic",
    "has_topic",
    "make_topic",
    "same_topic",
    "topic_beside",
    "unwritten",
]

Header = tuple[str, bytes]

LINGER_MS = 50
BATCH_BYTES = 262_144
"""Records wait so long for others, or until they are so many bytes: a `send` costs half then."""

LARGEST = 2**26
"""The largest record that is handed over; what the topic takes is for the topic to say."""

HELD, HELD_BYTES = 20_000, 2**25
"""Records, and their bytes, that may be on their way: kafka-python itself has no limit."""

DELIVERY_SECONDS, REQUEST_SECONDS = 120.0, 30.0
"""How long a record may take, and one request for it: trouble that passes is waited out."""

STOP_SECONDS = 3.0
"""How long a broker may take nothing once the run was stopped."""

TICK_SECONDS = 0.1
"""How often a stop is looked for while records are waited for."""

CLOSE_SECONDS = 5.0

ASK_SECONDS = 2.0
"""How long a broker may take to tell whether the topic is still there."""

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class Patience:
    """How long brokers are waited for: a while longer once the run was stopped."""

    def __init__(self) -> None:
        self._stopped: Callable[[], bool] = lambda: False
        self._since: float | None = None  # when the stop was seen, or something moved after it
        self._in_vain = False

    def heed(self, stopped: Callable[[], bool]) -> None:
        """Have it end soon after `stopped` has become true."""
        self._stopped = stopped

    def begins(self) -> None:
        """A wait begins: it has its time, whatever went by before, unless one was in vain."""
        if not self._in_vain:
            self.moved()

    def moved(self) -> None:
        """Brokers do take what is sent."""
        self._in_vain = False
        if self._since is not None:
            self._since = time.monotonic()

    def is_short(self) -> bool:
        """Whether the run was stopped, so that it will end."""
        return self._since is not None or self._stopped()

    def is_over(self) -> bool:
        """Whether the run was stopped, and nothing has moved since then for too long."""
        if self._since is None and self._stopped():
            self._since = time.monotonic()
        if self._since is not None and time.monotonic() - self._since >= STOP_SECONDS:
            self._in_vain = True
        return self._in_vain


class Outbox:
    """A topic that records are written to.

    Parameters
    ----------
    topic
        Made, as the brokers make topics, where it is not there.
    configs
        The settings it is made with.

    Raises
    ------
    SourceError
        One sentence, where no broker answers, or the topic cannot be made.

    """

    def __init__(self, topic: Topic, configs: Mapping[str, str] | None = None) -> None:
        import kafka

        self.topic = topic
        if not has_topic(topic):
            make_topic(topic, configs or {})
        try:
            self._producer = kafka.KafkaProducer(
                **topic._common(),
                acks="all",
                enable_idempotence=True,
                linger_ms=LINGER_MS,
                batch_size=BATCH_BYTES,
                max_request_size=LARGEST,
                delivery_timeout_ms=round(1000 * DELIVERY_SECONDS),
                request_timeout_ms=round(1000 * REQUEST_SECONDS),
                allow_auto_create_topics=False,
            )
        except Exception as error:
            raise unwritten(topic, error) from None
        self._held: deque[tuple[Any, str, int]] = deque()
        self._bytes = 0
        self.patience = Patience()
        self._given_up: Unavailable | None = None
        self._failed: SourceError | None = None  # and for good: no later `flush` is well
        try:
            self.partitions = len(self._producer.partitions_for(topic.name))
            topic.require_same(self._producer)
        except Exception as error:
            self.close()
            raise unwritten(topic, error) from None

    def __enter__(self) -> Outbox:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def require_same(self) -> None:
        """Refuse to go on where the topic was deleted: whoever begins again makes it as it was.

        Raises
        ------
        Unavailable
            One sentence.

        """
        try:
            seconds = LAST_SECONDS if self.patience.is_short() else ASK_SECONDS
            self.topic.require_same(self._producer, seconds, there=True)
        except Lost:
            raise Unavailable(
                f"{self.topic.url} was deleted while it was written to: begin again, which makes "
                "it if it is not there"
            ) from None

    def send(
        self,
        key: str,
        value: bytes | None,
        headers: list[Header] | None = None,
        partition: int | None = None,
    ) -> Any:
        """Hand a record over; it is on its way, and may still fail.

        Parameters
        ----------
        key, value, headers
            Of the record.
        partition
            Records of one number keep their order; without it those of one key do.

        Returns
        -------
        The future of kafka-python, which `flush` waits for.

        Raises
        ------
        SourceError
            Where this or an earlier record has failed.

        """
        size = 0 if value is None else len(value)
        while self._held and self._held[0][0].is_done:
            self._settle()
        full = len(self._held) >= HELD or self._bytes + size > HELD_BYTES
        if full and self._given_up is None:
            with contextlib.suppress(_GivenUp):  # the block is learnt to its end, and `flush` tells
                self.flush()
        data = key.encode()
        place = (crc32(data) if partition is None else partition) % self.partitions
        try:
            future = self._producer.send(self.topic.name, value, data, headers, place)
        except Exception as error:
            raise self._why(error, key) from None
        self._held.append((future, key, size))
        self._bytes += size
        return future

    def flush(self) -> None:
        """Return once all records are in the topic.

        Raises
        ------
        SourceError
            One sentence about the first that is not, and never will be; or, after a stop that
            `patience` has heard of, about those that no broker takes.

        """
        from kafka.errors import KafkaTimeoutError, UnknownError

        if self._failed is not None:
            raise self._failed
        limit = time.monotonic() + 2 * DELIVERY_SECONDS
        self.patience.begins()
        while self._held:
            # It loses sight of a batch that was too large and is taken apart: each is asked below.
            with contextlib.suppress(KafkaTimeoutError, UnknownError):
                self._producer.flush(TICK_SECONDS)
            with contextlib.suppress(Exception):  # told of where it is settled
                self._held[0][0].get(TICK_SECONDS)
            if self._held[0][0].is_done:
                self.patience.moved()
                while self._held and self._held[0][0].is_done:
                    self._settle()
            elif self.patience.is_over():
                raise self._give_up()
            elif time.monotonic() > limit:
                self._settle()

    def close(self) -> None:
        """Write what can be written soon, and let go of the brokers."""
        try:
            in_vain = self._given_up is not None or self.patience.is_over()
            self._producer.close(timeout=0.0 if in_vain else CLOSE_SECONDS)
        except Exception:
            # It does not end where something is left that cannot be written.
            self._producer._sender.force_close()
            self._producer._sender.join(CLOSE_SECONDS)
            with contextlib.suppress(Exception):
                self._producer.close(timeout=CLOSE_SECONDS)

    def _settle(self) -> None:
        """Let go of the first record, which is in the topic, or has failed."""
        from kafka.errors import KafkaTimeoutError

        future, key, size = self._held.popleft()
        self._bytes -= size
        if not future.succeeded():
            self._failed = self._why(future.exception or KafkaTimeoutError(), key)
            raise self._failed

    def _why(self, error: Exception, key: str) -> SourceError:
        """Why a record is not in the topic: kafka-python waits for one that was deleted."""
        from kafka.errors import KafkaTimeoutError, UnknownTopicOrPartitionError

        if isinstance(error, KafkaTimeoutError | UnknownTopicOrPartitionError):
            try:
                self.require_same()
            except SourceError as deleted:
                return deleted
        return unwritten(self.topic, error, key)

    def _give_up(self) -> Unavailable:
        """What is not in the topic as the run ends: the same error as long as that is so."""
        if self._given_up is None:
            n = len(self._held)
            self._given_up = _GivenUp(
                f"{self.topic.url}: {n:,} {'record was' if n == 1 else 'records were'} not "
                f"written, as no broker took any for {STOP_SECONDS:g} seconds"
            )
        return self._given_up


class _GivenUp(Unavailable):
    """What was not written before a run that was stopped ended."""


def as_topic(topic: str | Topic) -> Topic:
    """A topic, or the one of a URL."""
    return Topic(topic) if isinstance(topic, str) else topic


def topic_beside(topic: Topic, name: str) -> Topic:
    """A topic by its name, at the brokers of another; or by its URL.

    Raises
    ------
    SourceError
        Where there can be no such topic, or it is the same one.

    Examples
    --------
    >>> from streaml1.sources.kafka.producer import topic_beside
    >>> from streaml1.sources.kafka.topic import Topic
    >>> topic_beside(Topic("kafka://localhost:9092/clicks"), "clicks.dlq").url
    'kafka://localhost:9092/clicks.dlq'

    """
    other = Topic(name, topic.security) if name.startswith("kafka:") else topic.beside(name)
    require_name(other)
    if same_topic(other, topic):
        raise SourceError(f"{other.url} is what is read: write to another topic")
    return other


def same_topic(one: Topic, other: Topic) -> bool:
    """Whether two topics have one name, and a broker in common."""
    return one.name == other.name and not set(one.brokers).isdisjoint(other.brokers)


def require_name(topic: Topic) -> None:
    """Refuse what Kafka does not take as the name of a topic."""
    if not _NAME.fullmatch(topic.name) or topic.name in (".", ".."):
        raise SourceError(
            f"{shown(topic.name)} cannot name a topic: take up to 249 letters, digits, dots, "
            "underscores and dashes"
        )


def has_topic(topic: Topic) -> bool:
    """Whether the topic is there."""
    from kafka.admin import KafkaAdminClient

    topic._answers(lambda: False)
    try:
        with closing(KafkaAdminClient(**topic._common())) as admin:
            return topic.name in admin.list_topics()
    except Exception as error:
        raise unwritten(topic, error) from None


def make_topic(topic: Topic, configs: Mapping[str, str], partitions: int = -1) -> None:
    """Make a topic with some settings; the brokers choose what is not said."""
    from kafka.admin import KafkaAdminClient
    from kafka.errors import TopicAlreadyExistsError

    require_name(topic)
    wanted = {topic.name: {"num_partitions": partitions, "configs": dict(configs)}}
    try:
        with closing(KafkaAdminClient(**topic._common())) as admin:
            with contextlib.suppress(TopicAlreadyExistsError):  # another was faster
                admin.create_topics(wanted)
            admin.wait_for_topics([topic.name])
    except Exception as error:
        raise SourceError(
            f"{topic.url}: there is no topic {topic.name}, and it cannot be made "
            f"({reason_of(error)}): make it first"
        ) from None


def unwritten(topic: Topic, error: Exception, key: str | None = None) -> SourceError:
    """Why a record, or any, is not in a topic, in one sentence."""
    from kafka import errors

    what = "what was written" if key is None else f"the record {key}"
    if isinstance(error, errors.MessageSizeTooLargeError | errors.RecordListTooLargeError):
        return SourceError(
            f"{topic.url} does not take {what}, which is too large for it: raise its "
            "max.message.bytes"
        )
    if isinstance(error, errors.AuthorizationError):
        return SourceError(
            f"{topic.url} may not be written by this user: have the right to write granted"
        )
    if isinstance(error, errors.KafkaTimeoutError):
        return Unavailable(f"{topic.url}: no broker took {what}: is one running?")
    kind = Unavailable if getattr(error, "retriable", False) else SourceError
    return kind(f"{topic.url} did not take {what}: {reason_of(error)}")
