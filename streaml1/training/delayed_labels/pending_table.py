"""Pending examples and labels, by id and in order of arrival.

The table is a set of columns. With one object for each of a million pending examples, Python's
garbage collector would traverse millions of objects, which stalls the run for half a second; it
never traverses columns of numbers.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

__all__ = ["ASSUMED_NEGATIVE", "EARLY_LABEL", "UNLABELED", "Id", "PendingTable"]

Id = str | int

UNLABELED, EARLY_LABEL, ASSUMED_NEGATIVE = 1, 2, 3
"""Kinds: an example without its label, a label without its example, and an example that was learnt
as False because its label did not arrive in time."""

_HEADS = 2  # slots 0 and 1 are the sentinels of the two queues


class PendingTable:
    """Columns with a slot for each pending item, two queues through them, and the slot of each id.

    Queue False holds `UNLABELED` and `EARLY_LABEL`, queue True holds `ASSUMED_NEGATIVE`. Each is a
    doubly linked list in order of `seq`; its sentinel is the slot with the number of the queue.
    Invariant: every slot is a sentinel, in one queue, or free.

    Parameters
    ----------
    scalar
        Whether a prediction is one number, and not the bytes of several.

    Attributes
    ----------
    kind : array of int8
        Kind of the item, or 0.
    p : array of float64 or list of bytes
        Prediction of the example.
    since : array of float64
        Stream time at which the item arrived.
    time : array of float64
        Time of its own record; NaN if it has none.
    seq : array of int64
        Sequence number in order of arrival.
    segment : array of int32
        Segment of the log that holds it.
    number, weight : array of int64, array of float64
        For `ASSUMED_NEGATIVE`: which example of the report it is, and its sample weight.
    id, body : list
        Id, and the content to be learnt.
    kinds : list of int
        Number of items of each kind.
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
        self._previous, self._next = array("i"), array("i")
        self._grow(_HEADS)
        self._free.clear()
        for head in range(_HEADS):
            self._previous[head] = self._next[head] = head

    def __len__(self) -> int:
        return len(self._slots)

    def find(self, id: Id) -> int:
        """Return the slot of an id, or -1."""
        return self._slots.get(id, -1)

    def add(self, id: Id, kind: int, seq: int, since: float, time: float, body: Any) -> int:
        """Append an item to its queue, and return its slot."""
        if not self._free:
            self._grow(max(64, len(self.kind) // 2))
        slot = self._free.pop()
        self._slots[id] = slot
        self.kinds[kind] += 1
        self.kind[slot], self.seq[slot] = kind, seq
        self.since[slot], self.time[slot] = since, time
        self.segment[slot] = self.number[slot] = -1
        self.id[slot], self.body[slot] = id, body
        self._append(slot, kind == ASSUMED_NEGATIVE)
        return slot

    def remove(self, slot: int) -> None:
        """Remove an item and free its slot."""
        self._unlink(slot)
        del self._slots[self.id[slot]]
        self.kinds[self.kind[slot]] -= 1
        self.kind[slot] = 0
        self.id[slot] = self.body[slot] = None
        if not self._scalar:
            self.p[slot] = None
        self._free.append(slot)

    def assume_negative(self, slot: int, seq: int, since: float) -> None:
        """Make an `UNLABELED` item an `ASSUMED_NEGATIVE`, the last of its queue."""
        self._unlink(slot)
        self.kinds[UNLABELED] -= 1
        self.kinds[ASSUMED_NEGATIVE] += 1
        self.kind[slot], self.seq[slot], self.since[slot] = ASSUMED_NEGATIVE, seq, since
        self._append(slot, True)

    def first(self, negative: bool) -> int:
        """Return the slot of the oldest item of a queue, or -1."""
        slot = self._next[negative]
        return -1 if slot < _HEADS else slot

    def following(self, slot: int) -> int:
        """Return the slot after a slot in its queue, or -1."""
        slot = self._next[slot]
        return -1 if slot < _HEADS else slot

    def backwards(self, negative: bool) -> Iterator[int]:
        """Yield the slots of a queue, the newest first."""
        slot = self._previous[negative]
        while slot >= _HEADS:
            yield slot
            slot = self._previous[slot]

    def queue(self, negative: bool) -> Iterator[int]:
        """Yield the slots of a queue, the oldest first."""
        slot = self.first(negative)
        while slot >= 0:
            yield slot
            slot = self.following(slot)

    def _append(self, slot: int, head: int) -> None:
        last = self._previous[head]
        self._previous[slot], self._next[slot] = last, head
        self._next[last] = self._previous[head] = slot

    def _unlink(self, slot: int) -> None:
        previous, following = self._previous[slot], self._next[slot]
        self._next[previous], self._previous[following] = following, previous

    def _grow(self, n_new: int) -> None:
        n = len(self.kind)
        for column in (self.kind, self.since, self.time, self.weight, self.seq, self.number,
                       self.segment, self._previous, self._next):  # fmt: skip
            column.frombytes(bytes(n_new * column.itemsize))
        if self._scalar:
            self.p.frombytes(bytes(n_new * 8))
        else:
            self.p += [None] * n_new
        self.id += [None] * n_new
        self.body += [None] * n_new
        self._free += range(n + n_new - 1, n - 1, -1)

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken; for tests."""
        queues = [[*self.queue(False)], [*self.queue(True)]]
        for negative, slots in enumerate(queues):
            assert [self.seq[slot] for slot in slots] == sorted(self.seq[slot] for slot in slots)
            assert all((self.kind[slot] == ASSUMED_NEGATIVE) == bool(negative) for slot in slots)
        slots = queues[0] + queues[1]
        assert {self.id[slot]: slot for slot in slots} == self._slots
        assert len(slots) + len(self._free) + _HEADS == len(self.kind) == len(self.body)
        assert not {*slots} & {*self._free}
        assert self.kinds[1:] == [sum(self.kind[slot] == k for slot in slots) for k in (1, 2, 3)]
