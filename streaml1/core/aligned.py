"""Arrays that begin at a cache line or at a huge page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["aligned_zeros", "aligned_empty"]

LINE, HUGE_PAGE, LARGE = 64, 2**21, 2**20  # bytes


def aligned_zeros(n: int, dtype: Any) -> Any:
    """Return `n` zeros that begin at a cache line, so that no eight floats straddle two lines.

    From one megabyte on they begin at a huge page. numpy requests huge pages for allocations of
    4 MiB and more (madvise), which is why the allocation is padded to at least twice a page.
    Small pages are scattered over physical memory: some of them compete for the same sets of the
    second-level cache, and each costs a page fault of its own when it is first written.
    """
    return _aligned(np.zeros, n, dtype)


def aligned_empty(n: int, dtype: Any) -> Any:
    """Return an aligned array as `aligned_zeros` does, but uninitialized."""
    return _aligned(np.empty, n, dtype)


def _aligned(make: Callable[[int, Any], Any], n: int, dtype: Any) -> Any:
    size = n * np.dtype(dtype).itemsize
    unit = HUGE_PAGE if size >= LARGE else LINE
    memory = make(unit + max(size, unit), np.uint8)  # one unit more, to align within it
    first = -memory.ctypes.data % unit
    return memory[first : first + size].view(dtype)
