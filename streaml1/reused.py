"""Memory for what lives as long as a block of examples, used again once nobody looks at it.

The system clears fresh memory, and hands it over page by page as it is met: for a few megabytes a
block that may cost a third of the learning, and the allocator gives back what is free now and then.
"""

from __future__ import annotations

import math
import mmap
import threading
from sys import getrefcount
from typing import Any

import numpy as np

__all__ = ["ANONYMOUS", "reused"]

# How memory of its own is asked for, in no huge page; 0: this system has none.
ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS if hasattr(mmap, "MAP_ANONYMOUS") else 0

LEAST, LARGE = 2**16, 2**24  # bytes of an array; smaller and larger ones are made as any other
MOST = 2**27  # bytes kept by a thread, those in use among them; of most the beginning alone is used


class _Kept(threading.local):
    """What arrays of a thread were made in, the last used last."""

    def __init__(self) -> None:
        self.memories: list[mmap.mmap] = []


_kept = _Kept()


def reused(shape: int | tuple[int, ...], dtype: Any = np.float64) -> Any:
    """An array with whatever was in that memory, of which the beginning may be all that is used.

    The memory is another array's as soon as nobody holds this one or a view of it: CPython counts.
    It is in no huge page: the system would clear a whole one for its first bytes.

    Examples
    --------
    >>> from streaml1.reused import reused
    >>> a = reused(10_000)
    >>> place, view = a.ctypes.data, a[:10]
    >>> del a
    >>> reused(10_000).ctypes.data == place
    False
    >>> del view
    >>> reused((5_000, 2), "int64").ctypes.data == place
    True
    """
    size = (shape if isinstance(shape, int) else math.prod(shape)) * np.dtype(dtype).itemsize
    if not LEAST <= size <= LARGE or not ANONYMOUS:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, _memory(size))


def _memory(size: int) -> mmap.mmap:
    """Memory of so many bytes or more, and not of many more, that nobody looks at."""
    memories = _kept.memories
    found, least = -1, 4 * size + 1
    for k in range(len(memories)):
        if size <= len(memories[k]) < least and getrefcount(memories[k]) == _ALONE:
            found, least = k, len(memories[k])
    memory = memories.pop(found) if found >= 0 else None
    if memory is None or getrefcount(memory) != _ALONE:  # a signal's handler may have come between
        memory = mmap.mmap(-1, 1 << (size - 1).bit_length(), ANONYMOUS)
        left = MOST - len(memory)
        while memories and sum(map(len, memories)) > left:
            del memories[0]
    memories.append(memory)
    return memory


def _references() -> int:
    listed = [object()]
    return getrefcount(listed[0])


_ALONE = _references()
