"""Features that have entered and left a model between two points in time."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import numpy as np

from streaml1.core.jit import kernel, u64
from streaml1.core.types import Bools, Floats, Hashes, Ints
from streaml1.models.state.pruning import largest_weights

__all__ = ["Changes", "ChangeSet", "ChangeTracker"]

NamedWeights = list[tuple[Hashable, float]]


class NamesBySlot(Protocol):
    """The part of a vocabulary that maps slots back to names."""

    def names_at(self, slots: Ints) -> list[Hashable]:
        """Return the names of slots."""

    def hashes(self, slots: Ints) -> Hashes:
        """Return the stable hashes of the names of slots."""

    def subset(self, slots: Ints) -> Any:
        """Return a vocabulary of these slots, renumbered from 0."""


class Changes(NamedTuple):
    """Features that entered and left a model, largest absolute weight first.

    Parameters
    ----------
    born
        Names and weights of the features that had no weight before.
    died
        Names of the features that have no weight now, and their former weights.
    """

    born: NamedWeights
    died: NamedWeights


class WeightSlice(NamedTuple):
    """Slots and weights of some features of a model, with the vocabulary that names the slots."""

    slots: Ints
    weights: Floats
    vocabulary: NamesBySlot

    def hashes(self) -> Hashes:
        """Return the stable hashes of the names."""
        return self.vocabulary.hashes(self.slots)

    def select(self, chosen: Bools) -> WeightSlice:
        """Return the features for which the mask is true."""
        return WeightSlice(self.slots[chosen], self.weights[chosen], self.vocabulary)

    def named(self) -> NamedWeights:
        """Return names and weights."""
        return list(zip(self.vocabulary.names_at(self.slots), self.weights.tolist(), strict=True))


class ChangeSet(NamedTuple):
    """Features that entered and left a model, by slot; names are looked up on demand.

    The slices stay valid whatever is learnt later: a vocabulary never renames a slot. When slots
    move, the model gets a new vocabulary.
    """

    born: WeightSlice
    died: tuple[WeightSlice, ...]
    exclusive: Callable[[], AbstractContextManager[Any]]
    """Context manager that keeps other threads from changing the model."""

    @property
    def counts(self) -> tuple[int, int]:
        """Number of features that entered and that left."""
        return len(self.born.slots), sum(len(group.slots) for group in self.died)

    def named(self, max_features: int | None) -> Changes:
        """Return at most `max_features` of each kind, by name."""
        with self.exclusive():
            return Changes(_named((self.born,), max_features), _named(self.died, max_features))


class TrackedWeights(NamedTuple):
    """The non-zero weights of a model at one point in time.

    Parameters
    ----------
    slots, weights
        The non-zero weights, in slot order.
    gone
        Features whose slot was released since, with the vocabulary of that time.
    """

    slots: Ints
    weights: Floats
    gone: tuple[WeightSlice, ...] = ()


class ChangeTracker:
    """Tracker of the features that enter and leave a model; returned by a model's `watch()`.

    Examples
    --------
    >>> import streaml1
    >>> model = streaml1.ElasticNetClassifier(l1=0.1, lr=1.0, schedule="constant")
    >>> watch = model.watch()
    >>> model.learn_one({"cheap": 1.0}, True)
    >>> watch.changes()
    Changes(born=[('cheap', 0.4)], died=[])
    >>> for _ in range(4):
    ...     model.learn_one({}, False)
    >>> watch.changes()
    Changes(born=[], died=[('cheap', 0.4)])
    """

    def __init__(self, model_state: Any) -> None:
        self._model_state = model_state
        slots, w = model_state.live_weights()
        self.state = TrackedWeights(slots, w)

    @property
    def held(self) -> int:
        """Number of features that had a weight at the last call of `changes` or `look`."""
        return len(self.state.slots)

    def changes(self) -> Changes:
        """Return what has changed since the last call, or since the tracker was created."""
        return self.look().named(None)

    def look(self) -> ChangeSet:
        """Return the changes like `changes`, but look names up on demand."""
        model_state = self._model_state
        with model_state.exclusive():
            slots, w = model_state.live_weights()
            last, now = self.state, TrackedWeights(slots, w)
            self.state = now
            entered, left = _symmetric_difference(now, last)
            born, died = (
                WeightSlice(*entered, model_state.vocabulary),
                [WeightSlice(*left, model_state.vocabulary)],
            )
            if last.gone:  # a feature may have returned in another slot
                born, gone = _without_returned(born, last.gone)
                died += gone
        return ChangeSet(born, tuple(died), model_state.exclusive)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._model_state.trackers.add(self)

    def remapped(self, vocabulary: NamesBySlot, new_slots: Ints) -> TrackedWeights:
        """Return the tracked weights after slots move to `new_slots`, -1 for released ones."""
        slots, w, gone = self.state
        moved = new_slots[slots]
        lost = moved < 0
        if lost.any():
            positions = np.arange(np.count_nonzero(lost))
            gone = (*gone, WeightSlice(positions, w[lost], vocabulary.subset(slots[lost])))
        slots, w = moved[~lost], w[~lost]
        order = np.argsort(slots)
        return TrackedWeights(slots[order], w[order], gone)


@kernel
def _exclusive_positions(a: Any, b: Any, only_a: Any, only_b: Any) -> Any:
    """Write the positions of elements that only one of two ascending arrays has; return the counts.

    The outputs need one element more than the inputs: each iteration writes both, unconditionally.
    """
    i, j, n, m = u64(0), u64(0), u64(0), u64(0)
    # Invariant: only_a[:n] and only_b[:m] are final for a[:i] and b[:j].
    while i < np.uint64(len(a)) and j < np.uint64(len(b)):
        x, y = a[i], b[j]
        only_a[n], only_b[m] = i, j  # branch-free: the outcome is unpredictable
        n += np.uint64(x < y)
        m += np.uint64(y < x)
        i += np.uint64(x <= y)
        j += np.uint64(y <= x)
    for k in range(i, np.uint64(len(a))):
        only_a[n] = k
        n += u64(1)
    for k in range(j, np.uint64(len(b))):
        only_b[m] = k
        m += u64(1)
    return n, m


def _symmetric_difference(
    a: TrackedWeights, b: TrackedWeights
) -> tuple[tuple[Ints, Floats], tuple[Ints, Floats]]:
    """Return slots and weights that only `a` has, and those that only `b` has."""
    only_a, only_b = np.empty(len(a.slots) + 1, np.int64), np.empty(len(b.slots) + 1, np.int64)
    n, m = _exclusive_positions(a.slots, b.slots, only_a, only_b)
    only_a, only_b = only_a[: int(n)], only_b[: int(m)]
    return (a.slots[only_a], a.weights[only_a]), (b.slots[only_b], b.weights[only_b])


def _without_returned(
    born: WeightSlice, gone: tuple[WeightSlice, ...]
) -> tuple[WeightSlice, list[WeightSlice]]:
    """Return the born and the gone features without those that are both."""
    new, old = born.hashes(), [group.hashes() for group in gone]
    died = [group.select(~np.isin(hashes, new)) for group, hashes in zip(gone, old, strict=True)]
    return born.select(~np.isin(new, np.concatenate(old))), died


def _named(groups: Sequence[WeightSlice], max_features: int | None) -> NamedWeights:
    """Return names and weights of the `max_features` largest weights, largest first."""
    chosen = largest_weights(np.concatenate([group.weights for group in groups]), max_features)
    named: NamedWeights = []
    for group in groups:
        n = len(group.slots)
        named += group.select(chosen[:n]).named()
        chosen = chosen[n:]
    return sorted(named, key=lambda pair: -abs(pair[1]))
