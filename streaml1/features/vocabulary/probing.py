"""Look-up in hash tables that map 64-bit hashes to slots; all tables of vocabularies share it.

A table is one uint64 array of entries, (hash, slot) each; their number is a power of two. A free
entry is (0, `NO_SLOT`). Four entries are a cache line, which starts at a multiple of 64 bytes. One
more line, behind the entries, holds the key of the table.

The search for a hash begins at its *home line*: the top bits of its product with the key, as of
`keyed_position`. Hashes can be chosen by whoever chooses the names; the key is random, so that no
choice of names makes searches long. Slots are given in the order of names, whatever the key is.

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
from streaml1.core.hashing import PROCESS_KEY
from streaml1.core.jit import inlined, typed_kernel, u64
from streaml1.core.simd import ctz, mask_eq, prefetch, prefetch_early
from streaml1.core.types import Hashes

__all__ = [
    "PREFETCH_DISTANCE",
    "MISSING",
    "NO_SLOT",
    "capacity_of",
    "empty_entries",
    "find_vacant",
    "home_line",
    "lookup",
    "max_taken",
    "prefetch_lines",
    "taken_pairs",
]

MISSING = 0xFFFFFFFF
"""In place of the slot of an unknown name; exceeds each size that a rule can have."""

NO_SLOT = u64(MISSING)

# How many hashes ahead a line is prefetched, into the L2 cache and from there into L1.
PREFETCH_DISTANCE, _L1_DISTANCE = u64(128), u64(8)

_KEY_ELEMENTS = 8  # the line behind the entries: the key, how far products are shifted, zeros
_LINE_ELEMENTS, _LINE_ENTRIES = u64(8), u64(4)
_LINE_START = ~u64(7)
# Bits of a mask of 8 elements: even elements are hashes, odd elements are slots.
_HASHES, _SLOTS = u64(0b01010101), u64(0b10101010)


@inlined
def home_line(entries: Any, h: Any) -> Any:
    """Return the position in `entries` of the line where the search for the hash `h` begins."""
    key_pos = np.uint64(len(entries)) - _LINE_ELEMENTS
    return (h * entries[key_pos] >> entries[key_pos + u64(1)]) & _LINE_START


@inlined
def _next_line(entries: Any, line: Any) -> Any:
    return (line + _LINE_ELEMENTS) & (np.uint64(len(entries)) - _LINE_ELEMENTS - u64(1))


@inlined
def max_taken(n_elements: Any) -> Any:
    """Return how many entries of a table, an array of `n_elements`, may be taken: half of them."""
    return (np.uint64(n_elements) - _LINE_ELEMENTS) // _LINE_ENTRIES


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
            found = (mask_eq(entries, line, NO_SLOT) & _SLOTS) >> u64(1)
        if found:
            return line + ctz(found)
        line = _next_line(entries, line)


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
        taken = u64(0)
        for k in range(line, line + _LINE_ELEMENTS, u64(1) + u64(1)):
            taken += np.uint64(entries[k + u64(1)] != NO_SLOT)
        if taken < _LINE_ENTRIES:
            return line + taken + taken
        line = _next_line(entries, line)


@typed_kernel("uint64[]")
def _clear(entries: Any) -> None:
    for k in range(u64(0), np.uint64(len(entries)) - _LINE_ELEMENTS, u64(1) + u64(1)):
        entries[k] = 0
        entries[k + u64(1)] = NO_SLOT


def empty_entries(capacity: int) -> Hashes:
    """Return the array of a table with `capacity` entries, a power of two, all of them free."""
    entries: Hashes = aligned_empty(2 * capacity + _KEY_ELEMENTS, np.uint64)
    _clear(entries)
    entries[-_KEY_ELEMENTS:] = 0
    # The shift leaves as many bits as positions have.
    entries[-_KEY_ELEMENTS:][:2] = PROCESS_KEY, 65 - (2 * capacity).bit_length()
    return entries


def capacity_of(entries: Hashes) -> int:
    """Return the number of entries of a table, taken and free ones."""
    return (len(entries) - _KEY_ELEMENTS) // 2


def taken_pairs(entries: Hashes) -> Hashes:
    """Return the taken entries of a table, shape (n, 2): hashes and slots."""
    pairs = entries[:-_KEY_ELEMENTS].reshape(-1, 2)
    taken: Hashes = pairs[pairs[:, 1] != NO_SLOT]
    return taken
