"""A table from names to slots.

A string is known by its 64-bit hash (that of Python, another in each process): two strings of n
have the same one with a chance of n**2 / 2**65, and would be one feature. An int is known by a
hash that no other int has. All else is in a dict.

A category, the name `site=news` from `{"site": "news"}`, is known by a mix of the hashes of its
parts at the first `=`, its *alias*, so that the two need not be joined to be found. The same name
given whole is known by its own hash. A name that has come both ways has two entries.

Names that come as bytes are found by stable hashes, in a table beside. Those that are new wait as
bytes, in the slots behind all others, until a string is looked for: then they become strings too.

A crossed feature is known by a mix of the stable hashes of its parts, in a table of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import compress, groupby
from typing import Any, cast

import numpy as np

from streaml1.hashing import name_hashes
from streaml1.names import keys
from streaml1.names.bytes import Arena, ByBytes
from streaml1.names.crossed import Crossed, cross_hash
from streaml1.names.entries import ALIASED, USED, WHOLE, Entries
from streaml1.names.places import MISSING
from streaml1.rows import ensure

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
            table.enter(self.waiting.hashes[late - before], late.astype(np.uint32))
        table.n = len(self)
        self._by_bytes = table
        return table

    def settle(self) -> None:
        """Make strings of the names that wait."""
        if not len(self.waiting):
            return
        before, names = len(self.known), list(self.waiting.names())
        hashes, _ = keys.hashes_of(names)
        try:
            self._widen(len(names))
            slots = np.arange(before, len(self), dtype=np.uint32)
            self.counts[USED] += keys.put(self.entries, hashes, slots)
            self.counts[WHOLE] += keys.with_equals(names)
            self.known.extend(names)
            self.texts.extend([None] * len(names))
            self.waiting = Arena()
        except BaseException:  # a signal
            if len(self.waiting):
                self._forget_from(before)
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

    def admit_bytes(self, hashes: Any, slots: Any, unknown: Any, names: Any, spans: Any) -> None:
        """Give names that come as bytes the next slots, where they have none.

        Parameters
        ----------
        hashes, names, spans
            As of `streaml1.parse.rows.NamedRows`.
        slots
            By `hashes`, `MISSING` for some; all are known then.
        unknown
            Where each name that is to be known comes first.
        """
        before = len(self.waiting)
        letters = spans[unknown] & np.uint64(2**32 - 1)
        try:
            self.waiting.widen(len(unknown), int(letters.sum()))
            table = self.by_bytes
            self.waiting.n = table.admit(hashes, slots, names, spans, len(unknown), self.waiting)
        except BaseException:  # a signal
            self._by_bytes, self.waiting.n = None, before
            raise

    # Crossed features

    def parts_of(self, entries: Any, slots: Any) -> list[tuple[Any, ...]]:
        """What stands for crossed features in `parts`, by the names of their parts.

        `entries` are the places of the parts in `slots`, shape (n, 3), -1 where there is no third.
        """
        self.settle()
        chosen = np.where(entries < 0, MISSING, slots[entries])
        known, texts = self.known, self.texts
        pairs = [(known[i], texts[i], known[j], texts[j]) for i, j, _ in chosen.tolist()]
        if (chosen[:, 2] == MISSING).all():
            return cast("list[tuple[Any, ...]]", pairs)
        thirds = ((known[k], texts[k]) if k != MISSING else () for k in chosen[:, 2].tolist())
        return [pair + third for pair, third in zip(pairs, thirds, strict=True)]

    def admit_crossed(self, hashes: Any, parts: Sequence[tuple[Any, ...]]) -> Any:
        """Slots, the next, of distinct crossed features that are unknown."""
        self.settle()
        before = len(self)
        slots = np.arange(before, before + len(parts), dtype=np.uint32)
        try:
            self.texts.extend([None] * len(parts))
            self.known.extend([None] * len(parts))
            for slot, some in enumerate(parts, before):
                self._take(slot, some)
            self.crossed.enter(hashes, slots)
        except BaseException:
            self.forget_from(before)
            raise
        return slots

    # Room

    def widen(self, n: int) -> None:
        """Have places free for `n` entries more."""
        self.settle()
        self._widen(n)

    def forget_from(self, size: int) -> None:
        """Have only the names of the first slots."""
        self.settle()
        self._forget_from(size)

    def _forget_from(self, size: int) -> None:
        if self._by_bytes is not None and self._by_bytes.n > size:
            self._by_bytes = None
        if int(self.crossed.used[0]):
            slots = np.arange(len(self.texts))
            self.crossed = self.crossed.moved(np.where(slots < size, slots, -1))
        del self.known[size:], self.texts[size:]
        self._pack(self.parts)
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
        if len(self.waiting):
            left.waiting = self.waiting.kept(kept[len(self.known) :])
        if self._by_bytes is not None:
            left._by_bytes = self._by_bytes.moved(new_slots)
        if not self.known:
            return left, new_slots
        taken = self._taken()
        slots = new_slots[taken[:, 1].astype(np.int64)]
        taken = np.stack([taken[:, 0], slots.astype(np.uint64)], axis=1)[slots >= 0]
        left.known = list(compress(self.known, kept))
        left.texts = list(compress(self.texts, kept))
        moved = {name: int(new_slots[slot]) for name, slot in self.others.items()}
        left.others = {name: slot for name, slot in moved.items() if slot >= 0}
        left.crossed = self.crossed.moved(new_slots)
        left._pack(self.parts)
        left.counts[WHOLE] = self.counts[WHOLE]
        left._rewrite(taken, 1 << max(10, (4 * len(taken)).bit_length()))
        left._count()
        return left, new_slots

    def ints(self) -> Any:
        """The names by slot as an array of ints from 0, or None where one is something else."""
        if self.others or len(self.waiting) or self.crossed.used[0]:
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
        hashes = np.array([cross_hash(names[k]) for k in places.tolist()], np.uint64)  # type: ignore
        for k in places.tolist():
            self._take(k, [part for name in names[k] for part in (name, None)])  # type: ignore
        self.crossed.enter(hashes, places.astype(np.uint32))
        ensure(self.crossed.used[0] == len(places), "a crossed feature stands twice")

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
        if len(self.waiting):
            found, unknown = self.by_bytes.find(name_hashes(self.names()[len(self.known) :]))
            ensure(not unknown, "a name that waits is not found")
            ensure((found == np.arange(len(self.known), n)).all(), "it is found at another slot")
            n = len(self.known)
        ensure(len(self.texts) == n, "a name without its text")
        crossed = self.is_cross()
        plain = np.flatnonzero(~crossed)
        names = [self.name(j) for j in plain.tolist()]
        slots = self._find_hashed(*keys.hashes_of(names), names)
        ensure((slots == plain).all(), "a name is not found at its slot")
        self._check_crossed(np.flatnonzero(crossed))
        taken = self._taken()[:, 1]
        ensure(len(taken) == self.counts[USED], "the places taken are miscounted")
        ensure(np.all(taken < n), "a place has a slot without a name")
        hashed = len(plain) - len(self.others)
        ensure(hashed == len(np.unique(taken)), "a name has no place")
        ensure(2 * len(taken) <= len(self.entries) // 2, "the table is more than half full")
        counts = self.counts.copy()
        self._count()
        ensure((counts == self.counts).all(), f"the counts are {counts}, not {self.counts}")

    def _check_crossed(self, slots: Any) -> None:
        ensure(len(slots) == self.crossed.used[0], "crossed features are miscounted")
        hashes = [cross_hash(self._plain(j)) for j in slots.tolist()]  # type: ignore[arg-type]
        found, _ = self.crossed.find(np.array(hashes, np.uint64))
        ensure((found == slots).all(), "a crossed feature is not found at its slot")
