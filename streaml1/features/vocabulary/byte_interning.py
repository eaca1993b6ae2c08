"""Names that arrive as bytes: kept as bytes and found by stable hashes.

`InternedVocabulary` finds a string by Python's own hash, which differs between processes. Names
that a parser reads as bytes have no such hash, and making a string of each is what costs most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.aligned import aligned_empty
from streaml1.core.jit import COMPILED, inlined, kernel
from streaml1.core.simd import borrowed, prefetch, prefetch_early
from streaml1.features.vocabulary.probing import (
    MISSING,
    NO_SLOT,
    ONE,
    PREFETCH_DISTANCE,
    empty_entries,
    find_vacant,
    home_line,
    lookup,
    prefetch_lines,
)
from streaml1.text.byte_names import copy_short_bytes

__all__ = [
    "MIN_NAMES",
    "PADDING",
    "TYPICAL_NAME_BYTES",
    "NameArena",
    "HashIndex",
    "UnknownNames",
    "copied",
    "distinct",
    "expected_new",
]

MIN_NAMES = 64  # names that there is room for: copies of a model are to be small
_TOGETHER = 256  # places of a table that are looked at before what is in them moves
TYPICAL_NAME_BYTES = 8  # letters of a name
SHARE = 4  # words of a table for each entry that it may have: half of its places stay free
_FEW, _HEAPS = 256, 0.7
PADDING = 32  # bytes behind names that are copied by words
_AHEAD, _LOW = np.uint64(16), np.uint64(2**32 - 1)


class UnknownNames(NamedTuple):
    """Names without a slot among some, which may come again."""

    places: Any
    """Where one is, int64."""
    first_positions: Any
    """Where each comes first, int64."""
    order: Any
    """Which of these each place has, uint32."""

    def fill(self, slots: Any, given: Any) -> None:
        """Put the slots that were given to them where they are."""
        _fill(slots, self.places.view(np.uint64), self.order, given)


@inlined
def _copied_each(names: Any, begin: Any, size: Any, bytes_: Any, to: Any) -> Any:
    """Copy some bytes; returns where the copy ends. Up to `PADDING` more are written behind it."""
    for i in range(begin, begin + size):
        bytes_[to] = names[i]
        to += ONE
    return to


@inlined
def _copied_by_words(names: Any, begin: Any, size: Any, bytes_: Any, to: Any) -> Any:
    if begin + size + np.uint64(PADDING) > np.uint64(len(names)):  # no more may be read
        return _copied_each(names, begin, size, bytes_, to)
    first, there = np.uint64(names.ctypes.data) + begin, np.uint64(bytes_.ctypes.data)
    return copy_short_bytes(first, first + size, there + to) - there


copied = _copied_by_words if COMPILED else _copied_each


@kernel
def _find(entries: Any, hashes: Any, slots: Any, places: Any) -> Any:
    """Slots of hashes, `MISSING` for those unknown, and places of these; returns how many are."""
    n, unknown = np.uint64(len(hashes)), np.uint64(0)
    for k in range(n):
        if k + PREFETCH_DISTANCE < n:
            prefetch_early(entries, home_line(entries, hashes[k + PREFETCH_DISTANCE]))
        at = lookup(entries, hashes[k])
        if entries[at + ONE] == NO_SLOT:
            places[unknown] = k
            unknown += ONE
        slots[k] = np.uint32(entries[at + ONE])
    return unknown


@kernel
def _fill(slots: Any, places: Any, order: Any, given: Any) -> None:
    for m in range(np.uint64(len(places))):
        slots[places[m]] = given[order[m]]


@kernel
def _put(entries: Any, used: Any, hashes: Any, slots: Any) -> None:
    """Enter hashes; `used` counts those that were not there."""
    for k in range(np.uint64(len(hashes))):
        at = lookup(entries, hashes[k])
        used[0] += np.int64(entries[at + ONE] == NO_SLOT)
        entries[at] = hashes[k]
        entries[at + ONE] = slots[k]


@kernel
def _copy_entries(entries: Any, new_slots: Any, target: Any) -> Any:
    """Enter what is in a table into another; returns how much that is.

    Each slot has another in `new_slots`, if that is not empty; a negative one is left out.
    """
    n = 0
    same = len(new_slots) == 0
    stays = np.empty(_TOGETHER, np.uint64)
    places = np.uint64(len(entries) // 2)
    for begin in range(np.uint64(0), places, np.uint64(_TOGETHER)):
        m = np.uint64(0)
        for k in range(begin, min(places, begin + np.uint64(_TOGETHER))):
            slot = entries[k + k + ONE]
            stays[m] = k  # whether it does cannot be foretold
            taken = slot != NO_SLOT
            m += np.uint64(taken and (same or new_slots[slot] >= 0))
        for j in range(m):
            k = stays[j] + stays[j]
            slot = entries[k + ONE]
            at = find_vacant(target, entries[k])
            target[at] = entries[k]
            target[at + ONE] = slot if same else np.uint64(new_slots[slot])
        n += int(m)
    return n


@kernel
def _distinct(hashes: Any, places: Any, seen: Any, first_positions: Any, order: Any) -> Any:
    """Find the first of each hash at some places; `seen` is zeros, a power of two of them."""
    n = np.uint64(0)
    mask = np.uint64(len(seen) - 1)
    many = np.uint64(len(places))
    first_positions[0] = places[0]
    for m in range(many):
        if m + _AHEAD < many:
            prefetch(seen, hashes[places[m + _AHEAD]] & mask)
        k = places[m]
        h = hashes[k]
        place = h & mask
        met = np.uint64(seen[place])
        while (met != 0) & (hashes[first_positions[met - np.uint64(met != 0)]] != h):
            place = (place + ONE) & mask
            met = np.uint64(seen[place])
        new = np.uint64(met == 0)  # whether it is cannot be foretold
        first_positions[n] = k
        n += new
        met += new * n
        seen[place] = met
        order[m] = met - ONE
    return n


@kernel
def _intern(
    entries: Any, counts: Any, hashes: Any, names: Any, spans: Any, at: Any, most: Any,
    arena: Any, slots: Any,
) -> Any:  # fmt: skip
    """Slots of hashes from a place on; those without one get the next, and their names are kept.

    It ends at a new one where there are `most` slots, or no room for it or its name; returns where.
    """
    count, used = counts
    entries, names = borrowed((entries, names))
    late, kept, ends, bytes_ = borrowed(arena)
    slot, m = np.uint64(count[0]), np.uint64(late[0])
    before, to = m, ends[m]
    room = np.uint64(len(bytes_) - PADDING)
    places = max(np.int64(0), np.int64(len(entries)) // SHARE - np.int64(used[0]))
    most = min(most, slot + min(np.uint64(places), np.uint64(len(kept)) - m))
    end = np.uint64(len(hashes))
    for k in range(at, end):
        if k + PREFETCH_DISTANCE < end:
            prefetch_lines(entries, hashes, k)
            prefetch(spans, k + PREFETCH_DISTANCE)
        place = lookup(entries, hashes[k])
        if entries[place + ONE] == NO_SLOT:
            length = spans[k] & _LOW
            if slot >= most or to + length > room:
                end = np.uint64(k)
                break
            entries[place] = hashes[k]
            entries[place + ONE] = slot
            kept[m] = hashes[k]
            to = copied(names, spans[k] >> np.uint64(32), length, bytes_, to)
            m += ONE
            slot += ONE
            ends[m] = to
        slots[k] = np.uint32(entries[place + ONE])
    count[0] = slot
    used[0] += np.int64(m - before)
    late[0] = m
    return end


@kernel
def _keep(
    kept: Any, hashes: Any, ends: Any, bytes_: Any, target: Any, target_ends: Any, letters: Any
) -> None:
    """Write the names that are kept one after the other."""
    n, to = np.uint64(0), np.uint64(0)
    for k in range(np.uint64(len(kept))):
        if kept[k]:
            target[n] = hashes[k]
            to = copied(bytes_, ends[k], ends[k + ONE] - ends[k], letters, to)
            n += ONE
            target_ends[n] = to


def expected_new(looked: int, new: int, remaining: int) -> int:
    """For how many new names among those `target` to make room, as a kernel ends where it has none.

    Of so many looked at so many were new. Of texts they grow as a power below one (Heaps's law).
    """
    expected = new * (((looked + remaining) / max(looked, 1)) ** _HEAPS - 1.0)
    return min(remaining, max(_FEW, int(expected)))


def distinct(hashes: Any, places: Any) -> UnknownNames:
    """Return the names at some places, int64, by their hashes."""
    first_positions, order = np.empty(len(places) + 1, np.int64), np.empty(len(places), np.uint32)
    seen = np.zeros(1 << (2 * len(places)).bit_length(), np.uint32)
    n = len(places) and int(
        _distinct(hashes, places.view(np.uint64), seen, first_positions.view(np.uint64), order)
    )
    return UnknownNames(places, first_positions[:n], order)


class _Counted:
    """What has a count where kernels find it: `count`, int64, of one; `n` tells it."""

    count: Any

    @property
    def n(self) -> int:
        """What is counted."""
        return int(self.count[0])

    @n.setter
    def n(self, n: int) -> None:
        self.count[0] = n


class NameArena(_Counted):
    """Names as UTF-8, one after the other.

    What is in its arrays up to `n` never changes, so that a copy costs nothing.

    Attributes
    ----------
    count : ndarray
        How many names.
    hashes : ndarray
        Their stable hashes, uint64.
    ends : ndarray
        Where in `bytes` each begins and the one before it ends, uint64; one more than names.
    bytes : ndarray
        The names, uint8.
    """

    def __init__(self) -> None:
        self.count = np.zeros(1, np.int64)
        self.hashes = np.empty(MIN_NAMES, np.uint64)
        self.ends = np.zeros(MIN_NAMES + 1, np.uint64)
        self.bytes = np.empty(8 * MIN_NAMES + PADDING, np.uint8)

    def __len__(self) -> int:
        return self.n

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return int(self.hashes.nbytes + self.ends.nbytes + self.bytes.nbytes)

    def needs_growth(self, n: int, letters: int) -> bool:
        """Whether there is no room for `n` names more, of so many bytes together."""
        used = int(self.ends[self.n])
        return self.n + n > len(self.hashes) or used + letters + PADDING > len(self.bytes)

    def reserve(self, n: int, letters: int) -> None:
        """Have room for `n` names more, of so many bytes together."""
        used = int(self.ends[self.n])
        if self.n + n > len(self.hashes):
            most = 2 * (self.n + n)
            hashes = _grown(self.hashes, self.n, most)
            ends = _grown(self.ends, self.n + 1, most + 1)
            self.hashes, self.ends = hashes, ends
        if used + letters + PADDING > len(self.bytes):
            self.bytes = _grown(self.bytes, used, 2 * (used + letters) + PADDING)

    def snapshot(self) -> NameArena:
        """Return the names as of now."""
        copy = NameArena.__new__(NameArena)
        copy.count = self.count.copy()
        copy.hashes, copy.ends, copy.bytes = self.hashes, self.ends, self.bytes
        return copy

    def retained(self, kept: Any) -> NameArena:
        """Those that are `kept`, a bool each."""
        places = np.flatnonzero(kept)
        target, n = NameArena(), len(places)
        ends = self.ends[: self.n + 1]
        letters = int((ends[1:][places] - ends[places]).sum())
        target.hashes, target.ends = np.empty(n, np.uint64), np.zeros(n + 1, np.uint64)
        target.bytes = np.empty(letters + PADDING, np.uint8)
        _keep(kept, self.hashes, ends, self.bytes, target.hashes, target.ends, target.bytes)
        target.n = n
        return target

    def name(self, k: int) -> str:
        """Return the k-th name."""
        ends = self.ends.data
        return str(self.bytes.data[ends[k] : ends[k + 1]], "utf-8", "surrogatepass")

    def names(self) -> Iterator[str]:
        """All names."""
        ends = self.ends[: self.n + 1].tolist()
        raw = self.bytes[: ends[-1]].tobytes()
        if raw.isascii():
            text = raw.decode()
            return (text[lo:hi] for lo, hi in zip(ends, ends[1:], strict=False))
        return (raw[lo:hi].decode() for lo, hi in zip(ends, ends[1:], strict=False))


def _grown(a: Any, n: int, size: int) -> Any:
    grown = aligned_empty(size, a.dtype)
    grown[:n] = a[:n]
    return grown


class HashIndex(_Counted):
    """An open-addressing table from hashes to slots: nothing is ever taken out.

    Attributes
    ----------
    entries : ndarray
        (hash, slot) a place; half of them are free at least.
    count : ndarray
        All slots below are in it, but those of names that are no strings.
    used : ndarray
        int64, of one: places taken.
    """

    def __init__(self) -> None:
        self.entries = empty_entries(MIN_NAMES)
        self.used = np.zeros(1, np.int64)
        self.count = np.zeros(1, np.int64)

    def find(self, hashes: Any) -> tuple[Any, Any]:
        """Slots of hashes, uint32, `MISSING` for those unknown, and the places of these, int64."""
        slots, places = np.empty(len(hashes), np.uint32), np.empty(len(hashes) + 1, np.int64)
        if not len(hashes):  # no compiler is loaded for it
            return slots, places[:0]
        return slots, places[: int(_find(self.entries, hashes, slots, places))]

    def enter(self, hashes: Any, slots: Any) -> None:
        """Have some hashes known."""
        self.reserve(len(hashes))
        _put(self.entries, self.used, hashes, slots)

    def intern(
        self, hashes: Any, slots: Any, names: Any, spans: Any, arena: NameArena,
        most: int = MISSING, at: int = 0,
    ) -> int:  # fmt: skip
        """Slots of hashes; those without one get the next, and their names are kept.

        Parameters
        ----------
        hashes, names, spans
            As of `streaml1.text.parsed_rows.NamedRows`.
        slots
            Gets the slots, uint32, from the `at`-th on.
        arena
            Gets the names; the slots before are those of other names.
        most
            How many slots there may be.
        at
            Where to begin.

        Returns
        -------
        How far it came: less than all where there are `most` slots.
        """
        begun, before = at, self.n
        while True:
            counts = self.count, self.used
            arrays = arena.count, arena.hashes, arena.ends, arena.bytes
            at = int(_intern(self.entries, counts, hashes, names, spans, np.uint64(at),
                            np.uint64(most), arrays, slots))  # fmt: skip
            if at == len(hashes) or self.n >= most:
                return at
            n = expected_new(at - begun, self.n - before, len(hashes) - at)
            self.reserve(n)
            arena.reserve(n, int(spans[at] & _LOW) + TYPICAL_NAME_BYTES * n)

    @property
    def free_entries(self) -> int:
        """How many entries more there are places for: half of them stay free."""
        return len(self.entries) // SHARE - int(self.used[0])

    def needs_growth(self, n: int) -> bool:
        """Whether there are no places free for `n` entries more."""
        return n > self.free_entries

    def reserve(self, n: int) -> None:
        """Have places free for `n` entries more."""
        if self.needs_growth(n):
            needed = 2 * (int(self.used[0]) + n)
            entries = empty_entries(1 << (needed - 1).bit_length())
            _copy_entries(self.entries, np.zeros(0, np.int64), entries)
            self.entries = entries

    def remapped(self, new_slots: Any) -> HashIndex:
        """Return the table after slots were remapped; negative entries are dropped."""
        target = HashIndex()
        target.n = int(np.count_nonzero(new_slots[: self.n] >= 0))
        kept = min(int(np.count_nonzero(new_slots >= 0)), int(self.used[0]))
        target.entries = empty_entries(max(MIN_NAMES, 1 << (4 * kept).bit_length()))
        target.used[0] = int(_copy_entries(self.entries, new_slots, target.entries))
        return target
