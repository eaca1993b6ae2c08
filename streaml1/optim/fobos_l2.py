r"""FoBoS with the l2 norm of the whole vector.

Duchi & Singer (2009), *Efficient learning using forward-backward splitting*, Section 4:
after the gradient step $v = w - \eta g x$, with strength $\lambda$,

$$w = \Bigl[1 - \frac{\eta\lambda}{\|v\|_2}\Bigr]_+ v$$

(the norm, not its square: all weights are 0 as soon as $\|v\|_2 \le \eta\lambda$). Stored is $u = w/s$ with one
scale s, so that the step is one product, and $N = \|u\|_2^2$, which changes by what the row's entries change.

Differs from the paper: a) N is a running total, and must not drift: the variance of its rounding is
carried along, and before four standard deviations are 1e-11 of N, N is summed anew, in whole numbers: the
order must not count. That is so after very many steps, or where N has fallen by much.
b) Before s underflows, u is written down anew. Weights below 1e-75 are 0 from then on: so an entry
that no example touches is there for a few times only, and these passes, over a list of the entries that
are not 0, cost a constant for each time that one is touched. The same list is cleared where all weights
become 0.

Cost of a step: the non-zeros of the row; 12 bytes a slot.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.aligned import in_lines
from streaml1.core.jit import inlined
from streaml1.core.prefetch import ahead
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early
from streaml1.optim.structures.slot_arrays import grown, moved, records
from streaml1.optim.update_rule import renormalize

__all__ = ["FobosL2"]

CLOCK = np.dtype(
    [
        ("s", "f8"),
        ("N", "f8"),
        ("N_low", "f8"),  # what the rounding of N has lost (Kahan)
        ("drift", "f8"),  # what the rounding of its summands may have made of N, squared
        ("n", "i8"),  # entries that are not 0: so many of `listed` count
        ("strength", "f8"),
    ],
    align=True,
)

MARK = -0.0  # where an example has touched the slot, and it is not listed
# A listed entry that lands on 0 stays listed. Times s, at most a half, it is a weight of exactly 0.
NIL = 5e-324
S_START = 0.5
# With |w| < 1e120 (see rows.LIMIT) no square of w / s overflows, nor does a sum of 1e9 of them.
S_LEAST = 1e-25
WEIGHT_LEAST = 1e-75
NUMBER_MOST = 1e150
# Of N, four times over: half of it is the relative error of a norm.
DRIFT_MOST = 1e-11 / 4.0
ROUNDED = 2.0**-106  # of a float, squared
DIGITS = 2.0**30


@inlined
def _sum_of_squares(u: Any, listed: Any, n: int, most: float) -> float:
    """The sum of u^2, the same in any order: as whole numbers of a 2^-90th of the largest."""
    if most == 0.0:
        return 0.0
    _, exponent = math.frexp(most)
    scale = math.ldexp(1.0, min(-exponent, 1000))
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
    """All weights are 0."""
    c = rule.clock[0]
    for k in range(np.uint64(c.n)):
        rule.u[rule.listed[k]] = MARK
    c.n = 0
    c.s = S_START
    c.N = 0.0
    c.N_low = 0.0
    c.drift = 0.0


class FobosL2(NamedTuple):
    """State of FoBoS with the l2 norm: `u` (d,), the scale, the squared norm, and a list."""

    u: Annotated[Any, np.float64]
    listed: Annotated[Any, np.uint32]  # slots whose entries are not 0, in any order
    clock: Annotated[Any, CLOCK]

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        far = ahead(ids, hi)
        a = 0.0
        for k in range(lo, hi):
            prefetch_early(self.u, np.uint64(ids[k + far]))
            a += self.u[ids[k]] * values[k]
        return a * self.clock[0].s

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        c = self.clock[0]
        s = step / c.s
        risen, squares = 0.0, 0.0
        n = np.uint64(c.n)
        for k in range(lo, hi):
            j = ids[k]
            before = self.u[j]
            u = before - s * values[k]
            if before == 0.0:
                if u == 0.0:
                    u = MARK
                else:
                    self.listed[n] = j
                    n += np.uint64(1)
            elif u == 0.0:
                u = NIL
            self.u[j] = u
            rise = (u - before) * (u + before)
            risen += rise
            squares += rise * rise
        c.n = np.int64(n)
        risen -= c.N_low
        N = c.N + risen
        c.N_low = (N - c.N) - risen
        c.N = N
        entries = np.float64(hi - lo)
        c.drift += ROUNDED * (9.0 + entries * entries) * squares

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        pull = eta * c.strength
        if pull == 0.0:
            return
        most = DRIFT_MOST * c.N
        if c.N < 0.0 or c.drift > most * most:
            renormalize(self)
        norm = c.s * math.sqrt(c.N)
        if norm <= pull:
            _clear(self)
            return
        c.s *= 1.0 - pull / norm
        if c.s < S_LEAST:
            renormalize(self)

    def renormalize(self) -> None:
        c = self.clock[0]
        most = 0.0
        kept = np.uint64(0)
        for k in range(np.uint64(c.n)):
            j = self.listed[k]
            w = self.u[j] * c.s
            if abs(w) < WEIGHT_LEAST:
                self.u[j] = MARK
            else:
                u = w / S_START
                self.u[j] = u
                most = max(most, abs(u))
                self.listed[kept] = j
                kept += np.uint64(1)
        c.n = np.int64(kept)
        c.s = S_START
        c.N = _sum_of_squares(self.u, self.listed, c.n, most)
        c.N_low = 0.0
        c.drift = 16.0 * ROUNDED * c.N * c.N

    def has_capacity(self, nnz: Any) -> bool:
        return True

    def weight(self, j: Any) -> float:
        w: float = self.u[j] * self.clock[0].s
        return w

    def weights(self) -> Any:
        return self.u * self.clock[0].s

    def seen_mask(self) -> Any:
        return (self.u != 0.0) | np.signbit(self.u)

    def live_mask(self) -> Any:
        return self.u != 0.0

    def drop(self, slots: Any) -> None:
        self.u[slots] = NIL
        self.clock[0].drift = math.inf  # the next step sums up what is left

    def reserve(self, nnz: int) -> FobosL2:
        return self

    @property
    def size(self) -> int:
        return len(self.u)

    def grow(self, d: int) -> FobosL2:
        return self._replace(u=grown(self.u, d), listed=grown(self.listed, d))

    def remap(self, new_slots: Any, d: int) -> FobosL2:
        u = moved(self.u, new_slots, d)
        return self._replace(u=u, listed=_listed(u))

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.live_mask())
        return slots, {"u": self.u[slots], "clock": self.clock.copy()}

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> FobosL2:
        ensure(set(arrays) == {"u", "clock"}, "other arrays")
        ensure(arrays["u"].dtype == np.float64 and arrays["u"].shape == slots.shape, "not u")
        ensure(arrays["clock"].dtype == CLOCK and arrays["clock"].shape == (1,), "no record")
        rule = FobosL2.start(d, 0.0)
        rule.u[slots] = arrays["u"]
        rule.clock[:] = arrays["clock"]
        return rule._replace(listed=_listed(rule.u))

    def check(self) -> None:
        ensure(self.u.dtype == np.float64 and self.u.ndim == 1, "u is no row of floats")
        ensure(self.listed.dtype == np.uint32, "the list has no slots")
        ensure(self.listed.shape == self.u.shape, "the list is of another length")
        ensure(self.clock.dtype == CLOCK and self.clock.shape == (1,), "there is no record")
        c = self.clock[0]
        ensure(np.all(np.abs(self.u) < NUMBER_MOST), "an entry of u is out of range")
        ensure(S_LEAST <= c.s <= S_START, f"s is {c.s}, out of range")
        ensure(0.0 <= c.strength < math.inf, "the strength is out of range")
        ensure(0 <= c.n <= len(self.u), f"n is {c.n}, out of range")
        ensure(
            np.array_equal(np.sort(self.listed[: c.n]), np.flatnonzero(self.u)), "the list is wrong"
        )
        ensure(c.drift >= 0.0, "the drift is out of range")
        N = math.fsum((self.u * self.u).tolist())
        ensure(abs(c.N - N) <= 8.0 * math.sqrt(c.drift) + 1e-15 * N, f"N is {c.N}, not {N}")

    @staticmethod
    def start(d: int, strength: float) -> FobosL2:
        """`d` zero weights."""
        clock = records(1, CLOCK)
        clock[0] = (S_START, 0.0, 0.0, 0.0, 0, strength)
        return FobosL2(in_lines(d, np.float64), np.zeros(d, np.uint32), clock)


def _listed(u: Any) -> Any:
    """A list of the entries that are not 0, with room for all."""
    listed = np.zeros(len(u), np.uint32)
    slots = np.flatnonzero(u)
    listed[: len(slots)] = slots
    return listed
