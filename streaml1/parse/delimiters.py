"""Where the delimiters of a text stand: 64 bytes at a time, then one number for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.jit import bit_count, inlined, matches, trailing_zeros

__all__ = [
    "BAR",
    "BLANK",
    "COLON",
    "NEWLINE",
    "PAD",
    "RETURN",
    "TAB",
    "delimiters",
    "vw_delimiters",
]

PAD = 64
"""Bytes that may be read beyond both ends of a text."""

BLANK, COLON, NEWLINE, RETURN, TAB, BAR = map(np.uint64, b" :\n\r\t|")

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
def _within(found: Any, at: Any, end: Any) -> Any:
    """The bits of 64 bytes from `at` that are of bytes before `end`."""
    return found if end - at >= _BLOCK else found & (_ALL >> (_BLOCK - (end - at)))


@inlined
def delimiters(start: Any, end: Any, positions: Any) -> Any:
    """Write down where newlines, blanks and colons stand, from `start`; returns how many.

    `positions` is uint32, with eight places more than there may be.
    """
    n = np.uint64(0)
    at = start
    while at < end:
        found = matches(at, NEWLINE) | matches(at, BLANK) | matches(at, COLON)
        n = _written(_within(found, at, end), at - start, n, positions)
        at += _BLOCK
    return n


@inlined
def vw_delimiters(start: Any, end: Any, positions: Any) -> Any:
    """As `delimiters`, and tabs and bars too."""
    n = np.uint64(0)
    at = start
    while at < end:
        found = matches(at, NEWLINE) | matches(at, BLANK) | matches(at, COLON)
        found |= matches(at, TAB) | matches(at, BAR)
        n = _written(_within(found, at, end), at - start, n, positions)
        at += _BLOCK
    return n
