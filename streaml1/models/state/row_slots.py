"""Conversion of batches to rows of slots.

Methods whose names begin with `_known` leave the vocabulary as it is, as predictions do.
The methods that add names are in `batch_learning`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from streaml1.core.rows import BadExample, Rows
from streaml1.core.types import Ids, Ints
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
    """The slots of the features of batches; a base class of the states of models.

    An unknown name gets a slot beyond the size of the rule, which stands for no weight.
    """

    rule: Any
    vocabulary: AnyVocabulary
    interactions: Interactions | None

    # Rows

    def _known_rows(self, batch: Batch) -> Rows:
        """Convert a batch without crossed features to rows of slots."""
        rows, names = batch.rows, batch.names
        if batch.texts is not None:
            if batch.texts.plain and not isinstance(self.vocabulary, HashedVocabulary):
                # No row has a name twice, so unknown names may share a slot.
                return rows._replace(ids=self._known_text_slots(batch.texts))
            return self._rows_of_texts(rows, batch.texts, self._distinct_text_slots)
        if names is not None:
            slots = self.vocabulary.find_all(names)
            return self._merge_shared_slots(rows._replace(ids=slots[rows.ids]), slots)
        if isinstance(self.vocabulary, IntVocabulary):
            return rows
        slots = self.vocabulary.find_ints(rows.ids)
        return self._merge_shared_slots(rows._replace(ids=slots), slots[:0])

    def _known_crossed_rows(self, crosses: Interactions, selection: Selection) -> Rows:
        """Convert a batch like `_known_rows`, and append the crossed features to each row."""
        batch, crossing = selection.batch, cross_rows(crosses, selection)
        slots, new = find_crossed(self.vocabulary, crossing.hashes)
        slots[new] = self.rule.size + len(batch.rows.values) + np.arange(len(new))
        return self._append_crossed(batch, self._known_slots(batch), crossing, slots)

    def _append_crossed(
        self, batch: Batch, plain: Ids, crossing: CrossedRows, crossed: Ids
    ) -> Rows:
        """Append the crossed features of each row, given the slots of `batch` and of these."""
        rows = batch.rows
        indptr = rows.indptr + crossing.indptr
        ids, values = np.empty(int(indptr[-1]), np.uint32), np.empty(int(indptr[-1]))
        append_crossed(
            rows.indptr, crossing.indptr, plain, rows.values, crossed, crossing.values, ids, values
        )
        appended = Rows(ids, values, indptr)
        if self._has_distinct_slots(batch.texts):
            return appended
        return self._merge_shared_slots(appended, plain)

    def _rows_of_texts(
        self, rows: Rows, texts: NamedRows, slots_of: Callable[[NamedRows], Ids]
    ) -> Rows:
        """Convert text rows to rows of distinct slots; `slots_of` maps names to slots."""
        if isinstance(self.vocabulary, HashedVocabulary):
            if texts.plain or texts.values_checked:
                masked = masked_rows(texts.csr()[0], rows, self.vocabulary.mask)
                if masked is not None:
                    return masked
            merged = without_repeats(Batch(rows, None, None, texts))
            if merged.texts is None:
                return self._known_rows(merged)
            rows, texts = merged.rows, merged.texts
        return self._merge_repeats(Rows(slots_of(texts), rows.values, rows.indptr), texts)

    # Slots

    def _known_slots(self, batch: Batch) -> Ids:
        """Return a slot for each entry; different unknown names get different slots."""
        if batch.texts is not None:
            return self._distinct_text_slots(batch.texts)
        slots = self.vocabulary.find_all(batch.names or [])
        new = np.flatnonzero(slots == MISSING)
        slots[new] = self.rule.size + np.arange(len(new))
        entries: Ids = slots[batch.rows.ids]
        return entries

    def _distinct_text_slots(self, texts: NamedRows) -> Ids:
        """Return slots of names given as bytes; different unknown names get different slots."""
        slots = self._known_text_slots(texts)
        unknown = np.flatnonzero(slots == MISSING)
        if len(unknown):
            new, first = distinct(texts.csr()[0], unknown), self.rule.size
            new.fill(slots, np.arange(first, first + len(new.first_positions), dtype=np.uint32))
        return slots

    def _known_text_slots(self, texts: NamedRows) -> Ids:
        """Return slots of names given as bytes, `MISSING` for unknown names."""
        slots, missing = self._find_texts(texts)
        vocabulary = self.vocabulary
        if len(missing) and isinstance(vocabulary, InternedVocabulary) and vocabulary.irregular:
            new = distinct(texts.keyed_hashes(), missing)
            new.fill(slots, vocabulary.find_all(texts.feature_names(new.first_positions)))
        return slots

    def _find_texts(self, texts: NamedRows) -> tuple[Ids, Ints]:
        """Look up names given as bytes by their hashes.

        Returns their slots, and the positions of the names that are `MISSING`. These may equal an
        irregular name.
        """
        hashes, _, _ = texts.csr()
        if isinstance(self.vocabulary, HashedVocabulary):
            slots = hashes.astype(np.uint32)
            slots &= np.uint32(self.vocabulary.mask)
            return slots, np.empty(0, np.int64)
        if isinstance(self.vocabulary, IntVocabulary):
            return np.full(len(hashes), MISSING, np.uint32), np.arange(len(hashes))
        return self.vocabulary.byte_index.find(texts.keyed_hashes())

    # Entries of a row that share a slot

    def _merge_repeats(self, rows: Rows, texts: NamedRows) -> Rows:
        """Merge entries of a row that share a slot: a name is repeated, or two names collide."""
        if texts.plain and not isinstance(self.vocabulary, HashedVocabulary):
            return rows
        try:
            return plain_rows(rows, valued=texts.plain or texts.values_checked)
        except BadExample:
            batch_of(list(texts))  # raises an error with the name, unless two names collide
            return self._merge_shared_slots(rows, rows.ids[:0])

    def _merge_shared_slots(self, rows: Rows, slots: Ids) -> Rows:
        """Merge entries of a row that share a slot; `slots` are the slots of the names."""
        if self.interactions is None and self._all_differ(slots[slots < self.rule.size]):
            return rows
        try:
            return plain_rows(rows)
        except BadExample as bad:
            raise BadExample(f"{bad.reason} (features of this row share a slot)", bad.row) from None

    def _all_differ(self, slots: Ids) -> bool:
        if isinstance(self.vocabulary, HashedVocabulary):
            return False
        return len(np.unique(slots)) == len(slots)

    def _has_distinct_slots(self, texts: NamedRows | None) -> bool:
        """Return whether no slot can occur twice in a row of distinct names and their crosses."""
        if texts is None or not texts.values_checked:
            return False
        if self.interactions is None or not self.interactions.disjoint:
            return False
        return isinstance(self.vocabulary, InternedVocabulary) and not self.vocabulary.irregular
