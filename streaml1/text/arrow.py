"""Columns of Arrow memory to rows of hashed names.

Arrow stores a column of strings as one buffer of characters and one of offsets. `read_columns`
reads such buffers where they are: no Python object is made for a value, and rows come out as they
do from a parser of text, with the same hashes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel, u64
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import load_f64, load_u8, load_u64, loadu_u64, prefetch_at, store_u64
from streaml1.core.spans import OFFSET_BITS
from streaml1.text.byte_names import UNHASHED, copy_short_bytes
from streaml1.text.feature_spans import hash_pending_names

__all__ = [
    "CODES", "FEATURES", "N_FIELDS", "NUMBERS", "SLACK", "TEXTS_32", "TEXTS_64", "VIEWS",
    "read_columns", "read_nested_columns",
]  # fmt: skip

NUMBERS, CODES, TEXTS_32, TEXTS_64, VIEWS, FEATURES = map(u64, range(6))
"""Kinds of columns: floats; indices into a dictionary; strings with offsets of 32 and 64 bits;
strings as views, which contain up to 12 characters and point to longer texts; lists of features,
whose names are in a dictionary."""

KIND, PREFIX, SIZE, HASH, DATA, OFFSETS, END, VALIDITY, BIT = map(u64, range(9))
N_FIELDS = 9

SLACK = 32
"""Bytes that copies may write after a name."""

_INLINE = u64(12)  # characters of a view that points to no buffer
_HALF_BITS, _LOW_HALF = u64(32), u64(2**32 - 1)
_AHEAD = u64(512)  # bytes between a text and what is prefetched
_NO_CODE = u64(2**64 - 1)


@kernel
def read_columns(
    columns: Any, n: Any, start: Any, names: Any, hashes: Any, values: Any, spans: Any, indptr: Any
) -> Any:
    """Write the features of `n` rows, row by row, in the order of the columns.

    Parameters
    ----------
    columns
        Describes the columns, uint64, shape (9, columns). KIND; PREFIX and SIZE: the address and
        the length of the name, for strings with an equals sign at its end; HASH of the name, for
        numbers. DATA is the address of the floats, of the codes (int64, -1 if missing), of the
        characters or of the views. OFFSETS is that of the offsets, of the spans of a dictionary, or
        of pairs of addresses, where each buffer of a view begins and ends. END is the address after
        the characters or the views, or that of the hashes of a dictionary; the span of an entry
        that is missing is 0. VALIDITY is the address of the bitmap of strings that are not missing,
        or 0, and BIT the bit of the first row.
        A column of features has DATA, OFFSETS and END as codes do; VALIDITY is the address of the
        values and BIT that of the offsets: the features of row i are those from the offset i to
        the offset i + 1.
    start
        The address that spans count from.
    names
        The address where names of strings are written; there is room for all, and for `SLACK`.
    hashes, values, spans
        Receive the features. Missing values and zeros are left out.
    indptr
        Receives where the features of each row begin.

    Returns
    -------
    The number of features, the address after the last name, and whether a value exceeds what models
    accept.
    """
    return _read(False, columns, n, start, names, hashes, values, spans, indptr)


@kernel
def read_nested_columns(
    columns: Any, n: Any, start: Any, names: Any, hashes: Any, values: Any, spans: Any, indptr: Any
) -> Any:
    """As `read_columns`, for rows with columns of features.

    Rows without are read faster by `read_columns`.
    """
    return _read(True, columns, n, start, names, hashes, values, spans, indptr)


@inlined
def _read(
    nested: Any, columns: Any, n: Any, start: Any, names: Any, hashes: Any, values: Any, spans: Any,
    indptr: Any,
) -> Any:  # fmt: skip
    """Write the features of `n` rows; `nested` is a constant for the compiler."""
    k, has_large = u64(0), False
    width = np.uint64(columns.shape[1])
    indptr[0] = 0
    # Invariant: the rows before `row` are written, their features are those up to k.
    for row in range(np.uint64(n)):
        first = k
        for column in range(width):
            kind = columns[KIND, column]
            if kind == NUMBERS:
                v = load_f64(columns[DATA, column] + u64(8) * row)
                if v == v and v != 0.0:
                    has_large |= not abs(v) < VALUE_LIMIT
                    hashes[k] = columns[HASH, column]
                    values[k] = v
                    prefix = columns[PREFIX, column] - start
                    spans[k] = (prefix << OFFSET_BITS) | columns[SIZE, column]
                    k += u64(1)
            elif kind == CODES:
                code = load_u64(columns[DATA, column] + u64(8) * row)
                if code != _NO_CODE:
                    span = load_u64(columns[OFFSETS, column] + u64(8) * code)
                    hashes[k] = load_u64(columns[END, column] + u64(8) * code)
                    values[k] = 1.0
                    spans[k] = span
                    k += np.uint64(span != u64(0))
            elif nested and kind == FEATURES:
                k, is_large = _add_features(columns, column, row, hashes, values, spans, k)
                has_large |= is_large
            elif _is_valid(columns, column, row):
                begin, end, readable = _text(columns, column, row)
                name = names
                prefix = columns[PREFIX, column]
                names = copy_short_bytes(prefix, prefix + columns[SIZE, column], names)
                names = _copy_text(begin, end, readable, names)
                prefetch_at(begin + _AHEAD)
                hashes[k] = UNHASHED
                values[k] = 1.0
                spans[k] = ((name - start) << OFFSET_BITS) | (names - name)
                k += u64(1)
        hash_pending_names(hashes, spans, start, first, k)
        indptr[row + u64(1)] = k
    return k, names, has_large


@inlined
def _add_features(
    columns: Any, column: Any, row: Any, hashes: Any, values: Any, spans: Any, k: Any
) -> Any:
    """Write the features of a list; return the position after them, and if a value is large."""
    bounds = columns[BIT, column] + u64(8) * row
    at, end = load_u64(bounds), load_u64(bounds + u64(8))
    has_large = False
    while at < end:
        code = load_u64(columns[DATA, column] + u64(8) * at)
        v = load_f64(columns[VALIDITY, column] + u64(8) * at)
        if code != _NO_CODE and v == v and v != 0.0:
            has_large |= not abs(v) < VALUE_LIMIT
            span = load_u64(columns[OFFSETS, column] + u64(8) * code)
            hashes[k] = load_u64(columns[END, column] + u64(8) * code)
            values[k] = v
            spans[k] = span
            k += np.uint64(span != u64(0))
        at += u64(1)
    return k, has_large


@inlined
def _is_valid(columns: Any, column: Any, row: Any) -> bool:
    bitmap = columns[VALIDITY, column]
    if not bitmap:
        return True
    bit = columns[BIT, column] + row
    return bool((load_u8(bitmap + (bit >> u64(3))) >> (bit & u64(7))) & u64(1))


@inlined
def _text(columns: Any, column: Any, row: Any) -> Any:
    """Return where a string begins and ends, and where its readable memory ends."""
    data, offsets, readable = columns[DATA, column], columns[OFFSETS, column], columns[END, column]
    if columns[KIND, column] == TEXTS_32:
        both = loadu_u64(offsets + (row << u64(2)))
        return data + (both & _LOW_HALF), data + (both >> _HALF_BITS), readable
    if columns[KIND, column] == TEXTS_64:
        at = offsets + u64(8) * row
        return data + loadu_u64(at), data + loadu_u64(at + u64(8)), readable
    view = data + u64(16) * row
    size = loadu_u64(view) & _LOW_HALF
    if size <= _INLINE:
        return view + u64(4), view + u64(4) + size, readable
    place = loadu_u64(view + u64(8))  # the number of the buffer, and the offset in it
    buffer = offsets + u64(16) * (place & _LOW_HALF)
    begin = loadu_u64(buffer) + (place >> _HALF_BITS)
    return begin, begin + size, loadu_u64(buffer + u64(8))


@inlined
def _copy_text(begin: Any, end: Any, readable: Any, destination: Any) -> Any:
    """Copy a text; what follows the address `readable` may be unmapped.

    Copies of whole words read up to 16 bytes too many, so the last texts of a buffer are copied
    byte by byte.
    """
    if end + u64(16) <= readable and begin + u64(16) <= readable:
        return copy_short_bytes(begin, end, destination)
    while begin + u64(8) <= end:
        store_u64(destination, loadu_u64(begin))
        begin += u64(8)
        destination += u64(8)
    while begin < end:
        store_u64(destination, load_u8(begin))
        begin += u64(1)
        destination += u64(1)
    return destination
