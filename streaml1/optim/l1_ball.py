r"""Projection onto the l1 ball after every step, by a timing wheel.

Duchi, Shalev-Shwartz, Singer & Chandra (2008), *Efficient projections onto the l1-ball for learning
in high dimensions*. One step at rate $\eta$, where $g$ is the gradient:

$$v = w - \eta g, \qquad w = \mathrm{sgn}(v)\,[\,|v| - \theta]_+, \qquad
\theta = 0 \text{ if } \textstyle\sum |v| \le z, \text{ else } \theta: \sum [\,|v| - \theta]_+ = z.$$

Section 6 of the paper stores a raw vector and one shift for all weights
(`structures/fixed_point_vector.py`), and finds $\theta$ in a search tree (`l1_ball_tree.py`). This file needs
no tree. The shift $\Theta = \sum \theta$ never falls, so a weight that no example touches becomes zero when
$\Theta$ reaches its $|v|$: a timer (`structures/timing_wheel.py`). With n non-zero weights and
$S = \sum |w|$,

$$t = (S - z) / n$$

is below $\theta$ as long as n and S include weights below $\theta$, and equal to it afterwards. So: set weights
below t to zero, in any order, and recompute t, which grows; when no such weight is left, t is $\theta$. Only
weights that become zero are looked at, and each of them was entered once.

Differences from the paper:

a) No tree.
b) Weights are integer multiples of a unit, at most $2^{-49}$ of the radius, so that sums are exact.
c) The radius that is projected on is smaller by n units, so that rounding leaves the weights inside.
d) `nonnegative` clamps at zero before it projects: onto $\{w \ge 0, \sum w \le z\}$, where the simplex of the
   paper has $\sum w = z$.
e) $\Theta$ outgrows the integers in the long run. Then `renormalize` rewrites all weights.

Cost of a step: O(non-zeros of the row), amortized. A pass over all slots is due when S first exceeds z, when
$\Theta$ is too large, and at the first step after that. Memory: 16 bytes per slot, 25 per non-zero weight.
"""  # noqa: E501

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.rows import ensure
from streaml1.core.types import Ids, Ints, Records
from streaml1.optim.fixed_point_rule import FixedPointRule
from streaml1.optim.rule_state import Ledger, PerSlot, Scratch
from streaml1.optim.structures import timing_wheel as wheel
from streaml1.optim.structures.fixed_point_vector import (
    LEDGER,
    MAX_THETA,
    MIN_Z,
    finer_unit,
    is_short,
    move_row,
)
from streaml1.optim.structures.slot_arrays import records
from streaml1.optim.structures.timing_wheel import (
    CHUNK,
    CLOCK,
    EMPTY,
    ITEMS,
    MIN_BUCKETS,
    SLOT,
    WEIGHTS_PER_BUCKET,
    enter,
    find_early,
    move_far,
    project,
    to_unit,
    tune,
)
from streaml1.optim.update_rule import renormalize

__all__ = ["L1Ball"]


class L1BallState(NamedTuple):
    """v and place of each slot, the timing wheel (see there), and one record."""

    slots: Annotated[Records, PerSlot(SLOT)]
    ends: Annotated[Ids, Scratch(np.uint32)]
    pool: Annotated[Ids, Scratch(np.uint32)]
    todo: Annotated[Ids, Scratch(np.uint32)]
    clock: Annotated[Records, Ledger(CLOCK)]


