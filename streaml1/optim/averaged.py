r"""Averaged iterates: a rule that predicts with the mean of the weights of another, the plain rule.

The steps are those of the plain rule at its weights $w_s$, bit-identical to steps without averaging.
Predictions and reported weights come from $\bar w_t = \frac{1}{t} \sum_{s=1}^{t} w_s$. Regret bounds for
the $w_s$ hold for $\bar w_t$ by convexity.

The sums are kept lazily. Between two touches a weight moves by scalars that all weights share, so its
sum over those steps follows from running sums of the scalars. Write $X_j$ for what the stored form of
weight j makes of the running sums, its *contribution*. The array `sums` holds
$c_j = \sum_s w_{s,j} - X_j$ as of the last touch. Then the sum is $c_j + X_j$ at any time, and $c_j$ needs
no time stamp.

Invariant: $c_j + X_j$ is the sum of weight j over all steps so far, for every slot.

X grows with the running sums, and so does the rounding error of the difference. Where the last value
of a scalar is far below the mean of its running sum, `settle` stores all sums and the running sums
restart (a pass over all slots).

An averaged rule is a subclass of `Averaged`, or of `AveragedL1` if a penalty can end a weight between
two touches, and of a named tuple with the fields of the plain rule and the fields that its base class
lists. It defines the hooks below, in the symbols of the plain rule; nothing else differs.

| hook | meaning |
|---|---|
| `plain(rule)` | the plain rule; its arrays are those of `rule` |
| `total(rule, j)` | sum of weight j over all steps so far: $c_j + X_j$ |
| `rule.totals()` | the same for all slots, the same floats (Python) |
| `is_stale(rule)` | whether `renormalize` must precede the next penalty |
| `take_step(rule, eta)` | advance the ledger of the plain rule; whether `renormalize` must follow |
| `prefetch_slot(rule, j)` | prefetch the stored form of a slot |
| `contribution(rule, j, ...)` | see `AveragedL1` |
| `bury(rule, j, S)` | store that a weight is dead, and that its sum is S |
| `scalars(rule)` | A and P after the last step |
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import generic, inlined, u64
from streaml1.core.prefetch import prefetch_distance
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early
from streaml1.core.types import Bools, Floats, Ints, Records
from streaml1.optim import losses
from streaml1.optim.rule_state import MAX_STEPS, RuleState, slot_fields
from streaml1.optim.structures import alive_intervals
from streaml1.optim.structures.running_averages import (
    MAX_SUM,
    mean_margin,
    mean_of,
    means_of,
    row_sums_for,
)
from streaml1.optim.update_rule import (
    apply_gradient,
    has_capacity,
    margin,
    output_and_gradient,
    renormalize,
    weight,
)

__all__ = ["Averaged", "AveragedL1"]


@generic
def plain(rule: Any) -> Any:
    """Return the rule whose weights are averaged; its arrays are those of `rule`."""
    return rule.plain()


@generic
def total(rule: Any, j: Any) -> float:
    """Return the sum of a weight over all steps so far."""
    S: float = rule.total(j)
    return S


@generic
def is_stale(rule: Any) -> bool:
    """Return whether `renormalize` must precede the next penalty."""
    return bool(rule.is_stale())


@generic
def take_step(rule: Any, eta: float) -> bool:
    """Advance the ledger of the plain rule; return whether `renormalize` must follow."""
    return bool(rule.take_step(eta))


@generic
def prefetch_slot(rule: Any, j: Any) -> None:
    """Prefetch the stored form of a slot."""
    rule.prefetch_slot(j)


@generic
def contribution(rule: Any, j: Any, P_sum: float, PA_sum: float) -> tuple[float, float, float]:
    """Return (X, size, a) of a slot; see `AveragedL1`."""
    X, size, a = rule.contribution(j, P_sum, PA_sum)
    return X, size, a


@generic
def bury(rule: Any, j: Any, S: float) -> None:
    """Store that a weight is dead, and that its sum is S."""
    rule.bury(j, S)


@generic
def scalars(rule: Any) -> tuple[float, float]:
    """Return A and P after the last step."""
    A, P = rule.scalars()
    return A, P


# What differs between `Averaged` and `AveragedL1`.


@generic
def sum_row(rule: Any, ids: Any, values: Any, lo: Any, hi: Any) -> float:
    """Store the sums of the weights of a row in `row_sums`; return the sum of its margins."""
    S: float = rule.sum_row(ids, values, lo, hi)
    return S


@generic
def store_row(rule: Any, ids: Any, lo: Any, hi: Any) -> None:
    """Write the c_j of a row after its gradient step, from `row_sums`."""
    rule.store_row(ids, lo, hi)


@generic
def extend_sums(rule: Any) -> None:
    """Count a step, and add its scalars to the running sums."""
    rule.extend_sums()


@generic
def is_due(rule: Any) -> bool:
    """Return whether the sums must be settled, before rounding shows or memory runs out."""
    return bool(rule.is_due())


@generic
def restart_sums(rule: Any) -> None:
    """Reset the running sums to 0; all sums have been settled."""
    rule.restart_sums()


@inlined
def settle(rule: Any) -> None:
    """Store the sum of each weight in `sums`, before the running sums restart."""
    for j in range(np.uint64(len(rule.sums))):
        rule.sums[j] = total(rule, j)


class Averaged(RuleState):
    """A rule that predicts with the running mean of the weights of a plain rule.

    Fields: those of the plain rule; `sums`, the c_j; `row_sums`, of the current row first the sum
    of its margins over all steps, then the sums of its weights; and `mean`, one record that begins
    with the fields of `running_averages.MEAN`.
    """

    __slots__ = ()

    def margin(self: Any, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        self.row_sums[0] = sum_row(self, ids, values, lo, hi)
        return margin(plain(self), ids, values, lo, hi)

    def output_and_gradient(
        self: Any, online: Any, a: float, y: float, w: float, out: Any
    ) -> tuple[float, float]:
        # The report is made of the mean, the gradient of the weights.
        o = online[0]
        mean = mean_margin(self.mean, online, self.row_sums[0]) + o.offset
        _, g = output_and_gradient(plain(self), online, a, y, w, out)
        self.mean[0].b_sum += o.b
        return losses.output(o.loss, mean, o.loss_parameter), g

    def predict(self: Any, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
        S = 0.0
        for k in range(lo, hi):
            S += total(self, ids[k]) * values[k]
        o = online[0]
        a = losses.full_stream_margin(o.loss, mean_margin(self.mean, online, S), o.loss_parameter)
        return losses.response(o.loss, a) if out else a

    def prefetch_next(self: Any, ids: Any, values: Any, lo: Any, hi: Any) -> None:
        pass  # `margin` of the plain rule does

    def apply_gradient(self: Any, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        apply_gradient(plain(self), ids, values, lo, hi, step)
        store_row(self, ids, lo, hi)

    def apply_penalty(self: Any, eta: float) -> None:
        if is_stale(self):
            renormalize(self)
        due = take_step(self, eta)
        extend_sums(self)
        if due:
            renormalize(self)
        elif is_due(self):
            settle(self)
            restart_sums(self)

    def renormalize(self: Any) -> None:
        settle(self)
        renormalize(plain(self))
        restart_sums(self)

    def weight(self: Any, j: Any) -> float:
        return mean_of(total(self, j), weight(plain(self), j), self.mean[0].t)

    def has_capacity(self: Any, nnz: Any) -> bool:
        return nnz < np.uint64(len(self.row_sums)) and has_capacity(plain(self), nnz)

    # Python.

    def plain(self: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define plain")

    def totals(self: Any) -> Floats:
        raise NotImplementedError(f"{type(self).__name__} must define totals")

    def weights(self: Any) -> Floats:
        return means_of(self.totals(), self.plain().weights(), int(self.mean[0].t))

    def intercept(self: Any, online: Records) -> float:
        m = self.mean[0]
        return float(m.b_sum / m.t if m.t else online[0].b)

    def without_intercept(self: Any) -> Any:
        mean = self.mean.copy()
        mean[0].b_sum = 0.0
        return self._with(mean=mean)

    def live_mask(self: Any) -> Bools:
        # A dead weight has a sum, which later means depend on.
        live: Bools = self.plain().live_mask() | (self.totals() != 0.0)
        return live

    def reserve(self: Any, nnz: int) -> Any:
        roomy = self.plain().reserve(nnz)
        return self._with(**roomy._asdict(), row_sums=row_sums_for(nnz, self.row_sums))

    def state_dict(self: Any) -> tuple[Ints, dict[str, Any]]:
        slots, saved = super().state_dict()
        dead = ~self.plain().live_mask()[slots]
        for name, field in slot_fields(type(self)):
            for key, value in field.dropped_values(name).items():
                saved[key][dead] = value
        saved["sums"][dead] = self.totals()[slots][dead]
        return slots, saved

    def check(self: Any) -> None:
        super().check()
        self.plain().check()
        m = self.mean[0]
        ensure(0 <= m.t < MAX_STEPS, f"t={m.t} is out of range")
        ensure(abs(m.b_sum) <= MAX_SUM, f"the sum of the intercepts, {m.b_sum}, is out of range")
        ensure(np.all(np.isfinite(self.sums)), "a sum is not finite")
        ensure(np.all(np.abs(self.totals()) < MAX_SUM), "a sum is out of range")
        ensure(np.all(self.sums[~self.seen_mask()] == 0.0), "a slot was not touched, but has a sum")


class AveragedL1(Averaged):
    r"""An averaged rule whose penalty can end a weight between two touches.

    Between two touches such a weight moves as $w_s = \mathrm{sgn}\,P_s\,[m - A_s]_+$ with scalars P
    and A that all weights share, and A never falls. The stored form of a weight is (size, a) with
    $m = size + a$: it is alive while size > A - a, and its contribution is $X = \mathrm{sgn}\,(m
    \sum P_s - \sum P_s A_s)$ as long as it lives. The hook `contribution(rule, j, P_sum, PA_sum)`
    returns (X, size, a), where the sums are those of all steps so far; a is infinite where the
    penalty does not act on the weight.

    In addition to the fields of `Averaged`: `row_slots`, the slots of the current row;
    `prefix_sums`, `grid` and `spec`, by which the contribution of a dead weight is found (see
    `structures/alive_intervals.py`).
    """

    __slots__ = ()

    def sum_row(self: Any, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        # Weights that have died since the last touch are looked up in a second loop, so that the
        # first has no branch that waits for memory.
        A, first, m = scalars(self)[0], self.prefix_sums[0].A, self.mean[0]
        P_sum, PA_sum = m.P_sum, m.PA_sum
        distance = prefetch_distance(ids, hi)
        n_dead = u64(0)
        for k in range(lo, hi):
            prefetch_slot(self, np.uint64(ids[k + distance]))
            prefetch_early(self.sums, np.uint64(ids[k + distance]))
            X, size, a = contribution(self, ids[k], P_sum, PA_sum)
            alive = size > A - a
            self.row_sums[k - lo + u64(1)] = self.sums[ids[k]] + (X if alive else 0.0)
            self.row_slots[n_dead] = k - lo
            n_dead += np.uint64((size > first - a) & (size <= A - a))
        for i in range(n_dead):
            pos = np.uint64(self.row_slots[i])
            self.row_sums[pos + u64(1)] = total(self, ids[lo + pos])
        S = 0.0
        for k in range(lo, hi):
            S += self.row_sums[k - lo + u64(1)] * values[k]
        return S

    def store_row(self: Any, ids: Any, lo: Any, hi: Any) -> None:
        A, m = scalars(self)[0], self.mean[0]
        P_sum, PA_sum = m.P_sum, m.PA_sum
        smallest = math.inf
        for k in range(lo, hi):
            S = self.row_sums[k - lo + u64(1)]
            X, size, a = contribution(self, ids[k], P_sum, PA_sum)
            smallest = min(smallest, size + a)
            if size > A - a:
                self.sums[ids[k]] = S - X
            else:
                bury(self, ids[k], S)
        # For `extend_sums`: which of these weights the penalty of this same step ends.
        self.row_sums[0] = smallest
        self.row_slots[0] = hi - lo
        for k in range(lo, hi):
            self.row_slots[k - lo + u64(1)] = ids[k]

    def extend_sums(self: Any) -> None:
        A, P = scalars(self)
        alive_intervals.extend(self, A, P)
        if self.row_sums[0] * (1.0 - 1e-15) > A:  # the factor covers the rounding of size + a
            return
        for k in range(u64(1), np.uint64(self.row_slots[0]) + u64(1)):
            j = self.row_slots[k]
            _, size, a = contribution(self, j, 0.0, 0.0)
            if size <= A - a:
                bury(self, j, self.row_sums[k])

    def is_due(self: Any) -> bool:
        return alive_intervals.is_full(self, scalars(self)[1])

    def restart_sums(self: Any) -> None:
        alive_intervals.restart(self, scalars(self)[0])

    def has_capacity(self: Any, nnz: Any) -> bool:
        return alive_intervals.has_room(self, nnz) and has_capacity(plain(self), nnz)

    # Python.

    def reserve(self: Any, nnz: int) -> Any:
        return super().reserve(nnz)._with(**alive_intervals.with_room(self, nnz))

    def _rebuild_scratch(self: Any) -> None:
        # No older prefix sum is needed: dead weights were saved with their sums, and live ones die
        # after now.
        m = self.mean[0]
        m.first = m.entries
        self.prefix_sums[0] = (self.clock[0].A, m.P_sum, m.PA_sum)

    def check(self: Any) -> None:
        super().check()
        alive_intervals.check(self, *scalars(self))
