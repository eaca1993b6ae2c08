r"""Projection onto the l1 ball after every step, by the search tree of the paper.

Duchi, Shalev-Shwartz, Singer & Chandra (2008), *Efficient projections onto the l1-ball for learning
in high dimensions*, section 6 and Figure 3. One step at rate $\eta$, where $g$ is the gradient with k
non-zeros:

$$v = w - \eta g, \qquad w = \mathrm{sgn}(v)\,[\,|v| - \theta]_+, \qquad
\theta = 0 \text{ if } \textstyle\sum |v| \le z, \text{ else } \theta: \sum [\,|v| - \theta]_+ = z.$$

The non-zero weights are in a balanced tree, ordered by $|v|$ of the raw vector
(`structures/fixed_point_vector.py`), with the number and the sum of the weights below each child. A step
takes k deletions, k insertions, and a descent that maintains $\rho$ and s, the number and the sum of the
weights known to be above the pivot (Eq. 11 in the other direction: x is not below the pivot if
$\sum_{v \ge x} (v - x) < z$). Then the tree is cut at $\theta$. All of it is O(k log n).

Differences from the paper:

a) The tree is a B+ tree with wide nodes, not a red-black tree (which is a B tree of order 4 in binary
   form): see `structures/rank_tree.py`.
b) Nodes are not merged when they become sparse.
c) Ties are broken by slots.
d) Number and sum are stored for each child, not for the right subtree and the node.
e) Cutting removes the smallest weights: at each level some first children, and then it descends into the
   next one. It needs no joining.
f) Weights are integer multiples of a unit, at most $2^{-49}$ of the radius, so that sums are exact.
g) The radius that is projected on is smaller by n units, so that rounding leaves the weights inside.
h) `nonnegative` clamps at zero before it projects: onto $\{w \ge 0, \sum w \le z\}$, where the simplex of the
   paper has $\sum w = z$.
i) $\Theta$ outgrows the integers in the long run. Then `renormalize` rewrites all weights.

Cost of a step: O(k log n). A pass over all slots and a new tree are due when S first exceeds z, when $\Theta$
is too large, and at the first step after that. Memory: 8 bytes per slot, 150 per non-zero weight.
"""  # noqa: E501

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import kernel, u64
from streaml1.core.types import Ints, Records
from streaml1.optim.fixed_point_rule import FixedPointRule
from streaml1.optim.rule_state import Ledger, PerSlot, Scratch
from streaml1.optim.structures import rank_tree
from streaml1.optim.structures.fixed_point_vector import (
    LEDGER,
    MAX_THETA,
    MIN_Z,
    coarser_unit,
    finer_unit,
    is_short,
    move_row,
    project_row,
    rescale,
)
from streaml1.optim.structures.rank_tree import cut, delete, insert, pivot_search, totals
from streaml1.optim.structures.rank_tree_nodes import (
    CLOCK,
    HALF_LEAF,
    HALF_NODE,
    LEAF,
    NEXT,
    NODE,
    clear,
    plant,
)
from streaml1.optim.structures.slot_arrays import records
from streaml1.optim.update_rule import renormalize

__all__ = ["L1BallTree"]

SLOT = np.dtype([("v", "i8")], align=True)


@kernel
def _build(leaves: Any, nodes: Any, clock: Any, keys: Any, slots: Any) -> None:
    """Build a new tree of the given weights."""
    clear(leaves, nodes, clock)
    plant(leaves, nodes, clock)
    for k in range(np.uint64(len(keys))):
        insert(leaves, nodes, clock, keys[k], slots[k])


@kernel
def _wake(slots: Any, leaves: Any, nodes: Any, clock: Any) -> None:
    """Build the tree of all weights."""
    c = clock[0]
    plant(leaves, nodes, clock)
    for j in range(len(slots)):
        key = abs(slots[j].v)
        if key > c.Theta:
            insert(leaves, nodes, clock, key, j)


@kernel
def _project(slots: Any, leaves: Any, nodes: Any, clock: Any) -> None:
    """Project: increase Theta until S is at most z."""
    c = clock[0]
    if c.awake == 0:
        _wake(slots, leaves, nodes, clock)
    q, n, S = pivot_search(leaves, nodes, clock, c.z - c.n)
    c.Theta += q
    if n < c.n:
        cut(leaves, nodes, clock, c.Theta)
    c.n = n
    c.S = S - n * q


@kernel
def _to_unit(slots: Any, leaves: Any, nodes: Any, clock: Any, unit: float) -> None:
    """Rewrite all weights in another unit; the tree is built again when it is needed."""
    clear(leaves, nodes, clock)
    rescale(slots, clock, unit)


@kernel
def _delete_row(
    slots: Any, leaves: Any, nodes: Any, clock: Any, ids: Any, lo: Any, hi: Any
) -> None:
    """Delete the non-zero weights of a row from the tree."""
    c = clock[0]
    for k in range(lo, hi):
        j = np.int64(ids[k])
        key = abs(slots[j].v)
        if key > c.Theta:
            delete(leaves, nodes, clock, key, j)


@kernel
def _insert_row(
    slots: Any, leaves: Any, nodes: Any, clock: Any, ids: Any, lo: Any, hi: Any
) -> None:
    """Insert the non-zero weights of a row into the tree."""
    c = clock[0]
    for k in range(lo, hi):
        j = np.int64(ids[k])
        key = abs(slots[j].v)
        if key > c.Theta:
            insert(leaves, nodes, clock, key, j)


