"""Crossed features: products of two or three features, chosen by the prefixes of their names.

- `spec`: validates and describes the interactions of a model; crosses one example in Python.
- `kernels`: the same for one example inside compiled code.
- `selection`: finds the factors in a batch and bounds the number of crossed features.
- `crossed_rows`: computes the crossed features of a batch.
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
    CrossedFeature,
    Interactions,
    check_cross,
    interactions_of,
)

__all__ = [
    "CrossedFeature",
    "CrossedRows",
    "Interactions",
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
