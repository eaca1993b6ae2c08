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
        for entry in self._try_to_write(entries):
            self._try_to_write([entry])

    def _try_to_write(self, entries: list[_Entry]) -> list[_Entry]:
        """Write entries together; return the unwritten parts of those to try again, each alone.

        kafka-python fails all records that it holds once one is refused. So only a record that is
        refused without others is known to be the cause.
        """
        sent, left = [_Sent(entry, []) for entry in entries], list[_Entry]()
        try:
            writer = self._connected()
            for entry, futures in sent:
                for key, value in entry.records:
                    futures.append(writer.send(key, value))
            writer.flush()
        except SourceError as error:
            is_silent = isinstance(error, Unavailable)
            causes = [error if is_silent else self._refusal(*each) or error for each in sent]
            self._disconnect()  # writes what can still be written
            for each, cause in zip(sent, causes, strict=True):
                if missing := _settle(*each, cause, retries=len(sent) > 1 and not is_silent):
                    left.append(missing)
            return left
        for entry in entries:
            entry.done.set_result(None)
        return []

    def _refusal(self, entry: _Entry, futures: list[Any]) -> SourceError | None:
        """Return why a record of an entry was refused, the largest if several were; else None."""
        pairs = zip(entry.records, futures, strict=False)
        for (key, _), future in sorted(pairs, key=lambda pair: -len(pair[0][1])):
            if future.is_done and not future.succeeded():
                failure = write_error(self._topic, future.exception, key)
                if not isinstance(failure, Unavailable):
                    return failure
        return None


def _settle(entry: _Entry, futures: list[Any], cause: SourceError, retries: bool) -> _Entry | None:
    """Report what has become of an entry, or return its missing records to be tried again."""
    written = [future.succeeded() for future in futures]
    written += [False] * (len(entry.records) - len(written))
    missing = [record for record, done in zip(entry.records, written, strict=True) if not done]
    if not missing:
        entry.done.set_result(None)
    elif retries:
        return _Entry(missing, entry.done)
    else:
        entry.done.set_exception(cause)
    return None
