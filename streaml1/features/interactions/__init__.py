"""Crossed features: products of the features of two or three prefixes, found by mixed hashes.

`spec` says what belongs to what, and is the plain road in Python; `kernels` is the same compiled;
of many examples `marks` tells which features are crossed, and `rows` crosses them.
"""

from streaml1.features.interactions.crossed_rows import (
    CrossedRows,
    append_crossed,
    cross_rows,
    crossed_names,
    find_crossed,
    hashes_of,
)
from streaml1.features.interactions.selection import Selection, require_plain, select_factors
from streaml1.features.interactions.spec import (
    Interaction,
    Interactions,
    check_cross,
    interactions_of,
)

__all__ = [
    "Interaction",
    "Interactions",
    "CrossedRows",
    "Selection",
    "check_cross",
    "crossed_names",
    "interactions_of",
    "cross_rows",
    "find_crossed",
    "hashes_of",
    "select_factors",
    "require_plain",
    "append_crossed",
]
