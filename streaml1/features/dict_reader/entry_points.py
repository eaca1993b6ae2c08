"""Kernels that predict or learn a dict in one call: one pair for each reader of dicts.

They read the dict, and call the function of the model's rule for the row (`row_functions`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.simd import array_at, call_f64, call_i64
from streaml1.features.dict_reader.context_fields import (
    IDS,
    LEARN_ROW,
    MAX_FIELDS,
    PREDICT_ROW,
    VALUES,
)
from streaml1.features.dict_reader.cpython_objects import FALLBACK

__all__ = ["learn", "learn_items", "predict", "predict_items"]

read: Any = None
"""The reader, bound by `bound_kernel`. It converts the dict at an address to (ids, values) and
returns nnz; or FALLBACK; or FULL if slots or buffers run out."""


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
