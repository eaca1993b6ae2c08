"""A table from names to slots.

A string is known by its 64-bit hash (that of Python, another in each process): two strings of n
have the same one with a chance of n**2 / 2**65, and would be one feature. An int is known by a
hash that no other int has. All else is in a dict.

A category, the name `site=news` from `{"site": "news"}`, is known by a mix of the hashes of its
parts at the first `=`, its *alias*, so that the two need not be joined to be found. The same name
given whole is known by its own hash. A name that has come both ways has two entries.

Names that come as bytes are found by stable hashes, in a table beside. Those that are new wait as
bytes, in the slots behind all others, until a string is looked for: then they become strings too.

A crossed feature is known by a mix of the stable hashes of its parts, in a table of its own. It has
a slot among the names, and where they wait it waits too, as a name without a letter.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import compress, groupby
from typing import Any

import numpy as np

from streaml1.core.hashing import name_hashes
from streaml1.core.rows import ensure
from streaml1.features.vocabulary import hash_keys
from streaml1.features.vocabulary.byte_interning import HashIndex, NameArena
from streaml1.features.vocabulary.crossed_name import CrossedName
from streaml1.features.vocabulary.interaction_factors import InteractionFactors
from streaml1.features.vocabulary.name_index import ALIASED, USED, WHOLE, NameIndex
from streaml1.features.vocabulary.probing import MISSING
from streaml1.features.vocabulary.slot_names import CROSS

__all__ = ["InternedVocabulary"]


class InternedVocabulary(NameIndex):
    """The slots of names of any kind; `SlotNames` and `NameIndex` tell of its arrays."""

    def __init__(self) -> None:
        super().__init__()
        self._byte_index: HashIndex | None = None

    @property
    def byte_index(self) -> HashIndex:
        """The slots of all strings by their stable hashes."""
        table = HashIndex() if self._byte_index is None else self._byte_index
        before = len(self.keys)
        if table.n < before:
            slots = range(table.n, before)
            chosen = np.array([j for j in slots if isinstance(self.keys[j], str)], np.uint32)
            table.enter(self.hashes(chosen), chosen)
        if table.n < len(self):
            late = np.arange(max(table.n, before), len(self))
            late = late[self.crossed.positions_of(late) < 0]
            table.enter(self.pending.hashes[late - before], late.astype(np.uint32))
        table.n = len(self)
        self._byte_index = table
        return table

    def materialize(self) -> None:
        """Make strings of the names that wait."""
        if not len(self.pending):
            return
        before, names = len(self.keys), list(self.pending.names())
        slots = np.arange(before, len(self), dtype=np.uint32)
        known: list[Any] = names
        texts: list[bool | None] = [None] * len(names)
        if len(self.crossed):
            plain = self.crossed.positions_of(slots) < 0
            texts = [None if is_plain else CROSS for is_plain in plain.tolist()]
            pairs = zip(names, texts, strict=True)
            known = [name if text is None else None for name, text in pairs]
            names, slots = list(compress(names, plain.tolist())), slots[plain]
        hashes, _ = hash_keys.hashes_of(names)
        try:
            self._reserve(len(names))
            self.counts[USED] += hash_keys.put(self.entries, hashes, slots)
            self.counts[WHOLE] += hash_keys.with_equals(names)
            self.keys.extend(known)
            self.category_values.extend(texts)
            self.pending = NameArena()
        except BaseException:  # a signal
            if len(self.pending):
                self._forget_strings(before)
            raise

    def find_all(self, names: Sequence[Hashable]) -> Any:
        """Slots of names, uint32; `MISSING` for those unknown."""
        self.materialize()
        return self._find_hashed(*hash_keys.hashes_of(names), names)

    def find_ints(self, ids: Any) -> Any:
        """Slots of the ints in an array."""
        slots = hash_keys.find_ints(self.entries, ids)
        if self.irregular:
            for k in np.flatnonzero(slots == MISSING).tolist():
                slots[k] = self.irregular.get(int(ids[k]), MISSING)
        return slots

    def intern_all(self, names: Sequence[Hashable]) -> Any:
        """Slots of distinct names, uint32; unknown ones are given the next.

        Nothing has changed where this raises, but the table may have been rewritten.
        """
        self.materialize()
        hashes, irregular = hash_keys.hashes_of(names)
        slots = self._find_hashed(hashes, irregular, names)
        new = np.flatnonzero(slots == MISSING)
        if self.counts[ALIASED]:
            self._add_own_hashes(hashes, slots, names)
        if not len(new):
            return slots
        before = len(self)
        self.reserve(len(new))
        try:
            hashed = np.ones(len(names), bool)
            hashed[irregular] = False
            for is_hashed, run in groupby(new.tolist(), hashed.__getitem__):
                places = list(run)
                self._add([names[k] for k in places], places, slots, hashes, is_hashed)
        except BaseException:  # a signal, or a name's own `__eq__`
            self.truncate(before)
            raise
        return slots

    def intern_items(self, hashes: Any, names: Sequence[str], texts: Sequence[str | None]) -> bool:
        """Give the next slots to new features by their hashes; the caller has reserved room.

        Parameters
        ----------
        hashes : ndarray of uint64, shape (n,)
            Hashes of names, aliases of categories.
        names, texts
            Names, and of categories their strings, else None.

        Returns
        -------
        False if one of them has a slot already, or two have the same hash: nothing has changed.
        """
        if (hash_keys.find(self.entries, hashes) != MISSING).any():
            return False
        before, n = len(self), len(names)
        slots = np.empty(n, np.uint32)
        try:
            hash_keys.intern(self.entries, hashes, slots, np.uint64(before))
            self.keys.extend(names)
            self.category_values.extend(texts)
            aliased = n - texts.count(None)
            self.counts[USED] += n
            self.counts[ALIASED] += aliased
            if aliased < n:
                whole = [name for name, text in zip(names, texts, strict=True) if text is None]
                self.counts[WHOLE] += hash_keys.with_equals(whole)
        except BaseException:  # a signal
            self.truncate(before)
            raise
        if slots[-1] != before + n - 1:
            self.truncate(before)
            return False
        return True

    # Names that come as bytes

    def intern_bytes(
        self, hashes: Any, slots: Any, names: Any, spans: Any, most: int, at: int = 0
    ) -> int:
        """Slots of names that come as bytes, as `ByBytes.intern` tells; new ones wait."""
        return self.byte_index.intern(hashes, slots, names, spans, self.pending, most, at)

    # Crossed features

    def intern_crossed(
        self, hashes: Any, slots: Any, parts: InteractionFactors, most: int = MISSING, at: int = 0
    ) -> int:
        """Slots of crossed features, as `Products.intern` tells; new ones wait."""
        before, table = len(self), self._byte_index
        at = self.crossed.intern(hashes, slots, parts, self.pending, before, most, at)
        if table is not None and table.n == before:  # they are no names to be found there
            table.n = len(self)
        return at

    # Room

    def reserve(self, n: int) -> None:
        """Have places free for `n` entries more."""
        self.materialize()
        self._reserve(n)

    def truncate(self, size: int) -> None:
        """Have only the names of the first slots."""
        self.materialize()
        if len(self.crossed):
            slots = np.arange(len(self))
            self.crossed = self.crossed.remapped(np.where(slots < size, slots, -1))
        self._forget_strings(size)

    def _forget_strings(self, size: int) -> None:
        """Have only the first of the names that do not wait."""
        if self._byte_index is not None and self._byte_index.n > size:
            self._byte_index = None
        del self.keys[size:], self.category_values[size:]
        self.irregular = {name: slot for name, slot in self.irregular.items() if slot < size}
        kept = self.entries.reshape(-1, 2)
        self._rewrite(kept[kept[:, 1] < size], len(kept))
        self._count()

    def retain(self, kept: Any) -> tuple[InternedVocabulary, Any]:
        """Give back the slots that are not `kept`, a bool each; this table is left as it was.

        Returns
        -------
        tuple
            The table of the others, and the new slot of each, negative where it was given back.
        """
        kept = kept[: len(self)]
        new_slots = np.where(kept, np.cumsum(kept) - 1, -1)
        target = InternedVocabulary()
        self._copy_subset_to(target, kept, new_slots)
        if self._byte_index is not None:
            target._byte_index = self._byte_index.remapped(new_slots)
        if not self.keys:
            return target, new_slots
        taken = self._taken()
        slots = new_slots[taken[:, 1].astype(np.int64)]
        taken = np.stack([taken[:, 0], slots.astype(np.uint64)], axis=1)[slots >= 0]
        remapped = {name: int(new_slots[slot]) for name, slot in self.irregular.items()}
        target.irregular = {name: slot for name, slot in remapped.items() if slot >= 0}
        target.counts[WHOLE] = self.counts[WHOLE]
        target._rewrite(taken, 1 << max(10, (4 * len(taken)).bit_length()))
        target._count()
        return target, new_slots

    def as_ints(self) -> Any:
        """The names by slot as an array of ints from 0, or None where one is something else."""
        if self.irregular or len(self.pending) or len(self.crossed):
            return None
        if not all(type(name) is int and name >= 0 for name in self.keys):
            return None
        return np.array(self.keys, np.int64)

    # Files

    @staticmethod
    def from_state_dict(names: Iterable[Hashable], joints: Any) -> InternedVocabulary:
        """The table of names that were dumped, in their order."""
        names = list(names)
        ensure(len(joints) == len(names), "a name without its joint")
        table = InternedVocabulary()
        crossed = np.fromiter((isinstance(name, CrossedName) for name in names), bool, len(names))
        plain = [name for name in names if not isinstance(name, CrossedName)]
        table.intern_all(plain)
        ensure(len(table) == len(plain), "a name stands twice")
        if crossed.any():
            table._spread(names, crossed)
        where = np.flatnonzero(np.asarray(joints) >= 0).tolist()
        if where:
            table._take_apart({k: int(joints[k]) for k in where})
        return table

    def _spread(self, names: list[Hashable], crossed: Any) -> None:
        """Put crossed features where they stand among the names, which are all of the others."""
        slots = np.flatnonzero(~crossed).astype(np.uint32)
        taken = self._taken()
        taken[:, 1] = slots[taken[:, 1].astype(np.int64)]
        self._rewrite(taken, len(self.entries) // 2)
        self.irregular = {name: int(slots[slot]) for name, slot in self.irregular.items()}
        self.keys, self.category_values = list(names), [None] * len(names)
        places = np.flatnonzero(crossed)
        for k in places.tolist():
            self.keys[k], self.category_values[k] = None, CROSS
        self.crossed.restore([names[k] for k in places.tolist()], places)  # type: ignore

    def _take_apart(self, joints: dict[int, int]) -> None:
        """Enter some names by their aliases instead."""
        whole = self._taken()
        whole = whole[~np.isin(whole[:, 1], np.array(list(joints), np.uint64))]
        aliases = []
        for slot, joint in joints.items():
            name = self.keys[slot]
            ensure(isinstance(name, str) and str.find(name, "=") == joint, "not a category")
            self.keys[slot], self.category_values[slot] = name[:joint], name[joint + 1 :]  # type: ignore
            h = hash_keys.alias_of(name)  # type: ignore[arg-type]
            aliases.append((h, slot))
        both = np.concatenate([whole, np.array(aliases, np.uint64)])
        self._rewrite(both, len(self.entries) // 2)
        self._count()

    def check(self, size: int) -> None:
        """Raise AssertionError where table, dict and lists disagree."""
        n = len(self)
        ensure(n <= size, "more names than slots")
        crossed = self.crossed_mask()
        if len(self.pending):
            late = np.flatnonzero(~crossed[len(self.keys) :]) + len(self.keys)
            names = self.names()
            found, unknown = self.byte_index.find(name_hashes([names[j] for j in late.tolist()]))
            ensure(not len(unknown), "a name that waits is not found")
            ensure((found == late).all(), "it is found at another slot")
            n = len(self.keys)
        ensure(len(self.category_values) == n, "a name without its text")
        flags = [text is CROSS for text in self.category_values]
        ensure(crossed[:n].tolist() == flags, "a crossed feature is told as none")
        plain = np.flatnonzero(~crossed[:n])
        known = self.names_at(plain)
        slots = self._find_hashed(*hash_keys.hashes_of(known), known)
        ensure((slots == plain).all(), "a name is not found at its slot")
        self.crossed.check()
        taken = self._taken()[:, 1]
        ensure(len(taken) == self.counts[USED], "the places taken are miscounted")
        ensure(np.all(taken < n), "a place has a slot without a name")
        hashed = len(plain) - len(self.irregular)
        ensure(hashed == len(np.unique(taken)), "a name has no place")
        ensure(2 * len(taken) <= len(self.entries) // 2, "the table is more than half full")
        counts = self.counts.copy()
        self._count()
        ensure((counts == self.counts).all(), f"the counts are {counts}, not {self.counts}")
