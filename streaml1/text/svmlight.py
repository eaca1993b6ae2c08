"""The svmlight format, ``label id:value id:value ...``, to rows of integer ids.

`parse_lines` reads a chunk of lines from top to bottom:

1. `index_svmlight` writes the delimiters of about 32 KiB of lines (stage 1, `structural_index.py`).
2. `_read_line` reads the label and checks that delimiters alternate between colon and space up to
   the end of the line.
3. `_read_features` reads ids and values, eight features at a time.
4. Lines that do not pass, such as those with comments, tabs or a `qid`, are read once more, byte by
   byte, by `_parse_irregular`.

What `_parse_irregular` does not understand becomes an empty row, and Python parses the line
(`streaml1.sources.readers.svmlight.parse_svmlight`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.ascii import COLON, CR, NEWLINE, SPACE, TAB
from streaml1.core.jit import gil_kernel, inlined, kernel, u64
from streaml1.core.rows import MAX_IDS, is_canonical_row
from streaml1.core.simd import (
    borrowed,
    ctz,
    load_u8,
    load_u32_pairs,
    movemask,
    popcount,
    store_f64x8,
    store_u32x8,
)
from streaml1.text.numbers import (
    parse_digits,
    parse_number,
    parse_number_long,
    parse_number_short,
    parse_numbers_x8_from_words,
    parse_uint32,
)
from streaml1.text.structural_index import (
    batch_end,
    delimiter_at,
    gather_three_x8,
    index_svmlight,
    indexed_text,
    position_of,
)

__all__ = ["parse_lines"]

_MAX_IDS = u64(MAX_IDS)
_HASH_SIGN, _LAST_ASCII = map(u64, (ord("#"), 127))
_QID = u64(int.from_bytes(b"qid", "little"))
_MAX_UNSURE = u64(4)  # of eight features; with more of them the scalar loop is faster


@kernel
def parse_lines(
    start: Any,
    end: Any,
    powers: Any,
    require_label: Any,
    positions: Any,
    kinds: Any,
    ids: Any,
    values: Any,
    y: Any,
    indptr: Any,
    lines: Any,
    ends: Any,
    irregular: Any,
) -> Any:
    """Parse the lines between two addresses; the last byte must be a newline.

    Each line that is not empty becomes a row. Lines that Python must parse become empty rows.

    Parameters
    ----------
    start, end
        Addresses of the lines.
    powers
        `streaml1.text.numbers.POWERS`.
    require_label
        Treat lines without a label as irregular. Otherwise their label is NaN.
    positions, kinds
        Scratch arrays for the structural index.
    ids, values
        Receive the features.
    y
        Receives the label of each row.
    indptr
        Receives where the features of each row begin.
    lines, ends
        Receive the number of the line of each row, from 0, and the offset of its end from `start`.
    irregular
        Receives the row and the offset of each line that Python must parse, shape (rows, 2).

    Returns
    -------
    tuple
        The fields of `LineCounts`; both flags say whether the rows are canonical, see
        `streaml1.core.rows.is_canonical_row`.
    """
    ids, values, positions = borrowed((ids, values, positions))
    # The byte before a line counts as a delimiter, so positions count from one byte earlier.
    text = indexed_text(start - u64(1), positions, kinds)
    row, k, n_irregular, number = u64(0), u64(0), u64(0), u64(0)
    i, n, pos = u64(0), u64(0), start
    plain: Any = True
    indptr[0] = 0
    # Invariant: the lines before `pos` are in rows 0 to `row`, their features in 0 to `k`. The i-th
    # of the n delimiters of this batch is the first one at or after `pos`.
    while pos < end:
        if i == n:
            i = u64(1)
            stop = batch_end(pos, end)
            n = index_svmlight(text.start, pos, stop, text.positions, text.kinds)
        d = delimiter_at(text, i)
        if load_u8(d) == NEWLINE and _is_empty(pos, d):
            number += u64(1)
            i += u64(1)
            pos = d + u64(1)
            continue
        first_feature, begin = k, pos
        line = _read_line(text, positions, powers, require_label, ids, values, i, pos, k)
        i, k, label, valid = line.i, line.k, line.label, line.valid
        pos = line.end + u64(1)
        if not valid:
            k, label, valid = _parse_irregular(
                begin, line.end, first_feature, powers, require_label, ids, values
            )
            if not valid:
                irregular[n_irregular, u64(0)] = row
                irregular[n_irregular, u64(1)] = begin - start
                n_irregular += u64(1)
        plain &= is_canonical_row(ids, values, first_feature, k, _MAX_IDS)
        y[row] = label
        lines[row] = number
        ends[row] = pos - start
        row += u64(1)
        number += u64(1)
        indptr[row] = k
    return row, n_irregular, number, plain, plain


@inlined
def _is_empty(pos: Any, newline: Any) -> Any:
    """Return whether nothing but a carriage return is before a newline."""
    return newline == pos or (newline == pos + u64(1) and load_u8(pos) == CR)


class _Line(NamedTuple):
    """A line whose delimiters alternate, if it is valid."""

    i: Any
    """The first delimiter of the next line."""
    end: Any
    """The address of the newline."""
    k: Any
    """The end of the features."""
    label: Any
    valid: Any


@inlined
def _read_line(
    text: Any, positions: Any, powers: Any, require_label: Any, ids: Any, values: Any, i: Any,
    pos: Any, k: Any,
) -> Any:  # fmt: skip
    """Read the line at `pos`; the i-th delimiter is the next one. Returns a `_Line`."""
    d = delimiter_at(text, i)
    c = load_u8(d)
    label = np.nan
    if c == COLON:
        valid = not require_label
    else:
        stop = d - np.uint64(c == NEWLINE and load_u8(d - u64(1)) == CR)
        label = parse_number(pos, stop, powers)
        valid = label == label
        i += np.uint64(c != NEWLINE)
        pos = d + u64(1)
    if valid and c != NEWLINE:
        count, newline, valid = _count_features(text, i, pos)
        if count:
            first, last = i, i + u64(2) * count - u64(1)
            if valid:
                # A carriage return does not belong to the last value.
                at_end = delimiter_at(text, last) == newline
                returns = np.uint32(at_end and load_u8(newline - u64(1)) == CR)
                positions[last] -= returns
                valid = _read_features(
                    text.start, text.positions, first, count, powers, ids, values, k
                )
                positions[last] += returns
                k += count
            i = last
    while load_u8(delimiter_at(text, i)) != NEWLINE:
        i += u64(1)
    return _Line(i + u64(1), delimiter_at(text, i), k, label, valid)


@inlined
def _count_features(text: Any, i: Any, pos: Any) -> Any:
    """Count the features from `pos` to the end of the line; the i-th delimiter is the next one.

    Returns
    -------
    Their number, the address of the newline, and whether colons and spaces alternate up to it.
    """
    count = u64(0)
    # Invariant: the delimiters before i alternate between colon and space.
    while True:
        d = delimiter_at(text, i)
        c = load_u8(d)
        if c != COLON:  # a space at the end of the line, or an irregular line
            return count, d, c == NEWLINE and _is_empty(pos, d)
        d = delimiter_at(text, i + u64(1))
        c = load_u8(d)
        count += u64(1)
        if c in (NEWLINE, COLON):
            return count, d, c == NEWLINE
        i += u64(2)
        pos = d + u64(1)


@inlined
def _read_features(
    base: Any, positions: Any, i: Any, n: Any, powers: Any, ids: Any, values: Any, k: Any
) -> Any:
    """Read n features into the arrays from k on; the colon of the first one is the i-th delimiter.

    Returns whether all of them are valid.
    """
    valid: Any = True
    f = u64(0)
    ids_at, values_at = np.uint64(ids.ctypes.data), np.uint64(values.ctypes.data)
    # Invariant: the first f features are read.
    while f < n and n >= u64(8):
        f = min(f, n - u64(8))  # the last block overlaps the one before it
        first, out = i + u64(2) * f, k + f
        unsure = _read_features_x8(
            base, positions, first, powers, ids_at + u64(4) * out, values_at + u64(8) * out
        )
        n_unsure = popcount(unsure)
        while unsure:
            lane = ctz(unsure)
            unsure &= unsure - u64(1)
            ids[out + lane], values[out + lane], is_valid = _read_feature(
                base, positions, first + u64(2) * lane, powers
            )
            valid &= is_valid
        f += u64(8)
        if n_unsure > _MAX_UNSURE:
            break
    while f < n:
        ids[k + f], values[k + f], is_valid = _read_feature(base, positions, i + u64(2) * f, powers)
        valid &= is_valid
        f += u64(1)
    return valid


@inlined
def _read_features_x8(base: Any, positions: Any, i: Any, powers: Any, ids: Any, values: Any) -> Any:
    """Read eight features to two addresses; the colon of the first one is the i-th delimiter.

    Returns a bit mask of the features that must be read again, by `_read_feature`.
    """
    before, _ = load_u32_pairs(positions + u64(4) * (i - u64(1)))
    colons, ends = load_u32_pairs(positions + u64(4) * i)
    size = colons - before - u64(1)
    id_word, head, tail = gather_three_x8(
        base, positions, i - u64(1), i + u64(7), i + u64(7), i + u64(15), colons + (base - u64(8)),
        colons + (base + u64(1)), ends + (base - u64(8)),
    )  # fmt: skip
    j, id_error = parse_digits(id_word, size)
    v, value_error = parse_numbers_x8_from_words(head, tail, ends - colons - u64(1), powers)
    store_u32x8(ids, j)
    store_f64x8(values, v)
    return movemask(id_error | value_error | ((size - u64(1)) > u64(7)))


@inlined
def _read_feature(base: Any, positions: Any, i: Any, powers: Any) -> Any:
    """Return id, value and validity of the feature whose colon is the i-th delimiter."""
    pos = base + position_of(positions, i - u64(1)) + u64(1)
    colon, end = base + position_of(positions, i), base + position_of(positions, i + u64(1))
    j, error = parse_uint32(pos, colon)
    v = parse_number_short(colon + u64(1), end, powers)
    if v != v:
        v = parse_number_long(colon + u64(1), end, powers)
    return np.uint32(j), v, error == u64(0) and v == v


# Lines with comments, qid, tabs or repeated blanks


@gil_kernel
def _parse_irregular(
    pos: Any, end: Any, k: Any, powers: Any, require_label: Any, ids: Any, values: Any
) -> Any:
    """Parse one line byte by byte, writing features from k on.

    Returns
    -------
    The new end of the features, the label, and whether the line is valid.
    """
    first_feature, label = k, np.nan
    end = _comment_begin(pos, end)
    pos = _skip_blanks(pos, end)
    if pos >= end:
        return first_feature, label, False
    is_first = True
    # Invariant: the tokens before `pos` are read.
    while pos < end:
        stop = _token_end(pos, end)
        colon = pos
        while colon < stop and load_u8(colon) != COLON:
            colon += u64(1)
        if colon == stop:
            label = parse_number(pos, stop, powers)
            if not is_first or label != label:
                return first_feature, np.nan, False
        else:
            if is_first and require_label:
                return first_feature, label, False
            j, error = parse_uint32(pos, colon)
            v = parse_number(colon + u64(1), stop, powers)
            if error or v != v:
                return first_feature, np.nan, False
            ids[k] = np.uint32(j)
            values[k] = v
            k += u64(1)
        pos = _skip_blanks(stop, end)
        # A qid is skipped directly after a label only.
        if is_first and colon == stop and pos + u64(4) <= end and _is_qid(pos):
            pos = _skip_blanks(_token_end(pos, end), end)
        is_first = False
    return k, label, True


@inlined
def _comment_begin(pos: Any, end: Any) -> Any:
    """Return where the comment of a line begins, or `end` if it has none.

    Returns 0 if a byte is not ASCII or a control character that Python takes for white space.
    """
    found = end
    while pos < end:
        c = load_u8(pos)
        if c > _LAST_ASCII or (c < SPACE and c != TAB and c != CR):
            return u64(0)
        if c == _HASH_SIGN and found == end:
            found = pos
        pos += u64(1)
    return found


@inlined
def _skip_blanks(pos: Any, end: Any) -> Any:
    while pos < end and _is_blank(load_u8(pos)):
        pos += u64(1)
    return pos


@inlined
def _token_end(pos: Any, end: Any) -> Any:
    while pos < end and not _is_blank(load_u8(pos)):
        pos += u64(1)
    return pos


@inlined
def _is_blank(c: Any) -> bool:
    return bool((c == SPACE) | (c == TAB) | (c == CR))


@inlined
def _is_qid(pos: Any) -> bool:
    word = load_u8(pos) | load_u8(pos + u64(1)) << u64(8) | load_u8(pos + u64(2)) << u64(16)
    return bool(word == _QID and load_u8(pos + u64(2) + u64(1)) == COLON)
