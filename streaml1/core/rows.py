"""Rows: one example is distinct slots (uint32) and values (finite, none of them zero).

What comes from outside is made into rows here, or refused in one sentence.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from streaml1.core import exit_codes as exits
from streaml1.core.jit import LANES, inlined, kernel
from streaml1.core.simd import (
    add,
    all_less,
    bit_or,
    lane_max,
    load,
    mask_not_rising,
    splat_u64,
    sub,
    to_bits,
)

__all__ = [
    "LIMIT",
    "MOST_IDS",
    "NUMBERS",
    "BadExample",
    "Rows",
    "alike",
    "ascending",
    "are_values",
    "ensure",
    "is_no_value",
    "is_plain_row",
    "largest",
    "number",
    "one_or_each",
    "plain_items",
    "refuse_value",
    "row_of",
    "shown",
]

# A value, and with the limits on weights, rates and clips (models/base.py) no weight, margin or
# folded entry ever leaves the range of a float: 1e50 * 1e15 * 1e30 * 1e10 a step, 1e15 steps.
LIMIT = 1e50
_LIMIT_BITS = np.int64(np.float64(LIMIT).view(np.int64))
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)
MOST_IDS = 2**32
_SIZE_MOST = np.uint64(2 * int(_LIMIT_BITS) - 2)  # see _size
_ZERO, _ONE, _TWO, _SIX, _SIXTEEN, _LANE = (np.uint64(n) for n in (0, 1, 2, 6, 16, LANES))

# Values of exactly these types are read as they are: no code of somebody's own can run.
NUMBERS = frozenset({float, int, bool, np.float64})


def shown(value: Any) -> str:
    """A value in a sentence, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # an int of more digits than Python tells
        text = f"{type(value).__name__}(...)"
    return text if len(text) <= 60 else f"{text[:56]}..."


def ensure(condition: Any, otherwise: str) -> None:
    """Raise AssertionError, even where Python runs with -O."""
    if not condition:
        raise AssertionError(otherwise)


