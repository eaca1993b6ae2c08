"""Crossed features that a table knows, each by the numbers of its parts.

A part is a name that has been crossed. It is kept once, as bytes, found by its stable hash, and
has a number of its own: its slot may be given back while crosses of it are left. So nothing is
a Python object before a name is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streaml1.jit import inlined, kernel, prefetch
from streaml1.names.bytes import Arena, ByBytes, Unknown, distinct
from streaml1.names.crossed import Crossed, cross_hash, told
from streaml1.names.parts import Parts, parts_of
from streaml1.names.places import MISSING, NO_SLOT, ONE, home, lookup
from streaml1.rows import ensure

__all__ = ["Products"]

_SIZE = np.uint64(2**32 - 1)
_SOON = 2**13
_THREE, _AHEAD = map(np.uint64, (3, 16))


@inlined
def _rank(places: Any, ids: Any, masks: Any, hashes: Any, k: Any, z: Any) -> Any:
    """How many of the parts of the k-th feature are told before the z-th."""
    part = ids[places[k, z]]
    first, h, rank = masks[part] & (~masks[part] + ONE), hashes[part], 0
    for y in range(_THREE):
        if places[k, y] < 0:
            continue
        other = ids[places[k, y]]
        a = masks[other] & (~masks[other] + ONE)
        lower = hashes[other] < h or (hashes[other] == h and y < z)
        rank += a < first or (a == first and lower)
    return rank


@kernel
def _admit(
    entries: Any, used: Any, hashes: Any, given: Any, new: Any, parts: Any, numbers: Any,
    kept: Any, waiting: Any, slot: Any,
) -> None:  # fmt: skip
    """Give each of some hashes without a slot the next, and keep the numbers of its parts.

    `new` has the places of those, each once. They wait among the names, as ones without a letter.
    """
    places, ids, masks, part_hashes = parts
    count, kept_hashes, kept_slots, kept_parts = kept
    late, late_hashes, ends = waiting
    n, m = np.uint64(count[0]), np.uint64(late[0])
    many = np.uint64(len(new))
    for z in range(many):
        if z + _AHEAD < many:
            prefetch(entries, home(entries, hashes[new[z + _AHEAD]]))
        k = new[z]
        at = lookup(entries, hashes[k])
        entries[at] = hashes[k]
        entries[at + ONE] = slot
        kept_hashes[n] = hashes[k]
        kept_slots[n] = slot
        kept_parts[n, 2] = MISSING
        for y in range(_THREE):
            if places[k, y] >= 0:
                rank = _rank(places, ids, masks, part_hashes, k, y)
                kept_parts[n, rank] = numbers[places[k, y]]
        late_hashes[m] = hashes[k]
        ends[m + ONE] = ends[m]
        given[z] = np.uint32(slot)
        slot += ONE
        n += ONE
        m += ONE
    used[0] += np.int64(many)
    count[0], late[0] = n, m


@kernel
def _mark(new: Any, places: Any, used: Any) -> None:
    """Mark the entries that features without a slot are crossed of."""
    for m in range(np.uint64(len(new))):
        for z in range(_THREE):
            if places[new[m], z] >= 0:
                used[places[new[m], z]] = True


@kernel
def _number(entries: Any, hashes: Any, ids: Any, used: Any, numbers: Any, new: Any) -> Any:
    """Write down the numbers of entries that are used, and which have none; returns how many."""
    n, last = np.uint64(0), np.uint64(len(ids))
    for k in range(last):
        numbers[k] = MISSING
        if k + _AHEAD < last:
            prefetch(entries, home(entries, hashes[ids[k + _AHEAD]]))
        if used[k]:
            number = entries[lookup(entries, hashes[ids[k]]) + ONE]
            numbers[k] = np.uint32(number)
            new[n] = k
            n += np.uint64(number == NO_SLOT)
    return n


class Products:
    """Crossed features by their hashes, and the names of their parts.

    What is in the arrays up to `n` never changes, so that a copy costs nothing.

    Attributes
    ----------
    table : ByBytes
        The slots of crossed features by their hashes.
    count : ndarray
        How many there are, int64, of one; `n` tells it.
    hashes, slots : ndarray
        Of each, uint64 and uint32; slots ascend.
    parts : ndarray
        The numbers of their parts in the order in which they are told, uint32, shape (n, 3);
        `MISSING` for no third.
    names : Arena
        The parts by number.
    numbers : ByBytes
        The numbers of parts by their hashes.
    """

    def __init__(self) -> None:
        self.table = ByBytes()
        self.count = np.zeros(1, np.int64)
        self.hashes = np.empty(0, np.uint64)
        self.slots = np.empty(0, np.uint32)
        self.parts = np.empty((0, 3), np.uint32)
        self.names = Arena()
        self.numbers = ByBytes()

    def __len__(self) -> int:
        return int(self.count[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        arrays = (self.table.entries, self.hashes, self.slots, self.parts, self.numbers.entries)
        return int(sum(a.nbytes for a in arrays)) + self.names.nbytes

    def find(self, hashes: Any) -> tuple[Any, Any]:
        """Slots of hashes, uint32, `MISSING` for those unknown, and the places of these."""
        return self.table.find(hashes)

    def of(self, slots: Any) -> Any:
        """Places of some slots among crossed features; -1 of those that are none."""
        known = self.slots[: len(self)]
        if not len(known):
            return np.full(len(slots), -1)
        slots = slots.astype(np.uint32)  # of one type with the others, which are not copied then
        places = known.searchsorted(slots)
        places[places == len(known)] = 0
        return np.where(known[places] == slots, places, -1)

    def below(self, slot: int) -> int:
        """How many have a slot below."""
        return int(self.slots[: len(self)].searchsorted(np.uint32(slot)))

    def told(self, slot: int) -> Crossed | None:
        """The parts of the crossed feature that has a slot, as they are told; None if none has."""
        place = self.below(slot)
        if place == len(self) or self.slots[place] != slot:
            return None
        return told([self.names.name(k) for k in self.parts[place].tolist() if k != MISSING])

    def told_all(self, places: Any) -> list[Crossed]:
        """The parts of some crossed features, given their places, as they are told."""
        numbers = self.parts[places]
        names = {k: self.names.name(k) for k in np.unique(numbers).tolist() if k != MISSING}
        return [told([names[k] for k in row if k != MISSING]) for row in numbers.tolist()]

    def _arrays(self) -> list[Any]:
        table, numbers, names = self.table, self.numbers, self.names
        return [table.entries, numbers.entries, self.hashes, names.hashes, names.bytes]

    def widen_all(self, n: int, parts: int, letters: int) -> bool:
        """As `widen`; where one array has no room, those that are soon to grow do so too.

        For each time that one does, who holds their addresses must begin anew. Of large ones
        that is seldom, and memory counts.
        """
        full = self.table.lacks(n) or self.numbers.lacks(parts) or len(self) + n > len(self.slots)
        if not full and not self.names.lacks(parts, letters):
            return False
        used = int(self.names.ends[len(self.names)])
        soon = (min(had // 2, _SOON) for had in (len(self), len(self.names), used))
        return self.widen(*(a + b for a, b in zip((n, parts, letters), soon, strict=True)))

    def widen(self, n: int, parts: int, letters: int) -> bool:
        """Have room for `n` crossed features more, and for some parts of so many bytes.

        Returns
        -------
        Whether arrays have been replaced.
        """
        before = self._arrays()
        self.table.widen(n)
        self.numbers.widen(parts)
        self.names.widen(parts, letters)
        if len(self) + n > len(self.slots):
            most = max(len(self) + n, 2 * len(self.slots))
            arrays = []
            for a in (self.hashes, self.slots, self.parts):
                grown = np.empty((most, *a.shape[1:]), a.dtype)
                grown[: len(self)] = a[: len(self)]
                arrays.append(grown)
            self.hashes, self.slots, self.parts = arrays
        return any(a is not b for a, b in zip(before, self._arrays(), strict=True))

    def admit(
        self, hashes: Any, slots: Any, unknown: Unknown, parts: Parts, waiting: Arena, slot: int
    ) -> None:
        """Give those of some hashes that are MISSING a slot the next, from `slot` on.

        Parameters
        ----------
        hashes
            Of crossed features; one may come twice.
        slots
            What `find` gave; they are made known in it.
        unknown
            Which are MISSING.
        parts
            Of what they are crossed.
        waiting
            Has an entry for each of the last slots, and gets one for each of the new.
        slot
            The next.
        """
        new = unknown.firsts.view(np.uint64)
        self.widen(len(new), 0, 0)
        waiting.widen(len(new), 0)
        used, given = np.zeros(len(parts.ids), bool), np.empty(len(new), np.uint32)
        _mark(new, parts.places, used)
        numbers = self._numbered(parts, used)
        kept = self.count, self.hashes, self.slots, self.parts
        late = waiting.count, waiting.hashes, waiting.ends
        _admit(self.table.entries, self.table.used, hashes, given, new, parts[:4], numbers,
               kept, late, np.uint64(slot))  # fmt: skip
        unknown.tell(slots, given)

    def _numbered(self, parts: Parts, used: Any) -> Any:
        """The numbers of the entries that are used; new ones are kept."""
        numbers, new = np.empty(len(used), np.uint32), np.empty(len(used) + 1, np.int64)
        n = int(_number(self.numbers.entries, parts.hashes, parts.ids, used, numbers, new))
        if n:
            ids = parts.ids[new[:n]]
            given = np.empty(n, np.uint32)
            spans = parts.spans[ids]
            self.numbers.admit(parts.hashes[ids], given, parts.letters, spans, self.names)
            numbers[new[:n]] = given
        return numbers

    def restore(self, names: Sequence[Sequence[str]], slots: Any) -> None:
        """Have crossed features of some parts at slots that ascend, and no others."""
        ensure(all(len(parts) in (2, 3) for parts in names), "a crossed feature of other parts")
        hashes = np.array([cross_hash(parts) for parts in names], np.uint64)
        places = np.full(len(names), MISSING, np.uint32)
        unknown = distinct(hashes, np.arange(len(names)))
        self.admit(hashes, places, unknown, parts_of(names), Arena(), 0)
        ensure(len(self) == len(names), "a crossed feature stands twice")
        self.slots[: len(names)] = slots
        self.table = self.table.moved(slots.astype(np.int64))

    def moved(self, new_slots: Any) -> Products:
        """Those left once slots have others, given each, in the same order; negative are gone."""
        left = Products()
        left.table = self.table.moved(new_slots)
        slots = new_slots[self.slots[: len(self)].astype(np.int64)]
        kept = slots >= 0
        left.hashes, left.parts = self.hashes[: len(self)][kept], self.parts[: len(self)][kept]
        left.slots = slots[kept].astype(np.uint32)
        left.count[0] = len(left.slots)
        used = np.zeros(len(self.names), bool)
        used[left.parts[left.parts != MISSING]] = True
        if 2 * int(np.count_nonzero(used)) >= len(used):
            left.names, left.numbers = self.names, self.numbers
            return left
        again = np.where(used, np.cumsum(used) - 1, -1)
        third = left.parts == MISSING
        left.parts = np.where(third, MISSING, again[np.where(third, 0, left.parts)])
        left.parts = left.parts.astype(np.uint32)
        left.names, left.numbers = self.names.kept(used), self.numbers.moved(again)
        return left

    def still(self) -> Products:
        """What tells names and hashes, as of now."""
        copy = Products.__new__(Products)
        copy.count, copy.names = self.count.copy(), self.names.still()
        copy.hashes, copy.slots, copy.parts = self.hashes, self.slots, self.parts
        return copy

    def check(self) -> None:
        """Raise AssertionError where table and arrays disagree."""
        n = len(self)
        ensure(n == self.table.used[0], "crossed features are miscounted")
        ensure((np.diff(self.slots[:n].astype(np.int64)) > 0).all(), "slots do not ascend")
        found, _ = self.find(self.hashes[:n])
        ensure((found == self.slots[:n]).all(), "a crossed feature is not found at its slot")
        told = [self.told(slot) or () for slot in self.slots[:n].tolist()]
        hashes = np.array([cross_hash(parts) for parts in told], np.uint64)
        ensure((hashes == self.hashes[:n]).all(), "a crossed feature has another's hash")
        parts = np.arange(len(self.names))
        found, _ = self.numbers.find(self.names.hashes[: len(parts)])
        ensure((found == parts).all(), "a part is not found at its number")
        ensure(self.numbers.n == len(parts), "parts are miscounted")
