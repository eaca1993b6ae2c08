"""The weights farthest from zero, and the nearest, which go where there are too many."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["farthest", "smallest"]


def smallest(slots: Any, sizes: Any, n: int, names: Any) -> Any:
    """The `n` slots whose weights are nearest to zero.

    Of equal ones those go whose names have the smaller hash: slots tell nothing that would be the
    same after names were given back, or after loading.
    """
    edge = np.partition(sizes, n - 1)[n - 1]
    below = slots[sizes < edge]
    ties = slots[sizes == edge]
    order = np.argsort(names.hashes(ties), kind="stable")[: n - len(below)]
    return np.concatenate([below, ties[order]])


def farthest(w: Any, most: int | None) -> Any:
    """Which are the largest weights, no more than `most`, a bool each; the first of equal ones."""
    if most is None or len(w) <= most:
        return np.ones(len(w), bool)
    if not most:
        return np.zeros(len(w), bool)
    sizes = np.abs(w)
    least = np.partition(sizes, len(w) - most)[len(w) - most]
    chosen = sizes > least
    ties = np.flatnonzero(sizes == least)
    chosen[ties[: most - np.count_nonzero(chosen)]] = True
    return chosen
