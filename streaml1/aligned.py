"""Arrays that begin where a line of the cache does, or a huge page."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.reused import Memories

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
    size = n * np.dtype(dtype).itemsize
    if not LARGE <= size <= LARGEST:
        return _aligned(np.zeros(_room(size), np.uint8), size, dtype)
    array, new = _used_again(size, dtype)
    if not new:
        array.fill(0)
    return array


def unset_in_lines(n: int, dtype: Any) -> Any:
    """As `in_lines`, but with whatever was in that memory."""
    size = n * np.dtype(dtype).itemsize
    if not LARGE <= size <= LARGEST:
        return _aligned(np.empty(_room(size), np.uint8), size, dtype)
    return _used_again(size, dtype)[0]


def _unit(size: int) -> int:
    return PAGE if size >= LARGE else LINE


def _room(size: int) -> int:
    """Bytes in which so many can be aligned."""
    return _unit(size) + max(size, _unit(size))


def _aligned(memory: Any, size: int, dtype: Any) -> Any:
    first = -memory.ctypes.data % _unit(size)
    return memory[first : first + size].view(dtype)


def _used_again(size: int, dtype: Any) -> tuple[Any, bool]:
    """An array, and whether it is zeros."""
    memory, new = _memories.take(_room(size), 2 * _room(size))
    return _aligned(memory, size, dtype), new


def _zeros(size: int) -> Any:
    return np.zeros(size, np.uint8)


_memories = Memories(_zeros, KEPT)
