"""Dicts packed into the buffers of a kernel context: the fast path of the fallback.

Without dict kernels, Python hashes the names and converts the values (see `items`). Arrays made for
each example would cost more than all of that: numpy takes about a microsecond for each array, and
so does a kernel for each array that it is passed. Here one `struct.pack_into` writes all columns to
memory whose address the context holds, and a kernel gets numbers only. Its layout, for n features:

| 8-byte words | content |
|---|---|
| n | the values, 1.0 for a category |
| n | the hashes of the names; a kernel replaces them by those of the features |
| 1 | n if there are categories, else 0 |
| n or 0 | the hashes of the texts of categories, -1 for a number |

No cache of names is needed: Python keeps the hash of a string in the string, or computes it as fast
as a dict look-up would, and the kernel searches the hash table of the vocabulary. So there is
nothing to invalidate when slots are released, and no name is kept alive.

The buffers belong to the context: pack and call the kernel under the lock of the model.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, typed_kernel, u64
from streaml1.core.rows import PLAIN_TYPES
from streaml1.core.simd import array_at
from streaml1.features.dict_reader.context_fields import ENTRIES, IDS, MAX_FIELDS, N_ENTRIES, VALUES
from streaml1.features.dict_reader.cpython_objects import FALLBACK, MAX_COMPARED
from streaml1.features.dict_reader.items import find_all, find_known, without_zeros
from streaml1.features.vocabulary.probing import MISSING, NO_SLOT, lookup

__all__ = ["PackedNames", "intern_missing", "pack", "read_all", "read_known"]

_DICTS = frozenset({dict, OrderedDict})  # `iter` and `values` of these agree with `items`
_MAX_PACKED = int(MAX_COMPARED)


class PackedNames(NamedTuple):
    """The names of a packed dict, and the values as they were given, without zeros and None."""

    names: Sequence[str]
    given: Sequence[Any]


def pack(buffer: Any, x: Any) -> PackedNames | None:
    """Write a dict to the start of a buffer.

    Returns None unless `x` is a dict, its names are exact str, its values are exact numbers, exact
    str or None, and all of it fits. Values that a kernel must refuse are written: it refuses them.
    """
    if type(x) not in _DICTS:
        return None
    # Copies: another thread may change the dict between the checks and the use of its items.
    names: Sequence[Any] = [*x]
    given: Sequence[Any] = [*x.values()]
    if [*map(type, names)].count(str) != len(names) or len(names) != len(given):
        return None
    kinds = [*map(type, given)]
    values: Iterable[Any] = given
    texts: Sequence[int] = ()
    if kinds.count(str) == len(given):
        values, texts = repeat(1.0, len(given)), [*map(hash, given)]
    elif kinds.count(float) != len(given) or not all(given):
        if not PLAIN_TYPES.issuperset(kinds):
            return None
        names, given = without_zeros(tuple(names), tuple(given))
        values = given
        if str in kinds:
            values = [1.0 if type(v) is str else v for v in given]
            texts = [hash(v) if type(v) is str else -1 for v in given]
    n = len(names)
    if n > _MAX_PACKED or 24 * n + 8 > len(buffer) or (texts and "=" in "".join(names)):
        return None
    try:
        _packer(n, len(texts))(buffer, 0, *values, *map(hash, names), len(texts), *texts)
    except (OverflowError, struct.error):  # an int beyond the floats
        return None
    return PackedNames(names, given)


@cache
def _packer(n: int, n_texts: int) -> Callable[..., None]:
    return struct.Struct(f"={n}d{n}qq{n_texts}q").pack_into


@inlined
def _columns(context: Any, n: Any) -> tuple[Any, Any, Any, Any]:
    """Return hashes, texts, values and slots, which are not yet written, of n features."""
    start = context[VALUES]
    values = array_at(start, n, np.float64)
    hashes = array_at(start + u64(8) * n, n, np.uint64)
    texts_start = start + u64(16) * n
    n_texts = array_at(texts_start, 1, np.uint64)[0]
    texts = array_at(texts_start + u64(8), n_texts, np.uint64)
    return hashes, texts, values, array_at(context[IDS], n, np.uint32)


@inlined
def read_known(context: Any, n: Any) -> Any:
    """Find n packed features to predict, see `items.find_known`."""
    hashes, texts, values, slots = _columns(context, n)
    # Names of numbers may contain an equals sign: only those next to categories were searched.
    return find_known(context, hashes, texts, values, slots, len(texts) == 0)


@inlined
def read_all(context: Any, n: Any) -> Any:
    """Find n packed features to learn, see `items.find_all`."""
    hashes, texts, values, slots = _columns(context, n)
    return find_all(context, hashes, texts, values, slots, len(texts) == 0)


@typed_kernel("uint64", "uint64", "uint64")
def intern_missing(address: Any, n: Any, next_slot: Any) -> Any:
    """Enter the packed features for which `read_all` has found no slot into the hash table.

    Returns the slot after the last one given; FALLBACK, with some entered, if two features have the
    same hash. The caller has reserved the entries.
    """
    context = array_at(address, MAX_FIELDS, np.uint64)
    hashes, _, _, slots = _columns(context, n)
    entries = array_at(context[ENTRIES], context[N_ENTRIES], np.uint64)
    for k in range(n):
        if slots[k] == MISSING:
            pos = lookup(entries, hashes[k])
            if entries[pos + u64(1)] != NO_SLOT:
                return np.int64(FALLBACK)
            entries[pos] = hashes[k]
            entries[pos + u64(1)] = next_slot
            slots[k] = np.uint32(next_slot)
            next_slot += u64(1)
    # The hashes are those of features now: no texts are left to be mixed into them.
    array_at(context[VALUES] + u64(16) * n, 1, np.uint64)[0] = 0
    return np.int64(next_slot)
