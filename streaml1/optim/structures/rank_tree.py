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

from streaml1.core.jit import inlined, kernel
from streaml1.optim.structures.fixed_point_vector import left_of
from streaml1.optim.structures.rank_tree_nodes import (
    CHILDREN,
    COUNTS,
    FILL,
    HALF_LEAF,
    HALF_NODE,
    KEYS,
    KIDS,
    MODULUS,
    NEVER,
    NEXT,
    NODE,
    NONE,
    SLOTS,
    SUMS,
    TIES,
    WEIGHTS,
    at,
    free,
    inside,
    new_leaf,
    new_node,
)

__all__ = ["cut", "delete", "insert", "pivot_search", "totals"]

LOW = 2**31 - 1


@inlined
def _times(n: Any, x: Any) -> Any:
    """N x modulo 2**62, where the product itself may not fit."""
    high = n * (x >> 31) & LOW
    return (high << 31) + n * (x & LOW) & MODULUS


@inlined
def _child(nodes: Any, node: Any, key: Any, j: Any) -> Any:
    """Which child of a node the weight of slot j with that |v| is below."""
    e = np.int64(0)
    for i in range(1, CHILDREN):
        bound = nodes[at(node, KEYS + i)]
        tie = nodes[at(node, TIES + i)]
        e += np.int64((bound < key) | ((bound == key) & (tie <= j)))
    return e


@inlined
def _sort(leaves: Any, leaf: Any) -> None:
    """Order the weights of a full leaf by |v| and slot."""
    for i in range(1, WEIGHTS):
        key, j = leaves[inside(leaf, KEYS + i)], leaves[inside(leaf, SLOTS + i)]
        k = i - 1
        while k >= 0:
            other = leaves[inside(leaf, KEYS + k)]
            if other < key or (other == key and leaves[inside(leaf, SLOTS + k)] < j):
                break
            leaves[inside(leaf, KEYS + k + 1)] = other
            leaves[inside(leaf, SLOTS + k + 1)] = leaves[inside(leaf, SLOTS + k)]
            k -= 1
        leaves[inside(leaf, KEYS + k + 1)] = key
        leaves[inside(leaf, SLOTS + k + 1)] = j


@kernel
def _split(leaves: Any, nodes: Any, clock: Any, node: Any, e: Any, height: Any) -> None:
    """Split the full e-th child of a node that is not full."""
    kid = nodes[at(node, KIDS + e)]
    count, total = np.int64(0), np.int64(0)
    if height == 1:
        _sort(leaves, kid)
        half = HALF_LEAF
        twin = new_leaf(leaves, clock)
        for i in range(half):
            key = leaves[inside(kid, KEYS + half + i)]
            leaves[inside(twin, KEYS + i)] = key
            leaves[inside(twin, SLOTS + i)] = leaves[inside(kid, SLOTS + half + i)]
            leaves[inside(kid, SLOTS + half + i)] = NONE
            total = total + key & MODULUS
        count += half
        leaves[inside(kid, FILL)] = half
        leaves[inside(twin, FILL)] = half
        bound, tie = leaves[inside(twin, KEYS)], leaves[inside(twin, SLOTS)]
    else:
        half = HALF_NODE
        twin = new_node(nodes, clock)
        for i in range(half):
            for field in range(KEYS + i, NODE, CHILDREN):
                nodes[at(twin, field)] = nodes[at(kid, field + half)]
            nodes[at(kid, KEYS + half + i)] = NEVER
            count += nodes[at(twin, COUNTS + i)]
            total = total + nodes[at(twin, SUMS + i)] & MODULUS
        nodes[at(kid, FILL)] = half
        nodes[at(twin, FILL)] = half
        bound, tie = nodes[at(twin, KEYS)], nodes[at(twin, TIES)]
    fill = nodes[at(node, FILL)]
    for i in range(fill, e + 1, -1):
        for field in range(KEYS + i, NODE, CHILDREN):
            nodes[at(node, field)] = nodes[at(node, field - 1)]
    nodes[at(node, FILL)] = fill + 1
    nodes[at(node, COUNTS + e)] -= count
    nodes[at(node, SUMS + e)] = nodes[at(node, SUMS + e)] - total & MODULUS
    nodes[at(node, KEYS + e + 1)] = bound
    nodes[at(node, TIES + e + 1)] = tie
    nodes[at(node, KIDS + e + 1)] = twin
    nodes[at(node, COUNTS + e + 1)] = count
    nodes[at(node, SUMS + e + 1)] = total


