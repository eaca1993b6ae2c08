"""Which delimiters a text has, and where: 64 bytes at a time, then one number for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined
from streaml1.core.simd import (
    bit_count,
    chosen_bytes,
    chosen_marked,
    leading_zeros,
    load_byte,
    load_word,
    matches,
    matches_any,
    packs,
    put_places,
    store_half,
    store_word,
    trailing_zeros,
    under,
)

__all__ = [
    "AFTER_BLANK",
    "BAR",
    "BEFORE_COLON",
    "BLANK",
    "COLON",
    "NEWLINE",
    "PAD",
    "RETURN",
    "SPARE",
    "TAB",
    "alike",
    "csv_delimiters",
    "delimiters",
    "json_delimiters",
    "lines_at_once",
    "place_of",
    "vw_delimiters",
]

PAD = 128
"""Bytes that may be read beyond both ends of a text."""

BLANK, COLON, NEWLINE, RETURN, TAB, BAR = map(np.uint64, b" :\n\r\t|")
_QUOTE, _COMMA, _CLOSE, _BACKSLASH, _EQUALS = map(np.uint64, b'",}\\=')
_PRINTED, _HIGH = np.uint64(0x20), np.uint64(0x80)

AFTER_BLANK, BEFORE_COLON = np.uint64(64), np.uint64(128)
"""Bits of what a delimiter of JSON is told to be, beside its own."""

SPARE = 64
"""Places for delimiters that may be written beyond those that there are."""

_ONE, _FOUR, _EIGHT, _BLOCK = map(np.uint64, (1, 4, 8, 64))
_FEW = np.uint64(10)
_AT_ONCE = np.uint64(2**15)
_ALL = np.uint64(2**64 - 1)


@inlined
def _written(found: Any, at: Any, start: Any, n: Any, positions: Any, kinds: Any) -> Any:
    """Write down which of 64 bytes are delimiters, from the n-th place on; returns the next."""
    count = bit_count(found)
    if packs() or count > _FEW:
        chosen_bytes(kinds + n, found, at)
        put_places(positions + _FOUR * n, found, at - start)
    else:
        _few_written(found, at, start, n, positions, kinds)
    return n + count


@inlined
def _few_written(found: Any, at: Any, start: Any, n: Any, positions: Any, kinds: Any) -> None:
    """As `_written`, of up to `_FEW` delimiters, one by one; so many are written in any case.

    How many there are cannot be foretold, and a wrong guess costs more.
    """
    for k in range(_FEW):
        place = trailing_zeros(found)
        store_half(positions + _FOUR * (n + k), at - start + place)
        store_word(kinds + n + k, load_byte(at + place))
        found &= found - _ONE


@inlined
def place_of(positions: Any, i: Any) -> Any:
    """The i-th of the positions that are written down from an address."""
    return load_word(positions + np.uint64(4) * i) & np.uint64(2**32 - 1)


@inlined
def alike(kinds: Any, i: Any, pattern: Any) -> Any:
    """How many delimiters from the i-th on are those of a pattern of words."""
    n, expected = np.uint64(0), np.uint64(0)
    for word in pattern:
        if n == expected:
            n += trailing_zeros(load_word(kinds + i + n) ^ word) >> np.uint64(3)
        expected += _EIGHT
    return n


@inlined
def _within(found: Any, at: Any, end: Any) -> Any:
    """The bits of 64 bytes from `at` that are of bytes before `end`."""
    return found if end - at >= _BLOCK else found & (_ALL >> (_BLOCK - (end - at)))


@inlined
def lines_at_once(at: Any, end: Any) -> Any:
    """Where to stop looking for a while: behind lines whose delimiters the first caches hold.

    It may be one long line. The last byte before `end` is a newline.
    """
    stop = at + _AT_ONCE
    if stop >= end:
        return end
    last = stop
    while last > at:
        last -= _BLOCK
        found = matches(last, NEWLINE)
        if found:
            return last + _BLOCK - leading_zeros(found)
    found = matches(stop, NEWLINE)
    while not found:
        stop += _BLOCK
        found = matches(stop, NEWLINE)
    return stop + trailing_zeros(found) + _ONE


@inlined
def delimiters(start: Any, at: Any, end: Any, positions: Any, kinds: Any) -> Any:
    """Write down where newlines, blanks and colons stand from `at` on, counted from `start`.

    The byte before `at` is the first of them, as it were. Positions are halves of words from an
    address, with SPARE places more than there may be, and `kinds` the delimiters, a byte each.

    Returns
    -------
    How many there are.
    """
    store_half(positions, at - _ONE - start)
    n = _ONE
    while at < end:
        found = matches_any(at, NEWLINE, BLANK, BLANK, BLANK) | matches(at, COLON)
        n = _written(_within(found, at, end), at, start, n, positions, kinds)
        at += _BLOCK
    return n


@inlined
def vw_delimiters(start: Any, at: Any, end: Any, positions: Any, kinds: Any) -> Any:
    """As `delimiters`, but where newlines, blanks, colons, tabs and bars stand, and these alone.

    Returns
    -------
    How many there are, and whether all bytes are ASCII.
    """
    n, ascii_ = np.uint64(0), _ALL
    while at < end:
        found = matches_any(at, NEWLINE, BLANK, TAB, BAR) | matches(at, COLON)
        ascii_ &= under(at, _HIGH) | ~_within(_ALL, at, end)
        n = _written(_within(found, at, end), at, start, n, positions, kinds)
        at += _BLOCK
    return n, ascii_ == _ALL


@inlined
def json_delimiters(start: Any, at: Any, end: Any, positions: Any, kinds: Any) -> Any:
    """As `vw_delimiters`, but where quotes, commas, closing braces and what is odd in JSON stand.

    Odd are backslashes and control characters, newlines among them. Delimiters behind a blank are
    told with AFTER_BLANK, those before a colon with BEFORE_COLON. Told, too, is whether no byte is
    an equals sign.
    """
    n, ascii_, equals = np.uint64(0), _ALL, np.uint64(0)
    while at < end:
        found = matches_any(at, _QUOTE, _COMMA, _CLOSE, _CLOSE) | matches(at, _BACKSLASH)
        equals |= _within(matches(at, _EQUALS), at, end)
        found |= under(at, _PRINTED)
        ascii_ &= under(at, _HIGH) | ~_within(_ALL, at, end)
        found = _within(found, at, end)
        chosen_marked(kinds + n, found, at, BLANK, COLON)
        put_places(positions + _FOUR * n, found, at - start)
        n += bit_count(found)
        at += _BLOCK
    return n, ascii_ == _ALL, equals == np.uint64(0)


@inlined
def csv_delimiters(start: Any, end: Any, mark: Any, positions: Any, kinds: Any) -> Any:
    """As `vw_delimiters`, but where quotes, marks and control characters stand, newlines too.

    All are found at once, from `start` on. `mark` is what stands between cells. Tabs are left out,
    unless they do.
    """
    n, ascii_ = np.uint64(0), _ALL
    at = start
    while at < end:
        found = under(at, _PRINTED) & ~matches(at, TAB)
        found |= matches(at, _QUOTE) | matches(at, mark)
        ascii_ &= under(at, _HIGH) | ~_within(_ALL, at, end)
        n = _written(_within(found, at, end), at, start, n, positions, kinds)
        at += _BLOCK
    return n, ascii_ == _ALL
