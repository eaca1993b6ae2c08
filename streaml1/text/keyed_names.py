"""Hashes of names from text that hold within this process and cannot be foreseen.

The stable hash of a name has no secret: whoever chooses names can choose two with the same 64 bits.
Its *keyed hash* is the stable one combined with a fingerprint of its bytes, which depends on keys
that are random for each process. Names with the same stable hash are distinguished by it.

The fingerprint takes words of eight bytes one after the other, the last one padded with zeros::

    f = (f ^ word) * key_1
    f = (f ^ (f >> 32)) * key_2

Each step is a bijection of f, so that names of the same length that differ in one word always
differ. After a difference in an earlier word, f differs by an amount that depends on the keys, so
that no later word can be chosen to cancel it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from streaml1.core.hashing import utf8_hashes
from streaml1.core.jit import COMPILED, inlined, kernel, typed_kernel, u64
from streaml1.core.simd import (
    gather_u64,
    loadu_u64,
    loadu_u64x8,
    movemask,
    splat_u64,
    store_u64x8,
)
from streaml1.core.spans import LENGTH_MASK, OFFSET_BITS
from streaml1.core.types import Bytes, Hashes

__all__ = ["NAME_KEYS", "fingerprint_at", "keyed_hashes", "keyed_hashes_between", "keyed_hashes_of"]

NAME_KEYS: Hashes = np.frombuffer(os.urandom(24), np.uint64) | u64(1)
"""Start and keys of fingerprints, random for each process."""

_HALF_BITS = u64(32)
_SHIFT_MASK, _ALL_ONES = map(u64, (63, 2**64 - 1))


@inlined
def _mixed(f: Any, word: Any, keys: Any) -> Any:
    f = (f ^ word) * keys[1]
    return (f ^ (f >> _HALF_BITS)) * keys[2]


@inlined
def _fingerprint_bytewise(text: Any, begin: Any, end: Any, keys: Any) -> Any:
    """Return the fingerprint of `text[begin:end]`; reads nothing else, and runs interpreted."""
    f = keys[0]
    while begin < end:
        word = u64(0)
        for i in range(begin, min(end, begin + u64(8))):
            word |= np.uint64(text[i]) << (u64(8) * (i - begin))
        f = _mixed(f, word, keys)
        begin += u64(8)
    return f


@inlined
def fingerprint_at(start: Any, end: Any, keys: Any) -> Any:
    """Return the fingerprint of the bytes between two addresses; reads up to seven more."""
    f = keys[0]
    while end - start > u64(8):
        f = _mixed(f, loadu_u64(start), keys)
        start += u64(8)
    if start < end:
        f = _mixed(f, loadu_u64(start) & (_ALL_ONES >> (u64(8) * (u64(8) - (end - start)))), keys)
    return f


@inlined
def _fingerprint_x8(start: Any, size: Any, keys: Any) -> Any:
    """Return the fingerprints of eight names, given addresses and sizes."""
    f = splat_u64(keys[0])
    # Invariant: `f` covers all bytes before `start`, and `size` counts those from there on.
    while movemask(size > u64(8)):
        unfinished = size > u64(8)
        step = _mixed(f, gather_u64(start), keys)
        f = (step & unfinished) | (f & (unfinished ^ _ALL_ONES))
        start = start + (unfinished & u64(8))
        size = size - (unfinished & u64(8))
    word = gather_u64(start) & (_ALL_ONES >> (((u64(8) - size) * u64(8)) & _SHIFT_MASK))
    nonempty = size != u64(0)
    return (_mixed(f, word, keys) & nonempty) | (f & (nonempty ^ _ALL_ONES))


@kernel
def _keyed(hashes: Any, text: Any, spans: Any, keys: Any, out: Any) -> None:
    start, n = np.uint64(text.ctypes.data), np.uint64(len(hashes))
    last_end = max(np.uint64(len(text)), u64(8)) - u64(8)
    hashes_at, spans_at = np.uint64(hashes.ctypes.data), np.uint64(spans.ctypes.data)
    out_at = np.uint64(out.ctypes.data)
    k = u64(0)
    # Invariant: out[:k] is complete. The last block overlaps the one before it.
    while k < n and n >= u64(8):
        k = min(k, n - u64(8))
        span = loadu_u64x8(spans_at + u64(8) * k)
        begin, size = span >> OFFSET_BITS, span & LENGTH_MASK
        if movemask(begin + size > last_end):  # a load would leave `text`
            for j in range(k, k + u64(8)):
                lo = spans[j] >> OFFSET_BITS
                hi = lo + (spans[j] & LENGTH_MASK)
                out[j] = hashes[j] ^ _fingerprint_bytewise(text, lo, hi, keys)
        else:
            f = _fingerprint_x8(begin + start, size, keys)
            store_u64x8(out_at + u64(8) * k, f ^ loadu_u64x8(hashes_at + u64(8) * k))
        k += u64(8)
    for j in range(k, n):
        lo = spans[j] >> OFFSET_BITS
        hi = lo + (spans[j] & LENGTH_MASK)
        out[j] = hashes[j] ^ _fingerprint_bytewise(text, lo, hi, keys)


@typed_kernel("uint64[]", "uint8[]", "uint64[]", "uint64[]", "uint64[]", nogil=True)
def _keyed_between(hashes: Any, text: Any, ends: Any, keys: Any, out: Any) -> None:
    for k in range(np.uint64(len(hashes))):
        f = _fingerprint_bytewise(text, ends[k], ends[k + u64(1)], keys)
        out[k] = hashes[k] ^ f


def keyed_hashes(hashes: Hashes, text: Bytes, spans: Hashes) -> Hashes:
    """Return the keyed hashes of names.

    Parameters
    ----------
    hashes
        The stable hashes of the names.
    text, spans
        The bytes of the names, as `names` and `spans` of `streaml1.text.parsed_rows.NamedRows`.
    """
    out = np.empty(len(hashes), np.uint64)
    if COMPILED:
        _keyed(hashes, text, spans, NAME_KEYS, out)
    else:
        for k, span in enumerate(spans.tolist()):
            name = text[span >> 32 : (span >> 32) + (span & 2**32 - 1)]
            ends = np.array([0, len(name)], np.uint64)
            _keyed_between(hashes[k : k + 1], name, ends, NAME_KEYS, out[k : k + 1])
    return out


def keyed_hashes_between(hashes: Hashes, text: Bytes, ends: Hashes) -> Hashes:
    """Return the keyed hashes of names as `keyed_hashes` does, given where each ends in `text`.

    Name k is ``text[ends[k]:ends[k + 1]]``.
    """
    out = np.empty(len(hashes), np.uint64)
    _keyed_between(hashes, text, ends, NAME_KEYS, out)
    return out


def keyed_hashes_of(names: Sequence[Any]) -> Hashes:
    """Return the keyed hashes of strings."""
    texts = [str.encode(name, "utf-8", "surrogatepass") for name in names]
    ends = np.zeros(len(texts) + 1, np.uint64)
    np.cumsum(np.fromiter(map(len, texts), np.uint64, len(texts)), out=ends[1:])
    text = np.frombuffer(bytearray(b"".join(texts)), np.uint8)
    return keyed_hashes_between(utf8_hashes(text, ends[1:]), text, ends)
