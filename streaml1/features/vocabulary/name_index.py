"""By what a name is found: hashes of strings and ints in a table, a dict for all others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import compress
from typing import Any

import numpy as np

from streaml1.features.vocabulary import hash_keys
from streaml1.features.vocabulary.probing import MISSING, empty_entries
from streaml1.features.vocabulary.slot_names import SlotNames

__all__ = ["ALIASED", "DOUBLE", "IRREGULAR", "USED", "WHOLE", "NameIndex"]

USED, ALIASED, WHOLE, DOUBLE, IRREGULAR = range(5)


class NameIndex(SlotNames):
    """The slots of names that do not wait.

    Attributes
    ----------
    entries : ndarray
        An open-addressing table: (hash, slot) a place, half of them free at least.
    counts : ndarray
        int64: [USED] places taken; [ALIASED] categories that have no entry by their own hash;
        [WHOLE] names with an `=` that have none by their alias; [DOUBLE] names that have both;
        [OTHERS] names that have none.
    others : dict
        The slots of the names that are neither strings nor ints.
    """

    def __init__(self) -> None:
        super().__init__()
        self.irregular: dict[Hashable, int] = {}
        self.entries = empty_entries(1024)
        self.counts = np.zeros(5, np.int64)

    def _find_hashed(self, hashes: Any, irregular: list[int], names: Sequence[Hashable]) -> Any:
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
                slots[k] = self._find_in_parts(names[k])
        return slots

    def _find_equal(self, name: Hashable) -> int:
        """Slot of a string or an int that `name`, neither of them, is equal to: of equal hash."""
        for slot in hash_keys.find_equals(self.entries, name):
            if slot != MISSING and self.name(slot) == name:
                return slot
        return MISSING

    def _find_in_parts(self, name: Hashable) -> int:
        h = hash_keys.alias_of(name) if isinstance(name, str) else None
        return MISSING if h is None else self._find_by_hash(h)

    def _find_by_hash(self, h: int) -> int:
        return int(hash_keys.find(self.entries, np.array([h], np.uint64))[0])

    def _enter_new(
        self, names: list[Hashable], places: list[int], slots: Any, hashes: Any, hashed: bool
    ) -> None:
        """Give unknown names the next slots; `places` is where they stand in the other arrays."""
        before = len(self)
        if hashed:
            given = np.empty(len(names), np.uint32)
            hash_keys.intern(self.entries, hashes[places], given, np.uint64(before))
            slots[places] = given
            if given[-1] != before + len(names) - 1:  # some have equal hashes
                first = np.sort(np.unique(given, return_index=True)[1]).tolist()
                names = [names[k] for k in first]
            self.counts[USED] += len(names)
            self.counts[WHOLE] += hash_keys.with_equals(names)
        else:
            slots[places] = np.arange(before, before + len(names))
            self.irregular.update({name: before + k for k, name in enumerate(names)})
            self.counts[IRREGULAR] = len(self.irregular)
        self.category_values.extend([None] * len(names))
        self.keys.extend(names)

    def _enter_whole(self, hashes: Any, slots: Any, names: Sequence[Hashable]) -> None:
        """Enter by their own hashes the names that were found by their aliases."""
        found = [k for k in np.flatnonzero(slots != MISSING).tolist() if isinstance(names[k], str)]
        found = [k for k in found if self.category_values[slots[k]] is not None]
        slots_of = {k: self._find_by_hash(hashes[k]) for k in found}
        found = [k for k in found if slots_of[k] == MISSING]
        if found:
            self._reserve(len(found))
            try:
                hash_keys.put(self.entries, hashes[found], slots[found].astype(np.uint32))
                self.counts += len(found) * np.array([1, -1, 0, 1, 0])
            except BaseException:
                self._count()
                raise

    # Places

    def _reserve(self, n: int) -> None:
        needed = 2 * (int(self.counts[USED]) + n)
        if needed > len(self.entries) // 2:
            self._rewrite(self._taken(), 1 << (2 * needed - 1).bit_length())

    def _taken(self) -> Any:
        pairs = self.entries.reshape(-1, 2)
        return pairs[pairs[:, 1] != MISSING]

    def _rewrite(self, taken: Any, places: int) -> None:
        entries = empty_entries(places)
        hash_keys.put(entries, taken[:, 0].copy(), taken[:, 1].astype(np.uint32))
        self.entries = entries

    def _count(self) -> None:
        slots, n = self._taken()[:, 1].astype(np.int64), len(self.keys)
        entered = np.bincount(slots, minlength=n)
        aliased = np.fromiter((isinstance(text, str) for text in self.category_values), bool, n)
        whole = 0
        if self.counts[WHOLE]:
            single = compress(self.keys, (entered == 1) & ~aliased)
            whole = hash_keys.with_equals(list(single))
        double = np.count_nonzero(entered == 2)
        single_aliases = np.count_nonzero((entered == 1) & aliased)
        self.counts[:] = (len(slots), single_aliases, whole, double, len(self.irregular))
