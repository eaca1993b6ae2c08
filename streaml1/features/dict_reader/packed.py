"""Dicts of numbers packed into the buffers of a kernel context: the fast path of the fallback.

Without dict kernels, Python hashes the names and converts the values (see `items`). Arrays made for
each example would cost more than all of that: numpy takes about a microsecond for each array, and
so does a kernel for each array that it is passed. Here one `struct.pack_into` writes both columns
to memory whose address the context holds, and a kernel gets numbers only.

No cache of names is needed: Python keeps the hash of a string in the string, or computes it as fast
as a dict look-up would, and the kernel searches the hash table of the vocabulary. So there is
nothing to invalidate when slots are released, and no name is kept alive.

The buffers belong to the context: pack and call the kernel under the lock of the model.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from streaml1.core.jit import inlined, typed_kernel
from streaml1.core.rows import NUMBER_TYPES
from streaml1.core.simd import array_at
from streaml1.features.dict_reader.context_fields import ENTRIES, IDS, MAX_FIELDS, N_ENTRIES, VALUES
from streaml1.features.dict_reader.cpython_objects import FALLBACK, MAX_COMPARED
from streaml1.features.dict_reader.items import find_all, find_known, without_zeros
from streaml1.features.vocabulary.probing import MISSING, NO_SLOT, ONE, lookup

__all__ = ["intern_missing", "pack", "read_all", "read_known"]

_DICTS = frozenset({dict, OrderedDict})  # `iter` and `values` of these agree with `items`
_STR = {str}
_ABSENT_OR_NUMBERS = NUMBER_TYPES | {type(None)}
_MAX_PACKED = int(MAX_COMPARED)


def pack(buffer: Any, x: Any) -> Sequence[str] | None:
    """Write the values of a dict, then the hashes of its names, to the start of a buffer.

    Returns the names without those of zeros and None; or None unless `x` is a dict, its names are
    exact str, its values are exact numbers or None, and all of it fits. Values that a kernel must
    refuse are written: it refuses them.
    """
    if type(x) not in _DICTS:
        return None
    # Copies: another thread may change the dict between the checks and the use of its items.
    names: Sequence[Any] = [*x]
    given: Sequence[Any] = [*x.values()]
    n = len(names)
    kinds = [*map(type, names), *map(type, given)]
    # Both counts are n also if as many values are str as names are float: then packing fails.
    if kinds.count(str) != n or kinds.count(float) != n or not all(given):
        if {*map(type, names)} != _STR or not _ABSENT_OR_NUMBERS.issuperset(map(type, given)):
            return None
        names, given = without_zeros(tuple(names), tuple(given))
        n = len(names)
    if n > _MAX_PACKED or 16 * n > len(buffer):
        return None
    try:
        _packer(n)(buffer, 0, *given, *map(hash, names))
    except (OverflowError, struct.error):  # an int beyond the floats, a str
        return None
    return names


@cache
def _packer(n: int) -> Callable[..., None]:
    return struct.Struct(f"={n}d{n}q").pack_into


@inlined
def _columns(context: Any, n: Any) -> tuple[Any, Any, Any]:
    """Return the hashes, the values and the slots, which are not yet written, of n features."""
    values = array_at(context[VALUES], n, np.float64)
    hashes = array_at(context[VALUES] + np.uint64(8) * n, n, np.uint64)
    return hashes, values, array_at(context[IDS], n, np.uint32)


@inlined
def read_known(context: Any, n: Any) -> Any:
    """Find n packed features to predict, see `items.find_known`."""
    hashes, values, slots = _columns(context, n)
    return find_known(context, hashes, hashes[:0], values, slots, True)


@inlined
def read_all(context: Any, n: Any) -> Any:
    """Find n packed features to learn, see `items.find_all`."""
    hashes, values, slots = _columns(context, n)
    return find_all(context, hashes, hashes[:0], values, slots, True)


@typed_kernel("uint64", "uint64", "uint64")
def intern_missing(address: Any, n: Any, next_slot: Any) -> Any:
    """Enter the packed features for which `read_all` has found no slot into the hash table.

    Returns the slot after the last one given; FALLBACK, with some entered, if two features have the
    same hash. The caller has reserved the entries.
    """
    context = array_at(address, MAX_FIELDS, np.uint64)
    hashes, _, slots = _columns(context, n)
    entries = array_at(context[ENTRIES], context[N_ENTRIES], np.uint64)
    for k in range(n):
        if slots[k] == MISSING:
            pos = lookup(entries, hashes[k])
            if entries[pos + ONE] != NO_SLOT:
                return np.int64(FALLBACK)
            entries[pos] = hashes[k]
            entries[pos + ONE] = next_slot
            slots[k] = np.uint32(next_slot)
            next_slot += ONE
    return np.int64(next_slot)
