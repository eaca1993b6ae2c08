"""Slots and names: zeros are given back where that is room enough, or else there are more slots."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

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

SLOTS = 2**22  # ints may be so many slots in any model, however few of them are used


class GrowableState(LockedState):
    """A state that has slots for the names that come."""

    def reserve_outputs(self, k: int) -> None:
        """Have room for `k` outputs; for rules that have several."""
        if k > self.rule.outputs:
            with self.exclusive():
                self._set_rule(self.rule.widen(k))

    # Slots of names

    def _intern_all(self, names: list[Hashable]) -> Any:
        """Slots of names; the rule has all of them."""
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

    def _intern_texts(self, texts: NamedRows) -> Any:
        """Slots of names that come as bytes; the rule has all of them."""
        hashes, _, _ = texts.csr()
        if isinstance(self.vocabulary, HashedVocabulary):
            return self._find_texts(texts)[0]
        slots, spans, at = np.empty(len(hashes), np.uint32), texts.name_spans(), 0
        while at < len(hashes):
            if isinstance(self.vocabulary, IntVocabulary):
                self._switch_to_names()
            names = self.vocabulary
            if names.irregular:
                return self._intern_irregular(texts)
            known, begun, frame = len(names), at, self._context
            self._context = None  # it knows no names that wait
            at = names.intern_bytes(hashes, slots, texts.names, spans, self.rule.size, at)
            if len(names) == known:
                self._context = frame
            if at < len(hashes):
                n = expected_new(at - begun, len(names) - known, len(hashes) - at)
                self._make_room(n, slots[:at])
                if self.vocabulary is not names:  # all slots have moved
                    at = 0
        return slots

    def _intern_irregular(self, texts: NamedRows) -> Any:
        """Intern names of which some may equal an irregular name (neither str nor int)."""
        while True:
            names = self.vocabulary
            slots, places = self._find_texts(texts)
            new = distinct(texts.csr()[0], places)
            self._reserve_slots(len(new.first_positions))
            if self.vocabulary is names:  # or some that were known may have been given back
                break
        if len(new.first_positions):
            new.fill(slots, self._intern_all([*texts.feature_names(new.first_positions)]))
        return slots

    def _intern_crossed(
        self, hashes: Any, parts: InteractionFactors, admit_plain: Callable[[], Any]
    ) -> tuple[Any, Any]:
        """Slots of names, which `admit_plain` gives, and of crossed features; the rule has both."""
        while True:
            plain, names = admit_plain(), self.vocabulary
            if not isinstance(
                names, InternedVocabulary
            ):  # hashed, or there is nothing to be crossed
                return plain, find_crossed(names, hashes)[0]
            slots, at, known = np.empty(len(hashes), np.uint32), 0, len(names)
            frame, self._context = self._context, None  # it knows no names that wait
            while at < len(hashes) and self.vocabulary is names:  # or all slots have moved
                at = names.intern_crossed(hashes, slots, parts, self.rule.size, at)
                if at < len(hashes):
                    n = expected_new(at, len(names) - known, len(hashes) - at)
                    self._make_room(n, np.append(plain, slots[:at]))
            if self.vocabulary is names:
                if len(names) == known:
                    self._context = frame
                return plain, slots

    # Room

    def _reserve_slots(self, n: int) -> None:
        """Have slots for `n` names more."""
        if len(self.vocabulary) + n > self.rule.size:
            self._make_room(n)

    def _reserve_entries(self, n: int, crossed: int = 0, letters: int = 0) -> None:
        """Have slots, and places in tables, for `n` names and so many crossed features more.

        `letters` is how many bytes the names have that are crossed.
        """
        self._reserve_slots(n + crossed)
        if isinstance(self.vocabulary, InternedVocabulary):
            entries = self.vocabulary.entries
            self.vocabulary.reserve(n)
            if self.vocabulary.entries is not entries:
                self._context = None
            if crossed and self.vocabulary.crossed.reserve_ahead(crossed, n, letters):
                self._context = None

    def _fits_ints(self, needed: int, n: int) -> bool:
        """Whether ints are still worth being slots where `n` more may need so many."""
        if needed > INTS:
            return False
        most = int(self.online[0].most)
        if most:
            return needed <= max(COPY_SLOTS, SPARSE * most)
        slots = SLOTS // getattr(self.rule, "outputs", 1)
        if needed <= max(slots, self.rule.size, SPARSE * n):
            return True
        return needed <= SPARSE * (n + int(np.count_nonzero(self.rule.seen_mask())))

    def _grow_to(self, size: int, spare: int = 0) -> None:
        """Have at least `size` slots, and some to spare where there are fewer."""
        if size > self.rule.size:
            rule = self.rule.grow(max(size + spare, 2 * self.rule.size))
            self._context = None
            self.rule = rule

    # Other slots

    def _switch_to_names(self) -> None:
        """Give up ints as slots: those that are not zero become names like any other."""
        kept = self.rule.seen_mask()
        if np.count_nonzero(kept) > predictor.MIN_SLOTS:
            kept = self.rule.live_mask()
        names = InternedVocabulary()
        names.intern_all(np.flatnonzero(kept).tolist())
        new_slots = np.full(self.rule.size, -1)
        new_slots[kept] = np.arange(len(names))
        size = max(predictor.MIN_SLOTS, _power_of_two(2 * len(names)))
        self._remap(names, new_slots, size)

    def _make_room(self, n: int, used: Any = None) -> None:
        """Have room for `n` names more, in the slots of zeros where that is room enough.

        Slots that are `used` are none of these, whatever they hold.
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
        """Whether to grow suffices: to give zeros back as well would cost much more."""
        return self.rule.size < size and len(self.vocabulary) + n <= size

    def _size_for(self, live_mask: Any, n: int) -> int:
        """How many slots there are to be for those that are `live_mask` something and `n` more."""
        needed = int(np.count_nonzero(live_mask)) + n
        size: int = max(predictor.MIN_SLOTS, _power_of_two(3 * needed // 2))
        if 2 * needed > self.rule.size:  # what would be free is soon full again
            size = max(size, 2 * self.rule.size)
        return size

    def _release_zeros(self, live_mask: Any, size: int) -> None:
        """Have names and so many slots for those slots alone that are `live_mask` something."""
        names, new_slots = self.vocabulary.retain(live_mask)
        if self._switch_to_ints(names, new_slots):
            return
        padded = np.full(self.rule.size, -1)
        padded[: len(new_slots)] = new_slots
        self._remap(names, padded, size)

    def _switch_to_ints(
        self, names: InternedVocabulary, new_slots: Any, n: int = 0, below: int = 0
    ) -> bool:
        """Whether the names of a table are ints that are slots from now on.

        `new_slots` has their places among `names`; `n` more are about to come, all `below`.
        """
        most = min(INTS, SPARSE * (len(names) + n))
        ints = names.as_ints() if below <= most else None  # which walks all names
        if ints is None:
            return False
        top = max(below, int(ints.max(initial=-1)) + 1)
        if not COPY_SLOTS < top <= most or not self._fits_ints(top, n):
            return False
        moved = np.full(self.rule.size, -1)
        kept = np.flatnonzero(new_slots >= 0)
        moved[kept] = ints[new_slots[kept]]
        self._remap(IntVocabulary(), moved, max(predictor.MIN_SLOTS, top))
        return True

    def _reserve_ints(self, new: Any) -> None:
        """Have slots, and places in the table, for ints that ascend and have none.

        Before a table grows, it is asked whether ints are not worth being slots by now.
        """
        n, names = len(new), self.vocabulary
        if len(names) + n > self.rule.size:
            below = int(new[-1]) + 1
            if self._switch_to_ints(names, np.arange(len(names)), n, below):
                return
        self._reserve_entries(n)

    def _remap(self, names: Any, new_slots: Any, size: int) -> None:
        """Move every slot; what is given back is counted as seen."""
        gone = self.rule.seen_mask() & (new_slots < 0)
        forgotten = self.forgotten
        if gone.any():
            forgotten = DistinctCounter() if forgotten is None else forgotten.copy()
            forgotten.add(self.vocabulary.hashes(np.flatnonzero(gone)))
        rule = self.rule.remap(new_slots, size)
        tracked = [(watch, watch.moved(self.vocabulary, new_slots)) for watch in self.trackers]
        self._context = None
        self.rule, self.vocabulary, self.forgotten = rule, names, forgotten
        for watch, state in tracked:
            watch.state = state


def _power_of_two(n: int) -> int:
    """The least power of two that is not below `n`."""
    return 1 << max(0, n - 1).bit_length()
