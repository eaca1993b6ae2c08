r"""The lazy elastic net at eight learning rates at once: one pass, and no rate to choose.

Eight elastic nets of `elastic_net.py` (Lipton & Elkan 2015; Duchi & Singer 2009), the *lanes*, whose
ledgers differ as their rates do. The eight $u$ of a slot are one cache line. Let $q_t$ be the square of the
mean of $\|x\|_2$ over the examples so far, the current one included, and $\bar\omega_t$ the mean of their sample
weights. Net $k$ takes step t (from 0) at the rate

$$\eta_{t,k} = \frac{r_k}{(t + 1)^{1/4}}\;\min\Bigl(\frac1{q_t}, \frac{16}{\|x_t\|_2^2}\Bigr)\frac1{\bar\omega_t}$$

The model supplies $(t+1)^{-1/4}$. The rate of the intercept is $c\,r_k\,(t + 1)^{-1/4} / \bar\omega_t$, with c
proportional to `intercept_lr`. For the absolute loss, whose gradient does not depend on the scale of the
labels, the mean of $|y|$ so far multiplies both. When the mean of $\|x\|_2$ has doubled, all weights are
divided by the growth, as if the past examples had been as long as the current ones, and the losses restart
at 0.

Prediction: let $L_k$ be the loss of net k before this example, weighted like the examples, and $\omega$ the
largest sample weight so far. With the logistic loss, $p = \sum_k \pi_k p_k$, $\pi_k \propto e^{-L_k/\omega}$. This is
the Bayes mixture, so its loss since the last restart is at most $\min_k L_k + \omega\log 8$. With the other
losses it is the margin of the net with the least loss, the *leader*. `weights` returns the weights of the
leader.

Cost of a step: O(non-zeros of the row), and exponentials and logarithms of one f64x8. Memory: 64 bytes
per slot.
"""  # noqa: E501

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import LANES, inlined, kernel
from streaml1.core.prefetch import prefetch_distance, prefetch_rows
from streaml1.core.rows import ensure
from streaml1.core.simd import (
    add,
    any_negative,
    div,
    hsum,
    lane_max,
    lane_min,
    load,
    load_f64x8,
    mul,
    neg,
    prefetch_early,
    select_negative,
    splat,
    store_f64x8,
    sub,
)
from streaml1.core.simd.math import exp_neg
from streaml1.core.types import Bools, Floats, Records
from streaml1.optim import losses
from streaml1.optim.elastic_net import A_START, MAX_SHRINKAGE, MAX_WEIGHT, MIN_P, MIN_STEPS
from streaml1.optim.rule_state import Ledger, PerSlot, RuleState, new_state
from streaml1.optim.structures.lane_mixture import (
    A_LOW,
    LOSS,
    MARGIN,
    RATE,
    ROWS,
    STEP,
    A,
    B,
    P,
    abs_f64x8,
    combined_margin,
    combined_probability,
    load_row,
    losses_and_derivatives,
    store_row,
)
from streaml1.optim.structures.soft_threshold import soft_threshold, stepped
from streaml1.optim.update_rule import renormalize

__all__ = ["ElasticNetLanes"]

CLOCK = np.dtype(
    [
        ("l1", "f8"),
        ("l2", "f8"),
        ("sgd", "i8"),
        ("n", "i8"),  # examples learnt
        ("norms", "f8"),  # sum of |x| over them
        ("labels", "f8"),  # sum of |y|
        ("weights", "f8"),  # sum of the sample weights
        ("heaviest", "f8"),  # the largest sample weight
        ("square", "f8"),  # |x|^2 of the current row
        ("norm", "f8"),  # the mean of |x| when the weights were last divided, or at first
        ("scale", "f8"),  # factor of the rates of this step
        ("slope", "f8"),  # factor of the rates of the intercepts
        ("leader", "i8"),  # the lane with the least loss
    ],
    align=True,
)

ONE, TWO, LANE, LINE = (np.uint64(n) for n in (1, 2, LANES, 8 * LANES))

MAX_LOSS = 1e100
MAX_SCALE = 1e100  # of the rates: values and sample weights may be so small that squares underflow
MAX_GROWTH = 2.0  # of the mean norm of a row, before all weights are divided
MAX_SQUARE = 16.0  # of a row, relative to that of the mean, before it lowers the rate
OF_LABELS, OF_VALUES = 7.0, 30.0  # c over `intercept_lr`: regression targets lie further from 0
TINY = 5e-324
UNCOUNTED = np.int64(2**62)  # more non-zero weights than any cap: forces a recount


