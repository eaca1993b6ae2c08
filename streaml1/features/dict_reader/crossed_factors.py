"""Append factor names and crossed features, in kernels that hold the GIL."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.ascii import EQUALS
from streaml1.core.jit import inlined, u64
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import array_at, load_u64, loadu_u64, store_u64
from streaml1.features.dict_reader.context_fields import (
    ARENA_COUNT,
    ARENA_HASHES,
    BYTES,
    CROSSED_NAME_BYTES,
    ENDS,
    ENTRIES,
    FACTOR_CACHE,
    INDEX_COUNT,
    INDEX_USED,
    LENGTH,
    MEMBERS,
    N_ARENA_HASHES,
    N_MEMBERS,
    N_PLAN,
    NEEDED,
    PART_HASHES,
    PART_MASKS,
    PART_POSITIONS,
    PART_VALUES,
    PLAN,
    SCRATCH,
    STARTS,
    STR,
)
from streaml1.features.dict_reader.cpython_objects import FALLBACK, hash_of, type_of, utf8_of
from streaml1.features.interactions.kernels import NO_FACTOR, bound, crossed, grouped, mask_at
from streaml1.features.vocabulary.hash_keys import alias
from streaml1.text.byte_names import murmur_at, murmur_reading_back

__all__ = ["CACHE_SIZE", "append_crossed", "append_arena_name", "copy_string"]

_MAX_JOINED_BYTES = u64(2000)

# A direct-mapped cache of prefixes and factors, indexed by Python's hash. Names recur, and an
# example that is predicted is usually learnt next.
_N_NAMES, _N_FACTORS = 256, 512
_NAME_STRIDE, _FACTOR_STRIDE = map(u64, (2, 3))  # u64 per entry
_FACTORS_BASE = u64(2 * _N_NAMES)
CACHE_SIZE = 2 * _N_NAMES + 3 * _N_FACTORS


@inlined
def copy_string(start: Any, end: Any, out_pos: Any) -> Any:
    """Copy the bytes of a string from `start` to `end`; return the end of the copy.

    Bytes after a string must not be read. Bytes before it may be, since they are the object's
    header. Up to seven bytes after the copy are overwritten.
    """
    # Invariant: everything before `start` is copied, and `out_pos` follows it.
    while end - start >= u64(8):
        store_u64(out_pos, loadu_u64(start))
        start += u64(8)
        out_pos += u64(8)
    n = end - start
    if n:
        store_u64(out_pos, loadu_u64(end - u64(8)) >> (u64(8) * (u64(8) - n)))
    return out_pos + n


@inlined
def append_arena_name(context: Any, h: Any, size: Any) -> None:
    """Count a name whose `size` bytes have been written to the end of the arena."""
    count = array_at(context[ARENA_COUNT], 1, np.int64)
    ends = array_at(context[ENDS], context[N_ARENA_HASHES] + u64(1), np.uint64)
    n = np.uint64(count[0])
    array_at(context[ARENA_HASHES], context[N_ARENA_HASHES], np.uint64)[n] = h
    ends[n + u64(1)] = ends[n] + size
    count[0] += 1
    array_at(context[INDEX_USED], 1, np.int64)[0] += 1
    array_at(context[INDEX_COUNT], 1, np.int64)[0] += 1


@inlined
def _prefixes(context: Any, plan: Any, cache: Any, key: Any) -> Any:
    """Return the prefixes of a name as a bit mask; -1 if it has no UTF-8."""
    h = hash_of(key)
    pos = _NAME_STRIDE * (h % np.uint64(_N_NAMES))
    if cache[pos] != h or not h:
        name = utf8_of(context, key)
        if not name:
            return np.int64(-1)
        cache[pos + u64(1)] = mask_at(plan, name, name + load_u64(context[SCRATCH]))
        cache[pos] = h
    return np.int64(cache[pos + u64(1)])


@inlined
def _factor(context: Any, key: Any, text: Any) -> tuple[Any, Any]:
    """Return the stable hash and the size of a name or a category; (0, 0) to fall back."""
    name = utf8_of(context, key)
    size = load_u64(context[SCRATCH])
    if not name or size > _MAX_JOINED_BYTES:
        return u64(0), u64(0)
    if not text:
        return murmur_reading_back(name, name + size), size
    copy = context[BYTES]
    end = copy_string(name, name + size, copy)
    name = utf8_of(context, text)
    text_size = load_u64(context[SCRATCH])
    if not name or size + text_size + u64(1) > _MAX_JOINED_BYTES:
        return u64(0), u64(0)
    array_at(end, 1, np.uint8)[0] = EQUALS
    end = copy_string(name, name + text_size, end + u64(1))
    return murmur_at(copy, end), size + text_size + u64(1)


@inlined
def _factors(context: Any, plan: Any, keys: Any, texts: Any, values: Any, n: Any) -> Any:
    """Write those of the first `n` features that are factors; return their number or FALLBACK."""
    length = context[LENGTH]
    masks = array_at(context[PART_MASKS], length, np.uint64)
    hashes = array_at(context[PART_HASHES], length, np.uint64)
    part_values = array_at(context[PART_VALUES], length, np.float64)
    positions = array_at(context[PART_POSITIONS], length, np.uint64)
    cache = array_at(context[FACTOR_CACHE], CACHE_SIZE, np.uint64)
    names_hashed = context[ENTRIES] != u64(0)  # Python has hashed the names of a vocabulary
    m, joined, n_bytes = u64(0), u64(0), u64(0)
    # Invariant: m <= k, and the buffers of factors hold m factors.
    for k in range(n):
        if type_of(keys[k]) != context[STR]:
            continue
        mask = _prefixes(context, plan, cache, keys[k])
        if not mask:
            continue
        if mask & (mask - np.int64(1)):  # several prefixes may repeat a product
            return np.int64(FALLBACK)
        h = u64(0)
        if names_hashed:
            h = hash_of(keys[k])
            if texts[k]:
                h = alias(h, hash_of(texts[k]))
        pos = _FACTORS_BASE + _FACTOR_STRIDE * (h % np.uint64(_N_FACTORS))
        if cache[pos] != h or not h:
            stable, size = _factor(context, keys[k], texts[k])
            if not size:
                return np.int64(FALLBACK)
            cache[pos], cache[pos + u64(1)], cache[pos + u64(2)] = h, stable, size
        hashes[m] = cache[pos + u64(1)]
        n_bytes += cache[pos + u64(2)]
        joined += np.uint64(texts[k] != u64(0))
        masks[m] = np.uint64(mask)
        part_values[m] = values[k]
        positions[m] = k
        m += u64(1)
    context[CROSSED_NAME_BYTES] = n_bytes
    if joined and _repeats_category(hashes, positions, texts, m):
        return np.int64(FALLBACK)
    return np.int64(m)


@inlined
def _repeats_category(hashes: Any, positions: Any, texts: Any, m: Any) -> bool:
    """Return whether a category given as name and text occurs again in any spelling."""
    for k in range(m):
        if texts[positions[k]]:
            same = 0
            for z in range(m):
                same += hashes[z] == hashes[k]
            if same > 1:
                return True
    return False


@inlined
def append_crossed(context: Any, keys: Any, texts: Any, values: Any, hashes: Any, n: Any) -> Any:
    """Append the crossed features of the first `n` features; return the new count or FALLBACK.

    `hashes` receives their hashes and `texts` their packed factors, see
    `interactions.kernels.crossed`. Falls back if a value is too large, there are too many factors,
    or the buffers are too short; NEEDED then holds the required length.
    """
    plan = array_at(context[PLAN], context[N_PLAN], np.uint64)
    m = _factors(context, plan, keys, texts, values, n)
    if m < 0:
        return m
    length = context[LENGTH]
    masks = array_at(context[PART_MASKS], length, np.uint64)
    part_hashes = array_at(context[PART_HASHES], length, np.uint64)
    part_values = array_at(context[PART_VALUES], length, np.float64)
    members = array_at(context[MEMBERS], context[N_MEMBERS], np.uint64)
    starts = array_at(context[STARTS], plan[0] + u64(1), np.uint64)
    grouped(plan, masks, np.uint64(m), members, starts)
    needed = n + bound(plan, starts)
    context[NEEDED] = needed
    if needed > length or np.uint64(m) > NO_FACTOR:  # the fallback rejects too many factors
        return np.int64(FALLBACK)
    end = crossed(plan, masks, part_hashes, part_values, members, starts, hashes, values, texts, n)
    n_kept = n
    # Invariant: n_kept <= k, and [n, n_kept) holds the non-zero crossed features before k.
    for k in range(n, end):
        v = values[k]
        if not abs(v) < VALUE_LIMIT:
            return np.int64(FALLBACK)
        hashes[n_kept] = hashes[k]
        texts[n_kept] = texts[k]
        values[n_kept] = v
        n_kept += np.uint64(v != 0.0)
    return np.int64(n_kept)
