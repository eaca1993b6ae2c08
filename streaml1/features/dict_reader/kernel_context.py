"""All that a kernel of one dict needs, as one array of addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streaml1.features.dict_reader import context_fields as fields
from streaml1.features.dict_reader.crossed_factors import SEEN
from streaml1.features.dict_reader.raw_text import CLEAN_BYTES, NAME_BYTES
from streaml1.features.interactions import Interactions
from streaml1.features.ngrams import NGrams
from streaml1.features.ngrams.tokenizer import BLOCK, MARGIN, characters
from streaml1.features.vocabulary import (
    MISSING,
    HashedVocabulary,
    InternedVocabulary,
    IntVocabulary,
)
from streaml1.features.vocabulary import hash_keys as keys
from streaml1.features.vocabulary.byte_interning import PADDING
from streaml1.optim.update_rule import unknown_slot

__all__ = ["KernelContext", "Kernels"]

# What a buffer has for each feature of a dict, in words of 8 bytes, and once.
_PARTS = ("IDS", "VALUES", "KEYS", "TEXTS", "HASHES")
_SCRATCH, _BYTES = 4, 256
_TEXT_WORDS = 1 + (NAME_BYTES + CLEAN_BYTES) // 8 + CLEAN_BYTES + 4
_CROSS_PARTS = ("PART_MASKS", "PART_HASHES", "PART_VALUES", "PART_AT")


class Kernels(NamedTuple):
    """What predicts and what learns a dict, by a frame at an address."""

    predict: Callable[[int, Any, int], float]
    learn: Callable[[int, Any, float, float, float], int]


class KernelContext:
    """Addresses of one model's arrays as they are now.

    Whoever replaces an array makes the frame stale first: kernels that hold it then do nothing.
    It keeps all that it points to alive.
    """

    __slots__ = (
        *("_kept", "_known", "_valid", "address", "learn", "learns", "length", "nbytes"),
        "predict",
    )

    def __init__(
        self,
        kernels: Kernels,
        learns: bool,
        names: Any,
        rule: Any,
        online: Any,
        length: int,
        crosses: Interactions | None = None,
        words_of: NGrams | None = None,
    ) -> None:
        self.predict, self.learn = kernels
        self.learns = learns
        self.length = length
        buffer = np.zeros(len(_PARTS) * length + _SCRATCH + _BYTES, np.uint64)
        words = np.zeros(fields.HEAD + 2 * len(rule), np.uint64)
        words[fields.VALID] = 1
        words[fields.LENGTH] = length
        for k, part in enumerate(_PARTS):
            words[getattr(fields, part)] = _at(buffer) + 8 * k * length
        words[fields.SCRATCH] = _at(buffer) + 8 * len(_PARTS) * length
        words[fields.BYTES] = words[fields.SCRATCH] + np.uint64(8 * _SCRATCH)
        words[fields.RECORD] = _at(online)
        words[fields.SIZE] = rule.size
        unknown = unknown_slot(rule)
        words[fields.WEIGHS] = unknown is not None
        if unknown is None:
            unknown = 0 if rule.size else MISSING
        words[fields.UNKNOWN] = unknown
        kept: list[Any] = [words, buffer, online, rule]
        self._known: list[Any] | None = None
        if words_of is not None and not isinstance(names, IntVocabulary):
            kept += _texts(words, words_of, length)
        if words_of is not None and isinstance(names, InternedVocabulary):
            self._known = names.keys
            kept += _bytes(words, names, length)
            words[fields.COUNTS], words[fields.KNOWN] = _at(names.counts), id(names.keys)
            kept += [names.counts, names.keys]
        elif isinstance(names, InternedVocabulary):
            names.materialize()
            words[fields.ENTRIES] = _at(names.entries)
            words[fields.N_ENTRIES] = len(names.entries)
            words[fields.COUNTS] = _at(names.counts)
            words[fields.KNOWN], words[fields.TEXTS_KNOWN] = (
                id(names.keys),
                id(names.category_values),
            )
            words[fields.KEPT] = keys.HASH
            words[fields.MASK] = keys.SEED
            kept += [names.entries, names.counts, names.keys, names.category_values]
        elif isinstance(names, HashedVocabulary):
            words[fields.MASK] = names.mask
        if crosses is not None:
            kept += _cross(words, crosses, names, length)
        words[fields.DICT : fields.HEAD] = [id(o) for o in fields.TYPES_READ]
        words[fields.HEAD :] = [part for a in rule for part in (_at(a), len(a))]
        self._kept = kept
        self.nbytes = int(buffer.nbytes + words.nbytes + 8 * int(words[fields.N_MARKS]))
        self.nbytes += 8 * length * _TEXT_WORDS if words_of is not None else 0
        self.nbytes += 8 * SEEN if crosses is not None else 0
        self._valid = memoryview(words)  # type: ignore[arg-type]
        self.address = _at(words)

    @property
    def is_open(self) -> bool:
        """Whether kernels use the frame."""
        return self._valid[0] != 0

    @property
    def is_stale(self) -> bool:
        """Whether names have become strings since, which kernels of words look up as bytes."""
        known = self._known
        return known is not None and len(known) != int(self._valid[fields.KNOWN_N])

    @property
    def needed(self) -> int:
        """Features of the last example, with those that are crossed."""
        return int(self._valid[fields.NEEDED])

    @property
    def letters(self) -> int:
        """Bytes of those of its names that are crossed."""
        return int(self._valid[fields.LETTERS])

    def close(self) -> bool:
        """Have kernels that hold the frame do nothing; returns whether they did something."""
        was_open = self.is_open
        self._valid[0] = 0
        return was_open

    def open(self) -> None:
        """Have kernels use the frame again."""
        self._valid[0] = 1


def _cross(words: Any, crosses: Interactions, names: Any, length: int) -> list[Any]:
    """Have what crosses the features of a dict; returns what must be kept alive."""
    n_members = length * crosses.max_prefixes_per_name
    n_starts = len(crosses.prefixes) + 1
    parts = np.zeros(len(_CROSS_PARTS) * length + n_starts + n_members, np.uint64)
    for k, part in enumerate(_CROSS_PARTS):
        words[getattr(fields, part)] = _at(parts) + 8 * k * length
    words[fields.STARTS] = _at(parts) + 8 * len(_CROSS_PARTS) * length
    words[fields.MEMBERS] = words[fields.STARTS] + np.uint64(8 * n_starts)
    words[fields.N_MEMBERS] = n_members
    words[fields.PLAN], words[fields.N_PLAN] = _at(crosses.plan), len(crosses.plan)
    seen = np.zeros(SEEN, np.uint64)
    words[fields.PARTS_SEEN] = _at(seen)
    kept = [parts, seen, crosses.plan]
    if isinstance(names, InternedVocabulary):
        kept += _products(words, names.crossed)
    elif isinstance(names, HashedVocabulary):
        marks = np.zeros(1 << (4 * length).bit_length(), np.uint64)
        words[fields.MARKS], words[fields.N_MARKS] = _at(marks), len(marks)
        kept.append(marks)
    return kept


def _products(words: Any, products: Any) -> list[Any]:
    """Have crossed features known, and the names of their parts."""
    table, numbers, names = products.table, products.numbers, products.names
    parts: dict[int, Any] = {
        fields.CROSSED: table.entries, fields.CROSSED_USED: table.used,
        fields.PRODUCT_HASHES: products.hashes, fields.PRODUCT_SLOTS: products.slots,
        fields.PRODUCT_PARTS: products.parts, fields.PRODUCT_COUNT: products.count,
        fields.NUMBERS: numbers.entries, fields.BY_USED: numbers.used,
        fields.BY_COUNT: numbers.count, fields.KEPT_HASHES: names.hashes,
        fields.ENDS: names.ends, fields.ARENA: names.bytes, fields.ARENA_COUNT: names.count,
    }  # fmt: skip
    for place, part in parts.items():
        words[place] = _at(part)
    words[fields.N_CROSSED], words[fields.N_PRODUCTS] = len(table.entries), len(products.slots)
    words[fields.N_NUMBERS], words[fields.N_KEPT] = len(numbers.entries), len(names.hashes)
    words[fields.N_ARENA] = len(names.bytes) - PADDING
    return list(parts.values())


def _texts(words: Any, text: NGrams, length: int) -> list[Any]:
    """Have what counts the words of a dict; returns what must be kept alive."""
    heads, at, sizes = text.packed_prefixes(MARGIN)
    found, spans = np.zeros(len(at), np.uint64), np.zeros(length, np.uint64)
    names = np.zeros(NAME_BYTES * length, np.uint8)
    clean = np.zeros(CLEAN_BYTES * length + BLOCK, np.uint8)
    begins = np.zeros(CLEAN_BYTES * length + 8)
    met = np.zeros(1 << max(5, (4 * length).bit_length()), np.uint64)
    known = characters()
    parts: dict[int, Any] = {
        fields.HEADS: at, fields.HEAD_SIZES: sizes, fields.FOUND: found, fields.CHARACTERS: known,
        fields.CLEAN: clean, fields.BEGINS: begins, fields.NAMES: names, fields.SPANS: spans,
        fields.MET: met,
    }  # fmt: skip
    for place, part in parts.items():
        words[place] = _at(part)
    words[fields.N_HEADS], words[fields.NGRAMS] = len(at), text.ngrams
    words[fields.N_CLEAN], words[fields.N_NAMES] = len(clean) - BLOCK, len(names)
    words[fields.N_MET] = len(met)
    return [heads, *parts.values()]


def _bytes(words: Any, names: InternedVocabulary, length: int) -> list[Any]:
    """Have names known by their bytes, with room for those of an example more."""
    table, arena = names.byte_index, names.pending
    table.reserve(length)
    arena.reserve(length, NAME_BYTES * length + 2 * MARGIN)
    parts: dict[int, Any] = {
        fields.ENTRIES: table.entries, fields.BY_USED: table.used, fields.BY_COUNT: table.count,
        fields.KEPT_HASHES: arena.hashes, fields.ENDS: arena.ends, fields.ARENA: arena.bytes,
        fields.ARENA_COUNT: arena.count,
    }  # fmt: skip
    for place, part in parts.items():
        words[place] = _at(part)
    words[fields.N_ENTRIES], words[fields.N_KEPT] = len(table.entries), len(arena.hashes)
    words[fields.N_ARENA], words[fields.KNOWN_N] = len(arena.bytes), len(names.keys)
    return list(parts.values())


def _at(a: Any) -> int:
    return int(a.ctypes.data)
