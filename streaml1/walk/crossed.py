"""Dicts whose names stand in a table, some of their features crossed."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.crosses.kernels import AT, NO_PART, first_prefix
from streaml1.jit import array_at, inlined, python_api
from streaml1.names.places import MISSING, lookup
from streaml1.walk.fields import (
    CROSSED,
    CROSSED_USED,
    HASHES,
    IDS,
    KEYS,
    KNOWN,
    LENGTH,
    N_CROSSED,
    PART_AT,
    PART_HASHES,
    PART_MASKS,
    PARTS_KNOWN,
    TEXTS,
    TEXTS_KNOWN,
    TRUE,
    VALUES,
)
from streaml1.walk.memory import FULL, OTHER_ROAD, no_error
from streaml1.walk.parts import crossed_of
from streaml1.walk.table import (
    NO_ROAD,
    append,
    cut,
    entered,
    found,
    has_room,
    length_of_list,
    placed,
    prefetched,
    read,
)

__all__ = ["read_all", "read_known"]

_ZERO, _ONE, _TWO = map(np.uint64, (0, 1, 2))

_number = python_api("PyLong_FromLongLong", "uint64", "int64")
_item = python_api("PyList_GetItem", "uint64", "uint64", "int64")
_release = python_api("Py_DecRef", "void", "uint64")


@inlined
def _read(frame: Any, x: Any) -> tuple[Any, Any]:
    """As `table.read`, crossed features behind the others: how many those are, and all; or < 0."""
    n = read(frame, x)
    if n < 0:
        return n, n
    length = frame[LENGTH]
    values = array_at(frame[VALUES], length, np.float64)
    keys = array_at(frame[KEYS], length, np.uint64)
    texts = array_at(frame[TEXTS], length, np.uint64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    total = crossed_of(frame, keys, texts, values, hashes, np.uint64(n))
    if total >= 0:
        crossed = array_at(frame[CROSSED], frame[N_CROSSED], np.uint64)
        prefetched(crossed, hashes, np.uint64(n), np.uint64(total))
    return n, total


@inlined
def read_known(frame: Any, x: Any) -> Any:
    """As `table.read_known`."""
    n, total = _read(frame, x)
    if total < 0:
        return total
    m = found(frame, np.uint64(n))
    if m < 0:
        return m
    crossed = array_at(frame[CROSSED], frame[N_CROSSED], np.uint64)
    return np.int64(placed(frame, crossed, np.uint64(n), np.uint64(total), np.uint64(m)))


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


@inlined
def read_all(frame: Any, x: Any) -> Any:
    """As `table.read_all`."""
    n, total = _read(frame, x)
    if total < 0:
        return total
    used = array_at(frame[CROSSED_USED], 1, np.int64)[0]
    if not has_room(frame, n, total) or 4 * (used + total - n) > np.int64(frame[N_CROSSED]):
        return np.int64(FULL)
    if entered(frame, np.uint64(n), True) < 0:
        return np.int64(OTHER_ROAD)
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    texts = array_at(frame[TEXTS], length, np.uint64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    crossed = array_at(frame[CROSSED], frame[N_CROSSED], np.uint64)
    for k in range(np.uint64(n), np.uint64(total)):
        slot = crossed[lookup(crossed, hashes[k]) + _ONE]
        if slot == MISSING:
            slot = _admitted(frame, crossed, ids, texts[k], hashes[k])
            if slot == NO_ROAD:
                return np.int64(OTHER_ROAD)
        ids[k] = np.uint32(slot)
    return total
