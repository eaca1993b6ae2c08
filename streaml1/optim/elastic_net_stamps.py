r"""Lazy elastic net with explicit time stamps: Algorithm 1 of the paper, made exact and bounded.

Lipton & Elkan (2015), *Efficient elastic net regularization for sparse linear models*. Stored for each
slot are the weight as an example last left it, and $\psi_j$, the time of that touch. Every step is
$|w| \to [a_\tau|w| - b_\tau]_+$, with

- FoBoS (Eq. 2): $a = 1/(1 + \eta\lambda_2)$, $b = \eta\lambda_1 a$
- SGD (Eq. 3): $a = [1 - \eta\lambda_2]_+$, $b = \eta\lambda_1$

So the current weight at time $k$ follows from tables of $P(t) = \prod_{\tau<t} a_\tau$ and
$B(t) = \frac1{\lambda_1}\sum_{\tau<t} b_\tau / P(\tau + 1)$ (Theorem 1: $P$ and $B$; Theorem 2: $\Phi$ and $\beta$):
$$w_j = \mathrm{sgn}(w_j)\,P(k)\,\bigl[\,|w_j|/P(\psi_j) - \lambda_1(B(k) - B(\psi_j))\bigr]_+$$

**Theorem 1 (SGD) is printed with two errors.** It omits $\lambda_1$, which the last line of its proof has. And
$B(t) = \sum \eta(\tau)/P(\tau - 1)$ should be $\sum \eta(\tau)/P(\tau)$, in the paper's indices: the l1 part of step $\tau$
is not shrunk by step $\tau$ itself. From $w = 1$, with $\eta = 0.5/\sqrt{t + 1}$, $\lambda_1 = 0.01$, $\lambda_2 = 0.1$, 50
steps of Eq. 3 end at 0.478086. The theorem gives 0 as printed, 0.478839 with $\lambda_1$ restored, and 0.478086
with both corrected. Theorem 2 (FoBoS) is correct: 0.484628 both ways.

Differences from the paper:

a) B is the only table: by both equations $1/P(t) = 1 + \lambda_2 B(t)$. Where $\lambda_2 = 0$, B is S, the paper's
   table of the pure l1 case. B depends on $\lambda_1$ and $\lambda_2$: when they change, all weights are brought
   current.
b) The table holds `budget` steps. When it is full, and before P underflows or B outgrows the weights, all
   weights are brought current and time restarts (the paper's footnote 1).
c) Where all steps since the restart were equal, n steps after B are $B + B(n)/P$. So B of 0 to 4,095 steps and
   of each multiple of 4,096 cover 2^20 steps. A constant rate takes 35 kB, which stays in the cache at any
   dimension. This is the paper's O(1) space; powers in closed form would cost more than everything else.
d) A step with $\eta\lambda_2 \ge 1$, which the paper excludes, sets every weight to 0.

A zero weight stays exactly zero, because the weight over P falls by what B grows, and B never falls.

Cost of a step: O(non-zeros of the row), and 1/`budget` of all slots (1/2^20 if the steps are equal). Memory: 16
bytes per slot, and up to 8 per step of the budget.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import LANES, inlined, u64
from streaml1.core.prefetch import prefetch_distance, prefetch_rows
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
from streaml1.core.types import Bools, Floats, Ints, Records
from streaml1.optim.rule_state import (
    LOW,
    Ledger,
    PerSlot,
    RuleState,
    Scratch,
    ensure_array,
    ensure_keys,
    new_state,
)
from streaml1.optim.structures.joined_weights import joined_elastic_nets
from streaml1.optim.structures.slot_arrays import grown, scratch_for
from streaml1.optim.structures.soft_threshold import soft_threshold
from streaml1.optim.update_rule import renormalize

__all__ = ["MAX_BUDGET", "MAX_EQUAL_STEPS", "ElasticNetStamps"]

# psi is 0 until an example touches the slot; time starts at 1.
SLOT = np.dtype([("w", "f8"), ("psi", "u8")], align=True)
CLOCK = np.dtype(
    [
        ("now", "u8"),
        ("P", "f8"),
        ("B", "f8"),
        ("B_low", "f8"),  # Kahan compensation: by how much B is too large
        ("B_l1", "f8"),  # the strengths that B was computed with
        ("B_l2", "f8"),
        ("eta", "f8"),  # of the last step
        ("a", "f8"),  # of the last step if SGD; 1 if FoBoS
        ("even", "i8"),  # whether all steps since the restart were equal
        ("l1", "f8"),
        ("l2", "f8"),
        ("sgd", "i8"),
        ("budget", "u8"),
    ],
    align=True,
)

START = u64(1)
# Equal steps are split into blocks of 4,096: n steps are n >> 12 blocks and n & 4095 single steps.
BLOCK_BITS = u64(12)
BLOCK = START << BLOCK_BITS
MAX_EQUAL_STEPS = START << u64(20)
N_BLOCKS = int(MAX_EQUAL_STEPS >> BLOCK_BITS) + 2
MAX_BUDGET = 2**30
# With |v| < 1e150 (see core.rows.VALUE_LIMIT), |v| / P stays finite.
MAX_WEIGHT = 1e150
MIN_P = 1e-150
# l1 times a difference of two B is known to an absolute error of eps * l1 * B * P. A limit of 64
# keeps that at 1e-14. Where one step shrinks by much, MIN_STEPS keeps hundreds of steps between two
# passes.
MAX_SHRINKAGE = 64.0
MIN_STEPS = 256.0
LANE = u64(LANES)
NO_OFFSET = u64(0)


@inlined
def _weights_f64x8(rule: Any, w: Any, psi: Any, even: Any, ledger: Any) -> Any:
    """Return `_weight_over_P` of eight slots."""
    last, l1, l2 = ledger
    if even:
        t = add(psi, splat_u64(BLOCK - START))
        block = gather_at(
            addresses_of(rule.blocks, shift_right(t, splat_u64(BLOCK_BITS))), NO_OFFSET
        )
        single = gather_at(addresses_of(rule.sums, bit_and(t, splat_u64(BLOCK - START))), NO_OFFSET)
        B = add(block, mul(add(splat(1.0), mul(splat(l2), block)), single))
    else:
        B = gather_at(addresses_of(rule.sums, psi), NO_OFFSET)
    f = add(splat(1.0), mul(splat(l2), B))
    g = mul(splat(l1), sub(splat(last), B))
    return soft_threshold(mul(f, w), lane_max(g, splat(0.0)))


@inlined
def _sum_eights(rule: Any, ids: Any, values: Any, lo: Any, end: Any, even: Any, fits: Any) -> Any:
    """Return the sums of weight over P times value, eight at a time, of a row from `lo`.

    If the scratch array `fits` the row, the weights over P are stored there.
    """
    ledger = _ledger(rule)
    scratch = np.uint64(rule.scratch.ctypes.data)
    distance = prefetch_distance(ids, end)
    sums = splat(0.0)
    for k in range(lo, end, LANE):
        prefetch_rows(ids, values, k)
        for j in range(k + distance, k + distance + LANE):
            prefetch_early(rule.slots, np.uint64(ids[j]))
        w, psi = gather_pairs(rule.slots, ids, k)
        w = _weights_f64x8(rule, w, to_bits(psi), even, ledger)
        if fits:
            store_f64x8(scratch + u64(8) * (k - lo), w)
        sums = add(sums, mul(w, load(values, k)))
    return sums


@inlined
def _ledger(rule: Any) -> tuple[float, float, float]:
    """Return the arguments of `_weight_over_P` that all slots share: B, l1 and l2."""
    c = rule.clock[0]
    return c.B, c.B_l1, c.B_l2


@inlined
def _weight_over_P(rule: Any, w: float, psi: Any, even: Any, ledger: Any) -> float:
    """Return the current weight of a slot over P. Without a stamp w is 0, and so is the result."""
    last, l1, l2 = ledger
    B = _B_of_equal_steps(rule, psi + (BLOCK - START), l2) if even else rule.sums[psi]
    return soft_threshold((1.0 + l2 * B) * w, max(l1 * (last - B), 0.0))


@inlined
def _B_of_equal_steps(rule: Any, t: Any, l2: float) -> float:
    """Return B of t - BLOCK equal steps: that of whole blocks, then that of single steps."""
    block = rule.blocks[t >> BLOCK_BITS]
    B: float = block + (1.0 + l2 * block) * rule.sums[t & (BLOCK - START)]
    return B


@inlined
def _add_step(rule: Any, eta: float, a: float) -> None:
    """Add a step to B and P. B is a Kahan sum."""
    c = rule.clock[0]
    increase = eta * (1.0 + c.B_l2 * c.B) / a - c.B_low
    B = c.B + increase
    c.B_low = (B - c.B) - increase
    c.B = B
    c.P = 1.0 / (1.0 + c.B_l2 * B)


@inlined
def _add_equal_step(rule: Any, n: Any, eta: float, a: float) -> None:
    """Compute B of n equal steps, given that of fewer."""
    c = rule.clock[0]
    if n <= BLOCK:
        _add_step(rule, eta, a)
        rule.sums[n] = c.B
    if n & (BLOCK - START) == u64(0):
        block = rule.blocks[n >> BLOCK_BITS]
        rule.blocks[(n >> BLOCK_BITS) + START] = block + (1.0 + c.B_l2 * block) * rule.sums[BLOCK]
    if n > BLOCK:
        c.B = _B_of_equal_steps(rule, n + BLOCK, c.B_l2)
        c.P = 1.0 / (1.0 + c.B_l2 * c.B)


@inlined
def _restart(rule: Any) -> None:
    """Set the time to 1, with tables of no steps."""
    c = rule.clock[0]
    c.now = START
    c.P = 1.0
    c.B = 0.0
    c.B_low = 0.0
    for k in range(2):
        rule.sums[k] = 0.0
        rule.blocks[k] = 0.0


@inlined
def _set_all_to_zero(rule: Any) -> None:
    """Set all weights to 0."""
    for j in range(np.uint64(len(rule.slots))):
        rule.slots[j].w = 0.0
    renormalize(rule)


class ElasticNetStampsState(NamedTuple):
    """w and psi of each slot, the tables, weights of the current row over P, and the ledger.

    `sums[t]` is B of the time t. If the steps are equal, `sums[n]` is B of n steps and
    `blocks[n + 1]` that of n blocks. The time 0 is read too, for slots without a stamp: so `sums`
    has at least a block of elements.
    """

    slots: Annotated[Records, PerSlot(SLOT, seen="psi")]
    sums: Annotated[Floats, Scratch(np.float64, int(BLOCK) + 1)]
    blocks: Annotated[Floats, Scratch(np.float64, N_BLOCKS)]
    scratch: Annotated[Floats, Scratch(np.float64)]
    clock: Annotated[Records, Ledger(CLOCK)]


class ElasticNetStamps(RuleState, ElasticNetStampsState):
    """The lazy elastic net with explicit time stamps."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        c, ledger = self.clock[0], _ledger(self)
        fits = hi - lo <= np.uint64(len(self.scratch))  # always to learn, not always to predict
        tail = hi - (hi - lo) % LANE
        if c.even:  # one loop for each case, compiled for a constant
            sums = _sum_eights(self, ids, values, lo, tail, True, fits)
        else:
            sums = _sum_eights(self, ids, values, lo, tail, False, fits)
        a = hsum(sums)
        distance = prefetch_distance(ids, hi)
        for k in range(tail, hi):
            prefetch_early(self.slots, np.uint64(ids[k + distance]))
            slot = self.slots[ids[k]]
            w = _weight_over_P(self, slot.w, slot.psi, c.even, ledger)
            if fits:
                self.scratch[k - lo] = w
            a += w * values[k]
        return a * c.P

    def prefetch_next(self, ids: Any, values: Any, lo: Any, hi: Any) -> None:
        pass  # `margin` does

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # `margin` has left the weights of this row over P in the scratch array.
        c = self.clock[0]
        now, P = c.now, c.P
        nows, Ps, steps = splat_u64(now), splat(P), splat(step)
        scratch = np.uint64(self.scratch.ctypes.data)
        tail = hi - (hi - lo) % LANE
        for k in range(lo, tail, LANE):
            w = mul(load_f64x8(scratch + u64(8) * (k - lo)), Ps)
            scatter_pairs(self.slots, ids, k, sub(w, mul(steps, load(values, k))), nows)
        for k in range(tail, hi):
            slot = self.slots[ids[k]]
            slot.w = self.scratch[k - lo] * P - step * values[k]
            slot.psi = now

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        if c.l1 == 0.0 and c.l2 == 0.0:
            eta = 0.0  # steps without a penalty are equal at any rate
        a = max(1.0 - eta * c.l2, 0.0) if c.sgd else 1.0
        same_strengths = c.B_l1 == c.l1 and c.B_l2 == c.l2
        equal = eta == c.eta and a == c.a and same_strengths
        c.eta = eta
        c.a = a
        if c.now != START and not (equal if c.even else same_strengths):
            renormalize(self)
            c.even = 0
        c.B_l1 = c.l1
        c.B_l2 = c.l2
        if a == 0.0:
            _set_all_to_zero(self)
            return
        c.now += START
        max_steps = c.budget
        if c.even:
            _add_equal_step(self, c.now - START, eta, a)
            max_steps = min(max_steps, MAX_EQUAL_STEPS)
        else:
            _add_step(self, eta, a)
            self.sums[c.now] = c.B
        if (
            c.P < MIN_P
            or max(MAX_SHRINKAGE, MIN_STEPS * eta * c.l1) < c.l1 * c.B * c.P
            or c.now - START >= max_steps
        ):
            renormalize(self)
            c.even = c.even or equal

    def renormalize(self) -> None:
        ledger, even, P = _ledger(self), self.clock[0].even, self.clock[0].P
        for j in range(np.uint64(len(self.slots))):
            slot = self.slots[j]
            slot.w = _weight_over_P(self, slot.w, slot.psi, even, ledger) * P
            slot.psi = min(slot.psi, START)
        _restart(self)

    def has_capacity(self, nnz: Any) -> bool:
        c = self.clock[0]
        fits = c.even != 0 or c.now + START < np.uint64(len(self.sums))
        return fits and nnz <= np.uint64(len(self.scratch))

    def weight(self, j: Any) -> float:
        c, slot = self.clock[0], self.slots[j]
        w: float = _weight_over_P(self, slot.w, slot.psi, c.even, _ledger(self)) * c.P
        return w

    def weights(self) -> Floats:
        return np.copysign(self._sizes() * self.clock[0].P, self.slots["w"])

    def _sizes(self) -> Floats:
        """Return the absolute values of all weights over P."""
        c, size = self.clock[0], np.abs(self.slots["w"])
        B = self._B_at(self.slots["psi"])
        return np.maximum((1.0 + c.B_l2 * B) * size - np.maximum(c.B_l1 * (c.B - B), 0.0), 0.0)

    def _B_at(self, psi: Any) -> Any:
        """Return B at the given stamps."""
        c = self.clock[0]
        return _B_of_equal_steps(self, psi + (BLOCK - START), c.B_l2) if c.even else self.sums[psi]

    def live_mask(self) -> Bools:
        live: Bools = self._sizes() > 0.0
        return live

    def drop(self, slots: Ints) -> None:
        self.slots["w"][slots] = 0.0
        self.slots["psi"][slots] = self.clock[0].now

    def candidates(
        self, parts: Sequence[ElasticNetStamps], rates: Sequence[Iterable[Floats]]
    ) -> Iterator[tuple[str, ElasticNetStamps]]:
        """Yield the candidates of `structures.joined_weights`, as of a restart."""
        c, weights = self.clock[0], [part.weights() for part in parts]
        for name, w in joined_elastic_nets(self.weights(), weights, rates, c.l1, c.l2, c.sgd):
            rule = self.start(self.size, float(c.l1), float(c.l2), bool(c.sgd), int(c.budget))
            rule.slots["w"], rule.slots["psi"] = w, START
            yield name, rule

    def reserve(self, nnz: int) -> ElasticNetStamps:
        rule, c = self, self.clock[0]
        if not self.has_capacity(0):
            max_steps = int(max(c.budget, c.now)) + 2
            rule = rule._replace(sums=grown(self.sums, min(2 * len(self.sums), max_steps)))
        return rule._replace(scratch=scratch_for(nnz, rule.scratch))

    def state_dict(self) -> tuple[Ints, dict[str, Any]]:
        # Of `sums`, what a live stamp points at. B of equal steps follows from the ledger.
        slots, saved = super().state_dict()
        B = np.zeros(len(slots)) if self.clock[0].even else self.sums[saved["psi"]]
        clock = saved.pop("clock")
        return slots, {**saved, "B": B, "clock": clock}

    @classmethod
    def from_state_dict(cls, d: int, slots: Ints, arrays: dict[str, Any]) -> ElasticNetStamps:
        ensure_keys(arrays, ("w", "psi", "B", "clock"))
        B = arrays["B"]
        ensure_array(B, "B", np.float64, slots.shape)
        rule = super().from_state_dict(d, slots, {k: a for k, a in arrays.items() if k != "B"})
        c = rule.clock[0]
        # A budget that was lowered holds from the next step on.
        ensure(START <= c.now <= MAX_BUDGET, f"now={c.now} is out of range")
        ensure(1 <= c.budget <= MAX_BUDGET, f"budget={c.budget} is out of range")
        ensure(np.all(arrays["psi"] <= c.now), "a stamp lies in the future")
        ensure(not c.even or c.now <= MAX_EQUAL_STEPS, "too many equal steps")
        if not c.even:
            sums = np.zeros(max(len(rule.sums), int(c.now) + 2))
            sums[arrays["psi"]] = B
            sums[int(c.now)] = c.B
            return rule._replace(sums=sums)
        rule._rebuild_equal_steps()
        return rule

    def _rebuild_equal_steps(self) -> None:
        """Fill the tables for the equal steps since the restart.

        Raises
        ------
        AssertionError
            If the saved ledger is not bit-identical to that of equal steps. Saving and loading the
            model once more would then change the tables.
        """
        saved = self.clock.copy()
        _restart(self)
        c, block, now = self.clock[0], int(BLOCK), int(saved["now"][0])
        for n in (*range(1, min(now, block + 1)), *range(2 * block, now, block)):
            _add_equal_step(self, np.uint64(n), c.eta, c.a)
        B, B_low = float(self._B_at(saved["now"])[0]), float(c.B_low)
        self.clock[:] = saved
        ensure(c.B == B, f"B={c.B} should be {B}")
        ensure(c.B_low == B_low, f"B_low={c.B_low} should be {B_low}")

    def check(self) -> None:
        super().check()
        ensure(len(self.blocks) == N_BLOCKS, "blocks has a wrong length")
        c, psi = self.clock[0], self.slots["psi"]
        last = BLOCK if c.even else max(c.now, BLOCK)
        ensure(c.now >= START and last < len(self.sums), "the tables hold too few steps")
        ensure(np.all(psi <= c.now), "a stamp lies in the future")
        ensure(np.all(self.slots["w"][psi == 0] == 0.0), "a slot was not touched, but is not zero")
        ensure(np.all(np.abs(self.slots["w"]) < MAX_WEIGHT), "a weight is out of range")
        ensure(MIN_P <= c.P <= 1.0, f"P={c.P} is out of range")
        ensure(c.B >= 0.0 and c.B_l1 * c.B * c.P < MAX_WEIGHT, f"B={c.B} is out of range")
        ensure(abs(c.B_low) <= LOW * c.B, f"B_low={c.B_low} is out of range")
        ensure(1.0 / (1.0 + c.B_l2 * c.B) == c.P, "P does not match B")
        ensure(0.0 <= c.a <= 1.0 and 0.0 <= c.eta < math.inf, "eta or a is out of range")
        for name in ("l1", "l2", "B_l1", "B_l2"):
            ensure(0.0 <= c[name] < math.inf, f"{name} is out of range")
        ensure(c.sgd in (0, 1) and c.even in (0, 1), "sgd or even is not a flag")
        ensure(1 <= c.budget <= MAX_BUDGET, f"budget={c.budget} is out of range")
        ensure(not c.even or c.now <= MAX_EQUAL_STEPS, "too many equal steps")
        last_B = float(self._B_at(np.array([c.now], psi.dtype))[0])
        ensure(abs(last_B - c.B) <= LOW * c.B, f"B={c.B} should be {last_B}")
        B = self._B_at(psi[psi > 0])
        ensure(np.all((B >= 0.0) & (B <= c.B)), "B is out of range at a stamp")

    @staticmethod
    def start(d: int, l1: float, l2: float, sgd: bool, budget: int) -> ElasticNetStamps:
        """Return a rule with `d` zero weights; the table holds `budget` steps."""
        rule = new_state(ElasticNetStamps, d)
        rule.clock[0] = (START, 1.0, 0.0, 0.0, l1, l2, 0.0, 1.0, True, l1, l2, sgd, budget)
        _restart(rule)
        return rule
