"""Dicts whose names are ints that are slots themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import array_at
from streaml1.features.dict_reader.context_fields import (
    IDS,
    INT,
    KEYS,
    LENGTH,
    SIZE,
    STR,
    TEXTS,
    UNKNOWN,
    VALUES,
)
from streaml1.features.dict_reader.cpython_objects import (
    FALLBACK,
    collect,
    int_of,
    number_of,
    type_of,
    unknown_value,
)
from streaml1.features.vocabulary import MISSING

__all__ = ["read_all", "read_known"]


@inlined
def _read(frame: Any, x: Any, all_known: bool) -> Any:
    """Write down the non-zero entries of the dict at `x`; returns how many, or FALLBACK.

    What the rule has no slot for has the one of the unknown, or where `all_known`, is another road.
    """
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    values = array_at(frame[VALUES], length, np.float64)
    keys = array_at(frame[KEYS], length, np.uint64)
    texts = array_at(frame[TEXTS], length, np.uint64)
    total = collect(frame, x, keys, texts)
    if total < 0:
        return total
    n = np.uint64(0)
    for k in range(np.uint64(total)):
        kind = type_of(texts[k])
        v = number_of(frame, texts[k], kind)
        if type_of(keys[k]) != frame[INT] or kind == frame[STR] or not abs(v) < VALUE_LIMIT:
            return np.int64(FALLBACK)
        j = int_of(keys[k])
        known = j >= 0 and np.uint64(j) < frame[SIZE]
        if (j < 0 or all_known) and not known:
            return np.int64(FALLBACK)
        slot = np.uint64(j) if known else frame[UNKNOWN]
        if v != 0.0 and slot != MISSING:
            ids[n] = np.uint32(slot)
            values[n] = v if known else unknown_value(frame, v)
            n += np.uint64(1)
    return np.int64(n)


@inlined
def read_known(frame: Any, x: Any) -> Any:
    """As `table.read_known`."""
    return _read(frame, x, False)


@inlined
def read_all(frame: Any, x: Any) -> Any:
    """As `table.read_all`; an int that is no slot yet is another road."""
    return _read(frame, x, True)
