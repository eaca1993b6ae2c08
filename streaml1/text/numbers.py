"""Decimal text to the nearest float64: the result of `float`, or NaN if `float` must decide.

NaN means that the text is not a number, is not finite, has more than 19 digits, or is near the ends
of the range of floats. Three methods cover the rest:

- Digits and a power of ten up to 10**22 are exact floats: one multiplication or division rounds
  correctly (Clinger 1990, How to read floating point numbers accurately).
- Otherwise the digits are multiplied by a power of ten of 128 bits (Lemire 2021, Number parsing at
  a gigabyte per second).
- Eight digits are converted at once inside a 64-bit word, or eight such words inside a vector.

All functions take addresses as uint64. `powers` is always the address `POWERS` of the powers of
ten. It is an argument, not a global: the address differs between processes, and numba would freeze
a global into the machine code that it caches on disk. Up to 24 bytes before a text may be read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.ascii import POINT
from streaml1.core.jit import gil_kernel, inlined, u64
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
    "FALSE",
    "NULL",
    "NUMBER",
    "POWERS",
    "STRING",
    "TRUE",
    "JsonScalar",
    "parse_digits",
    "parse_json_scalar",
    "parse_number",
    "parse_number_long",
    "parse_number_short",
    "parse_numbers_x8",
    "parse_numbers_x8_from_words",
    "parse_uint32",
]

NULL, NUMBER, FALSE, TRUE, STRING = map(u64, range(5))
"""Kinds of scalars in JSON."""

MIN_POWER, MAX_POWER = -290, 270  # powers of ten with 128 bits
MAX_EXACT = 22  # powers of ten that are exact floats
INTEGERS = MAX_EXACT + 1 + 2 * (MAX_POWER - MIN_POWER + 1)  # entry of 10**0 as an integer

_WORD_BITS = u64(64)
_BYTE, _LOW_HALF, _ALL_ONES = map(u64, (2**8 - 1, 2**32 - 1, 2**64 - 1))
_SHIFT_MASK, _SIGN_BIT = map(u64, (63, 2**63))
_PLUS, _MINUS, _SMALL_E, _DIGIT_ZERO = map(u64, b"+-e0")
_LOWERCASE = u64(0x20)
_POINTS, _BYTE_ONES = u64(0x2E2E2E2E2E2E2E2E), u64(0x0101010101010101)
_DIGIT_ZEROS = u64(0x3030303030303030)
_OVER_NINE = u64(0x7676767676767676)
_HIGH_BITS = u64(0x8080808080808080)
_FLOAT_DIGITS = u64(2**53)
_TRUE, _FALS, _NULL = (u64(int.from_bytes(w, "little")) for w in (b"true", b"fals", b"null"))
_TWO_TO_52 = 2.0**52
_BITS_OF_TWO_TO_52 = u64(np.float64(_TWO_TO_52).view(np.uint64))


def _power_of_five(q: int) -> tuple[int, int]:
    """Return the first 128 bits of 5**q as two halves, rounded as Lemire's proof requires."""
    power = 5 ** abs(q)
    if q >= 0:
        bits = power << 128 >> power.bit_length()
    elif q >= -27:
        bits = (1 << power.bit_length() + 127) // power + 1
    else:
        bits = (1 << 2 * power.bit_length() + 128) // power + 1
        bits >>= bits.bit_length() - 128
    return bits >> 64, bits & 2**64 - 1


def _powers_of_ten() -> Any:
    exact = [np.float64(10.0**k).view(np.uint64) for k in range(MAX_EXACT + 1)]
    wide = [half for q in range(MIN_POWER, MAX_POWER + 1) for half in _power_of_five(q)]
    return np.array([*exact, *wide, *(10**k for k in range(20))], np.uint64)


_POWERS_OF_TEN = _powers_of_ten()
POWERS = u64(_POWERS_OF_TEN.ctypes.data)
"""Address of the powers of ten, 8-byte words: 10**0 to 10**22 as floats; two words each from
10**MIN_POWER to 10**MAX_POWER, the first 128 bits of the power; 10**0 to 10**19 as integers."""


@inlined
def _exact_power(powers: Any, k: Any) -> Any:
    """Return 10**k as a float, k up to 22."""
    return load_f64(powers + u64(8) * k)


# Integers


