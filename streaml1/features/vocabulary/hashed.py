"""No names at all: a slot is a hash."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from streaml1.core.hashing import as_int64, int_hashes, mix64, name_hash, name_hashes
from streaml1.core.jit import COMPILED, gil_kernel
from streaml1.core.rows import BadExample, ensure, shown

__all__ = ["HashedVocabulary"]


@gil_kernel
def _slots_of_ints(ids: Any, mask: Any, slots: Any) -> None:
    for k in range(np.uint64(len(ids))):
        j = np.uint64(ids[k])
        slots[k] = j if j <= mask else mix64(j) & mask


class HashedVocabulary:
    """Names by a stable hash; two that share a slot are one feature.

    An int below `2**bits` is its own slot.
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.mask = (1 << bits) - 1

    def slot(self, name: Hashable) -> int:
        """Return the slot of a name.

        Raises
        ------
        BadExample
            Where the name is of a kind that has no stable hash.
        """
        whole = as_int64(name)
        if whole is not None and 0 <= whole <= self.mask:
            return whole
        try:
            return name_hash(name) & self.mask
        except TypeError:
            raise BadExample(
                f"the name {shown(name)} is a {type(name).__name__}, which has no hash that is the "
                "same in every process; name features by strings, numbers, bytes, None or tuples "
                "of them, or leave hash_bits out"
            ) from None

    def find_all(self, names: Sequence[Hashable]) -> Any:
        """Slots of names; each has one."""
        if all(isinstance(name, str) for name in names):
            return (name_hashes(names) & np.uint64(self.mask)).astype(np.uint32)
        return np.array([self.slot(name) for name in names], np.uint32)

    def find_ints(self, ids: Any) -> Any:
        """Slots of ints, an array."""
        if not COMPILED:
            return self.find_all(ids.tolist())
        slots = np.empty(len(ids), np.uint32)
        _slots_of_ints(ids, np.uint64(self.mask), slots)
        return slots

    def name(self, slot: int) -> Hashable:
        """Return the slot itself: no name is kept."""
        return slot

    def names_at(self, slots: Any) -> list[Hashable]:
        """Return the names of some slots."""
        return list(slots.tolist())

    def hashes(self, slots: Any) -> Any:
        """Stable hashes of the names of some slots."""
        return int_hashes(slots.astype(np.int64))

    def snapshot(self) -> Any:
        """Return a copy of what `hashes` and `state_dict` need."""
        return self

    def state_dict(self, slots: Any) -> dict[str, Any]:
        """Return what `restore` needs of some slots."""
        return {"kind": "hashed", "bits": self.bits, "slots": slots.astype(np.uint32)}

    def check(self, size: int) -> None:
        """Raise AssertionError where a slot may lie outside."""
        ensure(size == self.mask + 1, "not as many slots as hashes")
