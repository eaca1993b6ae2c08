"""Kernels that predict or learn a dict in one call: one pair for each reader of dicts."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.simd import array_at, rule_at
from streaml1.features.dict_reader.context_fields import (
    IDS,
    LENGTH,
    MAX_FIELDS,
    RECORD,
    RULE_ARRAYS,
    VALUES,
)
from streaml1.optim.loop import ONLINE, learn_row, predict_row

__all__ = ["learn", "learn_items", "predict", "predict_items"]

# Bound by row_kernel: the class of the rule, and the reader. A reader converts the dict at an
# address to (ids, values) and returns nnz; or FALLBACK; or FULL if slots or buffers run out.
Rule: Any = None
read: Any = None


def predict(address: int, x: int, out: int) -> float:
    """Predict the dict at address `x`; NaN if the fast path does not apply."""
    context = array_at(np.uint64(address), MAX_FIELDS, np.uint64)
    n = read(context, np.uint64(x))
    if n < 0:
        return np.nan
    ids = array_at(context[IDS], context[LENGTH], np.uint32)
    values = array_at(context[VALUES], context[LENGTH], np.float64)
    online = array_at(context[RECORD], 1, ONLINE)
    return predict_row(rule_at(Rule, context, RULE_ARRAYS), online, ids, values, n, out)


def learn(address: int, x: int, y: float, w: float, eta: float) -> int:
    """Learn the dict at address `x`; return the status of `loop.learn_row` or of `read`."""
    context = array_at(np.uint64(address), MAX_FIELDS, np.uint64)
    n = read(context, np.uint64(x))
    if n < 0:
        return int(n)
    ids = array_at(context[IDS], context[LENGTH], np.uint32)
    values = array_at(context[VALUES], context[LENGTH], np.float64)
    online = array_at(context[RECORD], 1, ONLINE)
    return learn_row(rule_at(Rule, context, RULE_ARRAYS), online, ids, values, n, y, w, eta)


def predict_items(
    address: int, hashes: Any, texts: Any, values: Any, slots: Any, joined: int, out: int
) -> float:
    """Predict the arrays of an `Items`; NaN if the caller has to fall back to the slow path."""
    context = array_at(np.uint64(address), MAX_FIELDS, np.uint64)
    n = read(context, hashes, texts, values, slots, joined)
    if n < 0:
        return np.nan
    online = array_at(context[RECORD], 1, ONLINE)
    return predict_row(rule_at(Rule, context, RULE_ARRAYS), online, slots, values, n, out)


def learn_items(
    address: int, hashes: Any, texts: Any, values: Any, slots: Any, joined: int, y: float,
    w: float, eta: float,
) -> int:  # fmt: skip
    """Learn the arrays of an `Items`; return the status of `loop.learn_row` or of `read`."""
    context = array_at(np.uint64(address), MAX_FIELDS, np.uint64)
    n = read(context, hashes, texts, values, slots, joined)
    if n < 0:
        return int(n)
    online = array_at(context[RECORD], 1, ONLINE)
    return learn_row(rule_at(Rule, context, RULE_ARRAYS), online, slots, values, n, y, w, eta)
