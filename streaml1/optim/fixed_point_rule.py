"""Common base of the l1 balls, whose weights are a vector of integers with one shift for all.

`structures/fixed_point_vector.py` explains the vector. The balls differ in the index that finds the
weights that become zero: a timing wheel (`l1_ball.py`) or a search tree (`l1_ball_tree.py`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.rows import ensure
from streaml1.core.types import Bools, Floats, Ints
from streaml1.optim.rule_state import RuleState, ensure_array, ensure_keys
from streaml1.optim.structures.fixed_point_vector import (
    ANY_SIGN,
    COARSE_Z,
    FULL,
    MAX_THETA,
    MAX_Z,
    SAVED,
    margin,
    sizes_of,
    unit_of,
    weight,
    z_of,
)

__all__ = ["FixedPointRule"]


class FixedPointRule(RuleState):
    """A rule with the fields `slots` and `clock` of such a vector.

    Its index, which finds the weights that become zero, is not part of its state. The hook
    `_asleep(d)` returns a rule with `d` empty slots and an empty index.
    """

    __slots__ = ()

    def margin(self: Any, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        return margin(self.slots, self.clock, ids, values, lo, hi)

    def weight(self: Any, j: Any) -> float:
        return weight(self.slots, self.clock, j)

    # Python.

    def weights(self: Any) -> Floats:
        return np.copysign(sizes_of(self.slots, self.clock) * self.clock[0].unit, self.slots["v"])

    def live_mask(self: Any) -> Bools:
        live: Bools = np.abs(self.slots["v"]) > self.clock[0].Theta
        return live

    def drop(self: Any, slots: Ints) -> None:
        """Set the weights of some slots to 0. The index notices when it visits them."""
        size = sizes_of(self.slots[slots], self.clock)
        self.clock.S[0] -= size.sum()
        self.clock.n[0] -= np.count_nonzero(size)
        self.slots["v"][slots] = 1

    def set_radius(self: Any, radius: float) -> None:
        """Set the radius from the next step on."""
        self.clock.radius[0] = radius
        self.clock.z[0] = int(z_of(radius, float(self.clock.unit[0])))

    def begin(self: Any, radius: float, nonnegative: bool) -> None:
        """Initialize the ledger of no weights."""
        self.clock.Theta[0] = 1
        self.clock.unit[0] = unit_of(min(radius, 1.0))
        self.clock.least[0] = 0 if nonnegative else ANY_SIGN
        self.set_radius(radius)

    @classmethod
    def start(cls: Any, d: int, radius: float, nonnegative: bool) -> Any:
        """Return a rule with `d` zero weights."""
        rule = cls._asleep(d)
        rule.begin(radius, nonnegative)
        return rule

    def state_dict(self: Any) -> tuple[Ints, dict[str, Any]]:
        """Return the slots of the non-zero weights, their values in units, and the scalars.

        The shift is not part of it.
        """
        c = self.clock[0]
        alive = np.flatnonzero(self.live_mask())
        slots = self.slots[alive]
        kept = np.array([(c.radius, c.unit, c.least == 0)], SAVED)
        return alive, {"w": np.sign(slots["v"]) * sizes_of(slots, self.clock), "kept": kept}

    @classmethod
    def from_state_dict(cls: Any, d: int, slots: Ints, arrays: dict[str, Any]) -> Any:
        ensure_keys(arrays, ("w", "kept"))
        w, kept = arrays["w"], arrays["kept"]
        ensure_array(w, "w", np.dtype(np.int64), slots.shape)
        ensure_array(kept, "kept", SAVED, (1,))
        ensure(np.all(np.abs(w) < FULL) and np.all(w != 0), "a weight is out of range")
        unit, radius = float(kept["unit"][0]), float(kept["radius"][0])
        ensure(0.0 < unit < math.inf and 0.0 < radius < math.inf, "radius or unit is out of range")
        ensure(math.frexp(unit)[0] == 0.5, "the unit is not a power of two")
        rule = cls.start(d, radius, bool(kept["nonnegative"][0]))
        rule.clock.unit[0] = unit
        rule.set_radius(radius)
        rule.clock.S[0] = sum(map(abs, w.tolist()))
        rule.clock.n[0] = len(w)
        rule.slots["v"][slots] = w + np.sign(w)
        return rule

    def check(self: Any) -> None:
        super().check()
        c = self.clock[0]
        size = sizes_of(self.slots, self.clock)
        total = sum(size[size > 0].tolist())
        ensure(1 <= c.Theta <= MAX_THETA, f"Theta={c.Theta} is out of range")
        ensure(total == c.S, f"S={c.S} should be {total}")
        ensure(np.count_nonzero(size) == c.n, f"n={c.n} is not the number of non-zero weights")
        ensure(c.S < FULL, f"S={c.S} is out of range")
        is_valid = math.frexp(c.unit)[0] == 0.5 and 0.0 < c.radius < math.inf
        ensure(is_valid, "unit or radius is out of range")
        ensure(COARSE_Z <= c.z <= MAX_Z, f"z={c.z} is out of range")
        is_bound = c.z in (COARSE_Z, MAX_Z)
        ensure(is_bound or c.z == int(c.radius / c.unit), f"z={c.z} does not match the radius")
        ensure(c.least in (0, ANY_SIGN), f"least={c.least} is neither bound")
        if c.least == 0:
            ensure(np.all(self.slots["v"][size > 0] > 0), "a weight is negative")
