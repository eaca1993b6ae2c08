"""Which delimiters a text has, and where: 64 bytes at a time, then one number for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.simd import (
    byte_eq_mask,
    byte_in_mask,
    byte_lt_mask,
    clz,
    compress_bytes,
    compress_bytes_marked,
    ctz,
    has_compress,
    load_u8,
    loadu_u64,
    popcount,
    store_bit_indices,
    store_u32,
    store_u64,
)

__all__ = [
    "AFTER_BLANK",
    "BAR",
    "BEFORE_COLON",
    "BLANK",
    "COLON",
    "NEWLINE",
    "PAD",
    "RETURN",
    "SPARE",
    "TAB",
    "alike",
    "csv_delimiters",
    "delimiters",
    "json_delimiters",
    "lines_at_once",
    "place_of",
    "vw_delimiters",
]

PAD = 128
"""Bytes that may be read beyond both ends of a text."""

BLANK, COLON, NEWLINE, RETURN, TAB, BAR = map(np.uint64, b" :\n\r\t|")
_QUOTE, _COMMA, _CLOSE, _BACKSLASH, _EQUALS = map(np.uint64, b'",}\\=')
_PRINTED, _HIGH = np.uint64(0x20), np.uint64(0x80)

AFTER_BLANK, BEFORE_COLON = np.uint64(64), np.uint64(128)
"""Bits of what a delimiter of JSON is told to be, beside its own."""

SPARE = 64
"""Places for delimiters that may be written beyond those that there are."""

_ONE, _FOUR, _EIGHT, _BLOCK = map(np.uint64, (1, 4, 8, 64))
_FEW = np.uint64(10)
_AT_ONCE = np.uint64(2**15)
_ALL = np.uint64(2**64 - 1)


@inlined
def _written(found: Any, at: Any, start: Any, n: Any, positions: Any, kinds: Any) -> Any:
    """Write down which of 64 bytes are delimiters, from the n-th place on; returns the next."""
    count = popcount(found)
    if has_compress() or count > _FEW:
        compress_bytes(kinds + n, found, at)
        store_bit_indices(positions + _FOUR * n, found, at - start)
    else:
        _few_written(found, at, start, n, positions, kinds)
    return n + count


@inlined
def _few_written(found: Any, at: Any, start: Any, n: Any, positions: Any, kinds: Any) -> None:
    """As `_written`, of up to `_FEW` delimiters, one by one; so many are written in any case.

    How many there are cannot be foretold, and a wrong guess costs more.
    """
    for k in range(_FEW):
        place = ctz(found)
        store_u32(positions + _FOUR * (n + k), at - start + place)
        store_u64(kinds + n + k, load_u8(at + place))
        found &= found - _ONE


@inlined
def place_of(positions: Any, i: Any) -> Any:
    """The i-th of the positions that are written down from an address."""
    return loadu_u64(positions + np.uint64(4) * i) & np.uint64(2**32 - 1)


@inlined
def alike(kinds: Any, i: Any, pattern: Any) -> Any:
    """How many delimiters from the i-th on are those of a pattern of words."""
    n, expected = np.uint64(0), np.uint64(0)
    for word in pattern:
        if n == expected:
            n += ctz(loadu_u64(kinds + i + n) ^ word) >> np.uint64(3)
        expected += _EIGHT
    return n


@inlined
def _within(found: Any, at: Any, end: Any) -> Any:
    """The bits of 64 bytes from `at` that are of bytes before `end`."""
    return found if end - at >= _BLOCK else found & (_ALL >> (_BLOCK - (end - at)))


@inlined
def lines_at_once(at: Any, end: Any) -> Any:
    """Where to stop looking for a while: behind lines whose delimiters the first caches hold.

    It may be one long line. The last byte before `end` is a newline.
    """
    stop = at + _AT_ONCE
    if stop >= end:
        return end
    last = stop
    while last > at:
        last -= _BLOCK
        found = byte_eq_mask(last, NEWLINE)
        if found:
            return last + _BLOCK - clz(found)
    found = byte_eq_mask(stop, NEWLINE)
    while not found:
        stop += _BLOCK
        found = byte_eq_mask(stop, NEWLINE)
    return stop + ctz(found) + _ONE


@inlined
def delimiters(start: Any, at: Any, end: Any, positions: Any, kinds: Any) -> Any:
    """Write down where newlines, blanks and colons stand from `at` on, counted from `start`.

    The byte before `at` is the first of them, as it were. Positions are halves of words from an
    address, with SPARE places more than there may be, and `kinds` the delimiters, a byte each.

    Returns
    -------
    How many there are.
    """
    store_u32(positions, at - _ONE - start)
    n = _ONE
    while at < end:
        found = byte_in_mask(at, NEWLINE, BLANK, BLANK, BLANK) | byte_eq_mask(at, COLON)
        n = _written(_within(found, at, end), at, start, n, positions, kinds)
        at += _BLOCK
    return n


@inlined
def vw_delimiters(start: Any, at: Any, end: Any, positions: Any, kinds: Any) -> Any:
    """As `delimiters`, but where newlines, blanks, colons, tabs and bars stand, and these alone.

    Returns
    -------
    How many there are, and whether all bytes are ASCII.
    """
    n, ascii_ = np.uint64(0), _ALL
    while at < end:
        found = byte_in_mask(at, NEWLINE, BLANK, TAB, BAR) | byte_eq_mask(at, COLON)
        ascii_ &= byte_lt_mask(at, _HIGH) | ~_within(_ALL, at, end)
        n = _written(_within(found, at, end), at, start, n, positions, kinds)
        at += _BLOCK
    return n, ascii_ == _ALL


@inlined
def json_delimiters(start: Any, at: Any, end: Any, positions: Any, kinds: Any) -> Any:
    """As `vw_delimiters`, but where quotes, commas, closing braces and what is odd in JSON stand.

    Odd are backslashes and control characters, newlines among them. Delimiters behind a blank are
    told with AFTER_BLANK, those before a colon with BEFORE_COLON. Told, too, is whether no byte is
    an equals sign.
    """
    n, ascii_, equals = np.uint64(0), _ALL, np.uint64(0)
    while at < end:
        found = byte_in_mask(at, _QUOTE, _COMMA, _CLOSE, _CLOSE) | byte_eq_mask(at, _BACKSLASH)
        equals |= _within(byte_eq_mask(at, _EQUALS), at, end)
        found |= byte_lt_mask(at, _PRINTED)
        ascii_ &= byte_lt_mask(at, _HIGH) | ~_within(_ALL, at, end)
        found = _within(found, at, end)
        compress_bytes_marked(kinds + n, found, at, BLANK, COLON)
        store_bit_indices(positions + _FOUR * n, found, at - start)
        n += popcount(found)
        at += _BLOCK
    return n, ascii_ == _ALL, equals == np.uint64(0)


@inlined
def csv_delimiters(start: Any, end: Any, mark: Any, positions: Any, kinds: Any) -> Any:
    """As `vw_delimiters`, but where quotes, marks and control characters stand, newlines too.

    All are found at once, from `start` on. `mark` is what stands between cells. Tabs are left out,
    unless they do.
    """
    n, ascii_ = np.uint64(0), _ALL
    at = start
    while at < end:
        found = byte_lt_mask(at, _PRINTED) & ~byte_eq_mask(at, TAB)
        found |= byte_eq_mask(at, _QUOTE) | byte_eq_mask(at, mark)
        ascii_ &= byte_lt_mask(at, _HIGH) | ~_within(_ALL, at, end)
        n = _written(_within(found, at, end), at, start, n, positions, kinds)
        at += _BLOCK
    return n, ascii_ == _ALL
