"""Second pass over the features of a row: read their values and hash their names, eight at a time.

The first pass, in `vw.py`, `jsonl.py` or `csv.py`, finds features without reading them. It leaves

- in `value_spans` where the text of each value is (``offset << 32 | length``), or 0 if the value
  needs no reading;
- in `hashes` the placeholder `UNHASHED` for names that are not hashed yet.

Two passes let eight values or names share each SIMD instruction, whatever the lines look like.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, u64
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import (
    as_f64x8,
    clz,
    ctz,
    lane_mask_from,
    loadu_u64,
    loadu_u64x8,
    movemask,
    popcount,
    splat,
    splat_u64,
    store_f64x8,
    store_u64,
    store_u64x8,
    to_bits,
)
from streaml1.core.spans import LENGTH_MASK, OFFSET_BITS
from streaml1.text.byte_names import UNHASHED, murmur_at, murmur_x8
from streaml1.text.numbers import (
    parse_json_scalar,
    parse_number_long,
    parse_number_short,
    parse_numbers_x8,
)

__all__ = [
    "MAX_VALUE",
    "ValueFlags",
    "drop_zeros",
    "equal_hashes",
    "has_duplicate",
    "hash_pending_keys",
    "hash_pending_names",
    "read_pending_values",
    "read_value",
]

_HALF_BITS, _LOW_HALF = map(u64, (32, 2**32 - 1))
_ALL_ONES, _MAGNITUDE = map(u64, (2**64 - 1, 2**63 - 1))
_MIN_PROBES = u64(64)
_MAX_UNSURE = u64(4)  # of eight values; with more of them the scalar loop is faster

MAX_VALUE = 1e280
"""Values are smaller than this, so a sum of as many as fit in memory is finite."""


class ValueFlags(NamedTuple):
    """What is known of the values of a row after reading them."""

    valid: Any
    """Whether all of them are numbers below `MAX_VALUE`."""
    has_zero: Any
    """Whether any of them is zero."""
    has_large: Any
    """Whether any of them reaches the limit that models accept."""


@inlined
def read_value(start: Any, end: Any, powers: Any, strict: Any) -> Any:
    """Return the number that a text spells, or NaN; with `strict` by the grammar of JSON."""
    if strict:
        return parse_json_scalar(start, end, powers).value
    v = parse_number_short(start, end, powers)
    return v if v == v else parse_number_long(start, end, powers)


@inlined
def _scaled_value(start: Any, powers: Any, span: Any, scale: Any, strict: Any) -> Any:
    """Return the value at a span times `scale`; NaN if it is not a number or too large."""
    v = scale
    if span != u64(0):
        first = start + (span >> OFFSET_BITS)
        number = read_value(first, first + (span & LENGTH_MASK), powers, strict)
        v = number * scale if abs(number) < MAX_VALUE else np.nan
    return v if abs(v) < MAX_VALUE else np.nan


@inlined
def read_pending_values(
    start: Any, powers: Any, value_spans: Any, values: Any, lo: Any, hi: Any, unscaled: Any,
    strict: Any,
) -> Any:  # fmt: skip
    """Read the values of the features from lo to hi.

    Parameters
    ----------
    value_spans
        Where the text of each value is; 0 stands for the value 1.
    values
        Holds the factor of each value, and receives the products.
    unscaled
        Take all factors as 1 and do not look at `values`.
    strict
        Read numbers by the grammar of JSON.

    Returns
    -------
    ValueFlags
    """
    valid: Any = True
    has_zero: Any = False
    has_large: Any = False
    k = lo
    if unscaled and hi - lo >= u64(8):
        out, spans_at = np.uint64(values.ctypes.data), np.uint64(value_spans.ctypes.data)
        # Invariant: the values before `k` are read. The last block overlaps the one before it, so
        # that no scalar loop is needed for the rest.
        while True:
            spans = loadu_u64x8(spans_at + u64(8) * k)
            v, unsure = splat(1.0), u64(0)
            if movemask(spans):
                absent_mask = spans == u64(0)
                first = (spans >> OFFSET_BITS) + start
                read, wrong_mask = parse_numbers_x8(first, first + (spans & LENGTH_MASK), powers)
                unsure = movemask(wrong_mask & (absent_mask ^ _ALL_ONES))
                v = as_f64x8(
                    (to_bits(v) & absent_mask) | (to_bits(read) & (absent_mask ^ _ALL_ONES))
                )
            store_f64x8(out + u64(8) * k, v)
            has_zero |= movemask((to_bits(v) & _MAGNITUDE) == u64(0)) != u64(0)
            n_unsure = popcount(unsure)
            while unsure:
                j = k + ctz(unsure)
                unsure &= unsure - u64(1)
                x = _scaled_value(start, powers, value_spans[j], 1.0, strict)
                values[j] = x
                valid &= x == x
                has_zero |= x == 0.0
                has_large |= not abs(x) < VALUE_LIMIT
            k += u64(8)
            if k >= hi:
                return ValueFlags(valid, has_zero, has_large)
            if n_unsure > _MAX_UNSURE:
                break
            k = min(k, hi - u64(8))
    while k < hi:
        x = _scaled_value(start, powers, value_spans[k], 1.0 if unscaled else values[k], strict)
        values[k] = x
        valid &= x == x
        has_zero |= x == 0.0
        has_large |= not abs(x) < VALUE_LIMIT
        k += u64(1)
    return ValueFlags(valid, has_zero, has_large)


@inlined
def hash_pending_names(hashes: Any, spans: Any, start: Any, lo: Any, hi: Any) -> None:
    """Hash the names from lo to hi whose hash is `UNHASHED`."""
    k = lo
    if hi - lo >= u64(8):
        out, spans_at = np.uint64(hashes.ctypes.data), np.uint64(spans.ctypes.data)
        # Invariant: the names before `k` are hashed. The last block overlaps the one before it.
        while True:
            known = loadu_u64x8(out + u64(8) * k)
            pending_mask = known == UNHASHED
            if movemask(pending_mask):
                names = loadu_u64x8(spans_at + u64(8) * k)
                h = murmur_x8((names >> OFFSET_BITS) + start, names & LENGTH_MASK)
                store_u64x8(out + u64(8) * k, known | (h & pending_mask))
            if k + u64(8) >= hi:
                return
            k = min(k + u64(8), hi - u64(8))
    while k < hi:
        if hashes[k] == UNHASHED:
            name = start + (spans[k] >> OFFSET_BITS)
            hashes[k] = murmur_at(name, name + (spans[k] & LENGTH_MASK))
        k += u64(1)


@inlined
def hash_pending_keys(
    hashes: Any, spans: Any, value_spans: Any, start: Any, lo: Any, hi: Any, key_hashes: Any
) -> None:
    """Hash the JSON keys from lo to hi that are pending, then the names that are not their keys.

    The name of a feature is its key if its value is a number, and `key=value` if it is a string.
    Duplicate keys are detected by the hashes of the keys, so both hashes are needed.

    Parameters
    ----------
    hashes
        Where the hash of a key is pending: the span of the key. Receives the hash of the name.
    key_hashes
        The address of the hashes of the keys, the first being that of feature lo; `UNHASHED` where
        it is pending.
    """
    n = hi - lo
    names_at = np.uint64(hashes.ctypes.data) + u64(8) * lo
    value_spans_at = np.uint64(value_spans.ctypes.data) + u64(8) * lo
    j = u64(0)
    # Invariant: the keys before `j` are hashed. The last block overlaps the one before it; its
    # first keys are not pending any more.
    while n >= u64(8):
        key_spans = loadu_u64x8(names_at + u64(8) * j)
        known = loadu_u64x8(key_hashes + u64(8) * j)
        pending_mask = known == UNHASHED
        if movemask(pending_mask):
            span = key_spans & pending_mask
            h = murmur_x8((span >> OFFSET_BITS) + start, span & LENGTH_MASK) & pending_mask
            store_u64x8(key_hashes + u64(8) * j, known | h)
            number_mask = loadu_u64x8(value_spans_at + u64(8) * j) != u64(0)
            # Names of string values become UNHASHED; `hash_pending_names` completes them.
            store_u64x8(
                names_at + u64(8) * j, (h & number_mask) | (key_spans & (pending_mask ^ _ALL_ONES))
            )
        if j + u64(8) >= n:
            break
        j = min(j + u64(8), n - u64(8))
    if n < u64(8):
        for k in range(n):
            if loadu_u64(key_hashes + u64(8) * k) == UNHASHED:
                first = start + (hashes[lo + k] >> OFFSET_BITS)
                h = murmur_at(first, first + (hashes[lo + k] & LENGTH_MASK))
                store_u64(key_hashes + u64(8) * k, h)
                hashes[lo + k] = UNHASHED if value_spans[lo + k] == u64(0) else h
    hash_pending_names(hashes, spans, start, lo, hi)


@inlined
def has_duplicate(hashes_at: Any, n: Any, stamp: Any, seen: Any) -> bool:
    """Return whether two of the n hashes at an address are equal, or very many searches are long.

    The hashes of names can be chosen such that all searches begin at the same entry. Then True is
    returned before the searches take time in n squared.

    Parameters
    ----------
    seen
        A hash table with open addressing, zeros at first: a power of two of entries, at least 2 n.
        An entry is ``stamp << 32 | index``.
    stamp
        A different number for each call. Entries with another stamp count as empty, so the table is
        never cleared.
    """
    duplicate = False
    n_probes, max_probes = u64(0), u64(4) * n + _MIN_PROBES
    mask = min(np.uint64(len(seen) - 1), _ALL_ONES >> clz(u64(16) * n | u64(1)))
    for j in range(n):
        h = loadu_u64(hashes_at + u64(8) * j)
        slot = h & mask
        entry = seen[slot]
        while (entry >> _HALF_BITS) == stamp:
            duplicate |= loadu_u64(hashes_at + u64(8) * (entry & _LOW_HALF)) == h
            slot = (slot + u64(1)) & mask
            entry = seen[slot]
            n_probes += u64(1)
        if n_probes > max_probes:  # random hashes need less than n
            return True
        seen[slot] = stamp << _HALF_BITS | j
    return duplicate


@inlined
def equal_hashes(a: Any, b: Any, n: Any) -> bool:
    """Return whether n hashes at two addresses are equal; reads up to seven more of both."""
    difference = splat_u64(u64(0))
    j = u64(0)
    while j < n:
        lane_mask = lane_mask_from(min(n - j, u64(8))) ^ _ALL_ONES
        offset = u64(8) * j
        difference = difference | ((loadu_u64x8(a + offset) ^ loadu_u64x8(b + offset)) & lane_mask)
        j += u64(8)
    return bool(movemask(difference) == u64(0))


@inlined
def drop_zeros(hashes: Any, values: Any, spans: Any, lo: Any, hi: Any, set_aside: Any) -> Any:
    """Remove the features from lo to hi that are zero.

    With `set_aside`, their hashes are moved to the end of `hashes`, which must have room for them.

    Returns
    -------
    The new end of the features, and how many were removed.
    """
    last = np.uint64(len(hashes))
    k, n_zeros = lo, u64(0)
    # Invariant: the features from lo to k are the non-zero ones of those before j.
    for j in range(lo, hi):
        h, v, span = hashes[j], values[j], spans[j]
        if v == 0.0:
            n_zeros += u64(1)
            if set_aside:
                hashes[last - n_zeros] = h
        else:
            hashes[k], values[k], spans[k] = h, v, span
            k += u64(1)
    return k, n_zeros
