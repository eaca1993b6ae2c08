"""What readers of text give: examples as rows, which are dicts to whoever looks at one."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, overload

import numpy as np

__all__ = ["IntRows"]


class IntRows(Sequence[dict[Hashable, Any]]):
    """Examples whose features have ints for names.

    Models learn the rows without a look at one of them; as a sequence they are dicts, made when
    they are asked for. A slice copies nothing.

    Parameters
    ----------
    ids
        The names, uint32 or int64; one that comes twice in a row counts with the sum.
    values
        Their values, float64.
    indptr
        Row i is the part `indptr[i]:indptr[i + 1]`, int64.

    Examples
    --------
    >>> import numpy as np
    >>> ids = np.array([3, 7, 3], np.uint32)
    >>> rows = IntRows(ids, np.array([0.5, 1.0, 2.0]), np.array([0, 2, 3]))
    >>> len(rows), rows[0], list(rows[1:])
    (2, {3: 0.5, 7: 1.0}, [{3: 2.0}])
    """

    __slots__ = ("ids", "indptr", "values")

    def __init__(self, ids: Any, values: Any, indptr: Any) -> None:
        self.ids = ids
        self.values = values
        self.indptr = indptr

    def __len__(self) -> int:
        return len(self.indptr) - 1

    @overload
    def __getitem__(self, k: int) -> dict[Hashable, Any]: ...

    @overload
    def __getitem__(self, k: slice) -> IntRows: ...

    def __getitem__(self, k: int | slice) -> dict[Hashable, Any] | IntRows:
        if isinstance(k, slice):
            lo, hi, step = k.indices(len(self))
            if step != 1:
                raise ValueError(f"a step of {step} is none of rows: they are sliced one by one")
            return IntRows(self.ids, self.values, self.indptr[lo : max(lo, hi) + 1])
        row = range(len(self))[k]
        lo, hi = int(self.indptr[row]), int(self.indptr[row + 1])
        names, values = self.ids[lo:hi].tolist(), self.values[lo:hi].tolist()
        x: dict[Hashable, Any] = dict(zip(names, values, strict=True))
        if len(x) < len(names):
            x = {}
            for name, value in zip(names, values, strict=True):
                x[name] = x.get(name, 0.0) + value
        return x

    def __iter__(self) -> Iterator[dict[Hashable, Any]]:
        return map(self.__getitem__, range(len(self)))

    def parts(self) -> tuple[Any, Any, Any]:
        """`ids`, `values` and `indptr` of these rows alone."""
        lo, hi = int(self.indptr[0]), int(self.indptr[-1])
        return self.ids[lo:hi], self.values[lo:hi], self.indptr - lo

    @staticmethod
    def joined(pieces: Sequence[IntRows]) -> IntRows:
        """The rows of several, one after the other."""
        if len(pieces) == 1:
            return pieces[0]
        ids, values, pointers = zip(*(piece.parts() for piece in pieces), strict=True)
        counts = [np.diff(indptr) for indptr in pointers]
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
        return IntRows(np.concatenate(ids), np.concatenate(values), indptr)
