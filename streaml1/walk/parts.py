"""Names that are kept and features that are crossed, in kernels that hold the interpreter lock."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.crosses.kernels import NO_PART, bound, crossed, grouped, mask_at
from streaml1.jit import array_at, inlined, load, load_word, store_word
from streaml1.parse.names import murmur_at, murmur_of_string
from streaml1.rows import LIMIT
from streaml1.walk.fields import (
    ARENA_COUNT,
    BY_COUNT,
    BY_USED,
    BYTES,
    ENDS,
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
    PLAN,
    SCRATCH,
    STARTS,
    STR,
)
from streaml1.walk.memory import OTHER_ROAD, type_of, utf8_of

__all__ = ["crossed_of", "kept", "put"]

_ZERO, _ONE, _EIGHT = map(np.uint64, (0, 1, 8))
_MOST_BYTES = np.uint64(2000)
_EQUALS = np.uint8(61)


@inlined
def put(start: Any, end: Any, to: Any) -> Any:
    """Copy the bytes between two addresses, of a string; returns where the copy ends.

    None behind a string may be read, but those before it, which are Python's own. Up to seven more
    are written behind the copy.
    """
    while end - start >= _EIGHT:
        store_word(to, load_word(start))
        start += _EIGHT
        to += _EIGHT
    n = end - start
    if n:
        store_word(to, load_word(end - _EIGHT) >> (_EIGHT * (_EIGHT - n)))
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
def _parts(frame: Any, plan: Any, keys: Any, texts: Any, values: Any, n: Any) -> Any:
    """Write down those of the first `n` features that are crossed; how many, or OTHER_ROAD."""
    length = frame[LENGTH]
    masks = array_at(frame[PART_MASKS], length, np.uint64)
    hashes = array_at(frame[PART_HASHES], length, np.uint64)
    part_values = array_at(frame[PART_VALUES], length, np.float64)
    at = array_at(frame[PART_AT], length, np.uint64)
    copy = frame[BYTES]
    m, joined, letters = _ZERO, _ZERO, _ZERO
    for k in range(n):
        if type_of(keys[k]) != frame[STR]:
            continue
        name = utf8_of(frame, keys[k])
        if not name:
            return np.int64(OTHER_ROAD)
        size = load(frame[SCRATCH])
        mask = mask_at(plan, name, name + size)
        if not mask:
            continue
        if mask & (mask - _ONE):  # with prefixes in common a cross may come twice
            return np.int64(OTHER_ROAD)
        if size > _MOST_BYTES:
            return np.int64(OTHER_ROAD)
        letters += size
        if texts[k]:
            end = put(name, name + size, copy)
            text = utf8_of(frame, texts[k])
            more = load(frame[SCRATCH])
            if not text or size + more + _ONE > _MOST_BYTES:
                return np.int64(OTHER_ROAD)
            array_at(end, 1, np.uint8)[0] = _EQUALS
            end = put(text, text + more, end + _ONE)
            letters += more + _ONE
            joined += _ONE
            hashes[m] = murmur_at(copy, end)
        else:
            hashes[m] = murmur_of_string(name, name + size)
        masks[m] = mask
        part_values[m] = values[k]
        at[m] = k
        m += _ONE
    frame[LETTERS] = letters
    if joined and _comes_twice(hashes, at, texts, m):
        return np.int64(OTHER_ROAD)
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

    `hashes` gets their hashes, `texts` their parts, see `crosses.kernels.crossed`. Or OTHER_ROAD,
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
        return np.int64(OTHER_ROAD)
    end = crossed(plan, masks, part_hashes, part_values, members, starts, hashes, values, texts, n)
    last = n
    for k in range(n, end):
        v = values[k]
        if not abs(v) < LIMIT:
            return np.int64(OTHER_ROAD)
        hashes[last] = hashes[k]
        texts[last] = texts[k]
        values[last] = v
        last += np.uint64(v != 0.0)
    return np.int64(last)
