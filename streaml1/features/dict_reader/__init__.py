"""Convert a dict to a row inside a kernel that holds the GIL.

The kernels take exact dicts whose names are exact str or int and whose values are exact float, int,
bool, str or None. No user-defined `__hash__`, `__eq__` or `__float__` can run for these types, so
the dict cannot change while it is read, and no other thread runs meanwhile. Every other mapping
falls back to `items` or to `core.rows.numeric_features`, with the same slots and the same floats.

There is one reader for each kind of vocabulary, for crossed features and for raw text. One pair of
kernels is compiled for each. A kernel finds all addresses in a `KernelContext`.

``docs/internals/walks.md`` follows a dict from `learn_one` to its weights.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from streaml1.core.jit import COMPILED, row_kernel
from streaml1.features.dict_reader import (
    crossed,
    crossed_hashed,
    entry_points,
    hashed,
    interned,
    ints,
    items,
    packed,
    raw_text,
)
from streaml1.features.dict_reader.cpython_objects import AVAILABLE, FALLBACK, FULL
from streaml1.features.dict_reader.kernel_context import KernelContext, Kernels
from streaml1.features.interactions import Interactions
from streaml1.features.ngrams import NGrams
from streaml1.features.vocabulary import HashedVocabulary, InternedVocabulary, IntVocabulary

__all__ = ["AVAILABLE", "FULL", "FALLBACK", "KernelContext", "make_context"]

# The readers of a dict for predicting and for learning.
_READS: dict[type, Any] = {
    IntVocabulary: (ints.read_known, ints.read_all),
    InternedVocabulary: (interned.read_known, interned.read_all),
    HashedVocabulary: (hashed.read, hashed.read),
}
_CROSSED_READS: dict[type, Any] = {  # int names have no prefixes
    IntVocabulary: (ints.read_known, ints.read_all),
    InternedVocabulary: (crossed.read_known, crossed.read_all),
    HashedVocabulary: (crossed_hashed.read, crossed_hashed.read),
}
_NGRAM_READS: dict[type, Any] = {  # int names are never raw text
    IntVocabulary: (ints.read_known, ints.read_all),
    InternedVocabulary: (raw_text.read_known, raw_text.read_all),
    HashedVocabulary: (raw_text.read_hashed, raw_text.read_hashed),
}


@cache
def _predict(rule: Any, read: Any) -> Any:
    return row_kernel(entry_points.predict, rule, read, "uint64", "object", "int64")


@cache
def _learn(rule: Any, read: Any) -> Any:
    numbers = ("float64", "float64", "float64")
    return row_kernel(entry_points.learn, rule, read, "uint64", "object", *numbers)


_ARRAYS = ("uint64", "uint64[]", "uint64[]", "float64[]", "uint32[]", "int64")


@cache
def _packed_kernels(rule: type) -> Kernels:
    """Return the kernels that read a number of packed features instead of a dict, see `packed`."""
    numbers = ("float64", "float64", "float64")
    return Kernels(
        row_kernel(entry_points.predict, rule, packed.read_known, "uint64", "uint64", "int64"),
        row_kernel(entry_points.learn, rule, packed.read_all, "uint64", "uint64", *numbers),
    )


@cache
def predict_items(rule: type) -> Any:
    """Return the kernel that predicts `Items` with a class of rules, see `entry_points`."""
    return row_kernel(entry_points.predict_items, rule, items.find_known, *_ARRAYS, "int64")


@cache
def learn_items(rule: type) -> Any:
    """Return the kernel that learns `Items` with a class of rules, see `entry_points`."""
    numbers = ("float64", "float64", "float64")
    return row_kernel(entry_points.learn_items, rule, items.find_all, *_ARRAYS, *numbers)


def _no_predict(address: int, x: Any, out: int) -> float:
    return math.nan


def _no_learn(address: int, x: Any, y: float, w: float, eta: float) -> int:
    return FALLBACK


def make_context(
    vocabulary: Any,
    rule: Any,
    online: Any,
    length: int,
    learns: bool,
    interactions: Interactions | None = None,
    ngrams: NGrams | None = None,
) -> KernelContext:
    """Create the context of a model for dicts of up to `length` features.

    Crossed features and n-grams count towards `length`. Do not pass both `interactions` and
    `ngrams`. The learning kernel is compiled only if `learns` is set.
    """
    method: Any = type(rule)
    reads = _READS if interactions is None else _CROSSED_READS
    read_known, read_all = (reads if ngrams is None else _NGRAM_READS)[type(vocabulary)]
    pair = Kernels(_no_predict, _no_learn)
    if AVAILABLE:
        pair = Kernels(
            _predict(method, read_known), _learn(method, read_all) if learns else _no_learn
        )
    context = KernelContext(pair, learns, vocabulary, rule, online, length, interactions, ngrams)
    plain = interactions is None and ngrams is None and isinstance(vocabulary, InternedVocabulary)
    if plain and COMPILED and not AVAILABLE:
        context.packed = _packed_kernels(method)
    return context
