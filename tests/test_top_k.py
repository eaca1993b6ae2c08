"""Selection of the largest of many unsorted sizes."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streaml1.core.jit import kernel
from streaml1.optim.structures.slot_arrays import records
from streaml1.optim.structures.top_k import FOUND, WIDE, find

CLOCK = np.dtype([("entries", "i8")])


class Candidates(NamedTuple):
    keys: Annotated[Any, np.float64]
    found: Annotated[Any, FOUND]
    clock: Annotated[Any, CLOCK]


@kernel
def find_largest(rule: Any, bound: float, level: float, n: int, z: float) -> tuple[Any, float]:
    return find(rule, bound, level, n, z)


def simplex_threshold(sizes: Any, z: float) -> float:
    """Return the threshold of the projection of `sizes` onto the simplex of radius `z`."""
    mu = np.sort(sizes)[::-1]
    return float(np.max((np.cumsum(mu) - z) / np.arange(1, len(mu) + 1)))


@given(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0.0, 1.0), max_size=60),
    st.integers(0, 200),
    st.floats(0.0, 1.0),
    st.integers(0, 50),
    st.floats(0.0, 30.0),
)
def test_matches_sorting(
    values: list[float], n_random: int, bound: float, n: int, z: float
) -> None:
    random = np.random.default_rng(len(values) + n_random)
    sizes = random.permutation([*values, *random.random(n_random)])
    keys = np.full(1 + len(sizes) + int(WIDE), 9.0)  # entries beyond the last are ignored
    keys[1 : 1 + len(sizes)] = sizes
    rule = Candidates(keys, records(len(keys), FOUND), records(1, CLOCK))
    rule.clock[0].entries = len(sizes)
    m, reached = find_largest(rule, bound, 1.0, n, z)
    found = rule.found[: int(m)]
    assert np.array_equal(found["key"], keys[found["at"]])
    assert np.array_equal(found["key"], np.sort(sizes[sizes >= reached])[::-1])
    assert len(set(found["at"])) == m
    if reached != bound:  # every size that the threshold may reach is found
        assert bound < reached
        assert reached <= simplex_threshold(np.append(sizes, np.ones(n)), z) + 1e-12
