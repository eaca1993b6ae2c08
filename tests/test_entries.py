"""Kernels of given types: as quick to load as they are to call, and right without numba."""

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
from streaml1.core.jit import cache_dir, object_cache, typed_kernel
from tests.conftest import WARM

pytestmark = pytest.mark.skipif(not jit.COMPILED, reason="NUMBA_DISABLE_JIT is set")

WORDS = arrays(np.uint64, st.integers(0, 20))
HALVES = arrays(np.uint32, st.integers(0, 20))


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
def same_word(u: Any) -> Any:
    return u


@typed_kernel("float64")
def same_float(v: float) -> float:
    return v


@typed_kernel("float64[]", "float64")
def fill(a: Any, v: float) -> None:
    for k in range(np.uint64(len(a))):
        a[k] = v


@typed_kernel("object")
def place(o: Any) -> Any:
    return o


@typed_kernel("int64", "object", "float64[]")
def needs_memory(n: int, o: Any, a: Any) -> float:
    """Numba gives memory: such code does not stand alone."""
    b = np.arange(n)
    return float(b.sum()) + a[0] + (np.uint64(o) & np.uint64(7))


@given(WORDS, HALVES, st.integers(-(2**40), 2**40), st.integers(0, 2**64 - 1), st.integers(-99, 99))
def test_arguments_come_as_they_are(a: Any, b: Any, i: int, u: int, v: int) -> None:
    expected = i + 2 * v + sum(int(w) >> 40 for w in a) - sum(map(int, b)) + (u >> 40)
    assert mixture(a, b, i, u, v) == expected
    assert mixture(a, b, np.int64(i), np.uint64(u), np.float64(v)) == expected


@given(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False))
def test_numbers_come_back(i: int, v: float) -> None:
    assert same_int(i) == i
    assert same_word(i % 2**64) == i % 2**64
    assert same_float(v) == v
    assert same_int(-1) == -1 and same_float(-1) == -1.0 and same_word(2**64 - 1) == 2**64 - 1


def test_an_object_is_its_address() -> None:
    for o in (None, {}, "a", 1.5, place):
        assert place(o) == id(o)


def test_arrays_are_written_and_nothing_is_returned() -> None:
    a = np.zeros(3)
    counts = [sys.getrefcount(a), sys.getrefcount(None)]
    for k in range(1000):
        assert fill(a, k) is None  # type: ignore[func-returns-value]
    assert a.tolist() == [999.0] * 3
    assert sys.getrefcount(a) == counts[0]
    assert abs(sys.getrefcount(None) - counts[1]) < 100


@pytest.mark.parametrize(
    ("wrong", "raised"),
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
def test_what_is_no_argument_is_refused(wrong: tuple[Any, ...], raised: Any) -> None:
    with pytest.raises(raised):
        fill(*wrong)
    with pytest.raises(OverflowError):
        same_int(2**63)


def test_an_array_is_given_back_after_an_error() -> None:
    lent = bytearray(16)
    with pytest.raises(TypeError):
        fill(lent, "1")
    lent.extend(b"more")  # raises BufferError where somebody has it still
    fill(memoryview(lent)[:16], 1.5)
    assert np.frombuffer(lent[:16]).tolist() == [1.5, 1.5]


def test_what_needs_numba_is_called_by_numba() -> None:
    for _ in range(2):
        assert needs_memory(5, {}, np.full(1, 0.5)) == 10.5  # objects are at multiples of 8
    assert not list(cache_dir.folders()[1].glob("*needs_memory*.code"))  # type: ignore[union-attr]


def kept(name: str) -> list[Path]:
    return list(cache_dir.folders()[1].glob(f"test_entries.{name}-*.code"))  # type: ignore[union-attr]


def twice(v: float) -> float:
    return v + v


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-1],
        lambda data: data[:40],
        lambda data: b"",
        lambda data: data.replace(json.loads(data.partition(b"\n")[0])["for"].encode(), b"0"),
        lambda data: data[:-9] + bytes(9),
    ],
    ids=["short", "head", "empty", "another", "other"],
)
def test_a_file_that_is_not_right_is_written_anew(change: Callable[[bytes], bytes]) -> None:
    for path in kept("twice"):  # of other texts of this file, too
        path.unlink()
    assert object_cache.entry(twice, ["float64"])(1.5) == 3.0
    [path] = kept("twice")
    right = path.read_bytes()
    path.write_bytes(change(right))
    assert path.read_bytes() != right
    assert object_cache.entry(twice, ["float64"])(1.5) == 3.0
    anew = path.read_bytes()
    assert (
        json.loads(anew.partition(b"\n")[0])["for"] == json.loads(right.partition(b"\n")[0])["for"]
    )


