"""Vocabulary without names: the slot of a feature is a hash of its name."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from streaml1.core.hashing import as_int64, int_hashes, mix64, name_hash, name_hashes
from streaml1.core.jit import COMPILED, gil_kernel
from streaml1.core.rows import BadExample, ensure, shown
from streaml1.core.types import Hashes, Ids, Slots

__all__ = ["HashedVocabulary"]


@gil_kernel
def _slots_of_ints(ids: Any, mask: Any, slots: Any) -> None:
    """Write the slot of each int in `ids` to `slots`."""
    # A negative int is a huge unsigned one here: it exceeds the mask and is hashed.
    for k in range(np.uint64(len(ids))):
        j = np.uint64(ids[k])
        slots[k] = j if j <= mask else mix64(j) & mask


class HashedVocabulary:
    """Vocabulary of 2**bits slots that maps a name to a slot by its stable hash.

    Names with the same slot share one weight. An int in [0, 2**bits) is its own slot.

    Parameters
    ----------
    bits
        Number of bits of a slot, 1 to 30.

    References
    ----------
    K. Weinberger, A. Dasgupta, J. Langford, A. Smola, J. Attenberg. Feature hashing for large
    scale multitask learning. ICML 2009.
    """

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.mask = (1 << bits) - 1

    def slot(self, name: Hashable) -> int:
        """Return the slot of a name.

        Raises
        ------
        BadExample
            If the type of the name has no stable hash.
        """
        whole = as_int64(name)
        if whole is not None and 0 <= whole <= self.mask:
            return whole
        try:
            return name_hash(name) & self.mask
        except TypeError:
            raise BadExample(
                "with hash_bits, a feature name must be a str, number, bytes, None or a tuple of "
                f"these, got {shown(name)} of type {type(name).__name__}, whose hash differs "
                "between processes; convert the name, or leave hash_bits out"
            ) from None

    def find_all(self, names: Sequence[Hashable]) -> Ids:
        """Return the slots of names; every name has one."""
        if all(isinstance(name, str) for name in names):
            slots: Ids = (name_hashes(names) & np.uint64(self.mask)).astype(np.uint32)
            return slots
        return np.array([self.slot(name) for name in names], np.uint32)

    def find_ints(self, ids: Slots) -> Ids:
        """Return the slots of the int names in an array."""
        if not COMPILED:
            return self.find_all(ids.tolist())
        slots = np.empty(len(ids), np.uint32)
        _slots_of_ints(ids, np.uint64(self.mask), slots)
        return slots

    def name(self, slot: int) -> Hashable:
        """Return the slot itself: names are not stored."""
        return slot

    def names_at(self, slots: Slots) -> list[Hashable]:
        """Return the names of slots: the slots themselves."""
        return list(slots.tolist())

    def hashes(self, slots: Slots) -> Hashes:
        """Return the stable hashes of the names of slots."""
        return int_hashes(slots.astype(np.int64))

    def snapshot(self) -> HashedVocabulary:
        """Return this object: it has no state that could change."""
        return self

    def state_dict(self, slots: Slots) -> dict[str, Any]:
        """Return the bits and the slots as plain values for a model file."""
        return {"kind": "hashed", "bits": self.bits, "slots": slots.astype(np.uint32)}

    def check(self, size: int) -> None:
        """Raise AssertionError unless a rule has a slot for each hash: `size` is 2**bits."""
        ensure(size == self.mask + 1, f"{self.bits} bits need {self.mask + 1} slots, got {size}")
