r"""A search tree as wide as memory likes it, with number and sum of what is below each child.

A B+ tree (Bayer & McCreight 1972) of the weights of a raw vector by their key |v|, ties by slot: up
to 32 children a node; the weights in leaves, up to 32, in no order. Full ones are split on the way
down. Nodes are not merged when they become sparse; they are freed when they are empty (Johnson &
Shasha 1993), and the tree is built anew when room runs out.

Sums of keys are kept modulo 2**62: a key is nearly that large, and what is asked for, the sum of
weights, is a difference that is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.jit import inlined, kernel
from streaml1.rules.raw_vector import LEDGER, left_of

__all__ = [
    "CHILDREN",
    "CLOCK",
    "COUNTS",
    "FILL",
    "HALF_LEAF",
    "HALF_NODE",
    "KEYS",
    "KIDS",
    "LEAF",
    "MODULUS",
    "NEVER",
    "NEXT",
    "NODE",
    "NONE",
    "SLOTS",
    "SUMS",
    "TIES",
    "WEIGHTS",
    "clear",
    "cut",
    "delete",
    "insert",
    "pivot_search",
    "plant",
    "totals",
]

CLOCK = np.dtype(
    [
        *LEDGER,
        ("awake", "i8"),  # whether there is a tree
        ("root", "i8"),
        ("height", "i8"),  # of the root; that of a node above leaves is 1
        ("free_leaf", "i8"),  # first of a chain
        ("free_node", "i8"),
        ("leaves", "i8"),  # how many are in use
        ("nodes", "i8"),
    ],
    align=True,
)

# A leaf is LEAF numbers: how many weights, the next free leaf, their |v|, their slots (NONE where
# there is none). A node is NODE numbers: how many children, the next free node or, while the tree
# is cut, the parent; a lower bound of each child's |v| (NEVER where there is none) and slot; the
# children; number and sum of the weights below each.
FILL, NEXT, KEYS = 0, 1, 2
WEIGHTS = 32
SLOTS = KEYS + WEIGHTS
LEAF = SLOTS + WEIGHTS
CHILDREN = 32
TIES = KEYS + CHILDREN
KIDS = TIES + CHILDREN
COUNTS = KIDS + CHILDREN
SUMS = COUNTS + CHILDREN
NODE = SUMS + CHILDREN

NONE = -1
NEVER = 2**62
MODULUS = 2**62 - 1  # as a mask
LOW = 2**31 - 1
HALF_LEAF = WEIGHTS // 2
HALF_NODE = CHILDREN // 2


@inlined
def _times(n: Any, x: Any) -> Any:
    """N x modulo 2**62, where the product itself may not fit."""
    high = n * (x >> 31) & LOW
    return (high << 31) + n * (x & LOW) & MODULUS


@inlined
def _at(node: Any, field: Any) -> Any:
    return np.uint64(node * NODE + field)


@inlined
def _in(leaf: Any, field: Any) -> Any:
    return np.uint64(leaf * LEAF + field)


@inlined
def _child(nodes: Any, node: Any, key: Any, j: Any) -> Any:
    """Which child of a node the weight of slot j with that |v| is below."""
    e = np.int64(0)
    for i in range(1, CHILDREN):
        bound = nodes[_at(node, KEYS + i)]
        tie = nodes[_at(node, TIES + i)]
        e += np.int64((bound < key) | ((bound == key) & (tie <= j)))
    return e


@inlined
def _new_leaf(leaves: Any, clock: Any) -> Any:
    c = clock[0]
    leaf = c.free_leaf
    c.free_leaf = leaves[_in(leaf, NEXT)]
    c.leaves += 1
    leaves[_in(leaf, FILL)] = 0
    for i in range(WEIGHTS):
        leaves[_in(leaf, SLOTS + i)] = NONE
    return leaf


@inlined
def _new_node(nodes: Any, clock: Any) -> Any:
    c = clock[0]
    node = c.free_node
    c.free_node = nodes[_at(node, NEXT)]
    c.nodes += 1
    nodes[_at(node, FILL)] = 0
    for i in range(CHILDREN):
        nodes[_at(node, KEYS + i)] = NEVER
    return node


@inlined
def _free_leaf(leaves: Any, clock: Any, leaf: Any) -> None:
    c = clock[0]
    leaves[_in(leaf, FILL)] = 0
    leaves[_in(leaf, NEXT)] = c.free_leaf
    c.free_leaf = leaf
    c.leaves -= 1


@kernel
def _free(leaves: Any, nodes: Any, clock: Any, child: Any, height: Any) -> None:
    """Free a child of a node of that height, and all below it."""
    c = clock[0]
    if height == 1:
        _free_leaf(leaves, clock, child)
        return
    # What waits is chained; the height above leaves is told by an unused field.
    nodes[_at(child, NEXT)] = NONE
    nodes[_at(child, SUMS)] = height - 1
    waiting = child
    while waiting != NONE:
        node = waiting
        level = nodes[_at(node, SUMS)]
        waiting = nodes[_at(node, NEXT)]
        for i in range(nodes[_at(node, FILL)]):
            kid = nodes[_at(node, KIDS + i)]
            if level == 1:
                _free_leaf(leaves, clock, kid)
            else:
                nodes[_at(kid, NEXT)] = waiting
                nodes[_at(kid, SUMS)] = level - 1
                waiting = kid
        nodes[_at(node, FILL)] = 0
        nodes[_at(node, NEXT)] = c.free_node
        c.free_node = node
        c.nodes -= 1


@inlined
def _sort(leaves: Any, leaf: Any) -> None:
    """Order the weights of a full leaf by |v| and slot."""
    for i in range(1, WEIGHTS):
        key, j = leaves[_in(leaf, KEYS + i)], leaves[_in(leaf, SLOTS + i)]
        k = i - 1
        while k >= 0:
            other = leaves[_in(leaf, KEYS + k)]
            if other < key or (other == key and leaves[_in(leaf, SLOTS + k)] < j):
                break
            leaves[_in(leaf, KEYS + k + 1)] = other
            leaves[_in(leaf, SLOTS + k + 1)] = leaves[_in(leaf, SLOTS + k)]
            k -= 1
        leaves[_in(leaf, KEYS + k + 1)] = key
        leaves[_in(leaf, SLOTS + k + 1)] = j


@kernel
def _split(leaves: Any, nodes: Any, clock: Any, node: Any, e: Any, height: Any) -> None:
    """Split the full e-th child of a node that is not full."""
    kid = nodes[_at(node, KIDS + e)]
    count, total = np.int64(0), np.int64(0)
    if height == 1:
        _sort(leaves, kid)
        half = HALF_LEAF
        twin = _new_leaf(leaves, clock)
        for i in range(half):
            key = leaves[_in(kid, KEYS + half + i)]
            leaves[_in(twin, KEYS + i)] = key
            leaves[_in(twin, SLOTS + i)] = leaves[_in(kid, SLOTS + half + i)]
            leaves[_in(kid, SLOTS + half + i)] = NONE
            total = total + key & MODULUS
        count += half
        leaves[_in(kid, FILL)] = half
        leaves[_in(twin, FILL)] = half
        bound, tie = leaves[_in(twin, KEYS)], leaves[_in(twin, SLOTS)]
    else:
        half = HALF_NODE
        twin = _new_node(nodes, clock)
        for i in range(half):
            for field in range(KEYS + i, NODE, CHILDREN):
                nodes[_at(twin, field)] = nodes[_at(kid, field + half)]
            nodes[_at(kid, KEYS + half + i)] = NEVER
            count += nodes[_at(twin, COUNTS + i)]
            total = total + nodes[_at(twin, SUMS + i)] & MODULUS
        nodes[_at(kid, FILL)] = half
        nodes[_at(twin, FILL)] = half
        bound, tie = nodes[_at(twin, KEYS)], nodes[_at(twin, TIES)]
    fill = nodes[_at(node, FILL)]
    for i in range(fill, e + 1, -1):
        for field in range(KEYS + i, NODE, CHILDREN):
            nodes[_at(node, field)] = nodes[_at(node, field - 1)]
    nodes[_at(node, FILL)] = fill + 1
    nodes[_at(node, COUNTS + e)] -= count
    nodes[_at(node, SUMS + e)] = nodes[_at(node, SUMS + e)] - total & MODULUS
    nodes[_at(node, KEYS + e + 1)] = bound
    nodes[_at(node, TIES + e + 1)] = tie
    nodes[_at(node, KIDS + e + 1)] = twin
    nodes[_at(node, COUNTS + e + 1)] = count
    nodes[_at(node, SUMS + e + 1)] = total


@kernel
def _raise(nodes: Any, clock: Any) -> None:
    """Put a new root above a full one."""
    c = clock[0]
    root = _new_node(nodes, clock)
    count, total = np.int64(0), np.int64(0)
    for i in range(CHILDREN):
        count += nodes[_at(c.root, COUNTS + i)]
        total = total + nodes[_at(c.root, SUMS + i)] & MODULUS
    nodes[_at(root, FILL)] = 1
    nodes[_at(root, KEYS)] = 0
    nodes[_at(root, TIES)] = 0
    nodes[_at(root, KIDS)] = c.root
    nodes[_at(root, COUNTS)] = count
    nodes[_at(root, SUMS)] = total
    c.root = root
    c.height += 1


@inlined
def insert(leaves: Any, nodes: Any, clock: Any, key: Any, j: Any) -> None:
    """Put in the weight of slot j with that |v|."""
    c = clock[0]
    if nodes[_at(c.root, FILL)] == CHILDREN:
        _raise(nodes, clock)
    node, height = c.root, c.height
    while True:
        e = _child(nodes, node, key, j)
        kid = nodes[_at(node, KIDS + e)]
        if height == 1:
            full = leaves[_in(kid, FILL)] == WEIGHTS
        else:
            full = nodes[_at(kid, FILL)] == CHILDREN
        if full:
            _split(leaves, nodes, clock, node, e, height)
            e = _child(nodes, node, key, j)
            kid = nodes[_at(node, KIDS + e)]
        nodes[_at(node, COUNTS + e)] += 1
        nodes[_at(node, SUMS + e)] = nodes[_at(node, SUMS + e)] + key & MODULUS
        if height == 1:
            break
        node = kid
        height -= 1
    fill = leaves[_in(kid, FILL)]
    leaves[_in(kid, KEYS + fill)] = key
    leaves[_in(kid, SLOTS + fill)] = j
    leaves[_in(kid, FILL)] = fill + 1


@inlined
def _take_out(nodes: Any, node: Any, first: Any, last: Any) -> None:
    """Take the children from `first` to before `last` from a node."""
    fill = nodes[_at(node, FILL)]
    by = last - first
    for i in range(last, fill):
        for field in range(KEYS + i, NODE, CHILDREN):
            nodes[_at(node, field - by)] = nodes[_at(node, field)]
    for i in range(fill - by, fill):
        nodes[_at(node, KEYS + i)] = NEVER
    nodes[_at(node, FILL)] = fill - by


@inlined
def _lower(nodes: Any, clock: Any) -> None:
    """Take the root away while it has but one child that is a node."""
    c = clock[0]
    while c.height > 1 and nodes[_at(c.root, FILL)] == 1:
        root = c.root
        c.root = nodes[_at(root, KIDS)]
        c.height -= 1
        nodes[_at(root, FILL)] = 0
        nodes[_at(root, NEXT)] = c.free_node
        c.free_node = root
        c.nodes -= 1


@inlined
def delete(leaves: Any, nodes: Any, clock: Any, key: Any, j: Any) -> None:
    """Take out the weight of slot j, which is there with that |v|."""
    c = clock[0]
    node, height = c.root, c.height
    while True:
        e = _child(nodes, node, key, j)
        kid = nodes[_at(node, KIDS + e)]
        if nodes[_at(node, COUNTS + e)] == 1 and nodes[_at(node, FILL)] > 1:
            _take_out(nodes, node, e, e + 1)
            _free(leaves, nodes, clock, kid, height)
            _lower(nodes, clock)
            return
        nodes[_at(node, COUNTS + e)] -= 1
        nodes[_at(node, SUMS + e)] = nodes[_at(node, SUMS + e)] - key & MODULUS
        if height == 1:
            break
        node = kid
        height -= 1
    place = np.int64(0)
    for i in range(WEIGHTS):
        place += i * np.int64(leaves[_in(kid, SLOTS + i)] == j)
    last = leaves[_in(kid, FILL)] - 1
    leaves[_in(kid, KEYS + place)] = leaves[_in(kid, KEYS + last)]
    leaves[_in(kid, SLOTS + place)] = leaves[_in(kid, SLOTS + last)]
    leaves[_in(kid, SLOTS + last)] = NONE
    leaves[_in(kid, FILL)] = last


@inlined
def totals(nodes: Any, clock: Any) -> Any:
    """N and S of what is in the tree."""
    c = clock[0]
    n, S = np.int64(0), np.int64(0)
    for i in range(nodes[_at(c.root, FILL)]):
        count = nodes[_at(c.root, COUNTS + i)]
        n += count
        S += nodes[_at(c.root, SUMS + i)] - _times(count, c.Theta) & MODULUS
    return n, S


@kernel
def pivot_search(leaves: Any, nodes: Any, clock: Any, z: Any) -> Any:
    """The step's theta for the radius z (Figure 3), and n and S of what is above it before it."""
    c = clock[0]
    Theta = c.Theta
    rho, s = np.int64(0), np.int64(0)
    node, height = c.root, c.height
    while True:
        e = nodes[_at(node, FILL)] - 1
        while e > 0:
            count = nodes[_at(node, COUNTS + e)]
            left = nodes[_at(node, SUMS + e)] - _times(count, Theta) & MODULUS
            bound = left_of(nodes[_at(node, KEYS + e)], Theta)
            if (s + left - z) // (rho + count) >= bound:
                break
            rho += count
            s += left
            e -= 1
        kid = nodes[_at(node, KIDS + e)]
        if height == 1:
            break
        node = kid
        height -= 1
    q, before, count, total = np.int64(-1), np.int64(-1), np.int64(0), np.int64(0)
    while count != before:
        before, count, total = count, np.int64(0), np.int64(0)
        for i in range(leaves[_in(kid, FILL)]):
            left = leaves[_in(kid, KEYS + i)] - Theta
            total += left if left > q else 0
            count += np.int64(left > q)
        q = (s + total - z) // (rho + count)
    return q, rho + count, s + total


