"""JSON lines whose labels come later: ``{"id": 7, "x": {...}}``, then ``{"id": 7, "y": 1}``."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from streaml1.sources.readers.jsonl import decoded, features, raw_label
from streaml1.sources.source import read_weight, shown

__all__ = ["Event", "event_of", "parse_event"]

LONGEST_ID = 1000


class Event(NamedTuple):
    """An example without its label, a label without its example, or both at once.

    Parameters
    ----------
    id
        A text or a whole number; None only where features and label are both there.
    x
        The features, or None.
    y, w
        The raw label and the sample weight, or None.
    time
        In seconds since 1970, or None.
    raw
        The text it was read from, for `parse_event` to read again, or None.
    """

    id: str | int | None
    x: dict[Any, Any] | None
    y: Any
    w: float | None
    time: float | None
    raw: str | None


def parse_event(text: str, timed: bool = True) -> tuple[Any, ...] | None:
    """Read one line.

    Parameters
    ----------
    text
        The line: an object with an ``id`` and the features ``x``, the label ``y``, or both. The
        weight ``w`` may stand beside either, ``time`` in seconds since 1970 or as ISO 8601 (in UTC
        where it has no zone). Other names are left out.
    timed
        Whether to look at ``time``: records of a topic have times of their own.

    Returns
    -------
    The event, as readers of lines give it: no label, the weight 1, its id; None for an empty line.

    Raises
    ------
    ValueError
        One sentence that says what is wrong with the line.

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
        example = decoded(text)
        event = event_of(example, text, timed, partial(features, example))
    except RecursionError:
        raise ValueError("not an example: its values are nested too deeply") from None
    return event, None, 1.0, event.id


def event_of(example: Any, raw: str | None, timed: bool, read: Any) -> Event:
    """An event from a mapping; `read` gives its features, where there are any.

    Raises
    ------
    ValueError
        One sentence that says what is wrong with it.

    """
    y = raw_label(example, require_label=False)
    x = read() if example.get("x") is not None else None
    id = _id(example.get("id"))
    if x is None and y is None:
        raise ValueError('neither "x" nor "y" is there: an example asks by x, a label answers by y')
    if id is None and (x is None or y is None):
        there, missing = ("y", "x") if x is None else ("x", "y")
        raise ValueError(f'"{there}" has no "id" by which its "{missing}" could find it')
    w = example.get("w")
    time = _time(example.get("time")) if timed else None
    return Event(id, x, y, None if w is None else read_weight(w), time, raw)


def _id(id: Any) -> str | int | None:
    if isinstance(id, bool) or not (id is None or isinstance(id, (str, int))):
        raise ValueError(f'"id" is {shown(id)}: it must be a text or a whole number')
    if isinstance(id, str) and len(id) > LONGEST_ID:
        raise ValueError(f'"id" has {len(id):,} characters: it may have {LONGEST_ID:,}')
    return id


def _time(time: Any) -> float | None:
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
        if abs(seconds) < 1e15:
            return seconds
    raise ValueError(
        f'"time" is {shown(time)}: it must be in seconds since 1970, or as in 2026-01-31T06:00Z'
    )
