"""Labels and sample weights as models take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from streaml1.rows import LIMIT, BadExample

__all__ = ["binary", "binaries", "refuse_unless_dict", "value", "values", "weight", "weights"]

WEIGHT_LIMIT = 1e15


def binary(y: Any) -> float:
    """-1.0 for False or 0, 1.0 for True or 1."""
    if isinstance(y, bool | np.bool_):
        return 1.0 if y else -1.0
    if hasattr(type(y), "__float__") and (y == 0 or y == 1):
        return 1.0 if y == 1 else -1.0
    raise BadExample(f"{y!r} is not a label of a classifier; labels are False, True, 0 or 1")


def binaries(y: Any, n: int) -> Any:
    """The -1.0 or 1.0 of each of `n` labels."""
    labels = _column("labels", y, n)
    if labels.dtype.kind == "b":
        signs = labels.astype(np.float64)
        signs += signs
        signs -= 1.0
        return signs
    if labels.dtype.kind in "iuf" and np.all((labels == 0) | (labels == 1)):
        return np.where(labels == 1, 1.0, -1.0)
    return _each(binary, labels)


def value(y: Any) -> float:
    """The label of a regressor as a float."""
    if isinstance(y, str | bytes) or not hasattr(type(y), "__float__"):
        raise BadExample(f"{y!r} is not a label of a regressor; labels are numbers")
    v = float(y)
    if not abs(v) < LIMIT:
        raise BadExample(f"the label {y!r} is not finite, or beyond 1e50; scale it or leave it out")
    return v


def values(y: Any, n: int) -> Any:
    """`n` labels of a regressor as floats."""
    labels = _column("labels", y, n)
    if labels.dtype.kind in "iufb":
        numbers = labels.astype(np.float64)
        if np.all(np.abs(numbers) < LIMIT):
            return numbers
    return _each(value, labels)


def weight(w: Any) -> float:
    """A sample weight as a float."""
    if isinstance(w, str | bytes) or not hasattr(type(w), "__float__"):
        raise BadExample(f"the weight {w!r} of the example is no number; give one from 0 to 1e15")
    v = float(w)
    if not 0.0 <= v <= WEIGHT_LIMIT:
        raise BadExample(f"the weight {w!r} of the example is not between 0 and 1e15")
    return v


def weights(w: Any, n: int) -> Any:
    """`n` sample weights as floats, from one for all, `n`, or None."""
    if w is None:
        return np.ones(n)
    if np.ndim(w) == 0:
        return np.full(n, weight(w))
    column = _column("weights", w, n)
    if column.dtype.kind in "iufb":
        numbers = np.require(column, np.float64, ["C", "A", "W"])
        if np.all((numbers >= 0.0) & (numbers <= WEIGHT_LIMIT)):
            return numbers
    return _each(weight, column)


def _column(what: str, given: Any, n: int) -> Any:
    column = np.asarray(given)
    if column.ndim != 1 or len(column) != n:
        raise ValueError(f"{what} have the shape {column.shape} beside {n} rows; give {n} of them")
    return column


def _each(check: Callable[[Any], float], column: Any) -> Any:
    checked = np.empty(len(column))
    for i, given in enumerate(column.tolist()):
        try:
            checked[i] = check(given)
        except BadExample as bad:
            raise BadExample(bad.reason, i) from None
    return checked


def refuse_unless_dict(x: Any) -> None:
    """Raise BadExample unless x is a mapping of features."""
    if not isinstance(x, Mapping):
        raise BadExample(
            f"an example is a dict of features, not a {type(x).__name__}; "
            "text goes through river's BagOfWords first"
        )
