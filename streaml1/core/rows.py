"""Rows: examples in CSR form, and the checks and errors for what comes from outside.

A row is *canonical* if its ids (slots, uint32) rise strictly and its values (float64) are *valid*:
finite, not zero and below 1e50 in magnitude. Learning loops require canonical rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.exit_codes import DATA_ERROR
from streaml1.core.jit import LANES, inlined, kernel, u64
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
from streaml1.core.types import Floats, Ids, Ints, UInts, Values

__all__ = [
    "MAX_IDS",
    "NUMBER_TYPES",
    "PLAIN_TYPES",
    "VALUE_LIMIT",
    "BadExample",
    "Rows",
    "are_valid_values",
    "check_value",
    "constant_column",
    "ensure",
    "is_canonical_row",
    "max_id",
    "numeric_features",
    "row_of_entry",
    "scalar_or_column",
    "shown",
    "shown_type",
    "sorted_unique",
    "to_value",
    "validity",
]

VALUE_LIMIT = 1e50
"""Upper bound of |value|.

With the bounds of weights, rates and clips in `models` it keeps every weight, margin and folded
entry within the range of a float: 1e50 * 1e15 * 1e30 * 1e10 per step, 1e15 steps.
"""

MAX_IDS = 2**32

NUMBER_TYPES = frozenset({float, int, bool, np.float64})
"""Exact types whose values are read without calling code of the user's."""

PLAIN_TYPES = NUMBER_TYPES | {str, type(None)}
"""Those, and the types of categories and of absent values."""

_LIMIT_BITS = np.int64(np.float64(VALUE_LIMIT).view(np.int64))
_MAGNITUDE_MASK = np.int64(0x7FFFFFFFFFFFFFFF)
_MAX_KEY = u64(2 * int(_LIMIT_BITS) - 2)  # see `_max_keys`
_LANES, _BLOCK = u64(LANES), u64(16)


def shown(value: Any) -> str:
    """Return the repr of a value for an error message, shortened to 60 characters of one line.

    A number of numpy is shown as it was written, without its type.
    """
    if isinstance(value, np.generic):
        value = value.item()
    try:
        text = repr(value)
    except ValueError:  # an int with more digits than Python converts
        text = f"{type(value).__name__}(...)"
    if "\n" in text:  # a series or a frame
        text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:56]}..."


def shown_type(value: Any) -> str:
    """Return the type of a value for an error message, with its article.

    Examples
    --------
    >>> from streaml1.core.rows import shown_type
    >>> shown_type(1), shown_type("a")
    ('an int', 'a str')
    """
    name = type(value).__name__
    has_vowel = name.lower().startswith(("a", "e", "i", "o", "nd"))  # of its first sound
    return f"an {name}" if has_vowel else f"a {name}"


