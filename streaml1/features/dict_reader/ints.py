"""Read dicts whose names are ints and serve as slots directly."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined, u64
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import array_at
from streaml1.features.dict_reader.context_fields import (
    IDS,
    INT,
    KEYS,
    LENGTH,
    SIZE,
    STR,
    TEXTS,
    UNKNOWN,
    VALUES,
)
from streaml1.features.dict_reader.cpython_objects import (
    FALLBACK,
    collect,
    int_of,
    number_of,
    type_of,
    unknown_value,
)
from streaml1.features.vocabulary import MISSING

__all__ = ["read_all", "read_known"]


@inlined
def _read(context: Any, x: Any, require_slots: bool) -> Any:
    """Convert the dict at `x` to (ids, values); return nnz or FALLBACK.

    A name that is not yet a slot of the rule takes the slot UNKNOWN; with `require_slots`, the dict
    falls back.
    """
    length = context[LENGTH]
    ids = array_at(context[IDS], length, np.uint32)
    values = array_at(context[VALUES], length, np.float64)
    keys = array_at(context[KEYS], length, np.uint64)
    texts = array_at(context[TEXTS], length, np.uint64)
    total = collect(context, x, keys, texts)
    if total < 0:
        return total
    n = u64(0)
    # Invariant: n <= k, and ids[:n] and values[:n] are final.
    for k in range(np.uint64(total)):
        kind = type_of(texts[k])
        v = number_of(context, texts[k], kind)
        if type_of(keys[k]) != context[INT] or kind == context[STR] or not abs(v) < VALUE_LIMIT:
            return np.int64(FALLBACK)
        j = int_of(keys[k])
        has_slot = j >= 0 and np.uint64(j) < context[SIZE]
        if (j < 0 or require_slots) and not has_slot:
            return np.int64(FALLBACK)
        slot = np.uint64(j) if has_slot else context[UNKNOWN]
        if v != 0.0 and slot != MISSING:
            ids[n] = np.uint32(slot)
            values[n] = v if has_slot else unknown_value(context, v)
            n += u64(1)
    return np.int64(n)


@inlined
def read_known(context: Any, x: Any) -> Any:
    """Convert the dict at `x` to (ids, values) to predict it; return nnz or FALLBACK."""
    return _read(context, x, False)


@inlined
def read_all(context: Any, x: Any) -> Any:
    """Convert the dict at `x` to (ids, values) to learn it; fall back if a name has no slot yet."""
    return _read(context, x, True)