@kernel
def _raise(nodes: Any, clock: Any) -> None:
    """Put a new root above a full one."""
    c = clock[0]
    root = new_node(nodes, clock)
    count, total = np.int64(0), np.int64(0)
    for i in range(CHILDREN):
        count += nodes[at(c.root, COUNTS + i)]
        total = total + nodes[at(c.root, SUMS + i)] & MODULUS
    nodes[at(root, FILL)] = 1
    nodes[at(root, KEYS)] = 0
    nodes[at(root, TIES)] = 0
    nodes[at(root, KIDS)] = c.root
    nodes[at(root, COUNTS)] = count
    nodes[at(root, SUMS)] = total
    c.root = root
    c.height += 1


@inlined
def insert(leaves: Any, nodes: Any, clock: Any, key: Any, j: Any) -> None:
    """Put in the weight of slot j with that |v|."""
    c = clock[0]
    if nodes[at(c.root, FILL)] == CHILDREN:
        _raise(nodes, clock)
    node, height = c.root, c.height
    while True:
        e = _child(nodes, node, key, j)
        kid = nodes[at(node, KIDS + e)]
        if height == 1:
            full = leaves[inside(kid, FILL)] == WEIGHTS
        else:
            full = nodes[at(kid, FILL)] == CHILDREN
        if full:
            _split(leaves, nodes, clock, node, e, height)
            e = _child(nodes, node, key, j)
            kid = nodes[at(node, KIDS + e)]
        nodes[at(node, COUNTS + e)] += 1
        nodes[at(node, SUMS + e)] = nodes[at(node, SUMS + e)] + key & MODULUS
        if height == 1:
            break
        node = kid
        height -= 1
    fill = leaves[inside(kid, FILL)]
    leaves[inside(kid, KEYS + fill)] = key
    leaves[inside(kid, SLOTS + fill)] = j
    leaves[inside(kid, FILL)] = fill + 1


@inlined
def _take_out(nodes: Any, node: Any, first: Any, last: Any) -> None:
    """Take the children from `first` to before `last` from a node."""
    fill = nodes[at(node, FILL)]
    by = last - first
    for i in range(last, fill):
        for field in range(KEYS + i, NODE, CHILDREN):
            nodes[at(node, field - by)] = nodes[at(node, field)]
    for i in range(fill - by, fill):
        nodes[at(node, KEYS + i)] = NEVER
    nodes[at(node, FILL)] = fill - by


@inlined
def _lower(nodes: Any, clock: Any) -> None:
    """Take the root away while it has but one child that is a node."""
    c = clock[0]
    while c.height > 1 and nodes[at(c.root, FILL)] == 1:
        root = c.root
        c.root = nodes[at(root, KIDS)]
        c.height -= 1
        nodes[at(root, FILL)] = 0
        nodes[at(root, NEXT)] = c.free_node
        c.free_node = root
        c.nodes -= 1


@inlined
def delete(leaves: Any, nodes: Any, clock: Any, key: Any, j: Any) -> None:
    """Take out the weight of slot j, which is there with that |v|."""
    c = clock[0]
    node, height = c.root, c.height
    while True:
        e = _child(nodes, node, key, j)
        kid = nodes[at(node, KIDS + e)]
        if nodes[at(node, COUNTS + e)] == 1 and nodes[at(node, FILL)] > 1:
            _take_out(nodes, node, e, e + 1)
            free(leaves, nodes, clock, kid, height)
            _lower(nodes, clock)
            return
        nodes[at(node, COUNTS + e)] -= 1
        nodes[at(node, SUMS + e)] = nodes[at(node, SUMS + e)] - key & MODULUS
        if height == 1:
            break
        node = kid
        height -= 1
    place = np.int64(0)
    for i in range(WEIGHTS):
        place += i * np.int64(leaves[inside(kid, SLOTS + i)] == j)
    last = leaves[inside(kid, FILL)] - 1
    leaves[inside(kid, KEYS + place)] = leaves[inside(kid, KEYS + last)]
    leaves[inside(kid, SLOTS + place)] = leaves[inside(kid, SLOTS + last)]
    leaves[inside(kid, SLOTS + last)] = NONE
    leaves[inside(kid, FILL)] = last


