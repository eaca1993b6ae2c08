"""Refused examples of a topic, put aside in another one for somebody to look at."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from streaml1.consumer.outs import Out, Refused
from streaml1.streams.outbox import Header, Outbox, topic_beside
from streaml1.streams.source import SourceError
from streaml1.streams.topic import Topic

__all__ = ["DeadLetters", "record_key"]

ENDING = ".dlq"


def record_key(origin: Any) -> str:
    """What tells an example of a topic from all others: ``clicks-0-1047``, ``clicks-0-1047:2``.

    A record that was written twice has the same key twice.
    """
    key = f"{origin.topic}-{origin.partition}-{origin.offset}"
    return f"{key}:{origin.line}" if origin.line else key


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

    def __init__(self, source: str, topic: str | None = None) -> None:
        read = Topic(source)
        self._outbox = Outbox(topic_beside(read, topic or f"{read.name}{ENDING}"))
        self.url = self._outbox.topic.url

    def __enter__(self) -> DeadLetters:
        return self

    def __exit__(self, *error: object) -> None:
        self._outbox.close()

    def refused(self, refused: Refused) -> None:
        """Hand a dead letter over; `flush` waits for it."""
        origin = refused.origin
        if origin is None:
            raise SourceError(f"{refused.place} cannot be put aside: it was not read from a topic")
        self._outbox.send(
            record_key(origin), origin.value, _headers(refused, origin), origin.partition
        )

    def flush(self) -> None:
        """Return once all that was refused is in the topic."""
        self._outbox.flush()


def _headers(refused: Refused, origin: Any) -> list[Header]:
    told = {
        "reason": refused.reason,
        "topic": origin.topic,
        "partition": origin.partition,
        "offset": origin.offset,
        "line": origin.line,
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    headers = [(name, str(value).encode("utf-8", "replace")) for name, value in told.items()]
    return headers if origin.key is None else [*headers, ("key", origin.key)]
