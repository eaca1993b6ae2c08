"""Ints that are slots themselves."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from streaml1.core.hashing import as_int64, int_hashes
from streaml1.core.rows import ensure
from streaml1.features.vocabulary.probing import MISSING
from streaml1.features.vocabulary.slot_names import SlotNames

__all__ = ["INTS", "IntVocabulary"]

INTS = 2**26  # a larger one is a name like any other


def _slot(name: Hashable) -> int:
    whole = as_int64(name)
    return MISSING if whole is None or not 0 <= whole < INTS else whole


class IntVocabulary:
    """Names that are ints from 0, each the slot of that number."""

    def find_all(self, names: Sequence[Hashable]) -> Any:
        """Slots of names; `MISSING` where one is no int below `INTS`."""
        return np.array([_slot(name) for name in names], np.uint32)

    def name(self, slot: int) -> Hashable:
        """Return the name that has a slot."""
        return slot

    def names_at(self, slots: Any) -> list[Hashable]:
        """Return the names of some slots."""
        return list(slots.tolist())

    def hashes(self, slots: Any) -> Any:
        """Stable hashes of the names of some slots."""
        return int_hashes(slots.astype(np.int64))

    def subset(self, slots: Any) -> SlotNames:
        """Return the names of some slots, by slots from 0."""
        names = SlotNames()
        names.keys = self.names_at(slots)
        names.category_values = [None] * len(names.keys)
        return names

    def snapshot(self) -> Any:
        """Return a copy of what `name`, `hashes` and `state_dict` need."""
        return self

    def state_dict(self, slots: Any) -> dict[str, Any]:
        """Return the names of some slots."""
        return {"kind": "ints", "slots": slots.astype(np.uint32)}

    def check(self, size: int) -> None:
        """There is nothing that could be wrong."""
        ensure(size <= 2 * INTS, "more slots than ints can have")
