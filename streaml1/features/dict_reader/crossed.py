"""Dicts whose names stand in a table, some of their features crossed."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.simd import array_at, load_u64
from streaml1.features.dict_reader.context_fields import (
    ARENA,
    ARENA_COUNT,
    BY_USED,
    CROSSED,
    CROSSED_USED,
    ENDS,
    HASHES,
    IDS,
    KEYS,
    KNOWN,
    LENGTH,
    LETTERS,
    N_ARENA,
    N_CROSSED,
    N_KEPT,
    N_NUMBERS,
    N_PRODUCTS,
    NONE,
    NUMBERS,
    PART_AT,
    PART_HASHES,
    PART_MASKS,
    PRODUCT_COUNT,
    PRODUCT_HASHES,
    PRODUCT_PARTS,
    PRODUCT_SLOTS,
    SCRATCH,
    TEXTS,
    TEXTS_KNOWN,
    TRUE,
    VALUES,
)
from streaml1.features.dict_reader.cpython_objects import FALLBACK, FULL, no_error, utf8_of
from streaml1.features.dict_reader.crossed_factors import crossed_of, kept, put
from streaml1.features.dict_reader.interned import (
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
from streaml1.features.interactions.kernels import AT, NO_PART, first_prefix
from streaml1.features.vocabulary.probing import MISSING, lookup

__all__ = ["read_all", "read_known"]

_ZERO, _ONE, _TWO, _THREE = map(np.uint64, (0, 1, 2, 3))
_EQUALS = np.uint8(61)


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
def _number(frame: Any, k: Any) -> Any:
    """The number of the k-th part of this example, entered where it is new; or NO_ROAD."""
    numbers = array_at(frame[NUMBERS], frame[N_NUMBERS], np.uint64)
    h = array_at(frame[PART_HASHES], frame[LENGTH], np.uint64)[k]
    at = lookup(numbers, h)
    if numbers[at + _ONE] != MISSING:
        return numbers[at + _ONE]
    n = np.uint64(array_at(frame[ARENA_COUNT], 1, np.int64)[0])
    ends = array_at(frame[ENDS], frame[N_KEPT] + _ONE, np.uint64)
    entry = array_at(frame[PART_AT], frame[LENGTH], np.uint64)[k]
    key = array_at(frame[KEYS], frame[LENGTH], np.uint64)[entry]
    text = array_at(frame[TEXTS], frame[LENGTH], np.uint64)[entry]
    name = utf8_of(frame, key)
    size = load_u64(frame[SCRATCH])
    if not name:
        no_error()
        return NO_ROAD
    to = put(name, name + size, frame[ARENA] + ends[n])
    if text:
        name = utf8_of(frame, text)
        more = load_u64(frame[SCRATCH])
        size += more + _ONE
        if not name:
            no_error()
            return NO_ROAD
        array_at(to, 1, np.uint8)[0] = _EQUALS
        put(name, name + more, to + _ONE)
    kept(frame, h, size)
    numbers[at] = h
    numbers[at + _ONE] = n
    return n


@inlined
def _put_parts(frame: Any, packed: Any, place: Any) -> bool:
    """Keep the numbers of some parts, by prefix and then by hash; whether all have one."""
    length = frame[LENGTH]
    masks = array_at(frame[PART_MASKS], length, np.uint64)
    hashes = array_at(frame[PART_HASHES], length, np.uint64)
    parts = array_at(frame[PRODUCT_PARTS], _THREE * frame[N_PRODUCTS], np.uint32)
    n = _TWO if packed >> (AT + AT) == NO_PART else _THREE
    to, failed = _THREE * place, False
    parts[to + _TWO] = MISSING
    for k in range(n):
        part = packed >> (AT * k) & NO_PART
        rank = _ZERO
        for z in range(n):
            other = packed >> (AT * z) & NO_PART
            a, b = first_prefix(masks[other]), first_prefix(masks[part])
            lower = hashes[other] < hashes[part]
            lower |= hashes[other] == hashes[part] and other < part
            rank += np.uint64(a < b or (a == b and lower))
        number = _number(frame, part)
        failed |= number == NO_ROAD
        parts[to + rank] = np.uint32(number)
    return not failed


@inlined
def _admitted(frame: Any, crossed: Any, at: Any, packed: Any, h: Any) -> Any:
    """Slot of a crossed feature that is not in the table, entered `at` a place; or NO_ROAD.

    Nothing is made here that the garbage collector knows: it could run anybody's code.
    """
    known = length_of_list(frame[KNOWN])
    count = array_at(frame[PRODUCT_COUNT], 1, np.int64)
    n = np.uint64(count[0])
    if not _put_parts(frame, packed, n):
        return NO_ROAD
    if append(frame[KNOWN], frame[NONE]):
        no_error()
        return NO_ROAD
    if append(frame[TEXTS_KNOWN], frame[TRUE]):
        no_error()
        cut(frame[KNOWN], known, known + 1, _ZERO)
        return NO_ROAD
    array_at(frame[PRODUCT_HASHES], frame[N_PRODUCTS], np.uint64)[n] = h
    array_at(frame[PRODUCT_SLOTS], frame[N_PRODUCTS], np.uint32)[n] = known
    count[0] += 1
    crossed[at] = h
    crossed[at + _ONE] = np.uint64(known)
    array_at(frame[CROSSED_USED], 1, np.int64)[0] += 1
    return np.uint64(known)


@inlined
def _is_full(frame: Any, n: Any, total: Any) -> bool:
    """Whether there is no room for `n` names and, behind them, crossed features up to `total`."""
    new = np.int64(total - n)
    used = array_at(frame[CROSSED_USED], 1, np.int64)[0]
    numbered = array_at(frame[BY_USED], 1, np.int64)[0]
    full = not has_room(frame, n, total)
    full |= 4 * (used + new) > np.int64(frame[N_CROSSED])
    full |= used + new > np.int64(frame[N_PRODUCTS])
    full |= 4 * (numbered + np.int64(n)) > np.int64(frame[N_NUMBERS])
    full |= numbered + np.int64(n) > np.int64(frame[N_KEPT])
    letters = array_at(frame[ENDS], frame[N_KEPT] + _ONE, np.uint64)[np.uint64(numbered)]
    full |= letters + frame[LETTERS] > frame[N_ARENA]
    return bool(full)


@inlined
def read_all(frame: Any, x: Any) -> Any:
    """As `table.read_all`."""
    n, total = _read(frame, x)
    if total < 0:
        return total
    if _is_full(frame, n, total):
        return np.int64(FULL)
    if entered(frame, np.uint64(n), True) < 0:
        return np.int64(FALLBACK)
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    texts = array_at(frame[TEXTS], length, np.uint64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    crossed = array_at(frame[CROSSED], frame[N_CROSSED], np.uint64)
    for k in range(np.uint64(n), np.uint64(total)):
        at = lookup(crossed, hashes[k])
        slot = crossed[at + _ONE]
        if slot == MISSING:
            slot = _admitted(frame, crossed, at, texts[k], hashes[k])
            if slot == NO_ROAD:
                return np.int64(FALLBACK)
        ids[k] = np.uint32(slot)
    return total
