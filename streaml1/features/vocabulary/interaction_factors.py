"""The factors of crossed features as arrays for kernels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streaml1.core.hashing import name_hashes
from streaml1.core.spans import spans_of_sizes
from streaml1.core.types import Bytes, Hashes, Ids

__all__ = ["InteractionFactors", "factors_of", "encode_names"]


class InteractionFactors(NamedTuple):
    """The factors of n crossed features.

    Feature c is the product of the CSR entries ``entries[c]``. The name of entry e has the index
    ``ids[e]`` in `masks`, `hashes` and `spans`.

    Attributes
    ----------
    entries : ndarray of int32, shape (n, 3)
        The positions of the crossed CSR entries; the third is -1 if there are two.
    ids : ndarray of uint32
        The index of the name of each entry.
    masks : ndarray of uint64
        Bit p is set if the name has the prefix p of the interactions; 0 if it is not crossed. The
        display order of factors is that of their lowest set bits, ties in the order of hashes.
    hashes : ndarray of uint64
        The stable hash of each name.
    spans : ndarray of uint64
        Where in `name_bytes` each name is: ``first byte << 32 | length``.
    name_bytes : ndarray of uint8
        Bytes that contain the names in UTF-8.
    """

    entries: NDArray[np.int32]
    ids: Ids
    masks: Hashes
    hashes: Hashes
    spans: Hashes
    name_bytes: Bytes


def encode_names(names: Sequence[Hashable]) -> tuple[Bytes, Hashes]:
    """Encode names in UTF-8.

    Returns
    -------
    name_bytes : ndarray of uint8
        The names, one after the other, and one byte more: the array is never empty.
    spans : ndarray of uint64, shape (len(names),)
        Where each name is: ``first byte << 32 | length``; the length is 0 unless it is a string.
    """
    texts = [
        str.encode(name, "utf-8", "surrogatepass") if isinstance(name, str) else b""
        for name in names
    ]
    sizes = np.fromiter(map(len, texts), np.uint64, len(texts))
    return np.frombuffer(bytearray(b"".join(texts)) + bytearray(1), np.uint8), spans_of_sizes(sizes)


def factors_of(names: Sequence[Sequence[str]]) -> InteractionFactors:
    """Return the factors of crossed features, given their names in display order."""
    flat = [name for factors in names for name in factors]
    name_bytes, spans = encode_names(flat)
    factor_entries = np.full((len(names), 3), -1, np.int32)
    masks = np.empty(len(flat), np.uint64)
    pos = 0
    for k, factors in enumerate(names):
        for z in range(len(factors)):
            factor_entries[k, z], masks[pos] = pos, 1 << z
            pos += 1
    ids = np.arange(len(flat), dtype=np.uint32)
    return InteractionFactors(factor_entries, ids, masks, name_hashes(flat), spans, name_bytes)
