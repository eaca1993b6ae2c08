"""Which name each slot has."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import compress
from typing import Any, cast

import numpy as np

from streaml1.hashing import name_hashes
from streaml1.names.bytes import Arena, ByBytes
from streaml1.names.crossed import JOINT, Crossed, told

__all__ = ["Slots"]

CROSS = True  # in place of the text of a category: a crossed feature


class Slots:
    """The names by slot.

    Attributes
    ----------
    known : list
        The names, but for those that wait; of a category that came in its parts, the first;
        of a crossed feature where in `parts` its own begin, twice, and 1 more where they are three.
    texts : list
        Of such a category the second part, of a crossed feature `CROSS`, else None.
    parts : list
        The parts of crossed features, one after the other, as `names.crossed.told` takes them.
    crossed : ByBytes
        The slots of crossed features by their hashes.
    waiting : Arena
        Names that have come as bytes, those of the last slots.
    """

    def __init__(self) -> None:
        self.known: list[Hashable] = []
        self.texts: list[str | bool | None] = []
        self.parts: list[Any] = []
        self.crossed = ByBytes()
        self.waiting = Arena()

    def __len__(self) -> int:
        return len(self.known) + len(self.waiting)

    def name(self, slot: int) -> Hashable:
        """The name that has a slot."""
        name = self._plain(slot)
        return JOINT.join(name) if isinstance(name, Crossed) else name

    def _plain(self, slot: int) -> Hashable:
        """The name that has a slot, a crossed one by its parts."""
        before = len(self.known)
        if slot >= before:
            return self.waiting.name(slot - before)
        text = self.texts[slot]
        if text is None:
            return self.known[slot]
        if text is CROSS:
            return told(self._parts_at(slot, self.parts))
        return f"{self.known[slot]}={text}"

    def names(self) -> list[Hashable]:
        """All names, by slot."""
        if any(text is not None for text in self.texts):
            return [self.name(j) for j in range(len(self))]
        return [*self.known, *self.waiting.names()]

    def hashes(self, slots: Any) -> Any:
        """Stable hashes of the names of some slots, of crossed features those they are found by."""
        before, late = len(self.known), slots >= len(self.known)
        if late.all():
            return self.waiting.hashes[slots - before]
        found = np.empty(len(slots), np.uint64)
        found[late] = self.waiting.hashes[slots[late] - before]
        found[~late] = self._known_hashes(slots[~late])
        return found

    def _known_hashes(self, slots: Any) -> Any:
        if not self.crossed.used[0]:
            return name_hashes([self.name(j) for j in slots.tolist()])
        of_slots = np.zeros(len(self.known), np.uint64)
        plain = ~self.crossed.tell(of_slots)[slots]
        hashes = of_slots[slots]
        hashes[plain] = name_hashes([self.name(j) for j in slots[plain].tolist()])
        return hashes

    # Crossed features

    def is_cross(self) -> Any:
        """Which slots crossed features have, a bool each."""
        return np.fromiter((text is CROSS for text in self.texts), bool, len(self.known))

    def _parts_at(self, slot: int, parts: list[Any]) -> list[Any]:
        at = cast(int, self.known[slot])
        return parts[at >> 1 : (at >> 1) + 4 + 2 * (at & 1)]

    def _take(self, slot: int, parts: Sequence[Any]) -> None:
        """Have a slot stand for a crossed feature of some parts."""
        self.known[slot] = 2 * len(self.parts) + (len(parts) == 6)
        self.texts[slot] = CROSS
        self.parts.extend(parts)

    def _pack(self, parts: list[Any]) -> None:
        """Have a list of the parts, without those gone where they are more than half of it."""
        slots = np.flatnonzero(self.crossed.tell(np.empty(len(self), np.uint64)))
        codes = np.fromiter(map(self.known.__getitem__, slots.tolist()), np.int64, len(slots))
        starts, sizes = codes >> 1, 4 + 2 * (codes & 1)
        if 2 * int(sizes.sum()) >= len(parts):
            self.parts = parts.copy()
            return
        kept = np.zeros(len(parts) + 1, np.int8)
        np.add.at(kept, starts, 1)
        np.add.at(kept, starts + sizes, -1)
        left = np.cumsum(kept[:-1])
        self.parts = list(compress(parts, left.tolist()))
        codes = 2 * (np.cumsum(left) - 1)[starts] + (codes & 1)
        for slot, code in zip(slots.tolist(), codes.tolist(), strict=True):
            self.known[slot] = code

    # As of now

    def still(self) -> Any:
        """What `name`, `hashes` and `dump` need, as of now."""
        names = Slots.__new__(Slots)
        names.crossed, names.parts = self.crossed.copy(), self.parts.copy()
        names.known, names.texts = self.known.copy(), self.texts.copy()
        names.waiting = self.waiting.still()
        return names

    def dump(self, slots: Any) -> dict[str, Any]:
        """The names of some slots, and where those of categories are joined."""
        names = [self._plain(j) for j in slots.tolist()]
        texts = [self.texts[j] if j < len(self.known) else None for j in slots.tolist()]
        pairs = zip(names, texts, strict=True)
        joints = [len(n) - len(t) - 1 if isinstance(t, str) else -1 for n, t in pairs]  # type: ignore
        return {"kind": "table", "names": names, "joints": np.array(joints, np.int32)}
