r"""Pegasos: a linear SVM by subgradient steps at the rate $1/(\lambda(t + 1))$.

Shalev-Shwartz, Singer & Srebro (2007), *Pegasos: primal estimated sub-gradient solver for SVM*, with
one example a step. In step t (from 0), with $\eta = 1/(\lambda(t + 1))$:

$$v = (1 - \eta\lambda)\,w - \eta g x, \qquad
w = \min\Bigl\{1, \frac{1/\sqrt{\lambda}}{\|v\|_2}\Bigr\}\,v$$

$1 - \eta\lambda = t/(t + 1)$. Stored is $u = w/s$ with one scale s, so that both factors are products with s; and
$N = \|u\|_2^2$, which changes by what the row's entries change.

Differs from the paper: a) the projection is optional (its later version has it so). b) g is the
derivative of the loss, clipped and weighted, and the intercept is in the margin but neither in the
decay nor in the norm. c) N is a running total, and must not drift: it is added up with the rounding
kept (Kahan), a bound on its error is carried along, and before that matters, or s underflows, u is
written down anew with s = 1 and N is summed anew (a pass over all slots), in whole numbers: the
order of the slots must not count. d) At t = 0 the factor is 0, and all weights are 0 anyway: s stays.

The loop hands over $g/(t + 1)$, by a rate of 1 that falls as 1/(t + 1).

Cost of a step: the non-zeros of the row; 8 bytes a slot.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.aligned import in_lines
from streaml1.core.jit import LANES, inlined
from streaml1.core.prefetch import AHEAD, ask_half, ask_one, ask_rows, reaches
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
from streaml1.optim.structures.slot_arrays import grown, moved, records
from streaml1.optim.update_rule import renormalize

__all__ = ["CLOCK", "Pegasos", "advance", "unsure"]

CLOCK = np.dtype(
    [
        ("s", "f8"),
        ("N", "f8"),
        ("N_low", "f8"),  # what the rounding of N has lost (Kahan)
        ("drift", "f8"),  # what the rounding of its summands may have made of N
        ("t", "i8"),
        ("l2", "f8"),
        ("project", "i8"),
    ],
    align=True,
)

MARK = -0.0  # where an example has touched the slot and left it at zero
# With |w| < 1e75 (see rows.LIMIT and the range of l2), no square of w / s overflows.
S_LEAST = 1e-20
NUMBER_MOST = 1e150
# Of the squared radius. Half of it is the relative error of the weights.
DRIFT_MOST = 1e-11
EPSILON = 2.0**-52
DIGITS = 2.0**30

LANE, ONE = np.uint64(LANES), np.uint64(1)


@inlined
def _decayed(c: Any) -> float:
    """The scale after the decay of this step."""
    s: float = c.s * (c.t / (c.t + 1.0)) if c.t else c.s
    return s


@inlined
def unsure(c: Any) -> bool:
    """Whether N has to be summed anew before a step projects by it: weights were given up."""
    return bool(c.project and c.drift == math.inf)


@inlined
def advance(c: Any) -> bool:
    """Take a step of the penalty; returns whether u must be written down anew after it."""
    c.s = _decayed(c)
    c.t += 1
    far = False
    if c.project:
        most = 1.0 / c.l2
        norm = c.N * c.s * c.s
        if norm > most:
            c.s *= math.sqrt(most / norm)
        far = c.drift * c.s * c.s > DRIFT_MOST * most
    return far or c.s < S_LEAST


@inlined
def _sum_of_squares(u: Any) -> float:
    """The sum of u^2, the same in any order: as whole numbers of a 2^-60th of the largest."""
    most = 0.0
    for j in range(np.uint64(len(u))):
        most = max(most, abs(u[j]))
    if most == 0.0:
        return 0.0
    _, exponent = math.frexp(most)
    scale = math.ldexp(1.0, min(-exponent, 1000))
    high, low = np.int64(0), np.int64(0)
    for j in range(np.uint64(len(u))):
        q = u[j] * scale
        q = q * q * DIGITS
        digits = np.int64(q)
        high += digits
        low += np.int64((q - digits) * DIGITS)
    return (high + low / DIGITS) / DIGITS / scale / scale


class Pegasos(NamedTuple):
    """State of Pegasos: `u` (d,), the scale, the squared norm and the parameters."""

    u: Annotated[Any, np.float64]
    clock: Annotated[Any, CLOCK]

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        far = reaches(ids, hi)
        odd = hi - (hi - lo) % LANE
        sums = splat(0.0)
        for k in range(lo, odd, LANE):
            ask_rows(ids, values, k)
            if far:
                ask_half(self.u, ids, k + AHEAD)
            u = gather(self.u, ids, k)
            sums = add(sums, mul(u, load(values, k)))
        a = hsum(sums)
        for k in range(odd, hi):
            if far:
                ask_one(self.u, ids, k + AHEAD)
            a += self.u[ids[k]] * values[k]
        return a * self.clock[0].s

    def prefetch_next(self, ids: Any, values: Any, lo: Any, hi: Any) -> None:
        pass  # `margin` does

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        c = self.clock[0]
        s = step / c.l2 / _decayed(c)
        ss, none = splat(s), splat(0.0)
        rises, moves = none, none
        far = reaches(ids, hi)
        odd = hi - (hi - lo) % LANE
        for k in range(lo, odd, LANE):
            if far:  # the others: not all at once
                ask_half(self.u, ids, k + AHEAD + ONE)
            before = gather(self.u, ids, k)
            u = sub(before, mul(ss, load(values, k)))
            scatter(self.u, ids, k, neg(sub(none, u)))  # of either zero MARK
            rise = mul(sub(u, before), add(u, before))
            rises = add(rises, rise)
            moves = add(moves, lane_max(rise, neg(rise)))
        risen, moved = hsum(rises), hsum(moves)
        for k in range(odd, hi):
            before = self.u[ids[k]]
            u = before - s * values[k]
            self.u[ids[k]] = u if u != 0.0 else MARK
            rise = (u - before) * (u + before)
            risen += rise
            moved += abs(rise)
        risen -= c.N_low
        N = c.N + risen
        c.N_low = (N - c.N) - risen
        c.N = N
        c.drift += EPSILON * (4.0 + (hi - lo)) * moved

    def apply_penalty(self, eta: float) -> None:
        if unsure(self.clock[0]):
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
        self.u[slots] = MARK
        self.clock[0].drift = math.inf  # see `unsure`

    def reserve(self, nnz: int) -> Pegasos:
        return self

    @property
    def size(self) -> int:
        return len(self.u)

    def grow(self, d: int) -> Pegasos:
        return self._replace(u=grown(self.u, d))

    def remap(self, new_slots: Any, d: int) -> Pegasos:
        return self._replace(u=moved(self.u, new_slots, d))

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.live_mask())
        return slots, {"u": self.u[slots], "clock": self.clock.copy()}

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> Pegasos:
        ensure(set(arrays) == {"u", "clock"}, "other arrays")
        ensure(arrays["u"].dtype == np.float64 and arrays["u"].shape == slots.shape, "not u")
        ensure(arrays["clock"].dtype == CLOCK and arrays["clock"].shape == (1,), "no record")
        rule = Pegasos.start(d, 1.0, True)
        rule.u[slots] = arrays["u"]
        rule.clock[:] = arrays["clock"]
        return rule

    def check(self) -> None:
        ensure(self.u.dtype == np.float64 and self.u.ndim == 1, "u is no row of floats")
        ensure(self.clock.dtype == CLOCK and self.clock.shape == (1,), "there is no record")
        c = self.clock[0]
        ensure(np.all(np.abs(self.u) < NUMBER_MOST), "an entry of u is out of range")
        ensure(S_LEAST <= c.s <= 1.0, f"s is {c.s}, out of range")
        ensure(c.t >= 0 and 0.0 < c.l2 < math.inf, "t or l2 is out of range")
        ensure(c.project in (0, 1) and c.drift >= 0.0, "project or the drift is out of range")
        N = math.fsum((self.u * self.u).tolist())
        ensure(abs(c.N - N) <= c.drift + 1e-11 * N, f"N is {c.N}, not {N}")

    @staticmethod
    def start(d: int, l2: float, project: bool) -> Pegasos:
        """`d` zero weights."""
        clock = records(1, CLOCK)
        clock[0] = (1.0, 0.0, 0.0, 0.0, 0, l2, project)
        return Pegasos(in_lines(d, np.float64), clock)
