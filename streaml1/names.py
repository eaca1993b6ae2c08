"""The names of features and the slots that a rule keeps their weights in.

Ints are slots themselves, so that rows of numbered columns need no look-up. The first name that
is no int below 2**26 ends that: from then on every name has the next free slot. A string is then
known by its 64-bit hash (that of Python, another in each process): two strings of n have the same
one with a chance of n**2 / 2**65, and would be one feature. A category counts as two strings there.
"""

from __future__ import annotations

import numbers
import struct
import zlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from streaml1.jit import gil_kernel, inlined
from streaml1.rows import NUMBERS, ensure

__all__ = [
    "INTS",
    "MISSING",
    "NameTable",
    "Names",
    "RowBuffer",
    "Sketch",
    "as_int",
    "lookup",
]

MISSING = 0xFFFFFFFF  # no slot: above every size a rule can have
INTS = 2**26  # ints below are slots themselves while no other name is known
INTEGERS = frozenset({int, bool, np.int64, np.int32, np.uint64, np.uint32})


@cache
def _floats(n: int) -> struct.Struct:
    return struct.Struct(f"={n}d")


@cache
def _slots(n: int) -> struct.Struct:
    return struct.Struct(f"={n}I")


def as_int(name: Hashable) -> int | None:
    """The int that a dict would take for the same key as `name`, if it can be a slot."""
    whole: int
    if isinstance(name, int):
        whole = int(name)
    else:
        try:
            whole = int(name)  # type: ignore
        except (TypeError, ValueError, OverflowError):
            return None
        if isinstance(name, str | bytes | bytearray) or whole != name:
            return None
    return whole if 0 <= whole < INTS else None


class RowBuffer:
    """Where the entries of one example are written for a kernel to read."""

    def __init__(self, size: int = 256) -> None:
        self.ids = np.zeros(size, np.uint32)
        self.values = np.zeros(size, np.float64)
        self.ids_bytes = memoryview(self.ids)  # type: ignore[arg-type]
        self.values_bytes = memoryview(self.values)  # type: ignore[arg-type]
        self.plain_ids = np.zeros(size, np.uint32)
        self.plain_values = np.zeros(size, np.float64)
        self.keys = np.zeros(size, np.uint64)
        self.texts = np.zeros(size, np.uint64)
        self.hashes = np.zeros(size, np.uint64)
        self.aliases = np.zeros(size, np.uint64)
        self.scratch = np.zeros(3, np.uint64)

    def __len__(self) -> int:
        return len(self.ids)


