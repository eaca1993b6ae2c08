"""Words of eight features that stand one behind the other in a text."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.simd import can_permute, gather_u64, permute_u64
from streaml1.text.structural_index import place_of

__all__ = ["words_of_three"]

_EIGHT = np.uint64(8)


@inlined
def words_of_three(
    start: Any, places: Any, first: Any, fourth: Any, fifth: Any, last: Any, a: Any, b: Any, c: Any
) -> Any:  # fmt: skip
    """The words at three times eight addresses, in turn from one feature to the next.

    None of them begins more than eight bytes before its feature, or behind it.

    Parameters
    ----------
    first, fourth, fifth, last
        The delimiters before the first feature, behind the fourth, before the fifth and behind the
        last.
    a, b, c
        The addresses. What is made of some that nobody asks for costs nothing.
    """
    low, middle = start + place_of(places, first) - _EIGHT, start + place_of(places, fourth)
    high, end = start + place_of(places, fifth) - _EIGHT, start + place_of(places, last)
    if can_permute(low, middle, high, end):
        return permute_u64(low, high, a), permute_u64(low, high, b), permute_u64(low, high, c)
    return gather_u64(a), gather_u64(b), gather_u64(c)
