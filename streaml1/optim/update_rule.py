"""How weights move: one method a file, in its paper's symbols.

A rule is a `NamedTuple` of arrays that is its own state; a field is annotated with the type of its
elements (`u: Annotated[Any, np.float64]`). It answers these verbs; a row is the
part `lo:hi` of `ids` (distinct slots, uint32) and `values` (finite, none of them zero).

| verb | when | meaning |
|---|---|---|
| `gather(rule, ids, values, lo, hi)` | compiled, a row | margin of the row, all pending steps included; writes nothing that counts |
| `scatter(rule, ids, values, lo, hi, step)` | compiled, a row | v = w - step x on the row's slots |
| `tick(rule, eta)` | compiled, a step | the penalty of this step, on all coordinates |
| `room(rule, nnz)` | compiled, a row | whether a row of `nnz` non-zeros can be learnt now |
| `weight(rule, j)` | compiled | the current weight of one slot |
| `respond(rule, online, a, y, w, out)` | compiled, a row | after `gather` gave `a`: what is reported of the row, and what its gradient is multiplied by; moves the intercept. May be left out |
| `predict(rule, online, ids, values, lo, hi, out)` | compiled, a row | what is told of a row that is not learnt; writes nothing of the rule. May be left out |
| `admits(rule, ids, lo, hi)` | compiled, a row | whether the row brings no more distinct features than the rule may see. May be left out: any number |
| `foresee(rule, ids, values, lo, hi)` | compiled, a row | before `gather`: have memory asked for of the rows that follow. May be left out |
| `bare(rule, j)` | compiled | whether the weights of the eight slots from j on are known to be zero, at less than the cost of one. May be left out |
| `rebase(rule)` | compiled, rarely | write all weights down as of now; `tick` calls it |
| `rule.weights()` | Python | the current weight of every slot, a new array; nothing is written |
| `rule.intercept(online)` | Python | the intercept that is told. May be left out: that of the online record |
| `rule.outputs`, `rule.widen(k)` | Python | where there are several outputs: how many there may be, and the same rule with room for `k` |
| `rule.rows(slots)` | Python | where there are several outputs: the current weights of some slots, a row each; `weight` and `weights` then tell the largest absolute value of each row |
| `rule.make_room(nnz)` | Python | after `room` said no: the same rule with room for the row |
| `rule.features_left` | Python | how many more distinct features the rule may see. May be left out: any number |
| `rule.unknown_slot` | Python | the slot beyond all others that stands for what has no slot: a row that is only predicted may have it, more than once. May be left out: what has no slot weighs nothing |
| `rule.touched()` | Python | which slots an example has touched since they were made, a bool each |
| `rule.holding()` | Python | which slots hold what later steps depend on, a bool each; the others can be given back |
| `rule.drop(slots)` | Python | the weights of these slots become 0, as of now; the slots stay touched |
| `rule.size` | Python | how many slots there are |
| `rule.grow(d)` | Python | the same rule with `d` slots |
| `rule.renumber(new_slots, d)` | Python | slot j moves to `new_slots[j]`, below d; where that is negative it is given back, and holds nothing |
| `rule.dump()` | Python | (slots, arrays): all that later steps depend on; slots are those that hold something |
| `Rule.restore(d, slots, arrays)` | Python | the rule that was dumped, its k-th entry at `slots[k]` |
| `rule.check()` | Python | raises AssertionError where an invariant is broken |

A rule without `respond` and `predict` has one output, the margin, and the intercept of the online
record. Where there are more outputs, `out` is the address of where they go; of `respond` it may be 0,
and what `predict` is given begins with how many floats follow. Then only learning calls `gather`, which
may bring the row's weights current.

Arrays have one dimension and any length. `scatter` follows `gather` of the same row, which may leave
something for it in a field `scratch`; nothing else depends on that. `room` covers the worst case of scatter and tick together
and may depend on capacity; after `make_room`, which may come unasked, it must say yes. `touched` tells a zero weight that was
touched from one that was not. `dump` gives arrays with an entry for each dumped slot, or records; what
is only there for speed (queues, pools) is built anew by `restore`. After `renumber` there are `d` slots.

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
    "admits",
    "bare",
    "features_left",
    "foresee",
    "gather",
    "predict",
    "rebase",
    "respond",
    "room",
    "scatter",
    "tick",
    "unknown_slot",
    "weight",
]


@generic
def gather(rule: Any, ids: Any, values: Any, lo: Any, hi: Any) -> float:
    """Margin of a row, all pending steps included."""
    a: float = rule.gather(ids, values, lo, hi)
    return a


@generic
def scatter(rule: Any, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
    """Move the weights of a row against its gradient: v = w - step x."""
    rule.scatter(ids, values, lo, hi, step)


@generic
def tick(rule: Any, eta: float) -> None:
    """Take the penalty's part of the step, on all coordinates."""
    rule.tick(eta)


@generic
def room(rule: Any, nnz: Any) -> bool:
    """Whether a row of `nnz` non-zeros can be learnt without the shell making room first."""
    free: bool = rule.room(nnz)
    return free


@generic
def weight(rule: Any, j: Any) -> float:
    """Read the current weight of a slot, all pending steps included."""
    w: float = rule.weight(j)
    return w


@optional
def respond(rule: Any, online: Any, a: float, y: float, w: float, out: Any) -> tuple[float, float]:
    """Tell what is reported of a row, and what its gradient is multiplied by."""
    o = online[0]
    p, g = losses.output_and_derivative(o.loss, a + o.b, y)
    g = max(-o.clip_gradient, min(o.clip_gradient, g)) * w
    o.b -= o.intercept_lr * g
    return p, g


@optional
def predict(rule: Any, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
    """Margin of a row; with `out`, its sigmoid."""
    a = gather(rule, ids, values, lo, hi) + online[0].b
    return losses.sigmoid(a) if out else a


@optional
def admits(rule: Any, ids: Any, lo: Any, hi: Any) -> bool:
    """Whether a row brings no more distinct features than the rule may see."""
    return True


@optional
def bare(rule: Any, j: Any) -> bool:
    """Whether the weights of eight slots, from one on, are known to be zero."""
    return False


@optional
def foresee(rule: Any, ids: Any, values: Any, lo: Any, hi: Any) -> None:
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
def rebase(rule: Any) -> None:
    """Write all weights down as of now, so that no float of the ledger leaves its range."""
    rule.rebase()
