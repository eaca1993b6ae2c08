"""Crossed features of a vocabulary; each is stored as the numbers of its two or three factors.

A factor is a name that was crossed. Its bytes are stored once; it is found by its stable hash, and
has a number. This number is independent of slots: the slot of a factor may be released while its
crossed features remain. No Python object is built before a name is requested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streaml1.core.hashing import name_hashes
from streaml1.core.jit import inlined, kernel, u64
from streaml1.core.rows import ensure
from streaml1.core.simd import borrowed
from streaml1.core.spans import LENGTH_MASK, OFFSET_BITS
from streaml1.core.types import Bools, Hashes, Ids, Ints, Slots
from streaml1.features.vocabulary.byte_interning import (
    TYPICAL_NAME_BYTES,
    FoundSlots,
    HashIndex,
    expected_new,
)
from streaml1.features.vocabulary.crossed_name import CrossedName, cross_hash, display_order
from streaml1.features.vocabulary.interaction_factors import InteractionFactors, encode_names
from streaml1.features.vocabulary.name_arena import MIN_NAMES, PADDING, NameArena, copy_name
from streaml1.features.vocabulary.probing import (
    MISSING,
    NO_SLOT,
    PREFETCH_DISTANCE,
    lookup,
    prefetch_lines,
)

__all__ = ["CrossedTable"]

_MAX_SPARE = 2**13  # elements, see `reserve_ahead`
_MAX_FACTORS = u64(3)


@inlined
def _comes_after(x: Any, y: Any, masks: Any, hashes: Any) -> Any:
    """Return whether factor x comes after y in display order: by first prefix, then by hash."""
    x_prefix, y_prefix = masks[x] & (~masks[x] + u64(1)), masks[y] & (~masks[y] + u64(1))
    return (y_prefix < x_prefix) | ((y_prefix == x_prefix) & (hashes[y] < hashes[x]))


@inlined
def _rank(factor_entries: Any, ids: Any, masks: Any, hashes: Any, c: Any, z: Any) -> Any:
    """Return how many of the three factors of feature c come before the z-th in display order."""
    rank = 0
    for y in range(_MAX_FACTORS):
        z_factor, y_factor = ids[factor_entries[c, z]], ids[factor_entries[c, y]]
        if y < z:  # of equal factors, the first comes first
            rank += not _comes_after(y_factor, z_factor, masks, hashes)
        else:
            rank += _comes_after(z_factor, y_factor, masks, hashes)
    return rank


@inlined
def _number(
    factor: Any, hashes: Any, spans: Any, name_bytes: Any, numbers: Any, arena: Any, max_names: Any
) -> Any:
    """Return the number of a factor; an unseen one gets the next, or `NO_SLOT` without capacity."""
    entries, count, used = numbers
    arena_count, arena_hashes, ends, arena_bytes = arena
    pos = lookup(entries, hashes[factor])
    if entries[pos + u64(1)] != NO_SLOT:
        return entries[pos + u64(1)]
    n = np.uint64(arena_count[0])
    out_pos, size = ends[n], spans[factor] & LENGTH_MASK
    if n >= max_names or out_pos + size + np.uint64(PADDING) > np.uint64(len(arena_bytes)):
        return NO_SLOT
    entries[pos] = hashes[factor]
    entries[pos + u64(1)] = n
    arena_hashes[n] = hashes[factor]
    ends[n + u64(1)] = copy_name(
        name_bytes, spans[factor] >> OFFSET_BITS, size, arena_bytes, out_pos
    )
    arena_count[0] += 1
    count[0] += 1
    used[0] += 1
    return n


@kernel
def _intern(
    table: Any, max_new: Any, hashes: Any, factors: Any, start: Any, entry_numbers: Any,
    numbers: Any, arena: Any, max_names: Any, columns: Any, pending: Any, slot: Any, slots: Any,
) -> Any:  # fmt: skip
    """Write the slots of hashes from `start` on; new ones get the slots from `slot` on.

    Stops at a new crossed feature if the table, the arena of factors or another array is full.
    Returns the position after the last hash that has its slot.

    Parameters
    ----------
    table
        Entries and their count: the slots of crossed features by hash.
    max_new
        The number of crossed features that there is capacity for.
    hashes, factors
        The crossed features; `factors` has the fields of `InteractionFactors`.
    start
        The position of the first hash to look up.
    entry_numbers
        The number of the factor of each CSR entry, or `NO_SLOT` while it is unknown; it saves a
        look-up for each further feature that the entry is a factor of.
    numbers, arena, max_names
        The hash table and the names of factors, and the maximum number of names.
    columns
        Count, hashes, slots and factor numbers of the crossed features.
    pending
        Count, hashes and ends of the names that are pending; a new feature gets an empty one.
    slot
        The next slot.
    slots
        Receives the slots.
    """
    entries, used = borrowed(table)
    factor_entries, ids, masks, factor_hashes, spans, name_bytes = borrowed(factors)
    numbers, arena = borrowed(numbers), borrowed(arena)
    count, column_hashes, column_slots, column_factors = columns
    pending_count, pending_hashes, ends = pending
    n, m = np.uint64(count[0]), np.uint64(pending_count[0])
    first_n, end = n, np.uint64(len(hashes))
    # Invariant: the hashes from `start` to c - 1 have their slots; the columns have n features
    # with slots below `slot`, ascending, and the arena of pending names has m.
    for c in range(start, end):
        if c + PREFETCH_DISTANCE < end:
            prefetch_lines(entries, hashes, c)
        pos = lookup(entries, hashes[c])
        if entries[pos + u64(1)] == NO_SLOT:
            # Number the factors first: if one does not fit, the feature is not added. Factors
            # that were numbered until then stay, and are found when the caller continues at c.
            full = n - first_n >= max_new
            for y in range(_MAX_FACTORS):
                if (
                    factor_entries[c, y] >= 0
                    and not full
                    and entry_numbers[factor_entries[c, y]] == NO_SLOT
                ):
                    factor = np.uint64(ids[factor_entries[c, y]])
                    number = _number(
                        factor, factor_hashes, spans, name_bytes, numbers, arena, max_names
                    )
                    entry_numbers[factor_entries[c, y]] = np.uint32(number)
                    full = number == NO_SLOT
            if full:
                end = np.uint64(c)
                break
            entries[pos] = hashes[c]
            entries[pos + u64(1)] = slot
            column_hashes[n] = hashes[c]
            column_slots[n] = np.uint32(slot)
            if factor_entries[c, 2] < 0:
                first, second = (
                    entry_numbers[factor_entries[c, 0]],
                    entry_numbers[factor_entries[c, 1]],
                )
                swap = _comes_after(
                    ids[factor_entries[c, 0]], ids[factor_entries[c, 1]], masks, factor_hashes
                )
                # Two selects instead of a branch: the order is unpredictable.
                column_factors[n, 0] = second if swap else first
                column_factors[n, 1] = first if swap else second
                column_factors[n, 2] = MISSING
            else:
                for y in range(_MAX_FACTORS):
                    rank = _rank(factor_entries, ids, masks, factor_hashes, c, y)
                    column_factors[n, rank] = entry_numbers[factor_entries[c, y]]
            pending_hashes[m] = hashes[c]
            ends[m + u64(1)] = ends[m]
            slot += u64(1)
            n += u64(1)
            m += u64(1)
        slots[c] = np.uint32(entries[pos + u64(1)])
    used[0] += np.int64(n - first_n)
    count[0], pending_count[0] = n, m
    return end


class CrossedTable:
    """The crossed features of a vocabulary: their hashes, slots and factors, as columns.

    The first ``len(self)`` rows never change, so a snapshot shares the arrays.

    Attributes
    ----------
    table : HashIndex
        The slots of crossed features by hash.
    count : ndarray of int64, shape (1,)
        The number of crossed features.
    hashes : ndarray of uint64
        The hash of each, see `cross_hash`.
    slots : ndarray of uint32
        The slot of each, ascending.
    parts : ndarray of uint32, shape (capacity, 3)
        The numbers of its factors in display order; the third is `MISSING` if there are two.
    names : NameArena
        The names of factors by number.
    numbers : HashIndex
        The numbers of factors by the hash of their names.
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
        """Size of the arrays in bytes."""
        arrays = (self.table.entries, self.hashes, self.slots, self.parts, self.numbers.entries)
        return int(sum(a.nbytes for a in arrays)) + self.names.nbytes

    def find(self, hashes: Hashes) -> FoundSlots:
        """Look up crossed features by hash."""
        return self.table.find(hashes)

    def positions_of(self, slots: Slots) -> Ints:
        """Return the position in the columns of each slot; -1 for slots of other features."""
        column = self.slots[: len(self)]
        if not len(column):
            return np.full(len(slots), -1)
        ids = slots.astype(np.uint32)  # with equal dtypes, searchsorted copies neither array
        positions = column.searchsorted(ids)
        positions[positions == len(column)] = 0
        return np.where(column[positions] == ids, positions, -1)

    def count_below(self, slot: int) -> int:
        """Return the number of crossed features with a slot below `slot`."""
        return int(self.slots[: len(self)].searchsorted(np.uint32(slot)))

    def name_at(self, slot: int) -> CrossedName | None:
        """Return the factors of the crossed feature with a slot; None if there is none."""
        pos = self.count_below(slot)
        if pos == len(self) or self.slots[pos] != slot:
            return None
        return display_order([self.names.name(k) for k in self.parts[pos].tolist() if k != MISSING])

    def display_names(self, positions: Ints) -> list[CrossedName]:
        """Return the names of crossed features, given their positions in the columns."""
        numbers = self.parts[positions]
        names = {k: self.names.name(k) for k in np.unique(numbers).tolist() if k != MISSING}
        return [display_order([names[k] for k in row if k != MISSING]) for row in numbers.tolist()]

    def _arrays(self) -> list[Any]:
        table, numbers, names = self.table, self.numbers, self.names
        return [table.entries, numbers.entries, self.hashes, names.hashes, names.bytes]

    def reserve_ahead(self, n: int, n_factors: int, n_bytes: int) -> bool:
        """Make room as `reserve` does; if any array must grow, reserve spare capacity in all.

        A kernel context holds the addresses of the arrays and must be rebuilt whenever one of them
        is replaced. Growing all at once makes this rarer. The spare capacity is bounded by
        `_MAX_SPARE`: large arrays double anyway, and must not waste memory.
        """
        full = (
            self.table.needs_growth(n)
            or self.numbers.needs_growth(n_factors)
            or len(self) + n > len(self.slots)
        )
        if not full and not self.names.needs_growth(n_factors, n_bytes):
            return False
        used = int(self.names.ends[len(self.names)])
        spare = (min(size // 2, _MAX_SPARE) for size in (len(self), len(self.names), used))
        return self.reserve(*(a + b for a, b in zip((n, n_factors, n_bytes), spare, strict=True)))

    def reserve(self, n: int, n_factors: int, n_bytes: int) -> bool:
        """Make room for `n` more crossed features and `n_factors` more factors.

        Parameters
        ----------
        n
            Number of crossed features.
        n_factors, n_bytes
            Number of factors, and the bytes of their names in total.

        Returns
        -------
        bool
            Whether an array was replaced.
        """
        before = self._arrays()
        self.table.reserve(n)
        self.numbers.reserve(n_factors)
        self.names.reserve(n_factors, n_bytes)
        if len(self) + n > len(self.slots):
            capacity = max(len(self) + n, 2 * len(self.slots), MIN_NAMES)
            arrays = []
            for a in (self.hashes, self.slots, self.parts):
                grown = np.empty((capacity, *a.shape[1:]), a.dtype)
                grown[: len(self)] = a[: len(self)]
                arrays.append(grown)
            self.hashes, self.slots, self.parts = arrays
        return any(a is not b for a, b in zip(before, self._arrays(), strict=True))

    def intern(
        self, hashes: Hashes, slots: Ids, factors: InteractionFactors, pending: NameArena,
        slot: int, max_slots: int = MISSING, start: int = 0,
    ) -> int:  # fmt: skip
        """Write the slots of crossed features to `slots`; new ones get the slots from `slot` on.

        Parameters
        ----------
        hashes
            The hashes of the crossed features; a hash may be repeated.
        slots
            Receives the slots, from position `start` on.
        factors
            The factors of each crossed feature.
        pending
            The pending names of the vocabulary; receives an empty name for each new feature.
        slot
            The next slot.
        max_slots
            Maximum number of slots.
        start
            Position of the first hash to look up.

        Returns
        -------
        int
            Position after the last hash that got its slot: `len(hashes)`, unless the next one is
            new and there are `max_slots` slots. Call again with it as `start`.
        """
        pos, size, n_names = start, len(self), self.names.n
        entry_numbers = np.full(len(factors.ids), MISSING, np.uint32)
        names, numbers, table = self.names, self.numbers, self.table
        # Invariant: the hashes from `start` to before `pos` have their slots.
        while True:
            next_slot = slot + len(self) - size
            free = min(
                table.free_entries, len(self.slots) - len(self), len(pending.hashes) - pending.n
            )
            max_names = names.n + min(numbers.free_entries, len(names.hashes) - names.n)
            pos = int(_intern(
                (table.entries, table.used), np.uint64(max(0, min(free, max_slots - next_slot))),
                hashes, tuple(factors), np.uint64(pos), entry_numbers,
                (numbers.entries, numbers.count, numbers.used),
                (names.count, names.hashes, names.ends, names.bytes), np.uint64(max_names),
                (self.count, self.hashes, self.slots, self.parts),
                (pending.count, pending.hashes, pending.ends), np.uint64(next_slot), slots,
            ))  # fmt: skip
            if pos == len(hashes) or slot + len(self) - size >= max_slots:
                return pos
            entries = [entry for entry in factors.entries[pos].tolist() if entry >= 0]
            n_bytes = int((factors.spans[factors.ids[entries]] & LENGTH_MASK).sum())
            looked, remaining = pos - start, len(hashes) - pos
            n_new = expected_new(looked, len(self) - size, remaining)
            n_new_names = len(entries) + expected_new(looked, names.n - n_names, remaining)
            self.reserve(n_new, n_new_names, n_bytes + TYPICAL_NAME_BYTES * n_new_names)
            pending.reserve(n_new, 0)

    def restore(self, names: Sequence[Sequence[str]], slots: Ints) -> None:
        """Fill an empty table with crossed features, given their factors and ascending slots.

        Raises
        ------
        AssertionError
            If a crossed feature has not two or three factors, or two features are equal.
        """
        ensure(
            all(len(factors) in (2, 3) for factors in names),
            "a crossed feature must have 2 or 3 factors",
        )
        # Python instead of the kernel `_intern`: loading a model must not import numba.
        texts = list(dict.fromkeys(name for factors in names for name in factors))
        name_bytes, spans = encode_names(texts)
        n, n_texts, n_bytes = len(names), len(texts), len(name_bytes) - 1
        self.reserve(n, n_texts, n_bytes)
        arena = self.names
        arena.hashes[:n_texts] = name_hashes(texts)
        arena.ends[1 : n_texts + 1] = np.cumsum(spans & LENGTH_MASK)
        arena.bytes[:n_bytes] = name_bytes[:n_bytes]
        self.numbers.enter(arena.hashes[:n_texts], np.arange(n_texts, dtype=np.uint32))
        arena.n = self.numbers.n = n_texts
        number = {name: k for k, name in enumerate(texts)}
        rows = [[number[name] for name in factors] for factors in names]
        self.parts[:n] = [[*row, MISSING][:3] for row in rows] if n else 0
        self.hashes[:n] = [cross_hash(factors) for factors in names]
        self.slots[:n] = slots
        self.table.enter(self.hashes[:n], self.slots[:n])
        self.count[0] = n
        used = int(self.table.used[0])
        ensure(used == n, "crossed features must be distinct, got a duplicate")

    def remapped(self, new_slots: Ints) -> CrossedTable:
        """Return a copy with slot new_slots[j] in place of j, without features where it is < 0.

        The new slots must be in the same order as the old ones.
        """
        target = CrossedTable()
        target.table = self.table.remapped(new_slots)
        slots = new_slots[self.slots[: len(self)].astype(np.int64)]
        retained: Bools = slots >= 0
        target.hashes = self.hashes[: len(self)][retained]
        target.parts = self.parts[: len(self)][retained]
        target.slots = slots[retained].astype(np.uint32)
        target.count[0] = len(target.slots)
        used = np.zeros(len(self.names), bool)
        used[target.parts[target.parts != MISSING]] = True
        # Copy the names only if more than half are unused: a constant amortized cost for each.
        if 2 * int(np.count_nonzero(used)) >= len(used):
            target.names, target.numbers = self.names, self.numbers
            return target
        new_numbers = np.where(used, np.cumsum(used) - 1, -1)
        absent = target.parts == MISSING
        target.parts = np.where(absent, MISSING, new_numbers[np.where(absent, 0, target.parts)])
        target.parts = target.parts.astype(np.uint32)
        target.names = self.names.retained(used)
        target.numbers = self.numbers.remapped(new_numbers)
        return target

    def snapshot(self) -> CrossedTable:
        """Return a copy that features added later do not affect; it cannot look up hashes."""
        copy = CrossedTable.__new__(CrossedTable)
        copy.count, copy.names = self.count.copy(), self.names.snapshot()
        copy.hashes, copy.slots, copy.parts = self.hashes, self.slots, self.parts
        return copy

    def check(self) -> None:
        """Raise AssertionError if the hash tables and the columns disagree."""
        n, used = len(self), int(self.table.used[0])
        ensure(n == used, f"{n} crossed features have {used} entries")
        ensure(
            (np.diff(self.slots[:n].astype(np.int64)) > 0).all(),
            "slots of crossed features must be ascending",
        )
        found, _ = self.find(self.hashes[:n])
        ensure((found == self.slots[:n]).all(), "a crossed feature is not found at its slot")
        factor_names = [self.name_at(slot) or () for slot in self.slots[:n].tolist()]
        hashes = np.array([cross_hash(names) for names in factor_names], np.uint64)
        ensure((hashes == self.hashes[:n]).all(), "a crossed feature has the hash of another")
        numbers = np.arange(len(self.names))
        found, _ = self.numbers.find(self.names.hashes[: len(numbers)])
        ensure((found == numbers).all(), "a factor is not found at its number")
        n_numbers = self.numbers.n
        ensure(n_numbers == len(numbers), f"{len(numbers)} factors, counted {n_numbers}")
