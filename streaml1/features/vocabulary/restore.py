"""Names from what `state_dict` made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.rows import ensure
from streaml1.features.vocabulary.hash_table import InternedVocabulary
from streaml1.features.vocabulary.hashed import HashedVocabulary
from streaml1.features.vocabulary.ints import INTS, IntVocabulary

__all__ = ["COPY_SLOTS", "SPARSE", "vocabulary_from_state_dict"]

# Ints are slots themselves as long as one slot in SPARSE is used, or memory is no matter: so many
# slots are none in one copy of a model among thousands.
SPARSE = 16
COPY_SLOTS = 2**14


def vocabulary_from_state_dict(state: dict[str, Any]) -> tuple[Any, Any, int]:
    """Names, the slots of those that were dumped, and how many slots there must be."""
    if state["kind"] == "table":
        table = InternedVocabulary.from_state_dict(state["names"], state["joints"])
        return table, np.arange(len(table)), len(table)
    slots = state["slots"].astype(np.int64)
    ensure(len(np.unique(slots)) == len(slots), "a slot stands twice")
    top = int(slots.max(initial=-1)) + 1
    if state["kind"] == "hashed":
        bits = int(state["bits"])
        ensure(1 <= bits <= 30 and top <= 1 << bits, "a slot is beyond the hash")
        return HashedVocabulary(bits), slots, 1 << bits
    ensure(top <= INTS, "a slot is beyond the ints")
    if top <= max(COPY_SLOTS, SPARSE * len(slots)):
        return IntVocabulary(), slots, top
    table = InternedVocabulary()
    table.intern_all(slots.tolist())
    return table, np.arange(len(table)), len(table)
