r"""The p-norm of a vector whose entries all shrink, from moments.

For `smidas.py`, which owns the arrays. Entries are $r_j = |u_j| - A$, where $A$ grows at every step and
the $u_j$ do not change. Let x and a be $|u|$ and A in units of `ref`, the largest entry of the last
count. An entry is *high* if $x_j \ge B$. As long as $a \le 0.9 B$, the binomial series of every high entry
converges:
$$\sum_{x_j \ge B} (x_j - a)^p = \sum_{k \le K} \tbinom{p}{k} (-a)^k M_k + R, \quad
  M_k = \sum_{x_j \ge B} x_j^{p-k}, \quad |R| \le 10 \bigl|\tbinom{p}{K+1}\bigr| a^{K+1} M_{K+1}$$
The low entries are omitted. Their sum is at most $B^{p-2} \sum_{x_j < B} x_j^2$; $B^2$ is the largest power
of two that keeps this below the tolerance. Where one of the bounds, rounding, or the range of a float requires
it, everything is counted again, with $A = 0$.

Stored: the moments M_0 to M_{K+1}, which do not change when A does, and a bound of the sum of x^2 over the
low entries.

Invariants: M is the sum over the high entries up to a tracked rounding error; sums of a count are exact (two
levels of floats on a grid), so they are the same in any order.

Cost: `is_known` O(K); `exchange` O(K) for each entry that is high; `count` O(K n).
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, u64
from streaml1.core.rows import ensure
from streaml1.core.simd import stack_buffer
from streaml1.core.types import Floats
from streaml1.core.vecmath import (
    is_small_int,
    multiply_powers,
    negated_exponent,
    power,
    sum_in_place,
)

__all__ = [
    "CHUNK",
    "NORM",
    "TERMS",
    "check",
    "count",
    "exchange",
    "fill_binomial",
    "is_known",
    "set_p",
]

MIN_K, MAX_K = 2, 22  # K + 2 is a multiple of 4: moments are updated by fours
TERMS = MAX_K + 2

NORM = np.dtype(
    [
        ("p", "f8"),
        ("root", "f8"),  # -1 / p
        ("tolerance", "f8"),  # relative, of the sum
        ("top", "f8"),  # an entry of this multiple of ref takes the sum out of its range
        ("ref", "f8"),
        ("inverse", "f8"),  # 1 / ref, or 0 if ref is 0
        ("scale", "f8"),  # 1 / norm
        ("B", "f8"),
        ("B_power", "f8"),  # B^(p - 2)
        ("low", "f8"),  # upper bound of the sum of x^2 over the low entries
        ("noise", "f8"),  # sum of the squares of M_0 since the last count
        ("K", "i8"),  # -2 if p = 2, where no norm is needed
        ("counted", "i8"),  # entries of the last count
        ("learnt", "i8"),  # non-zeros of rows since then
    ],
    align=True,
)

MIN_SUM, MAX_SUM = 1e-30, 1e30
TOLERANCE = 1e-9  # relative, of a weight
MAX_NOISE = 1e-22 / (16 * 2e-32)  # four standard deviations of the rounding error are 1e-11
MAX_A = 0.9  # over B. The factor 10 of R is 1 / (1 - MAX_A)
SHARE = 0.1  # of the tolerance is for R, the rest for the low entries
HALVINGS = u64(48)  # B^2 is at least 2^-48

CHUNK = u64(128)  # entries that are processed together; the length of a `stack_buffer`


def set_p(norm: Any, binomial: Floats, p: float) -> None:
    """Set what depends on p alone; a `count` must follow."""
    c = norm[0]
    c.p = p
    c.root = -1.0 / p
    c.top = 2.0 * MAX_SUM ** (1.0 / p)
    # A weight is proportional to the sum to the power (2 - p) / p.
    c.tolerance = 1e-3 if p - 2.0 < 1e-7 * p else TOLERANCE * p / (p - 2.0)
    c.K = -2 if p == 2.0 else MIN_K
    fill_binomial(binomial, p)


def fill_binomial(binomial: Floats, p: float) -> None:
    """Write the binomial coefficients (p over k)."""
    binomial[0] = 1.0
    for k in range(TERMS - 1):
        binomial[k + 1] = binomial[k] * (p - k) / (k + 1.0)


@inlined
def is_known(norm: Any, M: Any, binomial: Any, A: float) -> bool:
    """Set the norm from the moments; return False if they are too inaccurate."""
    c = norm[0]
    if not MAX_A * c.B * c.ref >= A:
        return False
    a = -A * c.inverse
    power_of_a, s, size = 1.0, 0.0, 0.0
    last = np.uint64(c.K + 1)
    for k in range(last):
        term = binomial[k] * power_of_a * M[k]
        s += term
        size += abs(term)
        power_of_a *= a
    R = 10.0 * abs(binomial[last] * power_of_a * M[last])
    if not SHARE * c.tolerance * s >= R:
        _choose_K(c)
        return False
    M_0 = M[0]
    c.noise += M_0 * M_0
    if not MIN_SUM <= s <= MAX_SUM or c.noise * size * size > MAX_NOISE * M_0 * M_0 * s * s:
        return False
    if c.low * c.B_power > (1.0 - SHARE) * c.tolerance * s:
        return False
    c.scale = c.inverse * math.pow(s, c.root)
    return True


@inlined
def _choose_K(c: Any) -> None:
    """Use more terms if counts cost more than the rows between them, fewer if far less."""
    if c.learnt < 6 * c.counted:
        c.K += 4
    elif c.learnt > 150 * c.counted:
        c.K -= 4
    c.K = min(max(c.K, MIN_K), MAX_K)


@inlined
def exchange(norm: Any, M: Any, A: float, n: Any, old: Any, new: Any) -> None:
    """Update the moments for entries u that change from `old` to `new`; overwrites both arrays.

    An old entry that A has passed is already part of `low`, whether or not its slot still holds it.
    """
    c = norm[0]
    B, inverse, limit = c.B, c.inverse, c.top * c.ref
    lows = 0.0
    for k in range(n):
        u = abs(old[k])
        x = u * inverse
        y = min(abs(new[k]), limit) * inverse
        lows += (y * y if y < B else 0.0) - (x * x if x < B and u > A else 0.0)
        old[k] = x
        new[k] = y
    c.low += lows
    m = u64(0)
    for k in range(n):
        x, y = old[k], new[k]
        old[m] = x
        new[m] = y
        m += u64(1) if x >= B or y >= B else u64(0)
    if m > u64(0):
        _exchange_high(c, M, m, old, new)


@inlined
def _exchange_high(c: Any, M: Any, n: Any, x: Any, y: Any) -> None:
    """Update the moments for `n` entries of which the old or the new one is high."""
    q, B = c.p - (c.K + 1.0), c.B
    was, now, base = stack_buffer(), stack_buffer(), stack_buffer()
    part, part_2, part_3, part_4 = stack_buffer(), stack_buffer(), stack_buffer(), stack_buffer()
    padded = (n + u64(7)) & ~u64(7)  # padded to whole vectors: a vector takes as long as a number
    for k in range(n, padded):
        x[k] = y[k] = 0.0
    _powers_of_high(x, was, base, padded, q, B)
    _powers_of_high(y, now, base, padded, q, B)
    terms = np.uint64(c.K + 2)
    for i in range(u64(0), terms, u64(4)):
        for k in range(padded):
            old, new = was[k], now[k]
            part[k] = new - old
            new *= y[k]
            old *= x[k]
            part_2[k] = new - old
            new *= y[k]
            old *= x[k]
            part_3[k] = new - old
            new *= y[k]
            old *= x[k]
            part_4[k] = new - old
            now[k] = new * y[k]
            was[k] = old * x[k]
        M[terms - u64(1) - i] += sum_in_place(part, n)
        M[terms - u64(2) - i] += sum_in_place(part_2, n)
        M[terms - u64(3) - i] += sum_in_place(part_3, n)
        M[terms - u64(4) - i] += sum_in_place(part_4, n)


@inlined
def _powers_of_high(x: Any, powers: Any, base: Any, n: Any, q: float, B: float) -> None:
    """Write x^q to `powers` for the high entries, 0 for the low ones."""
    if is_small_int(q):
        for k in range(n):
            base[k] = x[k] if x[k] >= B else 1.0
            powers[k] = 1.0 if x[k] >= B else 0.0
        multiply_powers(powers, base, n, q)
    else:
        for k in range(n):
            t = power(x[k] if x[k] >= B else 1.0, q)
            powers[k] = t if x[k] >= B else 0.0


@inlined
def count(norm: Any, M: Any, u: Any, listed: Any, n: Any, ref: float) -> None:
    """Compute everything from the `n` listed entries of `u`, with A = 0; `ref` is the largest."""
    c = norm[0]
    c.ref = ref
    c.inverse = 1.0 / ref if ref > 0.0 else 0.0
    c.counted = np.int64(n)
    c.learnt = 0
    c.scale = c.noise = 0.0
    if c.K < 0:
        return
    halvings = _choose_B(c, u, listed, n)
    _sum(c, M, u, listed, n, halvings)
    c.noise = M[0] * M[0]
    if n > u64(0):
        c.scale = c.inverse * math.pow(M[0], c.root)


@inlined
def _choose_B(c: Any, u: Any, listed: Any, n: Any) -> float:
    """Set B and `low`; return b where B is 2^-b."""
    # Histogram of x^2: element b counts those in [2^-b, 2^(1 - b)).
    histogram = stack_buffer()
    for b in range(HALVINGS + u64(2)):
        histogram[b] = 0.0
    for k in range(n):
        x = abs(u[listed[k]]) * c.inverse
        histogram[min(negated_exponent(x * x), HALVINGS + u64(1))] += 1.0
    half = math.pow(0.5, 0.5 * c.p)
    s, power_of_x = histogram[u64(0)], 1.0
    for b in range(u64(1), HALVINGS + u64(1)):
        power_of_x *= half
        s += histogram[b] * power_of_x
    square = math.pow(0.5, float(HALVINGS))
    histogram[HALVINGS + u64(1)] *= square
    for i in range(HALVINGS):  # from here: upper bounds of the sum of x^2 below 2^(1 - b)
        at = HALVINGS - i
        square *= 2.0
        histogram[at] = histogram[at] * square + histogram[at + u64(1)]
    limit = (1.0 - SHARE) * c.tolerance * s
    half = math.pow(0.5, 0.5 * (c.p - 2.0))
    c.B_power = 1.0
    for b in range(u64(1), HALVINGS + u64(1)):
        square *= 0.5
        c.B_power *= half
        c.B = math.sqrt(square)
        c.low = histogram[b + u64(1)]
        # Entries may become low until the next count: assume half as many again, or an even spread.
        if (1.5 * c.low + (n * c.B + 64.0) * square) * c.B_power <= limit:
            break
    return -math.log2(c.B)


@inlined
def _sum(c: Any, M: Any, u: Any, listed: Any, n: Any, halvings: float) -> None:
    """Compute the moments, the same floats in any order.

    No term of M_k is above 1, or above B^(p - k). So partial sums of terms rounded to a grid that
    is coarse enough for `n` of them are exact. The remainders are rounded to a finer grid and
    summed likewise.
    """
    terms = np.uint64(c.K + 2)
    q = c.p - (c.K + 1.0)
    n_rounded = 1.0  # n, rounded up to a power of two
    while n_rounded < n:
        n_rounded *= 2.0
    x, t, on_grid, off_grid = stack_buffer(), stack_buffer(), stack_buffer(), stack_buffer()
    low, grid, base = stack_buffer(), stack_buffer(), stack_buffer()
    for i in range(np.uint64(len(M))):
        M[i] = low[i] = 0.0
        grid[i] = n_rounded * math.pow(2.0, math.ceil(max(0.0, halvings * (float(i) - c.p))))
    for at in range(u64(0), n, CHUNK):
        m = u64(0)
        for k in range(at, min(at + CHUNK, n)):
            x[m] = abs(u[listed[k]]) * c.inverse
            m += u64(1) if x[m] >= c.B else u64(0)
        _powers_of_high(x, t, base, m, q, c.B)
        for j in range(terms):
            term = terms - u64(1) - j
            coarse = grid[term]
            fine = 1.5 * coarse * n_rounded * 2.0**-52
            for k in range(m):
                h = (t[k] + coarse) - coarse
                on_grid[k] = h
                off_grid[k] = ((t[k] - h) + fine) - fine
                t[k] *= x[k]
            M[term] += sum_in_place(on_grid, m)
            low[term] += sum_in_place(off_grid, m)
    for i in range(terms):
        M[i] += low[i]


def check(norm: Any, M: Any, binomial: Any, u: Any, A: float) -> None:
    """Raise AssertionError if an invariant is broken; `u` are all entries."""
    ensure(M.shape == binomial.shape == (TERMS,), "M or binomial has a wrong length")
    c = norm[0]
    ensure(2.0 <= c.p <= 100.0, f"p={c.p} is out of range")
    ensure(
        c.top == 2.0 * MAX_SUM ** (1.0 / c.p) and c.root == -1.0 / c.p,
        "top or root does not match p",
    )
    ensure(0.0 <= c.ref < np.inf, f"ref={c.ref} is out of range")
    ensure(
        c.inverse == (1.0 / c.ref if c.ref > 0.0 else 0.0), f"inverse={c.inverse} is not 1 / ref"
    )
    ensure(0.0 <= c.noise < np.inf, f"noise={c.noise} is out of range")
    ensure(np.all(np.isfinite(M)), "a moment is not finite")
    ensure(c.counted >= 0 and c.learnt >= 0, "counted or learnt is negative")
    ensure(c.K == -2 if c.p == 2.0 else MIN_K <= c.K <= MAX_K, f"K={c.K} is out of range")
    if c.p == 2.0:
        return
    r = np.maximum(np.abs(u) - A, 0.0)
    x = np.abs(u[r > 0.0]) * c.inverse
    _check_moments(c, M, x[x >= c.B])
    if not len(x):
        ensure(c.scale == 0.0, f"scale={c.scale} although all weights are 0")
        return
    ensure(c.ref > 0.0 and 0.0 < c.B <= 1.0, "ref or B is out of range")
    ensure(abs(c.B_power * c.B ** (2.0 - c.p) - 1.0) < 1e-9, "B_power does not match B")
    ensure(np.sum(x[x < c.B] ** 2) <= c.low + 1e-12, "the low entries exceed their bound")
    largest = r.max()
    norm_now = largest * np.sum((r / largest) ** c.p) ** (1.0 / c.p)
    ensure(
        abs(c.scale * norm_now - 1.0) < 1e-9 + c.tolerance, f"scale={c.scale} is not 1 / {norm_now}"
    )


def _check_moments(c: Any, M: Any, x: Any) -> None:
    """Raise AssertionError unless `M` are the moments of the high entries `x`, up to rounding."""
    by_p = np.zeros(1, NORM).view(np.recarray)
    set_p(by_p, np.zeros(TERMS), c.p)
    ensure(c.tolerance == by_p[0].tolerance, "the tolerance does not match p")
    k = np.arange(int(c.K) + 2)
    expected = np.array([np.sum(x ** (c.p - i)) for i in k])
    # Entries that have left since the last count leave the rounding errors of their terms.
    left = math.sqrt(c.noise) * (c.B if c.B > 0.0 else 1.0) ** np.minimum(0.0, c.p - k)
    wrong = np.abs(M[: len(k)] - expected) > 1e-7 * expected + 1e-9 * left
    ensure(not wrong.any(), f"M_{np.argmax(wrong)} is not a moment of the weights")
