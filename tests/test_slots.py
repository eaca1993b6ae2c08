"""Arrays with an entry for each slot: where they begin in memory, and how they grow and move."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import ElasticNetClassifier
from streaml1.core.aligned import aligned_empty, aligned_zeros
from streaml1.optim.structures import slot_arrays as slots

PAIR = np.dtype([("w", "f8"), ("last", "i8")], align=True)
SIZES = (0, 1, 7, 1000, 2**17 - 1, 2**17, 2**18, 2**18 + 1, 2**20)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", [np.dtype("u4"), np.dtype("f8"), PAIR])
@pytest.mark.parametrize("make", [aligned_zeros, aligned_empty])
def test_where_they_begin(n: int, kind: Any, make: Any) -> None:
    made = make(n, kind)
    large = n * kind.itemsize >= 2**20
    assert made.shape == (n,) and made.dtype == kind and made.flags.c_contiguous
    assert made.flags.aligned and made.flags.writeable
    assert n == 0 or made.ctypes.data % (2**21 if large else 64) == 0
    assert make is aligned_empty or not made.view(np.uint8).any()
    if large:  # numpy asks for huge pages from four megabytes on
        assert made.base.nbytes >= 2**22


@given(st.integers(0, 300), st.integers(0, 300))
def test_growing_keeps_entries(n: int, more: int) -> None:
    for kind in (np.dtype("f8"), PAIR):
        a = slots.zeros(n, slots.records(0, PAIR) if kind.names else np.zeros(0))
        a.view(np.float64)[:] = np.arange(1.0, 1 + a.nbytes // 8)
        larger = slots.grown(a, n + more)
        assert type(larger) is type(a) and len(larger) == n + more
        assert np.array_equal(larger[:n], a)
        assert not larger[n:].view(np.uint8).any()


@given(st.integers(1, 200), st.randoms(use_true_random=False))
def test_moving_follows_the_new_slots(n: int, random: Any) -> None:
    places = list(range(2 * n))
    random.shuffle(places)
    new = np.array([p if random.random() < 0.7 else -1 for p in places[:n]])
    a = np.arange(1.0, n + 1)
    there = slots.moved(a, new, 2 * n)
    expected = [0.0] * (2 * n)
    for j, to in enumerate(new.tolist()):
        if to >= 0:
            expected[to] = a[j]
    assert there.tolist() == expected


def test_weights_of_a_large_model_begin_where_a_page_does() -> None:
    hashed = ElasticNetClassifier(hash_bits=18)
    hashed.learn_one({"a": 1.0}, True)
    named = ElasticNetClassifier()
    for first in range(0, 200_000, 1000):
        named.learn_one(dict.fromkeys(range(first, first + 1000), 1.0), True)
    for model in (hashed, named):
        u = model._state.rule.u
        assert u.nbytes >= 2**20
        assert u.ctypes.data % 2**21 == 0


def test_names_of_a_large_model_begin_where_a_page_does(tmp_path: Path) -> None:
    model = ElasticNetClassifier()
    (tmp_path / "names.vw").write_text("".join(f"1 | name{k}\n" for k in range(150_000)))
    streaml1.progressive(model, tmp_path / "names.vw")
    names = model._state.vocabulary
    for array in (names.byte_index.entries, names.pending.hashes, names.pending.bytes):
        assert array.nbytes >= 2**20
        assert array.ctypes.data % 2**21 == 0
