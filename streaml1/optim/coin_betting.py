r"""Coin betting: no learning rate, for each coordinate.

Orabona & Tommasi (2017), *Training deep networks without learning rates through coin betting*: their
COCOB-Backprop, for each coordinate. A coordinate bets a fraction of its wealth on the sign of the next
negative gradient. Its weight is what it bets, its wealth grows with the bets that it wins.

Values are scaled as in `structures/feature_scales.py`: $z_j = x_j$ over the mean of $|x_j|$, clipped to $\pm 3$. With
$s_j = \max |z_j|$ over the rows so far, the current one included, the weight of $z_j / s_j$ is

$$w_j = \frac{\mathrm{sgn}(\theta_j)\,[\,|\theta_j| - \lambda_1]_+}{L_j + G_j}\,(c\,Y + R_j)$$

and a row with the derivative g of the loss, times its sample weight, changes

$$u = -g\,\frac{z_j}{s_j}, \qquad L_j \leftarrow \max(L_j, |u|), \qquad R_j \leftarrow \max(R_j + w_j u / L_j, 0), \qquad
\theta_j \leftarrow \theta_j + u, \qquad G_j \leftarrow G_j + |u|$$

c is the initial wealth (`wealth`), Y the mean of $|y|$, which is 1 for labels of $\pm 1$. For the Poisson loss,
whose margins are logarithms, Y = 1. Every state starts at 0. $L_j$ is at least the mean sample weight for a loss
whose derivative is at most 1, and may be 0 for the squared, Huber and Poisson losses. So the predictions scale with the labels, and do not depend on the scale of the sample weights or
of any feature. With sample weights of 1 and labels of $\pm 1$, $L_j = Y = 1$.

Differences from the paper:

a) $R_j$ counts gains in units of the $L_j$ of their time, so that a larger $L_j$ devalues no earlier gain. The
   fraction is $\theta / (L + G)$, the paper's for $\alpha = 0$.
b) The scales of features and labels, and $\lambda_1$: a constant threshold of a sum over all examples.
c) Outliers: |g| counts for at most twice the largest before it. The means of labels and sample weights
   are those of `feature_scales.py`.
d) The intercept is a coordinate with x = 1 and $\lambda_1 = 0$, added to its initial value.
e) A feature that is in each of the first 16 rows has an origin m: from then on, x stands for x - m above (see
   `structures/feature_origins.py`), and what was learnt of x is forgotten. The targets of a regression have a centre,
   which is added to each margin; y stands for their distance from it (see `structures/target_centre.py`). With the
   Poisson loss, values and targets are read as they are.

Nothing is pending for features that are absent: a weight is a function of its slot and the ledger.

Cost of a step: O(non-zeros of the row), with five divisions each. Memory: 80 bytes per slot.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.prefetch import prefetch_distance
from streaml1.core.rows import ensure
from streaml1.core.simd import prefetch_early
from streaml1.core.types import Floats, Records
from streaml1.optim import losses
from streaml1.optim.centred_rule import USUAL_VALUES, CentredRule
from streaml1.optim.rule_state import Ledger, PerSlot, Scratch, new_state
from streaml1.optim.structures.feature_origins import (
    FORGOTTEN,
    ORIGIN_WIDTH,
    count_value,
    from_origin,
)
from streaml1.optim.structures.feature_scales import MAX_SCALED, add_size, scaled
from streaml1.optim.structures.joined_coins import Coins, joined_coins
from streaml1.optim.structures.joined_origins import with_common_origins
from streaml1.optim.structures.joined_sums import add_growth
from streaml1.optim.structures.soft_threshold import clamped
from streaml1.optim.structures.target_centre import centred_derivative, join_centre
from streaml1.optim.update_rule import margin

__all__ = ["CoinBetting"]

COIN = [("theta", "f8"), ("G", "f8"), ("R", "f8"), ("L", "f8")]
SLOT = np.dtype(
    [
        ("n", "f8"),  # rows that had the feature
        ("total", "f8"),  # sum of |x| over them
        ("s", "f8"),
        *COIN,
    ],
    align=True,
)
# Of the current row: x less its origin, the new `total` and s, z over s, and the weight.
SCRATCH = np.dtype([(name, "f8") for name in ("x", "total", "s", "q", "w")], align=True)
CLOCK = np.dtype(
    [
        # The parameters, from the next step on, and those of the current weights.
        *(("wealth", "f8"), ("l1", "f8"), ("wealth_now", "f8"), ("l1_now", "f8")),
        *(("n", "f8"), ("labels", "f8")),  # examples, sum of |y|
        *(("n_weighted", "f8"), ("weights", "f8")),  # examples of weight above 0, their sum
        ("largest", "f8"),  # upper bound of |g| so far
        ("floor", "f8"),  # lower bound of L in this step
        *COIN,  # of the intercept
        *USUAL_VALUES,
    ],
    align=True,
)

CLOCK_SUMS = ("n", "labels", "n_weighted", "weights")

MAX_GROWTH = 2.0  # of |g|, relative to the largest before it
TINY = 1e-300  # added to denominators that are 0 before the first gradient
# So that a zero weight is one with |theta| <= l1, and a weight is finite if all values are tiny.
MIN_LABEL, MIN_MEAN = 1e-200, 1e-150
MAX_WEALTH = 1e100
MAX_NUMBER = 1e250


@inlined
def _weight(coin: Any, l1: float, wealth: float) -> float:
    """Return the weight of a coordinate."""
    outside = coin.theta - clamped(coin.theta, l1)
    w: float = outside / (coin.G + coin.L + TINY) * (wealth + coin.R)
    return w


@inlined
def _bet(coin: Any, w: float, u: float, floor: float) -> None:
    """Update a coordinate that has bet `w` on the outcome `u`."""
    size = abs(u)
    coin.L = max(coin.L, floor, size)
    coin.R = min(max(coin.R + w * (u / (coin.L + TINY)), 0.0), MAX_WEALTH)
    coin.theta += u
    coin.G += size


@inlined
def _initial_wealth(c: Any) -> float:
    """Return the initial wealth of a coordinate in units of the labels."""
    wealth: float = c.wealth_now * (max(c.labels / c.n, MIN_LABEL) if c.n > 0.0 else 1.0)
    return wealth


@inlined
def _intercept(c: Any) -> float:
    """Return the weight of the coordinate of the intercept."""
    return _weight(c, 0.0, _initial_wealth(c))


@inlined
def _bounded(c: Any, g: float, loss: int, w: float) -> float:
    """Return the gradient `g` of a row of weight `w` without the excess of an outlier.

    It also sets `floor` and `largest`.
    """
    if w > 0.0:
        c.weights = add_size(c.n_weighted, c.weights, w)
        c.n_weighted += 1.0
    unbounded = loss == losses.SQUARED or loss == losses.HUBER or loss == losses.POISSON
    c.floor = c.weights / c.n_weighted if c.n_weighted > 0.0 and not unbounded else 0.0
    largest = max(c.largest, c.floor)
    if largest > 0.0:
        limit = MAX_GROWTH * largest
        g = max(-limit, min(limit, g))
    c.largest = max(largest, abs(g))
    return g


def _sums(coins: Records) -> Coins:
    return Coins(coins["theta"], coins["G"], coins["R"])


class CoinBettingState(NamedTuple):
    """Scale, coin and origin of each slot, the values of the current row, and the ledger."""

    slots: Annotated[Records, PerSlot(SLOT, dropped=(None, None, None, 0.0, 0.0, 0.0, 0.0))]
    origins: Annotated[Floats, PerSlot(np.float64, width=ORIGIN_WIDTH, dropped=(None,))]
    scratch: Annotated[Records, Scratch(SCRATCH)]
    clock: Annotated[Records, Ledger(CLOCK)]


class CoinBetting(CentredRule, CoinBettingState):
    """Coin betting for each coordinate."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        c = self.clock[0]
        l1, wealth = c.l1_now, _initial_wealth(c)
        fits = hi - lo <= np.uint64(len(self.scratch))  # always to learn, not always to predict
        distance = prefetch_distance(ids, hi)
        a = 0.0
        for k in range(lo, hi):
            prefetch_early(self.slots, np.uint64(ids[k + distance]))
            slot, x = self.slots[ids[k]], values[k]
            if c.with_origin > 0:
                x = from_origin(self.origins, ids[k], x)
            total = add_size(slot.n, slot.total, abs(x))
            z = scaled(x, total / (slot.n + 1.0))
            s = max(slot.s, abs(z), TINY)
            w, q = _weight(slot, l1, wealth), z / s
            if fits:
                saved = self.scratch[k - lo]
                saved.x = x
                saved.total = total
                saved.s = s
                saved.q = q
                saved.w = w
            a += w * q
        return a

    def output_and_gradient(
        self, online: Any, a: float, y: float, w: float, out: Any
    ) -> tuple[float, float]:
        """Return the prediction and the bounded gradient; move the intercept."""
        c, o = self.clock[0], online[0]
        b = _intercept(c)
        a += (o.b + b) + o.offset
        p, g, size = centred_derivative(c, o, a, y, w, c.labels / max(c.n, 1.0))
        g = _bounded(c, max(-o.clip_gradient, min(o.clip_gradient, g)) * w, o.loss, w)
        if o.intercept_lr > 0.0:
            _bet(c, b, -g, c.floor)
        c.labels = add_size(c.n, c.labels, size)
        c.n += 1.0
        return p, g

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # `margin` has left scales and weights in the scratch array. `step` is g: the rate is 1.
        c = self.clock[0]
        t = c.n - 1.0
        for k in range(lo, hi):
            slot, saved = self.slots[ids[k]], self.scratch[k - lo]
            if saved.x == 0.0:  # at the origin, which is as good as absent
                continue
            slot.n += 1.0
            slot.total = saved.total
            slot.s = saved.s
            _bet(slot, saved.w, -step * saved.q, c.floor)
            if t < c.origin_rows and count_value(self.origins, ids[k], slot.n - 1.0, t, values[k]):
                c.with_origin += 1
                slot.n = FORGOTTEN
                slot.total = slot.s = slot.theta = slot.G = slot.R = slot.L = 0.0

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        c.wealth_now = c.wealth
        c.l1_now = c.l1

    def predict(self, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
        """Return the margin of a row, or its `losses.response` if `out` is not 0."""
        o = online[0]
        c = self.clock[0]
        a = margin(self, ids, values, lo, hi) + (o.b + _intercept(c)) + c.centre
        a = losses.full_stream_margin(o.loss, a, o.loss_parameter)
        return losses.response(o.loss, a) if out else a

    def weight(self, j: Any) -> float:
        """Return the weight of slot j per unit of x."""
        c, slot = self.clock[0], self.slots[j]
        if slot.n == 0.0:
            return 0.0
        mean = max(slot.total / slot.n, MIN_MEAN)
        return _weight(slot, c.l1_now, _initial_wealth(c)) / slot.s / mean

    def _weights_of(self, coins: Any, l1: float) -> Floats:
        """Return what `_weight` returns for each coordinate."""
        c = self.clock[0]
        wealth = c.wealth_now * (max(c.labels / c.n, MIN_LABEL) if c.n > 0.0 else 1.0)
        theta = coins["theta"]
        outside = theta - np.clip(theta, -l1, l1)
        w: Floats = outside / (coins["G"] + coins["L"] + TINY) * (wealth + coins["R"])
        return w

    def weights(self) -> Floats:
        w = np.zeros(self.size)
        seen = np.flatnonzero(self.slots["n"])  # few, if features are hashed
        slots = self.slots[seen]
        means = np.maximum(slots["total"] / slots["n"], MIN_MEAN)
        w[seen] = self._weights_of(slots, self.clock[0].l1_now) / slots["s"] / means
        return w

    def intercept_at_origins(self, online: Records) -> float:
        """Return the initial intercept, the weight of its coordinate, and the centre."""
        b = self._weights_of(self.clock, 0.0)[0]
        return float(online[0].b + b + self.clock[0].centre)

    def without_intercept(self) -> CoinBetting:
        """Return the rule with the weight 0 of the coordinate of the intercept, and no centre."""
        clock = self.clock.copy()
        clock[0].theta = clock[0].centre = 0.0
        return self._replace(clock=clock)

    def candidates(
        self, parts: Sequence[CoinBetting], rates: Sequence[Iterable[Floats]]
    ) -> Iterator[tuple[str, CoinBetting]]:
        """Yield the candidates of `structures.joined_coins`; the sums of scales are added."""
        base, *others = with_common_origins([self, *parts])
        return base._joined(others)

    def _joined(self, parts: Sequence[CoinBetting]) -> Iterator[tuple[str, CoinBetting]]:
        slots, clock = self.slots.copy(), self.clock.copy()
        add_growth(slots, [part.slots for part in parts], ("n", "total"))
        add_growth(clock, [part.clock for part in parts], CLOCK_SUMS)
        c = clock[0]
        join_centre(clock, self.clock, [part.clock for part in parts])
        c.floor = parts[-1].clock[0].floor
        for sums, of_parts in (
            (slots, [part.slots for part in parts]),
            (clock, [part.clock for part in parts]),
        ):
            for name in {"s", "L", "largest"} & set(sums.dtype.names or ()):
                sums[name] = np.maximum.reduce([part[name] for part in of_parts])
        intercepts = dict(
            joined_coins(_sums(self.clock), [_sums(part.clock) for part in parts], clock["L"])
        )
        for name, coins in joined_coins(
            _sums(self.slots), [_sums(part.slots) for part in parts], slots["L"]
        ):
            rule = self._replace(slots=slots.copy(), clock=clock.copy())
            rule.slots["theta"], rule.slots["G"], rule.slots["R"] = coins
            rule.clock["theta"], rule.clock["G"], rule.clock["R"] = intercepts[name]
            for sums in (rule.slots, rule.clock):
                np.minimum(sums["R"], MAX_WEALTH, out=sums["R"])
            yield name, rule

    def check(self) -> None:
        super().check()
        c, slots = self.clock[0], self.slots
        for name in ("wealth", "wealth_now"):
            ensure(0.0 < c[name] < math.inf, f"{name} is out of range")
        for name in ("l1", "l1_now", "n", "labels", "n_weighted", "weights", "largest", "floor"):
            ensure(0.0 <= c[name] < math.inf, f"{name} is out of range")
        for coins in (self.clock, slots):
            theta, G, R, L = (coins[name] for name, _ in COIN)
            ensure(np.all((G >= 0.0) & (G < MAX_NUMBER)), "a G is out of range")
            ensure(np.all(np.abs(theta) <= G * (1.0 + 1e-9)), "a theta exceeds its G")
            ensure(np.all((R >= 0.0) & (R <= MAX_WEALTH)), "an R is out of range")
            ensure(np.all((L >= 0.0) & (L < MAX_NUMBER)), "an L is out of range")
        n, total, s = slots["n"], slots["total"], slots["s"]
        ensure(np.all((n >= 0.0) & (n <= c.n)), "a count is out of range")
        ensure(np.all((total >= 0.0) & (total < MAX_NUMBER)), "a sum of sizes is out of range")
        ensure(np.array_equal(n > 0.0, total > 0.0), "a count and a sum of sizes disagree")
        ensure(np.all(total[total > 0.0] / n[total > 0.0] > 0.0), "a mean size is 0")
        ensure(np.all((s >= 0.0) & (s <= MAX_SCALED)), "an s is out of range")
        ensure(np.array_equal(n > 0.0, s > 0.0), "a count and an s disagree")

    @staticmethod
    def start(d: int, wealth: float, l1: float, loss: int) -> CoinBetting:
        """Return a rule with `d` zero weights."""
        rule = new_state(CoinBetting, d)
        c = rule.clock[0]
        c.wealth, c.l1, c.wealth_now, c.l1_now = wealth, l1, wealth, l1
        rule.begin(loss)
        return rule
