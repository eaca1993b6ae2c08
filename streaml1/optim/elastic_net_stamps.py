r"""Lazy elastic net with explicit stamps: Algorithm 1, made exact and bounded.

Lipton & Elkan (2015), *Efficient elastic net regularization for sparse linear models*: a weight is
left as it was when an example last touched it, with $\psi_j$, the time of that touch. Every step is
$|w| \to [a_\tau|w| - b_\tau]_+$, with

- FoBoS (Eq. 2): $a = 1/(1 + \eta\lambda_2)$, $b = \eta\lambda_1 a$
- SGD (Eq. 3): $a = [1 - \eta\lambda_2]_+$, $b = \eta\lambda_1$

so that what is pending at time $k$ is, from tables of $P(t) = \prod_{\tau<t} a_\tau$ and
$B(t) = \frac1{\lambda_1}\sum_{\tau<t} b_\tau / P(\tau + 1)$ (Theorem 1: $P$ and $B$; Theorem 2: $\Phi$ and $\beta$),
$$w_j = \mathrm{sgn}(w_j)\,P(k)\,\bigl[\,|w_j|/P(\psi_j) - \lambda_1(B(k) - B(\psi_j))\bigr]_+$$

**Theorem 1 (SGD) is printed with two slips.** It leaves out $\lambda_1$ (the last line of its proof has it),
and $B(t) = \sum \eta(\tau)/P(\tau - 1)$ should be $\sum \eta(\tau)/P(\tau)$, in the paper's indices: the loss of
step $\tau$ is not shrunk by step $\tau$ itself. From $w = 1$, with $\eta = 0.5/\sqrt{t + 1}$, $\lambda_1 = 0.01$,
$\lambda_2 = 0.1$, 50 steps of Eq. (3) end at 0.478086. As printed the theorem gives 0, with $\lambda_1$ put back
0.478839, with both mended 0.478086. Theorem 2 (FoBoS) is right: 0.484628 both ways.

Differs from the paper: a) B is all there is to look up: by both equations $1/P(t) = 1 + \lambda_2 B(t)$. Where
$\lambda_2 = 0$ it is S, the paper's table of the pure l1 case. It belongs to the strengths of its day: where they
change, all weights are brought current. b) It holds `budget` steps. Then, or before P underflows or B outgrows the
weights, the same is done, and it starts anew (the paper's footnote 1). c) Where all steps since then were alike, n steps
behind B are $B + B(n)/P$: B of 0 to 4,095 steps and that of each 4,096th do for 2^20 steps. So a constant rate
takes 35 kB, near the processor at any dimension (the paper's O(1) space; powers in closed form would cost more than all
the rest). d) A step with $\eta\lambda_2 \ge 1$, which the paper leaves out, makes every weight 0.

A weight that is zero stays zero, in floats too: the weight over P falls by what B grows, and B never falls.

Cost of a step: the non-zeros of the row, and a `budget`-th of all slots (2^20th, if steps are alike); 16 bytes a
slot and up to 8 a step of the budget.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import LANES, inlined
from streaml1.core.prefetch import ahead, ask_rows
from streaml1.core.rows import ensure
from streaml1.core.simd import (
    add,
    addresses_of,
    bit_and,
    gather_at,
    gather_pairs,
    hsum,
    lane_max,
    load,
    load_f64x8,
    mul,
    prefetch_early,
    scatter_pairs,
    shift_right,
    splat,
    splat_u64,
    store_f64x8,
    sub,
    to_bits,
)
from streaml1.optim.structures.slot_arrays import grown, moved, records, scratch_for
from streaml1.optim.structures.soft_threshold import beyond
from streaml1.optim.update_rule import renormalize

__all__ = ["BUDGET_MOST", "EQUAL_MOST", "ElasticNetStamps"]

# psi is 0 where no example has touched the slot; time starts at 1.
SLOT = np.dtype([("w", "f8"), ("psi", "u8")], align=True)
CLOCK = np.dtype(
    [
        ("now", "u8"),
        ("P", "f8"),
        ("B", "f8"),
        ("B_low", "f8"),  # what the rounding of B has lost (Kahan)
        ("B_l1", "f8"),  # the strengths that B is of
        ("B_l2", "f8"),
        ("eta", "f8"),  # of the last step
        ("a", "f8"),  # and what its loss is not shrunk by
        ("even", "i8"),  # whether all steps since the start were alike
        ("l1", "f8"),
        ("l2", "f8"),
        ("sgd", "i8"),
        ("budget", "u8"),
    ],
    align=True,
)

START = np.uint64(1)
WHOLE_BITS = np.uint64(12)
WHOLE = START << WHOLE_BITS
EQUAL_MOST = START << np.uint64(20)
WHOLES = int(EQUAL_MOST >> WHOLE_BITS) + 2
BUDGET_MOST = 2**30
# With |v| < 1e150 (see rows.LIMIT), |v| / P stays finite.
WEIGHT_MOST = 1e150
P_LEAST = 1e-150
# l1 times a difference of two B is known to eps * l1 * B * P: 64 keeps that at 1e-14. Where a step
# shrinks by much, hundreds of steps go by between two passes over all slots all the same.
SHRINKAGE_MOST = 64.0
STEPS_LEAST = 256.0
LANE = np.uint64(LANES)
HERE = np.uint64(0)


@inlined
def _eight_left(rule: Any, w: Any, psi: Any, even: Any, ledger: Any) -> Any:
    """As `_left`, of eight slots."""
    last, l1, l2 = ledger
    if even:
        t = add(psi, splat_u64(WHOLE - START))
        whole = gather_at(addresses_of(rule.wholes, shift_right(t, splat_u64(WHOLE_BITS))), HERE)
        few = gather_at(addresses_of(rule.sums, bit_and(t, splat_u64(WHOLE - START))), HERE)
        B = add(whole, mul(add(splat(1.0), mul(splat(l2), whole)), few))
    else:
        B = gather_at(addresses_of(rule.sums, psi), HERE)
    f = add(splat(1.0), mul(splat(l2), B))
    g = mul(splat(l1), sub(splat(last), B))
    return beyond(mul(f, w), lane_max(g, splat(0.0)))


@inlined
def _eights(rule: Any, ids: Any, values: Any, lo: Any, end: Any, even: Any, kept: Any) -> Any:
    """Sums of products of weights over P and values; keeps the former for `apply_gradient`."""
    ledger = _ledger(rule)
    scratch = np.uint64(rule.scratch.ctypes.data)
    far = ahead(ids, end)
    sums = splat(0.0)
    for k in range(lo, end, LANE):
        ask_rows(ids, values, k)
        for j in range(k + far, k + far + LANE):
            prefetch_early(rule.slots, np.uint64(ids[j]))
        w, psi = gather_pairs(rule.slots, ids, k)
        w = _eight_left(rule, w, to_bits(psi), even, ledger)
        if kept:
            store_f64x8(scratch + np.uint64(8) * (k - lo), w)
        sums = add(sums, mul(w, load(values, k)))
    return sums


@inlined
def _ledger(rule: Any) -> tuple[float, float, float]:
    """What `_left` wants of it: read once for many slots."""
    c = rule.clock[0]
    return c.B, c.B_l1, c.B_l2


@inlined
def _left(rule: Any, w: float, psi: Any, even: Any, ledger: Any) -> float:
    """The weight of a slot as of now, over P; where there is no stamp, it is 0 at any B."""
    last, l1, l2 = ledger
    B = _after(rule, psi + (WHOLE - START), l2) if even else rule.sums[psi]
    return beyond((1.0 + l2 * B) * w, max(l1 * (last - B), 0.0))


@inlined
def _after(rule: Any, t: Any, l2: float) -> float:
    """B of equal steps, from one whole on counted: wholes, and fewer behind them."""
    whole = rule.wholes[t >> WHOLE_BITS]
    B: float = whole + (1.0 + l2 * whole) * rule.sums[t & (WHOLE - START)]
    return B


@inlined
def _add_up(rule: Any, eta: float, a: float) -> None:
    """Let a step be added to B and P."""
    c = rule.clock[0]
    grown = eta * (1.0 + c.B_l2 * c.B) / a - c.B_low
    B = c.B + grown
    c.B_low = (B - c.B) - grown
    c.B = B
    c.P = 1.0 / (1.0 + c.B_l2 * B)


@inlined
def _enter_equal(rule: Any, n: Any, eta: float, a: float) -> None:
    """Enter what n equal steps come to, given what fewer do."""
    c = rule.clock[0]
    if n <= WHOLE:
        _add_up(rule, eta, a)
        rule.sums[n] = c.B
    if n & (WHOLE - START) == np.uint64(0):
        whole = rule.wholes[n >> WHOLE_BITS]
        rule.wholes[(n >> WHOLE_BITS) + START] = whole + (1.0 + c.B_l2 * whole) * rule.sums[WHOLE]
    if n > WHOLE:
        c.B = _after(rule, n + WHOLE, c.B_l2)
        c.P = 1.0 / (1.0 + c.B_l2 * c.B)


@inlined
def _start_anew(rule: Any) -> None:
    """Let time be 1, and the tables without a step."""
    c = rule.clock[0]
    c.now = START
    c.P = 1.0
    c.B = 0.0
    c.B_low = 0.0
    for k in range(2):
        rule.sums[k] = 0.0
        rule.wholes[k] = 0.0


@inlined
def _forget(rule: Any) -> None:
    """Let all weights be zero."""
    for j in range(np.uint64(len(rule.slots))):
        rule.slots[j].w = 0.0
    renormalize(rule)


class ElasticNetStamps(NamedTuple):
    """State of the elastic net with stamps: w and psi (d,), the tables and the ledger."""

    slots: Annotated[Any, SLOT]
    # B of the time t at t; or, of equal steps, that of n at n, and that of n wholes at n + 1. No
    # stamp is 0, which is read too: so there is room for a whole.
    sums: Annotated[Any, np.float64]
    wholes: Annotated[Any, np.float64]
    scratch: Annotated[Any, np.float64]  # weights of the row in hand
    clock: Annotated[Any, CLOCK]

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        c, ledger = self.clock[0], _ledger(self)
        kept = hi - lo <= np.uint64(len(self.scratch))  # learning has had room made, predicting not
        odd = hi - (hi - lo) % LANE
        if c.even:  # a loop each
            sums = _eights(self, ids, values, lo, odd, True, kept)
        else:
            sums = _eights(self, ids, values, lo, odd, False, kept)
        a = hsum(sums)
        far = ahead(ids, hi)
        for k in range(odd, hi):
            prefetch_early(self.slots, np.uint64(ids[k + far]))
            one = self.slots[ids[k]]
            w = _left(self, one.w, one.psi, c.even, ledger)
            if kept:
                self.scratch[k - lo] = w
            a += w * values[k]
        return a * c.P

    def prefetch_next(self, ids: Any, values: Any, lo: Any, hi: Any) -> None:
        pass  # `margin` does

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # The row was gathered just before: what its weights were is at hand.
        c = self.clock[0]
        now, P = c.now, c.P
        nows, Ps, steps = splat_u64(now), splat(P), splat(step)
        scratch = np.uint64(self.scratch.ctypes.data)
        odd = hi - (hi - lo) % LANE
        for k in range(lo, odd, LANE):
            w = mul(load_f64x8(scratch + np.uint64(8) * (k - lo)), Ps)
            scatter_pairs(self.slots, ids, k, sub(w, mul(steps, load(values, k))), nows)
        for k in range(odd, hi):
            one = self.slots[ids[k]]
            one.w = self.scratch[k - lo] * P - step * values[k]
            one.psi = now

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        if c.l1 == 0.0 and c.l2 == 0.0:
            eta = 0.0  # nothing will be pending
        a = max(1.0 - eta * c.l2, 0.0) if c.sgd else 1.0
        same = c.B_l1 == c.l1 and c.B_l2 == c.l2
        alike = eta == c.eta and a == c.a and same
        c.eta = eta
        c.a = a
        if c.now != START and not (alike if c.even else same):
            renormalize(self)
            c.even = 0
        c.B_l1 = c.l1
        c.B_l2 = c.l2
        if a == 0.0:
            _forget(self)
            return
        c.now += START
        most = c.budget
        if c.even:
            _enter_equal(self, c.now - START, eta, a)
            most = min(most, EQUAL_MOST)
        else:
            _add_up(self, eta, a)
            self.sums[c.now] = c.B
        if (
            c.P < P_LEAST
            or max(SHRINKAGE_MOST, STEPS_LEAST * eta * c.l1) < c.l1 * c.B * c.P
            or c.now - START >= most
        ):
            renormalize(self)
            c.even = c.even or alike

    def renormalize(self) -> None:
        ledger, even, P = _ledger(self), self.clock[0].even, self.clock[0].P
        for j in range(np.uint64(len(self.slots))):
            one = self.slots[j]
            one.w = _left(self, one.w, one.psi, even, ledger) * P
            one.psi = min(one.psi, START)
        _start_anew(self)

    def has_capacity(self, nnz: Any) -> bool:
        c = self.clock[0]
        fits = c.even != 0 or c.now + START < np.uint64(len(self.sums))
        return fits and nnz <= np.uint64(len(self.scratch))

    def weight(self, j: Any) -> float:
        c, one = self.clock[0], self.slots[j]
        w: float = _left(self, one.w, one.psi, c.even, _ledger(self)) * c.P
        return w

    def weights(self) -> Any:
        return np.copysign(self._sizes() * self.clock[0].P, self.slots["w"])

    def _sizes(self) -> Any:
        """The sizes of all weights over P."""
        c, size = self.clock[0], np.abs(self.slots["w"])
        B = self._B_at(self.slots["psi"])
        return np.maximum((1.0 + c.B_l2 * B) * size - np.maximum(c.B_l1 * (c.B - B), 0.0), 0.0)

    def _B_at(self, psi: Any) -> Any:
        """B at some stamps."""
        c = self.clock[0]
        return _after(self, psi + (WHOLE - START), c.B_l2) if c.even else self.sums[psi]

    def seen_mask(self) -> Any:
        return self.slots["psi"] != 0

    def live_mask(self) -> Any:
        return self._sizes() > 0.0

    def drop(self, slots: Any) -> None:
        self.slots["w"][slots] = 0.0
        self.slots["psi"][slots] = self.clock[0].now

    def reserve(self, nnz: int) -> ElasticNetStamps:
        rule, c = self, self.clock[0]
        if not self.has_capacity(0):
            most = int(max(c.budget, c.now)) + 2
            rule = rule._replace(sums=grown(self.sums, min(2 * len(self.sums), most)))
        return rule._replace(scratch=scratch_for(nnz, rule.scratch))

    @property
    def size(self) -> int:
        return len(self.slots)

    def grow(self, d: int) -> ElasticNetStamps:
        return self._replace(slots=grown(self.slots, d))

    def remap(self, new_slots: Any, d: int) -> ElasticNetStamps:
        return self._replace(slots=moved(self.slots, new_slots, d))

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        # Of the sums what a stamp points at; what equal steps do follows from the ledger.
        slots = np.flatnonzero(self.live_mask())
        held = self.slots[slots]
        B = np.zeros(len(slots)) if self.clock[0].even else self.sums[held["psi"]]
        w, psi = held["w"].copy(), held["psi"].copy()
        return slots, {"w": w, "psi": psi, "B": B, "clock": self.clock.copy()}

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> ElasticNetStamps:
        ensure(set(arrays) == {"w", "psi", "B", "clock"}, "other arrays")
        for name, kind in (("w", "f8"), ("psi", "u8"), ("B", "f8")):
            ensure(arrays[name].dtype == kind and arrays[name].shape == slots.shape, f"not {name}")
        ensure(arrays["clock"].dtype == CLOCK and arrays["clock"].shape == (1,), "not a ledger")
        rule = ElasticNetStamps.start(d, 0.0, 0.0, sgd=False, budget=1)
        rule.clock[:] = arrays["clock"]
        c = rule.clock[0]
        # A budget that was lowered holds from the next step on.
        ensure(START <= c.now <= BUDGET_MOST, f"now is {c.now}, out of range")
        ensure(1 <= c.budget <= BUDGET_MOST, "the budget is out of range")
        ensure(np.all(arrays["psi"] <= c.now), "a stamp lies in the future")
        rule.slots["w"][slots] = arrays["w"]
        rule.slots["psi"][slots] = arrays["psi"]
        ensure(not c.even or c.now <= EQUAL_MOST, "too many equal steps")
        if not c.even:
            sums = np.zeros(max(len(rule.sums), int(c.now) + 2))
            sums[arrays["psi"]] = arrays["B"]
            sums[int(c.now)] = c.B
            return rule._replace(sums=sums)
        _start_anew(rule)
        whole, now = int(WHOLE), int(arrays["clock"]["now"][0])
        for n in (*range(1, min(now, whole + 1)), *range(2 * whole, now, whole)):
            _enter_equal(rule, np.uint64(n), c.eta, c.a)
        rule.clock[:] = arrays["clock"]
        return rule

    def check(self) -> None:
        for name, dtype in (("slots", SLOT), ("clock", CLOCK)):
            array = getattr(self, name)
            ensure(array.dtype == dtype and array.ndim == 1, f"{name} is no row of records")
        ensure(len(self.wholes) == WHOLES, "wholes has another length")
        c, psi = self.clock[0], self.slots["psi"]
        last = WHOLE if c.even else max(c.now, WHOLE)
        ensure(c.now >= START and last < len(self.sums), "more steps than the tables hold")
        ensure(np.all(psi <= c.now), "a stamp lies in the future")
        ensure(np.all(self.slots["w"][psi == 0] == 0.0), "untouched but not zero")
        ensure(np.all(np.abs(self.slots["w"]) < WEIGHT_MOST), "a weight is out of range")
        ensure(P_LEAST <= c.P <= 1.0, f"P is {c.P}, out of range")
        ensure(c.B >= 0.0 and c.B_l1 * c.B * c.P < WEIGHT_MOST, f"B is {c.B}, out of range")
        ensure(abs(c.B_low) <= c.B, f"B_low is {c.B_low}, out of range")
        ensure(1.0 / (1.0 + c.B_l2 * c.B) == c.P, "P and B do not belong together")
        ensure(0.0 <= c.a <= 1.0 and 0.0 <= c.eta < math.inf, "eta or a is out of range")
        ensure(0.0 <= c.l1 < math.inf and 0.0 <= c.l2 < math.inf, "l1 or l2 is out of range")
        ensure(c.sgd in (0, 1) and c.even in (0, 1), "sgd or even is no flag")
        ensure(1 <= c.budget <= BUDGET_MOST, "the budget is out of range")
        ensure(not c.even or c.now <= EQUAL_MOST, "more than equal steps")
        B = self._B_at(psi[psi > 0])
        ensure(np.all((B >= 0.0) & (B <= c.B)), "B is wrong")

    @staticmethod
    def start(d: int, l1: float, l2: float, sgd: bool, budget: int) -> ElasticNetStamps:
        """`d` zero weights."""
        clock = records(1, CLOCK)
        clock[0] = (START, 1.0, 0.0, 0.0, l1, l2, 0.0, 1.0, True, l1, l2, sgd, budget)
        sums, scratch = np.zeros(int(WHOLE) + 1), np.zeros(0)
        rule = ElasticNetStamps(records(d, SLOT), sums, np.zeros(WHOLES), scratch, clock)
        _start_anew(rule)
        return rule
