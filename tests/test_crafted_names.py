"""Names that are crafted against hash tables: searches stay short."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import streaml1
from streaml1 import ElasticNetClassifier, FTRLClassifier
from streaml1.core.hashing import MURMUR_MULTIPLIER, PROCESS_KEY, name_hash
from streaml1.core.jit import COMPILED, kernel
from streaml1.core.rows import Rows
from streaml1.features import dedup_text
from streaml1.features.dedup import masked_rows, repeats
from streaml1.features.dict_reader import context_fields, crossed_hashed, raw_text
from streaml1.features.ngrams import tokenizer
from streaml1.features.vocabulary.byte_interning import HashIndex, distinct
from streaml1.features.vocabulary.name_arena import NameArena
from streaml1.sources.readers.jsonl import JsonParser
from streaml1.sources.readers.vw import VwParser
from streaml1.text.keyed_names import (
    NAME_KEYS,
    keyed_hashes,
    keyed_hashes_between,
    keyed_hashes_of,
)
from tests import reference

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


def mask_to_few_slots(hashes: U64) -> None:
    """Names that share a slot are summed one by one."""
    indptr = np.array([0, len(hashes)], np.uint64)
    rows = Rows(np.zeros(0, np.uint32), np.ones(len(hashes)), indptr)
    masked = masked_rows(hashes, rows, 255)
    assert masked is not None and masked.values.sum() == len(hashes)


@kernel
def _merge_ngrams_kernel(hashes: Any, values: Any, spans: Any, key: Any, hash_table: Any) -> Any:
    n = np.uint64(len(hashes))
    return tokenizer._merge_duplicates(hashes, values, spans, np.uint64(0), n, key, hash_table)


def merge_ngrams(hashes: U64) -> None:
    hashes, n = np.concatenate([hashes, hashes]), 2 * len(hashes)
    values, spans = np.empty(n), np.zeros(n, np.uint64)
    hash_table = np.empty(1 << (16 * n).bit_length(), np.uint64)
    assert _merge_ngrams_kernel(hashes, values, spans, PROCESS_KEY, hash_table) == n // 2
    assert (values[: n // 2] == 2.0).all()


def merge_repeats(hashes: U64) -> None:
    hashes = np.concatenate([hashes, hashes])
    n = len(hashes)
    indptr, marks = np.array([0, n], np.uint64), np.zeros(1 << (2 * n).bit_length(), np.uint64)
    firsts, sums, ends = np.empty(n, np.uint64), np.empty(n), np.zeros(2, np.uint64)
    arrays = PROCESS_KEY, marks, firsts, sums, ends
    assert dedup_text._merge(hashes, np.ones(n), indptr, *arrays) == n // 2
    assert (sums[: n // 2] == 2.0).all()


@kernel
def _has_repeat_kernel(hashes: Any, key: Any, repeat_table: Any) -> bool:
    return raw_text._has_repeat(hashes, np.uint64(len(hashes)), key, repeat_table)


def find_repeats_of_a_dict(hashes: U64) -> None:
    repeat_table = np.empty(1 << (2 * len(hashes)).bit_length(), np.uint64)
    assert not _has_repeat_kernel(hashes, PROCESS_KEY, repeat_table)


@kernel
def _merge_slots_kernel(context: Any, ids: Any, values: Any) -> Any:
    return crossed_hashed._merge_slots(context, ids, values, np.uint64(len(ids)))


def merge_slots_of_a_dict(slots: U64) -> None:
    n = len(slots)
    ids, marks = slots.astype(np.uint32), np.zeros(1 << (2 * n).bit_length(), np.uint64)
    context = np.zeros(context_fields.RULE_ARRAYS, np.uint64)
    context[context_fields.MARKS], context[context_fields.N_MARKS] = marks.ctypes.data, len(marks)
    context[context_fields.KEY] = PROCESS_KEY
    assert _merge_slots_kernel(context, ids, np.ones(n)) == n


def seconds(run: Callable[[Any], None], data: Any) -> float:
    """Return the shortest of five times."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        run(data)
        times.append(time.perf_counter() - start)
    return min(times)


@compiled_only
@pytest.mark.parametrize(
    "table",
    [intern, group, find_repeats, mask, mask_to_few_slots, merge_ngrams, merge_repeats,
     find_repeats_of_a_dict],
)  # fmt: skip
def test_no_hashes_make_searches_long(table: Callable[[U64], None]) -> None:
    random = np.random.default_rng(1).integers(0, 2**64, N, dtype=np.uint64)
    expected = max(seconds(table, random), MIN_SECONDS)
    for kind, craft in CRAFTED.items():
        hashes = np.random.default_rng(2).permutation(craft(np.arange(N, dtype=np.uint64)))
        taken = seconds(table, hashes)
        assert taken < MAX_SLOWDOWN * expected, f"{kind}: {taken:.4f} s, random: {expected:.4f} s"


