"""Prefetch hints for the passes over rows: rows ahead, and the weights of their features.

A pass over rows waits for memory more than it computes: weights are read in the order of the
features, which is random. Loops over a row issue the hints for eight entries at a time, within the
blocks of eight that they process anyway. Separate loops for the hints, each with an end that the
processor mispredicts, would cost a tenth of a row.
"""

from __future__ import annotations

from typing import Any

from streaml1.core.jit import LANES, inlined, u64
from streaml1.core.simd import prefetch, prefetch_early

__all__ = [
    "PREFETCH_DISTANCE",
    "can_prefetch",
    "prefetch_distance",
    "prefetch_every_other",
    "prefetch_rows",
    "prefetch_weight",
    "wide_prefetch_distance",
]

# In entries of CSR rows. Ids are read to find the weights, so rows are prefetched further ahead.
_ROWS_DISTANCE = u64(512)
PREFETCH_DISTANCE = u64(256)
_WIDE_DISTANCE = u64(32)  # of slots of several lines: that many slots fit into L1

_LANES = u64(LANES)


@inlined
def prefetch_rows(ids: Any, values: Any, k: Any) -> None:
    """Prefetch the ids and values 512 entries after the k-th, a line of values each."""
    prefetch(values, k + _ROWS_DISTANCE)
    prefetch(ids, k + _ROWS_DISTANCE)


@inlined
def can_prefetch(ids: Any, hi: Any) -> Any:
    """Return whether the ids `PREFETCH_DISTANCE` after each entry before `hi` exist."""
    return hi + PREFETCH_DISTANCE + _LANES <= u64(len(ids))


@inlined
def prefetch_distance(ids: Any, hi: Any) -> Any:
    """Return `PREFETCH_DISTANCE`, or 0 if too few entries follow a row that ends at `hi`."""
    return PREFETCH_DISTANCE if can_prefetch(ids, hi) else u64(0)


@inlined
def wide_prefetch_distance(ids: Any, hi: Any) -> Any:
    """Return `prefetch_distance` for slots of several lines each."""
    return min(prefetch_distance(ids, hi), _WIDE_DISTANCE)


@inlined
def prefetch_weight(u: Any, ids: Any, k: Any) -> None:
    """Prefetch the weight of the k-th entry: one of those after a row's last block of eight."""
    prefetch_early(u, u64(ids[k]))


@inlined
def prefetch_every_other(u: Any, ids: Any, k: Any) -> None:
    """Prefetch the weights of entries k, k + 2, k + 4 and k + 6.

    `margin` prefetches these, and `apply_gradient` of the same row those in between: each pass
    issues half of the hints.
    """
    for j in range(k, k + _LANES, u64(2)):
        prefetch_early(u, u64(ids[j]))
