"""Vocabulary whose names are ints: each int is its own slot."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from streaml1.core.hashing import as_int64, int_hashes
from streaml1.core.rows import ensure
from streaml1.core.types import Hashes, Ids, Slots
from streaml1.features.vocabulary.probing import MISSING
from streaml1.features.vocabulary.slot_names import SlotNames

__all__ = ["INTS", "IntVocabulary"]

INTS = 2**26
"""Exclusive upper bound of ints that are their own slots; larger ints are interned."""


def _slot(name: Hashable) -> int:
    whole = as_int64(name)
    return MISSING if whole is None or not 0 <= whole < INTS else whole


class IntVocabulary:
    """Vocabulary of the ints below `INTS`; needs no look-up and no memory."""

    def find_all(self, names: Sequence[Hashable]) -> Ids:
        """Return the slots of names; `MISSING` for names that are not ints in [0, `INTS`)."""
        return np.array([_slot(name) for name in names], np.uint32)

    def name(self, slot: int) -> Hashable:
        """Return the name of a slot: the slot itself."""
        return slot

    def names_at(self, slots: Slots) -> list[Hashable]:
        """Return the names of slots."""
        return list(slots.tolist())

    def hashes(self, slots: Slots) -> Hashes:
        """Return the stable hashes of the names of slots."""
        return int_hashes(slots.astype(np.int64))

    def subset(self, slots: Slots) -> SlotNames:
        """Return the names of slots, renumbered from 0."""
        names = SlotNames()
        names.keys = self.names_at(slots)
        names.category_values = [None] * len(names.keys)
        return names

    def snapshot(self) -> IntVocabulary:
        """Return this object: it has no state that could change."""
        return self

    def state_dict(self, slots: Slots) -> dict[str, Any]:
        """Return the names of slots as plain values for a model file."""
        return {"kind": "ints", "slots": slots.astype(np.uint32)}

    def check(self, size: int) -> None:
        """Raise AssertionError if a rule of `size` slots has more slots than ints allow."""
        ensure(size <= 2 * INTS, f"a rule of ints must have <= {2 * INTS} slots, got {size}")
