"""What is left of a u that owes a penalty of A, and the u of what steps: floats, or eight."""

from __future__ import annotations

from typing import Any

from streaml1.core.jit import inlined
from streaml1.core.simd import add, copysign, lane_max, lane_min, mul, neg, sub

__all__ = ["beyond", "stepped"]


@inlined
def beyond(u: Any, A: Any) -> Any:
    """The part of u outside of [-A, A]: sgn(u) [|u| - A]_+ without a look at the sign."""
    return sub(u, lane_min(lane_max(u, neg(A)), A))


@inlined
def stepped(w: Any, A: Any, step: Any, x: Any) -> Any:
    """The u of what was left, w, and goes by -step x."""
    v = sub(w, mul(step, x))
    return add(v, copysign(A, v))
