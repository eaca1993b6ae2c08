"""Kernels that predict or learn a dict in one call: one pair for each reader of dicts.

They read the dict, and call `predict_row` or `learn_row` of the model's class of rules by the
address in the context. So readers and rules are compiled once each, and not every reader with every
rule.

Passing a rule, a tuple of arrays, costs two microseconds per call; rebuilding it from the addresses
of its arrays costs a twentieth of that. Addresses do not carry the class, so `bound_kernel` binds
it before compilation.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.simd import array_at, call_f64, call_i64, rule_at
from streaml1.features.dict_reader.context_fields import (
    IDS,
    LEARN_ROW,
    MAX_FIELDS,
    PREDICT_ROW,
    RECORD,
    RULE_ARRAYS,
    VALUES,
)
from streaml1.features.dict_reader.cpython_objects import FALLBACK
from streaml1.optim import loop

__all__ = ["learn", "learn_items", "learn_row", "predict", "predict_items", "predict_row"]

read: Any = None
"""The reader, bound by `bound_kernel`. It converts the dict at an address to (ids, values) and
returns nnz; or FALLBACK; or FULL if slots or buffers run out."""

Rule: Any = None
"""The class of the rule, bound by `bound_kernel`."""


def predict(address: int, x: int, out: int) -> float:
    """Predict the dict at address `x`; NaN if the fast path does not apply."""
    context = array_at(address, MAX_FIELDS, np.uint64)
    n = read(context, x)
    if n < 0:
        return np.nan
    row = context[IDS], context[VALUES]
    return float(call_f64(context[PREDICT_ROW], (address, *row, np.int64(n), out)))


def learn(address: int, x: int, y: float, w: float, eta: float) -> int:
    """Learn the dict at address `x`; return the status of `loop.learn_row` or of `read`."""
    context = array_at(address, MAX_FIELDS, np.uint64)
    if context[LEARN_ROW] == 0:
        return FALLBACK
    n = read(context, x)
    if n < 0:
        return int(n)
    row = context[IDS], context[VALUES]
    return int(call_i64(context[LEARN_ROW], (address, *row, np.int64(n), y, w, eta)))


def predict_items(
    address: int, hashes: Any, texts: Any, values: Any, slots: Any, joined: int, out: int
) -> float:
    """Predict the arrays of an `Items`; NaN if the caller has to fall back to the slow path."""
    context = array_at(address, MAX_FIELDS, np.uint64)
    n = read(context, hashes, texts, values, slots, joined)
    if n < 0:
        return np.nan
    row = np.uint64(slots.ctypes.data), np.uint64(values.ctypes.data)
    return float(call_f64(context[PREDICT_ROW], (address, *row, np.int64(n), out)))


def learn_items(
    address: int, hashes: Any, texts: Any, values: Any, slots: Any, joined: int, y: float,
    w: float, eta: float,
) -> int:  # fmt: skip
    """Learn the arrays of an `Items`; return the status of `loop.learn_row` or of `read`."""
    context = array_at(address, MAX_FIELDS, np.uint64)
    if context[LEARN_ROW] == 0:
        return FALLBACK
    n = read(context, hashes, texts, values, slots, joined)
    if n < 0:
        return int(n)
    row = np.uint64(slots.ctypes.data), np.uint64(values.ctypes.data)
    return int(call_i64(context[LEARN_ROW], (address, *row, np.int64(n), y, w, eta)))


def predict_row(address: int, ids: int, values: int, n: int, out: int) -> float:
    """Return `loop.predict_row` of the model with a context, for a row at two addresses."""
    context = array_at(address, MAX_FIELDS, np.uint64)
    rule, online = rule_at(Rule, context, RULE_ARRAYS), array_at(context[RECORD], 1, loop.ONLINE)
    slots, numbers = array_at(ids, n, np.uint32), array_at(values, n, np.float64)
    return loop.predict_row(rule, online, slots, numbers, n, out)


def learn_row(address: int, ids: int, values: int, n: int, y: float, w: float, eta: float) -> int:
    """Return `loop.learn_row` of the model with a context, for a row at two addresses."""
    context = array_at(address, MAX_FIELDS, np.uint64)
    rule, online = rule_at(Rule, context, RULE_ARRAYS), array_at(context[RECORD], 1, loop.ONLINE)
    slots, numbers = array_at(ids, n, np.uint32), array_at(values, n, np.float64)
    return loop.learn_row(rule, online, slots, numbers, n, y, w, eta)
