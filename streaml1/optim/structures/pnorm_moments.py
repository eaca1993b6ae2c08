r"""The p-norm of a vector whose entries all shrink, from moments.

Entries are $r_j = |u_j| - A$ where $A$ grows at every step and the $u_j$ stay. With lengths x and a in
units of `ref`, the largest entry when they were counted last, an entry is *high* where $x_j \ge B$; as
long as $a \le 0.9 B$, every binomial series of a high entry converges:
$$\sum_{x_j \ge B} (x_j - a)^p = \sum_{k \le K} \tbinom{p}{k} (-a)^k M_k + R, \quad
  M_k = \sum_{x_j \ge B} x_j^{p-k}, \quad |R| \le 10 \bigl|\tbinom{p}{K+1}\bigr| a^{K+1} M_{K+1}$$
The low entries are left out. They have $B^{p-2} \sum_{x_j < B} x_j^2$ at most; $B^2$ is the largest power
of two that keeps this below the tolerance. Where either bound, rounding, or the range of a float asks for
it, all is counted anew, with $A = 0$.

Moments do not change when A does. Sums of a count are exact (two levels of floats on a grid), so that
the order of the entries does not matter.
"""  # noqa: E501

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.rows import ensure
from streaml1.core.simd import stack_buffer
from streaml1.core.vecmath import exponent_below_one, power, small_int, times_powers, total

__all__ = ["CHUNK", "NORM", "TERMS", "check", "count", "exchange", "is_known", "set_p"]

K_LEAST, K_MOST = 2, 22  # K + 2 is a multiple of 4: four moments at a time
TERMS = K_MOST + 2

NORM = np.dtype(
    [
        ("p", "f8"),
        ("root", "f8"),  # -1 / p
        ("tolerance", "f8"),  # of the sum, relative
        ("top", "f8"),  # an entry of so many ref takes the sum out of its range
        ("ref", "f8"),
        ("inverse", "f8"),  # 1 / ref, 0 where that is 0
        ("scale", "f8"),  # 1 / norm
        ("B", "f8"),
        ("B_power", "f8"),  # B^(p - 2)
        ("low", "f8"),  # what the x^2 of the low entries sum up to at most
        ("noise", "f8"),  # sum of the squares of M_0 since the last count
        ("K", "i8"),  # -2: p = 2, no norm is needed
        ("counted", "i8"),  # entries of the last count
        ("learnt", "i8"),  # non-zeros of rows since
    ],
    align=True,
)

LEAST, MOST = 1e-30, 1e30  # of the sum
TOLERANCE = 1e-9  # of a weight, relative, while the sum is not far from the norm's
NOISE_MOST = 1e-22 / (16 * 2e-32)  # four sigma of rounding: 1e-11
A_MOST = 0.9  # of B: so, 1 / (1 - A_MOST) is 10
SHARE = 0.1  # of the tolerance is for R, the rest for what is low
HALVINGS = np.uint64(48)  # B^2 is 2^-48 at least

CHUNK = np.uint64(128)  # entries worked on together, as long as a scratch
ZERO, ONE, TWO, THREE, FOUR = (np.uint64(n) for n in range(5))
SEVEN = np.uint64(7)


def set_p(norm: Any, binomial: Any, p: float) -> None:
    """Set what depends on p alone; a count must follow."""
    c = norm[0]
    c.p = p
    c.root = -1.0 / p
    c.top = 2.0 * MOST ** (1.0 / p)
    # A weight goes with the sum to the power (2 - p) / p.
    c.tolerance = 1e-3 if p - 2.0 < 1e-7 * p else TOLERANCE * p / (p - 2.0)
    c.K = -2 if p == 2.0 else K_LEAST
    binomial[0] = 1.0
    for k in range(TERMS - 1):
        binomial[k + 1] = binomial[k] * (p - k) / (k + 1.0)


@inlined
def is_known(norm: Any, M: Any, binomial: Any, A: float) -> bool:
    """Take the norm from the moments, if it is known well enough from them."""
    c = norm[0]
    if not A_MOST * c.B * c.ref >= A:
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
    if not LEAST <= s <= MOST or c.noise * size * size > NOISE_MOST * M_0 * M_0 * s * s:
        return False
    if c.low * c.B_power > (1.0 - SHARE) * c.tolerance * s:
        return False
    c.scale = c.inverse * math.pow(s, c.root)
    return True


