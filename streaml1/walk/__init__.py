"""A dict straight to a row, inside a kernel that holds the interpreter lock.

It takes exact dicts whose names are exact str or int and whose values are exact float, int, bool,
str or None: of those no `__hash__`, `__eq__` or `__float__` of somebody's own can run, so the dict
cannot change while it is read, and no other thread runs meanwhile. Every other dict goes by
`rows.plain_items`, to the same slots and the same floats.

There is a pair of kernels for each kind of names. They get all addresses in a *frame*, see
`walk.frame`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from streaml1.jit import entry, row_kernel
from streaml1.names import Hashed, Ints, Table
from streaml1.walk import hashed, ints, table
from streaml1.walk.frame import Frame, Kernels
from streaml1.walk.memory import AVAILABLE, FULL, OTHER_ROAD

__all__ = ["AVAILABLE", "FULL", "OTHER_ROAD", "Frame", "frame_of"]

_TEXTS: dict[type, Any] = {
    Ints: (ints.predict, ints.learn),
    Table: (table.predict, table.learn),
    Hashed: (hashed.predict, hashed.learn),
}


@cache
def _predict(names: Any, rule: Any) -> Any:
    return entry(row_kernel(_TEXTS[names][0], rule), "int64", "int64", "int64")


@cache
def _learn(names: Any, rule: Any) -> Any:
    text = _TEXTS[names][1]
    return entry(row_kernel(text, rule), "int64", "int64", "float64", "float64", "float64")


def _no_learn(address: int, x: int, y: float, w: float, eta: float) -> int:
    return OTHER_ROAD


def frame_of(names: Any, rule: Any, online: Any, length: int, learns: bool) -> Frame:
    """The frame of a model for dicts of up to `length` features.

    Where it only predicts, what learns is not compiled.
    """
    kind: Any = type(names)
    method: Any = type(rule)
    learn = _learn(kind, method) if learns else _no_learn
    return Frame(Kernels(_predict(kind, method), learn), learns, names, rule, online, length)
