"""What is kept of an example or a label until the other comes: bytes, where it was read as text."""

from __future__ import annotations

import json
from typing import Any

from streaml1.sources.kafka.records import Origin
from streaml1.sources.readers.events import Event, parse_event

__all__ = ["example_body", "kept_example", "kept_label", "label_body", "origin_of"]


def example_body(place: str, event: Event) -> Any:
    """What is kept of an example: the text it was read from."""
    if event.raw is None:
        return place, event.x, event.w
    return f"{place}\n{event.raw}".encode()


def kept_example(body: Any) -> tuple[str, Any, float | None]:
    """Place, features and weight of an example."""
    if isinstance(body, tuple):
        return body
    place, _, raw = body.partition(b"\n")
    read = parse_event(raw.decode(), timed=False)
    assert read is not None
    return place.decode(), read[0].x, read[0].w


def origin_of(body: Any) -> Origin | None:
    """Where an example of a topic stands, and its text; None for one of another source."""
    if isinstance(body, tuple):
        return None
    place, _, raw = body.partition(b"\n")
    return Origin.from_place(place.decode(), raw)


def label_body(y: Any, event: Event) -> Any:
    """What is kept of a label, as the model takes it."""
    if event.raw is None:
        return y, event.w
    return json.dumps([y, event.w]).encode()


def kept_label(body: Any) -> tuple[Any, float | None]:
    """Label and weight."""
    if isinstance(body, tuple):
        return body
    y, w = json.loads(body)
    return y, w
