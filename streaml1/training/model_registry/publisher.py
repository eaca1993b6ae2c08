"""Publishing models to a topic."""

from __future__ import annotations

import os
import socket
import time
import uuid
from contextlib import closing
from datetime import UTC, datetime
from typing import Any, Protocol

from streaml1.core.named_options import by_caller
from streaml1.models.pipelines import snapshot
from streaml1.models.serialization import ModelFileError
from streaml1.sources.kafka.output_topics import create_topic
from streaml1.sources.kafka.producer import (
    DELIVERY_SECONDS,
    Header,
    TopicWriter,
    as_topic,
    require_compaction,
    topic_exists,
)
from streaml1.sources.kafka.topic import Topic
from streaml1.sources.source import SourceError, Unavailable
from streaml1.training.checkpoint import require_model
from streaml1.training.model_registry.reader import (
    RecordLog,
    TopicLog,
    read_manifests,
    read_newest,
)
from streaml1.training.model_registry.record_layout import (
    CHUNKS,
    MANIFESTS,
    MAX_INT,
    Manifest,
    chunk_key,
    digest,
    is_text,
    manifest_key,
    split_chunks,
)

__all__ = ["ModelTopic", "Publisher"]

TOPIC_CONFIGS = {
    "cleanup.policy": "compact",
    # Compaction leaves the active segment alone, which is up to 1 GiB by default.
    "segment.bytes": str(64 * 2**20),
    "segment.ms": str(3600 * 1000),
}


class RecordWriter(Protocol):
    """Destination of records, such as `TopicWriter`."""

    def send(
        self, key: str, value: bytes | None, headers: list[Header] | None, partition: int
    ) -> Any:
        """Send a record; the result has the acknowledged offset as ``.value.offset``."""

    def flush(self) -> None:
        """Wait until all records are acknowledged."""


class Publisher:
    """Publisher of models, by the protocol in `training.model_registry`.

    Raises
    ------
    SourceError
        If the topic holds the last epoch.
    """

    def __init__(self, writer: RecordWriter, url: str, log: RecordLog) -> None:
        self._writer, self._url = writer, url
        manifests = read_manifests(log)
        self._epoch = 1 + max((manifest.epoch for manifest in manifests), default=0)
        if self._epoch >= MAX_INT:  # any writer may have chosen it
            raise SourceError(
                f"{url} holds a model of epoch {MAX_INT - 1}, and readers ignore later ones; use "
                "another topic"
            )
        self._writer_id, self._number = uuid.uuid4().hex, 0
        self._n_chunks = [0, 0]  # of each slot
        for manifest in reversed(manifests):
            self._n_chunks[manifest.slot] = manifest.chunks
        # Slot of the newest complete publication: only the other slot may be overwritten.
        self._slot = 1
        if manifests:
            try:
                newest = read_newest(log, url)
            except ModelFileError:  # none is complete, so either slot may be overwritten
                newest = None
            self._slot = newest.manifest.slot if newest else 1

    def publish(self, model: Any, log: RecordLog) -> Manifest:
        """Publish a model; it is complete on return.

        Parameters
        ----------
        model
            A model of streaml1, or a river pipeline that ends in one.
        log
            The current records of the topic.

        Returns
        -------
        Manifest
            Its manifest.

        Raises
        ------
        SourceError
            If the topic cannot be written, or another run publishes to it.
        """
        require_model(model)
        self._require_owner(log)
        data = snapshot(model)()
        slot, publication_id = 1 - self._slot, uuid.uuid4().hex
        futures = []
        for number, chunk in enumerate(split_chunks(data)):
            headers = [("id", publication_id.encode()), ("chunk", str(number).encode())]
            futures.append(self._writer.send(chunk_key(slot, number), chunk, headers, CHUNKS))
        # All chunks are acknowledged before the manifest is sent: a manifest implies its chunks.
        self._writer.flush()
        offsets, host = [future.value.offset for future in futures], socket.gethostname()
        manifest = Manifest(
            epoch=self._epoch, writer=self._writer_id, number=self._number + 1, slot=slot,
            id=publication_id, chunks=len(futures), first=min(offsets), last=max(offsets),
            size=len(data), sha256=digest(data), model=type(model).__name__,
            examples=model.n_iterations, time=datetime.now(UTC).isoformat(timespec="seconds"),
            host=host if is_text(host) else "?", process=os.getpid(),
        )  # fmt: skip
        self._writer.send(manifest_key(slot), manifest.encode(), None, MANIFESTS)
        self._writer.flush()
        self._slot, self._number = slot, manifest.number
        # Tombstones for what a larger model has left in the slot.
        for number in range(len(futures), self._n_chunks[slot]):
            self._writer.send(chunk_key(slot, number), None, None, CHUNKS)
        self._n_chunks[slot] = len(futures)
        return manifest

    def _require_owner(self, log: RecordLog) -> None:
        for manifest in read_manifests(log):
            if manifest.rank[:2] > (self._epoch, self._writer_id):
                raise SourceError(
                    f"{self._url} was taken over by process {manifest.process} on {manifest.host}; "
                    "only one run may publish to a topic"
                )


class ModelTopic:
    """A topic that models are published to; a context manager.

    Parameters
    ----------
    topic
        ``kafka://host:port/topic``; created with two partitions and compaction if it does not
        exist.

    Raises
    ------
    SourceError
        If the topic cannot be written, has one partition, or is not compacted.
    """

    def __init__(self, topic: str | Topic) -> None:
        self.topic = as_topic(topic)
        if topic_exists(self.topic):
            require_compaction(self.topic)
        else:
            create_topic(self.topic, TOPIC_CONFIGS, partitions=2)
        self._writer = TopicWriter(self.topic)
        self.stop_deadline = self._writer.stop_deadline
        try:
            self._publisher = self._new_publisher()
        except BaseException:
            self._writer.close()
            raise

    def __enter__(self) -> ModelTopic:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._writer.close()

    def _new_publisher(self) -> Publisher:
        if self._writer.partitions < 2:
            raise SourceError(
                f"{self.topic.url} has one partition, but models need two; create the topic with "
                f"two, or let {by_caller('--publish', 'ModelPublisher')} create it"
            )
        with closing(TopicLog(self.topic)) as log:
            return Publisher(self._writer, self.topic.url, log)

    def publish(self, model: Any) -> Manifest:
        """Publish a model; it is complete on return.

        If no broker answers, this waits as long as for a record.

        Raises
        ------
        SourceError
            If the topic cannot be written, was deleted, or another run publishes to it.
        """
        try:
            log = self._open_log()
        except Unavailable:
            raise
        except SourceError:
            self._writer.require_same()  # a deleted topic is the better explanation
            raise
        with closing(log):
            self._writer.require_same()
            return self._publisher.publish(model, log)

    def _open_log(self) -> TopicLog:
        deadline = time.monotonic() + DELIVERY_SECONDS
        self.stop_deadline.start_wait()
        while True:
            try:
                return TopicLog(self.topic, self.stop_deadline.is_exhausted)
            except Unavailable:
                if self.stop_deadline.is_exhausted() or time.monotonic() > deadline:
                    raise
