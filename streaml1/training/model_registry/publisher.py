"""Putting models in a topic."""

from __future__ import annotations

import os
import socket
import time
import uuid
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from streaml1.models.serialization import ModelFileError
from streaml1.sources.kafka.producer import (
    DELIVERY_SECONDS,
    TopicWriter,
    as_topic,
    create_topic,
    topic_exists,
    write_error,
)
from streaml1.sources.kafka.topic import Topic
from streaml1.sources.source import SourceError, Unavailable
from streaml1.training.checkpoint import require_model
from streaml1.training.model_registry.reader import Log, TopicLog, manifests_of, newest_of
from streaml1.training.model_registry.record_layout import (
    CHUNKS,
    MANIFESTS,
    Manifest,
    chunk_key,
    chunks_of,
    digest,
    manifest_key,
)

__all__ = ["ModelTopic", "Publisher"]

SETTINGS = {
    "cleanup.policy": "compact",
    # What compaction leaves alone until it is full: 1 GiB by default.
    "segment.bytes": str(64 * 2**20),
    "segment.ms": str(3600 * 1000),
}


class Publisher:
    """Puts one model after the other in a topic; see `training.model_registry` for how, and why so.

    Parameters
    ----------
    outbox
        What writes to the topic.
    url
        The topic, for sentences.
    log
        What is in the topic now.
    """

    def __init__(self, outbox: Any, url: str, log: Log) -> None:
        self._writer, self._url = outbox, url
        known = manifests_of(log)
        self._epoch = 1 + max((one.epoch for one in known), default=0)
        self._writer_id, self._number = uuid.uuid4().hex, 0
        self._chunks = [0, 0]  # how many each slot has
        for one in reversed(known):
            self._chunks[one.slot] = one.chunks
        # The slot of the newest that is whole: the other one may be overwritten.
        self._slot = 1
        if known:
            try:
                found = newest_of(log, url)
            except ModelFileError:  # all are torn, so that there is none to keep
                found = None
            self._slot = found[0].slot if found else 1

    def publish(self, model: Any, log: Log) -> Manifest:
        """Put a model in the topic; it is there whole on return.

        Parameters
        ----------
        model
            A model of streaml1.
        log
            What is in the topic now.

        Raises
        ------
        SourceError
            One sentence, where it cannot be written, or another run publishes there.
        """
        require_model(model)
        self._require_ours(log)
        data = model._encode()
        slot, name = 1 - self._slot, uuid.uuid4().hex
        sent = []
        for number, chunk in enumerate(chunks_of(data)):
            headers = [("id", name.encode()), ("chunk", str(number).encode())]
            sent.append(self._writer.send(chunk_key(slot, number), chunk, headers, CHUNKS))
        self._writer.flush()
        offsets = [future.value.offset for future in sent]
        manifest = Manifest(
            epoch=self._epoch, writer=self._writer_id, number=self._number + 1, slot=slot, id=name,
            chunks=len(sent), first=min(offsets), last=max(offsets), size=len(data),
            sha256=digest(data), model=type(model).__name__, examples=model.n_iterations,
            time=datetime.now(UTC).isoformat(timespec="seconds"), host=socket.gethostname(),
            process=os.getpid(),
        )  # fmt: skip
        self._writer.send(manifest_key(slot), manifest.encode(), None, MANIFESTS)
        self._writer.flush()
        self._slot, self._number = slot, manifest.number
        for number in range(len(sent), self._chunks[slot]):
            self._writer.send(chunk_key(slot, number), None, None, CHUNKS)
        self._chunks[slot] = len(sent)
        return manifest

    def _require_ours(self, log: Log) -> None:
        for one in manifests_of(log):
            if one.rank[:2] > (self._epoch, self._writer_id):
                raise SourceError(
                    f"{self._url} was taken over by process {one.process} on {one.host}: one run "
                    "publishes to a topic"
                )


class ModelTopic:
    """A topic that models are put in, made where it is not there; a context manager.

    Parameters
    ----------
    topic
        ``kafka://host:port/topic``.

    Raises
    ------
    SourceError
        Where it cannot be written, or would not keep a model.
    """

    def __init__(self, topic: str | Topic) -> None:
        self.topic = as_topic(topic)
        if topic_exists(self.topic):
            require_compacted(self.topic)
        else:
            create_topic(self.topic, SETTINGS, partitions=2)
        self._writer = TopicWriter(self.topic)
        self.stop_deadline = self._writer.stop_deadline
        try:
            self._publisher = self._opened()
        except BaseException:
            self._writer.close()
            raise

    def __enter__(self) -> ModelTopic:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def _opened(self) -> Publisher:
        if self._writer.partitions < 2:
            raise SourceError(
                f"{self.topic.url} has one partition, and models need two: make it with two, or "
                "leave that to --publish"
            )
        with closing(TopicLog(self.topic)) as log:
            return Publisher(self._writer, self.topic.url, log)

    def publish(self, model: Any) -> Manifest:
        """Put a model in the topic; it is there whole on return.

        Brokers that are away are waited for, as long as for a record.
        """
        try:
            log = self._log()
        except Unavailable:
            raise
        except SourceError:
            self._writer.require_same()  # which may tell why
            raise
        with closing(log):
            self._writer.require_same()
            return self._publisher.publish(model, log)

    def _log(self) -> TopicLog:
        limit = time.monotonic() + DELIVERY_SECONDS
        self.stop_deadline.start_wait()
        while True:
            try:
                return TopicLog(self.topic, self.stop_deadline.is_exhausted)
            except Unavailable:
                if self.stop_deadline.is_exhausted() or time.monotonic() > limit:
                    raise


def require_compacted(topic: Topic) -> None:
    """Refuse a topic that would drop a model, or keep all that ever were."""
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

    try:
        with closing(KafkaAdminClient(**topic.client_options())) as admin:
            asked = ConfigResource(ConfigResourceType.TOPIC, topic.name, {"cleanup.policy": None})
            told = admin.describe_configs([asked], config_filter="all")
        policy = told["topic"][topic.name]["cleanup.policy"]["value"]
    except Exception as error:
        raise write_error(topic, error) from None
    if policy != "compact":
        raise SourceError(
            f"{topic.url} would not keep a model: its cleanup.policy is {policy}, and must be "
            "compact; set it, or take another topic"
        )
