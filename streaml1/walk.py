"""A dict straight to a row, inside a kernel that holds the interpreter lock.

It takes exact dicts whose names are exact str and whose values are float, int, bool or None: of
those no `__hash__`, `__eq__` or `__float__` of somebody's own can run, so the dict cannot change
while it is read. Every other dict goes by `rows.plain_items` and `names`, to the same slots.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

import numpy as np

from streaml1.jit import (
    COMPILED,
    array_at,
    inlined,
    load,
    prefetch,
    prefetch_at,
    python_api,
    rule_at,
)
from streaml1.names import MISSING, lookup
from streaml1.online import (
    ENTRIES,
    FRAME_HEAD,
    HASHES,
    IDS,
    KEYS,
    KNOWN,
    LENGTH,
    N_ENTRIES,
    ONLINE,
    RECORD,
    SCRATCH,
    SIZE,
    TYPES,
    VALUES,
    learn_plain,
    margin,
)
from streaml1.rows import LIMIT

__all__ = ["AVAILABLE", "OTHER_ROAD", "TABLE_FULL", "TYPES_READ", "learn_dict", "predict_dict"]

OTHER_ROAD, TABLE_FULL = -1, -3

# What the kernel tells objects by; machine code on disk cannot hold addresses.
TYPES_READ = [id(o) for o in (str, float, np.float64, int, bool, True, None)]
STR, FLOAT, FLOAT64, INT, BOOL, TRUE, NONE = range(TYPES, TYPES + len(TYPES_READ))

_dict_next = python_api("PyDict_Next", "int32", "uint64", "uint64", "uint64", "uint64")
_hash = python_api("PyObject_Hash", "int64", "uint64")
_float = python_api("PyFloat_AsDouble", "float64", "uint64")
_int = python_api("PyLong_AsDouble", "float64", "uint64")
_error = python_api("PyErr_Occurred", "uint64")
_no_error = python_api("PyErr_Clear", "void")
_size = python_api("PyList_Size", "int64", "uint64")
_append = python_api("PyList_Append", "int32", "uint64", "uint64")


def _available() -> bool:
    """Whether objects are laid out as read here: CPython with its lock, 64 bits, no debug build."""
    if not COMPILED or sys.implementation.name != "cpython" or sys.maxsize != 2**63 - 1:
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    return all(ctypes.c_uint64.from_address(id(o) + 8).value == id(type(o)) for o in ("a", 1.5, 7))


AVAILABLE = _available()


@inlined
def _read(frame: Any, x: Any, entries: Any, keys: Any, hashes: Any, values: Any) -> Any:
    """Write names, their hashes and values of the dict at `x`; returns how many, or OTHER_ROAD."""
    scratch = array_at(frame[SCRATCH], 3, np.uint64)
    position = frame[SCRATCH]
    key_at, value_at = position + np.uint64(8), position + np.uint64(16)
    mask = np.uint64(len(entries) // 2 - 1)
    scratch[0] = np.uint64(0)
    total = np.uint64(0)
    # A pass for each hop through memory, so that the misses of a row are under way together.
    while _dict_next(x, position, key_at, value_at):
        key, value = scratch[1], scratch[2]
        if total == frame[LENGTH]:  # another thread made it longer since it was measured
            return np.int64(OTHER_ROAD)
        prefetch_at(key)
        prefetch_at(value)
        keys[total] = key
        hashes[total] = value
        total += np.uint64(1)
    n = np.uint64(0)
    for k in range(total):
        key, value = keys[k], hashes[k]
        if load(key + np.uint64(8)) != frame[STR]:
            return np.int64(OTHER_ROAD)
        kind = load(value + np.uint64(8))
        if kind == frame[FLOAT] or kind == frame[FLOAT64]:
            v = _float(value)
        elif kind == frame[INT]:
            v = _int(value)
            if v == -1.0 and _error():
                _no_error()
                return np.int64(OTHER_ROAD)
        elif kind == frame[BOOL]:
            v = 1.0 if value == frame[TRUE] else 0.0
        elif value == frame[NONE]:
            continue
        else:
            return np.int64(OTHER_ROAD)
        if not abs(v) < LIMIT:
            return np.int64(OTHER_ROAD)
        if v == 0.0:
            continue
        h = np.uint64(_hash(key))
        place = h & mask
        prefetch(entries, place + place)
        keys[n] = key
        hashes[n] = h
        values[n] = v
        n += np.uint64(1)
    return np.int64(n)


Rule: Any = None  # bound by row_kernel


def predict_dict(frame: Any, x: Any, proba: bool) -> float:
    """Margin of the dict at the address `x`, or its sigmoid; NaN where it goes another road."""
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    values = array_at(frame[VALUES], length, np.float64)
    keys = array_at(frame[KEYS], length, np.uint64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    entries = array_at(frame[ENTRIES], frame[N_ENTRIES], np.uint64)
    n = _read(frame, np.uint64(x), entries, keys, hashes, values)
    if n < 0:
        return np.nan
    m = np.uint64(0)
    for k in range(np.uint64(n)):
        slot = entries[lookup(entries, hashes[k]) + np.uint64(1)]
        if slot != MISSING:
            ids[m] = np.uint32(slot)
            values[m] = values[k]
            m += np.uint64(1)
    online = array_at(frame[RECORD], 1, ONLINE)
    return margin(rule_at(Rule, frame, FRAME_HEAD), online, ids, values, m, proba)


def learn_dict(frame: Any, x: Any, y: float, w: float, eta: float) -> Any:
    """Learn the dict at the address `x`.

    Returns LEARNT, OTHER_ROAD, TABLE_FULL, NO_ROOM, or how many slots the rule must have first.
    """
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    values = array_at(frame[VALUES], length, np.float64)
    keys = array_at(frame[KEYS], length, np.uint64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    entries = array_at(frame[ENTRIES], frame[N_ENTRIES], np.uint64)
    n = _read(frame, np.uint64(x), entries, keys, hashes, values)
    if n < 0:
        return n
    known = _size(frame[KNOWN])
    after = known + n
    if after > np.int64(frame[SIZE]):
        return after
    if np.int64(4) * after > np.int64(frame[N_ENTRIES]):
        return np.int64(TABLE_FULL)
    for k in range(np.uint64(n)):
        at = lookup(entries, hashes[k])
        slot = entries[at + np.uint64(1)]
        if slot == MISSING:
            if _append(frame[KNOWN], keys[k]):
                _no_error()
                return np.int64(OTHER_ROAD)
            slot = np.uint64(known)
            known += np.int64(1)
            entries[at] = hashes[k]
            entries[at + np.uint64(1)] = slot
        ids[k] = np.uint32(slot)
    online = array_at(frame[RECORD], 1, ONLINE)
    rule = rule_at(Rule, frame, FRAME_HEAD)
    return np.int64(learn_plain(rule, online, ids, values, n, y, w, eta))
