"""Read dicts whose names are hashed to slots, with crossed features."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.hashing import keyed_position
from streaml1.core.jit import inlined, u64
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import array_at
from streaml1.features.dict_reader.context_fields import (
    HASHES,
    IDS,
    KEY,
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
from streaml1.features.dict_reader.crossed_factors import append_crossed
from streaml1.features.dict_reader.hashed import NO_SLOT, may_repeat_name, slot_of

__all__ = ["read"]


@inlined
def read(context: Any, x: Any) -> Any:
    """Convert the dict at `x`, with crossed features, to (ids, values); return nnz or FALLBACK."""
    length = context[LENGTH]
    ids = array_at(context[IDS], length, np.uint32)
    values = array_at(context[VALUES], length, np.float64)
    keys = array_at(context[KEYS], length, np.uint64)
    texts = array_at(context[TEXTS], length, np.uint64)
    hashes = array_at(context[HASHES], length, np.uint64)
    total = collect(context, x, keys, texts)
    if total < 0:
        return total
    n = u64(0)
    # Invariant: n <= k, and the buffers hold n non-zero features; keys[k:] are still unread.
    for k in range(np.uint64(total)):
        key, text = keys[k], texts[k]
        kind = type_of(text)
        v = number_of(context, text, kind)
        if not abs(v) < VALUE_LIMIT:
            return np.int64(FALLBACK)
        if v == 0.0:
            continue
        slot = slot_of(context, key, text, kind)
        if slot == NO_SLOT:
            return np.int64(FALLBACK)
        keys[n] = key
        texts[n] = text if kind == context[STR] else u64(0)
        ids[n] = np.uint32(slot)
        values[n] = v
        n += u64(1)
    end = append_crossed(context, keys, texts, values, hashes, n)
    if end < 0:
        return end
    for k in range(n, np.uint64(end)):
        ids[k] = np.uint32(hashes[k] & context[MASK])
    m = _merge_slots(context, ids, values, np.uint64(end))
    if end - m > 1 and may_repeat_name(context, keys, texts, n):
        return np.int64(FALLBACK)
    return m


@inlined
def _merge_slots(context: Any, ids: Any, values: Any, n: Any) -> Any:
    """Sum the values of equal slots in place; return the number of slots, or FALLBACK.

    MARKS is a hash table with linear probing: it holds 1 + the position of a slot in `ids`, or 0.
    """
    marks = array_at(context[MARKS], context[N_MARKS], np.uint64)
    size = u64(1)
    while size < n + n:
        size += size
    for k in range(size):
        marks[k] = u64(0)
    m = u64(0)
    # Invariant: ids[:m] are distinct, in order of their first occurrence, and all are in `marks`.
    for k in range(n):
        slot = np.uint64(ids[k])
        pos = keyed_position(slot, context[KEY], size)
        while marks[pos] and np.uint64(ids[marks[pos] - u64(1)]) != slot:
            pos = (pos + u64(1)) & (size - u64(1))
        if marks[pos]:
            values[marks[pos] - u64(1)] += values[k]
        else:
            ids[m] = ids[k]
            values[m] = values[k]
            m += u64(1)
            marks[pos] = m
    if m == n:
        return np.int64(n)
    n_kept = u64(0)
    for k in range(m):
        if not abs(values[k]) < VALUE_LIMIT:
            return np.int64(FALLBACK)
        ids[n_kept] = ids[k]
        values[n_kept] = values[k]
        n_kept += np.uint64(values[k] != 0.0)
    return np.int64(n_kept)
