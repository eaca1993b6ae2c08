r"""Lazy elastic net, with the time stamps folded into the weights.

Lipton & Elkan (2015), *Efficient elastic net regularization for sparse linear models*, for the lazy
update; Duchi & Singer (2009), *Efficient learning using forward-backward splitting*, for the FoBoS
step. After the gradient step $v = w - \eta g x$, one step at rate $\eta$ moves all coordinates:

- FoBoS (Eq. 2): $w = \mathrm{sgn}(v)\,[\,|v| - \eta\lambda_1]_+ \,/\, (1 + \eta\lambda_2)$
- SGD (Eq. 3, after the gradient step): $w = \mathrm{sgn}(v)\,[(1 - \eta\lambda_2)|v| - \eta\lambda_1]_+$

Two scalars express any number of such steps. For FoBoS, $P = \prod 1/(1+\eta\lambda_2)$ and
$A = \sum \eta\lambda_1/P_{before}$ (Theorem 2: $\Phi$ and $\lambda_1\beta$). For SGD, $P = \prod (1-\eta\lambda_2)$ and
$A = \sum \eta\lambda_1/P_{after}$. A weight that no example touches is $|w| = P\,[\,|u| - A]_+$ with $u$ constant.

Stored for each slot is $u = \mathrm{sgn}(v)(|v|/P + A)$, as of the last touch.

Differences from the paper:

a) The paper stores $w$ with a time stamp and keeps tables of P and B, which grow with time. Here u
   replaces both, so there are no stamps and no tables.
b) Theorem 1 (SGD) as printed lacks $\lambda_1$, and has $P(\tau - 1)$ where Eq. 3 implies $P(\tau)$ (see
   `elastic_net_stamps.py`). This is Eq. 3.
c) Where $\eta\lambda_2 \ge 1$, which the paper excludes, an SGD step sets every weight to 0 and the ledger
   restarts.
d) P underflows and A outgrows the weights in the long run. Then `renormalize` rewrites every $u$ with
   P = 1, which costs a pass over all slots.

Cost of a step: O(non-zeros of the row). Memory: 8 bytes per slot.

A row is processed by eights. The last eight overlap those before, because the exit of a remainder
loop is a branch that no processor predicts.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
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
    load,
    load_f64x8,
    mul,
    scatter,
    splat,
    store_f64x8,
    zero_first,
)
from streaml1.core.types import Bools, Floats, Records
from streaml1.optim.rule_state import LOW, Ledger, PerSlot, Scratch, ScratchRule, new_state
from streaml1.optim.structures.joined_weights import joined_elastic_nets
from streaml1.optim.structures.slot_arrays import zeros
from streaml1.optim.structures.soft_threshold import soft_threshold, stepped
from streaml1.optim.update_rule import renormalize

__all__ = ["A_START", "CLOCK", "ElasticNet", "advance"]

CLOCK = np.dtype(
    [
        ("P", "f8"),
        ("A", "f8"),
        ("A_low", "f8"),  # Kahan compensation: by how much A is too large
        ("l1", "f8"),
        ("l2", "f8"),
        ("sgd", "i8"),
    ],
    align=True,
)

# A starts here instead of at 0, so that a touched slot never holds 0: `seen_mask` needs no mark.
# It changes no weight above 1e-280.
A_START = 1e-300
# With |v| < 1e150 (see core.rows.VALUE_LIMIT), |v| / P stays finite.
MAX_WEIGHT = 1e150
MIN_P = 1e-150
# An entry near A is known to an absolute error of eps * A * P. A limit of 64 keeps that at 1e-14.
# Where one step shrinks by much, MIN_STEPS keeps hundreds of steps between two passes over all
# slots.
MAX_SHRINKAGE = 64.0
MIN_STEPS = 256.0

CACHED = 2**17  # number of weights that stay in the second-level cache: no prefetch below it

LANE, EIGHT_BYTES = u64(LANES), u64(8)


@inlined
def advance(c: Any, eta: float) -> bool:
    """Advance the ledger `c` by one step; return whether `renormalize` is due.

    A is a Kahan sum: it takes millions of steps between two passes, each of which would lose
    eps * A.
    """
    if c.sgd:
        factor = 1.0 - eta * c.l2
        if factor <= 0.0:
            c.A = math.inf
            return True
        c.P *= factor
        increase = eta * c.l1 / c.P - c.A_low
    else:
        increase = eta * c.l1 / c.P - c.A_low
        c.P /= 1.0 + eta * c.l2
    A = c.A + increase
    c.A_low = (A - c.A) - increase
    c.A = A
    return c.P < MIN_P or max(MAX_SHRINKAGE, MIN_STEPS * eta * c.l1) < A * c.P


@inlined
def _load_eight(
    rule: Any, ids: Any, values: Any, lo: Any, k: Any, As: Any, prefetch_ok: Any, fits: Any
) -> Any:
    """Return the weights over P of the eight non-zeros from the k-th, of a row from `lo`.

    If the scratch array `fits` the row, they are stored there for `apply_gradient`.
    """
    prefetch_rows(ids, values, k)
    if prefetch_ok:
        prefetch_every_other(rule.u, ids, k + PREFETCH_DISTANCE)
    w = soft_threshold(gather(rule.u, ids, k), As)
    if fits:
        store_f64x8(np.uint64(rule.scratch.ctypes.data) + EIGHT_BYTES * (k - lo), w)
    return w


@inlined
def _step_eight(
    rule: Any, ids: Any, values: Any, lo: Any, k: Any, As: Any, steps: Any, prefetch_ok: Any
) -> None:
    """Take the gradient step on the eight non-zeros from the k-th, of a row from `lo`."""
    if prefetch_ok:  # `margin` prefetched the other half: the line fill buffers hold few requests
        prefetch_every_other(rule.u, ids, k + PREFETCH_DISTANCE + u64(1))
    w = load_f64x8(np.uint64(rule.scratch.ctypes.data) + EIGHT_BYTES * (k - lo))
    scatter(rule.u, ids, k, stepped(w, As, steps, load(values, k)))


class ElasticNetState(NamedTuple):
    """Stored u of each slot, weights over P of the current row, and the ledger."""

    u: Annotated[Floats, PerSlot(np.float64, dropped=A_START)]
    scratch: Annotated[Floats, Scratch(np.float64)]
    clock: Annotated[Records, Ledger(CLOCK)]


class ElasticNet(ScratchRule, ElasticNetState):
    """The lazy elastic net."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        c = self.clock[0]
        A = c.A
        As = splat(A)
        prefetch_ok = len(self.u) > CACHED and can_prefetch(ids, hi)
        fits = hi - lo <= np.uint64(len(self.scratch))  # always to learn, not always to predict
        if hi - lo < LANE:
            a = 0.0
            for k in range(lo, hi):
                w = soft_threshold(self.u[ids[k]], A)
                if prefetch_ok:
                    prefetch_weight(self.u, ids, k + PREFETCH_DISTANCE)
                if fits:
                    self.scratch[k - lo] = w
                a += w * values[k]
            return a * c.P
        last = hi - LANE
        sums = splat(0.0)
        for k in range(lo, last, LANE):
            w = _load_eight(self, ids, values, lo, k, As, prefetch_ok, fits)
            sums = add(sums, mul(w, load(values, k)))
        w = _load_eight(self, ids, values, lo, last, As, prefetch_ok, fits)
        # The first of the last eight are already in `sums`: their values count as 0.
        overlap = (LANE - (hi - lo) % LANE) % LANE
        return hsum(add(sums, mul(w, zero_first(load(values, last), overlap)))) * c.P

    def prefetch_next(self, ids: Any, values: Any, lo: Any, hi: Any) -> None:
        pass  # `margin` does

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # `margin` has left the weights of this row in the scratch array.
        c = self.clock[0]
        A, s = c.A, step / c.P
        As, steps = splat(A), splat(s)
        prefetch_ok = len(self.u) > CACHED and can_prefetch(ids, hi)
        if hi - lo < LANE:
            for k in range(lo, hi):
                self.u[ids[k]] = stepped(self.scratch[k - lo], A, s, values[k])
            return
        last = hi - LANE
        for k in range(lo, last, LANE):
            _step_eight(self, ids, values, lo, k, As, steps, prefetch_ok)
        # The overlap is written twice, with the same floats: both read the scratch array.
        _step_eight(self, ids, values, lo, last, As, steps, prefetch_ok)

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

    def weight(self, j: Any) -> float:
        c = self.clock[0]
        u = self.u[j]
        return math.copysign(max(abs(u) - c.A, 0.0) * c.P, u)

    def is_zero_block(self, j: Any) -> bool:
        seen = False
        for k in range(LANE):
            seen |= self.u[j + k] != 0.0
        return not seen

    def weights(self) -> Floats:
        c = self.clock[0]
        w = np.abs(self.u)
        w -= c.A
        np.maximum(w, 0.0, out=w)
        w *= c.P
        return np.copysign(w, self.u, out=w)

    def live_mask(self) -> Bools:
        # Not by the weight: one that has underflowed to 0 differs from one that the penalty ended.
        A = self.clock[0].A
        live = self.u > A
        live |= self.u < -A
        return live

    def candidates(
        self, parts: Sequence[ElasticNet], rates: Sequence[Iterable[Floats]]
    ) -> Iterator[tuple[str, ElasticNet]]:
        """Yield the candidates of `structures.joined_weights`."""
        c, weights = self.clock[0], [part.weights() for part in parts]
        for name, w in joined_elastic_nets(self.weights(), weights, rates, c.l1, c.l2, c.sgd):
            rule = self._replace(u=zeros(self.size, self.u), clock=self.clock.copy())
            rule.u[:] = w + np.copysign(A_START, w)
            rule.clock[0].P, rule.clock[0].A, rule.clock[0].A_low = 1.0, A_START, 0.0
            yield name, rule

    def check(self) -> None:
        super().check()
        c = self.clock[0]
        ensure(MIN_P <= c.P <= 1.0, f"P={c.P} is out of range")
        ensure(A_START <= c.A and c.A * c.P < MAX_WEIGHT, f"A={c.A} is out of range")
        ensure(abs(c.A_low) <= LOW * c.A, f"A_low={c.A_low} is out of range")
        ensure(0.0 <= c.l1 < math.inf and 0.0 <= c.l2 < math.inf, "l1 or l2 is out of range")
        ensure(c.sgd in (0, 1), f"sgd={c.sgd} is not a flag")
        ensure(np.all(np.abs(self.u) < MAX_WEIGHT / MIN_P), "an entry of u is out of range")
        ensure(np.all(np.abs(self.weights()) < MAX_WEIGHT), "a weight is out of range")

    @staticmethod
    def start(d: int, l1: float, l2: float, sgd: bool) -> ElasticNet:
        """Return a rule with `d` zero weights."""
        rule = new_state(ElasticNet, d)
        rule.clock[0] = (1.0, A_START, 0.0, l1, l2, sgd)
        return rule