class L1Ball(FixedPointRule, L1BallState):
    """Projection onto the l1 ball, by a timing wheel."""

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        slots, todo, clock = self.slots, self.todo, self.clock
        if is_short(clock, values, lo, hi, step):
            move_row(slots, clock, ids, values, lo, hi, step)
        else:
            move_far(slots, self.ends, self.pool, todo, clock, ids, values, lo, hi, step)
        if clock[0].awake != 0:
            find_early(slots, todo, clock, ids, lo, hi)

    def apply_penalty(self, eta: float) -> None:
        slots, ends, pool, clock = self.slots, self.ends, self.pool, self.clock
        c = clock[0]
        if c.z < c.S:
            project(slots, ends, pool, self.todo, clock)
        if c.pending != 0:
            enter(slots, ends, pool, clock, self.todo, 0, c.pending)
            c.pending = 0
        if c.patience < 0:
            tune(slots, ends, pool, clock, c.Theta)
        if c.Theta > MAX_THETA:
            renormalize(self)
        while c.z < MIN_Z:
            to_unit(slots, ends, pool, clock, finer_unit(clock))
            if c.z < c.S:
                project(slots, ends, pool, self.todo, clock)

    def renormalize(self) -> None:
        to_unit(self.slots, self.ends, self.pool, self.clock, self.clock[0].unit)

    def has_capacity(self, nnz: Any) -> bool:
        c = self.clock[0]
        # While the wheel sleeps it has no entries; waking it takes one for each weight at once.
        fits = max(c.entries, c.n) + np.int64(nnz) <= c.room
        return bool(fits and np.int64(nnz) <= len(self.todo))

    def reserve(self, nnz: int) -> L1Ball:
        c = self.clock[0]
        if c.awake:
            tune(self.slots, self.ends, self.pool, self.clock, c.Theta)
        return self if self.has_capacity(nnz) else self._larger(nnz)

    def _larger(self, nnz: int) -> L1Ball:
        """Return the rule with room for twice its timers and twice a row of `nnz`.

        It writes to no array of this rule, which stays valid if the new one is never used.
        """
        n = 2 * (int(self.clock[0].n) + nnz)
        size = len(self.ends)
        while size * WEIGHTS_PER_BUCKET < n:
            size *= 2
        ends = np.full(size, EMPTY, np.uint32)
        ends[: len(self.ends)] = self.ends
        n_chunks = len(self.pool) // CHUNK
        chunks = max(n_chunks, n // ITEMS + 1 + size + 3)
        pool = np.zeros(CHUNK * chunks, np.uint32)
        pool[: len(self.pool)] = self.pool
        clock = self.clock.copy()
        if chunks > n_chunks:
            pool[CHUNK * n_chunks :: CHUNK] = np.arange(n_chunks + 1, chunks + 1)
            pool[CHUNK * (chunks - 1)] = clock.free[0]
            clock.free[0] = n_chunks
        clock.room[0] = _capacity(chunks, size)
        clock.patience[0] = -clock.awake[0]  # the next step tunes the wheel to more buckets
        todo = np.zeros(max(2 * nnz, len(self.todo)), np.uint32)
        return L1Ball(self.slots, ends, pool, todo, clock)

    @staticmethod
    def _asleep(d: int, chunks: int = 1, buckets: int = MIN_BUCKETS, row: int = 1) -> L1Ball:
        """Return a rule with `d` empty slots and an empty wheel; by default without any room."""
        clock = records(1, CLOCK)
        clock.free[0] = min(1, chunks - 1)
        clock.room[0] = max(0, _capacity(chunks, buckets))
        pool = np.zeros(CHUNK * chunks, np.uint32)
        pool[::CHUNK] = np.arange(1, chunks + 1)
        pool[-CHUNK] = 0
        return L1Ball(
            records(d, SLOT),
            np.full(buckets, EMPTY, np.uint32),
            pool,
            np.zeros(row, np.uint32),
            clock,
        )

    def remap(self, new_slots: Ints, d: int) -> L1Ball:
        retained = new_slots >= 0
        rule = self._asleep(d, len(self.pool) // CHUNK, len(self.ends), len(self.todo))
        for name, _ in LEDGER:
            rule.clock[name] = self.clock[name]
        rule.slots["v"][new_slots[retained]] = self.slots["v"][retained]
        return rule

    def check(self) -> None:
        super().check()
        wheel.check(self.slots, self.ends, self.pool, self.clock)
        chunks = len(self.pool) // CHUNK
        limit = max(0, _capacity(chunks, len(self.ends)))
        ensure(self.clock[0].room <= limit, f"room={self.clock[0].room} is above {limit}")


def _capacity(chunks: int, buckets: int) -> int:
    """Return how many entries fit for certain into a number of chunks.

    One chunk of each bucket may be nearly empty. Three more do not count: chunk 0, which does not
    exist, the one that is being read, and the one that is being filled.
    """
    return (chunks - buckets - 3) * ITEMS
