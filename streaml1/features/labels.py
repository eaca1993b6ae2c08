"""Convert labels and sample weights to the floats that models use."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np

from streaml1.core.rows import VALUE_LIMIT, BadExample, constant_column, shown, shown_type

__all__ = [
    "to_sign",
    "to_signs",
    "array_of",
    "column_of",
    "equals_itself",
    "require_column",
    "require_mapping",
    "to_number",
    "to_numbers",
    "to_weight",
    "to_weights",
]

WEIGHT_LIMIT = 1e15
NUMBERS = (numbers.Real, Decimal, np.bool_)


def equals_itself(given: Any) -> bool:
    """Return whether a label equals itself: NaN does not, and pandas.NA raises."""
    try:
        return bool(given == given)
    except (TypeError, ValueError):
        return False


def _is_number(given: Any) -> bool:
    return isinstance(given, NUMBERS) and not isinstance(given, np.timedelta64)


def _float(given: Any) -> float:
    """Return `given` as a float: NaN if it is not a number, infinity if it is too large."""
    if not _is_number(given):
        return math.nan
    try:
        return float(given)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError):
        return math.nan


def to_sign(y: Any) -> float:
    """Convert the label of a classifier: False or 0 to -1.0, True or 1 to 1.0.

    Raises
    ------
    BadExample
        If the label is anything else.
    """
    v = _float(y)
    if v == 0.0:
        return -1.0
    if v == 1.0:
        return 1.0
    raise BadExample(
        f"{shown(y)} is not a label of a classifier; labels are False, True, 0 or 1; "
        "SoftmaxClassifier learns other labels"
    )


def to_signs(y: Any, n: int) -> Any:
    """Convert `n` labels of a classifier to -1.0 or 1.0.

    Raises
    ------
    BadExample
        If one is invalid. `row` is the first such row.
    ValueError
        If their number is not `n`.
    """
    labels = column_of("labels", y, n)
    if labels.dtype.kind == "b" or (
        labels.dtype.kind in "iuf" and np.all((labels == 0) | (labels == 1))
    ):
        signs = labels.astype(np.float64)
        signs += signs
        signs -= 1.0
        return signs
    return _each(to_sign, labels)


def to_number(y: Any, nonnegative: bool = False) -> float:
    """Convert the label of a regressor to a float.

    Raises
    ------
    BadExample
        If it is not a number, is not finite, exceeds 1e50 in magnitude, or is negative with
        `nonnegative`.
    """
    v = _float(y)
    if abs(v) < VALUE_LIMIT:
        if nonnegative and v < 0.0:
            raise BadExample(f"the label must be >= 0 with the Poisson loss, got {shown(y)}")
        return v
    if _is_number(y):
        raise BadExample(
            f"the label {shown(y)} is not finite, or beyond 1e50; scale it or leave it out"
        )
    raise BadExample(f"{shown(y)} is not a label of a regressor; labels are numbers")


def to_numbers(y: Any, n: int, nonnegative: bool = False) -> Any:
    """Convert `n` labels of a regressor to floats; with `nonnegative`, reject negative ones.

    Raises
    ------
    BadExample
        If one is invalid. `row` is the first such row.
    ValueError
        If their number is not `n`.
    """
    labels = column_of("labels", y, n)
    if labels.dtype.kind in "iufb":
        numbers_ = labels.astype(np.float64)
        lowest = 0.0 if nonnegative else -VALUE_LIMIT
        if np.all((numbers_ >= lowest) & (np.abs(numbers_) < VALUE_LIMIT)):
            return numbers_
    return _each(partial(to_number, nonnegative=nonnegative), labels)


def to_weight(w: Any) -> float:
    """Convert a sample weight to a float.

    Raises
    ------
    BadExample
        If it is not a number from 0 to 1e15.
    """
    v = _float(w)
    if 0.0 <= v <= WEIGHT_LIMIT:
        return v
    raise BadExample(f"the weight {shown(w)} of the example is not a number from 0 to 1e15")


def to_weights(w: Any, n: int) -> Any:
    """Convert sample weights to `n` floats: one weight for all rows, `n` weights, or None for 1.

    One weight for all rows gives a constant column, see `rows.constant_column`.

    Raises
    ------
    BadExample
        If one is invalid. `row` is the first such row.
    ValueError
        If their number is not `n`.
    """
    if w is None:
        return constant_column(1.0, n)
    if isinstance(w, str | bytes) or not hasattr(type(w), "__len__"):
        return constant_column(to_weight(w), n)
    column = column_of("weights", w, n)
    if column.dtype.kind in "iufb":
        numbers_ = np.require(column, np.float64, ["C", "A", "W"])
        if np.all((numbers_ >= 0.0) & (numbers_ <= WEIGHT_LIMIT)):
            return numbers_
    return _each(to_weight, column)


def column_of(what: str, given: Any, n: int) -> Any:
    """Return `given` as an array of shape (n,). A list of mixed types gives an array of objects.

    Raises
    ------
    ValueError
        If the shape is not (n,), or if it is not a sequence.
    """
    if isinstance(given, list | tuple):
        column = np.empty(len(given), object)
        column[:] = given
        kinds = set(map(type, given))
        if len(kinds) == 1 and kinds <= {bool, int, float}:
            with suppress(OverflowError):
                together = np.asarray(given)
                # numpy turns a mix of ints beyond int64 and negative ints into floats.
                column = column if kinds == {int} and together.dtype.kind == "f" else together
    else:
        column = array_of(given)
        if column.ndim == 0 and not isinstance(given, np.ndarray):
            raise ValueError(
                f"{what} must be a list or an array, with one for each of the {n:,} rows, got "
                f"{shown_type(given)}"
            )
    require_column(what, column.shape, n)
    return column


def require_column(what: str, shape: tuple[int, ...], n: int) -> None:
    """Raise ValueError unless a shape is (n,)."""
    if shape != (n,):
        remedy = f"; take the only column, as with {what}.ravel()" if shape == (n, 1) else ""
        raise ValueError(
            f"{what} must have the shape ({n},), one for each of the rows, got {shape}{remedy}"
        )


def array_of(given: Any) -> Any:
    """Convert anything but a list to an array. Dates and times stay objects, which are rejected."""
    try:
        column = np.asarray(given)
    except Exception:  # a type that numpy lacks, such as the 128-bit ints of polars
        if not hasattr(given, "to_list"):
            raise
        column = np.array(given.to_list(), object)
    if column.dtype.kind in "mM" and column.ndim == 1:
        times, column = column, np.empty(len(column), object)
        column[:] = list(times)
    return column


def _each(check: Callable[[Any], float], column: Any) -> Any:
    checked = np.empty(len(column))
    for i, given in enumerate(column.tolist()):
        try:
            checked[i] = check(given)
        except BadExample as bad:
            raise BadExample(bad.reason, i) from None
    return checked


def require_mapping(x: Any) -> None:
    """Raise unless `x` has the items of a dict, as a VectorDict of river and a pandas.Series do.

    Raises
    ------
    BadExample
        If it has none.
    """
    if not hasattr(type(x), "items"):
        remedy = ""
        if isinstance(x, str):
            remedy = "; text goes through river's BagOfWords first"
        elif hasattr(type(x), "__len__"):
            remedy = "; the methods that end in _many take lists of dicts, frames and matrices"
        raise BadExample(f"an example is a dict of features, not {shown_type(x)}{remedy}")
