"""numba's on-disk cache: invalidated by all compiled sources, and read without a compiler.

An entry that cannot be loaded, for whatever reason, is compiled again and replaced. If no directory
can be written, one that holds machine code of these sources is read, such as that of a container
whose file system is read-only.
"""

from __future__ import annotations

import glob
import hashlib
import pickle
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from numba import config
from numba.core import caching
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys

from streaml1.core.jit.cache_dir import (
    PACKAGE,
    CompileLock,
    discard,
    discard_directory,
    is_current,
    remove_stale_files,
    source_digest,
    warn_unwritable,
)
from streaml1.core.jit.prebuilt import prebuilt
from streaml1.core.lazy_imports import gc_disabled

__all__ = ["digest_in_file_names", "with_quick_cache"]

_WRITABLE: set[str] = set()  # directories that were checked


# numba's cache key of a kernel covers the text of the kernel's own file only: after an upgrade that
# changes only losses.py it would run stale code. The digest in the file names prevents that.
def _define_locators() -> str:
    """Define locators whose file names carry the digest; return them as numba's option lists them.

    numba imports them by name from this module, and takes the first that suits.
    """
    names: list[str] = []
    read_only_names: list[str] = []
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

        def ensure_current(self: Any) -> None:
            if not is_current(Path(self.get_cache_path())):
                raise OSError("the directory holds no machine code of these sources")

        for name, ensure, found in (
            (f"_{base}", ensure_cache_path, names),
            (f"_ReadOnly{base}", ensure_current, read_only_names),
        ):
            methods = {"get_disambiguator": get_disambiguator, "ensure_cache_path": ensure}
            globals()[name] = type(name, (locator,), methods)
            found.append(f"{__name__}.{name}")
    return ",".join([*names, *read_only_names, f"{__name__}._PrebuiltOnly"])


class _PrebuiltOnly(caching.UserProvidedCacheLocator):
    """The last locator: no directory is writable, but the package contains machine code."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        super().__init__(py_func, py_file)
        self._cache_path = ""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        return None if prebuilt() is None else cls(py_func, py_file)

    def get_disambiguator(self) -> str:
        return f"{super().get_disambiguator()}-{source_digest()}"

    def ensure_cache_path(self) -> None:
        raise OSError("no directory is writable")


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


class _CheckedFiles(caching.IndexDataCacheFile):
    """numba's cache files, which begin with the SHA-256 of the rest: LLVM trusts what it loads."""

    def _save(self, path: str, value: Any) -> None:
        content = self._dump(value)
        discard_directory(Path(path))
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(content).digest() + content)

    def _load(self, path: str) -> Any:
        raw = Path(path).read_bytes()
        digest, content = raw[:32], raw[32:]
        if hashlib.sha256(content).digest() != digest:
            raise ValueError("a cache entry is damaged")
        return pickle.loads(content)

    def _save_index(self, overloads: Any) -> None:
        self._save(self._index_path, (self._version, self._source_stamp, overloads))

    def _load_index(self) -> Any:
        try:
            version, stamp, overloads = self._load(self._index_path)
        except FileNotFoundError:
            return {}
        return overloads if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_data(self, name: str, data: Any) -> None:
        path = self._data_path(name)
        self._save(path, data)
        caching._cache_log("[cache] data saved to %r", path)  # with NUMBA_DEBUG_CACHE

    def _load_data(self, name: str) -> Any:
        path = self._data_path(name)
        data = self._load(path)
        caching._cache_log("[cache] data loaded from %r", path)
        return data

    def remove(self) -> None:
        """Remove the index and all data, or what is in their place."""
        stem = glob.escape(self._index_path.removesuffix(".nbi"))
        for path in [self._index_path, *glob.glob(f"{stem}.*.nbc")]:
            discard(Path(path))


class _PrebuiltFiles(_CheckedFiles):
    """numba's cache files in the package: an installation changes the stamps of the sources."""

    def _load_index(self) -> Any:
        version, _, overloads = self._load(self._index_path)
        return overloads if version == self._version else {}


class _QuickCache(caching.FunctionCache):
    """numba's cache of one function, without loading the compiler before reading.

    numba first registers everything it can compile, scipy's linear algebra included: half a second
    of a new process. Cached code needs none of that, and a compilation registers it later. Of
    processes that start together one compiles a kernel, the others wait for the file it writes.
    """

    _lock: CompileLock | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        found = self._load_or_remove(sig, target_context)
        if found is None:
            found = self._load_prebuilt(sig, target_context)
        if found is None and self._acquire():
            found = self._load_or_remove(sig, target_context)
        return found

    def _load_or_remove(self, sig: Any, target_context: Any) -> Any:
        """Return the entry of a signature, or None; remove the files if they cannot be loaded."""
        try:
            with self._guard_against_spurious_io_errors():
                return self._load_overload(sig, target_context)
        except Exception:  # damaged pickles can raise anything
            self._cache_file.remove()
            return None

    def _load_prebuilt(self, sig: Any, target_context: Any) -> Any:
        """Return the entry of a signature from the package, or None."""
        packed = prebuilt()
        if packed is not None:
            with suppress(Exception):  # a missing, damaged or foreign file: compile
                source = Path(self._py_func.__code__.co_filename)
                folder = packed.directory / source.parent.relative_to(PACKAGE)
                files = _PrebuiltFiles(str(folder), self._impl.filename_base, None)
                data = files.load(self._index_key(sig, packed))
                return None if data is None else self._impl.rebuild(target_context, data)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        try:
            super().save_overload(sig, data)
        except Exception as error:  # a full disk, a limit on file sizes, a directory in the way
            self.disable()
            warn_unwritable(self.cache_path, error)

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
    required = {"_guard_against_spurious_io_errors", "_load_overload", "_impl", "_cache_file"}
    cache: Any = getattr(dispatcher, "_cache", None)
    if type(cache) is caching.FunctionCache and required <= set(dir(cache)):
        cache.__class__ = _QuickCache
        cache._cache_file.__class__ = _CheckedFiles
        dispatcher.__class__ = _KernelDispatcher
        if not cache.cache_path:  # `_PrebuiltOnly`
            cache.disable()
    return dispatcher
