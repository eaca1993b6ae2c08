"""Keys and coordinates of records about an example: predictions and dead letters."""

from __future__ import annotations

from streaml1.sources.kafka.records import Origin

__all__ = ["coordinates", "record_key"]


def record_key(place: str, origin: Origin | None) -> str:
    """Return the key of records about an example.

    It identifies the example, so that consumers can drop duplicates: ``clicks-0-1047``, or
    ``clicks-0-1047:2`` for line 2 of a record. Without an `origin` in a topic, it is the place.
    """
    if origin is None:
        return place
    key = f"{origin.topic}-{origin.partition}-{origin.offset}"
    return f"{key}:{origin.line}" if origin.line else key


def coordinates(place: str, origin: Origin | None) -> dict[str, str | int]:
    """Return the coordinates of an example by name; the line only if a record has several."""
    if origin is None:
        return {"place": place}
    fields: dict[str, str | int] = {
        "topic": origin.topic, "partition": origin.partition, "offset": origin.offset
    }  # fmt: skip
    return fields | {"line": origin.line} if origin.line else fields
