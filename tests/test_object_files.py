"""Kernels with one signature, cached as object files: correct with and without numba."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streaml1.core import jit
from streaml1.core.jit import cache_dir, object_cache, object_file, typed_kernel
from streaml1.features import dict_reader
from tests.conftest import WARM
from tests.kit import CONFIGURATIONS

pytestmark = pytest.mark.skipif(not jit.COMPILED, reason="NUMBA_DISABLE_JIT is set")

U64_ARRAYS = arrays(np.uint64, st.integers(0, 20))
U32_ARRAYS = arrays(np.uint32, st.integers(0, 20))


@typed_kernel("uint64[]", "uint32[]", "int64", "uint64", "float64")
def mixture(a: Any, b: Any, i: int, u: Any, v: float) -> float:
    total = np.float64(i) + v * 2.0
    for k in range(np.uint64(len(a))):
        total += np.float64(a[k] >> np.uint64(40))
    for k in range(np.uint64(len(b))):
        total -= np.float64(b[k])
    return total + np.float64(u >> np.uint64(40))


@typed_kernel("int64")
def same_int(i: int) -> int:
    return i


@typed_kernel("uint64")
def same_uint(u: Any) -> Any:
    return u


@typed_kernel("float64")
def same_float(v: float) -> float:
    return v


@typed_kernel("float64[]", "float64")
def fill(a: Any, v: float) -> None:
    for k in range(np.uint64(len(a))):
        a[k] = v


@typed_kernel("object")
def address(o: Any) -> Any:
    return o


@typed_kernel("int64", "object", "float64[]")
def needs_memory(n: int, o: Any, a: Any) -> float:
    """Allocate memory through numba, so the object file is not self-contained."""
    b = np.arange(n)
    return float(b.sum()) + a[0] + (np.uint64(o) & np.uint64(7))


@given(
    U64_ARRAYS,
    U32_ARRAYS,
    st.integers(-(2**40), 2**40),
    st.integers(0, 2**64 - 1),
    st.integers(-99, 99),
)
def test_arguments_are_passed_unchanged(a: Any, b: Any, i: int, u: int, v: int) -> None:
    expected = i + 2 * v + sum(int(w) >> 40 for w in a) - sum(map(int, b)) + (u >> 40)
    assert mixture(a, b, i, u, v) == expected
    assert mixture(a, b, np.int64(i), np.uint64(u), np.float64(v)) == expected


@given(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
def test_numbers_are_returned_unchanged(i: int, v: float) -> None:
    assert same_int(i) == i
    assert same_uint(i % 2**64) == i % 2**64
    assert same_float(v) == v
    assert same_int(-1) == -1 and same_float(-1) == -1.0 and same_uint(2**64 - 1) == 2**64 - 1


def test_an_object_is_passed_as_its_address() -> None:
    for o in (None, {}, "a", 1.5, address):
        assert address(o) == id(o)


def test_arrays_are_written_and_nothing_is_returned() -> None:
    a = np.zeros(3)
    fill(a, 0)  # builds the kernel, which leaves references to None
    counts = [sys.getrefcount(a), sys.getrefcount(None)]
    for k in range(1000):
        assert fill(a, k) is None  # type: ignore[func-returns-value]
    assert a.tolist() == [999.0] * 3
    assert sys.getrefcount(a) == counts[0]
    assert abs(sys.getrefcount(None) - counts[1]) < 100


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), TypeError),
        ((np.zeros(2),), TypeError),
        ((np.zeros(2), 1.0, 1.0), TypeError),
        ((np.zeros(2), "1"), TypeError),
        (([0.0, 0.0], 1.0), TypeError),
        ((np.zeros(4)[::2], 1.0), (ValueError, BufferError)),
    ],
    ids=["none", "few", "many", "text", "list", "strided"],
)
def test_wrong_arguments_are_rejected(arguments: tuple[Any, ...], error: Any) -> None:
    with pytest.raises(error):
        fill(*arguments)
    with pytest.raises(OverflowError):
        same_int(2**63)


def test_buffers_are_released_after_an_error() -> None:
    memory = bytearray(16)
    with pytest.raises(TypeError):
        fill(memory, "1")
    memory.extend(b"more")  # raises BufferError if the buffer was not released
    fill(memoryview(memory)[:16], 1.5)
    assert np.frombuffer(memory[:16]).tolist() == [1.5, 1.5]


def test_kernels_that_need_numba_are_called_through_it() -> None:
    for _ in range(2):
        assert needs_memory(5, {}, np.full(1, 0.5)) == 10.5  # objects are aligned to 8 bytes
    assert not cached_files("needs_memory")


def cached_files(name: str) -> list[Path]:
    folder = cache_dir.cache_directories().writable
    assert folder is not None
    return list(folder.glob(f"test_object_files.{name}-*.code"))


def cache_key(content: bytes) -> str:
    """Return the cache key in the header of an object file."""
    header: dict[str, str] = json.loads(content.partition(b"\n")[0])
    return header["for"]


def twice(v: float) -> float:
    return v + v


@pytest.mark.parametrize(
    "corrupt",
    [
        lambda data: data[:-1],
        lambda data: data[:40],
        lambda data: b"",
        lambda data: data.replace(cache_key(data).encode(), b"0"),
        lambda data: data[:-9] + bytes(9),
    ],
    ids=["short", "header", "empty", "another key", "damaged"],
)
def test_damaged_file_is_rewritten(corrupt: Callable[[bytes], bytes]) -> None:
    for path in cached_files("twice"):  # includes files of older versions of this test
        path.unlink()
    assert object_cache.load_or_compile(twice, ["float64"])(1.5) == 3.0
    [path] = cached_files("twice")
    original = path.read_bytes()
    path.write_bytes(corrupt(original))
    assert path.read_bytes() != original
    assert object_cache.load_or_compile(twice, ["float64"])(1.5) == 3.0
    assert cache_key(path.read_bytes()) == cache_key(original)


def test_kernel_with_another_body_is_not_reused() -> None:
    assert object_cache.load_or_compile(twice, ["float64"])(1.5) == 3.0

    def thrice(v: float) -> float:
        return v + v + v

    thrice.__qualname__ = "twice"
    assert object_cache.load_or_compile(thrice, ["float64"])(1.5) == 4.5
    assert object_cache.load_or_compile(twice, ["float64"])(1.5) == 3.0


FIND = """
import sys
from streaml1.features.vocabulary import hash_keys
from streaml1.features.vocabulary.probing import empty_entries
import numpy as np
print(hash_keys.find(empty_entries(4), np.ones(2, np.uint64)).tolist(), "numba" in sys.modules)
"""


def test_numba_settings_are_part_of_the_cache_key(python: Callable[..., str]) -> None:
    missing = "[4294967295, 4294967295]"
    for setting in (
        {},
        {"NUMBA_OPT": "1"},
        {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""},
    ):
        assert python("-c", FIND, **setting) == f"{missing} True\n", setting
        assert python("-c", FIND, **setting) == f"{missing} False\n", setting


@pytest.mark.skipif(not dict_reader.AVAILABLE, reason="needs the dict kernels")
@pytest.mark.parametrize(("kind", "params"), CONFIGURATIONS)
def test_rules_are_self_contained(
    kind: Any, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each process would import numba, and try to compile the rule before it falls back.

    Machine code that needs numba at run time is never cached as an object file.
    """

    def refuse(fn: Any, *_: Any) -> None:
        raise AssertionError(f"{fn.__qualname__} needs numba at run time")

    monkeypatch.setattr(object_file, "address_by_numba", refuse)
    monkeypatch.setattr(object_file, "numba_fallback", refuse)
    dict_reader._predict_row.cache_clear()
    dict_reader._learn_row.cache_clear()
    model = kind(**params)
    model.learn_one({"a": 1.0}, True if kind.__name__.endswith("Classifier") else 1.0)
    method = "predict_proba_one" if kind.__name__.endswith("Classifier") else "predict_one"
    getattr(model, method)({"a": 1.0})