@inlined
def parse_digits(word: Any, n: Any) -> Any:
    """Return the number that the last 1 to 8 bytes of a word spell, and an error word.

    The error word is 0 if these bytes are digits. Works on eight words at once, too.

    First neighbouring digits are joined to four pairs. Then each of two multiplications scales and
    adds two of these.
    """
    shift = ((u64(8) - n) * u64(8)) & _SHIFT_MASK
    t = ((word ^ _DIGIT_ZEROS) >> shift) << shift
    error_mask = ((t + _OVER_NINE) | t) & _HIGH_BITS
    t = t * u64(10) + (t >> u64(8))
    pairs = u64(0x000000FF000000FF)
    low = (t & pairs) * u64(0x000F424000000064)
    high = ((t >> u64(16)) & pairs) * u64(0x0000271000000001)
    return (low + high) >> u64(32), error_mask


@inlined
def parse_uint32(start: Any, end: Any) -> Any:
    """Return the number below 2**32 that 1 to 16 digits spell, and an error word: 0 if valid."""
    n = end - start
    if n - u64(1) < u64(8):
        return parse_digits(loadu_u64(end - u64(8)), n)
    if n - u64(1) >= u64(16):
        return u64(0), u64(1)
    high, high_error = parse_digits(loadu_u64(end - u64(16)), n - u64(8))
    low, low_error = parse_digits(loadu_u64(end - u64(8)), u64(8))
    j = high * np.uint64(10**8) + low
    return j, high_error | low_error | (j >> u64(32))


# One float


@inlined
def _nearest_float(m: Any, q: Any, powers: Any) -> Any:
    """Return the float nearest to m 10**q for m >= 1; NaN if the result is not certain.

    This is the algorithm of Lemire (2021). `w` is m with its highest bit set, `high` and `low` are
    the product of w and the first 64 bits of the power.
    """
    if q < MIN_POWER or q > MAX_POWER:
        return np.nan
    lz = clz(m)
    w = m << lz
    entry = powers + u64(8) * np.uint64(MAX_EXACT + 1 + 2 * (q - MIN_POWER))
    power = load_u64(entry)
    low = w * power
    high = mul_high(w, power)
    # Nine ones in front of the cut: the lower half of the power may carry into the mantissa.
    if (high & u64(0x1FF)) == u64(0x1FF):
        carry = mul_high(w, load_u64(entry + u64(8)))
        low += carry
        if low < carry:
            high += u64(1)
        if low == np.uint64(2**64 - 1):
            return np.nan
    upper = high >> u64(63)
    cut = upper + u64(9)
    mantissa = high >> cut
    # 217706 / 2**16 approximates log2(10) closely enough for all q in the table.
    exponent = ((np.int64(217706) * q) >> np.int64(16)) + np.int64(63 + 1023)
    exponent += np.int64(upper) - np.int64(lz)
    if exponent <= 0 or exponent >= 2046:
        return np.nan
    # Exactly half-way between two floats, which only small powers allow: round to even.
    is_tie = low <= u64(1) and -4 <= q <= 23 and (mantissa & u64(3)) == u64(1)
    if is_tie and (mantissa << cut) == high:
        mantissa &= ~u64(1)
    mantissa += mantissa & u64(1)
    mantissa >>= u64(1)
    if mantissa >= _FLOAT_DIGITS:
        mantissa = np.uint64(2**52)
        exponent += np.int64(1)
    bits = (mantissa & np.uint64(2**52 - 1)) | (np.uint64(exponent) << u64(52))
    return f64_from_bits(bits)


@inlined
def _scaled_float(m: Any, q: Any, powers: Any) -> Any:
    """Return the float nearest to m 10**q, or NaN."""
    if m < _FLOAT_DIGITS and -MAX_EXACT <= q <= MAX_EXACT:
        if q < 0:
            return np.float64(m) / _exact_power(powers, np.uint64(-q))
        return np.float64(m) * _exact_power(powers, np.uint64(q))
    if m == u64(0):
        return 0.0
    return _nearest_float(m, q, powers)


@gil_kernel
def parse_number(start: Any, end: Any, powers: Any) -> Any:
    """Return the float that the text between two addresses spells; NaN if `float` must decide."""
    pos = start
    negative = pos < end and load_u8(pos) == _MINUS
    if negative or (pos < end and load_u8(pos) == _PLUS):
        pos += u64(1)
    m, has_digit, n, scale = u64(0), u64(0), u64(0), np.int64(0)
    after_point = np.int64(0)
    # Invariant: the text before `pos` has n significant digits and, up to 19, spells m 10**scale.
    while pos < end:
        c = load_u8(pos)
        digit = c - _DIGIT_ZERO
        if digit <= u64(9):
            has_digit = u64(1)
            m = m * u64(10) + digit
            n += np.uint64((n | digit) != 0)  # not m: it is 0 after 2**64
            scale -= after_point
        elif c == POINT and after_point == 0:
            after_point = np.int64(1)
        else:
            break
        pos += u64(1)
    if has_digit == 0 or n > u64(19):
        return np.nan
    if pos < end:
        if (load_u8(pos) | _LOWERCASE) != _SMALL_E:
            return np.nan
        pos += u64(1)
        negative_exponent = pos < end and load_u8(pos) == _MINUS
        if negative_exponent or (pos < end and load_u8(pos) == _PLUS):
            pos += u64(1)
        if pos == end or end - pos > u64(4):
            return np.nan
        exponent = np.int64(0)
        while pos < end:
            digit = load_u8(pos) - _DIGIT_ZERO
            if digit > u64(9):
                return np.nan
            exponent = exponent * np.int64(10) + np.int64(digit)
            pos += u64(1)
        scale += -exponent if negative_exponent else exponent
    v = _scaled_float(m, scale, powers)
    return -v if negative else v


