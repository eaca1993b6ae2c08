"""What waits, by id and in order of arrival: columns, so that a million of it is little to hold.

An object a waiting example would be some millions of objects, which Python's garbage collector
walks over now and then for half a second; columns of numbers it never looks at.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

__all__ = ["ASKED", "EARLY", "NEGATIVE", "Id", "Table"]

Id = str | int

ASKED, EARLY, NEGATIVE = 1, 2, 3
"""An example without its label, a label without its example, and one learnt as False meanwhile."""

_HEADS = 2  # slots 0 and 1 are the ends of the two queues


class Table:
    """Slots of columns, two queues through them, and the slot of each id.

    What waits (`ASKED` and `EARLY`) is one queue, what was learnt as `NEGATIVE` the other; each is
    in order of `seq`.

    Attributes
    ----------
    kind, p, since, time, seq, segment, number, weight
        Of each slot: what it holds; the prediction; stream time as it came; its own time, NaN
        where it has none; its number in the order of arrival; where the log has it; which example
        of the report a `NEGATIVE` is, and its weight.
    id, body
        Of each slot: the id, and what is to be learnt.
    kinds
        How many there are of each kind.
    """

    def __init__(self, scalar: bool = True) -> None:
        self._slots: dict[Id, int] = {}
        self._free: list[int] = []
        self._scalar = scalar
        self.kinds = [0, 0, 0, 0]
        self.kind = array("b")
        self.p: Any = array("d") if scalar else []
        self.since, self.time, self.weight = array("d"), array("d"), array("d")
        self.seq, self.number = array("q"), array("q")
        self.segment = array("i")
        self.id: list[Any] = []
        self.body: list[Any] = []
        self._before, self._after = array("i"), array("i")
        self._grow(_HEADS)
        self._free.clear()
        for head in range(_HEADS):
            self._before[head] = self._after[head] = head

    def __len__(self) -> int:
        return len(self._slots)

    def find(self, id: Id) -> int:
        """The slot of an id, or -1."""
        return self._slots.get(id, -1)

    def add(self, id: Id, kind: int, seq: int, since: float, time: float, body: Any) -> int:
        """Put something at the end of its queue, and return its slot."""
        if not self._free:
            self._grow(max(64, len(self.kind) // 2))
        slot = self._free.pop()
        self._slots[id] = slot
        self.kinds[kind] += 1
        self.kind[slot], self.seq[slot] = kind, seq
        self.since[slot], self.time[slot] = since, time
        self.segment[slot] = self.number[slot] = -1
        self.id[slot], self.body[slot] = id, body
        self._link(slot, kind == NEGATIVE)
        return slot

    def remove(self, slot: int) -> None:
        """Forget a slot."""
        self._unlink(slot)
        del self._slots[self.id[slot]]
        self.kinds[self.kind[slot]] -= 1
        self.kind[slot] = 0
        self.id[slot] = self.body[slot] = None
        if not self._scalar:
            self.p[slot] = None
        self._free.append(slot)

    def turn(self, slot: int, seq: int, since: float) -> None:
        """Make an `ASKED` one a `NEGATIVE`, the last of its queue."""
        self._unlink(slot)
        self.kinds[ASKED] -= 1
        self.kinds[NEGATIVE] += 1
        self.kind[slot], self.seq[slot], self.since[slot] = NEGATIVE, seq, since
        self._link(slot, True)

    def first(self, negative: bool) -> int:
        """The oldest of a queue, or -1."""
        slot = self._after[negative]
        return -1 if slot < _HEADS else slot

    def following(self, slot: int) -> int:
        """The next in the queue of a slot, or -1."""
        slot = self._after[slot]
        return -1 if slot < _HEADS else slot

    def queue(self, negative: bool) -> Iterator[int]:
        """The slots of a queue, the oldest first."""
        slot = self.first(negative)
        while slot >= 0:
            yield slot
            slot = self.following(slot)

    def _link(self, slot: int, head: int) -> None:
        last = self._before[head]
        self._before[slot], self._after[slot] = last, head
        self._after[last] = self._before[head] = slot

    def _unlink(self, slot: int) -> None:
        before, after = self._before[slot], self._after[slot]
        self._after[before], self._before[after] = after, before

    def _grow(self, more: int) -> None:
        n = len(self.kind)
        for column in (self.kind, self.since, self.time, self.weight, self.seq, self.number,
                       self.segment, self._before, self._after):  # fmt: skip
            column.frombytes(bytes(more * column.itemsize))
        if self._scalar:
            self.p.frombytes(bytes(more * 8))
        else:
            self.p += [None] * more
        self.id += [None] * more
        self.body += [None] * more
        self._free += range(n + more - 1, n - 1, -1)

    def check(self) -> None:
        """Raise AssertionError unless all parts agree; for tests."""
        found = [[*self.queue(False)], [*self.queue(True)]]
        for negative, slots in enumerate(found):
            assert [self.seq[slot] for slot in slots] == sorted(self.seq[slot] for slot in slots)
            assert all((self.kind[slot] == NEGATIVE) == bool(negative) for slot in slots)
        slots = found[0] + found[1]
        assert {self.id[slot]: slot for slot in slots} == self._slots
        assert len(slots) + len(self._free) + _HEADS == len(self.kind) == len(self.body)
        assert not {*slots} & {*self._free}
        assert self.kinds[1:] == [sum(self.kind[slot] == k for slot in slots) for k in (1, 2, 3)]
