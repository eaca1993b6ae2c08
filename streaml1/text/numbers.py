"""Decimal numbers to the nearest float: what `float` makes of the same text, or NaN.

NaN says that `float` itself must tell: no number at all, one that is not finite, more than 19
digits, or near the ends of the range. Where the digits do not fit a float exactly, the product
with a power of ten of 128 bits tells the nearest one (Lemire 2021, Number parsing at a gigabyte
per second).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import gil_kernel, inlined
from streaml1.core.simd import (
    add,
    as_f64x8,
    clz,
    div,
    f64_from_bits,
    gather_u64,
    lane_popcount,
    load_f64,
    load_u8,
    load_u64,
    loadu_u64,
    lookup16,
    movemask,
    mul,
    mul_high,
    splat,
    sub,
    to_bits,
)

__all__ = [
    "TABLE",
    "digits",
    "eight_values",
    "long_value",
    "number",
    "value",
    "values_of_both",
    "whole",
]

LEAST, MOST = -290, 270  # powers of ten in the table
EXACT = 22  # powers of ten that are floats themselves
WHOLE = EXACT + 1 + 2 * (MOST - LEAST + 1)  # where powers of ten as ints begin in the table

_ZERO, _ONE, _TWO, _THREE, _SIX, _EIGHT, _SIXTEEN, _WORD = map(
    np.uint64, (0, 1, 2, 3, 6, 8, 16, 64)
)
_POINTS, _ONES = np.uint64(0x2E2E2E2E2E2E2E2E), np.uint64(0x0101010101010101)
_LOW = np.uint64(2**32 - 1)
_POINT, _PLUS, _MINUS, _SMALL_E, _NOUGHT = map(np.uint64, b".+-e0")
_CASE = np.uint64(0x20)
_NOUGHTS = np.uint64(0x3030303030303030)
_OVER_NINE = np.uint64(0x7676767676767676)
_HIGH_BITS = np.uint64(0x8080808080808080)
_FLOAT_DIGITS = np.uint64(2**53)
_BYTE, _SEVEN, _NINE, _FIFTEEN = map(np.uint64, (255, 7, 9, 15))
_BITS, _SIGN, _ALL = map(np.uint64, (63, 2**63, 2**64 - 1))
_TWO_TO_52 = 2.0**52
_BITS_OF_IT = np.uint64(np.float64(_TWO_TO_52).view(np.uint64))  # the low bits of a sum are n


def _power(q: int) -> tuple[int, int]:
    """The first 128 bits of 5**q in two halves, rounded as the proof wants it."""
    power = 5 ** abs(q)
    if q >= 0:
        bits = power << 128 >> power.bit_length()
    elif q >= -27:
        bits = (1 << power.bit_length() + 127) // power + 1
    else:
        bits = (1 << 2 * power.bit_length() + 128) // power + 1
        bits >>= bits.bit_length() - 128
    return bits >> 64, bits & 2**64 - 1


def _table() -> Any:
    exact = [np.float64(10.0**k).view(np.uint64) for k in range(EXACT + 1)]
    powers = [half for q in range(LEAST, MOST + 1) for half in _power(q)]
    return np.array([*exact, *powers, *(10**k for k in range(20))], np.uint64)


_POWERS = _table()
TABLE = np.uint64(_POWERS.ctypes.data)
"""Where powers of ten are: 10**0 to 10**22 as floats, two words for each from 10**LEAST to
10**MOST, 10**0 to 10**19."""


@inlined
def _power_of_ten(table: Any, k: Any) -> Any:
    return load_f64(table + _EIGHT * k)


@inlined
def digits(word: Any, n: Any) -> Any:
    """The number that the last 1 to 8 bytes of a word write, and 0 if they are digits.

    Of eight words too.
    """
    shift = ((_EIGHT - n) * _EIGHT) & _BITS
    t = ((word ^ _NOUGHTS) >> shift) << shift
    wrong = ((t + _OVER_NINE) | t) & _HIGH_BITS
    t = t * np.uint64(10) + (t >> _EIGHT)
    pairs = np.uint64(0x000000FF000000FF)
    low = (t & pairs) * np.uint64(0x000F424000000064)
    high = ((t >> np.uint64(16)) & pairs) * np.uint64(0x0000271000000001)
    return (low + high) >> np.uint64(32), wrong


@inlined
def whole(start: Any, end: Any) -> Any:
    """The number below 2**32 that the text writes in up to 16 digits; and 0 if it does."""
    n = end - start
    if n - _ONE < _EIGHT:
        return digits(loadu_u64(end - _EIGHT), n)
    if n - _ONE >= _SIXTEEN:
        return _ZERO, _ONE
    high, wrong = digits(loadu_u64(end - _SIXTEEN), n - _EIGHT)
    low, also = digits(loadu_u64(end - _EIGHT), _EIGHT)
    j = high * np.uint64(10**8) + low
    return j, wrong | also | (j >> np.uint64(32))


@inlined
def _nearest(m: Any, q: Any, table: Any) -> Any:
    """The float nearest to m 10**q, for m from 1; NaN where it is not sure."""
    if q < LEAST or q > MOST:
        return np.nan
    lz = clz(m)
    w = m << lz
    place = table + _EIGHT * np.uint64(EXACT + 1 + 2 * (q - LEAST))
    first = load_u64(place)
    low = w * first
    high = mul_high(w, first)
    if (high & np.uint64(0x1FF)) == np.uint64(0x1FF):
        more = mul_high(w, load_u64(place + _EIGHT))
        low += more
        if low < more:
            high += _ONE
        if low == np.uint64(2**64 - 1):
            return np.nan
    upper = high >> np.uint64(63)
    cut = upper + np.uint64(9)
    mantissa = high >> cut
    exponent = ((np.int64(217706) * q) >> np.int64(16)) + np.int64(63 + 1023)
    exponent += np.int64(upper) - np.int64(lz)
    if exponent <= 0 or exponent >= 2046:
        return np.nan
    # Half-way between two floats, which few powers allow: to the even one.
    half_way = low <= _ONE and -4 <= q <= 23 and (mantissa & np.uint64(3)) == _ONE
    if half_way and (mantissa << cut) == high:
        mantissa &= ~_ONE
    mantissa += mantissa & _ONE
    mantissa >>= _ONE
    if mantissa >= _FLOAT_DIGITS:
        mantissa = np.uint64(2**52)
        exponent += np.int64(1)
    bits = (mantissa & np.uint64(2**52 - 1)) | (np.uint64(exponent) << np.uint64(52))
    return f64_from_bits(bits)


@inlined
def _scaled(m: Any, q: Any, table: Any) -> Any:
    """The float nearest to m 10**q, or NaN."""
    if m < _FLOAT_DIGITS and -EXACT <= q <= EXACT:
        if q < 0:
            return np.float64(m) / _power_of_ten(table, np.uint64(-q))
        return np.float64(m) * _power_of_ten(table, np.uint64(q))
    if m == _ZERO:
        return 0.0
    return _nearest(m, q, table)


@gil_kernel
def number(start: Any, end: Any, table: Any) -> Any:
    """The float that the text between two addresses writes; NaN where `float` must tell.

    Eight bytes before `start` may be read.
    """
    at = start
    negative = at < end and load_u8(at) == _MINUS
    if negative or (at < end and load_u8(at) == _PLUS):
        at += _ONE
    m, seen, n, scale = _ZERO, _ZERO, _ZERO, np.int64(0)
    after_point = np.int64(0)
    while at < end:
        c = load_u8(at)
        digit = c - _NOUGHT
        if digit <= np.uint64(9):
            seen = _ONE
            m = m * np.uint64(10) + digit
            n += np.uint64(m != 0)
            scale -= after_point
        elif c == _POINT and after_point == 0:
            after_point = np.int64(1)
        else:
            break
        at += _ONE
    if seen == 0 or n > np.uint64(19):
        return np.nan
    if at < end:
        if (load_u8(at) | _CASE) != _SMALL_E:
            return np.nan
        at += _ONE
        below = at < end and load_u8(at) == _MINUS
        if below or (at < end and load_u8(at) == _PLUS):
            at += _ONE
        if at == end or end - at > np.uint64(4):
            return np.nan
        power = np.int64(0)
        while at < end:
            digit = load_u8(at) - _NOUGHT
            if digit > np.uint64(9):
                return np.nan
            power = power * np.int64(10) + np.int64(digit)
            at += _ONE
        scale += -power if below else power
    v = _scaled(m, scale, table)
    return -v if negative else v


@inlined
def value(start: Any, end: Any, table: Any) -> Any:
    """As `number`, but only of `1`, `0.25` and other single digits with up to 8 decimals."""
    negative = np.uint64(load_u8(start) == _MINUS)
    at = start + negative
    first = load_u8(at) - _NOUGHT
    decimals = end - at - _TWO
    if decimals - _ONE < _EIGHT:
        m, wrong = digits(loadu_u64(end - _EIGHT), decimals)
        wrong |= load_u8(at + _ONE) ^ _POINT
    else:
        m, wrong, decimals = _ZERO, decimals + _ONE, _ZERO
    if wrong or first > np.uint64(9):
        return np.nan
    power = _power_of_ten(table, decimals)
    sign = np.float64(1.0) - np.float64(_TWO * negative)
    return sign * ((np.float64(first) * power + np.float64(m)) / power)


@inlined
def _eight_floats(words: Any) -> Any:
    """Words below 2**52 as floats."""
    return sub(as_f64x8(words | _BITS_OF_IT), splat(_TWO_TO_52))


@inlined
def _pointed(head: Any, size: Any, tail: Any, table: Any) -> Any:
    """The floats that eight texts without a sign write, and 0 for those that are sure.

    Sure are 1 to 7 digits with 1 to 8 decimals, that do not begin with 0 but for a single one.
    """
    other = head ^ _POINTS
    found = (other - _ONES) & (other ^ _ALL) & _HIGH_BITS  # the lowest bit is of the first point
    bits = lane_popcount(((found & (_ZERO - found)) - _ONE) >> _SEVEN)
    n = bits >> _THREE
    decimals = size - n - _ONE
    before, odd = digits(head << ((_WORD - bits) & _BITS), n)
    m, also = digits(tail, decimals)
    leading = ((head & _BYTE) == _NOUGHT) & (n != _ONE)
    wrong = odd | also | leading | (found == _ZERO) | ((n - _ONE) > _SIX)
    wrong = wrong | ((decimals - _ONE) > _SEVEN)
    power = as_f64x8(lookup16(table, decimals & _FIFTEEN))
    v = div(add(mul(_eight_floats(before & _LOW), power), _eight_floats(m)), power)
    return v, wrong


@inlined
def eight_values(start: Any, end: Any, table: Any) -> Any:
    """The floats that eight texts write, and 0 for those that are sure.

    Sure are 1 to 7 digits with 1 to 8 decimals, and integers of 1 to 8 digits, that do not begin
    with 0 but for a single one. Eight bytes before each end are read, and eight from each start.
    """
    return values_of_both(gather_u64(start), gather_u64(end - _EIGHT), end - start, table)


@inlined
def values_of_both(head: Any, tail: Any, size: Any, table: Any) -> Any:
    """As `eight_values`, given the first and the last eight bytes of the texts, and their sizes.

    Of the first of single digits with decimals three bytes will do.
    """
    negative = (head & _BYTE) == _MINUS
    head = head >> (negative & _EIGHT)
    size = size - (negative & _ONE)
    first = (head & _BYTE) - _NOUGHT
    whole = (((head >> _EIGHT) & _BYTE) != _POINT) | (size == _ONE)
    parted = whole ^ _ALL
    n = size - (parted & _TWO)
    m, odd = digits(tail, n)
    leading = whole & (first == _ZERO) & (size != _ONE)
    wrong = odd | leading | ((n - _ONE) > _SEVEN) | (first > _NINE)
    power = as_f64x8(lookup16(table, n & parted & _FIFTEEN))
    before = mul(_eight_floats(first & parted & _FIFTEEN), power)
    v = to_bits(div(add(before, _eight_floats(m)), power))
    if movemask(wrong):
        others, unsure = _pointed(head, size, tail, table)
        ours = wrong == _ZERO
        v = (v & ours) | (to_bits(others) & (ours ^ _ALL))
        wrong = wrong & ((unsure == _ZERO) ^ _ALL)
    return as_f64x8(v | (negative & _SIGN)), wrong


@gil_kernel
def long_value(start: Any, end: Any, table: Any) -> Any:
    """As `value` and `number`, but quickest where there are 9 to 24 decimals."""
    negative = load_u8(start) == _MINUS
    at = start + np.uint64(negative)
    decimals = end - at - _TWO
    if decimals - np.uint64(9) >= _SIXTEEN or load_u8(at + _ONE) != _POINT:
        return number(start, end, table)
    first = load_u8(at) - _NOUGHT
    m, wrong = digits(loadu_u64(end - _EIGHT), _EIGHT)
    rest = decimals - _EIGHT
    middle, also = digits(loadu_u64(end - _SIXTEEN), min(rest, _EIGHT))
    m += middle * np.uint64(10**8)
    wrong |= also
    if rest > _EIGHT:
        high, also = digits(loadu_u64(end - _EIGHT - _SIXTEEN), rest - _EIGHT)
        m += high * np.uint64(10**16)
        wrong |= also | np.uint64(high > np.uint64(999))
    if first:
        wrong |= np.uint64(first > np.uint64(9)) | np.uint64(decimals > np.uint64(18))
        m += first * load_u64(table + _EIGHT * (np.uint64(WHOLE) + decimals))
    if wrong:
        return number(start, end, table)
    v = _scaled(m, -np.int64(decimals), table)
    return -v if negative else v
