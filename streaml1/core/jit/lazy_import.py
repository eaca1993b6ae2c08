"""Lazy loading of numba and of everything that is built with it.

Importing numba takes about half of the time to the first prediction of a process. A process that
finds its machine code on disk and calls only typed kernels (`decorators.typed_kernel`,
`decorators.bound_kernel`) never imports it. Decorators therefore return a `LazyFunction`, and what
numba must know before it compiles anything is registered with `before_first_compilation`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from threading import RLock
from typing import Any

__all__ = ["COMPILED", "LANES", "LazyFunction", "before_first_compilation", "load_numba"]

LANES = 8
"""Number of lanes of the SIMD values `f64x8` and `u64x8`."""


def _is_jit_enabled() -> bool:
    is_configured = "NUMBA_DISABLE_JIT" in os.environ or Path(".numba_config.yaml").exists()
    if not is_configured and "numba" not in sys.modules:
        return True
    from numba import config

    return not config.DISABLE_JIT


COMPILED = _is_jit_enabled()
"""Whether kernels are compiled; False under ``NUMBA_DISABLE_JIT=1``, which interprets them."""

_lock = RLock()
_callbacks: list[Callable[[], None]] = []
_is_loaded = False


def before_first_compilation(callback: Callable[[], None]) -> None:
    """Call `callback` before numba compiles anything; now if that point has passed.

    Use it to register overloads and types: a kernel that is compiled before they are registered
    does not find them.
    """
    with _lock:
        if _is_loaded:
            callback()
        else:
            _callbacks.append(callback)


def load_numba() -> None:
    """Run the callbacks of `before_first_compilation`, which import numba; later calls: no-op."""
    global _is_loaded
    with _lock:
        if _is_loaded:
            return
        _is_loaded = True
        while _callbacks:
            _callbacks.pop(0)()


class LazyFunction:
    """A function that is built when Python first calls it or a kernel being compiled refers to it.

    Parameters
    ----------
    build
        Builds the function: a numba dispatcher, an intrinsic, or a function loaded from disk.
    wrapped
        The Python function it is built from, whose name and docstring it takes over.
    needs_numba
        False if `build` may work without numba, from machine code on disk.
    """

    def __init__(
        self, build: Callable[[], Any], wrapped: Any = None, needs_numba: bool = True
    ) -> None:
        self._build, self._needs_numba = build, needs_numba
        self._call: Any = self._first_call
        self._target: Any = None
        if wrapped is not None:
            update_wrapper(self, wrapped)

    def __call__(self, *args: Any) -> Any:
        """Call the function."""
        return self._call(*args)

    def _first_call(self, *args: Any) -> Any:
        return self.target(*args)

    @property
    def target(self) -> Any:
        """The function itself."""
        if self._target is None:
            if not self._needs_numba:
                # Without `_lock`: `build` may compile, and so wait for numba's compiler lock. A
                # thread that holds that lock takes `_lock` for each function its kernel refers to.
                # Two threads may build at once; `loader.load_function` returns one function.
                self._set(self._build())
            else:
                with _lock:
                    load_numba()
                    if self._target is None:
                        self._set(self._build())
        return self._target

    def _set(self, target: Any) -> None:
        self._target = self._call = target

    @property
    def _numba_type_(self) -> Any:
        """The type numba infers where a kernel refers to the function."""
        from numba.core.registry import cpu_target

        return cpu_target.typing_context.resolve_value_type(self.target)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of those who look for what others mark, such as `__wrapped__`
            raise AttributeError(name)
        return getattr(self.target, name)
