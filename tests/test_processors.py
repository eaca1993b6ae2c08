"""Bit-identical results on every processor, whatever SIMD extensions it has."""

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
from streaml1.text import structural_index

ROOT = Path(__file__).parent.parent
N_TEXTS = 60
MAX_LENGTH = 400

pytestmark = pytest.mark.skipif(
    not jit.COMPILED or platform.machine() not in ("x86_64", "AMD64"),
    reason="checks code compiled for x86",
)


@kernel
def _index_svmlight(start: Any, end: Any, positions: Any, kinds: Any) -> Any:
    return structural_index.index_svmlight(start - np.uint64(1), start, end, positions, kinds)


@kernel
def _index_vw(start: Any, end: Any, positions: Any, kinds: Any) -> Any:
    return structural_index.index_vw(start, start, end, positions, kinds)


@kernel
def _index_jsonl(start: Any, end: Any, positions: Any, kinds: Any) -> Any:
    return structural_index.index_jsonl(start, start, end, positions, kinds)


@kernel
def _tokenize(start: Any, end: Any, out: Any, starts: Any, char_table: Any) -> Any:
    return cleaned(start, end, out, starts, np.uint64(0), char_table)


def delimiter_texts() -> list[bytes]:
    """Return texts of all lengths with 0 to 100 % delimiters."""
    random = np.random.default_rng(7)
    result = []
    for n in random.integers(1, MAX_LENGTH, N_TEXTS).tolist():
        rate = random.choice([0.0, 0.05, 0.15, 0.4, 1.0])
        is_delimiter = random.random(n) < rate
        delimiters = random.choice(np.frombuffer(b' :\n",}\\|\t\x1c\x7f\xe9', np.uint8), n)
        result.append(np.where(is_delimiter, delimiters, np.uint8(ord("x"))).tobytes())
    return result


def kernel_delimiters(text: bytes) -> tuple[list[Any], ...]:
    """Return the delimiters that the kernels find in a text, for each format."""
    padded = b"<" * structural_index.PAD + text + b">" * structural_index.PAD
    buffer = np.frombuffer(padded, np.uint8)
    start = np.uint64(buffer.ctypes.data + structural_index.PAD)
    end = start + np.uint64(len(text))
    size = len(text) + 2 * structural_index.SPARE
    positions = np.zeros(size, np.uint32)
    kinds = np.zeros(size, np.uint8)
    out = [np.uint64(a.ctypes.data) for a in (positions, kinds)]
    n = int(_index_svmlight(start, end, *out))
    svmlight = [positions[1:n].tolist(), bytes(kinds[1:n])]
    n, ascii_ = _index_vw(start, end, *out)
    n = int(n)
    vw = [positions[:n].tolist(), bytes(kinds[:n]), ascii_]
    n, ascii_, no_equals = _index_jsonl(start, end, *out)
    n = int(n)
    jsonl = [positions[:n].tolist(), bytes(kinds[:n]), ascii_, no_equals]
    return svmlight, vw, jsonl


def expected_delimiters(text: bytes) -> tuple[list[Any], ...]:
    """Return the delimiters found by a loop over bytes."""
    indices = [k for k, c in enumerate(text) if c in b" :\n"]
    svmlight = [[k + 1 for k in indices], bytes(text[k] for k in indices)]
    indices = [k for k, c in enumerate(text) if c in b" :\n\t|"]
    vw = [indices, bytes(text[k] for k in indices), max(text) < 128]
    indices = [k for k, c in enumerate(text) if c in b'",}\\' or c < 0x20]
    around = b"<" + text + b">"
    kinds = bytes(
        text[k] | structural_index.AFTER_SPACE * (around[k] == structural_index.SPACE)
        | structural_index.BEFORE_COLON * (around[k + 2] == structural_index.COLON)
        for k in indices
    )  # fmt: skip
    return svmlight, vw, [indices, kinds, max(text) < 128, b"=" not in text]


