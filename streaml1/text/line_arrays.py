"""The arguments of the kernels that parse lines, in groups.

Kernels and the functions inlined into them pass a group on as it is, at no cost.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaml1.core.types import Bytes, Floats, Hashes, Indptr, Ints, Values

__all__ = ["Features", "Lines", "RowArrays", "Scratch"]


class Lines(NamedTuple):
    """The lines that a kernel parses, and how."""

    start: Any
    """The address of the first line. All offsets count from it."""
    end: Any
    """The address after the last line; the byte before it is a newline."""
    names: Any
    """Names that are not in the text are written from this address on."""
    names_end: Any
    """The end of the memory for them."""
    powers: Any
    """`streaml1.text.numbers.POWERS`."""
    require_label: Any
    """Whether lines without a label are irregular. Otherwise their label is NaN."""
    utf8: Any
    """Whether the lines are valid UTF-8.

    With UTF8_UNKNOWN a kernel stops at the first batch with a non-ASCII byte and reports 0 lines;
    with UTF8_INVALID lines with such a byte are irregular.
    """


class RowArrays(NamedTuple):
    """What a kernel writes and rows keep, with space for all that the lines may hold."""

    hashes: Hashes
    """The hash of the name of each feature."""
    values: Values
    """The value of each feature. Features with value 0 are left out."""
    spans: Hashes
    """Where the name of each feature is, ``offset << 32 | length``."""
    y: Floats
    w: Floats
    """Label and sample weight of each row."""
    indptr: Indptr
    """Where the features of each row begin."""
    lines: Ints
    """The number of the line of each row, from 0."""
    begins: Ints
    ends: Ints
    """The first and last offset of this line."""


class Scratch(NamedTuple):
    """Scratch memory of a kernel.

    Rows do not refer to it, so a parser uses it for all chunks: fresh memory would cost a page
    fault for every 4 KiB that the kernel touches.
    """

    positions: NDArray[np.uint32]
    kinds: Bytes
    """The structural index, see `structural_index`."""
    value_spans: Hashes
    """Where the value of each feature is, see `feature_spans`."""
    irregular: Ints
    """Receives the rows of irregular lines."""


class Features(NamedTuple):
    """The arrays of features, for the functions that find and read them."""

    hashes: Any
    values: Any
    spans: Any
    value_spans: Any
