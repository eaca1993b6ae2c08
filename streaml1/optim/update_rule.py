"""How weights move: one method a file, in its paper's symbols.

A rule is a `NamedTuple` of arrays that is its own state; a field is annotated with the type of its
elements (`u: Annotated[Any, np.float64]`). It answers these verbs; a row is the
part `lo:hi` of `ids` (distinct slots, uint32) and `values` (finite, none of them zero).

| verb | when | meaning |
|---|---|---|
| `margin(rule, ids, values, lo, hi)` | compiled, a row | margin of the row, all pending steps included; writes nothing that counts |
| `apply_gradient(rule, ids, values, lo, hi, step)` | compiled, a row | v = w - step x on the row's slots |
| `apply_penalty(rule, eta)` | compiled, a step | the penalty of this step, on all coordinates |
| `has_capacity(rule, nnz)` | compiled, a row | whether a row of `nnz` non-zeros can be learnt now |
| `weight(rule, j)` | compiled | the current weight of one slot |
| `output_and_gradient(rule, online, a, y, w, out)` | compiled, a row | after `margin` gave `a`: what is reported of the row, and what its gradient is multiplied by; moves the intercept. May be left out |
| `predict(rule, online, ids, values, lo, hi, out)` | compiled, a row | what is told of a row that is not learnt; writes nothing of the rule. May be left out |
| `accepts(rule, ids, lo, hi)` | compiled, a row | whether the row brings no more distinct features than the rule may see. May be left out: any number |
| `prefetch_next(rule, ids, values, lo, hi)` | compiled, a row | before `margin`: have memory asked for of the rows that follow. May be left out |
| `is_zero_block(rule, j)` | compiled | whether the weights of the eight slots from j on are known to be zero, at less than the cost of one. May be left out |
| `renormalize(rule)` | compiled, rarely | write all weights down as of now; `apply_penalty` calls it |
| `rule.weights()` | Python | the current weight of every slot, a new array; nothing is written |
| `rule.intercept(online)` | Python | the intercept that is told. May be left out: that of the online record |
| `rule.outputs`, `rule.widen(k)` | Python | where there are several outputs: how many there may be, and the same rule with room for `k` |
| `rule.rows(slots)` | Python | where there are several outputs: the current weights of some slots, a row each; `weight` and `weights` then tell the largest absolute value of each row |
| `rule.reserve(nnz)` | Python | after `has_capacity` said no: the same rule with room for the row |
| `rule.features_left` | Python | how many more distinct features the rule may see. May be left out: any number |
| `rule.unknown_slot` | Python | the slot beyond all others that stands for what has no slot: a row that is only predicted may have it, more than once. May be left out: what has no slot weighs nothing |
| `rule.seen_mask()` | Python | which slots an example has touched since they were made, a bool each |
| `rule.live_mask()` | Python | which slots hold what later steps depend on, a bool each; the others can be given back |
| `rule.drop(slots)` | Python | the weights of these slots become 0, as of now; the slots stay touched |
| `rule.size` | Python | how many slots there are |
| `rule.grow(d)` | Python | the same rule with `d` slots |
| `rule.remap(new_slots, d)` | Python | slot j moves to `new_slots[j]`, below d; where that is negative it is given back, and holds nothing |
| `rule.state_dict()` | Python | (slots, arrays): all that later steps depend on; slots are those that hold something |
| `Rule.from_state_dict(d, slots, arrays)` | Python | the rule that was dumped, its k-th entry at `slots[k]` |
| `rule.check()` | Python | raises AssertionError where an invariant is broken |

A rule without `output_and_gradient` and `predict` has one output, the margin, and the intercept of the online
record. Where there are more outputs, `out` is the address of where they go; of `output_and_gradient` it may be 0,
and what `predict` is given begins with how many floats follow. Then only learning calls `margin`, which
may bring the row's weights current.

Arrays have one dimension and any length. `apply_gradient` follows `margin` of the same row, which may leave
something for it in a field `scratch`; nothing else depends on that. `has_capacity` covers the worst case of scatter and tick together
and may depend on capacity; after `reserve`, which may come unasked, it must say yes. `seen_mask` tells a zero weight that was
touched from one that was not. `state_dict` gives arrays with an entry for each dumped slot, or records; what
is only there for speed (queues, pools) is built anew by `from_state_dict`. After `remap` there are `d` slots.

The law of state: growing, renumbering, giving back zeros, sweeping, dumping and restoring never change
a float of what is learnt later; so no float may depend on the order of entries or on stale ones, and a
running total that any of these may reorder must be exact. Rebasing may change floats; it is triggered
by the rule's own floats alone.

Rules live in this package: numba names their classes in the cache of the loop, where the next process
must find them.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import generic, optional
from streaml1.core.prefetch import ask_rows
from streaml1.optim import losses

__all__ = [
    "accepts",
    "is_zero_block",
    "features_left",
    "prefetch_next",
    "margin",
    "predict",
    "renormalize",
    "output_and_gradient",
    "has_capacity",
    "apply_gradient",
    "apply_penalty",
    "unknown_slot",
    "weight",
]


@generic
def margin(rule: Any, ids: Any, values: Any, lo: Any, hi: Any) -> float:
    """Margin of a row, all pending steps included."""
    a: float = rule.margin(ids, values, lo, hi)
    return a


@generic
def apply_gradient(rule: Any, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
    """Move the weights of a row against its gradient: v = w - step x."""
    rule.apply_gradient(ids, values, lo, hi, step)


@generic
def apply_penalty(rule: Any, eta: float) -> None:
    """Take the penalty's part of the step, on all coordinates."""
    rule.apply_penalty(eta)


