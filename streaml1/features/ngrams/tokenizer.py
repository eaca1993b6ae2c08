"""Tokenize raw text and count its n-grams, as bytes in kernels.

A text is first *cleaned*: its tokens in lower case, a space after each. An n-gram is then a slice
of the cleaned text, and the name of its feature is this slice after the prefix: the name of the
text and an equals sign. Python strings are never created.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streaml1.core.ascii import SPACE
from streaml1.core.hashing import keyed_position
from streaml1.core.jit import inlined, kernel, u64
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
from streaml1.core.spans import LENGTH_MASK, OFFSET_BITS
from streaml1.core.types import Bytes
from streaml1.text.byte_names import UNHASHED, bytes_equal, copy_bytes, copy_short_bytes
from streaml1.text.feature_spans import hash_pending_names

__all__ = [
    "BLOCK", "MARGIN", "characters", "clean_texts", "cleaned", "counted", "expand_rows",
    "find_texts",
]  # fmt: skip

MARGIN = 16
"""Number of bytes that kernels may read and write past the end of names."""

BLOCK = 64
"""Number of bytes that are cleaned at once, and may be written past the end of a cleaned text."""

_HALF_BITS, _LOW_HALF, _ONE_COUNT = map(u64, (32, 2**32 - 1, 2**32))
_SIZE_SHIFT, _UTF8_MASK = map(u64, (24, 2**24 - 1))
_NON_ASCII, _THREE_BYTES, _FOUR_BYTES = map(u64, (0x80, 0xE0, 0xF0))
_FIVE_BITS, _SIX_BITS, _FOUR_BITS, _THREE_BITS = u64(31), u64(63), u64(15), u64(7)
_BLOCK, _LAST_BIT, _ALL = map(u64, (BLOCK, BLOCK - 1, 2**64 - 1))
_A, _Z, _SMALL_A, _SMALL_Z, _DIGIT_0, _DIGIT_9, _UNDERSCORE = map(u64, b"AZaz09_")


def _ascii_table() -> Bytes:
    """Return the cleaned byte for each byte: a lower-case letter, digit, underscore or space."""
    letters = [chr(c) if chr(c).isalnum() or c == 95 else " " for c in range(128)]
    return np.array([ord(c.lower()) for c in letters] + 128 * [32], np.uint8)


_ASCII_TABLE = _ascii_table()

N_CHARACTERS = 0x20000
"""Number of characters in the table `characters`; all others are irregular."""

_N_CHARACTERS = u64(N_CHARACTERS)
_IRREGULAR = 2**32 - 1


@cache
def characters() -> NDArray[np.uint32]:
    """Return the table by which kernels clean characters that are not ASCII.

    An entry is 0 for a separator. For a character of tokens it is the UTF-8 of its lower case, at
    most three bytes, plus their number times 2**24. It is `_IRREGULAR` if the lower case has more
    bytes than the character, consists of two characters, or depends on the neighbours.
    """
    return np.fromiter(map(_character_code, map(chr, range(N_CHARACTERS))), np.uint32, N_CHARACTERS)


def _character_code(c: str) -> int:
    low = c.lower()
    if c == "\u03a3" or len(low) != 1:  # a capital sigma has another lower case at the end
        return _IRREGULAR
    if not low.isalnum() and low != "_":
        return 0
    raw = low.encode()
    if len(raw) > min(3, len(c.encode())):
        return _IRREGULAR
    return len(raw) << 24 | int.from_bytes(raw, "little")


@inlined
def _decode_utf8(pos: Any, c: Any) -> Any:
    """Return the character at an address, whose first byte `c` is not ASCII, and its size."""
    second = load_u8(pos + u64(1)) & _SIX_BITS
    if c < _THREE_BYTES:
        return ((c & _FIVE_BITS) << u64(6)) | second, u64(2)
    third = load_u8(pos + u64(2)) & _SIX_BITS
    if c < _FOUR_BYTES:
        return ((((c & _FOUR_BITS) << u64(6)) | second) << u64(6)) | third, u64(3)
    fourth = load_u8(pos + u64(3)) & _SIX_BITS
    high = (((((c & _THREE_BITS) << u64(6)) | second) << u64(6)) | third) << u64(6)
    return high | fourth, u64(4)


@inlined
def _byte_range_mask(pos: Any, first: Any, last: Any) -> Any:
    """Return a mask of those of 64 bytes that are from `first` to `last`."""
    return byte_lt_mask(pos, last + u64(1)) & ~byte_lt_mask(pos, first)


@inlined
def _clean_ascii_blocks(pos: Any, end: Any, out_pos: Any, begins: Any, n: Any) -> Any:
    """Clean blocks of 64 bytes until one is not ASCII; do nothing if the text is shorter.

    Returns
    -------
    The next byte to clean, the end of the output, the number of tokens, and 1 if the last byte
    belongs to a token: its space is not written yet.
    """
    in_token = u64(0)
    if end - pos < _BLOCK:
        return pos, out_pos, n, in_token
    buffer = stack_buffer()
    offsets = np.uint64(buffer.ctypes.data)
    # Invariant: everything before `pos` is cleaned, `out_pos` follows it, `begins` has the first n
    # tokens, and `in_token` is 1 if the byte before `pos` belongs to a token.
    while pos < end:
        # The last block ends with the text, so that nothing is read after it. It overlaps the
        # block before by `n_overlap` bytes, whose bits are masked out.
        n_overlap = _BLOCK - min(end - pos, _BLOCK)
        block = pos - n_overlap
        if byte_lt_mask(block, _NON_ASCII) != _ALL:
            break
        uppercase = _byte_range_mask(block, _A, _Z)
        token = uppercase | _byte_range_mask(block, _SMALL_A, _SMALL_Z)
        token |= _byte_range_mask(block, _DIGIT_0, _DIGIT_9)
        token |= byte_eq_mask(block, _UNDERSCORE)
        follows_token, is_new = (token << u64(1)) | in_token, _ALL << n_overlap
        # Keep the bytes of tokens, and the first separator after each, which becomes the space.
        retained = (token | follows_token) & is_new
        compress_lowercase(out_pos, block, uppercase, token, retained)
        token_begins = pext(token & ~follows_token & is_new, retained)
        store_bit_indices(offsets, token_begins, u64(0))
        count = popcount(token_begins)
        for k in range(u64(0), count, u64(8)):
            addresses = load_u32x8(offsets + u64(4) * k) + out_pos
            store_u64x8(np.uint64(begins.ctypes.data) + u64(8) * (n + k), addresses)
        n += count
        out_pos += popcount(retained)
        in_token = token >> _LAST_BIT
        pos = block + _BLOCK
    return pos, out_pos, n, in_token


@inlined
def cleaned(pos: Any, end: Any, out_pos: Any, begins: Any, n: Any, table: Any) -> Any:
    """Write the tokens of a text in lower case, a space after each.

    Parameters
    ----------
    pos, end
        Addresses of the text, in UTF-8.
    out_pos
        Address of the output.
    begins, n
        From its n-th item on, `begins` receives the address of each token in the output, and after
        them the end of the output. Up to seven more items are overwritten.
    table
        Address of `characters`.

    Returns
    -------
    The end of the output, the index in `begins` of this end, and whether the text is regular. If it
    is not, the output is incomplete, and Python must tokenize the text.
    """
    pos, out_pos, n, in_token = _clean_ascii_blocks(pos, end, out_pos, begins, n)
    regular = True
    # Invariant: as in `_clean_ascii_blocks`. `out_pos` and n advance without branches: the bytes
    # written at `out_pos` are overwritten unless they belong to a token or end one.
    while pos < end:
        c = load_u8(pos)
        if c < _NON_ASCII:
            letter = np.uint64(_ASCII_TABLE[c])
            is_token = np.uint64(letter != SPACE)
            size = is_token
            pos += u64(1)
        else:
            code, step = _decode_utf8(pos, c)
            pos += step
            letter = np.uint64(_IRREGULAR)
            if code < _N_CHARACTERS:
                letter = loadu_u64(table + u64(4) * code) & _LOW_HALF
            regular &= letter != np.uint64(_IRREGULAR)
            is_token = np.uint64(letter != u64(0))
            size = letter >> _SIZE_SHIFT
            letter = letter & _UTF8_MASK if is_token else SPACE
            if not regular:
                break
        store_u64(out_pos, letter)
        begins[n] = out_pos
        n += is_token & (in_token ^ u64(1))
        out_pos += size | (in_token & (is_token ^ u64(1)))
        in_token = is_token
    store_u64(out_pos, SPACE)
    out_pos += in_token
    begins[n] = out_pos
    return out_pos, n, regular


@inlined
def _last_occurrence(g: Any, entry: Any) -> Any:
    """Return the index of the last n-gram that a table entry counts; `g` if the entry is empty.

    The hash of n-gram `g` equals itself, so the loop that searches for it also ends at an empty
    entry, without another branch.
    """
    is_used = u64(0) - np.uint64(entry != u64(0))
    return g + (((entry & _LOW_HALF) - u64(1) - g) & is_used)


@inlined
def _merge_duplicates(
    hashes: Any, values: Any, spans: Any, lo: Any, hi: Any, key: Any, hash_table: Any
) -> Any:
    """Keep the first of equal hashes between `lo` and `hi`, with their count; return the new end.

    The first pass counts n-grams in a hash table and records which are new; the second moves those
    together. Whether an n-gram is new is unpredictable, so neither branches on it.
    """
    n, capacity, max_capacity = hi - lo, u64(16), np.uint64(len(hash_table))
    while capacity < u64(8) * n and capacity + capacity + n <= max_capacity:
        capacity += capacity
    for z in range(capacity):
        hash_table[z] = u64(0)
    mask = capacity - u64(1)
    # Invariant: an entry is 0 or ``count << 32 | 1 + last``, where `last` is the index of the last
    # n-gram of a kind before g. Item ``capacity + z`` has the position of the entry of n-gram z,
    # and bit 32 is set unless it is the first of its kind.
    for g in range(u64(0), n):
        h = hashes[lo + g]
        pos = keyed_position(h, key, capacity)
        entry = hash_table[pos]
        while hashes[lo + _last_occurrence(g, entry)] != h:
            pos = (pos + u64(1)) & mask
            entry = hash_table[pos]
        hash_table[pos] = (entry & ~_LOW_HALF) + _ONE_COUNT + g + u64(1)
        hash_table[capacity + g] = pos | (np.uint64(entry != u64(0)) << _HALF_BITS)
    out_pos = lo
    # Invariant: `out_pos` follows the first n-grams of each kind before g.
    for g in range(u64(0), n):
        found = hash_table[capacity + g]
        hashes[out_pos] = hashes[lo + g]
        values[out_pos] = np.float64(hash_table[found & mask] >> _HALF_BITS)
        spans[out_pos] = spans[lo + g]
        out_pos += np.uint64(found <= _LOW_HALF)
    return out_pos


@inlined
def counted(
    begins: Any,
    first: Any,
    last: Any,
    prefix: Any,
    prefix_size: Any,
    ngrams: Any,
    names: Any,
    name_pos: Any,
    k: Any,
    hashes: Any,
    values: Any,
    spans: Any,
    key: Any,
    hash_table: Any,
) -> Any:
    """Append the features of a cleaned text, whose tokens begin at `begins[first:last]`.

    Parameters
    ----------
    prefix, prefix_size
        Address and size in bytes of the name of the text with its equals sign.
    ngrams
        Largest number of tokens of an n-gram.
    names
        The address that offsets in spans refer to.
    name_pos, k
        Address of the next name and index of the next feature.
    hashes, values, spans
        The features: hash, count, and ``offset of the name << 32 | its length``.
    key
        A key of `keyed_position`.
    hash_table
        Scratch, for each n-gram of the text at least four items, rounded to a power of two. With 16
        items, few n-grams need more than one probe.

    Returns
    -------
    The new `name_pos` and k.
    """
    end_k, n_tokens = k, last - first
    # Invariant: the features k to `end_k` - 1 are named, and `name_pos` follows their names.
    for n in range(u64(1), min(ngrams, n_tokens) + u64(1)):
        for i in range(first, last - n + u64(1)):
            name_end = copy_bytes(prefix, prefix + prefix_size, name_pos)
            name_end = copy_short_bytes(begins[i], begins[i + n] - u64(1), name_end)
            hashes[end_k] = UNHASHED
            spans[end_k] = ((name_pos - names) << OFFSET_BITS) | (name_end - name_pos)
            name_pos = name_end
            end_k += u64(1)
    hash_pending_names(hashes, spans, names, k, end_k)
    return name_pos, _merge_duplicates(hashes, values, spans, k, end_k, key, hash_table)


@kernel
def find_texts(
    start: Any,
    spans: Any,
    indptr: Any,
    prefix: Any,
    prefix_size: Any,
    out_addresses: Any,
    out_sizes: Any,
    is_text: Any,
) -> None:
    """Find the feature of each row whose name begins with a prefix; its text is the rest.

    Parameters
    ----------
    start, spans, indptr
        The rows, as in `NamedRows`; `start` is the address of the names.
    out_addresses, out_sizes
        Receive the address and the length of the text of each row; must be zeros.
    is_text
        Receives a 1 for each feature that is such a text; must be zeros.
    """
    for i in range(np.uint64(len(indptr) - 1)):
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + u64(1)])):
            length = spans[k] & LENGTH_MASK
            name = start + (spans[k] >> OFFSET_BITS)
            if length >= prefix_size and bytes_equal(name, prefix, prefix_size):
                out_addresses[i] = name + prefix_size
                out_sizes[i] = length - prefix_size
                is_text[k] = np.uint8(1)


@kernel
def clean_texts(
    addresses: Any,
    sizes: Any,
    table: Any,
    out_pos: Any,
    begins: Any,
    firsts: Any,
    irregular: Any,
) -> None:
    """Clean many texts, given their addresses, 0 if absent, and their lengths.

    `firsts` receives the index in `begins` of the first token of each text; the item before that of
    the next text is the end of the output. `irregular` receives a 1 for each text that Python must
    tokenize. See `cleaned`.
    """
    n = u64(0)
    # Invariant: `begins` has n items: the tokens of the texts before j, and an end for each.
    for j in range(np.uint64(len(addresses))):
        firsts[j] = n
        regular = True
        if addresses[j]:
            out_pos, n, regular = cleaned(
                addresses[j], addresses[j] + sizes[j], out_pos, begins, n, table
            )
        irregular[j] = np.uint8(not regular)
        begins[n] = out_pos
        n += u64(1)
    firsts[len(addresses)] = n


@kernel
def expand_rows(
    start: Any,
    spans: Any,
    hashes: Any,
    values: Any,
    indptr: Any,
    dropped: Any,
    fallback: Any,
    begins: Any,
    firsts: Any,
    prefixes: Any,
    prefix_sizes: Any,
    ngrams: Any,
    names: Any,
    out_hashes: Any,
    out_values: Any,
    out_spans: Any,
    out_indptr: Any,
    key: Any,
    hash_table: Any,
) -> Any:
    """Copy rows without their texts, and append the n-grams of these to each.

    Parameters
    ----------
    start, spans, hashes, values, indptr
        The rows, see `NamedRows`; `start` is the address of the names.
    dropped
        A flag for each feature that is not copied.
    fallback
        What Python does for each row: 0 if nothing, 1 if the n-grams, 2 if the whole row, which
        remains empty here.
    begins, firsts
        The output of `clean_texts`: for each row one text per prefix.
    prefixes, prefix_sizes
        Addresses and sizes of the prefixes of names, see `counted`.
    names
        Address of the output of names.
    key, hash_table
        As in `counted`.

    Returns
    -------
    The number of features and the number of bytes of names.
    """
    begins, firsts, hash_table = borrowed((begins, firsts, hash_table))
    out_hashes, out_values, out_spans = borrowed((out_hashes, out_values, out_spans))
    k, name_pos, n_prefixes = u64(0), names, np.uint64(len(prefixes))
    out_indptr[0] = 0
    # Invariant: k features and the names before `name_pos` are those of the rows before i.
    for i in range(np.uint64(len(fallback))):
        if fallback[i] < 2:
            for j in range(np.uint64(indptr[i]), np.uint64(indptr[i + u64(1)])):
                if dropped[j]:
                    continue
                name = start + (spans[j] >> OFFSET_BITS)
                name_end = copy_bytes(name, name + (spans[j] & LENGTH_MASK), name_pos)
                out_hashes[k] = hashes[j]
                out_values[k] = values[j]
                out_spans[k] = ((name_pos - names) << OFFSET_BITS) | (name_end - name_pos)
                name_pos = name_end
                k += u64(1)
        if fallback[i] == 0:
            for z in range(n_prefixes):
                text = i * n_prefixes + z
                name_pos, k = counted(
                    begins, firsts[text], firsts[text + u64(1)] - u64(1),
                    prefixes[z], prefix_sizes[z], ngrams, names, name_pos, k,
                    out_hashes, out_values, out_spans, key, hash_table,
                )  # fmt: skip
        out_indptr[i + u64(1)] = np.int64(k)
    return k, name_pos - names
