r"""Averaged truncated gradient.

The steps are those of `truncated_gradient.py`. Langford, Li & Zhang (2009) bound the regret of the
weights themselves; by convexity the bound holds for their mean too.

A weight that no example touches and that lies within $\theta$ is $\mathrm{sgn}(v)\,[\,|v| + a - A_s]_+$ after step s:
its stored size is $|v|$, and P is 1 (see `averaged.AveragedL1`). One beyond $\theta$ stays where it is: a is
infinite, and its contribution is v times the number of steps. Only the steps that truncate add a
prefix sum.

All sums are settled, a pass over all slots, when the prefix sums are full, when $\theta$ changes, and when
A restarts.

Cost of a step: O(non-zeros of the row). Memory: 24 bytes per slot, and up to 40 per step, for a
million steps.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early
from streaml1.core.types import Floats, Ids, Records
from streaml1.optim.averaged import AveragedL1
from streaml1.optim.rule_state import Ledger, PerSlot, Scratch, new_state
from streaml1.optim.structures import alive_intervals
from streaml1.optim.structures.alive_intervals import (
    CELLS_PER_STEP,
    GRID_SPEC,
    MEAN,
    PREFIX_SUM,
)
from streaml1.optim.structures.running_averages import MIN_ROOM
from streaml1.optim.truncated_gradient import (
    A_START,
    CLOCK,
    SLOT,
    TruncatedGradient,
    advance,
)

__all__ = ["AveragedTruncatedGradient"]


class AveragedTruncatedGradientState(NamedTuple):
    """State of the truncated gradient, the sums of its weights, and the prefix sums."""

    slots: Annotated[Records, PerSlot(SLOT, seen="a", dropped=(0.0, A_START))]
    scratch: Annotated[Floats, Scratch(np.float64)]
    clock: Annotated[Records, Ledger(CLOCK)]
    sums: Annotated[Floats, PerSlot(np.float64, dropped=0.0)]
    mean: Annotated[Records, Ledger(MEAN)]
    row_sums: Annotated[Floats, Scratch(np.float64, MIN_ROOM)]
    row_slots: Annotated[Ids, Scratch(np.uint32, MIN_ROOM)]
    prefix_sums: Annotated[Records, Scratch(PREFIX_SUM, MIN_ROOM)]
    grid: Annotated[Ids, Scratch(np.uint32, CELLS_PER_STEP * MIN_ROOM)]
    spec: Annotated[Records, Scratch(GRID_SPEC, 1)]


class AveragedTruncatedGradient(AveragedL1, AveragedTruncatedGradientState):
    """The truncated gradient that predicts with the mean of its weights."""

    def plain(self) -> TruncatedGradient:
        return TruncatedGradient(self.slots, self.scratch, self.clock)

    def is_stale(self) -> bool:
        return bool(self.clock[0].theta != self.clock[0].threshold)

    def take_step(self, eta: float) -> bool:
        return advance(self.clock[0], eta)

    def scalars(self) -> tuple[float, float]:
        return self.clock[0].A, 1.0

    def prefetch_slot(self, j: Any) -> None:
        prefetch_early(self.slots, j)

    def contribution(self, j: Any, P_sum: float, PA_sum: float) -> tuple[float, float, float]:
        slot = self.slots[j]
        v, a = slot.v, slot.a
        size = abs(v)
        within = a < math.inf
        X = (size + (a if within else 0.0)) * P_sum - (PA_sum if within else 0.0)
        return math.copysign(1.0, v) * X, size, a

    def total(self, j: Any) -> float:
        slot = self.slots[j]
        v, a = slot.v, slot.a
        if a == math.inf:
            beyond: float = self.sums[j] + v * self.mean[0].P_sum
            return beyond
        X = alive_intervals.contribution(self, self.clock[0].A, abs(v), a)
        S: float = self.sums[j] + math.copysign(1.0, v) * X
        return S

    def bury(self, j: Any, S: float) -> None:
        slot = self.slots[j]
        slot.v = 0.0
        slot.a = A_START
        self.sums[j] = S

    def totals(self) -> Floats:
        v, a = self.slots["v"], self.slots["a"]
        beyond = np.isposinf(a)
        size, a = np.where(beyond, 0.0, np.abs(v)), np.where(beyond, 0.0, a)
        X = alive_intervals.contributions(self, self.clock[0].A, size, a)
        return self.sums + np.where(beyond, v * self.mean[0].P_sum, np.copysign(1.0, v) * X)

    def check(self) -> None:
        super().check()
        ensure(self.mean[0].t == self.clock[0].t, "the mean does not count all steps")
        buried = (self.slots["v"] == 0.0) & (self.slots["a"] != 0.0)
        ensure(np.all(self.slots["a"][buried] == A_START), "a zero weight is not stored as dead")

    @staticmethod
    def start(d: int, gravity: float, period: int, threshold: float) -> AveragedTruncatedGradient:
        """Return a rule with `d` zero weights."""
        rule = new_state(AveragedTruncatedGradient, d)
        rule.clock[0] = (A_START, 0.0, 0, threshold, gravity, period, threshold)
        rule.mean[0].budget = alive_intervals.BUDGET
        rule._rebuild_scratch()
        return rule