def ensure(condition: Any, message: str) -> None:
    """Raise AssertionError unless `condition` holds, also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


class BadExample(ValueError):
    """A rejected example; neither it nor any other of its batch was learnt.

    Attributes
    ----------
    reason : str
        One sentence: the value, the rule, the remedy.
    row : int
        Index of the row in the batch.
    """

    exit_code = DATA_ERROR

    def __init__(self, reason: str, row: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row
        if row:  # tracebacks show notes below the message
            self.add_note(f"in row {row} of the batch, counted from 0")


class Rows(NamedTuple):
    """Rows in CSR form: row i has the entries `indptr[i]` to `indptr[i + 1] - 1`."""

    ids: Ids
    values: Values
    indptr: Any  # uint64, shape (n + 1,); stubs of numpy take its differences for time deltas

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.indptr) - 1


_NOT_NUMBERS = np.complexfloating | np.flexible | np.datetime64 | np.timedelta64
"""numpy scalars that are not numbers although `float` converts some of them."""


def is_missing(value: Any) -> bool:
    """Return whether a value stands for "absent": None, NaN, NaT or pandas.NA.

    Examples
    --------
    >>> is_missing(float("nan")), is_missing(None), is_missing(0.0), is_missing("nan")
    (True, True, False, False)
    """
    if value is None:
        return True
    if isinstance(value, str):
        return False
    try:
        return bool(value != value)
    except Exception:  # pandas.NA is neither equal to itself nor different; arrays are both
        return type(value).__name__ == "NAType"


def to_value(name: Hashable, value: Any) -> float:
    """Convert the value of the feature `name` to a float; 0, which means absent, if it is missing.

    Raises
    ------
    BadExample
        If the value is not a number, or not below 1e50 in magnitude.
    """
    if is_missing(value):
        return 0.0
    kind = type(value)
    is_convertible = hasattr(kind, "__float__") or hasattr(kind, "__index__")
    if not is_convertible or issubclass(kind, _NOT_NUMBERS):
        raise BadExample(
            f"the value {shown(value)} of {shown(name)} is {shown_type(value)}; "
            "values are numbers, strings (a category) or None (absent): convert it, or leave "
            f"{shown(name)} out"
        )
    try:
        v = float(value)
    except OverflowError:
        raise _too_large(shown(value), name) from None
    except (TypeError, ValueError):
        raise BadExample(
            f"the value {shown(value)} of {shown(name)} cannot be converted to a number"
        ) from None
    if v != v:  # the NaN of an object that equals itself
        return 0.0
    check_value(name, v)
    return v


def check_value(name: Hashable, v: float) -> None:
    """Raise BadExample unless |v| < 1e50."""
    if v != v:
        raise BadExample(
            f"the value of {shown(name)} is NaN; set missing values of a matrix to 0, or pass a "
            "data frame or dicts, where NaN means absent"
        )
    if not abs(v) < VALUE_LIMIT:
        raise _too_large(repr(v), name)


def _too_large(text: str, name: Hashable) -> BadExample:
    return BadExample(f"the value {text} of {shown(name)} is too large: scale it to below 1e50")


def numeric_features(x: Mapping[Hashable, Any]) -> dict[Hashable, float]:
    """Convert an example to numeric features.

    A string value becomes the feature ``name=value`` with value 1; None, NaN and zero are dropped,
    and features that get the same name are added up.

    Raises
    ------
    BadExample
        If a value or a sum is invalid, see `to_value`.

    Examples
    --------
    >>> numeric_features({"price": 2, "shop": "fr", "age": None, "new": False})
    {'price': 2.0, 'shop=fr': 1.0}
    """
    features: dict[Hashable, float] = {}
    for name, value in list(x.items()):  # a copy: the value's own code may change the dict
        if value is None:
            continue
        if isinstance(value, str):
            # The text of a str subclass; an Enum would be formatted as its name.
            name, v = f"{name}={str.__str__(value)}", 1.0
        else:
            v = to_value(name, value)
        if name in features:
            v += features[name]
            check_value(name, v)
        features[name] = v
    return {name: v for name, v in features.items() if v != 0.0}


@inlined
def validity(v: float) -> Any:
    """Return an int64 that is negative if and only if `v` is zero, NaN or too large.

    The bits of the magnitudes of floats are ordered as the magnitudes are, NaN last. Sign bits can
    be combined with ``|``, so a loop checks many values with one branch at the end.
    """
    magnitude = to_bits(v) & _MAGNITUDE_MASK
    return (_LIMIT_BITS - np.int64(1) - magnitude) | (magnitude - np.int64(1))


@inlined
def is_canonical_row(ids: Any, values: Any, lo: Any, hi: Any, d: Any) -> bool:
    """Return whether entries lo to hi - 1 are a canonical row with ids below `d`.

    False requires a second look: a row that is only unsorted can be sorted.
    """
    if lo == hi:
        return True
    last = hi - u64(1)
    if hi - lo <= _BLOCK:
        sign = validity(values[last])
        for k in range(lo, last):
            sign |= validity(values[k])
            sign |= np.int64(ids[k + u64(1)]) - np.int64(ids[k]) - np.int64(1)
        return bool(sign >= 0 and u64(ids[last]) < d)
    last_block = last - _BLOCK
    # Invariant: `max_keys` and `not_rising` cover all entries from lo to first - 1, and the last
    # eight values.
    max_keys = _max_keys(values, hi - _LANES, splat_u64(u64(0)))
    not_rising = splat_u64(u64(0))
    # Each round checks six blocks, clamped to the last one, which may be checked several times: the
    # processor would mispredict the end of a loop over as many blocks as there are.
    for first in range(lo, last, u64(6) * _BLOCK):
        for j in range(u64(6)):
            k = min(first + _BLOCK * j, last_block)
            not_rising = bit_or(not_rising, mask_not_rising(ids, k))
            max_keys = _max_keys(values, k + _LANES, _max_keys(values, k, max_keys))
    is_canonical = all_less(not_rising, u64(1)) and all_less(max_keys, _MAX_KEY)
    return bool(is_canonical and u64(ids[last]) < d)


@inlined
def _max_keys(values: Any, k: Any, max_keys: Any) -> Any:
    """Return the lane-wise maximum of `max_keys` and the keys of eight values.

    The key of a value is the double of its bits, which drops the sign, minus 2. It is at least
    `_MAX_KEY` if the value is invalid: that of zero wraps around.
    """
    bits = to_bits(load(values, k))
    return lane_max(max_keys, sub(add(bits, bits), splat_u64(u64(2))))


def constant_column(v: float, n: int) -> Values:
    """Return an array of `n` times the same float that has the memory of one (stride 0)."""
    return np.ndarray((n,), np.float64, np.array([v], np.float64), strides=(0,))


def scalar_or_column(column: Values) -> Values:
    """Return the first element of a `constant_column`, and any other column whole; for kernels."""
    return column[:1] if column.strides == (0,) else column


def row_of_entry(indptr: UInts, k: int) -> int:
    """Return the index of the row that has the k-th entry."""
    return int(np.searchsorted(indptr, np.uint64(k), side="right")) - 1


@kernel
def _are_valid_values(values: Any) -> bool:
    sign = np.int64(0)
    for k in range(u64(len(values))):
        sign |= validity(values[k])
    return bool(sign >= 0)


def are_valid_values(values: Floats) -> bool:
    """Return whether no value is zero, NaN or too large."""
    return bool(_are_valid_values(values))


def sorted_unique(ints: Ints) -> Ints:
    """Return the distinct elements of an array of ints, sorted; `numpy.unique` is far slower."""
    ints = np.sort(ints)
    is_first = np.ones(len(ints), bool)
    np.not_equal(ints[1:], ints[:-1], out=is_first[1:])
    return ints[is_first]


@kernel
def max_id(ids: Any) -> int:
    """Return the largest id; 0 if there is none."""
    top = np.uint32(0)
    for k in range(len(ids)):
        top = max(top, ids[k])
    return int(top)
