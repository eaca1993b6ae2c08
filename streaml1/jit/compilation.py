"""Compilation of kernels, and its cache on disk."""

from __future__ import annotations

import hashlib
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from numba import config, njit
from numba.core import caching
from numba.core import types as nbtypes
from numba.core.registry import CPUDispatcher
from numba.core.runtime import rtsys

from streaml1.jit.parts import PART

__all__ = [
    "COMPILED",
    "entry",
    "gil_kernel",
    "has",
    "inlined",
    "is_cached",
    "kernel",
    "row_kernel",
]

F = TypeVar("F", bound=Callable[..., Any])

COMPILED = not config.DISABLE_JIT

_PACKAGE = Path(__file__).parent.parent
_COMPILED_LAYERS = (
    *("jit/*.py", "hashing.py", "losses.py", "vectors.py", "eights.py", "rows.py", "plain.py"),
    *("parse/*.py", "names/*.py", "crosses/*.py", "words/kernels.py", "repeats.py"),
    *("rules/*.py", "rules/parts/*.py", "online.py", "walk/*.py", "engine/watch.py"),
    *("projection.py", "offline/*.py", "report/sums.py"),
)


def _digest() -> str:
    """A name for the text of all that is compiled."""
    texts = [p.read_bytes() for pat in _COMPILED_LAYERS for p in sorted(_PACKAGE.glob(pat))]
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
        for path in [*folder.glob("*.nbi"), *folder.glob("*.nbc")]:
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
def _digest_in_the_name() -> Iterator[None]:
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
    after all has it registered then.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        rtsys.initialize(target_context)
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


def _quick(compiled: Any) -> Any:
    """A kernel whose code is looked for quickly, in the versions of numba where that is known."""
    own = {"_guard_against_spurious_io_errors", "_load_overload"}
    cache = getattr(compiled, "_cache", None)
    if type(cache) is caching.FunctionCache and own <= set(dir(cache)):
        cache.__class__ = _QuickCache
    return compiled


def _compile(fn: Any, **options: Any) -> Any:
    # Nobody calls kernels from C.
    options |= {"error_model": "numpy", "no_cfunc_wrapper": True}
    with _digest_in_the_name():
        try:
            return _quick(njit(cache=True, **options)(fn))
        except RuntimeError:  # no folder can be written: a read-only image without a home
            return njit(**options)(fn)


def kernel(fn: F) -> F:
    """Compile `fn` at its first call, to run without the interpreter lock, cached on disk."""
    compiled: F = _compile(fn, nogil=True)
    return compiled


def gil_kernel(fn: F) -> F:
    """Compile `fn` as `kernel` does, but keep the lock: for calls of a microsecond."""
    compiled: F = _compile(fn)
    return compiled


class _Part(CPUDispatcher):
    """A part of kernels. What Python calls is another function, made at the first such call."""

    def __call__(self, *args: Any) -> Any:
        if "whole" not in vars(self):
            self.whole = _compile(self.py_func, forceinline=True)
        return self.whole(*args)


def inlined(fn: F) -> F:
    """Compile `fn` into the kernels that call it."""
    compiled: F = njit(error_model="numpy", **PART)(fn)
    if isinstance(compiled, CPUDispatcher):
        compiled.__class__ = _Part
    return compiled


def row_kernel(fn: Callable[..., Any], rule: type, read: Any) -> Any:
    """`fn` with its global names `Rule` and `read` bound, compiled, keeping the lock.

    A call that hands over a rule costs two microseconds before any work; the address of an array
    of addresses, with the rule rebuilt inside by `rule_at`, a twentieth of that. Addresses do not
    tell the class, so it is bound before compilation.
    """
    names = {**fn.__globals__, "Rule": rule, "read": read}
    bound = types.FunctionType(fn.__code__, names, fn.__name__)
    place = read.__module__.rpartition(".")[2]
    bound.__qualname__ = f"{fn.__qualname__}[{rule.__name__}, {place}.{read.__name__}]"
    bound.__module__ = fn.__module__
    return _compile(bound)


def entry(compiled: Any, *argument_types: str) -> Any:
    """What calls a kernel with arguments of given types alone, at half the cost.

    Types are numba's names, such as `"int64"`.
    """
    wanted = tuple(getattr(nbtypes, name) for name in argument_types)
    compiled.compile(wanted)
    # Half public: the dispatcher itself does as well, after a look at each argument's type.
    return getattr(compiled.overloads[wanted], "entry_point", compiled)


def has(context: Any, feature: str) -> bool:
    """Whether the processor that code is made for has a feature, by LLVM's name; for intrinsics."""
    return f"+{feature}" in context.codegen().magic_tuple()[2].split(",")


def is_cached(compiled: Any) -> bool:
    """Whether the machine code of a kernel is kept on disk."""
    return bool(getattr(getattr(compiled, "_cache", None), "_cache_path", ""))