@kernel
def cut(leaves: Any, nodes: Any, clock: Any, T: Any) -> None:
    """Take out all weights with |v| <= T."""
    c = clock[0]
    node, height = c.root, c.height
    nodes[_at(node, NEXT)] = NONE
    while True:
        e = _child(nodes, node, T, NEVER)
        for i in range(e):
            _free(leaves, nodes, clock, nodes[_at(node, KIDS + i)], height)
        if e > 0:
            _take_out(nodes, node, 0, e)
        kid = nodes[_at(node, KIDS)]
        if height == 1:
            break
        nodes[_at(kid, NEXT)] = node
        node = kid
        height -= 1
    kept, total = np.int64(0), np.int64(0)
    fill = leaves[_in(kid, FILL)]
    for i in range(fill):
        key, j = leaves[_in(kid, KEYS + i)], leaves[_in(kid, SLOTS + i)]
        leaves[_in(kid, KEYS + kept)] = key
        leaves[_in(kid, SLOTS + kept)] = j
        total = total + (key if key > T else 0) & MODULUS
        kept += np.int64(key > T)
    for i in range(kept, fill):
        leaves[_in(kid, SLOTS + i)] = NONE
    leaves[_in(kid, FILL)] = kept
    while node != NONE:
        after = nodes[_at(node, NEXT)]
        if kept == 0 and nodes[_at(node, FILL)] > 1:
            _free(leaves, nodes, clock, nodes[_at(node, KIDS)], height)
            _take_out(nodes, node, 0, 1)
        else:
            nodes[_at(node, COUNTS)] = kept
            nodes[_at(node, SUMS)] = total
        kept, total = np.int64(0), np.int64(0)
        for i in range(nodes[_at(node, FILL)]):
            kept += nodes[_at(node, COUNTS + i)]
            total = total + nodes[_at(node, SUMS + i)] & MODULUS
        node = after
        height += 1
    _lower(nodes, clock)


@kernel
def clear(leaves: Any, nodes: Any, clock: Any) -> None:
    """All leaves and nodes are free."""
    c = clock[0]
    for leaf in range(len(leaves) // LEAF):
        leaves[_in(leaf, FILL)] = 0
        leaves[_in(leaf, NEXT)] = leaf + 1
    for node in range(len(nodes) // NODE):
        nodes[_at(node, FILL)] = 0
        nodes[_at(node, NEXT)] = node + 1
    c.free_leaf, c.free_node, c.leaves, c.nodes, c.awake = 0, 0, 0, 0, 0


@inlined
def plant(leaves: Any, nodes: Any, clock: Any) -> None:
    """A tree of no weights: a root, and one leaf."""
    c = clock[0]
    c.root = _new_node(nodes, clock)
    c.height = 1
    nodes[_at(c.root, FILL)] = 1
    nodes[_at(c.root, KEYS)] = 0
    nodes[_at(c.root, TIES)] = 0
    nodes[_at(c.root, KIDS)] = _new_leaf(leaves, clock)
    nodes[_at(c.root, COUNTS)] = 0
    nodes[_at(c.root, SUMS)] = 0
    c.awake = 1
