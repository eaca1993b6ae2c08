"""Where a model is published: a file, a checkpoint directory or a topic."""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from streaml1 import models
from streaml1.core import exit_codes as exits
from streaml1.core.named_options import by_caller
from streaml1.models.pipelines import snapshot
from streaml1.models.serialization import ModelFileError
from streaml1.sources.source import SourceError
from streaml1.training.checkpoint import (
    load_latest_file,
    partition_directories,
    several_models,
)
from streaml1.training.checkpoint.ownership import list_files, path_of

if TYPE_CHECKING:
    from streaml1.sources.kafka.topic import Topic

__all__ = [
    "DirectorySource",
    "FileSource",
    "LoadedModel",
    "ModelSource",
    "NotPublished",
    "TopicSource",
    "open_source",
]

logger = logging.getLogger("streaml1")

VERSION_DIGITS = 12


class NotPublished(ModelFileError):
    """The place holds no model yet, which may change."""

    exit_code = exits.TEMPORARY_FAILURE


class LoadedModel(NamedTuple):
    """A model that was read.

    Parameters
    ----------
    model
        The model.
    version
        The first digits of the SHA-256 of what was read.
    published
        Time of the publication, in seconds since 1970.
    """

    model: Any
    version: str
    published: float


class ModelSource(Protocol):
    """A place where one process publishes models and others read the newest."""

    name: str
    """The place as the user wrote it."""

    def stamp(self) -> object:
        """Return a value that changes with each publication, at little cost.

        Raises
        ------
        OSError, SourceError, ModelFileError
            If the place cannot be read now.
        """

    def load(self) -> LoadedModel:
        """Read the newest model.

        Raises
        ------
        OSError, SourceError, ModelFileError
            If there is none, or it cannot be read now.
        """

    def close(self) -> None:
        """Disconnect."""


class FileSource:
    """A file that ``learn --save`` or `save` replaces atomically."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = str(self.path)

    def stamp(self) -> object:
        """Return what the file system reports about the file."""
        status = self._status()
        return status.st_mtime_ns, status.st_size, status.st_ino

    def load(self) -> LoadedModel:
        """Read the file."""
        published = self._status().st_mtime
        data = self.path.read_bytes()
        return LoadedModel(models.decode(data, self.path), version_of(data), published)

    def _status(self) -> os.stat_result:
        try:
            status = self.path.stat()
        except FileNotFoundError:
            raise ModelFileError(f"{self.path} does not exist") from None
        # Reading a named pipe would wait for a writer; reading a directory is an error anyway.
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
            raise ModelFileError(f"{self.path} is not a regular file; save the model there again")
        return status

    def close(self) -> None:
        """Do nothing."""


class DirectorySource:
    """A directory of ``learn --checkpoint``, which another process may own."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.name = str(self.path)

    def stamp(self) -> object:
        """Return the latest checkpoint file, and what the file system reports about it.

        A run that starts over in an emptied directory numbers its checkpoints as the one before.
        """
        files = list_files(self.path)
        if not files:
            return None
        status = path_of(self.path, files[0]).stat()
        return files[0], status.st_mtime_ns, status.st_ino

    def load(self) -> LoadedModel:
        """Read the latest intact checkpoint."""
        reasons: list[str] = []
        found = load_latest_file(self.path, reasons.append)
        if found is None:
            if partitions := partition_directories(self.path):
                raise several_models(self.path, partitions)
            if not reasons and self.path.is_dir():
                raise NotPublished(f"{self.path} holds no checkpoint yet")
            why = f": {reasons[0]}" if reasons else ""
            raise ModelFileError(f"{self.path} holds no readable checkpoint{why}")
        if reasons:
            logger.warning("%s; using the previous checkpoint", reasons[0])
        checkpoint, path = found
        data = snapshot(checkpoint.model)()  # as `learn --save` and `--publish` write it
        return LoadedModel(checkpoint.model, version_of(data), path.stat().st_mtime)

    def close(self) -> None:
        """Do nothing."""


