r"""FoBoS with the l2 norm of the whole weight vector.

Duchi & Singer (2009), *Efficient learning using forward-backward splitting*, Section 4: after the
gradient step $v = w - \eta g x$, with strength $\lambda$,

$$w = \Bigl[1 - \frac{\eta\lambda}{\|v\|_2}\Bigr]_+ v$$

This is the norm, not its square: all weights are 0 as soon as $\|v\|_2 \le \eta\lambda$.

Stored is $u = w/s$ with one scale s, so that a step is one product, and $N = \|u\|_2^2$, which changes by
what the entries of the row change. The slots with a non-zero u are listed, in any order.

Differences from the paper:

a) N is a running total that must not drift. The variance of its rounding error is tracked. Before four
   standard deviations reach 1e-11 of N, N is summed in integers: the order must not change a float. That
   happens after very many steps, or where N has fallen by much.
b) Before s underflows, u is rewritten, and weights below 1e-75 become 0. So an entry that no example
   touches takes part in a few of these passes only. They run over the list, and cost a constant for each
   touch. The list is also cleared when all weights become 0.

Cost of a step: O(non-zeros of the row), amortized. Memory: 12 bytes per slot.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, u64
from streaml1.core.prefetch import prefetch_distance
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early
from streaml1.core.simd.math import binary_exponent
from streaml1.core.types import Bools, Floats, Ids, Ints, Records
from streaml1.optim.rule_state import Index, Ledger, PerSlot, RuleState, new_state
from streaml1.optim.update_rule import renormalize

__all__ = ["FobosL2"]

CLOCK = np.dtype(
    [
        ("s", "f8"),
        ("N", "f8"),
        ("N_low", "f8"),  # Kahan compensation: by how much N is too large
        ("drift", "f8"),  # variance of the error of N by the rounding of its summands
        ("n", "i8"),  # number of listed slots
        ("strength", "f8"),
    ],
    align=True,
)

MARK = -0.0  # the u of a slot that was touched and is not listed
# A listed entry that becomes 0 stays listed. Times s, which is at most 1/2, it is a weight of
# exactly 0.
NIL = 5e-324
S_START = 0.5
# With |w| < 1e120 (core.rows.VALUE_LIMIT) no square of w / s overflows, nor does a sum of 1e9 of
# them.
MIN_S = 1e-25
MIN_WEIGHT = 1e-75
MAX_NUMBER = 1e150
# Relative to N, for one standard deviation. Half of it is the relative error of the norm.
MAX_DRIFT = 1e-11 / 4.0
ROUNDING = 2.0**-106  # squared relative error of a float
DIGITS = 2.0**30


@inlined
def _sum_of_squares(u: Any, listed: Any, n: int, largest: float) -> float:
    """Return the sum of u^2, the same float in any order.

    Each square is an integer multiple of 2^-90 of the largest, in three words of 30 bits.
    """
    if largest == 0.0:
        return 0.0
    scale = math.pow(2.0, min(-binary_exponent(largest), 1000))  # exact
    high, middle, low = np.int64(0), np.int64(0), np.int64(0)
    for k in range(np.uint64(n)):
        q = u[listed[k]] * scale
        q = q * q * DIGITS
        digits = np.int64(q)
        high += digits
        q = (q - digits) * DIGITS
        digits = np.int64(q)
        middle += digits
        low += np.int64((q - digits) * DIGITS)
    return (high + (middle + low / DIGITS) / DIGITS) / DIGITS / scale / scale


@inlined
def _clear(rule: Any) -> None:
    """Set all weights to 0."""
    c = rule.clock[0]
    for k in range(np.uint64(c.n)):
        rule.u[rule.listed[k]] = MARK
    c.n = 0
    c.s = S_START
    c.N = 0.0
    c.N_low = 0.0
    c.drift = 0.0


class FobosL2State(NamedTuple):
    """u of each slot, the list of non-zero entries, and the scale and the squared norm."""

    u: Annotated[Floats, PerSlot(np.float64, dropped=NIL)]
    listed: Annotated[Ids, Index(np.uint32)]
    clock: Annotated[Records, Ledger(CLOCK)]


class FobosL2(RuleState, FobosL2State):
    """FoBoS with the l2 norm."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        distance = prefetch_distance(ids, hi)
        a = 0.0
        for k in range(lo, hi):
            prefetch_early(self.u, np.uint64(ids[k + distance]))
            a += self.u[ids[k]] * values[k]
        return a * self.clock[0].s

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        c = self.clock[0]
        s = step / c.s
        total, squares = 0.0, 0.0
        n = np.uint64(c.n)
        for k in range(lo, hi):
            j = ids[k]
            old = self.u[j]
            u = old - s * values[k]
            if old == 0.0:
                if u == 0.0:
                    u = MARK
                else:
                    self.listed[n] = j
                    n += u64(1)
            elif u == 0.0:
                u = NIL
            self.u[j] = u
            increase = (u - old) * (u + old)
            total += increase
            squares += increase * increase
        c.n = np.int64(n)
        total -= c.N_low
        N = c.N + total
        c.N_low = (N - c.N) - total
        c.N = N
        nnz = np.float64(hi - lo)
        c.drift += ROUNDING * (9.0 + nnz * nnz) * squares

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        pull = eta * c.strength
        if pull == 0.0:
            return
        max_drift = MAX_DRIFT * c.N
        # The square may overflow, too.
        if c.N < 0.0 or c.drift == math.inf or c.drift > max_drift * max_drift:
            renormalize(self)
        norm = c.s * math.sqrt(c.N)
        if norm <= pull:
            _clear(self)
            return
        c.s *= 1.0 - pull / norm
        if c.s < MIN_S:
            renormalize(self)

    def renormalize(self) -> None:
        c = self.clock[0]
        largest = 0.0
        n_retained = u64(0)
        for k in range(np.uint64(c.n)):
            j = self.listed[k]
            w = self.u[j] * c.s
            if abs(w) < MIN_WEIGHT:
                self.u[j] = MARK
            else:
                u = w / S_START
                self.u[j] = u
                largest = max(largest, abs(u))
                self.listed[n_retained] = j
                n_retained += u64(1)
        c.n = np.int64(n_retained)
        c.s = S_START
        c.N = _sum_of_squares(self.u, self.listed, c.n, largest)
        c.N_low = 0.0
        c.drift = 16.0 * ROUNDING * c.N * c.N

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
        self.clock[0].drift = math.inf  # so that the next step sums N

    def _rebuild_index(self) -> None:
        slots = np.flatnonzero(self.u)
        self.listed[: len(slots)] = slots

    def check(self) -> None:
        super().check()
        c = self.clock[0]
        ensure(np.all(np.abs(self.u) < MAX_NUMBER), "an entry of u is out of range")
        ensure(MIN_S <= c.s <= S_START, f"s={c.s} is out of range")
        ensure(0.0 <= c.strength < math.inf, "the strength is out of range")
        ensure(0 <= c.n <= len(self.u), f"n={c.n} is out of range")
        ensure(
            np.array_equal(np.sort(self.listed[: c.n]), np.flatnonzero(self.u)),
            "the list differs from u",
        )
        ensure(c.drift >= 0.0, "the drift is out of range")
        N = math.fsum((self.u * self.u).tolist())
        error = 8.0 * math.sqrt(c.drift) + 1e-15 * N
        ensure(abs(c.N - N) <= error, f"N={c.N} should be {N}")
        ensure(abs(c.N_low) <= error, f"N_low={c.N_low} is more than a rounding error of N")

    @staticmethod
    def start(d: int, strength: float) -> FobosL2:
        """Return a rule with `d` zero weights."""
        rule = new_state(FobosL2, d)
        rule.clock[0] = (S_START, 0.0, 0.0, 0.0, 0, strength)
        return rule
