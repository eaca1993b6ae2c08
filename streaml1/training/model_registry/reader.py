"""The newest whole model of a topic."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from streaml1 import models
from streaml1.models.serialization import ModelFileError
from streaml1.sources.kafka.producer import as_topic, topic_exists
from streaml1.sources.kafka.topic import Topic
from streaml1.sources.source import SourceError, Unavailable
from streaml1.training.model_registry.record_layout import (
    CHUNKS,
    MANIFESTS,
    Manifest,
    digest,
    header,
)

__all__ = ["Log", "TopicLog", "manifests_of", "newest_of", "read"]

logger = logging.getLogger("streaml1")

POLL_MS = 250
ASK_MS = 1000
SILENCE_SECONDS = 30.0
"""How long a broker may send nothing of what is there."""

OLDER = 4
"""Manifests that are looked at: two slots, and what another run may have left between them."""


class Log(Protocol):
    """The records of a topic."""

    def records(self, partition: int, lo: int = 0, hi: int | None = None) -> Iterator[Any]:
        """Those with offsets from `lo` on, below `hi`, or until there is no other."""


class TopicLog:
    """The records of a topic, as a consumer of kafka-python reads them; close it.

    Parameters
    ----------
    topic
        The topic.
    given_up
        Whether brokers that say nothing are to be waited for no longer.

    Raises
    ------
    Unavailable
        Where no broker answers.
    """

    def __init__(self, topic: Topic, given_up: Callable[[], bool] = lambda: False) -> None:
        self._topic, self._given_up = topic, given_up
        consumer = topic.consumer(given_up)
        if consumer is None:
            raise Unavailable(f"{topic.url}: no broker answers, and nothing is written there")
        self._consumer = consumer

    def close(self) -> None:
        """Let go of the brokers."""
        self._consumer.close()

    def records(self, partition: int, lo: int = 0, hi: int | None = None) -> Iterator[Any]:
        """Those with offsets from `lo` on, below `hi`, or until there is no other."""
        try:
            yield from self._records(partition, lo, hi)
        except SourceError:
            raise
        except Exception as error:
            raise self._topic.read_error(error) from None

    def _records(self, partition: int, lo: int, hi: int | None) -> Iterator[Any]:
        from kafka import TopicPartition

        consumer, part = self._consumer, TopicPartition(self._topic.name, partition)
        at = max(lo, self._asked(consumer.beginning_offsets, part))
        consumer.assign([part])
        consumer.seek(part, at)
        heard = time.monotonic()
        while at < (end := self._end(part, hi)):
            while at < end:  # what was compacted away is stepped over
                polled = consumer.poll(timeout_ms=POLL_MS).get(part, ())
                yield from (record for record in polled if record.offset < end)
                if consumer.position(part) > at:
                    at, heard = consumer.position(part), time.monotonic()
                elif time.monotonic() - heard > SILENCE_SECONDS or self._given_up():
                    raise Unavailable(f"{self._topic.url}: the broker sends nothing; try again")

    def _end(self, part: Any, hi: int | None) -> int:
        """Where reading ends, as far as is known now."""
        end = self._asked(self._consumer.end_offsets, part)
        return end if hi is None else min(hi, end)

    def _asked(self, ask: Callable[..., Any], part: Any) -> int:
        """An offset that the brokers tell: asked for often, to look between."""
        from kafka.errors import KafkaTimeoutError

        limit = time.monotonic() + SILENCE_SECONDS
        while True:
            try:
                offset: int = ask([part], timeout_ms=ASK_MS)[part]
            except KafkaTimeoutError:
                if self._given_up() or time.monotonic() > limit:
                    raise
            else:
                return offset


class _Torn(Exception):
    """Why a publication is not whole."""


def read(url: str | Topic) -> Any:
    """The newest whole model in a topic.

    Raises
    ------
    ModelFileError, SourceError
        One sentence, where there is none, or it cannot be read.
    """
    topic = as_topic(url)
    if not topic_exists(topic):
        raise SourceError(f"{topic.url}: there is no topic {topic.name}")
    log = TopicLog(topic)
    try:
        found = newest_of(log, topic.url)
    finally:
        log.close()
    if found is None:
        raise ModelFileError(f"{topic.url} holds no model yet: learn --publish puts one there")
    return models.decode(found[1], topic.url)


def newest_of(log: Log, url: str) -> tuple[Manifest, bytes] | None:
    """The manifest and the bytes of the newest whole publication; None where there is none at all.

    Raises
    ------
    ModelFileError
        Where all are torn.
    """
    manifests = manifests_of(log)
    if not manifests:
        return None
    newest, torn = manifests[0].rank, []
    while manifests:
        manifest = manifests.pop(0)
        try:
            data = _fetched(log, manifest)
        except _Torn as why:
            torn.append(f"the model of {manifest.time} is torn: {why}")
        else:
            for sentence in torn:
                logger.warning("%s: %s; the one before is taken", url, sentence)
            return manifest, data
        # It may have been overtaken: then there is a newer one by now.
        now = manifests_of(log)
        if now and now[0].rank > newest:
            manifests, newest, torn = now, now[0].rank, []
    raise ModelFileError(f"{url} holds no whole model: {torn[0]}")


def manifests_of(log: Log) -> list[Manifest]:
    """The last manifests, the newest first.

    It is among them though others come meanwhile, and though compaction takes what they replace:
    reading ends where there is no other.
    """
    found = (Manifest.decode(record.value) for record in log.records(MANIFESTS))
    ranked = sorted((one for one in found if one), key=lambda one: one.rank, reverse=True)
    return ranked[:OLDER]


def _fetched(log: Log, manifest: Manifest) -> bytes:
    chunks: dict[int, bytes] = {}
    for record in log.records(CHUNKS, manifest.first, manifest.last + 1):
        number = header(record, "chunk")
        if header(record, "id") == manifest.id and number is not None and record.value is not None:
            chunks[int(number)] = record.value
    missing = [one for one in range(manifest.chunks) if one not in chunks]
    if missing:
        raise _Torn(f"{len(missing)} of {manifest.chunks} chunks are missing")
    data = b"".join(chunks[one] for one in range(manifest.chunks))
    if len(data) != manifest.size or digest(data) != manifest.sha256:
        raise _Torn("its SHA-256 is not that which was published")
    return data
