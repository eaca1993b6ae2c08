"""How what is written about an example tells where the example stands."""

from __future__ import annotations

from typing import Any

__all__ = ["coordinates", "record_key"]


def record_key(place: str, origin: Any) -> str:
    """What tells an example from all others: ``clicks-0-1047``, or ``clicks-0-1047:2`` for a line.

    What is written twice about it has the same key twice. An example that is not of a topic has its
    place for one.
    """
    if origin is None:
        return place
    key = f"{origin.topic}-{origin.partition}-{origin.offset}"
    return f"{key}:{origin.line}" if origin.line else key


def coordinates(place: str, origin: Any) -> dict[str, Any]:
    """The same in parts; the line only where a record has several."""
    if origin is None:
        return {"place": place}
    told = {"topic": origin.topic, "partition": origin.partition, "offset": origin.offset}
    return told | {"line": origin.line} if origin.line else told
