"""Machine code inside the package: found, checked, and ignored if it does not fit."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from llvmlite import binding as llvm

from streaml1.core import jit
from streaml1.core.jit import loader, prebuilt

ROOT = Path(__file__).parent.parent

pytestmark = pytest.mark.skipif(not jit.COMPILED, reason="NUMBA_DISABLE_JIT is set")

# Calls a kernel of numba's cache and one of the object cache; packs the cache at last if asked to.
USE = """
import sys
from pathlib import Path
import numpy as np
from streaml1.core import jit
from streaml1.core.jit import prebuilt
prebuilt._DIRECTORY = Path(sys.argv[1])
if "nowhere" in sys.argv:
    from streaml1.core.jit import numba_cache
    numba_cache._LOCATORS = "streaml1.core.jit.numba_cache._PrebuiltOnly"
from streaml1.core import rows
from streaml1.features.vocabulary.probing import empty_entries
print(rows.max_id(np.array([3, 9, 4], np.uint32)), empty_entries(4)[:8].tolist())
print(sum(rows.max_id.stats.cache_hits.values()), jit.is_cached(rows.max_id))
if "pack" in sys.argv:
    prebuilt.pack(Path(sys.argv[1]) / "native")
"""


def use(directory: Path, cache: Path, *options: str) -> tuple[str, str, set[str]]:
    """Run `USE`; return its output and the suffixes of the files that it cached."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", USE, str(directory), *options],
        env={**inherited, "PYTHONPATH": str(ROOT), "NUMBA_CACHE_DIR": str(cache)},
        cwd=cache.parent,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    values, numba_cache = result.stdout.splitlines()
    suffixes = {p.suffix for p in cache.rglob("*") if p.suffix in (".nbi", ".nbc", ".code")}
    return values, numba_cache, suffixes


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a directory with machine code for this processor, and what `USE` prints."""
    folder = tmp_path_factory.mktemp("packed")
    values, numba_cache, suffixes = use(folder / "prebuilt", folder / "cache", "pack")
    assert numba_cache == "0 True" and suffixes == {".nbi", ".nbc", ".code"}
    return folder / "prebuilt", values


def test_nothing_compiles_and_nothing_is_written(packed: Any, tmp_path: Path) -> None:
    directory, values = packed
    assert use(directory, tmp_path / "cache") == (values, "1 True", set())


def test_without_a_writable_cache_directory(packed: Any, tmp_path: Path) -> None:
    directory, values = packed
    assert use(directory, tmp_path / "cache", "nowhere") == (values, "1 False", set())


def test_damaged_files_are_compiled_and_cached(packed: Any, tmp_path: Path) -> None:
    directory, values = packed
    shutil.copytree(directory, tmp_path / "prebuilt")
    for path in (tmp_path / "prebuilt" / "native").rglob("*"):
        if path.suffix in (".nbc", ".code"):
            path.write_bytes(path.read_bytes()[:-1])
    expected = (values, "0 True", {".nbi", ".nbc", ".code"})
    assert use(tmp_path / "prebuilt", tmp_path / "cache") == expected


@pytest.fixture
def select(packed: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Write manifests, each an edited one of this processor; return which one is selected."""
    original = json.loads((packed[0] / "native" / "manifest.json").read_text())
    for name in [name for name in os.environ if name.startswith("NUMBA_")]:
        monkeypatch.delenv(name)
    monkeypatch.setattr(prebuilt, "_DIRECTORY", tmp_path)
    monkeypatch.setattr(prebuilt, "_is_portable_code_ignored", False)

    def select(**edits: Callable[[dict[str, Any]], Any]) -> str | None:
        for name, edit in edits.items():
            content = json.loads(json.dumps(original))
            edit(content)
            (tmp_path / name).mkdir(exist_ok=True)
            (tmp_path / name / "manifest.json").write_text(json.dumps(content))
        prebuilt.prebuilt.cache_clear()
        found = prebuilt.prebuilt()
        return None if found is None else found.directory.name

    yield select
    prebuilt.prebuilt.cache_clear()


def for_processor(name: str, *features: str) -> Callable[[dict[str, Any]], None]:
    tuning = () if loader.has_fast_gather(llvm.get_host_cpu_name(), "") else prebuilt.NO_GATHER
    text = ",".join(f"+{feature}" for feature in (*features, *tuning))

    def edit(content: dict[str, Any]) -> None:
        content["processor"][1:] = [name, text]

    return edit


def test_the_most_specific_machine_code_that_runs_here_is_selected(select: Any) -> None:
    two = [name for name, present in llvm.get_host_cpu_features().items() if present][:2]
    assert select() is None
    assert select(plain=for_processor("x86-64-v1")) == "plain"
    assert select(better=for_processor("x86-64-v2", *two[:1])) == "better"
    assert select(foreign=for_processor("x86-64-v9", *two, "no-such-feature")) == "better"
    assert select(best=for_processor("x86-64-v3", *two)) == "best"
    assert select(native=lambda content: None) == "native"


@pytest.mark.parametrize(
    "edit",
    [
        lambda content: content.update(environment="0"),
        lambda content: content.pop("processor"),
        for_processor("another"),
        lambda content: content["processor"].__setitem__(0, "riscv64-unknown-linux-gnu"),
        lambda content: content["processor"].__setitem__(2, "+no-such-feature"),
    ],
    ids=["environment", "incomplete", "processor", "platform", "feature"],
)
def test_other_machine_code_is_ignored(edit: Callable[[Any], None], select: Any) -> None:
    assert select(a=edit) is None


def test_gathers_are_those_of_code_compiled_here(select: Any) -> None:
    has_fast_gather = loader.has_fast_gather(llvm.get_host_cpu_name(), "")
    tuning = ",".join(f"+{feature}" for feature in prebuilt.NO_GATHER)

    def edit(content: dict[str, Any]) -> None:
        content["processor"][1:] = ["x86-64-v3", tuning if has_fast_gather else ""]

    assert select(a=edit) is None


def test_settings_of_numba_switch_it_off(select: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert select(a=lambda content: None) == "a"
    monkeypatch.setenv("NUMBA_OPT", "1")
    assert select() is None


def test_warm_uses_machine_code_of_this_processor_only(select: Any) -> None:
    assert select(portable=for_processor("x86-64-v3")) == "portable"
    prebuilt.compile_for_this_processor()
    assert prebuilt.prebuilt() is None
    assert select(native=lambda content: None) == "native"


def test_processors_of_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None and spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    assert hook._NO_GATHER == prebuilt.NO_GATHER
    known = {*llvm.get_host_cpu_features(), *prebuilt.NO_GATHER}
    for name, features in hook.PROCESSORS.values():
        assert name.startswith("x86-64-v")  # `prebuilt` takes these names for portable ones
        assert {"ssse3", "bmi2"} <= set(features)  # asked for by `core.simd`
        if llvm.get_process_triple().startswith("x86_64"):
            assert set(features) <= known
    monkeypatch.setenv("STREAML1_PREBUILT", "all")
    with pytest.raises(ValueError, match="must be native, portable or none, got 'all'"):
        hook._selected()
