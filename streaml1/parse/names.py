"""Names as bytes, one after the other, and their hashes: those of `streaml1.hashing`."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.hashing import MURMUR
from streaml1.jit import inlined, load_word, store_word

__all__ = ["ALL_TEXT", "BROKEN", "UNKNOWN", "comes_again", "copied", "murmur_at"]

UNKNOWN, ALL_TEXT, BROKEN = map(np.uint64, range(3))
"""Whether a text is UTF-8."""

_EIGHT = np.uint64(8)
_SHIFT = np.uint64(47)
_ALL = np.uint64(2**64 - 1)


@inlined
def copied(start: Any, end: Any, to: Any) -> Any:
    """Copy the bytes between two addresses; returns the address behind the copy.

    Up to seven bytes more are read, and written behind it.
    """
    at = to
    while start < end:
        store_word(at, load_word(start))
        start += _EIGHT
        at += _EIGHT
    return at - (start - end)


@inlined
def murmur_at(start: Any, end: Any) -> Any:
    """`murmur` of the bytes between two addresses; up to seven bytes more are read."""
    m = np.uint64(MURMUR)
    h = (end - start) * m
    while end - start >= _EIGHT:
        k = load_word(start) * m
        k ^= k >> _SHIFT
        h = (h ^ (k * m)) * m
        start += _EIGHT
    left = end - start
    if left:
        h = (h ^ (load_word(start) & (_ALL >> (_EIGHT * (_EIGHT - left))))) * m
    h = (h ^ (h >> _SHIFT)) * m
    return h ^ (h >> _SHIFT)


@inlined
def comes_again(hashes: Any, lo: Any, hi: Any, last: Any, n: Any) -> bool:
    """Whether one of the n hashes before the `last` is among those from lo to hi."""
    found = False
    for z in range(last - n, last):
        for k in range(lo, hi):
            found |= hashes[k] == hashes[z]
    return found
