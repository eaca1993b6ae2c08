"""Compilation: once per argument type, cached on disk, invalidated when the sources change."""

from __future__ import annotations

import copy
import fcntl
import itertools
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


def test_digest_covers_all_compiled_sources() -> None:
    package = ROOT / "streaml1"
    covered = {path for glob in cache_dir.COMPILED_SOURCES for path in package.glob(glob)}
    decorated = re.compile(r"^@(gil_kernel|kernel|inlined)$|bound_kernel\(", re.MULTILINE)
    compiled = {path for path in package.rglob("*.py") if decorated.search(path.read_text())}
    assert len(compiled) > 50
    assert compiled <= covered


# A second call does not compile


def kernels() -> Iterator[Any]:
    for module in (rows, hashing, keys, hashed, loop):
        for value in vars(module).values():
            if hasattr(value, "nopython_signatures"):
                yield value


def compilations() -> dict[str, int]:
    return {str(kernel): len(kernel.nopython_signatures) for kernel in kernels()}


def call_all_methods(model: Any, folder: Path) -> None:
    """Call all methods of a model with arguments of all kinds."""
    x = {"a": 1.0, "b": 2, "c": True, "d": np.float64(0.5), "e": None}
    examples: list[Any] = [x, {1: 1.0, 2: 3}, OrderedDict(x), {("t", 1): np.float32(2.0)}, {}]
    for example in examples:
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
    for duplicate in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model.clone()):
        duplicate.learn_one(x, True)
        duplicate.learn_many(matrices[0], [True, False])
        duplicate.predict_many(matrices[0])
        duplicate.predict_one(x)
    loaded = streaml1.load(folder / "m")
    for example in examples:
        loaded.learn_one(example, True)
        loaded.predict_one(example)
    loaded.learn_many(matrices[0], [True, False])
    loaded.predict_many(matrices[0])


@compiled_only
def test_second_call_does_not_compile(tmp_path: Path) -> None:
    compilations()  # builds the dispatchers, which would start without signatures later
    call_all_methods(ElasticNetClassifier(lr=0.1, l1=1e-3), tmp_path)
    before = compilations()
    assert len(before) > 8
    call_all_methods(
        ElasticNetClassifier(lr=0.1, l1=1, l2=np.float32(0.5), update="sgd", loss="hinge"), tmp_path
    )
    call_all_methods(ElasticNetRegressor(lr=1, schedule="constant", loss="absolute"), tmp_path)
    call_all_methods(
        ElasticNetRegressor(lr=0.1, l2=0.1, intercept_init=1, clip_gradient=5), tmp_path
    )
    assert compilations() == before


@compiled_only
def test_kernels_are_compiled_for_one_type_of_arguments(python: Callable[..., str]) -> None:
    """Use a new process, since other tests call kernels with further types."""
    code = """
import tempfile
from pathlib import Path
from streaml1 import ElasticNetClassifier
from tests.test_jit import call_all_methods, compilations
call_all_methods(ElasticNetClassifier(lr=0.1, l1=1e-3), Path(tempfile.mkdtemp()))
counts = compilations()
print({name: n for name, n in counts.items() if n > 1})
"""
    several = eval(python("-c", code, **WARM))
    # One kernel takes two types of ids and another one takes two types of lengths.
    assert all(n <= 2 for n in several.values()), several


# The cache on disk


PRINT_STATISTICS = """
if jit.COMPILED:
    has_compiled = int("numba" in sys.modules)  # cached kernels need no compiler
    rows.max_id(np.ones(1))
    stats = rows.max_id.stats
    print(has_compiled, sum(stats.cache_misses.values()), jit.is_cached(rows.max_id))
"""

# Three kernels that compile quickly, and one of numba: the cache treats all kernels alike.
SMALL = f"""
import sys
import numpy as np
from streaml1.core import hashing, jit, rows
from streaml1.features.vocabulary.probing import empty_entries
names = hashing.name_hashes([1, 2**40, -3]), hashing.name_hashes(["a", "site=news"])
print(*names[0].tolist(), *names[1].tolist(), *empty_entries(2)[:4].tolist())
{PRINT_STATISTICS}"""

