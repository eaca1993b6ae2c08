r"""Lazy multiclass logistic regression on scaled features, without a learning rate to choose.

The update of `softmax.py` on $z_j$, the value over the mean size of its feature, saturated beyond 1 with the ceiling
3 (see `structures/feature_scales.py`), in place of $x_j$, with AdaGrad's rate for each row of weights (Duchi, Hazan &
Singer 2011). With r the residuals of a row,

$$n_j \leftarrow n_j + z_j^2\,\|r\|_2^2, \qquad \eta_j = \frac{1}{1 + \sqrt{n_j}}, \qquad
a_t = \frac{30}{10 + \max(q_t,\ 1 + \|z_t\|_2^2)}$$

and step t has the rate $a_t \eta_j$ for gradient and penalty of feature j. Here $q_t$ is the square of the mean of
$(1 + \|z\|_2^2)^{1/2}$ so far: a first step changes the margins of its row by a few units, whatever the number of
features and the units of the columns. The intercepts are a row of value 1 without a penalty. The constants were chosen
on streams of 3 to 23 labels and 1 to 150 non-zeros in a row.

A sample weight counts relative to the mean sample weight. Means count each number for at most ten times the mean
of those before it.

The penalty acts as the flow of its subgradient for the time $\tau = a_t\eta_j$:
$v \mapsto e^{-\lambda_2\tau}\,\mathrm{prox}_{c\|\cdot\|}(v)$ with $c = \lambda\,(e^{\lambda_2\tau} - 1)/\lambda_2$, which is $\lambda\tau$ for
$\lambda_2 = 0$. This is the proximal step of FOBOS but for $\lambda_2$, where it has $e^{-\lambda_2\tau}$ for
$1/(1 + \lambda_2\tau)$. Flows for two times add up to that for their sum, and a feature that is absent keeps its
$\eta_j$. So with $A = \sum a_t$, a row that was last touched at $A_0$ has $\tau = \eta_j (A - A_0)$ pending, at any rates
$a_t$.

A feature that is in each of the first 16 rows has an origin m: from then on, x stands for x - m above (see
`structures/feature_origins.py`), and what was learnt of x is forgotten. A value at the origin changes nothing, as if
the feature were absent.

**Invariant.** After the first 16 rows, a feature whose row of weights is zero has neither a scale nor an $n_j$: its
next value starts both again. So, as in `softmax.py`, a slot is live only while its row is not zero, or has an
origin, and memory follows the number of rows that are not. Only a penalty makes a row zero, and hardly ever that of
a feature that matters.

Cost of a step: O(k times the non-zeros of the row), and k exponentials. Memory: 56 bytes per slot more than
`softmax.py`.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from streaml1.core.jit import inlined, kernel, u64
from streaml1.core.rows import ensure
from streaml1.core.simd import array_at, prefetch_early
from streaml1.core.types import Bools, Floats, Ints, Records, Slots
from streaml1.optim.rule_state import MAX_STEPS, Ledger, PerRow, PerSlot, Scratch
from streaml1.optim.softmax import (
    A_START,
    CLOCK,
    SoftmaxRows,
    add_product,
    ahead,
    bring_current,
    largest_weight,
    prefetch_row,
    prox,
)
from streaml1.optim.structures.feature_origins import (
    ORIGIN_ROWS,
    ORIGIN_WIDTH,
    check_origins,
    count_value,
    from_origin,
    origins_of,
)
from streaml1.optim.structures.feature_scales import add_size, bounded
from streaml1.optim.structures.lane_clock import counted, relative_weight
from streaml1.optim.structures.multiclass import (
    begin_outputs,
    finish_outputs,
    move_intercepts,
    softmax_residuals,
    wants_margins,
)
from streaml1.optim.structures.record_layouts import copied_to, dtype_without
from streaml1.optim.structures.slot_arrays import scratch_for
from streaml1.optim.update_rule import renormalize

__all__ = ["ScaledSoftmax"]

SIZES = np.dtype(
    [
        ("count", "f8"),  # rows that had the feature since its weights were last zero
        ("total", "f8"),  # robust sum of |x| over them
        ("squares", "f8"),  # n: sum of z^2 |r|^2 over them
        ("rate", "f8"),  # eta, which follows from n: a division for each touch is enough
    ],
    align=True,
)
SCRATCH = np.dtype([("count", "f8"), ("total", "f8"), ("squares", "f8"), ("z", "f8")], align=True)
RATES = np.dtype(
    [
        ("n", "i8"),  # examples learnt
        ("sample_weights", "f8"),  # robust sum of them
        ("norms", "f8"),  # robust sum of the root of 1 + |z|^2
        ("intercept_squares", "f8"),  # sum of |r|^2
        ("strength", "f8"),  # of the pending penalties
        ("l2", "f8"),
        ("rate", "f8"),  # a of the last step
        ("square", "f8"),  # 1 + |z|^2 of the current row
        ("residual", "f8"),  # |r|^2 of the current row
        ("origin_rows", "i8"),  # rows that decide which features have an origin
        ("with_origin", "i8"),  # number of features that have one
        ("ceiling", "f8"),  # of scaled values; 0: they are clipped to [-3, 3]
        ("max_square", "f8"),  # of a row, relative to that of the mean, before it lowers the rate
    ],
    align=True,
)
NEWER = ("origin_rows", "with_origin", "ceiling", "max_square")
RATES_WITHOUT_ORIGINS = dtype_without(RATES, NEWER)
RATE, SQUARE = 30.0, 10.0  # a is RATE over SQUARE plus the square of a row
OFFSET = 1.0  # of the root of n
CEILING = 3.0
MAX_SQUARE, MAX_SQUARE_WITHOUT_ORIGINS = 1.0, 4.0
MIN_MEAN = 1e-150  # which a weight per unit of x is divided by
MIN_DECAY = 1e-100  # below it, the time of a flow times l2 counts as 0
MAX_DECAY = 700.0  # beyond it, the exponential overflows, and in Python raises
MAX_NUMBER = 1e250


@inlined
def _from_origin(rule: Any, j: Any, x: float) -> float:
    """Return x less the origin of its feature, the one of slot j."""
    return from_origin(rule.origins, j, x) if rule.rates[0].with_origin > 0 else x


@inlined
def _scaled_value(rule: Any, j: Any, x: float) -> float:
    """Return the scaled value of x, which counts in the mean size of its feature."""
    slot, x = rule.sizes[j], _from_origin(rule, j, x)
    total = add_size(slot.count, slot.total, abs(x))
    z: float = bounded(x, total / (slot.count + 1.0), rule.rates[0].ceiling)
    return z


@inlined
def _row_rate(squares: float) -> float:
    """Return the rate of a row over that of the step."""
    return 1.0 / (OFFSET + math.sqrt(squares))


class ScaledSoftmaxState(NamedTuple):
    """State of `Softmax`, sizes and origins of features, the current row, and the rates."""

    u: Annotated[Floats, PerRow(np.float64)]
    b: Annotated[Floats, Scratch(np.float64)]
    scratch: Annotated[Floats, Scratch(np.float64)]
    clock: Annotated[Records, Ledger(CLOCK)]
    sizes: Annotated[Records, PerSlot(SIZES)]
    origins: Annotated[Floats, PerSlot(np.float64, width=ORIGIN_WIDTH)]
    row: Annotated[Records, Scratch(SCRATCH)]
    rates: Annotated[Records, Ledger(RATES)]


class ScaledSoftmax(SoftmaxRows, ScaledSoftmaxState):
    """Lazy multiclass logistic regression on scaled features. The P of its clock is 1."""

    def shrinkage(self, j: Any, base: Any) -> tuple[float, float, float]:
        o, c = self.clock[0], self.rates[0]
        stamp = base + np.uint64(o.width) - u64(1)
        time = self.sizes[j].rate * (o.A - self.u[stamp])
        threshold, decay = c.strength * time, c.l2 * time
        kept = 1.0
        if decay > MIN_DECAY:
            kept = math.exp(-decay)
            if c.strength > 0.0:
                threshold *= math.expm1(min(decay, MAX_DECAY)) / decay
        s, t, theta = prox(self.u, base, np.uint64(o.k), threshold, o.penalty)
        return kept * s, kept * t, theta

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        """Bring the rows current, store the margins in `scratch`, and return 0."""
        o, a, u = self.clock[0], self.scratch, self.u
        k, width = np.uint64(o.k), np.uint64(o.width)
        for c in range(k):
            a[c] = 0.0
        square = 1.0
        distance = ahead(ids, hi)
        ceiling = self.rates[0].ceiling
        restarts = self.rates[0].n >= self.rates[0].origin_rows
        for i in range(lo, hi):
            prefetch_row(self, ids[i + distance])
            prefetch_early(self.sizes, np.uint64(ids[i + distance]))
            base, x = np.uint64(ids[i]) * width, _from_origin(self, ids[i], values[i])
            slot, saved = self.sizes[ids[i]], self.row[i - lo]
            is_zero = not bring_current(self, ids[i]) and restarts
            count = 0.0 if is_zero else slot.count
            total = add_size(count, 0.0 if is_zero else slot.total, abs(x))
            z = bounded(x, total / (count + 1.0), ceiling)
            saved.count = count + 1.0
            saved.total = total
            saved.squares = 0.0 if is_zero else slot.squares
            saved.z = z
            square += z * z
            for c in range(k):
                a[c] += u[base + c] * z
        self.rates[0].square = square
        return 0.0

    def output_and_gradient(
        self, online: Any, a: float, y: float, w: float, out: Any
    ) -> tuple[float, float]:
        """Write probabilities to `out` and residuals to `scratch`; add the label if it is new."""
        o, rates, shared = self.clock[0], self.rates[0], online[0]
        r = self.scratch
        relative = relative_weight(rates, w)
        rates.norms += counted(math.sqrt(rates.square), rates.n - 1, rates.norms)
        mean = rates.norms / rates.n
        rates.rate = RATE / (SQUARE + max(mean * mean, rates.square / rates.max_square))
        first = softmax_residuals(r, self.b, o.k, 1.0, shared, y, relative, out)
        o.k = max(o.k, np.int64(y) + 1)
        residual = 0.0
        for c in range(np.uint64(o.k)):
            residual += r[c] * r[c]
        rates.residual = residual
        if shared.intercept_lr > 0.0:
            rates.intercept_squares += residual
            eta = rates.rate * _row_rate(rates.intercept_squares)
            move_intercepts(self.b, r, o.k, eta)
        return first, 1.0

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # `margin` has left sizes and values in the scratch array.
        o, rates, u, r = self.clock[0], self.rates[0], self.u, self.scratch
        k, width = np.uint64(o.k), np.uint64(o.width)
        t = float(rates.n - 1)
        for i in range(lo, hi):
            slot, saved = self.sizes[ids[i]], self.row[i - lo]
            if saved.z == 0.0:  # at the origin
                continue
            squares = saved.squares + saved.z * saved.z * rates.residual
            slot.count = saved.count
            slot.total = saved.total
            rate = _row_rate(squares)
            slot.squares = squares
            slot.rate = rate
            base, x = np.uint64(ids[i]) * width, rates.rate * rate * saved.z
            for c in range(k):
                u[base + c] -= x * r[c]
            if t < rates.origin_rows and count_value(
                self.origins, ids[i], saved.count - 1.0, t, values[i]
            ):
                rates.with_origin += 1
                slot.count = slot.total = slot.squares = 0.0
                slot.rate = _row_rate(0.0)
                for c in range(k):
                    u[base + c] = 0.0

    def apply_penalty(self, eta: float) -> None:
        o, c = self.clock[0], self.rates[0]
        if o.strength != c.strength or o.l2 != c.l2:
            renormalize(self)
        increase = c.rate - o.A_low
        A = o.A + increase
        o.A_low = (A - o.A) - increase
        o.A = A

    def renormalize(self) -> None:
        o, c = self.clock[0], self.rates[0]
        width = np.uint64(o.width)
        for j in range(np.uint64(len(self.sizes))):
            stamp = np.uint64(j) * width + width - u64(1)
            if self.u[stamp] != 0.0:
                bring_current(self, j)
                self.u[stamp] = A_START
        o.A = A_START
        o.A_low = 0.0
        c.strength = o.strength
        c.l2 = o.l2

    def predict(self, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
        """Return the index of the largest probability; `out` as in `Softmax.predict`."""
        k = np.uint64(self.clock[0].k)
        only_margins = wants_margins(out)
        if not begin_outputs(out, k):
            return -1.0
        a = array_at(out + u64(8), k, np.float64)
        for i in range(lo, hi):
            z = _scaled_value(self, ids[i], values[i])
            add_product(self, ids[i], z, a)
        return finish_outputs(a, self.b, 1.0, k, only_margins)

    def has_capacity(self, nnz: Any) -> bool:
        return nnz <= np.uint64(len(self.row))

    def weight(self, j: Any) -> float:
        """Return the largest absolute value of the k weights of a slot, per unit of x."""
        w = largest_weight(self, j)
        slot = self.sizes[j]
        return w / max(slot.total / slot.count, MIN_MEAN) if w > 0.0 else 0.0

    # Python

    def _means(self, slots: Ints | slice) -> Floats:
        """Return the mean sizes of the features of some slots; 1 for features without a scale."""
        sizes = self.sizes[slots]
        count, means = sizes["count"], np.ones(len(sizes))
        np.divide(sizes["total"], count, out=means, where=count > 0.0)
        return np.maximum(means, MIN_MEAN)

    def weights(self) -> Floats:
        return super().weights() / self._means(slice(None))

    def rows(self, slots: Ints) -> Floats:
        """Return the current weights of some slots per unit of x, shape (slots, k)."""
        return super().rows(slots) / self._means(slots)[:, None]

    def intercepts(self) -> Floats:
        """Return the intercepts that belong to `rows`: to x instead of x - m."""
        has, origins = origins_of(self.origins)
        if not has.any():
            return super().intercepts()
        return super().intercepts() - origins[has] @ self.rows(np.flatnonzero(has))

    def live_mask(self) -> Bools:
        live = super().live_mask() | origins_of(self.origins)[0]
        if self.rates[0]["n"] < self.rates[0]["origin_rows"]:
            live |= self.sizes["count"] > 0.0
        return live

    def drop(self, slots: Ints) -> None:
        """Clear some slots; they keep their origins."""
        super().drop(slots)
        self.sizes[slots] = (0.0, 0.0, 0.0, 1.0 / OFFSET)

    def contributions(self, slots: Slots, values: Floats) -> Floats:
        """Return what values of some slots would each add to the k margins, shape (slots, k)."""
        z = np.empty(len(values))
        _scale_values(self, slots, values, z)
        return super().rows(np.asarray(slots)) * z[:, None]

    def reset_rates(self) -> None:
        """Set all n to 0, once the pending penalties are applied at the rates that they had."""
        _renormalize(self)
        self.sizes["squares"] = 0.0
        self.sizes["rate"][self.seen_mask()] = 1.0 / OFFSET
        self.rates["intercept_squares"] = 0.0

    def reserve(self, nnz: int) -> Self:
        return self._with(row=scratch_for(nnz, self.row))

    def check(self) -> None:
        seen = self.sizes[self.seen_mask()]  # weights depend on them
        squares = seen["squares"]
        ensure(np.all((squares >= 0.0) & (squares < MAX_NUMBER)), "a sum of squares is invalid")
        ensure(np.all(seen["rate"] == 1.0 / (OFFSET + np.sqrt(squares))), "a rate is invalid")
        super().check()
        c = self.rates[0]
        ensure(self.clock[0].P == 1.0, "P is not 1")
        ensure(0 <= c.n <= MAX_STEPS, "the number of examples is out of range")
        for name in ("sample_weights", "norms", "intercept_squares", "strength", "l2"):
            ensure(0.0 <= c[name] < MAX_NUMBER, f"{name} is out of range")
        ensure(c.n == 0 or c.norms > 0.0, "examples have no norms")
        ensure(0.0 <= c.rate <= RATE, "a rate is out of range")
        check_origins(self.origins, c)
        ensure(c.ceiling in (0.0, CEILING), "the ceiling of scaled values is out of range")
        allowed = (MAX_SQUARE, MAX_SQUARE_WITHOUT_ORIGINS)
        ensure(c.max_square in allowed, "the largest square is out of range")
        sizes = self.sizes[super().live_mask()]
        count, total = sizes["count"], sizes["total"]
        ensure(np.all((count > 0.0) & (count <= c.n)), "a count is out of range")
        ensure(np.all((total > 0.0) & (total < MAX_NUMBER)), "a sum of sizes is out of range")
        ensure(np.all(total / count > 0.0), "a mean size is 0")

    @classmethod
    def from_state_dict(cls, d: int, slots: Ints, arrays: dict[str, Any]) -> Self:
        rates = np.atleast_1d(arrays.get("rates", 0))
        if rates.dtype == RATES_WITHOUT_ORIGINS and len(rates) == 1:
            # Of an earlier version: it continues to read values as it did.
            new = copied_to(RATES, rates)
            new["max_square"] = MAX_SQUARE_WITHOUT_ORIGINS
            arrays = {**arrays, "rates": new, "origins": np.zeros((len(slots), ORIGIN_WIDTH))}
        return super().from_state_dict(d, slots, arrays)

    @classmethod
    def start(cls, d: int, k: int, penalty: int, strength: float, l2: float, b: float) -> Self:
        rule = super().start(d, k, penalty, strength, l2, b)
        rule.rates["strength"], rule.rates["l2"] = strength, l2
        rule.rates["origin_rows"] = ORIGIN_ROWS
        rule.rates["ceiling"], rule.rates["max_square"] = CEILING, MAX_SQUARE
        return rule


@kernel
def _renormalize(rule: Any) -> None:
    renormalize(rule)


@kernel
def _scale_values(rule: Any, slots: Any, values: Any, z: Any) -> None:
    """Write the scaled values of features to `z`."""
    for i in range(np.uint64(len(slots))):
        z[i] = _scaled_value(rule, slots[i], values[i])