class _PublishedModels:
    """The models in a topic of ``learn --publish``."""

    def __init__(self, topic: Topic) -> None:
        from streaml1.training.model_registry.reader import TopicLog

        self._url, self._log = topic.url, TopicLog(topic)
        self.close = self._log.close

    def stamp(self) -> object:
        """Return the id of the newest publication."""
        from streaml1.training.model_registry.reader import read_manifests

        manifests = read_manifests(self._log)
        return manifests[0].id if manifests else None

    def load(self) -> LoadedModel:
        """Read the newest complete model."""
        from streaml1.training.model_registry.reader import read_newest

        newest = read_newest(self._log, self._url)
        if newest is None:
            raise NotPublished(
                f"{self._url} holds no model yet; publish one with "
                f"{by_caller('learn --publish', 'ModelPublisher')}"
            )
        published = datetime.fromisoformat(newest.manifest.time)
        if published.tzinfo is None:
            published = published.replace(tzinfo=UTC)
        model = models.decode(newest.data, self._url)
        return LoadedModel(model, version_of(newest.data), published.timestamp())


class _MixedModel:
    """The model in a topic of ``learn --mixed``."""

    def __init__(self, topic: Topic) -> None:
        from streaml1.training.mixed_models.reader import MixReader

        self._url, self._reader = topic.url, MixReader(topic, lambda: False)
        self.close = self._reader.close

    def stamp(self) -> object:
        """Return the id of the newest merge."""
        self._reader.read_to_end()
        return self._reader.state.base_id or None

    def load(self) -> LoadedModel:
        """Read the newest merge."""
        self._reader.read_to_end()
        base = self._reader.state.base
        if base is None:
            member = by_caller("learn --mixed", "a MixedGroup")
            raise NotPublished(f"{self._url} holds no model yet; start {member}")
        model = models.decode(base.data, self._url)
        return LoadedModel(model, version_of(base.data), self._reader.published)


class TopicSource:
    """A compacted topic of ``learn --publish`` or ``learn --mixed``.

    Parameters
    ----------
    url
        The topic, ``kafka://host:port/topic``.
    security
        How to connect, as for `Topic`.
    """

    def __init__(self, url: str, security: Any = None) -> None:
        from streaml1.sources.kafka.topic import Topic

        self.name = url
        self._topic = Topic(url, security)
        self._models: _PublishedModels | _MixedModel | None = None

    def _connected(self) -> _PublishedModels | _MixedModel:
        from streaml1.sources.kafka.producer import topic_exists
        from streaml1.training.mixed_models.reader import holds_mixed_model

        if self._models is None:
            # kafka-python takes an unknown topic for a broker that does not answer.
            if not topic_exists(self._topic):
                raise SourceError(
                    f"{self.name}: topic {self._topic.name} does not exist; "
                    f"{by_caller('learn --publish', 'ModelPublisher')} creates it"
                )
            kind = _MixedModel if holds_mixed_model(self._topic) else _PublishedModels
            self._models = kind(self._topic)
        return self._models

    def stamp(self) -> object:
        """Return the id of the newest publication or merge."""
        try:
            return self._connected().stamp()
        except Exception:
            self.close()  # reconnect next time
            raise

    def load(self) -> LoadedModel:
        """Read the newest complete model."""
        try:
            return self._connected().load()
        except Exception:
            self.close()
            raise

    def close(self) -> None:
        """Disconnect."""
        connected, self._models = self._models, None
        if connected is not None:
            connected.close()


def open_source(place: str, security: Any = None) -> ModelSource:
    """Return the source for a path or a topic URL.

    Examples
    --------
    >>> open_source("clicks.model").name
    'clicks.model'
    """
    if place.startswith("kafka:"):
        return TopicSource(place, security)
    return DirectorySource(place) if os.path.isdir(place) else FileSource(place)


def version_of(data: bytes) -> str:
    """Return the version of an encoded model."""
    return hashlib.sha256(data).hexdigest()[:VERSION_DIGITS]
