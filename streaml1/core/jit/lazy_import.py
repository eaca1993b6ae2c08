"""What compiled code is made of, made when it is first asked for: numba is loaded no sooner.

A process that finds all its machine code on disk, and calls kernels whose types are told, loads no
compiler at all; that would be half of the time to its first prediction.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from threading import RLock
from typing import Any

__all__ = ["COMPILED", "LANES", "Deferred", "load", "when_loaded"]

LANES = 8
"""Of the values that are eight floats, or eight words."""


def _compiled() -> bool:
    told = "NUMBA_DISABLE_JIT" in os.environ or Path(".numba_config.yaml").exists()
    if not told and "numba" not in sys.modules:
        return True
    from numba import config

    return not config.DISABLE_JIT


COMPILED = _compiled()

_making = RLock()
_waiting: list[Callable[[], None]] = []
_is_loaded = False


def when_loaded(tell: Callable[[], None]) -> None:
    """Tell numba something once it is there."""
    with _making:
        if _is_loaded:
            tell()
        else:
            _waiting.append(tell)


def load() -> None:
    """Have numba, and all of this folder that it must know before it compiles anything."""
    global _is_loaded
    with _making:
        if _is_loaded:
            return
        from streaml1.core.simd import (
            bits,
            f64x8,
            load_store,
            raw_memory,
            u64x8,
        )

        assert bits and f64x8 and raw_memory and load_store and u64x8
        _is_loaded = True
        while _waiting:
            _waiting.pop(0)()


class Deferred:
    """Something of numba's that is called by Python, or by kernels whose text names it.

    Parameters
    ----------
    make
        Makes it; called once.
    of
        The function that it is made of.
    alone
        Whether it may be made without numba.
    """

    def __init__(self, make: Callable[[], Any], of: Any = None, alone: bool = False) -> None:
        self._make, self._alone = make, alone
        self._call: Any = self._first
        self._real: Any = None
        if of is not None:
            update_wrapper(self, of)

    def __call__(self, *args: Any) -> Any:
        """Call it."""
        return self._call(*args)

    def _first(self, *args: Any) -> Any:
        return self.real(*args)

    @property
    def real(self) -> Any:
        """What it stands for."""
        if self._real is None:
            if self._alone:  # compiles, which who waits for this lock may be at as well
                self._have(self._make())
            else:
                with _making:
                    load()
                    if self._real is None:
                        self._have(self._make())
        return self._real

    def _have(self, real: Any) -> None:
        self._real = self._call = real

    @property
    def _numba_type_(self) -> Any:
        """What it is to numba, where a kernel's text names it."""
        from numba.core.registry import cpu_target

        return cpu_target.typing_context.resolve_value_type(self.real)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.real, name)
