"""Names that arrive as bytes, found by hashes of these; `name_arena` stores them.

`InternedVocabulary` finds a string by Python's own hash, which differs between processes. Names
that a parser reads as bytes have no such hash, and building a string for each would dominate the
cost of a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.hashing import PROCESS_KEY, keyed_position
from streaml1.core.jit import kernel, typed_kernel, u64
from streaml1.core.simd import borrowed, prefetch, prefetch_early
from streaml1.core.spans import LENGTH_MASK, OFFSET_BITS
from streaml1.core.types import Bytes, Hashes, Ids, Ints
from streaml1.features.vocabulary.name_arena import (
    MIN_NAMES,
    PADDING,
    Counted,
    NameArena,
    copy_name,
)
from streaml1.features.vocabulary.probing import (
    MISSING,
    NO_SLOT,
    PREFETCH_DISTANCE,
    capacity_of,
    empty_entries,
    find_vacant,
    home_line,
    lookup,
    max_taken,
    prefetch_lines,
)

__all__ = [
    "TYPICAL_NAME_BYTES",
    "FoundSlots",
    "HashIndex",
    "UnknownNames",
    "distinct",
    "expected_new",
]


TYPICAL_NAME_BYTES = 8
"""Length that is assumed for names that are not known yet."""


_BLOCK = 256  # entries of a table that are filtered before the first of them is copied
_MIN_NEW, _HEAPS_EXPONENT = 256, 0.7  # see `expected_new`
_PREFETCH_DISTANCE = u64(16)  # in positions, see `_distinct`


class UnknownNames(NamedTuple):
    """Occurrences of names without a slot; a name may occur several times."""

    positions: Ints
    """The position of each occurrence."""
    first_positions: Ints
    """The position of the first occurrence of each distinct name."""
    order: Ids
    """For each occurrence the index of its name in `first_positions`."""

    def fill(self, slots: Ids, new_slots: Ids) -> None:
        """Write the new slot of each distinct name to `slots`, at all of its positions."""
        _fill(slots, self.positions.view(np.uint64), self.order, new_slots)


@typed_kernel("uint64[]", "uint64[]", "uint32[]", "int64[]", nogil=True)
def _find(entries: Any, hashes: Any, slots: Any, unknown: Any) -> Any:
    """Write the slots of hashes to `slots`, and the positions of unknown hashes to `unknown`.

    Returns the number of unknown hashes; their slot is `MISSING`.
    """
    n, n_unknown = np.uint64(len(hashes)), u64(0)
    for k in range(n):
        if k + PREFETCH_DISTANCE < n:
            prefetch_early(entries, home_line(entries, hashes[k + PREFETCH_DISTANCE]))
        pos = lookup(entries, hashes[k])
        if entries[pos + u64(1)] == NO_SLOT:
            unknown[n_unknown] = k
            n_unknown += u64(1)
        slots[k] = np.uint32(entries[pos + u64(1)])
    return n_unknown


@kernel
def _fill(slots: Any, positions: Any, order: Any, new_slots: Any) -> None:
    for m in range(np.uint64(len(positions))):
        slots[positions[m]] = new_slots[order[m]]


@typed_kernel("uint64[]", "int64[]", "uint64[]", "uint32[]", nogil=True)
def _put(entries: Any, used: Any, hashes: Any, slots: Any) -> None:
    """Set the slots of hashes; `used` counts the hashes that are new."""
    for k in range(np.uint64(len(hashes))):
        pos = lookup(entries, hashes[k])
        used[0] += np.int64(entries[pos + u64(1)] == NO_SLOT)
        entries[pos] = hashes[k]
        entries[pos + u64(1)] = slots[k]


@typed_kernel("uint64[]", "int64[]", "uint64[]", "uint64[]", nogil=True)
def _copy_entries(entries: Any, new_slots: Any, retained: Any, target: Any) -> Any:
    """Copy the entries of a table to `target`, which has no entry of theirs; return their number.

    Unless `new_slots` is empty, it maps each slot to its slot in `target`; an entry whose new slot
    is negative is dropped. `retained` is a scratch array with `_BLOCK` elements.
    """
    n = 0
    same = len(new_slots) == 0
    capacity = max_taken(len(entries)) * u64(2)
    # For each block: first list the entries to copy without a branch, since whether an entry is
    # taken is unpredictable; then copy them. Invariant: retained[:m] are those before the k-th.
    for begin in range(u64(0), capacity, np.uint64(_BLOCK)):
        m = u64(0)
        for k in range(begin, min(capacity, begin + np.uint64(_BLOCK))):
            slot = entries[k + k + u64(1)]
            retained[m] = k  # overwritten by the next entry unless this one is copied
            taken = slot != NO_SLOT
            m += np.uint64(taken and (same or new_slots[slot] >= 0))
        for j in range(m):
            k = retained[j] + retained[j]
            slot = entries[k + u64(1)]
            pos = find_vacant(target, entries[k])
            target[pos] = entries[k]
            target[pos + u64(1)] = slot if same else np.uint64(new_slots[slot])
        n += int(m)
    return n


@kernel
def _distinct(
    hashes: Any, positions: Any, key: Any, seen: Any, first_positions: Any, order: Any
) -> Any:
    """Find the distinct hashes at some positions, at least one; return their number.

    Parameters
    ----------
    hashes, positions
        The hashes, and the positions in `hashes` to look at.
    key
        A key of `keyed_position`.
    seen
        A hash table that is all zeros: its size is a power of two, more than twice the number of
        positions. An element is 1 + the index of a distinct hash, or 0 if it is free.
    first_positions, order
        Receive the fields of `UnknownNames`; `first_positions` has an element to spare.
    """
    n = u64(0)
    size = np.uint64(len(seen))
    n_positions = np.uint64(len(positions))
    first_positions[0] = positions[0]  # the loop condition below reads it before it is set
    # Invariant: first_positions[:n] are the first positions of the distinct hashes before m, and
    # `seen` has an entry for each of them.
    for m in range(n_positions):
        if m + _PREFETCH_DISTANCE < n_positions:
            ahead = hashes[positions[m + _PREFETCH_DISTANCE]]
            prefetch(seen, keyed_position(ahead, key, size))
        k = positions[m]
        h = hashes[k]
        pos = keyed_position(h, key, size)
        number = np.uint64(seen[pos])  # 1 + index; for a free element, index 0 is compared in vain
        while (number != 0) & (hashes[first_positions[number - np.uint64(number != 0)]] != h):
            pos = (pos + u64(1)) & (size - u64(1))
            number = np.uint64(seen[pos])
        # Whether a hash is new is unpredictable: write without a branch, advance only if it is.
        new = np.uint64(number == 0)
        first_positions[n] = k
        n += new
        number += new * n
        seen[pos] = number
        order[m] = number - u64(1)
    return n


@kernel
def _intern(
    entries: Any, counts: Any, hashes: Any, stable: Any, text: Any, spans: Any, start: Any,
    max_slots: Any, arena: Any, slots: Any,
) -> Any:  # fmt: skip
    """Write the slots of hashes from `start` on; new hashes get the next slots.

    `arena` receives the names of new hashes, and their stable hashes from `stable`. Stops at a new
    hash if `max_slots` slots are taken, or if the table or the arena is full. Returns the position
    after the last hash with a slot.
    """
    count, used = counts
    entries, text = borrowed((entries, text))
    arena_count, arena_hashes, ends, arena_bytes = borrowed(arena)
    slot, m = np.uint64(count[0]), np.uint64(arena_count[0])
    first_m, out_pos = m, ends[m]
    max_pos = np.uint64(len(arena_bytes) - PADDING)
    free = max(np.int64(0), np.int64(max_taken(len(entries))) - np.int64(used[0]))
    max_slots = min(max_slots, slot + min(np.uint64(free), np.uint64(len(arena_hashes)) - m))
    end = np.uint64(len(hashes))
    # Invariant: the hashes from `start` to k - 1 have their slots, which are below `slot`; the
    # arena has m names, which end at `out_pos`. The counts are written once, after the loop.
    for k in range(start, end):
        if k + PREFETCH_DISTANCE < end:
            prefetch_lines(entries, hashes, k)
            prefetch(spans, k + PREFETCH_DISTANCE)
        pos = lookup(entries, hashes[k])
        if entries[pos + u64(1)] == NO_SLOT:
            length = spans[k] & LENGTH_MASK
            if slot >= max_slots or out_pos + length > max_pos:
                end = np.uint64(k)
                break
            entries[pos] = hashes[k]
            entries[pos + u64(1)] = slot
            arena_hashes[m] = stable[k]
            out_pos = copy_name(text, spans[k] >> OFFSET_BITS, length, arena_bytes, out_pos)
            m += u64(1)
            slot += u64(1)
            ends[m] = out_pos
        slots[k] = np.uint32(entries[pos + u64(1)])
    count[0] = slot
    used[0] += np.int64(m - first_m)
    arena_count[0] = m
    return end


def expected_new(looked: int, new: int, remaining: int) -> int:
    """Estimate how many of the remaining names will be new; used to reserve capacity.

    By Heaps' law, n tokens of a text have about n**b distinct ones, with b below 1.

    Parameters
    ----------
    looked, new
        The number of names so far, and how many of these were new.
    remaining
        The number of names to come.

    Examples
    --------
    >>> expected_new(looked=1_000, new=1_000, remaining=9_000)
    4011
    >>> expected_new(looked=0, new=0, remaining=9_000)
    256
    """
    expected = new * (((looked + remaining) / max(looked, 1)) ** _HEAPS_EXPONENT - 1.0)
    return min(remaining, max(_MIN_NEW, int(expected)))


def distinct(hashes: Hashes, positions: Ints) -> UnknownNames:
    """Group the hashes at `positions` by their value."""
    n_positions = len(positions)
    first_positions = np.empty(n_positions + 1, np.int64)
    order = np.empty(n_positions, np.uint32)
    seen = np.zeros(1 << (2 * n_positions).bit_length(), np.uint32)
    out = first_positions.view(np.uint64), order
    n = n_positions and int(_distinct(hashes, positions.view(np.uint64), PROCESS_KEY, seen, *out))
    return UnknownNames(positions, first_positions[:n], order)


class FoundSlots(NamedTuple):
    """Result of a look-up."""

    slots: Ids
    """The slot of each hash; `MISSING` for unknown hashes."""
    unknown: Ints
    """The positions of the unknown hashes, ascending."""


class HashIndex(Counted):
    """Hash table from hashes of names to slots; entries are never removed.

    Attributes
    ----------
    entries : ndarray of uint64
        The hash table, as of `probing`.
    count : ndarray of int64, shape (1,)
        The number of slots of the vocabulary that were considered: all strings with lower slots
        are in the table. `n` is its value.
    used : ndarray of int64, shape (1,)
        The number of entries that are taken.
    """

    def __init__(self) -> None:
        self.entries = empty_entries(MIN_NAMES)
        self.used = np.zeros(1, np.int64)
        self.count = np.zeros(1, np.int64)

    def find(self, hashes: Hashes) -> FoundSlots:
        """Look up hashes."""
        slots, unknown = np.empty(len(hashes), np.uint32), np.empty(len(hashes) + 1, np.int64)
        return FoundSlots(slots, unknown[: int(_find(self.entries, hashes, slots, unknown))])

    def enter(self, hashes: Hashes, slots: Ids) -> None:
        """Set the slots of hashes."""
        self.reserve(len(hashes))
        _put(self.entries, self.used, hashes, slots)

    def intern(
        self, hashes: Hashes, slots: Ids, text: Bytes, spans: Hashes, arena: NameArena,
        max_slots: int = MISSING, start: int = 0, stable: Hashes | None = None,
    ) -> int:  # fmt: skip
        """Write the slots of hashes to `slots`; new hashes get the next slots.

        Parameters
        ----------
        hashes
            The hashes of names; a hash may be repeated.
        slots
            Receives the slots, from position `start` on.
        text, spans
            The bytes of the names, as `names` and `spans` of
            `streaml1.text.parsed_rows.NamedRows`.
        arena
            Receives the new names. It holds the names of the last slots.
        max_slots
            Maximum number of slots.
        start
            Position of the first hash to look up.
        stable
            The stable hashes of the names, for the arena, if `hashes` are others.

        Returns
        -------
        int
            Position after the last hash that got its slot: `len(hashes)`, unless the next one is
            new and there are `max_slots` slots. Call again with it as `start`.
        """
        pos, size = start, self.n
        stable = hashes if stable is None else stable
        # Invariant: the hashes from `start` to before `pos` have their slots.
        while True:
            counts = self.count, self.used
            arrays = arena.count, arena.hashes, arena.ends, arena.bytes
            pos = int(_intern(self.entries, counts, hashes, stable, text, spans,
                            np.uint64(pos), np.uint64(max_slots), arrays, slots))  # fmt: skip
            if pos == len(hashes) or self.n >= max_slots:
                return pos
            n = expected_new(pos - start, self.n - size, len(hashes) - pos)
            self.reserve(n)
            arena.reserve(n, int(spans[pos] & LENGTH_MASK) + TYPICAL_NAME_BYTES * n)

    @property
    def free_entries(self) -> int:
        """How many entries can be added before the table must grow: half of all stay free."""
        return capacity_of(self.entries) // 2 - int(self.used[0])

    def needs_growth(self, n: int) -> bool:
        """Return whether the table must grow to add `n` entries."""
        return n > self.free_entries

    def reserve(self, n: int) -> None:
        """Make room for `n` more entries, so that half of all entries stay free."""
        if self.needs_growth(n):
            needed = 2 * (int(self.used[0]) + n)
            entries = empty_entries(1 << (needed - 1).bit_length())
            _copy_entries(self.entries, np.zeros(0, np.int64), np.empty(_BLOCK, np.uint64), entries)
            self.entries = entries

    def remapped(self, new_slots: Ints) -> HashIndex:
        """Return a copy with slot new_slots[j] in place of j, without entries where it is < 0."""
        target = HashIndex()
        target.n = int(np.count_nonzero(new_slots[: self.n] >= 0))
        max_entries = min(int(np.count_nonzero(new_slots >= 0)), int(self.used[0]))
        target.entries = empty_entries(max(MIN_NAMES, 1 << (4 * max_entries).bit_length()))
        target.used[0] = int(
            _copy_entries(self.entries, new_slots, np.empty(_BLOCK, np.uint64), target.entries)
        )
        return target
