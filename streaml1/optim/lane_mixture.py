r"""A mixture of eight learners without a rate to choose: `lr="auto"`.

| lanes | learner | values |
|---|---|---|
| 0 | lazy elastic net, rate 10 over the mean squared norm of a row | as they are |
| 1 to 3 | the same, rates 0.5, 3 and 30 | scaled |
| 4 to 7 | coin betting for each coordinate, initial wealth 0.04, 0.16, 0.64, 2.56 | scaled |

Each lane is a learner of its own. They share a step and the *support*: a feature weighs nothing in any lane
while lane 6 holds it at zero.

**Values.** A scaled value z is x over the mean size of its feature, clipped (see `feature_scales`); the
current row counts. It does not depend on the scale of the column, and an outlier is bounded.

**Elastic nets.** Lipton & Elkan (2015), Duchi & Singer (2009); folded into two scalars per lane, as in
`elastic_net.py`. Let $q_t$ be the square of the mean of $\|x\|_2$ so far (of $\|z\|_2$ for lanes 2 and 3). A step
has the rate

$$\eta_{t,k} = \frac{r_k}{(t + 1)^{1/4}}\;\min\Bigl(\frac1{q_t}, \frac{16}{\|x_t\|_2^2}\Bigr)$$

The model supplies $(t+1)^{-1/4}$.

**Coins.** Orabona & Tommasi (2017), *Training deep networks without learning rates through coin betting*.
With s the largest |z| of the feature so far, g the derivative of the loss, and L the largest |g| so far:

$$u = -g z / s, \qquad R \leftarrow \max(R + \hat w u, 0), \qquad Z \leftarrow Z + u, \qquad G \leftarrow G + |u|$$

$$\hat w = \frac{\mathrm{sgn}(Z)\,[\,|Z| - \lambda_1 t]_+}{L + G + \lambda_2 t}\Bigl(c + \frac RL\Bigr), \qquad
\text{margin} = \sum_j \hat w_j z_j / s_j$$

The penalty of t examples is one threshold on a sum of gradients, as in dual averaging, and needs no work
for features that are absent.

**Mixture.** Margins are clipped: for regression to the range of the targets and half of it beyond, for
classification to ±5. For the logistic loss the range reaches at least 2 beyond the logarithm of the odds of the labels, and at
least 3 beyond that of one over the mean loss: where labels are easy to predict, confidence pays. The prediction is
the mean of two mixtures of them (see `lane_table`): fixed share, and a regression on the margins.

**Units.** Rates are multiplied by the unit of margins over that of derivatives. For the absolute, Huber and
quantile losses the unit of margins is the mean deviation s of the targets, and the factor s, max(1, s / delta) and
s / max(tau, 1 - tau): all three take the same steps at small residuals if tau = 1/2, and Huber's are those of the
squared loss if delta > s. The shares of the first mixture have the temperature 2 times the mean loss, twice the
variance or dispersion of the noise.

**Poisson loss.** Margins are logarithms, with 1 as their unit. The centre is the logarithm of the mean target m, and
the range from log m - 5 to 2 beyond the largest logarithm of a target. Rates are divided by max(m, 1), and
derivatives at a by max(1, e^a / max(m, 1)): the curvature e^a has no bound, with this factor the step has. In
expectation it is still 0 at the true mean. The temperature counts the loss above the smallest one of each target,
half the deviance.

**Offsets.** Lanes and mixtures are margins without the offset of the row, which losses and derivatives add. Where
the loss is a function of a - y, the target is y less the offset instead. For the Poisson loss the centre is the
logarithm of the sum of targets over that of exp(offset).

**Published model.** The mixture predicts the next example. `weights`, and a rule after `publish`, are for
examples of the next day, and one of three:

- the mean of lanes 2 and 6 with weights averaged over about a quarter of the steps, which removes the noise of
  the last ones;
- the mixture as it is, where it is still improving and averages lag, unless the intercept is a constant other than 0;
- lane 1, which has the smallest rate, where the stream drifts and the others follow the last examples.

The loss of the next example cannot tell the last two apart, since drift favours what follows it. So the mixture and
lane 1 are judged by their weights at a snapshot, which is renewed when a quarter more examples have been learnt: what
they would have predicted, had they been published then. Averages are judged by their weights now, and their loss is
multiplied by that of lane 1 as of the snapshot over that of lane 1 now, if that is more. The smallest sum of losses decides; a loss counts in
proportion to the number of its example. A snapshot copies nothing: a weight is noted when it is changed for the first time after it.

**Robustness.** Means of norms, sample weights, sizes of features and deviations of targets count an outlier
for at most ten times the mean before it. A sample weight counts relative to their mean. A target counts for at
most ten mean deviations beyond the mean and the prediction, whichever is nearer to it; with the Poisson loss, for at most
ten times the largest of the mean, the prediction and 1. If a column is multiplied by a power of two, all lanes but lane 0 give
the same bits.

**Forgetting.** With l1 > 0, a slot outside of the support is cleared once the features that are new since
the last time outnumber those that were left then. So memory follows the number of non-zero weights. A feature
that was cleared is learnt anew.

Cost of a step: O(non-zeros of the row). Memory: 192 bytes per slot.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import LANES, inlined, kernel
from streaml1.core.prefetch import prefetch_distance, prefetch_rows
from streaml1.core.rows import ensure
from streaml1.core.simd import (
    add,
    any_negative,
    copysign,
    div,
    hsum,
    lane_max,
    lane_min,
    load_f64x8,
    mul,
    neg,
    prefetch_early,
    select_negative,
    splat,
    stack_buffer,
    store_f64x8,
    sub,
)
from streaml1.core.types import Bools, Floats, Ints, Records
from streaml1.optim import losses
from streaml1.optim.rule_state import MAX_STEPS, Ledger, PerSlot, RuleState, Scratch, new_state
from streaml1.optim.structures.feature_scales import add_size, scaled
from streaml1.optim.structures.joined_lanes import divide_coins, joined_lanes
from streaml1.optim.structures.lane_clock import (
    AVERAGES,
    CLOCK,
    MAX_MARGIN,
    MIXTURE,
    SLOW_LANE,
    best_published,
    count_label,
    count_norms,
    count_poisson_target,
    count_target,
    is_snapshot_due,
    rate_scale,
    rate_unit,
    relative_weight,
)
from streaml1.optim.structures.lane_layouts import upgraded
from streaml1.optim.structures.lane_momentum import SHARD_CANDIDATES, add_momentum
from streaml1.optim.structures.lane_slots import (
    AVERAGE_COIN,
    AVERAGE_NET,
    AVERAGED_NET,
    FORGOTTEN,
    LINE,
    SLOT_BYTES,
    SLOW_NET,
    STALE_MIXTURE,
    STALE_SLOW,
    STRIDE,
    SUPPORT,
    SUPPORT_LANE,
    WIDTH,
    averaged_weight,
    lane_values,
    lane_weight,
    lanes_of,
    slot_weights,
    stale_weight,
    window,
)
from streaml1.optim.structures.lane_table import (
    A_LOW,
    AVERAGE_BIAS,
    AVERAGE_MARGIN,
    AVERAGED,
    BETS,
    BIAS,
    BIAS_GRADIENTS,
    BIAS_WEALTH,
    COEFFICIENT,
    COIN,
    DENOMINATOR,
    GRADIENT,
    INTERCEPT,
    LARGEST,
    MARGIN,
    OVER_LARGEST,
    RATE,
    RAW,
    ROWS,
    SCALE,
    SCALED,
    SHARE,
    SLOW,
    STALE_BIAS,
    STALE_COEFFICIENT,
    UNIT,
    WEALTH,
    A,
    P,
    abs_f64x8,
    combine,
    derivatives,
    learn_coefficients,
    learn_shares,
    load_row,
    mixture_weights,
    store_row,
    values_of,
)
from streaml1.optim.structures.slot_arrays import scratch_for, zeros
from streaml1.optim.update_rule import renormalize, weight

__all__ = ["COIN_WEALTH", "LaneMixture"]

COIN_WEALTH = (0.04, 0.16, 0.64, 2.56)

ONE, TWO, THREE, FOUR, LANE = (np.uint64(n) for n in (1, 2, 3, 4, LANES))
SCRATCH_WIDTH = 16  # floats of a non-zero: see `_margins`
SAVED_BYTES = np.uint64(8 * SCRATCH_WIDTH)

MIN_LARGEST = 1e-100  # instead of 0, which must not divide
MIN_P = 1e-150
MIN_SIZE = 1e-300  # sum of sizes, whose reciprocal must be finite
MAX_SHRINKAGE, MIN_STEPS = 64.0, 256.0  # see `elastic_net`
MIN_FRESH = 2**16  # features before slots are looked through for those to forget
OF_LABELS, OF_VALUES = 7.0, 30.0  # rate of an intercept over `intercept_lr`
TINY = 5e-324
RISKS = ("average_risk", "stale_risk", "slow_risk", "lane_risk")


@inlined
def _clip(a: Any, low: float, high: float) -> Any:
    return lane_min(lane_max(a, splat(low)), splat(high))


@inlined
def _average_intercepts(table: Any, t: float) -> None:
    """Count the intercepts of step t in their averages."""
    share = 1.0 / (1.0 + min(t, window(t)))
    before = load_row(table, AVERAGE_BIAS)
    change = mul(sub(load_row(table, INTERCEPT), before), splat(share))
    store_row(table, AVERAGE_BIAS, add(before, change))


@inlined
def _complete(table: Any, c: Any, margins: Any) -> Any:
    """Return the margins of all lanes, given those over P without the intercepts."""
    intercepts = add(load_row(table, INTERCEPT), splat(c.centre))
    return add(mul(margins, load_row(table, P)), intercepts)


@inlined
def _served_margin(table: Any, c: Any, margins: Any, averages: Any) -> float:
    """Return the margin of the published model, given those of all lanes and of the averages."""
    if c.published == AVERAGES:
        return _averaged_margin(table, c, averages)
    margins = _clip(margins, c.low, c.high)
    if c.published == MIXTURE:
        return combine(table, c, margins)
    return hsum(mul(margins, load_row(table, SLOW)))


@inlined
def _averaged_margin(table: Any, c: Any, averages: Any) -> float:
    margins = add(averages, add(load_row(table, AVERAGE_BIAS), splat(c.centre)))
    margins = _clip(margins, c.low, c.high)
    return hsum(mul(margins, load_row(table, AVERAGED)))


@inlined
def _stale_margins(table: Any, c: Any) -> tuple[float, float]:
    """Return the margins of the mixture and of the slow lane as of the snapshot."""
    bias = add(load_row(table, STALE_BIAS), splat(c.centre))
    mixture = table[AVERAGE_MARGIN] + hsum(mul(bias, load_row(table, STALE_COEFFICIENT)))
    slow = table[AVERAGE_MARGIN + SLOW_NET] + table[STALE_BIAS + SLOW_NET] + c.centre
    return min(max(mixture, c.low), c.high), min(max(slow, c.low), c.high)


@inlined
def _take_snapshot(rule: Any) -> None:
    """Note the weights of the lanes in the mixture and their intercepts."""
    c, table = rule.clock[0], rule.table
    store_row(table, STALE_COEFFICIENT, mixture_weights(table))
    store_row(table, STALE_BIAS, load_row(table, INTERCEPT))
    c.snapshot = c.n


@inlined
def _margins(rule: Any, ids: Any, values: Any, lo: Any, hi: Any, saves: bool) -> tuple[Any, Any]:
    """Return the margins of a row without intercepts: over P, and by other weights.

    The latter are the averaged weights and, with `saves`, those as of the snapshot. With `saves` it
    leaves in the scratch array, for each non-zero, the weights of eight lanes, z, z / s, the sum of
    sizes and s after it and two averaged weights; and the squared norms in the clock.
    """
    c, slots, table = rule.clock[0], rule.slots, rule.table
    base, out = np.uint64(slots.ctypes.data), np.uint64(rule.scratch.ctypes.data)
    threshold, t = table[A + SUPPORT_LANE], float(c.n)
    distance = prefetch_distance(ids, hi)
    margins, net_margin, coin_margin = splat(0.0), 0.0, 0.0
    stale_margin, slow_margin, snapshot = 0.0, 0.0, float(c.snapshot)
    square, scaled_square = 0.0, 0.0
    for k in range(lo, hi):
        ahead = np.uint64(ids[k + distance]) * STRIDE
        prefetch_early(slots, ahead)
        prefetch_early(slots, ahead + LANE)
        prefetch_early(slots, ahead + LANE + LANE)
        i, x = np.uint64(ids[k]) * STRIDE, values[k]
        n, total = slots[i], slots[i + ONE]
        total = add_size(n, total, abs(x))
        z = scaled(x, total / (n + 1.0))
        s = max(slots[i + TWO], abs(z))
        bet = z / s if s > 0.0 else 0.0  # 0: a feature without a slot, whose value is 0
        w = slot_weights(table, base + np.uint64(ids[k]) * SLOT_BYTES)
        lanes = stack_buffer()
        store_f64x8(np.uint64(lanes.ctypes.data), w)
        net = lanes[AVERAGED_NET] * table[P + AVERAGED_NET]
        net = averaged_weight(slots, i, AVERAGE_NET, net, t)
        coin = averaged_weight(slots, i, AVERAGE_COIN, lanes[SUPPORT_LANE], t)
        supported = 1.0 if abs(slots[i + SUPPORT]) > threshold else 0.0
        margins = add(margins, mul(mul(w, lane_values(table, x, z, bet)), splat(supported)))
        net_margin += net * z * supported
        coin_margin += coin * bet * supported
        if saves:
            if slots[i + THREE] < snapshot and n > 0.0:  # not touched since
                unit = n / max(slots[i + ONE], MIN_SIZE)
                slots[i + STALE_MIXTURE] = stale_weight(table, w, unit, unit / slots[i + TWO])
                slots[i + STALE_SLOW] = lanes[SLOW_NET] * table[P + SLOW_NET] * unit
            clipped = z * (total / (n + 1.0)) * supported
            stale_margin += slots[i + STALE_MIXTURE] * clipped
            slow_margin += slots[i + STALE_SLOW] * clipped
            square += x * x
            scaled_square += z * z
            store_f64x8(out, w)
            saved = (k - lo) * np.uint64(SCRATCH_WIDTH) + LANE
            rule.scratch[saved] = z
            rule.scratch[saved + ONE] = bet
            rule.scratch[saved + TWO] = total
            rule.scratch[saved + THREE] = s
            rule.scratch[saved + FOUR] = net
            rule.scratch[saved + FOUR + ONE] = coin
            out += SAVED_BYTES
    if saves:
        c.square = square
        c.scaled_square = scaled_square
    return margins, lanes_of(stale_margin, slow_margin, net_margin, coin_margin)


@inlined
def _intercepts(table: Any) -> Any:
    """Return the intercept of each lane, over the centre."""
    stake = add(
        load_row(table, UNIT), mul(load_row(table, BIAS_WEALTH), load_row(table, OVER_LARGEST))
    )
    denominator = add(load_row(table, LARGEST), load_row(table, BIAS_GRADIENTS))
    return mul(load_row(table, BIAS), div(stake, denominator))


@inlined
def _step_intercepts(rule: Any, step: float) -> None:
    """Move the intercepts: those of coins bet on the value 1."""
    c, table = rule.clock[0], rule.table
    g, coin, bets = load_row(table, GRADIENT), load_row(table, COIN), load_row(table, BETS)
    betting = splat(1.0 if c.slope > 0.0 else 0.0)
    move = mul(g, select_negative(coin, betting, mul(load_row(table, RATE), splat(step * c.slope))))
    w = load_row(table, INTERCEPT)
    store_row(table, BIAS, sub(load_row(table, BIAS), move))
    wealth = sub(load_row(table, BIAS_WEALTH), mul(mul(w, move), bets))
    store_row(table, BIAS_WEALTH, lane_max(wealth, splat(0.0)))
    gradients = add(load_row(table, BIAS_GRADIENTS), mul(abs_f64x8(move), bets))
    store_row(table, BIAS_GRADIENTS, gradients)


@inlined
def _update_scales(rule: Any, intercept_lr: float) -> None:
    """Count norms; set the rates of this step."""
    c = rule.clock[0]
    count_norms(c)
    unit = c.unit
    c.slope = intercept_lr * (OF_VALUES if losses.is_regression(c.loss) else OF_LABELS) * unit
    scales = stack_buffer()
    plain = rate_scale(c.norms / c.n, c.square) * unit
    scaled = rate_scale(c.scaled_norms / c.n, c.scaled_square) * unit
    scales[0] = plain
    scales[1] = scales[2] = scales[3] = scaled
    for k in range(np.uint64(4), LANE):
        scales[k] = 0.0
    store_row(rule.table, SCALE, load_f64x8(np.uint64(scales.ctypes.data)))


@inlined
def _compensated_add(a: Any, low: Any, b: Any) -> tuple[Any, Any]:
    """Return the Kahan sum of `a` (with its compensation `low`) and `b`, and its compensation."""
    increase = sub(b, low)
    total = add(a, increase)
    return total, sub(sub(total, a), increase)


@inlined
def _apply_penalties(rule: Any, eta: float) -> None:
    """Advance the ledgers of the elastic nets by one step."""
    c, table = rule.clock[0], rule.table
    rate = mul(splat(eta), mul(load_row(table, SCALE), load_row(table, RATE)))
    l1_step, l2_step = mul(rate, splat(c.l1)), mul(rate, splat(c.l2))
    before, threshold = load_row(table, P), load_row(table, A)
    if c.sgd:
        factor = sub(splat(1.0), l2_step)
        vanishes = sub(factor, splat(TINY))  # negative where factor <= 0: all weights become 0
        after = select_negative(vanishes, before, mul(before, factor))
        risen, low = _compensated_add(threshold, load_row(table, A_LOW), div(l1_step, after))
        risen = select_negative(vanishes, splat(math.inf), risen)
    else:
        after = div(before, add(splat(1.0), l2_step))
        risen, low = _compensated_add(threshold, load_row(table, A_LOW), div(l1_step, before))
    coin = load_row(table, COIN)
    store_row(table, P, after)
    store_row(table, A, select_negative(coin, splat(c.l1 * c.n), risen))
    store_row(table, A_LOW, select_negative(coin, splat(0.0), low))
    limit = lane_max(splat(MAX_SHRINKAGE), mul(splat(MIN_STEPS), l1_step))
    excess = lane_max(sub(splat(MIN_P), after), sub(mul(risen, after), limit))
    if any_negative(neg(select_negative(coin, splat(-1.0), excess))):
        renormalize(rule)


@inlined
def _refresh(rule: Any) -> None:
    """Recompute the rows of the table that follow from others."""
    c, table = rule.clock[0], rule.table
    coin, bets = load_row(table, COIN), load_row(table, BETS)
    unit = splat(1.0 if c.loss == losses.POISSON else c.unit)
    if c.loss == losses.SQUARED or c.loss == losses.HUBER or c.loss == losses.QUANTILE:
        unit = mul(load_row(table, LARGEST), unit)
    store_row(table, UNIT, select_negative(coin, mul(load_row(table, WEALTH), unit), splat(1.0)))
    l2 = mul(splat(c.l2 * c.n), bets)
    largest = load_row(table, LARGEST)
    store_row(table, DENOMINATOR, add(largest, l2))
    store_row(table, OVER_LARGEST, div(splat(1.0), largest))
    store_row(table, INTERCEPT, _intercepts(table))
    c.published = best_published(c)


@inlined
def _forget(rule: Any) -> None:
    """Clear all slots outside of the support."""
    c, slots = rule.clock[0], rule.slots
    threshold = rule.table[A + SUPPORT_LANE]
    retained = 0
    for i in range(np.uint64(0), np.uint64(len(slots)), STRIDE):
        if slots[i] > 0.0:
            if abs(slots[i + SUPPORT]) > threshold:
                retained += 1
            else:
                for k in range(STRIDE):
                    slots[i + k] = 0.0
                slots[i] = FORGOTTEN
    c.retained = retained
    c.fresh = 0


@kernel
def _refresh_joined(rule: Any) -> None:
    """Refresh the table after models were joined, whose last step has touched all slots."""
    _refresh(rule)
    _take_snapshot(rule)
    rule.clock[0].snapshot += 1


@kernel
def _fill_weights(rule: Any, w: Any) -> None:
    """Write the weight of each slot."""
    for j in range(np.uint64(len(w))):
        w[j] = weight(rule, j)


class LaneMixtureState(NamedTuple):
    """Slots of 24 floats, what `margin` saves, the table of the lanes, and shared scalars."""

    slots: Annotated[Floats, PerSlot(np.float64, width=WIDTH, dropped=FORGOTTEN)]
    scratch: Annotated[Floats, Scratch(np.float64)]
    table: Annotated[Floats, Ledger(np.float64, ROWS * LANES)]
    clock: Annotated[Records, Ledger(CLOCK)]


class LaneMixture(RuleState, LaneMixtureState):
    """Four elastic nets and four coin-betting learners, mixed."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        """Store the margins over P in the table; return 0."""
        margins, averages = _margins(self, ids, values, lo, hi, True)
        store_row(self.table, MARGIN, margins)
        store_row(self.table, AVERAGE_MARGIN, averages)
        return 0.0

    def prefetch_next(self, ids: Any, values: Any, lo: Any, hi: Any) -> None:
        for k in range(lo, hi, LANE):
            prefetch_rows(ids, values, k)

    def output_and_gradient(
        self, online: Any, a: float, y: float, w: float, out: Any
    ) -> tuple[float, float]:
        """Return the combined prediction; store the derivatives of the lanes, learn the mixture."""
        c, o, table = self.clock[0], online[0], self.table
        parameter, offset = o.loss_parameter, o.offset
        margins = _complete(table, c, load_row(table, MARGIN))
        clipped = _clip(margins, c.low, c.high)
        a = combine(table, c, clipped)
        p = losses.output(c.loss, a + offset, parameter)
        average = _averaged_margin(table, c, load_row(table, AVERAGE_MARGIN))
        stale, slow = _stale_margins(table, c)
        regression = losses.is_regression(c.loss)
        w = relative_weight(c, w)
        if regression:
            margins = clipped
            if c.loss != losses.POISSON:  # a function of a - y
                y, offset = y - offset, 0.0
                y = count_target(c, y, a, o.intercept_lr) if w > 0.0 else y
            elif w > 0.0:
                y = count_poisson_target(c, y, a, offset, o.intercept_lr)
        elif c.loss == losses.LOGISTIC:
            count_label(c, y, w)
        c.unit = rate_unit(c, parameter)
        g = derivatives(add(margins, splat(offset)), c, y, parameter)
        g = mul(_clip(g, -o.clip_gradient, o.clip_gradient), splat(w))
        store_row(table, GRADIENT, g)
        largest = load_row(table, LARGEST)
        risen = lane_max(largest, abs_f64x8(g))
        store_row(table, LARGEST, select_negative(load_row(table, COIN), risen, largest))
        _update_scales(self, o.intercept_lr)
        least = losses.poisson_minimum(y) if c.loss == losses.POISSON else 0.0
        c.risk += (losses.value(c.loss, a + offset, y, parameter) - least) * w
        later = w * c.n
        c.average_risk += (losses.value(c.loss, average + offset, y, parameter) - least) * later
        c.stale_risk += (losses.value(c.loss, stale + offset, y, parameter) - least) * later
        c.slow_risk += (losses.value(c.loss, slow + offset, y, parameter) - least) * later
        lane = hsum(mul(clipped, load_row(table, SLOW))) + offset
        c.lane_risk += (losses.value(c.loss, lane, y, parameter) - least) * later
        temperature = 2.0 * c.risk / c.n if regression else 1.0
        if temperature > 0.0:
            values = values_of(add(clipped, splat(offset)), y, c.loss, parameter)
            learn_shares(table, values, w / temperature)
        learn_coefficients(table, c, clipped, offset, y, w, parameter)
        return p, 1.0

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        c, slots, table, scratch = self.clock[0], self.slots, self.table, self.scratch
        coin, bets, threshold = load_row(table, COIN), load_row(table, BETS), load_row(table, A)
        t = float(c.n - 1)
        _average_intercepts(table, t)
        _step_intercepts(self, step)
        g = load_row(table, GRADIENT)
        rate = mul(splat(step), mul(load_row(table, SCALE), load_row(table, RATE)))
        steps = select_negative(coin, g, mul(g, div(rate, load_row(table, P))))
        base, saved_at = np.uint64(slots.ctypes.data), np.uint64(scratch.ctypes.data)
        for k in range(lo, hi):
            i = np.uint64(ids[k]) * STRIDE
            address = base + np.uint64(ids[k]) * SLOT_BYTES
            saved = (k - lo) * np.uint64(SCRATCH_WIDTH) + LANE
            w = load_f64x8(saved_at)
            move = mul(steps, lane_values(table, values[k], scratch[saved], scratch[saved + ONE]))
            elastic = sub(w, move)
            elastic = add(elastic, copysign(threshold, elastic))
            bet = sub(load_f64x8(address + LINE), move)
            store_f64x8(address + LINE, select_negative(coin, bet, elastic))
            line = load_f64x8(address + TWO * LINE)  # the wealth of coins, and other weights
            wealth = lane_max(sub(line, mul(w, move)), splat(0.0))
            store_f64x8(address + TWO * LINE, select_negative(coin, wealth, line))
            n = slots[i]
            store_f64x8(address, add(load_f64x8(address), mul(abs_f64x8(move), bets)))
            slots[i] = n + 1.0
            slots[i + ONE] = scratch[saved + TWO]
            slots[i + TWO] = scratch[saved + THREE]
            slots[i + THREE] = t
            known = 1.0 if n > 0.0 else 0.0
            slots[i + AVERAGE_NET] = known * scratch[saved + FOUR]
            slots[i + AVERAGE_COIN] = known * scratch[saved + FOUR + ONE]
            c.fresh += n == 0.0
            saved_at += SAVED_BYTES

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        if c.l1 != 0.0 or c.l2 != 0.0:
            _apply_penalties(self, eta)
        _refresh(self)
        if is_snapshot_due(c):
            _take_snapshot(self)
        if c.l1 > 0.0 and c.fresh >= max(MIN_FRESH, c.retained):
            _forget(self)

    def renormalize(self) -> None:
        slots, table = self.slots, self.table
        for i in range(np.uint64(0), np.uint64(len(slots)), STRIDE):
            for k in range(np.uint64(4)):
                u = slots[i + LANE + k]
                if u != 0.0:
                    w = math.copysign(max(abs(u) - table[A + k], 0.0) * table[P + k], u)
                    slots[i + LANE + k] = w
        for k in range(np.uint64(4)):
            table[P + k] = 1.0
            table[A + k] = 0.0
            table[A_LOW + k] = 0.0

    def predict(self, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
        """Return the combined margin, or its `losses.response` if `out` is not 0."""
        c, table = self.clock[0], self.table
        margins, averages = _margins(self, ids, values, lo, hi, False)
        margins = _complete(table, c, margins)
        if c.serving:
            a = _served_margin(table, c, margins, averages)
        else:
            a = combine(table, c, _clip(margins, c.low, c.high))
        a = losses.full_stream_margin(c.loss, a, online[0].loss_parameter)
        return losses.response(c.loss, a) if out else a

    def has_capacity(self, nnz: Any) -> bool:
        return nnz * np.uint64(SCRATCH_WIDTH) <= np.uint64(len(self.scratch))

    def weight(self, j: Any) -> float:
        c, slots, table = self.clock[0], self.slots, self.table
        i = np.uint64(j) * STRIDE
        if not abs(slots[i + SUPPORT]) > table[A + SUPPORT_LANE]:
            return 0.0
        unit = slots[i] / max(slots[i + ONE], MIN_SIZE)
        bet = unit / slots[i + TWO]
        net = lane_weight(table, slots, i, AVERAGED_NET)
        if c.published == SLOW_LANE:
            w = lane_weight(table, slots, i, SLOW_NET) * unit
        elif c.published == MIXTURE:
            w = 0.0
            for k in range(np.uint64(0), LANE):
                of_z = unit if k < FOUR else bet
                share = 0.5 * (table[SHARE + k] + table[COEFFICIENT + k])
                w += share * lane_weight(table, slots, i, k) * (of_z if k > 0 else 1.0)
        else:
            coin = lane_weight(table, slots, i, SUPPORT_LANE)
            net = averaged_weight(slots, i, AVERAGE_NET, net, float(c.n))
            coin = averaged_weight(slots, i, AVERAGE_COIN, coin, float(c.n))
            w = (net * unit + coin * bet) / 2.0
        return w if w != 0.0 else TINY

    def is_zero_block(self, j: Any) -> bool:
        seen = False
        for k in range(LANE):
            seen |= self.slots[(j + k) * STRIDE] != 0.0
        return not seen

    def weights(self) -> Floats:
        w = np.zeros(self.size)
        _fill_weights(self, w)
        return w

    def intercept(self, online: Records) -> float:
        """Return the intercept of what is published."""
        c = self.clock[0]

        def row(offset: Any) -> Floats:
            return self.table[int(offset) : int(offset) + LANES]

        if c.published == AVERAGES:
            return float(row(AVERAGED) @ (row(AVERAGE_BIAS) + c.centre))
        mixture = 0.5 * (row(SHARE) + row(COEFFICIENT))
        lanes = mixture if c.published == MIXTURE else row(SLOW)
        return float(lanes @ (row(INTERCEPT) + c.centre))

    def live_mask(self) -> Bools:
        slots = self.slots.reshape(-1, WIDTH)
        live: Bools = slots[:, 0] > 0.0
        if self.clock[0].serving:
            threshold = self.table[int(A) + int(SUPPORT_LANE)]
            live &= np.abs(slots[:, int(SUPPORT)]) > threshold
        return live

    def publish(self) -> None:
        """Predict with the published model from now on."""
        self.clock[0].serving = 1

    def published_view(self) -> LaneMixture:
        """Return a rule that predicts as after `publish`, and shares the slots of this one."""
        clock = self.clock.copy()
        clock[0].serving = 1
        return self._replace(clock=clock)

    def without_intercept(self) -> LaneMixture:
        """Return the published rule with intercepts of 0 and unbounded margins."""
        view, table = self.published_view(), self.table.copy()
        c = view.clock[0]
        c.centre, c.low, c.high = 0.0, -math.inf, math.inf
        for row in (INTERCEPT, AVERAGE_BIAS):
            table[int(row) : int(row) + LANES] = 0.0
        return view._replace(table=table)

    def drop(self, slots: Ints) -> None:
        """Clear some slots; they stay seen."""
        table = self.slots.reshape(-1, WIDTH)
        table[slots] = 0.0
        table[slots, 0] = FORGOTTEN

    def candidates(
        self, parts: Sequence[LaneMixture], rates: Sequence[Iterable[Floats]]
    ) -> Iterator[tuple[str, LaneMixture]]:
        """Yield the candidates of `structures.joined_lanes`."""
        return self._joined(joined_lanes(self, parts, rates))

    always_carries_on = True

    def carried_on(
        self, parts: Sequence[LaneMixture], rates: Sequence[Iterable[Floats]], before: LaneMixture
    ) -> Iterator[tuple[str, LaneMixture]]:
        """Yield the candidates of `structures.lane_momentum`, of parts after `start_shards`."""
        kinds = {name: (one.nets, one.coins) for name, one in SHARD_CANDIDATES.items()}
        for name, rule in self._joined(joined_lanes(self, parts, rates, kinds, divided=True)):
            add_momentum(rule, self, before, SHARD_CANDIDATES[name])
            yield name, rule

    def start_shards(self, shards: int, n_rows: int) -> None:
        """Let coins start one of some shards that learn the next rows, `n_rows` all together."""
        divide_coins(self, shards, n_rows)

    def _joined(
        self, candidates: Iterable[tuple[str, Floats, Floats, Any]]
    ) -> Iterator[tuple[str, LaneMixture]]:
        for name, slots, table, clock in candidates:
            rule = self._replace(
                slots=zeros(len(self.slots), self.slots),
                table=zeros(len(self.table), self.table),
                clock=self.clock.copy(),
            )
            rule.slots[:], rule.table[:], rule.clock[0] = slots.ravel(), table.ravel(), clock
            _refresh_joined(rule)
            yield name, rule

    def reserve(self, nnz: int) -> LaneMixture:
        return self._replace(scratch=scratch_for(nnz * SCRATCH_WIDTH, self.scratch))

    @classmethod
    def from_state_dict(cls, d: int, slots: Ints, arrays: dict[str, Any]) -> LaneMixture:
        return super().from_state_dict(d, slots, upgraded(arrays))

    def check(self) -> None:
        super().check()
        c, table = self.clock[0], self.table.reshape(ROWS, LANES)
        slots = self.slots.reshape(-1, WIDTH)
        ensure(np.all(np.isfinite(table)) and np.all(np.isfinite(slots)), "a number is not finite")
        ensure(
            0 <= c.n < MAX_STEPS and c.sgd in (0, 1),
            "the number of steps or a flag is out of range",
        )
        for name in CLOCK.names or ():
            ensure(math.isfinite(c[name]), f"{name} is not finite")
        for name in (
            "sample_weights",
            "norms",
            "scaled_norms",
            "deviations",
            "risk",
            "squares",
            *RISKS,
        ):
            ensure(0.0 <= c[name] < math.inf, f"the sum of {name} is out of range")
        ensure(0.0 <= c.l1 < math.inf and 0.0 <= c.l2 < math.inf, "l1 or l2 is out of range")
        ensure(0 <= c.snapshot <= c.n + 1, "the snapshot is out of range")
        ensure(c.published in (AVERAGES, MIXTURE, SLOW_LANE), "no such model is published")
        ensure(c.low <= c.high and c.smallest <= c.largest, "a range is empty")
        ensure(c.fresh >= 0 and c.retained >= 0, "a number of features is negative")
        rows = {row: table[int(row) // LANES] for row in (P, A, SHARE, LARGEST, BIAS_WEALTH)}
        ensure(np.all((rows[P] >= MIN_P) & (rows[P] <= 1.0)), "P is out of range")
        ensure(np.all(rows[A] >= 0.0), "A is out of range")
        ensure(np.all(rows[SHARE] > 0.0) and abs(rows[SHARE].sum() - 1.0) < 1e-9, "not shares")
        ensure(np.all(rows[LARGEST] >= 0.0), "a largest derivative is negative")
        ensure(np.all(slots[:, [0, 1, 2]] >= 0.0), "a count or size is negative")
        ensure(np.all(slots[:, 4:8] >= 0.0), "a sum of |u| is negative")
        ensure(np.all(slots[:, 20:] >= 0.0), "a wealth is negative")
        ensure(np.all(slots[slots[:, 0] > 0.0, 1] > 0.0), "a seen feature has no size")
        ensure(not np.any(slots[slots[:, 0] == 0.0]), "a slot without a value holds something")

    @staticmethod
    def start(
        d: int, l1: float, l2: float, sgd: bool, rates: Sequence[float], loss: int, b: float
    ) -> LaneMixture:
        """Return a rule with `d` zero weights.

        Parameters
        ----------
        d
            Number of slots.
        l1, l2, sgd
            The penalties, and whether elastic nets take SGD steps instead of FoBoS steps.
        rates
            The rates of the four elastic nets.
        loss
            The code of the loss.
        b
            The initial intercept.
        """
        rule = new_state(LaneMixture, d)
        c, table = rule.clock[0], rule.table.reshape(ROWS, LANES)
        c.l1, c.l2, c.sgd, c.loss, c.centre = l1, l2, sgd, loss, b
        c.unit = 1.0
        regression = loss >= losses.SQUARED  # to call `is_regression` here would import numba
        c.smallest = c.largest = b
        c.low, c.high = (b, b) if regression else (-MAX_MARGIN, MAX_MARGIN)
        elastic, coins = slice(0, 4), slice(4, LANES)
        for row, value in ((P, 1.0), (SHARE, 1 / LANES), (COEFFICIENT, 1 / LANES), (LARGEST, 1.0)):
            table[int(row) // LANES] = value
        table[int(RATE) // LANES, elastic] = rates
        table[int(WEALTH) // LANES, coins] = COIN_WEALTH
        table[int(BETS) // LANES, coins] = 1.0
        table[int(COIN) // LANES] = 1.0
        table[int(COIN) // LANES, coins] = -1.0
        table[int(UNIT) // LANES] = 1.0
        table[int(UNIT) // LANES, coins] = COIN_WEALTH
        if regression:
            table[int(LARGEST) // LANES, coins] = MIN_LARGEST
        table[int(DENOMINATOR) // LANES] = table[int(LARGEST) // LANES]
        table[int(OVER_LARGEST) // LANES] = 1.0 / table[int(LARGEST) // LANES]
        table[int(RAW) // LANES, 0] = 1.0
        table[int(SCALED) // LANES, 1:4] = 1.0
        table[int(SLOW) // LANES, int(SLOW_NET)] = 1.0
        table[int(AVERAGED) // LANES, [2, 6]] = 0.5
        return rule
