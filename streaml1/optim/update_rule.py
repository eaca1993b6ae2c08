"""The contract of an update rule: how the weights move, one method per file.

`UpdateRule` lists what a rule must define and documents it. Rules do not inherit from it. The free
functions of this module, the *verbs*, are how compiled loops call a rule: `margin(rule, ...)`
becomes `Rule.margin` when the loop is compiled for that class. The verbs marked as optional have a
default.

Terms that hold in all rules:

- A *row* is the part `lo:hi` of `ids` (distinct slots) and `values` (finite, non-zero).
- A slot is *seen* once an example has touched it, and *live* while it holds something that later
  steps depend on. `seen_mask` distinguishes a zero weight that was touched from one that was not.
- A step is `margin`, then `apply_gradient` of the same row, then `apply_penalty`. `margin` may
  leave values for `apply_gradient` in a scratch array; nothing else may depend on them.

**The law of state.** Growing, renumbering, giving back zeros, saving and loading never change a
float of what is learnt later. So no float may depend on the order of stored elements or on stale
ones, and a running total that any of these may reorder must be exact. `renormalize` may change
floats; it is triggered by the floats of the rule alone.

Rules live in this package, because the on-disk cache of compiled loops refers to their classes by
name.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, Self, cast

from streaml1.core.jit import generic, optional, u64
from streaml1.core.prefetch import prefetch_rows
from streaml1.core.types import Bools, Floats, Ids, Ints, Values
from streaml1.optim import losses

__all__ = [
    "MulticlassRule",
    "UpdateRule",
    "accepts",
    "apply_gradient",
    "apply_penalty",
    "features_left",
    "has_capacity",
    "is_zero_block",
    "margin",
    "output_and_gradient",
    "predict",
    "prefetch_next",
    "publish",
    "published_view",
    "renormalize",
    "unknown_slot",
    "weight",
    "without_intercept",
]


class UpdateRule(Protocol):
    """A method of learning and its state, a named tuple of one-dimensional arrays.

    `rule_state.RuleState` provides `seen_mask`, and everything from `drop` on, for rules whose
    fields are declared. Optional are the verbs of this module that have a default, and in Python:

    - `intercept(online)`, `features_left`, `unknown_slot`, `publish`, `published_view` and
      `without_intercept`.
    - `candidates(parts, rates)`, of the base of a merge: yields the name and the rule of each way
      to join what the parts have learnt since they were copied from the base. All have the same
      slots. For each part, `rates` are those of its steps since then, in blocks that can be read
      once. It raises ValueError if no rule can have what the parts have learnt together.
    - `candidates_with_momentum(parts, rates, before)`: the same, where some of the rules also
      repeat the move from `before`, the base of the previous merge, to this base.
      `always_has_momentum` is true if all do. `start_shards(shards, n_rows)` prepares the copy for
      a shard of the next rows. `candidates_of_group` is the same for copies without this
      preparation, as members of a group learn them.
    """

    # Compiled, called once for each row or step.

    def margin(self, ids: Ids, values: Values, lo: int, hi: int) -> float:
        """Return the margin of a row, with all pending penalties applied.

        It writes nothing that later steps depend on. It may change how a weight is stored.
        """

    def apply_gradient(self, ids: Ids, values: Values, lo: int, hi: int, step: float) -> None:
        """Move the weights of a row against its gradient: v = w - step x."""

    def apply_penalty(self, eta: float) -> None:
        """Apply the penalty of one step at rate `eta` to all coordinates, and count the step."""

    def has_capacity(self, nnz: int) -> bool:
        """Return whether a row of `nnz` non-zeros can be learnt without calling `reserve` first.

        It covers the worst case of `apply_gradient` and `apply_penalty` together.
        """

    def weight(self, j: int) -> float:
        """Return the current weight of slot j; with several outputs, the largest absolute value."""

    def renormalize(self) -> None:
        """Rewrite all stored numbers as of now, before a shared scalar leaves its range.

        Rules call it from `apply_penalty`. It costs a pass over all slots.
        """

    # Python.

    def weights(self) -> Floats:
        """Return the current weight of every slot as a new array, the same floats as `weight`."""

    def live_mask(self) -> Bools:
        """Return which slots hold what later steps depend on; the others can be given back."""

    def seen_mask(self) -> Bools:
        """Return which slots an example has touched since they were created."""

    def reserve(self, nnz: int) -> Self:
        """Return the same rule with room for a row of `nnz` non-zeros, so that it has capacity."""

    def drop(self, slots: Ints) -> None:
        """Set the weights of some slots to 0 as of now; the slots stay seen."""

    @property
    def size(self) -> int:
        """Number of slots."""

    @property
    def nbytes(self) -> int:
        """Memory of all arrays, in bytes."""

    def grow(self, d: int) -> Self:
        """Return the same rule with `d` slots, at least as many as now."""

    def remap(self, new_slots: Ints, d: int) -> Self:
        """Return the rule with `d` slots to which slot j has moved as `new_slots[j]`.

        A slot with a negative entry is given back. It must not be live.
        """

    def state_dict(self) -> tuple[Ints, dict[str, Any]]:
        """Return the live slots, and all that later steps depend on.

        The arrays have an entry for each live slot, or are records. What exists for speed alone
        (queues, indexes) is not part of it.
        """

    @classmethod
    def from_state_dict(cls, d: int, slots: Ints, arrays: dict[str, Any]) -> Self:
        """Return the rule with `d` slots whose `state_dict` was (slots, arrays)."""

    def check(self) -> None:
        """Raise AssertionError if an invariant is broken."""


class MulticlassRule(UpdateRule, Protocol):
    """A rule with k outputs. `weight` and `weights` return the largest absolute value of each row.

    `output_and_gradient` and `predict` get the address where the k outputs go, as `out`. It may be
    0 for `output_and_gradient`. `predict` finds at `out` how many floats fit behind it. Only
    learning calls `margin`, which may bring the rows current.

    Optional is `contributions(slots, values)`: what values of some slots would each add to the
    margins, shape (slots, k). By default it is the value times its row of `rows`.
    """

    @property
    def outputs(self) -> int:
        """Number of outputs that there is room for."""

    def widen(self, k: int) -> Self:
        """Return the same rule with room for `k` outputs."""

    def rows(self, slots: Ints) -> Floats:
        """Return the current weights of some slots, shape (slots, k)."""


@generic
def margin(rule: Any, ids: Any, values: Any, lo: Any, hi: Any) -> float:
    """Return the margin of a row, with all pending penalties applied."""
    a: float = rule.margin(ids, values, lo, hi)
    return a


@generic
def apply_gradient(rule: Any, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
    """Move the weights of a row against its gradient: v = w - step x."""
    rule.apply_gradient(ids, values, lo, hi, step)


@generic
def apply_penalty(rule: Any, eta: float) -> None:
    """Apply the penalty of one step to all coordinates."""
    rule.apply_penalty(eta)


@generic
def has_capacity(rule: Any, nnz: Any) -> bool:
    """Return whether a row of `nnz` non-zeros can be learnt without calling `reserve` first."""
    free: bool = rule.has_capacity(nnz)
    return free


@generic
def weight(rule: Any, j: Any) -> float:
    """Return the current weight of slot j."""
    w: float = rule.weight(j)
    return w


@generic
def renormalize(rule: Any) -> None:
    """Rewrite all stored numbers as of now, before a shared scalar leaves its range."""
    rule.renormalize()


@optional
def output_and_gradient(
    rule: Any, online: Any, a: float, y: float, w: float, out: Any
) -> tuple[float, float]:
    """Return the prediction that reports show for a row, and the factor of its gradient step.

    Called between `margin`, which returned `a`, and `apply_gradient`. It adds the offset of the
    online record to the margin, and moves the intercept. The rate times the factor is the `step` of
    `apply_gradient`.
    By default there is one output, and the intercept is that of the online record.
    """
    o = online[0]
    p, g = losses.output_and_derivative(o.loss, a + o.b + o.offset, y, o.loss_parameter)
    g = max(-o.clip_gradient, min(o.clip_gradient, g)) * w
    o.b -= o.intercept_lr * g
    return p, g


@optional
def predict(rule: Any, online: Any, ids: Any, values: Any, lo: Any, hi: Any, out: Any) -> float:
    """Return the margin of a row that is not learnt, or its `losses.response` if `out` is not 0.

    It changes nothing that later steps depend on, and adds no offset.
    """
    o = online[0]
    a = margin(rule, ids, values, lo, hi) + o.b
    a = losses.full_stream_margin(o.loss, a, o.loss_parameter)
    return losses.response(o.loss, a) if out else a


@optional
def accepts(rule: Any, ids: Any, lo: Any, hi: Any) -> bool:
    """Return whether a row stays within the number of distinct features the rule may see.

    By default there is no such limit.
    """
    return True


@optional
def is_zero_block(rule: Any, j: Any) -> bool:
    """Return whether the weights of the eight slots from j on are known to be zero.

    It must cost less than one weight. By default it is unknown.
    """
    return False


@optional
def prefetch_next(rule: Any, ids: Any, values: Any, lo: Any, hi: Any) -> None:
    """Prefetch the rows that follow; a rule whose `margin` does so defines a no-op."""
    for k in range(lo, hi, u64(8)):
        prefetch_rows(ids, values, k)


def features_left(rule: UpdateRule) -> float:
    """Return how many more distinct features a rule may see; by default any number."""
    return float(getattr(rule, "features_left", math.inf))


def unknown_slot(rule: UpdateRule) -> int | None:
    """Return the slot that stands for all features without a slot; None if those weigh nothing.

    It is larger than any slot with a feature. A row that is only predicted may have it more than
    once.
    """
    slot: int | None = getattr(rule, "unknown_slot", None)
    return slot


def publish(rule: UpdateRule) -> bool:
    """Prepare a copy of a rule that only predicts; return whether that changes its live slots.

    A rule may predict the next example better than examples of the next day. It then defines a
    method `publish`, after which it predicts the latter.
    """
    prepare = getattr(rule, "publish", None)
    if prepare is not None:
        prepare()
    return prepare is not None


def published_view(rule: UpdateRule) -> UpdateRule:
    """Return a rule that predicts as after `publish`, and shares the slots of this one.

    A rule that defines `publish` defines a method `published_view`; any other is its own view.
    """
    view = getattr(rule, "published_view", None)
    return rule if view is None else cast("UpdateRule", view())


def without_intercept(rule: UpdateRule, online: Any) -> tuple[UpdateRule, Any]:
    """Return a rule and an online record whose margin of a row is the sum of its features alone.

    The rule shares its slots with this one. A rule whose intercept is not that of the online
    record, or that bounds margins, defines a method `without_intercept` that returns such a rule.
    """
    linear = getattr(rule, "without_intercept", None)
    online = online.copy()
    online["b"] = 0.0
    if online[0]["loss"] == losses.LOGISTIC:
        online["loss_parameter"] = 0.0  # which `full_stream_margin` adds
    return (rule if linear is None else cast("UpdateRule", linear())), online
