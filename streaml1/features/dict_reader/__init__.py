"""Convert a dict to a row inside a kernel that holds the GIL.

The kernels take exact dicts whose names are exact str or int and whose values are exact float, int,
bool, str or None. No user-defined `__hash__`, `__eq__` or `__float__` can run for these types, so
the dict cannot change while it is read, and no other thread runs meanwhile. Every other mapping
falls back to `items` or to `core.rows.numeric_features`, with the same slots and the same floats.

There is one reader for each kind of vocabulary, for crossed features and for raw text, and one pair
of kernels for each reader. A kernel finds all addresses in a `KernelContext`, also those of the
functions that predict and learn a row by the model's update rule.

``docs/internals/walks.md`` follows a dict from `learn_one` to its weights.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from streaml1.core.jit import COMPILED, bound_kernel
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
from streaml1.features.dict_reader.kernel_context import (
    KernelContext,
    Kernels,
    RowFunctions,
)
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


_STEP = ("float64", "float64", "float64")  # label, sample weight, learning rate
_ARRAYS = ("uint64", "uint64[]", "uint64[]", "float64[]", "uint32[]", "int64")
_ROW = ("uint64", "uint64", "uint64", "int64")  # context, slots, values, their number


@cache
def _predict(read: Any) -> Any:
    return bound_kernel(entry_points.predict, {"read": read}, "uint64", "object", "int64")


@cache
def _learn(read: Any) -> Any:
    return bound_kernel(entry_points.learn, {"read": read}, "uint64", "object", *_STEP)


@cache
def _packed_kernels() -> Kernels:
    """Return the kernels that read a number of packed features instead of a dict, see `packed`."""
    known, every = {"read": packed.read_known}, {"read": packed.read_all}
    return Kernels(
        bound_kernel(entry_points.predict, known, "uint64", "uint64", "int64"),
        bound_kernel(entry_points.learn, every, "uint64", "uint64", *_STEP),
    )


@cache
def predict_items() -> Any:
    """Return the kernel that predicts `Items`, see `entry_points`."""
    read = {"read": items.find_known}
    return bound_kernel(entry_points.predict_items, read, *_ARRAYS, "int64")


@cache
def learn_items() -> Any:
    """Return the kernel that learns `Items`, see `entry_points`."""
    return bound_kernel(entry_points.learn_items, {"read": items.find_all}, *_ARRAYS, *_STEP)


@cache
def _predict_row(rule: Any) -> Any:
    return bound_kernel(entry_points.predict_row, {"Rule": rule}, *_ROW, "int64", native=True)


@cache
def _learn_row(rule: Any) -> Any:
    return bound_kernel(entry_points.learn_row, {"Rule": rule}, *_ROW, *_STEP, native=True)


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
    reads = _READS if interactions is None else _CROSSED_READS
    read_known, read_all = (reads if ngrams is None else _NGRAM_READS)[type(vocabulary)]
    pair = Kernels(_no_predict, _no_learn)
    if AVAILABLE:
        pair = Kernels(_predict(read_known), _learn(read_all) if learns else _no_learn)
    rows = RowFunctions(0, 0)
    if COMPILED:
        method: Any = type(rule)
        rows = RowFunctions(_predict_row(method), _learn_row(method) if learns else 0)
    context = KernelContext(pair, rows, vocabulary, rule, online, length, interactions, ngrams)
    plain = interactions is None and ngrams is None and isinstance(vocabulary, InternedVocabulary)
    if plain and COMPILED and not AVAILABLE:
        context.packed = _packed_kernels()
    return context