@inlined
def _margins(rule: Any, ids: Any, values: Any, lo: Any, hi: Any) -> Any:
    """Return the margins of a row over P, as f64x8."""
    base = np.uint64(rule.u.ctypes.data)
    threshold = load_row(rule.lanes, A)
    distance = prefetch_distance(ids, hi)
    a, b = splat(0.0), splat(0.0)
    end = hi - (hi - lo) % TWO
    for k in range(lo, end, TWO):  # two accumulators hide the latency of the additions
        prefetch_rows(ids, values, k)
        prefetch_early(rule.u, np.uint64(ids[k + distance]) * LANE)
        u = load_f64x8(base + np.uint64(ids[k]) * LINE)
        v = load_f64x8(base + np.uint64(ids[k + ONE]) * LINE)
        a = add(a, mul(soft_threshold(u, threshold), splat(values[k])))
        b = add(b, mul(soft_threshold(v, threshold), splat(values[k + ONE])))
    if end < hi:
        prefetch_early(rule.u, np.uint64(ids[end + distance]) * LANE)
        u = load_f64x8(base + np.uint64(ids[end]) * LINE)
        a = add(a, mul(soft_threshold(u, threshold), splat(values[end])))
    return add(a, b)


@inlined
def _step(base: Any, ids: Any, values: Any, k: Any, threshold: Any, steps: Any) -> None:
    """Take the gradient steps of eight nets on one non-zero."""
    address = base + np.uint64(ids[k]) * LINE
    w = soft_threshold(load_f64x8(address), threshold)
    store_f64x8(address, stepped(w, threshold, steps, splat(values[k])))


@inlined
def _find_leader(lanes: Any, leader: Any) -> Any:
    """Return the first lane with the least loss, given that it is below that of `leader`."""
    best = np.uint64(leader)
    for k in range(LANE):
        if lanes[LOSS + k] < lanes[LOSS + best]:
            best = np.uint64(k)
    return best


@inlined
def _square(values: Any, lo: Any, hi: Any) -> float:
    """Return the sum of the squares of the values of a row."""
    tail = hi - (hi - lo) % LANE
    sums = splat(0.0)
    for k in range(lo, tail, LANE):
        x = load(values, k)
        sums = add(sums, mul(x, x))
    square = hsum(sums)
    for k in range(tail, hi):
        square += values[k] * values[k]
    return square


@inlined
def _update_scales(rule: Any, loss: int, label: float, w: float, intercept_lr: float) -> None:
    """Add an example to the means of norms, labels and weights; set the rates of its step."""
    c = rule.clock[0]
    c.n += 1
    c.norms += math.sqrt(c.square)
    c.labels += label
    c.weights += w
    c.heaviest = max(c.heaviest, w)
    mean = c.norms / c.n
    if c.norm == 0.0:
        c.norm = mean
    q = max(mean * mean, c.square / MAX_SQUARE)
    size = c.labels / c.n if loss == losses.ABSOLUTE else 1.0
    if c.weights > 0.0:
        size *= min(c.n / c.weights, MAX_SCALE)
    c.scale = min((min(1.0 / q, MAX_SCALE) if q > 0.0 else 1.0) * size, MAX_SCALE)
    values = loss == losses.ABSOLUTE or loss == losses.SQUARED
    c.slope = intercept_lr * (OF_VALUES if values else OF_LABELS) * size


@inlined
def _compensated_add(a: Any, low: Any, b: Any) -> tuple[Any, Any]:
    """Return the Kahan sum of `a` (with its compensation `low`) and `b`, and its compensation."""
    increase = sub(b, low)
    total = add(a, increase)
    return total, sub(sub(total, a), increase)


@inlined
def _apply_penalties(rule: Any, eta: float) -> None:
    """Advance the eight ledgers by one step."""
    c, lanes = rule.clock[0], rule.lanes
    rate = mul(splat(eta * c.scale), load_row(lanes, RATE))
    l1_step, l2_step = mul(rate, splat(c.l1)), mul(rate, splat(c.l2))
    before, threshold = load_row(lanes, P), load_row(lanes, A)
    if c.sgd:
        factor = sub(splat(1.0), l2_step)
        vanishes = sub(factor, splat(TINY))  # negative where factor <= 0: all weights become 0
        after = select_negative(vanishes, before, mul(before, factor))
        risen, low = _compensated_add(threshold, load_row(lanes, A_LOW), div(l1_step, after))
        risen = select_negative(vanishes, splat(math.inf), risen)
    else:
        after = div(before, add(splat(1.0), l2_step))
        risen, low = _compensated_add(threshold, load_row(lanes, A_LOW), div(l1_step, before))
    store_row(lanes, P, after)
    store_row(lanes, A, risen)
    store_row(lanes, A_LOW, low)
    limit = lane_max(splat(MAX_SHRINKAGE), mul(splat(MIN_STEPS), l1_step))
    small = sub(after, splat(MIN_P))
    excess = lane_max(neg(small), sub(mul(risen, after), limit))
    if any_negative(neg(excess)):
        renormalize(rule)


