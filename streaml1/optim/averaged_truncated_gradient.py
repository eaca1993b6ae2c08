r"""Truncated gradient, told by the mean of its weights.

The steps are those of `truncated_gradient.py`. Langford, Li & Zhang (2009) bound the regret of the
weights themselves; by convexity the bound holds for $\bar w_t = \frac{1}{t} \sum_{s \le t} w_s$ too.

A weight that is not touched and lies within $\theta$ is $\mathrm{sgn}(v)\,[\,|v| + a - A_s]_+$ after step s, so its sum
over the steps is $c_j + \mathrm{sgn}(v)\,X$ with X as in `parts/alive_intervals.py`, where P is 1 and m is $|v| + a$. One that
lies beyond stays where it is: X is $|v|$ times the number of steps. The table has an entry only for the
steps that pull.

All sums are written down, a pass over all slots, where the table is full, where $\theta$ changes, and
where A starts anew.

Cost of a step: the non-zeros of the row; 24 bytes a slot, and up to 40 a step of a million.
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
from streaml1.optim import losses
from streaml1.optim.structures import alive_intervals, running_averages
from streaml1.optim.truncated_gradient import (
    A_START,
    CLOCK,
    SLOT,
    TruncatedGradient,
    advance,
    current,
)
from streaml1.optim.update_rule import apply_gradient, renormalize

__all__ = ["AveragedTruncatedGradient"]


@inlined
def _total(rule: Any, j: Any) -> float:
    """Sum of a slot's weights after each step so far."""
    one = rule.slots[j]
    v, a = one.v, one.a
    if a == math.inf:
        beyond: float = rule.sums[j] + v * rule.mean[0].P_sum
        return beyond
    X = alive_intervals.since(rule, rule.clock[0].A, abs(v), a)
    S: float = rule.sums[j] + math.copysign(1.0, v) * X
    return S


@inlined
def _bury(rule: Any, j: Any, S: float) -> None:
    """Write down that a weight is dead, and its sum."""
    one = rule.slots[j]
    one.v = 0.0
    one.a = A_START
    rule.sums[j] = S


@inlined
def _bury_row(rule: Any) -> None:
    """Write those of the row down as dead that their own step has ended: seldom any."""
    A, first = rule.clock[0].A, np.uint64(1)
    if rule.in_hand[0] * (1.0 - 1e-15) > A:  # beyond what its sum is rounded by
        return
    for k in range(first, np.uint64(rule.row[0]) + first):
        one = rule.slots[rule.row[k]]
        if abs(one.v) <= A - one.a:
            _bury(rule, rule.row[k], rule.in_hand[k])


