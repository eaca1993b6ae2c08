"""Which names belong to what, and the sets of features that are crossed, inside kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.hashing import mix64
from streaml1.core.jit import COMPILED, inlined
from streaml1.core.simd import (
    addresses_of,
    ctz,
    gather_at,
    gather_u64,
    load_u8,
    load_u64x8,
    mul,
    splat,
    store_f64x8,
    store_u64x8,
)
from streaml1.features.interactions.spec import (
    BOUNDS_AT,
    FIRST_BYTES,
    LETTERS_AT,
    MOST_PARTS,
    PREFIXES,
    SPECS,
    SPECS_AT,
)

__all__ = ["AT", "NO_PART", "bound", "crossed", "first_prefix", "grouped", "mask_at"]

_ZERO, _ONE, _TWO, _THREE, _EIGHT = map(np.uint64, (0, 1, 2, 3, 8))
_BYTE = np.uint64(255)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_EQUALS, _CARET = map(np.uint64, b"=^")
_NONE = np.uint64(2**64 - 1)
AT = np.uint64(20)  # bits of the place of a part
NO_PART = np.uint64(MOST_PARTS)  # places are below it


@inlined
def mask_at(plan: Any, start: Any, end: Any) -> Any:
    """Return the prefixes that the name between two addresses belongs to, a bit each."""
    bits = _ZERO
    if end <= start:
        return bits
    left = plan[FIRST_BYTES + load_u8(start)]
    size = end - start
    while left:
        k = ctz(left)
        left &= left - _ONE
        lo, hi = plan[plan[BOUNDS_AT] + k], plan[plan[BOUNDS_AT] + k + _ONE]
        n = hi - lo
        if n > size:
            continue
        if n < size:
            c = load_u8(start + n)
            if c != _EQUALS and c != _CARET:
                continue
        i = _ONE
        while i < n:
            at = lo + i
            letter = plan[plan[LETTERS_AT] + at // _EIGHT] >> (_EIGHT * (at % _EIGHT))
            if letter & _BYTE != load_u8(start + i):
                break
            i += _ONE
        if i >= n:
            bits |= _ONE << k
    return bits


@inlined
def first_prefix(mask: Any) -> Any:
    """Return the first prefix that is crossed of those in a mask."""
    return ctz(mask)


@inlined
def grouped(plan: Any, masks: Any, m: Any, members: Any, starts: Any) -> None:
    """List the first `m` parts by prefix: of the k-th, from `starts[k]` to `starts[k + 1]`."""
    for k in range(plan[PREFIXES] + _ONE):
        starts[k] = _ZERO
    for i in range(m):
        left = masks[i]
        while left:
            starts[ctz(left)] += _ONE
            left &= left - _ONE
    n = _ZERO
    for k in range(plan[PREFIXES]):
        n += starts[k]
        starts[k] = n  # where the list ends, which is filled from behind
    starts[plan[PREFIXES]] = n
    for last in range(m):
        i = m - _ONE - last
        left = masks[i]
        while left:
            k = ctz(left)
            starts[k] -= _ONE
            members[starts[k]] = i
            left &= left - _ONE


@inlined
def bound(plan: Any, starts: Any) -> Any:
    """How many crossed features there are at most."""
    total = _ZERO
    for s in range(plan[SPECS]):
        n = _ONE
        for k in range(_THREE):
            p = plan[plan[SPECS_AT] + _THREE * s + k]
            if p != _NONE:
                n *= starts[p + _ONE] - starts[p]
        total += n
    return total


@inlined
def _in(masks: Any, i: Any, p: Any) -> bool:
    return bool(masks[i] >> p & _ONE)


@inlined
def _again(masks: Any, i: Any, j: Any, k: Any, p: Any, q: Any, r: Any) -> bool:
    """Whether the three come in another order as well, which is before this one."""
    if k < j and _in(masks, k, q) and _in(masks, j, r):
        return True
    if k < i and _in(masks, k, p):
        if _in(masks, j, q) and _in(masks, i, r):
            return True
        if _in(masks, i, q) and _in(masks, j, r):
            return True
    return j < i and _in(masks, j, p) and _in(masks, k, q) and _in(masks, i, r)


@inlined
def _lesser(words: Any, word: Any) -> Any:
    """Return the lesser of each of eight words and another."""
    less = words < word
    return (words & less) | ((less ^ _NONE) & word)


@inlined
def _mix(a: Any, b: Any) -> Any:
    return mix64(a * _GOLDEN + b)


@inlined
def crossed(
    plan: Any,
    masks: Any,
    hashes: Any,
    values: Any,
    members: Any,
    starts: Any,
    out_hashes: Any,
    out_values: Any,
    out_parts: Any,
    at: Any,
) -> Any:
    """Write the crossed features of some parts from the place `at`; returns that after the last.

    `out_parts` has the places of the parts, `AT` bits each, `NO_PART` where there is no third:
    there must not be more parts than `MOST_PARTS`.
    """
    for s in range(plan[SPECS]):
        spec = plan[SPECS_AT] + _THREE * s
        p, q, r = plan[spec], plan[spec + _ONE], plan[spec + _TWO]
        for a in range(starts[p], starts[p + _ONE]):
            i = members[a]
            first, last = starts[q], starts[q + _ONE]
            if COMPILED and r == _NONE and not _in(masks, i, q):
                while first + _EIGHT <= last:  # none of them is the part itself, or comes again
                    others = load_u64x8(members, first)
                    h = gather_u64(addresses_of(hashes, others))
                    v = gather_at(addresses_of(values, others), _ZERO)
                    low = _lesser(h, hashes[i])
                    high = (h ^ low) ^ hashes[i]
                    store_u64x8(np.uint64(out_hashes.ctypes.data) + _EIGHT * at, _mix(low, high))
                    v = mul(v, splat(values[i]))
                    store_f64x8(np.uint64(out_values.ctypes.data) + _EIGHT * at, v)
                    parts = (others << AT) | (i | (NO_PART << (AT + AT)))
                    store_u64x8(np.uint64(out_parts.ctypes.data) + _EIGHT * at, parts)
                    first += _EIGHT
                    at += _EIGHT
            for b in range(first, last):
                j = members[b]
                if i == j or (j < i and _in(masks, i, q) and _in(masks, j, p)):
                    continue
                hi, hj, vi, vj = hashes[i], hashes[j], values[i], values[j]
                if r == _NONE:
                    out_hashes[at] = _mix(min(hi, hj), max(hi, hj))
                    out_values[at] = vi * vj
                    out_parts[at] = i | (j << AT) | (NO_PART << (AT + AT))
                    at += _ONE
                    continue
                if hj < hi:
                    hi, hj, vi, vj = hj, hi, vj, vi
                for c in range(starts[r], starts[r + _ONE]):
                    k = members[c]
                    if k == i or k == j or _again(masks, i, j, k, p, q, r):  # noqa: SIM109
                        continue
                    hk, vk = hashes[k], values[k]
                    if hk >= hj:
                        h, v = _mix(_mix(hi, hj), hk), vi * vj * vk
                    elif hk >= hi:
                        h, v = _mix(_mix(hi, hk), hj), vi * vk * vj
                    else:
                        h, v = _mix(_mix(hk, hi), hj), vk * vi * vj
                    out_hashes[at] = h
                    out_values[at] = v
                    out_parts[at] = i | (j << AT) | (k << (AT + AT))
                    at += _ONE
    return at
