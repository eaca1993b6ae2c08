"""Dicts with raw text, whose names are known by their bytes: those of words are no strings yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import array_at, load_u64
from streaml1.features.dict_reader.context_fields import (
    ARENA,
    ARENA_COUNT,
    BEGINS,
    BY_USED,
    CHARACTERS,
    CLEAN,
    COUNTS,
    ENDS,
    ENTRIES,
    FOUND,
    HASHES,
    HEAD_SIZES,
    HEADS,
    IDS,
    KEYS,
    KNOWN,
    KNOWN_N,
    LENGTH,
    MASK,
    MET,
    N_ARENA,
    N_CLEAN,
    N_ENTRIES,
    N_HEADS,
    N_KEPT,
    N_MET,
    N_NAMES,
    NAMES,
    NEEDED,
    NGRAMS,
    SCRATCH,
    SIZE,
    SPANS,
    STR,
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
from streaml1.features.dict_reader.crossed_factors import kept, put
from streaml1.features.dict_reader.hashed import merged
from streaml1.features.dict_reader.interned import length_of_list, placed, prefetched
from streaml1.features.ngrams.tokenizer import MARGIN, cleaned, counted
from streaml1.features.vocabulary.name_index import IRREGULAR
from streaml1.features.vocabulary.probing import MISSING, lookup
from streaml1.text.byte_names import bytes_equal, copy_bytes, murmur_at

__all__ = ["CLEAN_BYTES", "NAME_BYTES", "read_all", "read_hashed", "read_known"]

NAME_BYTES, CLEAN_BYTES = 64, 16
"""Bytes of names, and of cleaned text, that a frame has room for by each of its features."""

_ZERO, _ONE, _HALF = map(np.uint64, (0, 1, 32))
_LOW = np.uint64(2**32 - 1)
_EQUALS = np.uint8(61)
_NO_TEXT, _WORD = np.int64(-1), np.int64(-2)
_MORE = np.uint64(2 * MARGIN)


@inlined
def _text_of(frame: Any, name: Any, size: Any) -> Any:
    """Which text a key names, given its bytes and an equals sign; or _WORD, or _NO_TEXT."""
    heads = array_at(frame[HEADS], frame[N_HEADS], np.uint64)
    sizes = array_at(frame[HEAD_SIZES], frame[N_HEADS], np.uint64)
    found = _NO_TEXT
    for z in range(frame[N_HEADS]):
        if size + _ONE >= sizes[z] and bytes_equal(name, heads[z], sizes[z]):
            found = np.int64(z) if size + _ONE == sizes[z] else _WORD
    return found


@inlined
def _repeated(hashes: Any, n: Any, met: Any) -> bool:
    """Whether two of some hashes are the same."""
    places = np.uint64(16)
    while places < n + n:
        places += places
    for z in range(places):
        met[z] = _ZERO
    same = False
    for k in range(n):
        place = hashes[k] & (places - _ONE)
        while met[place]:
            same |= hashes[met[place] - _ONE] == hashes[k]
            place = (place + _ONE) & (places - _ONE)
        met[place] = k + _ONE
    return same


@inlined
def _given(frame: Any, x: Any, hashes: Any, values: Any, spans: Any, met: Any) -> Any:
    """Write down the non-zero entries of the dict at `x` that are no texts, and where these are.

    Returns how many there are, or FALLBACK, and where their names end.
    """
    length = frame[LENGTH]
    keys = array_at(frame[KEYS], length, np.uint64)
    objects = array_at(frame[TEXTS], length, np.uint64)
    found = array_at(frame[FOUND], frame[N_HEADS], np.uint64)
    names, to = frame[NAMES], frame[NAMES]
    last = names + frame[N_NAMES] - _MORE
    other = np.int64(FALLBACK)
    for z in range(frame[N_HEADS]):
        found[z] = _ZERO
    total = collect(frame, x, keys, objects)
    if total < 0:
        return other, to
    n, whole, any_text = _ZERO, False, False
    for k in range(np.uint64(total)):
        value, kind = objects[k], type_of(objects[k])
        v = number_of(frame, value, kind)
        if type_of(keys[k]) != frame[STR] or not abs(v) < VALUE_LIMIT:
            return other, to
        key = utf8_of(frame, keys[k])
        size = load_u64(frame[SCRATCH])
        if not key or to + size > last:
            return other, to
        end = put(key, key + size, to)
        array_at(end, 1, np.uint8)[0] = _EQUALS
        which = _text_of(frame, to, size)
        whole |= which == _WORD
        if kind == frame[STR]:
            if which >= 0:
                found[np.uint64(which)] = value
                any_text = True
                continue
            text = utf8_of(frame, value)
            more = load_u64(frame[SCRATCH])
            if not text or end + more > last:
                return other, to
            end = put(text, text + more, end + _ONE)
        if v != 0.0:
            hashes[n] = murmur_at(to, end)
            values[n] = v
            spans[n] = ((to - names) << _HALF) | (end - to)
            to = end
            n += _ONE
    if (whole and any_text) or _repeated(hashes, n, met):
        return other, to
    return np.int64(n), to


@inlined
def _read(frame: Any, x: Any, hashes: Any, values: Any, spans: Any) -> Any:
    """Write down the non-zero entries of the dict at `x`, and behind them the words of its texts.

    Returns how many, or FALLBACK, and where their names end; NEEDED tells for how many features
    a frame has room that takes the dict.
    """
    length = frame[LENGTH]
    met = array_at(frame[MET], frame[N_MET], np.uint64)
    begins = array_at(frame[BEGINS], length * np.uint64(CLEAN_BYTES), np.uint64)
    found = array_at(frame[FOUND], frame[N_HEADS], np.uint64)
    heads = array_at(frame[HEADS], frame[N_HEADS], np.uint64)
    sizes = array_at(frame[HEAD_SIZES], frame[N_HEADS], np.uint64)
    names, clean = frame[NAMES], frame[CLEAN]
    n, to = _given(frame, x, hashes, values, spans, met)
    if n < 0:
        frame[NEEDED] = _ZERO
        return n, to
    k = np.uint64(n)
    for z in range(frame[N_HEADS]):
        if not found[z]:
            continue
        text = utf8_of(frame, found[z])
        size = load_u64(frame[SCRATCH])
        if not text:
            return np.int64(FALLBACK), to
        frame[NEEDED] = (size + _MORE) // np.uint64(CLEAN_BYTES) + _ONE
        if size + _MORE > frame[N_CLEAN]:
            return np.int64(FALLBACK), to
        end, words, plain = cleaned(text, text + size, clean, begins, _ZERO, frame[CHARACTERS])
        most = min(frame[NGRAMS], words)
        letters = most * (words * sizes[z] + (end - clean))
        used = (to - names) + letters + _MORE
        frame[NEEDED] = max(k + most * words, used // np.uint64(NAME_BYTES) + _ONE)
        if not plain or k + most * words > length or used > frame[N_NAMES]:
            return np.int64(FALLBACK), to
        to, k = counted(
            begins, _ZERO, words, heads[z], sizes[z], frame[NGRAMS], names, to, k, hashes, values,
            spans, met,
        )  # fmt: skip
    frame[NEEDED] = k
    return np.int64(k), to


@inlined
def _is_stale(frame: Any) -> bool:
    counts = array_at(frame[COUNTS], 5, np.int64)
    known = np.uint64(length_of_list(frame[KNOWN]))
    return bool(known != frame[KNOWN_N] or counts[IRREGULAR] != 0)


@inlined
def read_known(frame: Any, x: Any) -> Any:
    """As `table.read_known`."""
    length = frame[LENGTH]
    values = array_at(frame[VALUES], length, np.float64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    spans = array_at(frame[SPANS], length, np.uint64)
    entries = array_at(frame[ENTRIES], frame[N_ENTRIES], np.uint64)
    if _is_stale(frame):
        return np.int64(FALLBACK)
    n, _ = _read(frame, x, hashes, values, spans)
    if n < 0:
        return np.int64(FALLBACK)
    prefetched(entries, hashes, _ZERO, np.uint64(n))
    return np.int64(placed(frame, entries, _ZERO, np.uint64(n), _ZERO))


@inlined
def _admitted(frame: Any, entries: Any, at: Any, h: Any, span: Any) -> Any:
    """The next slot for a name that is not in the table, entered; it waits to be a string."""
    n = np.uint64(array_at(frame[ARENA_COUNT], 1, np.int64)[0])
    ends = array_at(frame[ENDS], frame[N_KEPT] + _ONE, np.uint64)
    slot = frame[KNOWN_N] + n
    name = frame[NAMES] + (span >> _HALF)
    size = span & _LOW
    copy_bytes(name, name + size, frame[ARENA] + ends[n])
    kept(frame, h, size)
    entries[at] = h
    entries[at + _ONE] = slot
    return slot


@inlined
def read_all(frame: Any, x: Any) -> Any:
    """As `table.read_all`."""
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    values = array_at(frame[VALUES], length, np.float64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    spans = array_at(frame[SPANS], length, np.uint64)
    entries = array_at(frame[ENTRIES], frame[N_ENTRIES], np.uint64)
    if _is_stale(frame):
        return np.int64(FALLBACK)
    n, to = _read(frame, x, hashes, values, spans)
    if n < 0:
        return np.int64(FALLBACK)
    # There must be room for all of them to be new.
    m, waiting = np.uint64(n), np.uint64(array_at(frame[ARENA_COUNT], 1, np.int64)[0])
    letters = array_at(frame[ENDS], frame[N_KEPT] + _ONE, np.uint64)[waiting]
    used = np.uint64(array_at(frame[BY_USED], 1, np.int64)[0])
    full = frame[KNOWN_N] + waiting + m > frame[SIZE]
    full |= np.uint64(4) * (used + m) > frame[N_ENTRIES]
    full |= waiting + m > frame[N_KEPT]
    full |= letters + (to - frame[NAMES]) + _MORE > frame[N_ARENA]
    if full:
        return np.int64(FULL)
    prefetched(entries, hashes, _ZERO, m)
    for k in range(m):
        at = lookup(entries, hashes[k])
        slot = entries[at + _ONE]
        if slot == MISSING:
            slot = _admitted(frame, entries, at, hashes[k], spans[k])
        ids[k] = np.uint32(slot)
    return np.int64(m)


@inlined
def read_hashed(frame: Any, x: Any) -> Any:
    """As `hashed.read`."""
    length = frame[LENGTH]
    ids = array_at(frame[IDS], length, np.uint32)
    values = array_at(frame[VALUES], length, np.float64)
    hashes = array_at(frame[HASHES], length, np.uint64)
    spans = array_at(frame[SPANS], length, np.uint64)
    n, _ = _read(frame, x, hashes, values, spans)
    if n < 0:
        return np.int64(FALLBACK)
    for k in range(np.uint64(n)):
        ids[k] = np.uint32(hashes[k] & frame[MASK])
    return merged(frame, ids, values, np.uint64(n))
