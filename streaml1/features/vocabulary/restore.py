"""Names from what `dump` made of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.rows import ensure
from streaml1.features.vocabulary.hash_table import Table
from streaml1.features.vocabulary.hashed import Hashed
from streaml1.features.vocabulary.ints import INTS, Ints

__all__ = ["COPY_SLOTS", "SPARSE", "restore_names"]

# Ints are slots themselves as long as one slot in SPARSE is used, or memory is no matter: so many
# slots are none in one copy of a model among thousands.
SPARSE = 16
COPY_SLOTS = 2**14


def restore_names(dumped: dict[str, Any]) -> tuple[Any, Any, int]:
    """Names, the slots of those that were dumped, and how many slots there must be."""
    if dumped["kind"] == "table":
        table = Table.restore(dumped["names"], dumped["joints"])
        return table, np.arange(len(table)), len(table)
    slots = dumped["slots"].astype(np.int64)
    ensure(len(np.unique(slots)) == len(slots), "a slot stands twice")
    top = int(slots.max(initial=-1)) + 1
    if dumped["kind"] == "hashed":
        bits = int(dumped["bits"])
        ensure(1 <= bits <= 30 and top <= 1 << bits, "a slot is beyond the hash")
        return Hashed(bits), slots, 1 << bits
    ensure(top <= INTS, "a slot is beyond the ints")
    if top <= max(COPY_SLOTS, SPARSE * len(slots)):
        return Ints(), slots, top
    table = Table()
    table.admit_all(slots.tolist())
    return table, np.arange(len(table)), len(table)
