r"""Projection on the l1 ball after every step, by a timing wheel.

Duchi, Shalev-Shwartz, Singer & Chandra (2008), *Efficient projections onto the l1-ball for learning
in high dimensions*. One step at rate $\eta$, $g$ the gradient:

$$v = w - \eta g, \qquad w = \mathrm{sgn}(v)\,[\,|v| - \theta]_+, \qquad
\theta = 0 \text{ if } \textstyle\sum |v| \le z, \text{ else } \theta: \sum [\,|v| - \theta]_+ = z.$$

Their section 6 stores a raw vector and one shift for all weights (`parts/raw_vector.py`), and finds $\theta$
in a search tree (`l1_ball_tree.py`). Here is no tree. $\Theta = \sum \theta$ never falls, so a weight that is
not touched becomes zero when $\Theta$ reaches its $|v|$: a timer (`parts/wheel.py`). With n weights that
are not zero and $S = \sum |w|$,

$$t = (S - z) / n$$

is too small as long as weights below it count in n and S. So: end those, in any order; t grows;
when there are no more, t is $\theta$. Only what becomes zero is ever looked at, and each of that was
once entered.

Differs from the paper: a) no tree. b) Whole numbers of $2^{-49}$ of the radius or less, so that sums
are exact. c) The radius projected on is less by n of those, so that rounding leaves the weights
inside. d) `nonnegative` cuts at zero before it projects: onto $\{w \ge 0, \sum w \le z\}$, where the paper's
simplex has $\sum w = z$. e) In the end $\Theta$ is too large, and all is written down anew.

Cost of a step: the non-zeros of the row, amortised. A pass over all slots comes when S first
passes z, when $\Theta$ is too large, and at the first step after it. 16 bytes a slot, 25 a weight.
"""  # noqa: E501

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.rows import ensure
from streaml1.optim.structures import fixed_point_vector as raw_vector
from streaml1.optim.structures.fixed_point_vector import (
    LEDGER,
    THETA_MOST,
    Z_LEAST,
    finer_unit,
    is_short,
    margin,
    move_row,
    weight,
)
from streaml1.optim.structures.slot_arrays import grown, records
from streaml1.optim.structures.timing_wheel import (
    BUCKETS_LEAST,
    CHUNK,
    CLOCK,
    EMPTY,
    ITEMS,
    NEVER,
    SLOT,
    WEIGHTS_A_BUCKET,
    enter,
    mark,
    move_far,
    project,
    to_unit,
    tune,
)
from streaml1.optim.update_rule import renormalize

__all__ = ["L1Ball"]