@generic
def has_capacity(rule: Any, nnz: Any) -> bool:
    """Whether a row of `nnz` non-zeros can be learnt without the shell making room first."""
    free: bool = rule.has_capacity(nnz)
    return free


@generic
def weight(rule: Any, j: Any) -> float:
    """Read the current weight of a slot, all pending steps included."""
    w: float = rule.weight(j)
    return w


@optional
def output_and_gradient(
    rule: Any, online: Any, a: float, y: float, w: float, out: Any
) -> tuple[float, float]:
    """Tell what is reported of a row, and what its gradient is multiplied by."""
    o = online[0]
    p, g = losses.output_and_derivative(o.loss, a + o.b, y)
    g = max(-o.clip_gradient, min(o.clip_gradient, g)) * w
    o.b -= o.intercept_lr * g
    return p, g


@optional
def predict(rule: Any, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
    """Margin of a row; with `out`, its sigmoid."""
    a = margin(rule, ids, values, lo, hi) + online[0].b
    return losses.sigmoid(a) if out else a


@optional
def accepts(rule: Any, ids: Any, lo: Any, hi: Any) -> bool:
    """Whether a row brings no more distinct features than the rule may see."""
    return True


@optional
def is_zero_block(rule: Any, j: Any) -> bool:
    """Whether the weights of eight slots, from one on, are known to be zero."""
    return False


@optional
def prefetch_next(rule: Any, ids: Any, values: Any, lo: Any, hi: Any) -> None:
    """Have memory asked for of the rows that follow."""
    for k in range(lo, hi, np.uint64(8)):
        ask_rows(ids, values, k)


def features_left(rule: Any) -> float:
    """How many more distinct features a rule may see."""
    return float(getattr(rule, "features_left", math.inf))


def unknown_slot(rule: Any) -> int | None:
    """The slot that stands for what has no slot; None where that weighs nothing."""
    slot: int | None = getattr(rule, "unknown_slot", None)
    return slot


@generic
def renormalize(rule: Any) -> None:
    """Write all weights down as of now, so that no float of the ledger leaves its range."""
    rule.renormalize()
