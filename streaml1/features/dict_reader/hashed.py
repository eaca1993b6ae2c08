"""Read dicts whose names are hashed to slots."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.ascii import EQUALS
from streaml1.core.hashing import mix64, murmur64
from streaml1.core.jit import inlined, u64
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
    MAX_COMPARED,
    NO_INT,
    collect,
    contains_char,
    int_of,
    number_of,
    type_of,
    utf8_of,
)

__all__ = ["NO_SLOT", "merge_slots", "may_repeat_name", "read", "slot_of"]

_MAX_JOINED_BYTES = u64(2048)
NO_SLOT = u64(2**64 - 1)
_MARKS = u64(64)  # length in u64: a bitmap of 4096 bits


@inlined
def _slot_of_text(context: Any, key: Any) -> Any:
    address = utf8_of(context, key)
    if not address:
        return NO_SLOT
    size = load_u64(context[SCRATCH])
    return murmur64(array_at(address, size, np.uint8), u64(0), size) & context[MASK]


@inlined
def _slot_of_category(context: Any, key: Any, text: Any) -> Any:
    """Return the slot of `key=text`, joined as bytes."""
    joined = array_at(context[BYTES], _MAX_JOINED_BYTES, np.uint8)
    pos = u64(0)
    for part in (key, text):
        address = utf8_of(context, part)
        size = load_u64(context[SCRATCH])
        if not address or pos + size + u64(1) >= _MAX_JOINED_BYTES:
            return NO_SLOT
        data = array_at(address, size, np.uint8)
        for i in range(size):
            joined[pos + i] = data[i]
        pos += size
        joined[pos] = EQUALS
        pos += u64(1)
    return murmur64(joined, u64(0), pos - u64(1)) & context[MASK]


@inlined
def slot_of(context: Any, key: Any, value: Any, kind: Any) -> Any:
    """Return the slot of a feature whose value has the type `kind`, or NO_SLOT to fall back."""
    kind_of_key = type_of(key)
    if kind_of_key == context[STR]:
        if kind == context[STR]:
            return _slot_of_category(context, key, value)
        return _slot_of_text(context, key)
    if kind_of_key == context[INT] and kind != context[STR]:
        j = int_of(key)
        if j != NO_INT:
            slot = np.uint64(j)
            return slot if slot <= context[MASK] else mix64(slot) & context[MASK]
    return NO_SLOT


@inlined
def read(context: Any, x: Any) -> Any:
    """Convert the dict at `x` to (ids, values); return nnz or FALLBACK."""
    length = context[LENGTH]
    ids = array_at(context[IDS], length, np.uint32)
    values = array_at(context[VALUES], length, np.float64)
    keys = array_at(context[KEYS], length, np.uint64)
    texts = array_at(context[TEXTS], length, np.uint64)
    total = collect(context, x, keys, texts)
    if total < 0:
        return total
    n = u64(0)
    # Invariant: n <= k, and ids[:n] and values[:n] are the non-zero features read so far.
    for k in range(np.uint64(total)):
        kind = type_of(texts[k])
        v = number_of(context, texts[k], kind)
        if not abs(v) < VALUE_LIMIT:
            return np.int64(FALLBACK)
        if v == 0.0:
            continue
        slot = slot_of(context, keys[k], texts[k], kind)
        if slot == NO_SLOT:
            return np.int64(FALLBACK)
        ids[n] = np.uint32(slot)
        values[n] = v
        n += u64(1)
    m = merge_slots(context, ids, values, n)
    if np.int64(n) - m > 1 and may_repeat_name(context, keys, texts, np.uint64(total)):
        return np.int64(FALLBACK)
    return m


@inlined
def may_repeat_name(context: Any, keys: Any, texts: Any, n: Any) -> bool:
    """Return whether one of the first `n` keys may spell a category of the row, as `name=text`.

    `texts` are the addresses of their values, or 0 for numbers. Such a row may contain one name
    twice. Values of one name are summed before values of names that share its slot, and a sum of
    three floats depends on the order (a sum of two does not).
    """
    categories = False
    for k in range(n):
        if texts[k]:
            categories |= type_of(texts[k]) == context[STR]
    if not categories:
        return False
    joined = False
    for k in range(n):
        if type_of(keys[k]) == context[STR]:
            joined |= contains_char(keys[k], EQUALS_SIGN)
    return joined


@inlined
def merge_slots(context: Any, ids: Any, values: Any, n: Any) -> Any:
    """Sum the values of equal slots in place; return the number of slots, or FALLBACK.

    Zero sums are dropped.
    """
    if not _may_repeat(array_at(context[BYTES], _MARKS, np.uint64), ids, n):
        return np.int64(n)
    if n > MAX_COMPARED:
        return np.int64(FALLBACK)
    m = u64(0)
    # Invariant: ids[:m] are distinct, in order of their first occurrence in ids[:k].
    for k in range(n):
        first = u64(0)
        while first < m and ids[first] != ids[k]:
            first += u64(1)
        if first < m:
            values[first] += values[k]
        else:
            ids[m] = ids[k]
            values[m] = values[k]
            m += u64(1)
    n_kept = u64(0)
    for k in range(m):
        if not abs(values[k]) < VALUE_LIMIT:
            return np.int64(FALLBACK)
        if values[k] != 0.0:
            ids[n_kept] = ids[k]
            values[n_kept] = values[k]
            n_kept += u64(1)
    return np.int64(n_kept)


@inlined
def _may_repeat(marks: Any, ids: Any, n: Any) -> bool:
    """Return whether two slots agree in their low 12 bits: a cheap test that rarely errs."""
    for k in range(_MARKS):
        marks[k] = u64(0)
    repeated = u64(0)
    for k in range(n):
        lane = (np.uint64(ids[k]) >> u64(6)) % _MARKS
        bit = u64(1) << (np.uint64(ids[k]) & u64(63))
        repeated |= marks[lane] & bit
        marks[lane] |= bit
    return bool(repeated != 0)
