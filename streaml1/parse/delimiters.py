"""Where the delimiters of a text stand: 64 bytes at a time, then one number for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.jit import bit_count, inlined, load_word, matches, trailing_zeros, under

__all__ = [
    "BAR",
    "BLANK",
    "COLON",
    "NEWLINE",
    "PAD",
    "RETURN",
    "TAB",
    "csv_delimiters",
    "delimiters",
    "has_high_bytes",
    "json_delimiters",
    "place_of",
    "vw_delimiters",
]

PAD = 64
"""Bytes that may be read beyond both ends of a text."""

BLANK, COLON, NEWLINE, RETURN, TAB, BAR = map(np.uint64, b" :\n\r\t|")
_QUOTE, _COMMA, _CLOSE, _BACKSLASH = map(np.uint64, b'",}\\')
_PRINTED, _HIGH = np.uint64(0x20), np.uint64(0x80)

_ONE = np.uint64(1)
_BLOCK = np.uint64(64)
_EIGHT = np.uint64(8)
_ALL = np.uint64(2**64 - 1)


@inlined
def _written(found: Any, base: Any, n: Any, positions: Any) -> Any:
    """Write down which bits are set, from the n-th place on; returns the next."""
    end = n + bit_count(found)
    while n < end:
        # Eight at once, whether there are as many: a branch for each costs more.
        for k in range(_EIGHT):
            positions[n + k] = np.uint32(base + trailing_zeros(found))
            found &= found - _ONE
        n += _EIGHT
    return end


@inlined
def place_of(positions: Any, i: Any) -> Any:
    """The i-th of the positions that are written down from an address."""
    return load_word(positions + np.uint64(4) * i) & np.uint64(2**32 - 1)


@inlined
def _within(found: Any, at: Any, end: Any) -> Any:
    """The bits of 64 bytes from `at` that are of bytes before `end`."""
    return found if end - at >= _BLOCK else found & (_ALL >> (_BLOCK - (end - at)))


@inlined
def delimiters(start: Any, end: Any, positions: Any) -> Any:
    """Write down where newlines, blanks and colons stand, from the byte before `start`.

    That byte is the first of them. `positions` is uint32, with eight places more than there may be.

    Returns
    -------
    How many there are.
    """
    positions[0] = 0
    n = _ONE
    at = start
    while at < end:
        found = matches(at, NEWLINE) | matches(at, BLANK) | matches(at, COLON)
        n = _written(_within(found, at, end), at - start + _ONE, n, positions)
        at += _BLOCK
    return n


@inlined
def vw_delimiters(start: Any, end: Any, positions: Any) -> Any:
    """Write down where newlines, blanks, colons, tabs and bars stand, from `start`; how many.

    `positions` is uint32, with eight places more than there may be.
    """
    n = np.uint64(0)
    at = start
    while at < end:
        found = matches(at, NEWLINE) | matches(at, BLANK) | matches(at, COLON)
        found |= matches(at, TAB) | matches(at, BAR)
        n = _written(_within(found, at, end), at - start, n, positions)
        at += _BLOCK
    return n


@inlined
def json_delimiters(start: Any, end: Any, positions: Any) -> Any:
    """As `vw_delimiters`, but where quotes, commas, closing braces and what is odd in JSON stand.

    Odd are backslashes and control characters, newlines among them.
    """
    n = np.uint64(0)
    at = start
    while at < end:
        found = matches(at, _QUOTE) | matches(at, _COMMA) | matches(at, _CLOSE)
        found |= matches(at, _BACKSLASH) | under(at, _PRINTED)
        n = _written(_within(found, at, end), at - start, n, positions)
        at += _BLOCK
    return n


@inlined
def csv_delimiters(start: Any, end: Any, positions: Any) -> Any:
    """As `vw_delimiters`, but where quotes, commas and control characters stand, newlines too.

    Tabs are left out.
    """
    n = np.uint64(0)
    at = start
    while at < end:
        found = matches(at, _QUOTE) | matches(at, _COMMA)
        found |= under(at, _PRINTED) & ~matches(at, TAB)
        n = _written(_within(found, at, end), at - start, n, positions)
        at += _BLOCK
    return n


@inlined
def has_high_bytes(start: Any, end: Any) -> bool:
    """Whether a byte between two addresses is not ASCII."""
    found = np.uint64(0)
    at = start
    while at < end:
        found |= _within(~under(at, _HIGH), at, end)
        at += _BLOCK
    return bool(found != np.uint64(0))
