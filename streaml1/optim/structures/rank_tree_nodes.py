"""Layout and allocation of the leaves and nodes of `rank_tree.py`.

Leaves and nodes are fixed-size parts of two arrays of int64. Free ones are chained by `NEXT`.

| part of a leaf | elements | part of a node | elements |
|---|---:|---|---:|
| `FILL`: number of weights | 1 | `FILL`: number of children | 1 |
| `NEXT`: next free leaf | 1 | `NEXT`: next free node; during a cut, the parent | 1 |
| `KEYS`: key of each weight | 32 | `KEYS`: lower bound of each child; `NEVER` if unused | 32 |
| `SLOTS`: slot of each weight; `NONE` if unused | 32 | `TIES`: slot of the bound | 32 |
| | | `KIDS`: the children | 32 |
| | | `COUNTS`, `SUMS`: number and sum of the keys below each | 32 + 32 |
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
    "clear",
    "free",
    "in_leaf",
    "in_node",
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
        ("leaves", "i8"),  # number in use
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
def in_node(node: Any, field: Any) -> Any:
    """Return the position of an element of a node."""
    return np.uint64(node * NODE + field)


@inlined
def in_leaf(leaf: Any, field: Any) -> Any:
    """Return the position of an element of a leaf."""
    return np.uint64(leaf * LEAF + field)


@inlined
def new_leaf(leaves: Any, clock: Any) -> Any:
    """Allocate a leaf without weights."""
    c = clock[0]
    leaf = c.free_leaf
    c.free_leaf = leaves[in_leaf(leaf, NEXT)]
    c.leaves += 1
    leaves[in_leaf(leaf, FILL)] = 0
    for i in range(WEIGHTS):
        leaves[in_leaf(leaf, SLOTS + i)] = NONE
    return leaf


@inlined
def new_node(nodes: Any, clock: Any) -> Any:
    """Allocate a node without children."""
    c = clock[0]
    node = c.free_node
    c.free_node = nodes[in_node(node, NEXT)]
    c.nodes += 1
    nodes[in_node(node, FILL)] = 0
    for i in range(CHILDREN):
        nodes[in_node(node, KEYS + i)] = NEVER
    return node


@inlined
def _free_leaf(leaves: Any, clock: Any, leaf: Any) -> None:
    """Free a leaf."""
    c = clock[0]
    leaves[in_leaf(leaf, FILL)] = 0
    leaves[in_leaf(leaf, NEXT)] = c.free_leaf
    c.free_leaf = leaf
    c.leaves -= 1


@kernel
def free(leaves: Any, nodes: Any, clock: Any, child: Any, height: Any) -> None:
    """Free a child of a node of the given height, and everything below it.

    Depth first, without recursion: pending nodes are chained by `NEXT`, and hold their height in
    the first element of `SUMS`, which is not needed any more.
    """
    c = clock[0]
    if height == 1:
        _free_leaf(leaves, clock, child)
        return
    nodes[in_node(child, NEXT)] = NONE
    nodes[in_node(child, SUMS)] = height - 1
    pending = child
    while pending != NONE:
        node = pending
        level = nodes[in_node(node, SUMS)]
        pending = nodes[in_node(node, NEXT)]
        for i in range(nodes[in_node(node, FILL)]):
            kid = nodes[in_node(node, KIDS + i)]
            if level == 1:
                _free_leaf(leaves, clock, kid)
            else:
                nodes[in_node(kid, NEXT)] = pending
                nodes[in_node(kid, SUMS)] = level - 1
                pending = kid
        nodes[in_node(node, FILL)] = 0
        nodes[in_node(node, NEXT)] = c.free_node
        c.free_node = node
        c.nodes -= 1


@kernel
def clear(leaves: Any, nodes: Any, clock: Any) -> None:
    """Free all leaves and nodes."""
    c = clock[0]
    for leaf in range(len(leaves) // LEAF):
        leaves[in_leaf(leaf, FILL)] = 0
        leaves[in_leaf(leaf, NEXT)] = leaf + 1
    for node in range(len(nodes) // NODE):
        nodes[in_node(node, FILL)] = 0
        nodes[in_node(node, NEXT)] = node + 1
    c.free_leaf, c.free_node, c.leaves, c.nodes, c.awake = 0, 0, 0, 0, 0


@inlined
def plant(leaves: Any, nodes: Any, clock: Any) -> None:
    """Create a tree without weights: a root and one leaf."""
    c = clock[0]
    c.root = new_node(nodes, clock)
    c.height = 1
    nodes[in_node(c.root, FILL)] = 1
    nodes[in_node(c.root, KEYS)] = 0
    nodes[in_node(c.root, TIES)] = 0
    nodes[in_node(c.root, KIDS)] = new_leaf(leaves, clock)
    nodes[in_node(c.root, COUNTS)] = 0
    nodes[in_node(c.root, SUMS)] = 0
    c.awake = 1
