"""Lines of svmlight to rows, as far as they are ordinary: the others are told, and left empty.

An ordinary line is ``label id:value id:value`` with a blank between, ids below 2**32, and perhaps a
blank or a carriage return at its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

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
from streaml1.text.numbers import digits, long_value, number, value, values_of_both, whole
from streaml1.text.permute import words_of_three
from streaml1.text.structural_index import (
    BLANK,
    COLON,
    NEWLINE,
    RETURN,
    TAB,
    delimiters,
    lines_at_once,
    place_of,
)

__all__ = ["rows"]

_ZERO, _ONE, _TWO, _FOUR, _EIGHT, _SIXTEEN = map(np.uint64, (0, 1, 2, 4, 8, 16))
_SEVEN, _FIFTEEN, _MOST = map(np.uint64, (7, 15, MAX_IDS))
_HASH, _LAST_ASCII = map(np.uint64, (35, 127))
_QID = np.uint64(int.from_bytes(b"qid", "little"))


@inlined
def _is_blank(c: Any) -> bool:
    return bool((c == BLANK) | (c == TAB) | (c == RETURN))


@inlined
def _after_blanks(at: Any, end: Any) -> Any:
    while at < end and _is_blank(load_u8(at)):
        at += _ONE
    return at


@inlined
def _after_cell(at: Any, end: Any) -> Any:
    while at < end and not _is_blank(load_u8(at)):
        at += _ONE
    return at


@inlined
def _without_comment(at: Any, end: Any) -> Any:
    """Where a comment begins, or `end`; 0 where a byte is not ASCII or another kind of blank."""
    found = end
    while at < end:
        c = load_u8(at)
        if c > _LAST_ASCII or (c < BLANK and c != TAB and c != RETURN):
            return _ZERO
        if c == _HASH and found == end:
            found = at
        at += _ONE
    return found


@inlined
def _is_qid(at: Any) -> bool:
    word = load_u8(at) | load_u8(at + _ONE) << _EIGHT | load_u8(at + _TWO) << _SIXTEEN
    return bool(word == _QID and load_u8(at + _TWO + _ONE) == COLON)


@gil_kernel
def _careful(at: Any, end: Any, k: Any, table: Any, labelled: Any, ids: Any, values: Any) -> Any:
    """Read one line of any blanks, with comment and qid, from the k-th feature on.

    Returns
    -------
    How many features there are then, the label, and whether it is all right.
    """
    begun, label = k, np.nan
    end = _without_comment(at, end)
    at = _after_blanks(at, end)
    if at >= end:
        return begun, label, False
    first = True
    while at < end:
        stop = _after_cell(at, end)
        colon = at
        while colon < stop and load_u8(colon) != COLON:
            colon += _ONE
        if colon == stop:
            label = number(at, stop, table)
            if not first or label != label:
                return begun, np.nan, False
        else:
            if first and labelled:
                return begun, label, False
            j, wrong = whole(at, colon)
            v = number(colon + _ONE, stop, table)
            if wrong or v != v:
                return begun, np.nan, False
            ids[k] = np.uint32(j)
            values[k] = v
            k += _ONE
        at = _after_blanks(stop, end)
        # Behind a label alone.
        if first and colon == stop and at + np.uint64(4) <= end and _is_qid(at):
            at = _after_blanks(_after_cell(at, end), end)
        first = False
    return k, label, True


@inlined
def _pair(start: Any, places: Any, i: Any, table: Any) -> Any:
    """Read the feature whose colon is the i-th delimiter: its id, its value, and if all is well."""
    at = start + place_of(places, i - _ONE) + _ONE
    colon, end = start + place_of(places, i), start + place_of(places, i + _ONE)
    j, wrong = whole(at, colon)
    v = value(colon + _ONE, end, table)
    if v != v:
        v = long_value(colon + _ONE, end, table)
    return np.uint32(j), v, wrong == _ZERO and v == v


@inlined
def _eight_pairs(start: Any, places: Any, i: Any, table: Any, ids: Any, values: Any) -> Any:
    """Read eight features to two addresses, the first one's colon being the i-th delimiter.

    Returns which of them are not sure to be right, a bit each.
    """
    before, _ = load_u32_pairs(places + _FOUR * (i - _ONE))
    colons, ends = load_u32_pairs(places + _FOUR * i)
    size = colons - before - _ONE
    id_, head, tail = words_of_three(
        start, places, i - _ONE, i + _SEVEN, i + _SEVEN, i + _FIFTEEN, colons + (start - _EIGHT),
        colons + (start + _ONE), ends + (start - _EIGHT),
    )  # fmt: skip
    j, wrong = digits(id_, size)
    v, also = values_of_both(head, tail, ends - colons - _ONE, table)
    store_u32x8(ids, j)
    store_f64x8(values, v)
    return movemask(wrong | also | ((size - _ONE) > _SEVEN))


@inlined
def _pairs(
    start: Any, places: Any, i: Any, n: Any, table: Any, ids: Any, values: Any, k: Any
) -> Any:
    """Read n features from the k-th on; whether all is well."""
    good: Any = True
    f = _ZERO
    to_ids, to_values = np.uint64(ids.ctypes.data), np.uint64(values.ctypes.data)
    while f < n and n >= _EIGHT:
        f = min(f, n - _EIGHT)  # some of the last eight are read twice
        first, at = i + _TWO * f, k + f
        unsure = _eight_pairs(
            start, places, first, table, to_ids + _FOUR * at, to_values + _EIGHT * at
        )
        n_unsure = popcount(unsure)
        while unsure:
            lane = ctz(unsure)
            unsure &= unsure - _ONE
            ids[at + lane], values[at + lane], fine = _pair(
                start, places, first + _TWO * lane, table
            )
            good &= fine
        f += _EIGHT
        if n_unsure > _FOUR:  # such are better read one by one
            break
    while f < n:
        ids[k + f], values[k + f], fine = _pair(start, places, i + _TWO * f, table)
        good &= fine
        f += _ONE
    return good


@kernel
def rows(
    start: Any,
    end: Any,
    table: Any,
    labelled: Any,
    positions: Any,
    kinds: Any,
    ids: Any,
    values: Any,
    y: Any,
    indptr: Any,
    lines: Any,
    ends: Any,
    odd: Any,
) -> Any:
    """Read the lines between two addresses, the last byte a newline.

    Each line but the blank ones becomes a row: its `ids`, `values`, label `y` (NaN without one,
    unless all have to be `labelled`), number from 0 and the `ends` of its bytes from `start`. A
    line that is not ordinary is a row without features; the row and its first byte go to `odd`.

    Returns
    -------
    How many rows, how many of them odd, how many lines, and whether all rows are plain: see
    `streaml1.core.rows.is_canonical_row`.
    """
    ids, values = borrowed((ids, values))
    base, places = start - _ONE, np.uint64(positions.ctypes.data)
    of_kinds = np.uint64(kinds.ctypes.data)
    row, k, n_odd, line = _ZERO, _ZERO, _ZERO, _ZERO
    i, n, at = _ZERO, _ZERO, start
    plain: Any = True
    indptr[0] = 0
    while at < end:
        if i == n:
            i = _ONE
            n = delimiters(base, at, lines_at_once(at, end), places, of_kinds)
        begun, begin = k, at
        d = base + place_of(places, i)
        c = load_u8(d)
        i += _ONE
        if c == NEWLINE and (d == at or (d == at + _ONE and load_u8(at) == RETURN)):
            line += _ONE
            at = d + _ONE
            continue
        good: Any = True
        label = np.nan
        if c == COLON:
            good = not labelled
            i -= _ONE
        else:
            stop = d - np.uint64(c == NEWLINE and load_u8(d - _ONE) == RETURN)
            label = number(at, stop, table)
            good = label == label
            at = d + _ONE
        if good and c != NEWLINE:
            first = i
            while True:
                d = base + place_of(places, i)
                c = load_u8(d)
                i += _ONE
                if c != COLON:  # a blank at the end, or what is odd
                    good = c == NEWLINE and (d == at or (d == at + _ONE and load_u8(at) == RETURN))
                    break
                d = base + place_of(places, i)
                c = load_u8(d)
                i += _ONE
                at = d + _ONE
                if c in (NEWLINE, COLON):
                    good = c == NEWLINE
                    break
            if good:
                count, last = (i - first) >> _ONE, i - _ONE
                returns = np.uint32(load_u8(d - _ONE) == RETURN)
                positions[last] -= returns
                good = _pairs(base, places, first, count, table, ids, values, k)
                positions[last] += returns
                k += count
        while load_u8(d) != NEWLINE:
            d = base + place_of(places, i)
            i += _ONE
        at = d + _ONE
        if not good:
            k, label, good = _careful(begin, d, begun, table, labelled, ids, values)
            if not good:
                odd[n_odd, _ZERO] = row
                odd[n_odd, _ONE] = begin - start
                n_odd += _ONE
        plain &= is_canonical_row(ids, values, begun, k, _MOST)
        y[row] = label
        lines[row] = line
        ends[row] = at - start
        row += _ONE
        line += _ONE
        indptr[row] = k
    return row, n_odd, line, plain