@inlined
def lookup(entries: Any, h: Any) -> Any:
    """Where in a table the hash `h` stands, or would.

    `entries` is (hash, slot) for each of a power of two of places; a slot `MISSING` is free.
    """
    mask = np.uint64(len(entries) // 2 - 1)
    place = h & mask
    while True:
        at = place + place
        if entries[at + np.uint64(1)] == MISSING or entries[at] == h:
            return at
        place = (place + np.uint64(1)) & mask


@gil_kernel
def _find(entries: Any, hashes: Any, slots: Any) -> None:
    for k in range(np.uint64(len(hashes))):
        slots[k] = entries[lookup(entries, hashes[k]) + np.uint64(1)]


@gil_kernel
def _put(entries: Any, hashes: Any, slots: Any) -> None:
    for k in range(np.uint64(len(hashes))):
        at = lookup(entries, hashes[k])
        entries[at] = hashes[k]
        entries[at + np.uint64(1)] = slots[k]


class NameTable:
    """The slots of names of any kind.

    Attributes
    ----------
    known : list
        The names by slot.
    entries : ndarray
        An open-addressing table of the strings: (hash, slot) a place, half of them free at least.
        A category `n=v` may stand there twice: by its own hash, and by a mix of those of n and v,
        which finds it before the two are joined.
    used : ndarray
        How many places are taken, shape (1,).
    others : dict
        The slots of the names that are no strings.
    """

    def __init__(self, known: Iterable[Hashable] = ()) -> None:
        self.known: list[Hashable] = []
        self.others: dict[Hashable, int] = {}
        self.entries = _free(1024)
        self.used = np.zeros(1, np.int64)
        self.admit_all(list(known))

    def find_all(self, names: Sequence[Hashable]) -> Any:
        """Slots of names, uint32; `MISSING` for those unknown."""
        slots = np.full(len(names), MISSING, np.uint32)
        are_str = np.fromiter((isinstance(name, str) for name in names), bool, len(names))
        hashes = _hashes(name for name in names if isinstance(name, str))
        found = np.empty(len(hashes), np.uint32)
        _find(self.entries, hashes, found)
        slots[are_str] = found
        for k in np.flatnonzero(~are_str).tolist():
            slots[k] = self.others.get(names[k], MISSING)
        return slots

    def admit_all(self, names: Sequence[Hashable]) -> Any:
        """Slots of distinct names, uint32; unknown ones are given the next."""
        slots = self.find_all(names)
        new = np.flatnonzero(slots == MISSING)
        before = len(self.known)
        slots[new] = np.arange(before, before + len(new))
        fresh = [names[k] for k in new.tolist()]
        strings = [k for k, name in enumerate(fresh) if isinstance(name, str)]
        hashes = _hashes(fresh[k] for k in strings)
        others = {n: before + k for k, n in enumerate(fresh) if not isinstance(n, str)}
        self.widen(len(fresh))
        try:
            self.others.update(others)
            _put(self.entries, hashes, slots[new[strings]])
            self.used += len(hashes)
            self.known.extend(fresh)
        except BaseException:  # a signal, or a name's own `__eq__`
            self._forget_from(before)
            raise
        return slots

    def _forget_from(self, size: int) -> None:
        del self.known[size:]
        self.others = {name: slot for name, slot in self.others.items() if slot < size}
        kept = self.entries.reshape(-1, 2)
        self._rewrite(kept[kept[:, 1] < size], len(kept))

    def widen(self, n: int) -> None:
        """Have places free for `n` strings more."""
        needed = 2 * (int(self.used[0]) + n)
        if needed > len(self.entries) // 2:
            old = self.entries.reshape(-1, 2)
            self._rewrite(old[old[:, 1] != MISSING], 1 << (2 * needed - 1).bit_length())

    def _rewrite(self, taken: Any, places: int) -> None:
        entries = _free(places)
        _put(entries, taken[:, 0].copy(), taken[:, 1].astype(np.uint32))
        self.entries, self.used = entries, np.array([len(taken)])

    def check(self) -> None:
        """Raise AssertionError where table, dict and list disagree."""
        slots = self.find_all(self.known)
        ensure((slots == np.arange(len(self.known))).all(), "a name is not found at its slot")
        places = self.entries.reshape(-1, 2)[:, 1]
        taken = places[places != MISSING]
        ensure(len(taken) == self.used[0], "the places taken are miscounted")
        ensure(np.all(taken < len(self.known)), "a place has a slot without a name")
        strings = len(self.known) - len(self.others)
        ensure(strings == len(np.unique(taken)), "a name stands in one place alone")
        ensure(2 * len(taken) <= len(places), "the table is more than half full")


def _free(places: int) -> Any:
    entries = np.zeros(2 * places, np.uint64)
    entries[1::2] = MISSING
    return entries


def _hashes(names: Iterable[Hashable]) -> Any:
    """Hashes of strings, whatever a subclass of str makes of its own."""
    return np.fromiter(map(str.__hash__, names), np.int64).view(np.uint64)  # type: ignore[arg-type]


class Names:
    """Which slot each name has.

    Attributes
    ----------
    table : NameTable or None
        None while ints are slots themselves.
    """

    def __init__(self) -> None:
        self.table: NameTable | None = None

    def write_ints(self, x: Mapping[Hashable, Any], buffer: RowBuffer) -> bool:
        """Write an example of numbers named by ints into the buffer; False where it is not one."""
        if self.table is not None:
            return False
        names, values = list(x), list(x.values())
        n = len(x)
        # Of these types no code of somebody's own runs, which might use the buffer itself.
        if not (INTEGERS.issuperset(map(type, names)) and NUMBERS.issuperset(map(type, values))):
            return False
        try:
            _slots(n).pack_into(buffer.ids_bytes, 0, *names)
            _floats(n).pack_into(buffer.values_bytes, 0, *values)
        except (struct.error, OverflowError):  # a name or a value out of range
            return False
        return True

    def find_all(self, names: Sequence[Hashable]) -> Any:
        """Slots of names, uint32; `MISSING` for those unknown."""
        if self.table is not None:
            return self.table.find_all(names)
        found = [as_int(name) for name in names]
        return np.array([MISSING if j is None else j for j in found], np.uint32)

    def name(self, slot: int) -> Hashable:
        """The name that has a slot."""
        return slot if self.table is None else self.table.known[slot]


class Sketch:
    """How many distinct names there were among those whose slots were given back.

    A HyperLogLog of 4,096 registers (Flajolet, Fusy, Gandouet & Meunier 2007): the standard
    error of the estimate is 1.04 / sqrt(4096), 1.6%.

    Examples
    --------
    >>> sketch = Sketch()
    >>> sketch.add([f"word {k}" for k in range(1000)])
    >>> sketch.add([f"word {k}" for k in range(1000)])
    >>> abs(sketch.estimate() - 1000) < 50
    True
    """

    BITS = 12

    def __init__(self, registers: Any = None) -> None:
        self.registers = np.zeros(1 << self.BITS, np.uint8) if registers is None else registers

    def check(self) -> None:
        """Raise AssertionError where the registers are none."""
        r = self.registers
        ensure(r.dtype == np.uint8 and r.shape == (1 << self.BITS,), "the sketch is no registers")
        ensure(np.all(r <= 53), "a register of the sketch is out of range")

    def copy(self) -> Sketch:
        """Return a sketch that goes on by itself."""
        return Sketch(self.registers.copy())

    def add(self, names: Iterable[Hashable]) -> None:
        """Count names by a hash that is the same in every process."""
        texts = (_text(name) for name in names)
        h = np.fromiter((zlib.crc32(t) | zlib.adler32(t) << 32 for t in texts), np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            h = (h ^ (h >> np.uint64(shift))) * np.uint64(factor)  # splitmix64's mixing
        h ^= h >> np.uint64(31)
        register = (h >> np.uint64(64 - self.BITS)).astype(np.intp)
        rest = h & np.uint64((1 << 52) - 1)
        rank = 53 - np.frexp(rest.astype(np.float64))[1]
        np.maximum.at(self.registers, register, rank.astype(np.uint8))

    def estimate(self) -> int:
        """About how many distinct names have been added."""
        m = len(self.registers)
        raw = 0.7213 / (1.0 + 1.079 / m) * m * m / np.sum(np.exp2(-self.registers.astype(float)))
        empty = np.count_nonzero(self.registers == 0)
        if raw <= 2.5 * m and empty:
            raw = m * np.log(m / empty)
        return round(float(raw))


def _text(name: Hashable) -> bytes:
    """A name as bytes: the same for those that a dict takes for the same key."""
    if isinstance(name, str):
        return b"s" + name.encode("utf-8", "surrogatepass")
    if isinstance(name, numbers.Number | np.generic):
        try:
            whole = int(name)  # type: ignore
            if whole == name:
                return b"i%d" % whole
            name = float(name)  # type: ignore
        except (TypeError, ValueError, OverflowError):
            pass
    return repr(name).encode("utf-8", "surrogatepass")
