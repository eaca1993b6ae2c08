"""Crossed features: products of the features of two or three prefixes, found by mixed hashes.

`spec` says what belongs to what, and is the plain road in Python; `kernels` is the same compiled;
of many examples `marks` tells which features are crossed, and `rows` crosses them.
"""

from streaml1.features.interactions.crossed_rows import (
    Crossing,
    crossed_names,
    crossing_of,
    find_crossed,
    hashes_of,
    spread,
)
from streaml1.features.interactions.selection import Marked, marked, require_plain
from streaml1.features.interactions.spec import Cross, Crosses, checked_cross, crosses_of

__all__ = [
    "Cross",
    "Crosses",
    "Crossing",
    "Marked",
    "checked_cross",
    "crossed_names",
    "crosses_of",
    "crossing_of",
    "find_crossed",
    "hashes_of",
    "marked",
    "require_plain",
    "spread",
]
