"""Learning of batches: row by row in order, and all rows or none."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Self, cast

import numpy as np

from streaml1.core.rows import (
    BadExample,
    Rows,
    max_id,
    row_of_entry,
    scalar_or_column,
    sorted_unique,
)
from streaml1.core.types import Floats, Ids
from streaml1.features.batch import Batch, checked
from streaml1.features.interactions import (
    Interactions,
    Selection,
    cross_rows,
    require_plain,
    select_factors,
)
from streaml1.features.vocabulary import (
    INTS,
    MISSING,
    HashedVocabulary,
    InternedVocabulary,
    IntVocabulary,
)
from streaml1.models.state.weight_counts import WeightedState
from streaml1.optim import loop
from streaml1.optim.update_rule import features_left

__all__ = ["BatchLearner"]

SLOW_BLOCK = 1024  # rows that are converted at once in Python


class Steps(NamedTuple):
    """Labels, sample weights, offsets and learning rates of the rows of a batch, shape (n,) each.

    A column whose values are all equal may be a `core.rows.constant_column`.
    """

    y: Floats
    w: Floats
    offset: Floats
    eta: Floats

    def slice(self, lo: int, hi: int) -> Self:
        """Return the steps of the rows from `lo` to `hi` - 1."""
        return self._replace(
            y=self.y[lo:hi], w=self.w[lo:hi], offset=self.offset[lo:hi], eta=self.eta[lo:hi]
        )


class BatchLearner(WeightedState):
    """A state that learns batches."""

    def margins(self, batch: Batch, out: int, stride: int = 0) -> Floats:
        """Return the margin of each row; with `out`, its response (see `loop.predict_rows`)."""
        with self.exclusive():
            return super().margins(batch, out, stride)

    def progressive(self, batch: Batch, y: Floats, w: Floats, eta: Floats, k: int = 1) -> Floats:
        """Predict each row, then learn it. On an error, nothing is learnt.

        Returns
        -------
        numpy.ndarray
            Shape (n k,): the k predictions of each row, one row after the other.
        """
        with self.exclusive():
            batch, offset = self._split(batch)
            return self._progressive(batch, Steps(y, w, offset, eta), np.zeros(len(y) * k))

    def _progressive(self, batch: Batch, steps: Steps, p: Floats) -> Floats:
        if self.interactions is not None:
            self._learn_crossed(self.interactions, checked(batch), steps, p)
            return p
        width = batch.width
        n_floats = self._rule_size_in_floats()
        if width is None or not self._ids_are_slots(width) or len(batch.rows.ids) < n_floats:
            rows = self._rows(checked(batch))
            self._require_features(rows)
            self._learn_rows(rows, steps, p)
            return p
        # Validate while learning: a backup of the state is cheaper than a second pass.
        backup = self._backup()
        self._reserve_columns(batch.rows.ids, width)
        try:
            i, n = 0, batch.n
            while i < n:
                if self._ids_are_slots(width):
                    i = self._learn_rows(batch.rows, steps, p, i, min(self.rule.size, width))
                if i < n:
                    i = self._learn_block(batch, i, steps, p)
        except BaseException:
            self._restore_backup(backup)
            raise
        return p

    def _rule_size_in_floats(self) -> int:
        """Return how many floats a copy of the rule takes: what a backup costs."""
        return int(self.rule.nbytes) >> 3

    def _ids_are_slots(self, width: int) -> bool:
        """Return whether the column ids of a matrix of `width` columns are slots."""
        if isinstance(self.vocabulary, HashedVocabulary):
            return width <= int(self.rule.size)
        return isinstance(self.vocabulary, IntVocabulary) and width <= INTS

    def _learn_rows(self, rows: Rows, steps: Steps, p: Floats, i: int = 0, d: int = 0) -> int:
        """Learn rows from the i-th; return n, or the first row that needs conversion."""
        y, w, offset, eta = steps.y, *map(scalar_or_column, steps[1:])
        while True:
            status, i = loop.learn(
                self.rule, self._record, rows.ids, rows.values, rows.indptr,
                y, w, offset, eta, p, i, d,
            )  # fmt: skip
            if status == loop.NO_CAPACITY:
                nnz = int(rows.indptr[i + 1] - rows.indptr[i])
                self._set_rule(self.rule.reserve(nnz))
            elif status == loop.TOO_MANY_FEATURES:
                raise self._too_many_features(int(i))
            elif status == loop.OVER_CAP:
                self._prune()
            else:
                return int(i)

    def _learn_block(self, batch: Batch, i: int, steps: Steps, p: Floats) -> int:
        """Convert and learn a block of rows from the i-th; return the row after it."""
        j = min(i + self._rows_at_once(), batch.n)
        indptr = batch.rows.indptr[i : j + 1]
        lo, hi = int(indptr[0]), int(indptr[-1])
        rows = Rows(batch.rows.ids[lo:hi], batch.rows.values[lo:hi], indptr - indptr[0])
        try:
            plain = self._rows(checked(batch._replace(rows=rows)))
            k = len(p) // batch.n
            self._learn_rows(plain, steps.slice(i, j), p[i * k : j * k])
        except BadExample as bad:
            raise BadExample(bad.reason, i + bad.row) from None
        return j

    def _rows_at_once(self) -> int:
        """Return the number of rows of a block: fewer if `max_features` is small."""
        max_nonzero = int(self.online[0].most)
        return min(max(max_nonzero // 64, 16), SLOW_BLOCK) if max_nonzero else SLOW_BLOCK

    def _reserve_columns(self, ids: Ids, width: int) -> None:
        """Allocate slots for all columns of a large matrix at once, if they are dense enough."""
        n = len(ids)
        if width > n:
            width = max_id(ids) + 1
            # A few columns are added one by one. For many, count the distinct ones first.
            if width > INTS or self._fits_ints(width, 0) or not self._fits_ints(width, n):
                return
            used = np.zeros(width, bool)
            used[ids] = True
            n = int(np.count_nonzero(used))
        if self._fits_ints(width, n):
            self._grow_to(width)

    # Limit on the number of features

    def _require_features(self, rows: Rows) -> None:
        """Raise BadExample for the first row that exceeds the feature limit of the rule."""
        remaining = features_left(self.rule)
        if remaining >= len(rows.ids):
            return
        new = np.flatnonzero(~self.rule.seen_mask()[rows.ids])
        first = np.sort(np.unique(rows.ids[new], return_index=True)[1])
        if len(first) > remaining:
            raise self._too_many_features(
                row_of_entry(rows.indptr, int(new[first[int(remaining)]]))
            )

    def _too_many_features(self, row: int) -> BadExample:
        limit = features_left(self.rule) + np.count_nonzero(self.rule.seen_mask())
        return BadExample(
            f"a new feature comes after n_features={limit:.0f} others; make the model with a "
            "larger n_features",
            row,
        )

    # Conversion of rows

    def _rows(self, batch: Batch) -> Rows:
        """Convert a plain batch to rows of slots, adding unseen names."""
        rows, names = batch.rows, batch.names
        if batch.texts is not None:
            return self._rows_of_texts(rows, batch.texts, self._intern_texts)
        if names is not None:
            slots = self._intern_used(names, rows.ids)
            return self._merge_shared_slots(rows._replace(ids=slots[rows.ids]), slots)
        if isinstance(self.vocabulary, IntVocabulary):
            needed = batch.below
            if needed is None:
                needed = max_id(rows.ids) + 1 if len(rows.ids) else 0
            if self._fits_ints(needed, len(rows.ids)):
                self._grow_to(needed, spare=needed // 8)  # expect larger ids soon
                return rows
            self._switch_to_names()
        vocabulary = cast("InternedVocabulary | HashedVocabulary", self.vocabulary)
        slots = vocabulary.find_ints(rows.ids)
        unknown = slots == MISSING
        if unknown.any():
            self._reserve_ints(sorted_unique(rows.ids[unknown]))
            if isinstance(self.vocabulary, IntVocabulary):
                return self._rows(batch)
            if self.vocabulary is not vocabulary:  # known slots may have been released
                slots = self.vocabulary.find_ints(rows.ids)
                unknown = slots == MISSING
            new_ids = rows.ids[unknown]
            self._intern_all(sorted_unique(new_ids).tolist())
            slots[unknown] = self.vocabulary.find_ints(new_ids)
        return self._merge_shared_slots(rows._replace(ids=slots), slots[:0])

    def _intern_used(self, names: list[Hashable], ids: Ids) -> Ids:
        """Give slots to the names that occur in `ids`; return a slot for each name, or MISSING."""
        used = np.zeros(len(names), bool)
        used[ids] = True
        slots = np.full(len(names), MISSING, np.uint32)
        slots[used] = self._intern_all([names[k] for k in np.flatnonzero(used)])
        return slots

    # Rows with crossed features

    def _learn_crossed(self, crosses: Interactions, batch: Batch, steps: Steps, p: Floats) -> None:
        """Learn rows with crossed features, in chunks if there are many."""
        if not isinstance(self.vocabulary, HashedVocabulary):
            require_plain(crosses, batch)
        whole = select_factors(crosses, batch)
        chunks = whole.chunks(self._rule_size_in_floats())
        backup = self._backup() if len(chunks) > 1 else None
        known = len(self.vocabulary) if isinstance(self.vocabulary, InternedVocabulary) else 0
        k = len(p) // max(1, batch.n)
        try:
            for lo, hi in chunks:
                try:
                    rows = self._crossed_rows(crosses, whole.slice(lo, hi))
                    self._require_features(rows)
                except BadExample as bad:
                    raise BadExample(bad.reason, lo + bad.row) from None
                self._learn_rows(rows, steps.slice(lo, hi), p[lo * k : hi * k])
        except BaseException:
            if backup is not None:
                self._restore_backup(backup)
                if isinstance(self.vocabulary, InternedVocabulary):
                    self.vocabulary.truncate(known)
            raise

    def _crossed_rows(self, crosses: Interactions, selection: Selection) -> Rows:
        """Convert a batch like `_rows`, and append the crossed features to each row."""
        batch, crossing = selection.batch, cross_rows(crosses, selection)
        texts, ids = batch.texts, batch.rows.ids

        def intern_plain() -> Ids:
            if texts is not None:
                return self._intern_texts(texts)
            return self._intern_used(batch.names or [], ids)[ids]

        plain, crossed = self._intern_crossed(crossing.hashes, crossing.factors, intern_plain)
        return self._append_crossed(batch, plain, crossing, crossed)
