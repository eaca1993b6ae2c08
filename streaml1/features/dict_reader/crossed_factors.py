"""Names that are kept and features that are crossed, in kernels that hold the interpreter lock."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import array_at, load_u64, loadu_u64, store_u64
from streaml1.features.dict_reader.context_fields import (
    ARENA_COUNT,
    BY_COUNT,
    BY_USED,
    BYTES,
    ENDS,
    ENTRIES,
    KEPT_HASHES,
    LENGTH,
    LETTERS,
    MEMBERS,
    N_KEPT,
    N_MEMBERS,
    N_PLAN,
    NEEDED,
    PART_AT,
    PART_HASHES,
    PART_MASKS,
    PART_VALUES,
    PARTS_SEEN,
    PLAN,
    SCRATCH,
    STARTS,
    STR,
)
from streaml1.features.dict_reader.cpython_objects import FALLBACK, hash_of, type_of, utf8_of
from streaml1.features.interactions.kernels import NO_PART, bound, crossed, grouped, mask_at
from streaml1.features.vocabulary.hash_keys import alias
from streaml1.text.byte_names import murmur_at, murmur_reading_back

__all__ = ["SEEN", "crossed_of", "kept", "put"]

_ZERO, _ONE, _TWO, _EIGHT = map(np.uint64, (0, 1, 2, 8))
_MOST_BYTES = np.uint64(2000)
_EQUALS = np.uint8(61)

# Of names and of parts that examples have had, what is made anew otherwise: names come again, and
# what is predicted is learnt next. One stands where its hash in this process tells.
_NAMES, _PARTS = 256, 512
_A_NAME, _A_PART = map(np.uint64, (2, 3))  # words: the hash and its prefixes; or hash and bytes
_PARTS_AT = np.uint64(2 * _NAMES)
SEEN = 2 * _NAMES + 3 * _PARTS


@inlined
def put(start: Any, end: Any, to: Any) -> Any:
    """Copy the bytes between two addresses, of a string; returns where the copy ends.

    None behind a string may be read, but those before it, which are Python's own. Up to seven more
    are written behind the copy.
    """
    while end - start >= _EIGHT:
        store_u64(to, loadu_u64(start))
        start += _EIGHT
        to += _EIGHT
    n = end - start
    if n:
        store_u64(to, loadu_u64(end - _EIGHT) >> (_EIGHT * (_EIGHT - n)))
    return to + n


@inlined
def kept(frame: Any, h: Any, size: Any) -> None:
    """Count a name of so many bytes, which stand behind those of the names that wait."""
    count = array_at(frame[ARENA_COUNT], 1, np.int64)
    ends = array_at(frame[ENDS], frame[N_KEPT] + _ONE, np.uint64)
    n = np.uint64(count[0])
    array_at(frame[KEPT_HASHES], frame[N_KEPT], np.uint64)[n] = h
    ends[n + _ONE] = ends[n] + size
    count[0] += 1
    array_at(frame[BY_USED], 1, np.int64)[0] += 1
    array_at(frame[BY_COUNT], 1, np.int64)[0] += 1


@inlined
def _prefixes(frame: Any, plan: Any, seen: Any, key: Any) -> Any:
    """The prefixes that a name belongs to, a bit each; or -1 where it has no UTF-8."""
    h = hash_of(key)
    at = _A_NAME * (h % np.uint64(_NAMES))
    if seen[at] != h or not h:
        name = utf8_of(frame, key)
        if not name:
            return np.int64(-1)
        seen[at + _ONE] = mask_at(plan, name, name + load_u64(frame[SCRATCH]))
        seen[at] = h
    return np.int64(seen[at + _ONE])


@inlined
def _part(frame: Any, key: Any, text: Any) -> tuple[Any, Any]:
    """The stable hash of a name, or of a category in its parts, and its bytes; 0 if none can be."""
    name = utf8_of(frame, key)
    size = load_u64(frame[SCRATCH])
    if not name or size > _MOST_BYTES:
        return _ZERO, _ZERO
    if not text:
        return murmur_reading_back(name, name + size), size
    copy = frame[BYTES]
    end = put(name, name + size, copy)
    name = utf8_of(frame, text)
    more = load_u64(frame[SCRATCH])
    if not name or size + more + _ONE > _MOST_BYTES:
        return _ZERO, _ZERO
    array_at(end, 1, np.uint8)[0] = _EQUALS
    end = put(name, name + more, end + _ONE)
    return murmur_at(copy, end), size + more + _ONE


@inlined
def _parts(frame: Any, plan: Any, keys: Any, texts: Any, values: Any, n: Any) -> Any:
    """Write down those of the first `n` features that are crossed; how many, or FALLBACK."""
    length = frame[LENGTH]
    masks = array_at(frame[PART_MASKS], length, np.uint64)
    hashes = array_at(frame[PART_HASHES], length, np.uint64)
    part_values = array_at(frame[PART_VALUES], length, np.float64)
    places = array_at(frame[PART_AT], length, np.uint64)
    seen = array_at(frame[PARTS_SEEN], SEEN, np.uint64)
    known = frame[ENTRIES] != _ZERO  # names in a table have been hashed by Python
    m, joined, letters = _ZERO, _ZERO, _ZERO
    for k in range(n):
        if type_of(keys[k]) != frame[STR]:
            continue
        mask = _prefixes(frame, plan, seen, keys[k])
        if not mask:
            continue
        if mask & (mask - np.int64(1)):  # none; or several, by which a cross may come twice
            return np.int64(FALLBACK)
        h = _ZERO
        if known:
            h = hash_of(keys[k])
            if texts[k]:
                h = alias(h, hash_of(texts[k]))
        at = _PARTS_AT + _A_PART * (h % np.uint64(_PARTS))
        if seen[at] != h or not h:
            stable, size = _part(frame, keys[k], texts[k])
            if not size:
                return np.int64(FALLBACK)
            seen[at], seen[at + _ONE], seen[at + _TWO] = h, stable, size
        hashes[m] = seen[at + _ONE]
        letters += seen[at + _TWO]
        joined += np.uint64(texts[k] != _ZERO)
        masks[m] = np.uint64(mask)
        part_values[m] = values[k]
        places[m] = k
        m += _ONE
    frame[LETTERS] = letters
    if joined and _comes_twice(hashes, places, texts, m):
        return np.int64(FALLBACK)
    return np.int64(m)


@inlined
def _comes_twice(hashes: Any, at: Any, texts: Any, m: Any) -> bool:
    """Whether a category, given in its parts, comes again: whole, or in other parts."""
    for k in range(m):
        if texts[at[k]]:
            same = 0
            for z in range(m):
                same += hashes[z] == hashes[k]
            if same > 1:
                return True
    return False


@inlined
def crossed_of(frame: Any, keys: Any, texts: Any, values: Any, hashes: Any, n: Any) -> Any:
    """Write the crossed features of the first `n` behind them; how many there are then.

    `hashes` gets their hashes, `texts` their parts, see `crosses.kernels.crossed`. Or FALLBACK,
    where there is no room for them, which NEEDED tells, or one is too large, or too many parts.
    """
    plan = array_at(frame[PLAN], frame[N_PLAN], np.uint64)
    m = _parts(frame, plan, keys, texts, values, n)
    if m < 0:
        return m
    length = frame[LENGTH]
    masks = array_at(frame[PART_MASKS], length, np.uint64)
    part_hashes = array_at(frame[PART_HASHES], length, np.uint64)
    part_values = array_at(frame[PART_VALUES], length, np.float64)
    members = array_at(frame[MEMBERS], frame[N_MEMBERS], np.uint64)
    starts = array_at(frame[STARTS], plan[0] + _ONE, np.uint64)
    grouped(plan, masks, np.uint64(m), members, starts)
    needed = n + bound(plan, starts)
    frame[NEEDED] = needed
    if needed > length or np.uint64(m) > NO_PART:  # too many parts are refused there
        return np.int64(FALLBACK)
    end = crossed(plan, masks, part_hashes, part_values, members, starts, hashes, values, texts, n)
    last = n
    for k in range(n, end):
        v = values[k]
        if not abs(v) < VALUE_LIMIT:
            return np.int64(FALLBACK)
        hashes[last] = hashes[k]
        texts[last] = texts[k]
        values[last] = v
        last += np.uint64(v != 0.0)
    return np.int64(last)
