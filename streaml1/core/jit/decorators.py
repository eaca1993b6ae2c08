"""Decorators for compiled code: kernels, functions inlined into kernels, verbs of update rules."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from streaml1.core.jit.lazy_import import COMPILED, LazyFunction, before_first_compilation
from streaml1.core.jit.object_cache import load_or_compile

__all__ = [
    "bound_kernel",
    "generic",
    "gil_kernel",
    "inlined",
    "is_cached",
    "kernel",
    "optional",
    "python_api",
    "typed_kernel",
]

F = TypeVar("F", bound=Callable[..., Any])


def kernel(fn: F) -> F:
    """Compile `fn` at its first call, to run without the interpreter lock; cached on disk.

    Integer overflow wraps around without a warning, also in interpreted mode.
    """
    return _lazy_kernel(fn, nogil=True)


def gil_kernel(fn: F) -> F:
    """Compile `fn` as `kernel` does, but hold the interpreter lock: for calls of a microsecond."""
    return _lazy_kernel(fn)


def _lazy_kernel(fn: F, **options: bool) -> F:
    if not COMPILED:
        return _interpreted(fn)

    def build() -> Any:
        from streaml1.core.jit.compiler import compile_kernel

        return compile_kernel(fn, **options)

    return cast(F, LazyFunction(build, fn))


def _interpreted(fn: F) -> F:
    """Return `fn`, run by Python without warnings on overflow."""
    import numpy as np  # not at the top: `optim.losses` is imported before numpy is loaded

    return np.errstate(over="ignore", invalid="ignore")(fn)


def typed_kernel(*argument_types: str, nogil: bool = False) -> Callable[[F], F]:
    """Compile a function for one signature, callable without numba.

    If its machine code is on disk, no compiler is loaded (0.6 s of a process's start), and a call
    takes 1.0 us less than through numba's dispatcher. The function must not raise.

    Parameters
    ----------
    *argument_types
        ``"int64"``, ``"uint64"`` or ``"float64"``; ``"object"``: the kernel gets the address of the
        object; a name of a numpy dtype followed by ``[]``: a C-contiguous array.
    nogil
        Whether it runs without the interpreter lock, as `kernel` does. A kernel with an argument
        of type ``"object"`` must hold the lock.

    Returns
    -------
    A decorator. What the decorated function returns is a number of the first three types, or None.
    """

    def decorate(fn: F) -> F:
        if not COMPILED:
            return _interpreted(fn)

        def build() -> Any:
            return load_or_compile(fn, argument_types, nogil)

        return cast(F, LazyFunction(build, fn, needs_numba=False))

    return decorate


def inlined(fn: F) -> F:
    """Compile `fn` into the kernels that call it."""
    if not COMPILED:
        return fn

    def build() -> Any:
        from streaml1.core.jit.compiler import compile_inlined

        return compile_inlined(fn)

    return cast(F, LazyFunction(build, fn))


def generic(verb: F) -> F:
    """Dispatch `verb(rule, ...)` inside kernels to the method of that name of the rule's class."""
    _dispatch(verb, verb.__name__, None)
    return verb


def optional(verb: F) -> F:
    """Dispatch as `generic` does, with `verb` as the default for classes without the method."""
    name = verb.__name__

    @functools.wraps(verb)
    def call(rule: Any, *args: Any) -> Any:
        method = getattr(rule, name, None)
        return verb(rule, *args) if method is None else method(*args)

    _dispatch(call, name, verb)
    return cast(F, call)


def _dispatch(call: Any, name: str, default: Any) -> None:
    def register() -> None:
        from streaml1.core.jit.compiler import resolve_verb

        resolve_verb(call, name, default)

    if COMPILED:
        before_first_compilation(register)


def python_api(name: str, result: str, *arguments: str) -> Any:
    """Return a function of Python's C API, for kernels that hold the interpreter lock.

    Parameters
    ----------
    name
        Name of the C function.
    result, *arguments
        numba's names of the types; ``"uint64"`` for a pointer.
    """

    def build() -> Any:
        from streaml1.core.jit.compiler import external_function

        return external_function(name, result, *arguments)

    return LazyFunction(build)


def bound_kernel(
    fn: Callable[..., Any], names: Mapping[str, Any], *argument_types: str, native: bool = False
) -> Any:
    """Compile `fn` as `typed_kernel` does, with some of its global names bound.

    Parameters
    ----------
    fn
        The function.
    names
        Classes and functions by the names that stand for them in `fn`.
    *argument_types
        As in `typed_kernel`.
    native
        Whether to return the address of a C function, as an int, for kernels that call it by
        `simd.call_i64` or `call_f64`. Its arguments are numbers.
    """
    bound = types.FunctionType(fn.__code__, {**fn.__globals__, **names}, fn.__name__)
    # The name is part of the cache key.
    values = ", ".join(f"{v.__module__.rpartition('.')[2]}.{v.__name__}" for v in names.values())
    bound.__qualname__ = f"{fn.__qualname__}[{values}]"
    bound.__module__ = fn.__module__
    return load_or_compile(bound, argument_types, native=native)


def is_cached(compiled: Any) -> bool:
    """Return whether the machine code of a kernel is kept on disk."""
    dispatcher = getattr(compiled, "target", compiled)
    return bool(getattr(getattr(dispatcher, "_cache", None), "_cache_path", ""))
