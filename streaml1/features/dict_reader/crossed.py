"""Read dicts whose names are interned in a vocabulary, with crossed features."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.ascii import EQUALS
from streaml1.core.jit import inlined, u64
from streaml1.core.simd import array_at, load_u64
from streaml1.features.dict_reader.context_fields import (
    ARENA,
    ARENA_COUNT,
    CROSSED,
    CROSSED_NAME_BYTES,
    CROSSED_USED,
    ENDS,
    HASHES,
    IDS,
    INDEX_USED,
    KEYS,
    KNOWN_KEYS,
    KNOWN_TEXTS,
    LENGTH,
    N_ARENA,
    N_ARENA_HASHES,
    N_CROSSED,
    N_NUMBERS,
    N_PRODUCTS,
    NONE,
    NUMBERS,
    PART_HASHES,
    PART_MASKS,
    PART_POSITIONS,
    PRODUCT_COUNT,
    PRODUCT_HASHES,
    PRODUCT_PARTS,
    PRODUCT_SLOTS,
    SCRATCH,
    TEXTS,
    TRUE,
    VALUES,
)
from streaml1.features.dict_reader.cpython_objects import FALLBACK, FULL, clear_error, utf8_of
from streaml1.features.dict_reader.crossed_factors import (
    append_arena_name,
    append_crossed,
    copy_string,
)
from streaml1.features.dict_reader.interned import (
    FALLBACK_SLOT,
    find_slots,
    find_slots_by_hash,
    has_capacity,
    intern_slots,
    list_append,
    list_length,
    prefetch_lines,
    read,
    set_slice,
)
from streaml1.features.interactions.kernels import FACTOR_BITS, NO_FACTOR, first_prefix
from streaml1.features.vocabulary.probing import MISSING, lookup, max_taken

__all__ = ["read_all", "read_known"]


@inlined
def _read(context: Any, x: Any) -> tuple[Any, Any]:
    """Read as `interned.read` does, then append crossed features; return both counts, or < 0."""
    n = read(context, x)
    if n < 0:
        return n, n
    length = context[LENGTH]
    values = array_at(context[VALUES], length, np.float64)
    keys = array_at(context[KEYS], length, np.uint64)
    texts = array_at(context[TEXTS], length, np.uint64)
    hashes = array_at(context[HASHES], length, np.uint64)
    total = append_crossed(context, keys, texts, values, hashes, np.uint64(n))
    if total >= 0:
        crossed = array_at(context[CROSSED], context[N_CROSSED], np.uint64)
        prefetch_lines(crossed, hashes, np.uint64(n), np.uint64(total))
    return n, total


@inlined
def read_known(context: Any, x: Any) -> Any:
    """Convert the dict at `x` to (ids, values) without interning names; return nnz or FALLBACK."""
    n, total = _read(context, x)
    if total < 0:
        return total
    m = find_slots(context, np.uint64(n))
    if m < 0:
        return m
    crossed = array_at(context[CROSSED], context[N_CROSSED], np.uint64)
    return np.int64(
        find_slots_by_hash(context, crossed, np.uint64(n), np.uint64(total), np.uint64(m))
    )


@inlined
def _factor_number(context: Any, k: Any) -> Any:
    """Return the number of the k-th factor, adding it if it is new; or FALLBACK_SLOT."""
    numbers = array_at(context[NUMBERS], context[N_NUMBERS], np.uint64)
    h = array_at(context[PART_HASHES], context[LENGTH], np.uint64)[k]
    pos = lookup(numbers, h)
    if numbers[pos + u64(1)] != MISSING:
        return numbers[pos + u64(1)]
    n = np.uint64(array_at(context[ARENA_COUNT], 1, np.int64)[0])
    ends = array_at(context[ENDS], context[N_ARENA_HASHES] + u64(1), np.uint64)
    position = array_at(context[PART_POSITIONS], context[LENGTH], np.uint64)[k]
    key = array_at(context[KEYS], context[LENGTH], np.uint64)[position]
    text = array_at(context[TEXTS], context[LENGTH], np.uint64)[position]
    name = utf8_of(context, key)
    size = load_u64(context[SCRATCH])
    if not name:
        clear_error()
        return FALLBACK_SLOT
    out_pos = copy_string(name, name + size, context[ARENA] + ends[n])
    if text:
        name = utf8_of(context, text)
        text_size = load_u64(context[SCRATCH])
        size += text_size + u64(1)
        if not name:
            clear_error()
            return FALLBACK_SLOT
        array_at(out_pos, 1, np.uint8)[0] = EQUALS
        copy_string(name, name + text_size, out_pos + u64(1))
    append_arena_name(context, h, size)
    numbers[pos] = h
    numbers[pos + u64(1)] = n
    return n


@inlined
def _store_factors(context: Any, packed: Any, product: Any) -> bool:
    """Store the numbers of the factors of a product; return whether all have one.

    Factors are sorted by prefix, then by hash.
    """
    length = context[LENGTH]
    masks = array_at(context[PART_MASKS], length, np.uint64)
    hashes = array_at(context[PART_HASHES], length, np.uint64)
    parts = array_at(context[PRODUCT_PARTS], u64(3) * context[N_PRODUCTS], np.uint32)
    n = u64(2) if packed >> (FACTOR_BITS + FACTOR_BITS) == NO_FACTOR else u64(3)
    base, failed = u64(3) * product, False
    parts[base + u64(2)] = MISSING
    # Invariant: the first k factors are stored; `rank` is the sorted position of a factor.
    for k in range(n):
        part = packed >> (FACTOR_BITS * k) & NO_FACTOR
        rank = u64(0)
        for z in range(n):
            rival = packed >> (FACTOR_BITS * z) & NO_FACTOR
            a, b = first_prefix(masks[rival]), first_prefix(masks[part])
            lower = hashes[rival] < hashes[part]
            lower |= hashes[rival] == hashes[part] and rival < part
            rank += np.uint64(a < b or (a == b and lower))
        number = _factor_number(context, part)
        failed |= number == FALLBACK_SLOT
        parts[base + rank] = np.uint32(number)
    return not failed


@inlined
def _intern_crossed(context: Any, crossed: Any, pos: Any, packed: Any, h: Any) -> Any:
    """Intern a crossed feature at `pos` of the hash table; return its slot or FALLBACK_SLOT.

    This creates no object that the garbage collector tracks: a collection may run arbitrary code.
    """
    new_slot = list_length(context[KNOWN_KEYS])
    count = array_at(context[PRODUCT_COUNT], 1, np.int64)
    n = np.uint64(count[0])
    if not _store_factors(context, packed, n):
        return FALLBACK_SLOT
    if list_append(context[KNOWN_KEYS], context[NONE]):
        clear_error()
        return FALLBACK_SLOT
    if list_append(context[KNOWN_TEXTS], context[TRUE]):
        clear_error()
        set_slice(context[KNOWN_KEYS], new_slot, new_slot + 1, u64(0))
        return FALLBACK_SLOT
    array_at(context[PRODUCT_HASHES], context[N_PRODUCTS], np.uint64)[n] = h
    array_at(context[PRODUCT_SLOTS], context[N_PRODUCTS], np.uint32)[n] = new_slot
    count[0] += 1
    crossed[pos] = h
    crossed[pos + u64(1)] = np.uint64(new_slot)
    array_at(context[CROSSED_USED], 1, np.int64)[0] += 1
    return np.uint64(new_slot)


@inlined
def _is_full(context: Any, n: Any, total: Any) -> bool:
    """Return whether `n` new names and `total - n` new crossed features would not fit."""
    new = np.int64(total - n)
    used = array_at(context[CROSSED_USED], 1, np.int64)[0]
    n_factors = array_at(context[INDEX_USED], 1, np.int64)[0]
    full = not has_capacity(context, n, total)
    full |= used + new > np.int64(max_taken(context[N_CROSSED]))
    full |= used + new > np.int64(context[N_PRODUCTS])
    full |= n_factors + np.int64(n) > np.int64(max_taken(context[N_NUMBERS]))
    full |= n_factors + np.int64(n) > np.int64(context[N_ARENA_HASHES])
    arena_end = array_at(context[ENDS], context[N_ARENA_HASHES] + u64(1), np.uint64)[
        np.uint64(n_factors)
    ]
    full |= arena_end + context[CROSSED_NAME_BYTES] > context[N_ARENA]
    return bool(full)


@inlined
def read_all(context: Any, x: Any) -> Any:
    """Convert the dict at `x` to (ids, values), interning names; return nnz, FALLBACK or FULL."""
    n, total = _read(context, x)
    if total < 0:
        return total
    if _is_full(context, n, total):
        return np.int64(FULL)
    if intern_slots(context, np.uint64(n), True) < 0:
        return np.int64(FALLBACK)
    length = context[LENGTH]
    ids = array_at(context[IDS], length, np.uint32)
    texts = array_at(context[TEXTS], length, np.uint64)
    hashes = array_at(context[HASHES], length, np.uint64)
    crossed = array_at(context[CROSSED], context[N_CROSSED], np.uint64)
    # Invariant: ids[:k] are slots, and every crossed feature before k is interned.
    for k in range(np.uint64(n), np.uint64(total)):
        pos = lookup(crossed, hashes[k])
        slot = crossed[pos + u64(1)]
        if slot == MISSING:
            slot = _intern_crossed(context, crossed, pos, texts[k], hashes[k])
            if slot == FALLBACK_SLOT:
                return np.int64(FALLBACK)
        ids[k] = np.uint32(slot)
    return total
