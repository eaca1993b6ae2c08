"""Spans: where a name is in some bytes, as one uint64, ``offset << 32 | length``.

    begin, length = span >> OFFSET_BITS, span & LENGTH_MASK

Kernels pass spans instead of text, and load, store and compare eight of them at a time.
"""

from __future__ import annotations

import numpy as np

from streaml1.core.jit import u64
from streaml1.core.types import Hashes, UInts

__all__ = ["LENGTH_MASK", "OFFSET_BITS", "spans_of_sizes"]

OFFSET_BITS, LENGTH_MASK = u64(32), u64(2**32 - 1)


def spans_of_sizes(sizes: UInts) -> Hashes:
    """Return the spans of names that follow one another, given their sizes in bytes."""
    return (np.cumsum(sizes, dtype=np.uint64) - sizes) << OFFSET_BITS | sizes
