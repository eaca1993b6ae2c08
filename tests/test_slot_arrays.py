"""Arrays with one entry per slot: alignment, growth and remapping."""

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
LENGTHS = (0, 1, 7, 1000, 2**17 - 1, 2**17, 2**18, 2**18 + 1, 2**20)


@pytest.mark.parametrize("n", LENGTHS)
@pytest.mark.parametrize("dtype", [np.dtype("u4"), np.dtype("f8"), PAIR])
@pytest.mark.parametrize("allocate", [aligned_zeros, aligned_empty])
def test_arrays_are_aligned(n: int, dtype: Any, allocate: Any) -> None:
    array = allocate(n, dtype)
    is_large = n * dtype.itemsize >= 2**20
    assert array.shape == (n,) and array.dtype == dtype and array.flags.c_contiguous
    assert array.flags.aligned and array.flags.writeable
    assert n == 0 or array.ctypes.data % (2**21 if is_large else 64) == 0
    assert allocate is aligned_empty or not array.view(np.uint8).any()
    if is_large:  # numpy requests huge pages from 4 MB on
        assert array.base.nbytes >= 2**22


@given(st.integers(0, 300), st.integers(0, 300))
def test_growing_preserves_entries(n: int, n_more: int) -> None:
    for dtype in (np.dtype("f8"), PAIR):
        array = slots.zeros(n, slots.records(0, PAIR) if dtype.names else np.zeros(0))
        array.view(np.float64)[:] = np.arange(1.0, 1 + array.nbytes // 8)
        larger = slots.grown(array, n + n_more)
        assert type(larger) is type(array) and len(larger) == n + n_more
        assert np.array_equal(larger[:n], array)
        assert not larger[n:].view(np.uint8).any()


@given(st.integers(1, 200), st.randoms(use_true_random=False))
def test_remapping_moves_entries(n: int, random: Any) -> None:
    targets = list(range(2 * n))
    random.shuffle(targets)
    new_slots = np.array([target if random.random() < 0.7 else -1 for target in targets[:n]])
    array = np.arange(1.0, n + 1)
    remapped = slots.moved(array, new_slots, 2 * n)
    expected = [0.0] * (2 * n)
    for j, new_slot in enumerate(new_slots.tolist()):
        if new_slot >= 0:
            expected[new_slot] = array[j]
    assert remapped.tolist() == expected


def test_weights_of_a_large_model_are_page_aligned() -> None:
    hashed = ElasticNetClassifier(lr=0.1, hash_bits=18)
    hashed.learn_one({"a": 1.0}, True)
    named = ElasticNetClassifier(lr=0.1)
    for first in range(0, 200_000, 1000):
        named.learn_one(dict.fromkeys(range(first, first + 1000), 1.0), True)
    for model in (hashed, named):
        u = model._state.rule.u
        assert u.nbytes >= 2**20
        assert u.ctypes.data % 2**21 == 0


def test_names_of_a_large_model_are_page_aligned(tmp_path: Path) -> None:
    model = ElasticNetClassifier(lr=0.1)
    (tmp_path / "names.vw").write_text("".join(f"1 | name{k}\n" for k in range(150_000)))
    streaml1.progressive(model, tmp_path / "names.vw")
    vocabulary = model._state.vocabulary
    for array in (
        vocabulary.byte_index.entries,
        vocabulary.pending.hashes,
        vocabulary.pending.bytes,
    ):
        assert array.nbytes >= 2**20
        assert array.ctypes.data % 2**21 == 0
