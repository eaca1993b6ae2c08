"""Crafted files: whatever a file with right checksums says, it is rejected or used, in one piece.

The tests change valid files at random, field by field, and repair the checksums.
`STREAML1_MUTATIONS` sets how many (default 600): half are models, a quarter row caches.
"""

from __future__ import annotations

import faulthandler
import hashlib
import io
import json
import math
import os
import resource
import struct
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import streaml1
from streaml1 import BadExample, ModelFileError
from streaml1.core.hashing import utf8_hashes
from streaml1.core.jit import COMPILED
from streaml1.models import decode
from streaml1.sources import SourceError, open_source
from streaml1.sources.row_cache.layout import HEADER, Index, checksum, header
from streaml1.training import convert, progressive
from tests.kit import LEARNERS

MUTATIONS = int(os.environ.get("STREAML1_MUTATIONS", "600"))

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
    model._state.check()
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


@pytest.mark.skipif(not COMPILED, reason="text is parsed by operations on raw memory")
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


# Model files

HEAD = struct.Struct("<8sIQ32s")
FEATURES = [f"word {j}" for j in range(12)] + ["a=1", "a=2"]


def variants() -> dict[str, Callable[[], Any]]:
    """Return small models: every learner of the registry, and every kind of state."""
    made: dict[str, Callable[[], Any]] = {kind.__name__: kind for kind in LEARNERS}
    s = streaml1
    made |= {
        "sgd": lambda: s.ElasticNetClassifier(update="sgd", lr=0.1, l1=1e-3),
        "folded": lambda: s.ElasticNetRegressor(lr=0.1, l1=1e-3, l2=1e-3, average=True),
        "stamps": lambda: s.ElasticNetClassifier(stamps="explicit", lr=0.1, l1=1e-3, l2=1e-3),
        "even stamps": lambda: s.ElasticNetClassifier(
            stamps="explicit", lr=0.1, l1=1e-3, schedule="constant"
        ),
        "hashed": lambda: s.FTRLClassifier(hash_bits=6),
        "paper": lambda: s.FTRLClassifier(alpha=0.1),
        "capped": lambda: s.FTRLClassifier(l1=0.0, max_features=5),
        "crossed": lambda: s.FTRLClassifier(cross=[("a", "word")]),
        "tree": lambda: s.L1BallClassifier(index="tree", radius=0.5, lr=0.5),
        "nonnegative": lambda: s.L1BallClassifier(nonnegative=True),
        "p = 2": lambda: s.SMIDASClassifier(p=2.0),
        "small": lambda: s.SMIDASClassifier(n_features=100, l1=0.3),
        "EG": lambda: s.EGClassifier(n_features=40, nonnegative=True),
        "linf": lambda: s.FOBOSClassifier(norm="linf", strength=0.01),
        "mean gradient": lambda: s.TruncatedGradientClassifier(average=True),
        "mean pegasos": lambda: s.PegasosClassifier(average=True),
        "l1": lambda: s.SoftmaxClassifier(penalty="l1"),
        "linf rows": lambda: s.SoftmaxClassifier(penalty="l1/linf", lr=0.1),
        "balls": lambda: s.SoftmaxClassifier(penalty="ball", radius=2.0),
        "declared": lambda: s.SoftmaxClassifier(classes=["a", "b", "c"], penalty="ball"),
    }
    return made


def label_of(model: Any, random: Random) -> Any:
    if isinstance(model, streaml1.SoftmaxClassifier):
        return random.choice("abc")
    return random.random() < 0.5


def example(random: Random, ints: bool) -> dict[Any, float]:
    names: Any = range(14) if ints else FEATURES
    return {name: random.choice((1.0, -0.5, 2.25)) for name in random.sample(names, 4)}


def trained_arrays(name: str, make: Callable[[], Any]) -> dict[str, Any]:
    random, model = Random(name), make()
    ints = len(name) % 3 == 0
    for _ in range(60):
        model.learn_one(example(random, ints), label_of(model, random))
    with np.load(io.BytesIO(model._encode()[HEAD.size :])) as archive:
        return {key: archive[key] for key in archive.files}


def model_bytes(arrays: dict[str, Any]) -> bytes:
    """Return a model file of arrays, with the right digest."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    return with_digest(file.getvalue())


def with_digest(body: bytes) -> bytes:
    digest = hashlib.sha256(struct.pack("<IQ", 1, len(body)) + body).digest()
    return HEAD.pack(b"streaml1", 1, len(body), digest) + body


def mutated_json(random: Random, value: Any) -> Any:
    """Return a JSON value with one change somewhere in it."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(list(value))
        changed = dict(value)
        if random.random() < 0.1:
            del changed[key]
        else:
            changed[key] = mutated_json(random, value[key])
        return changed
    if isinstance(value, list) and value and random.random() < 0.9:
        k = random.randrange(len(value))
        kind = random.choice(("change", "change", "drop", "twice", "swap", "grow"))
        if kind == "change":
            return [*value[:k], mutated_json(random, value[k]), *value[k + 1 :]]
        if kind == "drop":
            return value[:k] + value[k + 1 :]
        if kind == "twice":
            return [*value, value[k]]
        if kind == "grow":
            return [*value, *(f"more {j}" for j in range(random.choice((1, 20))))]
        return [*value[k:], *value[:k]]
    if isinstance(value, int | float) and random.random() < 0.5:
        return value + random.choice((-1, 1, 2))
    return random.choice([*VALUES, {"float": random.choice(FLOATS).hex()}, {"tuple": [1]}, 30])


