"""What stands where in a frame."""

from __future__ import annotations

import numpy as np

__all__ = [
    "BOOL",
    "BYTES",
    "COUNTS",
    "CROSSED",
    "CROSSED_USED",
    "DICT",
    "ENTRIES",
    "EQUALS",
    "FLOAT",
    "FLOAT64",
    "HASHES",
    "HEAD",
    "IDS",
    "INT",
    "KEPT",
    "KEYS",
    "KNOWN",
    "LENGTH",
    "MARKS",
    "MASK",
    "MEMBERS",
    "NEEDED",
    "NONE",
    "N_CROSSED",
    "N_ENTRIES",
    "N_MARKS",
    "N_MEMBERS",
    "N_PLAN",
    "PARTS_KNOWN",
    "PART_AT",
    "PART_HASHES",
    "PART_MASKS",
    "PART_VALUES",
    "PLAN",
    "RECORD",
    "SCRATCH",
    "SIZE",
    "STARTS",
    "STR",
    "TEXTS",
    "TEXTS_KNOWN",
    "TRUE",
    "TYPES_READ",
    "UNKNOWN",
    "VALID",
    "VALUES",
    "WEIGHS",
    "WORDS",
]

(
    VALID,  # 0 once an array has been replaced
    LENGTH,  # of the buffers
    IDS,
    VALUES,
    KEYS,
    TEXTS,
    HASHES,
    SCRATCH,
    BYTES,
    RECORD,
    SIZE,  # of the rule
    UNKNOWN,  # the slot that stands for what has none, or MISSING
    WEIGHS,  # whether that weighs something
    ENTRIES,
    N_ENTRIES,
    COUNTS,
    KNOWN,
    TEXTS_KNOWN,
    KEPT,  # what of a hash is looked at
    MASK,
    NEEDED,  # features of the last example with those that are crossed: no more than LENGTH are
    PLAN,  # what is crossed, see `crosses`
    N_PLAN,
    CROSSED,
    N_CROSSED,
    CROSSED_USED,
    PARTS_KNOWN,
    PART_MASKS,
    PART_HASHES,
    PART_VALUES,
    PART_AT,
    STARTS,
    MEMBERS,
    N_MEMBERS,
    MARKS,
    N_MARKS,
    FIRST_TYPE,
) = range(37)

# What kernels tell objects by; machine code on disk cannot hold addresses.
TYPES_READ = (dict, str, float, np.float64, int, bool, True, None, "=")
DICT, STR, FLOAT, FLOAT64, INT, BOOL, TRUE, NONE, EQUALS = range(
    FIRST_TYPE, FIRST_TYPE + len(TYPES_READ)
)
HEAD = FIRST_TYPE + len(TYPES_READ)  # where the rule's arrays begin
WORDS = 1024  # more than any frame has
