r"""Lazy elastic net, told by the mean of its weights.

The steps are those of `elastic_net.py`: Lipton & Elkan (2015) for the lazy update, Duchi & Singer
(2009) for the FoBoS step, whose regret bounds are of $\bar w_t = \frac{1}{t} \sum_{s \le t} w_s$ by convexity.

There a weight that is not touched moves as $w_s = \mathrm{sgn}(u)\,P_s\,[\,|u| - A_s]_+$. Its sum over the steps
is $c_j + \mathrm{sgn}(u)\,X$ with X as in `parts/alive_intervals.py`, from running sums of $P_s$ and $P_s A_s$ and, for a weight
that has died meanwhile, a table of them: m is $|u|$.

Differs from the papers, which have nothing on lazy averages: all sums are written down, a pass over all
slots, where the table is full (`budget`), where P falls far below its running sum (each
$\log(t\,\eta\lambda_2)/\eta\lambda_2$ steps, about, at a constant rate), and where u itself is written down anew.

Cost of a step: the non-zeros of the row; 16 bytes a slot, and up to 40 a step of the budget.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.aligned import in_lines
from streaml1.core.jit import inlined
from streaml1.core.prefetch import ahead
from streaml1.core.simd import prefetch_early
from streaml1.optim import losses
from streaml1.optim.elastic_net import A_START, CLOCK, ElasticNet, advance
from streaml1.optim.structures import alive_intervals, running_averages
from streaml1.optim.update_rule import apply_gradient, margin, renormalize

__all__ = ["AveragedElasticNet"]


@inlined
def _total(rule: Any, j: Any) -> float:
    """Sum of a slot's weights after each step so far."""
    u = rule.u[j]
    X = alive_intervals.since(rule, rule.clock[0].A, abs(u), 0.0)
    S: float = rule.sums[j] + math.copysign(1.0, u) * X
    return S


@inlined
def _bury(rule: Any, j: Any, S: float) -> None:
    """Write down that a weight is dead, and its sum."""
    rule.u[j] = A_START
    rule.sums[j] = S


@inlined
def _bury_row(rule: Any) -> None:
    """Write those of the row down as dead that their own step has ended: seldom any."""
    A, one = rule.clock[0].A, np.uint64(1)
    if rule.in_hand[0] > A:
        return
    for k in range(one, np.uint64(rule.row[0]) + one):
        if abs(rule.u[rule.row[k]]) <= A:
            _bury(rule, rule.row[k], rule.in_hand[k])


class AveragedElasticNet(NamedTuple):
    """State of the elastic net, and the sums of its weights."""

    u: Annotated[Any, np.float64]
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
        return ElasticNet(self.u, self.scratch, self.clock)

    def total(self, j: Any) -> float:
        return _total(self, j)

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        # What has died is looked up in the end: no branch waits for another.
        A, first, m = self.clock[0].A, self.table[0].A, self.mean[0]
        P_sum, PA_sum = m.P_sum, m.PA_sum
        far = ahead(ids, hi)
        late = np.uint64(0)
        for k in range(lo, hi):
            prefetch_early(self.u, np.uint64(ids[k + far]))
            prefetch_early(self.sums, np.uint64(ids[k + far]))
            u = self.u[ids[k]]
            size = abs(u)
            X = u * P_sum - math.copysign(PA_sum, u)
            self.in_hand[k - lo + np.uint64(1)] = self.sums[ids[k]] + (X if size > A else 0.0)
            self.row[late] = k - lo
            late += np.uint64((size > first) & (size <= A))
        for i in range(late):
            place = np.uint64(self.row[i])
            self.in_hand[place + np.uint64(1)] = _total(self, ids[lo + place])
        total = 0.0
        for k in range(lo, hi):
            total += self.in_hand[k - lo + np.uint64(1)] * values[k]
        self.in_hand[0] = total
        return margin(running_averages.plain(self), ids, values, lo, hi)

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

    def prefetch_next(self, ids: Any, values: Any, lo: Any, hi: Any) -> None:
        pass  # `margin` of the plain rule does

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        apply_gradient(running_averages.plain(self), ids, values, lo, hi, step)
        A, P_sum, PA_sum = self.clock[0].A, self.mean[0].P_sum, self.mean[0].PA_sum
        smallest = math.inf
        for k in range(lo, hi):
            u, S = self.u[ids[k]], self.in_hand[k - lo + np.uint64(1)]
            smallest = min(smallest, abs(u))
            if abs(u) > A:
                self.sums[ids[k]] = S - (u * P_sum - math.copysign(PA_sum, u))
            else:
                _bury(self, ids[k], S)
        alive_intervals.note_row(self, ids, lo, hi, smallest)

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        due = advance(c, eta)
        alive_intervals.enter(self, c.A, c.P)
        _bury_row(self)
        if due:
            renormalize(self)
        elif alive_intervals.full(self, c.P):
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
        X = alive_intervals.since_all(self, self.clock[0].A, np.abs(self.u), 0.0)
        return self.sums + np.copysign(1.0, self.u) * X

    def intercept(self, online: Any) -> float:
        return running_averages.intercept(self, online)

    def seen_mask(self) -> Any:
        return self.plain().seen_mask()

    def live_mask(self) -> Any:
        return running_averages.live_mask(self)

    def drop(self, slots: Any) -> None:
        self.plain().drop(slots)
        self.sums[slots] = 0.0

    def reserve(self, nnz: int) -> AveragedElasticNet:
        scratch = self.plain().reserve(nnz).scratch
        return self._replace(scratch=scratch, **alive_intervals.with_room(self, nnz))

    @property
    def size(self) -> int:
        return len(self.u)

    def grow(self, d: int) -> AveragedElasticNet:
        return self._replace(**running_averages.grown(self, d))

    def remap(self, new_slots: Any, d: int) -> AveragedElasticNet:
        return self._replace(**running_averages.moved(self, new_slots, d))

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.live_mask())
        alive = self.plain().live_mask()[slots]
        u = np.where(alive, self.u[slots], A_START)
        sums = np.where(alive, self.sums[slots], self.totals()[slots])
        return slots, {
            **{"u": u, "clock": self.clock.copy()},
            **{"sums": sums, "mean": self.mean.copy()},
        }

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> AveragedElasticNet:
        arrays = dict(arrays)
        sums, mean = running_averages.read(arrays, d, slots, alive_intervals.MEAN)
        plain = ElasticNet.from_state_dict(d, slots, arrays)
        more = alive_intervals.undumped(mean, plain.clock[0].A)
        return AveragedElasticNet(*plain, sums, mean, *more)

    def check(self) -> None:
        alive_intervals.check(self, self.clock[0].A, self.clock[0].P)

    @staticmethod
    def start(d: int, l1: float, l2: float, sgd: bool, budget: int) -> AveragedElasticNet:
        """`d` zero weights."""
        plain = ElasticNet.start(d, l1, l2, sgd)
        mean = alive_intervals.begun(budget)
        more = alive_intervals.undumped(mean, A_START)
        return AveragedElasticNet(*plain, in_lines(d, np.float64), mean, *more)
