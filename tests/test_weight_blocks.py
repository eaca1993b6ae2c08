"""Blocks of equal weights, ordered by value, against a list of (value, members)."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streaml1.core.jit import kernel
from streaml1.optim.structures import weight_blocks
from streaml1.optim.structures.slot_arrays import records
from streaml1.optim.structures.weight_blocks import (
    BLOCK,
    add,
    current,
    has_room,
    id_of,
    join,
    leave,
)

D = 12
FREE = 0.25
CLOCK = np.dtype([("level", "f8")])
NEW_TOP, JOIN_TOP, REMOVE, MERGE_TOP = range(4)


class Rule(NamedTuple):
    u: Annotated[Any, np.float64]
    blocks: Annotated[Any, BLOCK]
    clock: Annotated[Any, CLOCK]


@kernel
def apply_operation(rule: Any, operation: int, j: Any) -> None:
    """Apply an operation to slot j.

    NEW_TOP moves it into a new highest block, JOIN_TOP into the highest block, REMOVE frees it.
    MERGE_TOP merges the two highest blocks.
    """
    j = np.uint64(j)
    if operation == MERGE_TOP:
        top = np.uint64(rule.blocks[0].lower)
        below = np.uint64(rule.blocks[top].lower)
        value = rule.blocks[below].value
        top = weight_blocks.merged(rule, top, below)
        rule.blocks[top].value = value
        return
    leave(rule, id_of(rule.u[j]))
    rule.u[j] = np.copysign(FREE, rule.u[j])
    id = np.uint64(rule.blocks[0].lower)
    if operation == NEW_TOP:
        value = rule.blocks[id].value + 1.0 if id > np.uint64(0) else 1.0
        id = weight_blocks.new_block(rule, value)
    if operation != REMOVE and id > np.uint64(0):
        join(rule, j, id)
        add(rule, id, np.int64(1))


@kernel
def weights(rule: Any, w: Any) -> bool:
    for j in range(np.uint64(len(w))):
        w[j] = current(rule, rule.u[j])
    return has_room(rule)


def apply_to_list(blocks: list[tuple[float, set[int]]], operation: int, j: int) -> Any:
    """Apply the operation to a list of (value, members), sorted by value."""
    if operation == MERGE_TOP:
        if len(blocks) > 1:
            (value, members), (_, top_members) = blocks[-2:]
            blocks = [*blocks[:-2], (value, members | top_members)]
        return blocks
    blocks = [(value, members - {j}) for value, members in blocks]
    blocks = [(value, members) for value, members in blocks if members]
    if operation == NEW_TOP:
        blocks = [*blocks, (blocks[-1][0] + 1.0 if blocks else 1.0, {j})]
    if operation == JOIN_TOP and blocks:
        blocks = [*blocks[:-1], (blocks[-1][0], blocks[-1][1] | {j})]
    return blocks


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, D - 1)), max_size=150))
def test_operations_match_a_list_of_sets(operations: list[tuple[int, int]]) -> None:
    signs = np.where(np.arange(D) % 2, 1.0, -1.0)
    rule = Rule(FREE * signs, weight_blocks.no_blocks(2), records(1, CLOCK))
    rule.clock[0].level = 1e9
    blocks: list[tuple[float, set[int]]] = []
    for operation, j in operations:
        if rule.blocks["after"][0] == 0:
            rule = rule._replace(blocks=weight_blocks.with_room(rule.blocks))
        if operation != MERGE_TOP or len(blocks) > 1:
            apply_operation(rule, operation, j)
        blocks = apply_to_list(blocks, operation, j)
        weight_blocks.check(rule)
        expected, got = np.full(D, FREE), np.zeros(D)
        for value, members in blocks:
            expected[list(members)] = value
        assert weights(rule, got) == (rule.blocks["after"][0] != 0)
        np.testing.assert_array_equal(got, signs * expected)
    for j in range(D):
        apply_operation(rule, REMOVE, j)
    weight_blocks.check(rule)
    assert np.count_nonzero(rule.blocks["lead"] == -1) == len(rule.blocks) - 1  # all ids are free


def test_block_ids_are_reused() -> None:
    """Thousands of short-lived blocks fit in 2 D records."""
    random = np.random.default_rng(3)
    rule = Rule(np.full(D, FREE), weight_blocks.no_blocks(2 * D), records(1, CLOCK))
    rule.clock[0].level = 1e9
    max_ids = 0
    for _ in range(5_000):
        operation = random.choice([NEW_TOP, JOIN_TOP, REMOVE, MERGE_TOP], p=[0.4, 0.3, 0.1, 0.2])
        top = rule.blocks["lower"][0]
        if operation != MERGE_TOP or (top != 0 and rule.blocks["lower"][top] != 0):
            apply_operation(rule, operation, random.integers(D))
        max_ids = max(max_ids, np.count_nonzero(rule.blocks["lead"] > 0))
        assert rule.blocks["after"][0] != 0
    weight_blocks.check(rule)
    assert D < max_ids < 2 * D  # the id of a merged block may have no members