@inlined
def _choose_K(c: Any) -> None:
    """More terms where counts cost more than the rows between them, else fewer."""
    if c.learnt < 6 * c.counted:
        c.K += 4
    elif c.learnt > 150 * c.counted:
        c.K -= 4
    c.K = min(max(c.K, K_LEAST), K_MOST)


@inlined
def exchange(norm: Any, M: Any, A: float, n: Any, old: Any, new: Any) -> None:
    """Entries `old`, u of either sign, have become `new`; both are lost.

    What A has passed is low, and was counted: whether its place still shows it does not matter.
    """
    c = norm[0]
    B, inverse, most = c.B, c.inverse, c.top * c.ref
    lows = 0.0
    for k in range(n):
        u = abs(old[k])
        x = u * inverse
        y = min(abs(new[k]), most) * inverse
        lows += (y * y if y < B else 0.0) - (x * x if x < B and u > A else 0.0)
        old[k] = x
        new[k] = y
    c.low += lows
    m = ZERO
    for k in range(n):
        x, y = old[k], new[k]
        old[m] = x
        new[m] = y
        m += ONE if x >= B or y >= B else ZERO
    if m > ZERO:
        _exchange_high(c, M, m, old, new)


@inlined
def _exchange_high(c: Any, M: Any, n: Any, x: Any, y: Any) -> None:
    q, B = c.p - (c.K + 1.0), c.B
    was, now, base = stack_buffer(), stack_buffer(), stack_buffer()
    part, part_2, part_3, part_4 = stack_buffer(), stack_buffer(), stack_buffer(), stack_buffer()
    whole = (n + SEVEN) & ~SEVEN  # a vector takes no longer than a number
    for k in range(n, whole):
        x[k] = y[k] = 0.0
    _powers_of_high(x, was, base, whole, q, B)
    _powers_of_high(y, now, base, whole, q, B)
    terms = np.uint64(c.K + 2)
    for i in range(ZERO, terms, FOUR):
        for k in range(whole):
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
        M[terms - ONE - i] += total(part, n)
        M[terms - TWO - i] += total(part_2, n)
        M[terms - THREE - i] += total(part_3, n)
        M[terms - FOUR - i] += total(part_4, n)


@inlined
def _powers_of_high(x: Any, powers: Any, base: Any, n: Any, q: float, B: float) -> None:
    """Powers of entries; 0 where they are low."""
    if small_int(q):
        for k in range(n):
            base[k] = x[k] if x[k] >= B else 1.0
            powers[k] = 1.0 if x[k] >= B else 0.0
        times_powers(powers, base, n, q)
    else:
        for k in range(n):
            t = power(x[k] if x[k] >= B else 1.0, q)
            powers[k] = t if x[k] >= B else 0.0


@inlined
def count(norm: Any, M: Any, u: Any, listed: Any, n: Any, ref: float) -> None:
    """Count `n` entries of `u`, those that are listed, of which `ref` is the largest; A is 0."""
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
    if n > ZERO:
        c.scale = c.inverse * math.pow(M[0], c.root)


@inlined
def _choose_B(c: Any, u: Any, listed: Any, n: Any) -> float:
    """Set B and what is below it; returns b where B is 2^-b."""
    found = stack_buffer()  # b-th: x^2 from 2^-b, below 2^(1 - b)
    for b in range(HALVINGS + TWO):
        found[b] = 0.0
    for k in range(n):
        x = abs(u[listed[k]]) * c.inverse
        found[min(exponent_below_one(x * x), HALVINGS + ONE)] += 1.0
    half = math.pow(0.5, 0.5 * c.p)
    s, power_of_x = found[ZERO], 1.0
    for b in range(ONE, HALVINGS + ONE):
        power_of_x *= half
        s += found[b] * power_of_x
    square = math.pow(0.5, float(HALVINGS))
    found[HALVINGS + ONE] *= square
    for i in range(HALVINGS):  # now: the sum of x^2 below 2^(1 - b), at most
        at = HALVINGS - i
        square *= 2.0
        found[at] = found[at] * square + found[at + ONE]
    most = (1.0 - SHARE) * c.tolerance * s
    half = math.pow(0.5, 0.5 * (c.p - 2.0))
    c.B_power = 1.0
    for b in range(ONE, HALVINGS + ONE):
        square *= 0.5
        c.B_power *= half
        c.B = math.sqrt(square)
        c.low = found[b + ONE]
        # More may come: half as many again, or with an even spread n B.
        if (1.5 * c.low + (n * c.B + 64.0) * square) * c.B_power <= most:
            break
    return -math.log2(c.B)


