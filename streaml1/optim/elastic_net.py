r"""Lazy elastic net with its time stamps folded into the weights.

Lipton & Elkan (2015), *Efficient elastic net regularization for sparse linear models*; the FoBoS
step is that of Duchi & Singer (2009). One step at rate $\eta$, on all coordinates:

- FoBoS (Eq. 2): $w = \mathrm{sgn}(v)\,[\,|v| - \eta\lambda_1]_+ \,/\, (1 + \eta\lambda_2)$
- SGD (Eq. 3, after the gradient step): $w = \mathrm{sgn}(v)\,[(1 - \eta\lambda_2)|v| - \eta\lambda_1]_+$

With $P = \prod 1/(1+\eta\lambda_2)$ and $A = \sum \eta\lambda_1/P_{before}$ (FoBoS, Theorem 2: $\Phi$ and
$\lambda_1\beta$), or $P = \prod (1-\eta\lambda_2)$ and $A = \sum \eta\lambda_1/P_{after}$ (SGD), a weight that is
not touched moves as $|w| = P\,[\,|u| - A]_+$ with $u$ constant: any number of steps are two scalars.

Differs from the paper: a) it stamps each weight with the time of its last touch and keeps tables of
P and B; here $u = \mathrm{sgn}(v)(|v|/P + A)$ is stored instead of $w$, so that there are no stamps, no
tables and no memory that grows with time. b) Theorem 1 (SGD) as printed lacks $\lambda_1$ and takes
$P(\tau - 1)$ where Eq. (3) asks for $P(\tau)$; this is Eq. (3). c) Where $\eta\lambda_2 \ge 1$, which the paper
leaves out, an SGD step makes every weight 0 and the ledger starts anew. d) P underflows and A outgrows
the weights in the end: then every $u$ is written down anew, with P = 1 (a pass over all slots).

Cost of a step: the non-zeros of the row; 8 bytes a slot. The last eight of a row overlap those before,
so that no loop over what is left ends where no processor foresees it.
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
    load,
    load_f64x8,
    mul,
    scatter,
    splat,
    store_f64x8,
    zero_first,
)
from streaml1.optim.structures.slot_arrays import grown, moved, records, scratch_for
from streaml1.optim.structures.soft_threshold import beyond, stepped
from streaml1.optim.update_rule import renormalize

__all__ = ["A_START", "CLOCK", "ElasticNet", "advance"]

CLOCK = np.dtype(
    [
        ("P", "f8"),
        ("A", "f8"),
        ("A_low", "f8"),  # what the rounding of A has lost (Kahan)
        ("l1", "f8"),
        ("l2", "f8"),
        ("sgd", "i8"),
    ],
    align=True,
)

# A starts here instead of at 0, so that a slot that has been touched never holds 0: what an
# example has touched is told without a mark. No weight above 1e-280 is changed by it.
A_START = 1e-300
# With |v| < 1e150 (see rows.LIMIT), |v| / P stays finite.
WEIGHT_MOST = 1e150
P_LEAST = 1e-150
# An entry near A is known to eps * A * P: 64 keeps that at 1e-14. Where a single step shrinks by
# much, hundreds of steps go by between two passes over all slots all the same.
SHRINKAGE_MOST = 64.0
STEPS_LEAST = 256.0

CACHED = 2**17  # weights that the cache has all the time

LANE, ONE, EIGHT_BYTES = np.uint64(LANES), np.uint64(1), np.uint64(8)


@inlined
def advance(c: Any, eta: float) -> bool:
    """Take a step of the penalty; returns whether every u must be written down anew after it."""
    if c.sgd:
        kept = 1.0 - eta * c.l2
        if kept <= 0.0:
            c.A = math.inf
            return True
        c.P *= kept
        grown = eta * c.l1 / c.P - c.A_low
    else:
        grown = eta * c.l1 / c.P - c.A_low
        c.P /= 1.0 + eta * c.l2
    A = c.A + grown
    c.A_low = (A - c.A) - grown
    c.A = A
    return c.P < P_LEAST or max(SHRINKAGE_MOST, STEPS_LEAST * eta * c.l1) < A * c.P


@inlined
def _eight_left(
    rule: Any, ids: Any, values: Any, lo: Any, k: Any, As: Any, far: Any, kept: Any
) -> Any:
    """Weights over P of the eight entries from the k-th, of a row from `lo`."""
    ask_rows(ids, values, k)
    if far:
        ask_half(rule.u, ids, k + AHEAD)
    w = beyond(gather(rule.u, ids, k), As)
    if kept:
        store_f64x8(np.uint64(rule.scratch.ctypes.data) + EIGHT_BYTES * (k - lo), w)
    return w


@inlined
def _eight_stepped(
    rule: Any, ids: Any, values: Any, lo: Any, k: Any, As: Any, steps: Any, far: Any
) -> None:
    """Take the step in the eight entries from the k-th, of a row from `lo` that was gathered."""
    if far:  # the others: not all at once
        ask_half(rule.u, ids, k + AHEAD + ONE)
    w = load_f64x8(np.uint64(rule.scratch.ctypes.data) + EIGHT_BYTES * (k - lo))
    scatter(rule.u, ids, k, stepped(w, As, steps, load(values, k)))


class ElasticNet(NamedTuple):
    """State of the lazy elastic net: `u` (d,) and the ledger, one record."""

    u: Annotated[Any, np.float64]
    scratch: Annotated[Any, np.float64]  # weights over P of the row in hand
    clock: Annotated[Any, CLOCK]

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        c = self.clock[0]
        A = c.A
        As = splat(A)
        far = len(self.u) > CACHED and reaches(ids, hi)
        kept = hi - lo <= np.uint64(len(self.scratch))  # learning has had room made, predicting not
        if hi - lo < LANE:
            a = 0.0
            for k in range(lo, hi):
                w = beyond(self.u[ids[k]], A)
                if far:
                    ask_one(self.u, ids, k + AHEAD)
                if kept:
                    self.scratch[k - lo] = w
                a += w * values[k]
            return a * c.P
        last = hi - LANE
        sums = splat(0.0)
        for k in range(lo, last, LANE):
            w = _eight_left(self, ids, values, lo, k, As, far, kept)
            sums = add(sums, mul(w, load(values, k)))
        w = _eight_left(self, ids, values, lo, last, As, far, kept)
        added = (LANE - (hi - lo) % LANE) % LANE
        return hsum(add(sums, mul(w, zero_first(load(values, last), added)))) * c.P

    def prefetch_next(self, ids: Any, values: Any, lo: Any, hi: Any) -> None:
        pass  # `margin` does

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # The row was gathered just before: what its weights were is at hand.
        c = self.clock[0]
        A, s = c.A, step / c.P
        As, steps = splat(A), splat(s)
        far = len(self.u) > CACHED and reaches(ids, hi)
        if hi - lo < LANE:
            for k in range(lo, hi):
                self.u[ids[k]] = stepped(self.scratch[k - lo], A, s, values[k])
            return
        last = hi - LANE
        for k in range(lo, last, LANE):
            _eight_stepped(self, ids, values, lo, k, As, steps, far)
        _eight_stepped(self, ids, values, lo, last, As, steps, far)  # some of it twice, alike

    def apply_penalty(self, eta: float) -> None:
        if advance(self.clock[0], eta):
            renormalize(self)

    def renormalize(self) -> None:
        c = self.clock[0]
        for j in range(np.uint64(len(self.u))):
            u = self.u[j]
            if u != 0.0:
                w = math.copysign(max(abs(u) - c.A, 0.0) * c.P, u)
                self.u[j] = w + math.copysign(A_START, w)
        c.P = 1.0
        c.A = A_START
        c.A_low = 0.0

    def has_capacity(self, nnz: Any) -> bool:
        return nnz <= np.uint64(len(self.scratch))

    def weight(self, j: Any) -> float:
        c = self.clock[0]
        u = self.u[j]
        return math.copysign(max(abs(u) - c.A, 0.0) * c.P, u)

    def is_zero_block(self, j: Any) -> bool:
        seen_mask = False
        for k in range(LANE):
            seen_mask |= self.u[j + k] != 0.0
        return not seen_mask

    def weights(self) -> Any:
        c = self.clock[0]
        w = np.abs(self.u)
        w -= c.A
        np.maximum(w, 0.0, out=w)
        w *= c.P
        return np.copysign(w, self.u, out=w)

    def seen_mask(self) -> Any:
        return self.u != 0.0

    def live_mask(self) -> Any:
        # Not by the weight: one that has underflowed to 0 is told from one that the penalty ended.
        A = self.clock[0].A
        held = self.u > A
        held |= self.u < -A
        return held

    def drop(self, slots: Any) -> None:
        self.u[slots] = A_START

    def reserve(self, nnz: int) -> ElasticNet:
        return self._replace(scratch=scratch_for(nnz, self.scratch))

    @property
    def size(self) -> int:
        return len(self.u)

    def grow(self, d: int) -> ElasticNet:
        return self._replace(u=grown(self.u, d))

    def remap(self, new_slots: Any, d: int) -> ElasticNet:
        return self._replace(u=moved(self.u, new_slots, d))

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.live_mask())
        return slots, {"u": self.u[slots], "clock": self.clock.copy()}

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> ElasticNet:
        ensure(set(arrays) == {"u", "clock"}, "other arrays")
        ensure(arrays["u"].dtype == np.float64 and arrays["u"].shape == slots.shape, "not u")
        ensure(arrays["clock"].dtype == CLOCK, "not a ledger")
        u = in_lines(d, np.float64)
        u[slots] = arrays["u"]
        # A file does not keep that records are aligned, and kernels are compiled for those.
        clock = records(1, CLOCK)
        clock[:] = arrays["clock"]
        return ElasticNet(u, np.zeros(0), clock)

    def check(self) -> None:
        ensure(self.u.dtype == np.float64 and self.u.ndim == 1, "u is no row of floats")
        ensure(self.clock.dtype == CLOCK and self.clock.shape == (1,), "the ledger is no record")
        c = self.clock[0]
        ensure(P_LEAST <= c.P <= 1.0, f"P is {c.P}, out of range")
        ensure(A_START <= c.A and c.A * c.P < WEIGHT_MOST, f"A is {c.A}, out of range")
        ensure(abs(c.A_low) <= c.A, f"A_low is {c.A_low}, out of range")
        ensure(0.0 <= c.l1 < math.inf and 0.0 <= c.l2 < math.inf, "l1 or l2 is out of range")
        ensure(c.sgd in (0, 1), f"sgd is {c.sgd}")
        ensure(np.all(np.abs(self.u) < WEIGHT_MOST / P_LEAST), "an entry of u is out of range")
        ensure(np.all(np.abs(self.weights()) < WEIGHT_MOST), "a weight is out of range")

    @staticmethod
    def start(d: int, l1: float, l2: float, sgd: bool) -> ElasticNet:
        """`d` zero weights."""
        clock = records(1, CLOCK)
        clock[0] = (1.0, A_START, 0.0, l1, l2, sgd)
        return ElasticNet(in_lines(d, np.float64), np.zeros(0), clock)
