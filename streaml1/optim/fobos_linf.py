r"""FoBoS with the l-infinity norm of the whole vector.

Duchi & Singer (2009), *Efficient learning using forward-backward splitting*, Section 4:
after the gradient step $v = w - \eta g x$, with strength $\lambda$,

$$w_j = \mathrm{sgn}(v_j)\min\{|v_j|, \theta\}, \qquad \sum_j [\,|v_j| - \theta]_+ = \eta\lambda$$

and $w = 0$ where $\|v\|_1 \le \eta\lambda$: the largest come down to one level, and give $\eta\lambda$ together. The level
is found from above: it falls from the largest to the next, which it takes along, and so on, until
$\eta\lambda$ is used up.

What was cut is equal from then on, until it is touched: it is one *block*, which costs no more than one
weight however many members it has (`parts/weight_blocks.py`). A member that an example touches leaves. Blocks that the
level comes down to merge. One block is not enough: what an example lifts above the level stands above it until the
level comes down again.

- The weights of a row that rise to the level or above are looked at together: if what they have above it is more
  than $\eta\lambda$, the new level is among them, and nothing else moves. Otherwise all of them join, and the
  level falls.
- Where it falls (`parts/level.py`), it meets blocks, and single weights in the order of their sizes: those in reach
  are found by looking through what is near (`parts/pool.py`), which is filled as the level comes down
  (`parts/linf_candidates.py`, `parts/floor.py`).
- Which weights are members, or near the level, no processor foresees: so nothing of a non-zero hangs on a branch.
- The level depends on the last one, on the values of the weights and how many have each, and on the order of the
  row: not on how weights are held, in blocks, in order or below the floor. So all but `u` and the level is built
  anew where slots move.

Differs from the paper: it finds $\theta$ in time O(d). (Its lazy step, several as one of the summed strength, is
for what no example touches meanwhile; here each step touches the vector.)

Cost of a step: the non-zeros of the row, times a logarithm for those near the level, amortised; and where the level
falls, a 64th of the free weights within a small part of it. 48 bytes a slot.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.aligned import in_lines
from streaml1.core.prefetch import ahead
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch, prefetch_early
from streaml1.optim.structures import linf_candidates, weight_blocks
from streaml1.optim.structures.linf_candidates import BUCKETS, FINE, LINK, MARK, settle
from streaml1.optim.structures.linf_floor import fill, lift
from streaml1.optim.structures.linf_level import fall, place_all, rise
from streaml1.optim.structures.slot_arrays import grown, moved, records
from streaml1.optim.structures.top_k import FOUND, WIDE
from streaml1.optim.structures.weight_blocks import BLOCK, MEMBER

__all__ = ["FobosLinf"]

CLOCK = np.dtype(
    [
        ("strength", "f8"),
        ("level", "f8"),  # where the last step has left it: no weight is larger
        ("risen", "i8"),  # how many of the row in hand are at the level or above,
        ("excess", "f8"),  # and by how much together
        # Of the candidates:
        ("entries", "i8"),  # of the pool
        ("most", "i8"),  # of them, until it is settled
        ("open", "i8"),  # the first bucket whose weights are in the pool
        ("floor", "f8"),
        ("scale", "f8"),  # buckets for a unit of size
        ("lowest", "f8"),  # level since they were filled
        ("lowered", "i8"),  # how often, since the floor was raised
        ("touches", "i8"),  # non-zeros since they were filled or looked at,
        ("held", "i8"),  # and how many there were
        ("owed", "i8"),  # slots that were looked at, less what non-zeros have paid
    ],
    align=True,
)
# Of the row in hand; lists have their own lengths.
SCRATCH = np.dtype(
    [
        ("w", "f8"),  # the weight of each non-zero
        ("slot", "i8"),  # those near the level, and what their u was
        ("u", "f8"),
        ("risen", "i8"),  # those at the level or above,
        ("moved", "i8"),  # those that need another place
    ],
    align=True,
)
WEIGHT_MOST = 1e150
ROOM_LEAST = 256

ZERO = np.uint64(0)
POOL = 1 + int(WIDE)  # entries that the pool has beyond those of all slots


class FobosLinf(NamedTuple):
    """State of FoBoS with the l-infinity norm: weights, blocks of equal ones, the next largest."""

    u: Annotated[Any, np.float64]
    places: Annotated[Any, np.int32]
    blocks: Annotated[Any, BLOCK]
    keys: Annotated[Any, np.float64]
    ids: Annotated[Any, np.int32]
    found: Annotated[Any, FOUND]
    heads: Annotated[Any, np.int32]
    links: Annotated[Any, LINK]
    scratch: Annotated[Any, SCRATCH]
    clock: Annotated[Any, CLOCK]

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        a = 0.0
        far = ahead(ids, hi)
        kept = np.uint64(hi - lo <= np.uint64(len(self.scratch)))  # to learn: there is room
        floor = self.clock[0].floor
        for k in range(lo, hi):
            prefetch_early(self.u, np.uint64(ids[k + far]))
            j = np.uint64(ids[k])
            u = self.u[j]
            prefetch(self.places, j * np.uint64(abs(u) >= floor))
            w = weight_blocks.current(self, u)
            self.scratch[(k - lo) * kept].w = w
            a += w * values[k]
        return a

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        c = self.clock[0]
        c.touches += np.int64(hi - lo)
        if step == 0.0:  # members stay
            for k in range(lo, hi):
                if self.u[ids[k]] == 0.0:
                    self.u[ids[k]] = MARK
            return
        floor, n = c.floor, ZERO
        for k in range(lo, hi):
            j = np.uint64(ids[k])
            u = self.u[j]
            v = self.scratch[k - lo].w - step * values[k]
            self.u[j] = v if v != 0.0 else MARK
            self.scratch[n].slot = np.int64(j)
            self.scratch[n].u = u
            n += np.uint64(max(abs(u), abs(v)) >= floor)
        place_all(self, n)

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        left = eta * c.strength
        if left == 0.0 or c.excess > left:
            rise(self, left)
        else:
            fall(self, left - c.excess)
        c.risen = 0
        c.excess = 0.0
        settle(self)
        c.lowest = min(c.lowest, c.level)
        lift(self)

    def renormalize(self) -> None:
        pass

    def has_capacity(self, nnz: Any) -> bool:
        return nnz <= np.uint64(len(self.scratch)) and weight_blocks.has_room(self)

    def weight(self, j: Any) -> float:
        return weight_blocks.current(self, self.u[j])

    def weights(self) -> Any:
        w = np.array(self.u)
        members = np.abs(w) >= MEMBER
        leads = self.blocks["lead"][weight_blocks.ids_of(w[members])]
        w[members] = np.copysign(self.blocks["value"][leads], w[members])
        return w

    def seen_mask(self) -> Any:
        return (self.u != 0.0) | np.signbit(self.u)

    def live_mask(self) -> Any:
        return self.weights() != 0.0

    def drop(self, slots: Any) -> None:
        weight_blocks.leave_all(self, slots)
        self.u[slots] = MARK
        at = -self.places[slots].astype(np.int64)
        self.keys[at[at > 0]] = 0.0

    def reserve(self, nnz: int) -> FobosLinf:
        full = self.blocks["after"][0] == 0
        return self._replace(
            blocks=weight_blocks.with_room(self.blocks) if full else self.blocks,
            scratch=records(max(nnz, len(self.scratch)), SCRATCH),
        )

    @property
    def size(self) -> int:
        return len(self.u)

    def grow(self, d: int) -> FobosLinf:
        u, places, links = (grown(a, d) for a in (self.u, self.places, self.links))
        keys, ids, found = (grown(a, d + POOL) for a in (self.keys, self.ids, self.found))
        return self._replace(u=u, places=places, links=links, keys=keys, ids=ids, found=found)

    def remap(self, new_slots: Any, d: int) -> FobosLinf:
        w, seen_mask = (moved(a, new_slots, d) for a in (self.weights(), self.seen_mask()))
        c = self.clock[0]
        u = np.where(seen_mask & (w == 0.0), MARK, w)
        return _built(u, c.strength, c.level, len(self.scratch))

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        w, c = self.weights(), self.clock[0]
        slots = np.flatnonzero(w)
        return slots, {"w": w[slots], "scalars": np.array([c.strength, c.level])}

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> FobosLinf:
        ensure(set(arrays) == {"w", "scalars"}, "other arrays")
        w, scalars = arrays["w"], arrays["scalars"]
        ensure(w.dtype == np.float64 and w.shape == slots.shape, "not w")
        ensure(scalars.dtype == np.float64 and scalars.shape == (2,), "no strength and level")
        ensure(np.all(np.abs(w) <= scalars[1]), "a weight is above the level")
        ensure(np.all(w != 0.0), "a weight is 0")
        u = in_lines(d, np.float64)
        u[slots] = w
        return _built(u, scalars[0], scalars[1], ROOM_LEAST)

    def check(self) -> None:
        kinds = {"blocks": BLOCK, "found": FOUND, "links": LINK, "scratch": SCRATCH, "clock": CLOCK}
        for name, dtype in kinds.items():
            array = getattr(self, name)
            ensure(array.dtype == dtype and array.ndim == 1, f"{name} is no row of records")
        d = len(self.u)
        for array in (
            self.places,
            self.links,
            self.keys[POOL:],
            self.ids[POOL:],
            self.found[POOL:],
        ):
            ensure(len(array) == d, "the arrays are of different lengths")
        weight_blocks.check(self)
        linf_candidates.check(self)
        w, c = np.abs(self.weights()), self.clock[0]
        ensure(np.all(w < WEIGHT_MOST), "a weight is out of range")
        ensure(0.0 <= c.strength < math.inf, "the strength is out of range")
        ensure(0.0 <= c.level < WEIGHT_MOST, "the level is out of range")
        ensure(np.all(w <= c.level), "a weight is above the level")
        ensure(c.risen == 0 and c.excess == 0.0, "a row is left over")

    @staticmethod
    def start(d: int, strength: float) -> FobosLinf:
        """`d` zero weights."""
        return _built(in_lines(d, np.float64), strength, 0.0, ROOM_LEAST)


def _built(u: Any, strength: float, level: float, nnz: int) -> FobosLinf:
    """The rule with these weights, none above the level."""
    d, clock = len(u), records(1, CLOCK)
    c = clock[0]
    c.strength, c.level = strength, level
    rule = FobosLinf(
        *(u, np.zeros(d, np.int32), weight_blocks.no_blocks(), np.zeros(d + POOL)),
        *(np.zeros(d + POOL, np.int32), records(d + POOL, FOUND)),
        *(np.full(BUCKETS, -1, np.int32), records(d, LINK), records(nnz, SCRATCH), clock),
    )
    fill(rule, 0.5 * level, FINE)
    return rule
