"""Where a model is published: a file, a checkpoint directory or a topic."""

from __future__ import annotations

import hashlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from streaml1 import models
from streaml1.models.serialization import ModelFileError
from streaml1.training.checkpoint import load_latest
from streaml1.training.checkpoint.ownership import list_files, path_of

__all__ = [
    "DirectorySource",
    "FileSource",
    "LoadedModel",
    "ModelSource",
    "TopicSource",
    "open_source",
]

VERSION_DIGITS = 12


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

    @property
    def name(self) -> str:
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

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def stamp(self) -> object:
        """Return what the file system tells of the file."""
        status = self._status()
        return status.st_mtime_ns, status.st_size, status.st_ino

    def load(self) -> LoadedModel:
        """Read the file."""
        published = self._status().st_mtime
        data = self.path.read_bytes()
        return LoadedModel(models.decode(data, self.path), version_of(data), published)

    def _status(self) -> os.stat_result:
        try:
            return self.path.stat()
        except FileNotFoundError:
            raise ModelFileError(f"{self.path} does not exist") from None

    def close(self) -> None:
        """Do nothing."""


class DirectorySource:
    """A directory of ``learn --checkpoint``, which another process may own."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def stamp(self) -> object:
        """Return the latest checkpoint file."""
        files = list_files(self.path)
        return files[0] if files else None

    def load(self) -> LoadedModel:
        """Read the latest intact checkpoint."""
        checkpoint = load_latest(self.path)
        if checkpoint is None:
            raise ModelFileError(f"{self.path} holds no readable checkpoint")
        data = checkpoint.model._encode(packed=False)
        newest = path_of(self.path, list_files(self.path)[0])
        return LoadedModel(checkpoint.model, version_of(data), newest.stat().st_mtime)

    def close(self) -> None:
        """Do nothing."""


class TopicSource:
    """A compacted topic of ``learn --publish``.

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
        self._log: Any = None

    def _connected(self) -> Any:
        from streaml1.training.model_registry.reader import TopicLog

        if self._log is None:
            self._log = TopicLog(self._topic)
        return self._log

    def stamp(self) -> object:
        """Return the id of the newest publication."""
        from streaml1.training.model_registry.reader import read_manifests

        try:
            manifests = read_manifests(self._connected())
        except Exception:
            self.close()  # connect anew next time
            raise
        return manifests[0].id if manifests else None

    def load(self) -> LoadedModel:
        """Read the newest complete model."""
        from streaml1.training.model_registry.reader import read_newest

        try:
            newest = read_newest(self._connected(), self.name)
        except Exception:
            self.close()
            raise
        if newest is None:
            raise ModelFileError(
                f"{self.name} holds no model yet; publish one with learn --publish"
            )
        published = datetime.fromisoformat(newest.manifest.time)
        if published.tzinfo is None:
            published = published.replace(tzinfo=UTC)
        model = models.decode(newest.data, self.name)
        return LoadedModel(model, version_of(newest.data), published.timestamp())

    def close(self) -> None:
        """Disconnect."""
        log, self._log = self._log, None
        if log is not None:
            log.close()


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
