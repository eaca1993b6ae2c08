"""Slots by the stable hashes of names: for names that come as bytes, and are no Python strings.

Beside a `Table`, which knows a string by Python's own hash of it, another in each process.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.jit import kernel, prefetch
from streaml1.names.places import MISSING, NO_SLOT, ONE, lookup

__all__ = ["ByBytes"]

_AHEAD = np.uint64(16)


@kernel
def _find(entries: Any, hashes: Any, slots: Any) -> Any:
    """Slots of hashes, `MISSING` for those unknown; returns how many are."""
    n, unknown = np.uint64(len(hashes)), np.uint64(0)
    mask = np.uint64(len(entries) // 2 - 1)
    for k in range(n):
        if k + _AHEAD < n:
            ahead = hashes[k + _AHEAD] & mask
            prefetch(entries, ahead + ahead)
        slot = entries[lookup(entries, hashes[k]) + ONE]
        slots[k] = np.uint32(slot)
        unknown += np.uint64(slot == NO_SLOT)
    return unknown


@kernel
def _put(entries: Any, hashes: Any, slots: Any) -> Any:
    """Enter hashes; returns how many were not there."""
    new = 0
    for k in range(np.uint64(len(hashes))):
        at = lookup(entries, hashes[k])
        new += entries[at + ONE] == NO_SLOT
        entries[at] = hashes[k]
        entries[at + ONE] = slots[k]
    return new


class ByBytes:
    """An open-addressing table from hashes to slots: nothing is ever taken out.

    Attributes
    ----------
    entries : ndarray
        (hash, slot) a place; half of them are free at least.
    used : ndarray
        int64, of one: places taken.
    """

    def __init__(self) -> None:
        self._new(1024)
        self.used = np.zeros(1, np.int64)

    def _new(self, places: int) -> None:
        self.entries = np.zeros(2 * places, np.uint64)
        self.entries[1::2] = MISSING

    def find(self, hashes: Any) -> tuple[Any, int]:
        """Slots of hashes, uint32, `MISSING` for those unknown, and how many these are."""
        slots = np.empty(len(hashes), np.uint32)
        return slots, int(_find(self.entries, hashes, slots))

    def enter(self, hashes: Any, slots: Any) -> None:
        """Have some hashes known."""
        self.widen(len(hashes))
        self.used[0] += int(_put(self.entries, hashes, slots))

    def widen(self, n: int) -> None:
        """Have places free for `n` entries more."""
        needed = 2 * (int(self.used[0]) + n)
        if needed > len(self.entries) // 2:
            taken = self.entries.reshape(-1, 2)
            taken = taken[taken[:, 1] != MISSING]
            self._new(1 << (2 * needed - 1).bit_length())
            _put(self.entries, taken[:, 0].copy(), taken[:, 1].astype(np.uint32))

    def tell(self, hashes: Any) -> Any:
        """Write the hash of each slot at its place; which slots have one, a bool each."""
        taken = self.entries.reshape(-1, 2)
        taken = taken[taken[:, 1] != MISSING]
        slots = taken[:, 1].astype(np.int64)
        hashes[slots] = taken[:, 0]
        known = np.zeros(len(hashes), bool)
        known[slots] = True
        return known

    def copy(self) -> ByBytes:
        """Another such table."""
        other = ByBytes.__new__(ByBytes)
        other.entries, other.used = self.entries.copy(), self.used.copy()
        return other

    def moved(self, new_slots: Any) -> ByBytes:
        """The table once slots have others, given each; negative ones are gone."""
        taken = self.entries.reshape(-1, 2)
        taken = taken[taken[:, 1] != MISSING]
        slots = new_slots[taken[:, 1].astype(np.int64)]
        kept = slots >= 0
        left = ByBytes()
        left.enter(taken[kept, 0], slots[kept].astype(np.uint32))
        return left