def mutated_array(random: Random, array: Any) -> Any:
    """Return an array with another element, length, shape or dtype."""
    kind = random.choice(("element",) * 6 + ("length", "dtype", "shape", "fill", "order", "grow"))
    fields = array.dtype.names
    array = array.copy()
    if kind == "element" and array.size:
        part = array[random.choice(fields)] if fields else array
        flat = part.reshape(-1)
        k = random.randrange(len(flat))
        if random.random() < 0.3 and part.dtype.kind == "f":
            value = float(flat[k]) * random.choice((2, -1, 1.001, 1e6)) + random.choice((0, 1))
        elif random.random() < 0.3 and part.dtype.kind in "iu":
            value = max(0, int(flat[k]) + random.choice((-1, 1, 2)))
        else:
            value = random.choice(FLOATS if part.dtype.kind == "f" else INTS)
        with np.errstate(all="ignore"):
            flat[k] = np.array(value).astype(part.dtype)
        if fields is None:
            return flat.reshape(array.shape)
        return array
    if kind == "length":
        return array[: random.choice((0, 1, -1, len(array)))] if array.ndim else array
    if kind == "grow" and array.ndim and len(array):
        return np.resize(array, (len(array) + random.choice((1, 17)), *array.shape[1:]))
    if kind == "dtype" and not fields:
        dtypes = ("<f4", ">f8", "<i8", "<u4", "|b1", "<c16", "<U3", "|u1", "<f8")
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return array.astype(random.choice(dtypes))
    if kind == "shape":
        return array.reshape(random.choice(((-1, 1), (1, -1), (1, *array.shape))))
    if kind == "order" and array.ndim:
        return array[::-1]
    if kind == "fill" and not fields:
        with np.errstate(all="ignore"):
            value = random.choice(FLOATS if array.dtype.kind == "f" else INTS)
            return np.full_like(array, np.array(value).astype(array.dtype))
    return array


