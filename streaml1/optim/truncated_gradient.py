r"""Truncated gradient, lazily.

Langford, Li & Zhang (2009), *Sparse online learning via truncated gradient*: a gradient step
$v = w - \eta g x$, and in every $K$-th step (`period`), on all coordinates, $w = T_1(v, K\eta G, \theta)$ with
gravity $G$ and

$$T_1(v, \alpha, \theta) = \mathrm{sgn}(v)\,[\,|v| - \alpha]_+ \text{ if } |v| \le \theta, \text{ else } v$$

A weight within $\theta$ that is not touched only shrinks, so it stays within; one beyond $\theta$ stays where it
is. So where it lay when it was last touched decides. With $A = \sum K\eta G$ over the truncations so far,
$v_j$ is left as it was then, beside $a_j$: the A of that time, or infinity if it lay beyond. Its current
value is $\mathrm{sgn}(v_j)\,[\,|v_j| - [A - a_j]_+]_+$.

Differs from the paper: a) it stamps each weight with the time of its last touch and asks for a constant
rate; a difference of two A holds at any rate. b) Where $\theta$ changes on the way, all weights are looked
at again. c) A outgrows the weights in the end: then all weights are brought current (a pass over all
slots) and A starts anew.

With $K = 1$ and $\theta = \infty$ it is the l1 FoBoS of `elastic_net.py`.

Cost of a step: the non-zeros of the row; 16 bytes a slot.
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
from streaml1.optim.update_rule import renormalize

__all__ = ["A_START", "CLOCK", "SLOT", "TruncatedGradient", "advance", "current"]

# a is 0 where no example has touched the slot.
SLOT = np.dtype([("v", "f8"), ("a", "f8")], align=True)
CLOCK = np.dtype(
    [
        ("A", "f8"),
        ("A_low", "f8"),  # what the rounding of A has lost (Kahan)
        ("t", "i8"),
        ("theta", "f8"),  # as the a_j have it
        ("gravity", "f8"),
        ("period", "i8"),
        ("threshold", "f8"),  # theta from the next step on
    ],
    align=True,
)

A_START = 1e-300  # not 0, so that every slot that has been touched has an a_j
WEIGHT_MOST = 1e150
# A difference of two A is known to eps * A: 64 keeps that at 1e-14. Where a single step shrinks by
# much, hundreds of steps go by between two passes over all slots all the same.
SHRINKAGE_MOST = 64.0
STEPS_LEAST = 256.0


@inlined
def current(one: Any, A: float) -> float:
    """The part of v outside of [-due, due]: sgn(v) [|v| - due]_+ without a look at the sign."""
    v = one.v
    due = A - one.a
    due = due if due > 0.0 else 0.0
    least = -due
    inside = v if v > least else least
    w: float = v - (inside if inside < due else due)
    return w


@inlined
def advance(c: Any, eta: float) -> bool:
    """Count a step and take its pull; returns whether all weights must be brought current then."""
    c.t += 1
    if c.t % c.period:
        return False
    alpha = c.period * eta * c.gravity
    grown = alpha - c.A_low
    A = c.A + grown
    c.A_low = (A - c.A) - grown
    c.A = A
    return max(SHRINKAGE_MOST, STEPS_LEAST * alpha) < A


class TruncatedGradient(NamedTuple):
    """State of the truncated gradient: v and a (d,), and the ledger."""

    slots: Annotated[Any, SLOT]
    scratch: Annotated[Any, np.float64]  # weights of the row in hand
    clock: Annotated[Any, CLOCK]

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        A = self.clock[0].A
        a = 0.0
        if hi - lo > np.uint64(len(self.scratch)):  # to predict: learning has had room made
            for k in range(lo, hi):
                a += current(self.slots[ids[k]], A) * values[k]
            return a
        far = ahead(ids, hi)
        for k in range(lo, hi):
            prefetch_early(self.slots, np.uint64(ids[k + far]))
            w = current(self.slots[ids[k]], A)
            self.scratch[k - lo] = w
            a += w * values[k]
        return a

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # The row was gathered just before: what its weights were is at hand.
        c = self.clock[0]
        A, theta = c.A, c.theta
        for k in range(lo, hi):
            one = self.slots[ids[k]]
            v = self.scratch[k - lo] - step * values[k]
            one.v = v
            one.a = math.inf if abs(v) > theta else A

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        if c.theta != c.threshold:
            renormalize(self)
        if advance(c, eta):
            renormalize(self)

    def renormalize(self) -> None:
        c = self.clock[0]
        for j in range(np.uint64(len(self.slots))):
            one = self.slots[j]
            if one.a != 0.0:
                one.v = current(one, c.A)
                one.a = math.inf if abs(one.v) > c.threshold else A_START
        c.theta = c.threshold
        c.A = A_START
        c.A_low = 0.0

    def has_capacity(self, nnz: Any) -> bool:
        return nnz <= np.uint64(len(self.scratch))

    def weight(self, j: Any) -> float:
        return current(self.slots[j], self.clock[0].A)

    def weights(self) -> Any:
        w = np.maximum(np.abs(self.slots["v"]) - self._due(), 0.0)
        return np.copysign(w, self.slots["v"], out=w)

    def _due(self) -> Any:
        """What is pending for each slot."""
        return np.maximum(self.clock[0].A - self.slots["a"], 0.0)

    def seen_mask(self) -> Any:
        return self.slots["a"] != 0.0

    def live_mask(self) -> Any:
        return np.abs(self.slots["v"]) > self._due()

    def drop(self, slots: Any) -> None:
        self.slots["v"][slots] = 0.0
        self.slots["a"][slots] = self.clock[0].A

    def reserve(self, nnz: int) -> TruncatedGradient:
        return self._replace(scratch=scratch_for(nnz, self.scratch))

    @property
    def size(self) -> int:
        return len(self.slots)

    def grow(self, d: int) -> TruncatedGradient:
        return self._replace(slots=grown(self.slots, d))

    def remap(self, new_slots: Any, d: int) -> TruncatedGradient:
        return self._replace(slots=moved(self.slots, new_slots, d))

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.live_mask())
        arrays = {name: self.slots[name][slots] for name in ("v", "a")}
        return slots, {**arrays, "clock": self.clock.copy()}

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> TruncatedGradient:
        ensure(set(arrays) == {"v", "a", "clock"}, "other arrays")
        for name in ("v", "a"):
            ensure(arrays[name].dtype == np.float64, f"not {name}")
            ensure(arrays[name].shape == slots.shape, f"not {name}")
        ensure(arrays["clock"].dtype == CLOCK and arrays["clock"].shape == (1,), "not a ledger")
        rule = TruncatedGradient.start(d, 0.0, 1, math.inf)
        for name in ("v", "a"):
            rule.slots[name][slots] = arrays[name]
        rule.clock[:] = arrays["clock"]
        return rule

    def check(self) -> None:
        for name, dtype in (("slots", SLOT), ("clock", CLOCK)):
            array = getattr(self, name)
            ensure(array.dtype == dtype and array.ndim == 1, f"{name} is no row of records")
        c, v, a = self.clock[0], self.slots["v"], self.slots["a"]
        ensure(A_START <= c.A < WEIGHT_MOST, f"A is {c.A}, out of range")
        ensure(abs(c.A_low) <= c.A, f"A_low is {c.A_low}, out of range")
        ensure(c.t >= 0 and c.period >= 1, "t or the period is out of range")
        ensure(0.0 <= c.gravity < math.inf, "the gravity is out of range")
        ensure(c.theta >= 0.0 and c.threshold >= 0.0, "the threshold is out of range")
        ensure(np.all(np.abs(v) < WEIGHT_MOST), "a weight is out of range")
        ensure(np.all(v[a == 0.0] == 0.0), "untouched but not zero")
        beyond = np.isposinf(a)
        ensure(np.all(beyond | ((a >= 0.0) & (a <= c.A))), "an a is out of range")
        ensure(np.all(beyond == (np.abs(v) > c.theta)), "theta and the a do not agree")

    @staticmethod
    def start(d: int, gravity: float, period: int, threshold: float) -> TruncatedGradient:
        """`d` zero weights."""
        clock = records(1, CLOCK)
        clock[0] = (A_START, 0.0, 0, threshold, gravity, period, threshold)
        return TruncatedGradient(records(d, SLOT), np.zeros(0), clock)
