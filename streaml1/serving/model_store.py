"""The current models, replaced while requests are answered."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Hashable, Mapping
from typing import Any

from streaml1.core.exit_codes import os_reason
from streaml1.models.serialization import ModelFileError
from streaml1.serving.model_source import ModelSource
from streaml1.serving.served_model import ServedModel
from streaml1.sources.source import SourceError

__all__ = ["ModelStore"]

logger = logging.getLogger("streaml1")

CHECK_SECONDS = 0.5
"""Interval of checks for a new publication."""

READ_ERRORS = (OSError, SourceError, ModelFileError)


class ModelStore:
    """The newest model of each source, by name; the first is the default.

    A new version is read and frozen next to the current one, and then replaces it by one
    assignment: a request sees one version or the other. A version that cannot be read is reported
    once, and the current one stays.

    Parameters
    ----------
    sources
        The sources by name.

    Raises
    ------
    OSError, SourceError, ModelFileError
        If a model cannot be read.
    """

    def __init__(self, sources: Mapping[str, ModelSource]) -> None:
        self._sources = dict(sources)
        self._stamps: dict[str, object] = {}
        self._failures: dict[str, str] = {}  # by name: why the newest version cannot be read
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self.models: dict[str, ServedModel] = {}
        for name in self._sources:
            self._load(name)

    def __enter__(self) -> ModelStore:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def default(self) -> ServedModel:
        """The model of requests that name none."""
        return next(iter(self.models.values()))

    @property
    def failures(self) -> dict[str, str]:
        """Why newest versions cannot be read, by name."""
        return dict(self._failures)

    def start(self, seconds: float = CHECK_SECONDS) -> None:
        """Watch the sources in the background until `close`."""
        for name in self._sources:
            thread = threading.Thread(
                target=self._watch, args=(name, seconds), name=f"streaml1-{name}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def close(self) -> None:
        """Stop watching, and disconnect."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=5.0)
        for source in self._sources.values():
            source.close()

    def refresh(self, name: str) -> bool:
        """Load a model if another version was published; return whether it was replaced."""
        try:
            if self._sources[name].stamp() == self._stamps.get(name):
                self._failures.pop(name, None)  # what was missing is back
                return False
            before = self.models[name].version
            self._load(name)
        except Exception as error:  # a version that cannot be read must not end the watch
            reason = self._reason(name, error)
            if self._failures.get(name) != reason:
                logger.warning("%s: %s; serving the version before", name, reason)
            self._failures[name] = reason
            return False
        return self.models[name].version != before

    def _reason(self, name: str, error: Exception) -> str:
        if isinstance(error, OSError):
            return f"{self._sources[name].name}: {os_reason(error)}"
        return str(error) if isinstance(error, READ_ERRORS) else repr(error)

    def _load(self, name: str) -> None:
        source = self._sources[name]
        # The stamp first: a publication in between is then found by the next check.
        stamp = source.stamp()
        model = ServedModel.of(name, source.name, source.load())
        _warm(model)
        self.models[name] = model
        self._stamps[name] = stamp
        self._failures.pop(name, None)

    def _watch(self, name: str, seconds: float) -> None:
        seconds = min(seconds, threading.TIMEOUT_MAX)
        while not self._stop.wait(seconds):
            begin, before = time.monotonic(), self.models[name].kind
            if self.refresh(name):
                model = self.models[name]
                took = time.monotonic() - begin
                kind = "" if model.kind == before else f", {model.kind} instead of {before}"
                logger.info("%s: version %s loaded in %.2f s%s", name, model.version, took, kind)


def _warm(model: ServedModel) -> None:
    """Compile what the first request would wait for."""
    examples: tuple[dict[Hashable, Any], ...] = ({}, {"a": "b"}, {"a": 1.0})
    for x in examples:
        model.predict(x)
