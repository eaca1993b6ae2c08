"""Allocation of slots: reuse the slots of zero weights if they suffice, else grow."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import cast

import numpy as np

from streaml1.core.types import Bools, Hashes, Ids, Ints
from streaml1.features.interactions import find_crossed
from streaml1.features.vocabulary import (
    INTS,
    MISSING,
    HashedVocabulary,
    InternedVocabulary,
    IntVocabulary,
)
from streaml1.features.vocabulary.byte_interning import distinct, expected_new
from streaml1.features.vocabulary.interaction_factors import InteractionFactors
from streaml1.features.vocabulary.restore import COPY_SLOTS, SPARSE
from streaml1.models.state import predictor
from streaml1.models.state.distinct_count import DistinctCounter
from streaml1.models.state.locking import LockedState
from streaml1.text.parsed_rows import NamedRows

__all__ = ["GrowableState"]

INT_SLOTS = 2**22  # int names below this number are slots in any model, however sparse


class GrowableState(LockedState):
    """A state that gives slots to new names."""

    def reserve_outputs(self, k: int) -> None:
        """Extend a rule of several outputs to `k` outputs."""
        if k > self.rule.outputs:
            with self.exclusive():
                self._set_rule(self.rule.widen(k))

    # Slots of names

    def _intern_all(self, names: list[Hashable]) -> Ids:
        """Return the slots of names, adding unseen ones to the vocabulary and the rule."""
        if isinstance(self.vocabulary, IntVocabulary):
            slots = self.vocabulary.find_all(names)
            top = int(slots.max()) if len(slots) else 0
            if top != MISSING and self._fits_ints(top + 1, len(slots)):
                self._grow_to(top + 1)
                return slots
            self._switch_to_names()
        if isinstance(self.vocabulary, HashedVocabulary):
            return self.vocabulary.find_all(names)
        self._reserve_entries(len(names))
        if isinstance(self.vocabulary, IntVocabulary):
            return self._intern_all(names)
        entries = self.vocabulary.entries
        try:
            return self.vocabulary.intern_all(names)
        finally:
            if self.vocabulary.entries is not entries:
                self._context = None

    def _intern_texts(self, texts: NamedRows) -> Ids:
        """Return the slots of names given as bytes, adding unseen ones as `_intern_all` does."""
        hashes, _, _ = texts.csr()
        if isinstance(self.vocabulary, HashedVocabulary):
            return self._find_texts(texts)[0]
        slots, spans, pos = np.empty(len(hashes), np.uint32), texts.name_spans(), 0
        keyed = texts.keyed_hashes()
        # Invariant: slots[:pos] are the slots of the first `pos` names.
        while pos < len(hashes):
            if isinstance(self.vocabulary, IntVocabulary):
                self._switch_to_names()
            names = self._interned
            if names.irregular:
                return self._intern_irregular(texts)
            known, begun, context = len(names), pos, self._context
            self._context = None  # a context cannot see names that are pending
            pos = names.intern_bytes(hashes, slots, texts.names, spans, self.rule.size, pos, keyed)
            if len(names) == known:
                self._context = context
            if pos < len(hashes):
                n = expected_new(pos - begun, len(names) - known, len(hashes) - pos)
                self._make_room(n, slots[:pos])
                if self.vocabulary is not names:  # all slots have moved
                    pos = 0
        return slots

    def _intern_irregular(self, texts: NamedRows) -> Ids:
        """Intern names of which some may equal an irregular name (neither str nor int)."""
        while True:
            names = self.vocabulary
            slots, missing = self._find_texts(texts)
            new = distinct(texts.keyed_hashes(), missing)
            self._reserve_slots(len(new.first_positions))
            if self.vocabulary is names:  # else a known slot may have been released: retry
                break
        if len(new.first_positions):
            new.fill(slots, self._intern_all([*texts.feature_names(new.first_positions)]))
        return slots

    def _intern_crossed(
        self, hashes: Hashes, factors: InteractionFactors, intern_plain: Callable[[], Ids]
    ) -> tuple[Ids, Ids]:
        """Return the slots of plain names, from `intern_plain`, and of crossed features."""
        while True:
            plain, names = intern_plain(), self.vocabulary
            if not isinstance(names, InternedVocabulary):  # hashed, or nothing to cross
                return plain, find_crossed(names, hashes)[0]
            slots, pos, known = np.empty(len(hashes), np.uint32), 0, len(names)
            # A context cannot see names that are pending.
            context, self._context = self._context, None
            while pos < len(hashes) and self.vocabulary is names:  # else all slots have moved
                pos = names.intern_crossed(hashes, slots, factors, self.rule.size, pos)
                if pos < len(hashes):
                    n = expected_new(pos, len(names) - known, len(hashes) - pos)
                    self._make_room(n, np.append(plain, slots[:pos]))
            if self.vocabulary is names:
                if len(names) == known:
                    self._context = context
                return plain, slots

    # Capacity

    @property
    def _interned(self) -> InternedVocabulary:
        """The vocabulary, where the caller knows that it is an interned one."""
        return cast("InternedVocabulary", self.vocabulary)

    def _reserve_slots(self, n: int) -> None:
        """Ensure slots for `n` more names."""
        if len(self._interned) + n > self.rule.size:
            self._make_room(n)

    def _reserve_entries(self, n: int, crossed: int = 0, n_bytes: int = 0) -> None:
        """Ensure slots and hash table capacity for `n` names and `crossed` crossed features.

        `n_bytes` is the number of bytes of the crossed names.
        """
        self._reserve_slots(n + crossed)
        if isinstance(self.vocabulary, InternedVocabulary):
            entries = self.vocabulary.entries
            self.vocabulary.reserve(n)
            if self.vocabulary.entries is not entries:
                self._context = None
            if crossed and self.vocabulary.crossed.reserve_ahead(crossed, n, n_bytes):
                self._context = None

    def _fits_ints(self, needed: int, n: int) -> bool:
        """Return whether int names should stay slots if `n` more names need `needed` slots."""
        if needed > INTS:
            return False
        max_nonzero = int(self.online[0].most)
        if max_nonzero:
            return needed <= max(COPY_SLOTS, SPARSE * max_nonzero)
        slots = INT_SLOTS // getattr(self.rule, "outputs", 1)
        if needed <= max(slots, self.rule.size, SPARSE * n):
            return True
        return needed <= SPARSE * (n + int(np.count_nonzero(self.rule.seen_mask())))

    def _grow_to(self, size: int, spare: int = 0) -> None:
        """Grow to at least `size` slots, plus `spare` when growing is necessary."""
        if size > self.rule.size:
            rule = self.rule.grow(max(size + spare, 2 * self.rule.size))
            self._context = None
            self.rule = rule

    # Remapping of slots

    def _switch_to_names(self) -> None:
        """Stop using int names as slots: intern those that are in use."""
        retained = self.rule.seen_mask()
        if np.count_nonzero(retained) > predictor.MIN_SLOTS:
            retained = self.rule.live_mask()
        names = InternedVocabulary()
        names.intern_all(np.flatnonzero(retained).tolist())
        new_slots = np.full(self.rule.size, -1)
        new_slots[retained] = np.arange(len(names))
        size = max(predictor.MIN_SLOTS, _power_of_two(2 * len(names)))
        self._remap(names, new_slots, size)

    def _make_room(self, n: int, used: Ids | None = None) -> None:
        """Ensure slots for `n` more names, reusing the slots of zero weights if they suffice.

        Slots in `used` are not released, even if their weights are zero.
        """
        live_mask = self.rule.live_mask()
        size = self._size_for(live_mask, n)
        if used is not None and not self._grows_to(size, n):
            live_mask[used] = True
            size = self._size_for(live_mask, n)
        if self._grows_to(size, n):
            self._set_rule(self.rule.grow(size))
        else:
            self._release_zeros(live_mask, size)

    def _grows_to(self, size: int, n: int) -> bool:
        """Return whether growing to `size` suffices; releasing zeros too would cost much more."""
        return self.rule.size < size and len(self._interned) + n <= size

    def _size_for(self, live_mask: Bools, n: int) -> int:
        """Return the number of slots to have for the live ones and `n` more."""
        needed = int(np.count_nonzero(live_mask)) + n
        size: int = max(predictor.MIN_SLOTS, _power_of_two(3 * needed // 2))
        if 2 * needed > self.rule.size:  # else the free slots are soon used up
            size = max(size, 2 * self.rule.size)
        return size

    def _release_zeros(self, live_mask: Bools, size: int) -> None:
        """Release the slots that are not live, and resize to `size` slots."""
        names, new_slots = self._interned.retain(live_mask)
        if self._switch_to_ints(names, new_slots):
            return
        padded = np.full(self.rule.size, -1)
        padded[: len(new_slots)] = new_slots
        self._remap(names, padded, size)

    def _switch_to_ints(
        self, names: InternedVocabulary, new_slots: Ints, n: int = 0, below: int = 0
    ) -> bool:
        """Use names as slots if they are all ints, dense enough; return whether this was done.

        `new_slots` maps the present slots to positions in `names`. `n` more ints, all less than
        `below`, are about to be added.
        """
        max_slots = min(INTS, SPARSE * (len(names) + n))
        ints = names.as_ints() if below <= max_slots else None  # as_ints is O(names)
        if ints is None:
            return False
        top = max(below, int(ints.max(initial=-1)) + 1)
        if not COPY_SLOTS < top <= max_slots or not self._fits_ints(top, n):
            return False
        moved = np.full(self.rule.size, -1)
        retained = np.flatnonzero(new_slots >= 0)
        moved[retained] = ints[new_slots[retained]]
        self._remap(IntVocabulary(), moved, max(predictor.MIN_SLOTS, top))
        return True

    def _reserve_ints(self, new: Ids | Ints) -> None:
        """Ensure capacity for new ints, which ascend, or switch to ints as slots.

        The switch is considered only when the rule would have to grow.
        """
        n, names = len(new), self._interned
        if len(names) + n > self.rule.size:
            below = int(new[-1]) + 1
            if self._switch_to_ints(names, np.arange(len(names)), n, below):
                return
        self._reserve_entries(n)

    def _remap(
        self, vocabulary: InternedVocabulary | IntVocabulary, new_slots: Ints, size: int
    ) -> None:
        """Move every slot to `new_slots`; released ones (-1) still count as seen."""
        gone = self.rule.seen_mask() & (new_slots < 0)
        forgotten = self.forgotten
        if gone.any():
            forgotten = DistinctCounter() if forgotten is None else forgotten.copy()
            forgotten.add(self.vocabulary.hashes(np.flatnonzero(gone)))
        rule = self.rule.remap(new_slots, size)
        # Compute everything before the assignments: an interrupt must not leave half of them.
        before = cast("InternedVocabulary | IntVocabulary", self.vocabulary)
        tracked = [(tracker, tracker.remapped(before, new_slots)) for tracker in self.trackers]
        self._context = None
        self.rule, self.vocabulary, self.forgotten = rule, vocabulary, forgotten
        for tracker, state in tracked:
            tracker.state = state


def _power_of_two(n: int) -> int:
    """Return the smallest power of two that is >= `n`."""
    return 1 << max(0, n - 1).bit_length()
