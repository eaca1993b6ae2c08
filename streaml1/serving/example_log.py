"""Labelled examples and late labels, written to a topic, which remains the truth."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from streaml1.sources.kafka.producer import TopicWriter, as_topic
from streaml1.sources.source import SourceError

__all__ = ["ExampleLog"]


class _Entry(NamedTuple):
    """Records of one request, as (key, value), and what is done once they are in the topic."""

    records: Sequence[tuple[str, bytes]]
    done: Future[None]


class ExampleLog:
    """Writes records to a topic in the background; requests that come together share a flush.

    Parameters
    ----------
    url
        The topic, ``kafka://host:port/topic``; created if it does not exist.
    security
        How to connect.

    Raises
    ------
    SourceError
        If the topic cannot be written.
    """

    def __init__(self, url: str, security: Any = None) -> None:
        from streaml1.sources.kafka.topic import Topic

        self._writer = TopicWriter(Topic(url, security) if security else as_topic(url))
        self._stopping = threading.Event()
        self._writer.stop_deadline.set_stop(self._stopping.is_set)
        self._entries: queue.SimpleQueue[_Entry | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="streaml1-log", daemon=True)
        self._thread.start()

    def write(self, records: Sequence[tuple[str, bytes]]) -> Future[None]:
        """Write records; the future is done once all of them are in the topic.

        Its exception is a `SourceError` if they are not.
        """
        entry = _Entry(records, Future())
        self._entries.put(entry)
        return entry.done

    def stop(self) -> None:
        """Give up records that no broker accepts within seconds; others are still written."""
        self._stopping.set()

    def close(self) -> None:
        """Write what is left, and disconnect."""
        self.stop()
        self._entries.put(None)
        self._thread.join(timeout=10.0)
        self._writer.close()

    def _run(self) -> None:
        while (entry := self._entries.get()) is not None:
            entries, ended = [entry], False
            while not self._entries.empty():
                following = self._entries.get()
                if following is None:
                    ended = True
                    break
                entries.append(following)
            self._write(entries)
            if ended:
                return

    def _write(self, entries: list[_Entry]) -> None:
        try:
            for entry in entries:
                for key, value in entry.records:
                    self._writer.send(key, value)
            self._writer.flush()
        except SourceError as error:
            for entry in entries:
                entry.done.set_exception(error)
            return
        for entry in entries:
            entry.done.set_result(None)
