"""A dict straight to a row, inside a kernel that holds the interpreter lock.

It takes exact dicts whose names are exact str or int and whose values are exact float, int, bool,
str or None: of those no `__hash__`, `__eq__` or `__float__` of somebody's own can run, so the dict
cannot change while it is read, and no other thread runs meanwhile. Every other dict goes by
`rows.numeric_features`, to the same slots and the same floats.

Each kind of names has its own way of reading, another where features are crossed, and another
where some are raw text: one pair of kernels is compiled for each. They get all addresses in a
*frame*, see `walk.frame`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from streaml1.core.jit import row_kernel
from streaml1.features.dict_reader import (
    crossed,
    crossed_hashed,
    entry_points,
    hashed,
    interned,
    ints,
    items,
    raw_text,
)
from streaml1.features.dict_reader.cpython_objects import AVAILABLE, FALLBACK, FULL
from streaml1.features.dict_reader.kernel_context import KernelContext, Kernels
from streaml1.features.interactions import Interactions
from streaml1.features.ngrams import NGrams
from streaml1.features.vocabulary import HashedVocabulary, InternedVocabulary, IntVocabulary

__all__ = ["AVAILABLE", "FULL", "FALLBACK", "KernelContext", "make_context"]

# What reads a dict to predict, and to learn.
_READS: dict[type, Any] = {
    IntVocabulary: (ints.read_known, ints.read_all),
    InternedVocabulary: (interned.read_known, interned.read_all),
    HashedVocabulary: (hashed.read, hashed.read),
}
_CROSSED_READS: dict[type, Any] = {  # ints have no prefixes
    IntVocabulary: (ints.read_known, ints.read_all),
    InternedVocabulary: (crossed.read_known, crossed.read_all),
    HashedVocabulary: (crossed_hashed.read, crossed_hashed.read),
}
_COUNTED_READS: dict[type, Any] = {  # a name that is an int is of no text
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
    names: Any,
    rule: Any,
    online: Any,
    length: int,
    learns: bool,
    crosses: Interactions | None = None,
    words: NGrams | None = None,
) -> KernelContext:
    """The frame of a model for dicts of up to `length` features, crossed ones and words among them.

    Words and crosses go together only where the words are given by name: not with `words`.

    Where it only predicts, what learns is not compiled.
    """
    method: Any = type(rule)
    reads = _READS if crosses is None else _CROSSED_READS
    known, new = (reads if words is None else _COUNTED_READS)[type(names)]
    pair = Kernels(_no_predict, _no_learn)
    if AVAILABLE:
        pair = Kernels(_predict(method, known), _learn(method, new) if learns else _no_learn)
    return KernelContext(pair, learns, names, rule, online, length, crosses, words)
