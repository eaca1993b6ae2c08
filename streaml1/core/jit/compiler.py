"""Functions compiled by numba: whole ones, parts of them, verbs that stand for methods."""

from __future__ import annotations

from typing import Any

from numba import njit
from numba.core.registry import CPUDispatcher
from numba.extending import overload

from streaml1.core.jit.inline_functions import PART
from streaml1.core.jit.numba_cache import digest_in_the_name, kept

__all__ = ["gathers", "has", "part", "resolved", "whole"]


def whole(fn: Any, **options: Any) -> Any:
    """A function that Python calls, cached on disk."""
    # Nobody calls kernels from C.
    options |= {"error_model": "numpy", "no_cfunc_wrapper": True}
    with digest_in_the_name():
        try:
            return kept(njit(cache=True, **options)(fn))
        except RuntimeError:  # no folder can be written: a read-only image without a home
            return njit(**options)(fn)


class _Part(CPUDispatcher):
    """A part of kernels. What Python calls is another function, made at the first such call."""

    def __call__(self, *args: Any) -> Any:
        if "whole" not in vars(self):
            self.whole = whole(self.py_func, forceinline=True)
        return self.whole(*args)


def part(fn: Any) -> Any:
    """A function that is compiled into those that call it."""
    compiled = njit(error_model="numpy", **PART)(fn)
    compiled.__class__ = _Part
    return compiled


# A verb that stays a call counts each array of its rule up and down, borrowed or not: some ten
# nanoseconds an array.
_VERB = {"error_model": "numpy", **PART}


def resolved(call: Any, name: str, otherwise: Any) -> None:
    """Have `call(rule, ...)` be the method `name` of the rule's class, or what is told besides."""

    @overload(call, strict=False, jit_options=_VERB)
    def resolve(rule: Any, *args: Any) -> Any:
        return getattr(getattr(rule, "instance_class", object), name, otherwise)


def has(context: Any, feature: str) -> bool:
    """Whether the processor that code is made for has a feature, by LLVM's name; for intrinsics."""
    return f"+{feature}" in context.codegen().magic_tuple()[2].split(",")


def gathers(context: Any) -> bool:
    """Whether eight words from anywhere are sooner gathered than loaded one by one; so is storing.

    AMD's processors take longer for it, those with AVX-512 too.
    """
    return not context.codegen().magic_tuple()[1].startswith("znver")
