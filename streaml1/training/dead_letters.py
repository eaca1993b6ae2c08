"""Refused examples of a topic, put aside in another one for somebody to look at."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from streaml1.sources.kafka.producer import Header, TopicWriter, as_topic, output_topic
from streaml1.sources.kafka.topic import Topic
from streaml1.sources.source import SourceError
from streaml1.training.observers import Out, Refused
from streaml1.training.record_coordinates import coordinates, record_key

__all__ = ["DeadLetters"]

ENDING = ".dlq"


class DeadLetters(Out):
    """Writes each refused example to a topic, with the reason and where it stands in headers.

    A context manager: give it to `progressive` as one of `outs`, with ``bad="skip"``.

    Parameters
    ----------
    source
        The topic that is read, ``kafka://host:port/topic``.
    topic
        Where to: a topic of the same brokers, or a URL. By default the source's with ``.dlq``. It
        is made where it is not there.

    Raises
    ------
    SourceError
        Where `source` is no topic, or the other cannot be written.
    """

    def __init__(self, source: str | Topic, topic: str | None = None) -> None:
        read = as_topic(source)
        self._writer = TopicWriter(output_topic(read, topic or f"{read.name}{ENDING}"))
        self.url = self._writer.topic.url
        self.written = 0

    def __enter__(self) -> DeadLetters:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def heed(self, stopped: Callable[[], bool]) -> None:
        """Once stopped, wait only as long as brokers take something."""
        self._writer.stop_deadline.set_stop(stopped)

    def refused(self, refused: Refused) -> None:
        """Hand a dead letter over; `flush` waits for it."""
        origin = refused.origin
        if origin is None:
            raise SourceError(f"{refused.place} cannot be put aside: it was not read from a topic")
        key, headers = record_key(refused.place, origin), _headers(refused)
        self._writer.send(key, origin.value, headers, origin.partition)
        self.written += 1

    def flush(self) -> None:
        """Return once all that was refused is in the topic."""
        self._writer.flush()

    def numbers(self) -> dict[str, float]:
        """How many there were in this process."""
        return {"dead_letters_total": float(self.written)}


def _headers(refused: Refused) -> list[Header]:
    origin = refused.origin
    told: dict[str, Any] = {
        "reason": refused.reason,
        **coordinates(refused.place, origin),
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    headers = [(name, str(value).encode("utf-8", "replace")) for name, value in told.items()]
    return headers if origin.key is None else [*headers, ("key", origin.key)]
