r"""Pegasos: a linear SVM by subgradient steps at the rate $1/(\lambda(t + 1))$.

Shalev-Shwartz, Singer & Srebro (2007), *Pegasos: primal estimated sub-gradient solver for SVM*, with
one example per step. In step t (from 0), with $\eta = 1/(\lambda(t + 1))$:

$$v = (1 - \eta\lambda)\,w - \eta g x, \qquad
w = \min\Bigl\{1, \frac{1/\sqrt{\lambda}}{\|v\|_2}\Bigr\}\,v$$

where $1 - \eta\lambda = t/(t + 1)$. Stored is $u = w/s$ with one scale s, so that both factors multiply s alone;
and $N = \|u\|_2^2$, which changes by what the entries of the row change.

Differences from the paper:

a) The projection is optional, as in its later version. With the logistic loss, for which Duchi & Singer
   (2009), Section 6, use Pegasos too, the radius is $\sqrt{2 \log 2 / \lambda}$: the optimum is inside,
   because $\frac\lambda2 \|w\|^2$ is at most the loss of zero weights, $\log 2$.
b) g is the derivative of the loss, clipped and weighted. The intercept is part of the margin, but not
   of the decay or the norm.
c) N is a running total that must not drift. It is a Kahan sum with an error bound, `drift`. Before the
   bound matters, or s underflows, `renormalize` rewrites u with s = 1 and sums N in integers, a pass
   over all slots: the order of the slots must not change a float.
d) At t = 0 the factor is 0, and so are all weights: s does not change.

The loop passes the step $g/(t + 1)$, because it is called with the rate 1 that falls as 1/(t + 1).

Cost of a step: O(non-zeros of the row). Memory: 8 bytes per slot.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import LANES, inlined, u64
from streaml1.core.prefetch import (
    PREFETCH_DISTANCE,
    can_prefetch,
    prefetch_every_other,
    prefetch_rows,
    prefetch_weight,
)
from streaml1.core.rows import ensure
from streaml1.core.simd import (
    add,
    gather,
    hsum,
    lane_max,
    load,
    mul,
    neg,
    scatter,
    splat,
    sub,
)
from streaml1.core.simd.math import binary_exponent
from streaml1.core.types import Bools, Floats, Ints, Records
from streaml1.optim.rule_state import MAX_STEPS, Ledger, PerSlot, RuleState, new_state
from streaml1.optim.update_rule import renormalize

__all__ = [
    "CLOCK",
    "HINGE_BALL",
    "LOGISTIC_BALL",
    "MARK",
    "NO_BALL",
    "Pegasos",
    "advance",
    "is_stale",
]

CLOCK = np.dtype(
    [
        ("s", "f8"),
        ("N", "f8"),
        ("N_low", "f8"),  # Kahan compensation: by how much N is too large
        ("drift", "f8"),  # bound on the error of N by the rounding of its summands
        ("t", "i8"),
        ("l2", "f8"),
        ("project", "i8"),  # NO_BALL, HINGE_BALL or LOGISTIC_BALL
    ],
    align=True,
)

NO_BALL, HINGE_BALL, LOGISTIC_BALL = range(3)
"""Balls that the weights are scaled into: none, or that of a loss, which holds the optimum."""

MARK = -0.0  # the u of a touched slot is never +0.0: see `rule_state`
# With |w| < 1e75 (see core.rows.VALUE_LIMIT and the range of l2), no square of w / s overflows.
MIN_S = 1e-20
MAX_NUMBER = 1e150
MAX_DRIFT = 1e-11  # relative to the squared radius; half of it is the relative error of a weight
EPSILON = 2.0**-52
DIGITS = 2.0**30

SQUARED_RADIUS = 2.0 * math.log(2.0)  # of LOGISTIC_BALL, times l2

LANE = u64(LANES)


@inlined
def _decayed(c: Any) -> float:
    """Return the scale after the decay of this step."""
    s: float = c.s * (c.t / (c.t + 1.0)) if c.t else c.s
    return s


@inlined
def is_stale(c: Any) -> bool:
    """Return whether N must be summed before a step projects by it: weights were dropped."""
    return bool(c.project and c.drift == math.inf)


@inlined
def advance(c: Any) -> bool:
    """Apply the penalty of a step to the ledger `c`; return whether `renormalize` is due."""
    c.s = _decayed(c)
    c.t += 1
    drifted = False
    if c.project:
        squared_radius = (1.0 if c.project == HINGE_BALL else SQUARED_RADIUS) / c.l2
        norm = c.N * c.s * c.s
        if norm > squared_radius:
            c.s *= math.sqrt(squared_radius / norm)
        drifted = c.drift * c.s * c.s > MAX_DRIFT * squared_radius
    return drifted or c.s < MIN_S


@inlined
def _sum_of_squares(u: Any) -> float:
    """Return the sum of u^2, the same float in any order.

    Each square is an integer multiple of 2^-60 of the largest, in two words of 30 bits.
    """
    largest = 0.0
    for j in range(np.uint64(len(u))):
        largest = max(largest, abs(u[j]))
    if largest == 0.0:
        return 0.0
    scale = math.pow(2.0, min(-binary_exponent(largest), 1000))  # exact
    high, low = np.int64(0), np.int64(0)
    for j in range(np.uint64(len(u))):
        q = u[j] * scale
        q = q * q * DIGITS
        digits = np.int64(q)
        high += digits
        low += np.int64((q - digits) * DIGITS)
    return (high + low / DIGITS) / DIGITS / scale / scale


class PegasosState(NamedTuple):
    """u of each slot, and the scale, the squared norm and the parameters."""

    u: Annotated[Floats, PerSlot(np.float64, dropped=MARK)]
    clock: Annotated[Records, Ledger(CLOCK)]


class Pegasos(RuleState, PegasosState):
    """Pegasos."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        prefetch_ok = can_prefetch(ids, hi)
        tail = hi - (hi - lo) % LANE
        sums = splat(0.0)
        for k in range(lo, tail, LANE):
            prefetch_rows(ids, values, k)
            if prefetch_ok:
                prefetch_every_other(self.u, ids, k + PREFETCH_DISTANCE)
            u = gather(self.u, ids, k)
            sums = add(sums, mul(u, load(values, k)))
        a = hsum(sums)
        for k in range(tail, hi):
            if prefetch_ok:
                prefetch_weight(self.u, ids, k + PREFETCH_DISTANCE)
            a += self.u[ids[k]] * values[k]
        return a * self.clock[0].s

    def prefetch_next(self, ids: Any, values: Any, lo: Any, hi: Any) -> None:
        pass  # `margin` does

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        c = self.clock[0]
        s = step / c.l2 / _decayed(c)
        ss, zero = splat(s), splat(0.0)
        increases, sizes = zero, zero
        prefetch_ok = can_prefetch(ids, hi)
        tail = hi - (hi - lo) % LANE
        for k in range(lo, tail, LANE):
            if prefetch_ok:  # `margin` prefetched the other half
                prefetch_every_other(self.u, ids, k + PREFETCH_DISTANCE + u64(1))
            before = gather(self.u, ids, k)
            u = sub(before, mul(ss, load(values, k)))
            scatter(self.u, ids, k, neg(sub(zero, u)))  # turns either zero into MARK
            increase = mul(sub(u, before), add(u, before))
            increases = add(increases, increase)
            sizes = add(sizes, lane_max(increase, neg(increase)))
        total, total_size = hsum(increases), hsum(sizes)
        for k in range(tail, hi):
            before = self.u[ids[k]]
            u = before - s * values[k]
            self.u[ids[k]] = u if u != 0.0 else MARK
            increase = (u - before) * (u + before)
            total += increase
            total_size += abs(increase)
        total -= c.N_low
        N = c.N + total
        c.N_low = (N - c.N) - total
        c.N = N
        c.drift += EPSILON * (4.0 + (hi - lo)) * total_size

    def apply_penalty(self, eta: float) -> None:
        if is_stale(self.clock[0]):
            renormalize(self)
        if advance(self.clock[0]):
            renormalize(self)

    def renormalize(self) -> None:
        c = self.clock[0]
        for j in range(np.uint64(len(self.u))):
            u = self.u[j] * c.s
            if self.u[j] != 0.0:
                self.u[j] = u if u != 0.0 else MARK
        c.s = 1.0
        c.N = _sum_of_squares(self.u)
        c.N_low = 0.0
        c.drift = 0.0

    def weight(self, j: Any) -> float:
        w: float = self.u[j] * self.clock[0].s
        return w

    def weights(self) -> Floats:
        return self.u * self.clock[0].s

    def live_mask(self) -> Bools:
        live: Bools = self.u != 0.0
        return live

    def drop(self, slots: Ints) -> None:
        super().drop(slots)
        self.clock[0].drift = math.inf  # so that `is_stale`

    def check(self) -> None:
        super().check()
        c = self.clock[0]
        ensure(np.all(np.abs(self.u) < MAX_NUMBER), "an entry of u is out of range")
        ensure(MIN_S <= c.s <= 1.0, f"s={c.s} is out of range")
        ensure(0 <= c.t < MAX_STEPS and 0.0 < c.l2 < math.inf, "t or l2 is out of range")
        ensure(c.project in (NO_BALL, HINGE_BALL, LOGISTIC_BALL), "project is not a ball")
        ensure(c.drift >= 0.0, "the drift is out of range")
        N = math.fsum((self.u * self.u).tolist())
        ensure(abs(c.N - N) <= c.drift + 1e-11 * N, f"N={c.N} should be {N}")
        ensure(abs(c.N_low) <= c.drift + 1e-11 * N, f"N_low={c.N_low} is not a rounding error")

    @staticmethod
    def start(d: int, l2: float, project: int) -> Pegasos:
        """Return a rule with `d` zero weights; `project` is NO_BALL or the ball of a loss."""
        rule = new_state(Pegasos, d)
        rule.clock[0] = (1.0, 0.0, 0.0, 0.0, 0, l2, project)
        return rule
