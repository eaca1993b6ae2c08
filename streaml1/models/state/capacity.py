"""Slots and names: zeros are given back where that is room enough, or else there are more slots."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from streaml1.features.interactions import find_crossed
from streaml1.features.vocabulary import INTS, MISSING, Hashed, Ints, Table
from streaml1.features.vocabulary.byte_interning import distinct, soon
from streaml1.features.vocabulary.interaction_factors import Parts
from streaml1.features.vocabulary.restore import COPY_SLOTS, SPARSE
from streaml1.models.state import predictor
from streaml1.models.state.distinct_count import Sketch
from streaml1.models.state.locking import State
from streaml1.text.parsed_rows import NamedRows

__all__ = ["Room"]

SLOTS = 2**22  # ints may be so many slots in any model, however few of them are used


class Room(State):
    """A state that has slots for the names that come."""

    def have_outputs(self, k: int) -> None:
        """Have room for `k` outputs; for rules that have several."""
        if k > self.rule.outputs:
            with self.alone():
                self._set_rule(self.rule.widen(k))

    # Slots of names

    def _admit_all(self, names: list[Hashable]) -> Any:
        """Slots of names; the rule has all of them."""
        if isinstance(self.names, Ints):
            slots = self.names.find_all(names)
            top = int(slots.max()) if len(slots) else 0
            if top != MISSING and self._reaches(top + 1, len(slots)):
                self._have(top + 1)
                return slots
            self._name_all()
        if isinstance(self.names, Hashed):
            return self.names.find_all(names)
        self._have_places(len(names))
        if isinstance(self.names, Ints):
            return self._admit_all(names)
        entries = self.names.entries
        try:
            return self.names.admit_all(names)
        finally:
            if self.names.entries is not entries:
                self._frame = None

    def _admit_texts(self, texts: NamedRows) -> Any:
        """Slots of names that come as bytes; the rule has all of them."""
        hashes, _, _ = texts.parts()
        if isinstance(self.names, Hashed):
            return self._find_texts(texts)[0]
        slots, spans, at = np.empty(len(hashes), np.uint32), texts.own_spans(), 0
        while at < len(hashes):
            if isinstance(self.names, Ints):
                self._name_all()
            names = self.names
            if names.others:
                return self._admit_equals(texts)
            known, begun, frame = len(names), at, self._frame
            self._frame = None  # it knows no names that wait
            at = names.admit_bytes(hashes, slots, texts.names, spans, self.rule.size, at)
            if len(names) == known:
                self._frame = frame
            if at < len(hashes):
                n = soon(at - begun, len(names) - known, len(hashes) - at)
                self._make_space(n, slots[:at])
                if self.names is not names:  # all slots have moved
                    at = 0
        return slots

    def _admit_equals(self, texts: NamedRows) -> Any:
        """As `_admit_texts`, where one of the names may be equal to something that is no string."""
        while True:
            names = self.names
            slots, places = self._find_texts(texts)
            new = distinct(texts.parts()[0], places)
            self._have_slots(len(new.firsts))
            if self.names is names:  # or some that were known may have been given back
                break
        if len(new.firsts):
            new.tell(slots, self._admit_all([*texts.names_of(new.firsts)]))
        return slots

    def _admit_crossed(
        self, hashes: Any, parts: Parts, admit_plain: Callable[[], Any]
    ) -> tuple[Any, Any]:
        """Slots of names, which `admit_plain` gives, and of crossed features; the rule has both."""
        while True:
            plain, names = admit_plain(), self.names
            if not isinstance(names, Table):  # hashed, or there is nothing to be crossed
                return plain, find_crossed(names, hashes)[0]
            slots, at, known = np.empty(len(hashes), np.uint32), 0, len(names)
            frame, self._frame = self._frame, None  # it knows no names that wait
            while at < len(hashes) and self.names is names:  # or all slots have moved
                at = names.admit_crossed(hashes, slots, parts, self.rule.size, at)
                if at < len(hashes):
                    n = soon(at, len(names) - known, len(hashes) - at)
                    self._make_space(n, np.append(plain, slots[:at]))
            if self.names is names:
                if len(names) == known:
                    self._frame = frame
                return plain, slots

    # Room

    def _have_slots(self, n: int) -> None:
        """Have slots for `n` names more."""
        if len(self.names) + n > self.rule.size:
            self._make_space(n)

    def _have_places(self, n: int, crossed: int = 0, letters: int = 0) -> None:
        """Have slots, and places in tables, for `n` names and so many crossed features more.

        `letters` is how many bytes the names have that are crossed.
        """
        self._have_slots(n + crossed)
        if isinstance(self.names, Table):
            entries = self.names.entries
            self.names.widen(n)
            if self.names.entries is not entries:
                self._frame = None
            if crossed and self.names.crossed.widen_all(crossed, n, letters):
                self._frame = None

    def _reaches(self, needed: int, n: int) -> bool:
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

    def _have(self, size: int, spare: int = 0) -> None:
        """Have at least `size` slots, and some to spare where there are fewer."""
        if size > self.rule.size:
            rule = self.rule.grow(max(size + spare, 2 * self.rule.size))
            self._frame = None
            self.rule = rule

    # Other slots

    def _name_all(self) -> None:
        """Give up ints as slots: those that are not zero become names like any other."""
        kept = self.rule.seen_mask()
        if np.count_nonzero(kept) > predictor.LEAST_SIZE:
            kept = self.rule.live_mask()
        names = Table()
        names.admit_all(np.flatnonzero(kept).tolist())
        new_slots = np.full(self.rule.size, -1)
        new_slots[kept] = np.arange(len(names))
        size = max(predictor.LEAST_SIZE, _power_of_two(2 * len(names)))
        self._renumber(names, new_slots, size)

    def _make_space(self, n: int, used: Any = None) -> None:
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
            self._give_back(live_mask, size)

    def _grows_to(self, size: int, n: int) -> bool:
        """Whether to grow suffices: to give zeros back as well would cost much more."""
        return self.rule.size < size and len(self.names) + n <= size

    def _size_for(self, live_mask: Any, n: int) -> int:
        """How many slots there are to be for those that are `live_mask` something and `n` more."""
        needed = int(np.count_nonzero(live_mask)) + n
        size: int = max(predictor.LEAST_SIZE, _power_of_two(3 * needed // 2))
        if 2 * needed > self.rule.size:  # what would be free is soon full again
            size = max(size, 2 * self.rule.size)
        return size

    def _give_back(self, live_mask: Any, size: int) -> None:
        """Have names and so many slots for those slots alone that are `live_mask` something."""
        names, new_slots = self.names.keep(live_mask)
        if self._ints_again(names, new_slots):
            return
        padded = np.full(self.rule.size, -1)
        padded[: len(new_slots)] = new_slots
        self._renumber(names, padded, size)

    def _ints_again(self, names: Table, new_slots: Any, n: int = 0, below: int = 0) -> bool:
        """Whether the names of a table are ints that are slots from now on.

        `new_slots` has their places among `names`; `n` more are about to come, all `below`.
        """
        most = min(INTS, SPARSE * (len(names) + n))
        ints = names.ints() if below <= most else None  # which walks all names
        if ints is None:
            return False
        top = max(below, int(ints.max(initial=-1)) + 1)
        if not COPY_SLOTS < top <= most or not self._reaches(top, n):
            return False
        moved = np.full(self.rule.size, -1)
        kept = np.flatnonzero(new_slots >= 0)
        moved[kept] = ints[new_slots[kept]]
        self._renumber(Ints(), moved, max(predictor.LEAST_SIZE, top))
        return True

    def _have_ints(self, new: Any) -> None:
        """Have slots, and places in the table, for ints that ascend and have none.

        Before a table grows, it is asked whether ints are not worth being slots by now.
        """
        n, names = len(new), self.names
        if len(names) + n > self.rule.size:
            below = int(new[-1]) + 1
            if self._ints_again(names, np.arange(len(names)), n, below):
                return
        self._have_places(n)

    def _renumber(self, names: Any, new_slots: Any, size: int) -> None:
        """Move every slot; what is given back is counted as seen."""
        gone = self.rule.seen_mask() & (new_slots < 0)
        forgotten = self.forgotten
        if gone.any():
            forgotten = Sketch() if forgotten is None else forgotten.copy()
            forgotten.add(self.names.hashes(np.flatnonzero(gone)))
        rule = self.rule.remap(new_slots, size)
        watched = [(watch, watch.moved(self.names, new_slots)) for watch in self.watches]
        self._frame = None
        self.rule, self.names, self.forgotten = rule, names, forgotten
        for watch, state in watched:
            watch.state = state


def _power_of_two(n: int) -> int:
    """The least power of two that is not below `n`."""
    return 1 << max(0, n - 1).bit_length()
