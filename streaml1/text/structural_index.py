"""Stage 1 of all text parsers: the positions and kinds of the delimiters of a chunk.

As in simdjson (Langdale & Lemire 2019, Parsing gigabytes of JSON per second, section 3.1), 64 bytes
are compared with the delimiters at a time. Each comparison gives a mask with one bit for each byte;
the masks are combined into `structural_mask`, and its set bits are written to two parallel arrays:

- positions: uint32, the offset of each delimiter from a base address;
- kinds: uint8, the delimiter itself.

Stage 2 then steps from delimiter to delimiter and touches no byte in between twice. Each format has
its own set of delimiters:

================ ===========================================================================
format           delimiters
================ ===========================================================================
`index_svmlight` newline, space, colon
`index_vw`       newline, space, colon, tab, pipe
`index_jsonl`    quote, comma, closing brace; backslash and control characters as irregular
`index_csv`      quote, the delimiter of the cells, control characters but for the tab
================ ===========================================================================

Lines with an irregular delimiter are parsed by Python. There is no mask for the inside of quoted
strings: stage 2 skips commas and braces up to the next quote.

Bytes outside a chunk are read, but never count: see `PAD`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.ascii import (
    BACKSLASH,
    CLOSING_BRACE,
    COLON,
    COMMA,
    EQUALS,
    NEWLINE,
    PIPE,
    QUOTE,
    SPACE,
    TAB,
)
from streaml1.core.jit import inlined, kernel, u64
from streaml1.core.simd import (
    byte_eq_mask,
    byte_in_mask,
    byte_lt_mask,
    can_permute,
    clz,
    compress_bytes,
    compress_bytes_marked,
    ctz,
    gather_u64,
    has_compress,
    load_u8,
    loadu_u64,
    permute_u64,
    popcount,
    store_bit_indices,
    store_u32,
    store_u64,
)
from streaml1.core.spans import OFFSET_BITS

__all__ = [
    "AFTER_SPACE",
    "BEFORE_COLON",
    "PAD",
    "SPARE",
    "IndexedText",
    "batch_end",
    "count_newlines",
    "delimiter_at",
    "gather_three_x8",
    "index_csv",
    "index_jsonl",
    "index_svmlight",
    "index_vw",
    "indexed_text",
    "matching_kinds",
    "position_of",
    "span_of",
]

PAD = 128
"""Readable bytes that a buffer must have before and after its text."""

SPARE = 64
"""Entries that `positions` and `kinds` must have in addition to one for each byte."""

_FIRST_PRINTABLE, _FIRST_NON_ASCII = u64(0x20), u64(0x80)

AFTER_SPACE, BEFORE_COLON = u64(64), u64(128)
"""Bits that `index_jsonl` adds to the kind of a delimiter."""

_BLOCK = u64(64)
_MAX_SCALAR = u64(10)
_BATCH = u64(2**15)
_ALL_ONES = u64(2**64 - 1)


@inlined
def index_svmlight(base: Any, start: Any, end: Any, positions: Any, kinds: Any) -> Any:
    """Write the newlines, spaces and colons between two addresses.

    The byte before `start` is written as a first delimiter, so that every token has a delimiter
    before it.

    Parameters
    ----------
    base
        The address that positions count from.
    positions, kinds
        The addresses of the arrays, with `SPARE` more entries than there may be delimiters.

    Returns
    -------
    The number of delimiters.
    """
    store_u32(positions, start - u64(1) - base)
    n = u64(1)
    block = start
    # Invariant: the delimiters before `block` are the first n entries.
    while block < end:
        structural_mask = byte_in_mask(block, NEWLINE, SPACE, SPACE, SPACE)
        structural_mask |= byte_eq_mask(block, COLON)
        structural_mask = _mask_before(structural_mask, block, end)
        n = _write_delimiters(structural_mask, block, base, n, positions, kinds)
        block += _BLOCK
    return n


@inlined
def index_vw(base: Any, start: Any, end: Any, positions: Any, kinds: Any) -> Any:
    """Write the newlines, spaces, colons, tabs and pipes between two addresses.

    The parameters are those of `index_svmlight`.

    Returns
    -------
    The number of delimiters, and whether all bytes are ASCII.
    """
    n, ascii_mask = u64(0), _ALL_ONES
    block = start
    # Invariant: the delimiters before `block` are the first n entries.
    while block < end:
        structural_mask = byte_in_mask(block, NEWLINE, SPACE, TAB, PIPE)
        structural_mask |= byte_eq_mask(block, COLON)
        ascii_mask &= byte_lt_mask(block, _FIRST_NON_ASCII) | ~_mask_before(_ALL_ONES, block, end)
        structural_mask = _mask_before(structural_mask, block, end)
        n = _write_delimiters(structural_mask, block, base, n, positions, kinds)
        block += _BLOCK
    return n, ascii_mask == _ALL_ONES


@inlined
def index_jsonl(base: Any, start: Any, end: Any, positions: Any, kinds: Any) -> Any:
    """Write the quotes, commas, closing braces, backslashes and control characters of some lines.

    Newlines are among the control characters. Kinds get the bit `AFTER_SPACE` if a space precedes
    the delimiter, and `BEFORE_COLON` if a colon follows it. The parameters are those of
    `index_svmlight`.

    Returns
    -------
    The number of delimiters, whether all bytes are ASCII, and whether no byte is an equals sign.
    """
    n, ascii_mask, equals_mask = u64(0), _ALL_ONES, u64(0)
    block = start
    # Invariant: the delimiters before `block` are the first n entries.
    while block < end:
        structural_mask = byte_in_mask(block, QUOTE, COMMA, CLOSING_BRACE, CLOSING_BRACE)
        structural_mask |= byte_eq_mask(block, BACKSLASH)
        equals_mask |= _mask_before(byte_eq_mask(block, EQUALS), block, end)
        structural_mask |= byte_lt_mask(block, _FIRST_PRINTABLE)
        ascii_mask &= byte_lt_mask(block, _FIRST_NON_ASCII) | ~_mask_before(_ALL_ONES, block, end)
        structural_mask = _mask_before(structural_mask, block, end)
        compress_bytes_marked(kinds + n, structural_mask, block, SPACE, COLON)
        store_bit_indices(positions + u64(4) * n, structural_mask, block - base)
        n += popcount(structural_mask)
        block += _BLOCK
    return n, ascii_mask == _ALL_ONES, equals_mask == u64(0)


@inlined
def index_csv(start: Any, end: Any, delimiter: Any, positions: Any, kinds: Any) -> Any:
    """Write the quotes, cell delimiters and control characters between two addresses.

    Newlines are among the control characters; tabs are left out unless they are the delimiter.
    Positions count from `start`. The other parameters are those of `index_svmlight`.

    Returns
    -------
    The number of delimiters, and whether all bytes are ASCII.
    """
    n, ascii_mask = u64(0), _ALL_ONES
    block = start
    # Invariant: the delimiters before `block` are the first n entries.
    while block < end:
        structural_mask = byte_lt_mask(block, _FIRST_PRINTABLE) & ~byte_eq_mask(block, TAB)
        structural_mask |= byte_eq_mask(block, QUOTE) | byte_eq_mask(block, delimiter)
        ascii_mask &= byte_lt_mask(block, _FIRST_NON_ASCII) | ~_mask_before(_ALL_ONES, block, end)
        structural_mask = _mask_before(structural_mask, block, end)
        n = _write_delimiters(structural_mask, block, start, n, positions, kinds)
        block += _BLOCK
    return n, ascii_mask == _ALL_ONES


@inlined
def _mask_before(mask: Any, block: Any, end: Any) -> Any:
    """Clear the bits of bytes at or after `end`."""
    return mask if end - block >= _BLOCK else mask & (_ALL_ONES >> (_BLOCK - (end - block)))


@inlined
def _write_delimiters(
    structural_mask: Any, block: Any, base: Any, n: Any, positions: Any, kinds: Any
) -> Any:
    """Write the delimiters of 64 bytes as entries from the n-th on; return the next entry."""
    count = popcount(structural_mask)
    if has_compress() or count > _MAX_SCALAR:
        compress_bytes(kinds + n, structural_mask, block)
        store_bit_indices(positions + u64(4) * n, structural_mask, block - base)
    else:
        _write_few_delimiters(structural_mask, block, base, n, positions, kinds)
    return n + count


@inlined
def _write_few_delimiters(
    structural_mask: Any, block: Any, base: Any, n: Any, positions: Any, kinds: Any
) -> None:
    """As `_write_delimiters`, for at most `_MAX_SCALAR` delimiters, without packing instructions.

    The loop always runs `_MAX_SCALAR` times: the count is unpredictable, and a branch miss costs
    more than the superfluous stores. Later blocks overwrite them.
    """
    for k in range(_MAX_SCALAR):
        offset = ctz(structural_mask)
        store_u32(positions + u64(4) * (n + k), block - base + offset)
        store_u64(kinds + n + k, load_u8(block + offset))
        structural_mask &= structural_mask - u64(1)


@inlined
def batch_end(start: Any, end: Any) -> Any:
    """Return where to stop indexing: after lines whose delimiters fit in the first-level cache.

    The lines from `start` to the result have about 32 KiB, or are one longer line. The byte before
    `end` must be a newline.
    """
    limit = start + _BATCH
    if limit >= end:
        return end
    block = limit
    # Search backwards from the limit for the last newline.
    while block > start:
        block -= _BLOCK
        newline_mask = byte_eq_mask(block, NEWLINE)
        if newline_mask:
            return block + _BLOCK - clz(newline_mask)
    # There is none: one line is longer than the limit. Search forwards for its end.
    newline_mask = byte_eq_mask(limit, NEWLINE)
    while not newline_mask:
        limit += _BLOCK
        newline_mask = byte_eq_mask(limit, NEWLINE)
    return limit + ctz(newline_mask) + u64(1)


@kernel
def count_newlines(start: Any, end: Any) -> Any:
    """Return the number of newlines between two addresses."""
    n = u64(0)
    block = start
    while block < end:
        n += popcount(_mask_before(byte_eq_mask(block, NEWLINE), block, end))
        block += _BLOCK
    return n


# Reading the index


class IndexedText(NamedTuple):
    """A text and its structural index, by their addresses."""

    start: Any
    """The address that positions and spans count from."""
    positions: Any
    kinds: Any


@inlined
def indexed_text(start: Any, positions: Any, kinds: Any) -> Any:
    """Return the `IndexedText` at an address, given the arrays of its index."""
    return IndexedText(start, np.uint64(positions.ctypes.data), np.uint64(kinds.ctypes.data))


@inlined
def delimiter_at(text: Any, i: Any) -> Any:
    """Return the address of the i-th delimiter of an `IndexedText`."""
    return text.start + position_of(text.positions, i)


@inlined
def span_of(text: Any, begin: Any, end: Any) -> Any:
    """Return the span between two addresses: ``offset << 32 | length``."""
    return ((begin - text.start) << OFFSET_BITS) | (end - begin)


@inlined
def position_of(positions: Any, i: Any) -> Any:
    """Return the position of the i-th delimiter, given the address of the positions."""
    return loadu_u64(positions + u64(4) * i) & np.uint64(2**32 - 1)


@inlined
def matching_kinds(kinds: Any, i: Any, pattern: Any) -> Any:
    """Return how many kinds from the i-th on agree with a pattern, a tuple of 8-byte words."""
    n, expected = u64(0), u64(0)
    # Invariant: n counts the matches before word `expected / 8`. After a mismatch n stays below
    # `expected`, so the remaining words, whose number is known at compile time, do nothing.
    for word in pattern:
        if n == expected:
            n += ctz(loadu_u64(kinds + i + n) ^ word) >> u64(3)
        expected += u64(8)
    return n


@inlined
def gather_three_x8(
    base: Any, positions: Any, first: Any, fourth: Any, fifth: Any, last: Any, a: Any, b: Any,
    c: Any,
) -> Any:  # fmt: skip
    """Load three times eight words, each near one of eight consecutive features.

    Where the text of four features fits in 128 bytes, AVX-512 VBMI picks the words out of two
    registers; otherwise they are gathered from memory.

    Parameters
    ----------
    first, fourth, fifth, last
        The delimiters before the first feature, after the fourth, before the fifth and after the
        last one.
    a, b, c
        Eight addresses each, in the order of the features. None is more than eight bytes outside
        its feature. If a result is not used, its loads are optimized away.
    """
    low, low_end = (
        base + position_of(positions, first) - u64(8),
        base + position_of(positions, fourth),
    )
    high, high_end = (
        base + position_of(positions, fifth) - u64(8),
        base + position_of(positions, last),
    )
    if can_permute(low, low_end, high, high_end):
        return permute_u64(low, high, a), permute_u64(low, high, b), permute_u64(low, high, c)
    return gather_u64(a), gather_u64(b), gather_u64(c)
