"""Branch-free powers, exponentials and sums, which LLVM vectorizes; bit-identical interpreted.

The functions of the C library cost a call for each number. These are polynomials, inlined into the
loops of kernels, so that one loop computes several numbers per instruction.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, u64

__all__ = [
    "LOG2E",
    "exp_pair",
    "is_small_int",
    "multiply_powers",
    "negated_exponent",
    "power",
    "sum_in_place",
]

LOG2E = 1.0 / math.log(2.0)

# 2^52 * 1.5: added to a small float, the low bits of the sum are the nearest int.
_ROUND = 6755399441055744.0
_ROUND_BITS = np.int64(np.float64(_ROUND).view(np.int64))
_SQRT_HALF_BITS = np.int64(np.float64(math.sqrt(0.5)).view(np.int64))
_MANTISSA_BITS = np.int64(52)
_EXPONENT_BIAS = u64(1023)
_MIN_EXPONENT, _MAX_EXPONENT = np.int64(-1000), np.int64(860)

# Coefficients of 2^f = exp(f log 2), and of log2((1 + z) / (1 - z)) / z in the square of z.
E0, E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11 = (
    math.log(2.0) ** n / math.factorial(n) for n in range(12)
)
L0, L1, L2, L3, L4, L5, L6 = (2.0 / math.log(2.0) / (2 * n + 1) for n in range(7))


@inlined
def power(x: float, q: float) -> float:
    """Return x ** q for x >= 0, to a relative 1e-12 |q|; at least 1e-301.

    For q < 0, x must be positive and the power must be a finite float.

    x is m 2^e with m in [1/sqrt 2, sqrt 2]. log2 m is the series of atanh in z = (m - 1) / (m + 1),
    and 2^f that of exp for the fraction f in [-1/2, 1/2] of q log2 x.
    """
    bits = np.float64(x).view(np.int64)
    e = (bits - _SQRT_HALF_BITS) >> _MANTISSA_BITS
    m = np.int64(bits - (e << _MANTISSA_BITS)).view(np.float64)
    z = (m - 1.0) / (m + 1.0)
    s = z * z
    s2 = s * s
    # Even and odd terms are summed separately: two short dependency chains instead of a long one.
    even = L0 + s2 * (L2 + s2 * (L4 + s2 * L6))
    odd = L1 + s2 * (L3 + s2 * L5)
    t: Any = q * ((np.int64(e + _ROUND_BITS).view(np.float64) - _ROUND) + z * (even + s * odd))
    t = t if t > -1000.0 else -1000.0
    rounded = t + _ROUND
    f = t - (rounded - _ROUND)
    f2 = f * f
    even = E0 + f2 * (E2 + f2 * (E4 + f2 * (E6 + f2 * (E8 + f2 * E10))))
    odd = E1 + f2 * (E3 + f2 * (E5 + f2 * (E7 + f2 * E9)))
    n = np.float64(rounded).view(np.int64) - _ROUND_BITS
    fraction = np.float64(even + f * odd).view(np.int64)
    # Adding n to the exponent bits multiplies by 2^n.
    return float(np.int64(fraction + (n << _MANTISSA_BITS)).view(np.float64))


@inlined
def exp_pair(x: float, M: float, twice_M: Any) -> tuple[float, float]:
    """Return e^x / 2^M and e^-x / 2^M, each to a relative 1e-14 + 1e-16 |x|.

    The first is clipped to [2^-1000, 2^860] and the second to at least 2^-1000.

    Parameters
    ----------
    x
        The exponent.
    M
        A whole number.
    twice_M : int64
        2 M; any int above 2000 if 2 M is above 2000.
    """
    t = x * LOG2E - M
    t = t if t > -1000.0 else -1000.0
    t = t if t < 860.0 else 860.0
    rounded = t + _ROUND
    f = t - (rounded - _ROUND)
    f2 = f * f
    # 2^f = even + odd and 2^-f = even - odd.
    even = E0 + f2 * (E2 + f2 * (E4 + f2 * (E6 + f2 * (E8 + f2 * E10))))
    odd = f * (E1 + f2 * (E3 + f2 * (E5 + f2 * (E7 + f2 * (E9 + f2 * E11)))))
    n = np.float64(rounded).view(np.int64) - _ROUND_BITS
    m = min(max(-n - twice_M, _MIN_EXPONENT), _MAX_EXPONENT)
    up, down = np.float64(even + odd).view(np.int64), np.float64(even - odd).view(np.int64)
    return (
        float(np.int64(up + (n << _MANTISSA_BITS)).view(np.float64)),
        float(np.int64(down + (m << _MANTISSA_BITS)).view(np.float64)),
    )


@inlined
def negated_exponent(x: float) -> Any:
    """Return the smallest b with x >= 2^-b as a uint64, for 0 <= x < 2."""
    return _EXPONENT_BIAS - (u64(np.float64(x).view(np.int64)) >> u64(52))


@inlined
def is_small_int(q: float) -> bool:
    """Return whether x ** q is faster as a product, see `multiply_powers`."""
    return abs(q) <= 8.0 and q == math.floor(q)


@inlined
def multiply_powers(out: Any, x: Any, n: Any, q: float) -> None:
    """Multiply `out[:n]` by `x[:n] ** q`, q a small int; for q < 0 this overwrites x by 1 / x."""
    if q < 0.0:
        for k in range(n):
            x[k] = 1.0 / x[k]
    for _ in range(np.int64(abs(q))):
        for k in range(n):
            out[k] *= x[k]


@inlined
def sum_in_place(a: Any, n: Any) -> float:
    """Return the sum of `a[:n]`, overwriting `a`.

    Each round adds four quarters elementwise, so that additions are independent and vectorize. One
    running sum would wait for the latency of each addition. `a` needs room for 3 entries more.
    """
    while n > u64(16):
        h = (n + u64(3)) >> u64(2)
        for k in range(n, h << u64(2)):
            a[k] = 0.0
        h2, h3 = h + h, h + h + h
        for k in range(h):
            a[k] = (a[k] + a[k + h]) + (a[k + h2] + a[k + h3])
        n = h
    total = 0.0
    for k in range(n):
        total += a[k]
    return total
