"""Members of objects of JSON by eights: such as all have numbers for values, or all texts."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.simd import (
    ctz,
    gather_u64,
    lane_mask_from,
    load_every_fifth,
    load_every_third,
    load_u8,
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
    LATER,
    joined_eight,
    murmur_of_heads,
    murmur_of_pairs,
    murmur_of_short,
    put_joined,
)
from streaml1.text.numbers import values_of_both
from streaml1.text.permute import words_of_three
from streaml1.text.structural_index import AFTER_BLANK, BEFORE_COLON, BLANK, place_of

__all__ = ["MOST", "after_blanks", "by_eights", "may_be_eight"]

MOST = np.uint64(2048)
"""Names of features in an ordinary line."""

_ZERO, _ONE, _TWO, _THREE, _FOUR, _FIVE, _SIX, _SEVEN, _EIGHT = map(np.uint64, range(9))
_ELEVEN, _TWELVE, _SIXTEEN, _TWENTY = map(np.uint64, (11, 12, 16, 20))
_TWENTY_TWO, _TWENTY_THREE, _THIRTY, _HALF = map(np.uint64, (22, 23, 30, 32))
_BYTE, _ALL, _MAGNITUDE = map(np.uint64, (2**8 - 1, 2**64 - 1, 2**63 - 1))
_QUOTE, _COMMA, _CLOSE, _EQUALS = map(np.uint64, b'",}=')


def _pattern(member: str) -> tuple[tuple[Any, Any], ...]:
    """Words of the delimiters of eight members, and what is more in them where there are blanks.

    A letter is written for a quote: `n` of a name and `v` of a value may be behind a blank, and `c`
    is before a colon. That of the first name is told as if behind a blank.
    """
    is_, more = {"c": _QUOTE | BEFORE_COLON}, {"n": AFTER_BLANK, "v": AFTER_BLANK}
    plain = bytes(int(is_.get(c, _COMMA if c == "," else _QUOTE)) for c in member * 8)
    blanks = bytes(int(more.get(c, _ZERO)) for c in member * 8)
    plain, blanks = bytes([plain[0] | blanks[0]]) + plain[1:], bytes(1) + blanks[1:]
    return tuple(zip(*(np.frombuffer(b, np.uint64) for b in (plain, blanks)), strict=True))


_NUMBERS, _TEXTS = _pattern("nc,"), _pattern('ncv",')


@inlined
def after_blanks(at: Any) -> Any:
    """Where a text goes on behind blanks."""
    while load_u8(at) == BLANK:
        at += _ONE
    return at


@inlined
def _begins(kinds: Any, i: Any) -> Any:
    """A word of delimiters from the i-th on, the first as if behind a blank."""
    return loadu_u64(kinds + i) | AFTER_BLANK


@inlined
def _have_texts(word: Any) -> bool:
    """Whether members have texts for values, by a word of their delimiters."""
    return bool(((word >> _SIXTEEN) & ~AFTER_BLANK & _BYTE) == _QUOTE)


@inlined
def _have_blanks(word: Any, texts: Any) -> Any:
    """All bits where the quote of a text, or of the second of two names, is behind a blank."""
    return _ZERO - ((word >> (_TWENTY_TWO if texts else _THIRTY)) & _ONE)


@inlined
def may_be_eight(kinds: Any, i: Any) -> bool:
    """Whether the delimiters from the i-th on begin as those of eight members."""
    word = _begins(kinds, i)
    texts = _have_texts(word)
    plain, more = _TEXTS[0] if texts else _NUMBERS[0]
    return bool(word == plain | (more & _have_blanks(word, texts)))


@inlined
def _alike(kinds: Any, i: Any, pattern: Any, blanks: Any) -> Any:
    """How many delimiters from the i-th on are those of a pattern, with `blanks` or none."""
    n, expected, word = _ZERO, _ZERO, _begins(kinds, i)
    for plain, more in pattern:
        if n == expected:
            n += ctz(word ^ (plain | (more & blanks))) >> _THREE
            word = loadu_u64(kinds + i + n)
        expected += _EIGHT
    return n


@inlined
def _eight_numbers(
    start: Any, table: Any, places: Any, f: Any, gap: Any, read: Any, names: Any, values: Any,
    spans: Any, numbers: Any, keys: Any,
) -> Any:  # fmt: skip
    """Read eight members whose values are numbers, the quote of the first being the f-th delimiter.

    From one to the next it is a `gap`. From `names` to `keys` there are addresses, where what is of
    the first goes. Values are only found, unless they are to be `read`.

    Returns
    -------
    Whether they are ordinary, whether all values are read, and whether one is zero.
    """
    at = places + _FOUR * f
    quotes, ends = load_every_third(at), load_every_third(at + _FOUR)
    stops, nexts = load_every_third(at + _EIGHT), load_every_third(at + _TWELVE)
    begins = quotes + _ONE
    size = ends - begins
    # What is behind the last is looked at later.
    odd = ((nexts - stops) ^ gap) & (lane_mask_from(_SEVEN) ^ _ALL)
    name, head, tail = words_of_three(
        start, places, f, f + _ELEVEN, f + _TWELVE, f + _TWENTY_THREE, begins + start,
        ends + (start + _TWO), stops + (start - _EIGHT),
    )  # fmt: skip
    blank = (head & _BYTE) == BLANK
    first = ends + _TWO + (blank & _ONE)
    head = head >> (blank & _EIGHT)
    h = murmur_of_heads(name, begins + start, size)
    odd = odd | ((head & _BYTE) == BLANK) | (h == LATER)
    if movemask(odd):
        return False, False, False
    store_u64x8(names, h)
    store_u64x8(keys, h)
    store_u64x8(spans, (begins << _HALF) | size)
    sure: Any = False
    zero: Any = False
    if read:
        v, wrong = values_of_both(head, tail, stops - first, table)
        store_f64x8(values, v)
        sure = movemask(wrong) == _ZERO
        zero = movemask((to_bits(v) & _MAGNITUDE) == _ZERO) != _ZERO
    if not sure:
        store_u64x8(numbers, (first << _HALF) | (stops - first))
    return True, sure, zero


@inlined
def _eight_texts(
    start: Any, places: Any, f: Any, gap: Any, again: Any, to: Any, names: Any, values: Any,
    spans: Any, numbers: Any, keys: Any,
) -> Any:  # fmt: skip
    """As `_eight_numbers`, of members whose values are texts; names go to the address `to`.

    The first are there `again`.

    Returns
    -------
    Whether they are ordinary, and where the next name goes.
    """
    at = places + _FOUR * f
    quotes, ends = load_every_fifth(at), load_every_fifth(at + _FOUR)
    first, last = load_every_fifth(at + _EIGHT), load_every_fifth(at + _TWELVE)
    stops, nexts = load_every_fifth(at + _SIXTEEN), load_every_fifth(at + _TWENTY)
    begins, first = quotes + _ONE, first + _ONE
    size, more = ends - begins, last - first
    odd = ((nexts - stops) ^ gap) & (lane_mask_from(_SEVEN) ^ _ALL)
    odd = odd | ((first - ends) ^ (gap + _TWO)) | (stops ^ (last + _ONE))
    odd = odd | ((size - _ONE) > _SIX) | ((more - _ONE) > _SEVEN)
    if movemask(odd):
        return False, to
    key, behind = gather_u64(begins + start), gather_u64(first + start)
    low, high = joined_eight(key, size, _EQUALS, behind, more)
    key = key & ((splat_u64(_ALL) << (size * _EIGHT)) ^ _ALL)
    h = murmur_of_short(key, size)
    if movemask(h == LATER):
        return False, to
    store_u64x8(keys, h)
    size = size + more + _ONE
    store_u64x8(names, murmur_of_pairs(low, high, size))
    store_f64x8(values, splat(1.0))
    store_u64x8(numbers, splat_u64(_ZERO))
    return True, put_joined(low, high, size, again, to, start, spans)


@inlined
def by_eights(
    start: Any, table: Any, places: Any, kinds: Any, i: Any, at: Any, begun: Any, k: Any, to: Any,
    most: Any, known: Any, hashes: Any, values: Any, spans: Any, numbers: Any, keys: Any,
) -> Any:  # fmt: skip
    """Find and read members by eights, as long as eight are alike: numbers, or texts.

    `known` tells up to which feature values are read; what is found behind it is left for later,
    where one was not.

    Returns
    -------
    The next delimiter, the place behind it, how many features there are then, where the next name
    goes, what is `known`, whether a value is zero, and whether the object has ended.
    """
    of_hashes, of_values = np.uint64(hashes.ctypes.data), np.uint64(values.ctypes.data)
    of_spans, of_numbers = np.uint64(spans.ctypes.data), np.uint64(numbers.ctypes.data)
    zeros: Any = False
    ended: Any = False
    so_far, were_texts, blanks = _ZERO, False, _ZERO
    while k - begun + _EIGHT <= MOST:
        word = _begins(kinds, i)
        texts = _have_texts(word)
        if so_far == _ZERO or texts != were_texts:
            so_far, were_texts, blanks = _ZERO, texts, _have_blanks(word, texts)
        # How many have a member's delimiters: a fifth of them, or a third.
        if texts:
            n, step = _alike(kinds, i, _TEXTS, blanks), _FIVE
            count = (n * np.uint64(205)) >> np.uint64(10)
        else:
            n, step = _alike(kinds, i, _NUMBERS, blanks), _THREE
            count = (n * np.uint64(171)) >> np.uint64(9)
        if count < _EIGHT:
            # The last of an object: eight with those before them.
            count += _ONE
            ended = load_u8(kinds + i + n) == _CLOSE and n + _ONE == step * count
            ended &= so_far + count >= _EIGHT
            if not ended:
                break
        again = _EIGHT - count
        f, j, gap = i - step * again, _EIGHT * (k - again), _TWO if blanks else _ONE
        fine: Any = True
        sure, zero = True, False
        if texts:
            fine = to + EIGHT_NAMES <= most
            if fine:
                fine, to = _eight_texts(
                    start, places, f, gap, again, to, of_hashes + j, of_values + j,
                    of_spans + j, of_numbers + j, keys + j - _EIGHT * begun,
                )  # fmt: skip
        else:
            fine, sure, zero = _eight_numbers(
                start, table, places, f, gap, known == k, of_hashes + j, of_values + j,
                of_spans + j, of_numbers + j, keys + j - _EIGHT * begun,
            )  # fmt: skip
        if not fine:
            ended = False
            break
        zeros |= zero
        if known == k:
            known = k + count if sure else k - again
        k += count
        so_far += count
        i += step * count
        at = start + place_of(places, i - _ONE) + _ONE
        if ended:
            break
        at = after_blanks(at)
        if start + place_of(places, i) != at:
            break
    return i, at, k, to, known, zeros, ended
