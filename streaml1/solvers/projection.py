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

import numpy as np
from numpy.typing import ArrayLike

from streaml1.core.rows import shown, shown_type
from streaml1.core.types import Floats
from streaml1.solvers.projection_kernels import (
    BLOCK,
    SAMPLE,
    rng_state,
    soft_threshold,
    theta_by_pivots,
    weighted_theta_by_pivots,
)

__all__ = ["project_l1_ball", "project_simplex"]

MAX_VALUE = 1e200  # beyond it a product of weights and values could overflow
MIN_WEIGHT = 1e-100  # relative to the largest weight
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
            f"{name} must be a vector of numbers, got {shown_type(v)}; use a list or an array "
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
        r, theta = theta_by_pivots(v, ball, z, scale, rng_state(seed), w, sample)
    if theta == -math.inf or not soft_threshold(v, ball, r, theta, scale, w):
        _check_finite("v", v)
        return v.copy()
    return w


def _scale_of(z: float) -> float:
    """Return a power of two that scales z so that sums neither overflow nor lose digits."""
    return 2.0**600 if z < 1e-150 else 2.0**-600 if z > 1e150 else 1.0


def _theta_by_sorting(v: Floats, ball: bool, z: float, scale: float) -> tuple[float, float]:
    """Return the reference and theta by Figure 1; see `theta_by_pivots`."""
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
        theta = weighted_theta_by_pivots(U, z, rng_state(seed))
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
