"""What strings, ints and categories are known by in this process, and kernels that look for it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import repeat
from operator import contains
from typing import Any, cast

import numpy as np

from streaml1.core.hashing import as_int64, int_hashes, mix64, mix64_int
from streaml1.core.jit import gil_kernel, inlined, typed_kernel
from streaml1.core.simd import prefetch
from streaml1.features.vocabulary.probing import NO_SLOT, ONE, home_line, lookup

__all__ = [
    "HASH",
    "SEED",
    "intern",
    "alias",
    "alias_of",
    "find",
    "find_equals",
    "find_ints",
    "hashes_of",
    "put",
    "with_equals",
]

# Another in each process, as the hashes of strings are: nobody can choose ints to one end.
SEED = np.uint64(hash("streaml1") & 2**64 - 1)
_AHEAD = np.uint64(32)  # places of a table are asked for so many ints before
HASH = 2**64 - 1  # what of a hash is looked at; less in tests, so that names collide


@inlined
def alias(a: Any, b: Any) -> Any:
    """One hash of the hashes of a category's parts."""
    return mix64(a * np.uint64(0x9E3779B97F4A7C15) + b)


@typed_kernel("uint64[]", "uint64[]", "uint32[]")
def _find(entries: Any, hashes: Any, slots: Any) -> None:
    for k in range(np.uint64(len(hashes))):
        slots[k] = entries[lookup(entries, hashes[k]) + ONE]


@gil_kernel
def _find_ints(entries: Any, ids: Any, seed: Any, kept: Any, slots: Any) -> None:
    n = np.uint64(len(ids))
    for k in range(n):
        if k + _AHEAD < n:
            ahead = mix64(np.uint64(ids[k + _AHEAD]) ^ seed) & kept
            prefetch(entries, home_line(entries, ahead))
        h = mix64(np.uint64(ids[k]) ^ seed) & kept
        slots[k] = entries[lookup(entries, h) + ONE]


@typed_kernel("uint64[]", "uint64[]", "uint32[]")
def put(entries: Any, hashes: Any, slots: Any) -> Any:
    """Enter hashes that are not there yet; returns how many that were."""
    new = 0
    for k in range(np.uint64(len(hashes))):
        at = lookup(entries, hashes[k])
        if entries[at + ONE] == NO_SLOT:
            entries[at] = hashes[k]
            entries[at + ONE] = slots[k]
            new += 1
    return new


@typed_kernel("uint64[]", "uint64[]", "uint32[]", "uint64")
def intern(entries: Any, hashes: Any, slots: Any, next_slot: Any) -> Any:
    """Give each hash that is not there the next free slot; returns that after the last."""
    for k in range(np.uint64(len(hashes))):
        at = lookup(entries, hashes[k])
        if entries[at + ONE] == NO_SLOT:
            entries[at] = hashes[k]
            entries[at + ONE] = next_slot
            next_slot += ONE
        slots[k] = entries[at + ONE]
    return next_slot


def find(entries: Any, hashes: Any) -> Any:
    """Slots of hashes, uint32; `MISSING` for those that are not there."""
    slots = np.empty(len(hashes), np.uint32)
    _find(entries, hashes, slots)
    return slots


def find_ints(entries: Any, ids: Any) -> Any:
    """Find the slots of an array of ints."""
    slots = np.empty(len(ids), np.uint32)
    _find_ints(entries, ids, SEED, np.uint64(HASH), slots)
    return slots


def with_equals(names: Sequence[Hashable]) -> int:
    """How many of some names are strings with an `=`."""
    kinds = set(map(type, names))
    if not any(issubclass(kind, str) for kind in kinds):
        return 0
    if kinds != {str}:
        names = [name for name in names if isinstance(name, str)]
    return sum(map(contains, cast("Sequence[str]", names), repeat("=")))


def _hash(text: str) -> int:
    """Hash of a string, whatever a subclass makes of its own."""
    return str.__hash__(text) & 2**64 - 1


def _hash_of_int(j: int) -> int:
    return mix64_int((j & 2**64 - 1) ^ int(SEED))


def hashes_of(names: Sequence[Hashable]) -> tuple[Any, list[int]]:
    """Hashes of strings and ints, and the places of all other names."""
    kinds = set(map(type, names))
    if kinds == {str}:
        found = np.fromiter(map(hash, names), np.int64, len(names)).view(np.uint64)
        return found & np.uint64(HASH), []
    if kinds == {int}:
        try:
            ints = np.array(names, np.int64)
        except OverflowError:  # one of them is like other names
            pass
        else:
            return int_hashes(ints ^ SEED.view(np.int64)) & np.uint64(HASH), []
    hashes, irregular = [], []
    for k, name in enumerate(names):
        if isinstance(name, str):
            hashes.append(_hash(name) & HASH)
            continue
        whole = as_int64(name)
        if whole is None:
            irregular.append(k)
        hashes.append(0 if whole is None else _hash_of_int(whole) & HASH)
    return np.array(hashes, np.uint64), irregular


def find_equals(entries: Any, name: Hashable) -> list[int]:
    """Slots of the string and the int that have the hash of `name`, which is neither of them."""
    h = hash(name)
    hashes = np.array([h & 2**64 - 1 & HASH, _hash_of_int(h) & HASH], np.uint64)
    slots: list[int] = find(entries, hashes).tolist()
    return slots


def _parts(name: str) -> tuple[str, str] | None:
    before, equals, after = str.partition(name, "=")
    return (before, after) if equals else None


def alias_of(name: str) -> int | None:
    """Return the alias of a name; None unless it is that of a category."""
    parts = _parts(name)
    if parts is None:
        return None
    a, b = (np.uint64(_hash(part)) for part in parts)
    with np.errstate(over="ignore"):
        return int(alias(a, b)) & HASH
