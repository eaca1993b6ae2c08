"""Feature names as raw bytes: copying, joining, comparing and hashing.

The hashes are those of `streaml1.core.hashing.murmur` (64-bit MurmurHash2 over 8-byte words).
Addresses are uint64. The functions with `x8` in their names process eight names at a time.

Loads are eight bytes wide and stores may be wider than a name: callers keep readable bytes after
every text (`streaml1.text.structural_index.PAD`) and spare room after every destination.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.hashing import MURMUR_MULTIPLIER
from streaml1.core.jit import inlined, u64
from streaml1.core.simd import (
    exclusive_scan,
    gather_u64,
    lane_mask_from,
    last_lane,
    load_u8,
    loadu_u64,
    loadu_u64x8,
    movemask,
    scatter_u64,
    splat_u64,
    store_u64,
    store_u64x8,
)
from streaml1.core.spans import OFFSET_BITS

__all__ = [
    "NAMES_X8_BYTES",
    "UNHASHED",
    "UTF8_INVALID",
    "UTF8_UNKNOWN",
    "UTF8_VALID",
    "bytes_equal",
    "copy_bytes",
    "copy_short_bytes",
    "is_ascii",
    "join_names_x8",
    "murmur_at",
    "murmur_reading_back",
    "murmur_x8",
    "murmur_x8_from_heads",
    "murmur_x8_of_joined",
    "murmur_x8_of_short",
    "shares_hash",
    "write_names_x8",
]

UTF8_UNKNOWN, UTF8_VALID, UTF8_INVALID = map(u64, range(3))
"""Whether a text is valid UTF-8. Kernels accept non-ASCII bytes only if it is."""

UNHASHED = u64(0)
"""Placeholder for the hash of a name that is computed later, together with seven others."""

NAMES_X8_BYTES = u64(160)
"""Upper bound on the bytes that `write_names_x8` writes."""

_SHIFT_MASK = u64(63)
_LAST_ASCII = u64(127)
_MURMUR_SHIFT = u64(47)
_ALL_ONES = u64(2**64 - 1)
_EMPTY_HASH = u64(0)  # the hash of the empty name


@inlined
def copy_bytes(start: Any, end: Any, destination: Any) -> Any:
    """Copy the bytes between two addresses and return the address after the copy.

    Reads up to seven bytes after `end`, and writes up to seven bytes after the copy.
    """
    out_pos = destination
    while start < end:
        store_u64(out_pos, loadu_u64(start))
        start += u64(8)
        out_pos += u64(8)
    return out_pos - (start - end)


@inlined
def copy_short_bytes(start: Any, end: Any, destination: Any) -> Any:
    """As `copy_bytes`, but fastest up to 16 bytes; reads and writes up to 16 bytes too many.

    The first 16 bytes are copied without a branch: the length of a name is unpredictable, and a
    branch miss costs more than a wasted store.
    """
    store_u64(destination, loadu_u64(start))
    store_u64(destination + u64(8), loadu_u64(start + u64(8)))
    if end - start > u64(16):
        return copy_bytes(start + u64(16), end, destination + u64(16))
    return destination + (end - start)


# Hashes of one name


@inlined
def murmur_at(start: Any, end: Any) -> Any:
    """Return the hash of the bytes between two addresses; reads up to seven bytes after `end`."""
    h, last_word = _murmur_prefix(start, end)
    rest = end - last_word
    return _murmur_last(h, loadu_u64(last_word), rest) if last_word < end else _EMPTY_HASH


@inlined
def murmur_reading_back(start: Any, end: Any) -> Any:
    """As `murmur_at`, but reads up to seven bytes before `start`, and none after `end`.

    This suits the characters of a CPython string: its header is in front of them, and what follows
    them may be unmapped.
    """
    h, last_word = _murmur_prefix(start, end)
    size = end - last_word
    if not size:
        return _EMPTY_HASH
    return _murmur_last(h, loadu_u64(end - u64(8)) >> (u64(8) * (u64(8) - size)), size)


@inlined
def _murmur_prefix(start: Any, end: Any) -> Any:
    """Hash all words but the last, which has 1 to 8 bytes; return the state and its address."""
    m = np.uint64(MURMUR_MULTIPLIER)
    h = (end - start) * m
    while end - start > u64(8):
        h = (h ^ _mix_word(loadu_u64(start), m)) * m
        start += u64(8)
    return h, start


@inlined
def _murmur_last(h: Any, word: Any, size: Any) -> Any:
    """Add the last word, of which `size` bytes (1 to 8) count, and finish the hash."""
    m = np.uint64(MURMUR_MULTIPLIER)
    # Compute both branches: name length is unpredictable and a branch miss costs more.
    full = _mix_word(word, m)
    partial = word & (_ALL_ONES >> ((u64(8) * (u64(8) - size)) & _SHIFT_MASK))
    return _finish((h ^ (full if size == u64(8) else partial)) * m, m)


@inlined
def _mix_word(word: Any, m: Any) -> Any:
    k = word * m
    k ^= k >> _MURMUR_SHIFT
    return k * m


@inlined
def _finish(h: Any, m: Any) -> Any:
    h = (h ^ (h >> _MURMUR_SHIFT)) * m
    return h ^ (h >> _MURMUR_SHIFT)


# Hashes of eight names


@inlined
def murmur_x8(start: Any, size: Any) -> Any:
    """Return the hashes of eight names, given their addresses and sizes in bytes."""
    return murmur_x8_from_heads(gather_u64(start), start, size)


@inlined
def murmur_x8_from_heads(head: Any, start: Any, size: Any) -> Any:
    """As `murmur_x8`, if the first eight bytes of the names have been loaded already."""
    m = np.uint64(MURMUR_MULTIPLIER)
    h, last = size * m, head
    # Invariant: `h` covers all bytes before `start`, `last` holds the word at `start`, and `size`
    # counts the bytes from `start` on. Lanes with at most one word left keep their values.
    while movemask(size > u64(8)):
        unfinished = size > u64(8)
        k = ((h ^ _mix_word(last, m)) * m) & unfinished
        h = k | (h & (unfinished ^ _ALL_ONES))
        start = start + (unfinished & u64(8))
        size = size - (unfinished & u64(8))
        last = gather_u64(start)
    full_mask, nonempty_mask = size == u64(8), size != u64(0)
    partial = last & (_ALL_ONES >> (((u64(8) - size) * u64(8)) & _SHIFT_MASK))
    k = (h ^ ((_mix_word(last, m) & full_mask) | (partial & (full_mask ^ _ALL_ONES)))) * m
    return _finish((k & nonempty_mask) | (h & (nonempty_mask ^ _ALL_ONES)), m)


@inlined
def murmur_x8_of_short(word: Any, size: Any) -> Any:
    """Return the hashes of eight names of 1 to 7 bytes, given as zero-padded words."""
    m = np.uint64(MURMUR_MULTIPLIER)
    return _finish((size * m ^ word) * m, m)


@inlined
def murmur_x8_of_joined(low: Any, high: Any, size: Any) -> Any:
    """Return the hashes of eight names of 1 to 16 bytes, given as `join_names_x8` returns them."""
    if not movemask(size > u64(7)):  # multiplications dominate, and short names need fewer
        return murmur_x8_of_short(low, size)
    m = np.uint64(MURMUR_MULTIPLIER)
    long_mask = size > u64(8)
    short_mask = long_mask ^ _ALL_ONES
    h = size * m
    h = (((h ^ _mix_word(low, m)) * m) & long_mask) | (h & short_mask)
    last, last_size = (high & long_mask) | (low & short_mask), size - (long_mask & u64(8))
    full_mask = last_size == u64(8)
    h = (h ^ ((_mix_word(last, m) & full_mask) | (last & (full_mask ^ _ALL_ONES)))) * m
    return _finish(h, m)


# Eight names that are joined from two parts, such as `namespace^name` and `key=value`


@inlined
def join_names_x8(
    prefix: Any, prefix_size: Any, separator: Any, suffix: Any, suffix_size: Any
) -> Any:
    """Join eight names from prefix, separator byte and suffix, in registers.

    Parameters
    ----------
    prefix, suffix
        The first eight bytes of each part; bytes beyond its size are ignored.
    prefix_size
        The sizes of the prefixes, 0 to 7 bytes.
    separator
        The byte between the parts.
    suffix_size
        The sizes of the suffixes, 1 to 8 bytes.

    Returns
    -------
    Two words for each name, low and high, padded with zeros.
    """
    suffix_bytes = suffix & (_ALL_ONES >> (((u64(8) - suffix_size) * u64(8)) & _SHIFT_MASK))
    bits = prefix_size * u64(8)
    prefix_bytes = prefix & ((_ALL_ONES << bits) ^ _ALL_ONES)
    low = prefix_bytes | (splat_u64(separator) << bits) | ((suffix_bytes << bits) << u64(8))
    return low, suffix_bytes >> (_SHIFT_MASK - u64(7) - bits)


@inlined
def write_names_x8(
    low: Any, high: Any, size: Any, first: Any, out_pos: Any, start: Any, spans: Any
) -> Any:
    """Write the names of the lanes from `first` on, one after the other.

    Parameters
    ----------
    low, high, size
        Eight names as `join_names_x8` returns them, and their sizes in bytes.
    first
        The first lane to write. Names in earlier lanes were written before.
    out_pos
        The address of the first name. Up to 15 bytes after the last name are overwritten.
    start
        The address that spans count from.
    spans
        The address of the eight spans, which are ``offset << 32 | size``. Those of earlier lanes
        keep their values.

    Returns
    -------
    The address after the last name.
    """
    write_mask = lane_mask_from(first)
    sizes = size & write_mask
    addresses = exclusive_scan(sizes) + out_pos
    # A scatter stores its lanes in order, so each name overwrites the padding of the one before it.
    if movemask(size > u64(8)):
        scatter_u64(addresses + u64(8), high)
    scatter_u64(addresses, low)
    new_spans = ((addresses - start) << OFFSET_BITS) | size
    store_u64x8(spans, (new_spans & write_mask) | (loadu_u64x8(spans) & (write_mask ^ _ALL_ONES)))
    return last_lane(addresses + sizes)


# Comparisons


@inlined
def shares_hash(hashes: Any, lo: Any, hi: Any, end: Any, n: Any) -> bool:
    """Return whether any of the n hashes before position `end` is among those from lo to hi."""
    found = False
    for z in range(end - n, end):
        for k in range(lo, hi):
            found |= hashes[k] == hashes[z]
    return found


@inlined
def is_ascii(start: Any, end: Any) -> bool:
    """Return whether all bytes between two addresses are ASCII."""
    largest = u64(0)
    while start < end:
        largest = max(largest, load_u8(start))
        start += u64(1)
    return bool(largest <= _LAST_ASCII)


@inlined
def bytes_equal(a: Any, b: Any, size: Any) -> bool:
    """Return whether `size` bytes at two addresses are equal; reads up to seven more of both."""
    difference = u64(0)
    while size >= u64(8):
        difference |= loadu_u64(a) ^ loadu_u64(b)
        a += u64(8)
        b += u64(8)
        size -= u64(8)
    if size:
        difference |= (loadu_u64(a) ^ loadu_u64(b)) & (_ALL_ONES >> (u64(8) * (u64(8) - size)))
    return bool(difference == u64(0))
