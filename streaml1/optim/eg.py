r"""EG+- and EG: the exponentiated gradient.

Kivinen & Warmuth (1997), *Exponentiated gradient versus gradient descent for linear predictors*.
A pair of weights a coordinate, 2d in all, that begin at $R / 2d$. One step at rate $\eta$:
$$w_j^{\pm} \leftarrow w_j^{\pm}\, e^{\mp \eta g x_j}, \quad \text{then all divided by their sum and
  multiplied by } R; \qquad w = w^+ - w^-$$
EG: d weights that begin at $R / d$, multiplied by $e^{-\eta g x_j}$.

The normalisation is common to all, so with $\theta_j = -\sum \eta g x_j$, which a step changes on
its row alone,
$$w_j = R\, \frac{e^{\theta_j} - e^{-\theta_j}}{Z}, \quad Z = \sum_j e^{\theta_j} + e^{-\theta_j}
  \qquad \text{or, EG,} \qquad w_j = R\, \frac{e^{\theta_j}}{Z}, \quad Z = \sum_j e^{\theta_j}$$
A coordinate that no example has touched has $\theta_j = 0$ and a share in Z, but no slot. Each
non-zero of a row takes its old share out of Z and adds the new one. All exponentials are relative
to $2^M$: where Z leaves a range about that, or its rounding shows, M becomes that of the largest
and Z is summed anew (a pass over all slots), in any order the same float.

Differs from the paper: a) theta is kept, in logarithms, and not the products, so that nothing
overflows and a weight comes back from any depth. b) any loss. c) what no example has touched costs
nothing.

What has no slot weighs what an untouched coordinate does: one slot more than there are stands for it.
A weight that is given up has $\theta_j = 0$, as if its feature had not been seen; EG marks it, since it
is to be told from one that was seen. Giving back a slot would change how many features there have
been: all that was touched holds something.

Cost of a step: the non-zeros of the row, one exponential each; 16 bytes a slot.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.prefetch import ahead
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early, stack_buffer
from streaml1.core.vecmath import LOG2E, exponentials, total
from streaml1.optim.structures.slot_arrays import records
from streaml1.optim.update_rule import renormalize, weight

__all__ = ["EG"]

CLOCK = np.dtype(
    [
        ("R", "f8"),
        ("d", "f8"),  # how many coordinates there are, with a slot or without
        ("two", "f8"),  # 1: a pair of weights a coordinate, EG+-; 0: one, EG
        ("M", "f8"),  # shares are in units of 2^M
        ("twice_M", "i8"),  # as `exponentials` wants it
        ("one", "f8"),  # 2^-M: the share of theta = 0; 0 where M < 0: nothing is at its start
        ("four", "f8"),  # 4 e^theta e^-theta in shares, EG+-
        ("Z", "f8"),
        ("noise", "f8"),  # sum of the squares of Z since it was summed up
        ("scale", "f8"),  # R / Z
        ("touched", "i8"),  # slots
    ],
    align=True,
)

TOUCHED = 1e-300  # the theta of a slot that has been touched and is 0
GIVEN_UP = -TOUCHED  # and of one whose weight has been given up
WEIGHT_LEAST = 5e-324  # the weight of a theta that is not zero, where a float has no less
THETA_MOST = 1e150
Z_LEAST, Z_MOST = 1e-140, 1e140
NOISE_MOST = 1e-22 / (16 * 2e-32)  # four sigma of rounding: 1e-11

CHUNK = np.uint64(128)  # entries worked on together, as long as a scratch
ZERO, ONE = np.uint64(0), np.uint64(1)


@inlined
def _difference_and_share(theta: float, c: Any) -> tuple[float, float]:
    """What w_j and Z hold of a coordinate: e^theta -+ e^-theta, or e^theta twice."""
    # abs(theta), or theta itself, without a branch; then e^-theta, or 0
    up, down = exponentials(abs(theta) * c.two + theta * (1.0 - c.two), c.M, c.twice_M)
    down *= c.two
    sign = math.copysign(c.two, theta) + (1.0 - c.two)
    return (up - down) * sign, up + down


class EG(NamedTuple):
    """State: two numbers a slot, and one slot more, and one record."""

    theta: Annotated[Any, np.float64]  # and the difference less that of theta = 0, side by side
    clock: Annotated[Any, CLOCK]

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        c = self.clock[0]
        start = c.one * (1.0 - c.two)
        far = ahead(ids, hi)
        a = 0.0
        for k in range(lo, hi):
            prefetch_early(self.theta, np.uint64(ids[k + far]) << ONE)
            a += (self.theta[(np.uint64(ids[k]) << ONE) + ONE] + start) * values[k]
        return a * c.scale

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        c = self.clock[0]
        if step == 0.0:
            for k in range(lo, hi):
                j = np.uint64(ids[k]) << ONE
                if self.theta[j] == 0.0:
                    self.theta[j] = TOUCHED
                    c.touched += 1
            return
        start, four = c.one * (1.0 - c.two), c.four
        theta, difference, share = stack_buffer(), stack_buffer(), stack_buffer()
        for at in range(lo, hi, CHUNK):
            n = min(CHUNK, hi - at)
            for k in range(n):
                j = np.uint64(ids[at + k]) << ONE
                theta[k] = self.theta[j]
                difference[k] = self.theta[j + ONE] + start
                if theta[k] == 0.0:
                    c.touched += 1
            for k in range(n):
                theta[k] -= step * values[at + k]
                share[k] = math.sqrt(difference[k] * difference[k] + four)
            for k in range(n):
                new, new_share = _difference_and_share(theta[k], c)
                difference[k] = new - start
                share[k] = new_share - share[k]
            for k in range(n):
                j = np.uint64(ids[at + k]) << ONE
                self.theta[j] = theta[k] if theta[k] != 0.0 else TOUCHED
                self.theta[j + ONE] = difference[k]
            c.Z += total(share, n)

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        Z = c.Z
        if not Z_LEAST <= Z <= Z_MOST:
            renormalize(self)
            return
        c.noise += Z * Z
        if c.noise > NOISE_MOST * Z * Z:
            renormalize(self)
            return
        c.scale = c.R / Z

    def renormalize(self) -> None:
        c = self.clock[0]
        held, most = _largest(self, c.two)
        c.M = np.floor(most * LOG2E)
        c.twice_M = np.int64(2.0 * min(2000.0, max(-2000.0, c.M)))
        # M < 0 only where all d are held: none is at its start, beside which no share would show.
        c.one = math.pow(2.0, max(-1000.0, -c.M)) if c.M >= 0.0 else 0.0
        c.four = c.two * 4.0 * c.one * c.one
        c.Z = _sum_of_shares(self, held) + (c.d - held) * (1.0 + c.two) * c.one
        c.noise = c.Z * c.Z
        c.scale = c.R / c.Z

    def has_capacity(self, nnz: Any) -> bool:
        return True

    def accepts(self, ids: Any, lo: Any, hi: Any) -> bool:
        c = self.clock[0]
        left = np.int64(c.d) - c.touched
        if np.int64(hi - lo) <= left:
            return True
        for k in range(lo, hi):
            left -= np.int64(self.theta[np.uint64(ids[k]) << ONE] == 0.0)
        return bool(left >= 0)

    def weight(self, j: Any) -> float:
        c = self.clock[0]
        theta = self.theta[np.uint64(j) << ONE]
        if theta == 0.0 or theta == GIVEN_UP or (c.two == 1.0 and theta == TOUCHED):
            return 0.0
        difference = self.theta[(np.uint64(j) << ONE) + ONE] + c.one * (1.0 - c.two)
        w = max(abs(difference) * c.scale, WEIGHT_LEAST)
        return math.copysign(w, theta) if c.two == 1.0 else w

    def weights(self) -> Any:
        w = np.zeros(self.size)
        _weights(self, w)
        return w

    def seen_mask(self) -> Any:
        return self.theta[:-2:2] != 0.0

    def live_mask(self) -> Any:
        return self.seen_mask()

    def drop(self, slots: Any) -> None:
        theta = self.theta[2 * slots]
        self.theta[2 * slots] = np.where(theta == 0.0, 0.0, GIVEN_UP)
        self.theta[2 * slots + 1] = 0.0
        if np.any(np.abs(theta) > TOUCHED) or self.clock[0].one == 0.0:
            _rebase(self)

    def reserve(self, nnz: int) -> EG:
        return self

    @property
    def size(self) -> int:
        return len(self.theta) // 2 - 1

    @property
    def unknown_slot(self) -> int:
        return self.size

    @property
    def features_left(self) -> int:
        return int(self.clock[0].d) - int(self.clock[0].touched)

    def grow(self, d: int) -> EG:
        theta = np.zeros(2 * d + 2)
        theta[: len(self.theta)] = self.theta
        return self._replace(theta=theta)

    def remap(self, new_slots: Any, d: int) -> EG:
        kept = np.flatnonzero(new_slots >= 0)
        pairs = np.zeros((d + 1, 2))
        pairs[new_slots[kept]] = self.theta.reshape(-1, 2)[kept]
        self.clock[0].touched = np.count_nonzero(pairs[:, 0])
        return self._replace(theta=pairs.ravel())

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.live_mask())
        pairs = self.theta.reshape(-1, 2)[slots]
        arrays = {"theta": pairs[:, 0].copy(), "difference": pairs[:, 1].copy()}
        return slots, {**arrays, "clock": self.clock.copy()}

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> EG:
        ensure(set(arrays) == {"theta", "difference", "clock"}, "other arrays")
        for name in ("theta", "difference"):
            array = arrays[name]
            ensure(array.dtype == np.float64 and array.shape == slots.shape, f"not {name}")
        ensure(arrays["clock"].dtype == CLOCK, "not a ledger")
        pairs = np.zeros((d + 1, 2))
        pairs[slots, 0], pairs[slots, 1] = arrays["theta"], arrays["difference"]
        clock = records(1, CLOCK)  # aligned, as kernels are compiled for
        clock[:] = arrays["clock"]
        clock["touched"] = len(slots)
        return EG(pairs.ravel(), clock)

    def check(self) -> None:
        ensure(self.theta.dtype == np.float64 and self.theta.ndim == 1, "theta is no row of floats")
        ensure(self.clock.dtype == CLOCK and self.clock.shape == (1,), "the ledger is no record")
        c = self.clock[0]
        ensure(0.0 < c.R < math.inf, f"R is {c.R}, out of range")
        ensure(c.two in (0.0, 1.0), f"two is {c.two}")
        ensure(np.all(np.abs(self.theta) < THETA_MOST), "an entry of theta is out of range")
        ensure(abs(c.M) < THETA_MOST and math.floor(c.M) == c.M, f"M is {c.M}")
        ensure(c.touched == np.count_nonzero(self.seen_mask()) <= c.d, "a count is wrong")
        ensure(not self.theta[-2:].any(), "the slot of the unknown has been touched")
        theta = self.theta[:-2:2].copy()
        x = np.abs(theta) if c.two else theta
        m = max(x.max(initial=-math.inf), 0.0 if c.touched < c.d else -math.inf)
        shares = np.exp(x[self.seen_mask()] - m)
        if c.two:
            shares += np.exp(-x[self.seen_mask()] - m)
        Z = shares.sum() + (c.d - c.touched) * (1.0 + c.two) * math.exp(-m)
        log_Z = math.log(c.Z) + c.M * math.log(2.0)
        ensure(abs(log_Z - m - math.log(Z)) < 1e-9 + 1e-14 * abs(m), "Z is not the sum")

    @staticmethod
    def start(d: int, radius: float, n_features: int, nonnegative: bool) -> EG:
        """`d` slots at the start."""
        clock = records(1, CLOCK)
        c = clock[0]
        c.R, c.d, c.two, c.one = radius, n_features, float(not nonnegative), 1.0
        c.four = 4.0 * c.two
        c.Z = c.d * (1.0 + c.two)
        c.noise = c.Z * c.Z
        c.scale = c.R / c.Z
        return EG(np.zeros(2 * d + 2), clock)


@inlined
def _largest(rule: Any, two: float) -> tuple[float, float]:
    """How many theta are not zero, and the largest of all, of their sizes for EG+-."""
    held, most = 0.0, -math.inf
    for j in range(ZERO, np.uint64(len(rule.theta)), np.uint64(2)):
        theta = rule.theta[j]
        if abs(theta) > TOUCHED:
            held += 1.0
            most = max(most, abs(theta) if two == 1.0 else theta)
    return held, most if held == rule.clock[0].d else max(most, 0.0)


@inlined
def _sum_of_shares(rule: Any, held: float) -> float:
    """Write differences down as of now; the sum of the shares of theta that are not zero, exactly.

    No share is above 4, so on a grid that their number fits, partial sums are exact in any order;
    what is off the grid is on a finer one.
    """
    c = rule.clock[0]
    start = c.one * (1.0 - c.two)
    coarse = 4.0
    while coarse < 4.0 * held:
        coarse *= 2.0
    fine = 1.5 * coarse * coarse * 2.0**-52
    high, low = 0.0, 0.0
    for j in range(ZERO, np.uint64(len(rule.theta)), np.uint64(2)):
        if abs(rule.theta[j]) > TOUCHED:
            difference, share = _difference_and_share(rule.theta[j], c)
            rule.theta[j + ONE] = difference - start
            on_grid = (share + coarse) - coarse
            high += on_grid
            low += ((share - on_grid) + fine) - fine
        else:
            rule.theta[j + ONE] = 0.0
    return high + low


@kernel
def _weights(rule: Any, w: Any) -> None:
    for j in range(np.uint64(len(w))):
        if rule.theta[j + j] != 0.0:
            w[j] = weight(rule, j)


@kernel
def _rebase(rule: Any) -> None:
    renormalize(rule)
