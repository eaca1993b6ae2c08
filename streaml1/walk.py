"""A dict straight to a row, inside a kernel that holds the interpreter lock.

It takes exact dicts whose names are exact str and whose values are exact float, int, bool, str or
None: of those no `__hash__`, `__eq__` or `__float__` of somebody's own can run, so the dict cannot
change while it is read. Every other dict goes by `rows.plain_items` and `names`, to the same slots.

A string value `v` of the name `n` is the feature `n=v`. The table of names knows it by a mix of the
hashes of n and v too, so that the two are joined once, when the feature is first met.
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
    ALIASES,
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
    TEXTS,
    TYPES,
    USED,
    VALUES,
    learn_plain,
    margin,
)
from streaml1.rows import LIMIT

__all__ = ["AVAILABLE", "OTHER_ROAD", "TABLE_FULL", "TYPES_READ", "learn_dict", "predict_dict"]

OTHER_ROAD, TABLE_FULL = -1, -3

# What the kernel tells objects by; machine code on disk cannot hold addresses.
TYPES_READ = [id(o) for o in (str, float, np.float64, int, bool, True, None, "=")]
STR, FLOAT, FLOAT64, INT, BOOL, TRUE, NONE, EQUALS = range(TYPES, TYPES + len(TYPES_READ))

_dict_next = python_api("PyDict_Next", "int32", "uint64", "uint64", "uint64", "uint64")
_hash = python_api("PyObject_Hash", "int64", "uint64")
_float = python_api("PyFloat_AsDouble", "float64", "uint64")
_int = python_api("PyLong_AsDouble", "float64", "uint64")
_concat = python_api("PyUnicode_Concat", "uint64", "uint64", "uint64")
_release = python_api("Py_DecRef", "void", "uint64")
_error = python_api("PyErr_Occurred", "uint64")
_no_error = python_api("PyErr_Clear", "void")
_size = python_api("PyList_Size", "int64", "uint64")
_append = python_api("PyList_Append", "int32", "uint64", "uint64")

NONE_HERE = np.uint64(0)  # no text, no alias


def _available() -> bool:
    """Whether objects are laid out as read here: CPython with its lock, 64 bits, no debug build."""
    if not COMPILED or sys.implementation.name != "cpython" or sys.maxsize != 2**63 - 1:
        return False
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return False
    return all(ctypes.c_uint64.from_address(id(o) + 8).value == id(type(o)) for o in ("a", 1.5, 7))


AVAILABLE = _available()


@inlined
def _mixed(a: Any, b: Any) -> Any:
    """One hash of the hashes of a name and of its text; never that of no alias."""
    h = a * np.uint64(0x9E3779B97F4A7C15) + b
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (h ^ (h >> np.uint64(31))) | np.uint64(1)


@inlined
def _read(frame: Any, x: Any, entries: Any, keys: Any, texts: Any, hashes: Any, values: Any) -> Any:
    """Write down the non-zero entries of the dict at `x`.

    `keys` and `texts` get addresses of names and of string values, `hashes` those of names or
    mixed ones. Returns how many, or OTHER_ROAD.
    """
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
        texts[total] = value
        total += np.uint64(1)
    n = np.uint64(0)
    for k in range(total):
        key, value = keys[k], texts[k]
        if load(key + np.uint64(8)) != frame[STR]:
            return np.int64(OTHER_ROAD)
        kind = load(value + np.uint64(8))
        text = NONE_HERE
        if kind == frame[FLOAT] or kind == frame[FLOAT64]:
            v = _float(value)
        elif kind == frame[STR]:
            v = 1.0
            text = value
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
        if text != NONE_HERE:
            h = _mixed(h, np.uint64(_hash(text)))
        place = h & mask
        prefetch(entries, place + place)
        keys[n] = key
        texts[n] = text
        hashes[n] = h
        values[n] = v
        n += np.uint64(1)
    return np.int64(n)


@inlined
def _joined(frame: Any, key: Any, text: Any) -> Any:
    """Address of a new string `key=text`, owned; 0 where there is no memory."""
    half = _concat(key, frame[EQUALS])
    if half == NONE_HERE:
        return half
    whole = _concat(half, text)
    _release(half)
    return whole


@inlined
def _twice(ids: Any, texts: Any, n: Any) -> bool:
    """Whether a string value gives a slot that another entry has too."""
    for k in range(n):
        if texts[k] != NONE_HERE:
            same = 0
            for m in range(n):
                same += ids[m] == ids[k]
            if same > 1:
                return True
    return False


Rule: Any = None  # bound by row_kernel


def predict_dict(frame: Any, x: Any, proba: bool) -> float:
    """Margin of the dict at the address `x`, or its sigmoid; NaN where it goes another road."""
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    values = array_at(frame[VALUES], length, np.float64)
    keys = array_at(frame[KEYS], length, np.uint64)
    texts = array_at(frame[TEXTS], length, np.uint64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    entries = array_at(frame[ENTRIES], frame[N_ENTRIES], np.uint64)
    n = _read(frame, np.uint64(x), entries, keys, texts, hashes, values)
    if n < 0:
        return np.nan
    one = np.uint64(1)
    m = np.uint64(0)
    for k in range(np.uint64(n)):
        slot = entries[lookup(entries, hashes[k]) + one]
        if slot == MISSING and texts[k] != NONE_HERE:
            name = _joined(frame, keys[k], texts[k])
            if name == NONE_HERE:
                _no_error()
                return np.nan
            slot = entries[lookup(entries, np.uint64(_hash(name))) + one]
            _release(name)
        if slot != MISSING:
            ids[m] = np.uint32(slot)
            values[m] = values[k]
            texts[m] = texts[k]
            m += one
    if _twice(ids, texts, m):
        return np.nan
    online = array_at(frame[RECORD], 1, ONLINE)
    return margin(rule_at(Rule, frame, FRAME_HEAD), online, ids, values, m, proba)


@inlined
def _resolve(
    frame: Any, entries: Any, keys: Any, texts: Any, hashes: Any, aliases: Any, ids: Any, n: Any
) -> bool:
    """Find the slot of each entry, MISSING where it has none yet.

    A category that is not known by its mixed hash gets that as alias, and in `keys` its own name,
    a new string that `_drop` gives back. False where there is no memory.
    """
    one = np.uint64(1)
    for k in range(n):
        aliases[k] = NONE_HERE
    for k in range(n):
        slot = entries[lookup(entries, hashes[k]) + one]
        if slot == MISSING and texts[k] != NONE_HERE:
            name = _joined(frame, keys[k], texts[k])
            if name == NONE_HERE:
                _no_error()
                return False
            aliases[k] = hashes[k]
            keys[k] = name
            hashes[k] = np.uint64(_hash(name))
            slot = entries[lookup(entries, hashes[k]) + one]
        ids[k] = np.uint32(slot)
    return True


@inlined
def _drop(keys: Any, aliases: Any, n: Any) -> None:
    """Give back the strings that `_resolve` made."""
    for k in range(n):
        if aliases[k] != NONE_HERE:
            _release(keys[k])


@inlined
def _one_name_twice(ids: Any, texts: Any, hashes: Any, n: Any) -> bool:
    """Whether a string value gives a name that another entry has too: their values are summed."""
    for k in range(n):
        if texts[k] != NONE_HERE:
            same = 0
            for m in range(n):
                if ids[k] == MISSING:
                    same += ids[m] == MISSING and hashes[m] == hashes[k]
                else:
                    same += ids[m] == ids[k]
            if same > 1:
                return True
    return False


def learn_dict(frame: Any, x: Any, y: float, w: float, eta: float) -> Any:
    """Learn the dict at the address `x`.

    Returns LEARNT, OTHER_ROAD, TABLE_FULL, NO_ROOM, or how many slots the rule must have first.
    """
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    values = array_at(frame[VALUES], length, np.float64)
    keys = array_at(frame[KEYS], length, np.uint64)
    texts = array_at(frame[TEXTS], length, np.uint64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    aliases = array_at(frame[ALIASES], length, np.uint64)
    entries = array_at(frame[ENTRIES], frame[N_ENTRIES], np.uint64)
    used = array_at(frame[USED], 1, np.int64)
    n = _read(frame, np.uint64(x), entries, keys, texts, hashes, values)
    if n < 0:
        return n
    known = _size(frame[KNOWN])
    if known + n > np.int64(frame[SIZE]):
        return known + n
    if np.int64(4) * (used[0] + np.int64(2) * n) > np.int64(frame[N_ENTRIES]):
        return np.int64(TABLE_FULL)
    m = np.uint64(n)
    whole = _resolve(frame, entries, keys, texts, hashes, aliases, ids, m)
    if not whole or _one_name_twice(ids, texts, hashes, m):
        _drop(keys, aliases, m)
        return np.int64(OTHER_ROAD)
    one = np.uint64(1)
    for k in range(m):
        slot = np.uint64(ids[k])
        if slot == MISSING:
            if _append(frame[KNOWN], keys[k]):
                _no_error()
                _drop(keys, aliases, m)
                return np.int64(OTHER_ROAD)
            slot = np.uint64(known)
            known += np.int64(1)
            at = lookup(entries, hashes[k])
            entries[at] = hashes[k]
            entries[at + one] = slot
            used[0] += np.int64(1)
            ids[k] = np.uint32(slot)
        if aliases[k] != NONE_HERE:
            at = lookup(entries, aliases[k])
            entries[at] = aliases[k]
            entries[at + one] = slot
            used[0] += np.int64(1)
    _drop(keys, aliases, m)
    online = array_at(frame[RECORD], 1, ONLINE)
    rule = rule_at(Rule, frame, FRAME_HEAD)
    return np.int64(learn_plain(rule, online, ids, values, n, y, w, eta))
