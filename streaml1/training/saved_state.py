"""Checks of JSON values in a checkpoint: an attacker who writes one writes its checksum, too.

What the code of a run relies on is checked when the state is restored, so that an altered
checkpoint is rejected then, and not by an error in the middle of the run.
"""

from __future__ import annotations

import types
from typing import Any, Union, get_args, get_origin

__all__ = ["has_type", "require_like", "require_type"]

MAX_INT, MAX_TEXT = 2**63, 100_000


def has_type(value: Any, kind: Any) -> bool:
    """Return whether a JSON value has a type, such as ``int``, ``float | None``, ``list[str]``.

    Ints fit 64 bits, and may stand for floats. Sums of a diverged run are infinite.
    """
    if kind is Any:
        return True
    if get_origin(kind) in (types.UnionType, Union):
        return any(has_type(value, member) for member in get_args(kind))
    if get_origin(kind) is list:
        return isinstance(value, list) and all(has_type(v, get_args(kind)[0]) for v in value)
    if get_origin(kind) is dict:
        _, of_values = get_args(kind)
        return isinstance(value, dict) and all(has_type(v, of_values) for v in value.values())
    if kind is float:
        return type(value) is float or has_type(value, int)
    if kind is int:
        return type(value) is int and abs(value) < MAX_INT
    if kind is str:
        return isinstance(value, str) and len(value) <= MAX_TEXT
    if kind in (None, types.NoneType):
        return value is None
    return isinstance(value, kind)


def require_type(value: Any, kind: Any, what: str) -> None:
    """Raise ValueError unless a JSON value has a type, see `has_type`."""
    if not has_type(value, kind):
        raise ValueError(f"{what} has the wrong type or is out of range")


def require_like(saved: Any, fresh: dict[str, Any], what: str) -> None:
    """Raise ValueError unless a JSON object has only known entries, of the types of a fresh one.

    Ints that count are not negative.
    """
    if not isinstance(saved, dict) or not set(saved) <= set(fresh):
        raise ValueError(f"{what} has unknown entries")
    for key, value in saved.items():
        require_type(value, type(fresh[key]), f"{key} of {what}")
        if type(value) is int and value < 0:
            raise ValueError(f"{key} of {what} is negative")
