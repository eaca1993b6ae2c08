"""Dicts whose names are hashed to slots, some of their features crossed."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import array_at
from streaml1.features.dict_reader.context_fields import (
    HASHES,
    IDS,
    KEYS,
    LENGTH,
    MARKS,
    MASK,
    N_MARKS,
    STR,
    TEXTS,
    VALUES,
)
from streaml1.features.dict_reader.cpython_objects import FALLBACK, collect, number_of, type_of
from streaml1.features.dict_reader.crossed_factors import crossed_of
from streaml1.features.dict_reader.hashed import NO_SLOT, named_twice, slot_of

__all__ = ["read"]

_ZERO, _ONE = map(np.uint64, (0, 1))


@inlined
def read(frame: Any, x: Any) -> Any:
    """Write down the features of the dict at `x`, crossed ones too; how many, or FALLBACK."""
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    values = array_at(frame[VALUES], length, np.float64)
    keys = array_at(frame[KEYS], length, np.uint64)
    texts = array_at(frame[TEXTS], length, np.uint64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    total = collect(frame, x, keys, texts)
    if total < 0:
        return total
    n = _ZERO
    for k in range(np.uint64(total)):
        key, text = keys[k], texts[k]
        kind = type_of(text)
        v = number_of(frame, text, kind)
        if not abs(v) < VALUE_LIMIT:
            return np.int64(FALLBACK)
        if v == 0.0:
            continue
        slot = slot_of(frame, key, text, kind)
        if slot == NO_SLOT:
            return np.int64(FALLBACK)
        keys[n] = key
        texts[n] = text if kind == frame[STR] else _ZERO
        ids[n] = np.uint32(slot)
        values[n] = v
        n += _ONE
    end = crossed_of(frame, keys, texts, values, hashes, n)
    if end < 0:
        return end
    for k in range(n, np.uint64(end)):
        ids[k] = np.uint32(hashes[k] & frame[MASK])
    m = _merged(frame, ids, values, np.uint64(end))
    if end - m > 1 and named_twice(frame, keys, texts, n):
        return np.int64(FALLBACK)
    return m


@inlined
def _merged(frame: Any, ids: Any, values: Any, n: Any) -> Any:
    """Have each slot once, with the sum of its values; returns how many, or FALLBACK."""
    marks = array_at(frame[MARKS], frame[N_MARKS], np.uint64)
    mask = _ONE
    while mask < n + n:
        mask += mask
    mask -= _ONE
    for k in range(mask + _ONE):
        marks[k] = _ZERO
    m = _ZERO
    for k in range(n):
        slot = np.uint64(ids[k])
        place = (slot * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(32)) & mask
        while marks[place] and np.uint64(ids[marks[place] - _ONE]) != slot:
            place = (place + _ONE) & mask
        if marks[place]:
            values[marks[place] - _ONE] += values[k]
        else:
            ids[m] = ids[k]
            values[m] = values[k]
            m += _ONE
            marks[place] = m
    if m == n:
        return np.int64(n)
    kept = _ZERO
    for k in range(m):
        if not abs(values[k]) < VALUE_LIMIT:
            return np.int64(FALLBACK)
        ids[kept] = ids[k]
        values[kept] = values[k]
        kept += np.uint64(values[k] != 0.0)
    return np.int64(kept)
