"""Find the factors of an example and cross them, inside kernels.

Kernels read the interactions from a *plan*, whose layout is in `spec`. The factors of an example
are arrays of the same length: the mask, hash and value of each. *Members* list the factors by
prefix: those of prefix k are `members[starts[k]:starts[k + 1]]`, in rising order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.ascii import CARET, EQUALS
from streaml1.core.hashing import mix64
from streaml1.core.jit import COMPILED, inlined, u64
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
    BYTES_BASE,
    CROSSES_BASE,
    ENDS_BASE,
    FIRST_BYTES,
    MAX_FACTORS,
    N_CROSSES,
    N_PREFIXES,
    NO_PREFIX,
)

__all__ = ["FACTOR_BITS", "NO_FACTOR", "bound", "crossed", "first_prefix", "grouped", "mask_at"]

_BYTE = u64(255)
_GOLDEN = u64(0x9E3779B97F4A7C15)
_NO_PREFIX = u64(NO_PREFIX)
_ALL_BITS = u64(2**64 - 1)
FACTOR_BITS = u64(20)
"""Width in bits of the position of a factor in packed factors."""

NO_FACTOR = u64(MAX_FACTORS)
"""The code of an absent third factor in packed factors; all positions are below it."""


@inlined
def mask_at(plan: Any, start: Any, end: Any) -> Any:
    """Return the prefixes of the name between two addresses: bit k for prefix k."""
    mask = u64(0)
    if end <= start:
        return mask
    # Invariant: `mask` is exact for all prefixes that begin with the first byte of the name, except
    # those in `candidates`. All others do not match.
    candidates = plan[FIRST_BYTES + load_u8(start)]
    size = end - start
    while candidates:
        k = ctz(candidates)
        candidates &= candidates - u64(1)
        lo, hi = plan[plan[ENDS_BASE] + k], plan[plan[ENDS_BASE] + k + u64(1)]
        n = hi - lo
        if n > size:
            continue
        if n < size:
            c = load_u8(start + n)
            if c != EQUALS and c != CARET:
                continue
        i = u64(1)  # the first i bytes are equal
        while i < n:
            pos = lo + i
            letter = plan[plan[BYTES_BASE] + pos // u64(8)] >> (u64(8) * (pos % u64(8)))
            if letter & _BYTE != load_u8(start + i):
                break
            i += u64(1)
        if i >= n:
            mask |= u64(1) << k
    return mask


@inlined
def first_prefix(mask: Any) -> Any:
    """Return the number of the first prefix in a mask, by which factors are displayed."""
    return ctz(mask)


@inlined
def grouped(plan: Any, masks: Any, m: Any, members: Any, starts: Any) -> None:
    """Group the first `m` factors by prefix into `members` and `starts`: a counting sort."""
    for k in range(plan[N_PREFIXES] + u64(1)):
        starts[k] = u64(0)
    for i in range(m):
        mask = masks[i]
        while mask:
            starts[ctz(mask)] += u64(1)
            mask &= mask - u64(1)
    n = u64(0)
    for k in range(plan[N_PREFIXES]):
        n += starts[k]
        starts[k] = n  # the end of the group for now
    starts[plan[N_PREFIXES]] = n
    # Invariant: the last `step` factors are stored, in group k from `starts[k]` on. Groups are
    # filled from the back, so that their ends become starts.
    for step in range(m):
        i = m - u64(1) - step
        mask = masks[i]
        while mask:
            k = ctz(mask)
            starts[k] -= u64(1)
            members[starts[k]] = i
            mask &= mask - u64(1)


@inlined
def bound(plan: Any, starts: Any) -> Any:
    """Return an upper bound on the number of crossed features, given the sizes of the groups."""
    total = u64(0)
    for s in range(plan[N_CROSSES]):
        n = u64(1)
        for k in range(u64(3)):
            p = plan[plan[CROSSES_BASE] + u64(3) * s + k]
            if p != _NO_PREFIX:
                n *= starts[p + u64(1)] - starts[p]
        total += n
    return total


@inlined
def _in(masks: Any, i: Any, p: Any) -> bool:
    """Return whether factor i belongs to prefix p."""
    return bool(masks[i] >> p & u64(1))


@inlined
def _is_repeat(masks: Any, i: Any, j: Any, k: Any, p: Any, q: Any, r: Any) -> bool:
    """Return whether a smaller permutation of (i, j, k) also matches the prefixes (p, q, r).

    `crossed` visits triples in lexicographic order and takes the first permutation of each set.
    """
    if k < j and _in(masks, k, q) and _in(masks, j, r):
        return True
    if k < i and _in(masks, k, p):
        if _in(masks, j, q) and _in(masks, i, r):
            return True
        if _in(masks, i, q) and _in(masks, j, r):
            return True
    return j < i and _in(masks, j, p) and _in(masks, k, q) and _in(masks, i, r)


@inlined
def _min_u64x8(x: Any, y: Any) -> Any:
    """Return the minimum of each of eight lanes and a scalar."""
    less = x < y
    return (x & less) | ((less ^ _ALL_BITS) & y)


@inlined
def _mix(a: Any, b: Any) -> Any:
    """Return the hash of a crossed feature; must equal `crossed_name.hash_of_factors`."""
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
    out_factors: Any,
    out_pos: Any,
) -> Any:
    """Write the crossed features of an example from `out_pos` on; return the end.

    Hashes are mixed and values multiplied in the order of the hashes of the factors, so that
    neither depends on the order of the features or of the prefixes.

    Parameters
    ----------
    plan, masks, hashes, values, members, starts
        The interactions and the factors, see the top of this module; at most `MAX_FACTORS`.
    out_hashes, out_values, out_factors
        The output. A packed factor set has the positions of the factors for the first, second and
        third prefix, `FACTOR_BITS` bits each, lowest first. The third is `NO_FACTOR` if absent.
    """
    # Invariant: `out_pos` follows the crossed features of all earlier interactions, and of the
    # earlier factor sets of this one, each once.
    for s in range(plan[N_CROSSES]):
        base = plan[CROSSES_BASE] + u64(3) * s
        p, q, r = plan[base], plan[base + u64(1)], plan[base + u64(2)]
        for a in range(starts[p], starts[p + u64(1)]):
            i = members[a]
            first, last = starts[q], starts[q + u64(1)]
            if COMPILED and r == _NO_PREFIX and not _in(masks, i, q):
                # Factor i is not in group q, so no pair repeats it or is a swapped earlier pair:
                # eight pairs at once need no test.
                while first + u64(8) <= last:
                    js = load_u64x8(members, first)
                    h = gather_u64(addresses_of(hashes, js))
                    v = gather_at(addresses_of(values, js), u64(0))
                    low = _min_u64x8(h, hashes[i])
                    high = (h ^ low) ^ hashes[i]  # the maximum
                    out = u64(8) * out_pos
                    store_u64x8(np.uint64(out_hashes.ctypes.data) + out, _mix(low, high))
                    v = mul(v, splat(values[i]))
                    store_f64x8(np.uint64(out_values.ctypes.data) + out, v)
                    packed = (js << FACTOR_BITS) | (i | (NO_FACTOR << (FACTOR_BITS + FACTOR_BITS)))
                    store_u64x8(np.uint64(out_factors.ctypes.data) + out, packed)
                    first += u64(8)
                    out_pos += u64(8)
            for b in range(first, last):
                j = members[b]
                if i == j or (j < i and _in(masks, i, q) and _in(masks, j, p)):
                    continue
                hi, hj, vi, vj = hashes[i], hashes[j], values[i], values[j]
                if r == _NO_PREFIX:
                    out_hashes[out_pos] = _mix(min(hi, hj), max(hi, hj))
                    out_values[out_pos] = vi * vj
                    out_factors[out_pos] = (
                        i | (j << FACTOR_BITS) | (NO_FACTOR << (FACTOR_BITS + FACTOR_BITS))
                    )
                    out_pos += u64(1)
                    continue
                if hj < hi:
                    hi, hj, vi, vj = hj, hi, vj, vi
                for c in range(starts[r], starts[r + u64(1)]):
                    k = members[c]
                    if k == i or k == j or _is_repeat(masks, i, j, k, p, q, r):  # noqa: SIM109
                        continue
                    hk, vk = hashes[k], values[k]
                    if hk >= hj:
                        h, v = _mix(_mix(hi, hj), hk), vi * vj * vk
                    elif hk >= hi:
                        h, v = _mix(_mix(hi, hk), hj), vi * vk * vj
                    else:
                        h, v = _mix(_mix(hk, hi), hj), vk * vi * vj
                    out_hashes[out_pos] = h
                    out_values[out_pos] = v
                    out_factors[out_pos] = (
                        i | (j << FACTOR_BITS) | (k << (FACTOR_BITS + FACTOR_BITS))
                    )
                    out_pos += u64(1)
    return out_pos
