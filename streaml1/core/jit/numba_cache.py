"""Numba's cache of machine code on disk: named by all text that is compiled, quickly looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from numba import config
from numba.core import caching
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys

from streaml1.core.jit.cache_dir import Turn, digest, drop_old_files
from streaml1.core.lazy_imports import uncollected

__all__ = ["digest_in_the_name", "kept"]

_ENSURED: set[str] = set()  # folders that can be written


# numba keys its cache by the text of a kernel's own file alone: after an upgrade that changed
# only losses.py it would run the old code. The digest in the files' names prevents that.
def _locators() -> str:
    """Locators whose file names carry the digest, listed as numba's setting wants them."""
    names = []
    for base in ("UserProvided", "InTree", "UserWide", "Zip"):
        locator = getattr(caching, f"{base}CacheLocator", None)
        if locator is None:
            continue

        def get_disambiguator(self: Any, _base: Any = locator) -> str:
            return f"{_base.get_disambiguator(self)}-{digest()}"

        def ensure_cache_path(self: Any, _base: Any = locator) -> None:
            folder = self.get_cache_path()
            # Numba would write a file there for each kernel.
            if folder not in _ENSURED or not Path(folder).is_dir():
                _base.ensure_cache_path(self)
                drop_old_files(Path(folder))
                _ENSURED.add(folder)

        methods = {
            "get_disambiguator": get_disambiguator,
            "ensure_cache_path": ensure_cache_path,
        }
        name = f"_{base}"
        globals()[name] = type(name, (locator,), methods)
        names.append(f"{__name__}.{name}")
    return ",".join(names)


_LOCATORS = _locators()


@contextmanager
def digest_in_the_name() -> Iterator[None]:
    """Have the files of kernels that are made here named by all text that is compiled."""
    if not hasattr(config, "CACHE_LOCATOR_CLASSES"):  # another numba: its own naming
        yield
        return
    saved, config.CACHE_LOCATOR_CLASSES = config.CACHE_LOCATOR_CLASSES, _LOCATORS
    try:
        yield
    finally:
        config.CACHE_LOCATOR_CLASSES = saved


class _QuickCache(caching.FunctionCache):
    """numba's cache of one function, that does not load the compiler to look for it.

    Numba has all that it can compile registered first, scipy's linear algebra among it: half a
    second of a new process. Code from the disk needs none of that, and what is to be compiled
    after all has it registered then. Of processes that start together one compiles, and the others
    wait for what it writes.
    """

    _turn: Turn | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)
            if found is None and self._wait():
                found = self._load_overload(sig, target_context)
            return found

    def _wait(self) -> bool:
        with suppress(OSError):  # the folder may only be read
            self._impl.locator.ensure_cache_path()
            self._turn = Turn(Path(self.cache_path) / f"{self._impl.filename_base}.turn")
            return self._turn.wait()
        return False

    def end(self) -> None:
        """Let another process compile it."""
        if self._turn is not None:
            self._turn.end()
            self._turn = None


class _Kernel(CPUDispatcher):
    """A kernel whose cache is a quick one."""

    def compile(self, sig: Any) -> Any:
        with global_compiler_lock, uncollected():  # else another thread would end this one's turn
            try:
                return super().compile(sig)
            finally:
                self._cache.end()


def kept(compiled: Any) -> Any:
    """A kernel whose code is looked for quickly, in the versions of numba where that is known."""
    own = {"_guard_against_spurious_io_errors", "_load_overload", "_impl"}
    cache = getattr(compiled, "_cache", None)
    if type(cache) is caching.FunctionCache and own <= set(dir(cache)):
        cache.__class__ = _QuickCache
        compiled.__class__ = _Kernel
    return compiled
