"""Words of texts and their n-grams, as bytes: each once, with its hash and its count.

A text is first cleaned: its words in small letters, a blank behind each. An n-gram is then a part
of the cleaned text, and its name that part behind the name of the feature and an equals sign.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.simd import (
    borrowed,
    byte_eq_mask,
    byte_lt_mask,
    compress_lowercase,
    load_u8,
    load_u32x8,
    loadu_u64,
    pext,
    popcount,
    stack_buffer,
    store_bit_indices,
    store_u64,
    store_u64x8,
)
from streaml1.text.byte_names import UNHASHED, bytes_equal, copy_bytes, copy_short_bytes
from streaml1.text.feature_spans import hash_pending_names
from streaml1.text.structural_index import SPACE

__all__ = [
    "BLOCK", "MARGIN", "characters", "cleaned", "cleaned_all", "counted", "spread", "whole_texts",
]  # fmt: skip

MARGIN = 16
"""Bytes that may be read and written behind those that are named."""

BLOCK = 64
"""Bytes that are cleaned together: so many may be written behind a cleaned text."""

_ZERO, _ONE, _TWO, _FOUR, _EIGHT, _HALF = map(np.uint64, (0, 1, 2, 4, 8, 32))
_LOW, _ANOTHER, _HALFWORD = map(np.uint64, (2**32 - 1, 2**32, 24))
_TWO_BYTES, _THREE_BYTES, _FOUR_BYTES, _BYTES_LOW = map(np.uint64, (0x80, 0xE0, 0xF0, 2**24 - 1))
_SIX, _FIVE_BITS, _SIX_BITS, _FOUR_BITS, _THREE_BITS = map(np.uint64, (6, 31, 63, 15, 7))
_BLOCK, _LAST, _ALL = map(np.uint64, (BLOCK, BLOCK - 1, 2**64 - 1))
_A, _Z, _SMALL_A, _SMALL_Z, _NULL, _NINE, _UNDERSCORE = map(np.uint64, b"AZaz09_")


def _letters() -> Any:
    """Of each byte the small letter, digit or underscore that it stands for, else a blank."""
    words = [chr(c) if chr(c).isalnum() or c == 95 else " " for c in range(128)]
    return np.array([ord(c.lower()) for c in words] + 128 * [32], np.uint8)


_LETTERS = _letters()

KNOWN = 0x20000  # characters below it are looked up
_KNOWN = np.uint64(KNOWN)
_ODD = 2**32 - 1


@cache
def characters() -> Any:
    """Of each character what stands for it in a cleaned text, uint32.

    0 for one that is in no word; else the UTF-8 of its small letter, up to three bytes, and how
    many they are times 2**24. `_ODD` where that is another matter: more bytes than before, two
    characters, or one that depends on its neighbours.
    """
    return np.fromiter(map(_told, map(chr, range(KNOWN))), np.uint32, KNOWN)


def _told(c: str) -> int:
    low = c.lower()
    if c == "\u03a3" or len(low) != 1:
        return _ODD
    if not low.isalnum() and low != "_":
        return 0
    raw = low.encode()
    if len(raw) > min(3, len(c.encode())):
        return _ODD
    return len(raw) << 24 | int.from_bytes(raw, "little")


@inlined
def _character(at: Any, c: Any) -> Any:
    """Return the non-ASCII character at an address, and its number of bytes."""
    second = load_u8(at + _ONE) & _SIX_BITS
    if c < _THREE_BYTES:
        return ((c & _FIVE_BITS) << _SIX) | second, _TWO
    third = load_u8(at + _TWO) & _SIX_BITS
    if c < _FOUR_BYTES:
        return ((((c & _FOUR_BITS) << _SIX) | second) << _SIX) | third, np.uint64(3)
    fourth = load_u8(at + np.uint64(3)) & _SIX_BITS
    high = (((((c & _THREE_BITS) << _SIX) | second) << _SIX) | third) << _SIX
    return high | fourth, np.uint64(4)


@inlined
def _between(at: Any, first: Any, last: Any) -> Any:
    """Which of 64 bytes are from one to another, a bit each."""
    return byte_lt_mask(at, last + _ONE) & ~byte_lt_mask(at, first)


@inlined
def _cleaned_blocks(at: Any, end: Any, to: Any, begins: Any, n: Any) -> Any:
    """As `cleaned`, 64 bytes at a time, as long as all are ASCII: nothing of a short text.

    Returns
    -------
    How far the text is read, where the words end, how many there are, and whether the last goes on.
    """
    inside = _ZERO
    if end - at < _BLOCK:
        return at, to, n, inside
    room = stack_buffer()
    places = np.uint64(room.ctypes.data)
    while at < end:
        # The last block has bytes again that were read before.
        again = _BLOCK - min(end - at, _BLOCK)
        block = at - again
        if byte_lt_mask(block, _TWO_BYTES) != _ALL:
            break
        capitals = _between(block, _A, _Z)
        word = capitals | _between(block, _SMALL_A, _SMALL_Z) | _between(block, _NULL, _NINE)
        word |= byte_eq_mask(block, _UNDERSCORE)
        before, ours = (word << _ONE) | inside, _ALL << again
        chosen = (word | before) & ours
        compress_lowercase(to, block, capitals, word, chosen)
        first = pext(word & ~before & ours, chosen)
        store_bit_indices(places, first, _ZERO)
        count = popcount(first)
        for k in range(_ZERO, count, _EIGHT):
            there = load_u32x8(places + _FOUR * k) + to
            store_u64x8(np.uint64(begins.ctypes.data) + _EIGHT * (n + k), there)
        n += count
        to += popcount(chosen)
        inside = word >> _LAST
        at = block + _BLOCK
    return at, to, n, inside


@inlined
def cleaned(at: Any, end: Any, to: Any, begins: Any, n: Any, table: Any) -> Any:
    """Write the words of a text, UTF-8, in small letters, a blank behind each.

    `begins` gets from its n-th place on where each begins, and where the next would; up to seven
    places more are written. `table` is the address of `characters`.

    Returns
    -------
    Where the words end, how many places of `begins` are before that of the next, and whether that
    is all; else the text wants another look.
    """
    at, to, n, inside = _cleaned_blocks(at, end, to, begins, n)
    plain = True
    while at < end:
        c = load_u8(at)
        if c < _TWO_BYTES:
            letter = np.uint64(_LETTERS[c])
            word = np.uint64(letter != SPACE)
            size = word
            at += _ONE
        else:
            code, step = _character(at, c)
            at += step
            letter = np.uint64(_ODD)
            if code < _KNOWN:
                letter = loadu_u64(table + np.uint64(4) * code) & _LOW
            plain &= letter != np.uint64(_ODD)
            word = np.uint64(letter != _ZERO)
            size = letter >> _HALFWORD
            letter = letter & _BYTES_LOW if word else SPACE
            if not plain:
                break
        store_u64(to, letter)
        begins[n] = to
        n += word & (inside ^ _ONE)
        to += size | (inside & (word ^ _ONE))
        inside = word
    store_u64(to, SPACE)
    to += inside
    begins[n] = to
    return to, n, plain


@inlined
def _last_or(g: Any, counted: Any) -> Any:
    """Return the place of the last of its kind; of one that is new, for which 0 is given, its own.

    A hash is the same as its own: that one is new is no branch of the loop that looks for it.
    """
    there = _ZERO - np.uint64(counted != _ZERO)
    return g + (((counted & _LOW) - _ONE - g) & there)


@inlined
def _each_once(hashes: Any, values: Any, spans: Any, lo: Any, hi: Any, met: Any) -> Any:
    """Leave each of the hashes from lo to hi once, with its count; returns where they end.

    First each is counted in a table, beside the place of the last of its kind; then those that
    were new move together. Which are cannot be foretold: the same is done to all of them.
    """
    n, places, most = hi - lo, np.uint64(16), np.uint64(len(met))
    while places < _EIGHT * n and places + places + n <= most:
        places += places
    for z in range(places):
        met[z] = _ZERO
    mask = places - _ONE
    for g in range(_ZERO, n):
        h = hashes[lo + g]
        place = h & mask
        last = met[place]
        while hashes[lo + _last_or(g, last)] != h:
            place = (place + _ONE) & mask
            last = met[place]
        met[place] = (last & ~_LOW) + _ANOTHER + g + _ONE
        met[places + g] = place | (np.uint64(last != _ZERO) << _HALF)
    k = lo
    for g in range(_ZERO, n):
        found = met[places + g]
        hashes[k] = hashes[lo + g]
        values[k] = np.float64(met[found & mask] >> _HALF)
        spans[k] = spans[lo + g]
        k += np.uint64(found <= _LOW)
    return k


@inlined
def counted(
    begins: Any,
    first: Any,
    last: Any,
    head: Any,
    size: Any,
    ngrams: Any,
    base: Any,
    to: Any,
    k: Any,
    hashes: Any,
    values: Any,
    spans: Any,
    met: Any,
) -> Any:
    """Write the features of one cleaned text, whose words begin at `begins[first:last]`.

    Parameters
    ----------
    head, size
        Address and bytes of the name of the text with its equals sign.
    base
        The address that spans are told from.
    to, k
        Where the next name and the next feature go.
    met
        Scratch, at least four places for each n-gram, a power of two of them; with 16 few are
        looked for twice.

    Returns
    -------
    Where the next name and the next feature go then.
    """
    n, names = k, last - first
    for gram in range(_ONE, min(ngrams, names) + _ONE):
        for i in range(first, last - gram + _ONE):
            end = copy_bytes(head, head + size, to)
            end = copy_short_bytes(begins[i], begins[i + gram] - _ONE, end)
            hashes[n] = UNHASHED
            spans[n] = ((to - base) << _HALF) | (end - to)
            to = end
            n += _ONE
    hash_pending_names(hashes, spans, base, k, n)
    return to, _each_once(hashes, values, spans, k, n, met)


@kernel
def whole_texts(start: Any, spans: Any, indptr: Any, head: Any, size: Any, at: Any, sizes: Any,
                places: Any) -> None:  # fmt: skip
    """Find in each row the feature whose name begins with a head: where the text behind that is.

    Parameters
    ----------
    start, spans, indptr
        Of rows as in `NamedRows`: the address of the names, where each is, the rows.
    at, sizes
        Get the address and the length of the text of each row; they are zeros.
    places
        Gets a 1 where a feature is such a text; it is zeros.
    """
    for i in range(np.uint64(len(indptr) - 1)):
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + _ONE])):
            length = spans[k] & _LOW
            name = start + (spans[k] >> _HALF)
            if length >= size and bytes_equal(name, head, size):
                at[i] = name + size
                sizes[i] = length - size
                places[k] = np.uint8(1)


@kernel
def cleaned_all(at: Any, sizes: Any, table: Any, to: Any, begins: Any, firsts: Any,
                odd: Any) -> None:  # fmt: skip
    """Clean many texts, given the address, 0 for none, and the length of each.

    `firsts` gets where in `begins` the words of each begin, behind which one place is left;
    `odd` gets a 1 where one wants another look.
    """
    n = _ZERO
    for j in range(np.uint64(len(at))):
        firsts[j] = n
        plain = True
        if at[j]:
            to, n, plain = cleaned(at[j], at[j] + sizes[j], to, begins, n, table)
        odd[j] = np.uint8(not plain)
        begins[n] = to
        n += _ONE
    firsts[len(at)] = n


@kernel
def spread(
    start: Any,
    spans: Any,
    hashes: Any,
    values: Any,
    indptr: Any,
    dropped: Any,
    how: Any,
    begins: Any,
    firsts: Any,
    heads: Any,
    head_sizes: Any,
    ngrams: Any,
    names: Any,
    out_hashes: Any,
    out_values: Any,
    out_spans: Any,
    out_indptr: Any,
    met: Any,
) -> Any:
    """Write rows without some features, and behind the others the words of their texts.

    Parameters
    ----------
    start, spans, hashes, values, indptr
        The rows, see `NamedRows`; `start` is the address of the names.
    dropped
        Which of the features are left out.
    how
        Of each row: 0; 1 where words are left out; 2 where the row is left empty.
    begins, firsts
        As `cleaned_all` wrote them: of the texts of a row, one for each head, one after the other.
    heads, head_sizes
        Addresses and lengths.
    names
        The address where names go.

    Returns
    -------
    How many features there are, and how many bytes of names.
    """
    begins, firsts, met = borrowed((begins, firsts, met))
    out_hashes, out_values, out_spans = borrowed((out_hashes, out_values, out_spans))
    k, to, n_heads = _ZERO, names, np.uint64(len(heads))
    out_indptr[0] = 0
    for i in range(np.uint64(len(how))):
        if how[i] < 2:
            for j in range(np.uint64(indptr[i]), np.uint64(indptr[i + _ONE])):
                if dropped[j]:
                    continue
                name = start + (spans[j] >> _HALF)
                end = copy_bytes(name, name + (spans[j] & _LOW), to)
                out_hashes[k] = hashes[j]
                out_values[k] = values[j]
                out_spans[k] = ((to - names) << _HALF) | (end - to)
                to = end
                k += _ONE
        if how[i] == 0:
            for z in range(n_heads):
                text = i * n_heads + z
                to, k = counted(
                    begins, firsts[text], firsts[text + _ONE] - _ONE, heads[z], head_sizes[z],
                    ngrams, names, to, k, out_hashes, out_values, out_spans, met,
                )  # fmt: skip
        out_indptr[i + _ONE] = np.int64(k)
    return k, to - names
