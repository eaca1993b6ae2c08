r"""Pegasos, told by the mean of its weights.

Shalev-Shwartz, Singer & Srebro (2007), whose bound is on the mean of the objectives of all $w_t$; by
convexity it holds for $\bar w_t = \frac{1}{t} \sum_{s \le t} w_s$ too.

With $w_t = s_t u$ as in `pegasos.py`, and $\Sigma_t = s_1 + \dots + s_t$, a weight that is not touched adds
$u_j(\Sigma_t - \Sigma_\psi)$ to its sum since step $\psi$. Stored is $c_j$, the sum as of $\psi$ less $u_j \Sigma_\psi$, so that
the sum is $c_j + u_j\Sigma_t$ at any time. Where s has fallen far below $\Sigma$ all sums are written down, and
$\Sigma$ starts anew: without projections $\Sigma/s$ grows as $t \log t$, and that is never.

Cost of a step: the non-zeros of the row; 16 bytes a slot.
"""  # noqa: E501

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.aligned import in_lines
from streaml1.core.jit import inlined
from streaml1.core.prefetch import ahead
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early
from streaml1.optim import losses
from streaml1.optim.pegasos import CLOCK, Pegasos, advance, unsure
from streaml1.optim.structures import running_averages
from streaml1.optim.structures.slot_arrays import records
from streaml1.optim.update_rule import apply_gradient, margin, renormalize

__all__ = ["AveragedPegasos"]

MEAN = np.dtype([*running_averages.MEAN, ("s_sum", "f8")], align=True)


@inlined
def _total(rule: Any, j: Any) -> float:
    """Sum of a slot's weights after each step so far."""
    S: float = rule.sums[j] + rule.u[j] * rule.mean[0].s_sum
    return S


class AveragedPegasos(NamedTuple):
    """State of Pegasos, and the sums of its weights."""

    u: Annotated[Any, np.float64]
    clock: Annotated[Any, CLOCK]
    sums: Annotated[Any, np.float64]
    in_hand: Annotated[Any, np.float64]
    mean: Annotated[Any, MEAN]

    def plain(self) -> Any:
        return Pegasos(self.u, self.clock)

    def total(self, j: Any) -> float:
        return _total(self, j)

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        far = ahead(ids, hi)
        total = 0.0
        for k in range(lo, hi):
            prefetch_early(self.sums, np.uint64(ids[k + far]))
            S = _total(self, ids[k])
            self.in_hand[k - lo + np.uint64(1)] = S
            total += S * values[k]
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
        s_sum = self.mean[0].s_sum
        for k in range(lo, hi):
            self.sums[ids[k]] = self.in_hand[k - lo + np.uint64(1)] - self.u[ids[k]] * s_sum

    def apply_penalty(self, eta: float) -> None:
        c, m = self.clock[0], self.mean[0]
        if unsure(c):
            renormalize(self)
        due = advance(c)
        m.t += 1
        m.s_sum += c.s
        if due:
            renormalize(self)
        elif m.s_sum > running_averages.FAR * m.t * c.s:
            running_averages.settle(self)
            m.s_sum = 0.0

    def renormalize(self) -> None:
        running_averages.settle(self)
        self.mean[0].s_sum = 0.0
        renormalize(running_averages.plain(self))

    def has_capacity(self, nnz: Any) -> bool:
        return nnz < np.uint64(len(self.in_hand))

    def weight(self, j: Any) -> float:
        return running_averages.mean_weight(self, j)

    def weights(self) -> Any:
        return running_averages.weights(self)

    def totals(self) -> Any:
        return self.sums + self.u * self.mean[0].s_sum

    def intercept(self, online: Any) -> float:
        return running_averages.intercept(self, online)

    def seen_mask(self) -> Any:
        return self.plain().seen_mask()

    def live_mask(self) -> Any:
        return running_averages.live_mask(self)

    def drop(self, slots: Any) -> None:
        self.plain().drop(slots)
        self.sums[slots] = 0.0

    def reserve(self, nnz: int) -> AveragedPegasos:
        return self._replace(in_hand=running_averages.hand_for(self, nnz))

    @property
    def size(self) -> int:
        return len(self.u)

    def grow(self, d: int) -> AveragedPegasos:
        return self._replace(**running_averages.grown(self, d))

    def remap(self, new_slots: Any, d: int) -> AveragedPegasos:
        return self._replace(**running_averages.moved(self, new_slots, d))

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.live_mask())
        arrays = {"u": self.u[slots], "clock": self.clock.copy()}
        return slots, {**arrays, "sums": self.sums[slots], "mean": self.mean.copy()}

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> AveragedPegasos:
        arrays = dict(arrays)
        sums, mean = running_averages.read(arrays, d, slots, MEAN)
        plain = Pegasos.from_state_dict(d, slots, arrays)
        return AveragedPegasos(*plain, sums, np.zeros(running_averages.ROOM_LEAST), mean)

    def check(self) -> None:
        ensure(self.mean.dtype == MEAN and self.mean.shape == (1,), "there is no mean")
        running_averages.check(self)
        m, c = self.mean[0], self.clock[0]
        most = running_averages.FAR * m.t * c.s
        ensure(0.0 <= m.s_sum <= most, f"the sum of s is {m.s_sum}, not from 0 to {most}")
        ensure(m.t == c.t, f"{m.t} steps averaged of {c.t}")

    @staticmethod
    def start(d: int, l2: float, project: bool) -> AveragedPegasos:
        """`d` zero weights."""
        plain, in_hand = Pegasos.start(d, l2, project), np.zeros(running_averages.ROOM_LEAST)
        return AveragedPegasos(*plain, in_lines(d, np.float64), in_hand, records(1, MEAN))
