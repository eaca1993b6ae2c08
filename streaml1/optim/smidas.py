r"""SMIDAS: mirror descent by the p-norm, made sparse.

Shalev-Shwartz & Tewari (2009), *Stochastic methods for l1 regularized loss minimization*,
Algorithm 3. One step at rate $\eta$, on all coordinates:
$$\theta = \mathrm{soft}(\theta - \eta g x,\ \eta\lambda), \qquad
  w_j = \mathrm{sgn}(\theta_j)\,|\theta_j|^{p-1} / \|\theta\|_p^{p-2}$$

With $A = \sum \eta\lambda$ since the last rebase and $u = \mathrm{sgn}(\theta)(|\theta| + A)$, which a step
changes on its row alone, $|\theta_j| = [\,|u_j| - A]_+$. The truncation moves every $\theta_j$, and with
it the norm: `streaml1.optim.structures.pnorm_moments` knows it from moments of u, until it asks for a rebase: all is written
down anew with A = 0, a pass over what has been alive since the last one.

Differs from the paper: a) its Section 3.1 keeps the sum of $|\theta_j|^p$ at the cost of the row,
which holds for the gradient step; the truncation changes all of it, hence the moments. b) w is not
stored: it is made when it is read. c) p = 2 is the truncated gradient, and needs no norm.

The law of state: an entry that A has passed may be given back, or not; it is in no moment either way.

Cost of a step: the non-zeros of the row, a power each, and two more for those that are not small;
12 bytes a slot.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.aligned import in_lines
from streaml1.core.jit import kernel
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early, stack_buffer
from streaml1.core.vecmath import power, small_int, times_powers
from streaml1.optim.structures import pnorm_moments
from streaml1.optim.structures.pnorm_moments import CHUNK, NORM, TERMS
from streaml1.optim.structures.slot_arrays import grown, moved, records
from streaml1.optim.update_rule import renormalize, weight

__all__ = ["SMIDAS"]

CLOCK = np.dtype(
    [
        ("A", "f8"),
        ("A_low", "f8"),  # what the rounding of A has lost (Kahan)
        ("l1", "f8"),
        ("n", "i8"),  # how many entries `listed` has
    ],
    align=True,
)
MOMENTS = np.dtype([("M", "f8", (TERMS,))])

# A starts here instead of at 0, so that a slot that is listed never holds less.
A_START = 1e-300
TOUCHED = 1e-305  # a slot that has been touched, is zero, and is not listed
TINY = 1e-280  # a theta this small is zero at a rebase, so that 1 / ref is finite
WEIGHT_MOST = 1e150
WEIGHT_LEAST = 5e-324  # the weight of a theta that is not zero, where a float has no less
PLAIN_MOST = 16.0  # p = 2: how many times the largest theta A may reach

ZERO, ONE = np.uint64(0), np.uint64(1)


class SMIDAS(NamedTuple):
    """State: a number a slot, the list of slots that may be alive, the norm, and the ledger."""

    u: Annotated[Any, np.float64]
    listed: Annotated[Any, np.uint32]
    M: Annotated[Any, np.float64]
    binomial: Annotated[Any, np.float64]
    norm: Annotated[Any, NORM]
    clock: Annotated[Any, CLOCK]

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        A, scale, q = self.clock[0].A, self.norm[0].scale, self.norm[0].p - 2.0
        part, x = stack_buffer(), stack_buffer()
        ahead = CHUNK if hi + CHUNK <= np.uint64(len(ids)) else ZERO
        a = 0.0
        for at in range(lo, hi, CHUNK):
            n = min(CHUNK, hi - at)
            for k in range(n):
                prefetch_early(self.u, np.uint64(ids[at + k + ahead]))
                part[k] = self.u[ids[at + k]]
            if small_int(q):
                for k in range(n):
                    r = max(abs(part[k]) - A, 0.0)
                    x[k] = r * scale
                    part[k] = math.copysign(r, part[k])
                times_powers(part, x, n, q)
            else:
                for k in range(n):
                    r = max(abs(part[k]) - A, 0.0)
                    part[k] = math.copysign(r * power(r * scale, q), part[k])
            # One by one: entries that are zero, or that have no slot, make no difference.
            for k in range(n):
                a += part[k] * values[at + k]
        return a

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        c = self.clock[0]
        self.norm[0].learnt += np.int64(hi - lo)
        if step == 0.0:
            for k in range(lo, hi):
                if self.u[ids[k]] == 0.0:
                    self.u[ids[k]] = TOUCHED
            return
        A = c.A
        old, new = stack_buffer(), stack_buffer()
        for at in range(lo, hi, CHUNK):
            n = min(CHUNK, hi - at)
            for k in range(n):
                old[k] = self.u[ids[at + k]]
            for k in range(n):
                u = old[k]
                v = math.copysign(max(abs(u) - A, 0.0), u) - step * values[at + k]
                new[k] = v + math.copysign(A, v)
            for k in range(n):
                self.u[ids[at + k]] = new[k]
                if abs(old[k]) < A_START:
                    self.listed[c.n] = ids[at + k]
                    c.n += 1
            if self.norm[0].K >= 0:
                pnorm_moments.exchange(self.norm, self.M, A, n, old, new)

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        grown = eta * c.l1 - c.A_low
        A = c.A + grown
        c.A_low = (A - c.A) - grown
        c.A = A
        if self.norm[0].K < 0:  # w is theta, and A may go far
            known = PLAIN_MOST * self.norm[0].ref >= A
        else:
            known = pnorm_moments.is_known(self.norm, self.M, self.binomial, A)
        if not known:
            renormalize(self)

    def renormalize(self) -> None:
        c = self.clock[0]
        A = c.A
        n = ZERO
        ref = 0.0
        for k in range(np.uint64(c.n)):
            j = self.listed[k]
            u = self.u[j]
            r = abs(u) - A
            if r > TINY:
                self.u[j] = math.copysign(r + A_START, u)
                self.listed[n] = j
                n += ONE
                ref = max(ref, r)
            else:
                self.u[j] = TOUCHED
        c.n = np.int64(n)
        c.A = A_START
        c.A_low = 0.0
        pnorm_moments.count(self.norm, self.M, self.u, self.listed, n, ref)

    def has_capacity(self, nnz: Any) -> bool:
        return True  # `listed` has an entry for each slot

    def weight(self, j: Any) -> float:
        c = self.norm[0]
        u = self.u[j]
        r = abs(u) - self.clock[0].A
        if not r > 0.0:
            return 0.0
        w = r if c.p == 2.0 else r * power(r * c.scale, c.p - 2.0)
        return math.copysign(max(w, WEIGHT_LEAST), u)

    def weights(self) -> Any:
        w = np.zeros(self.size)
        _weights(self, w)
        return w

    def seen_mask(self) -> Any:
        return self.u != 0.0

    def live_mask(self) -> Any:
        return np.abs(self.u) > self.clock[0].A

    def drop(self, slots: Any) -> None:
        A, u = self.clock[0].A, self.u[slots]
        self.u[slots] = np.where(np.abs(u) < A_START, u, A)
        if np.any(np.abs(u) > A):
            _rebase(self)

    def reserve(self, nnz: int) -> SMIDAS:
        return self

    @property
    def size(self) -> int:
        return len(self.listed)

    def grow(self, d: int) -> SMIDAS:
        return self._replace(u=grown(self.u, d), listed=grown(self.listed, d))

    def remap(self, new_slots: Any, d: int) -> SMIDAS:
        return self._replace(u=moved(self.u, new_slots, d))._listed_anew()

    def _listed_anew(self) -> SMIDAS:
        slots = np.flatnonzero(np.abs(self.u) >= A_START)
        listed = np.zeros(len(self.u), np.uint32)
        listed[: len(slots)] = slots
        self.clock[0].n = len(slots)
        return self._replace(listed=listed)

    def set_p(self, p: float) -> None:
        """Give theta another norm, as of now."""
        pnorm_moments.set_p(self.norm, self.binomial, p)
        _rebase(self)

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.live_mask())
        moments = np.zeros(1, MOMENTS)
        moments["M"] = self.M
        records = {"moments": moments, "norm": self.norm.copy(), "clock": self.clock.copy()}
        return slots, {"u": self.u[slots], **records}

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> SMIDAS:
        ensure(set(arrays) == {"u", "moments", "norm", "clock"}, "other arrays")
        ensure(arrays["u"].dtype == np.float64 and arrays["u"].shape == slots.shape, "not u")
        for name, dtype in (("clock", CLOCK), ("norm", NORM), ("moments", MOMENTS)):
            ensure(arrays[name].dtype == dtype and arrays[name].shape == (1,), f"no {name}")
        rule = SMIDAS.start(d, 0.0, float(arrays["norm"]["p"][0]))
        rule.u[slots] = arrays["u"]
        rule.M[:] = arrays["moments"]["M"][0]
        rule.norm[:] = arrays["norm"]
        rule.clock[:] = arrays["clock"]
        return rule._listed_anew()

    def check(self) -> None:
        ensure(self.u.dtype == np.float64 and len(self.u) == self.size, "u is no row of floats")
        ensure(self.listed.dtype == np.uint32, "listed holds no slots")
        ensure(self.clock.dtype == CLOCK and self.clock.shape == (1,), "the ledger is no record")
        c = self.clock[0]
        ensure(A_START <= c.A < WEIGHT_MOST, f"A is {c.A}, out of range")
        ensure(abs(c.A_low) <= c.A, f"A_low is {c.A_low}, out of range")
        ensure(0.0 <= c.l1 < math.inf, f"l1 is {c.l1}, out of range")
        u = np.abs(self.u)
        ensure(np.all(u < WEIGHT_MOST), "an entry of u is out of range")
        ensure(0 <= c.n <= self.size, "a count is out of range")
        listed = np.flatnonzero(u >= A_START)
        ensure(np.array_equal(np.sort(self.listed[: c.n]), listed), "the list is wrong")
        pnorm_moments.check(self.norm, self.M, self.binomial, u, c.A)

    @staticmethod
    def start(d: int, l1: float, p: float) -> SMIDAS:
        """`d` zero weights."""
        clock, norm = (records(1, kind) for kind in (CLOCK, NORM))
        clock[0].A, clock[0].l1 = A_START, l1
        M, binomial = np.zeros(TERMS), np.zeros(TERMS)
        pnorm_moments.set_p(norm, binomial, p)
        return SMIDAS(in_lines(d, np.float64), np.zeros(d, np.uint32), M, binomial, norm, clock)


@kernel
def _weights(rule: Any, w: Any) -> None:
    for k in range(np.uint64(rule.clock[0].n)):
        j = rule.listed[k]
        w[j] = weight(rule, j)


@kernel
def _rebase(rule: Any) -> None:
    renormalize(rule)
