"""Mappings read in Python and looked up in one kernel: the fallback of the dict kernels.

The dict kernels read CPython's objects behind the API's back. They are unavailable on other
interpreters and in free-threaded builds, and they do not take dict subclasses. There a mapping is
read here, in as few passes as Python needs: one for the types, one for the hashes, one for the
values. Each pass is a `map` or `numpy.fromiter` that runs in C. A kernel then finds the slots of
all names, and predicts or learns.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, u64
from streaml1.core.rows import NUMBER_TYPES, PLAIN_TYPES, VALUE_LIMIT
from streaml1.core.simd import array_at
from streaml1.core.types import Hashes, Values
from streaml1.features.dict_reader.context_fields import (
    COUNTS,
    ENTRIES,
    HASH_MASK,
    N_ENTRIES,
    UNKNOWN,
    VALID,
)
from streaml1.features.dict_reader.cpython_objects import FALLBACK, MAX_COMPARED, unknown_value
from streaml1.features.vocabulary.hash_keys import alias
from streaml1.features.vocabulary.name_index import ALIASED, IRREGULAR, WHOLE
from streaml1.features.vocabulary.probing import MISSING, lookup

__all__ = ["NEW_NAMES", "Items", "find_all", "find_known", "read_items", "without_zeros"]

NEW_NAMES = -5
"""Status of a learning kernel: some names have no slot yet. Their entries in `slots` say which."""

_NO_TEXT = u64(2**64 - 1)  # no object has the hash -1
_NOTHING = np.empty(0, np.uint64)
_DICTS = (dict, OrderedDict)  # `iter` and `values` of these agree with `items`


class Items(NamedTuple):
    """The features of an example whose names are all strings, without zeros.

    Attributes
    ----------
    names : tuple of str
        The keys of the mapping.
    given : tuple
        Their values as they were given: numbers and strings.
    hashes : ndarray of uint64, shape (n,)
        Python's hashes of the names. A kernel replaces them by those of the features.
    texts : ndarray of uint64, shape (n,) or (0,)
        Hashes of the string values, `_NO_TEXT` for a number; empty if there are only numbers.
    values : ndarray of float64, shape (n,)
        The numbers, and 1.0 for a string.
    slots : ndarray of uint32, shape (n,)
        Where a kernel writes slots.
    joined : bool
        Whether a name contains an equals sign, as the name of a category does.
    """

    names: tuple[str, ...]
    given: tuple[Any, ...]
    hashes: Hashes
    texts: Hashes
    values: Values
    slots: Any
    joined: bool


def read_items(x: Mapping[Hashable, Any]) -> Items | None:
    """Read a mapping; return None unless names are exact str and values have readable types.

    Values that a kernel must refuse (NaN, infinite, too large) are passed on: the caller falls
    back to `rows.numeric_features`, which names the culprit.
    """
    names: tuple[Any, ...]
    given: tuple[Any, ...]
    if type(x) in _DICTS:
        names, given = tuple(x), tuple(x.values())
    else:
        names, given = zip(*x.items(), strict=True) if len(x) else ((), ())
    if set(map(type, names)) != {str}:
        return None
    kinds = set(map(type, given))
    if kinds != {str} and not (kinds <= NUMBER_TYPES and all(given)):
        if not kinds <= PLAIN_TYPES:
            return None
        names, given = without_zeros(names, given)
        kinds = set(map(type, given))
    n = len(names)
    texts, values = _NOTHING, np.empty(n)
    try:
        if kinds <= NUMBER_TYPES:
            values = np.fromiter(given, np.float64, n)
        elif kinds == {str}:
            texts = np.fromiter(map(hash, given), np.int64, n).view(np.uint64)
            values.fill(1.0)
        else:
            values[:] = [1.0 if type(v) is str else v for v in given]
            texts = np.array([hash(v) if type(v) is str else -1 for v in given]).view(np.uint64)
    except OverflowError:  # an int beyond the floats
        return None
    hashes = np.fromiter(map(hash, names), np.int64, n).view(np.uint64)
    return Items(names, given, hashes, texts, values, np.empty(n, np.uint32), "=" in "".join(names))


def without_zeros(names: tuple[Any, ...], given: tuple[Any, ...]) -> tuple[Any, Any]:
    """Drop what is absent: None and zeros. An empty string is a category."""
    retained = [k for k, v in enumerate(given) if v or type(v) is str]
    return tuple(names[k] for k in retained), tuple(given[k] for k in retained)


@inlined
def _find(
    context: Any, hashes: Any, texts: Any, values: Any, slots: Any, joined: Any
) -> tuple[Any, bool]:
    """Write the slot of each feature, `MISSING` if it has none.

    Returns the number of features or FALLBACK, and whether a slot is missing.
    Invariant: `hashes[:k]` are hashes of features, `hashes[k:]` those of names.
    """
    n, failed = np.uint64(len(hashes)), np.int64(FALLBACK)
    if not context[VALID] or n > MAX_COMPARED:
        return failed, False
    entries = array_at(context[ENTRIES], context[N_ENTRIES], np.uint64)
    counts = array_at(context[COUNTS], 5, np.int64)
    any_missing = False
    for k in range(n):
        if not abs(values[k]) < VALUE_LIMIT:
            return failed, False
        h = hashes[k]
        category = len(texts) != 0 and texts[k] != _NO_TEXT
        if category:
            h = alias(h, texts[k])
        h &= context[HASH_MASK]
        hashes[k] = h
        slot = entries[lookup(entries, h) + u64(1)]
        if slot == MISSING:
            # The name may be known another way: under the hash of the whole name, under its
            # alias, or as an object that equals it. Only the vocabulary can tell.
            if counts[IRREGULAR] != 0 or (category and counts[WHOLE] != 0):
                return failed, False
            if joined and (category or counts[ALIASED] != 0):
                return failed, False
            any_missing = True
        slots[k] = np.uint32(slot)
    # Two features of one slot have to be summed. All pairs are compared without an early exit,
    # so that the compiler vectorizes the comparisons.
    repeated = False
    for k in range(n):
        slot = slots[k]
        same = False
        for m in range(k):
            same |= slots[m] == slot
        repeated |= same and slot != np.uint32(MISSING)
    return (failed if repeated else np.int64(n)), any_missing


@inlined
def find_known(context: Any, hashes: Any, texts: Any, values: Any, slots: Any, joined: Any) -> Any:
    """Find the features of an example to predict; return how many count, or FALLBACK.

    A feature without a slot takes the slot that stands for the unknown, or none.
    """
    n, any_missing = _find(context, hashes, texts, values, slots, joined)
    if n < 0 or not any_missing:
        return n
    m = u64(0)
    for k in range(np.uint64(n)):
        slot, v = np.uint64(slots[k]), values[k]
        if slot == MISSING:
            slot = context[UNKNOWN]
            v = unknown_value(context, v)
        if slot != MISSING:
            slots[m] = np.uint32(slot)
            values[m] = v
            m += u64(1)
    return np.int64(m)


@inlined
def find_all(context: Any, hashes: Any, texts: Any, values: Any, slots: Any, joined: Any) -> Any:
    """Find the features of an example to learn; return how many, FALLBACK or NEW_NAMES."""
    n, any_missing = _find(context, hashes, texts, values, slots, joined)
    return np.int64(NEW_NAMES) if n >= 0 and any_missing else n