def mutated_model(random: Random, arrays: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the arrays with a change of this one, and sometimes of another."""
    changed = dict(arrays)
    for change in range(random.choice((1, 1, 1, 2))):
        if change:
            key = random.choice(list(changed))
        kind = random.random()
        if kind < 0.05:
            del changed[key]
        elif kind < 0.1:
            changed[key] = changed[random.choice(list(changed))]
        elif key in ("header", "names", "labels"):
            value = None
            with suppress(ValueError):  # if it was exchanged for another array
                value = json.loads(changed[key].tobytes())
            text = json.dumps(mutated_json(random, value)).encode()
            changed[key] = np.frombuffer(text, np.uint8)
        else:
            changed[key] = mutated_array(random, changed[key])
        if not changed:
            break
    return changed


@pytest.fixture
def no_hang() -> Iterator[None]:
    """Kill the process with a traceback if a test hangs, also within a kernel."""
    faulthandler.dump_traceback_later(1200 + MUTATIONS, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def use_model(random: Random, model: Any) -> None:
    """Predict, learn, save and load.

    What was learnt may be out of range, if the file said that it almost was.
    """
    ints = random.random() < 0.5
    for _ in range(3):
        x = example(random, ints)
        for use in (model.predict_one, getattr(model, "predict_proba_one", model.predict_one)):
            use(x)
        with suppress(BadExample):
            model.learn_one(x, label_of(model, random))
    xs = [example(random, ints) for _ in range(5)]
    with suppress(BadExample):
        model.learn_many(xs, [label_of(model, random) for _ in xs])
    assert len(model.predict_many(xs)) == 5
    assert len(model.weights) <= model.n_features_seen
    try:
        restored = decode(model._encode(packed=False), "m")
    except ModelFileError:
        with pytest.raises(AssertionError):
            model._state.check()
        return
    assert repr(restored.weights) == repr(model.weights)
    data = restored._encode(packed=False)
    assert decode(data, "m")._encode(packed=False) == data


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of interpreted kernels
def test_mutated_models(no_hang: None) -> None:
    random, outcomes = Random(2), {"rejected": 0, "used": 0}
    originals = {name: trained_arrays(name, make) for name, make in variants().items()}
    names = list(originals)
    n = MUTATIONS // 2
    for k in range(n):
        # Every learner, and of each learner one array after the other. Those of the learners start
        # at different places, because most have arrays in common.
        turn, name_no = divmod(k, len(names))
        arrays = originals[names[name_no]]
        key = list(arrays)[(turn + 5 * name_no) % len(arrays)]
        data = model_bytes(mutated_model(random, arrays, key))
        try:
            model = decode(data, "m")
        except ModelFileError as error:
            assert_one_sentence(error)
            outcomes["rejected"] += 1
            continue
        try:
            use_model(random, model)
        except Exception as error:
            error.add_note(f"mutation {k}: {names[name_no]}, {key}")
            raise
        outcomes["used"] += 1
    print("models:", outcomes)
    assert min(outcomes.values()) > n // 20


def packed_model(arrays: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return with_digest(file.getvalue())


def header_only(shape: str, descr: str = "<f8") -> bytes:
    """Return an archive with an array that claims a shape and has no elements."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n"
        head = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
        archive.writestr("header.npy", head)
    return with_digest(file.getvalue())


BOMBS: dict[str, Callable[[dict[str, Any]], bytes]] = {
    "unknown array": lambda a: packed_model({**a, "zzz": np.zeros(10**7, np.uint8)}),
    "unknown array of the rule": lambda a: packed_model({**a, "rule.y": np.zeros(10**6)}),
    "array of the rule": lambda a: packed_model({**a, "rule.z": np.zeros(10**6)}),
    "many columns": lambda a: packed_model({**a, "rule.z": np.zeros((len(a["rule.z"]), 10**5))}),
    "joints": lambda a: packed_model({**a, "joints": np.full(10**6, -1, np.int32)}),
    "names": lambda a: packed_model({**a, "names": np.full(10**7, ord(" "), np.uint8)}),
    "header": lambda a: packed_model({**a, "header": np.full(10**7, ord(" "), np.uint8)}),
    "labels": lambda a: packed_model({**a, "labels": np.full(10**7, ord(" "), np.uint8)}),
    "forgotten": lambda a: packed_model({**a, "forgotten": np.zeros(10**7, np.uint8)}),
    "shape": lambda a: header_only(f"({10**17},)"),
    "shape of no bytes": lambda a: header_only(f"({10**17},)", "|V0"),
    "nested names": lambda a: packed_model(
        {**a, "names": np.frombuffer(b"[" * 10**5 + b"]" * 10**5, np.uint8)}
    ),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_archive_bombs_are_rejected_before_they_are_unpacked(bomb: str) -> None:
    data = BOMBS[bomb](trained_arrays("paper", variants()["paper"]))
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="m was not written by streaml1"):
            decode(data, "m")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20 + 4 * len(data)


def test_names_that_pack_very_well_are_stored_unpacked() -> None:
    """A bound on how well names are packed must not reject what `save` writes."""
    model = streaml1.FTRLClassifier()
    model.learn_many([{f"{'a' * 3000}{k}": 1.0 for k in range(1000)}], [True])
    data = model._encode()
    assert len(data) > 3_000_000
    assert decode(data, "m").weights == model.weights


def test_labels_that_occur_twice_are_rejected() -> None:
    """They once sent the next new label out of the arrays of the rule."""
    arrays = trained_arrays("balls", variants()["balls"])
    labels = json.loads(arrays["labels"].tobytes())
    for changed in ([*labels, labels[0]], [*labels, "more"], labels[:-1], [None, *labels[1:]]):
        arrays["labels"] = np.frombuffer(json.dumps(changed).encode(), np.uint8)
        with pytest.raises(ModelFileError, match="m was not written by streaml1"):
            decode(model_bytes(arrays), "m")


@pytest.mark.parametrize("name", ["small", "p = 2"])
def test_moments_that_contradict_the_weights_are_rejected(name: str) -> None:
    arrays = trained_arrays(name, variants()[name])
    decode(model_bytes(arrays), "m")
    for key, k in (("moments", 0), ("moments", 2), ("norm", 6)):  # the seventh is the scale
        array = arrays[f"rule.{key}"].copy()
        array.reshape(-1).view(np.float64)[k] += 0.5
        if name == "p = 2":  # it uses neither
            decode(model_bytes({**arrays, f"rule.{key}": array}), "m")
            continue
        with pytest.raises(ModelFileError, match="m was not written by streaml1"):
            decode(model_bytes({**arrays, f"rule.{key}": array}), "m")


def test_moments_of_zero_weights() -> None:
    """Without a weight the scale is 0: a crafted one would be that of the next weights."""
    arrays = trained_arrays("small", lambda: streaml1.SMIDASClassifier(n_features=100, l1=1e6))
    assert decode(model_bytes(arrays), "m").n_nonzero == 0
    arrays["rule.norm"]["scale"] = 1.0
    with pytest.raises(ModelFileError, match="m was not written by streaml1"):
        decode(model_bytes(arrays), "m")


def test_many_hash_bits_cost_no_memory() -> None:
    """A rule of 2^28 slots is not scanned: only the slots in the file are looked at."""
    model = streaml1.FTRLClassifier(hash_bits=8, alpha=0.1)
    model.learn_one({"a": 1.0}, True)
    with np.load(io.BytesIO(model._encode()[HEAD.size :])) as archive:
        arrays = {key: archive[key] for key in archive.files}
    header = json.loads(arrays["header"].tobytes())
    header["names"]["bits"] = 28
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with pytest.raises(ModelFileError):  # the parameters have other bits
        decode(model_bytes(arrays), "m")
    header["params"]["hash_bits"] = 28
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    decode(model_bytes(arrays), "m")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 200_000  # in kB
