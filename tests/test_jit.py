"""Compilation: once for each kind of argument, kept on disk, dropped with the text it came from."""

from __future__ import annotations

import copy
import fcntl
import os
import pickle
import re
import shutil
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numba as nb
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import streaml1
from streaml1 import ElasticNetClassifier, ElasticNetRegressor
from streaml1.core import hashing, jit, rows, simd
from streaml1.core.jit import cache_dir
from streaml1.features.vocabulary import hash_keys as keys
from streaml1.features.vocabulary import hashed
from streaml1.optim import loop
from tests.conftest import WARM

ROOT = Path(__file__).parent.parent

compiled_only = pytest.mark.skipif(not jit.COMPILED, reason="NUMBA_DISABLE_JIT is set")


def test_the_digest_is_of_all_that_is_compiled() -> None:
    package = ROOT / "streaml1"
    told = {path for pattern in cache_dir.COMPILED_LAYERS for path in package.glob(pattern)}
    made = re.compile(r"^@(gil_kernel|kernel|inlined)$|row_kernel\(", re.MULTILINE)
    compiled = {path for path in package.rglob("*.py") if made.search(path.read_text())}
    assert len(compiled) > 50
    assert compiled <= told


# A second call does not compile


def kernels() -> Iterator[Any]:
    for module in (rows, hashing, keys, hashed, loop):
        for value in vars(module).values():
            if hasattr(value, "nopython_signatures"):
                yield value


def compilations() -> dict[str, int]:
    return {str(kernel): len(kernel.nopython_signatures) for kernel in kernels()}


def use(model: Any, folder: Path) -> None:
    """All that is done with a model, with arguments of every kind."""
    x = {"a": 1.0, "b": 2, "c": True, "d": np.float64(0.5), "e": None}
    others: list[Any] = [x, {1: 1.0, 2: 3}, OrderedDict(x), {("t", 1): np.float32(2.0)}, {}]
    for example in others:
        model.learn_one(example, True)
        model.learn_one(example, 0, 2)
        model.learn_one(example, np.bool_(True), np.float32(0.5))
        model.predict_one(example)
        if hasattr(model, "predict_proba_one"):
            model.predict_proba_one(example)
    dense = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    matrices: list[Any] = [csr_matrix(dense), csr_matrix(dense.astype("f4")), dense]
    matrices += [csr_matrix(dense)[::-1], csr_matrix((2, 3)), csr_matrix(dense.astype(int))]
    wide = csr_matrix(dense)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    broken = csr_matrix(dense)
    broken.indices = broken.indices[::-1].copy()
    for X in [*matrices, wide, pd.DataFrame(dense), [x, {}], []]:
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        for y in ([True, False][:n], np.array([1, 0])[:n], np.array([1.0, 0.0], "f4")[:n]):
            model.learn_many(X, y)
            model.progressive_many(X, y, np.ones(n, "f4"))
            model.predict_many(X)
    read_only = csr_matrix(dense)
    read_only.data.flags.writeable = False
    model.learn_many(read_only, [True, False])
    model.predict_many(read_only)
    model.mutate({"l1": 1, "lr": np.float32(0.5)})
    model.learn_one({f"n{j}": 1.0 for j in range(3000)}, True)
    model.learn_one({"rebased": 1.0}, True)
    model.save(folder / "m")
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model.clone()):
        other.learn_one(x, True)
        other.learn_many(matrices[0], [True, False])
        other.predict_many(matrices[0])
        other.predict_one(x)
    read = streaml1.load(folder / "m")
    for example in others:
        read.learn_one(example, True)
        read.predict_one(example)
    read.learn_many(matrices[0], [True, False])
    read.predict_many(matrices[0])


@compiled_only
def test_a_second_call_does_not_compile(tmp_path: Path) -> None:
    use(ElasticNetClassifier(l1=1e-3), tmp_path)
    before = compilations()
    assert len(before) > 8
    use(ElasticNetClassifier(l1=1, l2=np.float32(0.5), update="sgd", loss="hinge"), tmp_path)
    use(ElasticNetRegressor(lr=1, schedule="constant", loss="absolute"), tmp_path)
    use(ElasticNetRegressor(l2=0.1, intercept_init=1, clip_gradient=5), tmp_path)
    assert compilations() == before


@compiled_only
def test_a_call_is_compiled_for_one_kind_of_argument(python: Callable[..., str]) -> None:
    """In a process of its own: what other tests hand to kernels does not count."""
    code = """
import tempfile
from pathlib import Path
from streaml1 import ElasticNetClassifier
from tests.test_jit import compilations, use
use(ElasticNetClassifier(l1=1e-3), Path(tempfile.mkdtemp()))
counts = compilations()
print({name: n for name, n in counts.items() if n > 1})
"""
    several = eval(python("-c", code, **WARM))
    # looked at for the ids of matrices and of others, and for their length as it is given
    assert all(n <= 2 for n in several.values()), several


# The cache on disk


