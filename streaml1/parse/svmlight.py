"""Lines of svmlight to rows, as far as they are ordinary: the others are told, and left empty.

An ordinary line is ``label id:value id:value`` with a blank between, ids below 2**32, and perhaps a
blank or a carriage return at its end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.jit import gil_kernel, inlined, kernel, load_byte
from streaml1.parse.delimiters import BLANK, COLON, NEWLINE, RETURN, TAB, delimiters
from streaml1.parse.numbers import long_value, number, value, whole

__all__ = ["rows"]

_ZERO, _ONE, _TWO, _EIGHT, _SIXTEEN = map(np.uint64, (0, 1, 2, 8, 16))
_HASH, _LAST_ASCII = map(np.uint64, (35, 127))
_QID = np.uint64(int.from_bytes(b"qid", "little"))


@inlined
def _is_blank(c: Any) -> bool:
    return bool((c == BLANK) | (c == TAB) | (c == RETURN))


@inlined
def _after_blanks(at: Any, end: Any) -> Any:
    while at < end and _is_blank(load_byte(at)):
        at += _ONE
    return at


@inlined
def _after_cell(at: Any, end: Any) -> Any:
    while at < end and not _is_blank(load_byte(at)):
        at += _ONE
    return at


@inlined
def _without_comment(at: Any, end: Any) -> Any:
    """Where a comment begins, or `end`; 0 where a byte is not ASCII or another kind of blank."""
    found = end
    while at < end:
        c = load_byte(at)
        if c > _LAST_ASCII or (c < BLANK and c != TAB and c != RETURN):
            return _ZERO
        if c == _HASH and found == end:
            found = at
        at += _ONE
    return found


@inlined
def _is_qid(at: Any) -> bool:
    word = load_byte(at) | load_byte(at + _ONE) << _EIGHT | load_byte(at + _TWO) << _SIXTEEN
    return bool(word == _QID and load_byte(at + _TWO + _ONE) == COLON)


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
        while colon < stop and load_byte(colon) != COLON:
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


@kernel
def rows(
    start: Any,
    end: Any,
    table: Any,
    labelled: Any,
    positions: Any,
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
    How many rows, how many of them odd, and how many lines.
    """
    n = delimiters(start, end, positions)
    row, k, n_odd, line = _ZERO, _ZERO, _ZERO, _ZERO
    i, at = _ZERO, start
    indptr[0] = 0
    while i < n:
        begun, begin = k, at
        d = start + np.uint64(positions[i])
        c = load_byte(d)
        if c == NEWLINE and (d == at or (d == at + _ONE and load_byte(at) == RETURN)):
            i += _ONE
            line += _ONE
            at = d + _ONE
            continue
        good = True
        label = np.nan
        if c == COLON:
            good = not labelled
        else:
            stop = d - np.uint64(c == NEWLINE and load_byte(d - _ONE) == RETURN)
            label = number(at, stop, table)
            good = label == label
            if good:
                i += _ONE
                at = d + _ONE
        if good and c != NEWLINE:
            while True:
                d = start + np.uint64(positions[i])
                if load_byte(d) != COLON:
                    good = load_byte(d) == NEWLINE and (
                        d == at or (d == at + _ONE and load_byte(at) == RETURN)
                    )
                    i += np.uint64(good)
                    at = d + _ONE
                    break
                e = start + np.uint64(positions[i + _ONE])
                c = load_byte(e)
                stop = e
                if c == NEWLINE:
                    stop -= np.uint64(load_byte(e - _ONE) == RETURN)
                j, wrong = whole(at, d)
                v = value(d + _ONE, stop, table)
                if v != v:
                    v = long_value(d + _ONE, stop, table)
                ids[k] = np.uint32(j)
                values[k] = v
                k += _ONE
                if wrong or c == COLON or v != v:
                    good = False
                    break
                i += _TWO
                at = e + _ONE
                if c == NEWLINE:
                    break
        if not good:
            while load_byte(start + np.uint64(positions[i])) != NEWLINE:
                i += _ONE
            at = start + np.uint64(positions[i]) + _ONE
            i += _ONE
            k, label, good = _careful(begin, at - _ONE, begun, table, labelled, ids, values)
            if not good:
                odd[n_odd, _ZERO] = row
                odd[n_odd, _ONE] = begin - start
                n_odd += _ONE
        y[row] = label
        lines[row] = line
        ends[row] = at - start
        row += _ONE
        line += _ONE
        indptr[row] = k
    return row, n_odd, line
