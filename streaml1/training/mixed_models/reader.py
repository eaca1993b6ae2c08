"""Reading the topic of a mixed model from its start, as all members and all others do."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from streaml1 import models
from streaml1.core.named_options import by_caller
from streaml1.sources.kafka.broker_connection import StopCheck
from streaml1.sources.kafka.producer import as_topic, topic_exists
from streaml1.sources.kafka.topic import Topic
from streaml1.sources.source import SourceError, Unavailable
from streaml1.training.mixed_models.messages import HEADER, Assembler, Record
from streaml1.training.mixed_models.state import MixState

__all__ = ["MixReader", "holds_mixed_model", "newest_mixed", "read_mixed"]

POLL_MS = 100
SILENCE_SECONDS = 30.0
"""Timeout of a broker that sends none of the records that exist."""

MAX_FOREIGN = 1000
"""Number of other records at the start of a topic after which it is not that of a mixed model."""


class MixReader:
    """A reader of the topic; close it after use.

    Attributes
    ----------
    state : MixState
        What the records that were read so far say.
    published : float
        Time of the newest base, in seconds since 1970.

    Raises
    ------
    SourceError
        If the topic cannot be read, or has several partitions.
    """

    def __init__(self, topic: Topic, stopped: StopCheck) -> None:
        self.topic, self.state = topic, MixState()
        self._assembler, self._stopped = Assembler(), stopped
        self.published = 0.0
        self._n_foreign: int | None = 0  # None once there was a message
        self._consumer = _consumer_from_start(topic, stopped)

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def read(self, timeout_ms: int = 0) -> bool:
        """Read the records that have arrived; return whether there is a new base."""
        try:
            polled = self._consumer.poll(timeout_ms=timeout_ms)
        except Exception as error:
            raise self.topic.read_error(error) from None
        self.topic.require_same(self._consumer)
        is_new = False
        for records in polled.values():
            for record in records:
                message = self._assembler.feed(_record(record))
                if message is None:
                    self._count_foreign(record)
                    continue
                self._n_foreign = None
                if self.state.apply(message):
                    is_new, self.published = True, record.timestamp / 1000
        return is_new

    def _count_foreign(self, record: Any) -> None:
        """Raise if the topic begins with other records, so that it is not read to its end."""
        if self._n_foreign is None or record.value is None:
            return
        if not any(name == HEADER for name, _ in record.headers or ()):
            self._n_foreign += 1
        if self._n_foreign > MAX_FOREIGN:
            raise SourceError(
                f"{self.topic.url} holds other records than those of a mixed model; use another "
                "topic"
            )

    def read_to_end(self) -> bool:
        """Read all records that exist now; return whether there is a new base.

        Raises
        ------
        Unavailable
            If the broker sends nothing.
        """
        try:
            [tp] = self._consumer.assignment()
            end = self._consumer.end_offsets([tp])[tp]
        except Exception as error:
            raise self.topic.read_error(error) from None
        is_new, limit = False, time.monotonic() + SILENCE_SECONDS
        while self._consumer.position(tp) < end:
            before = self._consumer.position(tp)
            is_new |= self.read(POLL_MS)
            if self._consumer.position(tp) > before:
                limit = time.monotonic() + SILENCE_SECONDS
            elif time.monotonic() > limit or self._stopped():
                raise Unavailable(f"{self.topic.url}: the broker sends nothing; try again")
        return is_new


def _record(record: Any) -> Record:
    key = "" if record.key is None else str(record.key, "utf-8", "replace")
    return Record(key, record.value, [(name, value or b"") for name, value in record.headers or ()])


def _consumer_from_start(topic: Topic, stopped: StopCheck) -> Any:
    from kafka import TopicPartition

    consumer = topic.consumer(stopped)
    if consumer is None:
        raise Unavailable(f"{topic.url}: no broker answers")
    tp = TopicPartition(topic.name, 0)
    try:
        n_partitions = len(consumer.partitions_for_topic(topic.name) or ())
        if n_partitions > 1:
            raise SourceError(
                f"{topic.url} has {n_partitions} partitions, but a mixed model needs one, so that "
                "all members read the same order; use another topic"
            )
        consumer.assign([tp])
        consumer.seek(tp, consumer.beginning_offsets([tp])[tp])
    except Exception as error:
        consumer.close()
        raise topic.read_error(error) from None
    return consumer


def holds_mixed_model(topic: Topic) -> bool:
    """Return whether a topic is that of a mixed model: `learn --publish` needs two partitions."""
    consumer = topic.consumer(lambda: False)
    assert consumer is not None  # it is not stopped
    with closing(consumer):
        try:
            return len(consumer.partitions_for_topic(topic.name) or ()) == 1
        except Exception as error:
            raise topic.read_error(error) from None


def read_mixed(url: str | Topic) -> Any:
    """Return the newest model in the topic of a group that mixes."""
    topic = as_topic(url)
    if not topic_exists(topic):
        raise SourceError(f"{topic.url}: topic {topic.name} does not exist")
    newest = newest_mixed(topic)
    if newest is None:
        publisher = by_caller("learn --mixed", "MixedGroup")
        raise SourceError(f"{topic.url} holds no mixed model; {publisher} publishes them")
    return newest


def newest_mixed(topic: Topic) -> Any | None:
    """Return the newest model in a topic that exists; None without one."""
    with closing(MixReader(topic, lambda: False)) as mix:
        mix.read_to_end()
    base = mix.state.base
    return None if base is None else models.decode(base.data, topic.url)
