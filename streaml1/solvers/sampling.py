"""Which coordinate is next: drawn, permuted or in turn; and products with sparse rows.

An order is an array of numbers, a part of which is gone through in an epoch. What is random comes
from xorshift64 (Marsaglia 2003), whose state is an array of one uint64: a seed gives the same run
everywhere.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.simd import prefetch

__all__ = [
    "ORDERS",
    "PERMUTATION",
    "RANDOM",
    "add",
    "arrange",
    "dot",
    "fetch_next",
    "generator",
    "squares",
]

RANDOM, PERMUTATION, CYCLIC = range(3)
ORDERS = {"random": RANDOM, "permutation": PERMUTATION, "cyclic": CYCLIC}

_32 = np.uint64(32)
_A, _B, _C = np.uint64(13), np.uint64(7), np.uint64(17)
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
EIGHT, SIXTEEN = np.uint64(8), np.uint64(16)  # values and ids in 64 bytes


def generator(seed: int) -> Any:
    """The state of the generator of a seed."""
    return np.random.SeedSequence(seed).generate_state(1, np.uint64) | np.uint64(1)


@inlined
def _below(state: Any, n: Any) -> Any:
    """Draw a number below n < 2**32."""
    x = state[0]
    x ^= x << _A
    x ^= x >> _B
    x ^= x << _C
    state[0] = x
    return ((x >> _32) * n) >> _32


@kernel
def arrange(how: int, pool: Any, n: Any, state: Any, order: Any) -> None:
    """Put the next `n` coordinates into `order`, of those that are the first n of `pool`."""
    n = np.uint64(n)
    if how == RANDOM:
        for k in range(n):
            order[k] = pool[_below(state, n)]
        return
    for k in range(n):
        order[k] = pool[k]
    if how == PERMUTATION:
        for k in range(n):
            other = k + _below(state, n - k)
            order[k], order[other] = order[other], order[k]


@inlined
def _fetch(ids: Any, values: Any, lo: Any, hi: Any) -> None:
    """Ask memory for a row that is next."""
    for k in range(lo, hi, EIGHT):
        prefetch(values, k)
    for k in range(lo, hi, SIXTEEN):
        prefetch(ids, k)


@inlined
def fetch_next(ids: Any, values: Any, indptr: Any, order: Any, t: Any, m: Any) -> None:
    """Ask memory for the row that comes after `order[t]`, of the first m of the order."""
    if t + ONE < m:
        following = np.uint64(order[t + ONE])
        _fetch(ids, values, indptr[following], indptr[following + ONE])


# Four sums: each addition would wait for the one before it.
@inlined
def dot(ids: Any, values: Any, lo: Any, hi: Any, w: Any) -> float:
    """The product of a sparse row and a dense vector."""
    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
    end = lo + ((hi - lo) & ~THREE)
    for k in range(lo, end, FOUR):
        a0 += w[ids[k]] * values[k]
        a1 += w[ids[k + ONE]] * values[k + ONE]
        a2 += w[ids[k + TWO]] * values[k + TWO]
        a3 += w[ids[k + THREE]] * values[k + THREE]
    for k in range(end, hi):
        a0 += w[ids[k]] * values[k]
    return (a0 + a1) + (a2 + a3)


@inlined
def add(ids: Any, values: Any, lo: Any, hi: Any, step: float, w: Any) -> None:
    """Add step times a sparse row to a dense vector."""
    for k in range(lo, hi):
        w[ids[k]] += step * values[k]


@kernel
def squares(values: Any, indptr: Any, out: Any) -> None:
    """Put the sum of squares of each row into `out`."""
    for i in range(np.uint64(len(out))):
        total = 0.0
        for k in range(indptr[i], indptr[i + ONE]):
            total += values[k] * values[k]
        out[i] = total
