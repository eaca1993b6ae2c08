r"""FoBoS with the l-infinity norm of the whole vector.

Duchi & Singer (2009), *Efficient online and batch learning using forward backward splitting*, Sec. 4:
after the gradient step $v = w - \eta g x$, with strength $\lambda$,

$$w_j = \mathrm{sgn}(v_j)\min\{|v_j|, \theta\}, \qquad \sum_j [\,|v_j| - \theta]_+ = \eta\lambda$$

and $w = 0$ where $\|v\|_1 \le \eta\lambda$: the largest come down to one level, and give $\eta\lambda$ together. The level
is found from above: it falls from the largest to the next, which it takes along, and so on, until
$\eta\lambda$ is used up.

What was cut is equal from then on, until it is touched: it is one *block*, which costs no more than one
weight however many members it has. A member that an example touches leaves; blocks that the level meets
merge. One group at the level is not enough: a single weight may stand above an old block, and the level comes
down to that block again.

- A slot is free, and has its weight, or is in a block, and has the sign. Blocks are a forest (union by size):
  a root has the value, and counts the members.
- A heap has an entry for each block and at least one for each free weight that is not 0, with a key at or
  above it. A weight that falls, or rises below its key, leaves its entry alone: it is set right when it comes to
  the top. So an example's non-zero makes at most one entry, and each entry is taken off once.
- The level depends on the values and how many weights have each, in the order of the values: not on
  how they are held in blocks, on keys, or on what is stale. So blocks and heap are built anew from the weights
  alone.

Differs from the paper: it finds $\theta$ in time O(d). (Its lazy step, several as one of the summed strength, is
for what no example touches meanwhile; here each step touches the vector.)

Cost of a step: the non-zeros of the row times a logarithm, amortised; 16 bytes a slot, and 32 a weight that is
not 0.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.jit import prefetch
from streaml1.rows import ensure
from streaml1.rules.parts.blocks import (
    BLOCK,
    ENTRY,
    MARK,
    NEAR,
    NEARS_MOST,
    NONE,
    ROOM_LEAST,
    SLOT,
    WEIGHT_MOST,
    alive,
    built,
    check,
    current,
    join,
    merged,
    push,
    requeue,
    root,
    roots_of,
    settle,
    take,
    topmost,
    with_room,
)
from streaml1.rules.parts.slots import grown, moved, records

__all__ = ["FobosLinf"]

CLOCK = np.dtype(
    [
        ("strength", "f8"),
        ("level", "f8"),  # where the last step has left it
        ("top", "i8"),  # what is there: a slot, or -1 - b
        ("entries", "i8"),  # of the heap
        ("nears", "i8"),
        ("blocks", "i8"),
    ],
    align=True,
)
SLACK = 1.25  # so that a weight that grows does not make an entry each time

# How many non-zeros ahead of the current one memory is asked for.
AHEAD = np.uint64(64)


class FobosLinf(NamedTuple):
    """State of FoBoS with the l-infinity norm: slots, blocks, a heap of both."""

    slots: Annotated[Any, SLOT]
    blocks: Annotated[Any, BLOCK]
    heap: Annotated[Any, ENTRY]
    near: Annotated[Any, ENTRY]
    scratch: Annotated[Any, np.float64]  # weights of the row in hand
    clock: Annotated[Any, CLOCK]

    def gather(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        a = 0.0
        if hi - lo > np.uint64(len(self.scratch)):  # to predict: learning has had room made
            for k in range(lo, hi):
                a += current(self, self.slots[ids[k]]) * values[k]
            return a
        ahead = AHEAD if hi + AHEAD <= np.uint64(len(ids)) else np.uint64(0)
        for k in range(lo, hi):
            prefetch(self.slots, np.uint64(ids[k + ahead]))
            w = current(self, self.slots[ids[k]])
            self.scratch[k - lo] = w
            a += w * values[k]
        return a

    def scatter(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # The row was gathered just before: what its weights were is at hand.
        level = self.clock[0].level
        for k in range(lo, hi):
            one = self.slots[ids[k]]
            if step == 0.0:  # blocks stay together
                if one.w == 0.0:
                    one.w = MARK
                continue
            if one.bound < 0.0:
                self.blocks[root(self, -1 - np.int64(one.bound))].n -= 1
                one.bound = 0.0
            v = self.scratch[k - lo] - step * values[k]
            one.w = v if v != 0.0 else MARK
            size = abs(v)
            if size > one.bound:
                key = size
                if size < NEAR * level:
                    key = min(SLACK * size, NEAR * level)
                one.bound = key
                push(self, key, np.int64(ids[k]))

    def tick(self, eta: float) -> None:
        c = self.clock[0]
        left = eta * c.strength
        if left == 0.0:
            settle(self)
            return
        # What the level has met so far: n weights, in a block, or a single free one.
        n, level = np.int64(0), 0.0
        block: Any = np.int64(-1)
        single: Any = np.int64(-1)
        while True:
            key = topmost(self)
            fall = n * (level - key)
            if n and left < fall:
                level -= left / n
                break
            if key == 0.0:
                level = 0.0
                break
            id = take(self, key)
            if id == NONE:
                continue
            left -= fall
            level = key
            if id < 0:
                n += self.blocks[-1 - id].n
                block = -1 - id if block < 0 else merged(self, block, -1 - id)
                if single >= 0:
                    join(self, single, block)
                    single = np.int64(-1)
                continue
            n += 1
            self.slots[id].bound = 0.0  # it may have an entry more of the same key
            if block < 0 and single < 0:
                single = id
                continue
            if block < 0:
                block = c.blocks
                c.blocks += 1
                self.blocks[block].n = 0
                self.blocks[block].parent = -1
                join(self, single, block)
                single = np.int64(-1)
            join(self, id, block)
        if c.top != NONE:
            push(self, c.level, c.top)
        c.level = max(level, 0.0)
        if block >= 0:
            self.blocks[block].value = c.level
        elif single >= 0:
            one = self.slots[single]
            one.w = math.copysign(c.level, one.w) if c.level > 0.0 else MARK
            one.bound = c.level
        if c.level > 0.0:
            c.top = -1 - block if block >= 0 else single
        settle(self)

    def rebase(self) -> None:
        pass

    def room(self, nnz: Any) -> bool:
        c = self.clock[0]
        if nnz > np.uint64(len(self.scratch)) or c.blocks == len(self.blocks):
            return False
        return c.entries + c.nears + np.int64(nnz) < len(self.heap)

    def weight(self, j: Any) -> float:
        return current(self, self.slots[j])

    def weights(self) -> Any:
        w = np.array(self.slots["w"])
        members = np.flatnonzero(self.slots["bound"] < 0.0)
        values = self.blocks["value"][roots_of(self, members)]
        w[members] = np.copysign(values, w[members])
        return w

    def touched(self) -> Any:
        w = self.slots["w"]
        return (w != 0.0) | np.signbit(w)

    def holding(self) -> Any:
        return self.weights() != 0.0

    def drop(self, slots: Any) -> None:
        bound = self.slots["bound"][slots]
        np.subtract.at(self.blocks["n"], roots_of(self, slots[bound < 0.0]), 1)
        self.slots["w"][slots] = MARK
        self.slots["bound"][slots] = 0.0

    def make_room(self, nnz: int) -> FobosLinf:
        nnz = max(nnz, len(self.scratch))
        if self.clock[0].blocks == len(self.blocks):
            return _built(self.weights(), self.touched(), self.clock, nnz)
        n = np.count_nonzero(self.slots["bound"] > 0.0) + alive(self).sum()
        heap = records(with_room(n, self.size, nnz), ENTRY)
        rule = self._replace(heap=heap, near=_near(nnz), scratch=np.zeros(nnz))
        requeue(rule)
        return rule

    @property
    def size(self) -> int:
        return len(self.slots)

    def grow(self, d: int) -> FobosLinf:
        return self._replace(slots=grown(self.slots, d))

    def renumber(self, new_slots: Any, d: int) -> FobosLinf:
        w, touched = (moved(a, new_slots, d) for a in (self.weights(), self.touched()))
        return _built(w, touched, self.clock, len(self.scratch))

    def dump(self) -> tuple[Any, dict[str, Any]]:
        w = self.weights()
        slots = np.flatnonzero(w)
        return slots, {"w": w[slots], "strength": np.array([self.clock[0].strength])}

    @staticmethod
    def restore(d: int, slots: Any, arrays: dict[str, Any]) -> FobosLinf:
        ensure(set(arrays) == {"w", "strength"}, "other arrays")
        ensure(arrays["w"].dtype == np.float64 and arrays["w"].shape == slots.shape, "not w")
        strength = arrays["strength"]
        ensure(strength.dtype == np.float64 and strength.shape == (1,), "no strength")
        ensure(np.all(np.abs(arrays["w"]) < WEIGHT_MOST), "a weight is out of range")
        ensure(np.all(arrays["w"] != 0.0), "a weight is 0")
        w = np.zeros(d)
        w[slots] = arrays["w"]
        return _built(w, w != 0.0, _clock(float(strength[0])), ROOM_LEAST)

    def check(self) -> None:
        kinds = {"slots": SLOT, "blocks": BLOCK, "heap": ENTRY, "near": ENTRY, "clock": CLOCK}
        for name, dtype in kinds.items():
            array = getattr(self, name)
            ensure(array.dtype == dtype and array.ndim == 1, f"{name} is no row of records")
        c = self.clock[0]
        ensure(0.0 <= c.strength < math.inf, "the strength is out of range")
        ensure(0.0 <= c.level < WEIGHT_MOST, "the level is out of range")
        check(self)
        ensure(np.all(np.abs(self.weights()) < WEIGHT_MOST), "a weight is out of range")

    @staticmethod
    def start(d: int, strength: float) -> FobosLinf:
        """`d` zero weights."""
        return _built(np.zeros(d), np.zeros(d, bool), _clock(strength), ROOM_LEAST)


def _built(w: Any, touched: Any, before: Any, nnz: int) -> FobosLinf:
    """The rule with these weights."""
    slots, blocks, heap, n_entries, n_blocks = built(w, touched, nnz)
    clock = before.copy().view(np.recarray)
    c = clock[0]
    c.top, c.entries, c.nears, c.blocks = NONE, n_entries, 0, n_blocks
    return FobosLinf(slots, blocks, heap, _near(nnz), np.zeros(nnz), clock)


def _near(nnz: int) -> Any:
    """Room for the near entries of a row, and for what was there before."""
    return records(NEARS_MOST + nnz + 2, ENTRY)


def _clock(strength: float) -> Any:
    clock = records(1, CLOCK)
    clock[0].strength = strength
    return clock
