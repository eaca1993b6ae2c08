"""Look-up in hash tables that map 64-bit hashes to slots; all tables of vocabularies share it.

A table is one uint64 array of entries, (hash, slot) each; their number is a power of two. A free
entry is (0, `NO_SLOT`). Four entries are a cache line, which starts at a multiple of 64 bytes.

Collisions are resolved by linear probing, one line at a time. Invariants:

- The entries of a line are taken in order, so that its free entries follow its taken ones.
- Every line from the home line of a hash to the line before its entry is full.
- At least half of the entries are free, so that each search ends.

Entries are never removed; a table without them is built instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.aligned import aligned_empty
from streaml1.core.jit import inlined, typed_kernel
from streaml1.core.simd import ctz, mask_eq, prefetch, prefetch_early
from streaml1.core.types import Hashes

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

MISSING = 0xFFFFFFFF
"""In place of the slot of an unknown name; exceeds each size that a rule can have."""

NO_SLOT = np.uint64(MISSING)
ONE = np.uint64(1)

# How many hashes ahead a line is prefetched, into the L2 cache and from there into L1.
PREFETCH_DISTANCE, _L1_DISTANCE = np.uint64(128), np.uint64(8)

_LINE_SHIFT = np.uint64(3)  # a line has 8 elements of 64 bits
_LINE_ELEMENTS, _LINE_ENTRIES = np.uint64(8), np.uint64(4)
# Bits of a mask of 8 elements: even elements are hashes, odd elements are slots.
_HASHES, _SLOTS = np.uint64(0b01010101), np.uint64(0b10101010)


@inlined
def home_line(entries: Any, h: Any) -> Any:
    """Return the position in `entries` of the line where the search for the hash `h` begins."""
    return h << _LINE_SHIFT & np.uint64(len(entries) - 8)


@inlined
def prefetch_lines(entries: Any, hashes: Any, k: Any) -> None:
    """Prefetch the home lines of the hashes that are looked up soon after the k-th.

    The caller guarantees that `hashes` extends at least `PREFETCH_DISTANCE` beyond `k`.
    """
    prefetch_early(entries, home_line(entries, hashes[k + PREFETCH_DISTANCE]))
    prefetch(entries, home_line(entries, hashes[k + _L1_DISTANCE]))


@inlined
def lookup(entries: Any, h: Any) -> Any:
    """Return the position of the entry of the hash `h`, or of the free entry where it belongs.

    The hash is at the returned position, its slot at the next one; a free entry has `NO_SLOT`.
    """
    line = home_line(entries, h)
    # Invariant: all lines from the home line to before `line` are full and do not hold `h`.
    while True:
        # A free entry has hash 0. If `h` is 0, the first match is its entry or a free one: taken
        # entries come first. The lowest set bit is the element to return either way.
        found = mask_eq(entries, line, h) & _HASHES
        if not found:
            found = (mask_eq(entries, line, NO_SLOT) & _SLOTS) >> ONE
        if found:
            return line + ctz(found)
        line = (line + _LINE_ELEMENTS) & np.uint64(len(entries) - 8)


@inlined
def find_vacant(entries: Any, h: Any) -> Any:
    """Return the position of the free entry for the hash `h`, which is not in the table.

    Reads element by element: a vector load that covers recent narrower stores would miss
    store-to-load forwarding and wait for them.
    """
    line = home_line(entries, h)
    # Invariant: all lines from the home line to before `line` are full.
    while True:
        # Free entries follow taken ones, so the count of these is the index of the first free one.
        # Count all four without leaving early: the count is unpredictable.
        taken = np.uint64(0)
        for k in range(line, line + _LINE_ELEMENTS, ONE + ONE):
            taken += np.uint64(entries[k + ONE] != NO_SLOT)
        if taken < _LINE_ENTRIES:
            return line + taken + taken
        line = (line + _LINE_ELEMENTS) & np.uint64(len(entries) - 8)


@typed_kernel("uint64[]")
def _clear(entries: Any) -> None:
    for k in range(np.uint64(0), np.uint64(len(entries)), ONE + ONE):
        entries[k] = 0
        entries[k + ONE] = NO_SLOT


def empty_entries(capacity: int) -> Hashes:
    """Return the array of a table with `capacity` entries, a power of two, all of them free."""
    entries: Hashes = aligned_empty(2 * capacity, np.uint64)
    _clear(entries)
    return entries
