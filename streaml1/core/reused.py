"""Memory used again once nobody looks at it: that of blocks of examples, of models that grew.

The system clears fresh memory, and hands it over page by page as it is met: for a few megabytes a
block that may cost a third of the learning, and the allocator gives back what is free now and then.
"""

from __future__ import annotations

import math
import mmap
import threading
from collections.abc import Callable, Sized
from sys import getrefcount
from typing import Any, Generic, TypeVar

import numpy as np

__all__ = ["ANONYMOUS", "Memories", "reused"]

T = TypeVar("T", bound=Sized)

# How memory of its own is asked for, in no huge page; 0: this system has none.
ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS if hasattr(mmap, "MAP_ANONYMOUS") else 0

LEAST, LARGE = 2**16, 2**24  # bytes of an array; smaller and larger ones are made as any other
MOST = 2**27  # bytes kept by a thread, those in use among them; of most the beginning alone is used


class Memories(Generic[T]):
    """What arrays were made in, the last used last; CPython counts who has them.

    Parameters
    ----------
    make
        Makes memory for so many bytes, or for more.
    most
        Bytes kept, those in use among them.
    """

    def __init__(self, make: Callable[[int], T], most: int) -> None:
        self._make = make
        self._most = most
        self._kept: list[T] = []
        self._alone = threading.Lock()

    def take(self, size: int, largest: int) -> tuple[T, bool]:
        """Memory of `size` bytes, or of `largest` at most, that nobody has; and if it is new."""
        if not self._alone.acquire(blocking=False):  # nobody waits, a signal's handler least of all
            return self._make(size), True
        try:
            return self._taken(size, largest)
        finally:
            self._alone.release()

    def _taken(self, size: int, largest: int) -> tuple[T, bool]:
        kept = self._kept
        found, least = -1, largest + 1
        for k in range(len(kept)):
            if size <= len(kept[k]) < least and getrefcount(kept[k]) == _ALONE:
                found, least = k, len(kept[k])
        if found >= 0:
            memory = kept.pop(found)
        else:
            memory = self._make(size)
            left = self._most - len(memory)
            while kept and sum(map(len, kept)) > left:
                del kept[0]
        kept.append(memory)
        return memory, found < 0


def _anonymous(size: int) -> mmap.mmap:
    return mmap.mmap(-1, 1 << (size - 1).bit_length(), ANONYMOUS)


class _OfThread(threading.local):
    """What blocks of a thread are written to: the next block is most often its own."""

    def __init__(self) -> None:
        self.memories = Memories(_anonymous, MOST)


_own = _OfThread()


def reused(shape: int | tuple[int, ...], dtype: Any = np.float64) -> Any:
    """An array with whatever was in that memory, of which the beginning may be all that is used.

    The memory is another array's as soon as nobody holds this one or a view of it: CPython counts.
    It is in no huge page: the system would clear a whole one for its first bytes.

    Examples
    --------
    >>> from streaml1.core.reused import reused
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
    return np.ndarray(shape, dtype, _own.memories.take(size, 4 * size)[0])


def _references() -> int:
    listed = [object()]
    return getrefcount(listed[0])


_ALONE = _references()
