"""Names that are crafted against hash tables: searches stay short."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from streaml1 import ElasticNetClassifier
from streaml1.core.hashing import MURMUR_MULTIPLIER, name_hash
from streaml1.core.jit import COMPILED
from streaml1.core.rows import Rows
from streaml1.features.dedup import masked_rows, repeats
from streaml1.features.vocabulary.byte_interning import HashIndex, NameArena, distinct
from streaml1.sources.readers.jsonl import JsonParser
from streaml1.sources.readers.vw import VwParser

U64 = NDArray[np.uint64]

M = np.uint64(MURMUR_MULTIPLIER)
M_INVERSE = np.uint64(pow(MURMUR_MULTIPLIER, -1, 2**64))
SHIFT = np.uint64(47)
GOLDEN = 0x9E3779B97F4A7C15  # a constant that tables without a key multiply by

N = 10_000
# With one home for all, searches alone take hundreds of times as long.
MAX_SLOWDOWN, MIN_SECONDS = 5.0, 0.002

compiled_only = pytest.mark.skipif(not COMPILED, reason="interpreted kernels are too slow")


def unmixed(mixed: U64) -> U64:
    """Return the words of eight bytes that MurmurHash64A mixes to these."""
    k = mixed * M_INVERSE
    return (k ^ (k >> SHIFT)) * M_INVERSE


def mixed(word: U64) -> U64:
    k = word * M
    return (k ^ (k >> SHIFT)) * M


def unfinished(h: U64) -> U64:
    """Return the states before the final mixing of MurmurHash64A, given hashes."""
    h = (h ^ (h >> SHIFT)) * M_INVERSE
    return h ^ (h >> SHIFT)


def names_with_hashes(low: int, bits: int, n: int) -> list[str]:
    """Return n names of letters and the like whose hashes have equal low bits.

    The last eight bytes of a name are chosen such that the hash is as wanted. About one in 4,000 of
    them is text, so the other bits of the hashes are tried.
    """
    first = np.frombuffer(b"crafted-", np.uint64)
    state = (np.array([16], np.uint64) * M ^ mixed(first)) * M
    found: list[bytes] = []
    start, step = 1, 2**17
    while len(found) < n:
        tries = np.arange(start, start + step, dtype=np.uint64) << np.uint64(bits)
        words = unmixed((unfinished(tries + np.uint64(low)) * M_INVERSE) ^ state)
        words = words[words & np.uint64(0x8080808080808080) == 0]
        data = words.view(np.uint8).reshape(-1, 8)
        plain = ((data > 32) & (data < 127) & (data != ord(":")) & (data != ord("|"))).all(axis=1)
        plain &= ((data != ord('"')) & (data != ord("\\"))).all(axis=1)
        found += [b"crafted-" + row.tobytes() for row in data[plain]]
        start += step
    return [name.decode() for name in found[:n]]


CRAFTED: dict[str, Callable[[U64], U64]] = {
    "equal low bits": lambda k: (k << np.uint64(34)) + np.uint64(5),
    "equal high bits": lambda k: k,
    "equal middle bits": lambda k: (k << np.uint64(46)) + (k & np.uint64(63)),
    "halves that cancel": lambda k: (k << np.uint64(32)) | k,
    "products of a public constant": lambda k: (
        (k << np.uint64(46)) * np.uint64(pow(GOLDEN, -1, 2**64))
    ),
}


def intern(hashes: U64) -> None:
    index, arena = HashIndex(), NameArena()
    text, spans = np.zeros(0, np.uint8), np.zeros(len(hashes), np.uint64)
    index.intern(hashes, np.empty(len(hashes), np.uint32), text, spans, arena)
    assert index.n == len(hashes)


def group(hashes: U64) -> None:
    assert len(distinct(hashes, np.arange(len(hashes))).first_positions) == len(hashes)


def find_repeats(hashes: U64) -> None:
    assert not repeats(hashes, np.array([0, len(hashes)], np.uint64))


def mask(hashes: U64) -> None:
    indptr = np.array([0, len(hashes)], np.uint64)
    rows = Rows(np.zeros(0, np.uint32), np.ones(len(hashes)), indptr)
    assert masked_rows(hashes, rows, 2**32 - 1) is not None


def seconds(run: Callable[[Any], None], data: Any) -> float:
    """Return the shortest of five times."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run(data)
        times.append(time.perf_counter() - start)
    return min(times)


@compiled_only
@pytest.mark.parametrize("table", [intern, group, find_repeats, mask])
def test_no_hashes_make_searches_long(table: Callable[[U64], None]) -> None:
    random = np.random.default_rng(1).integers(0, 2**64, N, dtype=np.uint64)
    expected = max(seconds(table, random), MIN_SECONDS)
    for kind, craft in CRAFTED.items():
        hashes = np.random.default_rng(2).permutation(craft(np.arange(N, dtype=np.uint64)))
        taken = seconds(table, hashes)
        assert taken < MAX_SLOWDOWN * expected, f"{kind}: {taken:.4f} s, random: {expected:.4f} s"


def test_names_can_be_crafted() -> None:
    """Otherwise the tests below could not fail."""
    names = names_with_hashes(low=77, bits=32, n=20)
    assert len(set(names)) == 20 and {name_hash(name) % 2**32 for name in names} == {77}


@compiled_only
def test_lines_of_crafted_names_are_learnt_as_fast_as_others() -> None:
    """One line is long enough to compare its names, and all names are new."""
    crafted = names_with_hashes(low=77, bits=32, n=N)
    random = [f"crafted-{hash((k, 1)) % 10**8:08d}" for k in range(N)]
    vw, flat = VwParser(), JsonParser()

    def learn(parser: Any) -> Callable[[bytes], None]:
        def run(text: bytes) -> None:
            block = parser.read(text)
            assert not len(block.faults)
            model = ElasticNetClassifier(lr=0.1)
            model.learn_many(block.x, block.y)
            assert model.n_features_seen > 0.99 * N

        return run

    for parser, line in (
        (vw, lambda names: f"1 | {' '.join(names)}\n"),
        (flat, lambda names: json.dumps({"x": dict.fromkeys(names, 2.5), "y": 1}) + "\n"),
    ):
        expected = max(seconds(learn(parser), line(random).encode()), MIN_SECONDS)
        taken = seconds(learn(parser), line(crafted).encode())
        assert taken < MAX_SLOWDOWN * expected, f"{taken:.4f} s, random: {expected:.4f} s"
