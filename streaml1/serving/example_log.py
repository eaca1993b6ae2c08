"""Labelled examples and late labels, written to a topic, which remains the truth."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from streaml1.sources.kafka.producer import TopicWriter, write_error
from streaml1.sources.source import SourceError, Unavailable

__all__ = ["ExampleLog"]


class _Entry(NamedTuple):
    """Records of one request, as (key, value), and what is done once they are in the topic."""

    records: Sequence[tuple[str, bytes]]
    done: Future[None]


class _Sent(NamedTuple):
    """An entry, and the future of the topic for each of its records that was sent."""

    entry: _Entry
    futures: list[Any]


class ExampleLog:
    """Writes records to a topic in the background; requests that come together share a flush.

    A record that cannot be written fails its own request only. A `TopicWriter` that has failed
    remains so: the next records are written by a new one.

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
        self._url, self._security = url, security
        self._stopping = threading.Event()
        self._writer: TopicWriter | None = None
        self._connected()
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
        self._disconnect()

    def _connected(self) -> TopicWriter:
        from streaml1.sources.kafka.topic import Topic

        if self._writer is None:
            # A new `Topic`, as it remembers the id of one that was deleted.
            self._topic = Topic(self._url, self._security)
            self._writer = TopicWriter(self._topic)
            self._writer.stop_deadline.set_stop(self._stopping.is_set)
        return self._writer

    def _disconnect(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

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
        while entries:
            entries = self._try_to_write(entries)

    def _try_to_write(self, entries: list[_Entry]) -> list[_Entry]:
        """Write entries; return what is left of those that a record of another one held up."""
        sent = [_Sent(entry, []) for entry in entries]
        try:
            writer = self._connected()
            for entry, futures in sent:
                for key, value in entry.records:
                    futures.append(writer.send(key, value))
            writer.flush()
        except SourceError as error:
            failures = [self._failure(*each) for each in sent]
            self._disconnect()  # writes what can still be written
            return _settle(sent, failures, error)
        for entry in entries:
            entry.done.set_result(None)
        return []

    def _failure(self, entry: _Entry, futures: list[Any]) -> SourceError | None:
        """Return why a record of an entry was not accepted; None if none was refused."""
        for (key, _), future in zip(entry.records, futures, strict=False):
            if future.is_done and not future.succeeded():
                failure = write_error(self._topic, future.exception, key)
                if not isinstance(failure, Unavailable):
                    return failure
        return None


def _settle(
    sent: list[_Sent], failures: list[SourceError | None], error: SourceError
) -> list[_Entry]:
    """Report what has become of entries after an error; return those that it was not about."""
    is_about_a_record = not isinstance(error, Unavailable) and any(failures)  # else about all
    left = []
    for (entry, futures), failure in zip(sent, failures, strict=True):
        n = len(futures)
        missing = [
            record for k, record in enumerate(entry.records) if k >= n or not futures[k].succeeded()
        ]
        if not missing:
            entry.done.set_result(None)
        elif failure is None and is_about_a_record:
            left.append(_Entry(missing, entry.done))
        else:
            entry.done.set_exception(failure or error)
    return left
