"""Arrays that begin where a line of the cache does, or a huge page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from streaml1.core.reused import Memories

__all__ = ["in_lines", "unset_in_lines"]

LINE, PAGE, LARGE = 64, 2**21, 2**20  # bytes
LARGEST, KEPT = 2**24, 2**27  # of an array whose memory is used again; and of all such memory


def in_lines(n: int, dtype: Any) -> Any:
    """`n` zeros that begin where a line of the cache does: eight floats of them are in one.

    From a megabyte on they begin where a huge page does, and are in such pages if the system gives
    them where it is asked: of others, which are anywhere in memory, some want the same places of
    the second cache, and each has to be asked for when it is met first. Numpy asks, for what is
    twice as large as a page. Up to 16 MB they may be where arrays were that nobody has any more:
    to have a page that the system has cleared costs more than to clear it.
    """
    array, is_zeros = _within(np.zeros, n, dtype)
    if not is_zeros:
        array.fill(0)
    return array


def unset_in_lines(n: int, dtype: Any) -> Any:
    """As `in_lines`, but with whatever was in that memory."""
    return _within(np.empty, n, dtype)[0]


def _within(made: Callable[[int, Any], Any], n: int, dtype: Any) -> tuple[Any, bool]:
    """An array, and whether it is as it was made; of a megabyte to 16 it is made as zeros."""
    size = n * np.dtype(dtype).itemsize
    unit = PAGE if size >= LARGE else LINE
    room = unit + max(size, unit)  # in which it can be aligned
    if LARGE <= size <= LARGEST:
        memory, new = _memories.take(room, 2 * room)
    else:
        memory, new = made(room, np.uint8), True
    first = -memory.ctypes.data % unit
    return memory[first : first + size].view(dtype), new


def _zeros(size: int) -> Any:
    return np.zeros(size, np.uint8)


_memories = Memories(_zeros, KEPT)
