"""Which weights go where there are too many."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["smallest"]


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