@inlined
def parse_number_short(start: Any, end: Any, powers: Any) -> Any:
    """As `parse_number`, but only for one digit with up to 8 decimals, such as `1` and `0.25`."""
    negative = np.uint64(load_u8(start) == _MINUS)
    pos = start + negative
    first = load_u8(pos) - _DIGIT_ZERO
    decimals = end - pos - u64(2)
    if decimals - u64(1) < u64(8):
        m, error = parse_digits(loadu_u64(end - u64(8)), decimals)
        error |= load_u8(pos + u64(1)) ^ POINT
    else:
        m, error, decimals = u64(0), decimals + u64(1), u64(0)
    if error or first > u64(9):
        return np.nan
    power = _exact_power(powers, decimals)
    sign = np.float64(1.0) - np.float64(u64(2) * negative)
    return sign * ((np.float64(first) * power + np.float64(m)) / power)


@gil_kernel
def parse_number_long(start: Any, end: Any, powers: Any) -> Any:
    """As `parse_number`, but fastest for one digit with 9 to 24 decimals."""
    negative = load_u8(start) == _MINUS
    pos = start + np.uint64(negative)
    decimals = end - pos - u64(2)
    if decimals - u64(9) >= u64(16) or load_u8(pos + u64(1)) != POINT:
        return parse_number(start, end, powers)
    first = load_u8(pos) - _DIGIT_ZERO
    m, error = parse_digits(loadu_u64(end - u64(8)), u64(8))
    rest = decimals - u64(8)
    middle, middle_error = parse_digits(loadu_u64(end - u64(16)), min(rest, u64(8)))
    m += middle * np.uint64(10**8)
    error |= middle_error
    if rest > u64(8):
        high, high_error = parse_digits(loadu_u64(end - u64(8) - u64(16)), rest - u64(8))
        m += high * np.uint64(10**16)
        error |= high_error | np.uint64(high > u64(999))
    if first:
        error |= np.uint64(first > u64(9)) | np.uint64(decimals > u64(18))
        m += first * load_u64(powers + u64(8) * (np.uint64(INTEGERS) + decimals))
    if error:
        return parse_number(start, end, powers)
    v = _scaled_float(m, -np.int64(decimals), powers)
    return -v if negative else v


# Eight floats


@inlined
def parse_numbers_x8(start: Any, end: Any, powers: Any) -> Any:
    """Return the floats that eight texts spell, and an error mask that is 0 in valid lanes.

    Valid are 1 to 7 digits with 1 to 8 decimals, and integers of 1 to 8 digits, without superfluous
    leading zeros. Eight bytes before each end and after each start are read.
    """
    head, tail = gather_u64(start), gather_u64(end - u64(8))
    return parse_numbers_x8_from_words(head, tail, end - start, powers)


@inlined
def parse_numbers_x8_from_words(head: Any, tail: Any, size: Any, powers: Any) -> Any:
    """As `parse_numbers_x8`, given the first and last eight bytes of the texts, and their sizes.

    Of one digit with decimals only three bytes of `head` count.
    """
    negative_mask = (head & _BYTE) == _MINUS
    head = head >> (negative_mask & u64(8))
    size = size - (negative_mask & u64(1))
    first = (head & _BYTE) - _DIGIT_ZERO
    integer_mask = (((head >> u64(8)) & _BYTE) != POINT) | (size == u64(1))
    decimal_mask = integer_mask ^ _ALL_ONES
    # The digits of an integer, or the decimals behind one digit and a point.
    n = size - (decimal_mask & u64(2))
    m, digit_error = parse_digits(tail, n)
    leading_zero_mask = integer_mask & (first == u64(0)) & (size != u64(1))
    error_mask = digit_error | leading_zero_mask | ((n - u64(1)) > u64(7)) | (first > u64(9))
    power = as_f64x8(lookup16(powers, n & decimal_mask & u64(15)))
    before_point = mul(_floats_x8(first & decimal_mask & u64(15)), power)
    v = to_bits(div(add(before_point, _floats_x8(m)), power))
    if movemask(error_mask):
        w, w_error = _parse_decimals_x8(head, size, tail, powers)
        valid_mask = error_mask == u64(0)
        v = (v & valid_mask) | (to_bits(w) & (valid_mask ^ _ALL_ONES))
        error_mask = error_mask & ((w_error == u64(0)) ^ _ALL_ONES)
    return as_f64x8(v | (negative_mask & _SIGN_BIT)), error_mask


