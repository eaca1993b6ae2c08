"""What a program says beside its output: sentences, or JSON for machines, one object a line."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

__all__ = ["JsonLines", "event", "json_line"]


def event(name: str, **fields: Any) -> dict[str, Any]:
    """What a call of the logger "streaml1" takes as `extra`: what happened, and its facts."""
    return {"event": name, "fields": fields}


def json_line(level: str, name: str, message: str, fields: Mapping[str, Any]) -> str:
    """One object: time, level, event, message, and the fields of the event.

    Examples
    --------
    >>> from streaml1.core.logging import json_line
    >>> json_line("info", "line", "a line", {"examples": 10, "loss": float("nan")})
    '{"time": "...", "level": "info", "event": "line", "message": "a line", "examples": 10, ...}'

    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    told = {"time": now, "level": level, "event": name, "message": message, **fields}
    return json.dumps({key: _plain(value) for key, value in told.items()}, allow_nan=False)


class JsonLines(logging.Formatter):
    """A record of the logger as one object."""

    def format(self, record: logging.LogRecord) -> str:
        """One line of JSON."""
        fields = getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            fields = {**fields, "error": record.exc_info[0].__name__}
        name = getattr(record, "event", "message")
        return json_line(record.levelname.lower(), name, record.getMessage(), fields)


def _plain(value: Any) -> Any:
    """What JSON holds: no number that is not finite, and nothing but plain types."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value)
