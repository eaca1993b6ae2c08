"""Which features have entered and left a model."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import kernel
from streaml1.models.state.pruning import farthest

__all__ = ["Changes", "ChangeSet", "ChangeTracker"]


NamedWeights = list[tuple[Hashable, float]]


class Changes(NamedTuple):
    """Features that entered and left a model, the farthest from zero first.

    Parameters
    ----------
    born
        Names and weights of those that had none before.
    died
        Names of those that have none now, and the weights they had.
    """

    born: NamedWeights
    died: NamedWeights


class WeightSlice(NamedTuple):
    """Some features of a model.

    Parameters
    ----------
    slots, weights
        Of each.
    names
        What tells their names and hashes by slot.
    """

    slots: Any
    weights: Any
    vocabulary: Any

    def hashes(self) -> Any:
        """Stable hashes of their names, uint64."""
        return self.vocabulary.hashes(self.slots)

    def at(self, chosen: Any) -> WeightSlice:
        """Those at some places, or of which a bool each is true."""
        return WeightSlice(self.slots[chosen], self.weights[chosen], self.vocabulary)

    def told(self) -> NamedWeights:
        """Their names and weights."""
        return list(zip(self.vocabulary.names_at(self.slots), self.weights.tolist(), strict=True))


class ChangeSet(NamedTuple):
    """Features that entered and left a model, not yet by name.

    Slots keep their names in what tells these, whatever is learnt later: where they move, something
    else tells the names from then on.
    """

    born: WeightSlice
    died: tuple[WeightSlice, ...]
    exclusive: Callable[[], AbstractContextManager[Any]]
    """Keeps other threads from changing the model."""

    @property
    def counts(self) -> tuple[int, int]:
        """How many entered, and how many left."""
        return len(self.born.slots), sum(len(some.slots) for some in self.died)

    def told(self, most: int | None) -> Changes:
        """At most so many of each by name."""
        with self.exclusive():
            return Changes(_told((self.born,), most), _told(self.died, most))


class TrackedWeights(NamedTuple):
    """The weights of a model at a look.

    Parameters
    ----------
    slots, weights
        Of those that were not zero, in the order of slots.
    gone
        Features that have lost their slot since, by the names of then.
    """

    slots: Any
    weights: Any
    gone: tuple[WeightSlice, ...] = ()


class ChangeTracker:
    """Tells what has changed in a model between two looks; made by a model's `watch()`.

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

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        slots, w = engine.live_weights()
        self.state = TrackedWeights(slots, w)

    @property
    def held(self) -> int:
        """How many features had a weight at the last look."""
        return len(self.state.slots)

    def changes(self) -> Changes:
        """What has changed since the last call, or since the watch was made."""
        return self.look().told(None)

    def look(self) -> ChangeSet:
        """The same, of which names are looked up when they are asked for."""
        engine = self._engine
        with engine.exclusive():
            slots, w = engine.live_weights()
            last, now = self.state, TrackedWeights(slots, w)
            self.state = now
            entered, left = _symmetric_difference(now, last)
            born, died = (
                WeightSlice(*entered, engine.vocabulary),
                [WeightSlice(*left, engine.vocabulary)],
            )
            if last.gone:  # some of them may have come back, to another slot
                born, gone = _apart(born, last.gone)
                died += gone
        return ChangeSet(born, tuple(died), engine.exclusive)

    def __setstate__(self, own: dict[str, Any]) -> None:
        self.__dict__.update(own)
        self._engine.trackers.add(self)

    def moved(self, vocabulary: Any, new_slots: Any) -> TrackedWeights:
        """The state once the slots have moved to new places."""
        slots, w, gone = self.state
        moved = new_slots[slots]
        lost = moved < 0
        if lost.any():
            places = np.arange(np.count_nonzero(lost))
            gone = (*gone, WeightSlice(places, w[lost], vocabulary.subset(slots[lost])))
        slots, w = moved[~lost], w[~lost]
        order = np.argsort(slots)
        return TrackedWeights(slots[order], w[order], gone)


@kernel
def _parted(a: Any, b: Any, only_a: Any, only_b: Any) -> Any:
    """The places of what is in one of two arrays alone, both in order, with room for one more.

    Returns
    -------
    How many there are of each.
    """
    one = np.uint64(1)
    i, j, n, m = np.uint64(0), np.uint64(0), np.uint64(0), np.uint64(0)
    while i < np.uint64(len(a)) and j < np.uint64(len(b)):
        x, y = a[i], b[j]
        only_a[n], only_b[m] = i, j  # which of them stays cannot be foretold
        n += np.uint64(x < y)
        m += np.uint64(y < x)
        i += np.uint64(x <= y)
        j += np.uint64(y <= x)
    for k in range(i, np.uint64(len(a))):
        only_a[n] = k
        n += one
    for k in range(j, np.uint64(len(b))):
        only_b[m] = k
        m += one
    return n, m


def _symmetric_difference(
    a: TrackedWeights, b: TrackedWeights
) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Slots and weights of those that are at one of two looks alone."""
    only_a, only_b = np.empty(len(a.slots) + 1, np.int64), np.empty(len(b.slots) + 1, np.int64)
    n, m = _parted(a.slots, b.slots, only_a, only_b)
    only_a, only_b = only_a[: int(n)], only_b[: int(m)]
    return (a.slots[only_a], a.weights[only_a]), (b.slots[only_b], b.weights[only_b])


def _apart(
    born: WeightSlice, gone: tuple[WeightSlice, ...]
) -> tuple[WeightSlice, list[WeightSlice]]:
    """Those born and those gone, but for features that are both."""
    new, old = born.hashes(), [some.hashes() for some in gone]
    left = [some.at(~np.isin(hashes, new)) for some, hashes in zip(gone, old, strict=True)]
    return born.at(~np.isin(new, np.concatenate(old))), left


def _told(groups: Sequence[WeightSlice], most: int | None) -> NamedWeights:
    """Names and weights, no more than `most`, the farthest from zero first."""
    chosen = farthest(np.concatenate([some.weights for some in groups]), most)
    entries: NamedWeights = []
    for some in groups:
        n = len(some.slots)
        entries += some.at(chosen[:n]).told()
        chosen = chosen[n:]
    return sorted(entries, key=lambda one: -abs(one[1]))
