"""Content of pending examples and labels: bytes if it was read as text, else a tuple.

The body of an example is its place and its JSON text, separated by a newline. The body of a label
is a JSON list of label and weight.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import NamedTuple

from streaml1.sources.kafka.records import Origin
from streaml1.sources.readers.events import Event, parse_event
from streaml1.training.checkpoint.ownership import Unreadable

__all__ = [
    "ExampleBody",
    "LabelBody",
    "PendingExample",
    "PendingLabel",
    "decode_example",
    "decode_label",
    "encode_example",
    "encode_label",
    "origin_of_example",
]


class PendingExample(NamedTuple):
    """Place, features and sample weight of an example."""

    place: str
    x: Mapping[Hashable, object]
    w: float | None


class PendingLabel(NamedTuple):
    """A label as the model takes it, and the sample weight."""

    y: Hashable
    w: float | None


ExampleBody = bytes | PendingExample
LabelBody = bytes | PendingLabel


def encode_example(place: str, event: Event) -> ExampleBody:
    """Return the body of an example."""
    if event.raw is None:
        assert event.x is not None
        return PendingExample(place, event.x, event.w)
    return f"{place}\n{event.raw}".encode()


def decode_example(body: ExampleBody) -> PendingExample:
    """Return the example of a body."""
    if isinstance(body, tuple):
        return body
    place, _, raw = body.partition(b"\n")
    try:
        parsed = parse_event(raw.decode(), timed=False)
        assert parsed is not None
        event = parsed[0]
        return PendingExample(place.decode(), event.x, event.w)
    except (ValueError, AssertionError, RecursionError):
        raise _foreign() from None


def origin_of_example(body: ExampleBody) -> Origin | None:
    """Return the coordinates of an example in a topic; None for other sources."""
    if isinstance(body, tuple):
        return None
    place, _, raw = body.partition(b"\n")
    return Origin.from_place(place.decode(), raw)


def encode_label(y: Hashable, event: Event) -> LabelBody:
    """Return the body of a label."""
    if event.raw is None:
        return PendingLabel(y, event.w)
    return json.dumps([y, event.w]).encode()


def decode_label(body: LabelBody) -> PendingLabel:
    """Return the label of a body."""
    if isinstance(body, tuple):
        return body
    try:
        y, w = json.loads(body)
    except (ValueError, TypeError, RecursionError):
        raise _foreign() from None
    if not isinstance(y, str | int | float) or not isinstance(w, int | float | None):
        raise _foreign()
    return PendingLabel(y, w)


def _foreign() -> Unreadable:
    return Unreadable(
        "the log of delayed labels has an entry that streaml1 did not write; use another directory"
    )
