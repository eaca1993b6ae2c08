"""What is left of a u that owes a penalty of A, and the u of what steps: floats, or eight."""

from __future__ import annotations

from typing import Any

from streaml1.core.jit import inlined
from streaml1.core.simd import greater, lesser, minus, negative, plus, signed, times

__all__ = ["beyond", "stepped"]


@inlined
def beyond(u: Any, A: Any) -> Any:
    """The part of u outside of [-A, A]: sgn(u) [|u| - A]_+ without a look at the sign."""
    return minus(u, lesser(greater(u, negative(A)), A))


@inlined
def stepped(w: Any, A: Any, step: Any, x: Any) -> Any:
    """The u of what was left, w, and goes by -step x."""
    v = minus(w, times(step, x))
    return plus(v, signed(A, v))
