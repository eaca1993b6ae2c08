r"""Truncated gradient, applied lazily.

Langford, Li & Zhang (2009), *Sparse online learning via truncated gradient*. A gradient step
$v = w - \eta g x$, and in every $K$-th step (`period`), on all coordinates, $w = T_1(v, K\eta G, \theta)$ with
gravity $G$ and

$$T_1(v, \alpha, \theta) = \mathrm{sgn}(v)\,[\,|v| - \alpha]_+ \text{ if } |v| \le \theta, \text{ else } v$$

A weight within $\theta$ that no example touches only shrinks, so it stays within. One beyond $\theta$ does not
move. So the last touch decides which of the two it is. With $A = \sum K\eta G$ over the truncations so far,
stored for each slot are $v_j$ as of the last touch and $a_j$: the A of that time, or infinity if $v_j$ lay
beyond $\theta$. The current weight is $\mathrm{sgn}(v_j)\,[\,|v_j| - [A - a_j]_+]_+$.

Differences from the paper:

a) The paper stores the time of the last touch and requires a constant rate. A difference of two A is
   exact at any rate.
b) $\theta$ may change. Then `renormalize` classifies all weights again.
c) A outgrows the weights in the long run. Then `renormalize` brings all weights current, a pass over
   all slots, and A restarts.

With $K = 1$ and $\theta = \infty$ this is the l1 FoBoS of `elastic_net.py`.

Cost of a step: O(non-zeros of the row). Memory: 16 bytes per slot.
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
from streaml1.core.types import Bools, Floats, Ints, Records
from streaml1.optim.rule_state import (
    LOW,
    MAX_STEPS,
    Ledger,
    PerSlot,
    Scratch,
    ScratchRule,
    new_state,
)
from streaml1.optim.structures.joined_weights import joined_weights, moved_from
from streaml1.optim.structures.slot_arrays import records
from streaml1.optim.structures.soft_threshold import clamped
from streaml1.optim.update_rule import renormalize

__all__ = ["A_START", "CLOCK", "SLOT", "TruncatedGradient", "advance", "current"]

SLOT = np.dtype([("v", "f8"), ("a", "f8")], align=True)  # a is 0 until an example touches the slot
CLOCK = np.dtype(
    [
        ("A", "f8"),
        ("A_low", "f8"),  # Kahan compensation: by how much A is too large
        ("t", "i8"),
        ("theta", "f8"),  # by which the a_j were classified
        ("gravity", "f8"),
        ("period", "i8"),
        ("threshold", "f8"),  # theta from the next step on
    ],
    align=True,
)

A_START = 1e-300  # not 0, so that every touched slot has a non-zero a_j
MAX_WEIGHT = 1e150
# A difference of two A is known to an absolute error of eps * A. A limit of 64 keeps that at 1e-14.
# Where one step shrinks by much, MIN_STEPS keeps hundreds of steps between two passes over all
# slots.
MAX_SHRINKAGE = 64.0
MIN_STEPS = 256.0


@inlined
def current(slot: Any, A: float) -> float:
    """Return the current weight of a slot: soft-threshold v by the pending A - a."""
    v = slot.v
    due = A - slot.a
    w: float = v - clamped(v, due if due > 0.0 else 0.0)
    return w


@inlined
def advance(c: Any, eta: float) -> bool:
    """Advance the ledger `c` by one step; return whether `renormalize` is due. A is a Kahan sum."""
    c.t += 1
    if c.t % c.period:
        return False
    alpha = c.period * eta * c.gravity
    increase = alpha - c.A_low
    A = c.A + increase
    c.A_low = (A - c.A) - increase
    c.A = A
    return max(MAX_SHRINKAGE, MIN_STEPS * alpha) < A


class TruncatedGradientState(NamedTuple):
    """v and a of each slot, weights of the current row, and the ledger."""

    slots: Annotated[Records, PerSlot(SLOT, seen="a")]
    scratch: Annotated[Floats, Scratch(np.float64)]
    clock: Annotated[Records, Ledger(CLOCK)]


class TruncatedGradient(ScratchRule, TruncatedGradientState):
    """The truncated gradient."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        A = self.clock[0].A
        a = 0.0
        if hi - lo > np.uint64(len(self.scratch)):  # possible only to predict: no scratch is needed
            for k in range(lo, hi):
                a += current(self.slots[ids[k]], A) * values[k]
            return a
        distance = prefetch_distance(ids, hi)
        for k in range(lo, hi):
            prefetch_early(self.slots, np.uint64(ids[k + distance]))
            w = current(self.slots[ids[k]], A)
            self.scratch[k - lo] = w
            a += w * values[k]
        return a

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # `margin` has left the weights of this row in the scratch array.
        c = self.clock[0]
        A, theta = c.A, c.theta
        for k in range(lo, hi):
            slot = self.slots[ids[k]]
            v = self.scratch[k - lo] - step * values[k]
            slot.v = v
            slot.a = math.inf if abs(v) > theta else A

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        if c.theta != c.threshold:
            renormalize(self)
        if advance(c, eta):
            renormalize(self)

    def renormalize(self) -> None:
        c = self.clock[0]
        for j in range(np.uint64(len(self.slots))):
            slot = self.slots[j]
            if slot.a != 0.0:
                slot.v = current(slot, c.A)
                slot.a = math.inf if abs(slot.v) > c.threshold else A_START
        c.theta = c.threshold
        c.A = A_START
        c.A_low = 0.0

    def weight(self, j: Any) -> float:
        return current(self.slots[j], self.clock[0].A)

    def weights(self) -> Floats:
        w = np.maximum(np.abs(self.slots["v"]) - self._due(), 0.0)
        return np.copysign(w, self.slots["v"], out=w)

    def _due(self) -> Floats:
        """Return the pending penalty of each slot."""
        return np.maximum(self.clock[0].A - self.slots["a"], 0.0)

    def live_mask(self) -> Bools:
        live: Bools = np.abs(self.slots["v"]) > self._due()
        return live

    def drop(self, slots: Ints) -> None:
        self.slots["v"][slots] = 0.0
        self.slots["a"][slots] = self.clock[0].A

    def candidates(
        self, parts: Sequence[TruncatedGradient], rates: Sequence[Iterable[Floats]]
    ) -> Iterator[tuple[str, TruncatedGradient]]:
        """Yield the candidates of `structures.joined_weights`."""
        c, w = self.clock[0], self.weights()
        weights = [part.weights() for part in parts]
        steps = [int(part.clock[0].t - c.t) for part in parts]
        pulls = [self._sum_of_pulls(etas) for etas in rates]
        visits = [
            n * moved_from(self._pulled(w, pull), part)
            for n, pull, part in zip(steps, pulls, weights, strict=True)
        ]
        for joined in joined_weights(w, weights, visits, steps, pulls):
            v = self._pulled(joined.w, joined.penalty)
            rule = self._replace(slots=records(self.size, SLOT), clock=self.clock.copy())
            rule.slots["v"] = v
            rule.slots["a"] = np.where(np.abs(v) > c.threshold, math.inf, A_START)
            ledger = rule.clock[0]
            ledger.A, ledger.A_low, ledger.theta = A_START, 0.0, c.threshold
            ledger.t += sum(steps)
            yield joined.name, rule

    def _sum_of_pulls(self, rates: Iterable[Floats]) -> float:
        """Return by how much the next steps pull a weight towards zero, given their rates."""
        c = self.clock[0]
        t, total = int(c.t), 0.0
        for etas in rates:
            first = -(t + 1) % int(c.period)  # of the steps, the first that truncates
            total += float(etas[first :: int(c.period)].sum())
            t += len(etas)
        return total * float(c.period) * float(c.gravity)

    def _pulled(self, w: Floats, pull: Any) -> Floats:
        """Return weights of which those within the threshold move towards zero by `pull`."""
        shrunk = np.copysign(np.maximum(np.abs(w) - pull, 0.0), w)
        return np.where(np.abs(w) > self.clock[0].threshold, w, shrunk)

    def check(self) -> None:
        super().check()
        c, v, a = self.clock[0], self.slots["v"], self.slots["a"]
        ensure(A_START <= c.A < MAX_WEIGHT, f"A={c.A} is out of range")
        ensure(abs(c.A_low) <= LOW * c.A, f"A_low={c.A_low} is out of range")
        ensure(0 <= c.t < MAX_STEPS and c.period >= 1, "t or the period is out of range")
        ensure(0.0 <= c.gravity < math.inf, "the gravity is out of range")
        ensure(c.theta >= 0.0 and c.threshold >= 0.0, "the threshold is out of range")
        ensure(np.all(np.abs(v) < MAX_WEIGHT), "a weight is out of range")
        ensure(np.all(v[a == 0.0] == 0.0), "a slot was not touched, but is not zero")
        beyond = np.isposinf(a)
        ensure(np.all(beyond | ((a >= 0.0) & (a <= c.A))), "an a is out of range")
        ensure(np.all(beyond == (np.abs(v) > c.theta)), "theta and the a_j disagree")

    @staticmethod
    def start(d: int, gravity: float, period: int, threshold: float) -> TruncatedGradient:
        """Return a rule with `d` zero weights."""
        rule = new_state(TruncatedGradient, d)
        rule.clock[0] = (A_START, 0.0, 0, threshold, gravity, period, threshold)
        return rule
