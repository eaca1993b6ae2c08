"""Read dicts whose names are interned in a vocabulary.

The hash table maps a name by Python's hash of it, and a category `name=text` by an alias, which
combines the hashes of both: see `vocabulary.hash_keys`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.hashing import mix64
from streaml1.core.jit import inlined, python_api, u64
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import array_at, prefetch
from streaml1.features.dict_reader.context_fields import (
    COUNTS,
    ENTRIES,
    EQUALS_TEXT,
    HASH_MASK,
    HASHES,
    IDS,
    INT,
    KEYS,
    KNOWN_KEYS,
    KNOWN_TEXTS,
    LENGTH,
    N_ENTRIES,
    NONE,
    SEED,
    SIZE,
    STR,
    TEXTS,
    UNKNOWN,
    VALUES,
)
from streaml1.features.dict_reader.cpython_objects import (
    EQUALS_SIGN,
    FALLBACK,
    FULL,
    MAX_COMPARED,
    NO_INT,
    clear_error,
    collect,
    contains_char,
    hash_of,
    int_of,
    number_of,
    type_of,
    unknown_value,
)
from streaml1.features.vocabulary.hash_keys import alias
from streaml1.features.vocabulary.name_index import ALIASED, DOUBLE, IRREGULAR, USED, WHOLE
from streaml1.features.vocabulary.probing import MISSING, home_line, lookup, max_taken

__all__ = [
    "FALLBACK_SLOT",
    "list_append",
    "set_slice",
    "intern_slots",
    "find_slots",
    "has_capacity",
    "list_length",
    "find_slots_by_hash",
    "prefetch_lines",
    "read",
    "read_all",
    "read_known",
]

_NULL = u64(0)
_BLANK = np.uint32(32)
FALLBACK_SLOT = u64(MISSING - 1)

_concat = python_api("PyUnicode_Concat", "uint64", "uint64", "uint64")
_release = python_api("Py_DecRef", "void", "uint64")
list_length = python_api("PyList_Size", "int64", "uint64")
list_append = python_api("PyList_Append", "int32", "uint64", "uint64")
set_slice = python_api("PyList_SetSlice", "int32", "uint64", "int64", "int64", "uint64")


@inlined
def read(context: Any, x: Any) -> Any:
    """Write the non-zero features of the dict at `x` to the buffers; return nnz or FALLBACK.

    KEYS and TEXTS receive the addresses of names and of string values (0 for a number), HASHES the
    hashes of names or the aliases of categories, VALUES the numbers.
    """
    length = context[LENGTH]
    values = array_at(context[VALUES], length, np.float64)
    keys = array_at(context[KEYS], length, np.uint64)
    texts = array_at(context[TEXTS], length, np.uint64)
    hashes = array_at(context[HASHES], length, np.uint64)
    entries = array_at(context[ENTRIES], context[N_ENTRIES], np.uint64)
    total = collect(context, x, keys, texts)
    if total < 0:
        return total
    n = u64(0)
    # Invariant: n <= k, and the buffers hold n features; keys[k:] and texts[k:] are still unread.
    for k in range(np.uint64(total)):
        key, value = keys[k], texts[k]
        kind = type_of(value)
        v = number_of(context, value, kind)
        if not abs(v) < VALUE_LIMIT:
            return np.int64(FALLBACK)
        kind_of_key = type_of(key)
        if kind_of_key == context[STR]:
            h = hash_of(key)
            if kind == context[STR]:
                h = alias(h, hash_of(value))
        elif kind_of_key == context[INT] and kind != context[STR]:
            j = int_of(key)
            if j == NO_INT:
                return np.int64(FALLBACK)
            h = mix64(np.uint64(j) ^ context[SEED])
        else:
            return np.int64(FALLBACK)
        if v == 0.0:
            continue
        h &= context[HASH_MASK]
        prefetch(entries, home_line(entries, h))
        keys[n] = key
        texts[n] = value if kind == context[STR] else _NULL
        hashes[n] = h
        values[n] = v
        n += u64(1)
    return np.int64(n)


@inlined
def _has_blank(context: Any, text: Any) -> bool:
    """Return whether the object at `text` is a str that contains a blank; False for address 0."""
    if not text or type_of(text) != context[STR]:
        return False
    return contains_char(text, _BLANK)


@inlined
def _slot_of_joined_text(context: Any, entries: Any, key: Any, text: Any) -> Any:
    """Return the slot of the string `key=text`, looked up by the hash of the whole string."""
    half = _concat(key, context[EQUALS_TEXT])
    if half == _NULL:
        clear_error()
        return FALLBACK_SLOT
    whole = _concat(half, text)
    _release(half)
    if whole == _NULL:
        clear_error()
        return FALLBACK_SLOT
    slot = entries[lookup(entries, hash_of(whole) & context[HASH_MASK]) + u64(1)]
    _release(whole)
    return slot


@inlined
def _slot_under_other_hash(context: Any, entries: Any, counts: Any, key: Any, text: Any) -> Any:
    """Return the slot of a name whose hash or alias is not in the hash table, or MISSING.

    A category may have been interned as a whole string, or the reverse. Returns FALLBACK_SLOT if
    only Python code can decide.
    """
    if counts[IRREGULAR]:
        return FALLBACK_SLOT
    if text != _NULL:
        if contains_char(key, EQUALS_SIGN):
            return FALLBACK_SLOT
        return (
            _slot_of_joined_text(context, entries, key, text)
            if counts[WHOLE]
            else np.uint64(MISSING)
        )
    if counts[ALIASED] and type_of(key) == context[STR] and contains_char(key, EQUALS_SIGN):
        return FALLBACK_SLOT
    return np.uint64(MISSING)


@inlined
def _has_repeat(ids: Any, n: Any) -> bool:
    """Return whether two features share a slot; True for rows longer than MAX_COMPARED."""
    if n > MAX_COMPARED:
        return True
    for k in range(n):
        for m in range(k):
            if ids[m] == ids[k]:
                return True
    return False


@inlined
def find_slots(context: Any, n: Any) -> Any:
    """Write the slots of the first `n` features that `read` has written, without interning names.

    Returns the number of features that have a slot or take the slot UNKNOWN, or FALLBACK.
    """
    length = context[LENGTH]
    ids = array_at(context[IDS], length, np.uint32)
    values = array_at(context[VALUES], length, np.float64)
    keys = array_at(context[KEYS], length, np.uint64)
    texts = array_at(context[TEXTS], length, np.uint64)
    hashes = array_at(context[HASHES], length, np.uint64)
    entries = array_at(context[ENTRIES], context[N_ENTRIES], np.uint64)
    counts = array_at(context[COUNTS], 5, np.int64)
    m = u64(0)
    may_repeat = counts[DOUBLE] != 0
    # Invariant: m <= k, and ids[:m] and values[:m] are final.
    for k in range(n):
        slot = entries[lookup(entries, hashes[k]) + u64(1)]
        if slot == MISSING:
            slot = _slot_under_other_hash(context, entries, counts, keys[k], texts[k])
            if slot == FALLBACK_SLOT:
                return np.int64(FALLBACK)
            may_repeat |= slot != MISSING
            if slot == MISSING:
                slot = context[UNKNOWN]
                values[k] = unknown_value(context, values[k])
        if slot != MISSING:
            ids[m] = np.uint32(slot)
            values[m] = values[k]
            m += u64(1)
    if may_repeat and _has_repeat(ids, m):
        return np.int64(FALLBACK)
    return np.int64(m)


@inlined
def prefetch_lines(entries: Any, hashes: Any, first: Any, last: Any) -> None:
    """Prefetch the cache lines of `hashes[first:last]` in a hash table."""
    for k in range(first, last):
        prefetch(entries, home_line(entries, hashes[k]))


@inlined
def find_slots_by_hash(context: Any, entries: Any, first: Any, last: Any, m: Any) -> Any:
    """Write the slots of the features `first` to `last`, found by hash alone, from position m on.

    Returns the position after the last one written.
    """
    length = context[LENGTH]
    ids = array_at(context[IDS], length, np.uint32)
    values = array_at(context[VALUES], length, np.float64)
    hashes = array_at(context[HASHES], length, np.uint64)
    for k in range(first, last):
        slot = entries[lookup(entries, hashes[k]) + u64(1)]
        if slot == MISSING:
            slot = context[UNKNOWN]
            values[k] = unknown_value(context, values[k])
        if slot != MISSING:
            ids[m] = np.uint32(slot)
            values[m] = values[k]
            m += u64(1)
    return m


@inlined
def _enter(entries: Any, counts: Any, h: Any, slot: Any) -> None:
    pos = lookup(entries, h)
    entries[pos] = h
    entries[pos + u64(1)] = slot
    counts[USED] += 1


@inlined
def _intern(context: Any, entries: Any, counts: Any, h: Any, key: Any, text: Any) -> Any:
    """Intern a name whose hash or alias is not in the hash table; return its slot.

    Returns FALLBACK_SLOT if only Python code can decide. Both lists keep one length: if the second
    append fails, the first is undone.
    """
    slot = _slot_under_other_hash(context, entries, counts, key, text)
    if slot == FALLBACK_SLOT:
        return slot
    if slot != MISSING:
        _enter(entries, counts, h, slot)
        counts[WHOLE] -= 1
        counts[DOUBLE] += 1
        return slot
    new_slot = list_length(context[KNOWN_KEYS])
    if list_append(context[KNOWN_KEYS], key):
        clear_error()
        return FALLBACK_SLOT
    if list_append(context[KNOWN_TEXTS], text if text != _NULL else context[NONE]):
        clear_error()
        set_slice(context[KNOWN_KEYS], new_slot, new_slot + 1, _NULL)
        return FALLBACK_SLOT
    _enter(entries, counts, h, np.uint64(new_slot))
    if text != _NULL:
        counts[ALIASED] += 1
    elif type_of(key) == context[STR] and contains_char(key, EQUALS_SIGN):
        counts[WHOLE] += 1
    return np.uint64(new_slot)


@inlined
def intern_slots(context: Any, n: Any, reject_blanks: bool) -> Any:
    """Write the slots of the first `n` features, interning new names; return `n` or FALLBACK.

    `reject_blanks` is set in models with crossed features: a new name with a blank falls back.
    """
    length = context[LENGTH]
    ids = array_at(context[IDS], length, np.uint32)
    keys = array_at(context[KEYS], length, np.uint64)
    texts = array_at(context[TEXTS], length, np.uint64)
    hashes = array_at(context[HASHES], length, np.uint64)
    entries = array_at(context[ENTRIES], context[N_ENTRIES], np.uint64)
    counts = array_at(context[COUNTS], 5, np.int64)
    # Invariant: ids[:k] are slots. Names before k stay interned even if a later one falls back.
    for k in range(n):
        slot = entries[lookup(entries, hashes[k]) + u64(1)]
        if slot == MISSING:
            # A name with a blank may read as a crossed feature.
            if reject_blanks and (_has_blank(context, keys[k]) or _has_blank(context, texts[k])):
                return np.int64(FALLBACK)
            slot = _intern(context, entries, counts, hashes[k], keys[k], texts[k])
            if slot == FALLBACK_SLOT:
                return np.int64(FALLBACK)
        ids[k] = np.uint32(slot)
    if counts[DOUBLE] and _has_repeat(ids, n):
        return np.int64(FALLBACK)
    return np.int64(n)


@inlined
def has_capacity(context: Any, n: Any, total: Any) -> bool:
    """Return whether there is room if all `n` names, or `total` with crossed ones, are new."""
    used = array_at(context[COUNTS], 5, np.int64)[USED]
    if list_length(context[KNOWN_KEYS]) + total > np.int64(context[SIZE]):
        return False
    return bool(used + n <= np.int64(max_taken(context[N_ENTRIES])))


@inlined
def read_known(context: Any, x: Any) -> Any:
    """Convert the dict at `x` to (ids, values) without interning names; return nnz or FALLBACK."""
    n = read(context, x)
    if n < 0:
        return n
    return find_slots(context, np.uint64(n))


@inlined
def read_all(context: Any, x: Any) -> Any:
    """Convert the dict at `x` to (ids, values), interning names; return nnz, FALLBACK or FULL."""
    n = read(context, x)
    if n < 0:
        return n
    if not has_capacity(context, n, n):
        return np.int64(FULL)
    return intern_slots(context, np.uint64(n), False)
