"""Kernel context: one array with the addresses of everything that a dict kernel uses.

`context_fields` names the elements of the array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.hashing import PROCESS_KEY
from streaml1.features.dict_reader import context_fields as fields
from streaml1.features.dict_reader.crossed_factors import CACHE_SIZE
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
from streaml1.features.vocabulary.name_arena import PADDING
from streaml1.optim.update_rule import unknown_slot
from streaml1.text.keyed_names import NAME_KEYS

__all__ = ["KernelContext", "Kernels", "RowFunctions"]

# Buffers with one u64 per feature of a dict, and the sizes, in u64, of the two fixed buffers.
_BUFFERS = ("IDS", "VALUES", "KEYS", "TEXTS", "HASHES")
_SCRATCH, _BYTES = 4, 256
_TEXT_WORDS = 1 + (NAME_BYTES + CLEAN_BYTES) // 8 + CLEAN_BYTES + 4
_FACTOR_BUFFERS = ("PART_MASKS", "PART_HASHES", "PART_VALUES", "PART_POSITIONS")


class Kernels(NamedTuple):
    """The compiled functions that predict and learn a dict, given the address of a context."""

    predict: Callable[[int, Any, int], float]
    learn: Callable[[int, Any, float, float, float], int]


class RowFunctions(NamedTuple):
    """Addresses of the functions of a class of rules, see `entry_points`; 0 if there is none."""

    predict: int
    learn: int


class KernelContext:
    """Addresses of the current arrays of one model.

    Code that replaces an array closes the context first: kernels that still use it then do nothing.
    The context keeps everything that it points to alive.
    """

    __slots__ = (
        "_known", "_retained", "_valid", "address", "buffer", "learn", "learns", "length", "nbytes",
        "packed", "predict", "slots",
    )  # fmt: skip

    def __init__(
        self,
        kernels: Kernels,
        rows: RowFunctions,
        vocabulary: Any,
        rule: Any,
        online: Any,
        length: int,
        interactions: Interactions | None = None,
        ngrams: NGrams | None = None,
    ) -> None:
        self.predict, self.learn = kernels
        self.learns = rows.learn != 0
        self.length = length
        buffer = np.zeros(len(_BUFFERS) * length + _SCRATCH + _BYTES, np.uint64)
        # Packed features take the space of VALUES, KEYS and TEXTS.
        self.buffer = memoryview(buffer[length : 4 * length]).cast("B")  # type: ignore[arg-type]
        self.slots = memoryview(buffer[:length]).cast("B").cast("I")  # type: ignore[arg-type]
        self.packed: Kernels | None = None
        context = _new_context(buffer, length, rule, online, rows)
        retained: list[Any] = [context, buffer, online, rule]
        self._known: list[Any] | None = None
        if ngrams is not None and not isinstance(vocabulary, IntVocabulary):
            retained += _texts(context, ngrams, length)
        if ngrams is not None and isinstance(vocabulary, InternedVocabulary):
            self._known = vocabulary.keys
            retained += _bytes(context, vocabulary, length)
            retained += _known_names(context, vocabulary)
        elif isinstance(vocabulary, InternedVocabulary):
            retained += _hash_table(context, vocabulary)
            retained += _known_names(context, vocabulary)
        elif isinstance(vocabulary, HashedVocabulary):
            context[fields.MASK] = vocabulary.mask
        if interactions is not None:
            retained += _cross(context, interactions, vocabulary, length)
        self._retained = retained
        self.nbytes = int(buffer.nbytes + context.nbytes + 8 * int(context[fields.N_MARKS]))
        self.nbytes += 8 * length * _TEXT_WORDS if ngrams is not None else 0
        self.nbytes += 8 * CACHE_SIZE if interactions is not None else 0
        self._valid = memoryview(context)
        self.address = _address(context)

    @property
    def is_open(self) -> bool:
        """Whether kernels may use the context."""
        return self._valid[0] != 0

    @property
    def is_stale(self) -> bool:
        """Whether names have become strings since, which kernels for n-grams look up as bytes."""
        known = self._known
        return known is not None and len(known) != int(self._valid[fields.N_KNOWN])

    @property
    def size(self) -> int:
        """Number of slots of the rule."""
        return int(self._valid[fields.SIZE])

    @property
    def needed(self) -> int:
        """Number of features of the last example, crossed ones included."""
        return int(self._valid[fields.NEEDED])

    @property
    def crossed_name_bytes(self) -> int:
        """Number of bytes of the names of the factors of the last example."""
        return int(self._valid[fields.CROSSED_NAME_BYTES])

    def close(self) -> bool:
        """Disable the context for kernels; return whether it was open."""
        was_open = self.is_open
        self._valid[0] = 0
        return was_open

    def open(self) -> None:
        """Enable the context for kernels again."""
        self._valid[0] = 1


def _new_context(buffer: Any, length: int, rule: Any, online: Any, rows: RowFunctions) -> Any:
    """Return a context of a rule without a vocabulary; `buffer` holds the buffers of a dict."""
    context = np.zeros(fields.RULE_ARRAYS + 2 * len(rule), np.uint64)
    context[fields.VALID] = 1
    context[fields.LENGTH] = length
    context[fields.PREDICT_ROW], context[fields.LEARN_ROW] = rows
    context[fields.KEY] = PROCESS_KEY
    for k, name in enumerate(_BUFFERS):
        context[getattr(fields, name)] = _address(buffer) + 8 * k * length
    context[fields.SCRATCH] = _address(buffer) + 8 * len(_BUFFERS) * length
    context[fields.BYTES] = context[fields.SCRATCH] + np.uint64(8 * _SCRATCH)
    context[fields.RECORD] = _address(online)
    context[fields.SIZE] = rule.size
    unknown = unknown_slot(rule)
    context[fields.UNKNOWN_HAS_WEIGHT] = unknown is not None
    if unknown is None:
        unknown = 0 if rule.size else MISSING
    context[fields.UNKNOWN] = unknown
    context[fields.DICT : fields.RULE_ARRAYS] = [id(o) for o in fields.TYPES_READ]
    context[fields.RULE_ARRAYS :] = [
        number for array in rule for number in (_address(array), len(array))
    ]
    return context


def _hash_table(context: Any, vocabulary: InternedVocabulary) -> list[Any]:
    """Add the fields for names known as Python objects; return the objects to keep alive."""
    vocabulary.materialize()
    context[fields.ENTRIES] = _address(vocabulary.entries)
    context[fields.N_ENTRIES] = len(vocabulary.entries)
    context[fields.KNOWN_TEXTS] = id(vocabulary.category_values)
    context[fields.HASH_MASK] = keys.HASH
    context[fields.SEED] = keys.SEED
    return [vocabulary.entries, vocabulary.category_values]


def _known_names(context: Any, vocabulary: InternedVocabulary) -> list[Any]:
    """Add the fields for the names by slot; return the objects to keep alive."""
    context[fields.COUNTS] = _address(vocabulary.counts)
    context[fields.KNOWN_KEYS] = id(vocabulary.keys)
    return [vocabulary.counts, vocabulary.keys]


def _cross(context: Any, interactions: Interactions, vocabulary: Any, length: int) -> list[Any]:
    """Add the fields for crossed features; return the objects to keep alive."""
    n_members = length * interactions.max_prefixes_per_name
    n_starts = len(interactions.prefixes) + 1
    buffer = np.zeros(len(_FACTOR_BUFFERS) * length + n_starts + n_members, np.uint64)
    for k, name in enumerate(_FACTOR_BUFFERS):
        context[getattr(fields, name)] = _address(buffer) + 8 * k * length
    context[fields.STARTS] = _address(buffer) + 8 * len(_FACTOR_BUFFERS) * length
    context[fields.MEMBERS] = context[fields.STARTS] + np.uint64(8 * n_starts)
    context[fields.N_MEMBERS] = n_members
    context[fields.PLAN] = _address(interactions.plan)
    context[fields.N_PLAN] = len(interactions.plan)
    cache = np.zeros(CACHE_SIZE, np.uint64)
    context[fields.FACTOR_CACHE] = _address(cache)
    retained = [buffer, cache, interactions.plan]
    if isinstance(vocabulary, InternedVocabulary):
        retained += _products(context, vocabulary.crossed)
    elif isinstance(vocabulary, HashedVocabulary):
        slot_table = np.zeros(1 << (4 * length).bit_length(), np.uint64)
        context[fields.MARKS], context[fields.N_MARKS] = _address(slot_table), len(slot_table)
        retained.append(slot_table)
    return retained


def _products(context: Any, products: Any) -> list[Any]:
    """Add the fields for interned crossed features and the names of their factors."""
    hash_table, numbers, arena = products.table, products.numbers, products.names
    arrays: dict[int, Any] = {
        fields.CROSSED: hash_table.entries, fields.CROSSED_USED: hash_table.used,
        fields.PRODUCT_HASHES: products.hashes, fields.PRODUCT_SLOTS: products.slots,
        fields.PRODUCT_PARTS: products.parts, fields.PRODUCT_COUNT: products.count,
        fields.NUMBERS: numbers.entries, fields.INDEX_USED: numbers.used,
        fields.INDEX_COUNT: numbers.count, fields.ARENA_HASHES: arena.hashes,
        fields.ENDS: arena.ends, fields.ARENA: arena.bytes, fields.ARENA_COUNT: arena.count,
    }  # fmt: skip
    _write_addresses(context, arrays)
    context[fields.N_CROSSED] = len(hash_table.entries)
    context[fields.N_PRODUCTS] = len(products.slots)
    context[fields.N_NUMBERS] = len(numbers.entries)
    context[fields.N_ARENA_HASHES] = len(arena.hashes)
    context[fields.N_ARENA] = len(arena.bytes) - PADDING
    return list(arrays.values())


def _texts(context: Any, ngrams: NGrams, length: int) -> list[Any]:
    """Add the fields for counting n-grams; return the objects to keep alive."""
    prefixes, addresses, sizes = ngrams.packed_prefixes(MARGIN)
    text_values, spans = np.zeros(len(addresses), np.uint64), np.zeros(length, np.uint64)
    name_bytes = np.zeros(NAME_BYTES * length, np.uint8)
    clean = np.zeros(CLEAN_BYTES * length + BLOCK, np.uint8)
    begins = np.zeros(CLEAN_BYTES * length + 8)
    repeat_table = np.zeros(1 << max(5, (4 * length).bit_length()), np.uint64)
    character_table = characters()
    arrays: dict[int, Any] = {
        fields.TEXT_PREFIXES: addresses, fields.TEXT_PREFIX_SIZES: sizes,
        fields.TEXT_VALUES: text_values, fields.CHARACTERS: character_table, fields.CLEAN: clean,
        fields.BEGINS: begins, fields.NAMES: name_bytes, fields.SPANS: spans,
        fields.REPEAT_TABLE: repeat_table,
    }  # fmt: skip
    _write_addresses(context, arrays)
    context[fields.N_TEXT_PREFIXES], context[fields.MAX_NGRAM] = len(addresses), ngrams.ngrams
    context[fields.N_CLEAN], context[fields.N_NAMES] = len(clean) - BLOCK, len(name_bytes)
    context[fields.N_REPEAT_TABLE] = len(repeat_table)
    return [prefixes, *arrays.values()]


def _bytes(context: Any, vocabulary: InternedVocabulary, length: int) -> list[Any]:
    """Add the fields for names known by their bytes, with room for one more example."""
    index, arena = vocabulary.byte_index, vocabulary.pending
    index.reserve(length)
    arena.reserve(length, NAME_BYTES * length + 2 * MARGIN)
    arrays: dict[int, Any] = {
        fields.ENTRIES: index.entries, fields.INDEX_USED: index.used,
        fields.INDEX_COUNT: index.count, fields.ARENA_HASHES: arena.hashes,
        fields.ENDS: arena.ends, fields.ARENA: arena.bytes, fields.ARENA_COUNT: arena.count,
        fields.NAME_KEYS: NAME_KEYS,
    }  # fmt: skip
    _write_addresses(context, arrays)
    context[fields.N_ENTRIES] = len(index.entries)
    context[fields.N_ARENA_HASHES] = len(arena.hashes)
    context[fields.N_ARENA], context[fields.N_KNOWN] = len(arena.bytes), len(vocabulary.keys)
    return list(arrays.values())


def _address(a: Any) -> int:
    return int(a.ctypes.data)


def _write_addresses(context: Any, arrays: dict[int, Any]) -> None:
    """Write the address of each array to its field."""
    for field, array in arrays.items():
        context[field] = _address(array)
