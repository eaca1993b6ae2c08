"""Hashes of feature names that are the same in every process and on every machine.

Strings: MurmurHash64A of the UTF-8 encoding. Ints: the mixing function of splitmix64, a bijection
of 64-bit integers. Names that are equal as dict keys, such as 1, 1.0 and True, have the same hash.

Both functions are public and have no secret, so anyone who chooses names can choose their hashes.
Hash tables therefore take positions from `keyed_position`, which cannot be predicted.

References
----------
- Appleby (2008), *MurmurHash2, 64-bit version for x64* (MurmurHash64A).
- Steele, Lea & Flood (2014), *Fast splittable pseudorandom number generators* (splitmix64).
- Dietzfelbinger, Hagerup, Katajainen & Penttonen (1997), *A reliable randomized algorithm for the
  closest-pair problem* (the multiplication of `keyed_position`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from streaml1.core.jit import COMPILED, inlined, typed_kernel, u64
from streaml1.core.rows import shown_type
from streaml1.core.types import Bytes, Hashes, Ints

__all__ = [
    "MURMUR_MULTIPLIER",
    "PROCESS_KEY",
    "as_int64",
    "int_hashes",
    "keyed_position",
    "mix64",
    "mix64_int",
    "murmur64",
    "name_hash",
    "name_hashes",
    "utf8_hashes",
]

MURMUR_MULTIPLIER = 0xC6A4A7935BD1E995
_GOLDEN_GAMMA = 0x9E3779B97F4A7C15  # 2^64 / golden ratio
_MIX_1, _MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = 2**64 - 1
_OTHER_SEED = 1  # for names that are neither strings nor ints

PROCESS_KEY = u64(int.from_bytes(os.urandom(8), "little") | 1)
"""The key of `keyed_position`: odd, and random for each process.

