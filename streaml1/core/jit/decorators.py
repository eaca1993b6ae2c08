"""What functions become: kernels that Python calls, parts of kernels, verbs."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, TypeVar, cast

from streaml1.core.jit.lazy_import import COMPILED, Deferred, when_loaded
from streaml1.core.jit.object_cache import entry

__all__ = [
    "generic",
    "gil_kernel",
    "inlined",
    "is_cached",
    "kernel",
    "optional",
    "python_api",
    "row_kernel",
    "typed_kernel",
]

F = TypeVar("F", bound=Callable[..., Any])


def kernel(fn: F) -> F:
    """Compile `fn` at its first call, to run without the interpreter lock, cached on disk.

    Numbers overflow without a word, interpreted too.
    """
    return _called_from_python(fn, nogil=True)


def gil_kernel(fn: F) -> F:
    """Compile `fn` as `kernel` does, but keep the lock: for calls of a microsecond."""
    return _called_from_python(fn)


def _called_from_python(fn: F, **options: bool) -> F:
    if not COMPILED:
        return _interpreted(fn)

    def make() -> Any:
        from streaml1.core.jit.compiler import whole

        return whole(fn, **options)

    return cast(F, Deferred(make, fn))


def _interpreted(fn: F) -> F:
    """Return `fn`, run by Python without warnings on overflow."""
    import numpy as np  # not at the top: `optim.losses` is imported before numpy is loaded

    return np.errstate(over="ignore", invalid="ignore")(fn)


def typed_kernel(*argument_types: str) -> Callable[[F], F]:
    """Compile a function as `gil_kernel` does, for arguments of given types alone.

    It loads no compiler where its code is on disk, and a call costs less. Types are `int64`,
    `uint64` and `float64`; `object`, whose address the kernel has; with `[]`, of arrays that are
    C-contiguous, any name of numpy's. What it returns is a number of the first three types or None.
    It raises nothing.
    """

    def decorate(fn: F) -> F:
        if not COMPILED:
            return _interpreted(fn)

        def make() -> Any:
            return entry(fn, argument_types)

        return cast(F, Deferred(make, fn, alone=True))

    return decorate


def inlined(fn: F) -> F:
    """Compile `fn` into the kernels that call it."""
    if not COMPILED:
        return fn

    def make() -> Any:
        from streaml1.core.jit.compiler import part

        return part(fn)

    return cast(F, Deferred(make, fn))


def generic(verb: F) -> F:
    """Make `verb(rule, ...)`, inside a kernel, the method of that name of the rule's class."""
    _resolved(verb, verb.__name__, None)
    return verb


def optional(verb: F) -> F:
    """Do as `generic`, but `verb` itself is the method of a class that has none."""
    name = verb.__name__

    @functools.wraps(verb)
    def call(rule: Any, *args: Any) -> Any:
        method = getattr(rule, name, None)
        return verb(rule, *args) if method is None else method(*args)

    _resolved(call, name, verb)
    return cast(F, call)


def _resolved(call: Any, name: str, otherwise: Any) -> None:
    def tell() -> None:
        from streaml1.core.jit.compiler import resolved

        resolved(call, name, otherwise)

    if COMPILED:
        when_loaded(tell)


def python_api(name: str, result: str, *arguments: str) -> Any:
    """A function of Python's C interface, for kernels that hold the interpreter lock.

    Types are numba's names; a pointer is a uint64.
    """

    def make() -> Any:
        from streaml1.core.simd.raw_memory import external

        return external(name, result, *arguments)

    return Deferred(make)


def row_kernel(fn: Callable[..., Any], rule: type, read: Any, *argument_types: str) -> Any:
    """`fn` with its global names `Rule` and `read` bound, compiled, keeping the lock.

    A call that hands over a rule costs two microseconds before any work; the address of an array
    of addresses, with the rule rebuilt inside by `rule_at`, a twentieth of that. Addresses do not
    tell the class, so it is bound before compilation. Types are those of `typed_kernel`.
    """
    names = {**fn.__globals__, "Rule": rule, "read": read}
    bound = types.FunctionType(fn.__code__, names, fn.__name__)
    place = read.__module__.rpartition(".")[2]
    bound.__qualname__ = f"{fn.__qualname__}[{rule.__name__}, {place}.{read.__name__}]"
    bound.__module__ = fn.__module__
    return entry(bound, argument_types)


def is_cached(compiled: Any) -> bool:
    """Whether the machine code of a kernel is kept on disk."""
    return bool(getattr(getattr(compiled, "_cache", None), "_cache_path", ""))
