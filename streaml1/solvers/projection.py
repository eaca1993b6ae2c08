r"""Euclidean projection on the simplex and on the l1 ball, plain and weighted, of a dense vector.

Duchi, Shalev-Shwartz, Singer & Chandra (2008), Figures 1 and 2, in the paper's symbols: the
projection of v on the simplex $\{w \ge 0, \sum w = z\}$ is $w_i = \max(v_i - \theta, 0)$, Eq. (6),
with $\theta = (\sum_{v_j \ge v_{(\rho)}} v_j - z) / \rho$, Eq. (10). The ball is the simplex of
$|v|$ (Section 4). With weights $a \ge 0$ the paper leaves the case out "for lack of space":
$w_i = \mathrm{sgn}(v_i) \max(|v_i| - \theta a_i, 0)$, where what is in $w$ are the largest
$|v_i| / a_i$ and $\theta = (\sum a_i |v_i| - z) / \sum a_i^2$ over these.

What differs from the paper:

- Sums are of $v_j - r$ for a reference r close to $\theta$, which loses no digits to a large $v$.
- Figure 2 throws away all that equals the pivot where the paper throws away the pivot alone:
  equal entries would make it quadratic.
- A long vector is first cut to the few entries between two pivots, one by a sample and a tangent,
  in two passes that a processor does not have to branch in; Figure 2 has the rest. A pivot that
  turns out wrong costs another pass.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.rows import shown

__all__ = ["project_l1_ball", "project_simplex"]

SAMPLE = 4096
SPREAD = 4.0  # standard deviations that theta is hardly below a sample's
FEW = 0.01  # of so small a share all may be kept
WINDOW = 0.2  # how much of the tangent's step is kept above where it leads
BLOCK = np.uint64(64)
RANGE = 1e200  # beyond it a product of weights and values could overflow
LEAST_WEIGHT = 1e-100

ONE = np.uint64(1)
METHODS = ("sort", "linear")


def project_simplex(v: Any, z: float, method: str = "linear", seed: int = 0) -> Any:
    """The nearest point to v of {w >= 0, sum w = z}.

    Parameters
    ----------
    v
        A vector.
    z
        What the entries of the projection sum to.
    method
        "sort" (the paper's Figure 1) or "linear" (Figure 2, expected time linear in the length).
    seed
        Of the pivots of "linear"; the projection does not depend on it but for rounding.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> project_simplex([0.5, 1.5, -1.0], 1.0)
    array([0., 1., 0.])
    """
    v, z = _vector("v", v), _radius(z)
    _check_way(method, seed)
    if not len(v):
        raise ValueError("v has no entries, so that no point sums to z; give one at least")
    if z == 0.0:
        _refuse_stray("v", v)
        return np.zeros(len(v))
    return _projected(v, z, False, method, seed)


def project_l1_ball(
    v: Any, z: float, a: Any = None, *, method: str = "linear", seed: int = 0
) -> Any:
    """The nearest point to v of {w: sum |w| <= z}, or of {w: sum a_i |w_i| <= z}.

    Parameters
    ----------
    v
        A vector.
    z
        The radius.
    a
        None, or a weight from 0 for each entry; an entry of weight 0 stays as it is.
    method, seed
        As in `project_simplex`.

    Returns
    -------
    ndarray

    Examples
    --------
    >>> project_l1_ball([3.0, -2.0], 3.0)
    array([ 2., -1.])
    >>> project_l1_ball([3.0, -2.0], 3.0, a=[1.0, 0.0])
    array([ 3., -2.])
    """
    v, z = _vector("v", v), _radius(z)
    _check_way(method, seed)
    if a is not None:
        _refuse_stray("v", v)
        return _weighted(v, z, _weights(a, len(v)), method, seed)
    if z == 0.0 or not len(v):
        _refuse_stray("v", v)
        return np.zeros(len(v))
    return _projected(v, z, True, method, seed)


def _vector(name: str, v: Any) -> Any:
    if isinstance(v, np.ma.MaskedArray):
        raise ValueError(f"{name} is masked; give {name}.compressed() or {name}.filled(0.0)")
    try:
        given = np.asarray(v)
        real = given.dtype.kind in "biufO"  # numpy would make numbers of dates and strings, too
        if real:  # another kind than float64 would be compiled for anew
            given = np.require(given, np.float64, ["C", "A", "W"])
    except (TypeError, ValueError, OverflowError):  # a dict, rows of several lengths, 10**400
        raise ValueError(
            f"{name} is a {type(v).__name__} that is no vector of numbers; give a list or an array "
            "of floats"
        ) from None
    if not real:
        raise ValueError(f"{name} has values of type {given.dtype}; give real numbers")
    if given.ndim != 1:
        raise ValueError(f"{name} has {given.ndim} dimensions; give a vector")
    return given


def _refuse_stray(name: str, v: Any) -> None:
    stray = np.flatnonzero(~np.isfinite(v))
    if len(stray):
        raise ValueError(
            f"{name}[{stray[0]}] is {v[stray[0]]}; a projection takes finite numbers, leave it out"
        )


def _radius(z: Any) -> float:
    real = isinstance(z, numbers.Real) and not isinstance(z, np.timedelta64)
    try:
        radius = float(z) if real else math.nan
    except OverflowError:
        radius = math.inf
    if not 0.0 <= radius < math.inf:
        raise ValueError(f"z={shown(z)} is no radius; give a finite number from 0")
    return radius


def _check_way(method: Any, seed: Any) -> None:
    if not (isinstance(method, str) and method in METHODS):
        raise ValueError(f'method={shown(method)} is not known; give "sort" or "linear"')
    if not isinstance(seed, numbers.Integral):
        raise ValueError(f"seed={shown(seed)} is no whole number; give one")


def _weights(a: Any, n: int) -> Any:
    a = _vector("a", a)
    _refuse_stray("a", a)
    if len(a) != n:
        raise ValueError(f"a has {len(a)} weights beside {n} entries of v; give as many")
    most = a.max(initial=0.0)
    low = np.flatnonzero((a < 0.0) | ((a > 0.0) & (a < LEAST_WEIGHT * most)))
    if len(low):
        raise ValueError(
            f"a[{low[0]}]={a[low[0]]} is not a weight beside {most:g}; "
            "give 0, or from 1e-100 of the largest on"
        )
    return a


def _projected(v: Any, z: float, ball: bool, method: str, seed: int) -> Any:
    scale = _unit(z)
    w = np.empty(len(v))
    if method == "sort":
        _refuse_stray("v", v)
        r, theta = _by_sorting(np.abs(v) if ball else v, ball, z, scale)
    else:
        sample = np.empty(2 * max(int(BLOCK), min(len(v), SAMPLE)))
        r, theta = _by_pivots(v, ball, z, scale, _state(seed), w, sample)
    if theta == -math.inf or not _shrunk(v, ball, r, theta, scale, w):
        _refuse_stray("v", v)
        return v.copy()
    return w


def _unit(z: float) -> float:
    """A power of two that brings z to where sums neither overflow nor lose digits."""
    return 2.0**600 if z < 1e-150 else 2.0**-600 if z > 1e150 else 1.0


def _by_sorting(v: Any, ball: bool, z: float, scale: float) -> tuple[float, float]:
    """Figure 1; reference and theta as `_by_pivots` has them."""
    r = float(v.max())
    with np.errstate(over="ignore"):
        if ball and v.sum() <= z:
            return 0.0, -math.inf
        u = (v - r) * scale
    z *= scale
    mu = np.sort(u[u > -z])[::-1]  # no other is within z of the largest
    theta = (np.cumsum(mu) - z) / np.arange(1, len(mu) + 1)
    rho = int(np.flatnonzero(mu > theta)[-1])
    return r, float(theta[rho])


def _state(seed: int) -> Any:
    """The state to draw pivots from; never zero."""
    return np.uint64((int(seed) + 1) * 0x9E3779B97F4A7C15 % 2**64 | 1)


@kernel
def _shrunk(v: Any, ball: bool, r: float, theta: float, scale: float, w: Any) -> bool:
    """Eq. (6), with the sign of v for the ball, where no entry grows; whether v is finite."""
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
def _drawn(state: Any) -> Any:
    """The next state of a generator of pivots (Marsaglia's xorshift)."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    return state ^ (state << np.uint64(17))


@kernel
def _figure_2(U: Any, n: Any, z: float, s: float, rho: float, state: Any) -> tuple[float, Any]:
    """Theta of the first n entries of U and of rho others above them, which sum to s.

    U is moved about.
    """
    first, last = np.uint64(0), np.uint64(n)  # what is left of U
    while first < last:
        state = _drawn(state)
        pivot = U[first + (state >> np.uint64(11)) % (last - first)]
        # Three parts: above the pivot, equal to it, below.
        above, at, low = first, first, last
        ds = 0.0
        while at < low:
            x = U[at]
            if x > pivot:
                ds += x
                U[at] = U[above]
                U[above] = x
                above += ONE
                at += ONE
            elif x == pivot:
                at += ONE
            else:
                low -= ONE
                U[at] = U[low]
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
    v: Any, ball: bool, low: float, high: float, scale: float, kept: Any, part: Any
) -> tuple[Any, float, float]:
    """Keep what is above `low` and at most `high`; sum and number of what is above `high`.

    Blocks without anything to keep, most of them, are looked at without a branch.
    """
    n, k, rho = np.uint64(len(v)), np.uint64(0), np.int64(0)
    for j in range(BLOCK):
        part[j] = 0.0
    for first in range(np.uint64(0), n - n % BLOCK, BLOCK):
        inside = np.int64(0)
        for j in range(BLOCK):
            x = abs(v[first + j]) if ball else v[first + j]
            part[j] += max((x - high) * scale, 0.0)
            rho += np.int64(x > high)
            inside += np.int64(x > low) - np.int64(x > high)
        if inside > 0:
            for j in range(BLOCK):
                x = abs(v[first + j]) if ball else v[first + j]
                kept[k] = x
                k += np.uint64((x > low) & (x <= high))
    s = 0.0
    for j in range(BLOCK):
        s += part[j]
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
    """Theta as a sample has it, and what it is hardly below."""
    n, m = np.uint64(len(v)), np.uint64(len(sample) // 2)
    U, work = sample[:m], sample[m:]
    r = -math.inf
    for k in range(m):
        state = _drawn(state)
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
    """Two numbers, theta between them but for bad luck with the second.

    The sum of what is above a number is convex in it: its tangent at the guess meets z at theta or
    below, and hardly below.
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
def _tangent(at: float, excess: float, rho: float) -> tuple[float, float]:
    """Just below where the tangent leads, for all that rounding does, and some way above."""
    tangent = at + excess / rho
    step, error = abs(tangent - at), 1e-15 * abs(tangent)
    return tangent - 1e-6 * step - error, tangent + WINDOW * step + error


@kernel
def _by_pivots(
    v: Any, ball: bool, z: float, scale: float, state: Any, kept: Any, sample: Any
) -> tuple[float, float]:
    """Reference and theta: the projection is max(scale (v - r) - theta, 0) / scale.

    Theta is -inf where v is in the ball.
    """
    z *= scale
    least = 0.0 if ball else -math.inf
    low, high, sure, tries = least, math.inf, False, 0
    if len(v) > len(sample) // 2:
        low, high, state = _bracket(v, ball, z, scale, state, kept, sample)
        low = max(low, least)
        high = high if high > low else math.inf
    while True:
        n, s, rho = _sums(v, ball, low, high, scale, kept, sample)
        if s >= z:  # theta is above both
            tries += 1
            sure = tries > 3
            if sure:
                low, high = high, math.inf
            else:
                low, high = _tangent(high, (s - z) / scale, rho)
            continue
        r = high
        if rho == 0.0:
            if n == 0:  # all is at or below `low`
                r = low
            else:
                r = kept[0]
                for k in range(n):
                    r = max(r, kept[k])
        total = s + rho * ((r - low) * scale) if rho > 0.0 else 0.0
        for k in range(n):
            total += (kept[k] - low) * scale
        if sure or total >= z or low == -math.inf:
            break
        if low == least:
            return 0.0, -math.inf
        low, high = least, low  # theta is below both
    for k in range(n):
        kept[k] = (kept[k] - r) * scale
    theta, state = _figure_2(kept, n, z, s, rho, state)
    return r, theta


def _weighted(v: Any, z: float, a: Any, method: str, seed: int) -> Any:
    """The projection where entry i counts a_i times."""
    held = a > 0.0
    w = v.copy()
    if not held.any():
        return w
    size, weight = np.abs(v[held]), a[held]
    most = float(weight.max())
    z, weight = z / most, weight / most
    if size.max() > RANGE:
        raise ValueError(f"v has an entry of {size.max():g}, beyond 1e200 beside weights; scale it")
    if z == 0.0:
        w[held] = 0.0
        return w
    if np.vdot(weight, size) <= z:
        return w
    if method == "sort":
        theta = _weighted_by_sorting(size, weight, z)
    else:
        U = np.stack([size / weight, weight * size, weight * weight], axis=1)
        theta = _weighted_figure_2(U, z, _state(seed))
    shrunk = np.maximum(size - theta * weight, 0.0)
    total = float(np.vdot(weight, shrunk))
    if total > z:  # by rounding
        shrunk *= z / total
    w[held] = np.copysign(shrunk, v[held])
    return w


def _weighted_by_sorting(size: Any, weight: Any, z: float) -> float:
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
    """Figure 2 on rows of (|v| / a, a |v|, a^2), which are moved about."""
    first, last = np.uint64(0), np.uint64(len(U))
    s, rho = 0.0, 0.0
    while first < last:
        state = _drawn(state)
        pivot = U[first + (state >> np.uint64(11)) % (last - first), 0]
        above, at, low = first, first, last
        ds, drho, equal_s, equal_rho = 0.0, 0.0, 0.0, 0.0
        while at < low:
            if U[at, 0] > pivot:
                ds += U[at, 1]
                drho += U[at, 2]
                _swap(U, at, above)
                above += ONE
                at += ONE
            elif U[at, 0] == pivot:
                equal_s += U[at, 1]
                equal_rho += U[at, 2]
                at += ONE
            else:
                low -= ONE
                _swap(U, at, low)
        if (s + ds) - (rho + drho) * pivot < z:
            s += ds + equal_s
            rho += drho + equal_rho
            first = low
        else:
            last = above
    return (s - z) / rho
