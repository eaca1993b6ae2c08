r"""Running means of the weights: what the averaged rules share.

Steps are taken at the weights $w_s$ themselves, to the bit as without averages. What is told is the
mean of the weights after each of the t steps so far, and of the intercept likewise:

$$\bar w_t = \frac{1}{t} \sum_{s=1}^{t} w_s$$

It is kept lazily. From one touch to the next a weight moves by scalars that all weights share, so
that the sum over those steps is known from running sums of the scalars alone. With $X_j$ for what the
weight, as it is stored, makes of the running sums, `sums` holds $c_j = \sum_s w_{s,j} - X_j$ as of the last
touch; the sum is $c_j + X_j$ at any time, and $c_j$ needs no stamp. X grows with the running sums, and
with it what rounding loses in the difference: where a scalar has fallen far below its running sum, all
sums are written down (a pass over all slots) and the running sums start anew.

An averaged rule has the fields of the plain rule, `sums`, `in_hand` and one record `mean`, with t, the sum of
the intercepts and the running sums. It answers two verbs more: `plain`, `total`.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.aligned import in_lines
from streaml1.core.jit import generic, inlined
from streaml1.core.rows import ensure
from streaml1.optim import losses
from streaml1.optim.structures import slot_arrays as of_slots
from streaml1.optim.update_rule import output_and_gradient, weight

__all__ = [
    "FAR",
    "LEAST",
    "MEAN",
    "ROOM_LEAST",
    "check",
    "grown",
    "hand_for",
    "live_mask",
    "intercept",
    "mean_weight",
    "moved",
    "plain",
    "read",
    "respond_mean",
    "settle",
    "told",
    "total",
    "weights",
]

MEAN = [("t", "i8"), ("b_sum", "f8")]  # the first fields of every `mean`

# A running sum of scalars may be so many times t times the last of them. The mean of a weight is
# then known to 4e-15 of the weight, from each touch.
FAR = 16.0
# Told where a mean is 0 but may be none after the next step: weights are counted by what is told.
LEAST = 5e-324
SUM_MOST = 1e180
ROOM_LEAST = 256


@generic
def plain(rule: Any) -> Any:
    """Tell the rule whose weights are averaged; its arrays are those of `rule`."""
    return rule.plain()


@generic
def total(rule: Any, j: Any) -> float:
    """Sum of the weights of a slot after each step so far."""
    S: float = rule.total(j)
    return S


# Of a row `in_hand` has the sum of its margins over all steps, then the sums of its weights.


@inlined
def told(rule: Any, record: Any, margin: float) -> float:
    """The margin that is told, given the sum of the margins without intercept."""
    m = rule.mean[0]
    if m.t == 0:
        return margin + record[0].b
    return margin / m.t + m.b_sum / m.t


@inlined
def respond_mean(
    rule: Any, plain: Any, record: Any, a: float, y: float, w: float, out: Any
) -> tuple[float, float]:
    """What the mean says of a row, and what its gradient (at the weights) is multiplied by."""
    mean = told(rule, record, rule.in_hand[0])
    _, g = output_and_gradient(plain, record, a, y, w, out)
    rule.mean[0].b_sum += record[0].b
    return losses.output(record[0].loss, mean), g


@inlined
def settle(rule: Any) -> None:
    """Write all sums down, for running sums that start anew."""
    for j in range(np.uint64(len(rule.sums))):
        rule.sums[j] = total(rule, j)


@inlined
def mean_weight(rule: Any, j: Any) -> float:
    """Mean of a slot's weight."""
    S = total(rule, j)
    w = S / max(rule.mean[0].t, 1)
    if w == 0.0:
        least = S if S != 0.0 else weight(plain(rule), j)
        return math.copysign(LEAST, least) if least != 0.0 else 0.0
    return w


# In Python, of all slots at once.


def weights(rule: Any) -> Any:
    """Mean of every slot's weight, the floats of `mean_weight`."""
    S = rule.totals()
    w = S / max(int(rule.mean[0].t), 1)
    least = np.where(S != 0.0, S, rule.plain().weights())
    hidden = (w == 0.0) & (least != 0.0)
    w[hidden] = np.copysign(LEAST, least[hidden])
    w[w == 0.0] = 0.0
    return w


def live_mask(rule: Any) -> Any:
    """Slots whose weight or whose sum is not zero."""
    held: Any = rule.plain().live_mask() | (rule.totals() != 0.0)
    return held


def intercept(rule: Any, record: Any) -> float:
    """Mean of the intercept."""
    m = rule.mean[0]
    return float(m.b_sum / m.t if m.t else record[0].b)


def grown(rule: Any, d: int) -> dict[str, Any]:
    """The fields of a rule with `d` slots."""
    return {**rule.plain().grow(d)._asdict(), "sums": of_slots.grown(rule.sums, d)}


def moved(rule: Any, new_slots: Any, d: int) -> dict[str, Any]:
    """The fields of a rule whose slots have moved."""
    sums = of_slots.moved(rule.sums, new_slots, d)
    return {**rule.plain().remap(new_slots, d)._asdict(), "sums": sums}


def hand_for(rule: Any, nnz: int) -> Any:
    """What holds a row of `nnz` non-zeros."""
    in_hand = rule.in_hand
    return in_hand if nnz < len(in_hand) else np.zeros(max(nnz + 1, 2 * len(in_hand)))


def read(arrays: dict[str, Any], d: int, slots: Any, dtype: Any) -> tuple[Any, Any]:
    """Sums and record that were dumped; both are taken out of `arrays`."""
    ensure({"sums", "mean"} <= set(arrays), "no mean")
    dumped, kept = arrays.pop("sums"), arrays.pop("mean")
    ensure(dumped.dtype == np.float64 and dumped.shape == slots.shape, "not sums")
    ensure(kept.dtype == dtype and kept.shape == (1,), "not a mean")
    sums, mean = in_lines(d, np.float64), of_slots.records(1, dtype)
    sums[slots] = dumped
    mean[:] = kept
    return sums, mean


def check(rule: Any) -> None:
    """Raise AssertionError where an invariant is broken."""
    rule.plain().check()
    m = rule.mean[0]
    ensure(m.t >= 0, f"t is {m.t}, below 0")
    ensure(abs(m.b_sum) <= SUM_MOST, f"the sum of the intercepts is {m.b_sum}")
    ensure(rule.sums.dtype == np.float64 and rule.sums.ndim == 1, "sums is no row of floats")
    ensure(len(rule.sums) == rule.size, "not a sum for each slot")
    ensure(np.all(np.isfinite(rule.sums)), "a sum is not finite")
    ensure(np.all(np.abs(rule.totals()) < SUM_MOST), "a sum is out of range")
    ensure(np.all(rule.sums[~rule.seen_mask()] == 0.0), "untouched but with a sum")
