r"""A mixture of eight learners without a rate to choose: `lr="auto"`.

| lanes | learner | learns from |
|---|---|---|
| 0 | lazy elastic net, rate 10 over the mean squared norm of a row | values x |
| 1 to 3 | the same, rates 0.5, 3 and 30 | scaled values z |
| 4 to 7 | coin betting for each coordinate, initial wealth 0.04, 0.16, 0.64, 2.56 | scaled values z |

`docs/elastic-net.md` explains the method and measures it ("No learning rate to tune"). This file holds the update
rule, one learner per SIMD lane; its parts are in `structures/`:

| part | file |
|---|---|
| x - m for a feature in each of the first 16 rows (m: its usual value), written x from there on | `feature_origins` |
| z: x over the mean size of its feature, bounded | `feature_scales` |
| the floats of a slot, and the weight of each lane | `lane_slots` |
| the numbers of each lane | `lane_table` |
| mixtures of their clipped margins, whose combination predicts | `lane_mixing` |
| the scalars that lanes share; means that resist outliers; units of rates | `lane_clock` |
| intercepts, rates and penalties of a step | `lane_steps` |
| the published model | `lane_margins` |
| joining models that have learnt parts of a stream | `joined_lanes`, `lane_momentum` |
| older model files | `lane_states` |

The lanes are independent learners, except that they share the step count and the *support*: while lane 6 holds a
feature at zero, it weighs nothing in any lane.

**Elastic nets.** Lipton & Elkan (2015), Duchi & Singer (2009); folded into two scalars per lane, as in
`elastic_net.py`. With the square $q_t$ of the mean of $\|x\|_2$ so far ($\|z\|_2$ for lanes 1 to 3), a step has
the rate

$$\eta_{t,k} = \frac{r_k}{(t + 1)^{1/4}}\;\min\Bigl(\frac1{q_t}, \frac{16}{\|x_t\|_2^2}\Bigr)$$

The model supplies $(t+1)^{-1/4}$.

**Coins.** Orabona & Tommasi (2017), *Training deep networks without learning rates through coin betting*.
With s the largest |z| of the feature so far, g the derivative of the loss, and L the largest |g| so far:

$$u = -g z / s, \qquad R \leftarrow \max(R + \hat w u, 0), \qquad Z \leftarrow Z + u, \qquad G \leftarrow G + |u|$$

$$\hat w = \frac{\mathrm{sgn}(Z)\,[\,|Z| - \lambda_1 t]_+}{L + G + \lambda_2 t}\Bigl(c + \frac RL\Bigr), \qquad
\text{margin} = \sum_j \hat w_j z_j / s_j$$

The penalty of t examples is one threshold on a sum of gradients, as in dual averaging. It needs no work for features
that are absent.

**Margins** of lanes and mixtures are relative to a centre: the mean target, for the Poisson loss its logarithm. They
are without the offset of the row, which losses and derivatives add. Where the loss is a function of a - y, the
target is y less the offset instead. In mixtures, that of lane 0, whose values are unbounded, is limited by the others.

**Invariance.** If a column is multiplied by a power of two, all lanes but lane 0 give the same bits.

**Forgetting.** With l1 > 0, a slot outside of the support is cleared once the features that are new since
the last time outnumber those that were left then. So memory follows the number of non-zero weights. A feature
that was cleared is learnt from zero again.

Cost of a step: O(non-zeros of the row). Memory: 216 bytes per slot.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import LANES, inlined, kernel, u64
from streaml1.core.prefetch import prefetch_rows, wide_prefetch_distance
from streaml1.core.simd import (
    add,
    concat_upper_lower,
    copysign,
    div,
    lane_max,
    load_f64x8,
    mul,
    prefetch,
    select_negative,
    splat,
    stack_buffer,
    store_f64x8,
    sub,
)
from streaml1.core.types import Bools, Floats, Ints, Records
from streaml1.optim import losses
from streaml1.optim.rule_state import Ledger, PerSlot, RuleState, Scratch, new_state
from streaml1.optim.structures.feature_origins import (
    FORGOTTEN,
    ORIGIN_ROWS,
    ORIGIN_WIDTH,
    count_value,
    from_origin,
    origins_of,
)
from streaml1.optim.structures.feature_scales import add_size, bounded
from streaml1.optim.structures.joined_lanes import JoinedLanes, divide_coins, joined_lanes
from streaml1.optim.structures.lane_clock import (
    AVERAGES,
    CLOCK,
    MAX_LEAD,
    MAX_MARGIN,
    MIXTURE,
    SLOW_LANE,
    count_label,
    count_poisson_target,
    count_target,
    is_snapshot_due,
    lead_of_plain_lane,
    mixture_temperature,
    rate_unit,
    relative_weight,
)
from streaml1.optim.structures.lane_margins import (
    bounded_margins,
    candidate_margins,
    clip,
    complete,
    count_risks,
    published_margin,
    take_snapshot,
)
from streaml1.optim.structures.lane_mixing import (
    PRIOR_VARIANCE,
    combine,
    learn_mixtures,
    opinions_of,
    share_of_coefficients,
)
from streaml1.optim.structures.lane_momentum import (
    GROUP_CANDIDATES,
    SHARD_CANDIDATES,
    MovedCandidate,
    add_momentum,
)
from streaml1.optim.structures.lane_slots import (
    AVERAGE_COIN,
    AVERAGE_NET,
    AVERAGED_NET,
    LARGEST_SIZE,
    LINE,
    SLOT_BYTES,
    SLOW_NET,
    STALE_MIXTURE,
    STALE_SLOW,
    STAMP,
    STRIDE,
    SUPPORT,
    SUPPORT_LANE,
    TOTAL,
    WIDTH,
    averaged_weight,
    lane_values,
    lane_weight,
    lanes_of,
    slot_weights,
    stale_weight,
)
from streaml1.optim.structures.lane_states import check_lanes, upgraded
from streaml1.optim.structures.lane_steps import (
    average_intercepts,
    refresh,
    step_intercepts,
    step_penalties,
    update_scales,
)
from streaml1.optim.structures.lane_table import (
    A_LOW,
    AVERAGE_BIAS,
    AVERAGE_MARGIN,
    AVERAGED,
    BETS,
    COEFFICIENT,
    COIN,
    COVARIANCE,
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
    UNIT,
    WEALTH,
    A,
    P,
    abs_f64x8,
    derivatives,
    load_row,
    store_row,
)
from streaml1.optim.structures.slot_arrays import scratch_for, zeros
from streaml1.optim.update_rule import renormalize, weight

__all__ = ["COIN_WEALTH", "LaneMixture"]

COIN_WEALTH = (0.04, 0.16, 0.64, 2.56)
REGRESSION_CEILING, LABEL_CEILING = 12.0, 3.0  # of scaled values

LANE = u64(LANES)
# What `_margins` saves for a non-zero: the weights of eight lanes, and then these floats.
SCRATCH_WIDTH = 16
SAVED_Z, SAVED_BET, SAVED_TOTAL, SAVED_LARGEST = u64(8), u64(9), u64(10), u64(11)
SAVED_NET, SAVED_COIN, SAVED_X = u64(12), u64(13), u64(14)
SAVED_BYTES = u64(8 * SCRATCH_WIDTH)

MIN_LARGEST = 1e-100  # instead of 0, which must not divide
MIN_SIZE = 1e-300  # sum of sizes, whose reciprocal must be finite
MIN_FRESH = 2**16  # features before slots are looked through for those to forget
TINY = 5e-324


@inlined
def _scaled(
    x: float, n: float, total: float, s: float, ceiling: float
) -> tuple[float, float, float, float]:
    """Return the mean size of a feature, the scaled value z of x, the largest |z|, and z over it.

    `total` is the sum of n sizes and that of x, and `s` the largest |z| before.
    """
    if x == 1.0 and total == n + 1.0 and s <= 1.0:  # a category: save the time of three divisions
        return 1.0, 1.0, 1.0, 1.0
    mean = total / (n + 1.0)
    z = bounded(x, mean, ceiling)
    s = max(s, abs(z))
    return mean, z, s, z / s if s > 0.0 else 0.0  # 0: a feature without a slot, whose value is 0


@inlined
def _margins(rule: Any, ids: Any, values: Any, lo: Any, hi: Any, saves: bool) -> tuple[Any, Any]:
    """Return the margins of a row without intercepts: over P, and by other weights.

    The latter are the averaged weights and, with `saves`, those as of the snapshot. With `saves` it
    leaves in the scratch array, for each non-zero, the weights of eight lanes, z, z / s, the sum of
    sizes and s after it, two averaged weights, and x less its origin; and the squared norms in the
    clock.
    """
    c, slots, table = rule.clock[0], rule.slots, rule.table
    base, out = np.uint64(slots.ctypes.data), np.uint64(rule.scratch.ctypes.data)
    threshold, t = table[A + SUPPORT_LANE], float(c.n)
    distance = wide_prefetch_distance(ids, hi)
    margins, net_margin, coin_margin = splat(0.0), 0.0, 0.0
    stale_margin, slow_margin, snapshot = 0.0, 0.0, float(c.snapshot)
    square, scaled_square = 0.0, 0.0
    with_origins, ceiling = c.with_origin > 0, c.ceiling
    for k in range(lo, hi):
        ahead = np.uint64(ids[k + distance]) * STRIDE
        prefetch(slots, ahead)
        prefetch(slots, ahead + LANE)
        prefetch(slots, ahead + LANE + LANE)
        i, x = np.uint64(ids[k]) * STRIDE, values[k]
        n, total = slots[i], slots[i + TOTAL]
        if with_origins:
            x = from_origin(rule.origins, ids[k], x)
        total = add_size(n, total, abs(x))
        mean, z, s, bet = _scaled(x, n, total, slots[i + LARGEST_SIZE], ceiling)
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
            if slots[i + STAMP] < snapshot and n > 0.0:  # not touched since
                unit = n / max(slots[i + TOTAL], MIN_SIZE)
                slots[i + STALE_MIXTURE] = stale_weight(
                    table, w, unit, unit / slots[i + LARGEST_SIZE]
                )
                slots[i + STALE_SLOW] = lanes[SLOW_NET] * table[P + SLOW_NET] * unit
            bounded_x = z * mean * supported
            stale_margin += slots[i + STALE_MIXTURE] * bounded_x
            slow_margin += slots[i + STALE_SLOW] * bounded_x
            square += x * x
            scaled_square += z * z
            store_f64x8(out, w)
            saved = (k - lo) * np.uint64(SCRATCH_WIDTH)
            rule.scratch[saved + SAVED_Z] = z
            rule.scratch[saved + SAVED_BET] = bet
            rule.scratch[saved + SAVED_TOTAL] = total
            rule.scratch[saved + SAVED_LARGEST] = s
            rule.scratch[saved + SAVED_NET] = net
            rule.scratch[saved + SAVED_COIN] = coin
            rule.scratch[saved + SAVED_X] = x
            out += SAVED_BYTES
    if saves:
        c.square = square
        c.scaled_square = scaled_square
    return margins, lanes_of(stale_margin, slow_margin, net_margin, coin_margin)


@inlined
def _clear_slot(slots: Any, i: Any) -> None:
    """Clear the slot at `i`, so that its feature is learnt from zero again."""
    for k in range(STRIDE):
        slots[i + k] = 0.0
    slots[i] = FORGOTTEN


@inlined
def _forget(rule: Any) -> None:
    """Clear all slots outside of the support."""
    c, slots = rule.clock[0], rule.slots
    threshold = rule.table[A + SUPPORT_LANE]
    retained = 0
    for i in range(u64(0), np.uint64(len(slots)), STRIDE):
        if slots[i] > 0.0:
            if abs(slots[i + SUPPORT]) > threshold:
                retained += 1
            else:
                _clear_slot(slots, i)
    c.retained = retained
    c.fresh = 0


@kernel
def _refresh_joined(rule: Any) -> None:
    """Refresh the table after models were joined, whose last step has touched all slots."""
    refresh(rule.clock[0], rule.table)
    take_snapshot(rule.clock[0], rule.table)
    rule.clock[0].snapshot += 1


@kernel
def _fill_weights(rule: Any, w: Any) -> None:
    """Write the weight of each slot."""
    for j in range(np.uint64(len(w))):
        w[j] = weight(rule, j)


class LaneMixtureState(NamedTuple):
    """Slots, origins of features, what `margin` saves, the table of the lanes, shared scalars."""

    slots: Annotated[Floats, PerSlot(np.float64, width=WIDTH, dropped=FORGOTTEN)]
    origins: Annotated[Floats, PerSlot(np.float64, width=ORIGIN_WIDTH)]
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
        margins = complete(c, table, load_row(table, MARGIN))
        clipped = clip(margins, c.low, c.high)
        mixed = bounded_margins(c, margins)
        a, opinions, centre = combine(table, c, mixed), opinions_of(table, c, mixed), c.centre
        p = losses.output(c.loss, a + offset, parameter)
        candidates = candidate_margins(c, table, clipped)
        regression = losses.is_regression(c.loss)
        w = relative_weight(c, w)
        if regression:
            margins = clipped
            if c.loss != losses.POISSON:  # a function of a - y
                y, offset = y - offset, 0.0
                starts = c.targets == 0 and o.intercept_lr > 0.0 and w > 0.0
                y = count_target(c, y, a, o.intercept_lr) if w > 0.0 else y
                if starts:  # the first target becomes the centre: nothing is learnt from it
                    a = centre = c.centre
                    opinions = (a, a)
                    margins = mixed = splat(a)
                    candidates = (a, a, a, a)
            elif w > 0.0:
                y = count_poisson_target(c, y, a, offset, o.intercept_lr)
        elif c.loss == losses.LOGISTIC:
            count_label(c, y, w)
        c.unit = rate_unit(c, parameter)
        g = derivatives(add(margins, splat(offset)), c, y, parameter)
        g = mul(clip(g, -o.clip_gradient, o.clip_gradient), splat(w))
        store_row(table, GRADIENT, g)
        largest = load_row(table, LARGEST)
        risen = lane_max(largest, abs_f64x8(g))
        store_row(table, LARGEST, select_negative(load_row(table, COIN), risen, largest))
        update_scales(c, table, o.intercept_lr)
        count_risks(c, a, candidates, offset, y, w, parameter)
        temperature = mixture_temperature(c)
        learn_mixtures(table, c, mixed, opinions, centre, offset, y, w, parameter, temperature)
        if c.newton:
            c.lead = lead_of_plain_lane(c)
        return p, 1.0

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        c, slots, table, scratch = self.clock[0], self.slots, self.table, self.scratch
        threshold = load_row(table, A)
        t = float(c.n - 1)
        average_intercepts(table, t)
        step_intercepts(c, table, step)
        g = load_row(table, GRADIENT)
        rate = mul(splat(step), mul(load_row(table, SCALE), load_row(table, RATE)))
        steps = concat_upper_lower(g, mul(g, div(rate, load_row(table, P))))
        base, saved_at = np.uint64(slots.ctypes.data), np.uint64(scratch.ctypes.data)
        for k in range(lo, hi):
            i = np.uint64(ids[k]) * STRIDE
            address = base + np.uint64(ids[k]) * SLOT_BYTES
            saved = (k - lo) * np.uint64(SCRATCH_WIDTH)
            w = load_f64x8(saved_at)
            saved_at += SAVED_BYTES
            x, z = scratch[saved + SAVED_X], scratch[saved + SAVED_Z]
            if x == 0.0:  # at the origin, which is as good as absent
                continue
            move = mul(steps, lane_values(table, x, z, scratch[saved + SAVED_BET]))
            elastic = sub(w, move)
            elastic = add(elastic, copysign(threshold, elastic))
            outcome = sub(load_f64x8(address + LINE), move)
            store_f64x8(address + LINE, concat_upper_lower(outcome, elastic))
            line = load_f64x8(address + u64(2) * LINE)
            wealth = lane_max(sub(line, mul(w, move)), splat(0.0))
            store_f64x8(address + u64(2) * LINE, concat_upper_lower(wealth, line))
            n, line = slots[i], load_f64x8(address)
            store_f64x8(address, concat_upper_lower(add(line, abs_f64x8(move)), line))
            slots[i] = n + 1.0
            slots[i + TOTAL] = scratch[saved + SAVED_TOTAL]
            slots[i + LARGEST_SIZE] = scratch[saved + SAVED_LARGEST]
            slots[i + STAMP] = t
            known = 1.0 if n > 0.0 else 0.0
            slots[i + AVERAGE_NET] = known * scratch[saved + SAVED_NET]
            slots[i + AVERAGE_COIN] = known * scratch[saved + SAVED_COIN]
            c.fresh += n == 0.0
            if t < c.origin_rows and count_value(self.origins, ids[k], n, t, values[k]):
                _clear_slot(slots, i)
                c.with_origin += 1

    def apply_penalty(self, eta: float) -> None:
        c, table = self.clock[0], self.table
        if (c.l1 != 0.0 or c.l2 != 0.0) and step_penalties(c, table, eta):
            renormalize(self)
        refresh(c, table)
        if is_snapshot_due(c):
            take_snapshot(c, table)
        if c.l1 > 0.0 and c.fresh >= max(MIN_FRESH, c.retained):
            _forget(self)

    def renormalize(self) -> None:
        slots, table = self.slots, self.table
        for i in range(u64(0), np.uint64(len(slots)), STRIDE):
            for k in range(u64(4)):
                u = slots[i + LANE + k]
                if u != 0.0:
                    w = math.copysign(max(abs(u) - table[A + k], 0.0) * table[P + k], u)
                    slots[i + LANE + k] = w
        for k in range(u64(4)):
            table[P + k] = 1.0
            table[A + k] = 0.0
            table[A_LOW + k] = 0.0

    def predict(self, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
        """Return the combined margin, or its `losses.response` if `out` is not 0."""
        c, table = self.clock[0], self.table
        margins, averages = _margins(self, ids, values, lo, hi, False)
        margins = complete(c, table, margins)
        if c.serving:
            a = published_margin(c, table, margins, averages)
        else:
            a = combine(table, c, bounded_margins(c, margins))
        a = losses.full_stream_margin(c.loss, a, online[0].loss_parameter)
        return losses.response(c.loss, a) if out else a

    def has_capacity(self, nnz: Any) -> bool:
        return nnz * np.uint64(SCRATCH_WIDTH) <= np.uint64(len(self.scratch))

    def weight(self, j: Any) -> float:
        c, slots, table = self.clock[0], self.slots, self.table
        i = np.uint64(j) * STRIDE
        if not abs(slots[i + SUPPORT]) > table[A + SUPPORT_LANE]:
            return 0.0
        unit = slots[i] / max(slots[i + TOTAL], MIN_SIZE)
        bet = unit / slots[i + LARGEST_SIZE]
        net = lane_weight(table, slots, i, AVERAGED_NET)
        if c.published == SLOW_LANE:
            w = lane_weight(table, slots, i, SLOW_NET) * unit
        elif c.published == MIXTURE:
            w, of_coefficients = 0.0, share_of_coefficients(c)
            for k in range(u64(0), LANE):
                of_z = unit if k < u64(4) else bet
                share = (1.0 - of_coefficients) * table[SHARE + k]
                share += of_coefficients * table[COEFFICIENT + k]
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
        """Return the published intercept that belongs to `weights`: to x instead of x - m."""
        b = self.intercept_at_origins(online)
        if not self.clock[0].with_origin:
            return b
        has, origins = origins_of(self.origins)
        return b - float(self.weights()[has] @ origins[has])

    def intercept_at_origins(self, online: Records) -> float:
        """Return the published margin of a row without features, or with all at their origins."""
        c = self.clock[0]

        def row(offset: Any) -> Floats:
            return self.table[int(offset) : int(offset) + LANES]

        if c.published == AVERAGES:
            return float(row(AVERAGED) @ (row(AVERAGE_BIAS) + c.centre))
        if c.published == SLOW_LANE:
            return float(row(SLOW) @ (row(INTERCEPT) + c.centre))
        of_coefficients = float(c.by_coefficients + 0.5 * c.by_both)
        weights = (1.0 - of_coefficients) * row(SHARE) + of_coefficients * row(COEFFICIENT)
        centre = float(c.centre) if c.newton else 0.0
        return centre + float(weights @ (row(INTERCEPT) + (c.centre - centre)))

    def live_mask(self) -> Bools:
        slots = self.slots.reshape(-1, WIDTH)
        live: Bools = (slots[:, 0] > 0.0) | origins_of(self.origins)[0]
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
        c.centre, c.low, c.high, c.lead = 0.0, -math.inf, math.inf, math.inf
        for row in (INTERCEPT, AVERAGE_BIAS):
            table[int(row) : int(row) + LANES] = 0.0
        return view._replace(table=table)

    def drop(self, slots: Ints) -> None:
        """Clear some slots; they stay seen, and keep their origins."""
        table = self.slots.reshape(-1, WIDTH)
        table[slots] = 0.0
        table[slots, 0] = FORGOTTEN

    def candidates(
        self, parts: Sequence[LaneMixture], rates: Sequence[Iterable[Floats]]
    ) -> Iterator[tuple[str, LaneMixture]]:
        """Yield the candidates of `structures.joined_lanes`."""
        return self._joined(joined_lanes(self, parts, rates))

    @property
    def version(self) -> tuple[float, bool]:
        """What differs in models that earlier versions began, which cannot be joined with others.

        The ceiling of scaled values, and whether coefficients of the mixture take Newton steps.
        """
        return float(self.clock[0].ceiling), bool(self.clock[0].newton)

    always_has_momentum = True

    def candidates_with_momentum(
        self, parts: Sequence[LaneMixture], rates: Sequence[Iterable[Floats]], before: LaneMixture
    ) -> Iterator[tuple[str, LaneMixture]]:
        """Yield the candidates of `structures.lane_momentum`, of parts after `start_shards`."""
        kinds = {name: (one.nets, one.coins) for name, one in SHARD_CANDIDATES.items()}
        joined = joined_lanes(self, parts, rates, kinds, divided=True)
        return self._moved(joined, before, SHARD_CANDIDATES)

    def candidates_of_group(
        self, parts: Sequence[LaneMixture], rates: Sequence[Iterable[Floats]], before: LaneMixture
    ) -> Iterator[tuple[str, LaneMixture]]:
        """Yield the candidates of members of a group."""
        kinds = {name: (one.nets, one.coins) for name, one in GROUP_CANDIDATES.items()}
        return self._moved(joined_lanes(self, parts, rates, kinds), before, GROUP_CANDIDATES)

    def _moved(
        self,
        candidates: Iterable[JoinedLanes],
        before: LaneMixture,
        momenta: Mapping[str, MovedCandidate],
    ) -> Iterator[tuple[str, LaneMixture]]:
        for name, rule in self._joined(candidates):
            add_momentum(rule, self, before, momenta[name])
            yield name, rule

    def start_shards(self, shards: int, n_rows: int) -> None:
        """Let coins start one of some shards that learn the next rows, `n_rows` all together."""
        divide_coins(self, shards, n_rows)

    def _joined(self, candidates: Iterable[JoinedLanes]) -> Iterator[tuple[str, LaneMixture]]:
        for one in candidates:
            rule = self._replace(
                slots=zeros(len(self.slots), self.slots),
                origins=zeros(len(self.origins), self.origins),
                table=zeros(len(self.table), self.table),
                clock=self.clock.copy(),
            )
            rule.slots[:], rule.origins[:] = one.slots.ravel(), one.origins
            rule.table[:], rule.clock[0] = one.table.ravel(), one.clock
            _refresh_joined(rule)
            yield one.name, rule

    def reserve(self, nnz: int) -> LaneMixture:
        return self._replace(scratch=scratch_for(nnz * SCRATCH_WIDTH, self.scratch))

    @classmethod
    def from_state_dict(cls, d: int, slots: Ints, arrays: dict[str, Any]) -> LaneMixture:
        return super().from_state_dict(d, slots, upgraded(arrays))

    def check(self) -> None:
        super().check()
        check_lanes(self.slots, self.origins, self.table, self.clock[0])

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
        c.unit = c.by_both = c.newton = 1
        regression = loss >= losses.SQUARED  # to call `is_regression` here would import numba
        c.smallest = c.largest = b
        # For the Poisson loss z is clipped at 3 instead, and features have no origins: means are
        # exponentials of margins, and saturated values would give others.
        if loss != losses.POISSON:
            c.ceiling = REGRESSION_CEILING if regression else LABEL_CEILING
            c.origin_rows = ORIGIN_ROWS
        c.low, c.high, c.lead = (b, b, 0.0) if regression else (-MAX_MARGIN, MAX_MARGIN, MAX_LEAD)
        elastic, coins = slice(0, 4), slice(4, LANES)
        for row, value in ((P, 1.0), (SHARE, 1 / LANES), (COEFFICIENT, 1 / LANES), (LARGEST, 1.0)):
            table[int(row) // LANES] = value
        covariance = int(COVARIANCE) // LANES
        table[covariance : covariance + LANES] = PRIOR_VARIANCE * np.eye(LANES)
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
