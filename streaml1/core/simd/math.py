"""Exponential and logarithm of eight floats at once, exponents; bit-identical interpreted.

The functions of the C library take one float, and as long for it as these take for eight.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.simd import add, div, exp2_int, lane_min, mul, neg, splat, sub, to_bits

__all__ = ["binary_exponent", "exp_neg", "log1p"]

LOG2E = 1.0 / math.log(2.0)
# log 2 as a sum of two floats. The first has 21 trailing zero bits, so its product with a whole
# below 2^21 is exact, and x - n log 2 loses no digits (Cody & Waite 1980).
LN2_HIGH = float(np.int64(0x3FE62E42FEE00000).view(np.float64))
LN2_LOW = float(np.int64(0x3DEA39EF35793C76).view(np.float64))
ROUND = 6755399441055744.0  # 2^52 * 1.5: adding and subtracting it rounds a small float
MAX_X = 700.0
SMALLEST_NORMAL = 2.0**-1022

# Coefficients of exp(-r), and of 2 atanh(z) / z in the square of z.
X0, X1, X2, X3, X4, X5, X6, X7, X8, X9, X10, X11, X12, X13 = (
    (-1.0) ** n / math.factorial(n) for n in range(14)
)
A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12, A13, A14, A15, A16 = (
    2.0 / (2 * n + 1) for n in range(17)
)


@inlined
def binary_exponent(x: Any) -> Any:
    """Return ``math.frexp(x)[1]`` of x >= 0.

    Machine code that calls `math.frexp` refers to a function of numba, so it cannot be an object
    file (see `core.jit.object_file`).
    """
    if not 0.0 < x < math.inf:
        return np.int64(0)
    scaled = np.int64(x < SMALLEST_NORMAL) << np.int64(6)
    if scaled:
        x *= 2.0**64
    return (to_bits(x) >> np.int64(52)) - np.int64(1022) - scaled


@inlined
def _horner(a: float, s: Any, rest: Any) -> Any:
    """Return a + s * rest: one step of Horner's scheme."""
    return add(splat(a), mul(s, rest))


@inlined
def exp_neg(x: Any) -> Any:
    """Return exp(-x) of eight x >= 0, to a relative 1e-15; exp(-700) for x >= 700."""
    t = lane_min(splat(MAX_X), x)
    # x = n log 2 + r with |r| <= log(2) / 2.
    rounded = add(mul(t, splat(LOG2E)), splat(ROUND))
    n = sub(rounded, splat(ROUND))
    r = sub(sub(t, mul(n, splat(LN2_HIGH))), mul(n, splat(LN2_LOW)))
    # Even and odd terms are summed separately: two short dependency chains instead of a long one.
    s = mul(r, r)
    even = _horner(X6, s, _horner(X8, s, _horner(X10, s, splat(X12))))
    even = _horner(X0, s, _horner(X2, s, _horner(X4, s, even)))
    odd = _horner(X7, s, _horner(X9, s, _horner(X11, s, splat(X13))))
    odd = _horner(X1, s, _horner(X3, s, _horner(X5, s, odd)))
    return mul(add(even, mul(r, odd)), exp2_int(neg(n)))


@inlined
def log1p(x: Any) -> Any:
    """Return log(1 + x) of eight x in [0, 1], to a relative 1e-15."""
    # log(1 + x) = 2 atanh(z), z <= 1/3. The series in s = z^2 is split into even and odd terms, and
    # those at s^8, for four short dependency chains.
    z = div(x, add(splat(2.0), x))
    s = mul(z, z)
    s2 = mul(s, s)
    s8 = mul(mul(s2, s2), mul(s2, s2))
    even = _horner(A0, s2, _horner(A2, s2, _horner(A4, s2, splat(A6))))
    odd = _horner(A1, s2, _horner(A3, s2, _horner(A5, s2, splat(A7))))
    rest = _horner(A10, s2, _horner(A12, s2, _horner(A14, s2, splat(A16))))
    even = add(even, mul(s8, _horner(A8, s2, rest)))
    rest = _horner(A9, s2, _horner(A11, s2, _horner(A13, s2, splat(A15))))
    odd = add(odd, mul(s8, rest))
    return mul(z, add(even, mul(s, odd)))
