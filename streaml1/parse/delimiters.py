"""Where the delimiters of a text stand: 64 bytes at a time, then one number for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.jit import bit_count, inlined, matches, trailing_zeros

__all__ = ["BLANK", "COLON", "NEWLINE", "PAD", "RETURN", "delimiters"]

PAD = 64
"""Bytes that may be read beyond both ends of a text."""

BLANK, COLON, NEWLINE, RETURN = map(np.uint64, b" :\n\r")

_ONE = np.uint64(1)
_BLOCK = np.uint64(64)
_EIGHT = np.uint64(8)
_ALL = np.uint64(2**64 - 1)


@inlined
def delimiters(start: Any, end: Any, third: Any, positions: Any) -> Any:
    """Write down where newlines, blanks and `third` stand, from `start`; returns how many.

    `positions` is uint32, with eight places more than there may be.
    """
    n = np.uint64(0)
    at = start
    while at < end:
        found = matches(at, NEWLINE) | matches(at, BLANK) | matches(at, third)
        if end - at < _BLOCK:
            found &= _ALL >> (_BLOCK - (end - at))
        base = at - start
        first = n
        n += bit_count(found)
        while first < n:
            # Eight at once, whether there are as many: a branch for each costs more.
            for k in range(_EIGHT):
                positions[first + k] = np.uint32(base + trailing_zeros(found))
                found &= found - _ONE
            first += _EIGHT
        at += _BLOCK
    return n
