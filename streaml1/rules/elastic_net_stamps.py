r"""Lazy elastic net with explicit stamps: Algorithm 1, made exact and bounded.

Lipton & Elkan (2015), *Efficient elastic net regularization for sparse linear models*: a weight is
left as it was when an example last touched it, with $\psi_j$, the time of that touch. Every step is
$|w| \to [a_\tau|w| - b_\tau]_+$, with

- FoBoS (Eq. 2): $a = 1/(1 + \eta\lambda_2)$, $b = \eta\lambda_1 a$
- SGD (Eq. 3): $a = [1 - \eta\lambda_2]_+$, $b = \eta\lambda_1$

so that what is pending at time $k$ is, from tables of $P(t) = \prod_{\tau<t} a_\tau$ and
$A(t) = \sum_{\tau<t} b_\tau / P(\tau + 1)$ (Theorem 2: $\Phi$ and $\lambda_1\beta$; Theorem 1: $P$ and $\lambda_1 B$),
$$w_j = \mathrm{sgn}(w_j)\,P(k)\,\bigl[\,|w_j|/P(\psi_j) + A(\psi_j) - A(k)\,\bigr]_+$$

**Theorem 1 (SGD) is printed with two slips.** It leaves out $\lambda_1$ (the last line of its proof has it),
and $B(t) = \sum \eta(\tau)/P(\tau - 1)$ should be $\sum \eta(\tau)/P(\tau)$, in the paper's indices: the loss of
step $\tau$ is not shrunk by step $\tau$ itself. From $w = 1$, with $\eta = 0.5/\sqrt{t + 1}$, $\lambda_1 = 0.01$,
$\lambda_2 = 0.1$, 50 steps of Eq. (3) end at 0.478086. As printed the theorem gives 0, with $\lambda_1$ put back
0.478839, with both mended 0.478086. Theorem 2 (FoBoS) is right: 0.484628 both ways.

Differs from the paper: a) the tables hold 1/P, for a product is cheaper than a quotient, and A has the
$\lambda_1$ of its day in it, so that strengths may change: there is no S, the table of the pure l1 case,
for it is A where P = 1. b) They hold `budget` steps. Then, or before P underflows or A outgrows the
weights, all weights are brought current and the tables start anew (the paper's footnote 1). c) Where
all steps since then were alike, what is pending depends on their number alone: n steps take
$|w| \to [f_n|w| - g_n]_+$. Of these there are two tables, of 0 to 4,095 steps and of whole 4,096s: what is
pending is the whole ones', then the others'. They hold 2^20 steps in 70 kB, near the processor at any dimension
(the paper's O(1) space; powers of a in closed form would cost more than all the rest). Nothing underflows
and nothing cancels there. A weight that is zero stays zero, in floats too: f never rises, g never falls, and rounding
is at most a billionth of what a step takes. d) A step with $\eta\lambda_2 \ge 1$, which the paper leaves out, makes every weight 0.

Cost of a step: the non-zeros of the row, and a `budget`-th of all slots (2^20th, if steps are alike); 16 bytes a
slot and up to 16 a step of the budget.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.jit import (
    LANES,
    bits_of,
    eight_at,
    eight_from,
    eight_in,
    eight_of,
    inlined,
    masked,
    minus,
    pairs_in,
    places_of,
    plus,
    prefetch,
    put_eight,
    put_pairs,
    shifted,
    times,
    total,
    words_of,
)
from streaml1.rows import ensure
from streaml1.rules import rebase
from streaml1.rules.parts.shrinkage import beyond
from streaml1.rules.parts.slots import grown, moved, records

__all__ = ["BUDGET_MOST", "EQUAL_MOST", "ElasticNetStamps"]

# psi is 0 where no example has touched the slot; time starts at 1.
SLOT = np.dtype([("w", "f8"), ("psi", "u8")], align=True)
# 1/P and A of the time t, at t; or, of equal steps, f and g of n wholes at n, of n at WHOLES + n.
STEP = np.dtype([("f", "f8"), ("g", "f8")], align=True)
CLOCK = np.dtype(
    [
        ("now", "u8"),
        ("P", "f8"),
        ("A", "f8"),
        ("A_low", "f8"),  # what the rounding of A has lost (Kahan)
        ("a", "f8"),  # of the last step
        ("b", "f8"),
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
WHOLES = (EQUAL_MOST >> WHOLE_BITS) + START
EQUAL_ROOM = WHOLES + WHOLE
SIZE_LEAST = 1e-290  # of what a whole leaves: no product of a float that has lost bits
BUDGET_MOST = 2**30
ROOM_LEAST = 256
# With |v| < 1e150 (see rows.LIMIT), |v| / P stays finite.
WEIGHT_MOST = 1e150
P_LEAST = 1e-150
# A difference of two A is known to eps * A * P: 64 keeps that at 1e-14. Where a single step shrinks
# by much, hundreds of steps go by between two passes over all slots all the same.
SHRINKAGE_MOST = 64.0
STEPS_LEAST = 256.0
AHEAD = np.uint64(128)  # non-zeros ahead of the current one that slots are asked for

LANE = np.uint64(LANES)
F, G = np.uint64(0), np.uint64(8)  # bytes into an entry of the table
FEW = WHOLES * np.uint64(16)  # and to those of fewer than a whole


@inlined
def _eight_left(table: Any, w: Any, psi: Any, even: Any, now: Any, A: float) -> Any:
    """As `_left`, of eight slots."""
    if even:
        n = minus(words_of(now), psi)
        wholes = places_of(table, shifted(n, words_of(WHOLE_BITS)))
        few = places_of(table, masked(n, words_of(WHOLE - START)))
        w = beyond(times(eight_from(wholes, F), w), eight_from(wholes, G))
        return beyond(times(eight_from(few, FEW + F), w), eight_from(few, FEW + G))
    steps = places_of(table, psi)
    return beyond(times(eight_from(steps, F), w), minus(eight_of(A), eight_from(steps, G)))


@inlined
def _left(table: Any, w: float, psi: Any, even: Any, now: Any, A: float) -> float:
    """The weight of a slot as of now, over P."""
    if even:
        n = now - psi
        wholes, few = table[n >> WHOLE_BITS], table[WHOLES + (n & (WHOLE - START))]
        return beyond(few.f * beyond(wholes.f * w, wholes.g), few.g)
    return beyond(table[psi].f * w, A - table[psi].g)


@inlined
def _current(rule: Any, one: Any) -> float:
    """Weight of a slot as of now."""
    c = rule.clock[0]
    w: float = _left(rule.table, one.w, one.psi, c.even, c.now, c.A) * c.P
    return w


@inlined
def _enter_equal(table: Any, n: Any, a: float, b: float) -> None:
    """Enter what n equal steps do, given what fewer do: f never rises and g never falls."""
    most = min(n, WHOLE) - START  # the most that are no whole
    before = table[WHOLES + most]
    f, g = a * before.f, max(before.g, a * before.g + b)
    if n < WHOLE:
        table[WHOLES + n].f = f
        table[WHOLES + n].g = g
    elif n & (WHOLE - START) == np.uint64(0):
        whole = n >> WHOLE_BITS
        before = table[whole - START]
        table[whole].f = f * before.f
        table[whole].g = max(before.g, f * before.g + g, SIZE_LEAST)


@inlined
def _start_anew(rule: Any) -> None:
    """Let time be 1, and the tables without a step."""
    c = rule.clock[0]
    c.now = START
    c.P = 1.0
    c.A = 0.0
    c.A_low = 0.0
    for k in (np.uint64(0), START, WHOLES):  # the time 1; no equal steps
        rule.table[k].f = 1.0
        rule.table[k].g = 0.0


class ElasticNetStamps(NamedTuple):
    """State of the elastic net with stamps: w and psi (d,), the tables and the ledger."""

    slots: Annotated[Any, SLOT]
    table: Annotated[Any, STEP]
    scratch: Annotated[Any, np.float64]  # weights of the row in hand
    clock: Annotated[Any, CLOCK]

    def gather(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        c = self.clock[0]
        even, now, A = c.even, c.now, c.A
        kept = hi - lo <= np.uint64(len(self.scratch))  # learning has had room made, predicting not
        scratch = np.uint64(self.scratch.ctypes.data)
        ahead = AHEAD if hi + AHEAD <= np.uint64(len(ids)) else np.uint64(0)
        odd = hi - (hi - lo) % LANE
        sums = eight_of(0.0)
        for k in range(lo, odd, LANE):
            for j in range(k + ahead, k + ahead + LANE):
                prefetch(self.slots, np.uint64(ids[j]))
            w, psi = pairs_in(self.slots, ids, k)
            w = _eight_left(self.table, w, bits_of(psi), even, now, A)
            if kept:
                put_eight(scratch + np.uint64(8) * (k - lo), w)
            sums = plus(sums, times(w, eight_in(values, k)))
        a = total(sums)
        for k in range(odd, hi):
            one = self.slots[ids[k]]
            w = _left(self.table, one.w, one.psi, even, now, A)
            if kept:
                self.scratch[k - lo] = w
            a += w * values[k]
        return a * c.P

    def scatter(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # The row was gathered just before: what its weights were is at hand.
        c = self.clock[0]
        now, P = c.now, c.P
        nows, Ps, steps = words_of(now), eight_of(P), eight_of(step)
        scratch = np.uint64(self.scratch.ctypes.data)
        odd = hi - (hi - lo) % LANE
        for k in range(lo, odd, LANE):
            w = times(eight_at(scratch + np.uint64(8) * (k - lo)), Ps)
            put_pairs(self.slots, ids, k, minus(w, times(steps, eight_in(values, k))), nows)
        for k in range(odd, hi):
            one = self.slots[ids[k]]
            one.w = self.scratch[k - lo] * P - step * values[k]
            one.psi = now

    def tick(self, eta: float) -> None:
        c = self.clock[0]
        if c.sgd:
            a = max(1.0 - eta * c.l2, 0.0)
            b = eta * c.l1
        else:
            a = 1.0 / (1.0 + eta * c.l2)
            b = eta * c.l1 * a
        alike = a == c.a and b == c.b
        c.a = a
        c.b = b
        if c.even and not alike and c.now != START:
            rebase(self)
            c.even = 0
        c.now += START
        if c.even:
            n = c.now - START
            _enter_equal(self.table, n, a, b)
            if n >= min(c.budget, EQUAL_MOST):
                rebase(self)
            return
        if a == 0.0:
            c.A = math.inf
        else:
            c.P *= a
            grown = b / c.P - c.A_low
            A = c.A + grown
            c.A_low = (A - c.A) - grown
            c.A = A
            self.table[c.now].f = 1.0 / c.P
            self.table[c.now].g = A
        if (
            c.P < P_LEAST
            or max(SHRINKAGE_MOST, STEPS_LEAST * eta * c.l1) < c.A * c.P
            or c.now - START >= c.budget
        ):
            rebase(self)
            c.even = alike

    def rebase(self) -> None:
        for j in range(np.uint64(len(self.slots))):
            one = self.slots[j]
            one.w = _current(self, one)
            one.psi = min(one.psi, START)
        _start_anew(self)

    def room(self, nnz: Any) -> bool:
        c = self.clock[0]
        steps, entries = np.uint64(len(self.table)), np.uint64(len(self.scratch))
        last = WHOLES + min(c.now, WHOLE - START) if c.even else c.now + START
        return last < steps and nnz <= entries

    def weight(self, j: Any) -> float:
        return _current(self, self.slots[j])

    def weights(self) -> Any:
        return np.copysign(self._left() * self.clock[0].P, self.slots["w"])

    def _left(self) -> Any:
        """The sizes of all weights over P."""
        c, psi = self.clock[0], self.slots["psi"]
        size = np.abs(self.slots["w"])
        if not c.even:
            steps = self.table[psi]
            return np.maximum(steps["f"] * size - (c.A - steps["g"]), 0.0)
        n = np.where(psi == 0, 0, c.now - psi)
        for steps in (self.table[n >> WHOLE_BITS], self.table[WHOLES + (n & (WHOLE - START))]):
            size = np.maximum(steps["f"] * size - steps["g"], 0.0)
        return size

    def touched(self) -> Any:
        return self.slots["psi"] != 0

    def holding(self) -> Any:
        return self._left() > 0.0

    def drop(self, slots: Any) -> None:
        self.slots["w"][slots] = 0.0
        self.slots["psi"][slots] = self.clock[0].now

    def make_room(self, nnz: int) -> ElasticNetStamps:
        rule, c = self, self.clock[0]
        if not self.room(0):
            most = EQUAL_ROOM if c.even else max(c.budget, c.now, WHOLES) + 2
            table = records(min(2 * len(self.table), int(most)), STEP)
            table[: len(self.table)] = self.table
            rule = rule._replace(table=table)
        if nnz > len(self.scratch):
            rule = rule._replace(scratch=np.zeros(max(nnz, 2 * len(self.scratch))))
        return rule

    @property
    def size(self) -> int:
        return len(self.slots)

    def grow(self, d: int) -> ElasticNetStamps:
        return self._replace(slots=grown(self.slots, d))

    def renumber(self, new_slots: Any, d: int) -> ElasticNetStamps:
        return self._replace(slots=moved(self.slots, new_slots, d))

    def dump(self) -> tuple[Any, dict[str, Any]]:
        # Of the table what a stamp points at; what equal steps do follows from the ledger.
        slots = np.flatnonzero(self.holding())
        held = self.slots[slots]
        steps = records(len(slots), STEP)
        if not self.clock[0].even:
            steps[:] = self.table[held["psi"]]
        arrays = {name: held[name].copy() for name in ("w", "psi")}
        arrays |= {name: steps[name].copy() for name in ("f", "g")}
        return slots, {**arrays, "clock": self.clock.copy()}

    @staticmethod
    def restore(d: int, slots: Any, arrays: dict[str, Any]) -> ElasticNetStamps:
        ensure(set(arrays) == {"w", "psi", "f", "g", "clock"}, "other arrays")
        for name, kind in (("w", "f8"), ("psi", "u8"), ("f", "f8"), ("g", "f8")):
            ensure(arrays[name].dtype == kind and arrays[name].shape == slots.shape, f"not {name}")
        ensure(arrays["clock"].dtype == CLOCK and arrays["clock"].shape == (1,), "not a ledger")
        rule = ElasticNetStamps.start(d, 0.0, 0.0, sgd=False, budget=1)
        rule.clock[:] = arrays["clock"]
        c = rule.clock[0]
        ensure(START <= c.now <= c.budget <= BUDGET_MOST, f"now is {c.now}, out of range")
        ensure(np.all(arrays["psi"] <= c.now), "a stamp lies in the future")
        rule.slots["w"][slots] = arrays["w"]
        rule.slots["psi"][slots] = arrays["psi"]
        ensure(not c.even or c.now <= EQUAL_MOST, "too many equal steps")
        table = records(int(EQUAL_ROOM if c.even else max(len(rule.table), c.now + 2)), STEP)
        table[: len(rule.table)] = rule.table
        if c.even:
            whole, now = int(WHOLE), int(c.now)
            for n in (*range(1, min(now, whole)), *range(whole, now, whole)):
                _enter_equal(table, np.uint64(n), c.a, c.b)
        else:
            table["f"][arrays["psi"]] = arrays["f"]
            table["g"][arrays["psi"]] = arrays["g"]
            table[int(c.now)] = (1.0 / c.P, c.A)
        return rule._replace(table=table)

    def check(self) -> None:
        for name, dtype in (("slots", SLOT), ("table", STEP), ("clock", CLOCK)):
            array = getattr(self, name)
            ensure(array.dtype == dtype and array.ndim == 1, f"{name} is no row of records")
        c, psi = self.clock[0], self.slots["psi"]
        last = WHOLES + min(c.now, WHOLE) - START if c.even else c.now
        ensure(c.now >= START and last < len(self.table), "more steps than the table holds")
        ensure(np.all(psi <= c.now), "a stamp lies in the future")
        ensure(np.all(self.slots["w"][psi == 0] == 0.0), "untouched but not zero")
        ensure(np.all(np.abs(self.slots["w"]) < WEIGHT_MOST), "a weight is out of range")
        ensure(P_LEAST <= c.P <= 1.0, f"P is {c.P}, out of range")
        ensure(c.A >= 0.0 and c.A * c.P < WEIGHT_MOST, f"A is {c.A}, out of range")
        ensure(abs(c.A_low) <= c.A, f"A_low is {c.A_low}, out of range")
        ensure(0.0 <= c.a <= 1.0 and 0.0 <= c.b < WEIGHT_MOST, "a or b is out of range")
        ensure(0.0 <= c.l1 < math.inf and 0.0 <= c.l2 < math.inf, "l1 or l2 is out of range")
        ensure(c.sgd in (0, 1) and c.even in (0, 1), "sgd or even is no flag")
        ensure(1 <= c.budget <= BUDGET_MOST, "the budget is out of range")
        if c.even:
            ensure(c.now <= EQUAL_MOST and c.P == 1.0 and c.A == 0.0, "more than equal steps")
            n = c.now - psi[psi > 0]
            steps = self.table[np.concatenate([n >> WHOLE_BITS, WHOLES + (n & (WHOLE - START))])]
            ensure(np.all((steps["f"] >= 0.0) & (steps["f"] <= 1.0)), "f is out of range")
            ensure(np.all(steps["g"] >= 0.0), "g is out of range")
        else:
            steps = self.table[psi[psi > 0]]
            ensure(np.all((steps["f"] >= 1.0) & (steps["f"] <= 1.0 / P_LEAST)), "P is wrong")
            ensure(np.all((steps["g"] >= 0.0) & (steps["g"] <= c.A)), "A is wrong")

    @staticmethod
    def start(d: int, l1: float, l2: float, sgd: bool, budget: int) -> ElasticNetStamps:
        """`d` zero weights."""
        clock = records(1, CLOCK)
        clock[0] = (START, 1.0, 0.0, 0.0, 0.0, 0.0, True, l1, l2, sgd, budget)
        table, scratch = records(int(WHOLES + ROOM_LEAST), STEP), np.zeros(ROOM_LEAST)
        rule = ElasticNetStamps(records(d, SLOT), table, scratch, clock)
        _start_anew(rule)
        return rule