PREDICT = f"""
import sys
import numpy as np
from streaml1 import ElasticNetClassifier
from streaml1.core import jit, rows
m = ElasticNetClassifier(lr=0.1, intercept_init=0.3)
for k in range(3):
    probability = m.predict_proba_one({{"a": 1.0, "b": k}})[True]
print(probability.hex())
{PRINT_STATISTICS}"""


def copied_package(folder: Path) -> Path:
    """Copy the package to another folder, to be edited."""
    ignore = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc")
    shutil.copytree(ROOT / "streaml1", folder / "streaml1", ignore=ignore)
    return folder


def run(package: Path, code: str = SMALL, **environment: str) -> list[str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=package,
        env={**inherited, "PYTHONPATH": str(package), **environment},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stderr == ""
    return result.stdout.split("\n")


def files(folder: Path) -> set[Path]:
    return {p for p in folder.rglob("*") if p.suffix in (".nbi", ".nbc", ".code")}


@pytest.fixture(scope="module")
def small_cache(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Return a directory of the machine code of `SMALL`, and what that prints."""
    cache = tmp_path_factory.mktemp("cache")
    return cache, run(ROOT, NUMBA_CACHE_DIR=str(cache))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip_bit(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[-9] ^= 1
    path.write_bytes(raw)


def replace_by_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").write_text("")


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGES: list[dict[str, list[Callable[[Path], Any]]]] = [
    {".nbi": [truncate], ".nbc": [flip_bit], ".code": [truncate, flip_bit, replace_by_directory]},
    {".nbi": [replace_by_directory], ".nbc": [truncate]},
    {".nbi": [empty], ".nbc": [empty]},
    {".nbi": [flip_bit], ".nbc": [replace_by_directory]},
]
"""Damages of the files with each suffix in turn. A kernel of numba has one `.nbi` and `.nbc`."""


@compiled_only
@pytest.mark.slow
@pytest.mark.parametrize("damages", DAMAGES, ids=["truncated", "directory", "empty", "bit"])
def test_damaged_cache_entries_are_compiled_again(
    small_cache: Any, damages: Any, tmp_path: Path
) -> None:
    original, expected = small_cache
    cache = tmp_path / "cache"
    shutil.copytree(original, cache)
    entries = files(cache)
    for suffix, kinds in damages.items():
        damaged = sorted(path for path in entries if path.suffix == suffix)
        for path, damage in zip(damaged, itertools.cycle(kinds), strict=False):
            damage(path)
    assert run(ROOT, NUMBA_CACHE_DIR=str(cache))[0] == expected[0]
    assert files(cache) == entries and all(path.is_file() for path in entries)
    assert run(ROOT, NUMBA_CACHE_DIR=str(cache))[1].split()[:2] == ["0", "0"], "nothing replaced"


UNWRITABLE = """
import tempfile
def no_file(**options):
    raise OSError("read-only file system")
tempfile.TemporaryFile = no_file  # how numba asks whether a directory is writable
"""


@compiled_only
def test_cache_in_a_read_only_directory_is_read(small_cache: Any) -> None:
    cache, expected = small_cache
    result = run(ROOT, UNWRITABLE + SMALL, NUMBA_CACHE_DIR=str(cache))
    assert result[0] == expected[0]
    assert result[1].split()[1:] == ["0", "True"]


@compiled_only
@pytest.mark.slow
def test_cache_that_cannot_be_written_is_no_cache(small_cache: Any, tmp_path: Path) -> None:
    """A limit on the size of files stands in for a full disk."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    result = subprocess.run(
        [sys.executable, "-c", limit + SMALL],
        env={**environment, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert result.stdout.split("\n")[0] == small_cache[1][0]
    assert result.stderr.count("machine code cannot be cached in") == result.stderr.count("\n") == 1
    assert "(file too large)" in result.stderr


@compiled_only
@pytest.mark.slow
def test_cache_persists_until_the_sources_change(tmp_path: Path) -> None:
    package, cache = copied_package(tmp_path / "site"), tmp_path / "cache"
    first = run(package, PREDICT, NUMBA_CACHE_DIR=str(cache))
    assert first[1] == "1 1 True"
    cached = files(cache)
    assert {path.suffix for path in cached} == {".nbi", ".nbc", ".code"}
    second = run(package, PREDICT, NUMBA_CACHE_DIR=str(cache))
    assert second[0] == first[0]
    assert second[1] == "0 0 True", "compiled again"
    assert files(cache) == cached

    # numba's own key of the loop's kernel does not cover losses.py, so it would run stale code.
    losses = package / "streaml1" / "optim" / "losses.py"
    text = losses.read_text()
    sigmoid = "return r if a >= 0.0 else e * r"
    assert sigmoid in text
    losses.write_text(text.replace(sigmoid, "return r * r"))
    upgraded = run(package, PREDICT, NUMBA_CACHE_DIR=str(cache))
    assert upgraded[0] != first[0], "stale machine code ran"
    fresh = run(package, PREDICT, NUMBA_DISABLE_JIT="1")
    assert upgraded[0] == fresh[0]
    assert not files(cache) & cached, "stale files are never removed"
    assert files(cache)

    # Changes of sources without compiled code do not invalidate the cache.
    (package / "streaml1" / "cli" / "program.py").write_text("# another command line\n")
    third = run(package, PREDICT, NUMBA_CACHE_DIR=str(cache))
    assert third[1] == "0 0 True"


@compiled_only
def test_cache_of_an_installed_package_is_in_its_directory(tmp_path: Path) -> None:
    package = copied_package(tmp_path / "site")
    assert run(package)[1] == "1 1 True"
    cached = files(package)
    assert {path.suffix for path in cached} == {".nbi", ".nbc", ".code"}
    # numba writes to the folder of the module, object files go to the package's own folder.
    folders = {package / "streaml1" / subpackage / "__pycache__" for subpackage in (".", "core")}
    assert {path.parent for path in cached} == folders
    assert run(package)[1] == "0 0 True"


@compiled_only
def test_no_writable_cache_directory(tmp_path: Path) -> None:
    """Put files in place of directories, since permissions do not restrict root."""
    package, blocked = copied_package(tmp_path / "site"), tmp_path / "file"
    blocked.write_text("not a folder")
    for folder in [package / "streaml1", *(package / "streaml1").rglob("*/")]:
        if folder.is_dir():
            (folder / "__pycache__").write_text("not a folder")
    out = run(package, HOME=str(blocked), XDG_CACHE_HOME=str(blocked), NUMBA_CACHE_DIR="")
    assert out[1] == "1 1 False"
    assert not files(tmp_path)
    expected = run(copied_package(tmp_path / "other"), NUMBA_DISABLE_JIT="1")
    assert out[0] == expected[0]


# Prints the names of the object files a process writes.
PRINT_WRITES = """
from streaml1.core.jit import object_cache
write = object_cache._write
def print_and_write(path, *args):
    print("wrote", path.name)
    write(path, *args)
object_cache._write = print_and_write
"""


@compiled_only
@pytest.mark.slow
def test_concurrent_processes_compile_each_kernel_once(tmp_path: Path) -> None:
    package, cache = copied_package(tmp_path / "site"), tmp_path / "cache"
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    environment = {**inherited, "PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(cache)}
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PRINT_WRITES + SMALL],
            cwd=package,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [err for _, err in outputs] == [""] * 4
    assert [process.returncode for process in processes] == [0] * 4
    lines = [out.splitlines() for out, _ in outputs]
    written = [{line for line in out if line.startswith("wrote ")} for out in lines]
    # One process compiles a kernel while the others wait; another may compile the next kernel.
    n_files = len(list(cache.rglob("*.code")))
    assert sum(map(len, written)) == len(set().union(*written)) == n_files == 3
    assert len({out[-2] for out in lines}) == 1
    assert [out[-1].split()[0] == "1" for out in lines] == [bool(names) for names in written]
    assert sorted(out[-1].split()[1] for out in lines) == ["0", "0", "0", "1"]
    assert not list(cache.rglob("*.lock"))
    after = run(package, NUMBA_CACHE_DIR=str(cache))
    assert after[1] == "0 0 True"
    assert after[0] == lines[0][-2]


@compiled_only
def test_damaged_digest_file_is_ignored(small_cache: Any, tmp_path: Path) -> None:
    original, expected = small_cache
    cache = Path(shutil.copytree(original, tmp_path / "cache"))
    for digest_file in cache.rglob("kernels.digest"):
        digest_file.write_bytes(b"\xff\x00 not text")
    assert run(ROOT, NUMBA_CACHE_DIR=str(cache))[:2] == [expected[0], "0 0 True"]


@compiled_only
def test_waiting_for_a_suspended_process_times_out(small_cache: Any, tmp_path: Path) -> None:
    original, expected = small_cache
    cache = Path(shutil.copytree(original, tmp_path / "cache"))
    with ExitStack() as locks:
        for path in files(cache):
            path.unlink()
            lock = locks.enter_context(path.with_suffix(".lock").open("wb"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        set_timeout = "from streaml1.core.jit import cache_dir\ncache_dir.LOCK_TIMEOUT = 0.1\n"
        out = run(ROOT, set_timeout + SMALL, NUMBA_CACHE_DIR=str(cache))
    assert out[:2] == [expected[0], "1 1 True"]


FORKED = """
import fcntl, os, signal
from streaml1.core import rows
cache = rows.max_id.target._cache
assert cache._acquire()
with open(cache._lock._path, "wb") as waiting:
    child = os.fork()
    if not child:
        signal.pause()
    cache.release()
    try:
        fcntl.flock(waiting, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
assert not os.path.exists(waiting.name)
print("acquired")
"""


@compiled_only
def test_forked_child_does_not_hold_the_lock(python: Callable[..., str]) -> None:
    assert python("-c", FORKED) == "acquired\n"


# Interpreted runs


INTERPRETED = """
import tempfile
from pathlib import Path
import numpy as np, pandas as pd
from scipy.sparse import csr_matrix
import streaml1
from streaml1.core import jit
from streaml1.features import dict_reader
from streaml1.training.drift.adwin import AdaptiveWindow
from streaml1.training.report import Report
assert not jit.COMPILED and not dict_reader.AVAILABLE
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
        m.learn_one({"new": 1.0, "b": float("inf")}, True)
    except streaml1.BadExample:
        pass
    else:
        raise SystemExit("not rejected")
    m._state.check()
    m.save(Path(tempfile.gettempdir()) / "interpreted.streaml1")
    r = streaml1.load(Path(tempfile.gettempdir()) / "interpreted.streaml1")
    assert r.weights == m.weights and len(m.weights) > 20
    assert m.freeze().predict_one({"a": 1.0}) in (True, False) or m.loss == "squared"
window = AdaptiveWindow()
assert type(window.add(np.repeat([0.1, 0.9], [1000, 100]), np.ones(1100)).pos) is int
report = Report("logistic")
report.add([0.5, 0.25], [True, False])
again = Report("logistic")
again.load_state_dict(*report.state_dict())  # rejects numbers that are not Python's
print("fine")
"""


def test_interpreted_end_to_end(python: Callable[..., str], tmp_path: Path) -> None:
    out = python("-W", "error", "-c", INTERPRETED, NUMBA_DISABLE_JIT="1", TMPDIR=str(tmp_path))
    assert out == "fine\n"
    assert not files(tmp_path)


@jit.inlined
def halved(v: Any) -> Any:
    return 0.5 * v


@compiled_only
def test_inlined_functions_have_no_separate_machine_code() -> None:
    quarter = nb.njit(lambda v: halved(halved(v)))
    assert quarter(6.0) == 1.5
    [overload] = halved.overloads.values()
    engine = overload.library.codegen._engine
    assert not engine.is_symbol_defined(overload.fndesc.llvm_func_name)
    assert halved(3.0) == 1.5  # compiles a kernel for this call
    assert halved(3) == 1.5
    assert len(halved.overloads) == 1 and len(halved.kernel.overloads) == 2


def test_array_at_an_address() -> None:
    a = np.array([1.0, 2.0, 3.0])
    b = simd.array_at(np.uint64(a.ctypes.data), np.uint64(2), np.float64)
    b[1] = 5.0
    assert b.tolist() == [1.0, 5.0] and a.tolist() == [1.0, 5.0, 3.0]


def test_rule_at_fails_in_python() -> None:
    with pytest.raises(NotImplementedError, match="in compiled code only"):
        simd.rule_at(int, np.zeros(1), 0)
