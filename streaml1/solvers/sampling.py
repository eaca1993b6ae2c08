"""The order of coordinate steps, and operations on sparse rows.

An order is an array of coordinates; an epoch takes its first m. Random numbers come from xorshift64
(Marsaglia 2003), whose state is an array of one uint64, so that a seed gives the same run on every
machine.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel, u64
from streaml1.core.simd import prefetch
from streaml1.core.types import Hashes

__all__ = [
    "ORDERS",
    "PERMUTATION",
    "RANDOM",
    "axpy",
    "dot",
    "fill_order",
    "prefetch_next_row",
    "rng_state",
    "row_squared_norms",
]

RANDOM, PERMUTATION, CYCLIC = range(3)
ORDERS = {"random": RANDOM, "permutation": PERMUTATION, "cyclic": CYCLIC}

_32 = u64(32)
_A, _B, _C = u64(13), u64(7), u64(17)
_VALUES_OF_LINE, _IDS_OF_LINE = u64(8), u64(16)  # float64 and uint32


def rng_state(seed: int) -> Hashes:
    """Return the state of the generator for a seed; it is never zero."""
    return np.random.SeedSequence(seed).generate_state(1, np.uint64) | u64(1)


@inlined
def _draw_below(state: Any, n: Any) -> Any:
    """Draw an integer below n < 2**32."""
    x = state[0]
    x ^= x << _A
    x ^= x >> _B
    x ^= x << _C
    state[0] = x
    return ((x >> _32) * n) >> _32


@kernel
def fill_order(kind: int, candidates: Any, n: Any, state: Any, order: Any) -> None:
    """Write the next `n` coordinates to `order`, taken from the first n of `candidates`.

    `kind` is a value of `ORDERS`.
    """
    n = np.uint64(n)
    if kind == RANDOM:
        for k in range(n):
            order[k] = candidates[_draw_below(state, n)]
        return
    for k in range(n):
        order[k] = candidates[k]
    if kind == PERMUTATION:
        for k in range(n):
            swap = k + _draw_below(state, n - k)
            order[k], order[swap] = order[swap], order[k]


@inlined
def _prefetch_row(ids: Any, values: Any, lo: Any, hi: Any) -> None:
    for k in range(lo, hi, _VALUES_OF_LINE):
        prefetch(values, k)
    for k in range(lo, hi, _IDS_OF_LINE):
        prefetch(ids, k)


@inlined
def prefetch_next_row(ids: Any, values: Any, indptr: Any, order: Any, t: Any, m: Any) -> None:
    """Prefetch the row after `order[t]`, if it is among the first m.

    Steps visit rows at random, which the hardware prefetcher cannot predict.
    """
    if t + u64(1) < m:
        i = np.uint64(order[t + u64(1)])
        _prefetch_row(ids, values, indptr[i], indptr[i + u64(1)])


@inlined
def dot(ids: Any, values: Any, lo: Any, hi: Any, w: Any) -> float:
    """Return the dot product of a sparse row and a dense vector.

    Four sums run in parallel: with one, each addition would wait for the one before it.
    """
    a0, a1, a2, a3 = 0.0, 0.0, 0.0, 0.0
    end = lo + ((hi - lo) & ~u64(3))
    for k in range(lo, end, u64(4)):
        a0 += w[ids[k]] * values[k]
        a1 += w[ids[k + u64(1)]] * values[k + u64(1)]
        a2 += w[ids[k + u64(2)]] * values[k + u64(2)]
        a3 += w[ids[k + u64(3)]] * values[k + u64(3)]
    for k in range(end, hi):
        a0 += w[ids[k]] * values[k]
    return (a0 + a1) + (a2 + a3)


@inlined
def axpy(ids: Any, values: Any, lo: Any, hi: Any, step: float, w: Any) -> None:
    """Add `step` times a sparse row to a dense vector."""
    for k in range(lo, hi):
        w[ids[k]] += step * values[k]


@kernel
def row_squared_norms(values: Any, indptr: Any, out: Any) -> None:
    """Write the squared l2 norm of each row to `out`."""
    for i in range(np.uint64(len(out))):
        total = 0.0
        for k in range(indptr[i], indptr[i + u64(1)]):
            total += values[k] * values[k]
        out[i] = total
