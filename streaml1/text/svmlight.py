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
from streaml1.core.jit import gil_kernel, inlined, kernel
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

_ZERO, _ONE, _TWO, _FOUR, _EIGHT, _SIXTEEN = map(np.uint64, (0, 1, 2, 4, 8, 16))
_SEVEN, _FIFTEEN, _MAX_IDS = map(np.uint64, (7, 15, MAX_IDS))
_HASH_SIGN, _LAST_ASCII = map(np.uint64, (ord("#"), 127))
_QID = np.uint64(int.from_bytes(b"qid", "little"))
_MAX_UNSURE = np.uint64(4)  # of eight features; with more of them the scalar loop is faster


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
        The fields of `LineCounts`; both flags tell whether the rows are canonical, see
        `streaml1.core.rows.is_canonical_row`.
    """
    ids, values, positions = borrowed((ids, values, positions))
    # The byte before a line counts as a delimiter, so positions count from one byte earlier.
    text = indexed_text(start - _ONE, positions, kinds)
    row, k, n_irregular, number = _ZERO, _ZERO, _ZERO, _ZERO
    i, n, pos = _ZERO, _ZERO, start
    plain: Any = True
    indptr[0] = 0
    # Invariant: the lines before `pos` are in rows 0 to `row`, their features in 0 to `k`. The i-th
    # of the n delimiters of this batch is the first one at or after `pos`.
    while pos < end:
        if i == n:
            i = _ONE
            stop = batch_end(pos, end)
            n = index_svmlight(text.start, pos, stop, text.positions, text.kinds)
        d = delimiter_at(text, i)
        if load_u8(d) == NEWLINE and _is_empty(pos, d):
            number += _ONE
            i += _ONE
            pos = d + _ONE
            continue
        first_feature, begin = k, pos
        line = _read_line(text, positions, powers, require_label, ids, values, i, pos, k)
        i, k, label, valid = line.i, line.k, line.label, line.valid
        pos = line.end + _ONE
        if not valid:
            k, label, valid = _parse_irregular(
                begin, line.end, first_feature, powers, require_label, ids, values
            )
            if not valid:
                irregular[n_irregular, _ZERO] = row
                irregular[n_irregular, _ONE] = begin - start
                n_irregular += _ONE
        plain &= is_canonical_row(ids, values, first_feature, k, _MAX_IDS)
        y[row] = label
        lines[row] = number
        ends[row] = pos - start
        row += _ONE
        number += _ONE
        indptr[row] = k
    return row, n_irregular, number, plain, plain


@inlined
def _is_empty(pos: Any, newline: Any) -> Any:
    """Return whether nothing but a carriage return is before a newline."""
    return newline == pos or (newline == pos + _ONE and load_u8(pos) == CR)


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
        stop = d - np.uint64(c == NEWLINE and load_u8(d - _ONE) == CR)
        label = parse_number(pos, stop, powers)
        valid = label == label
        i += np.uint64(c != NEWLINE)
        pos = d + _ONE
    if valid and c != NEWLINE:
        count, newline, valid = _count_features(text, i, pos)
        if count:
            first, last = i, i + _TWO * count - _ONE
            if valid:
                # A carriage return does not belong to the last value.
                at_end = delimiter_at(text, last) == newline
                returns = np.uint32(at_end and load_u8(newline - _ONE) == CR)
                positions[last] -= returns
                valid = _read_features(
                    text.start, text.positions, first, count, powers, ids, values, k
                )
                positions[last] += returns
                k += count
            i = last
    while load_u8(delimiter_at(text, i)) != NEWLINE:
        i += _ONE
    return _Line(i + _ONE, delimiter_at(text, i), k, label, valid)


@inlined
def _count_features(text: Any, i: Any, pos: Any) -> Any:
    """Count the features from `pos` to the end of the line; the i-th delimiter is the next one.

    Returns
    -------
    Their number, the address of the newline, and whether colons and spaces alternate up to it.
    """
    count = _ZERO
    # Invariant: the delimiters before i alternate between colon and space.
    while True:
        d = delimiter_at(text, i)
        c = load_u8(d)
        if c != COLON:  # a space at the end of the line, or an irregular line
            return count, d, c == NEWLINE and _is_empty(pos, d)
        d = delimiter_at(text, i + _ONE)
        c = load_u8(d)
        count += _ONE
        if c in (NEWLINE, COLON):
            return count, d, c == NEWLINE
        i += _TWO
        pos = d + _ONE


@inlined
def _read_features(
    base: Any, positions: Any, i: Any, n: Any, powers: Any, ids: Any, values: Any, k: Any
) -> Any:
    """Read n features into the arrays from k on; the colon of the first one is the i-th delimiter.

    Returns whether all of them are valid.
    """
    valid: Any = True
    f = _ZERO
    ids_at, values_at = np.uint64(ids.ctypes.data), np.uint64(values.ctypes.data)
    # Invariant: the first f features are read.
    while f < n and n >= _EIGHT:
        f = min(f, n - _EIGHT)  # the last block overlaps the one before it
        first, out = i + _TWO * f, k + f
        unsure = _read_features_x8(
            base, positions, first, powers, ids_at + _FOUR * out, values_at + _EIGHT * out
        )
        n_unsure = popcount(unsure)
        while unsure:
            lane = ctz(unsure)
            unsure &= unsure - _ONE
            ids[out + lane], values[out + lane], is_valid = _read_feature(
                base, positions, first + _TWO * lane, powers
            )
            valid &= is_valid
        f += _EIGHT
        if n_unsure > _MAX_UNSURE:
            break
    while f < n:
        ids[k + f], values[k + f], is_valid = _read_feature(base, positions, i + _TWO * f, powers)
        valid &= is_valid
        f += _ONE
    return valid


@inlined
def _read_features_x8(base: Any, positions: Any, i: Any, powers: Any, ids: Any, values: Any) -> Any:
    """Read eight features to two addresses; the colon of the first one is the i-th delimiter.

    Returns a bit mask of the features that must be read again, by `_read_feature`.
    """
    before, _ = load_u32_pairs(positions + _FOUR * (i - _ONE))
    colons, ends = load_u32_pairs(positions + _FOUR * i)
    size = colons - before - _ONE
    id_word, head, tail = gather_three_x8(
        base, positions, i - _ONE, i + _SEVEN, i + _SEVEN, i + _FIFTEEN, colons + (base - _EIGHT),
        colons + (base + _ONE), ends + (base - _EIGHT),
    )  # fmt: skip
    j, id_error = parse_digits(id_word, size)
    v, value_error = parse_numbers_x8_from_words(head, tail, ends - colons - _ONE, powers)
    store_u32x8(ids, j)
    store_f64x8(values, v)
    return movemask(id_error | value_error | ((size - _ONE) > _SEVEN))


@inlined
def _read_feature(base: Any, positions: Any, i: Any, powers: Any) -> Any:
    """Return id, value and validity of the feature whose colon is the i-th delimiter."""
    pos = base + position_of(positions, i - _ONE) + _ONE
    colon, end = base + position_of(positions, i), base + position_of(positions, i + _ONE)
    j, error = parse_uint32(pos, colon)
    v = parse_number_short(colon + _ONE, end, powers)
    if v != v:
        v = parse_number_long(colon + _ONE, end, powers)
    return np.uint32(j), v, error == _ZERO and v == v


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
            colon += _ONE
        if colon == stop:
            label = parse_number(pos, stop, powers)
            if not is_first or label != label:
                return first_feature, np.nan, False
        else:
            if is_first and require_label:
                return first_feature, label, False
            j, error = parse_uint32(pos, colon)
            v = parse_number(colon + _ONE, stop, powers)
            if error or v != v:
                return first_feature, np.nan, False
            ids[k] = np.uint32(j)
            values[k] = v
            k += _ONE
        pos = _skip_blanks(stop, end)
        # A qid is skipped directly after a label only.
        if is_first and colon == stop and pos + np.uint64(4) <= end and _is_qid(pos):
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
            return _ZERO
        if c == _HASH_SIGN and found == end:
            found = pos
        pos += _ONE
    return found


@inlined
def _skip_blanks(pos: Any, end: Any) -> Any:
    while pos < end and _is_blank(load_u8(pos)):
        pos += _ONE
    return pos


@inlined
def _token_end(pos: Any, end: Any) -> Any:
    while pos < end and not _is_blank(load_u8(pos)):
        pos += _ONE
    return pos


@inlined
def _is_blank(c: Any) -> bool:
    return bool((c == SPACE) | (c == TAB) | (c == CR))


@inlined
def _is_qid(pos: Any) -> bool:
    word = load_u8(pos) | load_u8(pos + _ONE) << _EIGHT | load_u8(pos + _TWO) << _SIXTEEN
    return bool(word == _QID and load_u8(pos + _TWO + _ONE) == COLON)
