"""Index from names to slots: a hash table for strings and ints, a dict for irregular names."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import compress

import numpy as np

from streaml1.core.types import Hashes, Ids
from streaml1.features.vocabulary import hash_keys
from streaml1.features.vocabulary.probing import MISSING, capacity_of, empty_entries, taken_pairs
from streaml1.features.vocabulary.slot_names import SlotNames

__all__ = ["ALIASED", "DOUBLE", "IRREGULAR", "USED", "WHOLE", "NameIndex"]

USED, ALIASED, WHOLE, DOUBLE, IRREGULAR = range(5)
"""Elements of `NameIndex.counts`."""


class NameIndex(SlotNames):
    """The slots of the names that are not pending.

    Attributes
    ----------
    entries : ndarray of uint64
        The hash table, as of `probing`; its hashes are those of `hash_keys`. Crossed features
        have no entry.
    counts : ndarray of int64
        ``counts[USED]``: entries that are taken.
        ``counts[ALIASED]``: categories with an entry for their alias only.
        ``counts[WHOLE]``: names with an `=` that have an entry for their own hash only.
        ``counts[DOUBLE]``: categories with an entry for each of the two.
        ``counts[IRREGULAR]``: names without an entry.
    irregular : dict
        The slots of the names without an entry: those that are neither strings nor 64-bit ints.
    """

    def __init__(self) -> None:
        super().__init__()
        self.irregular: dict[Hashable, int] = {}
        self.entries = empty_entries(1024)
        self.counts = np.zeros(5, np.int64)

    def _find_hashed(self, hashes: Hashes, irregular: list[int], names: Sequence[Hashable]) -> Ids:
        """Return the slots of names, given what `hashes_of` returns of them."""
        slots = hash_keys.find(self.entries, hashes)
        for k in irregular:
            slots[k] = self.irregular.get(names[k], MISSING)
            if slots[k] == MISSING:
                slots[k] = self._find_equal(names[k])
        if self.irregular:
            for k in np.flatnonzero(slots == MISSING).tolist():
                slots[k] = self.irregular.get(names[k], MISSING)
        if self.counts[ALIASED]:
            for k in np.flatnonzero(slots == MISSING).tolist():
                slots[k] = self._find_by_alias(names[k])
        return slots

    def _find_equal(self, name: Hashable) -> int:
        """Return the slot of the string or int that an irregular name equals, or `MISSING`."""
        for slot in hash_keys.find_equals(self.entries, name):
            if slot != MISSING and self.name(slot) == name:
                return slot
        return MISSING

    def _find_by_alias(self, name: Hashable) -> int:
        h = hash_keys.alias_of(name) if isinstance(name, str) else None
        return MISSING if h is None else self._find_by_hash(h)

    def _find_by_hash(self, h: int) -> int:
        return int(hash_keys.find(self.entries, np.array([h], np.uint64))[0])

    def _add(
        self, names: list[Hashable], positions: list[int], slots: Ids, hashes: Hashes, hashed: bool
    ) -> None:
        """Give unknown names the next slots.

        Parameters
        ----------
        names
            The names, distinct.
        positions
            The position of each in `slots` and `hashes`.
        slots
            Receives the slots.
        hashes
            The hashes, as of `hash_keys.hashes_of`.
        hashed
            Whether the names have a hash; otherwise all of them are irregular.
        """
        before = len(self)
        if hashed:
            new_slots = np.empty(len(names), np.uint32)
            hash_keys.intern(self.entries, hashes[positions], new_slots, np.uint64(before))
            slots[positions] = new_slots
            if new_slots[-1] != before + len(names) - 1:  # some have equal hashes: one feature
                first = np.sort(np.unique(new_slots, return_index=True)[1]).tolist()
                names = [names[k] for k in first]
            self.counts[USED] += len(names)
            self.counts[WHOLE] += hash_keys.count_with_equals(names)
        else:
            slots[positions] = np.arange(before, before + len(names))
            self.irregular.update({name: before + k for k, name in enumerate(names)})
            self.counts[IRREGULAR] = len(self.irregular)
        self.category_values.extend([None] * len(names))
        self.keys.extend(names)

    def _add_own_hashes(self, hashes: Hashes, slots: Ids, names: Sequence[Hashable]) -> None:
        """Add entries for the own hashes of the names that were found by their aliases."""
        found = [k for k in np.flatnonzero(slots != MISSING).tolist() if isinstance(names[k], str)]
        found = [k for k in found if self.category_values[slots[k]] is not None]
        slots_of = {k: self._find_by_hash(hashes[k]) for k in found}
        found = [k for k in found if slots_of[k] == MISSING]
        if found:
            self._reserve(len(found))
            try:
                hash_keys.put(self.entries, hashes[found], slots[found].astype(np.uint32))
                self.counts += len(found) * np.array([1, -1, 0, 1, 0])
            except BaseException:  # a signal: some entries may have been added
                self._count()
                raise

    # The hash table

    def has_room(self, n: int) -> bool:
        """Return whether half of all entries stay free after `n` more."""
        return 2 * (int(self.counts[USED]) + n) <= capacity_of(self.entries)

    def _reserve(self, n: int) -> None:
        """Make room for `n` more entries, so that half of all entries stay free."""
        if not self.has_room(n):
            needed = 4 * (int(self.counts[USED]) + n)
            self._rewrite(taken_pairs(self.entries), 1 << (needed - 1).bit_length())

    def _rewrite(self, taken: Hashes, capacity: int) -> None:
        """Replace the table by one of `capacity` entries that holds those of `taken`."""
        entries = empty_entries(capacity)
        hash_keys.put(entries, taken[:, 0].copy(), taken[:, 1].astype(np.uint32))
        self.entries = entries

    def _count(self) -> None:
        """Recompute `counts` from the table and the names."""
        slots, n = taken_pairs(self.entries)[:, 1].astype(np.int64), len(self.keys)
        n_entries = np.bincount(slots, minlength=n)
        is_category = np.fromiter((isinstance(v, str) for v in self.category_values), bool, n)
        whole = 0
        if self.counts[WHOLE]:
            single = compress(self.keys, (n_entries == 1) & ~is_category)
            whole = hash_keys.count_with_equals(list(single))
        double = np.count_nonzero(n_entries == 2)
        single_aliases = np.count_nonzero((n_entries == 1) & is_category)
        self.counts[:] = (len(slots), single_aliases, whole, double, len(self.irregular))
