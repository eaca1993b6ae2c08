r"""FoBoS with the l-infinity norm of the whole vector.

Duchi & Singer (2009), *Efficient online and batch learning using forward backward splitting*, Sec. 4:
after the gradient step $v = w - \eta g x$, with strength $\lambda$,

$$w_j = \mathrm{sgn}(v_j)\min\{|v_j|, \theta\}, \qquad \sum_j [\,|v_j| - \theta]_+ = \eta\lambda$$

and $w = 0$ where $\|v\|_1 \le \eta\lambda$: the largest come down to one level, and give $\eta\lambda$ together. The level
is found from above: it falls from the largest to the next, which it takes along, and so on, until
$\eta\lambda$ is used up.

What was cut is equal from then on, until it is touched: it is one *block*, which costs no more than one
weight however many members it has (`parts/blocks.py`). A member that an example touches leaves. Blocks that the
level comes down to merge. One block is not enough: what an example lifts above the level stands above it until the
level comes down again.

- The weights of a row that rise to the level or above are looked at together: if what they have above it is more
  than $\eta\lambda$, the new level is among them, and nothing else moves. Otherwise all of them join, and the
  level falls.
- Where it falls, it meets blocks, and single weights in the order of their sizes (`parts/candidates.py`).
- The level depends on the last one, on the values of the weights and how many have each, and on the order of the
  row: not on how weights are held, in blocks, in order or below the floor. So all but `u` and the level is built
  anew where slots move.

Differs from the paper: it finds $\theta$ in time O(d). (Its lazy step, several as one of the summed strength, is
for what no example touches meanwhile; here each step touches the vector.)

Cost of a step: the non-zeros of the row, times a logarithm for those near the level, amortised; 48 bytes a slot.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.jit import inlined, prefetch
from streaml1.rows import ensure
from streaml1.rules.parts import blocks, candidates
from streaml1.rules.parts.blocks import (
    BLOCK,
    MEMBER,
    add_block,
    blocks_of,
    current,
    join,
    leave,
    top_block,
)
from streaml1.rules.parts.candidates import (
    BUCKETS,
    ENTRY,
    HEAP_MOST,
    LINK,
    LOWER,
    MARK,
    READY,
    come_down,
    enter,
    fill,
    lower,
    settle,
    take,
)
from streaml1.rules.parts.slots import grown, moved, records

__all__ = ["FobosLinf"]

CLOCK = np.dtype(
    [
        ("strength", "f8"),
        ("level", "f8"),  # where the last step has left it: no weight is larger
        ("now", "f8"),  # in units of MEMBER; members have joined before
        ("risen", "i8"),  # how many of the row in hand are at the level or above,
        ("excess", "f8"),  # and by how much together
        ("blocks", "i8"),
        # Of the candidates:
        ("entries", "i8"),  # of the heap
        ("most", "i8"),  # of them, until it is settled
        ("open", "i8"),  # the first bucket whose weights are in the heap
        ("floor", "f8"),
        ("scale", "f8"),  # buckets for a unit of size
        ("lowest", "f8"),  # level since they were filled
        ("lowered", "i8"),  # how often, since the floor was raised
        ("touches", "i8"),  # since they were filled
    ],
    align=True,
)
WEIGHT_MOST = 1e150
SLACK = 1.25  # so that a weight that grows does not make an entry each time,
NEAR = 0.9  # up to this share of the level
ROOM_LEAST = 256

# How many non-zeros ahead of the current one memory is asked for.
AHEAD = np.uint64(64)


class FobosLinf(NamedTuple):
    """State of FoBoS with the l-infinity norm: weights, blocks of equal ones, a heap of others."""

    u: Annotated[Any, np.float64]
    places: Annotated[Any, np.int64]
    blocks: Annotated[Any, BLOCK]
    heap: Annotated[Any, ENTRY]
    heads: Annotated[Any, np.int64]
    links: Annotated[Any, LINK]
    scratch: Annotated[Any, np.int64]  # the slots of the row in hand that have risen
    clock: Annotated[Any, CLOCK]

    def gather(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        a = 0.0
        ahead = AHEAD if hi + AHEAD <= np.uint64(len(ids)) else np.uint64(0)
        for k in range(lo, hi):
            prefetch(self.u, np.uint64(ids[k + ahead]))
            w = self.u[ids[k]]
            if abs(w) >= MEMBER:  # it will leave
                prefetch(self.places, np.uint64(ids[k]))
                w = current(self, w)
            a += w * values[k]
        return a

    def scatter(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        c = self.clock[0]
        floor, level = c.floor, c.level
        c.touches += np.int64(hi - lo)
        risen, excess = np.uint64(0), 0.0
        for k in range(lo, hi):
            j = ids[k]
            w = self.u[j]
            if step == 0.0:  # members stay
                if w == 0.0:
                    self.u[j] = MARK
                continue
            known = abs(w)
            if known >= MEMBER:
                w = leave(self, w)
                known = 0.0
            v = w - step * values[k]
            size = abs(v)
            self.u[j] = v if v != 0.0 else MARK
            if size >= level:
                self.scratch[risen] = np.int64(j)
                risen += np.uint64(size > 0.0)
                excess += size - level
            elif size >= floor and size > known:
                enter(self, size, max(size, min(SLACK * size, NEAR * level)), np.int64(j))
        c.risen = np.int64(risen)
        c.excess = excess

    def tick(self, eta: float) -> None:
        c = self.clock[0]
        left = eta * c.strength
        if left == 0.0 or c.excess > left:
            _rise(self, left)
        else:
            _fall(self, left - c.excess)
        c.risen = 0
        c.excess = 0.0
        c.now += MEMBER
        settle(self)
        c.lowest = min(c.lowest, c.level)
        if c.touches >= np.int64(len(self.u)) >> 2:
            if c.floor < 0.4 * c.lowest:
                c.lowered = 0
                fill(self, 0.75 * c.lowest)
            c.touches = 0
            c.lowest = c.level
            c.most = HEAP_MOST

    def rebase(self) -> None:
        pass

    def room(self, nnz: Any) -> bool:
        c = self.clock[0]
        return nnz <= np.uint64(len(self.scratch)) and c.blocks < np.int64(len(self.blocks))

    def weight(self, j: Any) -> float:
        return current(self, self.u[j])

    def weights(self) -> Any:
        w = np.array(self.u)
        members = np.flatnonzero(np.abs(w) >= MEMBER)
        values = self.blocks["value"][blocks_of(self, members)]
        w[members] = np.copysign(values, w[members])
        return w

    def touched(self) -> Any:
        return (self.u != 0.0) | np.signbit(self.u)

    def holding(self) -> Any:
        return self.weights() != 0.0

    def drop(self, slots: Any) -> None:
        members = slots[np.abs(self.u[slots]) >= MEMBER]
        np.subtract.at(self.blocks["n"], blocks_of(self, members), 1)
        self.u[slots] = MARK

    def make_room(self, nnz: int) -> FobosLinf:
        steps, clock = self.blocks[: self.clock[0].blocks], self.clock.copy()
        steps = steps[steps["n"] > 0]
        clock[0].blocks = len(steps)
        blocks = grown(steps, 2 * len(steps) + ROOM_LEAST)
        scratch = np.zeros(max(nnz, len(self.scratch)), np.int64)
        return self._replace(blocks=blocks, scratch=scratch, clock=clock)

    @property
    def size(self) -> int:
        return len(self.u)

    def grow(self, d: int) -> FobosLinf:
        u, places, heap, links = (grown(a, d) for a in (self.u, self.places, self.heap, self.links))
        return self._replace(u=u, places=places, heap=heap, links=links)

    def renumber(self, new_slots: Any, d: int) -> FobosLinf:
        w, touched = (moved(a, new_slots, d) for a in (self.weights(), self.touched()))
        c = self.clock[0]
        u = np.where(touched & (w == 0.0), MARK, w)
        return _built(u, c.strength, c.level, len(self.scratch))

    def dump(self) -> tuple[Any, dict[str, Any]]:
        w, c = self.weights(), self.clock[0]
        slots = np.flatnonzero(w)
        return slots, {"w": w[slots], "scalars": np.array([c.strength, c.level])}

    @staticmethod
    def restore(d: int, slots: Any, arrays: dict[str, Any]) -> FobosLinf:
        ensure(set(arrays) == {"w", "scalars"}, "other arrays")
        w, scalars = arrays["w"], arrays["scalars"]
        ensure(w.dtype == np.float64 and w.shape == slots.shape, "not w")
        ensure(scalars.dtype == np.float64 and scalars.shape == (2,), "no strength and level")
        ensure(np.all(np.abs(w) <= scalars[1]), "a weight is above the level")
        ensure(np.all(w != 0.0), "a weight is 0")
        u = np.zeros(d)
        u[slots] = w
        return _built(u, scalars[0], scalars[1], ROOM_LEAST)

    def check(self) -> None:
        kinds = {"blocks": BLOCK, "heap": ENTRY, "links": LINK, "clock": CLOCK}
        for name, dtype in kinds.items():
            array = getattr(self, name)
            ensure(array.dtype == dtype and array.ndim == 1, f"{name} is no row of records")
        for array in (self.places, self.heap, self.links):
            ensure(array.shape == self.u.shape, "the arrays are of different lengths")
        ensure(np.all(np.abs(self.weights()) < WEIGHT_MOST), "a weight is out of range")
        c = self.clock[0]
        ensure(0.0 <= c.strength < math.inf, "the strength is out of range")
        ensure(0.0 <= c.level < WEIGHT_MOST, "the level is out of range")
        ensure(c.risen == 0 and c.excess == 0.0, "a row is left over")
        blocks.check(self)
        candidates.check(self)

    @staticmethod
    def start(d: int, strength: float) -> FobosLinf:
        """`d` zero weights."""
        return _built(np.zeros(d), strength, 0.0, ROOM_LEAST)


@inlined
def _rise(rule: Any, left: float) -> None:
    """Find the new level among what has risen to the old one or above: all else stays."""
    c = rule.clock[0]
    old, level = c.level, c.level
    n, excess = c.risen, c.excess
    if left == 0.0:  # nothing is cut
        for k in range(np.uint64(n)):
            level = max(level, abs(rule.u[rule.scratch[k]]))
        n = np.int64(0)
    while n > 0:  # the level of those above it, until they are the same
        level = old + (excess - left) / n
        above, excess = np.int64(0), 0.0
        for k in range(np.uint64(c.risen)):
            size = abs(rule.u[rule.scratch[k]])
            over = size >= level
            above += np.int64(over)
            excess += (size - old) * over
        same = above >= n  # more only by rounding
        n = above
        if same:
            break
    for k in range(np.uint64(c.risen)):
        j = rule.scratch[k]
        size = abs(rule.u[j])
        if n > 0 and size >= level:
            join(rule, j)
        elif size >= c.floor:
            enter(rule, size, size, j)
    add_block(rule, level, n, c.now)
    c.level = level


@inlined
def _fall(rule: Any, left: float) -> None:
    """Let all that has risen, and what is met on the way, fall until nothing is left."""
    c = rule.clock[0]
    level = c.level
    n, first = c.risen, c.now
    for k in range(np.uint64(n)):
        join(rule, rule.scratch[k])
    while True:
        top = top_block(rule)
        key = rule.heap[0].key if c.entries > 0 else 0.0
        following = max(top, key)
        fallen = level - left / n if n > 0 else 0.0
        ready = come_down(rule, max(fallen, following))
        if ready == LOWER:
            add_block(rule, level, n, first)
            n, first = np.int64(0), c.now
            lower(rule)
        if ready != READY:
            continue
        if n > 0 and fallen > following:
            level = fallen
            break
        if following == 0.0:
            level = 0.0
            break
        if top >= key:
            block = rule.blocks[c.blocks - 1]
            c.blocks -= 1
            left = max(left - n * (level - top), 0.0)
            level = top
            n += block.n
            first = block.first
            continue
        j = take(rule)
        if j >= 0:
            left = max(left - n * (level - key), 0.0)
            level = key
            n += 1
            join(rule, j)
    add_block(rule, level, n, first)
    c.level = level


def _built(u: Any, strength: float, level: float, nnz: int) -> FobosLinf:
    """The rule with these weights, none above the level."""
    d, clock = len(u), records(1, CLOCK)
    c = clock[0]
    c.strength, c.level, c.now = strength, level, MEMBER
    rule = FobosLinf(
        *(u, np.zeros(d, np.int64), records(ROOM_LEAST, BLOCK), records(d, ENTRY)),
        *(np.full(BUCKETS, -1), records(d, LINK), np.zeros(nnz, np.int64), clock),
    )
    fill(rule, 0.5 * level)
    return rule
