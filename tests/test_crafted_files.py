"""Crafted files: whatever a file with right checksums says, it is rejected or used, in one piece.

The tests change valid files at random, field by field, and repair the checksums.
`STREAML1_MUTATIONS` sets how many (default 2000).
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import streaml1
from streaml1.core.hashing import utf8_hashes
from streaml1.sources import SourceError, open_source
from streaml1.sources.row_cache.layout import HEADER, Index, checksum, header
from streaml1.training import convert, progressive

MUTATIONS = int(os.environ.get("STREAML1_MUTATIONS", "2000"))

INTS = [0, 1, 2, 3, 7, 8, 255, 2**16, 2**31 - 1, 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, 2**63]
INTS += [2**64 - 1, 2**64 - 8, 2**64 - 2**40]
FLOATS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 5e-324, 1e49, 1e50, 1e300, -1e300, 1.0]
VALUES = [None, True, -1, 10**18, 10**30, 1e300, "", "\x1b[31m\n", [], {}, [[]], {"a": None}]


def assert_one_sentence(error: BaseException) -> None:
    """Assert that the message is one short line."""
    text = str(error)
    assert text and "\n" not in text and len(text) < 500 and "\x1b" not in text, text


def mutated_bytes(random: Random, raw: bytes) -> bytes:
    """Return bytes with one to three changes of aligned 4 or 8 bytes, or of the length."""
    data = bytearray(raw)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        n = len(data)
        kind = random.choice(("u64", "u64", "f64", "u32", "u32", "byte", "swap", "add", "size"))
        at = random.randrange(n // 8) * 8 if n >= 8 else 0
        if n < 8 or kind == "size":
            k = random.choice((8, 64))
            data = data + bytes(k) if random.random() < 0.5 or n < k else data[:-k]
        elif kind == "u64":
            data[at : at + 8] = struct.pack("<Q", random.choice(INTS))
        elif kind == "f64":
            data[at : at + 8] = struct.pack("<d", random.choice(FLOATS))
        elif kind == "u32":
            at += random.choice((0, 4))
            data[at : at + 4] = struct.pack("<I", random.choice(INTS) & 0xFFFFFFFF)
        elif kind == "byte":
            data[random.randrange(n)] = random.randrange(256)
        elif kind == "add":
            (value,) = struct.unpack_from("<Q", data, at)
            data[at : at + 8] = struct.pack("<Q", (value + random.choice((-1, 1, 8))) % 2**64)
        else:
            other = random.randrange(n // 8) * 8
            data[at : at + 8], data[other : other + 8] = data[other : other + 8], data[at : at + 8]
    return bytes(data)


# Row caches

Part = tuple[bytes, int]
"""The bytes of a part and its number of rows."""


def read_rows(path: Path) -> tuple[dict[str, Any], list[Part]]:
    raw = path.read_bytes()
    offset, n = HEADER.unpack(raw[: HEADER.size])[3:5]
    about, parts = Index.read(raw[offset : offset + n])
    return about, [(raw[lo : lo + size], rows) for lo, size, rows, _ in parts.tolist()]


def write_rows(
    path: Path, about: Any, parts: list[Part], change: Callable[[Any], None] = lambda _: None
) -> None:
    """Write a file with right checksums; `change` may change the table of the index."""
    offset, table = HEADER.size, []
    for data, rows in parts:
        table.append((offset, len(data), rows, checksum(data)))
        offset += len(data)
    array = np.array(table, np.uint64).reshape(-1, 4)
    change(array)
    index = Index(about, array.view(np.int64)).dump()
    blocks = b"".join(data for data, _ in parts)
    path.write_bytes(header(offset, index) + blocks + index)


@pytest.fixture(scope="module")
def row_caches(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[dict[str, Any], list[Part]]]:
    """Return small files: named, integer, wide and text-labelled examples, plain and not."""
    folder = tmp_path_factory.mktemp("rows")
    texts = {
        "plain.vw": "1 | cheap:0.5 now:2\n-1 2.5 'tag |a new\n1 |\n-1 | é:1 long%20name:3\n" * 3,
        "twice.vw": "1 | a b:0.5 a\n-1 | b\n",
        "ints.svm": "1 3:0.5 17:1 40:2\n-1 1:1e-5\n-1\n1 2:1 5:0.125\n" * 3,
        "wide.svm": "1 3:0.5 9223372036854775807:1\n-1 3:1\n",
        "ids.jsonl": '{"x": {"age": 31, "site": "news"}, "y": 1, "id": "v7"}\n'
        '{"x": {"age": 0.5}, "y": false, "w": 0.25}\n{"x": {"é": 3}, "y": "0", "id": 9}\n',
    }
    files = []
    for name, text in texts.items():
        (folder / name).write_text(text)
        convert(folder / name, folder / "a.rows")
        files.append(read_rows(folder / "a.rows"))
    return files


MODELS: list[Callable[[], Any]] = [
    streaml1.FTRLClassifier,
    lambda: streaml1.ElasticNetClassifier(hash_bits=4),
    streaml1.L1BallClassifier,
    lambda: streaml1.FTRLClassifier(cross=[("c", "n")]),
]


def learn_rows(random: Random, path: Path) -> str:
    """Learn a file; return what came of it."""
    model = random.choice(MODELS)()
    try:
        result = progressive(model, path, bad="skip")
        source: Any = open_source(path)
        for block in source.blocks(100, lambda *_: None):
            assert len(list(block.x)) == len(block.y)
            names = block.x.feature_names if hasattr(block.x, "feature_names") else None
            if names is not None:
                n = int(block.x.indptr[-1] - block.x.indptr[0])
                assert len(names(np.arange(n))) == n
    except SourceError as error:
        assert error.exit_code == (2 if "not a .rows" in str(error) else 65)
        assert_one_sentence(error)
        return "rejected"
    assert all(line.loss is None or math.isfinite(line.loss) for line in result.lines)
    model._engine.check()
    assert all(map(math.isfinite, model.weights.values()))
    return "learnt"


def mutate_rows(random: Random, path: Path, about: dict[str, Any], parts: list[Part]) -> None:
    about, parts = dict(about), list(parts)
    kind = random.choice(("head", "part", "part", "part", "plain", "about", "table", "order"))
    change: Callable[[Any], None] = lambda _: None  # noqa: E731
    k = random.randrange(len(parts))
    data, rows = parts[k]
    if kind == "head":
        head = mutated_bytes(random, parts[0][0][:72])
        parts[0] = head + parts[0][0][72:], parts[0][1]
    elif kind == "part":
        parts[k] = mutated_bytes(random, data), random.choice((rows, rows, rows, rows + 1))
    elif kind == "plain":
        data = bytearray(parts[0][0])
        data[40:48] = struct.pack("<Q", 1)
        parts[0] = bytes(data[:72]) + mutated_bytes(random, bytes(data[72:])), parts[0][1]
    elif kind == "about":
        about[random.choice([*about, "more"])] = random.choice(VALUES + INTS)
    elif kind == "order":
        random.shuffle(parts)
    else:
        values = random.choice(INTS)

        def change(table: Any) -> None:
            table[random.randrange(len(table)), random.randrange(3)] = values

    write_rows(path, about, parts, change)


def set_u64(position: int, *values: int) -> Callable[[bytes], bytes]:
    def change(raw: bytes) -> bytes:
        data = np.frombuffer(bytearray(raw), np.uint64)
        data[position : position + len(values)] = values
        return data.tobytes()

    return change


NAN = int(np.float64(math.nan).view(np.uint64))
TWICE = 1 << 32 | 1
"""Two ids, both 1."""

CRAFTED_PARTS: list[tuple[int, Callable[[bytes], bytes], str]] = [
    (-2, set_u64(0, 2**40), "its names are out of order"),
    (-2, set_u64(0, 2**64 - 1), "its names are out of order"),
    (-2, set_u64(0, 4, 2), "its names are out of order"),
    (-2, lambda raw: raw[:-8], "the number of its names is wrong"),
    (-3, lambda raw: raw[:-8], "the number of its names is wrong"),
    (-3, set_u64(0, 5), "a name has the hash of another"),
    (-3, lambda raw: raw[:8] + raw[:8] + raw[16:], "two names have the same hash"),
    # Nine fields of the head, three labels, four row boundaries, then five values and five ids.
    (0, set_u64(5, 2), "the head of a block is inconsistent"),
    (0, set_u64(1, 2**61), "a block has the wrong size"),
    (0, set_u64(12, 0, 2**62, 2**63 + 1, 5), "rows or names are inconsistent"),
    (0, set_u64(16, NAN), "a block that claims to be plain has a duplicate feature or an invalid"),
    (0, set_u64(16, 0), "a block that claims to be plain has a duplicate feature or an invalid"),
    (0, set_u64(21, TWICE), "a block that claims to be plain has a duplicate feature or an"),
    (0, set_u64(22, 99), "rows or names are inconsistent"),
]


@pytest.mark.parametrize(("part", "change", "message"), CRAFTED_PARTS)
def test_crafted_row_caches_are_rejected(
    tmp_path: Path, part: int, change: Callable[[bytes], bytes], message: str
) -> None:
    (tmp_path / "a.vw").write_text("1 | one:2 two:3\n-1 | two:2 three:3\n1 | four:7\n")
    convert(tmp_path / "a.vw", tmp_path / "a.rows")
    about, parts = read_rows(tmp_path / "a.rows")
    assert len(parts[0][0]) == 8 * (9 + 3 + 4 + 5 + 3)
    parts[part] = change(parts[part][0]), parts[part][1]
    write_rows(tmp_path / "a.rows", about, parts)
    with pytest.raises(SourceError, match=message) as error:
        progressive(streaml1.FTRLClassifier(), tmp_path / "a.rows")
    assert error.value.exit_code == 65
    assert_one_sentence(error.value)


def test_name_that_is_not_utf8_is_rejected(tmp_path: Path) -> None:
    """Also where the text as a whole is valid: a name ends within a character."""
    (tmp_path / "a.vw").write_text("1 | é:2 two:3\n")
    for bad, ends in ((b"\xff\xfe", [2, 5]), ("é".encode(), [1, 5])):
        convert(tmp_path / "a.vw", tmp_path / "a.rows")
        about, parts = read_rows(tmp_path / "a.rows")
        text = bad + b"two" + bytes(3)
        ends_array = np.array(ends, np.uint64)
        hashes = utf8_hashes(np.frombuffer(bytearray(text), np.uint8), ends_array)
        parts[-3:] = [(hashes.tobytes(), 0), (ends_array.tobytes(), 0), (text, 0)]
        write_rows(tmp_path / "a.rows", about, parts)
        with pytest.raises(SourceError, match="a name is not valid UTF-8"):
            progressive(streaml1.FTRLClassifier(), tmp_path / "a.rows")


def test_mutated_row_caches(row_caches: Any, tmp_path: Path) -> None:
    random = Random(1)
    outcomes = {"rejected": 0, "learnt": 0}
    n = MUTATIONS // 4
    for k in range(n):
        path = tmp_path / f"{k % 2}.rows"
        mutate_rows(random, path, *row_caches[k % len(row_caches)])
        outcomes[learn_rows(random, path)] += 1
    print("row caches:", outcomes)
    assert min(outcomes.values()) > n // 20  # the mutations are neither too mild nor too wild