LEARN = """
import sys
from streaml1.core.jit import lazy_import, loader
if sys.argv[1] == "numba":
    lazy_import.load_numba()
    from streaml1.core.jit import object_file
    def fail(*args):
        raise object_file.NotSelfContainedError("for a test")
    object_file.compile_to_object = fail
import streaml1
m = streaml1.ElasticNetClassifier(lr=0.1, l1=1e-3)
for k in range(50):
    m.learn_one({f"n{k % 7}": 1.0, "b": k, "shop": "fr"}, k % 3 == 0)
print(m.predict_proba_one({"n1": 1.0, "new": 2.0}), m.weights)
assert bool(loader._loaded) == (sys.argv[1] == "object files")
"""


def test_fallback_without_self_contained_code(python: Callable[..., str], tmp_path: Path) -> None:
    expected = python("-c", LEARN, "object files", **WARM)
    other_cache = str(tmp_path / "other")
    assert python("-c", LEARN, "numba", NUMBA_CACHE_DIR=other_cache) == expected
    assert not list((tmp_path / "other").rglob("*.code"))


THREADS = """
import threading
import streaml1
new_model = lambda: streaml1.ElasticNetClassifier(lr=0.1)
results, m = [], new_model()
def predict():
    results.append(new_model().predict_proba_one({"a": 1.0})[True])
def learn_batch():
    new_model().learn_many([{"a": 1.0}, {"b": 1.0}], [True, False])
    results.append(0.5)
def learn_shared():
    m.learn_one({f"n{k}": 1.0 for k in range(1000)}, True)
    results.append(0.5)
targets = 3 * (predict, learn_batch, learn_shared)
threads = [threading.Thread(target=target, daemon=True) for target in targets]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(240)
print(results == 9 * [0.5], any(thread.is_alive() for thread in threads))
"""


def test_threads_load_kernels_concurrently(python: Callable[..., str]) -> None:
    for _ in range(2):  # compiles the kernels, then loads them from disk
        assert python("-c", THREADS) == "True False\n"


def test_threads_share_one_function() -> None:
    loaded: list[Any] = []
    begin = threading.Barrier(4)

    def load() -> None:
        begin.wait()
        loaded.append(object_cache.load_or_compile(twice, ["float64"]))

    threads = [threading.Thread(target=load) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, loaded))) == 1 and loaded[0](2.0) == 4.0
