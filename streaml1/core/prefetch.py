"""Memory that is asked for before it is used: rows that follow, and weights of what they have.

It is asked for where a row is walked by eights anyway. Loops of their own for it, each with an end
that no processor foresees, cost a tenth of a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import LANES, inlined
from streaml1.core.simd import prefetch, prefetch_early

__all__ = ["AHEAD", "ahead", "ask_half", "ask_one", "ask_rows", "reaches"]

FAR = np.uint64(512)  # how many entries ahead the rows are
AHEAD = np.uint64(256)  # and those whose weights are asked for

EIGHT, TWO = np.uint64(LANES), np.uint64(2)


@inlined
def ask_rows(ids: Any, values: Any, k: Any) -> None:
    """Have memory asked for of eight entries far behind the k-th."""
    prefetch(values, k + FAR)
    prefetch(ids, k + FAR)


@inlined
def reaches(ids: Any, hi: Any) -> Any:
    """Whether there are entries whose weights can be asked for while a row is walked."""
    return hi + AHEAD + EIGHT <= np.uint64(len(ids))


@inlined
def ahead(ids: Any, hi: Any) -> Any:
    """How many entries further on weights are asked for; 0 where there are too few behind a row."""
    return AHEAD if reaches(ids, hi) else np.uint64(0)


@inlined
def ask_one(u: Any, ids: Any, k: Any) -> None:
    """Have memory asked for of the weight of an entry, which is behind whole eights of its row."""
    prefetch_early(u, np.uint64(ids[k]))


@inlined
def ask_half(u: Any, ids: Any, k: Any) -> None:
    """Have memory asked for of every other weight of eight entries."""
    for j in range(k, k + EIGHT, TWO):
        prefetch_early(u, np.uint64(ids[j]))