@compiled_only
def test_no_slots_make_searches_long() -> None:
    """With `hash_bits`, slots of an example are chosen by whoever chooses its names."""
    random = np.random.default_rng(1).choice(2**32, N, replace=False).astype(np.uint64)
    expected = max(seconds(merge_slots_of_a_dict, random), MIN_SECONDS)
    k = np.arange(N, dtype=np.uint64)
    for crafted in (k, k << np.uint64(18), (k << np.uint64(16)) | k):
        taken = seconds(merge_slots_of_a_dict, np.random.default_rng(2).permutation(crafted))
        assert taken < MAX_SLOWDOWN * expected, f"{taken:.4f} s, random: {expected:.4f} s"


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


# Names with the same hash


def words_with_one_hash(prefix: bytes) -> list[str]:
    """Return two words of 16 bytes that have the same hash after a prefix of whole words.

    The second half of a word is chosen such that the hash is as wanted, for many first halves.
    """
    letters = np.frombuffer(
        b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", np.uint8
    )
    state = np.array([len(prefix) + 16], np.uint64) * M
    for word in np.frombuffer(prefix, np.uint64):
        state = (state ^ mixed(np.array([word]))) * M
    random, found = np.random.default_rng(5), list[str]()
    while len(found) < 2:
        first = letters[random.integers(0, len(letters), (2**17, 8))].view(np.uint64)[:, 0]
        second = unmixed((np.array([77], np.uint64) * M_INVERSE) ^ ((state ^ mixed(first)) * M))
        plain = np.isin(second.view(np.uint8).reshape(-1, 8), letters).all(axis=1)
        pairs = zip(first[plain], second[plain], strict=True)
        found += [(a.tobytes() + b.tobytes()).decode() for a, b in pairs]
    return found[:2]


@given(st.lists(st.binary(max_size=40), max_size=20), st.sampled_from([0, 8, 40]))
def test_keyed_hashes_match_the_reference(names: list[bytes], padding: int) -> None:
    """Eight names at a time, or byte by byte where a load would leave the text."""
    keys = NAME_KEYS.tolist()
    stable = np.arange(1, len(names) + 1, dtype=np.uint64) * M
    pairs = zip(names, stable.tolist(), strict=True)
    expected = [reference.keyed_hash(name, h, keys) for name, h in pairs]
    text = np.frombuffer(bytearray(b"".join(names) + bytes(padding)), np.uint8)
    ends = np.cumsum([0, *map(len, names)]).astype(np.uint64)
    spans = ends[:-1] << np.uint64(32) | np.diff(ends)
    assert keyed_hashes(stable, text, spans).tolist() == expected
    assert keyed_hashes_between(stable, text, ends).tolist() == expected
    strings = [name.hex() for name in names]
    assert keyed_hashes_of(strings).tolist() == [
        reference.keyed_hash(name.encode(), name_hash(name), keys) for name in strings
    ]


def example_files(ham: str, spam: str) -> dict[str, tuple[str, dict[str, Any], str]]:
    """Return for each format a file, its options, and the prefix of names."""
    return {
        "a.vw": (f"-1 | {ham}\n1 | {spam}\n" * 4, {}, ""),
        "b.vw": (f"-1 |abcdefg {ham}\n1 |abcdefg {spam}\n" * 4, {}, "abcdefg^"),
        "c.csv": (
            "y,subject\n" + f"0,{ham}\n1,{spam}\n" * 4,
            {"target": "y", "categorical": ["subject"]},
            "subject=",
        ),
        "d.jsonl": (
            f'{{"x": {{"{ham}": 1}}, "y": 0}}\n{{"x": {{"{spam}": 1}}, "y": 1}}\n' * 4,
            {},
            "",
        ),
    }


@pytest.mark.parametrize("file", example_files("", ""))
def test_words_with_the_same_hash_are_two_features(file: str, tmp_path: Path) -> None:
    prefix = example_files("", "")[file][2]
    words = words_with_one_hash(prefix.encode())
    text, options, _ = example_files(*words)[file]
    (tmp_path / file).write_text(text)
    ham, spam = (prefix + word for word in words)
    assert ham != spam and name_hash(ham) == name_hash(spam)
    model, twin = (FTRLClassifier(alpha=0.5, l1=0.0) for _ in range(2))
    streaml1.progressive(model, streaml1.sources.open_source(tmp_path / file, **options))
    for _ in range(4):  # dicts are found by other hashes
        twin.learn_one({ham: 1.0}, False)
        twin.learn_one({spam: 1.0}, True)
    assert model.weights == twin.weights and model.weights[ham] < 0 < model.weights[spam]
    # Loaded, and after a dict has turned the names into strings.
    model.save(tmp_path / "model")
    loaded = streaml1.load(tmp_path / "model")
    expected = [twin.predict_proba_one({name: 1.0})[True] for name in (ham, spam)]
    lines = JsonParser().read(
        "".join(f'{{"x": {{"{name}": 1}}, "y": 1}}\n' for name in (ham, spam)).encode()
    )
    for one in (model, loaded):
        assert one.predict_proba_many(lines.x)[:, 1].tolist() == expected
        one.predict_one({"other": 1.0})
        assert one.predict_proba_many(lines.x)[:, 1].tolist() == expected