@inlined
def _parse_decimals_x8(head: Any, size: Any, tail: Any, powers: Any) -> Any:
    """Return the floats that eight unsigned texts spell, and an error mask that is 0 if valid.

    Valid are 1 to 7 digits with 1 to 8 decimals, without superfluous leading zeros.
    """
    # The classic test for a zero byte: the lowest set bit belongs to the first point.
    difference = head ^ _POINTS
    point_mask = (difference - _BYTE_ONES) & (difference ^ _ALL_ONES) & _HIGH_BITS
    bits = lane_popcount(((point_mask & (u64(0) - point_mask)) - u64(1)) >> u64(7))
    n = bits >> u64(3)
    decimals = size - n - u64(1)
    before_point, before_error = parse_digits(head << ((_WORD_BITS - bits) & _SHIFT_MASK), n)
    m, decimals_error = parse_digits(tail, decimals)
    leading_zero_mask = ((head & _BYTE) == _DIGIT_ZERO) & (n != u64(1))
    error_mask = (
        before_error | decimals_error | leading_zero_mask | (point_mask == u64(0))
        | ((n - u64(1)) > u64(6))
    )  # fmt: skip
    error_mask = error_mask | ((decimals - u64(1)) > u64(7))
    power = as_f64x8(lookup16(powers, decimals & u64(15)))
    v = div(add(mul(_floats_x8(before_point & _LOW_HALF), power), _floats_x8(m)), power)
    return v, error_mask


@inlined
def _floats_x8(integers: Any) -> Any:
    """Convert eight integers below 2**52: they become the low mantissa bits of 2**52 + n."""
    return sub(as_f64x8(integers | _BITS_OF_TWO_TO_52), splat(_TWO_TO_52))


# Scalars of JSON, whose grammar is stricter than that of `float`


class JsonScalar(NamedTuple):
    """A scalar in JSON that is not a string."""

    kind: Any
    """NULL, NUMBER, FALSE or TRUE."""
    value: Any
    """Its float: 0 for null and false, 1 for true, NaN if Python must decide."""


@inlined
def parse_json_scalar(start: Any, end: Any, powers: Any) -> Any:
    """Return the `JsonScalar` between two addresses; fastest for texts such as `0.25` and `31`."""
    v = parse_number_short(start, end, powers)
    kind = NUMBER
    if v != v:
        n = end - start
        digits = (
            parse_digits(loadu_u64(end - u64(8)), n) if n - u64(1) < u64(8) else (u64(0), u64(1))
        )
        integer, error = digits
        if error or (n > u64(1) and load_u8(start) == _DIGIT_ZERO):
            kind, v = _parse_other_scalar(start, end, powers)
        else:
            v = np.float64(integer)
    return JsonScalar(kind, v)


@gil_kernel
def _parse_other_scalar(start: Any, end: Any, powers: Any) -> Any:
    """As `parse_json_scalar`, for all texts."""
    size = end - start
    if size - u64(4) <= u64(1):
        word = loadu_u64(start) & _LOW_HALF
        if size == u64(4) and word == _TRUE:
            return JsonScalar(TRUE, 1.0)
        if size == u64(4) and word == _NULL:
            return JsonScalar(NULL, 0.0)
        if size == u64(5) and word == _FALS and load_u8(start + u64(4)) == _SMALL_E:
            return JsonScalar(FALSE, 0.0)
    pos = start
    if pos < end and load_u8(pos) == _MINUS:
        pos += u64(1)
    first = load_u8(pos) - _DIGIT_ZERO
    if pos >= end or first > u64(9):
        return JsonScalar(NUMBER, np.nan)
    if first == u64(0) and pos + u64(1) < end and load_u8(pos + u64(1)) - _DIGIT_ZERO <= u64(9):
        return JsonScalar(NUMBER, np.nan)
    while pos < end and load_u8(pos) != POINT:
        pos += u64(1)
    if pos < end and (pos + u64(1) == end or load_u8(pos + u64(1)) - _DIGIT_ZERO > u64(9)):
        return JsonScalar(NUMBER, np.nan)
    return JsonScalar(NUMBER, parse_number_long(start, end, powers))
