"""Machine code inside an installed package: read-only, and searched after the cache on disk.

`hatch_build.py` puts one directory per processor into ``streaml1/prebuilt/`` of a wheel, with a
manifest and the files that `pack` copies from a cache. A directory is used if its manifest agrees
with this process in everything that machine code depends on: the digest of the sources, Python's
binary interface, numba, llvmlite, and a processor that has all features. If none does, or a file is
missing or damaged, the kernel is compiled and cached as without this package.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import suppress
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import NamedTuple

from streaml1.core.jit.cache_dir import (
    PACKAGE,
    cache_directories,
    compiler_versions,
    source_digest,
)
from streaml1.core.jit.loader import has_fast_gather

__all__ = [
    "NO_GATHER",
    "Prebuilt",
    "compile_for_this_processor",
    "object_file_stem",
    "pack",
    "prebuilt",
]

_DIRECTORY = PACKAGE / "prebuilt"
_MANIFEST = "manifest.json"
# Variables of numba that do not change machine code; with any other one, the process compiles.
_NEUTRAL_VARIABLES = {"NUMBA_CACHE_DIR", "NUMBA_NUM_THREADS"}

NO_GATHER = ("prefer-no-gather", "prefer-no-scatter")
"""Features of LLVM that a processor does not have but that tune code for it."""


class Prebuilt(NamedTuple):
    """A directory with machine code that runs on this processor."""

    directory: Path
    processor: tuple[str, str, str]
    """The triple, name and features that it was compiled for."""

    def magic_tuple(self) -> tuple[str, str, str]:
        """Return `processor`: numba's name for it, in the keys of its cache."""
        return self.processor


_is_portable_code_ignored = False


def compile_for_this_processor() -> None:
    """Ignore machine code for a class of processors from now on: compile for this very one."""
    global _is_portable_code_ignored
    _is_portable_code_ignored = True
    prebuilt.cache_clear()


@cache
def prebuilt() -> Prebuilt | None:
    """Return the directory with the most specific machine code for this process, or None."""
    if _is_configured() or not _DIRECTORY.is_dir():
        return None
    found = []
    for manifest in _DIRECTORY.glob(f"*/{_MANIFEST}"):
        with suppress(Exception):  # a damaged file can raise anything
            content = json.loads(manifest.read_text())
            candidate = Prebuilt(manifest.parent, tuple(content["processor"]))
            if content["environment"] == _environment() and _runs_here(candidate):
                found.append(candidate)
    return max(found, key=lambda c: len(_features(c)), default=None)


def _is_configured() -> bool:
    """Return whether settings of numba change the machine code."""
    variables = {name for name in os.environ if name.startswith("NUMBA_")}
    return bool(variables - _NEUTRAL_VARIABLES) or Path(".numba_config.yaml").exists()


@cache
def _environment() -> str:
    """Return a digest of all that prebuilt machine code depends on except the processor."""
    binary_interface = EXTENSION_SUFFIXES[0]  # such as .cpython-313-x86_64-linux-gnu.so
    inputs = [source_digest(), binary_interface, *compiler_versions()]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()


def _features(candidate: Prebuilt) -> list[str]:
    """Return the features of the processor that the code may use."""
    features = [f[1:] for f in candidate.processor[2].split(",") if f.startswith("+")]
    return [feature for feature in features if feature not in NO_GATHER]


def _runs_here(candidate: Prebuilt) -> bool:
    """Return whether the code runs on this processor, and as fast as code compiled here."""
    import llvmlite.binding as llvm

    triple, name, features = candidate.processor
    host, host_features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features()
    if name != host and (_is_portable_code_ignored or not name.startswith("x86-64-")):
        return False
    return (
        triple == llvm.get_process_triple()
        and all(host_features.get(feature) for feature in _features(candidate))
        and has_fast_gather(name, features) == has_fast_gather(host, "")
    )


def object_file_stem(name: str) -> str:
    """Return the name of a cached object file without what depends on the environment."""
    return name.rpartition("-")[0]


def pack(directory: Path) -> None:
    """Copy the machine code that this process and others cached in its `NUMBA_CACHE_DIR`.

    Parameters
    ----------
    directory
        The directory to create, for one processor.
    """
    from numba.core.caching import _CacheLocator
    from numba.core.registry import cpu_target

    directory.mkdir(parents=True)
    object_files = cache_directories().writable
    assert object_files is not None
    for file in object_files.glob("*.code"):
        shutil.copyfile(file, directory / f"{object_file_stem(file.name)}.code")
    for folder in (PACKAGE, *(p for p in PACKAGE.rglob("*") if p.is_dir())):
        # numba's cache has one directory per directory of sources, named by its path.
        subpath = _CacheLocator.get_suitable_cache_subpath(str(folder / "_.py"))
        files = [*(object_files.parent / subpath).glob("*.nb[ic]")]
        if files:
            (directory / folder.relative_to(PACKAGE)).mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copyfile(file, directory / folder.relative_to(PACKAGE) / file.name)
    processor = cpu_target.target_context.codegen().magic_tuple()
    manifest = {"environment": _environment(), "processor": processor}
    (directory / _MANIFEST).write_text(json.dumps(manifest, indent=1))