class AveragedTruncatedGradient(NamedTuple):
    """State of the truncated gradient, and the sums of its weights."""

    slots: Annotated[Any, SLOT]
    scratch: Annotated[Any, np.float64]
    clock: Annotated[Any, CLOCK]
    sums: Annotated[Any, np.float64]
    mean: Annotated[Any, alive_intervals.MEAN]
    in_hand: Annotated[Any, np.float64]
    row: Annotated[Any, np.uint32]
    table: Annotated[Any, alive_intervals.ENTRY]
    marks: Annotated[Any, np.uint32]
    ruler: Annotated[Any, alive_intervals.RULER]

    def plain(self) -> Any:
        return TruncatedGradient(self.slots, self.scratch, self.clock)

    def total(self, j: Any) -> float:
        return _total(self, j)

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        # What has died is looked up in the end: no branch waits for another.
        A, first, m = self.clock[0].A, self.table[0].A, self.mean[0]
        P_sum, PA_sum = m.P_sum, m.PA_sum
        far = ahead(ids, hi)
        late = np.uint64(0)
        for k in range(lo, hi):
            prefetch_early(self.slots, np.uint64(ids[k + far]))
            prefetch_early(self.sums, np.uint64(ids[k + far]))
            one = self.slots[ids[k]]
            v, a = one.v, one.a
            size = abs(v)
            within = a < math.inf
            X = (size + (a if within else 0.0)) * P_sum - (PA_sum if within else 0.0)
            X = math.copysign(1.0, v) * X
            alive = size > A - a
            self.in_hand[k - lo + np.uint64(1)] = self.sums[ids[k]] + (X if alive else 0.0)
            self.row[late] = k - lo
            late += np.uint64((size > first - a) & (size <= A - a))
        for i in range(late):
            place = np.uint64(self.row[i])
            self.in_hand[place + np.uint64(1)] = _total(self, ids[lo + place])
        margin, mean_margin = 0.0, 0.0
        for k in range(lo, hi):
            w = current(self.slots[ids[k]], A)
            self.scratch[k - lo] = w
            margin += w * values[k]
            mean_margin += self.in_hand[k - lo + np.uint64(1)] * values[k]
        self.in_hand[0] = mean_margin
        return margin

    def output_and_gradient(
        self, online: Any, a: float, y: float, w: float, out: Any
    ) -> tuple[float, float]:
        return running_averages.respond_mean(
            self, running_averages.plain(self), online, a, y, w, out
        )

    def predict(self, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
        total = 0.0
        for k in range(lo, hi):
            total += _total(self, ids[k]) * values[k]
        a = running_averages.told(self, online, total)
        return losses.sigmoid(a) if out else a

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        apply_gradient(running_averages.plain(self), ids, values, lo, hi, step)
        A, P_sum, PA_sum = self.clock[0].A, self.mean[0].P_sum, self.mean[0].PA_sum
        smallest = math.inf
        for k in range(lo, hi):
            one, S = self.slots[ids[k]], self.in_hand[k - lo + np.uint64(1)]
            v, a = one.v, one.a
            smallest = min(smallest, abs(v) + a)
            if a == math.inf:
                self.sums[ids[k]] = S - v * P_sum
            elif abs(v) > A - a:
                X = (abs(v) + a) * P_sum - PA_sum
                self.sums[ids[k]] = S - math.copysign(1.0, v) * X
            else:
                _bury(self, ids[k], S)
        alive_intervals.note_row(self, ids, lo, hi, smallest)

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        if c.theta != c.threshold:
            renormalize(self)
        due = advance(c, eta)
        alive_intervals.enter(self, c.A, 1.0)
        _bury_row(self)
        if due:
            renormalize(self)
        elif alive_intervals.full(self, 1.0):
            running_averages.settle(self)
            alive_intervals.begin(self, c.A)

    def renormalize(self) -> None:
        running_averages.settle(self)
        renormalize(running_averages.plain(self))
        alive_intervals.begin(self, self.clock[0].A)

    def has_capacity(self, nnz: Any) -> bool:
        return alive_intervals.has_room(self, nnz) and nnz <= np.uint64(len(self.scratch))

    def weight(self, j: Any) -> float:
        return running_averages.mean_weight(self, j)

    def weights(self) -> Any:
        return running_averages.weights(self)

    def totals(self) -> Any:
        v, a = self.slots["v"], self.slots["a"]
        beyond = np.isposinf(a)
        within = np.where(beyond, 0.0, a)
        X = alive_intervals.since_all(
            self, self.clock[0].A, np.where(beyond, 0.0, np.abs(v)), within
        )
        return self.sums + np.where(beyond, v * self.mean[0].P_sum, np.copysign(1.0, v) * X)

    def intercept(self, online: Any) -> float:
        return running_averages.intercept(self, online)

    def seen_mask(self) -> Any:
        return self.plain().seen_mask()

    def live_mask(self) -> Any:
        return running_averages.live_mask(self)

    def drop(self, slots: Any) -> None:
        self.slots["v"][slots] = 0.0
        self.slots["a"][slots] = A_START
        self.sums[slots] = 0.0

    def reserve(self, nnz: int) -> AveragedTruncatedGradient:
        scratch = self.plain().reserve(nnz).scratch
        return self._replace(scratch=scratch, **alive_intervals.with_room(self, nnz))

    @property
    def size(self) -> int:
        return len(self.slots)

    def grow(self, d: int) -> AveragedTruncatedGradient:
        return self._replace(**running_averages.grown(self, d))

    def remap(self, new_slots: Any, d: int) -> AveragedTruncatedGradient:
        return self._replace(**running_averages.moved(self, new_slots, d))

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.live_mask())
        alive = self.plain().live_mask()[slots]
        v = np.where(alive, self.slots["v"][slots], 0.0)
        a = np.where(alive, self.slots["a"][slots], A_START)
        sums = np.where(alive, self.sums[slots], self.totals()[slots])
        return slots, {
            **{"v": v, "a": a, "clock": self.clock.copy()},
            **{"sums": sums, "mean": self.mean.copy()},
        }

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> AveragedTruncatedGradient:
        arrays = dict(arrays)
        sums, mean = running_averages.read(arrays, d, slots, alive_intervals.MEAN)
        plain = TruncatedGradient.from_state_dict(d, slots, arrays)
        more = alive_intervals.undumped(mean, plain.clock[0].A)
        return AveragedTruncatedGradient(*plain, sums, mean, *more)

    def check(self) -> None:
        alive_intervals.check(self, self.clock[0].A, 1.0)
        ensure(self.mean[0].t == self.clock[0].t, "steps were not averaged")
        buried = (self.slots["v"] == 0.0) & (self.slots["a"] != 0.0)
        ensure(np.all(self.slots["a"][buried] == A_START), "dead, but not written down as such")

    @staticmethod
    def start(d: int, gravity: float, period: int, threshold: float) -> AveragedTruncatedGradient:
        """`d` zero weights."""
        plain = TruncatedGradient.start(d, gravity, period, threshold)
        mean = alive_intervals.begun(alive_intervals.BUDGET)
        more = alive_intervals.undumped(mean, A_START)
        return AveragedTruncatedGradient(*plain, in_lines(d, np.float64), mean, *more)
