"""Names of slots: the direction from a slot to its name."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import compress
from typing import Any

import numpy as np

from streaml1.core.hashing import name_hashes
from streaml1.core.types import Bools, Hashes, Ints, Slots
from streaml1.features.vocabulary.crossed_name import JOINT, CrossedName
from streaml1.features.vocabulary.crossed_table import CrossedTable
from streaml1.features.vocabulary.name_arena import NameArena

__all__ = ["CROSS", "SlotNames"]

CROSS = True
"""Marks a crossed feature in `category_values`."""


class SlotNames:
    """The names of the slots of a vocabulary.

    The slots from 0 to len(keys) - 1 have names as Python objects. The names of the slots behind
    them are *pending*: they arrived as bytes, and become strings once a name is looked up.

    Attributes
    ----------
    keys : list
        For each slot whose name is not pending: the name; the key of a category that was given as
        ``{key: value}``; None for a crossed feature.
    category_values : list
        For each of these slots: the value of such a category, `CROSS` for a crossed feature, else
        None.
    crossed : CrossedTable
        The crossed features, and the names of their factors.
    pending : NameArena
        The pending names. A crossed feature among them has an empty name there.
    """

    def __init__(self) -> None:
        self.keys: list[Hashable] = []
        self.category_values: list[str | bool | None] = []
        self.crossed = CrossedTable()
        self.pending = NameArena()

    def __len__(self) -> int:
        return len(self.keys) + len(self.pending)

    def name(self, slot: int) -> Hashable:
        """Return the name of a slot."""
        factors = self.crossed.name_at(slot)
        return self._plain_name(slot) if factors is None else JOINT.join(factors)

    def names_at(self, slots: Slots) -> list[Hashable]:
        """Return the names of slots."""
        return [
            JOINT.join(name) if isinstance(name, CrossedName) else name
            for name in self._names_with_factors(slots)
        ]

    def _plain_name(self, slot: int) -> Hashable:
        """Return the name of a slot that does not belong to a crossed feature."""
        before = len(self.keys)
        if slot >= before:
            return self.pending.name(slot - before)
        text = self.category_values[slot]
        return self.keys[slot] if text is None else f"{self.keys[slot]}={text}"

    def _names_with_factors(self, slots: Slots) -> list[Hashable]:
        """Return the names of slots, that of a crossed feature as a `CrossedName`."""
        positions = self.crossed.positions_of(slots)
        crossed = iter(self.crossed.display_names(positions[positions >= 0]))
        pairs = zip(slots.tolist(), positions.tolist(), strict=True)
        return [self._plain_name(slot) if pos < 0 else next(crossed) for slot, pos in pairs]

    def names(self) -> list[Hashable]:
        """Return all names, ordered by slot."""
        if len(self.crossed) or any(text is not None for text in self.category_values):
            return self.names_at(np.arange(len(self)))
        return [*self.keys, *self.pending.names()]

    def hashes(self, slots: Slots) -> Hashes:
        """Return the stable hashes of the names of slots.

        The hash of a crossed feature is a mix of those of its factors, see `cross_hash`.
        """
        n_keys, is_pending = len(self.keys), slots >= len(self.keys)
        if is_pending.all():
            return self.pending.hashes[slots - n_keys]
        hashes = np.empty(len(slots), np.uint64)
        hashes[is_pending] = self.pending.hashes[slots[is_pending] - n_keys]
        hashes[~is_pending] = self._hashes_of_keys(slots[~is_pending])
        return hashes

    def _hashes_of_keys(self, slots: Slots) -> Hashes:
        if not len(self.crossed):
            return name_hashes(self.names_at(slots))
        positions = self.crossed.positions_of(slots)
        plain = positions < 0
        hashes: Hashes = self.crossed.hashes[np.maximum(positions, 0)]
        hashes[plain] = name_hashes(self.names_at(slots[plain]))
        return hashes

    def crossed_mask(self) -> Bools:
        """Return for each slot whether it belongs to a crossed feature."""
        mask: Bools = self.crossed.positions_of(np.arange(len(self))) >= 0
        return mask

    # Subsets and copies

    def subset(self, slots: Slots) -> SlotNames:
        """Return the names of slots, which must be ascending, renumbered from 0."""
        retained = np.zeros(len(self), bool)
        retained[slots] = True
        names = SlotNames()
        self._copy_subset_to(names, retained, np.where(retained, np.cumsum(retained) - 1, -1))
        return names

    def _copy_subset_to(self, target: SlotNames, retained: Bools, new_slots: Ints) -> None:
        """Copy the names of the retained slots to `target`, which is empty.

        `new_slots` has the slot in `target` of each slot, negative for those not retained.
        """
        target.keys = list(compress(self.keys, retained))
        target.category_values = list(compress(self.category_values, retained))
        target.pending = self.pending.retained(retained[len(self.keys) :])
        target.crossed = self.crossed.remapped(new_slots)

    def snapshot(self) -> SlotNames:
        """Return a copy that later changes do not affect; it cannot look up slots by name."""
        names = SlotNames.__new__(SlotNames)
        names.crossed = self.crossed.snapshot()
        names.keys, names.category_values = self.keys.copy(), self.category_values.copy()
        names.pending = self.pending.snapshot()
        return names

    def state_dict(self, slots: Slots) -> dict[str, Any]:
        """Return the names of slots as plain values for a model file.

        ``joints`` has the position of the `=` in the name of a category that was given as
        ``{key: value}``, else -1.
        """
        names = self._names_with_factors(slots)
        values = [self.category_values[j] if j < len(self.keys) else None for j in slots.tolist()]
        pairs = zip(names, values, strict=True)
        joints = [len(n) - len(v) - 1 if isinstance(v, str) else -1 for n, v in pairs]  # type: ignore
        return {"kind": "table", "names": names, "joints": np.array(joints, np.int32)}
