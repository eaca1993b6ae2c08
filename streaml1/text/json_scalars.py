"""Values of JSON that are no strings, as its grammar has them; stricter than `float`."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import gil_kernel, inlined
from streaml1.core.simd import load_u8, loadu_u64
from streaml1.text.numbers import digits, long_value, value

__all__ = ["FALSE", "NOTHING", "NUMBER", "TEXT", "TRUE", "plain_value"]

NOTHING, NUMBER, FALSE, TRUE, TEXT = map(np.uint64, range(5))
"""What a value is."""

_ZERO, _ONE, _FOUR, _FIVE, _EIGHT = map(np.uint64, (0, 1, 4, 5, 8))
_MINUS, _POINT, _NOUGHT, _SMALL_E = map(np.uint64, b"-.0e")
_LOW, _NINE = map(np.uint64, (2**32 - 1, 9))
_TRUE, _FALSE, _NULL = (
    np.uint64(int.from_bytes(word, "little")) for word in (b"true", b"fals", b"null")
)


@gil_kernel
def _other(start: Any, end: Any, table: Any) -> Any:
    """What a value is that is no string, and its float: NaN where that is not sure."""
    size = end - start
    if size - _FOUR <= _ONE:
        word = loadu_u64(start) & _LOW
        if size == _FOUR and word == _TRUE:
            return TRUE, 1.0
        if size == _FOUR and word == _NULL:
            return NOTHING, 0.0
        if size == _FIVE and word == _FALSE and load_u8(start + _FOUR) == _SMALL_E:
            return FALSE, 0.0
    at = start
    if at < end and load_u8(at) == _MINUS:
        at += _ONE
    first = load_u8(at) - _NOUGHT
    if at >= end or first > _NINE:
        return NUMBER, np.nan
    if first == _ZERO and at + _ONE < end and load_u8(at + _ONE) - _NOUGHT <= _NINE:
        return NUMBER, np.nan
    while at < end and load_u8(at) != _POINT:
        at += _ONE
    if at < end and (at + _ONE == end or load_u8(at + _ONE) - _NOUGHT > _NINE):
        return NUMBER, np.nan
    return NUMBER, long_value(start, end, table)


@inlined
def plain_value(start: Any, end: Any, table: Any) -> Any:
    """As `_other`, quickest for `0.25` and `31`."""
    v = value(start, end, table)
    kind = NUMBER
    if v != v:
        n = end - start
        whole, wrong = digits(loadu_u64(end - _EIGHT), n) if n - _ONE < _EIGHT else (_ZERO, _ONE)
        if wrong or (n > _ONE and load_u8(start) == _NOUGHT):
            kind, v = _other(start, end, table)
        else:
            v = np.float64(whole)
    return kind, v
