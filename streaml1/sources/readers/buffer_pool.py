"""Memory that parsers write to, used again once nobody looks at it any more.

Fresh memory of a few megabytes a chunk is handed back to the system and asked for again, page by
page, which costs as much as the parsing.
"""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable, Hashable
from sys import getrefcount
from typing import Any, Generic, TypeVar

import numpy as np

from streaml1.core.reused import ANONYMOUS

__all__ = ["Pool", "roomy"]

T = TypeVar("T", bound=tuple[Any, ...])

LARGE = 2**20  # bytes
SHARED = 2**22  # bytes of text
KEYS = 8  # kept of a thread


def roomy(shape: int | tuple[int, int], dtype: Any = np.float64) -> Any:
    """An array of which the beginning alone is used, most often.

    numpy asks for huge pages, each of which the system clears whole for its first bytes.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size < LARGE or not ANONYMOUS:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, mmap.mmap(-1, size, ANONYMOUS))


class _Lists:
    """Arrays that pools have made, by their keys: for how many bytes, and which."""

    def __init__(self) -> None:
        self.sizes: dict[Hashable, int] = {}
        self.tuples: dict[Hashable, list[tuple[Any, list[int]]]] = {}


class _Kept(threading.local, _Lists):
    """Those of a thread."""


_kept = _Kept()


class Pool(Generic[T]):
    """Tuples of arrays, of which views may be given away; CPython counts who has them.

    Pools of one key share them within a thread: a file is read into what the last one was.

    Parameters
    ----------
    make
        Makes the arrays for so many bytes of text.
    lent
        Whether views are given away; else the arrays are always the same.
    key
        What is equal for pools that make the same; None: `make`.

    Examples
    --------
    >>> import numpy as np
    >>> from streaml1.sources.readers.buffer_pool import Pool
    >>> pool = Pool(lambda n: (np.empty(n),))
    >>> view = pool.take(5)[0][:2]
    >>> pool.take(5)[0] is view.base
    False
    >>> owner = id(view.base)
    >>> del view
    >>> id(pool.take(4)[0]) == owner
    True

    """

    def __init__(self, make: Callable[[int], T], lent: bool = True, key: Hashable = None) -> None:
        self._make = make
        self._lent = lent
        self._key = make if key is None else key
        self._own = _Lists()  # of more bytes than usual: they go with their parser

    def take(self, n: int) -> T:
        """Arrays for n bytes, of which nobody has a view."""
        lists = _kept if n <= SHARED else self._own
        size = lists.sizes.get(self._key, -1)
        if n > size:  # and some more, as texts are never of one size
            size = 1 << (n - 1).bit_length()
            lists.sizes.pop(self._key, 0)  # it becomes the last
            lists.sizes[self._key], lists.tuples[self._key] = size, []
            if len(lists.sizes) > KEYS:
                first = next(iter(lists.sizes))
                del lists.sizes[first], lists.tuples[first]
        kept: list[tuple[T, list[int]]] = lists.tuples[self._key]
        for arrays, counts in kept:
            if not self._lent or _counts(arrays) == counts:
                return arrays
        arrays = self._make(size)
        if len(kept) < 4:
            kept.append((arrays, _counts(arrays)))
        return arrays


def _counts(arrays: tuple[Any, ...]) -> list[int]:
    return [getrefcount(one) for one in arrays]
