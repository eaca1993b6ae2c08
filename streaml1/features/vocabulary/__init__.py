"""Vocabularies: maps from feature names to slots. A model has one vocabulary at a time.

======================  ================================  =====================================
class                   slot of a name                    replaced by
======================  ================================  =====================================
`IntVocabulary`         the name itself, an int; no       `InternedVocabulary`, at the first
                        look-up is needed                 name that is not an int, or if the
                                                          ints are too sparse
`InternedVocabulary`    the next free one; slots whose    `IntVocabulary`, if all names are ints
                        weights are zero are released     that are dense enough
`HashedVocabulary`      a hash of `bits` bits; names      never
                        are not stored
======================  ================================  =====================================

Modules: `ints`, `hash_table` (the interned vocabulary) and `hashed` have these classes;
`slot_names` and `name_index` are the parts of an interned vocabulary; `byte_interning` finds names
that arrive as bytes, which `name_arena` stores; `crossed_table` holds crossed features; `probing`
searches all hash tables.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Protocol

from streaml1.core.types import Hashes, Slots
from streaml1.features.vocabulary.hash_table import InternedVocabulary
from streaml1.features.vocabulary.hashed import HashedVocabulary
from streaml1.features.vocabulary.ints import INTS, IntVocabulary
from streaml1.features.vocabulary.probing import MISSING

__all__ = [
    "INTS",
    "MISSING",
    "AnyVocabulary",
    "HashedVocabulary",
    "IntVocabulary",
    "InternedVocabulary",
    "VocabularySnapshot",
]


class VocabularySnapshot(Protocol):
    """The names of slots at one time: what a copy of a model needs of a vocabulary."""

    def name(self, slot: int) -> Hashable:
        """Return the name of a slot."""

    def names_at(self, slots: Slots) -> list[Hashable]:
        """Return the names of slots."""

    def hashes(self, slots: Slots) -> Hashes:
        """Return hashes of the names of slots that are the same in every process."""

    def state_dict(self, slots: Slots) -> dict[str, Any]:
        """Return the names of slots as plain values for a model file.

        `vocabulary_from_state_dict` is the inverse.
        """


AnyVocabulary = IntVocabulary | InternedVocabulary | HashedVocabulary
"""Any vocabulary. All have ``find_all(names)``, which returns `MISSING` for names without a slot.

`InternedVocabulary` and `HashedVocabulary` also have ``find_ints(ids)``, the slots of an array of
ints: for `IntVocabulary` these are the ints themselves. Only `InternedVocabulary` adds names
(``intern_*``) and releases slots (``retain``). Code tells them apart by `isinstance`.
"""
