r"""EG+- and EG: exponentiated gradient.

Kivinen & Warmuth (1997), *Exponentiated gradient versus gradient descent for linear predictors*.
EG+- has a pair of weights for each of d coordinates, which start at $R / 2d$. One step at rate $\eta$:
$$w_j^{\pm} \leftarrow w_j^{\pm}\, e^{\mp \eta g x_j}, \quad \text{then all are divided by their sum and
  multiplied by } R; \qquad w = w^+ - w^-$$
EG has d weights, which start at $R / d$ and are multiplied by $e^{-\eta g x_j}$.

The normalization is common to all weights. So with $\theta_j = -\sum \eta g x_j$, which a step changes on its
row alone,
$$w_j = R\, \frac{e^{\theta_j} - e^{-\theta_j}}{Z}, \quad Z = \sum_j e^{\theta_j} + e^{-\theta_j}
  \qquad \text{or, for EG,} \qquad w_j = R\, \frac{e^{\theta_j}}{Z}, \quad Z = \sum_j e^{\theta_j}$$

The *share* of a coordinate is its summand of Z. A coordinate that no example has touched has
$\theta_j = 0$ and a share, but no slot. A step replaces the old share of each non-zero of the row by the new
one. Exponentials are relative to $2^M$. Where Z leaves a range around that, or its rounding shows,
`renormalize` sets M to the largest theta and sums Z, a pass over all slots; the sum is the same float
in any order.

Differences from the paper:

a) theta, a logarithm, is stored and not the product. So nothing overflows, and a weight recovers from
   any depth.
b) Any loss.
c) Coordinates that no example has touched cost nothing.

A feature without a slot weighs as much as an untouched coordinate: one extra slot stands for all of
them. A dropped weight has $\theta_j = 0$, as if its feature had not been seen; EG marks it, because the
weight of an untouched coordinate is not 0. The number of features seen matters, so every touched slot is
live.

Cost of a step: O(non-zeros of the row), with one exponential each. Memory: 16 bytes per slot.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, kernel, u64
from streaml1.core.prefetch import prefetch_distance
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early, stack_buffer
from streaml1.core.types import Bools, Floats, Ints, Records
from streaml1.core.vecmath import LOG2E, exp_pair, sum_in_place
from streaml1.optim.rule_state import Ledger, PerSlot, RuleState, new_state
from streaml1.optim.structures.joined_weights import joined_weights
from streaml1.optim.update_rule import renormalize, weight

__all__ = ["EG"]

CLOCK = np.dtype(
    [
        ("R", "f8"),
        ("d", "f8"),  # number of coordinates, with and without a slot
        ("two", "f8"),  # 1 for EG+-, a pair of weights per coordinate; 0 for EG
        ("M", "f8"),  # shares are in units of 2^M
        ("twice_M", "i8"),  # for `exp_pair`
        ("one", "f8"),  # 2^-M: the share of theta = 0. 0 where M < 0: no theta is 0 then
        ("four", "f8"),  # EG+-: 4 e^theta e^-theta in units of shares
        ("Z", "f8"),
        ("noise", "f8"),  # sum of the squares of Z since it was summed
        ("scale", "f8"),  # R / Z
        ("touched", "i8"),  # number of touched slots
    ],
    align=True,
)

TOUCHED = 1e-300  # the theta of a touched slot that is 0
DROPPED = -TOUCHED  # the theta of a slot whose weight was dropped
MIN_WEIGHT = 5e-324  # the weight of a non-zero theta where it underflows
MAX_THETA = 1e150
MIN_Z, MAX_Z = 1e-140, 1e140
MAX_NOISE = 1e-22 / (16 * 2e-32)  # four standard deviations of the rounding error are 1e-11

CHUNK = u64(128)  # non-zeros that are processed together; the length of a `stack_buffer`


@inlined
def _difference_and_share(theta: float, c: Any) -> tuple[float, float]:
    """Return the numerator of w_j and the summand of Z of a coordinate, in units of shares.

    These are e^theta - e^-theta and e^theta + e^-theta, or for EG e^theta twice.
    """
    # EG+- takes |theta|, EG theta itself; then e^-theta, or 0. Both without a branch.
    up, down = exp_pair(abs(theta) * c.two + theta * (1.0 - c.two), c.M, c.twice_M)
    down *= c.two
    sign = math.copysign(c.two, theta) + (1.0 - c.two)
    return (up - down) * sign, up + down


class EGState(NamedTuple):
    """theta and difference of each slot and of the unknown slot, and one record."""

    # Adjacent: theta, and the difference minus that of theta = 0.
    theta: Annotated[Floats, PerSlot(np.float64, width=2, extra=1, keys=("theta", "difference"))]
    clock: Annotated[Records, Ledger(CLOCK)]


class EG(RuleState, EGState):
    """EG+- and EG."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        c = self.clock[0]
        start = c.one * (1.0 - c.two)
        distance = prefetch_distance(ids, hi)
        a = 0.0
        for k in range(lo, hi):
            prefetch_early(self.theta, np.uint64(ids[k + distance]) << u64(1))
            a += (self.theta[(np.uint64(ids[k]) << u64(1)) + u64(1)] + start) * values[k]
        return a * c.scale

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        c = self.clock[0]
        if step == 0.0:
            for k in range(lo, hi):
                j = np.uint64(ids[k]) << u64(1)
                if self.theta[j] == 0.0:
                    self.theta[j] = TOUCHED
                    c.touched += 1
            return
        start, four = c.one * (1.0 - c.two), c.four
        theta, difference, share = stack_buffer(), stack_buffer(), stack_buffer()
        for base in range(lo, hi, CHUNK):
            n = min(CHUNK, hi - base)
            for k in range(n):
                j = np.uint64(ids[base + k]) << u64(1)
                theta[k] = self.theta[j]
                difference[k] = self.theta[j + u64(1)] + start
                if theta[k] == 0.0:
                    c.touched += 1
            for k in range(n):
                theta[k] -= step * values[base + k]
                share[k] = math.sqrt(difference[k] * difference[k] + four)
            for k in range(n):
                new, new_share = _difference_and_share(theta[k], c)
                difference[k] = new - start
                share[k] = new_share - share[k]
            for k in range(n):
                j = np.uint64(ids[base + k]) << u64(1)
                self.theta[j] = theta[k] if theta[k] != 0.0 else TOUCHED
                self.theta[j + u64(1)] = difference[k]
            c.Z += sum_in_place(share, n)

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        Z = c.Z
        if not MIN_Z <= Z <= MAX_Z:
            renormalize(self)
            return
        c.noise += Z * Z
        if c.noise > MAX_NOISE * Z * Z:
            renormalize(self)
            return
        c.scale = c.R / Z

    def renormalize(self) -> None:
        c = self.clock[0]
        n_nonzero, largest = _largest(self, c.two)
        c.M = np.floor(largest * LOG2E)
        c.twice_M = np.int64(2.0 * min(2000.0, max(-2000.0, c.M)))
        # M < 0 only if no theta is 0: otherwise the share of theta = 0 would outweigh all others.
        c.one = math.pow(2.0, max(-1000.0, -c.M)) if c.M >= 0.0 else 0.0
        c.four = c.two * 4.0 * c.one * c.one
        c.Z = _sum_of_shares(self, n_nonzero) + (c.d - n_nonzero) * (1.0 + c.two) * c.one
        c.noise = c.Z * c.Z
        c.scale = c.R / c.Z

    def accepts(self, ids: Any, lo: Any, hi: Any) -> bool:
        c = self.clock[0]
        n_left = np.int64(c.d) - c.touched
        if np.int64(hi - lo) <= n_left:
            return True
        for k in range(lo, hi):
            n_left -= np.int64(self.theta[np.uint64(ids[k]) << u64(1)] == 0.0)
        return bool(n_left >= 0)

    def weight(self, j: Any) -> float:
        c = self.clock[0]
        theta = self.theta[np.uint64(j) << u64(1)]
        if theta == 0.0 or theta == DROPPED or (c.two == 1.0 and theta == TOUCHED):
            return 0.0
        difference = self.theta[(np.uint64(j) << u64(1)) + u64(1)] + c.one * (1.0 - c.two)
        w = max(abs(difference) * c.scale, MIN_WEIGHT)
        return math.copysign(w, theta) if c.two == 1.0 else w

    def weights(self) -> Floats:
        w = np.zeros(self.size)
        _weights(self, w)
        return w

    def live_mask(self) -> Bools:
        return self.seen_mask()

    def drop(self, slots: Ints) -> None:
        theta = self.theta[2 * slots]
        self.theta[2 * slots] = np.where(theta == 0.0, 0.0, DROPPED)
        self.theta[2 * slots + 1] = 0.0
        if np.any(np.abs(theta) > TOUCHED) or self.clock[0].one == 0.0:
            _renormalize(self)

    def candidates(
        self, parts: Sequence[EG], rates: Sequence[Iterable[Floats]]
    ) -> Iterator[tuple[str, EG]]:
        """Yield the candidates of `structures.joined_weights` for theta, without a penalty.

        Raises
        ------
        ValueError
            If there are more features than a rule may see.
        """
        c = self.clock[0]
        n, limit = self.size, int(c.d)  # each slot is that of a feature that one of them has seen
        if n > limit:
            raise ValueError(
                f"the models have seen {n:,} features together, more than n_features={limit}; "
                "make them with a larger n_features"
            )
        stored = np.array([part.theta[:-2:2] for part in parts])
        kept = np.any((stored != 0.0) & (stored != DROPPED), axis=0)
        zeros = np.where(kept, TOUCHED, DROPPED)  # the marks of slots whose theta is 0
        theta, *thetas = (rule._theta() for rule in (self, *parts))
        steps = [sum(map(len, blocks)) for blocks in rates]
        visits = [n * (part != theta) for n, part in zip(steps, thetas, strict=True)]
        for joined in joined_weights(theta, thetas, visits, steps, [0.0] * len(parts)):
            rule = self.start(self.size, float(c.R), limit, c.two == 0.0)
            rule.theta[:-2:2] = np.where(np.abs(joined.w) > TOUCHED, joined.w, zeros)
            rule._rebuild_index()
            _renormalize(rule)
            yield joined.name, rule

    def _theta(self) -> Floats:
        """Return theta of each slot; that of a mark is 0."""
        theta = self.theta[:-2:2]
        return np.where(np.abs(theta) > TOUCHED, theta, 0.0)

    def _rebuild_index(self) -> None:
        self.clock[0].touched = np.count_nonzero(self.seen_mask())

    @property
    def unknown_slot(self) -> int:
        return self.size

    @property
    def features_left(self) -> int:
        return int(self.clock[0].d) - int(self.clock[0].touched)

    def check(self) -> None:
        super().check()
        c = self.clock[0]
        ensure(0.0 < c.R < math.inf, f"R={c.R} is out of range")
        ensure(c.two in (0.0, 1.0), f"two={c.two} is not a flag")
        ensure(np.all(np.abs(self.theta) < MAX_THETA), "an entry of theta is out of range")
        ensure(abs(c.M) < MAX_THETA and math.floor(c.M) == c.M, f"M={c.M} is out of range")
        ensure(
            c.touched == np.count_nonzero(self.seen_mask()) <= c.d, f"touched={c.touched} is wrong"
        )
        ensure(not self.theta[-2:].any(), "the unknown slot was touched")
        theta = self.theta[:-2:2].copy()
        x = np.abs(theta) if c.two else theta
        m = max(x.max(initial=-math.inf), 0.0 if c.touched < c.d else -math.inf)
        shares = np.exp(x[self.seen_mask()] - m)
        if c.two:
            shares += np.exp(-x[self.seen_mask()] - m)
        Z = shares.sum() + (c.d - c.touched) * (1.0 + c.two) * math.exp(-m)
        self._check_shares()
        log_Z = math.log(c.Z) + c.M * math.log(2.0)
        ensure(
            abs(log_Z - m - math.log(Z)) < 1e-9 + 1e-14 * abs(m), "Z is not the sum of the shares"
        )

    def _check_shares(self) -> None:
        """Raise AssertionError unless differences and shared numbers follow from theta and M."""
        c = self.clock[0]
        one = math.pow(2.0, max(-1000.0, -c.M)) if c.M >= 0.0 else 0.0
        ensure(c.one == one and c.four == c.two * 4.0 * one * one, "a share of 0 does not match M")
        ensure(c.twice_M == int(2.0 * min(2000.0, max(-2000.0, c.M))), "twice_M does not match M")
        ensure(c.Z > 0.0 and abs(c.scale * c.Z / c.R - 1.0) < 1e-9, "the scale is not R / Z")
        theta, difference = self.theta[:-2:2], self.theta[1:-2:2]
        # The shares are clipped as `exp_pair` clips them.
        up = np.exp2(np.clip((np.abs(theta) if c.two else theta) * LOG2E - c.M, -1000.0, 860.0))
        down = c.two * np.exp2(np.clip(-np.abs(theta) * LOG2E - c.M, -1000.0, 860.0))
        expected = np.copysign(up - down, theta) if c.two else up - one
        expected[np.abs(theta) <= TOUCHED] = 0.0
        error = np.abs(difference - expected)
        tolerance = 1e-9 * (up + down) + 1e-13 * (1.0 + abs(c.M)) * (up + one) + 2.0**-990
        ensure(np.all(error <= tolerance), "a difference does not match its theta")

    @staticmethod
    def start(d: int, radius: float, n_features: int, nonnegative: bool) -> EG:
        """Return a rule with `d` slots of `n_features` coordinates, all at the start."""
        rule = new_state(EG, d)
        c = rule.clock[0]
        c.R, c.d, c.two, c.one = radius, n_features, float(not nonnegative), 1.0
        c.four = 4.0 * c.two
        c.Z = c.d * (1.0 + c.two)
        c.noise = c.Z * c.Z
        c.scale = c.R / c.Z
        return rule


