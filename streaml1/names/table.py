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
from itertools import compress, groupby, repeat
from operator import contains
from typing import Any, cast

import numpy as np

from streaml1.hashing import as_int, mixed, name_hashes
from streaml1.jit import gil_kernel, inlined
from streaml1.names.bytes import Arena, ByBytes
from streaml1.names.crossed import JOINT, Crossed
from streaml1.names.parts import Parts
from streaml1.names.places import MISSING, NO_SLOT, ONE, lookup
from streaml1.names.products import Products
from streaml1.rows import ensure

__all__ = [
    "ALIASED",
    "DOUBLE",
    "MISSING",
    "OTHERS",
    "SEED",
    "USED",
    "WHOLE",
    "Table",
    "alias",
    "lookup",
]

# Another in each process, as the hashes of strings are: nobody can choose ints to one end.
SEED = np.uint64(hash("streaml1") & 2**64 - 1)
HASH = 2**64 - 1  # what of a hash is looked at; less in tests, so that names collide

USED, ALIASED, WHOLE, DOUBLE, OTHERS = range(5)

CROSS = True  # in place of the text of a category: a crossed feature


@inlined
def alias(a: Any, b: Any) -> Any:
    """One hash of the hashes of a category's parts."""
    return mixed(a * np.uint64(0x9E3779B97F4A7C15) + b)


@gil_kernel
def _find(entries: Any, hashes: Any, slots: Any) -> None:
    for k in range(np.uint64(len(hashes))):
        slots[k] = entries[lookup(entries, hashes[k]) + ONE]


@gil_kernel
def _find_ints(entries: Any, ids: Any, seed: Any, kept: Any, slots: Any) -> None:
    for k in range(np.uint64(len(ids))):
        h = mixed(np.uint64(ids[k]) ^ seed) & kept
        slots[k] = entries[lookup(entries, h) + ONE]


@gil_kernel
def _put(entries: Any, hashes: Any, slots: Any) -> Any:
    """Enter hashes that are not there yet; returns how many that were."""
    new = 0
    for k in range(np.uint64(len(hashes))):
        at = lookup(entries, hashes[k])
        if entries[at + ONE] == NO_SLOT:
            entries[at] = hashes[k]
            entries[at + ONE] = slots[k]
            new += 1
    return new


@gil_kernel
def _admit(entries: Any, hashes: Any, slots: Any, free: Any) -> Any:
    """Give each hash that is not there the next free slot; returns that after the last."""
    for k in range(np.uint64(len(hashes))):
        at = lookup(entries, hashes[k])
        if entries[at + ONE] == NO_SLOT:
            entries[at] = hashes[k]
            entries[at + ONE] = free
            free += ONE
        slots[k] = entries[at + ONE]
    return free


def _with_equals(names: Sequence[Hashable]) -> int:
    """How many of some names are strings with an `=`."""
    if set(map(type, names)) != {str}:
        names = [name for name in names if isinstance(name, str)]
    return sum(map(contains, cast("Sequence[str]", names), repeat("=")))


def _free(places: int) -> Any:
    entries = np.zeros(2 * places, np.uint64)
    entries[1::2] = MISSING
    return entries


def _hash(text: str) -> int:
    """Hash of a string, whatever a subclass makes of its own."""
    return str.__hash__(text) & 2**64 - 1


def _hash_of_int(j: int) -> int:
    with np.errstate(over="ignore"):
        return int(mixed(np.uint64(j & 2**64 - 1) ^ SEED))


def _parts(name: str) -> tuple[str, str] | None:
    before, equals, after = str.partition(name, "=")
    return (before, after) if equals else None


def _alias_of(name: str) -> int | None:
    parts = _parts(name)
    if parts is None:
        return None
    a, b = (np.uint64(_hash(part)) for part in parts)
    with np.errstate(over="ignore"):
        return int(alias(a, b))


