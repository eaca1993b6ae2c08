"""Dead letters: rejected examples of a topic, written to another topic."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from streaml1.core.named_options import by_caller
from streaml1.sources.kafka.output_topics import output_topic
from streaml1.sources.kafka.producer import Header, TopicWriter, as_topic
from streaml1.sources.kafka.records import Origin
from streaml1.sources.kafka.topic import Topic
from streaml1.sources.kafka.wire_format import SCHEMA_ID
from streaml1.sources.source import SourceError
from streaml1.training.observers import Observer, Rejected
from streaml1.training.record_coordinates import coordinates, record_key

__all__ = ["SUFFIX", "DeadLetters"]

SUFFIX = ".dlq"
"""Suffix of the default topic."""


class DeadLetters(Observer):
    """Observer that writes each rejected example to a topic.

    A record has the bytes of the example as value, its coordinates as key, and reason, coordinates
    and time in headers. Use it as a context manager, and pass it to `progressive` among
    `observers`, with ``bad="skip"``.

    Parameters
    ----------
    source
        The topic that is read, ``kafka://host:port/topic``.
    topic
        The topic to write to, by name at the same brokers, or by URL. By default the name of the
        source with the suffix ``.dlq``. It is created if it does not exist.

    Raises
    ------
    SourceError
        If `source` is not a topic, or the other topic cannot be written.
    """

    essential = True

    def __init__(self, source: str | Topic, topic: str | None = None) -> None:
        read = as_topic(source)
        self._writer = TopicWriter(output_topic(read, topic or f"{read.name}{SUFFIX}"))
        self.url = self._writer.topic.url
        self.written = 0

    def __enter__(self) -> DeadLetters:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def set_stop(self, stopped: Callable[[], bool]) -> None:
        """Set the stop condition, after which `flush` waits only while brokers make progress."""
        self._writer.stop_deadline.set_stop(stopped)

    def on_rejected(self, rejected: Rejected) -> None:
        """Send a dead letter; `flush` waits for it."""
        origin = rejected.origin
        if origin is None:
            raise SourceError(
                f"dead letters need examples of a topic, got {rejected.place}; use "
                f"{by_caller('--bad skip', 'no DeadLetters')}"
            )
        key, headers = record_key(rejected.place, origin), _headers(rejected, origin)
        self._writer.send(key, origin.value, headers, origin.partition)
        self.written += 1

    def flush(self) -> None:
        """Wait until all dead letters are in the topic."""
        self._writer.flush()

    def metrics(self) -> dict[str, float]:
        """Return the number of dead letters of this process."""
        return {"dead_letters_total": float(self.written)}


def _headers(rejected: Rejected, origin: Origin) -> list[Header]:
    fields: dict[str, Any] = {
        "reason": rejected.reason,
        **coordinates(rejected.place, origin),
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    headers = [(name, str(value).encode("utf-8", "replace")) for name, value in fields.items()]
    if origin.schema_id:  # without it the value could not be decoded
        headers.append((SCHEMA_ID, origin.schema_id))
    return headers if origin.key is None else [*headers, ("key", origin.key)]
