r"""Projection on the l1 ball after every step, by the paper's search tree.

Duchi, Shalev-Shwartz, Singer & Chandra (2008), *Efficient projections onto the l1-ball for learning
in high dimensions*, section 6 and Figure 3. One step at rate $\eta$, $g$ the gradient with k non-zeros:

$$v = w - \eta g, \qquad w = \mathrm{sgn}(v)\,[\,|v| - \theta]_+, \qquad
\theta = 0 \text{ if } \textstyle\sum |v| \le z, \text{ else } \theta: \sum [\,|v| - \theta]_+ = z.$$

The weights that are not zero stand in a balanced tree by $|v|$ of the raw vector (`parts/raw_vector.py`), with
the number and the sum of what is below each child: k deletions, k insertions; a descent that keeps
$\rho$ and s, the number and the sum of what has been shown to be above the pivot (Eq. 11, turned
round: x is not below the pivot if $\sum_{v \ge x} (v - x) < z$); then the tree is cut at $\theta$, all in O(k log n).

Differs from the paper: a) the tree is as wide as memory likes it, a B+ tree and no red-black one
(a B tree of order 4 in binary dress): see `wide_tree.py`. b) Nodes are not merged when they become
sparse. c) Ties are told apart by slots. d) Number and sum are kept of each child, not of the right
subtree and the node. e) Cutting takes the least weights: at each level some first children go, and
the next is cut; it needs no joining. f) Whole numbers of $2^{-49}$ of the radius or less, so that sums
are exact. g) The radius projected on is less by n of those, so that rounding leaves the weights
inside. h) `nonnegative` cuts at zero before it projects: onto $\{w \ge 0, \sum w \le z\}$, where the
paper's simplex has $\sum w = z$. i) In the end $\Theta$ is too large, and all is written down anew.

Cost of a step: k log n. A pass over all slots, and a new tree, come when S first passes z, when
$\Theta$ is too large, and at the first step after it. 8 bytes a slot, 150 a weight.
"""  # noqa: E501

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from streaml1.core.jit import kernel
from streaml1.core.rows import ensure
from streaml1.optim.structures import fixed_point_vector as raw_vector
from streaml1.optim.structures.fixed_point_vector import (
    LEDGER,
    THETA_MOST,
    Z_LEAST,
    coarser_unit,
    finer_unit,
    is_short,
    margin,
    move_row,
    project_row,
    rescale,
    weight,
)
from streaml1.optim.structures.rank_tree import cut, delete, insert, pivot_search, totals
from streaml1.optim.structures.rank_tree_nodes import (
    CHILDREN,
    CLOCK,
    COUNTS,
    FILL,
    HALF_LEAF,
    HALF_NODE,
    KEYS,
    KIDS,
    LEAF,
    MODULUS,
    NEVER,
    NEXT,
    NODE,
    NONE,
    SLOTS,
    SUMS,
    TIES,
    WEIGHTS,
    clear,
    plant,
)
from streaml1.optim.structures.slot_arrays import grown, records
from streaml1.optim.update_rule import renormalize

__all__ = ["L1BallTree"]

SLOT = np.dtype([("v", "i8")], align=True)


@kernel
def _grow(leaves: Any, nodes: Any, clock: Any, keys: Any, slots: Any) -> None:
    """A new tree of some weights."""
    clear(leaves, nodes, clock)
    plant(leaves, nodes, clock)
    for k in range(np.uint64(len(keys))):
        insert(leaves, nodes, clock, keys[k], slots[k])


@kernel
def _wake(slots: Any, leaves: Any, nodes: Any, clock: Any) -> None:
    """Grow the tree of all weights."""
    c = clock[0]
    plant(leaves, nodes, clock)
    for j in range(len(slots)):
        key = abs(slots[j].v)
        if key > c.Theta:
            insert(leaves, nodes, clock, key, j)


@kernel
def _project(slots: Any, leaves: Any, nodes: Any, clock: Any) -> None:
    """Move all weights to where S is at most z."""
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
    """Write all down anew, in another unit; the tree is grown again when it is wanted."""
    clear(leaves, nodes, clock)
    rescale(slots, clock, unit)


