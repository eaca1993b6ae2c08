"""Models in files: small, exact, and refused in one sentence where anything is wrong.

`python tests/test_modelfile.py --write` writes the models of `tests/fixtures` anew; do it only
where a new version of the format is meant.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import pickle
import random
import stat
import struct
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import optim

import streaml1
from streaml1 import ElasticNetClassifier, ElasticNetRegressor, ModelFileError, load
from streaml1.models.serialization import FORMAT

FIXTURES = Path(__file__).parent / "fixtures"
HEAD = struct.Struct("<8sIQ32s")


def refusal(path: Path) -> str:
    """The sentence a file is refused with; anything but ModelFileError fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModelFileError) as refused:
            load(path)
    sentence = str(refused.value)
    assert sentence
    assert "\n" not in sentence
    assert str(path) in sentence
    return sentence


def rows(n: int, name_of: Callable[[int], Any], seed: int = 0) -> Iterator[tuple[Any, bool]]:
    chance = random.Random(seed)
    for _ in range(n):
        x = {name_of(chance.randrange(60)): chance.choice([1.0, -0.5, 2.25]) for _ in range(6)}
        yield x, chance.random() < 0.5


def learnt(model: Any, name_of: Callable[[int], Any], n: int = 200, seed: int = 0) -> Any:
    for x, y in rows(n, name_of, seed):
        model.learn_one(x, y)
    return model


NAMES: dict[str, Callable[[int], Any]] = {
    "int": lambda j: j,
    "large int": lambda j: j * 10**30 - 5,
    "int far apart": lambda j: 2**18 - 1 - j * 1000,
    "str": lambda j: f"word {j}",
    "strange str": lambda j: chr(j) + "\ud800\U0001f600\0\n\"'",
    "tuple": lambda j: ("a", j, ("b", None, 0.5, b"c")),
    "bool": lambda j: j % 2 == 0,
    "none": lambda j: None if j % 2 else "None",
    "bytes": lambda j: bytes([j, 255]),
    "float": lambda j: j / 7.0 - 1.0,
    "inf": lambda j: float("inf") if j % 2 else float("-inf"),
    "numpy": lambda j: np.int16(j) if j % 2 else np.float32(j / 3.0),
    "mixed": lambda j: [j, f"{j}", (j,), None, j / 3.0, b"1", j % 2 == 0][j % 7],
}

MODELS: dict[str, Callable[[], Any]] = {
    "classifier": lambda: ElasticNetClassifier(l1=2e-3, l2=1e-2),
    "sgd": lambda: ElasticNetClassifier(
        l1=1e-3, l2=0.5, update="sgd", loss="hinge", lr=0.3, schedule="constant"
    ),
    "regressor": lambda: ElasticNetRegressor(l1=1e-3, loss="absolute", intercept_init=3.5),
    "scheduler": lambda: ElasticNetRegressor(
        l1=1e-3, loss="absolute", lr=optim.schedulers.InverseScaling(0.3, 0.7)
    ),
    "odd parameters": lambda: ElasticNetRegressor(
        l1=np.float32(0.1), l2=0, lr=1, intercept_lr=np.int64(0), clip_gradient=0.1 + 0.2
    ),
}


MODEL_NAMES = list(MODELS)


# What is written is what is read


def kinds(model: Any) -> set[tuple[Any, type]]:
    """Names with their types; numpy's come back as Python's."""
    plain = (n.item() if isinstance(n, np.generic) else n for n in model.weights)
    return {(name, type(name)) for name in plain}


