"""Dicts whose names are hashed to slots."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.hashing import mix64, murmur64
from streaml1.core.jit import inlined
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import array_at, load_u64
from streaml1.features.dict_reader.context_fields import (
    BYTES,
    IDS,
    INT,
    KEYS,
    LENGTH,
    MASK,
    SCRATCH,
    STR,
    TEXTS,
    VALUES,
)
from streaml1.features.dict_reader.cpython_objects import (
    EQUALS_SIGN,
    FALLBACK,
    MOST_COMPARED,
    NO_INT,
    collect,
    has,
    int_of,
    number_of,
    type_of,
    utf8_of,
)

__all__ = ["NO_SLOT", "merged", "named_twice", "read", "slot_of"]

_MOST_BYTES = np.uint64(2048)
_EQUALS = np.uint8(61)
_ONE = np.uint64(1)
NO_SLOT = np.uint64(2**64 - 1)
_MARKS = np.uint64(64)  # words of 64 bits


@inlined
def _slot_of_text(frame: Any, key: Any) -> Any:
    address = utf8_of(frame, key)
    if not address:
        return NO_SLOT
    size = load_u64(frame[SCRATCH])
    return murmur64(array_at(address, size, np.uint8), np.uint64(0), size) & frame[MASK]


@inlined
def _slot_of_category(frame: Any, key: Any, text: Any) -> Any:
    """Slot of `key=text`, joined as bytes."""
    joined = array_at(frame[BYTES], _MOST_BYTES, np.uint8)
    at = np.uint64(0)
    for part in (key, text):
        address = utf8_of(frame, part)
        size = load_u64(frame[SCRATCH])
        if not address or at + size + _ONE >= _MOST_BYTES:
            return NO_SLOT
        data = array_at(address, size, np.uint8)
        for i in range(size):
            joined[at + i] = data[i]
        at += size
        joined[at] = _EQUALS
        at += _ONE
    return murmur64(joined, np.uint64(0), at - _ONE) & frame[MASK]


@inlined
def slot_of(frame: Any, key: Any, value: Any, kind: Any) -> Any:
    """Slot of a feature, given its name and its value of a type; NO_SLOT: another road."""
    kind_of_key = type_of(key)
    if kind_of_key == frame[STR]:
        if kind == frame[STR]:
            return _slot_of_category(frame, key, value)
        return _slot_of_text(frame, key)
    if kind_of_key == frame[INT] and kind != frame[STR]:
        j = int_of(key)
        if j != NO_INT:
            slot = np.uint64(j)
            return slot if slot <= frame[MASK] else mix64(slot) & frame[MASK]
    return NO_SLOT


@inlined
def read(frame: Any, x: Any) -> Any:
    """Write down the non-zero entries of the dict at `x`; returns how many, or FALLBACK."""
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
        if not abs(v) < VALUE_LIMIT:
            return np.int64(FALLBACK)
        if v == 0.0:
            continue
        slot = slot_of(frame, keys[k], texts[k], kind)
        if slot == NO_SLOT:
            return np.int64(FALLBACK)
        ids[n] = np.uint32(slot)
        values[n] = v
        n += _ONE
    m = merged(frame, ids, values, n)
    if np.int64(n) - m > 1 and named_twice(frame, keys, texts, np.uint64(total)):
        return np.int64(FALLBACK)
    return m


@inlined
def named_twice(frame: Any, keys: Any, texts: Any, n: Any) -> bool:
    """Whether one of the first `n` keys may be a category's name, its equals sign and its text.

    `texts` are their values; or zero, if no strings. Then a name may be there twice, which is
    summed before names that share its slot: of three numbers the sum depends on the order, of two
    it does not.
    """
    categories = False
    for k in range(n):
        if texts[k]:
            categories |= type_of(texts[k]) == frame[STR]
    if not categories:
        return False
    joined = False
    for k in range(n):
        if type_of(keys[k]) == frame[STR]:
            joined |= has(keys[k], EQUALS_SIGN)
    return joined


@inlined
def merged(frame: Any, ids: Any, values: Any, n: Any) -> Any:
    """Have each slot once, with the sum of its values; returns how many, or FALLBACK."""
    if not _may_repeat(array_at(frame[BYTES], _MARKS, np.uint64), ids, n):
        return np.int64(n)
    if n > MOST_COMPARED:
        return np.int64(FALLBACK)
    m = np.uint64(0)
    for k in range(n):
        first = np.uint64(0)
        while first < m and ids[first] != ids[k]:
            first += _ONE
        if first < m:
            values[first] += values[k]
        else:
            ids[m] = ids[k]
            values[m] = values[k]
            m += _ONE
    kept = np.uint64(0)
    for k in range(m):
        if not abs(values[k]) < VALUE_LIMIT:
            return np.int64(FALLBACK)
        if values[k] != 0.0:
            ids[kept] = ids[k]
            values[kept] = values[k]
            kept += _ONE
    return np.int64(kept)


@inlined
def _may_repeat(marks: Any, ids: Any, n: Any) -> bool:
    """Whether two slots end in the same 12 bits: rarely where no two are the same."""
    for k in range(_MARKS):
        marks[k] = np.uint64(0)
    again = np.uint64(0)
    for k in range(n):
        place = (np.uint64(ids[k]) >> np.uint64(6)) % _MARKS
        bit = _ONE << (np.uint64(ids[k]) & np.uint64(63))
        again |= marks[place] & bit
        marks[place] |= bit
    return bool(again != 0)
