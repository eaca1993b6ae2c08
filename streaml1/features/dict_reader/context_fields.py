"""Positions of the fields of a kernel context, an array of uint64."""

from __future__ import annotations

import numpy as np

__all__ = [
    "ARENA",
    "ARENA_COUNT",
    "BEGINS",
    "BOOL",
    "BYTES",
    "INDEX_COUNT",
    "INDEX_USED",
    "CHARACTERS",
    "CLEAN",
    "COUNTS",
    "CROSSED",
    "CROSSED_USED",
    "DICT",
    "ENDS",
    "ENTRIES",
    "EQUALS_TEXT",
    "FLOAT",
    "FLOAT64",
    "TEXT_VALUES",
    "HASHES",
    "RULE_ARRAYS",
    "TEXT_PREFIXES",
    "TEXT_PREFIX_SIZES",
    "IDS",
    "INT",
    "HASH_MASK",
    "KEY",
    "ARENA_HASHES",
    "KEYS",
    "KNOWN_KEYS",
    "N_KNOWN",
    "LEARN_ROW",
    "LENGTH",
    "CROSSED_NAME_BYTES",
    "MARKS",
    "MASK",
    "SEED",
    "MEMBERS",
    "REPEAT_TABLE",
    "NAMES",
    "NAME_KEYS",
    "NEEDED",
    "MAX_NGRAM",
    "NONE",
    "N_ARENA",
    "N_CLEAN",
    "N_CROSSED",
    "N_ENTRIES",
    "N_TEXT_PREFIXES",
    "NUMBERS",
    "N_ARENA_HASHES",
    "N_MARKS",
    "N_MEMBERS",
    "N_REPEAT_TABLE",
    "N_NAMES",
    "N_NUMBERS",
    "N_PLAN",
    "N_PRODUCTS",
    "FACTOR_CACHE",
    "PART_POSITIONS",
    "PART_HASHES",
    "PART_MASKS",
    "PART_VALUES",
    "PLAN",
    "PREDICT_ROW",
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
    "KNOWN_TEXTS",
    "TRUE",
    "TYPES_READ",
    "UNKNOWN",
    "VALID",
    "VALUES",
    "UNKNOWN_HAS_WEIGHT",
    "MAX_FIELDS",
]

(
    VALID,  # 0 once an array has been replaced
    LENGTH,  # capacity of the buffers, in features
    IDS,
    VALUES,
    KEYS,
    TEXTS,
    HASHES,
    SCRATCH,
    BYTES,
    RECORD,
    SIZE,  # number of slots of the rule
    UNKNOWN,  # slot used for unknown features, or MISSING
    UNKNOWN_HAS_WEIGHT,  # whether UNKNOWN is a real slot, so that its values count
    ENTRIES,
    N_ENTRIES,
    COUNTS,
    KNOWN_KEYS,
    KNOWN_TEXTS,
    HASH_MASK,  # bits of a hash that the hash table compares
    MASK,  # of a hashed vocabulary: the bits of a slot
    SEED,  # of an interned vocabulary: see `hash_keys.SEED`
    KEY,  # of `keyed_position`
    NEEDED,  # features of the last example, crossed ones included; may exceed LENGTH
    CROSSED_NAME_BYTES,  # bytes of the names of its factors
    PLAN,  # selection of crossed features, see `features.interactions`
    N_PLAN,
    CROSSED,
    N_CROSSED,
    CROSSED_USED,
    PRODUCT_HASHES,  # crossed features, see `vocabulary.crossed_table`
    PRODUCT_SLOTS,
    PRODUCT_PARTS,
    PRODUCT_COUNT,
    N_PRODUCTS,
    NUMBERS,
    N_NUMBERS,
    PART_MASKS,
    PART_HASHES,
    PART_VALUES,
    PART_POSITIONS,
    FACTOR_CACHE,  # cache of prefixes and factors, see `crossed_factors`
    STARTS,
    MEMBERS,
    N_MEMBERS,
    MARKS,
    N_MARKS,
    TEXT_PREFIXES,  # prefixes of the names of n-grams, see `features.ngrams`
    N_TEXT_PREFIXES,
    TEXT_PREFIX_SIZES,
    TEXT_VALUES,
    MAX_NGRAM,
    CHARACTERS,
    CLEAN,
    N_CLEAN,
    BEGINS,
    NAMES,
    NAME_KEYS,  # of fingerprints of names, see `text.keyed_names`
    N_NAMES,
    SPANS,
    REPEAT_TABLE,
    N_REPEAT_TABLE,
    N_KNOWN,  # len(KNOWN_KEYS) at creation; the context is stale if they differ
    INDEX_USED,  # used entries of the index of n-gram names, or of factors
    INDEX_COUNT,
    ARENA_HASHES,
    N_ARENA_HASHES,
    ENDS,
    ARENA,
    N_ARENA,
    ARENA_COUNT,
    PREDICT_ROW,  # addresses of functions of the rule's class, see `entry_points`
    LEARN_ROW,  # 0 if the model only predicts
    FIRST_TYPE,
) = range(73)

# Objects that kernels compare by address. Addresses change from process to process, so machine code
# that is cached on disk cannot contain them.
TYPES_READ = (dict, str, float, np.float64, int, bool, True, None, "=")
DICT, STR, FLOAT, FLOAT64, INT, BOOL, TRUE, NONE, EQUALS_TEXT = range(
    FIRST_TYPE, FIRST_TYPE + len(TYPES_READ)
)
RULE_ARRAYS = FIRST_TYPE + len(TYPES_READ)  # first (address, length) pair of the rule's arrays
MAX_FIELDS = 1024  # upper bound on the length of a context
