"""Which name each slot has."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import compress
from typing import Any

import numpy as np

from streaml1.core.hashing import name_hashes
from streaml1.features.vocabulary.byte_interning import Arena
from streaml1.features.vocabulary.crossed_name import JOINT, Crossed
from streaml1.features.vocabulary.crossed_table import Products

__all__ = ["CROSS", "Slots"]

CROSS = True  # in place of the text of a category: a crossed feature


class Slots:
    """The names by slot.

    Attributes
    ----------
    known : list
        The names, but for those that wait; of a category that came in its parts, the first; of a
        crossed feature None.
    texts : list
        Of such a category the second part, of a crossed feature `CROSS`, else None.
    crossed : Products
        The crossed features, and the names of their parts.
    waiting : Arena
        Names that have come as bytes, those of the last slots.
    """

    def __init__(self) -> None:
        self.known: list[Hashable] = []
        self.texts: list[str | bool | None] = []
        self.crossed = Products()
        self.waiting = Arena()

    def __len__(self) -> int:
        return len(self.known) + len(self.waiting)

    def name(self, slot: int) -> Hashable:
        """The name that has a slot."""
        parts = self.crossed.told(slot)
        return self._plain(slot) if parts is None else JOINT.join(parts)

    def names_at(self, slots: Any) -> list[Hashable]:
        """The names of some slots."""
        return [
            JOINT.join(name) if isinstance(name, Crossed) else name for name in self._told(slots)
        ]

    def _plain(self, slot: int) -> Hashable:
        """The name that has a slot, which no crossed feature has."""
        before = len(self.known)
        if slot >= before:
            return self.waiting.name(slot - before)
        text = self.texts[slot]
        return self.known[slot] if text is None else f"{self.known[slot]}={text}"

    def _told(self, slots: Any) -> list[Hashable]:
        """The names of some slots, crossed ones by their parts."""
        places = self.crossed.of(slots)
        crossed = iter(self.crossed.told_all(places[places >= 0]))
        pairs = zip(slots.tolist(), places.tolist(), strict=True)
        return [self._plain(slot) if place < 0 else next(crossed) for slot, place in pairs]

    def names(self) -> list[Hashable]:
        """All names, by slot."""
        if len(self.crossed) or any(text is not None for text in self.texts):
            return self.names_at(np.arange(len(self)))
        return [*self.known, *self.waiting.names()]

    def hashes(self, slots: Any) -> Any:
        """Stable hashes of the names of some slots, of crossed features those they are found by."""
        before, late = len(self.known), slots >= len(self.known)
        if late.all():
            return self.waiting.hashes[slots - before]
        found = np.empty(len(slots), np.uint64)
        found[late] = self.waiting.hashes[slots[late] - before]
        found[~late] = self._known_hashes(slots[~late])
        return found

    def _known_hashes(self, slots: Any) -> Any:
        if not len(self.crossed):
            return name_hashes(self.names_at(slots))
        places = self.crossed.of(slots)
        plain, hashes = places < 0, self.crossed.hashes[np.maximum(places, 0)]
        hashes[plain] = name_hashes(self.names_at(slots[plain]))
        return hashes

    def is_cross(self) -> Any:
        """Which slots crossed features have, a bool each."""
        return self.crossed.of(np.arange(len(self))) >= 0

    # Some of them

    def only(self, slots: Any) -> Slots:
        """Those of some slots, which ascend, by slots from 0."""
        kept = np.zeros(len(self), bool)
        kept[slots] = True
        some = Slots()
        self._give(some, kept, np.where(kept, np.cumsum(kept) - 1, -1))
        return some

    def _give(self, left: Slots, kept: Any, new_slots: Any) -> None:
        """Have an object that has no names know those that are `kept`, by their new slots."""
        left.known = list(compress(self.known, kept))
        left.texts = list(compress(self.texts, kept))
        left.waiting = self.waiting.kept(kept[len(self.known) :])
        left.crossed = self.crossed.moved(new_slots)

    # As of now

    def still(self) -> Any:
        """What `name`, `hashes` and `dump` need, as of now."""
        names = Slots.__new__(Slots)
        names.crossed = self.crossed.still()
        names.known, names.texts = self.known.copy(), self.texts.copy()
        names.waiting = self.waiting.still()
        return names

    def dump(self, slots: Any) -> dict[str, Any]:
        """The names of some slots, and where those of categories are joined."""
        names = self._told(slots)
        texts = [self.texts[j] if j < len(self.known) else None for j in slots.tolist()]
        pairs = zip(names, texts, strict=True)
        joints = [len(n) - len(t) - 1 if isinstance(t, str) else -1 for n, t in pairs]  # type: ignore
        return {"kind": "table", "names": names, "joints": np.array(joints, np.int32)}
