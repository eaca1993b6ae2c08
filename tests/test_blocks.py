"""Blocks of equal weights: a staircase of values, found by the ids of the members."""

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
ON_TOP, TO_TOP, AWAY, MERGE = range(4)


class Stairs(NamedTuple):
    u: Annotated[Any, np.float64]
    blocks: Annotated[Any, BLOCK]
    clock: Annotated[Any, CLOCK]


@kernel
def change(rule: Any, what: int, j: Any) -> None:
    """Put slot j into a new block or into the highest, or free it; or merge the two highest."""
    j = np.uint64(j)
    if what == MERGE:
        top = np.uint64(rule.blocks[0].lower)
        below = np.uint64(rule.blocks[top].lower)
        value = rule.blocks[below].value
        top = weight_blocks.merged(rule, top, below)
        rule.blocks[top].value = value
        return
    leave(rule, id_of(rule.u[j]))
    rule.u[j] = np.copysign(FREE, rule.u[j])
    id = np.uint64(rule.blocks[0].lower)
    if what == ON_TOP:
        value = rule.blocks[id].value + 1.0 if id > np.uint64(0) else 1.0
        id = weight_blocks.new_block(rule, value)
    if what != AWAY and id > np.uint64(0):
        join(rule, j, id)
        add(rule, id, np.int64(1))


@kernel
def weights(rule: Any, w: Any) -> bool:
    for j in range(np.uint64(len(w))):
        w[j] = current(rule, rule.u[j])
    return has_room(rule)


def changed(stairs: list[tuple[float, set[int]]], what: int, j: int) -> Any:
    """Do the same on a list of (value, members), from the lowest."""
    if what == MERGE:
        if len(stairs) > 1:
            (low, some), (_, others) = stairs[-2:]
            stairs = [*stairs[:-2], (low, some | others)]
        return stairs
    stairs = [(value, members - {j}) for value, members in stairs]
    stairs = [one for one in stairs if one[1]]
    if what == ON_TOP:
        stairs = [*stairs, (stairs[-1][0] + 1.0 if stairs else 1.0, {j})]
    if what == TO_TOP and stairs:
        stairs = [*stairs[:-1], (stairs[-1][0], stairs[-1][1] | {j})]
    return stairs


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, D - 1)), max_size=150))
def test_operations_match_a_list_of_sets(todo: list[tuple[int, int]]) -> None:
    signs = np.where(np.arange(D) % 2, 1.0, -1.0)
    rule = Stairs(FREE * signs, weight_blocks.no_blocks(2), records(1, CLOCK))
    rule.clock[0].level = 1e9
    stairs: list[tuple[float, set[int]]] = []
    for what, j in todo:
        if rule.blocks["after"][0] == 0:
            rule = rule._replace(blocks=weight_blocks.with_room(rule.blocks))
        if what != MERGE or len(stairs) > 1:
            change(rule, what, j)
        stairs = changed(stairs, what, j)
        weight_blocks.check(rule)
        wanted, got = np.full(D, FREE), np.zeros(D)
        for value, members in stairs:
            wanted[list(members)] = value
        assert weights(rule, got) == (rule.blocks["after"][0] != 0)
        np.testing.assert_array_equal(got, signs * wanted)
    for j in range(D):
        change(rule, AWAY, j)
    weight_blocks.check(rule)
    assert np.count_nonzero(rule.blocks["lead"] == -1) == len(rule.blocks) - 1  # all ids are free


def test_ids_are_bounded_by_members() -> None:
    """Thousands of short-lived blocks fit in a few records."""
    random = np.random.default_rng(3)
    rule = Stairs(np.full(D, FREE), weight_blocks.no_blocks(2 * D), records(1, CLOCK))
    rule.clock[0].level = 1e9
    most = 0
    for _ in range(5_000):
        what = random.choice([ON_TOP, TO_TOP, AWAY, MERGE], p=[0.4, 0.3, 0.1, 0.2])
        top = rule.blocks["lower"][0]
        if what != MERGE or (top != 0 and rule.blocks["lower"][top] != 0):
            change(rule, what, random.integers(D))
        most = max(most, np.count_nonzero(rule.blocks["lead"] > 0))
        assert rule.blocks["after"][0] != 0
    weight_blocks.check(rule)
    assert D < most < 2 * D  # an id that leads may have no member of its own
