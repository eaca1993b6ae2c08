"""Reading the newest complete model of a topic."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from streaml1 import models
from streaml1.core.named_options import by_caller
from streaml1.models.serialization import ModelFileError
from streaml1.sources.kafka.broker_connection import StopCheck
from streaml1.sources.kafka.producer import as_topic, topic_exists
from streaml1.sources.kafka.topic import Topic
from streaml1.sources.source import SourceError, Unavailable
from streaml1.training.mixed_models.reader import holds_mixed_model, newest_mixed
from streaml1.training.model_registry.record_layout import (
    CHUNKS,
    MANIFESTS,
    MAX_CHUNKS,
    Manifest,
    digest,
    header_value,
)

if TYPE_CHECKING:
    from kafka import TopicPartition
    from kafka.consumer.fetcher import ConsumerRecord

__all__ = ["Publication", "RecordLog", "TopicLog", "read", "read_manifests", "read_newest"]

logger = logging.getLogger("streaml1")

POLL_MS = 250
OFFSET_REQUEST_MS = 1000
SILENCE_SECONDS = 30.0
"""Timeout of a broker that sends none of the records that exist."""

MAX_MANIFESTS = 4
"""Number of manifests to try: those of two slots, and what another run may have left between."""


class RecordLog(Protocol):
    """Access to the records of a topic."""

    def records(
        self, partition: int, lo: int = 0, hi: int | None = None
    ) -> Iterator[ConsumerRecord]:
        """Yield the records with offsets in [lo, hi); without `hi`, until there are no more."""


class TopicLog:
    """Access to the records of a topic by a consumer; close it after use.

    Parameters
    ----------
    topic
        The topic.
    give_up
        Returns whether to stop waiting for brokers that do not answer.

    Raises
    ------
    Unavailable
        If no broker answers.
    """

    def __init__(self, topic: Topic, give_up: StopCheck = lambda: False) -> None:
        self._topic, self._give_up = topic, give_up
        consumer = topic.consumer(give_up)
        if consumer is None:
            raise Unavailable(f"{topic.url}: no broker answers, and nothing is written there")
        self._consumer = consumer

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def records(
        self, partition: int, lo: int = 0, hi: int | None = None
    ) -> Iterator[ConsumerRecord]:
        """Yield the records with offsets in [lo, hi); without `hi`, until there are no more."""
        try:
            yield from self._records(partition, lo, hi)
        except SourceError:
            raise
        except Exception as error:
            raise self._topic.read_error(error) from None

    def _records(self, partition: int, lo: int, hi: int | None) -> Iterator[ConsumerRecord]:
        from kafka import TopicPartition

        consumer, tp = self._consumer, TopicPartition(self._topic.name, partition)
        offset = max(lo, self._request_offset(consumer.beginning_offsets, tp))
        consumer.assign([tp])
        consumer.seek(tp, offset)
        progress_at = time.monotonic()
        while offset < (end := self._end(tp, hi)):
            # The consumer's position skips records that were compacted away.
            while offset < end:
                polled = consumer.poll(timeout_ms=POLL_MS).get(tp, ())
                yield from (record for record in polled if record.offset < end)
                if consumer.position(tp) > offset:
                    offset, progress_at = consumer.position(tp), time.monotonic()
                elif time.monotonic() - progress_at > SILENCE_SECONDS or self._give_up():
                    raise Unavailable(f"{self._topic.url}: the broker sends nothing; try again")

    def _end(self, tp: TopicPartition, hi: int | None) -> int:
        """Return the offset to stop at, by the current end of the partition."""
        end = self._request_offset(self._consumer.end_offsets, tp)
        return end if hi is None else min(hi, end)

    def _request_offset(
        self, request: Callable[..., dict[TopicPartition, int]], tp: TopicPartition
    ) -> int:
        """Request an offset with short timeouts, and check `give_up` between them."""
        from kafka.errors import KafkaTimeoutError

        deadline = time.monotonic() + SILENCE_SECONDS
        while True:
            try:
                return request([tp], timeout_ms=OFFSET_REQUEST_MS)[tp]
            except KafkaTimeoutError:
                if self._give_up() or time.monotonic() > deadline:
                    raise


class Publication(NamedTuple):
    """A complete publication: its manifest and the encoded model."""

    manifest: Manifest
    data: bytes


class _Incomplete(Exception):
    """The reason why a publication is not complete."""


def read(url: str | Topic) -> Any:
    """Load the newest complete model in a topic of ``learn --publish`` or ``learn --mixed``.

    Raises
    ------
    ModelFileError
        If the topic holds no model, or none that is complete.
    SourceError
        If the topic does not exist, or cannot be read.
    """
    topic = as_topic(url)
    if not topic_exists(topic):
        raise SourceError(
            f"{topic.url}: topic {topic.name} does not exist; "
            f"{by_caller('learn --publish', 'ModelPublisher')} creates it"
        )
    if holds_mixed_model(topic):
        model = newest_mixed(topic)
    else:
        log = TopicLog(topic)
        try:
            newest = read_newest(log, topic.url)
        finally:
            log.close()
        model = None if newest is None else models.decode(newest.data, topic.url)
    if model is None:
        publisher = by_caller("learn --publish", "ModelPublisher")
        raise ModelFileError(f"{topic.url} holds no model yet; publish one with {publisher}")
    return model


def read_newest(log: RecordLog, url: str) -> Publication | None:
    """Return the newest complete publication; None if there is no manifest at all.

    Raises
    ------
    ModelFileError
        If there are manifests, and no publication is complete.
    """
    manifests = read_manifests(log)
    if not manifests:
        return None
    newest_rank, problems = manifests[0].rank, []
    while manifests:
        manifest = manifests.pop(0)
        try:
            data = _read_model(log, manifest)
        except _Incomplete as reason:
            problems.append(f"the model of {manifest.time} is incomplete: {reason}")
        else:
            for problem in problems:
                logger.warning("%s: %s; using the one before", url, problem)
            return Publication(manifest, data)
        # A newer publication may have overwritten the chunks meanwhile: start over with it.
        current = read_manifests(log)
        if current and current[0].rank > newest_rank:
            manifests, newest_rank, problems = current, current[0].rank, []
    raise ModelFileError(f"{url} holds no complete model: {problems[0]}")


def read_manifests(log: RecordLog) -> list[Manifest]:
    """Return the last manifests, the newest first.

    The newest one is among them although others arrive meanwhile and compaction removes what they
    replace: reading ends only when there is no further record.
    """
    decoded = (Manifest.decode(record.value) for record in log.records(MANIFESTS))
    ranked = sorted(
        (manifest for manifest in decoded if manifest), key=lambda m: m.rank, reverse=True
    )
    return ranked[:MAX_MANIFESTS]


def _read_model(log: RecordLog, manifest: Manifest) -> bytes:
    chunks: dict[int, bytes] = {}
    for record in log.records(CHUNKS, manifest.first, manifest.last + 1):
        number = _chunk_number(record)
        is_ours = header_value(record, "id") == manifest.id
        if is_ours and number < manifest.chunks and record.value is not None:
            chunks[number] = record.value
    n_missing = manifest.chunks - len(chunks)
    if n_missing:
        raise _Incomplete(f"{n_missing} of {manifest.chunks} chunks are missing")
    data = b"".join(chunks[number] for number in range(manifest.chunks))
    if len(data) != manifest.size or digest(data) != manifest.sha256:
        raise _Incomplete("its SHA-256 differs from the published one")
    return data


def _chunk_number(record: ConsumerRecord) -> int:
    """Return the number in the header of a chunk; `MAX_CHUNKS` if it is not one."""
    text = header_value(record, "chunk") or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else MAX_CHUNKS
