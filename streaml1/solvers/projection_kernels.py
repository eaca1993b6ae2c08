"""Compiled parts of the projections: Figure 2 of the paper, and the pivots that shorten it.

The symbols are those of `streaml1.solvers.projection`, which explains the method.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel, u64

__all__ = [
    "BLOCK",
    "SAMPLE",
    "rng_state",
    "soft_threshold",
    "theta_by_pivots",
    "weighted_theta_by_pivots",
]

SAMPLE = 4096
SPREAD = 4.0  # standard deviations between a sample's theta and the lower pivot
FEW = 0.01  # a support of at most this share is kept whole
WINDOW = 0.2  # distance of the upper pivot from the tangent's root, relative to its step
BLOCK = u64(64)


def rng_state(seed: int) -> np.uint64:
    """Return the state of the generator of pivots; it is never zero."""
    return np.uint64((int(seed) + 1) * 0x9E3779B97F4A7C15 % 2**64 | 1)


@kernel
def soft_threshold(v: Any, ball: bool, r: float, theta: float, scale: float, w: Any) -> bool:
    """Write Eq. (6) to `w`, for the ball with the sign of v; return whether v is finite.

    The result is clipped so that rounding makes no entry larger than that of v. NaN and infinity
    are counted without a branch, so that the loop is vectorized.
    """
    n, stray = np.uint64(len(v)), np.int64(0)
    if ball and scale == 1.0:
        for i in range(n):
            size = abs(v[i])
            stray += np.int64(not size < math.inf)
            w[i] = math.copysign(min(max((size - r) - theta, 0.0), size), v[i])
    elif ball:
        for i in range(n):
            size = abs(v[i])
            stray += np.int64(not size < math.inf)
            w[i] = math.copysign(min(max((size - r) * scale - theta, 0.0) / scale, size), v[i])
    else:
        for i in range(n):
            stray += np.int64(not abs(v[i]) < math.inf)
            w[i] = max((v[i] - r) * scale - theta, 0.0) / scale
    return bool(stray == 0)


@inlined
def _next_state(state: Any) -> Any:
    """Return the next state of xorshift64 (Marsaglia 2003)."""
    state ^= state << u64(13)
    state ^= state >> u64(7)
    return state ^ (state << u64(17))


@kernel
def _figure_2(U: Any, n: Any, z: float, s: float, rho: float, state: Any) -> tuple[float, Any]:
    """Return theta of the first n entries of U and of rho larger ones that sum to s.

    Also returns the new state of the generator. U is reordered.

    Invariant: s and rho are the sum and the number of entries known to be in the support. Those of
    U[first:last] are undecided, and all others are outside.
    """
    first, last = u64(0), np.uint64(n)
    while first < last:
        state = _next_state(state)
        pivot = U[first + (state >> u64(11)) % (last - first)]
        # Partition into U[first:above] > pivot, U[above:pos] == pivot and U[low:last] < pivot.
        above, pos, low = first, first, last
        ds = 0.0
        while pos < low:
            x = U[pos]
            if x > pivot:
                ds += x
                U[pos] = U[above]
                U[above] = x
                above += u64(1)
                pos += u64(1)
            elif x == pivot:
                pos += u64(1)
            else:
                low -= u64(1)
                U[pos] = U[low]
                U[low] = x
        equal = float(low - above)
        n_above = float(above - first)
        if (s + ds) - (rho + n_above) * pivot < z:
            s += ds + equal * pivot
            rho += n_above + equal
            first = low
        else:
            last = above
    return (s - z) / rho, state


@kernel
def _sums(
    v: Any, ball: bool, low: float, high: float, scale: float, kept: Any, sums: Any
) -> tuple[Any, float, float]:
    """Write the entries in (low, high] to `kept`, and sum the entries above `high`.

    Most blocks have no entry to keep: they are scanned without a branch. `sums` is a buffer of
    `BLOCK` partial sums, so that the loop is vectorized.

    Returns
    -------
    tuple
        Number of entries kept; sum over the others of (entry - high) * scale; their number.
    """
    n, k, rho = np.uint64(len(v)), u64(0), np.int64(0)
    for j in range(BLOCK):
        sums[j] = 0.0
    for first in range(u64(0), n - n % BLOCK, BLOCK):
        inside = np.int64(0)
        for j in range(BLOCK):
            x = abs(v[first + j]) if ball else v[first + j]
            sums[j] += max((x - high) * scale, 0.0)
            rho += np.int64(x > high)
            inside += np.int64(x > low) - np.int64(x > high)
        if inside > 0:
            for j in range(BLOCK):
                x = abs(v[first + j]) if ball else v[first + j]
                kept[k] = x
                k += np.uint64((x > low) & (x <= high))
    s = 0.0
    for j in range(BLOCK):
        s += sums[j]
    for i in range(n - n % BLOCK, n):
        x = abs(v[i]) if ball else v[i]
        kept[k] = x
        k += np.uint64((x > low) & (x <= high))
        if x > high:
            s += (x - high) * scale
            rho += np.int64(1)
    return k, s, float(rho)


@kernel
def _guess(
    v: Any, ball: bool, z: float, scale: float, state: Any, sample: Any
) -> tuple[float, float, Any]:
    """Return theta of a sample, a value that theta is hardly below, and the new state."""
    n, m = np.uint64(len(v)), np.uint64(len(sample) // 2)
    U, work = sample[:m], sample[m:]
    r = -math.inf
    for k in range(m):
        state = _next_state(state)
        x = v[(state >> u64(11)) % n]
        U[k] = abs(x) if ball else x
        r = max(r, U[k])
    for k in range(m):
        U[k] = work[k] = (U[k] - r) * scale
    share = z * (float(m) / float(n))
    theta, state = _figure_2(work, m, share, 0.0, 0.0, state)
    squares = 0.0
    for k in range(m):
        squares += max(U[k] - theta, 0.0) ** 2
    low, state = _figure_2(U, m, share + SPREAD * math.sqrt(squares), 0.0, 0.0, state)
    return r + theta / scale, r + low / scale, state


@kernel
def _bracket(
    v: Any, ball: bool, z: float, scale: float, state: Any, kept: Any, sample: Any
) -> tuple[float, float, Any]:
    """Return a lower and an upper pivot for theta, and the new state.

    The sum of the excess over a number is convex in it, so its tangent at the guess reaches z at a
    lower bound of theta, and close to it. The upper pivot may be wrong.
    """
    guess, low, state = _guess(v, ball, z, scale, state, sample)
    if ball and guess <= 0.0:
        guess = 0.0
    _, s, rho = _sums(v, ball, guess, guess, scale, kept, sample)
    if rho == 0.0:
        return low, guess, state
    low, high = _tangent(guess, (s - z) / scale, rho)
    if rho < FEW * len(v):
        high = guess if guess > low else math.inf
    return low, high, state


@inlined
def _tangent(x: float, excess: float, rho: float) -> tuple[float, float]:
    """Return pivots around the root of the tangent at x.

    The lower one is just below the root, by more than rounding; the upper one leaves a margin.
    """
    root = x + excess / rho
    step, error = abs(root - x), 1e-15 * abs(root)
    return root - 1e-6 * step - error, root + WINDOW * step + error


@kernel
def theta_by_pivots(
    v: Any, ball: bool, z: float, scale: float, state: Any, kept: Any, sample: Any
) -> tuple[float, float]:
    """Return the reference r and theta by two pivots, then Figure 2.

    The projection is max(scale (v - r) - theta, 0) / scale. Theta is -inf if v is in the ball.

    Invariant: `low` and `high` bracket r + theta / scale, or one of them is a failed guess, which
    a pass over v detects. After 3 failures of `high` it is replaced by infinity.
    """
    z *= scale
    lowest = 0.0 if ball else -math.inf
    low, high, is_sure, tries = lowest, math.inf, False, 0
    if len(v) > len(sample) // 2:
        low, high, state = _bracket(v, ball, z, scale, state, kept, sample)
        low = max(low, lowest)
        high = high if high > low else math.inf
    while True:
        n, s, rho = _sums(v, ball, low, high, scale, kept, sample)
        if s >= z:  # theta is above both
            tries += 1
            is_sure = tries > 3
            if is_sure:
                low, high = high, math.inf
            else:
                low, high = _tangent(high, (s - z) / scale, rho)
            continue
        r = high
        if rho == 0.0:
            if n == 0:  # all entries are at or below `low`
                r = low
            else:
                r = kept[0]
                for k in range(n):
                    r = max(r, kept[k])
        total = s + rho * ((r - low) * scale) if rho > 0.0 else 0.0
        for k in range(n):
            total += (kept[k] - low) * scale
        if is_sure or total >= z or low == -math.inf:
            break
        if low == lowest:
            return 0.0, -math.inf
        low, high = lowest, low  # theta is below both
    for k in range(n):
        kept[k] = (kept[k] - r) * scale
    theta, state = _figure_2(kept, n, z, s, rho, state)
    return r, theta


@inlined
def _swap(U: Any, i: Any, j: Any) -> None:
    for c in range(3):
        U[i, c], U[j, c] = U[j, c], U[i, c]


@kernel
def weighted_theta_by_pivots(U: Any, z: float, state: Any) -> float:
    """Return theta by Figure 2 on rows of (|v| / a, a |v|, a^2), which are reordered.

    The invariants are those of `_figure_2`.
    """
    first, last = u64(0), np.uint64(len(U))
    s, rho = 0.0, 0.0
    while first < last:
        state = _next_state(state)
        pivot = U[first + (state >> u64(11)) % (last - first), 0]
        above, pos, low = first, first, last
        ds, drho, equal_s, equal_rho = 0.0, 0.0, 0.0, 0.0
        while pos < low:
            if U[pos, 0] > pivot:
                ds += U[pos, 1]
                drho += U[pos, 2]
                _swap(U, pos, above)
                above += u64(1)
                pos += u64(1)
            elif U[pos, 0] == pivot:
                equal_s += U[pos, 1]
                equal_rho += U[pos, 2]
                pos += u64(1)
            else:
                low -= u64(1)
                _swap(U, pos, low)
        if (s + ds) - (rho + drho) * pivot < z:
            s += ds + equal_s
            rho += drho + equal_rho
            first = low
        else:
            last = above
    return (s - z) / rho
