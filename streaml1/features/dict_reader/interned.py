"""Dicts whose names stand in a table. A string is its hash, a category its alias: see there."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.hashing import mix64
from streaml1.core.jit import inlined, python_api
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import array_at, prefetch
from streaml1.features.dict_reader.context_fields import (
    COUNTS,
    ENTRIES,
    EQUALS,
    HASHES,
    IDS,
    INT,
    KEPT,
    KEYS,
    KNOWN,
    LENGTH,
    MASK,
    N_ENTRIES,
    NONE,
    SIZE,
    STR,
    TEXTS,
    TEXTS_KNOWN,
    UNKNOWN,
    VALUES,
)
from streaml1.features.dict_reader.cpython_objects import (
    EQUALS_SIGN,
    FALLBACK,
    FULL,
    MOST_COMPARED,
    NO_INT,
    collect,
    has,
    hash_of,
    int_of,
    no_error,
    number_of,
    type_of,
    unknown_value,
)
from streaml1.features.vocabulary.hash_keys import alias
from streaml1.features.vocabulary.name_index import ALIASED, DOUBLE, IRREGULAR, USED, WHOLE
from streaml1.features.vocabulary.probing import MISSING, home_line, lookup

__all__ = [
    "NO_ROAD",
    "append",
    "cut",
    "entered",
    "found",
    "has_room",
    "length_of_list",
    "placed",
    "prefetched",
    "read",
    "read_all",
    "read_known",
]

_NOTHING = np.uint64(0)
_ONE = np.uint64(1)
_BLANK = np.uint32(32)
NO_ROAD = np.uint64(MISSING - 1)

_concat = python_api("PyUnicode_Concat", "uint64", "uint64", "uint64")
_release = python_api("Py_DecRef", "void", "uint64")
length_of_list = python_api("PyList_Size", "int64", "uint64")
append = python_api("PyList_Append", "int32", "uint64", "uint64")
cut = python_api("PyList_SetSlice", "int32", "uint64", "int64", "int64", "uint64")


@inlined
def read(frame: Any, x: Any) -> Any:
    """Write down the non-zero entries of the dict at `x`; returns how many, or FALLBACK.

    `keys` and `texts` get the addresses of names and of string values, `hashes` those of names or
    the aliases of categories.
    """
    length = frame[LENGTH]
    values = array_at(frame[VALUES], length, np.float64)
    keys = array_at(frame[KEYS], length, np.uint64)
    texts = array_at(frame[TEXTS], length, np.uint64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    entries = array_at(frame[ENTRIES], frame[N_ENTRIES], np.uint64)
    total = collect(frame, x, keys, texts)
    if total < 0:
        return total
    n = np.uint64(0)
    for k in range(np.uint64(total)):
        key, value = keys[k], texts[k]
        kind = type_of(value)
        v = number_of(frame, value, kind)
        if not abs(v) < VALUE_LIMIT:
            return np.int64(FALLBACK)
        kind_of_key = type_of(key)
        if kind_of_key == frame[STR]:
            h = hash_of(key)
            if kind == frame[STR]:
                h = alias(h, hash_of(value))
        elif kind_of_key == frame[INT] and kind != frame[STR]:
            j = int_of(key)
            if j == NO_INT:
                return np.int64(FALLBACK)
            h = mix64(np.uint64(j) ^ frame[MASK])
        else:
            return np.int64(FALLBACK)
        if v == 0.0:
            continue
        h &= frame[KEPT]
        prefetch(entries, home_line(entries, h))
        keys[n] = key
        texts[n] = value if kind == frame[STR] else _NOTHING
        hashes[n] = h
        values[n] = v
        n += _ONE
    return np.int64(n)


@inlined
def _has_blank(frame: Any, text: Any) -> bool:
    """Whether the object at an address is a str with a blank; no object: no."""
    if not text or type_of(text) != frame[STR]:
        return False
    return has(text, _BLANK)


@inlined
def _whole_slot(frame: Any, entries: Any, key: Any, text: Any) -> Any:
    """Slot of the string `key=text` by its own hash."""
    half = _concat(key, frame[EQUALS])
    if half == _NOTHING:
        no_error()
        return NO_ROAD
    whole = _concat(half, text)
    _release(half)
    if whole == _NOTHING:
        no_error()
        return NO_ROAD
    slot = entries[lookup(entries, hash_of(whole) & frame[KEPT]) + _ONE]
    _release(whole)
    return slot


@inlined
def _slot_otherwise(frame: Any, entries: Any, counts: Any, key: Any, text: Any) -> Any:
    """Slot of a name whose hash or alias is not in the table: it may be known another way."""
    if counts[IRREGULAR]:
        return NO_ROAD
    if text != _NOTHING:
        if has(key, EQUALS_SIGN):
            return NO_ROAD
        return _whole_slot(frame, entries, key, text) if counts[WHOLE] else np.uint64(MISSING)
    if counts[ALIASED] and type_of(key) == frame[STR] and has(key, EQUALS_SIGN):
        return NO_ROAD
    return np.uint64(MISSING)


@inlined
def _twice(ids: Any, n: Any) -> bool:
    """Whether two entries have one slot; also said of rows too long to look at here."""
    if n > MOST_COMPARED:
        return True
    for k in range(n):
        for m in range(k):
            if ids[m] == ids[k]:
                return True
    return False


@inlined
def found(frame: Any, n: Any) -> Any:
    """Write down the slots of the first `n` features as `read` tells them.

    Returns how many have one or are stood for, or FALLBACK.
    """
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    values = array_at(frame[VALUES], length, np.float64)
    keys = array_at(frame[KEYS], length, np.uint64)
    texts = array_at(frame[TEXTS], length, np.uint64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    entries = array_at(frame[ENTRIES], frame[N_ENTRIES], np.uint64)
    counts = array_at(frame[COUNTS], 5, np.int64)
    m = np.uint64(0)
    may_repeat = counts[DOUBLE] != 0
    for k in range(n):
        slot = entries[lookup(entries, hashes[k]) + _ONE]
        if slot == MISSING:
            slot = _slot_otherwise(frame, entries, counts, keys[k], texts[k])
            if slot == NO_ROAD:
                return np.int64(FALLBACK)
            may_repeat |= slot != MISSING
            if slot == MISSING:
                slot = frame[UNKNOWN]
                values[k] = unknown_value(frame, values[k])
        if slot != MISSING:
            ids[m] = np.uint32(slot)
            values[m] = values[k]
            m += _ONE
    if may_repeat and _twice(ids, m):
        return np.int64(FALLBACK)
    return np.int64(m)


@inlined
def prefetched(entries: Any, hashes: Any, first: Any, last: Any) -> None:
    """Have memory asked for where some hashes stand in a table."""
    for k in range(first, last):
        prefetch(entries, home_line(entries, hashes[k]))


@inlined
def placed(frame: Any, entries: Any, first: Any, last: Any, m: Any) -> Any:
    """Write down the slots of features by their hashes alone, from the m-th place; the next."""
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    values = array_at(frame[VALUES], length, np.float64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    for k in range(first, last):
        slot = entries[lookup(entries, hashes[k]) + _ONE]
        if slot == MISSING:
            slot = frame[UNKNOWN]
            values[k] = unknown_value(frame, values[k])
        if slot != MISSING:
            ids[m] = np.uint32(slot)
            values[m] = values[k]
            m += _ONE
    return m


@inlined
def _enter(entries: Any, counts: Any, h: Any, slot: Any) -> None:
    at = lookup(entries, h)
    entries[at] = h
    entries[at + _ONE] = slot
    counts[USED] += 1


@inlined
def _admitted(frame: Any, entries: Any, counts: Any, h: Any, key: Any, text: Any) -> Any:
    """Slot of a name whose hash or alias is not in the table, entered; or NO_ROAD."""
    slot = _slot_otherwise(frame, entries, counts, key, text)
    if slot == NO_ROAD:
        return slot
    if slot != MISSING:
        _enter(entries, counts, h, slot)
        counts[WHOLE] -= 1
        counts[DOUBLE] += 1
        return slot
    known = length_of_list(frame[KNOWN])
    if append(frame[KNOWN], key):
        no_error()
        return NO_ROAD
    if append(frame[TEXTS_KNOWN], text if text != _NOTHING else frame[NONE]):
        no_error()
        cut(frame[KNOWN], known, known + 1, _NOTHING)
        return NO_ROAD
    _enter(entries, counts, h, np.uint64(known))
    if text != _NOTHING:
        counts[ALIASED] += 1
    elif type_of(key) == frame[STR] and has(key, EQUALS_SIGN):
        counts[WHOLE] += 1
    return np.uint64(known)


@inlined
def entered(frame: Any, n: Any, plain: bool) -> Any:
    """Write down the slots of the first `n` features, new ones admitted; `n`, or FALLBACK.

    Where crossed features are known beside them, a new name must be `plain`: without a blank.
    """
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    keys = array_at(frame[KEYS], length, np.uint64)
    texts = array_at(frame[TEXTS], length, np.uint64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    entries = array_at(frame[ENTRIES], frame[N_ENTRIES], np.uint64)
    counts = array_at(frame[COUNTS], 5, np.int64)
    for k in range(n):
        slot = entries[lookup(entries, hashes[k]) + _ONE]
        if slot == MISSING:
            # With blanks it may read as a crossed feature.
            if plain and (_has_blank(frame, keys[k]) or _has_blank(frame, texts[k])):
                return np.int64(FALLBACK)
            slot = _admitted(frame, entries, counts, hashes[k], keys[k], texts[k])
            if slot == NO_ROAD:
                return np.int64(FALLBACK)
        ids[k] = np.uint32(slot)
    if counts[DOUBLE] and _twice(ids, n):
        return np.int64(FALLBACK)
    return np.int64(n)


@inlined
def has_room(frame: Any, n: Any, total: Any) -> bool:
    """Whether all of `n` names, and of `total` with crossed ones, may be new."""
    used = array_at(frame[COUNTS], 5, np.int64)[USED]
    if length_of_list(frame[KNOWN]) + total > np.int64(frame[SIZE]):
        return False
    return bool(2 * (used + n) <= np.int64(frame[N_ENTRIES]) // 2)


@inlined
def read_known(frame: Any, x: Any) -> Any:
    """Write down what is known of the dict at `x`; returns how many entries, or FALLBACK."""
    n = read(frame, x)
    if n < 0:
        return n
    return found(frame, np.uint64(n))


@inlined
def read_all(frame: Any, x: Any) -> Any:
    """Write down the dict at `x`, new names admitted; returns how many, or FALLBACK, or FULL."""
    n = read(frame, x)
    if n < 0:
        return n
    if not has_room(frame, n, n):
        return np.int64(FULL)
    return entered(frame, np.uint64(n), False)