@inlined
def _largest(rule: Any, two: float) -> tuple[float, float]:
    """Return the number of non-zero theta and the largest theta; for EG+- the largest |theta|."""
    n_nonzero, largest = 0.0, -math.inf
    for j in range(u64(0), np.uint64(len(rule.theta)), u64(2)):
        theta = rule.theta[j]
        if abs(theta) > TOUCHED:
            n_nonzero += 1.0
            largest = max(largest, abs(theta) if two == 1.0 else theta)
    return n_nonzero, largest if n_nonzero == rule.clock[0].d else max(largest, 0.0)


@inlined
def _sum_of_shares(rule: Any, n_nonzero: float) -> float:
    """Rewrite the differences as of now; return the sum of the shares of all non-zero theta.

    The sum is the same float in any order. No share is above 4, so partial sums of shares rounded
    to a grid that is coarse enough for their number are exact. The remainders are rounded to a
    finer grid and summed likewise.
    """
    c = rule.clock[0]
    start = c.one * (1.0 - c.two)
    coarse = 4.0
    while coarse < 4.0 * n_nonzero:
        coarse *= 2.0
    fine = 1.5 * coarse * coarse * 2.0**-52
    high, low = 0.0, 0.0
    for j in range(u64(0), np.uint64(len(rule.theta)), u64(2)):
        if abs(rule.theta[j]) > TOUCHED:
            difference, share = _difference_and_share(rule.theta[j], c)
            rule.theta[j + u64(1)] = difference - start
            on_grid = (share + coarse) - coarse
            high += on_grid
            low += ((share - on_grid) + fine) - fine
        else:
            rule.theta[j + u64(1)] = 0.0
    return high + low


@kernel
def _weights(rule: Any, w: Any) -> None:
    for j in range(np.uint64(len(w))):
        if rule.theta[j + j] != 0.0:
            w[j] = weight(rule, j)


@kernel
def _renormalize(rule: Any) -> None:
    renormalize(rule)