def assert_same(a: Any, b: Any) -> None:
    assert a.weights == b.weights
    assert kinds(a) == kinds(b)
    assert a.intercept == b.intercept
    assert a.n_iterations == b.n_iterations
    assert a.n_nonzero == b.n_nonzero


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("model", MODEL_NAMES)
def test_a_saved_model_resumes_bit_for_bit(model: str, names: str, tmp_path: Path) -> None:
    name_of, path = NAMES[names], tmp_path / "model.streaml1"
    saved = learnt(MODELS[model](), name_of)
    saved.save(path)
    read = load(str(path))
    assert type(read) is type(saved)
    assert read._get_params() == saved._get_params()
    assert_same(read, saved)
    read._engine.check()
    for x, y in rows(150, lambda j: name_of(j) if j < 45 else ("new", j), seed=1):
        assert read.predict_one(x) == saved.predict_one(x)
        assert read._margin(x) == saved._margin(x)
        for m in (read, saved):
            m.learn_one(x, y)
    assert_same(read, saved)
    for m in (read, saved):
        m.mutate({"l1": 0.05, "lr": 0.2})
        m.learn_many(*map(list, zip(*rows(50, name_of, seed=2), strict=True)))
    assert_same(read, saved)
    read._engine.check()


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_a_model_that_learnt_nothing(model: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    saved = MODELS[model]()
    saved.save(path)
    read = load(path)
    assert_same(read, saved)
    for m in (read, saved):
        learnt(m, NAMES["mixed"], 50)
    assert_same(read, saved)


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    model = learnt(MODELS["classifier"](), NAMES["str"])
    first, second, third = (tmp_path / name for name in "abc")
    model.save(first)
    model.save(second)
    load(first).save(third)
    assert first.read_bytes() == second.read_bytes() == third.read_bytes()


def shrunk_model() -> Any:
    """131 weights that are not zero of 46,876 features."""
    model = ElasticNetClassifier(l1=0.01, schedule="constant")
    names = [f"feature {k}" for k in range(46_876)]
    model.learn_many([dict.fromkeys(names[i::1000], 1.0) for i in range(1000)], [True] * 1000)
    while model.n_nonzero:
        model.learn_one({}, True, 0.0)
    chance = random.Random(3)
    model.learn_one({name: chance.random() + 0.5 for name in names[:131]}, True)
    return model


def test_zeros_are_left_out(tmp_path: Path) -> None:
    model = shrunk_model()
    assert model.n_features_seen == 46_876
    assert model.n_nonzero == 131
    model.save(tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 10_000
    read = load(tmp_path / "m")
    assert read.weights == model.weights
    assert abs(read.n_features_seen - 46_876) < 0.05 * 46_876
    read.learn_one({"feature 5000": 1.0}, True)  # seen before
    assert abs(read.n_features_seen - 46_876) < 0.05 * 46_876
    read.learn_many([{f"new {k}": 1.0} for k in range(20_000)], [True] * 20_000)
    assert abs(read.n_features_seen - 66_876) < 0.05 * 66_876
    assert len(pickle.dumps(model)) < 15_000


def test_features_seen_are_never_fewer_than_weights(tmp_path: Path) -> None:
    below = 0
    for k in range(8):
        model = ElasticNetClassifier(l1=0.5, schedule="constant")
        model.learn_many([{"gone": 1e-6}, {f"{k} {j}": 99.0 for j in range(3000)}], [True, True])
        model.save(tmp_path / "m")
        read = load(tmp_path / "m")
        assert read.n_nonzero == 3000 <= read.n_features_seen
        below += read.n_features_seen == 3000
    assert 0 < below < 8  # an estimate from above stays one


def test_features_seen_after_loading_many_times(tmp_path: Path) -> None:
    model = ElasticNetClassifier(l1=0.5, schedule="constant")
    for k in range(20):
        model.learn_many([{f"n{k} {j}": 1.0} for j in range(500)], [True] * 500)
        model.save(tmp_path / "m")
        model = load(tmp_path / "m")
        assert abs(model.n_features_seen - 500 * (k + 1)) < 0.05 * 500 * (k + 1)


def test_the_largest_int_that_is_a_slot(tmp_path: Path) -> None:
    model = ElasticNetClassifier()
    model.learn_one({2**26 - 1: 1.0, 3: 1.0}, True)
    model.save(tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 3000
    read = load(tmp_path / "m")
    assert read.weights == {3: 0.05, 2**26 - 1: 0.05}


# Parameters that a file can hold


@pytest.mark.parametrize(
    "scheduler",
    [
        optim.schedulers.Constant(0.2),
        optim.schedulers.InverseScaling(0.1 + 0.2, power=1 / 3),
        optim.schedulers.InverseScaling(learning_rate=1),
    ],
    ids=repr,
)
def test_rivers_schedulers_are_kept(scheduler: Any, tmp_path: Path) -> None:
    model = learnt(ElasticNetClassifier(lr=scheduler), NAMES["str"], 50)
    model.save(tmp_path / "m")
    read = load(tmp_path / "m")
    assert type(read.lr) is type(scheduler)
    assert read.lr._get_params() == scheduler._get_params()
    assert_same(learnt(read, NAMES["str"]), learnt(model, NAMES["str"]))


class Mine(optim.base.Scheduler):
    """A scheduler that is not river's."""

    def get(self, t: int) -> float:
        return 0.1


class MyName:
    """A name that a file cannot hold."""


@pytest.mark.parametrize(
    ("lr", "told"),
    [
        pytest.param(Mine(), "Mine"),
        pytest.param(optim.schedulers.Optimal(optim.losses.Log()), "Log"),
    ],
    ids=["own", "with a loss"],
)
def test_schedulers_that_a_file_cannot_hold(lr: Any, told: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"as it was")
    with pytest.raises(ModelFileError, match="cannot be stored in a model file") as refused:
        ElasticNetClassifier(lr=lr).save(path)
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == b"as it was"
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize(
    "name",
    [MyName(), date(2000, 1, 1), frozenset({1}), ("a", MyName()), 1j, range(3), MyName],
    ids=lambda name: type(name).__name__,
)
def test_names_that_a_file_cannot_hold(name: Any, tmp_path: Path) -> None:
    path = tmp_path / "m"
    model = ElasticNetClassifier()
    model.save(path)
    before = path.read_bytes()
    model.learn_one({"a": 1.0, name: 1.0}, True)
    with pytest.raises(ModelFileError, match="cannot be stored in a model file") as refused:
        model.save(path)
    assert "\n" not in str(refused.value)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]
    assert load(path).n_iterations == 0
    assert model.predict_one({name: 1.0}) is True


def test_a_name_that_is_not_a_number(tmp_path: Path) -> None:
    """A NaN is a name only as itself: what comes back is another."""
    model = ElasticNetClassifier()
    model.learn_one({float("nan"): 1.0, "a": 1.0}, True)
    model.save(tmp_path / "m")
    assert len(load(tmp_path / "m").weights) == 2


# Files that are refused


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "m"
    model = learnt(MODELS["classifier"](), NAMES["str"])
    model.learn_many([{f"gone {k}": 1e-9} for k in range(50)], [True] * 50)
    model.save(path)
    return path.read_bytes()


def test_torn_files(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m"
    lengths = [*range(1, 80), *range(80, len(whole), 37), len(whole) - 1]
    for length in lengths:
        path.write_bytes(whole[:length])
        assert "is truncated" in refusal(path), length
    path.write_bytes(b"")
    assert "is not a streaml1 model" in refusal(path)


def test_altered_files(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m"
    places = [*range(60), *range(60, len(whole), 41), len(whole) - 1]
    for place in places:
        for flip in (0x01, 0x80, 0xFF):
            data = bytearray(whole)
            data[place] ^= flip
            path.write_bytes(bytes(data))
            refusal(path)
    for tail in (b"\0", b"\n", whole):
        path.write_bytes(whole + tail)
        assert "was modified" in refusal(path)


def test_newer_files(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m"
    body = whole[HEAD.size :]
    for version in (FORMAT + 1, 2**32 - 1):
        path.write_bytes(packed(body, version))
        sentence = refusal(path)
        assert f"has format {version}, but this version of streaml1 supports {FORMAT}" in sentence
        assert "upgrade" in sentence
    path.write_bytes(packed(body, 0))
    refusal(path)


def saved_npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, header=np.ones(3))
    return file.getvalue()


FOREIGN = {
    "empty": b"",
    "png": b"\x89PNG\r\n\x1a\n" + bytes(100),
    "pickle": pickle.dumps({"a": 1}),
    "pickle of a model": pickle.dumps(ElasticNetClassifier()),
    "npz": saved_npz(),
    "text": b"1 2:0.5\n",
    "nearly": b"streaml2" + bytes(100),
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_files(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(FOREIGN[kind])
    assert "is not a streaml1 model" in refusal(path)


def test_no_files(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path / "missing")
    assert "is a directory" in refusal(tmp_path)
    assert "not a directory" in refusal(Path(__file__) / "m")
    if os.geteuid():  # root reads everything
        path = tmp_path / "m"
        path.write_bytes(b"x")
        path.chmod(0)
        assert "permission denied" in refusal(path)


@pytest.mark.parametrize("path", ["a\0b", "\ud800"], ids=ascii)
def test_paths_that_are_none(path: str, tmp_path: Path) -> None:
    with pytest.raises((ModelFileError, ValueError)):
        load(tmp_path / path)
    with pytest.raises((ModelFileError, ValueError)):
        ElasticNetClassifier().save(tmp_path / path)
    assert os.listdir(tmp_path) == []


# Crafted: the digest is right, the content wrong


def packed(body: bytes, version: int = FORMAT) -> bytes:
    digest = hashlib.sha256(struct.pack("<IQ", version, len(body)) + body).digest()
    return HEAD.pack(b"streaml1", version, len(body), digest) + body


class Craft:
    """The parts of a file, to be changed."""

    def __init__(self, whole: bytes) -> None:
        with np.load(io.BytesIO(whole[HEAD.size :])) as archive:
            self.arrays = {name: archive[name] for name in archive.files}
        self.header = json.loads(self.arrays["header"].tobytes())
        self.names = json.loads(self.arrays["names"].tobytes())
        self.n = len(self.names)

    def packed(self) -> bytes:
        for name, value in (("header", self.header), ("names", self.names)):
            if name in self.arrays:
                self.arrays[name] = np.frombuffer(json.dumps(value).encode(), np.uint8)
        file = io.BytesIO()
        np.savez(file, **self.arrays)
        return packed(file.getvalue())


def array(name: str, change: Any) -> Callable[[Craft], Any]:
    def craft(c: Craft) -> None:
        c.arrays[name] = change(c.arrays.get(name)) if callable(change) else change

    return craft


def without(name: str) -> Callable[[Craft], Any]:
    return lambda c: c.arrays.pop(name)


def field(name: str, **fields: Any) -> Callable[[Craft], Any]:
    def craft(c: Craft) -> None:
        c.arrays[name] = c.arrays[name].copy()
        for key, value in fields.items():
            c.arrays[name][key] = value

    return craft


def head(name: str, value: Any) -> Callable[[Craft], Any]:
    return lambda c: c.header.__setitem__(name, value)


def param(name: str, value: Any) -> Callable[[Craft], Any]:
    return lambda c: c.header["params"].__setitem__(name, value)


def scheduler(kind: Any, params: Any) -> Callable[[Craft], Any]:
    return param("lr", {"scheduler": kind, "params": params})


def first_name(value: Any) -> Callable[[Craft], Any]:
    return lambda c: c.names.__setitem__(0, value)


def ints(slots_of: Callable[[int], Any]) -> Callable[[Craft], Any]:
    def craft(c: Craft) -> None:
        c.header["names"] = {"kind": "ints"}
        del c.arrays["names"], c.arrays["joints"]
        c.arrays["slots"] = slots_of(c.n)

    return craft


def whole_header(value: Any) -> Callable[[Craft], Any]:
    return lambda c: setattr(c, "header", value)


def all_names(value: Any) -> Callable[[Craft], Any]:
    return lambda c: setattr(c, "names", value)


U32 = np.uint32
CRAFTED: dict[str, Callable[[Craft], Any]] = {
    **{f"no {n}": without(n) for n in ("header", "names", "online", "rule.u", "rule.clock")},
    "u NaN": array("rule.u", lambda u: np.where(np.arange(len(u)) == 1, np.nan, u)),
    "u infinite": array("rule.u", lambda u: u * np.inf),
    "u short": array("rule.u", lambda u: u[:-1]),
    "u long": array("rule.u", lambda u: np.append(u, 1.0)),
    "u int": array("rule.u", lambda u: u.astype(int)),
    "u float32": array("rule.u", lambda u: u.astype("f4")),
    "u big-endian": array("rule.u", lambda u: u.astype(">f8")),
    "u str": array("rule.u", lambda u: u.astype(str)),
    "u complex": array("rule.u", lambda u: u.astype(complex)),
    "u two dimensions": array("rule.u", lambda u: u[:, None]),
    "u no dimension": array("rule.u", np.array(1.0)),
    "u huge": array("rule.u", lambda u: u + 1e308),
    "ledger plain": array("rule.clock", np.ones(1)),
    "ledger empty": array("rule.clock", lambda c: c[:0]),
    "ledger double": array("rule.clock", lambda c: np.concatenate([c, c])),
    "ledger no dimension": array("rule.clock", lambda c: c.reshape(())),
    **{f"P {v}": field("rule.clock", P=v) for v in (0.0, -1.0, np.nan, np.inf, 2.0, 1e-300)},
    **{f"A {v}": field("rule.clock", A=v) for v in (0.0, -1.0, np.nan, np.inf, 1e300)},
    **{f"A_low {v}": field("rule.clock", A_low=v) for v in (np.nan, np.inf, 1.0)},
    "sgd 7": field("rule.clock", sgd=7),
    **{f"t {t}": field("online", t=t) for t in (-1, -5, -(2**63))},
    **{f"intercept {b}": field("online", b=b) for b in (np.nan, np.inf, 1e200)},
    "record plain": array("online", np.ones(1)),
    "record empty": array("online", lambda o: o[:0]),
    "record double": array("online", lambda o: np.concatenate([o, o])),
    "record two dimensions": array("online", lambda o: o.reshape(1, 1)),
    "record no dimension": array("online", lambda o: o.reshape(())),
    "slots float": ints(lambda n: np.arange(n) + 0.5),
    "slots int64": ints(lambda n: np.arange(n)),
    "slots negative": ints(lambda n: np.arange(n) - 3),
    "slots twice": ints(lambda n: np.zeros(n, U32)),
    "slots str": ints(lambda n: np.arange(n).astype(str)),
    "slots short": ints(lambda n: np.arange(n - 1, dtype=U32)),
    "slots long": ints(lambda n: np.arange(n + 1, dtype=U32)),
    "slots two dimensions": ints(lambda n: np.arange(n, dtype=U32)[:, None]),
    "slots bool": ints(lambda n: np.ones(n, bool)),
    "slots too large": ints(lambda n: np.arange(n, dtype=U32) + U32(2**26 - 1)),
    "slots largest": ints(lambda n: np.arange(n, dtype=U32) + U32(2**32 - 1 - n)),
    "model unknown": head("model", "Nope"),
    "model of another kind": head("model", "ElasticNetRegressor"),
    "model list": head("model", ["ElasticNetClassifier"]),
    "model none": head("model", None),
    "params list": head("params", [1]),
    "params none": head("params", None),
    "ints said of names": head("names", {"kind": "ints"}),
    "header list": whole_header([1]),
    "header none": whole_header(None),
    "header empty": whole_header({}),
    "l1 negative": param("l1", -1),
    "l1 huge": param("l1", 10**400),
    "l1 infinite": param("l1", {"float": "inf"}),
    "l1 beyond floats": param("l1", {"float": "0x1p99999"}),
    "l1 no hex": param("l1", {"float": "zz"}),
    "l1 list in float": param("l1", {"float": [1]}),
    "param unknown": param("zzz", 1),
    "param of self": param("self", 1),
    "lr list": param("lr", [1]),
    "lr empty": param("lr", {}),
    "loss unknown": param("loss", "log"),
    "loss of regressors": param("loss", "squared"),
    "scheduler dunder": scheduler("__class__", {}),
    "scheduler module": scheduler("base", {}),
    "scheduler all": scheduler("__all__", {}),
    "scheduler builtin": scheduler("__builtins__", {}),
    "scheduler missing": scheduler("Nope", {}),
    "scheduler dotted": scheduler("base.Scheduler", {}),
    "scheduler abstract": scheduler("Scheduler", {}),
    "scheduler number": scheduler(1, {}),
    "scheduler param": scheduler("Constant", {"zz": 1}),
    "scheduler params list": scheduler("Constant", [1]),
    "scheduler no params": param("lr", {"scheduler": "Constant"}),
    "name list": first_name([1]),
    "name bare bool": first_name(True),
    "name bare float": first_name(1.5),
    "name float beyond": first_name({"float": "0x1p99999"}),
    "name no bytes": first_name({"bytes": "zz"}),
    "name of two kinds": first_name({"a": 1, "b": 2}),
    "name empty": first_name({}),
    "name of no kind": first_name({"zz": 1}),
    "name tuple of int": first_name({"tuple": 5}),
    "name tuple of none": first_name({"tuple": None}),
    "name twice": lambda c: c.names.__setitem__(0, c.names[1]),
    "names missing one": lambda c: c.names.pop(),
    "names one more": lambda c: c.names.append("one more"),
    "names none": all_names(None),
    "names dict": all_names({"a": 1}),
    "names number": all_names(5),
    "names deep": first_name(eval("{'tuple':[" * 80 + "]}" * 80)),
    "sketch float": array("forgotten", np.ones(4096)),
    "sketch short": array("forgotten", np.ones(10, np.uint8)),
    "sketch out of range": array("forgotten", np.full(4096, 255, np.uint8)),
    "sketch str": array("forgotten", np.array(["a"] * 4096)),
    "sketch two dimensions": array("forgotten", np.ones((64, 64), np.uint8)),
    "array too many": array("zzz", np.ones(3)),
    "array of the rule too many": array("rule.zzz", np.ones(3)),
}
# What is no harm: the same model, or another whole one.
HARMLESS = {
    "names deep",
    "sgd 7",  # the parameters say it again
    "ledger no dimension",
    "record two dimensions",
    "record no dimension",
}


# What is loaded that should be refused, or is said of another thing.
def cases() -> list[str]:
    return list(CRAFTED)


def test_crafting_changes_nothing_else(whole: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(whole)
    (tmp_path / "b").write_bytes(Craft(whole).packed())
    assert pickle.dumps(load(tmp_path / "a")) == pickle.dumps(load(tmp_path / "b"))


@pytest.mark.parametrize("case", cases())
def test_crafted_files(case: str, whole: bytes, tmp_path: Path) -> None:
    path, craft = tmp_path / "m", Craft(whole)
    CRAFTED[case](craft)
    path.write_bytes(craft.packed())
    if case in HARMLESS:
        load(path)._engine.check()
    else:
        refusal(path)


BODIES = {
    "empty": b"",
    "text": b"hello",
    "pickle": pickle.dumps([1]),
    "npz of other things": saved_npz(),
    "zip that is none": b"PK\x03\x04" + bytes(50),
}


@pytest.mark.parametrize("body", BODIES)
def test_bodies_that_are_no_archive(body: str, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(packed(BODIES[body]))
    refusal(tmp_path / "m")


def test_objects_in_an_archive_are_not_unpickled(whole: bytes, tmp_path: Path) -> None:
    witness = tmp_path / "witness"

    class Harm:
        def __reduce__(self) -> Any:
            return (Path.touch, (witness,))

    for name in ("online", "rule.u", "header", "names", "extra"):
        craft = Craft(whole)
        craft.arrays[name] = np.array([Harm()], object)
        file = io.BytesIO()
        np.savez(file, **craft.arrays)
        (tmp_path / "m").write_bytes(packed(file.getvalue()))
        refusal(tmp_path / "m")
    assert not witness.exists()


def test_random_bytes_with_a_right_digest(whole: bytes, tmp_path: Path) -> None:
    """Loaded or refused in a sentence, and what is loaded works."""
    path, chance = tmp_path / "m", random.Random(2)
    for _ in range(400):
        body = bytearray(whole[HEAD.size :])
        for _ in range(chance.choice([1, 1, 2, 5])):
            body[chance.randrange(len(body))] = chance.randrange(256)
        path.write_bytes(packed(bytes(body)))
        try:
            model = load(path)
        except ModelFileError:
            continue
        model._engine.check()
        model.learn_one({"word 1": 1.0}, True)
        assert 0.0 <= model.predict_proba_one({"word 1": 1.0})[True] <= 1.0


# Writing


def test_a_failing_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m"
    model = learnt(MODELS["classifier"](), NAMES["str"], 50)
    model.save(path)
    before = path.read_bytes()
    model.learn_one({"more": 1.0}, True)

    def full(*args: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, function, full)
            with pytest.raises(
                ModelFileError, match=r"cannot be written \(no space left"
            ) as refused:
                model.save(path)
        assert str(path) in str(refused.value)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["m"]
    model.save(path)
    assert load(path).n_iterations == 51


def test_an_interrupt_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"as it was")

    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, function, interrupted)
            with pytest.raises(KeyboardInterrupt):
                ElasticNetClassifier().save(path)
        assert path.read_bytes() == b"as it was"
        assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_permissions_follow_the_umask(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        ElasticNetClassifier().save(tmp_path / "m")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o666 & ~umask


def test_links_go_on_pointing(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    target, link = tmp_path / "far" / "model", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to("far/model")
    ElasticNetClassifier().save(link)
    assert link.is_symlink()
    assert load(target).n_iterations == load(link).n_iterations == 0
    dangling = tmp_path / "dangling"
    dangling.symlink_to("far/other")
    ElasticNetClassifier().save(dangling)
    assert dangling.is_symlink()
    assert (tmp_path / "far" / "other").is_file()
    assert sorted(os.listdir(tmp_path / "far")) == ["model", "other"]


def cannot_be_written(path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be written") as refused:
        ElasticNetClassifier().save(path)
    assert "\n" not in str(refused.value)
    assert str(path) in str(refused.value)


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    cannot_be_written(fifo)
    cannot_be_written(Path("/dev/null"))
    cannot_be_written(tmp_path)
    assert fifo.is_fifo()
    assert Path("/dev/null").is_char_device()
    assert os.listdir(tmp_path) == ["fifo"]


def test_a_missing_folder_is_one_sentence(tmp_path: Path) -> None:
    cannot_be_written(tmp_path / "missing" / "m")
    cannot_be_written(tmp_path / "missing" / "deeper" / "m")
    cannot_be_written(Path(__file__) / "m")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="resolved without an error since 3.13")
def test_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    cannot_be_written(loop)


def test_threads_saving_to_one_path(tmp_path: Path) -> None:
    path = tmp_path / "m"
    models = [learnt(ElasticNetClassifier(), NAMES["str"], 10 * k + 1) for k in range(4)]

    def save(model: Any) -> None:
        for _ in range(10):
            model.save(path)
            load(path)

    threads = [threading.Thread(target=save, args=(model,)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert load(path).n_iterations in (1, 11, 21, 31)
    assert os.listdir(tmp_path) == ["m"]


# Files of earlier versions


def fixtures() -> dict[str, Any]:
    def shrunk(model: Any, name_of: Callable[[int], Any]) -> Any:
        learnt(model, name_of, 400, seed=5)
        for _ in range(20):
            model.learn_one({}, True, 0.0)
        return model

    return {
        "classifier_str": shrunk(ElasticNetClassifier(l1=5e-3, l2=1e-2), lambda j: f"word {j}"),
        "classifier_int": shrunk(
            ElasticNetClassifier(l1=5e-3, loss="smoothed_hinge", lr=0.5), lambda j: j * 31
        ),
        "regressor_mixed": shrunk(
            ElasticNetRegressor(
                l1=5e-3,
                l2=0.1,
                update="sgd",
                lr=optim.schedulers.InverseScaling(0.2, 0.6),
                intercept_init=0.25,
            ),
            NAMES["mixed"],
        ),
    }


def told(model: Any) -> dict[str, Any]:
    """What a model says, floats to the bit."""
    of: Any = lambda j: f"word {j}" if "word 1" in model.weights else j * 31  # noqa: E731
    if isinstance(model, ElasticNetRegressor):
        of = NAMES["mixed"]
    params = {name: getattr(model, name) for name in model._get_params()}
    params["lr"] = params["lr"].get(7) if hasattr(params["lr"], "get") else params["lr"]
    out: dict[str, Any] = {
        "model": type(model).__name__,
        "params": params,
        "t": model.n_iterations,
        "seen": model.n_features_seen,
        "intercept": model.intercept.hex(),
        "weights": [[repr(name), w.hex()] for name, w in model.weights.items()],
        "margins": [model._margin(x).hex() for x, _ in rows(20, of, seed=6)],
    }
    learnt(model, of, 100, seed=7)
    out["later"] = [model._margin(x).hex() for x, _ in rows(20, of, seed=6)]
    return out


@pytest.mark.parametrize(
    "name",
    [
        "classifier_str",
        "classifier_int",
        "regressor_mixed",
    ],
)
def test_fixtures_are_read(name: str) -> None:
    expected = json.loads((FIXTURES / f"{name}.json").read_text())
    found = told(load(FIXTURES / f"{name}.streaml1"))
    # Parameters that have come since the file was written are not in it.
    found["params"] = {n: found["params"][n] for n in expected["params"]}
    for what, value in expected.items():
        assert found[what] == value, what
    assert (FIXTURES / f"{name}.streaml1").read_bytes()[:12] == b"streaml1" + struct.pack("<I", 1)


def write_fixtures() -> None:
    FIXTURES.mkdir(exist_ok=True)
    for name, model in fixtures().items():
        path = FIXTURES / f"{name}.streaml1"
        model.save(path)
        text = json.dumps(told(load(path)), indent=1)
        (FIXTURES / f"{name}.json").write_text(text + "\n")


def test_the_fixtures_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "FIXTURES", tmp_path)
    write_fixtures()
    assert len(os.listdir(tmp_path)) == 6
    assert streaml1.load(tmp_path / "classifier_int.streaml1").n_nonzero > 5


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write_fixtures()
    else:
        sys.exit(subprocess.call([sys.executable, "-m", "pytest", __file__]))
