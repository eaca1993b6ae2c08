r"""The lazy elastic net at eight rates side by side: one pass, and nobody has to choose a rate.

Eight elastic nets of `elastic_net.py`, whose ledgers differ as their rates do: the eight $u$ of a slot
are one cache line, which serves all. With $q_t$ the square of the mean of $\|x\|_2$ over the examples so
far, this one among them, and $\bar\omega_t$ the mean of their weights, net $k$ takes the t-th step (from 0)
at the rate

$$\eta_{t,k} = \frac{r_k}{(t + 1)^{1/4}}\;\min\Bigl(\frac1{q_t}, \frac{16}{\|x_t\|_2^2}\Bigr)\frac1{\bar\omega_t}$$

where the shell gives $(t+1)^{-1/4}$, and its intercept at $c\,r_k\,(t + 1)^{-1/4} / \bar\omega_t$, with c as
large a part as `intercept_lr` says. For the absolute loss, whose gradient does not know how large labels are,
the mean of $|y|$ so far multiplies both. When the mean of $\|x\|_2$ has doubled, all weights are divided by as
much as it has grown: what was learnt is taken as learnt of rows as long as those that come now, and what was
lost until then does not count any more.

What is told: with $L_k$ the loss of net k before this example, weighted like the examples, $\omega$ the largest
weight so far, and the logistic loss, $p = \sum_k \pi_k p_k$, $\pi_k \propto e^{-L_k/\omega}$. As that is the mixture
of Bayes, its loss is never more than $\min_k L_k + \omega\log 8$, each time anew. For the other losses it is the margin of the
net of least loss. The weights that are told are that net's.

Cost of a step: the non-zeros of the row, and exponentials and logarithms of eight at once; 64 bytes a slot.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.aligned import in_lines
from streaml1.core.jit import LANES, inlined, kernel
from streaml1.core.prefetch import ahead, ask_rows
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
from streaml1.core.simd.math import decay
from streaml1.optim import losses
from streaml1.optim.elastic_net import A_START, P_LEAST, SHRINKAGE_MOST, STEPS_LEAST, WEIGHT_MOST
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
    answers,
    probability,
    row_of,
    set_row,
    sizes,
    told,
)
from streaml1.optim.structures.slot_arrays import records
from streaml1.optim.structures.soft_threshold import beyond, stepped
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
        ("weights", "f8"),  # sum of the weights of examples
        ("heaviest", "f8"),  # the largest of these
        ("square", "f8"),  # |x|^2 of the row that was gathered
        ("norm", "f8"),  # the mean of |x| when weights were last divided, or at first
        ("scale", "f8"),  # what the rates of this step are multiplied by
        ("slope", "f8"),  # what those of the intercepts are multiplied by
        ("leader", "i8"),  # the lane of least loss
    ],
    align=True,
)

ONE, TWO, LANE, LINE = (np.uint64(n) for n in (1, 2, LANES, 8 * LANES))

LOSS_MOST = 1e100
SCALE_MOST = 1e100  # values may be so small that their squares are none, and weights
GROWN = 2.0  # rows are so many times as long as they were: weights are divided
LONGEST = 16.0  # the square of a row is over that of the mean, for its rate
OF_LABELS, OF_VALUES = 7.0, 30.0  # times `intercept_lr`, over the rate of weights; values are far
TINY = 5e-324
UNCOUNTED = np.int64(2**62)  # weights: too many, however many the row of a step loses


@inlined
def _gather(rule: Any, ids: Any, values: Any, lo: Any, hi: Any) -> Any:
    """Margins over P."""
    table = np.uint64(rule.u.ctypes.data)
    edge = row_of(rule.lanes, A)
    far = ahead(ids, hi)
    a, b = splat(0.0), splat(0.0)
    odd = hi - (hi - lo) % TWO
    for k in range(lo, odd, TWO):  # two sums: neither waits for the other
        ask_rows(ids, values, k)
        prefetch_early(rule.u, np.uint64(ids[k + far]) * LANE)
        u = load_f64x8(table + np.uint64(ids[k]) * LINE)
        v = load_f64x8(table + np.uint64(ids[k + ONE]) * LINE)
        a = add(a, mul(beyond(u, edge), splat(values[k])))
        b = add(b, mul(beyond(v, edge), splat(values[k + ONE])))
    if odd < hi:
        prefetch_early(rule.u, np.uint64(ids[odd + far]) * LANE)
        u = load_f64x8(table + np.uint64(ids[odd]) * LINE)
        a = add(a, mul(beyond(u, edge), splat(values[odd])))
    return add(a, b)


@inlined
def _step(table: Any, ids: Any, values: Any, k: Any, edge: Any, steps: Any) -> None:
    """Take the steps of eight nets in one weight each."""
    place = table + np.uint64(ids[k]) * LINE
    w = beyond(load_f64x8(place), edge)
    store_f64x8(place, stepped(w, edge, steps, splat(values[k])))


@inlined
def _least(lanes: Any, leader: Any) -> Any:
    """The first lane of least loss, which some have lost less than the leader."""
    best = np.uint64(leader)
    for k in range(LANE):
        if lanes[LOSS + k] < lanes[LOSS + best]:
            best = np.uint64(k)
    return best


@inlined
def _square(values: Any, lo: Any, hi: Any) -> float:
    """The sum of the squares of some values."""
    odd = hi - (hi - lo) % LANE
    sums = splat(0.0)
    for k in range(lo, odd, LANE):
        x = load(values, k)
        sums = add(sums, mul(x, x))
    square = hsum(sums)
    for k in range(odd, hi):
        square += values[k] * values[k]
    return square


@inlined
def _measure(rule: Any, loss: int, label: float, w: float, intercept_lr: float) -> None:
    """Learn how long rows are, how large labels and how heavy examples; set the rates of a step."""
    c = rule.clock[0]
    c.n += 1
    c.norms += math.sqrt(c.square)
    c.labels += label
    c.weights += w
    c.heaviest = max(c.heaviest, w)
    mean = c.norms / c.n
    if c.norm == 0.0:
        c.norm = mean
    q = max(mean * mean, c.square / LONGEST)
    size = c.labels / c.n if loss == losses.ABSOLUTE else 1.0
    if c.weights > 0.0:
        size *= min(c.n / c.weights, SCALE_MOST)
    c.scale = min((min(1.0 / q, SCALE_MOST) if q > 0.0 else 1.0) * size, SCALE_MOST)
    values = loss == losses.ABSOLUTE or loss == losses.SQUARED
    c.slope = intercept_lr * (OF_VALUES if values else OF_LABELS) * size


@inlined
def _risen(edge: Any, low: Any, more: Any) -> tuple[Any, Any]:
    """The sum of two eights, given what rounding of the first has lost; and what it has then."""
    grown = sub(more, low)
    risen = add(edge, grown)
    return risen, sub(sub(risen, edge), grown)


@inlined
def _pay(rule: Any, eta: float) -> None:
    """Have all weights pay the penalty of a step."""
    c, lanes = rule.clock[0], rule.lanes
    rate = mul(splat(eta * c.scale), row_of(lanes, RATE))
    pay, lost = mul(rate, splat(c.l1)), mul(rate, splat(c.l2))
    before, edge = row_of(lanes, P), row_of(lanes, A)
    if c.sgd:
        kept = sub(splat(1.0), lost)
        gone = sub(kept, splat(TINY))  # below 0 where nothing is kept
        after = select_negative(gone, before, mul(before, kept))
        risen, low = _risen(edge, row_of(lanes, A_LOW), div(pay, after))
        risen = select_negative(gone, splat(math.inf), risen)
    else:
        after = div(before, add(splat(1.0), lost))
        risen, low = _risen(edge, row_of(lanes, A_LOW), div(pay, before))
    set_row(lanes, P, after)
    set_row(lanes, A, risen)
    set_row(lanes, A_LOW, low)
    most = lane_max(splat(SHRINKAGE_MOST), mul(splat(STEPS_LEAST), pay))
    small = sub(after, splat(P_LEAST))
    far = lane_max(neg(small), sub(mul(risen, after), most))
    if any_negative(neg(far)):
        renormalize(rule)


@inlined
def _divide(rule: Any, by: float) -> None:
    """Divide all weights."""
    after = div(row_of(rule.lanes, P), splat(by))
    set_row(rule.lanes, P, after)
    if any_negative(sub(after, splat(P_LEAST))):
        renormalize(rule)


@kernel
def _mark_held(u: Any, edges: Any, held: Any) -> None:
    """Write down for each slot whether a lane has more than its edge."""
    for j in range(np.uint64(len(held))):
        more = False
        for k in range(LANE):
            more |= abs(u[j * LANE + k]) > edges[k]
        held[j] = more


class ElasticNetLanes(NamedTuple):
    """State of eight lazy elastic nets: rows of eight `u`, their ledgers, and what they share."""

    u: Annotated[Any, np.float64]
    lanes: Annotated[Any, np.float64]
    clock: Annotated[Any, CLOCK]

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        """Leave the margins over P in `lanes`, and the squared norm in `clock`."""
        set_row(self.lanes, MARGIN, _gather(self, ids, values, lo, hi))
        self.clock[0].square = _square(values, lo, hi)
        return 0.0

    def prefetch_next(self, ids: Any, values: Any, lo: Any, hi: Any) -> None:
        pass  # `margin` does

    def output_and_gradient(
        self, online: Any, a: float, y: float, w: float, out: Any
    ) -> tuple[float, float]:
        """Have each net answer for itself."""
        c, o, lanes = self.clock[0], online[0], self.lanes
        margins = add(mul(row_of(lanes, MARGIN), row_of(lanes, P)), row_of(lanes, B))
        e = decay(sizes(margins))
        if o.loss == losses.LOGISTIC:
            p = probability(lanes, margins, c, e)
        else:
            p = told(lanes, margins, c, o.loss)
        value, g = answers(margins, y, o.loss, e)
        most = splat(o.clip_gradient)
        g = mul(lane_max(neg(most), lane_min(most, g)), splat(w))
        value = mul(lane_min(splat(LOSS_MOST), value), splat(w))
        set_row(lanes, LOSS, add(row_of(lanes, LOSS), value))
        set_row(lanes, STEP, mul(row_of(lanes, RATE), g))
        if any_negative(sub(row_of(lanes, LOSS), splat(lanes[LOSS + np.uint64(c.leader)]))):
            c.leader = _least(lanes, c.leader)
            if o.most:  # other weights are told from now on: have them counted
                o.held = UNCOUNTED
        _measure(self, o.loss, abs(y), w, o.intercept_lr)
        return p, 1.0

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        table, lanes = np.uint64(self.u.ctypes.data), self.lanes
        c = self.clock[0]
        slope = mul(row_of(lanes, STEP), splat(step * c.slope))
        set_row(lanes, B, sub(row_of(lanes, B), slope))
        s = mul(row_of(lanes, STEP), div(splat(step * c.scale), row_of(lanes, P)))
        edge = row_of(lanes, A)
        far = ahead(ids, hi)
        odd = hi - (hi - lo) % TWO
        for k in range(lo, odd, TWO):
            # `margin` asks for the others.
            prefetch_early(self.u, np.uint64(ids[k + ONE + far]) * LANE)
            _step(table, ids, values, k, edge, s)
            _step(table, ids, values, k + ONE, edge, s)
        if odd < hi:
            _step(table, ids, values, odd, edge, s)

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        if c.l1 != 0.0 or c.l2 != 0.0:
            _pay(self, eta)
        if c.norms > GROWN * c.norm * c.n:
            grown = c.norms / c.n / c.norm
            c.norm *= grown
            _divide(self, grown)
            set_row(self.lanes, LOSS, splat(0.0))  # of rows of another size

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
        """The margin that is told; with `out`, its sigmoid."""
        lanes = self.lanes
        a = _gather(self, ids, values, lo, hi)
        margins = add(mul(a, row_of(lanes, P)), row_of(lanes, B))
        if out and online[0].loss == losses.LOGISTIC:
            return probability(lanes, margins, self.clock[0], decay(sizes(margins)))
        a = told(lanes, margins, self.clock[0], online[0].loss)
        return losses.sigmoid(a) if out else a

    def has_capacity(self, nnz: Any) -> bool:
        return True

    def weight(self, j: Any) -> float:
        lane = np.uint64(self.clock[0].leader)
        u = self.u[np.uint64(j) * LANE + lane]
        return math.copysign(max(abs(u) - self.lanes[A + lane], 0.0) * self.lanes[P + lane], u)

    def is_zero_block(self, j: Any) -> bool:
        seen_mask = False
        for k in range(LANE):
            seen_mask |= self.u[(j + k) * LANE] != 0.0
        return not seen_mask

    def _lane(self, row: Any) -> float:
        """What a row of `lanes` has of the leader."""
        return float(self.lanes[int(row) + int(self.clock[0].leader)])

    def weights(self) -> Any:
        u = self._table()[:, int(self.clock[0].leader)]
        w, slots = np.zeros(len(u)), np.flatnonzero(u)  # few, where names are hashed
        u = u[slots]
        w[slots] = np.copysign(np.maximum(np.abs(u) - self._lane(A), 0.0) * self._lane(P), u)
        return w

    def intercept(self, online: Any) -> float:
        return self._lane(B)

    def _table(self) -> Any:
        return self.u.reshape(-1, LANES)

    def seen_mask(self) -> Any:
        return self._table()[:, 0] != 0.0

    def live_mask(self) -> Any:
        held = np.empty(self.size, bool)
        _mark_held(self.u, self.lanes[A : A + LANE], held)
        return held

    def drop(self, slots: Any) -> None:
        self._table()[slots] = A_START

    def reserve(self, nnz: int) -> ElasticNetLanes:
        return self

    @property
    def size(self) -> int:
        return len(self.u) // LANES

    def grow(self, d: int) -> ElasticNetLanes:
        table = _table(d)
        table[: self.size] = self._table()
        return self._replace(u=table.reshape(-1))

    def remap(self, new_slots: Any, d: int) -> ElasticNetLanes:
        kept = new_slots >= 0
        table = _table(d)
        table[new_slots[kept]] = self._table()[kept]
        return self._replace(u=table.reshape(-1))

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.live_mask())
        arrays = {"u": self._table()[slots], "lanes": self.lanes.copy(), "clock": self.clock.copy()}
        return slots, arrays

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> ElasticNetLanes:
        ensure(set(arrays) == {"u", "lanes", "clock"}, "other arrays")
        for name, shape in (("u", (len(slots), LANES)), ("lanes", (ROWS * LANES,))):
            ensure(arrays[name].dtype == np.float64 and arrays[name].shape == shape, f"not {name}")
        ensure(arrays["clock"].dtype == CLOCK and arrays["clock"].shape == (1,), "not a ledger")
        clock = records(1, CLOCK)  # aligned, as kernels are compiled for
        clock[:] = arrays["clock"]
        table = _table(d)
        table[slots] = arrays["u"]
        return ElasticNetLanes(table.reshape(-1), arrays["lanes"].copy(), clock)

    def check(self) -> None:
        ensure(self.u.dtype == np.float64 and self.u.ndim == 1, "u is no row of floats")
        ensure(len(self.u) % LANES == 0, "u has no whole rows")
        ensure(self.lanes.dtype == np.float64 and self.lanes.shape == (ROWS * LANES,), "no lanes")
        ensure(self.clock.dtype == CLOCK and self.clock.shape == (1,), "the ledger is no record")
        c, lanes = self.clock[0], self.lanes.reshape(ROWS, LANES)
        ensure(0 <= c.leader < LANES, f"lane {c.leader} leads")
        ensure(c.n >= 0 and 0.0 <= c.norms < math.inf, "the sum of norms is out of range")
        ensure(0.0 <= c.norm < math.inf and 0.0 <= c.labels < math.inf, "a mean is out of range")
        ensure(0.0 <= c.heaviest <= c.weights < math.inf, "weights of examples are out of range")
        ensure(0.0 <= c.scale < math.inf and 0.0 <= c.slope < math.inf, "a scale is out of range")
        ensure(0.0 <= c.l1 < math.inf and 0.0 <= c.l2 < math.inf, "l1 or l2 is out of range")
        ensure(c.sgd in (0, 1), f"sgd is {c.sgd}")
        p, a, low, rates, b, loss = lanes[:6]
        ensure(np.all((p >= P_LEAST) & (p <= 1.0)), "P is out of range")
        ensure(np.all((a >= A_START) & (a * p < WEIGHT_MOST)), "A is out of range")
        ensure(np.all(np.abs(low) <= a), "A_low is out of range")
        ensure(np.all((rates > 0.0) & (rates < math.inf)), "a rate is out of range")
        ensure(np.all(np.abs(b) < WEIGHT_MOST), "an intercept is out of range")
        ensure(np.all((loss >= 0.0) & (loss < math.inf)), "a loss is out of range")
        ensure(loss[c.leader] == loss.min(), "another lane should lead")
        ensure(np.all(np.abs(self.u) < WEIGHT_MOST / P_LEAST), "an entry of u is out of range")
        table = self._table() != 0.0
        ensure(np.array_equal(table.any(axis=1), table.all(axis=1)), "a slot is half touched")

    @staticmethod
    def start(d: int, l1: float, l2: float, sgd: bool, rates: Any, b: float) -> ElasticNetLanes:
        """`d` zero weights in each net, with rates r_k and intercepts that start at `b`."""
        clock = records(1, CLOCK)
        clock[0] = (l1, l2, sgd, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, LANES // 2)
        lanes = np.zeros((ROWS, LANES))
        lanes[:5] = np.array([1.0, A_START, 0.0, 0.0, b])[:, None]
        lanes[3] = rates
        return ElasticNetLanes(_table(d).reshape(-1), lanes.reshape(-1), clock)


def _table(d: int) -> Any:
    """Zeros for `d` slots, each a cache line."""
    return in_lines(d * LANES, np.float64).reshape(d, LANES)
