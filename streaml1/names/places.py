"""Where a hash stands in a table of hashes and slots: open addressing, for every table of names."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.aligned import unset_in_lines
from streaml1.jit import inlined, typed_kernel

__all__ = ["MISSING", "NO_SLOT", "ONE", "free", "lookup"]

MISSING = 0xFFFFFFFF  # no slot: above every size a rule can have
NO_SLOT = np.uint64(MISSING)
ONE = np.uint64(1)


@inlined
def lookup(entries: Any, h: Any) -> Any:
    """Where in a table the hash `h` stands, or would.

    `entries` is (hash, slot) for each of a power of two of places; a slot `MISSING` is free.
    """
    mask = np.uint64(len(entries) // 2 - 1)
    place = h & mask
    while True:
        at = place + place
        if entries[at + ONE] == NO_SLOT or entries[at] == h:
            return at
        place = (place + ONE) & mask


@typed_kernel("uint64[]")
def _clear(entries: Any) -> None:
    for k in range(np.uint64(0), np.uint64(len(entries)), ONE + ONE):
        entries[k] = 0
        entries[k + ONE] = NO_SLOT


def free(places: int) -> Any:
    """A table of so many places, a power of two, all of them free."""
    entries = unset_in_lines(2 * places, np.uint64)
    _clear(entries)
    return entries
