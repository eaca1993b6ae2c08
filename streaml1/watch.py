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
        # The weights at the last look, and those of features that have lost their slot since.
        self.state: tuple[Any, dict[Hashable, float]] = engine.rule.weights(), {}

    def changes(self) -> Changes:
        """What has changed since the last call, or since the watch was made."""
        return self.counted(None)[0]

    def counted(self, most: int | None) -> tuple[Changes, int, int]:
        """The same, with at most so many of each by name, and how many there are of each."""
        engine = self._engine
        with engine.alone():
            now = engine.rule.weights()
            before, gone = self.state
            last = np.zeros(len(now))
            last[: len(before)] = before
            born = np.flatnonzero((now != 0.0) & (last == 0.0))
            died = np.flatnonzero((now == 0.0) & (last != 0.0))
            self.state = now, {}
            names = engine.names
            if gone:  # some of them may have come back, to another slot
                return _with_those_gone(_named(born, now, names), _named(died, last, names), gone)
            named = (_named(_farthest(born, now, most), now, names),
                     _named(_farthest(died, last, most), last, names))  # fmt: skip
        return Changes(*map(_sorted, named)), len(born), len(died)

    def __setstate__(self, own: dict[str, Any]) -> None:
        self.__dict__.update(own)
        self._engine.watches.add(self)

    def moved(self, names: Any, new_slots: Any, size: int) -> tuple[Any, dict[Hashable, float]]:
        """The state once the slots have moved to new places."""
        before, gone = self.state
        old = np.zeros(len(new_slots))
        old[: len(before)] = before
        lost = (new_slots < 0) & (old != 0.0)
        moved = np.zeros(size)
        moved[new_slots[new_slots >= 0]] = old[new_slots >= 0]
        return moved, gone | dict(_named(np.flatnonzero(lost), old, names))


Entries = list[tuple[Hashable, float]]


def _named(slots: Any, w: Any, names: Any) -> Entries:
    return list(zip(names.names_at(slots), w[slots].tolist(), strict=True))


def _farthest(slots: Any, w: Any, most: int | None) -> Any:
    """Those of some slots with the largest weights, no more than `most`, in the order of slots."""
    if most is None or len(slots) <= most:
        return slots
    sizes = np.abs(w[slots])
    least = np.partition(sizes, len(sizes) - most)[len(sizes) - most]
    larger = np.flatnonzero(sizes > least)
    ties = np.flatnonzero(sizes == least)[: most - len(larger)]
    return slots[np.sort(np.concatenate([larger, ties]))]


def _with_those_gone(
    born: Entries, died: Entries, gone: dict[Hashable, float]
) -> tuple[Changes, int, int]:
    back = {feature for feature, _ in born} & gone.keys()
    born = [one for one in born if one[0] not in back]
    died = died + [one for one in gone.items() if one[0] not in back]
    return Changes(_sorted(born), _sorted(died)), len(born), len(died)


def _sorted(entries: Entries) -> Entries:
    return sorted(entries, key=lambda one: -abs(one[1]))
