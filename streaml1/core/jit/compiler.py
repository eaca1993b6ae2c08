"""Functions compiled by numba: kernels, functions inlined into kernels, verbs of update rules."""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.core import types as nbtypes
from numba.core.registry import CPUDispatcher
from numba.extending import overload

from streaml1.core.jit import loader
from streaml1.core.jit.inline_functions import INLINE_OPTIONS
from streaml1.core.jit.numba_cache import digest_in_file_names, with_quick_cache

__all__ = [
    "compile_inlined",
    "compile_kernel",
    "external_function",
    "has_fast_gather",
    "has_feature",
    "resolve_verb",
]


def compile_kernel(fn: Any, **options: Any) -> Any:
    """Return the numba dispatcher of a function that Python calls, cached on disk."""
    # No C code calls most kernels, so the C wrapper would be compiled for nothing.
    options = {"error_model": "numpy", "no_cfunc_wrapper": True, **options}
    with digest_in_file_names():
        try:
            return with_quick_cache(njit(cache=True, **options)(fn))
        except RuntimeError:  # no cache directory is writable: a read-only image without a home
            return njit(**options)(fn)


class _InlinedDispatcher(CPUDispatcher):
    """A dispatcher of IR for kernels; the first call from Python compiles a kernel of its own."""

    def __call__(self, *args: Any) -> Any:
        if "kernel" not in vars(self):
            self.kernel = compile_kernel(self.py_func, forceinline=True)
        return self.kernel(*args)


def compile_inlined(fn: Any) -> Any:
    """Return the numba dispatcher of a function that is inlined into the kernels calling it."""
    compiled = njit(error_model="numpy", **INLINE_OPTIONS)(fn)
    compiled.__class__ = _InlinedDispatcher
    return compiled


# A verb that is called instead of inlined increments and decrements the reference count of each
# array of its rule, borrowed or not: about ten nanoseconds per array.
_VERB_OPTIONS = {"error_model": "numpy", **INLINE_OPTIONS}


def resolve_verb(call: Any, name: str, default: Any) -> None:
    """Compile `call(rule, ...)` as the method `name` of the rule's class, or else as `default`."""

    @overload(call, strict=False, jit_options=_VERB_OPTIONS)
    def resolve(rule: Any, *args: Any) -> Any:
        return getattr(getattr(rule, "instance_class", object), name, default)


def external_function(name: str, result: str, *arguments: str) -> Any:
    """Return a C function of the process, for kernels; types are numba's names."""
    argument_types = [getattr(nbtypes, argument) for argument in arguments]
    return nbtypes.ExternalFunction(name, getattr(nbtypes, result)(*argument_types))


def has_feature(context: Any, feature: str) -> bool:
    """Return whether the target processor has a feature, by LLVM's name; for intrinsics."""
    return f"+{feature}" in context.codegen().magic_tuple()[2].split(",")


def has_fast_gather(context: Any) -> bool:
    """Return `loader.has_fast_gather` of the target processor; for intrinsics."""
    _, name, features = context.codegen().magic_tuple()
    return loader.has_fast_gather(name, features)
