r"""Regularized dual averaging with l1 (Xiao 2010, Algorithm 1), each step weighted by its rate.

$$w = \mathrm{sgn}(z)\,[\,|z| - A]_+ \qquad z = -\sum \eta g x, \qquad A = \sum \eta\lambda$$

Stored is z of each slot. All slots share A, so nothing is pending for features that are absent.
Cost of a step: O(non-zeros of the row). Memory: 8 bytes per slot.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.types import Floats, Records
from streaml1.optim.rule_state import Ledger, PerSlot, RuleState
from streaml1.optim.update_rule import weight

__all__ = ["RDA"]

MARK = -0.0  # the z of a touched slot is never +0.0: see `rule_state`
CLOCK = np.dtype([("A", "f8"), ("l1", "f8")], align=True)


class RDAState(NamedTuple):
    """z of each slot; A and the strength of the penalty."""

    z: Annotated[Floats, PerSlot(np.float64, dropped=MARK)]
    clock: Annotated[Records, Ledger(CLOCK)]


class RDA(RuleState, RDAState):
    """Regularized dual averaging with l1."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        a = 0.0
        for k in range(lo, hi):
            a += weight(self, ids[k]) * values[k]
        return a

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        for k in range(lo, hi):
            z = self.z[ids[k]] - step * values[k]
            self.z[ids[k]] = z if z != 0.0 else MARK

    def apply_penalty(self, eta: float) -> None:
        self.clock[0].A += eta * self.clock[0].l1

    def weight(self, j: Any) -> float:
        z, A = self.z[j], self.clock[0].A
        return z - max(-A, min(A, z))

    def weights(self) -> Floats:
        return self.z - np.clip(self.z, -self.clock[0].A, self.clock[0].A)
