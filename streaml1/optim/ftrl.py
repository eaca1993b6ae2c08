r"""FTRL-Proximal: follow the regularised leader, with a rate of its own for each coordinate.

McMahan et al. (2013), *Ad click prediction: a view from the trenches*, Algorithm 1. For each feature
of the example, with $G = g x_j$ and $w$ the weight that predicted:

$$\sigma = \frac{\sqrt{n + G^2} - \sqrt{n}}{\alpha}, \qquad z \leftarrow z + G - \sigma w, \qquad n \leftarrow n + G^2$$

$$w = \begin{cases}0 & \text{if } |z| \le \lambda_1\\
-\dfrac{z - \mathrm{sgn}(z)\lambda_1}{(\beta + \sqrt{n})/\alpha + \lambda_2} & \text{else}\end{cases}$$

A weight is a function of its own z and n: nothing is pending, and nothing is to be done for features
that are absent. z and n live on where the weight is zero.

Differs from the paper: a) any loss, and the intercept is no coordinate of it. b) $\alpha$, $\beta$, $\lambda_1$ and
$\lambda_2$ may change: the next step ends with weights by the new ones.

Cost of a step: the non-zeros of the row, two roots and a quotient each; 16 bytes a slot.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.prefetch import ahead
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early
from streaml1.optim.structures.slot_arrays import grown, moved, records, scratch_for

__all__ = ["FTRL"]

# z is -0.0 where an example has touched the slot and left it at zero.
SLOT = np.dtype([("z", "f8"), ("n", "f8")], align=True)
MARK = -0.0
ENTRY = np.dtype([("w", "f8"), ("root", "f8")], align=True)
CLOCK = np.dtype(
    [
        *(("alpha", "f8"), ("beta", "f8"), ("l1", "f8"), ("l2", "f8")),  # from the next step on
        # What weights are by. Of alpha the inverse: a product is cheaper than a quotient.
        *(("over_alpha", "f8"), ("beta_now", "f8"), ("l1_now", "f8"), ("l2_now", "f8")),
    ],
    align=True,
)
NUMBER_MOST = 1e250


@inlined
def _weight(z: float, root: float, over_alpha: float, beta: float, l1: float, l2: float) -> float:
    """The weight of z and the root of n."""
    least = -l1
    inside = z if z > least else least
    inside = inside if inside < l1 else l1
    return (inside - z) / ((beta + root) * over_alpha + l2)


class FTRL(NamedTuple):
    """State of FTRL-Proximal: z and n (d,), and the parameters."""

    slots: Annotated[Any, SLOT]
    scratch: Annotated[Any, ENTRY]  # of the row in hand
    clock: Annotated[Any, CLOCK]

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        c = self.clock[0]
        over_alpha, beta, l1, l2 = c.over_alpha, c.beta_now, c.l1_now, c.l2_now
        a = 0.0
        if hi - lo > np.uint64(len(self.scratch)):  # to predict: learning has had room made
            for k in range(lo, hi):
                one = self.slots[ids[k]]
                a += _weight(one.z, math.sqrt(one.n), over_alpha, beta, l1, l2) * values[k]
            return a
        far = ahead(ids, hi)
        for k in range(lo, hi):
            prefetch_early(self.slots, np.uint64(ids[k + far]))
            one = self.slots[ids[k]]
            root = math.sqrt(one.n)
            w = _weight(one.z, root, over_alpha, beta, l1, l2)
            entry = self.scratch[k - lo]
            entry.w = w
            entry.root = root
            a += w * values[k]
        return a

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # The row was gathered just before: weights and roots are at hand. `step` is g.
        over_alpha = 1.0 / self.clock[0].alpha
        for k in range(lo, hi):
            one = self.slots[ids[k]]
            entry = self.scratch[k - lo]
            G = step * values[k]
            n = one.n + G * G
            z = one.z + (G - (math.sqrt(n) - entry.root) * over_alpha * entry.w)
            one.z = z if z != 0.0 else MARK
            one.n = n

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        c.over_alpha = 1.0 / c.alpha
        c.beta_now = c.beta
        c.l1_now = c.l1
        c.l2_now = c.l2

    def renormalize(self) -> None:
        pass

    def has_capacity(self, nnz: Any) -> bool:
        return nnz <= np.uint64(len(self.scratch))

    def weight(self, j: Any) -> float:
        c, one = self.clock[0], self.slots[j]
        root = math.sqrt(one.n)
        return _weight(one.z, root, c.over_alpha, c.beta_now, c.l1_now, c.l2_now)

    def weights(self) -> Any:
        c, z = self.clock[0], self.slots["z"]
        beyond = np.clip(z, -c.l1_now, c.l1_now) - z
        return beyond / ((c.beta_now + np.sqrt(self.slots["n"])) * c.over_alpha + c.l2_now)

    def seen_mask(self) -> Any:
        return (self.slots["z"] != 0.0) | np.signbit(self.slots["z"]) | (self.slots["n"] > 0.0)

    def live_mask(self) -> Any:
        return (self.slots["z"] != 0.0) | (self.slots["n"] > 0.0)

    def drop(self, slots: Any) -> None:
        self.slots["z"][slots] = MARK
        self.slots["n"][slots] = 0.0

    def reserve(self, nnz: int) -> FTRL:
        return self._replace(scratch=scratch_for(nnz, self.scratch))

    @property
    def size(self) -> int:
        return len(self.slots)

    def grow(self, d: int) -> FTRL:
        return self._replace(slots=grown(self.slots, d))

    def remap(self, new_slots: Any, d: int) -> FTRL:
        return self._replace(slots=moved(self.slots, new_slots, d))

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.live_mask())
        arrays = {name: self.slots[name][slots] for name in ("z", "n")}
        return slots, {**arrays, "clock": self.clock.copy()}

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> FTRL:
        ensure(set(arrays) == {"z", "n", "clock"}, "other arrays")
        for name in ("z", "n"):
            ensure(arrays[name].dtype == np.float64, f"not {name}")
            ensure(arrays[name].shape == slots.shape, f"not {name}")
        ensure(arrays["clock"].dtype == CLOCK and arrays["clock"].shape == (1,), "no record")
        rule = FTRL.start(d, 1.0, 1.0, 0.0, 0.0)
        for name in ("z", "n"):
            rule.slots[name][slots] = arrays[name]
        rule.clock[:] = arrays["clock"]
        return rule

    def check(self) -> None:
        for name, dtype in (("slots", SLOT), ("scratch", ENTRY), ("clock", CLOCK)):
            array = getattr(self, name)
            ensure(array.dtype == dtype and array.ndim == 1, f"{name} is no row of records")
        c, z, n = self.clock[0], self.slots["z"], self.slots["n"]
        for name in ("alpha", "over_alpha", "beta", "beta_now"):
            ensure(0.0 < c[name] < math.inf, f"{name} is out of range")
        for name in ("l1", "l1_now", "l2", "l2_now"):
            ensure(0.0 <= c[name] < math.inf, f"{name} is out of range")
        ensure(np.all(np.abs(z) < NUMBER_MOST), "a z is out of range")
        ensure(np.all((n >= 0.0) & (n < NUMBER_MOST)), "an n is out of range")

    @staticmethod
    def start(d: int, alpha: float, beta: float, l1: float, l2: float) -> FTRL:
        """`d` zero weights."""
        clock = records(1, CLOCK)
        clock[0] = (alpha, beta, l1, l2, 1.0 / alpha, beta, l1, l2)
        return FTRL(records(d, SLOT), records(0, ENTRY), clock)
