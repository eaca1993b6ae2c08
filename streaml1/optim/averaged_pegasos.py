r"""Averaged Pegasos.

Shalev-Shwartz, Singer & Srebro (2007), whose bound is on the mean of the objectives of all $w_t$;
by convexity it holds for the mean of the weights too.

With $w_t = s_t u$ as in `pegasos.py` and $\Sigma_t = s_1 + \dots + s_t$, the contribution of a
weight is $X_j = u_j \Sigma_t$ (see `averaged.py`). All sums are settled where s has fallen far
below the mean of $\Sigma$. Without projections $\Sigma/s$ grows as $t \log t$, and that never
happens.

Cost of a step: O(non-zeros of the row). Memory: 16 bytes per slot.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import u64
from streaml1.core.prefetch import prefetch_distance
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early
from streaml1.core.types import Floats, Ints, Records
from streaml1.optim.averaged import Averaged, total
from streaml1.optim.pegasos import CLOCK, MARK, Pegasos, advance, is_stale
from streaml1.optim.rule_state import Ledger, PerSlot, Scratch, new_state
from streaml1.optim.structures import running_averages
from streaml1.optim.structures.running_averages import MAX_RATIO, MIN_ROOM

__all__ = ["AveragedPegasos"]

MEAN = np.dtype([*running_averages.MEAN, ("s_sum", "f8")], align=True)


class AveragedPegasosState(NamedTuple):
    """State of Pegasos, and the sums of its weights."""

    u: Annotated[Floats, PerSlot(np.float64, dropped=MARK)]
    clock: Annotated[Records, Ledger(CLOCK)]
    sums: Annotated[Floats, PerSlot(np.float64, dropped=0.0)]
    row_sums: Annotated[Floats, Scratch(np.float64, MIN_ROOM)]
    mean: Annotated[Records, Ledger(MEAN)]


class AveragedPegasos(Averaged, AveragedPegasosState):
    """Pegasos that predicts with the mean of its weights."""

    def plain(self) -> Pegasos:
        return Pegasos(self.u, self.clock)

    def is_stale(self) -> bool:
        return is_stale(self.clock[0])

    def take_step(self, eta: float) -> bool:
        return advance(self.clock[0])

    def total(self, j: Any) -> float:
        S: float = self.sums[j] + self.u[j] * self.mean[0].s_sum
        return S

    def sum_row(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        distance = prefetch_distance(ids, hi)
        S = 0.0
        for k in range(lo, hi):
            prefetch_early(self.sums, np.uint64(ids[k + distance]))
            S_j = total(self, ids[k])
            self.row_sums[k - lo + u64(1)] = S_j
            S += S_j * values[k]
        return S

    def store_row(self, ids: Any, lo: Any, hi: Any) -> None:
        s_sum = self.mean[0].s_sum
        for k in range(lo, hi):
            self.sums[ids[k]] = self.row_sums[k - lo + u64(1)] - self.u[ids[k]] * s_sum

    def extend_sums(self) -> None:
        m = self.mean[0]
        m.t += 1
        m.s_sum += self.clock[0].s

    def is_due(self) -> bool:
        m = self.mean[0]
        return bool(m.s_sum > MAX_RATIO * m.t * self.clock[0].s)

    def restart_sums(self) -> None:
        self.mean[0].s_sum = 0.0

    def totals(self) -> Floats:
        return self.sums + self.u * self.mean[0].s_sum

    def drop(self, slots: Ints) -> None:
        super().drop(slots)
        self.clock[0].drift = math.inf  # as in `Pegasos.drop`

    def check(self) -> None:
        super().check()
        m, c = self.mean[0], self.clock[0]
        limit = MAX_RATIO * m.t * c.s
        ensure(0.0 <= m.s_sum <= limit, f"the sum of s, {m.s_sum}, is not within [0, {limit}]")
        ensure(m.t == c.t, f"the mean counts {m.t} steps of {c.t}")

    @staticmethod
    def start(d: int, l2: float, project: int) -> AveragedPegasos:
        """Return a rule with `d` zero weights."""
        rule = new_state(AveragedPegasos, d)
        rule.clock[0] = (1.0, 0.0, 0.0, 0.0, 0, l2, project)
        return rule
