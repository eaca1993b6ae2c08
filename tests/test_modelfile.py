"""Model files: small, exact, and rejected with a one-line error if anything is wrong.

`python tests/test_modelfile.py --write` rewrites the models in `tests/fixtures`; do this only for a
new version of the format.
"""

from __future__ import annotations

import errno
import gc
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
import weakref
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import optim

import streaml1
from streaml1 import ElasticNetClassifier, ElasticNetRegressor, ModelFileError, load
from streaml1.models.archive import _is_packed_too_well
from streaml1.models.serialization import FORMAT

FIXTURES = Path(__file__).parent / "fixtures"
HEAD = struct.Struct("<8sIQ32s")


def load_error(path: Path) -> str:
    """Return the error message of loading `path`, which must be one line of ModelFileError."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ModelFileError) as error:
            load(path)
    message = str(error.value)
    assert message
    assert "\n" not in message
    assert str(path) in message
    return message


def rows(n: int, name_of: Callable[[int], Any], seed: int = 0) -> Iterator[tuple[Any, bool]]:
    chance = random.Random(seed)
    for _ in range(n):
        x = {name_of(chance.randrange(60)): chance.choice([1.0, -0.5, 2.25]) for _ in range(6)}
        yield x, chance.random() < 0.5


def trained(model: Any, name_of: Callable[[int], Any], n: int = 200, seed: int = 0) -> Any:
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
    "classifier": lambda: ElasticNetClassifier(l1=2e-3, l2=1e-2, lr=0.1),
    "auto": lambda: ElasticNetClassifier(l1=2e-3, l2=1e-2),
    "auto regressor": lambda: ElasticNetRegressor(l1=2e-3),
    "sgd": lambda: ElasticNetClassifier(
        l1=1e-3, l2=0.5, update="sgd", loss="hinge", lr=0.3, schedule="constant"
    ),
    "regressor": lambda: ElasticNetRegressor(l1=1e-3, loss="absolute", intercept_init=3.5, lr=0.1),
    "scheduler": lambda: ElasticNetRegressor(
        l1=1e-3, loss="absolute", lr=optim.schedulers.InverseScaling(0.3, 0.7)
    ),
    "unusual parameters": lambda: ElasticNetRegressor(
        l1=np.float32(0.1), l2=0, lr=1, intercept_lr=np.int64(0), clip_gradient=0.1 + 0.2
    ),
}


MODEL_NAMES = list(MODELS)


# Round trips


def typed_names(model: Any) -> set[tuple[Any, type]]:
    """Return feature names with their types; numpy scalars are read back as Python scalars."""
    plain = (n.item() if isinstance(n, np.generic) else n for n in model.weights)
    return {(name, type(name)) for name in plain}


def assert_same(a: Any, b: Any) -> None:
    assert a.weights == b.weights
    assert typed_names(a) == typed_names(b)
    assert a.intercept == b.intercept
    assert a.n_iterations == b.n_iterations
    assert a.n_nonzero == b.n_nonzero


@pytest.mark.parametrize(
    ("model", "naming"),
    [*(("classifier", naming) for naming in NAMES), *((model, "str") for model in MODEL_NAMES[1:])],
)
def test_saved_model_resumes_bit_identically(model: str, naming: str, tmp_path: Path) -> None:
    name_of, path = NAMES[naming], tmp_path / "model.streaml1"
    saved = trained(MODELS[model](), name_of)
    saved.save(path)
    loaded = load(str(path))
    assert type(loaded) is type(saved)
    assert loaded._get_params() == saved._get_params()
    assert_same(loaded, saved)
    loaded._state.check()
    for x, y in rows(150, lambda j: name_of(j) if j < 45 else ("new", j), seed=1):
        assert loaded.predict_one(x) == saved.predict_one(x)
        assert loaded._margin(x) == saved._margin(x)
        for m in (loaded, saved):
            m.learn_one(x, y)
    assert_same(loaded, saved)
    for m in (loaded, saved):
        m.mutate({"l1": 0.05} if m.lr == "auto" else {"l1": 0.05, "lr": 0.2})
        m.learn_many(*map(list, zip(*rows(50, name_of, seed=2), strict=True)))
    assert_same(loaded, saved)
    loaded._state.check()


@pytest.mark.parametrize("model", MODEL_NAMES)
def test_untrained_model_round_trip(model: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    saved = MODELS[model]()
    saved.save(path)
    loaded = load(path)
    assert_same(loaded, saved)
    for m in (loaded, saved):
        trained(m, NAMES["mixed"], 50)
    assert_same(loaded, saved)


def test_saving_is_deterministic(tmp_path: Path) -> None:
    model = trained(MODELS["classifier"](), NAMES["str"])
    first, second, third = (tmp_path / name for name in "abc")
    model.save(first)
    model.save(second)
    load(first).save(third)
    assert first.read_bytes() == second.read_bytes() == third.read_bytes()


def shrunk_model() -> Any:
    """Return a model with 131 non-zero weights out of 46,876 features."""
    model = ElasticNetClassifier(l1=0.01, lr=0.1, schedule="constant")
    names = [f"feature {k}" for k in range(46_876)]
    model.learn_many([dict.fromkeys(names[i::1000], 1.0) for i in range(1000)], [True] * 1000)
    while model.n_nonzero:
        model.learn_one({}, True, 0.0)
    chance = random.Random(3)
    model.learn_one({name: chance.random() + 0.5 for name in names[:131]}, True)
    return model


def test_zero_weights_are_not_stored(tmp_path: Path) -> None:
    model = shrunk_model()
    assert model.n_features_seen == 46_876
    assert model.n_nonzero == 131
    model.save(tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 10_000
    loaded = load(tmp_path / "m")
    assert loaded.weights == model.weights
    assert abs(loaded.n_features_seen - 46_876) < 0.05 * 46_876
    loaded.learn_one({"feature 5000": 1.0}, True)  # seen before
    assert abs(loaded.n_features_seen - 46_876) < 0.05 * 46_876
    loaded.learn_many([{f"new {k}": 1.0} for k in range(20_000)], [True] * 20_000)
    assert abs(loaded.n_features_seen - 66_876) < 0.05 * 66_876
    assert len(pickle.dumps(model)) < 15_000


def test_features_seen_are_at_least_the_weights(tmp_path: Path) -> None:
    n_clamped = 0
    for k in range(8):
        model = ElasticNetClassifier(l1=0.5, lr=0.1, schedule="constant")
        model.learn_many([{"gone": 1e-6}, {f"{k} {j}": 99.0 for j in range(3000)}], [True, True])
        model.save(tmp_path / "m")
        loaded = load(tmp_path / "m")
        assert loaded.n_nonzero == 3000 <= loaded.n_features_seen
        n_clamped += loaded.n_features_seen == 3000
    assert 0 < n_clamped < 8  # an estimate above the bound is not clamped


def test_features_seen_survive_repeated_loading(tmp_path: Path) -> None:
    model = ElasticNetClassifier(l1=0.5, lr=0.1, schedule="constant")
    for k in range(20):
        model.learn_many([{f"n{k} {j}": 1.0} for j in range(500)], [True] * 500)
        model.save(tmp_path / "m")
        model = load(tmp_path / "m")
        assert abs(model.n_features_seen - 500 * (k + 1)) < 0.05 * 500 * (k + 1)


def test_largest_int_slot(tmp_path: Path) -> None:
    model = ElasticNetClassifier(lr=0.1)
    model.learn_one({2**26 - 1: 1.0, 3: 1.0}, True)
    model.save(tmp_path / "m")
    assert (tmp_path / "m").stat().st_size < 3000
    loaded = load(tmp_path / "m")
    assert loaded.weights == {3: 0.05, 2**26 - 1: 0.05}


# Parameters that a file can and cannot store


@pytest.mark.parametrize(
    "scheduler",
    [
        optim.schedulers.Constant(0.2),
        optim.schedulers.InverseScaling(0.1 + 0.2, power=1 / 3),
        optim.schedulers.InverseScaling(learning_rate=1),
    ],
    ids=repr,
)
def test_river_schedulers_are_saved(scheduler: Any, tmp_path: Path) -> None:
    model = trained(ElasticNetClassifier(lr=scheduler), NAMES["str"], 50)
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert type(loaded.lr) is type(scheduler)
    assert loaded.lr._get_params() == scheduler._get_params()
    assert_same(trained(loaded, NAMES["str"]), trained(model, NAMES["str"]))


class CustomScheduler(optim.base.Scheduler):
    """A scheduler that is not part of river."""

    def get(self, t: int) -> float:
        return 0.1


class CustomName:
    """A feature name that a file cannot store."""


@pytest.mark.parametrize(
    ("lr", "expected"),
    [
        pytest.param(CustomScheduler(), "CustomScheduler"),
        pytest.param(optim.schedulers.Optimal(optim.losses.Log()), "Log"),
    ],
    ids=["custom", "with a loss"],
)
def test_unsupported_schedulers_are_rejected(lr: Any, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"as it was")
    with pytest.raises(ModelFileError, match="cannot be stored in a model file") as error:
        ElasticNetClassifier(lr=lr).save(path)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)
    assert path.read_bytes() == b"as it was"
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize(
    "name",
    [CustomName(), date(2000, 1, 1), frozenset({1}), ("a", CustomName()), 1j, range(3), CustomName],
    ids=lambda name: type(name).__name__,
)
def test_unsupported_names_are_rejected(name: Any, tmp_path: Path) -> None:
    path = tmp_path / "m"
    model = ElasticNetClassifier()
    model.save(path)
    before = path.read_bytes()
    model.learn_one({"a": 1.0, name: 1.0}, True)
    with pytest.raises(ModelFileError, match="cannot be stored in a model file") as error:
        model.save(path)
    assert "\n" not in str(error.value)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]
    assert load(path).n_iterations == 0
    assert model.predict_one({name: 1.0}) is True


def test_nan_names_are_distinct(tmp_path: Path) -> None:
    """NaN keys compare by identity, so a loaded NaN is a new name."""
    model = ElasticNetClassifier()
    model.learn_one({float("nan"): 1.0, "a": 1.0}, True)
    model.save(tmp_path / "m")
    assert len(load(tmp_path / "m").weights) == 2


# Rejected files


@pytest.fixture(scope="module")
def file_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "m"
    model = trained(MODELS["classifier"](), NAMES["str"])
    model.learn_many([{f"gone {k}": 1e-9} for k in range(50)], [True] * 50)
    model.save(path)
    return path.read_bytes()


def test_truncated_files(file_bytes: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m"
    lengths = [*range(1, 80), *range(80, len(file_bytes), 37), len(file_bytes) - 1]
    for length in lengths:
        path.write_bytes(file_bytes[:length])
        assert "is truncated" in load_error(path), length
    path.write_bytes(b"")
    assert "is not a streaml1 model" in load_error(path)


def test_modified_files(file_bytes: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m"
    positions = [*range(60), *range(60, len(file_bytes), 41), len(file_bytes) - 1]
    for pos in positions:
        for flip in (0x01, 0x80, 0xFF):
            data = bytearray(file_bytes)
            data[pos] ^= flip
            path.write_bytes(bytes(data))
            load_error(path)
    for tail in (b"\0", b"\n", file_bytes):
        path.write_bytes(file_bytes + tail)
        assert "was modified" in load_error(path)


def test_newer_format_versions(file_bytes: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m"
    body = file_bytes[HEAD.size :]
    for version in (FORMAT + 1, 2**32 - 1):
        path.write_bytes(with_header(body, version))
        message = load_error(path)
        assert f"has format {version}, but this version of streaml1 supports {FORMAT}" in message
        assert "upgrade" in message
    path.write_bytes(with_header(body, 0))
    load_error(path)


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
    "almost": b"streaml2" + bytes(100),
    "zeros": bytes(1000),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_other_file_types(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(FOREIGN[kind])
    assert "is not a streaml1 model" in load_error(path)


def test_unreadable_paths(tmp_path: Path) -> None:
    assert "no such file" in load_error(tmp_path / "missing")
    assert "is a directory" in load_error(tmp_path)
    assert "not a directory" in load_error(Path(__file__) / "m")
    if os.geteuid():  # root may read any file
        path = tmp_path / "m"
        path.write_bytes(b"x")
        path.chmod(0)
        assert "permission denied" in load_error(path)


@pytest.mark.parametrize("path", ["a\0b", "\ud800"], ids=ascii)
def test_invalid_paths(path: str, tmp_path: Path) -> None:
    with pytest.raises((ModelFileError, ValueError)):
        load(tmp_path / path)
    with pytest.raises((ModelFileError, ValueError)):
        ElasticNetClassifier().save(tmp_path / path)
    assert os.listdir(tmp_path) == []


# Crafted files: valid digest, invalid content


def with_header(body: bytes, version: int = FORMAT) -> bytes:
    digest = hashlib.sha256(struct.pack("<IQ", version, len(body)) + body).digest()
    return HEAD.pack(b"streaml1", version, len(body), digest) + body


class CraftedFile:
    """The contents of a file, to be modified."""

    def __init__(self, file_bytes: bytes) -> None:
        with np.load(io.BytesIO(file_bytes[HEAD.size :])) as archive:
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
        return with_header(file.getvalue())


def set_array(name: str, change: Any) -> Callable[[CraftedFile], Any]:
    def craft(c: CraftedFile) -> None:
        c.arrays[name] = change(c.arrays.get(name)) if callable(change) else change

    return craft


def drop_array(name: str) -> Callable[[CraftedFile], Any]:
    return lambda c: c.arrays.pop(name)


def set_fields(name: str, **fields: Any) -> Callable[[CraftedFile], Any]:
    def craft(c: CraftedFile) -> None:
        c.arrays[name] = c.arrays[name].copy()
        for key, value in fields.items():
            c.arrays[name][key] = value

    return craft


def set_header(name: str, value: Any) -> Callable[[CraftedFile], Any]:
    return lambda c: c.header.__setitem__(name, value)


def set_param(name: str, value: Any) -> Callable[[CraftedFile], Any]:
    return lambda c: c.header["params"].__setitem__(name, value)


def set_scheduler(kind: Any, params: Any) -> Callable[[CraftedFile], Any]:
    return set_param("lr", {"scheduler": kind, "params": params})


def set_first_name(value: Any) -> Callable[[CraftedFile], Any]:
    return lambda c: c.names.__setitem__(0, value)


def use_ints(slots_of: Callable[[int], Any]) -> Callable[[CraftedFile], Any]:
    def craft(c: CraftedFile) -> None:
        c.header["names"] = {"kind": "ints"}
        del c.arrays["names"], c.arrays["joints"]
        c.arrays["slots"] = slots_of(c.n)

    return craft


def replace_header(value: Any) -> Callable[[CraftedFile], Any]:
    return lambda c: setattr(c, "header", value)


def replace_names(value: Any) -> Callable[[CraftedFile], Any]:
    return lambda c: setattr(c, "names", value)


U32 = np.uint32
CRAFTED: dict[str, Callable[[CraftedFile], Any]] = {
    **{f"no {n}": drop_array(n) for n in ("header", "names", "online", "rule.u", "rule.clock")},
    "u NaN": set_array("rule.u", lambda u: np.where(np.arange(len(u)) == 1, np.nan, u)),
    "u infinite": set_array("rule.u", lambda u: u * np.inf),
    "u short": set_array("rule.u", lambda u: u[:-1]),
    "u long": set_array("rule.u", lambda u: np.append(u, 1.0)),
    "u int": set_array("rule.u", lambda u: u.astype(int)),
    "u float32": set_array("rule.u", lambda u: u.astype("f4")),
    "u big-endian": set_array("rule.u", lambda u: u.astype(">f8")),
    "u str": set_array("rule.u", lambda u: u.astype(str)),
    "u complex": set_array("rule.u", lambda u: u.astype(complex)),
    "u two dimensions": set_array("rule.u", lambda u: u[:, None]),
    "u no dimension": set_array("rule.u", np.array(1.0)),
    "u huge": set_array("rule.u", lambda u: u + 1e308),
    "ledger plain": set_array("rule.clock", np.ones(1)),
    "ledger empty": set_array("rule.clock", lambda c: c[:0]),
    "ledger double": set_array("rule.clock", lambda c: np.concatenate([c, c])),
    "ledger no dimension": set_array("rule.clock", lambda c: c.reshape(())),
    **{f"P {v}": set_fields("rule.clock", P=v) for v in (0.0, -1.0, np.nan, np.inf, 2.0, 1e-300)},
    **{f"A {v}": set_fields("rule.clock", A=v) for v in (0.0, -1.0, np.nan, np.inf, 1e300)},
    **{f"A_low {v}": set_fields("rule.clock", A_low=v) for v in (np.nan, np.inf, 1.0)},
    "sgd 7": set_fields("rule.clock", sgd=7),
    **{f"t {t}": set_fields("online", t=t) for t in (-1, -5, -(2**63))},
    **{f"intercept {b}": set_fields("online", b=b) for b in (np.nan, np.inf, 1e200)},
    "record plain": set_array("online", np.ones(1)),
    "record empty": set_array("online", lambda o: o[:0]),
    "record double": set_array("online", lambda o: np.concatenate([o, o])),
    "record two dimensions": set_array("online", lambda o: o.reshape(1, 1)),
    "record no dimension": set_array("online", lambda o: o.reshape(())),
    "slots float": use_ints(lambda n: np.arange(n) + 0.5),
    "slots int64": use_ints(lambda n: np.arange(n)),
    "slots negative": use_ints(lambda n: np.arange(n) - 3),
    "slots twice": use_ints(lambda n: np.zeros(n, U32)),
    "slots str": use_ints(lambda n: np.arange(n).astype(str)),
    "slots short": use_ints(lambda n: np.arange(n - 1, dtype=U32)),
    "slots long": use_ints(lambda n: np.arange(n + 1, dtype=U32)),
    "slots two dimensions": use_ints(lambda n: np.arange(n, dtype=U32)[:, None]),
    "slots bool": use_ints(lambda n: np.ones(n, bool)),
    "slots too large": use_ints(lambda n: np.arange(n, dtype=U32) + U32(2**26 - 1)),
    "slots largest": use_ints(lambda n: np.arange(n, dtype=U32) + U32(2**32 - 1 - n)),
    "model unknown": set_header("model", "Nope"),
    "model of another kind": set_header("model", "ElasticNetRegressor"),
    "model list": set_header("model", ["ElasticNetClassifier"]),
    "model none": set_header("model", None),
    "params list": set_header("params", [1]),
    "params none": set_header("params", None),
    "names declared as ints": set_header("names", {"kind": "ints"}),
    "header list": replace_header([1]),
    "header none": replace_header(None),
    "header empty": replace_header({}),
    "l1 negative": set_param("l1", -1),
    "l1 huge": set_param("l1", 10**400),
    "l1 infinite": set_param("l1", {"float": "inf"}),
    "l1 beyond floats": set_param("l1", {"float": "0x1p99999"}),
    "l1 no hex": set_param("l1", {"float": "zz"}),
    "l1 list in float": set_param("l1", {"float": [1]}),
    "param unknown": set_param("zzz", 1),
    "param of self": set_param("self", 1),
    "lr list": set_param("lr", [1]),
    "lr empty": set_param("lr", {}),
    "loss unknown": set_param("loss", "log"),
    "loss of regressors": set_param("loss", "squared"),
    "scheduler dunder": set_scheduler("__class__", {}),
    "scheduler module": set_scheduler("base", {}),
    "scheduler all": set_scheduler("__all__", {}),
    "scheduler builtin": set_scheduler("__builtins__", {}),
    "scheduler missing": set_scheduler("Nope", {}),
    "scheduler dotted": set_scheduler("base.Scheduler", {}),
    "scheduler abstract": set_scheduler("Scheduler", {}),
    "scheduler number": set_scheduler(1, {}),
    "scheduler param": set_scheduler("Constant", {"zz": 1}),
    "scheduler params list": set_scheduler("Constant", [1]),
    "scheduler no params": set_param("lr", {"scheduler": "Constant"}),
    "name list": set_first_name([1]),
    "name bare bool": set_first_name(True),
    "name bare float": set_first_name(1.5),
    "name float beyond": set_first_name({"float": "0x1p99999"}),
    "name no bytes": set_first_name({"bytes": "zz"}),
    "name of two kinds": set_first_name({"a": 1, "b": 2}),
    "name empty": set_first_name({}),
    "name of no kind": set_first_name({"zz": 1}),
    "name tuple of int": set_first_name({"tuple": 5}),
    "name tuple of none": set_first_name({"tuple": None}),
    "name twice": lambda c: c.names.__setitem__(0, c.names[1]),
    "names missing one": lambda c: c.names.pop(),
    "names one more": lambda c: c.names.append("one more"),
    "names none": replace_names(None),
    "names dict": replace_names({"a": 1}),
    "names number": replace_names(5),
    "names deep": set_first_name(eval("{'tuple':[" * 80 + "]}" * 80)),
    "sketch float": set_array("forgotten", np.ones(4096)),
    "sketch short": set_array("forgotten", np.ones(10, np.uint8)),
    "sketch out of range": set_array("forgotten", np.full(4096, 255, np.uint8)),
    "sketch str": set_array("forgotten", np.array(["a"] * 4096)),
    "sketch two dimensions": set_array("forgotten", np.ones((64, 64), np.uint8)),
    "extra array": set_array("zzz", np.ones(3)),
    "extra array of the rule": set_array("rule.zzz", np.ones(3)),
}
# These cases load the same model or another valid one.
HARMLESS = {
    "names deep",
    "sgd 7",  # the parameters override it
    "ledger no dimension",
    "record two dimensions",
    "record no dimension",
}


def test_crafting_without_a_change_keeps_the_model(file_bytes: bytes, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(file_bytes)
    (tmp_path / "b").write_bytes(CraftedFile(file_bytes).packed())
    assert pickle.dumps(load(tmp_path / "a")) == pickle.dumps(load(tmp_path / "b"))


@pytest.mark.parametrize("case", CRAFTED)
def test_crafted_files_are_rejected(case: str, file_bytes: bytes, tmp_path: Path) -> None:
    path, craft = tmp_path / "m", CraftedFile(file_bytes)
    CRAFTED[case](craft)
    path.write_bytes(craft.packed())
    if case in HARMLESS:
        load(path)._state.check()
    else:
        load_error(path)


BODIES = {
    "empty": b"",
    "text": b"hello",
    "pickle": pickle.dumps([1]),
    "npz of other things": saved_npz(),
    "invalid zip": b"PK\x03\x04" + bytes(50),
}


@pytest.mark.parametrize("body", BODIES)
def test_bodies_that_are_not_archives(body: str, tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(with_header(BODIES[body]))
    load_error(tmp_path / "m")


def test_pickled_objects_are_not_loaded(file_bytes: bytes, tmp_path: Path) -> None:
    witness = tmp_path / "witness"

    class Payload:
        def __reduce__(self) -> Any:
            return (Path.touch, (witness,))

    for name in ("online", "rule.u", "header", "names", "extra"):
        craft = CraftedFile(file_bytes)
        craft.arrays[name] = np.array([Payload()], object)
        file = io.BytesIO()
        np.savez(file, **craft.arrays)
        (tmp_path / "m").write_bytes(with_header(file.getvalue()))
        load_error(tmp_path / "m")
    assert not witness.exists()


def test_random_bytes_with_a_valid_digest(file_bytes: bytes, tmp_path: Path) -> None:
    """Loading either fails with ModelFileError or returns a working model."""
    path, chance = tmp_path / "m", random.Random(2)
    for _ in range(400):
        body = bytearray(file_bytes[HEAD.size :])
        for _ in range(chance.choice([1, 1, 2, 5])):
            body[chance.randrange(len(body))] = chance.randrange(256)
        path.write_bytes(with_header(bytes(body)))
        try:
            model = load(path)
        except ModelFileError:
            continue
        model._state.check()
        model.learn_one({"word 1": 1.0}, True)
        assert 0.0 <= model.predict_proba_one({"word 1": 1.0})[True] <= 1.0


def test_loading_leaves_the_garbage_collector_alone(file_bytes: bytes, tmp_path: Path) -> None:
    """Cycles of the application are collected while it loads models again and again."""

    class Cycle:
        def __init__(self) -> None:
            self.own = self

    path = tmp_path / "m"
    path.write_bytes(file_bytes)
    load(path)
    gc.collect()
    made: list[weakref.ref[Cycle]] = []
    for _ in range(200):
        made += [weakref.ref(Cycle()) for _ in range(50)]  # too few for a collection
        load(path)
    n_alive = sum(cycle() is not None for cycle in made)
    assert n_alive < len(made) // 2


# Writing


def test_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m"
    model = trained(MODELS["classifier"](), NAMES["str"], 50)
    model.save(path)
    before = path.read_bytes()
    model.learn_one({"more": 1.0}, True)

    def fail_with_full_disk(*args: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, function, fail_with_full_disk)
            with pytest.raises(ModelFileError, match=r"cannot be written \(no space left") as error:
                model.save(path)
        assert str(path) in str(error.value)
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == ["m"]
    model.save(path)
    assert load(path).n_iterations == 51


def test_interrupted_write_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"as it was")

    def interrupt(*args: Any) -> Any:
        raise KeyboardInterrupt

    for function in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, function, interrupt)
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


def test_symlinks_are_followed(tmp_path: Path) -> None:
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


def assert_cannot_be_written(path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be written") as error:
        ElasticNetClassifier().save(path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)


def test_special_files_are_rejected(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert_cannot_be_written(fifo)
    assert_cannot_be_written(Path("/dev/null"))
    assert_cannot_be_written(tmp_path)
    assert fifo.is_fifo()
    assert Path("/dev/null").is_char_device()
    assert os.listdir(tmp_path) == ["fifo"]


def test_missing_directory_is_a_one_line_error(tmp_path: Path) -> None:
    assert_cannot_be_written(tmp_path / "missing" / "m")
    assert_cannot_be_written(tmp_path / "missing" / "deeper" / "m")
    assert_cannot_be_written(Path(__file__) / "m")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="resolved without an error since 3.13")
def test_self_referencing_link_is_rejected(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert_cannot_be_written(loop)


def test_threads_saving_to_the_same_path(tmp_path: Path) -> None:
    path = tmp_path / "m"
    models = [trained(ElasticNetClassifier(), NAMES["str"], 10 * k + 1) for k in range(4)]

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


def make_fixtures() -> dict[str, Any]:
    def trained_and_shrunk(model: Any, name_of: Callable[[int], Any]) -> Any:
        trained(model, name_of, 400, seed=5)
        for _ in range(20):
            model.learn_one({}, True, 0.0)
        return model

    return {
        "classifier_str": trained_and_shrunk(
            ElasticNetClassifier(l1=5e-3, l2=1e-2), lambda j: f"word {j}"
        ),
        "classifier_int": trained_and_shrunk(
            ElasticNetClassifier(l1=5e-3, loss="smoothed_hinge", lr=0.5), lambda j: j * 31
        ),
        "regressor_mixed": trained_and_shrunk(
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


def describe(model: Any) -> dict[str, Any]:
    """Return parameters, weights, predictions and later predictions, with floats in hex."""
    name_of: Any = lambda j: f"word {j}" if "word 1" in model.weights else j * 31  # noqa: E731
    if isinstance(model, ElasticNetRegressor):
        name_of = NAMES["mixed"]
    params = {name: getattr(model, name) for name in model._get_params()}
    params["lr"] = params["lr"].get(7) if hasattr(params["lr"], "get") else params["lr"]
    description: dict[str, Any] = {
        "model": type(model).__name__,
        "params": params,
        "t": model.n_iterations,
        "seen": model.n_features_seen,
        "intercept": model.intercept.hex(),
        "weights": [[repr(name), w.hex()] for name, w in model.weights.items()],
        "margins": [model._margin(x).hex() for x, _ in rows(20, name_of, seed=6)],
    }
    trained(model, name_of, 100, seed=7)
    description["later"] = [model._margin(x).hex() for x, _ in rows(20, name_of, seed=6)]
    return description


@pytest.mark.parametrize("name", ["classifier_str", "classifier_int", "regressor_mixed"])
def test_fixtures_of_earlier_versions_load(name: str) -> None:
    expected = json.loads((FIXTURES / f"{name}.json").read_text())
    description = describe(load(FIXTURES / f"{name}.streaml1"))
    # Parameters added since are not in the fixture.
    description["params"] = {n: description["params"][n] for n in expected["params"]}
    for key, value in expected.items():
        assert description[key] == value, key
    assert (FIXTURES / f"{name}.streaml1").read_bytes()[:12] == b"streaml1" + struct.pack("<I", 1)


def write_fixtures() -> None:
    FIXTURES.mkdir(exist_ok=True)
    for name, model in make_fixtures().items():
        path = FIXTURES / f"{name}.streaml1"
        model.save(path)
        text = json.dumps(describe(load(path)), indent=1)
        (FIXTURES / f"{name}.json").write_text(text + "\n")


def test_fixtures_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "FIXTURES", tmp_path)
    write_fixtures()
    assert len(os.listdir(tmp_path)) == 6
    assert streaml1.load(tmp_path / "classifier_int.streaml1").n_nonzero > 5


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write_fixtures()
    else:
        sys.exit(subprocess.call([sys.executable, "-m", "pytest", __file__]))


@pytest.mark.parametrize("packed", [0, 1, 100, 2**20])
def test_names_may_pack_up_to_a_ratio(packed: int) -> None:
    """A megabyte is accepted whatever it packs to, and 64 times as much as any file holds."""
    limit = 2**20 + 64 * packed
    assert not _is_packed_too_well(limit, packed)
    assert _is_packed_too_well(limit + 1, packed)


def predictions(learner: Any, rows: list[dict[str, float]]) -> list[str]:
    """Return probabilities or values bit by bit."""
    if isinstance(learner.predict_one(rows[0]), bool):
        values = [learner.predict_proba_one(x)[True] for x in rows]
    else:
        values = [learner.predict_one(x) for x in rows]
    return [float(value).hex() for value in values]


@pytest.mark.parametrize("name", ["default_classifier", "default_regressor"])
def test_models_without_snapshots_are_read(name: str) -> None:
    """Files of `lr="auto"` from before the published model was chosen by snapshots."""
    expected = json.loads((FIXTURES / f"{name}.json").read_text())
    rows, model = expected["rows"], load(FIXTURES / f"{name}.streaml1")
    assert predictions(model, rows) == expected["next"]
    # The regressor published its current weights, since its stream drifted.
    if isinstance(model, ElasticNetClassifier):
        assert predictions(model.freeze(), rows) == expected["frozen"]
    for k in range(50):  # snapshots are taken from now on
        model.learn_one(rows[k % 10], k % 3 == 0)
    assert model._state.rule.clock[0]["stale_risk"] > 0.0
    restored = pickle.loads(pickle.dumps(model))
    assert predictions(restored, rows) == predictions(model, rows)


@pytest.mark.parametrize(
    "name",
    [
        *("clipped_classifier", "clipped_regressor", "uncentred_coins", "uncentred_ftrl"),
        *("first_order_classifier", "first_order_regressor"),
    ],
)
def test_models_of_earlier_versions_go_on_as_before(name: str) -> None:
    """Files from before features had origins, and large values were bent or targets centred.

    Or from before the mixture took Newton steps.
    """
    expected = json.loads((FIXTURES / f"{name}.json").read_text())
    rows, model = expected["rows"], load(FIXTURES / f"{name}.streaml1")
    assert predictions(model, rows) == expected["next"]
    assert predictions(model.freeze(), rows) == expected["frozen"]
    for x, y in expected["learnt"]:
        model.learn_one(x, y)
    assert predictions(model, rows) == expected["after"]
    new = type(model)(**{name: getattr(model, name) for name in ("l1",)})
    new.learn_one(rows[0], True)
    with pytest.raises(ValueError, match="model 2 and model 1 learn in different ways"):
        streaml1.merge([new, model], probe=(rows, [True] * len(rows)))


def test_softmax_models_without_origins_go_on_as_before() -> None:
    """A file from before large values were saturated and features had origins."""
    expected = json.loads((FIXTURES / "clipped_softmax.json").read_text())
    rows, model = expected["rows"], load(FIXTURES / "clipped_softmax.streaml1")
    assert [model.predict_proba_one(x) for x in rows] == expected["next"]
    assert [model.freeze().predict_proba_one(x) for x in rows] == expected["frozen"]
    for x, y in expected["learnt"]:
        model.learn_one(x, y)
    assert [model.predict_proba_one(x) for x in rows] == expected["after"]