def kernel_tokens(text: bytes) -> tuple[bytes, list[int]]:
    """Return the text as the tokenizer kernel cleans it and the offset of each token."""
    buffer = np.frombuffer(text + b" " * structural_index.PAD, np.uint8)
    start, char_table = np.uint64(buffer.ctypes.data), np.uint64(characters().ctypes.data)
    cleaned_text = np.zeros(len(text) + 2 * BLOCK, np.uint8)
    starts = np.zeros(len(text) + BLOCK, np.uint64)
    out = np.uint64(cleaned_text.ctypes.data)
    stop, n, is_ascii = _tokenize(start, start + np.uint64(len(text)), out, starts, char_table)
    assert is_ascii
    offsets = [int(token_start) - int(out) for token_start in starts[: int(n)]]
    return bytes(cleaned_text[: int(stop) - int(out)]), offsets


def expected_tokens(text: bytes) -> tuple[bytes, list[int]]:
    """Return the tokens found by a regular expression, in the same form."""
    words = re.findall(r"\w+", text.decode("ascii").lower())
    ends = np.cumsum([0, *(len(word) + 1 for word in words)])
    return "".join(f"{word} " for word in words).encode(), ends[:-1].tolist()


def token_texts() -> list[bytes]:
    """Return texts of all lengths with letters, digits and separators."""
    random = np.random.default_rng(5)
    letters = np.frombuffer(b"abyzABYZ0189__  .,-@[`{/:~\t", np.uint8)
    return [random.choice(letters, n).tobytes() for n in random.integers(1, MAX_LENGTH, N_TEXTS)]


def test_tokens_match_a_regular_expression() -> None:
    for text in token_texts():
        assert kernel_tokens(text) == expected_tokens(text)


def training_result() -> str:
    """Return predictions and weights, as exact text, of two models trained on random rows."""
    random = np.random.default_rng(3)
    sizes = random.integers(0, 40, 300)
    ids = [np.sort(random.choice(500, n, replace=False)) for n in sizes.tolist()]
    ends = np.concatenate([[0], np.cumsum(sizes)])
    X = csr_matrix((random.normal(size=ends[-1]), np.concatenate(ids), ends), shape=(300, 500))
    y = random.random(300) < 0.5
    states = []
    for model in (
        ElasticNetClassifier(l1=1e-3, l2=1e-3, lr=0.3),
        ElasticNetClassifier(l1=1e-3, l2=1e-3, lr="auto"),
    ):
        p = model.progressive_many(X, y)
        states.append(np.asarray(p).tobytes().hex())
        states.append(str(sorted(model.weights.items())))
    return "\n".join(states)


@kernel
def _gather_and_scatter(
    table: Any, ids: Any, lanes: Any, scattered: Any, floats: Any, bits: Any, looked_up: Any
) -> None:
    offsets = load_u32x8(np.uint64(ids.ctypes.data)) * np.uint64(8)
    scatter(floats, lanes, np.uint64(0), gather(table, ids, np.uint64(0)))
    loaded = gather_u64(offsets + np.uint64(table.ctypes.data))
    store_u64x8(np.uint64(bits.ctypes.data), loaded)
    scatter_u64(offsets + np.uint64(scattered.ctypes.data), loaded)
    found = lookup16(np.uint64(table.ctypes.data), offsets & np.uint64(15))
    store_u64x8(np.uint64(looked_up.ctypes.data), found)


@kernel
def _permute(start: Any, offsets: Any, out: Any) -> Any:
    """Load four uint64 near an address and four near one 200 bytes after it."""
    low = np.uint64(start)
    high = low + np.uint64(200)
    addresses = load_u32x8(np.uint64(offsets.ctypes.data)) + low
    store_u64x8(np.uint64(out.ctypes.data), permute_u64(low, high, addresses))
    first, last = max(offsets[:4]), max(offsets[4:])
    return can_permute(low, low + np.uint64(first), high, low + np.uint64(last))


