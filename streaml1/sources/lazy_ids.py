"""The ids of examples, read only if they are used: learning does not need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

__all__ = ["LazyIds"]

Id = int | str | None


class LazyIds(Sequence[Id]):
    """A sequence of ids that are read together when the first one is used.

    Parameters
    ----------
    read
        ``read(lo, hi)`` returns the ids of consecutive examples.
    lo, hi
        The examples.

    Examples
    --------
    >>> from streaml1.sources.lazy_ids import LazyIds
    >>> ids = LazyIds(lambda lo, hi: [f"r{k}" for k in range(lo, hi)], 0, 5)
    >>> len(ids), list(ids[1:3])
    (5, ['r1', 'r2'])
    """

    __slots__ = ("_found", "_hi", "_lo", "_read")

    def __init__(self, read: Callable[[int, int], list[Id]], lo: int, hi: int) -> None:
        self._read, self._lo, self._hi = read, lo, hi
        self._found: list[Id] | None = None

    def __len__(self) -> int:
        return self._hi - self._lo

    @overload
    def __getitem__(self, k: int) -> Id: ...

    @overload
    def __getitem__(self, k: slice) -> Sequence[Id]: ...

    def __getitem__(self, k: int | slice) -> Id | Sequence[Id]:
        if self._found is None and isinstance(k, slice):
            lo, hi, step = k.indices(len(self))
            if step == 1:
                return LazyIds(self._read, self._lo + lo, self._lo + max(lo, hi))
        if self._found is None:
            self._found = self._read(self._lo, self._hi)
        return self._found[k]
