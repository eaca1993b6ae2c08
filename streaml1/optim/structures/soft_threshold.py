"""Soft-thresholding of a stored number u by the accumulated penalty A, for floats or f64x8.

Both directions avoid branches on the sign, which a processor could not predict.
"""

from __future__ import annotations

from typing import Any

from streaml1.core.jit import inlined
from streaml1.core.simd import add, copysign, lane_max, lane_min, mul, neg, sub

__all__ = ["clamped", "soft_threshold", "stepped"]


@inlined
def soft_threshold(u: Any, A: Any) -> Any:
    """Soft-threshold `u` by `A`: sgn(u) [|u| - A]_+.

    It subtracts from u its part inside of [-A, A].
    """
    return sub(u, lane_min(lane_max(u, neg(A)), A))


@inlined
def stepped(w: Any, A: Any, step: Any, x: Any) -> Any:
    """Return the u of the weight w - step x: the inverse of `soft_threshold`."""
    v = sub(w, mul(step, x))
    return add(v, copysign(A, v))


@inlined
def clamped(u: float, A: float) -> float:
    """Return a float clamped to [-A, A]: what `soft_threshold` subtracts from it."""
    lowest = -A
    inside = u if u > lowest else lowest
    return inside if inside < A else A
