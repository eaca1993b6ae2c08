r"""Averaged lazy elastic net.

The steps are those of `elastic_net.py`: Lipton & Elkan (2015) for the lazy update, Duchi & Singer
(2009) for the FoBoS step, whose regret bounds hold for the mean of the weights by convexity.

There a weight that no example touches moves as $w_s = \mathrm{sgn}(u)\,P_s\,[\,|u| - A_s]_+$. So its stored size is
$|u|$, which is m itself, and a = 0 (see `averaged.AveragedL1`).

The papers do not treat lazy averages. All sums are settled, a pass over all slots, when the prefix
sums are full (`budget` steps), when P has fallen far below its mean (at a constant rate about every
$\log(t\,\eta\lambda_2)/\eta\lambda_2$ steps), and with each `renormalize`.

Cost of a step: O(non-zeros of the row). Memory: 16 bytes per slot, and up to 40 per step of the budget.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.simd import prefetch_early
from streaml1.core.types import Floats, Ids, Records
from streaml1.optim.averaged import AveragedL1
from streaml1.optim.elastic_net import A_START, CLOCK, ElasticNet, advance
from streaml1.optim.rule_state import Ledger, PerSlot, Scratch, new_state
from streaml1.optim.structures import alive_intervals
from streaml1.optim.structures.alive_intervals import (
    CELLS_PER_STEP,
    GRID_SPEC,
    MEAN,
    PREFIX_SUM,
)
from streaml1.optim.structures.running_averages import MIN_ROOM

__all__ = ["AveragedElasticNet"]


class AveragedElasticNetState(NamedTuple):
    """State of the elastic net, the sums of its weights, and the prefix sums."""

    u: Annotated[Floats, PerSlot(np.float64, dropped=A_START)]
    scratch: Annotated[Floats, Scratch(np.float64)]
    clock: Annotated[Records, Ledger(CLOCK)]
    sums: Annotated[Floats, PerSlot(np.float64, dropped=0.0)]
    mean: Annotated[Records, Ledger(MEAN)]
    row_sums: Annotated[Floats, Scratch(np.float64, MIN_ROOM)]
    row_slots: Annotated[Ids, Scratch(np.uint32, MIN_ROOM)]
    prefix_sums: Annotated[Records, Scratch(PREFIX_SUM, MIN_ROOM)]
    grid: Annotated[Ids, Scratch(np.uint32, CELLS_PER_STEP * MIN_ROOM)]
    spec: Annotated[Records, Scratch(GRID_SPEC, 1)]


class AveragedElasticNet(AveragedL1, AveragedElasticNetState):
    """The elastic net that predicts with the mean of its weights."""

    def plain(self) -> ElasticNet:
        return ElasticNet(self.u, self.scratch, self.clock)

    def is_stale(self) -> bool:
        return False

    def take_step(self, eta: float) -> bool:
        return advance(self.clock[0], eta)

    def scalars(self) -> tuple[float, float]:
        return self.clock[0].A, self.clock[0].P

    def prefetch_slot(self, j: Any) -> None:
        prefetch_early(self.u, j)

    def contribution(self, j: Any, P_sum: float, PA_sum: float) -> tuple[float, float, float]:
        u = self.u[j]
        return u * P_sum - math.copysign(PA_sum, u), abs(u), 0.0

    def total(self, j: Any) -> float:
        u = self.u[j]
        X = alive_intervals.contribution(self, self.clock[0].A, abs(u), 0.0)
        S: float = self.sums[j] + math.copysign(1.0, u) * X
        return S

    def bury(self, j: Any, S: float) -> None:
        self.u[j] = A_START
        self.sums[j] = S

    def totals(self) -> Floats:
        X = alive_intervals.contributions(self, self.clock[0].A, np.abs(self.u), 0.0)
        return self.sums + np.copysign(1.0, self.u) * X

    @staticmethod
    def start(d: int, l1: float, l2: float, sgd: bool, budget: int) -> AveragedElasticNet:
        """Return a rule with `d` zero weights; the prefix sums hold `budget` steps."""
        rule = new_state(AveragedElasticNet, d)
        rule.clock[0] = (1.0, A_START, 0.0, l1, l2, sgd)
        rule.mean[0].budget = budget
        rule._rebuild_scratch()
        return rule
