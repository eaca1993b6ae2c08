"""A dict straight to a row, inside a kernel that holds the interpreter lock.

It takes exact dicts whose names are exact str or int and whose values are exact float, int, bool,
str or None: of those no `__hash__`, `__eq__` or `__float__` of somebody's own can run, so the dict
cannot change while it is read, and no other thread runs meanwhile. Every other dict goes by
`rows.plain_items`, to the same slots and the same floats.

There is a pair of kernels for each kind of names, another where features are crossed, and another
where some are raw text. They get
all addresses in a *frame*, see `walk.frame`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from streaml1.crosses import Crosses
from streaml1.jit import entry, row_kernel
from streaml1.names import Hashed, Ints, Table
from streaml1.walk import crossed, crossed_hashed, hashed, ints, table, texts
from streaml1.walk.frame import Frame, Kernels
from streaml1.walk.memory import AVAILABLE, FULL, OTHER_ROAD
from streaml1.words import Words

__all__ = ["AVAILABLE", "FULL", "OTHER_ROAD", "Frame", "frame_of"]

_TEXTS: dict[type, Any] = {
    Ints: (ints.predict, ints.learn),
    Table: (table.predict, table.learn),
    Hashed: (hashed.predict, hashed.learn),
}
_CROSSED: dict[type, Any] = {  # ints have no prefixes
    Ints: (ints.predict, ints.learn),
    Table: (crossed.predict, crossed.learn),
    Hashed: (crossed_hashed.predict, crossed_hashed.learn),
}

_COUNTED: dict[type, Any] = {  # a name that is an int is of no text
    Ints: (ints.predict, ints.learn),
    Table: (texts.predict, texts.learn),
    Hashed: (texts.predict_hashed, texts.learn_hashed),
}


@cache
def _predict(text: Any, rule: Any) -> Any:
    return entry(row_kernel(text, rule), "int64", "int64", "int64")


@cache
def _learn(text: Any, rule: Any) -> Any:
    return entry(row_kernel(text, rule), "int64", "int64", "float64", "float64", "float64")


def _no_learn(address: int, x: int, y: float, w: float, eta: float) -> int:
    return OTHER_ROAD


def frame_of(
    names: Any,
    rule: Any,
    online: Any,
    length: int,
    learns: bool,
    crosses: Crosses | None = None,
    words: Words | None = None,
) -> Frame:
    """The frame of a model for dicts of up to `length` features, crossed ones and words among them.

    Words and crosses go together only where the words are given by name: not with `words`.

    Where it only predicts, what learns is not compiled.
    """
    method: Any = type(rule)
    roads = _TEXTS if crosses is None else _CROSSED
    predict, learn = (roads if words is None else _COUNTED)[type(names)]
    kernels = Kernels(_predict(predict, method), _learn(learn, method) if learns else _no_learn)
    return Frame(kernels, learns, names, rule, online, length, crosses, words)
