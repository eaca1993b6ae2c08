r"""FoBoS with the l-infinity norm of the whole weight vector.

Duchi & Singer (2009), *Efficient learning using forward-backward splitting*, Section 4, Eq. 8: after
the gradient step $v = w - \eta g x$, with strength $\lambda$,

$$w_j = \mathrm{sgn}(v_j)\min\{|v_j|, \theta\}, \qquad \sum_j [\,|v_j| - \theta]_+ = \eta\lambda$$

and $w = 0$ where $\|v\|_1 \le \eta\lambda$. The largest weights are clamped to one level $\theta$, and lose
$\eta\lambda$ together. The level is found from above: it falls from the largest weight to the next, which then
falls with it, and so on, until $\eta\lambda$ is used up.

Clamped weights are equal until an example touches them. They form a *block*, which costs as much as one
weight, whatever its number of members (`structures/weight_blocks.py`). A member that an example touches
leaves. Blocks that the level reaches are merged. One block is not enough: weights that an example lifts
above the level stay above the older blocks until the level falls to those again. A weight that is in no
block is *free*.

- The weights of a row that rise to the level or above are looked at together. If their excess over the
  level is more than $\eta\lambda$, the new level is among them, and nothing else moves. Otherwise all of them
  join the block at the level, and the level falls.
- Where it falls (`structures/linf_level.py`), it reaches blocks, and free weights in the order of their
  sizes. Those within reach are found in a pool of the largest free weights (`structures/top_k.py`), which is
  filled as the level falls (`structures/linf_candidates.py`, `structures/linf_floor.py`).
- Whether a weight is a member, or near the level, is unpredictable: so no work per non-zero depends on a
  branch.
- The level depends on the last one, on the values of the weights and their multiplicities, and on the order
  of the row. It does not depend on how weights are held: in blocks, in order, or below the floor. So
  everything but `u` and the level is rebuilt where slots move.

Difference from the paper: it finds $\theta$ in O(d). Its lazy step, which applies several steps as one of the
summed strength, requires that no example touches the vector meanwhile; here each step does.

Cost of a step: O(non-zeros of the row), times a logarithm for those near the level, amortized. Where the level
falls, also 1/64 of the free weights within a small part of it. Memory: 48 bytes per slot.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.aligned import aligned_zeros
from streaml1.core.jit import u64
from streaml1.core.prefetch import prefetch_distance
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch, prefetch_early
from streaml1.core.types import Bools, Floats, Ints, Records
from streaml1.optim.rule_state import (
    Index,
    Ledger,
    PerSlot,
    RuleState,
    Scratch,
    ensure_array,
    ensure_keys,
)
from streaml1.optim.structures import linf_candidates, weight_blocks
from streaml1.optim.structures.linf_candidates import (
    BUCKETS,
    CELLS_PER_FLOOR,
    LINK,
    MARK,
    shrink_pool,
)
from streaml1.optim.structures.linf_floor import maybe_raise_floor, rebuild
from streaml1.optim.structures.linf_level import fall, place_row, rise
from streaml1.optim.structures.slot_arrays import moved, records
from streaml1.optim.structures.top_k import FOUND, WIDE
from streaml1.optim.structures.weight_blocks import BLOCK, MEMBER

__all__ = ["FobosLinf"]

CLOCK = np.dtype(
    [
        ("strength", "f8"),
        ("level", "f8"),  # after the last step: no weight is larger
        ("risen", "i8"),  # number of weights of the current row at the level or above,
        ("excess", "f8"),  # and by how much they exceed it together
        # Of the candidates, see `linf_candidates`:
        ("entries", "i8"),  # size of the pool
        ("most", "i8"),  # size that the pool may reach before `shrink_pool`
        ("open", "i8"),  # the first bucket whose weights are in the pool
        ("floor", "f8"),
        ("scale", "f8"),  # buckets per unit of size
        ("lowest", "f8"),  # the lowest level since the buckets were filled
        ("lowered", "i8"),  # how often the floor was lowered since it was raised
        ("touches", "i8"),  # non-zeros since the buckets were filled or `maybe_raise_floor` looked
        ("held", "i8"),  # number of weights in buckets when they were filled
        ("owed", "i8"),  # slots that were scanned, minus those that non-zeros have paid for
    ],
    align=True,
)
# For the current row: five independent lists, one column each.
SCRATCH = np.dtype(
    [
        ("w", "f8"),  # weight of each non-zero
        ("slot", "i8"),  # slots near the level, and their old u
        ("u", "f8"),
        ("risen", "i8"),  # slots at the level or above
        ("moved", "i8"),  # slots that need another bucket
    ],
    align=True,
)
MAX_WEIGHT = 1e150
MIN_ROOM = 256

POOL = 1 + int(WIDE)  # elements of the pool beyond one for each slot


class FobosLinfState(NamedTuple):
    """u of each slot, the blocks of equal weights, and the index of the largest free weights."""

    u: Annotated[Floats, PerSlot(np.float64)]
    places: Annotated[Any, Index(np.int32)]
    blocks: Annotated[Records, Scratch(BLOCK)]
    keys: Annotated[Floats, Index(np.float64, extra=POOL)]
    ids: Annotated[Any, Index(np.int32, extra=POOL)]
    found: Annotated[Records, Index(FOUND, extra=POOL)]
    heads: Annotated[Any, Scratch(np.int32)]
    links: Annotated[Records, Index(LINK)]
    scratch: Annotated[Records, Scratch(SCRATCH)]
    clock: Annotated[Records, Ledger(CLOCK)]


class FobosLinf(RuleState, FobosLinfState):
    """FoBoS with the l-infinity norm."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        a = 0.0
        distance = prefetch_distance(ids, hi)
        # Not always to predict: then all weights go to element 0, without a branch.
        fits = np.uint64(hi - lo <= np.uint64(len(self.scratch)))
        floor = self.clock[0].floor
        for k in range(lo, hi):
            prefetch_early(self.u, np.uint64(ids[k + distance]))
            j = np.uint64(ids[k])
            u = self.u[j]
            prefetch(self.places, j * np.uint64(abs(u) >= floor))
            w = weight_blocks.current(self, u)
            self.scratch[(k - lo) * fits].w = w
            a += w * values[k]
        return a

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        c = self.clock[0]
        c.touches += np.int64(hi - lo)
        if step == 0.0:  # members do not leave their blocks
            for k in range(lo, hi):
                if self.u[ids[k]] == 0.0:
                    self.u[ids[k]] = MARK
            return
        floor, n = c.floor, u64(0)
        for k in range(lo, hi):
            j = np.uint64(ids[k])
            u = self.u[j]
            v = self.scratch[k - lo].w - step * values[k]
            self.u[j] = v if v != 0.0 else MARK
            self.scratch[n].slot = np.int64(j)
            self.scratch[n].u = u
            n += np.uint64(max(abs(u), abs(v)) >= floor)
        place_row(self, n)

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        budget = eta * c.strength
        if budget == 0.0 or c.excess > budget:
            rise(self, budget)
        else:
            fall(self, budget - c.excess)
        c.risen = 0
        c.excess = 0.0
        shrink_pool(self)
        c.lowest = min(c.lowest, c.level)
        maybe_raise_floor(self)

    def has_capacity(self, nnz: Any) -> bool:
        return nnz <= np.uint64(len(self.scratch)) and weight_blocks.has_room(self)

    def weight(self, j: Any) -> float:
        return weight_blocks.current(self, self.u[j])

    def weights(self) -> Floats:
        w = np.array(self.u)
        members = np.abs(w) >= MEMBER
        leads = self.blocks["lead"][weight_blocks.ids_of(w[members])]
        w[members] = np.copysign(self.blocks["value"][leads], w[members])
        return w

    def live_mask(self) -> Bools:
        live: Bools = self.weights() != 0.0
        return live

    def drop(self, slots: Ints) -> None:
        weight_blocks.leave_all(self, slots)
        self.u[slots] = MARK
        in_pool = -self.places[slots].astype(np.int64)
        self.keys[in_pool[in_pool > 0]] = 0.0

    def reserve(self, nnz: int) -> FobosLinf:
        full = self.blocks["after"][0] == 0
        return self._replace(
            blocks=weight_blocks.with_room(self.blocks) if full else self.blocks,
            scratch=records(max(nnz, len(self.scratch)), SCRATCH),
        )

    def remap(self, new_slots: Ints, d: int) -> FobosLinf:
        w, seen = (moved(a, new_slots, d) for a in (self.weights(), self.seen_mask()))
        c = self.clock[0]
        u = np.where(seen & (w == 0.0), MARK, w)
        return _built(u, c.strength, c.level, len(self.scratch))

    def state_dict(self) -> tuple[Ints, dict[str, Any]]:
        w, c = self.weights(), self.clock[0]
        slots = np.flatnonzero(w)
        return slots, {"w": w[slots], "scalars": np.array([c.strength, c.level])}

    @classmethod
    def from_state_dict(cls, d: int, slots: Ints, arrays: dict[str, Any]) -> FobosLinf:
        ensure_keys(arrays, ("w", "scalars"))
        w, scalars = arrays["w"], arrays["scalars"]
        ensure_array(w, "w", np.float64, slots.shape)
        ensure_array(scalars, "scalars", np.float64, (2,))
        ensure(np.all(np.abs(w) <= scalars[1]), "a weight is above the level")
        ensure(np.all(w != 0.0), "a saved weight is 0")
        u = aligned_zeros(d, np.float64)
        u[slots] = w
        return _built(u, scalars[0], scalars[1], MIN_ROOM)

    def check(self) -> None:
        super().check()
        weight_blocks.check(self)
        linf_candidates.check(self)
        w, c = np.abs(self.weights()), self.clock[0]
        ensure(np.all(w < MAX_WEIGHT), "a weight is out of range")
        ensure(0.0 <= c.strength < math.inf, "the strength is out of range")
        ensure(0.0 <= c.level < MAX_WEIGHT, "the level is out of range")
        ensure(np.all(w <= c.level), "a weight is above the level")
        ensure(c.risen == 0 and c.excess == 0.0, "a row was not applied")

    @staticmethod
    def start(d: int, strength: float) -> FobosLinf:
        """Return a rule with `d` zero weights."""
        return _built(aligned_zeros(d, np.float64), strength, 0.0, MIN_ROOM)


def _built(u: Any, strength: float, level: float, nnz: int) -> FobosLinf:
    """Return the rule with the given weights, none above the level, and scratch for `nnz`."""
    d, clock = len(u), records(1, CLOCK)
    c = clock[0]
    c.strength, c.level = strength, level
    rule = FobosLinf(
        u=u,
        places=np.zeros(d, np.int32),
        blocks=weight_blocks.no_blocks(),
        keys=np.zeros(d + POOL),
        ids=np.zeros(d + POOL, np.int32),
        found=records(d + POOL, FOUND),
        heads=np.full(BUCKETS, -1, np.int32),
        links=records(d, LINK),
        scratch=records(nnz, SCRATCH),
        clock=clock,
    )
    rebuild(rule, 0.5 * level, CELLS_PER_FLOOR)
    return rule
