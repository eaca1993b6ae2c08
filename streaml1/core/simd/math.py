"""Exponentials and logarithms of eight floats at once; the same bits interpreted.

Those of the C library are a call for each float, which takes as long as all eight here.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.simd import add, div, exp2_int, lane_min, mul, neg, splat, sub

__all__ = ["decay", "log_one_and"]

LOG2E = 1.0 / math.log(2.0)
# The logarithm of 2 in two parts; the first has few digits: a multiple of it is exact.
LN2 = float(np.int64(0x3FE62E42FEE00000).view(np.float64))
LN2_LOW = float(np.int64(0x3DEA39EF35793C76).view(np.float64))
ROUND = 6755399441055744.0  # 2^52 * 1.5: added to a small float, the rest is rounded away
MOST = 700.0

# Of the series of exp(-r), and of that of 2 atanh(z) / z in the square of z.
X0, X1, X2, X3, X4, X5, X6, X7, X8, X9, X10, X11, X12, X13 = (
    (-1.0) ** n / math.factorial(n) for n in range(14)
)
A0, A1, A2, A3, A4, A5, A6, A7, A8, A9, A10, A11, A12, A13, A14, A15, A16 = (
    2.0 / (2 * n + 1) for n in range(17)
)


@inlined
def _then(a: float, s: Any, rest: Any) -> Any:
    """Sum of a float and s times the rest of a series."""
    return add(splat(a), mul(s, rest))


@inlined
def decay(x: Any) -> Any:
    """exp(-x) of eight x >= 0, to a relative 1e-15; from 700 on exp(-700)."""
    t = lane_min(splat(MOST), x)
    rounded = add(mul(t, splat(LOG2E)), splat(ROUND))
    n = sub(rounded, splat(ROUND))
    r = sub(sub(t, mul(n, splat(LN2))), mul(n, splat(LN2_LOW)))
    s = mul(r, r)
    even = _then(X6, s, _then(X8, s, _then(X10, s, splat(X12))))
    even = _then(X0, s, _then(X2, s, _then(X4, s, even)))
    odd = _then(X7, s, _then(X9, s, _then(X11, s, splat(X13))))
    odd = _then(X1, s, _then(X3, s, _then(X5, s, odd)))
    return mul(add(even, mul(r, odd)), exp2_int(neg(n)))


@inlined
def log_one_and(x: Any) -> Any:
    """The logarithm of 1 + x, of eight x from 0 to 1, to a relative 1e-15."""
    z = div(x, add(splat(2.0), x))
    s = mul(z, z)
    s2 = mul(s, s)
    s8 = mul(mul(s2, s2), mul(s2, s2))
    even = _then(A0, s2, _then(A2, s2, _then(A4, s2, splat(A6))))
    odd = _then(A1, s2, _then(A3, s2, _then(A5, s2, splat(A7))))
    rest = _then(A10, s2, _then(A12, s2, _then(A14, s2, splat(A16))))
    even = add(even, mul(s8, _then(A8, s2, rest)))
    rest = _then(A9, s2, _then(A11, s2, _then(A13, s2, splat(A15))))
    odd = add(odd, mul(s8, rest))
    return mul(z, add(even, mul(s, odd)))