def check_permute() -> bool:
    """Check `permute_u64` against memory and return what `can_permute` answers."""
    random = np.random.default_rng(11)
    text = random.integers(0, 256, 2 * structural_index.PAD + 400, np.uint8)
    answers = set()
    for max_offset in range(0, 121, 5):
        offsets = random.integers(0, max_offset + 1, 8).astype(np.uint32)
        offsets[[1, 6]] = max_offset
        offsets[4:] += 200
        out = np.zeros(8, np.uint64)
        answers.add(_permute(text.ctypes.data, offsets, out))
        assert out.tobytes() == b"".join(text[k : k + 8].tobytes() for k in offsets.tolist())
    for shift in ([0, 0, 0, 121, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 121, 0]):
        offsets = np.array([0, 0, 0, 0, 200, 200, 200, 200], np.uint32) + np.uint32(shift)
        assert not _permute(text.ctypes.data, offsets, np.zeros(8, np.uint64))
    [answer] = answers
    return bool(answer)


def test_permute_loads_from_memory() -> None:
    assert check_permute() == (
        get_host_cpu_name().startswith("znver") and bool(get_host_cpu_features().get("avx512vbmi"))
    )


def check_gather() -> str:
    """Check gathers, scatters and `lookup16`, and return what they load."""
    table = np.random.default_rng(9).normal(size=200)
    ids = np.array([3, 199, 0, 77, 5, 4, 120, 9], np.uint32)
    lanes = np.arange(8, dtype=np.uint32)
    scattered = np.zeros(200, np.uint64)
    floats, bits, looked_up = np.zeros(8), np.zeros(8, np.uint64), np.zeros(8, np.uint64)
    _gather_and_scatter(table, ids, lanes, scattered, floats, bits, looked_up)
    expected = table.view(np.uint64)
    assert floats.tolist() == table[ids].tolist() and bits.tolist() == expected[ids].tolist()
    assert scattered[ids].tolist() == expected[ids].tolist() and np.count_nonzero(scattered) == 8
    assert looked_up.tolist() == expected[ids * 8 & 15].tolist()
    return f"{floats.tolist()} {looked_up.tolist()}"


def test_delimiters_match_a_byte_loop() -> None:
    for text in delimiter_texts():
        assert kernel_delimiters(text) == expected_delimiters(text)


OLDER_PROCESSORS = {
    "SSE2": ("x86-64", ()),
    "AVX2": ("x86-64-v3", ("ssse3", "sse4.2", "popcnt", "avx", "avx2", "bmi", "bmi2")),
}


def is_older(features: tuple[str, ...]) -> bool:
    """Check that this processor has these features and further ones that change the code."""
    host = get_host_cpu_features()
    return all(host.get(feature) for feature in features) and (
        not features or bool(host.get("avx512f"))
    )


def run_as(cpu: str, features: str, folder: Path, *lines: str) -> str:
    """Return the output of code in a process that compiles for another processor."""
    script = "\n".join(("from tests import test_processors as t", *lines))
    env = {
        **os.environ, "NUMBA_CPU_NAME": cpu, "NUMBA_CACHE_DIR": str(folder / "cache"),
        "NUMBA_CPU_FEATURES": features, "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    result = subprocess.run(
        [sys.executable, "-c", script], env=env, cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("extension", OLDER_PROCESSORS)
def test_older_processors_give_identical_results(extension: str, tmp_path: Path) -> None:
    name, features = OLDER_PROCESSORS[extension]
    if not is_older(features):
        pytest.skip("this processor lacks the features or has no further ones")
    output = run_as(
        *(name, ",".join(f"+{feature}" for feature in features), tmp_path),
        "for text in t.delimiter_texts():",
        "    assert t.kernel_delimiters(text) == t.expected_delimiters(text)",
        "for text in t.token_texts():",
        "    assert t.kernel_tokens(text) == t.expected_tokens(text)",
        "assert not t.check_permute()",
        "print(t.training_result())",
    )
    assert output == training_result() + "\n"


def test_processors_of_another_vendor_give_identical_results(tmp_path: Path) -> None:
    """Intel code uses gather instructions, AMD code loads lane by lane."""
    name = "skylake" if get_host_cpu_name().startswith("znver") else "znver3"
    features = get_host_cpu_features().flatten()
    output = run_as(
        *(name, features, tmp_path),
        "t.check_permute()",
        "print(t.check_gather())",
        "print(t.training_result())",
    )
    assert output == f"{check_gather()}\n{training_result()}\n"
