"""Structured log events: sentences for people, or JSON lines for machines."""

from __future__ import annotations

import itertools
import json
import logging
import math
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

__all__ = ["JsonFormatter", "event", "json_line", "wants_json"]


def event(name: str, **fields: Any) -> dict[str, Any]:
    """Return the `extra` of a call to the logger "streaml1": an event's name and its fields."""
    return {"event": name, "fields": fields}


def json_line(level: str, name: str, message: str, fields: Mapping[str, Any]) -> str:
    """Return a JSON object with the time, the level, the event, the message and the fields.

    Examples
    --------
    >>> from streaml1.core.logging import json_line
    >>> json_line("info", "line", "a line", {"examples": 10, "loss": float("nan")})
    '{"time": "...", "level": "info", "event": "line", "message": "a line", "examples": 10, ...}'

    """
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    record = {"time": now, "level": level, "event": name, "message": message, **fields}
    values = {key: _to_json(value) for key, value in record.items()}
    return json.dumps(values, allow_nan=False)


def wants_json(args: Sequence[str]) -> bool:
    """Return whether the arguments of the command line or the environment select JSON."""
    form = os.environ.get("STREAML1_LOG", "")
    for arg, following in itertools.pairwise([*args, ""]):
        if arg == "--log" or arg.startswith("--log="):
            form = following if arg == "--log" else arg.removeprefix("--log=")
    return form == "json"


class JsonFormatter(logging.Formatter):
    """A log formatter that writes one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as a line of JSON."""
        fields = getattr(record, "fields", {})
        if record.exc_info and record.exc_info[0] is not None:
            fields = {**fields, "error": record.exc_info[0].__name__}
        name = getattr(record, "event", "message")
        return json_line(record.levelname.lower(), name, record.getMessage(), fields)


def _to_json(value: Any) -> Any:
    """Convert a value to types that JSON has; NaN and infinity to None."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    return str(value)
