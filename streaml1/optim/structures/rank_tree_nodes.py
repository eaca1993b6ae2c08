"""What a wide tree is made of: leaves and nodes in two arrays of numbers, the free ones in chains.

A leaf is LEAF numbers: how many weights, the next free leaf, their |v|, their slots (NONE where
there is none). A node is NODE numbers: how many children, the next free node or, while the tree
is cut, the parent; a lower bound of each child's |v| (NEVER where there is none) and slot; the
children; number and sum of the weights below each.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.optim.structures.fixed_point_vector import LEDGER

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
    "at",
    "clear",
    "free",
    "inside",
    "new_leaf",
    "new_node",
    "plant",
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
HALF_LEAF = WEIGHTS // 2
HALF_NODE = CHILDREN // 2


@inlined
def at(node: Any, field: Any) -> Any:
    """Where a field of a node is."""
    return np.uint64(node * NODE + field)


@inlined
def inside(leaf: Any, field: Any) -> Any:
    """Where a field of a leaf is."""
    return np.uint64(leaf * LEAF + field)


@inlined
def new_leaf(leaves: Any, clock: Any) -> Any:
    """Take a free leaf: no weights."""
    c = clock[0]
    leaf = c.free_leaf
    c.free_leaf = leaves[inside(leaf, NEXT)]
    c.leaves += 1
    leaves[inside(leaf, FILL)] = 0
    for i in range(WEIGHTS):
        leaves[inside(leaf, SLOTS + i)] = NONE
    return leaf


@inlined
def new_node(nodes: Any, clock: Any) -> Any:
    """Take a free node: no children."""
    c = clock[0]
    node = c.free_node
    c.free_node = nodes[at(node, NEXT)]
    c.nodes += 1
    nodes[at(node, FILL)] = 0
    for i in range(CHILDREN):
        nodes[at(node, KEYS + i)] = NEVER
    return node


@inlined
def _free_leaf(leaves: Any, clock: Any, leaf: Any) -> None:
    c = clock[0]
    leaves[inside(leaf, FILL)] = 0
    leaves[inside(leaf, NEXT)] = c.free_leaf
    c.free_leaf = leaf
    c.leaves -= 1


@kernel
def free(leaves: Any, nodes: Any, clock: Any, child: Any, height: Any) -> None:
    """Free a child of a node of that height, and all below it."""
    c = clock[0]
    if height == 1:
        _free_leaf(leaves, clock, child)
        return
    # What waits is chained; the height above leaves is told by an unused field.
    nodes[at(child, NEXT)] = NONE
    nodes[at(child, SUMS)] = height - 1
    waiting = child
    while waiting != NONE:
        node = waiting
        level = nodes[at(node, SUMS)]
        waiting = nodes[at(node, NEXT)]
        for i in range(nodes[at(node, FILL)]):
            kid = nodes[at(node, KIDS + i)]
            if level == 1:
                _free_leaf(leaves, clock, kid)
            else:
                nodes[at(kid, NEXT)] = waiting
                nodes[at(kid, SUMS)] = level - 1
                waiting = kid
        nodes[at(node, FILL)] = 0
        nodes[at(node, NEXT)] = c.free_node
        c.free_node = node
        c.nodes -= 1


@kernel
def clear(leaves: Any, nodes: Any, clock: Any) -> None:
    """All leaves and nodes are free."""
    c = clock[0]
    for leaf in range(len(leaves) // LEAF):
        leaves[inside(leaf, FILL)] = 0
        leaves[inside(leaf, NEXT)] = leaf + 1
    for node in range(len(nodes) // NODE):
        nodes[at(node, FILL)] = 0
        nodes[at(node, NEXT)] = node + 1
    c.free_leaf, c.free_node, c.leaves, c.nodes, c.awake = 0, 0, 0, 0, 0


@inlined
def plant(leaves: Any, nodes: Any, clock: Any) -> None:
    """A tree of no weights: a root, and one leaf."""
    c = clock[0]
    c.root = new_node(nodes, clock)
    c.height = 1
    nodes[at(c.root, FILL)] = 1
    nodes[at(c.root, KEYS)] = 0
    nodes[at(c.root, TIES)] = 0
    nodes[at(c.root, KIDS)] = new_leaf(leaves, clock)
    nodes[at(c.root, COUNTS)] = 0
    nodes[at(c.root, SUMS)] = 0
    c.awake = 1