def test_a_kernel_of_another_text_is_not_taken() -> None:
    assert object_cache.entry(twice, ["float64"])(1.5) == 3.0

    def other(v: float) -> float:
        return v + v + v

    other.__qualname__ = "twice"
    assert object_cache.entry(other, ["float64"])(1.5) == 4.5
    assert object_cache.entry(twice, ["float64"])(1.5) == 3.0


@pytest.mark.parametrize(
    "setting", [{"NUMBA_OPT": "1"}, {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}]
)
def test_settings_of_numba_are_for_its_code(
    python: Callable[..., str], setting: dict[str, str]
) -> None:
    code = """
import sys
from streaml1.features.vocabulary import hash_keys as keys
from streaml1.features.vocabulary.probing import empty_entries as free
import numpy as np
print(keys.find(free(4), np.ones(2, np.uint64)).tolist(), "numba" in sys.modules)
"""
    none = "[4294967295, 4294967295]"
    assert python("-c", code) == f"{none} True\n"
    assert python("-c", code) == f"{none} False\n"
    assert python("-c", code, **setting) == f"{none} True\n"
    assert python("-c", code, **setting) == f"{none} False\n"


NUMBA = """
import sys
from streaml1.core.jit import lazy_import as deferred, object_file as machine_code, loader as native
def refused(*given):
    raise machine_code.NotAlone("for a test")
if sys.argv[1] == "numba":
    deferred.load()
    machine_code.compiled = refused
import streaml1
m = streaml1.ElasticNetClassifier(l1=1e-3)
for k in range(50):
    m.learn_one({f"n{k % 7}": 1.0, "b": k, "shop": "fr"}, k % 3 == 0)
print(m.predict_proba_one({"n1": 1.0, "new": 2.0}), m.weights)
assert bool(native._loaded) == (sys.argv[1] == "alone")
"""


def test_without_code_that_stands_alone(python: Callable[..., str], tmp_path: Path) -> None:
    alone = python("-c", NUMBA, "alone", **WARM)
    other = str(tmp_path / "other")
    assert python("-c", NUMBA, "numba", NUMBA_CACHE_DIR=other) == alone
    assert not list((tmp_path / "other").rglob("*.code"))


THREADS = """
import threading
import streaml1
from streaml1.features.vocabulary import hash_keys as keys
told, m = [], streaml1.ElasticNetClassifier()
def predict():
    told.append(streaml1.ElasticNetClassifier().predict_proba_one({"a": 1.0})[True])
def together():
    streaml1.ElasticNetClassifier().learn_many([{"a": 1.0}, {"b": 1.0}], [True, False])
    told.append(0.5)
def loaded():
    m.learn_one({f"n{k}": 1.0 for k in range(1000)}, True)
    told.append(0.5)
threads = [threading.Thread(target=do, daemon=True) for do in 3 * (predict, together, loaded)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(240)
print(told == 9 * [0.5], any(thread.is_alive() for thread in threads))
"""


def test_threads_call_for_kernels_at_once(python: Callable[..., str]) -> None:
    for _ in range(2):  # to compile, and from the disk
        assert python("-c", THREADS) == "True False\n"


def test_two_threads_have_one_function() -> None:
    made: list[Any] = []
    begin = threading.Barrier(4)

    def make() -> None:
        begin.wait()
        made.append(object_cache.entry(twice, ["float64"]))

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, made))) == 1 and made[0](2.0) == 4.0
