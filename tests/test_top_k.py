"""The largest of many sizes that stand in no order."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streaml1.core.jit import kernel
from streaml1.optim.structures.slot_arrays import records
from streaml1.optim.structures.top_k import FOUND, WIDE, find

CLOCK = np.dtype([("entries", "i8")])


class Pool(NamedTuple):
    keys: Annotated[Any, np.float64]
    found: Annotated[Any, FOUND]
    clock: Annotated[Any, CLOCK]


@kernel
def look(rule: Any, bound: float, level: float, n: int, left: float) -> tuple[Any, float]:
    return find(rule, bound, level, n, left)


def level_of(sizes: Any, left: float) -> float:
    """Where the largest come down to, giving what is left."""
    mu = np.sort(sizes)[::-1]
    return float(np.max((np.cumsum(mu) - left) / np.arange(1, len(mu) + 1)))


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0.0, 1.0), max_size=60),
    st.integers(0, 200),
    st.floats(0.0, 1.0),
    st.integers(0, 50),
    st.floats(0.0, 30.0),
)
def test_against_sorting(some: list[float], more: int, bound: float, n: int, left: float) -> None:
    random = np.random.default_rng(len(some) + more)
    sizes = random.permutation([*some, *random.random(more)])
    keys = np.full(1 + len(sizes) + int(WIDE), 9.0)  # what is beyond the last does not count
    keys[1 : 1 + len(sizes)] = sizes
    rule = Pool(keys, records(len(keys), FOUND), records(1, CLOCK))
    rule.clock[0].entries = len(sizes)
    m, reached = look(rule, bound, 1.0, n, left)
    found = rule.found[: int(m)]
    assert np.array_equal(found["key"], keys[found["at"]])
    assert np.array_equal(found["key"], np.sort(sizes[sizes >= reached])[::-1])
    assert len(set(found["at"])) == m
    if reached != bound:  # none that the level may meet is left out
        assert bound < reached
        assert reached <= level_of(np.append(sizes, np.ones(n)), left) + 1e-12
