"""Compilation of kernels, and its cache on disk."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import config, njit
from numba.core import types as nbtypes
from numba.core.registry import CPUDispatcher

from streaml1.jit.cache import digest_in_the_name, kept
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


def _compile(fn: Any, **options: Any) -> Any:
    # Nobody calls kernels from C.
    options |= {"error_model": "numpy", "no_cfunc_wrapper": True}
    with digest_in_the_name():
        try:
            return kept(njit(cache=True, **options)(fn))
        except RuntimeError:  # no folder can be written: a read-only image without a home
            return njit(**options)(fn)


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
        return np.errstate(over="ignore", invalid="ignore")(fn)
    compiled: F = _compile(fn, **options)
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
