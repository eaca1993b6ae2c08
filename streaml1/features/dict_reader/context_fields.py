"""What stands where in a frame."""

from __future__ import annotations

import numpy as np

__all__ = [
    "ARENA",
    "ARENA_COUNT",
    "BEGINS",
    "BOOL",
    "BYTES",
    "BY_COUNT",
    "BY_USED",
    "CHARACTERS",
    "CLEAN",
    "COUNTS",
    "CROSSED",
    "CROSSED_USED",
    "DICT",
    "ENDS",
    "ENTRIES",
    "EQUALS",
    "FLOAT",
    "FLOAT64",
    "FOUND",
    "HASHES",
    "HEAD",
    "HEADS",
    "HEAD_SIZES",
    "IDS",
    "INT",
    "KEPT",
    "KEPT_HASHES",
    "KEYS",
    "KNOWN",
    "KNOWN_N",
    "LENGTH",
    "LETTERS",
    "MARKS",
    "MASK",
    "MEMBERS",
    "MET",
    "NAMES",
    "NEEDED",
    "NGRAMS",
    "NONE",
    "N_ARENA",
    "N_CLEAN",
    "N_CROSSED",
    "N_ENTRIES",
    "N_HEADS",
    "NUMBERS",
    "N_KEPT",
    "N_MARKS",
    "N_MEMBERS",
    "N_MET",
    "N_NAMES",
    "N_NUMBERS",
    "N_PLAN",
    "N_PRODUCTS",
    "PARTS_SEEN",
    "PART_AT",
    "PART_HASHES",
    "PART_MASKS",
    "PART_VALUES",
    "PLAN",
    "PRODUCT_COUNT",
    "PRODUCT_HASHES",
    "PRODUCT_PARTS",
    "PRODUCT_SLOTS",
    "RECORD",
    "SCRATCH",
    "SIZE",
    "SPANS",
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
    LETTERS,  # of those of its names that are crossed
    PLAN,  # what is crossed, see `crosses`
    N_PLAN,
    CROSSED,
    N_CROSSED,
    CROSSED_USED,
    PRODUCT_HASHES,  # of crossed features, see `names.products`
    PRODUCT_SLOTS,
    PRODUCT_PARTS,
    PRODUCT_COUNT,
    N_PRODUCTS,
    NUMBERS,
    N_NUMBERS,
    PART_MASKS,
    PART_HASHES,
    PART_VALUES,
    PART_AT,
    PARTS_SEEN,  # what parts of earlier examples were, see `walk.parts`
    STARTS,
    MEMBERS,
    N_MEMBERS,
    MARKS,
    N_MARKS,
    HEADS,  # of texts: what the names of their words begin with, see `words`
    N_HEADS,
    HEAD_SIZES,
    FOUND,
    NGRAMS,
    CHARACTERS,
    CLEAN,
    N_CLEAN,
    BEGINS,
    NAMES,
    N_NAMES,
    SPANS,
    MET,
    N_MET,
    KNOWN_N,  # how many names are strings: where it is another, the frame is stale
    BY_USED,  # of a table of hashes beside, and of the names in it: those of words, or parts
    BY_COUNT,
    KEPT_HASHES,
    N_KEPT,
    ENDS,
    ARENA,
    N_ARENA,
    ARENA_COUNT,
    FIRST_TYPE,
) = range(68)

# What kernels tell objects by; machine code on disk cannot hold addresses.
TYPES_READ = (dict, str, float, np.float64, int, bool, True, None, "=")
DICT, STR, FLOAT, FLOAT64, INT, BOOL, TRUE, NONE, EQUALS = range(
    FIRST_TYPE, FIRST_TYPE + len(TYPES_READ)
)
HEAD = FIRST_TYPE + len(TYPES_READ)  # where the rule's arrays begin
WORDS = 1024  # more than any frame has
