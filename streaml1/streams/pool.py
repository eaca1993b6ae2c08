"""Memory that parsers write to, used again once nobody looks at it any more.

Fresh memory of a few megabytes a chunk is handed back to the system and asked for again, page by
page, which costs as much as the parsing.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from sys import getrefcount
from typing import Any, Generic, TypeVar

import numpy as np

__all__ = ["Pool", "roomy"]

T = TypeVar("T", bound=tuple[Any, ...])

LARGE = 2**20  # bytes


def roomy(shape: int | tuple[int, int], dtype: Any = np.float64) -> Any:
    """An array of which the beginning alone is used, most often.

    numpy asks for huge pages, each of which the system clears whole for its first bytes.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size < LARGE or not hasattr(mmap, "MAP_ANONYMOUS"):
        return np.empty(shape, dtype)
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.ndarray(shape, dtype, memory)


class Pool(Generic[T]):
    """Tuples of arrays, of which views may be given away; CPython counts who has them.

    Parameters
    ----------
    make
        Makes the arrays for so many bytes of text.
    lent
        Whether views are given away; else the arrays are always the same.

    Examples
    --------
    >>> import numpy as np
    >>> from streaml1.streams.pool import Pool
    >>> pool = Pool(lambda n: (np.empty(n),))
    >>> view = pool.take(5)[0][:2]
    >>> pool.take(5)[0] is view.base
    False
    >>> owner = id(view.base)
    >>> del view
    >>> id(pool.take(4)[0]) == owner
    True

    """

    def __init__(self, make: Callable[[int], T], lent: bool = True) -> None:
        self._make = make
        self._lent = lent
        self._size = 0
        self._tuples: list[tuple[T, list[int]]] = []

    def take(self, n: int) -> T:
        """Arrays for n bytes, of which nobody has a view."""
        if n > self._size:  # and some more, as texts are never of one size
            self._tuples, self._size = [], 1 << (n - 1).bit_length()
        for arrays, counts in self._tuples:
            if not self._lent or _counts(arrays) == counts:
                return arrays
        arrays = self._make(self._size)
        if len(self._tuples) < 4:
            self._tuples.append((arrays, _counts(arrays)))
        return arrays


def _counts(arrays: tuple[Any, ...]) -> list[int]:
    return [getrefcount(one) for one in arrays]
