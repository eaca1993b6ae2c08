"""Where a hash stands in a table of hashes and slots: open addressing, for every table of names."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.aligned import aligned_empty
from streaml1.core.jit import inlined, typed_kernel
from streaml1.core.simd import ctz, mask_eq, prefetch, prefetch_early

__all__ = [
    "PREFETCH_DISTANCE",
    "MISSING",
    "NO_SLOT",
    "ONE",
    "prefetch_lines",
    "empty_entries",
    "home_line",
    "lookup",
    "find_vacant",
]

MISSING = 0xFFFFFFFF  # no slot: above every size a rule can have
NO_SLOT = np.uint64(MISSING)
ONE = np.uint64(1)

# Names ahead whose lines are asked for, into the second cache and the first.
PREFETCH_DISTANCE, _NEAR = np.uint64(128), np.uint64(8)

_SHIFT, _FOUR = map(np.uint64, (3, 4))  # a line is eight words, four places
_HASHES, _SLOTS = np.uint64(0b01010101), np.uint64(0b10101010)


@inlined
def home_line(entries: Any, h: Any) -> Any:
    """Where the line begins in which the hash `h` is looked for first."""
    return h << _SHIFT & np.uint64(len(entries) - 8)


@inlined
def prefetch_lines(entries: Any, hashes: Any, k: Any) -> None:
    """Prefetch the lines of the hashes `PREFETCH_DISTANCE` and `_NEAR` positions after the k-th.

    The caller guarantees that `hashes` extends at least `PREFETCH_DISTANCE` beyond `k`.
    """
    prefetch_early(entries, home_line(entries, hashes[k + PREFETCH_DISTANCE]))
    prefetch(entries, home_line(entries, hashes[k + _NEAR]))


@inlined
def lookup(entries: Any, h: Any) -> Any:
    """Where in a table the hash `h` stands, or would.

    `entries` is (hash, slot) for each of a power of two of places; a slot `MISSING` is free, and
    its hash 0. Four places are a line of the cache, and looked at together; they fill in turn.
    """
    line = home_line(entries, h)
    while True:
        found = mask_eq(entries, line, h) & _HASHES
        if not found:
            found = (mask_eq(entries, line, NO_SLOT) & _SLOTS) >> ONE
        if found:
            return line + ctz(found)
        line = (line + np.uint64(8)) & np.uint64(len(entries) - 8)


@inlined
def find_vacant(entries: Any, h: Any) -> Any:
    """Where in a table a hash is to stand that does not.

    Word by word: what was written a moment ago is at hand so, but not as a part of a line.
    """
    line = home_line(entries, h)
    while True:
        taken = np.uint64(0)  # how many places are cannot be foretold
        for k in range(line, line + np.uint64(8), ONE + ONE):
            taken += np.uint64(entries[k + ONE] != NO_SLOT)
        if taken < _FOUR:
            return line + taken + taken
        line = (line + np.uint64(8)) & np.uint64(len(entries) - 8)


@typed_kernel("uint64[]")
def _clear(entries: Any) -> None:
    for k in range(np.uint64(0), np.uint64(len(entries)), ONE + ONE):
        entries[k] = 0
        entries[k + ONE] = NO_SLOT


def empty_entries(places: int) -> Any:
    """Return an empty table with a number of places that is a power of two."""
    entries = aligned_empty(2 * places, np.uint64)
    _clear(entries)
    return entries
