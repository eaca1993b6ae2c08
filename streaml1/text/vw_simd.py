"""Features of Vowpal Wabbit's text by eights: such as all have values, or none."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.simd import (
    gather_u64,
    load_u8,
    load_u32_pairs,
    load_u32x8,
    loadu_u64,
    movemask,
    splat,
    splat_u64,
    store_f64x8,
    store_u64x8,
    to_bits,
)
from streaml1.text.byte_names import (
    EIGHT_NAMES,
    joined_eight,
    murmur_of_heads,
    murmur_of_pairs,
    put_joined,
)
from streaml1.text.numbers import values_of_both
from streaml1.text.permute import words_of_three
from streaml1.text.structural_index import COLON, NEWLINE, RETURN, alike, place_of

__all__ = ["by_eights", "may_be_eight"]

_ZERO, _ONE, _FOUR, _SEVEN, _EIGHT, _FIFTEEN = map(np.uint64, (0, 1, 4, 7, 8, 15))
_HALF, _MAGNITUDE, _CARET = np.uint64(32), np.uint64(2**63 - 1), np.uint64(ord("^"))
_PAIRS, _BLANKS = (np.uint64(int.from_bytes(kinds, "little")) for kinds in (b": " * 4, b" " * 8))


@inlined
def may_be_eight(kinds: Any, i: Any) -> bool:
    """Whether the delimiters from the i-th on begin as those of eight features."""
    return bool(loadu_u64(kinds + i) in (_BLANKS, _PAIRS))


@inlined
def by_eights(
    start: Any, table: Any, places: Any, kinds: Any, i: Any, at: Any, k: Any, to: Any, most: Any,
    prefix: Any, prefix_end: Any, known: Any, numbers: Any, hashes: Any, values: Any, spans: Any,
) -> Any:  # fmt: skip
    """Find and read features by eights, as long as eight are alike.

    `known` tells up to which feature values are read; what is found behind it is left for later,
    where one was not.

    Returns
    -------
    The next delimiter, where the next word begins, how many features there are then, where the
    next name goes, what is `known`, whether a value is zero, and whether the line has ended.
    """
    of_hashes, of_values = np.uint64(hashes.ctypes.data), np.uint64(values.ctypes.data)
    of_spans, of_numbers = np.uint64(spans.ctypes.data), np.uint64(numbers.ctypes.data)
    before = prefix_end - prefix
    first = loadu_u64(prefix)
    zeros: Any = False
    ended: Any = False
    so_far, were_valued = _ZERO, False
    while before < _EIGHT:
        valued = load_u8(kinds + i) == COLON
        if valued:
            n = alike(kinds, i, (_PAIRS, _PAIRS))
            count = (n + _ONE) >> _ONE
        else:
            n = count = alike(kinds, i, (_BLANKS,))
        if valued != were_valued:
            so_far, were_valued = _ZERO, valued
        if count < _EIGHT or n == np.uint64(15):
            # The last of a line: eight with those before them.
            count += np.uint64(not valued)
            d = start + place_of(places, i + n)
            ended = load_u8(kinds + i + n) == NEWLINE and load_u8(d - _ONE) != RETURN
            ended &= (not valued or (n & _ONE) == _ONE) and so_far + count >= _EIGHT
            if not ended:
                break
        again = _EIGHT - count
        f, j = i - (again + again if valued else again), k - again
        if valued:
            begins, ends = load_u32_pairs(places + _FOUR * f - _FOUR)
            _, stops = load_u32_pairs(places + _FOUR * f)
            begins = begins + _ONE
        else:
            begins = load_u32x8(places + _FOUR * f - _FOUR) + _ONE
            ends = stops = load_u32x8(places + _FOUR * f)
        size = ends - begins
        if movemask(size == _ZERO):
            ended = False
            break
        if valued:
            name, head, tail = words_of_three(
                start, places, f - _ONE, f + _SEVEN, f + _SEVEN, f + _FIFTEEN, begins + start,
                ends + (start + _ONE), stops + (start - _EIGHT),
            )  # fmt: skip
        else:
            name = head = tail = gather_u64(begins + start)
        if before:
            if movemask(size > _EIGHT) or to + EIGHT_NAMES > most:
                ended = False
                break
            low, high = joined_eight(splat_u64(first), splat_u64(before), _CARET, name, size)
            size = size + (before + _ONE)
            store_u64x8(of_hashes + _EIGHT * j, murmur_of_pairs(low, high, size))
            to = put_joined(low, high, size, again, to, start, of_spans + _EIGHT * j)
        else:
            store_u64x8(of_hashes + _EIGHT * j, murmur_of_heads(name, begins + start, size))
            store_u64x8(of_spans + _EIGHT * j, (begins << _HALF) | size)
        left = known != k
        if not left:
            if valued:
                v, wrong = values_of_both(head, tail, stops - ends - _ONE, table)
                left = movemask(wrong) != _ZERO
                zeros |= movemask((to_bits(v) & _MAGNITUDE) == _ZERO) != _ZERO
                store_f64x8(of_values + _EIGHT * j, v)
            else:
                store_f64x8(of_values + _EIGHT * j, splat(1.0))
            known = j if left else k + count
        if left:
            where = splat_u64(_ZERO)
            if valued:
                at_value = ends + _ONE
                where = (at_value << _HALF) | (stops - at_value)
            store_u64x8(of_numbers + _EIGHT * j, where)
        k += count
        so_far += count
        i += n
        at = start + place_of(places, i) if ended else start + place_of(places, i - _ONE) + _ONE
        if ended:
            break
    return i, at, k, to, known, zeros, ended
