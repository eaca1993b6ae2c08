"""Crossed features that a table knows, each by the numbers of its parts.

A part is a name that has been crossed. It is kept once, as bytes, found by its stable hash, and
has a number of its own: its slot may be given back while crosses of it are left. So nothing is
a Python object before a name is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.rows import ensure
from streaml1.core.simd import borrowed
from streaml1.features.vocabulary.byte_interning import (
    MIN_NAMES,
    PADDING,
    TYPICAL_NAME_BYTES,
    HashIndex,
    NameArena,
    copy_name,
    expected_new,
)
from streaml1.features.vocabulary.crossed_name import CrossedName, cross_hash, display_order
from streaml1.features.vocabulary.interaction_factors import InteractionFactors, factors_of
from streaml1.features.vocabulary.probing import (
    MISSING,
    NO_SLOT,
    ONE,
    PREFETCH_DISTANCE,
    lookup,
    prefetch_lines,
)

__all__ = ["CrossedTable"]

_SIZE, _HALF = np.uint64(2**32 - 1), np.uint64(32)
_SOON = 2**13
_THREE = np.uint64(3)


@inlined
def _is_told_later(part: Any, other: Any, masks: Any, hashes: Any) -> Any:
    """Whether a part is told behind another: by the first prefixes, then by hash."""
    first, second = masks[part] & (~masks[part] + ONE), masks[other] & (~masks[other] + ONE)
    return (second < first) | ((second == first) & (hashes[other] < hashes[part]))


@inlined
def _rank(places: Any, ids: Any, masks: Any, hashes: Any, k: Any, z: Any) -> Any:
    """How many of the three parts of the k-th feature are told before the z-th."""
    rank = 0
    for y in range(_THREE):
        part, other = ids[places[k, z]], ids[places[k, y]]
        if y < z:  # those that are told alike come as they stand
            rank += not _is_told_later(other, part, masks, hashes)
        else:
            rank += _is_told_later(part, other, masks, hashes)
    return rank


@inlined
def _number(
    part: Any, hashes: Any, spans: Any, letters: Any, table: Any, names: Any, most: Any
) -> Any:
    """The number of a part, which is given the next where it has none; `NO_SLOT` without room."""
    entries, count, used = table
    late, kept, ends, bytes_ = names
    at = lookup(entries, hashes[part])
    if entries[at + ONE] != NO_SLOT:
        return entries[at + ONE]
    n = np.uint64(late[0])
    to, size = ends[n], spans[part] & _SIZE
    if n >= most or to + size + np.uint64(PADDING) > np.uint64(len(bytes_)):
        return NO_SLOT
    entries[at] = hashes[part]
    entries[at + ONE] = n
    kept[n] = hashes[part]
    ends[n + ONE] = copy_name(letters, spans[part] >> _HALF, size, bytes_, to)
    late[0] += 1
    count[0] += 1
    used[0] += 1
    return n


@kernel
def _intern(
    table: Any, room: Any, hashes: Any, parts: Any, at: Any, numbered: Any, numbers: Any,
    names: Any, most: Any, kept: Any, pending: Any, slot: Any, slots: Any,
) -> Any:  # fmt: skip
    """Slots of hashes from a place on; those without one get the next, and wait without a letter.

    The numbers of their parts are kept, and written down in `numbered`. It ends where there is no
    room for a new one, or for a part of it; returns where.
    """
    entries, used = borrowed(table)
    places, ids, masks, part_hashes, spans, letters = borrowed(parts)
    numbers, names = borrowed(numbers), borrowed(names)
    count, kept_hashes, kept_slots, kept_parts = kept
    late, late_hashes, ends = pending
    n, m = np.uint64(count[0]), np.uint64(late[0])
    before, end = n, np.uint64(len(hashes))
    for c in range(at, end):
        if c + PREFETCH_DISTANCE < end:
            prefetch_lines(entries, hashes, c)
        place = lookup(entries, hashes[c])
        if entries[place + ONE] == NO_SLOT:
            full = n - before >= room
            for y in range(_THREE):
                if places[c, y] >= 0 and not full and numbered[places[c, y]] == NO_SLOT:
                    part = np.uint64(ids[places[c, y]])
                    number = _number(part, part_hashes, spans, letters, numbers, names, most)
                    numbered[places[c, y]] = np.uint32(number)
                    full = number == NO_SLOT
            if full:
                end = np.uint64(c)
                break
            entries[place] = hashes[c]
            entries[place + ONE] = slot
            kept_hashes[n] = hashes[c]
            kept_slots[n] = np.uint32(slot)
            if places[c, 2] < 0:
                first, second = numbered[places[c, 0]], numbered[places[c, 1]]
                later = _is_told_later(ids[places[c, 0]], ids[places[c, 1]], masks, part_hashes)
                kept_parts[n, 0] = second if later else first  # which it is cannot be foretold
                kept_parts[n, 1] = first if later else second
                kept_parts[n, 2] = MISSING
            else:
                for y in range(_THREE):
                    rank = _rank(places, ids, masks, part_hashes, c, y)
                    kept_parts[n, rank] = numbered[places[c, y]]
            late_hashes[m] = hashes[c]
            ends[m + ONE] = ends[m]
            slot += ONE
            n += ONE
            m += ONE
        slots[c] = np.uint32(entries[place + ONE])
    used[0] += np.int64(n - before)
    count[0], late[0] = n, m
    return end


class CrossedTable:
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
        self.table = HashIndex()
        self.count = np.zeros(1, np.int64)
        self.hashes = np.empty(0, np.uint64)
        self.slots = np.empty(0, np.uint32)
        self.parts = np.empty((0, 3), np.uint32)
        self.names = NameArena()
        self.numbers = HashIndex()

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

    def positions_of(self, slots: Any) -> Any:
        """Places of some slots among crossed features; -1 of those that are none."""
        known = self.slots[: len(self)]
        if not len(known):
            return np.full(len(slots), -1)
        slots = slots.astype(np.uint32)  # of one type with the others, which are not copied then
        places = known.searchsorted(slots)
        places[places == len(known)] = 0
        return np.where(known[places] == slots, places, -1)

    def count_below(self, slot: int) -> int:
        """How many have a slot below."""
        return int(self.slots[: len(self)].searchsorted(np.uint32(slot)))

    def name_at(self, slot: int) -> CrossedName | None:
        """The parts of the crossed feature that has a slot, as they are told; None if none has."""
        place = self.count_below(slot)
        if place == len(self) or self.slots[place] != slot:
            return None
        return display_order(
            [self.names.name(k) for k in self.parts[place].tolist() if k != MISSING]
        )

    def display_names(self, places: Any) -> list[CrossedName]:
        """The parts of some crossed features, given their places, as they are told."""
        numbers = self.parts[places]
        names = {k: self.names.name(k) for k in np.unique(numbers).tolist() if k != MISSING}
        return [display_order([names[k] for k in row if k != MISSING]) for row in numbers.tolist()]

    def _arrays(self) -> list[Any]:
        table, numbers, names = self.table, self.numbers, self.names
        return [table.entries, numbers.entries, self.hashes, names.hashes, names.bytes]

    def reserve_ahead(self, n: int, parts: int, letters: int) -> bool:
        """As `reserve`; where one array has no room, those that are soon to grow do so too.

        For each time that one does, who holds their addresses must begin anew. Of large ones
        that is seldom, and memory counts.
        """
        full = (
            self.table.needs_growth(n)
            or self.numbers.needs_growth(parts)
            or len(self) + n > len(self.slots)
        )
        if not full and not self.names.needs_growth(parts, letters):
            return False
        used = int(self.names.ends[len(self.names)])
        spare = (min(had // 2, _SOON) for had in (len(self), len(self.names), used))
        return self.reserve(*(a + b for a, b in zip((n, parts, letters), spare, strict=True)))

    def reserve(self, n: int, parts: int, letters: int) -> bool:
        """Have room for `n` crossed features more, and for some parts of so many bytes.

        Returns
        -------
        Whether arrays have been replaced.
        """
        before = self._arrays()
        self.table.reserve(n)
        self.numbers.reserve(parts)
        self.names.reserve(parts, letters)
        if len(self) + n > len(self.slots):
            most = max(len(self) + n, 2 * len(self.slots), MIN_NAMES)
            arrays = []
            for a in (self.hashes, self.slots, self.parts):
                grown = np.empty((most, *a.shape[1:]), a.dtype)
                grown[: len(self)] = a[: len(self)]
                arrays.append(grown)
            self.hashes, self.slots, self.parts = arrays
        return any(a is not b for a, b in zip(before, self._arrays(), strict=True))

    def intern(
        self, hashes: Any, slots: Any, parts: InteractionFactors, pending: NameArena, slot: int,
        most: int = MISSING, at: int = 0,
    ) -> int:  # fmt: skip
        """Slots of hashes; those without one get the next.

        Parameters
        ----------
        hashes
            Of crossed features; one may come twice.
        parts
            Of what they are crossed.
        waiting
            Has an entry for each of the last slots, and gets one for each of the new.
        slot
            The next.
        slots, most, at
            As of `ByBytes.intern`, and what is returned is too.
        """
        begun, before, named = at, len(self), self.names.n
        numbered = np.full(len(parts.ids), MISSING, np.uint32)
        names, numbers, table = self.names, self.numbers, self.table
        while True:
            next_slot = slot + len(self) - before
            room = min(
                table.free_entries, len(self.slots) - len(self), len(pending.hashes) - pending.n
            )
            most_names = names.n + min(numbers.free_entries, len(names.hashes) - names.n)
            at = int(_intern(
                (table.entries, table.used), np.uint64(max(0, min(room, most - next_slot))),
                hashes, tuple(parts), np.uint64(at), numbered,
                (numbers.entries, numbers.count, numbers.used),
                (names.count, names.hashes, names.ends, names.bytes), np.uint64(most_names),
                (self.count, self.hashes, self.slots, self.parts),
                (pending.count, pending.hashes, pending.ends), np.uint64(next_slot), slots,
            ))  # fmt: skip
            if at == len(hashes) or slot + len(self) - before >= most:
                return at
            entries = [entry for entry in parts.places[at].tolist() if entry >= 0]
            letters = int((parts.spans[parts.ids[entries]] & _SIZE).sum())
            looked, remaining = at - begun, len(hashes) - at
            more = expected_new(looked, len(self) - before, remaining)
            more_names = len(entries) + expected_new(looked, names.n - named, remaining)
            self.reserve(more, more_names, letters + TYPICAL_NAME_BYTES * more_names)
            pending.reserve(more, 0)

    def restore(self, names: Sequence[Sequence[str]], slots: Any) -> None:
        """Have crossed features of some parts at slots that ascend, and no others."""
        ensure(all(len(parts) in (2, 3) for parts in names), "a crossed feature of other parts")
        hashes = np.array([cross_hash(parts) for parts in names], np.uint64)
        self.intern(hashes, np.empty(len(names), np.uint32), factors_of(names), NameArena(), 0)
        ensure(len(self) == len(names), "a crossed feature stands twice")
        self.slots[: len(names)] = slots
        self.table = self.table.remapped(slots.astype(np.int64))

    def remapped(self, new_slots: Any) -> CrossedTable:
        """Those left once slots have others, given each, in the same order; negative are gone."""
        target = CrossedTable()
        target.table = self.table.remapped(new_slots)
        slots = new_slots[self.slots[: len(self)].astype(np.int64)]
        kept = slots >= 0
        target.hashes, target.parts = self.hashes[: len(self)][kept], self.parts[: len(self)][kept]
        target.slots = slots[kept].astype(np.uint32)
        target.count[0] = len(target.slots)
        used = np.zeros(len(self.names), bool)
        used[target.parts[target.parts != MISSING]] = True
        if 2 * int(np.count_nonzero(used)) >= len(used):
            target.names, target.numbers = self.names, self.numbers
            return target
        again = np.where(used, np.cumsum(used) - 1, -1)
        third = target.parts == MISSING
        target.parts = np.where(third, MISSING, again[np.where(third, 0, target.parts)])
        target.parts = target.parts.astype(np.uint32)
        target.names, target.numbers = self.names.retained(used), self.numbers.remapped(again)
        return target

    def snapshot(self) -> CrossedTable:
        """What tells names and hashes, as of now."""
        copy = CrossedTable.__new__(CrossedTable)
        copy.count, copy.names = self.count.copy(), self.names.snapshot()
        copy.hashes, copy.slots, copy.parts = self.hashes, self.slots, self.parts
        return copy

    def check(self) -> None:
        """Raise AssertionError where table and arrays disagree."""
        n = len(self)
        ensure(n == self.table.used[0], "crossed features are miscounted")
        ensure((np.diff(self.slots[:n].astype(np.int64)) > 0).all(), "slots do not ascend")
        found, _ = self.find(self.hashes[:n])
        ensure((found == self.slots[:n]).all(), "a crossed feature is not found at its slot")
        factor_names = [self.name_at(slot) or () for slot in self.slots[:n].tolist()]
        hashes = np.array([cross_hash(parts) for parts in factor_names], np.uint64)
        ensure((hashes == self.hashes[:n]).all(), "a crossed feature has another's hash")
        parts = np.arange(len(self.names))
        found, _ = self.numbers.find(self.names.hashes[: len(parts)])
        ensure((found == parts).all(), "a part is not found at its number")
        ensure(self.numbers.n == len(parts), "parts are miscounted")
