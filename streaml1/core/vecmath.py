"""Arithmetic without a branch, so that loops become vectors; the same bits interpreted.

An exponential or a power of the C library costs a call for each number.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined

__all__ = ["exponent_below_one", "exponentials", "power", "small_int", "times_powers", "total"]

TWO, THREE, SIXTEEN = np.uint64(2), np.uint64(3), np.uint64(16)

# 2^52 * 1.5: added to a small float, its low bits are the nearest int.
ROUND = 6755399441055744.0
ROUND_BITS = np.int64(np.float64(ROUND).view(np.int64))
HALF_BITS = np.int64(np.float64(math.sqrt(0.5)).view(np.int64))
MANTISSA, MANTISSA_U, ONE_BITS = np.int64(52), np.uint64(52), np.uint64(1023)
LEAST_EXPONENT, MOST_EXPONENT = np.int64(-1000), np.int64(860)
E0, E1, E2, E3, E4, E5, E6, E7, E8, E9, E10, E11 = (
    math.log(2.0) ** n / math.factorial(n) for n in range(12)
)
L0, L1, L2, L3, L4, L5, L6 = (2.0 / math.log(2.0) / (2 * n + 1) for n in range(7))


LOG2E = 1.0 / math.log(2.0)


@inlined
def power(x: float, q: float) -> float:
    """The power x ** q of x >= 0, to a relative 1e-12 |q|; at least 1e-301.

    Where q is below 0, x may not be, and the power must be one that a float holds.

    log2 is the series of atanh on [1/sqrt 2, sqrt 2], 2 ** f that of exp on [-1/2, 1/2].
    """
    bits = np.float64(x).view(np.int64)
    e = (bits - HALF_BITS) >> MANTISSA
    m = np.int64(bits - (e << MANTISSA)).view(np.float64)
    z = (m - 1.0) / (m + 1.0)
    s = z * z
    s2 = s * s
    even = L0 + s2 * (L2 + s2 * (L4 + s2 * L6))
    odd = L1 + s2 * (L3 + s2 * L5)
    t: Any = q * ((np.int64(e + ROUND_BITS).view(np.float64) - ROUND) + z * (even + s * odd))
    t = t if t > -1000.0 else -1000.0
    rounded = t + ROUND
    f = t - (rounded - ROUND)
    f2 = f * f
    even = E0 + f2 * (E2 + f2 * (E4 + f2 * (E6 + f2 * (E8 + f2 * E10))))
    odd = E1 + f2 * (E3 + f2 * (E5 + f2 * (E7 + f2 * E9)))
    n = np.float64(rounded).view(np.int64) - ROUND_BITS
    part = np.float64(even + f * odd).view(np.int64)
    return float(np.int64(part + (n << MANTISSA)).view(np.float64))


@inlined
def exponentials(x: float, M: float, twice_M: Any) -> tuple[float, float]:
    """E ** x / 2 ** M and e ** -x / 2 ** M, to a relative 1e-14 + 1e-16 |x|.

    Beyond 2 ** 860 the first is 2 ** 860, below 2 ** -1000 both are that. M is whole; `twice_M` is
    2 M as an int, or any above 2000 where 2 M is.
    """
    t = x * LOG2E - M
    t = t if t > -1000.0 else -1000.0
    t = t if t < 860.0 else 860.0
    rounded = t + ROUND
    f = t - (rounded - ROUND)
    f2 = f * f
    even = E0 + f2 * (E2 + f2 * (E4 + f2 * (E6 + f2 * (E8 + f2 * E10))))
    odd = f * (E1 + f2 * (E3 + f2 * (E5 + f2 * (E7 + f2 * (E9 + f2 * E11)))))
    n = np.float64(rounded).view(np.int64) - ROUND_BITS
    m = min(max(-n - twice_M, LEAST_EXPONENT), MOST_EXPONENT)
    up, down = np.float64(even + odd).view(np.int64), np.float64(even - odd).view(np.int64)
    return (
        float(np.int64(up + (n << MANTISSA)).view(np.float64)),
        float(np.int64(down + (m << MANTISSA)).view(np.float64)),
    )


@inlined
def exponent_below_one(x: float) -> Any:
    """The least b, a uint64, where x >= 2 ** -b, of 0 <= x < 2."""
    return ONE_BITS - (np.uint64(np.float64(x).view(np.int64)) >> MANTISSA_U)


@inlined
def small_int(q: float) -> bool:
    """Whether a power is sooner had as some products."""
    return abs(q) <= 8.0 and q == math.floor(q)


@inlined
def times_powers(part: Any, x: Any, n: Any, q: float) -> None:
    """Multiply `n` entries by those of `x` to the power of a small int, below 0 where none is 0."""
    if q < 0.0:
        for k in range(n):
            x[k] = 1.0 / x[k]
    for _ in range(np.int64(abs(q))):
        for k in range(n):
            part[k] *= x[k]


@inlined
def total(part: Any, n: Any) -> float:
    """Sum of `n` entries; what is in `part` is lost. Not one by one, which takes its time."""
    while n > SIXTEEN:
        h = (n + THREE) >> TWO
        for k in range(n, h << TWO):
            part[k] = 0.0
        h2, h3 = h + h, h + h + h
        for k in range(h):
            part[k] = (part[k] + part[k + h]) + (part[k + h2] + part[k + h3])
        n = h
    a = 0.0
    for k in range(n):
        a += part[k]
    return a
