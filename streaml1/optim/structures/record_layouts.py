"""Layouts of records of earlier versions, which model files hold."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

__all__ = ["copied_to", "dtype_without"]


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
