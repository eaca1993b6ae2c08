"""The same on every processor: what vectors it has changes how fast it goes, nothing else."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite.binding import get_host_cpu_features, get_host_cpu_name
from scipy.sparse import csr_matrix

from streaml1 import ElasticNetClassifier
from streaml1.core import jit
from streaml1.core.jit import kernel
from streaml1.core.simd import (
    can_permute,
    gather,
    gather_u64,
    load_u32x8,
    lookup16,
    permute_u64,
    scatter,
    scatter_u64,
    store_u64x8,
)
from streaml1.features.ngrams.tokenizer import BLOCK, characters, cleaned
from streaml1.text import structural_index as parts

ROOT = Path(__file__).parent.parent
TEXTS = 60
LONGEST = 400

pytestmark = pytest.mark.skipif(
    not jit.COMPILED or platform.machine() not in ("x86_64", "AMD64"),
    reason="compiled code for x86 alone",
)


@kernel
def _lines(start: Any, end: Any, positions: Any, kinds: Any) -> Any:
    return parts.delimiters(start - np.uint64(1), start, end, positions, kinds)


@kernel
def _vw(start: Any, end: Any, positions: Any, kinds: Any) -> Any:
    return parts.vw_delimiters(start, start, end, positions, kinds)


@kernel
def _json(start: Any, end: Any, positions: Any, kinds: Any) -> Any:
    return parts.json_delimiters(start, start, end, positions, kinds)


@kernel
def _words(start: Any, end: Any, to: Any, begins: Any, table: Any) -> Any:
    return cleaned(start, end, to, begins, np.uint64(0), table)


def texts() -> list[bytes]:
    """Of every length, and from none to all of their bytes a delimiter."""
    random = np.random.default_rng(7)
    made = []
    for n in random.integers(1, LONGEST, TEXTS).tolist():
        share = random.choice([0.0, 0.05, 0.15, 0.4, 1.0])
        chosen = random.random(n) < share
        marks = random.choice(np.frombuffer(b' :\n",}\\|\t\x1c\x7f\xe9', np.uint8), n)
        made.append(np.where(chosen, marks, np.uint8(ord("x"))).tobytes())
    return made


def found(text: bytes) -> tuple[list[Any], ...]:
    """What the kernels tell of a text."""
    inside = b"<" * parts.PAD + text + b">" * parts.PAD
    bytes_ = np.frombuffer(inside, np.uint8)
    start = np.uint64(bytes_.ctypes.data + parts.PAD)
    end = start + np.uint64(len(text))
    room = len(text) + 2 * parts.SPARE
    positions = np.zeros(room, np.uint32)
    kinds = np.zeros(room, np.uint8)
    at = [np.uint64(room.ctypes.data) for room in (positions, kinds)]
    n = int(_lines(start, end, *at))
    lines = [positions[1:n].tolist(), bytes(kinds[1:n])]
    n, ascii_ = _vw(start, end, *at)
    n = int(n)
    vw = [positions[:n].tolist(), bytes(kinds[:n]), ascii_]
    n, ascii_, apart = _json(start, end, *at)
    n = int(n)
    json = [positions[:n].tolist(), bytes(kinds[:n]), ascii_, apart]
    return lines, vw, json


def expected(text: bytes) -> tuple[list[Any], ...]:
    """The same, byte by byte."""
    here = [k for k, c in enumerate(text) if c in b" :\n"]
    lines = [[k + 1 for k in here], bytes(text[k] for k in here)]
    here = [k for k, c in enumerate(text) if c in b" :\n\t|"]
    vw = [here, bytes(text[k] for k in here), max(text) < 128]
    here = [k for k, c in enumerate(text) if c in b'",}\\' or c < 0x20]
    around = b"<" + text + b">"
    marked = bytes(
        text[k] | parts.AFTER_BLANK * (around[k] == parts.BLANK)
        | parts.BEFORE_COLON * (around[k + 2] == parts.COLON)
        for k in here
    )  # fmt: skip
    return lines, vw, [here, marked, max(text) < 128, b"=" not in text]


def words(text: bytes) -> tuple[bytes, list[int]]:
    """The words of a text as the kernel cleans it, and where each begins."""
    inside = np.frombuffer(text + b" " * parts.PAD, np.uint8)
    start, table = np.uint64(inside.ctypes.data), np.uint64(characters().ctypes.data)
    made = np.zeros(len(text) + 2 * BLOCK, np.uint8)
    begins = np.zeros(len(text) + BLOCK, np.uint64)
    to = np.uint64(made.ctypes.data)
    stop, n, plain = _words(start, start + np.uint64(len(text)), to, begins, table)
    assert plain
    return bytes(made[: int(stop) - int(to)]), [int(at) - int(to) for at in begins[: int(n)]]


def expected_words(text: bytes) -> tuple[bytes, list[int]]:
    """The same, by a regular expression."""
    found = re.findall(r"\w+", text.decode("ascii").lower())
    ends = np.cumsum([0, *(len(word) + 1 for word in found)])
    return "".join(f"{word} " for word in found).encode(), ends[:-1].tolist()


def sentences() -> list[bytes]:
    """Letters of both sizes, digits, and what is in no word, of every length."""
    random = np.random.default_rng(5)
    letters = np.frombuffer(b"abyzABYZ0189__  .,-@[`{/:~\t", np.uint8)
    return [random.choice(letters, n).tobytes() for n in random.integers(1, LONGEST, TEXTS)]


def test_words_are_those_of_a_regular_expression() -> None:
    for text in sentences():
        assert words(text) == expected_words(text)


def learnt() -> str:
    """What two models have learnt of rows of every length, to the bit."""
    random = np.random.default_rng(3)
    sizes = random.integers(0, 40, 300)
    ids = [np.sort(random.choice(500, n, replace=False)) for n in sizes.tolist()]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    X = csr_matrix((random.normal(size=ends[-1]), np.concatenate(ids), ends), shape=(300, 500))
    y = random.random(300) < 0.5
    told = []
    for model in (
        ElasticNetClassifier(l1=1e-3, l2=1e-3, lr=0.3),
        ElasticNetClassifier(l1=1e-3, l2=1e-3, lr="auto"),
    ):
        p = model.progressive_many(X, y)
        told.append(np.asarray(p).tobytes().hex())
        told.append(str(sorted(model.weights.items())))
    return "\n".join(told)


@kernel
def _apart(table: Any, ids: Any, steps: Any, to: Any, each: Any, words: Any, few: Any) -> None:
    places = load_u32x8(np.uint64(ids.ctypes.data)) * np.uint64(8)
    scatter(each, steps, np.uint64(0), gather(table, ids, np.uint64(0)))
    found = gather_u64(places + np.uint64(table.ctypes.data))
    store_u64x8(np.uint64(words.ctypes.data), found)
    scatter_u64(places + np.uint64(to.ctypes.data), found)
    chosen = lookup16(np.uint64(table.ctypes.data), places & np.uint64(15))
    store_u64x8(np.uint64(few.ctypes.data), chosen)


@kernel
def _near(start: Any, offsets: Any, words: Any) -> Any:
    """Write eight words that are so far from an address, and from one 200 bytes behind it."""
    low = np.uint64(start)
    high = low + np.uint64(200)
    places = load_u32x8(np.uint64(offsets.ctypes.data)) + low
    store_u64x8(np.uint64(words.ctypes.data), permute_u64(low, high, places))
    first, last = max(offsets[:4]), max(offsets[4:])
    return can_permute(low, low + np.uint64(first), high, low + np.uint64(last))


def near() -> bool:
    """Whether words are told to be near, which have to be those that stand there."""
    random = np.random.default_rng(11)
    text = random.integers(0, 256, 2 * parts.PAD + 400, np.uint8)
    told = set()
    for far in range(0, 121, 5):
        offsets = random.integers(0, far + 1, 8).astype(np.uint32)
        offsets[[1, 6]] = far
        offsets[4:] += 200
        words = np.zeros(8, np.uint64)
        told.add(_near(text.ctypes.data, offsets, words))
        assert words.tobytes() == b"".join(text[k : k + 8].tobytes() for k in offsets.tolist())
    for more in ([0, 0, 0, 121, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 121, 0]):
        offsets = np.array([0, 0, 0, 0, 200, 200, 200, 200], np.uint32) + np.uint32(more)
        assert not _near(text.ctypes.data, offsets, np.zeros(8, np.uint64))
    [same] = told
    return bool(same)


def test_words_that_are_near_are_those_that_stand_there() -> None:
    assert near() == (
        get_host_cpu_name().startswith("znver") and bool(get_host_cpu_features().get("avx512vbmi"))
    )


def apart() -> str:
    """Words from anywhere, and to anywhere."""
    table = np.random.default_rng(9).normal(size=200)
    ids = np.array([3, 199, 0, 77, 5, 4, 120, 9], np.uint32)
    steps = np.arange(8, dtype=np.uint32)
    to = np.zeros(200, np.uint64)
    each, words, few = np.zeros(8), np.zeros(8, np.uint64), np.zeros(8, np.uint64)
    _apart(table, ids, steps, to, each, words, few)
    bits = table.view(np.uint64)
    assert each.tolist() == table[ids].tolist() and words.tolist() == bits[ids].tolist()
    assert to[ids].tolist() == bits[ids].tolist() and np.count_nonzero(to) == 8
    assert few.tolist() == bits[ids * 8 & 15].tolist()
    return f"{each.tolist()} {few.tolist()}"


def test_delimiters_are_those_of_a_look_at_each_byte() -> None:
    for text in texts():
        assert found(text) == expected(text)


OLDER = {
    "nothing but what all have": ("x86-64", ()),
    "vectors of four": ("x86-64-v3", ("ssse3", "sse4.2", "popcnt", "avx", "avx2", "bmi", "bmi2")),
}


def is_older(features: tuple[str, ...]) -> bool:
    """Whether the processor that this runs on has these, and more that makes a difference."""
    there = get_host_cpu_features()
    return all(there.get(feature) for feature in features) and (
        not features or bool(there.get("avx512f"))
    )


def told_there(name: str, features: str, folder: Path, *lines: str) -> str:
    """What some lines print in a process whose code is for another processor."""
    script = "\n".join(("from tests import test_processors as t", *lines))
    env = {
        **os.environ, "NUMBA_CPU_NAME": name, "NUMBA_CACHE_DIR": str(folder / "cache"),
        "NUMBA_CPU_FEATURES": features, "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", script], env=env, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("what", OLDER)
def test_older_processors_find_and_learn_the_same(what: str, tmp_path: Path) -> None:
    name, features = OLDER[what]
    if not is_older(features):
        pytest.skip("this processor has no less, or has no more")
    there = told_there(
        *(name, ",".join(f"+{feature}" for feature in features), tmp_path),
        "assert all(t.found(text) == t.expected(text) for text in t.texts())",
        "assert all(t.words(text) == t.expected_words(text) for text in t.sentences())",
        "assert not t.near()",
        "print(t.learnt())",
    )
    assert there == learnt() + "\n"


def test_processors_of_another_make_load_and_learn_the_same(tmp_path: Path) -> None:
    """Words from anywhere are gathered by some, and loaded one by one by others."""
    name = "skylake" if get_host_cpu_name().startswith("znver") else "znver3"
    features = get_host_cpu_features().flatten()
    there = told_there(
        *(name, features, tmp_path), "t.near()", "print(t.apart())", "print(t.learnt())"
    )
    assert there == f"{apart()}\n{learnt()}\n"
