"""Arrays with an entry for each slot: where they begin in memory, and how they grow and move."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import ElasticNetClassifier
from streaml1.core import aligned
from streaml1.core.aligned import in_lines, unset_in_lines
from streaml1.core.reused import LARGE, LEAST, MOST, Memories, _own, reused
from streaml1.optim.structures import slot_arrays as slots
from streaml1.sources.readers.buffer_pool import SHARED, Pool
from streaml1.sources.readers.buffer_pool import _kept as kept_by_pools

PAIR = np.dtype([("w", "f8"), ("last", "i8")], align=True)
SIZES = (0, 1, 7, 1000, 2**17 - 1, 2**17, 2**18, 2**18 + 1, 2**20)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("kind", [np.dtype("u4"), np.dtype("f8"), PAIR])
@pytest.mark.parametrize("make", [in_lines, unset_in_lines])
def test_where_they_begin(n: int, kind: Any, make: Any) -> None:
    made = make(n, kind)
    large = n * kind.itemsize >= 2**20
    assert made.shape == (n,) and made.dtype == kind and made.flags.c_contiguous
    assert made.flags.aligned and made.flags.writeable
    assert n == 0 or made.ctypes.data % (2**21 if large else 64) == 0
    assert make is unset_in_lines or not made.view(np.uint8).any()
    if large:  # numpy asks for huge pages from four megabytes on
        assert made.base.nbytes >= 2**22


def in_a_block(k: int) -> Any:
    return reused((LEAST * (k + 1)) // 8 + k, np.int64)


def of_a_model(k: int) -> Any:
    made = (unset_in_lines, in_lines)[k % 2](aligned.LARGE // 8 * (k // 2 + 1) + k, np.int64)
    assert k % 2 == 0 or not made.any()
    return made


@pytest.mark.parametrize("make", [in_a_block, of_a_model])
@given(
    st.lists(st.tuples(st.sampled_from(["make", "view", "drop"]), st.integers(0, 8)), max_size=40)
)
def test_nobody_writes_to_memory_that_somebody_looks_at(
    make: Any, steps: list[tuple[str, int]]
) -> None:
    held: list[tuple[Any, int]] = []  # arrays, and what all of their elements are
    for number, (what, k) in enumerate(steps):
        if what == "make":
            a = make(k)
            a[:] = number + 1
            held.append((a, number + 1))
        elif held:
            a, told = held.pop(k % len(held))
            if what == "view":
                held.append((a[5::3].view(np.uint64)[1:], told))
        a = None
        assert all((one == told).all() for one, told in held)


def test_memory_that_is_free_is_used_again() -> None:
    with ThreadPoolExecutor() as alone:  # it knows of no other's memory
        alone.submit(_used_again).result()


def _used_again() -> None:
    for shape, dtype in ((LEAST, np.uint8), ((LEAST, 3), np.float64), (LARGE // 4, np.uint32)):
        a = reused(shape, dtype)
        assert a.shape == np.empty(shape).shape and a.dtype == dtype and a.flags.c_contiguous
        place = a.ctypes.data
        del a
        assert reused(shape, dtype).ctypes.data == place
    held = [reused(LARGE // 8) for _ in range(2 * MOST // LARGE)]
    assert sum(map(len, _own.memories._kept)) <= MOST and all(a.base is not None for a in held)
    assert reused(LEAST // 8 - 1).base is None and reused(LARGE + 1, np.uint8).base is None


@pytest.mark.parametrize("n", [aligned.LARGE // 8, 2**19, aligned.LARGEST // 8])
def test_what_a_model_grew_out_of_is_used_again(n: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(aligned, "_memories", Memories(aligned._zeros, aligned.KEPT))
    a = unset_in_lines(n, np.uint64)
    a[:] = 1
    place = a.ctypes.data
    del a
    again = in_lines(n, np.float64)
    assert again.ctypes.data == place and not again.any()
    del again
    assert unset_in_lines(n, np.float64).ctypes.data == place
    held = [in_lines(n, np.float64) for _ in range(2 * aligned.KEPT // (8 * n))]
    assert len({a.ctypes.data for a in held}) == len(held)
    assert sum(map(len, aligned._memories._kept)) <= aligned.KEPT


def test_memory_is_had_while_another_is_at_it() -> None:
    memories = Memories(bytearray, 1000)
    first, new = memories.take(10, 10)
    assert new
    del first
    with memories._alone:  # a thread that was stopped there, or a signal's handler in its midst
        assert memories.take(10, 10)[1]
    assert not memories.take(10, 10)[1]


def test_threads_never_share_memory() -> None:
    memories = Memories(bytearray, 100)
    started = Barrier(4)

    def learn(number: int) -> bool:
        started.wait()
        right = True
        for _ in range(20_000):
            memory, _new = memories.take(10, 10)
            for _ in range(10):
                memory[0] = number
                right &= memory[0] == number
            del memory
        return right

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(learn, range(1, 5)))
    finally:
        sys.setswitchinterval(interval)


def test_the_memory_of_a_large_model_goes_with_it() -> None:
    a = in_lines(aligned.LARGEST // 8 + 1, np.float64)
    assert not any(a.base is memory for memory in aligned._memories._kept)


def test_what_a_large_text_was_read_to_goes_with_its_parser() -> None:
    def make(n: int) -> tuple[Any]:
        return (np.empty(n, np.uint8),)

    pool = Pool(make)
    place = pool.take(2 * SHARED)[0].ctypes.data
    assert pool.take(2 * SHARED)[0].ctypes.data == place and make not in kept_by_pools.sizes
    pool.take(SHARED)
    assert kept_by_pools.sizes[make] == SHARED


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
    names = model._state.names
    for array in (names.by_bytes.entries, names.waiting.hashes, names.waiting.bytes):
        assert array.nbytes >= 2**20
        assert array.ctypes.data % 2**21 == 0
