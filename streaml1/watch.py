"""Which features have entered and left a model."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Changes", "Watch"]


class Changes(NamedTuple):
    """Features that entered and left a model, the farthest from zero first.

    Parameters
    ----------
    born
        Names and weights of those that had none before.
    died
        Names of those that have none now, and the weights they had.
    """

    born: list[tuple[Hashable, float]]
    died: list[tuple[Hashable, float]]


class Seen(NamedTuple):
    """The weights of a model at a look.

    Parameters
    ----------
    slots, weights
        Of those that were not zero, in the order of slots.
    gone
        Those of features that have lost their slot since.
    """

    slots: Any
    weights: Any
    gone: dict[Hashable, float]


class Watch:
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
        slots, w = engine.alive()
        self.state = Seen(slots, w, {})

    @property
    def held(self) -> int:
        """How many features had a weight at the last look."""
        return len(self.state.slots)

    def changes(self) -> Changes:
        """What has changed since the last call, or since the watch was made."""
        return self.counted(None)[0]

    def counted(self, most: int | None) -> tuple[Changes, int, int]:
        """The same, with at most so many of each by name, and how many there are of each."""
        engine = self._engine
        with engine.alone():
            slots, w = engine.alive()
            last, now, size = self.state, Seen(slots, w, {}), engine.rule.size
            self.state = now
            born, died = _without(now, last.slots, size), _without(last, now.slots, size)
            names = engine.names
            if last.gone:  # some of them may have come back, to another slot
                return _with_those_gone(_named(*born, names), _named(*died, names), last.gone)
            named = _named(*_farthest(*born, most), names), _named(*_farthest(*died, most), names)
        return Changes(*map(_sorted, named)), len(born[0]), len(died[0])

    def __setstate__(self, own: dict[str, Any]) -> None:
        self.__dict__.update(own)
        self._engine.watches.add(self)

    def moved(self, names: Any, new_slots: Any) -> Seen:
        """The state once the slots have moved to new places."""
        slots, w, gone = self.state
        moved = new_slots[slots]
        lost = moved < 0
        gone = gone | dict(_named(slots[lost], w[lost], names))
        slots, w = moved[~lost], w[~lost]
        order = np.argsort(slots)
        return Seen(slots[order], w[order], gone)


Entries = list[tuple[Hashable, float]]


def _without(some: Seen, slots: Any, size: int) -> tuple[Any, Any]:
    """Slots and weights of those that are not among some slots, all of them below `size`."""
    among = np.zeros(size, bool)
    among[slots] = True
    kept = ~among[some.slots]
    return some.slots[kept], some.weights[kept]


def _named(slots: Any, w: Any, names: Any) -> Entries:
    return list(zip(names.names_at(slots), w.tolist(), strict=True))


def _farthest(slots: Any, w: Any, most: int | None) -> tuple[Any, Any]:
    """Those of some slots with the largest weights, no more than `most`, in the order of slots."""
    if most is None or len(slots) <= most:
        return slots, w
    sizes = np.abs(w)
    least = np.partition(sizes, len(sizes) - most)[len(sizes) - most]
    larger = np.flatnonzero(sizes > least)
    ties = np.flatnonzero(sizes == least)[: most - len(larger)]
    chosen = np.sort(np.concatenate([larger, ties]))
    return slots[chosen], w[chosen]


def _with_those_gone(
    born: Entries, died: Entries, gone: dict[Hashable, float]
) -> tuple[Changes, int, int]:
    back = {feature for feature, _ in born} & gone.keys()
    born = [one for one in born if one[0] not in back]
    died = died + [one for one in gone.items() if one[0] not in back]
    return Changes(_sorted(born), _sorted(died)), len(born), len(died)


def _sorted(entries: Entries) -> Entries:
    return sorted(entries, key=lambda one: -abs(one[1]))