@inlined
def _divide_weights(rule: Any, divisor: float) -> None:
    """Divide all weights."""
    after = div(load_row(rule.lanes, P), splat(divisor))
    store_row(rule.lanes, P, after)
    if any_negative(sub(after, splat(MIN_P))):
        renormalize(rule)


@kernel
def _mark_live(u: Any, thresholds: Any, live: Any) -> None:
    """Set `live` for each slot with a non-zero weight in any lane."""
    for j in range(np.uint64(len(live))):
        any_lane = False
        for k in range(LANE):
            any_lane |= abs(u[j * LANE + k]) > thresholds[k]
        live[j] = any_lane


class ElasticNetLanesState(NamedTuple):
    """u of each slot and lane, the rows of `lane_mixture`, and the shared ledger."""

    u: Annotated[Floats, PerSlot(np.float64, width=LANES, dropped=A_START)]
    lanes: Annotated[Floats, Ledger(np.float64, ROWS * LANES)]
    clock: Annotated[Records, Ledger(CLOCK)]


class ElasticNetLanes(RuleState, ElasticNetLanesState):
    """Eight lazy elastic nets."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        """Store the margins over P in `lanes` and the squared norm in `clock`; return 0."""
        store_row(self.lanes, MARGIN, _margins(self, ids, values, lo, hi))
        self.clock[0].square = _square(values, lo, hi)
        return 0.0

    def prefetch_next(self, ids: Any, values: Any, lo: Any, hi: Any) -> None:
        pass  # `margin` does

    def output_and_gradient(
        self, online: Any, a: float, y: float, w: float, out: Any
    ) -> tuple[float, float]:
        """Return the combined prediction; store the derivative of each net in `lanes`."""
        c, o, lanes = self.clock[0], online[0], self.lanes
        margins = add(mul(load_row(lanes, MARGIN), load_row(lanes, P)), load_row(lanes, B))
        e = exp_neg(abs_f64x8(margins))
        if o.loss == losses.LOGISTIC:
            p = combined_probability(lanes, margins, c, e)
        else:
            p = combined_margin(lanes, margins, c, o.loss)
        value, g = losses_and_derivatives(margins, y, o.loss, e)
        limit = splat(o.clip_gradient)
        g = mul(lane_max(neg(limit), lane_min(limit, g)), splat(w))
        value = mul(lane_min(splat(MAX_LOSS), value), splat(w))
        store_row(lanes, LOSS, add(load_row(lanes, LOSS), value))
        store_row(lanes, STEP, mul(load_row(lanes, RATE), g))
        if any_negative(sub(load_row(lanes, LOSS), splat(lanes[LOSS + np.uint64(c.leader)]))):
            c.leader = _find_leader(lanes, c.leader)
            if o.most:  # the non-zero weights are now those of another net
                o.held = UNCOUNTED
        _update_scales(self, o.loss, abs(y), w, o.intercept_lr)
        return p, 1.0

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        base, lanes = np.uint64(self.u.ctypes.data), self.lanes
        c = self.clock[0]
        slope = mul(load_row(lanes, STEP), splat(step * c.slope))
        store_row(lanes, B, sub(load_row(lanes, B), slope))
        s = mul(load_row(lanes, STEP), div(splat(step * c.scale), load_row(lanes, P)))
        threshold = load_row(lanes, A)
        distance = prefetch_distance(ids, hi)
        end = hi - (hi - lo) % TWO
        for k in range(lo, end, TWO):
            # `margin` has prefetched the even ones.
            prefetch_early(self.u, np.uint64(ids[k + ONE + distance]) * LANE)
            _step(base, ids, values, k, threshold, s)
            _step(base, ids, values, k + ONE, threshold, s)
        if end < hi:
            _step(base, ids, values, end, threshold, s)

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        if c.l1 != 0.0 or c.l2 != 0.0:
            _apply_penalties(self, eta)
        if c.norms > MAX_GROWTH * c.norm * c.n:
            growth = c.norms / c.n / c.norm
            c.norm *= growth
            _divide_weights(self, growth)
            store_row(self.lanes, LOSS, splat(0.0))  # those were losses on shorter rows

    def renormalize(self) -> None:
        lanes = self.lanes
        for base in range(np.uint64(0), np.uint64(len(self.u)), LANE):
            for k in range(LANE):
                u = self.u[base + k]
                if u != 0.0:
                    w = math.copysign(max(abs(u) - lanes[A + k], 0.0) * lanes[P + k], u)
                    self.u[base + k] = w + math.copysign(A_START, w)
        for k in range(LANE):
            lanes[P + k] = 1.0
            lanes[A + k] = A_START
            lanes[A_LOW + k] = 0.0

    def predict(self, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
        """Return the combined margin, or its sigmoid if `out` is not 0."""
        lanes = self.lanes
        a = _margins(self, ids, values, lo, hi)
        margins = add(mul(a, load_row(lanes, P)), load_row(lanes, B))
        if out and online[0].loss == losses.LOGISTIC:
            e = exp_neg(abs_f64x8(margins))
            return combined_probability(lanes, margins, self.clock[0], e)
        a = combined_margin(lanes, margins, self.clock[0], online[0].loss)
        return losses.sigmoid(a) if out else a

    def has_capacity(self, nnz: Any) -> bool:
        return True

    def weight(self, j: Any) -> float:
        lane = np.uint64(self.clock[0].leader)
        u = self.u[np.uint64(j) * LANE + lane]
        return math.copysign(max(abs(u) - self.lanes[A + lane], 0.0) * self.lanes[P + lane], u)

    def is_zero_block(self, j: Any) -> bool:
        seen = False
        for k in range(LANE):
            seen |= self.u[(j + k) * LANE] != 0.0
        return not seen

    def _of_leader(self, row: Any) -> float:
        """Return the element of a row of `lanes` that belongs to the leader."""
        return float(self.lanes[int(row) + int(self.clock[0].leader)])

    def weights(self) -> Floats:
        u = self._table()[:, int(self.clock[0].leader)]
        w, slots = np.zeros(len(u)), np.flatnonzero(u)  # few, if features are hashed
        u = u[slots]
        w[slots] = np.copysign(
            np.maximum(np.abs(u) - self._of_leader(A), 0.0) * self._of_leader(P), u
        )
        return w

    def intercept(self, online: Records) -> float:
        return self._of_leader(B)

    def _table(self) -> Floats:
        """Return `u` as a matrix of shape (slots, LANES)."""
        return self.u.reshape(-1, LANES)

    def live_mask(self) -> Bools:
        live = np.empty(self.size, bool)
        _mark_live(self.u, self.lanes[A : A + LANE], live)
        return live

    def reserve(self, nnz: int) -> ElasticNetLanes:
        return self

    def check(self) -> None:
        super().check()
        c, lanes = self.clock[0], self.lanes.reshape(ROWS, LANES)
        ensure(0 <= c.leader < LANES, f"leader={c.leader} is not a lane")
        ensure(c.n >= 0 and 0.0 <= c.norms < math.inf, "the sum of norms is out of range")
        ensure(0.0 <= c.norm < math.inf and 0.0 <= c.labels < math.inf, "a mean is out of range")
        ensure(0.0 <= c.heaviest <= c.weights < math.inf, "a sample weight is out of range")
        ensure(0.0 <= c.scale < math.inf and 0.0 <= c.slope < math.inf, "a scale is out of range")
        ensure(0.0 <= c.l1 < math.inf and 0.0 <= c.l2 < math.inf, "l1 or l2 is out of range")
        ensure(c.sgd in (0, 1), f"sgd={c.sgd} is not a flag")
        p, a, low, rates, b, loss = lanes[:6]
        ensure(np.all((p >= MIN_P) & (p <= 1.0)), "P is out of range")
        ensure(np.all((a >= A_START) & (a * p < MAX_WEIGHT)), "A is out of range")
        ensure(np.all(np.abs(low) <= a), "A_low is out of range")
        ensure(np.all((rates > 0.0) & (rates < math.inf)), "a rate is out of range")
        ensure(np.all(np.abs(b) < MAX_WEIGHT), "an intercept is out of range")
        ensure(np.all((loss >= 0.0) & (loss < math.inf)), "a loss is out of range")
        ensure(loss[c.leader] == loss.min(), "the leader does not have the least loss")
        ensure(np.all(np.abs(self.u) < MAX_WEIGHT / MIN_P), "an entry of u is out of range")
        table = self._table() != 0.0
        ensure(
            np.array_equal(table.any(axis=1), table.all(axis=1)),
            "a slot is touched in some lanes only",
        )

    @staticmethod
    def start(
        d: int, l1: float, l2: float, sgd: bool, rates: Sequence[float], b: float
    ) -> ElasticNetLanes:
        """Return a rule with `d` zero weights per net, the rates r_k, and the intercepts `b`."""
        rule = new_state(ElasticNetLanes, d)
        rule.clock[0] = (l1, l2, sgd, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, LANES // 2)
        lanes = rule.lanes.reshape(ROWS, LANES)
        lanes[:5] = np.array([1.0, A_START, 0.0, 0.0, b])[:, None]
        lanes[3] = rates
        return rule
