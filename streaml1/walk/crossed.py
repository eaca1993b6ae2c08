"""Dicts whose names stand in a table, some of their features crossed."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.crosses.kernels import AT, NO_PART, first_prefix
from streaml1.jit import array_at, inlined, prefetch, python_api, rule_at
from streaml1.names.table import DOUBLE, MISSING, USED, lookup
from streaml1.online import ONLINE, learn_plain, margin
from streaml1.walk.fields import (
    COUNTS,
    CROSSED,
    CROSSED_USED,
    ENTRIES,
    HASHES,
    HEAD,
    IDS,
    KEYS,
    KNOWN,
    LENGTH,
    N_CROSSED,
    N_ENTRIES,
    PART_AT,
    PART_HASHES,
    PART_MASKS,
    PARTS_KNOWN,
    RECORD,
    SIZE,
    STR,
    TEXTS,
    TEXTS_KNOWN,
    TRUE,
    UNKNOWN,
    VALUES,
    WORDS,
)
from streaml1.walk.memory import FULL, OTHER_ROAD, length_of, no_error, type_of, unknown_value
from streaml1.walk.parts import crossed_of
from streaml1.walk.table import (
    NO_ROAD,
    admitted,
    append,
    cut,
    length_of_list,
    read,
    slot_otherwise,
    twice,
)

__all__ = ["learn", "predict"]

_ZERO, _ONE, _TWO = map(np.uint64, (0, 1, 2))
_BLANK = np.uint32(32)

_number = python_api("PyLong_FromLongLong", "uint64", "int64")
_item = python_api("PyList_GetItem", "uint64", "uint64", "int64")
_release = python_api("Py_DecRef", "void", "uint64")
_find = python_api("PyUnicode_FindChar", "int64", "uint64", "uint32", "int64", "int64", "int32")


@inlined
def _has_blank(frame: Any, text: Any) -> bool:
    """Whether the object at an address is a str with a blank; no object: no."""
    if not text or type_of(text) != frame[STR]:
        return False
    return bool(_find(text, _BLANK, 0, np.int64(length_of(text)), np.int32(1)) >= 0)


Rule: Any = None  # bound by row_kernel


@inlined
def _prefetched(crossed: Any, hashes: Any, n: Any, total: Any) -> None:
    mask = np.uint64(len(crossed) // 2 - 1)
    for k in range(n, total):
        place = hashes[k] & mask
        prefetch(crossed, place + place)


def predict(address: int, x: int, out: int) -> float:
    """As `walk.table.predict`."""
    frame = array_at(np.uint64(address), WORDS, np.uint64)
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    values = array_at(frame[VALUES], length, np.float64)
    keys = array_at(frame[KEYS], length, np.uint64)
    texts = array_at(frame[TEXTS], length, np.uint64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    entries = array_at(frame[ENTRIES], frame[N_ENTRIES], np.uint64)
    crossed = array_at(frame[CROSSED], frame[N_CROSSED], np.uint64)
    counts = array_at(frame[COUNTS], 5, np.int64)
    n = read(frame, np.uint64(x), entries, keys, texts, hashes, values)
    if n < 0:
        return np.nan
    total = crossed_of(frame, keys, texts, values, hashes, np.uint64(n))
    if total < 0:
        return np.nan
    _prefetched(crossed, hashes, np.uint64(n), np.uint64(total))
    m = _ZERO
    may_repeat = counts[DOUBLE] != 0
    for k in range(np.uint64(n)):
        slot = entries[lookup(entries, hashes[k]) + _ONE]
        if slot == MISSING:
            slot = slot_otherwise(frame, entries, counts, keys[k], texts[k])
            if slot == NO_ROAD:
                return np.nan
            may_repeat |= slot != MISSING
            if slot == MISSING:
                slot = frame[UNKNOWN]
                values[k] = unknown_value(frame, values[k])
        if slot != MISSING:
            ids[m] = np.uint32(slot)
            values[m] = values[k]
            m += _ONE
    if may_repeat and twice(ids, m):
        return np.nan
    for k in range(np.uint64(n), np.uint64(total)):
        slot = crossed[lookup(crossed, hashes[k]) + _ONE]
        if slot == MISSING:
            slot = frame[UNKNOWN]
            values[k] = unknown_value(frame, values[k])
        if slot != MISSING:
            ids[m] = np.uint32(slot)
            values[m] = values[k]
            m += _ONE
    online = array_at(frame[RECORD], 1, ONLINE)
    return margin(rule_at(Rule, frame, HEAD), online, ids, values, m, out)


@inlined
def _put_parts(frame: Any, ids: Any, packed: Any) -> Any:
    """Append the names of some parts, by prefix and then by hash; whether there was no memory.

    `ids` are the slots of the plain features, of which the table has the names.
    """
    length = frame[LENGTH]
    masks = array_at(frame[PART_MASKS], length, np.uint64)
    hashes = array_at(frame[PART_HASHES], length, np.uint64)
    at = array_at(frame[PART_AT], length, np.uint64)
    n = _TWO if packed >> (AT + AT) == NO_PART else np.uint64(3)
    failed = False
    for place in range(n):
        for k in range(n):
            part = packed >> (AT * k) & NO_PART
            before = _ZERO
            for z in range(n):
                other = packed >> (AT * z) & NO_PART
                a, b = first_prefix(masks[other]), first_prefix(masks[part])
                lower = hashes[other] < hashes[part]
                lower |= hashes[other] == hashes[part] and other < part
                before += np.uint64(a < b or (a == b and lower))
            if before == place:
                slot = np.int64(ids[at[part]])
                failed |= append(frame[PARTS_KNOWN], _item(frame[KNOWN], slot)) != 0
                failed |= append(frame[PARTS_KNOWN], _item(frame[TEXTS_KNOWN], slot)) != 0
    return failed


@inlined
def _admitted(frame: Any, crossed: Any, ids: Any, packed: Any, h: Any) -> Any:
    """Slot of a crossed feature that is not in the table, entered; or NO_ROAD.

    Nothing is made here that the garbage collector knows: it could run anybody's code.
    """
    known, parts = length_of_list(frame[KNOWN]), length_of_list(frame[PARTS_KNOWN])
    place = _number(np.int64(2) * parts + np.int64(packed >> (AT + AT) != NO_PART))
    if not place:
        no_error()
        return NO_ROAD
    failed = _put_parts(frame, ids, packed)
    failed |= append(frame[KNOWN], place) != 0
    failed |= append(frame[TEXTS_KNOWN], frame[TRUE]) != 0
    _release(place)
    if failed:
        no_error()
        cut(frame[PARTS_KNOWN], parts, length_of_list(frame[PARTS_KNOWN]), _ZERO)
        cut(frame[KNOWN], known, length_of_list(frame[KNOWN]), _ZERO)
        cut(frame[TEXTS_KNOWN], known, length_of_list(frame[TEXTS_KNOWN]), _ZERO)
        return NO_ROAD
    at = lookup(crossed, h)
    crossed[at] = h
    crossed[at + _ONE] = np.uint64(known)
    array_at(frame[CROSSED_USED], 1, np.int64)[0] += 1
    return np.uint64(known)


def learn(address: int, x: int, y: float, w: float, eta: float) -> int:
    """As `walk.table.learn`."""
    frame = array_at(np.uint64(address), WORDS, np.uint64)
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    values = array_at(frame[VALUES], length, np.float64)
    keys = array_at(frame[KEYS], length, np.uint64)
    texts = array_at(frame[TEXTS], length, np.uint64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    entries = array_at(frame[ENTRIES], frame[N_ENTRIES], np.uint64)
    crossed = array_at(frame[CROSSED], frame[N_CROSSED], np.uint64)
    counts = array_at(frame[COUNTS], 5, np.int64)
    n = read(frame, np.uint64(x), entries, keys, texts, hashes, values)
    if n < 0:
        return OTHER_ROAD
    total = crossed_of(frame, keys, texts, values, hashes, np.uint64(n))
    if total < 0:
        return OTHER_ROAD
    _prefetched(crossed, hashes, np.uint64(n), np.uint64(total))
    # There must be room for all of them to be new.
    slots, places = np.int64(frame[SIZE]), np.int64(frame[N_ENTRIES]) // 2
    used = array_at(frame[CROSSED_USED], 1, np.int64)[0]
    if length_of_list(frame[KNOWN]) + total > slots or 2 * (counts[USED] + n) > places:
        return FULL
    if 4 * (used + total - n) > np.int64(frame[N_CROSSED]):
        return FULL
    for k in range(np.uint64(n)):
        slot = entries[lookup(entries, hashes[k]) + _ONE]
        if slot == MISSING:
            # With blanks it may read as a crossed feature.
            if _has_blank(frame, keys[k]) or _has_blank(frame, texts[k]):
                return OTHER_ROAD
            slot = admitted(frame, entries, counts, hashes[k], keys[k], texts[k])
            if slot == NO_ROAD:
                return OTHER_ROAD
        ids[k] = np.uint32(slot)
    if counts[DOUBLE] and twice(ids, np.uint64(n)):
        return OTHER_ROAD
    for k in range(np.uint64(n), np.uint64(total)):
        slot = crossed[lookup(crossed, hashes[k]) + _ONE]
        if slot == MISSING:
            slot = _admitted(frame, crossed, ids, texts[k], hashes[k])
            if slot == NO_ROAD:
                return OTHER_ROAD
        ids[k] = np.uint32(slot)
    online = array_at(frame[RECORD], 1, ONLINE)
    rule = rule_at(Rule, frame, HEAD)
    return learn_plain(rule, online, ids, values, np.uint64(total), y, w, eta)