@kernel
def _delete_row(
    slots: Any, leaves: Any, nodes: Any, clock: Any, ids: Any, lo: Any, hi: Any
) -> None:
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
    """Move a row, which is not in the tree, by a step too long for the unit."""
    c = clock[0]
    q, S, n = project_row(slots, clock, ids, values, lo, hi, step)
    c.Theta += q
    cut(leaves, nodes, clock, c.Theta)
    others, total = totals(nodes, clock)
    c.n = others + n
    c.S = total + S


class L1BallTree(NamedTuple):
    """State of the ball: one number a slot, the tree, and one record."""

    slots: Annotated[Any, SLOT]
    leaves: Annotated[Any, np.int64]
    nodes: Annotated[Any, np.int64]
    clock: Annotated[Any, CLOCK]

    def margin(self, ids: Any, values: Any, lo: Any, hi: Any) -> float:
        return margin(self.slots, self.clock, ids, values, lo, hi)

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
        if c.Theta > THETA_MOST:
            renormalize(self)
        while c.z < Z_LEAST:
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
        # Those that are full may split at once, and then each that has got half of one more. With
        # half-full nodes no tree is higher than eight.
        splits = min(k, leaves + k // HALF_LEAF) + 1
        more = nodes + splits // (HALF_NODE - 1) + 8
        enough = leaves + splits <= len(self.leaves) // LEAF
        return bool(enough and nodes + more <= len(self.nodes) // NODE)

    def weight(self, j: Any) -> float:
        return weight(self.slots, self.clock, j)

    def weights(self) -> Any:
        return raw_vector.weights(self.slots, self.clock)

    def seen_mask(self) -> Any:
        return self.slots["v"] != 0

    def live_mask(self) -> Any:
        return raw_vector.live_mask(self.slots, self.clock)

    def drop(self, slots: Any) -> None:
        slots = np.asarray(slots, np.uint32)
        if self.clock[0].awake:
            end = np.uint64(len(slots))
            _delete_row(self.slots, self.leaves, self.nodes, self.clock, slots, np.uint64(0), end)
        raw_vector.drop(self.slots, self.clock, slots)

    def reserve(self, nnz: int) -> L1BallTree:
        """Room for twice the weights there are and twice a row of `nnz`, in a tree without gaps.

        Nothing that this rule reads is written to: it can go on if the new one is never used.
        """
        n = 2 * (int(self.clock[0].n) + nnz)
        rule = _asleep(0, n // 12 + 8, n // 60 + 16, self.clock)._replace(slots=self.slots)
        if self.clock[0].awake:
            keys, slots = self._entries()
            _grow(rule.leaves, rule.nodes, rule.clock, keys, slots)
        return rule

    def set_radius(self, radius: float) -> None:
        raw_vector.set_radius(self.clock, radius)

    @property
    def size(self) -> int:
        return len(self.slots)

    def grow(self, d: int) -> L1BallTree:
        return self._replace(slots=grown(self.slots, d))

    def remap(self, new_slots: Any, d: int) -> L1BallTree:
        kept = new_slots >= 0
        leaves, nodes = len(self.leaves) // LEAF, len(self.nodes) // NODE
        rule = _asleep(d, leaves, nodes, self.clock)
        rule.slots["v"][new_slots[kept]] = self.slots["v"][kept]
        return rule

    def state_dict(self) -> tuple[Any, dict[str, Any]]:
        return raw_vector.state_dict(self.slots, self.clock)

    @staticmethod
    def from_state_dict(d: int, slots: Any, arrays: dict[str, Any]) -> L1BallTree:
        rule = _asleep(d)
        raw_vector.from_state_dict(rule.slots, rule.clock, slots, arrays)
        return rule

    @staticmethod
    def start(d: int, radius: float, nonnegative: bool) -> L1BallTree:
        """`d` zero weights."""
        rule = _asleep(d)
        raw_vector.begin(rule.clock, radius, nonnegative)
        return rule

    def _entries(self) -> tuple[Any, Any]:
        """|v| and slots of what stands in leaves."""
        leaves = self.leaves.reshape(-1, LEAF)
        used = np.arange(WEIGHTS) < leaves[:, FILL, None]
        return leaves[:, KEYS:SLOTS][used], leaves[:, SLOTS:][used]

    def check(self) -> None:
        raw_vector.check(self.slots, self.clock)
        c = self.clock[0]
        keys, slots = self._entries()
        ensure(len(self.leaves) % LEAF == 0 and len(self.nodes) % NODE == 0, "arrays do not fit")
        leaves = self._chain(self.leaves, LEAF, c.free_leaf)
        nodes = self._chain(self.nodes, NODE, c.free_node)
        ensure(c.leaves == len(self.leaves) // LEAF - len(leaves), "leaves are miscounted")
        ensure(c.nodes == len(self.nodes) // NODE - len(nodes), "nodes are miscounted")
        if not c.awake:
            ensure(c.leaves == 0 and c.nodes == 0 and len(keys) == 0, "a tree while it sleeps")
            return
        v = np.abs(self.slots["v"])
        alive = np.flatnonzero(v > c.Theta)
        ensure(np.array_equal(np.sort(slots), alive), "what is in the tree is not what is alive")
        ensure(np.array_equal(keys, v[slots]), "a weight stands where another would")
        count, _ = self._check_below(int(c.root), int(c.height), (0, 0), (NEVER, 0), leaves, nodes)
        ensure(count == c.n, "n is not how many there are below the root")
        ensure(sorted(leaves) == list(range(len(self.leaves) // LEAF)), "a leaf is lost, or twice")
        ensure(sorted(nodes) == list(range(len(self.nodes) // NODE)), "a node is lost, or twice")

    def _check_below(
        self, child: int, height: int, low: Any, high: Any, leaves: list[int], nodes: list[int]
    ) -> tuple[int, int]:
        """Number and sum below a child between two bounds; it and all below it are noted."""
        if height == 0:
            leaves.append(child)
            leaf = self.leaves[child * LEAF : (child + 1) * LEAF].tolist()
            fill = leaf[FILL]
            ensure(all(j == NONE for j in leaf[SLOTS + fill :]), "what is no weight has a slot")
            found = list(zip(leaf[KEYS : KEYS + fill], leaf[SLOTS : SLOTS + fill], strict=True))
            ensure(all(low <= one < high for one in found), "a weight is out of its leaf's bounds")
            return fill, sum(key for key, _ in found)
        nodes.append(child)
        node = self.nodes[child * NODE : (child + 1) * NODE].tolist()
        fill = node[FILL]
        ensure(0 < fill <= CHILDREN and NEVER not in node[KEYS : KEYS + fill], "no such node")
        ensure(all(key == NEVER for key in node[KEYS + fill : TIES]), "a bound of no child")
        bounds = list(zip(node[KEYS : KEYS + fill], node[TIES : TIES + fill], strict=True))
        bounds = [low, *bounds[1:], high]
        ensure(bounds == sorted(bounds), "bounds do not rise")
        count, total = 0, 0
        for i in range(fill):
            below = self._check_below(
                node[KIDS + i], height - 1, bounds[i], bounds[i + 1], leaves, nodes
            )
            ensure(below[0] == node[COUNTS + i], "a child is miscounted")
            ensure(below[1] & MODULUS == node[SUMS + i], "a child has another sum")
            ensure(below[0] > 0 or fill == 1, "a child is empty")
            count, total = count + below[0], total + below[1]
        return count, total

    @staticmethod
    def _chain(array: Any, stride: int, first: int) -> list[int]:
        """The free ones."""
        last = len(array) // stride
        chain: list[int] = []
        while first < last and len(chain) <= last:
            chain.append(int(first))
            first = array[first * stride + NEXT]
        return chain


def _asleep(d: int, leaves: int = 1, nodes: int = 1, like: Any = None) -> L1BallTree:
    """`d` empty slots, no tree but room for one, and a ledger like another."""
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
