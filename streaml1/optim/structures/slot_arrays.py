"""Arrays with an entry for each slot, and what becomes of them when slots are made or moved."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.aligned import in_lines

__all__ = ["grown", "moved", "records", "scratch_for", "zeros"]

ROOM_LEAST = 256


def records(n: int, dtype: Any) -> Any:
    """`n` zeros that compiled code reads as records, as `in_lines`."""
    return in_lines(n, dtype).view(np.recarray)


def zeros(n: int, like: Any) -> Any:
    """`n` zeros of the kind of the array `like`, as `in_lines`."""
    return records(n, like.dtype) if like.dtype.names else in_lines(n, like.dtype)


def grown(a: Any, d: int) -> Any:
    """The same entries, and zeros up to `d`."""
    larger = zeros(d, a)
    larger[: len(a)] = a
    return larger


def scratch_for(nnz: int, scratch: Any) -> Any:
    """What a row of `nnz` non-zeros is kept in: `scratch` where it is long enough."""
    if nnz <= len(scratch):
        return scratch
    longer = in_lines(max(nnz, 2 * len(scratch), ROOM_LEAST), scratch.dtype)
    return longer.view(type(scratch))


def moved(a: Any, new_slots: Any, d: int) -> Any:
    """`d` entries: the j-th has gone to `new_slots[j]`, or where that is negative away."""
    kept = np.flatnonzero(new_slots >= 0)  # places are read at a third of the cost of flags
    there = zeros(d, a)
    there[new_slots[kept]] = a[kept]
    return there
