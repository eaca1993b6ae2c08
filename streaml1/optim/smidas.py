r"""SMIDAS: mirror descent with the p-norm link function, made sparse.

Shalev-Shwartz & Tewari (2009), *Stochastic methods for l1 regularized loss minimization*,
Algorithm 3. One step at rate $\eta$, on all coordinates:
$$\theta = \mathrm{soft}(\theta - \eta g x,\ \eta\lambda), \qquad
  w_j = \mathrm{sgn}(\theta_j)\,|\theta_j|^{p-1} / \|\theta\|_p^{p-2}$$

With $A = \sum \eta\lambda$ since the last `renormalize`, stored is $u = \mathrm{sgn}(\theta)(|\theta| + A)$, which a
step changes on its row alone: $|\theta_j| = [\,|u_j| - A]_+$. The truncation moves every $\theta_j$, and with
them the norm. `structures.pnorm_moments` tracks the norm by moments of u until they are too
inaccurate. Then `renormalize` rewrites all u with A = 0, a pass over what has been alive since the last
one.

Differences from the paper:

a) Its Section 3.1 maintains the sum of $|\theta_j|^p$ at the cost of the row. That holds for the gradient
   step, but the truncation changes every term; hence the moments.
b) w is not stored. It is computed when it is read.
c) p = 2 is the truncated gradient, and needs no norm.

The law of state: an entry that A has passed may be given back or not. It is in no moment either way.

Cost of a step: O(non-zeros of the row), with one power each, and two more for those that are not
small. Memory: 12 bytes per slot.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import kernel, u64
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early, stack_buffer
from streaml1.core.types import Bools, Floats, Ids, Ints, Records
from streaml1.core.vecmath import is_small_int, multiply_powers, power
from streaml1.optim.rule_state import LOW, Index, Ledger, PerSlot, RuleState, Scratch, new_state
from streaml1.optim.structures import pnorm_moments
from streaml1.optim.structures.joined_weights import joined_elastic_nets
from streaml1.optim.structures.pnorm_moments import CHUNK, NORM, TERMS
from streaml1.optim.update_rule import renormalize, weight

__all__ = ["SMIDAS"]

CLOCK = np.dtype(
    [
        ("A", "f8"),
        ("A_low", "f8"),  # Kahan compensation: by how much A is too large
        ("l1", "f8"),
        ("n", "i8"),  # number of listed slots
    ],
    align=True,
)
MOMENTS = np.dtype([("M", "f8", (TERMS,))])

# A starts here instead of at 0, so that a listed slot never holds less.
A_START = 1e-300
TOUCHED = 1e-305  # the u of a slot that was touched, is zero, and is not listed
TINY = 1e-280  # `renormalize` sets a theta this small to zero, so that 1 / ref is finite
MAX_WEIGHT = 1e150
MIN_WEIGHT = 5e-324  # the weight of a non-zero theta where it underflows
MAX_A_OVER_THETA = 16.0  # p = 2: A may reach this multiple of the largest theta


class SMIDASState(NamedTuple):
    """u of each slot, the list of slots that may be alive, the norm, and the ledger."""

    u: Annotated[Floats, PerSlot(np.float64)]
    listed: Annotated[Ids, Index(np.uint32)]
    M: Annotated[Floats, Ledger(np.float64, TERMS, saved_as=("moments", MOMENTS))]
    binomial: Annotated[Floats, Scratch(np.float64, TERMS)]
    norm: Annotated[Records, Ledger(NORM)]
    clock: Annotated[Records, Ledger(CLOCK)]


class SMIDAS(RuleState, SMIDASState):
    """SMIDAS."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        A, scale, q = self.clock[0].A, self.norm[0].scale, self.norm[0].p - 2.0
        part, x = stack_buffer(), stack_buffer()
        distance = CHUNK if hi + CHUNK <= np.uint64(len(ids)) else u64(0)
        a = 0.0
        for base in range(lo, hi, CHUNK):
            n = min(CHUNK, hi - base)
            for k in range(n):
                prefetch_early(self.u, np.uint64(ids[base + k + distance]))
                part[k] = self.u[ids[base + k]]
            if is_small_int(q):
                for k in range(n):
                    r = max(abs(part[k]) - A, 0.0)
                    x[k] = r * scale
                    part[k] = math.copysign(r, part[k])
                multiply_powers(part, x, n, q)
            else:
                for k in range(n):
                    r = max(abs(part[k]) - A, 0.0)
                    part[k] = math.copysign(r * power(r * scale, q), part[k])
            # One accumulator: zero entries, and entries without a slot, must not change the sum.
            for k in range(n):
                a += part[k] * values[base + k]
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
        for base in range(lo, hi, CHUNK):
            n = min(CHUNK, hi - base)
            for k in range(n):
                old[k] = self.u[ids[base + k]]
            for k in range(n):
                u = old[k]
                v = math.copysign(max(abs(u) - A, 0.0), u) - step * values[base + k]
                new[k] = v + math.copysign(A, v)
            for k in range(n):
                self.u[ids[base + k]] = new[k]
                if abs(old[k]) < A_START:
                    self.listed[c.n] = ids[base + k]
                    c.n += 1
            if self.norm[0].K >= 0:
                pnorm_moments.exchange(self.norm, self.M, A, n, old, new)

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        increase = eta * c.l1 - c.A_low
        A = c.A + increase
        c.A_low = (A - c.A) - increase
        c.A = A
        if self.norm[0].K < 0:  # w is theta
            known = MAX_A_OVER_THETA * self.norm[0].ref >= A
        else:
            known = pnorm_moments.is_known(self.norm, self.M, self.binomial, A)
        if not known:
            renormalize(self)

    def renormalize(self) -> None:
        c = self.clock[0]
        A = c.A
        n = u64(0)
        ref = 0.0
        for k in range(np.uint64(c.n)):
            j = self.listed[k]
            u = self.u[j]
            r = abs(u) - A
            if r > TINY:
                self.u[j] = math.copysign(r + A_START, u)
                self.listed[n] = j
                n += u64(1)
                ref = max(ref, r)
            else:
                self.u[j] = TOUCHED
        c.n = np.int64(n)
        c.A = A_START
        c.A_low = 0.0
        pnorm_moments.count(self.norm, self.M, self.u, self.listed, n, ref)

    def weight(self, j: Any) -> float:
        c = self.norm[0]
        u = self.u[j]
        r = abs(u) - self.clock[0].A
        if not r > 0.0:
            return 0.0
        w = r if c.p == 2.0 else r * power(r * c.scale, c.p - 2.0)
        return math.copysign(max(w, MIN_WEIGHT), u)

    def weights(self) -> Floats:
        w = np.zeros(self.size)
        _weights(self, w)
        return w

    def live_mask(self) -> Bools:
        live: Bools = np.abs(self.u) > self.clock[0].A
        return live

    def drop(self, slots: Ints) -> None:
        A, u = self.clock[0].A, self.u[slots]
        self.u[slots] = np.where(np.abs(u) < A_START, u, A)
        if np.any(np.abs(u) > A):
            _renormalize(self)

    def candidates(
        self, parts: Sequence[SMIDAS], rates: Sequence[Iterable[Floats]]
    ) -> Iterator[tuple[str, SMIDAS]]:
        """Yield the candidates of `structures.joined_weights` for theta.

        Gradients and the truncation add up there, as they do in the weights of an l1 elastic net.
        """
        l1, p, K = float(self.clock[0].l1), float(self.norm[0].p), parts[0].norm[0].K
        thetas = [part._theta() for part in parts]
        for name, theta in joined_elastic_nets(self._theta(), thetas, rates, l1, 0.0, sgd=False):
            rule = self.start(self.size, l1, p)
            rule.norm[0].K = K  # as many moments as the first part has come to need
            rule.u[:] = np.where(theta == 0.0, 0.0, theta + np.copysign(A_START, theta))
            rule._rebuild_index()
            _renormalize(rule)
            yield name, rule

    def _theta(self) -> Floats:
        """Return theta of each slot."""
        return np.copysign(np.maximum(np.abs(self.u) - self.clock[0].A, 0.0), self.u)

    def _rebuild_index(self) -> None:
        slots = np.flatnonzero(np.abs(self.u) >= A_START)
        self.listed[: len(slots)] = slots
        self.clock[0].n = len(slots)

    def _rebuild_scratch(self) -> None:
        pnorm_moments.fill_binomial(self.binomial, float(self.norm[0].p))

    def set_p(self, p: float) -> None:
        """Set the exponent of the norm from now on."""
        pnorm_moments.set_p(self.norm, self.binomial, p)
        _renormalize(self)

    def check(self) -> None:
        super().check()
        c = self.clock[0]
        ensure(A_START <= c.A < MAX_WEIGHT, f"A={c.A} is out of range")
        ensure(abs(c.A_low) <= LOW * c.A, f"A_low={c.A_low} is out of range")
        ensure(0.0 <= c.l1 < math.inf, f"l1={c.l1} is out of range")
        u = np.abs(self.u)
        ensure(np.all(u < MAX_WEIGHT), "an entry of u is out of range")
        ensure(0 <= c.n <= self.size, f"n={c.n} is out of range")
        listed = np.flatnonzero(u >= A_START)
        ensure(np.array_equal(np.sort(self.listed[: c.n]), listed), "the list differs from u")
        pnorm_moments.check(self.norm, self.M, self.binomial, u, c.A)

    @staticmethod
    def start(d: int, l1: float, p: float) -> SMIDAS:
        """Return a rule with `d` zero weights."""
        rule = new_state(SMIDAS, d)
        rule.clock[0].A, rule.clock[0].l1 = A_START, l1
        pnorm_moments.set_p(rule.norm, rule.binomial, p)
        return rule


@kernel
def _weights(rule: Any, w: Any) -> None:
    for k in range(np.uint64(rule.clock[0].n)):
        j = rule.listed[k]
        w[j] = weight(rule, j)


@kernel
def _renormalize(rule: Any) -> None:
    renormalize(rule)