SMALL = """
import sys
import numpy as np
from streaml1 import ElasticNetClassifier
from streaml1.core import jit, rows
m = ElasticNetClassifier(intercept_init=0.3)
for k in range(3):
    told = m.predict_proba_one({"a": 1.0, "b": k})[True]
print(told.hex())
if jit.COMPILED:
    made = int("numba" in sys.modules)  # what is on disk needs no compiler
    rows.largest(np.ones(1))
    of = rows.largest.stats
    print(made, sum(of.cache_misses.values()), jit.is_cached(rows.largest))
"""


def copied_package(folder: Path) -> Path:
    """The package as if installed elsewhere, to be edited."""
    ignore = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    shutil.copytree(ROOT / "streaml1", folder / "streaml1", ignore=ignore)
    return folder


def run(package: Path, code: str = SMALL, **environment: str) -> list[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=package,
        env={**kept, "PYTHONPATH": str(package), **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    return done.stdout.split("\n")


def files(folder: Path) -> set[Path]:
    return {p for p in folder.rglob("*") if p.suffix in (".nbi", ".nbc", ".code")}


@compiled_only
@pytest.mark.slow
def test_the_cache_survives_a_process_and_an_upgrade_is_noticed(tmp_path: Path) -> None:
    package, cache = copied_package(tmp_path / "site"), tmp_path / "cache"
    first = run(package, NUMBA_CACHE_DIR=str(cache))
    assert first[1] == "1 1 True"
    kept = files(cache)
    assert {path.suffix for path in kept} == {".nbi", ".nbc", ".code"}
    second = run(package, NUMBA_CACHE_DIR=str(cache))
    assert second[0] == first[0]
    assert second[1] == "0 0 True", "compiled again"
    assert files(cache) == kept

    # losses.py is in a file of its own: numba alone would run the old code
    losses = package / "streaml1" / "optim" / "losses.py"
    text = losses.read_text()
    sigmoid = "return r if a >= 0.0 else e * r"
    assert sigmoid in text
    losses.write_text(text.replace(sigmoid, "return r * r"))
    upgraded = run(package, NUMBA_CACHE_DIR=str(cache))
    assert upgraded[0] != first[0], "the old machine code ran"
    fresh = run(package, NUMBA_DISABLE_JIT="1")
    assert upgraded[0] == fresh[0]
    assert not files(cache) & kept, "files of the old text stay for ever"
    assert files(cache)

    # what is not compiled is no reason to compile again
    (package / "streaml1" / "cli" / "program.py").write_text("# another command line\n")
    again = run(package, NUMBA_CACHE_DIR=str(cache))
    assert again[1] == "0 0 True"


@compiled_only
def test_the_cache_of_an_installed_package_is_beside_it(tmp_path: Path) -> None:
    package = copied_package(tmp_path / "site")
    assert run(package)[1] == "1 1 True"
    kept = files(package)
    assert {path.suffix for path in kept} == {".nbi", ".nbc", ".code"}
    # numba writes beside the module, object files go to the package's own folder.
    folders = {package / "streaml1" / part / "__pycache__" for part in (".", "core")}
    assert {path.parent for path in kept} == folders
    assert run(package)[1] == "0 0 True"


@compiled_only
def test_without_a_folder_that_can_be_written(tmp_path: Path) -> None:
    """Binds for root too: what should be a folder is a file."""
    package, blocked = copied_package(tmp_path / "site"), tmp_path / "file"
    blocked.write_text("no folder")
    for folder in [package / "streaml1", *(package / "streaml1").rglob("*/")]:
        if folder.is_dir():
            (folder / "__pycache__").write_text("no folder")
    out = run(package, HOME=str(blocked), XDG_CACHE_HOME=str(blocked), NUMBA_CACHE_DIR="")
    assert out[1] == "1 1 False"
    assert not files(tmp_path)
    expected = run(copied_package(tmp_path / "other"), NUMBA_DISABLE_JIT="1")
    assert out[0] == expected[0]


# Tells the names of what a process compiles.
TOLD = """
from streaml1.core.jit import object_cache as entries
keep = entries._keep
def told_and_kept(place, *args):
    print("made", place.name)
    keep(place, *args)
entries._keep = told_and_kept
"""


@compiled_only
@pytest.mark.slow
def test_processes_fill_a_cold_cache_together(tmp_path: Path) -> None:
    package, cache = copied_package(tmp_path / "site"), tmp_path / "cache"
    kept = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    environment = {**kept, "PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache)}
    started = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", TOLD + SMALL],
            cwd=package,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    ended = [process.communicate(timeout=300) for process in started]
    assert [err for _, err in ended] == [""] * 4
    assert [process.returncode for process in started] == [0] * 4
    lines = [out.splitlines() for out, _ in ended]
    made = [{line for line in told if line.startswith("made ")} for told in lines]
    # one compiles a kernel, the others wait for what it writes; the next may be another's
    assert sum(map(len, made)) == len(set().union(*made)) == len(list(cache.rglob("*.code"))) == 2
    assert len({told[-2] for told in lines}) == 1
    assert [told[-1].split()[0] == "1" for told in lines] == [bool(names) for names in made]
    assert sorted(told[-1].split()[1] for told in lines) == ["0", "0", "0", "1"]
    assert not list(cache.rglob("*.turn"))
    after = run(package, NUMBA_CACHE_DIR=str(cache))
    assert after[1] == "0 0 True"
    assert after[0] == lines[0][-2]


@compiled_only
def test_a_torn_mark_does_no_harm(tmp_path: Path) -> None:
    package, cache = copied_package(tmp_path / "site"), tmp_path / "cache"
    expected = run(package, NUMBA_CACHE_DIR=str(cache))[0]
    for mark in cache.rglob("kernels.digest"):
        mark.write_bytes(b"\xff\x00 no text")
    assert run(package, NUMBA_CACHE_DIR=str(cache))[0] == expected


@compiled_only
def test_who_stands_still_in_its_turn_is_not_waited_for(tmp_path: Path) -> None:
    package, folder = copied_package(tmp_path / "site"), tmp_path / "cache"
    expected = run(package, NUMBA_CACHE_DIR=str(folder))[0]
    with ExitStack() as held:
        for path in files(folder):
            path.unlink()
            turn = held.enter_context(path.with_suffix(".turn").open("wb"))
            fcntl.flock(turn, fcntl.LOCK_EX)
        hurry = "from streaml1.core.jit import cache_dir as disk\ndisk.TURN_SECONDS = 0.1\n"
        told = run(package, hurry + SMALL, NUMBA_CACHE_DIR=str(folder))
    assert told[:2] == [expected, "1 1 True"]


FORKED = """
import fcntl, os, signal
from streaml1.core import rows
kept = rows.largest._cache
assert kept._wait()
with open(kept._turn._place, "wb") as waits:
    child = os.fork()
    if not child:
        signal.pause()
    kept.end()
    try:
        fcntl.flock(waits, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
assert not os.path.exists(waits.name)
print("had")
"""


@compiled_only
def test_a_fork_does_not_keep_the_turn(python: Callable[..., str]) -> None:
    assert python("-c", FORKED) == "had\n"


# Interpreted


INTERPRETED = """
import tempfile
from pathlib import Path
import numpy as np, pandas as pd
from scipy.sparse import csr_matrix
import streaml1
from streaml1.core import jit; from streaml1.features import dict_reader as walk
assert not jit.COMPILED and not walk.AVAILABLE
for cls in (streaml1.ElasticNetClassifier, streaml1.ElasticNetRegressor):
    m = cls(l1=1e-3, l2=1e-2)
    for k in range(20):
        m.learn_one({"a": 1.0, f"b{k}": k, "shop": "fr", "none": None}, k % 2)
        m.learn_one({k: 1.0}, True, 0.5)
        m.predict_one({"a": 1.0, "new": 2.0})
    X = csr_matrix(np.array([[1.0, 0.0], [0.0, 2.0]]))
    for rows in (X, pd.DataFrame({"a": [1.0, 2.0]}), [{"a": 1.0}, {}]):
        m.learn_many(rows, [True, False])
        m.predict_many(rows)
    m.learn_one({f"n{j}": 1.0 for j in range(2000)}, True)
    try:
        m.learn_one({"new": 1.0, "b": float("nan")}, True)
    except streaml1.BadExample:
        pass
    else:
        raise SystemExit("not refused")
    m._engine.check()
    m.save(Path(tempfile.gettempdir()) / "interpreted.streaml1")
    r = streaml1.load(Path(tempfile.gettempdir()) / "interpreted.streaml1")
    assert r.weights == m.weights and len(m.weights) > 20
    assert m.freeze().predict_one({"a": 1.0}) in (True, False) or m.loss == "squared"
print("fine")
"""


def test_interpreted_from_end_to_end(python: Callable[..., str], tmp_path: Path) -> None:
    out = python("-W", "error", "-c", INTERPRETED, NUMBA_DISABLE_JIT="1", TMPDIR=str(tmp_path))
    assert out == "fine\n"
    assert not files(tmp_path)


@jit.inlined
def halved(v: Any) -> Any:
    return 0.5 * v


@compiled_only
def test_parts_of_kernels_are_no_machine_code_of_their_own() -> None:
    quarter = nb.njit(lambda v: halved(halved(v)))
    assert quarter(6.0) == 1.5
    [part] = halved.overloads.values()
    engine = part.library.codegen._engine
    assert not engine.is_symbol_defined(part.fndesc.llvm_func_name)
    assert halved(3.0) == 1.5  # is made for it
    assert halved(3) == 1.5
    assert len(halved.overloads) == 1 and len(halved.whole.overloads) == 2


def test_an_array_at_an_address() -> None:
    a = np.array([1.0, 2.0, 3.0])
    b = simd.array_at(np.uint64(a.ctypes.data), np.uint64(2), np.float64)
    b[1] = 5.0
    assert b.tolist() == [1.0, 5.0] and a.tolist() == [1.0, 5.0, 3.0]


def test_rules_at_addresses_are_for_compiled_code() -> None:
    with pytest.raises(NotImplementedError, match="compiled code only"):
        simd.rule_at(int, np.zeros(1), 0)
