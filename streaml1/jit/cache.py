"""The cache of machine code on disk: whose text it is of, how it is looked for, who fills it."""

from __future__ import annotations

import fcntl
import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from numba import config
from numba.core import caching
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys

from streaml1.lazy import uncollected

__all__ = ["COMPILED_LAYERS", "digest_in_the_name", "kept"]

_PACKAGE = Path(__file__).parent.parent
COMPILED_LAYERS = (
    *("jit/*.py", "hashing.py", "losses.py", "vectors.py", "eights.py", "rows.py", "plain.py"),
    *("parse/*.py", "names/*.py", "crosses/*.py", "words/kernels.py", "repeats.py"),
    *("rules/*.py", "rules/parts/*.py", "online.py", "walk/*.py", "engine/watch.py"),
    *("projection.py", "offline/*.py", "report/sums.py"),
)


def _digest() -> str:
    """A name for the text of all that is compiled."""
    texts = [p.read_bytes() for pat in COMPILED_LAYERS for p in sorted(_PACKAGE.glob(pat))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


# numba keys its cache by the text of a kernel's own file alone: after an upgrade that changed
# only losses.py it would run the old code. The digest in the files' names prevents that.
_DIGEST = _digest()
_MARK = "kernels.digest"
_ENSURED: set[str] = set()  # folders that can be written


def _drop_old_files(folder: Path) -> None:
    """Remove the machine code of other texts of this package, once for each new text."""
    mark = folder / _MARK
    try:
        if mark.exists() and mark.read_text() == _DIGEST:
            return
        for path in (one for kind in ("nbi", "nbc", "turn") for one in folder.glob(f"*.{kind}")):
            if _DIGEST not in path.name:
                path.unlink(missing_ok=True)
        mark.write_text(_DIGEST)
    except (OSError, ValueError):  # another process is at it, or the folder may only be read
        return


def _locators() -> str:
    """Locators whose file names carry the digest, listed as numba's setting wants them."""
    names = []
    for base in ("UserProvided", "InTree", "UserWide", "Zip"):
        locator = getattr(caching, f"{base}CacheLocator", None)
        if locator is None:
            continue

        def get_disambiguator(self: Any, _base: Any = locator) -> str:
            return f"{_base.get_disambiguator(self)}-{_DIGEST}"

        def ensure_cache_path(self: Any, _base: Any = locator) -> None:
            folder = self.get_cache_path()
            # Numba would write a file there for each kernel.
            if folder not in _ENSURED or not Path(folder).is_dir():
                _base.ensure_cache_path(self)
                _drop_old_files(Path(folder))
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


# How long a process waits for another that compiles the same kernel; it may have been stopped.
TURN_SECONDS = 120.0


class _QuickCache(caching.FunctionCache):
    """numba's cache of one function, that does not load the compiler to look for it.

    Numba has all that it can compile registered first, scipy's linear algebra among it: half a
    second of a new process. Code from the disk needs none of that, and what is to be compiled
    after all has it registered then. Of processes that start together one compiles, and the others
    wait for what it writes.
    """

    _turn: IO[bytes] | None = None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            found = self._load_overload(sig, target_context)
            if found is None and self._wait():
                found = self._load_overload(sig, target_context)
            return found

    def _wait(self) -> bool:
        """Have the turn to compile, until `end`; or False where none can be had."""
        with suppress(OSError):  # the folder may only be read
            self._impl.locator.ensure_cache_path()
            place = Path(self.cache_path) / f"{self._impl.filename_base}.turn"
            self._turn = place.open("wb")
            until = time.monotonic() + TURN_SECONDS
            while time.monotonic() < until:
                try:
                    fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(0.02)
                else:
                    return True
        return False

    def end(self) -> None:
        """Let another have the turn."""
        if self._turn is not None:
            with suppress(OSError):
                Path(self._turn.name).unlink(missing_ok=True)  # who waits for it has it open
                fcntl.flock(self._turn, fcntl.LOCK_UN)  # so has a fork, which would keep the turn
            self._turn.close()
            self._turn = None


class _Kernel(CPUDispatcher):
    """A kernel whose cache is a quick one."""

    def compile(self, sig: Any) -> Any:
        try:
            with uncollected():
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
