"""Read dicts with raw text. Names are known by their bytes: n-grams are not Python strings yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.ascii import EQUALS
from streaml1.core.hashing import keyed_position
from streaml1.core.jit import inlined, u64
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import array_at, load_u64
from streaml1.core.spans import LENGTH_MASK, OFFSET_BITS
from streaml1.features.dict_reader.context_fields import (
    ARENA,
    ARENA_COUNT,
    BEGINS,
    CHARACTERS,
    CLEAN,
    COUNTS,
    ENDS,
    ENTRIES,
    HASHES,
    IDS,
    INDEX_USED,
    KEY,
    KEYS,
    KNOWN_KEYS,
    LENGTH,
    MASK,
    MAX_NGRAM,
    N_ARENA,
    N_ARENA_HASHES,
    N_CLEAN,
    N_ENTRIES,
    N_KNOWN,
    N_NAMES,
    N_REPEAT_TABLE,
    N_TEXT_PREFIXES,
    NAME_KEYS,
    NAMES,
    NEEDED,
    REPEAT_TABLE,
    SCRATCH,
    SIZE,
    SPANS,
    STR,
    TEXT_PREFIX_SIZES,
    TEXT_PREFIXES,
    TEXT_VALUES,
    TEXTS,
    VALUES,
)
from streaml1.features.dict_reader.cpython_objects import (
    FALLBACK,
    FULL,
    collect,
    number_of,
    type_of,
    utf8_of,
)
from streaml1.features.dict_reader.crossed_factors import append_arena_name, copy_string
from streaml1.features.dict_reader.hashed import merge_slots
from streaml1.features.dict_reader.interned import find_slots_by_hash, list_length, prefetch_lines
from streaml1.features.ngrams.tokenizer import MARGIN, cleaned, counted
from streaml1.features.vocabulary.name_index import IRREGULAR
from streaml1.features.vocabulary.probing import MISSING, lookup, max_taken
from streaml1.text.byte_names import bytes_equal, copy_bytes, murmur_at
from streaml1.text.keyed_names import fingerprint_at

__all__ = ["CLEAN_BYTES", "NAME_BYTES", "read_all", "read_hashed", "read_known"]

NAME_BYTES, CLEAN_BYTES = 64, 16
"""Bytes of names and of cleaned text that a context reserves per feature."""

_NO_TEXT, _NGRAM_NAME = np.int64(-1), np.int64(-2)
_SLACK = u64(2 * MARGIN)


@inlined
def _text_of(context: Any, name: Any, size: Any) -> Any:
    """Return the index of the text that a key names, or _NGRAM_NAME, or _NO_TEXT."""
    prefixes = array_at(context[TEXT_PREFIXES], context[N_TEXT_PREFIXES], np.uint64)
    sizes = array_at(context[TEXT_PREFIX_SIZES], context[N_TEXT_PREFIXES], np.uint64)
    text_index = _NO_TEXT
    for z in range(context[N_TEXT_PREFIXES]):
        if size + u64(1) >= sizes[z] and bytes_equal(name, prefixes[z], sizes[z]):
            text_index = np.int64(z) if size + u64(1) == sizes[z] else _NGRAM_NAME
    return text_index


@inlined
def _has_repeat(hashes: Any, n: Any, key: Any, repeat_table: Any) -> bool:
    """Return whether two of the first `n` hashes are equal."""
    size = u64(16)
    while size < n + n:
        size += size
    for z in range(size):
        repeat_table[z] = u64(0)
    same = False
    for k in range(n):
        pos = keyed_position(hashes[k], key, size)
        while repeat_table[pos]:
            same |= hashes[repeat_table[pos] - u64(1)] == hashes[k]
            pos = (pos + u64(1)) & (size - u64(1))
        repeat_table[pos] = k + u64(1)
    return same


@inlined
def _read_given(
    context: Any, x: Any, hashes: Any, values: Any, spans: Any, repeat_table: Any
) -> Any:
    """Write the non-zero features of the dict at `x` that are not raw text; locate the texts.

    Returns nnz or FALLBACK, and the end of the names.
    """
    length = context[LENGTH]
    keys = array_at(context[KEYS], length, np.uint64)
    objects = array_at(context[TEXTS], length, np.uint64)
    text_values = array_at(context[TEXT_VALUES], context[N_TEXT_PREFIXES], np.uint64)
    names, out_pos = context[NAMES], context[NAMES]
    last = names + context[N_NAMES] - _SLACK
    failed = np.int64(FALLBACK)
    for z in range(context[N_TEXT_PREFIXES]):
        text_values[z] = u64(0)
    total = collect(context, x, keys, objects)
    if total < 0:
        return failed, out_pos
    n, any_ngram_name, any_text = u64(0), False, False
    for k in range(np.uint64(total)):
        value, kind = objects[k], type_of(objects[k])
        v = number_of(context, value, kind)
        if type_of(keys[k]) != context[STR] or not abs(v) < VALUE_LIMIT:
            return failed, out_pos
        key = utf8_of(context, keys[k])
        size = load_u64(context[SCRATCH])
        if not key or out_pos + size > last:
            return failed, out_pos
        end = copy_string(key, key + size, out_pos)
        array_at(end, 1, np.uint8)[0] = EQUALS
        text_index = _text_of(context, out_pos, size)
        any_ngram_name |= text_index == _NGRAM_NAME
        if kind == context[STR]:
            if text_index >= 0:
                text_values[np.uint64(text_index)] = value
                any_text = True
                continue
            text = utf8_of(context, value)
            text_size = load_u64(context[SCRATCH])
            if not text or end + text_size > last:
                return failed, out_pos
            end = copy_string(text, text + text_size, end + u64(1))
        if v != 0.0:
            hashes[n] = murmur_at(out_pos, end)
            values[n] = v
            spans[n] = ((out_pos - names) << OFFSET_BITS) | (end - out_pos)
            out_pos = end
            n += u64(1)
    if (any_ngram_name and any_text) or _has_repeat(hashes, n, context[KEY], repeat_table):
        return failed, out_pos
    return np.int64(n), out_pos


@inlined
def _read(context: Any, x: Any, hashes: Any, values: Any, spans: Any) -> Any:
    """Write the non-zero features of the dict at `x`, then the n-grams of its texts.

    Returns nnz or FALLBACK, and the end of the names. NEEDED receives the length of a context that
    is large enough for the dict.
    """
    length = context[LENGTH]
    repeat_table = array_at(context[REPEAT_TABLE], context[N_REPEAT_TABLE], np.uint64)
    begins = array_at(context[BEGINS], length * np.uint64(CLEAN_BYTES), np.uint64)
    text_values = array_at(context[TEXT_VALUES], context[N_TEXT_PREFIXES], np.uint64)
    prefixes = array_at(context[TEXT_PREFIXES], context[N_TEXT_PREFIXES], np.uint64)
    sizes = array_at(context[TEXT_PREFIX_SIZES], context[N_TEXT_PREFIXES], np.uint64)
    names, clean = context[NAMES], context[CLEAN]
    n, out_pos = _read_given(context, x, hashes, values, spans, repeat_table)
    if n < 0:
        context[NEEDED] = u64(0)
        return n, out_pos
    k = np.uint64(n)
    for z in range(context[N_TEXT_PREFIXES]):
        if not text_values[z]:
            continue
        text = utf8_of(context, text_values[z])
        size = load_u64(context[SCRATCH])
        if not text:
            return np.int64(FALLBACK), out_pos
        context[NEEDED] = (size + _SLACK) // np.uint64(CLEAN_BYTES) + u64(1)
        if size + _SLACK > context[N_CLEAN]:
            return np.int64(FALLBACK), out_pos
        end, n_tokens, plain = cleaned(
            text, text + size, clean, begins, u64(0), context[CHARACTERS]
        )
        max_n = min(context[MAX_NGRAM], n_tokens)
        n_bytes = max_n * (n_tokens * sizes[z] + (end - clean))
        used = (out_pos - names) + n_bytes + _SLACK
        context[NEEDED] = max(k + max_n * n_tokens, used // np.uint64(NAME_BYTES) + u64(1))
        if not plain or k + max_n * n_tokens > length or used > context[N_NAMES]:
            return np.int64(FALLBACK), out_pos
        out_pos, k = counted(
            begins, u64(0), n_tokens, prefixes[z], sizes[z], context[MAX_NGRAM], names, out_pos,
            k, hashes, values, spans, context[KEY], repeat_table,
        )  # fmt: skip
    context[NEEDED] = k
    return np.int64(k), out_pos


@inlined
def _key_hashes(context: Any, hashes: Any, spans: Any, n: Any, keyed: Any) -> None:
    """Write the keyed hashes of the first `n` names; `keyed` may be `hashes`."""
    keys = array_at(context[NAME_KEYS], u64(3), np.uint64)
    for k in range(n):
        name = context[NAMES] + (spans[k] >> OFFSET_BITS)
        keyed[k] = hashes[k] ^ fingerprint_at(name, name + (spans[k] & LENGTH_MASK), keys)


@inlined
def _is_stale(context: Any) -> bool:
    counts = array_at(context[COUNTS], 5, np.int64)
    n_known = np.uint64(list_length(context[KNOWN_KEYS]))
    return bool(n_known != context[N_KNOWN] or counts[IRREGULAR] != 0)


@inlined
def read_known(context: Any, x: Any) -> Any:
    """Convert the dict at `x` to (ids, values) without interning names; return nnz or FALLBACK."""
    length = context[LENGTH]
    values = array_at(context[VALUES], length, np.float64)
    hashes = array_at(context[HASHES], length, np.uint64)
    spans = array_at(context[SPANS], length, np.uint64)
    entries = array_at(context[ENTRIES], context[N_ENTRIES], np.uint64)
    if _is_stale(context):
        return np.int64(FALLBACK)
    n, _ = _read(context, x, hashes, values, spans)
    if n < 0:
        return np.int64(FALLBACK)
    _key_hashes(context, hashes, spans, np.uint64(n), hashes)
    prefetch_lines(entries, hashes, u64(0), np.uint64(n))
    return np.int64(find_slots_by_hash(context, entries, u64(0), np.uint64(n), u64(0)))


@inlined
def _intern(context: Any, entries: Any, pos: Any, keyed: Any, h: Any, span: Any) -> Any:
    """Intern a name at `pos` as bytes in the arena, given both its hashes; return its slot."""
    n = np.uint64(array_at(context[ARENA_COUNT], 1, np.int64)[0])
    ends = array_at(context[ENDS], context[N_ARENA_HASHES] + u64(1), np.uint64)
    slot = context[N_KNOWN] + n
    name = context[NAMES] + (span >> OFFSET_BITS)
    size = span & LENGTH_MASK
    copy_bytes(name, name + size, context[ARENA] + ends[n])
    append_arena_name(context, h, size)
    entries[pos] = keyed
    entries[pos + u64(1)] = slot
    return slot


@inlined
def read_all(context: Any, x: Any) -> Any:
    """Convert the dict at `x` to (ids, values), interning names; return nnz, FALLBACK or FULL."""
    length = context[LENGTH]
    ids = array_at(context[IDS], length, np.uint32)
    values = array_at(context[VALUES], length, np.float64)
    hashes = array_at(context[HASHES], length, np.uint64)
    spans = array_at(context[SPANS], length, np.uint64)
    keyed = array_at(context[KEYS], length, np.uint64)  # the names were read from it before
    entries = array_at(context[ENTRIES], context[N_ENTRIES], np.uint64)
    if _is_stale(context):
        return np.int64(FALLBACK)
    n, names_end = _read(context, x, hashes, values, spans)
    if n < 0:
        return np.int64(FALLBACK)
    # All names may be new: check the room for them first.
    m, waiting = np.uint64(n), np.uint64(array_at(context[ARENA_COUNT], 1, np.int64)[0])
    arena_end = array_at(context[ENDS], context[N_ARENA_HASHES] + u64(1), np.uint64)[waiting]
    used = np.uint64(array_at(context[INDEX_USED], 1, np.int64)[0])
    full = context[N_KNOWN] + waiting + m > context[SIZE]
    full |= used + m > max_taken(context[N_ENTRIES])
    full |= waiting + m > context[N_ARENA_HASHES]
    full |= arena_end + (names_end - context[NAMES]) + _SLACK > context[N_ARENA]
    if full:
        return np.int64(FULL)
    _key_hashes(context, hashes, spans, m, keyed)
    prefetch_lines(entries, keyed, u64(0), m)
    for k in range(m):
        pos = lookup(entries, keyed[k])
        slot = entries[pos + u64(1)]
        if slot == MISSING:
            slot = _intern(context, entries, pos, keyed[k], hashes[k], spans[k])
        ids[k] = np.uint32(slot)
    return np.int64(m)


@inlined
def read_hashed(context: Any, x: Any) -> Any:
    """Convert the dict at `x` to (ids, values) by hashing names; return nnz or FALLBACK."""
    length = context[LENGTH]
    ids = array_at(context[IDS], length, np.uint32)
    values = array_at(context[VALUES], length, np.float64)
    hashes = array_at(context[HASHES], length, np.uint64)
    spans = array_at(context[SPANS], length, np.uint64)
    n, _ = _read(context, x, hashes, values, spans)
    if n < 0:
        return np.int64(FALLBACK)
    for k in range(np.uint64(n)):
        ids[k] = np.uint32(hashes[k] & context[MASK])
    return merge_slots(context, ids, values, np.uint64(n))