Pass it to kernels as an argument or in an array. A kernel that refers to it as a global constant
would keep the key of the process that compiled it.
"""


def as_int64(name: Hashable) -> int | None:
    """Return the int in [-2**63, 2**63) that is equal to `name` as a dict key, or None."""
    whole: int
    if isinstance(name, complex) and not name.imag:
        name = name.real
    if isinstance(name, int):
        whole = int(name)
    else:
        try:
            whole = int(name)  # type: ignore
        except (TypeError, ValueError, OverflowError):
            return None
        if isinstance(name, str | bytes | bytearray) or whole != name:
            return None
    return whole if -(2**63) <= whole < 2**63 else None


@inlined
def mix64(j: Any) -> Any:
    """Return the hash of an int given as a uint64; a bijection."""
    h = j + u64(_GOLDEN_GAMMA)
    h = (h ^ (h >> u64(30))) * u64(_MIX_1)
    h = (h ^ (h >> u64(27))) * u64(_MIX_2)
    return h ^ (h >> u64(31))


@inlined
def keyed_position(h: Any, key: Any, size: Any) -> Any:
    """Return the position of a hash in a hash table: the top bits of the product with a key.

    Without the key no hashes with the same position can be chosen: for two different hashes, at
    most a fraction 2 / size of all odd keys gives both the same position. A mask of the low bits
    of the product would not do, since hashes that differ in their top bits only keep them.

    Parameters
    ----------
    h
        The hash.
    key
        An odd uint64, such as `PROCESS_KEY`.
    size
        The number of positions, a power of two up to 2**32.
    """
    # The low half of the product is dropped first, so that the second one has 64 bits.
    return ((h * key) >> u64(32)) * size >> u64(32)


@inlined
def murmur64(data: Any, lo: Any, hi: Any) -> Any:
    """Return the hash of the bytes `data[lo:hi]`, with seed 0."""
    m, r = u64(MURMUR_MULTIPLIER), u64(47)
    lo, hi = u64(lo), u64(hi)
    h = (hi - lo) * m
    blocks = hi - (hi - lo) % u64(8)
    for block in range(lo, blocks, u64(8)):
        k = u64(0)
        for i in range(u64(8)):
            k |= u64(data[block + i]) << (u64(8) * i)
        k *= m
        k ^= k >> r
        h = (h ^ (k * m)) * m
    if blocks < hi:
        k = u64(0)
        for i in range(hi - blocks):
            k |= u64(data[blocks + i]) << (u64(8) * i)
        h = (h ^ k) * m
    h = (h ^ (h >> r)) * m
    return h ^ (h >> r)


def _murmur64_bytes(data: bytes, seed: int = 0) -> int:
    """Return what `murmur64` returns, in Python."""
    h = seed ^ len(data) * MURMUR_MULTIPLIER & _MASK
    whole = len(data) - len(data) % 8
    for block in range(0, whole, 8):
        k = int.from_bytes(data[block : block + 8], "little") * MURMUR_MULTIPLIER & _MASK
        h = (h ^ (k ^ k >> 47) * MURMUR_MULTIPLIER & _MASK) * MURMUR_MULTIPLIER & _MASK
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * MURMUR_MULTIPLIER & _MASK
    h = (h ^ h >> 47) * MURMUR_MULTIPLIER & _MASK
    return h ^ h >> 47


def mix64_int(j: int) -> int:
    """Return what `mix64` returns, in Python, for 0 <= j < 2**64."""
    h = j + _GOLDEN_GAMMA & _MASK
    h = (h ^ h >> 30) * _MIX_1 & _MASK
    h = (h ^ h >> 27) * _MIX_2 & _MASK
    return h ^ h >> 31


def name_hash(name: Hashable) -> int:
    """Return the hash of a feature name.

    Parameters
    ----------
    name
        A string, a number, bytes, None or a tuple of these.

    Returns
    -------
    An int in [0, 2**64).

    Raises
    ------
    TypeError
        If the name has another type, whose hash may differ between processes.

    Examples
    --------
    >>> name_hash("site=news") == name_hash("site=" + "news")
    True
    >>> name_hash(1) == name_hash(1.0) == name_hash(True)
    True
    """
    if isinstance(name, str):
        return _murmur64_bytes(str.encode(name, "utf-8", "surrogatepass"))
    whole = as_int64(name)
    if whole is not None:
        return mix64_int(whole)
    return _murmur64_bytes(_canonical_bytes(name), _OTHER_SEED)


def _canonical_bytes(name: Hashable) -> bytes:
    if name is None:
        return b"none"
    if isinstance(name, bytes):
        return b"bytes " + name
    if isinstance(name, tuple):
        return b"tuple " + b"".join(struct.pack("<Q", name_hash(item)) for item in name)
    if isinstance(name, int) or hasattr(type(name), "__float__"):
        try:
            whole = int(name)  # type: ignore
            if whole == name:
                return b"int %d" % whole
        except (TypeError, ValueError, OverflowError):
            pass
        return b"float " + float(name).hex().encode()  # type: ignore
    raise TypeError(
        f"feature names must be strings, numbers, bytes, None or tuples of these to be hashed, "
        f"got {shown_type(name)}"
    )


@typed_kernel("uint64[]", "uint64[]")
def _mix64_all(ints: Any, hashes: Any) -> None:
    for k in range(u64(len(ints))):
        hashes[k] = mix64(ints[k])


@typed_kernel("uint8[]", "uint64[]", "uint64[]")
def _murmur64_all(data: Any, ends: Any, hashes: Any) -> None:
    lo = u64(0)
    for k in range(u64(len(ends))):
        hashes[k] = murmur64(data, lo, ends[k])
        lo = ends[k]


def int_hashes(ints: Ints) -> Hashes:
    """Return the hashes of an array of ints."""
    hashes = np.empty(len(ints), np.uint64)
    _mix64_all(ints.view(np.uint64), hashes)
    return hashes


def name_hashes(names: Sequence[Hashable]) -> Hashes:
    """Return the hashes of names; those that `name_hash` rejects are hashed by their `repr`."""
    if all(type(name) is int and -(2**63) <= name < 2**63 for name in names):
        return int_hashes(np.array(names, np.int64))
    if not COMPILED or not all(isinstance(name, str) for name in names):
        return np.array([_hash_or_repr(name) for name in names], np.uint64)
    texts = [str.encode(name, "utf-8", "surrogatepass") for name in names]  # type: ignore
    ends = np.cumsum(np.fromiter(map(len, texts), np.uint64, len(texts)), dtype=np.uint64)
    return utf8_hashes(np.frombuffer(bytearray(b"".join(texts)), np.uint8), ends)


def utf8_hashes(text: Bytes, ends: Hashes) -> Hashes:
    """Return the hashes of names in UTF-8, given where each ends in `text`; the first begins at 0.

    Both arrays must be writable, as kernels are compiled for.
    """
    hashes = np.empty(len(ends), np.uint64)
    _murmur64_all(text, ends, hashes)
    return hashes


def _hash_or_repr(name: Hashable) -> int:
    try:
        return name_hash(name)
    except TypeError:
        return name_hash(repr(name))
