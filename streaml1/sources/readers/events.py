"""JSON lines whose labels are delayed: ``{"id": 7, "x": {...}}``, later ``{"id": 7, "y": 1}``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from streaml1.sources.readers.jsonl import decode_object, read_features, read_label
from streaml1.sources.source import read_weight, shown

__all__ = ["Event", "event_of", "parse_event", "read_id"]

MAX_ID_LENGTH = 1000

MAX_TIME = 1e11
"""Seconds, in the year 5138. Larger times are in milliseconds or smaller units."""


class Event(NamedTuple):
    """An example without its label, a label without its example, or both at once.

    Parameters
    ----------
    id
        A string or an integer; None only if both features and label are present.
    x
        The features, or None.
    y, w
        The label as written and the sample weight, or None.
    time
        Seconds since 1970, or None.
    raw
        The text of the event, which `parse_event` can parse again, or None.
    """

    id: str | int | None
    x: dict[Any, Any] | None
    y: Any
    w: float | None
    time: float | None
    raw: str | None


def parse_event(text: str, timed: bool = True) -> tuple[Any, ...] | None:
    """Parse one line.

    Parameters
    ----------
    text
        The line: an object with an ``id`` and the features ``x``, the label ``y``, or both. A
        weight ``w`` may accompany either of them. ``time`` is in seconds since 1970 or in ISO 8601
        (UTC if it has no zone). Other members are ignored.
    timed
        Whether to read ``time``: records of a topic have times of their own.

    Returns
    -------
    The event in the place of the features, then no label, the weight 1 and the id; None for an
    empty line.

    Raises
    ------
    ValueError
        If the line is invalid; the text is one sentence.

    Examples
    --------
    >>> from streaml1.sources.readers.events import parse_event
    >>> event, *_ = parse_event('{"id": 7, "y": true, "time": 12.5}')
    >>> event.id, event.y, event.time
    (7, True, 12.5)
    """
    text = text.rstrip()
    if not text:
        return None
    try:
        example = decode_object(text)
        event = event_of(example, text, timed, partial(read_features, example))
    except RecursionError:
        raise ValueError("not an example: its values are nested too deeply") from None
    return event, None, 1.0, event.id


def event_of(
    example: Mapping[str, Any], raw: str | None, timed: bool, read: Callable[..., Any]
) -> Event:
    """Return the event in a mapping.

    Parameters
    ----------
    example
        The members `id`, `x`, `y`, `w` and `time`.
    raw
        The text of the event, or None.
    timed
        Whether to read `time`.
    read
        Returns the features; called only if there are any.

    Raises
    ------
    ValueError
        If the event is invalid; the text is one sentence.
    """
    y = read_label(example, require_label=False)
    x = read() if example.get("x") is not None else None
    id = read_id(example.get("id"))
    if x is None and y is None:
        raise ValueError('the event needs "x" (features), "y" (a label), or both')
    if id is None and (x is None or y is None):
        present, missing = ("y", "x") if x is None else ("x", "y")
        raise ValueError(f'"{present}" needs an "id" to be matched with its "{missing}"')
    w = example.get("w")
    time = _read_time(example.get("time")) if timed else None
    return Event(id, x, y, None if w is None else read_weight(w), time, raw)


def read_id(id: Any) -> str | int | None:
    """Return an id, which may be missing; raise ValueError if it is not one."""
    if isinstance(id, bool) or not (id is None or isinstance(id, (str, int))):
        raise ValueError(f'"id" must be a string or an integer, got {shown(id)}')
    if isinstance(id, str) and len(id) > MAX_ID_LENGTH:
        raise ValueError(f'"id" must have at most {MAX_ID_LENGTH:,} characters, got {len(id):,}')
    return id


def _read_time(time: Any) -> float | None:
    if time is None:
        return None
    if isinstance(time, str):
        try:
            moment = datetime.fromisoformat(time)
        except ValueError:
            moment = None
        if moment is not None:
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    elif not isinstance(time, bool):
        try:
            seconds = float(time)
        except (TypeError, OverflowError):
            seconds = float("inf")
        if abs(seconds) < MAX_TIME:
            return seconds
        if abs(seconds) < float("inf"):
            raise ValueError(
                f'"time" must be in seconds since 1970, got {shown(time)}: divide milliseconds by '
                "1000"
            )
    raise ValueError(
        f'"time" must be in seconds since 1970, or as in 2026-01-31T06:00Z, got {shown(time)}'
    )
