"""The cells of CSV records that are read one by one: quoted text, numbers, missing words.

Kernels of `streaml1.text.csv` inline these functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.ascii import CR, NEWLINE, POINT, QUOTE, SPACE
from streaml1.core.jit import inlined, u64
from streaml1.core.simd import load_u8, loadu_u64, loadu_u64x8, movemask, splat_u64, store_u64
from streaml1.text.feature_spans import read_value
from streaml1.text.structural_index import delimiter_at

__all__ = [
    "ALL_ONES", "LAST_ASCII", "MISSING", "N_WORDS", "PRESENT", "SIX_BITS", "SLACK",
    "WORDS_COMPLETE", "WORDS_DECIMAL", "WORDS_FIRST", "WORDS_HEADER", "WORDS_LIST",
    "WORDS_SECOND", "begins_visibly", "copy_undoubled", "is_blank", "may_be_header",
    "missing_state", "quoted_cell", "read_boolean", "read_number", "word_at", "word_filter",
]  # fmt: skip

WORDS_FIRST, WORDS_SECOND, WORDS_COMPLETE, WORDS_DECIMAL, WORDS_HEADER = range(5)
WORDS_LIST = 8
N_WORDS = 24
"""Entries of `words`: the `word_filter` of the missing words; whether all of them are listed; the
decimal mark; the first bytes of a repeated header, 0 if there is none. From WORDS_LIST on: up to
sixteen missing words of up to eight bytes, padded with zeros."""

PRESENT, MISSING, UNSURE = range(3)
"""What `missing_state` finds: no missing word, a missing word, or a text for Python to decide."""

ALL_ONES = u64(2**64 - 1)
SIX_BITS, LAST_ASCII = u64(63), u64(127)
SLACK = u64(32)
"""Bytes that copies may write after a name."""

_BYTE_ORDER_MARK = u64(0xEF)  # its first byte
_TRUE, _FALSE = (
    tuple(np.uint64(int.from_bytes(word, "little")) for word in texts)
    for texts in ((b"true", b"True", b"TRUE"), (b"false", b"False", b"FALSE"))
)
_MAX_REWRITTEN = u64(64)  # bytes of a number with another decimal mark
# The UTF-8 of white space in other scripts begins with C2, E1, E2 or E3.
_LEADS = tuple(map(u64, (0xC3, 0xE1, 0xE3)))


def word_filter(words: Iterable[bytes]) -> tuple[np.uint64, np.uint64]:
    """Return two bit sets by which most cells are found not to be one of some words.

    A cell may be one of the words only if its bit is in both sets. Bit b of the first one stands
    for all first bytes whose last six bits are b. The second one combines the first two bytes and
    the size in the same way; a word of one byte is followed by a zero. This combination
    distinguishes the default words from `no`, `No`, `none`, `new`, `NY` and the like.
    """
    first = second = 0
    for word in words:
        first |= 1 << (word[0] & 63)
        second |= 1 << ((word[0] ^ (word[1:2] or b"\0")[0] ^ (len(word) << 3)) & 63)
    return np.uint64(first), np.uint64(second)


class Quoted(NamedTuple):
    """A quoted cell."""

    i: Any
    """The delimiter after its closing quote."""
    stop: Any
    """The address of the closing quote; the end of the chunk if there is none."""
    lines: Any
    """How many newlines are inside."""
    doubled: Any
    """Whether a doubled quote is inside."""


@inlined
def quoted_cell(text: Any, delimiter: Any, i: Any, n: Any, end: Any) -> Any:
    """Find the end of a cell whose opening quote is the i-th of n delimiters. Returns a `Quoted`.

    A control character inside the cell is taken for its end, so that the record is irregular.
    """
    lines, doubled = u64(0), False
    i += u64(1)
    # Invariant: the delimiters up to i are inside the cell.
    while i < n:
        stop = delimiter_at(text, i)
        c = load_u8(stop)
        i += u64(1)
        if c == QUOTE:
            if load_u8(stop + u64(1)) != QUOTE:
                return Quoted(i, stop, lines, doubled)
            doubled = True
            i += u64(1)
        elif c == NEWLINE:
            lines += u64(1)
        elif c != delimiter and c != CR:
            return Quoted(i, stop, lines, doubled)
    return Quoted(i, end, lines, doubled)


@inlined
def copy_undoubled(start: Any, end: Any, destination: Any) -> Any:
    """Copy a text with one quote for each doubled quote; return the address after the copy."""
    while start < end:
        c = load_u8(start)
        store_u64(destination, c)
        destination += u64(1)
        start += u64(1)
        start += np.uint64(c == QUOTE)
    return destination


@inlined
def read_number(
    pos: Any, end: Any, powers: Any, words: Any, scratch: Any, scratch_end: Any, missing: Any
) -> Any:
    """Return the number of a cell, without spaces around it, or NaN.

    Parameters
    ----------
    scratch, scratch_end
        Addresses between which a number with another decimal mark is written with a point.
    missing
        What to return for a missing word, which may be a number such as -999.
    """
    while pos < end and load_u8(pos) == SPACE:
        pos += u64(1)
    while pos < end and load_u8(end - u64(1)) == SPACE:
        end -= u64(1)
    # Few numbers begin as a missing word does, so this branch is predictable.
    if (word_at(words, WORDS_FIRST) >> (load_u8(pos) & SIX_BITS)) & u64(1):
        state = missing_state(pos, end, words)
        if state != PRESENT:
            return missing if state == MISSING else np.nan
    decimal = word_at(words, WORDS_DECIMAL)
    if decimal != POINT:
        size = end - pos
        if size > _MAX_REWRITTEN or scratch + size + SLACK > scratch_end:
            return np.nan
        for j in range(size):
            c = load_u8(pos + j)
            if c == POINT:
                return np.nan
            store_u64(scratch + j, POINT if c == decimal else c)
        pos, end = scratch, scratch + size
    return read_value(pos, end, powers, False)


@inlined
def word_at(words: Any, k: Any) -> Any:
    """Return an entry of `words`.

    Functions take the address of `words`: an array would be counted as a reference in each call.
    """
    return loadu_u64(words + u64(8) * np.uint64(k))


@inlined
def may_be_header(pos: Any, name: Any, size: Any, delimiter: Any) -> bool:
    """Return whether the first cell of a record may be a name of `size` bytes.

    Python decides. The name may be quoted, and a part of a file may begin with a byte order mark.
    """
    if load_u8(pos) == _BYTE_ORDER_MARK:
        return True
    if load_u8(pos) == QUOTE:
        pos += u64(1)
    j = u64(0)
    # A quote inside of a name is doubled in the text: it ends the comparison.
    while j < size and load_u8(name + j) != QUOTE:
        if load_u8(pos + j) != load_u8(name + j):
            return False
        j += u64(1)
    c = load_u8(pos + j)
    return bool(c in (delimiter, QUOTE, NEWLINE, CR))


@inlined
def missing_state(first: Any, stop: Any, words: Any) -> Any:
    """Return MISSING if a text is a missing word, UNSURE if Python must decide, else PRESENT."""
    size = stop - first
    text = loadu_u64(first)
    second = ((text >> u64(8)) ^ text ^ (size << u64(3))) & SIX_BITS
    # The byte after a word of one byte is not zero here.
    found = (word_at(words, WORDS_SECOND) >> second) | np.uint64(size == u64(1))
    found &= word_at(words, WORDS_FIRST) >> (text & SIX_BITS)
    if found & u64(1) == u64(0) or size == u64(0):
        return PRESENT
    if size <= u64(8):
        text &= ALL_ONES >> (u64(8) * (u64(8) - size))
        listed = words + u64(8) * np.uint64(WORDS_LIST)
        wanted = splat_u64(text)
        equal_mask = wanted == loadu_u64x8(listed)
        equal_mask |= wanted == loadu_u64x8(listed + u64(8) * u64(8))
        if movemask(equal_mask):
            return MISSING
    return PRESENT if word_at(words, WORDS_COMPLETE) else UNSURE


@inlined
def read_boolean(first: Any, stop: Any) -> Any:
    """Return 1 or 0 if a text is true or false in one of three spellings, else NaN."""
    size = stop - first
    if size == u64(0) or size > u64(8):
        return np.nan
    text = loadu_u64(first) & (ALL_ONES >> (u64(8) * (u64(8) - size)))
    lower, title, upper = _TRUE
    if text in (lower, title, upper):
        return 1.0
    lower, title, upper = _FALSE
    return 0.0 if text in (lower, title, upper) else np.nan


@inlined
def begins_visibly(pos: Any, end: Any) -> bool:
    """Return True only if a text certainly does not begin with white space of any script."""
    c = load_u8(pos)
    low, lo, hi = _LEADS
    other_script = c >= low and (c < lo or c > hi)
    return bool(pos < end and ((c > SPACE and c <= LAST_ASCII) or other_script))


@inlined
def is_blank(pos: Any, end: Any) -> bool:
    """Return whether a text is empty or of spaces only."""
    while pos < end and load_u8(pos) == SPACE:
        pos += u64(1)
    return bool(pos == end)
