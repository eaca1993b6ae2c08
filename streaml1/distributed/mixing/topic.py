"""The compacted topic of a mixed model: a log that all members read from its start."""

from __future__ import annotations

import time
from contextlib import closing
from typing import Any

from streaml1 import models
from streaml1.distributed.mixing.messages import Assembler, Message, Record, encode, tombstones
from streaml1.distributed.mixing.state import MixState
from streaml1.sources.kafka.producer import TopicWriter, as_topic, create_topic, topic_exists
from streaml1.sources.kafka.topic import StopCheck, Topic
from streaml1.sources.source import SourceError, Unavailable

__all__ = ["MixReader", "MixTopic", "read_mixed"]

TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    # Compaction leaves the active segment alone, which is up to 1 GiB by default.
    "segment.bytes": str(64 * 2**20),
    "segment.ms": str(600 * 1000),
}

POLL_MS = 100
SILENCE_SECONDS = 30.0
"""Timeout of a broker that sends none of the records that exist."""


class MixReader:
    """A reader of the topic; close it after use.

    Parameters
    ----------
    topic
        The topic.
    stopped
        Checked while waiting for brokers.

    Attributes
    ----------
    state : MixState
        What the records that were read so far say.

    Raises
    ------
    SourceError
        If the topic cannot be read, or has several partitions.
    """

    def __init__(self, topic: Topic, stopped: StopCheck) -> None:
        self.topic, self.state = topic, MixState()
        self._assembler, self._stopped = Assembler(), stopped
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
                is_new |= message is not None and self.state.apply(message)
        return is_new

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


class MixTopic(MixReader):
    """A reader and a writer of the topic, which is created if it does not exist.

    Parameters
    ----------
    topic
        The topic; created with one partition and compaction.
    stopped
        Checked while waiting for brokers.

    Raises
    ------
    SourceError
        If the topic cannot be read or written, or has several partitions.
    """

    def __init__(self, topic: Topic, stopped: StopCheck) -> None:
        if not topic_exists(topic):
            create_topic(topic, TOPIC_CONFIGS, partitions=1)
        self._writer = TopicWriter(topic)
        self._writer.stop_deadline.set_stop(stopped)
        try:
            super().__init__(topic, stopped)
        except BaseException:
            self._writer.close()
            raise

    def close(self) -> None:
        """Disconnect."""
        self._writer.close()
        super().close()

    def read(self, timeout_ms: int = 0) -> bool:
        """Read the records that have arrived; return whether there is a new base.

        Raises
        ------
        SourceError
            If the topic cannot be read, or a message was not written: nothing would follow it.
        """
        self._writer.raise_failures()
        return super().read(timeout_ms)

    def send(self, message: Message) -> None:
        """Send a message; reading it back is its acknowledgement."""
        for record in encode(message):
            self._send(record)

    def clean_up(self) -> None:
        """Delete the bases of earlier runs, given that the newest base is one of this run."""
        if self.state.base is not None:
            for record in tombstones(self._assembler.keys, self.state.base):
                self._send(record)

    def _send(self, record: Record) -> None:
        self._writer.send(record.key, record.value, list(record.headers), 0)


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


def read_mixed(url: str | Topic) -> Any:
    """Return the newest model in the topic of a group that mixes.

    Raises
    ------
    SourceError
        If the topic does not exist, cannot be read, or holds no model.
    """
    topic = as_topic(url)
    if not topic_exists(topic):
        raise SourceError(f"{topic.url}: topic {topic.name} does not exist")
    with closing(MixReader(topic, lambda: False)) as mix:
        mix.read_to_end()
    if mix.state.base is None:
        raise SourceError(f"{topic.url} holds no mixed model; learn --mixed publishes them")
    return models.decode(mix.state.base.data, topic.url)
