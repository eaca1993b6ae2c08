r"""Euclidean projection of dense vectors onto the simplex and the l1 ball, plain or weighted.

Duchi, Shalev-Shwartz, Singer & Chandra (2008), Figures 1 and 2, in the paper's symbols. The
projection of v onto the simplex $\{w \ge 0, \sum w = z\}$ is $w_i = \max(v_i - \theta, 0)$, Eq.
(6), with $\theta = (\sum_{v_j \ge v_{(\rho)}} v_j - z) / \rho$, Eq. (10). The projection onto the
ball is that of $|v|$ onto the simplex (Section 4). The paper omits the case of weights $a \ge 0$
"for lack of space": then $w_i = \mathrm{sgn}(v_i) \max(|v_i| - \theta a_i, 0)$, the support are the
largest $|v_i| / a_i$, and over these $\theta = (\sum a_i |v_i| - z) / \sum a_i^2$.

Differences from the paper:

- Sums are of $v_j - r$ for a reference r close to $\theta$, so that large values lose no digits.
- Figure 2 drops all entries equal to the pivot, where the paper drops the pivot alone: equal
  entries would make it quadratic.
- A long vector is first reduced to the few entries between two pivots, which come from a sample and
  a tangent. This takes two passes without branches; Figure 2 handles the rest. A wrong pivot costs
  another pass.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streaml1.core.jit import inlined, kernel
from streaml1.core.rows import shown
from streaml1.core.types import Floats

__all__ = ["project_l1_ball", "project_simplex"]

SAMPLE = 4096
SPREAD = 4.0  # standard deviations between a sample's theta and the lower pivot
FEW = 0.01  # a support of at most this share is kept whole
WINDOW = 0.2  # distance of the upper pivot from the tangent's root, relative to its step
BLOCK = np.uint64(64)
MAX_VALUE = 1e200  # beyond it a product of weights and values could overflow
MIN_WEIGHT = 1e-100  # relative to the largest weight

ONE = np.uint64(1)
METHODS = ("sort", "linear")


def project_simplex(v: ArrayLike, z: float, method: str = "linear", seed: int = 0) -> Floats:
    """Project a vector onto the simplex {w >= 0, sum w = z}.

    Parameters
    ----------
    v
        A vector of finite numbers, shape (n,).
    z
        Sum of the projection, >= 0.
    method
        "sort" (the paper's Figure 1, O(n log n)) or "linear" (Figure 2, expected O(n)).
    seed
        Seed of the pivots of "linear". It affects the result only by rounding.

    Returns
    -------
    ndarray of float64
        The closest point, shape (n,).

    Raises
    ------
    ValueError
        If `v` is empty or not a vector of finite numbers, or if another argument is invalid.

    References
    ----------
    Duchi, J., Shalev-Shwartz, S., Singer, Y. and Chandra, T., 2008. Efficient projections onto the
    l1-ball for learning in high dimensions. ICML.

    Examples
    --------
    >>> project_simplex([0.5, 1.5, -1.0], 1.0)
    array([0., 1., 0.])
    """
    values, z = _check_vector("v", v), _check_radius(z)
    _check_method(method, seed)
    if not len(values):
        raise ValueError("v must have at least one entry, got none")
    if z == 0.0:
        _check_finite("v", values)
        return np.zeros(len(values))
    return _project(values, z, False, method, seed)


def project_l1_ball(
    v: ArrayLike, z: float, a: ArrayLike | None = None, *, method: str = "linear", seed: int = 0
) -> Floats:
    """Project a vector onto the l1 ball {w: sum |w| <= z}, or {w: sum a_i |w_i| <= z}.

    Parameters
    ----------
    v
        A vector of finite numbers, shape (n,).
    z
        The radius, >= 0.
    a
        Weights >= 0, shape (n,); an entry of weight 0 does not change. None: all 1.
    method, seed
        As in `project_simplex`.

    Returns
    -------
    ndarray of float64
        The closest point, shape (n,).

    Raises
    ------
    ValueError
        If `v` is not a vector of finite numbers, or if another argument is invalid.

    References
    ----------
    Duchi, J., Shalev-Shwartz, S., Singer, Y. and Chandra, T., 2008. Efficient projections onto the
    l1-ball for learning in high dimensions. ICML.

    Examples
    --------
    >>> project_l1_ball([3.0, -2.0], 3.0)
    array([ 2., -1.])
    >>> project_l1_ball([3.0, -2.0], 3.0, a=[1.0, 0.0])
    array([ 3., -2.])
    """
    values, z = _check_vector("v", v), _check_radius(z)
    _check_method(method, seed)
    if a is not None:
        _check_finite("v", values)
        return _project_weighted(values, z, _check_weights(a, len(values)), method, seed)
    if z == 0.0 or not len(values):
        _check_finite("v", values)
        return np.zeros(len(values))
    return _project(values, z, True, method, seed)


def _check_vector(name: str, v: ArrayLike) -> Floats:
    """Return a vector as a contiguous array of float64."""
    if isinstance(v, np.ma.MaskedArray):
        raise ValueError(
            f"{name} must not be masked; use {name}.compressed() or {name}.filled(0.0)"
        )
    try:
        given = np.asarray(v)
        is_real = given.dtype.kind in "biufO"  # numpy would also convert dates and strings
        if is_real:  # kernels are compiled for float64 only
            given = np.require(given, np.float64, ["C", "A", "W"])
    except (TypeError, ValueError, OverflowError):  # a dict, rows of several lengths, 10**400
        raise ValueError(
            f"{name} must be a vector of numbers, got a {type(v).__name__}; use a list or an array "
            "of floats"
        ) from None
    if not is_real:
        raise ValueError(f"{name} must have real numbers, got values of type {given.dtype}")
    if given.ndim != 1:
        raise ValueError(f"{name} must be a vector, got {given.ndim} dimensions")
    values: Floats = given
    return values


def _check_finite(name: str, v: Floats) -> None:
    stray = np.flatnonzero(~np.isfinite(v))
    if len(stray):
        raise ValueError(
            f"{name} must have finite numbers, got {name}[{stray[0]}]={v[stray[0]]}; drop it"
        )


def _check_radius(z: object) -> float:
    is_real = isinstance(z, numbers.Real) and not isinstance(z, np.timedelta64)
    try:
        radius = float(z) if is_real else math.nan  # type: ignore[arg-type]
    except OverflowError:
        radius = math.inf
    if not 0.0 <= radius < math.inf:
        raise ValueError(f"z must be a finite number >= 0, got {shown(z)}")
    return radius


def _check_method(method: object, seed: object) -> None:
    if not (isinstance(method, str) and method in METHODS):
        raise ValueError(f'method must be "sort" or "linear", got {shown(method)}')
    if not isinstance(seed, numbers.Integral):
        raise ValueError(f"seed must be an integer, got {shown(seed)}")


def _check_weights(a: ArrayLike, n: int) -> Floats:
    weights = _check_vector("a", a)
    _check_finite("a", weights)
    if len(weights) != n:
        raise ValueError(f"a must have {n} weights, as many as v has entries, got {len(weights)}")
    largest = weights.max(initial=0.0)
    is_low = (weights < 0.0) | ((weights > 0.0) & (weights < MIN_WEIGHT * largest))
    low = np.flatnonzero(is_low)
    if len(low):
        raise ValueError(
            f"weights must be 0, or at least 1e-100 of the largest, {largest:g}, "
            f"got a[{low[0]}]={weights[low[0]]}"
        )
    return weights


def _project(v: Floats, z: float, ball: bool, method: str, seed: int) -> Floats:
    """Project onto the ball or the simplex of radius z > 0."""
    scale = _scale_of(z)
    w = np.empty(len(v))
    if method == "sort":
        _check_finite("v", v)
        r, theta = _theta_by_sorting(np.abs(v) if ball else v, ball, z, scale)
    else:
        sample = np.empty(2 * max(int(BLOCK), min(len(v), SAMPLE)))
        r, theta = _theta_by_pivots(v, ball, z, scale, _rng_state(seed), w, sample)
    if theta == -math.inf or not _soft_threshold(v, ball, r, theta, scale, w):
        _check_finite("v", v)
        return v.copy()
    return w


def _scale_of(z: float) -> float:
    """Return a power of two that scales z so that sums neither overflow nor lose digits."""
    return 2.0**600 if z < 1e-150 else 2.0**-600 if z > 1e150 else 1.0


def _theta_by_sorting(v: Floats, ball: bool, z: float, scale: float) -> tuple[float, float]:
    """Return the reference and theta by Figure 1; see `_theta_by_pivots`."""
    r = float(v.max())
    with np.errstate(over="ignore"):
        if ball and v.sum() <= z:
            return 0.0, -math.inf
        u = (v - r) * scale
    z *= scale
    mu = np.sort(u[u > -z])[::-1]  # the support is within z of the largest
    theta = (np.cumsum(mu) - z) / np.arange(1, len(mu) + 1)
    rho = int(np.flatnonzero(mu > theta)[-1])
    return r, float(theta[rho])


def _rng_state(seed: int) -> np.uint64:
    """Return the state of the generator of pivots; it is never zero."""
    return np.uint64((int(seed) + 1) * 0x9E3779B97F4A7C15 % 2**64 | 1)


@kernel
def _soft_threshold(v: Any, ball: bool, r: float, theta: float, scale: float, w: Any) -> bool:
    """Write Eq. (6) to `w`, for the ball with the sign of v; return whether v is finite.

    The result is clipped so that rounding makes no entry larger than that of v. NaN and infinity
    are counted without a branch, so that the loop is vectorised.
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
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    return state ^ (state << np.uint64(17))


@kernel
def _figure_2(U: Any, n: Any, z: float, s: float, rho: float, state: Any) -> tuple[float, Any]:
    """Return theta of the first n entries of U and of rho larger ones that sum to s.

    Also returns the new state of the generator. U is reordered.

    Invariant: s and rho are the sum and the number of entries known to be in the support. Those of
    U[first:last] are undecided, and all others are outside.
    """
    first, last = np.uint64(0), np.uint64(n)
    while first < last:
        state = _next_state(state)
        pivot = U[first + (state >> np.uint64(11)) % (last - first)]
        # Partition into U[first:above] > pivot, U[above:pos] == pivot and U[low:last] < pivot.
        above, pos, low = first, first, last
        ds = 0.0
        while pos < low:
            x = U[pos]
            if x > pivot:
                ds += x
                U[pos] = U[above]
                U[above] = x
                above += ONE
                pos += ONE
            elif x == pivot:
                pos += ONE
            else:
                low -= ONE
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
    `BLOCK` partial sums, so that the loop is vectorised.

    Returns
    -------
    tuple
        Number of entries kept; sum over the others of (entry - high) * scale; their number.
    """
    n, k, rho = np.uint64(len(v)), np.uint64(0), np.int64(0)
    for j in range(BLOCK):
        sums[j] = 0.0
    for first in range(np.uint64(0), n - n % BLOCK, BLOCK):
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
        x = v[(state >> np.uint64(11)) % n]
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
def _theta_by_pivots(
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


def _project_weighted(v: Floats, z: float, a: Floats, method: str, seed: int) -> Floats:
    """Project onto {w: sum a_i |w_i| <= z}."""
    has_weight = a > 0.0
    w = v.copy()
    if not has_weight.any():
        return w
    size, weight = np.abs(v[has_weight]), a[has_weight]
    largest = float(weight.max())
    z, weight = z / largest, weight / largest
    if size.max() > MAX_VALUE:
        raise ValueError(
            f"v must have entries of at most 1e200 with weights, got {size.max():g}; scale it"
        )
    if z == 0.0:
        w[has_weight] = 0.0
        return w
    if np.vdot(weight, size) <= z:
        return w
    if method == "sort":
        theta = _weighted_theta_by_sorting(size, weight, z)
    else:
        U = np.stack([size / weight, weight * size, weight * weight], axis=1)
        theta = _weighted_figure_2(U, z, _rng_state(seed))
    shrunk: Floats = np.maximum(size - theta * weight, 0.0)
    total = float(np.vdot(weight, shrunk))
    if total > z:  # by rounding
        shrunk *= z / total
    w[has_weight] = np.copysign(shrunk, v[has_weight])
    return w


def _weighted_theta_by_sorting(size: Floats, weight: Floats, z: float) -> float:
    """Return theta for weights; `size` is |v|."""
    ratio = size / weight
    order = np.argsort(-ratio)
    s = np.cumsum((weight * size)[order]) - z
    theta = s / np.cumsum((weight * weight)[order])
    inside = np.flatnonzero(ratio[order] > theta)
    return float(theta[inside[-1] if len(inside) else 0])


@inlined
def _swap(U: Any, i: Any, j: Any) -> None:
    for c in range(3):
        U[i, c], U[j, c] = U[j, c], U[i, c]


@kernel
def _weighted_figure_2(U: Any, z: float, state: Any) -> float:
    """Return theta by Figure 2 on rows of (|v| / a, a |v|, a^2), which are reordered.

    The invariants are those of `_figure_2`.
    """
    first, last = np.uint64(0), np.uint64(len(U))
    s, rho = 0.0, 0.0
    while first < last:
        state = _next_state(state)
        pivot = U[first + (state >> np.uint64(11)) % (last - first), 0]
        above, pos, low = first, first, last
        ds, drho, equal_s, equal_rho = 0.0, 0.0, 0.0, 0.0
        while pos < low:
            if U[pos, 0] > pivot:
                ds += U[pos, 1]
                drho += U[pos, 2]
                _swap(U, pos, above)
                above += ONE
                pos += ONE
            elif U[pos, 0] == pivot:
                equal_s += U[pos, 1]
                equal_rho += U[pos, 2]
                pos += ONE
            else:
                low -= ONE
                _swap(U, pos, low)
        if (s + ds) - (rho + drho) * pivot < z:
            s += ds + equal_s
            rho += drho + equal_rho
            first = low
        else:
            last = above
    return (s - z) / rho
