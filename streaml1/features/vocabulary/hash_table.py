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
from streaml1.features.vocabulary import hash_keys as keys
from streaml1.features.vocabulary.byte_interning import Arena, ByBytes
from streaml1.features.vocabulary.crossed_name import Crossed
from streaml1.features.vocabulary.interaction_factors import Parts
from streaml1.features.vocabulary.name_index import ALIASED, USED, WHOLE, Entries
from streaml1.features.vocabulary.probing import MISSING
from streaml1.features.vocabulary.slot_names import CROSS

__all__ = ["Table"]


class Table(Entries):
    """The slots of names of any kind; `Slots` and `Entries` tell of its arrays."""

    def __init__(self) -> None:
        super().__init__()
        self._by_bytes: ByBytes | None = None

    @property
    def by_bytes(self) -> ByBytes:
        """The slots of all strings by their stable hashes."""
        table = ByBytes() if self._by_bytes is None else self._by_bytes
        before = len(self.known)
        if table.n < before:
            slots = range(table.n, before)
            chosen = np.array([j for j in slots if isinstance(self.known[j], str)], np.uint32)
            table.enter(self.hashes(chosen), chosen)
        if table.n < len(self):
            late = np.arange(max(table.n, before), len(self))
            late = late[self.crossed.of(late) < 0]
            table.enter(self.waiting.hashes[late - before], late.astype(np.uint32))
        table.n = len(self)
        self._by_bytes = table
        return table

    def settle(self) -> None:
        """Make strings of the names that wait."""
        if not len(self.waiting):
            return
        before, names = len(self.known), list(self.waiting.names())
        slots = np.arange(before, len(self), dtype=np.uint32)
        known: list[Any] = names
        texts: list[bool | None] = [None] * len(names)
        if len(self.crossed):
            plain = self.crossed.of(slots) < 0
            texts = [None if is_plain else CROSS for is_plain in plain.tolist()]
            pairs = zip(names, texts, strict=True)
            known = [name if text is None else None for name, text in pairs]
            names, slots = list(compress(names, plain.tolist())), slots[plain]
        hashes, _ = keys.hashes_of(names)
        try:
            self._widen(len(names))
            self.counts[USED] += keys.put(self.entries, hashes, slots)
            self.counts[WHOLE] += keys.with_equals(names)
            self.known.extend(known)
            self.texts.extend(texts)
            self.waiting = Arena()
        except BaseException:  # a signal
            if len(self.waiting):
                self._forget_strings(before)
            raise

    def find_all(self, names: Sequence[Hashable]) -> Any:
        """Slots of names, uint32; `MISSING` for those unknown."""
        self.settle()
        return self._find_hashed(*keys.hashes_of(names), names)

    def find_ints(self, ids: Any) -> Any:
        """Slots of the ints in an array."""
        slots = keys.find_ints(self.entries, ids)
        if self.others:
            for k in np.flatnonzero(slots == MISSING).tolist():
                slots[k] = self.others.get(int(ids[k]), MISSING)
        return slots

    def admit_all(self, names: Sequence[Hashable]) -> Any:
        """Slots of distinct names, uint32; unknown ones are given the next.

        Nothing has changed where this raises, but the table may have been rewritten.
        """
        self.settle()
        hashes, others = keys.hashes_of(names)
        slots = self._find_hashed(hashes, others, names)
        new = np.flatnonzero(slots == MISSING)
        if self.counts[ALIASED]:
            self._enter_whole(hashes, slots, names)
        if not len(new):
            return slots
        before = len(self)
        self.widen(len(new))
        try:
            hashed = np.ones(len(names), bool)
            hashed[others] = False
            for is_hashed, run in groupby(new.tolist(), hashed.__getitem__):
                places = list(run)
                self._enter_new([names[k] for k in places], places, slots, hashes, is_hashed)
        except BaseException:  # a signal, or a name's own `__eq__`
            self.forget_from(before)
            raise
        return slots

    # Names that come as bytes

    def admit_bytes(
        self, hashes: Any, slots: Any, names: Any, spans: Any, most: int, at: int = 0
    ) -> int:
        """Slots of names that come as bytes, as `ByBytes.admit` tells; new ones wait."""
        return self.by_bytes.admit(hashes, slots, names, spans, self.waiting, most, at)

    # Crossed features

    def admit_crossed(
        self, hashes: Any, slots: Any, parts: Parts, most: int = MISSING, at: int = 0
    ) -> int:
        """Slots of crossed features, as `Products.admit` tells; new ones wait."""
        before, table = len(self), self._by_bytes
        at = self.crossed.admit(hashes, slots, parts, self.waiting, before, most, at)
        if table is not None and table.n == before:  # they are no names to be found there
            table.n = len(self)
        return at

    # Room

    def widen(self, n: int) -> None:
        """Have places free for `n` entries more."""
        self.settle()
        self._widen(n)

    def forget_from(self, size: int) -> None:
        """Have only the names of the first slots."""
        self.settle()
        if len(self.crossed):
            slots = np.arange(len(self))
            self.crossed = self.crossed.moved(np.where(slots < size, slots, -1))
        self._forget_strings(size)

    def _forget_strings(self, size: int) -> None:
        """Have only the first of the names that do not wait."""
        if self._by_bytes is not None and self._by_bytes.n > size:
            self._by_bytes = None
        del self.known[size:], self.texts[size:]
        self.others = {name: slot for name, slot in self.others.items() if slot < size}
        kept = self.entries.reshape(-1, 2)
        self._rewrite(kept[kept[:, 1] < size], len(kept))
        self._count()

    def keep(self, kept: Any) -> tuple[Table, Any]:
        """Give back the slots that are not `kept`, a bool each; this table is left as it was.

        Returns
        -------
        tuple
            The table of the others, and the new slot of each, negative where it was given back.
        """
        kept = kept[: len(self)]
        new_slots = np.where(kept, np.cumsum(kept) - 1, -1)
        left = Table()
        self._give(left, kept, new_slots)
        if self._by_bytes is not None:
            left._by_bytes = self._by_bytes.moved(new_slots)
        if not self.known:
            return left, new_slots
        taken = self._taken()
        slots = new_slots[taken[:, 1].astype(np.int64)]
        taken = np.stack([taken[:, 0], slots.astype(np.uint64)], axis=1)[slots >= 0]
        moved = {name: int(new_slots[slot]) for name, slot in self.others.items()}
        left.others = {name: slot for name, slot in moved.items() if slot >= 0}
        left.counts[WHOLE] = self.counts[WHOLE]
        left._rewrite(taken, 1 << max(10, (4 * len(taken)).bit_length()))
        left._count()
        return left, new_slots

    def ints(self) -> Any:
        """The names by slot as an array of ints from 0, or None where one is something else."""
        if self.others or len(self.waiting) or len(self.crossed):
            return None
        if not all(type(name) is int and name >= 0 for name in self.known):
            return None
        return np.array(self.known, np.int64)

    # Files

    @staticmethod
    def restore(names: Iterable[Hashable], joints: Any) -> Table:
        """The table of names that were dumped, in their order."""
        names = list(names)
        ensure(len(joints) == len(names), "a name without its joint")
        table = Table()
        crossed = np.fromiter((isinstance(name, Crossed) for name in names), bool, len(names))
        plain = [name for name in names if not isinstance(name, Crossed)]
        table.admit_all(plain)
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
        self.others = {name: int(slots[slot]) for name, slot in self.others.items()}
        self.known, self.texts = list(names), [None] * len(names)
        places = np.flatnonzero(crossed)
        for k in places.tolist():
            self.known[k], self.texts[k] = None, CROSS
        self.crossed.restore([names[k] for k in places.tolist()], places)  # type: ignore

    def _take_apart(self, joints: dict[int, int]) -> None:
        """Enter some names by their aliases instead."""
        whole = self._taken()
        whole = whole[~np.isin(whole[:, 1], np.array(list(joints), np.uint64))]
        aliases = []
        for slot, joint in joints.items():
            name = self.known[slot]
            ensure(isinstance(name, str) and str.find(name, "=") == joint, "not a category")
            self.known[slot], self.texts[slot] = name[:joint], name[joint + 1 :]  # type: ignore
            h = keys.alias_of(name)  # type: ignore[arg-type]
            aliases.append((h, slot))
        both = np.concatenate([whole, np.array(aliases, np.uint64)])
        self._rewrite(both, len(self.entries) // 2)
        self._count()

    def check(self, size: int) -> None:
        """Raise AssertionError where table, dict and lists disagree."""
        n = len(self)
        ensure(n <= size, "more names than slots")
        crossed = self.is_cross()
        if len(self.waiting):
            late = np.flatnonzero(~crossed[len(self.known) :]) + len(self.known)
            names = self.names()
            found, unknown = self.by_bytes.find(name_hashes([names[j] for j in late.tolist()]))
            ensure(not len(unknown), "a name that waits is not found")
            ensure((found == late).all(), "it is found at another slot")
            n = len(self.known)
        ensure(len(self.texts) == n, "a name without its text")
        flags = [text is CROSS for text in self.texts]
        ensure(crossed[:n].tolist() == flags, "a crossed feature is told as none")
        plain = np.flatnonzero(~crossed[:n])
        known = self.names_at(plain)
        slots = self._find_hashed(*keys.hashes_of(known), known)
        ensure((slots == plain).all(), "a name is not found at its slot")
        self.crossed.check()
        taken = self._taken()[:, 1]
        ensure(len(taken) == self.counts[USED], "the places taken are miscounted")
        ensure(np.all(taken < n), "a place has a slot without a name")
        hashed = len(plain) - len(self.others)
        ensure(hashed == len(np.unique(taken)), "a name has no place")
        ensure(2 * len(taken) <= len(self.entries) // 2, "the table is more than half full")
        counts = self.counts.copy()
        self._count()
        ensure((counts == self.counts).all(), f"the counts are {counts}, not {self.counts}")
