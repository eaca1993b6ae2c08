"""Build hook: compile the commonest kernels into the wheel, so that a first run starts at once.

The environment variable ``STREAML1_PREBUILT`` selects the processors:

============  ======================================================================================
``native``    this one: the default, for ``pip install .``; if it fails, the wheel has no kernels
``portable``  those of `PROCESSORS`, for a release
``none``      none: a pure wheel, which compiles every kernel where it runs
============  ======================================================================================

`streaml1/core/jit/prebuilt.py` finds the kernels; `streaml1/cli/warm.py` lists the common ones.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_AVX2 = (
    *("cx8", "cmov", "mmx", "fxsr", "64bit", "sse", "sse2"),
    *("cx16", "sahf", "crc32", "popcnt", "sse3", "ssse3", "sse4.1", "sse4.2"),
    *("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
)  # all of x86-64-v3, since the features decide where the code runs
_AVX512 = (
    *_AVX2,
    *("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),  # x86-64-v4
    *("avx512vbmi", "avx512vbmi2", "avx512vpopcntdq", "avx512bitalg"),  # from Ice Lake and Zen 4 on
)
_NO_GATHER = ("prefer-no-gather", "prefer-no-scatter")  # see `loader.has_fast_gather`

PROCESSORS = {
    "avx2-intel": ("x86-64-v3", _AVX2),
    "avx2-amd": ("x86-64-v3", (*_AVX2, *_NO_GATHER)),
    "avx512-intel": ("x86-64-v4", _AVX512),
    "avx512-amd": ("x86-64-v4", (*_AVX512, *_NO_GATHER)),
}
"""Name and features, as LLVM calls them, of the classes of processors of a release."""

PLATFORM = "manylinux_2_17_x86_64"
"""Oldest platform of a release. Kernels call only old functions of the C library and of Python."""

COMPILE = """
import sys
from pathlib import Path
sys.path.insert(0, "")  # the source tree
from streaml1.cli.warm import compile_common
compile_common(Path(sys.argv[1]))
"""


class PrebuiltKernels(BuildHookInterface):  # type: ignore[type-arg]
    """Adds ``streaml1/prebuilt/`` and the platform's tag to a wheel."""

    def dependencies(self) -> list[str]:
        """Return what kernels are compiled with: what the package needs at run time."""
        return [] if _selected() == "none" else list(self.metadata.core.dependencies)

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the kernels, and include them."""
        if _selected() == "none" or version == "editable":
            return
        self._scratch = tempfile.TemporaryDirectory()
        processors = PROCESSORS if _selected() == "portable" else {"native": None}
        start = time.perf_counter()
        try:
            with ThreadPoolExecutor(os.cpu_count()) as pool:
                for _ in pool.map(self._compile, processors.keys(), processors.values()):
                    pass  # raises the first error
        except subprocess.CalledProcessError as error:
            if _selected() == "portable":
                raise
            self.app.display_warning(f"no kernels are in this wheel: {error}")
            return
        seconds = time.perf_counter() - start
        self.app.display_info(f"kernels for {', '.join(processors)} in {seconds:.0f} s")
        build_data["force_include"][str(self._packed)] = "streaml1/prebuilt"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        if _selected() == "portable":
            tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
            build_data["tag"] = f"{tag}-{tag}-{PLATFORM}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the files that are in the wheel now."""
        if hasattr(self, "_scratch"):
            self._scratch.cleanup()

    @property
    def _packed(self) -> Path:
        return Path(self._scratch.name) / "prebuilt"

    def _compile(self, name: str, processor: tuple[str, tuple[str, ...]] | None) -> None:
        """Compile for a processor, in a process of its own since numba reads it at the start."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("NUMBA_")}
        environment["NUMBA_CACHE_DIR"] = str(Path(self._scratch.name) / name)
        if processor is not None:
            cpu, features = processor
            environment["NUMBA_CPU_NAME"] = cpu
            environment["NUMBA_CPU_FEATURES"] = ",".join(f"+{feature}" for feature in features)
        command = [sys.executable, "-c", COMPILE, str(self._packed / name)]
        subprocess.run(command, cwd=self.root, env=environment, check=True)


def _selected() -> str:
    selected = os.environ.get("STREAML1_PREBUILT", "native")
    if selected not in ("native", "portable", "none"):
        raise ValueError(f"STREAML1_PREBUILT must be native, portable or none, got {selected!r}")
    return selected
