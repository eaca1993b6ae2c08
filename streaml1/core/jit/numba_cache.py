"""numba's on-disk cache: invalidated by all compiled sources, and read without a compiler."""

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

from streaml1.core.jit.cache_dir import CompileLock, remove_stale_files, source_digest
from streaml1.core.lazy_imports import gc_disabled

__all__ = ["digest_in_file_names", "with_quick_cache"]

_WRITABLE: set[str] = set()  # directories that were checked


# numba's cache key of a kernel covers the text of the kernel's own file only: after an upgrade that
# changes only losses.py it would run stale code. The digest in the file names prevents that.
def _define_locators() -> str:
    """Define locators whose file names carry the digest; return them as numba's option lists them.

    numba imports them by name from this module.
    """
    names = []
    for base in ("UserProvided", "InTree", "UserWide", "Zip"):
        locator = getattr(caching, f"{base}CacheLocator", None)
        if locator is None:
            continue

        def get_disambiguator(self: Any, _base: Any = locator) -> str:
            return f"{_base.get_disambiguator(self)}-{source_digest()}"

        def ensure_cache_path(self: Any, _base: Any = locator) -> None:
            directory = self.get_cache_path()
            # numba checks a directory by creating a file, for every kernel; once is enough.
            if directory not in _WRITABLE or not Path(directory).is_dir():
                _base.ensure_cache_path(self)
                remove_stale_files(Path(directory))
                _WRITABLE.add(directory)

        methods = {
            "get_disambiguator": get_disambiguator,
            "ensure_cache_path": ensure_cache_path,
        }
        name = f"_{base}"
        globals()[name] = type(name, (locator,), methods)
        names.append(f"{__name__}.{name}")
    return ",".join(names)


_LOCATORS = _define_locators()


@contextmanager
def digest_in_file_names() -> Iterator[None]:
    """Put the digest of the sources into the cache file names of kernels created in this context.

    numba before 0.62 has no such option; the names are then numba's own.
    """
    if not hasattr(config, "CACHE_LOCATOR_CLASSES"):
        yield
        return
    saved, config.CACHE_LOCATOR_CLASSES = config.CACHE_LOCATOR_CLASSES, _LOCATORS
    try:
        yield
    finally:
        config.CACHE_LOCATOR_CLASSES = saved


class _QuickCache(caching.FunctionCache):
    """numba's cache of one function, without loading the compiler before reading.

    numba first registers everything it can compile, scipy's linear algebra included: half a second
    of a new process. Cached code needs none of that, and a compilation registers it later. Of
    processes that start together one compiles a kernel, the others wait for the file it writes.
    """

    _lock: CompileLock | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)
            if found is None and self._acquire():
                found = self._load_overload(sig, target_context)
            return found

    def _acquire(self) -> bool:
        with suppress(OSError):  # the directory may be read-only
            self._impl.locator.ensure_cache_path()
            self._lock = CompileLock(Path(self.cache_path) / f"{self._impl.filename_base}.lock")
            return self._lock.acquire()
        return False

    def release(self) -> None:
        """Let another process compile."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None


class _KernelDispatcher(CPUDispatcher):
    """The dispatcher of a kernel with a `_QuickCache`."""

    def compile(self, sig: Any) -> Any:
        # numba's lock comes first: without it another thread could release this one's file lock.
        with global_compiler_lock, gc_disabled():
            try:
                return super().compile(sig)
            finally:
                self._cache.release()


def with_quick_cache(dispatcher: Any) -> Any:
    """Switch a dispatcher to a `_QuickCache` if numba's cache has the internals that it uses."""
    required = {"_guard_against_spurious_io_errors", "_load_overload", "_impl"}
    cache = getattr(dispatcher, "_cache", None)
    if type(cache) is caching.FunctionCache and required <= set(dir(cache)):
        cache.__class__ = _QuickCache
        dispatcher.__class__ = _KernelDispatcher
    return dispatcher