@inlined
def totals(nodes: Any, clock: Any) -> Any:
    """N and S of what is in the tree."""
    c = clock[0]
    n, S = np.int64(0), np.int64(0)
    for i in range(nodes[at(c.root, FILL)]):
        count = nodes[at(c.root, COUNTS + i)]
        n += count
        S += nodes[at(c.root, SUMS + i)] - _times(count, c.Theta) & MODULUS
    return n, S


@kernel
def pivot_search(leaves: Any, nodes: Any, clock: Any, z: Any) -> Any:
    """The step's theta for the radius z (Figure 3), and n and S of what is above it before it."""
    c = clock[0]
    Theta = c.Theta
    rho, s = np.int64(0), np.int64(0)
    node, height = c.root, c.height
    while True:
        e = nodes[at(node, FILL)] - 1
        while e > 0:
            count = nodes[at(node, COUNTS + e)]
            left = nodes[at(node, SUMS + e)] - _times(count, Theta) & MODULUS
            bound = left_of(nodes[at(node, KEYS + e)], Theta)
            if (s + left - z) // (rho + count) >= bound:
                break
            rho += count
            s += left
            e -= 1
        kid = nodes[at(node, KIDS + e)]
        if height == 1:
            break
        node = kid
        height -= 1
    q, before, count, total = np.int64(-1), np.int64(-1), np.int64(0), np.int64(0)
    while count != before:
        before, count, total = count, np.int64(0), np.int64(0)
        for i in range(leaves[inside(kid, FILL)]):
            left = leaves[inside(kid, KEYS + i)] - Theta
            total += left if left > q else 0
            count += np.int64(left > q)
        q = (s + total - z) // (rho + count)
    return q, rho + count, s + total


@kernel
def cut(leaves: Any, nodes: Any, clock: Any, T: Any) -> None:
    """Take out all weights with |v| <= T."""
    c = clock[0]
    node, height = c.root, c.height
    nodes[at(node, NEXT)] = NONE
    while True:
        e = _child(nodes, node, T, NEVER)
        for i in range(e):
            free(leaves, nodes, clock, nodes[at(node, KIDS + i)], height)
        if e > 0:
            _take_out(nodes, node, 0, e)
        kid = nodes[at(node, KIDS)]
        if height == 1:
            break
        nodes[at(kid, NEXT)] = node
        node = kid
        height -= 1
    kept, total = np.int64(0), np.int64(0)
    fill = leaves[inside(kid, FILL)]
    for i in range(fill):
        key, j = leaves[inside(kid, KEYS + i)], leaves[inside(kid, SLOTS + i)]
        leaves[inside(kid, KEYS + kept)] = key
        leaves[inside(kid, SLOTS + kept)] = j
        total = total + (key if key > T else 0) & MODULUS
        kept += np.int64(key > T)
    for i in range(kept, fill):
        leaves[inside(kid, SLOTS + i)] = NONE
    leaves[inside(kid, FILL)] = kept
    while node != NONE:
        after = nodes[at(node, NEXT)]
        if kept == 0 and nodes[at(node, FILL)] > 1:
            free(leaves, nodes, clock, nodes[at(node, KIDS)], height)
            _take_out(nodes, node, 0, 1)
        else:
            nodes[at(node, COUNTS)] = kept
            nodes[at(node, SUMS)] = total
        kept, total = np.int64(0), np.int64(0)
        for i in range(nodes[at(node, FILL)]):
            kept += nodes[at(node, COUNTS + i)]
            total = total + nodes[at(node, SUMS + i)] & MODULUS
        node = after
        height += 1
    _lower(nodes, clock)