class L1Ball(NamedTuple):
    """State of the ball: two numbers a slot, the wheel, and one record."""

    slots: Annotated[Any, SLOT]
    ends: Annotated[Any, np.uint32]
    pool: Annotated[Any, np.uint32]
    todo: Annotated[Any, np.uint32]
    clock: Annotated[Any, CLOCK]

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        return margin(self.slots, self.clock, ids, values, lo, hi)

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        slots, todo, clock = self.slots, self.todo, self.clock
        if is_short(clock, values, lo, hi, step):
            move_row(slots, clock, ids, values, lo, hi, step)
        else:
            move_far(slots, self.ends, self.pool, todo, clock, ids, values, lo, hi, step)
        if clock[0].awake != 0:
            mark(slots, todo, clock, ids, lo, hi)

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
        if c.Theta > THETA_MOST:
            renormalize(self)
        while c.z < Z_LEAST:
            to_unit(slots, ends, pool, clock, finer_unit(clock))
            if c.z < c.S:
                project(slots, ends, pool, self.todo, clock)

    def renormalize(self) -> None:
        to_unit(self.slots, self.ends, self.pool, self.clock, self.clock[0].unit)

    def has_capacity(self, nnz: Any) -> bool:
        c = self.clock[0]
        # Asleep there are no entries, and as many as weights may be wanted at once.
        fits = max(c.entries, c.n) + np.int64(nnz) <= c.room
        return bool(fits and np.int64(nnz) <= len(self.todo))

    def weight(self, j: Any) -> float:
        return weight(self.slots, self.clock, j)

    def weights(self) -> Any:
        return raw_vector.weights(self.slots, self.clock)

    def seen_mask(self) -> Any:
        return self.slots["v"] != 0

    def live_mask(self) -> Any:
        return raw_vector.live_mask(self.slots, self.clock)

    def drop(self, slots: Any) -> None:
        raw_vector.drop(self.slots, self.clock, slots)

    def reserve(self, nnz: int) -> L1Ball:
        c = self.clock[0]
        if c.awake:
            tune(self.slots, self.ends, self.pool, self.clock, c.Theta)
        return self if self.has_capacity(nnz) else self._larger(nnz)

    def _larger(self, nnz: int) -> L1Ball:
        """With room for twice the timers there are and twice a row of `nnz`.

        Nothing that this rule reads is written to: it can go on if the new one is never used.
        """
        n = 2 * (int(self.clock[0].n) + nnz)
        size = len(self.ends)
        while size * WEIGHTS_A_BUCKET < n:
            size *= 2
        ends = np.full(size, EMPTY, np.uint32)
        ends[: len(self.ends)] = self.ends
        have = len(self.pool) // CHUNK
        chunks = max(have, n // ITEMS + 1 + size + 3)
        pool = np.zeros(CHUNK * chunks, np.uint32)
        pool[: len(self.pool)] = self.pool
        clock = self.clock.copy()
        if chunks > have:
            pool[CHUNK * have :: CHUNK] = np.arange(have + 1, chunks + 1)
            pool[CHUNK * (chunks - 1)] = clock.free[0]
            clock.free[0] = have
        clock.room[0] = _room(chunks, size)
        clock.patience[0] = -clock.awake[0]  # tuned at the next step, to more buckets
        todo = np.zeros(max(2 * nnz, len(self.todo)), np.uint32)
        return L1Ball(self.slots, ends, pool, todo, clock)

    def set_radius(self, radius: float) -> None:
        raw_vector.set_radius(self.clock, radius)

    @property
    def size(self) -> int:
        return len(self.slots)

    def grow(self, d: int) -> L1Ball:
        return self._replace(slots=grown(self.slots, d))

    def remap(self, new_slots: Any, d: int) -> L1Ball:
        kept = new_slots >= 0
        rule = _asleep(d, len(self.pool) // CHUNK, len(self.ends), len(self.todo))
        for name, _ in LEDGER:
            rule.clock[name] = self.clock[name]
        rule.slots["v"][new_slots[kept]] = self.slots["v"][kept]
        return rule

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        return raw_vector.state_dict(self.slots, self.clock)

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> L1Ball:
        rule = _asleep(d)
        raw_vector.from_state_dict(rule.slots, rule.clock, slots, arrays)
        return rule

    @staticmethod
    def start(d: int, radius: float, nonnegative: bool) -> L1Ball:
        """`d` zero weights."""
        rule = _asleep(d)
        raw_vector.begin(rule.clock, radius, nonnegative)
        return rule

    def check(self) -> None:
        raw_vector.check(self.slots, self.clock)
        c = self.clock[0]
        place = self.slots["place"]
        chains = [self._chain(ring) for ring in range(len(self.ends))]
        used = sum((chunks for chunks, _ in chains), self._free_chunks())
        chunks = len(self.pool) // CHUNK
        ensure(sorted(used) == list(range(1, chunks)), "a chunk is lost, or used twice")
        ensure(c.pending == 0, f"{c.pending} slots of a row still wait")
        ensure(c.entries == sum(len(slots) for _, slots in chains), "entries are miscounted")
        ensure(c.entries <= c.room, f"{c.entries} entries have room for {c.room}")
        ensure(c.room <= max(0, _room(chunks, len(self.ends))), "there is no such room")
        if not c.awake:
            ensure(c.entries == 0 and not place.any(), "an entry while all timers sleep")
            return
        ensure(c.now == c.Theta >> c.shift, f"Theta is not in the bucket {c.now}")
        ensure(c.mask & (c.mask + 1) == 0 and c.mask < len(self.ends), "the ring is none")
        self._check_timers([slots for _, slots in chains])

    def _check_timers(self, buckets: list[list[int]]) -> None:
        c = self.clock[0]
        key, place = np.abs(self.slots["v"]), self.slots["place"]
        late = (key > c.Theta) & ((place == 0) | ((place - 1) << c.shift > key))
        ensure(not late.any(), f"the timer of the slot {np.argmax(late)} is too late")
        placed = np.flatnonzero(place)
        at = place[placed] - 1
        ensure(np.all((c.now <= at) & (at <= c.now + c.mask)), "a bucket is out of reach")
        entered = {(ring, j) for ring, slots in enumerate(buckets) for j in slots}
        counting = set(zip((at & c.mask).tolist(), placed.tolist(), strict=True))
        ensure(counting <= entered, "an entry that counts is nowhere")
        now = c.now & c.mask
        keys = [key[j] for ring, j in counting if ring == now and key[j] > c.Theta]
        ensure(min(keys, default=NEVER) >= c.low, "a timer of this bucket is below the lowest")

    def _chain(self, ring: int) -> tuple[list[int], list[int]]:
        """Chunks and slots of a bucket."""
        end = int(self.ends[ring])
        chunk = (end - 1) // CHUNK
        chunks: list[int] = []
        slots: list[int] = []
        while chunk and len(chunks) < len(self.pool):
            chunks.append(chunk)
            slots += self.pool[CHUNK * chunk + 1 : end].tolist()
            chunk = int(self.pool[CHUNK * chunk])
            end = CHUNK * (chunk + 1)
        return chunks, slots

    def _free_chunks(self) -> list[int]:
        chunk = int(self.clock[0].free)
        chunks: list[int] = []
        while chunk and len(chunks) < len(self.pool):
            chunks.append(chunk)
            chunk = int(self.pool[CHUNK * chunk])
        return chunks


def _asleep(d: int, chunks: int = 1, buckets: int = BUCKETS_LEAST, row: int = 1) -> L1Ball:
    """`d` empty slots, and an empty wheel; as it is, it has room for nothing."""
    clock = records(1, CLOCK)
    clock.free[0] = min(1, chunks - 1)
    clock.room[0] = max(0, _room(chunks, buckets))
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


def _room(chunks: int, buckets: int) -> int:
    """For how many entries so many chunks are surely enough.

    Of each bucket's chunks one may be nearly empty; and there are three more: the one that does not
    exist, the one that is being read, and the one that is being filled.
    """
    return (chunks - buckets - 3) * ITEMS
