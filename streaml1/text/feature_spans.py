"""Features of a row, once it is known where they stand: values are read, names hashed, by eights.

A loop that looks for features writes down where the value of each is, in `numbers`: its first byte
times 2**32, and its length; 0 where the value is at hand. LATER stands for a hash.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined
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
from streaml1.text.byte_names import LATER, murmur_at, murmur_of_eight
from streaml1.text.json_scalars import plain_value
from streaml1.text.numbers import eight_values, long_value, value

__all__ = [
    "MOST",
    "are_same",
    "comes_twice",
    "hash_keys_left",
    "hash_those_left",
    "read_those_left",
    "read_value",
    "without_zeros",
]

_ZERO, _ONE, _FOUR, _EIGHT, _SIXTEEN, _HALF = map(np.uint64, (0, 1, 4, 8, 16, 32))
_LOW, _ALL, _MAGNITUDE = map(np.uint64, (2**32 - 1, 2**64 - 1, 2**63 - 1))
MOST = 1e280
"""Values are below: a sum of so many as there may be is finite."""


@inlined
def read_value(start: Any, end: Any, table: Any, strict: Any) -> Any:
    """The number that a text writes, or NaN; `strict` where it has to be one of JSON."""
    if strict:
        return plain_value(start, end, table)[1]
    v = value(start, end, table)
    return v if v == v else long_value(start, end, table)


@inlined
def _read(start: Any, table: Any, where: Any, scale: Any, strict: Any) -> Any:
    """The value that stands somewhere, times a scale; NaN where it is none, or too large."""
    v = scale
    if where != _ZERO:
        at = start + (where >> _HALF)
        read = read_value(at, at + (where & _LOW), table, strict)
        v = read * scale if abs(read) < MOST else np.nan
    return v if abs(v) < MOST else np.nan


@inlined
def read_those_left(
    start: Any, table: Any, numbers: Any, values: Any, lo: Any, hi: Any, plain: Any, strict: Any
) -> Any:
    """Read the values of the features from lo to hi, and multiply by what stands in their places.

    `plain` tells that ones are to stand there, whether they do or not.

    Returns
    -------
    Whether all is well, whether one is zero, and whether one is as large as the limit.
    """
    good: Any = True
    zeros: Any = False
    large: Any = False
    k = lo
    if plain and hi - lo >= _EIGHT:
        to, places = np.uint64(values.ctypes.data), np.uint64(numbers.ctypes.data)
        while True:
            spans = loadu_u64x8(places + _EIGHT * k)
            v, unsure = splat(1.0), _ZERO
            if movemask(spans):
                absent = spans == _ZERO
                at = (spans >> _HALF) + start
                found, wrong = eight_values(at, at + (spans & _LOW), table)
                unsure = movemask(wrong & (absent ^ _ALL))
                v = as_f64x8((to_bits(v) & absent) | (to_bits(found) & (absent ^ _ALL)))
            store_f64x8(to + _EIGHT * k, v)
            zeros |= movemask((to_bits(v) & _MAGNITUDE) == _ZERO) != _ZERO
            n_unsure = popcount(unsure)
            while unsure:
                j = k + ctz(unsure)
                unsure &= unsure - _ONE
                one = _read(start, table, numbers[j], 1.0, strict)
                values[j] = one
                good &= one == one
                zeros |= one == 0.0
                large |= not abs(one) < VALUE_LIMIT
            k += _EIGHT
            if k >= hi:
                return good, zeros, large
            if n_unsure > _FOUR:  # such are better read one by one
                break
            k = min(k, hi - _EIGHT)
    while k < hi:
        one = _read(start, table, numbers[k], 1.0 if plain else values[k], strict)
        values[k] = one
        good &= one == one
        zeros |= one == 0.0
        large |= not abs(one) < VALUE_LIMIT
        k += _ONE
    return good, zeros, large


@inlined
def hash_those_left(hashes: Any, spans: Any, start: Any, lo: Any, hi: Any) -> None:
    """Hash the names from lo to hi that were left for later."""
    k = lo
    if hi - lo >= _EIGHT:
        to, places = np.uint64(hashes.ctypes.data), np.uint64(spans.ctypes.data)
        while True:
            known = loadu_u64x8(to + _EIGHT * k)
            left = known == LATER
            if movemask(left):
                names = loadu_u64x8(places + _EIGHT * k)
                h = murmur_of_eight((names >> _HALF) + start, names & _LOW)
                store_u64x8(to + _EIGHT * k, known | (h & left))
            if k + _EIGHT >= hi:
                return
            k = min(k + _EIGHT, hi - _EIGHT)
    while k < hi:
        if hashes[k] == LATER:
            name = start + (spans[k] >> _HALF)
            hashes[k] = murmur_at(name, name + (spans[k] & _LOW))
        k += _ONE


@inlined
def comes_twice(keys: Any, n: Any, mark: Any, met: Any) -> bool:
    """Whether one of the n hashes at an address comes twice.

    `met` is zeros at first, a power of two of them and at least 2 n; each call has another `mark`.
    """
    same = False
    mask = min(np.uint64(len(met) - 1), _ALL >> clz(_SIXTEEN * n | _ONE))
    for j in range(n):
        h = loadu_u64(keys + _EIGHT * j)
        place = h & mask
        other = met[place]
        while (other >> _HALF) == mark:
            same |= loadu_u64(keys + _EIGHT * (other & _LOW)) == h
            place = (place + _ONE) & mask
            other = met[place]
        met[place] = mark << _HALF | j
    return same


@inlined
def are_same(keys: Any, others: Any, n: Any) -> bool:
    """Whether n hashes at an address are those at another; up to seven words more are read."""
    different = splat_u64(_ZERO)
    j = _ZERO
    while j < n:
        left = lane_mask_from(min(n - j, _EIGHT)) ^ _ALL
        at = _EIGHT * j
        different = different | ((loadu_u64x8(keys + at) ^ loadu_u64x8(others + at)) & left)
        j += _EIGHT
    return bool(movemask(different) == _ZERO)


@inlined
def hash_keys_left(
    hashes: Any, spans: Any, numbers: Any, start: Any, lo: Any, hi: Any, keys: Any
) -> None:  # fmt: skip
    """Hash the names from lo to hi whose keys are left for later, in place of where those are told.

    A name is the key where there is a number; else it is another, made of key and text. At the
    address `keys` are the hashes of the keys of all names, and LATER.
    """
    n = hi - lo
    of = np.uint64(hashes.ctypes.data) + _EIGHT * lo
    of_numbers = np.uint64(numbers.ctypes.data) + _EIGHT * lo
    j = _ZERO
    while n >= _EIGHT:
        there, known = loadu_u64x8(of + _EIGHT * j), loadu_u64x8(keys + _EIGHT * j)
        left = known == LATER
        if movemask(left):
            where = there & left
            h = murmur_of_eight((where >> _HALF) + start, where & _LOW) & left
            store_u64x8(keys + _EIGHT * j, known | h)
            valued = loadu_u64x8(of_numbers + _EIGHT * j) != _ZERO
            store_u64x8(of + _EIGHT * j, (h & valued) | (there & (left ^ _ALL)))
        if j + _EIGHT >= n:
            break
        j = min(j + _EIGHT, n - _EIGHT)
    if n < _EIGHT:
        for k in range(n):
            if loadu_u64(keys + _EIGHT * k) == LATER:
                at = start + (hashes[lo + k] >> _HALF)
                h = murmur_at(at, at + (hashes[lo + k] & _LOW))
                store_u64(keys + _EIGHT * k, h)
                hashes[lo + k] = LATER if numbers[lo + k] == _ZERO else h
    hash_those_left(hashes, spans, start, lo, hi)


@inlined
def without_zeros(hashes: Any, values: Any, spans: Any, lo: Any, hi: Any) -> Any:
    """Take the features from lo to hi out that are zero; their hashes go to the end of all.

    Returns
    -------
    How many features there are then, and how many were zero.
    """
    last = np.uint64(len(hashes))
    k, zeros = lo, _ZERO
    for j in range(lo, hi):
        h, v, span = hashes[j], values[j], spans[j]
        if v == 0.0:
            zeros += _ONE
            hashes[last - zeros] = h
        else:
            hashes[k], values[k], spans[k] = h, v, span
            k += _ONE
    return k, zeros
