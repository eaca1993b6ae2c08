"""Selection of the weights of smallest and of largest absolute value."""

from __future__ import annotations

import numpy as np

from streaml1.core.types import Bools, Floats, Ints
from streaml1.features.vocabulary import VocabularySnapshot

__all__ = ["largest_weights", "smallest_slots"]


def smallest_slots(slots: Ints, sizes: Floats, n: int, vocabulary: VocabularySnapshot) -> Ints:
    """Return the `n` slots whose weights have the smallest absolute values `sizes`.

    Ties are broken by the hash of the name, smaller first. Slot numbers cannot break them: they
    change when slots are released, and when a model is loaded.
    """
    edge = np.partition(sizes, n - 1)[n - 1]
    below = slots[sizes < edge]
    ties = slots[sizes == edge]
    order = np.argsort(vocabulary.hashes(ties), kind="stable")[: n - len(below)]
    return np.concatenate([below, ties[order]])


def largest_weights(w: Floats, max_weights: int | None) -> Bools:
    """Return a mask of the `max_weights` largest absolute weights; the first of equal ones wins."""
    if max_weights is None or len(w) <= max_weights:
        return np.ones(len(w), bool)
    if not max_weights:
        return np.zeros(len(w), bool)
    sizes = np.abs(w)
    edge = np.partition(sizes, len(w) - max_weights)[len(w) - max_weights]
    chosen: Bools = sizes > edge
    ties = np.flatnonzero(sizes == edge)
    chosen[ties[: max_weights - np.count_nonzero(chosen)]] = True
    return chosen
