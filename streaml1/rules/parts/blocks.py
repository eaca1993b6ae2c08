"""Blocks of equal weights, and a heap of them and of single weights, for `rules/fobos_linf.py`.

Functions here are given the rule that owns the arrays. Entries near the level have a small heap of their own:
of the weights there, those that an example touches mostly come back at once. What the last step has left at
the level is in no heap, but `top` of the clock: most steps begin and end with it.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.jit import inlined, kernel
from streaml1.rows import ensure
from streaml1.rules.parts.slots import records

__all__ = [
    "BLOCK",
    "ENTRY",
    "MARK",
    "NEAR",
    "NEARS_MOST",
    "NONE",
    "ROOM_LEAST",
    "SLOT",
    "WEIGHT_MOST",
    "alive",
    "built",
    "check",
    "current",
    "join",
    "merged",
    "push",
    "requeue",
    "root",
    "roots_of",
    "settle",
    "take",
    "topmost",
    "with_room",
]

# bound: the key of the slot's entry, 0 where it has none; -1 - b where it is in block b.
SLOT = np.dtype([("w", "f8"), ("bound", "f8")], align=True)
MARK = -0.0  # the w of a slot that an example has touched and that has no weight
ENTRY = np.dtype([("key", "f8"), ("id", "i8")], align=True)  # id: a slot, or -1 - b
NONE = -(2**62)  # no id
NEAR = 0.9  # of the level: entries above it are near
NEARS_MOST = 64
BLOCK = np.dtype(
    [
        ("value", "f8"),
        ("n", "i8"),  # members
        ("parent", "i8"),  # of a root: minus how many blocks its tree has
    ],
    align=True,
)
WEIGHT_MOST = 1e150
ROOM_LEAST = 256


# The forest


@inlined
def root(rule: Any, b: Any) -> Any:
    """The root of the tree that a block is in."""
    while rule.blocks[b].parent >= 0:
        b = rule.blocks[b].parent
    return b


@inlined
def current(rule: Any, one: Any) -> float:
    """The weight of a slot."""
    w: float = one.w
    if one.bound < 0.0:
        w = math.copysign(rule.blocks[root(rule, -1 - np.int64(one.bound))].value, w)
    return w


@inlined
def join(rule: Any, j: Any, b: Any) -> None:
    """Take a free slot into the block of a root."""
    rule.slots[j].bound = -1.0 - b
    rule.blocks[b].n += 1


@inlined
def merged(rule: Any, a: int, b: Any) -> Any:
    """The root of what two roots have together."""
    if rule.blocks[a].parent > rule.blocks[b].parent:
        a, b = b, a
    larger, other = rule.blocks[a], rule.blocks[b]
    larger.parent += other.parent
    larger.n += other.n
    other.parent = a
    other.n = 0
    return a


# The heap


@inlined
def _sift_up(heap: Any, k: Any, key: float, id: Any) -> None:
    """Put an entry at place k or above, where it belongs."""
    while k > 0:
        above = (k - 1) >> 1
        if heap[above].key >= key:
            break
        heap[k].key = heap[above].key
        heap[k].id = heap[above].id
        k = above
    heap[k].key = key
    heap[k].id = id


@inlined
def _sift_down(heap: Any, n: Any, k: Any, key: float, id: Any) -> None:
    """Put an entry at place k or below, where it belongs."""
    while True:
        below = 2 * k + 1
        if below + 1 >= n:
            break
        below += np.int64(heap[below + 1].key > heap[below].key)
        if heap[below].key <= key:
            break
        heap[k].key = heap[below].key
        heap[k].id = heap[below].id
        k = below
    if 2 * k + 2 == n and heap[n - 1].key > key:
        heap[k].key = heap[n - 1].key
        heap[k].id = heap[n - 1].id
        k = n - 1
    heap[k].key = key
    heap[k].id = id


@inlined
def push(rule: Any, key: float, id: Any) -> None:
    """Make an entry."""
    c = rule.clock[0]
    if 0.0 < NEAR * c.level < key:
        _sift_up(rule.near, c.nears, key, id)
        c.nears += 1
    else:
        _sift_up(rule.heap, c.entries, key, id)
        c.entries += 1


@inlined
def _true_key(rule: Any, key: float, id: Any) -> float:
    """The key that an entry should have; 0 where it should be gone."""
    if id < 0:
        block = rule.blocks[-1 - id]
        alive = block.parent < 0 and block.n > 0 and block.value == key
        return key if alive else 0.0
    one = rule.slots[id]
    if one.bound != key:
        return 0.0
    size: float = abs(one.w)
    one.bound = size
    return size


@inlined
def settle(rule: Any) -> None:
    """Where many entries are near, send them to the others."""
    c = rule.clock[0]
    if c.nears <= NEARS_MOST:
        return
    for k in range(c.nears):
        one = rule.near[k]
        key = _true_key(rule, one.key, one.id)
        if key > 0.0:
            _sift_up(rule.heap, c.entries, key, one.id)
            c.entries += 1
    c.nears = 0


@inlined
def topmost(rule: Any) -> float:
    """The largest key; it may be too large. 0 where there is none."""
    c = rule.clock[0]
    key: float = rule.heap[0].key if c.entries else 0.0
    if c.nears:
        key = max(key, rule.near[0].key)
    return max(key, c.level) if c.top != NONE else key


@inlined
def _taken(rule: Any, heap: Any, n: Any) -> Any:
    """Set the first of n entries right, and tell whether it was true and is taken off, and n."""
    first, id = heap[0].key, heap[0].id
    key = _true_key(rule, first, id)
    if 0.0 < key < first:
        _sift_down(heap, n, np.int64(0), key, id)
        return np.int64(NONE), n
    n -= 1
    if n > 0:
        _sift_down(heap, n, np.int64(0), heap[n].key, heap[n].id)
    return (id if key > 0.0 else np.int64(NONE)), n


@inlined
def take(rule: Any, key: float) -> Any:
    """Take the topmost entry off, if its key is true; else NONE: it is gone or set right."""
    c = rule.clock[0]
    if c.top != NONE and key == c.level:
        id = c.top
        c.top = NONE
        true = _true_key(rule, key, id)
        if 0.0 < true < key:
            push(rule, true, id)
        return id if true == key else np.int64(NONE)
    if c.nears and key == rule.near[0].key:
        id, c.nears = _taken(rule, rule.near, c.nears)
        return id
    id, c.entries = _taken(rule, rule.heap, c.entries)
    return id


@kernel
def requeue(rule: Any) -> None:
    """Fill the heap: an entry for each weight and block that must have one."""
    heap = rule.heap
    n = np.int64(0)
    for j in range(np.int64(len(rule.slots))):
        if rule.slots[j].bound > 0.0:
            heap[n].key = rule.slots[j].bound
            heap[n].id = j
            n += 1
    for b in range(rule.clock[0].blocks):
        block = rule.blocks[b]
        if block.parent < 0 and block.n > 0 and block.value > 0.0:
            heap[n].key = block.value
            heap[n].id = -1 - b
            n += 1
    rule.clock[0].entries = n
    rule.clock[0].nears = 0
    rule.clock[0].top = NONE
    for i in range(n >> 1):
        k = (n >> 1) - 1 - i
        _sift_down(heap, n, k, heap[k].key, heap[k].id)


def roots_of(rule: Any, members: Any) -> Any:
    """The root of the block that each of some slots is in."""
    parent = rule.blocks["parent"][: rule.clock[0].blocks]
    roots = np.arange(len(parent))
    while True:
        above = parent[roots]
        if (above < 0).all():
            return roots[_block_of(rule, members)]
        roots = np.where(above < 0, roots, above)


def _block_of(rule: Any, members: Any) -> Any:
    return (-1.0 - rule.slots["bound"][members]).astype(np.int64)


def alive(rule: Any) -> Any:
    """Which blocks are roots with members, and not at 0."""
    blocks = rule.blocks[: rule.clock[0].blocks]
    return (blocks["parent"] < 0) & (blocks["n"] > 0) & (blocks["value"] > 0.0)


def built(w: Any, touched: Any, nnz: int) -> tuple[Any, Any, Any, int, int]:
    """Slots with these weights, blocks of equal ones, a heap, and how many of the latter two."""
    live = np.flatnonzero(w)
    values, first, group, counts = np.unique(
        np.abs(w[live]), return_index=True, return_inverse=True, return_counts=True
    )
    together = counts > 1
    number = 0 - np.cumsum(together)  # -1 - b
    n_blocks = int(np.count_nonzero(together))
    slots = records(len(w), SLOT)
    slots["w"] = np.where(touched & (w == 0.0), MARK, w)
    slots["bound"][live] = np.where(together, number, values)[group]
    blocks = records(n_blocks + max(len(w) // 8, ROOM_LEAST), BLOCK)
    blocks["value"][:n_blocks] = values[together]
    blocks["n"][:n_blocks] = counts[together]
    blocks["parent"][:n_blocks] = -1
    heap = records(with_room(len(values), len(w), nnz), ENTRY)
    heap["key"][: len(values)] = values[::-1]
    heap["id"][: len(values)] = np.where(together, number, live[first])[::-1]
    return slots, blocks, heap, len(values), n_blocks


def with_room(n: int, d: int, nnz: int) -> int:
    """How long the heap is for `n` entries that are needed: others may come, and become stale."""
    return n + max(n, d // 8, 2 * nnz, ROOM_LEAST)


def check(rule: Any) -> None:
    """Raise AssertionError where an invariant of forest or heap is broken."""
    c = rule.clock[0]
    ensure(0 <= c.entries <= len(rule.heap), "the entries are miscounted")
    ensure(0 <= c.nears <= len(rule.near), "the near entries are miscounted")
    ensure(0 <= c.blocks <= len(rule.blocks), "the blocks are miscounted")
    _check_blocks(rule)
    _check_heap(rule)


def _check_blocks(rule: Any) -> None:
    blocks = rule.blocks[: rule.clock[0].blocks]
    parent = blocks["parent"]
    ensure(np.all(parent < len(blocks)), "a parent is no block")
    roots = np.arange(len(blocks))
    for _ in range(len(blocks).bit_length() + 1):  # by size: no tree is deeper
        roots = np.where(parent[roots] < 0, roots, parent[roots])
    ensure(np.all(parent[roots] < 0), "the forest is too deep")
    is_root = parent < 0
    sizes = np.bincount(roots, minlength=len(blocks))
    ensure(np.all(sizes[is_root] == -parent[is_root]), "a tree is miscounted")
    bound, w = rule.slots["bound"], rule.slots["w"]
    members = np.flatnonzero(bound < 0.0)
    numbers = _block_of(rule, members)
    ensure(np.all(bound[members] == -1.0 - numbers), "a block has no whole number")
    ensure(np.all(numbers < len(blocks)), "a slot is in no block")
    ensure(np.all(w[members] != 0.0), "a member has no sign")
    n = np.bincount(roots[numbers], minlength=len(blocks))
    ensure(np.array_equal(n, blocks["n"]), "members are miscounted")
    value = blocks["value"][is_root]
    ensure(np.all((value >= 0.0) & (value < WEIGHT_MOST)), "a value is out of range")


def _check_heap(rule: Any) -> None:
    c = rule.clock[0]
    parts = rule.heap[: c.entries], rule.near[: c.nears]
    for part in parts:
        k = np.arange(1, len(part))
        ensure(np.all(part["key"][(k - 1) // 2] >= part["key"][1:]), "a heap is in no order")
    key, id = (np.concatenate([part[name] for part in parts]) for name in ("key", "id"))
    if c.top != NONE:
        key, id = np.append(key, c.level), np.append(id, c.top)
    ensure(np.all(key > 0.0), "a key is not above 0")
    ensure(np.all((id < len(rule.slots)) & (id >= -rule.clock[0].blocks)), "an id is none")
    w, bound = rule.slots["w"], rule.slots["bound"]
    ensure(np.all((bound < 0.0) | (bound >= np.abs(w))), "a weight is above its bound")
    free = np.zeros(len(w), bool)
    ours = id >= 0
    free[id[ours][key[ours] == bound[id[ours]]]] = True
    ensure(np.array_equal(free, bound > 0.0), "a weight has no entry")
    blocks = rule.blocks[: rule.clock[0].blocks]
    found = np.zeros(len(blocks), np.int64)
    b = -1 - id[~ours]
    np.add.at(found, b[key[~ours] == blocks["value"][b]], 1)
    ensure(np.all(found[alive(rule)] == 1), "a block has no entry, or two")
