"""The names that features are crossed of, as kernels take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.hashing import name_hashes

__all__ = ["InteractionFactors", "factors_of", "encode_names"]

_HALF = np.uint64(32)


class InteractionFactors(NamedTuple):
    """What some features are crossed of.

    Attributes
    ----------
    places : ndarray
        Shape (n, 3), int32: the entries that are crossed; -1 for no third.
    ids : ndarray
        Of each entry its name, uint32: its place in all that follows.
    masks : ndarray
        Of a name the prefixes it belongs to, a bit each, uint64; 0 where it is not crossed. Parts
        are told by their first bits, and then by hash.
    hashes : ndarray
        Its stable hash, uint64.
    spans : ndarray
        Where in `letters` it stands, as of `streaml1.text.parsed_rows.NamedRows`.
    letters : ndarray
        The UTF-8 of the names, uint8.
    """

    places: Any
    ids: Any
    masks: Any
    hashes: Any
    spans: Any
    letters: Any


def encode_names(names: Sequence[Any]) -> tuple[Any, Any]:
    """Return the UTF-8 of some names and the span of each; empty for other than strings."""
    texts = [
        str.encode(name, "utf-8", "surrogatepass") if isinstance(name, str) else b""
        for name in names
    ]
    sizes = np.fromiter(map(len, texts), np.uint64, len(texts))
    spans = ((np.cumsum(sizes, dtype=np.uint64) - sizes) << _HALF) | sizes
    return np.frombuffer(bytearray(b"".join(texts)) + bytearray(1), np.uint8), spans


def factors_of(names: Sequence[Sequence[str]]) -> InteractionFactors:
    """Return the factors of some interactions, given by name in display order."""
    flat = [part for parts in names for part in parts]
    letters, spans = encode_names(flat)
    places = np.full((len(names), 3), -1, np.int32)
    masks = np.empty(len(flat), np.uint64)
    at = 0
    for k, parts in enumerate(names):
        for z in range(len(parts)):
            places[k, z], masks[at] = at, 1 << z
            at += 1
    ids = np.arange(len(flat), dtype=np.uint32)
    return InteractionFactors(places, ids, masks, name_hashes(flat), spans, letters)
