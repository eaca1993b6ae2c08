"""Crossed features: products of the features of two or three prefixes, found by mixed hashes.

`spec` says what belongs to what, and is the plain road in Python; `kernels` is the same compiled;
`rows` crosses many examples at once.
"""

from streaml1.crosses.rows import (
    Crossing,
    Marked,
    crossing_of,
    find_crossed,
    hashes_of,
    marked,
    paired,
    require_plain,
    spread,
)
from streaml1.crosses.spec import Cross, Crosses, checked_cross

__all__ = [
    "Cross",
    "Crosses",
    "Crossing",
    "Marked",
    "checked_cross",
    "crossing_of",
    "find_crossed",
    "hashes_of",
    "marked",
    "paired",
    "require_plain",
    "spread",
]
