"""Which name each slot has."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import compress
from typing import Any

import numpy as np

from streaml1.core.hashing import name_hashes
from streaml1.features.vocabulary.byte_interning import NameArena
from streaml1.features.vocabulary.crossed_name import JOINT, CrossedName
from streaml1.features.vocabulary.crossed_table import CrossedTable

__all__ = ["CROSS", "SlotNames"]

CROSS = True  # in place of the text of a category: a crossed feature


class SlotNames:
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
        self.keys: list[Hashable] = []
        self.category_values: list[str | bool | None] = []
        self.crossed = CrossedTable()
        self.pending = NameArena()

    def __len__(self) -> int:
        return len(self.keys) + len(self.pending)

    def name(self, slot: int) -> Hashable:
        """Return the name that has a slot."""
        parts = self.crossed.name_at(slot)
        return self._plain_name(slot) if parts is None else JOINT.join(parts)

    def names_at(self, slots: Any) -> list[Hashable]:
        """Return the names of some slots."""
        return [
            JOINT.join(name) if isinstance(name, CrossedName) else name
            for name in self._names_with_factors(slots)
        ]

    def _plain_name(self, slot: int) -> Hashable:
        """Return the name of a slot that holds no interaction."""
        before = len(self.keys)
        if slot >= before:
            return self.pending.name(slot - before)
        text = self.category_values[slot]
        return self.keys[slot] if text is None else f"{self.keys[slot]}={text}"

    def _names_with_factors(self, slots: Any) -> list[Hashable]:
        """Return the names of some slots, crossed ones by their parts."""
        places = self.crossed.positions_of(slots)
        crossed = iter(self.crossed.display_names(places[places >= 0]))
        pairs = zip(slots.tolist(), places.tolist(), strict=True)
        return [self._plain_name(slot) if place < 0 else next(crossed) for slot, place in pairs]

    def names(self) -> list[Hashable]:
        """All names, by slot."""
        if len(self.crossed) or any(text is not None for text in self.category_values):
            return self.names_at(np.arange(len(self)))
        return [*self.keys, *self.pending.names()]

    def hashes(self, slots: Any) -> Any:
        """Stable hashes of the names of some slots, of crossed features those they are found by."""
        before, late = len(self.keys), slots >= len(self.keys)
        if late.all():
            return self.pending.hashes[slots - before]
        found = np.empty(len(slots), np.uint64)
        found[late] = self.pending.hashes[slots[late] - before]
        found[~late] = self._known_hashes(slots[~late])
        return found

    def _known_hashes(self, slots: Any) -> Any:
        if not len(self.crossed):
            return name_hashes(self.names_at(slots))
        places = self.crossed.positions_of(slots)
        plain, hashes = places < 0, self.crossed.hashes[np.maximum(places, 0)]
        hashes[plain] = name_hashes(self.names_at(slots[plain]))
        return hashes

    def crossed_mask(self) -> Any:
        """Which slots crossed features have, a bool each."""
        return self.crossed.positions_of(np.arange(len(self))) >= 0

    # Some of them

    def subset(self, slots: Any) -> SlotNames:
        """Those of some slots, which ascend, by slots from 0."""
        kept = np.zeros(len(self), bool)
        kept[slots] = True
        some = SlotNames()
        self._copy_subset_to(some, kept, np.where(kept, np.cumsum(kept) - 1, -1))
        return some

    def _copy_subset_to(self, target: SlotNames, kept: Any, new_slots: Any) -> None:
        """Have an object that has no names know those that are `kept`, by their new slots."""
        target.keys = list(compress(self.keys, kept))
        target.category_values = list(compress(self.category_values, kept))
        target.pending = self.pending.retained(kept[len(self.keys) :])
        target.crossed = self.crossed.remapped(new_slots)

    # As of now

    def snapshot(self) -> Any:
        """Return a copy of what `name`, `hashes` and `state_dict` need."""
        names = SlotNames.__new__(SlotNames)
        names.crossed = self.crossed.snapshot()
        names.keys, names.category_values = self.keys.copy(), self.category_values.copy()
        names.pending = self.pending.snapshot()
        return names

    def state_dict(self, slots: Any) -> dict[str, Any]:
        """Return the names of some slots, and where those of categories are joined."""
        names = self._names_with_factors(slots)
        texts = [self.category_values[j] if j < len(self.keys) else None for j in slots.tolist()]
        pairs = zip(names, texts, strict=True)
        joints = [len(n) - len(t) - 1 if isinstance(t, str) else -1 for n, t in pairs]  # type: ignore
        return {"kind": "table", "names": names, "joints": np.array(joints, np.int32)}