class Table:
    """The slots of names of any kind.

    Attributes
    ----------
    known : list
        The names by slot, but for those that wait; of a category that came in its parts, the first;
        of a crossed feature None.
    texts : list
        Of such a category the second part, of a crossed feature `CROSS`, else None.
    entries : ndarray
        An open-addressing table: (hash, slot) a place, half of them free at least.
    counts : ndarray
        int64: [USED] places taken; [ALIASED] categories that have no entry by their own hash;
        [WHOLE] names with an `=` that have none by their alias; [DOUBLE] names that have both;
        [OTHERS] names that have none.
    others : dict
        The slots of the names that are neither strings nor ints.
    waiting : Arena
        Names that have come as bytes, those of the last slots.
    crossed : Products
        The crossed features, and the names of their parts.
    """

    def __init__(self) -> None:
        self.known: list[Hashable] = []
        self.texts: list[str | bool | None] = []
        self.crossed = Products()
        self.others: dict[Hashable, int] = {}
        self.entries = _free(1024)
        self.counts = np.zeros(5, np.int64)
        self.waiting = Arena()
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

    def __len__(self) -> int:
        return len(self.known) + len(self.waiting)

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
        hashes, _ = self._hashed(names)
        try:
            self._widen(len(names))
            self.counts[USED] += _put(self.entries, hashes, slots)
            self.counts[WHOLE] += _with_equals(names)
            self.known.extend(known)
            self.texts.extend(texts)
            self.waiting = Arena()
        except BaseException:  # a signal
            if len(self.waiting):
                self._forget_strings(before)
            raise

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

    def find_all(self, names: Sequence[Hashable]) -> Any:
        """Slots of names, uint32; `MISSING` for those unknown."""
        self.settle()
        return self._find_hashed(*self._hashed(names), names)

    def find_ints(self, ids: Any) -> Any:
        """Slots of the ints in an array."""
        slots = np.empty(len(ids), np.uint32)
        with np.errstate(over="ignore"):
            _find_ints(self.entries, ids, SEED, np.uint64(HASH), slots)
        if self.others:
            for k in np.flatnonzero(slots == MISSING).tolist():
                slots[k] = self.others.get(int(ids[k]), MISSING)
        return slots

    def _hashed(self, names: Sequence[Hashable]) -> tuple[Any, list[int]]:
        """Hashes of strings and ints, and the places of all other names."""
        if set(map(type, names)) == {str}:
            found = np.fromiter(map(hash, names), np.int64, len(names)).view(np.uint64)
            return found & np.uint64(HASH), []
        hashes, others = [], []
        for k, name in enumerate(names):
            if isinstance(name, str):
                hashes.append(_hash(name) & HASH)
                continue
            whole = as_int(name)
            if whole is None:
                others.append(k)
            hashes.append(0 if whole is None else _hash_of_int(whole) & HASH)
        return np.array(hashes, np.uint64), others

    def _find_hashed(self, hashes: Any, others: list[int], names: Sequence[Hashable]) -> Any:
        slots = np.empty(len(names), np.uint32)
        _find(self.entries, hashes, slots)
        for k in others:
            slots[k] = self.others.get(names[k], MISSING)
            if slots[k] == MISSING:
                slots[k] = self._find_equal(names[k])
        if self.others:
            for k in np.flatnonzero(slots == MISSING).tolist():
                slots[k] = self.others.get(names[k], MISSING)
        if self.counts[ALIASED]:
            for k in np.flatnonzero(slots == MISSING).tolist():
                slots[k] = self._find_in_parts(names[k])
        return slots

    def _find_equal(self, name: Hashable) -> int:
        """Slot of a string or an int that `name`, neither of them, is equal to: of equal hash."""
        h = hash(name)
        slots = np.empty(2, np.uint32)
        hashes = np.array([h & 2**64 - 1 & HASH, _hash_of_int(h) & HASH], np.uint64)
        _find(self.entries, hashes, slots)
        for slot in slots.tolist():
            if slot != MISSING and self.name(slot) == name:
                return slot
        return MISSING

    def _find_in_parts(self, name: Hashable) -> int:
        h = _alias_of(name) if isinstance(name, str) else None
        return MISSING if h is None else self._find_by_hash(h & HASH)

    def _find_by_hash(self, h: int) -> int:
        slot = np.empty(1, np.uint32)
        _find(self.entries, np.array([h], np.uint64), slot)
        return int(slot[0])

    def admit_all(self, names: Sequence[Hashable]) -> Any:
        """Slots of distinct names, uint32; unknown ones are given the next.

        Nothing has changed where this raises, but the table may have been rewritten.
        """
        self.settle()
        hashes, others = self._hashed(names)
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

    def _enter_new(
        self, names: list[Hashable], places: list[int], slots: Any, hashes: Any, hashed: bool
    ) -> None:
        """Give unknown names the next slots; `places` is where they stand in the other arrays."""
        before = len(self)
        if hashed:
            given = np.empty(len(names), np.uint32)
            _admit(self.entries, hashes[places], given, np.uint64(before))
            slots[places] = given
            first = np.sort(np.unique(given, return_index=True)[1]).tolist()  # but for equal hashes
            names = [names[k] for k in first]
            self.counts[USED] += len(names)
            self.counts[WHOLE] += _with_equals(names)
        else:
            slots[places] = np.arange(before, before + len(names))
            self.others.update({name: before + k for k, name in enumerate(names)})
            self.counts[OTHERS] = len(self.others)
        self.texts.extend([None] * len(names))
        self.known.extend(names)

    def _enter_whole(self, hashes: Any, slots: Any, names: Sequence[Hashable]) -> None:
        """Enter by their own hashes the names that were found by their aliases."""
        found = [k for k in np.flatnonzero(slots != MISSING).tolist() if isinstance(names[k], str)]
        found = [k for k in found if self.texts[slots[k]] is not None]
        slots_of = {k: self._find_by_hash(hashes[k]) for k in found}
        found = [k for k in found if slots_of[k] == MISSING]
        if found:
            self.widen(len(found))
            try:
                _put(self.entries, hashes[found], slots[found].astype(np.uint32))
                self.counts += len(found) * np.array([1, -1, 0, 1, 0])
            except BaseException:
                self._count()
                raise

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

    def widen(self, n: int) -> None:
        """Have places free for `n` entries more."""
        self.settle()
        self._widen(n)

    def _widen(self, n: int) -> None:
        needed = 2 * (int(self.counts[USED]) + n)
        if needed > len(self.entries) // 2:
            self._rewrite(self._taken(), 1 << (2 * needed - 1).bit_length())

    def _taken(self) -> Any:
        pairs = self.entries.reshape(-1, 2)
        return pairs[pairs[:, 1] != MISSING]

    def _rewrite(self, taken: Any, places: int) -> None:
        entries = _free(places)
        _put(entries, taken[:, 0].copy(), taken[:, 1].astype(np.uint32))
        self.entries = entries

    def _count(self) -> None:
        slots, n = self._taken()[:, 1].astype(np.int64), len(self.known)
        entered = np.bincount(slots, minlength=n)
        aliased = np.fromiter((isinstance(text, str) for text in self.texts), bool, n)
        whole = 0
        if self.counts[WHOLE]:
            single = compress(self.known, (entered == 1) & ~aliased)
            whole = _with_equals(list(single))
        double = np.count_nonzero(entered == 2)
        single_aliases = np.count_nonzero((entered == 1) & aliased)
        self.counts[:] = (len(slots), single_aliases, whole, double, len(self.others))

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
        left.crossed = self.crossed.moved(new_slots)
        if not self.known:
            return left, new_slots
        taken = self._taken()
        slots = new_slots[taken[:, 1].astype(np.int64)]
        taken = np.stack([taken[:, 0], slots.astype(np.uint64)], axis=1)[slots >= 0]
        left.known = list(compress(self.known, kept))
        left.texts = list(compress(self.texts, kept))
        moved = {name: int(new_slots[slot]) for name, slot in self.others.items()}
        left.others = {name: slot for name, slot in moved.items() if slot >= 0}
        left.counts[WHOLE] = self.counts[WHOLE]
        left._rewrite(taken, 1 << max(10, (4 * len(taken)).bit_length()))
        left._count()
        return left, new_slots

    def name(self, slot: int) -> Hashable:
        """The name that has a slot."""
        parts = self.crossed.told(slot)
        return self._plain(slot) if parts is None else JOINT.join(parts)

    def names_at(self, slots: Any) -> list[Hashable]:
        """The names of some slots."""
        return [
            JOINT.join(name) if isinstance(name, Crossed) else name for name in self._told(slots)
        ]

    def _plain(self, slot: int) -> Hashable:
        """The name that has a slot, which no crossed feature has."""
        before = len(self.known)
        if slot >= before:
            return self.waiting.name(slot - before)
        text = self.texts[slot]
        return self.known[slot] if text is None else f"{self.known[slot]}={text}"

    def _told(self, slots: Any) -> list[Hashable]:
        """The names of some slots, crossed ones by their parts."""
        places = self.crossed.of(slots)
        crossed = iter(self.crossed.told_all(places[places >= 0]))
        pairs = zip(slots.tolist(), places.tolist(), strict=True)
        return [self._plain(slot) if place < 0 else next(crossed) for slot, place in pairs]

    def is_cross(self) -> Any:
        """Which slots crossed features have, a bool each."""
        return self.crossed.of(np.arange(len(self))) >= 0

    def admit_crossed(self, hashes: Any, slots: Any, new: int, parts: Parts) -> None:
        """Give crossed features the next slots, where they have none; they wait.

        Parameters
        ----------
        hashes, new, parts
            As of `Products.admit`.
        slots
            By `hashes`, `MISSING` for some; all are known then.
        """
        before, table = len(self), self._by_bytes
        self.crossed.admit(hashes, slots, new, parts, self.waiting, before)
        if table is not None and table.n == before:  # they are no names to be found there
            table.n = len(self)

    def ints(self) -> Any:
        """The names by slot as an array of ints from 0, or None where one is something else."""
        if self.others or len(self.waiting) or len(self.crossed):
            return None
        if not all(type(name) is int and name >= 0 for name in self.known):
            return None
        return np.array(self.known, np.int64)

    def names(self) -> list[Hashable]:
        """All names, by slot."""
        if self.counts[ALIASED] or self.counts[DOUBLE] or len(self.crossed):
            return self.names_at(np.arange(len(self)))
        return [*self.known, *self.waiting.names()]

    def hashes(self, slots: Any) -> Any:
        """Stable hashes of the names of some slots, of crossed features those they are found by."""
        before, late = len(self.known), slots >= len(self.known)
        if late.all():
            return self.waiting.hashes[slots - before]
        found = np.empty(len(slots), np.uint64)
        found[late] = self.waiting.hashes[slots[late] - before]
        found[~late] = self._known_hashes(slots[~late])
        return found

    def _known_hashes(self, slots: Any) -> Any:
        if not len(self.crossed):
            return name_hashes(self.names_at(slots))
        places = self.crossed.of(slots)
        plain, hashes = places < 0, self.crossed.hashes[np.maximum(places, 0)]
        hashes[plain] = name_hashes(self.names_at(slots[plain]))
        return hashes

    def still(self) -> Any:
        """What `name`, `hashes` and `dump` need, as of now."""
        names = Table.__new__(Table)
        names.crossed = self.crossed.still()
        names.known, names.texts = self.known.copy(), self.texts.copy()
        names.waiting = self.waiting.still()
        return names

    def dump(self, slots: Any) -> dict[str, Any]:
        """The names of some slots, and where those of categories are joined."""
        names = self._told(slots)
        texts = [self.texts[j] if j < len(self.known) else None for j in slots.tolist()]
        pairs = zip(names, texts, strict=True)
        joints = [len(n) - len(t) - 1 if isinstance(t, str) else -1 for n, t in pairs]  # type: ignore
        return {"kind": "table", "names": names, "joints": np.array(joints, np.int32)}

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
            h = _alias_of(name)  # type: ignore[arg-type]
            aliases.append((h & HASH, slot))  # type: ignore[operator]
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
            ensure(not unknown, "a name that waits is not found")
            ensure((found == late).all(), "it is found at another slot")
            n = len(self.known)
        ensure(len(self.texts) == n, "a name without its text")
        flags = [text is CROSS for text in self.texts]
        ensure(crossed[:n].tolist() == flags, "a crossed feature is told as none")
        plain = np.flatnonzero(~crossed[:n])
        known = self.names_at(plain)
        slots = self._find_hashed(*self._hashed(known), known)
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
