r"""Lazy multiclass logistic regression on scaled features, without a learning rate to choose.

The update of `softmax.py` on $z_j$, the value over the mean size of its feature, clipped to $\pm 3$ (see
`structures/feature_scales.py`), in place of $x_j$. Step t has the rate

$$\eta_t = \frac{10}{(t + 1)^{1/4}}\;\min\Bigl(\frac1{q_t}, \frac{16}{1 + \|z_t\|_2^2}\Bigr)$$

for gradient and penalty, where $q_t$ is the square of the mean of $(1 + \|z\|_2^2)^{1/2}$ so far. So a step changes
the margins of its row by a few units, whatever the number of features and the units of the columns. The model
supplies $(t+1)^{-1/4}$. The 10 was chosen on streams of 6 to 23 labels and 18 to 47,236 features.

A sample weight counts relative to the mean sample weight. Means count each number for at most ten times the mean
of those before it.

**Invariant.** A feature whose row of weights is zero has no scale: its next value starts a new mean. So, as
in `softmax.py`, a slot is live only while its row is not zero, and memory follows the number of rows that
are not. Only a penalty makes a row zero, and hardly ever that of a feature that matters.

Cost of a step: O(k times the non-zeros of the row), and k exponentials. Memory: 16 bytes per slot more than
`softmax.py`.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.rows import ensure
from streaml1.core.simd import array_at, prefetch_early
from streaml1.core.types import Bools, Floats, Ints, Records, Slots
from streaml1.optim.rule_state import (
    MAX_STEPS,
    Ledger,
    PerRow,
    PerSlot,
    RuleState,
    Scratch,
    ensure_array,
)
from streaml1.optim.softmax import (
    CLOCK,
    Softmax,
    add_product,
    ahead,
    bring_current,
    prefetch_row,
)
from streaml1.optim.structures.feature_scales import add_size, scaled
from streaml1.optim.structures.lane_clock import MAX_SQUARE, counted, relative_weight
from streaml1.optim.structures.multiclass import begin_outputs, finish_outputs, wants_margins
from streaml1.optim.structures.slot_arrays import records, scratch_for
from streaml1.optim.update_rule import apply_penalty, output_and_gradient, renormalize, weight

__all__ = ["ScaledSoftmax"]

SIZES = np.dtype(
    [
        ("count", "f8"),  # rows that had the feature since its weights were last zero
        ("total", "f8"),  # robust sum of |x| over them
    ],
    align=True,
)
SCRATCH = np.dtype([("count", "f8"), ("total", "f8"), ("z", "f8")], align=True)
RATES = np.dtype(
    [
        ("n", "i8"),  # examples learnt
        ("sample_weights", "f8"),  # robust sum of them
        ("norms", "f8"),  # robust sum of the root of 1 + |z|^2
        ("rate", "f8"),  # of the last step, without the factor of the schedule
        ("square", "f8"),  # 1 + |z|^2 of the current row
    ],
    align=True,
)
RATE = 10.0
MIN_MEAN = 1e-150  # which a weight per unit of x is divided by
MAX_NUMBER = 1e250


@inlined
def _scaled_value(slot: Any, x: float) -> float:
    """Return the scaled value of x, which counts in the mean size of its feature."""
    total = add_size(slot.count, slot.total, abs(x))
    z: float = scaled(x, total / (slot.count + 1.0))
    return z


class ScaledSoftmaxState(NamedTuple):
    """State of `Softmax`, the sizes of features, values of the current row, and the rates."""

    u: Annotated[Floats, PerRow(np.float64)]
    b: Annotated[Floats, Scratch(np.float64)]
    scratch: Annotated[Floats, Scratch(np.float64)]
    clock: Annotated[Records, Ledger(CLOCK)]
    sizes: Annotated[Records, PerSlot(SIZES)]
    row: Annotated[Records, Scratch(SCRATCH)]
    rates: Annotated[Records, Ledger(RATES)]


class ScaledSoftmax(RuleState, ScaledSoftmaxState):
    """Lazy multiclass logistic regression on scaled features."""

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        """Bring the rows current, store the margins over P in `scratch`, and return 0."""
        o, a, u = self.clock[0], self.scratch, self.u
        k, width = np.uint64(o.k), np.uint64(o.width)
        for c in range(k):
            a[c] = 0.0
        square = 1.0
        distance = ahead(ids, hi)
        for i in range(lo, hi):
            prefetch_row(self, ids[i + distance])
            prefetch_early(self.sizes, np.uint64(ids[i + distance]))
            base, x = np.uint64(ids[i]) * width, values[i]
            slot, saved = self.sizes[ids[i]], self.row[i - lo]
            is_zero = not bring_current(self, base)
            count = 0.0 if is_zero else slot.count
            total = add_size(count, 0.0 if is_zero else slot.total, abs(x))
            z = scaled(x, total / (count + 1.0))
            saved.count = count + 1.0
            saved.total = total
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
        relative = relative_weight(self.rates[0], w)
        first, g = output_and_gradient(_plain(self), online, a, y, relative, out)
        return first, g

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        # `margin` has left scales and values in the scratch array.
        o, rates, u, r = self.clock[0], self.rates[0], self.u, self.scratch
        k, width = np.uint64(o.k), np.uint64(o.width)
        rates.norms += counted(math.sqrt(rates.square), rates.n - 1, rates.norms)
        mean = rates.norms / rates.n
        rates.rate = RATE / max(mean * mean, rates.square / MAX_SQUARE)
        s = step * rates.rate / o.P
        for i in range(lo, hi):
            slot, saved = self.sizes[ids[i]], self.row[i - lo]
            slot.count = saved.count
            slot.total = saved.total
            base, x = np.uint64(ids[i]) * width, s * saved.z
            for c in range(k):
                u[base + c] -= x * r[c]

    def apply_penalty(self, eta: float) -> None:
        apply_penalty(_plain(self), eta * self.rates[0].rate)

    def renormalize(self) -> None:
        renormalize(_plain(self))

    def predict(self, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
        """Return the index of the largest probability; `out` as in `Softmax.predict`."""
        k = np.uint64(self.clock[0].k)
        only_margins = wants_margins(out)
        if not begin_outputs(out, k):
            return -1.0
        a = array_at(out + np.uint64(8), k, np.float64)
        for i in range(lo, hi):
            z = _scaled_value(self.sizes[ids[i]], values[i])
            add_product(self, ids[i], z, a)
        return finish_outputs(a, self.b, self.clock[0].P, k, only_margins)

    def has_capacity(self, nnz: Any) -> bool:
        return nnz <= np.uint64(len(self.row))

    def weight(self, j: Any) -> float:
        """Return the largest absolute value of the k weights of a slot, per unit of x."""
        w = weight(_plain(self), j)
        slot = self.sizes[j]
        return w / max(slot.total / slot.count, MIN_MEAN) if w > 0.0 else 0.0

    # Python

    def _with_plain(self, net: Softmax, **arrays: Any) -> Self:
        """Return the rule with other arrays, around another rule for the scaled values."""
        return self._with(u=net.u, b=net.b, scratch=net.scratch, clock=net.clock, **arrays)

    def _means(self, slots: Ints | slice) -> Floats:
        """Return the mean sizes of the features of some slots; 1 for features without a scale."""
        sizes = self.sizes[slots]
        count, means = sizes["count"], np.ones(len(sizes))
        np.divide(sizes["total"], count, out=means, where=count > 0.0)
        return np.maximum(means, MIN_MEAN)

    def weights(self) -> Floats:
        return _plain_of(self).weights() / self._means(slice(None))

    def rows(self, slots: Ints) -> Floats:
        """Return the current weights of some slots per unit of x, shape (slots, k)."""
        return _plain_of(self).rows(slots) / self._means(slots)[:, None]

    def contributions(self, slots: Slots, values: Floats) -> Floats:
        """Return what values of some slots would each add to the k margins, shape (slots, k)."""
        z = np.empty(len(values))
        _scale_values(self, slots, values, z)
        return _plain_of(self).rows(np.asarray(slots)) * z[:, None]

    def live_mask(self) -> Bools:
        return _plain_of(self).live_mask()

    def seen_mask(self) -> Bools:
        return _plain_of(self).seen_mask()

    def drop(self, slots: Ints) -> None:
        _plain_of(self).drop(slots)

    def reserve(self, nnz: int) -> Self:
        return self._with(row=scratch_for(nnz, self.row))

    @property
    def row_width(self) -> int:
        return int(self.clock[0].width)

    @property
    def outputs(self) -> int:
        """Number of labels that there is room for."""
        return _plain_of(self).outputs

    def widen(self, k: int) -> Self:
        """Return the same rule with room for `k` labels."""
        return self._with_plain(_plain_of(self).widen(k))

    def state_dict(self) -> tuple[Ints, dict[str, Any]]:
        slots, saved = _plain_of(self).state_dict()
        sizes = {name: self.sizes[name][slots] for name in SIZES.names or ()}
        return slots, {**saved, **sizes, "rates": self.rates.copy()}

    @classmethod
    def from_state_dict(cls, d: int, slots: Ints, arrays: dict[str, Any]) -> Self:
        own = (*(SIZES.names or ()), "rates")
        plain = {name: array for name, array in arrays.items() if name not in own}
        ensure(len(plain) + len(own) == len(arrays), f"the state must have {', '.join(own)}")
        rule = cls._around(Softmax.from_state_dict(d, slots, plain), d)
        for name in SIZES.names or ():
            ensure_array(arrays[name], name, np.float64, slots.shape)
            rule.sizes[name][slots] = arrays[name]
        ensure_array(arrays["rates"], "rates", RATES, (1,))
        rule.rates[:] = arrays["rates"]
        return rule

    def check(self) -> None:
        super().check()
        _plain_of(self).check()
        c = self.rates[0]
        ensure(0 <= c.n <= MAX_STEPS, "the number of examples is out of range")
        for name in ("sample_weights", "norms"):
            ensure(0.0 <= c[name] < MAX_NUMBER, f"{name} is out of range")
        ensure(c.n == 0 or c.norms > 0.0, "examples have no norms")
        ensure(0.0 <= c.rate <= RATE, "a rate is out of range")
        sizes = self.sizes[self.live_mask()]
        count, total = sizes["count"], sizes["total"]
        ensure(np.all((count > 0.0) & (count <= c.n)), "a count is out of range")
        ensure(np.all((total > 0.0) & (total < MAX_NUMBER)), "a sum of sizes is out of range")
        ensure(np.all(total / count > 0.0), "a mean size is 0")

    @classmethod
    def _around(cls, net: Softmax, d: int) -> Self:
        """Return a rule with new sizes and rates around a rule with `d` slots."""
        return cls(*net, records(d, SIZES), records(0, SCRATCH), records(1, RATES))

    @staticmethod
    def start(d: int, k: int, penalty: int, strength: float, l2: float, b: float) -> ScaledSoftmax:
        """Return a rule with `d` rows of zeros, for `k` labels that were seen."""
        return ScaledSoftmax._around(Softmax.start(d, k, penalty, strength, l2, b), d)


def _plain_of(rule: Any) -> Any:
    """Return the rule that learns the scaled values, as a view of the arrays of `rule`."""
    return Softmax(rule.u, rule.b, rule.scratch, rule.clock)


_plain = inlined(_plain_of)  # for kernels; Python calls the function itself


@kernel
def _scale_values(rule: Any, slots: Any, values: Any, z: Any) -> None:
    """Write the scaled values of features to `z`."""
    for i in range(np.uint64(len(slots))):
        z[i] = _scaled_value(rule.sizes[slots[i]], values[i])
