"""The names of features and the slots that a rule keeps their weights in.

Ints are slots themselves, so that rows of numbered columns need no look-up. The first name that
is no int below 2**26 ends that: from then on every name has the next free slot.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Hashable, Iterable, Mapping
from functools import cache
from itertools import repeat
from typing import Any

import numpy as np

__all__ = ["MISSING", "Names", "Sketch"]

MISSING = 0xFFFFFFFF  # no slot: above every size a rule can have
INTS = 2**26  # ints below are slots themselves while no other name is known


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

    def __len__(self) -> int:
        return len(self.ids)


class Names:
    """Which slot each name has.

    Attributes
    ----------
    table : dict or None
        The slots by name; None while ints are slots themselves.
    known : list
        The names by slot, beside `table`.
    """

    def __init__(self) -> None:
        self.table: dict[Hashable, int] | None = None
        self.known: list[Hashable] = []
        self._last: list[Hashable] | None = None
        self._found: list[int] = []

    def __len__(self) -> int:
        """How many slots names have been given; 0 while ints are slots themselves."""
        return len(self.known)

    def find(self, x: Mapping[Hashable, Any], buffer: RowBuffer) -> bool:
        """Write the slots and values of an example; False where it wants `plain_items` first.

        Unknown names get `MISSING`. Nothing is learnt of the names.
        """
        n = len(x)
        names = list(x)
        try:
            _floats(n).pack_into(buffer.values_bytes, 0, *x.values())
            if self.table is None:
                _slots(n).pack_into(buffer.ids_bytes, 0, *names)
                return True
        except Exception:  # a string, None, a name that is no int: or an object's own error
            return False
        if self._last is None or names != self._last:
            self._found = list(map(self.table.get, names, repeat(MISSING)))
            self._last = names
        _slots(n).pack_into(buffer.ids_bytes, 0, *self._found)
        return True

    def admit(self, x: Mapping[Hashable, Any], buffer: RowBuffer) -> bool:
        """As `find`, but a new name is given a slot; also False where a value is zero."""
        values = x.values()
        try:
            if not all(values) or not self.find(x, buffer):
                return False
        except Exception:  # truth of an array, say
            return False
        if self.table is not None and MISSING in self._found:
            assert self._last is not None
            found, last = self._found, self._last
            k = -1
            for _ in range(found.count(MISSING)):
                k = found.index(MISSING, k + 1)
                found[k] = self._give(last[k])
            _slots(len(found)).pack_into(buffer.ids_bytes, 0, *found)
        return True

    def _give(self, name: Hashable) -> int:
        assert self.table is not None
        slot = self.table[name] = len(self.known)
        self.known.append(name)
        return slot

    def find_all(self, names: Iterable[Hashable]) -> Any:
        """Slots of distinct names, uint32; `MISSING` for those unknown."""
        if self.table is None:
            found = [as_int(name) for name in names]
            return np.array([MISSING if j is None else j for j in found], np.uint32)
        return np.fromiter(map(self.table.get, names, repeat(MISSING)), np.uint32)

    def admit_all(self, names: list[Hashable]) -> Any:
        """Slots of distinct names, uint32; unknown ones are given one.

        While ints are slots, every name must be such an int (see `are_ints`).
        """
        slots = self.find_all(names)
        if self.table is not None:
            for k in np.flatnonzero(slots == MISSING):
                slots[k] = self._give(names[k])
            self._last = None
        return slots

    def forget_from(self, size: int) -> None:
        """Take back the slots from `size` on, given for an example that was then refused."""
        assert self.table is not None
        for name in self.known[size:]:
            del self.table[name]
        del self.known[size:]
        self._last = None

    def start_table(self, known: Iterable[Hashable]) -> None:
        """Give up ints as slots: the names in `known` have the slots 0, 1, ..."""
        self.known = list(known)
        self.table = {name: slot for slot, name in enumerate(self.known)}
        self._last = None

    def name(self, slot: int) -> Hashable:
        """The name that has a slot."""
        return slot if self.table is None else self.known[slot]

    def check(self) -> None:
        """Raise AssertionError where table and list disagree."""
        if self.table is not None:
            assert len(self.table) == len(self.known), "a name stands in table or list alone"
            for slot, name in enumerate(self.known):
                assert self.table[name] == slot or name != name, f"{name!r} is not at slot {slot}"


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
    if isinstance(name, str):
        return name.encode("utf-8", "surrogatepass")
    whole = as_int(name)
    return repr(name if whole is None else whole).encode("utf-8", "surrogatepass")
