r"""A B+ tree of the weights of a raw vector, with number and sum of the weights below each child.

A B+ tree (Bayer & McCreight 1972) with *free-at-empty* deletion (Johnson & Shasha 1993), extended
to order statistics (Cormen et al., *Introduction to Algorithms*, chapter 14). For
`l1_ball_tree.py`, which owns the arrays; `rank_tree_nodes.py` defines their layout.

Structure: the key of a weight is |v|, ties are broken by slot. Leaves hold up to 32 weights in no
order; a node has up to 32 children, with the lower bound of each child, and the number and the sum
of the keys below it. A node of 32 is two to four cache lines per column, and a level takes one pass
without unpredictable branches.

Invariants: the bounds of a node rise; every key below a child lies between its bound and the next;
counts and sums are those of the leaves; all leaves have the same depth; no child is empty unless it
is the only one.

Cost, with n weights: `insert`, `delete` and `pivot_search` O(log n), with 32 comparisons a level;
`cut` O(log n + what it removes). Full children are split on the way down. Nodes that become sparse
are not merged; they are freed when empty, and the owner builds a new tree when the room runs out.

Sums of keys are kept modulo 2**62: one key is nearly that large. What is read, a sum of weights
(sum of keys minus count times Theta), is a difference that is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.rows import ensure
from streaml1.core.types import Ints
from streaml1.optim.structures.fixed_point_vector import size_of
from streaml1.optim.structures.rank_tree_nodes import (
    CHILDREN,
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
    free,
    in_leaf,
    in_node,
    new_leaf,
    new_node,
)

__all__ = ["check", "cut", "delete", "entries", "insert", "pivot_search", "totals"]

LOW = 2**31 - 1


@inlined
def _times(n: Any, x: Any) -> Any:
    """Return n x modulo 2**62; the product itself may overflow."""
    high = n * (x >> 31) & LOW
    return (high << 31) + n * (x & LOW) & MODULUS


@inlined
def _child(nodes: Any, node: Any, key: Any, j: Any) -> Any:
    """Return the index of the child that the key of slot j belongs to.

    It counts the bounds up to the key over all children, without a branch that exits early.
    """
    i_child = np.int64(0)
    for i in range(1, CHILDREN):
        bound = nodes[in_node(node, KEYS + i)]
        tie = nodes[in_node(node, TIES + i)]
        i_child += np.int64((bound < key) | ((bound == key) & (tie <= j)))
    return i_child


@inlined
def _sort(leaves: Any, leaf: Any) -> None:
    """Sort the weights of a full leaf by key and slot."""
    for i in range(1, WEIGHTS):
        key, j = leaves[in_leaf(leaf, KEYS + i)], leaves[in_leaf(leaf, SLOTS + i)]
        k = i - 1
        while k >= 0:
            previous = leaves[in_leaf(leaf, KEYS + k)]
            if previous < key or (previous == key and leaves[in_leaf(leaf, SLOTS + k)] < j):
                break
            leaves[in_leaf(leaf, KEYS + k + 1)] = previous
            leaves[in_leaf(leaf, SLOTS + k + 1)] = leaves[in_leaf(leaf, SLOTS + k)]
            k -= 1
        leaves[in_leaf(leaf, KEYS + k + 1)] = key
        leaves[in_leaf(leaf, SLOTS + k + 1)] = j


@kernel
def _split(leaves: Any, nodes: Any, clock: Any, node: Any, i_child: Any, height: Any) -> None:
    """Split a full child of a node that is not full. Its upper half becomes the next child."""
    kid = nodes[in_node(node, KIDS + i_child)]
    count, total = np.int64(0), np.int64(0)
    if height == 1:
        _sort(leaves, kid)
        half = HALF_LEAF
        twin = new_leaf(leaves, clock)
        for i in range(half):
            key = leaves[in_leaf(kid, KEYS + half + i)]
            leaves[in_leaf(twin, KEYS + i)] = key
            leaves[in_leaf(twin, SLOTS + i)] = leaves[in_leaf(kid, SLOTS + half + i)]
            leaves[in_leaf(kid, SLOTS + half + i)] = NONE
            total = total + key & MODULUS
        count += half
        leaves[in_leaf(kid, FILL)] = half
        leaves[in_leaf(twin, FILL)] = half
        bound, tie = leaves[in_leaf(twin, KEYS)], leaves[in_leaf(twin, SLOTS)]
    else:
        half = HALF_NODE
        twin = new_node(nodes, clock)
        for i in range(half):
            for field in range(KEYS + i, NODE, CHILDREN):
                nodes[in_node(twin, field)] = nodes[in_node(kid, field + half)]
            nodes[in_node(kid, KEYS + half + i)] = NEVER
            count += nodes[in_node(twin, COUNTS + i)]
            total = total + nodes[in_node(twin, SUMS + i)] & MODULUS
        nodes[in_node(kid, FILL)] = half
        nodes[in_node(twin, FILL)] = half
        bound, tie = nodes[in_node(twin, KEYS)], nodes[in_node(twin, TIES)]
    fill = nodes[in_node(node, FILL)]
    for i in range(fill, i_child + 1, -1):
        for field in range(KEYS + i, NODE, CHILDREN):
            nodes[in_node(node, field)] = nodes[in_node(node, field - 1)]
    nodes[in_node(node, FILL)] = fill + 1
    nodes[in_node(node, COUNTS + i_child)] -= count
    nodes[in_node(node, SUMS + i_child)] = nodes[in_node(node, SUMS + i_child)] - total & MODULUS
    nodes[in_node(node, KEYS + i_child + 1)] = bound
    nodes[in_node(node, TIES + i_child + 1)] = tie
    nodes[in_node(node, KIDS + i_child + 1)] = twin
    nodes[in_node(node, COUNTS + i_child + 1)] = count
    nodes[in_node(node, SUMS + i_child + 1)] = total


@kernel
def _add_root(nodes: Any, clock: Any) -> None:
    """Add a root above a full one, so that it can be split."""
    c = clock[0]
    root = new_node(nodes, clock)
    count, total = np.int64(0), np.int64(0)
    for i in range(CHILDREN):
        count += nodes[in_node(c.root, COUNTS + i)]
        total = total + nodes[in_node(c.root, SUMS + i)] & MODULUS
    nodes[in_node(root, FILL)] = 1
    nodes[in_node(root, KEYS)] = 0
    nodes[in_node(root, TIES)] = 0
    nodes[in_node(root, KIDS)] = c.root
    nodes[in_node(root, COUNTS)] = count
    nodes[in_node(root, SUMS)] = total
    c.root = root
    c.height += 1


@inlined
def insert(leaves: Any, nodes: Any, clock: Any, key: Any, j: Any) -> None:
    """Insert slot j with a key.

    Invariant of the descent: `node` is not full, so a full child can be split.
    """
    c = clock[0]
    if nodes[in_node(c.root, FILL)] == CHILDREN:
        _add_root(nodes, clock)
    node, height = c.root, c.height
    while True:
        i_child = _child(nodes, node, key, j)
        kid = nodes[in_node(node, KIDS + i_child)]
        if height == 1:
            full = leaves[in_leaf(kid, FILL)] == WEIGHTS
        else:
            full = nodes[in_node(kid, FILL)] == CHILDREN
        if full:
            _split(leaves, nodes, clock, node, i_child, height)
            i_child = _child(nodes, node, key, j)
            kid = nodes[in_node(node, KIDS + i_child)]
        nodes[in_node(node, COUNTS + i_child)] += 1
        nodes[in_node(node, SUMS + i_child)] = nodes[in_node(node, SUMS + i_child)] + key & MODULUS
        if height == 1:
            break
        node = kid
        height -= 1
    fill = leaves[in_leaf(kid, FILL)]
    leaves[in_leaf(kid, KEYS + fill)] = key
    leaves[in_leaf(kid, SLOTS + fill)] = j
    leaves[in_leaf(kid, FILL)] = fill + 1


@inlined
def _remove_children(nodes: Any, node: Any, first: Any, last: Any) -> None:
    """Remove the children from `first` to before `last` from a node."""
    fill = nodes[in_node(node, FILL)]
    by = last - first
    for i in range(last, fill):
        for field in range(KEYS + i, NODE, CHILDREN):
            nodes[in_node(node, field - by)] = nodes[in_node(node, field)]
    for i in range(fill - by, fill):
        nodes[in_node(node, KEYS + i)] = NEVER
    nodes[in_node(node, FILL)] = fill - by


@inlined
def _shrink_root(nodes: Any, clock: Any) -> None:
    """Remove the root while its only child is a node."""
    c = clock[0]
    while c.height > 1 and nodes[in_node(c.root, FILL)] == 1:
        root = c.root
        c.root = nodes[in_node(root, KIDS)]
        c.height -= 1
        nodes[in_node(root, FILL)] = 0
        nodes[in_node(root, NEXT)] = c.free_node
        c.free_node = root
        c.nodes -= 1


@inlined
def delete(leaves: Any, nodes: Any, clock: Any, key: Any, j: Any) -> None:
    """Delete slot j, which is in the tree with this key."""
    c = clock[0]
    node, height = c.root, c.height
    while True:
        i_child = _child(nodes, node, key, j)
        kid = nodes[in_node(node, KIDS + i_child)]
        if nodes[in_node(node, COUNTS + i_child)] == 1 and nodes[in_node(node, FILL)] > 1:
            _remove_children(nodes, node, i_child, i_child + 1)
            free(leaves, nodes, clock, kid, height)
            _shrink_root(nodes, clock)
            return
        nodes[in_node(node, COUNTS + i_child)] -= 1
        nodes[in_node(node, SUMS + i_child)] = nodes[in_node(node, SUMS + i_child)] - key & MODULUS
        if height == 1:
            break
        node = kid
        height -= 1
    pos = np.int64(0)
    for i in range(WEIGHTS):
        pos += i * np.int64(leaves[in_leaf(kid, SLOTS + i)] == j)
    last = leaves[in_leaf(kid, FILL)] - 1
    leaves[in_leaf(kid, KEYS + pos)] = leaves[in_leaf(kid, KEYS + last)]
    leaves[in_leaf(kid, SLOTS + pos)] = leaves[in_leaf(kid, SLOTS + last)]
    leaves[in_leaf(kid, SLOTS + last)] = NONE
    leaves[in_leaf(kid, FILL)] = last


@inlined
def totals(nodes: Any, clock: Any) -> Any:
    """Return n and S of the weights in the tree."""
    c = clock[0]
    n, S = np.int64(0), np.int64(0)
    for i in range(nodes[in_node(c.root, FILL)]):
        count = nodes[in_node(c.root, COUNTS + i)]
        n += count
        S += nodes[in_node(c.root, SUMS + i)] - _times(count, c.Theta) & MODULUS
    return n, S


@kernel
def pivot_search(leaves: Any, nodes: Any, clock: Any, z: Any) -> Any:
    """Return theta of the step for the radius z, and n and S of the weights above it.

    The algorithm of Figure 3 of Duchi et al. (2008). Invariant of the descent: rho weights with sum
    s are known to be above theta, and theta lies below the last bound that was passed.
    """
    c = clock[0]
    Theta = c.Theta
    rho, s = np.int64(0), np.int64(0)
    node, height = c.root, c.height
    while True:
        i_child = nodes[in_node(node, FILL)] - 1
        while i_child > 0:
            count = nodes[in_node(node, COUNTS + i_child)]
            S_child = nodes[in_node(node, SUMS + i_child)] - _times(count, Theta) & MODULUS
            bound = size_of(nodes[in_node(node, KEYS + i_child)], Theta)
            if (s + S_child - z) // (rho + count) >= bound:
                break
            rho += count
            s += S_child
            i_child -= 1
        kid = nodes[in_node(node, KIDS + i_child)]
        if height == 1:
            break
        node = kid
        height -= 1
    q, before, count, total = np.int64(-1), np.int64(-1), np.int64(0), np.int64(0)
    while count != before:
        before, count, total = count, np.int64(0), np.int64(0)
        for i in range(leaves[in_leaf(kid, FILL)]):
            S_child = leaves[in_leaf(kid, KEYS + i)] - Theta
            total += S_child if S_child > q else 0
            count += np.int64(S_child > q)
        q = (s + total - z) // (rho + count)
    return q, rho + count, s + total


@kernel
def cut(leaves: Any, nodes: Any, clock: Any, T: Any) -> None:
    """Delete all weights with keys up to T.

    On the way down, `NEXT` of a node on the path is its parent; on the way up, counts and sums of
    the first child of each are corrected.
    """
    c = clock[0]
    node, height = c.root, c.height
    nodes[in_node(node, NEXT)] = NONE
    while True:
        i_child = _child(nodes, node, T, NEVER)
        for i in range(i_child):
            free(leaves, nodes, clock, nodes[in_node(node, KIDS + i)], height)
        if i_child > 0:
            _remove_children(nodes, node, 0, i_child)
        kid = nodes[in_node(node, KIDS)]
        if height == 1:
            break
        nodes[in_node(kid, NEXT)] = node
        node = kid
        height -= 1
    n_kept, total = np.int64(0), np.int64(0)
    fill = leaves[in_leaf(kid, FILL)]
    for i in range(fill):
        key, j = leaves[in_leaf(kid, KEYS + i)], leaves[in_leaf(kid, SLOTS + i)]
        leaves[in_leaf(kid, KEYS + n_kept)] = key
        leaves[in_leaf(kid, SLOTS + n_kept)] = j
        total = total + (key if key > T else 0) & MODULUS
        n_kept += np.int64(key > T)
    for i in range(n_kept, fill):
        leaves[in_leaf(kid, SLOTS + i)] = NONE
    leaves[in_leaf(kid, FILL)] = n_kept
    while node != NONE:
        after = nodes[in_node(node, NEXT)]
        if n_kept == 0 and nodes[in_node(node, FILL)] > 1:
            free(leaves, nodes, clock, nodes[in_node(node, KIDS)], height)
            _remove_children(nodes, node, 0, 1)
        else:
            nodes[in_node(node, COUNTS)] = n_kept
            nodes[in_node(node, SUMS)] = total
        n_kept, total = np.int64(0), np.int64(0)
        for i in range(nodes[in_node(node, FILL)]):
            n_kept += nodes[in_node(node, COUNTS + i)]
            total = total + nodes[in_node(node, SUMS + i)] & MODULUS
        node = after
        height += 1
    _shrink_root(nodes, clock)


# Python.


def entries(leaves: Ints) -> tuple[Ints, Ints]:
    """Return the keys and the slots of all weights in leaves."""
    table = leaves.reshape(-1, LEAF)
    used = np.arange(WEIGHTS) < table[:, FILL, None]
    return table[:, KEYS:SLOTS][used], table[:, SLOTS:][used]


def check(leaves: Ints, nodes: Ints, clock: Any, key: Ints) -> None:
    """Raise AssertionError if an invariant is broken; `key` is |v| of every slot."""
    c = clock[0]
    ensure(len(leaves) % LEAF == 0 and len(nodes) % NODE == 0, "a leaf or node is incomplete")
    keys, slots = entries(leaves)
    n_leaves, n_nodes = len(leaves) // LEAF, len(nodes) // NODE
    free_leaves = _free_chain(leaves, LEAF, c.free_leaf)
    free_nodes = _free_chain(nodes, NODE, c.free_node)
    ensure(c.leaves == n_leaves - len(free_leaves), f"leaves={c.leaves} is wrong")
    ensure(c.nodes == n_nodes - len(free_nodes), f"nodes={c.nodes} is wrong")
    if not c.awake:
        ensure(c.leaves == 0 and c.nodes == 0 and len(keys) == 0, "there is a tree while it sleeps")
        return
    ensure(
        np.array_equal(np.sort(slots), np.flatnonzero(key > c.Theta)), "a weight is not in the tree"
    )
    ensure(np.array_equal(keys, key[slots]), "a key is not |v| of its slot")
    walk = _Walk(leaves, nodes, free_leaves, free_nodes)
    count, _ = walk.below(int(c.root), int(c.height), (0, 0), (NEVER, 0))
    ensure(count == c.n, f"n={c.n} should be {count}")
    ensure(sorted(walk.leaf_ids) == list(range(n_leaves)), "a leaf is lost, or used twice")
    ensure(sorted(walk.node_ids) == list(range(n_nodes)), "a node is lost, or used twice")


class _Walk:
    """A check of every leaf and node; notes which ones it has visited."""

    def __init__(self, leaves: Ints, nodes: Ints, leaf_ids: list[int], node_ids: list[int]) -> None:
        self.leaves, self.nodes = leaves, nodes
        self.leaf_ids, self.node_ids = leaf_ids, node_ids

    def below(
        self, child: int, height: int, low: tuple[int, int], high: tuple[int, int]
    ) -> tuple[int, int]:
        """Return the number and the sum of the keys below a child; all are within two bounds."""
        return self._leaf(child, low, high) if height == 0 else self._node(child, height, low, high)

    def _leaf(self, child: int, low: tuple[int, int], high: tuple[int, int]) -> tuple[int, int]:
        self.leaf_ids.append(child)
        leaf = self.leaves[child * LEAF : (child + 1) * LEAF].tolist()
        fill = leaf[FILL]
        ensure(all(j == NONE for j in leaf[SLOTS + fill :]), "an unused place has a slot")
        found = list(zip(leaf[KEYS : KEYS + fill], leaf[SLOTS : SLOTS + fill], strict=True))
        ensure(
            all(low <= entry < high for entry in found), "a key is out of the bounds of its leaf"
        )
        return fill, sum(key for key, _ in found)

    def _node(
        self, child: int, height: int, low: tuple[int, int], high: tuple[int, int]
    ) -> tuple[int, int]:
        self.node_ids.append(child)
        node = self.nodes[child * NODE : (child + 1) * NODE].tolist()
        fill = node[FILL]
        is_filled = 1 <= fill <= CHILDREN and NEVER not in node[KEYS : KEYS + fill]
        ensure(is_filled, "a node has no children, or one without a bound")
        ensure(all(key == NEVER for key in node[KEYS + fill : TIES]), "an unused place has a bound")
        bounds = list(zip(node[KEYS : KEYS + fill], node[TIES : TIES + fill], strict=True))
        bounds = [low, *bounds[1:], high]
        ensure(bounds == sorted(bounds), "the bounds of a node do not rise")
        count, total = 0, 0
        for i in range(fill):
            n, S = self.below(node[KIDS + i], height - 1, bounds[i], bounds[i + 1])
            ensure(n == node[COUNTS + i], "the count of a child is wrong")
            ensure(node[SUMS + i] == S & MODULUS, "the sum of a child is wrong")
            ensure(n > 0 or fill == 1, "a child is empty")
            count, total = count + n, total + S
        return count, total


def _free_chain(array: Ints, stride: int, first: int) -> list[int]:
    """Return the free leaves or nodes."""
    end = len(array) // stride
    chain: list[int] = []
    while first < end and len(chain) <= end:
        chain.append(int(first))
        first = array[first * stride + NEXT]
    return chain
