"""Layouts of records of earlier versions, which model files hold."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from streaml1.optim.structures.feature_origins import ORIGIN_WIDTH
from streaml1.optim.structures.target_centre import CENTRE

__all__ = ["copied_to", "dtype_without", "with_origins"]

OF_ORIGINS = {"origin_rows", "with_origin", *(name for name, _ in CENTRE)}
"""Fields of the clocks that came with the origins of features and the centre of targets."""


def dtype_without(dtype: np.dtype[Any], fields: Collection[str]) -> np.dtype[Any]:
    """Return the aligned dtype of a record before it had some fields."""
    names = [name for name in dtype.names or () if name not in fields]
    return np.dtype([(name, dtype[name]) for name in names], align=True)


def copied_to(dtype: np.dtype[Any], record: Any) -> Any:
    """Return an array of one record with the fields of an older one; the others are 0."""
    new = np.zeros(1, dtype)
    for name in record.dtype.names:
        new[name] = record[name]
    return new


def with_origins(arrays: dict[str, Any], clock: np.dtype[Any]) -> dict[str, Any]:
    """Return the arrays of a saved rule; those of a version without origins in today's layout.

    Such a rule continues to read values and targets as they are.
    """
    record = np.atleast_1d(arrays.get("clock", 0))
    if record.dtype != dtype_without(clock, OF_ORIGINS) or len(record) != 1:
        return arrays
    n_slots = max((len(column) for column in arrays.values() if np.ndim(column)), default=0)
    origins = np.zeros((n_slots, ORIGIN_WIDTH))
    return {**arrays, "origins": origins, "clock": copied_to(clock, record)}
