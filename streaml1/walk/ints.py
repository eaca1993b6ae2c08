"""Dicts whose names are ints that are slots themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.jit import array_at, inlined, rule_at
from streaml1.names import MISSING
from streaml1.online import ONLINE, learn_plain, margin
from streaml1.rows import LIMIT
from streaml1.walk.fields import (
    HEAD,
    IDS,
    INT,
    KEYS,
    LENGTH,
    RECORD,
    SIZE,
    STR,
    TEXTS,
    UNKNOWN,
    VALUES,
    WORDS,
)
from streaml1.walk.memory import OTHER_ROAD, collect, int_of, number_of, type_of, unknown_value

__all__ = ["learn", "predict"]


@inlined
def _read(frame: Any, x: Any, ids: Any, values: Any, all_known: bool) -> Any:
    """Write down the non-zero entries of the dict at `x`; returns how many, or OTHER_ROAD.

    What the rule has no slot for has the one of the unknown, or where `all_known`, is another road.
    """
    length = frame[LENGTH]
    keys = array_at(frame[KEYS], length, np.uint64)
    texts = array_at(frame[TEXTS], length, np.uint64)
    total = collect(frame, x, keys, texts)
    if total < 0:
        return total
    n = np.uint64(0)
    for k in range(np.uint64(total)):
        kind = type_of(texts[k])
        v = number_of(frame, texts[k], kind)
        if type_of(keys[k]) != frame[INT] or kind == frame[STR] or not abs(v) < LIMIT:
            return np.int64(OTHER_ROAD)
        j = int_of(keys[k])
        known = j >= 0 and np.uint64(j) < frame[SIZE]
        if (j < 0 or all_known) and not known:
            return np.int64(OTHER_ROAD)
        slot = np.uint64(j) if known else frame[UNKNOWN]
        if v != 0.0 and slot != MISSING:
            ids[n] = np.uint32(slot)
            values[n] = v if known else unknown_value(frame, v)
            n += np.uint64(1)
    return np.int64(n)


Rule: Any = None  # bound by row_kernel


def predict(address: int, x: int, out: int) -> float:
    """What `online.margin` tells of the dict at the address `x`; NaN where it goes another road."""
    frame = array_at(np.uint64(address), WORDS, np.uint64)
    ids = array_at(frame[IDS], frame[LENGTH], np.uint32)
    values = array_at(frame[VALUES], frame[LENGTH], np.float64)
    n = _read(frame, np.uint64(x), ids, values, False)
    if n < 0:
        return np.nan
    online = array_at(frame[RECORD], 1, ONLINE)
    return margin(rule_at(Rule, frame, HEAD), online, ids, values, n, out)


def learn(address: int, x: int, y: float, w: float, eta: float) -> int:
    """Learn the dict at the address `x`; returns what `online.learn_plain` does, or OTHER_ROAD."""
    frame = array_at(np.uint64(address), WORDS, np.uint64)
    ids = array_at(frame[IDS], frame[LENGTH], np.uint32)
    values = array_at(frame[VALUES], frame[LENGTH], np.float64)
    n = _read(frame, np.uint64(x), ids, values, True)
    if n < 0:
        return OTHER_ROAD
    online = array_at(frame[RECORD], 1, ONLINE)
    return learn_plain(rule_at(Rule, frame, HEAD), online, ids, values, n, y, w, eta)
