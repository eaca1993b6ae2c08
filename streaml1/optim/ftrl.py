r"""FTRL-Proximal: follow the regularized leader, with a learning rate for each coordinate.

McMahan et al. (2013), *Ad click prediction: a view from the trenches*, Algorithm 1. For each feature
of the example, with $G = g x_j$ and $w$ the weight that predicted:

$$\sigma = \frac{\sqrt{n + G^2} - \sqrt{n}}{\alpha}, \qquad z \leftarrow z + G - \sigma w, \qquad n \leftarrow n + G^2$$

$$w = \begin{cases}0 & \text{if } |z| \le \lambda_1\\
-\dfrac{z - \mathrm{sgn}(z)\lambda_1}{(\beta + \sqrt{n})/\alpha + \lambda_2} & \text{else}\end{cases}$$

Stored for each slot are z and n. A weight is a function of both alone: nothing is pending for features
that are absent. z and n persist where the weight is zero.

Differences from the paper:

a) Any loss. The intercept is not one of the coordinates.
b) $\alpha$, $\beta$, $\lambda_1$ and $\lambda_2$ may change. The weights follow at the end of the next step.

Cost of a step: O(non-zeros of the row), with two square roots and a division each. Memory: 16 bytes
per slot.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.prefetch import prefetch_distance
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early
from streaml1.core.types import Bools, Floats, Records
from streaml1.optim.rule_state import Ledger, PerSlot, Scratch, ScratchRule, new_state
from streaml1.optim.structures.joined_sums import joined_sums, last_moves
from streaml1.optim.structures.restarted_sums import restarted_sums
from streaml1.optim.structures.slot_arrays import zeros
from streaml1.optim.structures.soft_threshold import clamped

__all__ = ["FTRL"]

MARK = -0.0  # the z of a touched slot is never +0.0: see `rule_state`
SLOT = np.dtype([("z", "f8"), ("n", "f8")], align=True)
SCRATCH = np.dtype([("w", "f8"), ("root", "f8")], align=True)
CLOCK = np.dtype(
    [
        # The parameters, from the next step on.
        *(("alpha", "f8"), ("beta", "f8"), ("l1", "f8"), ("l2", "f8")),
        # The parameters of the current weights, with 1 / alpha: products are cheaper than
        # quotients.
        *(("over_alpha", "f8"), ("beta_now", "f8"), ("l1_now", "f8"), ("l2_now", "f8")),
    ],
    align=True,
)
MAX_NUMBER = 1e250


@inlined
def _weight(z: float, root: float, over_alpha: float, beta: float, l1: float, l2: float) -> float:
    """Return the weight of z and the square root of n."""
    return (clamped(z, l1) - z) / ((beta + root) * over_alpha + l2)


class FTRLState(NamedTuple):
    """z and n of each slot, weights and roots of the current row, and the parameters."""

    slots: Annotated[Records, PerSlot(SLOT, dropped=(MARK, 0.0))]
    scratch: Annotated[Records, Scratch(SCRATCH)]
    clock: Annotated[Records, Ledger(CLOCK)]


class FTRL(ScratchRule, FTRLState):
    """FTRL-Proximal."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        c = self.clock[0]
        over_alpha, beta, l1, l2 = c.over_alpha, c.beta_now, c.l1_now, c.l2_now
        a = 0.0
        if hi - lo > np.uint64(len(self.scratch)):  # possible only to predict
            for k in range(lo, hi):
                slot = self.slots[ids[k]]
                a += _weight(slot.z, math.sqrt(slot.n), over_alpha, beta, l1, l2) * values[k]
            return a
        distance = prefetch_distance(ids, hi)
        for k in range(lo, hi):
            prefetch_early(self.slots, np.uint64(ids[k + distance]))
            slot = self.slots[ids[k]]
            root = math.sqrt(slot.n)
            w = _weight(slot.z, root, over_alpha, beta, l1, l2)
            saved = self.scratch[k - lo]
            saved.w = w
            saved.root = root
            a += w * values[k]
        return a

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # `margin` has left weights and roots in the scratch array. `step` is g: the rate is 1.
        over_alpha = 1.0 / self.clock[0].alpha
        for k in range(lo, hi):
            slot = self.slots[ids[k]]
            saved = self.scratch[k - lo]
            G = step * values[k]
            n = slot.n + G * G
            z = slot.z + (G - (math.sqrt(n) - saved.root) * over_alpha * saved.w)
            slot.z = z if z != 0.0 else MARK
            slot.n = n

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        c.over_alpha = 1.0 / c.alpha
        c.beta_now = c.beta
        c.l1_now = c.l1
        c.l2_now = c.l2

    def weight(self, j: Any) -> float:
        c, slot = self.clock[0], self.slots[j]
        root = math.sqrt(slot.n)
        return _weight(slot.z, root, c.over_alpha, c.beta_now, c.l1_now, c.l2_now)

    def weights(self) -> Floats:
        c, z = self.clock[0], self.slots["z"]
        outside = np.clip(z, -c.l1_now, c.l1_now) - z
        return outside / ((c.beta_now + np.sqrt(self.slots["n"])) * c.over_alpha + c.l2_now)

    def live_mask(self) -> Bools:
        live: Bools = (self.slots["z"] != 0.0) | (self.slots["n"] > 0.0)
        return live

    def check(self) -> None:
        super().check()
        c, z, n = self.clock[0], self.slots["z"], self.slots["n"]
        for name in ("alpha", "over_alpha", "beta", "beta_now"):
            ensure(0.0 < c[name] < math.inf, f"{name} is out of range")
        for name in ("l1", "l1_now", "l2", "l2_now"):
            ensure(0.0 <= c[name] < math.inf, f"{name} is out of range")
        ensure(np.all(np.abs(z) < MAX_NUMBER), "a z is out of range")
        ensure(np.all((n >= 0.0) & (n < MAX_NUMBER)), "an n is out of range")

    def reset_rates(self) -> None:
        """Set all n to 0, and each z such that its weight stays."""
        c = self.clock[0]
        denominator = c.beta_now * c.over_alpha + c.l2_now
        z = self.slots["z"]
        self.slots["z"] = restarted_sums(z, self.weights(), c.l1_now, denominator, MARK)
        self.slots["n"] = 0.0

    def candidates(
        self, parts: Sequence[FTRL], rates: Sequence[Iterable[Floats]]
    ) -> Iterator[tuple[str, FTRL]]:
        """Yield the candidates of `structures.joined_sums` without momentum."""
        return self._joined(parts, None)

    def candidates_with_momentum(
        self, parts: Sequence[FTRL], rates: Sequence[Iterable[Floats]], before: FTRL
    ) -> Iterator[tuple[str, FTRL]]:
        """Yield the candidates of `structures.joined_sums`."""
        return self._joined(parts, last_moves(self._sums(), before._sums()))

    def _joined(self, parts: Sequence[FTRL], moves: Floats | None) -> Iterator[tuple[str, FTRL]]:
        sums = [part._sums() for part in parts]
        for name, z, n in joined_sums(*self._sums(), sums, moves):
            slots = zeros(self.size, self.slots)
            slots["z"], slots["n"] = np.where(z == 0.0, MARK, z), n
            yield name, self._replace(slots=slots)

    def _sums(self) -> tuple[Floats, Floats]:
        """Return z and n of each slot."""
        return self.slots["z"], self.slots["n"]

    @staticmethod
    def start(d: int, alpha: float, beta: float, l1: float, l2: float) -> FTRL:
        """Return a rule with `d` zero weights."""
        rule = new_state(FTRL, d)
        rule.clock[0] = (alpha, beta, l1, l2, 1.0 / alpha, beta, l1, l2)
        return rule
