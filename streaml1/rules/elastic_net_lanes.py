r"""The lazy elastic net at eight rates side by side: one pass, and nobody has to choose a rate.

Eight elastic nets of `elastic_net.py`, whose ledgers differ as their rates do: the eight $u$ of a slot
are one cache line, which serves all. With $q_t$ the mean of $\|x\|_2^2$ over the examples so far, this
one among them, net $k$ takes the t-th step (from 0) at the rate

$$\eta_{t,k} = \frac{r_k}{q_t\,(t + 1)^{1/4}}$$

where the shell gives $(t+1)^{-1/4}$. For the absolute loss, whose gradient does not know how large
labels are, the mean of $|y|$ so far multiplies it.

What is told: with $L_k$ the loss of net k before this example, weighted like the examples, and the
logistic loss, $p = \sum_k \pi_k p_k$, $\pi_k \propto e^{-L_k}$. As that is the mixture of Bayes, its loss is
never more than $\min_k L_k + \log 8$ for weights up to 1. For the other losses it is the margin of the
net of least loss. The weights that are told are that net's.

Cost of a step: the non-zeros of the row, and eight exponentials and logarithms; 64 bytes a slot.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1 import losses
from streaml1.jit import (
    LANES,
    eight_at,
    eight_of,
    greater,
    inlined,
    lesser,
    minus,
    plus,
    prefetch,
    put_eight,
    scratch,
    signed,
    times,
)
from streaml1.rows import ensure
from streaml1.rules import rebase
from streaml1.rules.elastic_net import (
    A_START,
    P_LEAST,
    SHRINKAGE_MOST,
    STEPS_LEAST,
    WEIGHT_MOST,
)
from streaml1.rules.parts.slots import records

__all__ = ["ElasticNetLanes"]

CLOCK = np.dtype(
    [
        ("l1", "f8"),
        ("l2", "f8"),
        ("sgd", "i8"),
        ("n", "i8"),  # examples learnt
        ("squares", "f8"),  # sum of |x|^2 over them
        ("labels", "f8"),  # sum of |y|
        ("square", "f8"),  # |x|^2 of the row that was gathered
        ("scale", "f8"),  # what the rates of this step are multiplied by
        ("leader", "i8"),  # the lane of least loss
    ],
    align=True,
)

# The rows of `lanes`, eight floats each.
P, A, A_LOW, RATE, B, LOSS, STEP, MARGIN = (np.uint64(LANES * row) for row in range(8))
ROWS = 8

LANE, LINE = np.uint64(LANES), np.uint64(8 * LANES)
# How many non-zeros ahead of the current one memory is asked for.
AHEAD = np.uint64(64)

# Nets that have lost so much more than the best have no say.
LOST = 40.0
LOSS_MOST = 1e100


@inlined
def _beyond(u: Any, edge: Any, least: Any) -> Any:
    """The part of eight u outside of [-A, A]."""
    return minus(u, lesser(greater(u, least), edge))


@inlined
def _gather(rule: Any, ids: Any, values: Any, lo: Any, hi: Any) -> tuple[Any, float]:
    """Margins over P, and the squared norm of the row."""
    table, ledger = np.uint64(rule.u.ctypes.data), np.uint64(rule.lanes.ctypes.data)
    edge = eight_at(ledger + np.uint64(8) * A)
    least = minus(eight_of(0.0), edge)
    ahead = AHEAD if hi + AHEAD <= np.uint64(len(ids)) else np.uint64(0)
    a, square = eight_of(0.0), 0.0
    for k in range(lo, hi):
        prefetch(rule.u, np.uint64(ids[k + ahead]) * LANE)
        x = values[k]
        u = eight_at(table + np.uint64(ids[k]) * LINE)
        a = plus(a, times(_beyond(u, edge, least), eight_of(x)))
        square += x * x
    return a, square


@inlined
def _told(lanes: Any, margin: Any, leader: int, loss: int) -> float:
    """The margin that is told, of eight."""
    own = np.uint64(leader)
    if loss != losses.LOGISTIC:
        return float(margin[own])
    true, false, others = 0.0, 0.0, 0
    for k in range(LANE):
        behind = lanes[LOSS + k] - lanes[LOSS + own]
        if behind < LOST:
            share = math.exp(-behind)
            p = losses.sigmoid(margin[k])
            true += share * p
            false += share * losses.sigmoid(-margin[k])
            others += 1
    if others == 1 or true == 0.0 or false == 0.0:
        return float(margin[own])
    return math.log(true) - math.log(false)


class ElasticNetLanes(NamedTuple):
    """State of eight lazy elastic nets: rows of eight `u`, their ledgers, and what they share."""

    u: Annotated[Any, np.float64]
    lanes: Annotated[Any, np.float64]
    clock: Annotated[Any, CLOCK]

    def gather(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        """Leave the margins over P in `lanes`, and the squared norm in `clock`."""
        a, square = _gather(self, ids, values, lo, hi)
        put_eight(np.uint64(self.lanes.ctypes.data) + np.uint64(8) * MARGIN, a)
        self.clock[0].square = square
        return 0.0

    def respond(self, online: Any, a: float, y: float, w: float, out: Any) -> tuple[float, float]:
        """Have each net answer for itself."""
        c, o, lanes = self.clock[0], online[0], self.lanes
        for k in range(LANE):
            lanes[MARGIN + k] = lanes[MARGIN + k] * lanes[P + k] + lanes[B + k]
        margin = _told(lanes, lanes[MARGIN:], c.leader, o.loss)
        most = o.clip_gradient
        for k in range(LANE):
            loss, g = losses.value_and_derivative(o.loss, lanes[MARGIN + k], y)
            g = max(-most, min(most, g)) * w
            lanes[LOSS + k] += min(loss, LOSS_MOST) * w
            lanes[B + k] -= o.intercept_lr * g
            lanes[STEP + k] = lanes[RATE + k] * g
        best = np.uint64(c.leader)
        for k in range(LANE):
            if lanes[LOSS + k] < lanes[LOSS + best]:
                best = np.uint64(k)
        if np.int64(best) != c.leader:
            c.leader = best
            if o.most:  # other weights are told from now on: have them counted
                o.held = o.most + 1
        c.n += 1
        c.squares += c.square
        c.scale = c.n / c.squares if c.squares > 0.0 else 1.0
        if o.loss == losses.ABSOLUTE:
            c.labels += abs(y)
            c.scale *= c.labels / c.n
        return losses.output(o.loss, margin), 1.0

    def scatter(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        table, ledger = np.uint64(self.u.ctypes.data), np.uint64(self.lanes.ctypes.data)
        lanes = self.lanes
        eta = step * self.clock[0].scale
        for k in range(LANE):
            lanes[STEP + k] *= eta / lanes[P + k]
        edge = eight_at(ledger + np.uint64(8) * A)
        least = minus(eight_of(0.0), edge)
        s = eight_at(ledger + np.uint64(8) * STEP)
        for k in range(lo, hi):
            place = table + np.uint64(ids[k]) * LINE
            v = minus(_beyond(eight_at(place), edge, least), times(s, eight_of(values[k])))
            put_eight(place, plus(v, signed(edge, v)))

    def tick(self, eta: float) -> None:
        c, lanes = self.clock[0], self.lanes
        if c.l1 == 0.0 and c.l2 == 0.0:
            return
        far = False
        for k in range(LANE):
            rate = eta * c.scale * lanes[RATE + k]
            if c.sgd:
                kept = 1.0 - rate * c.l2
                if kept <= 0.0:
                    lanes[A + k] = math.inf
                    far = True
                    continue
                lanes[P + k] *= kept
            grown = rate * c.l1 / lanes[P + k] - lanes[A_LOW + k]
            if not c.sgd:
                lanes[P + k] /= 1.0 + rate * c.l2
            risen = lanes[A + k] + grown
            lanes[A_LOW + k] = (risen - lanes[A + k]) - grown
            lanes[A + k] = risen
            shrunk = risen * lanes[P + k]
            far |= lanes[P + k] < P_LEAST or max(SHRINKAGE_MOST, STEPS_LEAST * rate * c.l1) < shrunk
        if far:
            rebase(self)

    def rebase(self) -> None:
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
        lanes, margin = self.lanes, scratch()
        a, _ = _gather(self, ids, values, lo, hi)
        put_eight(np.uint64(margin.ctypes.data), a)
        for k in range(LANE):
            margin[k] = margin[k] * lanes[P + k] + lanes[B + k]
        told = _told(lanes, margin, self.clock[0].leader, online[0].loss)
        return losses.sigmoid(told) if out else told

    def room(self, nnz: Any) -> bool:
        return True

    def weight(self, j: Any) -> float:
        lane = np.uint64(self.clock[0].leader)
        u = self.u[np.uint64(j) * LANE + lane]
        return math.copysign(max(abs(u) - self.lanes[A + lane], 0.0) * self.lanes[P + lane], u)

    def _lane(self, row: Any) -> float:
        """What a row of `lanes` has of the leader."""
        return float(self.lanes[int(row) + int(self.clock[0].leader)])

    def weights(self) -> Any:
        u = self._table()[:, int(self.clock[0].leader)]
        w = np.maximum(np.abs(u) - self._lane(A), 0.0) * self._lane(P)
        return np.copysign(w, u, out=w)

    def intercept(self, online: Any) -> float:
        return self._lane(B)

    def _table(self) -> Any:
        return self.u.reshape(-1, LANES)

    def touched(self) -> Any:
        return self._table()[:, 0] != 0.0

    def holding(self) -> Any:
        return (np.abs(self._table()) > self.lanes[A : A + LANE]).any(axis=1)

    def drop(self, slots: Any) -> None:
        self._table()[slots] = A_START

    def make_room(self, nnz: int) -> ElasticNetLanes:
        return self

    @property
    def size(self) -> int:
        return len(self.u) // LANES

    def grow(self, d: int) -> ElasticNetLanes:
        table = _table(d)
        table[: self.size] = self._table()
        return self._replace(u=table.reshape(-1))

    def renumber(self, new_slots: Any, d: int) -> ElasticNetLanes:
        kept = new_slots >= 0
        table = _table(d)
        table[new_slots[kept]] = self._table()[kept]
        return self._replace(u=table.reshape(-1))

    def dump(self) -> tuple[Any, dict[str, Any]]:
        slots = np.flatnonzero(self.holding())
        arrays = {"u": self._table()[slots], "lanes": self.lanes.copy(), "clock": self.clock.copy()}
        return slots, arrays

    @staticmethod
    def restore(d: int, slots: Any, arrays: dict[str, Any]) -> ElasticNetLanes:
        ensure(set(arrays) == {"u", "lanes", "clock"}, "other arrays")
        for name, shape in (("u", (len(slots), LANES)), ("lanes", (ROWS * LANES,))):
            ensure(arrays[name].dtype == np.float64 and arrays[name].shape == shape, f"not {name}")
        ensure(arrays["clock"].dtype == CLOCK and arrays["clock"].shape == (1,), "not a ledger")
        clock = np.zeros(1, CLOCK)  # aligned, as kernels are compiled for
        clock[:] = arrays["clock"]
        table = _table(d)
        table[slots] = arrays["u"]
        return ElasticNetLanes(table.reshape(-1), arrays["lanes"].copy(), clock.view(np.recarray))

    def check(self) -> None:
        ensure(self.u.dtype == np.float64 and self.u.ndim == 1, "u is no row of floats")
        ensure(len(self.u) % LANES == 0, "u has no whole rows")
        ensure(self.lanes.dtype == np.float64 and self.lanes.shape == (ROWS * LANES,), "no lanes")
        ensure(self.clock.dtype == CLOCK and self.clock.shape == (1,), "the ledger is no record")
        c, lanes = self.clock[0], self.lanes.reshape(ROWS, LANES)
        ensure(0 <= c.leader < LANES, f"lane {c.leader} leads")
        ensure(c.n >= 0 and 0.0 <= c.squares < math.inf, "the sum of squares is out of range")
        ensure(0.0 <= c.labels < math.inf and 0.0 <= c.scale < math.inf, "a scale is out of range")
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
        clock[0] = (l1, l2, sgd, 0, 0.0, 0.0, 0.0, 1.0, LANES // 2)
        lanes = np.zeros((ROWS, LANES))
        lanes[:5] = np.array([1.0, A_START, 0.0, 0.0, b])[:, None]
        lanes[3] = rates
        return ElasticNetLanes(_table(d).reshape(-1), lanes.reshape(-1), clock)


def _table(d: int) -> Any:
    """Zeros for `d` slots, each a cache line."""
    size = 8 * LANES
    memory = np.zeros(d * size + size, np.uint8)
    first = -memory.ctypes.data % size
    return memory[first : first + d * size].view(np.float64).reshape(d, LANES)