class BadExample(ValueError):
    """An example that is refused; nothing of it, or of the batch it is in, has been learnt.

    Attributes
    ----------
    reason : str
        One sentence: the value, the rule, the remedy.
    row : int
        Which row of the batch, from 0.
    """

    exit_code = exits.DATA

    def __init__(self, reason: str, row: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row


class Rows(NamedTuple):
    """Rows one after the other: row i is the part `indptr[i]:indptr[i + 1]`."""

    ids: Any  # uint32
    values: Any  # float64
    indptr: Any  # uint64

    @property
    def n(self) -> int:
        """How many rows."""
        return len(self.indptr) - 1


_NO_NUMBERS = np.complexfloating | np.flexible | np.datetime64 | np.timedelta64
"""Of numpy's scalars those that are none, though some can be read as such."""


def number(name: Hashable, value: Any) -> float:
    """`value` as a float, or BadExample.

    Raises
    ------
    BadExample
        Where it is no number, not finite, or beyond 1e50.
    """
    kind = type(value)
    readable = hasattr(kind, "__float__") or hasattr(kind, "__index__")
    if not readable or issubclass(kind, _NO_NUMBERS):
        raise BadExample(
            f"the value {shown(value)} of {shown(name)} is a {kind.__name__}; "
            "values are numbers, strings (a category) or None (absent)"
        )
    try:
        v = float(value)
    except OverflowError:
        raise _too_large(shown(value), name) from None
    except (TypeError, ValueError):
        raise BadExample(
            f"the value {shown(value)} of {shown(name)} cannot be read as a number"
        ) from None
    refuse_value(name, v)
    return v


def refuse_value(name: Hashable, v: float) -> None:
    """Raise BadExample unless |v| < 1e50."""
    if v != v:
        raise BadExample(
            f"the value of {shown(name)} is NaN; leave a missing value out, or give None "
            "(in a pandas frame: convert_dtypes() first)"
        )
    if not abs(v) < LIMIT:
        raise _too_large(repr(v), name)


def _too_large(told: str, name: Hashable) -> BadExample:
    return BadExample(f"the value {told} of {shown(name)} is too large: scale it to below 1e50")


def plain_items(x: Mapping[Hashable, Any]) -> dict[Hashable, float]:
    """The features of an example by name: what a string, None, zero or repeated name means.

    Examples
    --------
    >>> plain_items({"price": 2, "shop": "fr", "age": None, "new": False})
    {'price': 2.0, 'shop=fr': 1.0}
    """
    plain: dict[Hashable, float] = {}
    for name, value in list(x.items()):  # a value's own code may change the dict
        if value is None:
            continue
        if isinstance(value, str):
            name, v = f"{name}={value}", 1.0
        else:
            v = number(name, value)
        if name in plain:
            v += plain[name]
            refuse_value(name, v)
        plain[name] = v
    return {name: v for name, v in plain.items() if v != 0.0}


@inlined
def is_no_value(v: float) -> Any:
    """Below zero for what is no value."""
    size = to_bits(v) & _MAGNITUDE
    return (_LIMIT_BITS - np.int64(1) - size) | (size - np.int64(1))


@inlined
def is_plain_row(ids: Any, values: Any, lo: Any, hi: Any, d: Any) -> bool:
    """Whether a row can be learnt as it is.

    No value is zero, NaN or too large, ids rise strictly and are below `d`. A row that is no worse
    than unsorted is not plain either: a slower look tells.
    """
    if lo == hi:
        return True
    last = hi - _ONE
    if hi - lo <= _SIXTEEN:
        wrong = is_no_value(values[last])
        for k in range(lo, last):
            wrong |= is_no_value(values[k])
            wrong |= np.int64(ids[k + _ONE]) - np.int64(ids[k]) - np.int64(1)
        return bool(wrong >= 0 and np.uint64(ids[last]) < d)
    top = last - _SIXTEEN
    size, falls = _size(values, hi - _LANE, splat_u64(_ZERO)), splat_u64(_ZERO)
    # Six times sixteen, the last of them the same ones if need be: where a walk of as many as there
    # are ends, no processor foresees.
    for first in range(lo, last, _SIX * _SIXTEEN):
        for j in range(_SIX):
            k = min(first + _SIXTEEN * j, top)
            falls = bit_or(falls, mask_not_rising(ids, k))
            size = _size(values, k + _LANE, _size(values, k, size))
    plain = all_less(falls, _ONE) and all_less(size, _SIZE_MOST)
    return bool(plain and np.uint64(ids[last]) < d)


@inlined
def _size(values: Any, k: Any, size: Any) -> Any:
    """The larger of eight words and those of eight values: huge where one is no value."""
    bits = to_bits(load(values, k))
    return lane_max(size, sub(add(bits, bits), splat_u64(_TWO)))  # without the sign; of zero huge


def alike(v: float, n: int) -> Any:
    """A column of `n` times the same float, in the memory of one."""
    return np.ndarray((n,), np.float64, np.array([v], np.float64), strides=(0,))


def one_or_each(column: Any) -> Any:
    """One float of a column where all are one (see `alike`), else the column: for kernels."""
    return column[:1] if column.strides == (0,) else column


def row_of(rows: Rows, k: int) -> int:
    """The row that the k-th entry is in."""
    return int(np.searchsorted(rows.indptr, np.uint64(k), side="right")) - 1


@kernel
def _are_values(values: Any) -> bool:
    """Whether no value is zero, NaN or too large."""
    bad = np.int64(0)
    for k in range(np.uint64(len(values))):
        bad |= is_no_value(values[k])
    return bool(bad >= 0)


def are_values(values: Any) -> bool:
    """Whether no value is zero, NaN or too large."""
    return bool(_are_values(values))


def ascending(ints: Any) -> Any:
    """The distinct ones of an array of ints; `numpy.unique` takes many times as long."""
    ints = np.sort(ints)
    first = np.ones(len(ints), bool)
    np.not_equal(ints[1:], ints[:-1], out=first[1:])
    return ints[first]


@kernel
def largest(ids: Any) -> int:
    """The largest id; 0 where there is none."""
    top = np.uint32(0)
    for k in range(len(ids)):
        top = max(top, ids[k])
    return int(top)