@kernel
def _project_far(
    slots: Any, leaves: Any, nodes: Any, clock: Any,
    ids: Any, values: Any, lo: Any, hi: Any, step: float,
) -> None:  # fmt: skip
    """Move a row that is not in the tree by a step that is too long for the unit."""
    c = clock[0]
    q, S, n = project_row(slots, clock, ids, values, lo, hi, step)
    c.Theta += q
    cut(leaves, nodes, clock, c.Theta)
    n_tree, total = totals(nodes, clock)
    c.n = n_tree + n
    c.S = total + S


class L1BallTreeState(NamedTuple):
    """v of each slot, the tree (see `structures.rank_tree_nodes`), and one record."""

    slots: Annotated[Records, PerSlot(SLOT)]
    leaves: Annotated[Ints, Scratch(np.int64)]
    nodes: Annotated[Ints, Scratch(np.int64)]
    clock: Annotated[Records, Ledger(CLOCK)]


class L1BallTree(FixedPointRule, L1BallTreeState):
    """Projection onto the l1 ball, by a search tree."""

    def apply_gradient(self, ids: Any, values: Any, lo: Any, hi: Any, step: float) -> None:
        slots, leaves, nodes, clock = self.slots, self.leaves, self.nodes, self.clock
        c = clock[0]
        short = is_short(clock, values, lo, hi, step)
        if not short:
            unit = coarser_unit(clock, values, lo, hi, step)
            if unit > c.unit:
                _to_unit(slots, leaves, nodes, clock, unit)
            short = is_short(clock, values, lo, hi, step)
            if not short and c.awake == 0:
                _wake(slots, leaves, nodes, clock)
        if c.awake != 0:
            _delete_row(slots, leaves, nodes, clock, ids, lo, hi)
        if short:
            move_row(slots, clock, ids, values, lo, hi, step)
        else:
            _project_far(slots, leaves, nodes, clock, ids, values, lo, hi, step)
        if c.awake != 0:
            _insert_row(slots, leaves, nodes, clock, ids, lo, hi)

    def apply_penalty(self, eta: float) -> None:
        c = self.clock[0]
        if c.z < c.S:
            _project(self.slots, self.leaves, self.nodes, self.clock)
        if c.Theta > MAX_THETA:
            renormalize(self)
        while c.z < MIN_Z:
            _to_unit(self.slots, self.leaves, self.nodes, self.clock, finer_unit(self.clock))
            if c.z < c.S:
                _project(self.slots, self.leaves, self.nodes, self.clock)

    def renormalize(self) -> None:
        _to_unit(self.slots, self.leaves, self.nodes, self.clock, self.clock[0].unit)

    def has_capacity(self, nnz: Any) -> bool:
        c = self.clock[0]
        k = np.int64(nnz)
        leaves = c.leaves if c.awake != 0 else c.n // HALF_LEAF + 1
        nodes = c.nodes if c.awake != 0 else leaves // (HALF_NODE - 1) + 2
        # Each full leaf may split at once, and then each leaf that has got half its capacity more.
        # With half-full nodes, no tree is higher than eight.
        splits = min(k, leaves + k // HALF_LEAF) + 1
        more = nodes + splits // (HALF_NODE - 1) + 8
        enough = leaves + splits <= len(self.leaves) // LEAF
        return bool(enough and nodes + more <= len(self.nodes) // NODE)

    def drop(self, slots: Ints) -> None:
        if self.clock[0].awake:
            ids, end = np.asarray(slots, np.uint32), np.uint64(len(slots))
            _delete_row(self.slots, self.leaves, self.nodes, self.clock, ids, u64(0), end)
        super().drop(slots)

    def reserve(self, nnz: int) -> L1BallTree:
        """Return the rule with room for twice its weights and twice a row, in a dense new tree.

        It writes to no array of this rule, which stays valid if the new one is never used.
        """
        n = 2 * (int(self.clock[0].n) + nnz)
        rule = self._asleep(0, n // 12 + 8, n // 60 + 16, self.clock)._replace(slots=self.slots)
        if self.clock[0].awake:
            keys, slots = rank_tree.entries(self.leaves)
            _build(rule.leaves, rule.nodes, rule.clock, keys, slots)
        return rule

    @staticmethod
    def _asleep(d: int, leaves: int = 1, nodes: int = 1, like: Any = None) -> L1BallTree:
        """Return a rule with `d` empty slots and room for a tree; scalars are those of `like`."""
        clock = records(1, CLOCK)
        if like is not None:
            for name, _ in LEDGER:
                clock[name] = like[name]
        rule = L1BallTree(
            records(d, SLOT),
            np.zeros(leaves * LEAF, np.int64),
            np.zeros(nodes * NODE, np.int64),
            clock,
        )
        rule.leaves[NEXT::LEAF] = np.arange(1, leaves + 1)
        rule.nodes[NEXT::NODE] = np.arange(1, nodes + 1)
        return rule

    def remap(self, new_slots: Ints, d: int) -> L1BallTree:
        retained = new_slots >= 0
        leaves, nodes = len(self.leaves) // LEAF, len(self.nodes) // NODE
        rule = self._asleep(d, leaves, nodes, self.clock)
        rule.slots["v"][new_slots[retained]] = self.slots["v"][retained]
        return rule

    def check(self) -> None:
        super().check()
        rank_tree.check(self.leaves, self.nodes, self.clock, np.abs(self.slots["v"]))
