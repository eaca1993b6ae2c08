"""Hashes of names that hold within this process, and the kernels that look them up.

- A string has Python's own hash, which depends on the process.
- An int has a bijective mix of itself and `SEED`: two ints never have the same hash.
- A category `key=value` given as `{key: value}` has an *alias*: a mix of the hashes of both.

All other names are *irregular* and have no hash here; a dict holds them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import repeat
from operator import contains
from typing import Any, NamedTuple, cast

import numpy as np

from streaml1.core.hashing import as_int64, int_hashes, mix64, mix64_int
from streaml1.core.jit import gil_kernel, inlined, typed_kernel, u64
from streaml1.core.simd import prefetch
from streaml1.core.types import Hashes, Ids, Slots
from streaml1.features.vocabulary.probing import NO_SLOT, home_line, lookup

__all__ = [
    "HASH",
    "SEED",
    "ProcessHashes",
    "count_with_equals",
    "intern",
    "alias",
    "alias_of",
    "find",
    "find_equals",
    "find_ints",
    "hashes_of",
    "put",
]

# Random for each process, as the hashes of strings are: input cannot be crafted to collide.
SEED = u64(hash("streaml1") & 2**64 - 1)
_KEY_FACTOR = 0x9E3779B97F4A7C15  # 2**64 / golden ratio, odd
_PREFETCH_DISTANCE = u64(32)  # in ints
HASH = 2**64 - 1  # mask of the bits of a hash that count; tests use fewer bits to force collisions


@inlined
def alias(a: Any, b: Any) -> Any:
    """Return the alias of a category from the hashes of its key and its value."""
    return mix64(a * np.uint64(_KEY_FACTOR) + b)


@typed_kernel("uint64[]", "uint64[]", "uint32[]")
def _find(entries: Any, hashes: Any, slots: Any) -> None:
    for k in range(np.uint64(len(hashes))):
        slots[k] = entries[lookup(entries, hashes[k]) + u64(1)]


@gil_kernel
def _find_ints(entries: Any, ids: Any, seed: Any, hash_mask: Any, slots: Any) -> None:
    n = np.uint64(len(ids))
    for k in range(n):
        if k + _PREFETCH_DISTANCE < n:
            ahead = mix64(np.uint64(ids[k + _PREFETCH_DISTANCE]) ^ seed) & hash_mask
            prefetch(entries, home_line(entries, ahead))
        h = mix64(np.uint64(ids[k]) ^ seed) & hash_mask
        slots[k] = entries[lookup(entries, h) + u64(1)]


@typed_kernel("uint64[]", "uint64[]", "uint32[]")
def put(entries: Any, hashes: Any, slots: Any) -> Any:
    """Add the hashes that are not in a table, each with its slot; return how many were added.

    A hash that is in the table keeps its slot.
    """
    added = 0
    for k in range(np.uint64(len(hashes))):
        pos = lookup(entries, hashes[k])
        if entries[pos + u64(1)] == NO_SLOT:
            entries[pos] = hashes[k]
            entries[pos + u64(1)] = slots[k]
            added += 1
    return added


@typed_kernel("uint64[]", "uint64[]", "uint32[]", "uint64")
def intern(entries: Any, hashes: Any, slots: Any, next_slot: Any) -> Any:
    """Write the slot of each hash to `slots`; a hash that is not in the table gets the next slot.

    Returns the slot after the last one given. The caller has reserved the entries.
    """
    # Invariant: the slots below `next_slot` are taken, those of hashes before k among them. A hash
    # that repeats within `hashes` finds the entry of its first occurrence.
    for k in range(np.uint64(len(hashes))):
        pos = lookup(entries, hashes[k])
        if entries[pos + u64(1)] == NO_SLOT:
            entries[pos] = hashes[k]
            entries[pos + u64(1)] = next_slot
            next_slot += u64(1)
        slots[k] = entries[pos + u64(1)]
    return next_slot


def find(entries: Hashes, hashes: Hashes) -> Ids:
    """Return the slots of hashes; `MISSING` for hashes that are not in the table."""
    slots = np.empty(len(hashes), np.uint32)
    _find(entries, hashes, slots)
    return slots


def find_ints(entries: Hashes, ids: Slots) -> Ids:
    """Return the slots of the ints in an array; `MISSING` for ints that are not in the table."""
    slots = np.empty(len(ids), np.uint32)
    _find_ints(entries, ids, SEED, np.uint64(HASH), slots)
    return slots


def count_with_equals(names: Sequence[Hashable]) -> int:
    """Return the number of names that are strings with an `=`."""
    kinds = set(map(type, names))
    if not any(issubclass(kind, str) for kind in kinds):
        return 0
    if kinds != {str}:
        names = [name for name in names if isinstance(name, str)]
    return sum(map(contains, cast("Sequence[str]", names), repeat("=")))


def _hash(text: str) -> int:
    """Return the hash of a string, also if a subclass overrides `__hash__`."""
    return str.__hash__(text) & 2**64 - 1


def _hash_of_int(j: int) -> int:
    """Return the hash of an int, taken modulo 2**64."""
    return mix64_int((j & 2**64 - 1) ^ int(SEED))


class ProcessHashes(NamedTuple):
    """Hashes of names, 0 for irregular ones, and the positions of these, ascending."""

    hashes: Hashes
    irregular: list[int]


def hashes_of(names: Sequence[Hashable]) -> ProcessHashes:
    """Return the hashes of strings and ints, and the positions of irregular names."""
    kinds = set(map(type, names))
    if kinds == {str}:
        found = np.fromiter(map(hash, names), np.int64, len(names)).view(np.uint64)
        return ProcessHashes(found & np.uint64(HASH), [])
    if kinds == {int}:
        try:
            ints = np.array(names, np.int64)
        except OverflowError:  # an int beyond 64 bits is irregular
            pass
        else:
            return ProcessHashes(int_hashes(ints ^ SEED.view(np.int64)) & np.uint64(HASH), [])
    hashes, irregular = [], []
    for k, name in enumerate(names):
        if isinstance(name, str):
            hashes.append(_hash(name) & HASH)
            continue
        whole = as_int64(name)
        if whole is None:
            irregular.append(k)
        hashes.append(0 if whole is None else _hash_of_int(whole) & HASH)
    return ProcessHashes(np.array(hashes, np.uint64), irregular)


def find_equals(entries: Hashes, name: Hashable) -> list[int]:
    """Return the slots of the string and of the int with the hash of an irregular name.

    A name of another type may equal a string or an int. Python guarantees that their hashes are
    equal, so the only candidates are these two; `MISSING` for a candidate that is not there.
    """
    h = hash(name)
    hashes = np.array([h & 2**64 - 1 & HASH, _hash_of_int(h) & HASH], np.uint64)
    slots: list[int] = find(entries, hashes).tolist()
    return slots


def alias_of(name: str) -> int | None:
    """Return the alias of a name, split at its first `=`; None if it has no `=`."""
    key, equals, value = str.partition(name, "=")
    if not equals:
        return None
    # Python integers instead of the compiled `alias`: loading a model must not import numba.
    mixed = _hash(key) * _KEY_FACTOR + _hash(value)
    return mix64_int(mixed & 2**64 - 1) & HASH
