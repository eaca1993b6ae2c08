"""Arrays that begin where a line of the cache does, or a huge page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["in_lines", "unset_in_lines"]

LINE, PAGE, LARGE = 64, 2**21, 2**20  # bytes


def in_lines(n: int, dtype: Any) -> Any:
    """`n` zeros that begin where a line of the cache does: eight floats of them are in one.

    From a megabyte on they begin where a huge page does, and are in such pages if the system gives
    them where it is asked: of others, which are anywhere in memory, some want the same places of
    the second cache, and each has to be asked for when it is met first. Numpy asks, for what is
    twice as large as a page.
    """
    return _within(np.zeros, n, dtype)


def unset_in_lines(n: int, dtype: Any) -> Any:
    """As `in_lines`, but with whatever was in that memory."""
    return _within(np.empty, n, dtype)


def _within(made: Callable[[int, Any], Any], n: int, dtype: Any) -> Any:
    size = n * np.dtype(dtype).itemsize
    unit = PAGE if size >= LARGE else LINE
    memory = made(unit + max(size, unit), np.uint8)
    first = -memory.ctypes.data % unit
    return memory[first : first + size].view(dtype)