@inlined
def _sum(c: Any, M: Any, u: Any, listed: Any, n: Any, halvings: float) -> None:
    """Sum up the moments, exactly: in any order, the same floats.

    No term of M_k is above 1, or above B^(p - k), so on a grid that `n` of those fit, partial sums
    are exact; what is off the grid is on a finer one.
    """
    terms = np.uint64(c.K + 2)
    q = c.p - (c.K + 1.0)
    most = 1.0
    while most < n:
        most *= 2.0
    x, t, on_grid, off_grid = stack_buffer(), stack_buffer(), stack_buffer(), stack_buffer()
    low, grid, base = stack_buffer(), stack_buffer(), stack_buffer()
    for i in range(np.uint64(len(M))):
        M[i] = low[i] = 0.0
        grid[i] = most * math.pow(2.0, math.ceil(max(0.0, halvings * (float(i) - c.p))))
    for at in range(ZERO, n, CHUNK):
        m = ZERO
        for k in range(at, min(at + CHUNK, n)):
            x[m] = abs(u[listed[k]]) * c.inverse
            m += ONE if x[m] >= c.B else ZERO
        _powers_of_high(x, t, base, m, q, c.B)
        for j in range(terms):
            term = terms - ONE - j
            coarse = grid[term]
            fine = 1.5 * coarse * most * 2.0**-52
            for k in range(m):
                h = (t[k] + coarse) - coarse
                on_grid[k] = h
                off_grid[k] = ((t[k] - h) + fine) - fine
                t[k] *= x[k]
            M[term] += total(on_grid, m)
            low[term] += total(off_grid, m)
    for i in range(terms):
        M[i] += low[i]


def check(norm: Any, M: Any, binomial: Any, u: Any, A: float) -> None:
    """Raise AssertionError where an invariant is broken; `u` are all entries."""
    ensure(M.shape == binomial.shape == (TERMS,), "moments are missing")
    ensure(norm.dtype == NORM and norm.shape == (1,), "there is no record of the norm")
    c = norm[0]
    ensure(2.0 <= c.p <= 100.0, f"p is {c.p}, out of range")
    ensure(c.top == 2.0 * MOST ** (1.0 / c.p) and c.root == -1.0 / c.p, "not of this p")
    ensure(0.0 <= c.ref < np.inf, f"ref is {c.ref}, out of range")
    ensure(c.inverse == (1.0 / c.ref if c.ref > 0.0 else 0.0), f"1 / ref is {c.inverse}")
    ensure(0.0 <= c.noise < np.inf, f"noise is {c.noise}, out of range")
    ensure(np.all(np.isfinite(M)), "a moment is not finite")
    ensure(c.counted >= 0 and c.learnt >= 0, "a count is below 0")
    ensure(c.K == -2 if c.p == 2.0 else K_LEAST <= c.K <= K_MOST, f"K is {c.K}")
    r = np.maximum(np.abs(u) - A, 0.0)
    if c.p == 2.0 or not r.any():
        return
    x = np.abs(u[r > 0.0]) * c.inverse
    ensure(np.sum(x[x < c.B] ** 2) <= c.low + 1e-12, "the low entries are more than is known")
    largest = r.max()
    norm_now = largest * np.sum((r / largest) ** c.p) ** (1.0 / c.p)
    ensure(abs(c.scale * norm_now - 1.0) < 1e-9 + c.tolerance, f"not 1 / {norm_now}: {c.scale}")
