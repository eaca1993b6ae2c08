"""A hash of names that is the same in every process and on every machine.

MurmurHash64A (Appleby 2008) of a string's UTF-8, splitmix64's mixing (Steele, Lea & Flood 2014) of
an int. Names that a dict takes for the same key have the same hash.
"""

from __future__ import annotations

import struct
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from streaml1.core.jit import COMPILED, gil_kernel, inlined

__all__ = [
    "MURMUR",
    "as_int",
    "int_hashes",
    "mixed",
    "mixed_of",
    "murmur",
    "name_hash",
    "name_hashes",
]

MURMUR = _M = 0xC6A4A7935BD1E995  # the constant of its name
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1, _MIX_2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = 2**64 - 1
OTHER_KINDS = 1  # the seed for names that are no strings


def as_int(name: Hashable) -> int | None:
    """The int below 2**63 that a dict would take for the same key as `name`, if there is one."""
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
def mixed(j: Any) -> Any:
    """Hash of an int, given as a uint64; no two have the same."""
    h = j + np.uint64(_GOLDEN)
    h = (h ^ (h >> np.uint64(30))) * np.uint64(_MIX_1)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(_MIX_2)
    return h ^ (h >> np.uint64(31))


@inlined
def murmur(data: Any, lo: Any, hi: Any) -> Any:
    """Hash of the bytes `data[lo:hi]`."""
    m, r = np.uint64(_M), np.uint64(47)
    lo, hi = np.uint64(lo), np.uint64(hi)
    h = (hi - lo) * m
    blocks = hi - (hi - lo) % np.uint64(8)
    for at in range(lo, blocks, np.uint64(8)):
        k = np.uint64(0)
        for i in range(np.uint64(8)):
            k |= np.uint64(data[at + i]) << (np.uint64(8) * i)
        k *= m
        k ^= k >> r
        h = (h ^ (k * m)) * m
    if blocks < hi:
        k = np.uint64(0)
        for i in range(hi - blocks):
            k |= np.uint64(data[blocks + i]) << (np.uint64(8) * i)
        h = (h ^ k) * m
    h = (h ^ (h >> r)) * m
    return h ^ (h >> r)


def _murmur_of(data: bytes, seed: int = 0) -> int:
    h = seed ^ len(data) * _M & _MASK
    whole = len(data) - len(data) % 8
    for at in range(0, whole, 8):
        k = int.from_bytes(data[at : at + 8], "little") * _M & _MASK
        h = (h ^ (k ^ k >> 47) * _M & _MASK) * _M & _MASK
    if whole < len(data):
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 47) * _M & _MASK
    return h ^ h >> 47


def mixed_of(j: int) -> int:
    """`mixed` of an int from 0, below 2**64."""
    h = j + _GOLDEN & _MASK
    h = (h ^ h >> 30) * _MIX_1 & _MASK
    h = (h ^ h >> 27) * _MIX_2 & _MASK
    return h ^ h >> 31


def name_hash(name: Hashable) -> int:
    """Hash of a name, from 0 to 2**64 - 1.

    Raises
    ------
    TypeError
        Where it is neither a string, a number, bytes, None nor a tuple of these.

    Examples
    --------
    >>> name_hash("site=news") == name_hash("site=" + "news")
    True
    >>> name_hash(1) == name_hash(1.0) == name_hash(True)
    True
    """
    if isinstance(name, str):
        return _murmur_of(str.encode(name, "utf-8", "surrogatepass"))
    whole = as_int(name)
    return mixed_of(whole) if whole is not None else _murmur_of(_bytes_of(name), OTHER_KINDS)


def _bytes_of(name: Hashable) -> bytes:
    if name is None:
        return b"none"
    if isinstance(name, bytes):
        return b"bytes " + name
    if isinstance(name, tuple):
        return b"tuple " + b"".join(struct.pack("<Q", name_hash(part)) for part in name)
    if isinstance(name, int) or hasattr(type(name), "__float__"):
        try:
            whole = int(name)  # type: ignore
            if whole == name:
                return b"int %d" % whole
        except (TypeError, ValueError, OverflowError):
            pass
        return b"float " + float(name).hex().encode()  # type: ignore
    raise TypeError(f"a {type(name).__name__} has no hash that is the same in every process")


@gil_kernel
def _mixed_all(ints: Any, hashes: Any) -> None:
    for k in range(np.uint64(len(ints))):
        hashes[k] = mixed(ints[k])


@gil_kernel
def _murmur_all(data: Any, ends: Any, hashes: Any) -> None:
    lo = np.uint64(0)
    for k in range(np.uint64(len(ends))):
        hashes[k] = murmur(data, lo, ends[k])
        lo = ends[k]


def int_hashes(ints: Any) -> Any:
    """Hashes of ints, an array of int64."""
    hashes = np.empty(len(ints), np.uint64)
    _mixed_all(ints.view(np.uint64), hashes)
    return hashes


def name_hashes(names: Sequence[Hashable]) -> Any:
    """Hashes of names, uint64; by `repr` where there is none of `name_hash`."""
    if all(type(name) is int and -(2**63) <= name < 2**63 for name in names):
        return int_hashes(np.array(names, np.int64))
    if not COMPILED or not all(isinstance(name, str) for name in names):
        return np.array([_hash_or_repr(name) for name in names], np.uint64)
    texts = [str.encode(name, "utf-8", "surrogatepass") for name in names]  # type: ignore
    hashes = np.empty(len(texts), np.uint64)
    ends = np.cumsum(np.fromiter(map(len, texts), np.uint64, len(texts)), dtype=np.uint64)
    _murmur_all(np.frombuffer(bytearray(b"".join(texts)), np.uint8), ends, hashes)
    return hashes


def _hash_or_repr(name: Hashable) -> int:
    try:
        return name_hash(name)
    except TypeError:
        return name_hash(repr(name))
