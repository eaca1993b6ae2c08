"""Vocabularies from the plain values that their `state_dict` returned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.rows import ensure
from streaml1.core.types import Ints
from streaml1.features.vocabulary.hash_table import InternedVocabulary
from streaml1.features.vocabulary.hashed import HashedVocabulary
from streaml1.features.vocabulary.ints import INTS, IntVocabulary

__all__ = ["COPY_SLOTS", "SPARSE", "RestoredVocabulary", "vocabulary_from_state_dict"]

SPARSE = 16
"""Ints stay their own slots while at least one slot in `SPARSE` is used."""

COPY_SLOTS = 2**14
"""Ints below stay their own slots in any case: this memory is small even for one of many copies."""


class RestoredVocabulary(NamedTuple):
    """A vocabulary, the slots of the names that were saved, and how many slots a rule needs."""

    vocabulary: HashedVocabulary | IntVocabulary | InternedVocabulary
    slots: Ints
    size: int


def vocabulary_from_state_dict(state: dict[str, Any]) -> RestoredVocabulary:
    """Build the vocabulary of the names in `state`, as `state_dict` of a vocabulary returns it.

    Ints that are too sparse to be their own slots are interned.

    Raises
    ------
    AssertionError
        If `state` is inconsistent.
    """
    if state["kind"] == "table":
        return _all_slots(InternedVocabulary.from_state_dict(state["names"], state["joints"]))
    slots = state["slots"].astype(np.int64)
    ordered = np.sort(slots)  # several times as fast as np.unique
    ensure(bool((ordered[1:] != ordered[:-1]).all()), "two names have the same slot")
    size = int(slots.max(initial=-1)) + 1
    if state["kind"] == "hashed":
        bits = int(state["bits"])
        ensure(1 <= bits <= 30, f"bits must be in [1, 30], got {bits}")
        ensure(size <= 1 << bits, f"a slot must be < {1 << bits}, got {size - 1}")
        return RestoredVocabulary(HashedVocabulary(bits), slots, 1 << bits)
    ensure(size <= INTS, f"an int slot must be < {INTS}, got {size - 1}")
    if size <= max(COPY_SLOTS, SPARSE * len(slots)):
        return RestoredVocabulary(IntVocabulary(), slots, size)
    interned = InternedVocabulary()
    interned.intern_all(slots.tolist())
    return _all_slots(interned)


def _all_slots(vocabulary: InternedVocabulary) -> RestoredVocabulary:
    size = len(vocabulary)
    return RestoredVocabulary(vocabulary, np.arange(size), size)
