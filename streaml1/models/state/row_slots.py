"""Conversion of batches to rows of slots, without changing the vocabulary."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from streaml1.core.rows import BadExample, Rows
from streaml1.features.batch import Batch, batch_of
from streaml1.features.dedup import masked_rows, plain_rows
from streaml1.features.dedup_text import without_repeats
from streaml1.features.interactions import (
    CrossedRows,
    Interactions,
    Selection,
    append_crossed,
    cross_rows,
    find_crossed,
)
from streaml1.features.vocabulary import (
    MISSING,
    AnyVocabulary,
    HashedVocabulary,
    InternedVocabulary,
    IntVocabulary,
)
from streaml1.features.vocabulary.byte_interning import distinct
from streaml1.text.parsed_rows import NamedRows

__all__ = ["RowSlots"]


class RowSlots:
    """The slots of the features of batches; a base class of models' states.

    A name without a slot gets a slot beyond the size of the rule, which stands for no weight.
    """

    rule: Any
    vocabulary: AnyVocabulary
    interactions: Interactions | None

    def _found(self, crosses: Interactions, some: Selection) -> Rows:
        """Convert a batch like `_placed`, and append the crossed features to each row."""
        crossing = cross_rows(crosses, some)
        slots, new = find_crossed(self.vocabulary, crossing.hashes)
        slots[new] = self.rule.size + len(some.batch.rows.values) + np.arange(len(new))
        return self._both(some.batch, self._slots_of(some.batch), crossing, slots)

    def _slots_of(self, batch: Batch) -> Any:
        """Return a slot for each entry; unknown names get slots beyond the rule's size."""
        if batch.texts is not None:
            return self._text_slots(batch.texts)
        slots = self.vocabulary.find_all(batch.names or [])
        new = np.flatnonzero(slots == MISSING)
        slots[new] = self.rule.size + np.arange(len(new))
        return slots[batch.rows.ids]

    def _both(self, batch: Batch, plain: Any, crossing: CrossedRows, crossed: Any) -> Rows:
        """Join the plain features of each row with its crossed features, given both slots."""
        rows = batch.rows
        indptr = rows.indptr + crossing.indptr
        ids, values = np.empty(int(indptr[-1]), np.uint32), np.empty(int(indptr[-1]))
        append_crossed(rows.indptr, crossing.indptr, plain, rows.values, crossed, crossing.values,
               ids, values)  # fmt: skip
        both = Rows(ids, values, indptr)
        return both if self._are_distinct(batch.texts) else self._apart(both, plain)

    def _are_distinct(self, texts: NamedRows | None) -> bool:
        """Return whether no slot can occur twice in a row of distinct names and their crosses."""
        if (
            texts is None
            or self.interactions is None
            or not self.interactions.disjoint
            or not texts.values_checked
        ):
            return False
        return isinstance(self.vocabulary, InternedVocabulary) and not self.vocabulary.irregular

    def _placed(self, batch: Batch) -> Rows:
        """Convert a plain batch to rows of slots; unknown names get slots >= the rule's size."""
        rows, names = batch.rows, batch.names
        if batch.texts is not None:
            if batch.texts.plain and not isinstance(self.vocabulary, HashedVocabulary):
                # No row has a name twice, so unknown names may share a slot.
                return rows._replace(ids=self._known_slots(batch.texts))
            return self._of_texts(rows, batch.texts, self._text_slots)
        if names is not None:
            slots = self.vocabulary.find_all(names)
            return self._apart(rows._replace(ids=slots[rows.ids]), slots)
        if isinstance(self.vocabulary, IntVocabulary):
            return rows
        slots = self.vocabulary.find_ints(rows.ids)
        return self._apart(rows._replace(ids=slots), slots[:0])

    def _text_slots(self, texts: NamedRows) -> Any:
        """Return slots of names given as bytes; unknown names get distinct slots >= its size."""
        slots = self._known_slots(texts)
        unknown = np.flatnonzero(slots == MISSING)
        if len(unknown):
            new, first = distinct(texts.csr()[0], unknown), self.rule.size
            new.fill(slots, np.arange(first, first + len(new.first_positions), dtype=np.uint32))
        return slots

    def _known_slots(self, texts: NamedRows) -> Any:
        """Return slots of names given as bytes, `MISSING` for unknown names."""
        slots, missing = self._find_texts(texts)
        if (
            len(missing)
            and isinstance(self.vocabulary, InternedVocabulary)
            and self.vocabulary.irregular
        ):
            new = distinct(texts.keyed_hashes(), missing)
            new.fill(slots, self.vocabulary.find_all(texts.feature_names(new.first_positions)))
        return slots

    def _find_texts(self, texts: NamedRows) -> tuple[Any, Any]:
        """Return slots of names given as bytes, and the positions of the `MISSING` ones."""
        hashes, _, _ = texts.csr()
        if isinstance(self.vocabulary, HashedVocabulary):
            slots = hashes.astype(np.uint32)
            slots &= np.uint32(self.vocabulary.mask)
            return slots, np.empty(0, np.int64)
        if isinstance(self.vocabulary, IntVocabulary):
            return np.full(len(hashes), MISSING, np.uint32), np.arange(len(hashes))
        return self.vocabulary.byte_index.find(texts.keyed_hashes())

    def _of_texts(self, rows: Rows, texts: NamedRows, slots_of: Callable[[NamedRows], Any]) -> Rows:
        """Convert text rows to rows of distinct slots; `slots_of` maps names to slots."""
        if isinstance(self.vocabulary, HashedVocabulary):
            if texts.plain or texts.values_checked:
                masked = masked_rows(texts.csr()[0], rows, self.vocabulary.mask)
                if masked is not None:
                    return masked
            merged = without_repeats(Batch(rows, None, None, texts))
            if merged.texts is None:
                return self._placed(merged)
            rows, texts = merged.rows, merged.texts
        return self._without_repeats(Rows(slots_of(texts), rows.values, rows.indptr), texts)

    def _without_repeats(self, rows: Rows, texts: NamedRows) -> Rows:
        """Merge entries of a row that share a slot."""
        if texts.plain and not isinstance(self.vocabulary, HashedVocabulary):
            return rows
        try:
            return plain_rows(rows, valued=texts.plain or texts.values_checked)
        except BadExample:
            batch_of(list(texts))  # raises an error with the name, unless two names share a slot
            return self._apart(rows, rows.ids[:0])

    def _apart(self, rows: Rows, slots: Any) -> Rows:
        """Merge entries of a row that share a slot; `slots` are the slots of the names."""
        if self.interactions is None and self._are_apart(slots[slots < self.rule.size]):
            return rows
        try:
            return plain_rows(rows)
        except BadExample as bad:
            raise BadExample(f"{bad.reason} (features of this row share a slot)", bad.row) from None

    def _are_apart(self, slots: Any) -> bool:
        return not isinstance(self.vocabulary, HashedVocabulary) and len(np.unique(slots)) == len(
            slots
        )
